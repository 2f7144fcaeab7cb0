#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/measure/eval.h"

static void texts_of_the_plain_form_are_as_they_are(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"query\": \" a [b]  c \", \"choices\": [\"x [y]\", \" z\"], \"gold\": 1}",
        "{\"ctx\": \" a [b]  c \", \"endings\": [\"x [y]\", \" z\"], \"label\": \"1\"}",
        ("{\"context\": \" a [b]  c \", \"choices\": [\"x [y]\", \" z\"], \"label\": 1, \"ctx_a\": "
         "3}"),
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        fy_choice_item item = {0};
        assert_int_equal(fy_choice_read(fy_span_of(lines[i]), &item, NULL), 0);
        assert_string_equal(fy_str_z(&item.query), " a [b]  c ");
        assert_int_equal(item.n_choices, 2);
        assert_string_equal(fy_str_z(&item.choices[0]), "x [y]");
        assert_string_equal(fy_str_z(&item.choices[1]), " z");
        assert_int_equal(item.label, 1);
        fy_choice_release(&item);
    }
}

static void hellaswag_is_cleaned_as_the_harness_does(void **state)
{
    (void)state;
    /* expected texts: preprocess() of lm_eval/tasks/hellaswag/utils.py run by Python */
    static const struct {
        const char *a, *b, *ending, *query, *cleaned;
    } cases[] = {
        {"A man.", "he SAYS Hi", "goes on.", "Act: A man. He says hi", "goes on."},
        {"[header] How to x [title] Do it. [step] Then", "[substeps] one", " a [title] b  ",
         "Act: How to x. Do it. Then one", "a. b"},
        {"a", "", "x   y    z", "Act: a", "x  y  z"},
        {"[unclosed a", "b] c [\\n] d", "[x]", "Act: c [\n] d", NULL},
        {"a ]b[ [c]]", "\\u00e9LAN \\u0130", "\\u00a0 nbsp \\u3000",
         "Act: a ]b] \xC3\x89lan i\xCC\x87", "nbsp"},
        {"x", "\\u01c6 \\u00df", "[[a] b]", "Act: x \xC7\x85 \xC3\x9F", " b]"},
        {"[a][b]c[]d", "e\\u0000f", "[", "Act: cd E", "["},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[512];
        fy_choice_item item = {0};
        fy_err e = {0};
        snprintf(line, sizeof line,
                 "{\"activity_label\": \"Act\", \"ctx_a\": \"%s\", \"ctx_b\": \"%s\", \"ctx\": 0, "
                 "\"endings\": [\"no\", \"%s\"], \"label\": \"0\"}",
                 cases[i].a, cases[i].b, cases[i].ending);
        int rc = fy_choice_read(fy_span_of(line), &item, &e);
        if (cases[i].cleaned == NULL) {
            assert_int_equal(rc, -1);
            assert_string_equal(e.msg, "choice 1 is empty");
        } else {
            assert_int_equal(rc, 0);
            assert_string_equal(fy_str_z(&item.choices[1]), cases[i].cleaned);
        }
        assert_string_equal(fy_str_z(&item.query), cases[i].query);
        fy_choice_release(&item);
    }
}

static void what_is_no_item_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"", "not JSON"},
        {"no", "not JSON"},
        {"[1]", "expected a JSON object"},
        {"{\"query\": \"a\", \"query\": \"b\"}", "second key"},
        {"{\"choices\": [\"a\", \"b\"], \"gold\": 0}", "no \"query\""},
        {"{\"query\": 1, \"choices\": [\"a\", \"b\"], \"gold\": 0}", "is not a string"},
        {"{\"query\": \"q\", \"gold\": 0}", "an array of two strings or more"},
        {"{\"query\": \"q\", \"choices\": [], \"gold\": 0}", "an array of two strings or more"},
        {"{\"query\": \"q\", \"choices\": [\"a\"], \"gold\": 0}",
         "an array of two strings or more"},
        {"{\"query\": \"q\", \"choices\": \"ab\", \"gold\": 0}", "an array of two strings or more"},
        {"{\"query\": \"q\", \"choices\": [\"a\", 2], \"gold\": 0}", "choice 1 is not a string"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"\"], \"gold\": 0}", "choice 1 is empty"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"]}",
         "no \"gold\" or \"label\", expected 0 to 1"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 2}", "too large"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": -1}", "expected 0 to 1"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"label\": \"\"}", "expected 0 to 1"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"label\": \"1 \"}", "expected 0 to 1"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"label\": \"1\\u0000\"}",
         "expected 0 to 1"},
        {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"label\": 0.5}", "expected 0 to 1"},
        {"{\"activity_label\": \"q\", \"ctx_a\": 1, \"ctx_b\": \"\", \"endings\": [\"a\", \"b\"], "
         "\"label\": 0}",
         "\"ctx_a\" is not a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_choice_item item = {0};
        fy_err e = {0};
        assert_int_equal(fy_choice_read(fy_span_of(cases[i].line), &item, &e), -1);
        if (strstr(e.msg, cases[i].message) == NULL)
            fail_msg("%s: %s", cases[i].line, e.msg);
        fy_choice_release(&item);
    }
    fy_choice_item item = {0};
    assert_int_equal(fy_choice_read((fy_span){"{\"query\": \"a\0\"}", 14}, &item, NULL), -1);
    fy_choice_release(&item);
}

static void a_length_is_in_characters(void **state)
{
    (void)state;
    assert_int_equal(fy_choice_length(FY_SPAN("")), 0);
    assert_int_equal(fy_choice_length(FY_SPAN("a\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80")), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_the_plain_form_are_as_they_are),
        cmocka_unit_test(hellaswag_is_cleaned_as_the_harness_does),
        cmocka_unit_test(what_is_no_item_is_refused_by_name),
        cmocka_unit_test(a_length_is_in_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
