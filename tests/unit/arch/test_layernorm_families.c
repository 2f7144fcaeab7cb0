/* The tables of runtime/arch/layernorm_families.c: what is easily got wrong in each. */
#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

/* --- gpt2 --- */

static void gpt2_matrices_are_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("GPT2LMHeadModel", "gpt2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_qkv.weight", "transformer.h.3.attn.c_attn.weight", 768, 3 * 768},
        {"blk.3.attn_qkv.bias", "transformer.h.3.attn.c_attn.bias", 3 * 768, 1},
        {"blk.3.ffn_up.weight", "transformer.h.3.mlp.c_fc.weight", 768, 3072},
        {"blk.3.ffn_down.weight", "transformer.h.3.mlp.c_proj.weight", 3072, 768},
    };
    EXPECT_ROWS(f, &hp, cases);
    uint64_t dims[FY_GGUF_MAX_DIMS];
    assert_int_equal(fy_row_source_shape(&hp, row_of(f, "blk.0.attn_qkv.weight"), dims), 2);
    assert_int_equal(dims[0], 768);
    assert_int_equal(dims[1], 3 * 768);
    assert_true(fy_transform_is_transpose(row_of(f, "blk.0.ffn_up.weight")->transform));
}

static void gpt2_positions_are_learned(void **state)
{
    (void)state;
    const fy_family *f = family_of("GPT2LMHeadModel", "gpt2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"position_embd.weight", "transformer.wpe.weight", 768, 1024},
        {"blk.3.ffn_norm.bias", "transformer.h.3.ln_2.bias", 768, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(f->rope, FY_ROPE_NO);
    expect_rule(f, "scale_attn_by_inverse_layer_idx", "false");
    expect_rule(f, "scale_attn_weights", "true");
}

/* --- opt --- */

static void opt_positions_lose_their_first_two_rows(void **state)
{
    (void)state;
    const fy_family *f = family_of("OPTForCausalLM", "opt");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"position_embd.weight", "model.decoder.embed_positions.weight", 768, 2048},
    };
    EXPECT_ROWS(f, &hp, cases);
    const fy_tensor_row *row = row_of(f, "position_embd.weight");
    uint64_t dims[FY_GGUF_MAX_DIMS];
    assert_int_equal(fy_row_source_shape(&hp, row, dims), 2);
    assert_int_equal(dims[0], 2050);
    assert_int_equal(fy_transform_row(&hp, row, 0), 2);
    assert_int_equal(fy_transform_row(&hp, row, 2047), 2049);
    assert_int_equal(row->flags, 0);
    assert_int_equal(hp.n_rot, 0);
}

static void opt_names_are_those_of_powerinfer(void **state)
{
    (void)state;
    const fy_family *f = family_of("OPTForCausalLM", "opt");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"token_embd.weight", "model.decoder.embed_tokens.weight", 768, 50272},
        {"blk.3.attn_norm.bias", "model.decoder.layers.3.self_attn_layer_norm.bias", 768, 1},
        {"blk.3.attn_output.bias", "model.decoder.layers.3.self_attn.out_proj.bias", 768, 1},
        {"blk.3.ffn_norm.weight", "model.decoder.layers.3.final_layer_norm.weight", 768, 1},
        {"blk.3.ffn_up.weight", "model.decoder.layers.3.fc1.weight", 768, 3072},
        {"blk.3.ffn_down.weight", "model.decoder.layers.3.fc2.weight", 3072, 768},
        {"output_norm.weight", "model.decoder.final_layer_norm.weight", 768, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    expect_rule(f, "do_layer_norm_before", "true");
    expect_rule(f, "enable_bias", "true");
}

/* --- gptneox --- */

static void gptneox_names_are_its_own(void **state)
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

static void gptneox_heads_of_q_k_and_v_alternate_in_the_checkpoint(void **state)
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

/* --- phi2 --- */

static void phi2_weights_and_biases_have_the_names_of_phi(void **state)
{
    (void)state;
    const fy_family *f = family_of("PhiForCausalLM", "phi2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_norm.bias", "model.layers.3.input_layernorm.bias", 2048, 1},
        {"blk.3.attn_q.bias", "model.layers.3.self_attn.q_proj.bias", 2048, 1},
        {"blk.3.attn_output.weight", "model.layers.3.self_attn.dense.weight", 2048, 2048},
        {"blk.3.ffn_up.weight", "model.layers.3.mlp.fc1.weight", 2048, 8192},
        {"blk.3.ffn_up.bias", "model.layers.3.mlp.fc1.bias", 8192, 1},
        {"blk.3.ffn_down.weight", "model.layers.3.mlp.fc2.weight", 8192, 2048},
        {"output_norm.bias", "model.final_layernorm.bias", 2048, 1},
        {"output.bias", "lm_head.bias", 51200, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
}

static void phi2_the_block_is_parallel_behind_one_layer_norm(void **state)
{
    (void)state;
    const fy_family *f = family_of("PhiForCausalLM", "phi2");
    uint32_t layer;
    assert_ptr_equal(f, fy_family_of_gguf(FY_SPAN("phi2"), false));
    assert_true(f->layer_norm && f->defaults.parallel);
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.0.ffn_norm.weight"), &layer));
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.0.ffn_gate.weight"), &layer));
    assert_true(f->rot_part == 0.5F);
    expect_rule(f, "qk_layernorm", "false");
}

/* --- codegen --- */

static void codegen_it_is_written_as_phi2(void **state)
{
    (void)state;
    const fy_family *f = family_of("CodeGenForCausalLM", "phi2");
    assert_string_equal(fy_family_of_gguf(FY_SPAN("phi2"), false)->name, "phi");
    assert_string_equal(f->name, "codegen");
}

static void codegen_one_matrix_of_the_checkpoint_becomes_three_with_zero_biases(void **state)
{
    (void)state;
    const fy_family *f = family_of("CodeGenForCausalLM", "phi2");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_q.weight", "transformer.h.3.attn.qkv_proj.weight", 4096, 4096},
        {"blk.3.attn_k.weight", "transformer.h.3.attn.qkv_proj.weight", 4096, 4096},
        {"blk.3.attn_v.weight", "transformer.h.3.attn.qkv_proj.weight", 4096, 4096},
        {"blk.3.attn_v.bias", "", 4096, 1},
        {"blk.3.attn_output.bias", "", 4096, 1},
        {"blk.3.ffn_up.weight", "transformer.h.3.mlp.fc_in.weight", 4096, 4 * 4096},
        {"output.bias", "lm_head.bias", 50400, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    uint64_t dims[FY_GGUF_MAX_DIMS];
    assert_int_equal(fy_row_source_shape(&hp, row_of(f, "blk.0.attn_q.weight"), dims), 2);
    assert_int_equal(dims[0], 3 * 4096);
    assert_int_equal(row_of(f, "blk.0.attn_q.bias")->transform, FY_X_ZEROS);
}

static void codegen_groups_hold_q_then_v_then_k_and_neighbours_become_halves(void **state)
{
    (void)state;
    const fy_family *f = family_of("CodeGenForCausalLM", "phi2");
    fy_hparams hp = whole_model(f); /* 16 heads of 256, 64 of them rotate; 4 groups */
    const fy_tensor_row *q = row_of(f, "blk.0.attn_q.weight"),
                        *k = row_of(f, "blk.0.attn_k.weight"),
                        *v = row_of(f, "blk.0.attn_v.weight");
    assert_int_equal(fy_transform_row(&hp, q, 0), 0);
    assert_int_equal(fy_transform_row(&hp, q, 1), 2);
    assert_int_equal(fy_transform_row(&hp, q, 32), 1);
    assert_int_equal(fy_transform_row(&hp, q, 64), 64);
    assert_int_equal(fy_transform_row(&hp, v, 0), 1024);
    assert_int_equal(fy_transform_row(&hp, v, 1), 1025);
    assert_int_equal(fy_transform_row(&hp, k, 0), 2048);
    assert_int_equal(fy_transform_row(&hp, k, 33), 2048 + 3);
    assert_int_equal(fy_transform_row(&hp, q, 1024), 3072);
}

/* --- falcon --- */

static void falcon_both_classes_are_read(void **state)
{
    (void)state;
    const fy_family *f = family_of("FalconForCausalLM", "falcon");
    assert_ptr_equal(f, family_of("RWForCausalLM", "falcon"));
    assert_true(f->layer_norm && f->defaults.parallel && f->tied_default);
    assert_int_equal(f->defaults.act, FY_ACT_GELU);
    expect_rule(f, "alibi", "false");
    expect_rule(f, "bias", "false");
    expect_rule(f, "parallel_attn", "true");
}

static void falcon_one_head_of_k_and_one_of_v_follow_all_of_q(void **state)
{
    (void)state;
    const fy_family *f = family_of("FalconForCausalLM", "falcon");
    fy_hparams hp = whole_model(f);
    hp.n_head_kv = 1;
    static const row_case cases[] = {
        {"blk.3.attn_norm.weight", "transformer.h.3.input_layernorm.weight", 4544, 1},
        {"blk.3.attn_qkv.weight", "transformer.h.3.self_attention.query_key_value.weight", 4544,
         73 * 64},
        {"blk.3.ffn_up.weight", "transformer.h.3.mlp.dense_h_to_4h.weight", 4544, 4 * 4544},
        {"output_norm.bias", "transformer.ln_f.bias", 4544, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    for (uint64_t r = 0; r < 73 * 64; r += 63)
        assert_int_equal(fy_transform_row(&hp, row_of(f, "blk.0.attn_qkv.weight"), r), r);
}

static void falcon_groups_of_the_large_ones_are_taken_apart(void **state)
{
    (void)state;
    const fy_family *f = family_of("FalconForCausalLM", "falcon");
    fy_hparams hp = {.n_embd = 64, .n_head = 4, .n_head_kv = 2, .head_dim = 16, .head_dim_v = 16};
    const fy_tensor_row *qkv = row_of(f, "blk.0.attn_qkv.weight");
    /* the checkpoint: q0 q1 k0 v0 q2 q3 k1 v1 */
    static const uint64_t heads[] = {0, 1, 4, 5, 2, 6, 3, 7};
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(fy_transform_row(&hp, qkv, i * 16 + 5), heads[i] * 16 + 5);
}

static void falcon_a_second_norm_belongs_to_attention(void **state)
{
    (void)state;
    const fy_family *f = family_of("FalconForCausalLM", "falcon");
    const fy_tensor_row *first = row_of(f, "blk.0.attn_norm.weight"),
                        *second = row_of(f, "blk.0.attn_norm_2.weight");
    assert_true(first[1].flags & FY_ROW_ALT);
    assert_string_equal(first[1].hf, "transformer.h.%u.ln_mlp.weight");
    assert_string_equal(second->hf, "transformer.h.%u.ln_attn.weight");
    assert_int_equal(second->slot, FY_T_ATTN_NORM_2);
    assert_int_equal(second->flags, FY_ROW_OPTIONAL);
}

/* --- stablelm --- */

static void stablelm_it_is_llama_with_layer_norms(void **state)
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

static void stablelm_a_quarter_rotates_and_the_parallel_one_is_refused(void **state)
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
static void stablelm_a_file_that_says_parallel_is_sequential(void **state)
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

/* --- starcoder2 --- */

static void starcoder2_it_is_plain_with_biases(void **state)
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

static void starcoder2_the_window_has_no_default(void **state)
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
        cmocka_unit_test(gpt2_matrices_are_transposed),
        cmocka_unit_test(gpt2_positions_are_learned),
        cmocka_unit_test(opt_positions_lose_their_first_two_rows),
        cmocka_unit_test(opt_names_are_those_of_powerinfer),
        cmocka_unit_test(gptneox_names_are_its_own),
        cmocka_unit_test(gptneox_heads_of_q_k_and_v_alternate_in_the_checkpoint),
        cmocka_unit_test(phi2_weights_and_biases_have_the_names_of_phi),
        cmocka_unit_test(phi2_the_block_is_parallel_behind_one_layer_norm),
        cmocka_unit_test(codegen_it_is_written_as_phi2),
        cmocka_unit_test(codegen_one_matrix_of_the_checkpoint_becomes_three_with_zero_biases),
        cmocka_unit_test(codegen_groups_hold_q_then_v_then_k_and_neighbours_become_halves),
        cmocka_unit_test(falcon_both_classes_are_read),
        cmocka_unit_test(falcon_one_head_of_k_and_one_of_v_follow_all_of_q),
        cmocka_unit_test(falcon_groups_of_the_large_ones_are_taken_apart),
        cmocka_unit_test(falcon_a_second_norm_belongs_to_attention),
        cmocka_unit_test(stablelm_it_is_llama_with_layer_norms),
        cmocka_unit_test(stablelm_a_quarter_rotates_and_the_parallel_one_is_refused),
        cmocka_unit_test(stablelm_a_file_that_says_parallel_is_sequential),
        cmocka_unit_test(starcoder2_it_is_plain_with_biases),
        cmocka_unit_test(starcoder2_the_window_has_no_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
