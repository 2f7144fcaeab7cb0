/* What `ferry convert` prints: the plan as a table or as JSON on standard output, words about it
 * and about the end on standard error. */
#ifndef FY_CONVERT_CONVERT_REPORT_H
#define FY_CONVERT_CONVERT_REPORT_H

#include <stdbool.h>

#include "base/err.h"
#include "convert/write/convert_job.h"

/* The table of a dry run, with free space and time in words: every tensor of the output, and those
 * of the checkpoint that are left out. FY_ENOSPACE, behind it, when the output would not fit. */
int fy_convert_print_plan(fy_convert_job *j, fy_err *e);

/* The same as one JSON object. seconds: that the conversion took; below 0: it was a dry run. */
int fy_convert_print_json(fy_convert_job *j, double seconds, fy_err *e);

void fy_convert_say_plan(const fy_convert_job *j);
void fy_convert_say_end(fy_convert_job *j, double seconds);

#endif
