/* RWKV 5, 6 and 7: in every layer a time mix, whose state is a matrix for each head, and a channel
 * mix. The names are those of BlinkDL's files (blocks.N.att...); other forms of a row are those of
 * the classes of Hugging Face (rwkv.blocks.N.attention...) and of flash-linear-attention
 * (model.layers.N.attn...). GGUF names are llama.cpp's; version 5, which it does not have, follows
 * version 6 (docs/gguf.md).
 *
 * In BlinkDL's files the low-rank matrices are [in, out], those of flash-linear-attention are
 * [out, in]. Everything but the large matrices stays f32. */
#include "arch/tensor_rows.h"

#define P_ATT "blocks.%u.att."
#define P_FFN "blocks.%u.ffn."
#define R     "rwkv."
#define R_ATT R "blocks.%u.attention."
#define R_FFN R "blocks.%u.feed_forward."
#define F_ATT HF_LAYER "attn."
#define F_FFN HF_LAYER "ffn."
#define G_MIX "blk.%u.time_mix_"
#define G_FFN "blk.%u.channel_mix_"

#define ALT .flags = FY_ROW_ALT
/* The same row under a second name. */
#define TWO_MATRICES(slot, gguf, hf, hf2, rows, cols)                 \
    COPY(slot, gguf, hf, rows, cols),                                 \
    {                                                                 \
        slot, gguf ".weight", hf2 ".weight", {rows, cols}, FY_X_COPY, \
            .flags = FY_ROW_MATRIX | FY_ROW_ALT                       \
    }
#define TWO_NORMS(slot, gguf, hf, hf2)                                            \
    TWO_VECTORS(slot, gguf, hf ".weight", hf2 ".weight", FY_X_COPY),              \
        {slot##_B, gguf ".bias", hf ".bias", {FY_D_EMBD}, FY_X_COPY, .flags = 0}, \
    {                                                                             \
        slot##_B, gguf ".bias", hf2 ".bias", {FY_D_EMBD}, FY_X_COPY, ALT          \
    }
/* Of [n_embd] elements; names are whole. */
#define TWO_VECTORS(slot, gguf, hf, hf2, transform)                 \
    {slot, gguf ".weight", hf, {FY_D_EMBD}, transform, .flags = 0}, \
    {                                                               \
        slot, gguf ".weight", hf2, {FY_D_EMBD}, transform, ALT      \
    }

#define ONCE(hf_embd, hf_norm)                                                          \
    TWO_MATRICES(FY_T_TOKEN_EMBD, "token_embd", "emb", hf_embd, FY_D_VOCAB, FY_D_EMBD), \
        TWO_NORMS(FY_T_EMBD_NORM, "token_embd_norm", "blocks.0.ln0", hf_norm)
#define LAST(hf_norm, hf_head)                                                               \
    TWO_NORMS(FY_T_OUTPUT_NORM, "output_norm", "ln_out", hf_norm),                           \
        {FY_T_OUTPUT,   "output.weight",                                                     \
         "head.weight", {FY_D_VOCAB, FY_D_EMBD},                                             \
         FY_X_COPY,     .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL},                           \
    {                                                                                        \
        FY_T_OUTPUT, "output.weight", hf_head ".weight", {FY_D_VOCAB, FY_D_EMBD}, FY_X_COPY, \
            .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL | FY_ROW_ALT                            \
    }
#define G_NORM_1 "blk.%u.attn_norm"
#define G_NORM_2 "blk.%u.attn_norm_2"

/* --- versions 5 and 6: the classes of Hugging Face have the names with longer words --- */

#define SQUARE(slot, name) \
    TWO_MATRICES(slot, G_MIX name, P_ATT name, R_ATT name, FY_D_EMBD, FY_D_EMBD)
#define ROWS_56_ONCE ONCE(R "embeddings", R "blocks.0.pre_ln")
#define ROWS_56_LAST LAST(R "ln_out", "lm_head")
#define ROWS_56_NORMS                                                           \
    TWO_NORMS(FY_T_ATTN_NORM, G_NORM_1, "blocks.%u.ln1", R "blocks.%u.ln1"),    \
        TWO_NORMS(FY_T_FFN_NORM, G_NORM_2, "blocks.%u.ln2", R "blocks.%u.ln2"), \
        TWO_NORMS(FY_T_MIX_NORM, G_MIX "ln", P_ATT "ln_x", R_ATT "ln_x")
#define ROWS_56_PRODUCTS                                                                      \
    SQUARE(FY_T_MIX_R, "receptance"), SQUARE(FY_T_MIX_K, "key"), SQUARE(FY_T_MIX_V, "value"), \
        SQUARE(FY_T_MIX_OUT, "output"),                                                       \
        TWO_MATRICES(FY_T_FFN_R, G_FFN "receptance", P_FFN "receptance", R_FFN "receptance",  \
                     FY_D_EMBD, FY_D_EMBD),                                                   \
        TWO_MATRICES(FY_T_FFN_UP, G_FFN "key", P_FFN "key", R_FFN "key", FY_D_FF, FY_D_EMBD), \
        TWO_MATRICES(FY_T_FFN_DOWN, G_FFN "value", P_FFN "value", R_FFN "value", FY_D_EMBD,   \
                     FY_D_FF)

/* Version 5 holds the share of the token itself. */
#define LERP_5(slot, gguf, hf, hf2) TWO_VECTORS(slot, gguf, hf, hf2, FY_X_ONE_MINUS)
/* [heads, wkv_head] of one number for each head, in whatever shape. */
#define SPREAD(slot, gguf, hf, x)                                                                    \
    {slot, gguf, hf, {FY_D_WKV_HEADS, FY_D_WKV}, x, ALT, .hf_dims = {FY_D_WKV_HEADS}},               \
        {slot, gguf, hf, {FY_D_WKV_HEADS, FY_D_WKV}, x, ALT, .hf_dims = {FY_D_WKV_HEADS, FY_D_ONE}}, \
    {                                                                                                \
        slot, gguf, hf, {FY_D_WKV_HEADS, FY_D_WKV}, x, ALT, .hf_dims = {                             \
            FY_D_WKV_HEADS,                                                                          \
            FY_D_ONE,                                                                                \
            FY_D_ONE                                                                                 \
        }                                                                                            \
    }
/* The same, or all of them: versions 5.1 and 5.2. */
#define EACH_HEAD(slot, gguf, name)                                              \
    {slot, gguf, P_ATT name, {FY_D_WKV_HEADS, FY_D_WKV}, FY_X_COPY, .flags = 0}, \
        {slot, gguf, R_ATT name, {FY_D_WKV_HEADS, FY_D_WKV}, FY_X_COPY, ALT},    \
        SPREAD(slot, gguf, P_ATT name, FY_X_SPREAD), SPREAD(slot, gguf, R_ATT name, FY_X_SPREAD)

static const fy_tensor_row rwkv5_rows[] = {
    ROWS_56_ONCE,
    ROWS_56_NORMS,
    LERP_5(FY_T_MIX_LERP_K, G_MIX "lerp_k", P_ATT "time_mix_k", R_ATT "time_mix_key"),
    LERP_5(FY_T_MIX_LERP_V, G_MIX "lerp_v", P_ATT "time_mix_v", R_ATT "time_mix_value"),
    LERP_5(FY_T_MIX_LERP_R, G_MIX "lerp_r", P_ATT "time_mix_r", R_ATT "time_mix_receptance"),
    {FY_T_MIX_LERP_G,
     G_MIX "lerp_g.weight",
     P_ATT "time_mix_g",
     {FY_D_EMBD},
     FY_X_ONE_MINUS,
     .flags = FY_ROW_OPTIONAL},
    {FY_T_MIX_LERP_G,
     G_MIX "lerp_g.weight",
     R_ATT "time_mix_gate",
     {FY_D_EMBD},
     FY_X_ONE_MINUS,
     .flags = FY_ROW_OPTIONAL | FY_ROW_ALT},
    EACH_HEAD(FY_T_MIX_DECAY, G_MIX "decay.weight", "time_decay"),
    /* By its name, time_first is a logarithm, time_faaaa is not: version 5.0 has the first. */
    EACH_HEAD(FY_T_MIX_FIRST, G_MIX "first.weight", "time_faaaa"),
    SPREAD(FY_T_MIX_FIRST, G_MIX "first.weight", P_ATT "time_first", FY_X_EXP_SPREAD),
    SPREAD(FY_T_MIX_FIRST, G_MIX "first.weight", R_ATT "time_first", FY_X_EXP_SPREAD),
    {FY_T_MIX_G,
     G_MIX "gate.weight",
     P_ATT "gate.weight",
     {FY_D_EMBD, FY_D_EMBD},
     FY_X_COPY,
     .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL},
    {FY_T_MIX_G,
     G_MIX "gate.weight",
     R_ATT "gate.weight",
     {FY_D_EMBD, FY_D_EMBD},
     FY_X_COPY,
     .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL | FY_ROW_ALT},
    LERP_5(FY_T_FFN_LERP_K, G_FFN "lerp_k", P_FFN "time_mix_k", R_FFN "time_mix_key"),
    LERP_5(FY_T_FFN_LERP_R, G_FFN "lerp_r", P_FFN "time_mix_r", R_FFN "time_mix_receptance"),
    ROWS_56_PRODUCTS,
    ROWS_56_LAST,
};

/* A low-rank matrix [out, in] of one [in, out]. */
#define TURNED(slot, gguf, hf, rows, cols)                                               \
    {                                                                                    \
        slot, gguf ".weight", hf, {rows, cols}, FY_X_TRANSPOSE, .hf_dims = {cols, rows}, \
                                                                .flags = 0               \
    }
#define TURNED_ALT(slot, gguf, hf, rows, cols)                                               \
    {                                                                                        \
        slot, gguf ".weight", hf, {rows, cols}, FY_X_TRANSPOSE, .hf_dims = {cols, rows}, ALT \
    }
#define TURNED_6(slot, gguf, name, rows, cols) \
    TURNED(slot, gguf, P_ATT name, rows, cols), TURNED_ALT(slot, gguf, R_ATT name, rows, cols)
#define BOTH_6(slot, gguf, name) TWO_VECTORS(slot, gguf, P_ATT name, R_ATT name, FY_X_COPY)

static const fy_tensor_row rwkv6_rows[] = {
    ROWS_56_ONCE,
    ROWS_56_NORMS,
    BOTH_6(FY_T_MIX_LERP_X, G_MIX "lerp_x", "time_maa_x"),
    {FY_T_MIX_LERP_5,
     G_MIX "lerp_fused.weight",
     P_ATT "time_maa_{wkvrg}",
     {FY_D_5, FY_D_ONE, FY_D_ONE, FY_D_EMBD},
     FY_X_COPY,
     .hf_dims = {FY_D_EMBD}},
    {FY_T_MIX_LERP_5,
     G_MIX "lerp_fused.weight",
     R_ATT "time_maa_{wkvrg}",
     {FY_D_5, FY_D_ONE, FY_D_ONE, FY_D_EMBD},
     FY_X_COPY,
     ALT,
     .hf_dims = {FY_D_EMBD}},
    TURNED_6(FY_T_MIX_W1, G_MIX "w1", "time_maa_w1", FY_D_RANK_MIX_5, FY_D_EMBD),
    {FY_T_MIX_W2,
     G_MIX "w2.weight",
     P_ATT "time_maa_w2",
     {FY_D_5, FY_D_EMBD, FY_D_RANK_MIX},
     FY_X_TRANSPOSE,
     .hf_dims = {FY_D_5, FY_D_RANK_MIX, FY_D_EMBD}},
    {FY_T_MIX_W2,
     G_MIX "w2.weight",
     R_ATT "time_maa_w2",
     {FY_D_5, FY_D_EMBD, FY_D_RANK_MIX},
     FY_X_TRANSPOSE,
     ALT,
     .hf_dims = {FY_D_5, FY_D_RANK_MIX, FY_D_EMBD}},
    BOTH_6(FY_T_MIX_DECAY, G_MIX "decay", "time_decay"),
    TURNED_6(FY_T_MIX_DECAY_1, G_MIX "decay_w1", "time_decay_w1", FY_D_RANK_DECAY, FY_D_EMBD),
    TURNED_6(FY_T_MIX_DECAY_2, G_MIX "decay_w2", "time_decay_w2", FY_D_EMBD, FY_D_RANK_DECAY),
    {FY_T_MIX_FIRST,
     G_MIX "first.weight",
     P_ATT "time_faaaa",
     {FY_D_WKV_HEADS, FY_D_WKV},
     FY_X_COPY,
     .flags = 0},
    {FY_T_MIX_FIRST,
     G_MIX "first.weight",
     R_ATT "time_faaaa",
     {FY_D_WKV_HEADS, FY_D_WKV},
     FY_X_COPY,
     ALT},
    SQUARE(FY_T_MIX_G, "gate"),
    TWO_VECTORS(FY_T_FFN_LERP_K, G_FFN "lerp_k", P_FFN "time_maa_k", R_FFN "time_maa_k", FY_X_COPY),
    TWO_VECTORS(FY_T_FFN_LERP_R, G_FFN "lerp_r", P_FFN "time_maa_r", R_FFN "time_maa_r", FY_X_COPY),
    ROWS_56_PRODUCTS,
    ROWS_56_LAST,
};

/* --- version 7 --- */

#define SQUARE_7(slot, gguf, hf, fla) \
    TWO_MATRICES(slot, G_MIX gguf, P_ATT hf, F_ATT fla, FY_D_EMBD, FY_D_EMBD)
/* x -> [rank] -> [n_embd], and what is added to that. */
#define LOW_RANK(slot, letter, rank)                                                              \
    TURNED(slot##_1, G_MIX letter "1", P_ATT letter "1", rank, FY_D_EMBD),                        \
        {slot##_1,                                                                                \
         G_MIX letter "1.weight",                                                                 \
         F_ATT letter "_lora.lora.0.weight",                                                      \
         {rank, FY_D_EMBD},                                                                       \
         FY_X_COPY,                                                                               \
         ALT},                                                                                    \
        TURNED(slot##_2, G_MIX letter "2", P_ATT letter "2", FY_D_EMBD, rank),                    \
    {                                                                                             \
        slot##_2, G_MIX letter "2.weight", F_ATT letter "_lora.lora.2.weight", {FY_D_EMBD, rank}, \
            FY_X_COPY, ALT                                                                        \
    }
#define LOW_RANK_BIAS(slot, letter)                                                         \
    TWO_VECTORS(slot, G_MIX letter "0", P_ATT letter "0", F_ATT letter "_lora.lora.2.bias", \
                FY_X_COPY)
/* The first layer has no values to mix its own with. llama.cpp wants the tensors there, in the
 * shapes of a: they get its values, and the noise that BlinkDL's files have is left out. */

static const fy_tensor_row rwkv7_rows[] = {
    ONCE("model.embeddings", "model.layers.0.pre_norm"),
    {FY_T_UNUSED_0,
     "blk.0.time_mix_v0.weight",
     "blocks.0.att.a0",
     {FY_D_EMBD},
     FY_X_COPY,
     .flags = FY_ROW_OPTIONAL},
    {FY_T_UNUSED_0,
     "blk.0.time_mix_v0.weight",
     "model.layers.0.attn.a_lora.lora.2.bias",
     {FY_D_EMBD},
     FY_X_COPY,
     .flags = FY_ROW_OPTIONAL | FY_ROW_ALT},
    {FY_T_UNUSED_1,
     "blk.0.time_mix_v1.weight",
     "blocks.0.att.a1",
     {FY_D_RANK_ICLR, FY_D_EMBD},
     FY_X_TRANSPOSE,
     .hf_dims = {FY_D_EMBD, FY_D_RANK_ICLR},
     .flags = FY_ROW_OPTIONAL},
    {FY_T_UNUSED_1,
     "blk.0.time_mix_v1.weight",
     "model.layers.0.attn.a_lora.lora.0.weight",
     {FY_D_RANK_ICLR, FY_D_EMBD},
     FY_X_COPY,
     .flags = FY_ROW_OPTIONAL | FY_ROW_ALT},
    {FY_T_UNUSED_2,
     "blk.0.time_mix_v2.weight",
     "blocks.0.att.a2",
     {FY_D_EMBD, FY_D_RANK_ICLR},
     FY_X_TRANSPOSE,
     .hf_dims = {FY_D_RANK_ICLR, FY_D_EMBD},
     .flags = FY_ROW_OPTIONAL},
    {FY_T_UNUSED_2,
     "blk.0.time_mix_v2.weight",
     "model.layers.0.attn.a_lora.lora.2.weight",
     {FY_D_EMBD, FY_D_RANK_ICLR},
     FY_X_COPY,
     .flags = FY_ROW_OPTIONAL | FY_ROW_ALT},
    TWO_NORMS(FY_T_ATTN_NORM, G_NORM_1, "blocks.%u.ln1", HF_LAYER "attn_norm"),
    TWO_NORMS(FY_T_FFN_NORM, G_NORM_2, "blocks.%u.ln2", HF_LAYER "ffn_norm"),
    TWO_NORMS(FY_T_MIX_NORM, G_MIX "ln", P_ATT "ln_x", F_ATT "g_norm"),
    {FY_T_MIX_LERP_6,
     G_MIX "lerp_fused.weight",
     P_ATT "x_{rwkvag}",
     {FY_D_6, FY_D_ONE, FY_D_ONE, FY_D_EMBD},
     FY_X_COPY,
     .hf_dims = {FY_D_EMBD}},
    {FY_T_MIX_LERP_6,
     G_MIX "lerp_fused.weight",
     F_ATT "x_{rwkvag}",
     {FY_D_6, FY_D_ONE, FY_D_ONE, FY_D_EMBD},
     FY_X_COPY,
     ALT,
     .hf_dims = {FY_D_EMBD}},
    {FY_T_MIX_LERP_6,
     G_MIX "lerp_fused.weight",
     F_ATT "x_x",
     {FY_D_6, FY_D_ONE, FY_D_ONE, FY_D_EMBD},
     FY_X_COPY,
     ALT,
     .hf_dims = {FY_D_6, FY_D_EMBD}},
    LOW_RANK_BIAS(FY_T_MIX_DECAY, "w"),
    LOW_RANK(FY_T_MIX_DECAY, "w", FY_D_RANK_DECAY),
    LOW_RANK_BIAS(FY_T_MIX_ICLR, "a"),
    LOW_RANK(FY_T_MIX_ICLR, "a", FY_D_RANK_ICLR),
    LOW_RANK_BIAS(FY_T_MIX_VALUE_0, "v"),
    LOW_RANK(FY_T_MIX_VALUE, "v", FY_D_RANK_VALUE),
    LOW_RANK(FY_T_MIX_GATE, "g", FY_D_RANK_GATE),
    TWO_VECTORS(FY_T_MIX_K_K, G_MIX "k_k", P_ATT "k_k", F_ATT "k_k", FY_X_COPY),
    TWO_VECTORS(FY_T_MIX_K_A, G_MIX "k_a", P_ATT "k_a", F_ATT "k_a", FY_X_COPY),
    {FY_T_MIX_R_K,
     G_MIX "r_k.weight",
     P_ATT "r_k",
     {FY_D_EMBD},
     FY_X_COPY,
     .hf_dims = {FY_D_WKV_HEADS, FY_D_WKV}},
    {FY_T_MIX_R_K,
     G_MIX "r_k.weight",
     F_ATT "r_k",
     {FY_D_EMBD},
     FY_X_COPY,
     ALT,
     .hf_dims = {FY_D_WKV_HEADS, FY_D_WKV}},
    SQUARE_7(FY_T_MIX_R, "receptance", "receptance", "r_proj"),
    SQUARE_7(FY_T_MIX_K, "key", "key", "k_proj"),
    SQUARE_7(FY_T_MIX_V, "value", "value", "v_proj"),
    SQUARE_7(FY_T_MIX_OUT, "output", "output", "o_proj"),
    TWO_VECTORS(FY_T_FFN_LERP_K, G_FFN "lerp_k", P_FFN "x_k", F_FFN "x_k", FY_X_COPY),
    TWO_MATRICES(FY_T_FFN_UP, G_FFN "key", P_FFN "key", F_FFN "key", FY_D_FF, FY_D_EMBD),
    TWO_MATRICES(FY_T_FFN_DOWN, G_FFN "value", P_FFN "value", F_FFN "value", FY_D_EMBD, FY_D_FF),
    LAST("model.norm", "lm_head"),
};

#define WORLD        .n_vocab = 65536, .n_ctx_train = 1048576, .norm_eps = 1e-5F
#define FIRST_VALUES "blocks.0.att.v0", "blocks.0.att.v1", "blocks.0.att.v2"

/* The norm of a head, where the code divides its input by head_size_divisor first. */
static const fy_config_key rwkv56_keys[] = {
    {"head_size_divisor", FIELD(group_eps), FY_OP_GROUP_EPS, 8, NULL},
};

static const fy_config_key rwkv7_keys[] = {
    {"num_heads", FIELD(wkv_head), FY_OP_EMBD_OVER, 0, NULL},
    {"norm_eps", FIELD(norm_eps), FY_OP_SET, 1e-5, NULL},
    {"norm_eps", FIELD(group_eps), FY_OP_TIMES_HEAD, 1e-5, NULL},
    {"group_norm_epsilon", FIELD(group_eps), FY_OP_SET, 0, NULL}, /* of BlinkDL's files */
};

static const fy_config_rule rwkv7_rules[] = {
    {"attn", "null", NULL},
    {"norm_bias", "true", NULL},
    {"norm_first", "true", NULL},
    {"hidden_act", "\"sqrelu\"", NULL},
};

const fy_family fy_family_rwkv5 = {
    .name = "rwkv5",
    .gguf_arch = "rwkv5",
    CLASSES("Rwkv5ForCausalLM"),
    .defaults = {WORLD, .wkv_head = 64},
    .rope = FY_ROPE_NO,
    .layer_norm = true,
    ROWS(rwkv5_rows),
    KEYS(rwkv56_keys),
};

const fy_family fy_family_rwkv6 = {
    .name = "rwkv6",
    .gguf_arch = "rwkv6",
    CLASSES("Rwkv6ForCausalLM"),
    .defaults = {WORLD, .wkv_head = 64},
    .rope = FY_ROPE_NO,
    .layer_norm = true,
    ROWS(rwkv6_rows),
    KEYS(rwkv56_keys),
};

const fy_family fy_family_rwkv7 = {
    .name = "rwkv7",
    .gguf_arch = "rwkv7",
    CLASSES("RWKV7ForCausalLM"),
    .defaults = {WORLD, .wkv_head = 64},
    .rope = FY_ROPE_NO,
    .layer_norm = true,
    ROWS(rwkv7_rows),
    KEYS(rwkv7_keys),
    RULES(rwkv7_rules),
    .drop = STRINGS(FIRST_VALUES),
};
