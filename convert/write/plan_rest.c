/* What a checkpoint has beside the rows of its family. */
#include <string.h>

#include "base/opts.h"
#include "base/str.h"
#include "convert/write/convert_plan_impl.h"

/* --- dropped by name -------------------------------------------------------------------------- */

static const struct {
    const char *end, *reason;
} droppable[] = {
    {".rotary_emb.inv_freq", "rotation frequencies follow from config.json"},
    {".rotary_pos_emb.inv_freq", "rotation frequencies follow from config.json"},
    {".weight_scale_inv", "the scale of an FP8 matrix, which is multiplied by it"},
    {".activation_scale", "a scale of activations, which ferry scales as it computes"},
    {".input_scale", "a scale of activations, which ferry scales as it computes"},
    {"rope.freqs", "rotation frequencies follow from params.json"},
    {"freqs_cos", "rotation frequencies follow from the configuration"},
    {"freqs_sin", "rotation frequencies follow from the configuration"},
    {".attention.mask", "a causal mask, not a weight"},
    {".attn.masked_bias", "a causal mask, not a weight"},
    {".attn.bias", "a causal mask, not a weight"},
    {".attention.masked_bias", "a causal mask, not a weight"},
    {".attention.bias", "a causal mask, not a weight"},
};

/* What multi-modal checkpoints have beside the text model; with or without "model." in front. */
static const char *const towers[] = {
    "vision_tower.",      "vision_model.",    "vision_encoder.",
    "vision_projection.", "visual.",          "multi_modal_projector.",
    "mm_projector.",      "image_newline",    "audio_tower.",
    "audio_model.",       "audio_projector.", "embed_vision.",
    "embed_audio.",       "connector.",       "mlp1.",
};

static bool is_of_tower(fy_span name)
{
    static const char model[] = "model.";
    size_t skip = sizeof model - 1;
    if (name.len > skip && memcmp(name.ptr, model, skip) == 0)
        name = (fy_span){name.ptr + skip, name.len - skip};
    for (size_t i = 0; i < sizeof towers / sizeof towers[0]; i++) {
        size_t n = strlen(towers[i]);
        if (name.len >= n && memcmp(name.ptr, towers[i], n) == 0)
            return true;
    }
    return false;
}

static const char *drop_reason(const fy_hf_config *c, fy_span name)
{
    const char *const *own = c->family->drop;
    for (size_t i = 0; i < sizeof droppable / sizeof droppable[0]; i++) {
        if (fy_span_ends(name, droppable[i].end))
            return droppable[i].reason;
    }
    for (; own != NULL && *own != NULL; own++) {
        if (fy_span_ends(name, *own))
            return "not a weight of this family";
    }
    return c->nested && is_of_tower(name) ? "not of the text model" : NULL;
}

/* --- unknown ---------------------------------------------------------------------------------- */

#define MAX_CANDIDATES 64

/* The name of the family's table that is nearest, in the layer the unknown name has. */
static const char *nearest(const fy_plan_builder *b, fy_span name, uint32_t layer,
                           char buffer[MAX_CANDIDATES][FY_HF_NAME_BYTES])
{
    const fy_family *f = b->plan->config->family;
    char word[FY_HF_NAME_BYTES];
    const char *candidates[MAX_CANDIDATES];
    size_t n = 0;
    if (name.len >= sizeof word || memchr(name.ptr, '\0', name.len) != NULL)
        return NULL;
    memcpy(word, name.ptr, name.len);
    word[name.len] = '\0';
    for (size_t i = 0; i < f->n_rows && n < MAX_CANDIDATES; i++) {
        char row[FY_ROW_NAME_BYTES];
        if (f->rows[i].hf == NULL)
            continue;
        fy_row_name(f->rows[i].hf, layer, row);
        fy_name_in_form(b->form, row, buffer[n]);
        candidates[n] = buffer[n];
        n++;
    }
    return fy_nearest(word, candidates, n);
}

/* The number where the family's rows have that of the layer; 0 for other names. */
static uint32_t layer_of(const fy_plan_builder *b, fy_span name)
{
    const fy_family *f = b->plan->config->family;
    for (size_t i = 0; i < f->n_rows; i++) {
        char pattern[FY_HF_NAME_BYTES];
        const char *mark;
        if (f->rows[i].hf == NULL)
            continue;
        fy_name_in_form(b->form, f->rows[i].hf, pattern);
        mark = strstr(pattern, "%u");
        size_t at = mark != NULL ? (size_t)(mark - pattern) : 0;
        if (mark == NULL || name.len <= at || memcmp(name.ptr, pattern, at) != 0)
            continue;
        uint64_t v = 0;
        for (; at < name.len && name.ptr[at] >= '0' && name.ptr[at] <= '9' && v < INT32_MAX; at++)
            v = v * 10 + (uint64_t)(name.ptr[at] - '0');
        return v < INT32_MAX ? (uint32_t)v : INT32_MAX;
    }
    return 0;
}

static void unexplained(fy_plan_builder *b, fy_span name)
{
    char q[FY_ROW_NAME_BYTES], buffer[MAX_CANDIDATES][FY_HF_NAME_BYTES];
    uint32_t n_layer = b->plan->config->hp.n_layer, layer = layer_of(b, name);
    fy_quote(q, sizeof q, name);
    b->ps.n_unknown++;
    if (layer >= n_layer) {
        fy_plan_problem(b, "%s is unknown (config.json says %u layers)", q, n_layer);
        return;
    }
    const char *near = b->ps.n < FY_PLAN_LOGGED ? nearest(b, name, layer, buffer) : NULL;
    if (near != NULL)
        fy_plan_problem(b, "%s is unknown (the nearest known name is %s)", q, near);
    else
        fy_plan_problem(b, "%s is unknown", q);
}

void fy_plan_account_for_rest(fy_plan_builder *b)
{
    for (size_t i = 0; i < fy_ckpt_n_tensors(b->dir); i++) {
        if (b->used[i])
            continue;
        const fy_ckpt_tensor *src = fy_ckpt_at(b->dir, i);
        const char *reason = drop_reason(b->plan->config, src->name);
        if (reason == NULL && b->o->allow_unmapped)
            reason = "not of this family (--allow-unmapped)";
        if (reason != NULL)
            fy_plan_drop_source(b, src, reason);
        else
            unexplained(b, src->name);
    }
}
