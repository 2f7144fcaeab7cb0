#include <math.h>
#include <stdlib.h>

#include "model/sample.h"
#include "model/sample_math.h"
#include "model/sample_scan.h"

/* ln sum e^logit, the largest logit taken out of the sum; NaN counts as no token. */
typedef struct {
    float best;
    double ln_sum; /* of e^(logit - best) */
} normalizer;

static int normalize(const float *logits, uint32_t n, normalizer *z, fy_err *e)
{
    fy_candidate best;
    if (fy_logits_best(logits, n, 1, &best) == 0)
        return fy_fail(e, FY_EFORMAT, "no token has a probability: every logit is NaN or -inf");
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] == best.logit)
            sum += 1; /* inf - inf is no number */
        else if (logits[i] > -INFINITY)
            sum += fy_exp_neg((double)logits[i] - (double)best.logit);
    }
    *z = (normalizer){best.logit, fy_ln(sum)};
    return 0;
}

static float logprob_of(const normalizer *z, float logit)
{
    if (logit == z->best)
        return (float)-z->ln_sum;
    return logit > -INFINITY ? (float)((double)logit - (double)z->best - z->ln_sum) : -INFINITY;
}

int fy_logprobs(const float *logits, uint32_t n_vocab, int32_t id, float *logprob, fy_logprob *top,
                uint32_t n_top, fy_err *e)
{
    normalizer z = {0};
    if (id < 0 || (uint32_t)id >= n_vocab)
        return fy_fail(e, FY_EARG, "token %d, the vocabulary has %u", id, n_vocab);
    if (normalize(logits, n_vocab, &z, e) != 0)
        return -1;
    uint32_t n = n_top < n_vocab ? n_top : n_vocab;
    if (n > 0) {
        fy_candidate *best = calloc(n, sizeof *best);
        if (best == NULL)
            return fy_nomem(e);
        n = fy_logits_best(logits, n_vocab, n, best);
        for (uint32_t i = 0; i < n; i++)
            top[i] = (fy_logprob){best[i].id, logprob_of(&z, best[i].logit)};
        free(best);
    }
    for (uint32_t i = n; i < n_top; i++)
        top[i] = (fy_logprob){-1, -INFINITY};
    *logprob = logprob_of(&z, logits[id]);
    return 0;
}
