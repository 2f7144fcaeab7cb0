#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "format/torch_file.h"
#include "tests/unit/format/torch_bytes.h"

typedef struct {
    const char *type, *type_2; /* of the references; type_2: of a second tensor, or NULL */
    int64_t elems;
    int64_t view[2];           /* offset and size, when size is not 0 */
    const char *key;           /* in the list of storages */
    uint64_t said;             /* elements, before the data */
    size_t data;               /* bytes */
    bool big, no_list;
} legacy_how;

static void put_legacy_tensor(fy_str *s, const char *name, const char *type, const legacy_how *how)
{
    pk_text(s, name);
    pk_global(s, "torch._utils", "_rebuild_tensor_v2");
    fy_str_puts(s, "((");
    pk_text(s, "storage");
    pk_global(s, "torch", type);
    pk_text(s, "94");
    pk_text(s, "cuda:0");
    pk_int(s, how->elems);
    if (how->view[1] != 0) {
        fy_str_putc(s, '(');
        pk_text(s, "95");
        pk_int(s, how->view[0]);
        pk_int(s, how->view[1]);
        fy_str_puts(s, "t");
    } else {
        fy_str_puts(s, "N");
    }
    fy_str_puts(s, "tQK\x01K\x02\x85K\x01\x85\x89}tR");
}

static void legacy_file(fy_str *s, const legacy_how *how)
{
    fy_str_add(s, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    fy_str_add(s, "\x80\x02M\xe9\x03.\x80\x02}(", 10);
    pk_text(s, "protocol_version");
    fy_str_puts(s, "M\xe9\x03");
    pk_text(s, "little_endian");
    fy_str_puts(s, how->big ? "\x89u." : "\x88u.");
    fy_str_puts(s, "\x80\x02}(");
    pk_text(s, "source");
    fy_str_puts(s, "(");
    pk_text(s, "module");
    fy_str_puts(s, "NNtQ"); /* a class's source: passed over */
    put_legacy_tensor(s, "w", how->type, how);
    if (how->type_2 != NULL)
        put_legacy_tensor(s, "v", how->type_2, how);
    fy_str_puts(s, "u.");
    fy_str_puts(s, how->no_list ? "\x80\x02}." : "\x80\x02]");
    if (!how->no_list) {
        pk_text(s, how->key);
        fy_str_puts(s, "a.");
    }
    put_le(s, how->said, 8);
    for (size_t i = 0; i < how->data; i++)
        fy_str_putc(s, (char)i);
}

#define LEGACY .type = "ShortStorage", .elems = 4, .key = "94", .said = 4, .data = 8

static void the_stream_before_zip_is_read(void **state)
{
    (void)state;
    static const struct {
        legacy_how how;
        uint8_t first; /* byte of the tensor */
        const char *words;
    } cases[] = {
        {{LEGACY}, 2, NULL},
        {{LEGACY, .view = {1, 3}}, 4, NULL},
        {{LEGACY, .type_2 = "HalfStorage"}, 2, NULL},
        {{LEGACY, .view = {1, 2}}, 0, "tensor 'w': reaches element 2 of a storage that has 2"},
        {{LEGACY, .view = {1, 4}}, 0,
         "a view of 4 elements from 1 on does not fit into its storage of 4"},
        {{LEGACY, .view = {INT64_MAX, INT64_MAX}}, 0, "does not fit into its storage of 4"},
        {{LEGACY, .type_2 = "FloatStorage"}, 0, "storage '94' has elements of two sizes"},
        {{LEGACY, .big = true}, 0, "is big-endian"},
        {{LEGACY, .no_list = true}, 0, "the keys of the storages are not a list"},
        {{.type = "ShortStorage", .elems = 4, .key = "95", .said = 4, .data = 8}, 0,
         "nothing refers to storage '95'"},
        {{.type = "ShortStorage", .elems = 4, .key = "94", .said = 5, .data = 8}, 0,
         "storage '94': has 5 elements, but only 8 bytes follow: the file is incomplete"},
        {{.type = "ShortStorage", .elems = 4, .key = "94", .said = UINT64_MAX, .data = 8}, 0,
         "but only 8 bytes follow"},
        {{.type = "ShortStorage", .elems = 4, .key = "94", .said = 3, .data = 6}, 0,
         "should have 4 elements of 2 bytes, but has 6 bytes"},
        {{.type = "QInt8Storage", .elems = 4, .key = "94", .said = 4, .data = 8}, 0,
         "a storage of type 'QInt8Storage' is not read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str s = {0};
        fy_err e = {0};
        legacy_file(&s, &cases[i].how);
        char *copy = exact_copy(s.ptr, s.len);
        fy_torch *t = fy_torch_parse(copy, s.len, "t.pt", &e);
        if ((t != NULL) != (cases[i].words == NULL) ||
            (t == NULL && strstr(e.msg, cases[i].words) == NULL))
            fail_msg("case %zu: %s", i, t != NULL ? "accepted" : e.msg);
        if (t != NULL) {
            assert_string_equal(fy_torch_container(t), "legacy");
            const fy_torch_tensor *w = fy_torch_find(t, FY_SPAN("w"));
            assert_int_equal(w->data[0], cases[i].first);
            assert_int_equal(w->dtype, FY_DT_I16);
            assert_int_equal(w->bytes, 4);
        }
        fy_torch_close(t);
        free(copy);
        fy_str_release(&s);
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    fy_str s = {0};
    legacy_file(&s, &(legacy_how){LEGACY, .view = {1, 3}});
    for (size_t n = 0; n <= s.len; n++) {
        fy_err e = {0};
        char *copy = exact_copy(s.ptr, n);
        fy_torch *t = fy_torch_parse(copy, n, "t.pt", &e);
        assert_int_equal(t != NULL, n == s.len);
        assert_int_equal(e.code != FY_OK, n < s.len);
        fy_torch_close(t);
        free(copy);
    }
    fy_str_release(&s);
}

static void a_failing_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    fy_str s = {0};
    legacy_file(&s, &(legacy_how){LEGACY});
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_torch *t = fy_torch_parse(s.ptr, s.len, "t.pt", &e);
        done = !alloc_fail_end();
        assert_int_equal(t != NULL, done);
        assert_int_equal(e.code, done ? FY_OK : FY_ENOMEM);
        fy_torch_close(t);
    }
    fy_str_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stream_before_zip_is_read),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_failing_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
