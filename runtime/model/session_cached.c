/* What a session's cache holds, in one form for all that computes it (docs/golden.md). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/row.h"
#include "model/session.h"
#include "model/weights.h"

static void read_cache(const fy_kv_layer *l, uint32_t head, bool values, uint32_t n, float *out)
{
    const fy_kernels scalar = fy_kernels_for(0);
    const fy_type type = values ? l->type_v : l->type_k;
    const int64_t dim = values ? l->head_dim_v : l->head_dim;
    const size_t row = (size_t)fy_type_row_bytes(type, (uint64_t)dim);
    const uint8_t *at = (const uint8_t *)(values ? l->v : l->k) + head * (size_t)l->n_rows * row;
    for (uint32_t t = 0; t < n; t++)
        fy_row_decode(&scalar, type, out + t * dim, at + t * row, dim);
}

/* Row by row its own inverse, but for the factor n: the Hadamard matrix, whose element [i][j] is -1
 * to the number of bits that i and j share. */
static void undo_hadamard(float *x, uint32_t n)
{
    for (uint32_t step = 1; step < n; step *= 2) {
        for (uint32_t i = 0; i < n; i++) {
            if ((i & step) != 0)
                continue;
            const float a = x[i], b = x[i + step];
            x[i] = a + b;
            x[i + step] = a - b;
        }
    }
}

/* Keys that a graph made for an NPU. */
static void undo_npu(const fy_hparams *hp, bool rotate_keys, float *x)
{
    const uint32_t n = hp->head_dim;
    float scale = fy_npu_key_scale(hp);
    if (rotate_keys && fy_npu_can_rotate_keys(hp)) {
        undo_hadamard(x, n);
        scale *= sqrtf((float)n);
    }
    for (uint32_t i = 0; i < n; i++)
        x[i] /= scale;
}

/* The turned elements of each key from neighbours to halves. */
static int to_halves(const fy_hparams *hp, uint32_t n, float *keys, fy_err *e)
{
    float *was = malloc(hp->head_dim * sizeof *was);
    if (was == NULL)
        return fy_nomem(e);
    for (uint32_t t = 0; t < n; t++, keys += hp->head_dim) {
        memcpy(was, keys, hp->head_dim * sizeof *was);
        for (uint32_t i = 0; i < hp->n_rot; i++)
            keys[i] = was[fy_neighbour_of_half(hp, i)];
    }
    free(was);
    return 0;
}

int fy_session_cached(const fy_session *s, uint32_t layer, uint32_t head, bool values, uint32_t n,
                      float *out, fy_err *e)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_chain *c = s->model->chain;
    if (c == NULL && n > s->n_ring)
        return fy_fail(e, FY_EUNSUPPORTED, "%u positions: layers with the window keep %u", n,
                       s->n_ring);
    if (fy_layer_in(&hp->no_attn_layers, layer)) {
        memset(out, 0, (size_t)n * (values ? hp->head_dim_v : hp->head_dim) * sizeof *out);
    } else if (c != NULL) {
        fy_chain_run_cached(s->chain, layer, head, values, n, out);
    } else {
        const fy_kv_layer l = fy_kv_at(&s->kv, layer);
        read_cache(&l, head, values, n, out);
    }
    if (values)
        return 0;
    bool neighbours = s->model->family->rope == FY_ROPE_NORM;
    if (c != NULL && c->device->api->npu_keys) {
        for (uint32_t t = 0; t < n; t++)
            undo_npu(hp, c->rotate_keys, out + (size_t)t * hp->head_dim);
        neighbours =
            neighbours && !fy_layer_rotates(hp, layer); /* of others the graph has halves */
    }
    return neighbours ? to_halves(hp, n, out, e) : 0;
}
