/* config.json of families with Mamba-2 mixers: which of the families of a class it describes, which
 * layers are what, the widths, and the multipliers of Falcon-H1, which become part of the weights.
 */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "convert/source/config_value.h"

/* --- which family ----------------------------------------------------------------------------- */

static bool is_mamba(const json_t *type)
{
    const char *t = json_string_value(type);
    return t != NULL && (strcmp(t, "mamba") == 0 || strcmp(t, "linear_attention") == 0);
}

/* In a class that may have both kinds of layers, all are mixers unless it says otherwise. */
static bool has_mamba(const fy_cfg *s)
{
    const json_t *types = fy_cfg_value(s, "layer_types");
    bool some = types == NULL;
    for (size_t i = 0; i < json_array_size(types); i++)
        some |= is_mamba(json_array_get(types, i));
    return some;
}

const fy_family *fy_hf_variant(const fy_family *f, const fy_cfg *s)
{
    const fy_family *fits = f;
    uint32_t n_expert = 0;
    int n_mixed = 0;
    for (const fy_family *const *i = fy_families; *i != NULL; i++) {
        if (strcmp((*i)->hf_archs[0], f->hf_archs[0]) != 0)
            continue;
        n_mixed += (*i)->ssm_place != FY_SSM_NONE;
        n_expert = (*i)->moe ? (*i)->defaults.n_expert : n_expert;
    }
    if (n_mixed == 0)
        return f;
    fy_cfg_u32(s, "num_local_experts", &n_expert);
    for (const fy_family *const *i = fy_families; *i != NULL; i++) {
        if (strcmp((*i)->hf_archs[0], f->hf_archs[0]) == 0 && (*i)->moe == (n_expert > 0) &&
            ((*i)->ssm_place != FY_SSM_NONE) == has_mamba(s))
            fits = *i;
    }
    return fits;
}

/* --- layers ----------------------------------------------------------------------------------- */

/* transformers 5 writes the list alone. */
void fy_hf_count_layers(fy_hf_config *c, const fy_cfg *s)
{
    const json_t *types = fy_cfg_value(s, "layers_block_type");
    const char *pattern;
    size_t n = json_array_size(types);
    if (c->family->ssm_place != FY_SSM_ALONE || fy_cfg_value(s, "num_hidden_layers") != NULL)
        return;
    if (fy_cfg_string(s, "hybrid_override_pattern", &pattern))
        n = strlen(pattern);
    if (n > 0)
        c->hp.n_layer = n < INT32_MAX ? (uint32_t)n : INT32_MAX;
}

static void put_kind(fy_hf_config *c, const fy_cfg *s, const char *key, const json_t *v,
                     uint32_t layer)
{
    const char *t = json_string_value(v);
    const bool attention =
        t != NULL && (strcmp(t, "attention") == 0 || strcmp(t, "full_attention") == 0);
    const bool alone = c->family->ssm_place == FY_SSM_ALONE;
    const bool ffn = alone && t != NULL && strcmp(t, "mlp") == 0;
    if (!attention && !ffn && !is_mamba(v))
        fy_cfg_bad(s, key, v, alone ? "mamba, attention or mlp" : "mamba or attention");
    fy_layer_put(&c->hp.no_attn_layers, layer, !attention);
    fy_layer_put(&c->hp.no_ffn_layers, layer, alone && !ffn);
}

static void read_types(fy_hf_config *c, const fy_cfg *s, const char *key)
{
    const json_t *types = fy_cfg_list(s, key, c->hp.n_layer);
    if (types == NULL)
        fy_fail(s->e, FY_EFORMAT, "%s%s is missing: it says what the layers are", s->prefix, key);
    for (uint32_t i = 0; i < c->hp.n_layer && types != NULL; i++)
        put_kind(c, s, key, json_array_get(types, i), i);
}

/* "M-M*-": a letter for each layer. */
static void read_pattern(fy_hf_config *c, const fy_cfg *s, const char *pattern)
{
    static const char key[] = "hybrid_override_pattern";
    char q[FY_QUOTE_BYTES];
    if (strlen(pattern) != c->hp.n_layer) {
        fy_fail(s->e, FY_EFORMAT, "%s%s names %zu layers; num_hidden_layers is %u", s->prefix, key,
                strlen(pattern), c->hp.n_layer);
        return;
    }
    for (uint32_t i = 0; i < c->hp.n_layer; i++) {
        const char kind = pattern[i];
        if (kind == 'E')
            fy_fail(s->e, FY_EUNSUPPORTED,
                    "%s%s has E for layer %u: ferry does not compute %s models with experts",
                    s->prefix, key, i, c->family->name);
        else if (strchr("M*-", kind) == NULL)
            fy_fail(s->e, FY_EFORMAT, "%s%s is '%s'; expected M, * or - for each layer", s->prefix,
                    key, fy_quote(q, sizeof q, fy_span_of(pattern)));
        fy_layer_put(&c->hp.no_attn_layers, i, kind != '*');
        fy_layer_put(&c->hp.no_ffn_layers, i, kind != '-');
    }
}

static void read_kinds(fy_hf_config *c, const fy_cfg *s)
{
    const fy_ssm_place place = c->family->ssm_place;
    const char *pattern;
    if (place == FY_SSM_ALONE && fy_cfg_string(s, "hybrid_override_pattern", &pattern))
        read_pattern(c, s, pattern);
    else if (place == FY_SSM_ALONE)
        read_types(c, s, "layers_block_type");
    else if (place == FY_SSM_INSTEAD && fy_cfg_value(s, "layer_types") != NULL)
        read_types(c, s, "layer_types");
    else if (place == FY_SSM_INSTEAD) /* the class's default */
        c->hp.no_attn_layers = fy_layers_of((fy_layer_pattern){.period = 1}, c->hp.n_layer);
}

/* --- widths ----------------------------------------------------------------------------------- */

/* 0: absent, or "auto". */
static uint32_t head_width(const fy_cfg *s)
{
    static const char *const keys[] = {"mamba_d_head", "mamba_head_dim"};
    uint32_t width = 0;
    for (int i = 0; i < 2; i++) {
        const char *word = json_string_value(fy_cfg_value(s, keys[i]));
        if (word == NULL || strcmp(word, "auto") != 0)
            fy_cfg_u32(s, keys[i], &width);
    }
    return width;
}

static void read_widths(fy_hf_config *c, const fy_cfg *s)
{
    fy_hparams *hp = &c->hp;
    const uint32_t width = head_width(s);
    uint32_t expand = 2;
    fy_cfg_u32(s, "mamba_expand", &expand);
    const bool by_heads = c->family->ssm_place == FY_SSM_ALONE;
    const uint64_t inner = by_heads ? (uint64_t)hp->ssm_heads * (width != 0 ? width : 64)
                                    : (uint64_t)expand * hp->n_embd;
    if (hp->ssm_inner == 0 || c->family->ssm_place != FY_SSM_BESIDE)
        hp->ssm_inner = inner < INT32_MAX ? (uint32_t)inner : INT32_MAX;
    if (width != 0 && (uint64_t)width * hp->ssm_heads != hp->ssm_inner)
        fy_fail(s->e, FY_EFORMAT,
                "%s%u heads of %u elements do not make the %u of a mixer (mamba_d_ssm, or "
                "mamba_expand times hidden_size)",
                s->prefix, hp->ssm_heads, width, hp->ssm_inner);
}

/* transformers 5 writes {"__float__": "Infinity"}, older ones the bare word, which is read as null.
 */
static bool is_infinite(const json_t *v)
{
    const char *word = json_string_value(json_object_get(v, "__float__"));
    return json_is_null(v) || (word != NULL && strcmp(word, "Infinity") == 0);
}

static void check_limit(const fy_cfg *s)
{
    static const char key[] = "time_step_limit";
    const json_t *v = fy_cfg_list(s, key, 2);
    if (v != NULL &&
        (json_number_value(json_array_get(v, 0)) != 0 || !is_infinite(json_array_get(v, 1))))
        fy_fail(s->e, FY_EUNSUPPORTED,
                "%s%s: ferry computes no limit but 0 and infinity, as files cannot hold another",
                s->prefix, key);
}

/* --- multipliers ------------------------------------------------------------------------------ */

static double number_in(const fy_cfg *s, const char *key, size_t n, size_t i)
{
    const json_t *list = fy_cfg_list(s, key, n);
    const json_t *v = json_array_get(list, i);
    if (list == NULL)
        return 1;
    if (!json_is_number(v) || !isfinite((float)json_number_value(v)))
        fy_cfg_bad(s, key, list, "a list of numbers");
    return json_number_value(v);
}

static double number(const fy_cfg *s, const char *key)
{
    double v = 1;
    fy_cfg_double(s, key, &v);
    return v;
}

/* Falcon-H1's, which no file has a key for. */
static void read_folds(fy_hf_config *c, const fy_cfg *s)
{
    const double in = number(s, "attention_in_multiplier");
    const struct {
        fy_slot slot;
        double by;
    } folds[] = {
        {FY_T_TOKEN_EMBD, number(s, "embedding_multiplier")},
        {FY_T_ATTN_Q, in},
        {FY_T_ATTN_K, in * number(s, "key_multiplier")},
        {FY_T_ATTN_V, in},
        {FY_T_ATTN_OUT, number(s, "attention_out_multiplier")},
        {FY_T_SSM_IN, number(s, "ssm_in_multiplier")},
        {FY_T_SSM_OUT, number(s, "ssm_out_multiplier")},
        {FY_T_FFN_GATE, number_in(s, "mlp_multipliers", 2, 0)},
        {FY_T_FFN_DOWN, number_in(s, "mlp_multipliers", 2, 1)},
        {FY_T_OUTPUT, number(s, "lm_head_multiplier")},
    };
    for (size_t i = 0; i < sizeof folds / sizeof folds[0]; i++)
        c->fold[folds[i].slot] = (float)folds[i].by;
    for (size_t i = 0; i < 5; i++)
        c->ssm_fold[i] = (float)number_in(s, "ssm_multipliers", 5, i);
    c->folds = true;
    if (c->tied && (c->fold[FY_T_TOKEN_EMBD] != 1 || c->fold[FY_T_OUTPUT] != 1))
        fy_fail(s->e, FY_EUNSUPPORTED,
                "%stie_word_embeddings is true, but embedding_multiplier or lm_head_multiplier is "
                "not 1: the multipliers become part of the weights, of which there is one matrix",
                s->prefix);
}

/* Which of z, x, B, C, dt a row of ssm_in is of. */
static int part_of(const fy_hparams *hp, uint64_t row)
{
    const uint64_t bc = (uint64_t)hp->ssm_groups * hp->ssm_state;
    const uint64_t rows[] = {hp->ssm_inner, hp->ssm_inner, bc, bc};
    int part = 0;
    while (part < 4 && row >= rows[part])
        row -= rows[part++];
    return part;
}

void fy_hf_fold(const fy_hf_config *c, fy_slot slot, uint64_t row, float *x, uint64_t n)
{
    if (!c->folds)
        return;
    if (slot == FY_T_SSM_IN) {
        const float by = c->ssm_fold[part_of(&c->hp, row)];
        for (uint64_t i = 0; i < n; i++)
            x[i] *= by;
    }
    for (uint64_t i = 0; i < n && c->fold[slot] != 0; i++)
        x[i] *= c->fold[slot];
}

/* --- all -------------------------------------------------------------------------------------- */

void fy_hf_read_mamba(fy_hf_config *c, const fy_cfg *s)
{
    const fy_ssm_place place = c->family->ssm_place;
    bool normed = false, norm_first = true;
    if (place == FY_SSM_NONE || place == FY_SSM_DELTA || c->hp.n_layer > FY_N_LAYER_MAX)
        return;
    read_kinds(c, s);
    read_widths(c, s);
    check_limit(s);
    if (place != FY_SSM_BESIDE)
        return;
    read_folds(c, s);
    fy_cfg_bool(s, "mamba_rms_norm", &normed);
    fy_cfg_bool(s, "mamba_norm_before_gate", &norm_first);
    if (normed && norm_first)
        fy_fail(s->e, FY_EUNSUPPORTED,
                "%smamba_norm_before_gate is true or absent; ferry computes the gate before the "
                "norm, as files mean it",
                s->prefix);
}
