/* A session from the inside: its KV cache, its RoPE tables, and the pass of its tokens through the
 * model. */
#ifndef FY_MODEL_SESSION_H
#define FY_MODEL_SESSION_H

#include "model/chain.h"
#include "model/decoder.h"

/* --- the KV cache: [layer][n_seq][n_head_kv][n_ctx][head_dim] for keys, the same with head_dim_v
 * for values, so that the keys one query head reads lie in one run. f32, f16, or q8_0 and q4_0
 * where rows are whole blocks --- */

typedef struct {
    uint8_t *k, *v;    /* owned */
    fy_kv_layer shape; /* of every layer; its k and v are not set */
    size_t layer_k_bytes, layer_v_bytes;
} fy_kv;

/* Bytes of a cache. Types: FY_F32, FY_F16, FY_Q8_0 or FY_Q4_0; FY_EARG when rows are not whole
 * blocks. */
int fy_kv_bytes(const fy_hparams *hp, uint32_t n_seq, uint32_t n_ctx, fy_type type_k,
                fy_type type_v, uint64_t *bytes, fy_err *e);
fy_kv_layer fy_kv_at(const fy_kv *kv, uint32_t layer);

/* session_range.c: rows of n positions of one head, and where they begin. */
size_t fy_kv_run_bytes(const fy_kv_layer *l, bool values, uint32_t n);
uint8_t *fy_kv_run_at(const fy_kv_layer *l, bool values, uint32_t seq, uint32_t head, uint32_t pos);
/* Does it rotate by longrope's factors for a long context? Another -c may decide otherwise. */
bool fy_session_has_long_rope(const struct fy_session *s);

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
    fy_rope rope, rope_swa;
    int32_t *ids;     /* [n_batch], in `memory`, as all of the following */
    int32_t *pos;     /* [n_batch] where they stand in their sequence */
    int32_t *wanted;  /* [n_batch] tokens whose logits are asked for, ascending */
    float *logits;    /* [logit_rows][n_vocab] */
    uint32_t *n_past; /* [n_seq] */
    uint32_t *next;   /* [n_seq] n_past after the steps of a call so far */
    uint32_t *end;    /* [n_seq] n_past when the call succeeds */
    uint8_t *memory;  /* owned */
    uint32_t n_ctx, n_batch, n_seq, logit_rows;
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

/* decode.c: of a whole model; of the graphs of a cut one. */
extern const fy_pass fy_pass_whole, fy_pass_graphs;

#endif
