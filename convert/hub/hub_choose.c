/* Which files of a repository a conversion needs. */
#include <fnmatch.h>
#include <string.h>

#include "hub/hub_list.h"

static bool matches(const char *pattern, const char *name)
{
    return fnmatch(pattern, name, 0) == 0;
}

static bool matches_any(const fy_opt_list *patterns, const char *name)
{
    for (size_t i = 0; patterns != NULL && i < patterns->n; i++) {
        if (matches(patterns->items[i], name))
            return true;
    }
    return false;
}

/* What is read besides weights, where it is. */
static const char *const companions[] = {
    "config.json",        "generation_config.json",
    "tokenizer.json",     "tokenizer_config.json",
    "tokenizer.model",    "special_tokens_map.json",
    "added_tokens.json",  "vocab.json",
    "merges.txt",         "*.tiktoken",
    "rwkv_vocab*.txt",    "chat_template.jinja",
    "chat_template.json", "additional_chat_templates/*.jinja",
    "README.md",
};

/* Containers of weights, the preferred first. The first name that is there decides; with it come
 * the files of the patterns, which stand for shards: "-NNNNN-of-NNNNN". A variant of a container
 * ("model.fp16-...") has another beginning. */
static const struct {
    const char *first;
    const char *with[3];
} containers[] = {
    {"model.safetensors", {NULL}},
    {"model.safetensors.index.json",
     {"model-[0-9]*-of-[0-9]*.safetensors", "model.safetensors-[0-9]*-of-[0-9]*.safetensors",
      "pytorch_model-[0-9]*-of-[0-9]*.safetensors"}},
    {"pytorch_model.bin", {NULL}},
    {"pytorch_model.bin.index.json", {"pytorch_model-[0-9]*-of-[0-9]*.bin", NULL}},
    {"consolidated.*.pth", {"params.json", NULL}},
    {"adapter_model.safetensors", {"adapter_config.json", NULL}},
};

/* As matches, but for one directory level: shards of another precision lie below. */
static bool is_here(const char *pattern, const char *name)
{
    return pattern != NULL && fnmatch(pattern, name, FNM_PATHNAME) == 0;
}

static bool choose_weights(fy_hub_list *l)
{
    for (size_t c = 0; c < sizeof containers / sizeof containers[0]; c++) {
        bool found = false;
        for (size_t i = 0; i < l->n; i++)
            found |= is_here(containers[c].first, l->files[i].name);
        for (size_t i = 0; found && i < l->n; i++) {
            const char *name = l->files[i].name;
            l->files[i].wanted |= is_here(containers[c].first, name);
            for (size_t k = 0; k < 3; k++)
                l->files[i].wanted |= is_here(containers[c].with[k], name);
        }
        if (found)
            return true;
    }
    return false;
}

static bool choose_needed(fy_hub_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        for (size_t k = 0; k < sizeof companions / sizeof companions[0]; k++)
            l->files[i].wanted |= is_here(companions[k], l->files[i].name);
    }
    return choose_weights(l);
}

int fy_hub_list_choose(fy_hub_list *l, const fy_opt_list *include, const fy_opt_list *exclude,
                       fy_err *e)
{
    bool patterns = include != NULL && include->n > 0;
    for (size_t i = 0; i < l->n; i++)
        l->files[i].wanted = patterns && matches_any(include, l->files[i].name);
    if (!patterns && !choose_needed(l))
        return fy_fail(
            e, FY_EUNSUPPORTED,
            "none of its %zu files holds weights by a name that ferry knows (model.safetensors, "
            "pytorch_model.bin, consolidated.*.pth, with an index or without); --include='*' "
            "takes all files, another pattern some",
            l->n);
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        l->files[i].wanted &= !matches_any(exclude, l->files[i].name);
        n += l->files[i].wanted;
    }
    return n > 0 ? 0
                 : fy_fail(e, FY_EUNSUPPORTED,
                           "none of its %zu files is wanted; see --include and --exclude", l->n);
}
