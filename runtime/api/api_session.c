/* ferry.h: sessions and samplers, and what every public function begins and ends with: parameter
 * structs of other versions, the log, errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_impl.h"
#include "base/process.h"
#include "model/sample.h"

/* --- beginning and end of a call --- */

const char *ferry_version(void)
{
    return FERRY_VERSION;
}

ferry_status fy_api_end(int rc, const fy_err *e, ferry_error *out)
{
    ferry_status status = rc == 0 ? FERRY_OK : fy_exit_status(e->code);
    if (out != NULL) {
        out->status = status;
        snprintf(out->message, sizeof out->message, "%s", rc == 0 ? "" : e->msg);
    }
    return status;
}

int fy_api_need(const void *p, const char *name, fy_err *e)
{
    return p != NULL ? 0 : fy_fail(e, FY_EARG, "%s is NULL", name);
}

/* Both structs begin with their size, which the caller may have made of anything. */
int fy_api_params(const void *given, void *known, size_t least, const char *name, fy_err *e)
{
    uint32_t given_size, known_size;
    if (given == NULL)
        return 0;
    memcpy(&given_size, given, sizeof given_size);
    memcpy(&known_size, known, sizeof known_size);
    if (given_size < least || given_size > 4096)
        return fy_fail(e, FY_EARG, "%s.struct_size is %u, expected %zu or more: call %s_init", name,
                       given_size, least, name);
    const unsigned char *bytes = given;
    for (uint32_t i = known_size; i < given_size; i++) {
        if (bytes[i] != 0)
            return fy_fail(e, FY_EARG,
                           "%s: byte %u is set, but ferry %s knows %u: the program was made for a "
                           "later version",
                           name, i, FERRY_VERSION, known_size);
    }
    memcpy(known, given, given_size < known_size ? given_size : known_size);
    memcpy(known, &known_size, sizeof known_size);
    return 0;
}

void fy_api_params_init(void *p, size_t struct_size, const void *defaults, size_t size)
{
    const uint32_t n = (uint32_t)struct_size;
    if (p == NULL || struct_size < sizeof n)
        return;
    memset(p, 0, struct_size);
    memcpy(p, defaults, struct_size < size ? struct_size : size);
    memcpy(p, &n, sizeof n);
}

int fy_api_flags(uint32_t flags, uint32_t known, fy_err *e)
{
    if ((flags & ~known) == 0)
        return 0;
    return fy_fail(e, FY_EARG, "flags %#x, expected none but %#x", flags, known);
}

int fy_api_put_text(const fy_str *s, char *text, size_t capacity, size_t *n_bytes, fy_err *e)
{
    if (s->oom)
        return fy_nomem(e);
    *n_bytes = s->len;
    if (text == NULL)
        return 0;
    if (capacity <= s->len)
        return fy_fail(e, FY_EFIT, "a text of %zu bytes and a NUL, the buffer holds %zu", s->len,
                       capacity);
    memcpy(text, fy_str_z(s), s->len + 1);
    return 0;
}

/* --- sessions --- */

struct ferry_session {
    ferry_model *model; /* kept */
    fy_session *s;      /* owned */
    _Atomic bool cancelled;
};

static const ferry_session_params session_defaults = {.struct_size = sizeof(ferry_session_params)};

void ferry_session_params_init(ferry_session_params *p, size_t struct_size)
{
    fy_api_params_init(p, struct_size, &session_defaults, sizeof session_defaults);
}

static int kv_type(int32_t type, const char *name, fy_type *out, fy_err *e)
{
    static const fy_type types[] = {[FERRY_KV_F16] = FY_F16,
                                    [FERRY_KV_F32] = FY_F32,
                                    [FERRY_KV_Q8_0] = FY_Q8_0,
                                    [FERRY_KV_Q4_0] = FY_Q4_0};
    if (type < 0 || (size_t)type >= sizeof types / sizeof types[0])
        return fy_fail(e, FY_EARG, "%s is %d, expected FERRY_KV_F16, _F32, _Q8_0 or _Q4_0", name,
                       type);
    *out = types[type];
    return 0;
}

static int read_params(const ferry_session_params *given, fy_session_params *out, fy_err *e)
{
    ferry_session_params p = session_defaults;
    if (fy_api_params(given, &p, FY_API_UP_TO(ferry_session_params, type_v), "ferry_session_params",
                      e) != 0)
        return -1;
    *out = (fy_session_params){.n_ctx = p.n_ctx,
                               .n_batch = p.n_batch,
                               .n_threads = p.n_threads,
                               .n_seq = p.n_seq,
                               .n_logits = p.n_logits,
                               .ring = (p.flags & FERRY_SESSION_WINDOWS) != 0,
                               .snapshots = true};
    if (fy_api_flags(p.flags, FERRY_SESSION_WINDOWS, e) != 0)
        return -1;
    return kv_type(p.type_k, "type_k", &out->type_k, e) != 0
               ? -1
               : kv_type(p.type_v, "type_v", &out->type_v, e);
}

ferry_status ferry_session_bytes(const ferry_model *model, const ferry_session_params *params,
                                 uint64_t *kv_bytes, uint64_t *scratch_bytes, ferry_error *error)
{
    fy_err e = {0};
    fy_session_params p;
    fy_session_plan plan;
    int rc = -1;
    if (fy_api_need(model, "model", &e) == 0 && fy_api_need(kv_bytes, "kv_bytes", &e) == 0 &&
        fy_api_need(scratch_bytes, "scratch_bytes", &e) == 0 && read_params(params, &p, &e) == 0)
        rc = fy_session_plan_of(model->m, &p, &plan, &e);
    if (rc == 0) {
        *kv_bytes = plan.kv_bytes;
        *scratch_bytes = plan.scratch_bytes;
    }
    return fy_api_end(rc, &e, error);
}

/* --- life ----------------------------------------------------------------------------------- */

static ferry_session *new_session(ferry_model *model, const fy_session_params *p, fy_err *e)
{
    ferry_session *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    const fy_api_scope scope = fy_api_enter(model);
    s->s = fy_session_new(model->m, p, e);
    fy_api_leave(&scope);
    if (s->s == NULL) {
        free(s);
        return NULL;
    }
    s->model = model;
    fy_api_model_keep(model);
    return s;
}

ferry_status ferry_session_new(ferry_model *model, const ferry_session_params *params,
                               ferry_session **session, ferry_error *error)
{
    fy_err e = {0};
    fy_session_params p;
    int rc = fy_api_need(session, "session", &e);
    if (rc == 0)
        *session = NULL;
    if (rc == 0 && fy_api_need(model, "model", &e) == 0 && read_params(params, &p, &e) == 0)
        *session = new_session(model, &p, &e);
    return fy_api_end(rc == 0 && *session != NULL ? 0 : -1, &e, error);
}

void ferry_session_free(ferry_session *session)
{
    if (session == NULL)
        return;
    fy_session_free(session->s);
    fy_api_model_release(session->model);
    free(session);
}

uint32_t ferry_session_n_ctx(const ferry_session *session)
{
    return session != NULL ? fy_session_n_ctx(session->s) : 0;
}

uint32_t ferry_session_n_past(const ferry_session *session)
{
    return session != NULL ? fy_session_n_past(session->s) : 0;
}

void ferry_session_rewind(ferry_session *session, uint32_t n_past)
{
    if (session != NULL)
        fy_session_rewind(session->s, n_past);
}

uint32_t ferry_session_n_seq(const ferry_session *session)
{
    return session != NULL ? fy_session_n_seq(session->s) : 0;
}

uint32_t ferry_session_seq_n_past(const ferry_session *session, uint32_t seq)
{
    return session != NULL ? fy_session_seq_n_past(session->s, seq) : 0;
}

void ferry_session_seq_rewind(ferry_session *session, uint32_t seq, uint32_t n_past)
{
    if (session != NULL)
        fy_session_seq_rewind(session->s, seq, n_past);
}

void ferry_session_snapshot(ferry_session *session, uint32_t seq)
{
    if (session != NULL)
        fy_session_seq_snapshot(session->s, seq);
}

ferry_status ferry_session_seq_copy(ferry_session *session, uint32_t from, uint32_t to,
                                    uint32_t n_past, ferry_error *error)
{
    fy_err e = {0};
    int rc = fy_api_need(session, "session", &e);
    if (rc == 0)
        rc = fy_session_seq_copy(session->s, from, to, n_past, &e);
    return fy_api_end(rc, &e, error);
}

/* --- work ----------------------------------------------------------------------------------- */

void ferry_session_cancel(ferry_session *session)
{
    if (session != NULL)
        atomic_store_explicit(&session->cancelled, true, memory_order_relaxed);
}

/* Between two layers; the values that it is shown do not matter. */
static int stop_if_cancelled(void *user, uint32_t layer, const float *x, uint32_t pos, uint32_t n,
                             fy_err *e)
{
    ferry_session *session = user;
    (void)layer;
    (void)x;
    (void)pos;
    (void)n;
    if (!atomic_load_explicit(&session->cancelled, memory_order_relaxed))
        return 0;
    atomic_store_explicit(&session->cancelled, false, memory_order_relaxed);
    return fy_fail(e, FY_EINTR, "cancelled");
}

ferry_model *fy_api_session_model(const ferry_session *session)
{
    return session->model;
}

fy_session *fy_api_session_of(ferry_session *session)
{
    return session->s;
}

fy_eval_sinks fy_api_session_sinks(ferry_session *session)
{
    return (fy_eval_sinks){.hidden = stop_if_cancelled, .user = session};
}

static int check_count(const ferry_session *session, size_t n, fy_err *e)
{
    if (n <= UINT32_MAX)
        return 0;
    return fy_fail(e, FY_EFIT, "%zu tokens, the context has %u positions", n,
                   fy_session_n_ctx(session->s));
}

ferry_status ferry_session_eval(ferry_session *session, const int32_t *ids, size_t n,
                                const float **logits, ferry_error *error)
{
    const fy_eval_sinks sinks = {.hidden = stop_if_cancelled, .user = session};
    fy_err e = {0};
    int rc = -1;
    if (fy_api_need(session, "session", &e) == 0 && fy_api_need(ids, "ids", &e) == 0 &&
        check_count(session, n, &e) == 0)
        rc = fy_session_eval(session->s, ids, (uint32_t)n, &sinks, logits, &e);
    return fy_api_end(rc, &e, error);
}

ferry_status ferry_session_decode(ferry_session *session, const int32_t *ids, const uint32_t *seqs,
                                  const uint8_t *wants, size_t n, const float **logits,
                                  ferry_error *error)
{
    const fy_eval_sinks sinks = {.hidden = stop_if_cancelled, .user = session};
    const fy_batch batch = {.ids = ids, .seqs = seqs, .wants = wants, .n = (uint32_t)n};
    fy_err e = {0};
    int rc = -1;
    if (fy_api_need(session, "session", &e) == 0 && fy_api_need(ids, "ids", &e) == 0 &&
        fy_api_need(seqs, "seqs", &e) == 0 && check_count(session, n, &e) == 0)
        rc = fy_session_decode(session->s, &batch, &sinks, logits, &e);
    return fy_api_end(rc, &e, error);
}

/* --- samplers --- */

struct ferry_sampler {
    fy_sampler *s;       /* owned */
    fy_logit_bias *bias; /* owned: s looks at it */
    bool ignore_end;
    ferry_grammar *grammar; /* kept; NULL: none */
    fy_matcher *matcher;    /* owned; of the grammar */
};

/* Greedy, as `ferry run` is: draws are asked for by a temperature. */
static ferry_sampler_params sampler_defaults(void)
{
    const fy_sampler_params d = fy_sampler_defaults();
    return (ferry_sampler_params){.struct_size = sizeof(ferry_sampler_params),
                                  .seed = d.seed,
                                  .top_k = d.top_k,
                                  .top_p = d.top_p,
                                  .min_p = d.min_p,
                                  .typical_p = d.typical_p,
                                  .repeat_penalty = d.repeat_penalty,
                                  .presence_penalty = d.presence_penalty,
                                  .frequency_penalty = d.frequency_penalty,
                                  .repeat_last_n = d.repeat_last_n};
}

void ferry_sampler_params_init(ferry_sampler_params *p, size_t struct_size)
{
    const ferry_sampler_params d = sampler_defaults();
    fy_api_params_init(p, struct_size, &d, sizeof d);
}

static fy_logit_bias *copy_bias(const ferry_sampler_params *p, fy_err *e)
{
    fy_logit_bias *bias = calloc((size_t)p->n_bias + 1, sizeof *bias);
    if (bias == NULL)
        fy_nomem(e);
    for (uint32_t i = 0; bias != NULL && i < p->n_bias; i++)
        bias[i] = (fy_logit_bias){p->bias[i].id, p->bias[i].bias};
    return bias;
}

static int engine_params(const ferry_sampler_params *p, fy_sampler_params *out, fy_err *e)
{
    *out = fy_sampler_defaults();
    out->seed = p->seed;
    out->temperature = p->temperature;
    out->top_k = p->top_k;
    out->top_p = p->top_p;
    out->min_p = p->min_p;
    out->typical_p = p->typical_p;
    out->repeat_penalty = p->repeat_penalty;
    out->presence_penalty = p->presence_penalty;
    out->frequency_penalty = p->frequency_penalty;
    out->repeat_last_n = p->repeat_last_n;
    return p->order != NULL ? fy_sampler_parse_order(p->order, out, e) : 0;
}

static int check_params(const ferry_sampler_params *p, fy_err *e)
{
    if (fy_api_flags(p->flags, FERRY_IGNORE_END, e) != 0)
        return -1;
    return p->n_bias > 0 ? fy_api_need(p->bias, "bias", e) : 0;
}

/* --- life ----------------------------------------------------------------------------------- */

/* Ids without a token are never chosen. In a file without a tokenizer, which is not an error, any
 * id may be. */
static int find_vocab(ferry_model *model, const fy_vocab **out, fy_err *e)
{
    fy_err why = {0};
    const ferry_vocab *vocab = fy_api_vocab(model, &why);
    *out = vocab != NULL ? vocab->v : NULL;
    if (vocab == NULL && why.code == FY_ENOMEM)
        return fy_nomem(e);
    if (vocab == NULL) {
        const fy_api_scope scope = fy_api_enter(model);
        fy_log(FY_LOG_WARN, "%s; the sampler chooses from all ids", why.msg);
        fy_api_leave(&scope);
    }
    return 0;
}

static ferry_sampler *new_sampler(ferry_model *model, const ferry_sampler_params *p, fy_err *e)
{
    const fy_vocab *vocab;
    fy_sampler_params params;
    if (check_params(p, e) != 0 || engine_params(p, &params, e) != 0 ||
        find_vocab(model, &vocab, e) != 0)
        return NULL;
    ferry_sampler *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    s->ignore_end = p->flags & FERRY_IGNORE_END;
    s->bias = copy_bias(p, e);
    if (s->bias != NULL) {
        params.bias = s->bias;
        params.n_bias = p->n_bias;
        s->s = fy_sampler_new(&params, fy_model_hparams(model->m)->n_vocab, vocab, e);
    }
    if (s->s != NULL)
        return s;
    ferry_sampler_free(s);
    return NULL;
}

ferry_status ferry_sampler_new(ferry_model *model, const ferry_sampler_params *params,
                               ferry_sampler **sampler, ferry_error *error)
{
    fy_err e = {0};
    ferry_sampler_params p = sampler_defaults();
    int rc = fy_api_need(sampler, "sampler", &e);
    if (rc == 0)
        *sampler = NULL;
    if (rc == 0 && fy_api_need(model, "model", &e) == 0 &&
        fy_api_params(params, &p, FY_API_UP_TO(ferry_sampler_params, order), "ferry_sampler_params",
                      &e) == 0)
        *sampler = new_sampler(model, &p, &e);
    return fy_api_end(rc == 0 && *sampler != NULL ? 0 : -1, &e, error);
}

static void drop_grammar(ferry_sampler *sampler)
{
    fy_matcher_free(sampler->matcher);
    ferry_grammar_free(sampler->grammar);
    sampler->matcher = NULL;
    sampler->grammar = NULL;
}

void ferry_sampler_free(ferry_sampler *sampler)
{
    if (sampler == NULL)
        return;
    drop_grammar(sampler);
    fy_sampler_free(sampler->s);
    free(sampler->bias);
    free(sampler);
}

/* --- work ----------------------------------------------------------------------------------- */

static int32_t choose(ferry_sampler *sampler, const float *logits, fy_err *e)
{
    fy_mask mask;
    if (sampler->matcher == NULL)
        return fy_sampler_next(sampler->s, logits, sampler->ignore_end, e);
    if (fy_matcher_mask(sampler->matcher, &mask, e) != 0)
        return -1;
    return fy_sampler_next_masked(sampler->s, logits, &mask, sampler->ignore_end, e);
}

ferry_status ferry_sampler_sample(ferry_sampler *sampler, const float *logits, int32_t *id,
                                  ferry_error *error)
{
    fy_err e = {0};
    int32_t chosen = -1;
    if (fy_api_need(sampler, "sampler", &e) == 0 && fy_api_need(logits, "logits", &e) == 0 &&
        fy_api_need(id, "id", &e) == 0)
        chosen = choose(sampler, logits, &e);
    if (chosen >= 0)
        *id = chosen;
    return fy_api_end(chosen >= 0 ? 0 : -1, &e, error);
}

ferry_status ferry_sampler_accept(ferry_sampler *sampler, int32_t id, ferry_error *error)
{
    fy_err e = {0};
    int rc = fy_api_need(sampler, "sampler", &e);
    if (rc == 0 && sampler->matcher != NULL)
        rc = fy_matcher_accept(sampler->matcher, id, &e);
    if (rc == 0)
        rc = fy_sampler_accept(sampler->s, id, &e);
    return fy_api_end(rc, &e, error);
}

ferry_status ferry_sampler_set_grammar(ferry_sampler *sampler, ferry_grammar *grammar,
                                       ferry_error *error)
{
    fy_err e = {0};
    fy_matcher *matcher = NULL;
    int rc = fy_api_need(sampler, "sampler", &e);
    if (rc == 0 && grammar != NULL) {
        matcher = fy_matcher_new(grammar->g, grammar->trie, &e);
        rc = matcher != NULL ? 0 : -1;
    }
    if (rc == 0) {
        if (grammar != NULL)
            fy_api_grammar_keep(grammar);
        drop_grammar(sampler);
        sampler->grammar = grammar;
        sampler->matcher = matcher;
    }
    return fy_api_end(rc, &e, error);
}

int ferry_sampler_is_complete(const ferry_sampler *sampler)
{
    return sampler != NULL && sampler->matcher != NULL && fy_matcher_is_complete(sampler->matcher);
}

void ferry_sampler_reset(ferry_sampler *sampler, uint64_t seed)
{
    if (sampler == NULL)
        return;
    drop_grammar(sampler);
    fy_sampler_reset(sampler->s);
    fy_sampler_reseed(sampler->s, seed);
}
