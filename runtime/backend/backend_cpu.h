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
    int64_t n_paged; /* of its last rows: they are not kept in memory */
} fy_matrix;

/* paged_rows.c: a product has read the paged rows, and their memory is free for those that come
 * next. Without that the system would drop what was read ahead before what has been used. */
void fy_paged_rows_drop(const fy_matrix *w);

/* Bytes of a mapped file. What lies next to them shares their first page and their last one. */
typedef struct {
    const void *p;
    size_t n;
    int fd;          /* the file; -1: not known */
    uint64_t offset; /* where they begin in it */
} fy_mapped;
size_t fy_mapped_page_bytes(const fy_mapped *m); /* of all pages that they lie in */
/* They are read when they are asked for, and nothing around them: call it once. */
void fy_mapped_alone(const fy_mapped *m);
/* They will be used: the system begins to read them. */
void fy_mapped_ask(const fy_mapped *m);
/* They are not used now: their memory is free. Whoever touches them reads them again. before,
 * after: so many bytes next to them are not used either; where that is 0, a page that they share
 * stays. */
void fy_mapped_drop(const fy_mapped *m, size_t before, size_t after);

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
    const float *w;    /* of RMS norms, NULL: none */
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
#define FY_PRODUCTS_MAX 4

/* The products of one input x [n_tokens][n_cols] with up to FY_PRODUCTS_MAX matrices. */
void fy_backend_matmul(fy_backend *b, const float *x, int64_t n_tokens, const fy_product *p,
                       int n_products);
/* y [n_tokens][k] = what products with block weights take x for: codes, as floats. y may be x. */
void fy_backend_round_q8(fy_backend *b, float *y, const float *x, int64_t n_tokens, int64_t k);
/* Sees what every fy_backend_matmul is given, before it computes. NULL: none. */
typedef void fy_matmul_watch(void *user, const float *x, int64_t n_tokens, const fy_product *p,
                             int n_products);
void fy_backend_watch(fy_backend *b, fy_matmul_watch *watch, void *user);

/* --- neurons.c: feed-forward networks by neuron --- */

enum { FY_NEURON_TOKENS = 64 }; /* that go through a matrix together */

/* The activations of a token that count: their neurons, ascending, and what they are. */
typedef struct {
    float *value; /* view */
    int32_t *id;  /* view */
    int64_t n;
} fy_neurons;

/* The list becomes all n neurons; or those whose score [n] is not below the threshold, as that of a
 * NaN is not. Values stay as they are. */
void fy_neurons_all(fy_neurons *a, int64_t n);
void fy_neurons_predicted(fy_neurons *a, const float *score, int64_t n, float threshold);
/* Those stay that are above the threshold, or NaN; or that are not 0, of either sign. */
void fy_neurons_above(fy_neurons *a, float threshold);
void fy_neurons_drop_zeros(fy_neurons *a);
/* value [n_tokens][n] becomes 0 where the score is below the threshold. Returns how many are not.
 */
int64_t fy_backend_mask(fy_backend *b, float *value, const float *score, float threshold,
                        int64_t n_tokens, int64_t n);
/* Of each token the ones that are not 0, of all n. */
void fy_backend_list_neurons(fy_backend *b, fy_neurons *tokens, int64_t n_tokens);

/* y[r] = w[r] . x (+ bias[r]) for the n rows that are listed, ascending, of one token; the others
 * stay as they are. The bits are those of fy_backend_matmul; p->sum is not looked at. */
void fy_backend_dot_rows(fy_backend *b, const float *x, const fy_product *p, const int32_t *rows,
                         int64_t n);
/* Is there a kernel for that, of the matrix's type? Otherwise rows go one by one. */
bool fy_backend_lists_rows(const fy_backend *b, const fy_matrix *w);

/* y[c] = the sum over token c's neurons of value * row, w having a row for each neuron, in the
 * order of kernels.h (+ bias); then sum[c] += y[c] where a sum is wanted. */
void fy_backend_add_rows(fy_backend *b, const fy_neurons *tokens, int64_t n_tokens,
                         const fy_product *p);

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

/* Tokens that follow a sequence in several ways. Its first n_past positions are seen by all of
 * them; node i is stored at row n_past + i and sees its ancestors and itself beside those, each at
 * its own position. */
enum { FY_TREE_MAX = 128 }; /* nodes */
typedef struct {
    int32_t n_past, first; /* the batch's first token is this node, and so on */
    const int32_t *parent; /* [nodes] an earlier node; -1: the sequence */
} fy_token_tree;

/* What layers with a state keep of the tokens before: floats of a fixed number for each
 * sequence, of one layer. There are two of each, so that a call that fails, or a sequence that
 * takes a step back, has lost nothing: a step begins with that in `from` and leaves its own in
 * `to`, which are the same in the later steps of a call. At position 0 it is 0, whatever lies
 * there. */
enum { FY_STATE_SEQS = 256 }; /* most sequences */
typedef struct {
    float *memory;            /* [2][n_seq][len], the two half_len apart */
    size_t half_len, len;     /* floats */
    const uint8_t *from, *to; /* [n_seq] 0 or 1 */
} fy_state_view;
/* Brings into `to` what the sequences of a step begin with. */
void fy_state_begin(const fy_state_view *s, const fy_place *at, int64_t n_tokens);

/* in [n_tokens][3][n_channels]: B, C, x. out [n_tokens][n_channels] = C * y with
 * y = w[0] * u(t - length + 1) + ... + w[length - 1] * u(t), added in this order; u = B * x of the
 * token's sequence, 0 before its first. The state: the last length - 1 columns u, the oldest first.
 */
typedef struct {
    const float *w; /* [n_channels][length] */
    int64_t n_channels, length;
    const fy_place *at; /* [n_tokens] */
    fy_state_view state;
} fy_short_conv;
void fy_backend_short_conv(fy_backend *b, float *out, const float *in, int64_t n_tokens,
                           const fy_short_conv *c);

/* --- wkv.c: RWKV ---- */

enum { FY_WKV_MAX_HEAD = 256 }; /* elements of a head */

/* y[i] = 1 / (1 + exp(-x[i])) (* times[i]); times NULL: 1. y may be x. */
void fy_backend_sigmoid(fy_backend *b, float *y, const float *x, const float *times, int64_t n);
/* y = x + dx * (lerp + more) of each token; lerp [n], more [n_tokens][n] or NULL: 0. */
void fy_backend_lerp(fy_backend *b, float *y, const float *x, const float *dx, const float *lerp,
                     const float *more, int64_t n_tokens, int64_t n);
/* dx = x of the sequence's token before - x. That token's x is the n floats of the state from
 * `first` on. */
void fy_backend_token_shift(fy_backend *b, float *dx, const float *x, const fy_place *at,
                            const fy_state_view *state, size_t first, int64_t n_tokens, int64_t n);

/* out [n_tokens][n_heads * head_dim]: each head's recurrence, normed; see wkv.c. All that has an
 * element for each channel of a token is [n_tokens][n_heads][head_dim], the weights are
 * [n_heads][head_dim]. k_k tells version 7 from 5 and 6. The state: [key][value] of each head, from
 * state_first on. */
typedef struct {
    int64_t n_heads, head_dim;
    const fy_place *at; /* [n_tokens] */
    fy_state_view state;
    size_t state_first;
    const float *r, *k, *v;
    const float *decay;   /* of tokens, or a weight: the decay is exp(-exp(this)); of version 7
                             exp(-exp(-1/2) sigmoid(this)) */
    bool decay_is_fixed;  /* it is a weight */
    const float *first;   /* weight of 5 and 6: what the token itself counts */
    const float *a;       /* of tokens, before sigmoid; this and the following of 7 */
    const float *v_share; /* of tokens, before sigmoid; NULL: v is all the token's own */
    const float *v_first; /* of tokens, from the first layer */
    const float *k_k, *k_a, *r_k;  /* weights */
    const float *gate;             /* of tokens: multiplies what was normed; NULL: nothing */
    const float *norm, *norm_bias; /* weights */
    float eps;
} fy_wkv;
void fy_backend_wkv(fy_backend *b, float *out, const fy_wkv *w, int64_t n_tokens);

/* in [n_tokens][2 n_inner + 2 n_groups n_state + n_heads]: z, x, B, C, dt; in is lost. [x|B|C] =
 * silu(convolution + bias), as of fy_short_conv, the bias last; then for each head, of n_inner /
 * n_heads elements of x and with B, C of its group:
 *     dt = softplus(dt + dt_bias),  S = exp(dt a) S + (dt x) B,  y = S C + d x
 * out [n_tokens][n_inner] = norm(y silu(z)): RMS of each group's part. The state: the last length -
 * 1 columns of x, B, C, the oldest first, then S of each head [n_state][n_inner / n_heads]. */
typedef struct {
    const float *conv, *conv_bias; /* [n_inner + 2 n_groups n_state][length], and of each */
    const float *dt_bias, *a, *d;  /* [n_heads] */
    const float *norm;             /* [n_inner]; NULL: none */
    float eps;
    int64_t n_inner, n_heads, n_groups, n_state, length;
    const fy_place *at; /* [n_tokens] */
    fy_state_view state;
} fy_mamba2;
void fy_backend_mamba2(fy_backend *b, float *out, float *in, int64_t n_tokens, const fy_mamba2 *m);
/* ln(1 + exp(x)) within 3e-7 of it, by fy_exp and operations that round alike everywhere. */
float fy_softplus(float x);

/* A gated delta net. What the convolution with silu makes of qkv are queries and keys
 * [n_key_heads][n_state], which become as long as 1 / sqrt(n_state) and 1, and values
 * [n_heads][width]. Head h has the queries and keys of h mod n_key_heads, a state S
 * [n_state][width], and
 *   S = exp(a softplus(alpha + dt_bias)) S;  S += k (sigmoid(beta) (v - k S));  y = q S
 *   out = rms(y of a head) * norm * silu(z)
 * in f32, sums over n_state in ascending order. The state: the last length - 1 columns of qkv
 * before the convolution, the oldest first, then S of all heads. */
typedef struct {
    const float *conv;        /* [2 n_key_heads n_state + n_heads width][length] */
    const float *dt_bias, *a; /* [n_heads] */
    const float *norm;        /* [width] */
    float eps;
    int64_t n_heads, n_key_heads, n_state, width, length;
    const fy_place *at; /* [n_tokens] */
    fy_state_view state;
} fy_delta_net;
/* Of each token, one below the other. qkv and z are lost. */
typedef struct {
    float *qkv, *z;
    const float *alpha, *beta; /* [n_heads] */
} fy_delta_input;
void fy_backend_delta_net(fy_backend *b, float *out, const fy_delta_input *in, int64_t n_tokens,
                          const fy_delta_net *m);

/* x [n_tokens][n_heads][head_dim] times sigmoid(gate). gate: of token t and head h it begins at t *
 * token_stride + h * head_stride, and is one number, or with each_element head_dim of them. */
typedef struct {
    const float *gate;
    int64_t token_stride, head_stride, n_heads, head_dim;
    bool each_element;
} fy_head_gate;
void fy_backend_gate_heads(fy_backend *b, float *x, int64_t n_tokens, const fy_head_gate *g);

/* One layer's keys and values: [n_seq][n_head_kv][n_rows] rows of head_dim elements, the values
 * likewise with head_dim_v. */
typedef struct {
    void *k, *v;            /* view of the session's cache */
    fy_type type_k, type_v; /* FY_F32, FY_F16, or FY_Q8_0, FY_Q4_0 when rows are whole blocks */
    int64_t n_rows; /* of a sequence and head: position p is in row p % n_rows; a multiple of
                       FY_ATTEND_CHUNK unless no position is larger */
    int64_t n_head_kv, head_dim, head_dim_v;
} fy_kv_layer;

/* Puts k [n_tokens][n_head_kv][head_dim] and v likewise where the tokens stand. */
void fy_backend_store(fy_backend *b, const fy_kv_layer *kv, const float *k, const float *v,
                      const fy_place *at, int64_t n_tokens);

/* A query sees the keys of its sequence at its position and before: from `first` on where that is
 * given, otherwise the nearest n_swa of them when n_swa > 0. q [n_tokens][n_head][head_dim] -> out
 * [n_tokens][n_head][head_dim_v]; n_head / n_head_kv heads share a key. */
typedef struct {
    const fy_kv_layer *kv;
    const fy_place *at;        /* [n_tokens] */
    const int32_t *first;      /* [n_tokens], or NULL */
    const fy_token_tree *tree; /* NULL: none */
    int64_t n_head, n_swa;
    float scale;
    float cap;          /* soft cap of the scores; 0: none */
    const float *sinks; /* [n_head] a score that joins each head's softmax and has no value; NULL:
                           none */
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

/* --- streams.c: several residual streams, x[j] [n_tokens][n] each; sums in the order of the
 * streams
 * --- */

enum { FY_STREAMS_MAX = 8 };
typedef struct {
    float *x[FY_STREAMS_MAX];
    int n_streams;
} fy_streams;
/* x[j] += sum over i of c[j * n_streams + i] x[i], all of them at once; c [n_tokens][n_streams^2].
 */
void fy_backend_mix_streams(fy_backend *b, const fy_streams *s, const float *c, int64_t n_tokens,
                            int64_t n);
/* x[j] = was[j] + (1 + c[j]) (x[0] - was[0]), where was[0] is `first` and the others are x[j]; c
 * [n_tokens][n_streams]. */
void fy_backend_correct_streams(fy_backend *b, const fy_streams *s, const float *first,
                                const float *c, int64_t n_tokens, int64_t n);
/* x, scaled so that each row has the mean square of that of `like`; one below 1e-5 counts as that.
 */
void fy_backend_match_size(fy_backend *b, float *x, const float *like, int64_t n_rows, int64_t n);
/* x[i] = max(0, x[i] - (mean + s deviation)), of each row, the deviation that of all its elements.
 */
void fy_backend_sparsify(fy_backend *b, float *x, float s, int64_t n_rows, int64_t n);

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
