/* The Mamba-2 mixer: a causal convolution, a matrix of state per head that decays and takes up each
 * token, and a gate with a norm. Tokens of a sequence follow each other, so threads share channels,
 * then heads, then tokens; sums are added in one order whatever the step. A head's state lies
 * [n_state][width], so that lanes stand for elements of its output and none is a sum of others. It
 * is big: the first token of a sequence reads it where the step before left it. */
#include <string.h>

#include "backend/backend_impl.h"

enum {
    LANES = 16, /* elements that a loop takes at once: of these, compilers make vectors */
};

typedef struct {
    const fy_kernels *k;
    const fy_mamba2 *m;
    float *in, *out;
    int64_t n_tokens;
} job;

static int64_t n_channels(const fy_mamba2 *m)
{
    return m->n_inner + 2 * m->n_groups * m->n_state;
}

static int64_t row_len(const fy_mamba2 *m)
{
    return m->n_inner + n_channels(m) + m->n_heads;
}

/* --- convolution ------------------------------------------------------------------------------ */

static void run_channels(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const fy_mamba2 *m = j->m;
    const fy_state_conv conv = {.w = m->conv,
                                .bias = m->conv_bias,
                                .n_channels = n_channels(m),
                                .length = m->length,
                                .at = m->at,
                                .state = &m->state};
    fy_state_convolve(j->k, &conv, j->in + m->n_inner, row_len(m), j->n_tokens, begin, end);
}

/* --- state ------------------------------------------------------------------------------------ */

float fy_softplus(float x)
{
    /* ln(1 + e) = 2 (s + s^3 / 3 + s^5 / 5 + ..) with s = e / (2 + e), which is a third at most:
     * nine terms are within 1e-9 of it. */
    static const double odd[] = {17, 15, 13, 11, 9, 7, 5, 3, 1};
    const double e = (double)fy_exp(x > 0 ? -x : x), s = e / (2 + e);
    double sum = 0;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        sum = sum * s * s + 1 / odd[i];
    return (x > 0 ? x : 0) + (float)(2 * s * sum);
}

/* What a token is to a head. */
typedef struct {
    float decay, step, skip;
    const float *x, *b, *c;
} head_token;

/* n <= LANES elements of the head's output, whose columns of the state are `width` apart. */
static inline void step_lanes(const head_token *h, float *restrict y, float *restrict state,
                              const float *was, int64_t n_state, int64_t width, int n)
{
    float u[LANES], sum[LANES];
    for (int i = 0; i < n; i++) {
        u[i] = h->step * h->x[i];
        sum[i] = 0;
    }
    for (int64_t r = 0; r < n_state; r++) {
        const float *before = was + r * width;
        float *after = state + r * width;
        const float b = h->b[r], c = h->c[r];
        for (int i = 0; i < n; i++) {
            const float s = h->decay * before[i] + u[i] * b;
            after[i] = s;
            sum[i] += s * c;
        }
    }
    for (int i = 0; i < n; i++)
        y[i] = sum[i] + h->skip * h->x[i];
}

static void step_head(head_token h, float *y, float *state, const float *was, int64_t n_state,
                      int64_t width)
{
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES, h.x += LANES)
        step_lanes(&h, y + i, state + i, was + i, n_state, width, LANES);
    if (i < width)
        step_lanes(&h, y + i, state + i, was + i, n_state, width, (int)(width - i));
}

static void run_heads(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const fy_mamba2 *m = j->m;
    const int64_t width = m->n_inner / m->n_heads, bc = m->n_groups * m->n_state;
    for (int64_t head = begin; head < end; head++) {
        const int64_t group = head * m->n_groups / m->n_heads;
        const int64_t at = (m->length - 1) * n_channels(m) + head * width * m->n_state;
        fy_seqs seen = {0};
        for (int64_t t = 0; t < j->n_tokens; t++) {
            const fy_place p = m->at[t];
            const float *x = j->in + t * row_len(m) + m->n_inner;
            float *state = fy_state_of(&m->state, m->state.to, p.seq) + at;
            const bool first = fy_seqs_first(&seen, p.seq);
            const float *was = first ? fy_state_of(&m->state, m->state.from, p.seq) + at : state;
            if (p.pos == 0) {
                memset(state, 0, (size_t)(width * m->n_state) * sizeof *state);
                was = state;
            }
            const float step = fy_softplus(x[m->n_inner + 2 * bc + head] + m->dt_bias[head]);
            const head_token h = {.decay = fy_exp(step * m->a[head]),
                                  .step = step,
                                  .skip = m->d[head],
                                  .x = x + head * width,
                                  .b = x + m->n_inner + group * m->n_state,
                                  .c = x + m->n_inner + bc + group * m->n_state};
            step_head(h, j->out + t * m->n_inner + head * width, state, was, m->n_state, width);
        }
    }
}

/* --- gate ------------------------------------------------------------------------------------- */

static void run_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const fy_mamba2 *m = j->m;
    const int64_t n = m->n_inner / m->n_groups;
    for (int64_t t = begin; t < end; t++) {
        float *z = j->in + t * row_len(m), *y = j->out + t * m->n_inner;
        j->k->silu_mul(z, y, m->n_inner);
        if (m->norm == NULL)
            memcpy(y, z, (size_t)m->n_inner * sizeof *y);
        for (int64_t g = 0; g < m->n_groups && m->norm != NULL; g++)
            j->k->rms_norm(y + g * n, z + g * n, m->norm + g * n, n, m->eps);
    }
}

void fy_backend_mamba2(fy_backend *b, float *out, float *in, int64_t n_tokens, const fy_mamba2 *m)
{
    job j = {&b->kernels, m, in, out, n_tokens};
    const int64_t state = m->n_inner / m->n_heads * m->n_state;
    fy_backend_run(b, (n_channels(m) + FY_CONV_CHANNELS - 1) / FY_CONV_CHANNELS,
                   FY_CONV_CHANNELS * m->length * n_tokens, run_channels, &j);
    fy_backend_run(b, m->n_heads, 2 * state * n_tokens, run_heads, &j);
    fy_backend_run(b, n_tokens, 4 * m->n_inner, run_tokens, &j);
}
