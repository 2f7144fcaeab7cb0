#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/vocab/small_vocab.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/data/model_json.h"

static const fy_hparams hp = {.n_vocab = 100,
                              .n_ctx_train = 1000,
                              .n_embd = 64,
                              .n_layer = 3,
                              .n_ff = 96,
                              .n_head = 4,
                              .n_head_kv = 2,
                              .head_dim = 16,
                              .head_dim_v = 16,
                              .n_rot = 16,
                              .norm_rms_eps = 1e-6f,
                              .rope_theta = 1e6f,
                              .rope_factor = 1,
                              .rope_attn_factor = 1,
                              .embedding_scale = 1,
                              .residual_scale = 1,
                              .logit_scale = 1};

static fy_model_json made(const char *arch, const fy_hparams *h, const char *id)
{
    fy_model_json m;
    fy_err e = {0};
    if (fy_model_json_of(fy_family_of_gguf(fy_span_of(arch), false), h, id, &m, &e) != 0)
        fail_msg("%s", e.msg);
    return m;
}

static void what_is_written_is_read_back_and_agrees(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_str s = {0};
    fy_model_json m = made("qwen2", &hp, "an id"), back;
    assert_int_equal(m.rope_type, 2);
    assert_int_equal(m.n_ctx, 1000);
    assert_int_equal(m.kv_dim, 32);
    assert_true(m.norm_eps == 9.999999974752427e-07);
    assert_int_equal(fy_model_json_text(&m, &s, &e), 0);
    if (fy_model_json_parse(s.ptr, s.len, &back, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(back.model_id, "an id");
    assert_int_equal(fy_model_json_compare(&back, &m, &e), 0);
    fy_str_release(&s);
}

static void rope_scaling_is_a_scale(void **state)
{
    (void)state;
    fy_hparams h = hp;
    h.rope_scaling = FY_ROPE_SCALING_LINEAR;
    h.rope_factor = 4;
    fy_model_json m = made("llama", &h, "x");
    assert_int_equal(m.rope_type, 0);
    assert_true(m.rope_freq_scale == 0.25);
    assert_string_equal(m.rope_scale_type, "linear");
    h.rope_scaling = FY_ROPE_SCALING_YARN;
    h.rope_orig_ctx = 250;
    m = made("llama", &h, "x");
    assert_string_equal(m.rope_scale_type, "yarn");
    assert_int_equal(m.n_rope_ctx_orig, 250);
}

static void a_contradiction_names_key_and_values(void **state)
{
    (void)state;
    fy_model_json m = made("llama", &hp, "x"), other = m;
    fy_err e = {0};
    strcpy(other.model_id, "free");
    other.n_ctx = 10;
    assert_int_equal(fy_model_json_compare(&other, &m, &e), 0);
    other.n_ctx = 1001;
    assert_int_equal(fy_model_json_compare(&other, &m, &e), -1);
    assert_string_equal(e.msg, "n_ctx is 1001, the weights say at most 1000");
    other = m;
    other.norm_eps = 1e-5;
    e = (fy_err){0};
    assert_int_equal(fy_model_json_compare(&other, &m, &e), -1);
    assert_string_equal(e.msg, "norm_eps is 1e-05, the weights say 9.99999997e-07");
    other = m;
    strcpy(other.model_arch, "qwen2");
    e = (fy_err){0};
    assert_int_equal(fy_model_json_compare(&other, &m, &e), -1);
    assert_string_equal(e.msg, "model_arch is qwen2, the weights say llama");
}

static void bad_text_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "expected"},
        {"[]", "expected"},
        {"{}", "lacks 'model_id'"},
        {"{\"model_id\": 1}", "model_id"},
        {"{\"model_id\": \"a\\u0000b\"}", "without NUL"},
        {"{\"model_arch\": \"123456789012345678901234567890123\"}", "expected 0 to 32"},
        {"{\"llm_config\": {\"embed_dim\": 1.5}}", "embed_dim"},
        {"{\"llm_config\": {\"rope_config\": []}}", "expected"},
        {"{\"model_id\": \"x\", \"llm_config\": {}}", "llm_config: lacks 'embed_dim'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_model_json m;
        assert_int_equal(fy_model_json_parse(cases[i][0], strlen(cases[i][0]), &m, &e), -1);
        assert_says(&e, cases[i][1]);
    }
    fy_err e = {0};
    fy_model_json m;
    assert_int_equal(fy_model_json_of(fy_family_of_gguf(FY_SPAN("llama"), false), &hp, "", &m, &e), -1);
    assert_int_equal(e.code, FY_EARG);
}

static void every_key_is_required_and_of_its_type(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "model_id",        "model_arch",       "version",         "embed_dim",
        "ffn_dim",         "n_layers",         "n_attn_heads",    "n_attn_kv_heads",
        "n_ctx",           "vocab_size",       "kv_dim",          "head_size",
        "norm_eps",        "rope_dim",         "rope_type",       "rope_freq_base",
        "rope_freq_scale", "rope_attn_factor", "rope_scale_type", "n_rope_ctx_orig"};
    fy_str text = {0};
    fy_model_json m = made("llama", &hp, "x");
    assert_int_equal(fy_model_json_text(&m, &text, NULL), 0);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char quoted[40];
        snprintf(quoted, sizeof quoted, "\"%s\": ", keys[i]);
        for (int wrong_type = 0; wrong_type < 2; wrong_type++) {
            fy_err e = {0};
            fy_str s = {0};
            const char *key = strstr(text.ptr, quoted);
            assert_non_null(key);
            fy_str_add(&s, text.ptr, (size_t)(key - text.ptr));
            if (wrong_type)
                fy_str_puts(&s, quoted);
            fy_str_puts(&s, wrong_type ? "[], \"-\": " : "\"-\": ");
            fy_str_puts(&s, key + strlen(quoted));
            if (fy_model_json_parse(s.ptr, s.len, &m, &e) == 0)
                fail_msg("accepted: %s", s.ptr);
            assert_says(&e, keys[i]);
            fy_str_release(&s);
        }
    }
    fy_str_release(&text);
}

static void limits(const tiny_model *model, const fy_hparams *h, const char *arch, const char *says)
{
    fy_str s = {0};
    tiny_write(at("x.gguf"), model);
    fy_gguf *g = fy_gguf_open(at("x.gguf"), NULL);
    assert_non_null(g);
    fy_powerserve_limits(g, fy_family_of_gguf(fy_span_of(arch), false), h, &s);
    if (says[0] == '\0' ? s.len > 0 : strstr(fy_str_z(&s), says) == NULL)
        fail_msg("expected '%s' in '%s'", says, fy_str_z(&s));
    fy_str_release(&s);
    fy_gguf_close(g);
}

static void models_that_powerserve_cannot_compute_are_told_apart(void **state)
{
    (void)state;
    fy_hparams h = hp;
#define TINY(...) (&(tiny_model){.tokenizer = "llama", __VA_ARGS__})
    limits(TINY(.type = FY_Q8_0), &h, "llama", "");
    limits(TINY(.type = FY_F32), &h, "llama", "all weights are f32, on which it crashes");
    limits(TINY(.type = FY_Q8_0), &h, "qwen2", "");
    limits(TINY(.type = FY_Q8_0), &h, "qwen3", "family qwen3");
    limits(TINY(.type = FY_F16), &h, "llama", "token_embd.weight is f16");
    limits(TINY(.type = FY_BF16), &h, "llama", "is bf16");
    limits(TINY(.type = FY_Q8_0, .llama3 = true), &h, "llama", "rope_freqs.weight");
    limits(TINY(.type = FY_Q8_0, .extra = "blk.0.attn_q.bias"), &h, "qwen2", "");
    static const char *const ignored[] = {"blk.0.attn_q.bias", "blk.x.attn_q.weight", "blk.0",
                                          "blk.0.attn_q_norm.weight", "output.bias"};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        char says[64];
        snprintf(says, sizeof says, "%s is ignored", ignored[i]);
        limits(TINY(.type = FY_F32, .extra = ignored[i]), &h, "llama", says);
    }
    h.head_dim = h.head_dim_v = h.n_rot = 32;
    limits(TINY(.type = FY_F32), &h, "llama", "heads of 32 elements");
    h = hp;
    h.rope_scaling = FY_ROPE_SCALING_YARN;
    limits(TINY(.type = FY_F32), &h, "llama", "yarn");
    h.rope_scaling = FY_ROPE_SCALING_LINEAR;
    limits(TINY(.type = FY_F32), &h, "llama", "linear rope scaling");
    h = hp;
    h.n_swa = 100;
    limits(TINY(.type = FY_F32), &h, "llama", "sliding window of 100");
#undef TINY
}

static void tokenizers_that_powerserve_does_not_read_are_told_apart(void **state)
{
    (void)state;
    limits(&(tiny_model){.type = FY_F32}, &hp, "llama", "no tokenizer.ggml.model");
    limits(&(tiny_model){.tokenizer = "mine"}, &hp, "llama", "tokenizer 'mine'");
    limits(&(tiny_model){.tokenizer = "gpt2", .pre = "qwen35"}, &hp, "llama",
           "pre-tokenizer 'qwen35'; no tokenizer.ggml.merges");
    limits(&(tiny_model){.tokenizer = "gpt2", .pre = "smollm"}, &hp, "llama",
           "no tokenizer.ggml.merges");
    limits(&(tiny_model){.type = FY_Q8_0, .tokenizer = "llama", .pre = "qwen35"}, &hp, "llama", "");
    limits(&(tiny_model){.tokenizer = "llama", .twice = "<pad>"}, &hp, "llama",
           "token '<pad>' is there twice");
}

/* hparams.json of a file with these keys, of f32 values or, for top_k and penalty_last_n, i32. */
static void hparams_are(const char *const *keys, const float *values, int n, const char *expected)
{
    small_vocab b = {0};
    fy_str file = {0}, text = {0};
    for (int i = 0; i < n; i++) {
        char key[64];
        bool whole = strcmp(keys[i], "top_k") == 0 || strcmp(keys[i], "penalty_last_n") == 0;
        int32_t v = whole ? (int32_t)values[i] : 0;
        snprintf(key, sizeof key, "general.sampling.%s", keys[i]);
        small_key(&b, key, whole ? FY_KV_I32 : FY_KV_F32);
        small_put(&b.keys, whole ? (const void *)&v : &values[i], 4);
    }
    small_file(&b, &file);
    fy_gguf *g = fy_gguf_parse(file.ptr, file.len, "m.gguf", false, NULL);
    assert_non_null(g);
    assert_int_equal(fy_hparams_json_text(g, &text, NULL), 0);
    fy_str want = {0};
    fy_str_printf(
        &want,
        "{\n    \"n_threads\": 4,\n    \"batch_size\": 128,\n    \"sampler\": {\n%s    }\n}\n",
        expected);
    assert_string_equal(fy_str_z(&text), fy_str_z(&want));
    fy_gguf_close(g);
    fy_str_release(&want);
    fy_str_release(&text);
    fy_str_release(&file);
    fy_str_release(&b.keys);
}

#define KEYS   (const char *const[])
#define GREEDY "        \"temperature\": 1.0,\n        \"top_p\": 1.0,\n        \"top_k\": 1\n"

static void hparams_are_what_the_model_recommends_and_no_more(void **state)
{
    (void)state;
    hparams_are(NULL, NULL, 0, GREEDY);
    hparams_are(KEYS{"temp", "top_p"}, (float[]){0.7f, 0.95f}, 2,
                "        \"temperature\": 0.7,\n        \"top_p\": 0.95\n");
    hparams_are(KEYS{"top_k", "min_p", "typical_p", "penalty_repeat", "penalty_last_n"},
                (float[]){20, 0.05f, 0.9f, 1.05f, 256}, 5,
                "        \"top_k\": 20,\n        \"min_p\": 0.05,\n        \"typical_p\": 0.9,\n"
                "        \"penalty_repeat\": 1.05,\n        \"penalty_last_n\": 256\n");
    hparams_are(KEYS{"temp"}, (float[]){0}, 1, GREEDY);
    hparams_are(KEYS{"temp", "top_k"}, (float[]){1, 0}, 2,
                "        \"temperature\": 1.0,\n        \"top_k\": 2147483647\n");
    hparams_are(KEYS{"penalty_repeat"}, (float[]){1.1f}, 1,
                "        \"penalty_repeat\": 1.1,\n" GREEDY);
    hparams_are(KEYS{"temp", "top_k", "top_p", "min_p", "penalty_repeat", "penalty_last_n"},
                (float[]){-1, -3, 7, NAN, INFINITY, -1}, 6, GREEDY);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back_and_agrees),
        cmocka_unit_test(rope_scaling_is_a_scale),
        cmocka_unit_test(a_contradiction_names_key_and_values),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(hparams_are_what_the_model_recommends_and_no_more),
        TEST(every_key_is_required_and_of_its_type),
        TEST(models_that_powerserve_cannot_compute_are_told_apart),
        TEST(tokenizers_that_powerserve_does_not_read_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
