/* The file encoders of the K types. */
#include "kernels/x86/lanes_avx2.h"
#include "kernels/x86/encode_k_lanes.h"
