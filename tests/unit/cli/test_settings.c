/* Values from FERRY_* variables and the configuration file, and messages for mistakes in them. */
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

#include "base/process.h"
#include "cli/call.h"
#include "cli/verb.h"
#include "program/program.h"

/* The value that the settings have for an option of v, of the highest rank; NULL: none. */
static const char *value_of(const fy_settings *s, const fy_verb *v, const char *name)
{
    const fy_opt_given *best = NULL;
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(v->opts[s->given[i].row].name, name) == 0 &&
            (best == NULL || s->given[i].rank > best->rank))
            best = &s->given[i];
    }
    return best != NULL ? best->value : NULL;
}

static int parse(fy_settings *s, const char *verb, const char *text, fy_err *e)
{
    *s = (fy_settings){0};
    return fy_settings_parse(s, fy_verb_find(verb), fy_span_of(text), "config", e);
}

static void a_section_counts_before_what_stands_above(void **state)
{
    (void)state;
    static const char text[] = "# for all\n"
                               "threads = 3\n"
                               "\n"
                               "  ctx_size=512  \r\n"
                               "[run]\n"
                               "threads = 5\n"
                               "temp = 0.5\n"
                               "[ eval ]\n"
                               "threads = 7\n"
                               "[run]\n"
                               "seed = 1";
    fy_settings s;
    fy_err e = {0};
    const fy_verb *run = fy_verb_find("run"), *eval = fy_verb_find("eval");
    assert_int_equal(parse(&s, "run", text, &e), 0);
    assert_string_equal(value_of(&s, run, "threads"), "5");
    assert_string_equal(value_of(&s, run, "ctx-size"), "512");
    assert_string_equal(value_of(&s, run, "temp"), "0.5");
    assert_string_equal(value_of(&s, run, "seed"), "1");
    assert_string_equal(s.given[0].source, "config:2: threads");
    fy_settings_release(&s);
    assert_int_equal(parse(&s, "eval", text, &e), 0);
    assert_string_equal(value_of(&s, eval, "threads"), "7");
    assert_int_equal(s.n, 2);
    fy_settings_release(&s);
    assert_int_equal(parse(&s, "verify", text, &e), 0);
    assert_string_equal(value_of(&s, fy_verb_find("verify"), "threads"), "3");
    assert_int_equal(s.n, 1);
    fy_settings_release(&s);
}

static void values_are_the_rest_of_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *value;
    } cases[] = {{"[run]\nmodel = a b.gguf", "a b.gguf"},
                 {"[run]\nmodel = a # b", "a # b"},
                 {"[run]\nmodel = \"  a \"", "  a "},
                 {"[run]\nmodel = \"", "\""},
                 {"[run]\nmodel = a=b", "a=b"},
                 {"[run]\nmodel =", ""},
                 {"[run]\nmodel = ~/m.gguf", "/elsewhere/m.gguf"},
                 {"[run]\nmodel = ~you/m.gguf", "~you/m.gguf"},
                 {"\xEF\xBB\xBF[run]\nmodel = m", "m"},
                 {"[run]\nsamplers = ~/m", "~/m"}};
    setenv("HOME", "/elsewhere", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_settings s;
        fy_err e = {0};
        assert_int_equal(parse(&s, "run", cases[i].text, &e), 0);
        assert_int_equal(s.n, 1);
        assert_string_equal(s.given[0].value, cases[i].value);
        fy_settings_release(&s);
    }
}

static void mistakes_are_named_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"\nthread = 2", "config:2: unknown name 'thread'; did you mean 'threads'?"},
        {"zzzzzzzzz = 2", "config:1: unknown name 'zzzzzzzzz'"},
        {"t = 2", "config:1: unknown name 't'"},
        {"[runn]", "config:1: unknown verb 'runn'; did you mean 'run'?"},
        {"[run", "config:1: '[run' has no ']' at its end"},
        {"[", "config:1: '[' has no ']' at its end"},
        {"[]", "config:1: unknown verb ''"},
        {"[inspect]\ntemp = 1", "config:2: 'temp' is not an option of inspect"},
        {"[pack]\nlevle = 1", "config:2: 'levle' is not an option of pack; did you mean 'level'?"},
        {"outfile = x", "config:1: 'outfile' is taken from the command line only"},
        {"[convert]\noutfile = x", "config:2: 'outfile' is taken from the command line only"},
        {"threads", "config:1: expected 'name = value', '[verb]' or '# comment', found 'threads'"},
        {"= 3", "config:1: unknown name ''"},
        {"threads = 1\n\nthreads = 2", "config:3: 'threads' is given in line 1 already"},
        {"\033[2J = 1", "config:1: unknown name '\\x1b[2J'"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_settings s;
        fy_err e = {0};
        assert_int_equal(parse(&s, "run", cases[i].text, &e), -1);
        assert_int_equal(e.code, FY_EARG);
        if (strncmp(e.msg, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("'%s' says: %s", cases[i].text, e.msg);
        fy_settings_release(&s);
    }
}

static void bytes_that_are_no_text_are_refused(void **state)
{
    (void)state;
    static char big[FY_SETTINGS_MAX_BYTES + 2];
    fy_settings s = {0};
    fy_err e = {0};
    memset(big, '#', sizeof big);
    const fy_verb *run = fy_verb_find("run");
    assert_int_equal(fy_settings_parse(&s, run, (fy_span){big, sizeof big}, "config", &e), -1);
    assert_non_null(strstr(e.msg, "larger than"));
    fy_settings_release(&s);
    e = (fy_err){0};
    assert_int_equal(fy_settings_parse(&s, run, (fy_span){"#\n#\0#", 5}, "config", &e), -1);
    assert_string_equal(e.msg, "config:2: a NUL byte: not a configuration file");
    fy_settings_release(&s);
    e = (fy_err){0};
    assert_int_equal(fy_settings_parse(&s, run, (fy_span){big, 1 << 16}, "config", &e), 0);
    fy_settings_release(&s);
}

/* --- files and variables, in a directory of their own --------------------------------------- */

static char root[64];

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void set(const char *variable, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    setenv(variable, path, 1);
}

static int begin(void **state)
{
    (void)state;
    static const char *const variables[] = {"FERRY_CONFIG",  "XDG_CONFIG_HOME", "HOME",
                                            "FERRY_THREADS", "FERRY_CTX_SIZE",  "FERRY_OUTFILE"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    strcpy(root, "/tmp/ferry-settings-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static const char *threads_of(fy_settings *s, fy_err *e)
{
    const fy_verb *v = fy_verb_find("run");
    return fy_settings_read(s, v, e) == 0 ? value_of(s, v, "threads") : "failed";
}

static void the_file_is_found_where_the_standard_says(void **state)
{
    (void)state;
    char path[256];
    fy_settings s;
    fy_err e = {0};
    snprintf(path, sizeof path, "%s/.config/ferry", root);
    char command[300];
    snprintf(command, sizeof command, "mkdir -p %s %s/xdg/ferry", path, root);
    assert_int_equal(system(command), 0);
    write_file(".config/ferry/config", "threads = 1\n");
    write_file("xdg/ferry/config", "threads = 2\n");
    write_file("named", "threads = 3\n");

    assert_null(threads_of(&s, &e)); /* no HOME at all */
    assert_null(s.path);
    fy_settings_release(&s);
    set("HOME", "");
    assert_string_equal(threads_of(&s, &e), "1");
    fy_settings_release(&s);
    setenv("XDG_CONFIG_HOME", "relative", 1);
    assert_string_equal(threads_of(&s, &e), "1");
    fy_settings_release(&s);
    set("XDG_CONFIG_HOME", "xdg");
    assert_string_equal(threads_of(&s, &e), "2");
    fy_settings_release(&s);
    set("FERRY_CONFIG", "named");
    assert_string_equal(threads_of(&s, &e), "3");
    assert_non_null(strstr(s.path, "/named"));
    fy_settings_release(&s);
    setenv("FERRY_CONFIG", "/dev/null", 1);
    assert_null(threads_of(&s, &e));
    fy_settings_release(&s);
    setenv("FERRY_CONFIG", "", 1);
    set("XDG_CONFIG_HOME", "empty");
    assert_null(threads_of(&s, &e));
    fy_settings_release(&s);
}

static void a_file_that_was_named_has_to_be_one(void **state)
{
    (void)state;
    char path[256];
    static const char *const names[] = {"missing", "", "fifo"};
    static const char *const messages[] = {"cannot open", "is not a regular file",
                                           "is not a regular file"};
    snprintf(path, sizeof path, "%s/fifo", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (size_t i = 0; i < 3; i++) {
        fy_settings s;
        fy_err e = {0};
        set("FERRY_CONFIG", names[i]);
        assert_string_equal(threads_of(&s, &e), "failed");
        assert_non_null(strstr(e.msg, messages[i]));
        fy_settings_release(&s);
    }
}

static void variables_count_before_the_file(void **state)
{
    (void)state;
    fy_settings s;
    fy_err e = {0};
    write_file("config", "threads = 1\n[run]\nthreads = 2\nctx-size = 8\n");
    set("FERRY_CONFIG", "config");
    setenv("FERRY_THREADS", "9", 1);
    setenv("FERRY_CTX_SIZE", "", 1);
    assert_string_equal(threads_of(&s, &e), "9");
    assert_string_equal(value_of(&s, fy_verb_find("run"), "ctx-size"), "8");
    fy_settings_release(&s);
}

static void what_names_an_output_has_no_variable(void **state)
{
    (void)state;
    fy_settings s;
    fy_err e = {0};
    setenv("FERRY_OUTFILE", "precious", 1);
    assert_int_equal(fy_settings_read(&s, fy_verb_find("convert"), &e), 0);
    assert_int_equal(s.n, 0);
    fy_settings_release(&s);
}

/* The tests and scripts of this project use these themselves. */
static void no_variable_of_an_option_is_taken_already(void **state)
{
    (void)state;
    static const char *const taken[] = {
        "FERRY_CONFIG",      "FERRY_ARM",       "FERRY_REAL",      "FERRY_PEER",
        "FERRY_BENCH_MODEL", "FERRY_BENCH_DIR", "FERRY_NO_CONFIG", "FERRY_VERSION",  "FERRY_HELP"};
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
        for (size_t i = 0; i < (*v)->n_opts; i++) {
            char name[64];
            fy_settings_variable((*v)->opts[i].name, name, sizeof name);
            for (size_t k = 0; k < sizeof taken / sizeof taken[0]; k++)
                assert_string_not_equal(name, taken[k]);
        }
    }
}

int main(void)
{
    fy_program_set(&fy_ferry);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_section_counts_before_what_stands_above),
        cmocka_unit_test(values_are_the_rest_of_the_line),
        cmocka_unit_test(mistakes_are_named_with_their_line),
        cmocka_unit_test(bytes_that_are_no_text_are_refused),
        cmocka_unit_test_setup_teardown(the_file_is_found_where_the_standard_says, begin, end),
        cmocka_unit_test_setup_teardown(a_file_that_was_named_has_to_be_one, begin, end),
        cmocka_unit_test_setup_teardown(variables_count_before_the_file, begin, end),
        cmocka_unit_test_setup_teardown(what_names_an_output_has_no_variable, begin, end),
        cmocka_unit_test(no_variable_of_an_option_is_taken_already),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
