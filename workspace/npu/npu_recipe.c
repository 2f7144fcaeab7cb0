/* Recipes: which tensor gets which type on the NPU. Reading them, checking them against a chip, and
 * the types there are. */
#include "workspace/npu/npu_recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/math.h"
#include "base/opts.h"
#include "base/str.h"
#include "workspace/data/data_files.h"

/* --- types ------------------------------------------------------------------------------------ */

#define TILE 32 /* HTP computes in tiles of 32 channels and 32 inputs */

static const struct {
    const char *name;
    unsigned bits;
    unsigned block;       /* of inputs with a scale of 1 byte; 0: none */
    unsigned scale_bytes; /* of each channel */
} types[FY_NPU_TYPE_COUNT] = {
    [FY_NPU_16A4W] = {"16a4w", 4, 0, 4},
    [FY_NPU_LPBQ_16] = {"16a4w-lpbq16", 4, 16, 4},
    [FY_NPU_LPBQ_32] = {"16a4w-lpbq32", 4, 32, 4},
    [FY_NPU_LPBQ_64] = {"16a4w-lpbq64", 4, 64, 4},
    [FY_NPU_16A8W] = {"16a8w", 8, 0, 4},
    [FY_NPU_8A4W] = {"8a4w", 4, 0, 4},
    [FY_NPU_FP16] = {"fp16", 16, 0, 0},
    [FY_NPU_FP16A8W] = {"fp16a8w", 8, 0, 4},
    [FY_NPU_FP16A4W] = {"fp16a4w", 4, 0, 4},
};

const char *fy_npu_type_name(fy_npu_type t)
{
    return types[t].name;
}

bool fy_npu_type_is_float(fy_npu_type t)
{
    return t >= FY_NPU_FP16;
}

unsigned fy_npu_type_bits(fy_npu_type t)
{
    return types[t].bits;
}

unsigned fy_npu_type_block(fy_npu_type t)
{
    return types[t].block;
}

fy_npu_type fy_npu_type_of(fy_span name)
{
    fy_npu_type t = FY_NPU_16A4W;
    while (t < FY_NPU_TYPE_COUNT && !fy_span_is(name, types[t].name))
        t++;
    return t;
}

bool fy_npu_matrix_bytes(fy_npu_type t, uint64_t n_out, uint64_t n_in, uint64_t *bytes)
{
    uint64_t rows, row_elems, row, blocks, all;
    if (!fy_align_u64(n_out, TILE, &rows) || !fy_align_u64(n_in, TILE, &row_elems) ||
        !fy_mul_u64(row_elems / 8, types[t].bits, &row)) /* a tile's row is whole bytes */
        return false;
    blocks =
        types[t].block > 0 ? row_elems / types[t].block + (row_elems % types[t].block != 0) : 0;
    if (!fy_add_u64(row, blocks, &row) || !fy_add_u64(row, types[t].scale_bytes, &row) ||
        !fy_mul_u64(rows, row, &all))
        return false;
    *bytes = all;
    return true;
}

const char *fy_npu_type_refuses(fy_npu_type t, uint64_t n_in)
{
    if (types[t].block == 0 || n_in % types[t].block == 0)
        return NULL;
    return types[t].block == 16   ? "LPBQ 16 wants rows of whole blocks of 16"
           : types[t].block == 32 ? "LPBQ 32 wants rows of whole blocks of 32"
                                  : "LPBQ 64 wants rows of whole blocks of 64";
}

/* --- reading ---------------------------------------------------------------------------------- */

#define MAX_RULES 256

void fy_npu_recipe_release(fy_npu_recipe *r)
{
    for (size_t i = 0; i < r->n_rules; i++)
        free(r->rules[i].slots);
    free(r->rules);
    free(r->name);
    free(r->title);
    free(r->source);
    fy_data_list_free(r->models, r->n_models);
    *r = (fy_npu_recipe){0};
}

/* --- names ------------------------------------------------------------------------------------ */

/* GGUF's words, and Llama's own, which ExecuTorch's recipes use. Those of the feed-forward mean the
 * experts' matrices, too. Fused tensors are parted into these. RWKV's are those of its files; low_1
 * and low_2 are the first and the second of all pairs of low rank. */
enum { MAX_PARTS = 5 };
static const struct {
    const char *gguf, *llama;
    fy_slot slot[MAX_PARTS];
    size_t n;
} words[] = {
    {"attn_q", "wq", {FY_T_ATTN_Q}, 1},
    {"attn_k", "wk", {FY_T_ATTN_K}, 1},
    {"attn_v", "wv", {FY_T_ATTN_V}, 1},
    {"attn_qkv", NULL, {FY_T_ATTN_Q, FY_T_ATTN_K, FY_T_ATTN_V}, 3},
    {"attn_output", "wo", {FY_T_ATTN_OUT}, 1},
    {"ffn_gate", "w1", {FY_T_FFN_GATE, FY_T_FFN_GATE_EXPS, FY_T_FFN_GATE_SHEXP}, 3},
    {"ffn_down", "w2", {FY_T_FFN_DOWN, FY_T_FFN_DOWN_EXPS, FY_T_FFN_DOWN_SHEXP}, 3},
    {"ffn_up", "w3", {FY_T_FFN_UP, FY_T_FFN_UP_EXPS, FY_T_FFN_UP_SHEXP}, 3},
    {"output", "head", {FY_T_OUTPUT}, 1},
    {"time_mix_receptance", NULL, {FY_T_MIX_R}, 1},
    {"time_mix_key", NULL, {FY_T_MIX_K}, 1},
    {"time_mix_value", NULL, {FY_T_MIX_V}, 1},
    {"time_mix_gate", NULL, {FY_T_MIX_G}, 1},
    {"time_mix_output", NULL, {FY_T_MIX_OUT}, 1},
    {"time_mix_low_1",
     NULL,
     {FY_T_MIX_W1, FY_T_MIX_DECAY_1, FY_T_MIX_ICLR_1, FY_T_MIX_VALUE_1, FY_T_MIX_GATE_1},
     5},
    {"time_mix_low_2",
     NULL,
     {FY_T_MIX_W2, FY_T_MIX_DECAY_2, FY_T_MIX_ICLR_2, FY_T_MIX_VALUE_2, FY_T_MIX_GATE_2},
     5},
    {"channel_mix_receptance", NULL, {FY_T_FFN_R}, 1},
};
enum { N_WORDS = sizeof words / sizeof words[0] };

static int refuse_word(fy_span text, fy_err *e)
{
    const char *all[2 * N_WORDS];
    char shown[FY_QUOTE_BYTES], word[FY_QUOTE_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < N_WORDS; i++) {
        all[n++] = words[i].gguf;
        if (words[i].llama != NULL)
            all[n++] = words[i].llama;
    }
    fy_quote(shown, sizeof shown, text);
    snprintf(word, sizeof word, "%.*s", (int)(text.len < sizeof word ? text.len : sizeof word - 1),
             text.ptr);
    const char *near = fy_nearest(word, all, n);
    if (near != NULL)
        return fy_fail(e, FY_EFORMAT, "unknown word '%s'; did you mean '%s'?", shown, near);
    return fy_fail(
        e, FY_EFORMAT,
        "unknown word '%s', expected attn_q, attn_k, attn_v, attn_qkv, attn_output, "
        "ffn_gate, ffn_down, ffn_up, output, or Llama's wq, wk, wv, wo, w1, w2, w3, head; of RWKV "
        "time_mix_receptance, _key, _value, _gate, _output, _low_1, _low_2, channel_mix_receptance",
        shown);
}

static bool has_slot(const fy_npu_rule *r, fy_slot slot)
{
    for (size_t i = 0; i < r->n_slots; i++) {
        if (r->slots[i] == slot)
            return true;
    }
    return false;
}

static int add_word(fy_npu_rule *r, fy_span text, size_t *cap, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    size_t w = 0;
    while (w < N_WORDS && !fy_span_is(text, words[w].gguf) &&
           (words[w].llama == NULL || !fy_span_is(text, words[w].llama)))
        w++;
    if (w == N_WORDS)
        return refuse_word(text, e);
    for (size_t i = 0; i < words[w].n; i++) {
        if (has_slot(r, words[w].slot[i]))
            return fy_fail(e, FY_EFORMAT, "'%s' is named already",
                           fy_quote(shown, sizeof shown, text));
        if (fy_append(&r->slots, &r->n_slots, cap, &words[w].slot[i], sizeof *r->slots, e) != 0)
            return -1;
    }
    return 0;
}

static int take_tensors(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    fy_npu_rule *r = at;
    size_t cap = 0;
    fy_span s;
    int more;
    if (fy_json_array_begin(j, e) != 0)
        return -1;
    while ((more = fy_json_array_next(j, e)) == 1) {
        if (fy_json_string(j, &s, NULL, e) != 0 || add_word(r, s, &cap, e) != 0)
            return -1;
    }
    return more != 0 || r->n_slots > 0
               ? more
               : fy_fail(e, FY_EFORMAT, "an empty list; leave it out to mean every matrix");
}

static bool take_digits(const char **p, uint32_t *out)
{
    size_t n = strspn(*p, "0123456789");
    if (n == 0 || n > 6)
        return false;
    *out = (uint32_t)strtoul(*p, NULL, 10);
    *p += n;
    return true;
}

/* "3", "0-3" or "all". */
static int take_layers(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    fy_npu_rule *r = at;
    char shown[FY_QUOTE_BYTES], text[16] = "";
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    fy_quote(shown, sizeof shown, s);
    if (s.len < sizeof text)
        memcpy(text, s.ptr, s.len);
    uint32_t first = 0, last = 0;
    const char *p = text;
    const bool all = fy_span_is(s, "all");
    bool ok = !all && take_digits(&p, &first);
    last = first;
    if (ok && *p == '-') {
        p++;
        ok = take_digits(&p, &last);
    }
    if (!all && (!ok || p != text + s.len))
        return fy_fail(e, FY_EFORMAT, "'%s', expected \"0-3\", \"5\" or \"all\"", shown);
    if (last < first)
        return fy_fail(e, FY_EFORMAT, "'%s' ends before it begins", shown);
    if (last >= FY_N_LAYER_MAX)
        return fy_fail(e, FY_EFORMAT, "'%s', no model has more than %d", shown, FY_N_LAYER_MAX);
    r->first_layer = first;
    r->end_layer = all ? UINT32_MAX : last + 1;
    return 0;
}

static int take_type(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    char shown[FY_QUOTE_BYTES];
    fy_npu_type *out = at;
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    if ((*out = fy_npu_type_of(s)) != FY_NPU_TYPE_COUNT)
        return 0;
    fy_str all = {0};
    for (fy_npu_type k = FY_NPU_16A4W; k < FY_NPU_TYPE_COUNT; k++)
        fy_str_printf(&all, "%s%s", k > 0 ? ", " : "", fy_npu_type_name(k));
    fy_fail(e, FY_EFORMAT, "'%s', expected one of %s", fy_quote(shown, sizeof shown, s),
            fy_str_z(&all));
    fy_str_release(&all);
    return -1;
}

/* --- rules ------------------------------------------------------------------------------------ */

/* Which of two rules counts is their order, unless they are for the very same: then one of them is
 * a mistake. */
static bool same_place(const fy_npu_rule *a, const fy_npu_rule *b)
{
    if (a->first_layer != b->first_layer || a->end_layer != b->end_layer ||
        a->n_slots != b->n_slots)
        return false;
    for (size_t i = 0; i < a->n_slots; i++) {
        if (!has_slot(b, a->slots[i]))
            return false;
    }
    return true;
}

static int check_rule(void *user, void *items, size_t i, fy_err *e)
{
    (void)user;
    const fy_npu_rule *rules = items, *rule = &rules[i];
    const bool all = rule->first_layer == 0 && rule->end_layer == UINT32_MAX;
    if (rule->type == FY_NPU_TYPE_COUNT)
        return fy_fail(e, FY_EFORMAT, "\"type\" is missing");
    if (all && rule->n_slots == 0)
        return fy_fail(e, FY_EFORMAT,
                       "names neither tensors nor layers: that is the recipe's type");
    if (!all && has_slot(rule, FY_T_OUTPUT))
        return fy_fail(e, FY_EFORMAT, "the head is in no layer: give it a rule without \"layers\"");
    for (size_t k = 0; k < i; k++) {
        if (same_place(&rules[k], rule))
            return fy_fail(e, FY_EFORMAT, "is for the same tensors and layers as [%zu]%s", k,
                           rules[k].type != rule->type ? ", with another type" : "");
    }
    return 0;
}

static const fy_json_row rule_rows[] = {
    {.key = "layers", .type = FY_JSON_ROW_TAKE, .take = take_layers},
    {.key = "tensors", .type = FY_JSON_ROW_TAKE, .take = take_tensors},
    {.key = "type",
     .type = FY_JSON_ROW_TAKE,
     .offset = offsetof(fy_npu_rule, type),
     .take = take_type},
};
static const fy_npu_rule every_layer = {.end_layer = UINT32_MAX, .type = FY_NPU_TYPE_COUNT};
static const fy_json_table rule_table = {
    FY_JSON_ROWS(rule_rows), .strict = true,        .item_bytes = sizeof(fy_npu_rule),
    .most = MAX_RULES,       .fresh = &every_layer, .check = check_rule};

/* --- the file --------------------------------------------------------------------------------- */

typedef enum { CORE_OF_TYPE, CORE_U16, CORE_FP16 } core;

/* What the file says: the members of a recipe first, so that the rows below fill both. */
typedef struct {
    fy_npu_recipe r;
    core core;
} parsed;

static int take_core(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    core *out = at;
    char shown[FY_QUOTE_BYTES];
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    *out = fy_span_is(s, "u16") ? CORE_U16 : fy_span_is(s, "fp16") ? CORE_FP16 : CORE_OF_TYPE;
    return *out != CORE_OF_TYPE ? 0
                                : fy_fail(e, FY_EFORMAT, "'%s', expected \"u16\" or \"fp16\"",
                                          fy_quote(shown, sizeof shown, s));
}

static int take_models(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    fy_npu_recipe *r = at;
    return fy_data_list(j, &r->models, &r->n_models, e);
}

static const fy_json_row recipe_rows[] = {
    FY_DATA_TEXT("title", fy_npu_recipe, title, 0),
    FY_DATA_TEXT("source", fy_npu_recipe, source, 0),
    {.key = "type",
     .type = FY_JSON_ROW_TAKE,
     .offset = offsetof(fy_npu_recipe, type),
     .take = take_type},
    FY_JSON_WITHIN(U32, "kv_bits", fy_npu_recipe, kv_bits, false, 8, 16),
    {.key = "core", .type = FY_JSON_ROW_TAKE, .offset = offsetof(parsed, core), .take = take_core},
    FY_JSON_FIELD(BOOL, "rotate_keys", fy_npu_recipe, rotate_keys, false),
    {.key = "models", .type = FY_JSON_ROW_TAKE, .take = take_models},
    {.key = "rules",
     .type = FY_JSON_ROW_LIST,
     .offset = offsetof(fy_npu_recipe, rules),
     .n_at = offsetof(fy_npu_recipe, n_rules),
     .table = &rule_table},
};
static const fy_json_table recipe_table = {FY_JSON_ROWS(recipe_rows), .strict = true};

static int complete(parsed *p, const char *name, fy_err *e)
{
    fy_npu_recipe *r = &p->r;
    if (r->type == FY_NPU_TYPE_COUNT)
        return fy_fail(e, FY_EFORMAT, "\"type\" is missing: of every matrix that no rule names");
    if (r->kv_bits == 0)
        return fy_fail(e, FY_EFORMAT, "\"kv_bits\" is missing: 8 or 16");
    if (r->kv_bits != 8 && r->kv_bits != 16)
        return fy_fail(e, FY_EFORMAT, "kv_bits: %u, expected 8 or 16", r->kv_bits);
    r->float_core = p->core == CORE_OF_TYPE ? fy_npu_type_is_float(r->type) : p->core == CORE_FP16;
    if (r->float_core && r->kv_bits == 8)
        return fy_fail(e, FY_EFORMAT,
                       "kv_bits: 8, expected 16: between matrices of %s it computes in fp16, keys "
                       "and values too",
                       fy_npu_type_name(r->type));
    r->name = strdup(name);
    if (r->title == NULL)
        r->title = strdup(name);
    if (r->source == NULL)
        r->source = strdup("");
    return r->name != NULL && r->title != NULL && r->source != NULL ? 0 : fy_nomem(e);
}

int fy_npu_recipe_parse(const void *p, size_t n, const char *name, fy_npu_recipe *out, fy_err *e)
{
    parsed of = {.r.type = FY_NPU_TYPE_COUNT};
    const int rc = fy_json_document_of((fy_span){p, n}, &recipe_table, &of, e) == 0
                       ? complete(&of, name, e)
                       : -1;
    if (rc == 0)
        *out = of.r;
    else
        fy_npu_recipe_release(&of.r);
    return rc;
}

/* --- a recipe --------------------------------------------------------------------------------- */

fy_npu_type fy_npu_recipe_type(const fy_npu_recipe *r, fy_slot slot, uint32_t layer)
{
    for (size_t i = r->n_rules; i > 0; i--) {
        const fy_npu_rule *rule = &r->rules[i - 1];
        bool all_layers = rule->first_layer == 0 && rule->end_layer == UINT32_MAX;
        bool there = slot == FY_T_OUTPUT ? all_layers
                                         : layer >= rule->first_layer && layer < rule->end_layer;
        if (there && (rule->n_slots == 0 || has_slot(rule, slot)))
            return rule->type;
    }
    return r->type;
}

/* --- floors ----------------------------------------------------------------------------------- */

static const struct {
    uint32_t arch;
    const char *what;
} floors[] = {
    [FY_HTP_LPBQ] = {69, "LPBQ"},
    [FY_HTP_FP16] = {73, "fp16"},
    [FY_HTP_KV_16] = {73, "a KV cache of 16 bits"},
    [FY_HTP_WEIGHT_SHARING] = {73, "weight sharing"},
};

bool fy_soc_has(const fy_soc *s, fy_htp_feature f)
{
    return s->htp_arch >= floors[f].arch && !(f == FY_HTP_FP16 && s->no_fp16);
}

/* The first that a chip can have. */
static const char *default_name(const fy_soc *soc, bool calibrated)
{
    if (!calibrated && fy_soc_has(soc, FY_HTP_FP16))
        return "fp16a8w";
    return fy_soc_has(soc, FY_HTP_LPBQ) ? "lpbq-32" : "16a4w";
}

/* where: "16a4w-lpbq32 of rules[1]". */
static int below(const char *recipe, const char *where, fy_htp_feature f, const fy_soc *soc,
                 const char *remedy, fy_err *e)
{
    if (soc->htp_arch >= floors[f].arch)
        return fy_fail(e, FY_EFIT, "recipe %s: %s: the NPU of %s does not compute in %s; %s",
                       recipe, where, soc->name, floors[f].what, remedy);
    return fy_fail(e, FY_EFIT, "recipe %s: %s: %s needs HTP V%u, %s has V%u; %s", recipe, where,
                   floors[f].what, floors[f].arch, soc->name, soc->htp_arch, remedy);
}

static int below_type(const fy_npu_recipe *r, const char *where, fy_htp_feature f,
                      const fy_soc *soc, fy_err *e)
{
    char remedy[64];
    snprintf(remedy, sizeof remedy, "it can have --recipe %s", default_name(soc, true));
    return below(r->name, where, f, soc, remedy, e);
}

static int check_type(const fy_npu_recipe *r, size_t rule, const fy_soc *soc, fy_err *e)
{
    char where[64];
    fy_npu_type t = rule == 0 ? r->type : r->rules[rule - 1].type;
    bool lpbq = t == FY_NPU_LPBQ_16 || t == FY_NPU_LPBQ_32 || t == FY_NPU_LPBQ_64;
    fy_htp_feature f = lpbq ? FY_HTP_LPBQ : FY_HTP_FP16;
    if ((!lpbq && !fy_npu_type_is_float(t)) || fy_soc_has(soc, f))
        return 0;
    if (rule == 0)
        snprintf(where, sizeof where, "%s of its default", fy_npu_type_name(t));
    else
        snprintf(where, sizeof where, "%s of rules[%zu]", fy_npu_type_name(t), rule - 1);
    return below_type(r, where, f, soc, e);
}

int fy_npu_recipe_check_states(const fy_npu_recipe *r, const fy_soc *soc, fy_err *e)
{
    if (fy_soc_has(soc, FY_HTP_FP16))
        return 0;
    return below(r->name, "states of RWKV", FY_HTP_FP16, soc, "run it on the CPU", e);
}

int fy_npu_recipe_check(const fy_npu_recipe *r, const fy_soc *soc, uint32_t kv_bits, fy_err *e)
{
    char where[64];
    uint32_t bits = kv_bits != 0 ? kv_bits : r->kv_bits;
    if (bits != 8 && bits != 16)
        return fy_fail(e, FY_EARG, "keys and values of %u bits, expected 8 or 16", bits);
    for (size_t i = 0; i <= r->n_rules; i++) {
        if (check_type(r, i, soc, e) != 0)
            return -1;
    }
    if (r->float_core && !fy_soc_has(soc, FY_HTP_FP16))
        return below_type(r, "its core of fp16", FY_HTP_FP16, soc, e);
    if (r->float_core && bits == 8)
        return fy_fail(e, FY_EFIT,
                       "recipe %s: --kv-bits 8: between matrices it computes in fp16, keys and "
                       "values too; it can have --kv-bits 16",
                       r->name);
    if (bits == 8 || fy_soc_has(soc, FY_HTP_KV_16))
        return 0;
    snprintf(where, sizeof where, "%s", kv_bits != 0 ? "--kv-bits 16" : "its kv_bits 16");
    return below(r->name, where, FY_HTP_KV_16, soc, "it can have --kv-bits 8", e);
}

/* --- the list --------------------------------------------------------------------------------- */

struct fy_npu_recipes {
    fy_npu_recipe **at; /* owned, [n], by name: those that were found stay where they are */
    size_t n, cap;
};

void fy_npu_recipes_free(fy_npu_recipes *r)
{
    for (size_t i = 0; r != NULL && i < r->n; i++) {
        fy_npu_recipe_release(r->at[i]);
        free(r->at[i]);
    }
    if (r != NULL)
        free(r->at);
    free(r);
}

size_t fy_npu_recipes_n(const fy_npu_recipes *r)
{
    return r->n;
}

const fy_npu_recipe *fy_npu_recipes_at(const fy_npu_recipes *r, size_t i)
{
    return r->at[i];
}

static fy_npu_recipe *find(const fy_npu_recipes *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->at[i]->name, name) == 0)
            return r->at[i];
    }
    return NULL;
}

/* Takes what *recipe holds; one of the same name is replaced. */
static fy_npu_recipe *put(fy_npu_recipes *r, fy_npu_recipe *recipe, fy_err *e)
{
    fy_npu_recipe *old = find(r, recipe->name);
    if (old != NULL) {
        fy_npu_recipe_release(old);
        *old = *recipe;
        return old;
    }
    fy_npu_recipe **grown = fy_grow(r->at, r->n, &r->cap, sizeof *grown),
                  *copy = malloc(sizeof *copy);
    r->at = grown != NULL ? grown : r->at;
    if (grown == NULL || copy == NULL) {
        free(copy);
        fy_npu_recipe_release(recipe);
        fy_nomem(e);
        return NULL;
    }
    *copy = *recipe;
    size_t i = r->n++;
    for (; i > 0 && strcmp(r->at[i - 1]->name, copy->name) > 0; i--)
        r->at[i] = r->at[i - 1];
    r->at[i] = copy;
    return copy;
}

/* "DIR/lpbq-32.json" -> "lpbq-32"; the caller frees it. */
static char *name_of(const char *path)
{
    fy_span base = fy_path_base(path);
    return strndup(base.ptr, base.len - (fy_span_ends(base, ".json") ? 5 : 0));
}

static fy_npu_recipe *add(fy_npu_recipes *r, const void *p, size_t n, const char *path, fy_err *e)
{
    fy_npu_recipe recipe, *placed = NULL;
    char *name = name_of(path);
    if (name == NULL)
        fy_nomem(e);
    else if (fy_npu_recipe_parse(p, n, name, &recipe, e) == 0)
        placed = put(r, &recipe, e);
    if (placed == NULL)
        fy_ctx(e, "%s", path);
    free(name);
    return placed;
}

static int add_own(void *user, const void *p, size_t n, const char *path, fy_err *e)
{
    return add(user, p, n, path, e) != NULL ? 0 : -1;
}

fy_npu_recipes *fy_npu_recipes_open(fy_err *e)
{
    fy_npu_recipes *r = calloc(1, sizeof *r);
    int rc = r != NULL ? 0 : fy_nomem(e);
    for (const fy_data_file *f = fy_data_files; rc == 0 && f->name != NULL; f++) {
        if (fy_span_begins(fy_span_of(f->name), "recipes/"))
            rc = add_own(r, f->data, f->size, f->name, e);
    }
    if (rc == 0)
        rc = fy_data_read_own("recipes.d", add_own, r, e);
    if (rc == 0)
        return r;
    fy_npu_recipes_free(r);
    return NULL;
}

typedef struct {
    fy_npu_recipes *list;
    const fy_npu_recipe *found;
} named_file;

static int add_named(void *user, const void *p, size_t n, const char *path, fy_err *e)
{
    named_file *f = user;
    f->found = add(f->list, p, n, path, e);
    return f->found != NULL ? 0 : -1;
}

/* Those that are for any model come first; of the others as many as a message holds. */
static void list_names(const fy_npu_recipes *r, fy_str *out)
{
    enum { ROOM = 380 };
    for (int published = 0; published < 2; published++) {
        for (size_t i = 0; i < r->n; i++) {
            if ((r->at[i]->n_models > 0) != published)
                continue;
            if (out->len > ROOM) {
                fy_str_puts(out, ", ...");
                return;
            }
            fy_str_printf(out, "%s%s", out->len > 0 ? ", " : "", r->at[i]->name);
        }
    }
}

static void refuse(const fy_npu_recipes *r, const char *name, fy_err *e)
{
    char shown[FY_QUOTE_BYTES], word[FY_QUOTE_BYTES];
    const char **names = calloc(r->n + 1, sizeof *names), *near = NULL;
    fy_str all = {0};
    snprintf(word, sizeof word, "%s", name);
    for (size_t i = 0; names != NULL && i < r->n; i++)
        names[i] = r->at[i]->name;
    if (names != NULL)
        near = fy_nearest(word, names, r->n);
    free(names);
    list_names(r, &all);
    fy_fail(e, FY_EARG, "no recipe '%s'%s%s%s; there are %s",
            fy_quote(shown, sizeof shown, fy_span_of(name)), near != NULL ? ", did you mean " : "",
            near != NULL ? near : "", near != NULL ? "?" : "", fy_str_z(&all));
    fy_str_release(&all);
}

const fy_npu_recipe *fy_npu_recipes_find(fy_npu_recipes *r, const char *name, fy_err *e)
{
    if (strchr(name, '/') != NULL || fy_span_ends(fy_span_of(name), ".json")) {
        named_file f = {r, NULL};
        return fy_data_read(name, add_named, &f, e) == 0 ? f.found : NULL;
    }
    const fy_npu_recipe *found = find(r, name);
    if (found != NULL)
        return found;
    refuse(r, name, e);
    return NULL;
}

const fy_npu_recipe *fy_npu_recipes_default(const fy_npu_recipes *r, const fy_soc *soc,
                                            bool calibrated)
{
    return find(r, default_name(soc, calibrated));
}
