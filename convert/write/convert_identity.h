/* What the tensors of a conversion depend on besides its plan, for files that another process may
 * go on with (fy_gguf_write_resumed): the program and the files of the checkpoint. */
#ifndef FY_CONVERT_CONVERT_IDENTITY_H
#define FY_CONVERT_CONVERT_IDENTITY_H

#include "base/err.h"
#include "base/str.h"

/* A line for the program and each file of the checkpoint, a directory or one file: it is told from
 * another by place, size, time of change and inode. */
int fy_convert_identity(const char *checkpoint, fy_str *out, fy_err *e);

#endif
