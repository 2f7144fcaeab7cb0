/* for each layer:  h = norm(x)
 *                  x += scale post(Wo attention(rope(Wq h), rope(Wk h), Wv h))
 *                  h = norm(x), in a parallel block of the x before attention
 *                  x += scale post(Wdown (f(Wgate h) * Wup h))
 * logits = Wout norm(x) + b
 * Of several residual streams (altup.c) a layer computes one.
 * Where layers get a part of each token for themselves (per_layer.c), a third block adds it.
 * In layers without attention a short convolution of h takes its place, or a Mamba-2 mixer, which
 * may also work beside it, or a gated delta net; a layer of Nemotron-H is one of mixer, attention
 * and feed-forward.
 * What a family does not have (a norm, a bias, a scale, the gate) is left out. */
#include "model/decoder.h"

#include <string.h>

#include "arch/graph_io.h"

/* bias: FY_T_COUNT: the product never has one. */
static fy_product product(const fy_weights *l, fy_slot w, fy_slot bias, float *y, float *sum)
{
    const float *b = bias != FY_T_COUNT ? fy_vector(l, bias) : NULL;
    return (fy_product){.w = &l->w[w], .bias = b, .y = y, .sum = sum};
}

/* y = norm(x) as the family norms the residual stream. */
static void norm_rows(fy_decoder *d, const float *w, const float *bias, float *y, const float *x,
                      uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const bool centred = d->model->family->layer_norm;
    const fy_norm norm = {
        .w = w, .bias = bias, .eps = centred ? hp->norm_eps : hp->norm_rms_eps, .centred = centred};
    fy_backend_norm(d->backend, y, x, &norm, n, hp->n_embd);
}

/* What a block reads: the residual stream, normed into `to` where the family does. */
static const float *normed_stream(fy_decoder *d, const fy_weights *l, fy_slot w, fy_slot bias,
                                  float *to, uint32_t n)
{
    if (!fy_bound(l, w))
        return d->act.x;
    norm_rows(d, fy_vector(l, w), fy_vector(l, bias), to, d->act.x, n);
    return to;
}

/* x += scale post(branch) */
static void add_branch(fy_decoder *d, const fy_weights *l, fy_slot post, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    fy_activations *a = &d->act;
    if (fy_bound(l, post))
        norm_rows(d, fy_vector(l, post), NULL, a->branch, a->branch, n);
    fy_backend_add(d->backend, a->x, a->branch, hp->residual_scale, (int64_t)n * hp->n_embd);
}

/* Is there nothing between a product and x? */
static bool adds_directly(const fy_decoder *d, const fy_weights *l, fy_slot post)
{
    return !fy_bound(l, post) && d->model->hp.residual_scale == 1;
}

/* x += scale post(W in + b): in one step when there is nothing between product and sum. */
static void add_product(fy_decoder *d, const fy_weights *l, fy_slot w, fy_slot bias, fy_slot post,
                        const float *in, uint32_t n)
{
    fy_activations *a = &d->act;
    const bool direct = adds_directly(d, l, post);
    fy_product p = product(l, w, bias, a->branch, direct ? a->x : NULL);
    fy_backend_matmul(d->backend, in, n, &p, 1);
    if (!direct)
        add_branch(d, l, post, n);
}

/* --- attention ------------------------------------------------------------------------------ */

/* RMS norm of each head, or of the whole vector: as long as the weights are. */
static void norm_heads(fy_decoder *d, const fy_weights *l, fy_slot slot, float *x, int64_t n_elems)
{
    if (!fy_bound(l, slot))
        return;
    const int64_t len = l->w[slot].n_cols;
    const fy_norm norm = {.w = fy_vector(l, slot), .eps = d->model->hp.norm_rms_eps};
    fy_backend_norm(d->backend, x, x, &norm, n_elems / len, len);
}

/* The angles of a layer's queries, or keys. */
static const float *angles_of(const fy_decoder *d, uint32_t layer, fy_layer_part part)
{
    const fy_activations *a = &d->act;
    if (fy_layer_has_window(&d->model->hp, layer) && a->angles_swa != NULL)
        return a->angles_swa;
    return part == FY_QUERIES && a->angles_q != NULL ? a->angles_q : a->angles;
}

/* Rotates the heads of x by their position. */
static void rotate(fy_decoder *d, uint32_t layer, fy_layer_part part, float *x, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    if (!fy_layer_rotates(hp, layer))
        return;
    if (hp->kv_lora_rank != 0) /* the last elements of a head, not the first */
        x += hp->head_dim - hp->n_rot;
    const fy_layer_shape shape = fy_layer_shape_of(hp, layer);
    const fy_rotation r = {.n_heads = part == FY_QUERIES ? hp->n_head : shape.n_head_kv,
                           .head_dim = shape.head_dim,
                           .n_rot = shape.n_rot,
                           .interleaved = d->model->family->rope == FY_ROPE_NORM,
                           .angles = angles_of(d, layer, part)};
    fy_backend_rotate(d->backend, x, n, &r);
}

/* Queries, or keys, are normed and rotated, in the family's order. */
static void norm_and_rotate(fy_decoder *d, uint32_t layer, fy_layer_part part, float *x, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    const bool queries = part == FY_QUERIES, late = d->model->family->norm_rotated;
    const fy_slot norm = queries ? FY_T_ATTN_Q_NORM : FY_T_ATTN_K_NORM;
    const int64_t each = queries && d->act.gated_q != NULL ? 2 : 1;
    const int64_t n_elems = n * l->w[queries ? FY_T_ATTN_Q : FY_T_ATTN_K].n_rows / each;
    if (!late)
        norm_heads(d, l, norm, x, n_elems);
    rotate(d, layer, part, x, n);
    if (late)
        norm_heads(d, l, norm, x, n_elems);
}

/* Values without a matrix are the keys as they come out of theirs. */
static void make_values(fy_decoder *d, const fy_weights *l, uint32_t n)
{
    fy_activations *a = &d->act;
    const int64_t n_elems = n * d->kv.n_head_kv * d->kv.head_dim_v;
    if (!fy_bound(l, FY_T_ATTN_V))
        memcpy(a->v, a->k, (size_t)n_elems * sizeof *a->v);
    if (d->model->family->norm_values) {
        const fy_norm norm = {.eps = d->model->hp.norm_rms_eps};
        fy_backend_norm(d->backend, a->v, a->v, &norm, n_elems / d->kv.head_dim_v,
                        d->kv.head_dim_v);
    }
}

/* Queries stand between their gates. */
static void take_queries(fy_decoder *d, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_activations *a = &d->act;
    const size_t len = hp->head_dim;
    for (size_t i = 0; i < (size_t)n * hp->n_head; i++)
        memcpy(a->q + i * len, a->gated_q + 2 * i * len, len * sizeof *a->q);
}

/* att *= sigmoid(gate), one of each head or, beside the queries, of each element. */
static void gate_attention(fy_decoder *d, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_activations *a = &d->act;
    const bool each = a->gated_q != NULL;
    const int64_t len = hp->head_dim, stride = each ? 2 * len : 1;
    const fy_head_gate gate = {.gate = each ? a->gated_q + len : a->head_gate,
                               .token_stride = stride * hp->n_head,
                               .head_stride = stride,
                               .n_heads = hp->n_head,
                               .head_dim = hp->head_dim_v,
                               .each_element = each};
    fy_backend_gate_heads(d->backend, a->att, n, &gate);
}

/* A layer that reads the keys of another has queries only. */
static void project(fy_decoder *d, uint32_t layer, fy_layer_part part, const float *h, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    const bool queries = (part & FY_QUERIES) != 0,
               keys = (part & FY_KEYS) != 0 && fy_kv_owner(&d->model->hp, layer) == layer;
    const bool latent = fy_bound(l, FY_T_ATTN_KV_UP);
    fy_product qkv[FY_PRODUCTS_MAX];
    int n_products = 0;
    if (queries) /* [n][n_head][head_dim] */
        qkv[n_products++] =
            product(l, FY_T_ATTN_Q, FY_T_ATTN_Q_B, a->gated_q != NULL ? a->gated_q : a->q, NULL);
    if (keys) /* [n][n_head_kv][head_dim] */
        qkv[n_products++] = product(l, FY_T_ATTN_K, FY_T_ATTN_K_B, a->k, NULL);
    if (keys && fy_bound(l, FY_T_ATTN_V)) /* [n][n_head_kv][head_dim_v] */
        qkv[n_products++] = product(l, FY_T_ATTN_V, FY_T_ATTN_V_B, a->v, NULL);
    if (queries && a->head_gate != NULL)
        qkv[n_products++] = product(l, FY_T_ATTN_GATE, FY_T_COUNT, a->head_gate, NULL);
    if (latent)
        fy_latent_project(d->backend, &d->model->hp, l, &a->latents, part, h, a->q, a->k, a->v, n);
    else if (n_products > 0)
        fy_backend_matmul(d->backend, h, n, qkv, n_products);
    if (queries && a->gated_q != NULL)
        take_queries(d, n);
    if (queries)
        norm_and_rotate(d, layer, FY_QUERIES, a->q, n);
    if (keys) {
        if (!latent)
            make_values(d, l, n);
        norm_and_rotate(d, layer, FY_KEYS, a->k, n);
        fy_backend_store(d->backend, &d->kv, a->k, a->v, a->tree != NULL ? a->row : a->at, n);
    }
}

/* part: FY_WHOLE, or FY_QUERIES of keys that are in the cache. */
static void attention_block(fy_decoder *d, uint32_t layer, fy_layer_part part, const float *h,
                            uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    project(d, layer, part, h, n);
    const bool window = fy_layer_has_window(hp, layer);
    fy_attention att = {.kv = &d->kv,
                        .at = a->at,
                        .first = a->first,
                        .tree = a->tree,
                        .n_head = hp->n_head,
                        .n_swa = window ? hp->n_swa : 0,
                        .scale = fy_attn_scale(hp),
                        .cap = hp->attn_softcap,
                        .sinks = fy_vector(l, FY_T_ATTN_SINKS)};
    fy_backend_attend(d->backend, a->att, a->q, n, &att); /* [n][n_head][head_dim_v] */
    if (a->gated_q != NULL || a->head_gate != NULL)
        gate_attention(d, n);
    add_product(d, l, FY_T_ATTN_OUT, FY_T_ATTN_OUT_B, FY_T_ATTN_POST_NORM, a->att, n);
}

/* --- short convolution ------------------------------------------------------------------------ */

/* part: FY_KEYS mixes the tokens into act.mix, FY_QUERIES takes those that are wanted from there.
 */
static void conv_block(fy_decoder *d, uint32_t layer, fy_layer_part part, const float *h,
                       uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    if (part & FY_KEYS) {
        fy_product in = product(l, FY_T_CONV_IN, FY_T_COUNT, a->bcx, NULL);
        const fy_short_conv conv = {.w = fy_vector(l, FY_T_CONV),
                                    .n_channels = hp->n_embd,
                                    .length = hp->conv_len,
                                    .at = a->at,
                                    .state = d->state};
        fy_backend_matmul(d->backend, h, n, &in, 1);
        fy_backend_short_conv(d->backend, a->mix, a->bcx, n, &conv);
    }
    if (part & FY_QUERIES)
        add_product(d, l, FY_T_CONV_OUT, FY_T_COUNT, FY_T_ATTN_POST_NORM, a->mix, n);
}

/* --- Mamba-2 ---------------------------------------------------------------------------------- */

static void mamba_block(fy_decoder *d, uint32_t layer, fy_layer_part part, const float *h,
                        uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    if (part & FY_KEYS) {
        fy_product in = product(l, FY_T_SSM_IN, FY_T_COUNT, a->bcx, NULL);
        const fy_mamba2 mamba = {.conv = fy_vector(l, FY_T_SSM_CONV),
                                 .conv_bias = fy_vector(l, FY_T_SSM_CONV_B),
                                 .dt_bias = fy_vector(l, FY_T_SSM_DT_B),
                                 .a = fy_vector(l, FY_T_SSM_A),
                                 .d = fy_vector(l, FY_T_SSM_D),
                                 .norm = fy_vector(l, FY_T_SSM_NORM),
                                 .eps = hp->norm_rms_eps,
                                 .n_inner = hp->ssm_inner,
                                 .n_heads = hp->ssm_heads,
                                 .n_groups = hp->ssm_groups,
                                 .n_state = hp->ssm_state,
                                 .length = hp->ssm_conv,
                                 .at = a->at,
                                 .state = d->state};
        fy_backend_matmul(d->backend, h, n, &in, 1);
        fy_backend_mamba2(d->backend, a->mix, a->bcx, n, &mamba);
    }
    if (part & FY_QUERIES)
        add_product(d, l, FY_T_SSM_OUT, FY_T_COUNT, FY_T_ATTN_POST_NORM, a->mix, n);
}

/* --- gated delta net ---------------------------------------------------------------------------
 */

static void delta_block(fy_decoder *d, uint32_t layer, fy_layer_part part, const float *h,
                        uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    if (part & FY_KEYS) {
        float *z = a->bcx + n * fy_dim_of(hp, FY_D_SSM_CHANNELS),
              *alpha = z + (size_t)n * hp->ssm_inner, *beta = alpha + (size_t)n * hp->ssm_heads;
        fy_product in[] = {product(l, FY_T_SSM_QKV, FY_T_COUNT, a->bcx, NULL),
                           product(l, FY_T_SSM_Z, FY_T_COUNT, z, NULL),
                           product(l, FY_T_SSM_ALPHA, FY_T_COUNT, alpha, NULL),
                           product(l, FY_T_SSM_BETA, FY_T_COUNT, beta, NULL)};
        const fy_delta_input input = {a->bcx, z, alpha, beta};
        const fy_delta_net net = {.conv = fy_vector(l, FY_T_SSM_CONV),
                                  .dt_bias = fy_vector(l, FY_T_SSM_DT_B),
                                  .a = fy_vector(l, FY_T_SSM_A),
                                  .norm = fy_vector(l, FY_T_SSM_NORM),
                                  .eps = hp->norm_rms_eps,
                                  .n_heads = hp->ssm_heads,
                                  .n_key_heads = hp->ssm_groups,
                                  .n_state = hp->ssm_state,
                                  .width = hp->ssm_inner / hp->ssm_heads,
                                  .length = hp->ssm_conv,
                                  .at = a->at,
                                  .state = d->state};
        fy_backend_matmul(d->backend, h, n, in, 4);
        fy_backend_delta_net(d->backend, a->mix, &input, n, &net);
    }
    if (part & FY_QUERIES)
        add_product(d, l, FY_T_SSM_OUT, FY_T_COUNT, FY_T_ATTN_POST_NORM, a->mix, n);
}

/* What mixes the tokens of a layer. part: FY_KEYS leaves in cache or state what later tokens read.
 */
static void mixer_block(fy_decoder *d, uint32_t layer, fy_layer_part part, const float *h,
                        uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    if (fy_bound(l, FY_T_CONV_IN))
        conv_block(d, layer, part, h, n);
    if (fy_bound(l, FY_T_SSM_IN))
        mamba_block(d, layer, part, h, n);
    if (fy_bound(l, FY_T_SSM_QKV))
        delta_block(d, layer, part, h, n);
    if (!fy_bound(l, FY_T_ATTN_OUT))
        return;
    if (part == FY_KEYS)
        project(d, layer, part, h, n);
    else
        attention_block(d, layer, part, h, n);
}

/* --- feed-forward --------------------------------------------------------------------------- */

void fy_gated_product(fy_decoder *d, uint32_t layer, const fy_weights *l, const float *h,
                      uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_activation f = {hp->act, hp->act_threshold};
    fy_activations *a = &d->act;
    const bool gated = fy_bound(l, FY_T_FFN_GATE);
    fy_product gate_up[] = {
        product(l, FY_T_FFN_UP, FY_T_FFN_UP_B, gated ? a->up : a->gate, NULL), /* [n][n_ff] */
        product(l, FY_T_FFN_GATE, FY_T_FFN_GATE_B, a->gate, NULL),
    };
    fy_backend_matmul(d->backend, h, n, gate_up, gated ? 2 : 1);
    if (fy_layer_in(&hp->sparse_layers, layer))
        fy_backend_sparsify(d->backend, a->gate, hp->act_sparsity, n, gate_up[0].w->n_rows);
    if (d->gates != NULL)
        d->gates(d->gates_user, hp, layer, a->gate, n);
    fy_backend_activate(d->backend, &f, a->gate, gated ? a->up : NULL, n, gate_up[0].w->n_rows);
}

/* The experts are known from here on: those that are not in memory are read meanwhile. */
static void route(fy_decoder *d, uint32_t layer, const float *x, uint32_t n)
{
    fy_experts *m = &d->act.experts;
    m->cache = d->model->experts;
    m->layer = layer;
    fy_moe_route(d->backend, &d->model->hp, fy_layer_at(d->model, layer), m, x, n);
}

static void ffn_block(fy_decoder *d, uint32_t layer, const float *h, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    if (fy_ffn_is_by_neuron(d, layer, n)) {
        const bool direct = adds_directly(d, l, FY_T_FFN_POST_NORM);
        fy_neuron_ffn(d, layer, h, n, direct ? a->x : NULL);
        if (!direct)
            add_branch(d, l, FY_T_FFN_POST_NORM, n);
        return;
    }
    if (!fy_bound(l, FY_T_FFN_ROUTER)) {
        fy_gated_product(d, layer, l, h, n);
        add_product(d, l, FY_T_FFN_DOWN, FY_T_FFN_DOWN_B, FY_T_FFN_POST_NORM, a->gate, n);
        return;
    }
    const fy_hparams *hp = &d->model->hp;
    if (!d->model->family->early_router)
        route(d, layer, h, n);
    fy_moe_ffn(d->backend, hp, l, &a->experts, h, a->gate, a->up, a->branch, n);
    add_branch(d, l, FY_T_FFN_POST_NORM, n);
}

/* --- layers --------------------------------------------------------------------------------- */

/* Does attention read through a norm of its own, next to the one of the parallel block? */
static bool has_two_norms(const fy_decoder *d, const fy_weights *l)
{
    return d->model->hp.parallel && fy_bound(l, FY_T_ATTN_NORM_2);
}

static const float *attention_input(fy_decoder *d, const fy_weights *l, uint32_t n)
{
    float *to = d->act.h;
    return has_two_norms(d, l) ? normed_stream(d, l, FY_T_ATTN_NORM_2, FY_T_ATTN_NORM_2_B, to, n)
                               : normed_stream(d, l, FY_T_ATTN_NORM, FY_T_ATTN_NORM_B, to, n);
}

/* Attention and feed-forward network read the same x, each through its own norm or both through
 * one. */
static void parallel_block(fy_decoder *d, uint32_t layer, fy_layer_part part, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    const float *h = attention_input(d, l, n), *h_ffn = h;
    if (fy_bound(l, FY_T_FFN_NORM))
        h_ffn = normed_stream(d, l, FY_T_FFN_NORM, FY_T_FFN_NORM_B, a->h_ffn, n);
    else if (has_two_norms(d, l))
        h_ffn = normed_stream(d, l, FY_T_ATTN_NORM, FY_T_ATTN_NORM_B, a->h_ffn, n);
    fy_ffn_predict(d, layer, n);
    mixer_block(d, layer, part, h, n);
    ffn_block(d, layer, h_ffn, n);
}

static void sequential_block(fy_decoder *d, uint32_t layer, fy_layer_part part, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    const float *h = attention_input(d, l, n);
    mixer_block(d, layer, part, h, n);
    if (fy_layer_in(&hp->no_ffn_layers, layer))
        return;
    if (hp->ssm_place != FY_SSM_ALONE)
        h = normed_stream(d, l, FY_T_FFN_NORM, FY_T_FFN_NORM_B, d->act.h, n);
    fy_ffn_predict(d, layer, n);
    ffn_block(d, layer, h, n);
    if (fy_bound(l, FY_T_PL_GATE)) {
        fy_per_layer_branch(d, layer, d->act.x, n);
        add_branch(d, l, FY_T_PL_NORM, n);
    }
    if (fy_bound(l, FY_T_LAYER_SCALE))
        fy_backend_scale(d->backend, d->act.x, fy_vector(l, FY_T_LAYER_SCALE)[0],
                         (int64_t)n * d->model->hp.n_embd);
}

/* Of several residual streams: the layer computes one of them. */
static void altup_block(fy_decoder *d, uint32_t layer, fy_layer_part part, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    const float *u = attention_input(d, l, n);
    fy_altup_laurel(d, layer, u, n);
    mixer_block(d, layer, part, u, n);
    fy_altup_join(d, n);
    ffn_block(d, layer, normed_stream(d, l, FY_T_FFN_NORM, FY_T_FFN_NORM_B, d->act.h, n), n);
    fy_altup_correct(d, layer, n);
}

void fy_decoder_layer(fy_decoder *d, uint32_t layer, const fy_kv_layer *kv,
                      const fy_state_view *state, fy_layer_part part, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    d->kv = *kv;
    if (state != NULL)
        d->state = *state;
    if (fy_bound(l, FY_T_MIX_OUT)) {
        fy_rwkv_layer(d, layer, part, n);
        return;
    }
    if (d->model->hp.n_altup != 0 && (part & FY_KEYS))
        fy_altup_predict(d, layer, n);
    if (part == FY_KEYS) {
        mixer_block(d, layer, part, attention_input(d, l, n), n);
        return;
    }
    if (d->model->family->early_router)
        route(d, layer, a->x, n);
    if (d->model->hp.n_altup != 0)
        altup_block(d, layer, part, n);
    else if (d->model->hp.parallel)
        parallel_block(d, layer, part, n);
    else
        sequential_block(d, layer, part, n);
}

const float *fy_decoder_norm(fy_decoder *d, const float *x, uint32_t n)
{
    const fy_weights *w = &d->model->once;
    norm_rows(d, fy_vector(w, FY_T_OUTPUT_NORM), fy_vector(w, FY_T_OUTPUT_NORM_B), d->act.h, x, n);
    return d->act.h;
}

void fy_decoder_head(fy_decoder *d, const float *x, uint32_t n, float *logits)
{
    const fy_weights *w = &d->model->once;
    const float *h = fy_decoder_norm(d, x, n);
    fy_product out = {.w = d->model->output, .bias = fy_vector(w, FY_T_OUTPUT_B), .y = logits};
    fy_backend_matmul(d->backend, h, n, &out, 1);
}

/* --- memory --------------------------------------------------------------------------------- */

static void lay_out_experts(fy_experts *m, const fy_hparams *hp, uint64_t n, fy_layout *c)
{
    const uint64_t used = hp->n_expert_used;
    *m = (fy_experts){0};
    if (hp->n_expert == 0)
        return;
    m->logits = fy_lay_out(c, n, hp->n_expert, sizeof *m->logits);
    m->score = fy_lay_out(c, 1, hp->n_expert, sizeof *m->score);
    m->choice = fy_lay_out(c, n, used, sizeof *m->choice);
    m->choice_weight = fy_lay_out(c, n, used, sizeof *m->choice_weight);
    m->first = fy_lay_out(c, 1, hp->n_expert + 1, sizeof *m->first);
    m->token = fy_lay_out(c, n, used, sizeof *m->token);
    m->token_weight = fy_lay_out(c, n, used, sizeof *m->token_weight);
    m->shared_weight = fy_lay_out(c, n, 1, sizeof *m->shared_weight);
    m->rows = fy_lay_out(c, n, hp->n_embd, sizeof *m->rows);
    m->wanted = fy_lay_out(c, 1, used, sizeof *m->wanted);
    if (n * used > INT32_MAX) /* what `first` counts; both factors fit 31 bits */
        c->overflow = true;
}

static void lay_out_streams(fy_activations *a, const fy_hparams *hp, uint64_t n, fy_layout *c)
{
    if (hp->n_altup == 0)
        return;
    for (uint32_t i = 0; i + 1 < hp->n_altup; i++)
        a->streams[i] = fy_lay_out(c, n, hp->n_embd, sizeof *a->x);
    a->predicted = fy_lay_out(c, n, hp->n_embd, sizeof *a->predicted);
    a->laurel = fy_lay_out(c, n, hp->n_embd, sizeof *a->laurel);
    a->low = fy_lay_out(c, n, hp->n_laurel, sizeof *a->low);
    a->route = fy_lay_out(c, n, hp->n_altup, sizeof *a->route);
    a->coefs = fy_lay_out(c, n, fy_dim_of(hp, FY_D_ALTUP_2), sizeof *a->coefs);
}

void fy_activations_lay_out(fy_activations *a, const fy_hparams *hp, uint64_t n, uint64_t n_ff,
                            fy_layout *c)
{
    *a = (fy_activations){0};
    a->at = fy_lay_out(c, n, 1, sizeof *a->at);
    a->row = fy_lay_out(c, n < FY_TREE_MAX ? n : FY_TREE_MAX, 1, sizeof *a->row);
    a->x = fy_lay_out(c, n, hp->n_embd, sizeof *a->x);
    a->h = fy_lay_out(c, n, hp->n_embd, sizeof *a->h);
    a->branch = fy_lay_out(c, n, hp->n_embd, sizeof *a->branch);
    const fy_layer_shape most = fy_layer_shape_max(hp);
    const uint64_t n_kv = most.n_head_kv;
    a->q = fy_lay_out(c, n, (uint64_t)hp->n_head * most.head_dim, sizeof *a->q);
    a->k = fy_lay_out(c, n, n_kv * most.head_dim, sizeof *a->k);
    a->v = fy_lay_out(c, n, n_kv * most.head_dim_v, sizeof *a->v);
    a->att = fy_lay_out(c, n, (uint64_t)hp->n_head * most.head_dim_v, sizeof *a->att);
    a->gate = fy_lay_out(c, n, n_ff, sizeof *a->gate);
    a->up = fy_lay_out(c, n, n_ff, sizeof *a->up);
    a->neuron = fy_lay_out(c, 1, n_ff, sizeof *a->neuron);
    a->neurons = fy_lay_out(c, n, 1, sizeof *a->neurons);
    a->angles = fy_lay_out(c, n, hp->n_rot, sizeof *a->angles);
    if (hp->parallel)
        a->h_ffn = fy_lay_out(c, n, hp->n_embd, sizeof *a->h_ffn);
    if (hp->conv_len != 0) {
        a->bcx = fy_lay_out(c, n, 3 * (uint64_t)hp->n_embd, sizeof *a->bcx);
        a->mix_len = hp->n_embd;
    }
    if (hp->n_embd_pl != 0) {
        a->pl = fy_lay_out(c, n, fy_dim_of(hp, FY_D_PL_ALL), sizeof *a->pl);
        a->pl_row = fy_lay_out(c, 1, fy_dim_of(hp, FY_D_PL_ALL), sizeof *a->pl_row);
        a->pl_gate = fy_lay_out(c, n, hp->n_embd_pl, sizeof *a->pl_gate);
        a->pl_part = fy_lay_out(c, n, hp->n_embd_pl, sizeof *a->pl_part);
    }
    if (hp->ssm_inner != 0) {
        a->bcx = fy_lay_out(c, n, fy_dim_of(hp, FY_D_SSM_IN) + hp->ssm_heads, sizeof *a->bcx);
        a->mix_len = hp->ssm_inner;
    }
    if (a->mix_len != 0)
        a->mix = fy_lay_out(c, n, a->mix_len, sizeof *a->mix);
    if (hp->gated_heads)
        a->head_gate = fy_lay_out(c, n, hp->n_head, sizeof *a->head_gate);
    if (hp->gated_queries)
        a->gated_q = fy_lay_out(c, n, fy_dim_of(hp, FY_D_Q_2), sizeof *a->gated_q);
    if (hp->temp_scale != 0)
        a->angles_q = fy_lay_out(c, n, hp->n_rot, sizeof *a->angles_q);
    if (hp->rope_theta_swa != 0)
        a->angles_swa = fy_lay_out(c, n, fy_n_rot_swa(hp), sizeof *a->angles_swa);
    lay_out_streams(a, hp, n, c);
    lay_out_experts(&a->experts, hp, n, c);
    fy_time_mix_lay_out(&a->rwkv, hp, n, c);
    fy_latents_lay_out(&a->latents, hp, n, c);
}
