/* Answers on the engine thread: chooses tokens, finds their ends, and passes what comes out to the
 * form of the request's API. */
#include "server/generate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/arena.h"
#include "base/process.h"
#include "model/think.h"
#include "server/routes.h"

/* --- asks ------------------------------------------------------------------------------------- */

static uint64_t random_u64(void)
{
    uint64_t v = 0;
    if (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v)
        v = (uint64_t)time(NULL);
    return v;
}

fy_ask *fy_ask_new(fy_exchange *x, const fy_reply_form *form, const char *id_prefix)
{
    fy_ask *k = calloc(1, sizeof *k);
    if (k == NULL)
        return NULL;
    const fy_served *served = &x->server->served;
    k->x = x;
    k->server = x->server;
    k->served = served;
    k->form = form;
    k->n_choices = 1;
    k->compat = fy_asks_compat(x);
    k->verbose = served->verbose;
    k->n_predict = served->n_predict;
    k->slot = -1;
    k->sampler = served->sampler;
    k->has_seed = served->has_seed;
    k->created = (int64_t)time(NULL);
    k->number = random_u64();
    snprintf(k->id, sizeof k->id, "%s%016llx", id_prefix, (unsigned long long)k->number);
    return k;
}

static void release_answer(fy_answer *a)
{
    fy_ids_release(&a->task.ids);
    fy_sampler_free(a->sampler);
    fy_matcher_free(a->matcher);
    fy_call_hold_free(a->hold);
    fy_text_out_release(&a->text_out);
    fy_str_release(&a->text);
    fy_str_release(&a->raw);
    free(a->said);
    free(a->top);
}

void fy_ask_free(fy_ask *k)
{
    if (k == NULL)
        return;
    if (k->form->release != NULL)
        k->form->release(k);
    for (size_t i = 0; i < k->n_answers; i++)
        release_answer(&k->answers[i]);
    for (size_t i = 0; i < k->n_prompts; i++)
        fy_ids_release(&k->prompts[i]);
    free(k->answers);
    free(k->prompts);
    free(k->bias);
    fy_stops_free(k->stops);
    fy_grammar_free(k->grammar);
    fy_ask_tools_release(&k->tools);
    fy_str_release(&k->out);
    free(k);
}

int fy_ask_add_prompt(fy_ask *k, fy_ids *ids, fy_err *e)
{
    if (k->prompts == NULL)
        k->prompts = calloc(FY_ASK_ANSWERS_MAX, sizeof *k->prompts);
    int rc = k->prompts == NULL ? fy_nomem(e)
             : k->n_prompts == FY_ASK_ANSWERS_MAX
                 ? fy_fail(e, FY_EARG, "more than %d prompts in a request", FY_ASK_ANSWERS_MAX)
                 : 0;
    if (rc == 0)
        k->prompts[k->n_prompts++] = *ids;
    else
        fy_ids_release(ids);
    *ids = (fy_ids){0};
    return rc;
}

const char *fy_finish_reason(const fy_answer *a)
{
    return a->end == FY_END_EOS || a->end == FY_END_WORD ? "stop" : "length";
}

fy_span fy_stopping_word(const fy_answer *a)
{
    return a->end == FY_END_WORD ? fy_stops_text(a->ask->stops, a->text_out.found) : (fy_span){0};
}

fy_usage fy_ask_usage(const fy_ask *k)
{
    fy_usage u = {0};
    for (size_t i = 0; i < k->n_answers; i++) {
        const fy_answer *a = &k->answers[i];
        if (i % k->n_choices == 0) {
            u.prompt += a->task.n_prompt;
            u.cached += a->task.n_cached;
        }
        u.completion += a->n_generated;
    }
    return u;
}

/* n tokens, of which `timed` took the time; in whole microseconds, so that the numbers agree. */
static void put_rate(fy_str *out, const char *what, uint32_t n, uint32_t timed, double seconds)
{
    const double ms = seconds > 0 ? round(seconds * 1e6) * 1e-3 : 0;
    fy_str_printf(
        out, ",\"%s_n\":%u,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.9g,\"%s_per_second\":%.15g", what,
        n, what, ms, what, timed > 0 ? ms / timed : 0, what, ms > 0 ? 1e3 / ms * timed : 0);
}

/* Ids of the prompt that are computed or were in a cache. */
static uint32_t n_processed(const fy_answer *a)
{
    const fy_seq_task *t = &a->task;
    return a->is_prompted || t->n_past > t->n_prompt ? t->n_prompt : t->n_past;
}

/* Of computing the prompt, so far. */
static double prompt_seconds(const fy_answer *a)
{
    const fy_seq_task *t = &a->task;
    const double end_s = t->prompted_s > 0 ? t->prompted_s
                         : a->first_s > 0  ? a->first_s
                                           : fy_now_s();
    return n_processed(a) > t->n_cached && end_s > t->begun_s ? end_s - t->begun_s : 0;
}

void fy_put_timings(const fy_answer *a, fy_str *out)
{
    const uint32_t n_computed = n_processed(a) - a->task.n_cached, n = a->n_generated;
    fy_str_printf(out, "{\"cache_n\":%u", a->task.n_cached);
    put_rate(out, "prompt", n_computed, n_computed, prompt_seconds(a));
    put_rate(out, "predicted", n, n > 1 ? n - 1 : 0, n > 1 ? a->last_s - a->first_s : 0);
    if (a->n_draft > 0)
        fy_str_printf(out, ",\"draft_n\":%u,\"draft_n_accepted\":%u", a->n_draft,
                      a->n_draft_accepted);
    fy_str_putc(out, '}');
}

void fy_put_progress(const fy_answer *a, fy_str *out)
{
    fy_str_printf(out, "{\"total\":%u,\"cache\":%u,\"processed\":%u,\"time_ms\":%.3f}",
                  a->task.n_prompt, a->task.n_cached, n_processed(a), prompt_seconds(a) * 1e3);
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* A control token that begins or ends thinking or a call has a text, when the form wants it. */
static fy_span mark_of(const fy_ask *k, int32_t id)
{
    const fy_span piece = fy_vocab_piece(k->served->vocab, id);
    const bool is_mark =
        k->shows_marks && fy_vocab_type(k->served->vocab, id) == FY_TOKEN_CONTROL &&
        (fy_think_is_marker(piece) ||
         (k->tools.tools != NULL && fy_tool_format_has_mark(k->tools.marks, piece)));
    return is_mark ? piece : (fy_span){0};
}

static bool keeps_tokens(const fy_ask *k)
{
    return k->logprobs || k->return_tokens || k->keeps_tokens;
}

enum { TOP_MAX = 8 << 20 }; /* 64 MB */

/* Keeps a token with the probabilities that the logits before it gave; NULL: none. */
static int keep_token(fy_answer *a, int32_t id, const float *logits, fy_err *e)
{
    const fy_ask *k = a->ask;
    const uint32_t n_vocab = k->served->n_vocab;
    fy_said said = {.id = id, .logprob = NAN, .raw = a->raw.len, .top = a->n_top};
    const fy_vocab *v = k->served->vocab;
    const fy_span mark = mark_of(k, id);
    if (mark.len > 0)
        fy_str_add(&a->raw, mark.ptr, mark.len);
    else if ((a->raw_begun ? fy_vocab_decode_one(v, id, false, &a->raw, e)
                           : fy_vocab_decode(v, &id, 1, false, &a->raw, e)) != 0)
        return -1;
    said.n_raw = a->raw.len - said.raw;
    a->raw_begun |= said.n_raw > 0;
    if (k->logprobs && a->n_top + k->n_top > TOP_MAX)
        return fy_fail(e, FY_EFIT, "more than %d probabilities in an answer: ask for fewer",
                       (int)TOP_MAX);
    if (k->logprobs && a->n_top + k->n_top > a->cap_top) {
        const size_t cap = 2 * a->cap_top + k->n_top;
        fy_logprob *more = realloc(a->top, cap * sizeof *more);
        if (more == NULL)
            return fy_nomem(e);
        a->top = more;
        a->cap_top = cap;
    }
    fy_logprob *top = k->n_top > 0 && k->logprobs ? a->top + a->n_top : NULL;
    if (k->logprobs && k->post_probs)
        said.logprob = fy_sampler_last(a->sampler, id, top, k->n_top);
    else if (k->logprobs && logits != NULL &&
             fy_logprobs(logits, n_vocab, id, &said.logprob, top, k->n_top, e) != 0)
        return -1;
    for (uint32_t i = 0; k->logprobs && logits == NULL && i < k->n_top; i++)
        top[i].id = -1;
    a->n_top += k->logprobs ? k->n_top : 0;
    return fy_append(&a->said, &a->n_said, &a->cap_said, &said, sizeof said, e);
}

/* Gives the tokens whose bytes are out (all: those that are left) their texts, up to `limit` of the
 * answer's text. Where bytes are not UTF-8, text and bytes differ in length: the last one of those
 * that come out together takes what there is. */
static void assign_text(fy_answer *a, bool all, size_t limit)
{
    const size_t waiting = a->text_out.bytes.len, bytes = a->raw.len;
    const size_t out = all || waiting > bytes ? bytes : bytes - waiting;
    while (a->n_out < a->n_said) {
        fy_said *s = &a->said[a->n_out];
        const size_t left = limit - a->assigned, end = s->raw + s->n_raw;
        if (end > out || (all && left == 0 && s->n_raw > 0))
            break; /* it waits; a stop string took it */
        const bool last = end == out && (all || waiting == 0);
        const size_t n = last || s->n_raw > left ? left : s->n_raw;
        s->text = a->assigned;
        s->n_text = n == left ? n : fy_utf8_complete(fy_str_z(&a->text) + a->assigned, n);
        a->assigned += s->n_text;
        a->n_out++;
    }
    if (all)
        a->n_said = a->n_out;
}

/* --- sending ---------------------------------------------------------------------------------- */

static void send(fy_ask *k)
{
    if (k->out.oom) {
        k->failed = true;
    } else if (k->out.len > 0) {
        fy_stream_put(k->x, (fy_span){k->out.ptr, k->out.len});
    }
    fy_str_clear(&k->out);
}

static void open_stream(fy_ask *k)
{
    if (!k->stream || k->begun)
        return;
    k->begun = true;
    fy_stream_begin(k->x, k->form->stream_type != NULL ? k->form->stream_type : FY_SSE_TYPE);
    if (k->form->open != NULL)
        k->form->open(k, &k->out);
}

static void show(fy_answer *a)
{
    fy_ask *k = a->ask;
    if (!k->stream || k->failed || (a->sent == a->text.len && a->n_sent == a->n_out))
        return;
    open_stream(k);
    const size_t kept = a->n_said;
    a->n_said = a->n_out; /* what came out */
    k->form->piece(a, (fy_span){fy_str_z(&a->text) + a->sent, a->text.len - a->sent}, a->n_sent,
                   &k->out);
    a->n_said = kept;
    a->sent = a->text.len;
    a->n_sent = a->n_out;
}

static void fail(fy_ask *k, const fy_api_refusal *r, const char *message)
{
    if (k->failed)
        return;
    k->failed = true;
    if (!k->begun) {
        fy_reply_error(k->x, r, message);
        k->x = NULL;
        return;
    }
    fy_str event = {0};
    if (k->form->fail != NULL) {
        k->form->fail(k, r, message, &k->out);
    } else {
        fy_put_error(&event, r, message);
        fy_sse_put(&k->out, NULL, (fy_span){fy_str_z(&event), event.len});
        fy_str_release(&event);
    }
    send(k);
}

/* The last answer has ended: the ask is freed. */
static void end_ask(fy_ask *k)
{
    fy_exchange *x = k->x;
    if (x != NULL && atomic_load(&x->gone) && !k->failed && !k->begun) {
        fy_reply_error(x, &(fy_api_refusal){.status = FY_STATUS_LEFT}, "the client has left");
    } else if (x != NULL && k->stream) {
        open_stream(k);
        if (!k->failed && k->form->close != NULL)
            k->form->close(k, &k->out);
        send(k);
        fy_stream_end(x);
    } else if (x != NULL) {
        fy_str body = {0};
        k->form->whole(k, &body);
        fy_reply_json(x, 200, &body);
    }
    fy_ask_free(k);
}

/* --- calls of the scheduler ------------------------------------------------------------------- */

static fy_answer *answer_of(fy_seq_task *t)
{
    return (fy_answer *)t;
}

static bool is_gone(fy_seq_task *t)
{
    const fy_ask *k = answer_of(t)->ask;
    return k->failed || k->x == NULL || atomic_load(&k->x->gone);
}

static bool is_paused(fy_seq_task *t)
{
    const fy_exchange *x = answer_of(t)->ask->x;
    return x != NULL && atomic_load(&x->unsent) > FY_SERVER_UNSENT_MAX;
}

/* What is left of the text comes out. */
static int end_text(fy_answer *a, fy_end end, fy_err *e)
{
    a->end = end;
    if (end != FY_END_WORD && fy_text_out_end(&a->text_out, &a->text, e) != 0)
        return -1;
    if (keeps_tokens(a->ask))
        assign_text(a, true, a->text.len);
    return 0;
}

static int take_token(fy_answer *a, int32_t id, const float *logits, fy_err *e)
{
    const fy_ask *k = a->ask;
    fy_seq_task *t = &a->task;
    a->n_generated++;
    atomic_fetch_add(&k->server->metrics.predicted_tokens, 1);
    if (fy_sampler_accept(a->sampler, id, e) != 0 ||
        (keeps_tokens(k) && keep_token(a, id, logits, e) != 0))
        return -1;
    const fy_span mark = mark_of(k, id);
    const int found = mark.len > 0 ? fy_text_out_bytes(&a->text_out, mark, &a->text, e)
                                   : fy_text_out_token(&a->text_out, id, &a->text, e);
    if (found < 0)
        return -1;
    if (found > 0)
        return end_text(a, FY_END_WORD, e);
    if ((a->matcher != NULL && fy_matcher_is_complete(a->matcher)) ||
        (a->hold != NULL && fy_call_hold_ended(a->hold)))
        return end_text(a, FY_END_EOS, e);
    if (k->n_predict >= 0 && a->n_generated >= k->n_predict)
        return end_text(a, FY_END_LIMIT, e);
    if (k->max_ms > 0 && (a->last_s - a->first_s) * 1e3 > k->max_ms)
        return end_text(a, FY_END_LIMIT, e);
    if (t->ids.n >= k->served->n_ctx)
        return end_text(a, FY_END_CONTEXT, e);
    if (keeps_tokens(k))
        assign_text(a, false, a->text.len);
    return fy_ids_push(&t->ids, id, e);
}

/* Once the answer has its slot: the scratch of a sampler is several megabytes for a large
 * vocabulary. */
static int begin_sampler(fy_answer *a, fy_err *e)
{
    const fy_ask *k = a->ask;
    fy_sampler_params p = k->sampler;
    p.seed = a->seed;
    a->sampler = fy_sampler_new(&p, k->served->n_vocab, k->served->vocab, e);
    for (uint32_t i = 0; a->sampler != NULL && i < a->task.n_prompt; i++) {
        if (fy_sampler_accept(a->sampler, a->task.ids.id[i], e) != 0)
            return -1;
    }
    return a->sampler != NULL ? 0 : -1;
}

/* The next token of those that the grammar allows, or the rules of calls; -1. */
static int32_t choose_masked(fy_answer *a, const float *logits, fy_err *e)
{
    const fy_ask *k = a->ask;
    fy_mask mask;
    const double begin_s = fy_now_s();
    if ((a->hold != NULL ? fy_call_hold_mask(a->hold, &mask, e)
                         : fy_matcher_mask(a->matcher, &mask, e)) != 0)
        return -1;
    fy_histogram_add(&k->server->metrics.grammar_mask, fy_bounds_mask_seconds,
                     fy_now_s() - begin_s);
    return fy_sampler_next_masked(a->sampler, logits, &mask, k->ignore_eos, e);
}

/* Of an answer that may call tools. */
static int32_t choose_held(fy_answer *a, const float *logits, fy_err *e)
{
    int32_t id = -1;
    int may = 0;
    if (!fy_call_hold_holds(a->hold)) {
        id = fy_sampler_next(a->sampler, logits, a->ask->ignore_eos, e);
        may = id >= 0 ? fy_call_hold_accept(a->hold, id, e) : -1;
    }
    if (may == 0) {
        id = choose_masked(a, logits, e);
        may = id >= 0 ? fy_call_hold_accept(a->hold, id, e) : -1;
    }
    if (may == 0)
        fy_fail(e, FY_EFORMAT, "no token continues the answer");
    return may == 1 ? id : -1;
}

/* The next token; -1 with *e. */
static int32_t choose_token(fy_answer *a, const float *logits, fy_err *e)
{
    if (a->sampler == NULL && begin_sampler(a, e) != 0)
        return -1;
    if (a->hold != NULL)
        return choose_held(a, logits, e);
    if (a->matcher == NULL)
        return fy_sampler_next(a->sampler, logits, a->ask->ignore_eos, e);
    const int32_t id = choose_masked(a, logits, e);
    return id >= 0 && fy_matcher_accept(a->matcher, id, e) == 0 ? id : -1;
}

/* The tokens of the prompt so far get their texts. */
static void score_prompt(fy_answer *a)
{
    const bool whole = a->n_said == a->task.n_prompt;
    const size_t bytes = a->raw.len < a->n_echo ? a->raw.len : a->n_echo;
    assign_text(a, false, whole ? a->n_echo : fy_utf8_complete(fy_str_z(&a->text), bytes));
    a->n_prompt_said = a->n_said;
}

static void show_progress(fy_answer *a)
{
    fy_ask *k = a->ask;
    if (!k->return_progress || !k->stream || k->form->progress == NULL || k->failed)
        return;
    open_stream(k);
    k->form->progress(a, &k->out);
    send(k);
}

static void on_prompt(fy_seq_task *t)
{
    if (t->n_past < t->n_prompt) /* the rest came before its logits */
        show_progress(answer_of(t));
}

static int on_logits(fy_seq_task *t, uint32_t pos, const float *logits, fy_err *e)
{
    fy_answer *a = answer_of(t);
    fy_ask *k = a->ask;
    if (pos + 1 < t->n_prompt) { /* echo */
        if (keep_token(a, t->ids.id[pos + 1], logits, e) != 0)
            return -1;
        score_prompt(a);
        return 0;
    }
    if (!a->is_prompted) {
        a->is_prompted = true;
        show_progress(a);
    }
    if (k->n_predict == 0)
        return end_text(a, FY_END_LIMIT, e);
    const int32_t id = choose_token(a, logits, e);
    if (id < 0)
        return -1;
    a->last_s = fy_now_s();
    if (a->first_s == 0) {
        a->first_s = a->last_s;
        fy_histogram_add(&k->server->metrics.first_token, fy_bounds_seconds,
                         a->first_s - k->x->begun_s);
    }
    const int rc = fy_vocab_is_eog(k->served->vocab, id) ? end_text(a, FY_END_EOS, e)
                                                         : take_token(a, id, logits, e);
    if (rc == 0 && a->text.oom)
        return fy_nomem(e);
    if (rc == 0)
        show(a);
    if (rc == 0 && a->end == FY_END_NONE)
        send(k);
    return rc;
}

static void on_done(fy_seq_task *t, fy_seq_end end, const fy_err *e)
{
    fy_answer *a = answer_of(t);
    fy_ask *k = a->ask;
    a->task_end = end;
    if (end == FY_SEQ_DONE && a->end == FY_END_NONE)
        a->end = FY_END_LIMIT;
    if (a->first_s > 0 && a->n_generated > 1 && k->x != NULL)
        fy_histogram_add(&k->server->metrics.per_token, fy_bounds_seconds,
                         (a->last_s - a->first_s) / (a->n_generated - 1));
    if (end == FY_SEQ_FAILED)
        fail(k, &(fy_api_refusal){.status = fy_error_status(e)}, e->msg);
    else if (end == FY_SEQ_REFUSED)
        fail(k, &(fy_api_refusal){.status = 503, .retry_after_s = 1},
             "the server is shutting down");
    else if (end == FY_SEQ_CANCELLED && k->x != NULL && !atomic_load(&k->x->gone))
        fail(k, &(fy_api_refusal){.status = 503}, "the server was ended");
    else if (end == FY_SEQ_DONE && k->stream && !k->failed) {
        open_stream(k);
        k->form->end(a, &k->out);
        send(k);
    }
    if (++k->n_ended == k->n_answers)
        end_ask(k);
}

/* Any failure of a proposer means no guesses. */
static uint32_t guess(fy_seq_task *t, bool alone, uint32_t most, int32_t *out)
{
    fy_answer *a = answer_of(t);
    const fy_ask *k = a->ask;
    const int64_t left = k->n_predict >= 0 ? k->n_predict - a->n_generated - 1 : most;
    a->n_guesses = 0;
    a->guess_alone = alone;
    fy_speculator_guess(k->served->speculators[t->seq], t->ids.id, (uint32_t)t->ids.n,
                        left < 0      ? 0
                        : left < most ? (uint32_t)left
                                      : most,
                        out, &a->n_guesses, NULL);
    return a->n_guesses;
}

static void guessed(fy_seq_task *t, uint32_t n_right, uint32_t n_ids, double step_s)
{
    fy_answer *a = answer_of(t);
    fy_metrics *m = &a->ask->server->metrics;
    a->n_draft += a->n_guesses;
    a->n_draft_accepted += n_right;
    atomic_fetch_add(&m->drafts, a->n_guesses > 0);
    atomic_fetch_add(&m->draft_tokens, a->n_guesses);
    atomic_fetch_add(&m->draft_accepted, n_right);
    fy_speculator_result(a->ask->served->speculators[t->seq], n_ids, a->guess_alone ? step_s : 0,
                         n_right);
}

static const fy_seq_calls calls = {.logits = on_logits,
                                   .prompt = on_prompt,
                                   .gone = is_gone,
                                   .paused = is_paused,
                                   .done = on_done};
static const fy_seq_calls guessing_calls = {.logits = on_logits,
                                            .prompt = on_prompt,
                                            .guess = guess,
                                            .guessed = guessed,
                                            .gone = is_gone,
                                            .paused = is_paused,
                                            .done = on_done};

/* --- submitting (worker) ---------------------------------------------------------------------- */

static int check_prompt(const fy_ask *k, size_t i, fy_err *e)
{
    const uint32_t n_ctx = k->served->n_ctx;
    const fy_ids *ids = &k->prompts[i];
    if (ids->n == 0)
        return fy_fail(e, FY_EARG, "the prompt is empty");
    if (ids->n > n_ctx)
        return fy_fail(
            e, FY_EFIT,
            "the request (%zu tokens) exceeds the available context size (%u tokens of a "
            "slot, --ctx-size)",
            ids->n, n_ctx);
    return 0;
}

/* Does any text come before the first generated token? */
static int begin_text(fy_answer *a, fy_err *e)
{
    fy_str s = {0};
    const fy_vocab *v = a->ask->served->vocab;
    const fy_ids *ids = &a->task.ids;
    int rc = 0;
    if (ids->n <= 8)
        rc = fy_vocab_decode(v, ids->id, ids->n, false, &s, e);
    for (size_t i = ids->n; ids->n > 8 && i > 0 && s.len == 0 && rc == 0; i--)
        rc = fy_vocab_decode_one(v, ids->id[i - 1], false, &s, e);
    fy_text_out_begin(&a->text_out, v, a->ask->stops, s.len > 0);
    fy_str_release(&s);
    return rc;
}

/* The answer's text begins with the prompt. */
static int echo_prompt(fy_answer *a, fy_err *e)
{
    const fy_ask *k = a->ask;
    fy_text_out_begin(&a->text_out, k->served->vocab, NULL, false);
    for (size_t i = 0; i < a->task.ids.n; i++) {
        if (fy_text_out_token(&a->text_out, a->task.ids.id[i], &a->text, e) != 0)
            return -1;
    }
    a->text_out.stops = k->stops;
    a->n_echo = a->text.len;
    if (!k->logprobs)
        return 0;
    if (keep_token(a, a->task.ids.id[0], NULL, e) != 0)
        return -1;
    score_prompt(a);
    return 0;
}

/* What its text is held to. */
static int begin_holding(fy_answer *a, fy_err *e)
{
    const fy_ask *k = a->ask;
    const fy_ask_tools *t = &k->tools;
    if (k->grammar == NULL && t->calls.grammar == NULL)
        return 0;
    const fy_trie *trie = k->grammar != NULL && !t->forced
                              ? fy_server_trie(k->server, e)
                              : fy_server_call_trie(k->server, t->marks, e);
    if (trie == NULL)
        return -1;
    if (k->grammar != NULL)
        a->matcher = fy_matcher_new(k->grammar, trie, e);
    else
        a->hold = fy_call_hold_new(&t->calls, trie, t->opened, e);
    return a->matcher != NULL || a->hold != NULL ? 0 : -1;
}

static int begin_answer(fy_ask *k, size_t i, fy_err *e)
{
    fy_answer *a = &k->answers[i];
    const fy_ids *ids = &k->prompts[i / k->n_choices];
    const bool scores = k->echo && k->logprobs;
    *a = (fy_answer){.ask = k,
                     .index = (uint32_t)i,
                     .prompt = (uint32_t)(i / k->n_choices),
                     .seed = k->sampler.seed + i % k->n_choices,
                     .task = {.calls = k->served->speculators != NULL ? &guessing_calls : &calls,
                              .n_prompt = (uint32_t)ids->n,
                              .want_from = scores              ? 0
                                           : k->n_predict == 0 ? FY_NO_LOGITS
                                                               : (uint32_t)ids->n - 1,
                              .slot = k->slot,
                              .user = k->x->user,
                              .no_cache = k->no_cache}};
    k->n_answers = i + 1;
    if (a->index % k->n_choices > 0 && !k->no_cache)
        a->task.leader = &k->answers[a->prompt * k->n_choices].task;
    if (fy_ids_append(&a->task.ids, ids->id, ids->n, e) != 0 ||
        (k->echo ? echo_prompt(a, e) : begin_text(a, e)) != 0)
        return -1;
    if (!scores)
        a->raw_begun = a->text_out.begun;
    return begin_holding(a, e);
}

static void refuse(fy_ask *k, const fy_err *e, size_t i)
{
    char extra[96];
    fy_api_refusal r = {.status = fy_error_status(e), .param = "prompt"};
    if (e->code == FY_EFIT) {
        snprintf(extra, sizeof extra, "\"n_prompt_tokens\":%zu,\"n_ctx\":%u", k->prompts[i].n,
                 k->served->n_ctx);
        r.type = "exceed_context_size_error";
        r.extra = fy_span_of(extra);
    }
    fy_reply_error(k->x, &r, e->msg);
    fy_ask_free(k);
}

void fy_ask_submit(fy_ask *k)
{
    fy_err e = {0};
    fy_seq_task *tasks[FY_ASK_ANSWERS_MAX];
    const size_t n = k->n_prompts * k->n_choices;
    size_t bad = 0;
    if (n == 0 || n > FY_ASK_ANSWERS_MAX) {
        fy_fail(&e, FY_EARG, "%zu prompts with %u choices each, expected 1 to %d answers",
                k->n_prompts, k->n_choices, FY_ASK_ANSWERS_MAX);
        fy_reply_failure(k->x, "n", &e);
        fy_ask_free(k);
        return;
    }
    if (!k->has_seed)
        k->sampler.seed = random_u64() & UINT32_MAX;
    for (; bad < k->n_prompts; bad++) {
        if (check_prompt(k, bad, &e) != 0) {
            refuse(k, &e, bad);
            return;
        }
    }
    k->answers = calloc(n, sizeof *k->answers);
    int rc = k->answers != NULL ? 0 : fy_nomem(&e);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = begin_answer(k, i, &e);
        tasks[i] = &k->answers[i].task;
    }
    if (rc != 0) {
        fy_reply_failure(k->x, NULL, &e);
        fy_ask_free(k);
    } else if (fy_schedule_submit(k->server->schedule, tasks, n, &e) != 0) {
        const bool full = e.code == FY_EFIT;
        atomic_fetch_add(&k->server->metrics.refused_queue, full);
        fy_reply_error(k->x, &(fy_api_refusal){.status = full ? 429 : 503, .retry_after_s = 1},
                       e.msg);
        fy_ask_free(k);
    }
}
