/* q8_0, q4_0, q4_1, q5_0, q5_1, q4_K, q5_K and q6_K weights times quantized activations. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vnni_avxvnni.h"
#include "kernels/x86/vnni_blocks.h"
