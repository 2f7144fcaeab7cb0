/* The tools of a request, and which of them have to be called. */
#include <string.h>

#include "base/json_tree.h"
#include "server/ask_read.h"

static int read_choice(const json_t *choice, fy_ask_tools *t, bool *none, fy_bad_ask *b)
{
    const char *word = json_string_value(choice);
    const json_t *name = json_object_get(json_object_get(choice, "function"), "name");
    *none = false;
    if (choice == NULL || json_is_null(choice))
        return 0;
    if (word != NULL && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0)) {
        *none = word[0] == 'n';
        return 0;
    }
    if (word != NULL && strcmp(word, "required") == 0) {
        t->forced = true;
        return 0;
    }
    if (!json_is_string(name))
        return fy_bad(b, "tool_choice",
                      "expected \"none\", \"auto\", \"required\" or "
                      "{\"type\":\"function\",\"function\":{\"name\":...}}");
    for (size_t i = 0; t->tools != NULL && i < fy_tools_count(t->tools); i++) {
        if (strcmp(fy_tools_name(t->tools, i), json_string_value(name)) == 0)
            t->only = (int)i;
    }
    t->forced = true;
    return t->only >= 0
               ? 0
               : fy_bad(b, "tool_choice", "no tool has the name '%.64s'", json_string_value(name));
}

int fy_read_tools(const fy_served *v, const json_t *o, fy_ask_tools *t, fy_bad_ask *b)
{
    const json_t *list = json_object_get(o, "tools");
    const json_t *parallel = json_object_get(o, "parallel_tool_calls");
    bool none = false;
    const fy_span template = v->chat != NULL ? fy_chat_template_text(v->chat, true) : FY_SPAN("");
    *t = (fy_ask_tools){.only = -1, .format = fy_tool_format_of(template)};
    if (parallel != NULL && !json_is_null(parallel) && !json_is_boolean(parallel))
        return fy_bad(b, "parallel_tool_calls", "expected true or false");
    t->one = json_is_false(parallel);
    if (list != NULL && !json_is_null(list) && json_array_size(list) == 0 && json_is_array(list))
        list = NULL;
    if (list != NULL && !json_is_null(list)) {
        snprintf(b->param, sizeof b->param, "tools");
        t->tools = fy_tools_new(list, &b->e);
        if (t->tools == NULL)
            return -1;
    }
    if (read_choice(json_object_get(o, "tool_choice"), t, &none, b) != 0)
        return -1;
    if (t->forced && t->tools == NULL)
        return fy_bad(b, "tool_choice", "asks for a call, and the request has no tools");
    if (none)
        fy_ask_tools_release(t);
    return 0;
}

int fy_force_tools(fy_ask *k, fy_bad_ask *b)
{
    fy_tool_frame f;
    if (!k->tools.forced)
        return 0;
    if (k->grammar != NULL)
        return fy_bad(b, "tool_choice",
                      "asks for a call, and the request has a grammar of its own");
    snprintf(b->param, sizeof b->param, "tools");
    if (fy_tool_frame_make(&k->tools.format, k->tools.tools, k->tools.only, &f, &b->e) == 0) {
        const fy_schema_frame frame = {f.first, f.between, f.last, f.single || k->tools.one};
        k->grammar =
            fy_grammar_schema_framed((fy_span){fy_str_z(&f.schema), f.schema.len}, &frame, &b->e);
    }
    fy_str_release(&f.schema);
    return k->grammar != NULL ? 0 : -1;
}

void fy_ask_tools_release(fy_ask_tools *t)
{
    fy_tools_free(t->tools);
    t->tools = NULL;
}
