/* Encoded matrices: bytes that decode to the values, scales that no simpler choice beats, and the
 * same bytes for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "model/weights.h"
#include "tests/unit/alloc_fail.h"
#include "workspace/compile/qencode.h"

enum { N_IN = 192, N_OUT = 150, N = N_IN * N_OUT }; /* three tiles, the last one of 22 */

static const fy_npu_type types[] = {FY_NPU_FP16,    FY_NPU_FP16A8W, FY_NPU_16A8W,
                                    FY_NPU_16A4W,   FY_NPU_8A4W,    FY_NPU_FP16A4W,
                                    FY_NPU_LPBQ_16, FY_NPU_LPBQ_32, FY_NPU_LPBQ_64};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* --- a matrix --------------------------------------------------------------------------------- */

typedef struct {
    float x[N];
    fy_matrix matrix;
    fy_model model;
    fy_q_tensor t;
} fixture;

/* -1 .. 1 */
static float next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / (float)(1u << 23) - 1;
}

/* Cubes: most values are small, as weights are; rows of different sizes. */
static void fill(fixture *f, fy_npu_type type)
{
    uint32_t seed = 7;
    for (size_t i = 0; i < N; i++) {
        const float u = next(&seed);
        f->x[i] = u * u * u * (float)(1 + i / N_IN % 5);
    }
    f->matrix = (fy_matrix){.data = f->x,
                            .type = FY_F32,
                            .n_rows = N_OUT,
                            .n_cols = N_IN,
                            .row_bytes = N_IN * sizeof(float)};
    f->model = (fy_model){.output = &f->matrix};
    f->model.hp.head_dim = 1;
    f->t = (fy_q_tensor){.name = "output.weight",
                         .kind = FY_Q_STATIC,
                         .class = FY_QC_WEIGHT,
                         .type = FY_Q_PACKED,
                         .rank = 4,
                         .dims = {1, 1, N_IN, N_OUT},
                         .from = {.slot = FY_T_OUTPUT, .n = N_OUT, .type = type, .scale = 1}};
}

static int encode_by(const fixture *f, const fy_q_fit *fit, int n_threads, fy_q_matrix *out,
                     fy_err *e)
{
    fy_pool *pool = fy_pool_new(n_threads, NULL);
    assert_non_null(pool);
    const int rc = fy_q_matrix_encode(&f->model, &f->t, fit, pool, out, e);
    fy_pool_free(pool);
    return rc;
}

static int encode(const fixture *f, const double *importance, int n_threads, fy_q_matrix *out,
                  fy_err *e)
{
    return encode_by(f, &(fy_q_fit){.importance = importance}, n_threads, out, e);
}

static void encoded(const fixture *f, const double *importance, fy_q_matrix *out)
{
    fy_err e = {0};
    if (encode(f, importance, 2, out, &e) != 0)
        fail_msg("%s", e.msg);
}

/* --- what a library reads --------------------------------------------------------------------- */

/* Of the step from a code to the next one. */
static float scale_of(const fy_q_matrix *w, fy_npu_type type, size_t row, size_t k)
{
    const unsigned block = fy_npu_type_block(type);
    return w->scales[row] *
           (block > 0 ? (float)w->block_scales[row * (N_IN / block) + k / block] : 1);
}

static float decode(const fy_q_matrix *w, fy_npu_type type, size_t row, size_t k)
{
    const size_t at = k * N_OUT + row;
    const int code = ((const int8_t *)w->data)[at];
    if (type == FY_NPU_FP16)
        return fy_f16_to_f32(((const uint16_t *)w->data)[at]);
    if (fy_npu_type_bits(type) == 8)
        return (float)code * scale_of(w, type, row, k);
    if (fy_npu_type_block(type) > 0) {
        assert_in_range(code + 7, 0, 14);
        return (float)code * scale_of(w, type, row, k);
    }
    assert_in_range(code, 0, 15); /* one value a byte, its sign bit is bit 3 */
    return (float)(code < 8 ? code : code - 16) * scale_of(w, type, row, k);
}

static double error_of(const fixture *f, const fy_q_matrix *w, fy_npu_type type, size_t row,
                       const double *importance)
{
    double sum = 0;
    for (size_t k = 0; k < N_IN; k++) {
        const double d = (double)(f->x[row * N_IN + k] - decode(w, type, row, k));
        sum += (importance != NULL ? importance[k] : 1) * d * d;
    }
    return sum;
}

static float largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    return most;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* What a scale clips ends at the largest code, all else at the nearest one. */
static void bytes_decode_to_the_values(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    for (size_t i = 0; i < N_TYPES; i++) {
        const fy_npu_type type = types[i];
        const float most = fy_npu_type_bits(type) == 8 ? 127 : 7;
        fy_q_matrix w;
        fill(f, type);
        encoded(f, NULL, &w);
        assert_int_equal(w.bytes, type == FY_NPU_FP16 ? 2 * N : N);
        assert_int_equal(w.scales == NULL, type == FY_NPU_FP16);
        assert_int_equal(w.block_scales != NULL, fy_npu_type_block(type) > 0);
        for (size_t at = 0; at < N; at++) {
            const size_t row = at / N_IN, k = at % N_IN;
            const float x = f->x[at], d = fabsf(x - decode(&w, type, row, k));
            if (type == FY_NPU_FP16) {
                assert_true(d <= fabsf(x) / 2048 + 1e-7f);
                continue;
            }
            const float s = scale_of(&w, type, row, k), beyond = fabsf(x) - most * s;
            if (d > s * 0.5001f && fabsf(d - beyond) > 1e-6f)
                fail_msg("%s: %g became %g, a step is %g", fy_npu_type_name(type), (double)x,
                         (double)decode(&w, type, row, k), (double)s);
        }
        fy_q_matrix_release(&w);
    }
    free(f);
}

/* As the interpreter decodes them: the same as here, rows from the middle on. */
static void rows_decode(void **state)
{
    enum { FIRST = 70, ROWS = 5 };
    static float rows[ROWS * N_IN];
    (void)state;
    fixture *f = malloc(sizeof *f);
    for (size_t i = 0; i < N_TYPES; i++) {
        fy_q_matrix w;
        fill(f, types[i]);
        encoded(f, NULL, &w);
        fy_q_matrix_decode(&w, &f->t, FIRST, ROWS, rows);
        for (size_t at = 0; at < ROWS * N_IN; at++)
            assert_true(fabsf(rows[at] - decode(&w, types[i], FIRST + at / N_IN, at % N_IN)) <=
                        1e-6f * fabsf(rows[at]));
        fy_q_matrix_release(&w);
    }
    free(f);
}

static void errors_are_those_of_the_bytes(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    for (size_t i = 1; i < N_TYPES; i++) {
        double error = 0, power = 0;
        fy_q_matrix w;
        fill(f, types[i]);
        encoded(f, NULL, &w);
        for (size_t row = 0; row < N_OUT; row++)
            error += error_of(f, &w, types[i], row, NULL);
        for (size_t at = 0; at < N; at++)
            power += (double)f->x[at] * (double)f->x[at];
        assert_true(fabs(w.weights.error / error - 1) < 1e-4);
        assert_true(fabs(w.weights.power / power - 1) < 1e-4);
        fy_q_matrix_release(&w);
    }
    free(f);
}

/* The error of a row with the scale that covers all its values. */
static double covered(const float *x, float most)
{
    const float s = largest(x, N_IN) / most;
    double sum = 0;
    for (size_t k = 0; k < N_IN; k++) {
        const double d = (double)x[k] - (double)s * (double)rintf(x[k] / s);
        sum += d * d;
    }
    return sum;
}

static void eight_bits_cover_all_values(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    fy_q_matrix w;
    fill(f, FY_NPU_16A8W);
    encoded(f, NULL, &w);
    for (size_t row = 0; row < N_OUT; row++)
        assert_true(w.scales[row] == largest(f->x + row * N_IN, N_IN) / 127);
    fy_q_matrix_release(&w);
    free(f);
}

static void the_search_beats_the_scale_that_covers_all(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    double before = 0, after = 0;
    fy_q_matrix w;
    fill(f, FY_NPU_16A4W);
    encoded(f, NULL, &w);
    for (size_t row = 0; row < N_OUT; row++) {
        const double plain = covered(f->x + row * N_IN, 7);
        const double found = error_of(f, &w, FY_NPU_16A4W, row, NULL);
        assert_true(found <= plain * (1 + 1e-5));
        before += plain;
        after += found;
    }
    assert_true(after < 0.9 * before);
    fy_q_matrix_release(&w);
    free(f);
}

/* Smaller blocks know more. */
static void blocks_lose_less(void **state)
{
    static const fy_npu_type order[] = {FY_NPU_16A4W, FY_NPU_LPBQ_64, FY_NPU_LPBQ_32,
                                        FY_NPU_LPBQ_16};
    (void)state;
    fixture *f = malloc(sizeof *f);
    double last = INFINITY;
    for (size_t i = 0; i < 4; i++) {
        fy_q_matrix w;
        fill(f, order[i]);
        encoded(f, NULL, &w);
        assert_true(w.weights.error < last);
        last = w.weights.error;
        for (size_t k = 0; w.block_scales != NULL && k < N / fy_npu_type_block(order[i]); k++)
            assert_in_range(w.block_scales[k], 1, 16);
        fy_q_matrix_release(&w);
    }
    free(f);
}

/* Only small values are multiplied by anything large: they get the scale they want. */
static void importance_decides(void **state)
{
    static const fy_npu_type narrow[] = {FY_NPU_16A4W, FY_NPU_LPBQ_32};
    (void)state;
    fixture *f = malloc(sizeof *f);
    double importance[N_IN];
    for (size_t k = 0; k < N_IN; k++)
        importance[k] = k % 4 == 0 ? 100 : 0.01;
    for (size_t i = 0; i < 2; i++) {
        double with = 0, without = 0;
        fy_q_matrix a, b;
        fill(f, narrow[i]);
        for (size_t at = 0; at < N; at += 4)
            f->x[at] *= 0.5f;
        encoded(f, NULL, &a);
        encoded(f, importance, &b);
        for (size_t row = 0; row < N_OUT; row++) {
            without += error_of(f, &a, narrow[i], row, importance);
            with += error_of(f, &b, narrow[i], row, importance);
        }
        assert_true(with < 0.95 * without);
        fy_q_matrix_release(&a);
        fy_q_matrix_release(&b);
    }
    free(f);
}

/* An input that was always 0 has no say, and no inputs at all are as none measured. */
static void importance_of_zero(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    const double none[N_IN] = {0};
    fy_q_matrix a, b;
    fill(f, FY_NPU_16A4W);
    encoded(f, NULL, &a);
    encoded(f, none, &b);
    assert_memory_equal(a.data, b.data, N);
    fy_q_matrix_release(&a);
    fy_q_matrix_release(&b);
    free(f);
}

static void rows_of_zeros_stay_zero(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    for (size_t i = 0; i < N_TYPES; i++) {
        fy_q_matrix w;
        fill(f, types[i]);
        memset(f->x + 3 * N_IN, 0, N_IN * sizeof *f->x);
        encoded(f, NULL, &w);
        for (size_t k = 0; k < N_IN; k++)
            assert_true(decode(&w, types[i], 3, k) == 0);
        assert_true(w.scales == NULL || (w.scales[3] > 0 && isfinite(w.scales[3])));
        fy_q_matrix_release(&w);
    }
    free(f);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    double importance[N_IN];
    for (size_t k = 0; k < N_IN; k++)
        importance[k] = (double)(k % 7);
    for (size_t i = 0; i < N_TYPES; i++) {
        const unsigned block = fy_npu_type_block(types[i]);
        fy_q_matrix a, b;
        fy_err e = {0};
        fill(f, types[i]);
        assert_int_equal(encode(f, importance, 1, &a, &e), 0);
        assert_int_equal(encode(f, importance, 5, &b, &e), 0);
        assert_memory_equal(a.data, b.data, a.bytes);
        assert_true(a.weights.error == b.weights.error && a.weights.power == b.weights.power);
        if (a.scales != NULL)
            assert_memory_equal(a.scales, b.scales, N_OUT * sizeof *a.scales);
        if (block > 0)
            assert_memory_equal(a.block_scales, b.block_scales, N / block);
        fy_q_matrix_release(&a);
        fy_q_matrix_release(&b);
    }
    free(f);
}

/* --- scales that are tried on inputs ---------------------------------------------------------- */

enum { ROWS = 20 };

/* Inputs go together, as those of a model do: of four directions, and little besides. */
static void fill_inputs(float *inputs)
{
    float direction[4][N_IN];
    uint32_t seed = 11;
    for (size_t i = 0; i < 4 * N_IN; i++)
        direction[i / N_IN][i % N_IN] = next(&seed);
    for (size_t r = 0; r < ROWS; r++) {
        float part[4];
        for (size_t d = 0; d < 4; d++)
            part[d] = next(&seed);
        for (size_t k = 0; k < N_IN; k++) {
            float v = 0.1f * next(&seed);
            for (size_t d = 0; d < 4; d++)
                v += part[d] * direction[d][k];
            inputs[r * N_IN + k] = v;
        }
    }
}

/* What the output of a row loses on all inputs. */
static double output_error(const fixture *f, const fy_q_matrix *w, fy_npu_type type, size_t row,
                           const float *inputs)
{
    double sum = 0;
    for (size_t r = 0; r < ROWS; r++) {
        double lost = 0;
        for (size_t k = 0; k < N_IN; k++)
            lost += (double)inputs[r * N_IN + k] *
                    (double)(f->x[row * N_IN + k] - decode(w, type, row, k));
        sum += lost * lost;
    }
    return sum;
}

static void outputs_are_nearer_with_scales_that_were_tried(void **state)
{
    static const fy_npu_type narrow[] = {FY_NPU_16A4W, FY_NPU_LPBQ_32, FY_NPU_FP16A4W};
    (void)state;
    fixture *f = malloc(sizeof *f);
    float inputs[ROWS * N_IN];
    fill_inputs(inputs);
    for (size_t i = 0; i < 3; i++) {
        const fy_q_fit fit = {.inputs = inputs, .n_inputs = ROWS, .n_candidates = 16};
        double before = 0, after = 0;
        fy_q_matrix a, b, again;
        fy_err e = {0};
        fill(f, narrow[i]);
        encoded(f, NULL, &a);
        assert_true(a.outputs.power == 0);
        assert_int_equal(encode_by(f, &fit, 2, &b, &e), 0);
        assert_int_equal(encode_by(f, &fit, 3, &again, &e), 0);
        for (size_t row = 0; row < N_OUT; row++) {
            const double old = output_error(f, &a, narrow[i], row, inputs);
            const double new = output_error(f, &b, narrow[i], row, inputs);
            assert_true(new <= old *(1 + 1e-4));
            before += old;
            after += new;
        }
        assert_true(after < 0.6 * before);
        assert_true(fabs(b.outputs.error / after - 1) < 1e-3);
        assert_memory_equal(b.data, again.data, b.bytes);
        assert_memory_equal(b.scales, again.scales, N_OUT * sizeof *b.scales);
        assert_true(b.outputs.error == again.outputs.error);
        fy_q_matrix_release(&a);
        fy_q_matrix_release(&b);
        fy_q_matrix_release(&again);
    }
    free(f);
}

static void eight_bits_are_not_tried(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    float inputs[ROWS * N_IN];
    fill_inputs(inputs);
    const fy_q_fit fit = {.inputs = inputs, .n_inputs = ROWS, .n_candidates = 16};
    fy_q_matrix a, b;
    fy_err e = {0};
    fill(f, FY_NPU_16A8W);
    encoded(f, NULL, &a);
    assert_int_equal(encode_by(f, &fit, 2, &b, &e), 0);
    assert_memory_equal(a.data, b.data, N);
    assert_true(b.outputs.power == 0);
    fy_q_matrix_release(&a);
    fy_q_matrix_release(&b);
    free(f);
}

/* --- what goes wrong -------------------------------------------------------------------------- */

static void values_that_no_type_holds(void **state)
{
    static const struct {
        fy_npu_type type;
        float value;
        const char *says;
    } cases[] = {{FY_NPU_16A8W, INFINITY, "output.weight: a value is not finite"},
                 {FY_NPU_16A4W, NAN, "output.weight: a value is not finite"},
                 {FY_NPU_LPBQ_32, -INFINITY, "output.weight: a value is not finite"},
                 {FY_NPU_FP16, NAN, "output.weight: a value is not finite"},
                 {FY_NPU_FP16, 70000, "output.weight: 70000 is too large for 16-bit floats"}};
    (void)state;
    fixture *f = malloc(sizeof *f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_q_matrix w;
        fy_err e = {0};
        fill(f, cases[i].type);
        f->x[N - 1] = cases[i].value;
        assert_int_equal(encode(f, NULL, 2, &w, &e), -1);
        assert_string_equal(e.msg, cases[i].says);
        assert_null(w.data);
    }
    free(f);
}

static void no_memory(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    fy_pool *pool = fy_pool_new(1, NULL); /* a thread that starts allocates too */
    bool failed = true;
    float inputs[N_IN] = {1};
    const fy_q_fit fit = {.inputs = inputs, .n_inputs = 1, .n_candidates = 2};
    fill(f, FY_NPU_LPBQ_32);
    for (long n = 0; failed; n++) {
        fy_q_matrix w;
        fy_err e = {0};
        alloc_fail_after(n);
        const int rc = fy_q_matrix_encode(&f->model, &f->t, &fit, pool, &w, &e);
        failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
        fy_q_matrix_release(&w);
    }
    fy_pool_free(pool);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_decode_to_the_values),
        cmocka_unit_test(rows_decode),
        cmocka_unit_test(errors_are_those_of_the_bytes),
        cmocka_unit_test(eight_bits_cover_all_values),
        cmocka_unit_test(the_search_beats_the_scale_that_covers_all),
        cmocka_unit_test(blocks_lose_less),
        cmocka_unit_test(importance_decides),
        cmocka_unit_test(importance_of_zero),
        cmocka_unit_test(rows_of_zeros_stay_zero),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(outputs_are_nearer_with_scales_that_were_tried),
        cmocka_unit_test(eight_bits_are_not_tried),
        cmocka_unit_test(values_that_no_type_holds),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests_name("qweights", tests, NULL, NULL);
}
