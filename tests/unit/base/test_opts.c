#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/opts.h"

typedef struct {
    bool verbose;
    const char *model;
    int64_t threads, seed, cache;
    double temp;
    int out_type;
    fy_opt_list extra;
} options;

static const fy_opt table[] = {
    {"Model", "model", "m", FY_OPT_STR, "FILE", offsetof(options, model), NULL, 0, 0, "The model.",
     false},
    {"Model", "outtype", NULL, FY_OPT_CHOICE, "auto|f32|f16", offsetof(options, out_type), "auto",
     0, 0, "Type of the matrices.", false},
    {"Model", "extra", "x", FY_OPT_STR, "NAME", offsetof(options, extra), NULL, 0, 0,
     "May be repeated.", true},
    {"Run", "threads", "t", FY_OPT_INT, "N", offsetof(options, threads), "4", 1, 256, "Threads.",
     false},
    {"Run", "seed", NULL, FY_OPT_INT, "N", offsetof(options, seed), NULL, 0, 0, "Seed.", false},
    {"Run", "cache-type-size", "ctk", FY_OPT_SIZE, "BYTES", offsetof(options, cache), "2K", 0, 0,
     "Cache.", false},
    {"Run", "temp", NULL, FY_OPT_FLOAT, "T", offsetof(options, temp), NULL, 0, 2, "Temperature.",
     false},
    {"Run", "verbose", "v", FY_OPT_FLAG, NULL, offsetof(options, verbose), NULL, 0, 0, "Say more.",
     false},
};
enum { N_OPTS = sizeof table / sizeof table[0], MAX_ARGS = 16 };

static char *argv[MAX_ARGS];
static int n_args;
static bool help;

/* Parses a command line given as words separated by blanks. */
static int parse(options *o, const char *line, fy_err *e)
{
    static char text[512];
    int argc = 0;
    strcpy(text, line);
    for (char *w = strtok(text, " "); w != NULL; w = strtok(NULL, " "))
        argv[argc++] = w;
    memset(o, 0x5A, sizeof *o);
    return fy_opts_parse(table, N_OPTS, o, argc, argv, &n_args, &help, e);
}

static void defaults_hold_when_nothing_is_given(void **state)
{
    (void)state;
    options o;
    fy_err e = {0};
    assert_int_equal(parse(&o, "", &e), 0);
    assert_int_equal(n_args, 0);
    assert_false(help);
    assert_false(o.verbose);
    assert_null(o.model);
    assert_int_equal(o.threads, 4);
    assert_true(o.seed == FY_OPT_UNSET_INT);
    assert_int_equal(o.cache, 2048);
    assert_true(isnan(o.temp));
    assert_int_equal(o.out_type, 0);
    assert_int_equal(o.extra.n, 0);
}

static void every_spelling_of_an_option_works(void **state)
{
    (void)state;
    options o;
    fy_err e = {0};
    assert_int_equal(
        parse(&o, "in --model=a --outtype f16 -t 8 --cache_type_size 1G --temp 0.5 -v out", &e), 0);
    assert_string_equal(o.model, "a");
    assert_int_equal(o.out_type, 2);
    assert_int_equal(o.threads, 8);
    assert_int_equal(o.cache, 1 << 30);
    assert_true(o.temp == 0.5);
    assert_true(o.verbose);
    assert_int_equal(n_args, 2);
    assert_string_equal(argv[0], "in");
    assert_string_equal(argv[1], "out");
    assert_int_equal(parse(&o, "-ctk 3M -m=b --seed -7", &e), 0);
    assert_int_equal(o.cache, 3 << 20);
    assert_string_equal(o.model, "b");
    assert_int_equal(o.seed, -7);
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    options o;
    fy_err e = {0};
    assert_int_equal(parse(&o, "-v -- --model -t", &e), 0);
    assert_int_equal(n_args, 2);
    assert_string_equal(argv[0], "--model");
    assert_string_equal(argv[1], "-t");
    assert_int_equal(parse(&o, "- x", &e), 0);
    assert_int_equal(n_args, 2);
}

static void repeated_options_are_listed_or_the_last_one_counts(void **state)
{
    (void)state;
    options o;
    fy_err e = {0};
    assert_int_equal(parse(&o, "-x a --extra=b -x c -t 1 -t 2", &e), 0);
    assert_int_equal(o.extra.n, 3);
    assert_string_equal(o.extra.items[0], "a");
    assert_string_equal(o.extra.items[2], "c");
    assert_int_equal(o.threads, 2);
    fy_opt_list_release(&o.extra);
    assert_int_equal(o.extra.n, 0);
}

static void help_stops_the_parser(void **state)
{
    (void)state;
    options o;
    fy_err e = {0};
    assert_int_equal(parse(&o, "-v --help --nonsense", &e), 0);
    assert_true(help);
    assert_int_equal(parse(&o, "-h", &e), 0);
    assert_true(help);
}

static void mistakes_are_named_with_what_was_meant(void **state)
{
    (void)state;
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"--modle x", "did you mean --model"},
        {"--zzzzzz", "--help lists them"},
        {"-q", "unknown option 'q'"},
        {"--threads", "needs a value"},
        {"-t 0", "out of range, expected 1 to 256"},
        {"-t 257", "out of range"},
        {"-t 1K", "not a whole number"},
        {"-t 1.5", "not a whole number"},
        {"-t 99999999999999999999", "not a whole number"},
        {"-ctk 9999999999G", "not a whole number"},
        {"--temp warm", "not a number"},
        {"--temp nan", "not a number"},
        {"--temp 3", "out of range"},
        {"--outtype q9", "not one of auto|f32|f16"},
        {"--outtype f", "not one of"},
        {"--verbose=1", "takes no value"},
        {"--model-with-a-name-that-is-far-longer-than-any-option-of-any-verb-could-ever-be x",
         "unknown option"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options o;
        fy_err e = {0};
        assert_int_equal(parse(&o, cases[i].line, &e), -1);
        assert_int_equal(e.code, FY_EARG);
        if (strstr(e.msg, cases[i].words) == NULL)
            fail_msg("'%s' says: %s", cases[i].line, e.msg);
    }
}

static void help_text_shows_groups_defaults_and_values(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_opts_help(table, N_OPTS, &s);
    static const char *const parts[] = {
        "Model:\n", "Run:\n",       "  -m, --model FILE", "--outtype auto|f32|f16",
        "[auto]",   "Threads. [4]", "-v, --verbose"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_non_null(strstr(fy_str_z(&s), parts[i]));
    for (const char *line = s.ptr; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        assert_true(n <= 100);
        line += n + (line[n] == '\n');
    }
    fy_str_release(&s);
}

static void sizes_take_a_suffix_and_nothing_else(void **state)
{
    (void)state;
    int64_t v = -1;
    assert_true(fy_parse_size("17", &v) && v == 17);
    assert_true(fy_parse_size("1k", &v) && v == 1024);
    assert_true(fy_parse_size("-2M", &v) && v == -2 * 1024 * 1024);
    assert_true(fy_parse_size("3G", &v) && v == (int64_t)3 << 30);
    static const char *const bad[] = {
        "", "K", "1KB", "1T", "x", "1 ", "9223372036854775808", "9223372036854775807K"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(fy_parse_size(bad[i], &v));
}

static void the_nearest_word_is_found_and_a_far_one_is_not(void **state)
{
    (void)state;
    static const char *const words[] = {"convert", "quantize", "run"};
    assert_string_equal(fy_nearest("qantise", words, 3), "quantize");
    assert_string_equal(fy_nearest("covnert", words, 3), "convert");
    assert_null(fy_nearest("zzzzzzzz", words, 3));
    assert_null(fy_nearest("run", words, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold_when_nothing_is_given),
        cmocka_unit_test(every_spelling_of_an_option_works),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(repeated_options_are_listed_or_the_last_one_counts),
        cmocka_unit_test(help_stops_the_parser),
        cmocka_unit_test(mistakes_are_named_with_what_was_meant),
        cmocka_unit_test(help_text_shows_groups_defaults_and_values),
        cmocka_unit_test(sizes_take_a_suffix_and_nothing_else),
        cmocka_unit_test(the_nearest_word_is_found_and_a_far_one_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
