#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/log.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "tests/unit/workspace/ws_fixture.h"

#include "tests/unit/workspace/qnn_fixture.h"
#include "workspace/pack/manifest.h"

static fy_verify_report verify(const char *dir)
{
    fy_err e = {0};
    fy_verify_report r;
    if (fy_verify(dir, NULL, 2, NULL, &r, &e) != 0)
        fail_msg("%s", e.msg);
    return r;
}

/* Exactly this finding. */
static void finds(const char *path, const char *says)
{
    fy_verify_report r = verify(at("ws"));
    if (r.n != 1 || strcmp(r.finding[0].path, path) != 0 || strstr(r.finding[0].text, says) == NULL)
        fail_msg("expected %s: %s; got %zu: %s: %s", path, says, r.n,
                 r.n > 0 ? r.finding[0].path : "", r.n > 0 ? r.finding[0].text : "");
    fy_verify_report_release(&r);
}

static void an_intact_workspace_has_no_findings(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    fy_verify_report r = verify(at("ws"));
    assert_int_equal(r.n, 0);
    assert_int_equal(r.n_files, 6);
    struct stat st;
    assert_int_equal(stat(at("tiny.gguf"), &st), 0);
    assert_true(r.bytes > (uint64_t)st.st_size);
    fy_verify_report_release(&r);
}

static void a_changed_byte_names_its_file(void **state)
{
    (void)state;
    static const char *const names[] = {
        "bin/ferry",       "hparams.json",    "tiny/ggml/weights.gguf",
        "tiny/model.json", "tiny/vocab.gguf", "workspace.json"};
    ws_make("ws", &(tiny_model){.name = "tiny"});
    for (size_t i = 0; i < 6; i++) {
        char path[64];
        snprintf(path, sizeof path, "ws/%s", names[i]);
        flip_byte(at(path), i % 2 == 0 ? -1 : 3);
        finds(names[i], "changed: SHA-256 differs");
        flip_byte(at(path), i % 2 == 0 ? -1 : 3);
    }
}

static void in_a_large_file_the_changed_block_is_named(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny", .n_vocab = 40000});
    struct stat st;
    assert_int_equal(stat(at("ws/tiny/ggml/weights.gguf"), &st), 0);
    assert_true(st.st_size > FY_MANIFEST_BLOCK);
    flip_byte(at("ws/tiny/ggml/weights.gguf"), FY_MANIFEST_BLOCK);
    char says[64];
    snprintf(says, sizeof says, "first in bytes %u to %lld", FY_MANIFEST_BLOCK,
             (long long)st.st_size - 1);
    finds("tiny/ggml/weights.gguf", says);
}

static void any_changed_byte_of_the_manifest_is_found(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    size_t n;
    char *text = get_file(at("ws/manifest.json"), &n);
    for (size_t i = 0; i < n; i += 7) {
        fy_verify_report r;
        fy_err e = {0};
        text[i] ^= 1;
        put_file(at("ws/manifest.json"), text, n);
        text[i] ^= 1;
        if (fy_verify(at("ws"), NULL, 1, NULL, &r, &e) !=
            0) { /* only another format version ends the check */
            assert_says(&e, "format_version");
            continue;
        }
        if (r.n == 0)
            fail_msg("byte %zu of the manifest", i);
        fy_verify_report_release(&r);
    }
    free(text);
}

static void missing_and_unlisted_files_are_named(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    put_text(at("ws/tiny/ggml/notes"), "x");
    finds("tiny/ggml/notes", "not listed");
    assert_int_equal(unlink(at("ws/tiny/ggml/notes")), 0);
    assert_int_equal(symlink("/etc", at("ws/etc")), 0);
    finds("etc", "not listed");
    assert_int_equal(unlink(at("ws/etc")), 0);
    assert_int_equal(rename(at("ws/hparams.json"), at("hparams.json")), 0);
    finds("hparams.json", "missing");
    assert_int_equal(symlink(at("hparams.json"), at("ws/hparams.json")), 0);
    finds("hparams.json", "symbolic link");
    assert_int_equal(unlink(at("ws/hparams.json")), 0);
    assert_int_equal(mkfifo(at("ws/hparams.json"), 0600), 0);
    finds("hparams.json", "not a regular file");
}

static void a_directory_that_no_file_needs_is_named(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    assert_int_equal(mkdir(at("ws/empty"), 0755), 0);
    finds("empty/", "not listed");
    assert_int_equal(mkdir(at("ws/empty/below"), 0755), 0);
    finds("empty/below/", "not listed");
    put_text(at("ws/empty/file"), "x");
    assert_int_equal(rmdir(at("ws/empty/below")), 0);
    finds("empty/file", "not listed");
    assert_int_equal(unlink(at("ws/empty/file")) + rmdir(at("ws/empty")), 0);
    /* names next to those of listed files' directories */
    static const char *const near[] = {"ws/tiny/ggm", "ws/tiny/ggml-", "ws/tiny/ggml0", "ws/bi"};
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/", near[i] + 3);
        assert_int_equal(mkdir(at(near[i]), 0755), 0);
        finds(name, "not listed");
        assert_int_equal(rmdir(at(near[i])), 0);
    }
}

/* A program that starts with its owner's rights, a file that anybody may change. */
static void modes_that_nobody_listed_are_named(void **state)
{
    (void)state;
    static const mode_t bad[] = {04755, 02755, 01755, 0777, 0757};
    static const mode_t good[] = {0755, 0700, 0775, 0500};
    ws_make("ws", &(tiny_model){.name = "tiny"});
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char says[64];
        snprintf(says, sizeof says, "mode %04o, the manifest lists 0755", (unsigned)bad[i]);
        assert_int_equal(chmod(at("ws/bin/ferry"), bad[i]), 0);
        finds("bin/ferry", says);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(chmod(at("ws/bin/ferry"), good[i]), 0);
        fy_verify_report r = verify(at("ws"));
        assert_int_equal(r.n, 0);
        fy_verify_report_release(&r);
    }
    assert_int_equal(chmod(at("ws/hparams.json"), 0666), 0);
    finds("hparams.json", "mode 0666, the manifest lists 0644");
}

static void a_program_that_cannot_start_is_named(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    assert_int_equal(chmod(at("ws/bin/ferry"), 0644), 0);
    finds("bin/ferry", "mode 0644, the manifest lists 0755");
    elf_write(at("x86"), 62);
    ws_replace_with("ws", "bin/ferry", at("x86"));
    assert_int_equal(chmod(at("ws/bin/ferry"), 0755), 0);
    finds("bin/ferry", "is built for x86-64");
}

static void files_that_contradict_each_other_are_named(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    size_t n;
    char *text = get_file(at("ws/tiny/model.json"), &n);
    char *at_layers = strstr(text, "\"n_layers\": 1");
    at_layers[12] = '2';
    ws_replace("ws", "tiny/model.json", text, n);
    finds("tiny/model.json", "n_layers is 2, the weights say 1");
    at_layers[12] = '1';
    ws_replace("ws", "tiny/model.json", text, n);
    free(text);
    tiny_write(at("other.gguf"), &(tiny_model){.name = "tiny", .n_vocab = 49});
    ws_replace_with("ws", "tiny/vocab.gguf", at("other.gguf"));
    finds("tiny/model.json", "vocab.gguf holds");
    ws_make("other", &(tiny_model){.name = "tiny", .n_vocab = 49});
    ws_replace_with("ws", "tiny/vocab.gguf", at("other/tiny/vocab.gguf"));
    finds("tiny/model.json", "vocab.gguf has 49 tokens, the weights' embedding has 48 rows");
    ws_replace("ws", "tiny/vocab.gguf", "GGUF", 4);
    finds("tiny/model.json", "vocab.gguf");
    ws_replace("ws", "workspace.json", "{}", 2);
    ws_replace_with("ws", "tiny/vocab.gguf", at("ws/tiny/ggml/weights.gguf"));
    finds("tiny/model.json", "holds");
}

/* A file that the manifest lists too, with this mode. */
static void add_file(const char *rel, const void *p, size_t n, uint32_t mode)
{
    fy_manifest m;
    fy_str s = {0};
    fy_digest d = {.bytes = n};
    char path[128];
    snprintf(path, sizeof path, "ws/%s", rel);
    char *dir = strdup(at(path));
    *strrchr(dir, '/') = '\0';
    assert_int_equal(fy_mkdirs(dir, NULL), 0);
    free(dir);
    put_file(at(path), p, n);
    assert_int_equal(chmod(at(path), mode), 0);
    assert_int_equal(fy_sha256_of(p, n, d.sha256, NULL), 0);
    assert_int_equal(fy_manifest_read(at("ws"), &m, NULL), 0);
    assert_int_equal(fy_manifest_add(&m, rel, mode, &d, NULL), 0);
    assert_int_equal(fy_manifest_text(&m, &s, NULL), 0);
    put_file(at("ws/manifest.json"), s.ptr, s.len);
    fy_str_release(&s);
    fy_manifest_release(&m);
}

static void programs_and_libraries_are_noted_or_refused(void **state)
{
    (void)state;
    size_t n;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    fy_verify_report r = verify(at("ws"));
    assert_int_equal(r.n_notes, 1);
    assert_string_equal(r.note[0].path, "bin/ferry");
    assert_string_equal(r.note[0].text, "aarch64, static");
    fy_verify_report_release(&r);
    add_file("bin/README", "words", 5, 0644);
    add_file("bin/start.sh", "#!/system/bin/sh\n", 17, 0755);
    elf_write(at("dsp"), 164);
    char *dsp = get_file(at("dsp"), &n);
    add_file("qnn_libs/libSkel.so", dsp, n, 0644);
    r = verify(at("ws"));
    if (r.n > 0)
        fail_msg("%s: %s", r.finding[0].path, r.finding[0].text);
    assert_int_equal(r.n_notes, 3);
    assert_string_equal(r.note[1].text, "script");
    assert_string_equal(r.note[2].text, "library for the Hexagon DSP");
    fy_verify_report_release(&r);
    add_file("bin/dsp", dsp, n, 0755);
    free(dsp);
    finds("bin/dsp", "is built for the Hexagon DSP, expected aarch64");
    elf_write(at("x86"), 62);
    ws_replace_with("ws", "qnn_libs/libSkel.so", at("x86"));
    ws_replace_with("ws", "bin/dsp", at("ferry"));
    finds("qnn_libs/libSkel.so", "is built for x86-64");
    ws_replace("ws", "qnn_libs/libSkel.so", "text", 4);
    finds("qnn_libs/libSkel.so", "not a program (no ELF header)");
    ws_replace_with("ws", "qnn_libs/libSkel.so", at("ferry"));
    ws_replace("ws", "bin/ferry", "#!/bin/sh\n", 10);
    finds("bin/ferry", "is a script, expected an aarch64 program");
}

static void an_npu_package_must_fit_its_model(void **state)
{
    (void)state;
    static const char zeros[11 * 16 * 4];
    ws_make("ws", &(tiny_model){.name = "tiny"}); /* one layer, a KV head of 16 elements */
    add_file("tiny/qnn/m_0.bin", "binary", 6, 0644);
    finds("tiny/qnn/config.json", "config.json: missing");
    static const char config[] =
        "{" QNN_PARAMETERS ", \"graphs\": [" QNN_GRAPH("1", "0", "1", "m_0.bin") "]}";
    add_file("tiny/qnn/config.json", config, strlen(config), 0644);
    finds("tiny/qnn/config.json", "model_parameters.n_layers is 2, model.json says n_layers 1");
    char *fits = qnn_changed(config, "\"n_layers\": 2, ", "");
    ws_replace("ws", "tiny/qnn/config.json", fits, strlen(fits));
    finds("tiny/qnn/config.json", "kv/layer_0_key_0.raw: missing");
    add_file("tiny/qnn/kv/layer_0_key_0.raw", zeros, sizeof zeros, 0644);
    add_file("tiny/qnn/kv/layer_0_value_0.raw", zeros, sizeof zeros - 4, 0644);
    finds("tiny/qnn/config.json", "layer_0_value_0.raw: 700 bytes, expected 704");
    ws_replace("ws", "tiny/qnn/kv/layer_0_value_0.raw", zeros, sizeof zeros);
    fy_verify_report r = verify(at("ws"));
    assert_int_equal(r.n, 0);
    fy_verify_report_release(&r);
    free(fits);
}

static void keys_of_the_vocabulary_must_be_those_of_the_weights(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    ws_make("other", &(tiny_model){.name = "tiny"});
    size_t n;
    char *vocab = get_file(at("ws/tiny/vocab.gguf"), &n);
    char *token = memmem(vocab, n, "t47", 3);
    assert_non_null(token);
    token[1] = '9';
    ws_replace("ws", "tiny/vocab.gguf", vocab, n);
    finds("tiny/model.json",
          "tokenizer.ggml.tokens differs between vocab.gguf and ggml/weights.gguf");
    token[1] = '4';
    memcpy(memmem(vocab, n, "tokenizer.ggml.tokens", 21), "tokenizer.ggml.other_", 21);
    ws_replace("ws", "tiny/vocab.gguf", vocab, n);
    finds("tiny/model.json", "tokenizer.ggml.other_ is in vocab.gguf and not in ggml/weights.gguf");
    free(vocab);
}

static void two_models_of_one_id_are_named(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    static const char *const files[] = {"ggml/weights.gguf", "model.json", "vocab.gguf"};
    for (size_t i = 0; i < 3; i++) {
        char from[64], to[64];
        size_t n;
        snprintf(from, sizeof from, "ws/tiny/%s", files[i]);
        snprintf(to, sizeof to, "zwei/%s", files[i]);
        char *p = get_file(at(from), &n);
        add_file(to, p, n, 0644);
        free(p);
    }
    finds("zwei/model.json", "has the model_id of another model here");
}

static void a_directory_that_is_no_workspace_is_an_error_not_a_finding(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_verify_report r;
    assert_int_equal(fy_verify(tmp, NULL, 1, NULL, &r, &e), -1);
    assert_says(&e, "has no manifest.json");
    assert_int_equal(e.code, FY_EFORMAT);
}

static void an_interrupt_ends_the_check(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    fy_err e = {0};
    fy_verify_report r;
    fy_interrupted = 1;
    int rc = fy_verify(at("ws"), NULL, 2, NULL, &r, &e);
    fy_interrupted = 0;
    assert_int_equal(rc, -1);
    assert_int_equal(e.code, FY_EINTR);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_intact_workspace_has_no_findings),
        TEST(a_changed_byte_names_its_file),
        TEST(in_a_large_file_the_changed_block_is_named),
        TEST(any_changed_byte_of_the_manifest_is_found),
        TEST(missing_and_unlisted_files_are_named),
        TEST(a_directory_that_no_file_needs_is_named),
        TEST(modes_that_nobody_listed_are_named),
        TEST(a_program_that_cannot_start_is_named),
        TEST(files_that_contradict_each_other_are_named),
        TEST(programs_and_libraries_are_noted_or_refused),
        TEST(an_npu_package_must_fit_its_model),
        TEST(keys_of_the_vocabulary_must_be_those_of_the_weights),
        TEST(two_models_of_one_id_are_named),
        TEST(a_directory_that_is_no_workspace_is_an_error_not_a_finding),
        TEST(an_interrupt_ends_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
