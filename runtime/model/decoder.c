/* for each layer:  h = norm(x)
 *                  x += scale post(Wo attention(rope(Wq h), rope(Wk h), Wv h))
 *                  h = norm(x), in a parallel block of the x before attention
 *                  x += scale post(Wdown (f(Wgate h) * Wup h))
 * logits = Wout norm(x) + b
 * What a family does not have (a norm, a bias, a scale, the gate) is left out. */
#include "model/decoder.h"

#include "arch/graph_io.h"

static fy_product product(const fy_weights *l, fy_slot w, fy_slot bias, float *y, float *sum)
{
    return (fy_product){.w = &l->w[w], .bias = fy_vector(l, bias), .y = y, .sum = sum};
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

/* x += scale post(W in + b): in one step when there is nothing between product and sum. */
static void add_product(fy_decoder *d, const fy_weights *l, fy_slot w, fy_slot bias, fy_slot post,
                        const float *in, uint32_t n)
{
    fy_activations *a = &d->act;
    const bool direct = !fy_bound(l, post) && d->model->hp.residual_scale == 1;
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

/* Rotates the heads of x by their position. */
static void rotate(fy_decoder *d, uint32_t layer, float *x, int64_t n_heads, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    fy_activations *a = &d->act;
    if (!fy_layer_rotates(hp, layer))
        return;
    const fy_rotation r = {.n_heads = n_heads,
                           .head_dim = hp->head_dim,
                           .n_rot = hp->n_rot,
                           .interleaved = d->model->family->rope == FY_ROPE_NORM,
                           .angles = fy_layer_has_window(hp, layer) && a->angles_swa != NULL
                                         ? a->angles_swa
                                         : a->angles};
    fy_backend_rotate(d->backend, x, n, &r);
}

static void project(fy_decoder *d, uint32_t layer, fy_layer_part part, const float *h, uint32_t n)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    const int n_queries = part & FY_QUERIES ? 1 : 0, n_keys = part & FY_KEYS ? 2 : 0;
    fy_product qkv[] = {
        product(l, FY_T_ATTN_Q, FY_T_ATTN_Q_B, a->q, NULL), /* [n][n_head][head_dim] */
        product(l, FY_T_ATTN_K, FY_T_ATTN_K_B, a->k, NULL), /* [n][n_head_kv][head_dim] */
        product(l, FY_T_ATTN_V, FY_T_ATTN_V_B, a->v, NULL), /* [n][n_head_kv][head_dim_v] */
    };
    fy_backend_matmul(d->backend, h, n, qkv + 1 - n_queries, n_queries + n_keys);
    if (part & FY_QUERIES) {
        norm_heads(d, l, FY_T_ATTN_Q_NORM, a->q, n * qkv[0].w->n_rows);
        rotate(d, layer, a->q, hp->n_head, n);
    }
    if (part & FY_KEYS) {
        norm_heads(d, l, FY_T_ATTN_K_NORM, a->k, n * qkv[1].w->n_rows);
        rotate(d, layer, a->k, hp->n_head_kv, n);
        fy_backend_store(d->backend, &d->kv, a->k, a->v, a->at, n);
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
                        .n_head = hp->n_head,
                        .n_swa = window ? hp->n_swa : 0,
                        .scale = fy_attn_scale(hp),
                        .cap = hp->attn_softcap};
    fy_backend_attend(d->backend, a->att, a->q, n, &att); /* [n][n_head][head_dim_v] */
    add_product(d, l, FY_T_ATTN_OUT, FY_T_ATTN_OUT_B, FY_T_ATTN_POST_NORM, a->att, n);
}

/* --- feed-forward --------------------------------------------------------------------------- */

/* gate = f(Wgate h) * Wup h, or f(Wup h) without a gate. */
static void gated_product(fy_decoder *d, const fy_weights *l, const float *h, uint32_t n)
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
    fy_backend_activate(d->backend, &f, a->gate, gated ? a->up : NULL, n, gate_up[0].w->n_rows);
}

static void ffn_block(fy_decoder *d, uint32_t layer, const float *h, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    if (!fy_bound(l, FY_T_FFN_ROUTER)) {
        gated_product(d, l, h, n);
        add_product(d, l, FY_T_FFN_DOWN, FY_T_FFN_DOWN_B, FY_T_FFN_POST_NORM, a->gate, n);
        return;
    }
    const fy_hparams *hp = &d->model->hp;
    if (!d->model->family->early_router)
        fy_moe_route(d->backend, hp, l, &a->experts, h, n);
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
    attention_block(d, layer, part, h, n);
    ffn_block(d, layer, h_ffn, n);
}

static void sequential_block(fy_decoder *d, uint32_t layer, fy_layer_part part, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    attention_block(d, layer, part, attention_input(d, l, n), n);
    ffn_block(d, layer, normed_stream(d, l, FY_T_FFN_NORM, FY_T_FFN_NORM_B, d->act.h, n), n);
}

void fy_decoder_layer(fy_decoder *d, uint32_t layer, const fy_kv_layer *kv, fy_layer_part part,
                      uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    d->kv = *kv;
    if (part == FY_KEYS) {
        project(d, layer, part, attention_input(d, l, n), n);
        return;
    }
    if (d->model->family->early_router)
        fy_moe_route(d->backend, &d->model->hp, l, &a->experts, a->x, n);
    if (d->model->hp.parallel)
        parallel_block(d, layer, part, n);
    else
        sequential_block(d, layer, part, n);
}

void fy_decoder_head(fy_decoder *d, const float *x, uint32_t n, float *logits)
{
    const fy_weights *w = &d->model->once;
    float *h = d->act.h;
    norm_rows(d, fy_vector(w, FY_T_OUTPUT_NORM), fy_vector(w, FY_T_OUTPUT_NORM_B), h, x, n);
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
    m->choice = fy_lay_out(c, n, used, sizeof *m->choice);
    m->choice_weight = fy_lay_out(c, n, used, sizeof *m->choice_weight);
    m->first = fy_lay_out(c, 1, hp->n_expert + 1, sizeof *m->first);
    m->token = fy_lay_out(c, n, used, sizeof *m->token);
    m->token_weight = fy_lay_out(c, n, used, sizeof *m->token_weight);
    m->shared_weight = fy_lay_out(c, n, 1, sizeof *m->shared_weight);
    m->rows = fy_lay_out(c, n, hp->n_embd, sizeof *m->rows);
    if (n * used > INT32_MAX) /* what `first` counts; both factors fit 31 bits */
        c->overflow = true;
}

void fy_activations_lay_out(fy_activations *a, const fy_hparams *hp, uint64_t n, uint64_t n_ff,
                            fy_layout *c)
{
    *a = (fy_activations){0};
    a->at = fy_lay_out(c, n, 1, sizeof *a->at);
    a->x = fy_lay_out(c, n, hp->n_embd, sizeof *a->x);
    a->h = fy_lay_out(c, n, hp->n_embd, sizeof *a->h);
    a->branch = fy_lay_out(c, n, hp->n_embd, sizeof *a->branch);
    a->q = fy_lay_out(c, n, fy_dim_of(hp, FY_D_Q), sizeof *a->q);
    a->k = fy_lay_out(c, n, fy_dim_of(hp, FY_D_K), sizeof *a->k);
    a->v = fy_lay_out(c, n, fy_dim_of(hp, FY_D_V), sizeof *a->v);
    a->att = fy_lay_out(c, n, fy_dim_of(hp, FY_D_QV), sizeof *a->att);
    a->gate = fy_lay_out(c, n, n_ff, sizeof *a->gate);
    a->up = fy_lay_out(c, n, n_ff, sizeof *a->up);
    a->angles = fy_lay_out(c, n, hp->n_rot, sizeof *a->angles);
    if (hp->parallel)
        a->h_ffn = fy_lay_out(c, n, hp->n_embd, sizeof *a->h_ffn);
    if (hp->rope_theta_swa != 0)
        a->angles_swa = fy_lay_out(c, n, hp->n_rot, sizeof *a->angles_swa);
    lay_out_experts(&a->experts, hp, n, c);
}
