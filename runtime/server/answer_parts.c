/* Splits the text of an answer into thinking, content and calls. */
#include "server/answer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static void show(fy_parts *p, fy_part what, fy_span text)
{
    if (p->sink != NULL)
        p->sink(p->user, what, p->n_calls > 0 ? p->n_calls - 1 : 0, text);
}

/* The ids of one answer differ, and nobody can guess another's. */
static void make_id(fy_parts *p, char id[FY_CALL_ID + 1])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t v = p->id_seed + (p->n_calls + 1) * 0x9E3779B97F4A7C15u; /* splitmix64 */
    v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9u;
    v = (v ^ v >> 27) * 0x94D049BB133111EBu;
    v ^= v >> 31;
    for (int i = 0; i < FY_CALL_ID; i++, v /= 62)
        id[i] = letters[v % 62];
    id[FY_CALL_ID] = '\0';
}

static int on_tool(void *user, fy_tool_event what, fy_span text, fy_err *e)
{
    fy_parts *p = user;
    fy_answer_call fresh = {0};
    fy_str *into = &p->content;
    if (what == FY_TOOL_BEGIN) {
        make_id(p, fresh.id);
        if (fy_append(&p->calls, &p->n_calls, &p->cap_calls, &fresh, sizeof fresh, e) != 0)
            return -1;
    }
    fy_answer_call *call = what == FY_TOOL_CONTENT ? NULL : &p->calls[p->n_calls - 1];
    if (what == FY_TOOL_BEGIN)
        into = &call->name;
    else if (call != NULL)
        into = &call->arguments;
    if (what == FY_TOOL_END)
        call->whole = true;
    fy_str_add(into, text.ptr, text.len);
    if (into->oom)
        return fy_nomem(e);
    show(p,
         what == FY_TOOL_BEGIN       ? FY_PART_CALL
         : what == FY_TOOL_ARGUMENTS ? FY_PART_ARGUMENTS
         : what == FY_TOOL_END       ? FY_PART_CALL_END
                                     : FY_PART_CONTENT,
         text);
    return 0;
}

int fy_parts_begin(fy_parts *p, bool thinks, fy_span prompt_end, const fy_ask_tools *tools,
                   uint64_t id_seed, fy_err *e)
{
    *p = (fy_parts){.thinks = thinks, .id_seed = id_seed};
    fy_think_begin(&p->think, prompt_end);
    if (tools->tools == NULL)
        return 0;
    p->parser = fy_tool_parser_new(tools->format, tools->tools, on_tool, p, e);
    return p->parser != NULL ? 0 : -1;
}

static int add_plain(fy_parts *p, fy_span text, fy_err *e)
{
    if (text.len == 0)
        return 0;
    fy_str_add(&p->content, text.ptr, text.len);
    if (p->content.oom)
        return fy_nomem(e);
    show(p, FY_PART_CONTENT, text);
    return 0;
}

static int add_content(fy_parts *p, fy_span text, fy_err *e)
{
    if (text.len > 0 && p->parser != NULL)
        return fy_tool_parser_add(p->parser, text, e);
    return add_plain(p, text, e);
}

/* The pieces that the split of thinking gave. White space between a section and the answer belongs
 * to neither. */
static int add_split(fy_parts *p, size_t n_thought, const fy_str *answer, fy_err *e)
{
    fy_span text = {fy_str_z(answer), answer->len};
    p->answers |= p->think.marks == NULL;
    for (; !p->answers && text.len > 0 && strchr(" \t\r\n", text.ptr[0]) != NULL; text.len--)
        text.ptr++;
    p->answers |= text.len > 0;
    if (p->thinking.len > n_thought)
        show(p, FY_PART_THINKING,
             (fy_span){p->thinking.ptr + n_thought, p->thinking.len - n_thought});
    return add_content(p, text, e);
}

/* Thinking that is content: nothing in it is a call. */
static int add_unsplit(fy_parts *p, fy_span text, bool at_end, fy_err *e)
{
    fy_str answer = {0}, thinking = {0};
    if (p->parser == NULL || (p->think.state == FY_THINK_ANSWER && p->raw.len == 0))
        return add_content(p, text, e);
    fy_str_add(&p->raw, text.ptr, text.len);
    int rc = fy_think_add(&p->think, text, &thinking, &answer, e);
    if (rc == 0 && at_end)
        rc = fy_think_end(&p->think, &thinking, &answer, e);
    if (rc == 0 && p->raw.oom)
        rc = fy_nomem(e);
    if (rc == 0 && (at_end || p->think.state != FY_THINK_START)) {
        const fy_span all = {fy_str_z(&p->raw), p->raw.len};
        const fy_span thought = {all.ptr, all.len - answer.len};
        rc = add_plain(p, thought, e);
        if (rc == 0)
            rc = add_content(p, (fy_span){all.ptr + thought.len, answer.len}, e);
        fy_str_clear(&p->raw);
    }
    fy_str_release(&answer);
    fy_str_release(&thinking);
    return rc;
}

int fy_parts_add(fy_parts *p, fy_span text, fy_part_sink *sink, void *user, fy_err *e)
{
    fy_str answer = {0};
    const size_t n_thought = p->thinking.len;
    p->sink = sink;
    p->user = user;
    if (!p->thinks)
        return add_unsplit(p, text, false, e);
    int rc = fy_think_add(&p->think, text, &p->thinking, &answer, e);
    if (rc == 0)
        rc = add_split(p, n_thought, &answer, e);
    fy_str_release(&answer);
    return rc;
}

int fy_parts_end(fy_parts *p, fy_part_sink *sink, void *user, fy_err *e)
{
    fy_str answer = {0};
    const size_t n_thought = p->thinking.len;
    int rc = 0;
    p->sink = sink;
    p->user = user;
    if (!p->thinks)
        rc = add_unsplit(p, (fy_span){"", 0}, true, e);
    else if (fy_think_end(&p->think, &p->thinking, &answer, e) != 0)
        rc = -1;
    else
        rc = add_split(p, n_thought, &answer, e);
    if (rc == 0 && p->parser != NULL)
        rc = fy_tool_parser_end(p->parser, e);
    fy_str_release(&answer);
    return rc;
}

bool fy_parts_have_call(const fy_parts *p)
{
    for (size_t i = 0; i < p->n_calls; i++) {
        if (p->calls[i].whole)
            return true;
    }
    return false;
}

void fy_parts_release(fy_parts *p)
{
    fy_think_release(&p->think);
    fy_tool_parser_free(p->parser);
    fy_str_release(&p->thinking);
    fy_str_release(&p->raw);
    fy_str_release(&p->content);
    for (size_t i = 0; i < p->n_calls; i++) {
        fy_str_release(&p->calls[i].name);
        fy_str_release(&p->calls[i].arguments);
    }
    free(p->calls);
    *p = (fy_parts){0};
}
