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
    const char *model, *folder, *place;
    int64_t threads, seed, exact, wide, cache;
    double temp;
    int out_type;
    fy_opt_list extra;
} options;

#define ROW(grp, long_name, short_name, opt_kind, field, ...)                   \
    {                                                                           \
        .group = grp, .name = long_name, .alias = short_name, .kind = opt_kind, \
        .offset = offsetof(options, field), __VA_ARGS__                         \
    }

static const fy_opt table[] = {
    ROW("Model", "model", "m", FY_OPT_STR, model, .arg = "FILE", .help = "The model.",
        .set = "model"),
    ROW("Model", "folder", "d", FY_OPT_STR, folder, .arg = "DIR", .help = "The folder.",
        .set = "model"),
    ROW("Model", "outtype", NULL, FY_OPT_CHOICE, out_type, .arg = "auto|f32|f16|q8_0",
        .def = "auto", .help = "Type of the matrices."),
    ROW("Model", "extra", "x", FY_OPT_STR, extra, .arg = "NAME", .help = "May be repeated.",
        .many = true),
    ROW("Run", "threads", "t", FY_OPT_INT, threads, .arg = "N", .def = "4", .min = 1, .max = 256,
        .help = "Threads."),
    ROW("Run", "seed", NULL, FY_OPT_INT, seed, .arg = "N", .help = "Seed."),
    ROW("Run", "exact", NULL, FY_OPT_INT, exact, .arg = "N", .min = -0x1p63,
        .max = 9007199254740992.0, .help = "As far as a double counts."),
    ROW("Run", "wide", NULL, FY_OPT_INT, wide, .arg = "N", .min = 0, .max = 0x1p63,
        .help = "All that is not negative."),
    ROW("Run", "cache-type-size", "ctk", FY_OPT_SIZE, cache, .arg = "BYTES", .def = "2K",
        .help = "Cache."),
    ROW("Run", "temp", NULL, FY_OPT_FLOAT, temp, .arg = "T", .max = 2, .help = "Temperature."),
    ROW("Run", "place", "p", FY_OPT_STR, place, .arg = "NAME", .bare = "", .help = "Where."),
    ROW("Run", "verbose", "v", FY_OPT_FLAG, verbose, .help = "Say more."),
};
enum { N_OPTS = sizeof table / sizeof table[0], MAX_ARGS = 24 };

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
        {"-q", "unknown option '-q'"},
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
        {"--outtype q80", "'q80' is not one of auto|f32|f16|q8_0; did you mean q8_0?"},
        {"--outtype f", "not one of"},
        {"--outtype \033[2J", "'\\x1b[2J' is not one of"},
        {"--\033x", "unknown option '--\\x1bx'"},
        {"--verbose=perhaps", "--verbose: 'perhaps' is neither yes nor no"},
        {"--verbose=", "neither yes nor no"},
        {"--exact 9007199254740993",
         "out of range, expected -9223372036854775808 to 9007199254740992"},
        {"--wide -1", "out of range, expected 0 to 9223372036854775807"},
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

static void a_flag_takes_yes_and_no(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool on;
    } cases[] = {
        {"--verbose=yes", true},   {"--verbose=1", true},      {"--verbose=ON", true},
        {"--verbose=true", true},  {"--verbose=0", false},     {"--verbose=no", false},
        {"-v=off", false},         {"--verbose=False", false}, {"-v --verbose=no -v", true},
        {"-v --verbose=no", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options o;
        fy_err e = {0};
        assert_int_equal(parse(&o, cases[i].line, &e), 0);
        assert_int_equal(o.verbose, cases[i].on);
    }
}

static void whole_numbers_are_compared_with_their_limits_exactly(void **state)
{
    (void)state;
    options o;
    fy_err e = {0};
    assert_int_equal(parse(&o, "--exact 9007199254740992 --wide 9223372036854775807", &e), 0);
    assert_true(o.exact == 9007199254740992 && o.wide == INT64_MAX);
    assert_int_equal(parse(&o, "--exact -9223372036854775807 --wide 0", &e), 0);
    assert_true(o.exact == -INT64_MAX && o.wide == 0);
    assert_int_equal(parse(&o, "--seed 9223372036854775807", &e), 0);
    assert_true(o.seed == INT64_MAX);
}

/* Parses `line`, then lets the given values fill what it leaves open. */
static int fill(options *o, const char *line, const fy_opt_given *given, size_t n, fy_err *e)
{
    static char text[512];
    static const char *from[N_OPTS];
    int argc = 0;
    strcpy(text, line);
    for (char *w = strtok(text, " "); w != NULL; w = strtok(NULL, " "))
        argv[argc++] = w;
    memset(o, 0x5A, sizeof *o);
    assert_int_equal(fy_opts_parse_from(table, N_OPTS, o, argc, argv, &n_args, &help, from, e), 0);
    return fy_opts_fill(table, N_OPTS, o, given, n, from, e);
}

enum { MODEL, FOLDER, OUTTYPE, EXTRA, THREADS };

static void a_value_from_elsewhere_counts_after_the_arguments(void **state)
{
    (void)state;
    static const fy_opt_given given[] = {{THREADS, 1, "2", "file:1: threads"},
                                         {THREADS, 3, "3", "FERRY_THREADS"},
                                         {THREADS, 2, "5", "file:9: threads"},
                                         {OUTTYPE, 1, "f16", "file:2: outtype"}};
    options o;
    fy_err e = {0};
    assert_int_equal(fill(&o, "", given, 4, &e), 0);
    assert_int_equal(o.threads, 3);
    assert_int_equal(o.out_type, 2);
    assert_int_equal(fill(&o, "-t 7", given, 4, &e), 0);
    assert_int_equal(o.threads, 7);
    assert_int_equal(o.out_type, 2);
    assert_int_equal(fill(&o, "", given, 1, &e), 0);
    assert_int_equal(o.threads, 2);
}

static void a_value_from_elsewhere_is_named_in_the_message(void **state)
{
    (void)state;
    static const fy_opt_given bad[] = {{THREADS, 3, "abc", "FERRY_THREADS"},
                                       {OUTTYPE, 1, "f17", "file:2: outtype"}};
    options o;
    fy_err e = {0};
    assert_int_equal(fill(&o, "", bad, 1, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_string_equal(e.msg, "FERRY_THREADS: 'abc' is not a whole number");
    e = (fy_err){0};
    assert_int_equal(fill(&o, "", bad + 1, 1, &e), -1);
    assert_non_null(strstr(e.msg, "file:2: outtype: 'f17' is not one of"));
    e = (fy_err){0};
    assert_int_equal(fill(&o, "-t 1 --outtype f32", bad, 2, &e), 0);
}

static void options_of_a_set_silence_each_other(void **state)
{
    (void)state;
    static const fy_opt_given given[] = {{MODEL, 3, "a.gguf", "FERRY_MODEL"},
                                         {FOLDER, 1, "dir", "file:1: folder"}};
    options o;
    fy_err e = {0};
    assert_int_equal(fill(&o, "-d here", given, 2, &e), 0);
    assert_null(o.model);
    assert_string_equal(o.folder, "here");
    assert_int_equal(fill(&o, "", given, 2, &e), 0);
    assert_string_equal(o.model, "a.gguf");
    assert_null(o.folder);
    assert_int_equal(fill(&o, "", given + 1, 1, &e), 0);
    assert_string_equal(o.folder, "dir");
}

static void a_list_from_elsewhere_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    static const fy_opt_given given[] = {
        {EXTRA, 1, "a", "file:1: extra"}, {EXTRA, 2, "b", "x"}, {EXTRA, 2, "c", "x"}};
    options o;
    fy_err e = {0};
    assert_int_equal(fill(&o, "", given, 3, &e), 0);
    assert_int_equal(o.extra.n, 2);
    assert_string_equal(o.extra.items[1], "c");
    fy_opts_release(table, N_OPTS, &o);
    assert_int_equal(fill(&o, "-x z", given, 3, &e), 0);
    assert_int_equal(o.extra.n, 1);
    fy_opts_release(table, N_OPTS, &o);
}

static void words_for_values_say_which_files_are_meant(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        unsigned kinds;
        const char *ext;
    } cases[] = {{"FILE", FY_NAMES_ANY, ""},
                 {"DIR", FY_NAMES_DIR, ""},
                 {"MODEL.gguf", FY_NAMES_EXT, "gguf"},
                 {"MODEL.gguf...", FY_NAMES_EXT, "gguf"},
                 {"[FILE.json]", FY_NAMES_EXT, "json"},
                 {"FILE.gguf|DIR", FY_NAMES_EXT | FY_NAMES_DIR, "gguf"},
                 {"none|NAME|FILE", FY_NAMES_ANY, ""},
                 {"[TEXT...]", 0, ""},
                 {"N", 0, ""},
                 {"", 0, ""},
                 {"FILE.averyveryverylongextension", FY_NAMES_EXT, "averyveryverylo"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char ext[FY_EXT_BYTES];
        assert_int_equal(fy_arg_names(cases[i].word, strlen(cases[i].word), ext), cases[i].kinds);
        assert_string_equal(ext, cases[i].ext);
    }
}

static void help_text_shows_groups_defaults_and_values(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_opts_help(table, N_OPTS, &s);
    static const char *const parts[] = {
        "Model:\n", "Run:\n",       "  -m, --model FILE", "--outtype auto|f32|f16|q8_0",
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
    assert_string_equal(fy_nearest("quant", words, 3), "quantize");
    assert_string_equal(fy_nearest("running-now", words, 3), "run");
    assert_string_equal(fy_nearest("runn", words, 3), "run");
    assert_null(fy_nearest("co", words, 3));
    assert_null(fy_nearest("zzzzzzzz", words, 3));
    assert_null(fy_nearest("run", words, 0));
}

static void a_value_that_may_be_left_out_stands_behind_an_equals_sign(void **state)
{
    (void)state;
    fy_err e = {0};
    options o;
    assert_int_equal(parse(&o, "a", &e), 0);
    assert_null(o.place);
    assert_int_equal(parse(&o, "--place a", &e), 0);
    assert_string_equal(o.place, "");
    assert_int_equal(n_args, 1);
    assert_int_equal(parse(&o, "--place=here -v", &e), 0);
    assert_string_equal(o.place, "here");
    fy_str s = {0};
    fy_opts_help(table, N_OPTS, &s);
    assert_non_null(strstr(s.ptr, "--place[=NAME] "));
    fy_str_release(&s);
}

/* "--name=value" of every value that is held; parsed again it is the same. */
static void put_all(const options *o, fy_str *out)
{
    for (size_t i = 0; i < N_OPTS; i++) {
        for (size_t nth = 0;; nth++) {
            size_t begin = out->len;
            fy_str_printf(out, "--%s=", table[i].name);
            if (!fy_opt_value(&table[i], o, nth, out)) {
                out->len = begin;
                break;
            }
            fy_str_putc(out, ' ');
        }
    }
    out->len -= out->len > 0;
    out->ptr[out->len] = '\0';
}

static void values_are_written_as_they_are_read(void **state)
{
    (void)state;
    fy_err e = {0};
    options o;
    fy_str a = {0}, b = {0};
    assert_int_equal(parse(&o,
                           "-m f -x 1 -x 2 --seed -9 --wide 9223372036854775807 --temp 0.1 "
                           "--outtype q8_0 -ctk 3K --place -v",
                           &e),
                     0);
    put_all(&o, &a);
    fy_opts_release(table, N_OPTS, &o);
    assert_string_equal(a.ptr, "--model=f --outtype=q8_0 --extra=1 --extra=2 --threads=4 --seed=-9 "
                               "--wide=9223372036854775807 --cache-type-size=3072 "
                               "--temp=0.10000000000000001 --place= --verbose=yes");
    assert_int_equal(parse(&o, a.ptr, &e), 0);
    put_all(&o, &b);
    assert_string_equal(a.ptr, b.ptr);
    fy_opts_release(table, N_OPTS, &o);
    fy_str_release(&a);
    fy_str_release(&b);
}

static void a_word_is_found_with_or_without_its_value(void **state)
{
    (void)state;
    static const struct {
        const char *word, *name;
        bool next;
    } cases[] = {{"-m", "model", true},
                 {"--model", "model", true},
                 {"--model=x", "model", false},
                 {"-ctk", "cache-type-size", true},
                 {"--cache_type_size", "cache-type-size", true},
                 {"--verbose", "verbose", false},
                 {"--place", "place", false},
                 {"--modl", NULL, false},
                 {"m", NULL, false},
                 {"-", NULL, false},
                 {"--", NULL, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool next;
        const fy_opt *o = fy_opts_find(table, N_OPTS, cases[i].word, &next);
        assert_int_equal(o != NULL, cases[i].name != NULL);
        if (o != NULL)
            assert_string_equal(o->name, cases[i].name);
        assert_int_equal(next, cases[i].next);
    }
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
        cmocka_unit_test(a_flag_takes_yes_and_no),
        cmocka_unit_test(whole_numbers_are_compared_with_their_limits_exactly),
        cmocka_unit_test(a_value_from_elsewhere_counts_after_the_arguments),
        cmocka_unit_test(a_value_from_elsewhere_is_named_in_the_message),
        cmocka_unit_test(options_of_a_set_silence_each_other),
        cmocka_unit_test(a_list_from_elsewhere_is_taken_whole_or_not_at_all),
        cmocka_unit_test(words_for_values_say_which_files_are_meant),
        cmocka_unit_test(help_text_shows_groups_defaults_and_values),
        cmocka_unit_test(sizes_take_a_suffix_and_nothing_else),
        cmocka_unit_test(the_nearest_word_is_found_and_a_far_one_is_not),
        cmocka_unit_test(a_value_that_may_be_left_out_stands_behind_an_equals_sign),
        cmocka_unit_test(values_are_written_as_they_are_read),
        cmocka_unit_test(a_word_is_found_with_or_without_its_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
