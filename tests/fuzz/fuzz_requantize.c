/* ferry quantize: whatever the bytes of the model, and of an importance matrix after it, are,
 * planning refuses them or every row of the plan is encoded or refused by its place.
 *
 * The first three bytes choose type, recipe and ways; then 4 bytes, little-endian: how many bytes
 * of what follows are the model; the rest is the importance matrix, if it is to be used. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/math.h"
#include "quantize/requantize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 7, MAX_BYTES = 1 << 20 };

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* Every row as fy_gguf_write asks for it, one and all that are left. */
static void fill(fy_requant *q)
{
    fy_requant_stats stats;
    stats = q->stats;
    if (stats.bytes_out > MAX_BYTES)
        return;
    for (size_t i = 0; i < stats.n_tensors; i++) {
        const fy_gguf_tensor *t = fy_gguf_writer_tensor(q->w, (int64_t)i);
        const uint64_t rows = t->ne[1] * t->ne[2] * t->ne[3],
                       row_bytes = fy_type_row_bytes(t->type, t->ne[0]);
        require(rows * row_bytes == t->bytes);
        uint8_t *out = aligned_alloc(64, (size_t)(t->bytes + 64) / 64 * 64);
        fy_err e = {0};
        require(out != NULL);
        int rc = fy_requant_fill(q, (int64_t)i, 0, 1, out, 0, &e);
        if (rc == 0 && rows > 1)
            rc = fy_requant_fill(q, (int64_t)i, 1, rows - 1, out + row_bytes, 0, &e);
        require((rc == 0) == (e.code == FY_OK));
        free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const fy_type types[] = {FY_F32,  FY_F16,  FY_BF16, FY_Q8_0,   FY_Q4_0,
                                    FY_Q4_1, FY_Q5_0, FY_Q5_1, FY_Q4_K,   FY_Q5_K,
                                    FY_Q6_K, FY_Q2_K, FY_Q3_K, FY_IQ4_NL, FY_MXFP4};
    static const char *const rules[] = {"blk=q4_1"};
    static const fy_type f16 = FY_F16;
    if (size < HEAD)
        return 0;
    const uint8_t ways = data[1], more = data[2];
    const uint64_t model = fy_le32(data + 3) % (size - HEAD + 1);
    const fy_requant_params p = {.file = {types[data[0] % (sizeof types / sizeof types[0])],
                                          (ways & 1) != 0 ? FY_RECIPE_LLAMA : FY_RECIPE_PURE},
                                 .allow_requantize = (ways & 2) != 0,
                                 .fit = (ways & 4) != 0,
                                 .output_type = (ways & 8) != 0 ? &f16 : NULL,
                                 .embedding_type = (ways & 16) != 0 ? &f16 : NULL,
                                 .tensor_types = rules,
                                 .n_tensor_types = (ways & 32) != 0,
                                 .imatrix = (ways & 64) != 0 ? "imatrix" : NULL,
                                 .split_bytes = more};
    fy_err e = {0};
    fy_imatrix *imatrix = NULL;
    if ((ways & 64) != 0) {
        imatrix = fy_imatrix_parse(data + HEAD + model, size - HEAD - model, "imatrix", &e);
        if (imatrix == NULL)
            return 0;
    }
    fy_gguf *g = fy_gguf_parse(data + HEAD, model, "model", false, &e);
    if (g == NULL) {
        fy_imatrix_close(imatrix);
        return 0;
    }
    fy_requant *q = fy_requant_of(g, imatrix, &p, &e);
    require((q == NULL) == (e.code != FY_OK));
    if (q != NULL)
        fill(q);
    fy_requant_close(q);
    return 0;
}
