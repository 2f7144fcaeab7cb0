/* The list of families, and what their tables of tensor rows mean: names, shapes, and which row of
 * a checkpoint's tensor becomes which row of the GGUF tensor. */
#include "arch/graph_io.h"

#include <stdio.h>
#include <string.h>

/* --- families --- */

/* One line per family. The first with a GGUF architecture reads the files of that architecture
 * (without experts; the first with `moe` those with experts), so its rows must cover what the later
 * ones write. */
#define FAMILIES(X) \
    X(llama)        \
    X(mistral)      \
    X(qwen2)        \
    X(qwen3)        \
    X(phi2)         \
    X(codegen)      \
    X(phi3)         \
    X(gemma)        \
    X(gemma2)       \
    X(gemma3)       \
    X(gemma3n)      \
    X(gemma4)       \
    X(gemma4_12b)   \
    X(chatglm)      \
    X(glm)          \
    X(glm4)         \
    X(falcon)       \
    X(opt)          \
    X(gpt2)         \
    X(gptneox)      \
    X(starcoder2)   \
    X(stablelm)     \
    X(mixtral)      \
    X(qwen2moe)     \
    X(qwen3moe)     \
    X(internlm2)    \
    X(internlm3)    \
    X(baichuan)     \
    X(minicpm)      \
    X(granite)      \
    X(granitemoe)   \
    X(granite4h)    \
    X(granite4hmoe) \
    X(granite4)     \
    X(granite4moe)  \
    X(falcon_h1)    \
    X(nemotron_h)   \
    X(qwen35)       \
    X(smollm3)      \
    X(smallthinker) \
    X(bamboo)       \
    X(olmo2)        \
    X(olmo3)        \
    X(exaone4)      \
    X(hunyuan)      \
    X(ernie4_5)     \
    X(ministral3)   \
    X(lfm2)         \
    X(lfm2moe)      \
    X(lfm3)         \
    X(olmoe)        \
    X(prosparse)    \
    X(gpt_oss)      \
    X(rwkv5)        \
    X(rwkv6)        \
    X(rwkv7)        \
    X(minicpm3)     \
    /* end */

#define DECLARE(name) extern const fy_family fy_family_##name;
FAMILIES(DECLARE)

#define ADDRESS(name) &fy_family_##name,
const fy_family *const fy_families[] = {FAMILIES(ADDRESS) NULL};

const fy_family *fy_family_of_gguf(fy_span arch, bool has_experts)
{
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (fy_span_is(arch, (*f)->gguf_arch) && (*f)->moe == has_experts)
            return *f;
    }
    return NULL;
}

const fy_family *fy_family_of_file(const fy_gguf *g)
{
    fy_span arch;
    char key[128];
    uint32_t n_expert = 0;
    fy_err ignored = {0};
    if (fy_gguf_get_str(g, FY_KEY_ARCHITECTURE, &arch, &ignored) != 0 || arch.len > 64)
        return NULL;
    snprintf(key, sizeof key, "%.*s.expert_count", (int)arch.len, arch.ptr);
    fy_gguf_get_u32(g, key, &n_expert, &ignored);
    return fy_family_of_gguf(arch, n_expert > 0);
}

const fy_family *fy_family_of_hf(fy_span hf_arch)
{
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        for (const char *const *name = (*f)->hf_archs; *name != NULL; name++) {
            if (fy_span_is(hf_arch, *name))
                return *f;
        }
    }
    return NULL;
}

/* --- rows --- */

#define LAYER_MARK  "%u"
#define EXPERT_MARK "%e"

const fy_fused_row fy_fused_rows[] = {
    {FY_T_ATTN_QKV, {{FY_T_ATTN_Q, FY_D_Q}, {FY_T_ATTN_K, FY_D_K}, {FY_T_ATTN_V, FY_D_V}}},
    {FY_T_ATTN_QKV_B, {{FY_T_ATTN_Q_B, FY_D_Q}, {FY_T_ATTN_K_B, FY_D_K}, {FY_T_ATTN_V_B, FY_D_V}}},
    {FY_T_FFN_GATE_UP, {{FY_T_FFN_GATE, FY_D_FF}, {FY_T_FFN_UP, FY_D_FF}}},
    {FY_T_MIX_LERP_5,
     {{FY_T_MIX_LERP_W, FY_D_EMBD},
      {FY_T_MIX_LERP_K, FY_D_EMBD},
      {FY_T_MIX_LERP_V, FY_D_EMBD},
      {FY_T_MIX_LERP_R, FY_D_EMBD},
      {FY_T_MIX_LERP_G, FY_D_EMBD}}},
    {FY_T_MIX_LERP_6,
     {{FY_T_MIX_LERP_R, FY_D_EMBD},
      {FY_T_MIX_LERP_W, FY_D_EMBD},
      {FY_T_MIX_LERP_K, FY_D_EMBD},
      {FY_T_MIX_LERP_V, FY_D_EMBD},
      {FY_T_MIX_LERP_A, FY_D_EMBD},
      {FY_T_MIX_LERP_G, FY_D_EMBD}}},
};
const size_t fy_n_fused_rows = sizeof fy_fused_rows / sizeof fy_fused_rows[0];

uint64_t fy_dim_of(const fy_hparams *hp, fy_dim d)
{
    switch (d) {
    case FY_D_VOCAB:
        return hp->n_vocab;
    case FY_D_EMBD:
        return hp->n_embd;
    case FY_D_EMBD_3:
        return 3 * (uint64_t)hp->n_embd;
    case FY_D_CONV:
        return hp->conv_len;
    case FY_D_FF:
        return hp->n_ff;
    case FY_D_FF_2:
        return 2 * (uint64_t)hp->n_ff;
    case FY_D_Q:
        return (uint64_t)hp->n_head * hp->head_dim;
    case FY_D_Q_2:
        return 2 * fy_dim_of(hp, FY_D_Q);
    case FY_D_K:
        return (uint64_t)hp->n_head_kv * hp->head_dim;
    case FY_D_V:
        return (uint64_t)hp->n_head_kv * hp->head_dim_v;
    case FY_D_QKV:
        return fy_dim_of(hp, FY_D_Q) + fy_dim_of(hp, FY_D_K) + fy_dim_of(hp, FY_D_V);
    case FY_D_QV:
        return (uint64_t)hp->n_head * hp->head_dim_v;
    case FY_D_HEAD:
        return hp->head_dim;
    case FY_D_Q_RANK:
        return hp->q_lora_rank;
    case FY_D_KV_RANK:
        return hp->kv_lora_rank;
    case FY_D_KV_A:
        return (uint64_t)hp->kv_lora_rank + hp->n_rot;
    case FY_D_KV_B:
        return (uint64_t)hp->n_head * (hp->head_dim - hp->n_rot + hp->head_dim_v);
    case FY_D_HEADS:
        return hp->n_head;
    case FY_D_ROT2:
        return hp->n_rot / 2;
    case FY_D_CTX:
        return hp->n_ctx_train;
    case FY_D_CTX_OPT:
        return (uint64_t)hp->n_ctx_train + 2;
    case FY_D_EXPERT:
        return hp->n_expert;
    case FY_D_FF_EXP:
        return hp->n_ff_exp;
    case FY_D_FF_EXP_2:
        return 2 * (uint64_t)hp->n_ff_exp;
    case FY_D_FF_SHEXP:
        return hp->n_ff_shexp;
    case FY_D_FF_SHEXP_2:
        return 2 * (uint64_t)hp->n_ff_shexp;
    case FY_D_PL:
        return hp->n_embd_pl;
    case FY_D_PL_ALL:
        return (uint64_t)hp->n_layer * hp->n_embd_pl;
    case FY_D_WKV_HEADS:
        return hp->wkv_head != 0 ? hp->n_embd / hp->wkv_head : 0;
    case FY_D_WKV:
        return hp->wkv_head;
    case FY_D_RANK_MIX:
        return hp->n_rank_mix;
    case FY_D_RANK_MIX_5:
        return 5 * (uint64_t)hp->n_rank_mix;
    case FY_D_RANK_DECAY:
        return hp->n_rank_decay;
    case FY_D_RANK_ICLR:
        return hp->n_rank_iclr;
    case FY_D_RANK_VALUE:
        return hp->n_rank_value;
    case FY_D_RANK_GATE:
        return hp->n_rank_gate;
    case FY_D_SSM_IN:
        return hp->ssm_inner + fy_dim_of(hp, FY_D_SSM_CHANNELS) + hp->ssm_heads;
    case FY_D_SSM_CHANNELS:
        return hp->ssm_inner + 2 * (uint64_t)hp->ssm_groups * hp->ssm_state;
    case FY_D_SSM_CONV:
        return hp->ssm_conv;
    case FY_D_SSM_HEADS:
        return hp->ssm_heads;
    case FY_D_SSM_GROUPS:
        return hp->ssm_groups;
    case FY_D_SSM_GROUP:
        return hp->ssm_groups != 0 ? hp->ssm_inner / hp->ssm_groups : 0;
    case FY_D_SSM_INNER:
        return hp->ssm_inner;
    case FY_D_SSM_HEAD:
        return hp->ssm_heads != 0 ? hp->ssm_inner / hp->ssm_heads : 0;
    case FY_D_VOCAB_PL:
        return hp->n_vocab_pl != 0 ? hp->n_vocab_pl : hp->n_vocab;
    case FY_D_ALTUP:
        return hp->n_altup;
    case FY_D_ALTUP_1:
        return hp->n_altup > 0 ? hp->n_altup - 1 : 0;
    case FY_D_ALTUP_2:
        return (uint64_t)hp->n_altup * hp->n_altup;
    case FY_D_LAUREL:
        return hp->n_laurel;
    case FY_D_ONE:
        return 1;
    case FY_D_5:
        return 5;
    case FY_D_6:
        return 6;
    case FY_D_END:
        break;
    }
    return 0;
}

enum { MAX_DIMS = sizeof(((fy_tensor_row *)0)->dims) / sizeof(fy_dim) };

static uint32_t count_dims(const fy_dim *dims)
{
    uint32_t n = 0;
    while (n < MAX_DIMS && dims[n] != FY_D_END)
        n++;
    return n;
}

uint32_t fy_row_shape(const fy_hparams *hp, const fy_tensor_row *row, uint64_t ne[FY_GGUF_MAX_DIMS])
{
    uint32_t n = count_dims(row->dims);
    for (uint32_t i = 0; i < FY_GGUF_MAX_DIMS; i++)
        ne[i] = i < n ? fy_dim_of(hp, row->dims[n - 1 - i]) : 1;
    return n;
}

const char *fy_shape_text(const uint64_t *ne, uint32_t n, char out[FY_SHAPE_BYTES])
{
    int at = snprintf(out, FY_SHAPE_BYTES, "[");
    for (uint32_t i = 0; i < n && at + 24 < FY_SHAPE_BYTES; i++)
        at += snprintf(out + at, FY_SHAPE_BYTES - (size_t)at, "%s%llu", i > 0 ? " " : "",
                       (unsigned long long)ne[i]);
    snprintf(out + at, FY_SHAPE_BYTES - (size_t)at, "]");
    return out;
}

uint32_t fy_row_source_shape(const fy_hparams *hp, const fy_tensor_row *row,
                             uint64_t dims[FY_GGUF_MAX_DIMS])
{
    const fy_dim *from = row->hf_dims[0] != FY_D_END ? row->hf_dims : row->dims;
    uint32_t n = count_dims(from);
    for (uint32_t i = 0; i < FY_GGUF_MAX_DIMS; i++)
        dims[i] = i < n ? fy_dim_of(hp, from[i]) : 1;
    return n;
}

bool fy_row_is_layer(const fy_tensor_row *row)
{
    return strstr(row->gguf, LAYER_MARK) != NULL;
}

bool fy_row_is_there(const fy_hparams *hp, const fy_tensor_row *row)
{
    if (row->slot == FY_T_PL_NORM && hp->n_embd_pl == 0)
        return false;
    for (uint32_t i = 0; i < count_dims(row->dims); i++) {
        if (fy_dim_of(hp, row->dims[i]) == 0)
            return false;
    }
    return true;
}

bool fy_row_is_in_layer(const fy_hparams *hp, const fy_tensor_row *row, uint32_t layer)
{
    const fy_slot s = row->slot;
    if (s == FY_T_ATTN_V && hp->k_is_v && !fy_layer_has_window(hp, layer))
        return false;
    if (s >= FY_T_ATTN_QKV && s <= FY_T_ATTN_SINKS)
        return !fy_layer_in(&hp->no_attn_layers, layer);
    if (s >= FY_T_CONV_IN && s <= FY_T_CONV_OUT)
        return fy_layer_in(&hp->no_attn_layers, layer);
    if (s >= FY_T_SSM_IN && s <= FY_T_SSM_OUT)
        return fy_layer_has_state(hp, layer);
    if (s >= FY_T_FFN_NORM && s <= FY_T_FFN_DOWN_SHEXP && fy_layer_in(&hp->no_ffn_layers, layer))
        return false;
    if (s >= FY_T_FFN_GATE && s <= FY_T_FFN_DOWN_B)
        return hp->n_expert == 0 || layer < hp->n_dense_layers;
    if (s >= FY_T_FFN_ROUTER && s <= FY_T_FFN_DOWN_SHEXP)
        return layer >= hp->n_dense_layers;
    return layer > 0 || s < FY_T_MIX_VALUE_0 || s > FY_T_MIX_VALUE_2;
}

bool fy_row_is_unused(const fy_hparams *hp, const fy_tensor_row *row, uint32_t layer)
{
    const fy_slot s = row->slot;
    return (s == FY_T_ATTN_K || s == FY_T_ATTN_K_NORM || s == FY_T_ATTN_V) &&
           fy_kv_owner(hp, layer) != layer;
}

/* "x_{rwkvag}": the letters of several sources; NULL: it is not such a name. */
static const char *letters_of(const char *pattern, size_t *n)
{
    const char *open = strchr(pattern, '{'), *close = open != NULL ? strchr(open, '}') : NULL;
    *n = close != NULL ? (size_t)(close - open - 1) : 0;
    return close != NULL ? open + 1 : NULL;
}

uint32_t fy_row_n_stacked(const fy_hparams *hp, const fy_tensor_row *row)
{
    size_t n;
    if (row->hf == NULL)
        return 0;
    return letters_of(row->hf, &n) != NULL        ? (uint32_t)n
           : strstr(row->hf, EXPERT_MARK) != NULL ? (uint32_t)fy_dim_of(hp, row->dims[0])
                                                  : 0;
}

void fy_row_expert_name(const char *pattern, uint32_t layer, uint32_t expert,
                        char out[FY_ROW_NAME_BYTES])
{
    size_t n = 0, n_letters;
    const char *letters = letters_of(pattern, &n_letters);
    while (*pattern != '\0' && n + 1 < FY_ROW_NAME_BYTES) {
        bool is_layer = strncmp(pattern, LAYER_MARK, strlen(LAYER_MARK)) == 0;
        if (letters != NULL && pattern + 1 == letters) {
            out[n++] = letters[expert < n_letters ? expert : 0];
            pattern = letters + n_letters + 1;
        } else if (is_layer || strncmp(pattern, EXPERT_MARK, strlen(EXPERT_MARK)) == 0) {
            int k = snprintf(out + n, FY_ROW_NAME_BYTES - n, "%u", is_layer ? layer : expert);
            n += k > 0 ? (size_t)k : 0;
            pattern += strlen(LAYER_MARK);
        } else {
            out[n++] = *pattern++;
        }
    }
    out[n < FY_ROW_NAME_BYTES ? n : FY_ROW_NAME_BYTES - 1] = '\0';
}

void fy_row_name(const char *pattern, uint32_t layer, char out[FY_ROW_NAME_BYTES])
{
    fy_row_expert_name(pattern, layer, 0, out);
}

/* Does name match the pattern, with a plain decimal number in place of the mark? */
static bool match(const char *pattern, fy_span name, uint32_t *layer)
{
    const char *mark = strstr(pattern, LAYER_MARK);
    if (mark == NULL)
        return fy_span_is(name, pattern);
    size_t head = (size_t)(mark - pattern);
    const char *tail = mark + strlen(LAYER_MARK);
    size_t tail_len = strlen(tail);
    if (name.len <= head + tail_len || memcmp(name.ptr, pattern, head) != 0 ||
        memcmp(name.ptr + name.len - tail_len, tail, tail_len) != 0)
        return false;
    const char *digits = name.ptr + head;
    size_t n = name.len - head - tail_len;
    if (n > 9 || (n > 1 && digits[0] == '0'))
        return false;
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        v = v * 10 + (uint32_t)(digits[i] - '0');
    }
    *layer = v;
    return true;
}

const fy_tensor_row *fy_row_of_slot(const fy_family *f, fy_slot slot)
{
    for (size_t i = 0; i < f->n_rows; i++) {
        if (f->rows[i].slot == slot && !(f->rows[i].flags & FY_ROW_ALT))
            return &f->rows[i];
    }
    return NULL;
}

const fy_tensor_row *fy_row_of_gguf(const fy_family *f, fy_span name, uint32_t *layer)
{
    *layer = 0;
    for (size_t i = 0; i < f->n_rows; i++) {
        if (match(f->rows[i].gguf, name, layer))
            return &f->rows[i];
    }
    return NULL;
}

/* --- files with a row for each neuron --- */

static const fy_tensor_row neuron_rows[] = {
    {FY_T_FFN_DOWN_T,
     "blk.%u.ffn_down_t.weight",
     NULL,
     {FY_D_FF, FY_D_EMBD},
     FY_X_TRANSPOSE,
     .hf_dims = {FY_D_EMBD, FY_D_FF},
     .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL},
    {FY_T_FFN_DOWN_B,
     "blk.%u.ffn_down_t.bias",
     NULL,
     {FY_D_EMBD},
     FY_X_COPY,
     .flags = FY_ROW_OPTIONAL},
    {FY_T_FFN_PRED_1,
     "blk.%u.fc1.weight",
     NULL,
     {FY_D_ONE, FY_D_EMBD},
     FY_X_COPY,
     .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL},
    {FY_T_FFN_PRED_2,
     "blk.%u.fc2.weight",
     NULL,
     {FY_D_FF, FY_D_ONE},
     FY_X_COPY,
     .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL},
};
enum { N_NEURON_ROWS = sizeof neuron_rows / sizeof neuron_rows[0] };

/* RWKV's channel mix is another network. */
static bool has_neuron_rows(const fy_family *f)
{
    return fy_row_of_slot(f, FY_T_FFN_DOWN) != NULL && fy_row_of_slot(f, FY_T_MIX_OUT) == NULL;
}

const fy_tensor_row *fy_row_by_neuron(const fy_family *f, fy_slot slot)
{
    if (!has_neuron_rows(f))
        return NULL;
    return slot == FY_T_FFN_DOWN     ? &neuron_rows[0]
           : slot == FY_T_FFN_DOWN_B ? &neuron_rows[1]
                                     : NULL;
}

const fy_tensor_row *fy_neuron_row_of_gguf(const fy_family *f, fy_span name, uint32_t *layer)
{
    *layer = 0;
    for (int i = 0; i < N_NEURON_ROWS && has_neuron_rows(f); i++) {
        if (match(neuron_rows[i].gguf, name, layer))
            return &neuron_rows[i];
    }
    return NULL;
}

/* --- transforms --- */

bool fy_transform_is_computed(fy_transform x)
{
    return x >= FY_X_LLAMA3_FREQS && x <= FY_X_ZEROS;
}

bool fy_transform_is_transpose(fy_transform x)
{
    return x >= FY_X_TRANSPOSE && x <= FY_X_TRANSPOSE_ODD;
}

/* Row r of neighbours (2j + half) was row half * head_dim/2 + j of halves. */
static uint64_t from_halves(uint64_t r, uint64_t head_dim)
{
    uint64_t in_head = r % head_dim;
    return r - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
}

/* Row r of halves was a row of neighbours, for the first n_rot rows of each head. */
static uint64_t from_neighbours(uint64_t r, uint64_t head_dim, uint64_t n_rot)
{
    uint64_t in_head = r % head_dim, half = n_rot / 2;
    if (in_head >= n_rot)
        return r;
    return r - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
}

/* Rows of one group: its q heads, then one of k, then one of v. `slot` counts heads of the group.
 */
static uint64_t in_group(const fy_hparams *hp, uint64_t group, uint64_t slot, uint64_t in_head)
{
    uint64_t per_group = hp->n_head / hp->n_head_kv;
    return (group * (per_group + 2) + slot) * hp->head_dim + in_head;
}

static uint64_t group_q(const fy_hparams *hp, uint64_t r)
{
    uint64_t per_group = hp->n_head / hp->n_head_kv, head = r / hp->head_dim;
    return in_group(hp, head / per_group, head % per_group, r % hp->head_dim);
}

/* which: 0 for k, 1 for v */
static uint64_t group_kv(const fy_hparams *hp, uint64_t r, uint64_t which)
{
    return in_group(hp, r / hp->head_dim, hp->n_head / hp->n_head_kv + which, r % hp->head_dim);
}

static uint64_t group_qkv(const fy_hparams *hp, uint64_t r)
{
    uint64_t q = fy_dim_of(hp, FY_D_Q), k = fy_dim_of(hp, FY_D_K);
    return r < q ? group_q(hp, r) : r < q + k ? group_kv(hp, r - q, 0) : group_kv(hp, r - q - k, 1);
}

/* part: place of the matrix within a group (q, v, k) */
static uint64_t codegen(const fy_hparams *hp, uint64_t r, uint64_t part)
{
    uint64_t rows = fy_dim_of(hp, FY_D_Q) / hp->n_qkv_groups; /* of one matrix in a group */
    return r / rows * 3 * rows + part * rows + r % rows;
}

/* Value head v Hk + k was k Hv / Hk + v: `per_head` rows each. */
static uint64_t from_grouped(const fy_hparams *hp, uint64_t r, uint64_t per_head)
{
    const uint64_t head = r / per_head, per_key = hp->ssm_heads / hp->ssm_groups;
    const uint64_t was = head % hp->ssm_groups * per_key + head / hp->ssm_groups;
    return was * per_head + r % per_head;
}

uint64_t fy_value_column(const fy_hparams *hp, uint64_t column)
{
    return from_grouped(hp, column, fy_dim_of(hp, FY_D_SSM_HEAD));
}

static uint64_t value_row(const fy_hparams *hp, const fy_tensor_row *row, uint64_t r)
{
    const uint64_t qk = 2 * (uint64_t)hp->ssm_groups * hp->ssm_state;
    if (row->transform != FY_X_VALUE_QKV)
        return from_grouped(hp, r, fy_dim_of(hp, row->dims[0]) / hp->ssm_heads);
    return r < qk ? r : qk + fy_value_column(hp, r - qk);
}

/* Blocks of n rows out of blocks of 2 n. */
static uint64_t half_of(const fy_hparams *hp, const fy_tensor_row *row, uint64_t r, uint64_t half)
{
    bool three = row->dims[2] != FY_D_END; /* [expert, n, in] */
    uint64_t n = fy_dim_of(hp, row->dims[three ? 1 : 0]);
    return r / n * 2 * n + half * n + r % n;
}

uint64_t fy_transform_row(const fy_hparams *hp, const fy_tensor_row *row, uint64_t r)
{
    uint64_t q = fy_dim_of(hp, FY_D_Q), k = fy_dim_of(hp, FY_D_K), d = hp->head_dim;
    switch (row->transform) {
    case FY_X_PERMUTE_Q:
    case FY_X_PERMUTE_K:
    case FY_X_PACK_Q:
        return from_halves(r, d);
    case FY_X_PACK_K:
        return q + from_halves(r, d);
    case FY_X_PACK_V:
        return q + k + r;
    case FY_X_GROUP_Q:
        return group_q(hp, from_halves(r, d));
    case FY_X_GROUP_K:
        return group_kv(hp, from_halves(r, d), 0);
    case FY_X_GROUP_V:
        return group_kv(hp, r, 1);
    case FY_X_GROUP_QKV:
        return group_qkv(hp, r);
    case FY_X_CODEGEN_Q:
        return codegen(hp, from_neighbours(r, d, hp->n_rot), 0);
    case FY_X_CODEGEN_V:
        return codegen(hp, r, 1);
    case FY_X_CODEGEN_K:
        return codegen(hp, from_neighbours(r, d, hp->n_rot), 2);
    case FY_X_SKIP_2:
        return r + 2;
    case FY_X_FIRST_HALF:
        return half_of(hp, row, r, 0);
    case FY_X_SECOND_HALF:
        return half_of(hp, row, r, 1);
    case FY_X_EVEN:
        return 2 * r;
    case FY_X_ODD:
        return 2 * r + 1;
    case FY_X_VALUE_ROWS:
    case FY_X_VALUE_NEG_EXP:
    case FY_X_VALUE_QKV:
        return value_row(hp, row, r);
    case FY_X_COPY:
    case FY_X_PAD_ROWS:
    case FY_X_ADD_ONE:
    case FY_X_ONE_MINUS:
    case FY_X_SPREAD:
    case FY_X_EXP_SPREAD:
    case FY_X_NEG_EXP:
    case FY_X_VALUE_COLUMNS:
    case FY_X_LLAMA3_FREQS:
    case FY_X_LONG_FACTORS:
    case FY_X_SHORT_FACTORS:
    case FY_X_PART_FREQS:
    case FY_X_ZEROS:
    case FY_X_TRANSPOSE:
    case FY_X_TRANSPOSE_FIRST_HALF:
    case FY_X_TRANSPOSE_SECOND_HALF:
    case FY_X_TRANSPOSE_EVEN:
    case FY_X_TRANSPOSE_ODD:
        break;
    }
    return r;
}
