/* Types of weights on HTP. Names: ExecuTorch's; tiles and encodings: QNN's "packing of weights". */
#include "base/math.h"
#include "workspace/npu/npu_recipe.h"

#define TILE 32 /* HTP computes in tiles of 32 channels and 32 inputs */

static const struct {
    const char *name;
    unsigned bits;
    unsigned block;       /* of inputs with a scale of 1 byte; 0: none */
    unsigned scale_bytes; /* of each channel */
} types[FY_NPU_TYPE_COUNT] = {
    [FY_NPU_16A4W] = {"16a4w", 4, 0, 4},
    [FY_NPU_LPBQ_16] = {"16a4w-lpbq16", 4, 16, 4},
    [FY_NPU_LPBQ_32] = {"16a4w-lpbq32", 4, 32, 4},
    [FY_NPU_LPBQ_64] = {"16a4w-lpbq64", 4, 64, 4},
    [FY_NPU_16A8W] = {"16a8w", 8, 0, 4},
    [FY_NPU_8A4W] = {"8a4w", 4, 0, 4},
    [FY_NPU_FP16] = {"fp16", 16, 0, 0},
};

const char *fy_npu_type_name(fy_npu_type t)
{
    return types[t].name;
}

fy_npu_type fy_npu_type_of(fy_span name)
{
    fy_npu_type t = FY_NPU_16A4W;
    while (t < FY_NPU_TYPE_COUNT && !fy_span_is(name, types[t].name))
        t++;
    return t;
}

bool fy_npu_matrix_bytes(fy_npu_type t, uint64_t n_out, uint64_t n_in, uint64_t *bytes)
{
    uint64_t rows, row_elems, row, blocks, all;
    if (!fy_align_u64(n_out, TILE, &rows) || !fy_align_u64(n_in, TILE, &row_elems) ||
        !fy_mul_u64(row_elems / 8, types[t].bits, &row)) /* a tile's row is whole bytes */
        return false;
    blocks =
        types[t].block > 0 ? row_elems / types[t].block + (row_elems % types[t].block != 0) : 0;
    if (!fy_add_u64(row, blocks, &row) || !fy_add_u64(row, types[t].scale_bytes, &row) ||
        !fy_mul_u64(rows, row, &all))
        return false;
    *bytes = all;
    return true;
}

const char *fy_npu_type_refuses(fy_npu_type t, uint64_t n_in)
{
    if (types[t].block == 0 || n_in % types[t].block == 0)
        return NULL;
    return types[t].block == 16   ? "LPBQ 16 wants rows of whole blocks of 16"
           : types[t].block == 32 ? "LPBQ 32 wants rows of whole blocks of 32"
                                  : "LPBQ 64 wants rows of whole blocks of 64";
}
