#include "format/llama_types.h"

#include <stddef.h>
#include <string.h>

bool fy_llama_types_has(fy_type t)
{
    return t != FY_Q4_K && t != FY_Q5_K;
}

static bool has(fy_span name, const char *part)
{
    return memmem(name.ptr, name.len, part, strlen(part)) != NULL;
}

static bool is_output(const fy_llama_model *m, fy_span name)
{
    return fy_span_is(name, "output.weight") ||
           (!m->has_output && fy_span_is(name, "token_embd.weight"));
}

fy_type fy_llama_type(const fy_llama_model *m, fy_span name, fy_type t)
{
    if (fy_type_get((uint32_t)t)->block == 1 || t == FY_Q8_0)
        return t;
    if (is_output(m, name))
        return fy_span_is(m->arch, "falcon") ? FY_Q8_0 : FY_Q6_K;
    if (m->n_expert == 8 && (has(name, "attn_v.weight") || has(name, "attn_qkv.weight") ||
                             has(name, "attn_kv_b.weight") || has(name, "attn_k.weight")))
        return FY_Q8_0;
    return t;
}
