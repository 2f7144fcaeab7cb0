/* CPU features (cpuid, auxiliary vector), and sets of CPUs with what the kernel tells about them. */
#include "base/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define KNOWN (1u << 31) /* marks the cached value as computed */

#if defined(__x86_64__)

/* Which registers the system saves. */
static unsigned saved_state(void)
{
    unsigned xcr0, high;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
    return xcr0;
}

/* Leaf 7. FY_CPU_AVX2 means all of x86-64-v3 that our kernels use. FY_CPU_AVX512 is what Cascade
 * Lake and all its successors have. */
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

/* --- sets ----------------------------------------------------------------------------------- */

bool fy_cpus_has(const fy_cpus *s, int cpu)
{
    return (s->bits[cpu / 64] >> cpu % 64 & 1) != 0;
}

void fy_cpus_add(fy_cpus *s, int cpu)
{
    s->bits[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

int fy_cpus_count(const fy_cpus *s)
{
    int n = 0;
    for (size_t i = 0; i < sizeof s->bits / sizeof s->bits[0]; i++)
        n += __builtin_popcountll(s->bits[i]);
    return n;
}

void fy_cpus_text(const fy_cpus *s, fy_str *out)
{
    const char *comma = "";
    for (int i = 0; i < FY_CPUS_MAX; i++) {
        if (!fy_cpus_has(s, i))
            continue;
        int first = i;
        while (i + 1 < FY_CPUS_MAX && fy_cpus_has(s, i + 1))
            i++;
        fy_str_printf(out, i == first ? "%s%d" : "%s%d-%d", comma, first, i);
        comma = ",";
    }
    if (*comma == '\0')
        fy_str_puts(out, "none");
}

/* --- what a user writes --------------------------------------------------------------------- */

static int bad_mask(const char *hex, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EARG,
                   "'%s' is not a mask of CPUs, expected a hexadecimal number: f0 is CPUs 4 to 7",
                   fy_quote(shown, sizeof shown, fy_span_of(hex)));
}

int fy_cpus_add_mask(fy_cpus *s, const char *hex, fy_err *e)
{
    const char *p = hex[0] == '0' && (hex[1] == 'x' || hex[1] == 'X') ? hex + 2 : hex;
    const size_t n = strlen(p);
    fy_cpus found = {0};
    for (size_t i = 0; i < n; i++) { /* from the last digit, which is CPUs 0 to 3 */
        const int digit = fy_hex_digit(p[n - 1 - i]);
        if (digit < 0 || (digit > 0 && i >= FY_CPUS_MAX / 4))
            return bad_mask(hex, e);
        if (digit > 0)
            found.bits[i / 16] |= (uint64_t)digit << i % 16 * 4;
    }
    if (fy_cpus_count(&found) == 0)
        return bad_mask(hex, e);
    for (size_t i = 0; i < sizeof s->bits / sizeof s->bits[0]; i++)
        s->bits[i] |= found.bits[i];
    return 0;
}

/* The number at *p, or `absent` if there is none; -1 if it is too large. */
static int range_end(const char **p, int absent)
{
    if (**p < '0' || **p > '9')
        return absent;
    long v = 0;
    for (; **p >= '0' && **p <= '9'; ++*p)
        v = v < FY_CPUS_MAX ? v * 10 + (**p - '0') : v;
    return v < FY_CPUS_MAX ? (int)v : -1;
}

int fy_cpus_add_range(fy_cpus *s, const char *range, fy_err *e)
{
    const char *p = range;
    const int first = range_end(&p, 0);
    const bool dash = *p == '-' && (p > range || p[1] != '\0');
    p += dash;
    const int last = range_end(&p, FY_CPUS_MAX - 1);
    if (!dash || *p != '\0' || first < 0 || last < first) {
        char shown[FY_QUOTE_BYTES];
        return fy_fail(e, FY_EARG,
                       "'%s' is not a range of CPUs, expected LO-HI from 0 to %d, as in 4-7",
                       fy_quote(shown, sizeof shown, fy_span_of(range)), FY_CPUS_MAX - 1);
    }
    for (int i = first; i <= last; i++)
        fy_cpus_add(s, i);
    return 0;
}

/* --- the calling thread --------------------------------------------------------------------- */

fy_cpus fy_cpus_usable(void)
{
    fy_cpus out = {0};
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return out;
    for (int i = 0; i < FY_CPUS_MAX && i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &set))
            fy_cpus_add(&out, i);
    }
    return out;
}

int fy_cpus_pin(const fy_cpus *s, fy_cpus *got, fy_err *e)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < FY_CPUS_MAX && i < CPU_SETSIZE; i++) {
        if (fy_cpus_has(s, i))
            CPU_SET(i, &set);
    }
    if (sched_setaffinity(0, sizeof set, &set) == 0) {
        if (got != NULL)
            *got = fy_cpus_usable();
        return 0;
    }
    const int err = errno;
    const fy_cpus usable = fy_cpus_usable();
    fy_str asked = {0}, there = {0};
    fy_cpus_text(s, &asked);
    fy_cpus_text(&usable, &there);
    fy_fail(e, FY_EARG, "cannot run on CPUs %s: %s; this process may use %s", fy_str_z(&asked),
            err == EINVAL ? "none of them is available" : strerror(err), fy_str_z(&there));
    fy_str_release(&asked);
    fy_str_release(&there);
    return -1;
}

/* --- fast and slow -------------------------------------------------------------------------- */

/* What distinguishes the cores of a processor, best first, and the share of the largest value below
 * which a core is slow. Of capacity (speed of the core at its highest clock) the small cores of
 * phones have up to 40 % (Cortex-A55 next to A76: 40 %, Kryo 385 Silver: 38 %, Cortex-A520 next to
 * X4: 37 %, A510 next to X3: 20 %), the middle ones at least 47 % (A78 next to X1 at 47 and 49 %;
 * A715 next to X3: 60 %). Of clock the small ones have up to 71 %, the middle ones at least 80 %.
 * Source: capacity-dmips-mhz and operating points in Linux's device trees. */
static const struct {
    const char *file;
    int percent;
} measures[] = {{"cpu_capacity", 44}, {"cpufreq/cpuinfo_max_freq", 80}};

/* A file of sysfs that holds one positive number; 0 when it does not. */
static long long read_number(const char *sysfs, int cpu, const char *file)
{
    char path[PATH_MAX], text[32], *end;
    const int n = snprintf(path, sizeof path, "%s/cpu%d/%s", sysfs, cpu, file);
    const int fd = n > 0 && (size_t)n < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    const ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    const long long v = strtoll(text, &end, 10);
    return end != text && (*end == '\n' || *end == '\0') && v > 0 && v < INT32_MAX ? v : 0;
}

/* False when a value is not known, or all are the same: a kernel without data gives every core the
 * same capacity. */
static bool read_all(const fy_cpus *among, const char *sysfs, const char *file,
                     long long value[FY_CPUS_MAX], long long *largest)
{
    bool differ = false;
    *largest = 0;
    for (int i = 0; i < FY_CPUS_MAX; i++) {
        if (!fy_cpus_has(among, i))
            continue;
        value[i] = read_number(sysfs, i, file);
        if (value[i] == 0)
            return false;
        differ |= *largest != 0 && value[i] != *largest;
        *largest = value[i] > *largest ? value[i] : *largest;
    }
    return differ;
}

fy_cpus fy_cpus_fast(const fy_cpus *among, const char *sysfs)
{
    long long value[FY_CPUS_MAX], largest;
    for (size_t m = 0; m < sizeof measures / sizeof measures[0]; m++) {
        if (!read_all(among, sysfs, measures[m].file, value, &largest))
            continue;
        fy_cpus out = {0};
        for (int i = 0; i < FY_CPUS_MAX; i++) {
            if (fy_cpus_has(among, i) && value[i] * 100 >= largest * measures[m].percent)
                fy_cpus_add(&out, i);
        }
        return out;
    }
    return *among;
}
