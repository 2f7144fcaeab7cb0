#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void q_and_k_have_a_norm_over_all_heads(void **state)
{
    (void)state;
    const fy_family *f = family_of("Olmo2ForCausalLM", "olmo2");
    fy_hparams hp = f->defaults;
    hp.n_head_kv = 8;
    fy_hparams_derive(&hp, f);
    static const row_case cases[] = {
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight", 4096, 1},
        {"blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight", 1024, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(f->rope, FY_ROPE_NEOX);
}

static void norms_stand_behind_the_blocks_only(void **state)
{
    (void)state;
    const fy_family *f = family_of("Olmo2ForCausalLM", "olmo2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.post_attention_norm.weight", "model.layers.3.post_attention_layernorm.weight", 4096,
         1},
        {"blk.3.post_ffw_norm.weight", "model.layers.3.post_feedforward_layernorm.weight", 4096, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    uint32_t layer;
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.3.attn_norm.weight"), &layer));
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.3.ffn_norm.weight"), &layer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q_and_k_have_a_norm_over_all_heads),
        cmocka_unit_test(norms_stand_behind_the_blocks_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
