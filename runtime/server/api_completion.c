/* POST /completion, as llama-server has it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

enum { FIELDS_MAX = 64 };

/* Of a request. */
typedef struct {
    char
        *fields[FIELDS_MAX]; /* owned: what the answer is to have, "content", "timings/prompt_ms" */
    size_t n_fields;         /* 0: all of it */
} completion;

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

/* A bias that forbids is null; ignore_eos forbids the tokens that end a text. */
static void put_bias(int32_t id, float bias, bool first, fy_str *out)
{
    fy_str_printf(out, "%s{\"token\":%d,\"bias\":", first ? "" : ",", id);
    if (bias > -1e30F)
        fy_str_printf(out, "%.9g}", (double)bias);
    else
        fy_str_puts(out, "null}");
}

static void put_biases(const fy_ask *k, fy_str *out)
{
    const fy_sampler_params *p = &k->sampler;
    const fy_vocab *v = k->served->vocab;
    bool first = true;
    fy_str_puts(out, ",\"logit_bias\":[");
    for (size_t i = 0; i < p->n_bias; i++, first = false)
        put_bias(p->bias[i].id, p->bias[i].bias, first, out);
    for (int32_t id = 0; k->ignore_eos && id < (int32_t)k->served->n_vocab; id++) {
        if (fy_vocab_is_eog(v, id)) {
            put_bias(id, -INFINITY, first, out);
            first = false;
        }
    }
    fy_str_putc(out, ']');
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
    put_biases(k, out);
    if (k->compat) /* of samplers that ferry does not have: they do nothing */
        fy_str_puts(out, ",\"dynatemp_range\":0,\"dynatemp_exponent\":1,\"xtc_probability\":0,"
                         "\"xtc_threshold\":0.1,\"dry_multiplier\":0,\"mirostat\":0,"
                         "\"adaptive_target\":-1,\"adaptive_decay\":0.9");
    fy_str_putc(out, '}');
    fy_str_release(&order);
}

/* The members that tell of tokens [from, to). */
static void put_tokens(const fy_answer *a, size_t from, size_t to, fy_str *out)
{
    const fy_ask *k = a->ask;
    fy_str_puts(out, ",\"tokens\":[");
    for (size_t i = from; (k->return_tokens || k->stream) && i < to; i++)
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
    fy_str_printf(out, ",\"has_new_line\":%s,\"tokens_cached\":%u",
                  a->text.len > 0 && memchr(a->text.ptr, '\n', a->text.len) != NULL ? "true"
                                                                                    : "false",
                  a->task.n_past);
    fy_put_fingerprint(a->ask, out);
    fy_str_puts(out, ",\"timings\":");
    fy_put_timings(a, out);
}

/* The text that the model got, special tokens and what the tokenizer added included. */
static void put_prompt(const fy_answer *a, fy_str *out)
{
    fy_str text = {0};
    fy_str_putc(out, ',');
    fy_vocab_decode(a->ask->served->vocab, a->task.ids.id, a->task.n_prompt, true, &text, NULL);
    fy_put_span(out, "prompt", fy_str_view(&text));
    out->oom |= text.oom;
    fy_str_release(&text);
}

/* --- response_fields -------------------------------------------------------------------------- */

/* The value of "a/b" in an object, as it is written there; an empty span: there is none. */
static fy_span find_field(fy_span object, const char *path)
{
    const size_t n = strcspn(path, "/");
    fy_span key, found = {0};
    fy_json *j = fy_json_new(object.ptr, object.len, NULL);
    if (j == NULL || fy_json_peek(j) != FY_JSON_OBJECT || fy_json_object_begin(j, NULL) != 0) {
        fy_json_free(j);
        return found;
    }
    while (found.ptr == NULL && fy_json_object_next(j, &key, NULL) == 1) {
        const bool is_it = key.len == n && memcmp(key.ptr, path, n) == 0;
        fy_json_peek(j);
        const size_t begin = fy_json_offset(j);
        if (fy_json_skip(j, NULL) != 0)
            break;
        if (is_it)
            found = (fy_span){object.ptr + begin, fy_json_offset(j) - begin};
    }
    fy_json_free(j);
    return found.ptr != NULL && path[n] == '/' ? find_field(found, path + n + 1) : found;
}

/* Appends of an answer what was asked for, each under the path that it was asked by. */
static void put_fields(const completion *c, const fy_str *all, fy_str *out)
{
    bool first = true;
    fy_str_putc(out, '{');
    for (size_t i = 0; i < c->n_fields; i++) {
        const fy_span v = find_field(fy_str_view(all), c->fields[i]);
        if (v.ptr == NULL)
            continue;
        fy_str_puts(out, first ? "" : ",");
        first = false;
        fy_json_put_string(out, fy_span_of(c->fields[i]));
        fy_str_putc(out, ':');
        fy_str_add(out, v.ptr, v.len);
    }
    fy_str_putc(out, '}');
    out->oom |= all->oom;
}

/* All of an answer, with the text and the tokens up to to_token; `out` is empty. */
static void put_answer(const fy_answer *a, fy_span text, size_t to_token, fy_str *out)
{
    const completion *c = a->ask->state;
    fy_str all = {0}, *to = c->n_fields > 0 ? &all : out;
    put_begin(a, text, to);
    put_tokens(a, 0, to_token, to);
    put_end(a, to);
    if (c->n_fields > 0)
        put_prompt(a, to);
    if (a->ask->verbose) {
        fy_str_putc(to, ',');
        fy_put_verbose(a, to);
    }
    fy_str_putc(to, '}');
    if (c->n_fields > 0)
        put_fields(c, to, out);
    fy_str_release(&all);
}

void fy_put_verbose(const fy_answer *a, fy_str *out)
{
    fy_str_puts(out, "\"__verbose\":");
    put_begin(a, fy_str_view(&a->text), out);
    put_tokens(a, 0, a->n_said, out);
    put_end(a, out);
    put_prompt(a, out);
    fy_str_putc(out, '}');
}

/* --- the form --------------------------------------------------------------------------------- */

static void whole(fy_ask *k, fy_str *out)
{
    fy_str_puts(out, k->n_answers > 1 ? "[" : "");
    for (size_t i = 0; i < k->n_answers; i++) {
        const fy_answer *a = &k->answers[i];
        fy_str_puts(out, i > 0 ? "," : "");
        put_answer(a, (fy_span){a->text.ptr, a->text.len}, a->n_said, out);
    }
    fy_str_puts(out, k->n_answers > 1 ? "]" : "");
}

static void put_part(fy_answer *a, fy_span text, size_t token, bool progress, fy_str *out)
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
    if (progress) {
        fy_str_puts(&json, ",\"prompt_progress\":");
        fy_put_progress(a, &json);
    }
    fy_str_putc(&json, '}');
    fy_put_event(out, &json);
}

static void piece(fy_answer *a, fy_span text, size_t token, fy_str *out)
{
    put_part(a, text, token, false, out);
}

static void progress(fy_answer *a, fy_str *out)
{
    put_part(a, (fy_span){0}, a->n_said, true, out);
}

static void end(fy_answer *a, fy_str *out)
{
    fy_str json = {0};
    put_answer(a, (fy_span){0}, 0, &json);
    fy_put_event(out, &json);
}

static void release(fy_ask *k)
{
    completion *c = k->state;
    for (size_t i = 0; c != NULL && i < c->n_fields; i++)
        free(c->fields[i]);
    free(c);
}

/* llama-server's own API has no [DONE]. */
static const fy_reply_form form = {
    .whole = whole, .piece = piece, .progress = progress, .end = end, .release = release};

static int read_fields(completion *c, const json_t *o, fy_bad_ask *b)
{
    const json_t *list = json_object_get(o, "response_fields"), *item;
    size_t i;
    if (list == NULL || json_is_null(list))
        return 0;
    if (!json_is_array(list) || json_array_size(list) > FIELDS_MAX)
        return fy_bad(b, "response_fields", "expected a list of at most %d names", FIELDS_MAX);
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return fy_bad(b, "response_fields", "item %zu is %s, expected a name", i,
                          fy_json_type_name(item));
        c->fields[i] = strdup(json_string_value(item));
        if (c->fields[i] == NULL)
            return fy_nomem(&b->e);
        c->n_fields = i + 1;
    }
    return 0;
}

static int read_members(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const fy_member members[] = {
        {"n_probs", FY_MEMBER_U32, offsetof(fy_ask, n_top), 0, k->served->n_vocab}, {.name = NULL}};
    completion *c = k->state = calloc(1, sizeof *c);
    if (c == NULL)
        return fy_nomem(&b->e);
    if (fy_ask_read_common(k, o, b) != 0 || fy_members_read(o, members, k, b) != 0 ||
        read_fields(c, o, b) != 0)
        return -1;
    k->logprobs = k->n_top > 0;
    k->keeps_tokens = k->stream;
    return 0;
}

static int read_completion(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    if (read_members(k, o, b) != 0)
        return -1;
    return fy_ask_read_prompts(k, json_object_get(o, "prompt"), "prompt", b);
}

/* All but the texts means what it means for /completion. */
static int read_infill(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    json_t *rest = json_copy((json_t *)(uintptr_t)o);
    if (rest == NULL)
        return fy_nomem(&b->e);
    json_object_del(rest, "input_prefix");
    const int rc = read_members(k, rest, b);
    json_decref(rest);
    return rc == 0 ? fy_ask_read_infill(k, o, b) : -1;
}

void fy_handle_infill(fy_exchange *x)
{
    if (fy_can_infill(x->server->served.vocab))
        fy_ask_handle(x, &form, "cmpl-", read_infill);
    else
        fy_reply_error(x, &(fy_api_refusal){.status = 501},
                       "the model's vocabulary has no tokens for filling in the middle");
}

void fy_handle_completion(fy_exchange *x)
{
    fy_ask_handle(x, &form, "cmpl-", read_completion);
}
