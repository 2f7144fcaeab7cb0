/* How well a model predicts texts: perplexity, distance from a base model, likelihood of
 * continuations (docs/quality.md). */
#ifndef FY_MODEL_TEXT_SCORES_H
#define FY_MODEL_TEXT_SCORES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/job_part.h"
#include "format/kl_base.h"
#include "model/model.h"

/* --- Perplexity: how surprised a model is by a text. The text becomes windows of n_ctx tokens,
 * each computed from an empty cache; -log p of every token that is scored is added up in double:
 * each window alone, then the windows in their order, so that whoever computed a window does not
 * matter.
 * --- */

typedef enum {
    /* The text without special tokens in pieces of n_ctx - 1 tokens, the last partial one left out
     * (unless it is the only one); each after BOS, every position scored. */
    FY_PPL_PIECES,
    /* Each line that is not empty, its end left out, is a text of its own after BOS, every position
     * scored. Longer ones than n_ctx - 1 tokens are cut into several. */
    FY_PPL_LINES,
    /* As llama-perplexity: the text with its special tokens in pieces of n_ctx; the first token of
     * a piece is replaced by BOS if the model asks for one, and the second half is scored. */
    FY_PPL_LLAMA,
} fy_ppl_method;

typedef struct {
    fy_ppl_method method;
    uint32_t n_ctx;     /* at least 2, at most the session's */
    bool compute_last;  /* the last token of a piece, too, which predicts nothing: others watch */
    fy_job_part part;   /* whose windows alone are computed; n 0: all */
    uint64_t done;      /* of those, not the ones before this one */
    fy_session *beside; /* of the same parameters, computes the same tokens; NULL: none */
} fy_ppl_params;

/* What one window adds. */
typedef struct {
    uint64_t n_tokens;       /* scored */
    uint64_t n_words;        /* words that end or begin among them, counted by spaces */
    double nll, nll_squares; /* sums of -log p and of its square */
} fy_ppl_window;

typedef struct {
    uint64_t n_segments, n_done; /* stretches of n_ctx tokens in all, computed so far */
    uint64_t n_tokens, n_words;
    double nll, nll_squares;
    uint64_t n_windows, first, end; /* of the whole text; those of the part are [first, end) */
    fy_ppl_window window;           /* the last one */
} fy_ppl;

void fy_ppl_add(fy_ppl *p, const fy_ppl_window *w); /* the next in order */
/* FY_EARG when nothing was scored. */
int fy_ppl_check(const fy_ppl *p, uint32_t n_ctx, fy_err *e);

/* exp of the mean; NaN when nothing was scored. */
double fy_ppl_value(const fy_ppl *p);
double fy_ppl_per_word(const fy_ppl *p);
/* One standard error of fy_ppl_value. */
double fy_ppl_error(const fy_ppl *p);

/* Sees the number of a window before it is computed, and of its first position that is scored;
 * both count from the beginning of the text, whatever the part. -1 stops. */
typedef int fy_ppl_begin_sink(void *user, uint64_t window, uint64_t row, fy_err *e);
/* Sees the sums after each window (number n_windows - 1); -1 stops. */
typedef int fy_ppl_sink(void *user, const fy_ppl *so_far, fy_err *e);
/* Sees every position that is scored, in the order of the text: the token that follows, its -ln p,
 * and the n_vocab logits, with those of the session beside (NULL: there is none). -1 stops. */
typedef int fy_ppl_row_sink(void *user, int32_t id, double surprise, const float *logits,
                            const float *beside, fy_err *e);

typedef struct {
    fy_ppl_begin_sink *begin; /* NULL: none; the same of the others */
    fy_ppl_sink *piece;
    fy_ppl_row_sink *row;
    void *user;
} fy_ppl_sinks;

/* -ln of the probability that softmax gives to id. */
double fy_surprise(const float *logits, uint32_t n_vocab, int32_t id);

/* The session's cache is used and left empty. FY_EARG when the text has no token to score. A part
 * may have none; it takes as many windows as others (of FY_PPL_LINES as many bytes), one run of
 * them. */
int fy_perplexity(fy_session *s, const fy_vocab *v, uint32_t n_vocab, fy_span text,
                  const fy_ppl_params *p, const fy_ppl_sinks *sinks, fy_ppl *out, fy_err *e);

/* --- How far a model's predictions are from those of a base, position by position
 * (docs/quality.md): Kullback-Leibler divergence KL(base || model) in nats, agreement of the
 * likeliest token, change of the probability of the token that follows, perplexities of both.
 *
 * Zero-initialise a fy_divergence, add every position, end each window, take the report, release.
 * Sums are of doubles, of each window alone and then of the windows in order; percentiles
 * interpolate between neighbours, as numpy's do. Four bytes are kept for a position. Source of the
 * measures: llama-perplexity --kl-divergence. --- */

typedef struct {
    double sum, squares;
} fy_sums;

typedef struct {
    double mean, error; /* one standard error; NaN of one value */
} fy_estimate;
fy_estimate fy_sums_estimate(const fy_sums *s, uint64_t n);

typedef struct {
    uint64_t n_same_top;
    fy_sums kld, delta_p, nll, nll_base, ln_ratio;
} fy_divergence_sums;

typedef struct {
    size_t n, n_before;             /* positions; those of whole windows */
    fy_divergence_sums all, window; /* of whole windows; of the one that is not */
    float *kld_of;                  /* owned, [n] */
    size_t cap;
} fy_divergence;

/* next, below: a row of the base. surprise: -ln p of the same token by the model's logits
 * (fy_surprise). FY_EFORMAT when these are not finite. */
int fy_divergence_add(fy_divergence *d, const fy_kl_token *next, const float *below,
                      const float *logits, double surprise, uint32_t n_vocab, fy_err *e);
void fy_divergence_end_window(fy_divergence *d);
/* A whole window that was computed before: its sums, and kld_of its n positions. */
int fy_divergence_add_window(fy_divergence *d, const fy_divergence_sums *sums, const float *kld_of,
                             size_t n, fy_err *e);
void fy_divergence_release(fy_divergence *d);

enum {
    FY_KLD_MEDIAN,
    FY_KLD_90,
    FY_KLD_95,
    FY_KLD_99,
    FY_KLD_99_9,
    FY_KLD_MAX,
    FY_KLD_PERCENTILES
};

typedef struct {
    uint64_t n;
    fy_estimate kld, same_top, delta_p;
    double kld_at[FY_KLD_PERCENTILES];
    double delta_p_rms;
    fy_estimate ppl, ppl_base;
    fy_estimate ln_ratio; /* ln (ppl / ppl_base): of the same tokens, so the error is small */
} fy_divergence_report;

/* Of at least one position. Sorts what is kept: no position may be added after it. */
void fy_divergence_end(fy_divergence *d, fy_divergence_report *out);

/* --- How likely a model finds a continuation after a context: ln p of its tokens, and whether
 * greedy decoding would have produced them. The rules are those of lm-evaluation-harness
 * (loglikelihood of its models of Hugging Face), so that results can be compared:
 *
 *   - white space at the end of the context belongs to the continuation;
 *   - both are tokenized as one text, after BOS where the vocabulary adds one; the first tokens,
 * as many as the context alone has, are the context, the rest is the continuation;
 *   - an empty context is BOS;
 *   - what is longer than the session's context loses its beginning, BOS included.
 *
 * A fy_scorer keeps what the session holds: the tokens that a pair has in common with the one
 * before (the context of several continuations) are computed once. --- */

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
