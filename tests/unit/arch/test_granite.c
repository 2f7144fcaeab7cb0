#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void four_multipliers_are_1_when_absent(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteForCausalLM", "granite");
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

static void q_and_k_are_permuted_with_their_biases(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteForCausalLM", "granite");
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(row_of(f, "blk.0.attn_q.bias")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(row_of(f, "blk.0.attn_k.bias")->transform, FY_X_PERMUTE_K);
    assert_string_equal(row_of(f, "blk.0.ffn_down.bias")->required_by, "mlp_bias");
    assert_int_equal(f->rope, FY_ROPE_NORM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_multipliers_are_1_when_absent),
        cmocka_unit_test(q_and_k_are_permuted_with_their_biases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
