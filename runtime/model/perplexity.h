/* Perplexity: how surprised a model is by a text. The text becomes pieces of n_ctx tokens, each
 * computed from an empty cache; -log p of every token that is scored is added up in double. */
#ifndef FY_MODEL_PERPLEXITY_H
#define FY_MODEL_PERPLEXITY_H

#include "model/model.h"

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
    uint32_t n_ctx;    /* at least 2, at most the session's */
    bool compute_last; /* the last token of a piece, too, which predicts nothing: others watch */
} fy_ppl_params;

typedef struct {
    uint64_t n_pieces, n_done; /* pieces in all, computed so far */
    uint64_t n_tokens;         /* scored */
    uint64_t n_words;          /* words that end or begin among them, counted by blanks */
    double nll, nll_squares;   /* sums of -log p and of its square */
} fy_ppl;

/* exp of the mean; NaN when nothing was scored. */
double fy_ppl_value(const fy_ppl *p);
double fy_ppl_per_word(const fy_ppl *p);
/* One standard error of fy_ppl_value. */
double fy_ppl_error(const fy_ppl *p);

/* Sees the sums after each piece; -1 stops. */
typedef int fy_ppl_sink(void *user, const fy_ppl *so_far, fy_err *e);
/* Sees every position that is scored, in the order of the text: the token that follows, its -ln p,
 * and the n_vocab logits. -1 stops. */
typedef int fy_ppl_row_sink(void *user, int32_t id, double surprise, const float *logits,
                            fy_err *e);

typedef struct {
    fy_ppl_sink *piece;   /* NULL: none */
    fy_ppl_row_sink *row; /* NULL: none */
    void *user;
} fy_ppl_sinks;

/* -ln of the probability that softmax gives to id. */
double fy_surprise(const float *logits, uint32_t n_vocab, int32_t id);

/* The session's cache is used and left empty. FY_EARG when the text has no token to score. */
int fy_perplexity(fy_session *s, const fy_vocab *v, uint32_t n_vocab, fy_span text,
                  const fy_ppl_params *p, const fy_ppl_sinks *sinks, fy_ppl *out, fy_err *e);

#endif
