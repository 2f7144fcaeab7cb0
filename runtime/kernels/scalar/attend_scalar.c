/* Attention chunk by chunk, in the order of operations that kernels.h defines for every ISA. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/dot_scalar.h"

static float element_q8_0(const uint8_t *row, int64_t i)
{
    fy_block_q8_0 block;
    memcpy(&block, row + i / FY_QK * (int64_t)sizeof block, sizeof block);
    return fy_f16_to_f32(block.d) * (float)block.qs[i % FY_QK];
}

static void dots(float *s, const float *q, int64_t n_queries, const uint8_t *K, int64_t n_keys,
                 int64_t dim, size_t row_bytes, fy_weight_fn *element)
{
    const int64_t padded = (dim + 7) / 8 * 8;
    for (int64_t i = 0; i < n_queries; i++) {
        for (int64_t j = 0; j < n_keys; j++)
            s[i * FY_ATTEND_CHUNK + j] =
                fy_dot_scalar(K + (size_t)j * row_bytes, q + i * padded, dim, element);
    }
}

static void add(float *acc, const float *p, int64_t n_queries, const uint8_t *V, int64_t n_keys,
                int64_t dim, size_t row_bytes, fy_weight_fn *element)
{
    for (int64_t q = 0; q < n_queries; q++) {
        for (int64_t i = 0; i < dim; i++) {
            float *a = acc + q * dim + i;
            for (int64_t j = 0; j < n_keys; j++)
                *a = fmaf(p[q * FY_ATTEND_CHUNK + j], element(V + (size_t)j * row_bytes, i), *a);
        }
    }
}

static void soften(float *s, int begin, int end, float scale, float cap, fy_softmax *state)
{
    for (int j = begin; j < end; j++)
        s[j] = scale * s[j];
    if (cap != 0)
        fy_softcap__scalar(s + begin, end - begin, cap);
    float max = state->max;
    for (int j = begin; j < end; j++)
        max = s[j] > max ? s[j] : max;
    const float shift = max == -INFINITY ? 0.0f : max;
    float lane[8] = {0}, u[4];
    for (int j = 0; j < FY_ATTEND_CHUNK; j++) {
        s[j] = j >= begin && j < end ? fy_exp(s[j] - shift) : 0.0f;
        lane[j % 8] += s[j];
    }
    for (int l = 0; l < 4; l++)
        u[l] = lane[l] + lane[l + 4];
    const float total = (u[0] + u[2]) + (u[1] + u[3]);
    state->factor = max > state->max ? fy_exp(state->max - shift) : 1.0f;
    state->sum = state->sum * (double)state->factor + (double)total;
    state->max = max;
}

void fy_attend_softmax__scalar(float *s, int64_t n_queries, int begin, int end, float scale,
                               float cap, fy_softmax *state)
{
    for (int64_t i = 0; i < n_queries; i++)
        soften(s + i * FY_ATTEND_CHUNK, begin, end, scale, cap, &state[i]);
}

void fy_attend_dots_f32__scalar(float *s, const float *q, int64_t n_queries, const void *K,
                                int64_t n_keys, int64_t dim)
{
    dots(s, q, n_queries, K, n_keys, dim, 4 * (size_t)dim, fy_weight_f32);
}

void fy_attend_dots_f16__scalar(float *s, const float *q, int64_t n_queries, const void *K,
                                int64_t n_keys, int64_t dim)
{
    dots(s, q, n_queries, K, n_keys, dim, 2 * (size_t)dim, fy_weight_f16);
}

void fy_attend_add_f32__scalar(float *acc, const float *p, int64_t n_queries, const void *V,
                               int64_t n_keys, int64_t dim)
{
    add(acc, p, n_queries, V, n_keys, dim, 4 * (size_t)dim, fy_weight_f32);
}

void fy_attend_add_f16__scalar(float *acc, const float *p, int64_t n_queries, const void *V,
                               int64_t n_keys, int64_t dim)
{
    add(acc, p, n_queries, V, n_keys, dim, 2 * (size_t)dim, fy_weight_f16);
}

void fy_attend_add_q8_0__scalar(float *acc, const float *p, int64_t n_queries, const void *V,
                                int64_t n_keys, int64_t dim)
{
    add(acc, p, n_queries, V, n_keys, dim, (size_t)dim / FY_QK * sizeof(fy_block_q8_0),
        element_q8_0);
}
