/* The tables of runtime/arch/llama_families.c: what is easily got wrong in each. */
#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

/* --- internlm3 --- */

static void internlm3_it_is_written_as_llama(void **state)
{
    (void)state;
    const fy_family *f = family_of("InternLM3ForCausalLM", "llama");
    assert_string_equal(fy_family_of_gguf(FY_SPAN("llama"), false)->name, "llama");
    assert_int_equal(f->rope, FY_ROPE_NORM);
}

static void internlm3_biases_have_two_flags_and_those_of_q_and_k_are_permuted(void **state)
{
    (void)state;
    const fy_family *f = family_of("InternLM3ForCausalLM", "llama");
    static const struct {
        const char *name, *flag;
        fy_transform transform;
    } cases[] = {
        {"blk.0.attn_q.bias", "qkv_bias", FY_X_PERMUTE_Q},
        {"blk.0.attn_k.bias", "qkv_bias", FY_X_PERMUTE_K},
        {"blk.0.attn_v.bias", "qkv_bias", FY_X_COPY},
        {"blk.0.attn_output.bias", "bias", FY_X_COPY},
        {"blk.0.ffn_gate.bias", "bias", FY_X_COPY},
        {"blk.0.ffn_up.bias", "bias", FY_X_COPY},
        {"blk.0.ffn_down.bias", "bias", FY_X_COPY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_tensor_row *row = row_of(f, cases[i].name);
        assert_string_equal(row->required_by, cases[i].flag);
        assert_int_equal(row->transform, cases[i].transform);
    }
}

/* --- prosparse --- */

static void prosparse_it_is_llama_with_fatrelu_and_nothing_else(void **state)
{
    (void)state;
    const fy_family *f = family_of("SparseLlamaForCausalLM", "llama");
    fy_hparams hp = whole_model(f);
    expect_rule(f, "hidden_act", "\"fatrelu\"");
    assert_int_equal(f->rope, FY_ROPE_NORM);
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(hp.head_dim, 128);
}

/* --- bamboo --- */

static void bamboo_gate_and_up_both_pass_relu(void **state)
{
    (void)state;
    const fy_family *f = family_of("BambooForCausalLM", "bamboo");
    assert_int_equal(f->defaults.act, FY_ACT_DRELU);
    assert_ptr_equal(fy_family_of_gguf(FY_SPAN("bamboo"), false), f);
}

static void bamboo_the_rest_is_mistral(void **state)
{
    (void)state;
    const fy_family *f = family_of("BambooForCausalLM", "bamboo"),
                    *mistral = family_of("MistralForCausalLM", "llama");
    fy_hparams hp = whole_model(f);
    for (size_t i = 0; i < f->n_rows; i++) {
        uint64_t ne[FY_GGUF_MAX_DIMS], other[FY_GGUF_MAX_DIMS];
        char name[FY_ROW_NAME_BYTES];
        fy_row_name(f->rows[i].gguf, 3, name);
        const fy_tensor_row *same = row_of(mistral, name);
        assert_string_equal(f->rows[i].hf, same->hf);
        assert_int_equal(f->rows[i].transform, same->transform);
        fy_row_shape(&hp, &f->rows[i], ne);
        fy_row_shape(&hp, same, other);
        assert_memory_equal(ne, other, sizeof ne);
    }
    assert_int_equal(f->rope, mistral->rope);
    assert_int_equal(f->defaults.n_swa, 4096);
}

/* --- smollm3 --- */

static void smollm3_every_fourth_layer_does_not_rotate(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmolLM3ForCausalLM", "smollm3");
    fy_layer_set nope = fy_layers_of(f->no_rope, 36);
    for (uint32_t i = 0; i < 36; i++)
        assert_int_equal(fy_layer_in(&nope, i), i % 4 == 3);
    assert_false(f->nope_follows_swa);
}

static void smollm3_a_window_needs_its_flag_and_has_no_default(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmolLM3ForCausalLM", "smollm3");
    assert_string_equal(f->window_flag, "use_sliding_window");
    assert_string_equal(f->window_keys[0], "sliding_window");
    assert_int_equal(f->defaults.n_swa, 0);
}

static void smollm3_q_and_k_are_permuted_and_the_output_is_tied(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmolLM3ForCausalLM", "smollm3");
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(row_of(f, "blk.0.attn_k.bias")->transform, FY_X_PERMUTE_K);
    assert_int_equal(f->rope, FY_ROPE_NORM);
    assert_true(f->tied_default);
}

/* --- granite --- */

static void granite_four_multipliers_are_1_when_absent(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteForCausalLM", "granite");
    static const struct {
        const char *key;
        size_t field;
    } cases[] = {
        {"embedding_multiplier", offsetof(fy_hparams, embedding_scale)},
        {"residual_multiplier", offsetof(fy_hparams, residual_scale)},
        {"attention_multiplier", offsetof(fy_hparams, attn_scale)},
        {"logits_scaling", offsetof(fy_hparams, logit_scale)},
    };
    assert_int_equal(f->n_keys, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(f->keys[i].key, cases[i].key);
        assert_int_equal(f->keys[i].field, cases[i].field);
        assert_int_equal(f->keys[i].op, FY_OP_SET);
        assert_true(f->keys[i].absent == 1);
    }
    expect_rule(f, "position_embedding_type", "\"rope\"");
}

static void granite_q_and_k_are_permuted_with_their_biases(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteForCausalLM", "granite");
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(row_of(f, "blk.0.attn_q.bias")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(row_of(f, "blk.0.attn_k.bias")->transform, FY_X_PERMUTE_K);
    assert_string_equal(row_of(f, "blk.0.ffn_down.bias")->required_by, "mlp_bias");
    assert_int_equal(f->rope, FY_ROPE_NORM);
}

/* --- minicpm --- */

static void minicpm_three_scales_come_from_keys_of_its_own(void **state)
{
    (void)state;
    const fy_family *f = family_of("MiniCPMForCausalLM", "minicpm");
    static const struct {
        const char *key;
        size_t field;
        fy_config_op op;
    } cases[] = {
        {"scale_emb", offsetof(fy_hparams, embedding_scale), FY_OP_SET},
        {"scale_depth", offsetof(fy_hparams, residual_scale), FY_OP_OVER_SQRT_LAYERS},
        {"dim_model_base", offsetof(fy_hparams, logit_scale), FY_OP_EMBD_OVER},
    };
    assert_int_equal(f->n_keys, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(f->keys[i].key, cases[i].key);
        assert_int_equal(f->keys[i].field, cases[i].field);
        assert_int_equal(f->keys[i].op, cases[i].op);
        assert_true(f->keys[i].absent == 1);
    }
    assert_true(f->tied_default);
}

static void minicpm_rotation_factors_are_optional_tensors_of_half_a_head(void **state)
{
    (void)state;
    const fy_family *f = family_of("MiniCPMForCausalLM", "minicpm");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"rope_factors_long.weight", "", 64, 1},
        {"rope_factors_short.weight", "", 64, 1},
        {"rope_freqs.weight", "", 64, 1},
    };
    static const fy_transform transforms[] = {FY_X_LONG_FACTORS, FY_X_SHORT_FACTORS,
                                              FY_X_LLAMA3_FREQS};
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(row_of(f, cases[i].gguf)->transform, transforms[i]);
        assert_int_equal(row_of(f, cases[i].gguf)->flags, FY_ROW_OPTIONAL);
    }
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
}

/* --- baichuan --- */

static void baichuan_one_matrix_of_the_checkpoint_becomes_three(void **state)
{
    (void)state;
    const fy_family *f = family_of("BaiChuanForCausalLM", "baichuan");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q.weight", "model.layers.3.self_attn.W_pack.weight", 4096, 4096},
        {"blk.3.attn_k.weight", "model.layers.3.self_attn.W_pack.weight", 4096, 4096},
        {"blk.3.attn_v.weight", "model.layers.3.self_attn.W_pack.weight", 4096, 4096},
    };
    static const fy_transform transforms[] = {FY_X_PACK_Q, FY_X_PACK_K, FY_X_PACK_V};
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 3; i++) {
        uint64_t dims[FY_GGUF_MAX_DIMS];
        const fy_tensor_row *row = row_of(f, cases[i].gguf);
        assert_int_equal(row->transform, transforms[i]);
        fy_row_source_shape(&hp, row, dims);
        assert_int_equal(dims[0], 3 * 4096);
    }
}

static void baichuan_models_with_alibi_and_with_normed_output_rows_are_refused(void **state)
{
    (void)state;
    const fy_family *f = family_of("BaiChuanForCausalLM", "baichuan");
    fy_hparams hp = whole_model(f);
    fy_err e = {0};
    hp.n_layer = 40;
    assert_int_equal(fy_hparams_check(&hp, f, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "ALiBi"));
    assert_null(fy_family_of_hf(FY_SPAN("BaichuanForCausalLM"))); /* 13B and Baichuan 2 */
}

/* --- internlm2 --- */

static void internlm2_one_matrix_of_the_checkpoint_becomes_three(void **state)
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

static void internlm2_gate_up_and_down_are_w1_w3_and_w2(void **state)
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

static void internlm2_biases_are_there_unless_config_json_says_no(void **state)
{
    (void)state;
    const fy_family *f = family_of("InternLM2ForCausalLM", "internlm2");
    assert_string_equal(row_of(f, "blk.0.attn_q.bias")->required_by, "bias");
    assert_string_equal(row_of(f, "blk.0.attn_output.bias")->required_by, "bias");
    assert_string_equal(f->flags_on[0], "bias");
}

/* --- qwen3 --- */

static void qwen3_the_family_is_found_by_class_and_by_architecture(void **state)
{
    (void)state;
    const fy_family *f = fy_family_of_hf(FY_SPAN("Qwen3ForCausalLM"));
    assert_non_null(f);
    assert_ptr_equal(f, fy_family_of_gguf(FY_SPAN("qwen3"), false));
    assert_int_equal(f->rope, FY_ROPE_NEOX);
}

static void qwen3_q_and_k_have_a_norm_per_head(void **state)
{
    (void)state;
    const fy_family *f = fy_family_of_gguf(FY_SPAN("qwen3"), false);
    fy_hparams hp = f->defaults;
    hp.n_embd = 1024;
    hp.n_head = 16;
    fy_hparams_derive(&hp, f);
    static const char *const names[] = {"blk.3.attn_q_norm.weight", "blk.3.attn_k_norm.weight"};
    for (size_t i = 0; i < 2; i++) {
        uint32_t layer;
        uint64_t ne[FY_GGUF_MAX_DIMS];
        const fy_tensor_row *row = fy_row_of_gguf(f, fy_span_of(names[i]), &layer);
        assert_non_null(row);
        assert_int_equal(row->flags, 0);
        assert_int_equal(fy_row_shape(&hp, row, ne), 1);
        assert_int_equal(ne[0], 128); /* head_dim, which is not 1024 / 16 */
    }
}

/* --- olmo2 --- */

static void olmo2_q_and_k_have_a_norm_over_all_heads(void **state)
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

static void olmo2_norms_stand_behind_the_blocks_only(void **state)
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

/* --- olmo3, exaone4, hunyuan, ernie 4.5, ministral 3 --- */

static void olmo3_is_written_as_olmo2_with_a_list_of_windows(void **state)
{
    (void)state;
    const fy_family *f = family_of("Olmo3ForCausalLM", "olmo2");
    assert_ptr_equal(f->rows, family_of("Olmo2ForCausalLM", "olmo2")->rows);
    assert_true(fy_family_of_gguf(FY_SPAN("olmo2"), false)->lists_swa_layers);
    assert_true(f->swa_unscaled);
}

static void exaone4_has_olmo2_norms_and_norms_of_heads(void **state)
{
    (void)state;
    const fy_family *f = family_of("Exaone4ForCausalLM", "exaone4");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight", 128, 1},
        {"blk.3.post_ffw_norm.weight", "model.layers.3.post_feedforward_layernorm.weight", 4096, 1},
        {"rope_freqs.weight", "", 64, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    uint32_t layer;
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.3.attn_norm.weight"), &layer));
}

static void hunyuan_norms_come_after_the_rotation(void **state)
{
    (void)state;
    const fy_family *f = family_of("HunYuanDenseV1ForCausalLM", "hunyuan-dense");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.query_layernorm.weight", 128, 1},
        {"blk.3.attn_k_norm.weight", "model.layers.3.self_attn.key_layernorm.weight", 128, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_true(f->norm_rotated);
    expect_rule(f, "use_qk_norm", "true");
}

static void ernie4_5_rotates_neighbours_and_permutes_nothing(void **state)
{
    (void)state;
    const fy_family *f = family_of("Ernie4_5ForCausalLM", "ernie4_5");
    assert_int_equal(f->rope, FY_ROPE_NORM);
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_COPY);
    assert_int_equal(row_of(f, "blk.0.attn_k.weight")->transform, FY_X_COPY);
}

static void ministral3_knows_a_scale_of_queries(void **state)
{
    (void)state;
    const fy_family *f = family_of("Ministral3ForCausalLM", "mistral3");
    assert_string_equal(f->rope_keys[0], "llama_4_scaling_beta");
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
    assert_null(fy_family_of_hf(FY_SPAN("Mistral3ForConditionalGeneration"))); /* Mistral, too */
}

/* --- phi3 --- */

static void phi3_q_k_v_and_gate_up_stay_whole(void **state)
{
    (void)state;
    const fy_family *f = family_of("Phi3ForCausalLM", "phi3");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_qkv.weight", "model.layers.3.self_attn.qkv_proj.weight", 3072, 3 * 3072},
        {"blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight", 3072, 3072},
        {"blk.3.ffn_up.weight", "model.layers.3.mlp.gate_up_proj.weight", 3072, 2 * 8192},
        {"blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight", 8192, 3072},
        {"rope_factors_long.weight", "", 48, 1},
        {"rope_factors_short.weight", "", 48, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(row_of(f, "blk.0.ffn_up.weight")->slot, FY_T_FFN_GATE_UP);
}

static void phi3_the_window_has_no_default(void **state)
{
    (void)state;
    const fy_family *f = family_of("Phi3ForCausalLM", "phi3");
    assert_int_equal(f->defaults.n_swa, 0);
    assert_string_equal(f->window_keys[0], "sliding_window");
}

/* --- chatglm --- */

static void chatglm_both_classes_are_read(void **state)
{
    (void)state;
    const fy_family *f = family_of("ChatGLMModel", "chatglm");
    assert_ptr_equal(f, family_of("ChatGLMForConditionalGeneration", "chatglm"));
    assert_ptr_equal(f, fy_family_of_gguf(FY_SPAN("chatglm"), false));
}

static void chatglm_names_are_its_own(void **state)
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

static void chatglm_separate_q_k_v_of_other_classes_are_read_only(void **state)
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

/* --- glm --- */

static void glm_the_files_are_read_by_chatglm(void **state)
{
    (void)state;
    const fy_family *f = family_of("GlmForCausalLM", "chatglm"),
                    *reader = fy_family_of_gguf(FY_SPAN("chatglm"), false);
    assert_string_equal(reader->name, "chatglm");
    assert_int_equal(f->rope, FY_ROPE_NORM);
    assert_int_equal(reader->rope, FY_ROPE_NORM);
}

static void glm_nothing_is_permuted_and_gate_stands_above_up(void **state)
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

/* --- glm4 --- */

static void glm4_the_norms_are_not_what_their_names_say(void **state)
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

static void glm4_half_of_each_head_rotates_by_neighbours(void **state)
{
    (void)state;
    const fy_family *f = family_of("Glm4ForCausalLM", "glm4");
    fy_hparams hp = whole_model(f);
    assert_int_equal(f->rope, FY_ROPE_NORM);
    assert_int_equal(hp.n_rot, 64);
    assert_true(hp.norm_rms_eps == 1.5625e-7F);
}

/* --- minicpm3 --- */

static void minicpm3_what_is_made_of_latents_has_their_lengths(void **state)
{
    (void)state;
    const fy_family *f = family_of("MiniCPM3ForCausalLM", "minicpm3");
    fy_hparams hp = f->defaults;
    hp.head_dim = 96;
    hp.n_rot = 32;
    fy_hparams_derive(&hp, f);
    static const row_case cases[] = {
        {"blk.3.attn_q_a.weight", "model.layers.3.self_attn.q_a_proj.weight", 2560, 768},
        {"blk.3.attn_q_a_norm.weight", "model.layers.3.self_attn.q_a_layernorm.weight", 768, 1},
        {"blk.3.attn_q_b.weight", "model.layers.3.self_attn.q_b_proj.weight", 768, 40 * 96},
        {"blk.3.attn_kv_a_mqa.weight", "model.layers.3.self_attn.kv_a_proj_with_mqa.weight", 2560,
         256 + 32},
        {"blk.3.attn_kv_a_norm.weight", "model.layers.3.self_attn.kv_a_layernorm.weight", 256, 1},
        {"blk.3.attn_kv_b.weight", "model.layers.3.self_attn.kv_b_proj.weight", 256,
         40 * (64 + 64)},
        {"blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight", 40 * 64, 2560},
        {"rope_factors_long.weight", "", 16, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(f->rope, FY_ROPE_NEOX);
    assert_true(hp.latent_eps == 1e-6F && hp.norm_rms_eps == 1e-5F);
}

/* What llama.cpp's files leave out: its constants. */
static void minicpm3_the_scales_follow_from_depth_and_width(void **state)
{
    (void)state;
    const fy_family *f = family_of("MiniCPM3ForCausalLM", "minicpm3");
    fy_hparams hp = {.n_embd = 2560, .n_layer = 62, .n_head = 40, .kv_lora_rank = 256};
    fy_hparams_derive(&hp, f);
    assert_true(hp.embedding_scale == 12 && hp.logit_scale == 10);
    assert_true(hp.residual_scale > 0.17779F && hp.residual_scale < 0.17781F);
    expect_rule(f, "scale_emb", "12");
    expect_rule(f, "scale_depth", "1.4");
    expect_rule(f, "dim_model_base", "256");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(internlm3_it_is_written_as_llama),
        cmocka_unit_test(internlm3_biases_have_two_flags_and_those_of_q_and_k_are_permuted),
        cmocka_unit_test(prosparse_it_is_llama_with_fatrelu_and_nothing_else),
        cmocka_unit_test(bamboo_gate_and_up_both_pass_relu),
        cmocka_unit_test(bamboo_the_rest_is_mistral),
        cmocka_unit_test(smollm3_every_fourth_layer_does_not_rotate),
        cmocka_unit_test(smollm3_a_window_needs_its_flag_and_has_no_default),
        cmocka_unit_test(smollm3_q_and_k_are_permuted_and_the_output_is_tied),
        cmocka_unit_test(granite_four_multipliers_are_1_when_absent),
        cmocka_unit_test(granite_q_and_k_are_permuted_with_their_biases),
        cmocka_unit_test(minicpm_three_scales_come_from_keys_of_its_own),
        cmocka_unit_test(minicpm_rotation_factors_are_optional_tensors_of_half_a_head),
        cmocka_unit_test(baichuan_one_matrix_of_the_checkpoint_becomes_three),
        cmocka_unit_test(baichuan_models_with_alibi_and_with_normed_output_rows_are_refused),
        cmocka_unit_test(internlm2_one_matrix_of_the_checkpoint_becomes_three),
        cmocka_unit_test(internlm2_gate_up_and_down_are_w1_w3_and_w2),
        cmocka_unit_test(internlm2_biases_are_there_unless_config_json_says_no),
        cmocka_unit_test(qwen3_the_family_is_found_by_class_and_by_architecture),
        cmocka_unit_test(qwen3_q_and_k_have_a_norm_per_head),
        cmocka_unit_test(olmo2_q_and_k_have_a_norm_over_all_heads),
        cmocka_unit_test(olmo2_norms_stand_behind_the_blocks_only),
        cmocka_unit_test(olmo3_is_written_as_olmo2_with_a_list_of_windows),
        cmocka_unit_test(exaone4_has_olmo2_norms_and_norms_of_heads),
        cmocka_unit_test(hunyuan_norms_come_after_the_rotation),
        cmocka_unit_test(ernie4_5_rotates_neighbours_and_permutes_nothing),
        cmocka_unit_test(ministral3_knows_a_scale_of_queries),
        cmocka_unit_test(phi3_q_k_v_and_gate_up_stay_whole),
        cmocka_unit_test(phi3_the_window_has_no_default),
        cmocka_unit_test(chatglm_both_classes_are_read),
        cmocka_unit_test(chatglm_names_are_its_own),
        cmocka_unit_test(chatglm_separate_q_k_v_of_other_classes_are_read_only),
        cmocka_unit_test(glm_the_files_are_read_by_chatglm),
        cmocka_unit_test(glm_nothing_is_permuted_and_gate_stands_above_up),
        cmocka_unit_test(glm4_the_norms_are_not_what_their_names_say),
        cmocka_unit_test(glm4_half_of_each_head_rotates_by_neighbours),
        cmocka_unit_test(minicpm3_what_is_made_of_latents_has_their_lengths),
        cmocka_unit_test(minicpm3_the_scales_follow_from_depth_and_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
