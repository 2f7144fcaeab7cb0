#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "base/file.h"
#include "convert/tokenizer/tokenizer_json.h"

typedef struct {
    fy_tokenizer_json json;
    fy_token_table t;
    fy_added_tokens added;
    fy_err e;
    int rc;
} doc;

static doc parse(const char *text, size_t n)
{
    doc d = {.rc = 0};
    d.rc = fy_tokenizer_json_parse(text, n, &d.json, &d.t, &d.added, &d.e);
    return d;
}

static void release(doc *d)
{
    fy_tokenizer_json_release(&d->json);
    fy_token_table_release(&d->t);
    fy_added_tokens_release(&d->added);
}

#define MODEL(members) "{\"model\":{" members "}}"
#define AB             "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}"

static const struct {
    const char *text, *message;
    fy_code code;
} broken[] = {
    {"", "found the end of the text", FY_EFORMAT},
    {"[]", "found an array, expected an object", FY_EFORMAT},
    {"{}", "no 'model'", FY_EFORMAT},
    {"{\"model\":{}}", "no array 'merges'", FY_EUNSUPPORTED},
    {"{\"model\":null}", "found null, expected an object", FY_EFORMAT},
    {MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":0}"), "no array 'merges'", FY_EFORMAT},
    {MODEL("\"type\":\"Unigram\",\"vocab\":[[\"a\"]]"), "vocab[0]: expected a pair", FY_EFORMAT},
    {MODEL("\"type\":\"Unigram\",\"vocab\":[[\"a\",1,2]]"), "vocab[0]: expected a pair", FY_EFORMAT},
    {MODEL("\"type\":\"Unigram\",\"vocab\":[[\"a\",1],[\"b\",1e39]]"), "vocab[1]: expected a pair", FY_EFORMAT},
    {MODEL("\"type\":\"Unigram\",\"vocab\":[[1,\"a\"]]"), "vocab[0]: ", FY_EFORMAT},
    {MODEL("\"type\":\"Unigram\",\"vocab\":[[\"a\",1],[\"a\",2]]"), "is the text of token 0", FY_EFORMAT},
    {MODEL("\"type\":\"Unigram\",\"vocab\":[]"), "the vocabulary is empty", FY_EFORMAT},
    {MODEL("\"type\":\"Unigram\",\"vocab\":{\"a\":0}"), "'vocab' is an object, which does not fit a Unigram", FY_EFORMAT},
    {MODEL("\"type\":\"BPE\",\"vocab\":[[\"a\",1]],\"merges\":[]"), "'vocab' is a list, which does not fit a BPE", FY_EFORMAT},
    {MODEL("\"type\":\"WordPiece\",\"vocab\":{\"a\":0}"), "a WordPiece tokenizer", FY_EUNSUPPORTED},
    {MODEL("\"type\":\"WordLevel\",\"vocab\":{\"a\":0}"), "a WordLevel tokenizer", FY_EUNSUPPORTED},
    {MODEL("\"type\":\"\\u001b[2J\",\"vocab\":{\"a\":0}"), "a \\x1b[2J tokenizer", FY_EUNSUPPORTED},
    {MODEL("\"type\":\"BPE\",\"vocab\":{},\"merges\":[]"), "the vocabulary is empty", FY_EFORMAT},
    {MODEL("\"merges\":[]"), "the vocabulary is empty", FY_EFORMAT},
    {MODEL("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"), "id 0: taken by two tokens, 'a' and 'b'",
     FY_EFORMAT},
    {MODEL("\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]"), "token 1: its text 'a' is the text of token 0",
     FY_EFORMAT},
    {MODEL("\"vocab\":{\"\":0,\"\":1},\"merges\":[]"), "two empty tokens", FY_EFORMAT},
    {MODEL("\"vocab\":{\"a\":4000000000},\"merges\":[]"),
     "token 'a': id 4000000000, expected less than", FY_EFORMAT},
    {MODEL("\"vocab\":{\"a\":99999999999999999999999},\"merges\":[]"), "id of token 'a'",
     FY_EFORMAT},
    {MODEL("\"vocab\":{\"a\":-1},\"merges\":[]"), "id of token 'a'", FY_EFORMAT},
    {MODEL("\"vocab\":{\"a\":1.5},\"merges\":[]"), "1.5", FY_EFORMAT},
    {MODEL("\"vocab\":{\"a\":null},\"merges\":[]"), "id of token 'a'", FY_EFORMAT},
    {MODEL("\"vocab\":{\"\xFF\":0},\"merges\":[]"), "valid UTF-8", FY_EFORMAT},
    {MODEL(AB ",\"merges\":[],\"byte_fallback\":1"), "found a number, expected", FY_EFORMAT},
    {MODEL(AB ",\"merges\":[],\"end_of_word_suffix\":\"</w>\""), "'end_of_word_suffix' is set",
     FY_EUNSUPPORTED},
    {MODEL(AB ",\"merges\":[],\"continuing_subword_prefix\":\"##\""), "'continuing_subword_prefix'",
     FY_EUNSUPPORTED},
    {"{\"added_tokens\":[{\"id\":3}]}", "added_tokens[0]: no 'content'", FY_EFORMAT},
    {"{\"added_tokens\":[{\"content\":\"x\"}]}", "added_tokens[0]: no 'id'", FY_EFORMAT},
    {"{\"added_tokens\":[{\"id\":4294967295,\"content\":\"x\"}]}",
     "id 4294967295, expected less than", FY_EFORMAT},
    {"{\"added_tokens\":[{\"id\":\"3\",\"content\":\"x\"}]}", "added_tokens[0]", FY_EFORMAT},
    {"{\"added_tokens\":{}}", "expected an array", FY_EFORMAT},
    {"{\"model\":{" AB ",\"merges\":[]}} x", "found 'x'", FY_EFORMAT},
};

static void broken_documents_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        doc d = parse(broken[i].text, strlen(broken[i].text));
        if (d.rc != -1 || d.e.code != broken[i].code || strstr(d.e.msg, broken[i].message) == NULL)
            fail_msg("case %zu: code %d, '%s', expected '%s'", i, (int)d.e.code, d.e.msg,
                     broken[i].message);
        release(&d);
    }
}

static void deep_nesting_is_refused_wherever_it_is(void **state)
{
    (void)state;
    static const char *const heads[] = {"",
                                        "{\"normalizer\":", "{\"model\":{\"vocab\":", "{\"x\":"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        fy_str s = {0};
        fy_str_puts(&s, heads[i]);
        for (int k = 0; k < 100000; k++)
            fy_str_puts(&s, "[");
        doc d = parse(s.ptr, s.len);
        assert_int_equal(d.rc, -1);
        assert_int_equal(d.e.code, FY_EFORMAT);
        release(&d);
        fy_str_release(&s);
    }
}

static void texts_with_and_without_escapes_are_kept(void **state)
{
    (void)state;
    static const char text[] = "{\"added_tokens\":[{\"id\":3,\"content\":\"<\\u0073>\",\"special\":"
                               "true,\"rstrip\":true,\"normalized\":false},"
                               "{\"id\":7,\"content\":\"\",\"special\":true}],"
                               "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":null,"
                               "\"model\":{\"type\":\"BPE\",\"unk_token\":\"\\u0061\",\"ignore_"
                               "merges\":true,\"byte_fallback\":null,"
                               "\"continuing_subword_prefix\":\"\",\"vocab\":{\"a\":0,\"\\\"\":1,"
                               "\"\\u0000\":2,\"\":9},\"merges\":[]}}";
    doc d = parse(text, sizeof text - 1);
    assert_int_equal(d.rc, 0);
    assert_int_equal(d.t.n, 10);
    assert_true(fy_span_is(d.t.rows[1].text, "\""));
    assert_true(fy_span_eq(d.t.rows[2].text, FY_SPAN("\0")));
    assert_true(fy_span_is(d.t.rows[9].text, "[EMPTY_9]"));
    assert_int_equal(d.t.rows[5].type, FY_TOKEN_UNDEFINED);
    assert_true(fy_span_is(d.json.unk_token, "a"));
    assert_true(d.json.ignore_merges && !d.json.byte_fallback);
    assert_non_null(json_object_get(d.json.normalizer, "type"));
    assert_true(json_is_null(d.json.pre_tokenizer));
    assert_null(d.json.post_processor);
    assert_int_equal(d.added.n, 1); /* an empty one is none */
    assert_true(fy_span_is(d.added.v[0].text, "<s>") && d.added.v[0].special);
    assert_int_equal(d.added.v[0].flags, FY_ADDED_RSTRIP);
    release(&d);
}

static void a_vocab_json_is_one_object_of_ids(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message; /* NULL: accepted */
    } cases[] = {
        {"{\"a\":0,\"\\u0120b\":1}", NULL},
        {" {\"a\" : 7}\n", NULL},
        {"{}", "the vocabulary is empty"},
        {"[\"a\"]", "expected an object"},
        {"", "expected an object"},
        {"{\"a\":0", "line 1"},
        {"{\"a\":0} x", "line 1"},
        {"{\"a\":\"0\"}", "id of token 'a'"},
        {"{\"a\":-1}", "id of token 'a'"},
        {"{\"a\":1048576}", "id 1048576, expected less than"},
        {"{\"a\":0,\"b\":0}", "id 0: taken by two tokens"},
        {"{\"a\":0,\"a\":1}", "token 1: its text 'a' is the text of token 0"},
        {"{\"\\u0061\":3,\"b\":1,\"a\":2}", "token 3: its text 'a' is the text of token 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_token_table t = {0};
        fy_err e = {0};
        int rc = fy_vocab_json_parse(cases[i].text, strlen(cases[i].text), &t, &e);
        if (rc != (cases[i].message == NULL ? 0 : -1) ||
            (rc != 0 && (e.code != FY_EFORMAT || strstr(e.msg, cases[i].message) == NULL)))
            fail_msg("case %zu: %d, %s", i, rc, e.msg);
        fy_token_table_release(&t);
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    fy_map m;
    fy_err e = {0};
    assert_int_equal(fy_map_open(&m, "tests/data/families/smollm2/tokenizer.json", &e), 0);
    size_t end = m.size;
    while (end > 0 && m.data[end - 1] != '}')
        end--;
    for (size_t n = 0; n < end; n += n < 4000 ? 1 : 7) {
        char *copy = malloc(n + 1);
        assert_non_null(copy);
        memcpy(copy + 1, m.data, n); /* the last byte read is the last of the block */
        doc d = parse(copy + 1, n);
        assert_int_equal(d.rc, -1);
        assert_int_equal(d.e.code, FY_EFORMAT);
        release(&d);
        free(copy);
    }
    fy_map_close(&m);
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    fy_map m;
    fy_err e = {0};
    assert_int_equal(fy_map_open(&m, "tests/data/families/mistral/tokenizer.json", &e), 0);
    bool failed = true;
    for (long n = 0; failed; n++) {
        alloc_fail_after(n);
        doc d = parse((const char *)m.data, m.size);
        failed = alloc_fail_end();
        if (d.rc != (failed ? -1 : 0) || d.e.code != (failed ? FY_ENOMEM : FY_OK))
            fail_msg("allocation %ld: %d, %s", n, d.rc, d.e.msg);
        release(&d);
    }
    fy_map_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_documents_are_refused_by_name),
        cmocka_unit_test(deep_nesting_is_refused_wherever_it_is),
        cmocka_unit_test(texts_with_and_without_escapes_are_kept),
        cmocka_unit_test(a_vocab_json_is_one_object_of_ids),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
