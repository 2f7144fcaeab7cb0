/* Calls that are not JSON: as pairs of key and value between texts, where a parameter that may be a
 * string is its text as it stands and every other one is JSON; and as a name before one object. */
#include <string.h>

#include "grammar/schema_impl.h"

static bool is_string(const json_t *type)
{
    const json_t *one;
    size_t i;
    json_array_foreach(type, i, one)
    {
        if (is_string(one))
            return true;
    }
    return json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
}

/* One that a reader takes as it is: no white space around it, no mark in it. */
static fy_node plain_literal(fy_schema *s, const json_t *v, const fy_place *place)
{
    const char *text = json_string_value(v);
    const size_t n = json_string_length(v);
    if (n == 0 || strpbrk(text, "<>\n") != NULL || strlen(text) != n || text[0] == ' ' ||
        text[n - 1] == ' ') {
        fy_schema_fail(s, place, FY_EUNSUPPORTED, "a value that cannot be written between marks");
        return 0;
    }
    return fy_rules_text(s->r, (fy_span){text, n});
}

/* A string as it stands: any, or one of its values. */
static int plain_value(fy_schema *s, const json_t *schema, const char *mark, const fy_place *place,
                       fy_node *out)
{
    const char *key;
    json_t *x;
    const json_t *one = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    json_object_foreach((json_t *)(uintptr_t)schema, key, x)
    {
        if (strcmp(key, "type") != 0 && strcmp(key, "enum") != 0 && strcmp(key, "const") != 0 &&
            !fy_schema_is_annotation(key))
            return fy_schema_refuse(s, place, key);
    }
    *out = 0;
    if (list == NULL && one == NULL)
        *out = fy_schema_text_without(s, mark, 0, FY_MANY);
    else if (one != NULL)
        *out = json_is_string(one) ? plain_literal(s, one, place) : 0;
    for (size_t i = 0; one == NULL && i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (json_is_string(v))
            *out = fy_schema_alt(s, *out, plain_literal(s, v, place));
    }
    return s->e->code == FY_OK ? 0 : -1;
}

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return false;
}

/* No keyword but those of an object with a list of properties. */
static int check_parameters(fy_schema *s, const json_t *schema, const fy_place *place)
{
    const char *key;
    json_t *x;
    const json_t *one;
    size_t i;
    const json_t *all = json_object_get(schema, "properties");
    json_object_foreach((json_t *)(uintptr_t)schema, key, x)
    {
        const bool closed = strcmp(key, "additionalProperties") == 0 && !json_is_object(x);
        if (!closed && strcmp(key, "type") != 0 && strcmp(key, "properties") != 0 &&
            strcmp(key, "required") != 0 && strcmp(key, "$defs") != 0 &&
            !fy_schema_is_annotation(key))
            return fy_schema_refuse(s, place, key);
    }
    json_array_foreach(json_object_get(schema, "required"), i, one)
    {
        if (!json_is_string(one) || json_object_get(all, json_string_value(one)) == NULL)
            return fy_schema_refuse(s, place, "required");
    }
    return 0;
}

static int put(fy_schema *s, fy_node *call, const char *text)
{
    *call = fy_schema_seq(s, *call, fy_schema_text(s, text));
    return 0;
}

/* key NAME after_key value VALUE after_value */
static int pair(fy_schema *s, const fy_pairs_frame *f, const char *name, const json_t *schema,
                const fy_place *place, fy_node *out)
{
    fy_node value = 0, made = fy_schema_text(s, f->key);
    if (strpbrk(name, "<>\n\r\t ") != NULL)
        return fy_schema_refuse(s, place, name);
    if ((is_string(json_object_get(schema, "type"))
             ? plain_value(s, schema, f->mark, place, &value)
             : fy_schema_compile(s, schema, place, &value)) != 0)
        return -1;
    put(s, &made, name);
    put(s, &made, f->after_key);
    put(s, &made, f->value);
    made = fy_schema_seq(s, made, value);
    put(s, &made, f->after_value);
    *out = value != 0 ? made : 0;
    return 0;
}

static const fy_place at = {NULL, "arguments"};

/* Of a call of one tool: {"properties": {"name": {"const": NAME}, "arguments": {...}}}. */
static const char *name_of(const json_t *tool)
{
    const json_t *members = json_object_get(tool, "properties");
    return json_string_value(json_object_get(json_object_get(members, "name"), "const"));
}

static const json_t *arguments_of(const json_t *tool)
{
    return json_object_get(json_object_get(tool, "properties"), "arguments");
}

static int call_of_pairs(fy_schema *s, const void *frame, const json_t *tool, fy_node *out)
{
    const fy_pairs_frame *f = frame;
    const json_t *parameters = arguments_of(tool);
    const char *key;
    json_t *schema;
    fy_node made = fy_schema_text(s, f->before_name);
    if (check_parameters(s, parameters, &at) != 0)
        return -1;
    put(s, &made, name_of(tool));
    put(s, &made, f->after_name);
    json_object_foreach(json_object_get(parameters, "properties"), key, schema)
    {
        const fy_place place = {&at, key};
        const bool required = is_required(parameters, key);
        fy_node one = 0;
        if (pair(s, f, key, schema, &place, &one) != 0)
            return -1;
        if (one == 0 && required)
            return fy_schema_fail(s, &place, FY_EFORMAT, "no value is valid");
        made = fy_schema_seq(s, made, required ? one : fy_schema_optional(s, one));
    }
    put(s, &made, f->end);
    *out = made;
    return 0;
}

/* id, then nine letters or digits; or nothing. */
static fy_node call_id(fy_schema *s, const char *id)
{
    static const fy_cp_range letters[] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    const fy_node nine = fy_rules_repeat(s->r, fy_rules_class(s->r, letters, 3, false), 9, 9);
    return fy_schema_optional(s, fy_schema_seq(s, fy_schema_text(s, id), nine));
}

static int call_of_name(fy_schema *s, const void *frame, const json_t *tool, fy_node *out)
{
    const fy_named_frame *f = frame;
    const json_t *parameters = arguments_of(tool);
    const char *type = json_string_value(json_object_get(parameters, "type"));
    fy_node made = fy_schema_text(s, f->before_name), arguments = 0;
    if (type == NULL || strcmp(type, "object") != 0)
        return fy_schema_refuse(s, &at, "type");
    put(s, &made, name_of(tool));
    if (f->id != NULL)
        made = fy_schema_seq(s, made, call_id(s, f->id));
    put(s, &made, f->after_name);
    s->quote = f->quote;
    if (fy_schema_compile(s, parameters, &at, &arguments) != 0)
        return -1;
    *out = fy_schema_seq(s, made, arguments);
    return 0;
}

/* Of the calls of all tools: one schema, or anyOf. */
static int call_of_any(fy_schema *s, const void *frame,
                       int (*call)(fy_schema *, const void *, const json_t *, fy_node *),
                       fy_node *out)
{
    const json_t *list = json_object_get(s->root, "anyOf"), *tool;
    size_t i;
    *out = 0;
    if (list == NULL)
        return call(s, frame, s->root, out);
    json_array_foreach(list, i, tool)
    {
        fy_node one = 0;
        if (call(s, frame, tool, &one) != 0)
            return -1;
        *out = fy_schema_alt(s, *out, one);
    }
    return 0;
}

int fy_schema_pairs(fy_schema *s, const fy_pairs_frame *f, fy_node *out)
{
    return call_of_any(s, f, call_of_pairs, out);
}

int fy_schema_named(fy_schema *s, const fy_named_frame *f, fy_node *out)
{
    return call_of_any(s, f, call_of_name, out);
}
