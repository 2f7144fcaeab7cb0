/* model.json: what PowerServe's runtime wants to know of a model (its ModelConfig schema, version
 * 20241202), taken from the GGUF header. Ours never computes from it: weights.gguf is the truth,
 * verify compares the two. */
#ifndef FY_WORKSPACE_MODEL_JSON_H
#define FY_WORKSPACE_MODEL_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "base/str.h"
#include "format/gguf.h"

#define FY_MODEL_ID_BYTES   129
#define FY_MODEL_TEXT_BYTES 33

typedef struct {
    char model_id[FY_MODEL_ID_BYTES]; /* unique in a workspace */
    char model_arch[FY_MODEL_TEXT_BYTES];
    int64_t version;
    int64_t embed_dim, ffn_dim, n_layers, n_attn_heads, n_attn_kv_heads;
    int64_t n_ctx; /* what PowerServe sizes its f32 KV cache by: capped */
    int64_t vocab_size, kv_dim, head_size;
    double norm_eps;
    int64_t rope_dim, n_rope_ctx_orig;
    double rope_freq_base, rope_freq_scale, rope_attn_factor;
    char rope_scale_type[FY_MODEL_TEXT_BYTES];
    int64_t rope_type; /* ggml's: 0 pairs (2i, 2i+1), 2 pairs (i, i + n/2) */
} fy_model_json;

/* FY_EARG when the id is not 1 to 128 bytes of printable UTF-8. */
int fy_model_json_of(const fy_family *f, const fy_hparams *hp, const char *model_id,
                     fy_model_json *out, fy_err *e);

int fy_model_json_text(const fy_model_json *m, fy_str *out, fy_err *e);
/* Every key required, unknown ones ignored. */
int fy_model_json_parse(const void *p, size_t n, fy_model_json *out, fy_err *e);

/* FY_EVERIFY naming the first key that contradicts the weights (the id is free). */
int fy_model_json_compare(const fy_model_json *found, const fy_model_json *expected, fy_err *e);

/* Appends why PowerServe's runtime could not compute this model ("a; b"); nothing when it can. */
void fy_powerserve_limits(const fy_gguf *g, const fy_family *f, const fy_hparams *hp, fy_str *out);

/* hparams.json: what the file recommends for sampling (general.sampling.*) and nothing it does not;
 * greedy as PowerServe creates it when it recommends nothing. */
int fy_hparams_json_text(const fy_gguf *g, fy_str *out, fy_err *e);

/* A jansson tree as text with a final newline; takes the tree. NULL (out of memory on the way) is
 * FY_ENOMEM. */
struct json_t;
int fy_json_text(struct json_t *root, fy_str *out, fy_err *e);
/* With so many digits of a real at most; fy_json_text writes 17. */
int fy_json_text_digits(struct json_t *root, int digits, fy_str *out, fy_err *e);
/* The same text on stdout. */
int fy_json_print(struct json_t *root, int digits, fy_err *e);

#endif
