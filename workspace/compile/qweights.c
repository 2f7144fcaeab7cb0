/* Matrices in the types of an NPU: a scale for each output channel, or for each block of inputs
 * times one of 16 steps, chosen so that the error is least, weighted by how large the inputs are.
 * What the types mean: docs/npu-real.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "workspace/compile/qencode.h"

enum { LANES = 8, TILE = 64, CANDIDATES = 32, BLOCK_STEPS = 16 };
#define LEAST_SCALE 1e-9f

/* To the nearest whole number, ties to even; |x| < 2^22. */
static inline float nearest(float x)
{
    const float magic = 12582912.0f;
    return (x + magic) - magic;
}

static inline float clamp(float x, float most)
{
    return x > most ? most : x < -most ? -most : x;
}

static float largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* The sum of w (x - s q)^2 with q the nearest code, in 8 lanes. */
static float error_of(const float *restrict x, const float *restrict w, size_t n, float s,
                      float most)
{
    const float inverse = 1 / s;
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            const float d = x[i + l] - s * clamp(nearest(x[i + l] * inverse), most);
            lane[l] += w[i + l] * (d * d);
        }
    }
    for (; i < n; i++) {
        const float d = x[i] - s * clamp(nearest(x[i] * inverse), most);
        lane[0] += w[i] * (d * d);
    }
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* The scale of the least error among steps from 0.6 to 1 of what covers all values. */
static float fit(const float *x, const float *w, size_t n, float most)
{
    const float whole = largest(x, n) / most;
    float best = whole, least = INFINITY;
    if (whole < LEAST_SCALE)
        return LEAST_SCALE;
    for (int i = CANDIDATES; i >= 0; i--) {
        const float s = whole * (0.6f + 0.4f * (float)i / CANDIDATES);
        const float error = error_of(x, w, n, s, most);
        if (error < least) {
            least = error;
            best = s;
        }
    }
    return best;
}

/* --- a row ------------------------------------------------------------------------------------ */

typedef struct {
    fy_npu_type type;
    uint32_t n_in, n_out;
    float most;     /* the largest code */
    unsigned block; /* 0: none */
    const float *w; /* [n_in] */
    float *t;       /* [n_in / block] scratch: scales of a channel's blocks */
    fy_q_matrix *to;
    double error, power;
} encoder;

static void encode_run(encoder *j, const float *x, const float *w, size_t n, float s, int8_t *codes)
{
    const float inverse = 1 / s;
    for (size_t i = 0; i < n; i++) {
        const float q = clamp(nearest(clamp(x[i] * inverse, 2 * j->most)), j->most);
        const double d = (double)x[i] - (double)s * (double)q;
        codes[i] = (int8_t)q;
        j->error += (double)w[i] * d * d;
        j->power += (double)w[i] * (double)x[i] * (double)x[i];
    }
}

static void encode_blocks(encoder *j, const float *x, uint32_t channel, int8_t *codes)
{
    const uint32_t n = j->n_in / j->block;
    uint8_t *steps = j->to->block_scales + (size_t)channel * n;
    float most = LEAST_SCALE, *t = j->t;
    for (uint32_t b = 0; b < n; b++) {
        t[b] = fit(x + b * j->block, j->w + b * j->block, j->block, j->most);
        most = t[b] > most ? t[b] : most;
    }
    const float s = most / BLOCK_STEPS;
    j->to->scales[channel] = s;
    for (uint32_t b = 0; b < n; b++) {
        const float step = nearest(t[b] / s);
        steps[b] = (uint8_t)(step < 1 ? 1 : step > BLOCK_STEPS ? BLOCK_STEPS : step);
        encode_run(j, x + b * j->block, j->w + b * j->block, j->block, s * (float)steps[b],
                   codes + b * j->block);
    }
}

static void encode_row(encoder *j, const float *x, uint32_t channel, int8_t *codes)
{
    if (j->block > 0) {
        encode_blocks(j, x, channel, codes);
        return;
    }
    const float whole = largest(x, j->n_in) / j->most;
    const float s = fy_npu_type_bits(j->type) == 8 ? (whole > LEAST_SCALE ? whole : LEAST_SCALE)
                                                   : fit(x, j->w, j->n_in, j->most);
    j->to->scales[channel] = s;
    encode_run(j, x, j->w, j->n_in, s, codes);
}

/* --- a matrix --------------------------------------------------------------------------------- */

/* Rows [first, first + n) become columns. */
static void put_codes(const encoder *j, uint32_t first, uint32_t n, const int8_t *codes)
{
    const bool nibble = j->block == 0 && fy_npu_type_bits(j->type) == 4;
    for (uint32_t k = 0; k < j->n_in; k++) {
        uint8_t *to = (uint8_t *)j->to->data + (size_t)k * j->n_out + first;
        for (uint32_t r = 0; r < n; r++) {
            const uint8_t code = (uint8_t)codes[(size_t)r * j->n_in + k];
            to[r] = nibble ? code & 15 : code;
        }
    }
}

static int put_halves(const encoder *j, uint32_t first, uint32_t n, const float *x, fy_err *e)
{
    uint16_t *to = j->to->data;
    for (uint32_t k = 0; k < j->n_in; k++) {
        for (uint32_t r = 0; r < n; r++) {
            const uint16_t h = fy_f32_to_f16(x[(size_t)r * j->n_in + k]);
            if ((h & 0x7c00) == 0x7c00)
                return fy_fail(e, FY_EFORMAT, "%g is too large for 16-bit floats",
                               (double)x[(size_t)r * j->n_in + k]);
            to[(size_t)k * j->n_out + first + r] = h;
        }
    }
    return 0;
}

static int encode_tiles(encoder *j, const struct fy_model *m, const fy_q_tensor *t, float *x,
                        int8_t *codes, fy_err *e)
{
    for (uint32_t first = 0; first < j->n_out; first += TILE) {
        const uint32_t n = j->n_out - first < TILE ? j->n_out - first : TILE;
        if (fy_check_interrupt(e) != 0)
            return -1;
        fy_qgraph_matrix(m, t, first, n, x);
        for (size_t i = 0; i < (size_t)n * j->n_in; i++) {
            if (!isfinite(x[i]))
                return fy_fail(e, FY_EFORMAT, "%s: a value is not finite", t->name);
        }
        if (j->type == FY_NPU_FP16) {
            if (put_halves(j, first, n, x, e) != 0)
                return fy_ctx(e, "%s", t->name);
            continue;
        }
        for (uint32_t r = 0; r < n; r++)
            encode_row(j, x + (size_t)r * j->n_in, first + r, codes + (size_t)r * j->n_in);
        put_codes(j, first, n, codes);
    }
    return 0;
}

/* Importance as floats, 1 without; a matrix whose inputs were all 0 has none. */
static void take_importance(float *w, const double *importance, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n && importance != NULL; i++)
        sum += importance[i];
    for (uint32_t i = 0; i < n; i++)
        w[i] = sum > 0 && isfinite(sum) ? (float)(importance[i] * n / sum) : 1;
}

int fy_q_matrix_encode(const struct fy_model *m, const fy_q_tensor *t, const double *importance,
                       fy_q_matrix *out, fy_err *e)
{
    const fy_npu_type type = t->from.type;
    encoder j = {.type = type,
                 .n_in = t->dims[2],
                 .n_out = t->dims[3],
                 .most = fy_npu_type_bits(type) == 8 ? 127 : 7,
                 .block = fy_npu_type_block(type),
                 .to = out};
    const size_t tile = (size_t)TILE * j.n_in;
    uint64_t n;
    *out = (fy_q_matrix){0};
    if (!fy_mul_u64(j.n_in, j.n_out, &n) || n > SIZE_MAX / 4)
        return fy_nomem(e);
    out->bytes = n * (type == FY_NPU_FP16 ? 2 : 1);
    float *x = malloc((tile + 2 * (size_t)j.n_in) * sizeof *x);
    int8_t *codes = malloc(tile);
    out->data = malloc((size_t)out->bytes);
    if (type != FY_NPU_FP16)
        out->scales = calloc(j.n_out, sizeof *out->scales);
    if (j.block > 0)
        out->block_scales = calloc(j.n_out, j.n_in / j.block);
    int rc = x == NULL || codes == NULL || out->data == NULL ||
                     (type != FY_NPU_FP16 && out->scales == NULL) ||
                     (j.block > 0 && out->block_scales == NULL)
                 ? fy_nomem(e)
                 : 0;
    if (rc == 0) {
        take_importance(x + tile, importance, j.n_in);
        j.w = x + tile;
        j.t = x + tile + j.n_in;
        rc = encode_tiles(&j, m, t, x, codes, e);
    }
    free(x);
    free(codes);
    out->error = (float)j.error;
    out->power = (float)j.power;
    if (rc != 0)
        fy_q_matrix_release(out);
    return rc;
}

void fy_q_matrix_release(fy_q_matrix *w)
{
    free(w->data);
    free(w->scales);
    free(w->block_scales);
    *w = (fy_q_matrix){0};
}
