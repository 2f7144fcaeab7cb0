/* ferry.h: speculation. */
#include <stdlib.h>

#include "api/api_impl.h"
#include "model/speculate.h"

struct ferry_speculator {
    fy_speculator *s;   /* owned */
    ferry_model *draft; /* kept; NULL: none */
};

static const ferry_speculator_params defaults = {.struct_size = sizeof(ferry_speculator_params)};

void ferry_speculator_params_init(ferry_speculator_params *p, size_t struct_size)
{
    fy_api_params_init(p, struct_size, &defaults, sizeof defaults);
}

static fy_lookahead_params lookahead_of(const ferry_speculator_params *p)
{
    return (fy_lookahead_params){.ngram = p->ngram > 0 ? p->ngram : 5,
                                 .window = p->window > 0 ? p->window : 8,
                                 .gcap = p->gcap > 0 ? p->gcap : 8};
}

static uint32_t n_draft_of(const ferry_speculator_params *p)
{
    const fy_lookahead_params look = lookahead_of(p);
    if (p->method == FERRY_SPEC_LOOKAHEAD)
        return fy_lookahead_nodes(&look);
    if (p->n_draft > 0)
        return p->n_draft;
    return p->method == FERRY_SPEC_AUTO ? 15 : p->method == FERRY_SPEC_TREE ? 11 : 8;
}

static int check(const ferry_speculator_params *p, const fy_session *session, fy_err *e)
{
    const bool drafts = p->method == FERRY_SPEC_DRAFT || p->method == FERRY_SPEC_TREE;
    const uint32_t n = n_draft_of(p), held = fy_session_n_logits(session);
    if (p->method < FERRY_SPEC_AUTO || p->method > FERRY_SPEC_LOOKAHEAD)
        return fy_fail(e, FY_EARG, "method %d, expected one of FERRY_SPEC_...", p->method);
    if (drafts != (p->draft != NULL) && p->method != FERRY_SPEC_AUTO)
        return fy_fail(e, FY_EARG, "a draft model goes with FERRY_SPEC_DRAFT, _TREE and _AUTO");
    if (n > FY_PROPOSAL_MAX || n + 1 > held)
        return fy_fail(e, FY_EARG,
                       "%u guesses of a step: the session holds the logits of %u tokens, and %d is "
                       "the most; give ferry_session_params a larger n_logits",
                       n, held, FY_PROPOSAL_MAX);
    return p->method >= FERRY_SPEC_TREE ? fy_session_check_trees(session, e) : 0;
}

/* A session of the draft model with the context of the model's. */
static fy_proposer *new_drafter(const ferry_speculator_params *p, ferry_session *session, fy_err *e)
{
    const ferry_vocab *its = fy_api_vocab(p->draft, e), *ours = NULL;
    if (its != NULL)
        ours = fy_api_vocab(fy_api_session_model(session), e);
    if (ours == NULL || fy_drafter_check(ours->v, its->v, e) != 0)
        return NULL;
    const uint32_t n_ctx = fy_session_n_ctx(fy_api_session_of(session));
    const uint32_t most = fy_model_max_ctx(p->draft->m);
    const fy_session_params sp = {.n_ctx = n_ctx < most ? n_ctx : most,
                                  .n_threads = p->n_threads,
                                  .type_k = FY_F16,
                                  .type_v = FY_F16};
    fy_drafter_params d = fy_drafter_defaults();
    d.fan_out = p->method == FERRY_SPEC_TREE ? 3 : 0;
    fy_session *s = fy_session_new(p->draft->m, &sp, e);
    const uint32_t n_vocab = fy_model_hparams(fy_api_session_model(session)->m)->n_vocab;
    return s != NULL ? fy_drafter_new(s, n_vocab, &d, e) : NULL;
}

static fy_speculator *make(const ferry_speculator_params *p, ferry_session *session, fy_err *e)
{
    fy_proposer *list[FY_PROPOSERS_MAX];
    const fy_lookahead_params look = lookahead_of(p);
    const uint32_t n_vocab = fy_model_hparams(fy_api_session_model(session)->m)->n_vocab;
    uint32_t n = 0;
    bool bad = false;
    if (p->method == FERRY_SPEC_AUTO || p->method == FERRY_SPEC_LOOKUP)
        bad |= (list[n++] = fy_lookup_new(2, e)) == NULL;
    if (!bad && p->draft != NULL)
        bad |= (list[n++] = new_drafter(p, session, e)) == NULL;
    if (p->method == FERRY_SPEC_LOOKAHEAD)
        bad |= (list[n++] = fy_lookahead_new(&look, n_vocab, e)) == NULL;
    if (!bad)
        return fy_speculator_new(list, n, n_draft_of(p), p->method == FERRY_SPEC_AUTO, e);
    while (n > 0)
        fy_proposer_free(list[--n]);
    return NULL;
}

static ferry_speculator *new_speculator(const ferry_speculator_params *p, ferry_session *session,
                                        fy_err *e)
{
    if (check(p, fy_api_session_of(session), e) != 0)
        return NULL;
    ferry_speculator *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    const fy_api_scope scope = fy_api_enter(fy_api_session_model(session));
    s->s = make(p, session, e);
    fy_api_leave(&scope);
    if (s->s == NULL) {
        free(s);
        return NULL;
    }
    s->draft = p->draft;
    if (s->draft != NULL)
        fy_api_model_keep(s->draft);
    return s;
}

ferry_status ferry_speculator_new(ferry_session *session, const ferry_speculator_params *params,
                                  ferry_speculator **speculator, ferry_error *error)
{
    fy_err e = {0};
    ferry_speculator_params p = defaults;
    int rc = fy_api_need(speculator, "speculator", &e);
    if (rc == 0)
        *speculator = NULL;
    if (rc == 0 && fy_api_need(session, "session", &e) == 0 &&
        fy_api_params(params, &p, FY_API_UP_TO(ferry_speculator_params, gcap),
                      "ferry_speculator_params", &e) == 0)
        *speculator = new_speculator(&p, session, &e);
    return fy_api_end(rc == 0 && *speculator != NULL ? 0 : -1, &e, error);
}

void ferry_speculator_free(ferry_speculator *speculator)
{
    if (speculator == NULL)
        return;
    fy_speculator_free(speculator->s);
    fy_api_model_release(speculator->draft);
    free(speculator);
}

ferry_status ferry_speculator_begin(ferry_speculator *speculator, const int32_t *ids, size_t n,
                                    ferry_error *error)
{
    fy_err e = {0};
    int rc = -1;
    if (fy_api_need(speculator, "speculator", &e) != 0 || fy_api_need(ids, "ids", &e) != 0)
        rc = -1;
    else if (n > INT32_MAX)
        rc = fy_fail(&e, FY_EFIT, "a text of %zu tokens, expected at most %d", n, INT32_MAX);
    else if (fy_speculator_is_open(speculator->s))
        rc = fy_fail(&e, FY_EARG, "the text before is not settled: call ferry_speculator_settle");
    else
        rc = fy_speculator_begin(speculator->s, ids, (uint32_t)n, &e);
    return fy_api_end(rc, &e, error);
}

ferry_status ferry_speculator_next(ferry_speculator *speculator, ferry_session *session, int32_t id,
                                   int64_t n_more, const float **logits, ferry_error *error)
{
    fy_err e = {0};
    int rc = -1;
    if (fy_api_need(speculator, "speculator", &e) == 0 &&
        fy_api_need(session, "session", &e) == 0 && fy_api_need(logits, "logits", &e) == 0) {
        const fy_eval_sinks sinks = fy_api_session_sinks(session);
        fy_speculator_watch(speculator->s, &sinks);
        rc = fy_speculator_next(speculator->s, fy_api_session_of(session), id,
                                n_more > 0 ? n_more - 1 : n_more, logits, &e);
        fy_speculator_watch(speculator->s, NULL);
    }
    return fy_api_end(rc, &e, error);
}

void ferry_speculator_settle(ferry_speculator *speculator, ferry_session *session)
{
    if (speculator != NULL && session != NULL)
        fy_speculator_settle(speculator->s, fy_api_session_of(session));
}

void ferry_speculator_stats(const ferry_speculator *speculator, uint64_t *n_steps,
                            uint64_t *n_draft, uint64_t *n_accepted)
{
    fy_spec_stats stats[FY_PROPOSERS_MAX + 1];
    uint64_t steps = 0, guesses = 0, right = 0;
    const uint32_t n = speculator != NULL ? fy_speculator_stats(speculator->s, stats) : 0;
    for (uint32_t i = 0; i < n; i++) {
        steps += stats[i].n_steps;
        guesses += stats[i].n_proposed;
        right += stats[i].n_accepted;
    }
    if (n_steps != NULL)
        *n_steps = steps;
    if (n_draft != NULL)
        *n_draft = guesses;
    if (n_accepted != NULL)
        *n_accepted = right;
}
