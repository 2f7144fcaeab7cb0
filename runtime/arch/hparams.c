/* Hyperparameters of any family: one row per field, from and to GGUF. */
#include "arch/arch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/math.h"

#define N_EXPERT_MAX 1024

/* --- hyperparameters: one row per field --- */

#define KEYS(...)         \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }
#define FIELD(name) offsetof(fy_hparams, name)

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
    {FY_HP_U32, FIELD(n_ff), "feed_forward_length",
     KEYS("intermediate_size", "ffn_hidden_size", "n_inner", "hidden_dim", "ffn_dim",
          "moe_ffn_hidden_size"),
     FY_HP_REQUIRED | FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(n_head), "attention.head_count",
     KEYS("num_attention_heads", "n_head", "n_heads"), FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_head_kv), "attention.head_count_kv",
     KEYS("num_key_value_heads", "n_kv_heads"), FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(head_dim), "attention.key_length", KEYS("head_dim", "kv_channels"),
     FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(head_dim_v), "attention.value_length", NULL, 0, 0},
    {FY_HP_U32, FIELD(n_rot), "rope.dimension_count", NULL, FY_HP_ROPE, 0},
    {FY_HP_U32, FIELD(n_swa), "attention.sliding_window", NULL, FY_HP_MAY_BE_0, 0},
    {FY_HP_SWA_LAYERS, FIELD(full_layers), "attention.sliding_window_pattern", NULL, 0, 0},
    {FY_HP_F32, FIELD(norm_rms_eps), "attention.layer_norm_rms_epsilon",
     KEYS("rms_norm_eps", "norm_eps", "layernorm_epsilon"), FY_HP_RMS, 0},
    {FY_HP_F32, FIELD(norm_eps), "attention.layer_norm_epsilon",
     KEYS("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"), FY_HP_LN, 0},
    {FY_HP_F32, FIELD(rope_theta), "rope.freq_base", NULL, FY_HP_ROPE, 0},
    {FY_HP_F32, FIELD(rope_theta_swa), "rope.freq_base_swa", NULL, FY_HP_TRAIT | FY_HP_MAY_BE_0, 0},
    {FY_HP_SCALING, FIELD(rope_scaling), "rope.scaling.type", NULL, 0, FY_ROPE_SCALING_NONE},
    {FY_HP_F32, FIELD(rope_factor), "rope.scaling.factor", NULL, FY_HP_MAY_BE_0, 1},
    {FY_HP_U32, FIELD(rope_orig_ctx), "rope.scaling.original_context_length", NULL, FY_HP_MAY_BE_0,
     0},
    {FY_HP_F32, FIELD(rope_attn_factor), "rope.scaling.attn_factor", NULL, 0, 1},
    {FY_HP_F32, FIELD(yarn_beta_fast), "rope.scaling.yarn_beta_fast", NULL, 0, 32},
    {FY_HP_F32, FIELD(yarn_beta_slow), "rope.scaling.yarn_beta_slow", NULL, 0, 1},
    {FY_HP_ROPE_LAYERS, FIELD(nope_layers), "ferry.rope_layers", NULL, FY_HP_OWN | FY_HP_ROPE, 0},
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
    {FY_HP_U32, FIELD(n_ff_exp), "expert_feed_forward_length",
     KEYS("moe_intermediate_size", "moe_ffn_hidden_size"), FY_HP_MOE, 0},
    {FY_HP_U32, FIELD(n_ff_shexp), "expert_shared_feed_forward_length",
     KEYS("shared_expert_intermediate_size", "shared_intermediate_size"),
     FY_HP_MOE | FY_HP_MAY_BE_0 | FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(gating), "expert_gating_func", NULL, FY_HP_MOE | FY_HP_TRAIT, 0},
    {FY_HP_BOOL, FIELD(expert_norm), "expert_weights_norm", KEYS("norm_topk_prob"),
     FY_HP_MOE | FY_HP_TRAIT, 0},
};
const size_t fy_n_hparam_rows = sizeof fy_hparam_rows / sizeof fy_hparam_rows[0];

static const char *const scaling_names[] = {
    [FY_ROPE_SCALING_NONE] = "none",
    [FY_ROPE_SCALING_LINEAR] = "linear",
    [FY_ROPE_SCALING_YARN] = "yarn",
    [FY_ROPE_SCALING_LONGROPE] = "longrope",
};
enum { N_SCALINGS = sizeof scaling_names / sizeof scaling_names[0] };

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
    {"drelu", FY_ACT_DRELU},
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

uint32_t fy_layers_count(const fy_layer_set *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < FY_N_LAYER_MAX; i++)
        n += fy_layer_in(s, i);
    return n;
}

/* What the family does when a file says nothing about its layers. */
static fy_layer_set usual_layers(const fy_family *f, fy_hparam_kind kind, const fy_hparams *hp)
{
    if (kind == FY_HP_SWA_LAYERS)
        return fy_layers_of(f->full_attention, hp->n_layer);
    if (f->nope_follows_swa && hp->n_swa == 0)
        return (fy_layer_set){0};
    return fy_layers_of(f->no_rope, hp->n_layer);
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

void fy_hparams_derive(fy_hparams *hp, const fy_family *f)
{
    default_u32(&hp->n_head_kv, hp->n_head);
    if (hp->n_head != 0)
        default_u32(&hp->head_dim, hp->n_embd / hp->n_head);
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
    default_f32(&hp->rope_theta, 10000);
    default_f32(&hp->rope_factor, 1);
    default_f32(&hp->rope_attn_factor, 1);
    default_f32(&hp->yarn_beta_fast, 32);
    default_f32(&hp->yarn_beta_slow, 1);
    default_f32(&hp->embedding_scale, f->sqrt_embedding ? sqrtf((float)hp->n_embd) : 1);
    default_f32(&hp->residual_scale, 1);
    default_f32(&hp->logit_scale, 1);
}

/* --- checks --- */

static bool is_layers(const fy_hparam_row *row)
{
    return row->kind == FY_HP_SWA_LAYERS || row->kind == FY_HP_ROPE_LAYERS;
}

static size_t field_bytes(const fy_hparam_row *row)
{
    return is_layers(row)            ? sizeof(fy_layer_set)
           : row->kind == FY_HP_BOOL ? sizeof(bool)
                                     : sizeof(uint32_t); /* enums, too, and floats */
}

/* The field as a number; 0 for a set of layers. */
static double number_of(const fy_hparam_row *row, const fy_hparams *hp)
{
    const void *field = (const char *)hp + row->offset;
    switch (row->kind) {
    case FY_HP_U32:
    case FY_HP_SCALING:
    case FY_HP_ACT:
        return *(const uint32_t *)field;
    case FY_HP_F32:
        return (double)*(const float *)field;
    case FY_HP_BOOL:
        return *(const bool *)field;
    case FY_HP_SWA_LAYERS:
    case FY_HP_ROPE_LAYERS:
        break;
    }
    return 0;
}

/* Does the family know the field at all? */
static bool row_applies(const fy_hparam_row *row, const fy_family *f)
{
    return !((row->flags & FY_HP_MOE) && !f->moe) && !((row->flags & FY_HP_LN) && !f->layer_norm) &&
           !((row->flags & FY_HP_RMS) && f->layer_norm) &&
           !((row->flags & FY_HP_ROPE) && f->rope == FY_ROPE_NO);
}

/* Every number on its own; a field that may be 0 has a flag in its row. */
static int check_numbers(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        const double v = number_of(row, hp);
        const uint32_t min = row->flags & FY_HP_MAY_BE_0 ? 0 : 1,
                       max = row->offset == FIELD(n_layer)    ? FY_N_LAYER_MAX
                             : row->offset == FIELD(n_expert) ? N_EXPERT_MAX
                                                              : INT32_MAX;
        if (!row_applies(row, f))
            continue;
        if (row->kind == FY_HP_U32 && (v < min || v > max))
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

static int check_heads(const fy_hparams *hp, const fy_family *f, fy_err *e)
{
    if (hp->n_head % hp->n_head_kv != 0)
        return fy_fail(e, FY_EFORMAT,
                       "attention.head_count %u is not a multiple of attention.head_count_kv %u",
                       hp->n_head, hp->n_head_kv);
    if (f->rope != FY_ROPE_NO && (hp->n_rot % 2 != 0 || hp->n_rot > hp->head_dim))
        return fy_fail(e, FY_EFORMAT,
                       "rope.dimension_count is %u; expected an even number, at most "
                       "attention.key_length %u",
                       hp->n_rot, hp->head_dim);
    /* The widest row, in elements: everything derived from it then fits 31 bits. */
    uint64_t widest = hp->head_dim > hp->head_dim_v ? hp->head_dim : hp->head_dim_v;
    if (widest * hp->n_head > INT32_MAX / 4)
        return fy_fail(e, FY_EFORMAT,
                       "attention.head_count %u times head length %" PRIu64 " does not fit 31 bits",
                       hp->n_head, widest);
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
    return check_alibi(hp, f, e) || check_numbers(hp, f, e) || check_heads(hp, f, e) ||
                   check_experts(hp, f, e) || check_yarn(hp, e)
               ? -1
               : 0;
}

/* --- hyperparameters from and to GGUF --- */

#define KEY_BYTES 128

static void key_of(const fy_family *f, const char *name, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s.%s", f->gguf_arch, name);
}

static void key_of_row(const fy_family *f, const fy_hparam_row *row, char out[KEY_BYTES])
{
    if (row->flags & FY_HP_OWN)
        snprintf(out, KEY_BYTES, "%s", row->gguf);
    else
        key_of(f, row->gguf, out);
}

/* A rope_scaling, or an fy_act_kind, by its name. */
static int read_name(const fy_gguf *g, const char *key, fy_hparam_kind kind, uint32_t *out,
                     fy_err *e)
{
    fy_span s;
    int rc = fy_gguf_get_str(g, key, &s, e);
    if (rc != 0)
        return rc;
    const bool act = kind == FY_HP_ACT;
    uint32_t i = act ? fy_act_of(s) : 0;
    while (!act && i < N_SCALINGS && !fy_span_is(s, scaling_names[i]))
        i++;
    if (i == (act ? (uint32_t)FY_ACT_COUNT : N_SCALINGS))
        return fy_fail(e, FY_EUNSUPPORTED, "%s is '%.*s'%s", key, (int)(s.len < 64 ? s.len : 64),
                       s.ptr,
                       act ? ", which ferry does not compute"
                           : "; ferry computes none, linear, yarn and longrope");
    *out = i;
    return 0;
}

/* An array with an entry per layer, true for the layers that are no exception; or the period of the
 * pattern, whose last layer is the exception. */
static int read_layers(const fy_gguf *g, const char *key, uint32_t n_layer, fy_layer_set *except,
                       fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    if (kv == NULL)
        return 1;
    bool array = kv->type == FY_KV_ARRAY;
    fy_kv_type elem = array ? kv->elem : kv->type;
    bool number = elem != FY_KV_STRING && elem != FY_KV_ARRAY && elem != FY_KV_F32 &&
                  elem != FY_KV_F64 && (array || elem != FY_KV_BOOL);
    if (!number || (array && kv->count != n_layer))
        return fy_fail(e, FY_EFORMAT, "%s: expected a list of %u values, one per layer", key,
                       n_layer);
    if (!array) {
        int64_t period = fy_gguf_int_at(kv, 0);
        if (period < 0 || period > FY_N_LAYER_MAX)
            return fy_fail(e, FY_EFORMAT, "%s is %" PRId64 "; expected 0 to %d", key, period,
                           FY_N_LAYER_MAX);
        *except = fy_layers_of((fy_layer_pattern){(uint32_t)period, false}, n_layer);
        return 0;
    }
    for (uint32_t i = 0; i < n_layer; i++)
        fy_layer_put(except, i, fy_gguf_int_at(kv, i) == 0);
    return 0;
}

/* 0 set, 1 absent, -1. */
static int read_field(const fy_gguf *g, const char *key, const fy_hparam_row *row, fy_hparams *hp,
                      fy_err *e)
{
    char *field = (char *)hp + row->offset;
    switch (row->kind) {
    case FY_HP_U32:
        return fy_gguf_get_u32(g, key, (uint32_t *)(void *)field, e);
    case FY_HP_F32:
        return fy_gguf_get_f32(g, key, (float *)(void *)field, e);
    case FY_HP_BOOL:
        return fy_gguf_get_bool(g, key, (bool *)(void *)field, e);
    case FY_HP_SCALING:
    case FY_HP_ACT:
        return read_name(g, key, row->kind, (uint32_t *)(void *)field, e);
    case FY_HP_SWA_LAYERS:
    case FY_HP_ROPE_LAYERS:
        return read_layers(g, key, hp->n_layer, (fy_layer_set *)(void *)field, e);
    }
    return 1;
}

/* A field that is there must not be 0 where derive would take 0 for "absent" and invent a value. */
static int check_given(const fy_hparam_row *row, const char *key, const fy_hparams *hp, fy_err *e)
{
    const bool number = row->kind == FY_HP_U32 || row->kind == FY_HP_F32;
    return number && number_of(row, hp) == 0 && !(row->flags & FY_HP_MAY_BE_0)
               ? fy_fail(e, FY_EFORMAT, "%s is 0; expected a positive number", key)
               : 0;
}

/* What other programs write before there was rope.scaling.type: a factor alone means linear. */
static int read_old_scaling(const fy_gguf *g, const fy_family *f, fy_hparams *hp, fy_err *e)
{
    char key[KEY_BYTES];
    key_of(f, "rope.scaling.type", key);
    if (fy_gguf_find(g, key) != NULL)
        return 0;
    key_of(f, "rope.scale_linear", key);
    if (hp->rope_factor == 0 && fy_gguf_get_f32(g, key, &hp->rope_factor, e) < 0)
        return -1;
    if (hp->rope_factor != 0 && hp->rope_factor != 1)
        hp->rope_scaling = FY_ROPE_SCALING_LINEAR;
    return 0;
}

/* Keys that change the arithmetic in a way no family here has: only their neutral value is
 * accepted, because a file that is computed without them gives wrong words, not an error. */
static int refuse_foreign(const fy_gguf *g, const fy_family *f, fy_err *e)
{
    static const struct {
        const char *key;
        double neutral, unset;
    } foreign[] = {
        {"attention.clamp_kqv", 0, 0},
        {"attention.max_alibi_bias", 0, 0},
        {"attention.causal", 1, 1},
        {"expert_weights_scale", 1, 0},
        {"expert_group_count", 1, 0},
        {"leading_dense_block_count", 0, 0},
        {"interleave_moe_layer_step", 1, 0},
        {"attention.shared_kv_layers", 0, 0},
        {"rope.dimension_sections", 0, 0},
        {"rope.scaling.yarn_log_multiplier", 0, 0},
        {"rope.scaling.yarn_ext_factor", 1, 1},
        {"rope.scaling.yarn_attn_factor", 1, 1},
    };
    char key[KEY_BYTES];
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        key_of(f, foreign[i].key, key);
        const fy_gguf_kv *kv = fy_gguf_find(g, key);
        if (kv == NULL)
            continue;
        if (kv->type == FY_KV_ARRAY || kv->type == FY_KV_STRING)
            return fy_fail(e, FY_EUNSUPPORTED, "%s: ferry does not compute with this key", key);
        double v = kv->type == FY_KV_F32 || kv->type == FY_KV_F64 ? fy_gguf_float_at(kv, 0)
                                                                  : (double)fy_gguf_int_at(kv, 0);
        if (v != foreign[i].neutral && v != foreign[i].unset)
            return fy_fail(e, FY_EUNSUPPORTED, "%s is %g: ferry does not compute with this key",
                           key, v);
    }
    return 0;
}

static int read_vocab_count(const fy_gguf *g, fy_hparams *hp, fy_err *e)
{
    const fy_gguf_kv *tokens = fy_gguf_find(g, FY_KEY_TOKENS);
    if (tokens == NULL || tokens->type != FY_KV_ARRAY || tokens->count > INT32_MAX)
        return fy_fail(e, FY_EFORMAT, "neither vocab_size nor a list of tokens is in the file");
    hp->n_vocab = (uint32_t)tokens->count;
    return 0;
}

/* The key is absent. */
static int set_absent(const fy_hparam_row *row, const char *key, const fy_family *f, fy_hparams *hp,
                      fy_err *e)
{
    char *field = (char *)hp + row->offset;
    if (row->flags & (FY_HP_REQUIRED | FY_HP_RMS | FY_HP_LN))
        return fy_fail(e, FY_EFORMAT, "%s is missing; a %s model needs it", key, f->gguf_arch);
    if (is_layers(row)) {
        fy_layer_set usual = usual_layers(f, row->kind, hp);
        memcpy(field, &usual, sizeof usual);
    } else if (row->flags & FY_HP_TRAIT) {
        memcpy(field, (const char *)&f->defaults + row->offset, field_bytes(row));
    }
    return 0;
}

int fy_hparams_from_gguf(const fy_gguf *g, const fy_family *f, fy_hparams *out, fy_err *e)
{
    fy_hparams hp = {0};
    char key[KEY_BYTES];
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        if (!row_applies(row, f))
            continue;
        key_of_row(f, row, key);
        if (row->kind == FY_HP_SWA_LAYERS && (hp.n_layer < 1 || hp.n_layer > FY_N_LAYER_MAX))
            return fy_fail(e, FY_EFORMAT, "block_count is %u; expected 1 to %d", hp.n_layer,
                           FY_N_LAYER_MAX);
        int rc = read_field(g, key, row, &hp, e);
        if (rc == 0 && row->offset == FIELD(gating) && hp.gating == 0)
            rc = 1; /* some converters write 0 for "not given" */
        if (rc < 0 || (rc == 0 && check_given(row, key, &hp, e)) ||
            (rc == 1 && set_absent(row, key, f, &hp, e)))
            return -1;
    }
    /* Converters say true of sequential StableLM models, too, and no reader looks at it there. */
    hp.parallel = hp.parallel && f->defaults.parallel;
    if (hp.n_vocab == 0 && read_vocab_count(g, &hp, e))
        return -1;
    if (refuse_foreign(g, f, e) || read_old_scaling(g, f, &hp, e))
        return -1;
    if (hp.attn_scale == 0 && hp.n_layer == f->wide_scale_layers && hp.n_head > 0)
        hp.attn_scale = 1.0F / sqrtf((float)hp.n_embd / (float)hp.n_head);
    fy_hparams_derive(&hp, f);
    if (fy_hparams_check(&hp, f, e))
        return fy_ctx(e, "hyperparameters of '%s'", f->gguf_arch);
    *out = hp;
    return 0;
}

static int write_layers(fy_gguf_writer *w, const char *key, const fy_family *f,
                        const fy_hparam_row *row, const fy_hparams *hp, fy_err *e)
{
    fy_layer_set set, usual = usual_layers(f, row->kind, hp);
    memcpy(&set, (const char *)hp + row->offset, sizeof set);
    bool plain = row->kind == FY_HP_SWA_LAYERS && hp->n_swa == 0;
    if (plain || memcmp(&set, &usual, sizeof set) == 0)
        return 0;
    uint8_t in[FY_N_LAYER_MAX];
    for (uint32_t i = 0; i < hp->n_layer; i++)
        in[i] = !fy_layer_in(&set, i);
    return fy_gguf_add_array(w, key, FY_KV_BOOL, in, hp->n_layer, e);
}

/* Readers of a family whose config sets the field insist on the key. */
static bool always_written(const fy_family *f, const fy_hparam_row *row)
{
    bool set = (row->flags & (FY_HP_REQUIRED | FY_HP_RMS | FY_HP_LN)) != 0;
    for (size_t i = 0; i < f->n_keys; i++)
        set |= f->keys[i].field == row->offset;
    return set;
}

/* A trait is known to the reader from its own table when it is absent. */
static bool is_left_out(const fy_family *f, const fy_family *reader, const fy_hparam_row *row,
                        const fy_hparams *hp)
{
    const double absent = (double)row->absent;
    if (row->offset == FIELD(embedding_scale) && f->sqrt_embedding)
        return true;
    if (row->kind == FY_HP_SCALING)
        return hp->rope_scaling == FY_ROPE_SCALING_NONE;
    if (row->kind == FY_HP_ACT)
        return hp->act == reader->defaults.act;
    if (always_written(f, row) || number_of(row, hp) != absent)
        return false;
    return !(row->flags & FY_HP_TRAIT) || number_of(row, &reader->defaults) == absent;
}

static int write_field(fy_gguf_writer *w, const char *key, const fy_family *reader,
                       const fy_hparam_row *row, const fy_hparams *hp, fy_err *e)
{
    const double v = number_of(row, hp);
    switch (row->kind) {
    case FY_HP_U32:
        return fy_gguf_add_u32(w, key, (uint32_t)v, e);
    case FY_HP_F32:
        return fy_gguf_add_f32(w, key, (float)v, e);
    case FY_HP_BOOL:
        return fy_gguf_add_bool(w, key, v != 0, e);
    case FY_HP_SCALING:
        return fy_gguf_add_str(w, key, fy_span_of(scaling_names[hp->rope_scaling]), e);
    case FY_HP_ACT:
        return fy_gguf_add_str(w, key, fy_span_of(fy_act_name(hp->act)), e);
    case FY_HP_SWA_LAYERS:
    case FY_HP_ROPE_LAYERS:
        return write_layers(w, key, reader, row, hp, e);
    }
    return 0;
}

int fy_hparams_to_gguf(fy_gguf_writer *w, const fy_family *f, const fy_hparams *hp, fy_err *e)
{
    const fy_family *reader = fy_family_of_gguf(fy_span_of(f->gguf_arch), f->moe);
    char key[KEY_BYTES];
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        key_of_row(f, row, key);
        const bool written =
            row_applies(row, f) && (is_layers(row) || !is_left_out(f, reader, row, hp));
        if (written && write_field(w, key, reader, row, hp, e))
            return -1;
    }
    return 0;
}

/* --- one file against another --- */

/* " is 64, not 32": numbers only. */
static void say(const fy_hparam_row *row, double found, double expected, char out[64])
{
    strcpy(out, " is not the same");
    if (row->kind == FY_HP_U32)
        snprintf(out, 64, " is %.0f, not %.0f", found, expected);
    else if (row->kind == FY_HP_F32)
        snprintf(out, 64, " is %.9g, not %.9g", found, expected);
}

int fy_hparams_compare(const fy_hparams *found, const fy_hparams *expected, const char *says,
                       fy_err *e)
{
    char words[64];
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        const char *a = (const char *)found + row->offset,
                   *b = (const char *)expected + row->offset;
        if (memcmp(a, b, field_bytes(row)) == 0)
            continue;
        say(row, number_of(row, found), number_of(row, expected), words);
        return fy_fail(e, FY_EVERIFY, "%s%s as %s says", row->gguf, words, says);
    }
    return 0;
}
