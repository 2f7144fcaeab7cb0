/* A template is untrusted: whatever it does, it stops within its steps and its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/template/template_eval.h"

enum { STEPS = 1500000, BYTES = 8 << 20, HEAP_MAX = 12 << 20 };

static const char *const hostile[] = {
    /* calls without end */
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}{% if x %}{% for i in l %}{% with a = i %}{{ [[[m(x + 1)]]] }}{% endwith %}"
    "{% endfor %}{% endif %}{% endmacro %}{{ m(1) }}",
    "{% macro m(x) %}{{ m(m(m(m(m(m(m(m(1)))))))) }}{% endmacro %}{{ m() }}",
    "{% for x in l recursive %}{{ loop(l) }}{% endfor %}",
    "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
    /* loops without end */
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{{ loop.last }}{% endfor %}{% endfor %}",
    "{% for i in range(99999) if range(99999) | list | length == 1 %}{% endfor %}",
    "{% for i in range(99999) %}{% for k in l %}{{ loop.changed(k) }}{% endfor %}{% endfor %}",
    /* strings */
    "{{ 'a' * 10**9 }}",
    "{{ 'a' * 9223372036854775807 }}",
    "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor "
    "%}",
    "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor "
    "%}",
    "{% set ns = namespace(s='a' * 9999) %}{% for i in range(99999) %}{% set ns.s = 'x' + ns.s %}"
    "{% endfor %}",
    "{{ ('x' * 100000) | join('y' * 10000) }}",
    "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ ('{0}' * 100000).format('x' * 10000) }}",
    "{% for i in range(99999) %}{{ 'a' * 9999 }}{% endfor %}",
    "{% set b = 'a' * 99999 %}{% for i in range(99999) %}{{ 'b' in b }}{% endfor %}",
    "{% set b = ' ' * 99999 %}{% for i in range(99999) %}{{ b.strip() }}{% endfor %}",
    "{% set b = 'é' * 9999 %}{% for i in range(99999) %}{{ b[9998] ~ b[::-1] | length }}{% endfor "
    "%}",
    /* lists and dicts */
    "{{ [1] * 10**10 }}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor "
    "%}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
    "%}"
    "{{ ns.s }}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
    "%}"
    "{{ ns.s | tojson }}",
    "{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}"
    "{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
    "{% set x = 'nan' | float %}{% for i in range(99999) %}"
    "{{ {x: 1, x: 2, x: 3, x: 4, x: 5, x: 6, x: 7, x: 8, x: 9, x: 10} }}{% endfor %}",
    "{{ ([x] * 99999) | unique | list | length }}{% for i in range(99999) %}{{ [x] * 99 }}{% "
    "endfor %}",
    "{% set x = 'nan' | float %}{{ ([x] * 99999) | unique | list | length }}"
    "{% for i in range(99999) %}{{ [x] * 99 }}{% endfor %}",
    "{% for i in range(99999) %}{{ range(99999) | sort | length }}{% endfor %}",
    "{{ range(10) | slice(10**12) | list }}",
    "{{ [1] | batch(10**12, 0) | list }}",
    /* activations that macros keep alive */
    "{% macro m(a, b, c) %}{% macro n() %}{{ a }}{% endmacro %}{{ n() }}{% endmacro %}"
    "{% for i in range(99999) %}{{ m() }}{{ m() }}{{ m() }}{{ m() }}{% endfor %}",
};

/* What is nested too deeply or out of range in itself is an error of the language. */
static const char *const refused[] = {
    "{% for i in range(10**12) %}x{% endfor %}",
    "{% set ns = namespace(s=[]) %}{% for i in range(5000) %}{% set ns.s = [ns.s] %}{% endfor %}"
    "{{ ns.s }}",
    "{% set ns = namespace(s=[]) %}{% for i in range(5000) %}{% set ns.s = [ns.s] %}{% endfor %}"
    "{{ ns.s | tojson }}",
    "{% set ns = namespace(s=[], t=[]) %}{% for i in range(5000) %}{% set ns.s = [ns.s] %}"
    "{% set ns.t = [ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
    "{% set ns = namespace(s=(), t=()) %}{% for i in range(5000) %}{% set ns.s = (ns.s,) %}"
    "{% set ns.t = (ns.t,) %}{% endfor %}{{ ns.s < ns.t }}",
    "{% set ns = namespace() %}{% set ns.s = [ns] %}{{ ns }}",
    /* an error ends what is under way at once, however much of it is left */
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
    "%}{{ [range, ns.s, ns.s] | tojson }}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
    "%}{{ '%d %s %s' % ('x', ns.s, ns.s) }}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
    "%}{{ {'a': range, 'b': ns.s} == {'a': x.y, 'b': ns.s} }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}{{ 1 + 'a' }}"
    "{% endfor %}{% endfor %}{% endfor %}",
    "{% macro m() %}{% for i in range(99999) %}{{ x.y }}{{ m() ~ m() }}{% endfor %}{% endmacro %}"
    "{{ m() }}",
    "{% for i in range(99999) if i.x.y %}{{ i }}{% else %}{{ [1] * 99999 }}{% endfor %}",
    "{% for i in range(9999) recursive %}{{ loop(range(9999)) if x.y else loop(range(9999)) }}"
    "{% endfor %}",
    "{{ range(9999) | map('join', 5) | map('list') | sort | unique | list }}",
    "{{ 10 ** 100000000 }}",
    "{{ 2 ** 62 * 2 }}",
    "{{ 1 + 9223372036854775807 }}",
};

static fy_template *parse(const char *text)
{
    fy_err e = {0};
    fy_template *t = fy_template_parse(fy_span_of(text), &e);
    if (t == NULL)
        fail_msg("%s\n  %s", text, e.msg);
    return t;
}

static fy_code render(const char *text, fy_template_budget *b, fy_err *e)
{
    fy_str out = {0};
    fy_template *t = parse(text);
    fy_template_vars *v = fy_template_vars_new(e);
    assert_non_null(v);
    assert_int_equal(fy_template_set_json(v, "l", FY_SPAN("[1, 2, 3]"), e), 0);
    int rc = fy_template_render_within(t, v, &out, b, e);
    assert_true(rc == 0 || out.len == 0);
    assert_true(out.cap <= HEAP_MAX);
    fy_str_release(&out);
    fy_template_vars_free(v);
    fy_template_free(t);
    return rc == 0 ? FY_OK : e->code;
}

static void a_hostile_template_stops_within_its_budget(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        fy_err e = {0};
        fy_template_budget b = {.steps = STEPS, .bytes = BYTES};
        fy_code code = render(hostile[i], &b, &e);
        if (code != FY_EFIT || strncmp(e.msg, "line 1: ", 8) != 0)
            fail_msg("%s\n  code %d: %s", hostile[i], code, e.msg);
        if (b.steps_used > STEPS || b.bytes_used > BYTES || b.heap > HEAP_MAX)
            fail_msg("%s\n  %llu steps, %zu bytes, %zu from the system", hostile[i],
                     (unsigned long long)b.steps_used, b.bytes_used, b.heap);
    }
}

static void the_usual_budget_is_no_larger(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        fy_err e = {0};
        assert_int_equal(render(hostile[i], NULL, &e), FY_EFIT);
    }
}

static void what_cannot_be_is_refused_before_it_costs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        fy_err e = {0};
        fy_template_budget b = {.steps = STEPS, .bytes = BYTES};
        fy_code code = render(refused[i], &b, &e);
        if (code != FY_EFORMAT || b.steps_used > STEPS / 4 || b.heap > BYTES / 4)
            fail_msg("%s\n  code %d: %s, %llu steps", refused[i], code, e.msg,
                     (unsigned long long)b.steps_used);
    }
}

static void growing_a_string_piece_by_piece_is_linear(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_template_budget b = {.steps = STEPS, .bytes = BYTES};
    assert_int_equal(render("{% set ns = namespace(s='') %}{% for i in range(99999) %}"
                            "{% set ns.s = ns.s + 'abcdefgh' %}{% endfor %}{{ ns.s | length }}",
                            &b, &e),
                     FY_OK);
    assert_true(b.bytes_used < 4 << 20);
}

static void honest_recursion_is_deep_enough(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_template_budget b = {.steps = STEPS, .bytes = BYTES};
    assert_int_equal(render("{% macro m(n) %}{% if n > 0 %}{% for i in [n] %}({{ m(n - 1) }})"
                            "{% endfor %}{% endif %}{% endmacro %}{{ m(100) }}",
                            &b, &e),
                     FY_OK);
}

/* Four million bytes of conversation, through a template that takes its time over each. */
static void a_long_conversation_has_an_allowance_of_its_own(void **state)
{
    (void)state;
    static const char text[] =
        "{% for m in messages[::-1] %}{% set c = m.content %}{% if '</think>' in c %}"
        "{% set c = c.split('</think>')[-1] %}{% endif %}{% set c = '<|' + m.role + '|>' + c | "
        "trim + '|'"
        " %}{{ c }}{{ c | tojson }}{{ c | replace('a', 'b') | length }}{% endfor %}";
    fy_err e = {0};
    fy_str json = {0}, out = {0};
    for (int i = 0; i < 400; i++) {
        fy_str_printf(&json, "%c{\"role\": \"user\", \"content\": \"think</think>",
                      i == 0 ? '[' : ',');
        for (int k = 0; k < 1000; k++)
            fy_str_puts(&json, "a word or ");
        fy_str_puts(&json, "\"}");
    }
    fy_str_puts(&json, "]");
    fy_template *t = parse(text);
    fy_template_vars *v = fy_template_vars_new(&e);
    assert_non_null(v);
    fy_span all = {fy_str_z(&json), json.len};
    assert_int_equal(fy_template_set_json(v, "messages", all, &e), 0);
    if (fy_template_render(t, v, &out, &e) != 0)
        fail_msg("%s", e.msg);
    assert_true(out.len > 2 * json.len - 100000);
    fy_template_vars_free(v);
    fy_template_free(t);
    fy_str_release(&json);
    fy_str_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hostile_template_stops_within_its_budget),
        cmocka_unit_test(the_usual_budget_is_no_larger),
        cmocka_unit_test(what_cannot_be_is_refused_before_it_costs),
        cmocka_unit_test(growing_a_string_piece_by_piece_is_linear),
        cmocka_unit_test(honest_recursion_is_deep_enough),
        cmocka_unit_test(a_long_conversation_has_an_allowance_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
