/* Hyperparameters of any family: one row per field, what follows from others, and checks. */
#include "arch/hparams_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/math.h"

#define N_EXPERT_MAX 1024

/* --- hyperparameters: one row per field --- */

#define KEYS(...)         \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

/* Order is the order of the keys in the files we write. Lists of HF keys: transformers config
 * classes, old and new spellings. */
const fy_hparam_row fy_hparam_rows[] = {
    {FY_HP_U32, FIELD(n_vocab), "vocab_size", KEYS("padded_vocab_size", "vocab_size"), 0, 0},
    {FY_HP_U32, FIELD(n_ctx_train), "context_length",
     KEYS("max_position_embeddings", "n_ctx", "n_positions", "max_length", "max_sequence_length",
          "model_max_length", "seq_length"),
     FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_embd), "embedding_length", KEYS("hidden_size", "n_embd", "dim", "d_model"),
     FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_layer), "block_count",
     KEYS("num_hidden_layers", "n_layers", "n_layer", "num_layers"), FY_HP_REQUIRED, 0},
    {FY_HP_FF, FIELD(n_ff), "feed_forward_length",
     KEYS("intermediate_size", "ffn_hidden_size", "n_inner", "hidden_dim", "ffn_dim",
          "moe_ffn_hidden_size"),
     FY_HP_REQUIRED | FY_HP_NULL_DERIVES, 0},
    {FY_HP_NO_FFN_LAYERS, FIELD(no_ffn_layers), "feed_forward_length", NULL, FY_HP_SSM, 0},
    {FY_HP_U32, FIELD(n_head), "attention.head_count",
     KEYS("num_attention_heads", "n_head", "n_heads"), FY_HP_REQUIRED | FY_HP_ATTN, 0},
    {FY_HP_NO_HEADS, FIELD(n_head), "attention.head_count", NULL, FY_HP_REQUIRED | FY_HP_WKV, 0},
    {FY_HP_KV_HEADS, FIELD(n_head_kv), "attention.head_count_kv",
     KEYS("num_key_value_heads", "n_kv_heads"), FY_HP_NULL_DERIVES | FY_HP_ATTN, 0},
    {FY_HP_NO_ATTN_LAYERS, FIELD(no_attn_layers), "attention.head_count_kv", NULL, FY_HP_ATTN, 0},
    {FY_HP_U32, FIELD(conv_len), "shortconv.l_cache", KEYS("conv_L_cache"), FY_HP_CONV, 0},
    {FY_HP_U32, FIELD(ssm_conv), "ssm.conv_kernel",
     KEYS("mamba_d_conv", "conv_kernel", "linear_conv_kernel_dim"), FY_HP_SSM, 0},
    {FY_HP_U32, FIELD(ssm_state), "ssm.state_size",
     KEYS("mamba_d_state", "ssm_state_size", "linear_key_head_dim"), FY_HP_SSM, 0},
    {FY_HP_U32, FIELD(ssm_groups), "ssm.group_count",
     KEYS("mamba_n_groups", "n_groups", "linear_num_key_heads"), FY_HP_SSM, 0},
    {FY_HP_U32, FIELD(ssm_inner), "ssm.inner_size", KEYS("mamba_d_ssm"),
     FY_HP_SSM | FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(ssm_heads), "ssm.time_step_rank",
     KEYS("mamba_n_heads", "mamba_num_heads", "linear_num_value_heads"), FY_HP_SSM, 0},
    {FY_HP_U32, FIELD(full_interval), "full_attention_interval", KEYS("full_attention_interval"),
     FY_HP_DELTA | FY_HP_TRAIT, 0},
    {FY_HP_U32, FIELD(head_dim), "attention.key_length", KEYS("head_dim", "kv_channels"),
     FY_HP_NULL_DERIVES | FY_HP_ATTN, 0},
    {FY_HP_U32, FIELD(head_dim_v), "attention.value_length", NULL, FY_HP_ATTN, 0},
    {FY_HP_U32, FIELD(head_dim_swa), "attention.key_length_swa", NULL,
     FY_HP_LAYERED | FY_HP_MAY_BE_0, 0},
    {FY_HP_U32, FIELD(head_dim_v_swa), "attention.value_length_swa", NULL,
     FY_HP_LAYERED | FY_HP_MAY_BE_0, 0},
    {FY_HP_U32, FIELD(n_kv_shared), "attention.shared_kv_layers", KEYS("num_kv_shared_layers"),
     FY_HP_LAYERED | FY_HP_MAY_BE_0, 0},
    {FY_HP_U32, FIELD(n_embd_pl), "embedding_length_per_layer_input",
     KEYS("hidden_size_per_layer_input"), FY_HP_LAYERED | FY_HP_MAY_BE_0 | FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(q_lora_rank), "attention.q_lora_rank", KEYS("q_lora_rank"), FY_HP_LATENT, 0},
    {FY_HP_U32, FIELD(kv_lora_rank), "attention.kv_lora_rank", KEYS("kv_lora_rank"), FY_HP_LATENT,
     0},
    {FY_HP_U32, FIELD(altup_active), "altup.active_idx", KEYS("altup_active_idx"),
     FY_HP_ALTUP | FY_HP_MAY_BE_0, 0},
    {FY_HP_U32, FIELD(n_altup), "altup.num_inputs", KEYS("altup_num_inputs"), FY_HP_ALTUP, 0},
    {FY_HP_SPARSITY, FIELD(act_sparsity), "activation_sparsity_scale", NULL, FY_HP_ALTUP, 0},
    {FY_HP_U32, FIELD(n_rot), "rope.dimension_count", NULL, FY_HP_ROPE, 0},
    {FY_HP_U32, FIELD(n_rot_swa), "rope.dimension_count_swa", NULL, FY_HP_LAYERED | FY_HP_MAY_BE_0,
     0},
    {FY_HP_SECTIONS, FIELD(rope_sections), "rope.dimension_sections", NULL, FY_HP_DELTA, 0},
    {FY_HP_U32, FIELD(n_swa), "attention.sliding_window", NULL, FY_HP_MAY_BE_0, 0},
    {FY_HP_SWA_LAYERS, FIELD(full_layers), "attention.sliding_window_pattern", NULL, 0, 0},
    {FY_HP_F32, FIELD(norm_rms_eps), "attention.layer_norm_rms_epsilon",
     KEYS("rms_norm_eps", "norm_eps", "layernorm_epsilon"), FY_HP_RMS, 0},
    {FY_HP_F32, FIELD(norm_eps), "attention.layer_norm_epsilon",
     KEYS("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"), FY_HP_LN, 0},
    {FY_HP_F32, FIELD(rope_theta), "rope.freq_base", NULL, FY_HP_ROPE, 0},
    {FY_HP_F32, FIELD(rope_theta_swa), "rope.freq_base_swa", NULL, FY_HP_TRAIT | FY_HP_MAY_BE_0, 0},
    {FY_HP_SCALING, FIELD(rope_scaling), "rope.scaling.type", NULL, FY_HP_TRAIT,
     FY_ROPE_SCALING_NONE},
    {FY_HP_F32, FIELD(rope_factor), "rope.scaling.factor", NULL, FY_HP_MAY_BE_0, 1},
    {FY_HP_U32, FIELD(rope_orig_ctx), "rope.scaling.original_context_length", NULL, FY_HP_MAY_BE_0,
     0},
    {FY_HP_F32, FIELD(rope_attn_factor), "rope.scaling.attn_factor", NULL, 0, 1},
    {FY_HP_F32, FIELD(yarn_beta_fast), "rope.scaling.yarn_beta_fast", NULL, 0, 32},
    {FY_HP_F32, FIELD(yarn_beta_slow), "rope.scaling.yarn_beta_slow", NULL, 0, 1},
    {FY_HP_F32, FIELD(yarn_log_mul), "rope.scaling.yarn_log_multiplier", NULL, FY_HP_MAY_BE_0, 0},
    {FY_HP_F32, FIELD(temp_scale), "attention.temperature_scale", NULL, FY_HP_MAY_BE_0, 0},
    {FY_HP_ROPE_LAYERS, FIELD(nope_layers), "ferry.rope_layers", NULL, FY_HP_OWN | FY_HP_ROPE, 0},
    {FY_HP_ROPE_SWITCH, FIELD(nope_layers), "rope.scaling.finetuned", NULL, FY_HP_ROPE, 0},
    {FY_HP_ACT, FIELD(act), "hidden_activation", NULL, FY_HP_TRAIT, 0},
    {FY_HP_F32, FIELD(act_threshold), "ferry.activation_threshold", NULL, FY_HP_OWN, 0},
    {FY_HP_BOOL, FIELD(parallel), "use_parallel_residual", KEYS("use_parallel_residual"),
     FY_HP_TRAIT, 0},
    {FY_HP_F32, FIELD(attn_scale), "attention.scale", NULL, FY_HP_MAY_BE_0, 0},
    {FY_HP_F32, FIELD(attn_softcap), "attn_logit_softcapping", KEYS("attn_logit_softcapping"),
     FY_HP_TRAIT | FY_HP_MAY_BE_0 | FY_HP_NULL_DERIVES, 0},
    {FY_HP_F32, FIELD(logit_softcap), "final_logit_softcapping", KEYS("final_logit_softcapping"),
     FY_HP_TRAIT | FY_HP_MAY_BE_0 | FY_HP_NULL_DERIVES, 0},
    {FY_HP_F32, FIELD(embedding_scale), "embedding_scale", NULL, FY_HP_MAY_BE_0, 1},
    {FY_HP_F32, FIELD(residual_scale), "residual_scale", NULL, FY_HP_MAY_BE_0, 1},
    {FY_HP_F32, FIELD(logit_scale), "logit_scale", NULL, FY_HP_MAY_BE_0, 1},
    {FY_HP_U32, FIELD(n_expert), "expert_count", KEYS("num_local_experts", "num_experts"),
     FY_HP_MOE | FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_expert_used), "expert_used_count",
     KEYS("num_experts_per_tok", "num_experts_per_token", "top_k_experts"),
     FY_HP_MOE | FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_dense_layers), "leading_dense_block_count", KEYS("num_dense_layers"),
     FY_HP_MOE | FY_HP_DENSE | FY_HP_REQUIRED | FY_HP_MAY_BE_0, 0},
    {FY_HP_U32, FIELD(n_ff_exp), "expert_feed_forward_length",
     KEYS("moe_intermediate_size", "moe_ffn_hidden_size"), FY_HP_MOE, 0},
    {FY_HP_U32, FIELD(n_ff_shexp), "expert_shared_feed_forward_length",
     KEYS("shared_expert_intermediate_size", "shared_intermediate_size"),
     FY_HP_MOE | FY_HP_MAY_BE_0 | FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(gating), "expert_gating_func", NULL, FY_HP_MOE | FY_HP_TRAIT, 0},
    {FY_HP_BOOL, FIELD(expert_norm), "expert_weights_norm", KEYS("norm_topk_prob"),
     FY_HP_MOE | FY_HP_TRAIT, 0},
    {FY_HP_U32, FIELD(wkv_head), "wkv.head_size", KEYS("head_size", "head_dim"),
     FY_HP_REQUIRED | FY_HP_WKV, 0},
    {FY_HP_U32, FIELD(n_rank_mix), "time_mix_extra_dim", NULL, FY_HP_WKV_6, 0},
    {FY_HP_U32, FIELD(n_rank_decay), "time_decay_extra_dim", NULL, FY_HP_WKV_6, 0},
    {FY_HP_U32, FIELD(n_rank_decay), "attention.decay_lora_rank", KEYS("decay_low_rank_dim"),
     FY_HP_WKV_7 | FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(n_rank_iclr), "attention.iclr_lora_rank", KEYS("a_low_rank_dim"),
     FY_HP_WKV_7 | FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(n_rank_value), "attention.value_residual_mix_lora_rank",
     KEYS("v_low_rank_dim"), FY_HP_WKV_7 | FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(n_rank_gate), "attention.gate_lora_rank", KEYS("gate_low_rank_dim"),
     FY_HP_WKV_7 | FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(rescale_every), "rescale_every_n_layers", NULL, FY_HP_WKV | FY_HP_MAY_BE_0,
     0},
    {FY_HP_F32, FIELD(group_eps), "ferry.group_norm_epsilon", NULL, FY_HP_OWN | FY_HP_WKV, 64e-5F},
};
const size_t fy_n_hparam_rows = sizeof fy_hparam_rows / sizeof fy_hparam_rows[0];

const char *const fy_scaling_names[N_SCALINGS] = {
    [FY_ROPE_SCALING_NONE] = "none",
    [FY_ROPE_SCALING_LINEAR] = "linear",
    [FY_ROPE_SCALING_YARN] = "yarn",
    [FY_ROPE_SCALING_LONGROPE] = "longrope",
};

/* The first name of each is ours in GGUF files; the others are what transformers calls it. */
static const struct {
    const char *name;
    fy_act_kind act;
} act_names[] = {
    {"silu", FY_ACT_SILU},           {"swish", FY_ACT_SILU},
    {"gelu", FY_ACT_GELU},           {"gelu_python", FY_ACT_GELU},
    {"gelu_tanh", FY_ACT_GELU_TANH}, {"gelu_pytorch_tanh", FY_ACT_GELU_TANH},
    {"gelu_new", FY_ACT_GELU_TANH},  {"gelu_fast", FY_ACT_GELU_TANH},
    {"relu", FY_ACT_RELU},           {"fatrelu", FY_ACT_FATRELU},
    {"drelu", FY_ACT_DRELU},         {"swiglu_oai", FY_ACT_SWIGLU_OAI},
    {"relu2", FY_ACT_RELU2},
};
enum { N_ACT_NAMES = sizeof act_names / sizeof act_names[0] };

fy_act_kind fy_act_of(fy_span name)
{
    for (int i = 0; i < N_ACT_NAMES; i++) {
        if (fy_span_is(name, act_names[i].name))
            return act_names[i].act;
    }
    return FY_ACT_COUNT;
}

const char *fy_act_name(fy_act_kind a)
{
    int i = 0;
    while (i < N_ACT_NAMES && act_names[i].act != a)
        i++;
    return i < N_ACT_NAMES ? act_names[i].name : "?";
}

bool fy_act_makes_zeros(fy_act_kind a, bool gated)
{
    return a == FY_ACT_RELU || a == FY_ACT_FATRELU || a == FY_ACT_DRELU ||
           (a == FY_ACT_RELU2 && !gated);
}

/* --- sets of layers --- */

void fy_layer_put(fy_layer_set *s, uint32_t layer, bool in)
{
    uint64_t bit = (uint64_t)1 << layer % 64;
    s->word[layer / 64] = in ? s->word[layer / 64] | bit : s->word[layer / 64] & ~bit;
}

fy_layer_set fy_layers_of(fy_layer_pattern p, uint32_t n_layer)
{
    fy_layer_set s = {0};
    for (uint32_t i = p.first || p.period == 0 ? 0 : p.period - 1;
         p.period != 0 && i < n_layer && i < FY_N_LAYER_MAX; i += p.period)
        fy_layer_put(&s, i, true);
    return s;
}

uint32_t fy_layers_below(const fy_layer_set *s, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < layer; i++)
        n += fy_layer_in(s, i);
    return n;
}

uint32_t fy_layers_count(const fy_layer_set *s)
{
    return fy_layers_below(s, FY_N_LAYER_MAX);
}

fy_layer_set fy_usual_nope_layers(const fy_family *f, const fy_hparams *hp)
{
    if ((f->nope_follows_swa || f->nope_is_full) && hp->n_swa == 0)
        return (fy_layer_set){0};
    if (f->nope_is_full)
        return hp->full_layers;
    return fy_layers_of(f->no_rope, hp->n_layer);
}

fy_layer_set fy_hp_usual_layers(const fy_family *f, fy_hparam_kind kind, const fy_hparams *hp)
{
    if (kind == FY_HP_NO_ATTN_LAYERS || kind == FY_HP_NO_FFN_LAYERS)
        return (fy_layer_set){0};
    return kind == FY_HP_SWA_LAYERS ? fy_layers_of(f->full_attention, hp->n_layer)
                                    : fy_usual_nope_layers(f, hp);
}

/* --- what follows from other fields --- */

static void default_f32(float *f, float v)
{
    if (*f == 0)
        *f = v;
}

static void default_u32(uint32_t *u, uint32_t v)
{
    if (*u == 0)
        *u = v;
}

static bool has_gate(const fy_family *f)
{
    return fy_row_of_slot(f, FY_T_FFN_GATE) != NULL ||
           fy_row_of_slot(f, FY_T_FFN_GATE_UP) != NULL ||
           fy_row_of_slot(f, FY_T_FFN_GATE_EXPS) != NULL;
}

/* What undoes yarn's own magnitude as far as yarn_log_mul says. */
static float yarn_log_factor(const fy_hparams *hp)
{
    return hp->rope_factor > 1
               ? (float)(1 / (1 + 0.1 * (double)hp->yarn_log_mul * log((double)hp->rope_factor)))
               : 1;
}

/* What fla's code takes when config.json has null: a multiple of 32. */
static uint32_t rank_of(double factor, const fy_hparams *hp)
{
    const double n = round(factor * sqrt(hp->n_embd) / 32) * 32;
    return n > 32 ? (uint32_t)n : 32;
}

/* Of RWKV's: no layer has attention, and the heads are those of the time mix. */
static void derive_wkv(fy_hparams *hp, const fy_family *f)
{
    const bool wide = hp->n_embd == 4096;
    if (fy_row_of_slot(f, FY_T_MIX_OUT) == NULL)
        return;
    hp->n_head = hp->n_head_kv = (uint32_t)fy_dim_of(hp, FY_D_WKV_HEADS);
    hp->head_dim = hp->head_dim_v = hp->wkv_head;
    for (uint32_t i = 0; i < hp->n_layer && i < FY_N_LAYER_MAX; i++)
        fy_layer_put(&hp->no_attn_layers, i, true);
    default_f32(&hp->group_eps, 64e-5F);
    if (fy_row_of_slot(f, FY_T_MIX_LERP_5) != NULL) {
        default_u32(&hp->n_rank_mix, wide ? 64 : 32);
        default_u32(&hp->n_rank_decay, wide ? 128 : 64);
    } else if (fy_row_of_slot(f, FY_T_MIX_LERP_6) != NULL) {
        default_u32(&hp->n_rank_decay, rank_of(2.5, hp));
        default_u32(&hp->n_rank_iclr, rank_of(2.5, hp));
        default_u32(&hp->n_rank_value, rank_of(1.7, hp));
        default_u32(&hp->n_rank_gate, rank_of(5, hp));
    }
}

void fy_hparams_derive(fy_hparams *hp, const fy_family *f)
{
    derive_wkv(hp, f);
    hp->ssm_place = f->ssm_place;
    hp->gated_queries = f->gated_queries;
    hp->gated_heads = fy_row_of_slot(f, FY_T_ATTN_GATE) != NULL;
    default_u32(&hp->n_head_kv, hp->n_head);
    default_u32(&hp->head_dim, hp->head_dim_swa); /* null in config.json */
    if (hp->n_swa == 0)
        hp->head_dim_swa = hp->head_dim_v_swa = hp->n_rot_swa = hp->n_head_kv_swa = 0;
    default_u32(&hp->head_dim_v_swa, hp->head_dim_swa);
    default_u32(&hp->n_rot_swa, hp->head_dim_swa);
    if (hp->n_head != 0)
        default_u32(&hp->head_dim, hp->n_embd / hp->n_head);
    if (hp->kv_lora_rank != 0 && hp->n_head != 0)
        default_u32(&hp->head_dim_v, hp->n_embd / hp->n_head);
    default_u32(&hp->head_dim_v, hp->head_dim);
    if (f->rope == FY_ROPE_NO)
        hp->n_rot = 0;
    else
        default_u32(&hp->n_rot, hp->head_dim);
    if (!has_gate(f) && hp->n_embd < INT32_MAX / 4)
        default_u32(&hp->n_ff, 4 * hp->n_embd);
    if (hp->rope_scaling == FY_ROPE_SCALING_YARN || hp->rope_scaling == FY_ROPE_SCALING_LONGROPE)
        default_u32(&hp->rope_orig_ctx, hp->n_ctx_train);
    if (f->moe) {
        default_u32(&hp->n_ff_exp, hp->n_ff);
        default_u32(&hp->n_ff, hp->n_ff_exp);
    }
    if (f->ssm_place == FY_SSM_DELTA && hp->full_interval != 0) {
        const fy_layer_set full =
            fy_layers_of((fy_layer_pattern){.period = hp->full_interval}, hp->n_layer);
        for (uint32_t i = 0; i < hp->n_layer && i < FY_N_LAYER_MAX; i++)
            fy_layer_put(&hp->no_attn_layers, i, !fy_layer_in(&full, i));
    }
    if (f->both_eps)
        default_f32(&hp->norm_eps, hp->norm_rms_eps);
    default_f32(&hp->rope_theta, 10000);
    if (f->swa_unscaled && hp->n_swa != 0 && hp->rope_scaling != FY_ROPE_SCALING_NONE)
        default_f32(&hp->rope_theta_swa, hp->rope_theta);
    default_f32(&hp->rope_factor, 1);
    if (hp->yarn_log_mul != 0 && hp->rope_scaling == FY_ROPE_SCALING_YARN)
        hp->rope_attn_factor = yarn_log_factor(hp);
    default_f32(&hp->rope_attn_factor, 1);
    hp->yarn_unrounded = f->defaults.yarn_unrounded;
    default_f32(&hp->yarn_beta_fast, 32);
    default_f32(&hp->yarn_beta_slow, 1);
    hp->latent_eps = f->defaults.latent_eps;
    default_f32(&hp->embedding_scale, f->defaults.embedding_scale);
    default_f32(&hp->embedding_scale, f->sqrt_embedding ? sqrtf((float)hp->n_embd) : 1);
    default_f32(&hp->residual_scale,
                f->depth_scale != 0 ? f->depth_scale / sqrtf((float)hp->n_layer) : 1);
    default_f32(&hp->attn_scale, f->defaults.attn_scale);
    default_f32(&hp->logit_scale, f->base_width != 0 ? (float)hp->n_embd / f->base_width : 1);
}

/* --- states --- */

bool fy_layer_has_state(const fy_hparams *hp, uint32_t layer)
{
    const bool no_attn = fy_layer_in(&hp->no_attn_layers, layer);
    switch (hp->ssm_place) {
    case FY_SSM_NONE:
        return (hp->conv_len != 0 || hp->wkv_head != 0) && no_attn;
    case FY_SSM_INSTEAD:
    case FY_SSM_DELTA:
        return no_attn;
    case FY_SSM_BESIDE:
        return true;
    case FY_SSM_ALONE:
        return no_attn && fy_layer_in(&hp->no_ffn_layers, layer);
    }
    return false;
}

uint64_t fy_state_len(const fy_hparams *hp)
{
    if (hp->wkv_head != 0) /* the input before, of both mixes; heads [wkv_head][wkv_head] */
        return (2 + (uint64_t)hp->wkv_head) * hp->n_embd;
    if (hp->ssm_place != FY_SSM_NONE)
        return (hp->ssm_conv - 1) * fy_dim_of(hp, FY_D_SSM_CHANNELS) +
               (uint64_t)hp->ssm_inner * hp->ssm_state;
    return hp->conv_len != 0 ? (uint64_t)(hp->conv_len - 1) * hp->n_embd : 0;
}

/* --- checks --- */

bool fy_hp_is_layers(const fy_hparam_row *row)
{
    return row->kind == FY_HP_SWA_LAYERS || row->kind == FY_HP_ROPE_LAYERS ||
           row->kind == FY_HP_NO_ATTN_LAYERS || row->kind == FY_HP_NO_FFN_LAYERS ||
           row->kind == FY_HP_ROPE_SWITCH;
}

size_t fy_hp_bytes(const fy_hparam_row *row)
{
    return fy_hp_is_layers(row)          ? sizeof(fy_layer_set)
           : row->kind == FY_HP_SECTIONS ? sizeof((fy_hparams *)0)->rope_sections
           : row->kind == FY_HP_BOOL     ? sizeof(bool)
                                         : sizeof(uint32_t); /* enums, too, and floats */
}

double fy_hp_number(const fy_hparam_row *row, const fy_hparams *hp)
{
    const void *field = (const char *)hp + row->offset;
    switch (row->kind) {
    case FY_HP_U32:
    case FY_HP_KV_HEADS:
    case FY_HP_FF:
    case FY_HP_SCALING:
    case FY_HP_ACT:
        return *(const uint32_t *)field;
    case FY_HP_F32:
    case FY_HP_SPARSITY:
        return (double)*(const float *)field;
    case FY_HP_BOOL:
        return *(const bool *)field;
    case FY_HP_SWA_LAYERS:
    case FY_HP_ROPE_LAYERS:
    case FY_HP_NO_ATTN_LAYERS:
    case FY_HP_NO_HEADS:
    case FY_HP_NO_FFN_LAYERS:
    case FY_HP_SECTIONS:
    case FY_HP_ROPE_SWITCH:
        break;
    }
    return 0;
}

bool fy_hp_is_number(const fy_hparam_row *row)
{
    return row->kind == FY_HP_U32 || row->kind == FY_HP_KV_HEADS || row->kind == FY_HP_FF;
}

static bool sets(const fy_family *f, const fy_hparam_row *row)
{
    bool set = false;
    for (size_t i = 0; i < f->n_keys; i++)
        set |= f->keys[i].field == row->offset;
    return set;
}

bool fy_hp_applies(const fy_hparam_row *row, const fy_family *f)
{
    static const struct {
        unsigned flag;
        fy_slot slot;
    } needs[] = {{FY_HP_CONV, FY_T_CONV},        {FY_HP_DENSE, FY_T_FFN_UP},
                 {FY_HP_ATTN, FY_T_ATTN_OUT},    {FY_HP_SSM, FY_T_SSM_OUT},
                 {FY_HP_WKV, FY_T_MIX_OUT},      {FY_HP_WKV_6, FY_T_MIX_LERP_5},
                 {FY_HP_WKV_7, FY_T_MIX_LERP_6}, {FY_HP_LATENT, FY_T_ATTN_KV_UP},
                 {FY_HP_DELTA, FY_T_SSM_QKV},    {FY_HP_ALTUP, FY_T_ALTUP_PROJ}};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if ((row->flags & needs[i].flag) && fy_row_of_slot(f, needs[i].slot) == NULL)
            return false;
    }
    if ((row->kind == FY_HP_ROPE_SWITCH && !f->rope_switch) ||
        (row->kind == FY_HP_ROPE_LAYERS && f->rope_switch) ||
        (row->kind == FY_HP_NO_FFN_LAYERS && f->ssm_place != FY_SSM_ALONE))
        return false;
    return !((row->flags & FY_HP_MOE) && !f->moe && !sets(f, row)) &&
           !((row->flags & FY_HP_LN) && !f->layer_norm && !f->both_eps) &&
           !((row->flags & FY_HP_RMS) && f->layer_norm) &&
           !((row->flags & FY_HP_ROPE) && f->rope == FY_ROPE_NO) &&
           !((row->flags & FY_HP_LAYERED) && !fy_is_layered(f));
}

/* Every number on its own; a field that may be 0 has a flag in its row. */
static int check_numbers(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        const double v = fy_hp_number(row, hp);
        const uint32_t min = row->flags & FY_HP_MAY_BE_0 ? 0 : 1,
                       max = row->offset == FIELD(n_layer)    ? FY_N_LAYER_MAX
                             : row->offset == FIELD(n_expert) ? N_EXPERT_MAX
                                                              : INT32_MAX;
        if (!fy_hp_applies(row, f))
            continue;
        if (fy_hp_is_number(row) && (v < min || v > max))
            return fy_fail(e, FY_EFORMAT, "%s is %.0f; expected %u to %u", row->gguf, v, min, max);
        if (row->kind == FY_HP_F32 && row->offset != FIELD(act_threshold) &&
            (!isfinite(v) || v < 0 || (v == 0 && min == 1)))
            return fy_fail(e, FY_EFORMAT, "%s is %g; expected a finite number %s 0", row->gguf, v,
                           min == 1 ? "above" : "of at least");
    }
    return isfinite(hp->act_threshold)
               ? 0
               : fy_fail(e, FY_EFORMAT, "ferry.activation_threshold is %g; expected a number",
                         (double)hp->act_threshold);
}

/* Of one kind of layers; suffix: what the keys of the layers with the window end in. */
static int check_heads_of(const fy_hparams *hp, const fy_family *f, const fy_layer_shape *s,
                          const char *suffix, fy_err *e)
{
    if (hp->n_head % s->n_head_kv != 0)
        return fy_fail(e, FY_EFORMAT,
                       "attention.head_count %u is not a multiple of attention.head_count_kv %u",
                       hp->n_head, s->n_head_kv);
    if (f->rope != FY_ROPE_NO && (s->n_rot % 2 != 0 || s->n_rot > s->head_dim))
        return fy_fail(e, FY_EFORMAT,
                       "rope.dimension_count%s is %u; expected an even number, at most "
                       "attention.key_length%s %u",
                       suffix, s->n_rot, suffix, s->head_dim);
    /* The widest row, in elements: everything derived from it then fits 31 bits. */
    uint64_t widest = s->head_dim > s->head_dim_v ? s->head_dim : s->head_dim_v;
    if (widest * hp->n_head > INT32_MAX / 4)
        return fy_fail(e, FY_EFORMAT,
                       "attention.head_count %u times head length %" PRIu64 " does not fit 31 bits",
                       hp->n_head, widest);
    return 0;
}

static int check_heads(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    const fy_layer_shape usual = {.head_dim = hp->head_dim,
                                  .head_dim_v = hp->head_dim_v,
                                  .n_rot = hp->n_rot,
                                  .n_head_kv = hp->n_head_kv};
    fy_layer_shape swa = usual;
    if (hp->head_dim_swa != 0) {
        swa.head_dim = hp->head_dim_swa;
        swa.head_dim_v = hp->head_dim_v_swa;
    }
    swa.n_rot = hp->n_rot_swa != 0 ? hp->n_rot_swa : swa.n_rot;
    swa.n_head_kv = hp->n_head_kv_swa != 0 ? hp->n_head_kv_swa : swa.n_head_kv;
    return check_heads_of(hp, f, &usual, "", e) || check_heads_of(hp, f, &swa, "_swa", e) ? -1 : 0;
}

/* A layer that reads the keys of another needs one of its kind before. */
static int check_shared(const fy_hparams *hp, fy_err *e)
{
    if (hp->n_kv_shared == 0)
        return 0;
    if (hp->n_kv_shared >= hp->n_layer)
        return fy_fail(e, FY_EFORMAT, "attention.shared_kv_layers is %u, of %u layers",
                       hp->n_kv_shared, hp->n_layer);
    for (uint32_t i = hp->n_layer - hp->n_kv_shared; i < hp->n_layer; i++) {
        if (fy_kv_owner(hp, i) == i)
            return fy_fail(e, FY_EFORMAT,
                           "attention.shared_kv_layers is %u: layer %u would read the keys of an "
                           "earlier layer %s the window, and there is none",
                           hp->n_kv_shared, i, fy_layer_has_window(hp, i) ? "with" : "without");
    }
    return 0;
}

/* The rotated elements are a part of each head, and every head has keys of its own. */
static int check_latent(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    if (fy_row_of_slot(f, FY_T_ATTN_KV_UP) == NULL)
        return 0;
    if (hp->n_head_kv != hp->n_head)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "attention.head_count_kv is %u; latent attention has as many as heads, %u",
                       hp->n_head_kv, hp->n_head);
    const uint64_t most = INT32_MAX / 4, heads = fy_dim_of(hp, FY_D_KV_B);
    if (hp->n_rot >= hp->head_dim || heads > most || hp->q_lora_rank > most ||
        hp->kv_lora_rank > most)
        return fy_fail(e, FY_EFORMAT,
                       "rope.dimension_count is %u, attention.key_length %u, q_lora_rank %u and "
                       "kv_lora_rank %u; expected a part of a head, and ranks that fit 31 bits",
                       hp->n_rot, hp->head_dim, hp->q_lora_rank, hp->kv_lora_rank);
    return 0;
}

static int check_altup(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    if (fy_row_of_slot(f, FY_T_ALTUP_PROJ) == NULL)
        return 0;
    if (hp->n_altup < 2 || hp->n_altup > FY_ALTUP_MAX)
        return fy_fail(e, FY_EUNSUPPORTED, "altup.num_inputs is %u; ferry computes 2 to %d",
                       hp->n_altup, FY_ALTUP_MAX);
    if (hp->altup_active != 0)
        return fy_fail(e, FY_EUNSUPPORTED, "altup.active_idx is %u; ferry computes 0",
                       hp->altup_active);
    if (hp->n_laurel < 1 || hp->n_laurel > INT32_MAX)
        return fy_fail(e, FY_EFORMAT, "the rank of laurel is %u; expected 1 to %d", hp->n_laurel,
                       INT32_MAX);
    if (hp->n_embd_pl == 0)
        return fy_fail(e, FY_EFORMAT, "embedding_length_per_layer_input is 0; a %s model needs it",
                       f->gguf_arch);
    return isfinite(hp->act_sparsity)
               ? 0
               : fy_fail(e, FY_EFORMAT, "activation_sparsity_scale is %g; expected a finite number",
                         (double)hp->act_sparsity);
}

/* Longer ones are no short convolutions; one column would be a product. */
static int check_conv(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    if (fy_row_of_slot(f, FY_T_CONV) != NULL && (hp->conv_len < 2 || hp->conv_len > 64))
        return fy_fail(e, FY_EFORMAT, "shortconv.l_cache is %u; expected 2 to 64", hp->conv_len);
    if (fy_row_of_slot(f, FY_T_CONV) == NULL && fy_row_of_slot(f, FY_T_MIX_OUT) == NULL &&
        fy_layers_count(&hp->no_attn_layers) != 0 &&
        (f->ssm_place == FY_SSM_NONE || f->ssm_place == FY_SSM_BESIDE))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "attention.head_count_kv is 0 in %u layers; %s models have attention in all",
                       fy_layers_count(&hp->no_attn_layers), f->name);
    if (fy_row_of_slot(f, FY_T_CONV) != NULL &&
        fy_layers_count(&hp->no_attn_layers) == hp->n_layer)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "none of the %u layers has attention; ferry computes %s models with some",
                       hp->n_layer, f->name);
    return 0;
}

static int check_wkv(const fy_hparams *hp, fy_err *e)
{
    if (hp->wkv_head > FY_WKV_HEAD_MAX || (hp->wkv_head != 0 && hp->n_embd % hp->wkv_head != 0))
        return fy_fail(e, FY_EFORMAT,
                       "wkv.head_size is %u; expected at most %d, and a divisor of "
                       "embedding_length %u",
                       hp->wkv_head, FY_WKV_HEAD_MAX, hp->n_embd);
    return 0;
}

/* Heads share out the rows, groups the heads; what a token is to a mixer fits 31 bits. */
static int check_ssm(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    if (f->ssm_place == FY_SSM_NONE)
        return 0;
    if (hp->ssm_conv < 2 || hp->ssm_conv > 64)
        return fy_fail(e, FY_EFORMAT, "ssm.conv_kernel is %u; expected 2 to 64", hp->ssm_conv);
    if (hp->ssm_inner % hp->ssm_heads != 0 || hp->ssm_heads % hp->ssm_groups != 0)
        return fy_fail(e, FY_EFORMAT,
                       "ssm.inner_size %u does not divide into ssm.time_step_rank %u heads, or "
                       "these into ssm.group_count %u groups",
                       hp->ssm_inner, hp->ssm_heads, hp->ssm_groups);
    if ((uint64_t)hp->ssm_groups * hp->ssm_state > INT32_MAX / 16 || hp->ssm_inner > INT32_MAX / 16)
        return fy_fail(e, FY_EFORMAT,
                       "ssm.inner_size %u and ssm.group_count %u times ssm.state_size %u do not "
                       "fit 31 bits",
                       hp->ssm_inner, hp->ssm_groups, hp->ssm_state);
    if (fy_layers_count(&hp->no_attn_layers) == hp->n_layer)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "none of the %u layers has attention; ferry computes %s models with some",
                       hp->n_layer, f->name);
    if (f->ssm_place == FY_SSM_ALONE && fy_layers_count(&hp->no_ffn_layers) == hp->n_layer)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "none of the %u layers is a feed-forward network; ferry computes %s models "
                       "with some",
                       hp->n_layer, f->name);
    for (uint32_t i = 0; i < hp->n_layer && f->ssm_place == FY_SSM_ALONE; i++) {
        if (!fy_layer_in(&hp->no_attn_layers, i) && !fy_layer_in(&hp->no_ffn_layers, i))
            return fy_fail(e, FY_EUNSUPPORTED,
                           "attention.head_count_kv and feed_forward_length are both above 0 for "
                           "layer %u; ferry computes %s models with one of them in a layer",
                           i, f->name);
    }
    return 0;
}

static int check_experts(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    if (!f->moe)
        return 0;
    if (hp->n_expert_used > hp->n_expert)
        return fy_fail(e, FY_EFORMAT, "expert_used_count %u is above expert_count %u",
                       hp->n_expert_used, hp->n_expert);
    if (hp->gating != FY_GATING_SOFTMAX && hp->gating != FY_GATING_SIGMOID)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "expert_gating_func is %d; ferry computes 1 (softmax) and 2 (sigmoid)",
                       (int)hp->gating);
    if (hp->n_dense_layers > hp->n_layer)
        return fy_fail(e, FY_EFORMAT, "leading_dense_block_count is %u, of %u layers",
                       hp->n_dense_layers, hp->n_layer);
    if (hp->gating != FY_GATING_SIGMOID && fy_row_of_slot(f, FY_T_FFN_CHOICE_B) != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "expert_gating_func is %d; %s models choose by sigmoid, 2", (int)hp->gating,
                       f->name);
    return 0;
}

static int check_yarn(const fy_hparams *hp, fy_err *e)
{
    if (hp->rope_scaling != FY_ROPE_SCALING_YARN)
        return 0;
    if (hp->rope_factor < 1)
        return fy_fail(e, FY_EFORMAT, "rope.scaling.factor is %g; yarn needs at least 1",
                       (double)hp->rope_factor);
    if (hp->rope_theta <= 1) /* the ramp divides by its logarithm */
        return fy_fail(e, FY_EFORMAT, "rope.freq_base is %g; yarn needs more than 1",
                       (double)hp->rope_theta);
    if (hp->rope_orig_ctx == 0)
        return fy_fail(e, FY_EFORMAT,
                       "rope.scaling.original_context_length is %u; expected 1 to %d",
                       hp->rope_orig_ctx, INT32_MAX);
    return 0;
}

/* The factor of a query is computed for all of it with the angles. */
static int check_temperature(const fy_hparams *hp, fy_err *e)
{
    if (hp->temp_scale == 0)
        return 0;
    if (hp->rope_orig_ctx == 0)
        return fy_fail(e, FY_EFORMAT,
                       "attention.temperature_scale is %g, but "
                       "rope.scaling.original_context_length is missing",
                       (double)hp->temp_scale);
    return hp->n_rot == hp->head_dim && fy_layers_count(&hp->nope_layers) == 0 && hp->n_swa == 0
               ? 0
               : fy_fail(e, FY_EUNSUPPORTED,
                         "attention.temperature_scale is %g; ferry computes it where every layer "
                         "rotates whole heads and none has a window",
                         (double)hp->temp_scale);
}

/* The graphs of others have no place for it. */
static int check_activation(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    return hp->act != FY_ACT_RELU2 || f->defaults.act == FY_ACT_RELU2
               ? 0
               : fy_fail(e, FY_EUNSUPPORTED,
                         "hidden_activation is relu2; ferry does not compute it in %s models",
                         f->name);
}

static int check_alibi(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    return f->alibi_layers == 0 || hp->n_layer != f->alibi_layers
               ? 0
               : fy_fail(e, FY_EUNSUPPORTED,
                         "block_count is %u: %s models of that depth have ALiBi instead of "
                         "rotation, which ferry does not compute",
                         hp->n_layer, f->name);
}

int fy_hparams_check(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    return check_activation(hp, f, e) || check_alibi(hp, f, e) || check_numbers(hp, f, e) ||
                   check_wkv(hp, e) || check_heads(hp, f, e) || check_shared(hp, e) ||
                   check_latent(hp, f, e) || check_altup(hp, f, e) || check_conv(hp, f, e) ||
                   check_ssm(hp, f, e) || check_experts(hp, f, e) || check_yarn(hp, e) ||
                   check_temperature(hp, e)
               ? -1
               : 0;
}
