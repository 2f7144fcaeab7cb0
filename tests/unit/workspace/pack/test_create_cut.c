/* Workspaces of models that were cut: alone, and beside the complete model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/workspace/ws_fixture.h"

#include "bundle/bundle.h"
#include "tests/unit/workspace/cut_fixture.h"
#include "workspace/phone/doctor.h"

static fy_create_params params(const char *model, const char *dir)
{
    static const char *models[1];
    models[0] = model;
    elf_write(at("ferry"), 183);
    return (fy_create_params){.models = models,
                              .n_models = 1,
                              .dir = dir,
                              .exe_path = at("ferry"),
                              .tool = "ferry test",
                              .copy = true};
}

static void created(const fy_create_params *p)
{
    fy_err e = {0};
    if (fy_create(p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
}

static void refused(const fy_create_params *p, fy_code code, const char *says)
{
    fy_err e = {0};
    assert_int_equal(fy_create(p, NULL, &e), -1);
    assert_says(&e, says);
    assert_int_equal(e.code, code);
    assert_false(fy_file_exists(p->dir));
}

static void same_files(const char *from, const char *to, const char *const *names)
{
    for (; *names != NULL; names++) {
        char path[160];
        size_t n, k;
        snprintf(path, sizeof path, "%s/%s", from, *names);
        char *a = get_file(at(path), &n);
        snprintf(path, sizeof path, "%s/%s", to, *names);
        char *b = get_file(at(path), &k);
        assert_int_equal(n, k);
        assert_memory_equal(a, b, n);
        free(a);
        free(b);
    }
}

static const char *const all_files[] = {"ggml/weights.gguf",
                                        "qnn/config.json",
                                        "qnn/chunk_0.gguf",
                                        "qnn/chunk_1.gguf",
                                        "qnn/lm_head_0.gguf",
                                        "qnn/lm_head_1.gguf",
                                        NULL};

static void verified(const char *dir, size_t n, const char *path, const char *says)
{
    fy_err e = {0};
    fy_verify_report r;
    if (fy_verify(dir, NULL, 1, NULL, &r, &e) != 0)
        fail_msg("%s", e.msg);
    if (r.n != n)
        fail_msg("%zu findings: %s: %s", r.n, r.n > 0 ? r.finding[0].path : "",
                 r.n > 0 ? r.finding[0].text : "");
    if (n > 0) {
        assert_string_equal(r.finding[0].path, path);
        if (strstr(r.finding[0].text, says) == NULL)
            fail_msg("expected '%s' in '%s'", says, r.finding[0].text);
    }
    fy_verify_report_release(&r);
}

static void a_cut_becomes_a_workspace(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_bundle b;
    cut_model m = cut_sound();
    cut_write("cut", &m);
    fy_create_params p = params(at("cut"), at("ws"));
    created(&p);
    same_files("cut", "ws/tiny", all_files);
    verified(at("ws"), 0, NULL, NULL);
    assert_int_equal(fy_bundle_open(at("ws"), &b, &e), 0);
    fy_bundle_release(&b);
    fy_gguf *vocab = fy_gguf_open(at("ws/tiny/vocab.gguf"), &e);
    assert_non_null(vocab);
    assert_non_null(fy_gguf_find(vocab, "tokenizer.ggml.tokens"));
    assert_null(fy_gguf_find(vocab, FY_CHUNK_KEYS "kind"));
    fy_gguf_close(vocab);
}

static void chunks_go_beside_the_complete_model(void **state)
{
    (void)state;
    cut_model m = cut_sound();
    cut_write("cut", &m); /* of tmp/whole.gguf */
    fy_create_params p = params(at("whole.gguf"), at("ws"));
    p.chunks = at("cut");
    created(&p);
    same_files("cut", "ws/tiny", all_files + 1);
    verified(at("ws"), 0, NULL, NULL);
    p.dir = at("ws2");
    p.chunks = at("cut/qnn");
    created(&p);
    same_files("ws", "ws2", (const char *const[]){"manifest.json", NULL});
}

/* Alone all chunks are in memory; beside the complete model that is, which run takes. */
static void a_phone_is_asked_for_what_is_computed_with(void **state)
{
    (void)state;
    enum { NORM_BYTES = 32 * 4 }; /* of the second slice of the lm_head */
    fy_err e = {0};
    fy_need alone, both;
    cut_model m = cut_sound();
    cut_write("cut", &m);
    fy_create_params p = params(at("cut"), at("alone"));
    created(&p);
    p = params(at("whole.gguf"), at("both"));
    p.chunks = at("cut");
    created(&p);
    if (fy_need_of(at("alone"), 0, FY_F16, FY_F16, &alone, &e) != 0 ||
        fy_need_of(at("both"), 0, FY_F16, FY_F16, &both, &e) != 0)
        fail_msg("%s", e.msg);
    assert_true(both.weights > 0);
    assert_int_equal(alone.weights, both.weights + NORM_BYTES);
    assert_int_equal(alone.n_ctx, 24); /* cache_size */
    assert_int_equal(both.n_ctx, 4096);
    assert_true(both.bytes > alone.bytes);
    fy_need_release(&alone);
    fy_need_release(&both);
    assert_int_equal(fy_need_of(at("alone"), 25, FY_F16, FY_F16, &alone, &e), -1);
    assert_says(&e, "context of 25 positions, but the graphs have 24");
    assert_int_equal(e.code, FY_EFIT);
}

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void put_graph(fy_str *out, int batch, const char *end)
{
    fy_str_printf(
        out,
        "{\"name\": \"batch_%d\", \"batch\": %d, \"tensors\": [{\"name\": \"x\", \"id\": 1, "
        "\"direction\": \"in\", \"type\": \"f32\", \"dims\": [%d, 32], \"scale\": 0, "
        "\"offset\": 0}, {\"name\": \"%s\", \"id\": 2, \"direction\": \"out\", \"type\": "
        "\"f32\", \"dims\": [%d, 32], \"scale\": 0, \"offset\": 0}]}",
        batch, batch, batch, end, batch);
}

/* tmp/cut as compiled: each chunk is a binary of six bytes. */
static void compile_cut(void)
{
    static const char *const names[] = {"chunk_0", "chunk_1", "lm_head_0", "lm_head_1"};
    size_t n;
    char *config = get_file(at("cut/qnn/config.json"), &n), path[64];
    for (char *gguf; (gguf = strstr(config, ".gguf")) != NULL;) {
        memcpy(gguf, ".bin\"", 5);
        memmove(gguf + 5, gguf + 6, strlen(gguf + 6) + 1);
    }
    char *whole =
        qnn_changed(config, "\"kv_bits\": 8",
                    "\"compiled\": {\"soc\": \"SM8650\", \"arch\": 75, \"vtcm_mb\": 8, "
                    "\"build_id\": \"\", \"recipe\": \"16a4w\", \"kv\": \"u8\", \"mask\": "
                    "\"u16\"}");
    put_text(at("cut/qnn/config.json"), whole);
    put_text(at("cut/qnn/canary.json"), "{}");
    const char *model = strstr(whole, "\"model\": \"") + strlen("\"model\": \"");
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    assert_int_equal(fy_sha256_of("binary", 6, hash, NULL), 0);
    fy_sha256_to_hex(hash, hex);
    for (int i = 0; i < 4; i++) {
        fy_str s = {0};
        fy_str_printf(
            &s,
            "{\"version\": 1, \"model\": \"%.64s\", \"key\": \"\", \"binary\": {\"bytes\": "
            "6, \"sha256\": \"%s\"}, \"library\": {\"build_id\": \"\", \"core\": \"2\", "
            "\"sha256\": \"" HASH "\"}, \"soc\": {\"name\": \"SM8650\", \"id\": 57, "
            "\"arch\": 75, \"vtcm_mb\": 8}, \"recipe\": \"16a4w\", \"rope_nodes\": false, "
            "\"shared\": true, \"graphs\": [",
            model, hex);
        put_graph(&s, 8, i < 2 ? "out" : "logits");
        fy_str_puts(&s, ", ");
        put_graph(&s, 1, i < 2 ? "out" : "logits");
        fy_str_puts(&s, "]}");
        snprintf(path, sizeof path, "cut/qnn/%s.json", names[i]);
        put_text(at(path), s.ptr);
        snprintf(path, sizeof path, "cut/qnn/%s.bin", names[i]);
        put_text(at(path), "binary");
        snprintf(path, sizeof path, "cut/qnn/%s.gguf", names[i]);
        unlink(at(path));
        fy_str_release(&s);
    }
    free(whole);
    free(config);
}

/* No library opens these binaries, so what a phone needs is counted without one. */
static void a_compiled_model_becomes_a_workspace_and_is_counted(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_need need;
    cut_model m = cut_sound();
    cut_write("cut", &m);
    compile_cut();
    fy_create_params p = params(at("cut"), at("ws"));
    created(&p);
    verified(at("ws"), 0, NULL, NULL);
    if (fy_need_of(at("ws"), 0, FY_F16, FY_F16, &need, &e) != 0)
        fail_msg("%s", e.msg);
    fy_gguf *g = fy_gguf_open(at("ws/tiny/ggml/weights.gguf"), &e);
    assert_int_equal(need.weights, 4 * 6 + fy_gguf_tensor_find(g, "token_embd.weight")->bytes);
    fy_gguf_close(g);
    /* a byte of keys and values of 16 elements in 3 layers: 24 cached, 8 of the call */
    assert_int_equal(need.kv, 3 * (24 + 8) * (16 + 16));
    assert_int_equal(need.n_ctx, 24);
    assert_int_equal(need.compiled, 75);
    assert_int_equal(need.npu_arch, 0);
    assert_true(need.npu);
    fy_need_release(&need);
    assert_int_equal(fy_need_of(at("ws"), 25, FY_F16, FY_F16, &need, &e), -1);
    assert_says(&e, "context of 25 positions, but the graphs have 24");
    assert_int_equal(e.code, FY_EFIT);
    ws_replace("ws", "tiny/qnn/chunk_1.bin", "bimary", 6);
    verified(at("ws"), 1, "tiny/qnn/chunk_1.bin", "has the SHA-256 ");
}

static void what_is_not_of_the_model_is_refused(void **state)
{
    (void)state;
    cut_model m = cut_sound();
    cut_chunk other = {.hp = cut_hparams(), .arch = "llama", .norm = 1};
    cut_write("cut", &m);
    cut_chunk_write(at("other.gguf"), &other);
    fy_create_params p = params(at("other.gguf"), at("ws"));
    p.chunks = at("cut");
    refused(&p, FY_EARG, "ggml/weights.gguf: is model ");
    p = params(at("cut/ggml/weights.gguf"), at("ws"));
    refused(&p, FY_EARG, "is the embedding of a model that was cut; expected the directory");
    p = params(at("cut/qnn/chunk_1.gguf"), at("ws"));
    refused(&p, FY_EARG, "is a chunk of a model that was cut, layers 2-2; expected the directory");
    m.chunk[CUT_CHUNK_1].skip = "blk.2.ffn_up.weight";
    cut_write("cut", &m);
    p = params(at("cut"), at("ws"));
    refused(&p, FY_EARG, "qnn/chunk_1.gguf: 'blk.2.ffn_up.weight' is missing");
    p = params(at("whole.gguf"), at("ws"));
    p.chunks = at("cut/ggml");
    refused(&p, FY_EARG, "has neither config.json nor qnn/config.json");
}

/* --- damage that the manifest agrees with: a file that was replaced, and listed anew
 * --------------- */

static void an_embedding_alone_is_found(void **state)
{
    (void)state;
    cut_model m = cut_sound();
    cut_write("cut", &m);
    fy_create_params p = params(at("whole.gguf"), at("ws"));
    created(&p);
    ws_replace_with("ws", "tiny/ggml/weights.gguf", at("cut/ggml/weights.gguf"));
    verified(at("ws"), 1, "tiny/ggml/weights.gguf",
             "is the embedding of a model that was cut, expected its chunks in qnn/");
    ws_replace_with("ws", "tiny/ggml/weights.gguf", at("cut/qnn/chunk_0.gguf"));
    verified(at("ws"), 1, "tiny/model.json",
             "ggml/weights.gguf: holds layers 0-1 of a model that was cut");
}

typedef struct {
    const char *rel, *from; /* that is replaced, by this file of another cut */
    const char *path, *says;
} damage;

static void chunks_of_another_cut_are_found(void **state)
{
    (void)state;
    static const damage cases[] = {
        {"tiny/qnn/chunk_1.gguf", "cut/qnn/chunk_0.gguf", "tiny",
         "qnn/config.json: graphs[1]: start_layer_id 2, end_layer_id 3, but chunk_1.gguf"},
        {"tiny/qnn/chunk_1.gguf", "other/qnn/chunk_1.gguf", "tiny",
         "the chunks together are model"},
        {"tiny/qnn/lm_head_1.gguf", "other/qnn/lm_head_1.gguf", "tiny",
         "'output_norm.weight' has other values than in the first slice"},
        {"tiny/qnn/lm_head_0.gguf", "cut/qnn/chunk_0.gguf", "tiny",
         "embeddings[0]: lm_head_0.gguf holds layers"},
        {"tiny/qnn/config.json", "deep/qnn/config.json", "tiny/qnn/config.json",
         "batch size 8 covers 4 layers, batch size 1 covers 3"},
        {"tiny/qnn/config.json", "kv/qnn/config.json", "tiny/qnn/config.json",
         "kv/layer_0_key_0.raw: missing"},
    };
    cut_model m = cut_sound(), other = m, deep = m, kv = m;
    for (int i = 0; i < CUT_CHUNK_FILES; i++)
        other.chunk[i].norm = 1;
    char *two = qnn_changed(QNN_CUT, "\"end_layer_id\": 3", "\"end_layer_id\": 4");
    char *preset = strdup(QNN_CUT), *at_size;
    while ((at_size = strstr(preset, "\"kv_size\": 0")) != NULL)
        at_size[11] = '4';
    deep.config = two;
    kv.config = preset;
    cut_write("cut", &m);
    cut_write("other", &other);
    cut_write("deep", &deep);
    cut_write("kv", &kv);
    fy_create_params p = params(at("cut"), at("ws"));
    created(&p);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char sound[128];
        snprintf(sound, sizeof sound, "cut/%s", cases[i].rel + strlen("tiny/"));
        ws_replace_with("ws", cases[i].rel, at(cases[i].from));
        verified(at("ws"), 1, cases[i].path, cases[i].says);
        ws_replace_with("ws", cases[i].rel, at(sound));
    }
    verified(at("ws"), 0, NULL, NULL);
    free(two);
    free(preset);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_cut_becomes_a_workspace),
        TEST(chunks_go_beside_the_complete_model),
        TEST(a_phone_is_asked_for_what_is_computed_with),
        TEST(a_compiled_model_becomes_a_workspace_and_is_counted),
        TEST(what_is_not_of_the_model_is_refused),
        TEST(an_embedding_alone_is_found),
        TEST(chunks_of_another_cut_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
