/* The macros that the tables of families are written with: tensor rows with the names and shapes
 * that many families share, and the lists of a family. A family lists the rows that it has, with
 * its transform of q and k; rows of its own are written with MATRIX, VECTOR and BIAS. */
#ifndef FY_ARCH_TENSOR_ROWS_H
#define FY_ARCH_TENSOR_ROWS_H

#include "arch/arch.h"

/* --- lists of a family --- */

#define STRINGS(...)      \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }
#define CLASSES(...)     .hf_archs = STRINGS(__VA_ARGS__)
#define WINDOW_KEYS(...) .window_keys = STRINGS(__VA_ARGS__)
#define FLAGS_ON(...)    .flags_on = STRINGS(__VA_ARGS__)
#define ROWS(array)      .rows = array, .n_rows = sizeof(array) / sizeof((array)[0])
#define KEYS(array)      .keys = array, .n_keys = sizeof(array) / sizeof((array)[0])
#define RULES(array)     .rules = array, .n_rules = sizeof(array) / sizeof((array)[0])
/* Defaults that every family has but for the last two; 0: none. */
#define SIZES(vocab, ctx, embd, layers, heads, ff)                                            \
    .n_vocab = vocab, .n_ctx_train = ctx, .n_embd = embd, .n_layer = layers, .n_head = heads, \
    .n_ff = ff
/* Of RMS norms, and of RoPE. */
#define RMS(eps, theta) .norm_rms_eps = eps, .rope_theta = theta
#define FIELD(name)     offsetof(fy_hparams, name)
/* The four multipliers of IBM's Granite models. */
#define GRANITE_KEYS                                                        \
    {"embedding_multiplier", FIELD(embedding_scale), FY_OP_SET, 1, NULL},   \
        {"residual_multiplier", FIELD(residual_scale), FY_OP_SET, 1, NULL}, \
        {"attention_multiplier", FIELD(attn_scale), FY_OP_SET, 1, NULL},    \
        {"logits_scaling", FIELD(logit_scale), FY_OP_SET, 1, NULL},

/* --- a row: slot, module in GGUF, module in Hugging Face; `%u` is the layer in both --- */

#define MATRIX(slot, gguf, hf, rows, cols, transform)                                       \
    {                                                                                       \
        slot, gguf ".weight", hf ".weight", {rows, cols}, transform, .flags = FY_ROW_MATRIX \
    }
#define VECTOR(slot, gguf, hf, dim, transform)                           \
    {                                                                    \
        slot, gguf ".weight", hf ".weight", {dim}, transform, .flags = 0 \
    }
/* flag: the config flag that makes the bias required; NULL: the family always has it. */
#define BIAS(slot, gguf, hf, dim, transform, flag)                                              \
    {                                                                                           \
        slot, gguf ".bias", hf ".bias", {dim}, transform, (flag) != NULL ? FY_ROW_OPTIONAL : 0, \
            .required_by = flag                                                                 \
    }
/* The weight and its bias, whose slot is called slot_B. */
#define MATRIX_AND_BIAS(slot, gguf, hf, rows, cols, transform, flag) \
    MATRIX(slot, gguf, hf, rows, cols, transform), BIAS(slot##_B, gguf, hf, rows, transform, flag)
/* As the checkpoint has them; the bias always. */
#define COPY(slot, gguf, hf, rows, cols) MATRIX(slot, gguf, hf, rows, cols, FY_X_COPY)
#define COPY_AND_BIAS(slot, gguf, hf, rows, cols) \
    MATRIX_AND_BIAS(slot, gguf, hf, rows, cols, FY_X_COPY, NULL)
#define NORM_AND_BIAS(slot, gguf, hf)             \
    VECTOR(slot, gguf, hf, FY_D_EMBD, FY_X_COPY), \
        BIAS(slot##_B, gguf, hf, FY_D_EMBD, FY_X_COPY, NULL)
/* A matrix that the checkpoint holds as [in, out]. */
#define CONV1D_AND_BIAS(slot, gguf, hf, rows, cols)                                \
    {slot,           gguf ".weight",          hf ".weight",          {rows, cols}, \
     FY_X_TRANSPOSE, .hf_dims = {cols, rows}, .flags = FY_ROW_MATRIX},             \
        BIAS(slot##_B, gguf, hf, rows, FY_X_COPY, NULL)
/* One of several matrices in a tensor of the checkpoint, of `source_rows` rows. */
#define MATRIX_OF(slot, gguf, hf, rows, transform, source_rows)           \
    {                                                                     \
        slot, gguf ".weight", hf ".weight", {rows, FY_D_EMBD}, transform, \
            .hf_dims = {source_rows, FY_D_EMBD}, .flags = FY_ROW_MATRIX   \
    }
/* What the checkpoint lacks: computed from config.json. */
#define ROPE_FACTORS(slot, gguf, transform)                                \
    {                                                                      \
        slot, gguf, NULL, {FY_D_ROT2}, transform, .flags = FY_ROW_OPTIONAL \
    }

/* --- names --- */

#define G_ATTN_NORM "blk.%u.attn_norm"
#define G_ATTN_QKV  "blk.%u.attn_qkv"
#define G_ATTN_Q    "blk.%u.attn_q"
#define G_ATTN_K    "blk.%u.attn_k"
#define G_ATTN_V    "blk.%u.attn_v"
#define G_ATTN_OUT  "blk.%u.attn_output"
#define G_FFN_NORM  "blk.%u.ffn_norm"
#define G_FFN_GATE  "blk.%u.ffn_gate"
#define G_FFN_UP    "blk.%u.ffn_up"
#define G_FFN_DOWN  "blk.%u.ffn_down"
/* A layer of most checkpoints. */
#define HF_LAYER "model.layers.%u."

/* --- once per model --- */

#define TOKEN_EMBD(hf) MATRIX(FY_T_TOKEN_EMBD, "token_embd", hf, FY_D_VOCAB, FY_D_EMBD, FY_X_COPY)
#define OUTPUT_MATRIX(hf)                                                               \
    {                                                                                   \
        FY_T_OUTPUT, "output.weight", hf ".weight", {FY_D_VOCAB, FY_D_EMBD}, FY_X_COPY, \
            .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL                                    \
    }
/* source_rows: FY_D_CTX, or what FY_X_SKIP_2 wants. */
#define POSITION_EMBD(hf, transform, source_rows)                                        \
    {                                                                                    \
        FY_T_POSITION_EMBD, "position_embd.weight", hf ".weight", {FY_D_CTX, FY_D_EMBD}, \
            transform, .hf_dims = {source_rows, FY_D_EMBD}, .flags = 0                   \
    }
#define ROW_TOKEN_EMBD TOKEN_EMBD("model.embed_tokens")
#define ROW_ROPE_FREQS ROPE_FACTORS(FY_T_ROPE_FREQS, "rope_freqs.weight", FY_X_LLAMA3_FREQS)
#define ROWS_LONGROPE                                                            \
    ROPE_FACTORS(FY_T_ROPE_LONG, "rope_factors_long.weight", FY_X_LONG_FACTORS), \
        ROPE_FACTORS(FY_T_ROPE_SHORT, "rope_factors_short.weight", FY_X_SHORT_FACTORS)
#define ROW_OUTPUT_NORM VECTOR(FY_T_OUTPUT_NORM, "output_norm", "model.norm", FY_D_EMBD, FY_X_COPY)
#define ROW_OUTPUT      OUTPUT_MATRIX("lm_head")

/* --- a layer as Llama's checkpoints name it; x, xq, xk: transforms of q and k; flag: as in BIAS */

#define NORM(slot, gguf, hf)   VECTOR(slot, gguf, HF_LAYER hf, FY_D_EMBD, FY_X_COPY)
#define ROW_ATTN_NORM          NORM(FY_T_ATTN_NORM, G_ATTN_NORM, "input_layernorm")
#define ROW_ATTN_POST_NORM(hf) NORM(FY_T_ATTN_POST_NORM, "blk.%u.post_attention_norm", hf)
#define ROW_FFN_NORM           NORM(FY_T_FFN_NORM, G_FFN_NORM, "post_attention_layernorm")
#define ROW_FFN_POST_NORM(hf)  NORM(FY_T_FFN_POST_NORM, "blk.%u.post_ffw_norm", hf)

#define H_ATTN        HF_LAYER "self_attn."
#define ROW_ATTN_Q(x) MATRIX(FY_T_ATTN_Q, G_ATTN_Q, H_ATTN "q_proj", FY_D_Q, FY_D_EMBD, x)
#define ROW_ATTN_K(x) MATRIX(FY_T_ATTN_K, G_ATTN_K, H_ATTN "k_proj", FY_D_K, FY_D_EMBD, x)
#define ROW_ATTN_V    MATRIX(FY_T_ATTN_V, G_ATTN_V, H_ATTN "v_proj", FY_D_V, FY_D_EMBD, FY_X_COPY)
#define ROW_ATTN_OUT \
    MATRIX(FY_T_ATTN_OUT, G_ATTN_OUT, H_ATTN "o_proj", FY_D_EMBD, FY_D_QV, FY_X_COPY)
#define ROW_ATTN_OUT_B(flag) \
    BIAS(FY_T_ATTN_OUT_B, G_ATTN_OUT, H_ATTN "o_proj", FY_D_EMBD, FY_X_COPY, flag)
#define ROWS_ATTN_Q(x, flag) \
    ROW_ATTN_Q(x), BIAS(FY_T_ATTN_Q_B, G_ATTN_Q, H_ATTN "q_proj", FY_D_Q, x, flag)
#define ROWS_ATTN_K(x, flag) \
    ROW_ATTN_K(x), BIAS(FY_T_ATTN_K_B, G_ATTN_K, H_ATTN "k_proj", FY_D_K, x, flag)
#define ROWS_ATTN_V(flag) \
    ROW_ATTN_V, BIAS(FY_T_ATTN_V_B, G_ATTN_V, H_ATTN "v_proj", FY_D_V, FY_X_COPY, flag)
/* dims: FY_D_HEAD, each head by itself; FY_D_Q and FY_D_K, the whole vector */
#define ROW_ATTN_Q_NORM(dim) \
    VECTOR(FY_T_ATTN_Q_NORM, "blk.%u.attn_q_norm", H_ATTN "q_norm", dim, FY_X_COPY)
#define ROW_ATTN_K_NORM(dim) \
    VECTOR(FY_T_ATTN_K_NORM, "blk.%u.attn_k_norm", H_ATTN "k_norm", dim, FY_X_COPY)
/* All four without biases; q, k and v with biases; all four with them. */
#define ROWS_ATTN(xq, xk) ROW_ATTN_Q(xq), ROW_ATTN_K(xk), ROW_ATTN_V, ROW_ATTN_OUT
#define ROWS_ATTN_QKV_BIAS(xq, xk, flag) \
    ROWS_ATTN_Q(xq, flag), ROWS_ATTN_K(xk, flag), ROWS_ATTN_V(flag), ROW_ATTN_OUT
#define ROWS_ATTN_BIAS(xq, xk, flag) ROWS_ATTN_QKV_BIAS(xq, xk, flag), ROW_ATTN_OUT_B(flag)
/* Norms of q and k, and biases if "attention_bias" is true. */
#define ROWS_ATTN_NORMED(q_dim, k_dim)                                    \
    ROWS_ATTN_Q(FY_X_COPY, "attention_bias"), ROW_ATTN_Q_NORM(q_dim),     \
        ROWS_ATTN_K(FY_X_COPY, "attention_bias"), ROW_ATTN_K_NORM(k_dim), \
        ROWS_ATTN_V("attention_bias"), ROW_ATTN_OUT, ROW_ATTN_OUT_B("attention_bias")

#define H_MLP HF_LAYER "mlp."
#define ROW_FFN_GATE \
    MATRIX(FY_T_FFN_GATE, G_FFN_GATE, H_MLP "gate_proj", FY_D_FF, FY_D_EMBD, FY_X_COPY)
#define ROW_FFN_UP MATRIX(FY_T_FFN_UP, G_FFN_UP, H_MLP "up_proj", FY_D_FF, FY_D_EMBD, FY_X_COPY)
#define ROW_FFN_DOWN \
    MATRIX(FY_T_FFN_DOWN, G_FFN_DOWN, H_MLP "down_proj", FY_D_EMBD, FY_D_FF, FY_X_COPY)
#define ROWS_FFN ROW_FFN_GATE, ROW_FFN_UP, ROW_FFN_DOWN
#define ROWS_FFN_BIAS(flag)                                                                       \
    ROW_FFN_GATE, BIAS(FY_T_FFN_GATE_B, G_FFN_GATE, H_MLP "gate_proj", FY_D_FF, FY_X_COPY, flag), \
        ROW_FFN_UP, BIAS(FY_T_FFN_UP_B, G_FFN_UP, H_MLP "up_proj", FY_D_FF, FY_X_COPY, flag),     \
        ROW_FFN_DOWN,                                                                             \
        BIAS(FY_T_FFN_DOWN_B, G_FFN_DOWN, H_MLP "down_proj", FY_D_EMBD, FY_X_COPY, flag)
/* GLM and Phi-3: gate rows above up rows, under the GGUF name of up. */
#define ROWS_FFN_GATE_UP                                                                       \
    MATRIX(FY_T_FFN_GATE_UP, G_FFN_UP, H_MLP "gate_up_proj", FY_D_FF_2, FY_D_EMBD, FY_X_COPY), \
        ROW_FFN_DOWN

#endif
