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

static void rows_that_are_no_multiple_of_the_block_become_f16(void **state)
{
    (void)state;
    fy_gguf_tensor odd = tensor("a.weight", 2, 48), even = tensor("a.weight", 2, 64);
    assert_int_equal(fy_recipe_type(&even, FY_Q4_0), FY_Q4_0);
    assert_int_equal(fy_recipe_type(&odd, FY_Q4_0), FY_F16);
    assert_int_equal(fy_recipe_type(&odd, FY_Q8_0), FY_F16);
    assert_int_equal(fy_recipe_type(&odd, FY_BF16), FY_BF16);
    assert_int_equal(fy_recipe_type(&odd, FY_F32), FY_F32);
}

static void only_types_that_can_be_written_are_accepted(void **state)
{
    (void)state;
    fy_type t = FY_I8;
    assert_true(fy_recipe_parse("q4_0", &t));
    assert_int_equal(t, FY_Q4_0);
    assert_true(fy_recipe_parse("BF16", &t));
    assert_int_equal(t, FY_BF16);
    assert_false(fy_recipe_parse("q4_K", &t));
    assert_false(fy_recipe_parse("q4", &t));
    assert_false(fy_recipe_parse("", &t));
    assert_false(fy_recipe_parse("i32", &t));
    assert_int_equal(t, FY_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_take_the_type_and_everything_else_is_kept),
        cmocka_unit_test(rows_that_are_no_multiple_of_the_block_become_f16),
        cmocka_unit_test(only_types_that_can_be_written_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
