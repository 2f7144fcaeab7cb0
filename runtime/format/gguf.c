/* Parsing the bytes of one GGUF file: header, keys, tensor entries, each checked where it is read;
 * and access to what was parsed. */
#include "format/gguf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/math.h"
#include "base/str.h"
#include "format/gguf_impl.h"
#include "format/sniff.h"

/* ggml's own limits; they keep every product below far from 2^64. */
#define MAX_STRING_BYTES (UINT64_C(1) << 30)
#define MAX_ARRAY_ELEMS  (UINT64_C(1) << 30)

#define MAX_WARNINGS 4 /* shown per file: a hostile file must not flood the terminal */

static const struct {
    const char *name;
    uint8_t bytes;
} kv_types[FY_KV_COUNT] = {
    [FY_KV_U8] = {"u8", 1},       [FY_KV_I8] = {"i8", 1},     [FY_KV_U16] = {"u16", 2},
    [FY_KV_I16] = {"i16", 2},     [FY_KV_U32] = {"u32", 4},   [FY_KV_I32] = {"i32", 4},
    [FY_KV_F32] = {"f32", 4},     [FY_KV_BOOL] = {"bool", 1}, [FY_KV_STRING] = {"string", 0},
    [FY_KV_ARRAY] = {"array", 0}, [FY_KV_U64] = {"u64", 8},   [FY_KV_I64] = {"i64", 8},
    [FY_KV_F64] = {"f64", 8},
};

const char *fy_kv_type_name(fy_kv_type t)
{
    return (unsigned)t < FY_KV_COUNT ? kv_types[t].name : "?";
}

size_t fy_kv_type_bytes(fy_kv_type t)
{
    return (unsigned)t < FY_KV_COUNT ? kv_types[t].bytes : 0;
}

/* --- reading bytes ---------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *p;
    uint64_t size, pos;
    bool header_only;
    int n_warnings;
    const char *name; /* of the file */
    fy_err *e;
} reader;

__attribute__((format(printf, 2, 3))) static void warn(reader *r, const char *fmt, ...)
{
    if (r->n_warnings++ >= MAX_WARNINGS)
        return;
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fy_log(FY_LOG_WARN, "%s: %s", r->name, text);
}

static uint64_t left(const reader *r)
{
    return r->size - r->pos;
}

/* The next n bytes, or NULL with the error set. */
static const uint8_t *take(reader *r, uint64_t n, const char *what)
{
    if (n > left(r)) {
        fy_fail(r->e, FY_EFORMAT,
                "the file is cut off: %s needs %" PRIu64 " bytes at offset %" PRIu64
                ", only %" PRIu64 " are left (incomplete download?)",
                what, n, r->pos, left(r));
        return NULL;
    }
    const uint8_t *p = r->p + r->pos;
    r->pos += n;
    return p;
}

static int take_u32(reader *r, uint32_t *out, const char *what)
{
    const uint8_t *p = take(r, 4, what);
    if (p == NULL)
        return -1;
    *out = fy_le32(p);
    return 0;
}

static int take_u64(reader *r, uint64_t *out, const char *what)
{
    const uint8_t *p = take(r, 8, what);
    if (p == NULL)
        return -1;
    *out = fy_le64(p);
    return 0;
}

static int take_string(reader *r, fy_span *out, const char *what)
{
    uint64_t n;
    if (take_u64(r, &n, what) != 0)
        return -1;
    if (n > MAX_STRING_BYTES)
        return fy_fail(r->e, FY_EFORMAT,
                       "%s: string of %" PRIu64 " bytes at offset %" PRIu64 ", at most %" PRIu64,
                       what, n, r->pos - 8, MAX_STRING_BYTES);
    const uint8_t *p = take(r, n, what);
    if (p == NULL)
        return -1;
    *out = (fy_span){(const char *)p, (size_t)n};
    return 0;
}

/* --- header ----------------------------------------------------------------------------------- */

static bool is_powerinfer(const uint8_t *p)
{
    return memcmp(p, FY_GGUF_POWERINFER, 4) == 0;
}

static int parse_magic(reader *r)
{
    if (r->size >= 4 && (memcmp(r->p, "GGUF", 4) == 0 || is_powerinfer(r->p))) {
        r->pos = 4;
        return 0;
    }
    const char *kind = fy_sniff(r->p, (size_t)r->size);
    if (kind != NULL)
        return fy_fail(r->e, FY_EFORMAT, "not a GGUF file: %s", kind);
    if (r->size < 4)
        return fy_fail(r->e, FY_EFORMAT, "not a GGUF file: only %" PRIu64 " bytes long", r->size);
    return fy_fail(r->e, FY_EFORMAT,
                   "not a GGUF file: begins with bytes %02x %02x %02x %02x, expected \"GGUF\"",
                   r->p[0], r->p[1], r->p[2], r->p[3]);
}

static int parse_version(reader *r, uint32_t *out)
{
    uint32_t v;
    if (take_u32(r, &v, "the version") != 0)
        return -1;
    if (v != 0 && (v & 0xffff) == 0)
        return fy_fail(r->e, FY_EUNSUPPORTED,
                       "big-endian GGUF (version field %#" PRIx32 "): wrong byte order for "
                       "this machine; get a little-endian file",
                       v);
    if (v == 1)
        return fy_fail(r->e, FY_EUNSUPPORTED,
                       "GGUF version 1 is obsolete, expected 2 or 3; convert the model again");
    if (v < 2 || v > 3)
        return fy_fail(r->e, FY_EUNSUPPORTED, "GGUF version %" PRIu32 ", expected 2 or 3%s", v,
                       v > 3 ? "; a newer ferry may read it" : "");
    *out = v;
    return 0;
}

/* A count must be possible with the bytes that are left, so that a wild one is named here. */
static int parse_count(reader *r, uint64_t least_bytes, uint64_t *out, const char *what)
{
    if (take_u64(r, out, what) != 0)
        return -1;
    if (*out > left(r) / least_bytes || *out > UINT32_MAX)
        return fy_fail(r->e, FY_EFORMAT,
                       "header claims %" PRIu64 " %s, but only %" PRIu64 " bytes follow", *out,
                       what, left(r));
    return 0;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* Walks over strings and warns about those that are not text; readers of tokens handle them. */
static int skip_strings(reader *r, uint64_t n, const char *key)
{
    uint64_t n_bad = 0, first_bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        fy_span s;
        if (fy_check_interrupt(r->e) != 0 || take_string(r, &s, "a string") != 0)
            return -1;
        if (!fy_utf8_valid(s.ptr, s.len) && n_bad++ == 0)
            first_bad = i;
    }
    if (n_bad == 1 && n == 1)
        warn(r, "key '%s': the text is not valid UTF-8", key);
    else if (n_bad > 0)
        warn(r, "key '%s': %" PRIu64 " strings are not valid UTF-8, the first is number %" PRIu64,
             key, n_bad, first_bad);
    return 0;
}

static void check_bools(reader *r, const fy_gguf_kv *kv, const char *key)
{
    for (uint64_t i = 0; i < kv->count; i++) {
        if (kv->data[i] > 1) {
            warn(r, "key '%s': bool has the value %u, read as true", key, kv->data[i]);
            return;
        }
    }
}

static int check_kv_type(reader *r, uint32_t type, bool is_elem)
{
    if (type >= FY_KV_COUNT)
        return fy_fail(r->e, FY_EFORMAT, "%s type %" PRId32 ", expected 0 to %d",
                       is_elem ? "array element" : "value", (int32_t)type, FY_KV_COUNT - 1);
    if (is_elem && type == FY_KV_ARRAY)
        return fy_fail(r->e, FY_EUNSUPPORTED, "an array of arrays, which no GGUF reader supports");
    return 0;
}

static int parse_value(reader *r, fy_gguf_kv *kv, const char *key)
{
    uint32_t type;
    if (take_u32(r, &type, "the value type") != 0 || check_kv_type(r, type, false) != 0)
        return -1;
    kv->type = (fy_kv_type)type;
    kv->elem = kv->type;
    kv->count = 1;
    if (kv->type == FY_KV_ARRAY) {
        uint32_t elem;
        if (take_u32(r, &elem, "the element type") != 0 || check_kv_type(r, elem, true) != 0 ||
            take_u64(r, &kv->count, "the element count") != 0)
            return -1;
        kv->elem = (fy_kv_type)elem;
        if (kv->count > MAX_ARRAY_ELEMS)
            return fy_fail(r->e, FY_EFORMAT, "array of %" PRIu64 " elements, at most %" PRIu64,
                           kv->count, MAX_ARRAY_ELEMS);
    }
    kv->data = r->p + r->pos;
    uint64_t begin = r->pos;
    if (kv->elem == FY_KV_STRING) {
        if (skip_strings(r, kv->count, key) != 0)
            return -1;
    } else if (take(r, kv->count * fy_kv_type_bytes(kv->elem), "the value") == NULL) {
        return -1;
    }
    kv->bytes = r->pos - begin;
    if (kv->elem == FY_KV_BOOL)
        check_bools(r, kv, key);
    return 0;
}

static int parse_kv(reader *r, fy_gguf *g)
{
    fy_gguf_kv kv = {0};
    if (take_string(r, &kv.key, "a key") != 0)
        return fy_ctx(r->e, "key number %zu", g->n_kv);
    if (kv.key.len == 0)
        return fy_fail(r->e, FY_EFORMAT, "key number %zu is empty", g->n_kv);
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, kv.key);
    if (memchr(kv.key.ptr, '\0', kv.key.len) != NULL)
        warn(r, "key '%s' holds a NUL byte", shown);
    int rc = fy_names_add(&g->keys, kv.key, (uint32_t)g->n_kv);
    if (rc < 0)
        return fy_nomem(r->e);
    if (rc > 0)
        return fy_fail(r->e, FY_EFORMAT, "key '%s' is there twice, the second time as number %zu",
                       shown, g->n_kv);
    if (parse_value(r, &kv, shown) != 0)
        return fy_ctx(r->e, "key '%s'", shown);
    return fy_append(&g->kv, &g->n_kv, &g->kv_cap, &kv, sizeof kv, r->e);
}

static int find_alignment(reader *r, fy_gguf *g)
{
    g->alignment = FY_GGUF_ALIGNMENT;
    const fy_gguf_kv *kv = fy_gguf_find(g, FY_KEY_ALIGNMENT);
    if (kv == NULL)
        return 0;
    if (kv->type != FY_KV_U32)
        return fy_fail(r->e, FY_EFORMAT, "key 'general.alignment': type %s, expected u32",
                       fy_kv_type_name(kv->type));
    g->alignment = fy_le32(kv->data);
    if (g->alignment == 0 || (g->alignment & (g->alignment - 1)) != 0)
        return fy_fail(r->e, FY_EFORMAT,
                       "general.alignment is %" PRIu64 ", expected a power of two", g->alignment);
    return 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static int parse_name(reader *r, fy_gguf *g, fy_gguf_tensor *t, char shown[FY_QUOTE_BYTES])
{
    if (take_string(r, &t->name, "a tensor name") != 0)
        return fy_ctx(r->e, "tensor number %zu", g->n_tensors);
    fy_quote(shown, FY_QUOTE_BYTES, t->name);
    if (t->name.len == 0)
        return fy_fail(r->e, FY_EFORMAT, "tensor number %zu has no name", g->n_tensors);
    if (t->name.len > FY_GGUF_MAX_NAME)
        return fy_fail(r->e, FY_EFORMAT, "tensor '%s': name of %zu bytes, at most %d", shown,
                       t->name.len, FY_GGUF_MAX_NAME);
    if (memchr(t->name.ptr, '\0', t->name.len) != NULL)
        return fy_fail(r->e, FY_EFORMAT, "tensor '%s': the name holds a NUL byte", shown);
    int rc = fy_names_add(&g->names, t->name, (uint32_t)g->n_tensors);
    if (rc < 0)
        return fy_nomem(r->e);
    if (rc > 0)
        return fy_fail(r->e, FY_EFORMAT,
                       "tensor '%s' is there twice, the second time as number %zu", shown,
                       g->n_tensors);
    return 0;
}

static int parse_shape(reader *r, fy_gguf_tensor *t, uint64_t *n_elems)
{
    if (take_u32(r, &t->n_dims, "the number of dimensions") != 0)
        return -1;
    if (t->n_dims > FY_GGUF_MAX_DIMS)
        return fy_fail(r->e, FY_EFORMAT, "%" PRIu32 " dimensions, at most %d", t->n_dims,
                       FY_GGUF_MAX_DIMS);
    *n_elems = 1;
    for (uint32_t d = 0; d < FY_GGUF_MAX_DIMS; d++) {
        t->ne[d] = 1;
        if (d >= t->n_dims)
            continue;
        if (take_u64(r, &t->ne[d], "a dimension") != 0)
            return -1;
        if (t->ne[d] == 0 && t->n_dims > 1)
            return fy_fail(r->e, FY_EFORMAT, "dimension %" PRIu32 " is 0, expected at least 1", d);
        if (!fy_mul_u64(*n_elems, t->ne[d], n_elems) || *n_elems > INT64_MAX)
            return fy_fail(r->e, FY_EFORMAT,
                           "dimension %" PRIu32 " is %" PRIu64 ": more than 2^63 elements", d,
                           t->ne[d]);
    }
    return 0;
}

static int parse_type(reader *r, const fy_gguf *g, fy_gguf_tensor *t, uint64_t n_elems)
{
    uint32_t type;
    if (take_u32(r, &type, "the tensor type") != 0)
        return -1;
    if (g->powerinfer && type >= FY_POWERINFER_I8 && type <= FY_POWERINFER_I32)
        type += FY_I8 - FY_POWERINFER_I8;
    const fy_type_info *info = fy_type_get(type);
    if (info == NULL)
        return fy_fail(r->e, FY_EUNSUPPORTED,
                       "type id %" PRId32 " is unknown, removed, or never stored in files",
                       (int32_t)type);
    t->type = (fy_type)type;
    if (t->ne[0] == 0 && !fy_gguf_may_be_empty(g->powerinfer, t))
        return fy_fail(r->e, FY_EFORMAT, "dimension 0 is 0, expected at least 1");
    if (t->ne[0] % info->block != 0)
        return fy_fail(r->e, FY_EFORMAT,
                       "rows of %" PRIu64 " elements, but %s needs a multiple of %u", t->ne[0],
                       info->name, info->block);
    if (!fy_mul_u64(n_elems / info->block, info->bytes, &t->bytes) || t->bytes > INT64_MAX)
        return fy_fail(r->e, FY_EFORMAT, "%" PRIu64 " elements of type %s do not fit any file",
                       n_elems, info->name);
    return 0;
}

/* Tensors lie in the order of their entries, each padded to the alignment, without gaps. */
static int parse_offset(reader *r, const fy_gguf *g, fy_gguf_tensor *t, uint64_t *expected)
{
    if (take_u64(r, &t->offset, "the tensor offset") != 0)
        return -1;
    if (t->offset != *expected)
        return fy_fail(r->e, FY_EFORMAT,
                       "offset %" PRIu64 " in the data section, expected %" PRIu64
                       " (where the tensor before ends, aligned to %" PRIu64 ")",
                       t->offset, *expected, g->alignment);
    uint64_t end;
    if (!fy_add_u64(t->offset, t->bytes, &end) || !fy_align_u64(end, g->alignment, expected))
        return fy_fail(r->e, FY_EFORMAT,
                       "%" PRIu64 " bytes at offset %" PRIu64 " do not fit any file", t->bytes,
                       t->offset);
    return 0;
}

static int parse_tensor(reader *r, fy_gguf *g, uint64_t *data_bytes)
{
    fy_gguf_tensor t = {0};
    char shown[FY_QUOTE_BYTES];
    if (parse_name(r, g, &t, shown) != 0)
        return -1;
    uint64_t n_elems = 0;
    if (parse_shape(r, &t, &n_elems) != 0 || parse_type(r, g, &t, n_elems) != 0 ||
        parse_offset(r, g, &t, data_bytes) != 0)
        return fy_ctx(r->e, "tensor '%s'", shown);
    return fy_append(&g->tensor, &g->n_tensors, &g->tensor_cap, &t, sizeof t, r->e);
}

/* A file without tensors may end right after its header. */
static int place_data(reader *r, fy_gguf *g, uint64_t data_bytes)
{
    if (!fy_align_u64(r->pos, g->alignment, &g->first.data_offset))
        return fy_fail(r->e, FY_EFORMAT, "general.alignment %" PRIu64 " does not fit any file",
                       g->alignment);
    if (g->n_tensors == 0 && g->first.data_offset > r->size)
        g->first.data_offset = r->size;
    if (r->header_only || g->n_tensors == 0)
        return 0;
    if (g->first.data_offset > r->size)
        return fy_fail(r->e, FY_EFORMAT,
                       "the file ends at byte %" PRIu64 ", before its data section at %" PRIu64
                       " (incomplete download?)",
                       r->size, g->first.data_offset);
    if (data_bytes > r->size - g->first.data_offset)
        return fy_fail(r->e, FY_EFORMAT,
                       "the file is cut off: the data section needs %" PRIu64 " bytes with its "
                       "padding, only %" PRIu64 " are there (incomplete download?)",
                       data_bytes, r->size - g->first.data_offset);
    for (size_t i = 0; i < g->n_tensors; i++)
        g->tensor[i].data = r->p + g->first.data_offset + g->tensor[i].offset;
    return 0;
}

static int parse(reader *r, fy_gguf *g)
{
    enum { LEAST_TENSOR = 8 + 1 + 4 + 4 + 8, LEAST_KV = 8 + 1 + 4 + 1 };
    uint64_t n_tensors, n_kv;
    g->powerinfer = r->size >= 4 && is_powerinfer(r->p);
    if (parse_magic(r) != 0 || parse_version(r, &g->version) != 0 ||
        parse_count(r, LEAST_TENSOR, &n_tensors, "tensors") != 0 ||
        parse_count(r, LEAST_KV, &n_kv, "keys") != 0)
        return -1;
    for (uint64_t i = 0; i < n_kv; i++) {
        if (fy_check_interrupt(r->e) != 0 || parse_kv(r, g) != 0)
            return -1;
    }
    if (find_alignment(r, g) != 0)
        return -1;
    uint64_t data_bytes = 0;
    for (uint64_t i = 0; i < n_tensors; i++) {
        if (fy_check_interrupt(r->e) != 0 || parse_tensor(r, g, &data_bytes) != 0)
            return -1;
    }
    return place_data(r, g, data_bytes);
}

/* --- life ------------------------------------------------------------------------------------- */

fy_gguf *fy_gguf_parse(const void *p, size_t n, const char *name, bool header_only, fy_err *e)
{
    fy_gguf *g = calloc(1, sizeof *g);
    if (g != NULL) {
        g->first.path = strdup(name);
        g->files = &g->first;
        g->n_files = 1;
    }
    if (g == NULL || g->first.path == NULL) {
        free(g);
        fy_nomem(e);
        return NULL;
    }
    reader r = {.p = p, .size = n, .header_only = header_only, .name = name, .e = e};
    int rc = parse(&r, g);
    if (r.n_warnings > MAX_WARNINGS)
        fy_log(FY_LOG_WARN, "%s: and %d more warnings", name, r.n_warnings - MAX_WARNINGS);
    if (rc != 0) {
        fy_ctx(e, "%s", name);
        fy_gguf_close(g);
        return NULL;
    }
    return g;
}

void fy_gguf_close(fy_gguf *g)
{
    if (g == NULL)
        return;
    fy_names_release(&g->keys);
    fy_names_release(&g->names);
    free(g->kv);
    free(g->tensor);
    for (size_t i = 0; i < g->n_files; i++) {
        fy_map_close(&g->files[i].map);
        free(g->files[i].path);
    }
    if (g->files != &g->first)
        free(g->files);
    free(g);
}

/* --- access ----------------------------------------------------------------------------------- */

const char *fy_gguf_path(const fy_gguf *g)
{
    return g->files[0].path;
}

size_t fy_gguf_n_files(const fy_gguf *g)
{
    return g->n_files;
}

const char *fy_gguf_file_path(const fy_gguf *g, size_t i)
{
    return g->files[i].path;
}

bool fy_gguf_is_powerinfer(const fy_gguf *g)
{
    return g->powerinfer;
}

uint32_t fy_gguf_version(const fy_gguf *g)
{
    return g->version;
}

uint64_t fy_gguf_alignment(const fy_gguf *g)
{
    return g->alignment;
}

uint64_t fy_gguf_data_offset(const fy_gguf *g)
{
    return g->files[0].data_offset;
}

uint64_t fy_gguf_tensor_at_byte(const fy_gguf *g, const fy_gguf_tensor *t)
{
    return g->files[t->file].data_offset + t->offset;
}

void fy_gguf_drop(const fy_gguf *g, const fy_gguf_tensor *t, uint64_t off, uint64_t len)
{
    const fy_gguf_file *f = &g->files[t->file];
    if (f->map.base != NULL && off < t->bytes)
        fy_map_drop(&f->map, fy_gguf_tensor_at_byte(g, t) + off,
                    len < t->bytes - off ? len : t->bytes - off);
}

size_t fy_gguf_n_kv(const fy_gguf *g)
{
    return g->n_kv;
}

const fy_gguf_kv *fy_gguf_kv_at(const fy_gguf *g, size_t i)
{
    return &g->kv[i];
}

const fy_gguf_kv *fy_gguf_find(const fy_gguf *g, const char *key)
{
    uint32_t i;
    return fy_names_find(&g->keys, fy_span_of(key), &i) ? &g->kv[i] : NULL;
}

size_t fy_gguf_n_tensors(const fy_gguf *g)
{
    return g->n_tensors;
}

const fy_gguf_tensor *fy_gguf_tensor_at(const fy_gguf *g, size_t i)
{
    return &g->tensor[i];
}

const fy_gguf_tensor *fy_gguf_tensor_find(const fy_gguf *g, const char *name)
{
    uint32_t i;
    return fy_names_find(&g->names, fy_span_of(name), &i) ? &g->tensor[i] : NULL;
}

/* "key 'a.b': array of string, expected u32" */
static int wrong_type(const fy_gguf *g, const char *key, const fy_gguf_kv *kv, const char *expected,
                      fy_err *e)
{
    return fy_fail(e, FY_EFORMAT, "%s: key '%s': %s%s, expected %s", g->files[0].path, key,
                   kv->type == FY_KV_ARRAY ? "array of " : "", fy_kv_type_name(kv->elem), expected);
}

static bool is_integer(fy_kv_type t)
{
    return fy_kv_type_bytes(t) > 0 && t != FY_KV_F32 && t != FY_KV_F64 && t != FY_KV_BOOL;
}

int fy_gguf_get_u32(const fy_gguf *g, const char *key, uint32_t *out, fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    if (kv == NULL)
        return 1;
    if (kv->type == FY_KV_ARRAY || !is_integer(kv->type))
        return wrong_type(g, key, kv, "u32", e);
    int64_t v = fy_gguf_int_at(kv, 0);
    if (v < 0 || v > UINT32_MAX)
        return fy_fail(e, FY_EFORMAT, "%s: key '%s': value %" PRId64 ", expected 0 to %" PRIu32,
                       g->files[0].path, key, v, UINT32_MAX);
    *out = (uint32_t)v;
    return 0;
}

int fy_gguf_get_f32(const fy_gguf *g, const char *key, float *out, fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    if (kv == NULL)
        return 1;
    if (kv->type != FY_KV_F32 && kv->type != FY_KV_F64)
        return wrong_type(g, key, kv, "f32", e);
    *out = (float)fy_gguf_float_at(kv, 0);
    return 0;
}

int fy_gguf_get_bool(const fy_gguf *g, const char *key, bool *out, fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    if (kv == NULL)
        return 1;
    if (kv->type != FY_KV_BOOL)
        return wrong_type(g, key, kv, "bool", e);
    *out = kv->data[0] != 0;
    return 0;
}

int fy_gguf_get_str(const fy_gguf *g, const char *key, fy_span *out, fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    if (kv == NULL)
        return 1;
    if (kv->type != FY_KV_STRING)
        return wrong_type(g, key, kv, "string", e);
    uint64_t pos = 0;
    *out = fy_gguf_next_string(kv, &pos);
    return 0;
}

int fy_gguf_get_array(const fy_gguf *g, const char *key, fy_kv_type elem, const fy_gguf_kv **out,
                      fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    if (kv == NULL)
        return 1;
    char expected[32];
    snprintf(expected, sizeof expected, "array of %s", fy_kv_type_name(elem));
    if (kv->type != FY_KV_ARRAY || kv->elem != elem)
        return wrong_type(g, key, kv, expected, e);
    *out = kv;
    return 0;
}

fy_span fy_gguf_next_string(const fy_gguf_kv *kv, uint64_t *pos)
{
    uint64_t n = fy_le64(kv->data + *pos);
    fy_span s = {(const char *)kv->data + *pos + 8, (size_t)n};
    *pos += 8 + n;
    return s;
}

int64_t fy_gguf_int_at(const fy_gguf_kv *kv, uint64_t i)
{
    const uint8_t *p = kv->data + i * fy_kv_type_bytes(kv->elem);
    switch ((int)kv->elem) {
    case FY_KV_I8:
        return (int8_t)*p;
    case FY_KV_U16:
        return fy_le16(p);
    case FY_KV_I16:
        return (int16_t)fy_le16(p);
    case FY_KV_U32:
        return fy_le32(p);
    case FY_KV_I32:
        return (int32_t)fy_le32(p);
    case FY_KV_U64: {
        uint64_t v = fy_le64(p);
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    }
    case FY_KV_I64:
        return (int64_t)fy_le64(p);
    default: /* u8, bool */
        return *p;
    }
}

double fy_gguf_float_at(const fy_gguf_kv *kv, uint64_t i)
{
    const uint8_t *p = kv->data + i * fy_kv_type_bytes(kv->elem);
    if (kv->elem == FY_KV_F32)
        return (double)fy_lef32(p);
    double v;
    memcpy(&v, p, sizeof v);
    return v;
}
