/* Zip archives and pickles made by hand, for the tests of their readers: small, and as wrong as a
 * test wants them. */
#ifndef FY_TESTS_TORCH_BYTES_H
#define FY_TESTS_TORCH_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static inline void put_le(fy_str *s, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fy_str_putc(s, (char)(i < 8 ? v >> (8 * i) : 0));
}

/* A block of exactly n bytes on the heap, so that a read past its end is seen. */
static inline char *exact_copy(const char *p, size_t n)
{
    char *copy = malloc(n > 0 ? n : 1);
    if (n > 0)
        memcpy(copy, p, n);
    return copy;
}

/* --- zip -------------------------------------------------------------------------------------- */

typedef struct {
    fy_str bytes, central;
    unsigned n;
    bool zip64; /* sizes and offsets in extra fields, and 64-bit end records, as PyTorch writes */
    bool descriptor; /* no sizes in the local header */
    uint16_t method, flags;
    uint16_t padding;    /* of the local extra field */
    uint64_t more_bytes; /* than there are: what the next entry says */
} zip_maker;

static inline void zip_add(zip_maker *z, const char *name, const void *data, size_t n)
{
    uint64_t at = z->bytes.len, said = n + z->more_bytes;
    fy_str_add(&z->bytes, "PK\3\4\0\0", 6);
    put_le(&z->bytes, z->flags | (z->descriptor ? 8u : 0u), 2);
    put_le(&z->bytes, z->method, 2);
    put_le(&z->bytes, 0, 8); /* time, date, checksum */
    put_le(&z->bytes, z->descriptor ? 0 : said, 4);
    put_le(&z->bytes, z->descriptor ? 0 : said, 4);
    put_le(&z->bytes, strlen(name), 2);
    put_le(&z->bytes, z->padding, 2);
    fy_str_puts(&z->bytes, name);
    for (unsigned i = 0; i < z->padding; i++)
        fy_str_putc(&z->bytes, 'Z');
    fy_str_add(&z->bytes, data, n);
    fy_str_add(&z->central, "PK\1\2\0\0\0\0", 8);
    put_le(&z->central, z->flags | (z->descriptor ? 8u : 0u), 2);
    put_le(&z->central, z->method, 2);
    put_le(&z->central, 0, 8);
    put_le(&z->central, z->zip64 ? UINT32_MAX : said, 4);
    put_le(&z->central, z->zip64 ? UINT32_MAX : said, 4);
    put_le(&z->central, strlen(name), 2);
    put_le(&z->central, z->zip64 ? 28 : 0, 2);
    put_le(&z->central, 0, 10); /* comment, part, attributes */
    put_le(&z->central, z->zip64 ? UINT32_MAX : at, 4);
    fy_str_puts(&z->central, name);
    if (z->zip64) {
        put_le(&z->central, 1, 2);
        put_le(&z->central, 24, 2);
        put_le(&z->central, said, 8);
        put_le(&z->central, said, 8);
        put_le(&z->central, at, 8);
    }
    z->n++;
}

/* Ends the archive; what it says of itself may be wrong. */
static inline void zip_end_as(zip_maker *z, uint64_t count, uint64_t at, uint64_t bytes)
{
    fy_str_add(&z->bytes, z->central.ptr, z->central.len);
    if (z->zip64) {
        uint64_t end64 = z->bytes.len;
        fy_str_add(&z->bytes, "PK\6\6", 4);
        put_le(&z->bytes, 44, 8);
        put_le(&z->bytes, 0, 12); /* versions, part numbers */
        put_le(&z->bytes, count, 8);
        put_le(&z->bytes, count, 8);
        put_le(&z->bytes, bytes, 8);
        put_le(&z->bytes, at, 8);
        fy_str_add(&z->bytes, "PK\6\7\0\0\0\0", 8);
        put_le(&z->bytes, end64, 8);
        put_le(&z->bytes, 1, 4);
    }
    fy_str_add(&z->bytes, "PK\5\6\0\0\0\0", 8);
    put_le(&z->bytes, z->zip64 ? UINT16_MAX : count, 2);
    put_le(&z->bytes, z->zip64 ? UINT16_MAX : count, 2);
    put_le(&z->bytes, z->zip64 ? UINT32_MAX : bytes, 4);
    put_le(&z->bytes, z->zip64 ? UINT32_MAX : at, 4);
    put_le(&z->bytes, 0, 2);
}

static inline void zip_end(zip_maker *z)
{
    zip_end_as(z, z->n, z->bytes.len, z->central.len);
}

static inline void zip_release(zip_maker *z)
{
    fy_str_release(&z->bytes);
    fy_str_release(&z->central);
    *z = (zip_maker){0};
}

/* --- pickle ----------------------------------------------------------------------------------- */

static inline void pk_text(fy_str *s, const char *text)
{
    fy_str_putc(s, 'X');
    put_le(s, strlen(text), 4);
    fy_str_puts(s, text);
}

static inline void pk_int(fy_str *s, int64_t v)
{
    fy_str_add(s, "\x8a\x08", 2);
    put_le(s, (uint64_t)v, 8);
}

static inline void pk_global(fy_str *s, const char *module, const char *name)
{
    fy_str_printf(s, "c%s\n%s\n", module, name);
}

static inline void pk_ints(fy_str *s, const int64_t *v, size_t n)
{
    fy_str_putc(s, '(');
    for (size_t i = 0; i < n; i++)
        pk_int(s, v[i]);
    fy_str_putc(s, 't');
}

/* ('storage', torch.TYPE, key, 'cpu', elems) */
static inline void pk_storage(fy_str *s, const char *type, const char *key, int64_t elems)
{
    fy_str_putc(s, '(');
    pk_text(s, "storage");
    pk_global(s, strcmp(type, "UntypedStorage") == 0 ? "torch.storage" : "torch", type);
    pk_text(s, key);
    pk_text(s, "cpu");
    pk_int(s, elems);
    fy_str_puts(s, "tQ");
}

typedef struct {
    const char *type, *key;
    int64_t elems, offset;
    size_t rank, n_strides;
    int64_t shape[10], stride[10];
    const char *metadata; /* a pickled dict, or NULL */
} pk_tensor_args;

/* _rebuild_tensor_v2(storage, offset, size, stride, False, OrderedDict()), and metadata */
static inline void pk_tensor(fy_str *s, const pk_tensor_args *t)
{
    pk_global(s, "torch._utils", "_rebuild_tensor_v2");
    fy_str_putc(s, '(');
    pk_storage(s, t->type, t->key, t->elems);
    pk_int(s, t->offset);
    pk_ints(s, t->shape, t->rank);
    pk_ints(s, t->stride, t->n_strides);
    fy_str_putc(s, '\x89');
    pk_global(s, "collections", "OrderedDict");
    fy_str_puts(s, ")R");
    fy_str_puts(s, t->metadata != NULL ? t->metadata : "");
    fy_str_puts(s, "tR");
}

#endif
