/* The tools of a request, and conversations made fit for templates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* (cmocka.h needs the four above first) */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "toolcall/toolcall.h"

static json_t *data_of(const char *text)
{
    fy_err e = {0};
    json_t *v = fy_json_data(fy_span_of(text), &e);
    if (v == NULL)
        fail_msg("%s", e.msg);
    return v;
}

static void assert_json(const json_t *v, const char *wanted)
{
    char *text = json_dumps(v, JSON_COMPACT);
    assert_string_equal(text, wanted);
    free(text);
}

static void a_list_gets_the_members_that_templates_read(void **state)
{
    (void)state;
    json_t *list = data_of("[{\"function\":{\"name\":\"a\"}},{\"type\":\"function\",\"function\":"
                           "{\"name\":\"b-2\",\"description\":null,\"parameters\":{}}}]");
    fy_tools *t = fy_tools_new(list, NULL);
    json_decref(list);
    assert_int_equal(fy_tools_count(t), 2);
    assert_string_equal(fy_tools_name(t, 1), "b-2");
    assert_true(fy_tools_has(t, FY_SPAN("a")));
    assert_false(fy_tools_has(t, FY_SPAN("")));
    assert_json(fy_tools_json(t),
                "[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"description\":\"\","
                "\"parameters\":{\"type\":\"object\",\"properties\":{}}}},{\"type\":\"function\","
                "\"function\":{\"name\":\"b-2\",\"description\":\"\",\"parameters\":{\"type\":"
                "\"object\"}}}]");
    fy_tools_free(t);
}

static void a_bad_list_is_refused_by_member(void **state)
{
    (void)state;
    static const struct {
        const char *list, *message;
    } cases[] = {
        {"{}", "tools: expected a list"},
        {"[1]", "tools[0]: expected an object"},
        {"[{\"type\":\"web\"}]", "tools[0].type: only \"function\" is supported"},
        {"[{}]", "tools[0].function: expected an object"},
        {"[{\"function\":{}}]", "tools[0].function.name: expected a string"},
        {"[{\"function\":{\"name\":\"\"}}]",
         "tools[0].function.name: '': expected 1 to 64 letters"},
        {"[{\"function\":{\"name\":\"a b\"}}]", "'a b': expected 1 to 64 letters"},
        {"[{\"function\":{\"name\":\"a\\u0000b\"}}]", "tools[0].function.name: 'a\\x00b'"},
        {"[{\"function\":{\"name\":\"a\",\"description\":1}}]",
         "tools[0].function.description: expected a string"},
        {"[{\"function\":{\"name\":\"a\",\"parameters\":[]}}]",
         "tools[0].function.parameters: expected an object"},
        {"[{\"function\":{\"name\":\"a\",\"parameters\":{\"type\":\"string\"}}}]",
         "tools[0].function.parameters.type: expected \"object\""},
        {"[{\"function\":{\"name\":\"a\",\"parameters\":{\"type\":[\"object\",\"null\"]}}}]",
         "tools[0].function.parameters.type: expected \"object\""},
        {"[{\"function\":{\"name\":\"a\"}},{\"function\":{\"name\":\"a\"}}]",
         "tools[1].function.name: 'a' is there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_err e = {0};
        json_t *list = data_of(cases[i].list);
        assert_null(fy_tools_new(list, &e));
        assert_int_equal(e.code, FY_EARG);
        if (strstr(e.msg, cases[i].message) == NULL)
            fail_msg("%s: '%s' lacks '%s'", cases[i].list, e.msg, cases[i].message);
        json_decref(list);
    }
}

static void arguments_in_a_history_become_objects(void **state)
{
    (void)state;
    fy_err e = {0};
    json_t *m = data_of(
        "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":null,"
        "\"tool_calls\":[{\"function\":{\"name\":\"a\",\"arguments\":\"{\\\"n\\\": 1}\"}},"
        "{\"function\":{\"name\":\"a\",\"arguments\":\"{broken\"}},{\"function\":{\"name\":\"a\","
        "\"arguments\":\"3\"}},{\"function\":3},7]},{\"role\":\"tool\",\"content\":\"r\"},5]");
    assert_int_equal(fy_tool_messages_fix(m, &e), 0);
    assert_json(m,
                "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"\","
                "\"tool_calls\":[{\"function\":{\"name\":\"a\",\"arguments\":{\"n\":1}}},"
                "{\"function\":{\"name\":\"a\",\"arguments\":\"{broken\"}},{\"function\":"
                "{\"name\":\"a\",\"arguments\":\"3\"}},{\"function\":3},7]},"
                "{\"role\":\"tool\",\"content\":\"r\"},5]");
    json_decref(m);
}

static void a_template_without_tools_gets_them_as_text(void **state)
{
    (void)state;
    fy_err e = {0};
    json_t *list = data_of("[{\"function\":{\"name\":\"a\",\"description\":\"d\"}}]");
    fy_tools *t = fy_tools_new(list, NULL);
    json_t *m = data_of(
        "[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":\"t\",\"tool_calls\":[{\"function\":{\"name\":\"a\","
        "\"arguments\":{\"n\": 1}}}]},{\"role\":\"tool\",\"content\":"
        "[{\"type\":\"text\",\"text\":\"r\"}]}]");
    assert_int_equal(fy_tool_messages_explain(m, t, &e), 0);
    const char *system = json_string_value(json_object_get(json_array_get(m, 0), "content"));
    assert_memory_equal(system, "S\n\nYou may call functions.", 26);
    assert_non_null(strstr(system, "\n{\"name\": \"a\", \"description\": \"d\", \"parameters\": "));
    json_array_remove(m, 0);
    assert_json(m, "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":"
                   "\"t\\n<tool_call>\\n{\\\"name\\\": \\\"a\\\", \\\"arguments\\\": {\\\"n\\\": "
                   "1}}\\n</tool_call>\"},{\"role\":\"user\",\"content\":\"<tool_response>\\nr\\n"
                   "</tool_response>\"}]");
    json_decref(m);
    m = data_of("[{\"role\":\"user\",\"content\":\"q\"}]");
    assert_int_equal(fy_tool_messages_explain(m, t, &e), 0);
    assert_int_equal(json_array_size(m), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(m, 0), "role")), "system");
    json_decref(m);
    json_decref(list);
    fy_tools_free(t);
}

static void a_call_that_has_to_come_has_a_schema(void **state)
{
    (void)state;
    fy_err e = {0};
    json_t *list =
        data_of("[{\"function\":{\"name\":\"a\",\"parameters\":{\"properties\":{\"x\":{"
                "\"$ref\":\"#/$defs/d\"}},\"$defs\":{\"d\":{\"items\":[{\"$ref\":\"#\"}]}}}}}"
                ",{\"function\":{\"name\":\"b\"}}]");
    fy_tools *t = fy_tools_new(list, NULL);
    const fy_tool_format *f = fy_tool_format_of(FY_SPAN("tools <|python_tag|>"));
    fy_tool_frame frame;
    assert_int_equal(fy_tool_frame_make(&f, t, 1, &frame, &e), 0);
    assert_string_equal(frame.first, "");
    assert_true(frame.single);
    assert_string_equal(
        fy_str_z(&frame.schema),
        "{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"b\"},\"parameters\":{"
        "\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}},"
        "\"required\":[\"name\",\"parameters\"],\"additionalProperties\":false}");
    fy_str_release(&frame.schema);
    f = fy_tool_format_of(FY_SPAN("tools <arg_key>")); /* has no JSON: the generic form */
    assert_int_equal(fy_tool_frame_make(&f, t, -1, &frame, &e), 0);
    assert_string_equal(fy_tool_format_name(f), "generic");
    assert_string_equal(frame.first, "<tool_call>\n");
    const char *ref = "{\"$ref\":\"#/anyOf/0/properties/arguments/$defs/d\"}";
    assert_non_null(strstr(fy_str_z(&frame.schema), ref));
    assert_non_null(
        strstr(fy_str_z(&frame.schema), "[{\"$ref\":\"#/anyOf/0/properties/arguments\"}]"));
    fy_str_release(&frame.schema);
    fy_tools_free(t);
    json_decref(list);
}

/* Real templates, by name of their directory. */
static void published_templates_are_recognised(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"qwen3", "hermes"},
        {"mimo", "hermes"},
        {"llama3_2", "llama3"},
        {"meta-llama-Llama-3.1-8B-Instruct", "llama3"},
        {"mistral_nemo", "mistral"},
        {"granite3.1-moe", "granite"},
        {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
        {"phi3", "generic"},
        {"gemma-2b", "generic"},
    };
    const char *real = getenv("FERRY_REAL");
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char path[512];
        fy_map map;
        snprintf(path, sizeof path, "%s/templates/%s/template.jinja",
                 real != NULL ? real : "../shared/real", expected[i][0]);
        if (fy_map_open(&map, path, NULL) != 0)
            skip();
        fy_span text = {(const char *)map.data, map.size};
        assert_string_equal(fy_tool_format_name(fy_tool_format_of(text)), expected[i][1]);
        fy_map_close(&map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_gets_the_members_that_templates_read),
        cmocka_unit_test(a_bad_list_is_refused_by_member),
        cmocka_unit_test(arguments_in_a_history_become_objects),
        cmocka_unit_test(a_template_without_tools_gets_them_as_text),
        cmocka_unit_test(a_call_that_has_to_come_has_a_schema),
        cmocka_unit_test(published_templates_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
