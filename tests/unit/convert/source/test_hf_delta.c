/* What config.json of a family with gated delta nets means: layers, widths, sections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "convert/source/hf_config.h"

/* 4 heads of 32, 6 layers */
#define DIMS                                                                          \
    ", \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"head_dim\": 32, \"num_hidden_layers\": 6, \"max_position_embeddings\": 4096"
#define QWEN   "{\"architectures\": [\"Qwen3_5ForCausalLM\"]" DIMS
#define LINEAR "\"linear_attention\""
#define FULL   "\"full_attention\""

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

static void every_nth_layer_has_attention(void **state)
{
    static const struct {
        const char *text, *layers;
        uint32_t interval;
    } cases[] = {
        {QWEN "}", "___*__", 4},
        {QWEN ", \"full_attention_interval\": 2}", "_*_*_*", 2},
        {QWEN ", \"full_attention_interval\": 9, \"layer_types\": [" LINEAR "," LINEAR "," FULL
              "," LINEAR "," LINEAR "," FULL "]}",
         "__*__*", 3},
        {QWEN ", \"layer_types\": [" LINEAR "," LINEAR "," LINEAR "," LINEAR "," LINEAR "," FULL
              "]}",
         "_____*", 6},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        parse_ok(&c, cases[i].text);
        assert_int_equal(c.hp.full_interval, cases[i].interval);
        for (uint32_t l = 0; l < 6; l++) {
            assert_int_equal(fy_layer_has_state(&c.hp, l), cases[i].layers[l] == '_');
            assert_int_equal(fy_layer_in(&c.hp.no_attn_layers, l), cases[i].layers[l] == '_');
        }
        fy_hf_config_release(&c);
    }
}

static void widths_and_sections_have_defaults(void **state)
{
    (void)state;
    fy_hf_config c;
    parse_ok(&c, QWEN "}");
    assert_int_equal(c.hp.ssm_inner, 32 * 128);
    assert_int_equal(c.hp.n_rot, 8);
    assert_int_equal(c.hp.rope_sections[2], 10);
    assert_int_equal(fy_state_len(&c.hp), 3 * (2 * 16 * 128 + 4096) + 4096 * 128);
    fy_hf_config_release(&c);
    parse_ok(&c, QWEN ", \"linear_num_value_heads\": 6, \"linear_num_key_heads\": 3, "
                      "\"linear_value_head_dim\": 10, \"linear_key_head_dim\": 5, "
                      "\"rope_parameters\": {\"mrope_section\": [2, 1, 1], "
                      "\"mrope_interleaved\": true, \"partial_rotary_factor\": 0.5}}");
    assert_int_equal(c.hp.ssm_inner, 60);
    assert_int_equal(c.hp.n_rot, 16);
    assert_int_equal(c.hp.rope_sections[0], 2);
    assert_int_equal(fy_state_len(&c.hp), 3 * (2 * 15 + 60) + 60 * 5);
    fy_hf_config_release(&c);
}

static void what_it_does_not_compute_is_refused(void **state)
{
    static const struct {
        const char *text, *words;
        fy_code code;
    } cases[] = {
        {QWEN ", \"attention_bias\": true}", "attention_bias is true", FY_EUNSUPPORTED},
        {QWEN ", \"attn_output_gate\": false}", "attn_output_gate is false", FY_EUNSUPPORTED},
        {QWEN ", \"mlp_only_layers\": [1]}", "mlp_only_layers is [1.0]", FY_EUNSUPPORTED},
        {QWEN ", \"layer_types\": [" FULL "," LINEAR "," FULL "," FULL "," FULL "," FULL "]}",
         "layer 1 is linear_attention; a file of a qwen3_5 model can say that every n-th",
         FY_EUNSUPPORTED},
        {QWEN ", \"layer_types\": [" LINEAR "," LINEAR "," LINEAR "," LINEAR "," LINEAR "," LINEAR
              "]}",
         "layer_types has no full_attention", FY_EUNSUPPORTED},
        {QWEN ", \"layer_types\": [" LINEAR "," LINEAR "," LINEAR "," LINEAR "," LINEAR
              ", \"conv\"]}",
         "layer_types is \"conv\"; expected linear_attention or full_attention", FY_EFORMAT},
        {QWEN ", \"layer_types\": [" FULL "]}", "expected a list of 6", FY_EFORMAT},
        {QWEN ", \"full_attention_interval\": 0}", "full_attention_interval is 0", FY_EFORMAT},
        {QWEN ", \"linear_num_value_heads\": 5}", "ssm.time_step_rank 5", FY_EFORMAT},
        {QWEN ", \"linear_conv_kernel_dim\": 1}", "ssm.conv_kernel is 1", FY_EFORMAT},
        {QWEN ", \"rope_parameters\": {\"mrope_section\": [1, -1, 2]}}", "mrope_section is -1",
         FY_EFORMAT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hf_config c;
        fy_err e;
        assert_int_equal(parse(&c, cases[i].text, &e), -1);
        if (e.code != cases[i].code || strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s: code %d, %s", cases[i].text, e.code, e.msg);
        fy_hf_config_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_nth_layer_has_attention),
        cmocka_unit_test(widths_and_sections_have_defaults),
        cmocka_unit_test(what_it_does_not_compute_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
