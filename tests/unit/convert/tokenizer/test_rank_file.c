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

#include "tests/unit/alloc_fail.h"
#include "base/file.h"
#include "base/json_tree.h"
#include "convert/tokenizer/hf_tokenizer.h"
#include "convert/tokenizer/vocab_files.h"

/* "a" "b" " " "ab" " ab" "abab" "\xC3" */
#define SMALL "YQ== 0\nYg== 1\nIA== 2\nYWI= 3\nIGFi 5\nYWJhYg== 6\r\n\nww== 7"

typedef struct {
    fy_token_table t;
    fy_str merges;
    fy_err e;
    int rc;
} ranks;

static ranks parse(fy_span s)
{
    ranks r = {.rc = 0};
    r.rc = fy_rank_file_parse(s.ptr, s.len, &r.t, &r.merges, &r.e);
    return r;
}

static void release(ranks *r)
{
    fy_token_table_release(&r->t);
    fy_str_release(&r->merges);
}

static void tokens_are_spelled_and_merges_are_all_cuts_by_rank(void **state)
{
    (void)state;
    ranks r = parse(FY_SPAN(SMALL));
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.t.n, 8);
    assert_true(fy_span_is(r.t.rows[2].text, "\xC4\xA0"));
    assert_true(fy_span_is(r.t.rows[5].text, "\xC4\xA0"
                                             "ab"));
    assert_true(fy_span_is(r.t.rows[7].text, "\xC3\x83"));
    assert_int_equal(r.t.rows[4].type, FY_TOKEN_UNDEFINED);
    assert_string_equal(fy_str_z(&r.merges), "a b\n\xC4\xA0 ab\nab ab\n");
    release(&r);
    r = parse(FY_SPAN("YQ== 3\nYWE= 2\nYWFh 9\n"));
    assert_int_equal(r.rc, 0);
    assert_string_equal(fy_str_z(&r.merges), "a a\naa a\na aa\n");
    release(&r);
}

static void only_rank_files_look_like_one(void **state)
{
    (void)state;
    const struct {
        fy_span text;
        bool is;
    } cases[] = {
        {FY_SPAN("IQ== 0\nIg== 1\n"), true},
        {FY_SPAN("IQ== 0"), true},
        {FY_SPAN("IQ 0\r\n"), true},
        {FY_SPAN(""), false},
        {FY_SPAN("\n"), false},
        {FY_SPAN("IQ==\n"), false},
        {FY_SPAN("IQ== x\n"), false},
        {FY_SPAN("IQ== 0 1\n"), false},
        {FY_SPAN(" 0\n"), false},
        {FY_SPAN("== 0\n"), false},
        {FY_SPAN("version https://git-lfs\n"), false},
        {FY_SPAN("\x0A\x0E\x0A\x05<unk>"), false},
        {FY_SPAN("a\0b 0"), false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (fy_rank_file_is(cases[i].text.ptr, cases[i].text.len) != cases[i].is)
            fail_msg("case %zu", i);
    }
}

static void broken_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "the rank file is empty"},
        {"YQ== 0\nYg==\n", "line 2: 'Yg==', expected the base64"},
        {"YQ== 0\n\n???? 1\n", "line 3: '???? 1', expected the base64"},
        {"YQ== 0\nYg== 1 \n", "line 2: "},
        {"YQ== -1\n", "line 1: "},
        {"YQ== 1048576\n", "line 1: token 'a': id 1048576, expected less than"},
        {"YQ== 99999999999\n", "line 1: token 'a': id 99999999999"},
        {"YQ== 999999999999999999999999\n", "line 1: "},
        {"YQ== 0\nYQ== 1\n", "line 2: token 1: its text 'a' is the text of token 0"},
        {"YQ== 0\nYg== 0\n", "line 2: id 0: taken by two tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ranks r = parse(fy_span_of(cases[i].text));
        if (r.rc != -1 || r.e.code != FY_EFORMAT || strstr(r.e.msg, cases[i].message) != r.e.msg)
            fail_msg("case %zu: %d, %s", i, r.rc, r.e.msg);
        release(&r);
    }
}

static void a_token_has_at_most_512_bytes(void **state)
{
    (void)state;
    for (size_t groups = 170; groups < 172; groups++) { /* of three bytes */
        fy_str s = {0};
        for (size_t i = 0; i < groups; i++)
            fy_str_puts(&s, "YWFh");
        fy_str_puts(&s, "YWE= 0\n");
        ranks r = parse((fy_span){s.ptr, s.len});
        assert_int_equal(r.rc, groups * 3 + 2 <= 512 ? 0 : -1);
        release(&r);
        fy_str_release(&s);
    }
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        alloc_fail_after(n);
        ranks r = parse(FY_SPAN(SMALL));
        failed = alloc_fail_end();
        if (r.rc != (failed ? -1 : 0) || r.e.code != (failed ? FY_ENOMEM : FY_OK))
            fail_msg("allocation %ld: %d, %s", n, r.rc, r.e.msg);
        release(&r);
    }
}

/* --- a whole vocabulary --- */

#define LLAMA3 "tests/data/families/llama3"

static char dir[64];

static void path_of(const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", dir, name);
}

static void put(const char *name, fy_span text)
{
    char path[128];
    fy_err e = {0};
    path_of(name, path);
    assert_int_equal(fy_file_write(path, text.ptr, text.len, &e), 0);
}

static fy_vocab *vocab_of(const char *from)
{
    char path[128];
    fy_err e = {0};
    path_of("out.gguf", path);
    fy_hf_tokenizer *t = fy_hf_tokenizer_open(from, NULL, &e);
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    if (t == NULL || fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e) != 0 ||
        fy_hf_tokenizer_write(t, 0, w, &e) != 0 ||
        fy_gguf_write(w, path, NULL, NULL, NULL, NULL, &e) != 0)
        fail_msg("%s: %s", from, e.msg);
    fy_gguf_writer_free(w);
    fy_hf_tokenizer_free(t);
    fy_gguf *g = fy_gguf_open(path, &e);
    fy_vocab *v = g != NULL ? fy_vocab_load(g, &e) : NULL;
    fy_gguf_close(g);
    assert_non_null(v);
    return v;
}

static void add_base64(fy_str *out, const fy_str *bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes->len; i += 3) {
        size_t n = bytes->len - i < 3 ? bytes->len - i : 3;
        uint32_t v = 0;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (k < n ? (uint8_t)bytes->ptr[i + k] : 0u);
        for (size_t k = 0; k < 4; k++)
            fy_str_putc(out, k <= n ? digits[v >> (18 - 6 * k) & 63] : '=');
    }
}

/* The ordinary tokens of `v` as a rank file. */
static void write_ranks(const fy_vocab *v)
{
    fy_str out = {0}, bytes = {0};
    for (int32_t id = 0; id < (int32_t)fy_vocab_n(v); id++) {
        if (fy_vocab_type(v, id) != FY_TOKEN_NORMAL)
            continue;
        fy_str_clear(&bytes);
        assert_int_equal(fy_vocab_decode_one(v, id, false, &bytes, NULL), 0);
        add_base64(&out, &bytes);
        fy_str_printf(&out, " %d\n", id);
    }
    put("tokenizer.model", (fy_span){out.ptr, out.len});
    fy_str_release(&out);
    fy_str_release(&bytes);
}

static void ranks_give_the_ids_of_the_merges_they_were_made_from(void **state)
{
    (void)state;
    json_t *golden = fy_json_data_file(LLAMA3 "/golden.json", NULL);
    const json_t *cases = json_object_get(golden, "tokenizer_cases");
    fy_vocab *v = vocab_of(LLAMA3);
    write_ranks(v);
    fy_vocab_free(v);
    put("tokenizer_config.json",
        FY_SPAN("{\"tokenizer_class\":\"ChatGLM4Tokenizer\",\"added_tokens_decoder\":{\"319\":{"
                "\"content\":\"<|eot_id|>\",\"special\":true}},\"eos_token\":\"<|eot_id|>\"}"));
    v = vocab_of(dir);
    assert_true(json_array_size(cases) >= 10);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *want = json_object_get(c, "ids");
        fy_ids ids = {0};
        fy_err e = {0};
        fy_span text = fy_span_of(json_string_value(json_object_get(c, "text")));
        assert_int_equal(fy_vocab_encode(v, text, true, true, &ids, &e), 0);
        assert_int_equal(ids.n, json_array_size(want));
        for (size_t k = 0; k < ids.n; k++)
            assert_int_equal(ids.id[k], json_integer_value(json_array_get(want, k)));
        fy_ids_release(&ids);
    }
    fy_vocab_free(v);
    json_decref(golden);
}

/* --- ranks with the special tokens of their own code --- */

#define RANKS "tests/data/tokenizers/ranks/"

static void gives_the_ids_of(const fy_vocab *v, const char *golden_path)
{
    json_t *golden = fy_json_data_file(golden_path, NULL);
    const json_t *cases = json_object_get(golden, "tokenizer_cases");
    assert_true(json_array_size(cases) >= 20);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *want = json_object_get(c, "ids_with_special");
        fy_ids ids = {0};
        fy_span text = fy_span_of(json_string_value(json_object_get(c, "text")));
        assert_int_equal(fy_vocab_encode(v, text, true, true, &ids, NULL), 0);
        bool same = ids.n == json_array_size(want);
        for (size_t k = 0; same && k < ids.n; k++)
            same = ids.id[k] == json_integer_value(json_array_get(want, k));
        if (!same)
            fail_msg("%s: '%s'", golden_path, text.ptr);
        fy_ids_release(&ids);
    }
    json_decref(golden);
}

static void copy_ranks(const char *name)
{
    fy_map m = {0};
    assert_int_equal(fy_map_open(&m, RANKS "tiktoken.model", NULL), 0);
    put(name, (fy_span){(const char *)m.data, m.size});
    fy_map_close(&m);
}

static void ranks_of_kimi_have_256_special_tokens(void **state)
{
    (void)state;
    fy_vocab *v = vocab_of(RANKS);
    assert_int_equal(fy_vocab_n(v), 420 + 256);
    assert_int_equal(fy_vocab_find(v, FY_SPAN("<|im_end|>")), 422);
    assert_true(fy_vocab_is_eog(v, 421) && fy_vocab_is_eog(v, 422));
    for (int32_t id = 420; id < 676; id++)
        assert_int_equal(fy_vocab_type(v, id), FY_TOKEN_CONTROL);
    gives_the_ids_of(v, RANKS "kimi.json");
    fy_vocab_free(v);
}

static void ranks_of_llama_4_have_those_of_metas_code(void **state)
{
    (void)state;
    copy_ranks("tokenizer.model");
    put("params.json", FY_SPAN("{\"moe_args\":{}}"));
    fy_vocab *v = vocab_of(dir);
    assert_int_equal(fy_vocab_n(v), 420 + 2048);
    assert_int_equal(fy_vocab_bos(v), 420);
    assert_true(fy_vocab_is_eog(v, 421));
    assert_true(fy_vocab_is_eog(v, fy_vocab_find(v, FY_SPAN("<|eot|>"))));
    assert_int_equal(fy_vocab_find(v, FY_SPAN("<|reserved_special_token_903|>")), 420 + 2047);
    gives_the_ids_of(v, RANKS "llama4.json");
    fy_vocab_free(v);
    char path[128];
    path_of("params.json", path);
    unlink(path);
}

static int make_directory(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.40s/ferry-rank-XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    static const char *const names[] = {"tokenizer.model", "tokenizer_config.json", "params.json",
                                        "out.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        path_of(names[i], path);
        unlink(path);
    }
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_spelled_and_merges_are_all_cuts_by_rank),
        cmocka_unit_test(only_rank_files_look_like_one),
        cmocka_unit_test(broken_lines_are_named),
        cmocka_unit_test(a_token_has_at_most_512_bytes),
        cmocka_unit_test(a_failed_allocation_is_reported),
        cmocka_unit_test(ranks_of_kimi_have_256_special_tokens),
        cmocka_unit_test(ranks_of_llama_4_have_those_of_metas_code),
        cmocka_unit_test(ranks_give_the_ids_of_the_merges_they_were_made_from),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
