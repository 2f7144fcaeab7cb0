/* Matrices in the types of an NPU: a scale for each output channel, or for each block of inputs
 * times one of 16 steps, chosen so that the error is least, weighted by how large the inputs are.
 * What the types mean: docs/npu-real.md.
 *
 * Threads take tiles of channels. Sums over the matrix are added up channel by channel afterwards,
 * so nothing depends on the threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "workspace/compile/qencode.h"

enum { TILE = 64, CANDIDATES = 32, RUN = 64, BLOCK_STEPS = 16, ROWS_OF_PART = 4096 };
#define LEAST_SCALE 1e-9f
#define LOWEST      0.6f /* of the scale that covers all values: where the search begins */
#define NARROWEST   0.8f /* of the scale that the search finds: what is tried on inputs */
#define WIDEST      1.2f

/* To the nearest whole number, ties to even; |x| < 2^22. */
static inline float nearest(float x)
{
    const float magic = 12582912.0f;
    return (x + magic) - magic;
}

static inline float at_most(float x, float most)
{
    return x < most ? x : most;
}

static float largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* --- the search for a scale ------------------------------------------------------------------- */

/* sum[c] += w (x - s[c] q)^2 with q the nearest code, of few values: all candidates at once, a
 * value after another. The sign of x changes nothing. */
static void add_errors(const float *x, const float *w, size_t n, const float *restrict s,
                       const float *restrict inverse, float most, float *restrict sum)
{
    for (size_t i = 0; i < n; i++) {
        const float v = fabsf(x[i]), weight = w[i];
        for (int c = 0; c < CANDIDATES; c++) {
            const float d = v - s[c] * at_most(nearest(v * inverse[c]), most);
            sum[c] += weight * (d * d);
        }
    }
}

/* The scale of the least error among steps from LOWEST to 1 of what covers all values; the largest
 * of those that are equally good. */
static float search(const float *x, const float *w, size_t n, float most)
{
    const float whole = largest(x, n) / most;
    float s[CANDIDATES], inverse[CANDIDATES];
    double error[CANDIDATES] = {0};
    if (whole < LEAST_SCALE)
        return LEAST_SCALE;
    for (int c = 0; c < CANDIDATES; c++) {
        s[c] = whole * (LOWEST + (1 - LOWEST) * (float)c / (CANDIDATES - 1));
        inverse[c] = 1 / s[c];
    }
    for (size_t i = 0; i < n; i += RUN) {
        float sum[CANDIDATES] = {0};
        add_errors(x + i, w + i, n - i < RUN ? n - i : RUN, s, inverse, most, sum);
        for (int c = 0; c < CANDIDATES; c++)
            error[c] += (double)sum[c];
    }
    int best = CANDIDATES - 1;
    for (int c = best; c >= 0; c--)
        best = error[c] < error[best] ? c : best;
    return s[best];
}

/* --- a channel -------------------------------------------------------------------------------- */

/* What a channel leaves besides its codes. */
typedef struct {
    fy_q_loss weights, outputs;
    float bad; /* a value that the type does not hold; 0: none */
} channel;

/* Of a thread. */
typedef struct {
    float *x;      /* [TILE][n_in]: the values of a tile */
    float *t;      /* [n_in / block]: scales of a channel's blocks */
    int8_t *codes; /* [TILE][n_in] */
    float *tried;  /* [2 + n_candidates][n_in]: what candidates lose of a channel, and all of it */
    float *y;      /* [2 + n_candidates][n_inputs]: their products */
    void *kernel;
} scratch;

typedef struct {
    const struct fy_model *m;
    const fy_q_tensor *t;
    const fy_q_fit *fit;
    uint32_t n_tried; /* rows of scratch.tried; 0: scales are not tried on inputs */
    fy_npu_type type;
    uint32_t n_in, n_out;
    float most;     /* the largest code */
    unsigned block; /* 0: none */
    float *w;       /* [n_in] */
    fy_kernels kernels;
    scratch *scratch;  /* [threads] */
    channel *channels; /* [n_out] */
    fy_q_matrix *to;
    uint32_t first; /* row of the part */
} encoder;

static void encode_run(const encoder *j, const float *x, const float *w, size_t n, float s,
                       int8_t *codes, channel *to)
{
    const float inverse = 1 / s;
    for (size_t i = 0; i < n; i++) {
        const float q = nearest(at_most(fabsf(x[i]) * inverse, j->most));
        const double d = (double)fabsf(x[i]) - (double)s * (double)q;
        codes[i] = (int8_t)(x[i] < 0 ? -q : q);
        to->weights.error += (double)w[i] * d * d;
        to->weights.power += (double)w[i] * (double)x[i] * (double)x[i];
    }
}

/* Row c of those that are tried: 1 is the scale that the weights suggest, the others lie evenly
 * around it. */
static float candidate(uint32_t c, uint32_t n_tried)
{
    return c == 1 ? 1 : NARROWEST + (WIDEST - NARROWEST) * (float)(c - 2) / (float)(n_tried - 3);
}

/* d = x - s q, with q the nearest code. */
static void losses(const float *restrict x, size_t n, float s, float most, float *restrict d)
{
    const float inverse = 1 / s;
    for (size_t i = 0; i < n; i++) {
        const float lost = fabsf(x[i]) - s * at_most(nearest(fabsf(x[i]) * inverse), most);
        d[i] = copysignf(1, x[i]) * lost;
    }
}

static double squares(const float *v, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sum;
}

/* Of the scales around s the one whose channel's output is nearest to that of x, over all inputs;
 * s itself when none is better. */
static float try_scales(const encoder *j, const float *x, float s, const uint8_t *steps,
                        const scratch *own, fy_q_loss *outputs)
{
    const uint32_t run = j->block > 0 ? j->block : j->n_in, n = j->fit->n_inputs;
    const fy_act act = {.x = own->tried, .k = j->n_in};
    float best = s;
    memcpy(own->tried, x, j->n_in * sizeof *x);
    for (uint32_t c = 1; c < j->n_tried; c++) {
        const float one = s * candidate(c, j->n_tried);
        for (uint32_t at = 0; at < j->n_in; at += run)
            losses(x + at, run, steps != NULL ? one * (float)steps[at / run] : one, j->most,
                   own->tried + (size_t)c * j->n_in + at);
    }
    j->kernels.matmul_f32(own->y, n, j->fit->inputs, j->n_in * sizeof *x, 0, n, &act, j->n_tried,
                          own->kernel);
    *outputs = (fy_q_loss){squares(own->y + n, n), squares(own->y, n)};
    for (uint32_t c = 2; c < j->n_tried; c++) {
        const double error = squares(own->y + (size_t)c * n, n);
        if (error < outputs->error) {
            outputs->error = error;
            best = s * candidate(c, j->n_tried);
        }
    }
    return best;
}

/* The scale of a channel, and the steps of its blocks, by its weights alone. */
static float scale_of(const encoder *j, const float *x, uint8_t *steps, float *t)
{
    const uint32_t n = j->block > 0 ? j->n_in / j->block : 0;
    float most = LEAST_SCALE;
    if (j->block == 0 && fy_npu_type_bits(j->type) == 4)
        return search(x, j->w, j->n_in, j->most);
    if (j->block == 0)
        return fmaxf(largest(x, j->n_in) / j->most, LEAST_SCALE);
    for (uint32_t b = 0; b < n; b++) {
        t[b] = search(x + b * j->block, j->w + b * j->block, j->block, j->most);
        most = t[b] > most ? t[b] : most;
    }
    const float s = most / BLOCK_STEPS;
    for (uint32_t b = 0; b < n; b++) {
        const float step = nearest(t[b] / s);
        steps[b] = (uint8_t)(step < 1 ? 1 : step > BLOCK_STEPS ? BLOCK_STEPS : step);
    }
    return s;
}

static void encode_channel(const encoder *j, const float *x, uint32_t number, const scratch *own,
                           int8_t *codes)
{
    const uint32_t run = j->block > 0 ? j->block : j->n_in, n = j->n_in / run;
    uint8_t *steps = j->block > 0 ? j->to->block_scales + (size_t)number * n : NULL;
    channel *to = &j->channels[number];
    float s = scale_of(j, x, steps, own->t);
    if (j->n_tried > 0)
        s = try_scales(j, x, s, steps, own, &to->outputs);
    j->to->scales[number] = s;
    for (uint32_t b = 0; b < n; b++)
        encode_run(j, x + b * run, j->w + b * run, run, steps != NULL ? s * (float)steps[b] : s,
                   codes + b * run, to);
}

/* --- a tile ----------------------------------------------------------------------------------- */

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

static void put_halves(const encoder *j, uint32_t first, uint32_t n, const float *x)
{
    uint16_t *to = j->to->data;
    for (uint32_t k = 0; k < j->n_in; k++) {
        for (uint32_t r = 0; r < n; r++) {
            const uint16_t h = fy_f32_to_f16(x[(size_t)r * j->n_in + k]);
            if ((h & 0x7c00) == 0x7c00)
                j->channels[first + r].bad = x[(size_t)r * j->n_in + k];
            to[(size_t)k * j->n_out + first + r] = h;
        }
    }
}

static bool all_finite(const float *x, uint32_t n, float *bad)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            *bad = x[i];
            return false;
        }
    }
    return true;
}

static void encode_tile(void *user, int64_t begin, int64_t end, int thread)
{
    const encoder *j = user;
    const scratch *own = &j->scratch[thread];
    const uint32_t first = j->first + (uint32_t)begin, n = (uint32_t)(end - begin);
    if (fy_interrupted)
        return;
    fy_qgraph_matrix(j->m, j->t, first, n, own->x);
    if (j->type == FY_NPU_FP16) {
        put_halves(j, first, n, own->x);
        return;
    }
    for (uint32_t r = 0; r < n; r++) {
        const float *x = own->x + (size_t)r * j->n_in;
        if (all_finite(x, j->n_in, &j->channels[first + r].bad))
            encode_channel(j, x, first + r, own, own->codes + (size_t)r * j->n_in);
    }
    put_codes(j, first, n, own->codes);
}

/* --- a matrix --------------------------------------------------------------------------------- */

/* Importance as floats, 1 without; a matrix whose inputs were all 0 has none. */
static void take_importance(float *w, const double *importance, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n && importance != NULL; i++)
        sum += importance[i];
    for (uint32_t i = 0; i < n; i++)
        w[i] = sum > 0 && isfinite(sum) ? (float)(importance[i] * n / sum) : 1;
}

static bool take_tried(const encoder *j, scratch *s, fy_arena *a)
{
    s->tried = fy_arena_calloc(a, (size_t)j->n_tried * j->n_in, sizeof *s->tried);
    s->y = fy_arena_calloc(a, (size_t)j->n_tried * j->fit->n_inputs, sizeof *s->y);
    void *p = fy_arena_alloc(a, FY_KERNEL_SCRATCH_BYTES + FY_LAYOUT_ALIGN);
    s->kernel = (void *)(((uintptr_t)p + FY_LAYOUT_ALIGN - 1) & ~(uintptr_t)(FY_LAYOUT_ALIGN - 1));
    return s->tried != NULL && s->y != NULL && p != NULL;
}

static int take_memory(encoder *j, fy_arena *a, int n_threads, fy_err *e)
{
    fy_q_matrix *to = j->to;
    const bool codes = j->type != FY_NPU_FP16;
    to->data = malloc((size_t)to->bytes);
    if (codes)
        to->scales = calloc(j->n_out, sizeof *to->scales);
    if (j->block > 0)
        to->block_scales = calloc(j->n_out, j->n_in / j->block);
    j->w = fy_arena_calloc(a, j->n_in, sizeof *j->w);
    j->channels = fy_arena_calloc(a, j->n_out, sizeof *j->channels);
    j->scratch = fy_arena_calloc(a, (size_t)n_threads, sizeof *j->scratch);
    if (to->data == NULL || (codes && to->scales == NULL) ||
        (j->block > 0 && to->block_scales == NULL) || j->w == NULL || j->channels == NULL ||
        j->scratch == NULL)
        return fy_nomem(e);
    for (int i = 0; i < n_threads; i++) {
        scratch *s = &j->scratch[i];
        s->x = fy_arena_calloc(a, (size_t)TILE * j->n_in, sizeof *s->x);
        s->t = fy_arena_calloc(a, j->n_in, sizeof *s->t);
        s->codes = fy_arena_calloc(a, (size_t)TILE * j->n_in, sizeof *s->codes);
        if (s->x == NULL || s->t == NULL || s->codes == NULL ||
            (j->n_tried > 0 && !take_tried(j, s, a)))
            return fy_nomem(e);
    }
    return 0;
}

/* The sums, and the first value that the type does not hold. */
static int add_channels(const encoder *j, fy_err *e)
{
    for (uint32_t i = 0; i < j->n_out; i++) {
        const channel *c = &j->channels[i];
        fy_q_loss_add(&j->to->weights, &c->weights);
        fy_q_loss_add(&j->to->outputs, &c->outputs);
        if (c->bad != 0 && !isfinite(c->bad))
            return fy_fail(e, FY_EFORMAT, "%s: a value is not finite", j->t->name);
        if (c->bad != 0)
            return fy_fail(e, FY_EFORMAT, "%s: %g is too large for 16-bit floats", j->t->name,
                           (double)c->bad);
    }
    return 0;
}

/* Lets the system take back what was read of the file; a model in memory has none. */
static void forget_file(const fy_gguf *file)
{
    for (size_t i = 0; file != NULL && i < fy_gguf_n_tensors(file); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(file, i);
        fy_gguf_drop(file, t, 0, t->bytes);
    }
}

/* A part of the rows after the other: of the file no more than a part is in memory. */
static int encode_rows(encoder *j, fy_pool *pool, fy_err *e)
{
    for (j->first = 0; j->first < j->n_out; j->first += ROWS_OF_PART) {
        const uint32_t left = j->n_out - j->first;
        fy_pool_run(pool, left < ROWS_OF_PART ? left : ROWS_OF_PART, TILE, encode_tile, j);
        forget_file(fy_model_gguf(j->m));
        if (fy_check_interrupt(e) != 0)
            return -1;
    }
    return 0;
}

int fy_q_matrix_encode(const struct fy_model *m, const fy_q_tensor *t, const fy_q_fit *fit,
                       fy_pool *pool, fy_q_matrix *out, fy_err *e)
{
    const fy_npu_type type = t->from.type;
    const bool tries = fit->n_inputs > 0 && fit->n_candidates > 0 && fy_npu_type_bits(type) == 4;
    encoder j = {.m = m,
                 .t = t,
                 .fit = fit,
                 .n_tried = tries ? 2 + fit->n_candidates : 0,
                 .kernels = fy_kernels_for(fy_cpu_features()),
                 .type = type,
                 .n_in = t->dims[2],
                 .n_out = t->dims[3],
                 .most = fy_npu_type_bits(type) == 8 ? 127 : 7,
                 .block = fy_npu_type_block(type),
                 .to = out};
    fy_arena arena = {0};
    uint64_t n;
    *out = (fy_q_matrix){0};
    if (!fy_mul_u64(j.n_in, j.n_out, &n) || n > SIZE_MAX / 4)
        return fy_nomem(e);
    out->bytes = n * (type == FY_NPU_FP16 ? 2 : 1);
    int rc = take_memory(&j, &arena, fy_pool_threads(pool), e);
    if (rc == 0) {
        take_importance(j.w, fit->importance, j.n_in);
        rc = encode_rows(&j, pool, e);
    }
    if (rc == 0)
        rc = add_channels(&j, e);
    fy_arena_release(&arena);
    if (rc != 0)
        fy_q_matrix_release(out);
    return rc;
}

void fy_q_matrix_decode(const fy_q_matrix *w, const fy_q_tensor *t, uint32_t first, uint32_t n,
                        float *out)
{
    const uint32_t n_in = t->dims[2], n_out = t->dims[3], block = fy_npu_type_block(t->from.type);
    const bool nibbles = fy_npu_type_bits(t->from.type) == 4;
    for (uint32_t k = 0; k < n_in; k++) {
        const size_t at = (size_t)k * n_out + first;
        for (uint32_t r = 0; r < n; r++) {
            float *to = &out[(size_t)r * n_in + k];
            if (w->scales == NULL) {
                *to = fy_f16_to_f32(((const uint16_t *)w->data)[at + r]);
                continue;
            }
            const int code = ((const int8_t *)w->data)[at + r];
            *to = w->scales[first + r] * (float)(nibbles && code > 7 ? code - 16 : code);
            if (block > 0)
                *to *= w->block_scales[(size_t)(first + r) * (n_in / block) + k / block];
        }
    }
}

void fy_q_matrix_release(fy_q_matrix *w)
{
    free(w->data);
    free(w->scales);
    free(w->block_scales);
    *w = (fy_q_matrix){0};
}
