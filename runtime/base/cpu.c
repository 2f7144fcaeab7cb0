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

/* What the system saves of the registers. */
static unsigned saved_state(void)
{
    unsigned xcr0, high;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
    return xcr0;
}

/* Leaf 7 on a machine of FY_CPU_AVX2, which promises the whole level of x86-64-v3 that our kernels
 * use. FY_CPU_AVX512 is what Cascade Lake and all its successors have. */
static uint32_t detect_wide(unsigned state)
{
    enum { YMM_STATE = 0x06, ZMM_STATE = 0xe6, AVX2 = 1 << 5, AVXVNNI = 1 << 4 };
    const unsigned level = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
    const unsigned vnni = 1u << 11;
    unsigned a, b, c, d, a1, b1, c1, d1;
    if ((state & YMM_STATE) != YMM_STATE || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & AVX2))
        return 0;
    uint32_t features = FY_CPU_AVX2;
    if ((state & ZMM_STATE) == ZMM_STATE && (b & level) == level && (c & vnni))
        features |= FY_CPU_AVX512;
    if (a >= 1 && __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1) && (a1 & AVXVNNI))
        features |= FY_CPU_AVXVNNI;
    return features;
}

static uint32_t detect(void)
{
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29 };
    const unsigned level = FMA | OSXSAVE | AVX | F16C;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & level) != level)
        return 0;
    return detect_wide(saved_state());
}

#elif defined(__aarch64__)

static uint32_t detect(void)
{
    unsigned long hwcap = getauxval(AT_HWCAP);
    if (!(hwcap & HWCAP_ASIMD))
        return 0;
    return FY_CPU_NEON | (hwcap & HWCAP_ASIMDDP ? FY_CPU_DOTPROD : 0) |
           (getauxval(AT_HWCAP2) & HWCAP2_I8MM ? FY_CPU_I8MM : 0);
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

static const char *describe_x86(uint32_t features)
{
    bool avx512 = features & FY_CPU_AVX512, vnni = features & FY_CPU_AVXVNNI;
    return avx512 && vnni ? "avx2 avxvnni avx512"
           : avx512       ? "avx2 avx512"
           : vnni         ? "avx2 avxvnni"
                          : "avx2";
}

const char *fy_cpu_describe(uint32_t features)
{
    /* by FY_CPU_NEON, FY_CPU_DOTPROD, FY_CPU_I8MM */
    static const char *const arm[] = {
        "scalar", "neon",      "dotprod",      "neon dotprod",
        "i8mm",   "neon i8mm", "dotprod i8mm", "neon dotprod i8mm",
    };
    if (features & FY_CPU_AVX2)
        return describe_x86(features);
    return arm[features / FY_CPU_NEON % 8];
}
