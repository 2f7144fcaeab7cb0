/* config.json: which layers have the sliding window, which rotate, and how. transformers 4 writes
 * rope_theta and rope_scaling, 5 writes rope_parameters, which may hold one object for each type of
 * layer. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "convert/source/config_value.h"

/* --- the window ------------------------------------------------------------------------------- */

/* What it is called, and whether the class knows it at all. */
static const char *const *window_keys(const fy_family *f)
{
    static const char *const usual[] = {"sliding_window", NULL};
    static const char *const none[] = {NULL};
    return f->window_keys != NULL ? f->window_keys : f->defaults.n_swa != 0 ? usual : none;
}

/* Each reads one way to say which layers are full: 0 set, 1 the key is not there, -1. */
static int from_types(const fy_cfg *s, uint32_t n_layer, fy_layer_set *full, fy_err *e)
{
    const json_t *types = fy_cfg_value(s, "layer_types");
    if (types == NULL)
        return 1;
    if (!json_is_array(types) || json_array_size(types) != n_layer)
        return fy_cfg_bad(s, "layer_types", types, "a list with one entry per layer", e);
    for (uint32_t i = 0; i < n_layer; i++) {
        const char *t = json_string_value(json_array_get(types, i));
        if (t == NULL || (strcmp(t, "sliding_attention") != 0 && strcmp(t, "full_attention") != 0))
            return fy_cfg_bad(s, "layer_types", json_array_get(types, i),
                              "sliding_attention or full_attention", e);
        fy_layer_put(full, i, t[0] == 'f');
    }
    return 0;
}

/* A list of 0 and 1, or of false and true, one per layer: the layers with `member` are in the set.
 */
static int from_bits(const fy_cfg *s, const char *key, uint32_t n_layer, int member,
                     fy_layer_set *set, fy_err *e)
{
    const json_t *list;
    int rc = fy_cfg_list(s, key, n_layer, &list, e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < n_layer; i++) {
        const json_t *v = json_array_get(list, i);
        double d = json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
        if ((!json_is_boolean(v) && !json_is_number(v)) || (d != 0 && d != 1))
            return fy_cfg_bad(s, key, v, "a list of 0 and 1", e);
        fy_layer_put(set, i, (int)d == member);
    }
    return 0;
}

/* Every n-th layer, the last of each group: 0 set, 1, -1. */
static int from_period(const fy_cfg *s, const char *key, uint32_t n_layer, fy_layer_set *set,
                       fy_err *e)
{
    uint32_t period = 0;
    int rc = fy_cfg_u32(s, key, &period, e);
    if (rc != 0)
        return rc;
    if (period == 0)
        return fy_fail(e, FY_EFORMAT, "%s%s is 0; expected a positive integer", s->prefix, key);
    *set = fy_layers_of((fy_layer_pattern){.period = period}, n_layer);
    return 0;
}

/* Classes that switch the window by a flag keep it off the first max_window_layers (28) layers. */
static int from_first(const fy_cfg *s, uint32_t n_layer, fy_layer_set *full, fy_err *e)
{
    uint32_t n = 28;
    if (fy_cfg_u32(s, "max_window_layers", &n, e) < 0)
        return -1;
    for (uint32_t i = 0; i < n_layer && i < n; i++)
        fy_layer_put(full, i, true);
    return 0;
}

static int read_nope(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    const fy_family *f = c->family;
    uint32_t n = c->hp.n_layer;
    fy_layer_set *nope = &c->hp.nope_layers;
    *nope = (fy_layer_set){0};
    if (f->no_rope.period == 0)
        return 0;
    int rc = from_bits(s, "no_rope_layers", n, 0, nope, e);
    if (rc == 1)
        rc = from_bits(s, "rope_layout", n, 0, nope, e);
    if (rc == 1)
        rc = from_period(s, "no_rope_layer_interval", n, nope, e);
    if (rc == 1 && (c->hp.n_swa != 0 || !f->nope_follows_swa))
        *nope = fy_layers_of(f->no_rope, n);
    return rc < 0 ? -1 : 0;
}

/* Classes whose layers do not all rotate (SmolLM3) give the window to those that do not. */
static int from_unrotated(fy_hf_config *c, const fy_cfg *s, fy_layer_set *full, fy_err *e)
{
    if (read_nope(c, s, e))
        return -1;
    for (uint32_t i = 0; i < c->hp.n_layer; i++)
        fy_layer_put(full, i, !fy_layer_in(&c->hp.nope_layers, i));
    return 0;
}

static int read_full_layers(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    const fy_family *f = c->family;
    uint32_t n = c->hp.n_layer;
    fy_layer_set *full = &c->hp.full_layers;
    int rc = from_types(s, n, full, e);
    if (rc == 1 && window_keys(f)[0] != NULL)
        rc = from_bits(s, "sliding_window_layout", n, 0, full, e);
    if (rc == 1 && f->full_attention.period != 0)
        rc = from_period(s, "_sliding_window_pattern", n, full, e);
    if (rc == 1 && f->full_attention.period != 0)
        rc = from_period(s, "sliding_window_pattern", n, full, e);
    if (rc == 1 && f->window_flag != NULL)
        return f->no_rope.period != 0 ? from_unrotated(c, s, full, e) : from_first(s, n, full, e);
    if (rc == 1)
        *full = fy_layers_of(f->full_attention, n);
    return rc < 0 ? -1 : 0;
}

/* *given: the key that says how wide it is; NULL when none is there. */
static int read_width(fy_hf_config *c, const fy_cfg *s, const char **given, fy_err *e)
{
    *given = NULL;
    for (const char *const *key = window_keys(c->family); *key != NULL; key++) {
        if (fy_cfg_is_null(s, *key)) {
            c->hp.n_swa = 0;
            return 0;
        }
        int rc = fy_cfg_u32(s, *key, &c->hp.n_swa, e);
        if (rc == 0)
            *given = *key;
        if (rc <= 0)
            return rc;
    }
    return 0;
}

static int read_window(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    const fy_family *f = c->family;
    const char *given;
    bool on = f->window_flag == NULL;
    if (f->window_flag != NULL && fy_cfg_bool(s, f->window_flag, &on, e) < 0)
        return -1;
    if (read_width(c, s, &given, e) || read_full_layers(c, s, e))
        return -1;
    uint32_t n_full = fy_layers_count(&c->hp.full_layers);
    if (on && n_full < c->hp.n_layer && c->hp.n_swa == 0 && given != NULL)
        return fy_fail(e, FY_EFORMAT, "%s%s is 0; expected a positive integer or null", s->prefix,
                       given);
    if (!on && n_full < c->hp.n_layer && c->hp.n_swa != 0 && fy_cfg_value(s, "layer_types") != NULL)
        return fy_fail(e, FY_EFORMAT, "%s%s is not true, but layer_types has sliding_attention",
                       s->prefix, f->window_flag);
    if (!on || n_full == c->hp.n_layer)
        c->hp.n_swa = 0;
    if (c->hp.n_swa == 0)
        c->hp.full_layers = (fy_layer_set){0};
    return 0;
}

int fy_hf_read_layers(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    if (c->hp.n_layer > FY_N_LAYER_MAX)
        return 0; /* refused with everything else that is out of range */
    return read_window(c, s, e) || read_nope(c, s, e) ? -1 : 0;
}

/* --- rotation --------------------------------------------------------------------------------- */

#define FULL    "full_attention"
#define SLIDING "sliding_attention"

/* Where things are. Scopes without an object hold nothing. */
typedef struct {
    const fy_cfg *top;
    fy_cfg main;  /* scaling, or all parameters, of the layers without a window or of all */
    fy_cfg local; /* of the layers with the window */
} places;

/* Every key that may stand in rope_scaling or rope_parameters. One that belongs to another type is
 * ignored, as transformers does; one that is not here may change the arithmetic and is refused. */
static int check_rope_keys(const fy_cfg *s, fy_err *e)
{
    static const char *const known[] = {
        "type",
        "rope_type",
        "rope_theta",
        "partial_rotary_factor",
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "finetuned",
        "low_freq_factor",
        "high_freq_factor",
        "long_factor",
        "short_factor",
    };
    const char *key;
    char q[FY_QUOTE_BYTES];
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)s->obj, key, v)
    {
        bool found = json_is_null(v);
        for (size_t i = 0; i < sizeof known / sizeof known[0] && !found; i++)
            found = strcmp(known[i], key) == 0;
        if (!found && json_is_object(v))
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s%s: ferry does not compute another rotation for these layers",
                           s->prefix, fy_quote(q, sizeof q, fy_span_of(key)));
        if (!found)
            return fy_fail(e, FY_EUNSUPPORTED, "%s%s: ferry does not know this key", s->prefix,
                           fy_quote(q, sizeof q, fy_span_of(key)));
    }
    return 0;
}

/* --- theta and the rotated part --------------------------------------------------------------- */

/* The first of the places that has the number; 1: none. */
static int sought(const fy_cfg *const *where, const char *const *keys, size_t n, double *out,
                  const char **prefix, const char **key, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        *prefix = where[i]->prefix;
        *key = keys[i];
        int rc = fy_cfg_double(where[i], keys[i], out, e);
        if (rc != 1)
            return rc;
    }
    return 1;
}

static int check_theta(const char *prefix, const char *key, double theta, fy_err *e)
{
    if ((float)theta >= 1 && isfinite((float)theta))
        return 0;
    return fy_fail(e, FY_EFORMAT, "%s%s is %g; expected a number from 1 to 3e38", prefix, key,
                   theta);
}

static int read_theta(fy_hf_config *c, const places *p, fy_err *e)
{
    const fy_cfg *const where[] = {&p->main, p->top, p->top};
    static const char *const keys[] = {"rope_theta", "rotary_emb_base", "rope_theta"};
    const char *prefix, *key;
    c->rope_theta = c->hp.rope_theta != 0 ? (double)c->hp.rope_theta : 10000;
    int rc = sought(where, keys, 3, &c->rope_theta, &prefix, &key, e);
    if (rc < 0 || (rc == 0 && check_theta(prefix, key, c->rope_theta, e)))
        return -1;
    c->hp.rope_theta = (float)c->rope_theta;
    return 0;
}

static uint32_t head_of(const fy_hparams *hp)
{
    return hp->head_dim != 0 ? hp->head_dim : hp->n_embd / hp->n_head;
}

static int read_part(fy_hf_config *c, const places *p, fy_err *e)
{
    const fy_family *f = c->family;
    const fy_cfg *const where[] = {&p->main, p->top, p->top, p->top};
    static const char *const keys[] = {"partial_rotary_factor", "rotary_pct", "rope_pct",
                                       "partial_rotary_factor"};
    const char *prefix, *key;
    double part = f->rot_part != 0 ? (double)f->rot_part : 1;
    if (sought(where, keys, 4, &part, &prefix, &key, e) < 0)
        return -1;
    if (f->rot_part == 0 && part != 1)
        return fy_fail(e, FY_EUNSUPPORTED, "%s%s is %g; a %s model rotates whole heads", prefix,
                       key, part, f->name);
    if (c->hp.n_rot != 0 || part == 1) /* the class has a key for it, or it is the whole head */
        return 0;
    uint32_t head = head_of(&c->hp);
    if (!(part > 0 && part <= 1) || (head > 0 && (uint32_t)(head * part) == 0))
        return fy_fail(e, FY_EFORMAT, "%s%s is %g; expected a part of the %u elements of a head",
                       prefix, key, part, head);
    c->hp.n_rot = (uint32_t)(head * part);
    return 0;
}

/* Layers with the window have a theta of their own and are not scaled. */
static int read_local(fy_hf_config *c, const places *p, fy_err *e)
{
    const fy_family *f = c->family;
    bool own = f->defaults.rope_theta_swa != 0;
    double theta = own ? (double)f->defaults.rope_theta_swa : c->rope_theta;
    if (c->hp.n_swa == 0 || (!own && p->local.obj == NULL))
        return 0;
    const fy_cfg *const where[] = {&p->local, p->top};
    static const char *const keys[] = {"rope_theta", "rope_local_base_freq"};
    const char *prefix, *key, *type = "default";
    char q[FY_QUOTE_BYTES];
    int rc = sought(where, keys, own ? 2 : 1, &theta, &prefix, &key, e);
    if (rc < 0 || (rc == 0 && check_theta(prefix, key, theta, e)))
        return -1;
    rc = fy_cfg_string(&p->local, "rope_type", &type, e);
    if (rc < 0 || (rc == 1 && fy_cfg_string(&p->local, "type", &type, e) < 0))
        return -1;
    if (strcmp(type, "default") != 0)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%srope_type is '%s'; ferry does not scale the rotation of layers with a "
                       "window",
                       p->local.prefix, fy_quote(q, sizeof q, fy_span_of(type)));
    double part = 1;
    rc = fy_cfg_double(&p->local, "partial_rotary_factor", &part, e);
    if (rc < 0)
        return -1;
    uint32_t head = head_of(&c->hp);
    uint32_t n_rot = c->hp.n_rot != 0 ? c->hp.n_rot : head;
    if (rc == 0 && (!(part > 0 && part <= 1) || (uint32_t)(head * part) != n_rot))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%spartial_rotary_factor is %g; ferry rotates the same part in all layers",
                       p->local.prefix, part);
    c->hp.rope_theta_swa = (float)theta;
    return 0;
}

/* --- scaling ---------------------------------------------------------------------------------- */

static bool has_row(const fy_family *f, fy_transform x)
{
    for (size_t i = 0; i < f->n_rows; i++) {
        if (f->rows[i].transform == x)
            return true;
    }
    return false;
}

/* original_max_position_embeddings: next to the scaling or at the top (which of the two wins
 * depends on the version of transformers), else max_position_embeddings. *given: it is in one of
 * them. */
static int read_orig_ctx(const places *p, uint32_t n_ctx, uint32_t *out, bool *given, fy_err *e)
{
    static const char key[] = "original_max_position_embeddings";
    const fy_cfg *rope = &p->main;
    uint32_t top = 0, beside = 0;
    int at_top = fy_cfg_u32(p->top, key, &top, e);
    int is_beside = at_top < 0 ? -1 : fy_cfg_u32(rope, key, &beside, e);
    if (is_beside < 0)
        return -1;
    if (at_top == 0 && is_beside == 0 && top != beside)
        return fy_fail(e, FY_EFORMAT, "%s is %u, but %u in %.*s; remove one of them", key, top,
                       beside, (int)strlen(rope->prefix) - 1, rope->prefix);
    *given = at_top == 0 || is_beside == 0;
    *out = is_beside == 0 ? beside : at_top == 0 ? top : n_ctx;
    return *out > 0 ? 0 : fy_fail(e, FY_EFORMAT, "%s is 0; expected a positive integer", key);
}

static int no_scaling(fy_hf_config *c, const places *p, fy_err *e)
{
    (void)c;
    (void)p;
    (void)e;
    return 0;
}

/* Beyond max_position_embeddings transformers widens theta step by step; up to it nothing changes.
 */
static int read_dynamic(fy_hf_config *c, const places *p, fy_err *e)
{
    (void)e;
    fy_log(FY_LOG_WARN,
           "%srope_type is dynamic: the model is computed without it, which is right for contexts "
           "of up to %u tokens",
           p->main.prefix, c->hp.n_ctx_train);
    return 0;
}

static int read_linear(fy_hf_config *c, const places *p, fy_err *e)
{
    double factor = 0;
    if (fy_cfg_positive(&p->main, "factor", &factor, e))
        return -1;
    if (factor < 1)
        return fy_fail(e, FY_EFORMAT, "%sfactor is %g; linear needs at least 1", p->main.prefix,
                       factor);
    c->hp.rope_scaling = FY_ROPE_SCALING_LINEAR;
    c->hp.rope_factor = (float)factor;
    return 0;
}

static int read_llama3(fy_hf_config *c, const places *p, fy_err *e)
{
    const fy_cfg *rope = &p->main;
    bool given;
    if (!has_row(c->family, FY_X_LLAMA3_FREQS))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%srope_type is llama3, which a %s model in GGUF form "
                       "has no place for",
                       rope->prefix, c->family->name);
    fy_llama3_scaling s = {.used = true};
    if (fy_cfg_positive(rope, "factor", &s.factor, e) ||
        fy_cfg_positive(rope, "low_freq_factor", &s.low_freq_factor, e) ||
        fy_cfg_positive(rope, "high_freq_factor", &s.high_freq_factor, e) ||
        read_orig_ctx(p, c->hp.n_ctx_train, &s.orig_ctx, &given, e))
        return -1;
    if (s.factor < 1)
        return fy_fail(e, FY_EFORMAT, "%sfactor is %g; llama3 needs at least 1", rope->prefix,
                       s.factor);
    if (!((float)s.high_freq_factor > (float)s.low_freq_factor))
        return fy_fail(e, FY_EFORMAT, "%shigh_freq_factor %g is not above low_freq_factor %g",
                       rope->prefix, s.high_freq_factor, s.low_freq_factor);
    c->llama3 = s;
    return 0;
}

static double yarn_mscale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

/* The whole factor on cos and sin: given, or from the two mscale values (DeepSeek), or yarn's own.
 */
static int read_yarn_attention(const fy_cfg *rope, double factor, double *total, fy_err *e)
{
    double m = 0, m_all = 0;
    *total = yarn_mscale(factor, 1);
    if (fy_cfg_double(rope, "mscale", &m, e) < 0 ||
        fy_cfg_double(rope, "mscale_all_dim", &m_all, e) < 0)
        return -1;
    if (m != 0 && m_all != 0)
        *total = yarn_mscale(factor, m) / yarn_mscale(factor, m_all);
    return fy_cfg_positive(rope, "attention_factor", total, e);
}

static int read_yarn(fy_hf_config *c, const places *p, fy_err *e)
{
    const fy_cfg *rope = &p->main;
    uint32_t orig;
    bool given, truncate = true;
    if (read_orig_ctx(p, c->hp.n_ctx_train, &orig, &given, e))
        return -1;
    double factor = (double)c->hp.n_ctx_train / orig, total, fast = 32, slow = 1;
    if (fy_cfg_positive(rope, "factor", &factor, e) ||
        read_yarn_attention(rope, factor, &total, e) ||
        fy_cfg_positive(rope, "beta_fast", &fast, e) ||
        fy_cfg_positive(rope, "beta_slow", &slow, e) ||
        fy_cfg_bool(rope, "truncate", &truncate, e) < 0)
        return -1;
    if (!truncate)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%struncate is false; ferry computes yarn with whole "
                       "ramp borders",
                       rope->prefix);
    c->hp.rope_scaling = FY_ROPE_SCALING_YARN;
    c->hp.rope_factor = (float)factor;
    c->hp.rope_orig_ctx = orig;
    c->hp.rope_attn_factor = (float)(total / yarn_mscale(factor, 1));
    c->hp.yarn_beta_fast = (float)fast;
    c->hp.yarn_beta_slow = (float)slow;
    return 0;
}

/* One number per pair of rotated elements. *out: owned by the caller, also when it fails. */
static int read_factors(const fy_cfg *rope, const char *key, uint32_t n, float **out, fy_err *e)
{
    const json_t *list;
    int rc = fy_cfg_list(rope, key, n, &list, e);
    if (rc == 1)
        return fy_fail(e, FY_EFORMAT, "%s%s is missing; longrope needs a list of %u", rope->prefix,
                       key, n);
    if (rc < 0)
        return -1;
    *out = calloc(n > 0 ? n : 1, sizeof **out);
    if (*out == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        float f = (float)json_number_value(v);
        if (!json_is_number(v) || !(f > 0) || !isfinite(f))
            return fy_cfg_bad(rope, key, v, "a list of positive numbers", e);
        (*out)[i] = f;
    }
    return 0;
}

/* sqrt(1 + ln s / ln original) with s = context / original, or the factor where no original is
 * given. */
static int read_longrope(fy_hf_config *c, const places *p, fy_err *e)
{
    const fy_cfg *rope = &p->main;
    uint32_t orig, n = (c->hp.n_rot != 0 ? c->hp.n_rot : head_of(&c->hp)) / 2;
    bool given;
    if (!has_row(c->family, FY_X_LONG_FACTORS))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%srope_type is longrope, which a %s model in GGUF form has no place for",
                       rope->prefix, c->family->name);
    if (read_orig_ctx(p, c->hp.n_ctx_train, &orig, &given, e))
        return -1;
    double factor = 1;
    if (fy_cfg_positive(rope, "factor", &factor, e))
        return -1;
    if (given)
        factor = (double)c->hp.n_ctx_train / orig;
    double total = factor <= 1 || orig < 2 ? 1 : sqrt(1 + log(factor) / log(orig));
    if (fy_cfg_positive(rope, "attention_factor", &total, e) ||
        read_factors(rope, "long_factor", n, &c->long_factors, e) ||
        read_factors(rope, "short_factor", n, &c->short_factors, e))
        return -1;
    c->hp.rope_scaling = FY_ROPE_SCALING_LONGROPE;
    c->hp.rope_orig_ctx = orig;
    c->hp.rope_attn_factor = (float)total;
    return 0;
}

static const struct {
    const char *name;
    int (*read)(fy_hf_config *c, const places *p, fy_err *e);
} types[] = {
    {"default", no_scaling},   {"linear", read_linear},     {"llama3", read_llama3},
    {"yarn", read_yarn},       {"longrope", read_longrope}, {"su", read_longrope},
    {"dynamic", read_dynamic},
};

static int read_scaling(fy_hf_config *c, const places *p, fy_err *e)
{
    const fy_cfg *rope = &p->main;
    const char *type = "default";
    char q[FY_QUOTE_BYTES];
    int rc = fy_cfg_string(rope, "rope_type", &type, e);
    if (rc == 1)
        rc = fy_cfg_string(rope, "type", &type, e);
    if (rc < 0)
        return -1;
    if (rc == 1 && fy_cfg_is_null(rope, "rope_type"))
        return fy_cfg_bad(rope, "rope_type", json_null(), "a string", e);
    /* the first Phi-3 configs say yarn and give the lists of longrope */
    if (strcmp(type, "yarn") == 0 && fy_cfg_value(rope, "long_factor") != NULL)
        type = "longrope";
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, type) == 0)
            return types[i].read(c, p, e);
    }
    return fy_fail(e, FY_EUNSUPPORTED,
                   "%srope_type is '%s'; ferry knows default, linear, llama3, yarn, longrope and "
                   "dynamic",
                   rope->prefix, fy_quote(q, sizeof q, fy_span_of(type)));
}

/* --- the whole -------------------------------------------------------------------------------- */

/* transformers 5 keeps everything about rotation in rope_parameters, 4 the scaling in rope_scaling.
 * With both, the scaling takes the place of the parameters, rope_theta included: then it has to be
 * given once more. */
static int find_main(places *p, fy_err *e)
{
    const json_t *params = NULL, *scaling = NULL;
    if (fy_cfg_object(p->top, "rope_parameters", &params, e) < 0 ||
        fy_cfg_object(p->top, "rope_scaling", &scaling, e) < 0)
        return -1;
    p->main = fy_cfg_below(p->top, "rope_scaling", scaling);
    if (json_object_size(scaling) == 0)
        p->main = fy_cfg_below(p->top, "rope_parameters", params);
    else if (json_object_get(params, "rope_theta") != NULL &&
             fy_cfg_value(&p->main, "rope_theta") == NULL &&
             fy_cfg_value(p->top, "rope_theta") == NULL)
        return fy_fail(e, FY_EFORMAT,
                       "%srope_scaling takes the place of rope_parameters, but "
                       "rope_theta is in rope_parameters only; put everything into one of them",
                       p->top->prefix);
    return 0;
}

/* Splits an object that holds one for each type of layer. */
static int find_places(const fy_hf_config *c, const fy_cfg *top, places *p, fy_err *e)
{
    *p = (places){.top = top};
    if (find_main(p, e))
        return -1;
    const json_t *full, *sliding;
    fy_cfg both = p->main;
    bool knows_window = c->family->defaults.n_swa != 0 || c->family->window_keys != NULL;
    if (!knows_window || (!json_is_object(json_object_get(both.obj, FULL)) &&
                          !json_is_object(json_object_get(both.obj, SLIDING))))
        return both.obj != NULL ? check_rope_keys(&both, e) : 0;
    const char *key;
    char q[FY_QUOTE_BYTES];
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)both.obj, key, v)
    {
        if (strcmp(key, FULL) != 0 && strcmp(key, SLIDING) != 0 && !json_is_null(v))
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s%s: ferry does not know this key next to " FULL " and " SLIDING,
                           both.prefix, fy_quote(q, sizeof q, fy_span_of(key)));
    }
    int no_full = fy_cfg_object(&both, FULL, &full, e);
    int no_sliding = no_full < 0 ? -1 : fy_cfg_object(&both, SLIDING, &sliding, e);
    if (no_sliding < 0)
        return -1;
    if (!no_sliding)
        p->local = fy_cfg_below(&both, SLIDING, sliding);
    p->main = (fy_cfg){0};
    if (!no_full)
        p->main = fy_cfg_below(&both, FULL, full);
    else if (c->family->defaults.rope_theta_swa == 0) { /* one theta for all layers */
        p->main = p->local;
        p->local = (fy_cfg){0};
    }
    return (p->main.obj != NULL && check_rope_keys(&p->main, e)) ||
                   (p->local.obj != NULL && check_rope_keys(&p->local, e))
               ? -1
               : 0;
}

int fy_hf_read_rope(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    places p;
    if (c->family->rope == FY_ROPE_NO)
        return 0;
    if (find_places(c, s, &p, e) || read_theta(c, &p, e) || read_part(c, &p, e) ||
        read_local(c, &p, e))
        return -1;
    return p.main.obj != NULL ? read_scaling(c, &p, e) : 0;
}

/* A ramp that ends before it begins means one thing to transformers and another in GGUF form. */
int fy_hf_check_ramp(const fy_hparams *hp, fy_err *e)
{
    if (hp->rope_scaling != FY_ROPE_SCALING_YARN)
        return 0;
    double slope = hp->n_rot / (2 * log((double)hp->rope_theta)),
           circle = 2 * 3.14159265358979323846;
    double low = slope * log(hp->rope_orig_ctx / ((double)hp->yarn_beta_fast * circle));
    double high = slope * log(hp->rope_orig_ctx / ((double)hp->yarn_beta_slow * circle));
    low = fmax(floor(low), 0);
    high = fmin(ceil(high), (double)hp->n_rot - 1);
    if (low <= high)
        return 0;
    return fy_fail(e, FY_EUNSUPPORTED,
                   "yarn with original_max_position_embeddings %u, beta_fast %g, beta_slow %g and "
                   "rope_theta %g has a ramp from pair %g to pair %g; ferry needs one that rises",
                   hp->rope_orig_ctx, (double)hp->yarn_beta_fast, (double)hp->yarn_beta_slow,
                   (double)hp->rope_theta, low, high);
}

/* λ in f64; the ramp in f32, one operation at a time, with λ rounded to f32: this way the values
 * equal, bit for bit, those in published Llama 3.1 files. */
float fy_llama3_freq(const fy_hf_config *c, uint32_t i)
{
    const fy_llama3_scaling *s = &c->llama3;
    double lambda = 2 * 3.14159265358979323846 * pow(c->rope_theta, 2.0 * i / c->hp.n_rot);
    float low = (float)s->low_freq_factor, high = (float)s->high_freq_factor;
    float factor = (float)s->factor;
    if (lambda < s->orig_ctx / s->high_freq_factor)
        return 1;
    if (lambda > s->orig_ctx / s->low_freq_factor)
        return factor;
    float ratio = (float)s->orig_ctx / (float)lambda;
    float ramp = fminf(fmaxf((ratio - low) / (high - low), 0),
                       1); /* rounding may leave the range by a bit */
    float slow_part = (1.0F - ramp) / factor;
    return 1.0F / (slow_part + ramp);
}
