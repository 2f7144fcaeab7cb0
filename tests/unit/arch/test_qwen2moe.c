#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/expert_rows.h"

static void experts_are_found_each_fused_and_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen2MoeForCausalLM", "qwen2moe");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.mlp.experts.5.gate_proj.weight", FY_X_COPY, {1408, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj", FY_X_FIRST_HALF, {60, 2 * 1408, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj",
                  FY_X_TRANSPOSE_FIRST_HALF,
                  {60, 2048, 2 * 1408}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_up_exps.weight",
        {"model.layers.3.mlp.experts.5.up_proj.weight", FY_X_COPY, {1408, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_SECOND_HALF, {60, 2 * 1408, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj",
         FY_X_TRANSPOSE_SECOND_HALF,
         {60, 2048, 2 * 1408}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.mlp.experts.5.down_proj.weight", FY_X_COPY, {2048, 1408}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_COPY, {60, 2048, 1408}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_TRANSPOSE, {60, 1408, 2048}});
    expect_stacks(f, &hp);
}

static void weights_are_not_divided_by_their_sum(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen2MoeForCausalLM", "qwen2moe");
    expect_routing(f, FY_GATING_SOFTMAX, false);
    expect_rule(f, "decoder_sparse_step", "1");
    expect_rule(f, "mlp_only_layers", "[]");
    expect_rule(f, "use_sliding_window", "false");
}

static void the_shared_expert_has_a_gate_of_one_row(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen2MoeForCausalLM", "qwen2moe");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.ffn_gate_inp_shexp.weight", "model.layers.3.mlp.shared_expert_gate.weight", 2048,
         1},
        {"blk.3.ffn_gate_shexp.weight", "model.layers.3.mlp.shared_expert.gate_proj.weight", 2048,
         5632},
        {"blk.3.ffn_down_shexp.weight", "model.layers.3.mlp.shared_expert.down_proj.weight", 5632,
         2048},
    };
    EXPECT_ROWS(f, &hp, cases);
    uint64_t dims[FY_GGUF_MAX_DIMS];
    assert_int_equal(fy_row_source_shape(&hp, row_of(f, cases[0].gguf), dims), 2);
    assert_true(dims[0] == 1 && dims[1] == 2048);
}

static void q_k_and_v_have_biases_unless_config_json_says_no(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen2MoeForCausalLM", "qwen2moe");
    assert_string_equal(row_of(f, "blk.0.attn_q.bias")->required_by, "qkv_bias");
    assert_string_equal(f->flags_on[0], "qkv_bias");
    assert_null(f->flags_on[1]);
    uint32_t layer;
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.0.attn_output.bias"), &layer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_found_each_fused_and_transposed),
        cmocka_unit_test(weights_are_not_divided_by_their_sum),
        cmocka_unit_test(the_shared_expert_has_a_gate_of_one_row),
        cmocka_unit_test(q_k_and_v_have_biases_unless_config_json_says_no),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
