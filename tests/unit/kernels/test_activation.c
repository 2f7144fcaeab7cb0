#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kernels/kernels.h"

static void erf_is_near_libm_everywhere(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t bits = 0; bits < 0x7f800000; bits += 1009) {
        float x;
        memcpy(&x, &bits, sizeof x);
        assert_true(fy_erf(-x) == -fy_erf(x));
        worst = fmax(worst, fabs((double)fy_erf(x) - erf((double)x)));
    }
    assert_true(worst < 2e-7);
    for (float x = 0.9f; x < 1.1f; x = nextafterf(x, 2))
        worst = fmax(worst, fabs((double)fy_erf(x) - erf((double)x)));
    assert_true(worst < 2e-7);
}

static void erf_handles_the_ends(void **state)
{
    (void)state;
    assert_true(fy_erf(0.0f) == 0.0f);
    assert_true(fy_erf(INFINITY) == 1.0f);
    assert_true(fy_erf(-INFINITY) == -1.0f);
    assert_true(fy_erf(4.0f) == 1.0f);
    assert_true(isnan(fy_erf(NAN)));
}

static float activated(fy_act_kind act, float threshold, float x, const float *up)
{
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    fy_kernels_activate(&k, act, threshold, &x, up, 1);
    return x;
}

static void every_activation_has_its_kernel(void **state)
{
    (void)state;
    const float up = 2, down = -2;
    const struct {
        fy_act_kind act;
        float x;
        double alone, with_up, with_down;
    } cases[] = {
        {FY_ACT_SILU, 1, 0.7310586, 1.4621172, -1.4621172},
        {FY_ACT_GELU, 1, 0.8413447, 1.6826895, -1.6826895},
        {FY_ACT_GELU_TANH, 1, 0.8411920, 1.6823840, -1.6823840},
        {FY_ACT_RELU, 1, 1, 2, -2},
        {FY_ACT_RELU, -1, 0, 0, 0},
        {FY_ACT_FATRELU, 1, 1, 2, -2},
        {FY_ACT_FATRELU, 0.25f, 0, 0, 0},
        {FY_ACT_DRELU, 1, 1, 2, 0},
        {FY_ACT_DRELU, -1, 0, 0, 0},
        {FY_ACT_SWIGLU_OAI, 1, 0.8457957659, 2.537387298, -0.8457957659},
        {FY_ACT_SWIGLU_OAI, 90, 6.9999531283, 20.999859385, -6.9999531283},
        {FY_ACT_RELU2, 3, 9, 18, -18},
        {FY_ACT_RELU2, -3, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_act_kind act = cases[i].act;
        assert_true(fabs((double)activated(act, 0.25f, cases[i].x, NULL) - cases[i].alone) < 1e-6);
        assert_true(fabs((double)activated(act, 0.25f, cases[i].x, &up) - cases[i].with_up) < 1e-6);
        assert_true(fabs((double)activated(act, 0.25f, cases[i].x, &down) - cases[i].with_down) <
                    1e-6);
    }
}

static void the_clamped_gate_is_clamped_on_both_sides(void **state)
{
    (void)state;
    const float high = 9, low = -9, top = 7, bottom = -7;
    assert_true(activated(FY_ACT_SWIGLU_OAI, 0, 9, &high) ==
                activated(FY_ACT_SWIGLU_OAI, 0, 7, &top));
    assert_true(activated(FY_ACT_SWIGLU_OAI, 0, 9, &low) ==
                activated(FY_ACT_SWIGLU_OAI, 0, 7, &bottom));
    assert_true(activated(FY_ACT_SWIGLU_OAI, 0, -9, &high) !=
                activated(FY_ACT_SWIGLU_OAI, 0, -7, &high)); /* the gate has no lower limit */
    const float bad = NAN;
    assert_true(isnan(activated(FY_ACT_SWIGLU_OAI, 0, 1, &bad)));
    assert_true(isnan(activated(FY_ACT_SWIGLU_OAI, 0, bad, &high)));
}

static void a_soft_cap_is_never_exceeded(void **state)
{
    (void)state;
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    float x[] = {0, 1e-3f, -1e-3f, 30, -30, 1e6f, -1e6f, 3e38f, -3e38f};
    k.softcap(x, sizeof x / sizeof x[0], 30);
    assert_true(x[0] == 0);
    assert_true(fabsf(x[1] - 1e-3f) < 1e-5f && fabsf(x[2] + 1e-3f) < 1e-5f);
    assert_true(fabsf(x[3] - 22.8478247f) < 1e-5f && fabsf(x[4] + 22.8478247f) < 1e-5f);
    for (int i = 5; i < 9; i++)
        assert_true(x[i] == (i % 2 ? 30.0f : -30.0f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(erf_is_near_libm_everywhere),
        cmocka_unit_test(erf_handles_the_ends),
        cmocka_unit_test(every_activation_has_its_kernel),
        cmocka_unit_test(the_clamped_gate_is_clamped_on_both_sides),
        cmocka_unit_test(a_soft_cap_is_never_exceeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
