#include "convert/look/inspect_impl.h"

#include <math.h>
#include <stdlib.h>

#include "base/math.h"
#include "base/str.h"
#include "convert/look/kv_text.h"
#include "convert/source/traits.h"

enum { JSON_ITEMS = 8 };

/* Numbers without a decimal form in JSON (inf, nan) as text. */
static json_t *json_float(double v, bool is_f32)
{
    char text[32];
    fy_format_float(text, v, is_f32);
    return isfinite(v) ? json_real(strtod(text, NULL)) : json_string(text);
}

static json_t *json_element(const fy_gguf_kv *kv, uint64_t i, uint64_t *pos)
{
    switch ((int)kv->elem) {
    case FY_KV_STRING:
        return fy_make_text(fy_gguf_next_string(kv, pos));
    case FY_KV_BOOL:
        return json_boolean(fy_gguf_int_at(kv, i) != 0);
    case FY_KV_U64:
        return fy_make_u64(fy_le64(kv->data + 8 * i));
    case FY_KV_F32:
    case FY_KV_F64:
        return json_float(fy_gguf_float_at(kv, i), kv->elem == FY_KV_F32);
    default:
        return json_integer(fy_gguf_int_at(kv, i));
    }
}

static void append(fy_listing *l, json_t *array, json_t *v)
{
    fy_make_append(&l->json, array, v);
}

static void set(fy_listing *l, json_t *object, const char *key, json_t *v)
{
    fy_make_set(&l->json, object, key, v);
}

static json_t *json_torch_value(const fy_torch_value *v)
{
    switch (v->kind) {
    case FY_TORCH_TEXT:
        return fy_make_text(v->text);
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
        return fy_make_text(value);
    }
    const fy_gguf_kv *kv = fy_gguf_kv_at(l->keys, k);
    uint64_t pos = 0;
    if (kv->type != FY_KV_ARRAY)
        return json_element(kv, 0, &pos);
    json_t *v = json_object(), *first = json_array();
    for (uint64_t i = 0; i < kv->count && i < JSON_ITEMS; i++)
        append(l, first, json_element(kv, i, &pos));
    set(l, v, "array_of", json_string(fy_kv_type_name(kv->elem)));
    set(l, v, "count", fy_make_u64(kv->count));
    set(l, v, "first", first);
    return v;
}

static json_t *json_keys(fy_listing *l)
{
    json_t *keys = json_object();
    for (size_t k = 0; k < l->n_keys; k++)
        fy_make_set_name(&l->json, keys, fy_inspect_key(l, k), json_value(l, k));
    return keys;
}

static json_t *json_tensors(fy_listing *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->n_tensors; i++) {
        fy_listing_row r = fy_inspect_row(l, i);
        json_t *t = json_object(), *shape = json_array();
        for (uint32_t d = 0; d < r.rank; d++)
            append(l, shape, fy_make_u64(r.shape[d]));
        set(l, t, "name", fy_make_text(r.name));
        set(l, t, "type", json_string(r.type));
        set(l, t, "shape", shape);
        set(l, t, "bytes", fy_make_u64(r.bytes));
        if (r.file != NULL)
            set(l, t, "file", fy_make_text(fy_path_base(r.file)));
        else
            set(l, t, "offset", fy_make_u64(r.offset));
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
    if (fy_traits(l->keys, append_trait, &t, &ignored) != 0)
        json_array_clear(t.array);
    return t.array;
}

static json_t *json_opaque(fy_listing *l)
{
    json_t *list = json_object();
    for (size_t i = 0; i < fy_torch_n_opaque(l->pt); i++) {
        const fy_torch_opaque *o = fy_torch_opaque_at(l->pt, i);
        fy_make_set_name(&l->json, list, o->name, fy_make_text(o->global));
    }
    return list;
}

static json_t *json_types(fy_listing *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->n_types; i++) {
        const fy_listing_type *t = &l->types[i];
        json_t *o = json_object();
        set(l, o, "type", json_string(t->type));
        set(l, o, "tensors", fy_make_u64(t->n_tensors));
        set(l, o, "elements", fy_make_u64(t->elems));
        set(l, o, "bytes", fy_make_u64(t->bytes));
        set(l, o, "share", json_real(l->bytes > 0 ? (double)t->bytes / (double)l->bytes : 0));
        append(l, list, o);
    }
    return list;
}

static void set_format(fy_listing *l, json_t *top)
{
    if (l->g != NULL) {
        set(l, top, "format", json_string("gguf"));
        set(l, top, "version", json_integer(fy_gguf_version(l->g)));
        set(l, top, "alignment", fy_make_u64(fy_gguf_alignment(l->g)));
        if (fy_gguf_n_files(l->g) > 1)
            set(l, top, "files", fy_make_u64(fy_gguf_n_files(l->g)));
        set(l, top, "data_offset", fy_make_u64(fy_gguf_data_offset(l->g)));
    } else if (l->st != NULL) {
        set(l, top, "format", json_string("safetensors"));
        set(l, top, "data_offset", fy_make_u64(fy_st_data_offset(l->st)));
    } else if (l->pt != NULL) {
        set(l, top, "format", json_string("torch"));
        set(l, top, "container", json_string(fy_torch_container(l->pt)));
    } else {
        set(l, top, "format", json_string("checkpoint"));
        set(l, top, "not_converted",
            l->plan != NULL ? json_null() : fy_make_text(fy_span_of(l->no_plan.msg)));
        set(l, top, "no_weights",
            l->dir != NULL ? json_null() : fy_make_text(fy_span_of(l->no_weights.msg)));
    }
    if (l->workspace != NULL)
        set(l, top, "workspace", fy_make_text(fy_span_of(l->workspace)));
    if (l->draft != NULL)
        set(l, top, "draft", fy_make_text(fy_span_of(l->draft)));
}

int fy_inspect_put_json(fy_str *out, fy_listing *l, fy_err *e)
{
    json_t *top = json_object();
    set(l, top, "path", fy_make_text(fy_span_of(l->path)));
    set_format(l, top);
    if (l->part.kind != FY_CHUNK_WHOLE)
        set(l, top, "piece", fy_inspect_piece_json(l));
    if (l->has_chain)
        set(l, top, "chain", fy_inspect_chain_json(l));
    set(l, top, "elements", fy_make_u64(l->elems));
    set(l, top, "bytes", fy_make_u64(l->bytes));
    if (l->keys != NULL) {
        set(l, top, "traits", json_traits(l));
        set(l, top, "tokenizer", fy_inspect_tokenizer_json(&l->json, l->keys));
    }
    set(l, top, "types", json_types(l));
    set(l, top, l->pt != NULL ? "values" : "metadata", json_keys(l));
    set(l, top, "tensors", json_tensors(l));
    if (l->pt != NULL)
        set(l, top, "opaque", json_opaque(l));
    return fy_make_end(&l->json, top, out, e);
}
