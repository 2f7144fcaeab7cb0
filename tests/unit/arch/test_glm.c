#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void the_files_are_read_by_chatglm(void **state)
{
    (void)state;
    const fy_family *f = family_of("GlmForCausalLM", "chatglm"),
                    *reader = fy_family_of_gguf(FY_SPAN("chatglm"), false);
    assert_string_equal(reader->name, "chatglm");
    assert_int_equal(f->rope, FY_ROPE_NORM);
    assert_int_equal(reader->rope, FY_ROPE_NORM);
}

static void nothing_is_permuted_and_gate_stands_above_up(void **state)
{
    (void)state;
    const fy_family *f = family_of("GlmForCausalLM", "chatglm");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q.weight", "model.layers.3.self_attn.q_proj.weight", 4096, 4096},
        {"blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj.weight", 4096, 256},
        {"blk.3.attn_k.bias", "model.layers.3.self_attn.k_proj.bias", 256, 1},
        {"blk.3.ffn_up.weight", "model.layers.3.mlp.gate_up_proj.weight", 4096, 2 * 13696},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(hp.n_rot, 64);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(row_of(f, cases[i].gguf)->transform, FY_X_COPY);
    assert_string_equal(row_of(f, "blk.0.attn_q.bias")->required_by, "attention_bias");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_files_are_read_by_chatglm),
        cmocka_unit_test(nothing_is_permuted_and_gate_stands_above_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
