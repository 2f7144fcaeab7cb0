/* Matrix products and attention, chunk by chunk, in the order of operations that kernels.h defines
 * for every ISA. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/quants_scalar.h"

/* --- dot products of float rows -------------------------------------------------------------- */

/* Reads element i of a row of any alignment. */
typedef float weight_fn(const uint8_t *row, int64_t i);

static float weight_f32(const uint8_t *row, int64_t i)
{
    float f;
    memcpy(&f, row + 4 * i, sizeof f);
    return f;
}

static float weight_f16(const uint8_t *row, int64_t i)
{
    uint16_t h;
    memcpy(&h, row + 2 * i, sizeof h);
    return fy_f16_to_f32(h);
}

static float weight_bf16(const uint8_t *row, int64_t i)
{
    uint16_t h;
    memcpy(&h, row + 2 * i, sizeof h);
    return fy_bf16_to_f32(h);
}

static inline float dot_product(const uint8_t *row, const float *x, int64_t k, weight_fn *weight)
{
    enum { LANES = 8 };
    float lane[LANES] = {0};
    for (int64_t i = 0; i < k; i += LANES) {
        for (int l = 0; l < LANES; l++)
            lane[l] =
                i + l < k ? fmaf(weight(row, i + l), x[i + l], lane[l]) : fmaf(0.0f, 0.0f, lane[l]);
    }
    float u[4];
    for (int l = 0; l < 4; l++)
        u[l] = lane[l] + lane[l + 4];
    return (u[0] + u[2]) + (u[1] + u[3]);
}

/* --- products -------------------------------------------------------------------------------- */

static void matmul_float(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                         int64_t row_end, const fy_act *a, int64_t n_cols, weight_fn *weight)
{
    for (int64_t c = 0; c < n_cols; c++) {
        const float *x = a->x + c * a->k;
        for (int64_t r = row_begin; r < row_end; r++) {
            const uint8_t *row = (const uint8_t *)W + (size_t)r * row_bytes;
            y[c * ldy + r] = dot_product(row, x, a->k, weight);
        }
    }
}

#define DEFINE_MATMUL_FLOAT(type)                                                           \
    void fy_matmul_##type##__scalar(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                    int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                    int64_t n_cols, void *scratch)                          \
    {                                                                                       \
        (void)scratch;                                                                      \
        matmul_float(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, weight_##type);   \
    }

DEFINE_MATMUL_FLOAT(f32)
DEFINE_MATMUL_FLOAT(f16)
DEFINE_MATMUL_FLOAT(bf16)

static int32_t dot16(const int8_t *w, const int8_t *x)
{
    int32_t sum = 0;
    for (int i = 0; i < 16; i++)
        sum += w[i] * x[i];
    return sum;
}

static int32_t sum16(const int8_t *x)
{
    int32_t sum = 0;
    for (int i = 0; i < 16; i++)
        sum += x[i];
    return sum;
}

/* Continues a chain over a block. */
static inline float add_block(float acc, const fy_quants *w, const int8_t *x, float d,
                              int32_t x_sum, fy_quants_form form)
{
    const int32_t low = w->scale[0] * dot16(w->q, x), high = w->scale[1] * dot16(w->q + 16, x + 16);
    if (form == FY_TWO_SCALES)
        return fmaf(w->m * d, (float)high, fmaf(w->d * d, (float)low, acc));
    acc = fmaf(w->d * d, (float)(low + high), acc);
    if (form == FY_MIN_OF_16)
        x_sum = w->min[0] * sum16(x) + w->min[1] * sum16(x + 16);
    return form == FY_NO_MIN ? acc : fmaf(w->m * d, (float)x_sum, acc);
}

/* Each block is unpacked once for all columns, whose chains rest in y. Inlined into each type, or
 * every block would be written to memory and read again at another width: a third of the speed. */
static inline __attribute__((always_inline)) void
matmul_blocks(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
              int64_t row_end, const fy_act *a, int64_t n_cols, fy_quants_form form,
              fy_quants_fn *quants)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t r = row_begin; r < row_end; r++) {
        const uint8_t *row = (const uint8_t *)W + (size_t)r * row_bytes;
        for (int64_t c = 0; c < n_cols; c++)
            y[c * ldy + r] = 0.0f;
        for (int64_t b = 0; b < n_blocks; b++) {
            const fy_quants w = quants(row, b);
            for (int64_t c = 0; c < n_cols; c++) {
                const int8_t *x = a->q + c * a->k + b * FY_QK;
                float *acc = &y[c * ldy + r];
                *acc =
                    add_block(*acc, &w, x, a->d[c * n_blocks + b], a->sum[c * n_blocks + b], form);
            }
        }
    }
}

#define DEFINE_MATMUL(type, form)                                                           \
    void fy_matmul_##type##__scalar(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                    int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                    int64_t n_cols, void *scratch)                          \
    {                                                                                       \
        (void)scratch;                                                                      \
        matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, form,            \
                      fy_quants_##type);                                                    \
    }

DEFINE_MATMUL(q8_0, FY_NO_MIN)
DEFINE_MATMUL(q4_0, FY_NO_MIN)
DEFINE_MATMUL(q4_1, FY_MIN)
DEFINE_MATMUL(q5_0, FY_NO_MIN)
DEFINE_MATMUL(q5_1, FY_MIN)
DEFINE_MATMUL(q4_k, FY_MIN)
DEFINE_MATMUL(q5_k, FY_MIN)
DEFINE_MATMUL(q6_k, FY_NO_MIN)

/* One piece of code for the others, whose blocks come through memory. */
static __attribute__((noinline)) void matmul_more(float *y, int64_t ldy, const void *W,
                                                  size_t row_bytes, int64_t row_begin,
                                                  int64_t row_end, const fy_act *a, int64_t n_cols,
                                                  fy_quants_form form, fy_quants_fn *quants)
{
    matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, form, quants);
}

#define DEFINE_MORE(type, form)                                                                   \
    void fy_matmul_##type##__scalar(float *y, int64_t ldy, const void *W, size_t row_bytes,       \
                                    int64_t row_begin, int64_t row_end, const fy_act *a,          \
                                    int64_t n_cols, void *scratch)                                \
    {                                                                                             \
        (void)scratch;                                                                            \
        matmul_more(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, form, fy_quants_##type); \
    }
FY_MORE_TYPES(DEFINE_MORE)

/* --- attention ------------------------------------------------------------------------------- */

static float element_q8_0(const uint8_t *row, int64_t i)
{
    fy_block_q8_0 block;
    memcpy(&block, row + i / FY_QK * (int64_t)sizeof block, sizeof block);
    return fy_f16_to_f32(block.d) * (float)block.qs[i % FY_QK];
}

static void dots(float *s, const float *q, int64_t n_queries, const uint8_t *K, int64_t n_keys,
                 int64_t dim, size_t row_bytes, weight_fn *element)
{
    const int64_t padded = (dim + 7) / 8 * 8;
    for (int64_t i = 0; i < n_queries; i++) {
        for (int64_t j = 0; j < n_keys; j++)
            s[i * FY_ATTEND_CHUNK + j] =
                dot_product(K + (size_t)j * row_bytes, q + i * padded, dim, element);
    }
}

static void add(float *acc, const float *p, int64_t n_queries, const uint8_t *V, int64_t n_keys,
                int64_t dim, size_t row_bytes, weight_fn *element)
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

FY_DEFINE_ATTEND_DOTS(scalar, f32, 4 * (size_t)dim, weight_f32)
FY_DEFINE_ATTEND_DOTS(scalar, f16, 2 * (size_t)dim, weight_f16)
FY_DEFINE_ATTEND_ADD(scalar, f32, 4 * (size_t)dim, weight_f32)
FY_DEFINE_ATTEND_ADD(scalar, f16, 2 * (size_t)dim, weight_f16)
FY_DEFINE_ATTEND_ADD(scalar, q8_0, (size_t)dim / FY_QK * sizeof(fy_block_q8_0), element_q8_0)

/* --- listed rows ------------------------------------------------------------------------------ */

#define DEFINE_DOT_ROWS(type)                                                                 \
    void fy_dot_rows_##type##__scalar(float *y, const void *W, size_t row_bytes,              \
                                      const int32_t *rows, int64_t n, const fy_act *a)        \
    {                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                       \
            fy_matmul_##type##__scalar(y, 0, W, row_bytes, rows[i], rows[i] + 1, a, 1, NULL); \
    }

DEFINE_DOT_ROWS(q8_0)
DEFINE_DOT_ROWS(q4_0)

static float element_q4_0(const uint8_t *row, int64_t i)
{
    fy_block_q4_0 block;
    memcpy(&block, row + i / FY_QK * (int64_t)sizeof block, sizeof block);
    const int64_t in = i % FY_QK, half = FY_QK / 2;
    const int code = in < half ? block.qs[in] & 15 : block.qs[in - half] >> 4;
    return fy_f16_to_f32(block.d) * (float)(code - 8);
}

static __attribute__((noinline)) void add_rows(float *y, const float *p, const uint8_t *W,
                                               size_t row_bytes, const int32_t *rows, int64_t n,
                                               int64_t n_cols, weight_fn *element)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n_cols; j++)
            y[j] = fmaf(p[i], element(W + (size_t)rows[i] * row_bytes, j), y[j]);
    }
}

#define DEFINE_ADD_ROWS(type, element)                                                            \
    void fy_add_rows_##type##__scalar(float *y, const float *p, const void *W, size_t row_bytes,  \
                                      const int32_t *rows, int64_t n, int64_t n_cols)             \
    {                                                                                             \
        add_rows(y, p, W, row_bytes, rows, n, n_cols, element);                                   \
    }

DEFINE_ADD_ROWS(f16, weight_f16)
DEFINE_ADD_ROWS(q8_0, element_q8_0)
DEFINE_ADD_ROWS(q4_0, element_q4_0)

void fy_add_tile__scalar(fy_add_token *tokens, int64_t n_tokens, const float *tile, int32_t first,
                         int32_t end)
{
    for (fy_add_token *t = tokens; t < tokens + n_tokens; t++) {
        for (; t->n > 0 && *t->rows < end; t->n--, t->rows++, t->p++) {
            for (int64_t j = 0; j < FY_ADD_COLS; j++)
                t->y[j] = fmaf(*t->p, tile[(*t->rows - first) * FY_ADD_COLS + j], t->y[j]);
        }
    }
}
