#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/progress.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "format/gguf.h"
#include "tests/unit/workspace/ws_fixture.h"

static fy_create_params params(const char *const *models, size_t n)
{
    return (fy_create_params){.models = models,
                              .n_models = n,
                              .dir = at("ws"),
                              .exe_path = at("ferry"),
                              .tool = "ferry test"};
}

static void refused(const fy_create_params *p, fy_code code, const char *says)
{
    fy_err e = {0};
    assert_int_equal(fy_create(p, NULL, &e), -1);
    assert_says(&e, says);
    assert_int_equal(e.code, code);
}

static void the_layout_is_powerserves_plus_a_manifest(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "Tiny Model 0.1"});
    static const char *const names[] = {"Tiny-Model-0.1/ggml/weights.gguf",
                                        "Tiny-Model-0.1/model.json",
                                        "Tiny-Model-0.1/vocab.gguf",
                                        "bin/ferry",
                                        "hparams.json",
                                        "workspace.json"};
    fy_manifest m;
    assert_int_equal(fy_manifest_read(at("ws"), &m, NULL), 0);
    assert_int_equal(m.n, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(m.entry[i].path, names[i]);
        assert_int_equal(m.entry[i].mode, i == 3 ? 0755 : 0644);
    }
    assert_string_equal(m.tool, "ferry test");
    assert_string_equal(m.target, "aarch64-linux");
    fy_manifest_release(&m);
    assert_int_equal(count_entries(at("ws")), 5);
    struct stat st;
    assert_int_equal(stat(at("ws/bin/ferry"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_false(fy_file_exists(at("ws.part")));
}

static void the_json_files_have_powerserves_schema(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    size_t n;
    char *text = get_file(at("ws/tiny/model.json"), &n);
    static const char *const parts[] = {"\"model_id\": \"tiny\"",
                                        "\"model_arch\": \"llama\"",
                                        "\"version\": 20241202",
                                        "\"embed_dim\": 32",
                                        "\"ffn_dim\": 64",
                                        "\"n_layers\": 1",
                                        "\"n_attn_heads\": 2",
                                        "\"n_attn_kv_heads\": 1",
                                        "\"n_ctx\": 4096",
                                        "\"vocab_size\": 48",
                                        "\"kv_dim\": 16",
                                        "\"head_size\": 16",
                                        "\"norm_eps\": 9.9999997473787516e-6",
                                        "\"rope_dim\": 16",
                                        "\"n_rope_ctx_orig\": 8192",
                                        "\"rope_freq_base\": 10000.0",
                                        "\"rope_freq_scale\": 1.0",
                                        "\"rope_attn_factor\": 1.0",
                                        "\"rope_scale_type\": \"linear\"",
                                        "\"rope_type\": 0",
                                        "\"vision\": {}"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(text, parts[i]) == NULL)
            fail_msg("model.json lacks %s:\n%s", parts[i], text);
    }
    free(text);
    text = get_file(at("ws/workspace.json"), &n);
    assert_string_equal(text,
                        "{\n    \"format_version\": 1,\n    \"executables\": \"bin\",\n"
                        "    \"hparams_config\": \"hparams.json\",\n    \"model_main\": \"tiny\",\n"
                        "    \"model_draft\": \"\"\n}\n");
    free(text);
}

static void vocab_gguf_has_every_key_and_no_tensor(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    fy_gguf *a = fy_gguf_open(at("tiny.gguf"), NULL),
            *b = fy_gguf_open(at("ws/tiny/vocab.gguf"), NULL);
    assert_int_equal(fy_gguf_n_tensors(b), 0);
    assert_int_equal(fy_gguf_n_kv(a), fy_gguf_n_kv(b));
    for (size_t i = 0; i < fy_gguf_n_kv(a); i++) {
        const fy_gguf_kv *x = fy_gguf_kv_at(a, i), *y = fy_gguf_kv_at(b, i);
        assert_true(fy_span_eq(x->key, y->key) && x->type == y->type && x->bytes == y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    fy_gguf_close(a);
    fy_gguf_close(b);
}

static void weights_share_the_source_unless_copy_is_asked_for(void **state)
{
    (void)state;
    struct stat a, b;
    ws_make("copied", &(tiny_model){.name = "tiny"});
    const char *models[] = {at("tiny.gguf")};
    fy_create_params p = params(models, 1);
    assert_int_equal(fy_create(&p, NULL, NULL), 0);
    assert_int_equal(stat(at("tiny.gguf"), &a), 0);
    assert_int_equal(stat(at("copied/tiny/ggml/weights.gguf"), &b), 0);
    assert_true(a.st_ino != b.st_ino);
    assert_int_equal(a.st_size, b.st_size);
    assert_int_equal(stat(at("ws/tiny/ggml/weights.gguf"), &b), 0);
    assert_int_equal(a.st_size, b.st_size); /* linked or cloned: depends on the file system */
    size_t n, k;
    char *x = get_file(at("ws/manifest.json"), &n), *y = get_file(at("copied/manifest.json"), &k);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

static void a_model_reached_through_a_link_is_a_file_in_the_workspace(void **state)
{
    (void)state;
    struct stat st;
    tiny_write(at("tiny.gguf"), &(tiny_model){.name = NULL});
    elf_write(at("ferry"), 183);
    assert_int_equal(symlink("tiny.gguf", at("link.gguf")), 0);
    const char *models[] = {at("link.gguf")};
    fy_create_params p = params(models, 1);
    assert_int_equal(fy_create(&p, NULL, NULL), 0);
    assert_int_equal(lstat(at("ws/tiny/ggml/weights.gguf"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void names_are_safe_directory_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"Llama 3.2 1B Instruct", "Llama-3.2-1B-Instruct"},
        {"../../etc", "etc"},
        {"a/b", "a-b"},
        {"", "model"},
        {"...", "model"},
        {"-rf", "rf"},
        {"bin", "bin-model"},
        {"Workspace.JSON", "Workspace.JSON-model"},
        {"sm\xc3\xb6rg\xc3\xa5s", "sm-rg-s"},
        {"a\tb  c", "a-b-c"},
        {"x_1", "x_1"},
        {"v1.", "v1"},
    };
    char out[FY_MODEL_NAME_BYTES], lots[200];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_model_dir_name(cases[i][0], strlen(cases[i][0]), out);
        assert_string_equal(out, cases[i][1]);
    }
    memset(lots, 'x', sizeof lots);
    fy_model_dir_name(lots, sizeof lots, out);
    assert_int_equal(strlen(out), FY_MODEL_NAME_BYTES - 1);
}

static void models_of_one_name_get_directories_of_their_own(void **state)
{
    (void)state;
    tiny_write(at("a.gguf"), &(tiny_model){.name = "tiny"});
    tiny_write(at("b.gguf"), &(tiny_model){.name = "TINY", .type = FY_Q8_0});
    elf_write(at("ferry"), 183);
    const char *models[] = {at("a.gguf"), at("b.gguf")};
    fy_create_params p = params(models, 2);
    p.model_id = "mine";
    assert_int_equal(fy_create(&p, NULL, NULL), 0);
    assert_true(fy_file_exists(at("ws/TINY-2/ggml/weights.gguf")));
    fy_bundle b;
    assert_int_equal(fy_bundle_open(at("ws"), &b, NULL), 0);
    assert_string_equal(b.model_main, "tiny");
    fy_bundle_release(&b);
    size_t n;
    char *text = get_file(at("ws/tiny/model.json"), &n);
    assert_non_null(strstr(text, "\"model_id\": \"mine\""));
    free(text);
}

static void recommended_sampling_becomes_the_default(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny", .temp = 0.5f});
    fy_bundle b;
    assert_int_equal(fy_bundle_open(at("ws"), &b, NULL), 0);
    assert_true(b.temperature == 0.5);
    assert_int_equal(b.top_k, -1); /* left to the default: the model does not say */
    assert_true(b.seed == UINT64_MAX);
    fy_bundle_release(&b);
}

static void a_directory_with_something_in_it_is_left_alone(void **state)
{
    (void)state;
    const char *models[] = {at("tiny.gguf")};
    tiny_write(models[0], &(tiny_model){.name = "tiny"});
    elf_write(at("ferry"), 183);
    assert_int_equal(mkdir(at("ws"), 0755), 0);
    fy_create_params p = params(models, 1);
    put_text(at("ws/note"), "mine");
    refused(&p, FY_EARG, "exists and is not empty");
    assert_int_equal(count_entries(at("ws")), 1);
    assert_int_equal(unlink(at("ws/note")), 0);
    assert_int_equal(fy_create(&p, NULL, NULL), 0); /* empty is fine */
    p.dir = at("tiny.gguf");
    refused(&p, FY_EARG, "expected a new name");
}

static void the_device_program_is_looked_for_and_checked(void **state)
{
    (void)state;
    const char *models[] = {at("tiny.gguf")};
    tiny_write(models[0], &(tiny_model){.name = "tiny"});
    fy_create_params p = params(models, 1);
    refused(&p, FY_EIO, "ferry");
    p.exe_path = tmp;
    refused(&p, FY_EARG, "make TARGET=aarch64");
    p.exe_path = NULL;
    p.self = at("tree/build/host/release/ferry");
    refused(&p, FY_EARG, "make TARGET=aarch64");
    assert_int_equal(fy_mkdirs(at("tree/build/host/release"), NULL), 0);
    put_text(p.self, "");
    refused(&p, FY_EARG, "make TARGET=aarch64");
    assert_int_equal(fy_mkdirs(at("tree/build/aarch64/release"), NULL), 0);
    elf_write(at("tree/build/aarch64/release/ferry"), 62);
    refused(&p, FY_EARG, "is built for x86-64");
    elf_write(at("tree/build/aarch64/release/ferry"), 183);
    assert_int_equal(fy_create(&p, NULL, NULL), 0);
    assert_int_equal(fy_mkdirs(at("usr/libexec/ferry/aarch64"), NULL), 0);
    assert_int_equal(fy_mkdirs(at("usr/bin"), NULL), 0);
    put_text(at("usr/bin/ferry"), "");
    elf_write(at("usr/libexec/ferry/aarch64/ferry"), 183);
    p.self = at("usr/bin/ferry");
    p.dir = at("ws2");
    assert_int_equal(fy_create(&p, NULL, NULL), 0);
}

static void a_failure_leaves_nothing(void **state)
{
    (void)state;
    const char *models[] = {at("tiny.gguf"), at("bad.gguf")};
    tiny_write(models[0], &(tiny_model){.name = "tiny"});
    put_text(models[1], "GGUF");
    elf_write(at("ferry"), 183);
    fy_create_params p = params(models, 2);
    refused(&p, FY_EFORMAT, "bad.gguf");
    p.n_models = 1;
    p.model_id = "a\nb";
    refused(&p, FY_EARG, "model id");
    p.model_id = NULL;
    fy_interrupted = 1;
    refused(&p, FY_EINTR, "");
    fy_interrupted = 0;
    assert_false(fy_file_exists(at("ws")));
    assert_false(fy_file_exists(at("ws.part")));
}

static void what_a_killed_run_left_is_used_again(void **state)
{
    (void)state;
    assert_int_equal(fy_mkdirs(at("ws.part/tiny/ggml"), NULL), 0);
    put_text(at("ws.part/tiny/ggml/weights.gguf"), "half");
    ws_make("ws", &(tiny_model){.name = "tiny"});
    assert_false(fy_file_exists(at("ws.part")));
    fy_bundle b;
    assert_int_equal(fy_bundle_open(at("ws"), &b, NULL), 0);
    fy_bundle_release(&b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_layout_is_powerserves_plus_a_manifest),
        TEST(the_json_files_have_powerserves_schema),
        TEST(vocab_gguf_has_every_key_and_no_tensor),
        TEST(weights_share_the_source_unless_copy_is_asked_for),
        TEST(a_model_reached_through_a_link_is_a_file_in_the_workspace),
        cmocka_unit_test(names_are_safe_directory_names),
        TEST(models_of_one_name_get_directories_of_their_own),
        TEST(recommended_sampling_becomes_the_default),
        TEST(a_directory_with_something_in_it_is_left_alone),
        TEST(the_device_program_is_looked_for_and_checked),
        TEST(a_failure_leaves_nothing),
        TEST(what_a_killed_run_left_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
