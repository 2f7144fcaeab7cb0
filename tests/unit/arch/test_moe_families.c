/* The tables of runtime/arch/moe_families.c: what is easily got wrong in each. */
#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

/* --- mixtral --- */

static void mixtral_it_reads_files_of_architecture_llama_with_experts(void **state)
{
    (void)state;
    const fy_family *f = family_of("MixtralForCausalLM", "llama");
    assert_ptr_equal(fy_family_of_gguf(FY_SPAN("llama"), true), f);
    expect_routing(f, FY_GATING_SOFTMAX, true);
}

static void mixtral_experts_are_found_each_fused_and_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("MixtralForCausalLM", "llama");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.block_sparse_moe.experts.5.w1.weight", FY_X_COPY, {14336, 4096}},
                 {"model.layers.3.mlp.experts.gate_up_proj", FY_X_FIRST_HALF, {8, 2 * 14336, 4096}},
                 {"model.layers.3.mlp.experts.gate_up_proj",
                  FY_X_TRANSPOSE_FIRST_HALF,
                  {8, 4096, 2 * 14336}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_up_exps.weight",
        {"model.layers.3.block_sparse_moe.experts.5.w3.weight", FY_X_COPY, {14336, 4096}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_SECOND_HALF, {8, 2 * 14336, 4096}},
        {"model.layers.3.mlp.experts.gate_up_proj",
         FY_X_TRANSPOSE_SECOND_HALF,
         {8, 4096, 2 * 14336}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.block_sparse_moe.experts.5.w2.weight", FY_X_COPY, {4096, 14336}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_COPY, {8, 4096, 14336}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_TRANSPOSE, {8, 14336, 4096}});
    expect_stacks(f, &hp);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_inp.weight",
                 {"model.layers.3.block_sparse_moe.gate.weight", FY_X_COPY, {8, 4096}},
                 {"model.layers.3.mlp.gate.weight", FY_X_COPY, {8, 4096}});
}

static void mixtral_a_window_is_read_but_none_is_the_default(void **state)
{
    (void)state;
    const fy_family *f = family_of("MixtralForCausalLM", "llama");
    assert_string_equal(f->window_keys[0], "sliding_window");
    assert_int_equal(f->defaults.n_swa, 0);
}

static void mixtral_q_and_k_are_permuted(void **state)
{
    (void)state;
    const fy_family *f = family_of("MixtralForCausalLM", "llama");
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(row_of(f, "blk.0.attn_k.weight")->transform, FY_X_PERMUTE_K);
    assert_int_equal(f->rope, FY_ROPE_NORM);
}

/* --- qwen2moe --- */

static void qwen2moe_experts_are_found_each_fused_and_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen2MoeForCausalLM", "qwen2moe");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.mlp.experts.5.gate_proj.weight", FY_X_COPY, {1408, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj", FY_X_FIRST_HALF, {60, 2 * 1408, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj",
                  FY_X_TRANSPOSE_FIRST_HALF,
                  {60, 2048, 2 * 1408}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_up_exps.weight",
        {"model.layers.3.mlp.experts.5.up_proj.weight", FY_X_COPY, {1408, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_SECOND_HALF, {60, 2 * 1408, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj",
         FY_X_TRANSPOSE_SECOND_HALF,
         {60, 2048, 2 * 1408}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.mlp.experts.5.down_proj.weight", FY_X_COPY, {2048, 1408}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_COPY, {60, 2048, 1408}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_TRANSPOSE, {60, 1408, 2048}});
    expect_stacks(f, &hp);
}

static void qwen2moe_weights_are_not_divided_by_their_sum(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen2MoeForCausalLM", "qwen2moe");
    expect_routing(f, FY_GATING_SOFTMAX, false);
    expect_rule(f, "decoder_sparse_step", "1");
    expect_rule(f, "mlp_only_layers", "[]");
    expect_rule(f, "use_sliding_window", "false");
}

static void qwen2moe_the_shared_expert_has_a_gate_of_one_row(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen2MoeForCausalLM", "qwen2moe");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.ffn_gate_inp_shexp.weight", "model.layers.3.mlp.shared_expert_gate.weight", 2048,
         1},
        {"blk.3.ffn_gate_shexp.weight", "model.layers.3.mlp.shared_expert.gate_proj.weight", 2048,
         5632},
        {"blk.3.ffn_down_shexp.weight", "model.layers.3.mlp.shared_expert.down_proj.weight", 5632,
         2048},
    };
    EXPECT_ROWS(f, &hp, cases);
    uint64_t dims[FY_GGUF_MAX_DIMS];
    assert_int_equal(fy_row_source_shape(&hp, row_of(f, cases[0].gguf), dims), 2);
    assert_true(dims[0] == 1 && dims[1] == 2048);
}

static void qwen2moe_q_k_and_v_have_biases_unless_config_json_says_no(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen2MoeForCausalLM", "qwen2moe");
    assert_string_equal(row_of(f, "blk.0.attn_q.bias")->required_by, "qkv_bias");
    assert_string_equal(f->flags_on[0], "qkv_bias");
    assert_null(f->flags_on[1]);
    uint32_t layer;
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.0.attn_output.bias"), &layer));
}

/* --- qwen3moe --- */

static void qwen3moe_experts_are_found_each_fused_and_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen3MoeForCausalLM", "qwen3moe");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.mlp.experts.5.gate_proj.weight", FY_X_COPY, {768, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj", FY_X_FIRST_HALF, {128, 2 * 768, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj",
                  FY_X_TRANSPOSE_FIRST_HALF,
                  {128, 2048, 2 * 768}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_up_exps.weight",
        {"model.layers.3.mlp.experts.5.up_proj.weight", FY_X_COPY, {768, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_SECOND_HALF, {128, 2 * 768, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj",
         FY_X_TRANSPOSE_SECOND_HALF,
         {128, 2048, 2 * 768}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.mlp.experts.5.down_proj.weight", FY_X_COPY, {2048, 768}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_COPY, {128, 2048, 768}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_TRANSPOSE, {128, 768, 2048}});
    expect_stacks(f, &hp);
}

static void
qwen3moe_a_file_without_the_key_divides_by_the_sum_and_a_config_without_it_does_not(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen3MoeForCausalLM", "qwen3moe");
    expect_routing(f, FY_GATING_SOFTMAX, true);
    assert_int_equal(f->n_keys, 1);
    assert_string_equal(f->keys[0].key, "norm_topk_prob");
    assert_int_equal(f->keys[0].op, FY_OP_FLAG);
    assert_int_equal(f->keys[0].field, offsetof(fy_hparams, expert_norm));
    expect_rule(f, "decoder_sparse_step", "1");
    expect_rule(f, "mlp_only_layers", "[]");
    expect_rule(f, "use_sliding_window", "false");
}

static void qwen3moe_q_and_k_have_a_norm_per_head(void **state)
{
    (void)state;
    const fy_family *f = family_of("Qwen3MoeForCausalLM", "qwen3moe");
    fy_hparams hp = f->defaults;
    hp.head_dim = 128; /* not 2048 / 32 */
    fy_hparams_derive(&hp, f);
    static const row_case cases[] = {
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight", 128, 1},
        {"blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight", 128, 1},
        {"blk.3.attn_q.weight", "model.layers.3.self_attn.q_proj.weight", 2048, 4096},
        {"blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj.weight", 2048, 512},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(f->rope, FY_ROPE_NEOX);
}

/* --- olmoe --- */

static void olmoe_experts_are_found_each_fused_and_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("OlmoeForCausalLM", "olmoe");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.mlp.experts.5.gate_proj.weight", FY_X_COPY, {2048, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj", FY_X_FIRST_HALF, {64, 2 * 2048, 2048}},
                 {"model.layers.3.mlp.experts.gate_up_proj",
                  FY_X_TRANSPOSE_FIRST_HALF,
                  {64, 2048, 2 * 2048}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_up_exps.weight",
        {"model.layers.3.mlp.experts.5.up_proj.weight", FY_X_COPY, {2048, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_SECOND_HALF, {64, 2 * 2048, 2048}},
        {"model.layers.3.mlp.experts.gate_up_proj",
         FY_X_TRANSPOSE_SECOND_HALF,
         {64, 2048, 2 * 2048}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.mlp.experts.5.down_proj.weight", FY_X_COPY, {2048, 2048}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_COPY, {64, 2048, 2048}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_TRANSPOSE, {64, 2048, 2048}});
    expect_stacks(f, &hp);
}

static void olmoe_weights_are_not_divided_by_their_sum(void **state)
{
    (void)state;
    const fy_family *f = family_of("OlmoeForCausalLM", "olmoe");
    expect_routing(f, FY_GATING_SOFTMAX, false);
    expect_rule(f, "clip_qkv", "null");
}

static void olmoe_q_and_k_have_a_norm_over_all_heads(void **state)
{
    (void)state;
    const fy_family *f = family_of("OlmoeForCausalLM", "olmoe");
    fy_hparams hp = f->defaults;
    hp.n_head_kv = 4;
    fy_hparams_derive(&hp, f);
    static const row_case cases[] = {
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight", 2048, 1},
        {"blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight", 512, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
}

/* --- granitemoe --- */

static void granitemoe_four_multipliers_are_1_when_absent(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteMoeForCausalLM", "granitemoe");
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

static void granitemoe_experts_are_cut_from_one_tensor(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteMoeForCausalLM", "granitemoe");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.block_sparse_moe.input_linear.weight",
                  FY_X_FIRST_HALF,
                  {8, 2 * 11008, 4096}},
                 {"model.layers.3.block_sparse_moe.experts.gate_up_proj",
                  FY_X_FIRST_HALF,
                  {8, 2 * 11008, 4096}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_up_exps.weight",
                 {"model.layers.3.block_sparse_moe.input_linear.weight",
                  FY_X_SECOND_HALF,
                  {8, 2 * 11008, 4096}},
                 {"model.layers.3.block_sparse_moe.experts.gate_up_proj",
                  FY_X_SECOND_HALF,
                  {8, 2 * 11008, 4096}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_down_exps.weight",
        {"model.layers.3.block_sparse_moe.output_linear.weight", FY_X_COPY, {8, 4096, 11008}},
        {"model.layers.3.block_sparse_moe.experts.down_proj", FY_X_COPY, {8, 4096, 11008}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_inp.weight",
                 {"model.layers.3.block_sparse_moe.router.layer.weight", FY_X_COPY, {8, 4096}},
                 {"model.layers.3.block_sparse_moe.router.weight", FY_X_COPY, {8, 4096}});
    expect_stacks(f, &hp);
    expect_routing(f, FY_GATING_SOFTMAX, true);
}

static void granitemoe_a_shared_expert_is_there_when_it_has_a_width_and_has_no_gate(void **state)
{
    (void)state;
    const fy_family *f = family_of("GraniteMoeSharedForCausalLM", "granitemoe");
    fy_hparams hp = f->defaults;
    hp.n_ff_shexp = 1024;
    fy_hparams_derive(&hp, f);
    static const row_case cases[] = {
        {"blk.3.ffn_gate_shexp.weight", "model.layers.3.shared_mlp.input_linear.weight", 4096,
         1024},
        {"blk.3.ffn_up_shexp.weight", "model.layers.3.shared_mlp.input_linear.weight", 4096, 1024},
        {"blk.3.ffn_down_shexp.weight", "model.layers.3.shared_mlp.output_linear.weight", 1024,
         4096},
    };
    static const fy_transform transforms[] = {FY_X_FIRST_HALF, FY_X_SECOND_HALF, FY_X_COPY};
    EXPECT_ROWS(f, &hp, cases);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(row_of(f, cases[i].gguf)->transform, transforms[i]);
        hp.n_ff_shexp = 1024;
        assert_true(fy_row_is_there(&hp, row_of(f, cases[i].gguf)));
        hp.n_ff_shexp = 0;
        assert_false(fy_row_is_there(&hp, row_of(f, cases[i].gguf)));
    }
    uint32_t layer;
    assert_null(fy_row_of_gguf(f, FY_SPAN("blk.3.ffn_gate_inp_shexp.weight"), &layer));
}

/* --- smallthinker --- */

static void smallthinker_experts_are_chosen_by_sigmoid_at_layer_entry(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmallThinkerForCausalLM", "smallthinker");
    fy_hparams hp = whole_model(f);
    assert_true(f->early_router);
    assert_int_equal(hp.act, FY_ACT_RELU);
    expect_routing(f, FY_GATING_SIGMOID, true);
    expect_stacks(f, &hp);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.block_sparse_moe.experts.5.gate.weight", FY_X_COPY, {768, 1536}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.block_sparse_moe.experts.5.down.weight", FY_X_COPY, {1536, 768}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_inp.weight",
                 {"model.layers.3.block_sparse_moe.primary_router.weight", FY_X_COPY, {32, 1536}});
}

static void smallthinker_layers_come_in_fours_where_there_is_a_window(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmallThinkerForCausalLM", "smallthinker");
    fy_layer_set full = fy_layers_of(f->full_attention, 52), nope = fy_layers_of(f->no_rope, 52);
    for (uint32_t i = 0; i < 52; i++) {
        assert_int_equal(fy_layer_in(&full, i), i % 4 == 0);
        assert_int_equal(fy_layer_in(&nope, i), i % 4 == 0);
    }
    assert_int_equal(fy_layers_count(&full), 13);
    assert_true(f->nope_follows_swa);
    assert_string_equal(f->window_keys[0], "sliding_window_size");
}

static void smallthinker_numbers_of_experts_have_keys_of_their_own(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmallThinkerForCausalLM", "smallthinker");
    assert_int_equal(f->n_keys, 3);
    assert_string_equal(f->keys[0].key, "moe_num_primary_experts");
    assert_int_equal(f->keys[0].field, offsetof(fy_hparams, n_expert));
    assert_string_equal(f->keys[1].key, "moe_num_active_primary_experts");
    assert_int_equal(f->keys[1].field, offsetof(fy_hparams, n_expert_used));
    assert_int_equal(f->keys[2].op, FY_OP_ROUTER_IS_SOFTMAX);
}

/* --- lfm2moe --- */

static void lfm2moe_the_first_layers_have_no_experts(void **state)
{
    (void)state;
    const fy_family *f = family_of("Lfm2MoeForCausalLM", "lfm2moe");
    fy_hparams hp = whole_model(f);
    static const char *const experts[] = {
        "blk.%u.ffn_gate_inp.weight", "blk.%u.exp_probs_b.bias", "blk.%u.ffn_gate_exps.weight",
        "blk.%u.ffn_up_exps.weight", "blk.%u.ffn_down_exps.weight"};
    assert_int_equal(hp.n_dense_layers, 2);
    for (uint32_t layer = 0; layer < 4; layer++) {
        assert_int_equal(fy_row_is_in_layer(&hp, row_of(f, "blk.0.ffn_up.weight"), layer),
                         layer < 2);
        assert_true(fy_row_is_in_layer(&hp, row_of(f, "blk.0.ffn_norm.weight"), layer));
        for (size_t i = 0; i < sizeof experts / sizeof experts[0]; i++) {
            char name[FY_ROW_NAME_BYTES];
            fy_row_name(experts[i], 0, name);
            assert_int_equal(fy_row_is_in_layer(&hp, row_of(f, name), layer), layer >= 2);
        }
    }
    hp = whole_model(family_of("Lfm2ForCausalLM", "lfm2"));
    assert_true(fy_row_is_in_layer(&hp, row_of(f, "blk.0.ffn_up.weight"), 31));
}

static void lfm2moe_experts_are_found_each_fused_and_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("Lfm2MoeForCausalLM", "lfm2moe");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_gate_exps.weight",
        {"model.layers.3.feed_forward.experts.5.w1.weight", FY_X_COPY, {1792, 2048}},
        {"model.layers.3.feed_forward.experts.gate_up_proj", FY_X_FIRST_HALF, {32, 2 * 1792, 2048}},
        {"model.layers.3.feed_forward.experts.gate_up_proj",
         FY_X_TRANSPOSE_FIRST_HALF,
         {32, 2048, 2 * 1792}});
    expect_stacks(f, &hp);
    expect_routing(f, FY_GATING_SIGMOID, true);
    expect_rule(f, "use_expert_bias", "true");
    expect_rule(f, "routed_scaling_factor", "1");
}

/* --- gpt-oss --- */

static void gpt_oss_experts_are_mxfp4_or_transposed_and_take_turns(void **state)
{
    (void)state;
    const fy_family *f = family_of("GptOssForCausalLM", "gpt-oss");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_gate_exps.weight",
        {"model.layers.3.mlp.experts.gate_up_proj_blocks", FY_X_EVEN, {128, 5760, 2880}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_TRANSPOSE_EVEN, {128, 2880, 5760}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_up_exps.weight",
        {"model.layers.3.mlp.experts.gate_up_proj_blocks", FY_X_ODD, {128, 5760, 2880}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_TRANSPOSE_ODD, {128, 2880, 5760}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.mlp.experts.down_proj_blocks", FY_X_COPY, {128, 2880, 2880}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_TRANSPOSE, {128, 2880, 2880}});
    expect_stacks(f, &hp);
    expect_routing(f, FY_GATING_SOFTMAX, true);
    expect_rule(f, "swiglu_limit", "7");
    expect_rule(f, "swiglu_alpha", "1.702");
}

static void gpt_oss_biases_and_sinks_have_their_places(void **state)
{
    (void)state;
    const fy_family *f = family_of("GptOssForCausalLM", "gpt-oss");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_sinks.weight", "model.layers.3.self_attn.sinks", 64, 1},
        {"blk.3.attn_output.bias", "model.layers.3.self_attn.o_proj.bias", 2880, 1},
        {"blk.3.ffn_gate_inp.bias", "model.layers.3.mlp.router.bias", 128, 1},
        {"blk.3.ffn_gate_exps.bias", "model.layers.3.mlp.experts.gate_up_proj_bias", 2880, 128},
        {"blk.3.ffn_up_exps.bias", "model.layers.3.mlp.experts.gate_up_proj_bias", 2880, 128},
        {"blk.3.ffn_down_exps.bias", "model.layers.3.mlp.experts.down_proj_bias", 2880, 128},
        {"blk.3.post_attention_norm.weight", "model.layers.3.post_attention_layernorm.weight", 2880,
         1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(row_of(f, "blk.3.ffn_gate_exps.bias")->transform, FY_X_EVEN);
    assert_int_equal(row_of(f, "blk.3.ffn_up_exps.bias")->transform, FY_X_ODD);
    assert_int_equal(row_of(f, "blk.3.post_attention_norm.weight")->slot, FY_T_FFN_NORM);
    assert_true(hp.yarn_unrounded);
    assert_int_equal(hp.act, FY_ACT_SWIGLU_OAI);
    const fy_layer_set full = fy_layers_of(f->full_attention, 4);
    assert_false(fy_layer_in(&full, 0) || fy_layer_in(&full, 2));
    assert_true(fy_layer_in(&full, 1) && fy_layer_in(&full, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixtral_it_reads_files_of_architecture_llama_with_experts),
        cmocka_unit_test(mixtral_experts_are_found_each_fused_and_transposed),
        cmocka_unit_test(mixtral_a_window_is_read_but_none_is_the_default),
        cmocka_unit_test(mixtral_q_and_k_are_permuted),
        cmocka_unit_test(qwen2moe_experts_are_found_each_fused_and_transposed),
        cmocka_unit_test(qwen2moe_weights_are_not_divided_by_their_sum),
        cmocka_unit_test(qwen2moe_the_shared_expert_has_a_gate_of_one_row),
        cmocka_unit_test(qwen2moe_q_k_and_v_have_biases_unless_config_json_says_no),
        cmocka_unit_test(
            qwen3moe_a_file_without_the_key_divides_by_the_sum_and_a_config_without_it_does_not),
        cmocka_unit_test(qwen3moe_experts_are_found_each_fused_and_transposed),
        cmocka_unit_test(qwen3moe_q_and_k_have_a_norm_per_head),
        cmocka_unit_test(olmoe_experts_are_found_each_fused_and_transposed),
        cmocka_unit_test(olmoe_weights_are_not_divided_by_their_sum),
        cmocka_unit_test(olmoe_q_and_k_have_a_norm_over_all_heads),
        cmocka_unit_test(granitemoe_four_multipliers_are_1_when_absent),
        cmocka_unit_test(granitemoe_experts_are_cut_from_one_tensor),
        cmocka_unit_test(granitemoe_a_shared_expert_is_there_when_it_has_a_width_and_has_no_gate),
        cmocka_unit_test(smallthinker_experts_are_chosen_by_sigmoid_at_layer_entry),
        cmocka_unit_test(smallthinker_layers_come_in_fours_where_there_is_a_window),
        cmocka_unit_test(smallthinker_numbers_of_experts_have_keys_of_their_own),
        cmocka_unit_test(lfm2moe_the_first_layers_have_no_experts),
        cmocka_unit_test(lfm2moe_experts_are_found_each_fused_and_transposed),
        cmocka_unit_test(gpt_oss_experts_are_mxfp4_or_transposed_and_take_turns),
        cmocka_unit_test(gpt_oss_biases_and_sinks_have_their_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
