/* config.json of families with gated delta nets: which layers have attention, the width of their
 * values, and the sections of their rotation. */
#include <string.h>

#include "convert/source/config_value.h"

/* Files say how often a layer has attention, not which. */
static void read_interval(fy_hf_config *c, const fy_cfg *s)
{
    static const char key[] = "layer_types";
    const json_t *types = fy_cfg_list(s, key, c->hp.n_layer);
    uint32_t interval = 0;
    for (uint32_t i = 0; types != NULL && i < c->hp.n_layer; i++) {
        const char *t = json_string_value(json_array_get(types, i));
        const bool full = t != NULL && strcmp(t, "full_attention") == 0;
        if (!full && (t == NULL || strcmp(t, "linear_attention") != 0)) {
            fy_cfg_bad(s, key, json_array_get(types, i), "linear_attention or full_attention");
            return;
        }
        if (full && interval == 0)
            interval = i + 1;
        if (interval != 0 && full != ((i + 1) % interval == 0)) {
            fy_fail(s->e, FY_EUNSUPPORTED,
                    "%s%s: layer %u is %s; a file of a %s model can say that every n-th layer has "
                    "attention, and no other",
                    s->prefix, key, i, t, c->family->name);
            return;
        }
    }
    if (types != NULL && interval == 0)
        fy_fail(s->e, FY_EUNSUPPORTED,
                "%s%s has no full_attention; ferry computes %s models "
                "with some",
                s->prefix, key, c->family->name);
    else if (types != NULL)
        c->hp.full_interval = interval;
}

static void read_widths(fy_hf_config *c, const fy_cfg *s)
{
    uint32_t width = 128;
    fy_cfg_u32(s, "linear_value_head_dim", &width);
    const uint64_t inner = (uint64_t)c->hp.ssm_heads * width;
    c->hp.ssm_inner = inner < INT32_MAX ? (uint32_t)inner : INT32_MAX;
}

/* Of pictures; text has one position for all of them, and other readers want the key. */
static void read_sections(fy_hf_config *c, const fy_cfg *s)
{
    static const char *const places[] = {"rope_parameters", "rope_scaling"};
    uint32_t *out = c->hp.rope_sections;
    const uint32_t usual[] = {11, 11, 10, 0};
    memcpy(out, usual, sizeof usual);
    for (int p = 0; p < 2; p++) {
        const fy_cfg rope = fy_cfg_below(s, places[p]);
        const json_t *list = fy_cfg_list(&rope, "mrope_section", 3);
        for (size_t i = 0; list != NULL && i < 3; i++) {
            const json_t *v = json_array_get(list, i);
            const double n = json_is_number(v) ? json_number_value(v) : -1;
            if (!(n >= 0 && n <= INT32_MAX))
                fy_cfg_bad(&rope, "mrope_section", v, "a list of three numbers");
            else
                out[i] = (uint32_t)n;
        }
    }
}

void fy_hf_read_delta(fy_hf_config *c, const fy_cfg *s)
{
    if (c->family->ssm_place != FY_SSM_DELTA || c->hp.n_layer > FY_N_LAYER_MAX)
        return;
    read_interval(c, s);
    read_widths(c, s);
    read_sections(c, s);
}
