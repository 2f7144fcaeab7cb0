#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void one_matrix_of_the_checkpoint_becomes_three(void **state)
{
    (void)state;
    const fy_family *f = family_of("BaiChuanForCausalLM", "baichuan");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q.weight", "model.layers.3.self_attn.W_pack.weight", 4096, 4096},
        {"blk.3.attn_k.weight", "model.layers.3.self_attn.W_pack.weight", 4096, 4096},
        {"blk.3.attn_v.weight", "model.layers.3.self_attn.W_pack.weight", 4096, 4096},
    };
    static const fy_transform transforms[] = {FY_X_PACK_Q, FY_X_PACK_K, FY_X_PACK_V};
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 3; i++) {
        uint64_t dims[FY_GGUF_MAX_DIMS];
        const fy_tensor_row *row = row_of(f, cases[i].gguf);
        assert_int_equal(row->transform, transforms[i]);
        fy_row_source_shape(&hp, row, dims);
        assert_int_equal(dims[0], 3 * 4096);
    }
}

static void models_with_alibi_and_with_normed_output_rows_are_refused(void **state)
{
    (void)state;
    const fy_family *f = family_of("BaiChuanForCausalLM", "baichuan");
    fy_hparams hp = whole_model(f);
    fy_err e = {0};
    hp.n_layer = 40;
    assert_int_equal(fy_hparams_check(&hp, f, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "ALiBi"));
    assert_null(fy_family_of_hf(FY_SPAN("BaichuanForCausalLM"))); /* 13B and Baichuan 2 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_matrix_of_the_checkpoint_becomes_three),
        cmocka_unit_test(models_with_alibi_and_with_normed_output_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
