/* CPU features of this machine, found once at run time. FY_CPU_MASK (a number, default all ones) is
 * and-ed in: FY_CPU_MASK=0 forces the scalar kernels, the first step of every bug report. */
#ifndef FY_BASE_CPU_H
#define FY_BASE_CPU_H

#include <stdint.h>

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

#endif
