/* Recipes: what is accepted has a type for every matrix, and a floor that is refused names a recipe
 * or width that stands on it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/npu/npu_recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rules(const fy_npu_recipe *r)
{
    for (size_t i = 0; i < r->n_rules; i++) {
        const fy_npu_rule *rule = &r->rules[i];
        if (rule->first_layer >= rule->end_layer || rule->type >= FY_NPU_TYPE_COUNT ||
            (rule->end_layer != UINT32_MAX && rule->end_layer > FY_N_LAYER_MAX))
            abort();
    }
    for (uint32_t layer = 0; layer < 8; layer++) {
        for (fy_slot s = FY_T_TOKEN_EMBD; s < FY_T_COUNT; s++) {
            if (fy_npu_recipe_type(r, s, layer) >= FY_NPU_TYPE_COUNT)
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[] = "CHIP";
    static const uint32_t archs[] = {68, 69, 73, 81};
    fy_err e = {0};
    fy_npu_recipe r;
    if (fy_npu_recipe_parse(data, size, "recipe", &r, &e) != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
        return 0;
    }
    if (r.type >= FY_NPU_TYPE_COUNT || (r.kv_bits != 8 && r.kv_bits != 16) || r.title == NULL ||
        r.source == NULL || (r.float_core && r.kv_bits == 8))
        abort();
    check_rules(&r);
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        fy_soc s = {.name = name, .htp_arch = archs[i]};
        fy_err why = {0};
        int rc = fy_npu_recipe_check(&r, &s, 0, &why);
        if (rc != 0 && (why.code != FY_EFIT || strstr(why.msg, "it can have --") == NULL))
            abort();
        if (rc != 0 && archs[i] >= 73)
            abort();
    }
    fy_npu_recipe_release(&r);
    return 0;
}
