/* The second pass of a conversion: rows of a planned tensor, read through the map of the
 * checkpoint, permuted and encoded into the output. Memory: one piece of a row per thread; input
 * pages are given back as they are used. */
#ifndef FY_CONVERT_CONVERT_STREAM_H
#define FY_CONVERT_CONVERT_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "convert/write/convert_plan.h"
#include "kernels/row.h"

struct fy_convert_scratch;

typedef struct {
    const fy_convert_plan *plan; /* view */
    fy_kernels kernels;
    struct fy_convert_scratch *scratch; /* owned; one per thread */
    _Atomic uint64_t *done;             /* owned; rows of each tensor that were filled */
    fy_encode_options how;              /* the caller may set `fit` */
    bool allow_nonfinite; /* the caller may set it: NaN, infinity and what overflows f16 or bf16 go
                             through into f32, f16 and bf16 (as they are, too large ones as
                             infinity); blocks cannot hold them */
    _Atomic uint64_t n_nonfinite; /* that went through */
} fy_convert_stream;

/* For n_threads threads; the plan must outlive it. NULL on failure. */
fy_convert_stream *fy_convert_stream_new(const fy_convert_plan *plan, int n_threads, fy_err *e);
void fy_convert_stream_free(fy_convert_stream *s); /* NULL is fine */

/* A fy_gguf_fill: `stream` is the fy_convert_stream, i the index in the plan. A value that the type
 * cannot hold stops the conversion with tensor, row, element and value. */
int fy_convert_fill(void *stream, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                    fy_err *e);

#endif
