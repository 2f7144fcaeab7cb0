/* Templates of one expression, rendered with one set of variables, against what they must print. */
#ifndef FY_TEST_TEMPLATE_CASES_H
#define FY_TEST_TEMPLATE_CASES_H

#include <string.h>

#include "model/template/template.h"

typedef struct {
    const char *text;     /* an expression, or a whole template when it has a brace of one */
    const char *expected; /* NULL: an error */
} template_case;

static int template_cases_render(const char *text, fy_str *out, fy_err *e)
{
    static const struct {
        const char *name, *json;
    } vars[] = {
        {"s", "\"Hello, World! foo-bar baz\""},
        {"u", "\"Straße ΑΣ日😀\""},
        {"ml", "\"a b\\r\\n  c\\n\\n\\td\\u2028e\\n\""},
        {"n", "42"},
        {"neg", "-7"},
        {"f", "3.14159"},
        {"big", "12345678901234567890"},
        {"no", "null"},
        {"l", "[3, 1, 2]"},
        {"ls", "[\"b\", \"A\", \"c\", \"a\", \"B\"]"},
        {"d", "{\"b\": 1, \"a\": 2, \"C\": 3}"},
        {"ld", "[{\"n\": \"bob\", \"a\": 3, \"k\": {\"v\": 1}}, {\"n\": \"Al\", \"a\": 1, \"k\": "
               "{\"v\": 2}}, {\"n\": \"bOB\", \"a\": 2}, {\"n\": \"al\", \"a\": 1, \"x\": null}]"},
        {"html", "\"<a href=\\\"x\\\">T & 'q'</a> <!-- c --> &amp; &#39;&#x41;\""},
    };
    fy_template_vars *v = fy_template_vars_new(e);
    assert_non_null(v);
    for (size_t i = 0; i < sizeof vars / sizeof *vars; i++)
        assert_int_equal(fy_template_set_json(v, vars[i].name, fy_span_of(vars[i].json), e), 0);
    fy_template_set_clock(v, 1721995200, true); /* 26 Jul 2024, 12:00 UTC */
    fy_template *t = fy_template_parse(fy_span_of(text), e);
    int failed = t == NULL ? -1 : fy_template_render(t, v, out, e);
    fy_template_free(t);
    fy_template_vars_free(v);
    return failed;
}

static inline fy_err render_error(const char *text)
{
    fy_str out = {0};
    fy_err e = {0};
    if (template_cases_render(text, &out, &e) == 0)
        fail_msg("%s: an error is expected, found: %s", text, fy_str_z(&out));
    assert_int_equal(out.len, 0);
    fy_str_release(&out);
    return e;
}

static inline fy_code render_code(const char *text)
{
    return render_error(text).code;
}

static inline void check_cases(const template_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = cases[i].text, *expected = cases[i].expected;
        fy_str whole = {0}, out = {0};
        fy_err e = {0};
        bool is_template = strstr(text, "{{ ") || strstr(text, "{%");
        fy_str_printf(&whole, is_template ? "%s" : "{{ %s }}", text);
        int failed = template_cases_render(fy_str_z(&whole), &out, &e);
        if (failed && expected)
            fail_msg("%s: %s", text, e.msg);
        if (!failed && !expected)
            fail_msg("%s: an error is expected, found: %s", text, fy_str_z(&out));
        if (!failed &&
            (out.len != strlen(expected) || memcmp(fy_str_z(&out), expected, out.len) != 0))
            fail_msg("%s\n  is: %s\n not: %s", text, fy_str_z(&out), expected);
        fy_str_release(&whole);
        fy_str_release(&out);
    }
}

#endif
