/* Fills rows of the output: reads them from the checkpoint, permutes, transposes, splits or
 * computes them as the plan says, encodes them, and drops the pages that have been read. */
#include "convert/write/convert_stream.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/str.h"
#include "convert/source/checkpoint.h"
#include "kernels/row.h"

enum {
    CHUNK = 8192, /* elements decoded at a time; a multiple of every block */
    TILE_ROWS = 256,
    TILE_COLS = 256, /* a multiple of every block */
};

/* Per thread. The tile is that of transposed tensors. */
typedef struct fy_convert_scratch {
    float values[CHUNK];
    float tile[TILE_ROWS][TILE_COLS];
} scratch;

/* Rows of one source, one below the other, of n elements each. */
typedef struct {
    const fy_plan_tensor *t;
    const fy_ckpt_tensor *from;
    uint64_t n_rows, n;
} source;

fy_convert_stream *fy_convert_stream_new(const fy_convert_plan *plan, int n_threads, fy_err *e)
{
    fy_convert_stream *s = calloc(1, sizeof *s);
    if (s != NULL)
        s->scratch = calloc((size_t)n_threads, sizeof *s->scratch);
    if (s != NULL)
        s->done = calloc(plan->n_tensors > 0 ? plan->n_tensors : 1, sizeof *s->done);
    if (s == NULL || s->scratch == NULL || s->done == NULL) {
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
    free((void *)(uintptr_t)s->done);
    free(s);
}

static source source_of(const fy_plan_tensor *t, const fy_ckpt_tensor *from, uint64_t n)
{
    return (source){.t = t, .from = from, .n = n, .n_rows = fy_ckpt_n_elements(from) / n};
}

/* Row and element are the checkpoint's. */
static int tell_fault(const source *src, uint64_t row, int64_t element, const fy_row_fault *fault,
                      fy_err *e)
{
    char name[FY_ROW_NAME_BYTES], hf[FY_ROW_NAME_BYTES];
    fy_plan_name(src->t, name);
    fy_quote(hf, sizeof hf, src->from->name);
    const char *remedy =
        fy_type_get(src->t->type)->block == 1 ? " (--allow-nonfinite keeps such values)" : "";
    if (fault->overflow)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "tensor '%s' (%s), row %" PRIu64 ", element %" PRId64
                       ": %g is too large for %s; use --outtype bf16 or f32%s",
                       name, hf, row, element, (double)fault->value, fy_type_name(src->t->type),
                       remedy);
    return fy_fail(e, FY_EFORMAT,
                   "tensor '%s' (%s), row %" PRIu64 ", element %" PRId64
                   " is %g; a weight must be a finite number, the checkpoint is damaged%s",
                   name, hf, row, element, (double)fault->value, remedy);
}

/* As fy_row_encode; what is allowed to is written as it is. */
static int encode(fy_convert_stream *s, fy_type type, void *out, const float *x, uint64_t n,
                  fy_row_fault *fault)
{
    if (fy_row_encode(&s->kernels, type, out, x, (int64_t)n, &s->how, fault) == 0)
        return 0;
    if (!s->allow_nonfinite || fy_type_get(type)->block != 1)
        return -1;
    atomic_fetch_add(&s->n_nonfinite, (uint64_t)fy_row_count_faults(type, x, (int64_t)n));
    fy_row_encode_any(&s->kernels, type, out, x, (int64_t)n);
    return 0;
}

/* A table and hyperparameters that disagree about the shape of a source. */
static int out_of_source(const source *src, fy_err *e)
{
    char name[FY_ROW_NAME_BYTES], hf[FY_ROW_NAME_BYTES];
    fy_plan_name(src->t, name);
    return fy_fail(e, FY_EFORMAT, "tensor '%s' needs more rows than %s has", name,
                   fy_quote(hf, sizeof hf, src->from->name));
}

/* --- choice of rows --------------------------------------------------------------------------- */

static int convert_row(fy_convert_stream *s, const source *src, uint64_t row, uint8_t *out,
                       scratch *tmp, fy_err *e)
{
    bool add_one = src->t->transform == FY_X_ADD_ONE;
    for (uint64_t at = 0; at < src->n; at += CHUNK) {
        uint64_t k = src->n - at < CHUNK ? src->n - at : CHUNK;
        fy_row_fault fault;
        fy_ckpt_read(&s->kernels, src->from, row * src->n + at, k, tmp->values);
        for (uint64_t i = 0; i < k && add_one; i++)
            tmp->values[i] += 1.0F;
        if (encode(s, src->t->type, out, tmp->values, k, &fault))
            return tell_fault(src, row, fault.index + (int64_t)at, &fault, e);
        out += fy_type_row_bytes(src->t->type, k);
    }
    return 0;
}

enum { TOGETHER = 8 }; /* rows of an adapted matrix */

/* As convert_row for rows of a matrix that adapters change, side by side in pieces. */
static int convert_adapted(fy_convert_stream *s, const source *src, const uint64_t *rows,
                           int n_rows, uint8_t *out, scratch *tmp, fy_err *e)
{
    fy_type type = src->t->type;
    for (uint64_t at = 0; at < src->n; at += CHUNK / TOGETHER) {
        uint64_t k = src->n - at < CHUNK / TOGETHER ? src->n - at : CHUNK / TOGETHER;
        fy_ckpt_read_rows(&s->kernels, src->from, rows, n_rows, at, k, tmp->values);
        for (int r = 0; r < n_rows; r++) {
            fy_row_fault fault;
            uint8_t *to = out + (uint64_t)r * fy_type_row_bytes(type, src->n);
            if (encode(s, type, to + fy_type_row_bytes(type, at), tmp->values + (uint64_t)r * k, k,
                       &fault))
                return tell_fault(src, rows[r], fault.index + (int64_t)at, &fault, e);
        }
    }
    return 0;
}

static bool is_adapted_matrix(const source *src)
{
    return src->from->delta != NULL && src->from->rank == 2 && src->n == src->from->shape[1];
}

static bool chooses_rows(fy_transform x)
{
    return x >= FY_X_PERMUTE_Q;
}

/* Rows [row, row + n_rows) of the output out of one source, whose own rows are counted from 0. */
static int convert_rows(fy_convert_stream *s, const source *src, uint64_t row, uint64_t n_rows,
                        uint8_t *out, scratch *tmp, fy_err *e)
{
    uint64_t out_bytes = fy_type_row_bytes(src->t->type, src->n), low = UINT64_MAX, high = 0;
    int together = is_adapted_matrix(src) ? TOGETHER : 1, n = 0;
    uint64_t from[TOGETHER];
    for (uint64_t r = row; r < row + n_rows; r++) {
        from[n] = chooses_rows(src->t->transform)
                      ? fy_transform_row(&s->plan->config->hp, src->t->row, r)
                      : r;
        low = from[n] < low ? from[n] : low;
        high = from[n] > high ? from[n] : high;
        if (from[n] >= src->n_rows)
            return out_of_source(src, e);
        if (++n < together && r + 1 < row + n_rows)
            continue;
        int rc = together > 1 ? convert_adapted(s, src, from, n, out, tmp, e)
                              : convert_row(s, src, from[0], out, tmp, e);
        if (rc)
            return -1;
        out += (uint64_t)n * out_bytes;
        n = 0;
    }
    /* Rows in between that others need are read again. */
    if (n_rows > 0)
        fy_ckpt_drop(src->from, low * src->n, (high + 1 - low) * src->n);
    return 0;
}

/* --- transposition ---------------------------------------------------------------------------- */

/* What of the source [n_matrices, n_in, width] becomes rows of the output. */
typedef struct {
    uint64_t n_in, width;
    uint64_t from, n_out; /* columns [from, from + n_out) of a source row */
} turned;

static turned turn_of(const fy_plan_tensor *t)
{
    turned x = {.n_in = t->ne[0], .n_out = t->ne[1], .width = t->ne[1]};
    if (t->transform != FY_X_TRANSPOSE)
        x.width *= 2;
    if (t->transform == FY_X_TRANSPOSE_SECOND_HALF)
        x.from = x.n_out;
    return x;
}

/* Columns [col, col + n_cols) of n_rows rows of the output, from row `first` of the matrix on. */
static int turn_tile(fy_convert_stream *s, const source *src, const turned *x, uint64_t matrix,
                     uint64_t first, uint64_t n_rows, uint64_t col, uint64_t n_cols, uint8_t *out,
                     scratch *tmp, fy_err *e)
{
    uint64_t row_bytes = fy_type_row_bytes(src->t->type, x->n_in);
    uint64_t source_row = matrix * x->n_in + col;
    for (uint64_t i = 0; i < n_cols; i++) {
        uint64_t at = (source_row + i) * x->width + x->from + first;
        fy_ckpt_read(&s->kernels, src->from, at, n_rows, tmp->values);
        for (uint64_t k = 0; k < n_rows; k++)
            tmp->tile[k][i] = tmp->values[k];
    }
    out += fy_type_row_bytes(src->t->type, col);
    for (uint64_t k = 0; k < n_rows; k++) {
        fy_row_fault fault;
        if (encode(s, src->t->type, out + k * row_bytes, tmp->tile[k], n_cols, &fault))
            return tell_fault(src, source_row + (uint64_t)fault.index,
                              (int64_t)(x->from + first + k), &fault, e);
    }
    return 0;
}

/* A tile at a time. Every row of the output needs all pages of its matrix: they are dropped after
 * its last row. */
static int turn_rows(fy_convert_stream *s, const source *src, const turned *x, uint64_t row,
                     uint64_t n_rows, uint8_t *out, scratch *tmp, fy_err *e)
{
    uint64_t row_bytes = fy_type_row_bytes(src->t->type, x->n_in);
    if ((row + n_rows - 1) / x->n_out >= src->n_rows / x->n_in)
        return out_of_source(src, e);
    while (n_rows > 0) {
        uint64_t matrix = row / x->n_out, first = row % x->n_out, n = x->n_out - first;
        n = n < n_rows ? n : n_rows;
        n = n < TILE_ROWS ? n : TILE_ROWS;
        for (uint64_t col = 0; col < x->n_in; col += TILE_COLS) {
            uint64_t n_cols = x->n_in - col < TILE_COLS ? x->n_in - col : TILE_COLS;
            if (turn_tile(s, src, x, matrix, first, n, col, n_cols, out, tmp, e))
                return -1;
        }
        uint64_t elems = x->n_in * x->width;
        if (first + n == x->n_out)
            fy_ckpt_drop(src->from, matrix * elems, elems);
        row += n;
        n_rows -= n;
        out += n * row_bytes;
    }
    return 0;
}

/* --- all -------------------------------------------------------------------------------------- */

static int fill_computed(const fy_convert_stream *s, const fy_plan_tensor *t, void *out)
{
    const fy_hf_config *c = s->plan->config;
    float *to = out;
    for (uint64_t i = 0; i < t->ne[0]; i++)
        to[i] = t->transform == FY_X_LLAMA3_FREQS    ? fy_llama3_freq(c, (uint32_t)i)
                : t->transform == FY_X_LONG_FACTORS  ? c->long_factors[i]
                : t->transform == FY_X_SHORT_FACTORS ? c->short_factors[i]
                                                     : 0;
    return 0;
}

static int fill_from(fy_convert_stream *s, const fy_plan_tensor *t, const fy_ckpt_tensor *from,
                     uint64_t row, uint64_t n_rows, void *out, int thread, fy_err *e)
{
    scratch *tmp = &s->scratch[thread];
    if (fy_transform_is_transpose(t->transform)) {
        turned x = turn_of(t);
        source src = source_of(t, from, x.width);
        return turn_rows(s, &src, &x, row, n_rows, out, tmp, e);
    }
    if (t->n_dims == 1 && chooses_rows(t->transform)) { /* a bias: its elements are the rows */
        source src = source_of(t, from, 1);
        return convert_rows(s, &src, 0, t->ne[0], out, tmp, e);
    }
    source src = source_of(t, from, t->ne[0]);
    return convert_rows(s, &src, row, n_rows, out, tmp, e);
}

static int fill_experts(fy_convert_stream *s, const fy_plan_tensor *t, uint64_t row,
                        uint64_t n_rows, void *out, int thread, fy_err *e)
{
    uint8_t *to = out;
    uint64_t per_expert = t->ne[1]; /* [expert, row, element] */
    while (n_rows > 0) {
        uint64_t in_expert = row % per_expert, n = per_expert - in_expert;
        n = n < n_rows ? n : n_rows;
        if (fill_from(s, t, t->experts[row / per_expert], in_expert, n, to, thread, e))
            return -1;
        row += n;
        n_rows -= n;
        to += n * fy_type_row_bytes(t->type, t->ne[0]);
    }
    return 0;
}

/* Pages that another thread fetched again after another had dropped them. */
static void drop_all(const fy_convert_stream *s, const fy_plan_tensor *t)
{
    for (uint32_t i = 0; i < (t->experts != NULL ? s->plan->config->hp.n_expert : 1); i++) {
        const fy_ckpt_tensor *from = t->experts != NULL ? t->experts[i] : t->src;
        fy_ckpt_drop(from, 0, fy_ckpt_n_elements(from));
    }
}

int fy_convert_fill(void *stream, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                    fy_err *e)
{
    fy_convert_stream *s = stream;
    const fy_plan_tensor *t = &s->plan->tensors[i];
    if (t->src == NULL)
        return fill_computed(s, t, out);
    int rc = t->experts != NULL ? fill_experts(s, t, row, n_rows, out, thread, e)
                                : fill_from(s, t, t->src, row, n_rows, out, thread, e);
    if (rc == 0 && atomic_fetch_add(&s->done[i], n_rows) + n_rows == t->ne[1] * t->ne[2])
        drop_all(s, t);
    return rc;
}
