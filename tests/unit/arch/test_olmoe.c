#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/expert_rows.h"

static void experts_are_found_each_fused_and_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("OlmoeForCausalLM", "olmoe");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.mlp.experts.5.gate_proj.weight", FY_X_COPY, {2048, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj", FY_X_FIRST_HALF, {64, 2 * 2048, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj",
                  FY_X_TRANSPOSE_FIRST_HALF,
                  {64, 2048, 2 * 2048}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_up_exps.weight",
        {"model.layers.3.mlp.experts.5.up_proj.weight", FY_X_COPY, {2048, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_SECOND_HALF, {64, 2 * 2048, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj",
         FY_X_TRANSPOSE_SECOND_HALF,
         {64, 2048, 2 * 2048}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.mlp.experts.5.down_proj.weight", FY_X_COPY, {2048, 2048}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_COPY, {64, 2048, 2048}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_TRANSPOSE, {64, 2048, 2048}});
    expect_stacks(f, &hp);
}

static void weights_are_not_divided_by_their_sum(void **state)
{
    (void)state;
    const fy_family *f = family_of("OlmoeForCausalLM", "olmoe");
    expect_routing(f, FY_GATING_SOFTMAX, false);
    expect_rule(f, "clip_qkv", "null");
}

static void q_and_k_have_a_norm_over_all_heads(void **state)
{
    (void)state;
    const fy_family *f = family_of("OlmoeForCausalLM", "olmoe");
    fy_hparams hp = f->defaults;
    hp.n_head_kv = 4;
    fy_hparams_derive(&hp, f);
    static const row_case cases[] = {
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight", 2048, 1},
        {"blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight", 512, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_found_each_fused_and_transposed),
        cmocka_unit_test(weights_are_not_divided_by_their_sum),
        cmocka_unit_test(q_and_k_have_a_norm_over_all_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
