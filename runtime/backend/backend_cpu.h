/* The operations of a forward pass on the CPU: batches of tokens ("columns") over a pool of
 * threads.
 *
 * Work is split over rows of a matrix, over tokens, or over the queries of a KV head, never
 * inside a reduction, and every operation treats a token as if it were alone: results are the same
 * bits for any number of threads and any split of a prompt into batches. All memory is taken in
 * fy_backend_new; the operations allocate nothing and cannot fail. One thread at a time may call
 * into a backend. */
#ifndef FY_BACKEND_CPU_H
#define FY_BACKEND_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/types.h"
#include "kernels/kernels.h"

/* A weight as it lies in the file: n_rows rows of n_cols elements. A vector has one row. */
typedef struct {
    const void *data; /* view of the map; NULL: the model has no such weight */
    fy_type type;
    size_t row_bytes;
    int64_t n_rows, n_cols;
} fy_matrix;

typedef struct {
    int n_threads;    /* 1..FY_THREADS_MAX */
    int64_t n_tokens; /* most tokens of one call */
    int64_t q8_len; /* longest row of a weight that wants quantized activations; 0: there is none */
    int64_t head_dim; /* of queries, keys or values, the largest; 0: there is no attention */
} fy_backend_params;

typedef struct fy_backend fy_backend;

/* What fy_backend_new would take for its buffers. */
int fy_backend_bytes(const fy_backend_params *p, uint64_t *bytes, fy_err *e);
fy_backend *fy_backend_new(const fy_backend_params *p, fy_err *e); /* NULL on failure */
void fy_backend_free(fy_backend *b);                               /* NULL is fine */

/* y[c] = row ids[c] of w, as f32. */
void fy_backend_embed(fy_backend *b, float *y, const fy_matrix *w, const int32_t *ids,
                      int64_t n_tokens);

/* RMS norm, or with `centred` layer norm (kernels.h). */
typedef struct {
    const float *w;
    const float *bias; /* of layer norms; NULL: none */
    float eps;
    bool centred;
} fy_norm;

/* Each of n_rows rows of n elements: y = norm(x). y may be x. */
void fy_backend_norm(fy_backend *b, float *y, const float *x, const fy_norm *norm, int64_t n_rows,
                     int64_t n);

/* x[i] *= s */
void fy_backend_scale(fy_backend *b, float *x, float s, int64_t n);
/* x[i] += s * y[i] */
void fy_backend_add(fy_backend *b, float *x, const float *y, float s, int64_t n);
/* x[i] = cap tanh(x[i] / cap) */
void fy_backend_softcap(fy_backend *b, float *x, float cap, int64_t n);

/* y[i] = x[rows[i]], rows of n elements. */
void fy_backend_gather(fy_backend *b, float *y, const float *x, const int32_t *rows, int64_t n_rows,
                       int64_t n);
/* x[rows[i]] += weights[i] * y[i], rows of n elements, none of them twice. rows NULL: i. */
void fy_backend_scatter_add(fy_backend *b, float *x, const float *y, const int32_t *rows,
                            const float *weights, int64_t n_rows, int64_t n);

/* y[c][r] = w[r] . x[c] (+ bias[r]); then sum[c][r] += y[c][r] where a sum is wanted. */
typedef struct {
    const fy_matrix *w;
    const float *bias; /* NULL: none */
    float *y;          /* [n_tokens][w->n_rows] */
    float *sum;        /* NULL, or [n_tokens][w->n_rows] */
} fy_product;
#define FY_PRODUCTS_MAX 3

/* The products of one input x [n_tokens][n_cols] with up to FY_PRODUCTS_MAX matrices. */
void fy_backend_matmul(fy_backend *b, const float *x, int64_t n_tokens, const fy_product *p,
                       int n_products);
/* Sees what every fy_backend_matmul is given, before it computes. NULL: none. */
typedef void fy_matmul_watch(void *user, const float *x, int64_t n_tokens, const fy_product *p,
                             int n_products);
void fy_backend_watch(fy_backend *b, fy_matmul_watch *watch, void *user);

/* Rotates the first n_rot elements of every head of x [n_tokens][n_heads][head_dim], in place.
 * angles [n_tokens][n_rot]: cos and sin of each pair. interleaved: a pair is (2i, 2i + 1),
 * otherwise (i, i + n_rot / 2). */
typedef struct {
    int64_t n_heads, head_dim, n_rot;
    bool interleaved;
    const float *angles;
} fy_rotation;
void fy_backend_rotate(fy_backend *b, float *x, int64_t n_tokens, const fy_rotation *r);

/* Where a token stands: its sequence, and its position in it. */
typedef struct {
    int32_t seq, pos;
} fy_place;

/* One layer's keys and values: [n_seq][n_head_kv][n_ctx] rows of head_dim elements, the values
 * likewise with head_dim_v. */
typedef struct {
    void *k, *v;            /* view of the session's cache */
    fy_type type_k, type_v; /* FY_F32, FY_F16, or FY_Q8_0, FY_Q4_0 when rows are whole blocks */
    int64_t n_ctx, n_head_kv, head_dim, head_dim_v;
} fy_kv_layer;

/* Puts k [n_tokens][n_head_kv][head_dim] and v likewise where the tokens stand. */
void fy_backend_store(fy_backend *b, const fy_kv_layer *kv, const float *k, const float *v,
                      const fy_place *at, int64_t n_tokens);

/* A query sees the keys of its sequence at its position and before: from `first` on where that is
 * given, otherwise the nearest n_swa of them when n_swa > 0. q [n_tokens][n_head][head_dim] -> out
 * [n_tokens][n_head][head_dim_v]; n_head / n_head_kv heads share a key. */
typedef struct {
    const fy_kv_layer *kv;
    const fy_place *at;   /* [n_tokens] */
    const int32_t *first; /* [n_tokens], or NULL */
    int64_t n_head, n_swa;
    float scale;
    float cap; /* soft cap of the scores; 0: none */
} fy_attention;
void fy_backend_attend(fy_backend *b, float *out, const float *q, int64_t n_tokens,
                       const fy_attention *a);

/* gate = f(gate) * up, both [n_tokens][n]; up NULL: f(gate), where f may stand alone (kernels.h).
 */
typedef struct {
    fy_act_kind kind;
    float threshold; /* of fatrelu */
} fy_activation;
void fy_backend_activate(fy_backend *b, const fy_activation *f, float *gate, const float *up,
                         int64_t n_tokens, int64_t n);

/* --- the KV cache of a graph: a tensor for each head, keys transposed ------------------------ */

typedef struct {
    void *const *cache; /* [n_head_kv][2]: keys [head_dim][n_slots], values [n_slots][head_dim_v] */
    int64_t n_slots;
    const int32_t *slots; /* [end] slot i becomes row i, those before `first` are left out */
    int64_t first, end;
} fy_graph_cache;

/* Copies it into rows that attention reads. Elements are f32 or f16, those of the cache and of kv
 * alike. */
void fy_backend_load_cache(fy_backend *b, const fy_kv_layer *kv, const fy_graph_cache *c);

#endif
