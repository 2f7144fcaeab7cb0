/* Sums over a tile of rows (scalar/add_tile_lanes.h) in AVX2. */
#include "kernels/x86/lanes_avx2.h"

#define FY_TILE_ISA  avx2
#define FY_TILE_SUMS 8
#include "kernels/scalar/add_tile_lanes.h"
