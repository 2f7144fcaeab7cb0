/* The plan of a quantization for people and as JSON. */
#ifndef FY_QUANTIZE_REQUANTIZE_SHOW_H
#define FY_QUANTIZE_REQUANTIZE_SHOW_H

#include "base/err.h"
#include "quantize/requantize.h"

/* On stdout, tensor by tensor. FY_ENOSPACE behind it when there is too little space for `out`. */
int fy_requant_print_plan(const fy_requant *q, const char *out, fy_err *e);

/* The same as JSON; seconds >= 0: what was written and in which time, with peak bytes of RssAnon.
 */
int fy_requant_print_json(const fy_requant *q, const char *out, double seconds, uint64_t peak,
                          fy_err *e);

/* What deserves a word before the work: other types because of rows, types that were quantized
 * already. */
void fy_requant_warn(const fy_requant *q);

#endif
