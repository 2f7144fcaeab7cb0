#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/workspace/ws_fixture.h"

#include "tests/unit/workspace/qnn_fixture.h"

/* --- against model.json ----------------------------------------------------------------------- */

static void compared(const char *text, const fy_model_json *m, const char *says)
{
    fy_err e = {0};
    fy_qnn_config c;
    if (fy_qnn_config_parse(text, strlen(text), &c, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(fy_qnn_config_compare(&c, m, &e), says == NULL ? 0 : -1);
    if (says != NULL) {
        assert_int_equal(e.code, FY_EVERIFY);
        assert_says(&e, says);
    }
    fy_qnn_config_release(&c);
}

static void a_configuration_agrees_with_its_model(void **state)
{
    (void)state;
    static const char plain[] = "{\"model_parameters\": {\"attention_mask_value\": -1e5}, "
                                "\"qnn_parameters\": {\"n_hvx_threads\": 4}, " QNN_GRAPHS "}";
    fy_model_json m = qnn_model(), three = m;
    compared(QNN_CONFIG, &m, NULL);
    compared(plain, &m, NULL); /* embeddings and dimensions may be absent */
    three.n_layers = 3;
    compared(plain, &three, "graphs cover 2, model.json says n_layers 3");
    compared(QNN_CUT, &three, NULL);
    three.vocab_size = 47;
    compared(QNN_CUT, &three, "embeddings cover 48, model.json says vocab_size 47");
}

/* --- files ------------------------------------------------------------------------------------ */

static void make_package(const char *dir)
{
    static const char zeros[11 * 16 * 4];
    char path[64];
    fy_err e = {0};
    snprintf(path, sizeof path, "%s/kv", dir);
    assert_int_equal(fy_mkdirs(at(path), &e), 0);
    static const char *const names[] = {"m_0.bin", "m_1.bin", "lm_head.bin"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        put_text(at(path), "binary");
    }
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/kv/layer_%d_%s_0.raw", dir, i / 2, i % 2 ? "value" : "key");
        put_file(at(path), zeros, sizeof zeros);
    }
    snprintf(path, sizeof path, "%s/config.json", dir);
    put_text(at(path), QNN_CONFIG);
}

static void check_says(const fy_model_json *m, fy_code code, const char *says)
{
    fy_err e = {0};
    int rc = fy_qnn_check_dir(at("qnn"), m, NULL, &e);
    if (says == NULL && rc != 0)
        fail_msg("%s", e.msg);
    if (says != NULL) {
        assert_int_equal(rc, -1);
        assert_says(&e, says);
        assert_int_equal(e.code, code);
    }
}

static void a_package_is_whole_or_says_what_is_missing(void **state)
{
    (void)state;
    fy_model_json m = qnn_model(), other = m;
    fy_qnn_config c;
    make_package("qnn");
    check_says(&m, FY_OK, NULL);
    assert_int_equal(fy_qnn_check_dir(at("qnn"), &m, &c, NULL), 0);
    assert_int_equal(c.n_layers, 2);
    fy_qnn_config_release(&c);
    other.n_layers = 3;
    check_says(&other, FY_EVERIFY, "graphs cover 2, model.json says n_layers 3");
    other = m;
    other.vocab_size = 49;
    check_says(&other, FY_EVERIFY, "vocab_size is 48, model.json says vocab_size 49");
    put_text(at("qnn/kv/layer_1_value_0.raw"), "short");
    check_says(&m, FY_EVERIFY, "kv/layer_1_value_0.raw: 5 bytes, expected 704");
    assert_int_equal(unlink(at("qnn/kv/layer_1_value_0.raw")), 0);
    check_says(&m, FY_EVERIFY, "kv/layer_1_value_0.raw: missing");
    put_text(at("qnn/lm_head.bin"), "");
    check_says(&m, FY_EVERIFY, "lm_head.bin: is empty");
    assert_int_equal(unlink(at("qnn/lm_head.bin")), 0);
    assert_int_equal(mkdir(at("qnn/lm_head.bin"), 0755), 0);
    check_says(&m, FY_EVERIFY, "lm_head.bin: is not a regular file");
    put_text(at("qnn/config.json"), "{}");
    check_says(&m, FY_EFORMAT, "config.json: lacks");
    assert_int_equal(unlink(at("qnn/config.json")), 0);
    check_says(&m, FY_EFORMAT, "config.json: missing");
}

typedef struct {
    size_t n;
    uint64_t bytes;
} counted;

static int count(void *user, const char *rel, uint64_t bytes, fy_err *e)
{
    (void)e;
    counted *c = user;
    c->n++;
    c->bytes += bytes != FY_QNN_ANY_BYTES ? bytes : 0;
    assert_true(rel[0] != '/');
    return 0;
}

static void every_file_is_named_once(void **state)
{
    (void)state;
    fy_qnn_config c;
    fy_model_json m = qnn_model();
    counted n = {0};
    assert_int_equal(fy_qnn_config_parse(QNN_CONFIG, strlen(QNN_CONFIG), &c, NULL), 0);
    assert_int_equal(fy_qnn_config_files(&c, &m, count, &n, NULL), 0);
    assert_int_equal(n.n, 3 + 4);
    assert_int_equal(n.bytes, 4 * 11 * 16 * 4);
    m.n_attn_kv_heads = INT64_MAX;
    assert_int_equal(fy_qnn_config_files(&c, &m, count, &n, NULL), -1);
    fy_qnn_config_release(&c);
}

/* PowerServe's runtime opens the files of a preset of no tokens; ours has none. */
static void chunks_of_ours_need_no_preset(void **state)
{
    (void)state;
    fy_qnn_config c;
    fy_model_json m = qnn_model();
    counted n = {0};
    m.n_layers = 3;
    assert_int_equal(fy_qnn_config_parse(QNN_CUT, strlen(QNN_CUT), &c, NULL), 0);
    assert_int_equal(fy_qnn_config_files(&c, &m, count, &n, NULL), 0);
    assert_int_equal(n.n, 4);
    free(c.graph[3].model_path);
    c.graph[3].model_path = strdup("chunk_1.bin");
    n = (counted){0};
    assert_int_equal(fy_qnn_config_files(&c, &m, count, &n, NULL), 0);
    assert_int_equal(n.n, 5 + 2 * 3);
    assert_int_equal(n.bytes, 0);
    fy_qnn_config_release(&c);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_configuration_agrees_with_its_model),
        TEST(a_package_is_whole_or_says_what_is_missing),
        TEST(every_file_is_named_once),
        TEST(chunks_of_ours_need_no_preset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
