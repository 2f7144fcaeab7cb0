#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>

#include "tests/unit/alloc_fail.h"
#include "base/file.h"
#include "base/math.h"
#include "format/safetensors.h"
#include "format/sniff.h"

/* --- files made from a header and a number of data bytes -------------------------------------- */

static fy_str make(const char *header, size_t data_bytes)
{
    fy_str s = {0};
    uint64_t n = strlen(header);
    fy_str_add(&s, &n, sizeof n);
    fy_str_puts(&s, header);
    for (size_t i = 0; i < data_bytes; i++)
        fy_str_putc(&s, (char)(i + 1));
    return s;
}

/* Parses a block of exactly n bytes on the heap, so that a read past its end is seen; `data` stays
 * valid. */
static fy_st *parse(const fy_str *s, char **data, fy_err *e)
{
    *data = malloc(s->len > 0 ? s->len : 1);
    if (s->len > 0)
        memcpy(*data, s->ptr, s->len);
    return fy_st_parse(*data, s->len, "t.safetensors", false, 0, e);
}

#define X(body, data) "{\"a\":{" body "}}", data
#define SHAPE4 "\"dtype\":\"F32\",\"shape\":[4]"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *words; /* NULL: accepted */
} cases[] = {
    {"{}", 0, NULL},
    {"{}   ", 0, NULL},
    {" \n{}", 0, NULL},
    {"{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"}}", 0, NULL},
    {X(SHAPE4 ",\"data_offsets\":[0,16]", 16), NULL},
    {X("\"data_offsets\":[0,16]," SHAPE4, 16), NULL},
    {X(SHAPE4 ",\"data_offsets\":[0,16],\"extra\":{\"x\":[null]}", 16), NULL},
    {X("\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]", 8), NULL},
    {X("\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[0,0]", 0), NULL},
    {X("\"dtype\":\"F32\",\"shape\":[4611686018427387904,0],\"data_offsets\":[0,0]", 0), NULL},
    {X("\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]", 2), NULL},
    {X("\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]", 3), NULL},
    {X("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,2],\"data_offsets\":[0,2]", 2), NULL},

    {"{", 0, "header: line 1, column 2: found the end of the text"},
    {"[]", 0, "expected an object"},
    {"null", 0, "expected an object"},
    {"\xEF\xBB\xBF{}", 0, "a byte order mark"},
    {"{}x", 0, "expected the end of the document"},
    {"{\"a\":1}", 0, "tensor 'a': line 1, column 6: found a number, expected an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0,
     "__metadata__: line 1, column 22: found a number, expected a string"},
    {"{\"__metadata__\":[]}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "a second key 'a'"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "a second key '__metadata__'"},
    {X("\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]", 16),
     "a second key 'dtype'"},
    {X("\"shape\":[4],\"data_offsets\":[0,16]", 16), "tensor 'a': has no 'dtype'"},
    {X("\"dtype\":\"F32\",\"data_offsets\":[0,16]", 16), "has no 'shape'"},
    {X(SHAPE4, 16), "has no 'data_offsets'"},
    {X("\"dtype\":\"f32\",\"shape\":[4],\"data_offsets\":[0,16]", 16),
     "dtype 'f32' is not one of safetensors"},
    {X("\"dtype\":32,\"shape\":[4],\"data_offsets\":[0,16]", 16), "expected a string"},
    {X("\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]", 16), "found -4"},
    {X("\"dtype\":\"F32\",\"shape\":[4.0],\"data_offsets\":[0,16]", 16), "found 4.0"},
    {X("\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,16]", 16), "expected an array"},
    {X("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]", 1),
     "more than 8 dimensions"},
    {X("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,16]", 16),
     "more than 2^64 bits"},
    {X("\"dtype\":\"F32\",\"shape\":[1152921504606846976],\"data_offsets\":[0,16]", 16),
     "more than 2^64 bits"},
    {X("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]", 1),
     "12 bits of F4 do not end on a byte"},
    {X(SHAPE4 ",\"data_offsets\":[0,15]", 15),
     "its shape and dtype F32 make 16 bytes, data_offsets 15"},
    {X(SHAPE4 ",\"data_offsets\":[16,0]", 16), "data_offsets end at 0, before they begin at 16"},
    {X(SHAPE4 ",\"data_offsets\":[]", 16), "data_offsets has none, expected 2 numbers"},
    {X(SHAPE4 ",\"data_offsets\":[0]", 16), "data_offsets has only 1"},
    {X(SHAPE4 ",\"data_offsets\":[0,16,16]", 16), "data_offsets has more"},
    {X(SHAPE4 ",\"data_offsets\":[0,\"16\"]", 16), "expected a number"},
    {X(SHAPE4 ",\"data_offsets\":[0,16]", 15),
     "ends at byte 16 of the data, but the file holds only 15: it is incomplete"},
    {X(SHAPE4 ",\"data_offsets\":[0,16]", 17), "1 bytes follow the last tensor, expected none"},
    {X(SHAPE4 ",\"data_offsets\":[4,20]", 20),
     "tensor 'a' begins at byte 4 of the data, expected 0"},
    {"{}", 1, "1 bytes follow the last tensor"},
    {"{\"a\":{" SHAPE4 ",\"data_offsets\":[0,16]},\"b\":{" SHAPE4 ",\"data_offsets\":[8,24]}}", 32,
     "they overlap"},
    {"{\"a\":{" SHAPE4 ",\"data_offsets\":[0,16]},\"b\":{" SHAPE4 ",\"data_offsets\":[20,36]}}", 36,
     "a hole"},
    {"{\"a\":{" SHAPE4 ",\"data_offsets\":[0,16]},\"b\":{" SHAPE4 ",\"data_offsets\":[0,16]}}", 16,
     "tensor 'b': the tensors up to here claim 32 bytes of 16: they overlap"},
    {"{\"a\":{" SHAPE4 ",\"data_offsets\":[0,16]},\"\\u0061\":{" SHAPE4
     ",\"data_offsets\":[16,32]}}",
     32, "a second key 'a'"},
};

static void every_rule_of_the_format_is_enforced(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        char *data;
        fy_str s = make(cases[i].header, cases[i].data_bytes);
        fy_st *st = parse(&s, &data, &e);
        if ((st != NULL) != (cases[i].words == NULL))
            fail_msg("%s: %s", cases[i].header, st != NULL ? "accepted" : e.msg);
        if (cases[i].words != NULL) {
            if (strstr(e.msg, cases[i].words) == NULL)
                fail_msg("%s says: %s", cases[i].header, e.msg);
            assert_memory_equal(e.msg, "t.safetensors: ", 15);
        }
        fy_st_close(st);
        free(data);
        fy_str_release(&s);
    }
}

static const char two[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"n\\n\":\"v\"},"
    "\"w\\u00e9\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[3,7]},"
    "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";

static void tensors_come_in_file_order_and_are_found_by_name(void **state)
{
    (void)state;
    fy_err e = {0};
    char *data;
    fy_str s = make(two, 7);
    fy_st *st = parse(&s, &data, &e);
    assert_non_null(st);
    assert_string_equal(fy_st_path(st), "t.safetensors");
    assert_int_equal(fy_st_n_tensors(st), 2);
    assert_int_equal(fy_st_data_offset(st), 8 + strlen(two));
    const fy_st_tensor *b = fy_st_tensor_at(st, 0), *w = fy_st_tensor_at(st, 1);
    assert_true(fy_span_is(b->name, "b"));
    assert_true(fy_span_is(w->name, "w\xC3\xA9"));
    assert_ptr_equal(fy_st_find(st, FY_SPAN("w\xC3\xA9")), w);
    assert_null(fy_st_find(st, FY_SPAN("w")));
    assert_int_equal(w->dtype, FY_DT_BF16);
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->shape[0], 1);
    assert_int_equal(w->shape[1], 2);
    assert_int_equal(w->offset, 3);
    assert_int_equal(w->bytes, 4);
    assert_memory_equal(w->data, "\4\5\6\7", 4);
    fy_span key, value;
    assert_int_equal(fy_st_n_meta(st), 2);
    fy_st_meta_at(st, 1, &key, &value);
    assert_true(fy_span_is(key, "n\n"));
    assert_true(fy_span_is(value, "v"));
    fy_st_close(st);
    free(data);
    fy_str_release(&s);
}

static void a_header_alone_is_enough_when_asked_for(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_str s = make(two, 0);
    fy_st *st = fy_st_parse(s.ptr, s.len, "t", true, s.len + 7, &e);
    assert_non_null(st);
    assert_null(fy_st_tensor_at(st, 0)->data);
    assert_int_equal(fy_st_tensor_at(st, 1)->bytes, 4);
    fy_st_close(st);
    assert_null(fy_st_parse(s.ptr, s.len, "t", true, s.len + 6, &e));
    e = (fy_err){0};
    assert_null(fy_st_parse(s.ptr, s.len - 1, "t", true, s.len + 7, &e));
    fy_str_release(&s);
}

static void every_cut_of_a_file_is_refused(void **state)
{
    (void)state;
    fy_str s = make(two, 7);
    for (; s.len-- > 0;) {
        fy_err e = {0};
        char *data;
        assert_null(parse(&s, &data, &e));
        assert_int_equal(e.code, FY_EFORMAT);
        free(data);
    }
    fy_str_release(&s);
}

static void impossible_header_sizes_are_refused_before_reading(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *words;
    } sizes[] = {{0, "header is empty"},
                 {100000001, "at most 100000000"},
                 {UINT64_MAX, "at most 100000000"},
                 {UINT64_MAX - 7, "at most 100000000"},
                 {100000000, "only 2 follow: it is incomplete"}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fy_err e = {0};
        char b[10] = "        {}";
        memcpy(b, &sizes[i].n, 8);
        assert_null(fy_st_parse(b, sizeof b, "t", false, 0, &e));
        if (strstr(e.msg, sizes[i].words) == NULL)
            fail_msg("%s", e.msg);
    }
}

static void overlapping_tensors_fail_before_memory_is_spent_on_them(void **state)
{
    (void)state;
    enum { N = 200000 };
    fy_err e = {0};
    fy_str h = {0};
    for (int i = 0; i < N; i++)
        fy_str_printf(&h, "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}",
                      i > 0 ? "," : "{", i);
    fy_str_puts(&h, "}");
    fy_str s = make(h.ptr, 1);
    alloc_fail_after(64);
    fy_st *st = fy_st_parse(s.ptr, s.len, "t", false, 0, &e);
    assert_false(alloc_fail_end());
    assert_null(st);
    assert_non_null(
        strstr(e.msg, "tensor '1': the tensors up to here claim 2 bytes of 1: they overlap"));
    fy_str_release(&s);
    fy_str_release(&h);
}

static void any_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    fy_str h = {0};
    fy_str_puts(&h, "{\"__metadata__\":{\"a\\n\":\"b\\n\"}");
    for (int i = 0; i < 100; i++)
        fy_str_printf(&h, ",\"t\\t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                      i, i, i + 1);
    fy_str_puts(&h, "}");
    fy_str s = make(h.ptr, 100);
    bool failed = true;
    long n = 0;
    for (; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_st *st = fy_st_parse(s.ptr, s.len, "t", false, 0, &e);
        failed = alloc_fail_end();
        /* the C library's qsort does without memory when it gets none */
        assert_true(failed || st != NULL);
        assert_int_equal(e.code, st == NULL ? FY_ENOMEM : FY_OK);
        fy_st_close(st);
    }
    assert_true(n > 10);
    fy_str_release(&s);
    fy_str_release(&h);
}

static void dtypes_have_sizes_and_tensor_types(void **state)
{
    (void)state;
    static const struct {
        fy_dtype d;
        const char *name;
        uint32_t bits;
        int type; /* -1: none */
    } rows[] = {
        {FY_DT_BOOL, "BOOL", 8, -1},       {FY_DT_F4, "F4", 4, -1},
        {FY_DT_F6_E3M2, "F6_E3M2", 6, -1}, {FY_DT_I8, "I8", 8, FY_I8},
        {FY_DT_F8_E4M3, "F8_E4M3", 8, -1}, {FY_DT_F16, "F16", 16, FY_F16},
        {FY_DT_BF16, "BF16", 16, FY_BF16}, {FY_DT_F32, "F32", 32, FY_F32},
        {FY_DT_F64, "F64", 64, FY_F64},    {FY_DT_I16, "I16", 16, FY_I16},
        {FY_DT_I32, "I32", 32, FY_I32},    {FY_DT_I64, "I64", 64, FY_I64},
        {FY_DT_C64, "C64", 64, -1},        {FY_DT_U64, "U64", 64, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_type t;
        assert_string_equal(fy_dtype_name(rows[i].d), rows[i].name);
        assert_int_equal(fy_dtype_bits(rows[i].d), rows[i].bits);
        assert_int_equal(fy_dtype_to_type(rows[i].d, &t), rows[i].type >= 0);
        if (rows[i].type >= 0)
            assert_int_equal(t, rows[i].type);
    }
}

static void strange_files_are_called_by_their_name(void **state)
{
    (void)state;
    static const struct {
        const char *p;
        size_t n;
        const char *words;
    } files[] = {
#define F(bytes, words) {bytes, sizeof(bytes) - 1, words}
        F("version https://git-lfs.github.com/spec/v1\noid sha256:00", "a Git LFS pointer"),
        F("<!DOCTYPE html><html>", "an HTML page"),
        F("\n\n  <html lang=en>", "an HTML page"),
        F("\xEF\xBB\xBF<!doctype html>", "an HTML page"),
        F("Entry not found", "Entry not found"),
        F("GGUF\3\0\0\0\0\0\0\0", "a GGUF file"),
        F("PWRI\3\0\0\0", "a GGUF file"),
        F("tjgg\3\0\0\0", "older than GGUF"),
        F("PK\3\4\0\0\0\0\0\0", "a zip archive"),
        F("\x80\x02\x8A\x0Al\xFC\x9C" "F", "a Python pickle"),
        F("\x93NUMPY\1\0v\0", "a NumPy array"),
        F("{\"model_type\": \"llama\"}", "a JSON text"),
        F("\0\0\0\0\0\0\0\0\0\0\0\0", "zero bytes"),
        F("", "an empty file"),
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        fy_err e = {0};
        assert_null(fy_st_parse(files[i].p, files[i].n, "t", false, 0, &e));
        if (strstr(e.msg, files[i].words) == NULL)
            fail_msg("%s", e.msg);
        assert_int_equal(e.code, FY_EFORMAT);
    }
    assert_null(fy_sniff("plain words", 11));
    assert_null(fy_sniff("x", 1));
    fy_str s = make("{}", 0);
    assert_string_equal(fy_sniff(s.ptr, s.len), "a safetensors file");
    fy_str_release(&s);
}

/* --- our fixtures and third-party files ------------------------------------------------------- */

static void our_fixtures_open_and_their_tensors_tile_the_data(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_st *st = fy_st_open("tests/data/tales/model.safetensors", &e);
    if (st == NULL)
        fail_msg("%s", e.msg);
    uint64_t end = 0;
    for (size_t i = 0; i < fy_st_n_tensors(st); i++) {
        const fy_st_tensor *t = fy_st_tensor_at(st, i);
        assert_int_equal(t->offset, end);
        assert_ptr_equal(fy_st_find(st, t->name), t);
        end += t->bytes;
    }
    assert_true(end > 0);
    fy_st_close(st);
    fy_st_close(NULL);
    assert_null(fy_st_open("tests/data/absent.safetensors", &e));
    assert_non_null(strstr(e.msg, "tests/data/absent.safetensors: cannot open"));
}

static const char *real_dir(const char *name)
{
    static char path[512];
    const char *real = getenv("FERRY_REAL");
    snprintf(path, sizeof path, "%s/%s", real != NULL ? real : "../shared/real", name);
    return path;
}

/* Opens every .safetensors of a directory; `may_pass` says the verdict from the name. Returns their
 * number. */
static int judge_all(const char *dir, bool (*may_pass)(const char *name))
{
    int n = 0;
    DIR *d = opendir(dir);
    if (d == NULL)
        skip();
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        if (strstr(entry->d_name, ".safetensors") == NULL)
            continue;
        fy_err e = {0};
        char *path = fy_path_join(dir, entry->d_name);
        fy_st *st = fy_st_open(path, &e);
        if ((st != NULL) != may_pass(entry->d_name))
            fail_msg("%s: %s", entry->d_name, st != NULL ? "accepted" : e.msg);
        if (st == NULL)
            assert_int_equal(e.code, FY_EFORMAT);
        fy_st_close(st);
        free(path);
        n++;
    }
    closedir(d);
    return n;
}

static bool is_named_ok(const char *name)
{
    return strncmp(name, "ok_", 3) == 0 || strstr(name, "ok_in_serde") != NULL;
}

static bool always(const char *name)
{
    (void)name;
    return true;
}

static void the_edge_set_gets_the_documented_verdicts(void **state)
{
    (void)state;
    assert_true(judge_all(real_dir("edge/safetensors"), is_named_ok) >= 58);
}

static void files_of_other_writers_are_readable(void **state)
{
    (void)state;
    assert_true(judge_all(real_dir("st-fixtures"), always) >= 9);
}

static void things_found_in_place_of_weights_are_named(void **state)
{
    (void)state;
    static const char *const cases_of[][2] = {{"edge/lfs_pointer.safetensors", "a Git LFS pointer"},
                                              {"edge/html_as_model.safetensors", "an HTML page"}};
    for (size_t i = 0; i < 2; i++) {
        fy_err e = {0};
        const char *path = real_dir(cases_of[i][0]);
        if (!fy_file_exists(path))
            skip();
        assert_null(fy_st_open(path, &e));
        assert_non_null(strstr(e.msg, cases_of[i][1]));
        assert_non_null(strstr(e.msg, path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_of_the_format_is_enforced),
        cmocka_unit_test(tensors_come_in_file_order_and_are_found_by_name),
        cmocka_unit_test(a_header_alone_is_enough_when_asked_for),
        cmocka_unit_test(every_cut_of_a_file_is_refused),
        cmocka_unit_test(impossible_header_sizes_are_refused_before_reading),
        cmocka_unit_test(overlapping_tensors_fail_before_memory_is_spent_on_them),
        cmocka_unit_test(any_failing_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(dtypes_have_sizes_and_tensor_types),
        cmocka_unit_test(strange_files_are_called_by_their_name),
        cmocka_unit_test(our_fixtures_open_and_their_tensors_tile_the_data),
        cmocka_unit_test(the_edge_set_gets_the_documented_verdicts),
        cmocka_unit_test(files_of_other_writers_are_readable),
        cmocka_unit_test(things_found_in_place_of_weights_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
