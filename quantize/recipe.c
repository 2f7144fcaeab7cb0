#include "quantize/recipe.h"

#include <string.h>

#include "kernels/row.h"

/* Names (parts of names) of matrices that stay in their stored type: they are added, convolved or
 * decide the routing, so that rounding them costs quality and saves nothing. The list is
 * llama-quantize's. */
static const char *const kept[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_inp_shexp.weight",
    "position_embd.weight",
    "token_types.weight",
    "attn_rel_b.weight",
    "ssm_conv1d.weight",
    "shortconv.conv.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
};

bool fy_recipe_parse(const char *name, fy_type *out)
{
    fy_type t;
    if (!fy_type_parse(name, &t) || !fy_row_can_encode(t))
        return false;
    *out = t;
    return true;
}

bool fy_recipe_is_matrix(const fy_gguf_tensor *t)
{
    static const char end[] = "weight";
    size_t n = sizeof end - 1;
    if (t->n_dims < 2 || t->name.len < n || memcmp(t->name.ptr + t->name.len - n, end, n) != 0)
        return false;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (memmem(t->name.ptr, t->name.len, kept[i], strlen(kept[i])) != NULL)
            return false;
    }
    return true;
}

fy_type fy_recipe_type(const fy_gguf_tensor *t, fy_type target)
{
    return t->ne[0] % fy_type_get((uint32_t)target)->block == 0 ? target : FY_F16;
}
