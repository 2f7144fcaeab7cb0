/* A call of a verb: its own options, and those it passes on to other verbs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/call.h"
#include "cli/verb.h"
#include "program/program.h"

typedef struct {
    const char *name;
    bool loud;
    fy_opt_list chat, convert;
} options;

static const fy_opt opts[] = {
    {.group = "A",
     .name = "name",
     .alias = "n",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = offsetof(options, name),
     .help = "A name."},
    {.group = "A",
     .name = "loud",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, loud),
     .help = "Loud."},
};

static options seen;
static char lists[2][200];

static void join(const fy_opt_list *l, char *out)
{
    *out = '\0';
    for (size_t i = 0; i < l->n; i++)
        strcat(strcat(out, l->items[i]), " ");
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    seen = *(const options *)opaque;
    join(&seen.chat, lists[0]);
    join(&seen.convert, lists[1]);
    assert_string_equal(fy_option_source(&((options *)opaque)->name), "command line");
    return n_args == 1 && strcmp(args[0], "fail") == 0 ? fy_fail(e, FY_EFIT, "no") : 0;
}

static const fy_borrow borrowed[] = {{"chat", "model|work-folder", offsetof(options, chat)},
                                     {"convert", NULL, offsetof(options, convert)},
                                     {NULL, NULL, 0}};

static const fy_verb verb = {.name = "test",
                             .synopsis = "[X]",
                             .max_args = 1,
                             .opts = opts,
                             .n_opts = 2,
                             .opts_bytes = sizeof(options),
                             .borrow = borrowed,
                             .run = run};

static int call(const char *line, fy_err *e)
{
    static char text[300];
    char *argv[32];
    int argc = 0, status = -1;
    strcpy(text, line);
    for (char *w = strtok(text, " "); w != NULL; w = strtok(NULL, " "))
        argv[argc++] = w;
    fy_call c;
    int rc = fy_call_open(&c, &verb, argc, argv, e);
    if (rc == 0)
        rc = fy_call_run(&c, &status, e);
    if (rc == 0)
        assert_int_equal(status, 0);
    fy_call_close(&c);
    return rc;
}

static void options_of_other_verbs_are_collected_for_them(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(call("--temp 0 -n me -ctk f32 x --outtype=q8_0 --loud --json", &e), 0);
    assert_string_equal(seen.name, "me");
    assert_true(seen.loud);
    assert_string_equal(lists[0], "--temp 0 -ctk f32 --json ");
    assert_string_equal(lists[1], "--outtype=q8_0 ");
}

static void what_is_excepted_or_unknown_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(call("-n me --work-folder x", &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "unknown option '--work-folder'"));
    e = (fy_err){0};
    assert_int_equal(call("-n me a b", &e), -1);
    assert_non_null(strstr(e.msg, "too many arguments"));
}

static void words_behind_two_dashes_belong_to_the_verb(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(call("-n me -- --temp", &e), 0);
    assert_string_equal(lists[0], "");
}

static void a_failure_is_passed_on(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(call("-n me fail", &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_null(fy_option_source(&seen.name));
}

static void a_call_with_a_place_is_for_the_phone(void **state)
{
    (void)state;
    static const struct {
        const char *words[2];
        bool remote;
        const char *serial;
    } cases[] = {{{"--device", "-q"}, true, ""},
                 {{"--device=A", "-q"}, true, "A"},
                 {{"-s=B", "-q"}, true, "B"},
                 {{"-q", "-q"}, false, NULL},
                 {{"--device", "--serial=C"}, true, "C"},
                 {{"--device=C", "-s=C"}, true, "C"},
                 {{"--device=A", "-s=C"}, true, NULL}};
    fy_err e = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[2][20];
        char *argv[] = {strcpy(words[0], cases[i].words[0]), strcpy(words[1], cases[i].words[1])};
        const char *serial;
        fy_call c;
        assert_int_equal(fy_call_open(&c, fy_verb_find("tokenize"), 2, argv, &e), 0);
        assert_int_equal(fy_call_is_remote(&c, &serial), cases[i].remote);
        if (cases[i].serial == NULL)
            assert_null(serial);
        else
            assert_string_equal(serial, cases[i].serial);
        fy_call_close(&c);
    }
}

int main(void)
{
    fy_program_set(&fy_ferry);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_other_verbs_are_collected_for_them),
        cmocka_unit_test(what_is_excepted_or_unknown_is_refused),
        cmocka_unit_test(words_behind_two_dashes_belong_to_the_verb),
        cmocka_unit_test(a_failure_is_passed_on),
        cmocka_unit_test(a_call_with_a_place_is_for_the_phone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
