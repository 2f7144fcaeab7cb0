#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "convert/look/compare.h"

enum { N = 5003 }; /* blocks, a part of one, and a rest that no vector takes */

static float a[N], b[N];
static fy_kernels kernels;

static void fill(void)
{
    uint32_t state = 7;
    for (size_t i = 0; i < N; i++) {
        state = state * 1664525u + 1013904223u;
        a[i] = (float)((int32_t)state >> 8) * 0x1p-23f;
        b[i] = a[i];
    }
}

static fy_tensor_diff diff(void)
{
    fy_tensor_diff d;
    fy_tensor_diff_of(&d, &kernels, a, b, N, 100);
    return d;
}

static void equal_values_have_no_difference(void **state)
{
    (void)state;
    fill();
    a[3] = b[3] = NAN;
    a[N - 1] = b[N - 1] = NAN;
    a[2000] = b[2000] = -INFINITY;
    a[10] = 0.0f;
    b[10] = -0.0f;
    fy_tensor_diff d = diff();
    assert_int_equal(d.n, N);
    assert_int_equal(d.n_different, 0);
    assert_int_equal(d.n_wild, 0);
    assert_true(fy_tensor_diff_relative(&d) == 0);
    assert_true(fy_tensor_diff_rmse(&d) == 0);
    assert_true(fy_tensor_diff_cosine(&d) == 1);
}

static void the_sums_are_those_of_the_definition(void **state)
{
    (void)state;
    fill();
    double max = 0, largest = 0, diff2 = 0, a2 = 0, b2 = 0, ab = 0;
    for (size_t i = 0; i < N; i++) {
        b[i] += i % 3 == 1 ? 1e-3f * (float)(i % 17) : 0;
        double x = (double)a[i], y = (double)b[i];
        max = fmax(max, fabs(x - y));
        largest = fmax(largest, fabs(x));
        diff2 += (x - y) * (x - y);
        a2 += x * x;
        b2 += y * y;
        ab += x * y;
    }
    fy_tensor_diff d = diff();
    assert_true(fabs(fy_tensor_diff_relative(&d) - max / largest) < 1e-7 * max / largest);
    assert_true(fabs(fy_tensor_diff_rmse(&d) - sqrt(diff2 / N)) < 1e-12);
    assert_true(fabs(fy_tensor_diff_cosine(&d) - ab / sqrt(a2 * b2)) < 1e-14);
    assert_int_equal(d.first, 101);
    assert_true(d.first_a == a[1] && d.first_b == b[1]);
}

static void one_value_is_found_wherever_it_is(void **state)
{
    (void)state;
    fill();
    for (size_t i = 0; i < N; i += i < 20 || i > N - 20 ? 1 : 97) {
        float before = b[i];
        b[i] = nextafterf(b[i], INFINITY);
        fy_tensor_diff d = diff();
        assert_int_equal(d.n_different, 1);
        assert_int_equal(d.first, 100 + i);
        assert_true(d.max_diff > 0 && d.sum_diff2 > 0);
        b[i] = before;
    }
}

static void what_is_not_finite_is_an_infinite_difference(void **state)
{
    (void)state;
    static const float values[][2] = {{NAN, 1}, {1, NAN}, {INFINITY, 1}, {INFINITY, -INFINITY}};
    static const size_t places[] = {0, 1023, N - 1};
    for (size_t v = 0; v < 4; v++) {
        for (size_t p = 0; p < 3; p++) {
            fill();
            a[places[p]] = values[v][0];
            b[places[p]] = values[v][1];
            fy_tensor_diff d = diff();
            assert_int_equal(d.n_different, 1);
            assert_int_equal(d.n_wild, 1);
            assert_int_equal(d.first, 100 + places[p]);
            assert_true(isinf(fy_tensor_diff_relative(&d)));
            assert_true(isinf(fy_tensor_diff_rmse(&d)));
            assert_true(d.largest <= 1);
        }
    }
}

static void a_difference_beyond_f32_stays_finite(void **state)
{
    (void)state;
    fill();
    a[5] = 3e38f;
    b[5] = -3e38f;
    fy_tensor_diff d = diff();
    assert_int_equal(d.n_wild, 0);
    assert_true(fabs(d.max_diff / 6e38 - 1) < 1e-6);
    assert_true(fabs(fy_tensor_diff_relative(&d) - 2) < 1e-6);
}

static void differences_from_zeros_are_infinitely_large(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++)
        a[i] = b[i] = 0;
    b[7] = 1e-45f;
    fy_tensor_diff d = diff();
    assert_int_equal(d.n_different, 1);
    assert_true(isinf(fy_tensor_diff_relative(&d)));
    assert_true(fy_tensor_diff_cosine(&d) == 0);
}

static void pieces_join_to_the_whole(void **state)
{
    (void)state;
    fill();
    b[3000] += 1;
    b[4000] += 2;
    fy_tensor_diff sum = {0}, piece;
    for (size_t at = 0; at < N; at += 1000) {
        fy_tensor_diff_of(&piece, &kernels, a + at, b + at, N - at < 1000 ? N - at : 1000, at);
        fy_tensor_diff_join(&sum, &piece);
    }
    assert_int_equal(sum.n, N);
    assert_int_equal(sum.n_different, 2);
    assert_int_equal(sum.first, 3000);
    assert_true(fabs(sum.max_diff - 2) < 1e-6);
    fy_tensor_diff none = {0};
    fy_tensor_diff_of(&piece, &kernels, a, b, 0, 0);
    fy_tensor_diff_join(&none, &piece);
    assert_int_equal(none.n_different, 0);
    assert_true(fy_tensor_diff_rmse(&none) == 0);
}

int main(void)
{
    kernels = fy_kernels_for(fy_cpu_features());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_values_have_no_difference),
        cmocka_unit_test(the_sums_are_those_of_the_definition),
        cmocka_unit_test(one_value_is_found_wherever_it_is),
        cmocka_unit_test(what_is_not_finite_is_an_infinite_difference),
        cmocka_unit_test(a_difference_beyond_f32_stays_finite),
        cmocka_unit_test(differences_from_zeros_are_infinitely_large),
        cmocka_unit_test(pieces_join_to_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
