/* q6_K rows. The eight lanes are eight groups of 16 elements, so that each lane takes the steps of
 * encode_k_scalar.c in their order and arrives at their bytes. Bound by its 19 passes over the
 * group in registers and L1. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/encode_k_scalar.h"
#include "kernels/x86/vec_avx2.h"

enum { GROUP = FY_Q6_K_GROUP, N_GROUPS = FY_QK_K / GROUP, LANES = 8 };

/* As fy_k_nearest_between(v, -32, 31) of the scalar code, for any v. */
FY_INLINE __m256i nearest(__m256 v)
{
    const __m256i bits = _mm256_castps_si256(_mm256_add_ps(v, _mm256_set1_ps(12582912.0f)));
    const __m256i q = _mm256_sub_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff)),
                                       _mm256_set1_epi32(0x00400000));
    return _mm256_min_epi32(_mm256_max_epi32(q, _mm256_set1_epi32(-32)), _mm256_set1_epi32(31));
}

typedef struct {
    __m256 xq, qq;
} sums;

/* x and its second and third powers: element i of every group. */
FY_INLINE sums sums_of(const __m256 x[GROUP], const __m256 x2[GROUP], const __m256 x3[GROUP],
                       __m256 inverse)
{
    sums s = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int i = 0; i < GROUP; i++) {
        const __m256 q = _mm256_cvtepi32_ps(nearest(_mm256_mul_ps(inverse, x[i])));
        s.xq = _mm256_add_ps(s.xq, _mm256_mul_ps(x3[i], q));
        s.qq = _mm256_add_ps(s.qq, _mm256_mul_ps(_mm256_mul_ps(x2[i], q), q));
    }
    return s;
}

/* The scales of eight groups, and the inverse scales that gave their quants; 0 and 0 where there is
 * nothing. */
static void search(float scales[LANES], float inverses[LANES], const float *values)
{
    const __m256i at = _mm256_setr_epi32(0, GROUP, 2 * GROUP, 3 * GROUP, 4 * GROUP, 5 * GROUP,
                                         6 * GROUP, 7 * GROUP);
    __m256 x[GROUP], x2[GROUP], x3[GROUP], m = _mm256_setzero_ps();
    for (int i = 0; i < GROUP; i++) {
        x[i] = _mm256_i32gather_ps(values + i, at, sizeof(float));
        x2[i] = _mm256_mul_ps(x[i], x[i]);
        x3[i] = _mm256_mul_ps(x2[i], x[i]);
        m = _mm256_blendv_ps(m, x[i], _mm256_cmp_ps(fy_abs(x[i]), fy_abs(m), _CMP_GT_OQ));
    }
    __m256 inverse = _mm256_div_ps(_mm256_set1_ps(-32.0f), m);
    sums s = sums_of(x, x2, x3, inverse);
    const __m256 zero = _mm256_setzero_ps();
    __m256 scale = _mm256_and_ps(_mm256_cmp_ps(s.qq, zero, _CMP_NEQ_UQ), _mm256_div_ps(s.xq, s.qq));
    __m256 best = _mm256_mul_ps(scale, s.xq);
    for (int step = -9; step <= 9; step++) {
        if (step == 0)
            continue;
        const __m256 candidate = _mm256_div_ps(_mm256_set1_ps(-(32.0f + 0.1f * (float)step)), m);
        s = sums_of(x, x2, x3, candidate);
        const __m256 better = _mm256_and_ps(
            _mm256_cmp_ps(s.qq, zero, _CMP_GT_OQ),
            _mm256_cmp_ps(_mm256_mul_ps(s.xq, s.xq), _mm256_mul_ps(best, s.qq), _CMP_GT_OQ));
        const __m256 fit = _mm256_div_ps(s.xq, s.qq);
        inverse = _mm256_blendv_ps(inverse, candidate, better);
        scale = _mm256_blendv_ps(scale, fit, better);
        best = _mm256_blendv_ps(best, _mm256_mul_ps(fit, s.xq), better);
    }
    const __m256 nothing = _mm256_cmp_ps(fy_abs(m), _mm256_set1_ps(FY_Q6_K_NOTHING), _CMP_LT_OQ);
    _mm256_storeu_ps(scales, _mm256_andnot_ps(nothing, scale));
    _mm256_storeu_ps(inverses, _mm256_andnot_ps(nothing, inverse));
}

FY_INLINE void put_quants(int8_t q[GROUP], __m256i a, __m256i b)
{
    int32_t wide[GROUP];
    _mm256_storeu_si256((__m256i *)(void *)wide, a);
    _mm256_storeu_si256((__m256i *)(void *)(wide + LANES), b);
    for (int i = 0; i < GROUP; i++)
        q[i] = (int8_t)wide[i];
}

static void encode_block(fy_block_q6_k *y, const float *x)
{
    int8_t q[FY_QK_K];
    float scales[N_GROUPS], inverses[N_GROUPS], largest = 0.0f;
    for (int g = 0; g < N_GROUPS; g += LANES)
        search(scales + g, inverses + g, x + g * GROUP);
    for (int g = 0; g < N_GROUPS; g++)
        largest = fabsf(scales[g]) > fabsf(largest) ? scales[g] : largest;
    if (fabsf(largest) < FY_Q6_K_NOTHING) {
        memset(y, 0, sizeof *y);
        return;
    }
    const float inverse = -128.0f / largest;
    y->d = fy_f32_to_f16(1.0f / inverse);
    for (int g = 0; g < N_GROUPS; g++) {
        y->scales[g] = (int8_t)fy_k_nearest_between(inverse * scales[g], -128, 127);
        const float d = fy_f16_to_f32(y->d) * (float)y->scales[g];
        const __m256 a = _mm256_loadu_ps(x + g * GROUP), b = _mm256_loadu_ps(x + g * GROUP + LANES);
        const __m256 by = _mm256_set1_ps(d), times = _mm256_set1_ps(inverses[g]);
        if (d != 0.0f)
            put_quants(q + g * GROUP, nearest(_mm256_div_ps(a, by)), nearest(_mm256_div_ps(b, by)));
        else if (inverses[g] == 0.0f)
            memset(q + g * GROUP, -32, GROUP);
        else
            put_quants(q + g * GROUP, nearest(_mm256_mul_ps(a, times)),
                       nearest(_mm256_mul_ps(b, times)));
    }
    fy_q6_k_pack(y, q);
}

void fy_encode_q6_k__avx2(fy_block_q6_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        encode_block(y + b, x + b * FY_QK_K);
}
