/* Text that a verb reads whole: a file, a pipe, standard input. */
#ifndef FY_CLI_TEXT_IO_H
#define FY_CLI_TEXT_IO_H

#include "base/err.h"
#include "base/str.h"

/* Appends all of `path` to *out, any bytes; "-" is standard input. FY_EFIT beyond
 * FY_TEXT_IN_MAX_BYTES, FY_EINTR. */
#define FY_TEXT_IN_MAX_BYTES (1u << 30)
int fy_text_in_read(const char *path, fy_str *out, fy_err *e);

#endif
