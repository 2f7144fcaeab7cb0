#include "convert/inspect_impl.h"

#include <inttypes.h>
#include <string.h>

#include "base/quote.h"
#include "convert/traits.h"

enum { TEXT_BYTES = 60, TEXT_ITEMS = 4, MAX_NAME_COLUMN = 60 };

static void put_string(fy_str *out, fy_span s)
{
    fy_str_putc(out, '"');
    fy_str_put_quoted(out, s, TEXT_BYTES);
    fy_str_putc(out, '"');
}

/* Element i of any kind; `pos` walks the strings. */
static void put_element(fy_str *out, const fy_gguf_kv *kv, uint64_t i, uint64_t *pos)
{
    char number[32];
    if (kv->elem == FY_KV_STRING) {
        put_string(out, fy_gguf_next_string(kv, pos));
    } else if (kv->elem == FY_KV_F32 || kv->elem == FY_KV_F64) {
        fy_inspect_format_float(number, fy_gguf_float_at(kv, i), kv->elem == FY_KV_F32);
        fy_str_puts(out, number);
    } else if (kv->elem == FY_KV_BOOL) {
        fy_str_puts(out, fy_gguf_int_at(kv, i) != 0 ? "true" : "false");
    } else if (kv->elem == FY_KV_U64) {
        fy_str_printf(out, "%" PRIu64, fy_inspect_u64_at(kv, i));
    } else {
        fy_str_printf(out, "%" PRId64, fy_gguf_int_at(kv, i));
    }
}

static void put_torch_value(fy_str *out, const fy_torch_value *v)
{
    char number[32];
    if (v->kind == FY_TORCH_TEXT) {
        put_string(out, v->text);
    } else if (v->kind == FY_TORCH_FLOAT) {
        fy_inspect_format_float(number, v->f, false);
        fy_str_puts(out, number);
    } else if (v->kind == FY_TORCH_BOOL) {
        fy_str_puts(out, v->i != 0 ? "true" : "false");
    } else {
        fy_str_printf(out, "%" PRId64, v->i);
    }
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

static void put_keys(fy_str *out, const fy_listing *l)
{
    fy_str name = {0};
    size_t width = 0;
    for (size_t k = 0; k < l->n_keys; k++) {
        size_t n = fy_inspect_key(l, k).len;
        if (n > width && n <= MAX_NAME_COLUMN)
            width = n;
    }
    fy_str_puts(out, l->g != NULL    ? "\nkeys\n"
                     : l->st != NULL ? "\n__metadata__\n"
                                     : "\nvalues\n");
    for (size_t k = 0; k < l->n_keys; k++) {
        fy_str_clear(&name);
        fy_str_put_quoted(&name, fy_inspect_key(l, k), SIZE_MAX);
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

static void put_shape(fy_str *out, const fy_listing_row *r)
{
    fy_str_putc(out, '[');
    for (uint32_t d = 0; d < r->rank; d++)
        fy_str_printf(out, "%s%" PRIu64, d > 0 ? ", " : "", r->shape[d]);
    fy_str_putc(out, ']');
}

static void put_tensors(fy_str *out, const fy_listing *l)
{
    fy_str cell = {0};
    size_t width = 4;
    for (size_t i = 0; i < l->n_tensors; i++) {
        size_t n = fy_inspect_row(l, i).name.len;
        if (n > width && n <= MAX_NAME_COLUMN)
            width = n;
    }
    fy_str_printf(out, "\ntensors (shape: %s)\n  ",
                  l->g != NULL ? "row length first" : "row length last");
    put_cell(out, "name", 4, width);
    fy_str_printf(out, "%-8s  %-20s  %14s  %14s%s\n", "type", "shape", "bytes", "offset",
                  l->hashes != NULL ? "  sha256" : "");
    for (size_t i = 0; i < l->n_tensors; i++) {
        fy_listing_row r = fy_inspect_row(l, i);
        fy_str_clear(&cell);
        fy_str_put_quoted(&cell, r.name, SIZE_MAX);
        fy_str_puts(out, "  ");
        put_cell(out, fy_str_z(&cell), cell.len, width);
        fy_str_clear(&cell);
        put_shape(&cell, &r);
        fy_str_printf(out, "%-8s  %-20s  %14" PRIu64 "  %14" PRIu64 "%s%s\n", r.type,
                      fy_str_z(&cell), r.bytes, r.offset, l->hashes != NULL ? "  " : "",
                      l->hashes != NULL ? l->hashes[i] : "");
    }
    out->oom |= cell.oom;
    fy_str_release(&cell);
}

static void put_trait(void *out, const char *sentence)
{
    fy_str_printf(out, "  %s\n", sentence);
}

/* A file of no family that ferry computes, or a damaged one, is listed without. */
static void put_traits(fy_str *out, const fy_listing *l)
{
    fy_str traits = {0};
    fy_err ignored = {0};
    if (l->g != NULL && fy_traits(l->g, put_trait, &traits, &ignored) == 0)
        fy_str_printf(out, "\nmodel\n%s", fy_str_z(&traits));
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
    else
        fy_str_printf(out, ": PyTorch, %s\n",
                      strcmp(fy_torch_container(l->pt), "zip") == 0 ? "zip archive"
                                                                    : "legacy stream of pickles");
}

void fy_inspect_put_text(fy_str *out, const fy_listing *l)
{
    fy_str_put_quoted(out, fy_span_of(l->path), SIZE_MAX);
    put_format(out, l);
    fy_str_printf(out, "%s %zu, tensors %zu, elements %" PRIu64 ", tensor bytes %" PRIu64 "\n",
                  l->pt != NULL ? "values" : "keys", l->n_keys, l->n_tensors, l->elems, l->bytes);
    put_traits(out, l);
    if (l->n_keys > 0)
        put_keys(out, l);
    if (l->n_tensors > 0)
        put_tensors(out, l);
    if (l->pt != NULL)
        put_opaque(out, l->pt);
}
