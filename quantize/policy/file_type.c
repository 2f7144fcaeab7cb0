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
    {"q4_K_M", {FY_Q4_K, FY_RECIPE_LLAMA}},       {"q4_K_S", {FY_Q4_K, FY_RECIPE_LLAMA_SMALL}},
    {"q5_K_M", {FY_Q5_K, FY_RECIPE_LLAMA}},       {"q5_K_S", {FY_Q5_K, FY_RECIPE_LLAMA_SMALL}},
    {"q3_K_M", {FY_Q3_K, FY_RECIPE_LLAMA}},       {"q3_K_S", {FY_Q3_K, FY_RECIPE_LLAMA_SMALL}},
    {"q3_K_L", {FY_Q3_K, FY_RECIPE_LLAMA_LARGE}}, {"q6_K", {FY_Q6_K, FY_RECIPE_LLAMA}},
    {"q2_K", {FY_Q2_K, FY_RECIPE_LLAMA}},         {"mxfp4_moe", {FY_MXFP4, FY_RECIPE_LLAMA}},
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
        return strcmp(mixtures[i].name, fy_type_name(t->type)) == 0
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
    case FY_IQ4_NL:
        return "--recipe llama, which has the output matrix in q6_K";
    case FY_Q2_K:
        return "--recipe llama, which has some matrices in q3_K and more";
    case FY_Q3_K:
        return "q3_K_M, which has some matrices in q4_K and more";
    case FY_MXFP4:
        return "mxfp4_moe, which has all but the experts in q8_0";
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
    static const char *const prefixes[] = {"q1_", "q2_0",   "q2_K_S", "iq1",  "iq2",
                                           "iq3", "iq4_xs", "tq",     "nvfp4"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncasecmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return "cannot be written yet; the smallest types that can are q2_K, q3_K (2.6 and 3.4 "
                   "bits a weight) and mxfp4 (4.25)";
    }
    return strcasecmp(name, "copy") == 0 ? "is llama-quantize's word for a plain copy; 'cp' makes "
                                           "one, and --split-max-size splits a file"
                                         : NULL;
}
