/* The time mix of RWKV 5, 6 and 7: what one token hands to the next, and the recurrence of each
 * head. A head is a matrix S [key][value]; tokens of a sequence follow each other, so threads share
 * the heads. Every sum over keys is taken in their order from the first: vectors lie along the
 * values, and a result is the same on every machine and for every batch.
 *
 * The exponential here is not fy_exp: without fused multiply-adds compilers make vectors of it for
 * any machine. */
#include <math.h>
#include <string.h>

#include "backend/backend_impl.h"

enum {
    CHANNELS = 256, /* of an item of elementwise work */
    HEAD = FY_WKV_MAX_HEAD
};

/* exp(x) within 2 units in the last place, 0 below -87, 2e38 above 88; NaN for NaN. */
static inline float exponential(float x)
{
    const float y = x > 88.0F ? 88.0F : x < -87.0F ? -87.0F : x;
    const float t = y * 1.44269504F + 12582912.0F; /* 1.5 * 2^23: the sum ends in round(y / ln 2) */
    const float n = t - 12582912.0F;
    const float r = (y - n * 0.693359375F) + n * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    uint32_t bits;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1.0F;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits << 23) + 0x3f800000U;
    float power;
    memcpy(&power, &bits, sizeof power);
    return x < -87.0F ? 0.0F : p * power;
}

static inline float sigmoid(float x)
{
    return 1.0F / (1.0F + exponential(-x));
}

/* --- elementwise ----------------------------------------------------------------------------- */

typedef struct {
    float *y;
    const float *x, *dx, *lerp, *more;
    int64_t n;
} elementwise;

static void sigmoid_items(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const elementwise *j = ctx;
    const int64_t last = end * CHANNELS < j->n ? end * CHANNELS : j->n;
    for (int64_t i = begin * CHANNELS; i < last; i++)
        j->y[i] = sigmoid(j->x[i]);
    for (int64_t i = begin * CHANNELS; i < last && j->more != NULL; i++)
        j->y[i] *= j->more[i];
}

void fy_backend_sigmoid(fy_backend *b, float *y, const float *x, const float *times, int64_t n)
{
    elementwise j = {.y = y, .x = x, .more = times, .n = n};
    fy_backend_run(b, (n + CHANNELS - 1) / CHANNELS, 16 * CHANNELS, sigmoid_items, &j);
}

static void lerp_items(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const elementwise *j = ctx;
    for (int64_t t = begin; t < end; t++) {
        const float *x = j->x + t * j->n, *dx = j->dx + t * j->n;
        float *y = j->y + t * j->n;
        if (j->more == NULL) {
            for (int64_t i = 0; i < j->n; i++)
                y[i] = x[i] + dx[i] * j->lerp[i];
        } else {
            const float *more = j->more + t * j->n;
            for (int64_t i = 0; i < j->n; i++)
                y[i] = x[i] + dx[i] * (j->lerp[i] + more[i]);
        }
    }
}

void fy_backend_lerp(fy_backend *b, float *y, const float *x, const float *dx, const float *lerp,
                     const float *more, int64_t n_tokens, int64_t n)
{
    elementwise j = {.y = y, .x = x, .dx = dx, .lerp = lerp, .more = more, .n = n};
    fy_backend_run(b, n_tokens, 4 * n, lerp_items, &j);
}

/* --- the token before ------------------------------------------------------------------------ */

/* n floats of the state as the token finds them: in `to`, brought from `from` where a step begins
 * for the sequence. */
static float *state_part(const fy_state_view *s, const fy_place *at, fy_seqs *seen, size_t first,
                         size_t n)
{
    float *to = fy_state_of(s, s->to, at->seq) + first;
    const bool begins = fy_seqs_first(seen, at->seq);
    if (at->pos == 0)
        memset(to, 0, n * sizeof *to);
    else if (begins && s->from[at->seq] != s->to[at->seq])
        memcpy(to, fy_state_of(s, s->from, at->seq) + first, n * sizeof *to);
    return to;
}

typedef struct {
    float *dx;
    const float *x;
    const fy_place *at;
    const fy_state_view *state;
    size_t first;
    int64_t n_tokens, n;
} shift;

static void shift_items(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const shift *j = ctx;
    const int64_t c = begin * CHANNELS, last = end * CHANNELS < j->n ? end * CHANNELS : j->n;
    fy_seqs seen = {0};
    for (int64_t t = 0; t < j->n_tokens; t++) {
        float *before =
            state_part(j->state, &j->at[t], &seen, j->first + (size_t)c, (size_t)(last - c));
        const float *x = j->x + t * j->n + c;
        float *dx = j->dx + t * j->n + c;
        for (int64_t i = 0; i < last - c; i++) {
            dx[i] = before[i] - x[i];
            before[i] = x[i];
        }
    }
}

void fy_backend_token_shift(fy_backend *b, float *dx, const float *x, const fy_place *at,
                            const fy_state_view *state, size_t first, int64_t n_tokens, int64_t n)
{
    shift j = {dx, x, at, state, first, n_tokens, n};
    fy_backend_run(b, (n + CHANNELS - 1) / CHANNELS, 4 * CHANNELS * n_tokens, shift_items, &j);
}

/* --- heads ----------------------------------------------------------------------------------- */

typedef struct {
    const fy_wkv *w;
    float *out;
    int64_t n_tokens;
    void (*norm)(float *y, const float *x, const float *w, const float *bias, int64_t n, float eps);
} job;

/* y_j = sum_i r_i (u_i k_i v_j + S_ij), then S_ij = decay_i S_ij + k_i v_j */
static void step_6(float *S, float *restrict y, const fy_wkv *w, int64_t at, int64_t head)
{
    const int64_t n = w->head_dim;
    const float *r = w->r + at, *k = w->k + at, *v = w->v + at, *u = w->first + head;
    const float *rate = w->decay_is_fixed ? w->decay + head : w->decay + at;
    float decay[HEAD];
    for (int64_t i = 0; i < n; i++)
        decay[i] = exponential(-exponential(rate[i]));
    memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        float *restrict s = S + i * n;
        const float ri = r[i], ki = k[i], ui = u[i], di = decay[i];
        for (int64_t j = 0; j < n; j++) {
            const float kv = ki * v[j];
            y[j] += ri * (ui * kv + s[j]);
            s[j] = di * s[j] + kv;
        }
    }
}

/* What the recurrence of version 7 reads of a token. */
typedef struct {
    float decay[HEAD], kk[HEAD], b[HEAD], k[HEAD], v[HEAD];
} token_7;

static void read_7(const fy_wkv *w, token_7 *q, int64_t at, int64_t head)
{
    const int64_t n = w->head_dim;
    const float *k = w->k + at, *v = w->v + at, *k_k = w->k_k + head, *k_a = w->k_a + head;
    float a[HEAD], sum = 0;
    for (int64_t i = 0; i < n; i++)
        q->decay[i] = exponential(-0.60653066F * sigmoid(w->decay[at + i])); /* exp(-1/2) */
    for (int64_t i = 0; i < n; i++)
        a[i] = sigmoid(w->a[at + i]);
    for (int64_t i = 0; i < n; i++)
        q->kk[i] = k[i] * k_k[i];
    for (int64_t i = 0; i < n; i++)
        sum += q->kk[i] * q->kk[i];
    const float length = sqrtf(sum), scale = 1.0F / (length > 1e-12F ? length : 1e-12F);
    for (int64_t i = 0; i < n; i++) {
        q->kk[i] *= scale;
        q->b[i] = q->kk[i] * a[i];
        q->k[i] = k[i] * (1.0F + (a[i] - 1.0F) * k_a[i]);
        q->v[i] = v[i];
    }
    for (int64_t i = 0; i < n && w->v_share != NULL; i++)
        q->v[i] += (w->v_first[at + i] - v[i]) * sigmoid(w->v_share[at + i]);
}

/* With sa_j = -sum_i S_ij kk_i: S_ij = S_ij decay_i + sa_j b_i + v_j k_i, then
 * y_j = sum_i S_ij r_i */
static void step_7(float *S, float *restrict y, const token_7 *q, const float *r, int64_t n)
{
    float sa[HEAD] = {0};
    for (int64_t i = 0; i < n; i++) {
        const float *s = S + i * n, kk = q->kk[i];
        for (int64_t j = 0; j < n; j++)
            sa[j] -= s[j] * kk;
    }
    memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        float *restrict s = S + i * n;
        const float decay = q->decay[i], b = q->b[i], k = q->k[i], ri = r[i];
        for (int64_t j = 0; j < n; j++) {
            s[j] = (s[j] * decay + sa[j] * b) + q->v[j] * k;
            y[j] += s[j] * ri;
        }
    }
}

/* y += (sum_i r_i k_i r_k_i) v */
static void add_bonus(float *y, const token_7 *q, const float *r, const float *r_k, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += r[i] * q->k[i] * r_k[i];
    for (int64_t j = 0; j < n; j++)
        y[j] += sum * q->v[j];
}

static void head_items(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const fy_wkv *w = j->w;
    const int64_t n = w->head_dim, width = n * w->n_heads;
    for (int64_t h = begin; h < end; h++) {
        fy_seqs seen = {0};
        const int64_t head = h * n;
        for (int64_t t = 0; t < j->n_tokens; t++) {
            const int64_t at = t * width + head;
            float *S = state_part(&w->state, &w->at[t], &seen, w->state_first + (size_t)(head * n),
                                  (size_t)(n * n));
            float y[HEAD], *out = j->out + at;
            token_7 q;
            if (w->k_k != NULL) {
                read_7(w, &q, at, head);
                step_7(S, y, &q, w->r + at, n);
            } else {
                step_6(S, y, w, at, head);
            }
            j->norm(out, y, w->norm + head, w->norm_bias + head, n, w->eps);
            if (w->k_k != NULL)
                add_bonus(out, &q, w->r + at, w->r_k + head, n);
            for (int64_t i = 0; i < n && w->gate != NULL; i++)
                out[i] *= w->gate[at + i];
        }
    }
}

void fy_backend_wkv(fy_backend *b, float *out, const fy_wkv *w, int64_t n_tokens)
{
    job j = {w, out, n_tokens, b->kernels.layer_norm};
    fy_backend_run(b, w->n_heads, 4 * w->head_dim * w->head_dim * n_tokens, head_items, &j);
}
