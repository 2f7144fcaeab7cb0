/* How long quantizing takes, by a sample of the largest matrix. */
#include <stdlib.h>

#include "base/process.h"
#include "quantize/requantize.h"

enum { SAMPLE_BYTES = 8 << 20, ITEM_BYTES = 256 << 10 }; /* of the source; of an item's output */

typedef struct {
    fy_requant *q;
    size_t tensor;
    uint64_t n_rows, rows_per_item, out_bytes;
    uint8_t *out; /* [n_threads * out_bytes] */
    _Atomic int failed;
} sample;

static uint64_t rows_of(const fy_gguf_tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3]; /* the reader has checked them */
}

static void quantize_some(void *ctx, int64_t begin, int64_t end, int thread)
{
    sample *s = ctx;
    fy_err e = {0};
    for (int64_t i = begin; i < end && !s->failed; i++) {
        const uint64_t row = (uint64_t)i * s->rows_per_item, left = s->n_rows - row;
        if (fy_requant_fill(s->q, (int64_t)s->tensor, row,
                            left < s->rows_per_item ? left : s->rows_per_item,
                            s->out + (size_t)thread * s->out_bytes, thread, &e) != 0)
            s->failed = 1;
    }
}

/* The second time, when its pages are in memory. */
static double seconds_of(sample *s, fy_pool *pool)
{
    const int64_t n = (int64_t)((s->n_rows + s->rows_per_item - 1) / s->rows_per_item);
    fy_pool_run(pool, n, 1, quantize_some, s);
    const double begin = fy_now_s();
    fy_pool_run(pool, n, 1, quantize_some, s);
    return s->failed ? 0 : fy_now_s() - begin;
}

bool fy_requant_estimate(fy_requant *q, fy_pool *pool, double *seconds)
{
    uint64_t all = 0, most = 0;
    sample s = {.q = q};
    for (size_t i = 0; i < q->stats.n_tensors; i++) {
        const fy_gguf_tensor *t = q->tensors[i].from;
        const uint64_t n = t->ne[0] * rows_of(t);
        all += n;
        if (n > most && rows_of(t) > 1 && !q->tensors[i].transposed) {
            most = n;
            s.tensor = i;
        }
    }
    if (most == 0)
        return false;
    const fy_requant_tensor *plan = &q->tensors[s.tensor];
    const fy_gguf_tensor *t = plan->from;
    const uint64_t to = fy_type_row_bytes(plan->to, t->ne[0]);
    s.n_rows = SAMPLE_BYTES / (fy_type_row_bytes(t->type, t->ne[0]) + 1) + 1;
    s.n_rows = s.n_rows < rows_of(t) ? s.n_rows : rows_of(t);
    s.rows_per_item = ITEM_BYTES / (to + 1) + 1;
    s.out_bytes = (s.rows_per_item * to + 63) / 64 * 64;
    s.out = aligned_alloc(64, s.out_bytes * (size_t)fy_pool_threads(pool));
    const double took = s.out != NULL ? seconds_of(&s, pool) : 0;
    free(s.out);
    *seconds = took * (double)all / (double)(s.n_rows * t->ne[0]);
    return took > 0;
}
