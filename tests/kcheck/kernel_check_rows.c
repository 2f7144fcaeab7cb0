/* Rows that are listed: products with one column are those of the matmul, bit for bit, and nothing
 * but the listed elements is written; sums are bit for bit the specification, and near the sum in
 * double. Rows lie at any address, some bytes apart. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

enum { ROWS = 40, MAX_K = 2080, MAX_ROW_BYTES = MAX_K * 4 + 3 };

/* What lies in fy_kc_case.work. */
typedef struct {
    uint8_t rows[ROWS * MAX_ROW_BYTES];
    float values[MAX_K];
    int8_t q[MAX_K];
    float d[MAX_K / FY_QK];
    int32_t sum[MAX_K / FY_QK], list[ROWS];
    float p[ROWS], y[MAX_K], expected[MAX_K];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES, "work memory");

typedef struct {
    int k, n; /* elements of a row; listed rows */
    size_t row_bytes, data_bytes;
    bool hostile;
} shape;

static const int block_lengths[] = {32, 64, 96, 128, 160, 256, 480, 512, 544, 1056, 2080};
enum { N_BLOCK_LENGTHS = sizeof block_lengths / sizeof block_lengths[0], N_SHAPES = 120 };

static float hostile(fy_kc_random *r)
{
    static const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 65504.0f, 1e-45f, -6e-8f};
    const int i = fy_kc_between(r, 0, 30);
    return i < (int)(sizeof odd / sizeof odd[0]) ? odd[i] : fy_kc_normal(r);
}

static float any_value(fy_kc_case *t, const shape *s)
{
    return s->hostile ? hostile(&t->random) : fy_kc_normal(&t->random);
}

static void fill_rows(fy_kc_case *t, const shape *s)
{
    work *w = t->work;
    const fy_type_info *type = fy_type_get((uint32_t)t->type);
    for (int r = 0; r < ROWS; r++) {
        uint8_t *row = w->rows + (size_t)r * s->row_bytes;
        for (int i = 0; i < s->k / type->block; i++, row += type->bytes) {
            const float v = any_value(t, s);
            const uint16_t h = fy_f32_to_f16(v);
            if (type->block > 1)
                fy_kc_fill_block(&t->random, t->type, s->hostile ? FY_KC_ODD : FY_KC_USUAL, row);
            else
                memcpy(row, t->type == FY_F16 ? (const void *)&h : &v, type->bytes);
        }
    }
}

/* The i-th: lengths around the unrollings, and any ascending list. */
static shape make_shape(fy_kc_case *t, int i)
{
    work *w = t->work;
    shape s = {.hostile = i % 3 == 2};
    const int rest = i % 70 + 1;
    s.k = fy_kernels_wants_q8(t->type) ? block_lengths[i % N_BLOCK_LENGTHS]
          : i % 5 == 0                 ? 255 + i
                                       : rest;
    s.data_bytes = (size_t)fy_type_row_bytes(t->type, (uint64_t)s.k);
    s.row_bytes = s.data_bytes + (size_t)fy_kc_between(&t->random, 0, 3);
    const int often = fy_kc_between(&t->random, 0, 4);
    for (int32_t r = 0; r < ROWS; r++) {
        w->list[s.n] = r;
        s.n += fy_kc_between(&t->random, 0, 4) < often + (i == 0);
    }
    fill_rows(t, &s);
    for (int b = 0; b < s.k / FY_QK; b++) {
        w->d[b] = fy_kc_usual_scale(&t->random);
        w->sum[b] = 0;
        for (int e = 0; e < FY_QK; e++) {
            w->q[b * FY_QK + e] = (int8_t)fy_kc_between(&t->random, -127, 127);
            w->sum[b] += w->q[b * FY_QK + e];
        }
    }
    for (int r = 0; r < ROWS; r++)
        w->p[r] = any_value(t, &s);
    for (int e = 0; e < s.k; e++)
        w->y[e] = any_value(t, &s);
    return s;
}

/* The matrix, from its first row on to the last listed one. */
static const void *place_rows(fy_kc_case *t, const shape *s)
{
    work *w = t->work;
    const size_t last = s->n > 0 ? (size_t)w->list[s->n - 1] : 0;
    return fy_kc_place_copy(t, FY_KC_W, w->rows, last * s->row_bytes + s->data_bytes);
}

/* --- products --- */

bool fy_kc_dot_rows_equal_matmul(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < N_SHAPES; i++) {
        const shape s = make_shape(t, i);
        const int n_blocks = s.k / FY_QK;
        const fy_act a = {
            .q = fy_kc_place_copy(t, FY_KC_Q, w->q, (size_t)s.k),
            .d = fy_kc_place_copy(t, FY_KC_D, w->d, (size_t)n_blocks * sizeof *w->d),
            .sum = fy_kc_place_copy(t, FY_KC_SUM, w->sum, (size_t)n_blocks * sizeof *w->sum),
            .k = s.k};
        const void *W = place_rows(t, &s);
        const size_t y_bytes = ROWS * sizeof(float);
        float *y = fy_kc_place(t, FY_KC_Y, y_bytes);
        memset(w->expected, 0xa5, y_bytes);
        for (int r = 0; r < s.n; r++)
            fy_kernels_matmul(&t->spec, t->type)(w->expected, 0, W, s.row_bytes, w->list[r],
                                                 w->list[r] + 1, &a, 1, NULL);
        memset(y, 0xa5, y_bytes);
        fy_kernels_dot_rows(&t->k, t->type)(y, W, s.row_bytes, w->list, s.n, &a);
        if (!fy_kc_same_all(t, "y", y, w->expected, ROWS))
            return false;
    }
    return true;
}

/* --- sums --- */

static const float *add(fy_kc_case *t, const fy_kernels *k, const shape *s)
{
    work *w = t->work;
    float *y = fy_kc_place_copy(t, FY_KC_Y, w->y, (size_t)s->k * sizeof *y);
    const float *p = fy_kc_place_copy(t, FY_KC_X, w->p, (size_t)s->n * sizeof *p);
    fy_kernels_add_rows(k, t->type)(y, p, place_rows(t, s), s->row_bytes, w->list, s->n, s->k);
    return y;
}

bool fy_kc_add_rows_equal_spec(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < N_SHAPES; i++) {
        const shape s = make_shape(t, i);
        memcpy(w->expected, add(t, &t->spec, &s), (size_t)s.k * sizeof *w->expected);
        if (!fy_kc_same_all(t, "y", add(t, &t->k, &s), w->expected, s.k))
            return false;
    }
    return true;
}

static double element(const fy_kc_case *t, const uint8_t *row, int i)
{
    float f;
    uint16_t h;
    if (fy_kernels_wants_q8(t->type)) {
        const fy_kc_element v = fy_kc_element_at(t->type, row, i);
        return v.scale * v.q + (v.has_min ? v.min : 0);
    }
    memcpy(&f, row + (t->type == FY_F32 ? 4 * i : 0), sizeof f);
    memcpy(&h, row + 2 * i, sizeof h);
    return (double)(t->type == FY_F32 ? f : fy_f16_to_f32(h));
}

bool fy_kc_add_rows_near(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < N_SHAPES; i++) {
        const shape s = make_shape(t, i);
        const float *y = add(t, &t->k, &s);
        for (int e = 0; e < s.k && !s.hostile; e++) {
            double value = (double)w->y[e], size = fabs(value);
            for (int r = 0; r < s.n; r++) {
                const uint8_t *row = w->rows + (size_t)w->list[r] * s.row_bytes;
                const double term = (double)w->p[r] * element(t, row, e);
                value += term;
                size += fabs(term);
            }
            if (!(fabs((double)y[e] - value) <= (s.n + 2) * 0x1p-24 * size + 1e-40))
                return fy_kc_fail(t, "%d rows of %d: y[%d] is %.9g, expected %.9g", s.n, s.k, e,
                                  (double)y[e], value);
        }
    }
    return true;
}
