/* A split file as an order of rows. */
#include "quantize/hot_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/neuron_split.h"

enum { NAME_BYTES = 48 };

static const fy_gguf_tensor *find(const fy_gguf *g, uint32_t layer, const char *what)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%" PRIu32 ".%s", layer, what);
    return fy_gguf_tensor_find(g, name);
}

static int check_model(const fy_neuron_split *s, const fy_gguf *in, bool transposes, fy_err *e)
{
    if (fy_gguf_find(in, FY_KEY_HOT_NEURONS) != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s has its hot neurons first already: start from the file that was counted",
                       fy_gguf_path(in));
    for (uint32_t l = 0; l < s->n_layer; l++) {
        const fy_gguf_tensor *up = find(in, l, "ffn_up.weight");
        if ((up != NULL ? up->ne[1] : 0) != s->layers[l].n)
            return fy_fail(e, FY_EFORMAT,
                           "layer %" PRIu32 ": %" PRIu64 " neurons, but %s has %" PRIu64
                           " there: made for another model",
                           l, s->layers[l].n, fy_gguf_path(in), up != NULL ? up->ne[1] : 0);
        if (!transposes && find(in, l, "ffn_down.weight") != NULL)
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s: the columns of ffn_down are its neurons: --hot needs rows, so give "
                           "--transpose-down as well",
                           fy_gguf_path(in));
    }
    return find(in, s->n_layer, "ffn_up.weight") == NULL
               ? 0
               : fy_fail(e, FY_EFORMAT,
                         "%" PRIu32 " layers, but %s has more: made for another model", s->n_layer,
                         fy_gguf_path(in));
}

static int order_layer(fy_hot_order *o, uint32_t layer, const fy_layer_split *s, fy_err *e)
{
    int32_t *order = malloc(((size_t)s->n + 1) * sizeof *order);
    uint64_t hot = 0, cold = s->n_hot;
    o->order[layer] = order;
    o->n_hot[layer] = (uint32_t)s->n_hot;
    if (order == NULL)
        return fy_nomem(e);
    for (uint64_t i = 0; i < s->n; i++) {
        if (hot < s->n_hot && (uint64_t)s->hot[hot] == i)
            order[hot++] = (int32_t)i;
        else
            order[cold++] = (int32_t)i;
    }
    return 0;
}

int fy_hot_order_open(fy_hot_order *o, const char *path, const fy_gguf *in, bool transposes,
                      fy_err *e)
{
    fy_neuron_split s;
    *o = (fy_hot_order){0};
    if (fy_neuron_split_open(&s, path, e) != 0)
        return -1;
    int rc = check_model(&s, in, transposes, e) == 0 ? 0 : fy_ctx(e, "%s", path);
    if (rc == 0) {
        o->n_layer = s.n_layer;
        o->order = calloc((size_t)s.n_layer + 1, sizeof *o->order);
        o->n_hot = calloc((size_t)s.n_layer + 1, sizeof *o->n_hot);
        rc = o->order != NULL && o->n_hot != NULL ? 0 : fy_nomem(e);
    }
    for (uint32_t l = 0; rc == 0 && l < s.n_layer; l++)
        rc = order_layer(o, l, &s.layers[l], e);
    fy_neuron_split_release(&s);
    return rc;
}

const int32_t *fy_hot_order_of(const fy_hot_order *o, const fy_gguf_tensor *t)
{
    static const char *const by_neuron[] = {"ffn_gate.weight", "ffn_up.weight", "ffn_down_t.weight",
                                            "ffn_down.weight", "ffn_gate.bias", "ffn_up.bias",
                                            "fc2.weight"};
    char name[NAME_BYTES];
    for (uint32_t l = 0; l < o->n_layer; l++) {
        const int n = snprintf(name, sizeof name, "blk.%" PRIu32 ".", l);
        if (!fy_span_begins(t->name, name))
            continue;
        const fy_span rest = {t->name.ptr + n, t->name.len - (size_t)n};
        for (size_t i = 0; i < sizeof by_neuron / sizeof by_neuron[0]; i++) {
            if (fy_span_is(rest, by_neuron[i]))
                return o->order[l];
        }
        return NULL;
    }
    return NULL;
}

int fy_hot_order_add_key(const fy_hot_order *o, fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_array(w, FY_KEY_HOT_NEURONS, FY_KV_U32, o->n_hot, o->n_layer, e);
}

void fy_hot_order_release(fy_hot_order *o)
{
    for (uint32_t l = 0; o->order != NULL && l < o->n_layer; l++)
        free(o->order[l]);
    free(o->order);
    free(o->n_hot);
    *o = (fy_hot_order){0};
}
