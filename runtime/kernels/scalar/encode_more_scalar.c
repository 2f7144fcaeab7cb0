/* The encoders of encode_more.h. Every sum is one chain in the order of the elements, every product
 * is taken from left to right and rounded (encode_k_scalar.h). */
#include "kernels/scalar/encode_more.h"

#include <math.h>
#include <string.h>

#include "kernels/scalar/encode_k_scalar.h"
#include "kernels/scalar/quant_grids.h"

enum { GROUP = 16, GROUPS = FY_QK_K / GROUP }; /* elements of a scale */

/* importance * sqrt(s + x^2), s `times` the mean square of the n values. */
static void weigh(float *weights, const float *x, const float *importance, int n, float times)
{
    float squares = 0.0f;
    for (int i = 0; i < n; i++)
        squares += x[i] * x[i];
    const float mean = times * squares / (float)n;
    for (int i = 0; i < n; i++)
        weights[i] = importance[i] * sqrtf(mean + x[i] * x[i]);
}

static float sum_of(const float *weights, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum += weights[i];
    return sum;
}

/* Two bits of every code, of four sub-blocks a byte. */
static void put_two_bits(uint8_t qs[FY_QK_K / 4], const uint8_t q[FY_QK_K])
{
    memset(qs, 0, FY_QK_K / 4);
    for (int i = 0; i < FY_QK_K; i++) {
        uint8_t *to = &qs[i / 128 * FY_QK + i % FY_QK];
        *to = (uint8_t)(*to | (q[i] & 3) << i % 128 / FY_QK * 2);
    }
}

/* --- q2_K ----------------------------------------------------------------------------------------
 */

static float largest_of(const float *x)
{
    float max = 0.0f;
    for (int g = 0; g < GROUPS; g++)
        max = x[g] > max ? x[g] : max;
    return max;
}

/* Codes 0 .. 15 of scales or minimums, of which one below zero keeps its low bits. */
static uint16_t four_bits(uint8_t codes[GROUPS], const float *x)
{
    const float max = largest_of(x), inverse = max > 0.0f ? 15.0f / max : 0.0f;
    for (int g = 0; g < GROUPS; g++)
        codes[g] = max > 0.0f ? (uint8_t)fy_k_nearest(inverse * x[g]) : 0;
    return fy_f32_to_f16(max / 15.0f);
}

static void q2_k_block(fy_block_q2_k *y, const float *x, const float *importance)
{
    static const fy_k_search plain = {
        .n = GROUP, .top = 3, .first = -0.5f, .width = 0.1f, .steps = 15, .absolute = true};
    fy_k_search how = plain;
    float weights[FY_QK_K], scales[GROUPS], mins[GROUPS], sums[GROUPS];
    uint8_t q[FY_QK_K], ls[GROUPS], lm[GROUPS];
    if (importance != NULL) {
        how = fy_weighted_search(3);
        how.n = GROUP;
        weigh(weights, x, importance, FY_QK_K, 1.0f);
    }
    for (int g = 0; g < GROUPS; g++) {
        float *w = weights + g * GROUP;
        for (int i = 0; i < GROUP && importance == NULL; i++)
            w[i] = fabsf(x[g * GROUP + i]);
        const fy_scale_min f = fy_search_scale_min(&how, x + g * GROUP, w);
        memcpy(q + g * GROUP, f.q, GROUP);
        scales[g] = f.scale;
        mins[g] = -f.min;
        sums[g] = sum_of(w, GROUP);
    }
    y->d = importance == NULL ? four_bits(ls, scales)
                              : fy_f32_to_f16(fy_search_positive(ls, scales, sums, GROUPS, 15));
    y->dmin = importance == NULL ? four_bits(lm, mins)
                                 : fy_f32_to_f16(fy_search_positive(lm, mins, sums, GROUPS, 15));
    for (int g = 0; g < GROUPS; g++) {
        y->scales[g] = (uint8_t)(ls[g] | lm[g] << 4);
        const float d = fy_f16_to_f32(y->d) * (float)(y->scales[g] & 15);
        const float m = fy_f16_to_f32(y->dmin) * (float)(y->scales[g] >> 4);
        for (int i = g * GROUP; i < (g + 1) * GROUP && d != 0.0f; i++)
            q[i] = (uint8_t)fy_k_nearest_between((x[i] + m) / d, 0, 3);
    }
    put_two_bits(y->qs, q);
}

void fy_encode_q2_k(fy_block_q2_k *y, const float *x, int64_t n, const float *importance)
{
    for (int64_t i = 0; i < n; i += FY_QK_K)
        q2_k_block(y++, x + i, importance != NULL ? importance + i : NULL);
}

/* --- q3_K ----------------------------------------------------------------------------------------
 */

/* The codes -4 .. 3 that the inverse scale of the largest value gives, and then, up to five times,
 * single codes moved where the others' best scale wants them; a value's weight is its square. Gives
 * the scale (make_q3_quants). */
static float search_q3(int8_t q[GROUP], const float *x)
{
    float m = 0.0f, xq = 0.0f, qq = 0.0f;
    for (int i = 0; i < GROUP; i++)
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    memset(q, -4, GROUP);
    if (fabsf(m) < FY_Q6_K_NOTHING)
        return 0.0f;
    const float inverse = -4.0f / m;
    for (int i = 0; i < GROUP; i++) {
        const float w = x[i] * x[i];
        q[i] = (int8_t)fy_k_nearest_between(inverse * x[i], -4, 3);
        xq += w * x[i] * (float)q[i];
        qq += w * (float)q[i] * (float)q[i];
    }
    bool moved = true;
    for (int pass = 0; pass < 5 && moved; pass++) {
        moved = false;
        for (int i = 0; i < GROUP; i++) {
            const float w = x[i] * x[i];
            float without = xq - w * x[i] * (float)q[i];
            if (!(without > 0.0f))
                continue;
            float squares = qq - w * (float)q[i] * (float)q[i];
            const int to = fy_k_nearest_between(x[i] * squares / without, -4, 3);
            without += w * x[i] * (float)to;
            squares += w * (float)to * (float)to;
            if (to != q[i] && squares > 0.0f && without * without * qq > xq * xq * squares) {
                q[i] = (int8_t)to;
                xq = without;
                qq = squares;
                moved = true;
            }
        }
    }
    return qq > 0.0f ? xq / qq : 0.0f;
}

/* The codes -32 .. 31 of the scales, and what they are times. */
static uint16_t round_q3_scales(int8_t codes[GROUPS], const float scales[GROUPS])
{
    float largest = 0.0f;
    for (int g = 0; g < GROUPS; g++)
        largest = fabsf(scales[g]) > fabsf(largest) ? scales[g] : largest;
    memset(codes, -32, GROUPS);
    if (largest == 0.0f)
        return 0;
    const float inverse = -32.0f / largest;
    for (int g = 0; g < GROUPS; g++)
        codes[g] = (int8_t)fy_k_nearest_between(inverse * scales[g], -32, 31);
    return fy_f32_to_f16(1.0f / inverse);
}

static void q3_k_block(fy_block_q3_k *y, const float *x, const float *importance)
{
    float weights[FY_QK_K], scales[GROUPS], sums[GROUPS];
    int8_t q[FY_QK_K], ls[GROUPS];
    uint8_t u[FY_QK_K];
    if (importance != NULL)
        weigh(weights, x, importance, FY_QK_K, 2.0f);
    for (int g = 0; g < GROUPS; g++) {
        const int at = g * GROUP;
        if (importance == NULL) {
            scales[g] = search_q3(q + at, x + at);
        } else {
            scales[g] = fy_search_scale(q + at, x + at, weights + at, GROUP, 4);
            sums[g] = sum_of(weights + at, GROUP);
        }
    }
    y->d = importance == NULL ? round_q3_scales(ls, scales)
                              : fy_f32_to_f16(fy_search_scale(ls, scales, sums, GROUPS, 32));
    memset(y->scales, 0, sizeof y->scales);
    memset(y->hmask, 0, sizeof y->hmask);
    for (int g = 0; g < GROUPS; g++) {
        const int code = ls[g] + 32;
        const float d = fy_f16_to_f32(y->d) * (float)ls[g];
        y->scales[g % 8] = (uint8_t)(y->scales[g % 8] | (code & 15) << g / 8 * 4);
        y->scales[8 + g % 4] = (uint8_t)(y->scales[8 + g % 4] | code >> 4 << g / 4 * 2);
        for (int i = g * GROUP; i < (g + 1) * GROUP; i++) {
            if (d != 0.0f)
                q[i] = (int8_t)fy_k_nearest_between(x[i] / d, -4, 3);
            u[i] = (uint8_t)(q[i] + 4);
            y->hmask[i % FY_QK] = (uint8_t)(y->hmask[i % FY_QK] | u[i] >> 2 << i / FY_QK);
        }
    }
    put_two_bits(y->qs, u);
}

void fy_encode_q3_k(fy_block_q3_k *y, const float *x, int64_t n, const float *importance)
{
    for (int64_t i = 0; i < n; i += FY_QK_K)
        q3_k_block(y++, x + i, importance != NULL ? importance + i : NULL);
}

/* --- iq4_nl --------------------------------------------------------------------------------------
 */

/* The nearest value; of two as near the larger one. */
static uint8_t nearest_value(float v)
{
    int low = 0, high = 15;
    if (!(v > (float)fy_iq4_values[0]))
        return 0;
    if (v >= (float)fy_iq4_values[15])
        return 15;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (v < (float)fy_iq4_values[middle])
            high = middle;
        else
            low = middle;
    }
    return (uint8_t)(v - (float)fy_iq4_values[low] < (float)fy_iq4_values[high] - v ? low : high);
}

typedef struct {
    float xq, qq;
} value_sums;

static value_sums sums_with(const float *x, const float *weights, float inverse)
{
    value_sums s = {0.0f, 0.0f};
    for (int i = 0; i < FY_QK; i++) {
        const float q = (float)fy_iq4_values[nearest_value(inverse * x[i])];
        s.xq += weights[i] * q * x[i];
        s.qq += weights[i] * q * q;
    }
    return s;
}

/* 15 inverse scales around that of the largest value, and the scale that fits each one's codes. */
static float search_iq4(const float *x, const float *weights)
{
    const float first = (float)fy_iq4_values[0];
    float m = 0.0f;
    for (int i = 0; i < FY_QK; i++)
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    if (fabsf(m) < FY_Q6_K_NOTHING)
        return 0.0f;
    value_sums s = sums_with(x, weights, 1.0f / (-m / first));
    float scale = s.qq > 0.0f ? s.xq / s.qq : 0.0f, best = scale * s.xq;
    for (int step = -7; step <= 7; step++) {
        s = sums_with(x, weights, ((float)step + first) / m);
        if (s.qq > 0.0f && s.xq * s.xq > best * s.qq) {
            scale = s.xq / s.qq;
            best = scale * s.xq;
        }
    }
    return scale;
}

void fy_encode_iq4_nl(fy_block_iq4_nl *y, const float *x, int64_t n, const float *importance)
{
    for (int64_t at = 0; at < n; at += FY_QK, x += FY_QK, y++) {
        float weights[FY_QK];
        uint8_t q[FY_QK];
        if (importance != NULL)
            weigh(weights, x, importance + at, FY_QK, 2.0f);
        for (int i = 0; i < FY_QK && importance == NULL; i++)
            weights[i] = x[i] * x[i];
        const float scale = search_iq4(x, weights), inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        y->d = fy_f32_to_f16(scale);
        for (int i = 0; i < FY_QK; i++)
            q[i] = nearest_value(inverse * x[i]);
        fy_put_low_bits(y->qs, q);
    }
}

/* --- mxfp4 ---------------------------------------------------------------------------------------
 */

/* floorf(log2f(v)) of a positive number. So close below a power of two, 2^k, that its logarithm
 * rounds to k, it is k: by at most 1 / 2.885 units of 2^-24 for each unit in the last place of k.
 */
static int floor_log2(float v)
{
    int k;
    const float below = 1.0f - frexpf(v, &k); /* v = (1 - below) 2^k */
    if (k == 0)
        return below == 0.0f ? 0 : -1;
    int ulp;
    frexpf(k > 0 ? (float)k - 0.5f : (float)-k,
           &ulp); /* of the numbers next to k, below it: 2^(ulp - 24) */
    return below * 0x1p24f * 1.442695f <= ldexpf(0.5f, ulp) ? k : k - 1;
}

void fy_encode_mxfp4(fy_block_mxfp4 *y, const float *x, int64_t n)
{
    for (int64_t at = 0; at < n; at += FY_QK, x += FY_QK, y++) {
        float amax = 0.0f;
        uint8_t q[FY_QK];
        for (int i = 0; i < FY_QK; i++)
            amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
        /* below 2^-125 it wraps; all codes are 0 then */
        y->e = amax > 0.0f ? (uint8_t)(floor_log2(amax) - 2 + 127) : 0;
        const float d = ldexpf(1.0f, y->e - 128);
        for (int i = 0; i < FY_QK; i++) {
            float least = fabsf(x[i]);
            q[i] = 0;
            for (int c = 1; c < 16; c++) {
                const float error = fabsf((float)fy_fp4_values[c] * d - x[i]);
                if (error < least) {
                    q[i] = (uint8_t)c;
                    least = error;
                }
            }
        }
        fy_put_low_bits(y->qs, q);
    }
}
