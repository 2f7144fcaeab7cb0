/* The schema of a call, and the texts around it: what an answer has to match that must call a tool.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "toolcall/toolcall_impl.h"

/* References inside a tool's own schema are relative to it, and it becomes a part of another. */
static int move_refs(json_t *v, const char *root, fy_err *e)
{
    const char *key;
    json_t *item;
    void *next;
    size_t i;
    json_array_foreach(v, i, item)
    {
        if (move_refs(item, root, e) != 0)
            return -1;
    }
    json_object_foreach_safe(v, next, key, item)
    {
        if (strcmp(key, "$ref") != 0 || !json_is_string(item)) {
            if (move_refs(item, root, e) != 0)
                return -1;
            continue;
        }
        const char *to = json_string_value(item);
        json_t *moved = to[0] == '#' ? json_sprintf("%s%s", root, to + 1) : json_incref(item);
        if (json_object_set_new(v, key, moved) != 0)
            return fy_nomem(e);
    }
    return 0;
}

/* {"name": NAME, "arguments": {...}} */
static json_t *schema_of(const fy_tools *t, size_t i, const char *arguments, const char *at,
                         fy_err *e)
{
    fy_str root = {0};
    json_t *parameters = json_deep_copy(fy_tools_parameters(t, i));
    fy_str_printf(&root, "#%s/properties/%s", at, arguments);
    int rc = parameters == NULL || root.oom ? fy_nomem(e) : 0;
    if (rc == 0)
        rc = move_refs(parameters, fy_str_z(&root), e);
    if (rc == 0 && json_object_get(parameters, "type") == NULL &&
        json_object_set_new(parameters, "type", json_string("object")) != 0)
        rc = fy_nomem(e);
    /* A list of parameters is all of them, also an empty one. */
    if (rc == 0 && json_is_object(json_object_get(parameters, "properties")) &&
        json_object_get(parameters, "additionalProperties") == NULL &&
        json_object_get(parameters, "patternProperties") == NULL &&
        json_object_set_new(parameters, "additionalProperties", json_false()) != 0)
        rc = fy_nomem(e);
    fy_str_release(&root);
    if (rc != 0) {
        json_decref(parameters);
        return NULL;
    }
    json_t *s = json_pack("{s:s, s:{s:{s:s}, s:o}, s:[s, s], s:b}", "type", "object", "properties",
                          "name", "const", fy_tools_name(t, i), arguments, parameters, "required",
                          "name", arguments, "additionalProperties", 0);
    if (s == NULL)
        fy_nomem(e);
    return s;
}

static json_t *schema_of_all(const fy_tools *t, const char *arguments, fy_err *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < fy_tools_count(t); i++) {
        char at[32];
        snprintf(at, sizeof at, "/anyOf/%zu", i);
        json_t *s = schema_of(t, i, arguments, at, e);
        if (s == NULL || json_array_append_new(list, s) != 0) {
            json_decref(list);
            fy_nomem(e);
            return NULL;
        }
    }
    json_t *all = json_pack("{s:o}", "anyOf", list);
    if (all == NULL)
        fy_nomem(e);
    return all;
}

int fy_tool_frame_make(const fy_tool_format **f, const fy_tools *t, int only, fy_tool_frame *out,
                       fy_err *e)
{
    if ((*f)->first == NULL)
        *f = fy_tool_format_of(FY_SPAN(""));
    const char *arguments = (*f)->arguments;
    *out = (fy_tool_frame){(*f)->first, (*f)->between, (*f)->last, (*f)->single, {0}};
    json_t *schema = only >= 0 || fy_tools_count(t) == 1
                         ? schema_of(t, only >= 0 ? (size_t)only : 0, arguments, "", e)
                         : schema_of_all(t, arguments, e);
    char *text = schema != NULL ? json_dumps(schema, JSON_COMPACT) : NULL;
    json_decref(schema);
    if (text == NULL)
        return fy_nomem(e);
    fy_str_puts(&out->schema, text);
    free(text);
    return out->schema.oom ? fy_nomem(e) : 0;
}

void fy_tool_frame_after_mark(const fy_tool_format *f, fy_tool_frame *frame)
{
    const size_t n = strlen(f->open);
    if (strncmp(frame->first, f->open, n) == 0)
        frame->first += n;
    frame->single |=
        strstr(frame->between, f->open) != NULL; /* the next one has a mark of its own */
}
