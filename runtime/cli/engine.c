/* What run and chat share: opens model and session after comparing the memory they take with what
 * is available, reuses the cache between prompts, generates, and reports the times. */
#include "cli/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "base/process.h"
#include "base/types.h"
#include "bundle/bundle.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"

/* --- sessions --- */

static unsigned long long megabytes(uint64_t bytes)
{
    return (bytes >> 20) + ((bytes & 0xFFFFF) != 0);
}

const char *fy_session_plan_text(const fy_model *m, const fy_session_plan *p,
                                 char out[FY_SESSION_TEXT_BYTES])
{
    const fy_session_params *full = &p->params;
    const fy_hparams *hp = fy_model_hparams(m);
    char sequences[32] = "", window[48] = "", states[48] = "";
    uint32_t n_attn = 0, n_states = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        n_attn += !fy_layer_in(&hp->no_attn_layers, i);
        n_states += fy_layer_has_state(hp, i);
    }
    if (n_states > 0)
        snprintf(states, sizeof states, ", states of %u layers", n_states);
    if (full->n_seq > 1)
        snprintf(sequences, sizeof sequences, "%u sequences x ", full->n_seq);
    if (p->n_ring != 0 && p->n_ring < full->n_ctx)
        snprintf(window, sizeof window, " (with a window: %u)", p->n_ring);
    if (fy_model_is_endless(m))
        snprintf(out, FY_SESSION_TEXT_BYTES, "states: %s%u layers: %llu MB; scratch: %llu MB",
                 sequences, n_states, megabytes(p->kv_bytes), megabytes(p->scratch_bytes));
    else
        snprintf(out, FY_SESSION_TEXT_BYTES,
                 "KV cache: %s%u positions%s x %u layers, %s/%s%s: %llu MB; scratch: %llu MB",
                 sequences, full->n_ctx, window, n_attn, p->type_k, p->type_v, states,
                 megabytes(p->kv_bytes), megabytes(p->scratch_bytes));
    return out;
}

int fy_session_plan_check(const fy_model *m, const fy_session_plan *p, uint64_t available,
                          const char *smaller, fy_err *e)
{
    char text[FY_SESSION_TEXT_BYTES];
    if (available == 0 || (p->kv_bytes <= available && p->scratch_bytes <= available - p->kv_bytes))
        return 0;
    const bool f32 = strcmp(p->type_k, "f32") == 0 || strcmp(p->type_v, "f32") == 0;
    return fy_fail(e, FY_EFIT, "%s, but only %llu MB of memory are available; use a smaller %s%s",
                   fy_session_plan_text(m, p, text), megabytes(available), smaller,
                   f32 ? ", or an f16 cache (-ctk f16 -ctv f16)" : "");
}

fy_session *fy_session_open(const fy_model *m, const fy_session_params *p, const char *smaller,
                            fy_err *e)
{
    fy_session_plan plan;
    char text[FY_SESSION_TEXT_BYTES];
    if (fy_session_plan_of(m, p, &plan, e) != 0)
        return NULL;
    fy_log(FY_LOG_DEBUG, "%s", fy_session_plan_text(m, &plan, text));
    if (fy_session_plan_check(m, &plan, fy_meminfo_bytes("MemAvailable"), smaller, e) != 0)
        return NULL;
    return fy_session_new(m, p, e);
}

/* --- opening --- */

int fy_sparse_parse(const char *text, fy_sparse *out, float *threshold, fy_err *e)
{
    static const char predict[] = "predict:";
    const size_t n = sizeof predict - 1;
    char q[FY_QUOTE_BYTES], *end;
    *threshold = NAN;
    if (text == NULL || strncmp(text, predict, n) != 0) {
        const int mode = text != NULL ? fy_choice("auto|exact|off|predict", text, e) : 0;
        *out = (fy_sparse)mode;
        return mode >= 0 ? 0 : fy_ctx(e, "--sparse");
    }
    *out = FY_SPARSE_PREDICT;
    *threshold = strtof(text + n, &end);
    if (end != text + n && *end == '\0' && !isnan(*threshold))
        return 0;
    return fy_fail(e, FY_EARG, "--sparse: '%s' is not a threshold, expected a number",
                   fy_quote(q, sizeof q, fy_span_of(text + n)));
}

void fy_say_neurons(const fy_session *s)
{
    const double share = fy_session_neuron_share(s);
    if (!isnan(share))
        fy_log(FY_LOG_INFO, "computed %.1f %% of the neurons, as predicted", 100 * share);
}

fy_expert_counts fy_experts_since(const fy_model *m, const fy_expert_counts *then)
{
    const fy_expert_counts now = fy_model_expert_counts(m);
    return (fy_expert_counts){.n_held = now.n_held - then->n_held,
                              .n_read = now.n_read - then->n_read,
                              .bytes_read = now.bytes_read - then->bytes_read};
}

void fy_experts_text(const fy_expert_counts *c, uint64_t n_tokens, const char *before, fy_str *out)
{
    const uint64_t n = c->n_held + c->n_read;
    if (n > 0)
        fy_str_printf(out, "%s%.1f %% of the experts in memory, %.1f MB read for a token", before,
                      100 * (double)c->n_held / (double)n,
                      (double)c->bytes_read * 1e-6 / (double)n_tokens);
}

static fy_session_params session_params(const fy_engine_options *o, const fy_bundle *b,
                                        uint32_t step_tokens)
{
    int64_t cpus = fy_default_threads(); /* a workspace may come from a larger machine */
    int64_t threads = o->n_threads > 0 ? o->n_threads : b->n_threads < cpus ? b->n_threads : cpus;
    int64_t batch = o->n_batch > 0 ? o->n_batch : b->batch_size;
    return (fy_session_params){.n_ctx = (uint32_t)o->n_ctx,
                               .n_batch = batch > 0 ? (uint32_t)batch : 0,
                               .n_threads = threads > 0 ? (int)threads : 0,
                               .n_seq = (uint32_t)o->n_seq,
                               .n_logits = step_tokens,
                               .ring = o->keeps_windows && !o->full_window_cache,
                               .snapshots = o->keeps_snapshots || o->prompt_cache != NULL,
                               .type_k = fy_cache_types[o->type_k],
                               .type_v = fy_cache_types[o->type_v]};
}

const char *fy_engine_model_path(const fy_engine *g)
{
    return g->has_bundle ? g->bundle.weights : g->o->model;
}

/* Ids in, ids out works without a tokenizer; then nothing is known about which tokens end a text.
 */
static int load_vocab(fy_engine *g, bool needed, fy_err *e)
{
    fy_err why = {0};
    g->vocab = fy_model_vocab(g->model, needed ? e : &why);
    if (g->vocab != NULL)
        return 0;
    if (needed)
        return -1;
    fy_log(FY_LOG_WARN, "%s; no token will end the text", why.msg);
    return 0;
}

/* Weights and session against what is available. */
static void show_plan(const fy_engine *g)
{
    char text[FY_SESSION_TEXT_BYTES];
    uint64_t weights = 0;
    const fy_gguf *f = fy_model_gguf(g->model);
    for (size_t i = 0; i < fy_gguf_n_tensors(f); i++)
        weights += fy_gguf_tensor_at(f, i)->bytes;
    fy_log(FY_LOG_INFO, "weights: %llu MB; %s; %llu MB of memory are available", megabytes(weights),
           fy_session_plan_text(g->model, &g->plan, text),
           megabytes(fy_meminfo_bytes("MemAvailable")));
}

static int new_session(fy_engine *g, uint32_t step_tokens, fy_err *e)
{
    const fy_hparams *hp = fy_model_hparams(g->model);
    fy_session_params p = session_params(g->o, &g->bundle, step_tokens);
    if (fy_sparse_parse(g->o->sparse, &p.sparse, &p.sparse_threshold, e) != 0)
        return -1;
    fy_log(FY_LOG_DEBUG, "backend: %s", fy_model_backend(g->model));
    fy_log(FY_LOG_DEBUG, "family: %s", fy_model_family(g->model)->name);
    if (fy_model_n_chunks(g->model) > 0 && !g->o->sequences_are_asked)
        p.n_seq = 0; /* graphs hold one */
    if (fy_session_plan_of(g->model, &p, &g->plan, e) != 0)
        return -1;
    if (g->o->shows_plan)
        show_plan(g);
    g->session =
        fy_session_open(g->model, &p, g->o->smaller != NULL ? g->o->smaller : "-c or -b", e);
    if (g->session == NULL)
        return -1;
    uint32_t n_ctx = fy_session_n_ctx(g->session);
    if (fy_model_is_endless(g->model) && p.n_ctx != 0)
        fy_log(FY_LOG_WARN,
               "-c %u means nothing to a %s model: its state has one size, however long a text is",
               p.n_ctx, fy_model_family(g->model)->name);
    else if (n_ctx > hp->n_ctx_train && !fy_model_is_endless(g->model))
        fy_log(FY_LOG_WARN, "a context of %u positions, but the model was trained with %u", n_ctx,
               hp->n_ctx_train);
    return 0;
}

static int open_stored(fy_engine *g, fy_err *e)
{
    const char *path = g->o->prompt_cache;
    if (path == NULL)
        return 0;
    if (fy_session_check_saves(g->session, e) != 0)
        return fy_ctx(e, "--prompt-cache");
    if (!fy_file_exists(path))
        return 0;
    g->stored = fy_prompt_cache_open(path, g->session, e);
    return g->stored != NULL ? 0 : fy_ctx(e, "--prompt-cache");
}

static int open_draft(fy_engine *g, const char *path, fy_err *e)
{
    g->draft = fy_model_open(path, e);
    const fy_vocab *v = g->draft != NULL ? fy_model_vocab(g->draft, e) : NULL;
    if (v == NULL)
        return -1;
    return fy_drafter_check(g->vocab, v, e) == 0 ? 0 : fy_ctx(e, "%s", path);
}

/* A session of the draft model, with the context of the model's. */
static fy_session *new_draft(const fy_engine *g, fy_err *e)
{
    const uint32_t n_ctx = fy_session_n_ctx(g->session), most = fy_model_max_ctx(g->draft);
    fy_session_params p = session_params(g->o, &g->bundle, 0);
    p.n_ctx = n_ctx < most ? n_ctx : most;
    p.n_seq = 1;
    p.snapshots = false;
    p.type_k = p.type_v = FY_F16;
    return fy_session_open(g->draft, &p, "-c or -b", e);
}

fy_speculator *fy_engine_new_speculator(fy_engine *g, fy_err *e)
{
    fy_session *its = NULL;
    if (g->draft != NULL && (its = new_draft(g, e)) == NULL)
        return NULL;
    return fy_spec_make(&g->o->spec, g->method, its, g->session,
                        fy_model_hparams(g->model)->n_vocab, e);
}

static int open_models(fy_engine *g, bool needs_vocab, const char *draft, fy_err *e)
{
    g->model = fy_machine_open(&g->o->machine, fy_engine_model_path(g), g->bundle.qnn,
                               g->bundle.qnn_libs, e);
    if (g->model == NULL || load_vocab(g, needs_vocab, e) != 0 ||
        new_session(g, fy_spec_step_tokens(&g->o->spec, g->method), e) != 0 ||
        (draft != NULL && open_draft(g, draft, e) != 0))
        return -1;
    if (g->method != FY_SPEC_NONE)
        g->speculator = fy_engine_new_speculator(g, e);
    return g->method == FY_SPEC_NONE || g->speculator != NULL ? 0 : -1;
}

static int open_all(fy_engine *g, bool needs_vocab, fy_err *e)
{
    const fy_engine_options *o = g->o;
    if ((o->model != NULL) == (o->dir != NULL))
        return fy_fail(e, FY_EARG, "%s: give one GGUF file, workspace or ORG/NAME of the hub",
                       o->model != NULL ? "two models" : "no model");
    if (o->dir != NULL && fy_bundle_open(o->dir, &g->bundle, e) != 0)
        return -1;
    g->has_bundle = o->dir != NULL;
    char *draft;
    if (fy_spec_plan(&o->spec, o->dir, g->bundle.model_draft, &g->method, &draft, e) != 0)
        return -1;
    if (g->bundle.model_draft != NULL && g->method == FY_SPEC_NONE)
        fy_log(FY_LOG_INFO, "the workspace has a draft model, %s: --spec auto uses it",
               g->bundle.model_draft);
    const int rc = open_models(g, needs_vocab || draft != NULL, draft, e);
    free(draft);
    return rc == 0 ? open_stored(g, e) : -1;
}

int fy_engine_open(fy_engine *g, const fy_engine_options *o, bool needs_vocab, fy_err *e)
{
    double begin = fy_now_s();
    *g = (fy_engine){.o = o};
    if (open_all(g, needs_vocab, e) != 0) {
        fy_engine_close(g);
        return -1;
    }
    g->load_s = fy_now_s() - begin;
    return 0;
}

void fy_engine_close(fy_engine *g)
{
    fy_ids_release(&g->cached);
    fy_prompt_cache_close(g->stored);
    fy_speculator_free(g->speculator);
    fy_model_close(g->draft);
    fy_session_free(g->session);
    fy_model_close(g->model);
    fy_bundle_release(&g->bundle);
    *g = (fy_engine){0};
}

/* --- generating ----------------------------------------------------------------------------- */

const char *fy_stop_name(fy_stop s)
{
    static const char *const names[] = {"stop", "length", "context", "interrupted", "string"};
    return names[s];
}

/* Computes tokens after the cached ones. The list of cached tokens stays right even after a
 * failure. */
static int eval(fy_engine *g, const int32_t *ids, uint32_t n, const fy_eval_sinks *sinks,
                const float **logits, fy_err *e)
{
    if (fy_session_eval(g->session, ids, n, sinks, logits, e) != 0) {
        if (fy_session_n_past(g->session) < g->cached.n)
            g->cached.n = fy_session_n_past(g->session);
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (fy_ids_push(&g->cached, ids[i], e) != 0) {
            fy_session_rewind(g->session, (uint32_t)g->cached.n);
            g->cached.n = fy_session_n_past(g->session);
            return -1;
        }
    }
    return 0;
}

static size_t n_common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

/* Takes from the file what the prompt begins with, when that is more than the session holds of it.
 */
static int take_stored(fy_engine *g, const fy_ids *prompt, fy_err *e)
{
    uint32_t n_ids;
    if (g->stored == NULL || prompt->n < 2)
        return 0;
    const int32_t *ids = fy_prompt_cache_ids(g->stored, &n_ids);
    size_t n = n_common(ids, n_ids, prompt->id, prompt->n - 1);
    if (n > fy_session_n_ctx(g->session))
        n = fy_session_n_ctx(g->session);
    if (n <= n_common(g->cached.id, g->cached.n, prompt->id, prompt->n) ||
        (g->cached.n > 0 && fy_session_has_snapshots(g->session))) /* it may go back to less */
        return 0;
    g->cached.n = 0;
    fy_session_rewind(g->session, 0);
    for (size_t i = 0; i < n; i++) {
        if (fy_ids_push(&g->cached, ids[i], e) != 0) {
            g->cached.n = 0;
            return -1;
        }
    }
    const int rc = fy_prompt_cache_load(g->stored, g->session, 0, (uint32_t)n, e);
    g->cached.n = fy_session_n_past(g->session); /* less of a state, which has its own places */
    return rc;
}

int fy_engine_save(const fy_engine *g, fy_err *e)
{
    uint32_t n_ids = 0;
    if (g->o->prompt_cache == NULL || g->cached.n == 0)
        return 0;
    const int32_t *ids = g->stored != NULL ? fy_prompt_cache_ids(g->stored, &n_ids) : NULL;
    if (n_ids >= g->cached.n && n_common(ids, n_ids, g->cached.id, g->cached.n) == g->cached.n)
        return 0;
    if (fy_prompt_cache_write(g->o->prompt_cache, g->session, 0, g->cached.id,
                              (uint32_t)g->cached.n, e) != 0)
        return fy_ctx(e, "--prompt-cache");
    fy_log(FY_LOG_DEBUG, "%s: %zu tokens", g->o->prompt_cache, g->cached.n);
    return 0;
}

/* Keeps of the cache what the prompt starts with, or what it can of that, and returns how much it
 * was. At least one token is left to compute: the answer begins with its logits. */
static uint32_t keep_common(fy_engine *g, const fy_ids *prompt, bool reuse)
{
    size_t n =
        reuse && prompt->n > 0 ? n_common(g->cached.id, g->cached.n, prompt->id, prompt->n - 1) : 0;
    fy_session_rewind(g->session, (uint32_t)n);
    g->cached.n = fy_session_n_past(g->session);
    return (uint32_t)n;
}

/* Computes the rest of the prompt. Where a session cannot go back to any position it remembers
 * where it stands, the end of the turn before, and other places that a prompt may come back to.
 * n_shared: what it had in common with the text before it. */
static int eval_prompt(fy_engine *g, const fy_ids *prompt, uint32_t n_shared,
                       const fy_eval_sinks *sinks, const float **logits, fy_err *e)
{
    const bool remembers = sinks == NULL && fy_session_has_snapshots(g->session);
    const uint32_t n = (uint32_t)prompt->n, n_reused = (uint32_t)g->cached.n;
    uint32_t at = n_reused, stop;
    do {
        stop = remembers ? fy_snapshot_stop(n_reused, n_shared, n, at) : n;
        if (remembers)
            fy_session_seq_snapshot(g->session, 0);
        if (eval(g, n > 0 ? prompt->id + at : NULL, stop - at, sinks, stop == n ? logits : NULL,
                 e) != 0)
            return -1;
        at = stop;
    } while (at < n);
    return 0;
}

static int run_prompt(fy_engine *g, fy_sampler *s, const fy_ids *prompt, const fy_eval_sinks *sinks,
                      fy_timing *t, const float **logits, fy_err *e)
{
    if (prompt->n > UINT32_MAX)
        return fy_fail(e, FY_EFIT, "a prompt of %zu tokens, the context has %u positions",
                       prompt->n, fy_session_n_ctx(g->session));
    double begin = fy_now_s();
    if (sinks == NULL && take_stored(g, prompt, e) != 0)
        return -1;
    t->n_prompt = (uint32_t)prompt->n;
    const uint32_t n_shared = keep_common(g, prompt, sinks == NULL);
    t->n_reused = (uint32_t)g->cached.n;
    if (eval_prompt(g, prompt, n_shared, sinks, logits, e) != 0)
        return -1;
    fy_sampler_reset(s);
    for (uint32_t i = 0; i < t->n_prompt; i++) {
        if (fy_sampler_accept(s, prompt->id[i], e) != 0)
            return -1;
    }
    t->prompt_s = fy_now_s() - begin;
    return 0;
}

/* As eval of one token, after which at most `most` guesses are of use; -1: any number. */
static int speculate(fy_engine *g, int32_t id, int64_t most, const float **logits, fy_err *e)
{
    if (fy_speculator_next(g->speculator, g->session, id, most, logits, e) != 0 ||
        fy_ids_push(&g->cached, id, e) != 0)
        return -1;
    return 0;
}

/* The next logits: 0; 1 when there are none, with the reason in *why. */
static int step(fy_engine *g, int32_t id, int64_t most, const float **logits, fy_stop *why,
                fy_err *e)
{
    fy_err local = {0};
    if (g->cached.n == fy_session_n_ctx(g->session)) { /* which may hold guesses beyond them */
        *why = FY_STOP_CONTEXT;
        return 1;
    }
    if ((g->speculator != NULL ? speculate(g, id, most, logits, &local)
                               : eval(g, &id, 1, NULL, logits, &local)) == 0)
        return 0;
    if (local.code != FY_EINTR)
        return fy_fail(e, local.code, "%s", local.msg);
    *why = FY_STOP_INTERRUPT;
    return 1;
}

/* Shows the token to the sampler's window and to the sink. 1: the sink has enough. */
static int take_token(fy_sampler *s, int32_t id, const float *logits, const fy_generate_params *p,
                      fy_timing *t, fy_err *e)
{
    if (fy_sampler_accept(s, id, e) != 0)
        return -1;
    t->n_generated++;
    return p->token != NULL ? p->token(p->user, id, logits, e) : 0;
}

/* The next token, which the grammar has taken then. */
static int choose(fy_sampler *s, const float *logits, const fy_generate_params *p, int32_t *id,
                  fy_err *e)
{
    fy_mask mask;
    if (p->grammar == NULL || (p->holds != NULL && !p->holds(p->user))) {
        *id = fy_sampler_next(s, logits, p->ignore_eos, e);
        return *id >= 0 ? 0 : -1;
    }
    if (fy_matcher_mask(p->grammar, &mask, e) != 0)
        return -1;
    *id = fy_sampler_next_masked(s, logits, &mask, p->ignore_eos, e);
    return *id >= 0 ? fy_matcher_accept(p->grammar, *id, e) : -1;
}

static int generate(fy_engine *g, fy_sampler *s, const float *logits, const fy_generate_params *p,
                    fy_timing *t, fy_stop *why, fy_err *e)
{
    int32_t id = -1;
    *why = FY_STOP_LENGTH;
    while (p->n < 0 || t->n_generated < p->n) {
        if (p->grammar != NULL && fy_matcher_is_complete(p->grammar)) {
            *why = FY_STOP_EOG;
            return 0;
        }
        double begin = fy_now_s();
        bool first = id < 0;
        const int64_t most = p->n < 0 ? -1 : p->n - t->n_generated - 1;
        int rc = first ? 0 : step(g, id, most, &logits, why, e);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        if (choose(s, logits, p, &id, e) != 0)
            return -1;
        double took = fy_now_s() - begin;
        if (first) {
            t->first_s = t->prompt_s + took;
        } else {
            t->generate_s += took;
            t->n_evals++;
        }
        if (g->vocab != NULL && fy_vocab_is_eog(g->vocab, id)) {
            *why = FY_STOP_EOG;
            return 0;
        }
        rc = take_token(s, id, logits, p, t, e);
        if (rc > 0)
            *why = FY_STOP_STRING;
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    }
    return 0;
}

/* Adds what the speculator has counted so far, or takes it away. */
static void count_guesses(const fy_speculator *s, fy_timing *t, int sign)
{
    fy_spec_stats stats[FY_PROPOSERS_MAX + 1];
    const uint32_t n = fy_speculator_stats(s, stats);
    for (uint32_t i = 0; i < n; i++) {
        t->n_steps += (uint64_t)sign * stats[i].n_steps;
        t->n_draft += (uint64_t)sign * stats[i].n_proposed;
        t->n_draft_accepted += (uint64_t)sign * stats[i].n_accepted;
    }
}

int fy_engine_generate(fy_engine *g, fy_sampler *s, const fy_ids *prompt,
                       const fy_generate_params *p, fy_timing *t, fy_stop *why, fy_err *e)
{
    const float *logits = NULL;
    *t = (fy_timing){
        .load_s = g->load_s, .backend = fy_model_backend(g->model), .gpu = fy_model_gpu(g->model)};
    if (p->grammar != NULL)
        fy_matcher_reset(p->grammar);
    if (run_prompt(g, s, prompt, p->eval, t, &logits, e) != 0)
        return -1;
    if (g->speculator != NULL) {
        if (fy_speculator_begin(g->speculator, prompt->id, (uint32_t)prompt->n, e) != 0)
            return -1;
        count_guesses(g->speculator, t, -1);
    }
    const fy_expert_counts before = fy_model_expert_counts(g->model);
    const int rc = generate(g, s, logits, p, t, why, e);
    t->experts = fy_experts_since(g->model, &before);
    t->neuron_share = fy_session_neuron_share(g->session);
    t->predicts = !isnan(t->neuron_share);
    if (g->speculator == NULL)
        return rc;
    fy_speculator_settle(g->speculator, g->session);
    if (g->cached.n > fy_session_n_past(g->session))
        g->cached.n = fy_session_n_past(g->session);
    count_guesses(g->speculator, t, 1);
    return rc;
}

/* --- the numbers ---------------------------------------------------------------------------- */

static double rate(uint32_t n, double seconds)
{
    return n > 0 && seconds > 0 ? n / seconds : 0;
}

static void put_rate(fy_str *out, double r)
{
    if (r > 0)
        fy_str_printf(out, " %.1f tok/s", r);
}

void fy_timing_line(const fy_timing *t, fy_str *out)
{
    fy_str_printf(out, "load %.0f ms | prompt %u tokens", t->load_s * 1e3, t->n_prompt);
    if (t->n_reused > 0)
        fy_str_printf(out, " (%u from the cache)", t->n_reused);
    put_rate(out, rate(t->n_prompt - t->n_reused, t->prompt_s));
    if (t->first_s > 0)
        fy_str_printf(out, " | first token %.0f ms", t->first_s * 1e3);
    fy_str_printf(out, " | generated %u tokens", t->n_generated);
    put_rate(out, rate(t->n_evals, t->generate_s));
    if (t->n_steps > 0)
        fy_str_printf(out, " | %.2f tokens a step",
                      (double)(t->n_steps + t->n_draft_accepted) / (double)t->n_steps);
    if (t->predicts)
        fy_str_printf(out, " | %.1f %% of the neurons", 100 * t->neuron_share);
    if (t->n_evals > 0)
        fy_experts_text(&t->experts, t->n_evals, " | ", out);
    fy_str_printf(out, " | peak memory %llu MB (rss anon %llu MB)", megabytes(fy_rss_peak_bytes()),
                  megabytes(fy_rss_anon_bytes()));
    fy_str_printf(out, " | %s", t->backend);
}

void fy_timing_json(const fy_timing *t, fy_str *out)
{
    fy_str_printf(out,
                  "\"backend\":\"%s\",\"load_ms\":%.3f,\"prompt_tokens\":%u,\"cached_tokens\":%u,"
                  "\"prompt_ms\":%.3f,"
                  "\"prompt_tokens_per_s\":%.1f,\"first_token_ms\":%.3f,\"generated_tokens\":%u,"
                  "\"generate_ms\":%.3f,\"generated_tokens_per_s\":%.1f,"
                  "\"peak_memory_bytes\":%llu,\"anonymous_memory_bytes\":%llu",
                  t->backend, t->load_s * 1e3, t->n_prompt, t->n_reused, t->prompt_s * 1e3,
                  rate(t->n_prompt - t->n_reused, t->prompt_s), t->first_s * 1e3, t->n_generated,
                  t->generate_s * 1e3, rate(t->n_evals, t->generate_s),
                  (unsigned long long)fy_rss_peak_bytes(), (unsigned long long)fy_rss_anon_bytes());
    if (t->gpu != NULL) {
        fy_str_puts(out, ",\"gpu\":");
        fy_json_put_string(out, fy_span_of(t->gpu));
        fy_str_puts(out, ",\"equal_bits\":false");
    }
    if (t->predicts)
        fy_str_printf(out, ",\"neurons_computed\":%.6f", t->neuron_share);
    if (t->experts.n_held + t->experts.n_read > 0)
        fy_str_printf(out,
                      ",\"experts_held\":%llu,\"experts_read\":%llu,\"expert_bytes_read\":%llu",
                      (unsigned long long)t->experts.n_held, (unsigned long long)t->experts.n_read,
                      (unsigned long long)t->experts.bytes_read);
    if (t->n_steps > 0)
        fy_str_printf(out, ",\"steps\":%llu,\"draft_n\":%llu,\"draft_n_accepted\":%llu",
                      (unsigned long long)t->n_steps, (unsigned long long)t->n_draft,
                      (unsigned long long)t->n_draft_accepted);
}

/* --- a tokenizer or template without its model --- */

static fy_gguf *open_checkpoint(const char *dir, fy_err *e)
{
    const fy_verb *convert = fy_verb_find("convert");
    if (convert == NULL) {
        fy_fail(e, FY_EUNSUPPORTED,
                "%s: is %s, and this build of ferry cannot convert; run 'ferry convert "
                "--vocab-only -o vocab.gguf %s' on the host and give that file",
                dir,
                fy_file_is_dir(dir) ? "a directory without " FY_BUNDLE_WORKSPACE_JSON
                                    : "a tokenizer file",
                dir);
        return NULL;
    }
    fy_log_level before = fy_log_show(FY_LOG_WARN);
    if (before == FY_LOG_DEBUG) /* -v: the user wants to see all of it */
        fy_log_show(before);
    fy_gguf *g = convert->vocabulary(dir, e);
    fy_log_show(before);
    return g;
}

static fy_gguf *open_workspace(const char *dir, fy_err *e)
{
    fy_bundle b;
    if (fy_bundle_open(dir, &b, e) != 0)
        return NULL;
    fy_gguf *g = fy_gguf_open(b.weights, e);
    fy_bundle_release(&b);
    return g;
}

static bool has_file(const char *dir, const char *name)
{
    char *file = fy_path_join(dir, name);
    bool yes = file != NULL && fy_file_exists(file);
    free(file);
    return yes;
}

/* A cut model, or PowerServe's directory of a model: the embedding has all keys. */
static fy_gguf *open_model_dir(const char *dir, fy_err *e)
{
    char *file = fy_path_join(dir, FY_BUNDLE_WEIGHTS);
    fy_gguf *g = file != NULL ? fy_gguf_open(file, e) : NULL;
    if (file == NULL)
        fy_nomem(e);
    free(file);
    return g;
}

/* Judged by its name: for anything else the GGUF reader has the best message. */
static bool is_tokenizer_file(const char *path)
{
    static const char *const ends[] = {".json", ".model", ".txt", ".tiktoken"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t k = strlen(ends[i]);
        if (n > k && strcmp(path + n - k, ends[i]) == 0)
            return fy_file_exists(path);
    }
    return false;
}

fy_gguf *fy_vocab_source_open(const char *path, fy_err *e)
{
    if (!fy_file_is_dir(path))
        return is_tokenizer_file(path) ? open_checkpoint(path, e) : fy_gguf_open(path, e);
    return has_file(path, FY_BUNDLE_WORKSPACE_JSON) ? open_workspace(path, e)
           : has_file(path, FY_BUNDLE_WEIGHTS)      ? open_model_dir(path, e)
                                                    : open_checkpoint(path, e);
}
