/* The reference's own functions against long double ones: 1e-14 of the result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "qnnref/ref_math.c"

static double worst(double own(double), long double right(long double), double low, double high,
                    double least)
{
    double most = 0;
    for (int i = 0; i <= 65536; i++) {
        double x = low + (high - low) * i / 65536.0;
        long double want = right((long double)x), z = fabsl(want);
        double e = (double)(fabsl((long double)own(x) - want) / (z > least ? z : least));
        most = e > most ? e : most;
    }
    return most;
}

static void functions_are_right(void **state)
{
    (void)state;
    assert_true(worst(ref_exp, expl, -700, 700, 0) < 1e-14);
    assert_true(worst(ref_exp, expl, -1, 1, 0) < 1e-15);
    assert_true(worst(ref_tanh, tanhl, -20, 20, 0) < 1e-14);
    assert_true(worst(ref_tanh, tanhl, -0.3, 0.3, 0) < 1e-14);
    assert_true(worst(ref_erf, erfl, -7, 7, 0) < 1e-14);
    assert_true(worst(ref_erf, erfl, -0.01, 0.01, 0) < 1e-14);
    assert_true(worst(ref_sin, sinl, -1000, 1000, 1) < 1e-14);
    assert_true(worst(ref_cos, cosl, -1000, 1000, 1) < 1e-14);
    assert_true(worst(ref_sin, sinl, -0.5, 0.5, 0) < 1e-14);
}

static void edges_have_values(void **state)
{
    (void)state;
    assert_true(ref_exp(-1000) == 0 && ref_exp(0) == 1 && ref_exp(1e9) > 1e300);
    assert_true(isnan(ref_exp(NAN)));
    assert_true(ref_tanh(INFINITY) == 1 && ref_tanh(-50) == -1 && ref_erf(-9) == -1);
    static const double from[] = {0.5, 1.5, 2.5, -0.5, -1.5, 2.4999, -2.5001, 1e17, 3},
                        even[] = {0, 2, 2, 0, -2, 2, -3, 1e17, 3},
                        down[] = {0, 1, 2, -1, -2, 2, -3, 1e17, 3};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        assert_true(ref_rint(from[i]) == even[i]);
        assert_true(ref_floor(from[i]) == down[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_right),
        cmocka_unit_test(edges_have_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
