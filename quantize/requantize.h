/* A GGUF file into another one whose matrices have another type. One streaming pass: the input is
 * mapped and let go of as it is used, the output is written piece by piece, so memory does not grow
 * with the model. */
#ifndef FY_QUANTIZE_REQUANTIZE_H
#define FY_QUANTIZE_REQUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/thread.h"
#include "base/types.h"
#include "format/gguf_write.h"
#include "quantize/quant_report.h"

typedef struct fy_requant fy_requant;

typedef struct {
    uint64_t bytes_in, bytes_out; /* of the files */
    uint64_t n_tensors;
    uint64_t n_matrices;    /* that have the target type now */
    uint64_t n_fallbacks;   /* matrices that got another type: their rows are no whole blocks */
    fy_span first_fallback; /* name of the first of them; view, dies with the fy_requant */
    uint64_t first_fallback_row;
    fy_type first_fallback_type;
} fy_requant_stats;

/* Opens `in` (of a split model, the first file) and plans the output, one file: metadata, types,
 * shapes. llama: with llama-quantize's choice of types (recipe.h). Fails before anything is written
 * when a tensor cannot be converted. NULL on failure. */
fy_requant *fy_requant_open(const char *in, fy_type target, bool llama, fy_err *e);
void fy_requant_stats_of(const fy_requant *q, fy_requant_stats *out);

/* Before fy_requant_write: it is to measure what the tensors lose, each that changes to a type in
 * which it may. The report dies with the fy_requant; NULL on failure. */
fy_quant_report *fy_requant_measure(fy_requant *q, fy_err *e);

/* Writes the planned file, once. `out` must not be the input. The bytes do not depend on the pool.
 * A value that is not finite, or not finite in the new type, is FY_EFORMAT and names tensor, row
 * and element. */
int fy_requant_write(fy_requant *q, const char *out, fy_pool *pool, fy_progress *progress,
                     fy_err *e);
void fy_requant_close(fy_requant *q); /* NULL is fine */

#endif
