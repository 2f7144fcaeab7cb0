/* Rows of stored types: decoding to f32, encoding from it with the faults that a value can be, and
 * what a row loses on the way. */
#include "kernels/row.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/scalar/encode_more.h"
#include "kernels/scalar/quants_scalar.h"

bool fy_row_can_encode(fy_type t)
{
    return t == FY_F32 || t == FY_F16 || t == FY_BF16 || fy_block_form_of(t).high > 0;
}

bool fy_row_can_decode(fy_type t)
{
    return t == FY_F64 || fy_kernels_wants_q8(t) || fy_row_can_encode(t);
}

static void decode_f64(float *y, const char *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double v;
        memcpy(&v, row + i * (int64_t)sizeof v, sizeof v);
        y[i] = (float)v;
    }
}

/* X(type's id, its name in the members of fy_kernels) */
#define BLOCKS_OF_32(X)  X(FY_Q4_0, q4_0) X(FY_Q4_1, q4_1) X(FY_Q5_0, q5_0) X(FY_Q5_1, q5_1)
#define BLOCKS_OF_256(X) X(FY_Q4_K, q4_k) X(FY_Q5_K, q5_k) X(FY_Q6_K, q6_k)
/* The types that are only read. */
#define READ_ONLY(X)                                                                           \
    X(FY_Q2_K, q2_k)                                                                           \
    X(FY_Q3_K, q3_k)                                                                           \
    X(FY_IQ4_NL, iq4_nl)                                                                       \
    X(FY_IQ4_XS, iq4_xs)                                                                       \
    X(FY_MXFP4, mxfp4) X(FY_NVFP4, nvfp4) X(FY_Q1_0, q1_0) X(FY_Q2_0, q2_0) X(FY_TQ1_0, tq1_0) \
        X(FY_TQ2_0, tq2_0) X(FY_IQ1_S, iq1_s) X(FY_IQ1_M, iq1_m) X(FY_IQ2_XXS, iq2_xxs)        \
            X(FY_IQ2_XS, iq2_xs) X(FY_IQ2_S, iq2_s) X(FY_IQ3_XXS, iq3_xxs) X(FY_IQ3_S, iq3_s)

/* The types whose elements or blocks have numbers of 16 bits, or of bytes alone. */
static void decode_aligned(const fy_kernels *k, fy_type t, float *y, const void *row, int64_t n)
{
#define CASE(id, name)               \
    case id:                         \
        k->decode_##name(y, row, n); \
        break;
    switch ((int)t) {
        BLOCKS_OF_32(CASE)
        BLOCKS_OF_256(CASE)
        READ_ONLY(CASE)
        CASE(FY_Q8_0, q8_0)
    case FY_F16:
        k->f16_to_f32(y, row, n);
        break;
    case FY_BF16:
        k->bf16_to_f32(y, row, n);
        break;
    default:
        break; /* fy_row_can_decode refuses it */
    }
#undef CASE
}

/* Rows may lie at odd addresses, in safetensors and, with general.alignment 1, in GGUF: such rows
 * are brought to alignment by pieces. */
static void decode_misaligned(const fy_kernels *k, fy_type t, float *y, const char *row, int64_t n)
{
    enum { PIECE = 256 }; /* elements; a multiple of every block */
    uint16_t aligned[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = n - i < PIECE ? n - i : PIECE;
        size_t bytes = (size_t)fy_type_row_bytes(t, (uint64_t)m);
        memcpy(aligned, row, bytes);
        decode_aligned(k, t, y + i, aligned, m);
        row += bytes;
    }
}

void fy_row_decode(const fy_kernels *k, fy_type t, float *y, const void *row, int64_t n)
{
    switch ((int)t) {
    case FY_F32:
        memcpy(y, row, (size_t)n * sizeof *y);
        break;
    case FY_F64:
        decode_f64(y, row, n);
        break;
    default:
        if ((uintptr_t)row % _Alignof(uint16_t) == 0)
            decode_aligned(k, t, y, row, n);
        else
            decode_misaligned(k, t, y, row, n);
        break;
    }
}

/* From this magnitude on a value rounds to an infinite f16. */
#define F16_OVERFLOW 65520.0f

/* The magnitude from which on type t takes no value. For types whose scale is a matter of one value
 * that is where the scale becomes infinite in f16; for those that search one, where it does so for
 * certain, and for those with a minimum there is none: find_infinite looks at what came out. */
static float largest(fy_type t)
{
    static const float limits[FY_TYPE_COUNT] = {
        [FY_F16] = F16_OVERFLOW,
        [FY_BF16] = 0x1.ffp127f, /* halfway from the largest bf16 to 2^128 */
        [FY_Q8_0] = F16_OVERFLOW * 127.0f,
        [FY_Q4_0] = F16_OVERFLOW * 8.0f,
        [FY_Q5_0] = F16_OVERFLOW * 16.0f,
        /* far from where the search's sums overflow: */
        [FY_Q4_K] = F16_OVERFLOW * 63.0f * 31.0f * 2.0f,
        [FY_Q5_K] = F16_OVERFLOW * 63.0f * 31.0f * 2.0f,
        [FY_Q6_K] = F16_OVERFLOW * 128.0f * 32.0f * 2.0f,
        [FY_Q2_K] = F16_OVERFLOW * 15.0f * 3.0f * 2.0f,
        [FY_Q3_K] = F16_OVERFLOW * 32.0f * 4.0f * 2.0f,
        [FY_IQ4_NL] = F16_OVERFLOW * 127.0f * 2.0f,
        [FY_MXFP4] = 0x1.fffep127f, /* from somewhat above it on, 8 times its scale is infinite */
    };
    return limits[t] > 0 ? limits[t] : INFINITY;
}

enum { STEP = 64 };

/* Of magnitudes as bits, which order like their values; those of NaN come last. The loop has a
 * fixed length so that compilers vectorize it. */
static bool any_from(const float *x, int32_t limit)
{
    int32_t bits[STEP], bad = 0;
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < STEP; i++)
        bad |= (bits[i] & INT32_MAX) >= limit ? -1 : 0;
    return bad != 0;
}

/* The first value that is not finite or not below `limit`; n when all are. */
static int64_t find_fault(const float *x, int64_t n, float limit)
{
    int32_t limit_bits;
    memcpy(&limit_bits, &limit, sizeof limit_bits);
    int64_t i = 0;
    while (i + STEP <= n && !any_from(x + i, limit_bits))
        i += STEP;
    while (i < n && fabsf(x[i]) < limit)
        i++;
    return i;
}

/* The types that scalar code alone writes; false for others. importance NULL: none. */
static bool encode_more(fy_type t, void *row, const float *x, int64_t n, const float *importance)
{
    switch ((int)t) {
    case FY_Q2_K:
        fy_encode_q2_k(row, x, n, importance);
        return true;
    case FY_Q3_K:
        fy_encode_q3_k(row, x, n, importance);
        return true;
    case FY_IQ4_NL:
        fy_encode_iq4_nl(row, x, n, importance);
        return true;
    case FY_MXFP4:
        fy_encode_mxfp4(row, x, n);
        return true;
    default:
        return false;
    }
}

static void encode_weighted(const fy_kernels *k, fy_type t, void *row, const float *x, int64_t n,
                            const fy_encode_options *how)
{
    const float *importance = how->importance, mean_square = how->mean_square;
#define CASE(id, name)                                                 \
    case id:                                                           \
        k->encode_weighted_##name(row, x, n, importance, mean_square); \
        break;
#define CASE_K(id, name)                                  \
    case id:                                              \
        k->encode_weighted_##name(row, x, n, importance); \
        break;
    switch ((int)t) {
        BLOCKS_OF_32(CASE)
        BLOCKS_OF_256(CASE_K)
    default:
        break; /* way_of refuses it */
    }
#undef CASE
#undef CASE_K
}

static void encode_fitted(const fy_kernels *k, fy_type t, void *row, const float *x, int64_t n,
                          const float *importance)
{
#define CASE(id, name)                        \
    case id:                                  \
        k->fit_##name(row, x, n, importance); \
        break;
    switch ((int)t) {
        BLOCKS_OF_32(CASE)
        CASE(FY_Q8_0, q8_0)
    default:
        break; /* way_of refuses it */
    }
#undef CASE
}

static void encode(const fy_kernels *k, fy_type t, void *row, const float *x, int64_t n)
{
#define CASE(id, name)               \
    case id:                         \
        k->encode_##name(row, x, n); \
        break;
    switch ((int)t) {
        BLOCKS_OF_32(CASE)
        BLOCKS_OF_256(CASE)
        CASE(FY_Q8_0, q8_0)
    case FY_F32:
        memcpy(row, x, (size_t)n * sizeof *x);
        break;
    case FY_F16:
        k->f32_to_f16(row, x, n);
        break;
    case FY_BF16:
        k->f32_to_bf16(row, x, n);
        break;
    default:
        break; /* fy_row_can_encode refuses it */
    }
#undef CASE
}

typedef enum { PLAIN, WEIGHTED, FITTED } way;

/* Which encoder `options` means for the type. */
static way way_of(fy_type t, const fy_encode_options *how)
{
    const int block = fy_type_get((uint32_t)t)->block;
    if (how == NULL || block == 1)
        return PLAIN;
    if (how->fit && block == FY_QK && t != FY_IQ4_NL && t != FY_MXFP4)
        return FITTED;
    return how->importance != NULL && t != FY_Q8_0 && t != FY_MXFP4 ? WEIGHTED : PLAIN;
}

fy_block_form fy_block_form_of(fy_type t)
{
    static const fy_block_form forms[FY_TYPE_COUNT] = {
        [FY_Q8_0] = {-128, 127, offsetof(fy_block_q8_0, d), 0},
        [FY_Q4_0] = {-8, 7, offsetof(fy_block_q4_0, d), 0},
        [FY_Q5_0] = {-16, 15, offsetof(fy_block_q5_0, d), 0},
        [FY_Q4_1] = {0, 15, offsetof(fy_block_q4_1, d), offsetof(fy_block_q4_1, m)},
        [FY_Q5_1] = {0, 31, offsetof(fy_block_q5_1, d), offsetof(fy_block_q5_1, m)},
        [FY_Q4_K] = {0, 15, offsetof(fy_block_q4_k, d), offsetof(fy_block_q4_k, dmin)},
        [FY_Q5_K] = {0, 31, offsetof(fy_block_q5_k, d), offsetof(fy_block_q5_k, dmin)},
        [FY_Q6_K] = {-32, 31, offsetof(fy_block_q6_k, d), 0},
        [FY_Q2_K] = {0, 3, offsetof(fy_block_q2_k, d), offsetof(fy_block_q2_k, dmin)},
        [FY_Q3_K] = {-4, 3, offsetof(fy_block_q3_k, d), 0},
        [FY_IQ4_NL] = {-127, 113, offsetof(fy_block_iq4_nl, d), 0},
        [FY_TQ1_0] = {.scale_at = offsetof(fy_block_tq1_0, d)},
        [FY_TQ2_0] = {.scale_at = offsetof(fy_block_tq2_0, d)},
        [FY_MXFP4] = {-12, 12, FY_NO_HALF, 0}, /* a byte */
        [FY_NVFP4] = {.scale_at = FY_NO_HALF},
        [FY_IQ1_M] = {.scale_at = FY_NO_HALF}, /* in parts */
    };
    return (uint32_t)t < FY_TYPE_COUNT ? forms[t] : (fy_block_form){0};
}

static uint16_t half_at(const uint8_t *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return half;
}

static bool is_infinite(const uint8_t *half)
{
    return (half_at(half) & 0x7c00) == 0x7c00;
}

/* Types whose scale follows from one value: `largest` keeps it finite. */
static bool cannot_overflow(fy_type t, way w)
{
    return fy_type_get((uint32_t)t)->block == 1 || t == FY_Q8_0 || t == FY_MXFP4 ||
           (w != WEIGHTED && (t == FY_Q4_0 || t == FY_Q5_0));
}

/* The value that made the first scale or minimum of a row infinite; n when none is. */
static int64_t find_infinite(fy_type t, way w, const uint8_t *row, const float *x, int64_t n)
{
    if (cannot_overflow(t, w))
        return n;
    const fy_type_info *info = fy_type_get((uint32_t)t);
    const fy_block_form f = fy_block_form_of(t);
    for (int64_t begin = 0; begin < n; begin += info->block) {
        const uint8_t *block = row + begin / info->block * info->bytes;
        const bool min = f.min_at > 0 && is_infinite(block + f.min_at);
        if (!min && !is_infinite(block + f.scale_at))
            continue;
        int64_t worst = begin;
        for (int64_t i = begin; i < begin + info->block; i++) {
            if (min ? x[i] < x[worst] : fabsf(x[i]) > fabsf(x[worst]))
                worst = i;
        }
        return worst;
    }
    return n;
}

int fy_row_encode(const fy_kernels *k, fy_type t, void *row, const float *x, int64_t n,
                  const fy_encode_options *how, fy_row_fault *fault)
{
    const way w = way_of(t, how);
    /* a search can make twice that scale finite */
    const float limit =
        w == WEIGHTED && fy_type_get((uint32_t)t)->block == FY_QK ? 2.0f * largest(t) : largest(t);
    int64_t bad = find_fault(x, n, limit);
    if (bad == n) {
        if (encode_more(t, row, x, n, w == WEIGHTED ? how->importance : NULL))
            ; /* done */
        else if (w == WEIGHTED)
            encode_weighted(k, t, row, x, n, how);
        else if (w == FITTED)
            encode_fitted(k, t, row, x, n, how->importance);
        else
            encode(k, t, row, x, n);
        bad = find_infinite(t, w, row, x, n);
    }
    if (bad == n)
        return 0;
    *fault = (fy_row_fault){.index = bad, .value = x[bad], .overflow = isfinite(x[bad])};
    return -1;
}

float fy_row_squares(float sum, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

void fy_row_encode_any(const fy_kernels *k, fy_type t, void *row, const float *x, int64_t n)
{
    assert(fy_type_get(t)->block == 1);
    encode(k, t, row, x, n);
}

int64_t fy_row_count_faults(fy_type t, const float *x, int64_t n)
{
    int64_t count = 0;
    float limit = largest(t);
    for (int64_t i = 0; i < n; i++)
        count += !(fabsf(x[i]) < limit);
    return count;
}

/* --- what a row loses ------------------------------------------------------------------------ */

/* Elements that are decoded at a time: a multiple of every block, and little enough to stay in the
 * first-level cache. */
enum { ERROR_STEP = 1024 };

/* Half a step beyond the levels. The product has at most 25 bits, so that this is one rounding. */
static void put(float *limits, const fy_block_form *f, float step, float min)
{
    const float first = step * ((float)f->low - 0.5f) + min,
                last = step * ((float)f->high + 0.5f) + min;
    limits[0] = step < 0 ? last : first;
    limits[1] = step < 0 ? first : last;
}

static void put_twice(float *limits, const fy_block_form *f, float step, float min)
{
    put(limits, f, step, min);
    memcpy(limits + 2, limits, 2 * sizeof *limits);
}

/* q4_K and q5_K begin alike. */
static void put_k(float *limits, const fy_block_form *f, const uint8_t *block)
{
    const uint8_t *scales = block + offsetof(fy_block_q4_k, scales);
    static_assert(offsetof(fy_block_q4_k, scales) == offsetof(fy_block_q5_k, scales), "the same");
    for (int s = 0; s < FY_K_SUBS; s++) {
        fy_quants sub;
        fy_k_scale_min(&sub, half_at(block + f->scale_at), half_at(block + f->min_at), scales, s);
        put_twice(limits + 4 * s, f, sub.d, sub.m);
    }
}

static void put_q6_k(float *limits, const fy_block_form *f, const uint8_t *block)
{
    const float d = fy_f16_to_f32(half_at(block + f->scale_at));
    for (int s = 0; s < FY_QK_K / FY_LIMIT_ELEMS; s++) {
        int8_t scale;
        memcpy(&scale, block + offsetof(fy_block_q6_k, scales) + s, sizeof scale);
        put(limits + 2 * s, f, d * (float)scale, 0.0f);
    }
}

/* Of the types that encode_more writes: what their reader gives for 16 elements. */
static void put_more(float *limits, const fy_block_form *f, const void *row, int64_t b,
                     fy_quants_fn *quants)
{
    const fy_quants w = quants(row, b);
    for (int half = 0; half < 2; half++)
        put(limits + 2 * half, f, w.d * (float)w.scale[half],
            f->min_at > 0 ? w.m * (float)w.min[half] : 0.0f);
}

void fy_row_limits(fy_type t, float *limits, const void *row, int64_t n)
{
    const fy_type_info *info = fy_type_get((uint32_t)t);
    const fy_block_form f = fy_block_form_of(t);
    fy_quants_fn *const more = t == FY_Q2_K     ? fy_quants_q2_k
                               : t == FY_Q3_K   ? fy_quants_q3_k
                               : t == FY_IQ4_NL ? fy_quants_iq4_nl
                               : t == FY_MXFP4  ? fy_quants_mxfp4
                                                : NULL;
    for (int64_t b = 0; b < n / FY_QK && more != NULL; b++)
        put_more(limits + b * FY_QK / FY_LIMIT_ELEMS * 2, &f, row, b, more);
    const uint8_t *block = row;
    for (int64_t i = 0; i < n && more == NULL; i += info->block, block += info->bytes) {
        if (t == FY_Q6_K)
            put_q6_k(limits, &f, block);
        else if (info->block == FY_QK_K)
            put_k(limits, &f, block);
        else
            put_twice(limits, &f, fy_f16_to_f32(half_at(block + f.scale_at)),
                      f.min_at > 0 ? fy_f16_to_f32(half_at(block + f.min_at)) : 0.0f);
        limits += info->block / FY_LIMIT_ELEMS * 2;
    }
}

void fy_row_error(const fy_kernels *k, fy_type t, fy_error_sums *s, const float *x, const void *row,
                  int64_t n)
{
    float y[ERROR_STEP], limits[ERROR_STEP / FY_LIMIT_ELEMS * 2];
    const bool blocks = fy_type_get((uint32_t)t)->block > 1;
    const uint8_t *from = row;
    for (int64_t i = 0; i < n; i += ERROR_STEP) {
        const int64_t m = n - i < ERROR_STEP ? n - i : ERROR_STEP;
        fy_row_decode(k, t, y, from, m);
        if (blocks)
            fy_row_limits(t, limits, from, m);
        k->error_sums(s, x + i, y, blocks ? limits : NULL, m);
        from += fy_type_row_bytes(t, (uint64_t)m);
    }
}

void fy_error_sums_join(fy_error_sums *s, const fy_error_sums *next)
{
    s->xx += next->xx;
    s->yy += next->yy;
    s->xy += next->xy;
    s->ee += next->ee;
    s->max_x = next->max_x > s->max_x ? next->max_x : s->max_x;
    s->max_e = next->max_e > s->max_e ? next->max_e : s->max_e;
    s->n += next->n;
    s->n_outside += next->n_outside;
}
