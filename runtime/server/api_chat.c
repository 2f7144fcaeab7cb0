/* POST /v1/chat/completions. Thinking, answer and calls of tools are separate: reasoning_content,
 * content, tool_calls. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/answer_parts.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

/* Of an answer. */
typedef struct {
    fy_parts parts;
    /* What came last; calls: items of "tool_calls" of a delta, but for the last one, of call
     * `call`: whether it begins there, and its arguments. */
    fy_str thinking, text, calls, arguments;
    bool has_call, begins;
    size_t call;
} chat_answer;

/* Of a request. */
typedef struct {
    bool splits;   /* thinking is not part of the content */
    bool is_open;  /* the events with the roles are out */
    fy_str opened; /* the end of the prompt that opens a section of thinking */
    chat_answer answers[FY_ASK_ANSWERS_MAX];
    bool begun[FY_ASK_ANSWERS_MAX];
} chat;

/* The last call of the piece becomes an item: one for each call, as clients expect. */
static void put_last_call(chat_answer *c)
{
    if (!c->has_call)
        return;
    const fy_answer_call *call = &c->parts.calls[c->call];
    fy_str_printf(&c->calls, "%s{\"index\":%zu,", c->calls.len > 0 ? "," : "", c->call);
    if (c->begins)
        fy_str_printf(&c->calls, "\"id\":\"%s\",\"type\":\"function\",", call->id);
    fy_str_puts(&c->calls, "\"function\":{");
    if (c->begins) {
        fy_put_span(&c->calls, "name", fy_str_view(&call->name));
        fy_str_putc(&c->calls, ',');
    }
    fy_put_span(&c->calls, "arguments", fy_str_view(&c->arguments));
    fy_str_puts(&c->calls, "}}");
    fy_str_clear(&c->arguments);
    c->has_call = c->begins = false;
}

static void on_part(void *user, fy_part what, size_t call, fy_span text)
{
    chat_answer *c = user;
    if (what == FY_PART_THINKING || what == FY_PART_CONTENT) {
        fy_str_add(what == FY_PART_CONTENT ? &c->text : &c->thinking, text.ptr, text.len);
        return;
    }
    if (what == FY_PART_CALL_END)
        return;
    if (what == FY_PART_CALL)
        put_last_call(c);
    c->has_call = true;
    c->begins |= what == FY_PART_CALL;
    c->call = call;
    if (what == FY_PART_ARGUMENTS)
        fy_str_add(&c->arguments, text.ptr, text.len);
}

/* Divides the text into its parts. */
static chat_answer *divide(fy_answer *a, fy_span text, bool at_end)
{
    fy_ask *k = a->ask;
    chat *h = k->state;
    chat_answer *c = &h->answers[a->index];
    int rc = 0;
    if (!h->begun[a->index])
        rc = fy_parts_begin(&c->parts, h->splits, fy_str_view(&h->opened), &k->tools,
                            k->number + a->index, NULL);
    h->begun[a->index] = true;
    fy_str_clear(&c->thinking);
    fy_str_clear(&c->text);
    fy_str_clear(&c->calls);
    if (rc == 0)
        rc = fy_parts_add(&c->parts, text, on_part, c, NULL);
    if (rc == 0 && at_end)
        rc = fy_parts_end(&c->parts, on_part, c, NULL);
    put_last_call(c);
    c->text.oom |= rc != 0 || c->arguments.oom;
    return c;
}

/* Calls end an answer as a stop does; one that its limit cut is not a call. */
static const char *finish_reason(const fy_answer *a)
{
    const chat *h = a->ask->state;
    const char *reason = fy_finish_reason(a);
    return fy_parts_have_call(&h->answers[a->index].parts) && reason[0] == 's' ? "tool_calls"
                                                                               : reason;
}

/* --- whole answers ---------------------------------------------------------------------------- */

/* "logprobs": of tokens [from, a->n_said). */
static void put_logprobs(const fy_answer *a, size_t from, fy_str *out)
{
    fy_str_puts(out, "\"logprobs\":");
    if (!a->ask->logprobs || from >= a->n_said) {
        fy_str_puts(out, "null");
        return;
    }
    fy_str_puts(out, "{\"content\":[");
    for (size_t i = from; i < a->n_said; i++) {
        fy_str_puts(out, i > from ? "," : "");
        fy_put_said(a, i, out);
    }
    fy_str_puts(out, "],\"refusal\":null}");
}

static void put_calls(const fy_parts *p, fy_str *out)
{
    fy_str_puts(out, ",\"tool_calls\":[");
    for (size_t i = 0; i < p->n_calls; i++) {
        fy_str_printf(out, "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{",
                      i > 0 ? "," : "", p->calls[i].id);
        fy_put_span(out, "name", fy_str_view(&p->calls[i].name));
        fy_str_putc(out, ',');
        fy_put_span(out, "arguments", fy_str_view(&p->calls[i].arguments));
        fy_str_puts(out, "}}");
    }
    fy_str_putc(out, ']');
}

static void put_message(fy_answer *a, fy_str *out)
{
    const chat_answer *c = divide(a, fy_str_view(&a->text), true);
    fy_str_puts(out, "\"message\":{\"role\":\"assistant\",");
    if (c->parts.n_calls > 0 && c->text.len == 0)
        fy_str_puts(out, "\"content\":null");
    else
        fy_put_span(out, "content", fy_str_view(&c->text));
    if (c->thinking.len > 0) {
        fy_str_putc(out, ',');
        fy_put_span(out, "reasoning_content", fy_str_view(&c->thinking));
    }
    if (c->parts.n_calls > 0)
        put_calls(&c->parts, out);
    fy_str_putc(out, '}');
    out->oom |= c->text.oom || c->thinking.oom;
}

static void whole(fy_ask *k, fy_str *out)
{
    fy_str_putc(out, '{');
    fy_put_openai_head(k, "chat.completion", out);
    fy_str_puts(out, ",\"choices\":[");
    for (size_t i = 0; i < k->n_answers; i++) {
        fy_answer *a = &k->answers[i];
        fy_str_printf(out, "%s{\"index\":%u,", i > 0 ? "," : "", a->index);
        put_message(a, out);
        fy_str_putc(out, ',');
        put_logprobs(a, 0, out);
        fy_str_printf(out, ",\"finish_reason\":\"%s\"}", finish_reason(a));
    }
    fy_put_openai_end(k, out);
}

/* --- streams ---------------------------------------------------------------------------------- */

/* An event with one choice; delta: the members of its delta; more: further members of the event. */
static void put_chunk(const fy_answer *a, fy_span delta, size_t token, const char *finish,
                      const fy_str *more, fy_str *out)
{
    const fy_ask *k = a->ask;
    fy_str json = {0};
    fy_str_putc(&json, '{');
    fy_put_openai_head(k, "chat.completion.chunk", &json);
    fy_str_printf(&json, ",\"choices\":[{\"index\":%u,\"delta\":{", a->index);
    fy_str_add(&json, delta.ptr, delta.len);
    fy_str_puts(&json, "},");
    put_logprobs(a, token, &json);
    fy_str_printf(&json,
                  finish != NULL ? ",\"finish_reason\":\"%s\"}]" : ",\"finish_reason\":null}]",
                  finish);
    if (k->include_usage)
        fy_str_puts(&json, ",\"usage\":null");
    if (finish != NULL || (k->timings_per_token && ((const chat *)k->state)->is_open)) {
        fy_str_puts(&json, ",\"timings\":");
        fy_put_timings(a, &json);
    }
    if (more != NULL) {
        fy_str_putc(&json, ',');
        fy_str_add(&json, more->ptr, more->len);
        json.oom |= more->oom;
    }
    fy_str_putc(&json, '}');
    fy_put_event(out, &json);
}

static void open_stream(fy_ask *k, fy_str *out)
{
    for (size_t i = 0; i < k->n_answers; i++)
        put_chunk(&k->answers[i], FY_SPAN("\"role\":\"assistant\",\"content\":null"), SIZE_MAX,
                  NULL, NULL, out);
    ((chat *)k->state)->is_open = true;
}

/* Text that has come, and the tokens with it. */
static void put_delta(fy_answer *a, const chat_answer *c, size_t token, fy_str *out)
{
    fy_str delta = {0};
    if (c->thinking.len > 0)
        fy_put_span(&delta, "reasoning_content", fy_str_view(&c->thinking));
    if (c->thinking.len > 0 && c->text.len > 0)
        fy_str_putc(&delta, ',');
    if (c->text.len > 0)
        fy_put_span(&delta, "content", fy_str_view(&c->text));
    if (c->calls.len > 0) {
        fy_str_puts(&delta, delta.len > 0 ? ",\"tool_calls\":[" : "\"tool_calls\":[");
        fy_str_add(&delta, c->calls.ptr, c->calls.len);
        fy_str_putc(&delta, ']');
    }
    if (delta.len > 0 || (a->ask->logprobs && token < a->n_said))
        put_chunk(a, fy_str_view(&delta), token, NULL, NULL, out);
    out->oom |= delta.oom || c->text.oom || c->thinking.oom || c->calls.oom;
    fy_str_release(&delta);
}

static void piece(fy_answer *a, fy_span text, size_t token, fy_str *out)
{
    put_delta(a, divide(a, text, false), token, out);
}

static void end(fy_answer *a, fy_str *out)
{
    fy_str verbose = {0};
    put_delta(a, divide(a, (fy_span){"", 0}, true), SIZE_MAX, out);
    if (a->ask->verbose)
        fy_put_verbose(a, &verbose);
    put_chunk(a, (fy_span){"", 0}, SIZE_MAX, finish_reason(a), a->ask->verbose ? &verbose : NULL,
              out);
    fy_str_release(&verbose);
}

static void progress(fy_answer *a, fy_str *out)
{
    fy_str more = {0};
    fy_str_puts(&more, "\"prompt_progress\":");
    fy_put_progress(a, &more);
    put_chunk(a, (fy_span){"", 0}, SIZE_MAX, NULL, &more, out);
    fy_str_release(&more);
}

static void close_stream(fy_ask *k, fy_str *out)
{
    fy_put_openai_close(k, "chat.completion.chunk", out);
}

static void release(fy_ask *k)
{
    chat *h = k->state;
    if (h == NULL)
        return;
    for (size_t i = 0; i < FY_ASK_ANSWERS_MAX; i++) {
        if (h->begun[i])
            fy_parts_release(&h->answers[i].parts);
        fy_str_release(&h->answers[i].thinking);
        fy_str_release(&h->answers[i].text);
        fy_str_release(&h->answers[i].calls);
        fy_str_release(&h->answers[i].arguments);
    }
    fy_str_release(&h->opened);
    free(h);
}

static const fy_reply_form form = {.whole = whole,
                                   .open = open_stream,
                                   .piece = piece,
                                   .progress = progress,
                                   .end = end,
                                   .close = close_stream,
                                   .release = release};

/* --- requests --------------------------------------------------------------------------------- */

static const fy_member members[] = {{"logprobs", FY_MEMBER_BOOL, offsetof(fy_ask, logprobs), 0, 0},
                                    {"top_logprobs", FY_MEMBER_U32, offsetof(fy_ask, n_top), 0, 20},
                                    {.name = NULL}};

/* "none": thinking stays in the content; "auto", "deepseek": it does not. */
static int read_format(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    chat *h = k->state;
    const json_t *v = json_object_get(o, "reasoning_format");
    h->splits = !k->served->no_think;
    if (v != NULL && !json_is_null(v)) {
        const char *name = json_is_string(v) ? json_string_value(v) : "";
        h->splits = strcmp(name, "none") != 0;
        if (h->splits && strcmp(name, "auto") != 0 && strcmp(name, "deepseek") != 0)
            return fy_bad(b, "reasoning_format", "expected \"auto\", \"deepseek\" or \"none\"");
    }
    k->shows_marks = true;
    return 0;
}

static int read_chat(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    k->state = calloc(1, sizeof(chat));
    if (k->state == NULL)
        return fy_nomem(&b->e);
    if (fy_ask_read_common(k, o, b) != 0 || fy_members_read(o, members, k, b) != 0 ||
        read_format(k, o, b) != 0 || fy_read_tools(k->served, o, &k->tools, b) != 0 ||
        fy_force_tools(k, b) != 0)
        return -1;
    if (k->n_top > 0 && !k->logprobs)
        return fy_bad(b, "top_logprobs", "needs logprobs: true");
    return fy_ask_read_conversation(k, o, &((chat *)k->state)->opened, b);
}

void fy_handle_chat(fy_exchange *x)
{
    fy_ask_handle(x, &form, "chatcmpl-", read_chat);
}
