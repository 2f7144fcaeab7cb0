/* What the answers of a request have to match: "grammar", "json_schema", "response_format". Schemas
 * are read as they stand in the body, so that no number of them is written differently. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/ask_read.h"

fy_span fy_member_text(fy_span object, const char *key, fy_err *e)
{
    fy_json *j = fy_json_new(object.ptr, object.len, e);
    fy_span found = {0}, name;
    if (j == NULL)
        return found;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && found.ptr == NULL && fy_json_object_next(j, &name, e) == 1) {
        const bool is_it = fy_span_is(name, key);
        fy_json_peek(j); /* past white space */
        const size_t begin = fy_json_offset(j);
        rc = fy_json_skip(j, e);
        if (rc == 0 && is_it)
            found = (fy_span){object.ptr + begin, fy_json_offset(j) - begin};
    }
    fy_json_free(j);
    return found;
}

static bool is_given(const json_t *v)
{
    return v != NULL && !json_is_null(v) && !(json_is_string(v) && json_string_length(v) == 0);
}

int fy_ask_take_schema(fy_ask *k, fy_span text, const char *param, fy_bad_ask *b)
{
    if (b->e.code != FY_OK || text.ptr == NULL)
        return fy_bad(b, param, "has no schema");
    snprintf(b->param, sizeof b->param, "%s", param);
    k->grammar = fy_grammar_schema(text, &b->e);
    return k->grammar != NULL ? 0 : fy_ctx(&b->e, "'%s'", param);
}

int fy_ask_read_format(fy_ask *k, const json_t *format, fy_span text, const char *name,
                       fy_bad_ask *b)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    const bool is_schema = type != NULL && strcmp(type, "json_schema") == 0;
    if (type != NULL && strcmp(type, "text") == 0)
        return 0;
    if (!is_schema && (type == NULL || strcmp(type, "json_object") != 0))
        return fy_bad(b, name, "expected the type \"text\", \"json_object\" or \"json_schema\"");
    if (json_object_get(format, "schema") != NULL)
        return fy_ask_take_schema(k, fy_member_text(text, "schema", &b->e), name, b);
    if (!is_schema)
        return fy_ask_take_schema(k, FY_SPAN("{\"type\":\"object\"}"), name, b);
    if (json_object_get(json_object_get(format, "json_schema"), "schema") == NULL)
        return fy_bad(b, name, "has no json_schema.schema");
    const fy_span holder = fy_member_text(text, "json_schema", &b->e);
    return fy_ask_take_schema(k, fy_member_text(holder, "schema", &b->e), name, b);
}

int fy_ask_read_structure(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const json_t *grammar = json_object_get(o, "grammar");
    const json_t *schema = json_object_get(o, "json_schema");
    const json_t *format = json_object_get(o, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    const bool formatted = is_given(format) && !(type != NULL && strcmp(type, "text") == 0);
    const fy_span body = {k->x->body.ptr, k->x->body.len};
    if (is_given(grammar) + is_given(schema) + formatted > 1)
        return fy_bad(b, is_given(grammar) ? "grammar" : "json_schema",
                      "an answer can have one structure: of grammar, json_schema and "
                      "response_format give one");
    if (is_given(schema))
        return fy_ask_take_schema(k, fy_member_text(body, "json_schema", &b->e), "json_schema", b);
    if (formatted)
        return fy_ask_read_format(k, format, fy_member_text(body, "response_format", &b->e),
                                  "response_format", b);
    if (!is_given(grammar))
        return 0;
    if (!json_is_string(grammar))
        return fy_bad(b, "grammar", "found %s, expected GBNF as a string",
                      fy_json_type_name(grammar));
    snprintf(b->param, sizeof b->param, "grammar");
    k->grammar =
        fy_grammar_gbnf((fy_span){json_string_value(grammar), json_string_length(grammar)}, &b->e);
    return k->grammar != NULL ? 0 : fy_ctx(&b->e, "'grammar'");
}
