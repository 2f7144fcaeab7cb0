#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void it_is_written_as_phi2(void **state)
{
    (void)state;
    const fy_family *f = family_of("CodeGenForCausalLM", "phi2");
    assert_string_equal(fy_family_of_gguf(FY_SPAN("phi2"), false)->name, "phi");
    assert_string_equal(f->name, "codegen");
}

static void one_matrix_of_the_checkpoint_becomes_three_with_zero_biases(void **state)
{
    (void)state;
    const fy_family *f = family_of("CodeGenForCausalLM", "phi2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q.weight", "transformer.h.3.attn.qkv_proj.weight", 4096, 4096},
        {"blk.3.attn_k.weight", "transformer.h.3.attn.qkv_proj.weight", 4096, 4096},
        {"blk.3.attn_v.weight", "transformer.h.3.attn.qkv_proj.weight", 4096, 4096},
        {"blk.3.attn_v.bias", "", 4096, 1},
        {"blk.3.attn_output.bias", "", 4096, 1},
        {"blk.3.ffn_up.weight", "transformer.h.3.mlp.fc_in.weight", 4096, 4 * 4096},
        {"output.bias", "lm_head.bias", 50400, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    uint64_t dims[FY_GGUF_MAX_DIMS];
    assert_int_equal(fy_row_source_shape(&hp, row_of(f, "blk.0.attn_q.weight"), dims), 2);
    assert_int_equal(dims[0], 3 * 4096);
    assert_int_equal(row_of(f, "blk.0.attn_q.bias")->transform, FY_X_ZEROS);
}

static void groups_hold_q_then_v_then_k_and_neighbours_become_halves(void **state)
{
    (void)state;
    const fy_family *f = family_of("CodeGenForCausalLM", "phi2");
    fy_hparams hp = whole_model(f); /* 16 heads of 256, 64 of them rotate; 4 groups */
    const fy_tensor_row *q = row_of(f, "blk.0.attn_q.weight"),
                        *k = row_of(f, "blk.0.attn_k.weight"),
                        *v = row_of(f, "blk.0.attn_v.weight");
    assert_int_equal(fy_transform_row(&hp, q, 0), 0);
    assert_int_equal(fy_transform_row(&hp, q, 1), 2);
    assert_int_equal(fy_transform_row(&hp, q, 32), 1);
    assert_int_equal(fy_transform_row(&hp, q, 64), 64);
    assert_int_equal(fy_transform_row(&hp, v, 0), 1024);
    assert_int_equal(fy_transform_row(&hp, v, 1), 1025);
    assert_int_equal(fy_transform_row(&hp, k, 0), 2048);
    assert_int_equal(fy_transform_row(&hp, k, 33), 2048 + 3);
    assert_int_equal(fy_transform_row(&hp, q, 1024), 3072);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_written_as_phi2),
        cmocka_unit_test(one_matrix_of_the_checkpoint_becomes_three_with_zero_biases),
        cmocka_unit_test(groups_hold_q_then_v_then_k_and_neighbours_become_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
