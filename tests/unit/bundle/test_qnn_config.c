#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bundle/qnn_config.h"
#include "tests/unit/bundle/qnn_text.h"

static void assert_says(const fy_err *e, const char *part)
{
    if (strstr(e->msg, part) == NULL)
        fail_msg("expected '%s' in '%s'", part, e->msg);
}

static void a_published_configuration_is_read(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_qnn_config c;
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
    fy_qnn_config_release(&c);
}

static void embeddings_and_dimensions_may_be_absent(void **state)
{
    (void)state;
    static const char text[] = "{\"model_parameters\": {\"attention_mask_value\": -1e5}, "
                               "\"qnn_parameters\": {\"n_hvx_threads\": 4}, " QNN_GRAPHS "}";
    fy_err e = {0};
    fy_qnn_config c;
    if (fy_qnn_config_parse(text, strlen(text), &c, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(c.n_embeddings, 0);
    assert_int_equal(c.dims.vocab_size, -1);
    fy_qnn_config_release(&c);
}

static const struct {
    const char *from, *to, *says;
} wrong[] = {
    {"\"attention_mask_value\": -50000.0", "\"x\": 1", "model_parameters: lacks 'attention_mask"},
    {"\"attention_mask_value\": -50000.0", "\"attention_mask_value\": \"-1\"", "model_parameters"},
    {"\"n_hvx_threads\": 4", "\"n_hvx_threads\": 0", "n_hvx_threads: 0, expected 1 to 64"},
    {"\"n_hvx_threads\": 4", "\"n\": 4", "qnn_parameters: lacks 'n_hvx_threads'"},
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

/* --- chunks of ours --------------------------------------------------------------------------- */

static void what_was_cut_is_read(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_qnn_config c;
    if (fy_qnn_config_parse(QNN_CUT, strlen(QNN_CUT), &c, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(c.own.version, 1);
    assert_string_equal(c.own.model, QNN_CUT_MODEL);
    assert_string_equal(c.own.soc, "SM8650");
    assert_string_equal(c.own.recipe, "16a4w");
    assert_int_equal(c.own.kv_bits, 8);
    assert_int_equal(c.n_graphs, 4);
    assert_int_equal(c.n_embeddings, 4);
    assert_int_equal(c.n_layers, 3);
    assert_int_equal(c.n_tokens, 48);
    assert_int_equal(c.kv_size, 0);
    assert_int_equal(c.embedding[1].first_token, 32);
    assert_int_equal(c.embedding[1].end_token, 48);
    for (size_t i = 0; i < 4; i++) {
        assert_true(fy_qnn_is_gguf(&c.graph[i]));
        assert_true(fy_qnn_is_gguf(&c.embedding[i]));
    }
    fy_qnn_config_release(&c);
}

static const struct {
    const char *from, *to, *says;
} wrong_cut[] = {
    {"\"version\": 1", "\"version\": 2", "ferry: version: 2, expected 1 to 1"},
    {"\"version\": 1, ", "", "ferry: lacks 'version'"},
    {"\"version\": 1", "\"version\": \"1\"", "ferry: version"},
    {"\"model\": \"" QNN_CUT_MODEL "\"", "\"x\": 1", "ferry: lacks 'model'"},
    {"\"model\": \"" QNN_CUT_MODEL, "\"model\": \"0" QNN_CUT_MODEL,
     "65 bytes of text, expected 1 to 64"},
    {"\"soc\": \"SM8650\"", "\"soc\": \"\"", "ferry: soc: 0 bytes of text"},
    {"\"soc\": \"SM8650\"", "\"soc\": \"S\\u0000\"", "without NUL"},
    {"\"recipe\": \"16a4w\"", "\"recipe\": [\"16a4w\"]", "ferry: "},
    {"\"kv_bits\": 8", "\"kv_bits\": 0", "ferry: kv_bits: 0, expected 1 to 32"},
    {"\"ferry\": {", "\"ferry\": [{", "ferry"},
    {"\"first_token\": 32", "\"first_token\": 31",
     "tokens 31 to 48 of batch size 8, expected to begin at 32"},
    {"\"first_token\": 32", "\"first_token\": 33", "tokens 33 to 48"},
    {"\"first_token\": 32", "\"first_token\": -1", "first_token: -1"},
    {"\"end_token\": 48", "\"end_token\": 0", "end_token: 0, expected 1"},
    {"\"end_token\": 48", "\"end_token\": 32", "tokens 32 to 32"},
    {"\"end_token\": 48", "\"end_token\": 47",
     "batch size 1 covers 48 tokens, batch size 8 covers 47"},
    {"\"end_token\": 48", "\"end_token\": 99999999", "end_token: 99999999"},
    {"\"first_token\": 0, \"end_token\": 32, ", "", "a second one for batch size 8"},
};

static void a_cut_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_cut / sizeof wrong_cut[0]; i++) {
        fy_err e = {0};
        fy_qnn_config c;
        char *text = qnn_changed(QNN_CUT, wrong_cut[i].from, wrong_cut[i].to);
        if (fy_qnn_config_parse(text, strlen(text), &c, &e) == 0)
            fail_msg("accepted: %s -> %s", wrong_cut[i].from, wrong_cut[i].to);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_says(&e, wrong_cut[i].says);
        free(text);
    }
}

/* --- compiled --------------------------------------------------------------------------------- */

#define STAMP                                                                          \
    "\"compiled\": {\"soc\": \"SM8650\", \"arch\": 75, \"vtcm_mb\": 8, \"build_id\": " \
    "\"v2.51.0\", "                                                                    \
    "\"recipe\": \"16a8w\", \"kv\": \"u8\", \"mask\": \"u16\", \"later\": [1]}"

/* QNN_CONFIG with "ferry"; `from` of it replaced. */
static char *compiled(const char *from, const char *to)
{
    fy_str s = {0};
    fy_str_add(&s, QNN_CONFIG, strlen(QNN_CONFIG) - 1);
    fy_str_puts(&s, ", \"ferry\": {\"version\": 1, \"model\": \"" QNN_CUT_MODEL "\", " STAMP "}}");
    char *changed = qnn_changed(s.ptr, from, to);
    fy_str_release(&s);
    return changed;
}

static void what_was_compiled_is_read(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_qnn_config c;
    fy_str path = {0};
    char *text = compiled("", "");
    if (fy_qnn_config_parse(text, strlen(text), &c, &e) != 0)
        fail_msg("%s", e.msg);
    free(text);
    const fy_qnn_compiled *to = &c.own.compiled;
    assert_string_equal(to->soc, "SM8650");
    assert_int_equal(to->arch, 75);
    assert_int_equal(to->vtcm_mb, 8);
    assert_string_equal(to->build_id, "v2.51.0");
    assert_string_equal(to->recipe, "16a8w");
    assert_string_equal(to->kv, "u8");
    assert_string_equal(to->mask, "u16");
    fy_qnn_sidecar_path(c.graph[0].model_path, &path);
    assert_string_equal(path.ptr, "m_0.json");
    fy_str_release(&path);
    fy_qnn_config_release(&c);
}

static void a_stamp_that_is_wrong_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"arch\": 75", "\"arch\": 0", "ferry: compiled: arch: 0, expected 1 to 999"},
        {"\"arch\": 75, ", "", "ferry: compiled: lacks 'arch'"},
        {"\"vtcm_mb\": 8", "\"vtcm_mb\": 1025", "vtcm_mb: 1025, expected 1 to 1024"},
        {"\"soc\": \"SM8650\"", "\"soc\": \"\"", "compiled: soc: 0 bytes of text"},
        {"\"kv\": \"u8\"", "\"kv\": \"u4\"", "kv: 'u4', expected f16, u8 or s16"},
        {"\"kv\": \"u8\"", "\"kv\": \"\"", "kv: '', expected f16, u8 or s16"},
        {"\"mask\": \"u16\"", "\"mask\": \"s16\"", "mask: 's16', expected f16 or u16"},
        {"\"mask\": \"u16\"", "\"mask\": \"u16 \"", "mask: 4 bytes of text"},
        {"\"m_1.bin\"", "\"m_1.gguf\"", "'m_1.gguf' of a compiled model, expected NAME.bin"},
        {"\"lm_head.bin\"", "\"config.bin\"", "'config.bin' of a compiled model"},
        {"\"later\": [1]", "\"preset_ids\": [-1]", "preset_ids: -1, expected 0 to"},
        {"\"later\": [1]", "\"preset_ids\": 1", "preset_ids: "},
        {"\"later\": [1]", "\"preset_ids\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4]",
         "13 preset_ids, expected "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_qnn_config c;
        char *text = compiled(cases[i].from, cases[i].to);
        if (fy_qnn_config_parse(text, strlen(text), &c, &e) == 0)
            fail_msg("accepted: %s", cases[i].to);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_says(&e, cases[i].says);
        free(text);
    }
}

/* PowerServe's runtime opens its files whether or not they have tokens, of graphs that it computes.
 */
static void presets_are_for_graphs_that_powerserve_computes(void **state)
{
    (void)state;
    static const struct {
        uint32_t kv_size, arch;
        const char *kv, *mask, *path;
        bool has;
    } cases[] = {
        {0, 0, "", "", "a.bin", true},        {0, 0, "", "", "a.gguf", false},
        {1, 0, "", "", "a.gguf", true},       {0, 75, "f16", "f16", "a.bin", true},
        {0, 75, "u8", "f16", "a.bin", false}, {0, 75, "f16", "u16", "a.bin", false},
        {11, 75, "u8", "u16", "a.bin", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_qnn_config_graph g = {.model_path = (char *)(uintptr_t)cases[i].path};
        fy_qnn_config c = {.graph = &g, .n_graphs = 1, .kv_size = cases[i].kv_size};
        c.own.compiled.arch = cases[i].arch;
        strcpy(c.own.compiled.kv, cases[i].kv);
        strcpy(c.own.compiled.mask, cases[i].mask);
        assert_int_equal(fy_qnn_has_preset(&c), cases[i].has);
    }
}

/* Without the numbers an lm_head is all of the vocabulary, so there is one for each batch size. */
static void one_lm_head_need_not_say_its_tokens(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_qnn_config c;
    assert_int_equal(fy_qnn_config_parse(QNN_CONFIG, strlen(QNN_CONFIG), &c, &e), 0);
    assert_int_equal(c.n_tokens, 0);
    assert_int_equal(c.own.version, 0);
    assert_false(fy_qnn_is_gguf(&c.graph[0]));
    fy_qnn_config_release(&c);
    char *text = qnn_changed(QNN_CONFIG,
                             "\"graph_name\": \"batch_128\", \"model_path\": \"lm_head.bin\", "
                             "\"batch_size\": 128",
                             "\"graph_name\": \"b\", \"model_path\": "
                             "\"lm_head.bin\", \"batch_size\": 1");
    assert_int_equal(fy_qnn_config_parse(text, strlen(text), &c, &e), -1);
    free(text);
}

static void only_names_that_end_in_gguf_are_chunks(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool is;
    } cases[] = {
        {"chunk_0.gguf", true}, {"a/b.gguf", true},        {".gguf", false}, {"gguf", false},
        {"chunk_0.bin", false}, {"chunk.gguf.bin", false}, {"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[32];
        strcpy(path, cases[i].path);
        const fy_qnn_config_graph g = {.model_path = path};
        assert_int_equal(fy_qnn_is_gguf(&g), cases[i].is);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_published_configuration_is_read),
        cmocka_unit_test(embeddings_and_dimensions_may_be_absent),
        cmocka_unit_test(what_powerserve_could_not_load_is_refused),
        cmocka_unit_test(every_key_that_powerserve_reads_is_required),
        cmocka_unit_test(positions_that_do_not_fit_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(what_was_cut_is_read),
        cmocka_unit_test(what_was_compiled_is_read),
        cmocka_unit_test(a_stamp_that_is_wrong_is_refused),
        cmocka_unit_test(presets_are_for_graphs_that_powerserve_computes),
        cmocka_unit_test(a_cut_that_contradicts_itself_is_refused),
        cmocka_unit_test(one_lm_head_need_not_say_its_tokens),
        cmocka_unit_test(only_names_that_end_in_gguf_are_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
