/* Gives the hot neurons to a GPU: their rows, which come first in a layer's matrices, are copied to
 * it, and the CPU's matrices begin after them. So the CPU computes the others as if there were no
 * more, and a neuron is computed in one place. */
#include <stdlib.h>

#include "base/log.h"
#include "model/weights.h"

static const fy_slot by_neuron[] = {FY_T_FFN_GATE, FY_T_FFN_UP, FY_T_FFN_DOWN_T, FY_T_FFN_PRED_2};
static const fy_slot biases[] = {FY_T_FFN_GATE_B, FY_T_FFN_UP_B};

static fy_matrix first_rows(const fy_weights *l, fy_slot slot, int64_t n)
{
    fy_matrix w = l->w[slot];
    w.n_rows = n;
    return w;
}

static int check_layer(const fy_model *m, const fy_weights *l, uint32_t layer, fy_err *e)
{
    if (!fy_bound(l, FY_T_FFN_DOWN_T))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: --gpu-hot: layer %u has no 'ffn_down_t', of which a row is a neuron; "
                       "'ferry quantize --transpose-down' makes it",
                       fy_gguf_path(m->gguf), layer);
    if (fy_layer_in(&m->hp.sparse_layers, layer))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: --gpu-hot: layer %u keeps only its largest gates, which needs all "
                       "neurons in one place",
                       fy_gguf_path(m->gguf), layer);
    return 0;
}

static void leave_to_gpu(fy_weights *l, uint32_t n)
{
    for (size_t i = 0; i < sizeof by_neuron / sizeof by_neuron[0]; i++) {
        fy_matrix *w = &l->w[by_neuron[i]];
        if (w->data == NULL)
            continue;
        w->data = (const uint8_t *)w->data + n * w->row_bytes;
        w->n_rows -= n;
    }
    for (size_t i = 0; i < sizeof biases / sizeof biases[0]; i++) {
        fy_matrix *w = &l->w[biases[i]];
        if (w->data != NULL)
            w->data = (const float *)w->data + n;
    }
    l->n_gpu = n;
}

static int describe(const fy_model *m, const fy_gguf_kv *n_hot, fy_gpu_layer *out, fy_err *e)
{
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        const fy_weights *l = &m->layers[i];
        const int64_t n = fy_gguf_int_at(n_hot, i);
        if (n == 0)
            continue;
        if (check_layer(m, l, i, e) != 0)
            return -1;
        out[i] = (fy_gpu_layer){.gate = first_rows(l, FY_T_FFN_GATE, n),
                                .up = first_rows(l, FY_T_FFN_UP, n),
                                .down = first_rows(l, FY_T_FFN_DOWN_T, n),
                                .gate_bias = fy_vector(l, FY_T_FFN_GATE_B),
                                .up_bias = fy_vector(l, FY_T_FFN_UP_B)};
    }
    return 0;
}

static void log_share(const fy_model *m)
{
    unsigned long long n_gpu = 0, n = 0;
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        n_gpu += m->layers[i].n_gpu;
        n += (unsigned long long)m->layers[i].w[FY_T_FFN_UP].n_rows + m->layers[i].n_gpu;
    }
    fy_log(FY_LOG_INFO,
           "--gpu-hot: %s computes %llu of %llu neurons; results differ from the CPU's in their "
           "last bits",
           m->gpu->device, n_gpu, n);
}

int fy_model_give_hot(fy_model *m, fy_gpu *gpu, fy_err *e)
{
    const fy_activation f = {m->hp.act, m->hp.act_threshold};
    const fy_gguf_kv *n_hot = NULL;
    m->gpu = gpu;
    if (fy_model_hot(m, "--gpu-hot", &n_hot, e) != 0)
        return -1;
    fy_gpu_layer *layers = calloc(m->hp.n_layer, sizeof *layers);
    if (layers == NULL)
        return fy_nomem(e);
    int rc = describe(m, n_hot, layers, e);
    if (rc == 0)
        rc = gpu->api->load(gpu, layers, m->hp.n_layer, &f, e);
    for (uint32_t i = 0; rc == 0 && i < m->hp.n_layer; i++)
        leave_to_gpu(&m->layers[i], (uint32_t)fy_gguf_int_at(n_hot, i));
    if (rc == 0)
        log_share(m);
    free(layers);
    return rc;
}

const char *fy_model_gpu(const fy_model *m)
{
    return m->gpu != NULL ? m->gpu->device : NULL;
}
