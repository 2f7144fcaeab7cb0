/* POST /v1/completions: OpenAI's older form, with log probabilities as evaluation harnesses read
 * them. */
#include "base/json.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

/* tokens, token_logprobs, top_logprobs and text_offset of tokens [from, a->n_said). */
static void put_logprobs(const fy_answer *a, size_t from, fy_str *out)
{
    const fy_ask *k = a->ask;
    fy_str_puts(out, "{\"tokens\":[");
    for (size_t i = from; i < a->n_said; i++) {
        fy_str_puts(out, i > from ? "," : "");
        fy_json_put_string(out, (fy_span){fy_str_z(&a->text) + a->said[i].text, a->said[i].n_text});
    }
    fy_str_puts(out, "],\"token_logprobs\":[");
    for (size_t i = from; i < a->n_said; i++) {
        fy_str_puts(out, i > from ? "," : "");
        fy_put_logprob(out, a->said[i].logprob);
    }
    fy_str_puts(out, "],\"top_logprobs\":[");
    for (size_t i = from; i < a->n_said; i++) {
        const fy_logprob *top = k->n_top > 0 ? a->top + a->said[i].top : NULL;
        fy_str_puts(out, i > from ? "," : "");
        if (k->n_top == 0 || top[0].id < 0) {
            fy_str_puts(out, "null");
            continue;
        }
        fy_str_putc(out, '{');
        for (uint32_t j = 0; j < k->n_top && top[j].id >= 0; j++) {
            fy_str_puts(out, j > 0 ? "," : "");
            fy_put_token_text(k->served->vocab, top[j].id, out);
            fy_str_putc(out, ':');
            fy_put_logprob(out, top[j].logprob);
        }
        fy_str_putc(out, '}');
    }
    fy_str_puts(out, "],\"text_offset\":[");
    for (size_t i = from; i < a->n_said; i++)
        fy_str_printf(out, "%s%zu", i > from ? "," : "", a->said[i].text);
    fy_str_puts(out, "]}");
}

/* A choice; finish: NULL: it goes on. */
static void put_choice(const fy_answer *a, fy_span text, size_t token, const char *finish,
                       fy_str *out)
{
    fy_str_putc(out, '{');
    fy_put_span(out, "text", text);
    fy_str_printf(out, ",\"index\":%u,\"logprobs\":", a->index);
    if (a->ask->logprobs && token < a->n_said)
        put_logprobs(a, token, out);
    else
        fy_str_puts(out, "null");
    fy_str_printf(out, finish != NULL ? ",\"finish_reason\":\"%s\"}" : ",\"finish_reason\":null}",
                  finish);
}

static void whole(fy_ask *k, fy_str *out)
{
    fy_str_putc(out, '{');
    fy_put_openai_head(k, "text_completion", out);
    fy_str_puts(out, ",\"choices\":[");
    for (size_t i = 0; i < k->n_answers; i++) {
        const fy_answer *a = &k->answers[i];
        fy_str_puts(out, i > 0 ? "," : "");
        put_choice(a, (fy_span){a->text.ptr, a->text.len}, 0, fy_finish_reason(a), out);
    }
    fy_put_openai_end(k, out);
}

static void put_chunk(const fy_answer *a, fy_span text, size_t token, const char *finish,
                      bool progress, fy_str *out)
{
    fy_str json = {0};
    fy_str_putc(&json, '{');
    fy_put_openai_head(a->ask, "text_completion", &json);
    fy_str_puts(&json, ",\"choices\":[");
    put_choice(a, text, token, finish, &json);
    fy_str_putc(&json, ']');
    if (finish != NULL || a->ask->timings_per_token) {
        fy_str_puts(&json, ",\"timings\":");
        fy_put_timings(a, &json);
    }
    if (progress) {
        fy_str_puts(&json, ",\"prompt_progress\":");
        fy_put_progress(a, &json);
    }
    if (finish != NULL && a->ask->verbose) {
        fy_str_putc(&json, ',');
        fy_put_verbose(a, &json);
    }
    fy_str_putc(&json, '}');
    fy_put_event(out, &json);
}

static void piece(fy_answer *a, fy_span text, size_t token, fy_str *out)
{
    put_chunk(a, text, token, NULL, false, out);
}

static void end(fy_answer *a, fy_str *out)
{
    put_chunk(a, (fy_span){0}, a->n_said, fy_finish_reason(a), false, out);
}

static void close_stream(fy_ask *k, fy_str *out)
{
    fy_put_openai_close(k, "text_completion", out);
}

static void progress(fy_answer *a, fy_str *out)
{
    put_chunk(a, (fy_span){0}, a->n_said, NULL, true, out);
}

static const fy_reply_form form = {
    .whole = whole, .piece = piece, .progress = progress, .end = end, .close = close_stream};

static const fy_member members[] = {{"echo", FY_MEMBER_BOOL, offsetof(fy_ask, echo), 0, 0},
                                    {.name = NULL}};

static int read_rest(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const json_t *logprobs = json_object_get(o, "logprobs");
    const json_t *best = json_object_get(o, "best_of");
    if (fy_members_read(o, members, k, b) != 0)
        return -1;
    if (k->post_probs)
        return fy_bad(b, "post_sampling_probs",
                      "the form of this endpoint has log probabilities of "
                      "the model only; /completion has both");
    if (json_is_integer(best) && json_integer_value(best) > 1 &&
        json_integer_value(best) != (json_int_t)k->n_choices)
        return fy_bad(b, "best_of", "found %lld, expected the value of n, %u",
                      (long long)json_integer_value(best), k->n_choices);
    if (logprobs == NULL || json_is_null(logprobs) || json_is_false(logprobs))
        return 0;
    if (!json_is_integer(logprobs) || json_integer_value(logprobs) < 0 ||
        json_integer_value(logprobs) > 20)
        return fy_bad(b, "logprobs", "expected a whole number from 0 to 20");
    k->logprobs = true;
    k->n_top = (uint32_t)json_integer_value(logprobs);
    return 0;
}

static int read_completions(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    if (fy_ask_read_common(k, o, b) != 0 || read_rest(k, o, b) != 0)
        return -1;
    if (fy_ask_read_prompts(k, json_object_get(o, "prompt"), "prompt", b) != 0)
        return -1;
    return fy_ask_read_suffix(k, json_object_get(o, "suffix"), b);
}

void fy_handle_completions(fy_exchange *x)
{
    fy_ask_handle(x, &form, "cmpl-", read_completions);
}
