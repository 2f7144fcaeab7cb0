/* What bounds the engine on this machine: the rate at which memory is read (decoding), and that of
 * multiply-adds of int8 and of f32 (prefill), by one thread and by all. A line per number:
 *
 *   read       2       33.4 GB/s
 *   int8       2      467.1 GMAC/s  vpdpbusd zmm
 *
 * Multiply-adds are independent chains of the best instructions that FY_CPU_MASK leaves, on
 * registers alone. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/process.h"
#include "base/thread.h"
#include "cli/measure/selftest.h"

enum {
    CHAINS = 10,          /* cover a latency of 4 or 5 at two instructions a cycle */
    ROUNDS = 20000,       /* of an item: some 50 microseconds */
    ITEMS = 64,           /* per thread */
    READ_MEGABYTES = 512, /* beyond the caches of a server */
};
static const double least_seconds = 0.5;

/* Written out: a loop over c[] would keep the chains in memory. */
#define AT(n, ...)        \
    {                     \
        enum { i = (n) }; \
        __VA_ARGS__;      \
    }
#define EACH(...)      \
    AT(0, __VA_ARGS__) \
    AT(1, __VA_ARGS__) \
    AT(2, __VA_ARGS__) \
    AT(3, __VA_ARGS__) \
    AT(4, __VA_ARGS__) \
    AT(5, __VA_ARGS__) AT(6, __VA_ARGS__) AT(7, __VA_ARGS__) AT(8, __VA_ARGS__) AT(9, __VA_ARGS__)

/* A value that the compiler neither knows nor may drop: else one chain would serve for all. */
#define HIDE(v) __asm__ volatile("" : REGISTER(v))

/* A function of `rounds` that makes `step` of each of the chains c[] in each of them. */
#define PEAK(name, isa, vector, zero, operands, step) \
    ISA(isa) static void name(int64_t rounds)         \
    {                                                 \
        vector c[CHAINS];                             \
        operands;                                     \
        EACH(c[i] = (zero); HIDE(c[i]))               \
        while (rounds-- > 0) {                        \
            EACH(c[i] = (step))                       \
        }                                             \
        EACH(HIDE(c[i]))                              \
    }

typedef struct {
    const char *what, *how;
    int macs;       /* of a step */
    uint32_t needs; /* features */
    void (*run)(int64_t rounds);
} peak;

#if defined(__x86_64__)
#include <immintrin.h>
#define REGISTER      "+v"
#define ISA(features) __attribute__((target(features)))

ISA("avx2") static inline __m256i again(__m256i v)
{
    HIDE(v);
    return v;
}

PEAK(dpbusd_zmm, "avx512f,avx512vnni", __m512i, _mm512_setzero_si512(),
     const __m512i a = _mm512_set1_epi8(3), _mm512_dpbusd_epi32(c[i], a, a))
PEAK(dpbusd_ymm, "avx2,avxvnni", __m256i, _mm256_setzero_si256(),
     const __m256i a = _mm256_set1_epi8(3), _mm256_dpbusd_avx_epi32(c[i], a, a))
PEAK(maddubs_ymm, "avx2", __m256i, _mm256_setzero_si256(), const __m256i a = _mm256_set1_epi8(3);
     const __m256i ones = _mm256_set1_epi16(1),
     _mm256_add_epi32(c[i], _mm256_madd_epi16(_mm256_maddubs_epi16(again(a), a), ones)))
PEAK(fma_zmm, "avx512f", __m512, _mm512_setzero_ps(), const __m512 a = _mm512_set1_ps(0.5F),
     _mm512_fmadd_ps(c[i], a, a))
PEAK(fma_ymm, "avx2,fma", __m256, _mm256_setzero_ps(), const __m256 a = _mm256_set1_ps(0.5F),
     _mm256_fmadd_ps(c[i], a, a))

/* Of each kind the first that is there counts. */
static const peak peaks[] = {
    {"int8", "vpdpbusd zmm", 64, FY_CPU_AVX512, dpbusd_zmm},
    {"int8", "vpdpbusd ymm", 32, FY_CPU_AVXVNNI, dpbusd_ymm},
    {"int8", "vpmaddubsw vpmaddwd vpaddd ymm", 32, FY_CPU_AVX2, maddubs_ymm},
    {"f32", "vfmadd zmm", 16, FY_CPU_AVX512, fma_zmm},
    {"f32", "vfmadd ymm", 8, FY_CPU_AVX2, fma_ymm},
};

#elif defined(__aarch64__)
#include <arm_neon.h>
#define REGISTER "+w"
#ifdef __clang__
#define ISA(feature) __attribute__((target(feature)))
#define BASE         "neon"
#else
#define ISA(feature) __attribute__((target("arch=armv8.2-a+" feature)))
#define BASE         "simd"
#endif

static inline int8x16_t again(int8x16_t v)
{
    HIDE(v);
    return v;
}

/* The instructions by their names: some compilers have the intrinsics with flags only. */
ISA("i8mm") static inline int32x4_t smmla_step(int32x4_t c, int8x16_t a)
{
    __asm__("smmla %0.4s, %1.16b, %1.16b" : "+w"(c) : "w"(a));
    return c;
}
ISA("dotprod") static inline int32x4_t sdot_step(int32x4_t c, int8x16_t a)
{
    __asm__("sdot %0.4s, %1.16b, %1.16b" : "+w"(c) : "w"(a));
    return c;
}

PEAK(smmla, "i8mm", int32x4_t, vdupq_n_s32(0), const int8x16_t a = vdupq_n_s8(3),
     smmla_step(c[i], a))
PEAK(sdot, "dotprod", int32x4_t, vdupq_n_s32(0), const int8x16_t a = vdupq_n_s8(3),
     sdot_step(c[i], a))
PEAK(smlal, BASE, int32x4_t, vdupq_n_s32(0), const int8x16_t a = vdupq_n_s8(3),
     vpadalq_s16(c[i], vmlal_high_s8(vmull_s8(vget_low_s8(again(a)), vget_low_s8(a)), again(a), a)))
PEAK(fmla, BASE, float32x4_t, vdupq_n_f32(0), const float32x4_t a = vdupq_n_f32(0.5F),
     vfmaq_f32(c[i], a, a))

static const peak peaks[] = {
    {"int8", "smmla", 32, FY_CPU_I8MM, smmla},
    {"int8", "sdot", 16, FY_CPU_DOTPROD, sdot},
    {"int8", "smull smlal2 sadalp", 16, FY_CPU_NEON, smlal},
    {"f32", "fmla", 4, FY_CPU_NEON, fmla},
};

#else
static const peak peaks[] = {{0}};
#endif

static void run_items(void *ctx, int64_t begin, int64_t end, int thread)
{
    const peak *p = ctx;
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        p->run(ROUNDS);
}

/* Multiply-adds per second: the best of what fits into the time. */
static double rate_of(const peak *p, fy_pool *pool)
{
    const int n_items = ITEMS * fy_pool_threads(pool);
    const double macs = (double)n_items * ROUNDS * CHAINS * p->macs;
    const double until = fy_now_s() + least_seconds;
    double best = 0, now;
    do {
        const double begin = fy_now_s();
        fy_pool_run(pool, n_items, 1, run_items, (void *)(uintptr_t)p);
        now = fy_now_s();
        best = macs / (now - begin) > best ? macs / (now - begin) : best;
    } while (now < until);
    return best;
}

static int print_limits(int n_threads, fy_err *e)
{
    double bytes;
    if (fy_read_speed(n_threads, READ_MEGABYTES, 1.0, &bytes, e) != 0)
        return -1;
    printf("%-6s %5d %10.1f GB/s\n", "read", n_threads, bytes * 1e-9);
    fy_pool *pool = fy_pool_new(n_threads, e);
    if (pool == NULL)
        return -1;
    const char *last = "";
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++) {
        const peak *p = &peaks[i];
        if (p->what == NULL || strcmp(p->what, last) == 0 ||
            (fy_cpu_features() & p->needs) != p->needs)
            continue;
        last = p->what;
        printf("%-6s %5d %10.1f GMAC/s  %s\n", p->what, n_threads, rate_of(p, pool) * 1e-9, p->how);
    }
    fy_pool_free(pool);
    return 0;
}

int main(void)
{
    fy_err e = {0};
    const int all = fy_default_threads();
    int rc = print_limits(1, &e);
    if (rc == 0 && all > 1)
        rc = print_limits(all, &e);
    if (rc != 0)
        fprintf(stderr, "limits: %s\n", e.msg);
    return rc == 0 ? 0 : 1;
}
