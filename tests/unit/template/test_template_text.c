/* How values print, as text and as JSON. Expectations: jinja2 3.1.6 in the environment of
 * transformers, CPython 3.11. NULL: an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template_value.h"
#include "tests/unit/template/template_cases.h"

static void scalars_print_as_python_prints_them(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"none", "None"},
        {"true", "True"},
        {"false", "False"},
        {"42", "42"},
        {"-7", "-7"},
        {"big", "12345678901234567890"},
        {"x", ""},
        {"[x]", "[Undefined]"},
        {"s", "Hello, World! foo-bar baz"},
        {"\"a\"|safe", "a"},
        {"[\"a\"|safe]", "[Markup('a')]"},
        {"x|string", ""},
        {"no ~ n ~ true", "None42True"},
        {"1e3|int", "1000"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775807 - 1", "-9223372036854775808"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void floats_print_their_shortest_form(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"1.0", "1.0"},
        {"0.1", "0.1"},
        {"0.1 + 0.2", "0.30000000000000004"},
        {"1e15", "1000000000000000.0"},
        {"1e16", "1e+16"},
        {"123456789012345680.0", "1.2345678901234568e+17"},
        {"1e22", "1e+22"},
        {"1e-4", "0.0001"},
        {"1e-5", "1e-05"},
        {"12.5e-5", "0.000125"},
        {"5e-324", "5e-324"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"2.2250738585072014e-308", "2.2250738585072014e-308"},
        {"-0.0", "-0.0"},
        {"100.0", "100.0"},
        {"1e100", "1e+100"},
        {"2.0 ** 70", "1.1805916207174113e+21"},
        {"2.0 ** -1022", "2.2250738585072014e-308"},
        {"9007199254740993.0", "9007199254740992.0"},
        {"4503599627370497.5", "4503599627370498.0"},
        {"(n ~ \"e400\")|float", "inf"},
        {"(x ~ \"nan\")|float", "nan"},
        {"-(x ~ \"inf\")|float", NULL}, /* TypeError: bad operand type for unary -: 'str' */
        {"f", "3.14159"},
        {"1.5e300 * 1e10", "inf"},
        {"33333333333333.336", "33333333333333.336"},
        {"0.30000000000000004", "0.30000000000000004"},
        {"6.02214076e23", "6.02214076e+23"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void repr_chooses_quotes_and_escapes(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"[\"it's\"]", "[\"it's\"]"},
        {"['say \"x\"']", "['say \"x\"']"},
        {"[\"both ' and \\\"\"]", "['both \\' and \"']"},
        {"[\"\\n\\r\\t\\\\\\0\\x1b\\x7f\"]", "['\\n\\r\\t\\\\\\x00\\x1b\\x7f']"},
        {"[\"\\x80\\xa0\\xad\\xff\"]", "['\\x80\\xa0\\xadÿ']"},
        {"[\"\\u0378\\u200b\\u2028\\ue000\\ufeff\"]", "['\\u0378\\u200b\\u2028\\ue000\\ufeff']"},
        {"[\"é日\\U0001f600\\U000e0001\\U0010ffff\"]", "['é日😀\\U000e0001\\U0010ffff']"},
        {"[\"\\u0301\"]", "['́']"},
        {"[\"\"]", "['']"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void containers_print_as_in_python(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"[]", "[]"},
        {"[1, [2, ()], {}]", "[1, [2, ()], {}]"},
        {"()", "()"},
        {"(1,)", "(1,)"},
        {"(1, 2)", "(1, 2)"},
        {"{}", "{}"},
        {"{1: 2, none: \"x\", true: 4, 1.5: 5}", "{1: 4, None: 'x', 1.5: 5}"},
        {"d.items()", "dict_items([('b', 1), ('a', 2), ('C', 3)])"},
        {"d.keys()", "dict_keys(['b', 'a', 'C'])"},
        {"d.values()", "dict_values([1, 2, 3])"},
        {"{}.items()", "dict_items([])"},
        {"range(3)", "range(0, 3)"},
        {"range(1, 10, 2)", "range(1, 10, 2)"},
        {"range(5, 0, -1)", "range(5, 0, -1)"},
        {"namespace(a=1, b=\"x\")", "<Namespace {'a': 1, 'b': 'x'}>"},
        {"dict(a=1, b=[none])", "{'a': 1, 'b': [None]}"},
        {"ld", "[{'n': 'bob', 'a': 3, 'k': {'v': 1}}, {'n': 'Al', 'a': 1, 'k': {'v': 2}}, {'n': "
               "'bOB', 'a': 2}, {'n': 'al', 'a': 1, 'x': None}]"},
        {"[u, \"<\"|e]", "['Straße ΑΣ日😀', Markup('&lt;')]"},
        {"l|batch(2)|list", "[[3, 1], [2]]"},
        {"{\"a\": {\"b\": {\"c\": [1, {\"d\": \"é\"}]}}}", "{'a': {'b': {'c': [1, {'d': 'é'}]}}}"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void tojson_writes_what_json_dumps_writes(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"s|tojson", "\"Hello, World! foo-bar baz\""},
        {"u|tojson", "\"Straße ΑΣ日😀\""},
        {"d|tojson", "{\"b\": 1, \"a\": 2, \"C\": 3}"},
        {"ld|tojson",
         "[{\"n\": \"bob\", \"a\": 3, \"k\": {\"v\": 1}}, {\"n\": \"Al\", \"a\": 1, \"k\": {\"v\": "
         "2}}, {\"n\": \"bOB\", \"a\": 2}, {\"n\": \"al\", \"a\": 1, \"x\": null}]"},
        {"[1, 1.0, true, false, none, \"é<>&'\"]|tojson", "[1, 1.0, true, false, null, \"é<>&'\"]"},
        {"[]|tojson", "[]"},
        {"{}|tojson", "{}"},
        {"[[], {}, [[]]]|tojson(indent=2)", "[\n  [],\n  {},\n  [\n    []\n  ]\n]"},
        {"d|tojson(indent=2)", "{\n  \"b\": 1,\n  \"a\": 2,\n  \"C\": 3\n}"},
        {"d|tojson(indent=0)", "{\n\"b\": 1,\n\"a\": 2,\n\"C\": 3\n}"},
        {"d|tojson(indent=-1)", "{\n\"b\": 1,\n\"a\": 2,\n\"C\": 3\n}"},
        {"d|tojson(indent=\"> \")", "{\n> \"b\": 1,\n> \"a\": 2,\n> \"C\": 3\n}"},
        {"d|tojson(indent=true)", "{\n \"b\": 1,\n \"a\": 2,\n \"C\": 3\n}"},
        {"(1, (2,))|tojson", "[1, [2]]"},
        {"d|tojson(separators=(\",\", \":\"))", "{\"b\":1,\"a\":2,\"C\":3}"},
        {"d|tojson(indent=1, separators=[\"; \", \" = \"])",
         "{\n \"b\" = 1; \n \"a\" = 2; \n \"C\" = 3\n}"},
        {"d|tojson(sort_keys=true)", "{\"C\": 3, \"a\": 2, \"b\": 1}"},
        {"u|tojson(ensure_ascii=true)", "\"Stra\\u00dfe \\u0391\\u03a3\\u65e5\\ud83d\\ude00\""},
        {"u|tojson(true)", "\"Stra\\u00dfe \\u0391\\u03a3\\u65e5\\ud83d\\ude00\""},
        {"\"\\x00\\x1f\\x7f\\b\\f\\n\\r\\t\\\"\\\\/\\u2028\"|tojson",
         "\"\\u0000\\u001f\177\\b\\f\\n\\r\\t\\\"\\\\/\342\200\250\""},
        {"\"\\x7f\\u2028\\U0001f600\"|tojson(ensure_ascii=true)",
         "\"\\u007f\\u2028\\ud83d\\ude00\""},
        {"[1e16, 1e-7, 0.1, -0.0, (x ~ \"inf\")|float]|tojson",
         "[1e+16, 1e-07, 0.1, -0.0, Infinity]"},
        {"(x ~ \"nan\")|float|tojson", "NaN"},
        {"big|tojson", "12345678901234567890"},
        {"{1: 2, none: 3, 1.5: 4, big: 5}|tojson",
         "{\"1\": 2, \"null\": 3, \"1.5\": 4, \"12345678901234567890\": 5}"},
        {"{true: 1, false: 2}|tojson", "{\"true\": 1, \"false\": 2}"},
        {"{\"b\": {\"z\": 1, \"y\": 2}, \"a\": 0}|tojson(indent=1, sort_keys=true)",
         "{\n \"a\": 0,\n \"b\": {\n  \"y\": 2,\n  \"z\": 1\n }\n}"},
        {"\"<b>\"|safe|tojson", "\"<b>\""},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void tojson_refuses_what_json_cannot_hold(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"x|tojson", NULL},   /* TypeError: Object of type Undefined is not JSON serializable */
        {"[x]|tojson", NULL}, /* TypeError: Object of type Undefined is not JSON serializable */
        {"d.items()|tojson",
         NULL}, /* TypeError: Object of type dict_items is not JSON serializable */
        {"range(3)|tojson", NULL}, /* TypeError: Object of type range is not JSON serializable */
        {"namespace()|tojson",
         NULL}, /* TypeError: Object of type TemplateNamespace is not JSON serializable */
        {"(l|map(\"string\"))|tojson",
         NULL}, /* TypeError: Object of type generator is not JSON serializable */
        {"{(1, 2): 3}|tojson",
         NULL}, /* TypeError: keys must be str, int, float, bool or None, not tuple */
        {"[s.upper]|tojson",
         NULL}, /* TypeError: Object of type builtin_function_or_method is not JSON seria */
        {"d|tojson(indent=1.5)",
         NULL}, /* TypeError: can't multiply sequence by non-int of type 'float' */
        {"d|tojson(separators=(1, 2))",
         NULL}, /* TypeError: make_encoder() argument 5 must be str, not int */
        {"d|tojson(separators=\"abc\")",
         NULL}, /* ValueError: too many values to unpack (expected 2) */
        {"{1: 2, \"a\": 3}|tojson(sort_keys=true)",
         NULL}, /* TypeError: '<' not supported between instances of 'str' and 'int' */
        {"d|tojson(nonsense=1)",
         NULL}, /* TypeError: _cached_compile_jinja_template.<locals>.tojson() got an une */
        {"d|tojson(1, 2, 3, 4, 5)",
         NULL}, /* TypeError: _cached_compile_jinja_template.<locals>.tojson() takes from */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void shortest_floats_read_back(void **state)
{
    (void)state;
    uint64_t bits = 0x9e3779b97f4a7c15;
    for (int i = 0; i < 20000; i++) {
        double d, again;
        char text[32];
        bits = bits * 6364136223846793005 + 1442695040888963407;
        memcpy(&d, &bits, sizeof d);
        if (!isfinite(d))
            continue;
        fy_float_repr(d, text);
        again = strtod(text, NULL);
        if (memcmp(&d, &again, sizeof d) != 0)
            fail_msg("%a printed as %s", d, text);
    }
}

static void values_nested_too_deep_are_refused(void **state)
{
    (void)state;
    static const char *const shown[] = {"{{ ns.l }}", "{{ ns.l|tojson }}"};
    for (size_t i = 0; i < 2; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "{%% set ns = namespace(l=[]) %%}{%% for i in range(200) %%}"
                 "{%% set ns.l = [ns.l] %%}{%% endfor %%}%s",
                 shown[i]);
        assert_int_equal(render_code(text), FY_EFORMAT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_print_as_python_prints_them),
        cmocka_unit_test(floats_print_their_shortest_form),
        cmocka_unit_test(repr_chooses_quotes_and_escapes),
        cmocka_unit_test(containers_print_as_in_python),
        cmocka_unit_test(tojson_writes_what_json_dumps_writes),
        cmocka_unit_test(tojson_refuses_what_json_cannot_hold),
        cmocka_unit_test(shortest_floats_read_back),
        cmocka_unit_test(values_nested_too_deep_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
