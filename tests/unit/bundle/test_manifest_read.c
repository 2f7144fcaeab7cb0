#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"

#include "bundle/manifest_read.h"
#include "workspace/pack/manifest.h"

#define HASH "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HEAD                                                                                       \
    "{\"format_version\": 1, \"tool\": \"ferry 0\", \"target\": \"aarch64-linux\", \"files\": ["
#define FILE_OF(path, size)                                                                        \
    "{\"path\": \"" path "\", \"size\": " size ", \"mode\": \"0644\", \"sha256\": \"" HASH "\"}"

/* Parses the text with its own hash put after the last key. */
static int parse(const char *text, fy_manifest *m, fy_err *e)
{
    char sealed[4096], hex[FY_SHA256_HEX];
    uint8_t hash[FY_SHA256_BYTES];
    size_t n = strlen(text);
    if (n < 3 || text[n - 1] != '}')
        return fy_manifest_parse(text, n, m, e);
    assert_int_equal(fy_sha256_of(text, n - 1, hash, e), 0);
    fy_sha256_to_hex(hash, hex);
    int len = snprintf(sealed, sizeof sealed, "%.*s, \"sha256\": \"%s\"}", (int)(n - 1), text, hex);
    return fy_manifest_parse(sealed, (size_t)len, m, e);
}

static void a_manifest_gives_its_files_in_order(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_manifest m;
    assert_int_equal(
        parse(HEAD FILE_OF("a/b", "7") "," FILE_OF("c", "0") "], \"extra\": [1]}", &m, &e), 0);
    assert_string_equal(m.tool, "ferry 0");
    assert_string_equal(m.target, "aarch64-linux");
    assert_int_equal(m.n, 2);
    assert_string_equal(m.entry[0].path, "a/b");
    assert_int_equal(m.entry[0].bytes, 7);
    assert_int_equal(m.entry[0].mode, 0644);
    for (int i = 0; i < FY_SHA256_BYTES; i++)
        assert_int_equal(m.entry[0].sha256[i], i);
    assert_ptr_equal(fy_manifest_find(&m, "c"), &m.entry[1]);
    assert_null(fy_manifest_find(&m, "a"));
    assert_null(fy_manifest_find(&m, "d"));
    fy_manifest_release(&m);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_manifest m, back;
    fy_str a = {0}, b = {0};
    uint64_t sizes[] = {0, FY_MANIFEST_BLOCK, (uint64_t)FY_MANIFEST_BLOCK + 1,
                        (uint64_t)3 * FY_MANIFEST_BLOCK};
    const char *const names[] = {"z", "bin/ferry", "m/weights", "m-1/x"};
    assert_int_equal(fy_manifest_begin(&m, "ferry 0", "aarch64-linux", &e), 0);
    for (size_t i = 0; i < 4; i++) {
        fy_digest d = {.bytes = sizes[i]};
        size_t n = (size_t)fy_manifest_n_blocks(sizes[i]) * FY_SHA256_BYTES;
        memset(d.sha256, (int)i, sizeof d.sha256);
        if (n > 0) {
            d.blocks = malloc(n);
            memset(d.blocks, (int)i + 1, n);
        }
        assert_int_equal(fy_manifest_add(&m, names[i], i == 1 ? 0755 : 0644, &d, &e), 0);
    }
    assert_int_equal(fy_manifest_text(&m, &a, &e), 0);
    assert_int_equal(fy_manifest_parse(a.ptr, a.len, &back, &e), 0);
    assert_int_equal(fy_manifest_text(&back, &b, &e), 0);
    assert_string_equal(a.ptr, b.ptr);
    assert_string_equal(back.entry[0].path, "bin/ferry");
    assert_int_equal(back.entry[0].mode, 0755);
    assert_string_equal(back.entry[1].path, "m-1/x");
    assert_int_equal(back.entry[1].blocks[2 * FY_SHA256_BYTES], 4);
    assert_null(fy_manifest_find(&back, "bin/ferry")->blocks);
    fy_str_release(&a);
    fy_str_release(&b);
    fy_manifest_release(&m);
    fy_manifest_release(&back);
}

static const struct {
    const char *text, *says;
} bad[] = {
    {"", "expected"},
    {"[]", "expected"},
    {"{}", "lacks 'format_version'"},
    {"{\"format_version\": 2}", "format_version: 2, this ferry reads 1"},
    {"{\"format_version\": 1}", "lacks 'tool'"},
    {"{\"format_version\": 1, \"tool\": \"f\", \"target\": \"t\"}", "lacks 'files'"},
    {"{\"format_version\": 1, \"tool\": \"a\\u0000b\"}", "tool"},
    {"{\"format_version\": 1, \"tool\": \"a\\nb\"}", "printable ASCII"},
    {HEAD "]} x", ""},
    {HEAD "{}]}", "lacks 'path'"},
    {HEAD "{\"path\": \"a\"}]}", "a: lacks 'size'"},
    {HEAD FILE_OF("a", "-1") "]}", ""},
    {HEAD FILE_OF("a", "9223372036854775808") "]}", "more than a file can hold"},
    {HEAD FILE_OF("a", "4194305") "]}", "0 block hashes, expected 2"},
    {HEAD FILE_OF("a", "1") "," FILE_OF("a", "1") "]}", "expected ascending order"},
    {HEAD FILE_OF("b", "1") "," FILE_OF("a", "1") "]}", "expected ascending order"},
    {HEAD FILE_OF("a", "1") "," FILE_OF("a-b", "1") "," FILE_OF("a/b", "1") "]}",
     "where 'a' is a file"},
    {HEAD FILE_OF("manifest.json/x", "1") "]}", "where 'manifest.json' is a file"},
    {HEAD FILE_OF("manifest.json", "1") "]}", "manifest.json: lists itself"},
    {HEAD FILE_OF("", "1") "]}", "path"},
    {HEAD FILE_OF("/etc/passwd", "1") "]}", "expected a safe path"},
    {HEAD FILE_OF("..", "1") "]}", "expected a safe path"},
    {HEAD FILE_OF("a/../b", "1") "]}", "expected a safe path"},
    {HEAD FILE_OF("a/./b", "1") "]}", "expected a safe path"},
    {HEAD FILE_OF("a//b", "1") "]}", "expected a safe path"},
    {HEAD FILE_OF("a/", "1") "]}", "expected a safe path"},
    {HEAD FILE_OF("a b", "1") "]}", "expected a safe path"},
    {HEAD FILE_OF("a\\\\b", "1") "]}", "path"},
    {HEAD FILE_OF("a\\u0000b", "1") "]}", "path"},
    {HEAD FILE_OF("a\\u202eb", "1") "]}", "path"},
    {HEAD "{\"path\": \"a\", \"size\": 1, \"mode\": \"4755\", \"sha256\": \"" HASH "\"}]}",
     "expected 0644 or 0755"},
    {HEAD "{\"path\": \"a\", \"size\": 1, \"mode\": 420, \"sha256\": \"" HASH "\"}]}", "mode"},
    {HEAD "{\"path\": \"a\", \"size\": 1, \"mode\": \"0644\", \"sha256\": \"00\"}]}",
     "expected 64 digits"},
    {HEAD "{\"path\": \"a\", \"size\": 1, \"mode\": \"0644\", \"sha256\": \"" HASH
          "\", \"blocks\": [\"" HASH "\"]}]}",
     "1 block hashes, expected 0"},
    {HEAD "{\"path\": \"a\", \"path\": \"b\"}]}", ""},
};

static void every_broken_rule_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_err e = {0};
        fy_manifest m;
        if (parse(bad[i].text, &m, &e) == 0)
            fail_msg("accepted: %s", bad[i].text);
        if (strstr(e.msg, bad[i].says) == NULL)
            fail_msg("'%s' lacks '%s' for %s", e.msg, bad[i].says, bad[i].text);
    }
}

static void a_manifest_vouches_for_its_own_text(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_manifest m;
    fy_str s = {0};
    assert_int_equal(fy_manifest_begin(&m, "ferry 0", "aarch64-linux", &e), 0);
    assert_int_equal(fy_manifest_text(&m, &s, &e), 0);
    fy_manifest_release(&m);
    *strstr(s.ptr, "ferry 0") = 'F';
    assert_int_equal(fy_manifest_parse(s.ptr, s.len, &m, &e), -1);
    assert_int_equal(e.code, FY_EVERIFY);
    assert_non_null(strstr(e.msg, "its own SHA-256 differs"));
    e = (fy_err){0};
    assert_int_equal(fy_manifest_parse(HEAD "]}", strlen(HEAD "]}"), &m, &e), -1);
    assert_string_equal(e.msg, "lacks 'sha256'");
    fy_str_release(&s);
}

static void running_out_of_memory_anywhere_is_an_error_and_no_leak(void **state)
{
    (void)state;
    static const char text[] = HEAD FILE_OF("a", "7") "," FILE_OF("c", "0") "]";
    char sealed[1024], hex[FY_SHA256_HEX];
    uint8_t hash[FY_SHA256_BYTES];
    assert_int_equal(fy_sha256_of(text, sizeof text - 1, hash, NULL), 0);
    fy_sha256_to_hex(hash, hex);
    int len = snprintf(sealed, sizeof sealed, "%s, \"sha256\": \"%s\"}", text, hex);
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        fy_manifest m;
        alloc_fail_after(n);
        int rc = fy_manifest_parse(sealed, (size_t)len, &m, &e);
        failed = alloc_fail_end();
        if (rc == 0)
            fy_manifest_release(&m);
        else
            assert_int_equal(e.code, FY_ENOMEM);
        assert_true(failed || rc == 0); /* OpenSSL gets by without some of its own */
    }
}

static void a_path_may_have_1024_bytes_and_no_more(void **state)
{
    (void)state;
    char path[FY_MANIFEST_MAX_PATH + 2];
    memset(path, 'a', sizeof path);
    path[FY_MANIFEST_MAX_PATH + 1] = '\0';
    assert_false(fy_manifest_path_ok(path));
    path[FY_MANIFEST_MAX_PATH] = '\0';
    assert_true(fy_manifest_path_ok(path));
    assert_false(fy_manifest_path_ok(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_gives_its_files_in_order),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(every_broken_rule_is_refused_by_name),
        cmocka_unit_test(a_manifest_vouches_for_its_own_text),
        cmocka_unit_test(running_out_of_memory_anywhere_is_an_error_and_no_leak),
        cmocka_unit_test(a_path_may_have_1024_bytes_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
