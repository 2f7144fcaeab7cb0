/* Text that a verb reads whole: a file, a pipe, standard input. */
#ifndef FY_CLI_TEXT_IN_H
#define FY_CLI_TEXT_IN_H

#include "base/err.h"
#include "base/str.h"

#define FY_TEXT_IN_MAX_BYTES (1u << 30)

/* Appends all of `path` to *out, any bytes; "-" is standard input. FY_EFIT beyond
 * FY_TEXT_IN_MAX_BYTES, FY_EINTR. */
int fy_text_in_read(const char *path, fy_str *out, fy_err *e);

#endif
