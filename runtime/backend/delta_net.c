/* The gated delta net of Qwen3.5: a causal convolution, a matrix of state per head of values that
 * decays and in which a key finds what was written for it, and a norm with a gate. Tokens of a
 * sequence follow each other, so threads share channels, then heads, then tokens; sums are added in
 * one order whatever the step. A head's state lies [n_state][width], so that lanes stand for
 * elements of its output and none is a sum of others. It is big: the first token of a sequence
 * reads it where the step before left it. */
#include <math.h>
#include <string.h>

#include "backend/backend_impl.h"

enum {
    LANES = 16, /* elements that a loop takes at once: of these, compilers make vectors */
};

typedef struct {
    const fy_kernels *k;
    const fy_delta_net *m;
    const fy_delta_input *in;
    float *out;
    int64_t n_tokens;
} job;

static int64_t n_channels(const fy_delta_net *m)
{
    return 2 * m->n_key_heads * m->n_state + m->n_heads * m->width;
}

/* --- convolution ------------------------------------------------------------------------------ */

static void run_channels(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const fy_delta_net *m = j->m;
    const fy_state_conv conv = {.w = m->conv,
                                .n_channels = n_channels(m),
                                .length = m->length,
                                .at = m->at,
                                .state = &m->state};
    fy_state_convolve(j->k, &conv, j->in->qkv, n_channels(m), j->n_tokens, begin, end);
}

/* --- queries and keys ------------------------------------------------------------------------- */

/* x / sqrt(sum of its squares + 1e-6); the squares in 8 sums of double, as those of an RMS norm. */
static void to_length(float *x, int64_t n, double length)
{
    double sum[8] = {0}, u[4];
    for (int64_t i = 0; i < n; i++)
        sum[i % 8] += (double)x[i] * (double)x[i];
    for (int i = 0; i < 4; i++)
        u[i] = sum[i] + sum[i + 4];
    const float by = (float)(length / sqrt((u[0] + u[1]) + (u[2] + u[3]) + 1e-6));
    for (int64_t i = 0; i < n; i++)
        x[i] *= by;
}

static void run_lengths(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const fy_delta_net *m = j->m;
    const int64_t each = 2 * m->n_key_heads;
    for (int64_t i = begin; i < end; i++) {
        const bool query = i % each < m->n_key_heads;
        to_length(j->in->qkv + i / each * n_channels(m) + i % each * m->n_state, m->n_state,
                  query ? 1 / sqrt((double)m->n_state) : 1);
    }
}

/* --- state ------------------------------------------------------------------------------------ */

/* What a token is to a head. */
typedef struct {
    float decay, write;
    const float *q, *k, *v;
} head_token;

/* n <= LANES elements of the head's output, whose columns of the state are `width` apart: the state
 * decays, the key reads it, the difference to the value is written, the query reads it. */
static inline void step_lanes(const head_token *h, float *out, float *state, const float *was,
                              const float *v, int64_t n_state, int64_t width, int n)
{
    float found[LANES], change[LANES], sum[LANES], s[LANES];
    for (int i = 0; i < n; i++)
        found[i] = sum[i] = 0;
    for (int64_t r = 0; r < n_state; r++) {
        const float key = h->k[r];
        for (int i = 0; i < n; i++)
            found[i] += h->decay * was[r * width + i] * key;
    }
    for (int i = 0; i < n; i++)
        change[i] = h->write * (v[i] - found[i]);
    for (int64_t r = 0; r < n_state; r++) {
        const float key = h->k[r], query = h->q[r];
        for (int i = 0; i < n; i++)
            s[i] = h->decay * was[r * width + i] + key * change[i];
        for (int i = 0; i < n; i++)
            sum[i] += s[i] * query;
        memcpy(state + r * width, s, (size_t)n * sizeof *s); /* may be was */
    }
    for (int i = 0; i < n; i++)
        out[i] = sum[i];
}

static void step_head(const head_token *h, float *out, float *state, const float *was,
                      int64_t n_state, int64_t width)
{
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES)
        step_lanes(h, out + i, state + i, was + i, h->v + i, n_state, width, LANES);
    if (i < width)
        step_lanes(h, out + i, state + i, was + i, h->v + i, n_state, width, (int)(width - i));
}

static float sigmoid(float x)
{
    return 1.0F / (1.0F + fy_exp(-x));
}

static void run_heads(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const fy_delta_net *m = j->m;
    const int64_t len = m->n_state * m->width, keys = m->n_key_heads * m->n_state;
    for (int64_t head = begin; head < end; head++) {
        const int64_t at = (m->length - 1) * n_channels(m) + head * len;
        const int64_t key = head % m->n_key_heads * m->n_state;
        fy_seqs seen = {0};
        for (int64_t t = 0; t < j->n_tokens; t++) {
            const fy_place p = m->at[t];
            const float *x = j->in->qkv + t * n_channels(m);
            float *state = fy_state_of(&m->state, m->state.to, p.seq) + at;
            const bool first = fy_seqs_first(&seen, p.seq);
            const float *was = first ? fy_state_of(&m->state, m->state.from, p.seq) + at : state;
            if (p.pos == 0) {
                memset(state, 0, (size_t)len * sizeof *state);
                was = state;
            }
            const float step = fy_softplus(j->in->alpha[t * m->n_heads + head] + m->dt_bias[head]);
            const head_token h = {.decay = fy_exp(step * m->a[head]),
                                  .write = sigmoid(j->in->beta[t * m->n_heads + head]),
                                  .q = x + key,
                                  .k = x + keys + key,
                                  .v = x + 2 * keys + head * m->width};
            step_head(&h, j->out + (t * m->n_heads + head) * m->width, state, was, m->n_state,
                      m->width);
        }
    }
}

/* --- gate ------------------------------------------------------------------------------------- */

static void run_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const fy_delta_net *m = j->m;
    const int64_t inner = m->n_heads * m->width;
    for (int64_t t = begin; t < end; t++) {
        float *y = j->out + t * inner, *z = j->in->z + t * inner;
        for (int64_t h = 0; h < m->n_heads; h++)
            j->k->rms_norm(y + h * m->width, y + h * m->width, m->norm, m->width, m->eps);
        j->k->silu_mul(z, y, inner);
        memcpy(y, z, (size_t)inner * sizeof *y);
    }
}

void fy_backend_delta_net(fy_backend *b, float *out, const fy_delta_input *in, int64_t n_tokens,
                          const fy_delta_net *m)
{
    job j = {&b->kernels, m, in, out, n_tokens};
    fy_backend_run(b, (n_channels(m) + FY_CONV_CHANNELS - 1) / FY_CONV_CHANNELS,
                   FY_CONV_CHANNELS * m->length * n_tokens, run_channels, &j);
    fy_backend_run(b, n_tokens * 2 * m->n_key_heads, m->n_state, run_lengths, &j);
    fy_backend_run(b, m->n_heads, 4 * m->n_state * m->width * n_tokens, run_heads, &j);
    fy_backend_run(b, n_tokens, 4 * m->n_heads * m->width, run_tokens, &j);
}
