#include "convert/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "convert/checkpoint.h"
#include "convert/inspect_impl.h"
#include "format/sniff.h"

/* --- one listing of every format -------------------------------------------------------------- */

fy_listing_row fy_inspect_row(const fy_listing *l, size_t i)
{
    fy_listing_row r = {0};
    if (l->g != NULL) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(l->g, i);
        r = (fy_listing_row){.name = t->name,
                             .type = fy_type_name(t->type),
                             .rank = t->n_dims,
                             .bytes = t->bytes,
                             .offset = t->offset};
        memcpy(r.shape, t->ne, sizeof t->ne);
    } else if (l->st != NULL) {
        const fy_st_tensor *t = fy_st_tensor_at(l->st, i);
        r = (fy_listing_row){.name = t->name,
                             .type = fy_dtype_name(t->dtype),
                             .rank = t->rank,
                             .bytes = t->bytes,
                             .offset = t->offset};
        memcpy(r.shape, t->shape, sizeof t->shape);
    } else {
        const fy_torch_tensor *t = fy_torch_tensor_at(l->pt, i);
        r = (fy_listing_row){.name = t->name,
                             .type = fy_dtype_name(t->dtype),
                             .rank = t->rank,
                             .bytes = t->bytes,
                             .offset = (uint64_t)(t->data - l->map.data)};
        memcpy(r.shape, t->shape, sizeof t->shape);
    }
    return r;
}

fy_span fy_inspect_key(const fy_listing *l, size_t k)
{
    if (l->g != NULL)
        return fy_gguf_kv_at(l->g, k)->key;
    if (l->pt != NULL)
        return fy_torch_value_at(l->pt, k)->name;
    fy_span key, value;
    fy_st_meta_at(l->st, k, &key, &value);
    return key;
}

uint64_t fy_inspect_u64_at(const fy_gguf_kv *kv, uint64_t i)
{
    return fy_le64(kv->data + 8 * i);
}

void fy_inspect_format_float(char out[32], double v, bool is_f32)
{
    for (int digits = is_f32 ? 6 : 15; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, v);
        double back = strtod(out, NULL);
        if (is_f32 ? (float)back == (float)v : back == v)
            return;
    }
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

static bool has_torch_name(const char *path)
{
    return ends_with(path, ".pt") || ends_with(path, ".pth") || ends_with(path, ".bin");
}

/* Opens by content; the name decides only where the first bytes are those of no format, so that a
 * damaged file gets the words of what it should be. */
static int open_any(fy_listing *l, fy_err *e)
{
    if (fy_file_is_dir(l->path))
        return fail_directory(l->path, e);
    if (fy_map_open(&l->map, l->path, e) != 0)
        return -1;
    const uint8_t *p = l->map.data;
    size_t n = l->map.size;
    bool st_head = n >= 10 && fy_le64(p) <= FY_ST_MAX_HEADER && memchr("{ \t\r\n", p[8], 5) != NULL;
    bool pt_head = !st_head && fy_torch_looks_like(p, n);
    bool is_gguf = (n >= 4 && memcmp(p, "GGUF", 4) == 0) ||
                   (!st_head && !pt_head && ends_with(l->path, ".gguf"));
    bool is_st = st_head || (!pt_head && ends_with(l->path, ".safetensors"));
    if (is_gguf) {
        l->g = fy_gguf_parse(p, n, l->path, false, e);
        return l->g != NULL ? 0 : -1;
    }
    if (is_st) {
        l->st = fy_st_parse(p, n, l->path, false, 0, e);
        return l->st != NULL ? 0 : -1;
    }
    if (pt_head || has_torch_name(l->path)) {
        l->pt = fy_torch_parse(p, n, l->path, e);
        return l->pt != NULL ? 0 : -1;
    }
    const char *what = fy_sniff(p, n);
    return fy_fail(e, FY_EFORMAT, "%s: is neither a GGUF, a safetensors nor a PyTorch file%s%s",
                   l->path, what != NULL ? " but " : "", what != NULL ? what : "");
}

static void count(fy_listing *l)
{
    l->n_keys = l->g != NULL    ? fy_gguf_n_kv(l->g)
                : l->st != NULL ? fy_st_n_meta(l->st)
                                : fy_torch_n_values(l->pt);
    l->n_tensors = l->g != NULL    ? fy_gguf_n_tensors(l->g)
                   : l->st != NULL ? fy_st_n_tensors(l->st)
                                   : fy_torch_n_tensors(l->pt);
    for (size_t i = 0; i < l->n_tensors; i++) {
        fy_listing_row r = fy_inspect_row(l, i);
        uint64_t n = 1;
        for (uint32_t d = 0; d < r.rank; d++)
            n *= r.shape[d]; /* checked by the readers */
        l->elems += n;
        l->bytes += r.bytes;
    }
}

int fy_inspect(const char *path, const fy_inspect_how *how, fy_str *out, fy_err *e)
{
    fy_listing l = {.path = path};
    int rc = open_any(&l, e);
    if (rc == 0) {
        count(&l);
        rc = how->hash ? fy_inspect_hash(&l, e) : 0;
        if (rc != 0)
            fy_ctx(e, "%s", path);
    }
    if (rc == 0 && how->json)
        fy_inspect_put_json(out, &l);
    else if (rc == 0)
        fy_inspect_put_text(out, &l);
    free(l.hashes);
    fy_gguf_close(l.g);
    fy_st_close(l.st);
    fy_torch_close(l.pt);
    fy_map_close(&l.map);
    return rc == 0 && out->oom ? fy_nomem(e) : rc;
}
