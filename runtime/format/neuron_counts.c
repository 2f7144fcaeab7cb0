/* Reading and writing counts of active neurons. */
#include "format/neuron_counts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/math.h"
#include "base/path.h"
#include "format/gguf.h"
#include "format/gguf_write.h"
#include "format/torch_file.h"

#define KEY_LAYERS  "activations.block_count"
#define KEY_TOKENS  "activations.tokens"
#define KEY_DATASET "activations.dataset"

enum { MAX_LAYERS = 65535, NAME_BYTES = 32 };

int fy_neuron_counts_init(fy_neuron_counts *c, uint32_t n_layer, fy_err *e)
{
    *c = (fy_neuron_counts){.n_layer = n_layer,
                            .layers = calloc((size_t)n_layer + 1, sizeof *c->layers)};
    return c->layers != NULL ? 0 : fy_nomem(e);
}

int fy_neuron_counts_add_layer(fy_neuron_counts *c, uint32_t layer, uint64_t n, fy_err *e)
{
    c->layers[layer] = (fy_layer_counts){n, calloc((size_t)n + 1, sizeof(double))};
    return c->layers[layer].of != NULL ? 0 : fy_nomem(e);
}

void fy_neuron_counts_release(fy_neuron_counts *c)
{
    for (uint32_t l = 0; c->layers != NULL && l < c->n_layer; l++)
        free(c->layers[l].of);
    free(c->layers);
    *c = (fy_neuron_counts){0};
}

static int check_count(double v, uint64_t neuron, fy_err *e)
{
    return v >= 0 && isfinite(v)
               ? 0
               : fy_fail(e, FY_EFORMAT,
                         "neuron %" PRIu64 " has count %g, expected one of at least 0", neuron, v);
}

/* --- our file --------------------------------------------------------------------------------- */

static const char *tensor_name(uint32_t layer, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "blk.%" PRIu32 ".activations", layer);
    return out;
}

static int take_tensor(fy_neuron_counts *c, uint32_t layer, const fy_gguf_tensor *t, fy_err *e)
{
    if (t->type != FY_I32 || t->n_dims != 1)
        return fy_fail(e, FY_EFORMAT,
                       "tensor 'blk.%" PRIu32 ".activations': %s in %u dimensions, "
                       "expected i32 in one",
                       layer, fy_type_name(t->type), t->n_dims);
    if (fy_neuron_counts_add_layer(c, layer, t->ne[0], e) != 0)
        return -1;
    for (uint64_t i = 0; i < t->ne[0]; i++) {
        const double v = (int32_t)fy_le32(t->data + i * sizeof(int32_t));
        if (check_count(v, i, e) != 0)
            return fy_ctx(e, "layer %" PRIu32, layer);
        c->layers[layer].of[i] = v;
    }
    return 0;
}

static int take_key(const fy_gguf *g, const char *key, uint32_t *out, fy_err *e)
{
    const int absent = fy_gguf_get_u32(g, key, out, e);
    return absent > 0 ? fy_fail(e, FY_EFORMAT, "key '%s' is absent: not counts of neurons", key)
                      : absent;
}

static int take_gguf(fy_neuron_counts *c, const fy_gguf *g, fy_err *e)
{
    uint32_t n_layer, n_tokens;
    size_t found = 0;
    char name[NAME_BYTES];
    if (take_key(g, KEY_LAYERS, &n_layer, e) != 0 || take_key(g, KEY_TOKENS, &n_tokens, e) != 0)
        return -1;
    if (n_layer > MAX_LAYERS)
        return fy_fail(e, FY_EFORMAT, "%" PRIu32 " layers, at most %d", n_layer, MAX_LAYERS);
    if (fy_neuron_counts_init(c, n_layer, e) != 0)
        return -1;
    c->n_tokens = n_tokens;
    for (uint32_t l = 0; l < n_layer; l++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_find(g, tensor_name(l, name));
        if (t != NULL && take_tensor(c, l, t, e) != 0)
            return -1;
        found += t != NULL;
    }
    return found > 0 && found == fy_gguf_n_tensors(g)
               ? 0
               : fy_fail(e, FY_EFORMAT,
                         "%zu of its %zu tensors are blk.N.activations of %" PRIu32
                         " layers, expected all",
                         found, fy_gguf_n_tensors(g), n_layer);
}

int fy_neuron_counts_parse(fy_neuron_counts *c, const void *p, size_t n, const char *name,
                           fy_err *e)
{
    *c = (fy_neuron_counts){0};
    fy_gguf *g = fy_gguf_parse(p, n, name, false, e);
    if (g == NULL)
        return -1;
    const int rc = take_gguf(c, g, e) == 0 ? 0 : fy_ctx(e, "%s", name);
    fy_gguf_close(g);
    if (rc != 0)
        fy_neuron_counts_release(c);
    return rc;
}

/* --- PowerInfer's directory ------------------------------------------------------------------- */

static double value_of(fy_dtype type, const void *p, uint64_t i)
{
    switch ((int)type) {
    case FY_DT_I64:
        return (double)((const int64_t *)p)[i];
    case FY_DT_I32:
        return ((const int32_t *)p)[i];
    case FY_DT_F64:
        return ((const double *)p)[i];
    default:
        return (double)((const float *)p)[i];
    }
}

static int take_torch(fy_layer_counts *l, const fy_torch *f, fy_err *e)
{
    const fy_torch_tensor *t = fy_torch_n_tensors(f) == 1 ? fy_torch_tensor_at(f, 0) : NULL;
    if (t == NULL || t->rank != 1 || t->shape[0] == 0)
        return fy_fail(e, FY_EFORMAT,
                       "expected one tensor of one dimension, a count for each neuron");
    if (t->dtype != FY_DT_I64 && t->dtype != FY_DT_I32 && t->dtype != FY_DT_F32 &&
        t->dtype != FY_DT_F64)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "counts of another type than int64, int32, float32 and "
                       "float64");
    void *values = malloc((size_t)t->bytes);
    *l = (fy_layer_counts){t->shape[0], calloc((size_t)t->shape[0], sizeof *l->of)};
    int rc = values != NULL && l->of != NULL ? 0 : fy_nomem(e);
    if (rc == 0)
        fy_torch_gather(t, 0, t->shape[0], values);
    for (uint64_t i = 0; rc == 0 && i < l->n; i++) {
        l->of[i] = value_of(t->dtype, values, i);
        rc = check_count(l->of[i], i, e);
    }
    free(values);
    return rc;
}

static int open_torch(fy_layer_counts *l, const char *path, fy_err *e)
{
    fy_torch *f = fy_torch_open(path, e);
    if (f == NULL)
        return -1;
    const int rc = take_torch(l, f, e) == 0 ? 0 : fy_ctx(e, "%s", path);
    fy_torch_close(f);
    return rc;
}

static int open_dir(fy_neuron_counts *c, const char *dir, fy_err *e)
{
    char name[NAME_BYTES];
    uint32_t n = 0;
    for (; n <= MAX_LAYERS; n++) {
        snprintf(name, sizeof name, "activation_%" PRIu32 ".pt", n);
        if (!fy_dir_has(dir, name))
            break;
    }
    if (n == 0 || n > MAX_LAYERS)
        return fy_fail(e, FY_EFORMAT, "%s: expected activation_0.pt and so on, one for each layer",
                       dir);
    int rc = fy_neuron_counts_init(c, n, e);
    for (uint32_t l = 0; rc == 0 && l < n; l++) {
        char *path = fy_path_format(e, "%s/activation_%" PRIu32 ".pt", dir, l);
        rc = path != NULL ? open_torch(&c->layers[l], path, e) : -1;
        free(path);
    }
    if (rc != 0)
        fy_neuron_counts_release(c);
    return rc;
}

int fy_neuron_counts_open(fy_neuron_counts *c, const char *path, fy_err *e)
{
    fy_map map;
    *c = (fy_neuron_counts){0};
    if (fy_file_is_dir(path))
        return open_dir(c, path, e);
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    const int rc = fy_neuron_counts_parse(c, map.data, map.size, path, e);
    fy_map_close(&map);
    return rc;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Tensor i is that of layer order[i]. */
typedef struct {
    const fy_neuron_counts *c;
    uint32_t *order; /* owned, [n_layer] */
} job;

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)row, (void)n_rows, (void)thread;
    const job *j = user;
    const fy_layer_counts *l = &j->c->layers[j->order[i]];
    int32_t *to = out;
    for (uint64_t k = 0; k < l->n; k++) {
        if (!(l->of[k] <= INT32_MAX))
            return fy_fail(e, FY_EARG,
                           "layer %" PRIu32 ", neuron %" PRIu64 ": count %g, at most %d",
                           j->order[i], k, l->of[k], INT32_MAX);
        to[k] = (int32_t)l->of[k];
    }
    return 0;
}

static int plan_file(fy_gguf_writer *w, job *j, fy_span dataset, fy_err *e)
{
    char name[NAME_BYTES];
    size_t n = 0;
    if (j->c->n_tokens > INT32_MAX)
        return fy_fail(e, FY_EARG, "%" PRIu64 " tokens, at most %d", j->c->n_tokens, INT32_MAX);
    if (fy_gguf_add_str(w, "general.type", FY_SPAN("activations"), e) != 0 ||
        fy_gguf_add_str(w, KEY_DATASET, dataset, e) != 0 ||
        fy_gguf_add_u32(w, KEY_LAYERS, j->c->n_layer, e) != 0 ||
        fy_gguf_add_u32(w, KEY_TOKENS, (uint32_t)j->c->n_tokens, e) != 0)
        return -1;
    for (uint32_t l = 0; l < j->c->n_layer; l++) {
        if (j->c->layers[l].n == 0)
            continue;
        j->order[n++] = l;
        if (fy_gguf_add_tensor(w, tensor_name(l, name), FY_I32, 1, &j->c->layers[l].n, e) < 0)
            return -1;
    }
    return 0;
}

int fy_neuron_counts_write(const fy_neuron_counts *c, const char *path, fy_span dataset, fy_err *e)
{
    job j = {c, calloc((size_t)c->n_layer + 1, sizeof *j.order)};
    fy_gguf_writer *w = j.order != NULL ? fy_gguf_writer_new(e) : NULL;
    int rc = j.order == NULL ? fy_nomem(e) : w != NULL ? plan_file(w, &j, dataset, e) : -1;
    if (rc == 0)
        rc = fy_gguf_write(w, path, fill, &j, NULL, NULL, e);
    fy_gguf_writer_free(w);
    free(j.order);
    return rc;
}
