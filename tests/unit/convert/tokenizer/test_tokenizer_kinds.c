/* From the files of Unigram, RWKV and Meta's tokenizers to the keys of a GGUF file, and one file in
 * place of a directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "convert/tokenizer/vocab_files.h"
#include "convert/tokenizer/hf_tokenizer.h"
#include "convert/tokenizer/pretok_match.h"
#include "model/vocab/vocab.h"

#define BL "\xE2\x96\x81"

static char dir[64];

static void path_of(const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", dir, name);
}

static void put(const char *name, const char *text)
{
    char path[128];
    fy_err e = {0};
    path_of(name, path);
    assert_int_equal(fy_file_write(path, text, strlen(text), &e), 0);
}

static int clear(void **state)
{
    (void)state;
    static const char *const names[] = {
        "tokenizer.json", "tokenizer.model",       "spiece.model",
        "params.json",    "tokenizer_config.json", "rwkv_vocab_v20230424.txt",
        "one.txt",        "config.json",           "out.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        path_of(names[i], path);
        unlink(path);
    }
    return 0;
}

static int make_directory(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.40s/ferry-kind-XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_directory(void **state)
{
    clear(state);
    return rmdir(dir);
}

static fy_gguf *convert(const char *from, const char *force, fy_err *e)
{
    char path[128];
    path_of("out.gguf", path);
    fy_hf_tokenizer *t = fy_hf_tokenizer_open(from, force, e);
    fy_gguf_writer *w = t != NULL ? fy_gguf_writer_new(e) : NULL;
    fy_gguf *g = NULL;
    if (w != NULL && fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), e) == 0 &&
        fy_hf_tokenizer_write(t, 0, w, e) == 0 &&
        fy_gguf_write(w, path, NULL, NULL, NULL, NULL, e) == 0)
        g = fy_gguf_open(path, e);
    fy_gguf_writer_free(w);
    fy_hf_tokenizer_free(t);
    return g;
}

static fy_gguf *converted(const char *name)
{
    char path[128];
    fy_err e = {0};
    path_of(name, path);
    fy_gguf *g = convert(name[0] != '\0' ? path : dir, NULL, &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    return g;
}

static void fails_with(const char *from, fy_code code, const char *text)
{
    char path[128];
    fy_err e = {0};
    path_of(from, path);
    assert_null(convert(from[0] != '\0' ? path : dir, NULL, &e));
    if (e.code != code || strstr(e.msg, text) == NULL)
        fail_msg("code %d, '%s' does not contain '%s'", (int)e.code, e.msg, text);
}

static void has_str(const fy_gguf *g, const char *key, const char *want)
{
    fy_span s = {NULL, 0};
    int rc = fy_gguf_get_str(g, key, &s, NULL);
    assert_int_equal(rc, want != NULL ? 0 : 1);
    assert_true(want == NULL || fy_span_is(s, want));
}

static void has_id(const fy_gguf *g, const char *key, int64_t want)
{
    uint32_t v = 0;
    int rc = fy_gguf_get_u32(g, key, &v, NULL);
    assert_int_equal(rc, want >= 0 ? 0 : 1);
    assert_true(want < 0 || v == want);
}

static void has_bool(const fy_gguf *g, const char *key, bool want)
{
    bool v = !want;
    assert_int_equal(fy_gguf_get_bool(g, key, &v, NULL), 0);
    assert_int_equal(v, want);
}

static void gives(const fy_gguf *g, const char *text, const char *want)
{
    fy_err e = {0};
    fy_vocab *v = fy_vocab_load(g, &e);
    fy_ids ids = {0};
    fy_str out = {0};
    if (v == NULL)
        fail_msg("%s", e.msg);
    assert_int_equal(fy_vocab_encode(v, fy_span_of(text), true, true, &ids, &e), 0);
    for (size_t i = 0; i < ids.n; i++)
        fy_str_printf(&out, "%s%d", i > 0 ? " " : "", ids.id[i]);
    assert_string_equal(fy_str_z(&out), want);
    fy_ids_release(&ids);
    fy_str_release(&out);
    fy_vocab_free(v);
}

/* --- Unigram --- */

#define VOCAB                                                                                 \
    "\"vocab\":[[\"<pad>\",0],[\"</s>\",0],[\"<unk>\",0],[\"" BL "\",-2.5],[\"a\",-3],[\"" BL \
    "a\",-4],[\"b\",-6]]"
#define UNIGRAM(norm, pre, post)                                                        \
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<pad>\",\"special\":true},"             \
    "{\"id\":1,\"content\":\"</s>\",\"special\":true},{\"id\":2,\"content\":\"<unk>\"," \
    "\"special\":true}],\"normalizer\":" norm ",\"pre_tokenizer\":" pre                 \
    ",\"post_processor\":" post ",\"model\":{\"type\":\"Unigram\",\"unk_id\":2," VOCAB "}}"
#define METASPACE                                   \
    "{\"type\":\"Metaspace\",\"replacement\":\"" BL \
    "\",\"prepend_scheme\":\"always\",\"split\":true}"
#define ENDS                                                                                    \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}," \
    "{\"SpecialToken\":{\"id\":\"</s>\",\"type_id\":0}}]}"
#define TRIM                                                                            \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\",\"strip_left\":false," \
    "\"strip_right\":true},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},"    \
    "\"content\":\"" BL "\"}]}"

static void a_unigram_tokenizer_json_becomes_t5(void **state)
{
    (void)state;
    put("tokenizer.json", UNIGRAM(TRIM, METASPACE, ENDS));
    fy_gguf *g = converted("");
    has_str(g, "tokenizer.ggml.model", "t5");
    has_str(g, "tokenizer.ggml.pre", "default");
    has_bool(g, "tokenizer.ggml.add_space_prefix", true);
    has_bool(g, "tokenizer.ggml.remove_extra_whitespaces", true);
    has_bool(g, "tokenizer.ggml.add_eos_token", false); /* no file says that </s> ends a text */
    has_id(g, "tokenizer.ggml.unknown_token_id", 2);
    has_str(g, FY_KEY_UNIGRAM, "tokenizers");
    assert_null(fy_gguf_find(g, FY_KEY_CHARSMAP));
    assert_true(fy_gguf_float_at(fy_gguf_find(g, "tokenizer.ggml.scores"), 3) == -2.5);
    gives(g, "a b", "5 3 6");
    gives(g, "  a  a x", "5 5 3 2");
    fy_gguf_close(g);
    put("tokenizer_config.json", "{\"tokenizer_class\":\"T5Tokenizer\",\"eos_token\":\"</s>\"}");
    g = converted("");
    has_bool(g, "tokenizer.ggml.add_eos_token", true);
    gives(g, "a", "5 1");
    fy_gguf_close(g);
}

static void both_generations_of_steps_are_known(void **state)
{
    (void)state;
    put("tokenizer.json",
        UNIGRAM(
            "null",
            "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"}," METASPACE
            "]}",
            "null"));
    fy_gguf *g = converted("");
    has_bool(g, "tokenizer.ggml.remove_extra_whitespaces", true);
    has_str(g, FY_KEY_SPACE_PREFIX, "metaspace");
    has_str(g, FY_KEY_UNIGRAM, "tokenizers-words");
    fy_gguf_close(g);
    put("tokenizer.json",
        UNIGRAM("null",
                "{\"type\":\"Metaspace\",\"replacement\":\"" BL "\",\"add_prefix_space\":false}",
                "null"));
    g = converted("tokenizer.json");
    has_bool(g, "tokenizer.ggml.remove_extra_whitespaces", false);
    has_bool(g, "tokenizer.ggml.add_space_prefix", false);
    gives(g, "a  a", "4 3 5");
    fy_gguf_close(g);
}

static void other_steps_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *norm, *pre, *message;
    } cases[] = {
        {"{\"type\":\"Lowercase\"}", METASPACE, "(Lowercase + Metaspace)"},
        {"null", "null", "(no steps)"},
        {"null", "{\"type\":\"ByteLevel\"}", "(ByteLevel)"},
        {"null", "{\"type\":\"Metaspace\",\"replacement\":\"_\"}", "(Metaspace)"},
        {"{\"type\":\"Strip\",\"strip_right\":true}", METASPACE, "(Strip + Metaspace)"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"*\"}", METASPACE, "(Precompiled"},
        {"null",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{\"type\":"
         "\"Metaspace\","
         "\"replacement\":\"" BL "\",\"prepend_scheme\":\"first\"}]}",
         "(WhitespaceSplit + Metaspace)"},
        {"{\"type\":\"Precompiled\"}", METASPACE, "(Precompiled"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_str s = {0};
        fy_str_printf(
            &s,
            "{\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":{\"type\":\"Unigram\"," VOCAB "}}",
            cases[i].norm, cases[i].pre);
        put("tokenizer.json", s.ptr);
        fy_str_release(&s);
        fails_with("", FY_EUNSUPPORTED, cases[i].message);
    }
    put("tokenizer.json", "{\"pre_tokenizer\":" METASPACE
                          ",\"model\":{\"type\":\"Unigram\",\"unk_id\":9," VOCAB "}}");
    fails_with("", FY_EFORMAT, "unk_id 9, but the vocabulary has 7");
}

/* A protobuf of <unk>, </s> (control), U+2581 "a" and "A" (user-defined), with an empty map. */
static const char spiece[] = "\x0A\x0E\x0A\x05<unk>\x15\x01\x01\x01\x01\x18\x02"
                             "\x0A\x0D\x0A\x04</s>\x15\x01\x01\x01\x01\x18\x03"
                             "\x0A\x0B\x0A\x04" BL "a\x15\x01\x01\x80\xC0"
                             "\x0A\x0A\x0A\x01"
                             "A\x15\x01\x01\x01\x01\x18\x04"
                             "\x12\x02\x18\x01"
                             "\x1A\x02\x20\x01";

static void a_sentencepiece_model_of_t5_is_read(void **state)
{
    (void)state;
    put("spiece.model", spiece);
    put("tokenizer_config.json", "{\"tokenizer_class\":\"T5Tokenizer\",\"eos_token\":\"</s>\"}");
    fy_gguf *g = converted("");
    has_str(g, "tokenizer.ggml.model", "t5");
    has_str(g, FY_KEY_UNIGRAM, NULL);
    has_bool(g, "tokenizer.ggml.remove_extra_whitespaces", true);
    gives(g, "a  A a", "2 0 3 2 1");
    fy_gguf_close(g);
    g = converted("spiece.model"); /* alone it knows nothing of T5 */
    has_bool(g, "tokenizer.ggml.add_eos_token", false);
    gives(g, "a", "2");
    fy_gguf_close(g);
}

static void base64_is_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *text, *bytes;
    } cases[] = {{"", ""},       {"YQ==", "a"},   {"YQ", "a"},
                 {"YWI=", "ab"}, {"YWJj", "abc"}, {"/+8=", "\xFF\xEF"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_str s = {0};
        assert_true(fy_base64_decode(fy_span_of(cases[i].text), &s));
        assert_string_equal(fy_str_z(&s), cases[i].bytes);
        fy_str_release(&s);
    }
    fy_str s = {0};
    assert_false(fy_base64_decode(FY_SPAN("YW*j"), &s));
    assert_false(fy_base64_decode(FY_SPAN("YQ===a"), &s));
    fy_str_release(&s);
}

/* --- RWKV --- */

static void an_rwkv_vocabulary_gets_the_rows_of_world(void **state)
{
    (void)state;
    put("rwkv_vocab_v20230424.txt", "1 'a' 1\n2 '\\n\\n' 2\n3 'ab' 2\n");
    fy_gguf *g = converted("");
    has_str(g, "tokenizer.ggml.model", "rwkv");
    has_str(g, "tokenizer.ggml.pre", NULL);
    has_id(g, "tokenizer.ggml.bos_token_id", 0);
    has_id(g, "tokenizer.ggml.eos_token_id", 0);
    has_id(g, "tokenizer.ggml.eot_token_id", 2);
    has_bool(g, "tokenizer.ggml.add_bos_token", false);
    assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.tokens")->count, 65536);
    assert_null(fy_gguf_find(g, "tokenizer.ggml.scores"));
    assert_null(fy_gguf_find(g, "tokenizer.ggml.merges"));
    gives(g, "aab\n\n", "1 3 2");
    fy_gguf_close(g);
    put("one.txt", "1 b'\\x61' 1\r\n");
    g = converted("one.txt");
    gives(g, "aa", "1 1");
    fy_gguf_close(g);
    put("one.txt", "1 'a' 1\nrubbish\n");
    fails_with("one.txt", FY_EFORMAT, "one.txt: line 2: 'rubbish'");
}

/* --- Meta's Llama 3 --- */

static void the_ranks_of_meta_are_followed_by_256_tokens(void **state)
{
    (void)state;
    static const struct {
        unsigned at;
        const char *text;
    } places[] = {{0, "<|begin_of_text|>"},
                  {1, "<|end_of_text|>"},
                  {4, "<|finetune_right_pad_id|>"},
                  {6, "<|start_header_id|>"},
                  {7, "<|end_header_id|>"},
                  {8, "<|eom_id|>"},
                  {9, "<|eot_id|>"},
                  {10, "<|python_tag|>"},
                  {12, "<|reserved_special_token_2|>"},
                  {255, "<|reserved_special_token_245|>"}};
    put("tokenizer.model", "YQ== 0\nYg== 1\nYWI= 2\n");
    put("params.json", "{\"vocab_size\": -1}");
    fy_gguf *g = converted("");
    fy_vocab *v = fy_vocab_load(g, NULL);
    assert_non_null(v);
    assert_int_equal(fy_vocab_n(v), 3 + 256);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        assert_int_equal(fy_vocab_find(v, fy_span_of(places[i].text)), 3 + (int32_t)places[i].at);
    fy_vocab_free(v);
    has_str(g, "tokenizer.ggml.pre", "llama-bpe");
    has_id(g, "tokenizer.ggml.bos_token_id", 3);
    has_id(g, "tokenizer.ggml.eos_token_id", 4);
    has_id(g, "tokenizer.ggml.eot_token_id", 12);
    has_id(g, "tokenizer.ggml.eom_token_id", 11);
    const fy_gguf_kv *ends = fy_gguf_find(g, FY_KEY_EOS_IDS);
    assert_int_equal(ends->count, 3);
    assert_int_equal(fy_gguf_int_at(ends, 0), 4);
    has_bool(g, "tokenizer.ggml.add_bos_token", true);
    has_bool(g, "tokenizer.ggml.add_eos_token", false);
    gives(g, "ab<|eot_id|>", "3 2 12");
    fy_gguf_close(g);
}

static void a_small_model_has_only_the_tokens_of_conversations(void **state)
{
    (void)state;
    put("tokenizer.model", "YQ== 0\nYg== 1\nYWI= 2\n");
    put("params.json", "{\"vocab_size\": 9}");
    fy_gguf *g = converted("");
    assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.tokens")->count, 9);
    gives(g, "ab<|end_of_text|><|start_header_id|><|end_header_id|><|eom_id|><|eot_id|>",
          "3 2 4 5 6 7 8");
    fy_gguf_close(g);
}

/* Without params.json nothing tells whose ranks these are. */
static void ranks_alone_need_a_name(void **state)
{
    (void)state;
    char path[128];
    fy_err e = {0};
    put("tokenizer.model", "YQ== 0\nYg== 1\nYWI= 2\n");
    put("params.json", "{}");
    fails_with("tokenizer.model", FY_EUNSUPPORTED, "does not define how words are cut");
    path_of("tokenizer.model", path);
    fy_gguf *g = convert(path, "llama-bpe", &e);
    assert_non_null(g);
    assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.tokens")->count, 3 + 256);
    fy_gguf_close(g);
    g = convert(path, "qwen2", &e);
    assert_non_null(g);
    assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.tokens")->count, 3);
    fy_gguf_close(g);
}

static void one_file_that_is_none_is_refused(void **state)
{
    (void)state;
    put("one.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    fails_with("one.txt", FY_EFORMAT, "Git LFS pointer");
    put("one.txt", "{\"a\": 1}");
    fails_with("one.txt", FY_EFORMAT, "no 'model'");
    put("one.txt", "some words");
    fails_with("one.txt", FY_EFORMAT, "SentencePiece model");
    fails_with("absent.json", FY_EIO, "absent.json");
}

/* --- long tokens --- */

/* Puts `head`, n letters and `tail` into tokenizer.json. */
static void put_long(const char *head, size_t n, const char *tail)
{
    fy_str s = {0};
    fy_str_puts(&s, head);
    for (size_t i = 0; i < n; i++)
        fy_str_putc(&s, 'z');
    fy_str_puts(&s, tail);
    put("tokenizer.json", fy_str_z(&s));
    fy_str_release(&s);
}

/* The runtime must load what was written, so both have the same limit. */
static void a_token_that_is_searched_for_has_at_most_1024_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *head, *tail; /* of a tokenizer.json; the token is between them */
        const char *found;       /* with the token too long; NULL: ordinary in a byte-level BPE */
    } cases[] = {
        {"{\"added_tokens\":[{\"id\":2,\"content\":\"",
         "\",\"special\":false}],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
         "false},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}",
         "token 2 'zzz"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{"
         "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"",
         "\":2},\"merges\":[]}}", NULL},
        {"{\"normalizer\":null,\"pre_tokenizer\":" METASPACE
         ",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"",
         "\",-2]]}}", "token 2 'zzz"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t n = FY_SEARCHED_BYTES_MAX; n <= FY_SEARCHED_BYTES_MAX + 1; n++) {
            put_long(cases[i].head, n, cases[i].tail);
            if (n > FY_SEARCHED_BYTES_MAX && cases[i].found != NULL) {
                fails_with("", FY_EUNSUPPORTED, cases[i].found);
                fails_with("", FY_EUNSUPPORTED, "is 1025 bytes long, expected at most 1024");
                continue;
            }
            fy_err e = {0};
            fy_gguf *g = converted("");
            fy_vocab *v = fy_vocab_load(g, &e);
            if (v == NULL)
                fail_msg("case %zu, %zu bytes: %s", i, n, e.msg);
            fy_vocab_free(v);
            fy_gguf_close(g);
        }
    }
}

#define TEST(f) cmocka_unit_test_setup(f, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_unigram_tokenizer_json_becomes_t5),
        TEST(both_generations_of_steps_are_known),
        TEST(other_steps_are_refused_by_name),
        TEST(a_sentencepiece_model_of_t5_is_read),
        TEST(base64_is_decoded),
        TEST(an_rwkv_vocabulary_gets_the_rows_of_world),
        TEST(the_ranks_of_meta_are_followed_by_256_tokens),
        TEST(a_small_model_has_only_the_tokens_of_conversations),
        TEST(ranks_alone_need_a_name),
        TEST(one_file_that_is_none_is_refused),
        TEST(a_token_that_is_searched_for_has_at_most_1024_bytes),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
