#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void names_are_its_own(void **state)
{
    (void)state;
    const fy_family *f = family_of("GPTNeoXForCausalLM", "gptneox");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"token_embd.weight", "gpt_neox.embed_in.weight", 6144, 50432},
        {"blk.3.attn_qkv.weight", "gpt_neox.layers.3.attention.query_key_value.weight", 6144,
         3 * 6144},
        {"blk.3.attn_qkv.bias", "gpt_neox.layers.3.attention.query_key_value.bias", 3 * 6144, 1},
        {"blk.3.ffn_norm.bias", "gpt_neox.layers.3.post_attention_layernorm.bias", 6144, 1},
        {"blk.3.ffn_down.weight", "gpt_neox.layers.3.mlp.dense_4h_to_h.weight", 24576, 6144},
        {"output.weight", "embed_out.weight", 6144, 50432},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(hp.n_rot, 24);
    assert_true(hp.parallel && f->layer_norm);
}

static void heads_of_q_k_and_v_alternate_in_the_checkpoint(void **state)
{
    (void)state;
    const fy_family *f = family_of("GPTNeoXForCausalLM", "gptneox");
    fy_hparams hp = {.n_embd = 64, .n_head = 4, .n_head_kv = 4, .head_dim = 16, .head_dim_v = 16};
    static const char *const names[] = {"blk.0.attn_qkv.weight", "blk.0.attn_qkv.bias"};
    for (size_t i = 0; i < 2; i++) {
        for (uint64_t part = 0; part < 3; part++) {
            for (uint64_t head = 0; head < 4; head++)
                assert_int_equal(fy_transform_row(&hp, row_of(f, names[i]), (part * 4 + head) * 16),
                                 (head * 3 + part) * 16);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_its_own),
        cmocka_unit_test(heads_of_q_k_and_v_alternate_in_the_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
