/* Random answers under the schemas of tests/data/schemas are valid JSON and valid under their
 * schema, by a validator of its own: 10,000 of them, 200,000 with FERRY_SOAK. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/unit/grammar/random_answers.h"
#include "tests/unit/grammar/schema_check.h"

static answer_maker maker;

/* As the strict reader, but a name may come twice: the last one counts. */
static json_t *read_value(fy_json *j, fy_err *e)
{
    fy_span s;
    int64_t i;
    double d;
    int rc;
    switch (fy_json_peek(j)) {
    case FY_JSON_OBJECT: {
        json_t *o = json_object();
        assert_int_equal(fy_json_object_begin_unchecked(j, e), 0);
        while ((rc = fy_json_object_next(j, &s, e)) == 1) {
            char *key = strndup(s.ptr, s.len);
            json_object_set_new(o, key, read_value(j, e));
            free(key);
        }
        return o;
    }
    case FY_JSON_ARRAY: {
        json_t *a = json_array();
        assert_int_equal(fy_json_array_begin(j, e), 0);
        while ((rc = fy_json_array_next(j, e)) == 1)
            json_array_append_new(a, read_value(j, e));
        return a;
    }
    case FY_JSON_STRING:
        return fy_json_string(j, &s, NULL, e) == 0 ? json_stringn(s.ptr, s.len) : NULL;
    case FY_JSON_NUMBER:
        rc = fy_json_number(j, &i, &d, e);
        return rc < 0 ? NULL : rc == 1 ? json_integer(i) : json_real(d);
    case FY_JSON_TRUE:
    case FY_JSON_FALSE: {
        bool b;
        return fy_json_bool(j, &b, e) == 0 ? json_boolean(b) : NULL;
    }
    case FY_JSON_NULL:
        return fy_json_null(j, e) == 0 ? json_null() : NULL;
    case FY_JSON_BAD:
        break;
    }
    fy_json_skip(j, e);
    return NULL;
}

/* White space stands only as one space after ',' and ':'. */
static bool is_narrow(const fy_str *text)
{
    bool inside = false;
    for (size_t i = 0; i < text->len; i++) {
        const char c = text->ptr[i];
        if (inside && c == '\\')
            i++;
        else if (c == '"')
            inside = !inside;
        else if (!inside && (c == '\n' || c == '\t' || c == '\r'))
            return false;
        else if (!inside && c == ' ' &&
                 (i == 0 || (text->ptr[i - 1] != ',' && text->ptr[i - 1] != ':')))
            return false;
    }
    return true;
}

static void check_answer(const json_t *schema, fy_span schema_text, const fy_str *text)
{
    fy_err e = {0};
    fy_json *j = fy_json_new(text->ptr, text->len, &e);
    json_t *v = read_value(j, &e);
    if (v == NULL || fy_json_end(j, &e) != 0)
        fail_msg("%.*s\nnot JSON: %s\n%s", (int)schema_text.len, schema_text.ptr, text->ptr, e.msg);
    fy_json_free(j);
    const int valid = schema_valid(schema, schema, v);
    if (valid != 1 || !is_narrow(text))
        fail_msg("%.*s\n%s: %s", (int)schema_text.len, schema_text.ptr,
                 valid < 0 ? "a keyword that the validator does not know" : "not valid", text->ptr);
    json_decref(v);
}

static void check_schema(fy_span line, int n)
{
    fy_err e = {0};
    json_t *schema = fy_json_data(line, &e);
    fy_grammar *g = fy_grammar_schema(line, &e);
    if (g == NULL)
        fail_msg("%.*s\n%s", (int)line.len, line.ptr, e.msg);
    fy_matcher *m = fy_matcher_new(g, maker.trie, &e);
    for (int i = 0; i < n; i++) {
        fy_str text = {0};
        if (answer_make(&maker, m, &text, &e) != 0)
            fail_msg("%.*s\n%s: %.300s", (int)line.len, line.ptr, e.msg, fy_str_z(&text));
        check_answer(schema, line, &text);
        fy_str_release(&text);
    }
    fy_matcher_free(m);
    fy_grammar_free(g);
    json_decref(schema);
}

static void random_answers_are_valid(void **state)
{
    (void)state;
    const int n = getenv("FERRY_SOAK") != NULL ? 5000 : 250;
    int n_schemas = 0;
    fy_map file;
    fy_err e = {0};
    assert_int_equal(fy_map_open(&file, "tests/data/schemas/schemas.jsonl", &e), 0);
    fy_span rest = {(const char *)file.data, file.size};
    answers_begin(&maker, 11);
    for (; rest.len > 0; n_schemas++)
        check_schema(fy_span_cut_line(&rest), n);
    assert_int_equal(n_schemas, 40);
    answers_end(&maker);
    fy_map_close(&file);
}

/* A validator that finds nothing proves nothing. */
static void the_validator_finds_faults(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"type\":\"integer\",\"maximum\":4}", "5"},
        {"{\"type\":\"string\",\"pattern\":\"^[a-c]\\\\d$\"}", "\"d1\""},
        {"{\"properties\":{\"a\":{\"type\":\"null\"}}}", "{\"a\":1}"},
        {"{\"additionalProperties\":false}", "{\"a\":1}"},
        {"{\"required\":[\"b\"]}", "{\"a\":1}"},
        {"{\"type\":\"string\",\"format\":\"date\"}", "\"2023-02-29\""},
        {"{\"oneOf\":[{},{}]}", "1"},
        {"{\"maxLength\":1}", "\"\xC3\xA9\xC3\xA9\""},
        {"{\"items\":{\"type\":\"null\"}}", "[null,1]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        json_t *s = fy_json_data(fy_span_of(cases[i][0]), &e), *v = NULL;
        v = fy_json_data(fy_span_of(cases[i][1]), &e);
        assert_true(s != NULL && v != NULL);
        assert_int_equal(schema_valid(s, s, v), 0);
        json_decref(s);
        json_decref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_answers_are_valid),
        cmocka_unit_test(the_validator_finds_faults),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
