#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quantize/recipe.h"

static fy_gguf_tensor tensor(const char *name, uint32_t n_dims, uint64_t ne0)
{
    return (fy_gguf_tensor){
        .name = fy_span_of(name), .type = FY_F32, .n_dims = n_dims, .ne = {ne0, 8, 1, 1}};
}

static void matrices_take_the_type_and_everything_else_is_kept(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t n_dims;
        bool matrix;
    } cases[] = {
        {"token_embd.weight", 2, true},          {"output.weight", 2, true},
        {"blk.0.attn_q.weight", 2, true},        {"blk.31.ffn_down.weight", 2, true},
        {"blk.3.ffn_down_exps.weight", 3, true}, {"blk.0.ssm_in.weight", 2, true},
        {"output_norm.weight", 1, false},        {"blk.0.attn_q_norm.weight", 2, false},
        {"blk.0.attn_q.bias", 1, false},         {"blk.0.attn_q.bias", 2, false},
        {"rope_freqs.weight", 1, false},         {"blk.2.ffn_gate_inp.weight", 2, false},
        {"position_embd.weight", 2, false},      {"blk.0.time_mix_w1.weight", 2, false},
        {"blk.0.ssm_conv1d.weight", 2, false},   {"weigh", 2, false},
        {"blk.0.attn_q.lora_a", 2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_gguf_tensor t = tensor(cases[i].name, cases[i].n_dims, 64);
        if (fy_recipe_is_matrix(&t) != cases[i].matrix)
            fail_msg("%s with %u dimensions", cases[i].name, cases[i].n_dims);
    }
}

static void the_pure_recipe_asks_for_the_rows_only(void **state)
{
    (void)state;
    const fy_gguf_tensor odd = tensor("output.weight", 2, 48), even = tensor("a.weight", 2, 64);
    fy_recipe r = {.target = FY_Q4_0};
    bool fallback;
    assert_int_equal(fy_recipe_type(&r, &even, &fallback), FY_Q4_0);
    assert_false(fallback);
    assert_int_equal(fy_recipe_type(&r, &odd, &fallback), FY_F16);
    assert_true(fallback);
    r.target = FY_BF16;
    assert_int_equal(fy_recipe_type(&r, &odd, &fallback), FY_BF16);
    assert_false(fallback);
    r.target = FY_Q4_K;
    assert_int_equal(fy_recipe_type(&r, &even, &fallback), FY_Q5_0);
    assert_true(fallback);
}

static void llamas_recipe_has_the_output_in_q6_k_where_its_rows_allow_it(void **state)
{
    (void)state;
    const fy_gguf_tensor wide = tensor("output.weight", 2, 512),
                         narrow = tensor("output.weight", 2, 64);
    const fy_recipe r = {.target = FY_Q4_0, .llama = true, .model = {.has_output = true}};
    bool fallback;
    assert_int_equal(fy_recipe_type(&r, &wide, &fallback), FY_Q6_K);
    assert_false(fallback);
    assert_int_equal(fy_recipe_type(&r, &narrow, &fallback), FY_Q8_0);
    assert_true(fallback);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_take_the_type_and_everything_else_is_kept),
        cmocka_unit_test(the_pure_recipe_asks_for_the_rows_only),
        cmocka_unit_test(llamas_recipe_has_the_output_in_q6_k_where_its_rows_allow_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
