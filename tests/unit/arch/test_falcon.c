#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void both_classes_are_read(void **state)
{
    (void)state;
    const fy_family *f = family_of("FalconForCausalLM", "falcon");
    assert_ptr_equal(f, family_of("RWForCausalLM", "falcon"));
    assert_true(f->layer_norm && f->defaults.parallel && f->tied_default);
    assert_int_equal(f->defaults.act, FY_ACT_GELU);
    expect_rule(f, "alibi", "false");
    expect_rule(f, "bias", "false");
    expect_rule(f, "parallel_attn", "true");
}

static void one_head_of_k_and_one_of_v_follow_all_of_q(void **state)
{
    (void)state;
    const fy_family *f = family_of("FalconForCausalLM", "falcon");
    fy_hparams hp = whole_model(f);
    hp.n_head_kv = 1;
    static const row_case cases[] = {
        {"blk.3.attn_norm.weight", "transformer.h.3.input_layernorm.weight", 4544, 1},
        {"blk.3.attn_qkv.weight", "transformer.h.3.self_attention.query_key_value.weight", 4544,
         73 * 64},
        {"blk.3.ffn_up.weight", "transformer.h.3.mlp.dense_h_to_4h.weight", 4544, 4 * 4544},
        {"output_norm.bias", "transformer.ln_f.bias", 4544, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    for (uint64_t r = 0; r < 73 * 64; r += 63)
        assert_int_equal(fy_transform_row(&hp, row_of(f, "blk.0.attn_qkv.weight"), r), r);
}

static void groups_of_the_large_ones_are_taken_apart(void **state)
{
    (void)state;
    const fy_family *f = family_of("FalconForCausalLM", "falcon");
    fy_hparams hp = {.n_embd = 64, .n_head = 4, .n_head_kv = 2, .head_dim = 16, .head_dim_v = 16};
    const fy_tensor_row *qkv = row_of(f, "blk.0.attn_qkv.weight");
    /* the checkpoint: q0 q1 k0 v0 q2 q3 k1 v1 */
    static const uint64_t heads[] = {0, 1, 4, 5, 2, 6, 3, 7};
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(fy_transform_row(&hp, qkv, i * 16 + 5), heads[i] * 16 + 5);
}

static void a_second_norm_belongs_to_attention(void **state)
{
    (void)state;
    const fy_family *f = family_of("FalconForCausalLM", "falcon");
    const fy_tensor_row *first = row_of(f, "blk.0.attn_norm.weight"),
                        *second = row_of(f, "blk.0.attn_norm_2.weight");
    assert_true(first[1].flags & FY_ROW_ALT);
    assert_string_equal(first[1].hf, "transformer.h.%u.ln_mlp.weight");
    assert_string_equal(second->hf, "transformer.h.%u.ln_attn.weight");
    assert_int_equal(second->slot, FY_T_ATTN_NORM_2);
    assert_int_equal(second->flags, FY_ROW_OPTIONAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_classes_are_read),
        cmocka_unit_test(one_head_of_k_and_one_of_v_follow_all_of_q),
        cmocka_unit_test(groups_of_the_large_ones_are_taken_apart),
        cmocka_unit_test(a_second_norm_belongs_to_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
