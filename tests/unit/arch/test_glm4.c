#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void the_norms_are_not_what_their_names_say(void **state)
{
    (void)state;
    const fy_family *f = family_of("Glm4ForCausalLM", "glm4");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_norm.weight", "model.layers.3.input_layernorm.weight", 4096, 1},
        {"blk.3.post_attention_norm.weight", "model.layers.3.post_self_attn_layernorm.weight", 4096,
         1},
        {"blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight", 4096, 1},
        {"blk.3.post_ffw_norm.weight", "model.layers.3.post_mlp_layernorm.weight", 4096, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(row_of(f, "blk.0.post_attention_norm.weight")->slot, FY_T_ATTN_POST_NORM);
    assert_int_equal(row_of(f, "blk.0.ffn_norm.weight")->slot, FY_T_FFN_NORM);
    assert_int_equal(row_of(f, "blk.0.post_ffw_norm.weight")->slot, FY_T_FFN_POST_NORM);
}

static void half_of_each_head_rotates_by_neighbours(void **state)
{
    (void)state;
    const fy_family *f = family_of("Glm4ForCausalLM", "glm4");
    fy_hparams hp = whole_model(f);
    assert_int_equal(f->rope, FY_ROPE_NORM);
    assert_int_equal(hp.n_rot, 64);
    assert_true(hp.norm_rms_eps == 1.5625e-7F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norms_are_not_what_their_names_say),
        cmocka_unit_test(half_of_each_head_rotates_by_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
