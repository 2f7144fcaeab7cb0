#include "base/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define KNOWN (1u << 31) /* marks the cached value as computed */

#if defined(__x86_64__)

/* FY_CPU_AVX2 promises the whole level of x86-64-v3 that our kernels use, and that the system saves
 * ymm. */
static uint32_t detect(void)
{
    enum {
        FMA = 1 << 12,
        OSXSAVE = 1 << 27,
        AVX = 1 << 28,
        F16C = 1 << 29,
        AVX2 = 1 << 5,
        YMM_STATE = 6
    };
    const unsigned level = FMA | OSXSAVE | AVX | F16C;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & level) != level)
        return 0;
    unsigned xcr0, high;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
    if ((xcr0 & YMM_STATE) != YMM_STATE)
        return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & AVX2) ? FY_CPU_AVX2 : 0;
}

#elif defined(__aarch64__)

static uint32_t detect(void)
{
    unsigned long hwcap = getauxval(AT_HWCAP);
    if (!(hwcap & HWCAP_ASIMD))
        return 0;
    return hwcap & HWCAP_ASIMDDP ? FY_CPU_NEON | FY_CPU_DOTPROD : FY_CPU_NEON;
}

#else

static uint32_t detect(void)
{
    return 0;
}

#endif

static uint32_t mask_from_env(void)
{
    const char *s = getenv("FY_CPU_MASK");
    if (s == NULL || *s == '\0')
        return UINT32_MAX;
    char *end;
    unsigned long v = strtoul(s, &end, 0);
    return *end == '\0' ? (uint32_t)v : UINT32_MAX;
}

uint32_t fy_cpu_features(void)
{
    static _Atomic uint32_t cached;
    uint32_t f = atomic_load_explicit(&cached, memory_order_relaxed);
    if (!(f & KNOWN)) {
        f = (detect() & mask_from_env()) | KNOWN; /* two threads that race compute the same */
        atomic_store_explicit(&cached, f, memory_order_relaxed);
    }
    return f & ~KNOWN;
}

const char *fy_cpu_describe(uint32_t features)
{
    bool neon = features & FY_CPU_NEON, dotprod = features & FY_CPU_DOTPROD;
    if (features & FY_CPU_AVX2)
        return "avx2";
    return neon && dotprod ? "neon dotprod" : neon ? "neon" : dotprod ? "dotprod" : "scalar";
}
