/* qnn/config.json of a model: which files compute which of its layers on an NPU, in PowerServe's
 * schema (its QNNConfig; facts from its sources at 0ec6d64) and ours. The files are context
 * binaries, or the GGUF chunks that they are compiled from (arch/chunk_info.h).
 *
 * Read: every key that PowerServe reads is required, with its type and range; other keys are
 * ignored. A path that went through fy_qnn_config_parse is safe to join to the directory (the
 * manifest's rule). Only what PowerServe's runtime can load is
 * accepted: every batch size covers the layers once and in order, all graphs agree on cache,
 * context and preset, the embeddings cover the largest batch, every graph of a binary has its own
 * name. Ours on top: an lm_head may be cut into slices of the vocabulary (first_token, end_token),
 * and "ferry" records what the cut was made for, and what compiled it. Then every file is a context
 * binary NAME.bin with a description NAME.json (backend/qnn/qnn_sidecar.h). */
#ifndef FY_BUNDLE_QNN_CONFIG_H
#define FY_BUNDLE_QNN_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define FY_QNN_DIR         "qnn"         /* below the directory of a model */
#define FY_QNN_CONFIG_NAME "config.json" /* below that */

/* One graph of a context binary: a range of layers, the lm_head (then only the names and
 * batch_size), or an encoder of images (the names, and what is below). */
typedef struct {
    char *type;              /* owned: "transformers"; read by PowerServe and not used */
    char *graph_name;        /* owned: "batch_1" */
    char *model_path;        /* owned; of the context binary, relative to config.json's directory */
    char *x_name, *out_name; /* owned */
    uint32_t batch_size;
    uint32_t start_layer, end_layer; /* end exclusive */
    uint32_t cache_size, context_size;
    uint32_t kv_size;                /* tokens of the preset system prompt */
    uint32_t first_token, end_token; /* of an lm_head that is a slice, end exclusive; 0, 0: all */
    char *kv_path_format;            /* owned; "kv/layer_{layer_id}_{kv_type}_{head_id}.raw" */
    uint32_t n_channels, image_size, n_patches, n_patch_tokens;
} fy_qnn_config_graph;

/* model_parameters that PowerServe's converter writes and its runtime does not read; -1: absent. */
typedef struct {
    int64_t n_layers, vocab_size, embed_dim, ffn_hidden_dim, head_dim, n_kv_heads;
} fy_qnn_dims;

#define FY_QNN_OWN_VERSION 1

/* "ferry.compiled": what the context binaries were made for and with. */
typedef struct {
    char soc[64], recipe[64];
    uint32_t arch; /* 75; 0: ferry has not compiled them */
    uint32_t vtcm_mb;
    char build_id[64];   /* of the library; "": unknown */
    char kv[4], mask[4]; /* types of the caches and the masks: "f16", "u8", "s16"; "f16", "u16" */
    bool rotate_keys;    /* fy_npu_recipe.rotate_keys */
    int32_t *preset_ids; /* owned, [kv_size]; NULL: not known */
    size_t n_preset_ids;
} fy_qnn_compiled;

/* "ferry". */
typedef struct {
    uint32_t version;         /* 0: there is none */
    char model[65];           /* which model was cut: fy_chunk_info.model */
    char soc[64], recipe[64]; /* "": the cut was made for none */
    uint32_t kv_bits;         /* that the plan had for keys and values; 0: no plan */
    fy_qnn_compiled compiled;
} fy_qnn_own;

typedef struct {
    double attention_mask_value;
    uint32_t n_hvx_threads;
    fy_qnn_config_graph *graph; /* owned, in the file's order; at least one */
    size_t n_graphs;
    fy_qnn_config_graph *embedding; /* owned; none: the CPU computes norm and lm_head */
    size_t n_embeddings;
    fy_qnn_config_graph *vision; /* owned; NULL: none */
    fy_qnn_dims dims;
    fy_qnn_own own;
    /* what all graphs agree on */
    uint32_t n_layers, cache_size, context_size, kv_size;
    uint32_t max_batch;
    uint32_t n_tokens;          /* that the slices of the lm_head cover; 0: not given */
    const char *kv_path_format; /* view of graph[0] */
} fy_qnn_config;

int fy_qnn_config_parse(const void *p, size_t n, fy_qnn_config *out, fy_err *e);
void fy_qnn_config_release(fy_qnn_config *c);

/* Is it a chunk of ours (*.gguf), not yet compiled? */
bool fy_qnn_is_gguf(const fy_qnn_config_graph *g);
/* Is any of them? Some may be compiled and others not. */
bool fy_qnn_has_gguf(const fy_qnn_config *c);
/* Ranges of the vocabulary that the lm_head is divided into; 0: there is none. */
size_t fy_qnn_n_slices(const fy_qnn_config *c);
/* Does a package have preset files? PowerServe's runtime opens them also when kv_size is 0; chunks
 * and graphs of other types than it computes with have none then. */
bool fy_qnn_has_preset(const fy_qnn_config *c);
/* *out becomes the description of a binary of a compiled model: "chunk_0.json". */
void fy_qnn_sidecar_path(const char *model_path, fy_str *out);
/* *out becomes the file of a layer's and KV head's preset; kv_type "key" or "value". */
void fy_qnn_preset_path(const fy_qnn_config *c, uint32_t layer, const char *kv_type, uint32_t head,
                        fy_str *out);

#endif
