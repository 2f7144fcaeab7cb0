/* The matrix products: bit for bit the specification, near the exact product, alike for every batch
 * and row range. Weights lie at odd addresses too. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

enum {
    ROWS = 36,
    FEW_ROWS = 20,
    COLS = 33,
    FEW_COLS = 9,
    MAX_K = 2080,
    MAX_ROW_BYTES = MAX_K * 4 + 3,
    GAP = 3, /* elements between the columns of y, which must not be written */
};

/* What lies in fy_kc_case.work. */
typedef struct {
    uint8_t weights[ROWS * MAX_ROW_BYTES];
    float x_f32[COLS * MAX_K];
    int8_t x_q[COLS * MAX_K];
    float x_d[COLS * MAX_K / FY_QK];
    int32_t x_sum[COLS * MAX_K / FY_QK];
    float expected[COLS][ROWS];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES, "work memory");

typedef struct {
    work *at; /* view */
    fy_type type;
    int64_t k;
    size_t row_bytes, data_bytes; /* from row to row; of a row */
    int n_cols;
    bool every_shape;
} problem;

static bool is_block(fy_type t)
{
    return fy_kernels_wants_q8(t);
}

/* --- data --- */

static void fill_act_block(fy_kc_random *r, work *w, fy_kc_fill how, int64_t b)
{
    static const float odd_scales[] = {0.0f, 1e-45f, 1e-38f, 1.0f, 3e38f, 1e-6f};
    w->x_d[b] = how == FY_KC_ODD ? odd_scales[fy_kc_between(r, 0, 5)] : fy_kc_usual_scale(r);
    const int pattern = fy_kc_between(r, 0, 3);
    w->x_sum[b] = 0;
    for (int i = 0; i < FY_QK; i++) {
        int v = fy_kc_between(r, -127, 127);
        if (how == FY_KC_ENDS)
            v = fy_kc_pick_high(r, pattern, i) ? 127 : -127;
        w->x_q[b * FY_QK + i] = (int8_t)v;
        w->x_sum[b] += v;
    }
}

/* FY_KC_ENDS are small integers here, whose sums are exact in every order; FY_KC_ODD spans many
 * magnitudes and has zeros. */
static float pick_float(fy_kc_random *r, fy_kc_fill how)
{
    if (how == FY_KC_ENDS)
        return (float)fy_kc_between(r, -8, 8);
    if (how == FY_KC_ODD)
        return fy_kc_between(r, 0, 7) == 0 ? 0.0f
                                           : ldexpf(fy_kc_uniform(r), fy_kc_between(r, -22, 8));
    return fy_kc_normal(r);
}

static void fill_weight_float(fy_kc_random *r, fy_type type, fy_kc_fill how, uint8_t *p)
{
    const float f = pick_float(r, how);
    const uint16_t h = type == FY_F16 ? fy_f32_to_f16(f) : fy_f32_to_bf16(f);
    if (type == FY_F32)
        memcpy(p, &f, sizeof f);
    else
        memcpy(p, &h, sizeof h);
}

static float read_weight(const problem *p, int64_t row, int64_t i)
{
    const uint8_t *at = p->at->weights + (size_t)row * p->row_bytes;
    float f;
    uint16_t h;
    memcpy(&f, at + (p->type == FY_F32 ? 4 * i : 0), sizeof f);
    memcpy(&h, at + 2 * i, sizeof h);
    return p->type == FY_F32 ? f : p->type == FY_F16 ? fy_f16_to_f32(h) : fy_bf16_to_f32(h);
}

/* Rows and columns of k elements. A few lengths get all shapes and wide batches. */
static problem make_problem(fy_kc_case *t, fy_kc_fill how, int64_t k)
{
    fy_kc_random *r = &t->random;
    const fy_type type = t->type;
    work *w = t->work;
    const int64_t step = fy_type_get((uint32_t)type)->block;
    problem p = {
        .at = w, .type = type, .k = k, .data_bytes = (size_t)fy_type_row_bytes(type, (uint64_t)k)};
    p.row_bytes = p.data_bytes + (size_t)fy_kc_between(r, 0, 3); /* W may have any alignment */
    p.every_shape = k == 1 || k == 33 || k == 64 || k == 96 || (k == 256 && step == 256);
    p.n_cols = p.every_shape || (is_block(type) && k >= 480) ? COLS : FEW_COLS;
    const size_t step_bytes = fy_type_get((uint32_t)type)->bytes;
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t i = 0; i < k / step; i++) {
            uint8_t *at = w->weights + (size_t)row * p.row_bytes + (size_t)i * step_bytes;
            if (is_block(type))
                fy_kc_fill_block(r, type, how, at);
            else
                fill_weight_float(r, type, how, at);
        }
    }
    for (int64_t i = 0; i < p.n_cols * k / (is_block(type) ? FY_QK : 1); i++) {
        if (is_block(type))
            fill_act_block(r, w, how, i);
        else
            w->x_f32[i] = pick_float(r, how);
    }
    return p;
}

/* --- one product on guarded buffers --- */

typedef struct {
    int64_t row, n_rows, col, n_cols;
} shape;

static float *at_index(float *p, int64_t i)
{
    return (float *)((uintptr_t)p + (uintptr_t)(i * (int64_t)sizeof *p));
}

/* y[c * ldy + r - row] of the shape, ldy = n_rows + GAP; NULL when something between was written. W
 * points so that rows outside the shape are outside the buffer. */
static const float *product(fy_kc_case *t, fy_matmul_fn *f, const problem *p, shape s)
{
    const int64_t n_blocks = p->k / FY_QK;
    const size_t n_weights =
        s.n_rows > 0 ? (size_t)(s.n_rows - 1) * p->row_bytes + p->data_bytes : 0;
    const void *W =
        fy_kc_place_copy(t, FY_KC_W, p->at->weights + (size_t)s.row * p->row_bytes, n_weights);
    fy_act a = {.k = p->k};
    if (is_block(p->type)) {
        a.q = fy_kc_place_copy(t, FY_KC_Q, p->at->x_q + s.col * p->k, (size_t)(s.n_cols * p->k));
        a.d = fy_kc_place_copy(t, FY_KC_D, p->at->x_d + s.col * n_blocks,
                               (size_t)(s.n_cols * n_blocks) * sizeof *a.d);
        a.sum = fy_kc_place_copy(t, FY_KC_SUM, p->at->x_sum + s.col * n_blocks,
                                 (size_t)(s.n_cols * n_blocks) * sizeof *a.sum);
    } else {
        a.x = fy_kc_place_copy(t, FY_KC_X, p->at->x_f32 + s.col * p->k,
                               (size_t)(s.n_cols * p->k) * sizeof *a.x);
    }
    const int64_t ldy = s.n_rows + GAP;
    const size_t y_bytes =
        s.n_cols > 0 ? (size_t)(ldy * (s.n_cols - 1) + s.n_rows) * sizeof(float) : 0;
    float *y = fy_kc_place(t, FY_KC_Y, y_bytes);
    memset(y, 0xa5, y_bytes);
    float untouched;
    memset(&untouched, 0xa5, sizeof untouched);
    void *scratch = fy_kc_place(t, FY_KC_SCRATCH, FY_KERNEL_SCRATCH_BYTES);
    memset(scratch, 0xff, 1024); /* NaN: what an earlier call left here must not count */

    const void *W0 = (const void *)((uintptr_t)W - (uintptr_t)s.row * p->row_bytes);
    f(at_index(y, -s.row), ldy, W0, p->row_bytes, s.row, s.row + s.n_rows, &a, s.n_cols, scratch);

    for (int64_t c = 0; c + 1 < s.n_cols; c++) {
        for (int64_t g = s.n_rows; g < ldy; g++) {
            if (memcmp(&y[c * ldy + g], &untouched, sizeof untouched) != 0) {
                fy_kc_fail(t, "k %d, %d rows, %d columns: writes rows outside the call", (int)p->k,
                           (int)s.n_rows, (int)s.n_cols);
                return NULL;
            }
        }
    }
    return y;
}

static bool shape_equals(fy_kc_case *t, fy_matmul_fn *f, const problem *p, shape s,
                         float expected[COLS][ROWS])
{
    const float *y = product(t, f, p, s);
    if (y == NULL)
        return false;
    for (int64_t c = 0; c < s.n_cols; c++) {
        for (int64_t r = 0; r < s.n_rows; r++) {
            const float got = y[c * (s.n_rows + GAP) + r], want = expected[s.col + c][s.row + r];
            if (!fy_kc_same(got, want))
                return fy_kc_fail(
                    t, "k %d, rows %d+%d, columns %d+%d: y[%d][%d] is %.9g, expected %.9g",
                    (int)p->k, (int)s.row, (int)s.n_rows, (int)s.col, (int)s.n_cols, (int)c, (int)r,
                    (double)got, (double)want);
        }
    }
    return true;
}

/* Every number of rows 0..20 and of columns 0..9 for some row lengths, a choice for the others; a
 * few batches are wide and a few tall. */
static bool every_shape_equals(fy_kc_case *t, fy_matmul_fn *f, const problem *p,
                               float expected[COLS][ROWS])
{
    static const bool chosen_rows[ROWS + 1] = {
        [1] = true, [7] = true, [8] = true, [17] = true, [20] = true, [ROWS] = true};
    static const bool chosen_cols[COLS + 1] = {
        [1] = true, [2] = true, [3] = true, [5] = true, [9] = true};
    for (int rows = 0; rows <= ROWS; rows++) {
        for (int cols = 0; cols <= p->n_cols; cols += cols < 17 ? 1 : 8) {
            const bool wide = rows == 17 && cols > FEW_COLS;
            if (!(p->every_shape && cols <= FEW_COLS && rows <= FEW_ROWS) &&
                !(chosen_rows[rows] && chosen_cols[cols]) && !wide)
                continue;
            const shape s = {fy_kc_between(&t->random, 0, ROWS - rows), rows,
                             fy_kc_between(&t->random, 0, p->n_cols - cols), cols};
            if (!shape_equals(t, f, p, s, expected))
                return false;
        }
    }
    return true;
}

/* --- checks --- */

/* Row lengths around the unrollings and tile runs of the kernels. */
static const int block_lengths[] = {0,   32,  64,  96,  128,  160,  256,
                                    480, 512, 544, 768, 1056, 1280, 2080};
static const int float_lengths[] = {96, 127, 128, 129, 159, 255, 257, 1027};
#define N_OF(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* Calls `check` for the row lengths of the type; floats take turns with the fillings. */
static bool every_length(fy_kc_case *t, bool (*check)(fy_kc_case *t, fy_kc_fill how, int64_t k),
                         fy_kc_fill how)
{
    if (is_block(t->type)) {
        for (int i = 0; i < N_OF(block_lengths); i++) {
            if (block_lengths[i] % fy_type_get((uint32_t)t->type)->block == 0 &&
                !check(t, how, block_lengths[i]))
                return false;
        }
        return true;
    }
    for (int k = 0; k <= 70; k++) {
        if (!check(t, (fy_kc_fill)((how + k) % FY_KC_N_FILLS), k))
            return false;
    }
    for (int i = 0; i < N_OF(float_lengths); i++) {
        if (!check(t, (fy_kc_fill)((how + i) % FY_KC_N_FILLS), float_lengths[i]))
            return false;
    }
    return true;
}

static bool equals_spec(fy_kc_case *t, fy_kc_fill how, int64_t k)
{
    const problem p = make_problem(t, how, k);
    const float *y =
        product(t, fy_kernels_matmul(&t->spec, t->type), &p, (shape){0, ROWS, 0, p.n_cols});
    if (y == NULL)
        return false;
    for (int c = 0; c < p.n_cols; c++)
        memcpy(p.at->expected[c], y + c * (ROWS + GAP), sizeof p.at->expected[c]);
    return every_shape_equals(t, fy_kernels_matmul(&t->k, t->type), &p, p.at->expected);
}

bool fy_kc_matmul_equals_spec(fy_kc_case *t)
{
    if (!every_length(t, equals_spec, FY_KC_USUAL))
        return false;
    return !is_block(t->type) ||
           (every_length(t, equals_spec, FY_KC_ENDS) && every_length(t, equals_spec, FY_KC_ODD));
}

static bool any_shape(fy_kc_case *t, fy_kc_fill how, int64_t k)
{
    fy_matmul_fn *f = fy_kernels_matmul(&t->k, t->type);
    const problem p = make_problem(t, how, k);
    for (int c = 0; c < p.n_cols; c++) {
        for (int r = 0; r < ROWS; r++) {
            const float *y = product(t, f, &p, (shape){r, 1, c, 1});
            if (y == NULL)
                return false;
            p.at->expected[c][r] = *y;
        }
    }
    return every_shape_equals(t, f, &p, p.at->expected);
}

bool fy_kc_matmul_any_shape(fy_kc_case *t)
{
    return every_length(t, any_shape, FY_KC_USUAL);
}

/* Against sum and bound of one row and column: the exact value and how far from it y may be. */
typedef struct {
    double value, bound;
} target;

/* One f32 chain over the blocks: a rounding of each scale and one of each sum; in nvfp4 of halves.
 */
static target block_target(const problem *p, int64_t row, int64_t col)
{
    const int64_t n_blocks = p->k / FY_QK;
    const bool halves = p->type == FY_NVFP4;
    double sum = 0, size = 0;
    for (int64_t b = 0; b < n_blocks; b++) {
        const int8_t *x = p->at->x_q + col * p->k + b * FY_QK;
        const double d = (double)p->at->x_d[col * n_blocks + b];
        double products = 0, first = 0, mins = 0;
        for (int i = 0; i < FY_QK; i++) {
            const fy_kc_element v = fy_kc_element_at(
                p->type, p->at->weights + (size_t)row * p->row_bytes, b * FY_QK + i);
            products += v.scale * v.q * x[i];
            mins += v.min * x[i];
            first = halves && i < FY_QK / 2 ? products : first;
        }
        sum += d * (products + mins);
        size += d * (fabs(first) + fabs(products - first) + fabs(mins));
    }
    return (target){sum, ((halves ? 4 : 2) * (double)n_blocks + 2) * 0x1p-24 * size};
}

/* Eight partial sums, with room for a rest added one by one. */
static target float_target(const problem *p, int64_t row, int64_t col)
{
    double sum = 0, size = 0;
    for (int64_t i = 0; i < p->k; i++) {
        const double term = (double)read_weight(p, row, i) * (double)p->at->x_f32[col * p->k + i];
        sum += term;
        size += fabs(term);
    }
    return (target){sum, ((double)p->k / 8 + 40) * 0x1p-24 * size + (double)p->k * 0x1p-149};
}

static bool near(fy_kc_case *t, fy_kc_fill how, int64_t k)
{
    const problem p = make_problem(t, how, k);
    const float *y =
        product(t, fy_kernels_matmul(&t->k, t->type), &p, (shape){0, ROWS, 0, FEW_COLS});
    if (y == NULL)
        return false;
    for (int c = 0; c < FEW_COLS; c++) {
        for (int r = 0; r < ROWS; r++) {
            target v = is_block(t->type) ? block_target(&p, r, c) : float_target(&p, r, c);
            if (!is_block(t->type) && how == FY_KC_ENDS)
                v.bound = 0; /* integers */
            const double got = (double)y[c * (ROWS + GAP) + r];
            if (!(fabs(got - v.value) <= v.bound))
                return fy_kc_fail(t, "k %d: y[%d][%d] is %.9g, expected %.9g within %.2g", (int)k,
                                  c, r, got, v.value, v.bound);
        }
    }
    return true;
}

bool fy_kc_matmul_block_near(fy_kc_case *t)
{
    return every_length(t, near, FY_KC_USUAL) && every_length(t, near, FY_KC_ENDS);
}

bool fy_kc_matmul_float_near(fy_kc_case *t)
{
    return every_length(t, near, FY_KC_USUAL) && every_length(t, near, FY_KC_ENDS);
}
