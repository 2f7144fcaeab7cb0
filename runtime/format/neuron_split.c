/* Reading, checking and writing PowerInfer's split files. */
#include "format/neuron_split.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/math.h"
#include "format/gguf.h"
#include "format/gguf_write.h"

#define ARCHITECTURE "generic.gpu_index"
#define KEY_LAYERS   ARCHITECTURE ".block_count"
#define KEY_CAPACITY "split.vram_capacity"

enum { NAME_BYTES = 32 };

int fy_neuron_split_init(fy_neuron_split *s, uint32_t n_layer, fy_err *e)
{
    *s = (fy_neuron_split){.n_layer = n_layer,
                           .layers = calloc((size_t)n_layer + 1, sizeof *s->layers)};
    return s->layers != NULL ? 0 : fy_nomem(e);
}

int fy_neuron_split_add_layer(fy_neuron_split *s, uint32_t layer, uint64_t n, uint64_t n_hot,
                              fy_err *e)
{
    s->layers[layer] =
        (fy_layer_split){n, n_hot, calloc((size_t)n_hot + 1, sizeof *s->layers[layer].hot)};
    return s->layers[layer].hot != NULL ? 0 : fy_nomem(e);
}

void fy_neuron_split_release(fy_neuron_split *s)
{
    for (uint32_t l = 0; s->layers != NULL && l < s->n_layer; l++)
        free(s->layers[l].hot);
    free(s->layers);
    *s = (fy_neuron_split){0};
}

/* --- reading ---------------------------------------------------------------------------------- */

static int32_t number_at(const fy_gguf_tensor *t, uint64_t i)
{
    return (int32_t)fy_le32(t->data + i * sizeof(int32_t));
}

/* "blk.N.gpu_idx" or "blk.N.gpu_bucket"; *out NULL: the file has none. */
static int find_tensor(const fy_gguf *g, uint32_t layer, const char *what,
                       const fy_gguf_tensor **out, fy_err *e)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%" PRIu32 ".%s", layer, what);
    *out = fy_gguf_tensor_find(g, name);
    if (*out != NULL && ((*out)->type != FY_I32 || (*out)->n_dims != 1))
        return fy_fail(e, FY_EFORMAT, "tensor '%s': %s in %u dimensions, expected i32 in one", name,
                       fy_type_name((*out)->type), (*out)->n_dims);
    return 0;
}

static int count_hot(const fy_gguf_tensor *idx, uint64_t *n_hot, fy_err *e)
{
    *n_hot = 0;
    for (uint64_t i = 0; i < idx->ne[0]; i++) {
        const int32_t v = number_at(idx, i);
        if (v != 0 && v != 1)
            return fy_fail(e, FY_EFORMAT, "gpu_idx of neuron %" PRIu64 " is %d, expected 0 or 1", i,
                           v);
        *n_hot += (uint64_t)v;
    }
    return 0;
}

/* Does the bucket list the hot neurons, each of them once? */
static int check_bucket(const fy_layer_split *l, const fy_gguf_tensor *bucket, fy_err *e)
{
    if (bucket->ne[0] != l->n_hot)
        return fy_fail(e, FY_EFORMAT,
                       "gpu_bucket has %" PRIu64 " neurons, but gpu_idx marks %" PRIu64,
                       bucket->ne[0], l->n_hot);
    for (uint64_t i = 0; i < l->n_hot; i++) {
        const int32_t v = number_at(bucket, i), before = i > 0 ? number_at(bucket, i - 1) : -1;
        if (v == before)
            return fy_fail(e, FY_EFORMAT, "gpu_bucket lists neuron %d twice", v);
        if (v != l->hot[i])
            return fy_fail(e, FY_EFORMAT,
                           "gpu_bucket lists neuron %d at place %" PRIu64
                           ", but gpu_idx marks neuron %d there",
                           v, i, l->hot[i]);
    }
    return 0;
}

static int take_layer(fy_neuron_split *s, const fy_gguf *g, uint32_t layer, size_t *found,
                      fy_err *e)
{
    const fy_gguf_tensor *idx, *bucket;
    uint64_t n_hot, at = 0;
    if (find_tensor(g, layer, "gpu_idx", &idx, e) != 0 ||
        find_tensor(g, layer, "gpu_bucket", &bucket, e) != 0)
        return -1;
    if (idx == NULL)
        return fy_fail(e, FY_EFORMAT, "tensor 'blk.%" PRIu32 ".gpu_idx' is missing", layer);
    *found += 1 + (bucket != NULL);
    if (idx->ne[0] > INT32_MAX)
        return fy_fail(e, FY_EFORMAT, "%" PRIu64 " neurons, at most %d", idx->ne[0], INT32_MAX);
    if (count_hot(idx, &n_hot, e) != 0 ||
        fy_neuron_split_add_layer(s, layer, idx->ne[0], n_hot, e) != 0)
        return -1;
    fy_layer_split *l = &s->layers[layer];
    for (uint64_t i = 0; i < l->n; i++) {
        if (number_at(idx, i) == 1)
            l->hot[at++] = (int32_t)i;
    }
    return bucket != NULL ? check_bucket(l, bucket, e) : 0;
}

static int take_keys(const fy_gguf *g, uint32_t *n_layer, uint64_t *capacity, fy_err *e)
{
    fy_span arch = {0};
    char shown[FY_QUOTE_BYTES];
    if (fy_gguf_get_str(g, FY_KEY_ARCHITECTURE, &arch, e) < 0)
        return -1;
    if (!fy_span_is(arch, ARCHITECTURE))
        return fy_fail(e, FY_EFORMAT,
                       "not a split file: " FY_KEY_ARCHITECTURE " is '%s', expected '" ARCHITECTURE
                       "'",
                       fy_quote(shown, sizeof shown, arch));
    const int absent = fy_gguf_get_u32(g, KEY_LAYERS, n_layer, e);
    if (absent != 0)
        return absent < 0 ? -1 : fy_fail(e, FY_EFORMAT, "key '" KEY_LAYERS "' is absent");
    const fy_gguf_kv *kv = fy_gguf_find(g, KEY_CAPACITY);
    if (kv == NULL || kv->type != FY_KV_U64)
        return fy_fail(e, FY_EFORMAT, "key '" KEY_CAPACITY "' is %s, expected u64",
                       kv == NULL ? "absent" : fy_kv_type_name(kv->type));
    *capacity = fy_le64(kv->data);
    return 0;
}

static int take_split(fy_neuron_split *s, const fy_gguf *g, fy_err *e)
{
    uint32_t n_layer;
    uint64_t capacity = 0;
    size_t found = 0;
    if (take_keys(g, &n_layer, &capacity, e) != 0)
        return -1;
    if (n_layer == 0 || n_layer > fy_gguf_n_tensors(g))
        return fy_fail(e, FY_EFORMAT, "%" PRIu32 " layers, but %zu tensors: expected two for each",
                       n_layer, fy_gguf_n_tensors(g));
    if (fy_neuron_split_init(s, n_layer, e) != 0)
        return -1;
    s->capacity_bytes = capacity;
    for (uint32_t l = 0; l < n_layer; l++) {
        if (take_layer(s, g, l, &found, e) != 0)
            return fy_ctx(e, "layer %" PRIu32, l);
    }
    return found == fy_gguf_n_tensors(g)
               ? 0
               : fy_fail(e, FY_EFORMAT,
                         "%zu tensors, but only %zu are those of its %" PRIu32 " layers",
                         fy_gguf_n_tensors(g), found, n_layer);
}

int fy_neuron_split_parse(fy_neuron_split *s, const void *p, size_t n, const char *name, fy_err *e)
{
    *s = (fy_neuron_split){0};
    fy_gguf *g = fy_gguf_parse(p, n, name, false, e);
    if (g == NULL)
        return -1;
    const int rc = take_split(s, g, e) == 0 ? 0 : fy_ctx(e, "%s", name);
    fy_gguf_close(g);
    if (rc != 0)
        fy_neuron_split_release(s);
    return rc;
}

int fy_neuron_split_open(fy_neuron_split *s, const char *path, fy_err *e)
{
    fy_map map;
    *s = (fy_neuron_split){0};
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    const int rc = fy_neuron_split_parse(s, map.data, map.size, path, e);
    fy_map_close(&map);
    return rc;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* What tensor i holds. */
typedef struct {
    const fy_layer_split *layer;
    bool bucket;
} item;

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)row, (void)n_rows, (void)thread, (void)e;
    const item *it = (const item *)user + i;
    const fy_layer_split *l = it->layer;
    int32_t *to = out;
    if (it->bucket) {
        memcpy(to, l->hot, (size_t)l->n_hot * sizeof *to);
        return 0;
    }
    memset(to, 0, (size_t)l->n * sizeof *to);
    for (uint64_t k = 0; k < l->n_hot; k++)
        to[l->hot[k]] = 1;
    return 0;
}

static int plan_layer(fy_gguf_writer *w, const fy_neuron_split *s, uint32_t layer, item **next,
                      fy_err *e)
{
    const fy_layer_split *l = &s->layers[layer];
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%" PRIu32 ".gpu_idx", layer);
    *(*next)++ = (item){l, false};
    if (fy_gguf_add_tensor(w, name, FY_I32, 1, &l->n, e) < 0)
        return -1;
    snprintf(name, sizeof name, "blk.%" PRIu32 ".gpu_bucket", layer);
    *(*next)++ = (item){l, true};
    return fy_gguf_add_tensor(w, name, FY_I32, 1, &l->n_hot, e) < 0 ? -1 : 0;
}

static int plan_file(fy_gguf_writer *w, const fy_neuron_split *s, item *items, fy_err *e)
{
    uint8_t capacity[sizeof s->capacity_bytes];
    memcpy(capacity, &s->capacity_bytes, sizeof capacity);
    const fy_gguf_kv kv = {.key = fy_span_of(KEY_CAPACITY),
                           .type = FY_KV_U64,
                           .elem = FY_KV_U64,
                           .count = 1,
                           .data = capacity,
                           .bytes = sizeof capacity};
    fy_gguf_writer_powerinfer(w);
    if (fy_gguf_add_str(w, FY_KEY_ARCHITECTURE, FY_SPAN(ARCHITECTURE), e) != 0 ||
        fy_gguf_add_u32(w, KEY_LAYERS, s->n_layer, e) != 0 || fy_gguf_add_kv(w, &kv, e) != 0)
        return -1;
    for (uint32_t l = 0; l < s->n_layer; l++) {
        if (plan_layer(w, s, l, &items, e) != 0)
            return -1;
    }
    return 0;
}

int fy_neuron_split_write(const fy_neuron_split *s, const char *path, fy_err *e)
{
    item *items = calloc(2 * (size_t)s->n_layer + 1, sizeof *items);
    fy_gguf_writer *w = items != NULL ? fy_gguf_writer_new(e) : NULL;
    int rc = items == NULL ? fy_nomem(e) : w != NULL ? plan_file(w, s, items, e) : -1;
    if (rc == 0)
        rc = fy_gguf_write(w, path, fill, items, NULL, NULL, e);
    fy_gguf_writer_free(w);
    free(items);
    return rc;
}
