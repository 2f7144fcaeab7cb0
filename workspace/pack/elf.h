/* What an executable or a library was built for, from its ELF header, program headers and dynamic
 * section (System V ABI; ELF for the Arm 64-bit Architecture). */
#ifndef FY_WORKSPACE_ELF_H
#define FY_WORKSPACE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef enum {
    FY_ELF_NONE = 0, /* not an ELF file */
    FY_ELF_STATIC,   /* a program that needs nothing but the kernel */
    FY_ELF_ANDROID,  /* a program for Android's linker (/system/bin/linker64) */
    FY_ELF_GLIBC,    /* a program for glibc's (/lib/ld-linux-aarch64.so.1) */
    FY_ELF_LIBRARY,  /* a shared library */
    FY_ELF_DSP,      /* a library for the Hexagon DSP */
} fy_elf_kind;

typedef struct {
    fy_elf_kind kind;
    uint64_t page_bytes;   /* smallest alignment of its segments; 0: it has none */
    bool executable_stack; /* it asks for one */
} fy_elf_info;

/* FY_EVERIFY unless p[0..n) is the beginning of an ELF program for `target` ("aarch64-linux"). The
 * message tells what it is instead, without a file name: the caller prefixes it. An unknown target
 * is FY_EUNSUPPORTED. */
int fy_elf_check(const void *p, size_t n, const char *target, fy_err *e);
int fy_elf_check_file(const char *path, const char *target, fy_err *e);

/* All of a file: what it is. FY_EVERIFY, without a name, for an ELF file that is damaged, built for
 * another machine, for an interpreter that is neither of the two, or one for Android that its
 * linker would refuse: at a fixed address, with text relocations. A file that is not ELF is not an
 * error. */
int fy_elf_inspect(const void *p, size_t n, fy_elf_info *out, fy_err *e);

/* Appends "static program", "library for the Hexagon DSP", ... and what is odd about it. */
void fy_elf_text(const fy_elf_info *info, fy_str *out);

#endif
