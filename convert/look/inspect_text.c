#include "convert/look/inspect_impl.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "convert/look/kv_text.h"
#include "convert/source/traits.h"

enum { MAX_NAME_COLUMN = 60 };

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
    fy_kv_put(out, fy_gguf_kv_at(l->keys, k));
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
    fy_str_puts(out, l->plan != NULL   ? "\nkeys, as a conversion to f32 writes them\n"
                     : l->keys != NULL ? "\nkeys\n"
                     : l->st != NULL   ? "\n__metadata__\n"
                                       : "\nvalues\n");
    for (size_t k = 0; k < l->n_keys; k++) {
        fy_str_clear(&name);
        fy_str_put_quoted(&name, fy_inspect_key(l, k), SIZE_MAX);
        fy_str_puts(out, "  ");
        put_cell(out, fy_str_z(&name), name.len, width);
        if (l->keys != NULL) {
            const char *type = fy_kv_type_name(fy_gguf_kv_at(l->keys, k)->type);
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
    fy_str_printf(out, "%-8s  %-20s  %14s  %14s%s\n", "type", "shape", "bytes",
                  l->dir != NULL ? "file" : "offset", l->hashes != NULL ? "  sha256" : "");
    for (size_t i = 0; i < l->n_tensors; i++) {
        fy_listing_row r = fy_inspect_row(l, i);
        fy_str_clear(&cell);
        fy_str_put_quoted(&cell, r.name, SIZE_MAX);
        fy_str_puts(out, "  ");
        put_cell(out, fy_str_z(&cell), cell.len, width);
        fy_str_clear(&cell);
        put_shape(&cell, &r);
        fy_str_printf(out, "%-8s  %-20s  %14" PRIu64 "  ", r.type, fy_str_z(&cell), r.bytes);
        if (r.file != NULL)
            fy_str_put_quoted(out, fy_path_base(r.file), SIZE_MAX);
        else
            fy_str_printf(out, "%14" PRIu64, r.offset);
        fy_str_printf(out, "%s%s\n", l->hashes != NULL ? "  " : "",
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
    if (l->keys != NULL && fy_traits(l->keys, put_trait, &traits, &ignored) == 0)
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
        fy_str_printf(out, ": checkpoint%s\n", l->dir != NULL ? "" : " without weights");
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
    fy_inspect_put_piece(out, l);
    if (l->dir == NULL && l->no_weights.code != FY_OK)
        fy_str_printf(out, "no weights: %s\n", l->no_weights.msg);
    if (l->dir != NULL && l->plan == NULL)
        fy_str_printf(out, "not converted by ferry: %s\n", l->no_plan.msg);
    fy_inspect_put_chain(out, l);
    put_traits(out, l);
    if (l->keys != NULL)
        fy_inspect_put_tokenizer(out, l->keys);
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
