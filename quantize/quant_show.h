/* Where the report of a quantization goes: a table on a terminal, a line of words elsewhere, a
 * file.
 *
 * fy_quant_show_begin before the model is written, fy_quant_show_end behind it, whatever became of
 * it. Measuring costs time, so that it is done only where somebody wants to see it. */
#ifndef FY_QUANTIZE_QUANT_SHOW_H
#define FY_QUANTIZE_QUANT_SHOW_H

#include <stdbool.h>

#include "base/file.h"
#include "quantize/requantize.h"

/* All views. */
typedef struct {
    const char *in, *out; /* the models */
    fy_type type;
    const char *file; /* for JSON; "-": standard output; NULL: none */
    bool quiet, verbose;
} fy_quant_wish;

typedef struct {
    fy_quant_wish wish;
    fy_quant_report *report; /* view of the fy_requant; NULL: nothing is measured */
    fy_out *json;            /* owned; opened at once, so that a bad name costs nothing */
    bool table, summary;
} fy_quant_show;

int fy_quant_show_begin(fy_quant_show *s, fy_requant *q, const fy_quant_wish *wish, fy_err *e);

/* rc: what fy_requant_write returned; shows nothing when it failed. Returns rc, or -1. */
int fy_quant_show_end(fy_quant_show *s, int rc, fy_err *e);

#endif
