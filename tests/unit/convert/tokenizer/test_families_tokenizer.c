/* Every checkpoint of tests/data/families: its tokenizer, carried through a GGUF file, gives the
 * ids that the reference gave, and the text back where nothing is lost. */
#include <dirent.h>
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
#include "convert/tokenizer/hf_tokenizer.h"
#include "model/vocab/vocab.h"

#define FAMILIES "tests/data/families"

typedef struct {
    const char *name;
    fy_vocab *v;
    bool composes, space_prefix, metaspace;
} family;

static char out_path[96];

static int make_path(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(out_path, sizeof out_path, "%.60s/ferry-fam-XXXXXX", tmp != NULL ? tmp : "/tmp");
    int fd = mkstemp(out_path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(out_path);
}

static void convert(const char *dir, fy_err *e)
{
    fy_hf_tokenizer *t = fy_hf_tokenizer_open(dir, NULL, e);
    fy_gguf_writer *w = t != NULL ? fy_gguf_writer_new(e) : NULL;
    if (w == NULL || fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), e) != 0 ||
        fy_hf_tokenizer_write(t, 0, w, e) != 0 ||
        fy_gguf_write(w, out_path, NULL, NULL, NULL, NULL, e) != 0)
        fail_msg("%s: %s", dir, e->msg);
    fy_gguf_writer_free(w);
    fy_hf_tokenizer_free(t);
}

static family load(const char *name, const char *dir)
{
    fy_err e = {0};
    family f = {.name = name};
    fy_span s;
    convert(dir, &e);
    fy_gguf *g = fy_gguf_open(out_path, &e);
    f.v = g != NULL ? fy_vocab_load(g, &e) : NULL;
    if (f.v == NULL)
        fail_msg("%s: %s", name, e.msg);
    f.composes = fy_gguf_get_str(g, FY_KEY_NORMALIZER, &s, &e) == 0 && fy_span_is(s, "nfc");
    f.metaspace = fy_gguf_get_str(g, FY_KEY_SPACE_PREFIX, &s, &e) == 0;
    assert_int_equal(fy_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &f.space_prefix, &e),
                     0);
    fy_gguf_close(g);
    return f;
}

/* What is lost: other normal forms, blanks after tokens that are cut out of the text, and the first
 * blank where none is put before it. */
static bool is_lossless(const family *f, const char *text, const fy_ids *ids)
{
    if (f->composes && strstr(text, "\xCC\x81") != NULL)
        return false;
    if (f->metaspace && text[0] == ' ')
        return false;
    for (size_t i = 0; f->space_prefix && i < ids->n; i++) {
        if (fy_vocab_type(f->v, ids->id[i]) != FY_TOKEN_NORMAL &&
            fy_vocab_type(f->v, ids->id[i]) != FY_TOKEN_BYTE)
            return false;
    }
    return true;
}

static void encodes(const family *f, const json_t *c, const char *key, bool add_special,
                    fy_ids *out)
{
    fy_err e = {0};
    const json_t *text = json_object_get(c, "text"), *want = json_object_get(c, key);
    fy_span s = {json_string_value(text), json_string_length(text)};
    assert_true(json_is_string(text) && json_is_array(want));
    assert_int_equal(fy_vocab_encode(f->v, s, add_special, true, out, &e), 0);
    bool same = out->n == json_array_size(want);
    for (size_t i = 0; same && i < out->n; i++)
        same = out->id[i] == json_integer_value(json_array_get(want, i));
    if (!same)
        fail_msg("%s: %s of '%s' differ", f->name, key, s.ptr);
}

static unsigned check_case(const family *f, const json_t *c)
{
    fy_err e = {0};
    fy_ids plain = {0}, with_special = {0};
    fy_str back = {0};
    const char *text = json_string_value(json_object_get(c, "text"));
    encodes(f, c, "ids", false, &plain);
    encodes(f, c, "ids_with_special", true, &with_special);
    assert_int_equal(fy_vocab_decode(f->v, plain.id, plain.n, true, &back, &e), 0);
    bool lossless = is_lossless(f, text, &plain);
    if (lossless && strcmp(fy_str_z(&back), text) != 0)
        fail_msg("%s: '%s' decodes to '%s'", f->name, text, back.ptr);
    fy_str_release(&back);
    fy_ids_release(&plain);
    fy_ids_release(&with_special);
    return lossless;
}

static bool check_family(const char *name)
{
    char dir[300], path[330];
    snprintf(dir, sizeof dir, FAMILIES "/%s", name);
    snprintf(path, sizeof path, "%s/golden.json", dir);
    json_t *golden = fy_json_data_file(path, NULL);
    const json_t *cases = json_object_get(golden, "tokenizer_cases");
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    bool counts = json_array_size(cases) > 0 && fy_file_exists(path);
    if (counts) {
        family f = load(name, dir);
        unsigned n_lossless = 0;
        for (size_t i = 0; i < json_array_size(cases); i++)
            n_lossless += check_case(&f, json_array_get(cases, i));
        assert_true(n_lossless >= 10);
        fy_vocab_free(f.v);
    }
    json_decref(golden);
    return counts;
}

static void every_family_gives_the_ids_of_its_reference(void **state)
{
    (void)state;
    unsigned n = 0;
    DIR *d = opendir(FAMILIES);
    assert_non_null(d);
    for (const struct dirent *it; (it = readdir(d)) != NULL;)
        n += it->d_name[0] != '.' && check_family(it->d_name);
    closedir(d);
    assert_true(n >= 50);
}

/* What other readers go by. -1: no such key. */
static const struct {
    const char *name, *pre;
    int64_t bos, eos, eot, eom;
    bool add_bos;
} keys[] = {
    {"baichuan", "default", 1, 2, -1, -1, false},
    {"chatglm", "default", 1, 2, 349, 351, false},
    {"codegen", "gpt-2", 319, 319, 319, -1, false},
    {"falcon7", "falcon", 11, 11, 11, -1, false},
    {"gemma", "default", 2, 1, 6, -1, true},
    {"glm", "chatglm-bpe", -1, 310, 317, 319, false},
    {"glm4", "chatglm-bpe", -1, 310, 317, 319, false},
    {"gptneox", "gpt-2", 0, 0, 0, -1, false},
    {"granite", "smollm", 0, 0, 0, -1, false},
    {"internlm2", "default", 1, 2, 4, -1, true},
    {"minicpm", "default", 1, 2, 351, -1, true},
    {"olmo2", "dbrx", 317, 317, 319, -1, false},
    {"opt", "gpt-2", 2, 2, -1, -1, true},
    {"phi", "gpt-2", 319, 319, 319, -1, false},
    {"phi3", "default", 1, 347, 350, -1, false},
    {"phi4mini", "gpt-4o", 315, 315, 317, -1, false},
    {"qwen2moe", "qwen2", -1, 319, 319, -1, false},
    {"smallthinker-4b", "qwen2", -1, 319, 319, -1, false},
    {"smollm3", "dbrx", -1, 319, 319, -1, false},
    {"starcoder2", "smollm", 0, 0, 0, -1, false},
};

static void has_id(const fy_gguf *g, const char *name, const char *key, int64_t want)
{
    uint32_t id;
    int64_t found = fy_gguf_get_u32(g, key, &id, NULL) == 0 ? (int64_t)id : -1;
    if (found != want)
        fail_msg("%s: %s is %lld, expected %lld", name, key, (long long)found, (long long)want);
}

static void families_get_the_keys_that_other_readers_know(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char dir[128];
        fy_err e = {0};
        fy_span pre;
        bool add_bos;
        snprintf(dir, sizeof dir, FAMILIES "/%s", keys[i].name);
        convert(dir, &e);
        fy_gguf *g = fy_gguf_open(out_path, &e);
        assert_non_null(g);
        assert_int_equal(fy_gguf_get_str(g, "tokenizer.ggml.pre", &pre, &e), 0);
        if (!fy_span_is(pre, keys[i].pre))
            fail_msg("%s: pre is '%.*s', expected '%s'", keys[i].name, (int)pre.len, pre.ptr,
                     keys[i].pre);
        has_id(g, keys[i].name, "tokenizer.ggml.bos_token_id", keys[i].bos);
        has_id(g, keys[i].name, "tokenizer.ggml.eos_token_id", keys[i].eos);
        has_id(g, keys[i].name, "tokenizer.ggml.eot_token_id", keys[i].eot);
        has_id(g, keys[i].name, "tokenizer.ggml.eom_token_id", keys[i].eom);
        assert_int_equal(fy_gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &add_bos, &e), 0);
        assert_int_equal(add_bos, keys[i].add_bos);
        fy_gguf_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_gives_the_ids_of_its_reference),
        cmocka_unit_test(families_get_the_keys_that_other_readers_know),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
