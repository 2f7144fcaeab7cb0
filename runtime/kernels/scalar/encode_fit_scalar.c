/* Fitted blocks (fit_lanes.h), one after the other. */
#include "kernels/kernel_impl.h"
#include "kernels/scalar/lanes_scalar.h"
#include "kernels/scalar/fit_lanes.h"

DEFINE_FITS(scalar)
