/* The second pass of a conversion: rows of a planned tensor, read through the map of the
 * checkpoint, permuted and encoded into the output. Memory: one piece of a row per thread; input
 * pages are given back as they are used. */
#ifndef FY_CONVERT_CONVERT_STREAM_H
#define FY_CONVERT_CONVERT_STREAM_H

#include <stdint.h>

#include "base/err.h"
#include "convert/write/convert_plan.h"

typedef struct fy_convert_stream fy_convert_stream;

/* For n_threads threads; the plan must outlive it. NULL on failure. */
fy_convert_stream *fy_convert_stream_new(const fy_convert_plan *plan, int n_threads, fy_err *e);
void fy_convert_stream_free(fy_convert_stream *s); /* NULL is fine */

/* From now on NaN, infinity and what overflows f16 or bf16 go through into f32, f16 and bf16 (as
 * they are, too large ones as infinity); blocks cannot hold them. */
void fy_convert_stream_allow_nonfinite(fy_convert_stream *s);
uint64_t fy_convert_stream_n_nonfinite(const fy_convert_stream *s); /* that went through */

/* From now on the scales of blocks are searched for (fy_encode_options). */
void fy_convert_stream_fit(fy_convert_stream *s);

/* A fy_gguf_fill: `stream` is the fy_convert_stream, i the index in the plan. A value that the type
 * cannot hold stops the conversion with tensor, row, element and value. */
int fy_convert_fill(void *stream, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                    fy_err *e);

#endif
