/* Speculation: several tokens of a step instead of one, and never another text.
 *
 * A proposer guesses what may follow a text. One step computes the text's last token together with
 * the guesses, which form a tree: a chain of tokens, or branches where several may follow. The
 * caller draws the next token from the logits after the last one, as ever; where that is a guess,
 * the logits after it are there already. So the sampler sees the same logits in the same order as
 * without speculation, and what is proposed, by whom and how much changes only the time that a text
 * takes.
 *
 * A fy_speculator does this for sequence 0 of a session. Where a step of several tokens
 * is as expensive as the tokens one by one it would cost time: with `adapt` it measures what steps
 * cost and how many guesses are right, and proposes only what pays. */
#ifndef FY_MODEL_SPECULATE_H
#define FY_MODEL_SPECULATE_H

#include "backend/backend_cpu.h"
#include "model/model.h"

/* --- proposals ------------------------------------------------------------------------------- */

enum { FY_PROPOSAL_MAX = FY_TREE_MAX - 1 }; /* nodes of a proposal */

typedef struct {
    int32_t id;
    int32_t parent; /* the node that it follows, an earlier one; -1: the text's last token */
    bool scout;     /* computed for what the proposer learns of it, never part of the text */
} fy_proposal_node;

typedef struct {
    fy_proposal_node node[FY_PROPOSAL_MAX];
    uint32_t n;
} fy_proposal;

/* The node of this token after `parent`, added where it is not there yet; -1: there is no room. */
int32_t fy_proposal_add(fy_proposal *p, int32_t parent, int32_t id);
/* The node that may become text; -1: none. */
int32_t fy_proposal_find(const fy_proposal *p, int32_t parent, int32_t id);
bool fy_proposal_is_chain(const fy_proposal *p); /* each follows the one before it */

/* --- proposers ------------------------------------------------------------------------------- */

typedef struct fy_proposer fy_proposer;
typedef struct {
    const char *name;
    bool wide; /* its proposals are branches of a number of nodes, not a chain of any length */
    /* Fills *out, which is empty, with at most `most` nodes that may follow text [n], n > 0. */
    int (*propose)(fy_proposer *p, const int32_t *text, uint32_t n, uint32_t most, fy_proposal *out,
                   fy_err *e);
    /* Of the step that followed: the logits of the text's last token, then of each node. NULL: does
     * not look at them. */
    void (*learn)(fy_proposer *p, const fy_proposal *was, const float *logits, uint32_t n_vocab);
    void (*begin)(fy_proposer *p, const int32_t *text, uint32_t n); /* another text; may be NULL */
    void (*free)(fy_proposer *p);
} fy_proposer_calls;
struct fy_proposer {
    const fy_proposer_calls *calls;
};

void fy_proposer_free(fy_proposer *p); /* NULL is fine */

/* Prompt lookup: where the end of the text, as much of it as possible and at least `least` tokens,
 * stood in the text before, what followed there. */
fy_proposer *fy_lookup_new(uint32_t least, fy_err *e);

/* What a table says: the ids of a text that is known, each one right with this probability,
 * otherwise another. For measuring what a draft of that quality would bring, and for tests. */
fy_proposer *fy_known_new(const int32_t *ids, uint32_t n, double right, uint32_t n_vocab,
                          uint64_t seed, fy_err *e);

/* A small model of the same vocabulary, whose likeliest tokens are proposed. */
typedef struct {
    float p_min; /* of a chain: it ends before a token less likely than this */
    /* Of a tree, PowerServe's draft sampler and token tree. fan_out 0: a chain. */
    uint32_t fan_out;  /* tokens that are followed after each, at most */
    uint32_t top_k;    /* of so many, the rest as leaves where nodes are left over */
    float temperature; /* of their probabilities */
    float p_base;      /* as likely as this times the likeliest, at least */
    float min_prob;    /* a branch less likely is not followed */
    bool early_stop;   /* nothing is followed that could not become a node */
} fy_drafter_params;
fy_drafter_params fy_drafter_defaults(void); /* 0.4; fan_out 0, 15, 1.5, 0.9, 0.2, true */
/* session: of the draft model, for the proposer alone, taken. */
fy_proposer *fy_drafter_new(fy_session *session, uint32_t n_vocab, const fy_drafter_params *p,
                            fy_err *e);
/* FY_EARG, and which token differs, where the vocabularies are not the same. Tokens that are never
 * sampled (padding) may differ in text and number. */
int fy_drafter_check(const fy_vocab *target, const fy_vocab *draft, fy_err *e);

/* Lookahead decoding: no second model either, but a step of many tokens. */
typedef struct {
    uint32_t ngram, window, gcap; /* ExecuTorch's names: N, W, G; usually 5, 8, 8 */
} fy_lookahead_params;
uint32_t fy_lookahead_nodes(const fy_lookahead_params *o); /* of a proposal, at most */
/* FY_EARG where that is more than FY_PROPOSAL_MAX. */
fy_proposer *fy_lookahead_new(const fy_lookahead_params *o, uint32_t n_vocab, fy_err *e);

/* --- when it pays ---------------------------------------------------------------------------- */

enum { FY_GAUGE_STEP_MAX = FY_TREE_MAX }; /* tokens of a step whose time is measured */

/* What steps cost and proposals bring, of one speculator: the times of steps by their number of
 * tokens, for each proposer how many guesses are right, and what a guess costs. And what may be
 * lost by trying: as much as was won before, and a small part of the time of a text without
 * guesses. */
typedef struct {
    double step_s[FY_GAUGE_STEP_MAX + 1]; /* 0: not measured yet */
    double spare;                         /* what may be lost, in steps of one token */
    bool flat; /* larger steps are taken for as cheap as those measured: graphs of an NPU */
} fy_step_costs;
typedef struct {
    double tried, right; /* guesses, recent ones count more */
    double steps;        /* in which there were any */
    double guess_s;      /* a guess */
    uint32_t idle, wait; /* steps without a proposal, and how many until the next trials */
    uint32_t trials;
} fy_gauge;

void fy_step_costs_begin(fy_step_costs *c, bool flat);
void fy_step_costs_add(fy_step_costs *c, uint32_t n_tokens, double seconds);
/* A step of n_tokens whose guesses took propose_s made n_made tokens of the text. */
void fy_step_costs_count(fy_step_costs *c, uint32_t n_tokens, double propose_s, uint32_t n_made);
double fy_step_costs_of(const fy_step_costs *c, uint32_t n_tokens); /* 0: nothing is known */
void fy_gauge_begin(fy_gauge *g);
/* propose_s 0: not measured. */
void fy_gauge_add(fy_gauge *g, uint32_t n_proposed, uint32_t n_right, double propose_s);
/* How many guesses in a row are worth their step, at most `most`. */
uint32_t fy_gauge_choose(fy_gauge *g, const fy_step_costs *c, uint32_t most);
/* Is a wide proposal of n nodes worth it? */
bool fy_gauge_pays(fy_gauge *g, const fy_step_costs *c, uint32_t n);

/* --- a speculator ---------------------------------------------------------------------------- */

enum { FY_PROPOSERS_MAX = 3 };

typedef struct {
    const char *name;
    uint64_t n_steps, n_proposed, n_accepted; /* with its proposals */
    uint64_t n_trees;                         /* steps of them that were no chains */
    double propose_s, step_s;
} fy_spec_stats;

typedef struct fy_speculator fy_speculator;

/* Takes the proposers, of which the first one with a guess proposes. draft_max: guesses of a step.
 */
fy_speculator *fy_speculator_new(fy_proposer **proposers, uint32_t n, uint32_t draft_max,
                                 bool adapt, fy_err *e);
void fy_speculator_free(fy_speculator *s); /* NULL is fine */

/* A new text: the session holds text [n] but perhaps for its end. */
int fy_speculator_begin(fy_speculator *s, const int32_t *text, uint32_t n, fy_err *e);
/* The logits after `id`, which continues the text: as fy_session_eval of it. most: guesses that can
 * be of use, -1: any number. The session holds more than the text meanwhile. */
int fy_speculator_next(fy_speculator *s, fy_session *session, int32_t id, int64_t most,
                       const float **logits, fy_err *e);
/* Of the steps that follow, without `logits`; NULL: none. View. */
void fy_speculator_watch(fy_speculator *s, const fy_eval_sinks *sinks);
bool fy_speculator_is_open(const fy_speculator *s); /* the session may hold more than the text */
/* The session holds the text again, and nothing more. */
void fy_speculator_settle(fy_speculator *s, fy_session *session);

/* For a caller that runs the steps itself: guesses [*n_out], at most `most`, that may follow text
 * [n] one after the other; none where the proposer has a tree. Then what became of them, in a step
 * of so many tokens; step_s 0: it says nothing of the cost. */
int fy_speculator_guess(fy_speculator *s, const int32_t *text, uint32_t n, uint32_t most,
                        int32_t *out, uint32_t *n_out, fy_err *e);
void fy_speculator_result(fy_speculator *s, uint32_t n_tokens, double step_s, uint32_t n_right);

/* Since it was made: of each proposer, then of steps without a proposal; returns how many. */
uint32_t fy_speculator_stats(const fy_speculator *s, fy_spec_stats out[FY_PROPOSERS_MAX + 1]);

#endif
