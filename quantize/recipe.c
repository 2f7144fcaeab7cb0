#include "quantize/recipe.h"

#include <stdio.h>
#include <string.h>

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

int fy_recipe_for(fy_recipe *r, const fy_gguf *g, fy_type target, bool llama, fy_err *e)
{
    *r = (fy_recipe){.target = target, .llama = llama};
    if (!llama)
        return 0;
    if (!fy_llama_types_has(target))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "--recipe llama: of %s llama-quantize makes mixtures by layer, which ferry "
                       "does not; leave the recipe out",
                       fy_type_name(target));
    if (fy_gguf_get_str(g, FY_KEY_ARCHITECTURE, &r->model.arch, e) != 0)
        return -1;
    char key[128]; /* of a longer architecture nothing is known */
    snprintf(key, sizeof key, "%.*s.expert_count", (int)r->model.arch.len, r->model.arch.ptr);
    if (fy_gguf_find(g, key) != NULL && fy_gguf_get_u32(g, key, &r->model.n_expert, e) != 0)
        return -1;
    r->model.has_output = fy_gguf_tensor_find(g, "output.weight") != NULL;
    return 0;
}

fy_type fy_recipe_type(const fy_recipe *r, const fy_gguf_tensor *t, bool *fallback)
{
    const fy_type wanted = r->llama ? fy_llama_type(&r->model, t->name, r->target) : r->target;
    const fy_type type = fy_type_for_rows(wanted, t->ne[0]);
    *fallback = type != wanted;
    return type;
}
