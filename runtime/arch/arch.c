/* Names, shapes and hyperparameters of any family, from its table. */
#include "arch/arch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/math.h"

#define LAYER_MARK  "%u"
#define N_LAYER_MAX 1000 /* a guard against nonsense: the deepest published model has 126 */

/* --- hyperparameters: one row per field
 * ------------------------------------------------------------------------ */

#define KEYS(...)         \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }
#define FIELD(name) offsetof(fy_hparams, name)

/* Order is the order of the keys in the files we write. Lists of HF keys: transformers config
 * classes, old and new spellings. */
const fy_hparam_row fy_hparam_rows[] = {
    {FY_HP_U32, FIELD(n_vocab), "vocab_size", KEYS("vocab_size"), 0, 0},
    {FY_HP_U32, FIELD(n_ctx_train), "context_length",
     KEYS("max_position_embeddings", "n_ctx", "n_positions", "max_length", "max_sequence_length",
          "model_max_length", "seq_length"),
     FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_embd), "embedding_length", KEYS("hidden_size", "n_embd", "dim", "d_model"),
     FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_layer), "block_count",
     KEYS("num_hidden_layers", "n_layers", "n_layer", "num_layers"), FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_ff), "feed_forward_length",
     KEYS("intermediate_size", "n_inner", "hidden_dim", "ffn_dim"), FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_head), "attention.head_count",
     KEYS("num_attention_heads", "n_head", "n_heads"), FY_HP_REQUIRED, 0},
    {FY_HP_U32, FIELD(n_head_kv), "attention.head_count_kv",
     KEYS("num_key_value_heads", "n_kv_heads"), FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(head_dim), "attention.key_length", KEYS("head_dim"), FY_HP_NULL_DERIVES, 0},
    {FY_HP_U32, FIELD(head_dim_v), "attention.value_length", NULL, 0, 0},
    {FY_HP_U32, FIELD(n_rot), "rope.dimension_count", NULL, 0, 0},
    {FY_HP_U32, FIELD(n_swa), "attention.sliding_window", NULL, FY_HP_MAY_BE_0, 0},
    {FY_HP_F32, FIELD(norm_rms_eps), "attention.layer_norm_rms_epsilon",
     KEYS("rms_norm_eps", "norm_eps"), FY_HP_REQUIRED, 0},
    {FY_HP_F32, FIELD(rope_theta), "rope.freq_base", NULL, 0, 0},
    {FY_HP_SCALING, FIELD(rope_scaling), "rope.scaling.type", NULL, 0, FY_ROPE_SCALING_NONE},
    {FY_HP_F32, FIELD(rope_factor), "rope.scaling.factor", NULL, FY_HP_MAY_BE_0, 1},
    {FY_HP_U32, FIELD(rope_orig_ctx), "rope.scaling.original_context_length", NULL, FY_HP_MAY_BE_0,
     0},
    {FY_HP_F32, FIELD(rope_attn_factor), "rope.scaling.attn_factor", NULL, 0, 1},
    {FY_HP_F32, FIELD(yarn_beta_fast), "rope.scaling.yarn_beta_fast", NULL, 0, 32},
    {FY_HP_F32, FIELD(yarn_beta_slow), "rope.scaling.yarn_beta_slow", NULL, 0, 1},
};
const size_t fy_n_hparam_rows = sizeof fy_hparam_rows / sizeof fy_hparam_rows[0];

static const char *const scaling_names[] = {
    [FY_ROPE_SCALING_NONE] = "none",
    [FY_ROPE_SCALING_LINEAR] = "linear",
    [FY_ROPE_SCALING_YARN] = "yarn",
};
enum { N_SCALINGS = sizeof scaling_names / sizeof scaling_names[0] };

static void default_f32(float *f, float v)
{
    if (*f == 0)
        *f = v;
}

void fy_hparams_derive(fy_hparams *hp)
{
    if (hp->n_head_kv == 0)
        hp->n_head_kv = hp->n_head;
    if (hp->head_dim == 0 && hp->n_head != 0)
        hp->head_dim = hp->n_embd / hp->n_head;
    if (hp->head_dim_v == 0)
        hp->head_dim_v = hp->head_dim;
    if (hp->n_rot == 0)
        hp->n_rot = hp->head_dim;
    if (hp->rope_scaling == FY_ROPE_SCALING_YARN && hp->rope_orig_ctx == 0)
        hp->rope_orig_ctx = hp->n_ctx_train;
    default_f32(&hp->rope_theta, 10000);
    default_f32(&hp->rope_factor, 1);
    default_f32(&hp->rope_attn_factor, 1);
    default_f32(&hp->yarn_beta_fast, 32);
    default_f32(&hp->yarn_beta_slow, 1);
}

/* --- checks
 * ----------------------------------------------------------------------------------------------------
 */

/* Every number on its own; a field that may be 0 says so in its row. */
static int check_numbers(const fy_hparams *hp, fy_err *e)
{
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        const void *field = (const char *)hp + row->offset;
        if (row->kind == FY_HP_U32) {
            uint32_t v = *(const uint32_t *)field, min = row->flags & FY_HP_MAY_BE_0 ? 0 : 1,
                     max = row->offset == FIELD(n_layer) ? N_LAYER_MAX : INT32_MAX;
            if (v < min || v > max)
                return fy_fail(e, FY_EFORMAT, "%s is %u; expected %u to %u", row->gguf, v, min,
                               max);
        } else if (row->kind == FY_HP_F32) {
            float v = *(const float *)field;
            if (!isfinite(v) || v <= 0)
                return fy_fail(e, FY_EFORMAT, "%s is %g; expected a finite number above 0",
                               row->gguf, (double)v);
        }
    }
    return 0;
}

static int check_heads(const fy_hparams *hp, fy_err *e)
{
    if (hp->n_head % hp->n_head_kv != 0)
        return fy_fail(e, FY_EFORMAT,
                       "attention.head_count %u is not a multiple of attention.head_count_kv %u",
                       hp->n_head, hp->n_head_kv);
    if (hp->head_dim % 2 != 0)
        return fy_fail(e, FY_EFORMAT, "attention.key_length is %u; rotation needs an even number",
                       hp->head_dim);
    if (hp->n_rot % 2 != 0 || hp->n_rot > hp->head_dim)
        return fy_fail(e, FY_EFORMAT,
                       "rope.dimension_count is %u; expected an even number, at most "
                       "attention.key_length %u",
                       hp->n_rot, hp->head_dim);
    /* The widest row, in elements: everything derived from it then fits 31 bits. */
    uint64_t widest = hp->head_dim > hp->head_dim_v ? hp->head_dim : hp->head_dim_v;
    if (widest * hp->n_head > INT32_MAX)
        return fy_fail(e, FY_EFORMAT,
                       "attention.head_count %u times head length %" PRIu64 " does not fit 31 bits",
                       hp->n_head, widest);
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

int fy_hparams_check(const fy_hparams *hp, fy_err *e)
{
    return check_numbers(hp, e) || check_heads(hp, e) || check_yarn(hp, e) ? -1 : 0;
}

/* --- hyperparameters from and to GGUF
 * -------------------------------------------------------------------------- */

#define KEY_BYTES 128

static void key_of(const fy_family *f, const char *name, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s.%s", f->gguf_arch, name);
}

static int read_scaling(const fy_gguf *g, const char *key, fy_rope_scaling *out, fy_err *e)
{
    fy_span s;
    int rc = fy_gguf_get_str(g, key, &s, e);
    if (rc != 0)
        return rc;
    for (int i = 0; i < N_SCALINGS; i++) {
        if (fy_span_is(s, scaling_names[i])) {
            *out = (fy_rope_scaling)i;
            return 0;
        }
    }
    return fy_fail(e, FY_EUNSUPPORTED, "%s is '%.*s'; ferry computes none, linear and yarn", key,
                   (int)(s.len < 64 ? s.len : 64), s.ptr);
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
    case FY_HP_SCALING:
        return read_scaling(g, key, (fy_rope_scaling *)(void *)field, e);
    }
    return 1;
}

/* A field that is there must not be 0 where derive would take 0 for "absent" and invent a value. */
static int check_given(const fy_hparam_row *row, const char *key, const fy_hparams *hp, fy_err *e)
{
    const char *field = (const char *)hp + row->offset;
    bool zero = row->kind == FY_HP_U32   ? *(const uint32_t *)(const void *)field == 0
                : row->kind == FY_HP_F32 ? *(const float *)(const void *)field == 0
                                         : false;
    return zero && !(row->flags & FY_HP_MAY_BE_0)
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
        {"expert_count", 0, 0},
        {"attention.scale", 0, 0},
        {"attention.clamp_kqv", 0, 0},
        {"attention.max_alibi_bias", 0, 0},
        {"attention.sliding_window_pattern", 0, 0},
        {"attention.causal", 1, 1},
        {"attn_logit_softcapping", 0, 0},
        {"final_logit_softcapping", 0, 0},
        {"embedding_scale", 1, 0},
        {"residual_scale", 1, 0},
        {"logit_scale", 1, 0},
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

int fy_hparams_from_gguf(const fy_gguf *g, const fy_family *f, fy_hparams *out, fy_err *e)
{
    fy_hparams hp = {0};
    char key[KEY_BYTES];
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        key_of(f, row->gguf, key);
        int rc = read_field(g, key, row, &hp, e);
        if (rc < 0 || (rc == 0 && check_given(row, key, &hp, e)))
            return -1;
        if (rc == 1 && (row->flags & FY_HP_REQUIRED) != 0)
            return fy_fail(e, FY_EFORMAT, "%s is missing; a %s model needs it", key, f->gguf_arch);
    }
    if (hp.n_vocab == 0 && read_vocab_count(g, &hp, e))
        return -1;
    if (refuse_foreign(g, f, e) || read_old_scaling(g, f, &hp, e))
        return -1;
    fy_hparams_derive(&hp);
    if (fy_hparams_check(&hp, e))
        return fy_ctx(e, "hyperparameters of '%s'", f->gguf_arch);
    *out = hp;
    return 0;
}

static int write_field(fy_gguf_writer *w, const char *key, const fy_hparam_row *row,
                       const fy_hparams *hp, fy_err *e)
{
    const char *field = (const char *)hp + row->offset;
    bool optional = (row->flags & FY_HP_REQUIRED) == 0;
    switch (row->kind) {
    case FY_HP_U32: {
        uint32_t v = *(const uint32_t *)(const void *)field;
        return optional && v == (uint32_t)row->absent ? 0 : fy_gguf_add_u32(w, key, v, e);
    }
    case FY_HP_F32: {
        float v = *(const float *)(const void *)field;
        return optional && v == row->absent ? 0 : fy_gguf_add_f32(w, key, v, e);
    }
    case FY_HP_SCALING: {
        fy_rope_scaling v = *(const fy_rope_scaling *)(const void *)field;
        return v == FY_ROPE_SCALING_NONE ? 0
                                         : fy_gguf_add_str(w, key, fy_span_of(scaling_names[v]), e);
    }
    }
    return 0;
}

int fy_hparams_to_gguf(fy_gguf_writer *w, const fy_family *f, const fy_hparams *hp, fy_err *e)
{
    char key[KEY_BYTES];
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        key_of(f, fy_hparam_rows[i].gguf, key);
        if (write_field(w, key, &fy_hparam_rows[i], hp, e))
            return -1;
    }
    return 0;
}

/* --- rows
 * ------------------------------------------------------------------------------------------------------
 */

uint64_t fy_dim_of(const fy_hparams *hp, fy_dim d)
{
    switch (d) {
    case FY_D_VOCAB:
        return hp->n_vocab;
    case FY_D_EMBD:
        return hp->n_embd;
    case FY_D_FF:
        return hp->n_ff;
    case FY_D_Q:
        return (uint64_t)hp->n_head * hp->head_dim;
    case FY_D_K:
        return (uint64_t)hp->n_head_kv * hp->head_dim;
    case FY_D_V:
        return (uint64_t)hp->n_head_kv * hp->head_dim_v;
    case FY_D_QV:
        return (uint64_t)hp->n_head * hp->head_dim_v;
    case FY_D_HEAD:
        return hp->head_dim;
    case FY_D_ROT2:
        return hp->n_rot / 2;
    case FY_D_END:
        break;
    }
    return 0;
}

uint32_t fy_row_shape(const fy_hparams *hp, const fy_tensor_row *row, uint64_t ne[FY_GGUF_MAX_DIMS])
{
    enum { MAX = sizeof row->dims / sizeof row->dims[0] };
    uint32_t n = 0;
    while (n < MAX && row->dims[n] != FY_D_END)
        n++;
    for (uint32_t i = 0; i < FY_GGUF_MAX_DIMS; i++)
        ne[i] = i < n ? fy_dim_of(hp, row->dims[n - 1 - i]) : 1;
    return n;
}

bool fy_row_is_layer(const fy_tensor_row *row)
{
    return strstr(row->gguf, LAYER_MARK) != NULL;
}

void fy_row_name(const char *pattern, uint32_t layer, char out[FY_ROW_NAME_BYTES])
{
    const char *mark = strstr(pattern, LAYER_MARK);
    if (mark == NULL)
        snprintf(out, FY_ROW_NAME_BYTES, "%s", pattern);
    else
        snprintf(out, FY_ROW_NAME_BYTES, "%.*s%u%s", (int)(mark - pattern), pattern, layer,
                 mark + strlen(LAYER_MARK));
}

/* Does name match the pattern, with a plain decimal number in place of the mark? */
static bool match(const char *pattern, fy_span name, uint32_t *layer)
{
    const char *mark = strstr(pattern, LAYER_MARK);
    if (mark == NULL)
        return fy_span_is(name, pattern);
    size_t head = (size_t)(mark - pattern);
    const char *tail = mark + strlen(LAYER_MARK);
    size_t tail_len = strlen(tail);
    if (name.len <= head + tail_len || memcmp(name.ptr, pattern, head) != 0 ||
        memcmp(name.ptr + name.len - tail_len, tail, tail_len) != 0)
        return false;
    const char *digits = name.ptr + head;
    size_t n = name.len - head - tail_len;
    if (n > 9 || (n > 1 && digits[0] == '0'))
        return false;
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        v = v * 10 + (uint32_t)(digits[i] - '0');
    }
    *layer = v;
    return true;
}

const fy_tensor_row *fy_row_of_gguf(const fy_family *f, fy_span name, uint32_t *layer)
{
    *layer = 0;
    for (size_t i = 0; i < f->n_rows; i++) {
        if (match(f->rows[i].gguf, name, layer))
            return &f->rows[i];
    }
    return NULL;
}
