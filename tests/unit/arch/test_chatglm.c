#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void both_classes_are_read(void **state)
{
    (void)state;
    const fy_family *f = family_of("ChatGLMModel", "chatglm");
    assert_ptr_equal(f, family_of("ChatGLMForConditionalGeneration", "chatglm"));
    assert_ptr_equal(f, fy_family_of_gguf(FY_SPAN("chatglm"), false));
}

static void names_are_its_own(void **state)
{
    (void)state;
    const fy_family *f = family_of("ChatGLMModel", "chatglm");
    fy_hparams hp = whole_model(f);
    hp.n_head_kv = 2;
    static const row_case cases[] = {
        {"token_embd.weight", "transformer.embedding.word_embeddings.weight", 4096, 65024},
        {"blk.3.attn_qkv.weight",
         "transformer.encoder.layers.3.self_attention.query_key_value.weight", 4096,
         4096 + 2 * 2 * 128},
        {"blk.3.attn_qkv.bias", "transformer.encoder.layers.3.self_attention.query_key_value.bias",
         4096 + 2 * 2 * 128, 1},
        {"blk.3.ffn_up.weight", "transformer.encoder.layers.3.mlp.dense_h_to_4h.weight", 4096,
         2 * 13696},
        {"output_norm.weight", "transformer.encoder.final_layernorm.weight", 4096, 1},
        {"output.weight", "transformer.output_layer.weight", 4096, 65024},
    };
    EXPECT_ROWS(f, &hp, cases);
}

static void separate_q_k_v_of_other_classes_are_read_only(void **state)
{
    (void)state;
    const fy_family *f = family_of("ChatGLMModel", "chatglm");
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight",
                                        "blk.0.attn_v.weight", "blk.0.attn_q.bias",
                                        "blk.0.attn_k.bias",   "blk.0.attn_v.bias"};
    for (size_t i = 0; i < 6; i++) {
        assert_null(row_of(f, names[i])->hf);
        assert_true(row_of(f, names[i])->flags & FY_ROW_OPTIONAL);
    }
    expect_rule(f, "multi_query_attention", "true");
    expect_rule(f, "add_bias_linear", "false");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_classes_are_read),
        cmocka_unit_test(names_are_its_own),
        cmocka_unit_test(separate_q_k_v_of_other_classes_are_read_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
