/* Sums over a tile of rows (scalar/add_tile_lanes.h) in AVX-512. */
#include "kernels/x86/lanes_avx512.h"

#define FY_TILE_ISA  avx512
#define FY_TILE_SUMS 16
#include "kernels/scalar/add_tile_lanes.h"
