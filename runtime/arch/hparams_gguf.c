/* Hyperparameters from and to GGUF, and two files of a model compared. */
#include "arch/hparams_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/log.h"

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
    while (!act && i < N_SCALINGS && !fy_span_is(s, fy_scaling_names[i]))
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

/* 0 set, 1 absent, -1. Of a list: the number, the same in all layers that have any. */
static int read_some(const fy_gguf *g, const char *key, const fy_family *f, const fy_hparams *hp,
                     uint32_t *out, fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    if (kv == NULL || kv->type != FY_KV_ARRAY)
        return fy_gguf_get_u32(g, key, out, e);
    if (fy_is_layered(f)) /* once it is known which layers have the window */
        return 0;
    fy_layer_set unused;
    if (read_layers(g, key, hp->n_layer, &unused, e) != 0)
        return -1;
    *out = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const int64_t n = fy_gguf_int_at(kv, i);
        if (n < 0 || n > INT32_MAX || (n != 0 && *out != 0 && n != *out))
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s has %" PRId64
                           " for layer %u; ferry computes one number, or 0, in each layer",
                           key, n, i);
        *out = n != 0 ? (uint32_t)n : *out;
    }
    return 0;
}

/* The same where layers may differ: one number in layers with the window, one in the others. */
static int read_layered_heads(const fy_gguf *g, const fy_family *f, fy_hparams *hp, fy_err *e)
{
    char key[KEY_BYTES];
    key_of(f, "attention.head_count_kv", key);
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    fy_layer_set unused;
    if (!fy_is_layered(f) || kv == NULL || kv->type != FY_KV_ARRAY)
        return 0;
    if (read_layers(g, key, hp->n_layer, &unused, e) != 0)
        return -1;
    uint32_t heads[2] = {0, 0};
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const int64_t n = fy_gguf_int_at(kv, i);
        uint32_t *of = &heads[fy_layer_has_window(hp, i)];
        if (n < 1 || n > INT32_MAX || (*of != 0 && n != *of))
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s has %" PRId64 " for layer %u; ferry computes one number of heads in "
                           "layers with the window, and one in the others",
                           key, n, i);
        *of = (uint32_t)n;
    }
    hp->n_head_kv = heads[0] != 0 ? heads[0] : heads[1];
    hp->n_head_kv_swa = heads[1] != hp->n_head_kv ? heads[1] : 0;
    return 0;
}

/* A number, or one for each layer. 0 set, 1 absent, -1. */
static int read_widths(const fy_gguf *g, const char *key, fy_hparams *hp, fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    fy_layer_set unused;
    if (kv == NULL || kv->type != FY_KV_ARRAY)
        return fy_gguf_get_u32(g, key, &hp->n_ff, e);
    if (read_layers(g, key, hp->n_layer, &unused, e) != 0)
        return -1;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const int64_t n = fy_gguf_int_at(kv, i);
        if (n < 1 || n > INT32_MAX)
            return fy_fail(e, FY_EFORMAT, "%s has %" PRId64 " for layer %u; expected 1 to %d", key,
                           n, i, INT32_MAX);
        if (!fy_put_width(hp, i, (uint32_t)n))
            return fy_fail(e, FY_EUNSUPPORTED, "%s: more than %d different widths", key,
                           FY_FF_WIDTHS + 1);
    }
    return 0;
}

/* -infinity: the layer is not sparse. 0 set, 1 absent, -1. */
static int read_sparsity(const fy_gguf *g, const char *key, fy_hparams *hp, fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    if (kv == NULL)
        return 1;
    const bool floats = kv->elem == FY_KV_F32 || kv->elem == FY_KV_F64;
    if (kv->type != FY_KV_ARRAY || !floats || kv->count != hp->n_layer)
        return fy_fail(e, FY_EFORMAT, "%s: expected a list of %u numbers, one per layer", key,
                       hp->n_layer);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const double v = fy_gguf_float_at(kv, i);
        if (isinf(v) && v < 0)
            continue;
        const bool first = fy_layers_count(&hp->sparse_layers) == 0;
        if (!isfinite(v) || (!first && (float)v != hp->act_sparsity))
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s has %g for layer %u; ferry computes one number, or -infinity, in "
                           "each layer",
                           key, v, i);
        hp->act_sparsity = (float)v;
        fy_layer_put(&hp->sparse_layers, i, true);
    }
    return 0;
}

/* No key has the rank of laurel either. */
static void find_laurel(const fy_gguf *g, const fy_family *f, fy_hparams *hp)
{
    char name[FY_ROW_NAME_BYTES];
    const fy_tensor_row *row = fy_row_of_slot(f, FY_T_LAUREL_L);
    if (row == NULL)
        return;
    fy_row_name(row->gguf, 0, name);
    const fy_gguf_tensor *t = fy_gguf_tensor_find(g, name);
    hp->n_laurel = t != NULL && t->ne[1] <= INT32_MAX ? (uint32_t)t->ne[1] : f->defaults.n_laurel;
}

/* No key says that values are keys: the first layer without the window has no matrix for them. */
static void find_k_is_v(const fy_gguf *g, const fy_family *f, fy_hparams *hp)
{
    char name[FY_ROW_NAME_BYTES];
    uint32_t layer = 0;
    while (layer < hp->n_layer && fy_layer_has_window(hp, layer))
        layer++;
    for (size_t i = 0; fy_is_layered(f) && layer < hp->n_layer && i < f->n_rows; i++) {
        const fy_slot s = f->rows[i].slot;
        if (s != FY_T_ATTN_K && s != FY_T_ATTN_V)
            continue;
        fy_row_name(f->rows[i].gguf, layer, name);
        const bool has = fy_gguf_tensor_find(g, name) != NULL;
        hp->k_is_v = s == FY_T_ATTN_K ? has : hp->k_is_v && !has;
    }
}

/* The same key: a number means that all layers have it. */
static int read_none(const fy_gguf *g, const char *key, const fy_hparams *hp, fy_layer_set *out,
                     fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    *out = (fy_layer_set){0};
    return kv != NULL && kv->type == FY_KV_ARRAY ? read_layers(g, key, hp->n_layer, out, e) : 0;
}

/* All layers rotate, or none. */
static int read_switch(const fy_gguf *g, const char *key, const fy_hparams *hp, fy_layer_set *out,
                       fy_err *e)
{
    bool on = true;
    const int rc = fy_gguf_get_bool(g, key, &on, e);
    if (rc == 0)
        *out = fy_layers_of((fy_layer_pattern){.period = on ? 0 : 1}, hp->n_layer);
    return rc;
}

/* Pairs of a head that turn by the positions of pictures: text gives all kinds of position the same
 * number, so that ferry has no use for them. */
static int read_sections(const fy_gguf *g, const char *key, uint32_t out[4], fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    if (kv == NULL)
        return 1;
    if (kv->type != FY_KV_ARRAY || kv->count > 4 ||
        (kv->elem != FY_KV_I32 && kv->elem != FY_KV_U32))
        return fy_fail(e, FY_EFORMAT, "%s: expected a list of up to four numbers", key);
    for (uint64_t i = 0; i < kv->count; i++) {
        const int64_t n = fy_gguf_int_at(kv, i);
        if (n < 0 || n > INT32_MAX)
            return fy_fail(e, FY_EFORMAT, "%s has %" PRId64 "; expected 0 or more", key, n);
        out[i] = (uint32_t)n;
    }
    return 0;
}

/* 0 set, 1 absent, -1. */
static int read_field(const fy_gguf *g, const char *key, const fy_family *f,
                      const fy_hparam_row *row, fy_hparams *hp, fy_err *e)
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
    case FY_HP_KV_HEADS:
        return read_some(g, key, f, hp, (uint32_t *)(void *)field, e);
    case FY_HP_FF:
        return f->ssm_place == FY_SSM_ALONE ? read_some(g, key, f, hp, (uint32_t *)(void *)field, e)
                                            : read_widths(g, key, hp, e);
    case FY_HP_NO_HEADS:
        return 0;
    case FY_HP_SPARSITY:
        return read_sparsity(g, key, hp, e);
    case FY_HP_NO_ATTN_LAYERS:
    case FY_HP_NO_FFN_LAYERS:
        return read_none(g, key, hp, (fy_layer_set *)(void *)field, e);
    case FY_HP_SECTIONS:
        return read_sections(g, key, hp->rope_sections, e);
    case FY_HP_ROPE_SWITCH:
        return read_switch(g, key, hp, (fy_layer_set *)(void *)field, e);
    case FY_HP_SWA_LAYERS:
    case FY_HP_ROPE_LAYERS:
        return read_layers(g, key, hp->n_layer, (fy_layer_set *)(void *)field, e);
    }
    return 1;
}

/* A field that is there must not be 0 where derive would take 0 for "absent" and invent a value. */
static int check_given(const fy_hparam_row *row, const char *key, const fy_family *f,
                       const fy_hparams *hp, fy_err *e)
{
    const bool layered = row->kind == FY_HP_KV_HEADS && fy_is_layered(f); /* a list is read later */
    return (fy_hp_is_number(row) || row->kind == FY_HP_F32) && !layered &&
                   fy_hp_number(row, hp) == 0 && !(row->flags & FY_HP_MAY_BE_0)
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

static bool knows_key(const fy_family *f, const char *name)
{
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        if (strcmp(fy_hparam_rows[i].gguf, name) == 0)
            return fy_hp_applies(&fy_hparam_rows[i], f);
    }
    return false;
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
        {"token_shift_count", 2, 2},
        {"rope.scaling.yarn_ext_factor", 1, 1},
        {"rope.scaling.yarn_attn_factor", 1, 1},
    };
    char key[KEY_BYTES];
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        key_of(f, foreign[i].key, key);
        const fy_gguf_kv *kv = fy_gguf_find(g, key);
        if (kv == NULL || knows_key(f, foreign[i].key))
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

/* Of the norms that the family has; other readers may insist on both. */
static bool is_eps(const fy_hparam_row *row, const fy_family *f)
{
    return (row->flags & FY_HP_RMS) != 0 || ((row->flags & FY_HP_LN) != 0 && f->layer_norm);
}

/* The key is absent. */
static int set_absent(const fy_hparam_row *row, const char *key, const fy_family *f, fy_hparams *hp,
                      fy_err *e)
{
    char *field = (char *)hp + row->offset;
    const bool eps = is_eps(row, f);
    if ((row->flags & (FY_HP_REQUIRED | FY_HP_CONV | FY_HP_SSM | FY_HP_WKV_6 | FY_HP_WKV_7 |
                       FY_HP_LATENT | FY_HP_ALTUP)) ||
        (eps && fy_hp_number(row, &f->defaults) == 0))
        return fy_fail(e, FY_EFORMAT, "%s is missing; a %s model needs it", key, f->gguf_arch);
    if (fy_hp_is_layers(row)) {
        fy_layer_set usual = fy_hp_usual_layers(f, row->kind, hp);
        memcpy(field, &usual, sizeof usual);
    } else if (eps || (row->flags & FY_HP_TRAIT) != 0) {
        memcpy(field, (const char *)&f->defaults + row->offset, fy_hp_bytes(row));
    }
    return 0;
}

/* PowerInfer's files name no activation: it is ReLU, of gate and up where the family has that. For
 * some families they have constants where others have the model's sizes; the tensors have those. */
static void read_powerinfer(const fy_gguf *g, const fy_family *f, fy_hparams *hp)
{
    char key[KEY_BYTES];
    key_of(f, "hidden_activation", key);
    if (fy_gguf_find(g, key) == NULL && f->defaults.act != FY_ACT_DRELU)
        hp->act = FY_ACT_RELU;
    const fy_gguf_tensor *up = fy_gguf_tensor_find(g, "blk.0.ffn_up.weight");
    if (up != NULL && up->ne[1] <= INT32_MAX)
        hp->n_ff = (uint32_t)up->ne[1];
    const fy_gguf_tensor *pos = fy_gguf_tensor_find(g, "position_embd.weight");
    const uint64_t skipped = fy_skipped_positions(g, f);
    if (pos != NULL && pos->ne[1] > skipped && pos->ne[1] <= INT32_MAX)
        hp->n_ctx_train = (uint32_t)(pos->ne[1] - skipped);
}

uint32_t fy_skipped_positions(const fy_gguf *g, const fy_family *f)
{
    const fy_tensor_row *row = fy_row_of_slot(f, FY_T_POSITION_EMBD);
    return fy_gguf_is_powerinfer(g) && row != NULL && row->transform == FY_X_SKIP_2 ? 2 : 0;
}

int fy_hparams_from_gguf(const fy_gguf *g, const fy_family *f, fy_hparams *out, fy_err *e)
{
    fy_hparams hp = {0};
    char key[KEY_BYTES];
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        if (!fy_hp_applies(row, f))
            continue;
        key_of_row(f, row, key);
        if (row->kind == FY_HP_FF && (hp.n_layer < 1 || hp.n_layer > FY_N_LAYER_MAX))
            return fy_fail(e, FY_EFORMAT, "block_count is %u; expected 1 to %d", hp.n_layer,
                           FY_N_LAYER_MAX);
        int rc = read_field(g, key, f, row, &hp, e);
        if (rc == 0 && row->offset == FIELD(gating) && hp.gating == 0)
            rc = 1; /* some converters write 0 for "not given" */
        if (rc < 0 || (rc == 0 && check_given(row, key, f, &hp, e)) ||
            (rc == 1 && set_absent(row, key, f, &hp, e)))
            return -1;
    }
    /* Converters say true of sequential StableLM models, too, and no reader looks at it there. */
    hp.parallel = hp.parallel && f->defaults.parallel;
    if (hp.n_vocab == 0 && read_vocab_count(g, &hp, e))
        return -1;
    if (refuse_foreign(g, f, e) || read_old_scaling(g, f, &hp, e) ||
        read_layered_heads(g, f, &hp, e))
        return -1;
    find_k_is_v(g, f, &hp);
    find_laurel(g, f, &hp);
    if (fy_gguf_is_powerinfer(g))
        read_powerinfer(g, f, &hp);
    if (hp.attn_scale == 0 && hp.n_layer == f->wide_scale_layers && hp.n_head > 0)
        hp.attn_scale = 1.0F / sqrtf((float)hp.n_embd / (float)hp.n_head);
    fy_hparams_derive(&hp, f);
    if (fy_hparams_check(&hp, f, e))
        return fy_ctx(e, "hyperparameters of '%s'", f->gguf_arch);
    *out = hp;
    return 0;
}

/* Has the config class a key for the field? */
static bool has_config_key(const fy_family *f, size_t field)
{
    size_t i = 0;
    while (i < f->n_keys && f->keys[i].field != field)
        i++;
    return i < f->n_keys;
}

void fy_hparams_tell_missing(const fy_gguf *g, const fy_family *f, const fy_hparams *hp)
{
    char key[KEY_BYTES];
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        const bool theta = row->offset == FIELD(rope_theta) &&
                           fy_layers_count(&hp->nope_layers) < hp->n_layer,
                   eps = is_eps(row, f),
                   scale = row->offset == FIELD(attn_scale) && has_config_key(f, row->offset);
        key_of_row(f, row, key);
        if (!fy_hp_applies(row, f) || !(theta || eps || scale) || fy_gguf_find(g, key) != NULL)
            continue;
        if (scale)
            fy_log(FY_LOG_WARN,
                   "key '%s' is missing; scores are multiplied by %g, as llama.cpp does for %u "
                   "layers",
                   key, (double)fy_attn_scale(hp), hp->n_layer);
        else
            fy_log(FY_LOG_WARN, "key '%s' is missing; %g is taken, %s", key, fy_hp_number(row, hp),
                   theta ? "as llama.cpp does" : "the default of the model's class");
    }
}

/* n of the layers that have it: a list when some have none. */
static int write_some(fy_gguf_writer *w, const char *key, const fy_hparams *hp, uint32_t n,
                      const fy_layer_set *none, fy_err *e)
{
    int32_t list[FY_N_LAYER_MAX];
    if (fy_layers_count(none) == 0)
        return fy_gguf_add_u32(w, key, n, e);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        list[i] = fy_layer_in(none, i) ? 0 : (int32_t)n;
    return fy_gguf_add_array(w, key, FY_KV_I32, list, hp->n_layer, e);
}

static int write_kv_heads(fy_gguf_writer *w, const char *key, const fy_hparams *hp, fy_err *e)
{
    int32_t heads[FY_N_LAYER_MAX];
    const fy_layer_set none = {0};
    if (hp->n_head_kv_swa == 0) /* full_interval says which layers have none */
        return write_some(w, key, hp, hp->n_head_kv,
                          hp->ssm_place == FY_SSM_DELTA ? &none : &hp->no_attn_layers, e);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        heads[i] =
            fy_layer_in(&hp->no_attn_layers, i) ? 0 : (int32_t)fy_layer_shape_of(hp, i).n_head_kv;
    return fy_gguf_add_array(w, key, FY_KV_I32, heads, hp->n_layer, e);
}

/* Readers take its absence for true. */
static int write_switch(fy_gguf_writer *w, const char *key, const fy_family *f,
                        const fy_hparams *hp, fy_err *e)
{
    const bool on = fy_layers_count(&hp->nope_layers) == 0;
    return on && f->ssm_place == FY_SSM_NONE ? 0 : fy_gguf_add_bool(w, key, on, e);
}

static int write_sparsity(fy_gguf_writer *w, const char *key, const fy_hparams *hp, fy_err *e)
{
    float scales[FY_N_LAYER_MAX];
    for (uint32_t i = 0; i < hp->n_layer; i++)
        scales[i] = fy_layer_in(&hp->sparse_layers, i) ? hp->act_sparsity : -INFINITY;
    return fy_gguf_add_array(w, key, FY_KV_F32, scales, hp->n_layer, e);
}

static int write_widths(fy_gguf_writer *w, const char *key, const fy_family *f,
                        const fy_hparams *hp, fy_err *e)
{
    int32_t widths[FY_N_LAYER_MAX];
    if (!f->lists_widths && hp->ff_other[0].n_ff == 0)
        return fy_gguf_add_u32(w, key, hp->n_ff, e);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        widths[i] = (int32_t)fy_layer_shape_of(hp, i).n_ff;
    return fy_gguf_add_array(w, key, FY_KV_I32, widths, hp->n_layer, e);
}

static int write_layers(fy_gguf_writer *w, const char *key, const fy_family *f,
                        const fy_hparam_row *row, const fy_hparams *hp, fy_err *e)
{
    fy_layer_set set, usual = fy_hp_usual_layers(f, row->kind, hp);
    memcpy(&set, (const char *)hp + row->offset, sizeof set);
    bool plain = row->kind == FY_HP_SWA_LAYERS && hp->n_swa == 0;
    const bool listed = row->kind == FY_HP_SWA_LAYERS && f->lists_swa_layers;
    if (plain || (!listed && memcmp(&set, &usual, sizeof set) == 0))
        return 0;
    uint8_t in[FY_N_LAYER_MAX];
    for (uint32_t i = 0; i < hp->n_layer; i++)
        in[i] = !fy_layer_in(&set, i);
    return fy_gguf_add_array(w, key, FY_KV_BOOL, in, hp->n_layer, e);
}

/* Readers of a family whose config sets the field insist on the key. */
static bool always_written(const fy_family *f, const fy_hparam_row *row)
{
    bool set = (row->flags & (FY_HP_REQUIRED | FY_HP_RMS | FY_HP_LN)) != 0 ||
               (row->flags & FY_HP_ALTUP) || ((row->flags & FY_HP_LAYERED) && row->hf != NULL);
    for (size_t i = 0; i < f->n_keys; i++)
        set |= f->keys[i].field == row->offset;
    return set;
}

/* A trait is known to the reader from its own table when it is absent. */
static bool is_left_out(const fy_family *f, const fy_family *reader, const fy_hparam_row *row,
                        const fy_hparams *hp)
{
    const double absent = (double)row->absent;
    if ((row->offset == FIELD(embedding_scale) && f->sqrt_embedding) ||
        (row->offset == FIELD(rope_attn_factor) && hp->yarn_log_mul != 0) ||
        (row->offset == FIELD(rope_theta_swa) && f->swa_unscaled &&
         hp->rope_theta_swa == hp->rope_theta) ||
        (row->offset == FIELD(attn_scale) && hp->attn_scale == reader->defaults.attn_scale &&
         hp->attn_scale != 0))
        return true;
    if (row->kind == FY_HP_SECTIONS)
        return hp->rope_sections[0] == 0;
    if (row->kind == FY_HP_SCALING)
        return hp->rope_scaling == FY_ROPE_SCALING_NONE &&
               reader->defaults.rope_scaling == FY_ROPE_SCALING_NONE;
    if (row->kind == FY_HP_ACT)
        return hp->act == reader->defaults.act;
    if (always_written(f, row) || fy_hp_number(row, hp) != absent)
        return false;
    return !(row->flags & FY_HP_TRAIT) || fy_hp_number(row, &reader->defaults) == absent;
}

static int write_field(fy_gguf_writer *w, const char *key, const fy_family *reader,
                       const fy_hparam_row *row, const fy_hparams *hp, fy_err *e)
{
    const double v = fy_hp_number(row, hp);
    switch (row->kind) {
    case FY_HP_U32:
        return fy_gguf_add_u32(w, key, (uint32_t)v, e);
    case FY_HP_F32:
        return fy_gguf_add_f32(w, key, (float)v, e);
    case FY_HP_BOOL:
        return fy_gguf_add_bool(w, key, v != 0, e);
    case FY_HP_SCALING:
        return fy_gguf_add_str(w, key, fy_span_of(fy_scaling_names[hp->rope_scaling]), e);
    case FY_HP_ACT:
        return fy_gguf_add_str(w, key, fy_span_of(fy_act_name(hp->act)), e);
    case FY_HP_KV_HEADS:
        return write_kv_heads(w, key, hp, e);
    case FY_HP_FF:
        return reader->ssm_place == FY_SSM_ALONE
                   ? write_some(w, key, hp, hp->n_ff, &hp->no_ffn_layers, e)
                   : write_widths(w, key, reader, hp, e);
    case FY_HP_NO_HEADS:
        return fy_gguf_add_u32(w, key, 0, e);
    case FY_HP_SPARSITY:
        return write_sparsity(w, key, hp, e);
    case FY_HP_NO_ATTN_LAYERS: /* by the same keys */
    case FY_HP_NO_FFN_LAYERS:
        return 0;
    case FY_HP_SECTIONS:
        return fy_gguf_add_array(w, key, FY_KV_I32, hp->rope_sections, 4, e);
    case FY_HP_ROPE_SWITCH:
        return write_switch(w, key, reader, hp, e);
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
            fy_hp_applies(row, f) && (fy_hp_is_layers(row) || !is_left_out(f, reader, row, hp));
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
    if (fy_hp_is_number(row))
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
        if (memcmp(a, b, fy_hp_bytes(row)) == 0)
            continue;
        say(row, fy_hp_number(row, found), fy_hp_number(row, expected), words);
        return fy_fail(e, FY_EVERIFY, "%s%s as %s says", row->gguf, words, says);
    }
    return 0;
}
