#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void it_is_plain_with_biases(void **state)
{
    (void)state;
    const fy_family *f = family_of("Starcoder2ForCausalLM", "starcoder2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj.weight", 3072, 256},
        {"blk.3.attn_k.bias", "model.layers.3.self_attn.k_proj.bias", 256, 1},
        {"blk.3.attn_output.bias", "model.layers.3.self_attn.o_proj.bias", 3072, 1},
        {"blk.3.ffn_norm.bias", "model.layers.3.post_attention_layernorm.bias", 3072, 1},
        {"blk.3.ffn_up.weight", "model.layers.3.mlp.c_fc.weight", 3072, 12288},
        {"blk.3.ffn_up.bias", "model.layers.3.mlp.c_fc.bias", 12288, 1},
        {"blk.3.ffn_down.weight", "model.layers.3.mlp.c_proj.weight", 12288, 3072},
        {"output_norm.bias", "model.norm.bias", 3072, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    uint32_t layer;
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.0.ffn_gate.weight"), &layer));
    assert_string_equal(row_of(f, "blk.0.ffn_up.bias")->required_by, "use_bias");
    assert_int_equal(f->defaults.act, FY_ACT_GELU_TANH);
}

static void the_window_has_no_default(void **state)
{
    (void)state;
    const fy_family *f = family_of("Starcoder2ForCausalLM", "starcoder2");
    assert_int_equal(f->defaults.n_swa, 0);
    assert_string_equal(f->window_keys[0], "sliding_window");
    assert_int_equal(f->full_attention.period, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_plain_with_biases),
        cmocka_unit_test(the_window_has_no_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
