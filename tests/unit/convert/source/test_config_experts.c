/* What config.json of the families with experts and of those with multipliers means. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "convert/source/hf_config.h"

/* 4 heads of 16 in 4 layers */
#define MODEL(class)                                                                         \
    "{\"architectures\": [\"" class "\"], \"hidden_size\": 64, \"num_attention_heads\": 4, " \
                                    "\"num_key_value_heads\": 2, \"num_hidden_layers\": 4, " \
                                    "\"head_dim\": 16"

static int parse(fy_hf_config *c, const char *text, fy_err *e)
{
    return fy_hf_config_parse(c, text, strlen(text), "config.json", e);
}

static void experts_have_many_names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t n, used, ff, shared;
        fy_gating gating;
        bool norm;
    } cases[] = {
        {MODEL("MixtralForCausalLM") ", \"num_local_experts\": 5, \"intermediate_size\": 96}", 5, 2,
         96, 0, FY_GATING_SOFTMAX, true},
        {MODEL("Qwen2MoeForCausalLM") ", \"num_experts\": 6, \"num_experts_per_tok\": 3}", 6, 3,
         1408, 5632, FY_GATING_SOFTMAX, false},
        {MODEL("Qwen2MoeForCausalLM") ", \"norm_topk_prob\": true, \"moe_intermediate_size\": 32, "
                                      "\"shared_expert_intermediate_size\": 48}",
         60, 4, 32, 48, FY_GATING_SOFTMAX, true},
        {MODEL("Qwen3MoeForCausalLM") "}", 128, 8, 768, 0, FY_GATING_SOFTMAX, false},
        {MODEL("Qwen3MoeForCausalLM") ", \"norm_topk_prob\": null}", 128, 8, 768, 0,
         FY_GATING_SOFTMAX, false},
        {MODEL("Qwen3MoeForCausalLM") ", \"norm_topk_prob\": true}", 128, 8, 768, 0,
         FY_GATING_SOFTMAX, true},
        {MODEL("OlmoeForCausalLM") ", \"clip_qkv\": null, \"intermediate_size\": 80}", 64, 8, 80, 0,
         FY_GATING_SOFTMAX, false},
        {MODEL("GraniteMoeSharedForCausalLM") ", \"shared_intermediate_size\": 24}", 8, 2, 11008,
         24, FY_GATING_SOFTMAX, true},
        {MODEL("GraniteMoeSharedForCausalLM") ", \"shared_intermediate_size\": 0}", 8, 2, 11008, 0,
         FY_GATING_SOFTMAX, true},
        {MODEL("SmallThinkerForCausalLM") ", \"moe_num_primary_experts\": 3, "
                                          "\"moe_num_active_primary_experts\": 2, "
                                          "\"moe_ffn_hidden_size\": 32}",
         3, 2, 32, 0, FY_GATING_SIGMOID, true},
        {MODEL("SmallThinkerForCausalLM") ", \"moe_primary_router_apply_softmax\": true}", 32, 4,
         768, 0, FY_GATING_SOFTMAX, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e = {0};
        if (parse(&c, cases[i].text, &e) != 0)
            fail_msg("%s: %s", cases[i].text, e.msg);
        assert_int_equal(c.hp.n_expert, cases[i].n);
        assert_int_equal(c.hp.n_expert_used, cases[i].used);
        assert_int_equal(c.hp.n_ff_exp, cases[i].ff);
        assert_int_equal(c.hp.n_ff_shexp, cases[i].shared);
        assert_int_equal(c.hp.gating, cases[i].gating);
        assert_int_equal(c.hp.expert_norm, cases[i].norm);
        fy_hf_config_release(&c);
    }
}

static void a_flag_of_biases_may_be_on_when_it_is_absent(void **state)
{
    (void)state;
    static const struct {
        const char *text, *flag;
        bool on;
    } cases[] = {
        {MODEL("Qwen2MoeForCausalLM") "}", "qkv_bias", true},
        {MODEL("Qwen2MoeForCausalLM") ", \"qkv_bias\": false}", "qkv_bias", false},
        {MODEL("Qwen2MoeForCausalLM") ", \"qkv_bias\": true}", "qkv_bias", true},
        {MODEL("InternLM2ForCausalLM") "}", "bias", true},
        {MODEL("InternLM2ForCausalLM") ", \"bias\": null}", "bias", false},
        {MODEL("InternLM3ForCausalLM") "}", "bias", false},
        {MODEL("LlamaForCausalLM") "}", "attention_bias", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e = {0};
        assert_int_equal(parse(&c, cases[i].text, &e), 0);
        assert_int_equal(fy_hf_config_flag(&c, cases[i].flag), cases[i].on);
        fy_hf_config_release(&c);
    }
}

static void multipliers_are_1_when_absent(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double embedding, residual, attention, logits;
    } cases[] = {
        {MODEL("GraniteForCausalLM") "}", 1, 1, 1, 1},
        {MODEL("GraniteForCausalLM") ", \"embedding_multiplier\": 12, \"residual_multiplier\": "
                                     "0.22, \"attention_multiplier\": 0.5, \"logits_scaling\": 8}",
         12, 0.22, 0.5, 8},
        {MODEL("MiniCPMForCausalLM") "}", 1, 0.5, 0, 64},
        {MODEL("MiniCPMForCausalLM") ", \"scale_emb\": 12, \"scale_depth\": 1.4, "
                                     "\"dim_model_base\": 32}",
         12, 0.7, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e = {0};
        assert_int_equal(parse(&c, cases[i].text, &e), 0);
        assert_float_equal(c.hp.embedding_scale, cases[i].embedding, 1e-6);
        assert_float_equal(c.hp.residual_scale, cases[i].residual, 1e-6);
        assert_float_equal(c.hp.attn_scale, cases[i].attention, 1e-6);
        assert_float_equal(c.hp.logit_scale, cases[i].logits, 1e-6);
        fy_hf_config_release(&c);
    }
}

static void what_is_not_computed_is_refused_by_key(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {MODEL("Qwen2MoeForCausalLM") ", \"decoder_sparse_step\": 2}", "decoder_sparse_step is 2"},
        {MODEL("Qwen3MoeForCausalLM") ", \"mlp_only_layers\": [0]}", "mlp_only_layers is"},
        {MODEL("Qwen3MoeForCausalLM") ", \"use_sliding_window\": true}",
         "use_sliding_window is true"},
        {MODEL("OlmoeForCausalLM") ", \"clip_qkv\": 8}", "clip_qkv is 8"},
        {MODEL("MixtralForCausalLM") ", \"num_experts_per_tok\": 9}",
         "expert_used_count 9 is above expert_count 8"},
        {MODEL("MixtralForCausalLM") ", \"num_local_experts\": 0}", "is 0"},
        {MODEL("GraniteForCausalLM") ", \"attention_multiplier\": 0}", "attention_multiplier is 0"},
        {MODEL("GraniteForCausalLM") ", \"position_embedding_type\": \"nope\"}",
         "position_embedding_type is"},
        {MODEL("SparseLlamaForCausalLM") ", \"hidden_act\": \"silu\"}", "hidden_act is"},
        {MODEL("SparseLlamaForCausalLM") "}", "hidden_act is absent"},
        {"{\"architectures\": [\"BaiChuanForCausalLM\"], \"num_hidden_layers\": 40}", "ALiBi"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e = {0};
        assert_int_equal(parse(&c, cases[i].text, &e), -1);
        if (strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s: %s", cases[i].text, e.msg);
        fy_hf_config_release(&c);
    }
}

static void gpt_oss_is_computed_as_its_class_does(void **state)
{
    (void)state;
#define OSS MODEL("GptOssForCausalLM")
#define YARN(more)                                                       \
    OSS ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32, " \
        "\"original_max_position_embeddings\": 4096" more "}}"
    fy_hf_config c;
    fy_err e = {0};
    const char *good = YARN(", \"truncate\": false");
    assert_int_equal(parse(&c, good, &e), 0);
    assert_true(c.hp.yarn_unrounded);
    assert_int_equal(c.hp.act, FY_ACT_SWIGLU_OAI);
    assert_int_equal(c.hp.n_swa, 128);
    assert_int_equal(fy_layers_count(&c.hp.full_layers), 2);
    assert_false(c.mxfp4);
    fy_hf_config_release(&c);
    good = OSS ", \"hidden_act\": \"silu\", \"swiglu_limit\": 7.0, \"swiglu_alpha\": 1.702, "
               "\"quantization_config\": {\"quant_method\": \"mxfp4\"}}";
    assert_int_equal(parse(&c, good, &e), 0);
    assert_true(c.mxfp4);
    /* config.json says nothing of rotation: the class has YaRN */
    assert_int_equal(c.hp.rope_scaling, FY_ROPE_SCALING_YARN);
    assert_float_equal(c.hp.rope_factor, 32, 0);
    assert_int_equal(c.hp.rope_orig_ctx, 4096);
    fy_hf_config_release(&c);
    static const struct {
        const char *text, *words;
    } bad[] = {
        {YARN(""), "truncate is true; ferry computes yarn of gpt_oss models with unrounded"},
        {OSS ", \"swiglu_limit\": 5.0}", "swiglu_limit is 5"},
        {OSS ", \"swiglu_alpha\": 1.7}", "swiglu_alpha is 1.7;"},
        {OSS ", \"hidden_act\": \"gelu\"}", "hidden_act"},
        {OSS ", \"quantization_config\": {\"quant_method\": \"gptq\"}}", "gptq"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_err own = {0};
        assert_int_equal(parse(&c, bad[i].text, &own), -1);
        if (own.code != FY_EUNSUPPORTED || strstr(own.msg, bad[i].words) == NULL)
            fail_msg("%s: %s", bad[i].text, own.msg);
        fy_hf_config_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_have_many_names),
        cmocka_unit_test(a_flag_of_biases_may_be_on_when_it_is_absent),
        cmocka_unit_test(multipliers_are_1_when_absent),
        cmocka_unit_test(what_is_not_computed_is_refused_by_key),
        cmocka_unit_test(gpt_oss_is_computed_as_its_class_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
