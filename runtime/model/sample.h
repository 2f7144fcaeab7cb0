/* Choosing the next token from logits. temperature 0 is greedy: the largest logit, lowest id on
 * ties. Otherwise the chain is top-k, top-p, min-p, temperature, then one draw from a seeded
 * generator (splitmix64/xoshiro256**): same logits, options and seed give the same tokens
 * everywhere. Ids that must not be sampled are never chosen. */
#ifndef FY_MODEL_SAMPLE_H
#define FY_MODEL_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/vocab/vocab.h"

typedef struct {
    float temperature; /* 0: greedy */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    uint64_t seed;
} fy_sampler_params;

typedef struct fy_sampler fy_sampler;

/* Scratch for n_vocab candidates is taken here; fy_sampler_next allocates nothing. vocab may be
 * NULL. */
fy_sampler *fy_sampler_new(const fy_sampler_params *p, uint32_t n_vocab, const fy_vocab *vocab,
                           fy_err *e);
void fy_sampler_free(fy_sampler *s);
/* ban_eog: never end (--ignore-eos). Returns an id; -1 with *e when every logit is NaN or banned.
 */
int32_t fy_sampler_next(fy_sampler *s, const float *logits, bool ban_eog, fy_err *e);

#endif
