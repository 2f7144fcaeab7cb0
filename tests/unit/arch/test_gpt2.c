#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void matrices_are_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("GPT2LMHeadModel", "gpt2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_qkv.weight", "transformer.h.3.attn.c_attn.weight", 768, 3 * 768},
        {"blk.3.attn_qkv.bias", "transformer.h.3.attn.c_attn.bias", 3 * 768, 1},
        {"blk.3.ffn_up.weight", "transformer.h.3.mlp.c_fc.weight", 768, 3072},
        {"blk.3.ffn_down.weight", "transformer.h.3.mlp.c_proj.weight", 3072, 768},
    };
    EXPECT_ROWS(f, &hp, cases);
    uint64_t dims[FY_GGUF_MAX_DIMS];
    assert_int_equal(fy_row_source_shape(&hp, row_of(f, "blk.0.attn_qkv.weight"), dims), 2);
    assert_int_equal(dims[0], 768);
    assert_int_equal(dims[1], 3 * 768);
    assert_true(fy_transform_is_transpose(row_of(f, "blk.0.ffn_up.weight")->transform));
}

static void positions_are_learned(void **state)
{
    (void)state;
    const fy_family *f = family_of("GPT2LMHeadModel", "gpt2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"position_embd.weight", "transformer.wpe.weight", 768, 1024},
        {"blk.3.ffn_norm.bias", "transformer.h.3.ln_2.bias", 768, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(f->rope, FY_ROPE_NO);
    expect_rule(f, "scale_attn_by_inverse_layer_idx", "false");
    expect_rule(f, "scale_attn_weights", "true");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_are_transposed),
        cmocka_unit_test(positions_are_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
