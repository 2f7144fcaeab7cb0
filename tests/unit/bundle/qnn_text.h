/* qnn/config.json as published packages have it, and with our chunks; changed at will. */
#ifndef FY_TESTS_QNN_TEXT_H
#define FY_TESTS_QNN_TEXT_H

#include <string.h>

#include "base/str.h"

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

/* A model of three layers and 48 tokens in four chunks of ours: layers 0 and 1, layer 2, and two
 * slices of the lm_head; batch sizes 8 and 1. */
#define QNN_CUT_MODEL "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define QNN_CUT_GRAPH(batch, begin, end, file)                                                     \
    "{\"type\": \"transformers\", \"graph_name\": \"batch_" batch "\", \"start_layer_id\": " begin \
    ", \"end_layer_id\": " end ", \"batch_size\": " batch                                          \
    ", \"cache_size\": 24, \"context_size\": 32, \"model_path\": \"" file                          \
    "\", \"kv_path_format\": \"kv/layer_{layer_id}_{kv_type}_{head_id}.raw\", \"kv_size\": 0, "    \
    "\"x_name\": \"x\", \"out_name\": \"out\"}"
#define QNN_CUT_HEAD(batch, first, end, file)                                                    \
    "{\"graph_name\": \"batch_" batch "\", \"model_path\": \"" file "\", \"batch_size\": " batch \
    ", \"first_token\": " first ", \"end_token\": " end                                          \
    ", \"x_name\": \"x\", \"out_name\": \"logits\"}"
#define QNN_CUT_BATCH(batch)                       \
    QNN_CUT_GRAPH(batch, "0", "2", "chunk_0.gguf") \
    ", " QNN_CUT_GRAPH(batch, "2", "3", "chunk_1.gguf")
#define QNN_CUT_HEADS(batch)                         \
    QNN_CUT_HEAD(batch, "0", "32", "lm_head_0.gguf") \
    ", " QNN_CUT_HEAD(batch, "32", "48", "lm_head_1.gguf")
#define QNN_CUT                                                                                                                                                     \
    "{\"model_parameters\": {\"n_layers\": 3, \"attention_mask_value\": -50000.0}, "                                                                                \
    "\"qnn_parameters\": {\"n_hvx_threads\": 4}, \"graphs\": [" QNN_CUT_BATCH(                                                                                      \
        "8") ", " QNN_CUT_BATCH("1") "], \"embeddings\": [" QNN_CUT_HEADS("8") ", " QNN_CUT_HEADS("1") "], \"ferry\": {\"version\": 1, \"model\": \"" QNN_CUT_MODEL \
                                                                                                       "\", \"soc\": \"SM8650\", \"recipe\": \"16a4w\", \"kv_bits\": 8}}"

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
