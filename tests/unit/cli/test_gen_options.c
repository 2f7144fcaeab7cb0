/* Sampling options: which source of a value counts, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/gen_options.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/vocab/small_vocab.h"

typedef struct {
    fy_gen_options gen;
} options;

static const fy_opt rows[] = {FY_ROWS_SAMPLING};
enum { N_ROWS = sizeof rows / sizeof *rows };

static fy_str words; /* what was logged, a line each */

static void remember(void *user, fy_log_level level, const char *text)
{
    (void)user;
    fy_str_printf(&words, "%d %s\n", (int)level, text);
}

static int forget(void **state)
{
    (void)state;
    fy_str_release(&words);
    words = (fy_str){0};
    fy_log_set(remember, NULL);
    return 0;
}

static void logged(const char *line)
{
    if (strstr(fy_str_z(&words), line) == NULL)
        fail_msg("expected '%s' in\n%s", line, fy_str_z(&words));
}

/* Options from a line of words separated by blanks. */
static void parse(const char *line, options *o, char *buf)
{
    char *argv[40];
    int argc = 0, n_args = 0;
    bool help;
    fy_err e = {0};
    strcpy(buf, line);
    for (char *w = strtok(buf, " "); w != NULL; w = strtok(NULL, " "))
        argv[argc++] = w;
    if (fy_opts_parse(rows, N_ROWS, o, argc, argv, &n_args, &help, &e) != 0)
        fail_msg("%s: %s", line, e.msg);
}

static fy_sampler_params params_of(const char *line, const fy_bundle *b, const fy_gguf *g,
                                   bool greedy)
{
    char buf[512];
    options o;
    fy_gen_params p;
    fy_err e = {0};
    parse(line, &o, buf);
    forget(NULL);
    if (fy_gen_params_of(&o.gen, b, g, greedy, 100, &p, &e) != 0)
        fail_msg("%s: %s", line, e.msg);
    fy_opts_release(rows, N_ROWS, &o);
    fy_sampler_params out = p.params;
    out.bias = NULL;
    fy_gen_params_release(&p);
    return out;
}

static void refused(const char *line, const char *says)
{
    char buf[512];
    options o;
    fy_gen_params p;
    fy_err e = {0};
    parse(line, &o, buf);
    assert_int_equal(fy_gen_params_of(&o.gen, NULL, NULL, false, 100, &p, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_null(p.bias);
    if (strstr(e.msg, says) == NULL)
        fail_msg("expected '%s' in '%s'", says, e.msg);
    fy_opts_release(rows, N_ROWS, &o);
}

static fy_bundle no_wishes(void)
{
    return (fy_bundle){.temperature = NAN,
                       .top_p = NAN,
                       .min_p = NAN,
                       .typical_p = NAN,
                       .top_k = -1,
                       .penalty_repeat = NAN,
                       .penalty_freq = NAN,
                       .penalty_present = NAN,
                       .penalty_last_n = INT64_MIN,
                       .seed = UINT64_MAX};
}

/* A file with these keys. */
static fy_gguf *model_with(const char *const *keys, const float *values, int n)
{
    small_vocab b = {0};
    static fy_str file; /* the reader's view; one model at a time */
    fy_err e = {0};
    for (int i = 0; i < n; i++) {
        if (strcmp(keys[i], "top_k") == 0 || strcmp(keys[i], "penalty_last_n") == 0) {
            char key[64];
            int32_t v = (int32_t)values[i];
            snprintf(key, sizeof key, "general.sampling.%s", keys[i]);
            small_key(&b, key, FY_KV_I32);
            small_put(&b.keys, &v, sizeof v);
            continue;
        }
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", keys[i]);
        small_key(&b, key, FY_KV_F32);
        small_put(&b.keys, &values[i], sizeof values[i]);
    }
    fy_str_release(&file);
    file = (fy_str){0};
    small_file(&b, &file);
    fy_str_release(&b.keys);
    fy_gguf *g = fy_gguf_parse(file.ptr, file.len, "m.gguf", false, &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    return g;
}

static fy_gguf *recommending_model(void)
{
    return model_with((const char *const[]){"temp", "top_k", "top_p", "min_p", "typical_p",
                                            "penalty_repeat", "penalty_last_n"},
                      (const float[]){0.7f, 20, 0.8f, 0.02f, 0.9f, 1.05f, -1}, 7);
}

static void same_params(fy_sampler_params a, fy_sampler_params b)
{
    assert_true(a.temperature == b.temperature && a.top_k == b.top_k && a.top_p == b.top_p &&
                a.min_p == b.min_p && a.typical_p == b.typical_p);
    assert_true(a.repeat_penalty == b.repeat_penalty && a.repeat_last_n == b.repeat_last_n &&
                a.presence_penalty == b.presence_penalty &&
                a.frequency_penalty == b.frequency_penalty);
}

/* --- precedence ------------------------------------------------------------------------------- */

static void without_any_source_the_defaults_hold(void **state)
{
    (void)state;
    fy_sampler_params p = params_of("", NULL, NULL, false);
    same_params(p, fy_sampler_defaults());
    logged("3 temp 0.8 (default)\n");
    logged("3 top-k 40 (default)\n");
    logged("3 repeat-last-n 64 (default)\n");
    logged("3 samplers penalties;top_k;typ_p;top_p;min_p;temperature (default)\n");
    fy_bundle b = no_wishes();
    same_params(params_of("", &b, NULL, false), fy_sampler_defaults());
}

static void each_value_has_the_first_source_that_gives_it(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *name;
        double values[4]; /* flag, hparams.json, model, default */
    } cases[] = {
        {"--temp 0.3", "temp", {0.3, 0.4, 0.7, 0.8}},
        {"--top-k 7", "top-k", {7, 9, 20, 40}},
        {"--top-p 0.5", "top-p", {0.5, 0.6, 0.8, 0.95}},
        {"--min-p 0.2", "min-p", {0.2, 0.1, 0.02, 0.05}},
        {"--typical 0.4", "typical", {0.4, 0.5, 0.9, 1}},
        {"--repeat-penalty 1.4", "repeat-penalty", {1.4, 1.2, 1.05, 1}},
        {"--repeat-last-n 32", "repeat-last-n", {32, 128, -1, 64}},
        {"--presence-penalty 0.5", "presence-penalty", {0.5, 0.25, 0, 0}},
        {"--frequency-penalty -0.5", "frequency-penalty", {-0.5, 0.75, 0, 0}},
    };
    static const char *const sources[] = {"command line", "hparams.json", "generation_config",
                                          "default"};
    fy_bundle b = no_wishes();
    b.temperature = 0.4;
    b.top_k = 9;
    b.top_p = 0.6;
    b.min_p = 0.1;
    b.typical_p = 0.5;
    b.penalty_repeat = 1.2;
    b.penalty_last_n = 128;
    b.penalty_present = 0.25;
    b.penalty_freq = 0.75;
    for (int first = 0; first < 4; first++) { /* the sources before it are silent */
        fy_gguf *g = recommending_model();
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            params_of(first == 0 ? cases[i].flag : "", first <= 1 ? &b : NULL,
                      first <= 2 ? g : NULL, false);
            bool no_key = first == 2 && i >= 7; /* the standard has none for these two */
            char line[96];
            snprintf(line, sizeof line, "%s %g (%s)\n", cases[i].name, cases[i].values[first],
                     sources[no_key ? 3 : first]);
            logged(line);
        }
        fy_gguf_close(g);
    }
}

static void values_arrive_in_the_parameters(void **state)
{
    (void)state;
    fy_sampler_params p = params_of("--temp 0.3 --top-k 7 --top-p 0.5 --min-p 0.2 --typical 0.4 "
                                    "--repeat-penalty 1.5 --repeat-last-n -1 --presence-penalty "
                                    "0.5 --frequency-penalty -0.5 --samplers kt --seed 77",
                                    NULL, NULL, true);
    fy_sampler_params want = {.temperature = 0.3f,
                              .top_k = 7,
                              .top_p = 0.5f,
                              .min_p = 0.2f,
                              .typical_p = 0.4f,
                              .repeat_penalty = 1.5f,
                              .repeat_last_n = -1,
                              .presence_penalty = 0.5f,
                              .frequency_penalty = -0.5f};
    same_params(p, want);
    assert_int_equal(p.n_order, 2);
    assert_int_equal(p.order[0], FY_SAMPLE_TOP_K);
    assert_int_equal(p.order[1], FY_SAMPLE_TEMPERATURE);
    assert_int_equal(p.seed, 77);
    logged("samplers top_k;temperature (command line)\n");
}

/* --- greedy ----------------------------------------------------------------------------------- */

static void run_is_greedy_until_something_says_how_to_draw(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        double temperature;
    } cases[] = {{"", 0},
                 {"--repeat-penalty 1.5", 0},
                 {"--presence-penalty 1 --frequency-penalty 1 --repeat-last-n 5", 0},
                 {"--logit-bias 1-2", 0},
                 {"--temp 0", 0},
                 {"--temp 0.5", 0.5},
                 {"--top-k 5", 0.7},
                 {"--top-p 0.5", 0.7},
                 {"--min-p 0.5", 0.7},
                 {"--typical 0.5", 0.7},
                 {"--samplers t", 0.7},
                 {"--seed 1", 0.7},
                 {"--seed -1", 0.7}};
    fy_gguf *g = recommending_model();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_sampler_params p = params_of(cases[i].line, NULL, g, true);
        assert_true(p.temperature == (float)cases[i].temperature);
    }
    fy_sampler_params p = params_of("", NULL, g, true);
    assert_true(p.repeat_penalty == 1 && p.repeat_last_n == 64); /* the model was not asked */
    logged("3 temp 0 (default)\n");
    p = params_of("--repeat-penalty 1.5", NULL, g, true);
    assert_true(p.repeat_penalty == 1.5f);
    assert_true(params_of("", NULL, g, false).temperature == 0.7f);
    fy_gguf_close(g);
}

static void a_workspace_may_ask_run_to_draw(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        fy_bundle b = no_wishes();
        b.temperature = i == 0 ? 0.5 : NAN;
        b.top_p = i == 1 ? 0.5 : NAN;
        b.min_p = i == 2 ? 0.5 : NAN;
        b.typical_p = i == 3 ? 0.5 : NAN;
        b.top_k = i == 4 ? 2 : -1;
        assert_true(params_of("", &b, NULL, true).temperature == (i == 0 ? 0.5f : 0.8f));
    }
    fy_bundle b = no_wishes();
    b.penalty_repeat = 1.3;
    fy_sampler_params p = params_of("", &b, NULL, true);
    assert_true(p.temperature == 0 && p.repeat_penalty == 1.3f);
}

/* What create writes for a model that recommends something, and for one that does not. */
static void a_copy_of_the_models_values_leaves_run_greedy(void **state)
{
    (void)state;
    fy_gguf *g = model_with((const char *const[]){"temp", "top_k", "penalty_repeat"},
                            (const float[]){0.7f, 0, 1.1f}, 3);
    fy_bundle b = no_wishes();
    b.temperature = 0.7;
    b.top_k = INT32_MAX;
    b.penalty_repeat = 1.1;
    fy_sampler_params p = params_of("", &b, g, true);
    assert_true(p.temperature == 0 && p.repeat_penalty == 1);
    p = params_of("", &b, g, false);
    assert_true(p.temperature == 0.7f && p.top_k == 0 && p.repeat_penalty == 1.1f);
    logged("temp 0.7 (hparams.json)\n");
    b.temperature = 0.6;
    p = params_of("", &b, g, true);
    assert_true(p.temperature == 0.6f && p.repeat_penalty == 1.1f);
    fy_gguf_close(g);
}

static void powerserves_top_k_1_says_nothing_about_drawing(void **state)
{
    (void)state;
    fy_gguf *g = recommending_model();
    fy_bundle b = no_wishes();
    b.temperature = 1;
    b.top_p = 1;
    b.top_k = 1;
    b.penalty_last_n = 64;
    b.penalty_repeat = 1;
    b.penalty_freq = b.penalty_present = 0;
    b.seed = 0;
    assert_true(params_of("", &b, NULL, true).temperature == 0);
    assert_true(params_of("", &b, g, true).temperature == 0);
    fy_sampler_params p = params_of("", &b, g, false);
    assert_true(p.temperature == 0.7f && p.top_k == 20 && p.top_p == 0.8f);
    assert_true(p.repeat_penalty == 1 && p.repeat_last_n == 64);
    logged("2 seed ");
    p = params_of("--temp 0.9 --seed 5", &b, NULL, true);
    assert_true(p.temperature == 0.9f && p.top_k == 40 && p.top_p == 0.95f && p.seed == 5);
    b.temperature = 0; /* only ferry takes it: a wish */
    assert_true(params_of("", &b, g, false).temperature == 0);
    fy_gguf_close(g);
}

static void a_model_may_ask_for_greedy_answers(void **state)
{
    (void)state;
    fy_gguf *g = model_with((const char *const[]){"temp", "top_p"}, (const float[]){0, 0.5f}, 2);
    assert_true(params_of("", NULL, g, false).temperature == 0);
    fy_sampler_params p = params_of("--temp 1", NULL, g, false);
    assert_true(p.temperature == 1 && p.top_p == 0.5f);
    fy_gguf_close(g);
}

static void recommendations_that_cannot_be_used_are_passed_over(void **state)
{
    (void)state;
    fy_gguf *g =
        model_with((const char *const[]){"temp", "top_k", "top_p", "min_p", "penalty_repeat"},
                   (const float[]){NAN, -5, 1.5f, -INFINITY, 0}, 5);
    same_params(params_of("", NULL, g, false), fy_sampler_defaults());
    logged("1 general.sampling.temp: ");
    logged("1 general.sampling.top_k: ");
    logged("1 general.sampling.penalty_repeat: ");
    fy_gguf_close(g);
    small_vocab b = {0};
    fy_str file = {0};
    small_str(&b, "general.sampling.temp", "hot");
    small_bool(&b, "general.sampling.top_p", true);
    small_file(&b, &file);
    g = fy_gguf_parse(file.ptr, file.len, "m.gguf", false, NULL);
    assert_non_null(g);
    same_params(params_of("", NULL, g, false), fy_sampler_defaults());
    fy_gguf_close(g);
    fy_str_release(&file);
    fy_str_release(&b.keys);
}

/* --- seed and bias ---------------------------------------------------------------------------- */

static void seeds_are_whole_64_bit_numbers(void **state)
{
    (void)state;
    fy_bundle b = no_wishes();
    assert_true(params_of("--seed 0", NULL, NULL, true).seed == 0);
    assert_true(params_of("--seed 9007199254740993", NULL, NULL, true).seed == 9007199254740993u);
    assert_true(params_of("--seed 18446744073709551615", NULL, NULL, true).seed == UINT64_MAX);
    b.temperature = 0.5;
    b.seed = ((uint64_t)1 << 63) + 1;
    assert_true(params_of("", &b, NULL, true).seed == b.seed);
    logged("3 seed 9223372036854775809 (hparams.json)\n");
    assert_true(params_of("--seed 4", &b, NULL, true).seed == 4);
    logged("3 seed 4 (command line)\n");
    params_of("--seed -1", &b, NULL, true);
    logged("2 seed ");
    uint64_t drawn = params_of("", NULL, NULL, false).seed;
    bool other = false;
    for (int i = 0; i < 5; i++)
        other |= params_of("", NULL, NULL, false).seed != drawn;
    assert_true(other);
    static const char *const bad[] = {"-2", "18446744073709551616", "1.5", "x", "0x10", "+1", "1,"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[64];
        snprintf(line, sizeof line, "--seed %s", bad[i]);
        refused(line, "--seed: '");
    }
}

static void biases_are_an_id_and_a_number(void **state)
{
    (void)state;
    char buf[256];
    options o;
    fy_gen_params p;
    parse("--logit-bias 15+2.5 --logit-bias 99-1 --logit-bias 0=-inf --logit-bias 3=.5 "
          "--logit-bias 4-inf",
          &o, buf);
    assert_int_equal(fy_gen_params_of(&o.gen, NULL, NULL, true, 100, &p, NULL), 0);
    const fy_logit_bias want[] = {{15, 2.5f}, {99, -1}, {0, -INFINITY}, {3, 0.5f}, {4, -INFINITY}};
    assert_int_equal(p.params.n_bias, 5);
    assert_ptr_equal(p.params.bias, p.bias);
    for (int i = 0; i < 5; i++)
        assert_true(p.bias[i].id == want[i].id && p.bias[i].bias == want[i].bias);
    fy_gen_params_release(&p);
    fy_opts_release(rows, N_ROWS, &o);
    static const char *const bad[] = {"15",     "15+",    "+2",    "15+x", "15+2x",
                                      "15=nan", "15+inf", "x+1",   "15*2", "15+1e9",
                                      "15-1e9", "=1",     "1,2+3", "-1+2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[64];
        snprintf(line, sizeof line, "--logit-bias=%s", bad[i]);
        refused(line, "expected an id and a number");
    }
    refused("--logit-bias 100+1", "below 100");
    refused("--logit-bias 99999999999999999999999+1", "below 100");
    refused("--samplers top_k;typo", "--samplers: 'typo'");
}

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    char buf[64];
    options o;
    parse("--logit-bias 15+2.5", &o, buf);
    fy_log_set(NULL, NULL);
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_gen_params p;
        fy_err e = {0};
        alloc_fail_after(n);
        int rc = fy_gen_params_of(&o.gen, NULL, NULL, true, 100, &p, &e);
        failed = alloc_fail_end();
        assert_true(rc == 0 || (failed && e.code == FY_ENOMEM));
        fy_gen_params_release(&p);
        assert_true(n < 20);
    }
    fy_opts_release(rows, N_ROWS, &o);
}

#define TEST(f) cmocka_unit_test_setup(f, forget)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_any_source_the_defaults_hold),
        TEST(each_value_has_the_first_source_that_gives_it),
        TEST(values_arrive_in_the_parameters),
        TEST(run_is_greedy_until_something_says_how_to_draw),
        TEST(a_workspace_may_ask_run_to_draw),
        TEST(a_copy_of_the_models_values_leaves_run_greedy),
        TEST(powerserves_top_k_1_says_nothing_about_drawing),
        TEST(a_model_may_ask_for_greedy_answers),
        TEST(recommendations_that_cannot_be_used_are_passed_over),
        TEST(seeds_are_whole_64_bit_numbers),
        TEST(biases_are_an_id_and_a_number),
        TEST(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
