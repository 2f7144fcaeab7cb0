/* POST /v1/chat/completions. Thinking and answer are separate: reasoning_content, content. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/think.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

/* Of an answer. */
typedef struct {
    fy_think think;
    fy_str thinking, text; /* what came last */
} chat_answer;

/* Of a request. */
typedef struct {
    bool splits;   /* thinking is not part of the content */
    fy_str opened; /* the end of the prompt that opens a section of thinking */
    chat_answer answers[FY_ASK_ANSWERS_MAX];
    bool begun[FY_ASK_ANSWERS_MAX];
} chat;

static fy_span view(const fy_str *s)
{
    return (fy_span){fy_str_z(s), s->len};
}

/* Divides the text into c->thinking and c->text. */
static chat_answer *divide(fy_answer *a, fy_span text, bool at_end)
{
    chat *h = a->ask->state;
    chat_answer *c = &h->answers[a->index];
    if (!h->begun[a->index])
        fy_think_begin(&c->think, view(&h->opened));
    h->begun[a->index] = true;
    fy_str_clear(&c->thinking);
    fy_str_clear(&c->text);
    if (!h->splits)
        fy_str_add(&c->text, text.ptr, text.len);
    else if (fy_think_add(&c->think, text, &c->thinking, &c->text, NULL) != 0 ||
             (at_end && fy_think_end(&c->think, &c->thinking, &c->text, NULL) != 0))
        c->text.oom = true;
    return c;
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

static void put_message(fy_answer *a, fy_str *out)
{
    const chat_answer *c = divide(a, view(&a->text), true);
    fy_str_puts(out, "\"message\":{\"role\":\"assistant\",");
    fy_put_span(out, "content", view(&c->text));
    if (c->thinking.len > 0) {
        fy_str_putc(out, ',');
        fy_put_span(out, "reasoning_content", view(&c->thinking));
    }
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
        fy_str_printf(out, ",\"finish_reason\":\"%s\"}", fy_finish_reason(a));
    }
    fy_str_puts(out, "],\"usage\":");
    fy_put_usage(k, out);
    fy_str_puts(out, ",\"timings\":");
    fy_put_timings(&k->answers[0], out);
    fy_str_putc(out, '}');
}

/* --- streams ---------------------------------------------------------------------------------- */

/* An event with one choice; delta: the members of its delta. */
static void put_chunk(const fy_answer *a, fy_span delta, size_t token, const char *finish,
                      fy_str *out)
{
    const fy_ask *k = a->ask;
    fy_str json = {0};
    fy_str_putc(&json, '{');
    fy_put_openai_head(k, "chat.completion.chunk", &json);
    fy_str_printf(&json, ",\"choices\":[{\"index\":%u,\"delta\":{", a->index);
    fy_str_add(&json, delta.ptr, delta.len);
    fy_str_puts(&json, "},");
    put_logprobs(a, token, &json);
    fy_str_printf(&json, finish != NULL ? ",\"finish_reason\":\"%s\"}]" : ",\"finish_reason\":null}]",
                  finish);
    if (k->include_usage)
        fy_str_puts(&json, ",\"usage\":null");
    if (finish != NULL || k->timings_per_token) {
        fy_str_puts(&json, ",\"timings\":");
        fy_put_timings(a, &json);
    }
    fy_str_putc(&json, '}');
    fy_put_event(out, &json);
}

static void open_stream(fy_ask *k, fy_str *out)
{
    for (size_t i = 0; i < k->n_answers; i++)
        put_chunk(&k->answers[i], FY_SPAN("\"role\":\"assistant\",\"content\":\"\""), SIZE_MAX, NULL,
                  out);
}

/* Text that has come, and the tokens with it. */
static void put_delta(fy_answer *a, const chat_answer *c, size_t token, fy_str *out)
{
    fy_str delta = {0};
    if (c->thinking.len > 0)
        fy_put_span(&delta, "reasoning_content", view(&c->thinking));
    if (c->thinking.len > 0 && c->text.len > 0)
        fy_str_putc(&delta, ',');
    if (c->text.len > 0)
        fy_put_span(&delta, "content", view(&c->text));
    if (delta.len > 0 || (a->ask->logprobs && token < a->n_said))
        put_chunk(a, view(&delta), token, NULL, out);
    out->oom |= delta.oom || c->text.oom || c->thinking.oom;
    fy_str_release(&delta);
}

static void piece(fy_answer *a, fy_span text, size_t token, fy_str *out)
{
    put_delta(a, divide(a, text, false), token, out);
}

static void end(fy_answer *a, fy_str *out)
{
    put_delta(a, divide(a, (fy_span){"", 0}, true), SIZE_MAX, out);
    put_chunk(a, (fy_span){"", 0}, SIZE_MAX, fy_finish_reason(a), out);
}

static void close_stream(fy_ask *k, fy_str *out)
{
    fy_str json = {0};
    if (k->include_usage) {
        fy_str_putc(&json, '{');
        fy_put_openai_head(k, "chat.completion.chunk", &json);
        fy_str_puts(&json, ",\"choices\":[],\"usage\":");
        fy_put_usage(k, &json);
        fy_str_putc(&json, '}');
        fy_put_event(out, &json);
    }
    fy_str_puts(out, FY_SSE_DONE);
}

static void release(fy_ask *k)
{
    chat *h = k->state;
    if (h == NULL)
        return;
    for (size_t i = 0; i < FY_ASK_ANSWERS_MAX; i++) {
        if (h->begun[i])
            fy_think_release(&h->answers[i].think);
        fy_str_release(&h->answers[i].thinking);
        fy_str_release(&h->answers[i].text);
    }
    fy_str_release(&h->opened);
    free(h);
}

static const fy_reply_form form = {.whole = whole,
                                   .open = open_stream,
                                   .piece = piece,
                                   .end = end,
                                   .close = close_stream,
                                   .release = release};

/* --- requests --------------------------------------------------------------------------------- */

static const fy_member members[] = {
    {"logprobs", FY_MEMBER_BOOL, offsetof(fy_ask, logprobs), 0, 0},
    {"top_logprobs", FY_MEMBER_U32, offsetof(fy_ask, n_top), 0, 20},
    {NULL}};

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

static int read_prompt(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    chat *h = k->state;
    fy_str text = {0};
    fy_ids ids = {0};
    int rc = fy_read_messages(k->served, o, &text, b);
    if (rc == 0) {
        const fy_span opened = fy_think_opened_by(view(&text), NULL);
        fy_str_add(&h->opened, opened.ptr, opened.len);
        rc = h->opened.oom ? fy_nomem(&b->e)
                           : fy_chat_encode_text(k->served->vocab, view(&text), &ids, &b->e);
    }
    fy_str_release(&text);
    if (rc == 0)
        return fy_ask_add_prompt(k, &ids, &b->e);
    fy_ids_release(&ids);
    return -1;
}

static int read_chat(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    k->state = calloc(1, sizeof(chat));
    if (k->state == NULL)
        return fy_nomem(&b->e);
    if (fy_ask_read_common(k, o, b) != 0 || fy_members_read(o, members, k, b) != 0 ||
        read_format(k, o, b) != 0)
        return -1;
    if (k->n_top > 0 && !k->logprobs)
        return fy_bad(b, "top_logprobs", "needs logprobs: true");
    return read_prompt(k, o, b);
}

void fy_handle_chat(fy_exchange *x)
{
    fy_bad_ask b = {0};
    json_t *o = fy_body_read(x);
    if (o == NULL)
        return;
    fy_ask *k = fy_ask_new(x, &form, "chatcmpl-");
    const int rc = k != NULL ? read_chat(k, o, &b) : fy_nomem(&b.e);
    json_decref(o);
    if (rc != 0)
        fy_ask_refuse(x, k, &b);
    else
        fy_ask_submit(k);
}
