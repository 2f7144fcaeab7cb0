/* Inside requantize.h: requantize.c plans the output, requantize_imatrix.c finds each matrix its
 * importance, requantize_rows.c fills rows. */
#ifndef FY_QUANTIZE_REQUANTIZE_IMPL_H
#define FY_QUANTIZE_REQUANTIZE_IMPL_H

#include <stdatomic.h>

#include "format/gguf.h"
#include "kernels/row.h"
#include "quantize/requantize.h"

struct fy_requant {
    fy_requant_params p;
    fy_gguf *in;                /* owned */
    fy_imatrix *imatrix;        /* owned; NULL: none */
    fy_requant_tensor *tensors; /* owned; one for each of the input */
    fy_gguf_writer *w;          /* owned; tensor i of the output is tensor i of the input */
    fy_kernels kernels;
    fy_requant_stats stats;
    _Atomic uint64_t peak_anon;
    fy_quant_report *report; /* owned; NULL: nothing is measured */
};

/* fy_requant_open of opened files, which are the plan's from now on, after a failure, too. imatrix
 * may be NULL; p->imatrix names it. */
fy_requant *fy_requant_of(fy_gguf *in, fy_imatrix *imatrix, const fy_requant_params *p, fy_err *e);

bool fy_requant_is_quantized(fy_type t);

/* Gives the tensors of the plan that ask for it their importance. */
int fy_requant_find_importance(fy_requant *q, fy_err *e);

/* A fy_gguf_fill; user is the fy_requant. */
int fy_requant_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                    fy_err *e);

#endif
