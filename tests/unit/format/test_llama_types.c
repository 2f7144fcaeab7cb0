#include "format/llama_types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* By hand from llama_tensor_get_type. */
static void the_choice_is_llama_quantizes(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        uint32_t n_expert;
        bool has_output;
        const char *name;
        fy_type target, got;
    } cases[] = {
        {"llama", 0, true, "output.weight", FY_Q4_0, FY_Q6_K},
        {"llama", 0, true, "output.weight", FY_Q4_1, FY_Q6_K},
        {"llama", 0, true, "output.weight", FY_Q5_1, FY_Q6_K},
        {"llama", 0, true, "output.weight", FY_Q6_K, FY_Q6_K},
        {"llama", 0, true, "output.weight", FY_Q8_0, FY_Q8_0},
        {"llama", 0, true, "output.weight", FY_F16, FY_F16},
        {"falcon", 0, true, "output.weight", FY_Q5_0, FY_Q8_0},
        {"falcon", 0, false, "token_embd.weight", FY_Q4_0, FY_Q8_0},
        {"llama", 0, true, "token_embd.weight", FY_Q4_0, FY_Q4_0},
        {"llama", 0, false, "token_embd.weight", FY_Q4_0, FY_Q6_K},
        {"llama", 0, false, "blk.0.attn_output.weight", FY_Q4_0, FY_Q4_0},
        {"llama", 0, true, "blk.1.attn_v.weight", FY_Q4_0, FY_Q4_0},
        {"llama", 8, true, "blk.1.attn_v.weight", FY_Q4_0, FY_Q8_0},
        {"llama", 8, true, "blk.1.attn_k.weight", FY_Q6_K, FY_Q8_0},
        {"llama", 8, true, "blk.1.attn_q.weight", FY_Q4_0, FY_Q4_0},
        {"llama", 8, true, "blk.1.ffn_down_exps.weight", FY_Q4_0, FY_Q4_0},
        {"phimoe", 8, true, "blk.1.attn_qkv.weight", FY_Q4_0, FY_Q8_0},
        {"qwen3moe", 128, true, "blk.1.attn_v.weight", FY_Q4_0, FY_Q4_0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_llama_model m = {.arch = fy_span_of(cases[i].arch),
                                  .n_expert = cases[i].n_expert,
                                  .has_output = cases[i].has_output};
        const fy_type got = fy_llama_type(&m, fy_span_of(cases[i].name), cases[i].target);
        if (got != cases[i].got)
            fail_msg("%s of %s, %s: %s, expected %s", cases[i].name, cases[i].arch,
                     fy_type_name(cases[i].target), fy_type_name(got), fy_type_name(cases[i].got));
    }
}

static void mixtures_by_layer_are_not_known(void **state)
{
    (void)state;
    assert_false(fy_llama_types_has(FY_Q4_K));
    assert_false(fy_llama_types_has(FY_Q5_K));
    assert_true(fy_llama_types_has(FY_Q6_K));
    assert_true(fy_llama_types_has(FY_Q4_0));
    assert_true(fy_llama_types_has(FY_F16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_llama_quantizes),
        cmocka_unit_test(mixtures_by_layer_are_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
