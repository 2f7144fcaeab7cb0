/* Prompt cache files: what a session computed for its tokens, so that another run does not compute
 * it again. The format: docs/prompt-cache.md.
 *
 * A file is checked whole when it is opened: sizes, and the hash over all of it. It fits a session
 * when the model, the kernels and the types of the cache are the same; then the session continues
 * to the same bits. */
#ifndef FY_MODEL_PROMPT_CACHE_H
#define FY_MODEL_PROMPT_CACHE_H

#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "model/model.h"

/* What the bits of a cache depend on. */
typedef struct {
    uint8_t model[FY_SHA256_BYTES]; /* fy_model_identity */
    uint32_t kernels;               /* fy_cpu_features */
    uint32_t flags;                 /* FY_PROMPT_CACHE_... */
    uint32_t type_k, type_v;        /* fy_type */
    uint32_t n_layer, n_head_kv, head_dim, head_dim_v;
} fy_prompt_cache_shape;

enum { FY_PROMPT_CACHE_LONG_ROPE = 1 }; /* longrope's factors for a long context */

/* SHA-256 over the keys, the tensors' names, types and shapes, and 12 KB of each tensor: two models
 * differ in some tensor's beginning, middle or end. Does not read the whole file. */
int fy_model_identity(const fy_model *m, uint8_t out[FY_SHA256_BYTES], fy_err *e);

int fy_prompt_cache_shape_of(const fy_session *s, fy_prompt_cache_shape *out, fy_err *e);

/* Takes the bytes from `at` on of so many; -1 stops the work. */
typedef int fy_prompt_cache_sink(void *user, const void *p, size_t n, uint64_t at, uint64_t bytes,
                                 fy_err *e);
/* Gives the first n positions of a sequence, whose tokens are ids[n], and its snapshots to a sink.
 * FY_EARG when it does not hold so many, or more and the model has states or windows. */
int fy_prompt_cache_put(const fy_session *s, uint32_t seq, const int32_t *ids, uint32_t n,
                        fy_prompt_cache_sink *sink, void *user, fy_err *e);
/* The same to a file, through fy_out. */
int fy_prompt_cache_write(const char *path, const fy_session *s, uint32_t seq, const int32_t *ids,
                          uint32_t n, fy_err *e);

typedef struct fy_prompt_cache fy_prompt_cache;

/* FY_EFORMAT for a file that is not one or is damaged, FY_EARG for one of another model, other
 * kernels or another cache type; the message names it. NULL on failure. */
fy_prompt_cache *fy_prompt_cache_open(const char *path, const fy_session *s, fy_err *e);
/* Of bytes, which must last. want NULL: fits anything. */
fy_prompt_cache *fy_prompt_cache_parse(const void *p, size_t n, const fy_prompt_cache_shape *want,
                                       fy_err *e);
/* Has it every layer's part of the session's model, in the right size? fy_prompt_cache_open has
 * checked that. FY_EFORMAT. */
int fy_prompt_cache_check(const fy_prompt_cache *c, const fy_session *s, fy_err *e);
void fy_prompt_cache_close(fy_prompt_cache *c); /* NULL is fine */

const int32_t *fy_prompt_cache_ids(const fy_prompt_cache *c, uint32_t *n);

/* Sequence `seq` becomes the first n positions of the file; of a model with states, or of a window
 * alone, as many of them as the file can go on from (fy_session_seq_n_past): those of a snapshot,
 * maybe none. All of them when n is all that the file has. */
int fy_prompt_cache_load(const fy_prompt_cache *c, fy_session *s, uint32_t seq, uint32_t n,
                         fy_err *e);

#endif
