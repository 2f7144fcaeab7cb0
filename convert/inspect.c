/* Both formats become the same `listing` first, so that every column and every JSON member is
 * written once. */
#include "convert/inspect.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/math.h"
#include "base/quote.h"
#include "convert/hf_dir.h"
#include "convert/traits.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "format/sniff.h"

enum { TEXT_BYTES = 60, TEXT_ITEMS = 4, JSON_ITEMS = 8, MAX_NAME_COLUMN = 60 };

typedef struct {
    fy_span name;
    const char *type;
    uint32_t rank;
    uint64_t shape[FY_MAX_RANK];
    uint64_t bytes, offset;
} row;

/* One open file, whichever format it has. */
typedef struct {
    const char *path;
    fy_gguf *g; /* owned; NULL: it is a safetensors file */
    fy_st *st;  /* owned; NULL: it is a GGUF file */
    size_t n_keys, n_tensors;
    uint64_t elems, bytes; /* of all tensors */
    bool oom;              /* an item of the JSON could not be made */
} listing;

static row row_at(const listing *l, size_t i)
{
    row r = {0};
    if (l->g != NULL) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(l->g, i);
        r = (row){.name = t->name,
                  .type = fy_type_name(t->type),
                  .rank = t->n_dims,
                  .bytes = t->bytes,
                  .offset = t->offset};
        memcpy(r.shape, t->ne, sizeof t->ne);
    } else {
        const fy_st_tensor *t = fy_st_tensor_at(l->st, i);
        r = (row){.name = t->name,
                  .type = fy_dtype_name(t->dtype),
                  .rank = t->rank,
                  .bytes = t->bytes,
                  .offset = t->offset};
        memcpy(r.shape, t->shape, sizeof t->shape);
    }
    return r;
}

static fy_span key_at(const listing *l, size_t i)
{
    if (l->g != NULL)
        return fy_gguf_kv_at(l->g, i)->key;
    fy_span key, value;
    fy_st_meta_at(l->st, i, &key, &value);
    return key;
}

/* --- text ------------------------------------------------------------------------------------- */

/* The shortest decimal that reads back as the same number. */
static void format_float(char out[32], double v, bool is_f32)
{
    for (int digits = is_f32 ? 6 : 15; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, v);
        double back = strtod(out, NULL);
        if (is_f32 ? (float)back == (float)v : back == v)
            return;
    }
}

static void put_string(fy_str *out, fy_span s)
{
    fy_str_putc(out, '"');
    fy_str_put_quoted(out, s, TEXT_BYTES);
    fy_str_putc(out, '"');
}

static uint64_t u64_at(const fy_gguf_kv *kv, uint64_t i)
{
    return fy_le64(kv->data + 8 * i);
}

/* Element i of any kind; `pos` walks the strings. */
static void put_element(fy_str *out, const fy_gguf_kv *kv, uint64_t i, uint64_t *pos)
{
    char number[32];
    if (kv->elem == FY_KV_STRING) {
        put_string(out, fy_gguf_next_string(kv, pos));
    } else if (kv->elem == FY_KV_F32 || kv->elem == FY_KV_F64) {
        format_float(number, fy_gguf_float_at(kv, i), kv->elem == FY_KV_F32);
        fy_str_puts(out, number);
    } else if (kv->elem == FY_KV_BOOL) {
        fy_str_puts(out, fy_gguf_int_at(kv, i) != 0 ? "true" : "false");
    } else if (kv->elem == FY_KV_U64) {
        fy_str_printf(out, "%" PRIu64, u64_at(kv, i));
    } else {
        fy_str_printf(out, "%" PRId64, fy_gguf_int_at(kv, i));
    }
}

static void put_value(fy_str *out, const listing *l, size_t k)
{
    if (l->st != NULL) {
        fy_span key, value;
        fy_st_meta_at(l->st, k, &key, &value);
        put_string(out, value);
        return;
    }
    const fy_gguf_kv *kv = fy_gguf_kv_at(l->g, k);
    uint64_t pos = 0, n = kv->count;
    if (kv->type == FY_KV_ARRAY) {
        fy_str_printf(out, "[%" PRIu64 " x %s]", kv->count, fy_kv_type_name(kv->elem));
        n = n > TEXT_ITEMS ? TEXT_ITEMS : n;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (kv->type == FY_KV_ARRAY)
            fy_str_puts(out, i == 0 ? " " : ", ");
        put_element(out, kv, i, &pos);
    }
    if (n < kv->count)
        fy_str_puts(out, ", ...");
}

/* Appends a cell and the blanks that fill its column. */
static void put_cell(fy_str *out, const char *text, size_t len, size_t width)
{
    fy_str_add(out, text, len);
    fy_str_printf(out, "%*s", (int)(len < width ? width - len + 2 : 2), "");
}

static void put_keys(fy_str *out, const listing *l)
{
    fy_str name = {0};
    size_t width = 0;
    for (size_t k = 0; k < l->n_keys; k++) {
        size_t n = key_at(l, k).len;
        if (n > width && n <= MAX_NAME_COLUMN)
            width = n;
    }
    fy_str_puts(out, l->g != NULL ? "\nkeys\n" : "\n__metadata__\n");
    for (size_t k = 0; k < l->n_keys; k++) {
        fy_str_clear(&name);
        fy_str_put_quoted(&name, key_at(l, k), SIZE_MAX);
        fy_str_puts(out, "  ");
        put_cell(out, fy_str_z(&name), name.len, width);
        if (l->g != NULL) {
            const char *type = fy_kv_type_name(fy_gguf_kv_at(l->g, k)->type);
            put_cell(out, type, strlen(type), 6);
        }
        put_value(out, l, k);
        fy_str_putc(out, '\n');
    }
    out->oom |= name.oom;
    fy_str_release(&name);
}

static void put_shape(fy_str *out, const row *r)
{
    fy_str_putc(out, '[');
    for (uint32_t d = 0; d < r->rank; d++)
        fy_str_printf(out, "%s%" PRIu64, d > 0 ? ", " : "", r->shape[d]);
    fy_str_putc(out, ']');
}

static void put_tensors(fy_str *out, const listing *l)
{
    fy_str cell = {0};
    size_t width = 4;
    for (size_t i = 0; i < l->n_tensors; i++) {
        size_t n = row_at(l, i).name.len;
        if (n > width && n <= MAX_NAME_COLUMN)
            width = n;
    }
    fy_str_printf(out, "\ntensors (shape: %s)\n  ",
                  l->g != NULL ? "row length first" : "row length last");
    put_cell(out, "name", 4, width);
    fy_str_printf(out, "%-8s  %-20s  %14s  %14s\n", "type", "shape", "bytes", "offset");
    for (size_t i = 0; i < l->n_tensors; i++) {
        row r = row_at(l, i);
        fy_str_clear(&cell);
        fy_str_put_quoted(&cell, r.name, SIZE_MAX);
        fy_str_puts(out, "  ");
        put_cell(out, fy_str_z(&cell), cell.len, width);
        fy_str_clear(&cell);
        put_shape(&cell, &r);
        fy_str_printf(out, "%-8s  %-20s  %14" PRIu64 "  %14" PRIu64 "\n", r.type, fy_str_z(&cell),
                      r.bytes, r.offset);
    }
    out->oom |= cell.oom;
    fy_str_release(&cell);
}

static void put_trait(void *out, const char *sentence)
{
    fy_str_printf(out, "  %s\n", sentence);
}

/* A file of no family that ferry computes, or a damaged one, is listed without. */
static void put_traits(fy_str *out, const listing *l)
{
    fy_str traits = {0};
    fy_err ignored = {0};
    if (l->g != NULL && fy_traits(l->g, put_trait, &traits, &ignored) == 0)
        fy_str_printf(out, "\nmodel\n%s", fy_str_z(&traits));
    out->oom |= traits.oom;
    fy_str_release(&traits);
}

static void put_text(fy_str *out, const listing *l)
{
    fy_str_put_quoted(out, fy_span_of(l->path), SIZE_MAX);
    if (l->g != NULL)
        fy_str_printf(
            out, ": GGUF version %" PRIu32 ", alignment %" PRIu64 ", data at byte %" PRIu64 "\n",
            fy_gguf_version(l->g), fy_gguf_alignment(l->g), fy_gguf_data_offset(l->g));
    else
        fy_str_printf(out, ": safetensors, data at byte %" PRIu64 "\n", fy_st_data_offset(l->st));
    if (l->g != NULL && fy_gguf_n_files(l->g) > 1)
        fy_str_printf(out, "split over %zu files\n", fy_gguf_n_files(l->g));
    fy_str_printf(out, "keys %zu, tensors %zu, elements %" PRIu64 ", tensor bytes %" PRIu64 "\n",
                  l->n_keys, l->n_tensors, l->elems, l->bytes);
    put_traits(out, l);
    if (l->n_keys > 0)
        put_keys(out, l);
    if (l->n_tensors > 0)
        put_tensors(out, l);
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* JSON text is UTF-8 and names may be anything: what is not valid, or has a NUL (which many JSON
 * readers refuse), is shown escaped. */
static json_t *json_text(fy_span s)
{
    bool has_nul = s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL;
    json_t *plain = has_nul ? NULL : json_stringn(s.ptr, s.len);
    if (plain != NULL)
        return plain;
    fy_str quoted = {0};
    fy_str_put_quoted(&quoted, s, SIZE_MAX);
    json_t *v = quoted.oom ? NULL : json_stringn(fy_str_z(&quoted), quoted.len);
    fy_str_release(&quoted);
    return v;
}

/* Numbers that JSON or its reader cannot hold are given as text. */
static json_t *json_u64(uint64_t v)
{
    char text[32];
    if (v <= INT64_MAX)
        return json_integer((json_int_t)v);
    snprintf(text, sizeof text, "%" PRIu64, v);
    return json_string(text);
}

static json_t *json_element(const fy_gguf_kv *kv, uint64_t i, uint64_t *pos)
{
    char text[32];
    switch ((int)kv->elem) {
    case FY_KV_STRING:
        return json_text(fy_gguf_next_string(kv, pos));
    case FY_KV_BOOL:
        return json_boolean(fy_gguf_int_at(kv, i) != 0);
    case FY_KV_U64:
        return json_u64(u64_at(kv, i));
    case FY_KV_F32:
    case FY_KV_F64:
        format_float(text, fy_gguf_float_at(kv, i), kv->elem == FY_KV_F32);
        return isfinite(fy_gguf_float_at(kv, i)) ? json_real(strtod(text, NULL))
                                                 : json_string(text);
    default:
        return json_integer(fy_gguf_int_at(kv, i));
    }
}

/* jansson takes NULL for a value that could not be made; what is missing then must not go
 * unnoticed. */
static void append(listing *l, json_t *array, json_t *v)
{
    l->oom |= json_array_append_new(array, v) != 0;
}

static void set(listing *l, json_t *object, const char *key, json_t *v)
{
    l->oom |= json_object_set_new(object, key, v) != 0;
}

static json_t *json_value(listing *l, size_t k)
{
    if (l->st != NULL) {
        fy_span key, value;
        fy_st_meta_at(l->st, k, &key, &value);
        return json_text(value);
    }
    const fy_gguf_kv *kv = fy_gguf_kv_at(l->g, k);
    uint64_t pos = 0;
    if (kv->type != FY_KV_ARRAY)
        return json_element(kv, 0, &pos);
    json_t *v = json_object(), *first = json_array();
    for (uint64_t i = 0; i < kv->count && i < JSON_ITEMS; i++)
        append(l, first, json_element(kv, i, &pos));
    set(l, v, "array_of", json_string(fy_kv_type_name(kv->elem)));
    set(l, v, "count", json_u64(kv->count));
    set(l, v, "first", first);
    return v;
}

static json_t *json_keys(listing *l)
{
    json_t *keys = json_object();
    fy_str name = {0};
    for (size_t k = 0; k < l->n_keys; k++) {
        fy_str_clear(&name);
        fy_str_put_quoted(&name, key_at(l, k), SIZE_MAX);
        set(l, keys, fy_str_z(&name), json_value(l, k));
    }
    l->oom |= name.oom;
    fy_str_release(&name);
    return keys;
}

static json_t *json_tensors(listing *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->n_tensors; i++) {
        row r = row_at(l, i);
        json_t *t = json_object(), *shape = json_array();
        for (uint32_t d = 0; d < r.rank; d++)
            append(l, shape, json_u64(r.shape[d]));
        set(l, t, "name", json_text(r.name));
        set(l, t, "type", json_string(r.type));
        set(l, t, "shape", shape);
        set(l, t, "bytes", json_u64(r.bytes));
        set(l, t, "offset", json_u64(r.offset));
        append(l, list, t);
    }
    return list;
}

typedef struct {
    listing *l;
    json_t *array;
} trait_list;

static void append_trait(void *user, const char *sentence)
{
    trait_list *t = user;
    append(t->l, t->array, json_string(sentence));
}

static json_t *json_traits(listing *l)
{
    fy_err ignored = {0};
    trait_list t = {l, json_array()};
    if (fy_traits(l->g, append_trait, &t, &ignored) != 0)
        json_array_clear(t.array);
    return t.array;
}

static int put_json_chunk(const char *p, size_t n, void *out)
{
    fy_str_add(out, p, n);
    return 0;
}

static void put_json(fy_str *out, listing *l)
{
    json_t *top = json_object();
    set(l, top, "path", json_text(fy_span_of(l->path)));
    set(l, top, "format", json_string(l->g != NULL ? "gguf" : "safetensors"));
    if (l->g != NULL) {
        set(l, top, "version", json_integer(fy_gguf_version(l->g)));
        set(l, top, "alignment", json_u64(fy_gguf_alignment(l->g)));
        if (fy_gguf_n_files(l->g) > 1)
            set(l, top, "files", json_u64(fy_gguf_n_files(l->g)));
    }
    set(l, top, "data_offset",
        json_u64(l->g != NULL ? fy_gguf_data_offset(l->g) : fy_st_data_offset(l->st)));
    set(l, top, "elements", json_u64(l->elems));
    set(l, top, "bytes", json_u64(l->bytes));
    if (l->g != NULL)
        set(l, top, "traits", json_traits(l));
    set(l, top, "metadata", json_keys(l));
    set(l, top, "tensors", json_tensors(l));
    if (l->oom ||
        json_dump_callback(top, put_json_chunk, out, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) != 0)
        out->oom = true;
    fy_str_putc(out, '\n');
    json_decref(top);
}

/* --- the file --------------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static int fail_directory(const char *path, fy_err *e)
{
    char *index = fy_path_join(path, FY_HF_INDEX);
    bool sharded = index != NULL && fy_file_exists(index);
    free(index);
    return fy_fail(e, FY_EIO, "%s: is a directory, expected a file: %s", path,
                   sharded ? "inspect one of the shards that its " FY_HF_INDEX " names"
                           : "inspect one of its files, such as " FY_HF_SINGLE);
}

/* Opens by content; the name decides only where the first bytes are those of neither format, so
 * that a damaged file gets the words of what it should be. */
static int open_any(listing *l, fy_err *e)
{
    fy_map m;
    if (fy_file_is_dir(l->path))
        return fail_directory(l->path, e);
    if (fy_map_open(&m, l->path, e) != 0)
        return -1;
    bool st_head = m.size >= 10 && fy_le64(m.data) <= FY_ST_MAX_HEADER &&
                   memchr("{ \t\r\n", m.data[8], 5) != NULL;
    bool is_gguf = (m.size >= 4 && memcmp(m.data, "GGUF", 4) == 0) ||
                   (!st_head && ends_with(l->path, ".gguf"));
    bool is_st = st_head || ends_with(l->path, ".safetensors");
    const char *what = is_gguf || is_st ? NULL : fy_sniff(m.data, m.size);
    fy_map_close(&m);
    if (is_gguf)
        l->g = fy_gguf_open(l->path, e);
    else if (is_st)
        l->st = fy_st_open(l->path, e);
    else
        return fy_fail(e, FY_EFORMAT, "%s: is neither a GGUF nor a safetensors file%s%s", l->path,
                       what != NULL ? " but " : "", what != NULL ? what : "");
    return l->g != NULL || l->st != NULL ? 0 : -1;
}

static void count(listing *l)
{
    l->n_keys = l->g != NULL ? fy_gguf_n_kv(l->g) : fy_st_n_meta(l->st);
    l->n_tensors = l->g != NULL ? fy_gguf_n_tensors(l->g) : fy_st_n_tensors(l->st);
    for (size_t i = 0; i < l->n_tensors; i++) {
        row r = row_at(l, i);
        uint64_t n = 1;
        for (uint32_t d = 0; d < r.rank; d++)
            n *= r.shape[d]; /* checked by the readers */
        l->elems += n;
        l->bytes += r.bytes;
    }
}

int fy_inspect(const char *path, bool as_json, fy_str *out, fy_err *e)
{
    listing l = {.path = path};
    if (open_any(&l, e) != 0)
        return -1;
    count(&l);
    if (as_json)
        put_json(out, &l);
    else
        put_text(out, &l);
    fy_gguf_close(l.g);
    fy_st_close(l.st);
    return out->oom ? fy_nomem(e) : 0;
}
