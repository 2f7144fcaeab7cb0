/* How likely a model finds a continuation behind a context: ln p of its tokens, and whether greedy
 * decoding would have said them. The rules are those of lm-evaluation-harness (loglikelihood of its
 * models of Hugging Face), so that results can be compared:
 *
 *   - white space at the end of the context belongs to the continuation;
 *   - both are tokenized as one text, behind BOS where the vocabulary adds one; the first tokens,
 * as many as the context alone has, are the context, the rest is the continuation;
 *   - an empty context is BOS;
 *   - what is longer than the session's context loses its beginning, BOS included.
 *
 * A fy_scorer keeps what the session holds: the tokens that a pair has in common with the one
 * before (the context of several continuations) are computed once. */
#ifndef FY_MODEL_LIKELIHOOD_H
#define FY_MODEL_LIKELIHOOD_H

#include "model/model.h"

typedef struct {
    fy_ids ids; /* context and continuation */
    size_t n_context;
} fy_pair;

/* Replaces what *p held; zero-initialise it. FY_EARG when the continuation has no token, or the
 * context is empty and there is no BOS. */
int fy_pair_encode(const fy_vocab *v, fy_span context, fy_span continuation, fy_pair *p, fy_err *e);
void fy_pair_release(fy_pair *p);

typedef struct {
    double logprob;      /* of the continuation, natural logarithm */
    bool greedy;         /* each of its tokens is the likeliest one, the first of equals */
    bool cut;            /* the beginning of the context was left out */
    uint32_t n_computed; /* tokens that the session did not hold yet */
} fy_likelihood;

typedef struct {
    fy_session *session; /* view; of one sequence, used by nobody else meanwhile */
    uint32_t n_vocab;    /* logits of a row */
    fy_ids held;         /* owned; what the session has computed */
    uint8_t *wants;      /* owned, [n_ctx] */
} fy_scorer;

int fy_scorer_init(fy_scorer *s, fy_session *session, uint32_t n_vocab, fy_err *e);
void fy_scorer_release(fy_scorer *s);
/* FY_EFIT when the continuation alone is longer than the session's context. */
int fy_scorer_score(fy_scorer *s, const fy_pair *p, fy_likelihood *out, fy_err *e);

#endif
