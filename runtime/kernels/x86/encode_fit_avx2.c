/* Fitted blocks (scalar/fit_lanes.h), eight side by side. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/lanes_avx2.h"
#include "kernels/scalar/fit_lanes.h"

DEFINE_FITS(avx2)
