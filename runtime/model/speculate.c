/* Proposals, and the speculator: which step computes what, what of it became text, and what that
 * cost. */
#include "model/speculate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "model/session.h"

/* --- proposals ------------------------------------------------------------------------------- */

int32_t fy_proposal_find(const fy_proposal *p, int32_t parent, int32_t id)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const fy_proposal_node *n = &p->node[i];
        if (n->parent == parent && n->id == id && !n->scout)
            return (int32_t)i;
    }
    return -1;
}

int32_t fy_proposal_add(fy_proposal *p, int32_t parent, int32_t id)
{
    const int32_t same = fy_proposal_find(p, parent, id);
    if (same >= 0)
        return same;
    if (p->n == FY_PROPOSAL_MAX)
        return -1;
    p->node[p->n] = (fy_proposal_node){.id = id, .parent = parent};
    return (int32_t)p->n++;
}

bool fy_proposal_is_chain(const fy_proposal *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->node[i].parent != (int32_t)i - 1 || p->node[i].scout)
            return false;
    }
    return true;
}

void fy_proposer_free(fy_proposer *p)
{
    if (p != NULL)
        p->calls->free(p);
}

/* --- a speculator ---------------------------------------------------------------------------- */

typedef struct {
    fy_proposer *proposer; /* owned; NULL: of steps without a proposal */
    fy_gauge gauge;
    fy_spec_stats stats;
} method;

struct fy_speculator {
    method methods[FY_PROPOSERS_MAX + 1]; /* the last is that of no proposal */
    uint32_t n_methods;                   /* proposers */
    uint32_t draft_max;
    bool adapt;
    fy_step_costs costs;
    const fy_eval_sinks *sinks; /* view; NULL: none */
    fy_ids text;                /* owned: all that was given, proposals not */

    /* The step whose tokens are being drawn; n 0: none. */
    fy_proposal proposal;
    method *by, *before; /* of this step, of the last one */
    uint32_t n_tokens;   /* of this step; 1 where its time says nothing */
    double propose_s;
    bool open;
    int32_t at; /* the last node that became text; -1: the token before them */
    int32_t path[FY_PROPOSAL_MAX + 1]; /* the nodes of the session's tree that became text */
    uint32_t n_accepted;               /* guesses of them */
    const float *rows; /* view of the session: logits of the token and of each node */
    uint32_t n_vocab;
};

fy_speculator *fy_speculator_new(fy_proposer **proposers, uint32_t n, uint32_t draft_max,
                                 bool adapt, fy_err *e)
{
    assert(n >= 1 && n <= FY_PROPOSERS_MAX);
    fy_speculator *s = calloc(1, sizeof *s);
    for (uint32_t i = 0; i < n; i++) {
        if (s == NULL) {
            fy_proposer_free(proposers[i]);
            continue;
        }
        s->methods[i].proposer = proposers[i];
        s->methods[i].stats.name = proposers[i]->calls->name;
        fy_gauge_begin(&s->methods[i].gauge);
    }
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    s->n_methods = n;
    s->methods[n].stats.name = "none";
    s->draft_max = draft_max < FY_PROPOSAL_MAX ? draft_max : FY_PROPOSAL_MAX;
    s->adapt = adapt;
    fy_step_costs_begin(&s->costs, false);
    return s;
}

void fy_speculator_free(fy_speculator *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->n_methods; i++)
        fy_proposer_free(s->methods[i].proposer);
    fy_ids_release(&s->text);
    free(s);
}

int fy_speculator_begin(fy_speculator *s, const int32_t *text, uint32_t n, fy_err *e)
{
    assert(!s->open);
    s->text.n = 0;
    s->before = NULL;
    for (uint32_t i = 0; i < s->n_methods; i++) {
        fy_proposer *p = s->methods[i].proposer;
        if (p->calls->begin != NULL)
            p->calls->begin(p, text, n);
    }
    return fy_ids_append(&s->text, text, n, e);
}

/* --- a step ---------------------------------------------------------------------------------- */

/* How many nodes a proposer may make, of the `room` there is for nodes and `most` tokens that come
 * after. */
static uint32_t allowed(fy_speculator *s, method *m, uint32_t room, int64_t most)
{
    if (most == 0)
        return 0;
    if (m->proposer->calls->wide)
        return !s->adapt || fy_gauge_pays(&m->gauge, &s->costs, room) ? room : 0;
    const uint32_t n = most > 0 && most < room ? (uint32_t)most : room;
    return s->adapt ? fy_gauge_choose(&m->gauge, &s->costs, n) : n;
}

/* The first proposer that has something to say, and is worth it. */
static int propose(fy_speculator *s, const int32_t *text, uint32_t n_text, uint32_t room,
                   int64_t most, fy_err *e)
{
    s->proposal.n = 0;
    s->by = &s->methods[s->n_methods];
    s->propose_s = 0;
    for (uint32_t i = 0; i < s->n_methods && s->proposal.n == 0; i++) {
        method *m = &s->methods[i];
        fy_proposer *p = m->proposer;
        const uint32_t n = allowed(s, m, room, most);
        if (n == 0)
            continue;
        const double begin_s = fy_now_s();
        if (p->calls->propose(p, text, n_text, n, &s->proposal, e) != 0)
            return fy_ctx(e, "%s", p->calls->name);
        s->propose_s += fy_now_s() - begin_s;
        if (s->proposal.n > 0)
            s->by = m;
    }
    return 0;
}

/* Nodes that the model does not know end the branch that they are of. */
static void leave_out_unknown(fy_proposal *p, uint32_t n_vocab)
{
    int32_t to[FY_PROPOSAL_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        fy_proposal_node node = p->node[i];
        const bool known = node.id >= 0 && (uint32_t)node.id < n_vocab &&
                           (node.parent < 0 || to[node.parent] >= 0);
        to[i] = known ? (int32_t)n : -1;
        if (!known)
            continue;
        node.parent = node.parent < 0 ? -1 : to[node.parent];
        p->node[n++] = node;
    }
    p->n = n;
}

static void count_step(fy_speculator *s, double step_s)
{
    fy_spec_stats *stats = &s->by->stats;
    stats->n_steps++;
    stats->n_trees += !fy_proposal_is_chain(&s->proposal);
    stats->n_proposed += s->proposal.n;
    stats->propose_s += s->propose_s;
    stats->step_s += step_s;
}

static void count_right(fy_speculator *s, uint32_t n_right)
{
    s->by->stats.n_accepted += n_right;
    fy_step_costs_count(&s->costs, s->n_tokens, s->propose_s, n_right + 1);
    if (s->by->proposer != NULL)
        fy_gauge_add(&s->by->gauge, s->proposal.n, n_right,
                     s->before == s->by ? s->propose_s : 0); /* else it had to catch up */
    s->before = s->by;
}

/* A model with a state has taken the whole last step back: what became text of it is computed with
 * this one. */
static int compute(fy_speculator *s, fy_session *session, fy_err *e)
{
    enum { MOST = 2 * FY_PROPOSAL_MAX + 2 };
    int32_t ids[MOST], parents[MOST];
    uint8_t wants[MOST] = {0};
    const uint32_t again = (uint32_t)s->text.n - 1 - fy_session_n_past(session);
    const uint32_t n = again + s->proposal.n + 1;
    if (n > MOST)
        return fy_fail(e, FY_EARG, "%u tokens of the text are not computed", again);
    memcpy(ids, s->text.id + fy_session_n_past(session), (again + 1) * sizeof *ids);
    parents[0] = -1;
    wants[again] = 1;
    for (uint32_t i = again + 1; i < n; i++) {
        const fy_proposal_node *node = &s->proposal.node[i - again - 1];
        ids[i] = node->id;
        parents[i] = node->parent + 1; /* of trees, whose session has lost nothing */
        wants[i] = 1;
    }
    fy_batch b = {.ids = ids, .wants = wants, .n = n};
    if (!fy_proposal_is_chain(&s->proposal))
        b.parents = parents;
    const double begin_s = fy_now_s();
    if (fy_session_decode(session, &b, s->sinks, &s->rows, e) != 0)
        return -1;
    const double took_s = fy_now_s() - begin_s;
    fy_step_costs_add(&s->costs, n, took_s);
    s->n_tokens = n;
    count_step(s, took_s);
    return 0;
}

bool fy_speculator_is_open(const fy_speculator *s)
{
    return s->open;
}

void fy_speculator_watch(fy_speculator *s, const fy_eval_sinks *sinks)
{
    s->sinks = sinks;
}

void fy_speculator_settle(fy_speculator *s, fy_session *session)
{
    if (!s->open)
        return;
    if (fy_session_tree_n(session) > 0)
        fy_session_tree_keep(session, s->path, s->n_accepted + 1, NULL); /* it is a path */
    else
        fy_session_rewind(session, (uint32_t)s->text.n);
    count_right(s, s->n_accepted);
    s->open = false;
}

/* How many nodes there is room for. */
static uint32_t room_of(const fy_speculator *s, const fy_session *session)
{
    const uint32_t n_past = fy_session_n_past(session), n_ctx = fy_session_n_ctx(session);
    const uint32_t again = (uint32_t)s->text.n - 1 - n_past; /* 0, but for models with a state */
    const uint32_t used = n_past + again + 1;
    uint32_t room = n_ctx > used ? n_ctx - used : 0;
    room = room < s->draft_max ? room : s->draft_max;
    if (room + again > fy_session_n_batch(session) - 1)
        room =
            fy_session_n_batch(session) - 1 > again ? fy_session_n_batch(session) - 1 - again : 0;
    if (room > session->logit_rows - 1)
        room = session->logit_rows - 1;
    return room;
}

int fy_speculator_next(fy_speculator *s, fy_session *session, int32_t id, int64_t most,
                       const float **logits, fy_err *e)
{
    const uint32_t n_vocab = session->model->hp.n_vocab;
    const int32_t child = s->open ? fy_proposal_find(&s->proposal, s->at, id) : -1;
    if (child < 0)
        fy_speculator_settle(s, session);
    if (fy_ids_push(&s->text, id, e) != 0)
        return -1;
    if (child >= 0) {
        s->at = child;
        s->path[++s->n_accepted] = child + 1;
        *logits = s->rows + (size_t)(child + 1) * n_vocab;
        return 0;
    }
    s->costs.flat = fy_session_on_npu(session);
    int rc = propose(s, s->text.id, (uint32_t)s->text.n, room_of(s, session), most, e);
    if (rc == 0) {
        leave_out_unknown(&s->proposal, n_vocab);
        rc = compute(s, session, e);
    }
    if (rc != 0) {
        s->text.n--;
        return -1;
    }
    fy_proposer *p = s->by->proposer;
    if (p != NULL && p->calls->learn != NULL)
        p->calls->learn(p, &s->proposal, s->rows, n_vocab);
    s->open = true;
    s->at = -1;
    s->path[0] = 0;
    s->n_accepted = 0;
    *logits = s->rows;
    return 0;
}

int fy_speculator_guess(fy_speculator *s, const int32_t *text, uint32_t n, uint32_t most,
                        int32_t *out, uint32_t *n_out, fy_err *e)
{
    *n_out = 0;
    most = most < s->draft_max ? most : s->draft_max;
    if (propose(s, text, n, most, most, e) != 0) {
        s->proposal.n = 0;
        return -1;
    }
    if (!fy_proposal_is_chain(&s->proposal))
        s->proposal.n = 0;
    for (; *n_out < s->proposal.n; ++*n_out)
        out[*n_out] = s->proposal.node[*n_out].id;
    return 0;
}

void fy_speculator_result(fy_speculator *s, uint32_t n_tokens, double step_s, uint32_t n_right)
{
    s->n_tokens = step_s > 0 ? n_tokens : 1;
    if (step_s > 0)
        fy_step_costs_add(&s->costs, n_tokens, step_s);
    count_step(s, step_s);
    count_right(s, n_right);
}

uint32_t fy_speculator_stats(const fy_speculator *s, fy_spec_stats out[FY_PROPOSERS_MAX + 1])
{
    for (uint32_t i = 0; i <= s->n_methods; i++)
        out[i] = s->methods[i].stats;
    return s->n_methods + 1;
}
