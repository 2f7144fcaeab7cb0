/* A model (immutable, shared) and sessions on it (one per thread of use).
 *
 * fy_model_open maps a GGUF file, finds its family, reads the hyperparameters, binds every tensor
 * row and checks its shape: all missing, extra and misshapen tensors are reported at once. Weights
 * are used where they lie in the map, in the file's own layout. fy_session holds the KV cache and
 * all scratch, sized once; fy_session_eval allocates nothing. Results do not depend on thread count
 * or on how a prompt is split into batches. */
#ifndef FY_MODEL_MODEL_H
#define FY_MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "base/str.h"
#include "base/types.h"
#include "model/vocab/vocab.h"

typedef struct fy_model fy_model;
typedef struct fy_session fy_session;

fy_model *fy_model_open(const char *path, fy_err *e); /* NULL on failure */
void fy_model_close(fy_model *m);                     /* NULL is fine; sessions must be gone */
const fy_hparams *fy_model_hparams(const fy_model *m);
const fy_family *fy_model_family(const fy_model *m);
const fy_gguf *fy_model_gguf(const fy_model *m);
/* Most positions of a session: those that the model has learned one by one (position_embd), or what
 * 31 bits count. */
uint32_t fy_model_max_ctx(const fy_model *m);
/* Loaded on first use; NULL with *e set when the file has no usable tokenizer. View of the model.
 * Not thread-safe. */
const fy_vocab *fy_model_vocab(fy_model *m, fy_err *e);

typedef struct {
    uint32_t n_ctx;   /* positions in the KV cache; 0: the model's context_length, at most 4096 */
    uint32_t n_batch; /* most tokens computed at once; 0: 512 */
    int n_threads;    /* 0: fy_default_threads() */
    fy_type type_k, type_v; /* FY_F32 or FY_F16 */
} fy_session_params;

/* What a session would take, bytes. Nothing is allocated. */
typedef struct {
    uint64_t kv_bytes, scratch_bytes;
} fy_session_plan;
int fy_session_plan_of(const fy_model *m, const fy_session_params *p, fy_session_plan *out,
                       fy_err *e);

fy_session *fy_session_new(const fy_model *m, const fy_session_params *p, fy_err *e);
void fy_session_free(fy_session *s);             /* NULL is fine */
uint32_t fy_session_n_past(const fy_session *s); /* positions filled */
uint32_t fy_session_n_ctx(const fy_session *s);
void fy_session_rewind(fy_session *s, uint32_t n_past); /* forget positions >= n_past */

/* Sees the logits of positions as they are computed: rows [pos, pos + n) of n_vocab floats. -1
 * stops the eval. */
typedef int fy_logits_sink(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e);
/* Sees the residual stream: layer 0 = input of the first layer, i = output of layer i - 1; x
 * [n][n_embd]. */
typedef int fy_hidden_sink(void *user, uint32_t layer, const float *x, uint32_t pos, uint32_t n,
                           fy_err *e);

typedef struct {
    fy_logits_sink *logits; /* NULL: only the last position's logits are computed */
    fy_hidden_sink *hidden; /* NULL: none */
    void *user;
} fy_eval_sinks;

/* Appends n tokens at n_past. *last (may be NULL) is set to the n_vocab logits of the last
 * position, valid until the next call. FY_EARG for an id out of range, FY_EFIT when the context is
 * full (names the remedy), FY_EINTR. After a failure n_past is what it was before. */
int fy_session_eval(fy_session *s, const int32_t *ids, uint32_t n, const fy_eval_sinks *sinks,
                    const float **last, fy_err *e);

#endif
