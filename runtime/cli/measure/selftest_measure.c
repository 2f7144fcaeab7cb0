/* How fast memory is read, how fast a model computes, and how much memory that took. */
#include "base/err.h"
#include "base/process.h"
#include "cli/measure/read_speed.h"
#include "cli/measure/selftest.h"

enum {
    READ_MEGABYTES = 64, /* beyond the caches of a phone, and of most workstations' cores */
    MOST_PREFILL = 128,
    N_CTX = 256,
    SLACK = 128 << 20, /* vocabulary, tables, the allocator's own */
};

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
    const uint32_t most = fy_model_max_ctx(m),
                   wanted = hp->n_ctx_train < N_CTX ? hp->n_ctx_train : N_CTX;
    fy_session_params p = {.n_ctx = wanted < most ? wanted : most,
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
    if (fy_read_speed(n_threads, READ_MEGABYTES, reading, &out->read_bytes_per_s, e) != 0)
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
