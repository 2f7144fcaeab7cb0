#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "format/gguf.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/npu/soc_table.h"
#include "workspace/pack/staging.h"

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

/* Its owner could change what is checked there. */
static void the_part_of_another_user_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(at("ws.part"), 0777), 0);
    assert_int_equal(chown(at("ws.part"), 65534, 65534), 0);
    assert_null(fy_staging_open(at("ws"), &e));
    assert_says(&e, "ws.part: belongs to another user");
}

/* A hard link would take the mode along, which verify refuses. */
static void weights_that_others_may_write_are_copied(void **state)
{
    (void)state;
    struct stat st;
    tiny_write(at("tiny.gguf"), &(tiny_model){.name = "tiny"});
    assert_int_equal(chmod(at("tiny.gguf"), 0666), 0);
    const char *models[] = {at("tiny.gguf")};
    elf_write(at("ferry"), 183);
    fy_create_params p = params(models, 1);
    fy_err e = {0};
    fy_verify_report r;
    if (fy_create(&p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(stat(at("ws/tiny/ggml/weights.gguf"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(fy_verify(at("ws"), NULL, 1, NULL, &r, NULL), 0);
    assert_int_equal(r.n, 0);
    fy_verify_report_release(&r);
}

/* --- other runtimes --------------------------------------------------------------------------- */

/* A shared library, as far as its headers go. */
static void lib_write(const char *path, uint16_t machine)
{
    uint8_t b[120] = {0x7f, 'E',      'L',       'F',       2,        1,
                      1,    [16] = 3, [32] = 64, [54] = 56, [56] = 1, [64] = 2};
    b[18] = (uint8_t)machine;
    put_file(path, b, sizeof b);
}

static const fy_manifest_entry *entry(const fy_manifest *m, const char *path)
{
    const fy_manifest_entry *en = fy_manifest_find(m, path);
    if (en == NULL)
        fail_msg("the manifest lacks %s", path);
    return en;
}

/* tmp/runtime: a program without its execute bit, a script, a library in a directory, a text. */
static void runtime_make(void)
{
    assert_int_equal(fy_mkdirs(at("runtime/lib"), NULL), 0);
    elf_write(at("runtime/runner"), 183);
    put_text(at("runtime/start.sh"), "#!/system/bin/sh\n");
    assert_int_equal(chmod(at("runtime/start.sh"), 0700), 0);
    lib_write(at("runtime/lib/libx.so"), 183);
    put_text(at("runtime/notes.txt"), "words");
    assert_int_equal(chmod(at("runtime/notes.txt"), 0755), 0); /* as on a disk without modes */
    assert_int_equal(symlink("lib/libx.so", at("runtime/libx.so.1")), 0);
    tiny_write(at("tiny.gguf"), &(tiny_model){.name = "tiny"});
    assert_int_equal(fy_mkdirs(at("tree/build/aarch64/release"), NULL), 0);
    elf_write(at("tree/build/aarch64/release/ferry"), 183);
    put_text(at("tree/self"), "");
}

static void another_runtime_is_taken_along_with_its_command_line(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint32_t mode;
    } files[] = {{"bin/ferry", 0755},       {"bin/runner", 0755},    {"bin/start.sh", 0755},
                 {"bin/lib/libx.so", 0644}, {"bin/libx.so.1", 0644}, {"bin/notes.txt", 0644}};
    runtime_make();
    const char *models[] = {at("tiny.gguf")};
    fy_create_params p = params(models, 1);
    p.exe_path = at("runtime");
    p.exec = "A=b ./bin/runner -d . --no-qnn";
    p.self = at("tree/self");
    fy_err e = {0};
    if (fy_create(&p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    fy_manifest m;
    assert_int_equal(fy_manifest_read(at("ws"), &m, NULL), 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        assert_int_equal(entry(&m, files[i].path)->mode, files[i].mode);
    fy_manifest_release(&m);
    size_t n;
    char *text = get_file(at("ws/workspace.json"), &n);
    assert_non_null(strstr(text, "\"exec\": \"A=b ./bin/runner -d . --no-qnn\""));
    free(text);
}

static void a_single_program_may_be_the_runtime(void **state)
{
    (void)state;
    runtime_make();
    const char *models[] = {at("tiny.gguf")};
    fy_create_params p = params(models, 1);
    p.exe_path = at("runtime/runner");
    p.exec = "bin/runner";
    assert_int_equal(fy_create(&p, NULL, NULL), 0); /* without bin/ferry: none was found */
    assert_true(fy_file_exists(at("ws/bin/runner")));
    assert_false(fy_file_exists(at("ws/bin/ferry")));
}

static void the_command_line_starts_a_program_of_the_workspace(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"runner", "'runner', which it does not have"},
        {"bin/none -d .", "'bin/none', which it does not have"},
        {"/bin/sh -c x", "'/bin/sh', which it does not have"},
        {"bin/lib/libx.so", "cannot be started"},
        {"bin/notes.txt", "cannot be started"},
        {"", "begins with ''"},
        {"A=b", "expected a program"},
        {"bin/runner\n", "control character"},
    };
    runtime_make();
    const char *models[] = {at("tiny.gguf")};
    fy_create_params p = params(models, 1);
    p.exe_path = at("runtime");
    p.self = at("tree/self");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        p.exec = wrong[i][0];
        refused(&p, FY_EARG, wrong[i][1]);
    }
    p.exec = "bin/runner";
    lib_write(at("runtime/lib/liby.so"), 62);
    refused(&p, FY_EARG, "is built for x86-64");
    lib_write(at("runtime/lib/liby.so"), 164);
    refused(&p, FY_EARG, "Hexagon DSP");
    assert_int_equal(unlink(at("runtime/lib/liby.so")), 0);
    assert_int_equal(symlink("..", at("runtime/lib/up")), 0);
    refused(&p, FY_EARG, "link to a directory above");
    assert_int_equal(unlink(at("runtime/lib/up")), 0);
    put_text(at("runtime/a name.txt"), "");
    refused(&p, FY_EARG, "printable ASCII");
    assert_false(fy_file_exists(at("ws")));
}

/* --- NPU -------------------------------------------------------------------------------------- */

static void sdk_make(const char *dir)
{
    char path[512];
    static const struct {
        const char *rel;
        uint16_t machine;
    } libs[] = {{"lib/aarch64-android/libQnnHtp.so", 183},
                {"lib/aarch64-android/libQnnSystem.so", 183},
                {"lib/aarch64-android/libQnnHtpV75Stub.so", 183},
                {"lib/aarch64-android/libQnnHtpV79Stub.so", 183},
                {"lib/hexagon-v75/unsigned/libQnnHtpV75Skel.so", 164},
                {"lib/hexagon-v75/unsigned/libQnnHtpV75.so", 164}};
    snprintf(path, sizeof path, "%s/lib/aarch64-android", dir);
    assert_int_equal(fy_mkdirs(path, NULL), 0);
    snprintf(path, sizeof path, "%s/lib/hexagon-v75/unsigned", dir);
    assert_int_equal(fy_mkdirs(path, NULL), 0);
    for (size_t i = 0; i < sizeof libs / sizeof libs[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, libs[i].rel);
        lib_write(path, libs[i].machine);
    }
}

static void libraries_of_one_architecture_come_from_the_sdk(void **state)
{
    (void)state;
    static const char *const names[] = {"qnn_libs/libQnnHtp.so", "qnn_libs/libQnnHtpV75.so",
                                        "qnn_libs/libQnnHtpV75Skel.so",
                                        "qnn_libs/libQnnHtpV75Stub.so", "qnn_libs/libQnnSystem.so"};
    const char *models[] = {at("tiny.gguf")};
    tiny_write(models[0], &(tiny_model){.name = "tiny"});
    elf_write(at("ferry"), 183);
    sdk_make(at("sdk"));
    fy_create_params p = params(models, 1);
    p.htp = 75;
    assert_int_equal(unsetenv("QNN_SDK_ROOT"), 0);
    refused(&p, FY_EARG, "QNN_SDK_ROOT");
    assert_int_equal(setenv("QNN_SDK_ROOT", at("sdk"), 1), 0);
    fy_err e = {0};
    if (fy_create(&p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(count_entries(at("ws/qnn_libs")), 5);
    fy_manifest m;
    assert_int_equal(fy_manifest_read(at("ws"), &m, NULL), 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(entry(&m, names[i])->mode, 0644);
    fy_manifest_release(&m);
    size_t n;
    char *text = get_file(at("ws/workspace.json"), &n);
    assert_non_null(strstr(text, "\"htp\": \"v75\""));
    free(text);
    p.htp = 79;
    p.dir = at("ws79");
    refused(&p, FY_EARG, "libQnnHtpV79Skel.so: not found, neither as");
    refused(&p, FY_EARG, "lib/hexagon-v79/unsigned/libQnnHtpV79Skel.so");
    p.htp = 75;
    lib_write(at("sdk/lib/aarch64-android/libQnnHtp.so"), 62);
    refused(&p, FY_EARG, "x86-64");
    assert_int_equal(unlink(at("sdk/lib/aarch64-android/libQnnHtp.so")), 0);
    refused(&p, FY_EARG, "libQnnHtp.so: not found");
    p.qnn_libs = at("flat"); /* all in one directory */
    assert_int_equal(fy_mkdirs(at("flat"), NULL), 0);
    for (size_t i = 0; i < 5; i++) {
        const char *base = strrchr(names[i], '/') + 1;
        char path[512];
        snprintf(path, sizeof path, "%s/%s", at("flat"), base);
        lib_write(path, strstr(base, "V75Skel") || strstr(base, "V75.so") ? 164 : 183);
    }
    assert_int_equal(fy_create(&p, NULL, NULL), 0);
    assert_int_equal(unsetenv("QNN_SDK_ROOT"), 0);
}

static void architectures_are_known_by_name(void **state)
{
    (void)state;
    int arch = 0;
    fy_err e = {0};
    assert_int_equal(fy_htp_parse("V75", &arch, &e), 0);
    assert_int_equal(arch, 75);
    assert_int_equal(fy_htp_parse("v81", &arch, &e), 0);
    assert_int_equal(arch, 81);
    assert_int_equal(fy_htp_parse("V7", &arch, &e), -1);
    assert_says(&e, "V68, V69, V73, V75, V79 or V81");
}

/* A package as PowerServe publishes them: graphs for batches of 1 and 128, an lm_head, two preset
 * tokens; for the tiny model (1 layer, 1 kv head of 16). */
static void package_make(const char *dir)
{
    char path[512];
    static const char *const graph =
        "{\"type\": \"transformers\", \"graph_name\": \"batch_%d\", \"start_layer_id\": 0, "
        "\"end_layer_id\": 1, \"batch_size\": %d, \"cache_size\": 1920, \"context_size\": 2048, "
        "\"model_path\": \"tiny_0.bin\", \"kv_path_format\": "
        "\"kv/layer_{layer_id}_{kv_type}_{head_id}.raw\", \"kv_size\": 2, \"x_name\": \"x\", "
        "\"out_name\": \"out\"}";
    static const char *const head =
        "{\"graph_name\": \"batch_%d\", \"model_path\": \"lm_head.bin\", \"batch_size\": %d, "
        "\"x_name\": \"x\", \"out_name\": \"logits\"}";
    fy_str s = {0};
    fy_str_puts(&s, "{\"model_parameters\": {\"n_layers\": 1, \"vocab_size\": 48, \"embed_dim\": "
                    "32, \"ffn_hidden_dim\": 64, \"head_dim\": 16, \"n_kv_heads\": 1, "
                    "\"attention_mask_value\": -50000}, \"qnn_parameters\": {\"n_hvx_threads\": "
                    "4}, \"graphs\": [");
    fy_str_printf(&s, graph, 1, 1);
    fy_str_puts(&s, ", ");
    fy_str_printf(&s, graph, 128, 128);
    fy_str_puts(&s, "], \"embeddings\": [");
    fy_str_printf(&s, head, 1, 1);
    fy_str_puts(&s, ", ");
    fy_str_printf(&s, head, 128, 128);
    fy_str_puts(&s, "]}");
    snprintf(path, sizeof path, "%s/kv", dir);
    assert_int_equal(fy_mkdirs(path, NULL), 0);
    snprintf(path, sizeof path, "%s/config.json", dir);
    put_text(path, fy_str_z(&s));
    fy_str_release(&s);
    static const char *const files[] = {"tiny_0.bin", "lm_head.bin", "kv/layer_0_key_0.raw",
                                        "kv/layer_0_value_0.raw"};
    uint8_t bytes[2 * 16 * 4] = {1};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        put_file(path, bytes, sizeof bytes);
    }
}

static void expect_package(const char *ws)
{
    static const char *const names[] = {"tiny/qnn/config.json", "tiny/qnn/kv/layer_0_key_0.raw",
                                        "tiny/qnn/kv/layer_0_value_0.raw", "tiny/qnn/lm_head.bin",
                                        "tiny/qnn/tiny_0.bin"};
    fy_manifest m;
    assert_int_equal(fy_manifest_read(ws, &m, NULL), 0);
    for (size_t i = 0; i < 5; i++)
        entry(&m, names[i]);
    fy_manifest_release(&m);
    fy_verify_report r;
    fy_err e = {0};
    if (fy_verify(ws, NULL, 1, NULL, &r, &e) != 0)
        fail_msg("%s", e.msg);
    if (r.n > 0)
        fail_msg("%s: %s", r.finding[0].path, r.finding[0].text);
    fy_verify_report_release(&r);
}

static void context_binaries_are_checked_and_taken_along(void **state)
{
    (void)state;
    const char *models[] = {at("tiny.gguf")};
    tiny_write(models[0], &(tiny_model){.name = "tiny"});
    elf_write(at("ferry"), 183);
    package_make(at("out"));
    put_text(at("out/libQnnHtp.so"), "what the configuration does not name stays behind");
    fy_create_params p = params(models, 1);
    p.qnn_path = at("out");
    fy_err e = {0};
    if (fy_create(&p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    expect_package(at("ws"));
    assert_false(fy_file_exists(at("ws/tiny/qnn/libQnnHtp.so")));
    p.dir = at("ws2");
    put_text(at("out/kv/layer_0_key_0.raw"), "short");
    refused(&p, FY_EARG, "out/kv/layer_0_key_0.raw: 5 bytes, expected 128");
    assert_int_equal(unlink(at("out/kv/layer_0_key_0.raw")), 0);
    refused(&p, FY_EARG, "out/kv/layer_0_key_0.raw: missing");
    p.qnn_path = at("out/kv");
    refused(&p, FY_EARG, "has neither config.json nor qnn/config.json");
    assert_false(fy_file_exists(at("ws2")));
    assert_false(fy_file_exists(at("ws2.part")));
}

static void a_downloaded_package_is_a_model(void **state)
{
    (void)state;
    const char *models[] = {at("package")};
    assert_int_equal(fy_mkdirs(at("package/ggml"), NULL), 0);
    tiny_write(at("package/ggml/weights.gguf"), &(tiny_model){.name = "tiny"});
    elf_write(at("ferry"), 183);
    package_make(at("package/qnn"));
    fy_create_params p = params(models, 1);
    fy_err e = {0};
    if (fy_create(&p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    expect_package(at("ws"));
    p.models = (const char *const[]){at("package/qnn")};
    p.dir = at("ws2");
    p.convert = NULL;
    refused(&p, FY_EUNSUPPORTED, "is a checkpoint"); /* it has a config.json */
    p.models = (const char *const[]){at("package/qnn/kv")};
    refused(&p, FY_EARG, "neither a checkpoint");
}

/* Both are counted from the tokens that their context binaries begin with. */
static void a_draft_on_the_npu_begins_where_the_main_model_does(void **state)
{
    (void)state;
    static const char *const dirs[] = {"main", "draft"};
    char path[64];
    elf_write(at("ferry"), 183);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/ggml", dirs[i]);
        assert_int_equal(fy_mkdirs(at(path), NULL), 0);
        snprintf(path, sizeof path, "%s/ggml/weights.gguf", dirs[i]);
        tiny_write(at(path), &(tiny_model){.name = dirs[i]});
        snprintf(path, sizeof path, "%s/qnn", dirs[i]);
        package_make(at(path));
    }
    size_t n;
    char *config = get_file(at("draft/qnn/config.json"), &n);
    for (char *p = config; (p = strstr(p, "\"kv_size\": 2")) != NULL; p++)
        p[11] = '1';
    put_text(at("draft/qnn/config.json"), config);
    free(config);
    uint8_t bytes[16 * 4] = {1};
    put_file(at("draft/qnn/kv/layer_0_key_0.raw"), bytes, sizeof bytes);
    put_file(at("draft/qnn/kv/layer_0_value_0.raw"), bytes, sizeof bytes);
    const char *models[] = {at("main")};
    fy_create_params p = params(models, 1);
    p.draft = at("draft");
    refused(&p, FY_EARG,
            "the draft draft begins with 1 preset tokens (kv_size), main with 2; expected context "
            "binaries made with the same system prompt");
}

/* --- checkpoints ------------------------------------------------------------------------------ */

typedef struct {
    int n_calls;
    bool fails;
} converter;

static int convert(void *user, const char *checkpoint, const char *out, fy_err *e)
{
    converter *c = user;
    c->n_calls++;
    assert_non_null(strstr(checkpoint, "tests/data/tales"));
    assert_non_null(strstr(out, "ws.part/tales/ggml/weights.gguf"));
    if (c->fails)
        return fy_fail(e, FY_EFORMAT, "no good");
    tiny_write(out, &(tiny_model){.name = "tales"});
    return 0;
}

static void a_checkpoint_is_converted_to_where_its_weights_belong(void **state)
{
    (void)state;
    const char *models[] = {"tests/data/tales"};
    converter c = {.fails = true};
    elf_write(at("ferry"), 183);
    fy_create_params p = params(models, 1);
    p.outtype = "q4_0";
    refused(&p, FY_EUNSUPPORTED, "is a checkpoint");
    p.convert = convert;
    p.convert_user = &c;
    refused(&p, FY_EFORMAT, "no good");
    assert_false(fy_file_exists(at("ws.part")));
    c.fails = false;
    fy_err e = {0};
    if (fy_create(&p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(c.n_calls, 2);
    fy_manifest m;
    assert_int_equal(fy_manifest_read(at("ws"), &m, NULL), 0);
    assert_int_equal(entry(&m, "tales/ggml/weights.gguf")->mode, 0644);
    entry(&m, "tales/model.json");
    fy_manifest_release(&m);
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
        TEST(the_part_of_another_user_is_refused),
        TEST(weights_that_others_may_write_are_copied),
        TEST(another_runtime_is_taken_along_with_its_command_line),
        TEST(a_single_program_may_be_the_runtime),
        TEST(the_command_line_starts_a_program_of_the_workspace),
        TEST(libraries_of_one_architecture_come_from_the_sdk),
        cmocka_unit_test(architectures_are_known_by_name),
        TEST(context_binaries_are_checked_and_taken_along),
        TEST(a_downloaded_package_is_a_model),
        TEST(a_draft_on_the_npu_begins_where_the_main_model_does),
        TEST(a_checkpoint_is_converted_to_where_its_weights_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
