#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kernels/kernel_vectors.h"

static void every_kernel_of_the_list_has_vectors_and_passes(void **state)
{
    (void)state;
    for (int i = 0; i < fy_n_kernel_rows; i++) {
        const fy_kernel_row *row = &fy_kernel_rows[i];
        if ((fy_cpu_features() & row->needs) != row->needs)
            continue;
        fy_kernels k = fy_kernels_for(0);
        fy_kernel_install(&k, row);
        int n = 0;
        fy_err e = {0};
        if (fy_kernel_vectors(row->op, &k, &n, &e) != 0) /* the hash, for a new operation */
            fail_msg("%s %s: %s", row->op, row->isa, e.msg);
        assert_true(n >= 20);
    }
}

/* An operation that the CPU cannot run in any form but scalar is in the list all the same. */
static void every_operation_has_a_scalar_row(void **state)
{
    (void)state;
    for (int i = 0; i < fy_n_kernel_rows; i++) {
        int n_scalar = 0;
        for (int j = 0; j < fy_n_kernel_rows; j++)
            n_scalar += strcmp(fy_kernel_rows[i].op, fy_kernel_rows[j].op) == 0 &&
                        strcmp(fy_kernel_rows[j].isa, "scalar") == 0;
        assert_int_equal(n_scalar, 1);
    }
}

/* --- kernels that are wrong in one place ------------------------------------------------------ */

static fy_kernels spec;

static void flip(void *p, size_t offset)
{
    ((uint8_t *)p)[offset] ^= 1;
}

static void wrong_act_quantize(const fy_act *a, int64_t begin, int64_t end)
{
    spec.act_quantize(a, begin, end);
    if (end - begin == 7 && a->k > 0)
        flip(a->sum, 0);
}

static void wrong_matmul_q4_k(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t begin,
                              int64_t end, const fy_act *a, int64_t n_cols, void *scratch)
{
    spec.matmul_q4_k(y, ldy, W, row_bytes, begin, end, a, n_cols, scratch);
    if (end - begin == 17 && n_cols == 20 && a->k == 1280)
        flip(y + 19 * ldy + end - 1, 0);
}

static void wrong_matmul_f16(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t begin,
                             int64_t end, const fy_act *a, int64_t n_cols, void *scratch)
{
    spec.matmul_f16(y, ldy, W, row_bytes, begin, end, a, n_cols, scratch);
    if (end == 13 && n_cols == 3)
        y[2 * ldy + end] = 0; /* a row that was not asked for */
}

static void wrong_attend_dots_f16(float *s, const float *q, int64_t n_queries, const void *K,
                                  int64_t n_keys, int64_t dim)
{
    spec.attend_dots_f16(s, q, n_queries, K, n_keys, dim);
    if (dim == 67)
        flip(s, 0);
}

static void wrong_attend_add_q8_0(float *acc, const float *p, int64_t n_queries, const void *V,
                                  int64_t n_keys, int64_t dim)
{
    spec.attend_add_q8_0(acc, p, n_queries, V, n_keys, dim);
    if (dim == 192)
        flip(acc + 191, 0);
}

static void wrong_attend_softmax(float *s, int64_t n_queries, int begin, int end, float scale,
                                 float cap, fy_softmax *state)
{
    spec.attend_softmax(s, n_queries, begin, end, scale, cap, state);
    if (begin == 61)
        flip(&state->sum, 0);
}

static void wrong_rms_norm(float *y, const float *x, const float *w, int64_t n, float eps)
{
    spec.rms_norm(y, x, w, n, eps);
    if (n == 257)
        flip(y + 256, 0);
}

static void wrong_softcap(float *x, int64_t n, float cap)
{
    spec.softcap(x, n, cap);
    if (n == 9)
        flip(x + 8, 0);
}

static void wrong_error_sums(fy_error_sums *s, const float *x, const float *y, const float *limits,
                             int64_t n)
{
    spec.error_sums(s, x, y, limits, n);
    if (n == 17 && limits != NULL)
        s->n_outside++;
}

static void wrong_f16_to_f32(float *y, const uint16_t *x, int64_t n)
{
    spec.f16_to_f32(y, x, n);
    for (int64_t i = 0; i < n; i++)
        if ((x[i] & 0x7c00) == 0) /* subnormal numbers are lost */
            y[i] = 0;
}

static void wrong_f32_to_bf16(uint16_t *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) { /* ties upward */
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        y[i] = x[i] != x[i] ? fy_f32_to_bf16(x[i]) : (uint16_t)((bits + 0x8000) >> 16);
    }
}

static void wrong_encode_q5_1(fy_block_q5_1 *y, const float *x, int64_t n)
{
    spec.encode_q5_1(y, x, n);
    if (n == 17 * FY_QK)
        flip(&y[16].qh, 3);
}

static void wrong_fit_q4_0(fy_block_q4_0 *y, const float *x, int64_t n, const float *importance)
{
    spec.fit_q4_0(y, x, n, NULL); /* as if there were no importance */
    (void)importance;
}

static void wrong_encode_weighted_q6_k(fy_block_q6_k *y, const float *x, int64_t n,
                                       const float *importance)
{
    (void)importance;
    spec.encode_q6_k(y, x, n);
}

static void wrong_decode_q8_0(float *y, const fy_block_q8_0 *x, int64_t n)
{
    spec.decode_q8_0(y, x, n);
    if (n == FY_QK)
        flip(y + 31, 0);
}

#define WRONG(op)                                                             \
    {                                                                         \
#op, "wrong", 0, offsetof(fy_kernels, op), (void (*)(void))wrong_##op \
    }

static void a_kernel_that_is_wrong_in_one_place_is_caught(void **state)
{
    (void)state;
    static const fy_kernel_row rows[] = {
        WRONG(act_quantize),    WRONG(matmul_q4_k),
        WRONG(matmul_f16),      WRONG(attend_dots_f16),
        WRONG(attend_add_q8_0), WRONG(attend_softmax),
        WRONG(rms_norm),        WRONG(softcap),
        WRONG(error_sums),      WRONG(f16_to_f32),
        WRONG(f32_to_bf16),     WRONG(encode_q5_1),
        WRONG(fit_q4_0),        WRONG(encode_weighted_q6_k),
        WRONG(decode_q8_0),
    };
    spec = fy_kernels_for(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_kernels k = fy_kernels_for(0);
        fy_kernel_install(&k, &rows[i]);
        int n = 0;
        fy_err e = {0};
        if (fy_kernel_vectors(rows[i].op, &k, &n, &e) == 0)
            fail_msg("%s: not caught", rows[i].op);
        assert_int_equal(e.code, FY_EVERIFY);
        assert_non_null(strstr(e.msg, "the scalar kernel's is"));
    }
}

static void an_operation_without_vectors_is_a_failure(void **state)
{
    (void)state;
    const fy_kernels k = fy_kernels_for(0);
    int n = 0;
    fy_err e = {0};
    assert_int_equal(fy_kernel_vectors("no_such_op", &k, &n, &e), -1);
    assert_int_equal(e.code, FY_EVERIFY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_of_the_list_has_vectors_and_passes),
        cmocka_unit_test(every_operation_has_a_scalar_row),
        cmocka_unit_test(a_kernel_that_is_wrong_in_one_place_is_caught),
        cmocka_unit_test(an_operation_without_vectors_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
