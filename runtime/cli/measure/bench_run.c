#include "cli/measure/bench_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/process.h"
#include "cli/session_open.h"

/* --- a session -------------------------------------------------------------------------------- */

static uint64_t n_positions(const fy_bench_test *t)
{
    return (uint64_t)t->n_depth + t->n_prompt + t->n_gen;
}

int fy_bench_check(const fy_model *m, const fy_bench_test *tests, size_t n, fy_err *e)
{
    const uint32_t most = fy_model_hparams(m)->n_ctx_train;
    char name[FY_BENCH_NAME_BYTES];
    for (size_t i = 0; i < n; i++) {
        if (n_positions(&tests[i]) > most)
            return fy_fail(e, FY_EFIT,
                           "%s takes %" PRIu64 " positions, but the model was trained with %" PRIu32
                           "; use a smaller -p, -n or -d",
                           fy_bench_name(&tests[i], name), n_positions(&tests[i]), most);
    }
    return 0;
}

typedef struct {
    const fy_bench_test *t;
    fy_session *s; /* owned */
    int32_t *ids;  /* owned; one for every position */
} bench;

/* The same tokens in every run, without a pattern that a router of experts could follow. */
static int32_t any_id(uint64_t i, uint32_t n_vocab)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return (int32_t)((x ^ x >> 32) % n_vocab);
}

static void close_bench(bench *b)
{
    fy_session_free(b->s);
    free(b->ids);
}

/* The depth is computed once: what stands there is the same for every repetition. */
static int open_bench(bench *b, const fy_model *m, const fy_bench_test *t, fy_err *e)
{
    const uint64_t n = n_positions(t);
    const fy_session_params p = {.n_ctx = (uint32_t)n,
                                 .n_batch = t->n_batch,
                                 .n_threads = (int)t->n_threads,
                                 .type_k = t->type_k,
                                 .type_v = t->type_v};
    *b = (bench){.t = t,
                 .s = fy_session_open(m, &p, "-p, -n, -d or -b", e),
                 .ids = calloc(n, sizeof *b->ids)};
    if (b->s == NULL || b->ids == NULL) {
        close_bench(b);
        return b->s == NULL ? -1 : fy_nomem(e);
    }
    for (uint64_t i = 0; i < n; i++)
        b->ids[i] = any_id(i, fy_model_hparams(m)->n_vocab);
    if (t->n_depth > 0 && fy_session_eval(b->s, b->ids, t->n_depth, NULL, NULL, e) != 0) {
        close_bench(b);
        return -1;
    }
    return 0;
}

static int eval_next(const bench *b, uint32_t n, fy_err *e)
{
    return fy_session_eval(b->s, b->ids + fy_session_n_past(b->s), n, NULL, NULL, e);
}

static int warm_up(const bench *b, fy_err *e)
{
    const fy_bench_test *t = b->t;
    return (t->n_prompt > 0 && eval_next(b, t->n_prompt, e) != 0) ||
                   (t->n_gen > 0 && eval_next(b, 1, e) != 0)
               ? -1
               : 0;
}

/* --- repetitions ------------------------------------------------------------------------------ */

static int compute(const bench *b, fy_err *e)
{
    const fy_bench_test *t = b->t;
    if (t->n_prompt > 0 && eval_next(b, t->n_prompt, e) != 0)
        return -1;
    for (uint32_t i = 0; i < t->n_gen; i++) {
        if (eval_next(b, 1, e) != 0)
            return -1;
    }
    return 0;
}

int fy_bench_measure(const fy_model *m, const fy_bench_test *t, uint32_t n, bool warmup,
                     uint64_t *ns, fy_err *e)
{
    bench b;
    if (open_bench(&b, m, t, e) != 0)
        return -1;
    int rc = warmup ? warm_up(&b, e) : 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        fy_session_rewind(b.s, t->n_depth);
        double begin = fy_now_s();
        rc = compute(&b, e);
        double took = fy_now_s() - begin;
        ns[i] = took > 1e-9 ? (uint64_t)(took * 1e9) : 1;
    }
    close_bench(&b);
    return rc;
}

static void mean_of(const double *v, size_t n, double *mean, double *stddev)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    *mean = n > 0 ? sum / (double)n : 0;
    for (size_t i = 0; i < n; i++)
        squares += (v[i] - *mean) * (v[i] - *mean);
    *stddev = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

fy_bench_stats fy_bench_stats_of(const uint64_t *ns, size_t n, uint64_t n_tokens, double *ts)
{
    fy_bench_stats s;
    for (size_t i = 0; i < n; i++)
        ts[i] = (double)ns[i];
    mean_of(ts, n, &s.avg_ns, &s.stddev_ns);
    for (size_t i = 0; i < n; i++)
        ts[i] = 1e9 * (double)n_tokens / (double)ns[i];
    mean_of(ts, n, &s.avg_ts, &s.stddev_ts);
    return s;
}

/* --- sustained -------------------------------------------------------------------------------- */

fy_bench_meter fy_bench_meter_of(double seconds)
{
    double n = floor(seconds);
    n = n < 1 ? 1 : n > 20 ? 20 : n;
    return (fy_bench_meter){
        .seconds = seconds, .interval_s = seconds / n, .end_s = n == 1 ? seconds : seconds / n};
}

bool fy_bench_meter_token(fy_bench_meter *m, double now_s, fy_bench_interval *out)
{
    m->n_tokens++;
    if (now_s < m->end_s)
        return false;
    *out = (fy_bench_interval){m->begin_s, now_s, m->n_tokens,
                               (double)m->n_tokens / (now_s - m->begin_s)};
    m->begin_s = now_s;
    m->n_tokens = 0;
    while (m->end_s <= now_s)
        m->end_s += m->interval_s;
    if (m->end_s > m->seconds - m->interval_s / 2) /* rounding must not lose the last one */
        m->end_s = m->seconds;
    return true;
}

static int sustain(const bench *b, double seconds, fy_bench_interval_sink *sink, void *user,
                   fy_err *e)
{
    const uint32_t most = b->t->n_depth + b->t->n_gen;
    fy_bench_meter meter = fy_bench_meter_of(seconds);
    fy_bench_interval i;
    const double begin = fy_now_s();
    for (double now = 0; now < seconds;) {
        if (fy_session_n_past(b->s) == most)
            fy_session_rewind(b->s, b->t->n_depth);
        if (eval_next(b, 1, e) != 0)
            return -1;
        now = fy_now_s() - begin;
        if (fy_bench_meter_token(&meter, now, &i) && sink(user, &i, e) != 0)
            return -1;
    }
    return 0;
}

int fy_bench_sustain(const fy_model *m, const fy_bench_test *t, double seconds, bool warmup,
                     fy_bench_interval_sink *sink, void *user, fy_err *e)
{
    bench b;
    if (open_bench(&b, m, t, e) != 0)
        return -1;
    int rc = warmup ? warm_up(&b, e) : 0;
    fy_session_rewind(b.s, t->n_depth);
    if (rc == 0)
        rc = sustain(&b, seconds, sink, user, e);
    close_bench(&b);
    return rc;
}
