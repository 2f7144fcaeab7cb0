/* How long a conversion will take, from a sample of it. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/process.h"
#include "base/thread.h"
#include "base/types.h"
#include "convert/write/convert_job.h"

enum {
    SAMPLE_BYTES = 16 << 20, /* of the source */
    OUT_BYTES = 256 << 10,   /* per thread and step */
};

typedef struct {
    fy_convert_stream *stream;
    int64_t index;
    uint64_t n_rows, rows_per_item;
    uint8_t *out; /* OUT_BYTES per thread, at least one row */
    uint64_t out_bytes;
    _Atomic int failed;
} sample;

static uint64_t rows_of(const fy_plan_tensor *t)
{
    return t->ne[1] * t->ne[2];
}

/* The matrix with the most elements, -1: there is none. */
static int64_t largest(const fy_convert_plan *p)
{
    int64_t best = -1;
    uint64_t most = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const fy_plan_tensor *t = &p->tensors[i];
        uint64_t n = t->ne[0] * rows_of(t); /* the plan has checked that they can be counted */
        if (t->src != NULL && t->n_dims > 1 && n > most) {
            most = n;
            best = (int64_t)i;
        }
    }
    return best;
}

static void convert_some(void *ctx, int64_t begin, int64_t end, int thread)
{
    sample *s = ctx;
    fy_err e = {0};
    for (int64_t i = begin; i < end && !s->failed; i++) {
        uint64_t row = (uint64_t)i * s->rows_per_item, n = s->n_rows - row;
        n = n < s->rows_per_item ? n : s->rows_per_item;
        if (fy_convert_fill(s->stream, s->index, row, n, s->out + (size_t)thread * s->out_bytes,
                            thread, &e) != 0)
            s->failed = 1;
    }
}

/* Seconds for the sample; 0: it cannot be converted. */
static double measure(sample *s, fy_pool *pool)
{
    int64_t n_items = (int64_t)((s->n_rows + s->rows_per_item - 1) / s->rows_per_item);
    fy_pool_run(pool, n_items, 1, convert_some, s); /* brings the pages */
    double begin = fy_now_s();
    fy_pool_run(pool, n_items, 1, convert_some, s);
    return s->failed ? 0 : fy_now_s() - begin;
}

bool fy_convert_job_estimate(const fy_convert_job *j, double *seconds)
{
    int64_t index = j->plan != NULL ? largest(j->plan) : -1;
    if (index < 0)
        return false;
    const fy_plan_tensor *t = &j->plan->tensors[index];
    fy_err none = {0};
    uint64_t in_row = t->ne[0] * fy_dtype_bits(t->src->dtype) / 8 + 1;
    uint64_t out_row = fy_type_row_bytes(t->type, t->ne[0]);
    sample s = {.index = index, .n_rows = SAMPLE_BYTES / in_row + 1};
    s.n_rows = s.n_rows < rows_of(t) ? s.n_rows : rows_of(t);
    s.rows_per_item = OUT_BYTES / out_row + 1;
    s.out_bytes = (s.rows_per_item * out_row + 63) / 64 * 64;
    s.stream = fy_convert_stream_new(j->plan, j->r.n_threads, &none);
    if (s.stream != NULL && j->r.fit)
        fy_convert_stream_fit(s.stream);
    s.out = aligned_alloc(64, (size_t)s.out_bytes * (size_t)j->r.n_threads);
    fy_pool *pool = fy_pool_new(j->r.n_threads, &none);
    double took = s.stream != NULL && s.out != NULL && pool != NULL ? measure(&s, pool) : 0;
    uint64_t all = 0;
    for (size_t i = 0; i < j->plan->n_tensors; i++)
        all += j->plan->tensors[i].ne[0] * rows_of(&j->plan->tensors[i]);
    *seconds = took * (double)all / (double)(s.n_rows * t->ne[0]);
    fy_pool_free(pool);
    free(s.out);
    fy_convert_stream_free(s.stream);
    return took > 0;
}
