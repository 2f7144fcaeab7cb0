#include "convert/source/hf_config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/hash.h"
#include "tests/unit/alloc_fail.h"

#define LLAMA   "\"architectures\": [\"LlamaForCausalLM\"]"
#define MISTRAL "\"architectures\": [\"MistralForCausalLM\"]"
#define QWEN2   "\"architectures\": [\"Qwen2ForCausalLM\"]"
/* 8 heads of 8, 2 layers */
#define DIMS                                                                          \
    ", \"hidden_size\": 64, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, " \
    "\"num_hidden_layers\": 2, "                                                      \
    "\"max_position_embeddings\": 4096"

static int parse(fy_hf_config *c, const char *text, fy_err *e)
{
    return fy_hf_config_parse(c, text, strlen(text), "config.json", e);
}

static void parse_ok(fy_hf_config *c, const char *text)
{
    fy_err e = {0};
    if (parse(c, text, &e) != 0)
        fail_msg("%s: %s", text, e.msg);
}

static void what_is_absent_has_the_default_of_its_class(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, "{" LLAMA "}");
    assert_int_equal(c.hp.n_vocab, 32000);
    assert_int_equal(c.hp.n_embd, 4096);
    assert_int_equal(c.hp.n_ff, 11008);
    assert_int_equal(c.hp.n_ctx_train, 2048);
    assert_int_equal(c.hp.n_head_kv, 32);
    assert_int_equal(c.hp.head_dim, 128);
    assert_true(c.hp.norm_rms_eps == 1e-6F && c.hp.rope_theta == 10000);
    assert_false(c.tied);
    fy_hf_config_release(&c);
    parse_ok(&c, "{" MISTRAL "}");
    assert_int_equal(c.hp.n_head_kv, 8);
    assert_int_equal(c.hp.n_swa, 4096);
    fy_hf_config_release(&c);
    parse_ok(&c,
             "{" MISTRAL
             ", \"num_key_value_heads\": null, \"sliding_window\": null, \"rope_theta\": null}");
    assert_int_equal(c.hp.n_head_kv, 32); /* null is the class's word for "as many as heads" */
    assert_int_equal(c.hp.n_swa, 0);
    assert_true(c.hp.rope_theta == 10000);
    fy_hf_config_release(&c);
}

static void a_config_without_architectures_is_known_by_model_type(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, "{\"model_type\": \"mistral\", \"architectures\": null}");
    assert_string_equal(c.family->name, "mistral");
    fy_hf_config_release(&c);
}

static void both_spellings_of_rotation_mean_the_same(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{" LLAMA DIMS
        ", \"rope_theta\": 5000.0, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}",
        "{" LLAMA DIMS
        ", \"rope_theta\": 5000, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}}",
        "{" LLAMA DIMS ", \"rope_parameters\": {\"rope_theta\": 5000.0, \"rope_type\": \"linear\", "
        "\"factor\": 4.0}}",
        "{" LLAMA DIMS ", \"rope_theta\": 1, \"rope_parameters\": {\"rope_theta\": 5000.0, "
        "\"rope_type\": \"linear\", "
        "\"factor\": 4.0, \"partial_rotary_factor\": 1.0}, \"rope_scaling\": null}",
        "{" LLAMA DIMS ", \"rope_scaling\": {}, \"rope_parameters\": {\"rope_theta\": 5000.0, "
        "\"rope_type\": \"linear\", \"factor\": 4.0}}",
        "{" LLAMA DIMS
        ", \"rope_theta\": 5000, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}, "
        "\"rope_parameters\": {\"rope_theta\": 7, \"rope_type\": \"default\"}}", /* the scaling wins
                                                                                  */
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, texts[i]);
        assert_int_equal(c.hp.rope_scaling, FY_ROPE_SCALING_LINEAR);
        assert_true(c.hp.rope_theta == 5000 && c.hp.rope_factor == 4);
        fy_hf_config_release(&c);
    }
}

static void default_rotation_is_no_scaling(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{" LLAMA DIMS ", \"rope_scaling\": null}",
        "{" LLAMA DIMS ", \"rope_scaling\": {\"type\": \"default\"}}",
        "{" LLAMA DIMS
        ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, texts[i]);
        assert_int_equal(c.hp.rope_scaling, FY_ROPE_SCALING_NONE);
        assert_false(c.llama3.used);
        fy_hf_config_release(&c);
    }
}

static void yarn_takes_every_parameter_it_knows(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, "{" QWEN2 DIMS ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
                 "\"original_max_position_embeddings\": 1024}}");
    assert_int_equal(c.hp.rope_scaling, FY_ROPE_SCALING_YARN);
    assert_int_equal(c.hp.rope_orig_ctx, 1024);
    assert_true(c.hp.rope_factor == 4 && c.hp.rope_attn_factor == 1);
    assert_true(c.hp.yarn_beta_fast == 32 && c.hp.yarn_beta_slow == 1);
    fy_hf_config_release(&c);

    /* attention_factor is the whole magnitude: ours stands on top of yarn's own 1 + 0.1 ln factor
     */
    parse_ok(
        &c, "{" QWEN2 DIMS
            ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 8, \"attention_factor\": 2, "
            "\"beta_fast\": 16, \"beta_slow\": 2, \"original_max_position_embeddings\": 512}}");
    assert_true(fabs((double)c.hp.rope_attn_factor - 2 / (1 + 0.1 * log(8))) < 1e-6);
    assert_true(c.hp.yarn_beta_fast == 16 && c.hp.yarn_beta_slow == 2);
    fy_hf_config_release(&c);

    parse_ok(&c, "{" QWEN2 DIMS
                 ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 8, \"mscale\": 1, "
                 "\"mscale_all_dim\": 1}}");
    assert_true(fabs((double)c.hp.rope_attn_factor - 1 / (1 + 0.1 * log(8))) < 1e-6);
    assert_int_equal(c.hp.rope_orig_ctx,
                     4096); /* max_position_embeddings when nothing says otherwise */
    fy_hf_config_release(&c);

    parse_ok(&c, "{" QWEN2 DIMS ", \"rope_scaling\": {\"rope_type\": \"yarn\", "
                 "\"original_max_position_embeddings\": 512}}");
    assert_true(c.hp.rope_factor == 8); /* 4096 / 512 */
    fy_hf_config_release(&c);
}

static void llama3_frequencies_equal_those_of_published_files(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(
        &c,
        "{" LLAMA
        ", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
        "\"rope_theta\": 500000.0, \"rope_scaling\": {\"factor\": 8.0, \"low_freq_factor\": 1.0, "
        "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192, \"rope_type\": "
        "\"llama3\"}}");
    assert_true(c.llama3.used);
    assert_int_equal(c.hp.rope_scaling, FY_ROPE_SCALING_NONE);
    float f[64];
    for (uint32_t i = 0; i < 64; i++)
        f[i] = fy_llama3_freq(&c, i);
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    fy_err e = {0};
    assert_int_equal(fy_sha256_of(f, sizeof f, hash, &e), 0);
    fy_sha256_to_hex(hash, hex);
    /* of rope_freqs.weight in ollama's test data for Llama 3.1 */
    assert_string_equal(hex, "80fd5efb2f729381785b293a091a268cfeceb0079167f6ece9b07070e662b222");
    fy_hf_config_release(&c);
}

static void the_original_context_of_llama3_is_sought_in_three_places(void **state)
{
    (void)state;
#define FREQS ", \"low_freq_factor\": 1, \"high_freq_factor\": 4"
#define L3    "{" LLAMA DIMS ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32" FREQS
    static const struct {
        const char *text;
        uint32_t wanted;
    } cases[] = {
        {L3 ", \"original_max_position_embeddings\": 64}}", 64},
        {L3
         ", \"original_max_position_embeddings\": 128}, \"original_max_position_embeddings\": 128}",
         128},
        {L3 "}, \"original_max_position_embeddings\": 128}", 128},
        {L3 "}}", 4096}, /* max_position_embeddings */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        assert_int_equal(c.llama3.orig_ctx, cases[i].wanted);
        assert_true(c.llama3.factor == 32 && c.llama3.low_freq_factor == 1 &&
                    c.llama3.high_freq_factor == 4);
        fy_hf_config_release(&c);
    }
}

static void a_window_counts_when_its_flag_and_all_layers_say_so(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t wanted;
    } cases[] = {
        {"{" LLAMA DIMS ", \"sliding_window\": 100}", 0}, /* the class knows no window */
        {"{" MISTRAL DIMS ", \"sliding_window\": 100}", 100},
        {"{" MISTRAL DIMS ", \"sliding_window\": null}", 0},
        {"{" QWEN2 DIMS ", \"sliding_window\": 100}", 0},
        {"{" QWEN2 DIMS ", \"sliding_window\": 0}", 0},
        {"{" QWEN2 DIMS ", \"sliding_window\": 100, \"use_sliding_window\": false}", 0},
        {"{" QWEN2 DIMS ", \"sliding_window\": 100, \"use_sliding_window\": true}",
         0}, /* layers below 28: full */
        {"{" QWEN2 DIMS
         ", \"sliding_window\": 100, \"use_sliding_window\": true, \"max_window_layers\": 0}",
         100},
        {"{" QWEN2 DIMS ", \"sliding_window\": 100, \"use_sliding_window\": true, "
         "\"layer_types\": [\"sliding_attention\", \"sliding_attention\"]}",
         100},
        {"{" QWEN2 DIMS ", \"sliding_window\": 100, \"use_sliding_window\": true, "
         "\"layer_types\": [\"full_attention\", \"full_attention\"]}",
         0},
        {"{" QWEN2 DIMS
         ", \"sliding_window\": null, \"use_sliding_window\": true, \"max_window_layers\": 1}",
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        assert_int_equal(c.hp.n_swa, cases[i].wanted);
        fy_hf_config_release(&c);
    }
}

static void what_ferry_cannot_compute_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"{\"architectures\": [\"BloomForCausalLM\"]}", "'BloomForCausalLM' is not a family"},
        {"{\"model_type\": \"rwkv\"}", "'rwkv' is not a family"},
        {"{" LLAMA ", \"hidden_act\": \"mish\"}", "hidden_act is 'mish'"},
        {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"gptq\"}}",
         "quantization_config: gptq"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"mrope\"}}", "'mrope'"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"default\", \"mrope_section\": [1, 2, 3]}}",
         "rope_scaling.mrope_section"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"longrope\"}}",
         "longrope, which a llama model in GGUF form has no place for"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"magic\": 1}}",
         "rope_scaling.magic"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"truncate\": false}}",
         "truncate"},
        {"{" LLAMA ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1}}}",
         "full_attention"},
        {"{" LLAMA ", \"partial_rotary_factor\": 0.5}", "partial_rotary_factor is 0.5"},
        {"{" QWEN2 DIMS ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}}", "llama3"},
        {"{" LLAMA DIMS ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"beta_fast\": 1, "
         "\"beta_slow\": 320}}",
         "beta_fast 1, beta_slow 320"},
        {"{" LLAMA DIMS
         ", \"rope_theta\": 10, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, "
         "\"original_max_position_embeddings\": 1}}",
         "original_max_position_embeddings 1,"},
        {"{" LLAMA DIMS
         ", \"rope_theta\": 1.5, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}",
         "rope_theta 1.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e = {0};
        assert_int_equal(parse(&c, cases[i].text, &e), -1);
        if (e.code != FY_EUNSUPPORTED || strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s: code %d, %s", cases[i].text, e.code, e.msg);
        fy_hf_config_release(&c);
    }
}

static void values_of_the_wrong_type_or_size_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", ""},
        {"[]", "not a JSON object"},
        {"{", "line 1"},
        {"{" LLAMA ", \"hidden_size\": 1, \"hidden_size\": 2}", "second key 'hidden_size'"},
        {"{}", "neither architectures nor model_type"},
        {"{\"architectures\": \"LlamaForCausalLM\"}", "architectures is \"LlamaForCausalLM\""},
        {"{\"architectures\": [7]}", "architectures is [7.0]"},
        {"{" LLAMA ", \"hidden_size\": \"64\"}", "hidden_size is \"64\"; expected an integer"},
        {"{" LLAMA ", \"hidden_size\": 64.5}", "hidden_size is 64.5"},
        {"{" LLAMA ", \"hidden_size\": -64}", "hidden_size is -64"},
        {"{" LLAMA ", \"hidden_size\": 4294967296}", "hidden_size is 4294967296"},
        {"{" LLAMA ", \"hidden_size\": 99999999999999999999}", "hidden_size is 1e+20"},
        {"{" LLAMA ", \"num_key_value_heads\": 0}",
         "num_key_value_heads is 0; expected a positive"},
        {"{" LLAMA ", \"num_key_value_heads\": 5}", "not a multiple"},
        {"{" LLAMA ", \"num_hidden_layers\": 100000}", "block_count is 100000"},
        {"{" LLAMA ", \"hidden_size\": 65}", "hidden_size 65 is not a multiple"},
        {"{" LLAMA ", \"head_dim\": 7}", "rope.dimension_count is 7"},
        {"{" LLAMA ", \"head_dim\": true}", "head_dim is true"},
        {"{" LLAMA ", \"rms_norm_eps\": \"1e-5\"}", "rms_norm_eps is \"1e-5\"; expected a number"},
        {"{" LLAMA ", \"rms_norm_eps\": 1e-300}", "rms_epsilon is 0"},
        {"{" LLAMA ", \"rope_theta\": -1}", "rope_theta is -1"},
        {"{" LLAMA ", \"rope_theta\": 0.5}", "rope_theta is 0.5; expected a number from 1"},
        {"{" LLAMA ", \"rope_scaling\": {\"rope_type\": null, \"factor\": 2}}",
         "rope_type is null"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}}",
         "linear needs at least 1"},
        {"{" LLAMA ", \"rope_theta\": 1e300}", "rope_theta is 1e+300"},
        {"{" LLAMA ", \"tie_word_embeddings\": 1}",
         "tie_word_embeddings is 1; expected true or false"},
        {"{" LLAMA ", \"attention_bias\": \"yes\"}", "attention_bias is \"yes\""},
        {"{" LLAMA ", \"mlp_bias\": 0}", "mlp_bias is 0"},
        {"{" LLAMA ", \"hidden_act\": 3}", "hidden_act is 3; expected a string"},
        {"{" LLAMA ", \"rope_scaling\": 4}", "rope_scaling is 4; expected an object"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}", "rope_scaling.factor is missing"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}",
         "rope_scaling.factor is 0"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": \"4\"}}",
         "rope_scaling.factor is \"4\""},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": 1}}", "rope_scaling.type is 1"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 0.5}}",
         "yarn needs at least 1"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 0.5" FREQS "}}",
         "llama3 needs at least 1"},
        {"{" LLAMA
         ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
         "\"high_freq_factor\": 4}}",
         "is not above"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"llama3\"" FREQS "}}",
         "rope_scaling.factor is missing"},
        {"{" LLAMA
         ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": 4}}",
         "rope_scaling.low_freq_factor is missing"},
        {L3
         ", \"original_max_position_embeddings\": 64}, \"original_max_position_embeddings\": 128}",
         "original_max_position_embeddings is 128, but 64 in rope_scaling"},
        {"{" LLAMA
         ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}, \"rope_parameters\": "
         "{\"rope_theta\": 7}}",
         "rope_theta is in rope_parameters only"},
        {"{" MISTRAL DIMS ", \"sliding_window\": 0}", "sliding_window is 0"},
        {"{" LLAMA ", \"layer_types\": [\"full_attention\"]}", "layer_types is"},
        {"{" LLAMA DIMS ", \"layer_types\": [\"full_attention\", \"linear_attention\"]}",
         "\"linear_attention\""},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"},
        {"<!doctype html><html></html>", "HTML"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e = {0};
        assert_int_equal(parse(&c, cases[i].text, &e), -1);
        if (e.code != FY_EFORMAT || strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s: code %d, %s", cases[i].text, e.code, e.msg);
        assert_non_null(strstr(e.msg, "config.json: "));
        fy_hf_config_release(&c);
    }
}

static void each_failing_allocation_is_out_of_memory(void **state)
{
    (void)state;
    static const char text[] =
        "{" QWEN2 DIMS ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}}";
    for (long n = 0;; n++) {
        fy_hf_config c;
        fy_err e = {0};
        alloc_fail_after(n);
        int rc = parse(&c, text, &e);
        bool failed = alloc_fail_end();
        fy_hf_config_release(&c);
        if (!failed) {
            assert_int_equal(rc, 0);
            return;
        }
        assert_int_equal(rc, -1);
        assert_int_equal(e.code, FY_ENOMEM);
    }
}

static void every_published_config_is_read_or_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *family; /* NULL: refused */
    } cases[] = {
        {"bloom-176b", NULL},         {"devstral", "mistral"},
        {"falcon-180b", "falcon"},    {"gemma-2b", "gemma"},
        {"granite-3b-code", "llama"}, {"granite-old", "llama"},
        {"lightonocr", "qwen3"},      {"granite3.1-moe", "granitemoe"},
        {"llama2-atom7b", "llama"},   {"llama3.2-3b-pertensor", "llama"},
        {"medgemma-27b", "gemma3"},   {"mimo", NULL},
        {"minicpm-v-2.6", "qwen2"},   {"mixtral-8x22b-wizardlm2", "mixtral"},
        {"opt-6.7b", "opt"},          {"phi3-mini", "phi3"},
    };
    const char *root = getenv("FERRY_REAL");
    char dir[512];
    snprintf(dir, sizeof dir, "%s/hf-meta", root != NULL ? root : "../shared/real");
    if (!fy_file_is_dir(dir))
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e = {0};
        snprintf(dir, sizeof dir, "%s/hf-meta/%s", root != NULL ? root : "../shared/real",
                 cases[i].name);
        int rc = fy_hf_config_open(&c, dir, &e);
        if (rc != (cases[i].family != NULL ? 0 : -1))
            fail_msg("%s: %s", cases[i].name, e.msg);
        if (rc == 0)
            assert_string_equal(c.family->name, cases[i].family);
        else
            assert_int_equal(e.code, FY_EUNSUPPORTED);
        fy_hf_config_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_absent_has_the_default_of_its_class),
        cmocka_unit_test(a_config_without_architectures_is_known_by_model_type),
        cmocka_unit_test(both_spellings_of_rotation_mean_the_same),
        cmocka_unit_test(default_rotation_is_no_scaling),
        cmocka_unit_test(yarn_takes_every_parameter_it_knows),
        cmocka_unit_test(llama3_frequencies_equal_those_of_published_files),
        cmocka_unit_test(the_original_context_of_llama3_is_sought_in_three_places),
        cmocka_unit_test(a_window_counts_when_its_flag_and_all_layers_say_so),
        cmocka_unit_test(what_ferry_cannot_compute_is_refused_by_name),
        cmocka_unit_test(values_of_the_wrong_type_or_size_are_named),
        cmocka_unit_test(each_failing_allocation_is_out_of_memory),
        cmocka_unit_test(every_published_config_is_read_or_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
