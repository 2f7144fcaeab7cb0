/* Collects the squares of what each weight matrix is multiplied with. The address of the weights
 * tells which tensor a product belongs to: they are used where they lie in the file. A matrix that
 * begins inside a tensor is one of its experts, or one of several matrices in it; of these the
 * first one stands for all, because they have the same input. */
#include "model/imatrix_collect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "format/gguf_write.h"
#include "model/session.h"

typedef struct {
    const fy_gguf_tensor *t;
    uint64_t n_mat;
    double *sums;     /* owned, [n_mat][ne[0]]; NULL until it is used */
    uint64_t *counts; /* owned, [n_mat] */
} weight;

struct fy_collector {
    fy_session *session; /* view */
    weight *weights;     /* owned, [n], by address */
    size_t n;
    fy_err err; /* what went wrong while watching */
};

static int by_address(const void *a, const void *b)
{
    const weight *x = a, *y = b;
    return (x->t->data > y->t->data) - (x->t->data < y->t->data);
}

/* The tensor that holds this byte; NULL: none. */
static weight *weight_at(const fy_collector *c, const uint8_t *p)
{
    size_t begin = 0, end = c->n;
    while (begin < end) {
        const size_t mid = begin + (end - begin) / 2;
        if (c->weights[mid].t->data <= p)
            begin = mid + 1;
        else
            end = mid;
    }
    if (begin == 0)
        return NULL;
    weight *w = &c->weights[begin - 1];
    return (uint64_t)(p - w->t->data) < w->t->bytes ? w : NULL;
}

static int make_room(weight *w, fy_err *e)
{
    if (w->sums != NULL)
        return 0;
    w->sums = calloc(w->t->ne[0] * w->n_mat, sizeof *w->sums); /* fewer than the file's elements */
    w->counts = calloc(w->n_mat, sizeof *w->counts);
    return w->sums != NULL && w->counts != NULL ? 0 : fy_nomem(e);
}

static void add_squares(double *restrict sums, const float *restrict x, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        sums[j] += (double)x[j] * (double)x[j];
}

static void watch(void *user, const float *x, int64_t n_tokens, const fy_product *p, int n_products)
{
    fy_collector *c = user;
    for (int i = 0; i < n_products && c->err.code == FY_OK; i++) {
        const fy_matrix *m = p[i].w;
        weight *w = weight_at(c, m->data);
        if (w == NULL) {
            fy_fail(&c->err, FY_EUNSUPPORTED,
                    "its tensors are aligned to less than 4 bytes: write it again with ferry "
                    "quantize or convert");
            return;
        }
        const uint64_t at = (uint64_t)((const uint8_t *)m->data - w->t->data);
        const uint64_t each = w->t->bytes / w->n_mat;
        if (!fy_span_begins(w->t->name, "blk.") || at % each != 0)
            continue;
        if (make_room(w, &c->err) != 0)
            return;
        double *sums = w->sums + at / each * w->t->ne[0];
        for (int64_t t = 0; t < n_tokens; t++)
            add_squares(sums, x + t * m->n_cols, m->n_cols);
        w->counts[at / each] += (uint64_t)n_tokens;
    }
}

fy_collector *fy_collector_new(fy_session *s, fy_err *e)
{
    const fy_gguf *g = s->model->gguf;
    if (s->chain != NULL) {
        fy_fail(
            e, FY_EUNSUPPORTED,
            "the graphs of a cut model do not show what their matrices are multiplied with: use "
            "the whole model (--backend cpu)");
        return NULL;
    }
    fy_collector *c = calloc(1, sizeof *c);
    weight *weights = calloc(fy_gguf_n_tensors(g) + 1, sizeof *weights);
    if (c == NULL || weights == NULL) {
        free(weights);
        free(c);
        fy_nomem(e);
        return NULL;
    }
    *c = (fy_collector){.session = s, .weights = weights, .n = fy_gguf_n_tensors(g)};
    for (size_t i = 0; i < c->n; i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        weights[i] = (weight){.t = t, .n_mat = t->ne[2] * t->ne[3]};
    }
    qsort(weights, c->n, sizeof *weights, by_address);
    fy_backend_watch(s->d.backend, watch, c);
    return c;
}

void fy_collector_free(fy_collector *c)
{
    if (c == NULL)
        return;
    fy_backend_watch(c->session->d.backend, NULL, NULL);
    for (size_t i = 0; i < c->n; i++) {
        free(c->weights[i].sums);
        free(c->weights[i].counts);
    }
    free(c->weights);
    free(c);
}

/* --- the file ------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const weight *const *x = a, *const *y = b;
    return fy_span_order((*x)->t->name, (*y)->t->name);
}

/* Those that were used, by name; counts what there is to say of them. */
static size_t list_used(const fy_collector *c, const weight **list, fy_collected *out)
{
    size_t n = 0;
    *out = (fy_collected){0};
    for (size_t i = 0; i < c->n; i++) {
        if (c->weights[i].sums != NULL)
            list[n++] = &c->weights[i];
    }
    qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; i < n; i++) {
        for (uint64_t k = 0; k < list[i]->n_mat; k++) {
            const uint64_t count = list[i]->counts[k];
            out->n_tokens = count > out->n_tokens ? count : out->n_tokens;
            if (count == 0 && out->n_never++ == 0)
                out->never = list[i]->t->name;
        }
    }
    out->n_tensors = n;
    return n;
}

static int add_weight(fy_gguf_writer *g, const weight *w, fy_err *e)
{
    char name[FY_GGUF_MAX_NAME + 16];
    const int len = (int)w->t->name.len;
    const uint32_t n_dims = w->n_mat > 1 ? 2 : 1; /* as ggml, which drops a last dimension of 1 */
    snprintf(name, sizeof name, "%.*s.in_sum2", len, w->t->name.ptr);
    if (fy_gguf_add_tensor(g, name, FY_F32, n_dims, (uint64_t[]){w->t->ne[0], w->n_mat}, e) < 0)
        return -1;
    snprintf(name, sizeof name, "%.*s.counts", len, w->t->name.ptr);
    return fy_gguf_add_tensor(g, name, FY_F32, n_dims, (uint64_t[]){1, w->n_mat}, e) < 0 ? -1 : 0;
}

/* Tensor 2 i is the sums of used weight i, the next one the counts. */
static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)thread;
    const weight *const *list = user, *w = list[i / 2];
    const uint64_t len = w->t->ne[0];
    float *values = out;
    for (uint64_t k = 0; k < n_rows && i % 2 != 0; k++)
        values[k] = (float)w->counts[row + k];
    for (uint64_t k = 0; k < n_rows * len && i % 2 == 0; k++) {
        values[k] = (float)w->sums[row * len + k];
        char shown[FY_QUOTE_BYTES];
        if (!isfinite(values[k]))
            return fy_fail(e, FY_EFORMAT,
                           "what '%s' is multiplied with is not finite, or too large, in column "
                           "%llu",
                           fy_quote(shown, sizeof shown, w->t->name),
                           (unsigned long long)(k % len));
    }
    return 0;
}

static int write_list(const weight **list, size_t n, const char *path, fy_span dataset,
                      uint32_t n_chunks, uint32_t chunk_size, fy_err *e)
{
    fy_gguf_writer *g = fy_gguf_writer_new(e);
    if (g == NULL)
        return -1;
    int rc = fy_gguf_add_str(g, "general.type", FY_SPAN("imatrix"), e) != 0 ||
                     fy_gguf_begin_strings(g, "imatrix.datasets", e) != 0 ||
                     fy_gguf_add_string(g, dataset, e) != 0 || fy_gguf_end_strings(g, e) != 0 ||
                     fy_gguf_add_u32(g, "imatrix.chunk_count", n_chunks, e) != 0 ||
                     fy_gguf_add_u32(g, "imatrix.chunk_size", chunk_size, e) != 0
                 ? -1
                 : 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_weight(g, list[i], e);
    if (rc == 0)
        rc = fy_gguf_write(g, path, fill, list, NULL, NULL, e);
    fy_gguf_writer_free(g);
    return rc;
}

int fy_collector_write(const fy_collector *c, const char *path, fy_span dataset,
                       uint32_t chunk_size, fy_collected *out, fy_err *e)
{
    if (c->err.code != FY_OK)
        return fy_fail(e, c->err.code, "%s: %s", fy_gguf_path(c->session->model->gguf), c->err.msg);
    const weight **list = malloc((c->n + 1) * sizeof *list);
    if (list == NULL)
        return fy_nomem(e);
    const size_t n = list_used(c, list, out);
    /* What llama-imatrix counts, but a text shorter than a piece is one, too. */
    const uint64_t n_chunks = (out->n_tokens + chunk_size - 1) / chunk_size;
    int rc = n > 0 ? write_list(list, n, path, dataset, (uint32_t)n_chunks, chunk_size, e)
                   : fy_fail(e, FY_EARG, "nothing was computed: there is nothing to write");
    free(list);
    return rc;
}
