/* A directory laid out like a published NPU package: qnn/config.json, context binaries, preset. */
#ifndef FY_TESTS_QNN_FIXTURE_H
#define FY_TESTS_QNN_FIXTURE_H

#include "tests/unit/bundle/qnn_text.h"
#include "workspace/data/model_json.h"
#include "workspace/npu/qnn_check.h"

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

#endif
