/* What keeps the compiler from putting the vectors of an arm64 kernel into memory. */
#ifndef FY_KERNELS_ARM_UNROLL_H
#define FY_KERNELS_ARM_UNROLL_H

#define FY_INLINE static inline __attribute__((always_inline))

/* Loops over register arrays must be unrolled whole or the arrays go to memory. */
#ifdef __clang__
#define FY_UNROLL _Pragma("unroll")
#else
#define FY_UNROLL _Pragma("GCC unroll 16")
#endif

/* Hides where a value comes from: it is not computed or loaded again in pieces. */
#define FY_KEEP_IN_REGISTER(v) __asm__("" : "+w"(v))

#endif
