/* A directory laid out like a published NPU package: qnn/config.json, context binaries, preset. */
#ifndef FY_TESTS_QNN_FIXTURE_H
#define FY_TESTS_QNN_FIXTURE_H

#include "base/str.h"
#include "workspace/model_json.h"
#include "workspace/qnn_check.h"

/* Two chunks of one layer each, batch sizes 1 and 128, an lm_head; heads of 16 elements. */
#define QNN_GRAPH(batch, begin, end, file)                                                         \
    "{\"type\": \"transformers\", \"graph_name\": \"batch_" batch "\", \"start_layer_id\": " begin \
    ", \"end_layer_id\": " end ", \"batch_size\": " batch                                          \
    ", \"cache_size\": 1920, \"context_size\": 2048, \"model_path\": \"" file                      \
    "\", \"kv_path_format\": \"kv/layer_{layer_id}_{kv_type}_{head_id}.raw\", \"kv_size\": 11, "   \
    "\"x_name\": \"x\", \"out_name\": \"out\"}"
#define QNN_HEAD(batch)                                           \
    "{\"graph_name\": \"batch_" batch                             \
    "\", \"model_path\": \"lm_head.bin\", \"batch_size\": " batch \
    ", \"x_name\": \"x\", \"out_name\": \"logits\"}"
#define QNN_PARAMETERS                                                                       \
    "\"model_parameters\": {\"n_layers\": 2, \"vocab_size\": 48, \"embed_dim\": 32, "        \
    "\"ffn_hidden_dim\": 64, \"head_dim\": 16, \"n_kv_heads\": 1, \"rope_theta\": 10000.0, " \
    "\"attention_mask_value\": -50000.0}, \"qnn_parameters\": {\"n_hvx_threads\": 4}"
#define QNN_GRAPHS                                                                          \
    "\"graphs\": [" QNN_GRAPH("1", "0", "1", "m_0.bin") ", " QNN_GRAPH(                     \
        "1", "1", "2", "m_1.bin") ", " QNN_GRAPH("128", "0", "1",                           \
                                                 "m_0.bin") ", " QNN_GRAPH("128", "1", "2", \
                                                                           "m_1.bin") "]"
#define QNN_HEADS  "\"embeddings\": [" QNN_HEAD("1") ", " QNN_HEAD("128") "]"
#define QNN_CONFIG "{" QNN_PARAMETERS ", " QNN_GRAPHS ", " QNN_HEADS "}"

/* What model.json says of it. */
static inline fy_model_json qnn_model(void)
{
    return (fy_model_json){.n_layers = 2,
                           .vocab_size = 48,
                           .embed_dim = 32,
                           .ffn_dim = 64,
                           .head_size = 16,
                           .n_attn_kv_heads = 1};
}

/* config with the first `from` replaced by `to`; the caller frees. */
static inline char *qnn_changed(const char *config, const char *from, const char *to)
{
    const char *at_from = strstr(config, from);
    fy_str s = {0};
    assert_non_null(at_from);
    fy_str_add(&s, config, (size_t)(at_from - config));
    fy_str_puts(&s, to);
    fy_str_puts(&s, at_from + strlen(from));
    return s.ptr;
}

#endif
