/* The tools of a request, checked and completed, and a conversation made fit for templates. */
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "toolcall/toolcall_impl.h"

struct fy_tools {
    json_t
        *list; /* owned: an array of {"type", "function": {"name", "description", "parameters"}} */
};

/* --- checking --- */

static bool is_name(const char *s, size_t n)
{
    static const char may[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return n > 0 && n <= FY_TOOL_NAME_MAX && strspn(s, may) == n;
}

static int check_name(const json_t *name, size_t i, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (!json_is_string(name))
        return fy_fail(e, FY_EARG, "tools[%zu].function.name: expected a string", i);
    fy_span s = {json_string_value(name), json_string_length(name)};
    if (is_name(s.ptr, s.len))
        return 0;
    return fy_fail(e, FY_EARG,
                   "tools[%zu].function.name: '%s': expected 1 to %d letters, digits, '_', '-' or "
                   "'.'",
                   i, fy_quote(shown, sizeof shown, s), FY_TOOL_NAME_MAX);
}

/* A member that may be missing or null, of one type otherwise. */
static int check_member(const json_t *v, json_type type, size_t i, const char *key, fy_err *e)
{
    if (v == NULL || json_is_null(v) || json_typeof(v) == type)
        return 0;
    return fy_fail(e, FY_EARG, "tools[%zu].function.%s: expected %s", i, key,
                   type == JSON_STRING ? "a string" : "an object");
}

/* Missing or null: a function without parameters. Arguments are an object, so no schema of another
 * type is one of parameters. */
static int check_parameters(const json_t *v, size_t i, fy_err *e)
{
    const json_t *type = json_object_get(v, "type");
    if (check_member(v, JSON_OBJECT, i, "parameters", e) != 0)
        return -1;
    if (type == NULL || (json_is_string(type) && strcmp(json_string_value(type), "object") == 0))
        return 0;
    return fy_fail(
        e, FY_EARG,
        "tools[%zu].function.parameters.type: expected \"object\": a function takes named "
        "arguments",
        i);
}

/* Adds the function to the list, with every member that a template may read. */
static int add_tool(fy_tools *t, const json_t *tool, size_t i, fy_err *e)
{
    const json_t *type = json_object_get(tool, "type");
    const json_t *f = json_object_get(tool, "function");
    if (!json_is_object(tool))
        return fy_fail(e, FY_EARG, "tools[%zu]: expected an object", i);
    if (type != NULL && (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0))
        return fy_fail(e, FY_EARG, "tools[%zu].type: only \"function\" is supported", i);
    if (!json_is_object(f))
        return fy_fail(e, FY_EARG, "tools[%zu].function: expected an object", i);
    const json_t *name = json_object_get(f, "name");
    const json_t *text = json_object_get(f, "description");
    const json_t *parameters = json_object_get(f, "parameters");
    if (check_name(name, i, e) != 0 || check_member(text, JSON_STRING, i, "description", e) != 0 ||
        check_parameters(parameters, i, e) != 0)
        return -1;
    if (fy_tools_has(t, (fy_span){json_string_value(name), json_string_length(name)}))
        return fy_fail(e, FY_EARG, "tools[%zu].function.name: '%s' is there twice", i,
                       json_string_value(name));
    json_t *own = json_deep_copy(f);
    fy_json_maker m = {.oom = own == NULL};
    if (!json_is_string(text))
        fy_make_set(&m, own, "description", json_string(""));
    if (!json_is_object(parameters))
        fy_make_set(&m, own, "parameters",
                    json_pack("{s:s, s:{}}", "type", "object", "properties"));
    else if (json_object_size(parameters) == 0)
        fy_make_set(&m, json_object_get(own, "parameters"), "type", json_string("object"));
    json_t *entry = json_object();
    fy_make_set(&m, entry, "type", json_string("function"));
    fy_make_set(&m, entry, "function", own);
    fy_make_append(&m, t->list, entry);
    return m.oom ? fy_nomem(e) : 0;
}

fy_tools *fy_tools_new(const json_t *list, fy_err *e)
{
    fy_tools *t = calloc(1, sizeof *t);
    int rc = t == NULL || (t->list = json_array()) == NULL ? fy_nomem(e) : 0;
    if (rc == 0 && !json_is_array(list))
        rc = fy_fail(e, FY_EARG, "tools: expected a list");
    if (rc == 0 && json_array_size(list) > FY_TOOLS_MAX)
        rc = fy_fail(e, FY_EARG, "tools: %zu, at most %d are supported", json_array_size(list),
                     FY_TOOLS_MAX);
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++)
        rc = add_tool(t, json_array_get(list, i), i, e);
    if (rc == 0)
        return t;
    fy_tools_free(t);
    return NULL;
}

void fy_tools_free(fy_tools *t)
{
    if (t == NULL)
        return;
    json_decref(t->list);
    free(t);
}

/* --- reading --- */

static const json_t *function_at(const fy_tools *t, size_t i)
{
    return json_object_get(json_array_get(t->list, i), "function");
}

size_t fy_tools_count(const fy_tools *t)
{
    return json_array_size(t->list);
}

const char *fy_tools_name(const fy_tools *t, size_t i)
{
    return json_string_value(json_object_get(function_at(t, i), "name"));
}

const json_t *fy_tools_parameters(const fy_tools *t, size_t i)
{
    return json_object_get(function_at(t, i), "parameters");
}

const json_t *fy_tools_json(const fy_tools *t)
{
    return t->list;
}

static size_t find(const fy_tools *t, fy_span name)
{
    size_t i = 0, n = fy_tools_count(t);
    while (i < n && !fy_span_is(name, fy_tools_name(t, i)))
        i++;
    return i;
}

bool fy_tools_has(const fy_tools *t, fy_span name)
{
    return find(t, name) < fy_tools_count(t);
}

int fy_tools_takes_string(const fy_tools *t, fy_span name, fy_span key)
{
    const json_t *all = json_object_get(fy_tools_parameters(t, find(t, name)), "properties");
    const json_t *type = json_object_get(json_object_getn(all, key.ptr, key.len), "type");
    bool string = false;
    if (json_is_string(type))
        return strcmp(json_string_value(type), "string") == 0;
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *one = json_string_value(json_array_get(type, i));
        string = string || (one != NULL && strcmp(one, "string") == 0);
    }
    return json_is_array(type) ? string : -1;
}

/* --- conversations --- */

static int fix_call(json_t *call, fy_err *e)
{
    json_t *f = json_object_get(call, "function");
    const json_t *arguments = json_object_get(f, "arguments");
    if (!json_is_string(arguments))
        return 0;
    fy_span text = {json_string_value(arguments), json_string_length(arguments)};
    fy_err why = {0};
    json_t *v = fy_json_data(text, &why);
    if (why.code == FY_ENOMEM)
        return fy_nomem(e);
    if (!json_is_object(v)) {
        json_decref(v);
        return 0;
    }
    return json_object_set_new(f, "arguments", v) != 0 ? fy_nomem(e) : 0;
}

int fy_tool_messages_fix(json_t *messages, fy_err *e)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i);
        json_t *calls = json_object_get(message, "tool_calls");
        if (json_is_object(message) && !json_is_string(json_object_get(message, "content")) &&
            !json_is_array(json_object_get(message, "content")) &&
            json_object_set_new(message, "content", json_string("")) != 0)
            return fy_nomem(e);
        for (size_t k = 0; k < json_array_size(calls); k++) {
            if (fix_call(json_array_get(calls, k), e) != 0)
                return -1;
        }
    }
    return 0;
}
