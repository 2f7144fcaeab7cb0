/* Tensor rows of any family: names and shapes, from its table. */
#include "arch/arch.h"

#include <stdio.h>
#include <string.h>

#define LAYER_MARK  "%u"
#define EXPERT_MARK "%e"

const fy_fused_row fy_fused_rows[] = {
    {FY_T_ATTN_QKV, {{FY_T_ATTN_Q, FY_D_Q}, {FY_T_ATTN_K, FY_D_K}, {FY_T_ATTN_V, FY_D_V}}},
    {FY_T_ATTN_QKV_B, {{FY_T_ATTN_Q_B, FY_D_Q}, {FY_T_ATTN_K_B, FY_D_K}, {FY_T_ATTN_V_B, FY_D_V}}},
    {FY_T_FFN_GATE_UP, {{FY_T_FFN_GATE, FY_D_FF}, {FY_T_FFN_UP, FY_D_FF}}},
};
const size_t fy_n_fused_rows = sizeof fy_fused_rows / sizeof fy_fused_rows[0];

uint64_t fy_dim_of(const fy_hparams *hp, fy_dim d)
{
    switch (d) {
    case FY_D_VOCAB:
        return hp->n_vocab;
    case FY_D_EMBD:
        return hp->n_embd;
    case FY_D_FF:
        return hp->n_ff;
    case FY_D_FF_2:
        return 2 * (uint64_t)hp->n_ff;
    case FY_D_Q:
        return (uint64_t)hp->n_head * hp->head_dim;
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
    case FY_D_ONE:
        return 1;
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
    for (uint32_t i = 0; i < count_dims(row->dims); i++) {
        if (fy_dim_of(hp, row->dims[i]) == 0)
            return false;
    }
    return true;
}

bool fy_row_is_stacked(const fy_tensor_row *row)
{
    return row->hf != NULL && strstr(row->hf, EXPERT_MARK) != NULL;
}

void fy_row_expert_name(const char *pattern, uint32_t layer, uint32_t expert,
                        char out[FY_ROW_NAME_BYTES])
{
    size_t n = 0;
    while (*pattern != '\0' && n + 1 < FY_ROW_NAME_BYTES) {
        bool is_layer = strncmp(pattern, LAYER_MARK, strlen(LAYER_MARK)) == 0;
        if (is_layer || strncmp(pattern, EXPERT_MARK, strlen(EXPERT_MARK)) == 0) {
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

const fy_tensor_row *fy_row_of_gguf(const fy_family *f, fy_span name, uint32_t *layer)
{
    *layer = 0;
    for (size_t i = 0; i < f->n_rows; i++) {
        if (match(f->rows[i].gguf, name, layer))
            return &f->rows[i];
    }
    return NULL;
}
