/* Fills rows of the output: reads them from the checkpoint, permutes, transposes, splits or
 * computes them as the plan says, encodes them, and drops the pages that have been read. */
#include "convert/write/convert_stream.h"

#include <inttypes.h>
#include <math.h>
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

/* A row that is MXFP4 in both: its bytes in another order. A scale of 255 is a NaN. */
static int copy_mxfp4(const source *src, uint64_t row, uint8_t *out, fy_err *e)
{
    fy_block_mxfp4 *blocks = (fy_block_mxfp4 *)(void *)out;
    fy_ckpt_read_mxfp4(src->from, row * src->n, src->n, blocks);
    for (uint64_t i = 0; i < src->n / FY_QK; i++) {
        const fy_row_fault fault = {.index = (int64_t)(i * FY_QK), .value = NAN};
        if (blocks[i].e == UINT8_MAX)
            return tell_fault(src, row, fault.index, &fault, e);
    }
    return 0;
}

/* What the family makes of n values of a row of the checkpoint. */
static void change(const fy_convert_stream *s, const source *src, uint64_t row, float *x,
                   uint64_t n)
{
    const fy_transform t = src->t->transform;
    for (uint64_t i = 0; i < n && t == FY_X_ADD_ONE; i++)
        x[i] += 1.0F;
    for (uint64_t i = 0; i < n && t == FY_X_ONE_MINUS; i++)
        x[i] = 1.0F - x[i];
    const bool exponent = t == FY_X_NEG_EXP || t == FY_X_VALUE_NEG_EXP;
    for (uint64_t i = 0; i < n && exponent; i++)
        x[i] = (float)-exp((double)x[i]);
    fy_hf_fold(s->plan->config, src->t->row->slot, row, x, n);
}

/* n elements of a row, from column `at` of the output on. */
static void read_row(fy_convert_stream *s, const source *src, uint64_t row, uint64_t at, uint64_t n,
                     float *out)
{
    const fy_hparams *hp = &s->plan->config->hp;
    const uint64_t run = src->t->transform == FY_X_VALUE_COLUMNS ? fy_dim_of(hp, FY_D_SSM_HEAD) : n;
    for (uint64_t i = 0, k; i < n; i += k) {
        const uint64_t in_run = run == n ? 0 : (at + i) % run;
        k = run - in_run < n - i ? run - in_run : n - i;
        fy_ckpt_read(&s->kernels, src->from,
                     row * src->n + (run == n ? at : fy_value_column(hp, at + i)), k, out + i);
    }
}

static int convert_row(fy_convert_stream *s, const source *src, uint64_t row, uint8_t *out,
                       scratch *tmp, fy_err *e)
{
    if (src->from->dtype == FY_DT_F4 && src->t->type == FY_MXFP4)
        return copy_mxfp4(src, row, out, e);
    for (uint64_t at = 0; at < src->n; at += CHUNK) {
        uint64_t k = src->n - at < CHUNK ? src->n - at : CHUNK;
        fy_row_fault fault;
        read_row(s, src, row, at, k, tmp->values);
        change(s, src, row, tmp->values, k);
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
            change(s, src, rows[r], tmp->values + (uint64_t)r * k, k);
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
    return src->from->delta != NULL && src->from->rank == 2 && src->n == src->from->shape[1] &&
           src->t->transform != FY_X_VALUE_COLUMNS;
}

static bool chooses_rows(fy_transform x)
{
    return x >= FY_X_PERMUTE_Q;
}

/* A row that the source does not have. */
static int pad_row(fy_convert_stream *s, const source *src, uint8_t *out, scratch *tmp, fy_err *e)
{
    fy_row_fault fault;
    memset(tmp->values, 0, CHUNK * sizeof *tmp->values);
    for (uint64_t at = 0; at < src->n; at += CHUNK) {
        uint64_t k = src->n - at < CHUNK ? src->n - at : CHUNK;
        if (encode(s, src->t->type, out, tmp->values, k, &fault))
            return tell_fault(src, 0, fault.index, &fault, e);
        out += fy_type_row_bytes(src->t->type, k);
    }
    return 0;
}

/* Rows [row, row + n_rows) of the output out of one source, whose own rows are counted from 0. */
static int convert_rows(fy_convert_stream *s, const source *src, uint64_t row, uint64_t n_rows,
                        uint8_t *out, scratch *tmp, fy_err *e)
{
    uint64_t out_bytes = fy_type_row_bytes(src->t->type, src->n), low = UINT64_MAX, high = 0;
    int together = is_adapted_matrix(src) && src->t->transform != FY_X_PAD_ROWS ? TOGETHER : 1;
    int n = 0;
    uint64_t from[TOGETHER];
    for (uint64_t r = row; r < row + n_rows; r++) {
        from[n] = chooses_rows(src->t->transform)
                      ? fy_transform_row(&s->plan->config->hp, src->t->row, r)
                      : r;
        if (src->t->transform == FY_X_PAD_ROWS && r >= src->n_rows) {
            if (pad_row(s, src, out, tmp, e))
                return -1;
            out += out_bytes;
            continue;
        }
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
    if (n_rows > 0 && low <= high)
        fy_ckpt_drop(src->from, low * src->n, (high + 1 - low) * src->n);
    return 0;
}

/* --- transposition ---------------------------------------------------------------------------- */

/* What of the source [n_matrices, n_in, width] becomes rows of the output. */
typedef struct {
    uint64_t n_in, width;
    uint64_t from, n_out, step; /* columns from, from + step, ... of a source row, n_out of them */
} turned;

static turned turn_of(const fy_plan_tensor *t)
{
    turned x = {.n_in = t->ne[0], .n_out = t->ne[1], .width = t->ne[1], .step = 1};
    if (t->transform != FY_X_TRANSPOSE)
        x.width *= 2;
    if (t->transform == FY_X_TRANSPOSE_SECOND_HALF)
        x.from = x.n_out;
    if (t->transform == FY_X_TRANSPOSE_EVEN || t->transform == FY_X_TRANSPOSE_ODD)
        x.step = 2;
    if (t->transform == FY_X_TRANSPOSE_ODD)
        x.from = 1;
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
        uint64_t at = (source_row + i) * x->width + x->from + first * x->step;
        fy_ckpt_read(&s->kernels, src->from, at, (n_rows - 1) * x->step + 1, tmp->values);
        for (uint64_t k = 0; k < n_rows; k++)
            tmp->tile[k][i] = tmp->values[k * x->step];
    }
    out += fy_type_row_bytes(src->t->type, col);
    for (uint64_t k = 0; k < n_rows; k++) {
        fy_row_fault fault;
        if (encode(s, src->t->type, out + k * row_bytes, tmp->tile[k], n_cols, &fault))
            return tell_fault(src, source_row + (uint64_t)fault.index,
                              (int64_t)(x->from + (first + k) * x->step), &fault, e);
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
                : t->transform == FY_X_PART_FREQS    ? (i < c->turned_pairs ? 1 : 1e30F)
                                                     : 0;
    return 0;
}

/* Every row of the output is one element of the source. They are few, and f32. */
static int spread(fy_convert_stream *s, const fy_plan_tensor *t, const fy_ckpt_tensor *from,
                  uint64_t row, uint64_t n_rows, float *out, fy_err *e)
{
    for (uint64_t r = row; r < row + n_rows; r++) {
        float v;
        fy_ckpt_read(&s->kernels, from, r, 1, &v);
        if (t->transform == FY_X_EXP_SPREAD)
            v = (float)exp((double)v);
        if (!isfinite(v)) {
            const source src = source_of(t, from, 1);
            const fy_row_fault fault = {.value = v};
            return tell_fault(&src, r, 0, &fault, e);
        }
        for (uint64_t i = 0; i < t->ne[0]; i++)
            *out++ = v;
    }
    return 0;
}

static int fill_from(fy_convert_stream *s, const fy_plan_tensor *t, const fy_ckpt_tensor *from,
                     uint64_t row, uint64_t n_rows, void *out, int thread, fy_err *e)
{
    scratch *tmp = &s->scratch[thread];
    if (t->transform == FY_X_SPREAD || t->transform == FY_X_EXP_SPREAD)
        return spread(s, t, from, row, n_rows, out, e);
    if (fy_transform_is_transpose(t->transform)) {
        turned x = turn_of(t);
        source src = source_of(t, from, x.width);
        return turn_rows(s, &src, &x, row, n_rows, out, tmp, e);
    }
    /* a bias, or those of all experts: its elements are the rows */
    const bool bias = (t->row->flags & FY_ROW_MATRIX) == 0 &&
                      (t->n_dims == 1 || t->transform == FY_X_EVEN || t->transform == FY_X_ODD);
    if (bias && chooses_rows(t->transform)) {
        source src = source_of(t, from, 1);
        return convert_rows(s, &src, row * t->ne[0], n_rows * t->ne[0], out, tmp, e);
    }
    source src = source_of(t, from, t->ne[0]);
    return convert_rows(s, &src, row, n_rows, out, tmp, e);
}

static int fill_stacked(fy_convert_stream *s, const fy_plan_tensor *t, uint64_t row,
                        uint64_t n_rows, void *out, int thread, fy_err *e)
{
    uint8_t *to = out;
    uint64_t per_source = t->ne[1]; /* [source, row, element] */
    while (n_rows > 0) {
        uint64_t in_source = row % per_source, n = per_source - in_source;
        n = n < n_rows ? n : n_rows;
        if (fill_from(s, t, t->stacked[row / per_source], in_source, n, to, thread, e))
            return -1;
        row += n;
        n_rows -= n;
        to += n * fy_type_row_bytes(t->type, t->ne[0]);
    }
    return 0;
}

/* Pages that another thread fetched again after another had dropped them. */
static void drop_all(const fy_plan_tensor *t)
{
    for (uint32_t i = 0; i < (t->stacked != NULL ? t->n_stacked : 1); i++) {
        const fy_ckpt_tensor *from = t->stacked != NULL ? t->stacked[i] : t->src;
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
    int rc = t->stacked != NULL ? fill_stacked(s, t, row, n_rows, out, thread, e)
                                : fill_from(s, t, t->src, row, n_rows, out, thread, e);
    if (rc == 0 && atomic_fetch_add(&s->done[i], n_rows) + n_rows == t->ne[1] * t->ne[2] * t->ne[3])
        drop_all(t);
    return rc;
}
