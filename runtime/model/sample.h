/* Choosing the next token from logits.
 *
 * Before anything else: rows without a token, padding and forbidden ids are taken out, and the
 * logit bias is added. Then the steps of `order` run one after the other, each on what the ones
 * before it left (the penalties look at the last tokens, fy_sampler_accept); then one draw from a
 * seeded generator (xoshiro256**, seeded by splitmix64). temperature 0 is greedy: the largest logit
 * after bias and, when they are in the order, penalties; lowest id on ties. All arithmetic is our
 * own or exact: same logits, params, window and seed give the same token on every machine.
 *
 * A grammar's mask comes before all of that: what it does not allow is taken out first. Where a
 * bias of minus infinity, or the wish never to end, forbids all that it allows, the mask wins. */
#ifndef FY_MODEL_SAMPLE_H
#define FY_MODEL_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "grammar/grammar.h"
#include "model/vocab/vocab.h"

#define FY_SAMPLE_WINDOW_MAX (1 << 20) /* tokens of a counted window */

/* A step of the chain; its letter and name in --samplers. */
typedef enum {
    FY_SAMPLE_PENALTIES = 0, /* e penalties: repeat, presence, frequency */
    FY_SAMPLE_TOP_K,         /* k top_k */
    FY_SAMPLE_TYPICAL,       /* y typ_p */
    FY_SAMPLE_TOP_P,         /* p top_p */
    FY_SAMPLE_MIN_P,         /* m min_p */
    FY_SAMPLE_TEMPERATURE,   /* t temperature */
    FY_SAMPLE_STEPS
} fy_sample_step;

typedef struct {
    int32_t id;
    float bias; /* added to the logit; -INFINITY: never chosen */
} fy_logit_bias;

typedef struct {
    float temperature;         /* 0: greedy */
    int32_t top_k;             /* 0: off */
    float top_p;               /* 1: off */
    float min_p;               /* 0: off */
    float typical_p;           /* 1: off */
    float repeat_penalty;      /* 1: off; divides positive logits, multiplies negative ones */
    float presence_penalty;    /* 0: off; subtracted once from a token in the window */
    float frequency_penalty;   /* 0: off; subtracted per occurrence in the window */
    int32_t repeat_last_n;     /* tokens in the window, at most FY_SAMPLE_WINDOW_MAX; 0: no
                                * penalties; -1: everything accepted */
    const fy_logit_bias *bias; /* view, for the sampler's life */
    size_t n_bias;
    uint8_t order[FY_SAMPLE_STEPS]; /* of fy_sample_step, each at most once */
    uint8_t n_order;
    uint64_t seed;
} fy_sampler_params;

/* What llama.cpp's users expect: 0.8, 40, 0.95, 0.05; typical and penalties off, window 64; order
 * penalties, top_k, typ_p, top_p, min_p, temperature; seed 0. */
fy_sampler_params fy_sampler_defaults(void);
/* "top_k;top_p;temperature" (names as above, `-` as `_`, temp for temperature) or letters "kpt".
 * An unknown or doubled step is FY_EARG and lists the known ones. */
int fy_sampler_parse_order(const char *text, fy_sampler_params *p, fy_err *e);
void fy_sampler_order_text(const fy_sampler_params *p, fy_str *out); /* appends the names, by ';' */

typedef struct fy_sampler fy_sampler;

/* All scratch is taken here (n_vocab candidates); nothing below but fy_logprobs allocates. vocab
 * may be NULL: then every id below n_vocab may be chosen. Parameters of steps that are not in the
 * order are not looked at, so zeroed parameters are greedy. */
fy_sampler *fy_sampler_new(const fy_sampler_params *p, uint32_t n_vocab, const fy_vocab *vocab,
                           fy_err *e);
void fy_sampler_free(fy_sampler *s); /* NULL is fine */
/* Tells the penalties of a token that stands in the text now, prompt or generated. FY_EARG: no id
 * below n_vocab. */
int fy_sampler_accept(fy_sampler *s, int32_t id, fy_err *e);
/* Empties the window (a new text); the generator continues. */
void fy_sampler_reset(fy_sampler *s);
/* Begins the generator anew with this seed. */
void fy_sampler_reseed(fy_sampler *s, uint64_t seed);
/* ban_eog: never end (--ignore-eos). Returns an id; -1 with *e when every logit is NaN or banned.
 * Does not accept it. */
int32_t fy_sampler_next(fy_sampler *s, const float *logits, bool ban_eog, fy_err *e);
/* The same among the ids that the mask allows. The only one of a mask is taken without a draw. */
int32_t fy_sampler_next_masked(fy_sampler *s, const float *logits, const fy_mask *mask,
                               bool ban_eog, fy_err *e);

typedef struct {
    int32_t id;
    float logprob; /* natural logarithm of the model's own probability: before bias and sampling */
} fy_logprob;
/* The probability that id had in the last fy_sampler_next...: after all steps, among what they
 * left. top: the n_top likeliest, each with its probability (not its logarithm) in `logprob`, best
 * first; where there are fewer that could be drawn, id is -1. */
float fy_sampler_last(fy_sampler *s, int32_t id, fy_logprob *top, uint32_t n_top);

typedef struct {
    float logit;
    int32_t id;
} fy_candidate;
/* The m largest logits, largest first, on ties the lower id first; returns how many there are. NaN
 * and -INFINITY are none. */
uint32_t fy_logits_best(const float *logits, uint32_t n, uint32_t m, fy_candidate *out);

/* The log probability of id, and the n_top likeliest tokens, best first; where there are fewer, id
 * is -1. Takes scratch for n_top tokens. */
int fy_logprobs(const float *logits, uint32_t n_vocab, int32_t id, float *logprob, fy_logprob *top,
                uint32_t n_top, fy_err *e);

#endif
