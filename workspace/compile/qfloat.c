/* The float interpreter of a graph. */
#include "workspace/compile/qfloat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/math.h"
#include "model/weights.h"

struct fy_qfloat {
    const fy_qgraph *g;
    const fy_model *m;
    fy_backend *backend;
    fy_pool *pool;
    fy_kernels kernels;
    fy_arena arena;    /* the lists, and values of vectors */
    void **buffers;    /* [border] of the caller */
    float **at;        /* [n_tensors] */
    fy_matrix *matrix; /* [n_tensors] rows of the model */
    float **places;    /* owned each: shared by tensors that do not live together */
    size_t n_places;
    float *scratch; /* owned: [threads][...], or the rows of a product */
    size_t thread_floats;
};

const fy_qgraph *fy_qfloat_graph(const fy_qfloat *f)
{
    return f->g;
}

fy_pool *fy_qfloat_pool(const fy_qfloat *f)
{
    return f->pool;
}

const float *fy_qfloat_values(const fy_qfloat *f, uint32_t tensor)
{
    return f->at[tensor];
}

static const fy_q_tensor *out_of(const fy_qfloat *f, const fy_q_node *n)
{
    return &f->g->tensors[n->out];
}

static const fy_q_tensor *in_of(const fy_qfloat *f, const fy_q_node *n, uint32_t i)
{
    return &f->g->tensors[n->in[i]];
}

static size_t n_values(const fy_q_tensor *t)
{
    return fy_q_elements(t);
}

/* --- where values lie ------------------------------------------------------------------------- */

typedef struct {
    size_t floats;
    uint32_t free_after; /* the last node that reads what lies there */
    bool taken;
} place;

/* A node that only gives its input another name. A cast's values may be rounded. */
static bool is_view(const fy_qfloat *f, const fy_q_node *n)
{
    return n->op == FY_Q_RESHAPE && out_of(f, n)->kind == FY_Q_INNER;
}

/* last[t]: the last node that reads tensor t, through views too. */
static void find_last_readers(const fy_qfloat *f, uint32_t *last)
{
    for (size_t i = 0; i < f->g->n_nodes; i++) {
        for (uint32_t k = 0; k < f->g->nodes[i].n_in; k++)
            last[f->g->nodes[i].in[k]] = (uint32_t)i;
    }
    for (size_t i = f->g->n_nodes; i > 0; i--) {
        const fy_q_node *n = &f->g->nodes[i - 1];
        if (is_view(f, n) && last[n->out] > last[n->in[0]])
            last[n->in[0]] = last[n->out];
    }
}

/* Gives each tensor inside one of a few places; fills where[tensor] and the sizes. */
static int give_places(const fy_qfloat *f, uint32_t *where, place **list, size_t *n, fy_err *e)
{
    const fy_qgraph *g = f->g;
    size_t cap = 0;
    uint32_t *last = calloc(g->n_tensors, sizeof *last);
    if (last == NULL)
        return fy_nomem(e);
    find_last_readers(f, last);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->n_nodes; i++) {
        const fy_q_node *node = &g->nodes[i];
        const size_t floats = n_values(out_of(f, node));
        size_t best = *n;
        for (size_t p = 0; p < *n; p++) {
            place *one = &(*list)[p];
            one->taken = one->taken && one->free_after >= i;
            if (!one->taken && one->floats >= floats &&
                (best == *n || one->floats < (*list)[best].floats))
                best = p;
        }
        if (is_view(f, node) || out_of(f, node)->kind == FY_Q_OUT)
            continue;
        if (best == *n) {
            const place fresh = {.floats = floats};
            rc = fy_append(list, n, &cap, &fresh, sizeof fresh, e);
        }
        if (rc == 0) {
            (*list)[best].taken = true;
            (*list)[best].free_after = last[node->out] > i ? last[node->out] : (uint32_t)i;
            where[node->out] = (uint32_t)best;
        }
    }
    free(last);
    return rc;
}

static float *floats_of(size_t n, fy_err *e)
{
    uint64_t bytes;
    float *p = fy_mul_u64(n, sizeof *p, &bytes) && fy_align_u64(bytes, FY_LAYOUT_ALIGN, &bytes)
                   ? aligned_alloc(FY_LAYOUT_ALIGN, (size_t)bytes)
                   : NULL;
    if (p == NULL)
        fy_nomem(e);
    return p;
}

static int place_values(fy_qfloat *f, fy_err *e)
{
    const fy_qgraph *g = f->g;
    place *list = NULL;
    uint32_t *where = calloc(g->n_tensors, sizeof *where);
    int rc = where == NULL ? fy_nomem(e) : give_places(f, where, &list, &f->n_places, e);
    f->places = rc == 0 ? calloc(f->n_places + 1, sizeof *f->places) : NULL;
    if (rc == 0 && f->places == NULL)
        rc = fy_nomem(e);
    for (size_t p = 0; rc == 0 && p < f->n_places; p++) {
        f->places[p] = floats_of(list[p].floats, e);
        rc = f->places[p] == NULL ? -1 : 0;
    }
    for (size_t i = 0; rc == 0 && i < g->n_nodes; i++) {
        const fy_q_node *n = &g->nodes[i];
        if (is_view(f, n))
            f->at[n->out] = f->at[n->in[0]];
        else if (out_of(f, n)->kind == FY_Q_INNER)
            f->at[n->out] = f->places[where[n->out]];
    }
    free(where);
    free(list);
    return rc;
}

/* --- what does not change --------------------------------------------------------------------- */

/* The rows of a matrix where the model has them. Order and scale are the product's business. */
static int prepare_matrix(fy_qfloat *f, uint32_t t, fy_err *e)
{
    const fy_q_tensor *q = &f->g->tensors[t];
    const fy_q_static *s = &q->from;
    fy_matrix *w = &f->matrix[t];
    if (s->hadamard) {
        float *rows = fy_arena_calloc(&f->arena, n_values(q), sizeof *rows);
        if (rows == NULL)
            return fy_nomem(e);
        fy_qgraph_matrix(f->m, q, 0, s->n, rows);
        *w = (fy_matrix){rows, FY_F32, q->dims[2] * sizeof(float), s->n, q->dims[2],
                         0};
        return 0;
    }
    *w = s->slot == FY_T_OUTPUT ? *f->m->output : fy_layer_at(f->m, s->layer)->w[s->slot];
    w->data = (const uint8_t *)w->data + s->first * w->row_bytes;
    w->n_rows = s->n;
    return 0;
}

static int prepare_statics(fy_qfloat *f, fy_err *e)
{
    for (uint32_t t = 0; t < f->g->n_tensors; t++) {
        const fy_q_tensor *q = &f->g->tensors[t];
        if (q->kind != FY_Q_STATIC)
            continue;
        if (q->class == FY_QC_WEIGHT) {
            if (prepare_matrix(f, t, e) != 0)
                return -1;
            continue;
        }
        f->at[t] = fy_arena_calloc(&f->arena, n_values(q), sizeof(float));
        if (f->at[t] == NULL)
            return fy_nomem(e);
        if (fy_qgraph_vector(f->m, q, f->at[t], e) != 0)
            return -1;
    }
    return 0;
}

static int prepare_border(fy_qfloat *f, fy_err *e)
{
    for (uint32_t t = 0, n = (uint32_t)fy_qgraph_n_border(f->g); t < n; t++) {
        const fy_q_tensor *q = &f->g->tensors[t];
        f->at[t] = q->class == FY_QC_MASK ? fy_arena_calloc(&f->arena, n_values(q), sizeof(float))
                                          : f->buffers[t];
        if (f->at[t] == NULL)
            return fy_nomem(e);
    }
    return 0;
}

/* --- products --------------------------------------------------------------------------------- */

static void conv(fy_qfloat *f, const fy_q_node *n)
{
    const fy_q_tensor *y = out_of(f, n);
    const fy_q_static *s = &in_of(f, n, 1)->from;
    const float *bias = n->n_in > 2 ? f->at[n->in[2]] : NULL;
    const uint32_t rows = fy_q_rows(y), cols = fy_q_cols(y);
    const bool direct = !s->halves && s->scale == 1;
    float *to = f->at[n->out];
    const fy_product p = {
        .w = &f->matrix[n->in[1]], .bias = direct ? bias : NULL, .y = direct ? to : f->scratch};
    fy_backend_matmul(f->backend, f->at[n->in[0]], rows, &p, 1);
    for (uint32_t i = 0; i < cols && !direct; i++) {
        const uint64_t from = fy_qgraph_row(&f->m->hp, s, i) - s->first;
        for (uint32_t r = 0; r < rows; r++)
            to[(size_t)r * cols + i] =
                s->scale * f->scratch[(size_t)r * cols + from] + (bias != NULL ? bias[i] : 0);
    }
}

enum { ROWS_OF_PART = 1024 };

typedef struct {
    const fy_q_matrix *w;
    const fy_q_tensor *t;
    uint32_t first;
    float *rows; /* [ROWS_OF_PART][n_in] */
} decode_job;

static void decode_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const decode_job *j = ctx;
    (void)thread;
    fy_q_matrix_decode(j->w, j->t, j->first + (uint32_t)begin, (uint32_t)(end - begin),
                       j->rows + (size_t)begin * j->t->dims[2]);
}

/* The product with what the bytes of the matrix stand for, a part of its rows after the other. */
static void coded_product(fy_qfloat *f, const fy_q_node *n, const fy_q_matrix *w, float *part)
{
    const fy_q_tensor *y = out_of(f, n), *t = in_of(f, n, 1);
    const float *bias = n->n_in > 2 ? f->at[n->in[2]] : NULL;
    const uint32_t rows = fy_q_rows(y), cols = fy_q_cols(y);
    decode_job j = {w, t, 0, part};
    for (; j.first < cols; j.first += ROWS_OF_PART) {
        const uint32_t k = cols - j.first < ROWS_OF_PART ? cols - j.first : ROWS_OF_PART;
        const fy_matrix m = {part, FY_F32, t->dims[2] * sizeof(float), k, t->dims[2], 0};
        const fy_product p = {.w = &m, .y = f->scratch};
        fy_pool_run(f->pool, k, 64, decode_rows, &j);
        fy_backend_matmul(f->backend, f->at[n->in[0]], rows, &p, 1);
        for (uint32_t r = 0; r < rows; r++) {
            float *to = f->at[n->out] + (size_t)r * cols + j.first;
            for (uint32_t i = 0; i < k; i++)
                to[i] = f->scratch[(size_t)r * k + i] + (bias != NULL ? bias[j.first + i] : 0);
        }
    }
}

static int coded_conv(fy_qfloat *f, const fy_q_node *n, const fy_qfloat_codes *c, fy_err *e)
{
    const fy_q_tensor *t = in_of(f, n, 1);
    fy_q_matrix w;
    char name[FY_Q_MATRIX_NAME];
    const fy_q_fit fit = {
        .importance = c->ranges != NULL
                          ? fy_q_ranges_importance(c->ranges, fy_qgraph_matrix_name(&t->from, name),
                                                   t->dims[2])
                          : NULL};
    if (fy_q_matrix_encode(f->m, t, &fit, f->pool, &w, e) != 0)
        return -1;
    float *part = floats_of((size_t)ROWS_OF_PART * t->dims[2], e);
    if (part != NULL)
        coded_product(f, n, &w, part);
    free(part);
    fy_q_matrix_release(&w);
    return part != NULL ? 0 : -1;
}

/* Columns [begin, end) of a row of the mask that some row of the batch sees, in [from, to). */
static void seen_columns(const float *mask, uint32_t rows, uint32_t cols, uint32_t from,
                         uint32_t to, uint32_t *begin, uint32_t *end)
{
    *begin = to;
    *end = from;
    for (uint32_t r = 0; r < rows; r++) {
        const float *row = mask + (size_t)r * cols;
        for (uint32_t c = from; c < to; c++) {
            if (row[c] == 0) {
                *begin = c < *begin ? c : *begin;
                *end = c + 1 > *end ? c + 1 : *end;
            }
        }
    }
}

typedef struct {
    const fy_qfloat *f;
    const float *a, *b;
    float *y;
    uint32_t k, n, begin, end; /* columns of y to compute */
    const float *packed;       /* columns [begin, end) of b, [k][end - begin] */
} product_job;

/* y[r] = a[r] b, by the kernel that adds weighted rows. */
static void product_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const product_job *j = ctx;
    const uint32_t width = j->end - j->begin;
    float p[FY_ATTEND_CHUNK] = {0};
    float *sum = j->f->scratch + (size_t)thread * j->f->thread_floats;
    for (int64_t r = begin; r < end; r++) {
        const float *a = j->a + (size_t)r * j->k;
        memset(sum, 0, width * sizeof *sum);
        for (uint32_t i = 0; i < j->k; i += FY_ATTEND_CHUNK) {
            const uint32_t n = j->k - i < FY_ATTEND_CHUNK ? j->k - i : FY_ATTEND_CHUNK;
            bool any = false;
            for (uint32_t c = 0; c < n; c++) {
                p[c] = a[i + c];
                any |= p[c] != 0;
            }
            if (any)
                j->f->kernels.attend_add_f32(sum, p, 1, j->packed + (size_t)i * width, n, width);
        }
        memcpy(j->y + (size_t)r * j->n + j->begin, sum, width * sizeof *sum);
    }
}

static void product_columns(fy_qfloat *f, const fy_q_node *n, uint32_t begin, uint32_t end)
{
    const fy_q_tensor *y = out_of(f, n), *a = in_of(f, n, 0);
    const uint32_t k = fy_q_cols(a), cols = fy_q_cols(y);
    const size_t threads = (size_t)fy_pool_threads(f->pool);
    float *packed = f->scratch + threads * f->thread_floats;
    product_job j = {.f = f,
                     .a = f->at[n->in[0]],
                     .b = f->at[n->in[1]],
                     .y = f->at[n->out],
                     .k = k,
                     .n = cols,
                     .begin = begin,
                     .end = end,
                     .packed = packed};
    if (begin >= end)
        return;
    if (begin == 0 && end == cols)
        j.packed = j.b;
    for (uint32_t i = 0; i < k && j.packed == packed; i++)
        memcpy(packed + (size_t)i * (end - begin), j.b + (size_t)i * cols + begin,
               (end - begin) * sizeof(float));
    fy_pool_run(f->pool, fy_q_rows(y), 4, product_rows, &j);
}

/* A product for each token and head, small ones. */
typedef struct {
    const float *a, *b;
    float *y;
    uint32_t m, k, n;
} small_products;

static void multiply_small(void *ctx, int64_t begin, int64_t end, int thread)
{
    const small_products *j = ctx;
    const size_t k = j->k, n = j->n;
    (void)thread;
    for (size_t r = (size_t)begin; r < (size_t)end; r++) { /* rows of all products */
        const float *a = j->a + r * k, *b = j->b + r / j->m * k * n;
        float *y = j->y + r * n;
        memset(y, 0, n * sizeof *y);
        for (size_t i = 0; i < k; i++) {
            for (size_t c = 0; c < n; c++)
                y[c] += a[i] * b[i * n + c];
        }
    }
}

/* Scores of columns that nobody sees stay 0. */
static void matmul(fy_qfloat *f, const fy_q_node *n)
{
    const fy_q_tensor *y = out_of(f, n);
    uint32_t begin, end;
    if (y->rank == 4 && (size_t)y->dims[0] * y->dims[1] > 1) {
        small_products j = {.a = f->at[n->in[0]],
                            .b = f->at[n->in[1]],
                            .y = f->at[n->out],
                            .m = fy_q_rows(y),
                            .k = fy_q_cols(in_of(f, n, 0)),
                            .n = fy_q_cols(y)};
        fy_pool_run(f->pool, (int64_t)(n_values(y) / j.n), 64, multiply_small, &j);
        return;
    }
    if (y->class != FY_QC_SCORE) {
        product_columns(f, n, 0, fy_q_cols(y));
        return;
    }
    memset(f->at[n->out], 0, n_values(y) * sizeof(float));
    const uint32_t bounds[] = {0, f->g->n_cache, fy_q_cols(y)};
    for (int i = 0; i < 2; i++) {
        seen_columns(f->at[y->mask], fy_q_rows(y), fy_q_cols(y), bounds[i], bounds[i + 1], &begin,
                     &end);
        product_columns(f, n, begin, end);
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

static void rms_norm(fy_qfloat *f, const fy_q_node *n)
{
    const fy_q_tensor *y = out_of(f, n);
    const bool has_beta = in_of(f, n, 2)->from.slot != FY_T_COUNT;
    const fy_norm norm = {.w = f->at[n->in[1]],
                          .bias = has_beta ? f->at[n->in[2]] : NULL,
                          .eps = n->eps,
                          .centred = n->op == FY_Q_LAYER_NORM};
    fy_backend_norm(f->backend, f->at[n->out], f->at[n->in[0]], &norm,
                    (int64_t)(n_values(y) / fy_q_cols(y)), fy_q_cols(y));
}

/* A node's rows or values for a thread. */
typedef struct {
    const fy_qfloat *f;
    const fy_q_node *n;
} share;

/* Chunks that nobody sees have no exponential. */
static void softmax_row(const fy_kernels *k, float *y, const float *x, uint32_t n)
{
    float p[FY_ATTEND_CHUNK], most = x[0];
    for (uint32_t c = 1; c < n; c++)
        most = x[c] > most ? x[c] : most;
    fy_softmax state = {.max = most};
    for (uint32_t from = 0; from < n; from += FY_ATTEND_CHUNK) {
        const uint32_t len = n - from < FY_ATTEND_CHUNK ? n - from : FY_ATTEND_CHUNK;
        bool any = false;
        for (uint32_t c = 0; c < len; c++) {
            p[c] = x[from + c];
            any |= p[c] - most > -104;
        }
        if (any)
            k->attend_softmax(p, 1, 0, (int)len, 1, 0, &state);
        else
            memset(p, 0, sizeof p);
        memcpy(y + from, p, len * sizeof *p);
    }
    const float scale = (float)(1 / state.sum);
    for (uint32_t c = 0; c < n; c++)
        y[c] *= scale;
}

static void softmax_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const share *j = ctx;
    const uint32_t cols = fy_q_cols(out_of(j->f, j->n));
    (void)thread;
    for (int64_t r = begin; r < end; r++)
        softmax_row(&j->f->kernels, j->f->at[j->n->out] + (size_t)r * cols,
                    j->f->at[j->n->in[0]] + (size_t)r * cols, cols);
}

static void softmax(fy_qfloat *f, const fy_q_node *n)
{
    share j = {f, n};
    fy_pool_run(f->pool, fy_q_rows(out_of(f, n)), 4, softmax_rows, &j);
}

static void rope(fy_qfloat *f, const fy_q_node *n)
{
    const fy_q_tensor *t = out_of(f, n);
    const uint32_t rows = fy_q_rows(t), half = fy_q_cols(t) / 2;
    for (uint32_t r = 0; r < rows; r++) {
        const float *x = f->at[n->in[0]] + (size_t)r * 2 * half;
        const float *cos = f->at[n->in[1]] + (size_t)r * half;
        const float *sin = f->at[n->in[2]] + (size_t)r * half;
        float *y = f->at[n->out] + (size_t)r * 2 * half;
        for (uint32_t i = 0; i < half; i++) {
            y[i] = x[i] * cos[i] - x[i + half] * sin[i];
            y[i + half] = x[i + half] * cos[i] + x[i] * sin[i];
        }
    }
}

/* --- elements --------------------------------------------------------------------------------- */

enum { VALUES = 1 << 14 }; /* a thread takes at a time */

static void binary_values(void *ctx, int64_t begin, int64_t end, int thread)
{
    const share *j = ctx;
    const fy_qfloat *f = j->f;
    const size_t step = n_values(in_of(f, j->n, 1)) == 1 ? 0 : 1, to = (size_t)end;
    const float *a = f->at[j->n->in[0]], *b = f->at[j->n->in[1]];
    float *y = f->at[j->n->out];
    (void)thread;
    if (j->n->op == FY_Q_ADD) {
        for (size_t i = (size_t)begin; i < to; i++)
            y[i] = a[i] + b[i * step];
    } else if (j->n->op == FY_Q_MULTIPLY) {
        for (size_t i = (size_t)begin; i < to; i++)
            y[i] = a[i] * b[i * step];
    } else if (j->n->op == FY_Q_SUBTRACT) {
        for (size_t i = (size_t)begin; i < to; i++)
            y[i] = a[i] - b[i * step];
    } else { /* FY_Q_GREATER */
        for (size_t i = (size_t)begin; i < to; i++)
            y[i] = a[i] > b[i * step];
    }
}

static float combine(fy_q_op op, float a, float b)
{
    return op == FY_Q_ADD        ? a + b
           : op == FY_Q_MULTIPLY ? a * b
           : op == FY_Q_SUBTRACT ? a - b
                                 : a > b;
}

/* How far apart elements of t are along dimension d of a result of rank 4; 0: it has one there. */
static size_t stride_of(const fy_q_tensor *t, uint32_t d)
{
    const uint32_t missing = 4 - t->rank;
    size_t n = 1;
    if (d < missing || t->dims[d - missing] == 1)
        return 0;
    for (uint32_t i = d - missing + 1; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* Dimensions of 1 are repeated. */
static void spread_binary(fy_qfloat *f, const fy_q_node *n)
{
    const fy_q_tensor *y = out_of(f, n);
    const uint32_t *dims = y->dims;
    size_t step[2][4];
    float *to = f->at[n->out];
    for (uint32_t i = 0; i < 8; i++)
        step[i / 4][i % 4] = stride_of(in_of(f, n, i / 4), i % 4);
    for (size_t row = 0; row < (size_t)dims[0] * dims[1] * dims[2]; row++) {
        const size_t at[3] = {row / dims[2] / dims[1], row / dims[2] % dims[1], row % dims[2]};
        const float *in[2];
        for (int i = 0; i < 2; i++)
            in[i] = f->at[n->in[i]] + at[0] * step[i][0] + at[1] * step[i][1] + at[2] * step[i][2];
        for (uint32_t c = 0; c < dims[3]; c++)
            *to++ = combine(n->op, in[0][c * step[0][3]], in[1][c * step[1][3]]);
    }
}

static void binary(fy_qfloat *f, const fy_q_node *n)
{
    share j = {f, n};
    const size_t all = n_values(out_of(f, n)), other = n_values(in_of(f, n, 1));
    if (n_values(in_of(f, n, 0)) != all || (other != all && other != 1)) {
        spread_binary(f, n);
        return;
    }
    fy_pool_run(f->pool, (int64_t)n_values(out_of(f, n)), VALUES, binary_values, &j);
}

static void pick(fy_qfloat *f, const fy_q_node *n)
{
    const size_t all = n_values(out_of(f, n)), step = n_values(in_of(f, n, 2)) == 1 ? 0 : 1;
    const float *is = f->at[n->in[0]], *a = f->at[n->in[1]], *b = f->at[n->in[2]];
    for (size_t i = 0; i < all; i++)
        f->at[n->out][i] = is[i] != 0 ? a[i] : b[i * step];
}

static void unary_values(void *ctx, int64_t begin, int64_t end, int thread)
{
    const share *j = ctx;
    const fy_q_op op = j->n->op;
    const float *x = j->f->at[j->n->in[0]];
    float *y = j->f->at[j->n->out];
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        y[i] = op == FY_Q_SIGMOID ? 1 / (1 + fy_exp(-x[i]))
               : op == FY_Q_TANH  ? tanhf(x[i])
               : op == FY_Q_NEG   ? -x[i]
               : op == FY_Q_EXP   ? fy_exp(x[i])
               : op == FY_Q_RELU  ? (x[i] > 0 ? x[i] : 0)
                                  : x[i];
    if (op == FY_Q_GELU)
        fy_kernels_activate(&j->f->kernels, j->n->act, 0, y + begin, NULL, end - begin);
}

static void unary(fy_qfloat *f, const fy_q_node *n)
{
    share j = {f, n};
    fy_pool_run(f->pool, (int64_t)n_values(out_of(f, n)), VALUES, unary_values, &j);
}

/* --- layout ----------------------------------------------------------------------------------- */

/* Elements before an axis: runs that lie apart. */
static size_t n_runs(const fy_q_tensor *t, uint32_t axis)
{
    size_t n = 1;
    for (uint32_t i = 0; i < axis; i++)
        n *= t->dims[i];
    return n;
}

static void slice(fy_qfloat *f, const fy_q_node *n)
{
    const fy_q_tensor *x = in_of(f, n, 0), *y = out_of(f, n);
    const size_t runs = n_runs(y, n->axis), run = n_values(y) / runs, from = n_values(x) / runs,
                 skip = from / x->dims[n->axis] * n->begin;
    for (size_t r = 0; r < runs; r++)
        memcpy(f->at[n->out] + r * run, f->at[n->in[0]] + r * from + skip, run * sizeof(float));
}

static void concat(fy_qfloat *f, const fy_q_node *n)
{
    const size_t runs = n_runs(out_of(f, n), n->axis);
    float *to = f->at[n->out];
    for (size_t r = 0; r < runs; r++) {
        for (uint32_t i = 0; i < n->n_in; i++) {
            const size_t each = n_values(in_of(f, n, i)) / runs;
            memcpy(to, f->at[n->in[i]] + r * each, each * sizeof(float));
            to += each;
        }
    }
}

static void transpose(fy_qfloat *f, const fy_q_node *n)
{
    const uint32_t rows = fy_q_rows(in_of(f, n, 0)), cols = fy_q_cols(in_of(f, n, 0));
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t c = 0; c < cols; c++)
            f->at[n->out][(size_t)c * rows + r] = f->at[n->in[0]][(size_t)r * cols + c];
    }
}

/* To a border's tensor; inside it is a view. */
static void copy(fy_qfloat *f, const fy_q_node *n)
{
    if (f->at[n->out] != f->at[n->in[0]])
        memcpy(f->at[n->out], f->at[n->in[0]], n_values(out_of(f, n)) * sizeof(float));
}

/* --- the graph -------------------------------------------------------------------------------- */

static void (*const compute[FY_Q_OP_COUNT])(fy_qfloat *, const fy_q_node *) = {
    [FY_Q_CONV] = conv,           [FY_Q_MATMUL] = matmul,   [FY_Q_RMS_NORM] = rms_norm,
    [FY_Q_LAYER_NORM] = rms_norm, [FY_Q_SOFTMAX] = softmax, [FY_Q_ADD] = binary,
    [FY_Q_SUBTRACT] = binary,     [FY_Q_EXP] = unary,       [FY_Q_MULTIPLY] = binary,
    [FY_Q_NEG] = unary,           [FY_Q_GREATER] = binary,  [FY_Q_SELECT] = pick,
    [FY_Q_SIGMOID] = unary,       [FY_Q_TANH] = unary,      [FY_Q_GELU] = unary,
    [FY_Q_RELU] = unary,          [FY_Q_SLICE] = slice,     [FY_Q_CONCAT] = concat,
    [FY_Q_TRANSPOSE] = transpose, [FY_Q_RESHAPE] = copy,    [FY_Q_CAST] = copy,
    [FY_Q_ROPE] = rope,
};

static void read_masks(fy_qfloat *f)
{
    for (uint32_t t = 0; t < f->g->n_tensors; t++) {
        const fy_q_tensor *q = &f->g->tensors[t];
        if (q->kind != FY_Q_IN || q->class != FY_QC_MASK)
            continue;
        const uint16_t *bits = f->buffers[t];
        for (size_t i = 0; i < n_values(q); i++)
            f->at[t][i] = (bits[i] & 0x7fff) == 0 ? 0 : FY_QFLOAT_HIDDEN;
    }
}

static void round_values(fy_qfloat *f, uint32_t t, const fy_qfloat_codes *c)
{
    const fy_q_tensor *q = &f->g->tensors[t];
    fy_q_round(q, &c->encodings->of[t], f->at[t], n_values(q));
}

static void round_inputs(fy_qfloat *f, const fy_qfloat_codes *c)
{
    for (uint32_t t = 0, n = (uint32_t)fy_qgraph_n_border(f->g); t < n; t++) {
        if (f->g->tensors[t].kind == FY_Q_IN && f->g->tensors[t].class != FY_QC_MASK)
            round_values(f, t, c);
    }
}

static int compute_coded(fy_qfloat *f, const fy_q_node *n, const fy_qfloat_codes *c, fy_err *e)
{
    if (n->op != FY_Q_CONV)
        compute[n->op](f, n);
    else if (coded_conv(f, n, c, e) != 0)
        return -1;
    round_values(f, n->out, c);
    return 0;
}

int fy_qfloat_run(fy_qfloat *f, const fy_qfloat_codes *codes, fy_qfloat_watch *watch, void *user,
                  fy_err *e)
{
    read_masks(f);
    if (codes != NULL)
        round_inputs(f, codes);
    for (size_t i = 0; i < f->g->n_nodes; i++) {
        const fy_q_node *n = &f->g->nodes[i];
        if (codes == NULL)
            compute[n->op](f, n);
        else if (compute_coded(f, n, codes, e) != 0)
            return -1;
        if (watch != NULL && watch(user, f, n, e) != 0)
            return -1;
        if (i % 64 == 0 && fy_check_interrupt(e) != 0)
            return -1;
    }
    return 0;
}

/* Scratch: a row of a product for each thread, then its second operand; or all of a Conv. */
static int take_scratch(fy_qfloat *f, fy_err *e)
{
    size_t most = 0, widest = 0, packed = 0;
    for (size_t i = 0; i < f->g->n_nodes; i++) {
        const fy_q_node *n = &f->g->nodes[i];
        const size_t all = n_values(out_of(f, n));
        if (n->op == FY_Q_CONV && all > most)
            most = all;
        if (n->op == FY_Q_MATMUL && n_values(in_of(f, n, 1)) > packed)
            packed = n_values(in_of(f, n, 1));
        if (n->op == FY_Q_MATMUL && fy_q_cols(out_of(f, n)) > widest)
            widest = fy_q_cols(out_of(f, n));
    }
    f->thread_floats = (widest + 15) / 16 * 16;
    const size_t rows = f->thread_floats * (size_t)fy_pool_threads(f->pool) + packed;
    f->scratch = floats_of(rows > most ? rows : most + 1, e);
    return f->scratch != NULL ? 0 : -1;
}

fy_qfloat *fy_qfloat_new(const fy_qgraph *g, const fy_model *m, fy_backend *backend, fy_pool *pool,
                         void *const *buffers, fy_err *e)
{
    fy_qfloat *f = calloc(1, sizeof *f);
    const size_t n_border = fy_qgraph_n_border(g);
    if (f == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *f = (fy_qfloat){.g = g,
                     .m = m,
                     .backend = backend,
                     .pool = pool,
                     .kernels = fy_kernels_for(fy_cpu_features())};
    f->at = fy_arena_calloc(&f->arena, g->n_tensors, sizeof *f->at);
    f->matrix = fy_arena_calloc(&f->arena, g->n_tensors, sizeof *f->matrix);
    f->buffers = fy_arena_calloc(&f->arena, n_border, sizeof *f->buffers);
    bool ok = f->at != NULL && f->matrix != NULL && f->buffers != NULL;
    if (ok)
        memcpy(f->buffers, buffers, n_border * sizeof *buffers);
    else
        fy_nomem(e);
    if (ok && prepare_border(f, e) == 0 && prepare_statics(f, e) == 0 && place_values(f, e) == 0 &&
        take_scratch(f, e) == 0)
        return f;
    fy_qfloat_free(f);
    return NULL;
}

void fy_qfloat_free(fy_qfloat *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; f->places != NULL && i < f->n_places; i++)
        free(f->places[i]);
    free(f->places);
    free(f->scratch);
    fy_arena_release(&f->arena);
    free(f);
}
