/* Feed-forward networks by neuron: which of a token's activations count, products of rows that are
 * listed, and the sum over a matrix that has a row for each neuron (kernels.h).
 *
 * One token reads the rows of its neurons as they are stored. In a batch most rows are somebody's:
 * a tile of neurons and columns is widened to f32 once, and every token takes from it what it
 * counts, in the same order and to the same bits. */
#include <stdatomic.h>
#include <string.h>

#include "backend/backend_impl.h"
#include "kernels/row.h"

enum {
    TILE_NEURONS = 32, /* of which a tile is 32 KB: it stays in the first-level cache */
    LISTED_ROWS = 32,  /* of an item of work */
};

/* --- which count ------------------------------------------------------------------------------ */

void fy_neurons_all(fy_neurons *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        a->id[i] = (int32_t)i;
    a->n = n;
}

void fy_neurons_predicted(fy_neurons *a, const float *score, int64_t n, float threshold)
{
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        a->id[k] = (int32_t)i;
        k += !(score[i] < threshold);
    }
    a->n = k;
}

void fy_neurons_above(fy_neurons *a, float threshold)
{
    int64_t k = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const float v = a->value[i];
        a->value[k] = v;
        a->id[k] = a->id[i];
        k += !(v <= threshold);
    }
    a->n = k;
}

void fy_neurons_drop_zeros(fy_neurons *a)
{
    int64_t k = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const float v = a->value[i];
        a->value[k] = v;
        a->id[k] = a->id[i];
        k += v != 0;
    }
    a->n = k;
}

static void list_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    fy_neurons *tokens = ctx;
    for (; begin < end; begin++) {
        fy_neurons *a = &tokens[begin];
        fy_neurons_all(a, a->n);
        fy_neurons_drop_zeros(a);
    }
}

void fy_backend_list_neurons(fy_backend *b, fy_neurons *tokens, int64_t n_tokens)
{
    fy_backend_run(b, n_tokens, n_tokens > 0 ? 4 * tokens->n : 1, list_tokens, tokens);
}

typedef struct {
    float *value;
    const float *score;
    float threshold;
    int64_t n;
    _Atomic int64_t n_kept;
} mask_job;

static void mask_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    mask_job *j = ctx;
    int64_t n_kept = 0;
    for (int64_t i = begin * j->n; i < end * j->n; i++) {
        const bool below = j->score[i] < j->threshold;
        j->value[i] = below ? 0 : j->value[i];
        n_kept += !below;
    }
    atomic_fetch_add(&j->n_kept, n_kept);
}

int64_t fy_backend_mask(fy_backend *b, float *value, const float *score, float threshold,
                        int64_t n_tokens, int64_t n)
{
    mask_job j = {.value = value, .score = score, .threshold = threshold, .n = n};
    fy_backend_run(b, n_tokens, 4 * n, mask_tokens, &j);
    return atomic_load(&j.n_kept);
}

/* --- rows that are listed --------------------------------------------------------------------- */

typedef struct {
    const fy_backend *b;
    const fy_product *p;
    fy_act act;
    const int32_t *rows;
    int64_t n;
    fy_dot_rows_fn *fn; /* NULL: the type has none, rows go one by one through `one` */
    fy_matmul_fn *one;
} dot_job;

static void dot_listed(void *ctx, int64_t item, int64_t end_item, int thread)
{
    const dot_job *j = ctx;
    const fy_matrix *w = j->p->w;
    const int64_t begin = item * LISTED_ROWS,
                  end = end_item * LISTED_ROWS < j->n ? end_item * LISTED_ROWS : j->n;
    if (j->fn != NULL)
        j->fn(j->p->y, w->data, w->row_bytes, j->rows + begin, end - begin, &j->act);
    for (int64_t i = begin; i < end; i++) {
        const int32_t r = j->rows[i];
        if (j->fn == NULL)
            j->one(j->p->y, 0, w->data, w->row_bytes, r, r + 1, &j->act, 1,
                   fy_backend_scratch(j->b, thread));
        if (j->p->bias != NULL)
            j->p->y[r] += j->p->bias[r];
    }
}

void fy_backend_dot_rows(fy_backend *b, const float *x, const fy_product *p, const int32_t *rows,
                         int64_t n)
{
    const fy_matrix *w = p->w;
    dot_job j = {.b = b,
                 .p = p,
                 .act = {.x = x, .q = b->q, .d = b->d, .sum = b->sum, .k = w->n_cols},
                 .rows = rows,
                 .n = n,
                 .fn = fy_kernels_dot_rows(&b->kernels, w->type),
                 .one = fy_kernels_matmul(&b->kernels, w->type)};
    if (b->watch != NULL)
        b->watch(b->watch_user, x, 1, p, 1);
    if (fy_kernels_wants_q8(w->type))
        b->kernels.act_quantize(&j.act, 0, 1);
    fy_backend_run(b, (n + LISTED_ROWS - 1) / LISTED_ROWS, LISTED_ROWS * w->n_cols, dot_listed, &j);
    fy_paged_rows_drop(w);
}

bool fy_backend_lists_rows(const fy_backend *b, const fy_matrix *w)
{
    return fy_kernels_dot_rows(&b->kernels, w->type) != NULL;
}

/* --- sums over neurons ------------------------------------------------------------------------ */

typedef struct {
    const fy_backend *b;
    const fy_product *p;
    const fy_neurons *tokens;
    int64_t n_tokens, cols; /* of an item */
    fy_add_rows_fn *fn;     /* one token takes the rows as they are stored; NULL: from a tile */
} add_job;

/* Columns [first, first + n) of the matrix, at its first row. */
static const uint8_t *columns_of(const fy_matrix *w, int64_t first)
{
    return (const uint8_t *)w->data + fy_type_row_bytes(w->type, (uint64_t)first);
}

/* In the scratch: what a tile of neurons needs in the caches. */
typedef struct {
    float sum[FY_NEURON_TOKENS][FY_ADD_COLS];
    float rows[TILE_NEURONS][FY_ADD_COLS];
} tile;

_Static_assert(sizeof(tile) <= FY_KERNEL_SCRATCH_BYTES, "a tile fits");

/* Widens the rows of neurons [from, to) that some token counts. */
static void widen_tile(const add_job *j, tile *out, int64_t first, int64_t n_cols, int64_t from,
                       int64_t to, const fy_add_token *left)
{
    const fy_matrix *w = j->p->w;
    bool wanted[TILE_NEURONS] = {0};
    int64_t n_wanted = 0;
    for (int64_t c = 0; c < j->n_tokens && n_wanted < to - from; c++) {
        for (int64_t i = 0; i < left[c].n && left[c].rows[i] < to; i++) {
            const int64_t r = left[c].rows[i] - from;
            n_wanted += !wanted[r];
            wanted[r] = true;
        }
    }
    for (int64_t r = 0; r < to - from; r++) {
        if (wanted[r])
            fy_row_decode(&j->b->kernels, w->type, out->rows[r],
                          columns_of(w, first) + (size_t)(from + r) * w->row_bytes, n_cols);
    }
}

static void add_by_tiles(const add_job *j, int64_t first, int64_t n_cols, int thread)
{
    const int64_t n_neurons = j->p->w->n_rows, ldy = j->p->w->n_cols;
    tile *const t = fy_backend_scratch(j->b, thread);
    fy_add_token left[FY_NEURON_TOKENS];
    memset(t->sum, 0, (size_t)j->n_tokens * sizeof *t->sum);
    if (n_cols < FY_ADD_COLS)
        memset(t->rows, 0, sizeof t->rows);
    for (int64_t c = 0; c < j->n_tokens; c++)
        left[c] = (fy_add_token){t->sum[c], j->tokens[c].value, j->tokens[c].id, j->tokens[c].n};
    for (int64_t from = 0; from < n_neurons; from += TILE_NEURONS) {
        const int64_t to = from + TILE_NEURONS < n_neurons ? from + TILE_NEURONS : n_neurons;
        widen_tile(j, t, first, n_cols, from, to, left);
        j->b->kernels.add_tile(left, j->n_tokens, t->rows[0], (int32_t)from, (int32_t)to);
    }
    for (int64_t c = 0; c < j->n_tokens; c++)
        memcpy(j->p->y + c * ldy + first, t->sum[c], (size_t)n_cols * sizeof *j->p->y);
}

static void add_columns(void *ctx, int64_t item, int64_t end_item, int thread)
{
    const add_job *j = ctx;
    const fy_matrix *w = j->p->w;
    for (; item < end_item; item++) {
        const int64_t first = item * j->cols,
                      n = w->n_cols - first < j->cols ? w->n_cols - first : j->cols;
        if (j->fn == NULL) {
            add_by_tiles(j, first, n, thread);
        } else {
            memset(j->p->y + first, 0, (size_t)n * sizeof *j->p->y);
            j->fn(j->p->y + first, j->tokens->value, columns_of(w, first), w->row_bytes,
                  j->tokens->id, j->tokens->n, n);
        }
        fy_backend_finish(j->p, w->n_cols, first, first + n, j->n_tokens);
    }
}

/* One token: as few pieces of a row as keep the threads busy. */
static int64_t columns_of_an_item(const fy_backend *b, int64_t n_cols)
{
    const int64_t pieces = 2 * (int64_t)fy_pool_threads(b->pool);
    const int64_t fair = (n_cols / pieces + FY_ADD_COLS - 1) / FY_ADD_COLS * FY_ADD_COLS;
    return fair > 0 ? fair : FY_ADD_COLS;
}

void fy_backend_add_rows(fy_backend *b, const fy_neurons *tokens, int64_t n_tokens,
                         const fy_product *p)
{
    const fy_matrix *w = p->w;
    for (int64_t done = 0; done < n_tokens; done += FY_NEURON_TOKENS) {
        const int64_t left = n_tokens - done, n = left < FY_NEURON_TOKENS ? left : FY_NEURON_TOKENS;
        fy_product part = *p;
        part.y += done * w->n_cols;
        part.sum = p->sum != NULL ? p->sum + done * w->n_cols : NULL;
        add_job j = {
            .b = b, .p = &part, .tokens = tokens + done, .n_tokens = n, .cols = FY_ADD_COLS};
        if (n == 1 && (j.fn = fy_kernels_add_rows(&b->kernels, w->type)) != NULL)
            j.cols = columns_of_an_item(b, w->n_cols);
        const int64_t cost = (n == 1 ? tokens[done].n : w->n_rows) * j.cols;
        fy_backend_run(b, (w->n_cols + j.cols - 1) / j.cols, cost, add_columns, &j);
    }
    fy_paged_rows_drop(w);
}
