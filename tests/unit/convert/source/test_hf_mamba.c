/* What config.json of a family with Mamba-2 mixers means: which family it is, layers, widths,
 * limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "convert/source/hf_config.h"

/* 4 heads of 16, 4 layers, mixers of 8 heads */
#define DIMS                                                                          \
    ", \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"num_hidden_layers\": 4, \"max_position_embeddings\": 4096, \"mamba_n_heads\": 8"
#define GRANITE   "{\"architectures\": [\"GraniteMoeHybridForCausalLM\"]" DIMS
#define MIXED     ", \"layer_types\": [\"mamba\", \"attention\", \"mamba\", \"mamba\"]"
#define ATTENTION ", \"layer_types\": [\"attention\", \"attention\", \"attention\", \"attention\"]"
#define DENSE     ", \"num_local_experts\": 0"

#define FALCON "{\"architectures\": [\"FalconH1ForCausalLM\"]" DIMS
#define NEMOTRON_5                                                          \
    "{\"architectures\": [\"NemotronHForCausalLM\"], \"hidden_size\": 64, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "              \
    "\"mamba_num_heads\": 8, \"mamba_head_dim\": 16"
#define NEMOTRON NEMOTRON_5 ", \"num_hidden_layers\": 4"

static int parse(fy_hf_config *c, const char *text, fy_err *e)
{
    *e = (fy_err){0};
    return fy_hf_config_parse(c, text, strlen(text), "config.json", e);
}

static void parse_ok(fy_hf_config *c, const char *text)
{
    fy_err e;
    if (parse(c, text, &e) != 0)
        fail_msg("%s: %s", text, e.msg);
}

/* "m-f": mixer, attention, feed-forward alone. */
static void kinds_of(const fy_hparams *hp, char *out)
{
    uint32_t i = 0;
    for (; i < hp->n_layer; i++)
        out[i] = fy_layer_has_state(hp, i) ? 'M' : !fy_layer_in(&hp->no_attn_layers, i) ? '*' : '-';
    out[i] = '\0';
}

static void the_class_of_granite_4_is_four_families(void **state)
{
    static const struct {
        const char *text, *arch, *kinds;
        bool moe;
    } cases[] = {
        {GRANITE MIXED DENSE "}", "granitehybrid", "M*MM", false},
        {GRANITE MIXED "}", "granitehybrid", "M*MM", true},
        {GRANITE MIXED ", \"num_local_experts\": 3}", "granitehybrid", "M*MM", true},
        {GRANITE ATTENTION DENSE "}", "granite", "****", false},
        {GRANITE ATTENTION "}", "granitemoe", "****", true},
        {GRANITE DENSE ", \"layer_types\": [\"linear_attention\", \"full_attention\", "
                       "\"linear_attention\", \"full_attention\"]}",
         "granitehybrid", "M*M*", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        char kinds[8];
        parse_ok(&c, cases[i].text);
        kinds_of(&c.hp, kinds);
        assert_string_equal(c.family->gguf_arch, cases[i].arch);
        assert_int_equal(c.family->moe, cases[i].moe);
        assert_string_equal(kinds, cases[i].kinds);
        fy_hf_config_release(&c);
    }
}

static void granite_4_rotates_only_where_it_says_so(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, GRANITE MIXED DENSE "}");
    assert_int_equal(fy_layers_count(&c.hp.nope_layers), 4);
    fy_hf_config_release(&c);
    parse_ok(&c, GRANITE ATTENTION DENSE ", \"position_embedding_type\": \"nope\"}");
    assert_int_equal(fy_layers_count(&c.hp.nope_layers), 4);
    fy_hf_config_release(&c);
    parse_ok(&c, GRANITE ATTENTION DENSE ", \"position_embedding_type\": \"rope\"}");
    assert_int_equal(fy_layers_count(&c.hp.nope_layers), 0);
    fy_hf_config_release(&c);
}

static void granite_4_widths_follow_from_the_hidden_size(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, GRANITE MIXED DENSE ", \"mamba_expand\": 3, \"mamba_d_head\": 24, "
                                     "\"mamba_n_groups\": 2, \"mamba_d_state\": 5, "
                                     "\"shared_intermediate_size\": 40}");
    assert_int_equal(c.hp.ssm_inner, 192);
    assert_int_equal(c.hp.n_ff, 40);
    assert_int_equal(fy_dim_of(&c.hp, FY_D_SSM_CHANNELS), 192 + 2 * 2 * 5);
    assert_int_equal(fy_dim_of(&c.hp, FY_D_SSM_IN), 2 * 192 + 2 * 2 * 5 + 8);
    assert_int_equal(fy_state_len(&c.hp), 3 * (192 + 20) + 192 * 5);
    fy_hf_config_release(&c);
    parse_ok(&c, GRANITE MIXED DENSE ", \"mamba_d_head\": \"auto\"}");
    assert_int_equal(c.hp.ssm_inner, 128);
    fy_hf_config_release(&c);
}

static void a_layer_of_nemotron_h_is_one_thing(void **state)
{
    static const char *const texts[] = {
        NEMOTRON ", \"hybrid_override_pattern\": \"M-*M\", \"expand\": 7}",
        NEMOTRON ", \"layers_block_type\": [\"mamba\", \"mlp\", \"attention\", \"mamba\"]}",
        /* the list says how many there are */
        NEMOTRON_5 ", \"layers_block_type\": [\"linear_attention\", \"mlp\", "
                   "\"full_attention\", \"linear_attention\"]}",
        NEMOTRON_5 ", \"hybrid_override_pattern\": \"M-*M\"}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fy_hf_config c;
        char kinds[8];
        parse_ok(&c, texts[i]);
        kinds_of(&c.hp, kinds);
        assert_string_equal(kinds, "M-*M");
        assert_int_equal(fy_layers_count(&c.hp.no_ffn_layers), 3);
        assert_int_equal(fy_layers_count(&c.hp.nope_layers), 4);
        assert_int_equal(c.hp.ssm_inner, 128);
        assert_int_equal(c.hp.act, FY_ACT_RELU2);
        fy_hf_config_release(&c);
    }
}

static void falcon_h1_has_mixers_in_every_layer(void **state)
{
    (void)state;
    fy_hf_config c;
    char kinds[8];
    parse_ok(&c, FALCON ", \"mamba_d_ssm\": 96, \"mamba_d_head\": 12}");
    kinds_of(&c.hp, kinds);
    assert_string_equal(kinds, "MMMM");
    assert_int_equal(fy_layers_count(&c.hp.no_attn_layers), 0);
    assert_int_equal(c.hp.ssm_inner, 96);
    fy_hf_config_release(&c);
    parse_ok(&c, FALCON ", \"mamba_d_ssm\": null}");
    assert_int_equal(c.hp.ssm_inner, 128);
    fy_hf_config_release(&c);
}

/* What becomes of 1 in a row. */
static float folded(const fy_hf_config *c, fy_slot slot, uint64_t row)
{
    float x[] = {1, 1};
    fy_hf_fold(c, slot, row, x, 2);
    assert_true(x[0] == x[1]);
    return x[0];
}

static void multipliers_of_falcon_h1_become_part_of_the_weights(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, FALCON ", \"mamba_d_ssm\": 96, \"mamba_d_state\": 5, \"mamba_n_groups\": 2, "
                        "\"attention_in_multiplier\": 2, \"attention_out_multiplier\": 3, "
                        "\"key_multiplier\": 5, \"ssm_in_multiplier\": 7, "
                        "\"ssm_out_multiplier\": 11, \"mlp_multipliers\": [13, 17], "
                        "\"embedding_multiplier\": 19, \"lm_head_multiplier\": 23, "
                        "\"ssm_multipliers\": [2, 3, 4, 5, 6]}");
    static const struct {
        fy_slot slot;
        float by;
    } cases[] = {{FY_T_ATTN_Q, 2},    {FY_T_ATTN_K, 10},   {FY_T_ATTN_V, 2},
                 {FY_T_ATTN_OUT, 3},  {FY_T_SSM_OUT, 11},  {FY_T_FFN_GATE, 13},
                 {FY_T_FFN_DOWN, 17}, {FY_T_FFN_UP, 1},    {FY_T_TOKEN_EMBD, 19},
                 {FY_T_OUTPUT, 23},   {FY_T_ATTN_NORM, 1}, {FY_T_SSM_CONV, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(folded(&c, cases[i].slot, 3) == cases[i].by);
    const uint64_t first[] = {0, 96, 192, 202, 212, 220}; /* rows of z, x, B, C, dt */
    for (int part = 0; part < 5; part++) {
        assert_true(folded(&c, FY_T_SSM_IN, first[part]) == (float)(7 * (part + 2)));
        assert_true(folded(&c, FY_T_SSM_IN, first[part + 1] - 1) == (float)(7 * (part + 2)));
    }
    fy_hf_config_release(&c);
    parse_ok(&c, GRANITE MIXED DENSE ", \"key_multiplier\": 5}");
    assert_true(folded(&c, FY_T_ATTN_K, 0) == 1);
    fy_hf_config_release(&c);
}

static void infinity_has_two_spellings(void **state)
{
    static const char *const texts[] = {
        GRANITE MIXED DENSE ", \"time_step_limit\": [0.0, {\"__float__\": \"Infinity\"}]}",
        GRANITE MIXED DENSE ", \"time_step_limit\": [0.0, Infinity]}",
        GRANITE MIXED DENSE ", \"time_step_limit\": null}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, texts[i]);
        fy_hf_config_release(&c);
    }
}

static void what_is_not_computed_is_refused_by_name(void **state)
{
    static const struct {
        const char *text, *words;
        fy_code code;
    } cases[] = {
        {GRANITE MIXED DENSE ", \"time_step_limit\": [0.0, 0.1]}", "time_step_limit",
         FY_EUNSUPPORTED},
        {GRANITE MIXED DENSE ", \"time_step_limit\": [0.1, Infinity]}", "time_step_limit",
         FY_EUNSUPPORTED},
        {GRANITE MIXED DENSE ", \"time_step_limit\": 3}", "time_step_limit is 3", FY_EFORMAT},
        {GRANITE MIXED DENSE ", \"mamba_proj_bias\": true}", "mamba_proj_bias", FY_EUNSUPPORTED},
        {GRANITE MIXED DENSE ", \"mamba_conv_bias\": false}", "mamba_conv_bias", FY_EUNSUPPORTED},
        {GRANITE MIXED DENSE ", \"mamba_d_conv\": 1}", "ssm.conv_kernel is 1", FY_EFORMAT},
        {GRANITE MIXED DENSE ", \"mamba_d_head\": 7}", "8 heads of 7", FY_EFORMAT},
        {GRANITE MIXED DENSE ", \"mamba_n_groups\": 3}", "ssm.group_count 3", FY_EFORMAT},
        {GRANITE MIXED DENSE ", \"mamba_n_groups\": 0}", "mamba_n_groups is 0", FY_EFORMAT},
        {GRANITE MIXED DENSE ", \"mamba_d_state\": 2000000000}", "31 bits", FY_EFORMAT},
        {GRANITE MIXED DENSE ", \"mamba_expand\": 2000000000}", "2147483647", FY_EFORMAT},
        {GRANITE DENSE "}", "none of the 4 layers has attention", FY_EUNSUPPORTED},
        {GRANITE DENSE ", \"layer_types\": [\"mamba\"]}", "layer_types has 1 entries", FY_EFORMAT},
        {GRANITE DENSE ", \"layer_types\": [\"mamba\", 3, \"attention\", \"mamba\"]}",
         "layer_types is 3", FY_EFORMAT},
        {GRANITE DENSE ", \"layer_types\": [\"mamba\", \"conv\", \"attention\", \"mamba\"]}",
         "mamba or attention", FY_EFORMAT},
        {FALCON ", \"mamba_rms_norm\": true}", "mamba_norm_before_gate", FY_EUNSUPPORTED},
        {FALCON ", \"tie_word_embeddings\": true, \"lm_head_multiplier\": 0.5}",
         "tie_word_embeddings is true", FY_EUNSUPPORTED},
        {FALCON ", \"ssm_multipliers\": [1, 2, 3, 4]}", "ssm_multipliers has 4 entries",
         FY_EFORMAT},
        {FALCON ", \"mlp_multipliers\": [1, \"x\"]}", "mlp_multipliers", FY_EFORMAT},
        {FALCON ", \"projectors_bias\": true}", "projectors_bias", FY_EUNSUPPORTED},
        {NEMOTRON ", \"hybrid_override_pattern\": \"M*MM\"}",
         "none of the 4 layers is a feed-forward network", FY_EUNSUPPORTED},
        {FALCON ", \"hidden_act\": \"gelu\"}", "hidden_act is 'gelu', also in the mixers",
         FY_EUNSUPPORTED},
        {NEMOTRON ", \"hybrid_override_pattern\": \"ME*-\"}", "E for layer 1", FY_EUNSUPPORTED},
        {NEMOTRON ", \"hybrid_override_pattern\": \"MX*-\"}", "'MX*-'; expected M, * or -",
         FY_EFORMAT},
        {NEMOTRON ", \"hybrid_override_pattern\": \"M*-\"}", "names 3 layers", FY_EFORMAT},
        {NEMOTRON "}", "layers_block_type", FY_EFORMAT},
        {NEMOTRON ", \"hybrid_override_pattern\": \"M-M-\"}", "none of the 4 layers has attention",
         FY_EUNSUPPORTED},
        {NEMOTRON ", \"hybrid_override_pattern\": \"M-*-\", \"mlp_hidden_act\": \"silu\"}",
         "'silu'", FY_EUNSUPPORTED},
        {NEMOTRON ", \"hybrid_override_pattern\": \"M-*-\", \"use_bias\": true}", "use_bias",
         FY_EUNSUPPORTED},
        {"{\"architectures\": [\"LlamaForCausalLM\"]" DIMS ", \"hidden_act\": \"relu2\"}", "relu2",
         FY_EUNSUPPORTED},
        {GRANITE MIXED DENSE ", \"normalization_function\": \"layernorm\"}",
         "normalization_function", FY_EUNSUPPORTED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e;
        assert_int_equal(parse(&c, cases[i].text, &e), -1);
        if (e.code != cases[i].code || strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s: %d %s", cases[i].text, e.code, e.msg);
        fy_hf_config_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_class_of_granite_4_is_four_families),
        cmocka_unit_test(granite_4_rotates_only_where_it_says_so),
        cmocka_unit_test(granite_4_widths_follow_from_the_hidden_size),
        cmocka_unit_test(a_layer_of_nemotron_h_is_one_thing),
        cmocka_unit_test(falcon_h1_has_mixers_in_every_layer),
        cmocka_unit_test(multipliers_of_falcon_h1_become_part_of_the_weights),
        cmocka_unit_test(infinity_has_two_spellings),
        cmocka_unit_test(what_is_not_computed_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
