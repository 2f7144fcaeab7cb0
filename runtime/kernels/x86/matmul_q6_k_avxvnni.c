/* q6_K weights times quantized activations. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vnni_avxvnni.h"
#include "kernels/x86/vnni_q6_k.h"
