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

#include "tests/unit/alloc_fail.h"
#include "base/file.h"
#include "base/log.h"
#include "convert/tokenizer/hf_tokenizer.h"
#include "base/json_tree.h"
#include "model/vocab/vocab.h"

#define BLANK "\xE2\x96\x81"
#define FAMILIES "tests/data/families/"

/* --- a directory of small files --- */

static char dir[64], out_path[96];
static char log_text[4096];

static void remember(void *user, fy_log_level level, const char *text)
{
    (void)user;
    size_t n = strlen(log_text);
    if (level <= FY_LOG_WARN)
        snprintf(log_text + n, sizeof log_text - n, "%s\n", text);
}

static void put(const char *name, const char *text)
{
    char path[128];
    fy_err e = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(fy_file_write(path, text, strlen(text), &e), 0);
}

static void remove_one(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(unlink(path), 0);
}

static int clear_directory(void **state)
{
    (void)state;
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "config.json",
                                        "special_tokens_map.json", "added_tokens.json", "generation_config.json",
                                        "chat_template.jinja", "chat_template.json", "vocab.json", "out.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    log_text[0] = '\0';
    return 0;
}

static int make_directory(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.40s/ferry-tok-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(out_path, sizeof out_path, "%s/out.gguf", dir);
    fy_log_set(remember, NULL);
    return 0;
}

static int remove_directory(void **state)
{
    clear_directory(state);
    return rmdir(dir);
}

/* --- from a directory to the keys of a GGUF file --- */

static int write_gguf(const char *from, const char *force, uint32_t n_rows, fy_err *e)
{
    fy_hf_tokenizer *t = fy_hf_tokenizer_open(from, force, e);
    fy_gguf_writer *w = t != NULL ? fy_gguf_writer_new(e) : NULL;
    int rc = -1;
    if (w != NULL && fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), e) == 0 &&
        fy_hf_tokenizer_write(t, n_rows, w, e) == 0)
        rc = fy_gguf_write(w, out_path, NULL, NULL, NULL, NULL, e);
    fy_gguf_writer_free(w);
    fy_hf_tokenizer_free(t);
    return rc;
}

static fy_gguf *convert(const char *from, uint32_t n_rows)
{
    fy_err e = {0};
    if (write_gguf(from, NULL, n_rows, &e) != 0)
        fail_msg("%s: %s", from, e.msg);
    fy_gguf *g = fy_gguf_open(out_path, &e);
    if (g == NULL)
        fail_msg("%s: %s", from, e.msg);
    return g;
}

static void fails_with(fy_code code, const char *text)
{
    fy_err e = {0};
    assert_int_equal(write_gguf(dir, NULL, 0, &e), -1);
    if (e.code != code || strstr(e.msg, text) == NULL)
        fail_msg("code %d, '%s' does not contain '%s'", (int)e.code, e.msg, text);
}

static int64_t id_key(const fy_gguf *g, const char *name)
{
    char key[64];
    uint32_t v;
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    return fy_gguf_get_u32(g, key, &v, NULL) == 0 ? (int64_t)v : -1;
}

static bool bool_key(const fy_gguf *g, const char *key)
{
    bool v = false;
    assert_int_equal(fy_gguf_get_bool(g, key, &v, NULL), 0);
    return v;
}

static void has_str(const fy_gguf *g, const char *key, const char *want)
{
    fy_span s = {NULL, 0};
    int rc = fy_gguf_get_str(g, key, &s, NULL);
    if (want == NULL)
        assert_int_equal(rc, 1);
    else if (rc != 0 || !fy_span_is(s, want))
        fail_msg("%s: '%.*s', expected '%s'", key, (int)s.len, rc == 0 ? s.ptr : "", want);
}

static void has_ids(const fy_gguf *g, const char *key, const int64_t *ids, size_t n)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    assert_true(kv != NULL ? kv->count == n : n == 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fy_gguf_int_at(kv, i), ids[i]);
}

static fy_span token_text(const fy_gguf *g, uint32_t id)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, "tokenizer.ggml.tokens");
    uint64_t pos = 0;
    fy_span s = {NULL, 0};
    assert_non_null(kv);
    assert_true(id < kv->count);
    for (uint32_t i = 0; i <= id; i++)
        s = fy_gguf_next_string(kv, &pos);
    return s;
}

static int64_t token_type(const fy_gguf *g, uint32_t id)
{
    return fy_gguf_int_at(fy_gguf_find(g, "tokenizer.ggml.token_type"), id);
}

static double token_score(const fy_gguf *g, uint32_t id)
{
    return fy_gguf_float_at(fy_gguf_find(g, "tokenizer.ggml.scores"), id);
}

/* --- small tokenizers --- */

#define BYTE_LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define ADDED(id, text, special) \
    "{\"id\":" id ",\"content\":\"" text "\",\"special\":" special ",\"rstrip\":false,\"normalized\":true}"
#define BPE(added, more) \
    "{\"added_tokens\":[" added "]," BYTE_LEVEL "," more \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}"
#define SPM(added, vocab, merges) \
    "{\"added_tokens\":[" added "],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\"," \
    "\"prepend\":\"" BLANK "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" BLANK "\"}]}," \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"vocab\":{\"<unk>\":0," vocab "}," \
    "\"merges\":[" merges "]}}"

/* --- the checkpoints of tests/data --- */

static const struct {
    const char *dir, *model, *pre;
    int64_t bos, eos, unk, pad, eot, eom;
    bool add_bos;
    const char *normalizer, *space;
    int64_t ends[3];
    size_t n_ends;
} families[] = {
    {"llama", "llama", "default", 1, 2, 0, -1, -1, -1, true, NULL, NULL, {2}, 1},
    {"llama-linear", "llama", "default", 1, 2, 0, -1, -1, -1, true, NULL, "metaspace-first", {2}, 1},
    {"mistral", "llama", "default", 1, 2, 0, -1, -1, -1, true, NULL, NULL, {2}, 1},
    {"llama3", "gpt2", "llama-bpe", 314, 319, -1, -1, 319, 318, true, NULL, NULL, {319, 315, 318}, 3},
    {"llama3-v5cfg", "gpt2", "llama-bpe", 314, 319, -1, -1, 319, 318, true, NULL, NULL, {319, 315, 318}, 3},
    {"qwen2", "gpt2", "qwen2", -1, 319, -1, 317, 319, -1, false, "nfc", NULL, {319, 317}, 2},
    {"qwen3", "gpt2", "qwen2", -1, 319, -1, 317, 319, -1, false, "nfc", NULL, {319, 317}, 2},
    {"smollm2", "gpt2", "smollm", 1, 2, 0, 2, 2, -1, false, NULL, NULL, {2}, 1},
};

static void the_fixtures_get_the_keys_of_their_family(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[96];
        snprintf(path, sizeof path, FAMILIES "%s", families[i].dir);
        fy_gguf *g = convert(path, 0);
        has_str(g, "tokenizer.ggml.model", families[i].model);
        has_str(g, "tokenizer.ggml.pre", families[i].pre);
        assert_int_equal(id_key(g, "bos_token_id"), families[i].bos);
        assert_int_equal(id_key(g, "eos_token_id"), families[i].eos);
        assert_int_equal(id_key(g, "unknown_token_id"), families[i].unk);
        assert_int_equal(id_key(g, "padding_token_id"), families[i].pad);
        assert_int_equal(id_key(g, "eot_token_id"), families[i].eot);
        assert_int_equal(id_key(g, "eom_token_id"), families[i].eom);
        assert_int_equal(bool_key(g, "tokenizer.ggml.add_bos_token"), families[i].add_bos);
        assert_false(bool_key(g, "tokenizer.ggml.add_eos_token"));
        bool spm = strcmp(families[i].model, "llama") == 0;
        assert_int_equal(bool_key(g, "tokenizer.ggml.add_space_prefix"), spm);
        assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.scores") != NULL, spm);
        assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.merges") == NULL, spm);
        has_str(g, FY_KEY_NORMALIZER, families[i].normalizer);
        has_str(g, FY_KEY_SPACE_PREFIX, families[i].space);
        has_ids(g, FY_KEY_EOS_IDS, families[i].ends, families[i].n_ends);
        assert_null(fy_gguf_find(g, FY_KEY_ADDED_FLAGS));
        fy_gguf_close(g);
    }
}

/* The same vocabulary from tokenizer.model and, without it, from tokenizer.json: equal ids for every text. */
static void scores_made_from_merges_encode_like_the_real_ones(void **state)
{
    (void)state;
    fy_map m;
    fy_err e = {0};
    assert_int_equal(fy_map_open(&m, FAMILIES "llama/tokenizer.json", &e), 0);
    fy_str text = {0};
    fy_str_add(&text, m.data, m.size);
    fy_map_close(&m);
    put("tokenizer.json", text.ptr);
    fy_str_release(&text);
    fy_gguf *real = convert(FAMILIES "llama", 0);
    fy_vocab *a = fy_vocab_load(real, &e);
    fy_gguf_close(real);
    fy_gguf *made = convert(dir, 0);
    fy_vocab *b = fy_vocab_load(made, &e);
    assert_non_null(a);
    assert_non_null(b);
    static const char *const texts[] = {"Once upon a time, there was a little fox.", "", " two  blanks ",
                                        "caf\xC3\xA9\n",
                                        "the hungry hungry thethe", "\xF0\x9F\xA6\x8A", "a\tb</s>c"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fy_ids x = {0}, y = {0};
        assert_int_equal(fy_vocab_encode(a, fy_span_of(texts[i]), true, true, &x, &e), 0);
        assert_int_equal(fy_vocab_encode(b, fy_span_of(texts[i]), true, true, &y, &e), 0);
        assert_int_equal(x.n, y.n);
        for (size_t k = 0; k < x.n; k++)
            assert_int_equal(x.id[k], y.id[k]);
        fy_ids_release(&x);
        fy_ids_release(&y);
    }
    for (uint32_t i = 0; i < fy_vocab_n(b); i++)
        assert_int_equal(fy_vocab_type(a, (int32_t)i), fy_vocab_type(b, (int32_t)i));
    fy_vocab_free(a);
    fy_vocab_free(b);
    fy_gguf_close(made);
}

static void scores_are_minus_the_rank_of_the_first_merge(void **state)
{
    (void)state;
    put("tokenizer.json", SPM("", "\"<0x00>\":1,\"a\":2,\"b\":3,\"ab\":4,\"aba\":5,\"ba\":6",
                              "\"a b\",\"ab a\",\"a ba\",\"b a\""));
    fy_gguf *g = convert(dir, 0);
    assert_int_equal(token_type(g, 0), FY_TOKEN_UNKNOWN);
    assert_int_equal(token_type(g, 1), FY_TOKEN_BYTE);
    assert_true(token_score(g, 1) == 0);
    assert_true(token_score(g, 4) == 0 && token_score(g, 5) == -1 && token_score(g, 6) == -3);
    assert_true(token_score(g, 2) == -5 && token_score(g, 3) == -5);
    fy_gguf_close(g);
}

static void a_byte_token_that_became_its_character_is_restored(void **state)
{
    (void)state;
    static const char head[] = SPM("", "@", "");
    const char *at = strchr(head, '@');
    fy_str text = {0};
    fy_str_add(&text, head, (size_t)(at - head));
    for (unsigned b = 0; b < 256; b++) {
        fy_str_puts(&text, b > 0 ? "," : "");
        if (b == 9)
            fy_str_printf(&text, "\"\\t\":%u", b + 1);
        else
            fy_str_printf(&text, "\"<0x%02X>\":%u", b, b + 1);
    }
    fy_str_puts(&text, at + 1);
    put("tokenizer.json", text.ptr);
    fy_gguf *g = convert(dir, 0);
    assert_true(fy_span_is(token_text(g, 10), "<0x09>"));
    assert_int_equal(token_type(g, 10), FY_TOKEN_BYTE);
    fy_gguf_close(g);
    fy_str_release(&text);
}

/* --- rows and padding --- */

static void the_token_array_has_as_many_entries_as_the_embedding_has_rows(void **state)
{
    (void)state;
    put("tokenizer.json", BPE(ADDED("4", "<x>", "true") "," ADDED("6", "[PAD5]", "false"), ""));
    fy_gguf *g = convert(dir, 9);
    assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.tokens")->count, 9);
    assert_true(fy_span_is(token_text(g, 3), "[PAD3]")); /* a hole */
    assert_true(fy_span_is(token_text(g, 5), "[PAD5]_")); /* texts stay unique */
    assert_true(fy_span_is(token_text(g, 8), "[PAD8]"));
    assert_int_equal(token_type(g, 2), FY_TOKEN_NORMAL);
    assert_int_equal(token_type(g, 3), FY_TOKEN_UNUSED);
    assert_int_equal(token_type(g, 4), FY_TOKEN_CONTROL);
    assert_int_equal(token_type(g, 6), FY_TOKEN_USER);
    assert_int_equal(token_type(g, 8), FY_TOKEN_UNUSED);
    fy_gguf_close(g);
}

static void added_tokens_without_a_row_are_dropped_ordinary_ones_never(void **state)
{
    (void)state;
    put("tokenizer.json", BPE(ADDED("3", "<x>", "true") "," ADDED("4", "<eos>", "true"), ""));
    put("tokenizer_config.json", "{\"eos_token\":\"<eos>\",\"bos_token\":\"<x>\"}");
    fy_gguf *g = convert(dir, 4);
    assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.tokens")->count, 4);
    assert_int_equal(id_key(g, "bos_token_id"), 3);
    assert_int_equal(id_key(g, "eos_token_id"), -1);
    assert_null(fy_gguf_find(g, FY_KEY_EOS_IDS));
    assert_non_null(strstr(log_text, "1 added tokens from id 4 on have no row in the embedding: dropped"));
    fy_gguf_close(g);
    fy_err e = {0};
    assert_int_equal(write_gguf(dir, NULL, 2, &e), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    assert_non_null(strstr(e.msg, "the tokenizer has 5 entries, but the embedding only 2 rows"));
}

static void without_weights_config_json_gives_the_number_of_rows(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        uint64_t n;
    } cases[] = {{"{}", 3}, {"{\"vocab_size\":8}", 8}, {"{\"vocab_size\":2}", 3}, {"{\"vocab_size\":\"x\"}", 3},
                 {"{\"text_config\":{\"vocab_size\":7}}", 7}, {"{\"vocab_size\":-1}", 3}};
    put("tokenizer.json", BPE("", ""));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("config.json", cases[i].config);
        fy_gguf *g = convert(dir, 0);
        assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.tokens")->count, cases[i].n);
        fy_gguf_close(g);
    }
    put("config.json", "{\"vocab_size\":4000000000}");
    fails_with(FY_EFORMAT, "vocab_size 4000000000");
}

/* --- added tokens --- */

static void later_lists_of_added_tokens_win(void **state)
{
    (void)state;
    put("tokenizer.json", BPE(ADDED("3", "<x>", "false") "," ADDED("4", "<y>", "false"),
                              "\"normalizer\":{\"type\":\"NFC\"},"));
    put("added_tokens.json", "{\"<x>\":3,\"<|z|>\":5,\"plain\":6}");
    put("tokenizer_config.json",
        "{\"added_tokens_decoder\":{\"1\":{\"content\":\"<new>\",\"special\":true},"
        "\"4\":{\"content\":\"<y>\",\"special\":true,\"lstrip\":true,\"single_word\":true,\"normalized\":false}}}");
    fy_gguf *g = convert(dir, 0);
    assert_true(fy_span_is(token_text(g, 1), "<new>")); /* replaces an ordinary entry */
    assert_int_equal(token_type(g, 1), FY_TOKEN_CONTROL);
    assert_int_equal(token_type(g, 3), FY_TOKEN_USER);
    assert_int_equal(token_type(g, 4), FY_TOKEN_CONTROL);
    assert_int_equal(token_type(g, 5), FY_TOKEN_CONTROL); /* by its look: added_tokens.json has no flag */
    assert_int_equal(token_type(g, 6), FY_TOKEN_USER);
    const fy_gguf_kv *flags = fy_gguf_find(g, FY_KEY_ADDED_FLAGS);
    assert_non_null(flags);
    assert_int_equal(flags->count, 7);
    assert_int_equal(fy_gguf_int_at(flags, 3), FY_ADDED_NORMALIZED);
    assert_int_equal(fy_gguf_int_at(flags, 4), FY_ADDED_LSTRIP | FY_ADDED_SINGLE_WORD);
    assert_int_equal(fy_gguf_int_at(flags, 5), 0);
    fy_gguf_close(g);
}

static void an_added_text_of_the_vocabulary_keeps_its_id(void **state)
{
    (void)state;
    put("tokenizer.json", BPE(ADDED("5", "ab", "true"), ""));
    fy_gguf *g = convert(dir, 0);
    assert_int_equal(fy_gguf_find(g, "tokenizer.ggml.tokens")->count, 3);
    assert_non_null(strstr(log_text, "added token 'ab': listed as id 5, but it is token 2"));
    fy_gguf_close(g);
}

static void user_defined_spaces_are_spaces_in_sentencepiece(void **state)
{
    (void)state;
    put("tokenizer.json", SPM(ADDED("3", BLANK BLANK, "false"), "\"a\":1,\"b\":2", ""));
    fy_gguf *g = convert(dir, 0);
    assert_true(fy_span_is(token_text(g, 3), "  "));
    assert_int_equal(token_type(g, 3), FY_TOKEN_USER);
    fy_gguf_close(g);
}

/* --- special ids --- */

#define TEMPLATE(before, after) \
    "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}," \
    "{\"type\":\"TemplateProcessing\",\"single\":[" before "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}" after "]}]},"
#define TOKEN(text) "{\"SpecialToken\":{\"id\":\"" text "\",\"type_id\":0}}"

static const struct {
    const char *processor, *tokenizer_config, *special_map, *config, *generation;
    int64_t bos, eos;
    bool add_bos, add_eos;
    int64_t ends[4];
    size_t n_ends;
} specials[] = {
    {"", NULL, NULL, NULL, NULL, -1, -1, false, false, {0}, 0},
    {"", "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"}}", NULL, NULL, NULL, 3, 4, false, false, {4}, 1},
    {"", "{\"eos_token\":\"</s>\"}", NULL, "{\"eos_token_id\":[5,4]}", "{\"eos_token_id\":[6,5]}", -1, 4, false, false,
     {4, 6, 5}, 3},
    {"", NULL, "{\"bos_token\":\"<s>\"}", "{\"bos_token_id\":5,\"eos_token_id\":4}", NULL, 3, 4, false, false, {4}, 1},
    {"", NULL, NULL, "{\"text_config\":{\"bos_token_id\":3,\"eos_token_id\":4}}", NULL, 3, 4, false, false, {4}, 1},
    /* an explicit null: none; eos is searched on */
    {"", "{\"bos_token\":null,\"eos_token\":null}", NULL, "{\"bos_token_id\":3,\"eos_token_id\":4}", NULL, -1, 4, false,
     false, {4}, 1},
    {"", NULL, NULL, NULL, "{\"eos_token_id\":[5,6]}", -1, 5, false, false, {5, 6}, 2},
    {"", NULL, NULL, "{\"bos_token_id\":99,\"eos_token_id\":-1}", "{\"eos_token_id\":4e9}", -1, -1, false, false,
     {0}, 0},
    {"", "{\"bos_token\":\"<nowhere>\"}", NULL, "{\"bos_token_id\":3}", NULL, 3, -1, false, false, {0}, 0},
    {"", "{\"bos_token\":\"<s>\",\"add_bos_token\":true,\"add_eos_token\":true}", NULL, NULL, NULL, 3, -1, true, false,
     {0}, 0},
    {TEMPLATE(TOKEN("<s>") ",", ""), "{\"bos_token\":\"<s>\"}", NULL, NULL, NULL, 3, -1, true, false, {0}, 0},
    {TEMPLATE(TOKEN("<s>") ",", ""), "{\"bos_token\":\"<s>\",\"add_bos_token\":false}", NULL, NULL, NULL, 3, -1, false,
     false, {0}, 0},
    {TEMPLATE(TOKEN("<s>") ",", ""), NULL, NULL, NULL, NULL, 3, -1, true, false, {0}, 0},
    {TEMPLATE(TOKEN("<s>") ",", ""), "{\"bos_token\":null}", NULL, NULL, NULL, -1, -1, false, false, {0}, 0},
    {TEMPLATE(TOKEN("</s>") "," TOKEN("<s>") ",", ""), "{\"bos_token\":\"<s>\"}", NULL, NULL, NULL, 3, -1, false, false,
     {0}, 0},
    {TEMPLATE("", "," TOKEN("</s>")), "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}", NULL, NULL, NULL, 3, 4, false,
     true, {4}, 1},
    {TEMPLATE("", "," TOKEN("<c>")), "{\"eos_token\":\"</s>\"}", NULL, NULL, NULL, -1, 4, false, false, {4}, 1},
    {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[7,{\"SpecialToken\":3}]},", NULL, NULL, NULL,
     NULL, -1, -1, false, false, {0}, 0},
};

static void special_ids_come_from_the_first_file_that_knows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        fy_str text = {0};
        clear_directory(NULL);
        fy_str_printf(&text, BPE(ADDED("3", "<s>", "true") "," ADDED("4", "</s>", "true") "," ADDED("5", "<c>", "true")
                                 "," ADDED("6", "<d>", "true"), "%s"), specials[i].processor);
        put("tokenizer.json", text.ptr);
        fy_str_release(&text);
        const char *const files[][2] = {{"tokenizer_config.json", specials[i].tokenizer_config},
                                        {"special_tokens_map.json", specials[i].special_map},
                                        {"config.json", specials[i].config},
                                        {"generation_config.json", specials[i].generation}};
        for (size_t k = 0; k < 4; k++) {
            if (files[k][1] != NULL)
                put(files[k][0], files[k][1]);
        }
        fy_gguf *g = convert(dir, 0);
        if (id_key(g, "bos_token_id") != specials[i].bos || id_key(g, "eos_token_id") != specials[i].eos ||
            bool_key(g, "tokenizer.ggml.add_bos_token") != specials[i].add_bos ||
            bool_key(g, "tokenizer.ggml.add_eos_token") != specials[i].add_eos)
            fail_msg("case %zu: bos %lld, eos %lld", i, (long long)id_key(g, "bos_token_id"),
                     (long long)id_key(g, "eos_token_id"));
        has_ids(g, FY_KEY_EOS_IDS, specials[i].ends, specials[i].n_ends);
        fy_gguf_close(g);
    }
}

static void chat_templates_come_from_the_newest_place(void **state)
{
    (void)state;
    put("tokenizer.json", BPE("", ""));
    put("tokenizer_config.json", "{\"chat_template\":\"from config\"}");
    fy_gguf *g = convert(dir, 0);
    has_str(g, "tokenizer.chat_template", "from config");
    assert_null(fy_gguf_find(g, "tokenizer.chat_templates"));
    fy_gguf_close(g);
    put("chat_template.json", "{\"chat_template\":\"from json\"}");
    g = convert(dir, 0);
    has_str(g, "tokenizer.chat_template", "from json");
    fy_gguf_close(g);
    remove_one("chat_template.json");
    put("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"default\",\"template\":\"d\"},"
                                 "{\"name\":\"Tool-Use\",\"template\":\"t\"},{\"name\":\"rag\",\"template\":\"r\"}]}");
    g = convert(dir, 0);
    has_str(g, "tokenizer.chat_template", "d");
    has_str(g, "tokenizer.chat_template.tool_use", "t");
    has_str(g, "tokenizer.chat_template.rag", "r");
    const fy_gguf_kv *names = fy_gguf_find(g, "tokenizer.chat_templates");
    uint64_t pos = 0;
    assert_non_null(names);
    assert_int_equal(names->count, 2);
    assert_true(fy_span_is(fy_gguf_next_string(names, &pos), "tool_use"));
    fy_gguf_close(g);
    put("chat_template.jinja", "from \"file\"\n");
    g = convert(dir, 0);
    has_str(g, "tokenizer.chat_template", "from \"file\"\n");
    assert_null(fy_gguf_find(g, "tokenizer.chat_templates"));
    fy_gguf_close(g);
    char path[128];
    snprintf(path, sizeof path, "%s/additional_chat_templates", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    put("additional_chat_templates/tool_use.jinja", "with tools");
    put("additional_chat_templates/notes.txt", "{% no template");
    g = convert(dir, 0);
    has_str(g, "tokenizer.chat_template", "from \"file\"\n");
    has_str(g, "tokenizer.chat_template.tool_use", "with tools");
    fy_gguf_close(g);
    remove_one("additional_chat_templates/tool_use.jinja");
    remove_one("additional_chat_templates/notes.txt");
    assert_int_equal(rmdir(path), 0);
    remove_one("chat_template.jinja");
    put("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"x\"}]}");
    fails_with(FY_EFORMAT, "tokenizer_config.json: chat_template[0]: expected an object with 'name' and 'template'");
}

static void a_template_that_does_not_parse_is_refused(void **state)
{
    (void)state;
    put("tokenizer.json", BPE("", ""));
    put("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"default\",\"template\":\"d\"},"
                                 "{\"name\":\"bad\",\"template\":\"a\\n{% include x %}\"}]}");
    fy_err e = {0};
    fy_hf_tokenizer *t = fy_hf_tokenizer_open(dir, NULL, &e);
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(t);
    assert_non_null(w);
    assert_int_equal(fy_hf_tokenizer_write(t, 0, w, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "tokenizer_config.json: chat template 'bad': line 2, column "));
    assert_non_null(strstr(e.msg, "--chat-template none"));
    fy_gguf_writer_free(w);
    assert_int_equal(fy_hf_tokenizer_use_template(t, "none", &e), 0);
    w = fy_gguf_writer_new(&e);
    e = (fy_err){0};
    assert_int_equal(fy_hf_tokenizer_write(t, 0, w, &e), 0);
    fy_gguf_writer_free(w);
    assert_int_equal(fy_hf_tokenizer_use_template(t, "no such format", &e), -1);
    assert_int_equal(e.code, FY_EARG);
    fy_hf_tokenizer_free(t);
}

/* --- refusals --- */

static void what_cannot_be_read_is_reported(void **state)
{
    (void)state;
    fails_with(FY_EIO, "no tokenizer.json and no tokenizer.model");
    put("vocab.json", "{}");
    fails_with(FY_EUNSUPPORTED, "only a vocab.json without merges.txt");
    put("tokenizer.model", "IQ== 0\nIg== 1\nIw== 2\n");
    fails_with(FY_EUNSUPPORTED, "does not define how words are cut");
    put("tokenizer.model", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    fails_with(FY_EFORMAT, "Git LFS pointer");
    put("tokenizer.model", "\x0A\x03\x0A\x01" "a" "\x12\x02\x18\x03"); /* one piece, model_type 3 */
    fails_with(FY_EUNSUPPORTED, "a SentencePiece model of type Word");
    put("tokenizer.json", "<!DOCTYPE html><html>");
    fails_with(FY_EFORMAT, "an HTML page");
    put("tokenizer.json", "");
    fails_with(FY_EFORMAT, "an empty file");
    put("tokenizer.json", BPE("", ""));
    put("tokenizer_config.json", "[]");
    fails_with(FY_EFORMAT, "tokenizer_config.json: not a JSON object");
    put("tokenizer_config.json", "{\"a\":1,}");
    fails_with(FY_EFORMAT, "tokenizer_config.json: line 1, column 8");
    put("tokenizer_config.json", "{\"added_tokens_decoder\":{\"x1\":{\"content\":\"a\"}}}");
    fails_with(FY_EFORMAT, "added_tokens_decoder: 'x1' is not a token id");
    put("tokenizer_config.json", "{\"added_tokens_decoder\":{\"99999999999999999999999\":{\"content\":\"q\"}}}");
    fails_with(FY_EFORMAT, "expected less than");
    put("tokenizer_config.json", "{\"added_tokens_decoder\":{\"3\":{}}}");
    fails_with(FY_EFORMAT, "token 3: no text 'content'");
    put("tokenizer_config.json", "{}");
    put("added_tokens.json", "{\"x\":1.5}");
    fails_with(FY_EFORMAT, "added_tokens.json: 'x' has no token id");
}

static void merges_of_unknown_tokens_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *merge, *message;
    } cases[] = {{"x b", "merges[1]: 'x' 'b': the left part is not a token"},
                 {"a x", "merges[1]: 'a' 'x': the right part is not a token"},
                 {"b a", "merges[1]: 'b' 'a': the result is not a token"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_str text = {0};
        fy_str_printf(&text, "{" BYTE_LEVEL ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
                             "\"merges\":[\"a b\",\"%s\"]}}", cases[i].merge);
        put("tokenizer.json", text.ptr);
        fails_with(FY_EFORMAT, cases[i].message);
        fy_str_release(&text);
    }
}

static void a_structure_can_be_forced_only_for_byte_level_bpe(void **state)
{
    (void)state;
    fy_err e = {0};
    put("tokenizer.json", BPE("", "\"normalizer\":{\"type\":\"NFKC\"},"));
    fails_with(FY_EUNSUPPORTED, "--pre NAME forces one");
    assert_int_equal(write_gguf(dir, "tekken", 0, &e), 0);
    fy_gguf *g = fy_gguf_open(out_path, &e);
    assert_non_null(g);
    has_str(g, "tokenizer.ggml.pre", "tekken");
    fy_gguf_close(g);
    assert_int_equal(write_gguf(FAMILIES "llama", "gpt-2", 0, &e), -1);
    assert_int_equal(e.code, FY_EARG);
}

static void words_of_metaspace_are_split_only_without_inner_spaces(void **state)
{
    (void)state;
#define META_SPLIT(vocab) \
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" BLANK "\",\"prepend_scheme\":\"first\"}," \
    "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{" vocab "},\"merges\":[]}}"
    put("tokenizer.json", META_SPLIT("\"" BLANK "a\":0,\"b\":1"));
    fy_gguf *g = convert(dir, 0);
    has_str(g, FY_KEY_SPACE_PREFIX, "metaspace-first");
    fy_gguf_close(g);
    put("tokenizer.json", META_SPLIT("\"" BLANK BLANK "\":0,\"b\":1"));
    fails_with(FY_EUNSUPPORTED, "Metaspace splits words");
}

static void a_broken_tokenizer_model_falls_back_to_tokenizer_json(void **state)
{
    (void)state;
    put("tokenizer.json", SPM("", "\"a\":1,\"b\":2", ""));
    put("tokenizer.model", "version https://git-lfs.github.com/spec/v1\n");
    fy_gguf *g = convert(dir, 0);
    has_str(g, "tokenizer.ggml.model", "llama");
    assert_non_null(strstr(log_text, "Git LFS pointer"));
    assert_non_null(strstr(log_text, "tokenizer.json is used"));
    fy_gguf_close(g);
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    static const char *const dirs[] = {FAMILIES "mistral", FAMILIES "llama-linear", FAMILIES "qwen2"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        bool failed = true;
        for (long n = 0; failed; n++) {
            fy_err e = {0};
            alloc_fail_after(n);
            fy_hf_tokenizer *t = fy_hf_tokenizer_open(dirs[i], NULL, &e);
            fy_gguf_writer *w = t != NULL ? fy_gguf_writer_new(&e) : NULL;
            int rc = w != NULL ? fy_hf_tokenizer_write(t, 400, w, &e) : -1;
            failed = alloc_fail_end();
            if (rc != (failed ? -1 : 0) || e.code != (failed ? FY_ENOMEM : FY_OK))
                fail_msg("%s, allocation %ld: %d, %s", dirs[i], n, rc, e.msg);
            fy_gguf_writer_free(w);
            fy_hf_tokenizer_free(t);
        }
    }
}

/* --- published tokenizers --- */

static const char *real_directory(void)
{
    const char *real = getenv("FERRY_REAL");
    return real != NULL ? real : "../shared/real";
}

/* A key of the block `convert` of parity.json: null means that there must be none. */
static void check_key(const char *name, const char *key, const json_t *want, const fy_gguf *g)
{
    if (strncmp(key, "tokenizer.ggml.", 15) == 0) {
        has_str(g, key, json_string_value(want));
    } else if (strstr(key, "_token_id") != NULL) {
        const char *id = strcmp(key, "pad_token_id") == 0 ? "padding_token_id"
                         : strcmp(key, "unk_token_id") == 0 ? "unknown_token_id" : key;
        if (id_key(g, id) != (json_is_null(want) ? -1 : (int64_t)json_number_value(want)))
            fail_msg("%s: %s is %lld", name, key, (long long)id_key(g, id));
    } else if (json_is_boolean(want) && strcmp(key, "normalizer_nfc") == 0) {
        has_str(g, FY_KEY_NORMALIZER, json_is_true(want) ? "nfc" : NULL);
    } else if (json_is_boolean(want)) {
        char full[96];
        snprintf(full, sizeof full, "tokenizer.ggml.%s", key);
        if (bool_key(g, full) != json_is_true(want))
            fail_msg("%s: %s", name, key);
    } else if (strcmp(key, "n_tokens") == 0) {
        assert_true((double)fy_gguf_find(g, "tokenizer.ggml.tokens")->count >= json_number_value(want));
    }
}

static void published_tokenizers_get_the_expected_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "llama2", "llama3_2", "qwen2_5", "qwen3", "phi3", "gemma", "internlm2",
                                        "falcon", "mistral_nemo", "deepseek_v3", "qwen2-gpt2style", "chatglm3"};
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizers", real_directory());
    if (!fy_file_is_dir(path))
        skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fy_map m;
        fy_err e = {0};
        snprintf(path, sizeof path, "%s/tokenizers/%s/parity.json", real_directory(), names[i]);
        if (fy_map_open(&m, path, &e) != 0)
            fail_msg("%s", e.msg);
        json_t *parity = fy_json_tree(m.data, m.size, &e);
        fy_map_close(&m);
        assert_non_null(parity);
        snprintf(path, sizeof path, "%s/tokenizers/%s", real_directory(), names[i]);
        fy_gguf *g = convert(path, 0);
        const char *key;
        json_t *want;
        json_object_foreach(json_object_get(parity, "convert"), key, want)
            check_key(names[i], key, want, g);
        fy_gguf_close(g);
        json_decref(parity);
    }
}

static long anon_kb(void)
{
    char line[128];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        sscanf(line, "RssAnon: %ld", &kb);
    if (f != NULL)
        fclose(f);
    return kb;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static void a_vocabulary_of_128k_needs_little_memory(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizers/llama3_2", real_directory());
    if (!fy_file_is_dir(path) || SANITIZED)
        skip();
    fy_err e = {0};
    long before = anon_kb();
    fy_hf_tokenizer *t = fy_hf_tokenizer_open(path, NULL, &e);
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(t);
    assert_int_equal(fy_hf_tokenizer_n_tokens(t), 128256);
    assert_int_equal(fy_hf_tokenizer_write(t, 0, w, &e), 0);
    assert_true(anon_kb() - before < 40 * 1024);
    fy_gguf_writer_free(w);
    fy_hf_tokenizer_free(t);
}

#define TEST(f) cmocka_unit_test_setup(f, clear_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_fixtures_get_the_keys_of_their_family),
        TEST(scores_made_from_merges_encode_like_the_real_ones),
        TEST(scores_are_minus_the_rank_of_the_first_merge),
        TEST(a_byte_token_that_became_its_character_is_restored),
        TEST(the_token_array_has_as_many_entries_as_the_embedding_has_rows),
        TEST(added_tokens_without_a_row_are_dropped_ordinary_ones_never),
        TEST(without_weights_config_json_gives_the_number_of_rows),
        TEST(later_lists_of_added_tokens_win),
        TEST(an_added_text_of_the_vocabulary_keeps_its_id),
        TEST(user_defined_spaces_are_spaces_in_sentencepiece),
        TEST(special_ids_come_from_the_first_file_that_knows),
        TEST(chat_templates_come_from_the_newest_place),
        TEST(a_template_that_does_not_parse_is_refused),
        TEST(what_cannot_be_read_is_reported),
        TEST(merges_of_unknown_tokens_are_refused),
        TEST(a_structure_can_be_forced_only_for_byte_level_bpe),
        TEST(words_of_metaspace_are_split_only_without_inner_spaces),
        TEST(a_broken_tokenizer_model_falls_back_to_tokenizer_json),
        TEST(a_failed_allocation_is_reported),
        TEST(published_tokenizers_get_the_expected_keys),
        TEST(a_vocabulary_of_128k_needs_little_memory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
