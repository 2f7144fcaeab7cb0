#include "quantize/recipe.h"

#include <stdio.h>
#include <string.h>

/* Names (parts of names) of matrices that stay in their stored type: they are added, convolved or
 * decide the routing, so that rounding them costs quality and saves nothing. The list is
 * llama-quantize's (tensor_allows_quantization). */
static const char *const kept[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "position_embd.weight",
    "token_types.weight",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
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
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
};

/* Trailing dimensions of 1 are none. */
static uint32_t n_dims(const fy_gguf_tensor *t)
{
    uint32_t n = t->n_dims;
    while (n > 1 && t->ne[n - 1] == 1)
        n--;
    return n;
}

bool fy_recipe_is_matrix(const fy_gguf_tensor *t)
{
    if (n_dims(t) < 2 || !fy_span_ends(t->name, "weight"))
        return false;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (memmem(t->name.ptr, t->name.len, kept[i], strlen(kept[i])) != NULL)
            return false;
    }
    return true;
}

/* ARCH.NAME, of an array (a number per layer) the first. 0, 1: there is none, -1. */
static int number(const fy_gguf *g, fy_span arch, const char *name, uint32_t *out, fy_err *e)
{
    char key[192]; /* of a longer architecture nothing is known */
    const fy_gguf_kv *kv;
    snprintf(key, sizeof key, "%.*s.%s", (int)(arch.len < 128 ? arch.len : 128), arch.ptr, name);
    kv = fy_gguf_find(g, key);
    if (kv == NULL)
        return 1;
    if (kv->type != FY_KV_ARRAY)
        return fy_gguf_get_u32(g, key, out, e);
    const bool whole = kv->elem == FY_KV_U32 || kv->elem == FY_KV_I32;
    const int64_t first = whole && kv->count > 0 ? fy_gguf_int_at(kv, 0) : -1;
    if (first < 0)
        return fy_fail(e, FY_EFORMAT, "key '%s': expected a number, or one for each layer", key);
    *out = (uint32_t)first;
    return 0;
}

int fy_recipe_model(const fy_gguf *g, fy_llama_model *m, fy_err *e)
{
    *m = (fy_llama_model){0};
    int rc = fy_gguf_get_str(g, FY_KEY_ARCHITECTURE, &m->arch, e);
    if (rc == 0)
        rc = number(g, m->arch, "block_count", &m->n_layer, e);
    if (rc > 0)
        return fy_fail(e, FY_EFORMAT,
                       "--recipe llama asks for the architecture and its number of layers: a key "
                       "" FY_KEY_ARCHITECTURE " or ARCHITECTURE.block_count is missing");
    if (rc < 0 || number(g, m->arch, "attention.head_count", &m->n_head, e) < 0)
        return -1;
    m->n_head_kv = m->n_head;
    return number(g, m->arch, "attention.head_count_kv", &m->n_head_kv, e) < 0 ||
                   number(g, m->arch, "expert_count", &m->n_expert, e) < 0
               ? -1
               : 0;
}
