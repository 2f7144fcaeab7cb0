/* The path of the output file: what -o says, or the standard name. */
#ifndef FY_CONVERT_OUT_NAME_H
#define FY_CONVERT_OUT_NAME_H

#include "base/err.h"
#include "base/str.h"

/* `asked` NULL: `standard` in the current directory; a directory: `standard` in it; else the path,
 * in whose last part {ftype} and {outtype} become `type` in small letters, {FTYPE} and {OUTTYPE} in
 * capitals, {{ and }} a brace. */
int fy_out_name(const char *asked, const char *standard, const char *type, fy_str *out, fy_err *e);

#endif
