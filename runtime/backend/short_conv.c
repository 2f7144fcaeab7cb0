/* The gated short convolution of LFM2: a product of two thirds of each row, a causal convolution
 * over its sequence, and the product with the other third. Tokens of a sequence follow each other,
 * so threads share the channels. */
#include <string.h>

#include "backend/backend_impl.h"

enum { CHANNELS = 64 }; /* of an item */

typedef struct {
    const fy_short_conv *c;
    const float *in;
    float *out;
    int64_t n_tokens;
} job;

/* One token. col: the columns before it, the oldest first; x takes the place of the newest. */
static void convolve(const fy_short_conv *c, const float *in, float *col, float *out, int64_t begin,
                     int64_t end)
{
    const int64_t n = c->n_channels, k = c->length;
    const float *b = in, *gate = in + n, *x = in + 2 * n;
    for (int64_t i = begin; i < end; i++) {
        const float *w = c->w + i * k;
        const float now = b[i] * x[i];
        float sum = w[0] * col[i];
        for (int64_t j = 1; j + 1 < k; j++)
            sum += w[j] * col[j * n + i];
        sum += w[k - 1] * now;
        for (int64_t j = 0; j + 2 < k; j++)
            col[j * n + i] = col[(j + 1) * n + i];
        col[(k - 2) * n + i] = now;
        out[i] = gate[i] * sum;
    }
}

static void run(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const fy_short_conv *c = j->c;
    const int64_t n = c->n_channels, first = begin * CHANNELS;
    const int64_t last = end * CHANNELS < n ? end * CHANNELS : n;
    for (int64_t t = 0; t < j->n_tokens; t++) {
        float *col = fy_state_of(&c->state, c->state.to, c->at[t].seq);
        for (int64_t k = 0; k + 1 < c->length && c->at[t].pos == 0; k++)
            memset(col + k * n + first, 0, (size_t)(last - first) * sizeof *col);
        convolve(c, j->in + t * 3 * n, col, j->out + t * n, first, last);
    }
}

void fy_state_begin(const fy_state_view *s, const fy_place *at, int64_t n_tokens)
{
    uint64_t seen[FY_STATE_SEQS / 64] = {0};
    for (int64_t t = 0; t < n_tokens; t++) {
        const int32_t seq = at[t].seq;
        const uint64_t bit = (uint64_t)1 << seq % 64;
        if (s->from[seq] != s->to[seq] && at[t].pos > 0 && (seen[seq / 64] & bit) == 0)
            memcpy(fy_state_of(s, s->to, seq), fy_state_of(s, s->from, seq), s->len * sizeof *s->memory);
        seen[seq / 64] |= bit;
    }
}

void fy_backend_short_conv(fy_backend *b, float *out, const float *in, int64_t n_tokens,
                           const fy_short_conv *c)
{
    job j = {c, in, out, n_tokens};
    fy_state_begin(&c->state, c->at, n_tokens);
    fy_backend_run(b, (c->n_channels + CHANNELS - 1) / CHANNELS, CHANNELS * c->length * n_tokens,
                   run, &j);
}
