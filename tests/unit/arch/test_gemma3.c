#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void both_classes_are_read(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma3ForCausalLM", "gemma3");
    assert_ptr_equal(f, family_of("Gemma3ForConditionalGeneration", "gemma3"));
}

static void q_and_k_have_a_norm_per_head_that_holds_one_less(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma3ForCausalLM", "gemma3");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight", 256, 1},
        {"blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight", 256, 1},
        {"blk.3.ffn_norm.weight", "model.layers.3.pre_feedforward_layernorm.weight", 2304, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(row_of(f, cases[i].gguf)->transform, FY_X_ADD_ONE);
}

static void every_sixth_layer_is_full_and_the_others_have_a_theta_of_their_own(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma3ForCausalLM", "gemma3");
    fy_layer_set full = fy_layers_of(f->full_attention, 13);
    for (uint32_t i = 0; i < 13; i++)
        assert_int_equal(fy_layer_in(&full, i), i % 6 == 5);
    assert_true(f->defaults.rope_theta == 1e6F && f->defaults.rope_theta_swa == 1e4F);
    assert_true(f->defaults.attn_softcap == 0 && f->defaults.logit_softcap == 0);
    expect_rule(f, "use_bidirectional_attention", "false");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_classes_are_read),
        cmocka_unit_test(q_and_k_have_a_norm_per_head_that_holds_one_less),
        cmocka_unit_test(every_sixth_layer_is_full_and_the_others_have_a_theta_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
