#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpu.h"

/* The features a fresh process sees with FY_CPU_MASK set so: they are found once per process. */
static uint32_t features_with_mask(const char *mask)
{
    int fd[2];
    uint32_t f = UINT32_MAX;
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (mask != NULL)
            setenv("FY_CPU_MASK", mask, 1);
        else
            unsetenv("FY_CPU_MASK");
        f = fy_cpu_features();
        _exit(write(fd[1], &f, sizeof f) == (ssize_t)sizeof f ? 0 : 1);
    }
    close(fd[1]);
    assert_int_equal(read(fd[0], &f, sizeof f), sizeof f);
    close(fd[0]);
    waitpid(pid, NULL, 0);
    return f;
}

static void a_mask_of_zero_leaves_the_scalar_kernels(void **state)
{
    (void)state;
    assert_int_equal(features_with_mask("0"), 0);
    assert_string_equal(fy_cpu_describe(0), "scalar");
}

static void a_mask_selects_features(void **state)
{
    (void)state;
    uint32_t all = features_with_mask(NULL);
    char text[32];
    for (uint32_t bit = 1; bit != 0; bit <<= 1) {
        snprintf(text, sizeof text, "0x%x", (unsigned)bit);
        if (bit & (all | 1))
            assert_int_equal(features_with_mask(text), all & bit);
    }
    assert_int_equal(features_with_mask("4294967295"), all);
}

static void an_unreadable_mask_is_no_mask(void **state)
{
    (void)state;
    uint32_t all = features_with_mask(NULL);
    assert_int_equal(features_with_mask(""), all);
    assert_int_equal(features_with_mask("avx2"), all);
}

static void the_features_fit_the_machine_of_the_build(void **state)
{
    (void)state;
    uint32_t all = features_with_mask(NULL);
#if defined(__x86_64__)
    assert_int_equal(all & ~(uint32_t)(FY_CPU_AVX2 | FY_CPU_AVXVNNI | FY_CPU_AVX512), 0);
    if (all != 0)
        assert_true(all & FY_CPU_AVX2); /* the others build on it */
#elif defined(__aarch64__)
    assert_true(all & FY_CPU_NEON);
#else
    assert_int_equal(all, 0);
#endif
}

static void features_have_names(void **state)
{
    (void)state;
    assert_string_equal(fy_cpu_describe(FY_CPU_AVX2), "avx2");
    assert_string_equal(fy_cpu_describe(FY_CPU_AVX2 | FY_CPU_AVXVNNI), "avx2 avxvnni");
    assert_string_equal(fy_cpu_describe(FY_CPU_AVX2 | FY_CPU_AVX512), "avx2 avx512");
    assert_string_equal(fy_cpu_describe(FY_CPU_AVX2 | FY_CPU_AVXVNNI | FY_CPU_AVX512),
                        "avx2 avxvnni avx512");
    assert_string_equal(fy_cpu_describe(FY_CPU_AVX512), "scalar");
    assert_string_equal(fy_cpu_describe(FY_CPU_NEON), "neon");
    assert_string_equal(fy_cpu_describe(FY_CPU_NEON | FY_CPU_DOTPROD), "neon dotprod");
    assert_string_equal(fy_cpu_describe(FY_CPU_NEON | FY_CPU_DOTPROD | FY_CPU_I8MM),
                        "neon dotprod i8mm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_of_zero_leaves_the_scalar_kernels),
        cmocka_unit_test(a_mask_selects_features),
        cmocka_unit_test(an_unreadable_mask_is_no_mask),
        cmocka_unit_test(the_features_fit_the_machine_of_the_build),
        cmocka_unit_test(features_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
