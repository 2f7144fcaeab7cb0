/* What an executable was built for, from the first bytes of its ELF header (System V ABI, "ELF
 * Header"). */
#ifndef FY_WORKSPACE_ELF_H
#define FY_WORKSPACE_ELF_H

#include <stddef.h>

#include "base/err.h"

/* FY_EVERIFY unless p[0..n) begins an ELF program for `target` ("aarch64-linux"); says what it is
 * instead, without a name: the caller prefixes it. A target that this ferry does not know is
 * FY_EUNSUPPORTED. */
int fy_elf_check(const void *p, size_t n, const char *target, fy_err *e);
int fy_elf_check_file(const char *path, const char *target, fy_err *e);

#endif
