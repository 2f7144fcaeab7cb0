#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void it_is_llama_with_layer_norms(void **state)
{
    (void)state;
    const fy_family *f = family_of("StableLmForCausalLM", "stablelm");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_norm.bias", "model.layers.3.input_layernorm.bias", 2560, 1},
        {"blk.3.ffn_norm.bias", "model.layers.3.post_attention_layernorm.bias", 2560, 1},
        {"blk.3.ffn_gate.weight", "model.layers.3.mlp.gate_proj.weight", 2560, 6912},
        {"blk.3.attn_q.bias", "model.layers.3.self_attn.q_proj.bias", 2560, 1},
        {"output_norm.bias", "model.norm.bias", 2560, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_true(f->layer_norm);
    assert_int_equal(f->defaults.act, FY_ACT_SILU);
    assert_string_equal(row_of(f, "blk.0.attn_q.bias")->required_by, "use_qkv_bias");
}

static void a_quarter_rotates_and_the_parallel_one_is_refused(void **state)
{
    (void)state;
    const fy_family *f = family_of("StableLmForCausalLM", "stablelm");
    fy_hparams hp = f->defaults;
    fy_hparams_derive(&hp, f);
    assert_int_equal(hp.head_dim, 80);
    assert_true(f->rot_part == 0.25F);
    expect_rule(f, "qk_layernorm", "false");
    expect_rule(f, "use_parallel_residual", "false");
}

/* Converters write the key as true where config.json lacks it, which means false. */
static void a_file_that_says_parallel_is_sequential(void **state)
{
    (void)state;
    const fy_family *f = family_of("StableLmForCausalLM", "stablelm");
    fy_hparams hp = whole_model(f), back;
    fy_err e = {0};
    char path[] = "/tmp/ferry-test-stablelm-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(w);
    assert_int_equal(fy_hparams_to_gguf(w, f, &hp, &e), 0);
    assert_int_equal(fy_gguf_add_bool(w, "stablelm.use_parallel_residual", true, &e), 0);
    assert_int_equal(fy_gguf_write(w, path, NULL, NULL, NULL, NULL, &e), 0);
    fy_gguf_writer_free(w);
    fy_gguf *g = fy_gguf_open(path, &e);
    assert_non_null(g);
    assert_int_equal(fy_hparams_from_gguf(g, f, &back, &e), 0);
    assert_false(back.parallel);
    fy_gguf_close(g);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_llama_with_layer_norms),
        cmocka_unit_test(a_quarter_rotates_and_the_parallel_one_is_refused),
        cmocka_unit_test(a_file_that_says_parallel_is_sequential),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
