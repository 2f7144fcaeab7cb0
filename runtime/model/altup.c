/* Gemma 3n: several residual streams (AltUp, NeurIPS 2023). Stream 0 is act.x; the router r reads
 * it:
 *
 *   r(x) = tanh(Wr norm(x) / n_embd)
 *   before a layer  each stream += sum of all, by Wp r(x0)             predict
 *   a layer         computes x0 -> z from the prediction
 *   after it        each stream = its prediction + (1 + Wc r(z)) (z - that of x0)   correct
 *
 * Beside attention stands a low-rank branch (LAuReL): u + post(Wr Wl u), u = norm(x0). What the
 * layer adds for its part of the token (per_layer.c), made of x0 times a vector, goes to the
 * others. */
#include <math.h>
#include <string.h>

#include "model/decoder.h"

static fy_streams streams_of(const fy_decoder *d)
{
    fy_streams s = {.n_streams = (int)d->model->hp.n_altup};
    s.x[0] = d->act.x;
    for (int i = 1; i < s.n_streams; i++)
        s.x[i] = d->act.streams[i - 1];
    return s;
}

/* Matrix i of those that stand one below the other. */
static fy_matrix one_of(const fy_matrix *all, uint32_t n_rows, uint32_t i)
{
    fy_matrix m = *all;
    m.data = (const uint8_t *)all->data + (size_t)i * n_rows * all->row_bytes;
    m.n_rows = n_rows;
    return m;
}

/* y = W[i] x, as large as `like`. */
static void turn(fy_decoder *d, fy_slot slot, uint32_t i, const float *x, const float *like,
                 float *y, uint32_t n)
{
    const uint32_t n_embd = d->model->hp.n_embd;
    const fy_matrix w = one_of(&d->model->once.w[slot], n_embd, i);
    const fy_product p = {.w = &w, .y = y};
    fy_backend_matmul(d->backend, x, n, &p, 1);
    fy_backend_match_size(d->backend, y, like, n, n_embd);
}

void fy_altup_begin(fy_decoder *d, uint32_t n)
{
    for (uint32_t i = 0; i + 1 < d->model->hp.n_altup; i++)
        turn(d, FY_T_ALTUP_PROJ, i, d->act.x, d->act.x, d->act.streams[i], n);
}

void fy_altup_end(fy_decoder *d, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const int64_t n_elems = (int64_t)n * hp->n_embd;
    fy_activations *a = &d->act;
    memcpy(a->predicted, a->x, (size_t)n_elems * sizeof *a->x); /* all are made as large as this */
    for (uint32_t i = 0; i + 1 < hp->n_altup; i++) {
        turn(d, FY_T_ALTUP_UNPROJ, i, a->streams[i], a->predicted, a->branch, n);
        fy_backend_add(d->backend, a->x, a->branch, 1, n_elems);
    }
    fy_backend_scale(d->backend, a->x, 1 / (float)hp->n_altup, n_elems);
}

/* act.coefs [n][rows of the matrix] = W r(x). */
static void route(fy_decoder *d, const fy_weights *l, fy_slot slot, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    fy_activations *a = &d->act;
    const fy_norm norm = {.w = fy_vector(l, FY_T_ALTUP_ROUTER_NORM), .eps = hp->norm_rms_eps};
    const fy_product router = {.w = &l->w[FY_T_ALTUP_ROUTER], .y = a->route},
                     coefs = {.w = &l->w[slot], .y = a->coefs};
    fy_backend_norm(d->backend, a->h, a->x, &norm, n, hp->n_embd);
    fy_backend_scale(d->backend, a->h, 1 / (float)hp->n_embd, (int64_t)n * hp->n_embd);
    fy_backend_matmul(d->backend, a->h, n, &router, 1);
    fy_backend_softcap(d->backend, a->route, 1, (int64_t)n * hp->n_altup);
    fy_backend_matmul(d->backend, a->route, n, &coefs, 1);
}

void fy_altup_predict(fy_decoder *d, uint32_t layer, uint32_t n)
{
    const fy_streams s = streams_of(d);
    route(d, fy_layer_at(d->model, layer), FY_T_ALTUP_PREDICT, n);
    fy_backend_mix_streams(d->backend, &s, d->act.coefs, n, d->model->hp.n_embd);
}

void fy_altup_laurel(fy_decoder *d, uint32_t layer, const float *u, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    const int64_t n_elems = (int64_t)n * hp->n_embd;
    const fy_norm norm = {.w = fy_vector(l, FY_T_LAUREL_NORM), .eps = hp->norm_rms_eps};
    const fy_product left = {.w = &l->w[FY_T_LAUREL_L], .y = a->low},
                     right = {.w = &l->w[FY_T_LAUREL_R], .y = a->laurel};
    memcpy(a->predicted, a->x, (size_t)n_elems * sizeof *a->x);
    fy_backend_matmul(d->backend, u, n, &left, 1);
    fy_backend_matmul(d->backend, a->low, n, &right, 1);
    fy_backend_norm(d->backend, a->laurel, a->laurel, &norm, n, hp->n_embd);
    fy_backend_add(d->backend, a->laurel, u, 1, n_elems);
}

void fy_altup_join(fy_decoder *d, uint32_t n)
{
    const int64_t n_elems = (int64_t)n * d->model->hp.n_embd;
    fy_backend_add(d->backend, d->act.x, d->act.laurel, 1, n_elems);
    fy_backend_scale(d->backend, d->act.x, sqrtf(0.5F), n_elems);
}

/* h = x times a vector */
static void scale_rows(float *h, const float *x, const float *w, uint32_t n, uint32_t n_embd)
{
    for (size_t t = 0; t < n; t++) {
        for (size_t i = 0; i < n_embd; i++)
            h[t * n_embd + i] = x[t * n_embd + i] * w[i];
    }
}

void fy_altup_correct(fy_decoder *d, uint32_t layer, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    const fy_streams s = streams_of(d);
    const fy_norm norm = {.w = fy_vector(l, FY_T_PL_NORM), .eps = hp->norm_rms_eps};
    route(d, l, FY_T_ALTUP_CORRECT, n);
    fy_backend_correct_streams(d->backend, &s, a->predicted, a->coefs, n, hp->n_embd);
    scale_rows(a->h, a->x, fy_vector(l, FY_T_ALTUP_SCALE), n, hp->n_embd);
    fy_per_layer_branch(d, layer, a->h, n);
    fy_backend_norm(d->backend, a->branch, a->branch, &norm, n, hp->n_embd);
    for (int i = 1; i < s.n_streams; i++)
        fy_backend_add(d->backend, s.x[i], a->branch, 1, (int64_t)n * hp->n_embd);
}
