/* Calls in answers, format by format; every answer whole, byte by byte, and in pieces of 3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* (cmocka.h needs the four above first) */
#include <cmocka.h>

#include <string.h>

#include "base/json_tree.h"
#include "toolcall/toolcall.h"

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"o\":{}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\"}}]";

static fy_tools *tools_of(const char *json)
{
    fy_err e = {0};
    json_t *list = fy_json_data(fy_span_of(json), &e);
    fy_tools *t = list != NULL ? fy_tools_new(list, &e) : NULL;
    json_decref(list);
    if (t == NULL)
        fail_msg("%s", e.msg);
    return t;
}

/* Events as text: content as it is, a call as [name(arguments)], a cut one without its end. */
typedef struct {
    fy_str out;
    bool in_call;
} shown;

static int show(void *user, fy_tool_event what, fy_span text, fy_err *e)
{
    (void)e;
    shown *s = user;
    if (what == FY_TOOL_BEGIN) {
        assert_false(s->in_call);
        fy_str_puts(&s->out, "[");
    } else if (what != FY_TOOL_CONTENT) {
        assert_true(s->in_call);
    } else {
        assert_true(text.len > 0);
    }
    s->in_call = what == FY_TOOL_BEGIN || what == FY_TOOL_ARGUMENTS;
    fy_str_add(&s->out, text.ptr, text.len);
    fy_str_puts(&s->out, what == FY_TOOL_BEGIN ? "(" : what == FY_TOOL_END ? ")]" : "");
    return 0;
}

static void parse(const fy_tool_format *f, const fy_tools *t, fy_span answer, size_t piece,
                  const char *wanted)
{
    fy_err e = {0};
    shown s = {0};
    fy_tool_parser *p = fy_tool_parser_new(f, t, show, &s, &e);
    assert_non_null(p);
    for (size_t i = 0; i < answer.len; i += piece) {
        size_t n = answer.len - i < piece ? answer.len - i : piece;
        assert_int_equal(fy_tool_parser_add(p, (fy_span){answer.ptr + i, n}, &e), 0);
    }
    assert_int_equal(fy_tool_parser_end(p, &e), 0);
    if (strcmp(fy_str_z(&s.out), wanted) != 0)
        fail_msg("%s, pieces of %zu: '%.*s'\ngave '%s'\nnot  '%s'", fy_tool_format_name(f), piece,
                 (int)answer.len, answer.ptr, fy_str_z(&s.out), wanted);
    fy_str_release(&s.out);
    fy_tool_parser_free(p);
}

static const char qwen3[] = "{% if tools %}<tool_call>\n{\"name\": <function-name>",
                  llama3[] =
                      "{% if tools %}{\"name\": function name, \"parameters\": dictionary of",
                  mistral[] = "{% if tools %}[TOOL_CALLS][",
                  mistral_args[] = "{% if tools %}[TOOL_CALLS]name[ARGS]{}",
                  phi4[] = "{% if tools %}<|tool_call|>x<|/tool_call|>",
                  granite[] = "{% if tools %}respond with <|tool_call|> followed by a JSON list",
                  glm[] = "{% for tool in tools %}<tool_call>x\n<arg_key>",
                  coder[] = "{% if tools %}<tool_call>\n<function=example>\n<parameter=a>",
                  gemma4[] = "{% if tools %}'<|tool_call>call:' + name",
                  lfm2[] = "{% if tools %}<|tool_list_start|>[", plain[] = "{{ messages }}";

#define S64 "                                                                "

static const struct {
    const char *template, *answer, *wanted;
} cases[] = {
    /* a name whose end is too far away */
    {mistral, "[TOOL_CALLS]f" S64 S64 S64 S64 "[ARGS]{}",
     "[TOOL_CALLS]f" S64 S64 S64 S64 "[ARGS]{}"},
    {coder, "<tool_call><function=f" S64 S64 ">x", "<tool_call><function=f" S64 S64 ">x"},
    {glm, "<tool_call>f" S64 S64 "\nx", "<tool_call>f" S64 S64 "\nx"},

    /* plain text */
    {qwen3, "Hello.", "Hello."},
    {qwen3, "  a <tool > b\n", "  a <tool > b\n"},
    {qwen3, "", ""},
    {qwen3, " \n", " \n"},
    {qwen3, "ends in <tool_ca", "ends in <tool_ca"},
    /* hermes */
    {qwen3, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"a}\\\"b\"}}\n</tool_call>",
     "[f({\"s\": \"a}\\\"b\"})]"},
    {qwen3, "Let me see.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n",
     "Let me see.[f({})]"},
    {qwen3,
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":1}}</tool_call>\n"
     "<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"o\":[1,{\"a\":2}]}}</tool_call>",
     "[f({\"n\":1})][get_weather({\"o\":[1,{\"a\":2}]})]"},
    {qwen3, "<tool_call>{\"arguments\": {\"n\": 1}, \"name\": \"f\"}</tool_call>",
     "[f({\"n\": 1})]"},
    {qwen3, "<tool_call>{\"name\": \"f\"}</tool_call>", "[f({})]"},
    {qwen3, "<tool_call>{\"name\": \"f\", \"arguments\": null, \"id\": 7}</tool_call>", "[f({})]"},
    {qwen3, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"n\\\": 1}\"}</tool_call>",
     "[f({\"n\": 1})]"},
    {qwen3, "<tool_call>[{\"name\":\"f\",\"arguments\":{}}, {\"name\":\"f\"}]</tool_call> done",
     "[f({})][f({})] done"},
    {qwen3, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n\nAnd then?",
     "[f({})]\n\nAnd then?"},
    /* what is not a call is content */
    {qwen3, "a <tool_call> b", "a <tool_call> b"},
    {qwen3, "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>",
     "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>"},
    {qwen3, "<tool_call>{\"name\": 3}</tool_call>", "<tool_call>{\"name\": 3}</tool_call>"},
    {qwen3, "<tool_call>{\"arguments\": {,}, \"name\": \"f\"}</tool_call>",
     "<tool_call>{\"arguments\": {,}, \"name\": \"f\"}</tool_call>"},
    {qwen3, "x\n<tool_call>{}</tool_call>y", "x\n<tool_call>{}</tool_call>y"},
    {qwen3, "<tool_call>[]</tool_call>", "<tool_call>[]</tool_call>"},
    {qwen3, "<tool_call><tool_call>{\"name\":\"f\"}</tool_call>", "<tool_call>[f({})]"},
    {qwen3, "<tool_call>", "<tool_call>"},
    /* cut by the limit */
    {qwen3, "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"ab", "[f({\"s\": \"ab"},
    {qwen3, "<tool_call>{\"name\": \"f\", ", "<tool_call>{\"name\": \"f\", "},
    /* junk after the arguments ends the call */
    {qwen3, "<tool_call>{\"name\":\"f\",\"arguments\":{}} oops", "[f({})] oops"},
    {qwen3, "<tool_call>{\"name\":\"f\",\"arguments\":{}, oops", "[f({})]oops"},
    /* llama 3: bare, or after the tag */
    {llama3, "{\"name\": \"f\", \"parameters\": {\"n\": 2}}", "[f({\"n\": 2})]"},
    {llama3, "\n {\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}", "[f({})]"},
    {llama3, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "[f({})]"},
    {llama3, "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": {\"n\":1}}",
     "[f({})][f({\"n\":1})]"},
    {llama3, "{\"a\": 1} is JSON", "{\"a\": 1} is JSON"},
    {llama3, "See {\"name\": \"f\"}", "See {\"name\": \"f\"}"},
    /* mistral */
    {mistral, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"n\": 1}, \"id\": \"abcdefghi\"}]",
     "[f({\"n\": 1})]"},
    {mistral, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\"}]",
     "[f({})][f({})]"},
    {mistral_args, "[TOOL_CALLS]f[ARGS]{\"n\": 1}[TOOL_CALLS]f[CALL_ID]x[ARGS]{}",
     "[f({\"n\": 1})][f({})]"},
    {mistral_args, "[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{\"n\": 1}", "[f({\"n\": 1})]"},
    {mistral_args, "[TOOL_CALLS]g[ARGS]{\"n\": 1}", "[TOOL_CALLS]g[ARGS]{\"n\": 1}"},
    {mistral_args, "[TOOL_CALLS]f[ARGS]{\"n\": ", "[f({\"n\": "},
    /* pairs that the limit cuts; a mark inside JSON */
    {coder, "<tool_call>\n<function=f>\n<para", "[f("},
    {coder, "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n</func", "[f({\"n\": 1"},
    {coder,
     "<tool_call>\n<function=f>\n<parameter=o>\n[\"</parameter>\"]\n</parameter>\n</function>\n"
     "</tool_call>",
     "[f({\"o\": [\"</parameter>\"]})]"},
    /* phi 4, granite, lfm2 */
    {phi4, "<|tool_call|>{\"name\": \"f\", \"arguments\": {}}<|/tool_call|>", "[f({})]"},
    {phi4, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|>", "[f({})]"},
    {granite, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"s\":\"x\"}}]",
     "[f({\"s\":\"x\"})]"},
    {lfm2, "<|tool_call_start|>[{\"name\": \"f\", \"arguments\": {}}]<|tool_call_end|>ok",
     "[f({})]ok"},
    /* pairs: the schema tells strings from other values */
    {glm,
     "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>12</arg_value>\n<arg_key>n</arg_key>\n"
     "<arg_value>12</arg_value>\n<arg_key>o</arg_key>\n<arg_value>{\"a\": 1}</arg_value>\n"
     "<arg_key>other</arg_key>\n<arg_value>two words</arg_value>\n</tool_call>",
     "[f({\"s\": \"12\", \"n\": 12, \"o\": {\"a\": 1}, \"other\": \"two words\"})]"},
    {glm, "<tool_call>f</tool_call><tool_call>f\n</tool_call>", "[f({})][f({})]"},
    {glm, "<tool_call>g\n</tool_call>", "<tool_call>g\n</tool_call>"},
    {glm, "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>12</arg_value>\n<arg_key>n",
     "[f({\"s\": \"12\""},
    {coder,
     "I look.\n\n<tool_call>\n<function=f>\n<parameter=s>\na\nb\n</parameter>\n<parameter=n>\n7\n"
     "</parameter>\n</function>\n</tool_call>",
     "I look.[f({\"s\": \"a\\nb\", \"n\": 7})]"},
    {coder, "<tool_call>\n<function=f>\n</function>\n</tool_call>", "[f({})]"},
    {coder, "<tool_call>\n{\"name\": \"f\"}", "<tool_call>\n{\"name\": \"f\"}"},
    /* gemma */
    {gemma4,
     "<|tool_call>call:f{s:<|\"|>a, {b}<|\"|>,n:3,o:{x:[1,<|\"|>y<|\"|>,true],z:{}}}<tool_call|>",
     "[f({\"s\": \"a, {b}\", \"n\": 3, \"o\": {\"x\": [1, \"y\", true], \"z\": {}}})]"},
    {gemma4, "<|tool_call>call:f{}<tool_call|><|tool_call>call:f{n:1}<tool_call|>",
     "[f({})][f({\"n\": 1})]"},
    {gemma4, "<|tool_call>call:f{n:}<tool_call|>", "<|tool_call>call:f{n:}<tool_call|>"},
    {gemma4, "<|tool_call>call:g{}<tool_call|>", "<|tool_call>call:g{}<tool_call|>"},
    {gemma4, "<|tool_call>call:f{s:<|\"|>}<tool_call|><|\"|>}<tool_call|>",
     "[f({\"s\": \"}<tool_call|>\"})]"},
    {gemma4, "<|tool_call>call:f{s:<|\"|>}<tool_call|> b",
     "<|tool_call>call:f{s:<|\"|>}<tool_call|> b"},
    /* a template that shows no tools */
    {plain, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "[f({})]"},
};

static void every_format_is_parsed_however_the_text_is_cut(void **state)
{
    (void)state;
    fy_tools *t = tools_of(tools_json);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fy_tool_format *f = fy_tool_format_of(fy_span_of(cases[i].template));
        fy_span answer = fy_span_of(cases[i].answer);
        parse(f, t, answer, answer.len + 1, cases[i].wanted);
        parse(f, t, answer, 1, cases[i].wanted);
        parse(f, t, answer, 3, cases[i].wanted);
    }
    fy_tools_free(t);
}

static void formats_are_told_by_their_templates(void **state)
{
    (void)state;
    static const struct {
        const char *template, *name;
    } all[] = {{qwen3, "hermes"},
               {llama3, "llama3"},
               {mistral, "mistral"},
               {phi4, "phi4"},
               {granite, "granite"},
               {glm, "glm"},
               {coder, "qwen3-coder"},
               {gemma4, "gemma4"},
               {lfm2, "lfm2"},
               {plain, "generic"},
               {mistral_args, "mistral-args"},
               {"<tool_call>", "generic"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_string_equal(fy_tool_format_name(fy_tool_format_of(fy_span_of(all[i].template))),
                            all[i].name);
    const fy_tool_format *f = fy_tool_format_of(fy_span_of(mistral_args));
    assert_true(fy_tool_format_has_mark(f, FY_SPAN("[TOOL_CALLS]")));
    assert_true(fy_tool_format_has_mark(f, FY_SPAN("[ARGS]")));
    assert_true(fy_tool_format_has_mark(f, FY_SPAN("[CALL_ID]")));
    assert_false(fy_tool_format_has_mark(f, FY_SPAN("[INST]")));
    assert_false(fy_tool_format_has_mark(f, FY_SPAN("")));
}

static int refuse(void *user, fy_tool_event what, fy_span text, fy_err *e)
{
    (void)user;
    (void)text;
    return what == FY_TOOL_BEGIN ? fy_fail(e, FY_EINTR, "enough") : 0;
}

static void an_error_of_the_sink_ends_parsing(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_tools *t = tools_of(tools_json);
    const char *const templates[] = {qwen3, mistral_args, glm, gemma4};
    const char *const answers[] = {"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
                                   "[TOOL_CALLS]f[ARGS]{}", "<tool_call>f\n</tool_call>",
                                   "<|tool_call>call:f{}<tool_call|>"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        e = (fy_err){0};
        fy_tool_parser *p =
            fy_tool_parser_new(fy_tool_format_of(fy_span_of(templates[i])), t, refuse, NULL, &e);
        assert_int_equal(fy_tool_parser_add(p, fy_span_of(answers[i]), &e), -1);
        assert_int_equal(e.code, FY_EINTR);
        fy_tool_parser_free(p);
    }
    fy_tools_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_parsed_however_the_text_is_cut),
        cmocka_unit_test(formats_are_told_by_their_templates),
        cmocka_unit_test(an_error_of_the_sink_ends_parsing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
