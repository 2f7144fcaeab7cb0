/* Several residual streams (AltUp) and the sparse activation of Gemma 3n: each token on its own,
 * sums in one fixed order. */
#include <math.h>

#include "backend/backend_impl.h"

enum { LANES = 8 }; /* sums of a row go round so many partial ones */

typedef struct {
    fy_streams s;
    const float *first, *c;
    float *x;
    const float *like;
    float scale;
    int64_t n;
} job;

static double sum_of(const double lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

static double mean_of(const float *x, int64_t n)
{
    double lane[LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] += (double)x[i];
    return sum_of(lane) / (double)n;
}

/* Of (x - from)^2. */
static double mean_square(const float *x, double from, int64_t n)
{
    double lane[LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] += ((double)x[i] - from) * ((double)x[i] - from);
    return sum_of(lane) / (double)n;
}

/* --- streams ---------------------------------------------------------------------------------- */

static void mix_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const int k = j->s.n_streams;
    for (int64_t t = begin; t < end; t++) {
        const float *c = j->c + t * k * k;
        for (int64_t e = t * j->n; e < (t + 1) * j->n; e++) {
            float was[FY_STREAMS_MAX];
            for (int i = 0; i < k; i++)
                was[i] = j->s.x[i][e];
            for (int to = 0; to < k; to++) {
                float sum = 0;
                for (int i = 0; i < k; i++)
                    sum += c[to * k + i] * was[i];
                j->s.x[to][e] = sum + was[to];
            }
        }
    }
}

void fy_backend_mix_streams(fy_backend *b, const fy_streams *s, const float *c, int64_t n_tokens,
                            int64_t n)
{
    job j = {.s = *s, .c = c, .n = n};
    fy_backend_run(b, n_tokens, n * s->n_streams * s->n_streams, mix_tokens, &j);
}

static void correct_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    const int k = j->s.n_streams;
    for (int64_t t = begin; t < end; t++) {
        const float *c = j->c + t * k;
        for (int64_t e = t * j->n; e < (t + 1) * j->n; e++) {
            const float news = j->s.x[0][e] - j->first[e];
            j->s.x[0][e] = news * (c[0] + 1) + j->first[e];
            for (int i = 1; i < k; i++)
                j->s.x[i][e] += news * (c[i] + 1);
        }
    }
}

void fy_backend_correct_streams(fy_backend *b, const fy_streams *s, const float *first,
                                const float *c, int64_t n_tokens, int64_t n)
{
    job j = {.s = *s, .first = first, .c = c, .n = n};
    fy_backend_run(b, n_tokens, n * s->n_streams, correct_tokens, &j);
}

static void match_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    for (int64_t r = begin; r < end; r++) {
        float *x = j->x + r * j->n;
        const double size = sqrt(mean_square(j->like + r * j->n, 0, j->n));
        const float s = (float)(size / sqrt(fmax(mean_square(x, 0, j->n), 1e-5)));
        for (int64_t i = 0; i < j->n; i++)
            x[i] *= s;
    }
}

void fy_backend_match_size(fy_backend *b, float *x, const float *like, int64_t n_rows, int64_t n)
{
    job j = {.x = x, .like = like, .n = n};
    fy_backend_run(b, n_rows, 3 * n, match_rows, &j);
}

/* --- sparse activation ------------------------------------------------------------------------ */

static void sparsify_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = ctx;
    for (int64_t r = begin; r < end; r++) {
        float *x = j->x + r * j->n;
        const double mean = mean_of(x, j->n);
        const float cut = (float)mean + (float)sqrt(mean_square(x, mean, j->n)) * j->scale;
        for (int64_t i = 0; i < j->n; i++)
            x[i] = x[i] > cut ? x[i] - cut : 0;
    }
}

void fy_backend_sparsify(fy_backend *b, float *x, float s, int64_t n_rows, int64_t n)
{
    job j = {.x = x, .scale = s, .n = n};
    fy_backend_run(b, n_rows, 3 * n, sparsify_rows, &j);
}
