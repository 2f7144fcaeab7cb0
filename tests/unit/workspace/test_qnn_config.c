#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/workspace/ws_fixture.h"

#include "tests/unit/workspace/qnn_fixture.h"

static void a_published_configuration_is_read(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_qnn_config c;
    fy_model_json m = qnn_model();
    if (fy_qnn_config_parse(QNN_CONFIG, strlen(QNN_CONFIG), &c, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(c.n_graphs, 4);
    assert_int_equal(c.n_embeddings, 2);
    assert_null(c.vision);
    assert_int_equal(c.n_layers, 2);
    assert_int_equal(c.max_batch, 128);
    assert_int_equal(c.cache_size, 1920);
    assert_int_equal(c.context_size, 2048);
    assert_int_equal(c.kv_size, 11);
    assert_int_equal(c.n_hvx_threads, 4);
    assert_true(c.attention_mask_value == -50000);
    assert_string_equal(c.graph[3].model_path, "m_1.bin");
    assert_string_equal(c.graph[3].graph_name, "batch_128");
    assert_string_equal(c.embedding[0].out_name, "logits");
    assert_int_equal(c.dims.head_dim, 16);
    assert_int_equal(fy_qnn_config_compare(&c, &m, &e), 0);
    fy_qnn_config_release(&c);
}

static void embeddings_and_dimensions_may_be_absent(void **state)
{
    (void)state;
    static const char text[] = "{\"model_parameters\": {\"attention_mask_value\": -1e5}, "
                               "\"qnn_parameters\": {\"n_hvx_threads\": 4}, " QNN_GRAPHS "}";
    fy_err e = {0};
    fy_qnn_config c;
    fy_model_json m = qnn_model();
    if (fy_qnn_config_parse(text, strlen(text), &c, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(c.n_embeddings, 0);
    assert_int_equal(c.dims.vocab_size, -1);
    assert_int_equal(fy_qnn_config_compare(&c, &m, &e), 0);
    fy_qnn_config_release(&c);
}

static const struct {
    const char *from, *to, *says;
} wrong[] = {
    {"\"attention_mask_value\": -50000.0", "\"x\": 1", "lacks 'model_parameters.attention_mask"},
    {"\"attention_mask_value\": -50000.0", "\"attention_mask_value\": \"-1\"", "model_parameters"},
    {"\"n_hvx_threads\": 4", "\"n_hvx_threads\": 0", "n_hvx_threads: 0, expected 1 to 64"},
    {"\"n_hvx_threads\": 4", "\"n\": 4", "lacks 'qnn_parameters.n_hvx_threads'"},
    {"\"graphs\"", "\"graph\"", "lacks 'graphs'"},
    {"\"graph_name\": \"batch_1\", ", "", "graphs: [0]: lacks 'graph_name'"},
    {"\"graph_name\": \"batch_1\"", "\"graph_name\": \"\"", "0 bytes of text"},
    {"\"graph_name\": \"batch_1\"", "\"graph_name\": \"a\\u0000b\"", "without NUL"},
    {"\"batch_size\": 1,", "\"batch_size\": -1,", "batch_size: -1, expected 1 to"},
    {"\"batch_size\": 1,", "\"batch_size\": 1.5,", "graphs: [0]: batch_size"},
    {"\"batch_size\": 1,", "\"batch_size\": 99999999999999999999,", "graphs: [0]: batch_size"},
    {"\"model_path\": \"m_0.bin\"", "\"model_path\": \"../m_0.bin\"", "expected a relative path"},
    {"\"model_path\": \"m_0.bin\"", "\"model_path\": \"/etc/passwd\"", "expected a relative path"},
    {"\"model_path\": \"m_0.bin\"", "\"model_path\": \"a//b\"", "expected a relative path"},
    {"{layer_id}_", "", "with {layer_id}, {kv_type} and {head_id}"},
    {"{layer_id}", "{layer_id:02}", "with {layer_id}, {kv_type} and {head_id}"},
    {"kv/layer", "../kv/layer", "expected a relative path"},
    {"{head_id}", "{head_id}{", "with {layer_id}, {kv_type} and {head_id}"},
    {"\"cache_size\": 1920", "\"cache_size\": 1900", "but the first graph has"},
    {"\"context_size\": 2048", "\"context_size\": 2047", "but the first graph has"},
    {"\"kv_size\": 11", "\"kv_size\": 12", "but the first graph has"},
    {"kv/layer", "kw/layer", "kv_path_format differs"},
    {"\"start_layer_id\": 0", "\"start_layer_id\": 1", "layers 1 to 1 of batch size 1"},
    {"\"end_layer_id\": 2", "\"end_layer_id\": 3", "batch size 1 covers 3 layers, batch size 128"},
    {"\"start_layer_id\": 1, \"end_layer_id\": 2", "\"start_layer_id\": 0, \"end_layer_id\": 1",
     "layers 0 to 1 of batch size 1, expected to begin at 1"},
    {"\"model_path\": \"m_1.bin\"", "\"model_path\": \"m_0.bin\"", "is there twice"},
    {"lm_head.bin\", \"batch_size\": 128", "lm_head.bin\", \"batch_size\": 12",
     "embeddings: none for batch size 128"},
    {"\"embeddings\": [", "\"embeddings\": {", "embeddings"},
    {"\"graphs\": [", "\"graphs\": [], \"graphs\": [", "graphs"},
    {"{\"model_parameters\"", "[{\"model_parameters\"", "expected"},
};

static void what_powerserve_could_not_load_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fy_err e = {0};
        fy_qnn_config c;
        char *text = qnn_changed(QNN_CONFIG, wrong[i].from, wrong[i].to);
        if (fy_qnn_config_parse(text, strlen(text), &c, &e) == 0)
            fail_msg("accepted: %s -> %s", wrong[i].from, wrong[i].to);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_says(&e, wrong[i].says);
        free(text);
    }
}

/* The configuration with the first `"key"` behind `after` called something else. */
static void lacks(const char *config, const char *after, const char *key)
{
    char quoted[64];
    fy_err e = {0};
    fy_qnn_config c;
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *tail = strstr(config, after);
    assert_non_null(tail);
    char *changed = qnn_changed(tail, quoted, "\"-\"");
    fy_str s = {0};
    fy_str_add(&s, config, (size_t)(tail - config));
    fy_str_puts(&s, changed);
    if (fy_qnn_config_parse(s.ptr, s.len, &c, &e) == 0)
        fail_msg("accepted without %s", key);
    assert_says(&e, "lacks '");
    assert_says(&e, key);
    fy_str_release(&s);
    free(changed);
}

static void every_key_that_powerserve_reads_is_required(void **state)
{
    (void)state;
    static const char *const of_graph[] = {
        "type",         "graph_name", "start_layer_id", "end_layer_id", "batch_size", "cache_size",
        "context_size", "model_path", "kv_path_format", "kv_size",      "x_name",     "out_name"};
    static const char *const of_embedding[] = {"graph_name", "model_path", "batch_size", "x_name",
                                               "out_name"};
    static const char *const of_vision[] = {"graph_name", "model_path",  "num_channels",
                                            "image_size", "num_patches", "num_patches_tokens",
                                            "x_name",     "out_name"};
    static const char with_vision[] =
        "{" QNN_PARAMETERS ", " QNN_GRAPHS ", \"vision\": {\"graph_name\": \"v\", "
        "\"model_path\": \"v.bin\", \"num_channels\": 3, \"image_size\": 448, "
        "\"num_patches\": 1025, \"num_patches_tokens\": 256, \"x_name\": \"x\", "
        "\"out_name\": \"out\"}}";
    fy_err e = {0};
    fy_qnn_config c;
    if (fy_qnn_config_parse(with_vision, strlen(with_vision), &c, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(c.vision->n_patch_tokens, 256);
    fy_qnn_config_release(&c);
    static const char *const top[] = {"model_parameters", "qnn_parameters", "graphs"};
    for (size_t i = 0; i < 3; i++) {
        char *text = qnn_changed(QNN_CONFIG, top[i], "x");
        assert_int_equal(fy_qnn_config_parse(text, strlen(text), &c, NULL), -1);
        free(text);
    }
    lacks(QNN_CONFIG, "\"model_parameters\"", "attention_mask_value");
    lacks(QNN_CONFIG, "\"qnn_parameters\"", "n_hvx_threads");
    for (size_t i = 0; i < sizeof of_graph / sizeof of_graph[0]; i++)
        lacks(QNN_CONFIG, "\"graphs\"", of_graph[i]);
    for (size_t i = 0; i < sizeof of_embedding / sizeof of_embedding[0]; i++)
        lacks(QNN_CONFIG, "\"embeddings\"", of_embedding[i]);
    for (size_t i = 0; i < sizeof of_vision / sizeof of_vision[0]; i++)
        lacks(with_vision, "\"vision\"", of_vision[i]);
}

static void positions_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const char text[] =
        "{" QNN_PARAMETERS
        ", \"graphs\": [{\"type\": \"t\", \"graph_name\": \"b\", \"start_layer_id\": 0, "
        "\"end_layer_id\": 2, \"batch_size\": 129, \"cache_size\": 1920, \"context_size\": 2048, "
        "\"model_path\": \"m.bin\", \"kv_path_format\": \"{layer_id}{kv_type}{head_id}\", "
        "\"kv_size\": 11, \"x_name\": \"x\", \"out_name\": \"o\"}]}";
    fy_err e = {0};
    fy_qnn_config c;
    assert_int_equal(fy_qnn_config_parse(text, strlen(text), &c, &e), -1);
    assert_says(&e, "cache_size 1920 and batch_size 129 do not fit into context_size 2048");
    char *more = qnn_changed(text, "\"kv_size\": 11", "\"kv_size\": 1921");
    e = (fy_err){0};
    assert_int_equal(fy_qnn_config_parse(more, strlen(more), &c, &e), -1);
    assert_says(&e, "kv_size 1921 is more than cache_size 1920");
    free(more);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < strlen(QNN_CONFIG); n++) {
        fy_qnn_config c;
        assert_int_equal(fy_qnn_config_parse(QNN_CONFIG, n, &c, NULL), -1);
    }
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_published_configuration_is_read),
        TEST(embeddings_and_dimensions_may_be_absent),
        TEST(what_powerserve_could_not_load_is_refused),
        TEST(every_key_that_powerserve_reads_is_required),
        TEST(positions_that_do_not_fit_are_refused),
        TEST(every_truncation_is_refused),
        TEST(a_package_is_whole_or_says_what_is_missing),
        TEST(every_file_is_named_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
