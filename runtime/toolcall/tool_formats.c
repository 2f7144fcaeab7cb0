/* How families of models write their calls, told by the chat template; and what a model without
 * such a template is asked to write. */
#include <string.h>

#include "base/json_tree.h"
#include "toolcall/toolcall_impl.h"

static const fy_tool_pairs coder_pairs = {
    "\n", "<function=",       ">\n",         "<parameter=",    ">\n",
    "",   "\n</parameter>\n", "</function>", "\n</tool_call>", "</parameter>"};
static const fy_tool_pairs glm_pairs = {"",
                                        "",
                                        "\n",
                                        "<arg_key>",
                                        "</arg_key>\n",
                                        "<arg_value>",
                                        "</arg_value>\n",
                                        "",
                                        "</tool_call>",
                                        "</arg_value>"};

static const fy_tool_named gemma4_named = {"call:", NULL, "", "<|\"|>", "<tool_call|>"};
static const fy_tool_named functiongemma_named = {"call:", NULL, "", "<escape>",
                                                  "<end_function_call>"};
static const fy_tool_named mistral_named = {"", "[CALL_ID]", "[ARGS]", NULL, ""};

/* The first row that matches wins: rows whose sign is part of another's stand before it. */
static const fy_tool_format formats[] = {
    {.name = "qwen3-coder",
     .told_by = {"<function=", "<parameter="},
     .kind = FY_TOOL_XML,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .pairs = &coder_pairs,
     .xml = {"<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>"}},
    {.name = "glm",
     .told_by = {"<arg_key>"},
     .kind = FY_TOOL_XML,
     .open = "<tool_call>",
     .close = NULL, /* `end` is the mark */
     .pairs = &glm_pairs,
     .xml = {"", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"}},
    {.name = "gemma4",
     .told_by = {"<|tool_call>call:"},
     .kind = FY_TOOL_GEMMA,
     .open = "<|tool_call>",
     .close = "<tool_call|>",
     .named = &gemma4_named},
    {.name = "functiongemma",
     .told_by = {"<start_function_call>"},
     .kind = FY_TOOL_GEMMA,
     .open = "<start_function_call>",
     .close = "<end_function_call>",
     .named = &functiongemma_named},
    {.name = "mistral-args",
     .told_by = {"[ARGS]"},
     .open = "[TOOL_CALLS]",
     .named = &mistral_named,
     .first = "[TOOL_CALLS][",
     .between = ", ",
     .last = "]",
     .arguments = "arguments"},
    {.name = "mistral",
     .told_by = {"[TOOL_CALLS]"},
     .open = "[TOOL_CALLS]",
     .first = "[TOOL_CALLS][",
     .between = ", ",
     .last = "]",
     .arguments = "arguments"},
    {.name = "phi4",
     .told_by = {"<|/tool_call|>"},
     .open = "<|tool_call|>",
     .close = "<|/tool_call|>",
     .first = "<|tool_call|>",
     .between = "<|/tool_call|><|tool_call|>",
     .last = "<|/tool_call|>",
     .arguments = "arguments"},
    {.name = "granite",
     .told_by = {"<|tool_call|>"},
     .open = "<|tool_call|>",
     .first = "<|tool_call|>[",
     .between = ", ",
     .last = "]",
     .arguments = "arguments"},
    {.name = "lfm2",
     .told_by = {"<|tool_call_start|>", "<|tool_list_start|>"},
     .open = "<|tool_call_start|>",
     .close = "<|tool_call_end|>",
     .first = "<|tool_call_start|>[",
     .between = ", ",
     .last = "]<|tool_call_end|>",
     .arguments = "arguments"},
    {.name = "hermes",
     .told_by = {"<tool_call>"},
     .open = "<tool_call>",
     .close = "</tool_call>",
     .first = "<tool_call>\n",
     .between = "\n</tool_call>\n<tool_call>\n",
     .last = "\n</tool_call>",
     .arguments = "arguments"},
    {.name = "llama3",
     .told_by = {"<|python_tag|>", "\"parameters\": dictionary"},
     .open = "<|python_tag|>",
     .bare = true,
     .first = "",
     .between = "; ",
     .last = "",
     .arguments = "parameters",
     .single = true},
};

/* What fy_tool_messages_explain asks for. */
static const fy_tool_format generic = {.name = "generic",
                                       .open = "<tool_call>",
                                       .close = "</tool_call>",
                                       .first = "<tool_call>\n",
                                       .between = "\n</tool_call>\n<tool_call>\n",
                                       .last = "\n</tool_call>",
                                       .arguments = "arguments"};

static bool has(fy_span text, const char *sign)
{
    return sign != NULL && memmem(text.ptr, text.len, sign, strlen(sign)) != NULL;
}

const fy_tool_format *fy_tool_format_of(fy_span template_text)
{
    size_t n = has(template_text, "tools") ? sizeof formats / sizeof *formats : 0;
    for (size_t i = 0; i < n; i++) {
        if (has(template_text, formats[i].told_by[0]) || has(template_text, formats[i].told_by[1]))
            return &formats[i];
    }
    return &generic;
}

const char *fy_tool_format_name(const fy_tool_format *f)
{
    return f->name;
}

bool fy_tool_format_shows_tools(const fy_tool_format *f)
{
    return f != &generic;
}

const char *fy_tool_format_mark(const fy_tool_format *f)
{
    return f->open;
}

const fy_tool_pairs *fy_tool_format_pairs(const fy_tool_format *f)
{
    return f->pairs;
}

const fy_tool_named *fy_tool_format_named(const fy_tool_format *f)
{
    return f->named;
}

bool fy_tool_format_is_bare(const fy_tool_format *f)
{
    return f->bare;
}

bool fy_tool_format_has_mark(const fy_tool_format *f, fy_span token)
{
    static const fy_tool_named none = {0};
    const fy_tool_named *named = f->named != NULL ? f->named : &none;
    const char *const marks[] = {
        f->open,    f->close,         named->id,    named->after_name,  named->quote,
        f->xml.key, f->xml.after_key, f->xml.value, f->xml.after_value, f->xml.end};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (marks[i] != NULL && marks[i][0] != '\0' && fy_span_is(token, marks[i]))
            return true;
    }
    return false;
}

/* --- templates that show no tools --- */

static const char explanation[] =
    "You may call functions. To call one, answer with nothing but\n"
    "<tool_call>\n{\"name\": NAME, \"arguments\": {...}}\n</tool_call>\n"
    "once for each call. Results come back between <tool_response> and </tool_response>. "
    "The functions, each with the JSON schema of its arguments:";

static int put_json(fy_str *s, const json_t *v, fy_err *e)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY);
    if (text == NULL)
        return fy_nomem(e);
    fy_str_puts(s, text);
    free(text);
    return 0;
}

static int set_text(json_t *message, const char *key, fy_str *s, fy_err *e)
{
    json_t *v = s->oom ? NULL : json_stringn(fy_str_z(s), s->len);
    fy_str_release(s);
    return json_object_set_new(message, key, v) != 0 ? fy_nomem(e) : 0;
}

/* Is it the message of that role? */
static bool is_role(const json_t *message, const char *role)
{
    const char *is = json_string_value(json_object_get(message, "role"));
    return is != NULL && strcmp(is, role) == 0;
}

static void put_content(fy_str *s, const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    for (size_t i = 0; i < json_array_size(content); i++) {
        const char *text = json_string_value(json_object_get(json_array_get(content, i), "text"));
        fy_str_puts(s, text != NULL ? text : "");
    }
    if (json_is_string(content))
        fy_str_add(s, json_string_value(content), json_string_length(content));
}

static int add_explanation(json_t *messages, const fy_tools *t, fy_err *e)
{
    json_t *first = json_array_get(messages, 0);
    fy_str s = {0};
    if (first == NULL || !is_role(first, "system")) {
        first = json_pack("{s:s, s:s}", "role", "system", "content", "");
        if (json_array_insert_new(messages, 0, first) != 0)
            return fy_nomem(e);
    }
    put_content(&s, first);
    fy_str_puts(&s, s.len > 0 ? "\n\n" : "");
    fy_str_puts(&s, explanation);
    for (size_t i = 0; i < fy_tools_count(t); i++) {
        fy_str_putc(&s, '\n');
        if (put_json(&s, json_object_get(json_array_get(fy_tools_json(t), i), "function"), e) !=
            0) {
            fy_str_release(&s);
            return -1;
        }
    }
    return set_text(first, "content", &s, e);
}

/* The calls of an answer after its text. */
static int explain_calls(json_t *message, fy_err *e)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    fy_str s = {0};
    int rc = 0;
    put_content(&s, message);
    for (size_t i = 0; i < json_array_size(calls) && rc == 0; i++) {
        const json_t *f = json_object_get(json_array_get(calls, i), "function");
        const json_t *name = json_object_get(f, "name"), *a = json_object_get(f, "arguments");
        fy_str_puts(&s, s.len > 0 ? "\n<tool_call>\n{\"name\": " : "<tool_call>\n{\"name\": ");
        rc = name == NULL ? 0 : put_json(&s, name, e);
        fy_str_puts(&s, ", \"arguments\": ");
        if (rc == 0)
            rc = a == NULL ? (fy_str_puts(&s, "{}"), 0) : put_json(&s, a, e);
        fy_str_puts(&s, "}\n</tool_call>");
    }
    json_object_del(message, "tool_calls");
    if (rc == 0)
        return set_text(message, "content", &s, e);
    fy_str_release(&s);
    return -1;
}

/* A result becomes a message of the user. */
static int explain_result(json_t *message, fy_err *e)
{
    fy_str s = {0};
    fy_str_puts(&s, "<tool_response>\n");
    put_content(&s, message);
    fy_str_puts(&s, "\n</tool_response>");
    if (json_object_set_new(message, "role", json_string("user")) != 0) {
        fy_str_release(&s);
        return fy_nomem(e);
    }
    return set_text(message, "content", &s, e);
}

int fy_tool_messages_explain(json_t *messages, const fy_tools *t, fy_err *e)
{
    int rc = t != NULL && fy_tools_count(t) > 0 ? add_explanation(messages, t, e) : 0;
    for (size_t i = 0; i < json_array_size(messages) && rc == 0; i++) {
        json_t *message = json_array_get(messages, i);
        if (is_role(message, "tool"))
            rc = explain_result(message, e);
        else if (json_array_size(json_object_get(message, "tool_calls")) > 0)
            rc = explain_calls(message, e);
    }
    return rc;
}
