/* How fast memory is read, how fast a model computes, and how much memory that took. */
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "base/thread.h"
#include "cli/selftest.h"
#include "cli/verb.h"

enum {
    READ_BYTES = 64 << 20, /* beyond the caches of a phone, and of most workstations' cores */
    READ_CHUNK = 1 << 20,
    MOST_PREFILL = 128,
    N_CTX = 256,
    SLACK = 128 << 20, /* vocabulary, tables, the allocator's own */
};

/* --- memory ----------------------------------------------------------------------------------- */

typedef uint64_t words __attribute__((vector_size(32)));

typedef struct {
    const uint8_t *p;
    uint64_t *sum; /* per thread; keeps the loads alive */
} reader;

static void read_chunks(void *ctx, int64_t begin, int64_t end, int thread)
{
    const reader *r = ctx;
    words a = {0}, b = {0};
    for (int64_t i = begin; i < end; i++) {
        const words *w = (const words *)(const void *)(r->p + (size_t)i * READ_CHUNK);
        for (size_t k = 0; k < READ_CHUNK / sizeof *w; k += 2) {
            a += w[k];
            b += w[k + 1];
        }
    }
    a += b;
    r->sum[thread] += a[0] + a[1] + a[2] + a[3];
}

/* Bytes per second, the best round of those that fit into the time. */
static int read_memory(int n_threads, double seconds, double *rate, fy_err *e)
{
    fy_pool *pool = fy_pool_new(n_threads, e);
    if (pool == NULL)
        return -1;
    uint8_t *p = aligned_alloc(64, READ_BYTES);
    uint64_t *sum = calloc((size_t)n_threads, sizeof *sum);
    int rc = p != NULL && sum != NULL ? 0 : fy_nomem(e);
    double end = fy_now_s() + seconds, best = 0;
    if (rc == 0) {
        memset(p, 1, READ_BYTES);
        reader r = {p, sum};
        do {
            double begin = fy_now_s();
            fy_pool_run(pool, READ_BYTES / READ_CHUNK, 1, read_chunks, &r);
            double took = fy_now_s() - begin, now = took > 0 ? READ_BYTES / took : 0;
            best = now > best ? now : best;
            rc = fy_check_interrupt(e);
        } while (rc == 0 && fy_now_s() < end);
    }
    *rate = best;
    free(sum);
    free(p);
    fy_pool_free(pool);
    return rc;
}

/* --- a model ---------------------------------------------------------------------------------- */

static void fill_ids(int32_t *ids, uint32_t n, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)(((uint64_t)i * 7919 + 1) % n_vocab);
}

/* Prompts of 8 tokens first, longer ones as far as the time allows: on a slow machine one long
 * prompt alone would take minutes. */
static int measure_prefill(fy_session *s, uint32_t n_vocab, double seconds, fy_self_reading *out,
                           fy_err *e)
{
    int32_t ids[MOST_PREFILL];
    uint32_t most = fy_session_n_ctx(s) < MOST_PREFILL ? fy_session_n_ctx(s) : MOST_PREFILL;
    uint32_t n = most < 8 ? most : 8;
    double end = fy_now_s() + seconds, took;
    fill_ids(ids, MOST_PREFILL, n_vocab);
    for (;;) {
        double begin = fy_now_s();
        fy_session_rewind(s, 0);
        if (fy_session_eval(s, ids, n, NULL, NULL, e) != 0)
            return -1;
        took = fy_now_s() - begin;
        double rate = took > 0 ? n / took : 0;
        if (n > out->n_prefill || (n == out->n_prefill && rate > out->prefill_per_s)) {
            out->prefill_per_s = rate;
            out->n_prefill = n;
        }
        double left = end - fy_now_s();
        uint32_t next = n * 4 < most ? n * 4 : most;
        if (next > n && rate > 0 && next / rate <= left)
            n = next;
        else if (took > left)
            return 0;
    }
}

static int measure_decode(fy_session *s, uint32_t n_vocab, double seconds, fy_self_reading *out,
                          fy_err *e)
{
    int32_t ids[MOST_PREFILL];
    uint32_t most = fy_session_n_ctx(s) < MOST_PREFILL ? fy_session_n_ctx(s) : MOST_PREFILL;
    double begin = fy_now_s(), now = begin;
    uint32_t n = 0;
    fill_ids(ids, MOST_PREFILL, n_vocab);
    fy_session_rewind(s, 0);
    while (now < begin + seconds) {
        if (n % most == 0)
            fy_session_rewind(s, 0);
        if (fy_session_eval(s, &ids[n % most], 1, NULL, NULL, e) != 0)
            return -1;
        n++;
        now = fy_now_s();
    }
    out->n_decode = n;
    out->decode_per_s = now > begin ? n / (now - begin) : 0;
    return 0;
}

static int measure_model(const fy_model *m, double seconds, fy_self_reading *out, fy_err *e)
{
    const fy_hparams *hp = fy_model_hparams(m);
    fy_session_params p = {.n_ctx = hp->n_ctx_train < N_CTX ? hp->n_ctx_train : N_CTX,
                           .n_batch = MOST_PREFILL,
                           .n_threads = out->n_threads,
                           .type_k = FY_F16,
                           .type_v = FY_F16};
    fy_session_plan plan;
    if (fy_session_plan_of(m, &p, &plan, e) != 0)
        return -1;
    fy_session *s = fy_session_new(m, &p, e);
    int rc = s != NULL ? measure_prefill(s, hp->n_vocab, seconds / 2, out, e) : -1;
    if (rc == 0)
        rc = measure_decode(s, hp->n_vocab, seconds / 2, out, e);
    out->kv_bytes = plan.kv_bytes;
    out->scratch_bytes = plan.scratch_bytes;
    out->anonymous_bytes = fy_rss_anon_bytes();
    fy_session_free(s);
    return rc;
}

static double megabytes(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

int fy_self_measure(fy_self_checks *l, const fy_model *m, int n_threads, double seconds,
                    fy_self_reading *out, fy_err *e)
{
    double begin = fy_now_s(), reading = seconds / (m != NULL ? 10 : 4);
    fy_err why = {0};
    *out = (fy_self_reading){.n_threads = n_threads};
    if (read_memory(n_threads, reading, &out->read_bytes_per_s, e) != 0)
        return -1;
    if (m == NULL)
        return 0;
    if (measure_model(m, seconds - reading, out, &why) != 0)
        return fy_self_add_error(l, "speed", fy_now_s() - begin, &why, e);
    out->peak_bytes = fy_rss_peak_bytes();
    double took = fy_now_s() - begin;
    uint64_t said = out->kv_bytes + out->scratch_bytes;
    bool ok = out->anonymous_bytes <= said + SLACK;
    return fy_self_add(l, "memory", ok ? FY_SELF_OK : FY_SELF_FAILED, took, e,
                       "%.0f MB beside the model's file, of which %.0f MB were announced%s",
                       megabytes(out->anonymous_bytes), megabytes(said),
                       ok ? "" : "; expected at most 128 MB more");
}
