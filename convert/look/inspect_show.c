/* A listing as tables for people and as JSON for programs: format, traits, tokenizer, types, keys
 * and tensors. Both forms show the same things, so that they stand next to each other here. */
#include "convert/look/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "base/str.h"
#include "convert/look/model_source.h"
#include "convert/source/traits.h"
#include "model/template/chat_template.h"
#include "model/vocab/vocab.h"

static uint64_t count_of(const fy_gguf *g, const char *key)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    return kv != NULL && kv->type == FY_KV_ARRAY ? kv->count : 0;
}

/* "" when absent or not text. */
static fy_span text_of(const fy_gguf *g, const char *key)
{
    fy_span s = {"", 0};
    fy_gguf_get_str(g, key, &s, NULL);
    return s;
}

/* The next key of a special token from *k on: its name without the prefix, its id. */
static const fy_gguf_kv *next_special(const fy_gguf *g, size_t *k, int64_t *id)
{
    while (*k < fy_gguf_n_kv(g)) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(g, (*k)++);
        bool is_number = kv->type != FY_KV_ARRAY && kv->type != FY_KV_STRING &&
                         kv->type != FY_KV_F32 && kv->type != FY_KV_F64;
        if (!is_number || !fy_span_begins(kv->key, "tokenizer.ggml.") ||
            !fy_span_ends(kv->key, "_token_id"))
            continue;
        *id = fy_gguf_int_at(kv, 0);
        return kv;
    }
    return NULL;
}

static fy_span special_name(const fy_gguf_kv *kv)
{
    size_t front = sizeof "tokenizer.ggml." - 1, back = sizeof "_token_id" - 1;
    size_t n = kv->key.len > front + back ? kv->key.len - front - back : 0;
    return (fy_span){kv->key.ptr + front, n};
}

static fy_span token_text(const fy_gguf *g, int64_t id)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, FY_KEY_TOKENS);
    uint64_t pos = 0;
    fy_span s = {"", 0};
    if (kv == NULL || kv->type != FY_KV_ARRAY || kv->elem != FY_KV_STRING || id < 0 ||
        (uint64_t)id >= kv->count)
        return s;
    for (int64_t i = 0; i <= id; i++)
        s = fy_gguf_next_string(kv, &pos);
    return s;
}

/* The next chat template from *k on: its name, which is empty for the default one. */
static const fy_gguf_kv *next_template(const fy_gguf *g, size_t *k, fy_span *name)
{
    size_t n = sizeof FY_KEY_CHAT_TEMPLATE - 1;
    while (*k < fy_gguf_n_kv(g)) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(g, (*k)++);
        if (kv->type != FY_KV_STRING || !fy_span_begins(kv->key, FY_KEY_CHAT_TEMPLATE) ||
            (kv->key.len > n && kv->key.ptr[n] != '.'))
            continue;
        size_t skip = kv->key.len > n ? n + 1 : n;
        *name = (fy_span){kv->key.ptr + skip, kv->key.len - skip};
        return kv;
    }
    return NULL;
}

static uint64_t text_bytes(const fy_gguf_kv *kv)
{
    uint64_t pos = 0;
    return fy_gguf_next_string(kv, &pos).len;
}

/* --- the tokenizer, as a table ---------------------------------------------------------------- */

static void put_flag(fy_str *out, const fy_gguf *g, const char *key, const char *yes,
                     const char *no)
{
    bool v;
    if (fy_gguf_get_bool(g, key, &v, NULL) == 0)
        fy_str_printf(out, ", %s", v ? yes : no);
}

static void put_tokenizer(fy_str *out, const fy_gguf *g)
{
    const fy_gguf_kv *kv;
    fy_span pre = text_of(g, "tokenizer.ggml.pre"), name;
    int64_t id;
    if (fy_gguf_find(g, FY_KEY_TOKENS) == NULL)
        return;
    fy_str_puts(out, "\ntokenizer\n  ");
    fy_put_short_string(out, text_of(g, "tokenizer.ggml.model"));
    if (pre.len > 0) {
        fy_str_puts(out, ", pre-tokenizer ");
        fy_put_short_string(out, pre);
    }
    fy_str_printf(out, ": %" PRIu64 " tokens, %" PRIu64 " merges", count_of(g, FY_KEY_TOKENS),
                  count_of(g, "tokenizer.ggml.merges"));
    put_flag(out, g, "tokenizer.ggml.add_bos_token", "a text begins with bos", "no bos is added");
    put_flag(out, g, "tokenizer.ggml.add_eos_token", "a text ends with eos", "no eos is added");
    fy_str_putc(out, '\n');
    for (size_t k = 0; (kv = next_special(g, &k, &id)) != NULL;) {
        fy_str_puts(out, "  ");
        fy_str_put_quoted(out, special_name(kv), SIZE_MAX);
        fy_str_printf(out, " %" PRId64 " ", id);
        fy_put_short_string(out, token_text(g, id));
        fy_str_putc(out, '\n');
    }
    for (size_t k = 0; (kv = next_template(g, &k, &name)) != NULL;) {
        fy_str_puts(out, "  chat template ");
        if (name.len > 0)
            fy_put_short_string(out, name);
        fy_str_printf(out, "%sof %" PRIu64 " bytes\n", name.len > 0 ? " " : "", text_bytes(kv));
    }
}

/* --- the tokenizer, as JSON ------------------------------------------------------------------- */

static json_t *special_json(fy_json_maker *m, const fy_gguf *g)
{
    json_t *list = json_object();
    const fy_gguf_kv *kv;
    fy_str name = {0};
    int64_t id;
    for (size_t k = 0; (kv = next_special(g, &k, &id)) != NULL;) {
        fy_str_clear(&name);
        fy_str_put_quoted(&name, special_name(kv), SIZE_MAX);
        fy_make_set(
            m, list, fy_str_z(&name),
            json_pack("{s:I, s:o}", "id", (json_int_t)id, "text", fy_make_text(token_text(g, id))));
    }
    m->oom |= name.oom;
    fy_str_release(&name);
    return list;
}

static json_t *templates_json(fy_json_maker *m, const fy_gguf *g)
{
    json_t *list = json_array();
    const fy_gguf_kv *kv;
    fy_span name;
    size_t k = 0;
    while ((kv = next_template(g, &k, &name)) != NULL)
        fy_make_append(m, list,
                       json_pack("{s:o, s:o}", "name",
                                 fy_make_text(name.len > 0 ? name : FY_SPAN("default")), "bytes",
                                 fy_make_u64(text_bytes(kv))));
    return list;
}

static json_t *tokenizer_json(fy_json_maker *m, const fy_gguf *g)
{
    static const char *const flags[] = {"add_bos_token", "add_eos_token", "add_space_prefix"};
    if (fy_gguf_find(g, FY_KEY_TOKENS) == NULL)
        return json_null();
    json_t *o =
        json_pack("{s:o, s:o, s:o, s:o}", "model", fy_make_text(text_of(g, "tokenizer.ggml.model")),
                  "pre", fy_make_text(text_of(g, "tokenizer.ggml.pre")), "tokens",
                  fy_make_u64(count_of(g, FY_KEY_TOKENS)), "merges",
                  fy_make_u64(count_of(g, "tokenizer.ggml.merges")));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        char key[64];
        bool v;
        snprintf(key, sizeof key, "tokenizer.ggml.%s", flags[i]);
        if (fy_gguf_get_bool(g, key, &v, NULL) == 0)
            fy_make_set(m, o, flags[i], json_boolean(v));
    }
    fy_make_set(m, o, "special", special_json(m, g));
    fy_make_set(m, o, "chat_templates", templates_json(m, g));
    return o;
}

/* --- tables ---------------------------------------------------------------------------------- */

static void put_torch_value(fy_str *out, const fy_torch_value *v)
{
    if (v->kind == FY_TORCH_TEXT)
        fy_put_short_string(out, v->text);
    else if (v->kind == FY_TORCH_FLOAT)
        fy_put_float(out, v->f, false);
    else if (v->kind == FY_TORCH_BOOL)
        fy_str_puts(out, v->i != 0 ? "true" : "false");
    else
        fy_str_printf(out, "%" PRId64, v->i);
}

static void put_value(fy_str *out, const fy_listing *l, size_t k)
{
    if (l->pt != NULL) {
        put_torch_value(out, fy_torch_value_at(l->pt, k));
        return;
    }
    if (l->st != NULL) {
        fy_span key, value;
        fy_st_meta_at(l->st, k, &key, &value);
        fy_put_short_string(out, value);
        return;
    }
    const fy_gguf_kv *kv = fy_gguf_kv_at(l->keys, k);
    fy_kv_put(out, kv);
    if (fy_span_is(kv->key, FY_KEY_FILE_TYPE) && kv->type == FY_KV_U32) {
        const uint64_t ftype = (uint64_t)fy_gguf_int_at(kv, 0);
        const char *name = fy_ftype_name(ftype);
        if (name != NULL)
            fy_str_printf(out, " (%s%s)", name, ftype & FY_FTYPE_GUESSED ? ", guessed" : "");
    }
}

static void put_keys(fy_str *out, const fy_listing *l)
{
    size_t width = 0;
    for (size_t k = 0; k < l->n_keys; k++)
        width = fy_name_column(width, fy_inspect_key(l, k));
    fy_str_puts(out, l->plan != NULL   ? "\nkeys, as a conversion to f32 writes them\n"
                     : l->keys != NULL ? "\nkeys\n"
                     : l->st != NULL   ? "\n__metadata__\n"
                                       : "\nvalues\n");
    for (size_t k = 0; k < l->n_keys; k++) {
        fy_str_puts(out, "  ");
        fy_put_name(out, fy_inspect_key(l, k), width);
        if (l->keys != NULL)
            fy_str_printf(out, "%-6s  ", fy_kv_type_name(fy_gguf_kv_at(l->keys, k)->type));
        put_value(out, l, k);
        fy_str_putc(out, '\n');
    }
}

static bool is_directory(const fy_listing *l)
{
    return l->g == NULL && l->st == NULL && l->pt == NULL;
}

/* As the format has it: a GGUF file begins with the row length. */
static const uint64_t *shape_of(const fy_listing *l, const fy_source_tensor *t,
                                uint64_t out[FY_MAX_RANK])
{
    for (uint32_t d = 0; d < t->rank; d++)
        out[d] = t->shape[l->g != NULL ? t->rank - 1 - d : d];
    return out;
}

static void put_tensors(fy_str *out, const fy_listing *l)
{
    fy_str cell = {0};
    size_t width = 4;
    uint64_t shape[FY_MAX_RANK];
    for (size_t i = 0; i < l->n_tensors; i++)
        width = fy_name_column(width, l->source->tensors[i].name);
    fy_str_printf(out, "\ntensors (shape: %s)\n  ",
                  l->g != NULL ? "row length first" : "row length last");
    fy_put_name(out, fy_span_of("name"), width);
    fy_str_printf(out, "%-8s  %-20s  %14s  %14s%s\n", "type", "shape", "bytes",
                  is_directory(l) ? "file" : "offset", l->hashes != NULL ? "  sha256" : "");
    for (size_t i = 0; i < l->n_tensors; i++) {
        const fy_source_tensor *t = &l->source->tensors[i];
        fy_str_puts(out, "  ");
        fy_put_name(out, t->name, width);
        fy_str_clear(&cell);
        fy_put_shape(&cell, t->rank, shape_of(l, t, shape));
        fy_str_printf(out, "%-8s  %-20s  %14" PRIu64 "  ", t->type, fy_str_z(&cell), t->bytes);
        if (t->file != NULL)
            fy_str_put_quoted(out, fy_path_base(t->file), SIZE_MAX);
        else
            fy_str_printf(out, "%14" PRIu64, t->offset);
        fy_str_printf(out, "%s%s\n", l->hashes != NULL ? "  " : "",
                      l->hashes != NULL ? l->hashes[i] : "");
    }
    out->oom |= cell.oom;
    fy_str_release(&cell);
}

/* Left out of a damaged file, and of a family that ferry does not compute. */
static void put_traits(fy_str *out, const fy_listing *l)
{
    fy_str traits = {0};
    if (l->keys != NULL && fy_traits(l->keys, &traits, NULL) == 0) {
        fy_span rest = {fy_str_z(&traits), traits.len};
        fy_str_puts(out, "\nmodel\n");
        while (rest.len > 0) {
            fy_span line = fy_span_cut_line(&rest);
            fy_str_printf(out, "  %.*s\n", (int)line.len, line.ptr);
        }
    }
    out->oom |= traits.oom;
    fy_str_release(&traits);
}

static void put_opaque(fy_str *out, const fy_torch *t)
{
    size_t n = fy_torch_n_opaque(t);
    if (n > 0)
        fy_str_puts(out, "\nnot read (only a program could make them)\n");
    for (size_t i = 0; i < n; i++) {
        const fy_torch_opaque *o = fy_torch_opaque_at(t, i);
        fy_str_puts(out, "  ");
        fy_str_put_quoted(out, o->name, SIZE_MAX);
        fy_str_puts(out, "  ");
        fy_str_put_quoted(out, o->global, SIZE_MAX);
        fy_str_putc(out, '\n');
    }
}

static void put_types(fy_str *out, const fy_listing *l)
{
    if (l->n_types > 0)
        fy_str_printf(out, "\ntypes\n  %-8s  %8s  %14s  %14s  %7s\n", "type", "tensors", "elements",
                      "bytes", "share");
    for (size_t i = 0; i < l->n_types; i++) {
        const fy_listing_type *t = &l->types[i];
        fy_str_printf(out, "  %-8s  %8" PRIu64 "  %14" PRIu64 "  %14" PRIu64 "  %5.1f %%\n",
                      t->type, t->n_tensors, t->elems, t->bytes,
                      l->bytes > 0 ? 100.0 * (double)t->bytes / (double)l->bytes : 0.0);
    }
}

static void put_format(fy_str *out, const fy_listing *l)
{
    if (l->g != NULL) {
        fy_str_printf(
            out, ": GGUF version %" PRIu32 ", alignment %" PRIu64 ", data at byte %" PRIu64 "\n",
            fy_gguf_version(l->g), fy_gguf_alignment(l->g), fy_gguf_data_offset(l->g));
        if (fy_gguf_n_files(l->g) > 1)
            fy_str_printf(out, "split over %zu files\n", fy_gguf_n_files(l->g));
    } else if (l->st != NULL)
        fy_str_printf(out, ": safetensors, data at byte %" PRIu64 "\n", fy_st_data_offset(l->st));
    else if (l->pt == NULL)
        fy_str_printf(out, ": checkpoint%s\n", l->source != NULL ? "" : " without weights");
    else
        fy_str_printf(out, ": PyTorch, %s\n",
                      strcmp(fy_torch_container(l->pt), "zip") == 0 ? "zip archive"
                                                                    : "legacy stream of pickles");
}

void fy_inspect_put_text(fy_str *out, const fy_listing *l)
{
    if (l->workspace != NULL) {
        fy_str_put_quoted(out, fy_span_of(l->workspace), SIZE_MAX);
        fy_str_puts(out, ": workspace");
        if (l->draft != NULL) {
            fy_str_puts(out, ", with the draft model ");
            fy_str_put_quoted(out, fy_span_of(l->draft), SIZE_MAX);
        }
        fy_str_puts(out, "; its main model:\n");
    }
    fy_str_put_quoted(out, fy_span_of(l->path), SIZE_MAX);
    put_format(out, l);
    fy_str_printf(out, "%s %zu, tensors %zu, elements %" PRIu64 ", tensor bytes %" PRIu64 "\n",
                  l->pt != NULL ? "values" : "keys", l->n_keys, l->n_tensors, l->elems, l->bytes);
    fy_inspect_put_chunk(out, l);
    if (l->source == NULL)
        fy_str_printf(out, "no weights: %s\n", l->no_weights.msg);
    if (is_directory(l) && l->plan == NULL)
        fy_str_printf(out, "not converted by ferry: %s\n", l->no_plan.msg);
    fy_inspect_put_chain(out, l);
    put_traits(out, l);
    if (l->keys != NULL)
        put_tokenizer(out, l->keys);
    if (l->plan != NULL && fy_planned_gguf_no_tokenizer(l->plan) != NULL)
        fy_str_printf(out, "\nno tokenizer: %s\n", fy_planned_gguf_no_tokenizer(l->plan));
    put_types(out, l);
    if (l->n_keys > 0)
        put_keys(out, l);
    if (l->n_tensors > 0)
        put_tensors(out, l);
    if (l->pt != NULL)
        put_opaque(out, l->pt);
}

/* --- JSON ------------------------------------------------------------------------------------ */

enum { JSON_ITEMS = 8 };

/* Numbers without a decimal form in JSON (inf, nan) as text. */
json_t *fy_inspect_float_json(double v, bool is_f32)
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
        return fy_inspect_float_json(fy_gguf_float_at(kv, i), kv->elem == FY_KV_F32);
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
        return fy_inspect_float_json(v->f, false);
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
    json_t *first = json_array();
    for (uint64_t i = 0; i < kv->count && i < JSON_ITEMS; i++)
        append(l, first, json_element(kv, i, &pos));
    return json_pack("{s:s, s:o, s:o}", "array_of", fy_kv_type_name(kv->elem), "count",
                     fy_make_u64(kv->count), "first", first);
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
    uint64_t shape[FY_MAX_RANK];
    for (size_t i = 0; i < l->n_tensors; i++) {
        const fy_source_tensor *t = &l->source->tensors[i];
        json_t *o =
            json_pack("{s:o, s:s, s:o, s:o}", "name", fy_make_text(t->name), "type", t->type,
                      "shape", fy_shape_json(&l->json, t->rank, shape_of(l, t, shape)), "bytes",
                      fy_make_u64(t->bytes));
        if (t->file != NULL)
            set(l, o, "file", fy_make_text(fy_path_base(t->file)));
        else
            set(l, o, "offset", fy_make_u64(t->offset));
        if (l->pt != NULL) {
            const fy_torch_tensor *torch = fy_torch_tensor_at(l->pt, i);
            set(l, o, "contiguous", json_boolean(torch->contiguous));
            set(l, o, "storage", json_integer(torch->storage));
        }
        if (l->hashes != NULL)
            set(l, o, "sha256", json_string(l->hashes[i]));
        append(l, list, o);
    }
    return list;
}

static json_t *json_traits(fy_listing *l)
{
    fy_str traits = {0};
    json_t *list = json_array();
    if (fy_traits(l->keys, &traits, NULL) != 0)
        fy_str_clear(&traits);
    for (fy_span rest = {fy_str_z(&traits), traits.len}; rest.len > 0;)
        append(l, list, fy_make_text(fy_span_cut_line(&rest)));
    l->json.oom |= traits.oom;
    fy_str_release(&traits);
    return list;
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
        append(l, list,
               json_pack("{s:s, s:o, s:o, s:o, s:f}", "type", t->type, "tensors",
                         fy_make_u64(t->n_tensors), "elements", fy_make_u64(t->elems), "bytes",
                         fy_make_u64(t->bytes), "share",
                         l->bytes > 0 ? (double)t->bytes / (double)l->bytes : 0.0));
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
            l->source != NULL ? json_null() : fy_make_text(fy_span_of(l->no_weights.msg)));
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
    if (l->chunk.kind != FY_CHUNK_WHOLE)
        set(l, top, "piece", fy_inspect_chunk_json(l));
    if (l->has_chain)
        set(l, top, "chain", fy_inspect_chain_json(l));
    set(l, top, "elements", fy_make_u64(l->elems));
    set(l, top, "bytes", fy_make_u64(l->bytes));
    if (l->keys != NULL) {
        set(l, top, "traits", json_traits(l));
        set(l, top, "tokenizer", tokenizer_json(&l->json, l->keys));
    }
    set(l, top, "types", json_types(l));
    set(l, top, l->pt != NULL ? "values" : "metadata", json_keys(l));
    set(l, top, "tensors", json_tensors(l));
    if (l->pt != NULL)
        set(l, top, "opaque", json_opaque(l));
    return fy_make_end(&l->json, top, out, e);
}
