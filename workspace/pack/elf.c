/* Looking at ELF files: the header alone for a program of ours, the whole file for those of others.
 */
#include "workspace/pack/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/math.h"
#include "base/str.h"
#include "workspace/pack/workspace.h"

enum { HEADER_BYTES = sizeof(Elf64_Ehdr), SEGMENT_BYTES = sizeof(Elf64_Phdr) };

static const struct {
    uint16_t id;
    const char *name;
} machines[] = {
    {EM_386, "x86 (32 bit)"},    {EM_ARM, "arm (32 bit)"}, {EM_X86_64, "x86-64"},
    {EM_AARCH64, "aarch64"},     {EM_QDSP6, "Hexagon"},    {EM_RISCV, "RISC-V"},
    {EM_LOONGARCH, "LoongArch"},
};

static const char *machine_name(uint16_t id)
{
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        if (machines[i].id == id)
            return machines[i].name;
    }
    return "another machine";
}

static const char *not_elf(const uint8_t *b, size_t n)
{
    if (n == 0)
        return "an empty file";
    if (n >= 2 && memcmp(b, "#!", 2) == 0)
        return "a script";
    if (n >= 2 && memcmp(b, "MZ", 2) == 0)
        return "a Windows program";
    if (n >= 4 && (fy_le32(b) == 0xFEEDFACFu || fy_le32(b) == 0xBEBAFECAu))
        return "a macOS program";
    return "not a program (no ELF header)";
}

int fy_elf_check(const void *p, size_t n, const char *target, fy_err *e)
{
    const uint8_t *b = p;
    if (strcmp(target, FY_TARGET_ARM64) != 0)
        return fy_fail(e, FY_EUNSUPPORTED, "target '%.64s' is unknown, expected " FY_TARGET_ARM64,
                       target);
    if (n < 4 || memcmp(b, "\177ELF", 4) != 0)
        return fy_fail(e, FY_EVERIFY, "is %s, expected an aarch64 program", not_elf(b, n));
    if (n < HEADER_BYTES)
        return fy_fail(e, FY_EVERIFY,
                       "is an ELF file cut off after %zu bytes, expected an aarch64 program", n);
    uint16_t type = fy_le16(b + 16), machine = fy_le16(b + 18);
    if (b[5] != ELFDATA2LSB)
        return fy_fail(e, FY_EVERIFY, "is a big-endian ELF file, expected an aarch64 program");
    if (machine != EM_AARCH64 || b[4] != ELFCLASS64)
        return fy_fail(e, FY_EVERIFY, "is built for %s (ELF machine %u), expected aarch64 (%d)",
                       machine_name(machine), machine, EM_AARCH64);
    if (type != ET_EXEC && type != ET_DYN)
        return fy_fail(e, FY_EVERIFY, "is an aarch64 ELF file of type %u, expected a program",
                       type);
    return 0;
}

int fy_elf_check_file(const char *path, const char *target, fy_err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot open", path);
    uint8_t head[HEADER_BYTES];
    ssize_t n = pread(fd, head, sizeof head, 0);
    int rc = n < 0 ? fy_fail_errno(e, "%s: cannot read", path) : 0;
    close(fd);
    if (rc == 0 && fy_elf_check(head, (size_t)n, target, e) != 0)
        rc = fy_ctx(e, "%s", path);
    return rc;
}

/* --- the whole file --------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *p;
    size_t n;
} bytes;

typedef struct {
    bool has_dynamic, is_pie;
    bool text_relocations, executable_stack;
    const char *interp; /* view; NULL: none */
    uint64_t page_bytes;
} segments;

static int damaged(const char *what, fy_err *e)
{
    return fy_fail(e, FY_EVERIFY, "is a damaged ELF file: %s is outside of it", what);
}

static bool inside(bytes b, uint64_t at, uint64_t size)
{
    return at <= b.n && size <= b.n - at;
}

/* Position-independent programs carry a flag; libraries do not. */
static void read_dynamic(bytes b, uint64_t at, uint64_t size, segments *out)
{
    out->has_dynamic = true;
    for (uint64_t i = 0; i + 16 <= size; i += 16) {
        uint64_t tag = fy_le64(b.p + at + i), value = fy_le64(b.p + at + i + 8);
        if (tag == 0)
            break;
        if (tag == DT_FLAGS_1)
            out->is_pie = (value & DF_1_PIE) != 0;
        if (tag == DT_TEXTREL || (tag == DT_FLAGS && (value & DF_TEXTREL) != 0))
            out->text_relocations = true;
    }
}

static int read_segment(bytes b, const uint8_t *s, segments *out, fy_err *e)
{
    uint32_t type = fy_le32(s), flags = fy_le32(s + 4);
    uint64_t at = fy_le64(s + 8), size = fy_le64(s + 32), align = fy_le64(s + 48);
    if (type == PT_GNU_STACK)
        out->executable_stack = (flags & PF_X) != 0;
    if (type != PT_LOAD && type != PT_DYNAMIC && type != PT_INTERP)
        return 0;
    if (!inside(b, at, size))
        return damaged(type == PT_LOAD      ? "a segment"
                       : type == PT_DYNAMIC ? "its dynamic section"
                                            : "the interpreter's name",
                       e);
    if (type == PT_LOAD && (out->page_bytes == 0 || align < out->page_bytes)) {
        out->page_bytes = align;
    } else if (type == PT_DYNAMIC) {
        read_dynamic(b, at, size, out);
    } else if (type == PT_INTERP) {
        if (size == 0 || b.p[at + size - 1] != '\0')
            return damaged("the end of the interpreter's name", e);
        out->interp = (const char *)b.p + at;
    }
    return 0;
}

static int read_segments(bytes b, segments *out, fy_err *e)
{
    uint64_t at = fy_le64(b.p + 32);
    uint16_t size = fy_le16(b.p + 54), n = fy_le16(b.p + 56);
    if (n > 0 && (size != SEGMENT_BYTES || !inside(b, at, (uint64_t)n * size)))
        return damaged("its program header", e);
    for (uint16_t i = 0; i < n; i++) {
        if (read_segment(b, b.p + at + (uint64_t)i * size, out, e) != 0)
            return -1;
    }
    return 0;
}

static int kind_of_program(const segments *s, uint16_t type, fy_elf_kind *out, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (s->interp == NULL)
        *out = type == ET_DYN && s->has_dynamic && !s->is_pie ? FY_ELF_LIBRARY : FY_ELF_STATIC;
    else if (strcmp(s->interp, "/system/bin/linker64") == 0)
        *out = FY_ELF_ANDROID;
    else if (strcmp(s->interp, "/lib/ld-linux-aarch64.so.1") == 0)
        *out = FY_ELF_GLIBC;
    else
        return fy_fail(e, FY_EVERIFY,
                       "asks for the interpreter '%s', which no phone has; expected a static "
                       "program or one for /system/bin/linker64",
                       fy_quote(shown, sizeof shown, fy_span_of(s->interp)));
    return 0;
}

/* Android's linker is stricter than others: it refuses programs at a fixed address, and 64-bit
 * files whose code it would have to change. */
static int check_for_android(const segments *s, uint16_t type, fy_elf_kind kind, fy_err *e)
{
    if (kind == FY_ELF_ANDROID && type != ET_DYN)
        return fy_fail(e, FY_EVERIFY,
                       "is linked to a fixed address, which Android's linker refuses; expected a "
                       "position-independent program (-fPIE -pie)");
    if ((kind == FY_ELF_ANDROID || kind == FY_ELF_LIBRARY) && s->text_relocations)
        return fy_fail(e, FY_EVERIFY,
                       "has text relocations, which Android's linker refuses; expected "
                       "position-independent code (-fPIE or -fPIC, all of it)");
    return 0;
}

int fy_elf_inspect(const void *p, size_t n, fy_elf_info *out, fy_err *e)
{
    bytes b = {p, n};
    fy_elf_info info = {0};
    segments s = {0};
    if (n < 4 || memcmp(b.p, "\177ELF", 4) != 0) {
        *out = info;
        return 0;
    }
    /* the DSP's files are of 32 bits: machine and type lie where they do in 64 */
    if (n >= HEADER_BYTES && b.p[5] == ELFDATA2LSB && fy_le16(b.p + 18) == EM_QDSP6) {
        *out = (fy_elf_info){.kind = FY_ELF_DSP};
        return 0;
    }
    if (fy_elf_check(p, n, FY_TARGET_ARM64, e) != 0 || read_segments(b, &s, e) != 0)
        return -1;
    uint16_t type = fy_le16(b.p + 16);
    if (kind_of_program(&s, type, &info.kind, e) != 0 ||
        check_for_android(&s, type, info.kind, e) != 0)
        return -1;
    info.page_bytes = s.page_bytes;
    info.executable_stack = s.executable_stack;
    *out = info;
    return 0;
}

void fy_elf_text(const fy_elf_info *info, fy_str *out)
{
    static const char *const words[] = {
        [FY_ELF_NONE] = "not a program",
        [FY_ELF_STATIC] = "aarch64, static",
        [FY_ELF_ANDROID] = "aarch64, for Android's linker",
        [FY_ELF_GLIBC] = "aarch64, for glibc's loader, which a phone lacks unless it is brought",
        [FY_ELF_LIBRARY] = "aarch64, library",
        [FY_ELF_DSP] = "library for the Hexagon DSP",
    };
    fy_str_puts(out, words[info->kind]);
    if (info->page_bytes > 0 && info->page_bytes < 16384)
        fy_str_printf(out, "; phones with pages of 16 KB refuse its segments of %llu bytes",
                      (unsigned long long)info->page_bytes);
    if (info->executable_stack)
        fy_str_puts(out, "; asks for an executable stack, which phones forbid");
}
