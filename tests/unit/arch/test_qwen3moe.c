#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/expert_rows.h"

static void experts_are_found_each_fused_and_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen3MoeForCausalLM", "qwen3moe");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.mlp.experts.5.gate_proj.weight", FY_X_COPY, {768, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj", FY_X_FIRST_HALF, {128, 2 * 768, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj",
                  FY_X_TRANSPOSE_FIRST_HALF,
                  {128, 2048, 2 * 768}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_up_exps.weight",
        {"model.layers.3.mlp.experts.5.up_proj.weight", FY_X_COPY, {768, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_SECOND_HALF, {128, 2 * 768, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj",
         FY_X_TRANSPOSE_SECOND_HALF,
         {128, 2048, 2 * 768}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.mlp.experts.5.down_proj.weight", FY_X_COPY, {2048, 768}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_COPY, {128, 2048, 768}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_TRANSPOSE, {128, 768, 2048}});
    expect_stacks(f, &hp);
}

static void a_file_without_the_key_divides_by_the_sum_and_a_config_without_it_does_not(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen3MoeForCausalLM", "qwen3moe");
    expect_routing(f, FY_GATING_SOFTMAX, true);
    assert_int_equal(f->n_keys, 1);
    assert_string_equal(f->keys[0].key, "norm_topk_prob");
    assert_int_equal(f->keys[0].op, FY_OP_FLAG);
    assert_int_equal(f->keys[0].field, offsetof(fy_hparams, expert_norm));
    expect_rule(f, "decoder_sparse_step", "1");
    expect_rule(f, "mlp_only_layers", "[]");
    expect_rule(f, "use_sliding_window", "false");
}

static void q_and_k_have_a_norm_per_head(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen3MoeForCausalLM", "qwen3moe");
    fy_hparams hp = f->defaults;
    hp.head_dim = 128; /* not 2048 / 32 */
    fy_hparams_derive(&hp, f);
    static const row_case cases[] = {
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight", 128, 1},
        {"blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight", 128, 1},
        {"blk.3.attn_q.weight", "model.layers.3.self_attn.q_proj.weight", 2048, 4096},
        {"blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj.weight", 2048, 512},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(f->rope, FY_ROPE_NEOX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_found_each_fused_and_transposed),
        cmocka_unit_test(
            a_file_without_the_key_divides_by_the_sum_and_a_config_without_it_does_not),
        cmocka_unit_test(q_and_k_have_a_norm_per_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
