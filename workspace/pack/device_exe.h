/* Where the device build of ferry is. */
#ifndef FY_WORKSPACE_DEVICE_EXE_H
#define FY_WORKSPACE_DEVICE_EXE_H

#include "base/err.h"

/* exe_path: the file, or a directory that holds `ferry`. NULL: looked for beside `self`, the
 * running program: its ../libexec/ferry/aarch64/ferry when installed, else
 * build/aarch64/release/ferry in a directory above it. Checked to be an aarch64 program; the real
 * path, for the caller to free. NULL with *e set. */
char *fy_device_exe(const char *exe_path, const char *self, fy_err *e);

#endif
