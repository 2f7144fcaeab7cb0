/* A graph of an NPU as data: tensors and nodes in the order in which they are computed, made from
 * the tables of the families and the recipe. Three readers walk it: what emits it to a QNN library,
 * what counts it for a plan, and what computes it in floats (to check the composition, and to
 * calibrate).
 *
 *     fy_qgraph_compose(&g, &of, e)
 *     fy_qgraph_release(&g)
 *
 * Everything inside is [1, 1, rows, columns] with a row for each token, but for RWKV's recurrence,
 * which is [tokens, heads, rows, columns]; the borders are those of arch/graph_io.h, rank 2. A
 * graph of another batch size of the same chunk has the same static tensors, names and ranges: that
 * is what lets a context share weights, and what lets all batch sizes share one set of ranges.
 *
 * What differs from the decoder (model/decoder.h) while the result is the same:
 *
 *   heads       are nodes of their own from the projection on
 *   keys        carry the scale of attention, and 1 / softcap, from the projection on (PowerServe's
 *               meaning of its caches); where keys are normed, the gamma carries it
 *   rotation    is by halves everywhere: rows of q and k that rotate in neighbours are reordered
 *   layer norm  its beta moves into the biases of what reads it
 *   residual    residual_scale moves into what is added
 *
 * Names: static tensors are GGUF's with the head, "blk.3.attn_q.2.weight", "output.weight"; the
 * others "L3.h2.score", with ".u8" or another type appended where a matrix wants its own. A
 * node has the name of its output. */
#ifndef FY_WORKSPACE_QGRAPH_H
#define FY_WORKSPACE_QGRAPH_H

#include "arch/graph_io.h"
#include "base/arena.h"
#include "workspace/npu/npu_recipe.h"

/* --- tensors ---------------------------------------------------------------------------------- */

typedef enum { FY_Q_IN, FY_Q_OUT, FY_Q_INNER, FY_Q_STATIC } fy_q_kind;

/* Of the elements. A weight has the type of its recipe (fy_q_static.type), kept as s8 or f16. */
typedef enum {
    FY_Q_F32, /* the seams: x, out, logits, tables of rope */
    FY_Q_F16,
    FY_Q_U16,
    FY_Q_S16,
    FY_Q_U8,
    FY_Q_S32,
    FY_Q_BOOL,
    FY_Q_PACKED, /* a matrix: as fy_npu_type says */
} fy_q_type;

/* What the values are, which decides their encoding in a fixed type. */
typedef enum {
    FY_QC_PLAIN,   /* floats that no matrix reads, at a border or in RWKV's core: no encoding */
    FY_QC_ACT,     /* an activation: calibrated */
    FY_QC_TABLE,   /* cos and sin: symmetric, calibrated */
    FY_QC_MASK,    /* the mask: 0 shows, the lowest code hides */
    FY_QC_SCORE,   /* of attention, before the mask: calibrated over visible columns alone */
    FY_QC_MASKED,  /* with the mask added: from 20 below the lowest visible score */
    FY_QC_UNIT,    /* 0..1: what softmax gives */
    FY_QC_SIGMOID, /* 0..1 with QNN's fixed encoding of Sigmoid */
    FY_QC_TANH,    /* -1..1, the same of Tanh */
    FY_QC_KV,      /* keys or values of a KV head: symmetric, calibrated */
    FY_QC_WEIGHT,  /* a matrix [1, 1, in, out], a scale for each output */
    FY_QC_BIAS,    /* [out]: scale of the input times that of the output channel */
    FY_QC_GAMMA,   /* of a norm, [columns]: symmetric, from its own values */
    FY_QC_BETA,    /* zeros that a norm wants */
    FY_QC_CONST,   /* [1]: one number */
    FY_QC_BOOL,
} fy_q_class;

/* Where a static tensor's values come from. Rows are those of the matrix as the model binds it. */
typedef struct {
    fy_slot slot;      /* FY_T_COUNT: every element is `value` */
    uint32_t layer;    /* of no meaning for tensors of the whole model */
    uint32_t first, n; /* its rows, or the elements of a vector, `first` of them before */
    fy_npu_type type;  /* of a FY_QC_WEIGHT */
    /* The rows of each head of head_dim rows are reordered: output row half * n_rot/2 + j is row
     * 2j + half of the model. */
    bool halves;
    float scale;  /* multiplies all of it */
    float plus;   /* is added then, to a vector */
    bool neg_exp; /* elements are -exp(of the model's) */
    float value;
    /* A FY_QC_BIAS: slot's vector (it may be unbound: zeros) + rows of `matrix` . beta, where the
     * norm before it has a beta; FY_T_COUNT: it has none. */
    fy_slot matrix, beta;
    bool hadamard; /* not of the model: the orthonormal Hadamard matrix of n rows, symmetric */
} fy_q_static;

#define FY_Q_NONE UINT32_MAX /* no tensor, no range */

typedef struct {
    const char *name; /* in the graph's arena */
    fy_q_kind kind;
    fy_q_class class;
    fy_q_type type;
    uint32_t rank, dims[4]; /* 2 at the borders, 1 for vectors, 3 for tables of RotaryEmbedding,
                               else 4 */
    uint32_t range; /* index into fy_qgraph.ranges of the values it holds; FY_Q_NONE: its encoding
                       is fixed */
    uint32_t mask;  /* FY_QC_SCORE: the mask (tensor of class FY_QC_MASK, rank 4) that will be added
                       to it */
    fy_q_static from; /* FY_Q_STATIC */
} fy_q_tensor;

/* Tensors that must have one encoding share a range: the parts of a Concat, a tensor and its
 * converted twin, the cache and what is put into it. */
typedef struct {
    /* Equal in all batch sizes, and in all recipes that agree on rotate_keys. What leaves a chunk
     * has the name by which the next one knows it: "L3.out". */
    const char *name;
    fy_q_class class; /* FY_QC_ACT, FY_QC_TABLE, FY_QC_SCORE or FY_QC_KV */
} fy_q_range_of;

/* Does the host write or read it? */
static inline bool fy_q_is_border(const fy_q_tensor *t)
{
    return t->kind == FY_Q_IN || t->kind == FY_Q_OUT;
}
static inline uint32_t fy_q_rows(const fy_q_tensor *t)
{
    return t->rank < 2 ? 1 : t->dims[t->rank - 2];
}
static inline uint32_t fy_q_cols(const fy_q_tensor *t)
{
    return t->dims[t->rank - 1];
}
static inline size_t fy_q_elements(const fy_q_tensor *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* --- nodes ------------------------------------------------------------------------------------ */

typedef enum {
    FY_Q_CONV,     /* x [B, in], matrix, optional bias: y [B, out] */
    FY_Q_MATMUL,   /* a [m, k], b [k, n], for each token and head */
    FY_Q_RMS_NORM, /* x, gamma, beta (zeros): each row; eps */
    FY_Q_LAYER_NORM,
    FY_Q_SOFTMAX, /* of each row */
    FY_Q_ADD,     /* a, b of one shape, or b FY_QC_CONST; of RWKV dimensions of 1 are repeated */
    FY_Q_SUBTRACT,
    FY_Q_MULTIPLY,
    FY_Q_NEG,
    FY_Q_GREATER, /* a > b: FY_Q_BOOL */
    FY_Q_SELECT,  /* condition, a where it holds, b elsewhere */
    FY_Q_SIGMOID,
    FY_Q_TANH,
    FY_Q_GELU, /* `act` says which of its forms the model means; QNN has the one by erf */
    FY_Q_RELU,
    FY_Q_EXP,
    FY_Q_SLICE,     /* [begin, end) along `axis`: 0 tokens of heads, 2 rows, the last one columns */
    FY_Q_CONCAT,    /* along `axis`: the same */
    FY_Q_TRANSPOSE, /* rows and columns */
    FY_Q_RESHAPE,   /* to other dimensions; elements stay where they are */
    FY_Q_CAST,      /* to another type, or another encoding of the same values */
    FY_Q_ROPE,      /* x [1, 1, B, n], cos and sin [1, B, n/2]: rotated by halves */
    FY_Q_OP_COUNT,
} fy_q_op;

typedef struct {
    fy_q_op op;
    const uint32_t *in; /* in the arena; numbers of tensors */
    uint32_t n_in, out;
    uint32_t axis, begin, end;
    float eps;
    fy_act_kind act;
} fy_q_node;

/* --- the graph -------------------------------------------------------------------------------- */

/* What a graph is composed from. Headers are enough: no values are read. */
typedef struct {
    const fy_family *family;
    const fy_hparams *hp;
    const fy_chunk_info *chunk; /* FY_CHUNK_LAYERS or FY_CHUNK_HEAD */
    const fy_npu_recipe *recipe;
    /* Has the model this tensor? Matrices that a file holds fused count as their parts; the lm_head
     * is FY_T_OUTPUT, tied or not. */
    bool (*has)(const void *user, fy_slot slot, uint32_t layer);
    const void *user;
    uint32_t n_batch, n_cache, n_ctx; /* B, C, X */
    uint32_t kv_bits;                 /* 0: the recipe's */
    bool rope_nodes; /* rotation by six nodes, for libraries without RotaryEmbedding */
} fy_qgraph_of;

typedef struct {
    fy_arena arena;
    fy_q_tensor *tensors;  /* owned */
    fy_q_node *nodes;      /* owned */
    fy_q_range_of *ranges; /* owned */
    size_t n_tensors, n_nodes, n_ranges;
    size_t cap_tensors, cap_nodes, cap_ranges;
    uint32_t n_batch, n_cache, n_ctx;
    fy_q_type core; /* FY_Q_U16 or FY_Q_F16: of what lies between the matrices */
    fy_q_type kv;   /* FY_Q_U8, FY_Q_S16 or FY_Q_F16 */
} fy_qgraph;

/* FY_EUNSUPPORTED for what graphs cannot do (fy_cut_refusal), FY_EFIT for a matrix that its type
 * refuses (fy_npu_type_refuses). */
int fy_qgraph_compose(fy_qgraph *g, const fy_qgraph_of *of, fy_err *e);
void fy_qgraph_release(fy_qgraph *g);
/* Tensors of the border: tensor i is number i of fy_graph_io. */
static inline size_t fy_qgraph_n_border(const fy_qgraph *g)
{
    size_t n = 0;
    while (n < g->n_tensors && fy_q_is_border(&g->tensors[n]))
        n++;
    return n;
}

/* The matrix as GGUF calls it, whatever heads and files it is cut into: "blk.3.attn_q.weight". */
enum { FY_Q_MATRIX_NAME = 48 };
const char *fy_qgraph_matrix_name(const fy_q_static *from, char out[FY_Q_MATRIX_NAME]);

/* --- values of static tensors (qgraph_values.c) ----------------------------------------------- */

struct fy_model;
/* What a chunk that is open has, for fy_qgraph_of. */
bool fy_qgraph_model_has(const void *model, fy_slot slot, uint32_t layer);
/* Row, or element, of the model's tensor that becomes number i of a static one. */
uint64_t fy_qgraph_row(const fy_hparams *hp, const fy_q_static *from, uint32_t i);
/* Rows [first, first + n) of a FY_QC_WEIGHT: out[n][columns], a row for each output. */
void fy_qgraph_matrix(const struct fy_model *m, const fy_q_tensor *t, uint32_t first, uint32_t n,
                      float *out);
/* All elements of another static tensor. A FY_QC_BIAS reads rows of its matrix when it has a beta.
 */
int fy_qgraph_vector(const struct fy_model *m, const fy_q_tensor *t, float *out, fy_err *e);

#endif
