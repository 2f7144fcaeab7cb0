/* Models of all kinds as one list of tensors (model_source.h), and the short text of indices and of
 * GGUF values that inspect and compare print. */
#include "convert/look/model_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/math.h"
#include "base/names.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "bundle/qnn_config.h"
#include "convert/source/checkpoint.h"
#include "convert/write/planned_gguf.h"
#include "format/sniff.h"
#include "hub/hub_model.h"
#include "kernels/row.h"

/* --- tensors ---------------------------------------------------------------------------------- */

static int add_tensor(fy_source *s, const fy_source_tensor *t, fy_err *e)
{
    const bool fits = s->n_tensors < UINT32_MAX;
    int rc = fits ? fy_names_add(&s->index, t->name, (uint32_t)s->n_tensors) : -1;
    if (rc < 0)
        return fy_nomem(e);
    if (rc > 0)
        return fy_fail(e, FY_EFORMAT, "%s: two of its files have a tensor of the same name",
                       s->path);
    return fy_append(&s->tensors, &s->n_tensors, &s->cap_tensors, t, sizeof *t, e);
}

static fy_source_tensor of_gguf(const fy_gguf_tensor *from, size_t index)
{
    const fy_type_info *info = fy_type_get((uint32_t)from->type);
    fy_source_tensor t = {.name = from->name,
                          .type = fy_type_name(from->type),
                          .rank = from->n_dims,
                          .n_elems = from->bytes / info->bytes * info->block,
                          .bytes = from->bytes,
                          .offset = from->offset,
                          .unit = info->block,
                          .readable = fy_row_can_decode(from->type),
                          .raw = from->data,
                          .index = index};
    for (uint32_t d = 0; d < from->n_dims; d++)
        t.shape[d] = from->ne[from->n_dims - 1 - d];
    return t;
}

static int add_gguf_tensors(fy_source *s, fy_err *e)
{
    for (size_t i = 0; i < fy_gguf_n_tensors(s->gguf); i++) {
        fy_source_tensor t = of_gguf(fy_gguf_tensor_at(s->gguf, i), i);
        if (add_tensor(s, &t, e) != 0)
            return -1;
    }
    return 0;
}

/* The stream produces whole rows. */
static int add_planned_tensors(fy_source *s, fy_err *e)
{
    const fy_gguf *g = s->keys;
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        fy_source_tensor t = of_gguf(fy_gguf_tensor_at(g, i), i);
        t.unit = fy_gguf_tensor_at(g, i)->ne[0];
        t.raw = NULL;
        if (add_tensor(s, &t, e) != 0)
            return -1;
    }
    return 0;
}

static int add_ckpt_tensors(fy_source *s, fy_err *e)
{
    const uint64_t data_begin = s->st != NULL ? fy_st_data_offset(s->st) : 0;
    for (size_t i = 0; i < fy_ckpt_n_tensors(s->ckpt); i++) {
        const fy_ckpt_tensor *from = fy_ckpt_at(s->ckpt, i);
        const fy_ckpt_part *part = &from->parts[0];
        fy_source_tensor t = {.name = from->name,
                              .type = fy_dtype_name(from->dtype),
                              .rank = from->rank,
                              .n_elems = fy_ckpt_n_elements(from),
                              .bytes = from->bytes,
                              .offset = (uint64_t)(part->data - part->map->data) - data_begin,
                              .file = s->kind == FY_SOURCE_CHECKPOINT ? from->path : NULL,
                              .unit = 1,
                              .readable = fy_ckpt_can_read(from),
                              .index = i};
        if (fy_dtype_bits(from->dtype) < 8)
            t.unit = from->dtype == FY_DT_F4 ? 2 : 4; /* whole bytes */
        memcpy(t.shape, from->shape, sizeof t.shape);
        if (from->plain && from->scale == NULL)
            t.raw = part->data;
        if (add_tensor(s, &t, e) != 0)
            return -1;
    }
    return 0;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

static int open_gguf(fy_source *s, const char *path, fy_err *e)
{
    s->keys = s->gguf = fy_gguf_open(path, e);
    return s->gguf != NULL ? add_gguf_tensors(s, e) : -1;
}

static int open_workspace(fy_source *s, fy_err *e)
{
    fy_bundle b;
    s->kind = FY_SOURCE_WORKSPACE;
    if (fy_bundle_open(s->path, &b, e) != 0)
        return -1;
    int rc = open_gguf(s, b.weights, e);
    fy_bundle_release(&b);
    return rc;
}

/* --- checkpoints ------------------------------------------------------------------------------ */

/* Only the scales of FP8 matrices need the configuration: tensors of a model that ferry does not
 * know can be read too. */
static int open_directory(fy_source *s, fy_err *e)
{
    fy_err why = {0};
    s->kind = FY_SOURCE_CHECKPOINT;
    s->ckpt = fy_ckpt_open_model(s->path, &s->config, &why);
    if (s->ckpt == NULL)
        s->ckpt = fy_ckpt_open(s->path, e);
    return s->ckpt != NULL ? add_ckpt_tensors(s, e) : -1;
}

/* By content; the name decides only where the first bytes are those of no format, so that a damaged
 * file is refused as what it should be. */
static int open_file(fy_source *s, fy_err *e)
{
    fy_map m;
    if (fy_map_open(&m, s->path, e) != 0)
        return -1;
    fy_span name = fy_span_of(s->path);
    const char *what = fy_sniff(m.data, m.size), *is = what != NULL ? what : "";
    bool is_gguf = strcmp(is, FY_SNIFF_GGUF) == 0, is_st = strcmp(is, FY_SNIFF_SAFETENSORS) == 0;
    bool is_torch = !is_st && fy_torch_looks_like(m.data, m.size);
    fy_map_close(&m);
    if (!is_gguf && !is_st && !is_torch) {
        is_gguf = fy_span_ends(name, ".gguf");
        is_st = fy_span_ends(name, ".safetensors");
        is_torch =
            fy_span_ends(name, ".pt") || fy_span_ends(name, ".pth") || fy_span_ends(name, ".bin");
    }
    if (is_gguf)
        return open_gguf(s, s->path, e);
    if (!is_st && !is_torch)
        return fy_fail(e, FY_EFORMAT, "%s: is neither a GGUF, a safetensors nor a PyTorch file%s%s",
                       s->path, what != NULL ? " but " : "", is);
    s->kind = FY_SOURCE_FILE;
    s->ckpt = fy_ckpt_open_file(s->path, is_st, e);
    if (s->ckpt == NULL)
        return -1;
    s->st = fy_ckpt_safetensors(s->ckpt);
    s->torch = fy_ckpt_torch(s->ckpt);
    return add_ckpt_tensors(s, e);
}

/* A repository of the hub, or a directory of GGUF files: the model in it. */
static int find_model(fy_source *s, fy_err *e)
{
    fy_hub_place place;
    if (fy_file_is_dir(s->path)
            ? fy_dir_has(s->path, FY_BUNDLE_WORKSPACE_JSON) || fy_dir_has(s->path, FY_BUNDLE_WEIGHTS)
            : !fy_hub_id_is_meant(s->path))
        return 0;
    if (fy_hub_find(s->path, FY_HUB_ANY, &place, e) != 0)
        return -1;
    free(s->path);
    s->path = place.path;
    place.path = NULL;
    fy_hub_place_release(&place);
    return 0;
}

static int open_any(fy_source *s, fy_err *e)
{
    if (find_model(s, e) != 0)
        return -1;
    if (!fy_file_is_dir(s->path))
        return open_file(s, e);
    if (fy_dir_has(s->path, FY_BUNDLE_WORKSPACE_JSON))
        return open_workspace(s, e);
    if (fy_dir_has(s->path, FY_QNN_DIR "/" FY_QNN_CONFIG_NAME))
        return fy_fail(e, FY_EARG,
                       "%s: is a model that was cut; 'ferry chunk --join' makes one file of it",
                       s->path);
    return open_directory(s, e);
}

/* --- all -------------------------------------------------------------------------------------- */

static fy_source *new_source(const char *path, fy_err *e)
{
    fy_source *s = calloc(1, sizeof *s);
    if (s != NULL)
        s->path = strdup(path);
    if (s == NULL || s->path == NULL) {
        free(s);
        fy_nomem(e);
        return NULL;
    }
    s->kernels = fy_kernels_for(fy_cpu_features());
    return s;
}

fy_source *fy_source_open(const char *path, fy_err *e)
{
    fy_source *s = new_source(path, e);
    if (s != NULL && open_any(s, e) != 0) {
        fy_source_close(s);
        return NULL;
    }
    return s;
}

fy_source *fy_source_open_planned(const char *path, int n_threads, fy_err *e)
{
    fy_source *s = new_source(path, e);
    if (s == NULL)
        return NULL;
    s->kind = FY_SOURCE_PLANNED;
    s->planned = fy_planned_gguf_open(path, n_threads, e);
    if (s->planned != NULL) {
        s->keys = fy_planned_gguf_file(s->planned);
        s->no_tokenizer = fy_planned_gguf_no_tokenizer(s->planned);
    }
    if (s->planned == NULL || add_planned_tensors(s, e) != 0) {
        fy_source_close(s);
        return NULL;
    }
    return s;
}

void fy_source_close(fy_source *s)
{
    if (s == NULL)
        return;
    fy_gguf_close(s->gguf);
    fy_planned_gguf_close(s->planned);
    fy_ckpt_close(s->ckpt);
    fy_hf_config_release(&s->config);
    fy_names_release(&s->index);
    free(s->tensors);
    free(s->path);
    free(s);
}

const char *fy_source_what(const fy_source *s)
{
    switch (s->kind) {
    case FY_SOURCE_GGUF:
        return fy_gguf_n_files(s->gguf) > 1 ? "a GGUF model of several files" : "a GGUF file";
    case FY_SOURCE_WORKSPACE:
        return "the main model of a workspace";
    case FY_SOURCE_FILE:
        return "a file of a checkpoint";
    case FY_SOURCE_CHECKPOINT:
        return "a checkpoint";
    case FY_SOURCE_PLANNED:
        return "a checkpoint, as a conversion to f32 makes it";
    }
    return "";
}

const fy_source_tensor *fy_source_find(const fy_source *s, fy_span name)
{
    uint32_t i;
    return fy_names_find(&s->index, name, &i) ? &s->tensors[i] : NULL;
}

/* --- values ----------------------------------------------------------------------------------- */

int fy_source_read(fy_source *s, const fy_source_tensor *t, uint64_t first, uint64_t n, float *out,
                   int thread, fy_err *e)
{
    if (s->planned != NULL)
        return fy_convert_fill(fy_planned_gguf_stream(s->planned), (int64_t)t->index,
                               first / t->unit, n / t->unit, out, thread, e);
    if (s->ckpt != NULL) {
        fy_ckpt_read(&s->kernels, fy_ckpt_at(s->ckpt, t->index), first, n, out);
        return 0;
    }
    const fy_gguf_tensor *g = fy_gguf_tensor_at(s->gguf, t->index);
    fy_row_decode(&s->kernels, g->type, out, g->data + fy_type_row_bytes(g->type, first),
                  (int64_t)n);
    return 0;
}

uint64_t fy_source_bytes_of(const fy_source_tensor *t, uint64_t n)
{
    return n / t->unit * (t->bytes / (t->n_elems / t->unit));
}

void fy_source_drop(fy_source *s, const fy_source_tensor *t, uint64_t first, uint64_t n)
{
    if (s->ckpt != NULL) {
        fy_ckpt_drop(fy_ckpt_at(s->ckpt, t->index), first, n);
    } else if (s->planned == NULL) {
        const fy_gguf_tensor *g = fy_gguf_tensor_at(s->gguf, t->index);
        const fy_type_info *info = fy_type_get((uint32_t)g->type);
        fy_gguf_drop(s->gguf, g, first / info->block * info->bytes, n / info->block * info->bytes);
    }
}

void fy_source_index(const fy_source_tensor *t, uint64_t i, uint64_t at[FY_MAX_RANK])
{
    for (uint32_t d = t->rank; d-- > 0; i /= t->shape[d])
        at[d] = i % t->shape[d];
}

/* --- values as text -------------------------------------------------------------------------- */

enum { TEXT_BYTES = 60, TEXT_ITEMS = 4, MAX_NAME_COLUMN = 60 };

void fy_put_shape(fy_str *out, uint32_t rank, const uint64_t *shape)
{
    fy_str_putc(out, '[');
    for (uint32_t d = 0; d < rank; d++)
        fy_str_printf(out, "%s%" PRIu64, d > 0 ? ", " : "", shape[d]);
    fy_str_putc(out, ']');
}

json_t *fy_shape_json(fy_json_maker *m, uint32_t rank, const uint64_t *shape)
{
    json_t *list = json_array();
    for (uint32_t d = 0; d < rank; d++)
        fy_make_append(m, list, fy_make_u64(shape[d]));
    return list;
}

size_t fy_name_column(size_t width, fy_span name)
{
    return name.len > width && name.len <= MAX_NAME_COLUMN ? name.len : width;
}

void fy_put_name(fy_str *out, fy_span name, size_t width)
{
    size_t before = out->len;
    fy_str_put_quoted(out, name, SIZE_MAX);
    size_t n = out->len - before;
    fy_str_printf(out, "%*s", (int)(n < width ? width - n + 2 : 2), "");
}

void fy_format_float(char out[32], double v, bool is_f32)
{
    for (int digits = is_f32 ? 6 : 15; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, v);
        double back = strtod(out, NULL);
        if (is_f32 ? (float)back == (float)v : back == v)
            return;
    }
}

void fy_put_float(fy_str *out, double v, bool is_f32)
{
    char text[32];
    fy_format_float(text, v, is_f32);
    fy_str_puts(out, text);
}

void fy_put_short_string(fy_str *out, fy_span s)
{
    fy_str_putc(out, '"');
    fy_str_put_quoted(out, s, TEXT_BYTES);
    fy_str_putc(out, '"');
}

void fy_kv_put_element(fy_str *out, const fy_gguf_kv *kv, uint64_t i, uint64_t *pos)
{
    if (kv->elem == FY_KV_STRING)
        fy_put_short_string(out, fy_gguf_next_string(kv, pos));
    else if (kv->elem == FY_KV_F32 || kv->elem == FY_KV_F64)
        fy_put_float(out, fy_gguf_float_at(kv, i), kv->elem == FY_KV_F32);
    else if (kv->elem == FY_KV_BOOL)
        fy_str_puts(out, fy_gguf_int_at(kv, i) != 0 ? "true" : "false");
    else if (kv->elem == FY_KV_U64)
        fy_str_printf(out, "%" PRIu64, fy_le64(kv->data + 8 * i));
    else
        fy_str_printf(out, "%" PRId64, fy_gguf_int_at(kv, i));
}

void fy_kv_put(fy_str *out, const fy_gguf_kv *kv)
{
    uint64_t pos = 0, n = kv->count;
    if (kv->type == FY_KV_ARRAY) {
        fy_str_printf(out, "[%" PRIu64 " x %s]", kv->count, fy_kv_type_name(kv->elem));
        n = n > TEXT_ITEMS ? TEXT_ITEMS : n;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (kv->type == FY_KV_ARRAY)
            fy_str_puts(out, i == 0 ? " " : ", ");
        fy_kv_put_element(out, kv, i, &pos);
    }
    if (n < kv->count)
        fy_str_puts(out, ", ...");
}
