/* Which type each matrix of the output gets (policy/matrix_types.h). What is no matrix is f32. */
#ifndef FY_CONVERT_TYPE_CHOICE_H
#define FY_CONVERT_TYPE_CHOICE_H

#include "base/err.h"
#include "convert/write/convert_plan.h"

/* Gives every tensor of the plan its type. Fails when an option or rule finds no matrix. */
int fy_choose_types(fy_convert_plan *p, const fy_plan_options *o, fy_err *e);

#endif
