/* Conv2d 1x1, FullyConnected and MatMul. Sums of quantized operands are exact integers, whatever
 * their order, so they run in blocks of 256 products that fit 32 bits, which compilers vectorize.
 *
 * What the vendor's library then does with a sum of a 16 bit operand was seen by identity weights:
 * it loses its low 8 bits, and is scaled and rounded half up. Sums of 8 bit operands keep theirs.
 */
#include "qnnref/ref_ops.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

enum { DEPTH = 256, WIDTH = 64 }; /* of a tile of weights */

/* y[rows][cols] = x[rows][depth] w[depth][cols]; steps are in elements. */
typedef struct {
    const ref_node *node;
    const ref_tensor *x, *w, *bias, *y;
    const uint8_t *xp, *wp, *bp;
    uint8_t *yp;
    uint64_t rows, depth, cols;
    uint64_t x_at, w_at, y_at; /* of this matrix among a batch's */
    uint64_t x_row, x_col, w_row, w_col;
    bool coarse;
} product;

/* --- shapes --- */

static bool all_words(const ref_param *p, uint32_t n, uint32_t v)
{
    if (p == NULL)
        return true;
    if (p->n != n)
        return false;
    for (uint32_t i = 0; p->words != NULL && i < n; i++) {
        if (p->words[i] != v)
            return false;
    }
    return true;
}

static abi_error check_conv(const ref_node *n)
{
    const ref_tensor *x = n->in[0], *w = n->in[1], *y = n->out[0];
    if (x->rank != 4 || w->rank != 4 || y->rank != 4)
        return ref_bad_node(n, "input, weights and output have rank 4");
    if (w->dims[0] != 1 || w->dims[1] != 1 || !all_words(ref_param_of(n, "stride"), 2, 1) ||
        !all_words(ref_param_of(n, "pad_amount"), 4, 0) ||
        !all_words(ref_param_of(n, "dilation"), 2, 1) || ref_param_word(n, "group", 1) != 1)
        return ref_bad_node(n, "only 1x1 with stride 1 and no padding is in the reference");
    if (x->dims[3] != w->dims[2] || y->dims[3] != w->dims[3] ||
        memcmp(x->dims, y->dims, 3 * sizeof x->dims[0]) != 0)
        return ref_bad_node(n, "shapes do not fit");
    return 0;
}

static abi_error check_fc(const ref_node *n)
{
    const ref_tensor *x = n->in[0], *w = n->in[1], *y = n->out[0];
    if (ref_param_word(n, "keep_dims", 0) != 0)
        return ref_bad_node(n, "keep_dims is not supported");
    if (w->rank != 2 || y->rank != 2 || x->rank < 2)
        return ref_bad_node(n, "weights and output have rank 2");
    if (x->n % w->dims[1] != 0 || y->dims[1] != w->dims[0] || y->dims[0] != x->n / w->dims[1])
        return ref_bad_node(n, "shapes do not fit");
    return 0;
}

abi_error ref_check_linear(const ref_node *n)
{
    abi_error code = n->op->variant == REF_CONV ? check_conv(n) : check_fc(n);
    const ref_tensor *bias = n->n_in > 2 ? n->in[2] : NULL;
    if (code == 0 && bias != NULL &&
        (bias->rank != 1 || bias->dims[0] != n->out[0]->dims[n->out[0]->rank - 1]))
        return ref_bad_node(n, "one bias an output");
    return code;
}

abi_error ref_check_matmul(const ref_node *n)
{
    const ref_tensor *a = n->in[0], *b = n->in[1], *y = n->out[0];
    uint32_t r = a->rank;
    if (r < 2 || r > 4 || b->rank != r || y->rank != r)
        return ref_bad_node(n, "operands have one rank of 2 to 4");
    if (n->sdk < 36 &&
        (ref_param_of(n, "transpose_in0") == NULL || ref_param_of(n, "transpose_in1") == NULL))
        return ref_bad_node(n, "both transpose parameters are needed before SDK 2.36");
    bool ta = ref_param_word(n, "transpose_in0", 0) != 0;
    bool tb = ref_param_word(n, "transpose_in1", 0) != 0;
    for (uint32_t i = 0; i + 2 < r; i++) {
        bool fits = (a->dims[i] == y->dims[i] || a->dims[i] == 1) &&
                    (b->dims[i] == y->dims[i] || b->dims[i] == 1) &&
                    (a->dims[i] == y->dims[i] || b->dims[i] == y->dims[i]);
        if (!fits)
            return ref_bad_node(n, "batches do not fit");
    }
    uint32_t k = ta ? a->dims[r - 2] : a->dims[r - 1];
    if (k != (tb ? b->dims[r - 1] : b->dims[r - 2]) ||
        y->dims[r - 2] != (ta ? a->dims[r - 1] : a->dims[r - 2]) ||
        y->dims[r - 1] != (tb ? b->dims[r - 2] : b->dims[r - 1]))
        return ref_bad_node(n, "shapes do not fit");
    if (n->n_in > 2 && n->in[2] != NULL &&
        (n->in[2]->rank != 1 || n->in[2]->dims[0] != y->dims[r - 1]))
        return ref_bad_node(n, "one bias an output");
    if (b->quant.definition == ABI_DEFINED && b->quant.encoding != ABI_SCALE_OFFSET &&
        (uint32_t)b->quant.axis != (tb ? r - 2 : r - 1))
        return ref_bad_node(n, "the axis of the second operand's scales is that of the columns");
    return 0;
}

/* --- integers --- */

static int64_t code_at(const ref_tensor *t, const uint8_t *p, uint64_t i)
{
    if (t->type == ABI_STATIC && t->data != NULL && t->data->packed) {
        int v = p[i / 2] >> (i % 2 * 4) & 15;
        return v < 8 ? v : v - 16;
    }
    switch (t->data_type) {
    case ABI_U8:
        return p[i];
    case ABI_S8:
        return (int8_t)p[i];
    case ABI_U16:
        return ((const uint16_t *)(const void *)p)[i];
    default:
        return ((const int16_t *)(const void *)p)[i];
    }
}

static int32_t offset_of(const ref_tensor *t)
{
    return t->quant.encoding == ABI_SCALE_OFFSET ? t->quant.one.offset : 0;
}

/* What is subtracted from codes so that they fit 16 bits. */
static int32_t base_of(const ref_tensor *t)
{
    return t->data_type == ABI_U16 ? 32768 : 0;
}

static double scale_of(const ref_tensor *t, uint64_t channel)
{
    return t->quant.scales != NULL ? (double)t->quant.scales[channel] : (double)t->quant.one.scale;
}

/* Weights k0 .. k0 + DEPTH, n0 .. n0 + WIDTH, less the base, with the factors of their blocks. */
static void fill_weights(const product *p, uint64_t k0, uint64_t n_k, uint64_t n0, uint64_t n_n,
                         int16_t tile[DEPTH][WIDTH])
{
    const ref_quant *q = &p->w->quant;
    uint64_t block = q->n_blocks > 0 ? p->depth / q->n_blocks : 0;
    int32_t base = base_of(p->w);
    bool wide = ref_type_bytes(p->w->data_type) == 2;
    bool plain =
        p->w->data_type == ABI_S8 && (p->w->data == NULL || !p->w->data->packed) && block == 0;
    for (uint64_t k = 0; k < n_k; k++) {
        uint64_t at = p->w_at + (k0 + k) * p->w_row + n0 * p->w_col;
        for (uint64_t j = 0; j < n_n; j++) {
            int64_t v = plain ? (int8_t)p->wp[at + j * p->w_col]
                              : code_at(p->w, p->wp, at + j * p->w_col) - base;
            if (wide && v > 0x7f7f)
                v = 0x7f7f;
            if (block > 0)
                v *= q->block_scales[(n0 + j) * q->n_blocks + (k0 + k) / block];
            tile[k][j] = (int16_t)v;
        }
        for (uint64_t j = n_n; j < WIDTH; j++)
            tile[k][j] = 0;
    }
}

/* sums[j] += sum over k of x[k] tile[k][j]: 256 products of 16 and 9 bits fit 32. */
static void add_products(int64_t sums[WIDTH], const int16_t *x, int16_t tile[DEPTH][WIDTH],
                         uint64_t n_k)
{
    int32_t acc[WIDTH] = {0};
    for (uint64_t k = 0; k < n_k; k++) {
        for (int j = 0; j < WIDTH; j++)
            acc[j] += (int32_t)x[k] * tile[k][j];
    }
    for (int j = 0; j < WIDTH; j++)
        sums[j] += acc[j];
}

/* 16 bit weights as 256 high + low, each of which add_products can take. */
static void split_tile(int16_t tile[DEPTH][WIDTH], int16_t low[DEPTH][WIDTH], uint64_t n_k)
{
    for (uint64_t k = 0; k < n_k; k++) {
        for (int j = 0; j < WIDTH; j++) {
            low[k][j] = tile[k][j] & 255;
            tile[k][j] = (int16_t)((tile[k][j] - low[k][j]) / 256);
        }
    }
}

typedef struct {
    int16_t *x;      /* rows x depth, less the base */
    int64_t *x_sums; /* a row */
    int64_t *sums;   /* rows x WIDTH */
    int64_t w_sums[WIDTH];
} work;

static void load_x(const product *p, work *w)
{
    int32_t base = base_of(p->x);
    for (uint64_t m = 0; m < p->rows; m++) {
        int64_t sum = 0;
        for (uint64_t k = 0; k < p->depth; k++) {
            int64_t v = code_at(p->x, p->xp, p->x_at + m * p->x_row + k * p->x_col) - base;
            w->x[m * p->depth + k] = (int16_t)v;
            sum += v;
        }
        w->x_sums[m] = sum;
    }
}

/* The bias in units of the sum. Scale 0 is the form in which the units are those already. */
static int64_t bias_at(const product *p, uint64_t c, double unit)
{
    if (p->bias == NULL)
        return 0;
    const ref_quant *q = &p->bias->quant;
    double scale = q->encoding == ABI_SCALE_OFFSET ? (double)q->one.scale : (double)q->scales[c];
    if (p->bias->data_type == ABI_S32 && scale == 0)
        return ((const int32_t *)(const void *)p->bp)[c];
    int32_t code;
    ref_load_codes(&code, p->bias, p->bp, c, 1);
    double v = (double)code * scale / unit;
    return unit > 0 && v > -4e18 && v < 4e18 ? (int64_t)ref_rint(v) : 0;
}

static void store_code(const product *p, uint64_t at, double v)
{
    double low, high;
    ref_type_limits(p->y->data_type, &low, &high);
    v = v < low ? low : v > high ? high : v;
    if (ref_type_bytes(p->y->data_type) == 1)
        p->yp[at] = (uint8_t)(int32_t)v;
    else
        ((uint16_t *)(void *)p->yp)[at] = (uint16_t)(int32_t)v;
}

/* The unit of what a sum keeps. */
static double unit_of(const product *p)
{
    if (ref_type_bytes(p->x->data_type) == 1)
        return 1.0;
    return ref_type_bytes(p->w->data_type) == 2 ? 65536.0 : 256.0;
}

/* V68 and V69 know a factor to 11 bits only, and scale sum and output offset together by it: the
 * quotient of that and the right factor. */
static double coarseness(const product *p, double factor)
{
    if (!p->coarse || ref_type_bytes(p->x->data_type) == 1)
        return 1.0;
    double scaled = factor;
    while (scaled < 1024.0)
        scaled *= 2.0;
    while (scaled >= 2048.0)
        scaled *= 0.5;
    return ref_rint(scaled) / scaled;
}

static void finish(const product *p, const work *w, uint64_t n0, uint64_t n_n)
{
    double sx = (double)p->x->quant.one.scale, sy = (double)p->y->quant.one.scale,
           unit = unit_of(p);
    int64_t cx = (int64_t)offset_of(p->x) + base_of(p->x),
            cw = (int64_t)offset_of(p->w) + base_of(p->w);
    for (uint64_t j = 0; j < n_n; j++) {
        double scale = sx * scale_of(p->w, n0 + j), factor = scale * unit / sy;
        int64_t constant = cx * w->w_sums[j] + (int64_t)p->depth * cx * cw;
        double added = ref_floor((double)constant / unit + 0.5);
        added += (double)bias_at(p, n0 + j, scale) / unit;
        double quotient = coarseness(p, factor);
        for (uint64_t m = 0; m < p->rows; m++) {
            int64_t sum = w->sums[m * WIDTH + j] + cw * w->x_sums[m];
            double kept = ref_floor((double)sum / unit) + added;
            store_code(p, p->y_at + m * p->cols + n0 + j,
                       ref_round((kept * factor - offset_of(p->y)) * quotient, REF_UP));
        }
    }
}

static abi_error run_integer(const product *p)
{
    work w = {.x = malloc(p->rows * p->depth * sizeof *w.x),
              .x_sums = malloc(p->rows * sizeof *w.x_sums),
              .sums = malloc(p->rows * WIDTH * sizeof *w.sums)};
    int16_t(*tile)[WIDTH] = malloc(DEPTH * sizeof *tile),
    (*low)[WIDTH] = malloc(DEPTH * sizeof *low);
    bool ok = w.x != NULL && w.x_sums != NULL && w.sums != NULL && tile != NULL && low != NULL;
    bool wide = ref_type_bytes(p->w->data_type) == 2;
    if (ok)
        load_x(p, &w);
    for (uint64_t n0 = 0; ok && n0 < p->cols; n0 += WIDTH) {
        uint64_t n_n = p->cols - n0 < WIDTH ? p->cols - n0 : WIDTH;
        memset(w.sums, 0, p->rows * WIDTH * sizeof *w.sums);
        memset(w.w_sums, 0, sizeof w.w_sums);
        for (uint64_t k0 = 0; k0 < p->depth; k0 += DEPTH) {
            uint64_t n_k = p->depth - k0 < DEPTH ? p->depth - k0 : DEPTH;
            fill_weights(p, k0, n_k, n0, n_n, tile);
            for (uint64_t k = 0; k < n_k; k++) {
                for (int j = 0; j < WIDTH; j++)
                    w.w_sums[j] += tile[k][j];
            }
            if (wide)
                split_tile(tile, low, n_k);
            for (uint64_t m = 0; m < p->rows; m++) {
                const int16_t *x = w.x + m * p->depth + k0;
                int64_t high[WIDTH] = {0}, *sums = w.sums + m * WIDTH;
                add_products(wide ? high : sums, x, tile, n_k);
                if (!wide)
                    continue;
                add_products(sums, x, low, n_k);
                for (int j = 0; j < WIDTH; j++)
                    sums[j] += 256 * high[j];
            }
        }
        finish(p, &w, n0, n_n);
    }
    free(w.x);
    free(w.x_sums);
    free(w.sums);
    free(tile);
    free(low);
    return ok ? 0 : ABI_MEM_ALLOC;
}

/* --- floats: sums in f32 in the order of the elements, one rounding to f16. Codes become f16 by a
 * scale that is rounded to f16 first --- */

static float float_at(const ref_tensor *t, const uint8_t *p, uint64_t i, uint64_t channel)
{
    if (t->data_type == ABI_F16)
        return fy_f16_to_f32(((const uint16_t *)(const void *)p)[i]);
    if (t->data_type == ABI_F32)
        return fy_f16_to_f32(fy_f32_to_f16(((const float *)(const void *)p)[i]));
    float scale = fy_f16_to_f32(fy_f32_to_f16((float)scale_of(t, channel)));
    return fy_f16_to_f32(fy_f32_to_f16((float)(code_at(t, p, i) + offset_of(t)) * scale));
}

static abi_error run_float(const product *p)
{
    float *x = malloc(p->rows * p->depth * sizeof *x),
          *sums = malloc(p->rows * WIDTH * sizeof *sums);
    bool ok = x != NULL && sums != NULL;
    for (uint64_t m = 0; ok && m < p->rows; m++) {
        for (uint64_t k = 0; k < p->depth; k++)
            x[m * p->depth + k] = float_at(p->x, p->xp, p->x_at + m * p->x_row + k * p->x_col, 0);
    }
    for (uint64_t n0 = 0; ok && n0 < p->cols; n0 += WIDTH) {
        uint64_t n_n = p->cols - n0 < WIDTH ? p->cols - n0 : WIDTH;
        memset(sums, 0, p->rows * WIDTH * sizeof *sums);
        for (uint64_t k = 0; k < p->depth; k++) {
            float w[WIDTH] = {0};
            for (uint64_t j = 0; j < n_n; j++)
                w[j] = float_at(p->w, p->wp, p->w_at + k * p->w_row + (n0 + j) * p->w_col, n0 + j);
            for (uint64_t m = 0; m < p->rows; m++) {
                float v = x[m * p->depth + k];
                for (int j = 0; j < WIDTH; j++)
                    sums[m * WIDTH + j] += v * w[j];
            }
        }
        for (uint64_t m = 0; m < p->rows; m++) {
            double row[WIDTH];
            for (uint64_t j = 0; j < n_n; j++) {
                float b = p->bias != NULL ? float_at(p->bias, p->bp, n0 + j, 0) : 0.0f;
                row[j] = (double)(sums[m * WIDTH + j] + b);
            }
            ref_store(p->yp, p->y, p->y_at + m * p->cols + n0, row, n_n, REF_EVEN, true);
        }
    }
    free(x);
    free(sums);
    return ok ? 0 : ABI_MEM_ALLOC;
}

static abi_error run_product(const product *p)
{
    return ref_is_float(p->x->data_type) ? run_float(p) : run_integer(p);
}

static product begin(const ref_run *r, const ref_node *n)
{
    const ref_tensor *bias = n->n_in > 2 ? n->in[2] : NULL;
    return (product){.node = n,
                     .x = n->in[0],
                     .w = n->in[1],
                     .y = n->out[0],
                     .bias = bias,
                     .xp = ref_input(r, n->in[0]),
                     .wp = ref_input(r, n->in[1]),
                     .bp = bias != NULL ? ref_input(r, bias) : NULL,
                     .yp = ref_output(r, n->out[0]),
                     .coarse = r->coarse};
}

abi_error ref_run_linear(ref_run *r, const ref_node *n)
{
    product p = begin(r, n);
    bool fc = n->op->variant == REF_FC;
    p.depth = fc ? p.w->dims[1] : p.w->dims[2];
    p.cols = fc ? p.w->dims[0] : p.w->dims[3];
    p.rows = p.x->n / p.depth;
    p.x_row = p.depth;
    p.x_col = 1;
    p.w_row = fc ? 1 : p.cols;
    p.w_col = fc ? p.depth : 1;
    return run_product(&p);
}

/* Where matrix b of the output has its operand: broadcast over dimensions of 1. */
static uint64_t matrix_at(const ref_tensor *t, const ref_tensor *y, uint64_t b)
{
    uint64_t at = 0, step = (uint64_t)t->dims[t->rank - 1] * t->dims[t->rank - 2];
    for (uint32_t i = t->rank - 2; i-- > 0;) {
        uint64_t here = b % y->dims[i];
        b /= y->dims[i];
        at += t->dims[i] == 1 ? 0 : here * step;
        step *= t->dims[i];
    }
    return at;
}

abi_error ref_run_matmul(ref_run *r, const ref_node *n)
{
    product p = begin(r, n);
    uint32_t rank = p.y->rank;
    bool ta = ref_param_word(n, "transpose_in0", 0) != 0;
    bool tb = ref_param_word(n, "transpose_in1", 0) != 0;
    p.rows = p.y->dims[rank - 2];
    p.cols = p.y->dims[rank - 1];
    p.depth = ta ? p.x->dims[rank - 2] : p.x->dims[rank - 1];
    p.x_row = ta ? 1 : p.depth;
    p.x_col = ta ? p.rows : 1;
    p.w_row = tb ? 1 : p.cols;
    p.w_col = tb ? p.depth : 1;
    abi_error code = 0;
    for (uint64_t b = 0; b < p.y->n / (p.rows * p.cols) && code == 0; b++) {
        p.x_at = matrix_at(p.x, p.y, b);
        p.w_at = matrix_at(p.w, p.y, b);
        p.y_at = b * p.rows * p.cols;
        code = run_product(&p);
    }
    return code;
}
