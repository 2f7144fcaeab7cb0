#include "model/divergence.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/arena.h"
#include "model/sample_math.h"

static void add(fy_sums *s, double v)
{
    s->sum += v;
    s->squares += v * v;
}

/* KL(base || model): sum of p (ln p - ln q). */
static double divergence(const float *below, const float *logits, double ln_q_offset,
                         uint32_t n_vocab)
{
    double z = 0, sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        const double p = fy_exp_neg(-(double)below[i]);
        z += p;
        sum += p * (-(double)below[i] - ((double)logits[i] + ln_q_offset));
    }
    return sum / z - log(z);
}

static bool same_top(const float *below, const float *logits, uint32_t n_vocab)
{
    uint32_t base = 0, top = 0;
    while (base + 1 < n_vocab && below[base] > 0)
        base++;
    for (uint32_t i = 1; i < n_vocab; i++)
        top = logits[i] > logits[top] ? i : top;
    return base == top;
}

int fy_divergence_add(fy_divergence *d, const fy_kl_token *next, const float *below,
                      const float *logits, double surprise, uint32_t n_vocab, fy_err *e)
{
    /* ln q_i = logit_i - logit_next - surprise */
    const double kld = divergence(below, logits, -(double)logits[next->id] - surprise, n_vocab);
    if (!isfinite(kld))
        return fy_fail(e, FY_EFORMAT,
                       "the model's logits at scored position %llu are not finite numbers: there "
                       "is nothing to compare",
                       (unsigned long long)d->n);
    float *kept = fy_grow(d->kld_of, (size_t)d->n, &d->cap, sizeof *kept);
    if (kept == NULL)
        return fy_nomem(e);
    d->kld_of = kept;
    kept[d->n++] = (float)fmax(kld, 0); /* what is below is rounding */
    d->n_same_top += same_top(below, logits, n_vocab);
    add(&d->kld, fmax(kld, 0));
    add(&d->delta_p, exp(-surprise) - exp((double)next->logprob));
    add(&d->nll, surprise);
    add(&d->nll_base, -(double)next->logprob);
    add(&d->ln_ratio, surprise + (double)next->logprob);
    return 0;
}

void fy_divergence_release(fy_divergence *d)
{
    free(d->kld_of);
    *d = (fy_divergence){0};
}

fy_estimate fy_sums_estimate(const fy_sums *s, uint64_t count)
{
    const double n = (double)count, mean = s->sum / n;
    const double variance = fmax(s->squares / n - mean * mean, 0);
    return (fy_estimate){mean, count > 1 ? sqrt(variance / (n - 1)) : NAN};
}

static fy_estimate perplexity(const fy_sums *nll, uint64_t count)
{
    const fy_estimate x = fy_sums_estimate(nll, count);
    return (fy_estimate){exp(x.mean), x.error * exp(x.mean)};
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double percentile(const float *sorted, uint64_t n, double share)
{
    const double at = share * (double)(n - 1);
    const size_t i = (size_t)at;
    if (i + 1 >= n)
        return sorted[n - 1];
    return sorted[i] + (at - (double)i) * ((double)sorted[i + 1] - (double)sorted[i]);
}

void fy_divergence_end(fy_divergence *d, fy_divergence_report *out)
{
    static const double share[FY_KLD_PERCENTILES] = {0.5, 0.9, 0.95, 0.99, 0.999, 1};
    const fy_sums same = {(double)d->n_same_top, (double)d->n_same_top};
    qsort(d->kld_of, (size_t)d->n, sizeof *d->kld_of, by_value);
    *out = (fy_divergence_report){.n = d->n,
                                  .kld = fy_sums_estimate(&d->kld, d->n),
                                  .same_top = fy_sums_estimate(&same, d->n),
                                  .delta_p = fy_sums_estimate(&d->delta_p, d->n),
                                  .delta_p_rms = sqrt(d->delta_p.squares / (double)d->n),
                                  .ppl = perplexity(&d->nll, d->n),
                                  .ppl_base = perplexity(&d->nll_base, d->n),
                                  .ln_ratio = fy_sums_estimate(&d->ln_ratio, d->n)};
    for (int i = 0; i < FY_KLD_PERCENTILES; i++)
        out->kld_at[i] = percentile(d->kld_of, d->n, share[i]);
}
