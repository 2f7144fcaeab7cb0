#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void a_layer_has_four_norms(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma2ForCausalLM", "gemma2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_norm.weight", "model.layers.3.input_layernorm.weight", 2304, 1},
        {"blk.3.post_attention_norm.weight", "model.layers.3.post_attention_layernorm.weight", 2304,
         1},
        {"blk.3.ffn_norm.weight", "model.layers.3.pre_feedforward_layernorm.weight", 2304, 1},
        {"blk.3.post_ffw_norm.weight", "model.layers.3.post_feedforward_layernorm.weight", 2304, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(row_of(f, cases[i].gguf)->transform, FY_X_ADD_ONE);
}

static void odd_layers_are_full_and_scores_are_capped(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma2ForCausalLM", "gemma2");
    fy_layer_set full = fy_layers_of(f->full_attention, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(fy_layer_in(&full, i), i % 2);
    assert_int_equal(f->defaults.n_swa, 4096);
    assert_true(f->defaults.attn_softcap == 50 && f->defaults.logit_softcap == 30);
    assert_int_equal(f->n_keys, 1);
    assert_string_equal(f->keys[0].key, "query_pre_attn_scalar");
    assert_int_equal(f->keys[0].op, FY_OP_INV_SQRT);
    assert_true(f->keys[0].absent == 256);
}

/* A file of another converter does not say what its scores are multiplied by. */
static float scale_of_a_file(const fy_family *f, uint32_t n_layer)
{
    fy_hparams hp = whole_model(f), back;
    fy_err e = {0};
    char path[] = "/tmp/ferry-test-gemma2-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    hp.n_layer = n_layer;
    hp.attn_scale = 0;
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(w);
    assert_int_equal(fy_hparams_to_gguf(w, f, &hp, &e), 0);
    assert_int_equal(fy_gguf_write(w, path, NULL, NULL, NULL, NULL, &e), 0);
    fy_gguf_writer_free(w);
    fy_gguf *g = fy_gguf_open(path, &e);
    assert_non_null(g);
    assert_int_equal(fy_hparams_from_gguf(g, f, &back, &e), 0);
    fy_gguf_close(g);
    unlink(path);
    return back.attn_scale;
}

static void the_27b_scales_by_the_width_of_the_stream(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma2ForCausalLM", "gemma2");
    assert_true(scale_of_a_file(f, 26) <= 0);
    float scale = scale_of_a_file(f, 46); /* 1 / sqrt(2304 / 8) */
    assert_true(scale > 0.0589F && scale < 0.0590F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_has_four_norms),
        cmocka_unit_test(odd_layers_are_full_and_scores_are_capped),
        cmocka_unit_test(the_27b_scales_by_the_width_of_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
