#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void norms_hold_one_less_and_the_embedding_is_scaled(void **state)
{
    (void)state;
    const fy_family *f = family_of("GemmaForCausalLM", "gemma");
    fy_hparams hp = whole_model(f);
    static const char *const norms[] = {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight",
                                        "output_norm.weight"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(row_of(f, norms[i])->transform, FY_X_ADD_ONE);
    assert_true(f->sqrt_embedding && f->tied_default);
    assert_true(hp.embedding_scale > 55.42F && hp.embedding_scale < 55.43F);
    assert_int_equal(hp.act, FY_ACT_GELU_TANH);
    expect_rule(f, "attention_bias", "false");
}

static void heads_are_wider_than_the_model_divided_by_their_number(void **state)
{
    (void)state;
    const fy_family *f = family_of("GemmaForCausalLM", "gemma");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q.weight", "model.layers.3.self_attn.q_proj.weight", 3072, 16 * 256},
        {"blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight", 16 * 256, 3072},
        {"blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight", 3072, 1},
        {"output_norm.weight", "model.norm.weight", 3072, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_hold_one_less_and_the_embedding_is_scaled),
        cmocka_unit_test(heads_are_wider_than_the_model_divided_by_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
