/* Reading config.json: which family the checkpoint is of, the hyperparameters that all families
 * share, the keys of one family and the values that have to be as its graph computes them, the
 * activation, and what says that weights are quantized. hf_rope.c reads windows and rotation. */
#include "convert/source/hf_config.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/opts.h"
#include "base/str.h"
#include "convert/source/config_value.h"

/* --- by name ---------------------------------------------------------------------------------- */

enum { STEM_BYTES = 64, MAX_STEMS = 256 };

/* "Qwen3ForCausalLM" -> "qwen3". False for names that no class has. */
static bool stem_of(const char *name, char out[STEM_BYTES])
{
    static const char *const ends[] = {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel",
                                       "Model", "_text"};
    size_t n = strlen(name);
    if (n == 0 || n >= STEM_BYTES)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t k = strlen(ends[i]);
        if (n > k && strcmp(name + n - k, ends[i]) == 0) {
            n -= k;
            break;
        }
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tolower((unsigned char)name[i]);
    out[n] = '\0';
    return true;
}

const fy_family *fy_family_near(const char *name)
{
    char stems[MAX_STEMS][STEM_BYTES], word[STEM_BYTES];
    const char *candidates[MAX_STEMS] = {NULL};
    const fy_family *of[MAX_STEMS];
    size_t n = 0;
    if (!stem_of(name, word))
        return NULL;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        const char *const *a = (*f)->hf_archs;
        for (const char *next = (*f)->name; next != NULL && n < MAX_STEMS; next = *a++) {
            if (!stem_of(next, stems[n]))
                continue;
            candidates[n] = stems[n];
            of[n++] = *f;
        }
    }
    const char *best = fy_nearest(word, candidates, n);
    for (size_t i = 0; i < n; i++) {
        if (candidates[i] == best)
            return of[i];
    }
    return NULL;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* A field without a row is a whole number that is in no GGUF file. */
static const fy_hparam_row *row_of(size_t field)
{
    static const fy_hparam_row none = {.kind = FY_HP_U32};
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        if (fy_hparam_rows[i].offset == field)
            return &fy_hparam_rows[i];
    }
    return &none;
}

static double apply(const fy_hparams *hp, fy_config_op op, double v)
{
    switch (op) {
    case FY_OP_INV_SQRT:
        return 1 / sqrt(v);
    case FY_OP_OVER_SQRT_LAYERS:
        return v / sqrt(hp->n_layer);
    case FY_OP_EMBD_OVER:
        return hp->n_embd / v;
    case FY_OP_TIMES_10000:
        return v * 10000;
    case FY_OP_GROUP_EPS:
        return 1e-5 * v * v;
    case FY_OP_TIMES_HEAD:
        return hp->wkv_head != 0 ? v * hp->wkv_head : v;
    case FY_OP_CODEGEN_GROUPS:
        return v == 128 || v == 256 ? 8 : 4;
    case FY_OP_ADD:
    case FY_OP_ONE_IF_TRUE:
    case FY_OP_FLAG:
    case FY_OP_ROUTER_IS_SOFTMAX:
    case FY_OP_LFM2_WIDTH:
    case FY_OP_SHARED_TWICE:
    case FY_OP_GLOBAL_HEADS:
    case FY_OP_SPARSITY:
    case FY_OP_SET:
        break;
    }
    return v;
}

/* 1 set, 0 absent or null. */
static bool read_value(const fy_cfg *s, const char *key, const fy_hparam_row *row, void *field)
{
    double d = 0;
    if (row->kind == FY_HP_BOOL)
        return fy_cfg_bool(s, key, field);
    if (row->kind == FY_HP_F32) {
        bool is_there = fy_cfg_double(s, key, &d);
        if (is_there)
            *(float *)field = (float)d;
        return is_there;
    }
    if (!fy_cfg_u32(s, key, field))
        return false;
    return *(const uint32_t *)field != 0 || (row->flags & FY_HP_MAY_BE_0) != 0 ||
           fy_cfg_bad(s, key, fy_cfg_value(s, key), "a positive integer");
}

static void set_f32(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key)
{
    double v = key->absent;
    if (!fy_cfg_double(s, key->key, &v) && key->absent == 0)
        return;
    double out = apply(&c->hp, key->op, v);
    if (!(v > 0) || !((float)out > 0) || !isfinite((float)out))
        fy_fail(s->e, FY_EFORMAT, "%s%s is %g; expected a positive number", s->prefix, key->key, v);
    *(float *)(void *)((char *)&c->hp + key->field) = (float)out;
}

static void set_u32(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key,
                    const fy_hparam_row *row)
{
    uint32_t v = (uint32_t)key->absent, *field = (void *)((char *)&c->hp + key->field);
    if (!read_value(s, key->key, row, &v) && key->absent == 0)
        return;
    const uint64_t sum = (uint64_t)*field + v;
    *field = key->op != FY_OP_ADD ? (uint32_t)apply(&c->hp, key->op, v)
             : sum < UINT32_MAX   ? (uint32_t)sum
                                  : UINT32_MAX; /* refused with all that is out of range */
}

static void set_by_flag(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key,
                        const fy_hparam_row *row)
{
    bool v = key->absent != 0;
    void *field = (char *)&c->hp + key->field;
    if (!fy_cfg_bool(s, key->key, &v) && key->absent == 0 && key->op != FY_OP_FLAG)
        return;
    if (key->op == FY_OP_ROUTER_IS_SOFTMAX)
        c->hp.gating = v ? FY_GATING_SOFTMAX : FY_GATING_SIGMOID;
    else if (row->kind == FY_HP_BOOL || key->op == FY_OP_FLAG)
        *(bool *)field = v;
    else if (v)
        *(uint32_t *)field = 1;
}

static void adjust_width(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key)
{
    bool on = key->absent != 0;
    uint32_t multiple = 256;
    fy_cfg_bool(s, key->key, &on);
    const double times = fy_cfg_positive(s, "block_ffn_dim_multiplier", 1);
    fy_cfg_u32(s, "block_multiple_of", &multiple);
    if (!on || s->e->code != FY_OK)
        return;
    const uint64_t third = (uint64_t)(2 * (double)c->hp.n_ff / 3);
    const double scaled = times * (double)third;
    if (multiple == 0 || !(scaled < INT32_MAX / 2) || multiple > INT32_MAX / 2) {
        fy_fail(s->e, FY_EFORMAT,
                "%sblock_multiple_of is %u and block_ffn_dim_multiplier %g: they give "
                "the feed-forward no width",
                s->prefix, multiple, times);
        return;
    }
    c->hp.n_ff = ((uint32_t)scaled + multiple - 1) / multiple * multiple;
}

/* Gemma 4: layers without keys and values of their own are twice as wide. */
static void widen_shared(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key)
{
    const fy_hparams was = c->hp;
    bool on = false;
    fy_cfg_bool(s, key->key, &on);
    if (!on || was.n_ff > INT32_MAX / 2 || was.n_layer > FY_N_LAYER_MAX ||
        was.n_kv_shared >= was.n_layer)
        return; /* what is out of range is refused with everything else */
    for (uint32_t i = was.n_layer - was.n_kv_shared; i < was.n_layer; i++)
        fy_put_width(&c->hp, i, 2 * was.n_ff);
}

/* Gemma 4: layers without the window have another number of keys and values. */
static void set_global_heads(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key)
{
    uint32_t n = c->hp.n_head_kv;
    if (!fy_cfg_u32(s, key->key, &n) || n == c->hp.n_head_kv)
        return;
    if (n == 0)
        fy_cfg_bad(s, key->key, fy_cfg_value(s, key->key), "a positive integer");
    c->hp.n_head_kv_swa = c->hp.n_head_kv;
    c->hp.n_head_kv = n;
}

/* The x below which a part p of a normal distribution lies, in f32 steps as torch takes them. */
static float normal_quantile(float p)
{
    const double at = (double)(2 * p - 1);
    double low = -6, high = 6;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        if (erf(middle) < at)
            low = middle;
        else
            high = middle;
    }
    return (float)low * 1.41421356F;
}

/* Gemma 3n: a share of the gates for each layer. Absent: 95 % in the first ten of more layers. */
static void read_sparsity(fy_hf_config *c, const fy_cfg *s, const char *key)
{
    const json_t *list = fy_cfg_list(s, key, c->hp.n_layer);
    for (uint32_t i = 0; i < c->hp.n_layer && i < FY_N_LAYER_MAX; i++) {
        const json_t *v = list != NULL ? json_array_get(list, i) : NULL;
        const double usual = c->hp.n_layer > 10 && i < 10 ? 0.95 : 0;
        const double p = list == NULL ? usual : json_is_number(v) ? json_number_value(v) : -1;
        const float scale = normal_quantile((float)p);
        if (!(p >= 0 && p < 1)) {
            fy_cfg_bad(s, key, v, "a list of shares from 0 to below 1");
            return;
        }
        if (p == 0)
            continue;
        if (fy_layers_count(&c->hp.sparse_layers) != 0 && scale != c->hp.act_sparsity) {
            fy_fail(s->e, FY_EUNSUPPORTED, "%s%s has more than one share besides 0", s->prefix,
                    key);
            return;
        }
        c->hp.act_sparsity = scale;
        fy_layer_put(&c->hp.sparse_layers, i, true);
    }
}

static void read_key(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key)
{
    const fy_hparam_row *row = row_of(key->field);
    if (key->op == FY_OP_LFM2_WIDTH) {
        adjust_width(c, s, key);
        return;
    }
    if (key->op == FY_OP_SPARSITY) {
        read_sparsity(c, s, key->key);
        return;
    }
    if (key->op == FY_OP_SHARED_TWICE) {
        widen_shared(c, s, key);
        return;
    }
    bool on = key->only_if == NULL;
    if (!on)
        fy_cfg_bool(s, key->only_if, &on);
    if (!on)
        return;
    if (key->op == FY_OP_GLOBAL_HEADS)
        set_global_heads(c, s, key);
    else if (row->kind == FY_HP_BOOL || key->op == FY_OP_FLAG || key->op == FY_OP_ONE_IF_TRUE ||
             key->op == FY_OP_ROUTER_IS_SOFTMAX)
        set_by_flag(c, s, key, row);
    else if (fy_cfg_is_null(s, key->key) && (row->flags & FY_HP_NULL_DERIVES) != 0)
        memset((char *)&c->hp + key->field, 0, sizeof(uint32_t));
    else if (row->kind == FY_HP_F32)
        set_f32(c, s, key);
    else
        set_u32(c, s, key, row);
}

/* --- rules ------------------------------------------------------------------------------------ */

static void broken(const fy_hf_config *c, const fy_cfg *s, const fy_config_rule *rule,
                   const json_t *found)
{
    char q[FY_QUOTE_BYTES];
    char *text = found != NULL ? json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (text != NULL && !json_is_number(found))
        fy_quote(q, sizeof q, fy_span_of(text));
    else
        snprintf(q, sizeof q, "%.15g", json_number_value(found));
    fy_fail(s->e, FY_EUNSUPPORTED, "%s%s is %s%s; ferry computes %s models with %s only", s->prefix,
            rule->key, found == NULL ? "absent, which means " : "",
            found == NULL ? rule->absent : q, c->family->name, rule->must);
    free(text);
}

/* null is not the text, number or true that a rule asks for; otherwise it counts as absent unless
 * the rule speaks of it. */
static void check_rule(const fy_hf_config *c, const fy_cfg *s, const fy_config_rule *rule)
{
    json_t *must = fy_json_tree(rule->must, strlen(rule->must), s->e);
    const json_t *v = fy_cfg_value(s, rule->key);
    if (fy_cfg_is_null(s, rule->key) &&
        (json_is_null(must) || json_is_true(must) || json_is_string(must) || json_is_number(must)))
        v = json_null();
    if (strcmp(rule->key, "use_bidirectional_attention") == 0 && json_is_string(v) &&
        strcmp(json_string_value(v), "vision") == 0)
        v = NULL; /* between the tokens of a picture: text is causal */
    bool holds = json_is_number(v) && json_is_number(must)
                     ? json_number_value(v) == json_number_value(must) /* 1 is 1.0 */
                 : v != NULL ? json_equal(v, must)
                             : rule->absent == NULL || strcmp(rule->absent, rule->must) == 0;
    json_decref(must);
    if (!holds)
        broken(c, s, rule, v);
}

static void read_keys(fy_hf_config *c, const fy_cfg *s)
{
    /* transformers 5 has it for every class. */
    static const fy_config_rule causal = {"is_causal", "true", NULL};
    check_rule(c, s, &causal);
    for (size_t i = 0; i < c->family->n_keys; i++)
        read_key(c, s, &c->family->keys[i]);
    for (size_t i = 0; i < c->family->n_rules; i++)
        check_rule(c, s, &c->family->rules[i]);
}

/* --- activation ------------------------------------------------------------------------------- */

static bool is_gated(const fy_family *f)
{
    for (size_t i = 0; i < f->n_rows; i++) {
        fy_slot s = f->rows[i].slot;
        if (s == FY_T_FFN_GATE || s == FY_T_FFN_GATE_UP || s == FY_T_FFN_GATE_EXPS)
            return true;
    }
    return false;
}

static void read_threshold(fy_hf_config *c, const fy_cfg *s)
{
    double v = 0;
    if (!fy_cfg_double(s, "hidden_act_param", &v))
        fy_fail(s->e, FY_EFORMAT,
                "%shidden_act_param is missing; fatrelu needs the threshold that it gives",
                s->prefix);
    if (!(v >= 0) || !isfinite((float)v))
        fy_fail(s->e, FY_EFORMAT, "%shidden_act_param is %g; expected a threshold of 0 or more",
                s->prefix, v);
    c->hp.act_threshold = (float)v;
    if (c->hp.act_threshold == 0)
        c->hp.act = FY_ACT_RELU; /* the same function */
}

/* The first of the keys that is there, as GemmaMLP of transformers 4.57 has it. */
static void find_activation(const fy_cfg *s, const char **key, const char **name)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function",
                                       "activation", "mlp_hidden_act"};
    *key = *name = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *found;
        char q[FY_QUOTE_BYTES], q2[FY_QUOTE_BYTES];
        if (!fy_cfg_string(s, keys[i], &found))
            continue;
        if (*key == NULL) {
            *key = keys[i];
            *name = found;
        } else if (strcmp(*name, found) != 0) {
            fy_log(FY_LOG_WARN, "%s%s is '%s', but %s is '%s'; %s counts", s->prefix, *key,
                   fy_quote(q, sizeof q, fy_span_of(*name)), keys[i],
                   fy_quote(q2, sizeof q2, fy_span_of(found)), *key);
        }
    }
}

static void read_activation(fy_hf_config *c, const fy_cfg *s)
{
    const fy_family *f = c->family;
    const char *key, *name;
    char q[FY_QUOTE_BYTES] = "";
    if (fy_row_of_slot(f, FY_T_MIX_OUT) != NULL)
        return; /* RWKV has one, which no key chooses */
    find_activation(s, &key, &name);
    if (key != NULL) {
        c->hp.act = fy_act_of(fy_span_of(name));
        fy_quote(q, sizeof q, fy_span_of(name));
    }
    if (c->hp.act >= FY_ACT_COUNT)
        fy_fail(s->e, FY_EUNSUPPORTED,
                "%s%s is '%s'; ferry computes silu, gelu, gelu_tanh, relu and fatrelu", s->prefix,
                key, q);
    if (c->hp.act == FY_ACT_SILU && f->defaults.act == FY_ACT_SWIGLU_OAI)
        c->hp.act = FY_ACT_SWIGLU_OAI; /* the class clamps whatever the key says */
    if (c->hp.act == FY_ACT_RELU && f->defaults.act == FY_ACT_DRELU)
        c->hp.act = FY_ACT_DRELU; /* what a class of dReLU calls relu */
    if (c->hp.act == FY_ACT_GELU && f->sqrt_embedding && key != NULL &&
        strcmp(key, "hidden_act") == 0)
        c->hp.act = FY_ACT_GELU_TANH; /* the first Gemma configs say gelu, and mean the other */
    const bool mixed = f->ssm_place != FY_SSM_NONE && f->ssm_place != FY_SSM_ALONE;
    if (mixed && c->hp.act != FY_ACT_SILU)
        fy_fail(s->e, FY_EUNSUPPORTED,
                "%s%s is '%s', also in the mixers of a %s model; ferry computes them with silu",
                s->prefix, key, q, f->name);
    if (!is_gated(f) && (c->hp.act == FY_ACT_SILU || c->hp.act == FY_ACT_DRELU))
        fy_fail(s->e, FY_EUNSUPPORTED,
                "%s%s is '%s'; the feed-forward of a %s model has no gate, and ferry "
                "computes it with gelu, gelu_tanh, relu or fatrelu",
                s->prefix, key != NULL ? key : "hidden_act",
                key != NULL ? q : fy_act_name(c->hp.act), f->name);
    if (c->hp.act == FY_ACT_FATRELU)
        read_threshold(c, s);
}

/* --- family ----------------------------------------------------------------------------------- */

/* A multi-modal checkpoint keeps the keys of its text model in an object of their own. */
static fy_cfg find_text(const fy_cfg *root)
{
    static const char *const keys[] = {"text_config", "llm_config", "language_config"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        fy_cfg text = fy_cfg_below(root, keys[i]);
        if (text.obj != NULL)
            return text;
    }
    return *root;
}

/* architectures[0], or NULL when there is none. */
static const char *read_class(const fy_cfg *s)
{
    const json_t *list = fy_cfg_value(s, "architectures");
    const json_t *first = json_array_get(list, 0);
    if (list != NULL && (!json_is_array(list) || (first != NULL && !json_is_string(first))))
        fy_cfg_bad(s, "architectures", list, "a list of class names");
    return json_string_value(first);
}

static const fy_family *family_of_type(const char *type)
{
    static const char end[] = "_text"; /* gemma3_text */
    size_t n = strlen(type), k = sizeof end - 1;
    if (n > k && strcmp(type + n - k, end) == 0)
        n -= k;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (strcmp((*f)->name, type) == 0 || fy_span_is((fy_span){type, n}, (*f)->name))
            return *f;
    }
    return NULL;
}

/* What a configuration says it is: *what and *name, which is NULL when it says nothing. */
static const fy_family *find_in(const fy_cfg *s, const char **what, const char **name)
{
    *what = "architecture";
    *name = read_class(s);
    if (*name != NULL)
        return fy_family_of_hf(fy_span_of(*name));
    *what = "model_type";
    return fy_cfg_string(s, "model_type", name) ? family_of_type(*name) : NULL;
}

/* The class of the checkpoint, else that of its text model: a wrapper we do not know around a model
 * that we do. NULL on failure. */
static const fy_family *find_family(const fy_cfg *root, const fy_cfg *text)
{
    const char *what, *name, *inner_name, *inner_what;
    char q[FY_QUOTE_BYTES];
    const fy_family *f = find_in(root, &what, &name);
    if (f == NULL && text->obj != root->obj)
        f = find_in(text, &inner_what, &inner_name);
    if (f != NULL)
        f = fy_hf_variant(f, text);
    if (f != NULL || root->e->code != FY_OK)
        return root->e->code == FY_OK ? f : NULL;
    if (name == NULL) {
        fy_fail(root->e, FY_EFORMAT,
                "neither architectures nor model_type says what model this is");
        return NULL;
    }
    const fy_family *near = fy_family_near(name);
    fy_fail(root->e, FY_EUNSUPPORTED,
            "%s '%s' is not a family that ferry knows%s%s ('ferry convert --list-archs' lists %s)",
            what, fy_quote(q, sizeof q, fy_span_of(name)),
            near != NULL ? "; the nearest name is " : "", near != NULL ? near->hf_archs[0] : "",
            near != NULL ? "all" : "them");
    return NULL;
}

/* --- plain keys ------------------------------------------------------------------------------- */

/* A number for each layer. */
static void read_widths(const fy_cfg *s, const char *key, fy_hparams *hp)
{
    const json_t *list = fy_cfg_list(s, key, hp->n_layer);
    for (uint32_t i = 0; list != NULL && i < hp->n_layer && i < FY_N_LAYER_MAX; i++) {
        const json_t *v = json_array_get(list, i);
        const double n = json_is_number(v) ? json_number_value(v) : 0;
        if (!(n >= 1 && n <= INT32_MAX) || n != floor(n)) {
            fy_cfg_bad(s, key, v, "a list of positive integers");
            return;
        }
        if (!fy_put_width(hp, i, (uint32_t)n)) {
            fy_fail(s->e, FY_EUNSUPPORTED, "%s%s has more than %d different widths", s->prefix, key,
                    FY_FF_WIDTHS + 1);
            return;
        }
    }
}

static void read_field(const fy_cfg *s, const fy_hparam_row *row, fy_hparams *hp)
{
    void *field = (char *)hp + row->offset;
    for (const char *const *key = row->hf; *key != NULL; key++) {
        if (row->kind == FY_HP_FF && json_is_array(fy_cfg_value(s, *key))) {
            read_widths(s, *key, hp);
            return;
        }
        if (fy_cfg_is_null(s, *key) && (row->flags & FY_HP_NULL_DERIVES) != 0) {
            memset(field, 0, sizeof(uint32_t));
            return;
        }
        if (read_value(s, *key, row, field))
            return;
    }
}

static bool is_plain(const fy_family *f, const fy_hparam_row *row)
{
    const bool number = row->kind == FY_HP_U32 || row->kind == FY_HP_F32 ||
                        row->kind == FY_HP_BOOL || row->kind == FY_HP_KV_HEADS ||
                        row->kind == FY_HP_FF;
    return row->hf != NULL && number && fy_hp_applies(row, f);
}

/* tie_word_embeddings of a multi-modal checkpoint may stand at the top only. */
static void read_plain(fy_hf_config *c, const fy_cfg *root, const fy_cfg *s)
{
    c->hp = c->family->defaults;
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        if (is_plain(c->family, row))
            read_field(s, row, &c->hp);
    }
    c->tied = c->family->tied_default;
    static const char key[] = "tie_word_embeddings"; /* null leaves it to the outer object */
    fy_cfg_bool(s, "tie_embedding", &c->tied);       /* as LFM2 spells it */
    if ((fy_cfg_is_null(s, key) || !fy_cfg_bool(s, key, &c->tied)) && !fy_cfg_is_null(root, key))
        fy_cfg_bool(root, key, &c->tied);
}

/* What has to be known before anything is divided by it. */
static int check_required(fy_hf_config *c, const fy_cfg *s)
{
    if (c->hp.n_ff == 0 && c->hp.n_embd <= INT32_MAX / 4)
        c->hp.n_ff = 4 * c->hp.n_embd; /* what the classes that know null make of it */
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        const char *field = (const char *)&c->hp + row->offset;
        if (is_plain(c->family, row) && (row->kind == FY_HP_U32 || row->kind == FY_HP_FF) &&
            (row->flags & (FY_HP_REQUIRED | FY_HP_MAY_BE_0)) == FY_HP_REQUIRED &&
            *(const uint32_t *)(const void *)field == 0)
            return fy_fail(s->e, FY_EFORMAT, "%s%s is missing; a %s model has no default for it",
                           s->prefix, row->hf[0], c->family->name);
    }
    if (c->hp.n_qkv_groups != 0 && c->hp.n_head % c->hp.n_qkv_groups != 0)
        return fy_fail(s->e, FY_EFORMAT,
                       "%snum_attention_heads %u do not divide into the %u groups that a %s model "
                       "has",
                       s->prefix, c->hp.n_head, c->hp.n_qkv_groups, c->family->name);
    if (c->hp.head_dim == 0 && c->hp.n_head != 0 && c->hp.n_embd % c->hp.n_head != 0)
        return fy_fail(s->e, FY_EFORMAT,
                       "%shidden_size %u is not a multiple of num_attention_heads %u, and head_dim "
                       "is not given",
                       s->prefix, c->hp.n_embd, c->hp.n_head);
    return 0;
}

/* FP8 as DeepSeek and Qwen publish it; other formats of the same name are not E4M3. */
static void read_fp8(fy_hf_config *c, const fy_cfg *fp8)
{
    const char *fmt = "e4m3";
    fy_cfg_string(fp8, "fmt", &fmt);
    if (strcmp(fmt, "e4m3") != 0)
        fy_fail(fp8->e, FY_EUNSUPPORTED, "%sfmt is '%s'; ferry reads FP8 as e4m3 only", fp8->prefix,
                fmt);
    c->fp8 = true;
    c->fp8_block[0] = c->fp8_block[1] = 128;
    const json_t *block = fy_cfg_list(fp8, "weight_block_size", 2);
    for (size_t i = 0; block != NULL && i < 2; i++) {
        double n = json_number_value(json_array_get(block, i));
        if (!(n >= 1) || n > 65536 || n != (double)(uint32_t)n)
            fy_cfg_bad(fp8, "weight_block_size", block, "two sizes of a block");
        else
            c->fp8_block[i] = (uint32_t)n;
    }
}

/* Checkpoints whose tensors are not plain weights. */
static void check_quantized(fy_hf_config *c, const fy_cfg *s)
{
    static const char *const keys[] = {"quantization_config", "quantization"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char text[FY_QUOTE_BYTES];
        fy_cfg q = fy_cfg_below(s, keys[i]);
        const char *method = json_string_value(json_object_get(q.obj, "quant_method"));
        if (method != NULL && strcmp(method, "fp8") == 0)
            read_fp8(c, &q);
        else if (method != NULL && strcmp(method, "mxfp4") == 0)
            c->mxfp4 = true;
        else if (json_object_size(q.obj) > 0)
            fy_fail(s->e, FY_EUNSUPPORTED,
                    "the checkpoint is quantized already (%s%s: %s); ferry converts the "
                    "original f32, f16, bf16, FP8 or MXFP4 checkpoint",
                    s->prefix, keys[i],
                    fy_quote(text, sizeof text, fy_span_of(method != NULL ? method : "?")));
    }
}

static void check_row_flags(const fy_hf_config *c, const fy_cfg *s)
{
    for (size_t i = 0; i < c->family->n_rows; i++) {
        bool flag;
        if (c->family->rows[i].required_by != NULL)
            fy_cfg_bool(s, c->family->rows[i].required_by, &flag);
    }
}

/* --- the file --------------------------------------------------------------------------------- */

static int read_all(fy_hf_config *c, fy_err *e)
{
    fy_cfg root = fy_cfg_of(c->root, e), text = find_text(&root);
    c->text = text.obj;
    c->nested = text.obj != root.obj;
    c->family = find_family(&root, &text);
    if (c->family == NULL)
        return -1;
    check_quantized(c, &root);
    if (c->nested)
        check_quantized(c, &text);
    read_plain(c, &root, &text);
    fy_hf_count_layers(c, &text);
    read_keys(c, &text);
    if (check_required(c, &text) || e->code != FY_OK)
        return -1;
    check_row_flags(c, &text);
    read_activation(c, &text);
    fy_hf_read_layers(c, &text);
    fy_hf_read_overrides(c, &text);
    fy_hf_read_mamba(c, &text);
    fy_hf_read_delta(c, &text);
    fy_hf_read_rope(c, &text);
    if (e->code != FY_OK)
        return -1;
    fy_hparams_derive(&c->hp, c->family);
    return fy_hparams_check(&c->hp, c->family, e) || fy_hf_check_ramp(&c->hp, e) ? -1 : 0;
}

/* Takes the tree; NULL: the text was none, which is recorded. */
static int read_tree(fy_hf_config *c, json_t *root, const char *name, fy_err *e)
{
    fy_err own = {0};
    *c = (fy_hf_config){.root = root, .text = root};
    if (root == NULL)
        return -1;
    return read_all(c, &own) ? fy_fail(e, own.code, "%s: %s", name, own.msg) : 0;
}

int fy_hf_config_parse(fy_hf_config *c, const void *p, size_t n, const char *name, fy_err *e)
{
    json_t *root = fy_cfg_tree(p, n, name, e);
    if (root == NULL)
        fy_ctx(e, "%s", name);
    return read_tree(c, root, name, e);
}

int fy_hf_config_open(fy_hf_config *c, const char *path, fy_err *e)
{
    *c = (fy_hf_config){0};
    if (fy_file_exists(path) && !fy_file_is_dir(path))
        return read_tree(c, fy_cfg_tree_of(path, e), path, e);
    char *file = fy_path_join(path, "config.json");
    if (file == NULL)
        return fy_nomem(e);
    int rc = fy_file_exists(file) ? read_tree(c, fy_cfg_tree_of(file, e), file, e)
                                  : fy_fail(e, FY_EIO,
                                            "%s: no config.json in it, so it is not a Hugging Face "
                                            "checkpoint, or not all of one",
                                            path);
    free(file);
    return rc;
}

void fy_hf_config_release(fy_hf_config *c)
{
    free(c->long_factors);
    free(c->short_factors);
    json_decref(c->root);
    *c = (fy_hf_config){0};
}

bool fy_hf_config_flag(const fy_hf_config *c, const char *key)
{
    const json_t *v = json_object_get(c->text, key);
    if (v != NULL)
        return json_is_true(v);
    for (const char *const *on = c->family->flags_on; on != NULL && *on != NULL; on++) {
        if (strcmp(*on, key) == 0)
            return true;
    }
    return false;
}

const char *fy_hf_config_class(const fy_hf_config *c)
{
    const json_t *const objects[] = {c->root, c->text};
    for (size_t i = 0; i < 2; i++) {
        const char *name =
            json_string_value(json_array_get(json_object_get(objects[i], "architectures"), 0));
        if (name == NULL)
            name = json_string_value(json_object_get(objects[i], "model_type"));
        if (name != NULL)
            return name;
    }
    return "";
}
