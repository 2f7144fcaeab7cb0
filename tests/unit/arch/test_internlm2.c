#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void one_matrix_of_the_checkpoint_becomes_three(void **state)
{
    (void)state;
    const fy_family *f = family_of("InternLM2ForCausalLM", "internlm2");
    fy_hparams hp = f->defaults;
    hp.n_head_kv = 8;
    fy_hparams_derive(&hp, f);
    static const row_case cases[] = {
        {"blk.3.attn_q.weight", "model.layers.3.attention.wqkv.weight", 4096, 4096},
        {"blk.3.attn_k.weight", "model.layers.3.attention.wqkv.weight", 4096, 1024},
        {"blk.3.attn_v.weight", "model.layers.3.attention.wqkv.weight", 4096, 1024},
        {"blk.3.attn_v.bias", "model.layers.3.attention.wqkv.bias", 1024, 1},
        {"blk.3.attn_output.weight", "model.layers.3.attention.wo.weight", 4096, 4096},
    };
    static const fy_transform transforms[] = {FY_X_GROUP_Q, FY_X_GROUP_K, FY_X_GROUP_V,
                                              FY_X_GROUP_V, FY_X_COPY};
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 5; i++) {
        uint64_t dims[FY_GGUF_MAX_DIMS];
        const fy_tensor_row *row = row_of(f, cases[i].gguf);
        assert_int_equal(row->transform, transforms[i]);
        fy_row_source_shape(&hp, row, dims);
        assert_int_equal(dims[0], i < 4 ? 4096 + 2 * 1024 : 4096);
    }
}

static void gate_up_and_down_are_w1_w3_and_w2(void **state)
{
    (void)state;
    const fy_family *f = family_of("InternLM2ForCausalLM", "internlm2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"token_embd.weight", "model.tok_embeddings.weight", 4096, 103168},
        {"blk.3.attn_norm.weight", "model.layers.3.attention_norm.weight", 4096, 1},
        {"blk.3.ffn_norm.weight", "model.layers.3.ffn_norm.weight", 4096, 1},
        {"blk.3.ffn_gate.weight", "model.layers.3.feed_forward.w1.weight", 4096, 11008},
        {"blk.3.ffn_up.weight", "model.layers.3.feed_forward.w3.weight", 4096, 11008},
        {"blk.3.ffn_down.weight", "model.layers.3.feed_forward.w2.weight", 11008, 4096},
        {"output.weight", "output.weight", 4096, 103168},
    };
    EXPECT_ROWS(f, &hp, cases);
}

static void biases_are_there_unless_config_json_says_no(void **state)
{
    (void)state;
    const fy_family *f = family_of("InternLM2ForCausalLM", "internlm2");
    assert_string_equal(row_of(f, "blk.0.attn_q.bias")->required_by, "bias");
    assert_string_equal(row_of(f, "blk.0.attn_output.bias")->required_by, "bias");
    assert_string_equal(f->flags_on[0], "bias");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_matrix_of_the_checkpoint_becomes_three),
        cmocka_unit_test(gate_up_and_down_are_w1_w3_and_w2),
        cmocka_unit_test(biases_are_there_unless_config_json_says_no),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
