/* Sums over a tile of rows (scalar/add_tile_lanes.h) in NEON. */
#include "kernels/arm/lanes_neon.h"

#define FY_TILE_ISA  neon
#define FY_TILE_SUMS 16
#include "kernels/scalar/add_tile_lanes.h"
