#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "convert/write/convert_identity.h"
#include "format/gguf.h"

static void sizes_are_decimal_as_in_other_tools(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {{NULL, 0},         {"1", 1},           {"700K", 700000},
                {"400M", 400000000}, {"2G", 2000000000}, {"3g", 3000000000}};
    static const char *const bad[] = {"",    "0",   "0G", "G",   "-1", "+1", " 1",
                                      "1.5G", "1GB", "1T", "99999999999999999999",
                                      "9999999999G", "18446744073709551615"};
    uint64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(fy_split_size(good[i].text, &bytes, NULL), 0);
        assert_int_equal(bytes, good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_err e = {0};
        assert_int_equal(fy_split_size(bad[i], &bytes, &e), -1);
        assert_int_equal(e.code, FY_EARG);
    }
}

/* The identity of a checkpoint's directory. */
static void identity_as(fy_identity_kind kind, const char *dir, fy_str *out)
{
    fy_err e = {0};
    fy_str_clear(out);
    assert_int_equal(fy_convert_identity(dir, kind, out, &e), 0);
}

static void identity(const char *dir, fy_str *out)
{
    identity_as(FY_IDENTITY_HERE, dir, out);
}

static void a_change_of_a_source_changes_the_identity(void **state)
{
    (void)state;
    char dir[] = "/tmp/ferry-identity-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    char bytes[8 + sizeof header - 1 + 4] = {(char)(sizeof header - 1)};
    memcpy(bytes + 8, header, sizeof header - 1);
    fy_err e = {0};
    assert_int_equal(fy_file_write(path, bytes, sizeof bytes, &e), 0);
    fy_str a = {0}, b = {0};
    identity(dir, &a);
    identity(dir, &b);
    assert_string_equal(fy_str_z(&a), fy_str_z(&b));
    assert_non_null(strstr(a.ptr, "ferry "));
    assert_non_null(strstr(a.ptr, "program /"));
    assert_non_null(strstr(a.ptr, path));
    /* the same bytes, another time */
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000, .tv_nsec = 5}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    identity(dir, &b);
    assert_string_not_equal(fy_str_z(&a), fy_str_z(&b));
    assert_non_null(strstr(b.ptr, "changed at 1000.000000005"));
    /* the same time, another file */
    identity(dir, &a);
    assert_int_equal(fy_file_write(path, bytes, sizeof bytes, &e), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    identity(dir, &b);
    assert_string_not_equal(fy_str_z(&a), fy_str_z(&b));
    /* an output beside it is no source; one file may be the checkpoint */
    char output[72];
    snprintf(output, sizeof output, "%s/m.gguf", dir);
    assert_int_equal(fy_file_write(output, "x", 1, &e), 0);
    identity(dir, &a);
    assert_string_equal(fy_str_z(&a), fy_str_z(&b));
    identity(path, &a);
    assert_string_equal(fy_str_z(&a), fy_str_z(&b));
    unlink(output);
    assert_int_equal(fy_convert_identity("tests/none", FY_IDENTITY_HERE, &a, &e), -1);
    fy_str_release(&a);
    fy_str_release(&b);
    unlink(path);
    rmdir(dir);
}

static void a_copy_is_the_same_anywhere(void **state)
{
    (void)state;
    char dir[2][40] = {"/tmp/ferry-identity-XXXXXX", "/tmp/ferry-identity-XXXXXX"};
    char path[2][64];
    static char bytes[100000];
    fy_err e = {0};
    fy_str a = {0}, b = {0};
    for (int i = 0; i < 2; i++) {
        assert_non_null(mkdtemp(dir[i]));
        snprintf(path[i], sizeof path[i], "%s/model.safetensors", dir[i]);
        assert_int_equal(fy_file_write(path[i], bytes, sizeof bytes, &e), 0);
    }
    identity_as(FY_IDENTITY_ANYWHERE, dir[0], &a);
    identity_as(FY_IDENTITY_ANYWHERE, dir[1], &b);
    assert_string_equal(fy_str_z(&a), fy_str_z(&b));
    assert_non_null(strstr(a.ptr, "source model.safetensors: 100000 bytes, samples "));
    static const size_t places[] = {0, sizeof bytes - 1}; /* both ends are sampled */
    for (int i = 0; i < 2; i++) {
        bytes[places[i]] = 1;
        assert_int_equal(fy_file_write(path[1], bytes, sizeof bytes, &e), 0);
        identity_as(FY_IDENTITY_ANYWHERE, dir[1], &b);
        assert_string_not_equal(fy_str_z(&a), fy_str_z(&b));
        bytes[places[i]] = 0;
    }
    assert_int_equal(fy_file_write(path[1], bytes, 0, &e), 0); /* an empty file is one */
    identity_as(FY_IDENTITY_ANYWHERE, dir[1], &b);
    for (int i = 0; i < 2; i++) {
        unlink(path[i]);
        rmdir(dir[i]);
    }
    fy_str_release(&a);
    fy_str_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_decimal_as_in_other_tools),
        cmocka_unit_test(a_change_of_a_source_changes_the_identity),
        cmocka_unit_test(a_copy_is_the_same_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
