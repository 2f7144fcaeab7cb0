#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/pack/manifest.h"

/* Replaces a file of the workspace and its line of the manifest. */
static void replace(const char *dir, const char *rel, const char *text)
{
    fy_err e = {0};
    fy_manifest m;
    fy_str s = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, rel);
    put_text(path, text);
    assert_int_equal(fy_manifest_read(dir, &m, &e), 0);
    for (size_t i = 0; i < m.n; i++) {
        if (strcmp(m.entry[i].path, rel) == 0) {
            m.entry[i].bytes = strlen(text);
            assert_int_equal(fy_sha256_of(text, strlen(text), m.entry[i].sha256, &e), 0);
        }
    }
    assert_int_equal(fy_manifest_text(&m, &s, &e), 0);
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    put_file(path, s.ptr, s.len);
    fy_str_release(&s);
    fy_manifest_release(&m);
}

static void refused(const char *dir, fy_code code, const char *says)
{
    fy_err e = {0};
    fy_bundle b;
    assert_int_equal(fy_bundle_open(dir, &b, &e), -1);
    assert_int_equal(e.code, code);
    assert_says(&e, says);
}

static void a_workspace_opens_with_its_model_and_defaults(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    fy_err e = {0};
    fy_bundle b;
    if (fy_bundle_open(at("ws"), &b, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(b.model_main, "tiny");
    assert_null(b.model_draft);
    assert_string_equal(b.weights, at("ws/tiny/ggml/weights.gguf"));
    assert_int_equal(b.n_threads, 4);
    assert_int_equal(b.batch_size, 128);
    assert_true(b.temperature == 1.0 && b.top_p == 1.0);
    assert_int_equal(b.top_k, 1);
    assert_true(b.seed == UINT64_MAX);
    fy_bundle_release(&b);
}

static void a_directory_without_a_manifest_is_no_workspace(void **state)
{
    (void)state;
    refused(at("nowhere"), FY_EARG, "does not exist");
    refused(tmp, FY_EFORMAT, "expected a workspace made by");
    put_text(at("file"), "x");
    refused(at("file"), FY_EARG, "is not a directory");
}

static void a_file_that_is_missing_or_cut_is_named_with_both_sizes(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    assert_int_equal(truncate(at("ws/tiny/ggml/weights.gguf"), 100), 0);
    refused(at("ws"), FY_EVERIFY, "tiny/ggml/weights.gguf: 100 bytes, the manifest lists");
    assert_int_equal(unlink(at("ws/tiny/ggml/weights.gguf")), 0);
    refused(at("ws"), FY_EVERIFY, "tiny/ggml/weights.gguf: missing");
    assert_int_equal(symlink(at("tiny.gguf"), at("ws/tiny/ggml/weights.gguf")), 0);
    refused(at("ws"), FY_EVERIFY, "is a symbolic link");
}

static void a_changed_byte_in_a_small_json_file_is_found(void **state)
{
    (void)state;
    static const char *const names[] = {"ws/workspace.json", "ws/hparams.json",
                                        "ws/tiny/model.json"};
    ws_make("ws", &(tiny_model){.name = "tiny"});
    for (size_t i = 0; i < 3; i++) {
        flip_byte(at(names[i]), 20);
        refused(at("ws"), FY_EVERIFY, names[i]);
        flip_byte(at(names[i]), 20);
    }
    fy_bundle b;
    assert_int_equal(fy_bundle_open(at("ws"), &b, NULL), 0);
    fy_bundle_release(&b);
}

static void names_in_workspace_json_cannot_leave_the_workspace(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    replace(at("ws"), "workspace.json", "{\"model_main\": \"../ws/tiny\"}");
    refused(at("ws"), FY_EFORMAT, "expected a plain name");
    replace(at("ws"), "workspace.json",
            "{\"model_main\": \"tiny\", \"hparams_config\": \"/etc/passwd\"}");
    refused(at("ws"), FY_EFORMAT, "expected a plain name");
    replace(at("ws"), "workspace.json", "{\"model_main\": \"other\"}");
    refused(at("ws"), FY_EFORMAT, "does not list other/model.json");
    replace(at("ws"), "workspace.json", "{\"model_main\": \"\"}");
    refused(at("ws"), FY_EFORMAT, "lacks 'model_main'");
    replace(at("ws"), "workspace.json", "{\"model_main\": \"tiny\", \"model_draft\": \"none\"}");
    refused(at("ws"), FY_EFORMAT, "does not list none/model.json");
}

static void hparams_may_be_partial_and_must_be_sane(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    fy_bundle b;
    fy_err e = {0};
    replace(at("ws"), "hparams.json",
            "{\"n_threads\": 2, \"sampler\": {\"temperature\": 0.5, \"new\": {}}}");
    if (fy_bundle_open(at("ws"), &b, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(b.n_threads, 2);
    assert_int_equal(b.batch_size, -1);
    assert_true(b.temperature == 0.5 && isnan(b.top_p));
    assert_int_equal(b.top_k, -1);
    assert_true(b.seed == UINT64_MAX);
    fy_bundle_release(&b);
    static const char *const bad[] = {"{\"n_threads\": 0}",
                                      "{\"n_threads\": \"4\"}",
                                      "{\"batch_size\": -1}",
                                      "{\"sampler\": {\"top_p\": 1.5}}",
                                      "{\"sampler\": {\"temperature\": -1}}",
                                      "{\"sampler\": {\"temperature\": \"1\"}}",
                                      "{\"sampler\": {\"top_k\": -2}}",
                                      "{\"sampler\": {\"top_k\": 1.5}}",
                                      "{\"sampler\": {\"min_p\": 2}}",
                                      "{\"sampler\": {\"typical_p\": -0.1}}",
                                      "{\"sampler\": {\"penalty_repeat\": 0}}",
                                      "{\"sampler\": {\"penalty_freq\": 1e9}}",
                                      "{\"sampler\": {\"penalty_present\": null}}",
                                      "{\"sampler\": {\"penalty_last_n\": -2}}",
                                      "{\"sampler\": {\"penalty_last_n\": 4294967296}}",
                                      "{\"sampler\": {\"seed\": 18446744073709551616}}",
                                      "{\"sampler\": {\"seed\": -1.5}}",
                                      "{\"sampler\": {\"seed\": []}}",
                                      "{\"sampler\": {\"seed\":",
                                      "{\"sampler\": {\"seed\": -",
                                      "{\"sampler\": []}",
                                      "{",
                                      ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        replace(at("ws"), "hparams.json", bad[i]);
        refused(at("ws"), FY_EFORMAT, "hparams.json");
    }
    replace(at("ws"), "workspace.json", "{\"model_main\": \"tiny\"}");
    assert_int_equal(fy_bundle_open(at("ws"), &b, NULL), 0);
    assert_int_equal(b.n_threads, -1);
    fy_bundle_release(&b);
}

static void every_sampler_field_is_read(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    fy_bundle b;
    replace(at("ws"), "hparams.json",
            "{\"sampler\": {\"seed\": 18446744073709551614, \"temperature\": 0, \"top_p\": 1, "
            "\"top_k\": 2147483647, \"min_p\": 0.125, \"typical_p\": 0.5, \"min_keep\": 0, "
            "\"penalty_last_n\": 64, \"penalty_repeat\": 1.25, \"penalty_freq\": -0.5, "
            "\"penalty_present\": 0.25, \"penalize_nl\": false, \"ignore_eos\": false}}");
    assert_int_equal(fy_bundle_open(at("ws"), &b, NULL), 0);
    assert_true(b.seed == UINT64_MAX - 1);
    assert_true(b.temperature == 0 && b.top_p == 1 && b.min_p == 0.125 && b.typical_p == 0.5);
    assert_int_equal(b.top_k, INT32_MAX);
    assert_int_equal(b.penalty_last_n, 64);
    assert_true(b.penalty_repeat == 1.25 && b.penalty_freq == -0.5 && b.penalty_present == 0.25);
    fy_bundle_release(&b);
    replace(at("ws"), "hparams.json", "{\"sampler\": {}}");
    assert_int_equal(fy_bundle_open(at("ws"), &b, NULL), 0);
    assert_true(isnan(b.temperature) && isnan(b.top_p) && isnan(b.min_p) && isnan(b.typical_p));
    assert_true(isnan(b.penalty_repeat) && isnan(b.penalty_freq) && isnan(b.penalty_present));
    assert_true(b.top_k == -1 && b.penalty_last_n == INT64_MIN && b.seed == UINT64_MAX);
    fy_bundle_release(&b);
}

/* What other tools write for "all" and "a new one" does no harm. */
static void minus_one_is_all_or_a_new_seed(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    fy_bundle b;
    replace(at("ws"), "hparams.json",
            "{\"sampler\": {\"seed\" : -1 , \"top_k\": -1, \"penalty_last_n\": -1}}");
    assert_int_equal(fy_bundle_open(at("ws"), &b, NULL), 0);
    assert_true(b.seed == UINT64_MAX);
    assert_int_equal(b.top_k, 0);
    assert_int_equal(b.penalty_last_n, -1);
    fy_bundle_release(&b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_workspace_opens_with_its_model_and_defaults),
        TEST(a_directory_without_a_manifest_is_no_workspace),
        TEST(a_file_that_is_missing_or_cut_is_named_with_both_sizes),
        TEST(a_changed_byte_in_a_small_json_file_is_found),
        TEST(names_in_workspace_json_cannot_leave_the_workspace),
        TEST(hparams_may_be_partial_and_must_be_sane),
        TEST(every_sampler_field_is_read),
        TEST(minus_one_is_all_or_a_new_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
