/* What an unknown pre_tokenizer does to a text that has a bit of everything, beside the known type
 * that cuts it most alike. Its expressions come from a file: they run with bounds on their size and
 * their work (fy_pretok_of_file). */
#ifndef FY_CONVERT_PRETOK_PROBE_H
#define FY_CONVERT_PRETOK_PROBE_H

#include "base/str.h"
#include "convert/tokenizer/pretok_steps.h"

/* Appends one sentence: the nearest type and the first difference, or why the steps cannot be
 * tried. */
void fy_pretok_probe(const fy_steps *pre, fy_str *out);

#endif
