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

/* Each reads one way to say which layers are full; false: the key is not there. */
static bool from_types(const fy_cfg *s, const fy_family *f, uint32_t n_layer, fy_layer_set *full)
{
    const bool mixed = fy_row_of_slot(f, FY_T_CONV) != NULL;
    const json_t *types = fy_cfg_value(s, "layer_types");
    if (types == NULL || f->ssm_place != FY_SSM_NONE || f->nope_default)
        return false;
    if (!json_is_array(types) || json_array_size(types) != n_layer)
        return fy_cfg_bad(s, "layer_types", types, "a list with one entry per layer");
    for (uint32_t i = 0; i < n_layer; i++) {
        const char *t = json_string_value(json_array_get(types, i));
        if (t == NULL || (strcmp(t, "sliding_attention") != 0 && strcmp(t, "full_attention") != 0 &&
                          !(mixed && strcmp(t, "conv") == 0)))
            return fy_cfg_bad(s, "layer_types", json_array_get(types, i),
                              mixed ? "conv, sliding_attention or full_attention"
                                    : "sliding_attention or full_attention");
        fy_layer_put(full, i, t[0] != 's');
    }
    return true;
}

/* A list of 0 and 1, or of false and true, one per layer: the layers with 0 are in the set. */
static bool from_bits(const fy_cfg *s, const char *key, uint32_t n_layer, fy_layer_set *set)
{
    const json_t *list = fy_cfg_list(s, key, n_layer);
    for (uint32_t i = 0; list != NULL && i < n_layer; i++) {
        const json_t *v = json_array_get(list, i);
        double d = json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
        if ((!json_is_boolean(v) && !json_is_number(v)) || (d != 0 && d != 1))
            return fy_cfg_bad(s, key, v, "a list of 0 and 1");
        fy_layer_put(set, i, d == 0);
    }
    return list != NULL;
}

/* Every n-th layer, the last of each group. */
static bool from_period(const fy_cfg *s, const char *key, uint32_t n_layer, fy_layer_set *set)
{
    uint32_t period = 0;
    if (!fy_cfg_u32(s, key, &period))
        return false;
    if (period == 0)
        return fy_cfg_bad(s, key, fy_cfg_value(s, key), "a positive integer");
    *set = fy_layers_of((fy_layer_pattern){.period = period}, n_layer);
    return true;
}

static void read_nope(fy_hf_config *c, const fy_cfg *s)
{
    const fy_family *f = c->family;
    uint32_t n = c->hp.n_layer;
    fy_layer_set *nope = &c->hp.nope_layers;
    const char *positions = "nope";
    *nope = (fy_layer_set){0};
    if (f->nope_default) {
        fy_cfg_string(s, "position_embedding_type", &positions);
        if (strcmp(positions, "rope") != 0)
            *nope = fy_layers_of((fy_layer_pattern){.period = 1}, n);
        return;
    }
    if (f->nope_is_full)
        *nope = c->hp.full_layers;
    if (f->no_rope.period != 0 && !from_bits(s, "no_rope_layers", n, nope) &&
        !from_bits(s, "rope_layout", n, nope) &&
        !from_period(s, "no_rope_layer_interval", n, nope) &&
        (c->hp.n_swa != 0 || !f->nope_follows_swa))
        *nope = fy_layers_of(f->no_rope, n);
}

/* Classes that switch the window by a flag keep it off the first max_window_layers (28) layers;
 * those whose layers do not all rotate (SmolLM3) give it to the ones that do not. */
static void from_flag(fy_hf_config *c, const fy_cfg *s, fy_layer_set *full)
{
    uint32_t n = 28;
    bool by_rotation = c->family->no_rope.period != 0;
    if (by_rotation)
        read_nope(c, s);
    else
        fy_cfg_u32(s, "max_window_layers", &n);
    for (uint32_t i = 0; i < c->hp.n_layer; i++)
        fy_layer_put(full, i, by_rotation ? !fy_layer_in(&c->hp.nope_layers, i) : i < n);
}

static void read_full_layers(fy_hf_config *c, const fy_cfg *s)
{
    const fy_family *f = c->family;
    uint32_t n = c->hp.n_layer;
    fy_layer_set *full = &c->hp.full_layers;
    const bool given =
        from_types(s, f, n, full) ||
        (window_keys(f)[0] != NULL && from_bits(s, "sliding_window_layout", n, full)) ||
        (f->full_attention.period != 0 && (from_period(s, "_sliding_window_pattern", n, full) ||
                                           from_period(s, "sliding_window_pattern", n, full)));
    if (!given && f->window_flag != NULL)
        from_flag(c, s, full);
    else if (!given)
        *full = fy_layers_of(f->full_attention, n);
    if (f->ends_full && n != 0)
        fy_layer_put(full, n - 1, true);
}

/* The key that says how wide it is; NULL when none is there. */
static const char *read_width(fy_hf_config *c, const fy_cfg *s)
{
    for (const char *const *key = window_keys(c->family); *key != NULL; key++) {
        if (fy_cfg_u32(s, *key, &c->hp.n_swa))
            return *key;
        if (fy_cfg_is_null(s, *key)) {
            c->hp.n_swa = 0;
            return NULL;
        }
    }
    return NULL;
}

/* True: config.json has a window, and no layer has it. */
static bool read_window(fy_hf_config *c, const fy_cfg *s)
{
    const fy_family *f = c->family;
    bool on = f->window_flag == NULL;
    if (!on)
        fy_cfg_bool(s, f->window_flag, &on);
    const char *given = read_width(c, s);
    read_full_layers(c, s);
    bool some = fy_layers_count(&c->hp.full_layers) < c->hp.n_layer;
    if (on && some && c->hp.n_swa == 0 && given != NULL)
        fy_fail(s->e, FY_EFORMAT, "%s%s is 0; expected a positive integer or null", s->prefix,
                given);
    if (!on && some && c->hp.n_swa != 0 && fy_cfg_value(s, "layer_types") != NULL)
        fy_fail(s->e, FY_EFORMAT, "%s%s is not true, but layer_types has sliding_attention",
                s->prefix, f->window_flag);
    const bool unused = on && !some && c->hp.n_swa != 0;
    if (!on || !some)
        c->hp.n_swa = 0;
    if (c->hp.n_swa == 0)
        c->hp.full_layers = (fy_layer_set){0};
    return unused;
}

/* The layers whose attention a short convolution replaces: "conv" in layer_types, or those that are
 * not in full_attn_idxs. */
static void read_convolutions(fy_hf_config *c, const fy_cfg *s)
{
    const json_t *types = fy_cfg_value(s, "layer_types"), *full = fy_cfg_value(s, "full_attn_idxs");
    fy_layer_set *conv = &c->hp.no_attn_layers;
    if (fy_row_of_slot(c->family, FY_T_CONV) == NULL)
        return;
    if (types == NULL && full == NULL) {
        if (c->family->defaults.n_swa != 0)
            fy_fail(s->e, FY_EFORMAT,
                    "%slayer_types is missing; a %s model needs it: it says which layers have "
                    "attention, and which a window",
                    s->prefix, c->family->name);
        return;
    }
    for (uint32_t i = 0; i < c->hp.n_layer; i++) {
        const char *t = json_string_value(json_array_get(types, i));
        fy_layer_put(conv, i, types == NULL || (t != NULL && strcmp(t, "conv") == 0));
    }
    for (size_t i = 0; types == NULL && i < json_array_size(full); i++) {
        const json_t *v = json_array_get(full, i);
        const double layer = json_is_number(v) ? json_number_value(v) : -1;
        if (!(layer >= 0 && layer < c->hp.n_layer))
            fy_cfg_bad(s, "full_attn_idxs", v, "a list of layers");
        else
            fy_layer_put(conv, (uint32_t)layer, false);
    }
    if (types == NULL && !json_is_array(full))
        fy_cfg_bad(s, "full_attn_idxs", full, "a list of layers");
}

void fy_hf_read_layers(fy_hf_config *c, const fy_cfg *s)
{
    if (c->hp.n_layer > FY_N_LAYER_MAX)
        return; /* refused with everything else that is out of range */
    const bool unused = read_window(c, s);
    read_nope(c, s);
    if (unused && c->family->nope_is_full)
        c->hp.nope_layers = fy_layers_of((fy_layer_pattern){.period = 1}, c->hp.n_layer);
    read_convolutions(c, s);
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

static bool knows_rope_key(const fy_family *f, const char *key)
{
    const char *const *own = f->rope_keys;
    while (own != NULL && *own != NULL && strcmp(*own, key) != 0)
        own++;
    return own != NULL && *own != NULL;
}

/* Every key that may stand in rope_scaling or rope_parameters. One that belongs to another type is
 * ignored, as transformers does; one that is not here may change the arithmetic and is refused. */
static void check_rope_keys(const fy_cfg *s, const fy_family *f)
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
        bool found = json_is_null(v) || knows_rope_key(f, key);
        for (size_t i = 0; i < sizeof known / sizeof known[0] && !found; i++)
            found = strcmp(known[i], key) == 0;
        if (!found)
            fy_fail(s->e, FY_EUNSUPPORTED, "%s%s: ferry does not %s", s->prefix,
                    fy_quote(q, sizeof q, fy_span_of(key)),
                    json_is_object(v) ? "compute another rotation for these layers"
                                      : "know this key");
    }
}

/* --- theta and the rotated part --------------------------------------------------------------- */

/* A number that may stand in several places; found: the first that has it, or the last. */
typedef struct {
    const fy_cfg *where;
    const char *key;
} place;

static bool find_number(const place *in, size_t n, double *out, place *found)
{
    for (size_t i = 0; i < n; i++) {
        *found = in[i];
        if (fy_cfg_double(in[i].where, in[i].key, out))
            return true;
    }
    return false;
}

static void read_theta_of(const place *in, size_t n, double *theta)
{
    place at;
    if (find_number(in, n, theta, &at) && !((float)*theta >= 1 && isfinite((float)*theta)))
        fy_fail(at.where->e, FY_EFORMAT, "%s%s is %g; expected a number from 1 to 3e38",
                at.where->prefix, at.key, *theta);
}

static void read_theta(fy_hf_config *c, const places *p)
{
    const place in[] = {
        {&p->main, "rope_theta"}, {p->top, "rotary_emb_base"}, {p->top, "rope_theta"}};
    c->rope_theta = c->hp.rope_theta != 0 ? (double)c->hp.rope_theta : 10000;
    read_theta_of(in, 3, &c->rope_theta);
    c->hp.rope_theta = (float)c->rope_theta;
}

static uint32_t head_of(const fy_hparams *hp)
{
    return hp->head_dim != 0       ? hp->head_dim
           : hp->head_dim_swa != 0 ? hp->head_dim_swa
                                   : hp->n_embd / hp->n_head;
}

static bool has_row(const fy_family *f, fy_transform x)
{
    for (size_t i = 0; i < f->n_rows; i++) {
        if (f->rows[i].transform == x)
            return true;
    }
    return false;
}

/* Gemma 4: whole heads rotate in the layers without a window, the pairs after the given part by 0.
 */
static bool is_proportional(const fy_hf_config *c, const places *p)
{
    const char *type = p->main.obj != NULL ? "default" : "proportional";
    fy_cfg_string(&p->main, "rope_type", &type);
    return has_row(c->family, FY_X_PART_FREQS) && strcmp(type, "proportional") == 0;
}

static void read_turned(fy_hf_config *c, const places *p)
{
    const uint32_t head = head_of(&c->hp);
    double part = p->main.obj != NULL ? 1 : 0.25; /* that of the class */
    fy_cfg_double(&p->main, "partial_rotary_factor", &part);
    if (!(part > 0 && part <= 1) || (uint32_t)(head * part / 2) == 0)
        fy_fail(p->top->e, FY_EFORMAT,
                "%spartial_rotary_factor is %g; expected a part of the %u elements of a head",
                p->main.prefix, part, head);
    else
        c->turned_pairs = (uint32_t)(head * part / 2);
}

static void read_part(fy_hf_config *c, const places *p)
{
    const fy_family *f = c->family;
    if (is_proportional(c, p)) {
        read_turned(c, p);
        return;
    }
    const place in[] = {{&p->main, "partial_rotary_factor"},
                        {p->top, "rotary_pct"},
                        {p->top, "rope_pct"},
                        {p->top, "partial_rotary_factor"}};
    place at;
    double part = f->rot_part != 0 ? (double)f->rot_part : 1;
    find_number(in, 4, &part, &at);
    if (f->rot_part == 0 && part != 1)
        fy_fail(p->top->e, FY_EUNSUPPORTED, "%s%s is %g; a %s model rotates whole heads",
                at.where->prefix, at.key, part, f->name);
    if (c->hp.n_rot != 0 || part == 1) /* the class has a key for it, or it is the whole head */
        return;
    uint32_t head = head_of(&c->hp);
    if (!(part > 0 && part <= 1) || (head > 0 && (uint32_t)(head * part) == 0))
        fy_fail(p->top->e, FY_EFORMAT, "%s%s is %g; expected a part of the %u elements of a head",
                at.where->prefix, at.key, part, head);
    else
        c->hp.n_rot = (uint32_t)(head * part);
}

/* Layers with the window have a theta of their own and are not scaled. */
static void read_local(fy_hf_config *c, const places *p)
{
    const fy_family *f = c->family;
    bool own = f->defaults.rope_theta_swa != 0;
    double theta = own ? (double)f->defaults.rope_theta_swa : c->rope_theta, part = 1;
    if (c->hp.n_swa == 0 || (!own && p->local.obj == NULL))
        return;
    const place in[] = {{&p->local, "rope_theta"}, {p->top, "rope_local_base_freq"}};
    const char *type = "default";
    char q[FY_QUOTE_BYTES];
    read_theta_of(in, own ? 2 : 1, &theta);
    if (!fy_cfg_string(&p->local, "rope_type", &type))
        fy_cfg_string(&p->local, "type", &type);
    if (strcmp(type, "default") != 0)
        fy_fail(p->top->e, FY_EUNSUPPORTED,
                "%srope_type is '%s'; ferry does not scale the rotation of layers with a window",
                p->local.prefix, fy_quote(q, sizeof q, fy_span_of(type)));
    const uint32_t head = c->hp.head_dim_swa != 0 ? c->hp.head_dim_swa : head_of(&c->hp);
    const uint32_t n_rot = c->hp.n_rot != 0 ? c->hp.n_rot : head;
    if (fy_cfg_double(&p->local, "partial_rotary_factor", &part) &&
        (!(part > 0 && part <= 1) || (uint32_t)(head * part) != n_rot))
        fy_fail(p->top->e, FY_EUNSUPPORTED,
                "%spartial_rotary_factor is %g; ferry rotates the same part in all layers",
                p->local.prefix, part);
    c->hp.rope_theta_swa = (float)theta;
}

/* --- scaling ---------------------------------------------------------------------------------- */

/* original_max_position_embeddings: next to the scaling or at the top (which of the two wins
 * depends on the version of transformers), else max_position_embeddings. *given: it is in one of
 * them. */
static uint32_t read_orig_ctx(const places *p, uint32_t n_ctx, bool *given)
{
    static const char key[] = "original_max_position_embeddings";
    const fy_cfg *rope = &p->main;
    uint32_t top = 0, beside = 0;
    bool at_top = fy_cfg_u32(p->top, key, &top), is_beside = fy_cfg_u32(rope, key, &beside);
    if (at_top && is_beside && top != beside)
        fy_fail(rope->e, FY_EFORMAT, "%s is %u, but %u in %.*s; remove one of them", key, top,
                beside, (int)strlen(rope->prefix) - 1, rope->prefix);
    *given = at_top || is_beside;
    uint32_t out = is_beside ? beside : at_top ? top : n_ctx;
    if (out == 0)
        fy_fail(rope->e, FY_EFORMAT, "%s is 0; expected a positive integer", key);
    return out;
}

static void no_scaling(fy_hf_config *c, const places *p)
{
    (void)c;
    (void)p;
}

/* Hunyuan: theta grows by alpha once and for all. */
static bool read_alpha(fy_hf_config *c, const fy_cfg *rope)
{
    const double head = head_of(&c->hp);
    double alpha = 0;
    if (!knows_rope_key(c->family, "alpha") || !fy_cfg_double(rope, "alpha", &alpha) || alpha == 0)
        return false;
    const double theta = c->rope_theta * pow(alpha, head / (head - 2));
    if (!(alpha >= 1) || head <= 2 || !isfinite((float)theta))
        fy_fail(rope->e, FY_EFORMAT, "%salpha is %g; expected a number of at least 1", rope->prefix,
                alpha);
    c->rope_theta = theta;
    c->hp.rope_theta = (float)theta;
    return true;
}

/* Beyond max_position_embeddings transformers widens theta step by step; up to it nothing changes.
 */
static void read_dynamic(fy_hf_config *c, const places *p)
{
    if (read_alpha(c, &p->main))
        return;
    fy_log(FY_LOG_WARN,
           "%srope_type is dynamic: the model is computed without it, which is right for contexts "
           "of up to %u tokens",
           p->main.prefix, c->hp.n_ctx_train);
}

static double read_factor(const fy_cfg *rope, const char *type)
{
    double factor = fy_cfg_positive(rope, "factor", 0);
    if (factor < 1)
        fy_fail(rope->e, FY_EFORMAT, "%sfactor is %g; %s needs at least 1", rope->prefix, factor,
                type);
    return factor;
}

static void read_linear(fy_hf_config *c, const places *p)
{
    c->hp.rope_scaling = FY_ROPE_SCALING_LINEAR;
    c->hp.rope_factor = (float)read_factor(&p->main, "linear");
}

/* Is there a row in which GGUF keeps what the type of scaling needs? */
static void check_place(const fy_hf_config *c, const fy_cfg *rope, const char *type, fy_transform x)
{
    if (has_row(c->family, x))
        return;
    fy_fail(rope->e, FY_EUNSUPPORTED,
            "%srope_type is %s, which a %s model in GGUF form has no place for", rope->prefix, type,
            c->family->name);
}

static void read_proportional(fy_hf_config *c, const places *p)
{
    check_place(c, &p->main, "proportional", FY_X_PART_FREQS);
    if (fy_cfg_positive(&p->main, "factor", 1) != 1)
        fy_fail(p->main.e, FY_EUNSUPPORTED, "%sfactor: ferry computes proportional rotation with 1",
                p->main.prefix);
}

static void read_llama3(fy_hf_config *c, const places *p)
{
    const fy_cfg *rope = &p->main;
    bool given;
    check_place(c, rope, "llama3", FY_X_LLAMA3_FREQS);
    fy_llama3_scaling s = {.used = true};
    s.factor = read_factor(rope, "llama3");
    s.low_freq_factor = fy_cfg_positive(rope, "low_freq_factor", 0);
    s.high_freq_factor = fy_cfg_positive(rope, "high_freq_factor", 0);
    s.orig_ctx = read_orig_ctx(p, c->hp.n_ctx_train, &given);
    if (!((float)s.high_freq_factor > (float)s.low_freq_factor))
        fy_fail(rope->e, FY_EFORMAT, "%shigh_freq_factor %g is not above low_freq_factor %g",
                rope->prefix, s.high_freq_factor, s.low_freq_factor);
    c->llama3 = s;
}

static double yarn_mscale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

/* The whole factor on cos and sin: given, or from the two mscale values (DeepSeek), or yarn's own.
 */
static double read_yarn_attention(const fy_cfg *rope, double factor)
{
    double m = 0, m_all = 0, own = yarn_mscale(factor, 1);
    fy_cfg_double(rope, "mscale", &m);
    fy_cfg_double(rope, "mscale_all_dim", &m_all);
    if (m != 0 && m_all != 0)
        own = yarn_mscale(factor, m) / yarn_mscale(factor, m_all);
    return fy_cfg_positive(rope, "attention_factor", own);
}

/* Ministral 3: what GGUF has keys of its own for. */
static void read_query_scale(fy_hf_config *c, const fy_cfg *rope)
{
    static const char key[] = "llama_4_scaling_beta";
    double m = 0, m_all = 0, beta = 0;
    if (!knows_rope_key(c->family, key))
        return;
    const bool has_m = fy_cfg_double(rope, "mscale", &m) && m != 0;
    const bool has_all = fy_cfg_double(rope, "mscale_all_dim", &m_all) && m_all != 0;
    if (has_m != has_all || (has_m && m != 1) || m_all < 0)
        fy_fail(rope->e, FY_EUNSUPPORTED,
                "%smscale is %g and mscale_all_dim %g; ferry computes a mscale of 1 with a "
                "mscale_all_dim, or neither",
                rope->prefix, m, m_all);
    if (has_all && fy_cfg_value(rope, "attention_factor") != NULL)
        fy_fail(rope->e, FY_EUNSUPPORTED, "%sattention_factor: ferry knows it or mscale_all_dim",
                rope->prefix);
    if (fy_cfg_double(rope, key, &beta) && !(beta >= 0 && isfinite((float)beta)))
        fy_fail(rope->e, FY_EFORMAT, "%s%s is %g; expected a number of 0 or more", rope->prefix,
                key, beta);
    c->hp.yarn_log_mul = (float)m_all;
    c->hp.temp_scale = (float)beta;
}

static void read_yarn(fy_hf_config *c, const places *p)
{
    const fy_cfg *rope = &p->main;
    bool given, truncate = true;
    uint32_t orig = read_orig_ctx(p, c->hp.n_ctx_train, &given);
    double factor = fy_cfg_positive(rope, "factor", (double)c->hp.n_ctx_train / orig);
    double total = read_yarn_attention(rope, factor);
    c->hp.rope_scaling = FY_ROPE_SCALING_YARN;
    c->hp.rope_factor = (float)factor;
    c->hp.rope_orig_ctx = orig;
    c->hp.rope_attn_factor = (float)(total / yarn_mscale(factor, 1));
    c->hp.yarn_beta_fast = (float)fy_cfg_positive(rope, "beta_fast", 32);
    c->hp.yarn_beta_slow = (float)fy_cfg_positive(rope, "beta_slow", 1);
    read_query_scale(c, rope);
    fy_cfg_bool(rope, "truncate", &truncate);
    if (truncate == c->family->defaults.yarn_unrounded)
        fy_fail(rope->e, FY_EUNSUPPORTED,
                "%struncate is %s; ferry computes yarn of %s models with %s ramp borders",
                rope->prefix, truncate ? "true" : "false", c->family->name,
                truncate ? "unrounded" : "whole");
}

/* One number per pair of rotated elements; owned by the caller. */
static float *read_factors(const fy_cfg *rope, const char *key, uint32_t n)
{
    const json_t *list = fy_cfg_list(rope, key, n);
    float *out = list != NULL ? calloc(n > 0 ? n : 1, sizeof *out) : NULL;
    if (list == NULL)
        fy_fail(rope->e, FY_EFORMAT, "%s%s is missing; longrope needs a list of %u", rope->prefix,
                key, n);
    else if (out == NULL)
        fy_nomem(rope->e);
    for (uint32_t i = 0; out != NULL && i < n; i++) {
        const json_t *v = json_array_get(list, i);
        out[i] = (float)json_number_value(v);
        if (!json_is_number(v) || !(out[i] > 0) || !isfinite(out[i]))
            fy_cfg_bad(rope, key, v, "a list of positive numbers");
    }
    return out;
}

/* sqrt(1 + ln s / ln original) with s = context / original, or the factor where no original is
 * given. */
static void read_longrope(fy_hf_config *c, const places *p)
{
    const fy_cfg *rope = &p->main;
    uint32_t n = (c->hp.n_rot != 0 ? c->hp.n_rot : head_of(&c->hp)) / 2;
    bool given;
    check_place(c, rope, "longrope", FY_X_LONG_FACTORS);
    uint32_t orig = read_orig_ctx(p, c->hp.n_ctx_train, &given);
    double factor = fy_cfg_positive(rope, "factor", 1);
    if (given)
        factor = (double)c->hp.n_ctx_train / orig;
    double total = factor <= 1 || orig < 2 ? 1 : sqrt(1 + log(factor) / log(orig));
    c->hp.rope_scaling = FY_ROPE_SCALING_LONGROPE;
    c->hp.rope_orig_ctx = orig;
    c->hp.rope_attn_factor = (float)fy_cfg_positive(rope, "attention_factor", total);
    c->long_factors = read_factors(rope, "long_factor", n);
    c->short_factors = read_factors(rope, "short_factor", n);
}

static const struct {
    const char *name;
    void (*read)(fy_hf_config *c, const places *p);
} types[] = {
    {"default", no_scaling},     {"linear", read_linear},
    {"llama3", read_llama3},     {"yarn", read_yarn},
    {"longrope", read_longrope}, {"su", read_longrope},
    {"dynamic", read_dynamic},   {"proportional", read_proportional},
};

static void read_scaling(fy_hf_config *c, const places *p)
{
    const fy_cfg *rope = &p->main;
    const char *type = "default";
    char q[FY_QUOTE_BYTES];
    bool given = fy_cfg_string(rope, "rope_type", &type) || fy_cfg_string(rope, "type", &type);
    if (!given && fy_cfg_is_null(rope, "rope_type"))
        fy_cfg_bad(rope, "rope_type", json_null(), "a string");
    /* the first Phi-3 configs say yarn and give the lists of longrope */
    if (strcmp(type, "yarn") == 0 && fy_cfg_value(rope, "long_factor") != NULL)
        type = "longrope";
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, type) == 0) {
            types[i].read(c, p);
            return;
        }
    }
    fy_fail(rope->e, FY_EUNSUPPORTED,
            "%srope_type is '%s'; ferry knows default, linear, llama3, yarn, longrope, dynamic and "
            "proportional",
            rope->prefix, fy_quote(q, sizeof q, fy_span_of(type)));
}

/* --- the whole -------------------------------------------------------------------------------- */

/* transformers 5 keeps everything about rotation in rope_parameters, 4 the scaling in rope_scaling.
 * With both, the scaling takes the place of the parameters, rope_theta included: then it has to be
 * given once more. */
static fy_cfg find_main(const fy_cfg *top)
{
    fy_cfg params = fy_cfg_below(top, "rope_parameters");
    fy_cfg scaling = fy_cfg_below(top, "rope_scaling");
    if (json_object_size(scaling.obj) == 0)
        return params;
    if (json_object_get(params.obj, "rope_theta") != NULL &&
        fy_cfg_value(&scaling, "rope_theta") == NULL && fy_cfg_value(top, "rope_theta") == NULL)
        fy_fail(top->e, FY_EFORMAT,
                "%srope_scaling takes the place of rope_parameters, but "
                "rope_theta is in rope_parameters only; put everything into one of them",
                top->prefix);
    return scaling;
}

/* Splits an object that holds one for each type of layer. */
static places find_places(const fy_hf_config *c, const fy_cfg *top)
{
    places p = {.top = top, .main = find_main(top), .local = {.e = top->e}};
    fy_cfg both = p.main;
    bool knows_window = c->family->defaults.n_swa != 0 || c->family->window_keys != NULL;
    if (knows_window && (json_is_object(json_object_get(both.obj, FULL)) ||
                         json_is_object(json_object_get(both.obj, SLIDING)))) {
        const char *key;
        char q[FY_QUOTE_BYTES];
        json_t *v;
        json_object_foreach((json_t *)(uintptr_t)both.obj, key, v)
        {
            if (strcmp(key, FULL) != 0 && strcmp(key, SLIDING) != 0 && !json_is_null(v))
                fy_fail(top->e, FY_EUNSUPPORTED,
                        "%s%s: ferry does not know this key next to " FULL " and " SLIDING,
                        both.prefix, fy_quote(q, sizeof q, fy_span_of(key)));
        }
        p.main = fy_cfg_below(&both, FULL);
        p.local = fy_cfg_below(&both, SLIDING);
        if (p.main.obj == NULL && c->family->defaults.rope_theta_swa == 0) {
            p.main = p.local; /* one theta for all layers */
            p.local.obj = NULL;
        }
    }
    check_rope_keys(&p.main, c->family);
    check_rope_keys(&p.local, c->family);
    return p;
}

/* What the class has when config.json says nothing of rotation: gpt-oss's own. */
static void read_nothing(fy_hf_config *c)
{
    if (!c->family->defaults.yarn_unrounded)
        return;
    c->hp.rope_scaling = FY_ROPE_SCALING_YARN;
    c->hp.rope_factor = 32;
    c->hp.rope_orig_ctx = 4096;
}

void fy_hf_read_rope(fy_hf_config *c, const fy_cfg *s)
{
    if (c->family->rope == FY_ROPE_NO)
        return;
    places p = find_places(c, s);
    c->hp.rope_scaling = FY_ROPE_SCALING_NONE;
    if (c->family->own_arch && p.main.obj == NULL)
        fy_fail(s->e, FY_EFORMAT, "%srope_parameters is missing; a %s model has no default for it",
                s->prefix, c->family->name);
    read_theta(c, &p);
    read_part(c, &p);
    read_local(c, &p);
    if (p.main.obj != NULL)
        read_scaling(c, &p);
    else
        read_nothing(c);
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
    low = fmax(hp->yarn_unrounded ? low : floor(low), 0);
    high = fmin(hp->yarn_unrounded ? high : ceil(high), (double)hp->n_rot - 1);
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
