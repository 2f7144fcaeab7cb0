#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/log.h"
#include "convert/tokenizer/tokenizer_config.h"
#include "format/gguf.h"

static char dir[128], in_path[160], out_path[160];
static fy_str words;

static void remember(void *user, fy_log_level level, const char *text)
{
    (void)user;
    if (level == FY_LOG_WARN)
        fy_str_printf(&words, "%s\n", text);
}

static int make_directory(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.40s/ferry-gen-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(in_path, sizeof in_path, "%s/generation_config.json", dir);
    snprintf(out_path, sizeof out_path, "%s/out.gguf", dir);
    fy_log_set(remember, NULL);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    fy_str_release(&words);
    unlink(in_path);
    unlink(out_path);
    return rmdir(dir);
}

/* The keys that this text leads to. */
static fy_gguf *keys_of(const char *text)
{
    fy_err e = {0};
    fy_tokenizer_config config;
    fy_str_clear(&words);
    unlink(in_path);
    if (text != NULL)
        assert_int_equal(fy_file_write(in_path, text, strlen(text), &e), 0);
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    if (w == NULL || fy_tokenizer_config_read(dir, &config, &e) != 0 ||
        fy_generation_config_write(config.generation, w, &e) != 0 ||
        fy_gguf_write(w, out_path, NULL, NULL, NULL, NULL, &e) != 0)
        fail_msg("%s: %s", text, e.msg);
    fy_tokenizer_config_release(&config);
    fy_gguf_writer_free(w);
    fy_gguf *g = fy_gguf_open(out_path, &e);
    if (g == NULL)
        fail_msg("%s: %s", text, e.msg);
    return g;
}

/* Exactly these values; NAN: no such key. */
static void leads_to(const char *text, double temp, double top_k, double top_p, double min_p,
                     double typical, double penalty, const char *warning)
{
    static const char *const names[] = {"temp",  "top_k",     "top_p",
                                        "min_p", "typical_p", "penalty_repeat"};
    const double want[] = {temp, top_k, top_p, min_p, typical, penalty};
    fy_gguf *g = keys_of(text);
    size_t n = 0;
    for (int i = 0; i < 6; i++) {
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", names[i]);
        const fy_gguf_kv *kv = fy_gguf_find(g, key);
        n += kv != NULL;
        if (isnan(want[i]) != (kv == NULL))
            fail_msg("%s: %s", text, key);
        if (kv == NULL)
            continue;
        assert_int_equal(kv->type, i == 1 ? FY_KV_I32 : FY_KV_F32);
        double v = i == 1 ? (double)fy_gguf_int_at(kv, 0) : fy_gguf_float_at(kv, 0);
        assert_true(v == (i == 1 ? want[i] : (double)(float)want[i]));
    }
    assert_int_equal(fy_gguf_n_kv(g), n);
    if (warning == NULL ? words.len > 0 : strstr(fy_str_z(&words), warning) == NULL)
        fail_msg("%s: expected '%s' in '%s'", text, warning != NULL ? warning : "nothing",
                 fy_str_z(&words));
    fy_gguf_close(g);
}

static void values_become_the_standard_keys(void **state)
{
    (void)state;
    leads_to("{\"temperature\":0.7,\"top_k\":20,\"top_p\":0.8,\"min_p\":0.05,\"typical_p\":0.9,"
             "\"repetition_penalty\":1.05,\"do_sample\":true}",
             0.7, 20, 0.8, 0.05, 0.9, 1.05, NULL);
    leads_to("{\"temperature\":1,\"top_k\":0,\"top_p\":1.0,\"eos_token_id\":[1,2]}", 1, 0, 1, NAN,
             NAN, NAN, NULL);
    leads_to("{\"temperature\":0,\"min_p\":0,\"top_k\":2147483647}", 0, INT32_MAX, NAN, 0, NAN, NAN,
             NULL);
}

static void nothing_is_written_for_what_is_not_there(void **state)
{
    (void)state;
    leads_to(NULL, NAN, NAN, NAN, NAN, NAN, NAN, NULL);
    leads_to("{}", NAN, NAN, NAN, NAN, NAN, NAN, NULL);
    leads_to("{\"do_sample\":true,\"_from_model_config\":true,\"max_length\":4096}", NAN, NAN, NAN,
             NAN, NAN, NAN, NULL);
    leads_to("{\"temperature\":null,\"top_k\":null,\"min_p\":null}", NAN, NAN, NAN, NAN, NAN, NAN,
             NULL);
}

static void do_sample_false_is_temperature_0(void **state)
{
    (void)state;
    leads_to("{\"do_sample\":false}", 0, NAN, NAN, NAN, NAN, NAN, NULL);
    leads_to("{\"do_sample\":false,\"temperature\":0.6,\"top_p\":0.9,\"repetition_penalty\":1.1}",
             0, NAN, 0.9, NAN, NAN, 1.1, NULL);
}

static void bad_values_are_said_and_left_out(void **state)
{
    (void)state;
    leads_to("{\"temperature\":\"hot\",\"top_p\":0.5}", NAN, NAN, 0.5, NAN, NAN, NAN,
             "temperature is \"hot\", expected a number from 0 to 100; left out");
    leads_to("{\"top_k\":-1}", NAN, NAN, NAN, NAN, NAN, NAN, "top_k is -1");
    leads_to("{\"top_k\":2.5}", NAN, NAN, NAN, NAN, NAN, NAN, "expected an integer");
    leads_to("{\"top_k\":1e10}", NAN, NAN, NAN, NAN, NAN, NAN, "top_k is");
    leads_to("{\"top_k\":true}", NAN, NAN, NAN, NAN, NAN, NAN, "top_k is true");
    leads_to("{\"temperature\":-0.5}", NAN, NAN, NAN, NAN, NAN, NAN, "temperature is -0.5");
    leads_to("{\"top_p\":1.5}", NAN, NAN, NAN, NAN, NAN, NAN, "top_p is 1.5");
    leads_to("{\"min_p\":[0.1]}", NAN, NAN, NAN, NAN, NAN, NAN, "min_p is [");
    leads_to("{\"typical_p\":{}}", NAN, NAN, NAN, NAN, NAN, NAN, "typical_p is {}");
    leads_to("{\"repetition_penalty\":0}", NAN, NAN, NAN, NAN, NAN, NAN, "repetition_penalty is 0");
}

/* Python's json writes these words, and reads them. */
static void words_that_are_no_json_numbers_are_null(void **state)
{
    (void)state;
    leads_to("{\"temperature\":NaN,\"top_p\":0.5}", NAN, NAN, 0.5, NAN, NAN, NAN, "has NaN");
    leads_to("{\"temperature\": -Infinity, \"top_k\":Infinity, \"min_p\":0.5}", NAN, NAN, NAN, 0.5,
             NAN, NAN, "has NaN");
    leads_to("{\"note\":\"a NaN \\\\\\\" Infinity\",\"top_p\":0.5}", NAN, NAN, 0.5, NAN, NAN, NAN,
             NULL);
    leads_to("{\"a\\\"NaN\":\"\\\\\",\"x\":[NaN],\"top_p\":0.5}", NAN, NAN, 0.5, NAN, NAN, NAN,
             "has NaN");
}

static void text_that_is_not_json_is_refused_as_it_was_written(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"top_k\":NaN", "line 1"}, {"{\"top_k\":nan}", "line 1"}, {"{\"x\":\"NaN", "line 1"},
        {"\"\\", "line 1"},           {"[1]", "not a JSON object"},     {"NaN", "not a JSON object"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_err e = {0};
        fy_tokenizer_config config;
        assert_int_equal(fy_file_write(in_path, cases[i][0], strlen(cases[i][0]), &e), 0);
        assert_int_equal(fy_tokenizer_config_read(dir, &config, &e), -1);
        fy_tokenizer_config_release(&config);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, "generation_config.json: ") == NULL || strstr(e.msg, cases[i][1]) == NULL)
            fail_msg("'%s': expected '%s' in '%s'", cases[i][0], cases[i][1], e.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_become_the_standard_keys),
        cmocka_unit_test(nothing_is_written_for_what_is_not_there),
        cmocka_unit_test(do_sample_false_is_temperature_0),
        cmocka_unit_test(bad_values_are_said_and_left_out),
        cmocka_unit_test(words_that_are_no_json_numbers_are_null),
        cmocka_unit_test(text_that_is_not_json_is_refused_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
