/* Schemas: which texts each allows, number ranges against arithmetic, patterns against POSIX
 * regular expressions, and what is refused, with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/grammar/grammar_samples.h"

#include "tests/unit/alloc_fail.h"

static fy_grammar *made(const char *schema)
{
    fy_err e = {0};
    fy_grammar *g = fy_grammar_schema(fy_span_of(schema), &e);
    if (g == NULL)
        fail_msg("%s\n%s", schema, e.msg);
    return g;
}

static const struct {
    const char *schema, *text;
    int want; /* 2 whole, 1 may go on, 0 not allowed */
} cases[] = {
    {"{}", "{\"a\": [1,null, true], \"b\":\"x\"}", 2},
    {"{}", "{ \"a\":1}", 0},
    {"{}", "[1,  2]", 0},
    {"true", "-0.5e-7", 2},
    {"{\"type\":\"object\"}", "{}", 2},
    {"{\"type\":\"object\"}", "[]", 0},
    {"{\"type\":\"boolean\"}", "true", 2},
    {"{\"type\":\"null\"}", "nul", 1},
    {"{\"type\":[\"null\",\"boolean\"]}", "null", 2},
    {"{\"type\":\"string\"}", "\"\\ud83d\\ude00 \\u00e9\\\\\"", 2},
    {"{\"type\":\"string\"}", "\"\\ud83d\"", 0},
    {"{\"type\":\"string\"}", "\"\\udc00", 0},
    {"{\"type\":\"string\"}", "\"\\u0000", 0},
    {"{\"type\":\"string\"}", "\"\\u0100\\u0001\\u1000\\u0010\"", 2},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"\xC3\xA9\"", 0},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"\xC3\xA9\\n\xF0\x9F\x98\x80\"", 2},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"abcd", 0},
    {"{\"const\":\"a\\\"b\\n\"}", "\"a\\\"b\\n\"", 2},
    {"{\"enum\":[1,\"x\",null],\"type\":[\"integer\",\"null\"]}", "\"", 0},
    {"{\"enum\":[1,\"x\",null],\"type\":[\"integer\",\"null\"]}", "null", 2},
    {"{\"enum\":[1e64,2.5],\"type\":\"integer\"}", "1e+64", 2},
    {"{\"enum\":[1e64,2.5],\"type\":\"integer\"}", "2.5", 0},
    {"{\"enum\":[{\"a\":[1,2]}]}", "{\"a\": [1,2]}", 2},
    {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"a\"]}", "{\"a\":1, \"b\":2}", 2},
    {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"a\"]}", "{\"b\":", 0},
    {"{\"properties\":{\"a\":{},\"b\":{}}}", "{\"b\":1, \"a", 0},
    {"{\"properties\":{\"a\":{},\"b\":{}}}", "{}", 2},
    {"{\"properties\":{\"a\":{}}}", "{\"c", 0},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":true}", "{\"a\":1, \"c\": [], \"ab\":0}",
     2},
    {"{\"properties\":{\"a\":{},\"abc\":{}},\"additionalProperties\":true}", "{\"ab\":1}", 2},
    {"{\"properties\":{\"ax\":{},\"abc\":{}},\"additionalProperties\":true}", "{\"a\":1}", 2},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"null\"}}", "{\"b\":null}", 2},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"null\"}}", "{\"b\":1", 0},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":true}", "{\"x\":1, \"a\":", 0},
    {"{\"required\":[\"q\"],\"properties\":{\"a\":{}}}", "{\"a\":1, \"q\":[]}", 2},
    {"{\"required\":[\"q\"],\"properties\":{\"a\":{}}}", "{\"a\":1}", 0},
    {"{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":2}", "{\"a\":1}", 0},
    {"{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":2}", "{\"a\":1,\"c\":2}", 2},
    {"{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"maxProperties\":1}", "{\"b\":1,", 0},
    {"{\"properties\":{\"a\":false,\"b\":{}}}", "{\"a", 0},
    {"{\"properties\":{\"a\":false,\"b\":{}}}", "{\"b\":1}", 2},
    {"{\"additionalProperties\":{\"type\":\"integer\"},\"minProperties\":1}", "{}", 0},
    {"{\"patternProperties\":{\"^x\":{\"type\":\"null\"}}}", "{\"xy\":null, \"x\":null}", 2},
    {"{\"patternProperties\":{\"^x\":{\"type\":\"null\"}}}", "{\"y", 0},
    {"{\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":2}", "[1, 2]", 2},
    {"{\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":2}", "[]", 0},
    {"{\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":2}", "[1,2,", 0},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"items\":{\"type\":\"boolean\"}}",
     "[null,true]", 2},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"items\":false}", "[null,", 0},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"minItems\":2}", "[null,7]", 2},
    {"{\"type\":\"array\",\"items\":false}", "[]", 2},
    {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\",\"maximum\":4}],\"minimum\":3}", "3",
     2},
    {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\",\"maximum\":4}],\"minimum\":3}", "2",
     0},
    {"{\"anyOf\":[false,{\"const\":1}]}", "1", 2},
    {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "null", 2},
    {"{\"oneOf\":[{\"const\":1},{\"const\":2},{\"enum\":[3]}]}", "2", 2},
    {"{\"oneOf\":[{\"type\":\"integer\",\"maximum\":3},{\"type\":\"integer\",\"minimum\":4}]}", "4",
     2},
    {"{\"oneOf\":[{\"required\":[\"a\"],\"type\":\"object\",\"properties\":{\"a\":{}}},{\"type\":"
     "\"object\","
     "\"properties\":{\"b\":{}},\"additionalProperties\":false}]}",
     "{\"b\":1}", 2},
    {"{\"allOf\":[{\"minimum\":2},{\"maximum\":4},{\"type\":\"integer\"}]}", "3", 2},
    {"{\"allOf\":[{\"minimum\":2},{\"maximum\":4},{\"type\":\"integer\"}]}", "5", 0},
    {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":false},"
     "{\"properties\":{\"b\":{}}}]}",
     "{\"b", 0},
    {"{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[2,3,4]}]}", "1", 0},
    {"{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"type\":\"null\"}}}", "null", 2},
    {"{\"$ref\":\"#/$defs/"
     "x\",\"maximum\":5,\"$defs\":{\"x\":{\"type\":\"integer\",\"minimum\":5}}}",
     "5", 2},
    {"{\"$ref\":\"#/$defs/"
     "x\",\"maximum\":5,\"$defs\":{\"x\":{\"type\":\"integer\",\"minimum\":5}}}",
     "6", 0},
    {"{\"type\":\"object\",\"properties\":{\"c\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}}}",
     "{\"c\": [{\"c\": []}, {}]}", 2},
    {"{\"type\":\"string\",\"nullable\":true}", "null", 2},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"2024-02-29\"", 2},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"2023-02-29", 0},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"1900-02-29", 0},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"2000-02-29\"", 2},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"0000", 0},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"2023-04-31", 0},
    {"{\"type\":\"string\",\"format\":\"time\"}", "\"23:59:59.5+05:30\"", 2},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}", "\"255.0.10.199\"", 2},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}", "\"256", 0},
    {"{\"type\":\"string\",\"format\":\"ipv4\",\"maxLength\":20}", "\"1.2.3.4\"", 2},
    {"{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[],\"type\":\"integer\"}",
     "7", 2},
};

static void schemas_allow_these_texts_and_no_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_grammar *g = made(cases[i].schema);
        const int got = verdict(g, cases[i].text, strlen(cases[i].text));
        if (got != cases[i].want)
            fail_msg("%s: '%s' gives %d, expected %d", cases[i].schema, cases[i].text, got,
                     cases[i].want);
        fy_grammar_free(g);
    }
}

/* --- numbers --- */

static void whole_numbers_are_those_between_their_bounds(void **state)
{
    (void)state;
    static const int bounds[] = {-1203, -999, -100, -99, -10, -1,  0,   1,
                                 7,     9,    10,   99,  100, 101, 999, 1345};
    enum { N = sizeof bounds / sizeof bounds[0] };
    for (int i = 0; i < N; i++) {
        for (int k = i; k < N; k++) {
            char schema[100], text[20];
            snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}",
                     bounds[i], bounds[k]);
            fy_grammar *g = made(schema);
            fy_matcher *m = fy_matcher_new(g, NULL, NULL);
            for (int v = -1400; v <= 1400; v++) {
                snprintf(text, sizeof text, "%d", v);
                fy_matcher_reset(m);
                const bool got =
                    fy_matcher_accept_text(m, fy_span_of(text), NULL) == 0 && fy_matcher_may_end(m);
                if (got != (v >= bounds[i] && v <= bounds[k]))
                    fail_msg("%s: %d gives %d", schema, v, got);
            }
            fy_matcher_free(m);
            fy_grammar_free(g);
        }
    }
}

static void decimals_are_those_between_their_bounds(void **state)
{
    (void)state;
    static const double bounds[] = {-11.5, -2.25, -1, -0.07, 0, 0.05, 0.5, 1, 1.25, 1.3, 9.99, 12};
    enum { N = sizeof bounds / sizeof bounds[0] };
    for (int i = 0; i < N; i++) {
        for (int k = i; k < N; k++) {
            for (int out = 0; out < 4; out++) {
                char schema[120], text[20];
                if (i == k && out != 0)
                    continue;
                snprintf(schema, sizeof schema, "{\"type\":\"number\",\"%s\":%g,\"%s\":%g}",
                         out & 1 ? "exclusiveMinimum" : "minimum", bounds[i],
                         out & 2 ? "exclusiveMaximum" : "maximum", bounds[k]);
                fy_grammar *g = made(schema);
                fy_matcher *m = fy_matcher_new(g, NULL, NULL);
                for (int v = -1300; v <= 1300; v++) {
                    const double x = v / 100.0;
                    const bool want = (out & 1 ? x > bounds[i] : x >= bounds[i]) &&
                                      (out & 2 ? x < bounds[k] : x <= bounds[k]);
                    snprintf(text, sizeof text, "%.2f", x);
                    if (v == 0)
                        strcpy(text, "0.00");
                    fy_matcher_reset(m);
                    const bool got = fy_matcher_accept_text(m, fy_span_of(text), NULL) == 0 &&
                                     fy_matcher_may_end(m);
                    if (got != want)
                        fail_msg("%s: %s gives %d", schema, text, got);
                }
                fy_matcher_free(m);
                fy_grammar_free(g);
            }
        }
    }
}

static void large_and_open_bounds_hold(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *text;
        int want;
    } more[] = {
        {"{\"type\":\"integer\"}", "-123456789012345", 2},
        {"{\"type\":\"integer\"}", "1.0", 0},
        {"{\"type\":\"integer\"}", "01", 0},
        {"{\"type\":\"integer\"}", "-0", 0},
        {"{\"type\":\"integer\",\"minimum\":123456789012345678}", "123456789012345678", 2},
        {"{\"type\":\"integer\",\"minimum\":123456789012345678}", "123456789012345677", 0},
        {"{\"type\":\"integer\",\"minimum\":9007199254740993}", "9007199254740992", 0},
        {"{\"type\":\"integer\",\"maximum\":-3.5}", "-3", 1},
        {"{\"type\":\"integer\",\"maximum\":-3.5}", "-4", 2},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":3.5}", "4", 2},
        {"{\"type\":\"number\",\"minimum\":0.001}", "0.001", 2},
        {"{\"type\":\"number\",\"minimum\":0.001}", "0.0009", 0},
        {"{\"type\":\"number\",\"maximum\":1e3}", "1000.0", 2},
        {"{\"type\":\"number\",\"maximum\":1e3}", "1000.01", 0},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0}", "0.0001", 2},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0}", "0.0", 1},
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        fy_grammar *g = made(more[i].schema);
        const int got = verdict(g, more[i].text, strlen(more[i].text));
        if (got != more[i].want)
            fail_msg("%s: %s gives %d", more[i].schema, more[i].text, got);
        fy_grammar_free(g);
    }
}

/* --- patterns --- */

static void patterns_match_what_regular_expressions_match(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "^a$",
        "^(a|bc)*$",
        "^[ab]{2,3}c?$",
        "a",
        "^ab",
        "bc$",
        "^a|c$",
        "^(ab?)+$",
        "^[^a]+$",
        "^.b.$",
        "^(a(b(c)?)?)?$",
        "^[a-c]*1$",
        "^a{2}$",
        "^a{2,}$",
        "a.c",
        "^(a|ab)(c|bc)$",
        "b+",
        "^[1b-]+$",
        "(a|b)c",
        "^$",
        "",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        char schema[100];
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"pattern\":\"%s\"}", patterns[i]);
        fy_grammar *g = made(schema);
        regex_t re;
        assert_int_equal(regcomp(&re, patterns[i], REG_EXTENDED | REG_NOSUB), 0);
        for (int n = 0; n <= 5; n++) {
            for (unsigned code = 0; code < 1u << (2 * n); code++) {
                char text[8] = "\"";
                for (int k = 0; k < n; k++)
                    text[k + 1] = "abc1"[code >> (2 * k) & 3];
                text[n + 1] = '\0';
                const bool want = regexec(&re, text + 1, 0, NULL, 0) == 0;
                text[n + 1] = '"';
                if ((verdict(g, text, (size_t)n + 2) == 2) != want)
                    fail_msg("%s: %.*s, the regular expression says %d", patterns[i], n + 2, text,
                             want);
            }
        }
        regfree(&re);
        fy_grammar_free(g);
    }
}

static void patterns_are_spelled_as_json(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        int want;
    } more[] = {
        {"^[\\\"\\\\\\\\]$", "\"\\\"\"", 2},
        {"^[\\\"\\\\\\\\]$", "\"\\\\\"", 2},
        {"^\\\\n\\\\t\\\\x41\\\\u00e9$", "\"\\n\\tA\xC3\xA9\"", 2},
        {"^\\\\ud83d\\\\ude00$", "\"\xF0\x9F\x98\x80\"", 2},
        {"^[^a]$", "\"\\u0001\"", 2},
        {"^\\\\d\\\\D\\\\w\\\\W\\\\s\\\\S$", "\"1x_- x\"", 2},
        {"^\\\\d\\\\D\\\\w\\\\W\\\\s\\\\S$", "\"x", 0},
        {"^(?:ab)+?(?<n>c)$", "\"ababc\"", 2},
        {"^\\\\.\\\\$\\\\/$", "\"./", 0},
        {"^\\\\.\\\\$\\\\/$", "\".$/\"", 2},
        {"^.$", "\"\\n", 0},
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        char schema[100];
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"pattern\":\"%s\"}",
                 more[i].pattern);
        fy_grammar *g = made(schema);
        const int got = verdict(g, more[i].text, strlen(more[i].text));
        if (got != more[i].want)
            fail_msg("%s: %s gives %d", more[i].pattern, more[i].text, got);
        fy_grammar_free(g);
    }
}

/* --- what is refused --- */

static const struct {
    const char *schema;
    fy_code code;
    const char *message;
} refused[] = {
    {"{\"not\":{}}", FY_EUNSUPPORTED, "schema, #: 'not' is not supported"},
    {"{\"properties\":{\"a\":{\"items\":{\"multipleOf\":2}}}}", FY_EUNSUPPORTED,
     "schema, #/properties/a/items: 'multipleOf' is not supported"},
    {"{\"if\":{},\"then\":{}}", FY_EUNSUPPORTED, "schema, #: 'if' is not supported"},
    {"{\"type\":\"array\",\"uniqueItems\":true}", FY_EUNSUPPORTED,
     "schema, #: 'uniqueItems' is not supported"},
    {"{\"propertyNames\":{}}", FY_EUNSUPPORTED, "schema, #: 'propertyNames' is not supported"},
    {"{\"type\":\"str\"}", FY_EFORMAT,
     "schema, #: 'type' is not one of null, boolean, string, integer, number, array and object, or "
     "a "
     "list of them"},
    {"3", FY_EFORMAT, "schema, #: is not a schema: expected an object or true"},
    {"{\"a\":", FY_EFORMAT, "schema: line 1, column 6: "},
    {"false", FY_EFORMAT, "schema, #: no value is valid"},
    {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", FY_EFORMAT,
     "schema, #: no value is valid"},
    {"{\"properties\":{\"a\":false},\"required\":[\"a\"]}", FY_EFORMAT,
     "schema, #: no value is valid"},
    {"{\"$ref\":\"http://x/y\"}", FY_EUNSUPPORTED,
     "schema, #: $ref 'http://x/y' is not supported, expected '#' or one that begins with '#/'"},
    {"{\"$ref\":\"#/$defs/a\"}", FY_EFORMAT,
     "schema, #: $ref '#/$defs/a' names nothing in this schema"},
    {"{\"$ref\":\"#\"}", FY_EFORMAT, "schema: 'the schema' refers to itself without end"},
    {"{\"$defs\":{\"a\":{\"not\":{}}},\"items\":{\"$ref\":\"#/$defs/a\"}}", FY_EUNSUPPORTED,
     "schema, #/$defs/a: 'not' is not supported"},
    {"{\"allOf\":[{\"$ref\":\"#\"}]}", FY_EUNSUPPORTED,
     "schema, #: a schema that holds together with itself is not supported"},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", FY_EUNSUPPORTED,
     "schema, #/oneOf: 'oneOf' whose alternatives 0 and 1 may both be valid is not supported; use "
     "'anyOf'"},
    {"{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}", FY_EUNSUPPORTED,
     "schema, #: 'pattern' in several parts of a schema that all hold is not supported"},
    {"{\"type\":\"string\",\"pattern\":\"a(?=b)\"}", FY_EUNSUPPORTED,
     "schema, #: 'pattern', character 3: look-around is not supported"},
    {"{\"type\":\"string\",\"pattern\":\"\\\\bword\"}", FY_EUNSUPPORTED,
     "schema, #: 'pattern', character 1: this escape is not supported"},
    {"{\"type\":\"string\",\"pattern\":\"(a\"}", FY_EFORMAT,
     "schema, #: 'pattern', character 3: a group without its end ')'"},
    {"{\"type\":\"string\",\"pattern\":\"a)\"}", FY_EFORMAT,
     "schema, #: 'pattern', character 2: a ')' without its '('"},
    {"{\"type\":\"string\",\"pattern\":\"(^a)\"}", FY_EUNSUPPORTED,
     "schema, #: 'pattern', character 2: '^' and '$' are supported at the ends only"},
    {"{\"type\":\"string\",\"pattern\":\"^a+$\",\"maxLength\":4}", FY_EUNSUPPORTED,
     "schema, #: 'minLength' or 'maxLength' next to a pattern or format that may match texts of "
     "other "
     "lengths is not supported; put the length into the pattern"},
    {"{\"type\":\"string\",\"format\":\"uri\"}", FY_EUNSUPPORTED,
     "schema, #: 'format' 'uri' is not supported, expected date, time, date-time, uuid, email or "
     "ipv4"},
    {"{\"enum\":[1],\"minimum\":0}", FY_EUNSUPPORTED,
     "schema, #: 'minimum' next to 'enum' or 'const' is not supported"},
    {"{\"minLength\":-1}", FY_EFORMAT, "schema, #: 'minLength' is not a whole number from 0 on"},
    {"{\"additionalProperties\":true,\"minProperties\":2}", FY_EUNSUPPORTED,
     "schema, #: 'minProperties' of more than the named properties and one is not supported: two "
     "others might have the same name"},
    {"{\"items\":[{}]}", FY_EUNSUPPORTED,
     "schema, #: 'items' as a list is not supported; use 'prefixItems'"},
    {"{\"patternProperties\":{\"a\":{}},\"properties\":{\"ba\":{}}}", FY_EUNSUPPORTED,
     "schema, #/patternProperties: a pattern that matches one of 'properties' or 'required' is not "
     "supported"},
    {"{\"type\":\"array\",\"items\":{},\"minItems\":99999999}", FY_EFIT,
     "schema: more than 1048576 symbols with counts unrolled; use smaller counts"},
};

static void what_is_not_supported_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        fy_err e = {0};
        fy_grammar *g = fy_grammar_schema(fy_span_of(refused[i].schema), &e);
        if (g != NULL)
            fail_msg("taken: %s", refused[i].schema);
        const char *want = refused[i].message;
        const size_t n = want[strlen(want) - 1] == ' ' ? strlen(want) : sizeof e.msg;
        if (e.code != refused[i].code || strncmp(e.msg, want, n) != 0)
            fail_msg("%s\nsays:     %s (%d)\nexpected: %s", refused[i].schema, e.msg, e.code, want);
    }
}

static void limits_hold(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_err e = {0};
    fy_str_puts(&s, "{\"enum\":[");
    while (s.len < 256 << 10)
        fy_str_puts(&s, "\"0123456789\",");
    assert_null(fy_grammar_schema((fy_span){s.ptr, s.len}, &e));
    assert_int_equal(e.code, FY_EFIT);
    fy_str_clear(&s);
    fy_str_puts(&s, "{\"properties\":{");
    for (int i = 0; i < 4100; i++)
        fy_str_printf(&s, "%s\"p%d\":{}", i > 0 ? "," : "", i);
    fy_str_puts(&s, "}}");
    e = (fy_err){0};
    assert_null(fy_grammar_schema((fy_span){s.ptr, s.len}, &e));
    assert_string_equal(e.msg, "a schema with more than 4096 members");
    fy_str_clear(&s); /* what is within them works */
    fy_str_puts(&s, "{\"properties\":{");
    for (int i = 0; i < 2000; i++)
        fy_str_printf(&s, "%s\"p%d\":{\"type\":\"null\"}", i > 0 ? "," : "", i);
    fy_str_puts(&s, "},\"additionalProperties\":true}");
    e = (fy_err){0};
    fy_grammar *g = fy_grammar_schema((fy_span){s.ptr, s.len}, &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    static const char text[] = "{\"p3\":null, \"p1999\":null, \"p\":[], \"p20000\":1}";
    assert_int_equal(verdict(g, text, sizeof text - 1), 2);
    fy_grammar_free(g);
    fy_str_clear(&s);
    fy_str_puts(&s, "{\"enum\":[[0");
    for (int i = 0; i < 100000; i++)
        fy_str_puts(&s, ",1");
    fy_str_puts(&s, "]]}");
    g = fy_grammar_schema((fy_span){s.ptr, s.len}, &e);
    assert_non_null(g);
    fy_grammar_free(g);
    fy_str_release(&s);
}

/* `open` n times, `inside`, `shut` n times. */
static void put_nested(fy_str *s, int n, const char *open, const char *inside, const char *shut)
{
    for (int i = 0; i < n; i++)
        fy_str_puts(s, open);
    fy_str_puts(s, inside);
    for (int i = 0; i < n; i++)
        fy_str_puts(s, shut);
}

static void nesting_has_a_limit(void **state)
{
    static const struct {
        const char *before, *open, *inside, *shut, *after, *text, *message;
        int most;
    } nested[] = {
        {"", "{\"items\":", "{}", "}", "", "[[[[]]]]", "deeper nesting, expected at most 64 levels",
         63},
        {"{\"pattern\":\"^", "(", "b", ")", "$\"}", "\"b\"",
         "schema, #: 'pattern', character 66: more than 64 open groups", 64},
        {"{\"pattern\":\"^", "(?:b|", "c", ")?", "$\"}", "\"b\"", "more than 64 open groups", 64},
        {"{\"pattern\":\"^", "(b)", "", "(c)?", "$\"}", "", NULL, 200}, /* one after the other */
    };
    (void)state;
    for (size_t i = 0; i < sizeof nested / sizeof nested[0]; i++) {
        for (int beyond = 0; beyond < 2; beyond++) {
            fy_str s = {0};
            fy_err e = {0};
            fy_str_puts(&s, nested[i].before);
            put_nested(&s, nested[i].most + beyond, nested[i].open, nested[i].inside,
                       nested[i].shut);
            fy_str_puts(&s, nested[i].after);
            fy_grammar *g = fy_grammar_schema((fy_span){s.ptr, s.len}, &e);
            const bool fits = !beyond || nested[i].message == NULL;
            if ((g != NULL) != fits || (!fits && strstr(e.msg, nested[i].message) == NULL))
                fail_msg("%s: %s", s.ptr, e.msg);
            if (fits)
                assert_int_not_equal(verdict(g, nested[i].text, strlen(nested[i].text)), 0);
            fy_grammar_free(g);
            fy_str_release(&s);
        }
    }
}

/* Each within the limit of a pattern. States are what bounds the memory of a grammar, and the time
 * that it takes to compile one. */
static void a_grammar_of_too_many_states_is_refused(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_err e = {0};
    fy_str_puts(&s, "{\"properties\":{");
    for (int i = 0; i < 4; i++)
        fy_str_printf(&s, "%s\"%c\":{\"pattern\":\"^[\\ud800\\udc81-\\udbf0\\udc81]{60000}$\"}",
                      i > 0 ? "," : "", 'a' + i);
    fy_str_puts(&s, "}}");
    assert_null(fy_grammar_schema((fy_span){s.ptr, s.len}, &e));
    assert_int_equal(e.code, FY_EFIT);
    assert_string_equal(e.msg, "schema: the grammar takes more than 2097152 states; use smaller "
                               "counts");
    fy_str_release(&s);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"^[a-c]+$\"},\"b\":{\"enum\":[1,"
        "\"x\"]},"
        "\"c\":{\"allOf\":[{\"minimum\":1},{\"maximum\":20}]}},\"additionalProperties\":{}}";
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_grammar *g = fy_grammar_schema((fy_span){schema, sizeof schema - 1}, &e);
        failed = alloc_fail_end();
        if (failed && (g != NULL || e.code != FY_ENOMEM))
            fail_msg("allocation %ld: %s", n, e.msg);
        fy_grammar_free(g);
    }
}

/* The first free text of a pattern and its counted part go on at the same time, from each place. */
static void patterns_whose_masks_would_take_too_long_are_refused(void **state)
{
    static const struct {
        const char *pattern;
        bool fits;
    } patterns[] = {
        {".{40}x", true},
        {".{200}x", false},
        {"^.{200}x$", true},
        {"[a-z]{3000}[0-9]", false},
        {"^[a-z]{3000}[0-9]$", true},
        {"(.{50}a|.{60}b)", false},
        {"^.*a.{99}b.*$", false},
        {"([a-z]+-){2,40}x", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        for (int name = 0; name < 2; name++) {
            fy_err e = {0};
            char text[200];
            const int n = snprintf(text, sizeof text,
                                   name ? "{\"type\":\"object\",\"patternProperties\":{\"%s\":{}}}"
                                        : "{\"type\":\"string\",\"pattern\":\"%s\"}",
                                   patterns[i].pattern);
            fy_grammar *g = fy_grammar_schema((fy_span){text, (size_t)n}, &e);
            if ((g != NULL) != patterns[i].fits)
                fail_msg("%s: %s", text, e.msg);
            if (g == NULL && (e.code != FY_EFIT || strstr(e.msg, "anchor it with ^ and $") == NULL))
                fail_msg("%s: %s", text, e.msg);
            fy_grammar_free(g);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_allow_these_texts_and_no_others),
        cmocka_unit_test(whole_numbers_are_those_between_their_bounds),
        cmocka_unit_test(decimals_are_those_between_their_bounds),
        cmocka_unit_test(large_and_open_bounds_hold),
        cmocka_unit_test(patterns_match_what_regular_expressions_match),
        cmocka_unit_test(patterns_are_spelled_as_json),
        cmocka_unit_test(what_is_not_supported_is_refused_with_its_place),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(a_grammar_of_too_many_states_is_refused),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(patterns_whose_masks_would_take_too_long_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
