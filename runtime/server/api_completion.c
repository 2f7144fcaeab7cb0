/* POST /completion, as llama-server has it. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

static const char *stop_type(const fy_answer *a)
{
    switch (a->end) {
    case FY_END_EOS:
        return "eos";
    case FY_END_WORD:
        return "word";
    case FY_END_LIMIT:
    case FY_END_CONTEXT:
        return "limit";
    case FY_END_NONE:
    default:
        return "none";
    }
}

static void put_settings(const fy_answer *a, fy_str *out)
{
    const fy_ask *k = a->ask;
    const fy_sampler_params *p = &k->sampler;
    fy_str order = {0};
    fy_sampler_order_text(p, &order);
    fy_str_printf(out,
                  "{\"seed\":%llu,\"temperature\":%.9g,\"top_k\":%d,\"top_p\":%.9g,\"min_p\":%.9g,"
                  "\"typical_p\":%.9g,\"repeat_last_n\":%d,\"repeat_penalty\":%.9g,"
                  "\"presence_penalty\":%.9g,\"frequency_penalty\":%.9g,\"n_predict\":%lld,"
                  "\"max_tokens\":%lld,\"ignore_eos\":%s,\"stream\":%s,\"n_probs\":%u,"
                  "\"samplers\":",
                  (unsigned long long)a->seed, (double)p->temperature, p->top_k, (double)p->top_p,
                  (double)p->min_p, (double)p->typical_p, p->repeat_last_n,
                  (double)p->repeat_penalty, (double)p->presence_penalty,
                  (double)p->frequency_penalty, (long long)k->n_predict, (long long)k->n_predict,
                  k->ignore_eos ? "true" : "false", k->stream ? "true" : "false", k->n_top);
    fy_json_put_string(out, (fy_span){order.ptr, order.len});
    fy_str_puts(out, ",\"logit_bias\":[");
    for (size_t i = 0; i < p->n_bias; i++) {
        fy_str_printf(out, i > 0 ? ",[%d," : "[%d,", p->bias[i].id);
        if (p->bias[i].bias > -1e30F)
            fy_str_printf(out, "%.9g]", (double)p->bias[i].bias);
        else
            fy_str_puts(out, "false]");
    }
    fy_str_puts(out, "]}");
    fy_str_release(&order);
}

/* The members that tell of tokens [from, to). */
static void put_tokens(const fy_answer *a, size_t from, size_t to, fy_str *out)
{
    const fy_ask *k = a->ask;
    fy_str_puts(out, ",\"tokens\":[");
    for (size_t i = from; k->return_tokens && i < to; i++)
        fy_str_printf(out, i > from ? ",%d" : "%d", a->said[i].id);
    fy_str_putc(out, ']');
    if (!k->logprobs || (from == to && k->stream))
        return;
    fy_str_puts(out, ",\"completion_probabilities\":[");
    for (size_t i = from; i < to; i++) {
        fy_str_puts(out, i > from ? "," : "");
        fy_put_said(a, i, out);
    }
    fy_str_putc(out, ']');
}

static void put_begin(const fy_answer *a, fy_span text, fy_str *out)
{
    fy_str_printf(out, "{\"index\":%u,", a->index);
    fy_put_span(out, "content", text);
}

static void put_numbers(const fy_answer *a, fy_str *out)
{
    fy_str_printf(out, ",\"id_slot\":%u,\"tokens_predicted\":%u,\"tokens_evaluated\":%u",
                  a->task.seq, a->n_generated, a->task.n_prompt);
}

static void put_end(const fy_answer *a, fy_str *out)
{
    put_numbers(a, out);
    fy_str_puts(out, ",\"stop\":true,");
    fy_put_span(out, "model", fy_span_of(a->ask->served->name));
    fy_str_puts(out, ",\"generation_settings\":");
    put_settings(a, out);
    fy_str_printf(out, ",\"truncated\":%s,\"stop_type\":\"%s\",",
                  a->end == FY_END_CONTEXT ? "true" : "false", stop_type(a));
    fy_put_span(out, "stopping_word", fy_stopping_word(a));
    fy_str_printf(out, ",\"has_new_line\":%s,\"tokens_cached\":%u,\"system_fingerprint\":\"%s\"",
                  a->text.len > 0 && memchr(a->text.ptr, '\n', a->text.len) != NULL ? "true"
                                                                                    : "false",
                  a->task.n_past, a->ask->served->fingerprint);
    fy_str_puts(out, ",\"timings\":");
    fy_put_timings(a, out);
    fy_str_putc(out, '}');
}

static void whole(fy_ask *k, fy_str *out)
{
    fy_str_puts(out, k->n_answers > 1 ? "[" : "");
    for (size_t i = 0; i < k->n_answers; i++) {
        const fy_answer *a = &k->answers[i];
        fy_str_puts(out, i > 0 ? "," : "");
        put_begin(a, (fy_span){a->text.ptr, a->text.len}, out);
        put_tokens(a, 0, a->n_said, out);
        put_end(a, out);
    }
    fy_str_puts(out, k->n_answers > 1 ? "]" : "");
}

static void open_stream(fy_ask *k, fy_str *out)
{
    (void)k;
    (void)out;
}

static void piece(fy_answer *a, fy_span text, size_t token, fy_str *out)
{
    fy_str json = {0};
    put_begin(a, text, &json);
    put_tokens(a, token, a->n_said, &json);
    put_numbers(a, &json);
    fy_str_puts(&json, ",\"stop\":false");
    if (a->ask->timings_per_token) {
        fy_str_puts(&json, ",\"timings\":");
        fy_put_timings(a, &json);
    }
    fy_str_putc(&json, '}');
    fy_put_event(out, &json);
}

static void end(fy_answer *a, fy_str *out)
{
    fy_str json = {0};
    put_begin(a, (fy_span){0}, &json);
    put_tokens(a, 0, 0, &json);
    put_end(a, &json);
    fy_put_event(out, &json);
}

/* llama-server's own API has no [DONE]. */
static const fy_reply_form form = {
    .whole = whole, .open = open_stream, .piece = piece, .end = end, .close = open_stream};

static int read_completion(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const fy_member members[] = {
        {"n_probs", FY_MEMBER_U32, offsetof(fy_ask, n_top), 0, k->served->n_vocab}, {.name = NULL}};
    if (fy_ask_read_common(k, o, b) != 0 || fy_members_read(o, members, k, b) != 0)
        return -1;
    k->logprobs = k->n_top > 0;
    return fy_ask_read_prompts(k, json_object_get(o, "prompt"), "prompt", b);
}

void fy_handle_completion(fy_exchange *x)
{
    fy_ask_handle(x, &form, "cmpl-", read_completion);
}
