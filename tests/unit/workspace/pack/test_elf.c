#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "workspace/pack/elf.h"

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

/* --- the whole file --------------------------------------------------------------------------- */

/* 64 bytes of header, two program headers, then the bytes that they point to. */
typedef struct {
    uint8_t b[512];
    size_t n;
} image;

static void put64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

static image make_image(uint8_t type)
{
    image m = {.b = {0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = type, [18] = 183, [54] = 56, [56] = 2},
               .n = 512};
    put64(m.b + 32, 64);
    m.b[64] = 1; /* PT_LOAD of the whole, aligned to 16 KiB */
    put64(m.b + 64 + 32, sizeof m.b);
    put64(m.b + 64 + 48, 16384);
    return m;
}

static void set_interp(image *m, const char *path)
{
    m->b[120] = 3;
    put64(m->b + 120 + 8, 256);
    put64(m->b + 120 + 32, strlen(path) + 1);
    memcpy(m->b + 256, path, strlen(path) + 1);
}

static void set_dynamic(image *m, uint64_t flags)
{
    m->b[120] = 2;
    put64(m->b + 120 + 8, 256);
    put64(m->b + 120 + 32, 48);
    put64(m->b + 256, 1);
    put64(m->b + 272, 0x6ffffffb);
    put64(m->b + 280, flags);
}

static void is(const image *m, fy_elf_kind kind)
{
    fy_err e = {0};
    fy_elf_info info;
    if (fy_elf_inspect(m->b, m->n, &info, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(info.kind, kind);
}

static void is_refused(const image *m, const char *says)
{
    fy_err e = {0};
    fy_elf_info info;
    assert_int_equal(fy_elf_inspect(m->b, m->n, &info, &e), -1);
    assert_int_equal(e.code, FY_EVERIFY);
    if (strstr(e.msg, says) == NULL)
        fail_msg("'%s' lacks '%s'", e.msg, says);
}

static void programs_and_libraries_are_told_apart(void **state)
{
    (void)state;
    image m = make_image(2);
    is(&m, FY_ELF_STATIC);
    set_interp(&m, "/system/bin/linker64");
    is_refused(&m, "fixed address, which Android's linker refuses");
    m.b[16] = 3;
    is(&m, FY_ELF_ANDROID);
    set_interp(&m, "/lib/ld-linux-aarch64.so.1");
    is(&m, FY_ELF_GLIBC);
    set_interp(&m, "/lib/ld-musl-aarch64.so.1");
    is_refused(&m, "interpreter '/lib/ld-musl-aarch64.so.1', which no phone has");
    m = make_image(3);
    set_dynamic(&m, 0);
    is(&m, FY_ELF_LIBRARY);
    set_dynamic(&m, 0x08000001); /* DF_1_PIE */
    is(&m, FY_ELF_STATIC);
    m.b[18] = 164;
    m.b[4] = 1;
    is(&m, FY_ELF_DSP); /* of which nothing more is looked at */
    m.b[18] = 62;
    m.b[4] = 2;
    is_refused(&m, "built for x86-64");
    m.b[0] = 'x';
    is(&m, FY_ELF_NONE);
    m.n = 0;
    is(&m, FY_ELF_NONE);
}

static void what_points_outside_of_the_file_is_damaged(void **state)
{
    (void)state;
    image m = make_image(3);
    set_interp(&m, "/system/bin/linker64");
    image good = m;
    put64(m.b + 120 + 32, 257);
    is_refused(&m, "the interpreter's name is outside");
    m = good;
    put64(m.b + 120 + 8, UINT64_MAX);
    is_refused(&m, "the interpreter's name is outside");
    m = good;
    put64(m.b + 120 + 32, 5);
    is_refused(&m, "the end of the interpreter's name");
    m = good;
    put64(m.b + 120 + 32, 0);
    is_refused(&m, "the end of the interpreter's name");
    m = good;
    put64(m.b + 32, 512);
    is_refused(&m, "its program header is outside");
    m = good;
    m.b[54] = 55;
    is_refused(&m, "its program header");
    m = good;
    m.n = 400;
    is_refused(&m, "a segment is outside");
    m = make_image(3);
    set_dynamic(&m, 0);
    put64(m.b + 120 + 32, 1 << 20);
    is_refused(&m, "its dynamic section is outside");
}

static void text_relocations_are_refused_where_androids_linker_loads(void **state)
{
    (void)state;
    static const struct {
        uint64_t tag, value;
    } cases[] = {{22, 0}, {30, 4}, {30, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        image m = make_image(3);
        set_dynamic(&m, 0);
        is(&m, FY_ELF_LIBRARY);
        put64(m.b + 256, cases[i].tag);
        put64(m.b + 264, cases[i].value);
        is_refused(&m, "text relocations, which Android's linker refuses");
        put64(m.b + 280, 0x08000000); /* static: it relocates itself */
        is(&m, FY_ELF_STATIC);
    }
    image m = make_image(3);
    set_dynamic(&m, 0);
    put64(m.b + 256, 30);
    put64(m.b + 264, 8); /* DF_BIND_NOW */
    is(&m, FY_ELF_LIBRARY);
}

static void an_executable_stack_is_seen(void **state)
{
    (void)state;
    fy_elf_info info;
    image m = make_image(2);
    uint32_t type = 0x6474e551;
    memcpy(m.b + 120, &type, sizeof type);
    for (uint8_t flags = 6; flags <= 7; flags++) {
        m.b[124] = flags;
        assert_int_equal(fy_elf_inspect(m.b, m.n, &info, NULL), 0);
        assert_int_equal(info.executable_stack, flags == 7);
    }
}

static void words_say_what_is_odd(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_elf_text(&(fy_elf_info){FY_ELF_STATIC, 16384, false}, &s);
    assert_string_equal(fy_str_z(&s), "aarch64, static");
    fy_str_clear(&s);
    fy_elf_text(&(fy_elf_info){FY_ELF_ANDROID, 4096, true}, &s);
    assert_non_null(strstr(fy_str_z(&s), "pages of 16 KB refuse its segments of 4096 bytes"));
    assert_non_null(strstr(fy_str_z(&s), "executable stack, which phones forbid"));
    fy_str_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_known_by_its_header),
        cmocka_unit_test(other_files_are_called_what_they_are),
        cmocka_unit_test(programs_and_libraries_are_told_apart),
        cmocka_unit_test(what_points_outside_of_the_file_is_damaged),
        cmocka_unit_test(text_relocations_are_refused_where_androids_linker_loads),
        cmocka_unit_test(an_executable_stack_is_seen),
        cmocka_unit_test(words_say_what_is_odd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
