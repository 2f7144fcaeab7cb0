/* The list of kernels as a table, and which of them a CPU gets. */
#include "kernels/kernels.h"

#include <string.h>

#include "kernels/kernel_impl.h"

#define FY_KERNEL(op, isa, needs) \
    {#op, #isa, needs, offsetof(fy_kernels, op), (void (*)(void))fy_##op##__##isa},
const fy_kernel_row fy_kernel_rows[] = {
#include "kernels/kernel_list.h"
};
#undef FY_KERNEL
const int fy_n_kernel_rows = sizeof fy_kernel_rows / sizeof fy_kernel_rows[0];

void fy_kernel_install(fy_kernels *k, const fy_kernel_row *row)
{
    memcpy((char *)k + row->member, &row->function, sizeof row->function);
}

fy_kernels fy_kernels_for(uint32_t features)
{
    fy_kernels k = {.features = features};
    for (int i = 0; i < fy_n_kernel_rows; i++) {
        if ((features & fy_kernel_rows[i].needs) == fy_kernel_rows[i].needs)
            fy_kernel_install(&k, &fy_kernel_rows[i]);
    }
    return k;
}

/* X(type's id, its name in the members of fy_kernels): whose products want quantized activations.
 */
#define BLOCK_TYPES(X)                                                                    \
    X(FY_Q8_0, q8_0)                                                                      \
    X(FY_Q4_0, q4_0)                                                                      \
    X(FY_Q4_1, q4_1) X(FY_Q5_0, q5_0) X(FY_Q5_1, q5_1) X(FY_Q4_K, q4_k) X(FY_Q5_K, q5_k)  \
        X(FY_Q6_K, q6_k) X(FY_Q2_K, q2_k) X(FY_Q3_K, q3_k) X(FY_IQ4_NL, iq4_nl)           \
            X(FY_IQ4_XS, iq4_xs) X(FY_MXFP4, mxfp4) X(FY_NVFP4, nvfp4) X(FY_Q1_0, q1_0)   \
                X(FY_Q2_0, q2_0) X(FY_TQ1_0, tq1_0) X(FY_TQ2_0, tq2_0) X(FY_IQ1_S, iq1_s) \
                    X(FY_IQ1_M, iq1_m) X(FY_IQ2_XXS, iq2_xxs) X(FY_IQ2_XS, iq2_xs)        \
                        X(FY_IQ2_S, iq2_s) X(FY_IQ3_XXS, iq3_xxs) X(FY_IQ3_S, iq3_s)

fy_matmul_fn *fy_kernels_matmul(const fy_kernels *k, fy_type weights)
{
#define CASE(id, name) \
    case id:           \
        return k->matmul_##name;
    switch ((int)weights) {
        CASE(FY_F32, f32)
        CASE(FY_F16, f16)
        CASE(FY_BF16, bf16)
        BLOCK_TYPES(CASE)
    default:
        return NULL;
    }
#undef CASE
}

bool fy_kernels_wants_q8(fy_type weights)
{
#define CASE(id, name) case id:
    switch ((int)weights) {
        BLOCK_TYPES(CASE)
        return true;
    default:
        return false;
    }
#undef CASE
}

fy_dot_rows_fn *fy_kernels_dot_rows(const fy_kernels *k, fy_type weights)
{
    return weights == FY_Q4_0 ? k->dot_rows_q4_0 : weights == FY_Q8_0 ? k->dot_rows_q8_0 : NULL;
}

fy_add_rows_fn *fy_kernels_add_rows(const fy_kernels *k, fy_type weights)
{
    return weights == FY_Q4_0   ? k->add_rows_q4_0
           : weights == FY_Q8_0 ? k->add_rows_q8_0
           : weights == FY_F16  ? k->add_rows_f16
                                : NULL;
}

void fy_kernels_activate(const fy_kernels *k, fy_act_kind act, float threshold, float *x,
                         const float *up, int64_t n)
{
    switch (act) {
    case FY_ACT_SILU:
        k->silu_mul(x, up, n);
        break;
    case FY_ACT_GELU:
        k->gelu_mul(x, up, n);
        break;
    case FY_ACT_GELU_TANH:
        k->gelu_tanh_mul(x, up, n);
        break;
    case FY_ACT_RELU:
        k->relu_mul(x, up, n, 0.0f);
        break;
    case FY_ACT_FATRELU:
        k->relu_mul(x, up, n, threshold);
        break;
    case FY_ACT_DRELU:
        k->drelu_mul(x, up, n);
        break;
    case FY_ACT_SWIGLU_OAI:
        k->swiglu_oai_mul(x, up, n);
        break;
    case FY_ACT_RELU2:
        k->relu_mul(x, NULL, n, 0.0f);
        for (int64_t i = 0; i < n; i++)
            x[i] *= up != NULL ? x[i] * up[i] : x[i];
        break;
    case FY_ACT_COUNT:
        break;
    }
}
