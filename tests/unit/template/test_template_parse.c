#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>

#include "base/file.h"
#include "model/template/template.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/template/template_dump.h"
#include "tests/unit/template/template_parse_table.h"

static fy_template *parse(const char *text, fy_err *e)
{
    *e = (fy_err){0};
    return fy_template_parse(fy_span_of(text), e);
}

static void check_trees(const struct tree_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fy_err e;
        fy_template *t = parse(cases[i].text, &e);
        if (t == NULL)
            fail_msg("%s: %s", cases[i].text, e.msg);
        dump d = {.t = t};
        dump_template(&d);
        if (strcmp(fy_str_z(&d.out), cases[i].tree) != 0)
            fail_msg("%s\n  is %s\n  not %s", cases[i].text, fy_str_z(&d.out), cases[i].tree);
        fy_str_release(&d.out);
        fy_template_free(t);
    }
}

static void every_form_becomes_the_tree_of_jinja2(void **state)
{
    (void)state;
    check_trees(forms, sizeof forms / sizeof *forms);
}

static void white_space_is_kept_and_taken_as_jinja2_does(void **state)
{
    (void)state;
    check_trees(spaces, sizeof spaces / sizeof *spaces);
}

static void literals_have_the_values_of_python(void **state)
{
    (void)state;
    check_trees(literals, sizeof literals / sizeof *literals);
}

static void check_error(const char *text, fy_code code, const char *message)
{
    fy_err e;
    fy_template *t = parse(text, &e);
    if (t != NULL)
        fail_msg("accepted: %s", text);
    if (e.code != code || strcmp(e.msg, message) != 0)
        fail_msg("%s\n  says %d %s\n  not  %d %s", text, (int)e.code, e.msg, (int)code, message);
}

static void errors_have_the_line_and_text_of_jinja2(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        char message[512];
        snprintf(message, sizeof message, "line %u, column %u: %s", errors[i].line,
                 errors[i].column, errors[i].message);
        check_error(errors[i].text, FY_EFORMAT, message);
    }
}

static void columns_count_characters(void **state)
{
    (void)state;
    check_error("\xC3\xA9\xE4\xB8\xAD {{ ' \xF0\x9F\x98\x80' x }}", FY_EFORMAT,
                "line 1, column 12: expected token 'end of print statement', got 'x'");
    check_error("a\n\xC3\xA9 {{ @ }}", FY_EFORMAT, "line 2, column 6: unexpected char '@' at 7");
}

static void what_ferry_does_not_have_is_named(void **state)
{
    (void)state;
    static const char *const tags[] = {"include 'x'", "import 'x' as y", "from 'x' import y",
                                       "extends 'x'", "block x",         "autoescape true",
                                       "trans"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        char text[64], message[160];
        int name = (int)strcspn(tags[i], " ");
        snprintf(text, sizeof text, "\n {%% %s %%}", tags[i]);
        snprintf(message, sizeof message,
                 "line 2, column 5: '%.*s' is not supported: the template must stand for itself",
                 name, tags[i]);
        check_error(text, FY_EUNSUPPORTED, message);
    }
    check_error(
        "{% print a %}", FY_EUNSUPPORTED,
        "line 1, column 4: 'print' is not supported: write {{ a }} instead of {% print a %}");
    check_error("{{ '\\N{BULLET}' }}", FY_EUNSUPPORTED,
                "line 1, column 4: characters by name (\\N{...}) are not supported: write the "
                "character itself");
}

static void text_that_is_not_utf8_is_refused(void **state)
{
    (void)state;
    check_error("a\n\xC3\xA9\xFF", FY_EFORMAT, "line 2, column 2: a byte that is not UTF-8: 0xff");
    check_error("{{ '\xED\xA0\x80' }}", FY_EFORMAT,
                "line 1, column 5: a byte that is not UTF-8: 0xed");
    check_error("{{ '\\ud83d\\ude00' }}", FY_EFORMAT,
                "line 1, column 4: a string cannot hold half of a surrogate pair: write the "
                "character itself");
}

static const fy_node *find_unknown(const fy_node *n)
{
    const fy_nodes *lists[] = {&n->kids, &n->body, &n->orelse};
    const fy_node *kids[] = {n->a, n->b, n->c}, *found = NULL;
    if ((n->kind == FY_N_FILTER || n->kind == FY_N_TEST) && n->builtin == NULL)
        return n;
    for (size_t i = 0; i < 3 && found == NULL; i++)
        found = kids[i] != NULL ? find_unknown(kids[i]) : NULL;
    for (size_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < lists[i]->n && found == NULL; k++)
            found = find_unknown(lists[i]->item[k]);
    }
    return found;
}

static void unknown_filters_of_a_branch_wait_until_they_are_reached(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof soft / sizeof *soft; i++) {
        fy_err e;
        fy_template *t = parse(soft[i], &e);
        if (t == NULL)
            fail_msg("%s: %s", soft[i], e.msg);
        const fy_node *unknown = NULL;
        for (uint32_t k = 0; k < t->body.n && unknown == NULL; k++)
            unknown = find_unknown(t->body.item[k]);
        assert_non_null(unknown);
        assert_true(fy_span_is(unknown->str, "nosuch"));
        fy_template_free(t);
    }
}

static void names_are_interned_once(void **state)
{
    (void)state;
    fy_err e;
    fy_template *t = parse("{{ a }}{{ b.a }}{{ a }}{% macro b(c, a) %}{{ c }}{% endmacro %}", &e);
    assert_non_null(t);
    assert_int_equal(t->n_symbols, 3);
    assert_true(fy_span_is(t->symbols[t->body.item[2]->a->symbol], "a"));
    assert_int_equal(t->body.item[0]->a->symbol, t->body.item[2]->a->symbol);
    fy_template_free(t);
}

/* before, n times unit, after. */
static fy_template *parse_repeated(const char *before, const char *unit, size_t n,
                                   const char *after, fy_err *e)
{
    fy_str s = {0};
    fy_str_puts(&s, before);
    for (size_t i = 0; i < n; i++)
        fy_str_puts(&s, unit);
    fy_str_puts(&s, after);
    *e = (fy_err){0};
    fy_template *t = fy_template_parse((fy_span){s.ptr, s.len}, e);
    fy_str_release(&s);
    return t;
}

static void nesting_ends_at_a_depth(void **state)
{
    (void)state;
    static const struct {
        const char *before, *unit;
    } cases[] = {
        {"{{ ", "("},
        {"{{ ", "["},
        {"{{ ", "{1:"},
        {"{{ ", "f("},
        {"{{ ", "a["},
        {"{{ ", "-"},
        {"{{ ", "not "},
        {"{{ a", "+a"},
        {"{{ a", " and a"},
        {"{{ a", "**a"},
        {"{{ a", ".a"},
        {"{{ a", "[0]"},
        {"{{ a", "()"},
        {"{{ a", "|upper"},
        {"{{ a", " is odd()"},
        {"{{ a", " if a else a"},
        {"{{ a", " if a"},
        {"", "{% if a %}"},
        {"", "{% for a in a %}"},
        {"{% if a %}", "{% elif a %}"},
        {"", "{% macro m() %}"},
        {"", "{% filter upper %}"},
        {"", "{{"},
        {"{{ ", "a if "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_err e;
        assert_null(parse_repeated(cases[i].before, cases[i].unit, 50000, "", &e));
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, ": nested deeper than 128 levels") == NULL)
            fail_msg("%s...: %s", cases[i].unit, e.msg);
    }
}

static void nesting_of_a_hundred_is_fine(void **state)
{
    (void)state;
    fy_err e;
    fy_str after = {0};
    fy_str_putc(&after, 'a');
    for (int i = 0; i < 100; i++)
        fy_str_putc(&after, ')');
    fy_str_puts(&after, " }}");
    fy_template *t = parse_repeated("{{ ", "(", 100, fy_str_z(&after), &e);
    assert_non_null(t);
    assert_int_equal(t->body.item[0]->a->kind, FY_N_NAME);
    fy_template_free(t);
    fy_str_release(&after);
    t = parse_repeated("{{ a", " + a", 120, " }}", &e);
    assert_non_null(t);
    assert_int_equal(t->body.item[0]->a->height, 121);
    fy_template_free(t);
    t = parse_repeated("{% if a %}", "{% elif b %}", 100, "{% endif %}", &e);
    assert_non_null(t);
    fy_template_free(t);
}

/* Each would take minutes if its time grew with the square of the text. */
static void long_templates_take_time_in_proportion(void **state)
{
    (void)state;
    static const struct {
        const char *before, *unit;
        size_t n;
        const char *after;
    } cases[] = {
        {"", "{##}", 250000, ""},
        {"", "{% raw %}{% endraw %}", 40000, ""},
        {"{{", " ", 1000000, "1 }}"},
        {"{{ ", "'a'", 300000, " }}"},
        {"{{ a", "~a", 30000, " }}"},
        {"{{ a", "<a", 30000, " }}"},
        {"{{ '", "\\x41", 250000, "' }}"},
        {"", "\r", 1000000, ""},
        {"", "{ ", 500000, ""},
        {"", " {#- -#} ", 110000, ""},
        {"{{ 0x", "0", 1000000, " }}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_err e;
        fy_template *t =
            parse_repeated(cases[i].before, cases[i].unit, cases[i].n, cases[i].after, &e);
        if (t == NULL)
            fail_msg("%s...: %s", cases[i].unit, e.msg);
        fy_template_free(t);
    }
}

static void many_different_names_are_found_at_once(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_err e = {0};
    fy_str_puts(&s, "{% macro m(");
    for (int i = 0; i < 25000; i++)
        fy_str_printf(&s, "%sp%d", i > 0 ? ", " : "", i);
    fy_str_puts(&s, ") %}{% endmacro %}");
    fy_template *t = fy_template_parse((fy_span){s.ptr, s.len}, &e);
    assert_non_null(t);
    assert_int_equal(t->n_symbols, 25001);
    fy_template_free(t);
    fy_str_release(&s);
}

static void the_size_of_a_template_has_limits(void **state)
{
    (void)state;
    fy_err e;
    assert_null(parse_repeated("", "a", FY_TEMPLATE_MAX_BYTES + 1, "", &e));
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_string_equal(e.msg, "line 1, column 1: the template has 1048577 bytes, at most 1048576 "
                               "are supported");
    fy_template *t = parse_repeated("", "a", FY_TEMPLATE_MAX_BYTES, "", &e);
    assert_non_null(t);
    fy_template_free(t);
    assert_null(parse_repeated("", "{{ a }}", FY_TEMPLATE_MAX_NODES / 2 + 1, "", &e));
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "the template has more than 32768 parts"));
}

static void integers_of_too_many_digits_are_refused(void **state)
{
    (void)state;
    fy_err e;
    fy_template *t = parse_repeated("{{ ", "9", 4300, " }}", &e);
    assert_non_null(t);
    fy_template_free(t);
    assert_null(parse_repeated("{{ ", "9", 4301, " }}", &e));
    assert_string_equal(e.msg, "line 1, column 4: Exceeds the limit (4300 digits) for integer "
                               "string conversion");
    assert_null(parse_repeated("{{ 0x", "f", 17, " }}", &e));
    assert_string_equal(e.msg,
                        "line 1, column 4: an integer of more than 64 bits has to be written "
                        "in decimal");
    assert_null(parse_repeated("{{ 0b", "1", 1000000, " }}", &e));
}

static const char everything[] =
    "{% macro m(a, b=1) %}{{ caller(*a, **b) ~ 'x' 'y' }}{% endmacro %}"
    "{% for x, (y, z) in [1, 2.5, {'a': 99999999999999999999}] if x < y <= z recursive %}"
    "{% set ns.a, b = c[1:2], d.e | default('\\n', k=1) %}{% else %}{% endfor %}"
    "{% call(q) m(1) %}{% endcall %}{% if a is nosuch 1 %}{% elif b %}{% endif %}";

static void no_allocation_that_fails_is_overlooked(void **state)
{
    (void)state;
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_template *t = fy_template_parse(FY_SPAN(everything), &e);
        done = !alloc_fail_end();
        if (done) {
            assert_non_null(t);
        } else {
            assert_null(t);
            assert_int_equal(e.code, FY_ENOMEM);
        }
        fy_template_free(t);
    }
}

static void real_templates_parse(void **state)
{
    (void)state;
    const char *root = getenv("FERRY_REAL");
    char dir[512], path[1024];
    snprintf(dir, sizeof dir, "%s/templates", root != NULL ? root : "../shared/real");
    DIR *d = opendir(dir);
    if (d == NULL)
        skip();
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        fy_map m;
        fy_err e = {0};
        snprintf(path, sizeof path, "%s/%s/template.jinja", dir, entry->d_name);
        if (entry->d_name[0] == '.' || !fy_file_exists(path))
            continue;
        assert_int_equal(fy_map_open(&m, path, &e), 0);
        fy_template *t = fy_template_parse((fy_span){(const char *)m.data, m.size}, &e);
        if (t == NULL)
            fail_msg("%s: %s", path, e.msg);
        fy_template_free(t);
        fy_map_close(&m);
    }
    closedir(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_becomes_the_tree_of_jinja2),
        cmocka_unit_test(white_space_is_kept_and_taken_as_jinja2_does),
        cmocka_unit_test(literals_have_the_values_of_python),
        cmocka_unit_test(errors_have_the_line_and_text_of_jinja2),
        cmocka_unit_test(columns_count_characters),
        cmocka_unit_test(what_ferry_does_not_have_is_named),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(unknown_filters_of_a_branch_wait_until_they_are_reached),
        cmocka_unit_test(names_are_interned_once),
        cmocka_unit_test(nesting_ends_at_a_depth),
        cmocka_unit_test(nesting_of_a_hundred_is_fine),
        cmocka_unit_test(long_templates_take_time_in_proportion),
        cmocka_unit_test(many_different_names_are_found_at_once),
        cmocka_unit_test(the_size_of_a_template_has_limits),
        cmocka_unit_test(integers_of_too_many_digits_are_refused),
        cmocka_unit_test(no_allocation_that_fails_is_overlooked),
        cmocka_unit_test(real_templates_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
