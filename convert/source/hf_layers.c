/* config.json: which layers have the sliding window, and which rotate. */
#include <string.h>

#include "convert/source/hf_config_impl.h"

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
