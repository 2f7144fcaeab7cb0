#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "cli/measure/bench.h"

static const fy_bench_range range = {"n-prompt", 512, 0, 100000};

/* Up to three words of an option. */
static fy_opt_list given(const char **words, size_t n)
{
    return (fy_opt_list){words, n};
}

static void check_numbers(const char *a, const char *b, const uint32_t *want, size_t n)
{
    const char *words[] = {a, b};
    fy_opt_list l = given(words, (a != NULL) + (b != NULL));
    fy_bench_list got = {0};
    fy_err e = {0};
    assert_int_equal(fy_bench_numbers(&range, &l, &got, &e), 0);
    assert_int_equal(got.n, n);
    assert_memory_equal(got.v, want, n * sizeof *want);
    fy_bench_list_release(&got);
}
#define NUMBERS(a, b, ...)                               \
    check_numbers(a, b, (const uint32_t[]){__VA_ARGS__}, \
                  sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void check_refused(const char *text, const char *message)
{
    const char *words[] = {text};
    fy_opt_list l = given(words, 1);
    fy_bench_list got = {0};
    fy_err e = {0};
    assert_int_equal(fy_bench_numbers(&range, &l, &got, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_string_equal(e.msg, message);
    fy_bench_list_release(&got);
}

static void lists_are_numbers_and_ranges_and_options_may_be_repeated(void **state)
{
    (void)state;
    NUMBERS(NULL, NULL, 512);
    NUMBERS("0", NULL, 0);
    NUMBERS("1,2,4", NULL, 1, 2, 4);
    NUMBERS("8", "1,2", 8, 1, 2);
    NUMBERS("1-4", NULL, 1, 2, 3, 4);
    NUMBERS("1-9+4", NULL, 1, 5, 9);
    NUMBERS("1-10+4", NULL, 1, 5, 9);
    NUMBERS("1-8*2", NULL, 1, 2, 4, 8);
    NUMBERS("3-20*3,7,1-2", "5", 3, 9, 7, 1, 2, 5);
    NUMBERS("7-7", NULL, 7);
    NUMBERS("007", NULL, 7);
    NUMBERS("99999-100000", NULL, 99999, 100000);
}

#define EXPECTED "list of numbers; expected e.g. 512, 1,2,4, 1-4, 1-9+2 or 1-8*2"

static void what_is_no_list_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",          "x",     "1,",    ",1",  "1,,2",
                                      "-1",        "+1",    " 1",    "1 ",  "1-",
                                      "1-2+",      "1-2*x", "1-2/3", "1+2", "1*2",
                                      "1-2-3",     "1.5",   "0x10",  "1;2", "99999999999999999999",
                                      "4294967296"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char message[256];
        snprintf(message, sizeof message, "--n-prompt: '%s' is not a " EXPECTED, bad[i]);
        check_refused(bad[i], message);
    }
    check_refused("100001", "--n-prompt: 100001 is out of range, expected 0 to 100000");
    check_refused("5-100001", "--n-prompt: 100001 is out of range, expected 0 to 100000");
    check_refused("4-2", "--n-prompt: the range 4-2 ends before it begins");
    check_refused("1-4+0", "--n-prompt: the range 1-4+0 never advances from 1");
    check_refused("2-4*1", "--n-prompt: the range 2-4*1 never advances from 2");
    check_refused("0-4*2", "--n-prompt: the range 0-4*2 never advances from 0");
    check_refused("1-100000", "--n-prompt: more than 1024 values");
}

static void a_range_may_end_at_the_largest_number(void **state)
{
    (void)state;
    const fy_bench_range all = {"x", 0, 0, UINT32_MAX};
    const char *words[] = {"4294967294-4294967295,1-4294967295*4294967295"};
    fy_opt_list l = given(words, 1);
    fy_bench_list got = {0};
    assert_int_equal(fy_bench_numbers(&all, &l, &got, NULL), 0);
    assert_int_equal(got.n, 4);
    assert_int_equal(got.v[1], UINT32_MAX);
    assert_int_equal(got.v[3], UINT32_MAX);
    fy_bench_list_release(&got);
}

static void pairs_are_two_numbers(void **state)
{
    (void)state;
    const char *words[] = {"512,128", "0,4"};
    static const char *const bad[] = {"",      "512", "512,", ",128",    "1,2,3",
                                      "1-2,3", "0,0", "1, 2", "100001,1"};
    fy_opt_list l = given(words, 2);
    fy_bench_list got = {0};
    assert_int_equal(fy_bench_pairs(&range, &l, &got, NULL), 0);
    assert_int_equal(got.n, 4);
    assert_memory_equal(got.v, ((const uint32_t[]){512, 128, 0, 4}), 16);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *word = bad[i];
        l = given(&word, 1);
        assert_int_equal(fy_bench_pairs(&range, &l, &got, NULL), -1);
    }
    l = given(NULL, 0);
    assert_int_equal(fy_bench_pairs(&range, &l, &got, NULL), 0);
    assert_int_equal(got.n, 4);
    fy_bench_list_release(&got);
}

static void types_are_names(void **state)
{
    (void)state;
    const char *words[] = {"f16,F32", "q8_0"};
    static const char *const bad[] = {"",     "f17",  "f16,",
                                      ",f16", "f16 ", "a-name-that-is-far-too-long"};
    fy_opt_list l = given(words, 2);
    fy_bench_list got = {0};
    assert_int_equal(fy_bench_types("cache-type-k", FY_F16, &l, &got, NULL), 0);
    assert_int_equal(got.n, 3);
    assert_memory_equal(got.v, ((const uint32_t[]){FY_F16, FY_F32, FY_Q8_0}), 12);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *word = bad[i];
        fy_err e = {0};
        l = given(&word, 1);
        assert_int_equal(fy_bench_types("cache-type-k", FY_F16, &l, &got, &e), -1);
        assert_non_null(strstr(e.msg, "--cache-type-k: '"));
    }
    fy_bench_list_release(&got);
}

static void times_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds; /* 0: refused */
    } cases[] = {{"90", 90},       {"90s", 90}, {"10m", 600}, {"2h", 7200},
                 {"168h", 604800}, {"1", 1},    {"0", 0},     {"169h", 0},
                 {"", 0},          {"s", 0},    {"1d", 0},    {"1.5h", 0},
                 {"-1", 0},        {"10 m", 0}, {"10ms", 0},  {"4294967295h", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double got = 0;
        fy_err e = {0};
        int rc = fy_bench_seconds("sustained", cases[i].text, &got, &e);
        assert_int_equal(rc, cases[i].seconds > 0 ? 0 : -1);
        assert_true(got == cases[i].seconds);
        assert_int_equal(e.code, rc == 0 ? FY_OK : FY_EARG);
    }
}

/* --- combinations --- */

#define LIST(...)                                                           \
    {                                                                       \
        (uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4, 0 \
    }

static void every_combination_is_a_test(void **state)
{
    (void)state;
    fy_bench_lists l = {.prompt = LIST(512, 0),
                        .gen = LIST(128),
                        .pairs = LIST(64, 16),
                        .depth = LIST(0, 256),
                        .draft = LIST(0),
                        .accept = LIST(70),
                        .batch = LIST(512),
                        .threads = LIST(1, 2),
                        .type_k = LIST(FY_F16),
                        .type_v = LIST(FY_F16)};
    static const char *const want[] = {"pp512",        "tg128",        "pp64+tg16",
                                       "pp512 @ d256", "tg128 @ d256", "pp64+tg16 @ d256"};
    fy_bench_test *t = NULL;
    size_t n = 0;
    char name[FY_BENCH_NAME_BYTES];
    assert_int_equal(fy_bench_combine(&l, &t, &n, NULL), 0);
    assert_int_equal(n, 12);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(fy_bench_name(&t[i], name), want[i % 6]);
        assert_int_equal(t[i].n_threads, 1 + i / 6);
        assert_int_equal(t[i].n_batch, 512);
        assert_int_equal(t[i].type_k, FY_F16);
    }
    free(t);
}

static void no_test_and_too_many_are_refused(void **state)
{
    (void)state;
    uint32_t many[100] = {0};
    for (uint32_t i = 0; i < 100; i++)
        many[i] = i + 1;
    fy_bench_lists l = {.prompt = LIST(0),
                        .gen = LIST(0),
                        .depth = LIST(0),
                        .batch = {many, 100, 0},
                        .threads = {many, 100, 0},
                        .type_k = LIST(FY_F16),
                        .type_v = LIST(FY_F16)};
    fy_bench_test *t = NULL;
    size_t n = 0;
    fy_err none = {0}, too_many = {0};
    assert_int_equal(fy_bench_combine(&l, &t, &n, &none), -1);
    assert_non_null(strstr(none.msg, "nothing to measure"));
    l.prompt.v[0] = 1;
    assert_int_equal(fy_bench_combine(&l, &t, &n, &too_many), -1);
    assert_string_equal(too_many.msg, "10000 settings of 1 tests, expected at most 4096 tests");
    assert_null(t);
}

static void the_longest_name_fits(void **state)
{
    (void)state;
    char name[FY_BENCH_NAME_BYTES];
    const fy_bench_test t = {.n_prompt = UINT32_MAX, .n_gen = UINT32_MAX, .n_depth = UINT32_MAX};
    assert_string_equal(fy_bench_name(&t, name), "pp4294967295+tg4294967295 @ d4294967295");
}

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    const char *words[] = {"1-40"};
    fy_opt_list l = given(words, 1);
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_bench_list got = {0};
        fy_err e = {0};
        alloc_fail_after(n);
        int rc = fy_bench_numbers(&range, &l, &got, &e);
        failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
        fy_bench_list_release(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_numbers_and_ranges_and_options_may_be_repeated),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(a_range_may_end_at_the_largest_number),
        cmocka_unit_test(pairs_are_two_numbers),
        cmocka_unit_test(types_are_names),
        cmocka_unit_test(times_have_units),
        cmocka_unit_test(every_combination_is_a_test),
        cmocka_unit_test(no_test_and_too_many_are_refused),
        cmocka_unit_test(the_longest_name_fits),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
