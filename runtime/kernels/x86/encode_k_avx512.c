/* The file encoders of the K types (scalar/encode_k_lanes.h) in the lanes of AVX-512. */
#include "kernels/x86/lanes_avx512.h"

#define FY_L_ISA avx512

#include "kernels/x86/encode_k_x86_lanes.h"
