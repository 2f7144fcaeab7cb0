#include "kernels/kernels.h"

#include "kernels/kernel_impl.h"

fy_kernels fy_kernels_for(uint32_t features)
{
    fy_kernels k = {.features = features};
#define FY_KERNEL(op, isa, needs)                                                                  \
    if ((features & (uint32_t)(needs)) == (uint32_t)(needs))                                       \
        k.op = fy_##op##__##isa;
#include "kernels/kernel_list.h"
#undef FY_KERNEL
    return k;
}

fy_matmul_fn *fy_kernels_matmul(const fy_kernels *k, fy_type weights)
{
    fy_matmul_fn *const by_type[FY_TYPE_COUNT] = {
        [FY_F32] = k->matmul_f32,   [FY_F16] = k->matmul_f16,   [FY_BF16] = k->matmul_bf16,
        [FY_Q8_0] = k->matmul_q8_0, [FY_Q4_0] = k->matmul_q4_0,
    };
    return (uint32_t)weights < FY_TYPE_COUNT ? by_type[weights] : NULL;
}

bool fy_kernels_wants_q8(fy_type weights)
{
    return weights == FY_Q8_0 || weights == FY_Q4_0;
}
