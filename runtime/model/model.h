/* A model (immutable, shared) and sessions on it (one per thread of use).
 *
 * fy_model_open maps a GGUF file, finds its family, reads the hyperparameters, binds every tensor
 * row and checks its shape: all missing, extra and misshapen tensors are reported at once. Weights
 * are used where they lie in the map, in the file's own layout. fy_session holds the KV cache and
 * all scratch, sized once, of one or more sequences; fy_session_decode and fy_session_eval allocate
 * nothing. The results of a sequence do not depend on the thread count, on how its tokens are split
 * into calls and batches, or on the sequences that share them. */
#ifndef FY_MODEL_MODEL_H
#define FY_MODEL_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/chunk_info.h"
#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "base/types.h"
#include "model/vocab/vocab.h"

typedef struct fy_model fy_model;
typedef struct fy_session fy_session;
struct fy_gpu;

fy_model *fy_model_open(const char *path, fy_err *e); /* NULL on failure */
/* As fy_model_open, but not necessarily mapped. */
fy_model *fy_model_open_as(const char *path, const fy_map_options *map, fy_err *e);
/* lock_hot.c: locks in memory what every token reads and the hot neurons of a file that says which
 * they are (ferry.hot_neurons); the others are read when they are needed, and their memory is free
 * again after each product. The file is mapped, and no session has it yet. What the system does not
 * allow is a warning. */
int fy_model_lock_hot(fy_model *m, fy_err *e);
/* expert_cache.c: the weights take at most `bytes` of memory: experts are read when they are
 * needed, and those that were not used for longest make room. The file is mapped, without huge
 * pages, and no session has it yet. FY_EFIT names the least that the model needs. */
int fy_model_limit_memory(fy_model *m, uint64_t bytes, fy_err *e);
/* Experts of a layer that were needed and in memory, or had to be read, since the model was opened;
 * all 0 without a limit. */
typedef struct {
    uint64_t n_held, n_read, bytes_read;
} fy_expert_counts;
fy_expert_counts fy_model_expert_counts(const fy_model *m);
/* gpu_hot.c: the GPU, which the model owns from now on, also after a failure, computes the hot
 * neurons of such a file, of every token; sessions come later. The results are the CPU's but for
 * rounding: with a GPU no promise of equal bits holds. One thread at a time uses the model then. */
int fy_model_give_hot(fy_model *m, struct fy_gpu *gpu, fy_err *e);
const char *fy_model_gpu(const fy_model *m); /* its name; NULL: there is none */
/* Any chunk of a model that was cut (arch/chunk_info.h), or a whole model. A chunk holds some of
 * the tensors and cannot compute alone: fy_model_chain (model/chain.h) makes one of several. */
fy_model *fy_model_open_chunk(const char *path, const fy_map_options *map, fy_err *e);
void fy_model_close(fy_model *m); /* NULL is fine; sessions must be gone */
const fy_hparams *fy_model_hparams(const fy_model *m);
const fy_family *fy_model_family(const fy_model *m);
const fy_gguf *fy_model_gguf(const fy_model *m);
const fy_chunk_info *fy_model_chunk_info(const fy_model *m);
/* The files beside it that the layers and the lm_head are in, of a model of graphs; 0: none. */
size_t fy_model_n_chunks(const fy_model *m);
const char *fy_model_chunk_path(const fy_model *m, size_t i);
const char *fy_model_backend(const fy_model *m); /* of its layers: "cpu", "cpu+gpu", "chunks" */
/* Most positions of a session: the learned position embeddings (position_embd), those
 * that its graphs have cached, or what 31 bits count. */
uint32_t fy_model_max_ctx(const fy_model *m);
/* No layer has attention: what a sequence takes does not grow with it, and every session has room
 * for as many positions, whatever is asked for. */
bool fy_model_is_endless(const fy_model *m);
/* Loaded on first use; NULL with *e set when the file has no usable tokenizer. View of the model.
 * Not thread-safe. */
const fy_vocab *fy_model_vocab(fy_model *m, fy_err *e);

#define FY_SEQ_MAX    256 /* sequences of a session */
#define FY_LOGIT_ROWS 16  /* tokens whose logits are held at once, or n_seq when that is more */

/* Feed-forward networks of which activations are exactly 0: while one token is computed, gate goes
 * first, and the rows of neurons that are 0 are not read. The bits are the same. AUTO: in a layer
 * where so many are 0 that it pays; EXACT: always; OFF: never. PREDICT: only neurons that the
 * file's predictors score at least at a threshold are computed, of every token, alone or in a
 * batch; the others count as 0, which they may not be. */
typedef enum { FY_SPARSE_AUTO, FY_SPARSE_EXACT, FY_SPARSE_OFF, FY_SPARSE_PREDICT } fy_sparse;

typedef struct {
    uint32_t n_ctx;   /* positions of a sequence; 0: the model's context_length, at most 4096 */
    uint32_t n_batch; /* most tokens computed at once; 0: 512 */
    int n_threads;    /* 0: fy_default_threads() */
    /* FY_F32, FY_F16, or FY_Q8_0, FY_Q4_0 where head_dim is a multiple of 32 */
    fy_type type_k, type_v;
    uint32_t n_seq;    /* sequences, each with a KV cache of its own; 0: 1; at most FY_SEQ_MAX */
    uint32_t n_logits; /* rows of logits computed at once; at least FY_LOGIT_ROWS */
    /* Layers with a sliding window keep the window and a step alone. What a sequence can keep is
     * then less (fy_session_seq_keeps), and after a call that failed it may hold nothing: ask
     * fy_session_seq_n_past. The bits are the same. */
    bool ring;
    /* fy_session_seq_snapshot keeps something: of all sequences together at most 128 MB, or where
     * there are states two of each. Taken when they are made. */
    bool snapshots;
    fy_sparse sparse;
    float sparse_threshold; /* of PREDICT; NAN: what the file says, or 0 */
} fy_session_params;

/* What a session would take, bytes, and its parameters with every 0 replaced. Nothing is allocated.
 */
typedef struct {
    uint64_t kv_bytes, scratch_bytes;
    const char *type_k, *type_v; /* of the cache: params', or what compiled graphs fix */
    uint32_t n_ring;             /* positions in layers with the window; params.n_ctx: all */
    fy_session_params params;
} fy_session_plan;
int fy_session_plan_of(const fy_model *m, const fy_session_params *p, fy_session_plan *out,
                       fy_err *e);

fy_session *fy_session_new(const fy_model *m, const fy_session_params *p, fy_err *e);
void fy_session_free(fy_session *s); /* NULL is fine */
uint32_t fy_session_n_ctx(const fy_session *s);
uint32_t fy_session_n_seq(const fy_session *s);
uint32_t fy_session_n_batch(const fy_session *s);
uint32_t fy_session_n_logits(const fy_session *s); /* rows held at once */
/* Of FY_SPARSE_PREDICT: which share of all neurons was computed so far; NAN: none, or no such mode.
 */
double fy_session_neuron_share(const fy_session *s);

/* Positions filled; 0 for a sequence that the session does not have. */
uint32_t fy_session_seq_n_past(const fy_session *s, uint32_t seq);
/* How many of its first n positions a sequence can keep: all of them, but where layers have a state
 * instead of a cache, which belongs to all positions together: all that it holds, what it held
 * before the last call, a snapshot, or 0; and where they keep a window (`ring`) and what those
 * positions see is gone, a snapshot, or 0. */
uint32_t fy_session_seq_keeps(const fy_session *s, uint32_t seq, uint32_t n);
/* Forgets positions >= n_past, and all others that fy_session_seq_keeps says it cannot keep: ask
 * fy_session_seq_n_past, and compute the rest again. */
void fy_session_seq_rewind(fy_session *s, uint32_t seq, uint32_t n_past);
/* Remembers where the sequence stands, so that it can come back here; for the end of a turn.
 * Nothing happens where it can go back anyhow. */
void fy_session_seq_snapshot(fy_session *s, uint32_t seq);
bool fy_session_has_snapshots(const fy_session *s); /* does that do anything? */
/* How far a prompt is computed until the next one, n_prompt: there is none. They are worth a step
 * of their own where another text had the same beginning (n_shared), and before the last tokens,
 * which a chat template puts after the last message and no later prompt may repeat; each well
 * after the one before it and after what was not computed (n_cached). */
enum { FY_SNAPSHOT_APART = 24, FY_SNAPSHOT_BEFORE_END = 8 };
uint32_t fy_snapshot_stop(uint32_t n_cached, uint32_t n_shared, uint32_t n_prompt, uint32_t n_past);
/* What sequence `to` held is replaced by the first n_past positions of `from`, as if it had
 * computed them: a beginning that sequences share is computed once. FY_EARG for sequences that the
 * session does not have, or when `from` holds fewer; FY_EUNSUPPORTED when it cannot keep so many.
 */
int fy_session_seq_copy(fy_session *s, uint32_t from, uint32_t to, uint32_t n_past, fy_err *e);

/* Positions [begin, end) of a sequence as bytes, and back: for each layer the keys and then the
 * values [n_head_kv][end - begin], in the types of the cache, and what layers with a state, or a
 * window alone, have at `end` and at the snapshots in between. The bytes fit sessions of the same
 * model and types, of any n_seq and, but for rings of other lengths, n_ctx, on the same kernels.
 * write: the sequence holds at least `begin` positions, and then `end`. FY_EARG for ranges that it
 * does not have, FY_EUNSUPPORTED for a model of graphs, and when it cannot go back to `end`. */
int fy_session_check_saves(const fy_session *s, fy_err *e); /* FY_EUNSUPPORTED, or 0 */
uint64_t fy_session_seq_bytes(const fy_session *s, uint32_t seq, uint32_t begin, uint32_t end);
int fy_session_seq_read(const fy_session *s, uint32_t seq, uint32_t begin, uint32_t end, void *out,
                        fy_err *e);
int fy_session_seq_write(fy_session *s, uint32_t seq, uint32_t begin, uint32_t end, const void *in,
                         fy_err *e);
/* fy_session_seq_keeps of a sequence that is written from these bytes of positions [0, end). */
uint32_t fy_session_saved_keeps(const fy_session *s, uint32_t end, const void *in, uint32_t n);

/* What one head of the cache holds of sequence 0's first n tokens, by position: values
 * [n][head_dim_v], or keys [n][head_dim] as docs/golden.md has them, whatever computed them. 0 in a
 * layer without attention. */
int fy_session_cached(const fy_session *s, uint32_t layer, uint32_t head, bool values, uint32_t n,
                      float *out, fy_err *e);

uint32_t fy_session_n_past(const fy_session *s);        /* of sequence 0 */
void fy_session_rewind(fy_session *s, uint32_t n_past); /* the same */

/* Sees logits as they are computed: rows [first, first + n) of n_vocab floats. fy_session_eval
 * counts positions, fy_session_decode the tokens of the call. -1 stops the work. */
typedef int fy_logits_sink(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e);
/* Sees the residual stream: layer 0 = input of the first layer, i = output of layer i - 1; x
 * [n][n_embd], counted likewise. Of graphs: what enters each chunk, and what leaves the last. */
typedef int fy_hidden_sink(void *user, uint32_t layer, const float *x, uint32_t first, uint32_t n,
                           fy_err *e);

/* For a sink of the residual stream, while it runs: n <= n_batch rows of what leaves the last
 * layer, normed as the lm_head reads them. A view, until the next call. Not for a model whose
 * graphs compute the lm_head. */
const float *fy_session_norm(fy_session *s, const float *x, uint32_t n);
bool fy_session_has_norm(const fy_session *s);

typedef struct {
    fy_logits_sink *logits; /* NULL: the session holds those that are asked for */
    fy_hidden_sink *hidden; /* NULL: none */
    void *user;
    const _Atomic bool *cancel; /* once it is true, the call ends with FY_EINTR; NULL: never */
} fy_eval_sinks;

/* Tokens of any sequences in any order: prompts, parts of them, single tokens. Each goes after
 * what its sequence holds and those before it in the list. */
typedef struct {
    const int32_t *ids;   /* [n] */
    const uint32_t *seqs; /* [n], below n_seq; NULL: all of sequence 0 */
    const uint8_t *wants; /* [n], not 0: its logits are asked for; NULL: the last of each sequence,
                             none of a tree */
    uint32_t n;
    /* [n] All of them are nodes of a tree that follows sequence seqs[0], each after its parent: an
     * earlier node, or -1, the sequence. NULL: no tree. */
    const int32_t *parents;
} fy_batch;

/* Trees. The sequence stays what it is; the nodes are numbered from 0 on, through calls that add to
 * the tree, and take a position of the context each. A call without `parents`, or anything else
 * that changes a sequence, ends the tree. A node's logits are those of a sequence that
 * holds its ancestors. */
/* The n nodes of a path from the sequence on become part of it; no other node remains. */
int fy_session_tree_keep(fy_session *s, const int32_t *path, uint32_t n, fy_err *e);
uint32_t fy_session_tree_n(const fy_session *s);            /* nodes; 0: there is no tree */
int fy_session_check_trees(const fy_session *s, fy_err *e); /* FY_EUNSUPPORTED, or 0 */

/* *logits (may be NULL) is set to a row of n_vocab for each token that asks, in the order of the
 * list, valid until the next call; at most n_seq or FY_LOGIT_ROWS tokens may ask, whichever is
 * more. A sink for logits (sinks may be NULL) sees those of any number instead, and *logits becomes
 * NULL, as it does when none asks. FY_EARG for an id, a sequence or a parent out of range, FY_EFIT
 * when a context is full (names the sequence and the remedy), FY_EINTR. After a failure every
 * sequence is what it was before. */
int fy_session_decode(fy_session *s, const fy_batch *b, const fy_eval_sinks *sinks,
                      const float **logits, fy_err *e);

/* The same for n tokens of sequence 0. *last (may be NULL) is set to the logits of the last one,
 * valid until the next call; a sink sees those of all. */
int fy_session_eval(fy_session *s, const int32_t *ids, uint32_t n, const fy_eval_sinks *sinks,
                    const float **last, fy_err *e);

#endif
