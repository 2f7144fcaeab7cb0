/* SmallThinker 4B-A0.6B and 21B-A3B: experts with relu gates, chosen by the residual stream as it
 * enters the layer, by default by sigmoid. Layers of 21B come in fours, the first with full
 * attention and no rotation, the others with a window; those of 4B all rotate and have none. */
#include "arch/moe_rows.h"

#define EXPERT(name) "block_sparse_moe.experts.%e." name ".weight"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_V,
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("block_sparse_moe.primary_router", 0),
    ROW_GATE_EACH(EXPERT("gate")),
    ROW_UP_EACH(EXPERT("up")),
    ROW_DOWN_EACH(EXPERT("down")),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"SmallThinkerForCausalLM", NULL};

static const char *const window_keys[] = {"sliding_window_size", NULL};

static const fy_config_key keys[] = {
    {"moe_num_primary_experts", offsetof(fy_hparams, n_expert), FY_OP_SET, 0, NULL},
    {"moe_num_active_primary_experts", offsetof(fy_hparams, n_expert_used), FY_OP_SET, 0, NULL},
    {"moe_primary_router_apply_softmax", offsetof(fy_hparams, gating), FY_OP_ROUTER_IS_SOFTMAX, 0,
     NULL},
};

const fy_family fy_family_smallthinker = {
    .name = "smallthinker",
    .gguf_arch = "smallthinker",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 151936,
            .n_ctx_train = 131072,
            .n_embd = 1536,
            .n_layer = 32,
            .n_ff = 768,
            .n_head = 12,
            .n_head_kv = 2,
            .head_dim = 128,
            .n_swa = 4096,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 1e6F,
            .act = FY_ACT_RELU,
            .n_expert = 32,
            .n_expert_used = 4,
            .n_ff_exp = 768,
            .gating = FY_GATING_SIGMOID,
            .expert_norm = true,
        },
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .moe = true,
    .early_router = true,
    .nope_follows_swa = true,
    .full_attention = {.period = 4, .first = true},
    .no_rope = {.period = 4, .first = true},
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .window_keys = window_keys,
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
};
