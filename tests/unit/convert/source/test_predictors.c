/* PowerInfer's predictors beside a checkpoint: their names and shapes, their threshold, and what is
 * none of them, or of another model, by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convert/source/predictors.h"

#define MODEL  "tests/data/relu"
#define GIVEN  "tests/data/sparse/relu/predictor"
#define OTHERS "tests/data/sparse/opt/predictor"

static fy_ckpt *ckpt;
static fy_hf_config config;
static char dir[] = "/tmp/predictors-XXXXXX";

static int begin(void **state)
{
    (void)state;
    fy_err e = {0};
    ckpt = fy_ckpt_open_model(MODEL, &config, &e);
    return ckpt != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    fy_ckpt_close(ckpt);
    fy_hf_config_release(&config);
    return 0;
}

static void put(const char *name, const char *from, const char *text)
{
    char command[256];
    int rc;
    if (from != NULL) {
        snprintf(command, sizeof command, "cp -f %s %s/%s", from, dir, name);
        rc = system(command);
    } else {
        snprintf(command, sizeof command, "%s/%s", dir, name);
        FILE *f = fopen(command, "w");
        assert_non_null(f);
        rc = fputs(text, f) < 0 || fclose(f) != 0;
    }
    assert_int_equal(rc, 0);
}

static void refused(const char *from, fy_code code, const char *words)
{
    fy_err e = {0};
    assert_int_equal(fy_ckpt_add_predictors(ckpt, from, &config.hp, &e), -1);
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.msg, words));
}

static void check(const char *name, uint64_t rows, uint64_t cols)
{
    const fy_ckpt_tensor *t = fy_ckpt_find(ckpt, fy_span_of(name));
    assert_non_null(t);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], rows);
    assert_int_equal(t->shape[1], cols);
}

static void each_layer_has_the_two_matrices_of_its_file(void **state)
{
    (void)state;
    static const uint64_t ranks[] = {20, 28, 24, 32};
    fy_err e = {0};
    const size_t n = fy_ckpt_n_tensors(ckpt);
    assert_int_equal(fy_ckpt_add_predictors(ckpt, GIVEN, &config.hp, &e), 0);
    assert_int_equal(fy_ckpt_n_tensors(ckpt), n + 8);
    for (unsigned i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "blk.%u.fc1.weight", i);
        check(name, ranks[i], 256);
        snprintf(name, sizeof name, "blk.%u.fc2.weight", i);
        check(name, 1024, ranks[i]);
    }
    refused(GIVEN, FY_EFORMAT, "the checkpoint has 'blk.0.fc1.weight' already");
}

static void the_threshold_may_be_given(void **state)
{
    (void)state;
    fy_err e = {0};
    float t = 7;
    assert_int_equal(fy_predictor_threshold(GIVEN, &t, &e), 0);
    assert_true(t == -1);
    assert_int_equal(fy_predictor_threshold("tests/data/sparse", &t, &e), 1);
    put("config.json", NULL, "{}");
    assert_int_equal(fy_predictor_threshold(dir, &t, &e), 1);
    put("config.json", NULL, "{\"sparse_threshold\": \"low\"}");
    assert_int_equal(fy_predictor_threshold(dir, &t, &e), -1);
    assert_non_null(strstr(e.msg, "config.json: sparse_threshold is \"low\""));
    e = (fy_err){0};
    put("config.json", NULL, "{");
    assert_int_equal(fy_predictor_threshold(dir, &t, &e), -1);
    assert_true(t == -1);
}

static void others_are_refused(void **state)
{
    (void)state;
    refused("tests/data/nosuch", FY_EIO, "tests/data/nosuch");
    refused(OTHERS, FY_EFORMAT,
            OTHERS ": has 2 predictors (*.pt), expected one for each of the model's 4 layers");
    put("model_0.pt", GIVEN "/model_0.pt", NULL);
    put("model_1.pt", GIVEN "/model_1.pt", NULL);
    put("model_2.pt", OTHERS "/model_1.pt", NULL);
    put("model_4.pt", GIVEN "/model_3.pt", NULL);
    refused(dir, FY_EFORMAT,
            "model_2.pt: 'fc1.weight' has shape [24, 64], expected [rank, 256], the width of the "
            "model");
}

static void a_file_that_is_none_is_named(void **state)
{
    (void)state;
    put("model_0.pt", NULL, "text");
    refused(dir, FY_EFORMAT, "model_0.pt: ");
    put("model_0.pt", "tests/data/rwkv/v7/rwkv.pth", NULL);
    refused(dir, FY_EFORMAT, "model_0.pt: no 'fc1.weight' in it: not a predictor");
}

static void another_number_of_neurons_is_refused(void **state)
{
    (void)state;
    config.hp.n_ff = 1000;
    refused(GIVEN, FY_EFORMAT,
            "model_0.pt: 'fc2.weight' has shape [1024, 20], expected [1000, 20], the neurons of "
            "the layer and fc1's rows");
}

/* --- among the weights ------------------------------------------------------------------------ */

/* A checkpoint of one layer with a predictor of rank 2 for 4 neurons of a model of that width. */
static fy_ckpt *own(unsigned width, const char *second)
{
    char text[400];
    uint8_t size[8] = {0};
    fy_err e = {0};
    const unsigned fc1 = 2 * width * 2;
    const int n = snprintf(
        text, sizeof text,
        "{\"model.layers.0.mlp.predictor.fc1.weight\": {\"dtype\": \"F16\", \"shape\": [2, %u], "
        "\"data_offsets\": [0, %u]}, \"%s\": {\"dtype\": \"F16\", \"shape\": [4, 2], "
        "\"data_offsets\": [%u, %u]}}",
        width, fc1, second, fc1, fc1 + 16);
    assert_true(n > 0 && (size_t)n < sizeof text);
    size[0] = (uint8_t)n;
    size[1] = (uint8_t)(n >> 8);
    char path[64];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(size, 1, sizeof size, f), sizeof size);
    assert_int_equal(fputs(text, f) < 0, 0);
    for (unsigned i = 0; i < fc1 + 16; i++)
        assert_int_equal(fputc(0, f), 0);
    assert_int_equal(fclose(f), 0);
    fy_ckpt *c = fy_ckpt_open(dir, &e);
    assert_non_null(c);
    return c;
}

static void those_among_the_weights_change_their_names(void **state)
{
    (void)state;
    const fy_hparams hp = {.n_layer = 1, .n_embd = 8, .n_ff = 4};
    fy_err e = {0};
    ckpt = own(8, "model.layers.0.mlp.predictor.fc2.weight");
    assert_int_equal(fy_ckpt_own_predictors(ckpt, &hp, &e), 0);
    assert_int_equal(fy_ckpt_n_tensors(ckpt), 2);
    check("blk.0.fc1.weight", 2, 8);
    check("blk.0.fc2.weight", 4, 2);
    assert_int_equal(fy_ckpt_own_predictors(ckpt, &hp, &e), -1);
    assert_non_null(strstr(e.msg, "the checkpoint has 'blk.0.fc1.weight' already"));
    fy_ckpt_close(ckpt);
}

static void others_among_the_weights_are_refused(void **state)
{
    (void)state;
    fy_hparams hp = {.n_layer = 2, .n_embd = 8, .n_ff = 4};
    fy_err e = {0};
    ckpt = own(8, "model.layers.0.mlp.predictor.fc2.weight");
    assert_int_equal(fy_ckpt_own_predictors(ckpt, &hp, &e), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    assert_non_null(
        strstr(e.msg, "no 'model.layers.1.mlp.predictor.fc1.weight' among the weights"));
    fy_ckpt_close(ckpt);

    hp.n_layer = 1;
    e = (fy_err){0};
    ckpt = own(6, "model.layers.0.mlp.predictor.fc2.weight");
    assert_int_equal(fy_ckpt_own_predictors(ckpt, &hp, &e), -1);
    assert_non_null(strstr(e.msg, "'model.layers.0.mlp.predictor.fc1.weight' has shape [2, 6], "
                                  "expected [rank, 8], the width of the model"));
    fy_ckpt_close(ckpt);

    e = (fy_err){0};
    ckpt = own(8, "blk.0.fc1.weight");
    assert_int_equal(fy_ckpt_own_predictors(ckpt, &hp, &e), -1);
    assert_non_null(strstr(e.msg, "no 'model.layers.0.mlp.predictor.fc2.weight'"));
    fy_ckpt_close(ckpt);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_layer_has_the_two_matrices_of_its_file, begin, end),
        cmocka_unit_test_setup_teardown(the_threshold_may_be_given, begin, end),
        cmocka_unit_test_setup_teardown(others_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_file_that_is_none_is_named, begin, end),
        cmocka_unit_test_setup_teardown(another_number_of_neurons_is_refused, begin, end),
        cmocka_unit_test(those_among_the_weights_change_their_names),
        cmocka_unit_test(others_among_the_weights_are_refused),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
