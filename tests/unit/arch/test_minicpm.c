#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void three_scales_come_from_keys_of_its_own(void **state)
{
    (void)state;
    const fy_family *f = family_of("MiniCPMForCausalLM", "minicpm");
    static const struct {
        const char *key;
        size_t field;
        fy_config_op op;
    } cases[] = {
        {"scale_emb", offsetof(fy_hparams, embedding_scale), FY_OP_SET},
        {"scale_depth", offsetof(fy_hparams, residual_scale), FY_OP_OVER_SQRT_LAYERS},
        {"dim_model_base", offsetof(fy_hparams, logit_scale), FY_OP_EMBD_OVER},
    };
    assert_int_equal(f->n_keys, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(f->keys[i].key, cases[i].key);
        assert_int_equal(f->keys[i].field, cases[i].field);
        assert_int_equal(f->keys[i].op, cases[i].op);
        assert_true(f->keys[i].absent == 1);
    }
    assert_true(f->tied_default);
}

static void rotation_factors_are_optional_tensors_of_half_a_head(void **state)
{
    (void)state;
    const fy_family *f = family_of("MiniCPMForCausalLM", "minicpm");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"rope_factors_long.weight", "", 64, 1},
        {"rope_factors_short.weight", "", 64, 1},
        {"rope_freqs.weight", "", 64, 1},
    };
    static const fy_transform transforms[] = {FY_X_LONG_FACTORS, FY_X_SHORT_FACTORS,
                                              FY_X_LLAMA3_FREQS};
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(row_of(f, cases[i].gguf)->transform, transforms[i]);
        assert_int_equal(row_of(f, cases[i].gguf)->flags, FY_ROW_OPTIONAL);
    }
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_scales_come_from_keys_of_its_own),
        cmocka_unit_test(rotation_factors_are_optional_tensors_of_half_a_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
