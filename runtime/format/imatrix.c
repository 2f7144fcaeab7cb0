/* Reading and checking importance matrices in GGUF. */
#include "format/imatrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/math.h"
#include "base/names.h"
#include "base/str.h"
#include "format/gguf.h"

enum { SUM2, SUM, COUNTS, N_PARTS };

/* ".in_sum" does not end in ".in_sum2": any order would do. */
static const char *const suffix[N_PARTS] = {
    [SUM2] = ".in_sum2", [SUM] = ".in_sum", [COUNTS] = ".counts"};

struct fy_imatrix_entry {
    fy_span name;
    const fy_gguf_tensor *part[N_PARTS]; /* views of the file; NULL: not there */
};
typedef fy_imatrix_entry entry;

struct fy_imatrix {
    fy_map map;     /* of an opened file */
    fy_gguf *gguf;  /* owned */
    entry *entries; /* owned, in the order of the file */
    size_t n;
    fy_names names; /* name -> entry */
    uint32_t n_chunks;
    fy_span dataset;
};

static uint64_t n_elems(const fy_gguf_tensor *t)
{
    return t->bytes / sizeof(float);
}

static float value_at(const fy_gguf_tensor *t, uint64_t i)
{
    return fy_lef32(t->data + i * sizeof(float));
}

/* Counts are whole numbers in f32; llama.cpp rounds the others. */
static float count_at(const entry *x, uint64_t i)
{
    return roundf(value_at(x->part[COUNTS], i));
}

/* The older form: i32 entries, then for each i32 length and a name. */
static bool looks_legacy(const uint8_t *p, size_t n)
{
    if (n < 12 || fy_le32(p) == 0 || fy_le32(p) > 1000000)
        return false;
    uint32_t len = fy_le32(p + 4);
    if (len == 0 || len > 255 || len > n - 8)
        return false;
    for (uint32_t i = 0; i < len; i++) {
        if (p[8 + i] <= ' ' || p[8 + i] > '~')
            return false;
    }
    return true;
}

static int read_keys(fy_imatrix *m, const char *file, fy_err *e)
{
    const fy_gguf *g = m->gguf;
    char shown[FY_QUOTE_BYTES];
    const fy_gguf_kv *datasets = NULL;
    fy_span type = FY_SPAN("imatrix"); /* readers do not ask for the key */
    uint32_t chunk_size;
    if (fy_gguf_get_str(g, "general.type", &type, e) < 0)
        return -1;
    if (!fy_span_is(type, "imatrix"))
        return fy_fail(e, FY_EFORMAT, "%s: general.type is '%s', expected 'imatrix'", file,
                       fy_quote(shown, sizeof shown, type));
    int absent = fy_gguf_get_array(g, "imatrix.datasets", FY_KV_STRING, &datasets, e);
    const char *key = "imatrix.datasets";
    if (absent == 0) {
        absent = fy_gguf_get_u32(g, "imatrix.chunk_count", &m->n_chunks, e);
        key = "imatrix.chunk_count";
    }
    if (absent == 0) {
        absent = fy_gguf_get_u32(g, "imatrix.chunk_size", &chunk_size, e);
        key = "imatrix.chunk_size";
    }
    if (absent < 0)
        return -1;
    if (absent > 0)
        return fy_fail(e, FY_EFORMAT, "%s: key '%s' is absent: not an importance matrix", file,
                       key);
    uint64_t pos = 0;
    if (datasets->count > 0)
        m->dataset = fy_gguf_next_string(datasets, &pos);
    return 0;
}

static int add_part(fy_imatrix *m, const fy_gguf_tensor *t, fy_err *e)
{
    for (int p = 0; p < N_PARTS; p++) {
        if (!fy_span_ends(t->name, suffix[p]))
            continue;
        fy_span name = {t->name.ptr, t->name.len - fy_span_of(suffix[p]).len};
        uint32_t i;
        if (!fy_names_find(&m->names, name, &i)) {
            i = (uint32_t)m->n;
            if (fy_names_add(&m->names, name, i) != 0)
                return fy_nomem(e);
            m->entries[m->n++] = (entry){.name = name};
        }
        m->entries[i].part[p] = t;
        break;
    }
    return 0;
}

static int check_values(const fy_gguf_tensor *t, const char *file, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    for (uint64_t i = 0; i < n_elems(t); i++) {
        float v = value_at(t, i);
        if (!(v >= 0 && isfinite(v)))
            return fy_fail(e, FY_EFORMAT,
                           "%s: tensor '%s': value %g at %" PRIu64 ", expected a finite one, at "
                           "least 0: collect it again",
                           file, fy_quote(shown, sizeof shown, t->name), (double)v, i);
    }
    return 0;
}

static int check_entry(const entry *x, const char *file, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (fy_check_interrupt(e) != 0)
        return -1;
    fy_quote(shown, sizeof shown, x->name);
    for (int p = 0; p < N_PARTS; p++) {
        if (x->part[p] == NULL && p != SUM)
            return fy_fail(e, FY_EFORMAT, "%s: '%s' has no tensor '%s%s', expected sums and counts",
                           file, shown, shown, suffix[p]);
        if (x->part[p] != NULL && x->part[p]->type != FY_F32)
            return fy_fail(e, FY_EFORMAT, "%s: tensor '%s%s': type %s, expected f32", file, shown,
                           suffix[p], fy_type_name(x->part[p]->type));
    }
    uint64_t n_sums = n_elems(x->part[SUM2]), n_counts = n_elems(x->part[COUNTS]);
    if (n_sums % n_counts != 0 || (x->part[SUM] != NULL && n_elems(x->part[SUM]) != n_sums))
        return fy_fail(e, FY_EFORMAT,
                       "%s: '%s': %" PRIu64 " sums of squares, %" PRIu64 " sums, %" PRIu64
                       " counts: these do not belong together",
                       file, shown, n_sums, x->part[SUM] != NULL ? n_elems(x->part[SUM]) : n_sums,
                       n_counts);
    return check_values(x->part[SUM2], file, e) != 0 || check_values(x->part[COUNTS], file, e) != 0
               ? -1
               : 0;
}

static int read_entries(fy_imatrix *m, const char *file, fy_err *e)
{
    size_t n_tensors = fy_gguf_n_tensors(m->gguf);
    m->entries = calloc(n_tensors + 1, sizeof *m->entries);
    if (m->entries == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n_tensors; i++) {
        if (add_part(m, fy_gguf_tensor_at(m->gguf, i), e) != 0)
            return -1;
    }
    if (m->n == 0)
        return fy_fail(e, FY_EFORMAT, "%s: %zu tensors, but none is NAME%s: nothing was collected",
                       file, n_tensors, suffix[SUM2]);
    for (size_t i = 0; i < m->n; i++) {
        if (check_entry(&m->entries[i], file, e) != 0)
            return -1;
    }
    return 0;
}

fy_imatrix *fy_imatrix_parse(const void *p, size_t n, const char *name, fy_err *e)
{
    if (looks_legacy(p, n)) {
        fy_fail(e, FY_EUNSUPPORTED,
                "%s: an importance matrix of the older form (.dat), expected GGUF: convert it with "
                "llama-imatrix -m MODEL.gguf --in-file %s -o imatrix.gguf",
                name, name);
        return NULL;
    }
    fy_imatrix *m = calloc(1, sizeof *m);
    if (m == NULL) {
        fy_nomem(e);
        return NULL;
    }
    m->gguf = fy_gguf_parse(p, n, name, false, e);
    if (m->gguf == NULL || read_keys(m, name, e) != 0 || read_entries(m, name, e) != 0) {
        fy_imatrix_close(m);
        return NULL;
    }
    return m;
}

fy_imatrix *fy_imatrix_open(const char *path, fy_err *e)
{
    fy_map map;
    if (fy_map_open(&map, path, e) != 0)
        return NULL;
    fy_imatrix *m = fy_imatrix_parse(map.data, map.size, path, e);
    if (m == NULL)
        fy_map_close(&map);
    else
        m->map = map;
    return m;
}

void fy_imatrix_close(fy_imatrix *m)
{
    if (m == NULL)
        return;
    free(m->entries);
    fy_names_release(&m->names);
    fy_gguf_close(m->gguf);
    if (m->map.base != NULL)
        fy_map_close(&m->map);
    free(m);
}

size_t fy_imatrix_n(const fy_imatrix *m)
{
    return m->n;
}

uint32_t fy_imatrix_n_chunks(const fy_imatrix *m)
{
    return m->n_chunks;
}

fy_span fy_imatrix_dataset(const fy_imatrix *m)
{
    return m->dataset;
}

fy_span fy_imatrix_name(const fy_imatrix *m, size_t i)
{
    return m->entries[i].name;
}

static bool has_shape(const entry *x, uint64_t n_cols, uint64_t n_mat)
{
    uint64_t n, n_counts = n_elems(x->part[COUNTS]);
    return fy_mul_u64(n_cols, n_mat, &n) && n == n_elems(x->part[SUM2]) &&
           (n_counts == n_mat || n_counts == 1) && x->part[SUM2]->ne[0] == n / n_counts;
}

const fy_imatrix_entry *fy_imatrix_find(const fy_imatrix *m, fy_span name, uint64_t n_cols,
                                        uint64_t n_mat, fy_err *e)
{
    uint32_t i;
    if (!fy_names_find(&m->names, name, &i))
        return NULL;
    const entry *x = &m->entries[i];
    if (!has_shape(x, n_cols, n_mat)) {
        char shown[FY_QUOTE_BYTES];
        const fy_gguf_tensor *sums = x->part[SUM2];
        fy_fail(e, FY_EFORMAT,
                "%s: '%s': sums [%" PRIu64 ", %" PRIu64 "] and %" PRIu64
                " counts, expected those of %" PRIu64 " columns, %" PRIu64
                " matrices: collected on another model",
                fy_gguf_path(m->gguf), fy_quote(shown, sizeof shown, name), sums->ne[0],
                sums->ne[1], n_elems(x->part[COUNTS]), n_cols, n_mat);
        return NULL;
    }
    return x;
}

void fy_imatrix_means(const fy_imatrix_entry *x, uint64_t at, uint64_t n, float *out)
{
    const fy_gguf_tensor *sums = x->part[SUM2];
    const uint64_t n_each = n_elems(sums) / n_elems(x->part[COUNTS]);
    while (n > 0) {
        const float count = count_at(x, at / n_each);
        uint64_t here = n_each - at % n_each;
        here = here < n ? here : n;
        for (uint64_t i = 0; i < here; i++)
            out[i] = count > 0 ? value_at(sums, at + i) / count : 1;
        out += here;
        at += here;
        n -= here;
    }
}
