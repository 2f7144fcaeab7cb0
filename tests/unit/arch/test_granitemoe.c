#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/expert_rows.h"

static void four_multipliers_are_1_when_absent(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteMoeForCausalLM", "granitemoe");
    static const struct {
        const char *key;
        size_t field;
    } cases[] = {
        {"embedding_multiplier", offsetof(fy_hparams, embedding_scale)},
        {"residual_multiplier", offsetof(fy_hparams, residual_scale)},
        {"attention_multiplier", offsetof(fy_hparams, attn_scale)},
        {"logits_scaling", offsetof(fy_hparams, logit_scale)},
    };
    assert_int_equal(f->n_keys, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(f->keys[i].key, cases[i].key);
        assert_int_equal(f->keys[i].field, cases[i].field);
        assert_int_equal(f->keys[i].op, FY_OP_SET);
        assert_true(f->keys[i].absent == 1);
    }
    expect_rule(f, "position_embedding_type", "\"rope\"");
}

static void experts_are_cut_from_one_tensor(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteMoeForCausalLM", "granitemoe");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.block_sparse_moe.input_linear.weight",
                  FY_X_FIRST_HALF,
                  {8, 2 * 11008, 4096}},
                 {"model.layers.3.block_sparse_moe.experts.gate_up_proj",
                  FY_X_FIRST_HALF,
                  {8, 2 * 11008, 4096}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_up_exps.weight",
                 {"model.layers.3.block_sparse_moe.input_linear.weight",
                  FY_X_SECOND_HALF,
                  {8, 2 * 11008, 4096}},
                 {"model.layers.3.block_sparse_moe.experts.gate_up_proj",
                  FY_X_SECOND_HALF,
                  {8, 2 * 11008, 4096}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_down_exps.weight",
        {"model.layers.3.block_sparse_moe.output_linear.weight", FY_X_COPY, {8, 4096, 11008}},
        {"model.layers.3.block_sparse_moe.experts.down_proj", FY_X_COPY, {8, 4096, 11008}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_inp.weight",
                 {"model.layers.3.block_sparse_moe.router.layer.weight", FY_X_COPY, {8, 4096}},
                 {"model.layers.3.block_sparse_moe.router.weight", FY_X_COPY, {8, 4096}});
    expect_stacks(f, &hp);
    expect_routing(f, FY_GATING_SOFTMAX, true);
}

static void a_shared_expert_is_there_when_it_has_a_width_and_has_no_gate(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteMoeSharedForCausalLM", "granitemoe");
    fy_hparams hp = f->defaults;
    hp.n_ff_shexp = 1024;
    fy_hparams_derive(&hp, f);
    static const row_case cases[] = {
        {"blk.3.ffn_gate_shexp.weight", "model.layers.3.shared_mlp.input_linear.weight", 4096,
         1024},
        {"blk.3.ffn_up_shexp.weight", "model.layers.3.shared_mlp.input_linear.weight", 4096, 1024},
        {"blk.3.ffn_down_shexp.weight", "model.layers.3.shared_mlp.output_linear.weight", 1024,
         4096},
    };
    static const fy_transform transforms[] = {FY_X_FIRST_HALF, FY_X_SECOND_HALF, FY_X_COPY};
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(row_of(f, cases[i].gguf)->transform, transforms[i]);
        hp.n_ff_shexp = 1024;
        assert_true(fy_row_is_there(&hp, row_of(f, cases[i].gguf)));
        hp.n_ff_shexp = 0;
        assert_false(fy_row_is_there(&hp, row_of(f, cases[i].gguf)));
    }
    uint32_t layer;
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.3.ffn_gate_inp_shexp.weight"), &layer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_multipliers_are_1_when_absent),
        cmocka_unit_test(experts_are_cut_from_one_tensor),
        cmocka_unit_test(a_shared_expert_is_there_when_it_has_a_width_and_has_no_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
