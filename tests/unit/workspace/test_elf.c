#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "workspace/elf.h"

static void check(const void *p, size_t n, const char *target, const char *says)
{
    fy_err e = {0};
    if (says == NULL) {
        assert_int_equal(fy_elf_check(p, n, target, &e), 0);
        return;
    }
    assert_int_equal(fy_elf_check(p, n, target, &e), -1);
    if (strstr(e.msg, says) == NULL)
        fail_msg("'%s' lacks '%s'", e.msg, says);
}

static void a_program_is_known_by_its_header(void **state)
{
    (void)state;
    uint8_t b[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = 2, [18] = 183};
    check(b, 64, "aarch64-linux", NULL);
    b[16] = 3; /* position-independent */
    check(b, 64, "aarch64-linux", NULL);
    b[16] = 1;
    check(b, 64, "aarch64-linux", "ELF file of type 1");
    b[16] = 2;
    check(b, 63, "aarch64-linux", "cut off after 63 bytes");
    check(b, 64, "mips", "target 'mips' is unknown");
    b[18] = 62;
    check(b, 64, "aarch64-linux", "built for x86-64 (ELF machine 62)");
    b[18] = 40;
    check(b, 64, "aarch64-linux", "arm (32 bit)");
    b[18] = 99;
    check(b, 64, "aarch64-linux", "another machine");
    b[5] = 2;
    check(b, 64, "aarch64-linux", "big-endian");
}

static void other_files_are_called_what_they_are(void **state)
{
    (void)state;
    check("", 0, "aarch64-linux", "an empty file");
    check("#!/bin/sh\n", 10, "aarch64-linux", "a script");
    check("MZ......", 8, "aarch64-linux", "a Windows program");
    check("\xcf\xfa\xed\xfe....", 8, "aarch64-linux", "a macOS program");
    check("hello", 5, "aarch64-linux", "no ELF header");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_known_by_its_header),
        cmocka_unit_test(other_files_are_called_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
