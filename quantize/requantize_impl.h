/* Inside requantize.h: requantize.c plans the output, requantize_rows.c fills its rows. */
#ifndef FY_QUANTIZE_REQUANTIZE_IMPL_H
#define FY_QUANTIZE_REQUANTIZE_IMPL_H

#include "format/gguf.h"
#include "kernels/row.h"
#include "quantize/recipe.h"
#include "quantize/requantize.h"

struct fy_requant {
    fy_gguf *in;       /* owned */
    fy_gguf_writer *w; /* owned; tensor i of the output is tensor i of the input */
    fy_recipe recipe;
    fy_kernels kernels;
    fy_requant_stats stats;
    fy_quant_report *report; /* owned; NULL: nothing is measured */
};

bool fy_requant_is_quantized(fy_type t);

/* A fy_gguf_fill; user is the fy_requant. */
int fy_requant_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                    fy_err *e);

#endif
