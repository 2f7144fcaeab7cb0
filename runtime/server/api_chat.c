/* POST /v1/chat/completions. */
#include "base/json.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

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

static void whole(fy_ask *k, fy_str *out)
{
    fy_str_putc(out, '{');
    fy_put_openai_head(k, "chat.completion", out);
    fy_str_puts(out, ",\"choices\":[");
    for (size_t i = 0; i < k->n_answers; i++) {
        const fy_answer *a = &k->answers[i];
        fy_str_printf(out, "%s{\"index\":%u,\"message\":{\"role\":\"assistant\",",
                      i > 0 ? "," : "", a->index);
        fy_put_span(out, "content", (fy_span){a->text.ptr, a->text.len});
        fy_str_puts(out, "},");
        put_logprobs(a, 0, out);
        fy_str_printf(out, ",\"finish_reason\":\"%s\"}", fy_finish_reason(a));
    }
    fy_str_puts(out, "],\"usage\":");
    fy_put_usage(k, out);
    fy_str_puts(out, ",\"timings\":");
    fy_put_timings(&k->answers[0], out);
    fy_str_putc(out, '}');
}

/* An event with one choice whose delta is `delta`. */
static void put_chunk(const fy_ask *k, const fy_answer *a, const char *delta, fy_span text,
                      size_t token, const char *finish, fy_str *out)
{
    fy_str json = {0};
    fy_str_putc(&json, '{');
    fy_put_openai_head(k, "chat.completion.chunk", &json);
    fy_str_printf(&json, ",\"choices\":[{\"index\":%u,\"delta\":{%s", a->index, delta);
    if (text.ptr != NULL)
        fy_put_span(&json, "content", text);
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
        put_chunk(k, &k->answers[i], "\"role\":\"assistant\",\"content\":\"\"", (fy_span){0},
                  SIZE_MAX, NULL, out);
}

static void piece(fy_answer *a, fy_span text, size_t token, fy_str *out)
{
    put_chunk(a->ask, a, "", text.ptr != NULL ? text : FY_SPAN(""), token, NULL, out);
}

static void end(fy_answer *a, fy_str *out)
{
    put_chunk(a->ask, a, "", (fy_span){0}, SIZE_MAX, fy_finish_reason(a), out);
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

static const fy_reply_form form = {
    .whole = whole, .open = open_stream, .piece = piece, .end = end, .close = close_stream};

static const fy_member members[] = {
    {"logprobs", FY_MEMBER_BOOL, offsetof(fy_ask, logprobs), 0, 0},
    {"top_logprobs", FY_MEMBER_U32, offsetof(fy_ask, n_top), 0, 20},
    {NULL}};

static int read_chat(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    fy_str text = {0};
    fy_ids ids = {0};
    if (fy_ask_read_common(k, o, b) != 0 || fy_members_read(o, members, k, b) != 0)
        return -1;
    if (k->n_top > 0 && !k->logprobs)
        return fy_bad(b, "top_logprobs", "needs logprobs: true");
    int rc = fy_read_messages(k->served, o, &text, b);
    if (rc == 0)
        rc = fy_chat_encode_text(k->served->vocab, (fy_span){fy_str_z(&text), text.len}, &ids,
                                 &b->e);
    fy_str_release(&text);
    if (rc == 0)
        return fy_ask_add_prompt(k, &ids, &b->e);
    fy_ids_release(&ids);
    return -1;
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
