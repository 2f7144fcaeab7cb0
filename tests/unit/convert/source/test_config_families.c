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
#define LLAMA    "{" CLASS("LlamaForCausalLM") DIMS
#define QWEN2    "{" CLASS("Qwen2ForCausalLM") DIMS
#define GEMMA2   "{" CLASS("Gemma2ForCausalLM") DIMS
#define GEMMA3   "{" CLASS("Gemma3ForCausalLM") DIMS
#define SMOLLM3  "{" CLASS("SmolLM3ForCausalLM") DIMS
#define SMALL    "{" CLASS("SmallThinkerForCausalLM") DIMS
#define PHI3     "{" CLASS("Phi3ForCausalLM") DIMS
#define FALCON   "{" CLASS("FalconForCausalLM") DIMS
#define OLMO3    "{" CLASS("Olmo3ForCausalLM") DIMS
#define EXAONE4  "{" CLASS("Exaone4ForCausalLM") DIMS
#define GEMMA3N  "{" CLASS("Gemma3nForCausalLM") DIMS ", \"num_kv_shared_layers\": 0"
#define GEMMA4   "{" CLASS("Gemma4ForCausalLM") DIMS
#define HUNYUAN  "{" CLASS("HunYuanDenseV1ForCausalLM") DIMS
#define LFM3     "{" CLASS("Lfm3ForCausalLM") DIMS
#define MINICPM3 "{" CLASS("MiniCPM3ForCausalLM") DIMS
#define LFM3_TYPES                                                           \
    ", \"layer_types\": [\"conv\", \"conv\", \"full_attention\", \"conv\", " \
    "\"sliding_attention\", "                                                \
    "\"conv\", \"full_attention\", \"conv\"]"
#define LFM2MOE "{" CLASS("Lfm2MoeForCausalLM") DIMS
#define QWEN35  "{" CLASS("Qwen3_5ForCausalLM") DIMS
#define MINISTRAL3(yarn)                                                                        \
    "{" CLASS(                                                                                  \
        "Mistral3ForConditionalGeneration") ", \"text_config\": {\"model_type\": "              \
                                            "\"ministral3\"" DIMS                               \
                                            ", \"rope_parameters\": {\"rope_type\": \"yarn\", " \
                                            "\"factor\": 16, "                                  \
                                            "\"original_max_position_embeddings\": 256, " yarn  \
                                            "}}}"

/* the beginning of a list of layers */
#define SLIDING_4                                                           \
    "\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", " \
    "\"sliding_attention\""
#define SLIDING_8 SLIDING_4 ", " SLIDING_4
#define FULL_4    "\"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\""

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
        {EXAONE4 "}", "rrr-rrr-"},
        {EXAONE4 ", \"sliding_window\": null}", "rrrrrrrr"},
        {EXAONE4 ", \"layer_types\": [\"full_attention\", " SLIDING_4
                 ", \"sliding_attention\", \"full_attention\", \"full_attention\"]}",
         "-rrrrr--"},
        {EXAONE4 ", \"layer_types\": [" FULL_4 ", " FULL_4 "]}", "--------"},
        {EXAONE4 ", \"sliding_window\": null, \"layer_types\": [" FULL_4 ", " FULL_4 "]}",
         "rrrrrrrr"},
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
        {OLMO3 ", \"rope_theta\": 7000}", 7000, 0, FY_ROPE_SCALING_NONE},
        {OLMO3 ", \"rope_theta\": 7000, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}",
         7000, 7000, FY_ROPE_SCALING_YARN},
        {OLMO3 ", \"rope_theta\": 7000, \"sliding_window\": null, \"rope_scaling\": {\"type\": "
               "\"yarn\", \"factor\": 4}}",
         7000, 0, FY_ROPE_SCALING_YARN},
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

static void lfm3_layers_convolve_look_near_or_far(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, LFM3 LFM3_TYPES ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
                                 "\"proportional\", \"partial_rotary_factor\": 0.5, "
                                 "\"rope_theta\": 4e4}, \"sliding_attention\": {\"rope_type\": "
                                 "\"default\", \"rope_theta\": 5e3}}}");
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(fy_layer_in(&c.hp.no_attn_layers, i), i % 2 == 1 || i == 0);
        assert_int_equal(fy_layer_in(&c.hp.full_layers, i), i != 4);
    }
    assert_int_equal(c.hp.n_swa, 256);
    assert_true(c.hp.rope_theta == 4e4F && c.hp.rope_theta_swa == 5e3F);
    assert_int_equal(c.turned_pairs, 4); /* of 8 */
    assert_int_equal(c.hp.n_rot, 16);
    assert_true(c.hp.gated_heads);
    fy_warn_other_readers(&c);
    assert_non_null(strstr(logged, "general.architecture is \"lfm3\", a name of ferry's own"));
    fy_hf_config_release(&c);
}

static void hunyuan_theta_grows_once_by_alpha(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, HUNYUAN ", \"rope_theta\": 10000, \"rope_scaling\": {\"type\": \"dynamic\", "
                         "\"alpha\": 1000, \"factor\": 1}}");
    assert_true(c.hp.rope_theta == (float)(10000 * pow(1000, 16.0 / 14)));
    assert_int_equal(c.hp.rope_scaling, FY_ROPE_SCALING_NONE);
    assert_string_equal(logged, "");
    fy_hf_config_release(&c);
}

static void ministral3_magnitude_and_queries(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, MINISTRAL3("\"mscale\": 1, \"mscale_all_dim\": 1, \"llama_4_scaling_beta\": 0.5"));
    assert_string_equal(c.family->gguf_arch, "mistral3");
    assert_true(c.hp.temp_scale == 0.5F && c.hp.yarn_log_mul == 1);
    assert_true(c.hp.rope_attn_factor == (float)(1 / (1 + 0.1 * log(16))));
    fy_hf_config_release(&c);
    parse_ok(&c, MINISTRAL3("\"beta_fast\": 32"));
    assert_true(c.hp.temp_scale == 0 && c.hp.yarn_log_mul == 0 && c.hp.rope_attn_factor == 1);
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

static void gemma4_layers_differ(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fy_layer_shape window, full; /* of layers 0 and 5 */
        uint32_t last_ff, n_embd_pl, turned;
        bool k_is_v;
    } cases[] = {
        {GEMMA4 "}", {16, 16, 16, 2, 9216}, {512, 512, 512, 2, 9216}, 9216, 256, 64, false},
        {GEMMA4 ", \"global_head_dim\": 32, \"hidden_size_per_layer_input\": null, "
                "\"num_global_key_value_heads\": 1, \"intermediate_size\": 96}",
         {16, 16, 16, 2, 96},
         {32, 32, 32, 2, 96},
         96,
         0,
         4,
         false},
        {GEMMA4 ", \"global_head_dim\": 32, \"attention_k_eq_v\": true, "
                "\"num_global_key_value_heads\": 1, \"intermediate_size\": 96, "
                "\"use_bidirectional_attention\": \"vision\", \"rope_parameters\": "
                "{\"full_attention\": {\"rope_type\": \"proportional\", "
                "\"partial_rotary_factor\": 0.5, \"rope_theta\": 7}}}",
         {16, 16, 16, 2, 96},
         {32, 32, 32, 1, 96},
         96,
         256,
         8,
         true},
        {GEMMA4 ", \"global_head_dim\": null, \"use_double_wide_mlp\": true, "
                "\"num_kv_shared_layers\": 2, \"intermediate_size\": 96, \"rope_parameters\": "
                "{\"full_attention\": {\"rope_type\": \"default\", \"rope_theta\": 7}}}",
         {16, 16, 16, 2, 96},
         {16, 16, 16, 2, 96},
         192,
         256,
         0,
         false},
        /* as transformers 5 writes it */
        {GEMMA4
         ", \"per_layer_config\": {\"5\": {\"head_dim\": 32, \"num_key_value_heads\": 1}, "
         "\"7\": {\"num_key_value_heads\": 1, \"head_dim\": 32}}, \"intermediate_size\": 96}",
         {16, 16, 16, 2, 96},
         {32, 32, 32, 1, 96},
         96,
         256,
         4,
         false},
        {GEMMA4 ", \"per_layer_config\": {}, \"intermediate_size\": 96}",
         {16, 16, 16, 2, 96},
         {16, 16, 16, 2, 96},
         96,
         256,
         2,
         false},
        {GEMMA4 ", \"intermediate_size\": [96, 96, 96, 96, 96, 64, 96, 32]}",
         {16, 16, 16, 2, 96},
         {512, 512, 512, 2, 64},
         32,
         256,
         64,
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        const fy_layer_shape window = fy_layer_shape_of(&c.hp, 0),
                             full = fy_layer_shape_of(&c.hp, 5);
        if (memcmp(&window, &cases[i].window, sizeof window) != 0 ||
            memcmp(&full, &cases[i].full, sizeof full) != 0 ||
            fy_layer_shape_of(&c.hp, 7).n_ff != cases[i].last_ff ||
            c.hp.n_embd_pl != cases[i].n_embd_pl || c.turned_pairs != cases[i].turned ||
            c.hp.k_is_v != cases[i].k_is_v)
            fail_msg("%s: %u %u, %u %u, %u, %u, %u", cases[i].text, window.head_dim,
                     window.n_head_kv, full.head_dim, full.n_head_kv,
                     fy_layer_shape_of(&c.hp, 7).n_ff, c.hp.n_embd_pl, c.turned_pairs);
        fy_hf_config_release(&c);
    }
}

static void gemma4_ends_without_a_window(void **state)
{
    (void)state;
    static const char *const texts[] = {GEMMA4 "}",
                                        GEMMA4 ", \"layer_types\": [" SLIDING_4
                                               ", \"sliding_attention\", \"full_attention\", "
                                               "\"sliding_attention\", \"sliding_attention\"]}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, texts[i]);
        assert_int_equal(fy_layers_count(&c.hp.full_layers), 2);
        assert_true(fy_layer_in(&c.hp.full_layers, 5));
        assert_true(fy_layer_in(&c.hp.full_layers, 7));
        fy_hf_config_release(&c);
    }
}

static void gemma3n_gates_are_sparse_in_some_layers(void **state)
{
    (void)state;
    static const struct {
        const char *text, *layers; /* s: sparse */
        float cut;
    } cases[] = {
        {GEMMA3N "}", "--------", 0},
        {GEMMA3N ", \"activation_sparsity_pattern\": [0.95, 0, 0, 0, 0.95, 0, 0, 0]}", "s---s---",
         1.6448536F},
        {GEMMA3N ", \"activation_sparsity_pattern\": [0, 0, 0, 0, 0, 0, 0, 0.25]}", "-------s",
         -0.67448975F},
        {"{" CLASS("Gemma3nForCausalLM") "}", "ssssssssss-------------------------", 1.6448536F},
    };
    char text[FY_N_LAYER_MAX + 1];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        layers_text(&c, &c.hp.sparse_layers, 's', '-', text);
        if (strcmp(text, cases[i].layers) != 0 || fabsf(c.hp.act_sparsity - cases[i].cut) > 5e-7F)
            fail_msg("%s: %s %.9g", cases[i].text, text, (double)c.hp.act_sparsity);
        fy_hf_config_release(&c);
    }
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
        {GEMMA3N ", \"altup_active_idx\": 1}", FY_EUNSUPPORTED, "altup_active_idx is 1"},
        {GEMMA3N ", \"altup_correct_scale\": false}", FY_EUNSUPPORTED,
         "altup_correct_scale is false"},
        {GEMMA3N ", \"altup_num_inputs\": 9}", FY_EUNSUPPORTED, "altup.num_inputs is 9"},
        {GEMMA3N ", \"hidden_size_per_layer_input\": null}", FY_EFORMAT,
         "embedding_length_per_layer_input is 0"},
        {GEMMA3N ", \"activation_sparsity_pattern\": [0.5, 0.6, 0, 0, 0, 0, 0, 0]}",
         FY_EUNSUPPORTED, "more than one share besides 0"},
        {GEMMA3N ", \"activation_sparsity_pattern\": [1, 0, 0, 0, 0, 0, 0, 0]}", FY_EFORMAT,
         "activation_sparsity_pattern is 1; expected a list of shares"},
        {GEMMA3N ", \"activation_sparsity_pattern\": [0.5]}", FY_EFORMAT, "has 1 entries"},
        {GEMMA4 ", \"enable_moe_block\": true}", FY_EUNSUPPORTED, "enable_moe_block is true"},
        {GEMMA4 ", \"use_bidirectional_attention\": \"all\"}", FY_EUNSUPPORTED,
         "use_bidirectional_attention is \"all\""},
        {GEMMA4 ", \"per_layer_config\": {\"4\": {\"head_dim\": 32}}}", FY_EUNSUPPORTED,
         "per_layer_config has an entry '4'; ferry knows entries of the layers without a window"},
        {GEMMA4 ", \"per_layer_config\": {\"8\": {}}}", FY_EUNSUPPORTED, "has an entry '8'"},
        {GEMMA4 ", \"per_layer_config\": {\"5\": {\"head_dim\": 32}}}", FY_EUNSUPPORTED,
         "per_layer_config has 1 of the 2 layers without a window"},
        {GEMMA4 ", \"per_layer_config\": {\"5\": {\"head_dim\": 32}, \"7\": {}}}", FY_EUNSUPPORTED,
         "per_layer_config: the layers without a window differ"},
        {GEMMA4 ", \"per_layer_config\": {\"5\": {\"hidden_size\": 32}}}", FY_EUNSUPPORTED,
         "per_layer_config.5.hidden_size: ferry knows head_dim"},
        {GEMMA4 ", \"per_layer_config\": {\"5\": {\"head_dim\": 0}}}", FY_EFORMAT,
         "per_layer_config.5.head_dim is 0"},
        {GEMMA4 ", \"per_layer_config\": {\"5\": 3}}", FY_EFORMAT,
         "per_layer_config.5 is 3; expected an object"},
        {GEMMA4 ", \"per_layer_config\": [3]}", FY_EFORMAT,
         "per_layer_config is [3.0]; expected an object"},
        {MINICPM3 ", \"scale_depth\": null}", FY_EUNSUPPORTED, "scale_depth is null"},
        {LFM2MOE ", \"full_attn_idxs\": []}", FY_EUNSUPPORTED,
         "none of the 8 layers has attention; ferry computes lfm2_moe"},
        {QWEN35 ", \"hidden_act\": \"gelu\"}", FY_EUNSUPPORTED,
         "hidden_act is 'gelu', also in the mixers of a qwen3_5 model"},
        {MINISTRAL3("\"llama_4_scaling_beta\": 0.1}, \"sliding_window\": 3, \"x\": {\"y\": 1"),
         FY_EUNSUPPORTED, "attention.temperature_scale is 0.1; ferry computes it where"},
        {GEMMA4 ", \"num_kv_shared_layers\": 8}", FY_EFORMAT, "shared_kv_layers is 8, of 8 layers"},
        {GEMMA4 ", \"intermediate_size\": [1, 2]}", FY_EFORMAT,
         "has 2 entries; expected a list of 8"},
        {GEMMA4 ", \"intermediate_size\": [1, 2, 3, 4, 5, 6, 7, 8]}", FY_EUNSUPPORTED,
         "intermediate_size has more than 5 different widths"},
        {GEMMA4 ", \"intermediate_size\": [1, 1, 1, 1, 1, 1, 1, 0]}", FY_EFORMAT,
         "intermediate_size is 0; expected a list of positive"},
        {GEMMA4 ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\", "
                "\"partial_rotary_factor\": 2}}}",
         FY_EFORMAT, "partial_rotary_factor is 2"},
        {GEMMA3 ", \"rope_scaling\": {\"rope_type\": \"proportional\"}}", FY_EUNSUPPORTED,
         "rope_type is proportional, which a gemma3 model in GGUF form has no place for"},
        {LLAMA ", \"is_causal\": false}", FY_EUNSUPPORTED, "is_causal is false"},
        {GEMMA3 ", \"attn_logit_softcapping\": 5}", FY_EUNSUPPORTED, "attn_logit_softcapping is 5"},
        {SMOLLM3 ", \"sliding_window\": 8, \"layer_types\": [" SLIDING_8 "]}", FY_EFORMAT,
         "use_sliding_window is not true, but layer_types"},
        {"{" CLASS("ChatGLMModel") DIMS "}", FY_EUNSUPPORTED,
         "multi_query_attention is absent, which means false"},
        {HUNYUAN ", \"use_cla\": true}", FY_EUNSUPPORTED, "use_cla is true"},
        {HUNYUAN ", \"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": -2}}", FY_EFORMAT,
         "alpha is -2; expected"},
        {LLAMA ", \"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 2}}", FY_EUNSUPPORTED,
         "alpha: ferry does not know this key"},
        {MINISTRAL3("\"mscale\": 1"), FY_EUNSUPPORTED, "mscale is 1 and mscale_all_dim 0"},
        {MINISTRAL3("\"llama_4_scaling_beta\": -1"), FY_EFORMAT, "llama_4_scaling_beta is -1"},
        {LFM3 LFM3_TYPES ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\", "
                         "\"partial_rotary_factor\": 0.5, \"rope_theta\": 1e6}, "
                         "\"sliding_attention\": {\"rope_type\": \"default\"}}}",
         FY_EUNSUPPORTED,
         "full_attention.partial_rotary_factor is 0.5; a lfm3 model rotates whole heads"},
        {LFM3 LFM3_TYPES "}", FY_EFORMAT, "rope_parameters is missing"},
        {LFM3 "}", FY_EFORMAT, "layer_types is missing; a lfm3 model needs it"},
        {LFM3 LFM3_TYPES ", \"use_sandwich_norm\": false}", FY_EUNSUPPORTED,
         "use_sandwich_norm is false"},
        {LFM3 LFM3_TYPES ", \"use_attention_gate\": false}", FY_EUNSUPPORTED,
         "use_attention_gate is false"},
        {LFM3 LFM3_TYPES ", \"attention_bias\": true}", FY_EUNSUPPORTED, "attention_bias is true"},
        {LFM2MOE ", \"use_expert_bias\": false}", FY_EUNSUPPORTED,
         "use_expert_bias is false; ferry computes lfm2_moe models with true only"},
        {LFM2MOE ", \"norm_topk_prob\": false}", FY_EUNSUPPORTED, "norm_topk_prob is false"},
        {LFM2MOE ", \"routed_scaling_factor\": 2.5}", FY_EUNSUPPORTED,
         "routed_scaling_factor is 2.5"},
        {LFM2MOE ", \"conv_bias\": true}", FY_EUNSUPPORTED, "conv_bias is true"},
        {LFM2MOE ", \"num_dense_layers\": 9}", FY_EFORMAT,
         "leading_dense_block_count is 9, of 8 layers"},
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
        cmocka_unit_test(lfm3_layers_convolve_look_near_or_far),
        cmocka_unit_test(hunyuan_theta_grows_once_by_alpha),
        cmocka_unit_test(ministral3_magnitude_and_queries),
        cmocka_unit_test(keys_of_a_family_have_operations),
        cmocka_unit_test(gemma3n_gates_are_sparse_in_some_layers),
        cmocka_unit_test(gemma4_layers_differ),
        cmocka_unit_test(gemma4_ends_without_a_window),
        cmocka_unit_test(activations_have_many_names),
        cmocka_unit_test(a_text_model_inside_is_read_from_its_own_object),
        cmocka_unit_test(what_a_family_does_not_compute_is_refused),
        cmocka_unit_test(what_other_programs_overlook_is_warned_of),
    };
    fy_log_set(to_log, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
