/* The tables of runtime/arch/gemma_families.c: what is easily got wrong in each. */
#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

/* --- gemma --- */

static void gemma_norms_hold_one_less_and_the_embedding_is_scaled(void **state)
{
    (void)state;
    const fy_family *f = family_of("GemmaForCausalLM", "gemma");
    fy_hparams hp = whole_model(f);
    static const char *const norms[] = {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight",
                                        "output_norm.weight"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(row_of(f, norms[i])->transform, FY_X_ADD_ONE);
    assert_true(f->sqrt_embedding && f->tied_default);
    assert_true(hp.embedding_scale > 55.42F && hp.embedding_scale < 55.43F);
    assert_int_equal(hp.act, FY_ACT_GELU_TANH);
    expect_rule(f, "attention_bias", "false");
}

static void gemma_heads_are_wider_than_the_model_divided_by_their_number(void **state)
{
    (void)state;
    const fy_family *f = family_of("GemmaForCausalLM", "gemma");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q.weight", "model.layers.3.self_attn.q_proj.weight", 3072, 16 * 256},
        {"blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight", 16 * 256, 3072},
        {"blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight", 3072, 1},
        {"output_norm.weight", "model.norm.weight", 3072, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
}

/* --- gemma2 --- */

static void gemma2_a_layer_has_four_norms(void **state)
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

static void gemma2_odd_layers_are_full_and_scores_are_capped(void **state)
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
static float gemma2_scale_of_a_file(const fy_family *f, uint32_t n_layer)
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

static void gemma2_the_27b_scales_by_the_width_of_the_stream(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma2ForCausalLM", "gemma2");
    assert_true(gemma2_scale_of_a_file(f, 26) <= 0);
    float scale = gemma2_scale_of_a_file(f, 46); /* 1 / sqrt(2304 / 8) */
    assert_true(scale > 0.0589F && scale < 0.0590F);
}

/* --- gemma3 --- */

static void gemma3_both_classes_are_read(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma3ForCausalLM", "gemma3");
    assert_ptr_equal(f, family_of("Gemma3ForConditionalGeneration", "gemma3"));
}

static void gemma3_q_and_k_have_a_norm_per_head_that_holds_one_less(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma3ForCausalLM", "gemma3");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight", 256, 1},
        {"blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight", 256, 1},
        {"blk.3.ffn_norm.weight", "model.layers.3.pre_feedforward_layernorm.weight", 2304, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(row_of(f, cases[i].gguf)->transform, FY_X_ADD_ONE);
}

static void gemma3_every_sixth_layer_is_full_and_the_others_have_a_theta_of_their_own(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma3ForCausalLM", "gemma3");
    fy_layer_set full = fy_layers_of(f->full_attention, 13);
    for (uint32_t i = 0; i < 13; i++)
        assert_int_equal(fy_layer_in(&full, i), i % 6 == 5);
    assert_true(f->defaults.rope_theta == 1e6F && f->defaults.rope_theta_swa == 1e4F);
    assert_true(f->defaults.attn_softcap == 0 && f->defaults.logit_softcap == 0);
    expect_rule(f, "use_bidirectional_attention", "false");
}

/* --- gemma3n --- */

static void gemma3n_streams_and_branches_have_their_names(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma3nForConditionalGeneration", "gemma3n");
    assert_ptr_equal(f, family_of("Gemma3nForCausalLM", "gemma3n"));
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", 35 * 256, 262400},
        {"blk.3.laurel_l.weight", "model.layers.3.laurel.linear_left.weight", 2048, 64},
        {"blk.3.laurel_r.weight", "model.layers.3.laurel.linear_right.weight", 64, 2048},
        {"blk.3.altup_router.weight", "model.layers.3.altup.modality_router.weight", 2048, 4},
        {"blk.3.altup_predict_coef.weight", "model.layers.3.altup.prediction_coefs.weight", 4, 16},
        {"blk.3.altup_correct_coef.weight", "model.layers.3.altup.correction_coefs.weight", 4, 4},
        {"blk.3.altup_correct_scale.weight", "model.layers.3.altup.correct_output_scale", 2048, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_true(hp.attn_scale == 1 && hp.logit_softcap == 30);
    expect_rule(f, "altup_active_idx", "0");
}

static void gemma3n_stacks_hold_the_streams_but_the_first(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma3nForCausalLM", "gemma3n");
    fy_hparams hp = whole_model(f);
    static const char *const names[][2] = {
        {"altup_proj.weight", "model.altup_projections.2.weight"},
        {"altup_unembd_proj.weight", "model.altup_unembed_projections.2.weight"}};
    for (int i = 0; i < 2; i++) {
        const fy_tensor_row *row = row_of(f, names[i][0]);
        char hf[FY_ROW_NAME_BYTES];
        uint64_t ne[FY_GGUF_MAX_DIMS];
        fy_row_expert_name(row->hf, 0, 2, hf);
        assert_string_equal(hf, names[i][1]);
        assert_int_equal(fy_row_shape(&hp, row, ne), 3);
        assert_true(ne[0] == 2048 && ne[1] == 2048 && ne[2] == 3);
    }
}

/* --- gemma4 --- */

static void gemma4_norms_hold_themselves_and_scores_are_not_scaled(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma4ForConditionalGeneration", "gemma4");
    assert_ptr_equal(f, family_of("Gemma4ForCausalLM", "gemma4"));
    fy_hparams hp = whole_model(f);
    assert_true(hp.attn_scale == 1 && hp.logit_softcap == 0);
    for (size_t i = 0; i < f->n_rows; i++)
        assert_int_not_equal(f->rows[i].transform, FY_X_ADD_ONE);
    assert_true(f->norm_values && f->lists_swa_layers);
    expect_rule(f, "enable_moe_block", "false");
}

static void gemma4_a_table_has_a_part_of_every_token_for_each_layer(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma4ForCausalLM", "gemma4");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", 30 * 256, 262144},
        {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight", 2304, 30 * 256},
        {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight", 256, 1},
        {"blk.3.inp_gate.weight", "model.layers.3.per_layer_input_gate.weight", 2304, 256},
        {"blk.3.proj.weight", "model.layers.3.per_layer_projection.weight", 256, 2304},
        {"blk.3.post_norm.weight", "model.layers.3.post_per_layer_input_norm.weight", 2304, 1},
        {"blk.3.layer_output_scale.weight", "model.layers.3.layer_scalar", 1, 1},
        {"blk.3.ffn_norm.weight", "model.layers.3.pre_feedforward_layernorm.weight", 2304, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    hp.n_embd_pl = 0; /* as in 12B */
    for (size_t i = 0; i < 6; i++)
        assert_false(fy_row_is_there(&hp, row_of(f, cases[i].gguf)));
    assert_true(fy_row_is_there(&hp, row_of(f, cases[6].gguf)));
}

static void gemma4_keys_may_be_values_in_layers_without_the_window(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma4ForCausalLM", "gemma4");
    fy_hparams hp = whole_model(f);
    hp.full_layers = fy_layers_of(f->full_attention, hp.n_layer);
    const fy_tensor_row *v = row_of(f, "blk.5.attn_v.weight");
    assert_true(fy_row_is_in_layer(&hp, v, 5));
    hp.k_is_v = true;
    assert_false(fy_row_is_in_layer(&hp, v, 5));
    assert_true(fy_row_is_in_layer(&hp, v, 4));
}

static void gemma4_the_class_of_12b_has_other_defaults(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma4UnifiedForConditionalGeneration", "gemma4");
    assert_int_equal(f->defaults.n_swa, 1024);
    assert_int_equal(f->defaults.n_embd_pl, 0);
    assert_ptr_equal(f->rows, family_of("Gemma4ForCausalLM", "gemma4")->rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemma_norms_hold_one_less_and_the_embedding_is_scaled),
        cmocka_unit_test(gemma_heads_are_wider_than_the_model_divided_by_their_number),
        cmocka_unit_test(gemma2_a_layer_has_four_norms),
        cmocka_unit_test(gemma2_odd_layers_are_full_and_scores_are_capped),
        cmocka_unit_test(gemma2_the_27b_scales_by_the_width_of_the_stream),
        cmocka_unit_test(gemma3_both_classes_are_read),
        cmocka_unit_test(gemma3_q_and_k_have_a_norm_per_head_that_holds_one_less),
        cmocka_unit_test(gemma3_every_sixth_layer_is_full_and_the_others_have_a_theta_of_their_own),
        cmocka_unit_test(gemma3n_streams_and_branches_have_their_names),
        cmocka_unit_test(gemma3n_stacks_hold_the_streams_but_the_first),
        cmocka_unit_test(gemma4_norms_hold_themselves_and_scores_are_not_scaled),
        cmocka_unit_test(gemma4_a_table_has_a_part_of_every_token_for_each_layer),
        cmocka_unit_test(gemma4_keys_may_be_values_in_layers_without_the_window),
        cmocka_unit_test(gemma4_the_class_of_12b_has_other_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
