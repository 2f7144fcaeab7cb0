/* Describes a model: one sentence per trait that changes the arithmetic. */
#ifndef FY_CONVERT_TRAITS_H
#define FY_CONVERT_TRAITS_H

#include "base/err.h"
#include "base/str.h"
#include "format/gguf.h"

/* Appends them in reading order, each on a line. 0; 1 when the file is of no family that ferry
 * computes; -1 when its keys do not make a model. */
int fy_traits(const fy_gguf *g, fy_str *out, fy_err *e);

#endif
