/* The checks and measurements of `ferry selftest`: kernels, files, parity, threads, the speed of
 * memory and model, and the memory taken. */
#include "cli/measure/selftest.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"
#include "bundle/bundle.h"
#include "bundle/bundle_check.h"
#include "cli/measure/parity.h"
#include "cli/terminal.h"
#include "kernels/kernel_vectors.h"

/* --- the list --------------------------------------------------------------------------------- */

int fy_self_add(fy_self_checks *l, const char *name, fy_self_verdict verdict, double seconds,
                fy_err *e, const char *fmt, ...)
{
    char text[768];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fy_self_check *grown = fy_grow(l->item, l->n, &l->cap, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    l->item = grown;
    fy_self_check c = {strdup(name), strdup(text), verdict, seconds};
    if (c.name == NULL || c.detail == NULL) {
        free(c.name);
        free(c.detail);
        return fy_nomem(e);
    }
    l->item[l->n++] = c;
    return 0;
}

int fy_self_add_error(fy_self_checks *l, const char *name, double seconds, const fy_err *why,
                      fy_err *e)
{
    if (why->code == FY_ENOMEM || why->code == FY_EINTR)
        return fy_fail(e, why->code, "%s", why->msg);
    return fy_self_add(l, name, FY_SELF_FAILED, seconds, e, "%s", why->msg);
}

void fy_self_release(fy_self_checks *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->item[i].name);
        free(l->item[i].detail);
    }
    free(l->item);
    *l = (fy_self_checks){0};
}

/* --- kernels ---------------------------------------------------------------------------------- */

int fy_self_kernels(fy_self_checks *l, fy_err *e)
{
    int rc = 0;
    for (const fy_kernel_row *row = fy_kernel_rows;
         rc == 0 && row < fy_kernel_rows + fy_n_kernel_rows; row++) {
        char name[64];
        fy_err why = {0};
        int n = 0;
        snprintf(name, sizeof name, "kernel %s %s", row->op, row->isa);
        if ((fy_cpu_features() & row->needs) != row->needs) {
            rc = fy_self_add(l, name, FY_SELF_SKIPPED, 0, e, "this CPU lacks it");
            continue;
        }
        fy_kernels k = fy_kernels_for(0);
        fy_kernel_install(&k, row);
        double begin = fy_now_s();
        int bad = fy_kernel_vectors(row->op, &k, &n, &why);
        double took = fy_now_s() - begin;
        rc = bad != 0 ? fy_self_add_error(l, name, took, &why, e)
                      : fy_self_add(l, name, FY_SELF_OK, took, e, "%d vectors", n);
    }
    return rc;
}

/* --- files ------------------------------------------------------------------------------------ */

int fy_self_files(fy_self_checks *l, const char *dir, int n_threads, fy_err *e)
{
    fy_bundle_checked done;
    fy_err why = {0};
    fy_progress progress;
    double begin = fy_now_s();
    fy_show_begin(&progress, "reading", 0);
    int rc = fy_bundle_check(dir, n_threads, &progress, &done, &why);
    fy_show_end(&progress);
    double took = fy_now_s() - begin;
    if (rc != 0)
        return fy_self_add_error(l, "files", took, &why, e);
    return fy_self_add(l, "files", FY_SELF_OK, took, e,
                       "%zu files, %.1f MB, all as the manifest lists them", done.n_files,
                       (double)done.bytes * 1e-6);
}

/* --- parity ----------------------------------------------------------------------------------- */

static int add_part(fy_self_checks *l, const char *name, const char *what, const fy_parity_part *p,
                    fy_err *e)
{
    if (p->n == 0)
        return fy_self_add(l, name, FY_SELF_SKIPPED, p->seconds, e, "the file has none");
    if (p->n_bad > 0)
        return fy_self_add(l, name, FY_SELF_FAILED, p->seconds, e, "%u of %u differ, first: %s",
                           p->n_bad, p->n, p->first);
    return fy_self_add(l, name, FY_SELF_OK, p->seconds, e, "%u %s, all as where it was made", p->n,
                       what);
}

static int compare(fy_self_checks *l, const fy_map *file, fy_model *m, int n_threads, bool quick,
                   fy_err *e)
{
    static const struct {
        const char *name, *what;
    } parts[FY_PARITY_PARTS] = {
        [FY_PARITY_TEXTS] = {"parity texts", "lists of ids"},
        [FY_PARITY_CONVERSATIONS] = {"parity conversations", "prompts"},
        [FY_PARITY_GREEDY] = {"parity greedy", "ids"},
    };
    fy_parity_report r;
    fy_err why = {0};
    if (fy_parity_check(m, file->data, file->size, n_threads, quick, &r, &why) != 0) {
        fy_ctx(&why, FY_BUNDLE_PARITY);
        return fy_self_add_error(l, "parity", 0, &why, e);
    }
    for (int i = 0; i < FY_PARITY_PARTS; i++) {
        if (add_part(l, parts[i].name, parts[i].what, &r.part[i], e) != 0)
            return -1;
    }
    return 0;
}

int fy_self_parity(fy_self_checks *l, const char *model_dir, fy_model *m, int n_threads, bool quick,
                   fy_err *e)
{
    fy_map file;
    fy_err why = {0};
    char *path = fy_path_join(model_dir, FY_BUNDLE_PARITY);
    if (path == NULL)
        return fy_nomem(e);
    int rc;
    if (!fy_file_exists(path)) {
        rc = fy_self_add(l, "parity", FY_SELF_SKIPPED, 0, e,
                         "no " FY_BUNDLE_PARITY " in the workspace");
    } else if (fy_map_open(&file, path, &why) != 0) {
        rc = fy_self_add_error(l, "parity", 0, &why, e);
    } else {
        rc = file.size <= FY_BUNDLE_JSON_MAX_BYTES
                 ? compare(l, &file, m, n_threads, quick, e)
                 : fy_self_add(l, "parity", FY_SELF_FAILED, 0, e,
                               FY_BUNDLE_PARITY ": %zu bytes, expected at most %u", file.size,
                               FY_BUNDLE_JSON_MAX_BYTES);
        fy_map_close(&file);
    }
    free(path);
    return rc;
}

/* --- threads ---------------------------------------------------------------------------------- */

enum { N_IDS = 24 };

/* The last logits of n_ids tokens, computed `step` at a time; the caller frees. */
static float *logits_of(const fy_model *m, uint32_t n_ids, int n_threads, uint32_t step, fy_err *e)
{
    const fy_hparams *hp = fy_model_hparams(m);
    fy_session_params p = {.n_ctx = n_ids,
                           .n_batch = n_ids,
                           .n_threads = n_threads,
                           .type_k = FY_F16,
                           .type_v = FY_F16};
    fy_session *s = fy_session_new(m, &p, e);
    float *out = s != NULL ? malloc(hp->n_vocab * sizeof *out) : NULL;
    const float *last = NULL;
    int32_t ids[N_IDS];
    int rc = s == NULL ? -1 : out == NULL ? fy_nomem(e) : 0;
    for (uint32_t i = 0; i < n_ids; i++)
        ids[i] = (int32_t)(((uint64_t)i * 7919 + 1) % hp->n_vocab);
    for (uint32_t at = 0; rc == 0 && at < n_ids; at += step) {
        uint32_t n = at + step <= n_ids ? step : n_ids - at;
        rc = fy_session_eval(s, ids + at, n, NULL, &last, e);
    }
    if (rc == 0)
        memcpy(out, last, hp->n_vocab * sizeof *out);
    fy_session_free(s);
    if (rc == 0)
        return out;
    free(out);
    return NULL;
}

int fy_self_threads(fy_self_checks *l, const fy_model *m, int n_threads, fy_err *e)
{
    const uint32_t most = fy_model_max_ctx(m), n_ids = most < N_IDS ? most : N_IDS;
    const struct {
        int n_threads;
        uint32_t step;
    } ways[] = {{1, n_ids}, {n_threads, n_ids}, {n_threads, 7}};
    float *logits[3] = {0};
    size_t bytes = fy_model_hparams(m)->n_vocab * sizeof(float);
    fy_err why = {0};
    double begin = fy_now_s();
    bool ok = true;
    for (int i = 0; ok && i < 3; i++)
        ok = (logits[i] = logits_of(m, n_ids, ways[i].n_threads, ways[i].step, &why)) != NULL;
    double took = fy_now_s() - begin;
    int rc;
    if (!ok)
        rc = fy_self_add_error(l, "threads", took, &why, e);
    else if (memcmp(logits[0], logits[1], bytes) != 0)
        rc = fy_self_add(l, "threads", FY_SELF_FAILED, took, e,
                         "%d threads give other logits than one", n_threads);
    else if (memcmp(logits[0], logits[2], bytes) != 0)
        rc = fy_self_add(l, "threads", FY_SELF_FAILED, took, e,
                         "%u tokens in batches of 7 give other logits than at once", n_ids);
    else
        rc =
            fy_self_add(l, "threads", FY_SELF_OK, took, e,
                        "the same logits with 1 and %d threads, at once and in batches", n_threads);
    for (int i = 0; i < 3; i++)
        free(logits[i]);
    return rc;
}

/* --- memory's speed --------------------------------------------------------------------------- */

/* One thread that reads from one place to the next waits for page walks and for the prefetcher at
 * every page; several streams and huge pages give up to twice the rate, which is what the memory
 * can do and no decoding exceeds. */
enum { CHUNK = 1 << 20, STREAMS = 4, HUGE_PAGE = 2 << 20 };

typedef uint64_t words __attribute__((vector_size(32)));

typedef struct {
    const uint8_t *p;
    uint64_t *sum; /* per thread; keeps the loads alive */
} reader;

static uint64_t sum_chunk(const uint8_t *p)
{
    enum { STEP = CHUNK / STREAMS / sizeof(words) };
    const words *w = (const words *)(const void *)p;
    words a[STREAMS] = {{0}};
    for (size_t k = 0; k < STEP; k += 2) {
        for (size_t i = 0; i < STREAMS; i++)
            a[i] += w[k + i * STEP] + w[k + 1 + i * STEP];
    }
    for (size_t i = 1; i < STREAMS; i++)
        a[0] += a[i];
    return a[0][0] + a[0][1] + a[0][2] + a[0][3];
}

static void read_chunks(void *ctx, int64_t begin, int64_t end, int thread)
{
    const reader *r = ctx;
    for (int64_t i = begin; i < end; i++)
        r->sum[thread] += sum_chunk(r->p + (size_t)i * CHUNK);
}

static int read_rounds(fy_pool *pool, reader *r, unsigned n_chunks, double seconds, double *best,
                       fy_err *e)
{
    double end = fy_now_s() + seconds, bytes = (double)n_chunks * (double)CHUNK;
    *best = 0;
    do {
        double begin = fy_now_s();
        fy_pool_run(pool, n_chunks, 1, read_chunks, r);
        double took = fy_now_s() - begin, now = took > 0 ? bytes / took : 0;
        *best = now > *best ? now : *best;
        if (fy_check_interrupt(e) != 0)
            return -1;
    } while (fy_now_s() < end);
    return 0;
}

int fy_read_speed(int n_threads, unsigned megabytes, double seconds, double *rate, fy_err *e)
{
    fy_pool *pool = fy_pool_new(n_threads, e);
    if (pool == NULL)
        return -1;
    const size_t bytes = ((size_t)megabytes * CHUNK + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uint8_t *p = aligned_alloc(HUGE_PAGE, bytes);
    uint64_t *sum = calloc((size_t)n_threads, sizeof *sum);
    int rc = p != NULL && sum != NULL ? 0 : fy_nomem(e);
    double best = 0;
    if (rc == 0) {
        madvise(p, bytes, MADV_HUGEPAGE); /* without huge pages the rate is lower */
        memset(p, 1, bytes);
        rc = read_rounds(pool, &(reader){p, sum}, megabytes, seconds, &best, e);
    }
    if (rc == 0)
        *rate = best;
    free(sum);
    free(p);
    fy_pool_free(pool);
    return rc;
}

/* --- the model's speed ------------------------------------------------------------------------ */

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
    uint64_t announced = out->kv_bytes + out->scratch_bytes;
    bool ok = out->anonymous_bytes <= announced + SLACK;
    return fy_self_add(l, "memory", ok ? FY_SELF_OK : FY_SELF_FAILED, took, e,
                       "%.0f MB besides the model's file, of which %.0f MB were announced%s",
                       megabytes(out->anonymous_bytes), megabytes(announced),
                       ok ? "" : "; expected at most 128 MB more");
}
