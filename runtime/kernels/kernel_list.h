/* The list of kernels: FY_KERNEL(op, isa, features it needs), worst first. `op` is a member of
 * fy_kernels and fy_<op>__<isa> the function, in kernels/<dir>/..._<isa>.c; the file's suffix picks
 * its compiler flags. Dispatch, selftest, kcheck and its bench expand this file: a new kernel is a
 * function and a line here (and, for a new operation, vectors in kernel_vectors.c). Operations that
 * an instruction set has all of are groups. It is meant to be included many times. The architecture
 * tests below are the only ones. */
#ifndef FY_LIST_FLOAT_PRODUCTS

#define FY_LIST_FLOAT_PRODUCTS(isa, needs) \
    FY_KERNEL(matmul_f32, isa, needs)      \
    FY_KERNEL(matmul_f16, isa, needs)      \
    FY_KERNEL(matmul_bf16, isa, needs)

#define FY_LIST_BLOCK_PRODUCTS(isa, needs) \
    FY_KERNEL(matmul_q8_0, isa, needs)     \
    FY_KERNEL(matmul_q4_0, isa, needs)     \
    FY_KERNEL(matmul_q4_1, isa, needs)     \
    FY_KERNEL(matmul_q5_0, isa, needs)     \
    FY_KERNEL(matmul_q5_1, isa, needs)     \
    FY_KERNEL(matmul_q4_k, isa, needs)     \
    FY_KERNEL(matmul_q5_k, isa, needs)     \
    FY_KERNEL(matmul_q6_k, isa, needs)

/* The types that only the files of others have. */
#define FY_LIST_MORE_PRODUCTS(isa, needs) \
    FY_KERNEL(matmul_q2_k, isa, needs)    \
    FY_KERNEL(matmul_q3_k, isa, needs)    \
    FY_KERNEL(matmul_iq4_nl, isa, needs)  \
    FY_KERNEL(matmul_iq4_xs, isa, needs)  \
    FY_KERNEL(matmul_mxfp4, isa, needs)

#define FY_LIST_RARE_PRODUCTS(isa, needs) \
    FY_KERNEL(matmul_q1_0, isa, needs)    \
    FY_KERNEL(matmul_q2_0, isa, needs)    \
    FY_KERNEL(matmul_tq1_0, isa, needs)   \
    FY_KERNEL(matmul_tq2_0, isa, needs)   \
    FY_KERNEL(matmul_iq1_s, isa, needs)   \
    FY_KERNEL(matmul_iq1_m, isa, needs)   \
    FY_KERNEL(matmul_iq2_xxs, isa, needs) \
    FY_KERNEL(matmul_iq2_xs, isa, needs)  \
    FY_KERNEL(matmul_iq2_s, isa, needs)   \
    FY_KERNEL(matmul_iq3_xxs, isa, needs) \
    FY_KERNEL(matmul_iq3_s, isa, needs)

/* Of rows that are listed. */
#define FY_LIST_DOT_ROWS(isa, needs)     \
    FY_KERNEL(dot_rows_q8_0, isa, needs) \
    FY_KERNEL(dot_rows_q4_0, isa, needs)

#define FY_LIST_ADD_ROWS(isa, needs)     \
    FY_KERNEL(add_rows_f16, isa, needs)  \
    FY_KERNEL(add_rows_q8_0, isa, needs) \
    FY_KERNEL(add_rows_q4_0, isa, needs) \
    FY_KERNEL(add_tile, isa, needs)

#define FY_LIST_ATTENTION(isa, needs)      \
    FY_KERNEL(attend_dots_f32, isa, needs) \
    FY_KERNEL(attend_dots_f16, isa, needs) \
    FY_KERNEL(attend_softmax, isa, needs)  \
    FY_KERNEL(attend_add_f32, isa, needs)  \
    FY_KERNEL(attend_add_f16, isa, needs)  \
    FY_KERNEL(attend_add_q8_0, isa, needs)

#define FY_LIST_NORMS_AND_GATES(isa, needs) \
    FY_KERNEL(rms_norm, isa, needs)         \
    FY_KERNEL(layer_norm, isa, needs)       \
    FY_KERNEL(silu_mul, isa, needs)         \
    FY_KERNEL(gelu_mul, isa, needs)         \
    FY_KERNEL(gelu_tanh_mul, isa, needs)    \
    FY_KERNEL(swiglu_oai_mul, isa, needs)

#define FY_LIST_RELUS(isa, needs)   \
    FY_KERNEL(relu_mul, isa, needs) \
    FY_KERNEL(drelu_mul, isa, needs)

#define FY_LIST_ROWS(isa, needs)       \
    FY_KERNEL(softcap, isa, needs)     \
    FY_KERNEL(error_sums, isa, needs)  \
    FY_KERNEL(f16_to_f32, isa, needs)  \
    FY_KERNEL(f32_to_f16, isa, needs)  \
    FY_KERNEL(bf16_to_f32, isa, needs) \
    FY_KERNEL(f32_to_bf16, isa, needs)

#define FY_LIST_ENCODERS(isa, needs)   \
    FY_KERNEL(encode_q8_0, isa, needs) \
    FY_KERNEL(encode_q4_0, isa, needs) \
    FY_KERNEL(encode_q4_1, isa, needs) \
    FY_KERNEL(encode_q5_0, isa, needs) \
    FY_KERNEL(encode_q5_1, isa, needs)

#define FY_LIST_K_ENCODERS(isa, needs) \
    FY_KERNEL(encode_q4_k, isa, needs) \
    FY_KERNEL(encode_q5_k, isa, needs) \
    FY_KERNEL(encode_q6_k, isa, needs)

#define FY_LIST_WEIGHTED(isa, needs)            \
    FY_KERNEL(encode_weighted_q4_0, isa, needs) \
    FY_KERNEL(encode_weighted_q4_1, isa, needs) \
    FY_KERNEL(encode_weighted_q5_0, isa, needs) \
    FY_KERNEL(encode_weighted_q5_1, isa, needs) \
    FY_KERNEL(encode_weighted_q4_k, isa, needs) \
    FY_KERNEL(encode_weighted_q5_k, isa, needs) \
    FY_KERNEL(encode_weighted_q6_k, isa, needs)

#define FY_LIST_FITS(isa, needs)    \
    FY_KERNEL(fit_q8_0, isa, needs) \
    FY_KERNEL(fit_q4_0, isa, needs) \
    FY_KERNEL(fit_q4_1, isa, needs) \
    FY_KERNEL(fit_q5_0, isa, needs) \
    FY_KERNEL(fit_q5_1, isa, needs)

#define FY_LIST_DECODERS(isa, needs)   \
    FY_KERNEL(decode_q8_0, isa, needs) \
    FY_KERNEL(decode_q4_0, isa, needs) \
    FY_KERNEL(decode_q4_1, isa, needs) \
    FY_KERNEL(decode_q5_0, isa, needs) \
    FY_KERNEL(decode_q5_1, isa, needs) \
    FY_KERNEL(decode_q4_k, isa, needs) \
    FY_KERNEL(decode_q5_k, isa, needs) \
    FY_KERNEL(decode_q6_k, isa, needs)

#define FY_LIST_MORE_DECODERS(isa, needs) \
    FY_KERNEL(decode_q2_k, isa, needs)    \
    FY_KERNEL(decode_q3_k, isa, needs)    \
    FY_KERNEL(decode_iq4_nl, isa, needs)  \
    FY_KERNEL(decode_iq4_xs, isa, needs)  \
    FY_KERNEL(decode_mxfp4, isa, needs)   \
    FY_KERNEL(decode_nvfp4, isa, needs)   \
    FY_KERNEL(decode_q1_0, isa, needs)    \
    FY_KERNEL(decode_q2_0, isa, needs)    \
    FY_KERNEL(decode_tq1_0, isa, needs)   \
    FY_KERNEL(decode_tq2_0, isa, needs)   \
    FY_KERNEL(decode_iq1_s, isa, needs)   \
    FY_KERNEL(decode_iq1_m, isa, needs)   \
    FY_KERNEL(decode_iq2_xxs, isa, needs) \
    FY_KERNEL(decode_iq2_xs, isa, needs)  \
    FY_KERNEL(decode_iq2_s, isa, needs)   \
    FY_KERNEL(decode_iq3_xxs, isa, needs) \
    FY_KERNEL(decode_iq3_s, isa, needs)

#endif

FY_KERNEL(act_quantize, scalar, 0)
FY_LIST_FLOAT_PRODUCTS(scalar, 0)
FY_LIST_BLOCK_PRODUCTS(scalar, 0)
FY_LIST_MORE_PRODUCTS(scalar, 0)
FY_LIST_RARE_PRODUCTS(scalar, 0)
FY_KERNEL(matmul_nvfp4, scalar, 0)
FY_LIST_DOT_ROWS(scalar, 0)
FY_LIST_ADD_ROWS(scalar, 0)
FY_LIST_ATTENTION(scalar, 0)
FY_LIST_NORMS_AND_GATES(scalar, 0)
FY_LIST_RELUS(scalar, 0)
FY_LIST_ROWS(scalar, 0)
FY_LIST_ENCODERS(scalar, 0)
FY_LIST_K_ENCODERS(scalar, 0)
FY_LIST_WEIGHTED(scalar, 0)
FY_LIST_FITS(scalar, 0)
FY_LIST_DECODERS(scalar, 0)
FY_LIST_MORE_DECODERS(scalar, 0)

#if defined(__x86_64__)
FY_KERNEL(act_quantize, avx2, FY_CPU_AVX2)
FY_LIST_FLOAT_PRODUCTS(avx2, FY_CPU_AVX2)
FY_LIST_BLOCK_PRODUCTS(avx2, FY_CPU_AVX2)
FY_LIST_MORE_PRODUCTS(avx2, FY_CPU_AVX2)
FY_LIST_RARE_PRODUCTS(avx2, FY_CPU_AVX2)
FY_LIST_DOT_ROWS(avx2, FY_CPU_AVX2)
FY_LIST_ADD_ROWS(avx2, FY_CPU_AVX2)
FY_LIST_ATTENTION(avx2, FY_CPU_AVX2)
FY_LIST_NORMS_AND_GATES(avx2, FY_CPU_AVX2)
FY_LIST_ROWS(avx2, FY_CPU_AVX2)
FY_LIST_ENCODERS(avx2, FY_CPU_AVX2)
FY_LIST_K_ENCODERS(avx2, FY_CPU_AVX2)
FY_LIST_WEIGHTED(avx2, FY_CPU_AVX2)
FY_LIST_FITS(avx2, FY_CPU_AVX2)
FY_LIST_DECODERS(avx2, FY_CPU_AVX2)
FY_LIST_BLOCK_PRODUCTS(avxvnni, FY_CPU_AVX2 | FY_CPU_AVXVNNI)
FY_KERNEL(act_quantize, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_LIST_FLOAT_PRODUCTS(avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_LIST_BLOCK_PRODUCTS(avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_LIST_BLOCK_PRODUCTS(avx512_vnni, FY_CPU_AVX2 | FY_CPU_AVX512 | FY_CPU_AVXVNNI)
FY_LIST_K_ENCODERS(avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(add_rows_q8_0, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(add_rows_q4_0, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(add_tile, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(decode_q4_0, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(silu_mul, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(gelu_mul, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(gelu_tanh_mul, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(swiglu_oai_mul, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(softcap, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_LIST_WEIGHTED(avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(attend_dots_f32, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(attend_dots_f16, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(attend_add_f32, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(attend_add_f16, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(attend_add_q8_0, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
FY_KERNEL(attend_softmax, avx512, FY_CPU_AVX2 | FY_CPU_AVX512)
#endif

#if defined(__aarch64__)
FY_KERNEL(act_quantize, neon, FY_CPU_NEON)
FY_LIST_FLOAT_PRODUCTS(neon, FY_CPU_NEON)
FY_LIST_BLOCK_PRODUCTS(neon, FY_CPU_NEON)
FY_LIST_BLOCK_PRODUCTS(dotprod, FY_CPU_NEON | FY_CPU_DOTPROD)
FY_LIST_MORE_PRODUCTS(neon, FY_CPU_NEON)
FY_LIST_RARE_PRODUCTS(neon, FY_CPU_NEON)
FY_LIST_MORE_PRODUCTS(dotprod, FY_CPU_NEON | FY_CPU_DOTPROD)
FY_LIST_RARE_PRODUCTS(dotprod, FY_CPU_NEON | FY_CPU_DOTPROD)
FY_LIST_BLOCK_PRODUCTS(i8mm, FY_CPU_NEON | FY_CPU_DOTPROD | FY_CPU_I8MM)
FY_LIST_DOT_ROWS(neon, FY_CPU_NEON)
FY_LIST_DOT_ROWS(dotprod, FY_CPU_NEON | FY_CPU_DOTPROD)
FY_LIST_ADD_ROWS(neon, FY_CPU_NEON)
FY_LIST_ATTENTION(neon, FY_CPU_NEON)
FY_LIST_NORMS_AND_GATES(neon, FY_CPU_NEON)
FY_LIST_RELUS(neon, FY_CPU_NEON)
FY_LIST_ROWS(neon, FY_CPU_NEON)
FY_LIST_ENCODERS(neon, FY_CPU_NEON)
FY_LIST_K_ENCODERS(neon, FY_CPU_NEON)
FY_LIST_WEIGHTED(neon, FY_CPU_NEON)
FY_LIST_FITS(neon, FY_CPU_NEON)
FY_LIST_DECODERS(neon, FY_CPU_NEON)
#endif
