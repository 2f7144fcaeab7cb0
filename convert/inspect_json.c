#include "convert/inspect_impl.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quote.h"
#include "convert/traits.h"

enum { JSON_ITEMS = 8 };

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

/* Numbers without a decimal form in JSON (inf, nan) as text. */
static json_t *json_float(double v, bool is_f32)
{
    char text[32];
    fy_inspect_format_float(text, v, is_f32);
    return isfinite(v) ? json_real(strtod(text, NULL)) : json_string(text);
}

static json_t *json_element(const fy_gguf_kv *kv, uint64_t i, uint64_t *pos)
{
    switch ((int)kv->elem) {
    case FY_KV_STRING:
        return json_text(fy_gguf_next_string(kv, pos));
    case FY_KV_BOOL:
        return json_boolean(fy_gguf_int_at(kv, i) != 0);
    case FY_KV_U64:
        return json_u64(fy_inspect_u64_at(kv, i));
    case FY_KV_F32:
    case FY_KV_F64:
        return json_float(fy_gguf_float_at(kv, i), kv->elem == FY_KV_F32);
    default:
        return json_integer(fy_gguf_int_at(kv, i));
    }
}

/* jansson takes NULL for a value that could not be made; what is missing then must not go
 * unnoticed. */
static void append(fy_listing *l, json_t *array, json_t *v)
{
    l->oom |= json_array_append_new(array, v) != 0;
}

static void set(fy_listing *l, json_t *object, const char *key, json_t *v)
{
    l->oom |= json_object_set_new(object, key, v) != 0;
}

static json_t *json_torch_value(const fy_torch_value *v)
{
    switch (v->kind) {
    case FY_TORCH_TEXT:
        return json_text(v->text);
    case FY_TORCH_FLOAT:
        return json_float(v->f, false);
    case FY_TORCH_BOOL:
        return json_boolean(v->i != 0);
    case FY_TORCH_INT:
    default:
        return json_integer(v->i);
    }
}

static json_t *json_value(fy_listing *l, size_t k)
{
    if (l->pt != NULL)
        return json_torch_value(fy_torch_value_at(l->pt, k));
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

static json_t *json_keys(fy_listing *l)
{
    json_t *keys = json_object();
    fy_str name = {0};
    for (size_t k = 0; k < l->n_keys; k++) {
        fy_str_clear(&name);
        fy_str_put_quoted(&name, fy_inspect_key(l, k), SIZE_MAX);
        set(l, keys, fy_str_z(&name), json_value(l, k));
    }
    l->oom |= name.oom;
    fy_str_release(&name);
    return keys;
}

static json_t *json_tensors(fy_listing *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->n_tensors; i++) {
        fy_listing_row r = fy_inspect_row(l, i);
        json_t *t = json_object(), *shape = json_array();
        for (uint32_t d = 0; d < r.rank; d++)
            append(l, shape, json_u64(r.shape[d]));
        set(l, t, "name", json_text(r.name));
        set(l, t, "type", json_string(r.type));
        set(l, t, "shape", shape);
        set(l, t, "bytes", json_u64(r.bytes));
        set(l, t, "offset", json_u64(r.offset));
        if (l->pt != NULL) {
            const fy_torch_tensor *torch = fy_torch_tensor_at(l->pt, i);
            set(l, t, "contiguous", json_boolean(torch->contiguous));
            set(l, t, "storage", json_integer(torch->storage));
        }
        if (l->hashes != NULL)
            set(l, t, "sha256", json_string(l->hashes[i]));
        append(l, list, t);
    }
    return list;
}

typedef struct {
    fy_listing *l;
    json_t *array;
} trait_list;

static void append_trait(void *user, const char *sentence)
{
    trait_list *t = user;
    append(t->l, t->array, json_string(sentence));
}

static json_t *json_traits(fy_listing *l)
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

static json_t *json_opaque(fy_listing *l)
{
    json_t *list = json_object();
    fy_str name = {0};
    for (size_t i = 0; i < fy_torch_n_opaque(l->pt); i++) {
        const fy_torch_opaque *o = fy_torch_opaque_at(l->pt, i);
        fy_str_clear(&name);
        fy_str_put_quoted(&name, o->name, SIZE_MAX);
        set(l, list, fy_str_z(&name), json_text(o->global));
    }
    l->oom |= name.oom;
    fy_str_release(&name);
    return list;
}

static void set_format(fy_listing *l, json_t *top)
{
    if (l->g != NULL) {
        set(l, top, "format", json_string("gguf"));
        set(l, top, "version", json_integer(fy_gguf_version(l->g)));
        set(l, top, "alignment", json_u64(fy_gguf_alignment(l->g)));
        if (fy_gguf_n_files(l->g) > 1)
            set(l, top, "files", json_u64(fy_gguf_n_files(l->g)));
        set(l, top, "data_offset", json_u64(fy_gguf_data_offset(l->g)));
    } else if (l->st != NULL) {
        set(l, top, "format", json_string("safetensors"));
        set(l, top, "data_offset", json_u64(fy_st_data_offset(l->st)));
    } else {
        set(l, top, "format", json_string("torch"));
        set(l, top, "container", json_string(fy_torch_container(l->pt)));
    }
}

void fy_inspect_put_json(fy_str *out, fy_listing *l)
{
    json_t *top = json_object();
    set(l, top, "path", json_text(fy_span_of(l->path)));
    set_format(l, top);
    set(l, top, "elements", json_u64(l->elems));
    set(l, top, "bytes", json_u64(l->bytes));
    if (l->g != NULL)
        set(l, top, "traits", json_traits(l));
    set(l, top, l->pt != NULL ? "values" : "metadata", json_keys(l));
    set(l, top, "tensors", json_tensors(l));
    if (l->pt != NULL)
        set(l, top, "opaque", json_opaque(l));
    if (l->oom ||
        json_dump_callback(top, put_json_chunk, out, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) != 0)
        out->oom = true;
    fy_str_putc(out, '\n');
    json_decref(top);
}
