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

#include "tests/unit/hub/hub_root.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "hub/hub_cache.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
/* of "hello\n" */
#define GIT_HELLO "ce013625030ba8dba906f756967f9e9ca394464a"
#define SHA_HELLO "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"

static void test_ids(void **state)
{
    static const struct {
        const char *text;
        size_t n;
    } cases[] = {
        {"org/name", 8},    {"gpt2", 4},   {"a/b@main", 3}, {"a_/_b", 5},   {"A.b-c/d_e.f-1", 13},
        {"a/b/c", 0},       {"", 0},       {"/a", 0},       {"a/", 0},      {"./a", 0},
        {"../a", 0},        {"a/..", 0},   {"a--b/c", 0},   {"a/b..c", 0},  {"-a/b", 0},
        {"a/b-", 0},        {"a/.b", 0},   {"a/b.git", 0},  {"a b/c", 0},   {"a/b:c", 3},
        {"\303\244/b", 0},  {"a-.b/c", 6}, {"@main", 0},    {"a/@main", 0}, {"a/b@", 3},
        {"model.gguf", 10},
    };
    char longest[256] = "";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (fy_hub_id_bytes(cases[i].text) != cases[i].n)
            fail_msg("%s: %zu", cases[i].text, fy_hub_id_bytes(cases[i].text));
    }
    memset(longest, 'a', 96);
    assert_int_equal(fy_hub_id_bytes(longest), 96);
    longest[96] = 'a';
    assert_int_equal(fy_hub_id_bytes(longest), 0);
    assert_true(fy_hub_id_is_meant("org/name@main"));
    assert_false(fy_hub_id_is_meant("name"));
    assert_false(fy_hub_id_is_meant(root));
}

static void test_refs(void **state)
{
    static const char *const good[] = {"a/b@main", "a/b@refs/pr/1", "a/b@v1.0", ("a@" A)};
    static const char *const bad[] = {"a/b@",   "a/b@..",  "a/b@a/../b", "a/b@/a",
                                      "a/b@a/", "a/b@a b", "a/b@a\\b",
                                      "a/b:",   "a/b:@x", "a/b:a/b",   "a/b:a b",
                                      "a/b@x:Q8_0", "a/b:Q8_0:x",
                                      "a/b:12345678901234567890123456789012"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fy_hub_ref r;
        fy_err e = {0};
        if (fy_hub_ref_read(good[i], &r, &e) != 0)
            fail_msg("%s: %s", good[i], e.msg);
        assert_string_equal(r.revision, strchr(good[i], '@') + 1);
        assert_int_equal(strlen(r.id), strcspn(good[i], "@"));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_hub_ref r;
        fy_err e = {0};
        assert_int_equal(fy_hub_ref_read(bad[i], &r, &e), -1);
        assert_int_equal(e.code, FY_EARG);
    }
    fy_hub_ref r;
    assert_int_equal(fy_hub_ref_read("a/b:UD-q4_K_XL@v1", &r, NULL), 0);
    assert_string_equal(r.id, "a/b");
    assert_string_equal(r.type, "UD-q4_K_XL");
    assert_string_equal(r.revision, "v1");
}

static void test_where(void **state)
{
    static const char *const names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                        "XDG_CACHE_HOME", "HOME"};
    static const struct {
        const char *value[5], *want;
    } cases[] = {
        {{"/1", "/2", "/3", "/4", "/5"}, "/1"},
        {{NULL, "/2", "/3", "/4", "/5"}, "/2"},
        {{"", NULL, "/3", "/4", "/5"}, "/3/hub"},
        {{NULL, NULL, NULL, "/4", "/5"}, "/4/huggingface/hub"},
        {{NULL, NULL, NULL, NULL, "/5"}, "/5/.cache/huggingface/hub"},
        {{"~/x", NULL, NULL, NULL, "/5"}, "/5/x"},
        {{NULL, NULL, NULL, NULL, NULL}, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        for (size_t k = 0; k < 5; k++) {
            if (cases[i].value[k] != NULL)
                setenv(names[k], cases[i].value[k], 1);
            else
                unsetenv(names[k]);
        }
        char *dir = fy_hub_cache_dir(&e);
        if (cases[i].want == NULL)
            assert_null(dir);
        else
            assert_string_equal(dir, cases[i].want);
        free(dir);
    }
    setenv("HF_HUB_CACHE", root, 1);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void test_blob(void **state)
{
    static const char *const hashes[] = {GIT_HELLO, SHA_HELLO};
    char hex[65];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        fy_err e = {0};
        char *storage = at("models--w--w");
        fy_hub_blob *b = fy_hub_blob_open(storage, hashes[i], 6, &e);
        if (b == NULL)
            fail_msg("%s", e.msg);
        assert_int_equal(fy_hub_blob_bytes(b), 0);
        assert_int_equal(fy_hub_blob_add(b, "hel", 3, &e), 0);
        assert_null(fy_hub_blob_open(storage, hashes[i], 6, &e)); /* the lock */
        assert_non_null(strstr(e.msg, "another program"));
        fy_hub_blob_close(b);
        e = (fy_err){0};
        assert_int_equal(fy_hub_blob_partial(storage, hashes[i]), 3);
        assert_false(fy_hub_blob_is_there(storage, hashes[i], 6));

        b = fy_hub_blob_open(storage, hashes[i], 6, &e);
        assert_int_equal(fy_hub_blob_bytes(b), 3);
        assert_int_equal(fy_hub_blob_add(b, "lo\n!", 4, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        e = (fy_err){0};
        assert_int_equal(fy_hub_blob_add(b, "lo!", 3, &e), 0);
        assert_int_equal(fy_hub_blob_end(b, hex, &e), 1);
        assert_string_not_equal(hex, hashes[i]);
        assert_int_equal(fy_hub_blob_bytes(b), 0); /* thrown away */
        assert_int_equal(fy_hub_blob_add(b, "hello\n", 6, &e), 0);
        assert_int_equal(fy_hub_blob_end(b, hex, &e), 0);
        fy_hub_blob_close(b);
        assert_true(fy_hub_blob_is_there(storage, hashes[i], 6));
        assert_false(fy_hub_blob_is_there(storage, hashes[i], 7));
        assert_int_equal(fy_hub_blob_partial(storage, hashes[i]), 0);
    }
}

static void test_oversized_rest(void **state)
{
    fy_err e = {0};
    (void)state;
    put("models--w--o/blobs/" GIT_HELLO ".incomplete", "more than six bytes");
    fy_hub_blob *b = fy_hub_blob_open(at("models--w--o"), GIT_HELLO, 6, &e);
    assert_int_equal(fy_hub_blob_bytes(b), 0);
    fy_hub_blob_close(b);
    assert_false(
        fy_file_exists(at("models--w--o/blobs/" GIT_HELLO ".incomplete"))); /* empty: removed */
}

static void leads_to(const char *link, const char *want)
{
    char target[200];
    ssize_t n = readlink(at(link), target, sizeof target - 1);
    assert_true(n > 0);
    target[n] = '\0';
    assert_string_equal(target, want);
}

static void test_names(void **state)
{
    fy_err e = {0};
    char *storage = at("models--w--n");
    (void)state;
    assert_int_equal(fy_hub_link(storage, A, "config.json", "x", &e), 0);
    leads_to("models--w--n/snapshots/" A "/config.json", "../../blobs/x");
    assert_int_equal(fy_hub_link(storage, A, "config.json", "y", &e), 0); /* replaced */
    leads_to("models--w--n/snapshots/" A "/config.json", "../../blobs/y");
    assert_int_equal(fy_hub_link(storage, A, "a/b/c", "x", &e), 0);
    leads_to("models--w--n/snapshots/" A "/a/b/c", "../../../../blobs/x");
    assert_int_equal(fy_hub_write_ref(storage, "refs/pr/1", A, &e), 0);
    assert_true(fy_file_exists(at("models--w--n/refs/refs/pr/1")));
    assert_int_equal(fy_hub_write_ref(storage, A, A, &e), 0);
    assert_false(fy_file_exists(at("models--w--n/refs/" A)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),   cmocka_unit_test(test_refs),
        cmocka_unit_test(test_where), cmocka_unit_test(test_blob),
        cmocka_unit_test(test_oversized_rest), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("hub_cache", tests, make_root, remove_root);
}
