/* The causal convolution before a matrix of state, with its activation: Mamba-2's and the delta
 * net's. The columns that it needs of earlier tokens are the beginning of the sequence's state. */
#include <string.h>

#include "backend/backend_impl.h"

/* Brings the columns of n channels to where the step leaves them. */
static void begin_columns(const fy_state_conv *c, const fy_place *at, float *col, int64_t first,
                          int64_t n)
{
    const fy_state_view *s = c->state;
    const float *was = fy_state_of(s, s->from, at->seq) + first;
    for (int64_t j = 0; j + 1 < c->length; j++) {
        if (at->pos == 0)
            memset(col + j * c->n_channels, 0, (size_t)n * sizeof *col);
        else if (s->from[at->seq] != s->to[at->seq])
            memcpy(col + j * c->n_channels, was + j * c->n_channels, (size_t)n * sizeof *col);
    }
}

/* x of one token becomes what the convolution makes of it and of the columns before it, the oldest
 * first; x takes the place of the newest. */
static void convolve(const fy_state_conv *c, float *x, float *col, int64_t first, int64_t n)
{
    const int64_t k = c->length, stride = c->n_channels;
    for (int64_t i = 0; i < n; i++) {
        const float *w = c->w + (first + i) * k;
        const float now = x[i];
        float sum = w[0] * col[i];
        for (int64_t j = 1; j + 1 < k; j++)
            sum += w[j] * col[j * stride + i];
        for (int64_t j = 0; j + 2 < k; j++)
            col[j * stride + i] = col[(j + 1) * stride + i];
        col[(k - 2) * stride + i] = now;
        sum += w[k - 1] * now;
        x[i] = c->bias != NULL ? sum + c->bias[first + i] : sum;
    }
}

void fy_state_convolve(const fy_kernels *k, const fy_state_conv *c, float *rows, int64_t stride,
                       int64_t n_tokens, int64_t begin, int64_t end)
{
    const int64_t first = begin * FY_CONV_CHANNELS, last = end * FY_CONV_CHANNELS;
    const int64_t n = (last < c->n_channels ? last : c->n_channels) - first;
    fy_seqs seen = {0};
    for (int64_t t = 0; t < n_tokens; t++) {
        float *x = rows + t * stride + first;
        float *col = fy_state_of(c->state, c->state->to, c->at[t].seq) + first;
        if (fy_seqs_first(&seen, c->at[t].seq) || c->at[t].pos == 0)
            begin_columns(c, &c->at[t], col, first, n);
        convolve(c, x, col, first, n);
        k->silu_mul(x, NULL, n);
    }
}
