/* Describes a model: one sentence per trait that changes the arithmetic. */
#ifndef FY_CONVERT_TRAITS_H
#define FY_CONVERT_TRAITS_H

#include "base/err.h"
#include "base/str.h"
#include "format/gguf.h"

/* Called once per sentence, in reading order. */
typedef void fy_trait_sink(void *user, const char *sentence);

/* 0; 1 when the file is of no family that ferry computes (the sink is not called); -1 when its keys
 * do not make a model. */
int fy_traits(const fy_gguf *g, fy_trait_sink *sink, void *user, fy_err *e);

#endif
