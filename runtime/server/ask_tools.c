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
    t->marks = t->format;
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

/* The grammar of calls in that frame. */
static fy_grammar *grammar_of(const fy_ask_tools *t, const fy_tool_frame *f, fy_err *e)
{
    const fy_schema_frame frame = {f->first, f->between, f->last, f->single || t->one, NULL, NULL};
    return fy_grammar_schema_framed((fy_span){fy_str_z(&f->schema), f->schema.len}, &frame, e);
}

/* The grammar of a call that is not JSON. */
static fy_grammar *grammar_of_parts(const fy_ask_tools *t, const fy_schema_frame *frame, fy_err *e)
{
    fy_tool_frame f = {0};
    fy_grammar *g = NULL;
    const fy_tool_format *json = fy_tool_format_of(FY_SPAN(""));
    if (fy_tool_frame_make(&json, t->tools, -1, &f, e) == 0)
        g = fy_grammar_schema_framed((fy_span){fy_str_z(&f.schema), f.schema.len}, frame, e);
    fy_str_release(&f.schema);
    return g;
}

/* NULL without an error where pairs cannot hold a call: as JSON after the same mark they can. */
static fy_grammar *grammar_of_pairs(const fy_ask_tools *t, const fy_tool_pairs *p, fy_err *e)
{
    fy_err why = {0};
    const fy_pairs_frame pairs = {p->before_name, p->after_name,  p->key, p->after_key,
                                  p->value,       p->after_value, p->end, p->mark};
    const fy_schema_frame frame = {p->first, "", p->last, true, .pairs = &pairs};
    fy_grammar *g = grammar_of_parts(t, &frame, &why);
    if (g == NULL && why.code != FY_EUNSUPPORTED)
        fy_fail(e, why.code, "%s", why.msg);
    return g;
}

static fy_grammar *grammar_of_named(const fy_ask_tools *t, const fy_tool_named *n, fy_err *e)
{
    const fy_named_frame named = {n->before_name, n->id, n->after_name, n->quote};
    const fy_schema_frame frame = {"", "", n->last, true, .named = &named};
    return grammar_of_parts(t, &frame, e);
}

int fy_ask_tools_hold(fy_ask_tools *t, fy_err *e)
{
    fy_tool_frame f = {0};
    const fy_tool_pairs *pairs = fy_tool_format_pairs(t->format);
    const fy_tool_named *named = fy_tool_format_named(t->format);
    if (pairs != NULL || named != NULL) {
        t->calls = (fy_call_rules){.grammar = pairs != NULL ? grammar_of_pairs(t, pairs, e)
                                                            : grammar_of_named(t, named, e),
                                   .mark = fy_tool_format_mark(t->format),
                                   .one = t->one};
        if (t->calls.grammar != NULL || e->code != FY_OK)
            return t->calls.grammar != NULL ? 0 : -1;
        t->format = fy_tool_format_of(FY_SPAN("")); /* its mark is the same */
    }
    if (fy_tool_frame_make(&t->format, t->tools, -1, &f, e) == 0) {
        fy_tool_frame_after_mark(t->format, &f);
        t->calls = (fy_call_rules){.grammar = grammar_of(t, &f, e),
                                   .mark = fy_tool_format_mark(t->format),
                                   .bare = fy_tool_format_is_bare(t->format),
                                   .one = t->one,
                                   .ends = f.last[0] == '\0'};
    }
    fy_str_release(&f.schema);
    return t->calls.grammar != NULL ? 0 : -1;
}

int fy_force_tools(fy_ask *k, fy_bad_ask *b)
{
    fy_ask_tools *t = &k->tools;
    fy_tool_frame f = {0};
    if (t->tools == NULL || (!t->forced && k->grammar != NULL))
        return 0;
    if (k->grammar != NULL)
        return fy_bad(b, "tool_choice",
                      "asks for a call, and the request has a grammar of its own");
    snprintf(b->param, sizeof b->param, "tools");
    if (!t->forced)
        return fy_ask_tools_hold(t, &b->e);
    if (fy_tool_frame_make(&t->format, t->tools, t->only, &f, &b->e) == 0)
        k->grammar = grammar_of(t, &f, &b->e);
    fy_str_release(&f.schema);
    return k->grammar != NULL ? 0 : -1;
}

void fy_ask_tools_release(fy_ask_tools *t)
{
    fy_tools_free(t->tools);
    fy_grammar_free(t->calls.grammar);
    t->tools = NULL;
    t->calls.grammar = NULL;
}
