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

fy_matmul_fn *fy_kernels_matmul(const fy_kernels *k, fy_type weights)
{
    fy_matmul_fn *const by_type[FY_TYPE_COUNT] = {
        [FY_F32] = k->matmul_f32,   [FY_F16] = k->matmul_f16,   [FY_BF16] = k->matmul_bf16,
        [FY_Q8_0] = k->matmul_q8_0, [FY_Q4_0] = k->matmul_q4_0, [FY_Q4_1] = k->matmul_q4_1,
        [FY_Q5_0] = k->matmul_q5_0, [FY_Q5_1] = k->matmul_q5_1, [FY_Q4_K] = k->matmul_q4_k,
        [FY_Q5_K] = k->matmul_q5_k, [FY_Q6_K] = k->matmul_q6_k,
    };
    return (uint32_t)weights < FY_TYPE_COUNT ? by_type[weights] : NULL;
}

bool fy_kernels_wants_q8(fy_type weights)
{
    static const bool wants[FY_TYPE_COUNT] = {
        [FY_Q8_0] = true, [FY_Q4_0] = true, [FY_Q4_1] = true, [FY_Q5_0] = true,
        [FY_Q5_1] = true, [FY_Q4_K] = true, [FY_Q5_K] = true, [FY_Q6_K] = true,
    };
    return (uint32_t)weights < FY_TYPE_COUNT && wants[weights];
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
    case FY_ACT_COUNT:
        break;
    }
}
