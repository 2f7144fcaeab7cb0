/* config.json: per_layer_config, which transformers 5 writes for Gemma 4 in place of
 * global_head_dim and num_global_key_value_heads: {"5": {"head_dim": 512}}, keys that hold for one
 * layer. Files know two kinds of layers, with and without the window. */
#include <stdlib.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/str.h"
#include "convert/source/config_value.h"

static const char key[] = "per_layer_config";

typedef struct {
    uint32_t head_dim, n_head_kv;
} sizes;

/* A name is the number of a layer. */
static bool layer_of(const fy_cfg *s, const char *name, const fy_hparams *hp, uint32_t *layer)
{
    char q[FY_QUOTE_BYTES];
    const size_t n = strspn(name, "0123456789");
    if (n > 0 && n < 5 && name[n] == '\0') {
        *layer = (uint32_t)strtoul(name, NULL, 10);
        if (*layer < hp->n_layer && !fy_layer_has_window(hp, *layer))
            return true;
    }
    fy_fail(s->e, FY_EUNSUPPORTED,
            "%s%s has an entry '%s'; ferry knows entries of the layers without a window", s->prefix,
            key, fy_quote(q, sizeof q, fy_span_of(name)));
    return false;
}

static void check_keys(const fy_cfg *layer)
{
    const char *name;
    char q[FY_QUOTE_BYTES];
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)layer->obj, name, v)
    {
        if (strcmp(name, "head_dim") != 0 && strcmp(name, "num_key_value_heads") != 0)
            fy_fail(layer->e, FY_EUNSUPPORTED,
                    "%s%s: ferry knows head_dim and num_key_value_heads of single layers",
                    layer->prefix, fy_quote(q, sizeof q, fy_span_of(name)));
    }
}

static void read_sizes(const fy_cfg *layer, sizes *out)
{
    check_keys(layer);
    fy_cfg_u32(layer, "head_dim", &out->head_dim);
    fy_cfg_u32(layer, "num_key_value_heads", &out->n_head_kv);
    if (out->head_dim == 0 || out->n_head_kv == 0)
        fy_fail(layer->e, FY_EFORMAT,
                "%shead_dim is %u and num_key_value_heads %u; expected 1 or more", layer->prefix,
                out->head_dim, out->n_head_kv);
}

static uint32_t without_window(const fy_hparams *hp)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        n += !fy_layer_has_window(hp, i);
    return n;
}

/* The sizes of layers without the window; those of the others are in config.json itself. */
void fy_hf_read_overrides(fy_hf_config *c, const fy_cfg *s)
{
    const fy_cfg all = fy_cfg_below(s, key);
    fy_hparams *hp = &c->hp;
    if (hp->head_dim_swa == 0 || all.obj == NULL || hp->n_layer > FY_N_LAYER_MAX)
        return;
    const sizes usual = {hp->head_dim_swa,
                         hp->n_head_kv_swa != 0 ? hp->n_head_kv_swa : hp->n_head_kv};
    sizes full = usual;
    uint32_t n = 0, layer;
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)all.obj, name, v)
    {
        if (!layer_of(s, name, hp, &layer))
            return;
        const fy_cfg below = fy_cfg_below(&all, name);
        sizes own = usual;
        read_sizes(&below, &own);
        if (n++ > 0 && memcmp(&own, &full, sizeof own) != 0)
            fy_fail(s->e, FY_EUNSUPPORTED, "%s%s: the layers without a window differ", s->prefix,
                    key);
        full = own;
    }
    if (n != 0 && n != without_window(hp))
        fy_fail(s->e, FY_EUNSUPPORTED, "%s%s has %u of the %u layers without a window", s->prefix,
                key, n, without_window(hp));
    hp->head_dim = full.head_dim;
    hp->n_head_kv = full.n_head_kv;
    hp->n_head_kv_swa = usual.n_head_kv != full.n_head_kv ? usual.n_head_kv : 0;
}
