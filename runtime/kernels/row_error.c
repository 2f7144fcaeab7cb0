#include "kernels/row_error.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "kernels/row.h"
#include "kernels/scalar/quants_scalar.h"

/* Elements that are decoded at a time: a multiple of every block, and little enough to stay in the
 * first-level cache. */
enum { STEP = 1024 };

fy_block_form fy_block_form_of(fy_type t)
{
    switch ((int)t) {
    case FY_Q8_0:
        return (fy_block_form){-128, 127, offsetof(fy_block_q8_0, d), 0};
    case FY_Q4_0:
        return (fy_block_form){-8, 7, offsetof(fy_block_q4_0, d), 0};
    case FY_Q5_0:
        return (fy_block_form){-16, 15, offsetof(fy_block_q5_0, d), 0};
    case FY_Q4_1:
        return (fy_block_form){0, 15, offsetof(fy_block_q4_1, d), offsetof(fy_block_q4_1, m)};
    case FY_Q5_1:
        return (fy_block_form){0, 31, offsetof(fy_block_q5_1, d), offsetof(fy_block_q5_1, m)};
    case FY_Q4_K:
        return (fy_block_form){0, 15, offsetof(fy_block_q4_k, d), offsetof(fy_block_q4_k, dmin)};
    case FY_Q5_K:
        return (fy_block_form){0, 31, offsetof(fy_block_q5_k, d), offsetof(fy_block_q5_k, dmin)};
    default:
        assert(t == FY_Q6_K);
        return (fy_block_form){-32, 31, offsetof(fy_block_q6_k, d), 0};
    }
}

static uint16_t half_at(const uint8_t *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return half;
}

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

void fy_row_limits(fy_type t, float *limits, const void *row, int64_t n)
{
    const fy_type_info *info = fy_type_get((uint32_t)t);
    const fy_block_form f = fy_block_form_of(t);
    const uint8_t *block = row;
    for (int64_t i = 0; i < n; i += info->block, block += info->bytes) {
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
    float y[STEP], limits[STEP / FY_LIMIT_ELEMS * 2];
    const bool blocks = fy_type_get((uint32_t)t)->block > 1;
    const uint8_t *from = row;
    for (int64_t i = 0; i < n; i += STEP) {
        const int64_t m = n - i < STEP ? n - i : STEP;
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
