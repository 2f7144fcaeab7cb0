#include "convert/convert_stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kernels/row.h"

enum { CHUNK = 8192 }; /* elements decoded at a time; a multiple of every block */

typedef struct {
    float values[CHUNK];
} scratch;

struct fy_convert_stream {
    const fy_convert_plan *plan; /* view */
    fy_kernels kernels;
    scratch *scratch; /* owned; per thread */
};

fy_convert_stream *fy_convert_stream_new(const fy_convert_plan *plan, int n_threads, fy_err *e)
{
    fy_convert_stream *s = calloc(1, sizeof *s);
    if (s != NULL)
        s->scratch = calloc((size_t)n_threads, sizeof *s->scratch);
    if (s == NULL || s->scratch == NULL) {
        fy_convert_stream_free(s);
        fy_nomem(e);
        return NULL;
    }
    s->plan = plan;
    s->kernels = fy_kernels_for(fy_cpu_features());
    return s;
}

void fy_convert_stream_free(fy_convert_stream *s)
{
    if (s == NULL)
        return;
    free(s->scratch);
    free(s);
}

/* `row` is the checkpoint's. */
static int tell_fault(const fy_plan_tensor *t, uint64_t row, const fy_row_fault *fault, fy_err *e)
{
    char name[FY_ROW_NAME_BYTES], hf[FY_ROW_NAME_BYTES];
    fy_plan_name(t, name);
    fy_row_name(t->row->hf, t->layer, hf);
    if (fault->overflow)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "tensor '%s' (%s), row %" PRIu64 ", element %" PRId64
                       ": %g is too large for %s; use --outtype bf16 or f32",
                       name, hf, row, fault->index, (double)fault->value, fy_type_name(t->type));
    return fy_fail(e, FY_EFORMAT,
                   "tensor '%s' (%s), row %" PRIu64 ", element %" PRId64
                   " is %g; a weight must be a finite number, the checkpoint is damaged",
                   name, hf, row, fault->index, (double)fault->value);
}

static int convert_row(fy_convert_stream *s, const fy_plan_tensor *t, uint64_t row, uint64_t n,
                       uint8_t *out, scratch *tmp, fy_err *e)
{
    uint64_t size = fy_type_get(t->src_type)->bytes;
    const uint8_t *src =
        t->src->t->data + row * n * size; /* inside the tensor: the plan checked its shape */
    for (uint64_t at = 0; at < n; at += CHUNK) {
        uint64_t k = n - at < CHUNK ? n - at : CHUNK;
        fy_row_fault fault;
        fy_row_decode(&s->kernels, t->src_type, tmp->values, src + at * size, (int64_t)k);
        if (fy_row_encode(&s->kernels, t->type, out, tmp->values, (int64_t)k, &fault)) {
            fault.index += (int64_t)at;
            return tell_fault(t, row, &fault, e);
        }
        out += fy_type_row_bytes(t->type, k);
    }
    return 0;
}

/* Which source row becomes row r: pairs (j, j + half) of a head become neighbours. */
static uint64_t source_row(const fy_plan_tensor *t, uint64_t head_dim, uint64_t r)
{
    if (t->row->transform == FY_X_COPY)
        return r;
    uint64_t in_head = r % head_dim;
    return r - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
}

/* Gives the pages of the rows back; a head's rows are read in another order, so whole heads. */
static void drop_rows(const fy_plan_tensor *t, uint64_t head_dim, uint64_t row, uint64_t n_rows,
                      uint64_t row_elems)
{
    uint64_t bytes = row_elems * fy_type_get(t->src_type)->bytes, end = row + n_rows;
    if (t->row->transform != FY_X_COPY)
        row -= row % head_dim;
    fy_st_drop(t->src->file, t->src->t, row * bytes, (end - row) * bytes);
}

static int fill_computed(const fy_convert_stream *s, const fy_plan_tensor *t, float *out)
{
    for (uint64_t i = 0; i < t->ne[0]; i++)
        out[i] = fy_llama3_freq(s->plan->config, (uint32_t)i);
    return 0;
}

int fy_convert_fill(void *stream, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                    fy_err *e)
{
    fy_convert_stream *s = stream;
    const fy_plan_tensor *t = &s->plan->tensors[i];
    if (t->src == NULL)
        return fill_computed(s, t, out);
    uint64_t head_dim = s->plan->config->hp.head_dim, n = t->ne[0];
    if (t->n_dims == 1 && t->row->transform != FY_X_COPY) { /* a bias: its elements are the rows */
        n_rows = n;
        n = 1;
    }
    uint8_t *to = out;
    uint64_t out_bytes = fy_type_row_bytes(t->type, n);
    for (uint64_t r = row; r < row + n_rows; r++, to += out_bytes) {
        if (convert_row(s, t, source_row(t, head_dim, r), n, to, &s->scratch[thread], e))
            return -1;
    }
    drop_rows(t, head_dim, row, n_rows, n);
    return 0;
}
