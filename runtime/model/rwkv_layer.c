/* A layer of RWKV 5, 6 or 7:
 *
 *   h = norm(x);  x += Wout (gate * norm(heads(r, k, v, decay, ...)))     the time mix
 *   h = norm(x);  x += (sigmoid(Wr h_r) *) Wdown relu(Wup h_k)^2          the channel mix
 *
 * The input of each product is h, moved towards the h of the token before: h + lerp * (before - h).
 * What a version does not have is not bound. Products take all tokens of the batch at once; what
 * depends on the token before is in backend/wkv.c.
 *
 * The state of a sequence, in floats: h of the last token in the time mix, h in the channel mix,
 * and a matrix [key][value] for each head. Sources: RWKV-LM, the package rwkv (docs/gguf.md). */
#include <assert.h>
#include <string.h>

#include "model/decoder.h"

static_assert((int)FY_WKV_HEAD_MAX == (int)FY_WKV_MAX_HEAD, "one limit for heads");

static void norm(fy_decoder *d, const fy_weights *l, fy_slot w, fy_slot bias, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_norm norm = {
        .w = fy_vector(l, w), .bias = fy_vector(l, bias), .eps = hp->norm_eps, .centred = true};
    fy_backend_norm(d->backend, d->act.h, d->act.x, &norm, n, hp->n_embd);
}

/* y = W x (+ bias). bias: FY_T_COUNT: none. */
static void multiply(fy_decoder *d, const fy_weights *l, fy_slot w, fy_slot bias, const float *x,
                     float *y, uint32_t n)
{
    const float *b = bias != FY_T_COUNT ? fy_vector(l, bias) : NULL;
    const fy_product p = {.w = &l->w[w], .bias = b, .y = y};
    fy_backend_matmul(d->backend, x, n, &p, 1);
}

/* x += W in */
static void add_product(fy_decoder *d, const fy_weights *l, fy_slot w, const float *in, uint32_t n)
{
    const fy_product p = {.w = &l->w[w], .y = d->act.branch, .sum = d->act.x};
    fy_backend_matmul(d->backend, in, n, &p, 1);
}

/* dx = h of the token before - h; the part of the state is that of the mix. */
static void shift(fy_decoder *d, size_t first, uint32_t n)
{
    fy_activations *a = &d->act;
    fy_backend_token_shift(d->backend, a->rwkv.dx, a->h, a->at, &d->state, first, n,
                           d->model->hp.n_embd);
}

/* branch = h + dx * (lerp + more): the input of a product. */
static const float *moved(fy_decoder *d, const fy_weights *l, fy_slot lerp, const float *more,
                          uint32_t n)
{
    fy_activations *a = &d->act;
    fy_backend_lerp(d->backend, a->branch, a->h, a->rwkv.dx, fy_vector(l, lerp), more, n,
                    d->model->hp.n_embd);
    return a->branch;
}

/* What stands between the two matrices of low rank. */
typedef enum { PLAIN, TANH, SIGMOID } squash;

static void squash_values(fy_decoder *d, squash kind, float *x, int64_t n)
{
    if (kind == TANH)
        fy_backend_softcap(d->backend, x, 1, n);
    else if (kind == SIGMOID)
        fy_backend_sigmoid(d->backend, x, x, NULL, n);
}

/* y = W2 f(W1 in) (+ bias) */
static void low_rank(fy_decoder *d, const fy_weights *l, fy_slot w1, squash kind, fy_slot w2,
                     fy_slot bias, const float *in, float *y, uint32_t n)
{
    float *low = d->act.rwkv.low;
    multiply(d, l, w1, FY_T_COUNT, in, low, n);
    squash_values(d, kind, low, n * l->w[w1].n_rows);
    multiply(d, l, w2, bias, low, y, n);
}

static void project_7(fy_decoder *d, const fy_weights *l, uint32_t layer, uint32_t n)
{
    fy_activations *a = &d->act;
    fy_time_mix *m = &a->rwkv;
    const float *in = moved(d, l, FY_T_MIX_LERP_R, NULL, n);
    multiply(d, l, FY_T_MIX_R, FY_T_COUNT, in, a->q, n);
    in = moved(d, l, FY_T_MIX_LERP_W, NULL, n);
    low_rank(d, l, FY_T_MIX_DECAY_1, TANH, FY_T_MIX_DECAY_2, FY_T_MIX_DECAY, in, m->decay, n);
    in = moved(d, l, FY_T_MIX_LERP_K, NULL, n);
    multiply(d, l, FY_T_MIX_K, FY_T_COUNT, in, a->k, n);
    in = moved(d, l, FY_T_MIX_LERP_V, NULL, n);
    multiply(d, l, FY_T_MIX_V, FY_T_COUNT, in, a->v, n);
    if (layer == 0)
        memcpy(m->v_first, a->v, (size_t)n * d->model->hp.n_embd * sizeof *a->v);
    else
        low_rank(d, l, FY_T_MIX_VALUE_1, PLAIN, FY_T_MIX_VALUE_2, FY_T_MIX_VALUE_0, in, m->more, n);
    in = moved(d, l, FY_T_MIX_LERP_A, NULL, n);
    low_rank(d, l, FY_T_MIX_ICLR_1, PLAIN, FY_T_MIX_ICLR_2, FY_T_MIX_ICLR, in, m->iclr, n);
    in = moved(d, l, FY_T_MIX_LERP_G, NULL, n);
    low_rank(d, l, FY_T_MIX_GATE_1, SIGMOID, FY_T_MIX_GATE_2, FY_T_COUNT, in, m->gate, n);
}

/* n_rows rows of a matrix, from `first` on. */
static fy_matrix rows_of(const fy_matrix *w, int64_t first, int64_t n_rows)
{
    fy_matrix part = *w;
    part.data = (const uint8_t *)w->data + (size_t)first * w->row_bytes;
    part.n_rows = n_rows;
    return part;
}

/* Version 6: what the tokens themselves add to the five lerps, before W2: low [5][n][rank]. */
static void five_of_low_rank(fy_decoder *d, const fy_weights *l, uint32_t n)
{
    const int64_t rank = d->model->hp.n_rank_mix;
    float *low = d->act.rwkv.low;
    const float *in = moved(d, l, FY_T_MIX_LERP_X, NULL, n);
    for (int i = 0; i < 5; i++) {
        const fy_matrix w = rows_of(&l->w[FY_T_MIX_W1], i * rank, rank);
        const fy_product p = {.w = &w, .y = low + i * n * rank};
        fy_backend_matmul(d->backend, in, n, &p, 1);
    }
    squash_values(d, TANH, low, 5 * n * rank);
}

/* The input of product `which` of w, k, v, r, g. */
static const float *moved_6(fy_decoder *d, const fy_weights *l, int which, fy_slot lerp, uint32_t n)
{
    const int64_t rank = d->model->hp.n_rank_mix, width = d->model->hp.n_embd;
    fy_time_mix *m = &d->act.rwkv;
    const fy_matrix w = rows_of(&l->w[FY_T_MIX_W2], which * width, width);
    const fy_product p = {.w = &w, .y = m->more};
    fy_backend_matmul(d->backend, m->low + which * n * rank, n, &p, 1);
    return moved(d, l, lerp, m->more, n);
}

static void project_6(fy_decoder *d, const fy_weights *l, uint32_t n)
{
    fy_activations *a = &d->act;
    fy_time_mix *m = &a->rwkv;
    float *low = m->low + 5 * (size_t)n * d->model->hp.n_rank_mix;
    five_of_low_rank(d, l, n);
    multiply(d, l, FY_T_MIX_DECAY_1, FY_T_COUNT, moved_6(d, l, 0, FY_T_MIX_LERP_W, n), low, n);
    squash_values(d, TANH, low, n * l->w[FY_T_MIX_DECAY_1].n_rows);
    multiply(d, l, FY_T_MIX_DECAY_2, FY_T_MIX_DECAY, low, m->decay, n);
    multiply(d, l, FY_T_MIX_K, FY_T_COUNT, moved_6(d, l, 1, FY_T_MIX_LERP_K, n), a->k, n);
    multiply(d, l, FY_T_MIX_V, FY_T_COUNT, moved_6(d, l, 2, FY_T_MIX_LERP_V, n), a->v, n);
    multiply(d, l, FY_T_MIX_R, FY_T_COUNT, moved_6(d, l, 3, FY_T_MIX_LERP_R, n), a->q, n);
    multiply(d, l, FY_T_MIX_G, FY_T_COUNT, moved_6(d, l, 4, FY_T_MIX_LERP_G, n), m->gate, n);
}

static void project_5(fy_decoder *d, const fy_weights *l, uint32_t n)
{
    static const fy_slot lerps[] = {FY_T_MIX_LERP_R, FY_T_MIX_LERP_K, FY_T_MIX_LERP_V,
                                    FY_T_MIX_LERP_G};
    static const fy_slot weights[] = {FY_T_MIX_R, FY_T_MIX_K, FY_T_MIX_V, FY_T_MIX_G};
    float *const to[] = {d->act.q, d->act.k, d->act.v, d->act.rwkv.gate};
    for (int i = 0; i < 4; i++) {
        if (fy_bound(l, weights[i])) /* 5.0 has no gate */
            multiply(d, l, weights[i], FY_T_COUNT, moved(d, l, lerps[i], NULL, n), to[i], n);
    }
}

static void time_mix(fy_decoder *d, uint32_t layer, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    fy_time_mix *m = &a->rwkv;
    const bool is_7 = fy_bound(l, FY_T_MIX_LERP_6), is_6 = fy_bound(l, FY_T_MIX_LERP_5);
    const bool is_gated = !is_7 && fy_bound(l, FY_T_MIX_G);
    const fy_activation silu = {.kind = FY_ACT_SILU};
    norm(d, l, FY_T_ATTN_NORM, FY_T_ATTN_NORM_B, n);
    shift(d, 0, n);
    if (is_7)
        project_7(d, l, layer, n);
    else if (is_6)
        project_6(d, l, n);
    else
        project_5(d, l, n);
    if (is_gated)
        fy_backend_activate(d->backend, &silu, m->gate, NULL, n, hp->n_embd);
    const fy_wkv w = {.n_heads = hp->n_head,
                      .head_dim = hp->wkv_head,
                      .at = a->at,
                      .state = d->state,
                      .state_first = 2 * (size_t)hp->n_embd,
                      .r = a->q,
                      .k = a->k,
                      .v = a->v,
                      .decay = is_7 || is_6 ? m->decay : fy_vector(l, FY_T_MIX_DECAY),
                      .decay_is_fixed = !is_7 && !is_6,
                      .first = fy_vector(l, FY_T_MIX_FIRST),
                      .a = m->iclr,
                      .v_share = is_7 && layer > 0 ? m->more : NULL,
                      .v_first = m->v_first,
                      .k_k = fy_vector(l, FY_T_MIX_K_K),
                      .k_a = fy_vector(l, FY_T_MIX_K_A),
                      .r_k = fy_vector(l, FY_T_MIX_R_K),
                      .gate = is_7 || is_gated ? m->gate : NULL,
                      .norm = fy_vector(l, FY_T_MIX_NORM),
                      .norm_bias = fy_vector(l, FY_T_MIX_NORM_B),
                      .eps = hp->group_eps};
    fy_backend_wkv(d->backend, a->att, &w, n);
    add_product(d, l, FY_T_MIX_OUT, a->att, n);
}

static void channel_mix(fy_decoder *d, uint32_t layer, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    const int64_t n_elems = (int64_t)n * hp->n_embd;
    const fy_activation square = {.kind = FY_ACT_RELU2};
    fy_activations *a = &d->act;
    norm(d, l, FY_T_FFN_NORM, FY_T_FFN_NORM_B, n);
    shift(d, hp->n_embd, n);
    multiply(d, l, FY_T_FFN_UP, FY_T_COUNT, moved(d, l, FY_T_FFN_LERP_K, NULL, n), a->gate, n);
    fy_backend_activate(d->backend, &square, a->gate, NULL, n, l->w[FY_T_FFN_UP].n_rows);
    if (!fy_bound(l, FY_T_FFN_R)) {
        add_product(d, l, FY_T_FFN_DOWN, a->gate, n);
        return;
    }
    multiply(d, l, FY_T_FFN_R, FY_T_COUNT, moved(d, l, FY_T_FFN_LERP_R, NULL, n), a->q, n);
    multiply(d, l, FY_T_FFN_DOWN, FY_T_COUNT, a->gate, a->branch, n);
    fy_backend_sigmoid(d->backend, a->q, a->q, a->branch, n_elems);
    fy_backend_add(d->backend, a->x, a->q, 1, n_elems);
}

void fy_rwkv_layer(fy_decoder *d, uint32_t layer, fy_layer_part part, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    if ((part & FY_KEYS) == 0)
        return; /* the channel mix has a state, too: all was computed of all tokens */
    time_mix(d, layer, n);
    channel_mix(d, layer, n);
    if (hp->rescale_every != 0 && (layer + 1) % hp->rescale_every == 0)
        fy_backend_scale(d->backend, d->act.x, 0.5F, (int64_t)n * hp->n_embd);
}

void fy_time_mix_lay_out(fy_time_mix *m, const fy_hparams *hp, uint64_t n, fy_layout *c)
{
    const uint64_t ranks[] = {5 * (uint64_t)hp->n_rank_mix + hp->n_rank_decay, hp->n_rank_iclr,
                              hp->n_rank_value, hp->n_rank_gate};
    uint64_t most = 0;
    float **const rows[] = {&m->dx, &m->decay, &m->iclr, &m->more, &m->gate, &m->v_first};
    *m = (fy_time_mix){0};
    if (hp->wkv_head == 0)
        return;
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
        most = ranks[i] > most ? ranks[i] : most;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        *rows[i] = fy_lay_out(c, n, hp->n_embd, sizeof(float));
    m->low = fy_lay_out(c, n, most, sizeof *m->low);
}
