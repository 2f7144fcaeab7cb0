/* Fitted blocks (scalar/fit_lanes.h), four side by side. */
#include "kernels/kernel_impl.h"
#include "kernels/arm/lanes_neon.h"
#include "kernels/scalar/fit_lanes.h"

DEFINE_FITS(neon)
