/* llama-quantize's policy: which tensors of a model are matrices at all, what of a model its recipe
 * looks at, and the type that it gives each matrix. Source: llama.cpp, src/llama-quant.cpp. */
#include "policy/type_policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* --- matrices -------------------------------------------------------------------------------- */

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
                       "llama-quantize's choice of types asks for the architecture and its number "
                       "of layers: a key " FY_KEY_ARCHITECTURE
                       " or ARCHITECTURE.block_count is missing (--recipe pure asks for none)");
    if (rc < 0 || number(g, m->arch, "attention.head_count", &m->n_head, e) < 0)
        return -1;
    m->n_head_kv = m->n_head;
    return number(g, m->arch, "attention.head_count_kv", &m->n_head_kv, e) < 0 ||
                   number(g, m->arch, "expert_count", &m->n_expert, e) < 0
               ? -1
               : 0;
}

/* --- types ----------------------------------------------------------------------------------- */

bool fy_llama_is_embedding(fy_span name)
{
    return fy_span_is(name, "token_embd.weight") || fy_span_is(name, "per_layer_token_embd.weight");
}

bool fy_llama_is_output(fy_span name)
{
    return fy_span_is(name, "output.weight");
}

int fy_recipe_ftype(fy_recipe r, fy_type target)
{
    if (r == FY_RECIPE_LLAMA && (target == FY_Q4_K || target == FY_Q5_K))
        return target == FY_Q4_K ? 15 : 17;
    if (target == FY_Q3_K && (r == FY_RECIPE_LLAMA || r == FY_RECIPE_LLAMA_LARGE))
        return r == FY_RECIPE_LLAMA ? 12 : 13;
    return fy_type_ftype(target);
}

/* What a matrix is for: the first row that fits its name. */
typedef enum { OUTPUT, EMBEDDING, VALUE, KEY, ATTN_OUTPUT, UP, GATE, DOWN, OTHER } category;

static category category_of(fy_span name)
{
    static const struct {
        const char *part;
        category c;
    } rows[] = {
        {"attn_qkv.weight", VALUE},
        {"attn_kv_b.weight", VALUE},
        {"attn_v.weight", VALUE},
        {"attn_k.weight", KEY},
        {"attn_output.weight", ATTN_OUTPUT},
        {"ffn_up", UP},
        {"ffn_gate", GATE},
        {"ffn_down", DOWN},
    };
    if (fy_llama_is_output(name))
        return OUTPUT;
    if (fy_llama_is_embedding(name))
        return EMBEDDING;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (memmem(name.ptr, name.len, rows[i].part, strlen(rows[i].part)) != NULL)
            return rows[i].c;
    }
    return OTHER;
}

/* N of "blk.N..."; -1: none. */
static int32_t layer_of(fy_span name)
{
    int32_t n = -1;
    if (!fy_span_begins(name, "blk."))
        return -1;
    for (size_t i = 4; i < name.len && name.ptr[i] >= '0' && name.ptr[i] <= '9'; i++)
        n = n < 0 ? name.ptr[i] - '0' : n > INT32_MAX / 16 ? n : 10 * n + (name.ptr[i] - '0');
    return n;
}

/* llama-quantize goes through the tensors by layer, then by name. */
static int by_layer(const void *a, const void *b)
{
    const fy_type_item *const *x = a, *const *y = b;
    const fy_span p = (*x)->name, q = (*y)->name;
    const int32_t i = layer_of(p), j = layer_of(q);
    if (i != j)
        return i < j ? -1 : 1;
    return fy_span_order(p, q);
}

typedef struct {
    const fy_llama_model *m;
    fy_type target;
    bool small, large; /* Q3_K_S, Q4_K_S, Q5_K_S; Q3_K_L */
    bool falcon, tied;
    uint32_t n_values;        /* matrices for values in the file */
    uint32_t i_value, i_down; /* that were seen */
} rule;

/* More bits go to the first and last eighth of the layers and to every third between. */
static bool more_bits(uint32_t i, uint32_t n)
{
    return i < n / 8 || i >= (uint32_t)(7 * (uint64_t)n / 8) || (i - n / 8) % 3 == 2;
}

/* The architectures that llama.cpp calls 70B by their 80 layers. */
static bool is_70b(const fy_llama_model *m)
{
    if (m->n_layer != 80)
        return false;
    if (fy_span_is(m->arch, "llama") || fy_span_is(m->arch, "llama-embed"))
        return m->n_head != m->n_head_kv;
    return fy_span_is(m->arch, "deci") || fy_span_is(m->arch, "qwen2") ||
           fy_span_is(m->arch, "olmo");
}

/* Four heads or more share their keys and values. */
static bool has_wide_groups(const fy_llama_model *m)
{
    return m->n_head_kv > 0 && m->n_head / m->n_head_kv >= 4;
}

static fy_type value_type_by_rule(const rule *r, uint32_t i)
{
    switch ((int)r->target) {
    case FY_Q2_K:
        return has_wide_groups(r->m) ? FY_Q4_K : FY_Q3_K;
    case FY_Q3_K:
        return r->small ? FY_Q3_K : r->large || i < 2 ? FY_Q5_K : FY_Q4_K;
    case FY_IQ4_NL:
        return has_wide_groups(r->m) ? FY_Q5_K : FY_IQ4_NL;
    case FY_Q4_K:
        if (r->small)
            return i < 4 ? FY_Q5_K : FY_Q4_K;
        return more_bits(i, r->n_values) ? FY_Q6_K : FY_Q4_K;
    case FY_Q5_K:
        return !r->small && more_bits(i, r->n_values) ? FY_Q6_K : FY_Q5_K;
    default:
        return r->target;
    }
}

static fy_type value_type(rule *r)
{
    const fy_type t = value_type_by_rule(r, r->i_value++);
    if (r->m->n_expert == 8)
        return FY_Q8_0;
    return (t == FY_Q3_K || t == FY_Q4_K) && is_70b(r->m) ? FY_Q5_K : t;
}

static fy_type down_type_q3(const rule *r, uint32_t i)
{
    const uint32_t n = r->m->n_layer;
    if (r->small)
        return FY_Q3_K;
    if (r->large)
        return r->falcon ? FY_Q4_K : FY_Q5_K;
    return i < n / 16 ? FY_Q5_K : !r->falcon || more_bits(i, n) ? FY_Q4_K : FY_Q3_K;
}

static fy_type down_type(const rule *r, uint32_t i)
{
    const uint32_t n = r->m->n_layer;
    const fy_type t = r->target;
    if (t == FY_Q2_K || t == FY_Q3_K)
        return t == FY_Q2_K ? FY_Q3_K : down_type_q3(r, i);
    if (t == FY_IQ4_NL)
        return !r->m->imatrix && i < n / 8 ? FY_Q5_K : t;
    if (r->small)
        return t == FY_Q4_K && !r->falcon && i < n / 8 ? FY_Q5_K : t;
    if (t == FY_Q4_K && r->falcon)
        return i < n / 16 ? FY_Q6_K : more_bits(i, n) ? FY_Q5_K : FY_Q4_K;
    if (t == FY_Q4_K || t == FY_Q5_K)
        return more_bits(i, n) ? FY_Q6_K : t;
    if (r->m->imatrix && i < n / 8)
        return t == FY_Q4_0 ? FY_Q4_1 : t == FY_Q5_0 ? FY_Q5_1 : t;
    return t;
}

static fy_type attn_output_type(const rule *r)
{
    const fy_type t = r->target;
    if (r->falcon)
        return t == FY_Q3_K && r->large ? FY_Q4_K : t;
    if (r->m->n_expert == 8) {
        const bool more = t == FY_Q2_K || t == FY_Q3_K || t == FY_Q4_K || t == FY_IQ4_NL;
        return more && !r->large ? FY_Q5_K : t;
    }
    if (t == FY_Q2_K)
        return FY_Q3_K;
    if (t != FY_Q3_K || r->small)
        return t;
    return r->large ? FY_Q5_K : FY_Q4_K;
}

/* MXFP4_MOE: the experts alone. */
static fy_type mxfp4_type(const rule *r, category c, fy_span name)
{
    const bool output = c == OUTPUT || (c == EMBEDDING && r->tied);
    return !output && memmem(name.ptr, name.len, "_exps", 5) != NULL ? FY_MXFP4 : FY_Q8_0;
}

/* Experts' tensors know their layer by name alone. */
static int expert_layer(const rule *r, fy_span name, uint32_t *layer, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const int32_t i = layer_of(name);
    if (i < 0 || (uint32_t)i >= r->m->n_layer)
        return fy_fail(e, FY_EFORMAT,
                       "tensor '%s': its layer decides about its type in llama's recipe; expected "
                       "blk.N with N below %" PRIu32,
                       fy_quote(shown, sizeof shown, name), r->m->n_layer);
    *layer = (uint32_t)i;
    return 0;
}

static int choose(rule *r, fy_type_item *t, fy_err *e)
{
    const category c = category_of(t->name);
    uint32_t layer = r->i_down;
    t->wanted = r->target == FY_MXFP4 ? mxfp4_type(r, c, t->name) : r->target;
    switch (r->target == FY_MXFP4 ? OTHER : c) {
    case EMBEDDING:
    case OUTPUT:
        if ((c == OUTPUT || r->tied) && r->target != FY_Q8_0)
            t->wanted = r->falcon ? FY_Q8_0 : FY_Q6_K;
        break;
    case VALUE:
        t->wanted = value_type(r);
        break;
    case KEY:
        if (r->m->n_expert == 8)
            t->wanted = FY_Q8_0;
        break;
    case ATTN_OUTPUT:
        t->wanted = attn_output_type(r);
        break;
    case UP:
    case GATE:
    case DOWN:
        if (r->m->n_expert > 1 && expert_layer(r, t->name, &layer, e) != 0)
            return -1;
        if (c != DOWN)
            break;
        t->wanted = down_type(r, layer);
        r->i_down++;
        break;
    case OTHER:
        break;
    }
    if (t->wanted != r->target)
        t->why = FY_TYPE_RECIPE;
    return 0;
}

int fy_llama_types(const fy_llama_model *m, const fy_file_type *file, fy_type_item *t, size_t n,
                   fy_err *e)
{
    rule r = {.m = m,
              .target = file->type,
              .small = file->recipe == FY_RECIPE_LLAMA_SMALL,
              .large = file->recipe == FY_RECIPE_LLAMA_LARGE,
              .falcon = fy_span_is(m->arch, "falcon"),
              .tied = true};
    fy_type_item **order = calloc(n > 0 ? n : 1, sizeof *order);
    if (order == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n; i++) {
        order[i] = &t[i];
        r.n_values += category_of(t[i].name) == VALUE;
        r.tied = r.tied && !fy_llama_is_output(t[i].name);
    }
    qsort(order, n, sizeof *order, by_layer);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0 && fy_type_get((uint32_t)file->type)->block > 1; i++) {
        if (order[i]->why == FY_TYPE_ASKED)
            rc = choose(&r, order[i], e);
    }
    free(order);
    return rc;
}
