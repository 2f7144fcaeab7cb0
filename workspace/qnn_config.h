/* qnn/config.json of a model: which context binaries of the NPU compute which layers, in
 * PowerServe's schema (its QNNConfig; facts from its sources at 0ec6d64), and the strict check of
 * the directory that holds it.
 *
 * Read: every key that PowerServe reads is required, of its type and range; keys that nobody reads
 * are ignored, but must not contradict model.json. A path that went through fy_qnn_config_parse is
 * safe to join to the directory (the manifest's rule). Accepted is only what PowerServe's runtime
 * can load: every batch size covers the layers once and in order, all graphs agree on cache,
 * context and preset, the embeddings cover the largest batch, every graph of a binary has its own
 * name. */
#ifndef FY_WORKSPACE_QNN_CONFIG_H
#define FY_WORKSPACE_QNN_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workspace/model_json.h"

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
    uint32_t kv_size;     /* tokens of the preset system prompt */
    char *kv_path_format; /* owned; "kv/layer_{layer_id}_{kv_type}_{head_id}.raw" */
    uint32_t n_channels, image_size, n_patches, n_patch_tokens;
} fy_qnn_graph;

/* model_parameters that PowerServe's converter writes and its runtime does not read; -1: absent. */
typedef struct {
    int64_t n_layers, vocab_size, embed_dim, ffn_hidden_dim, head_dim, n_kv_heads;
} fy_qnn_dims;

typedef struct {
    double attention_mask_value;
    uint32_t n_hvx_threads;
    fy_qnn_graph *graph; /* owned, in the file's order; at least one */
    size_t n_graphs;
    fy_qnn_graph *embedding; /* owned; none: the CPU computes norm and lm_head */
    size_t n_embeddings;
    fy_qnn_graph *vision; /* owned; NULL: none */
    fy_qnn_dims dims;
    /* what all graphs agree on */
    uint32_t n_layers, cache_size, context_size, kv_size;
    uint32_t max_batch;
    const char *kv_path_format; /* view of graph[0] */
} fy_qnn_config;

int fy_qnn_config_parse(const void *p, size_t n, fy_qnn_config *out, fy_err *e);
void fy_qnn_config_release(fy_qnn_config *c);

/* FY_EVERIFY where the graphs contradict model.json. */
int fy_qnn_config_compare(const fy_qnn_config *c, const fy_model_json *m, fy_err *e);

/* Calls `each` once for every file that the configuration needs, relative to its own directory.
 * Stops at the first -1. */
#define FY_QNN_ANY_BYTES UINT64_MAX /* of any size but 0 */
typedef int fy_qnn_file(void *user, const char *rel, uint64_t bytes, fy_err *e);
int fy_qnn_config_files(const fy_qnn_config *c, const fy_model_json *m, fy_qnn_file *each,
                        void *user, fy_err *e);

/* All of it for a directory with config.json in it: read, compared with model.json, every file
 * there as a regular file of its size. out may be NULL. Messages begin with the file's path below
 * dir. FY_EFORMAT or FY_EVERIFY. */
int fy_qnn_check_dir(const char *dir, const fy_model_json *m, fy_qnn_config *out, fy_err *e);

#endif
