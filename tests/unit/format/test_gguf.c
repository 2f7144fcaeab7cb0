#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "format/gguf.h"

/* --- an allocator that can fail: the n-th allocation after arming returns NULL ---------------- */

static long fail_after = -1; /* -1: never */

static bool must_fail(void)
{
    return fail_after >= 0 && fail_after-- == 0;
}

#define REAL(ret, name, params, args)                                                              \
    ret name params                                                                                \
    {                                                                                              \
        static ret(*real) params;                                                                  \
        if (real == NULL)                                                                          \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                             \
        return must_fail() ? NULL : real args;                                                     \
    }
REAL(void *, malloc, (size_t n), (n))
REAL(void *, calloc, (size_t n, size_t size), (n, size))
REAL(void *, realloc, (void *p, size_t n), (p, n))

/* --- bytes ------------------------------------------------------------------------------------ */

static void u32(fy_str *s, uint32_t v)
{
    fy_str_add(s, &v, sizeof v);
}

static void u64(fy_str *s, uint64_t v)
{
    fy_str_add(s, &v, sizeof v);
}

static void text(fy_str *s, const char *z)
{
    u64(s, strlen(z));
    fy_str_puts(s, z);
}

static void head(fy_str *s, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    fy_str_puts(s, "GGUF");
    u32(s, version);
    u64(s, n_tensors);
    u64(s, n_kv);
}

static void key_u32(fy_str *s, const char *key, uint32_t v)
{
    text(s, key);
    u32(s, FY_KV_U32);
    u32(s, v);
}

static void tensor(fy_str *s, const char *name, uint32_t type, uint64_t ne0, uint64_t ne1,
                   uint64_t offset)
{
    text(s, name);
    u32(s, 2);
    u64(s, ne0);
    u64(s, ne1);
    u32(s, type);
    u64(s, offset);
}

static void pad(fy_str *s, size_t align)
{
    while (s->len % align != 0)
        fy_str_putc(s, 0);
}

static void zeros(fy_str *s, size_t n)
{
    while (n-- > 0)
        fy_str_putc(s, 0);
}

/* One key of every kind, two tensors. */
static void rich(fy_str *s)
{
    head(s, 3, 2, 12);
    text(s, "a.string");
    u32(s, FY_KV_STRING);
    text(s, "caf\xc3\xa9");
    key_u32(s, "a.u32", 4000000000u);
    text(s, "a.i8");
    u32(s, FY_KV_I8);
    fy_str_putc(s, -5);
    text(s, "a.u16");
    u32(s, FY_KV_U16);
    fy_str_add(s, &(uint16_t){65535}, 2);
    text(s, "a.i64");
    u32(s, FY_KV_I64);
    u64(s, (uint64_t)-7);
    text(s, "a.u64");
    u32(s, FY_KV_U64);
    u64(s, 1);
    text(s, "a.f32");
    u32(s, FY_KV_F32);
    fy_str_add(s, &(float){0.5f}, 4);
    text(s, "a.f64");
    u32(s, FY_KV_F64);
    fy_str_add(s, &(double){0.25}, 8);
    text(s, "a.bool");
    u32(s, FY_KV_BOOL);
    fy_str_putc(s, 1);
    text(s, "a.strings");
    u32(s, FY_KV_ARRAY);
    u32(s, FY_KV_STRING);
    u64(s, 3);
    text(s, "x");
    text(s, "");
    text(s, "yz");
    text(s, "a.ints");
    u32(s, FY_KV_ARRAY);
    u32(s, FY_KV_I32);
    u64(s, 2);
    u32(s, (uint32_t)-1);
    u32(s, 9);
    text(s, "a.empty");
    u32(s, FY_KV_ARRAY);
    u32(s, FY_KV_STRING);
    u64(s, 0);
    tensor(s, "blk.0.a.weight", FY_Q8_0, 64, 3, 0);
    tensor(s, "b", FY_F32, 3, 1, 224);
    pad(s, 32);
    zeros(s, 224 + 32);
}

static fy_gguf *parse(const fy_str *s, fy_err *e)
{
    assert_false(s->oom);
    return fy_gguf_parse(s->ptr, s->len, "x.gguf", false, e);
}

static void refused(fy_str *s, const char *message)
{
    fy_err e = {0};
    fy_gguf *g = parse(s, &e);
    assert_null(g);
    assert_int_not_equal(e.code, FY_OK);
    if (strstr(e.msg, message) == NULL)
        fail_msg("'%s' does not say '%s'", e.msg, message);
    fy_str_release(s);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void every_kind_of_key_is_read_and_has_its_type_checked(void **state)
{
    (void)state;
    fy_str s = {0};
    rich(&s);
    fy_err e = {0};
    fy_gguf *g = parse(&s, &e);
    assert_non_null(g);
    assert_int_equal(fy_gguf_n_kv(g), 12);
    assert_int_equal(fy_gguf_version(g), 3);
    assert_string_equal(fy_gguf_path(g), "x.gguf");

    uint32_t u = 0;
    float f = 0;
    bool b = false;
    fy_span t;
    const fy_gguf_kv *kv;
    assert_int_equal(fy_gguf_get_u32(g, "a.u32", &u, &e), 0);
    assert_int_equal(u, 4000000000u);
    assert_int_equal(fy_gguf_get_u32(g, "a.u16", &u, &e), 0);
    assert_int_equal(u, 65535);
    assert_int_equal(fy_gguf_get_u32(g, "a.u64", &u, &e), 0);
    assert_int_equal(u, 1);
    assert_int_equal(fy_gguf_get_u32(g, "no.such", &u, &e), 1);
    assert_int_equal(u, 1);
    assert_int_equal(fy_gguf_get_f32(g, "a.f32", &f, &e), 0);
    assert_true(f == 0.5f);
    assert_int_equal(fy_gguf_get_f32(g, "a.f64", &f, &e), 0);
    assert_true(f == 0.25f);
    assert_int_equal(fy_gguf_get_bool(g, "a.bool", &b, &e), 0);
    assert_true(b);
    assert_int_equal(fy_gguf_get_str(g, "a.string", &t, &e), 0);
    assert_true(fy_span_is(t, "caf\xc3\xa9"));
    assert_int_equal(fy_gguf_get_array(g, "a.strings", FY_KV_STRING, &kv, &e), 0);
    uint64_t pos = 0;
    assert_true(fy_span_is(fy_gguf_next_string(kv, &pos), "x"));
    assert_true(fy_span_is(fy_gguf_next_string(kv, &pos), ""));
    assert_true(fy_span_is(fy_gguf_next_string(kv, &pos), "yz"));
    assert_int_equal(pos, kv->bytes);
    assert_int_equal(fy_gguf_get_array(g, "a.ints", FY_KV_I32, &kv, &e), 0);
    assert_int_equal(fy_gguf_int_at(kv, 0), -1);
    assert_int_equal(fy_gguf_int_at(kv, 1), 9);
    assert_int_equal(fy_gguf_get_array(g, "a.empty", FY_KV_STRING, &kv, &e), 0);
    assert_int_equal(kv->count, 0);
    assert_int_equal(fy_gguf_int_at(fy_gguf_find(g, "a.i64"), 0), -7);
    assert_int_equal(e.code, FY_OK);

    static const struct {
        int which;
        const char *key, *message;
    } wrong[] = {
        {0, "a.i8", "x.gguf: key 'a.i8': value -5, expected 0 to 4294967295"},
        {0, "a.string", "x.gguf: key 'a.string': string, expected u32"},
        {0, "a.ints", "x.gguf: key 'a.ints': array of i32, expected u32"},
        {0, "a.bool", "x.gguf: key 'a.bool': bool, expected u32"},
        {1, "a.u32", "x.gguf: key 'a.u32': u32, expected f32"},
        {2, "a.u32", "x.gguf: key 'a.u32': u32, expected bool"},
        {3, "a.strings", "x.gguf: key 'a.strings': array of string, expected string"},
        {4, "a.strings", "x.gguf: key 'a.strings': array of string, expected array of i32"},
        {4, "a.u32", "x.gguf: key 'a.u32': u32, expected array of i32"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fy_err w = {0};
        int rc = wrong[i].which == 0   ? fy_gguf_get_u32(g, wrong[i].key, &u, &w)
                 : wrong[i].which == 1 ? fy_gguf_get_f32(g, wrong[i].key, &f, &w)
                 : wrong[i].which == 2 ? fy_gguf_get_bool(g, wrong[i].key, &b, &w)
                 : wrong[i].which == 3 ? fy_gguf_get_str(g, wrong[i].key, &t, &w)
                                       : fy_gguf_get_array(g, wrong[i].key, FY_KV_I32, &kv, &w);
        assert_int_equal(rc, -1);
        assert_string_equal(w.msg, wrong[i].message);
    }
    fy_gguf_close(g);
    fy_str_release(&s);
}

static void tensors_have_shape_place_and_bytes(void **state)
{
    (void)state;
    fy_str s = {0};
    rich(&s);
    fy_err e = {0};
    fy_gguf *g = parse(&s, &e);
    assert_non_null(g);
    assert_int_equal(fy_gguf_n_tensors(g), 2);
    const fy_gguf_tensor *t = fy_gguf_tensor_find(g, "blk.0.a.weight");
    assert_ptr_equal(t, fy_gguf_tensor_at(g, 0));
    assert_int_equal(t->type, FY_Q8_0);
    assert_int_equal(t->ne[0], 64);
    assert_int_equal(t->ne[1], 3);
    assert_int_equal(t->ne[3], 1);
    assert_int_equal(t->bytes, 3 * 2 * 34);
    assert_ptr_equal(t->data, s.ptr + fy_gguf_data_offset(g));
    assert_int_equal(fy_gguf_data_offset(g) % 32, 0);
    assert_int_equal(fy_gguf_tensor_find(g, "b")->offset, 224);
    assert_null(fy_gguf_tensor_find(g, "c"));
    fy_gguf_close(g);

    g = fy_gguf_parse(s.ptr, s.len - 288, "x.gguf", true, &e);
    assert_null(g); /* the last tensor entry is cut */
    e = (fy_err){0};
    g = fy_gguf_parse(s.ptr, s.len - 256, "x.gguf", true, &e);
    assert_non_null(g);
    assert_null(fy_gguf_tensor_at(g, 0)->data);
    fy_gguf_close(g);
    fy_str_release(&s);
}

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    fy_str s = {0};
    rich(&s);
    for (size_t n = 0; n < s.len; n++) {
        fy_err e = {0};
        char *exact = malloc(n > 0 ? n : 1); /* so that a sanitizer sees a read beyond the end */
        assert_non_null(exact);
        memcpy(exact, s.ptr, n);
        assert_null(fy_gguf_parse(exact, n, "x.gguf", false, &e));
        assert_int_not_equal(e.code, FY_OK);
        free(exact);
    }
    fy_str_release(&s);
}

static void broken_headers_are_named(void **state)
{
    (void)state;
    static const struct {
        uint32_t version;
        uint64_t n_tensors, n_kv;
        const char *message;
    } cases[] = {
        {0, 0, 0, "version 0, expected 2 or 3"},
        {1, 0, 0, "version 1 is obsolete"},
        {4, 0, 0, "version 4, expected 2 or 3; a newer ferry"},
        {0x03000000, 0, 0, "big-endian"},
        {3, UINT64_MAX, 0, "header claims 18446744073709551615 tensors, but only"},
        {3, 0, UINT64_C(1) << 40, "header claims 1099511627776 keys, but only"},
        {3, 0, 1, "claims 1 keys, but only 0 bytes follow"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str s = {0};
        head(&s, cases[i].version, cases[i].n_tensors, cases[i].n_kv);
        refused(&s, cases[i].message);
    }
    fy_str s = {0};
    fy_str_puts(&s, "GGU");
    refused(&s, "not a GGUF file: only 3 bytes long");
    fy_str_puts(&s, "FUGGxxxxxxxxxxxxxxxxxxxx");
    refused(&s, "not a GGUF file: begins with bytes 46 55 47 47, expected \"GGUF\"");
}

static void what_is_something_else_is_called_by_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *message;
    } cases[] = {
        {"", "x.gguf: not a GGUF file: an empty file"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "Git LFS pointer"},
        {"<!DOCTYPE html><html></html>", "an HTML page"},
        {"tjgg\3", "a GGML model of a format older than GGUF"},
        {"PWRJ\3", "begins with bytes 50 57 52 4a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str s = {0};
        fy_str_puts(&s, cases[i].bytes);
        refused(&s, cases[i].message);
    }
}

static void broken_keys_are_named(void **state)
{
    (void)state;
    fy_str s = {0};
    head(&s, 3, 0, 1);
    text(&s, "");
    zeros(&s, 32);
    refused(&s, "key number 0 is empty");

    head(&s, 3, 0, 2);
    key_u32(&s, "twin", 1);
    key_u32(&s, "twin", 2);
    refused(&s, "key 'twin' is there twice");

    head(&s, 3, 0, 1);
    text(&s, "k");
    u32(&s, 13);
    zeros(&s, 32);
    refused(&s, "key 'k': value type 13, expected 0 to 12");

    head(&s, 3, 0, 1);
    text(&s, "k");
    u32(&s, FY_KV_ARRAY);
    u32(&s, FY_KV_ARRAY);
    zeros(&s, 32);
    refused(&s, "key 'k': an array of arrays");

    head(&s, 3, 0, 1);
    text(&s, "k");
    u32(&s, FY_KV_ARRAY);
    u32(&s, FY_KV_U64);
    u64(&s, UINT64_C(1) << 61);
    zeros(&s, 32);
    refused(&s, "key 'k': array of 2305843009213693952 elements");

    head(&s, 3, 0, 1);
    text(&s, "k");
    u32(&s, FY_KV_STRING);
    u64(&s, UINT64_MAX);
    zeros(&s, 32);
    refused(&s, "string of 18446744073709551615 bytes");

    head(&s, 3, 0, 1);
    u64(&s, 5);
    fy_str_add(&s, "\x1b[2J!", 5);
    u32(&s, 99);
    zeros(&s, 32);
    refused(&s, "key '\\x1b[2J!': value type 99");

    head(&s, 3, 0, 1);
    key_u32(&s, "general.alignment", 13);
    refused(&s, "general.alignment is 13, expected a power of two");
    head(&s, 3, 0, 1);
    key_u32(&s, "general.alignment", 0);
    refused(&s, "general.alignment is 0, expected a power of two");
    head(&s, 3, 0, 1);
    text(&s, "general.alignment");
    u32(&s, FY_KV_U64);
    u64(&s, 32);
    refused(&s, "key 'general.alignment': type u64, expected u32");
}

static void broken_tensors_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t type;
        uint64_t ne0, ne1, offset;
        const char *message;
    } cases[] = {
        {"", FY_F32, 4, 1, 0, "tensor number 0 has no name"},
        {"a234567890123456789012345678901234567890123456789012345678901234", FY_F32, 4, 1, 0,
         "name of 64 bytes, at most 63"},
        {"a", FY_F32, 0, 1, 0, "tensor 'a': dimension 0 is 0"},
        {"a", FY_F32, 4, 0, 0, "tensor 'a': dimension 1 is 0"},
        {"a", FY_F32, UINT64_MAX, 1, 0, "more than 2^63 elements"},
        {"a", FY_F32, UINT64_C(1) << 32, UINT64_C(1) << 32, 0, "more than 2^63 elements"},
        {"a", FY_F32, UINT64_C(1) << 31, UINT64_C(1) << 31, 0, "do not fit any file"},
        {"a", 4, 32, 1, 0, "tensor 'a': type id 4 is unknown"},
        {"a", FY_Q8_1, 32, 1, 0, "type id 9 is unknown"},
        {"a", 0xffffffffu, 32, 1, 0, "type id -1 is unknown"},
        {"a", FY_Q4_0, 33, 1, 0, "rows of 33 elements, but q4_0 needs a multiple of 32"},
        {"a", FY_F32, 4, 1, 32, "offset 32 in the data section, expected 0"},
        {"a", FY_F32, 65, 1, 0, "needs 288 bytes with its padding, only 256"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str s = {0};
        head(&s, 3, 1, 0);
        tensor(&s, cases[i].name, cases[i].type, cases[i].ne0, cases[i].ne1, cases[i].offset);
        pad(&s, 32);
        zeros(&s, 256);
        refused(&s, cases[i].message);
    }
    fy_str s = {0};
    head(&s, 3, 2, 0);
    tensor(&s, "a", FY_F32, 4, 1, 0);
    tensor(&s, "a", FY_F32, 4, 1, 32);
    pad(&s, 32);
    zeros(&s, 64);
    refused(&s, "tensor 'a' is there twice");

    head(&s, 3, 2, 0);
    tensor(&s, "a", FY_F32, 4, 1, 0);
    tensor(&s, "b", FY_F32, 4, 1, 64);
    pad(&s, 32);
    zeros(&s, 128);
    refused(&s, "tensor 'b': offset 64 in the data section, expected 32");

    head(&s, 3, 1, 0);
    tensor(&s, "a", FY_F32, 8, 1, 0);
    zeros(&s, 32);
    refused(&s, "the data section needs 32 bytes");
}

static void another_alignment_moves_the_data(void **state)
{
    (void)state;
    for (uint32_t align = 1; align <= 4096; align *= 4) {
        fy_str s = {0};
        head(&s, 2, 2, 1);
        key_u32(&s, "general.alignment", align);
        uint64_t second = (12 + align - 1) / align * align;
        tensor(&s, "a", FY_F32, 3, 1, 0);
        tensor(&s, "b", FY_F32, 3, 1, second);
        pad(&s, align);
        zeros(&s, 2 * second);
        fy_err e = {0};
        fy_gguf *g = parse(&s, &e);
        assert_non_null(g);
        assert_int_equal(fy_gguf_alignment(g), align);
        assert_int_equal(fy_gguf_data_offset(g) % align, 0);
        fy_gguf_close(g);
        fy_str_release(&s);
    }
}

static void many_keys_and_tensors_are_found_by_name(void **state)
{
    (void)state;
    enum { N = 5000 };
    fy_str s = {0};
    head(&s, 3, N, N);
    char name[32];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "key.%d", i);
        key_u32(&s, name, (uint32_t)i);
    }
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "t.%d", i);
        tensor(&s, name, FY_F32, 8, 1, (uint64_t)i * 32);
    }
    pad(&s, 32);
    zeros(&s, N * 32);
    fy_err e = {0};
    fy_gguf *g = parse(&s, &e);
    assert_non_null(g);
    for (int i = 0; i < N; i++) {
        uint32_t v;
        snprintf(name, sizeof name, "key.%d", i);
        assert_int_equal(fy_gguf_get_u32(g, name, &v, &e), 0);
        assert_int_equal(v, i);
        snprintf(name, sizeof name, "t.%d", i);
        assert_ptr_equal(fy_gguf_tensor_find(g, name), fy_gguf_tensor_at(g, (size_t)i));
    }
    fy_gguf_close(g);
    fy_str_release(&s);
}

static void count_warning(void *user, fy_log_level level, const char *words)
{
    (void)words;
    *(int *)user += level == FY_LOG_WARN;
}

static void odd_but_harmless_bytes_are_accepted_with_few_warnings(void **state)
{
    (void)state;
    fy_str s = {0};
    head(&s, 3, 0, 40);
    for (int i = 0; i < 40; i++) {
        char name[16];
        int n = snprintf(name, sizeof name, "k%c%d", i % 2 ? '\0' : '.', i);
        u64(&s, (uint64_t)n);
        fy_str_add(&s, name, (size_t)n);
        if (i % 4 < 2) {
            u32(&s, FY_KV_BOOL);
            fy_str_putc(&s, 2);
        } else {
            u32(&s, FY_KV_STRING);
            text(&s, "\xff\xfe");
        }
    }
    int n_warnings = 0;
    fy_log_set(count_warning, &n_warnings);
    fy_err e = {0};
    fy_gguf *g = parse(&s, &e);
    fy_log_set(NULL, NULL);
    assert_non_null(g);
    bool b = false;
    assert_int_equal(fy_gguf_get_bool(g, "k.0", &b, &e), 0);
    assert_true(b);
    assert_in_range(n_warnings, 1, 6);
    fy_gguf_close(g);
    fy_str_release(&s);
}

static void a_failed_allocation_anywhere_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    fy_str s = {0};
    rich(&s);
    bool done = false;
    long n;
    for (n = 0; n < 1000 && !done; n++) {
        fy_err e = {0};
        fail_after = n;
        fy_gguf *g = parse(&s, &e);
        done = fail_after >= 0;
        fail_after = -1;
        if (g == NULL)
            assert_int_equal(e.code, FY_ENOMEM);
        else
            assert_true(done);
        fy_gguf_close(g);
    }
    assert_true(done);
    assert_true(n > 4);
    fy_str_release(&s);
}

static void missing_files_and_directories_are_errors(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_null(fy_gguf_open("tests/no-such-file.gguf", &e));
    assert_int_equal(e.code, FY_EIO);
    e = (fy_err){0};
    assert_null(fy_gguf_open("tests", &e));
    assert_non_null(strstr(e.msg, "tests: is a directory"));
}

/* libggml's verdict on each edge file, except where we are stricter. */
static void the_edge_files_get_their_verdict(void **state)
{
    (void)state;
    const char *real = getenv("FERRY_REAL");
    char dir[512], path[1024], line[512];
    snprintf(dir, sizeof dir, "%s/edge/gguf", real != NULL ? real : "../shared/real");
    if (!fy_file_is_dir(dir))
        skip();
    snprintf(path, sizeof path, "%s/VERDICTS.txt", dir);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    int n = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        char name[128], verdict[16];
        if (sscanf(line, "%127s | %15s", name, verdict) != 2)
            continue;
        bool accept = strcmp(verdict, "ACCEPT") == 0 && strstr(name, "_zero") == NULL;
        snprintf(path, sizeof path, "%s/%s.gguf", dir, name);
        fy_err e = {0};
        fy_gguf *g = fy_gguf_open(path, &e);
        if (accept != (g != NULL))
            fail_msg("%s: expected %s (%s)", name, accept ? "accepted" : "refused", e.msg);
        if (g == NULL)
            assert_non_null(strstr(e.msg, name));
        fy_gguf_close(g);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 68);
}

static void an_interrupt_ends_the_walk_over_keys(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_err e = {0};
    head(&s, 3, 0, 1);
    text(&s, "a");
    u32(&s, FY_KV_U32);
    u32(&s, 7);
    fy_interrupted = 1;
    assert_null(fy_gguf_parse(s.ptr, s.len, "m", false, &e));
    fy_interrupted = 0;
    assert_int_equal(e.code, FY_EINTR);
    fy_gguf *g = fy_gguf_parse(s.ptr, s.len, "m", false, NULL);
    assert_non_null(g);
    fy_gguf_close(g);
    fy_str_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_key_is_read_and_has_its_type_checked),
        cmocka_unit_test(tensors_have_shape_place_and_bytes),
        cmocka_unit_test(a_file_cut_at_any_byte_is_refused),
        cmocka_unit_test(broken_headers_are_named),
        cmocka_unit_test(what_is_something_else_is_called_by_its_name),
        cmocka_unit_test(broken_keys_are_named),
        cmocka_unit_test(broken_tensors_are_named),
        cmocka_unit_test(another_alignment_moves_the_data),
        cmocka_unit_test(many_keys_and_tensors_are_found_by_name),
        cmocka_unit_test(odd_but_harmless_bytes_are_accepted_with_few_warnings),
        cmocka_unit_test(a_failed_allocation_anywhere_is_reported_and_leaks_nothing),
        cmocka_unit_test(an_interrupt_ends_the_walk_over_keys),
        cmocka_unit_test(missing_files_and_directories_are_errors),
        cmocka_unit_test(the_edge_files_get_their_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
