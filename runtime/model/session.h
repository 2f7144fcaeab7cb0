/* A session from the inside: its KV cache, its RoPE tables, and the pass of its tokens through the
 * model. */
#ifndef FY_MODEL_SESSION_H
#define FY_MODEL_SESSION_H

#include "model/chain.h"
#include "model/decoder.h"

/* --- the KV cache: of each layer with keys and values of its own
 * [n_seq][n_head_kv][n_ctx][head_dim] for keys, the same with head_dim_v for values, so that the
 * keys one query head reads lie in one run. f32, f16, or q8_0 and q4_0 where rows are whole blocks
 * --- */

typedef struct {
    uint8_t *k, *v;         /* owned */
    fy_type type_k, type_v; /* of them */
    fy_kv_layer *layers; /* owned: [n_layer], views of these two. One that shares has those of the
                            layer that it reads; one without attention has none */
} fy_kv;

typedef struct {
    uint32_t n_seq, n_ctx;
    uint32_t n_ring;        /* rows of layers with the window; n_ctx: all positions */
    fy_type type_k, type_v; /* FY_F32, FY_F16, FY_Q8_0 or FY_Q4_0 */
} fy_kv_params;

/* Rows that layers with the window need when a step has at most n_batch tokens: the window and the
 * step, in whole chunks of attention, so that no sum changes its order. n_ctx: where that is less,
 * or there is no window. */
uint32_t fy_kv_ring(const fy_hparams *hp, uint32_t n_ctx, uint32_t n_batch);

/* Bytes of a cache, and of states. FY_EARG when rows are not whole blocks. */
int fy_kv_bytes(const fy_hparams *hp, const fy_kv_params *p, uint64_t *bytes, fy_err *e);
fy_kv_layer fy_kv_at(const fy_kv *kv, uint32_t layer);

/* Has the layer rows of its own in the cache? */
bool fy_kv_owns(const fy_hparams *hp, uint32_t layer);
/* Positions [0, n) of one sequence become those of another. */
void fy_kv_copy(fy_kv *kv, const fy_hparams *hp, uint32_t from, uint32_t to, uint32_t n);

/* session_range.c: rows of n positions of one head, and where they begin. */
size_t fy_kv_run_bytes(const fy_kv_layer *l, bool values, uint32_t n);
uint8_t *fy_kv_run_at(const fy_kv_layer *l, bool values, uint32_t seq, uint32_t head, uint32_t pos);
/* Has the layer rows of every position of a sequence? */
bool fy_session_keeps_rows(const struct fy_session *s, uint32_t layer);
/* Rows of positions [begin, end) of one head to `out`, or, where that is NULL, from `in`: wherever
 * they lie in a ring. Returns their bytes. */
size_t fy_kv_move(const fy_kv_layer *l, bool values, uint32_t seq, uint32_t head, uint32_t begin,
                  uint32_t end, uint8_t *out, const uint8_t *in);
/* Does it rotate by longrope's factors for a long context? Another -c may decide otherwise. */
bool fy_session_has_long_rope(const struct fy_session *s);

/* --- states.c: what the layers with a state keep, f32, of a constant size for each sequence.
 * It belongs to exactly the positions that a sequence has: it goes on from there, or from none ---
 */

typedef struct {
    float *memory;      /* owned: [layer with a state][2][n_seq][len]; NULL: the model has none */
    uint8_t *from, *to; /* [n_seq], in the same memory: fy_state_view. to is the other one but while
                           a call is in progress */
    uint32_t *before;   /* [n_seq], in the same memory: positions before the last call, whose state
                           the other one still is; UINT32_MAX: it is not */
    fy_layer_set layers; /* that have one */
    size_t len;
    uint32_t n_seq;
} fy_states;

int fy_states_bytes(const fy_hparams *hp, uint32_t n_seq, uint64_t *bytes, fy_err *e);
int fy_states_init(fy_states *s, const fy_hparams *hp, uint32_t n_seq, fy_err *e);
/* Of a model of graphs, whose tensors hold the two states: only which one is whose. */
int fy_states_init_of_graphs(fy_states *s, fy_err *e);
void fy_states_release(fy_states *s);
/* Of a layer with a state; of others not to be used. */
fy_state_view fy_states_at(const fy_states *s, uint32_t layer);
/* A step has moved the sequence on. */
void fy_states_step(fy_states *s, uint32_t seq);
/* A call with tokens of the sequence has ended: its steps count, or they never were. n_past:
 * positions before it. Once, or more often. */
void fy_states_end(fy_states *s, uint32_t seq, bool succeeded, uint32_t n_past);
/* Is the state before the last call there, at no more than n positions? Then it is the sequence's
 * again, and *n_past how many. */
bool fy_states_can_undo(const fy_states *s, uint32_t seq, uint32_t n);
void fy_states_undo(fy_states *s, uint32_t seq);
void fy_states_forget(fy_states *s, uint32_t seq); /* what was before */
/* A sequence's state of one layer: now, or before the last call. And of all layers to another. */
float *fy_states_of(const fy_states *s, uint32_t layer, uint32_t seq, bool before);
void fy_states_copy(fy_states *s, uint32_t from, uint32_t to, bool before);

/* --- snapshots.c: the tail of a sequence is what belongs to one position alone: its states and, in
 * layers that keep no more, their window --- */

typedef enum { FY_TAIL_KEYS, FY_TAIL_VALUES, FY_TAIL_STATE, FY_TAIL_KINDS } fy_tail_kind;
typedef struct {
    uint32_t layer, begin; /* keys and values: rows [n_head_kv][begin .. position of the tail] */
    fy_tail_kind kind;
    size_t at, bytes; /* where it lies */
    uint32_t next;
} fy_tail_piece;

typedef struct {
    uint8_t *bytes; /* owned: the tail of a sequence */
    uint32_t pos;   /* at so many positions */
} fy_snapshot;

typedef struct {
    fy_snapshot *at; /* owned: of each sequence, by position */
    uint32_t *n;     /* owned: [n_seq] how many */
    uint32_t most;   /* of a sequence; 0: none are kept */
} fy_snapshots;

struct fy_session;

/* The first position that one at `pos` sees in a layer with the window. */
uint32_t fy_window_begin(const fy_hparams *hp, uint32_t pos);
/* The piece after *p of a tail; the first one after a zeroed one. False: there is none. */
bool fy_tail_next(const struct fy_session *s, uint32_t pos, fy_tail_piece *p);
size_t fy_tail_bytes(const struct fy_session *s, uint32_t pos); /* 0: a position has none */
/* False: what the sequence had at that position is gone. */
bool fy_tail_read(const struct fy_session *s, uint32_t seq, uint32_t pos, uint8_t *out);
/* It has this now; the caller says how many positions it has. */
void fy_tail_write(struct fy_session *s, uint32_t seq, uint32_t pos, const uint8_t *in);

int fy_snapshots_init(struct fy_session *s, fy_err *e);
void fy_snapshots_release(struct fy_session *s);
const fy_snapshot *fy_snapshots_of(const struct fy_session *s, uint32_t seq, uint32_t *n);
/* Room for the tail at a position behind those that are there; NULL: there is none, or it is there.
 */
uint8_t *fy_snapshots_add(struct fy_session *s, uint32_t seq, uint32_t pos);
void fy_snapshots_drop(struct fy_session *s, uint32_t seq, uint32_t above);
/* To the last snapshot at no more than n positions, or to none. */
void fy_session_go_back(struct fy_session *s, uint32_t seq, uint32_t n);

/* --- RoPE: how fast each pair of a head rotates, and the angles of a position. Rates are kept and
 * angles computed in double; what the backend gets is rounded once --- */

typedef struct {
    uint32_t n_pairs;
    double *rate;     /* view of the caller's memory: [n_pairs], radians per position */
    double magnitude; /* multiplies cos and sin */
} fy_rope;

/* rate: n_rot / 2 doubles that live as long as *r. freqs: the rope_freqs tensor, or the factors of
 * longrope (divides the rates), or NULL. */
void fy_rope_init(fy_rope *r, const fy_hparams *hp, const float *freqs, double *rate);
/* For the layers with the window, where they have a base of their own (rope_theta_swa): no
 * scaling. */
void fy_rope_init_swa(fy_rope *r, const fy_hparams *hp, double *rate);

/* angles[2i] = cos, angles[2i + 1] = sin of pair i at position pos. */
void fy_rope_angles(const fy_rope *r, uint32_t pos, float *angles);

/* --- the session --- */

struct fy_session {
    const fy_model *model;      /* view */
    const struct fy_pass *pass; /* how tokens go through the model; static */
    fy_decoder d;               /* its backend: owned; its activations: sized for n_batch */
    fy_chain_run *chain;        /* owned; NULL: the model is whole, and these two are in use: */
    fy_kv kv;
    fy_states states;
    fy_snapshots snapshots;
    fy_rope rope, rope_swa;
    int32_t *ids;               /* [n_batch], in `memory`, as all of the following */
    int32_t *pos;               /* [n_batch] where they stand in their sequence */
    int32_t *wanted;            /* [n_batch] tokens whose logits are asked for, ascending */
    float *logits;              /* [logit_rows][n_vocab] */
    uint32_t *n_past;           /* [n_seq] */
    uint32_t *next;             /* [n_seq] n_past after the steps of a call so far */
    uint32_t *end;              /* [n_seq] n_past when the call succeeds */
    int32_t *parents;           /* [FY_TREE_MAX] of the nodes of the tree */
    uint32_t n_nodes, tree_seq; /* of the tree; 0: there is none */
    fy_token_tree tree;         /* what a step sees of it */
    uint8_t *memory;            /* owned */
    uint32_t *low; /* [n_seq] the first position that layers with the window still have */
    uint32_t n_ctx, n_batch, n_seq, logit_rows;
    uint32_t n_ring; /* rows that they have; n_ctx: of every position */
};

/* What computes the layers and the output matrix: chosen when the session begins. */
typedef struct fy_pass {
    /* Runs the n <= n_batch tokens `ids`, which stand at d.act.at and `pos`, through all layers,
     * the last one only for those in `wanted` [n_wanted]: d.act.x [n_wanted] is then their residual
     * stream after it; the other activations are lost. `first`: what the sinks call the first
     * token. A sink for the residual stream sees that of all n. */
    int (*layers)(fy_session *s, uint32_t n, uint32_t n_wanted, uint32_t first,
                  const fy_eval_sinks *sinks, fy_err *e);
    /* logits [n][n_vocab] of x [n][n_embd], neither scaled nor capped. d.act.h is lost. */
    int (*head)(fy_session *s, const float *x, uint32_t n, float *logits, fy_err *e);
} fy_pass;

/* snapshots.c: a step of the sequence ends before position `end`: in the layers with the window it
 * takes the rows of the oldest positions. */
void fy_session_seq_reaches(fy_session *s, uint32_t seq, uint32_t end);
/* Are all positions that those after its first n see still there? */
bool fy_session_seq_sees(const fy_session *s, uint32_t seq, uint32_t n);

/* session_tree.c: checks the nodes of a call; puts them into the batch; and has them as the tree.
 */
int fy_session_tree_check(const fy_session *s, const fy_batch *b, fy_err *e);
void fy_session_tree_fill(fy_session *s, const fy_batch *b);
void fy_session_tree_drop(fy_session *s);

/* decode.c: of a whole model; of the graphs of a cut one. */
extern const fy_pass fy_pass_whole, fy_pass_graphs;

#endif
