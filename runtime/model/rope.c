#include "model/rope.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

/* The (real-valued) pair that turns `turns` times within the original context. */
static double yarn_pair_of(const fy_hparams *hp, double turns)
{
    return hp->n_rot * log(hp->rope_orig_ctx / (turns * 2 * PI)) /
           (2 * log((double)hp->rope_theta));
}

/* YaRN (Peng et al. 2023) as transformers and llama.cpp compute it: pairs below `low` keep their
 * rate, pairs above `high` are slowed by the factor, with a linear ramp between. */
static void yarn_ramp(fy_rope *r, const fy_hparams *hp)
{
    double low = floor(yarn_pair_of(hp, (double)hp->yarn_beta_fast));
    double high = ceil(yarn_pair_of(hp, (double)hp->yarn_beta_slow));
    low = fmax(low, 0);
    high = fmin(high, (double)hp->n_rot - 1);
    for (uint32_t i = 0; i < r->n_pairs; i++) {
        double ramp = fmin(fmax((i - low) / fmax(high - low, 0.001), 0), 1);
        r->rate[i] = r->rate[i] * (1 - ramp) + r->rate[i] / (double)hp->rope_factor * ramp;
    }
}

void fy_rope_init(fy_rope *r, const fy_hparams *hp, const float *freqs, double *rate)
{
    *r = (fy_rope){
        .n_pairs = hp->n_rot / 2, .rate = rate, .magnitude = (double)hp->rope_attn_factor};
    for (uint32_t i = 0; i < r->n_pairs; i++) {
        r->rate[i] = pow((double)hp->rope_theta, -2.0 * i / hp->n_rot);
        if (freqs != NULL)
            r->rate[i] /= (double)freqs[i];
        if (hp->rope_scaling == FY_ROPE_SCALING_LINEAR)
            r->rate[i] /= (double)hp->rope_factor;
    }
    if (hp->rope_scaling == FY_ROPE_SCALING_YARN) {
        yarn_ramp(r, hp);
        if (hp->rope_factor > 1)
            r->magnitude *= 1 + 0.1 * log((double)hp->rope_factor);
    }
}

void fy_rope_init_swa(fy_rope *r, const fy_hparams *hp, double *rate)
{
    const fy_hparams plain = {
        .n_rot = hp->n_rot, .rope_theta = hp->rope_theta_swa, .rope_attn_factor = 1};
    fy_rope_init(r, &plain, NULL, rate);
}

void fy_rope_angles(const fy_rope *r, uint32_t pos, float *angles)
{
    for (uint32_t i = 0; i < r->n_pairs; i++) {
        double a = pos * r->rate[i];
        angles[2 * i] = (float)(cos(a) * r->magnitude);
        angles[2 * i + 1] = (float)(sin(a) * r->magnitude);
    }
}
