#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "workspace/phone/up_cache.h"

static char root[64], cache[80], source[80];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/test_up_cache-XXXXXX");
    if (mkdtemp(root) == NULL)
        return -1;
    snprintf(cache, sizeof cache, "%s/cache", root);
    snprintf(source, sizeof source, "%s/source", root);
    return mkdir(cache, 0700) | mkdir(source, 0700);
}

static int tear_down(void **state)
{
    (void)state;
    fy_tree_remove(root);
    return fy_file_exists(root);
}

/* Days ago, so that its time can be trusted. */
static void write_file(const char *name, const char *text, int days)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", source, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    struct timespec t[2];
    clock_gettime(CLOCK_REALTIME, &t[0]);
    t[0].tv_sec -= days * 86400;
    t[0].tv_nsec = 0;
    t[1] = t[0];
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static size_t hash(char hex[FY_SHA256_HEX])
{
    fy_err e = {0};
    size_t n_read;
    if (fy_up_source(cache, source, true, NULL, hex, &n_read, &e) != 0)
        fail_msg("%s", e.msg);
    return n_read;
}

static void files_are_read_again_only_when_they_may_have_changed(void **state)
{
    (void)state;
    char a[FY_SHA256_HEX], b[FY_SHA256_HEX];
    write_file("config.json", "{}", 3);
    write_file("weights", "1234", 3);
    assert_int_equal(hash(a), 2);
    assert_int_equal(hash(b), 0);
    assert_string_equal(a, b);
    write_file("weights", "1234", 2);
    assert_int_equal(hash(b), 1);
    assert_string_equal(a, b);
    write_file("weights", "1235", 1);
    assert_int_equal(hash(b), 1);
    assert_string_not_equal(a, b);
}

static void a_file_of_just_now_is_not_trusted(void **state)
{
    (void)state;
    char a[FY_SHA256_HEX];
    write_file("weights", "1234", 0);
    assert_int_equal(hash(a), 1);
    assert_int_equal(hash(a), 1);
}

static void names_count_but_not_hidden_files_or_markdown(void **state)
{
    (void)state;
    char a[FY_SHA256_HEX], b[FY_SHA256_HEX];
    write_file("one", "1", 3);
    hash(a);
    write_file(".hidden", "x", 3);
    write_file("README.md", "x", 3);
    hash(b);
    assert_string_equal(a, b);
    write_file("two", "1", 3);
    hash(b);
    assert_string_not_equal(a, b);
}

static void parts_of_a_key_do_not_run_together(void **state)
{
    (void)state;
    static const char *const parts[][4] = {{"a", "b", "c", "d"},
                                           {"a", "b\n1 c 1 d", "", ""},
                                           {"ab", "", "c", "d"},
                                           {"a", "bc", "", "d"},
                                           {"a 1 b", "", "c", "d"}};
    enum { N = sizeof parts / sizeof parts[0] };
    char hex[N][FY_SHA256_HEX];
    fy_err e = {0};
    for (size_t i = 0; i < N; i++) {
        fy_str key = {0};
        fy_up_key_add(&key, parts[i][0], parts[i][1]);
        fy_up_key_add(&key, parts[i][2], parts[i][3]);
        assert_int_equal(fy_up_key_end(&key, hex[i], &e), 0);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(hex[i], hex[k]);
    }
}

static void write_record(const char *name, char digit)
{
    fy_err e = {0};
    fy_up_record r = {.source = (char[]){"/from"}, .result = (char[]){"/to"}};
    memset(r.source_hash, digit, FY_SHA256_HEX - 1);
    memset(r.result_hash, digit, FY_SHA256_HEX - 1);
    assert_int_equal(fy_up_record_write(cache, name, &r, &e), 0);
}

static void records_are_found_and_forgotten_when_their_source_has_changed(void **state)
{
    (void)state;
    char ones[FY_SHA256_HEX] = "", twos[FY_SHA256_HEX] = "";
    fy_up_record r;
    fy_err e = {0};
    memset(ones, '1', FY_SHA256_HEX - 1);
    memset(twos, '2', FY_SHA256_HEX - 1);
    write_record("convert-a", '1');
    write_record("convert-b", '2');
    assert_int_equal(fy_up_record_read(cache, "convert-a", &r, &e), 1);
    assert_string_equal(r.source, "/from");
    assert_string_equal(r.result, "/to");
    assert_string_equal(r.result_hash, ones);
    fy_up_record_release(&r);
    assert_int_equal(fy_up_record_read(cache, "convert-c", &r, &e), 0);
    assert_true(fy_up_made(cache, "/to", ones));
    assert_false(fy_up_made(cache, "/other", ones));
    fy_up_forget(cache, "/from", twos);
    assert_int_equal(fy_up_record_read(cache, "convert-a", &r, &e), 0);
    assert_int_equal(fy_up_record_read(cache, "convert-b", &r, &e), 1);
    fy_up_record_release(&r);
}

static void a_damaged_record_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a\n", "a\nb\nc\nd\n", "\n\n\n\n"};
    char path[200];
    fy_err e = {0};
    fy_up_record r;
    write_record("convert-a", '1');
    snprintf(path, sizeof path, "%s/convert-a/record", cache);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        FILE *f = fopen(path, "w");
        fputs(texts[i], f);
        fclose(f);
        assert_int_equal(fy_up_record_read(cache, "convert-a", &r, &e), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_read_again_only_when_they_may_have_changed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_just_now_is_not_trusted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_count_but_not_hidden_files_or_markdown, set_up,
                                        tear_down),
        cmocka_unit_test(parts_of_a_key_do_not_run_together),
        cmocka_unit_test_setup_teardown(
            records_are_found_and_forgotten_when_their_source_has_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_record_is_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
