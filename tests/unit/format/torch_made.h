/* PyTorch files in memory, made of a pickle by hand, for the tests of their reader. Include it
 * after cmocka.h. */
#ifndef FY_TESTS_TORCH_MADE_H
#define FY_TESTS_TORCH_MADE_H

#include <stdio.h>

#include "format/torch_file.h"
#include "tests/unit/format/torch_bytes.h"

/* Storage "0" holds the floats 0, 1, ... 23; storage "1" nothing. */
enum { ELEMS = 24 };

static inline void zip_file(zip_maker *z, const fy_str *pickle)
{
    float elems[ELEMS];
    for (int i = 0; i < ELEMS; i++)
        elems[i] = (float)i;
    zip_add(z, "m/data.pkl", pickle->ptr, pickle->len);
    zip_add(z, "m/byteorder", "little", 6);
    zip_add(z, "m/data/0", elems, sizeof elems);
    zip_add(z, "m/data/1", "", 0);
    zip_add(z, "m/version", "3\n", 2);
    zip_end(z);
}

/* `copy` is to be freed after the file was closed. */
static inline fy_torch *parse_copy(const char *p, size_t n, char **copy, fy_err *e)
{
    *copy = exact_copy(p, n);
    return fy_torch_parse(*copy, n, "t.pt", e);
}

/* A pickle in a zip archive; released here. */
static inline fy_torch *open_zip(fy_str *pickle, char **copy, fy_err *e)
{
    zip_maker z = {.zip64 = true, .descriptor = true, .padding = 5};
    zip_file(&z, pickle);
    fy_torch *t = parse_copy(z.bytes.ptr, z.bytes.len, copy, e);
    zip_release(&z);
    fy_str_release(pickle);
    return t;
}

static inline fy_torch *must_open(fy_str *pickle, char **copy)
{
    fy_err e = {0};
    fy_torch *t = open_zip(pickle, copy, &e);
    if (t == NULL)
        fail_msg("%s", e.msg);
    return t;
}

static inline void expect_words(fy_str *pickle, const char *words)
{
    fy_err e = {0};
    char *copy;
    fy_torch *t = open_zip(pickle, &copy, &e);
    if (t != NULL || strstr(e.msg, words) == NULL)
        fail_msg("'%s' is not in: %s", words, t != NULL ? "(accepted)" : e.msg);
    assert_int_equal(strncmp(e.msg, "t.pt: ", 6), 0);
    assert_int_equal(fy_exit_status(e.code), 1);
    free(copy);
}

static inline const fy_torch_tensor *find(const fy_torch *t, const char *name)
{
    const fy_torch_tensor *x = fy_torch_find(t, fy_span_of(name));
    if (x == NULL)
        fail_msg("no tensor '%s'", name);
    return x;
}

static inline void begin(fy_str *s)
{
    fy_str_puts(s, "\x80\x02}(");
}

static inline void end(fy_str *s)
{
    fy_str_puts(s, "u.");
}

#define F32_ARGS      .type = "FloatStorage", .key = "0", .elems = ELEMS
#define SHAPE(r, ...) .rank = r, .n_strides = r, .shape = {__VA_ARGS__}
#define STRIDE(...)   .stride = {__VA_ARGS__}

static inline void put_tensor(fy_str *s, const char *name, pk_tensor_args args)
{
    pk_text(s, name);
    pk_tensor(s, &args);
}

#endif
