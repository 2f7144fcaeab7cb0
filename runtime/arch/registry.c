#include <stddef.h>

#include "arch/arch.h"

/* One line per family. The first with a GGUF architecture reads the files of that architecture, so
 * its rows must cover what the later ones write. */
#define FAMILIES(X) \
    X(llama)        \
    X(mistral)      \
    X(qwen2)        \
    X(qwen3)        \
    /* end */

#define DECLARE(name) extern const fy_family fy_family_##name;
FAMILIES(DECLARE)

#define ADDRESS(name) &fy_family_##name,
const fy_family *const fy_families[] = {FAMILIES(ADDRESS) NULL};

const fy_family *fy_family_of_gguf(fy_span arch)
{
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (fy_span_is(arch, (*f)->gguf_arch))
            return *f;
    }
    return NULL;
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
