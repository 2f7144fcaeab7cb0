#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "base/file.h"
#include "base/math.h"
#include "base/str.h"
#include "convert/tokenizer/vocab_files.h"

#define REAL_FIXTURE "tests/data/families/llama/tokenizer.model"

/* --- a writer of the few messages --- */

static void put_varint(fy_str *s, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        fy_str_putc(s, (char)(v | 0x80));
    fy_str_putc(s, (char)v);
}

static void put_int(fy_str *s, unsigned field, uint64_t v)
{
    put_varint(s, field << 3);
    put_varint(s, v);
}

static void put_bytes(fy_str *s, unsigned field, const void *p, size_t n)
{
    put_varint(s, field << 3 | 2);
    put_varint(s, n);
    fy_str_add(s, p, n);
}

static void put_float(fy_str *s, unsigned field, float f)
{
    put_varint(s, field << 3 | 5);
    fy_str_add(s, &f, sizeof f);
}

static void put_piece(fy_str *s, fy_span text, float score, uint64_t type)
{
    fy_str m = {0};
    put_bytes(&m, 1, text.ptr, text.len);
    put_float(&m, 2, score);
    if (type != 0)
        put_int(&m, 3, type);
    put_bytes(s, 1, m.ptr, m.len);
    fy_str_release(&m);
}

typedef struct {
    fy_token_table t;
    fy_spm_info info;
    fy_err e;
    int rc;
} result;

static result parse(const fy_str *s)
{
    result r = {.rc = 0};
    r.rc = fy_spm_parse(s->ptr, s->len, &r.t, &r.info, &r.e);
    return r;
}

static void fails_with(fy_str *s, const char *text)
{
    result r = parse(s);
    assert_int_equal(r.rc, -1);
    assert_int_equal(r.e.code, FY_EFORMAT);
    if (strstr(r.e.msg, text) == NULL)
        fail_msg("'%s' does not contain '%s'", r.e.msg, text);
    fy_token_table_release(&r.t);
    fy_str_release(s);
}

/* --- cases --- */

static void pieces_keep_text_score_and_type(void **state)
{
    (void)state;
    fy_str s = {0};
    put_piece(&s, FY_SPAN("<unk>"), 0, 2);
    put_piece(&s, FY_SPAN("a\0b"), -1.5f, 0);
    put_piece(&s, FY_SPAN("<0x0A>"), 0, 6);
    put_piece(&s, FY_SPAN("x"), 0, 5);
    result r = parse(&s);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.t.n, 4);
    assert_int_equal(r.t.rows[0].type, FY_TOKEN_UNKNOWN);
    assert_int_equal(r.t.rows[1].type, FY_TOKEN_NORMAL);
    assert_int_equal(r.t.rows[1].text.len, 3);
    assert_true(r.t.rows[1].score == -1.5f);
    assert_int_equal(r.t.rows[2].type, FY_TOKEN_BYTE);
    assert_int_equal(r.t.rows[3].type, FY_TOKEN_UNUSED);
    fy_token_table_release(&r.t);
    fy_str_release(&s);
}

static void absent_fields_have_the_defaults_of_the_schema(void **state)
{
    (void)state;
    fy_str s = {0};
    put_piece(&s, FY_SPAN("a"), 0, 0);
    result r = parse(&s);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.info.model_type, FY_SPM_UNIGRAM);
    assert_int_equal(r.info.unk_id, 0);
    assert_int_equal(r.info.bos_id, 1);
    assert_int_equal(r.info.eos_id, 2);
    assert_int_equal(r.info.pad_id, -1);
    assert_true(r.info.add_dummy_prefix && r.info.remove_extra_whitespaces &&
                r.info.escape_whitespaces);
    assert_false(r.info.byte_fallback || r.info.suffix_whitespace);
    fy_token_table_release(&r.t);
    fy_str_release(&s);
}

static void settings_are_read_and_unknown_fields_skipped(void **state)
{
    (void)state;
    fy_str s = {0}, m = {0};
    put_int(&m, 3, FY_SPM_BPE);
    put_int(&m, 35, 1);
    put_int(&m, 41, (uint64_t)-1); /* a negative int32 takes ten bytes */
    put_int(&m, 43, 3);
    put_bytes(&m, 99, "xyz", 3);
    put_float(&m, 98, 1);
    put_bytes(&s, 2, m.ptr, m.len);
    fy_str_clear(&m);
    put_bytes(&m, 1, "identity", 8);
    put_bytes(&m, 2, "map", 3);
    put_int(&m, 3, 0);
    put_int(&m, 4, 0);
    put_bytes(&s, 3, m.ptr, m.len);
    put_varint(&s, 77 << 3 | 1);
    fy_str_add(&s, "12345678", 8);
    put_piece(&s, FY_SPAN("a"), 0, 0);
    result r = parse(&s);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.info.model_type, FY_SPM_BPE);
    assert_string_equal(fy_spm_type_name(r.info.model_type), "BPE");
    assert_true(r.info.byte_fallback);
    assert_int_equal(r.info.bos_id, -1);
    assert_int_equal(r.info.pad_id, 3);
    assert_true(fy_span_is(r.info.normalizer, "identity"));
    assert_int_equal(r.info.charsmap.len, 3);
    assert_false(r.info.add_dummy_prefix || r.info.remove_extra_whitespaces);
    fy_token_table_release(&r.t);
    fy_str_release(&s);
    fy_str_release(&m);
}

static void broken_pieces_are_named(void **state)
{
    (void)state;
    fy_str s = {0};
    put_piece(&s, FY_SPAN("a"), 0, 0);
    put_piece(&s, FY_SPAN("a"), 0, 0);
    fails_with(&s, "token 1: its text 'a' is the text of token 0");
    put_piece(&s, FY_SPAN("a"), 0, 7);
    fails_with(&s, "piece 0: type 7, expected 1 to 6");
    put_piece(&s, FY_SPAN("\xFF"), 0, 0);
    fails_with(&s, "piece 0: text '\\xff' is not UTF-8");
    const uint32_t nan_bits = 0x7FC00000;
    put_piece(&s, FY_SPAN("a"), fy_lef32(&nan_bits), 0);
    fails_with(&s, "not a finite number");
}

static void what_is_no_protobuf_is_refused(void **state)
{
    (void)state;
    fy_str s = {0};
    fails_with(&s, "without a single piece");
    fy_str_puts(&s, "IQ== 0\nIg== 1\nIw== 2\n"); /* tiktoken's base64 lines */
    fails_with(&s, "SentencePiece model");
    put_varint(&s, 1 << 3 | 3);
    fails_with(&s, "wire type 3");
    put_varint(&s, 2);
    put_varint(&s, 0);
    fails_with(&s, "no protobuf field");
    put_varint(&s, 1 << 3 | 2);
    put_varint(&s, UINT64_MAX);
    fails_with(&s, "the file is cut off");
    fy_str_add(&s, "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",
               13); /* a varint of 12 bytes */
    fails_with(&s, "cut off");
}

static void every_truncation_of_a_model_is_read_or_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_map m;
    assert_int_equal(fy_map_open(&m, REAL_FIXTURE, &e), 0);
    size_t refused = 0;
    for (size_t n = 0; n < m.size; n++) {
        uint8_t *copy = malloc(n + 1); /* so that a sanitizer sees reads beyond n */
        assert_non_null(copy);
        uint8_t *at_end = copy + 1;
        memcpy(at_end, m.data, n);
        fy_token_table t = {0};
        fy_spm_info info;
        fy_err why = {0};
        int rc = fy_spm_parse(at_end, n, &t, &info, &why);
        assert_true(rc == 0 ? why.code == FY_OK : why.code == FY_EFORMAT && why.msg[0] != '\0');
        refused += rc != 0;
        fy_token_table_release(&t);
        free(copy);
    }
    assert_true(refused > m.size * 9 / 10);
    fy_map_close(&m);
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_map m;
    assert_int_equal(fy_map_open(&m, REAL_FIXTURE, &e), 0);
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_token_table t = {0};
        fy_spm_info info;
        fy_err why = {0};
        alloc_fail_after(n);
        int rc = fy_spm_parse(m.data, m.size, &t, &info, &why);
        failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        assert_int_equal(why.code, failed ? FY_ENOMEM : FY_OK);
        fy_token_table_release(&t);
    }
    fy_map_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_keep_text_score_and_type),
        cmocka_unit_test(absent_fields_have_the_defaults_of_the_schema),
        cmocka_unit_test(settings_are_read_and_unknown_fields_skipped),
        cmocka_unit_test(broken_pieces_are_named),
        cmocka_unit_test(what_is_no_protobuf_is_refused),
        cmocka_unit_test(every_truncation_of_a_model_is_read_or_refused),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
