/* Lines of the identity that fy_gguf_write_resumed asks for: what an unfinished output depends on,
 * so that another process may go on with it. */
#ifndef FY_FORMAT_WRITE_IDENTITY_H
#define FY_FORMAT_WRITE_IDENTITY_H

#include "base/err.h"
#include "base/str.h"

/* This program and its version. */
int fy_identity_program(fy_str *out, fy_err *e);

/* "WHAT PATH: ...": a file is told from another by place, size, time of change and inode. */
int fy_identity_file(fy_str *out, const char *what, const char *path, fy_err *e);

#endif
