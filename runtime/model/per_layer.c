/* Per-layer embeddings (Gemma 3n, Gemma 4): a table has a row for each token, with a part for each
 * layer, which is met by a projection of the token's embedding:
 *
 *   p = (sqrt(n_embd_pl) table[token] + norm(Wmodel x / sqrt(n_embd))) / sqrt(2), before layer 0
 *   a layer adds  post(Wproj (f(Wgate x) * p[layer]))
 *
 * The table is the largest tensor of such a model. It stays in its file: of a token the row is
 * read, and nothing else. */
#include <math.h>
#include <string.h>

#include "model/decoder.h"

/* A row at a time: that of one token is long. */
static void add_rows(fy_decoder *d, const int32_t *ids, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const int64_t len = (int64_t)fy_dim_of(hp, FY_D_PL_ALL);
    fy_activations *a = &d->act;
    for (uint32_t i = 0; i < n; i++) {
        fy_backend_embed(d->backend, a->pl_row, &d->model->once.w[FY_T_PL_EMBD], ids + i, 1);
        fy_backend_add(d->backend, a->pl + i * len, a->pl_row, sqrtf((float)hp->n_embd_pl), len);
    }
}

void fy_per_layer_begin(fy_decoder *d, const int32_t *ids, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *w = &d->model->once;
    fy_activations *a = &d->act;
    const int64_t n_elems = n * (int64_t)fy_dim_of(hp, FY_D_PL_ALL);
    const fy_norm norm = {.w = fy_vector(w, FY_T_PL_MODEL_NORM), .eps = hp->norm_rms_eps};
    const fy_product p = {.w = &w->w[FY_T_PL_MODEL_PROJ], .y = a->pl};
    fy_backend_matmul(d->backend, a->x, n, &p, 1);
    fy_backend_scale(d->backend, a->pl, 1 / sqrtf((float)hp->n_embd), n_elems);
    fy_backend_norm(d->backend, a->pl, a->pl, &norm, (int64_t)n * hp->n_layer, hp->n_embd_pl);
    add_rows(d, ids, n);
    fy_backend_scale(d->backend, a->pl, sqrtf(0.5F), n_elems);
}

void fy_per_layer_branch(fy_decoder *d, uint32_t layer, const float *x, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    const size_t len = hp->n_embd_pl, all = len * hp->n_layer;
    const fy_activation f = {hp->act, hp->act_threshold};
    const fy_product gate = {.w = &l->w[FY_T_PL_GATE], .y = a->pl_gate},
                     out = {.w = &l->w[FY_T_PL_PROJ], .y = a->branch};
    for (uint32_t i = 0; i < n; i++)
        memcpy(a->pl_part + i * len, a->pl + i * all + layer * len, len * sizeof *a->pl_part);
    fy_backend_matmul(d->backend, x, n, &gate, 1);
    fy_backend_activate(d->backend, &f, a->pl_gate, a->pl_part, n, (int64_t)len);
    fy_backend_matmul(d->backend, a->pl_gate, n, &out, 1);
}
