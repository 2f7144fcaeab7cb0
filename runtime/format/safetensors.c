/* Parsing a safetensors header, and checking that its tensors tile the data exactly. */
#include "format/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/math.h"
#include "base/names.h"
#include "base/str.h"
#include "format/sniff.h"

typedef struct {
    fy_span key, value;
} meta_entry;

struct fy_st {
    char *path; /* owned */
    fy_map map; /* empty when parsed from the caller's bytes */
    uint64_t data_offset, data_bytes;
    fy_st_tensor *tensors; /* owned; by offset once parsed */
    size_t n_tensors, cap_tensors;
    meta_entry *meta; /* owned */
    size_t n_meta, cap_meta;
    fy_names index;      /* name -> tensor */
    fy_arena strings;    /* names and metadata */
    uint64_t seen_bytes; /* sum over the tensors read so far */
};

/* --- the header's JSON ------------------------------------------------------------------------ */

static const char *shown(char buf[FY_QUOTE_BYTES], fy_span name)
{
    return fy_quote(buf, 48, name);
}

static int keep(fy_st *s, fy_span text, fy_span *out, fy_err *e)
{
    char *copy = fy_arena_strndup(&s->strings, text.ptr, text.len);
    if (copy == NULL)
        return fy_nomem(e);
    *out = (fy_span){copy, text.len};
    return 0;
}

static int read_metadata(fy_st *s, fy_json *j, fy_err *e)
{
    fy_span key, value;
    if (fy_json_object_begin(j, e) != 0)
        return -1;
    int rc;
    while ((rc = fy_json_object_next(j, &key, e)) == 1) {
        meta_entry m;
        if (keep(s, key, &m.key, e) != 0 || fy_json_string(j, &value, NULL, e) != 0 ||
            keep(s, value, &m.value, e) != 0)
            return -1;
        if (fy_append(&s->meta, &s->n_meta, &s->cap_meta, &m, sizeof m, e) != 0)
            return -1;
    }
    return rc;
}

static int read_dtype(fy_json *j, fy_dtype *out, fy_err *e)
{
    fy_span text;
    if (fy_json_string(j, &text, NULL, e) != 0)
        return -1;
    if (fy_dtype_parse(text, out))
        return 0;
    char buf[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EFORMAT, "dtype '%s' is not one of safetensors (F32, F16, BF16, ...)",
                   shown(buf, text));
}

static int read_shape(fy_json *j, fy_st_tensor *t, fy_err *e)
{
    if (fy_json_array_begin(j, e) != 0)
        return -1;
    int rc;
    while ((rc = fy_json_array_next(j, e)) == 1) {
        if (t->rank == FY_MAX_RANK)
            return fy_fail(e, FY_EUNSUPPORTED, "its shape has more than %d dimensions",
                           FY_MAX_RANK);
        if (fy_json_u64(j, &t->shape[t->rank], e) != 0)
            return -1;
        t->rank++;
    }
    return rc;
}

static int read_offsets(fy_json *j, uint64_t out[2], fy_err *e)
{
    if (fy_json_array_begin(j, e) != 0)
        return -1;
    int rc, n = 0;
    while ((rc = fy_json_array_next(j, e)) == 1 && n < 2) {
        if (fy_json_u64(j, &out[n++], e) != 0)
            return -1;
    }
    if (rc < 0)
        return -1;
    if (rc == 0 && n == 2)
        return 0;
    static const char *const found[] = {"none", "only 1", "more"};
    return fy_fail(e, FY_EFORMAT, "data_offsets has %s, expected 2 numbers (begin, end)", found[n]);
}

/* Bytes of a tensor by its dtype and shape. */
static int shape_bytes(const fy_st_tensor *t, uint64_t *out, fy_err *e)
{
    uint64_t bits = 1;
    bool fits = true;
    for (uint32_t i = 0; i < t->rank && fits; i++)
        fits = fy_mul_u64(bits, t->shape[i], &bits);
    if (!fits || !fy_mul_u64(bits, fy_dtype_bits(t->dtype), &bits))
        return fy_fail(e, FY_EFORMAT, "its shape needs more than 2^64 bits");
    if (bits % 8 != 0)
        return fy_fail(e, FY_EFORMAT, "its %" PRIu64 " bits of %s do not end on a byte", bits,
                       fy_dtype_name(t->dtype));
    *out = bits / 8;
    return 0;
}

/* Checks one tensor before the others are known. A header whose tensors share bytes fails here,
 * before memory is spent on more of them than the data can hold. */
static int check_tensor(fy_st *s, fy_st_tensor *t, const uint64_t off[2], fy_err *e)
{
    uint64_t want = 0;
    if (off[1] < off[0])
        return fy_fail(e, FY_EFORMAT,
                       "data_offsets end at %" PRIu64 ", before they begin at %" PRIu64, off[1],
                       off[0]);
    t->offset = off[0];
    t->bytes = off[1] - off[0];
    if (shape_bytes(t, &want, e) != 0)
        return -1;
    if (want != t->bytes)
        return fy_fail(e, FY_EFORMAT,
                       "its shape and dtype %s make %" PRIu64 " bytes, data_offsets %" PRIu64,
                       fy_dtype_name(t->dtype), want, t->bytes);
    if (off[1] > s->data_bytes)
        return fy_fail(e, FY_EFORMAT,
                       "ends at byte %" PRIu64 " of the data, but the file holds only %" PRIu64
                       ": it is incomplete; download it again",
                       off[1], s->data_bytes);
    s->seen_bytes += t->bytes; /* both are at most data_bytes < 2^63 */
    if (s->seen_bytes > s->data_bytes)
        return fy_fail(e, FY_EFORMAT,
                       "the tensors up to here claim %" PRIu64 " bytes of %" PRIu64
                       ": they overlap",
                       s->seen_bytes, s->data_bytes);
    return 0;
}

static int read_tensor_fields(fy_st *s, fy_json *j, fy_st_tensor *t, fy_err *e)
{
    fy_span key;
    uint64_t off[2] = {0, 0};
    bool has_dtype = false, has_shape = false, has_offsets = false;
    int rc = fy_json_object_begin(j, e);
    if (rc != 0)
        return -1;
    while ((rc = fy_json_object_next(j, &key, e)) == 1) {
        if (fy_span_is(key, "dtype")) {
            has_dtype = true;
            rc = read_dtype(j, &t->dtype, e);
        } else if (fy_span_is(key, "shape")) {
            has_shape = true;
            rc = read_shape(j, t, e);
        } else if (fy_span_is(key, "data_offsets")) {
            has_offsets = true;
            rc = read_offsets(j, off, e);
        } else {
            rc = fy_json_skip(j, e);
        }
        if (rc != 0)
            return -1;
    }
    if (rc != 0)
        return -1;
    const char *missing = !has_dtype ? "dtype" : !has_shape ? "shape" : "data_offsets";
    if (!has_dtype || !has_shape || !has_offsets)
        return fy_fail(e, FY_EFORMAT, "has no '%s'", missing);
    return check_tensor(s, t, off, e);
}

static int read_tensor(fy_st *s, fy_json *j, fy_span name, fy_err *e)
{
    char buf[FY_QUOTE_BYTES];
    fy_st_tensor t = {0};
    if (keep(s, name, &t.name, e) != 0)
        return -1;
    if (read_tensor_fields(s, j, &t, e) != 0)
        return fy_ctx(e, "tensor '%s'", shown(buf, t.name));
    if (s->n_tensors == UINT32_MAX)
        return fy_fail(e, FY_EUNSUPPORTED, "more than 2^32 tensors");
    return fy_append(&s->tensors, &s->n_tensors, &s->cap_tensors, &t, sizeof t, e);
}

static int read_header(fy_st *s, const char *text, size_t n, fy_err *e)
{
    fy_json *j = fy_json_new(text, n, e);
    if (j == NULL)
        return -1;
    fy_span key;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        bool is_meta = fy_span_is(key, "__metadata__");
        rc = is_meta ? read_metadata(s, j, e) : read_tensor(s, j, key, e);
        if (rc != 0 && is_meta)
            fy_ctx(e, "__metadata__");
    }
    if (rc == 0)
        rc = fy_json_end(j, e);
    fy_json_free(j);
    return rc == 0 ? 0 : fy_ctx(e, "header");
}

/* --- the whole file --------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const fy_st_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.ptr, y->name.ptr, n);
    return order != 0 ? order : x->name.len < y->name.len ? -1 : x->name.len > y->name.len;
}

/* Tensors, sorted by offset, cover the data from its first byte to its last without hole or
 * overlap. */
static int check_tiling(fy_st *s, fy_err *e)
{
    char buf[FY_QUOTE_BYTES];
    uint64_t end = 0;
    if (s->n_tensors > 0)
        qsort(s->tensors, s->n_tensors, sizeof *s->tensors, by_offset);
    for (size_t i = 0; i < s->n_tensors; i++) {
        const fy_st_tensor *t = &s->tensors[i];
        if (t->offset != end)
            return fy_fail(e, FY_EFORMAT,
                           "tensor '%s' begins at byte %" PRIu64 " of the data, expected %" PRIu64
                           " where the one before it ends: %s",
                           shown(buf, t->name), t->offset, end,
                           t->offset > end ? "a hole" : "they overlap");
        end += t->bytes;
    }
    if (end != s->data_bytes)
        return fy_fail(e, FY_EFORMAT, "%" PRIu64 " bytes follow the last tensor, expected none",
                       s->data_bytes - end);
    return 0;
}

/* The names have been checked for duplicates by the JSON reader. */
static int index_names(fy_st *s, fy_err *e)
{
    for (size_t i = 0; i < s->n_tensors; i++) {
        if (fy_names_add(&s->index, s->tensors[i].name, (uint32_t)i) < 0)
            return fy_nomem(e);
    }
    return 0;
}

/* Length of the JSON at p + 8, checked against what is there. */
static int header_bytes(const uint8_t *p, size_t n, uint64_t file_size, uint64_t *out, fy_err *e)
{
    uint64_t len = n >= 8 ? fy_le64(p) : 0;
    bool foreign = n <= 8 || len > FY_ST_MAX_HEADER || memchr("{ \t\r\n", p[8], 5) == NULL;
    const char *what = foreign ? fy_sniff(p, n) : NULL;
    if (what != NULL)
        return fy_fail(e, FY_EFORMAT, "is not a safetensors file but %s", what);
    if (file_size < 8 || n < 8)
        return fy_fail(e, FY_EFORMAT, "has %zu bytes, too few for a safetensors file", n);
    if (len == 0)
        return fy_fail(e, FY_EFORMAT, "says its header is empty, expected a JSON object");
    if (len > FY_ST_MAX_HEADER)
        return fy_fail(e, FY_EFORMAT,
                       "says its header has %" PRIu64 " bytes, at most %u are allowed: not a "
                       "safetensors file or a damaged one",
                       len, FY_ST_MAX_HEADER);
    if (len > file_size - 8 || len > n - 8)
        return fy_fail(e, FY_EFORMAT,
                       "says its header has %" PRIu64 " bytes, but only %" PRIu64
                       " follow: it is incomplete; download it again",
                       len, (n < file_size ? n : file_size) - 8);
    *out = len;
    return 0;
}

static int parse(fy_st *s, const uint8_t *p, size_t n, bool header_only, uint64_t file_size,
                 fy_err *e)
{
    uint64_t header = 0;
    if (header_bytes(p, n, file_size, &header, e) != 0)
        return -1;
    if (file_size > INT64_MAX)
        return fy_fail(e, FY_EARG, "cannot have %" PRIu64 " bytes", file_size);
    s->data_offset = 8 + header;
    s->data_bytes = file_size - s->data_offset;
    if (read_header(s, (const char *)p + 8, (size_t)header, e) != 0 || check_tiling(s, e) != 0 ||
        index_names(s, e) != 0)
        return -1;
    for (size_t i = 0; !header_only && i < s->n_tensors; i++)
        s->tensors[i].data = p + s->data_offset + s->tensors[i].offset;
    return 0;
}

static fy_st *st_new(const char *path, fy_err *e)
{
    fy_st *s = calloc(1, sizeof *s);
    if (s != NULL && (s->path = strdup(path)) != NULL)
        return s;
    free(s);
    fy_nomem(e);
    return NULL;
}

static fy_st *parse_or_close(fy_st *s, const void *p, size_t n, bool header_only,
                             uint64_t file_size, fy_err *e)
{
    if (parse(s, p, n, header_only, file_size, e) == 0)
        return s;
    fy_ctx(e, "%s", s->path);
    fy_st_close(s);
    return NULL;
}

fy_st *fy_st_parse(const void *p, size_t n, const char *name, bool header_only, uint64_t file_size,
                   fy_err *e)
{
    fy_st *s = st_new(name, e);
    return s != NULL ? parse_or_close(s, p, n, header_only, header_only ? file_size : n, e) : NULL;
}

fy_st *fy_st_open(const char *path, fy_err *e)
{
    fy_st *s = st_new(path, e);
    if (s == NULL)
        return NULL;
    if (fy_map_open(&s->map, path, e) != 0) { /* names the path by itself */
        fy_st_close(s);
        return NULL;
    }
    return parse_or_close(s, s->map.data, s->map.size, false, s->map.size, e);
}

void fy_st_close(fy_st *s)
{
    if (s == NULL)
        return;
    fy_map_close(&s->map);
    fy_names_release(&s->index);
    fy_arena_release(&s->strings);
    free(s->tensors);
    free(s->meta);
    free(s->path);
    free(s);
}

/* --- access ----------------------------------------------------------------------------------- */

const char *fy_st_path(const fy_st *s)
{
    return s->path;
}

const fy_map *fy_st_map(const fy_st *s)
{
    return &s->map;
}

size_t fy_st_n_tensors(const fy_st *s)
{
    return s->n_tensors;
}

const fy_st_tensor *fy_st_tensor_at(const fy_st *s, size_t i)
{
    return &s->tensors[i];
}

const fy_st_tensor *fy_st_find(const fy_st *s, fy_span name)
{
    uint32_t i;
    return fy_names_find(&s->index, name, &i) ? &s->tensors[i] : NULL;
}

uint64_t fy_st_data_offset(const fy_st *s)
{
    return s->data_offset;
}

size_t fy_st_n_meta(const fy_st *s)
{
    return s->n_meta;
}

void fy_st_meta_at(const fy_st *s, size_t i, fy_span *key, fy_span *value)
{
    *key = s->meta[i].key;
    *value = s->meta[i].value;
}
