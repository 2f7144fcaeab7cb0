/* Between the files of compare. */
#ifndef FY_CONVERT_COMPARE_IMPL_H
#define FY_CONVERT_COMPARE_IMPL_H

#include "convert/look/compare.h"

/* compare_values.c: fills in state, diff and why of a pair that both models have in one shape. */
int fy_compare_values(fy_source *a, fy_source *b, fy_tensor_pair *pair, const fy_compare_params *p,
                      fy_err *e);

/* compare_keys.c: keys and vocabularies, of models that have some. */
int fy_compare_keys(fy_comparison *c, fy_err *e);

#endif
