/* config.json: the keys that one family has beyond those that all share, the values that have to be
 * as its graph computes them, and the activation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "convert/source/hf_config_impl.h"
#include "base/json_tree.h"

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
    case FY_OP_CODEGEN_GROUPS:
        return v == 128 || v == 256 ? 8 : 4;
    case FY_OP_ONE_IF_TRUE:
    case FY_OP_FLAG:
    case FY_OP_ROUTER_IS_SOFTMAX:
    case FY_OP_SET:
        break;
    }
    return v;
}

static int set_f32(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key, fy_err *e)
{
    double v = key->absent;
    int rc = fy_cfg_double(s, key->key, &v, e);
    if (rc < 0 || (rc == 1 && key->absent == 0))
        return rc < 0 ? -1 : 0;
    double out = apply(&c->hp, key->op, v);
    if (!(v > 0) || !((float)out > 0) || !isfinite((float)out))
        return fy_fail(e, FY_EFORMAT, "%s%s is %g; expected a positive number", s->prefix, key->key,
                       v);
    *(float *)(void *)((char *)&c->hp + key->field) = (float)out;
    return 0;
}

static int set_u32(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key,
                   const fy_hparam_row *row, fy_err *e)
{
    uint32_t v = (uint32_t)key->absent;
    int rc = fy_cfg_u32(s, key->key, &v, e);
    if (rc < 0 || (rc == 1 && key->absent == 0))
        return rc < 0 ? -1 : 0;
    if (v == 0 && (row->flags & FY_HP_MAY_BE_0) == 0)
        return fy_fail(e, FY_EFORMAT, "%s%s is 0; expected a positive integer", s->prefix,
                       key->key);
    *(uint32_t *)(void *)((char *)&c->hp + key->field) = (uint32_t)apply(&c->hp, key->op, v);
    return 0;
}

static int set_by_flag(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key,
                       const fy_hparam_row *row, fy_err *e)
{
    bool v = key->absent != 0;
    void *field = (char *)&c->hp + key->field;
    int rc = fy_cfg_bool(s, key->key, &v, e);
    if (rc < 0 || (rc == 1 && key->absent == 0 && key->op != FY_OP_FLAG))
        return rc < 0 ? -1 : 0;
    if (key->op == FY_OP_ROUTER_IS_SOFTMAX)
        c->hp.gating = v ? FY_GATING_SOFTMAX : FY_GATING_SIGMOID;
    else if (row->kind == FY_HP_BOOL)
        *(bool *)field = v;
    else if (v)
        *(uint32_t *)field = 1;
    return 0;
}

static int read_key(fy_hf_config *c, const fy_cfg *s, const fy_config_key *key, fy_err *e)
{
    bool on = true;
    if (key->only_if != NULL) {
        on = false;
        if (fy_cfg_bool(s, key->only_if, &on, e) < 0)
            return -1;
    }
    if (!on)
        return 0;
    const fy_hparam_row *row = row_of(key->field);
    if (row->kind == FY_HP_BOOL || key->op == FY_OP_ONE_IF_TRUE ||
        key->op == FY_OP_ROUTER_IS_SOFTMAX)
        return set_by_flag(c, s, key, row, e);
    if (fy_cfg_is_null(s, key->key) && (row->flags & FY_HP_NULL_DERIVES) != 0) {
        memset((char *)&c->hp + key->field, 0, sizeof(uint32_t));
        return 0;
    }
    return row->kind == FY_HP_F32 ? set_f32(c, s, key, e) : set_u32(c, s, key, row, e);
}

/* --- rules ------------------------------------------------------------------------------------ */

static int broken(const fy_hf_config *c, const fy_cfg *s, const fy_config_rule *rule,
                  const json_t *found, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    char *text = found != NULL ? json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (text != NULL && !json_is_number(found))
        fy_quote(q, sizeof q, fy_span_of(text));
    else
        snprintf(q, sizeof q, "%.15g", json_number_value(found));
    if (found == NULL)
        fy_fail(e, FY_EUNSUPPORTED,
                "%s%s is absent, which means %s; ferry computes %s models with "
                "%s only",
                s->prefix, rule->key, rule->absent, c->family->name, rule->must);
    else
        fy_fail(e, FY_EUNSUPPORTED, "%s%s is %s; ferry computes %s models with %s only", s->prefix,
                rule->key, q, c->family->name, rule->must);
    free(text);
    return -1;
}

/* null is not the text or the true that a rule asks for; otherwise it counts as absent unless the
 * rule speaks of it. */
static int check_rule(const fy_hf_config *c, const fy_cfg *s, const fy_config_rule *rule, fy_err *e)
{
    json_t *must = fy_json_tree(rule->must, strlen(rule->must), e);
    if (must == NULL)
        return -1;
    const json_t *v = fy_cfg_value(s, rule->key);
    const json_t *null = fy_cfg_is_null(s, rule->key) ? json_null() : NULL;
    if (null != NULL && (json_is_null(must) || json_is_true(must) || json_is_string(must)))
        v = null;
    bool holds = v != NULL ? json_equal(v, must)
                           : rule->absent == NULL || strcmp(rule->absent, rule->must) == 0;
    json_decref(must);
    return holds ? 0 : broken(c, s, rule, v, e);
}

int fy_hf_read_keys(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    /* transformers 5 has it for every class. */
    static const fy_config_rule causal = {"is_causal", "true", NULL};
    if (check_rule(c, s, &causal, e))
        return -1;
    for (size_t i = 0; i < c->family->n_keys; i++) {
        if (read_key(c, s, &c->family->keys[i], e))
            return -1;
    }
    for (size_t i = 0; i < c->family->n_rules; i++) {
        if (check_rule(c, s, &c->family->rules[i], e))
            return -1;
    }
    return 0;
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

static int read_threshold(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    double v = 0;
    int rc = fy_cfg_double(s, "hidden_act_param", &v, e);
    if (rc < 0)
        return -1;
    if (rc == 1)
        return fy_fail(e, FY_EFORMAT,
                       "%shidden_act_param is missing; fatrelu needs the threshold that it gives",
                       s->prefix);
    if (!(v >= 0) || !isfinite((float)v))
        return fy_fail(e, FY_EFORMAT, "%shidden_act_param is %g; expected a threshold of 0 or more",
                       s->prefix, v);
    c->hp.act_threshold = (float)v;
    if (c->hp.act_threshold == 0)
        c->hp.act = FY_ACT_RELU; /* the same function */
    return 0;
}

/* The first of the keys that is there, as GemmaMLP of transformers 4.57 has it. */
static int find_activation(const fy_cfg *s, const char **key, const char **name, fy_err *e)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function",
                                       "activation"};
    *key = *name = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *found;
        char q[FY_QUOTE_BYTES], q2[FY_QUOTE_BYTES];
        int rc = fy_cfg_string(s, keys[i], &found, e);
        if (rc < 0)
            return -1;
        if (rc == 0 && *key == NULL) {
            *key = keys[i];
            *name = found;
        } else if (rc == 0 && strcmp(*name, found) != 0) {
            fy_log(FY_LOG_WARN, "%s%s is '%s', but %s is '%s'; %s counts", s->prefix, *key,
                   fy_quote(q, sizeof q, fy_span_of(*name)), keys[i],
                   fy_quote(q2, sizeof q2, fy_span_of(found)), *key);
        }
    }
    return 0;
}

int fy_hf_read_activation(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    const fy_family *f = c->family;
    const char *key, *name;
    char q[FY_QUOTE_BYTES];
    if (find_activation(s, &key, &name, e))
        return -1;
    if (key != NULL) {
        c->hp.act = fy_act_of(fy_span_of(name));
        if (c->hp.act >= FY_ACT_COUNT)
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s%s is '%s'; ferry computes silu, gelu, gelu_tanh, relu and fatrelu",
                           s->prefix, key, fy_quote(q, sizeof q, fy_span_of(name)));
    }
    if (c->hp.act == FY_ACT_RELU && f->defaults.act == FY_ACT_DRELU)
        c->hp.act = FY_ACT_DRELU; /* what a class of dReLU calls relu */
    if (c->hp.act == FY_ACT_GELU && f->sqrt_embedding && key != NULL &&
        strcmp(key, "hidden_act") == 0)
        c->hp.act = FY_ACT_GELU_TANH; /* the first Gemma configs say gelu, and mean the other */
    if (!is_gated(f) && (c->hp.act == FY_ACT_SILU || c->hp.act == FY_ACT_DRELU))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s%s is '%s'; the feed-forward of a %s model has no gate, and ferry "
                       "computes it with gelu, gelu_tanh, relu or fatrelu",
                       s->prefix, key != NULL ? key : "hidden_act",
                       key != NULL ? fy_quote(q, sizeof q, fy_span_of(name))
                                   : fy_act_name(c->hp.act),
                       f->name);
    return c->hp.act == FY_ACT_FATRELU ? read_threshold(c, s, e) : 0;
}
