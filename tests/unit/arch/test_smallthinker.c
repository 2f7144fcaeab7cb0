#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/expert_rows.h"

static void experts_are_chosen_by_sigmoid_at_layer_entry(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmallThinkerForCausalLM", "smallthinker");
    fy_hparams hp = whole_model(f);
    assert_true(f->early_router);
    assert_int_equal(hp.act, FY_ACT_RELU);
    expect_routing(f, FY_GATING_SIGMOID, true);
    expect_stacks(f, &hp);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.block_sparse_moe.experts.5.gate.weight", FY_X_COPY, {768, 1536}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.block_sparse_moe.experts.5.down.weight", FY_X_COPY, {1536, 768}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_inp.weight",
                 {"model.layers.3.block_sparse_moe.primary_router.weight", FY_X_COPY, {32, 1536}});
}

static void layers_come_in_fours_where_there_is_a_window(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmallThinkerForCausalLM", "smallthinker");
    fy_layer_set full = fy_layers_of(f->full_attention, 52), nope = fy_layers_of(f->no_rope, 52);
    for (uint32_t i = 0; i < 52; i++) {
        assert_int_equal(fy_layer_in(&full, i), i % 4 == 0);
        assert_int_equal(fy_layer_in(&nope, i), i % 4 == 0);
    }
    assert_int_equal(fy_layers_count(&full), 13);
    assert_true(f->nope_follows_swa);
    assert_string_equal(f->window_keys[0], "sliding_window_size");
}

static void numbers_of_experts_have_keys_of_their_own(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmallThinkerForCausalLM", "smallthinker");
    assert_int_equal(f->n_keys, 3);
    assert_string_equal(f->keys[0].key, "moe_num_primary_experts");
    assert_int_equal(f->keys[0].field, offsetof(fy_hparams, n_expert));
    assert_string_equal(f->keys[1].key, "moe_num_active_primary_experts");
    assert_int_equal(f->keys[1].field, offsetof(fy_hparams, n_expert_used));
    assert_int_equal(f->keys[2].op, FY_OP_ROUTER_IS_SOFTMAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_chosen_by_sigmoid_at_layer_entry),
        cmocka_unit_test(layers_come_in_fours_where_there_is_a_window),
        cmocka_unit_test(numbers_of_experts_have_keys_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
