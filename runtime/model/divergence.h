/* How far a model's predictions are from those of a base, position by position (docs/quality.md):
 * Kullback-Leibler divergence KL(base || model) in nats, agreement of the likeliest token, change
 * of the probability of the token that follows, perplexities of both.
 *
 * Zero-initialise a fy_divergence, add every position, take the report, release. Sums are of
 * doubles in the order of the positions; percentiles interpolate between neighbours, as numpy's do.
 * Four bytes are kept for a position. Source of the measures: llama-perplexity --kl-divergence. */
#ifndef FY_MODEL_DIVERGENCE_H
#define FY_MODEL_DIVERGENCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/kl_base.h"

typedef struct {
    double sum, squares;
} fy_sums;

typedef struct {
    double mean, error; /* one standard error; NaN of one value */
} fy_estimate;
fy_estimate fy_sums_estimate(const fy_sums *s, uint64_t n);

typedef struct {
    uint64_t n, n_same_top;
    fy_sums kld, delta_p, nll, nll_base, ln_ratio;
    float *kld_of; /* owned, [n] */
    size_t cap;
} fy_divergence;

/* next, below: a row of the base. surprise: -ln p of the same token by the model's logits
 * (fy_surprise). FY_EFORMAT when these are not finite. */
int fy_divergence_add(fy_divergence *d, const fy_kl_token *next, const float *below,
                      const float *logits, double surprise, uint32_t n_vocab, fy_err *e);
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

/* Of at least one position. Sorts what is kept: positions may not be added behind it. */
void fy_divergence_end(fy_divergence *d, fy_divergence_report *out);

#endif
