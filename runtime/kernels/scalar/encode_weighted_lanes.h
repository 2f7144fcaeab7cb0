/* The file encoders under an importance matrix, on the searches of encode_k_lanes.h, which is
 * included before this. What follows a search is the specification's own, or its bytes. */
#include "kernels/scalar/encode_k_lanes.h"
#include "kernels/scalar/fit_scalar.h"

#define FY_L_WEIGHTED(type, isa) FY_L_NAME2(weighted_##type, isa)

FY_INLINE void fy_l_take_weighted(fy_lanes *x, fy_lanes *w, const float *values,
                                  const float *importance, fy_lanes mean_square)
{
    fy_l_transpose(x, values, FY_QK);
    fy_l_transpose(w, importance, FY_QK);
    for (int i = 0; i < FY_QK; i++)
        w[i] = w[i] * fy_l_sqrt(mean_square + x[i] * x[i]);
}

/* --- types of 32 elements -------------------------------------------------------------------- */

/* FY_LANES blocks: what is stored for them. */
typedef struct {
    float d[FY_LANES], m[FY_LANES];
    uint8_t q[FY_LANES * FY_QK];
} fy_l_blocks;

/* Code i of every block, which is a whole number. */
FY_INLINE void fy_l_put_codes(fy_l_blocks *b, int i, fy_lanes code, int add)
{
    float v[FY_LANES];
    fy_l_store(v, code);
    for (int lane = 0; lane < FY_LANES; lane++)
        b->q[lane * FY_QK + i] = (uint8_t)((int)v[lane] + add);
}

static void fy_l_around(fy_l_blocks *b, int around, const float *x, const float *importance,
                        float mean_square)
{
    fy_l_groups g;
    fy_lanes inverse;
    fy_l_take_weighted(g.x, g.w, x, importance, fy_l_set(mean_square));
    const fy_lanes scale = around == 8 ? fy_l_search_scale(&inverse, &g, FY_QK, 8)
                                       : fy_l_search_scale(&inverse, &g, FY_QK, 16);
    const fy_lanes nothing = fy_l_set((float)-around), zero = fy_l_set(0.0f);
    const fy_lanes_mask none = fy_l_equal(inverse, zero);
    fy_l_store(b->d, scale);
    fy_l_store(b->m, zero);
    for (int i = 0; i < FY_QK; i++) {
        const fy_lanes q = fy_l_nearest_between(inverse * g.x[i], -around, around - 1);
        fy_l_put_codes(b, i, fy_l_select(none, nothing, q), around);
    }
}

static void fy_l_between(fy_l_blocks *b, int top, const float *x, const float *importance,
                         float mean_square)
{
    const fy_k_search how = fy_weighted_search(top);
    fy_l_subs s;
    fy_l_take_weighted(s.x, s.w, x, importance, fy_l_set(mean_square));
    const fy_l_range r = fy_l_search(&s, &how);
    const fy_lanes_mask held = fy_l_less(fy_l_set(0.0f), r.held);
    fy_l_store(b->d, r.scale);
    fy_l_store(b->m, r.min);
    for (int i = 0; i < FY_QK; i++) {
        const fy_lanes v = r.inverse * (s.x[i] - r.base);
        const fy_lanes q = fy_l_select(held, fy_l_held(v, top), fy_l_nearest_between(v, 0, top));
        fy_l_put_codes(b, i, q, 0);
    }
}

/* The last blocks of a row are filled up with zeros. */
#define FY_L_DEFINE_WEIGHTED(type, search, limit)                                      \
    void FY_L_WEIGHTED(type, FY_L_ISA)(fy_block_##type * y, const float *x, int64_t n, \
                                       const float *importance, float mean_square)     \
    {                                                                                  \
        enum { AT_ONCE = FY_LANES * FY_QK };                                           \
        float last[2][AT_ONCE];                                                        \
        fy_l_blocks b;                                                                 \
        for (; n > 0; n -= AT_ONCE, x += AT_ONCE, importance += AT_ONCE) {             \
            if (n < AT_ONCE) {                                                         \
                memset(last, 0, sizeof last);                                          \
                x = memcpy(last[0], x, (size_t)n * sizeof *x);                         \
                importance = memcpy(last[1], importance, (size_t)n * sizeof *x);       \
            }                                                                          \
            search(&b, limit, x, importance, mean_square);                             \
            for (int i = 0; i < FY_LANES && i * FY_QK < n; i++)                        \
                fy_fit_put_##type(y++, fy_f32_to_f16(b.d[i]), fy_f32_to_f16(b.m[i]),   \
                                  b.q + i * FY_QK);                                    \
        }                                                                              \
    }

FY_L_DEFINE_WEIGHTED(q4_0, fy_l_around, 8)
FY_L_DEFINE_WEIGHTED(q5_0, fy_l_around, 16)
FY_L_DEFINE_WEIGHTED(q4_1, fy_l_between, 15)
FY_L_DEFINE_WEIGHTED(q5_1, fy_l_between, 31)

/* --- q4_K, q5_K ------------------------------------------------------------------------------ */

/* Sub-blocks from number `at` on; means: of the superblocks of the lanes. */
static void fy_l_weighted_subs(float *scales, float *mins, float *sums, int at, int top,
                               const float *x, const float *importance, const float *means)
{
    const fy_k_search how = fy_weighted_search(top);
    float mean[FY_LANES];
    fy_l_subs s;
    for (int i = 0; i < FY_LANES; i++)
        mean[i] = means[(at + i) / FY_K_SUBS];
    fy_l_take_weighted(s.x, s.w, x + at * FY_QK, importance + at * FY_QK, fy_l_load(mean));
    const fy_l_range r = fy_l_search(&s, &how);
    fy_l_store(scales + at, r.scale);
    fy_l_store(mins + at, fy_l_set(-1.0f) * r.min);
    fy_l_store(sums + at, s.sum_w);
}

/* One chain after the other would wait for each addition: of all superblocks at once. */
FY_INLINE void fy_l_means(float means[FY_L_SUPERS], const float *x)
{
    float squares[FY_L_SUPERS] = {0};
    for (int i = 0; i < FY_QK_K; i++) {
        for (int k = 0; k < FY_L_SUPERS; k++)
            squares[k] += x[k * FY_QK_K + i] * x[k * FY_QK_K + i];
    }
    for (int k = 0; k < FY_L_SUPERS; k++)
        means[k] = 2.0f * squares[k] / (float)FY_QK_K;
}

/* A superblock of scales that are 0 keeps codes of the search: those the specification has. */
#define FY_L_DEFINE_WEIGHTED_K(type, top)                                                      \
    void FY_L_WEIGHTED(type, FY_L_ISA)(fy_block_##type * y, const float *x, int64_t n,         \
                                       const float *importance)                                \
    {                                                                                          \
        enum { AT_ONCE = FY_L_SUPERS * FY_QK_K };                                              \
        float scales[FY_L_FOUND], mins[FY_L_FOUND], sums[FY_L_FOUND], means[FY_L_SUPERS];      \
        for (; n >= AT_ONCE; n -= AT_ONCE) {                                                   \
            fy_l_means(means, x);                                                              \
            for (int at = 0; at < FY_L_FOUND; at += FY_LANES)                                  \
                fy_l_weighted_subs(scales, mins, sums, at, top, x, importance, means);         \
            for (int i = 0; i < FY_L_FOUND;                                                    \
                 i += FY_K_SUBS, x += FY_QK_K, importance += FY_QK_K, y++) {                   \
                const fy_k_scales k = fy_weighted_scales(top, scales + i, mins + i, sums + i); \
                fy_l_codes q[FY_K_SUBS];                                                       \
                bool as_found = false;                                                         \
                for (int s = 0; s < FY_K_SUBS; s++) {                                          \
                    as_found |= k.step[s] == 0.0f;                                             \
                    q[s] = fy_l_quants(x + s * FY_QK, k.min[s], k.step[s], true, top);         \
                }                                                                              \
                if (as_found) {                                                                \
                    fy_encode_weighted_##type##__scalar(y, x, FY_QK_K, importance);            \
                    continue;                                                                  \
                }                                                                              \
                fy_l_put_##type(y, &k, q);                                                     \
            }                                                                                  \
        }                                                                                      \
        if (n > 0)                                                                             \
            FY_L_WEIGHTED(type, FY_L_SMALLER)(y, x, n, importance);                            \
    }

FY_L_DEFINE_WEIGHTED_K(q4_k, 15)
FY_L_DEFINE_WEIGHTED_K(q5_k, 31)

/* --- q6_K ------------------------------------------------------------------------------------ */

void FY_L_WEIGHTED(q6_k, FY_L_ISA)(fy_block_q6_k *y, const float *x, int64_t n,
                                   const float *importance)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        fy_l_q6_block(y + b, x + b * FY_QK_K, importance + b * FY_QK_K);
}
