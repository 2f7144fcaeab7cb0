/* A draft model proposes: the likeliest tokens one after the other, or a tree of those that are
 * nearly as likely, which grows where a path is likeliest (PowerServe's token tree). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/sample.h"
#include "model/session.h"
#include "model/speculate.h"

enum { TOP_MAX = 64 };

typedef struct {
    fy_proposer p;
    fy_session *session; /* owned */
    fy_drafter_params params;
    uint32_t n_vocab;                 /* tokens of the model that is drafted for */
    fy_ids held;                      /* owned: what the session holds */
    fy_proposal was;                  /* the session's tree, node by node */
    int32_t node_of[FY_PROPOSAL_MAX]; /* of `was`: the session's node; -1: not computed */
    uint32_t was_at;                  /* it follows the first so many tokens of the text */
} drafter;

fy_drafter_params fy_drafter_defaults(void)
{
    return (fy_drafter_params){.p_min = 0.4f,
                               .top_k = 15,
                               .temperature = 1.5f,
                               .p_base = 0.9f,
                               .min_prob = 0.2f,
                               .early_stop = true};
}

/* --- the draft's own text -------------------------------------------------------------------- */

static int hold(drafter *d, const int32_t *ids, uint32_t n, const float **logits, fy_err *e)
{
    if (fy_session_eval(d->session, ids, n, NULL, logits, e) != 0)
        return -1;
    if (fy_ids_append(&d->held, ids, n, e) == 0)
        return 0;
    fy_session_rewind(d->session, (uint32_t)d->held.n);
    return -1;
}

/* Nodes of the last tree that became text stay computed. */
static int keep_path(drafter *d, const int32_t *text, uint32_t n, fy_err *e)
{
    int32_t path[FY_PROPOSAL_MAX], at = -1;
    uint32_t n_path = 0;
    const bool same = d->was_at == d->held.n && d->was_at < n &&
                      (d->was_at == 0 || memcmp(text, d->held.id, d->was_at * sizeof *text) == 0);
    for (uint32_t i = d->was_at; same && i + 1 < n && fy_session_tree_n(d->session) > 0; i++) {
        at = fy_proposal_find(&d->was, at, text[i]);
        if (at < 0 || d->node_of[at] < 0)
            break;
        path[n_path++] = d->node_of[at];
    }
    if (n_path > 0 && (fy_ids_append(&d->held, text + d->was_at, n_path, e) != 0 ||
                       fy_session_tree_keep(d->session, path, n_path, e) != 0))
        return -1;
    return 0;
}

/* The logits after the text, in a session that holds it. 1: it has no room for it. */
static int follow(drafter *d, const int32_t *text, uint32_t n, const float **logits, fy_err *e)
{
    if (n > fy_session_n_ctx(d->session))
        return 1;
    if (keep_path(d, text, n, e) != 0)
        return -1;
    uint32_t same = 0;
    while (same + 1 < n && same < d->held.n && d->held.id[same] == text[same])
        same++;
    fy_session_rewind(d->session, same);
    d->held.n = same = fy_session_n_past(d->session); /* less when the draft has a state */
    return hold(d, text + same, n - same, logits, e);
}

/* --- chains ---------------------------------------------------------------------------------- */

static int propose_chain(drafter *d, const float *logits, uint32_t most, fy_proposal *out,
                         fy_err *e)
{
    int32_t at = -1;
    for (;;) {
        float logprob;
        fy_logprob best;
        if (fy_logprobs(logits, d->n_vocab, 0, &logprob, &best, 1, e) != 0)
            return -1;
        if (best.id < 0 || best.logprob < logf(d->params.p_min))
            return 0;
        at = fy_proposal_add(out, at, best.id);
        if (out->n >= most || fy_session_n_past(d->session) == fy_session_n_ctx(d->session))
            return 0;
        if (hold(d, &best.id, 1, &logits, e) != 0)
            return -1;
    }
}

/* --- trees ----------------------------------------------------------------------------------- */

/* Tokens that may become nodes, with the probability of their path. */
typedef struct {
    int32_t id, parent;
    float p;
} candidate;
enum { CANDIDATES_MAX = FY_TREE_MAX * TOP_MAX };
typedef struct {
    candidate *list; /* [CANDIDATES_MAX] */
    uint32_t n;
} candidates;

/* The likeliest is taken out; of equal ones the first. */
static candidate take_best(candidates *c)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < c->n; i++)
        best = c->list[i].p > c->list[best].p ? i : best;
    const candidate taken = c->list[best];
    memmove(c->list + best, c->list + best + 1, (c->n - best - 1) * sizeof *c->list);
    c->n--;
    return taken;
}

/* The children of a node: those that are followed, and those that are leaves. */
static void branch_out(const drafter *d, const float *logits, int32_t node, float p,
                       candidates *main, candidates *leaves)
{
    const fy_drafter_params *o = &d->params;
    fy_candidate best[TOP_MAX];
    float weight[TOP_MAX], sum = 0;
    const uint32_t n = fy_logits_best(logits, d->n_vocab, o->top_k, best);
    for (uint32_t i = 0; i < n; i++)
        sum += weight[i] = expf((best[i].logit - best[0].logit) / o->temperature);
    for (uint32_t i = 0; i < n; i++) {
        candidates *to = i < o->fan_out && weight[i] >= o->p_base * weight[0] ? main : leaves;
        to->list[to->n++] = (candidate){best[i].id, node, p * weight[i] / sum};
    }
}

/* Computes a node of the proposal; 1: there is no room. */
static int expand(drafter *d, const fy_proposal *out, int32_t node, const float **logits, fy_err *e)
{
    const fy_proposal_node *n = &out->node[node];
    const uint32_t n_nodes = fy_session_tree_n(d->session);
    if (n_nodes == FY_TREE_MAX ||
        fy_session_n_past(d->session) + n_nodes == fy_session_n_ctx(d->session))
        return 1;
    const int32_t parent = n->parent < 0 ? -1 : d->node_of[n->parent];
    const uint8_t wanted = 1;
    const fy_batch b = {.ids = &n->id, .wants = &wanted, .n = 1, .parents = &parent};
    if (fy_session_decode(d->session, &b, NULL, logits, e) != 0)
        return -1;
    d->node_of[node] = (int32_t)n_nodes;
    return 0;
}

static int grow_tree(drafter *d, const float *logits, uint32_t most, candidates *main,
                     candidates *leaves, fy_proposal *out, fy_err *e)
{
    branch_out(d, logits, -1, 1, main, leaves);
    while (out->n < most && main->n + leaves->n > 0) {
        const bool followed = main->n > 0;
        const candidate c = take_best(followed ? main : leaves);
        const int32_t node = fy_proposal_add(out, c.parent, c.id);
        d->node_of[node] = -1;
        /* the root is a node of PowerServe's */
        const bool full = d->params.early_stop && out->n + 1 + main->n / 2 >= most + 1;
        if (!followed || full || c.p < d->params.min_prob || out->n == most)
            continue;
        const int rc = expand(d, out, node, &logits, e);
        if (rc < 0)
            return -1;
        if (rc == 0)
            branch_out(d, logits, node, c.p, main, leaves);
    }
    d->was = *out;
    return 0;
}

static int propose_tree(drafter *d, const float *logits, uint32_t most, fy_proposal *out, fy_err *e)
{
    candidates main = {0}, leaves = {0};
    main.list = malloc(CANDIDATES_MAX * sizeof *main.list);
    leaves.list = malloc(CANDIDATES_MAX * sizeof *leaves.list);
    int rc = main.list == NULL || leaves.list == NULL
                 ? fy_nomem(e)
                 : grow_tree(d, logits, most, &main, &leaves, out, e);
    free(main.list);
    free(leaves.list);
    return rc;
}

/* --- the proposer ---------------------------------------------------------------------------- */

static int draft(fy_proposer *p, const int32_t *text, uint32_t n, uint32_t most, fy_proposal *out,
                 fy_err *e)
{
    drafter *d = (drafter *)p;
    const float *logits;
    const int rc = follow(d, text, n, &logits, e);
    d->was.n = 0;
    d->was_at = n;
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    return d->params.fan_out > 0 ? propose_tree(d, logits, most, out, e)
                                 : propose_chain(d, logits, most, out, e);
}

static void free_drafter(fy_proposer *p)
{
    drafter *d = (drafter *)p;
    fy_session_free(d->session);
    fy_ids_release(&d->held);
    free(d);
}

fy_proposer *fy_drafter_new(fy_session *session, uint32_t n_vocab, const fy_drafter_params *p,
                            fy_err *e)
{
    static const fy_proposer_calls chain = {
        .name = "draft", .propose = draft, .free = free_drafter};
    static const fy_proposer_calls tree = {
        .name = "tree", .wide = true, .propose = draft, .free = free_drafter};
    drafter *d = NULL;
    const uint32_t own = session->model->hp.n_vocab;
    if (p->fan_out > 0 && fy_session_check_trees(session, e) != 0)
        fy_ctx(e, "the draft model");
    else if ((d = calloc(1, sizeof *d)) == NULL)
        fy_nomem(e);
    if (d == NULL) {
        fy_session_free(session);
        return NULL;
    }
    d->p.calls = p->fan_out > 0 ? &tree : &chain;
    d->session = session;
    d->params = *p;
    if (d->params.top_k > TOP_MAX || d->params.top_k == 0)
        d->params.top_k = TOP_MAX;
    d->n_vocab = n_vocab < own ? n_vocab : own;
    return &d->p;
}

/* --- vocabularies ---------------------------------------------------------------------------- */

int fy_drafter_check(const fy_vocab *target, const fy_vocab *draft, fy_err *e)
{
    const uint32_t n_target = fy_vocab_n(target), n_draft = fy_vocab_n(draft);
    for (uint32_t i = 0; i < n_target || i < n_draft; i++) {
        const int32_t id = (int32_t)i;
        const bool ours = fy_vocab_is_samplable(target, id), its = fy_vocab_is_samplable(draft, id);
        const fy_span a = fy_vocab_piece(target, id), b = fy_vocab_piece(draft, id);
        if (!ours && !its)
            continue;
        if (ours && its && a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0 &&
            fy_vocab_type(target, id) == fy_vocab_type(draft, id))
            continue;
        char shown[2][FY_QUOTE_BYTES];
        return fy_fail(e, FY_EARG,
                       "its vocabulary is another: token %d is '%s', in the model '%s'; a draft "
                       "needs the model's own tokens (only padding may differ)",
                       id, its ? fy_quote(shown[0], sizeof shown[0], b) : "not there",
                       ours ? fy_quote(shown[1], sizeof shown[1], a) : "not there");
    }
    return 0;
}
