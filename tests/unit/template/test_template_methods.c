/* Every method, and the global functions. Expectations: jinja2 3.1.6 in the environment of
 * transformers, CPython 3.11. NULL: an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/unit/template/template_cases.h"

static void case_follows_unicode(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"u.upper()", "STRASSE ΑΣ日😀"},
        {"u.lower()", "straße ας日😀"},
        {"\"ßa ǆ it's o'ne ﬁ 3rd\"  .title()", "Ssa ǅ It'S O'Ne Fi 3Rd"},
        {"\"ǆA ßB\".capitalize()", "ǅa ßb"},
        {"\"ΑΣ ΑΣ' ΑΣb 'Σ\".lower()", "ας ας' ασb 'σ"},
        {"\"İI\".lower()", "i̇i"},
        {"(\"<b>\"|safe).upper() + \"<\"", "<B>&lt;"},
        {"s.upper(1)", NULL}, /* TypeError: str.upper() takes no arguments (1 given) */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void characters_are_classified(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"{% for v in [\"\", \"a\", \"A\", \"1\", \"a1\", \" \", \"é\", \"²\", \"٣\", \"½\", "
         "\"日\", \"三\", \"Ⅷ\", \"ǅ\", \"Aa\", \"a b\", \"\\u00a0\", \"\\x1c\", \"\\u200b\", "
         "\"ª\", \"_\", \"1٣\"] %}{{ \"%d\"|format(v.isdigit()) }}{% endfor %}",
         "0001000010000000000001"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void plain_characters_are_classified(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"'12'.isdigit() ~ '1a'.isdigit() ~ ''.isdigit()", "TrueFalseFalse"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void ends_are_stripped(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"\" \\u3000a\\x1f \".strip() ~ \"|\"", "a|"},
        {"\" a \".lstrip() ~ \"|\"", "a |"},
        {"\" a \".rstrip() ~ \"|\"", " a|"},
        {"\"xyaxy\".strip(\"xy\")", "a"},
        {"\"éaé\".lstrip(\"é\")", "aé"},
        {"\"aXa\".rstrip(\"\")", "aXa"},
        {"\" a \".strip(none)", "a"},
        {"\" a \".strip(5)", NULL}, /* TypeError: strip arg must be None or str */
        {"\"abcabc\".removeprefix(\"abc\")", "abc"},
        {"\"abcabc\".removesuffix(\"bc\")", "abca"},
        {"\"abc\".removeprefix(\"x\")", "abc"},
        {"\"a\".strip(\"a\", \"b\")",
         NULL}, /* TypeError: strip expected at most 1 argument, got 2 */
        {"s.replace(\"o\", \"0\", 2)", "Hell0, W0rld! foo-bar baz"},
        {"s.replace(\"o\", 5)", NULL}, /* TypeError: replace() argument 2 must be str, not int */
        {"s.replace(\"o\", \"0\", -1)", "Hell0, W0rld! f00-bar baz"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void pieces_are_found_by_code_point(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"u.find(\"日\")", "9"},
        {"u.rfind(\"Σ\")", "8"},
        {"u.rindex(\"zz\")", NULL}, /* ValueError: substring not found */
        {"s.find(\"\")", "0"},
        {"s.rfind(\"\")", "25"},
        {"\"aaaa\".count(\"aa\")", "2"},
        {"\"aaa\".count(\"\")", "4"},
        {"s.find(5)", NULL}, /* TypeError: must be str, not int */
        {"s.startswith(\"Hello\")", "True"},
        {"s.startswith((\"x\", \"He\"))", "True"},
        {"s.endswith(\"baz\")", "True"},
        {"s.endswith((\"x\", \"ar\"))", "False"},
        {"s.endswith(\"\")", "True"},
        {"s.startswith([\"H\"])",
         NULL}, /* TypeError: startswith first arg must be str or a tuple of str, not lis */
        {"s.startswith(())", "False"},
        {"s.startswith((1,))",
         NULL}, /* TypeError: tuple for startswith must only contain str, not int */
        {"s.startswith()", NULL}, /* TypeError: startswith() takes at least 1 argument (0 given) */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void text_is_taken_apart(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"ml.split()", "['a', 'b', 'c', 'd', 'e']"},
        {"ml.split(none, 1)", "['a', 'b\\r\\n  c\\n\\n\\td\\u2028e\\n']"},
        {"\"a,b,,c\".split(\",\")", "['a', 'b', '', 'c']"},
        {"\"a,b,,c\".split(\",\", 1)", "['a', 'b,,c']"},
        {"\"a,b\".split(sep=\",\", maxsplit=0)", "['a,b']"},
        {"\"\".split()", "[]"},
        {"\"\".split(\",\")", "['']"},
        {"\"a\".split(\"\")", NULL}, /* ValueError: empty separator */
        {"\"a\".split(5)", NULL},    /* TypeError: must be str or None, not int */
        {"\"  a  b \".split(\" \")", "['', '', 'a', '', 'b', '']"},
        {"\"  a  b \".split(maxsplit=1)", "['a', 'b ']"},
        {"\"a,b,c\".rsplit(\",\", 1)", "['a,b', 'c']"},
        {"\" a  b  c \".rsplit(none, 1)", "[' a  b', 'c']"},
        {"\"a--b\".rsplit(\"--\")", "['a', 'b']"},
        {"ml.splitlines()", "['a b', '  c', '', '\\td', 'e']"},
        {"ml.splitlines(true)", "['a b\\r\\n', '  c\\n', '\\n', '\\td\\u2028', 'e\\n']"},
        {"\"a\\x0bb\\x0cc\\x1cd\\x85e\\u2029f\\r\\rg\".splitlines()",
         "['a', 'b', 'c', 'd', 'e', 'f', '', 'g']"},
        {"\"\".splitlines()", "[]"},
        {"\"\\n\".splitlines(keepends=true)", "['\\n']"},
        {"\"a=b=c\".partition(\"=\")", "('a', '=', 'b=c')"},
        {"\"abc\".partition(\"=\")", "('abc', '', '')"},
        {"\"abc\".partition(\"\")", NULL}, /* ValueError: empty separator */
        {"\", \".join(ls)", "b, A, c, a, B"},
        {"\"-\".join(\"abc\")", "a-b-c"},
        {"\"-\".join(d)", "b-a-C"},
        {"\"-\".join([1])",
         NULL}, /* TypeError: sequence item 0: expected str instance, int found */
        {"\"-\".join([])", ""},
        {"\"-\".join(5)", NULL}, /* TypeError: can only join an iterable */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void format_fills_fields(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"\"{0}{1}{0}\".format(1, \"<\")", "1<1"},
        {"\"{} {}\".format(1, \"a\")", "1 a"},
        {"\"{1} {0}\".format(1, \"a\")", "a 1"},
        {"\"{a} {b}\".format(a=1, b=none)", "1 None"},
        {"\"{{}} {}\".format(1)", "{} 1"},
        {"\"{} {}\".format(true, none)", "True None"},
        {"\"{\".format()", NULL},    /* ValueError: Single '{' encountered in format string */
        {"\"}\".format()", NULL},    /* ValueError: Single '}' encountered in format string */
        {"\"{}\".format()", NULL},   /* IndexError: tuple index out of range */
        {"\"{a}\".format(1)", NULL}, /* KeyError: 'a' */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void dicts_answer(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"d.get(\"a\")", "2"},
        {"d.get(\"z\")", "None"},
        {"d.get(\"z\", 5)", "5"},
        {"d.get([])", NULL},               /* TypeError: unhashable type: 'list' */
        {"d.get()", NULL},                 /* TypeError: get expected at least 1 argument, got 0 */
        {"d.get(\"a\", default=1)", NULL}, /* TypeError: dict.get() takes no keyword arguments */
        {"d.keys()|list", "['b', 'a', 'C']"},
        {"d.items()|first", "('b', 1)"},
        {"{\"items\": 5}.items()|list", "[('items', 5)]"},
        {"{\"items\": 5}[\"items\"]", "5"},
        {"x.get(\"a\")", NULL},    /* UndefinedError: 'x' is undefined */
        {"none.get(\"a\")", NULL}, /* UndefinedError: 'None' has no attribute 'get' */
        {"l.upper()", NULL},       /* UndefinedError: 'list object' has no attribute 'upper' */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void mutation_and_internals_are_refused(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"l.append(1)",
         NULL}, /* SecurityError: access to attribute 'append' of 'list' object is unsafe */
        {"l.append", ""},
        {"l.append is defined", "False"},
        {"l.pop()",
         NULL}, /* SecurityError: access to attribute 'pop' of 'list' object is unsafe. */
        {"l.sort()",
         NULL}, /* SecurityError: access to attribute 'sort' of 'list' object is unsafe. */
        {"l.reverse()",
         NULL}, /* SecurityError: access to attribute 'reverse' of 'list' object is unsaf */
        {"l.clear()",
         NULL}, /* SecurityError: access to attribute 'clear' of 'list' object is unsafe. */
        {"l.insert(0, 1)",
         NULL}, /* SecurityError: access to attribute 'insert' of 'list' object is unsafe */
        {"l.extend([1])",
         NULL}, /* SecurityError: access to attribute 'extend' of 'list' object is unsafe */
        {"l.remove(1)",
         NULL}, /* SecurityError: access to attribute 'remove' of 'list' object is unsafe */
        {"d.pop(\"a\")",
         NULL}, /* SecurityError: access to attribute 'pop' of 'dict' object is unsafe. */
        {"d.update({})",
         NULL}, /* SecurityError: access to attribute 'update' of 'dict' object is unsafe */
        {"d.setdefault(\"z\", 1)",
         NULL}, /* SecurityError: access to attribute 'setdefault' of 'dict' object is un */
        {"d.popitem()",
         NULL}, /* SecurityError: access to attribute 'popitem' of 'dict' object is unsaf */
        {"d.clear()",
         NULL}, /* SecurityError: access to attribute 'clear' of 'dict' object is unsafe. */
        {"d[\"pop\"] is defined", "False"},
        {"s.__class__", ""},
        {"s.__class__ is defined", "False"},
        {"s[\"__class__\"]", ""},
        {"s.__class__.__mro__",
         NULL}, /* SecurityError: access to attribute '__class__' of 'str' object is unsa */
        {"{\"__a\": 1}.__a", "1"},
        {"l.nope", ""},
        {"l.nope()", NULL}, /* UndefinedError: 'list object' has no attribute 'nope' */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void ranges_and_makers(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"range(3)|list", "[0, 1, 2]"},
        {"range(2, 8, 3)|list", "[2, 5]"},
        {"range(3, 0, -1)|list", "[3, 2, 1]"},
        {"range(0)|list", "[]"},
        {"range(true)|list", "[0]"},
        {"range(1, 2, 0)", NULL}, /* ValueError: range() arg 3 must not be zero */
        {"range(100000)|length", "100000"},
        {"range(100001)",
         NULL}, /* OverflowError: Range too big. The sandbox blocks ranges larger than MA */
        {"range()", NULL},      /* TypeError: range expected at least 1 argument, got 0 */
        {"range(1.5)", NULL},   /* TypeError: 'float' object cannot be interpreted as an integer */
        {"range(\"3\")", NULL}, /* TypeError: 'str' object cannot be interpreted as an integer */
        {"range(stop=3)",
         NULL}, /* TypeError: safe_range() got an unexpected keyword argument 'stop' */
        {"dict()", "{}"},
        {"dict(a=1)", "{'a': 1}"},
        {"dict(d, z=1)", "{'b': 1, 'a': 2, 'C': 3, 'z': 1}"},
        {"dict([1])",
         NULL}, /* TypeError: cannot convert dictionary update sequence element #0 to a s */
        {"dict([(1, 2, 3)])",
         NULL}, /* ValueError: dictionary update sequence element #0 has length 3; 2 is r */
        {"dict(x)", NULL},    /* UndefinedError: 'x' is undefined */
        {"dict(1, 2)", NULL}, /* TypeError: dict expected at most 1 argument, got 2 */
        {"namespace(a=1).a", "1"},
        {"namespace({\"a\": 1}).a", "1"},
        {"namespace().zz is defined", "False"},
        {"namespace(_a=1)",
         NULL}, /* SecurityError: Chat templates cannot store underscore-prefixed attribu */
        {"{% set ns = namespace() %}{% set ns.a = [1] %}{{ ns.a }}", "[1]"},
        {"{% set j = joiner(\"|\") %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}", "3|1|2"},
        {"joiner(sep=1)() ~ \"|\"", "|"},
        {"{% set j = joiner() %}{{ j() ~ j() ~ j() }}", ", , "},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void strftime_now_shows_its_conversions(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"strftime_now(\"%d %B %Y\")", "26 July 2024"},
        {"strftime_now(\"%a %A %b %B %p %e %j\")", "Fri Friday Jul July PM 26 208"},
        {"strftime_now(\"%H:%M:%S %I|%y-%m %%\")", "12:00:00 12|24-07 %"},
        {"strftime_now(\"%U\")", NULL}, /* refused */
        {"strftime_now(\"%-d\")", NULL},
        {"strftime_now(\"é日\")", "é日"},
        {"strftime_now(\"\")", ""},
        {"strftime_now(5)", NULL}, /* TypeError: strftime() argument 1 must be str, not int */
        {"strftime_now()",
         NULL}, /* TypeError: _cached_compile_jinja_template.<locals>.strftime_now() miss */
        {"strftime_now(format=\"%Y\")", "2024"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void raise_exception_gives_exactly_its_text(void **state)
{
    (void)state;
    fy_err e = render_error("{{ raise_exception('Roles must alternate: ' ~ 1) }}");
    assert_int_equal(e.code, FY_EARG);
    assert_string_equal(e.msg, "Roles must alternate: 1");
    e = render_error("{{ raise_exception('é' * 1000) }}");
    assert_int_equal(e.code, FY_EARG);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 2); /* not half a character */
}

static void arguments_are_refused_in_pythons_words(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{{ 'a'|default(1, 2, 3) }}", "default() takes 2 positional arguments but 3 were given"},
        {"{{ 'a'|replace('b') }}", "replace() missing 1 required positional argument: 'new'"},
        {"{{ 'a'|trim(x=1) }}", "trim() got an unexpected keyword argument 'x'"},
        {"{{ 'a'|trim('b', chars=1) }}", "trim() got multiple values for argument 'chars'"},
        {"{{ [].append(1) }}", "access to attribute 'append' of 'list' object is unsafe."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_err e = render_error(cases[i].text);
        assert_int_equal(e.code, FY_EFORMAT);
        if (!strstr(e.msg, cases[i].message))
            fail_msg("%s: %s", cases[i].text, e.msg);
    }
}

static void methods_check_sizes_before_they_make_anything(void **state)
{
    (void)state;
    static const char *const hostile[] = {
        "{{ ('{0}' * 100000).format('x' * 10000) }}",
        "{{ ('a' * 500000).rfind('a' * 250000 ~ 'b') }}",
        "{{ ('x ' * 500000).split() }}",
    };
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        if (render_code(hostile[i]) != FY_EFIT)
            fail_msg("%s is not stopped", hostile[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_follows_unicode),
        cmocka_unit_test(characters_are_classified),
        cmocka_unit_test(plain_characters_are_classified),
        cmocka_unit_test(ends_are_stripped),
        cmocka_unit_test(pieces_are_found_by_code_point),
        cmocka_unit_test(text_is_taken_apart),
        cmocka_unit_test(format_fills_fields),
        cmocka_unit_test(dicts_answer),
        cmocka_unit_test(mutation_and_internals_are_refused),
        cmocka_unit_test(ranges_and_makers),
        cmocka_unit_test(strftime_now_shows_its_conversions),
        cmocka_unit_test(raise_exception_gives_exactly_its_text),
        cmocka_unit_test(arguments_are_refused_in_pythons_words),
        cmocka_unit_test(methods_check_sizes_before_they_make_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
