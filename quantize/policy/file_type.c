/* Names for the type of a whole file: ours, and those of llama-quantize's mixtures (type_policy.h).
 */
#include "policy/type_policy.h"

#include <string.h>
#include <strings.h>

/* A name counts for what was asked for, and for what a file of this type and recipe is called. */
static const struct {
    const char *name;
    fy_file_type t;
} mixtures[] = {
    {"q4_K_M", {FY_Q4_K, FY_RECIPE_LLAMA}}, {"q4_K_S", {FY_Q4_K, FY_RECIPE_LLAMA_SMALL}},
    {"q5_K_M", {FY_Q5_K, FY_RECIPE_LLAMA}}, {"q5_K_S", {FY_Q5_K, FY_RECIPE_LLAMA_SMALL}},
    {"q6_K", {FY_Q6_K, FY_RECIPE_LLAMA}},
};
enum { N_MIXTURES = sizeof mixtures / sizeof mixtures[0] };

int fy_file_type_of(const char *name, int recipe, fy_file_type *out, fy_err *e)
{
    for (size_t i = 0; i < N_MIXTURES; i++) {
        const fy_file_type *t = &mixtures[i].t;
        if (strcasecmp(mixtures[i].name, name) != 0)
            continue;
        *out = *t;
        if (recipe != FY_RECIPE_PURE)
            return 0;
        out->recipe = FY_RECIPE_PURE;
        return t->type == FY_Q6_K
                   ? 0
                   : fy_fail(e, FY_EARG,
                             "%s is a mixture of types, which --recipe llama makes; pure: %s",
                             mixtures[i].name, fy_type_name(t->type));
    }
    out->recipe = recipe < 0 ? FY_RECIPE_PURE : (fy_recipe)recipe;
    return fy_type_parse(name, &out->type) ? 0 : fy_fail(e, FY_EARG, "'%s' is not a type", name);
}

const char *fy_file_type_name(const fy_file_type *t)
{
    for (size_t i = 0; i < N_MIXTURES; i++) {
        if (mixtures[i].t.type == t->type && mixtures[i].t.recipe == t->recipe)
            return mixtures[i].name;
    }
    return fy_type_name(t->type);
}

const char *fy_file_type_of_llama(const fy_file_type *t)
{
    if (t->recipe != FY_RECIPE_PURE)
        return "";
    switch ((int)t->type) {
    case FY_Q4_0:
    case FY_Q4_1:
    case FY_Q5_0:
    case FY_Q5_1:
        return "--recipe llama, which has the output matrix in q6_K";
    case FY_Q4_K:
        return "q4_K_M, which has some matrices in q6_K";
    case FY_Q5_K:
        return "q5_K_M, which has some matrices in q6_K";
    default:
        return "";
    }
}

const char *fy_file_type_refusal(const char *name)
{
    static const char *const prefixes[] = {"q1_", "q2_", "q3_", "iq", "tq", "mxfp4", "nvfp4"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncasecmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return "cannot be written yet; the smallest types that can are q4_0 and q4_K (4.5 bits "
                   "a weight), the smallest mixture is q4_K_S";
    }
    return strcasecmp(name, "copy") == 0 ? "is llama-quantize's word for a plain copy; 'cp' makes "
                                           "one, and --split-max-size splits a file"
                                         : NULL;
}
