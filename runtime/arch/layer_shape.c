/* What differs from layer to layer: the sizes of attention with and without the window, the width
 * of the feed-forward network, and whose keys and values a layer reads. */
#include "arch/graph_io.h"

static uint32_t or_usual(uint32_t own, uint32_t usual)
{
    return own != 0 ? own : usual;
}

static uint32_t width_of(const fy_hparams *hp, uint32_t layer)
{
    for (int i = 0; i < FY_FF_WIDTHS && hp->ff_other[i].n_ff != 0; i++) {
        if (fy_layer_in(&hp->ff_other[i].layers, layer))
            return hp->ff_other[i].n_ff;
    }
    return hp->n_ff;
}

fy_layer_shape fy_layer_shape_of(const fy_hparams *hp, uint32_t layer)
{
    fy_layer_shape s = {.head_dim = hp->head_dim,
                        .head_dim_v = hp->head_dim_v,
                        .n_rot = hp->n_rot,
                        .n_head_kv = hp->n_head_kv,
                        .n_ff = width_of(hp, layer)};
    if (fy_layer_has_window(hp, layer)) {
        s.head_dim = or_usual(hp->head_dim_swa, s.head_dim);
        s.head_dim_v = or_usual(hp->head_dim_v_swa, s.head_dim_v);
        s.n_rot = or_usual(hp->n_rot_swa, s.n_rot);
        s.n_head_kv = or_usual(hp->n_head_kv_swa, s.n_head_kv);
    }
    return s;
}

fy_hparams fy_hparams_of_layer(const fy_hparams *hp, uint32_t layer)
{
    const fy_layer_shape s = fy_layer_shape_of(hp, layer);
    fy_hparams like = *hp;
    like.head_dim = s.head_dim;
    like.head_dim_v = s.head_dim_v;
    like.n_rot = s.n_rot;
    like.n_head_kv = s.n_head_kv;
    like.n_ff = s.n_ff;
    return like;
}

static void raise_to(uint32_t *most, uint32_t n)
{
    *most = n > *most ? n : *most;
}

fy_layer_shape fy_layer_shape_max(const fy_hparams *hp)
{
    fy_layer_shape most = {0};
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const fy_layer_shape s = fy_layer_shape_of(hp, i);
        raise_to(&most.head_dim, s.head_dim);
        raise_to(&most.head_dim_v, s.head_dim_v);
        raise_to(&most.n_rot, s.n_rot);
        raise_to(&most.n_head_kv, s.n_head_kv);
        raise_to(&most.n_ff, s.n_ff);
    }
    return most;
}

bool fy_layers_alike(const fy_hparams *hp)
{
    return hp->head_dim_swa == 0 && hp->head_dim_v_swa == 0 && hp->n_rot_swa == 0 &&
           hp->n_head_kv_swa == 0 && hp->n_kv_shared == 0 && hp->ff_other[0].n_ff == 0;
}

uint32_t fy_kv_owner(const fy_hparams *hp, uint32_t layer)
{
    const uint32_t n_own = hp->n_layer - hp->n_kv_shared;
    if (layer < n_own)
        return layer;
    for (uint32_t i = n_own; i-- > 0;) {
        if (fy_layer_has_window(hp, i) == fy_layer_has_window(hp, layer))
            return i;
    }
    return layer; /* refused by fy_hparams_check */
}

bool fy_put_width(fy_hparams *hp, uint32_t layer, uint32_t n_ff)
{
    if (layer == 0)
        hp->n_ff = n_ff;
    if (n_ff == hp->n_ff)
        return true;
    for (int i = 0; i < FY_FF_WIDTHS; i++) {
        fy_ff_width *w = &hp->ff_other[i];
        if (w->n_ff == 0)
            w->n_ff = n_ff;
        if (w->n_ff == n_ff) {
            fy_layer_put(&w->layers, layer, true);
            return true;
        }
    }
    return false;
}

bool fy_is_layered(const fy_family *f)
{
    return fy_row_of_slot(f, FY_T_PL_EMBD) != NULL;
}
