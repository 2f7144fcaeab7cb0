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

/* [n_mat][ne[0]] and [n_mat]; NULL until they are used. */
typedef struct {
    double *sums;     /* owned */
    uint64_t *counts; /* owned */
} matrix_sums;

typedef struct {
    const fy_gguf_tensor *t;
    uint64_t n_mat;
    matrix_sums all, window;
} weight;

struct fy_collector {
    const fy_model *model; /* view */
    fy_session *session;   /* view; NULL: none is watched */
    weight *weights;       /* owned, [n], in the order of the file */
    weight **by_address;   /* owned, [n] */
    size_t n;
    uint64_t most_cols;
    fy_err err; /* what went wrong while watching */
};

static int by_address(const void *a, const void *b)
{
    const weight *const *x = a, *const *y = b;
    const uint8_t *p = (*x)->t->data, *q = (*y)->t->data;
    return (p > q) - (p < q);
}

/* The tensor that holds this byte; NULL: none. */
static weight *weight_at(const fy_collector *c, const uint8_t *p)
{
    size_t begin = 0, end = c->n;
    while (begin < end) {
        const size_t mid = begin + (end - begin) / 2;
        if (c->by_address[mid]->t->data <= p)
            begin = mid + 1;
        else
            end = mid;
    }
    if (begin == 0)
        return NULL;
    weight *w = c->by_address[begin - 1];
    return (uint64_t)(p - w->t->data) < w->t->bytes ? w : NULL;
}

static int make_room(const weight *w, matrix_sums *s, fy_err *e)
{
    if (s->sums != NULL)
        return 0;
    s->counts = calloc(w->n_mat, sizeof *s->counts);
    s->sums = s->counts != NULL /* fewer than the file's elements */
                  ? calloc(w->t->ne[0] * w->n_mat, sizeof *s->sums)
                  : NULL;
    if (s->sums != NULL)
        return 0;
    free(s->counts);
    s->counts = NULL;
    return fy_nomem(e);
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
        if (make_room(w, &w->window, &c->err) != 0)
            return;
        double *sums = w->window.sums + at / each * w->t->ne[0];
        for (int64_t t = 0; t < n_tokens; t++)
            add_squares(sums, x + t * m->n_cols, m->n_cols);
        w->window.counts[at / each] += (uint64_t)n_tokens;
    }
}

fy_collector *fy_collector_of(const fy_model *m, fy_err *e)
{
    const fy_gguf *g = fy_model_gguf(m);
    const size_t n = fy_gguf_n_tensors(g);
    fy_collector *c = calloc(1, sizeof *c);
    if (c == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *c = (fy_collector){.model = m,
                        .weights = calloc(n + 1, sizeof *c->weights),
                        .by_address = calloc(n + 1, sizeof(weight *))};
    if (c->weights == NULL || c->by_address == NULL) {
        fy_collector_free(c);
        fy_nomem(e);
        return NULL;
    }
    c->n = n;
    for (size_t i = 0; i < n; i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        c->weights[i] = (weight){.t = t, .n_mat = t->ne[2] * t->ne[3]};
        c->by_address[i] = &c->weights[i];
        c->most_cols = t->ne[0] > c->most_cols ? t->ne[0] : c->most_cols;
    }
    qsort(c->by_address, n, sizeof *c->by_address, by_address);
    return c;
}

fy_collector *fy_collector_new(fy_session *s, fy_err *e)
{
    if (s->chain != NULL) {
        fy_fail(
            e, FY_EUNSUPPORTED,
            "the graphs of a cut model do not show what their matrices are multiplied with: use "
            "the whole model (--backend cpu)");
        return NULL;
    }
    fy_collector *c = fy_collector_of(s->model, e);
    if (c == NULL)
        return NULL;
    c->session = s;
    fy_backend_watch(s->d.backend, watch, c);
    return c;
}

void fy_collector_free(fy_collector *c)
{
    if (c == NULL)
        return;
    if (c->session != NULL)
        fy_backend_watch(c->session->d.backend, NULL, NULL);
    for (size_t i = 0; i < c->n; i++) {
        free(c->weights[i].all.sums);
        free(c->weights[i].all.counts);
        free(c->weights[i].window.sums);
        free(c->weights[i].window.counts);
    }
    free(c->weights);
    free(c->by_address);
    free(c);
}

/* --- windows ---------------------------------------------------------------------------------- */

static int fail_column(const weight *w, uint64_t column, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EFORMAT,
                   "what '%s' is multiplied with is not finite, or too large, in column %llu",
                   fy_quote(shown, sizeof shown, w->t->name), (unsigned long long)column);
}

/* The sums of matrix k as f32, and nothing in their place. */
static int take_sums(weight *w, uint64_t k, float *out, fy_err *e)
{
    const uint64_t n = w->t->ne[0];
    double *sums = w->window.sums + k * n;
    for (uint64_t j = 0; j < n; j++) {
        out[j] = (float)sums[j];
        if (!isfinite(out[j]))
            return fail_column(w, j, e);
    }
    memset(sums, 0, n * sizeof *sums);
    w->window.counts[k] = 0;
    return 0;
}

int fy_collector_end_window(fy_collector *c, fy_collector_sink *sink, void *user, fy_err *e)
{
    if (c->err.code != FY_OK)
        return fy_fail(e, c->err.code, "%s: %s", fy_gguf_path(fy_model_gguf(c->model)), c->err.msg);
    float *sums = malloc((c->most_cols + 1) * sizeof *sums);
    int rc = sums != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < c->n; i++) {
        weight *w = &c->weights[i];
        for (uint64_t k = 0; rc == 0 && w->window.sums != NULL && k < w->n_mat; k++) {
            const fy_collected_matrix m = {(uint32_t)i, (uint32_t)k, (uint32_t)w->window.counts[k],
                                           sums, w->t->ne[0]};
            if (m.n_tokens > 0 && (rc = take_sums(w, k, sums, e)) == 0)
                rc = sink != NULL ? sink(user, &m, e) : fy_collector_add(c, &m, e);
        }
    }
    free(sums);
    return rc;
}

int fy_collector_add(fy_collector *c, const fy_collected_matrix *m, fy_err *e)
{
    if (m->tensor >= c->n || m->matrix >= c->weights[m->tensor].n_mat ||
        m->n_cols != c->weights[m->tensor].t->ne[0])
        return fy_fail(e, FY_EFORMAT,
                       "matrix %u of tensor %u with %llu columns: the model has none such",
                       m->matrix, m->tensor, (unsigned long long)m->n_cols);
    weight *w = &c->weights[m->tensor];
    if (make_room(w, &w->all, e) != 0)
        return -1;
    double *sums = w->all.sums + m->matrix * m->n_cols;
    for (uint64_t j = 0; j < m->n_cols; j++) {
        if (!(m->sums[j] >= 0 && isfinite(m->sums[j])))
            return fail_column(w, j, e);
        sums[j] += (double)m->sums[j];
    }
    w->all.counts[m->matrix] += m->n_tokens;
    return 0;
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
        if (c->weights[i].all.sums != NULL)
            list[n++] = &c->weights[i];
    }
    qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; i < n; i++) {
        for (uint64_t k = 0; k < list[i]->n_mat; k++) {
            const uint64_t count = list[i]->all.counts[k];
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
        values[k] = (float)w->all.counts[row + k];
    for (uint64_t k = 0; k < n_rows * len && i % 2 == 0; k++) {
        values[k] = (float)w->all.sums[row * len + k];
        if (!isfinite(values[k]))
            return fail_column(w, k % len, e);
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

int fy_collector_write(fy_collector *c, const char *path, fy_span dataset, uint32_t chunk_size,
                       fy_collected *out, fy_err *e)
{
    if (fy_collector_end_window(c, NULL, NULL, e) != 0)
        return -1;
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
