/* The tokenize verb as a user calls it, against the answers of reference tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "cli/verb.h"
#include "tests/unit/vocab/small_vocab.h"
#include "program/program.h"

extern const fy_verb fy_verb_tokenize;

static char tmp_dir[] = "/tmp/ferry-test-XXXXXX";
static char out_path[64], in_path[64], model_path[64], json_path[64];

static int make_tmp(void **state)
{
    (void)state;
    if (mkdtemp(tmp_dir) == NULL)
        return -1;
    snprintf(out_path, sizeof out_path, "%s/out", tmp_dir);
    snprintf(in_path, sizeof in_path, "%s/in", tmp_dir);
    snprintf(model_path, sizeof model_path, "%s/small.gguf", tmp_dir);
    snprintf(json_path, sizeof json_path, "%s/parity.json", tmp_dir);
    small_vocab b = {0};
    fy_str file = {0};
    small_bpe(&b, "gpt-2");
    small_file(&b, &file);
    int rc = fy_file_write(model_path, file.ptr, file.len, NULL);
    fy_str_release(&file);
    fy_str_release(&b.keys);
    return rc;
}

static int remove_tmp(void **state)
{
    (void)state;
    const char *const files[] = {out_path, in_path, model_path, json_path};
    for (size_t i = 0; i < 4; i++)
        unlink(files[i]);
    return rmdir(tmp_dir);
}

/* Runs `ferry tokenize` with these words and this standard input; *out is what it wrote. Returns
 * the exit status. */
static int tokenize(const char *const *words, const char *input, fy_str *out, fy_err *e)
{
    char *argv[12];
    int argc = 0, n_args;
    for (; words[argc] != NULL; argc++)
        argv[argc] = strdup(words[argc]);
    char *words_to_free[12];
    memcpy(words_to_free, argv, sizeof argv);
    assert_int_equal(fy_file_write(in_path, input, strlen(input), NULL), 0);
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    assert_non_null(freopen(in_path, "r", stdin));
    FILE *f = fopen(out_path, "w+");
    assert_non_null(f);
    dup2(fileno(f), STDOUT_FILENO);
    void *opts = calloc(1, fy_verb_tokenize.opts_bytes);
    bool help;
    int rc = fy_opts_parse(fy_verb_tokenize.opts, fy_verb_tokenize.n_opts, opts, argc, argv,
                           &n_args, &help, e);
    if (rc == 0)
        rc = fy_verb_tokenize.run(opts, n_args, argv, e);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    char buf[4096];
    rewind(f);
    for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;)
        fy_str_add(out, buf, n);
    fclose(f);
    free(opts);
    for (int i = 0; i < argc; i++)
        free(words_to_free[i]);
    return rc == 0 ? 0 : fy_exit_status(e->code);
}

static void assert_prints(const char *const *words, const char *input, const char *expected)
{
    fy_err e = {0};
    fy_str out = {0};
    assert_int_equal(tokenize(words, input, &out, &e), 0);
    assert_string_equal(fy_str_z(&out), expected);
    fy_str_release(&out);
}

static void assert_fails(const char *const *words, const char *input, int status,
                         const char *message)
{
    fy_err e = {0};
    fy_str out = {0};
    assert_int_equal(tokenize(words, input, &out, &e), status);
    assert_non_null(strstr(e.msg, message));
    fy_str_release(&out);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void text_comes_from_the_argument_or_from_standard_input(void **state)
{
    (void)state;
    assert_prints(WORDS("-m", model_path, "abc a<s>"), "", "9 10 14\n");
    assert_prints(WORDS("-m", model_path), "abc", "9\n");
    assert_prints(WORDS("-m", model_path, "-"), "", "\n");
    assert_prints(WORDS("-m", model_path, "--no-parse-special", "a<s>b"), "", "0 1\n");
    assert_fails(WORDS("abc"), "", 2, "-m FILE.gguf");
    assert_fails(WORDS("-m", "/nonexistent.gguf", "abc"), "", 1, "/nonexistent.gguf");
    assert_fails(WORDS("-m", model_path, "--jsonl", "abc"), "", 2, "takes no text");
}

static void json_lines_are_answered_one_by_one(void **state)
{
    (void)state;
    assert_prints(WORDS("-m", model_path, "--jsonl"),
                  "{\"text\":\"abc\"}\n\n{\"text\":\"<s>\\u00e9\",\"parse_special\":false}\n{"
                  "\"text\":\"<s>\"}",
                  "{\"ids\":[9],\"decoded\":\"abc\"}\n{\"ids\":[21],\"decoded\":\"\xC3\xA9\"}\n"
                  "{\"ids\":[14],\"decoded\":\"<s>\"}\n");
    /* the lone first half of a character decodes to a replacement character: the output stays JSON
     */
    assert_prints(WORDS("-m", model_path, "--jsonl"), "{\"text\":\"\\u00c3\xC3\xA8\"}\n",
                  "{\"ids\":[19,19],\"decoded\":\"\xEF\xBF\xBD\xEF\xBF\xBD\"}\n");
    assert_fails(WORDS("-m", model_path, "--jsonl"), "{\"text\":\"a\"}\nnonsense\n", 1, "line 2: ");
    assert_fails(WORDS("-m", model_path, "--jsonl"), "{\"text\":1}\n", 1,
                 "line 1: expected an object with a string");
    assert_fails(WORDS("-m", model_path, "--jsonl"), "{\"text\":\"\",\"add_special\":1}\n", 1,
                 "\"add_special\"");
}

static void differences_are_counted_and_named(void **state)
{
    (void)state;
    static const char good[] =
        "{\"cases\":[{\"text\":\"abc\",\"ids\":[9],\"ids_special\":[9],\"decoded\":\"abc\"}],"
        "\"specials_parsed\":[{\"text\":\"a<s>\",\"ids\":[0,14],\"ids_plain\":[0]}]}";
    static const char bad[] =
        "{\"tokenizer_cases\":[{\"text\":\"abc\",\"ids\":[9],\"ids_with_special\":[14,9]},"
        "{\"text\":\"ab\",\"ids\":[7,3],\"decoded\":\"abd!\"}]}";
    const char *const *words = WORDS("-m", model_path, "--verify", json_path);
    assert_int_equal(fy_file_write(json_path, good, sizeof good - 1, NULL), 0);
    assert_prints(words, "", "5 comparisons, 0 differ\n");
    assert_int_equal(fy_file_write(json_path, bad, sizeof bad - 1, NULL), 0);
    fy_err e = {0};
    fy_str out = {0};
    assert_int_equal(tokenize(words, "", &out, &e), 4);
    assert_string_equal(
        fy_str_z(&out),
        "tokenizer_cases[0].ids_with_special of \"abc\": position 0: expected 14 9, found 9\n"
        "tokenizer_cases[1].ids of \"ab\": position 1: expected 3, found the end\n"
        "tokenizer_cases[1].decoded of \"abd!\": found \"abd\"\n"
        "4 comparisons, 3 differ\n");
    fy_str_release(&out);
    assert_int_equal(fy_file_write(json_path, "{}", 2, NULL), 0);
    assert_fails(words, "", 1, "neither \"cases\"");
    assert_int_equal(
        fy_file_write(json_path, "{\"cases\":[{\"text\":\"\",\"ids\":[-1]}]}", 34, NULL), 0);
    assert_fails(words, "", 1, "cases[0]: ids[0] is not a token id");
}

/* Every case of `reference` through the tokenizer of `dir`, which the convert verb reads first. */
static void verify(const char *model, const char *reference)
{
    fy_err e = {0};
    fy_str out = {0};
    int status = tokenize(WORDS("-m", model, "--verify", reference), "", &out, &e);
    if (status != 0)
        print_error("%s\n%s\n", e.msg, fy_str_z(&out));
    assert_int_equal(status, 0);
    assert_non_null(strstr(fy_str_z(&out), " comparisons, 0 differ\n"));
    assert_int_not_equal(out.ptr[0], '0');
    fy_str_release(&out);
}

static void verify_fixture(void **state)
{
    char dir[96], golden[128];
    snprintf(dir, sizeof dir, "tests/data/families/%s", (const char *)*state);
    snprintf(golden, sizeof golden, "%s/golden.json", dir);
    verify(dir, golden);
}

static void verify_real(void **state)
{
    const char *const *names =
        *state; /* the tokenizer's place and its reference below the data directory */
    const char *root = getenv("FERRY_REAL");
    char *model = fy_path_join(root != NULL ? root : "../shared/real", names[0]);
    char *reference = fy_path_join(root != NULL ? root : "../shared/real", names[1]);
    bool there = fy_file_exists(model) && fy_file_exists(reference);
    if (there)
        verify(model, reference);
    free(model);
    free(reference);
    if (!there)
        skip();
}

/* The same without one kind of answers, which is not what the model's own tokenizer does. */
static void verify_real_without(void **state)
{
    const char *const *names = *state; /* the tokenizer, and the key of the answers */
    const char *root = getenv("FERRY_REAL");
    static const char *const lists[] = {"cases", "specials_parsed"};
    char *tokenizers = fy_path_join(root != NULL ? root : "../shared/real", "tokenizers");
    char *dir = fy_path_join(tokenizers, names[0]), *reference = fy_path_join(dir, "parity.json");
    bool there = fy_file_exists(reference);
    if (there) {
        json_t *answers = fy_json_data_file(reference, NULL);
        for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
            json_t *list = json_object_get(answers, lists[l]);
            for (size_t i = 0; i < json_array_size(list); i++)
                json_object_del(json_array_get(list, i), names[1]);
        }
        assert_int_equal(json_dump_file(answers, json_path, 0), 0);
        json_decref(answers);
        verify(dir, json_path);
    }
    free(tokenizers);
    free(dir);
    free(reference);
    if (!there)
        skip();
}

/* A vocabulary file that llama.cpp's converter wrote, with the answers its own tests expect. */
static void verify_peer(void **state)
{
    const char *name = *state, *root = getenv("FERRY_REAL");
    char *dir = fy_path_join(root != NULL ? root : "../shared/real", "tokenizers/llama.cpp-vocab");
    char *answers = fy_path_join(dir, "parity.json"), file[96];
    snprintf(file, sizeof file, "ggml-vocab-%s.gguf", name);
    char *model = fy_path_join(dir, file);
    bool there = fy_file_exists(model) && fy_file_exists(answers);
    if (there) {
        json_t *root_json = fy_json_data_file(answers, NULL);
        json_t *one = json_object_get(json_object_get(root_json, "vocabs"), name);
        assert_int_equal(json_dump_file(one, json_path, 0), 0);
        verify(model, json_path);
        json_decref(root_json);
    }
    free(model);
    free(answers);
    free(dir);
    if (!there)
        skip();
}

/* clang-format off */
#define PEER(name) \
    {"ids_equal_llama_cpp_s_for_its_vocabulary_" name, verify_peer, NULL, NULL,                        \
     (void *)(uintptr_t)name}
#define FIXTURE(name) \
    {"ids_equal_the_reference_in_fixture_" name, verify_fixture, NULL, NULL,                        \
     (void *)(uintptr_t)name}
#define REAL(name, dir, json) \
    {"ids_equal_the_reference_for_real_" name, verify_real, NULL, NULL,                            \
     (void *)(uintptr_t)(const char *const[]){dir, json}}
#define HF(name) REAL(name, "tokenizers/" name, "tokenizers/" name "/parity.json")
#define HF_WITHOUT(name, key) \
    {"ids_equal_the_reference_for_real_" name, verify_real_without, NULL, NULL,                    \
     (void *)(uintptr_t)(const char *const[]){name, key}}

int main(void)
{
    fy_program_set(&fy_ferry);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_comes_from_the_argument_or_from_standard_input),
        cmocka_unit_test(json_lines_are_answered_one_by_one),
        cmocka_unit_test(differences_are_counted_and_named),
        FIXTURE("llama"), FIXTURE("llama-bias"), FIXTURE("llama-linear"), FIXTURE("llama-sharded"),
        FIXTURE("llama-yarn"), FIXTURE("llama3"), FIXTURE("llama3-v5cfg"), FIXTURE("mistral"),
        FIXTURE("qwen2"), FIXTURE("qwen2-yarn"), FIXTURE("qwen3"), FIXTURE("smollm2"),
        HF("gpt2"), HF("llama2"), HF("llama3_2"), HF("qwen2_5"), HF("qwen3"), HF("granite-code"),
        HF("litert-lm"), HF("gemma"), HF("phi3"), HF("falcon"), HF("mistral_nemo"),
        HF("qwen2-gpt2style"),
        /* what the conversion to tokenizer.json left there adds <s>, the class does not */
        HF_WITHOUT("chatglm3", "ids_special"),
        HF_WITHOUT("deepseek_v3", "ids_special"), /* the class adds BOS, tokenizer.json does not */
        HF_WITHOUT("internlm2", "ids_plain"), /* merging never makes a control token here */
        REAL("stories260K", "stories260K-hf-f32", "stories260K/parity.json"),
        PEER("gpt-2"), PEER("llama-spm"), PEER("falcon"), PEER("mpt"), PEER("phi-3"), PEER("refact"), PEER("starcoder"),
    };
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
