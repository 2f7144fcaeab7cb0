/* What config.json of each kind of family means: windows, layers without rotation, parts that
 * rotate, LongRoPE, keys with an operation, rules, activations, nested text models. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "convert/write/gguf_meta.h"
#include "convert/source/hf_config.h"

#define CLASS(name) "\"architectures\": [\"" name "\"]"
/* 4 heads of 16, 8 layers */
#define DIMS                                                                          \
    ", \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"head_dim\": 16, \"num_hidden_layers\": 8, \"max_position_embeddings\": 4096"
#define LLAMA   "{" CLASS("LlamaForCausalLM") DIMS
#define QWEN2   "{" CLASS("Qwen2ForCausalLM") DIMS
#define GEMMA2  "{" CLASS("Gemma2ForCausalLM") DIMS
#define GEMMA3  "{" CLASS("Gemma3ForCausalLM") DIMS
#define SMOLLM3 "{" CLASS("SmolLM3ForCausalLM") DIMS
#define SMALL   "{" CLASS("SmallThinkerForCausalLM") DIMS
#define PHI3    "{" CLASS("Phi3ForCausalLM") DIMS
#define FALCON  "{" CLASS("FalconForCausalLM") DIMS

static char logged[2048];

static void to_log(void *user, fy_log_level level, const char *text)
{
    (void)user;
    if (level <= FY_LOG_WARN && strlen(logged) + strlen(text) + 2 < sizeof logged) {
        strcat(logged, text);
        strcat(logged, "\n");
    }
}

static int parse(fy_hf_config *c, const char *text, fy_err *e)
{
    logged[0] = '\0';
    return fy_hf_config_parse(c, text, strlen(text), "config.json", e);
}

static void parse_ok(fy_hf_config *c, const char *text)
{
    fy_err e = {0};
    if (parse(c, text, &e) != 0)
        fail_msg("%s: %s", text, e.msg);
}

/* "fwww": one letter per layer. */
static void layers_text(const fy_hf_config *c, const fy_layer_set *s, char in, char out,
                        char text[FY_N_LAYER_MAX + 1])
{
    for (uint32_t i = 0; i < c->hp.n_layer; i++)
        text[i] = fy_layer_in(s, i) ? in : out;
    text[c->hp.n_layer] = '\0';
}

typedef struct {
    const char *text;
    uint32_t n_swa;
    const char *layers; /* f: full, w: window */
} window_case;

static void windows_belong_to_layers(void **state)
{
    (void)state;
    static const window_case cases[] = {
        {GEMMA2 "}", 4096, "wfwfwfwf"},
        {GEMMA2 ", \"sliding_window\": 8}", 8, "wfwfwfwf"},
        {GEMMA2 ", \"sliding_window\": 8, \"sliding_window_pattern\": 4}", 8, "wwwfwwwf"},
        {GEMMA2 ", \"sliding_window\": null}", 0, "wwwwwwww"},
        {GEMMA3 ", \"sliding_window\": 8}", 8, "wwwwwfww"},
        {GEMMA3 ", \"sliding_window\": 8, \"_sliding_window_pattern\": 2}", 8, "wfwfwfwf"},
        {GEMMA3 ", \"sliding_window\": 8, \"sliding_window_pattern\": 1}", 0, "wwwwwwww"},
        {GEMMA3 ", \"sliding_window\": 8, \"sliding_window_pattern\": 3, \"layer_types\": "
                "[\"full_attention\", \"sliding_attention\", \"sliding_attention\", "
                "\"sliding_attention\", \"full_attention\", \"full_attention\", "
                "\"full_attention\", \"full_attention\"]}",
         8, "fwwwffff"},
        {QWEN2 ", \"sliding_window\": 8, \"use_sliding_window\": true, \"max_window_layers\": 3}",
         8, "fffwwwww"},
        {QWEN2 ", \"sliding_window\": 8, \"use_sliding_window\": true}", 0, "wwwwwwww"},
        {SMALL ", \"sliding_window_size\": 8}", 8, "fwwwfwww"},
        {SMALL ", \"sliding_window_size\": 8, \"sliding_window_layout\": [1,1,0,0,1,1,0,0]}", 8,
         "wwffwwff"},
        {SMALL ", \"sliding_window_size\": 8, \"sliding_window_layout\": [0,0,0,0,0,0,0,0]}", 0,
         "wwwwwwww"},
        {SMOLLM3 ", \"use_sliding_window\": true, \"sliding_window\": 8}", 8, "fffwfffw"},
        {SMOLLM3 ", \"use_sliding_window\": true, \"sliding_window\": 8, "
                 "\"no_rope_layers\": [0,1,1,1,1,1,1,1]}",
         8, "wfffffff"},
        {PHI3 "}", 0, "wwwwwwww"},
        {PHI3 ", \"sliding_window\": 2047}", 2047, "wwwwwwww"},
        {LLAMA ", \"sliding_window\": 8, \"sliding_window_pattern\": 2}", 0, "wwwwwwww"},
    };
    char text[FY_N_LAYER_MAX + 1];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        layers_text(&c, &c.hp.full_layers, 'f', 'w', text);
        if (c.hp.n_swa != cases[i].n_swa || strcmp(text, cases[i].layers) != 0)
            fail_msg("%s: %u %s", cases[i].text, c.hp.n_swa, text);
        fy_hf_config_release(&c);
    }
}

static void some_layers_do_not_rotate(void **state)
{
    (void)state;
    static const struct {
        const char *text, *layers; /* r: rotates */
    } cases[] = {
        {SMOLLM3 "}", "rrr-rrr-"},
        {SMOLLM3 ", \"no_rope_layers\": null, \"no_rope_layer_interval\": 2}", "r-r-r-r-"},
        {SMOLLM3 ", \"no_rope_layers\": [0,1,1,1,1,1,1,0], \"no_rope_layer_interval\": 2}",
         "-rrrrrr-"},
        {SMALL ", \"sliding_window_size\": 8}", "-rrr-rrr"},
        {SMALL ", \"sliding_window_size\": null}", "rrrrrrrr"},
        {SMALL ", \"sliding_window_size\": null, \"rope_layout\": [1,1,1,1,0,0,0,0]}", "rrrr----"},
        {SMALL ", \"rope_layout\": [true,true,true,true,false,false,false,false]}", "rrrr----"},
        {LLAMA ", \"no_rope_layers\": [0,0,0,0,0,0,0,0]}", "rrrrrrrr"},
    };
    char text[FY_N_LAYER_MAX + 1];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        layers_text(&c, &c.hp.nope_layers, '-', 'r', text);
        if (strcmp(text, cases[i].layers) != 0)
            fail_msg("%s: %s", cases[i].text, text);
        fy_hf_config_release(&c);
    }
}

static void layers_with_a_window_have_their_own_theta(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double theta, theta_swa;
        fy_rope_scaling scaling;
    } cases[] = {
        {GEMMA3 "}", 1e6, 1e4, FY_ROPE_SCALING_NONE},
        {GEMMA3 ", \"rope_theta\": 5000, \"rope_local_base_freq\": 1000}", 5000, 1000,
         FY_ROPE_SCALING_NONE},
        {GEMMA3 ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", "
                "\"factor\": 8, \"rope_theta\": 7000}, \"sliding_attention\": {\"rope_type\": "
                "\"default\", \"rope_theta\": 900}}}",
         7000, 900, FY_ROPE_SCALING_LINEAR},
        {GEMMA3 ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 7000}}}", 7000, 1e4,
         FY_ROPE_SCALING_NONE},
        {GEMMA3 ", \"rope_parameters\": {\"full_attention\": null, \"sliding_attention\": "
                "{\"rope_theta\": 700}}}",
         1e6, 700, FY_ROPE_SCALING_NONE},
        {GEMMA2 ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 7000}, "
                "\"sliding_attention\": {\"rope_theta\": 900, \"partial_rotary_factor\": 1.0}}}",
         7000, 900, FY_ROPE_SCALING_NONE},
        {GEMMA2 ", \"rope_theta\": 7000, \"rope_local_base_freq\": 900}", 7000, 0,
         FY_ROPE_SCALING_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        if ((double)c.hp.rope_theta != cases[i].theta ||
            (double)c.hp.rope_theta_swa != cases[i].theta_swa ||
            c.hp.rope_scaling != cases[i].scaling)
            fail_msg("%s: %g %g", cases[i].text, (double)c.hp.rope_theta,
                     (double)c.hp.rope_theta_swa);
        fy_hf_config_release(&c);
    }
}

static void a_part_of_a_head_rotates_where_the_class_knows_parts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t n_rot;
    } cases[] = {
        {PHI3 "}", 16},
        {PHI3 ", \"partial_rotary_factor\": 0.75}", 12},
        {PHI3 ", \"partial_rotary_factor\": 0.8}", 12}, /* int(12.8) */
        {PHI3 ", \"rope_parameters\": {\"rope_theta\": 10000, \"partial_rotary_factor\": 0.5}, "
              "\"partial_rotary_factor\": 0.75}",
         8},
        {"{" CLASS("GPTNeoXForCausalLM") DIMS ", \"rotary_pct\": 0.25, \"rotary_emb_base\": 500}",
         4},
        {"{" CLASS("GPTNeoXForCausalLM") DIMS
         ", \"rotary_pct\": 0.25, \"partial_rotary_factor\": 0.5}",
         4},
        {"{" CLASS("StableLmForCausalLM") DIMS ", \"rope_pct\": 0.5}", 8},
        {"{" CLASS("GlmForCausalLM") DIMS "}", 8},
        {LLAMA ", \"partial_rotary_factor\": 1.0}", 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        if (c.hp.n_rot != cases[i].n_rot)
            fail_msg("%s: %u", cases[i].text, c.hp.n_rot);
        fy_hf_config_release(&c);
    }
}

#define EIGHT      "[1, 1, 1, 1, 1, 1, 1, 2.5]"
#define LISTS      "\"long_factor\": " EIGHT ", \"short_factor\": " EIGHT
#define LONG(type) ", \"rope_scaling\": {\"type\": \"" type "\", " LISTS "}"

static void longrope_has_two_lists_and_a_magnitude(void **state)
{
    (void)state;
    double grown = sqrt(1 + log(4.0) / log(1024.0));
    struct {
        const char *text;
        uint32_t orig;
        double magnitude;
    } cases[] = {
        {PHI3 LONG("longrope") ", \"original_max_position_embeddings\": 1024}", 1024, grown},
        {PHI3 LONG("su") ", \"original_max_position_embeddings\": 1024}", 1024, grown},
        {PHI3 LONG("yarn") ", \"original_max_position_embeddings\": 1024}", 1024, grown},
        {PHI3 ", \"rope_scaling\": {\"type\": \"longrope\", \"attention_factor\": 1.5, " LISTS
              ", \"original_max_position_embeddings\": 1024}}",
         1024, 1.5},
        {PHI3 ", \"rope_scaling\": {\"type\": \"longrope\", \"factor\": 4, " LISTS "}}", 4096,
         sqrt(1 + log(4.0) / log(4096.0))},
        {PHI3 LONG("longrope") "}", 4096, 1},
        {PHI3 LONG("longrope") ", \"original_max_position_embeddings\": 8192}", 8192, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        assert_int_equal(c.hp.rope_scaling, FY_ROPE_SCALING_LONGROPE);
        assert_true(c.long_factors[0] == 1 && c.short_factors[7] == 2.5F);
        if (c.hp.rope_orig_ctx != cases[i].orig ||
            fabs((double)c.hp.rope_attn_factor - cases[i].magnitude) > 1e-6)
            fail_msg("%s: %u %g", cases[i].text, c.hp.rope_orig_ctx, (double)c.hp.rope_attn_factor);
        fy_hf_config_release(&c);
    }
}

static void dynamic_scaling_is_left_out_with_a_warning(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, LLAMA ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}");
    assert_int_equal(c.hp.rope_scaling, FY_ROPE_SCALING_NONE);
    assert_non_null(strstr(logged, "up to 4096 tokens"));
    fy_hf_config_release(&c);
}

static void keys_of_a_family_have_operations(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, GEMMA2 ", \"query_pre_attn_scalar\": 64, \"attn_logit_softcapping\": null}");
    assert_true(c.hp.attn_scale == 0.125F && c.hp.attn_softcap == 0 && c.hp.logit_softcap == 30);
    fy_hf_config_release(&c);
    parse_ok(&c, "{" CLASS("MiniCPMForCausalLM") DIMS
             ", \"scale_emb\": 12, \"scale_depth\": 1.4, \"dim_model_base\": 32}");
    assert_true(c.hp.embedding_scale == 12 && c.hp.logit_scale == 2);
    assert_true(fabs((double)c.hp.residual_scale - 1.4 / sqrt(8)) < 1e-6);
    fy_hf_config_release(&c);
    parse_ok(&c, FALCON "}");
    assert_int_equal(c.hp.n_head_kv, 1); /* multi_query */
    assert_int_equal(c.hp.n_ff, 256);    /* four times the width */
    fy_hf_config_release(&c);
    parse_ok(&c, FALCON ", \"new_decoder_architecture\": true, \"num_kv_heads\": 2}");
    assert_int_equal(c.hp.n_head_kv, 2);
    fy_hf_config_release(&c);
    parse_ok(&c, "{" CLASS("GPTNeoXForCausalLM") DIMS ", \"use_parallel_residual\": null}");
    assert_false(c.hp.parallel); /* null is false, though absent is true */
    fy_hf_config_release(&c);
    parse_ok(&c, SMALL ", \"moe_primary_router_apply_softmax\": true}");
    assert_int_equal(c.hp.gating, FY_GATING_SOFTMAX);
    fy_hf_config_release(&c);
    parse_ok(&c, SMALL ", \"moe_num_primary_experts\": 16}");
    assert_int_equal(c.hp.gating, FY_GATING_SIGMOID);
    assert_int_equal(c.hp.n_expert, 16);
    fy_hf_config_release(&c);
    parse_ok(&c, "{" CLASS("ChatGLMModel") DIMS
             ", \"multi_query_attention\": true, \"multi_query_group_num\": 2, "
             "\"rope_ratio\": 3}");
    assert_true(c.hp.rope_theta == 30000 && c.rope_theta == 30000);
    assert_int_equal(c.hp.n_head_kv, 2);
    fy_hf_config_release(&c);
}

static void activations_have_many_names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fy_act_kind act;
    } cases[] = {
        {LLAMA "}", FY_ACT_SILU},
        {LLAMA ", \"hidden_act\": \"swish\"}", FY_ACT_SILU},
        {LLAMA ", \"hidden_act\": \"relu\"}", FY_ACT_RELU},
        {LLAMA ", \"hidden_act\": \"fatrelu\", \"hidden_act_param\": 0.01}", FY_ACT_FATRELU},
        {LLAMA ", \"hidden_act\": \"fatrelu\", \"hidden_act_param\": 0}", FY_ACT_RELU},
        {"{" CLASS("BambooForCausalLM") DIMS ", \"hidden_act\": \"relu\"}", FY_ACT_DRELU},
        {"{" CLASS("GemmaForCausalLM") DIMS ", \"hidden_activation\": null}", FY_ACT_GELU_TANH},
        {LLAMA ", \"hidden_act\": \"gelu\"}", FY_ACT_GELU},
        {GEMMA2 ", \"hidden_activation\": \"gelu\"}", FY_ACT_GELU},
        {"{" CLASS("GemmaForCausalLM") DIMS ", \"hidden_act\": \"gelu\"}", FY_ACT_GELU_TANH},
        {FALCON ", \"activation\": \"relu\"}", FY_ACT_RELU},
        {"{" CLASS("GPT2LMHeadModel") DIMS ", \"activation_function\": \"gelu_new\"}",
         FY_ACT_GELU_TANH},
        {SMALL "}", FY_ACT_RELU},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        if (c.hp.act != cases[i].act)
            fail_msg("%s: %s", cases[i].text, fy_act_name(c.hp.act));
        fy_hf_config_release(&c);
    }
    fy_hf_config c;
    parse_ok(&c, "{" CLASS("GemmaForCausalLM") DIMS
             ", \"hidden_act\": \"gelu\", \"hidden_activation\": \"gelu_pytorch_tanh\"}");
    assert_int_equal(c.hp.act, FY_ACT_GELU_TANH);
    assert_non_null(strstr(logged, "hidden_act is 'gelu', but hidden_activation is"));
    fy_hf_config_release(&c);
}

#define TEXT_MODEL                                                                \
    "\"hidden_size\": 64, \"num_attention_heads\": 4, \"num_hidden_layers\": 2, " \
    "\"num_key_value_heads\": 4, "                                                \
    "\"head_dim\": 32, \"vocab_size\": 99"

static void a_text_model_inside_is_read_from_its_own_object(void **state)
{
    (void)state;
    static const struct {
        const char *text, *family;
        bool tied;
    } cases[] = {
        {"{" CLASS("Gemma3ForConditionalGeneration") ", \"text_config\": {" TEXT_MODEL "}}",
         "gemma3", true},
        {"{\"architectures\": null, \"model_type\": \"gemma3\", \"text_config\": {" TEXT_MODEL "}}",
         "gemma3", true},
        {"{" CLASS(
             "SeeForConditionalGeneration") ", \"hidden_size\": 3, \"llm_config\": "
                                            "{" CLASS(
                                                "Qwen3ForCausalLM") ", \"tie_word_embeddings\": "
                                                                    "true, " TEXT_MODEL "}}",
         "qwen3", true},
        {"{" CLASS("SeeForConditionalGeneration") ", \"tie_word_embeddings\": true, "
                                                  "\"language_config\": {\"model_type\": "
                                                  "\"llama\", " TEXT_MODEL "}}",
         "llama", true},
        {"{\"text_config\": {\"model_type\": \"gemma3_text\", " TEXT_MODEL "}}", "gemma3", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        assert_string_equal(c.family->name, cases[i].family);
        assert_true(c.nested);
        assert_true(c.tied == cases[i].tied);
        assert_int_equal(c.hp.n_embd, 64);
        assert_int_equal(c.hp.n_vocab, 99);
        fy_hf_config_release(&c);
    }
}

#define SLIDING_4                                                           \
    "\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", " \
    "\"sliding_attention\""
#define SLIDING_8 SLIDING_4 ", " SLIDING_4

static void what_a_family_does_not_compute_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fy_code code;
        const char *words;
    } cases[] = {
        {FALCON ", \"alibi\": true}", FY_EUNSUPPORTED, "alibi is true; ferry computes falcon"},
        {FALCON ", \"alibi\": \"no\"}", FY_EUNSUPPORTED, "alibi is \"no\""},
        {FALCON ", \"parallel_attn\": null}", FY_EUNSUPPORTED, "parallel_attn is null"},
        {LLAMA ", \"is_causal\": false}", FY_EUNSUPPORTED, "is_causal is false"},
        {GEMMA3 ", \"attn_logit_softcapping\": 5}", FY_EUNSUPPORTED, "attn_logit_softcapping is 5"},
        {SMOLLM3 ", \"sliding_window\": 8, \"layer_types\": [" SLIDING_8 "]}", FY_EFORMAT,
         "use_sliding_window is not true, but layer_types"},
        {"{" CLASS("ChatGLMModel") DIMS "}", FY_EUNSUPPORTED,
         "multi_query_attention is absent, which means false"},
        {FALCON ", \"activation\": \"silu\"}", FY_EUNSUPPORTED, "has no gate"},
        {FALCON ", \"activation\": 1}", FY_EFORMAT, "activation is 1; expected a string"},
        {LLAMA ", \"hidden_act\": \"fatrelu\"}", FY_EFORMAT, "hidden_act_param is missing"},
        {LLAMA ", \"hidden_act\": \"fatrelu\", \"hidden_act_param\": -1}", FY_EFORMAT,
         "hidden_act_param is -1"},
        {FALCON ", \"multi_query\": 1}", FY_EFORMAT, "multi_query is 1; expected true or false"},
        {FALCON ", \"new_decoder_architecture\": 2}", FY_EFORMAT, "new_decoder_architecture is 2"},
        {FALCON ", \"new_decoder_architecture\": true, \"num_kv_heads\": 0}", FY_EFORMAT,
         "num_kv_heads is 0"},
        {FALCON ", \"new_decoder_architecture\": true, \"num_kv_heads\": 3}", FY_EFORMAT,
         "not a multiple"},
        {GEMMA2 ", \"query_pre_attn_scalar\": 0}", FY_EFORMAT,
         "query_pre_attn_scalar is 0; expected a positive"},
        {GEMMA2 ", \"query_pre_attn_scalar\": -4}", FY_EFORMAT, "query_pre_attn_scalar is -4"},
        {GEMMA2 ", \"sliding_window\": 0}", FY_EFORMAT, "sliding_window is 0"},
        {GEMMA2 ", \"sliding_window_pattern\": 0}", FY_EFORMAT, "sliding_window_pattern is 0"},
        {GEMMA2 ", \"sliding_window_pattern\": \"LLG\"}", FY_EFORMAT,
         "sliding_window_pattern is \"LLG\""},
        {SMALL ", \"sliding_window_layout\": [0, 1]}", FY_EFORMAT,
         "sliding_window_layout has 2 entries; expected a list of 8"},
        {SMALL ", \"rope_layout\": [0,1,1,1,0,1,1,2]}", FY_EFORMAT, "rope_layout is 2"},
        {SMOLLM3 ", \"no_rope_layers\": 4}", FY_EFORMAT, "no_rope_layers is 4"},
        {SMOLLM3 ", \"no_rope_layers\": [], \"no_rope_layer_interval\": 0}", FY_EFORMAT,
         "no_rope_layers has 0 entries"},
        {SMOLLM3 ", \"no_rope_layer_interval\": 0}", FY_EFORMAT, "no_rope_layer_interval is 0"},
        {PHI3 ", \"partial_rotary_factor\": 0}", FY_EFORMAT, "partial_rotary_factor is 0"},
        {PHI3 ", \"partial_rotary_factor\": 1.5}", FY_EFORMAT, "partial_rotary_factor is 1.5"},
        {PHI3 ", \"partial_rotary_factor\": 1e-9}", FY_EFORMAT, "partial_rotary_factor is 1e-09"},
        {PHI3 ", \"rope_scaling\": {\"type\": \"longrope\"}}", FY_EFORMAT,
         "long_factor is missing; longrope needs a list of 8"},
        {PHI3 ", \"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1], "
              "\"short_factor\": [1]}}",
         FY_EFORMAT, "long_factor has 1 entries; expected a list of 8"},
        {PHI3 ", \"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": " EIGHT
              ", \"short_factor\": [1,1,1,1,1,1,1,0]}}",
         FY_EFORMAT, "short_factor is 0"},
        {PHI3 ", \"rope_scaling\": {\"type\": \"longrope\", \"short_mscale\": 1.2, " LISTS "}}",
         FY_EUNSUPPORTED, "short_mscale"},
        {GEMMA3 ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1e6}, "
                "\"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 2}}}",
         FY_EUNSUPPORTED, "rope_parameters.sliding_attention.rope_type is 'linear'"},
        {GEMMA3 ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1e6}, "
                "\"rope_theta\": 3}}",
         FY_EUNSUPPORTED, "rope_parameters.rope_theta"},
        {GEMMA3 ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1e6}, "
                "\"sliding_attention\": 3}}",
         FY_EFORMAT, "rope_parameters.sliding_attention is 3"},
        {GEMMA3 ", \"rope_local_base_freq\": 0}", FY_EFORMAT, "rope_local_base_freq is 0"},
        {"{" CLASS("CodeGenForCausalLM") ", \"n_embd\": 6, \"n_head\": 3, \"rotary_dim\": 2}",
         FY_EFORMAT, "do not divide into the 4 groups"},
        {"{\"text_config\": 3}", FY_EFORMAT, "text_config is 3"},
        {"{" CLASS("Gemma3ForConditionalGeneration") ", \"text_config\": {\"hidden_size\": true}}",
         FY_EFORMAT, "text_config.hidden_size is true"},
        {"{" CLASS("Gemma3ForConditionalGeneration") ", \"text_config\": "
                                                     "{\"quantization_config\": {\"quant_method\": "
                                                     "\"awq\"}}}",
         FY_EUNSUPPORTED, "text_config.quantization_config: awq"},
        {"{" CLASS("Qwen3NextForCausalLM") "}", FY_EUNSUPPORTED,
         "nearest name is Qwen3ForCausalLM"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e = {0};
        assert_int_equal(parse(&c, cases[i].text, &e), -1);
        if (e.code != cases[i].code || strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s: code %d, %s", cases[i].text, e.code, e.msg);
        fy_hf_config_release(&c);
    }
}

static void what_other_programs_overlook_is_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words; /* NULL: nothing */
    } cases[] = {
        {LLAMA "}", NULL},
        {GEMMA3 ", \"query_pre_attn_scalar\": 16}", NULL},
        {GEMMA3 ", \"query_pre_attn_scalar\": 64}", "scores are multiplied by 0.125, not by 0.25"},
        {GEMMA2 ", \"query_pre_attn_scalar\": 16, \"attn_logit_softcapping\": null}",
         "a soft cap is null"},
        {LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"beta_fast\": 16}}",
         "yarn goes from 16 to 1 rotations"},
        {SMOLLM3 "}", NULL},
        {SMALL "}", NULL},
        {SMALL ", \"sliding_window_size\": null}", NULL},
        {LLAMA ", \"hidden_act\": \"relu\"}", "the activation is relu, not silu"},
        {GEMMA3 ", \"sliding_window\": 8, \"sliding_window_pattern\": 2}",
         "4 of 8 layers have the window"},
        {SMOLLM3 ", \"no_rope_layer_interval\": 2}", "4 of 8 layers do not rotate"},
        {"{" CLASS("MistralForCausalLM") DIMS ", \"sliding_window\": 8}",
         "attention has a window of 8 tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        fy_warn_other_readers(&c);
        if (cases[i].words == NULL ? logged[0] != '\0' : strstr(logged, cases[i].words) == NULL)
            fail_msg("%s: %s", cases[i].text, logged);
        fy_hf_config_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_belong_to_layers),
        cmocka_unit_test(some_layers_do_not_rotate),
        cmocka_unit_test(layers_with_a_window_have_their_own_theta),
        cmocka_unit_test(a_part_of_a_head_rotates_where_the_class_knows_parts),
        cmocka_unit_test(longrope_has_two_lists_and_a_magnitude),
        cmocka_unit_test(dynamic_scaling_is_left_out_with_a_warning),
        cmocka_unit_test(keys_of_a_family_have_operations),
        cmocka_unit_test(activations_have_many_names),
        cmocka_unit_test(a_text_model_inside_is_read_from_its_own_object),
        cmocka_unit_test(what_a_family_does_not_compute_is_refused),
        cmocka_unit_test(what_other_programs_overlook_is_warned_of),
    };
    fy_log_set(to_log, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
