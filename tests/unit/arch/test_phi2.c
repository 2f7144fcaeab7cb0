#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void weights_and_biases_have_the_names_of_phi(void **state)
{
    (void)state;
    const fy_family *f = family_of("PhiForCausalLM", "phi2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_norm.bias", "model.layers.3.input_layernorm.bias", 2048, 1},
        {"blk.3.attn_q.bias", "model.layers.3.self_attn.q_proj.bias", 2048, 1},
        {"blk.3.attn_output.weight", "model.layers.3.self_attn.dense.weight", 2048, 2048},
        {"blk.3.ffn_up.weight", "model.layers.3.mlp.fc1.weight", 2048, 8192},
        {"blk.3.ffn_up.bias", "model.layers.3.mlp.fc1.bias", 8192, 1},
        {"blk.3.ffn_down.weight", "model.layers.3.mlp.fc2.weight", 8192, 2048},
        {"output_norm.bias", "model.final_layernorm.bias", 2048, 1},
        {"output.bias", "lm_head.bias", 51200, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
}

static void the_block_is_parallel_behind_one_layer_norm(void **state)
{
    (void)state;
    const fy_family *f = family_of("PhiForCausalLM", "phi2");
    uint32_t layer;
    assert_ptr_equal(f, fy_family_of_gguf(FY_SPAN("phi2"), false));
    assert_true(f->layer_norm && f->defaults.parallel);
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.0.ffn_norm.weight"), &layer));
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.0.ffn_gate.weight"), &layer));
    assert_true(f->rot_part == 0.5F);
    expect_rule(f, "qk_layernorm", "false");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_biases_have_the_names_of_phi),
        cmocka_unit_test(the_block_is_parallel_behind_one_layer_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
