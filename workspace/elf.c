#include "workspace/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/math.h"
#include "workspace/workspace.h"

enum {
    HEADER_BYTES = 64,
    CLASS_64 = 2,
    LITTLE = 1,
    TYPE_EXEC = 2,
    TYPE_DYN = 3,
    MACHINE_AARCH64 = 183
};

static const struct {
    uint16_t id;
    const char *name;
} machines[] = {
    {3, "x86 (32 bit)"}, {40, "arm (32 bit)"}, {62, "x86-64"},     {MACHINE_AARCH64, "aarch64"},
    {164, "Hexagon"},    {243, "RISC-V"},      {258, "LoongArch"},
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
    if (b[5] != LITTLE)
        return fy_fail(e, FY_EVERIFY, "is a big-endian ELF file, expected an aarch64 program");
    if (machine != MACHINE_AARCH64 || b[4] != CLASS_64)
        return fy_fail(e, FY_EVERIFY, "is built for %s (ELF machine %u), expected aarch64 (%d)",
                       machine_name(machine), machine, MACHINE_AARCH64);
    if (type != TYPE_EXEC && type != TYPE_DYN)
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
