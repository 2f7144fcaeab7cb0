/* The CPUs of this machine: their features, which of them a thread may use, which are fast, and
 * pinning a thread to some of them.
 *
 * Features are found once at run time. FY_CPU_MASK (a number, default all ones) is and-ed in:
 * FY_CPU_MASK=0 forces the scalar kernels, the first step of every bug report.
 *
 * A thread hands its set of CPUs on to the threads that it starts, so a program that pins its own
 * thread before it makes a pool has pinned the pool; nothing here changes a thread that did not
 * ask. */
#ifndef FY_BASE_CPU_H
#define FY_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* --- features --- */

enum {
    FY_CPU_AVX2 = 1u << 0,    /* with FMA, F16C and the OS saving ymm registers */
    FY_CPU_AVXVNNI = 1u << 1, /* vpdpbusd of ymm in VEX */
    FY_CPU_AVX512 = 1u << 2,  /* F, BW, DQ, VL and VNNI, and the OS saving zmm and masks */
    FY_CPU_NEON = 1u << 8,
    FY_CPU_DOTPROD = 1u << 9,
    FY_CPU_I8MM = 1u << 10,
};

/* The features this build can use on this CPU, after the mask. Cheap after the first call;
 * thread-safe. */
uint32_t fy_cpu_features(void);

/* "avx2 avx512", "neon dotprod i8mm", or "scalar". Static string. */
const char *fy_cpu_describe(uint32_t features);

/* --- sets of CPUs --- */

enum { FY_CPUS_MAX = 1024 };

/* Zeroed: no CPU. */
typedef struct {
    uint64_t bits[FY_CPUS_MAX / 64];
} fy_cpus;

bool fy_cpus_has(const fy_cpus *s, int cpu);
void fy_cpus_add(fy_cpus *s, int cpu); /* 0..FY_CPUS_MAX - 1 */
int fy_cpus_count(const fy_cpus *s);

/* Adds the CPUs that a hexadecimal number has bits for: "f0" or "0xF0" is 4, 5, 6 and 7. */
int fy_cpus_add_mask(fy_cpus *s, const char *hex, fy_err *e);
/* Adds "LO-HI", both included; without LO from 0, without HI to the last one that can be named. */
int fy_cpus_add_range(fy_cpus *s, const char *range, fy_err *e);

/* Appends "0-3,6"; "none" for the empty set. */
void fy_cpus_text(const fy_cpus *s, fy_str *out);

/* The CPUs that the calling thread may use; empty if the system does not report them. */
fy_cpus fy_cpus_usable(void);

/* Pins the calling thread, and the threads it starts from now on, to those of the set that the
 * system allows. *got (may be NULL) is set to them. FY_EARG when there are none. */
int fy_cpus_pin(const fy_cpus *s, fy_cpus *got, fy_err *e);

/* The fast ones among these, by the kernel's data under `sysfs` ("/sys/devices/system/cpu"):
 * without the cores of a big.LITTLE processor whose capacity is below 44 % of the largest, or, if
 * the kernel knows no capacities, whose highest clock is below 80 % of the highest. All of them if
 * that is not known of each. */
fy_cpus fy_cpus_fast(const fy_cpus *among, const char *sysfs);

#endif
