#include <stddef.h>
#include <stdio.h>

#include "arch/arch.h"

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
    X(smollm3)      \
    X(smallthinker) \
    X(bamboo)       \
    X(olmo2)        \
    X(olmoe)        \
    X(prosparse)    \
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
