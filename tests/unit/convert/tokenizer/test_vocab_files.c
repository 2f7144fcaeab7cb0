/* Directories whose tokenizer is vocab.json and merges.txt alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "base/file.h"
#include "convert/tokenizer/hf_tokenizer.h"
#include "model/vocab/vocab.h"

static char dir[64], out_path[96];

static const char *const names[] = {"vocab.json",       "merges.txt",
                                    "config.json",      "tokenizer_config.json",
                                    "out.gguf",         "special_tokens_map.json",
                                    "added_tokens.json"};

static void put(const char *name, const char *text)
{
    char path[128];
    fy_err e = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(fy_file_write(path, text, strlen(text), &e), 0);
}

static int clear_directory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    put("vocab.json", "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"a\":3,\"b\":4,\"\\u0120\":5,\"ab\":6}");
    put("merges.txt", "#version: 0.2\na b\n");
    put("tokenizer_config.json", "{\"tokenizer_class\":\"GPT2Tokenizer\",\"bos_token\":\"</s>\","
                                 "\"eos_token\":{\"content\":\"</s>\",\"rstrip\":false},"
                                 "\"add_bos_token\":true}");
    return 0;
}

static int make_directory(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.40s/ferry-voc-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(out_path, sizeof out_path, "%s/out.gguf", dir);
    return 0;
}

static int remove_directory(void **state)
{
    clear_directory(state);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

static int write_gguf(const char *force, fy_err *e)
{
    fy_hf_tokenizer *t = fy_hf_tokenizer_open(dir, force, e);
    fy_gguf_writer *w = t != NULL ? fy_gguf_writer_new(e) : NULL;
    int rc = -1;
    if (w != NULL && fy_gguf_add_str(w, "general.architecture", FY_SPAN("opt"), e) == 0 &&
        fy_hf_tokenizer_write(t, 0, w, e) == 0)
        rc = fy_gguf_write(w, out_path, NULL, NULL, NULL, NULL, e);
    fy_gguf_writer_free(w);
    fy_hf_tokenizer_free(t);
    return rc;
}

static fy_gguf *convert(const char *force)
{
    fy_err e = {0};
    if (write_gguf(force, &e) != 0)
        fail_msg("%s", e.msg);
    fy_gguf *g = fy_gguf_open(out_path, &e);
    assert_non_null(g);
    return g;
}

static void fails_with(fy_code code, const char *text)
{
    fy_err e = {0};
    assert_int_equal(write_gguf(NULL, &e), -1);
    if (e.code != code || strstr(e.msg, text) == NULL)
        fail_msg("code %d, '%s' does not contain '%s'", (int)e.code, e.msg, text);
}

static void has_str(const fy_gguf *g, const char *key, const char *want)
{
    fy_span s = {NULL, 0};
    int rc = fy_gguf_get_str(g, key, &s, NULL);
    assert_int_equal(rc, want != NULL ? 0 : 1);
    if (want != NULL)
        assert_true(fy_span_is(s, want));
}

static void encodes(const fy_gguf *g, const char *text, const int32_t *ids, size_t n)
{
    fy_err e = {0};
    fy_ids found = {0};
    fy_vocab *v = fy_vocab_load(g, &e);
    assert_non_null(v);
    assert_int_equal(fy_vocab_encode(v, fy_span_of(text), true, true, &found, &e), 0);
    assert_int_equal(found.n, n);
    assert_memory_equal(found.id, ids, n * sizeof *ids);
    fy_ids_release(&found);
    fy_vocab_free(v);
}

static void the_two_files_are_a_byte_level_tokenizer(void **state)
{
    (void)state;
    static const int32_t ids[] = {2, 6, 5, 6, 2};
    fy_gguf *g = convert(NULL);
    has_str(g, "tokenizer.ggml.model", "gpt2");
    has_str(g, "tokenizer.ggml.pre", "gpt-2");
    has_str(g, FY_KEY_NORMALIZER, NULL);
    encodes(g, "ab ab</s>", ids, 5);
    fy_gguf_close(g);
}

static int64_t type_of(const fy_gguf *g, uint32_t id)
{
    return fy_gguf_int_at(fy_gguf_find(g, "tokenizer.ggml.token_type"), id);
}

static void tokens_that_a_file_names_are_control_tokens(void **state)
{
    (void)state;
    put("special_tokens_map.json",
        "{\"pad_token\":\"<pad>\",\"additional_special_tokens\":[\"b\",7,\"absent\"]}");
    fy_gguf *g = convert(NULL);
    static const int64_t types[] = {FY_TOKEN_NORMAL, FY_TOKEN_CONTROL, FY_TOKEN_CONTROL,
                                    FY_TOKEN_NORMAL, FY_TOKEN_CONTROL, FY_TOKEN_NORMAL,
                                    FY_TOKEN_NORMAL};
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++)
        assert_int_equal(type_of(g, i), types[i]);
    fy_gguf_close(g);
}

static void added_tokens_go_after_the_vocabulary(void **state)
{
    (void)state;
    put("added_tokens.json", "{\"<|x|>\":8}");
    put("config.json", "{\"model_type\":\"opt\",\"vocab_size\":10}");
    fy_gguf *g = convert(NULL);
    assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.tokens")->count, 10);
    assert_int_equal(type_of(g, 7), FY_TOKEN_UNUSED);
    assert_int_equal(type_of(g, 8), FY_TOKEN_CONTROL);
    fy_gguf_close(g);
}

static void the_class_defines_how_words_are_cut(void **state)
{
    (void)state;
    put("tokenizer_config.json", "{\"tokenizer_class\":\"Qwen2TokenizerFast\"}");
    fy_gguf *g = convert(NULL);
    has_str(g, "tokenizer.ggml.pre", "qwen2");
    has_str(g, FY_KEY_NORMALIZER, "nfc");
    fy_gguf_close(g);
    put("tokenizer_config.json", "{}");
    put("config.json", "{\"model_type\":\"opt\"}");
    g = convert(NULL);
    has_str(g, "tokenizer.ggml.pre", "gpt-2");
    fy_gguf_close(g);
    put("config.json", "{\"model_type\":\"other\"}");
    fails_with(FY_EUNSUPPORTED, "model_type 'other' is not one of GPT2Tokenizer");
    g = convert("qwen2"); /* forced: nothing says that it composes */
    has_str(g, "tokenizer.ggml.pre", "qwen2");
    has_str(g, FY_KEY_NORMALIZER, "none");
    fy_gguf_close(g);
}

static void what_cannot_be_read_is_said(void **state)
{
    (void)state;
    put("merges.txt", "#version: 0.2\na b\nab\n");
    fails_with(FY_EFORMAT, "merges.txt: line 3: 'ab', expected two texts");
    put("merges.txt", "a b\nb a\n");
    fails_with(FY_EFORMAT, "merges.txt: merges[1]: 'b' 'a': the result is not a token");
    put("merges.txt", "<!DOCTYPE html><html>");
    fails_with(FY_EFORMAT, "an HTML page");
    put("merges.txt", "a b\n");
    put("vocab.json", "[]");
    fails_with(FY_EFORMAT, "vocab.json: expected an object");
    put("vocab.json", "{\"a\":0,\"b\":0}");
    fails_with(FY_EFORMAT, "vocab.json: id 0: taken by two tokens");
    put("vocab.json", "{\"a\":0,\"b\":1,\"ab\":2}");
    put("tokenizer_config.json",
        "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":true}");
    fails_with(FY_EUNSUPPORTED, "add_prefix_space is true");
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    bool failed = true;
    put("special_tokens_map.json", "{\"additional_special_tokens\":[\"<pad>\"]}");
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_hf_tokenizer *t = fy_hf_tokenizer_open(dir, NULL, &e);
        fy_gguf_writer *w = t != NULL ? fy_gguf_writer_new(&e) : NULL;
        int rc = w != NULL ? fy_hf_tokenizer_write(t, 0, w, &e) : -1;
        failed = alloc_fail_end();
        if (rc != (failed ? -1 : 0) || e.code != (failed ? FY_ENOMEM : FY_OK))
            fail_msg("allocation %ld: %d, %s", n, rc, e.msg);
        fy_gguf_writer_free(w);
        fy_hf_tokenizer_free(t);
    }
}

#define TEST(f) cmocka_unit_test_setup(f, clear_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_two_files_are_a_byte_level_tokenizer),
        TEST(tokens_that_a_file_names_are_control_tokens),
        TEST(added_tokens_go_after_the_vocabulary),
        TEST(the_class_defines_how_words_are_cut),
        TEST(what_cannot_be_read_is_said),
        TEST(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
