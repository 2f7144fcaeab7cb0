/* x = scale_embd E[ids] (+ P[pos])
 * for each layer:  h = norm(x)
 *                  x += scale post(Wo attention(rope(Wq h), rope(Wk h), Wv h))
 *                  h = norm(x), in a parallel block of the x before attention
 *                  x += scale post(Wdown (f(Wgate h) * Wup h))
 * logits = cap((Wout norm(x) + b) / scale_logit)
 * What a family does not have (a norm, a bias, a scale, the gate) is left out.
 *
 * Of the last layer, a token whose logits nobody asks for leaves only its keys and values. */
#include "model/forward.h"

#include <math.h>
#include <string.h>

#include "base/progress.h"

static fy_product product(const fy_weights *l, fy_slot w, fy_slot bias, float *y, float *sum)
{
    return (fy_product){.w = &l->w[w], .bias = fy_vector(l, bias), .y = y, .sum = sum};
}

/* y = norm(x) as the family norms the residual stream. */
static void norm_rows(fy_session *s, const float *w, const float *bias, float *y, const float *x,
                      uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const bool centred = s->model->family->layer_norm;
    const fy_norm norm = {
        .w = w, .bias = bias, .eps = centred ? hp->norm_eps : hp->norm_rms_eps, .centred = centred};
    fy_backend_norm(s->backend, y, x, &norm, n, hp->n_embd);
}

/* What a block reads: the residual stream, normed into `to` where the family does. */
static const float *normed_stream(fy_session *s, const fy_weights *l, fy_slot w, fy_slot bias,
                                  float *to, uint32_t n)
{
    if (!fy_bound(l, w))
        return s->act.x;
    norm_rows(s, fy_vector(l, w), fy_vector(l, bias), to, s->act.x, n);
    return to;
}

/* x += scale post(branch) */
static void add_branch(fy_session *s, const fy_weights *l, fy_slot post, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    fy_activations *a = &s->act;
    if (fy_bound(l, post))
        norm_rows(s, fy_vector(l, post), NULL, a->branch, a->branch, n);
    fy_backend_add(s->backend, a->x, a->branch, hp->residual_scale, (int64_t)n * hp->n_embd);
}

/* x += scale post(W in + b): in one step when there is nothing between product and sum. */
static void add_product(fy_session *s, const fy_weights *l, fy_slot w, fy_slot bias, fy_slot post,
                        const float *in, uint32_t n)
{
    fy_activations *a = &s->act;
    const bool direct = !fy_bound(l, post) && s->model->hp.residual_scale == 1;
    fy_product p = product(l, w, bias, a->branch, direct ? a->x : NULL);
    fy_backend_matmul(s->backend, in, n, &p, 1);
    if (!direct)
        add_branch(s, l, post, n);
}

/* --- attention ------------------------------------------------------------------------------ */

static bool is_windowed(const fy_hparams *hp, uint32_t layer)
{
    return hp->n_swa > 0 && !fy_layer_in(&hp->full_layers, layer);
}

/* RMS norm of each head, or of the whole vector: as long as the weights are. */
static void norm_heads(fy_session *s, const fy_weights *l, fy_slot slot, float *x, int64_t n_elems)
{
    if (!fy_bound(l, slot))
        return;
    const int64_t len = l->w[slot].n_cols;
    const fy_norm norm = {.w = fy_vector(l, slot), .eps = s->model->hp.norm_rms_eps};
    fy_backend_norm(s->backend, x, x, &norm, n_elems / len, len);
}

/* Turns the heads of x by their position. */
static void rotate(fy_session *s, uint32_t layer, float *x, int64_t n_heads, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    fy_activations *a = &s->act;
    if (hp->n_rot == 0 || fy_layer_in(&hp->nope_layers, layer))
        return;
    const fy_rotation r = {.n_heads = n_heads,
                           .head_dim = hp->head_dim,
                           .n_rot = hp->n_rot,
                           .interleaved = s->model->family->rope == FY_ROPE_NORM,
                           .angles = is_windowed(hp, layer) && a->angles_swa != NULL ? a->angles_swa
                                                                                     : a->angles};
    fy_backend_rotate(s->backend, x, n, &r);
}

/* What a pass of tokens through a layer computes. */
typedef enum {
    KEYS = 1,    /* and values: into the cache */
    QUERIES = 2, /* and all that follows from them */
    WHOLE = KEYS | QUERIES,
} layer_part;

static void project(fy_session *s, uint32_t layer, layer_part part, const float *h, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_weights *l = &s->model->layers[layer];
    fy_activations *a = &s->act;
    const int n_queries = part & QUERIES ? 1 : 0, n_keys = part & KEYS ? 2 : 0;
    fy_product qkv[] = {
        product(l, FY_T_ATTN_Q, FY_T_ATTN_Q_B, a->q, NULL), /* [n][n_head][head_dim] */
        product(l, FY_T_ATTN_K, FY_T_ATTN_K_B, a->k, NULL), /* [n][n_head_kv][head_dim] */
        product(l, FY_T_ATTN_V, FY_T_ATTN_V_B, a->v, NULL), /* [n][n_head_kv][head_dim_v] */
    };
    fy_backend_matmul(s->backend, h, n, qkv + 1 - n_queries, n_queries + n_keys);
    if (part & QUERIES) {
        norm_heads(s, l, FY_T_ATTN_Q_NORM, a->q, n * qkv[0].w->n_rows);
        rotate(s, layer, a->q, hp->n_head, n);
    }
    if (part & KEYS) {
        const fy_kv_layer kv = fy_kv_at(&s->kv, layer);
        norm_heads(s, l, FY_T_ATTN_K_NORM, a->k, n * qkv[1].w->n_rows);
        rotate(s, layer, a->k, hp->n_head_kv, n);
        fy_backend_store(s->backend, &kv, a->k, a->v, a->at, n);
    }
}

/* part: WHOLE, or QUERIES of keys that are in the cache. */
static void attention_block(fy_session *s, uint32_t layer, layer_part part, const float *h,
                            uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_weights *l = &s->model->layers[layer];
    fy_activations *a = &s->act;
    project(s, layer, part, h, n);
    fy_kv_layer kv = fy_kv_at(&s->kv, layer);
    fy_attention att = {.kv = &kv,
                        .at = a->at,
                        .n_head = hp->n_head,
                        .n_swa = is_windowed(hp, layer) ? hp->n_swa : 0,
                        .scale = hp->attn_scale != 0 ? hp->attn_scale
                                                     : 1.0f / sqrtf((float)hp->head_dim),
                        .cap = hp->attn_softcap};
    fy_backend_attend(s->backend, a->att, a->q, n, &att); /* [n][n_head][head_dim_v] */
    add_product(s, l, FY_T_ATTN_OUT, FY_T_ATTN_OUT_B, FY_T_ATTN_POST_NORM, a->att, n);
}

/* --- feed-forward --------------------------------------------------------------------------- */

/* gate = f(Wgate h) * Wup h, or f(Wup h) without a gate. */
static void gated_product(fy_session *s, const fy_weights *l, const float *h, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_activation f = {hp->act, hp->act_threshold};
    fy_activations *a = &s->act;
    const bool gated = fy_bound(l, FY_T_FFN_GATE);
    fy_product gate_up[] = {
        product(l, FY_T_FFN_UP, FY_T_FFN_UP_B, gated ? a->up : a->gate, NULL), /* [n][n_ff] */
        product(l, FY_T_FFN_GATE, FY_T_FFN_GATE_B, a->gate, NULL),
    };
    fy_backend_matmul(s->backend, h, n, gate_up, gated ? 2 : 1);
    fy_backend_activate(s->backend, &f, a->gate, gated ? a->up : NULL, n, gate_up[0].w->n_rows);
}

static void ffn_block(fy_session *s, uint32_t layer, const float *h, uint32_t n)
{
    const fy_weights *l = &s->model->layers[layer];
    fy_activations *a = &s->act;
    if (!fy_bound(l, FY_T_FFN_ROUTER)) {
        gated_product(s, l, h, n);
        add_product(s, l, FY_T_FFN_DOWN, FY_T_FFN_DOWN_B, FY_T_FFN_POST_NORM, a->gate, n);
        return;
    }
    const fy_hparams *hp = &s->model->hp;
    if (!s->model->family->early_router)
        fy_moe_route(s->backend, hp, l, &a->experts, h, n);
    fy_moe_ffn(s->backend, hp, l, &a->experts, h, a->gate, a->up, a->branch, n);
    add_branch(s, l, FY_T_FFN_POST_NORM, n);
}

/* --- layers --------------------------------------------------------------------------------- */

/* Does attention read through a norm of its own, next to the one of the parallel block? */
static bool has_two_norms(const fy_session *s, const fy_weights *l)
{
    return s->model->hp.parallel && fy_bound(l, FY_T_ATTN_NORM_2);
}

static const float *attention_input(fy_session *s, const fy_weights *l, uint32_t n)
{
    float *to = s->act.h;
    return has_two_norms(s, l) ? normed_stream(s, l, FY_T_ATTN_NORM_2, FY_T_ATTN_NORM_2_B, to, n)
                               : normed_stream(s, l, FY_T_ATTN_NORM, FY_T_ATTN_NORM_B, to, n);
}

/* Attention and feed-forward network read the same x, each through its own norm or both through
 * one. */
static void parallel_block(fy_session *s, uint32_t layer, layer_part part, uint32_t n)
{
    const fy_weights *l = &s->model->layers[layer];
    fy_activations *a = &s->act;
    const float *h = attention_input(s, l, n), *h_ffn = h;
    if (fy_bound(l, FY_T_FFN_NORM))
        h_ffn = normed_stream(s, l, FY_T_FFN_NORM, FY_T_FFN_NORM_B, a->h_ffn, n);
    else if (has_two_norms(s, l))
        h_ffn = normed_stream(s, l, FY_T_ATTN_NORM, FY_T_ATTN_NORM_B, a->h_ffn, n);
    attention_block(s, layer, part, h, n);
    ffn_block(s, layer, h_ffn, n);
}

static void sequential_block(fy_session *s, uint32_t layer, layer_part part, uint32_t n)
{
    const fy_weights *l = &s->model->layers[layer];
    attention_block(s, layer, part, attention_input(s, l, n), n);
    ffn_block(s, layer, normed_stream(s, l, FY_T_FFN_NORM, FY_T_FFN_NORM_B, s->act.h, n), n);
}

static void compute_layer(fy_session *s, uint32_t layer, layer_part part, uint32_t n)
{
    const fy_weights *l = &s->model->layers[layer];
    fy_activations *a = &s->act;
    if (s->model->family->early_router)
        fy_moe_route(s->backend, &s->model->hp, l, &a->experts, a->x, n);
    if (s->model->hp.parallel)
        parallel_block(s, layer, part, n);
    else
        sequential_block(s, layer, part, n);
}

/* --- the whole ------------------------------------------------------------------------------ */

static void embed(fy_session *s, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_weights *w = &s->model->once;
    fy_activations *a = &s->act;
    const int64_t n_elems = (int64_t)n * hp->n_embd;
    fy_backend_embed(s->backend, a->x, &w->w[FY_T_TOKEN_EMBD], a->ids, n);
    if (hp->embedding_scale != 1)
        fy_backend_scale(s->backend, a->x, hp->embedding_scale, n_elems);
    if (!fy_bound(w, FY_T_POSITION_EMBD))
        return;
    fy_backend_embed(s->backend, a->branch, &w->w[FY_T_POSITION_EMBD], a->pos, n);
    fy_backend_add(s->backend, a->x, a->branch, 1, n_elems);
}

/* How the heads of the tokens are turned where they stand. */
static void find_angles(fy_session *s, uint32_t n)
{
    fy_activations *a = &s->act;
    const uint32_t n_rot = s->model->hp.n_rot;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t pos = (uint32_t)a->pos[i];
        fy_rope_angles(&s->rope, pos, a->angles + (size_t)i * n_rot);
        if (a->angles_swa != NULL)
            fy_rope_angles(&s->rope_swa, pos, a->angles_swa + (size_t)i * n_rot);
    }
}

/* The batch becomes its wanted tokens. They are in ascending order: a row never moves over one that
 * is still to move. */
static void keep_wanted(fy_session *s, uint32_t n_wanted)
{
    fy_activations *a = &s->act;
    const size_t len = s->model->hp.n_embd;
    for (uint32_t i = 0; i < n_wanted; i++) {
        const size_t row = (size_t)a->wanted[i];
        a->at[i] = a->at[row];
        a->pos[i] = a->pos[row];
        memmove(a->x + i * len, a->x + row * len, len * sizeof *a->x);
    }
}

/* Every token is seen by those behind it, but goes on only when it is wanted. */
static void compute_last_layer(fy_session *s, uint32_t layer, uint32_t n, uint32_t n_wanted)
{
    if (n_wanted == n) {
        compute_layer(s, layer, WHOLE, n);
        return;
    }
    project(s, layer, KEYS, attention_input(s, &s->model->layers[layer], n), n);
    if (n_wanted == 0)
        return;
    keep_wanted(s, n_wanted);
    find_angles(s, n_wanted);
    compute_layer(s, layer, QUERIES, n_wanted);
}

static int show_hidden(fy_session *s, uint32_t layer, uint32_t n, uint32_t first,
                       const fy_eval_sinks *sinks, fy_err *e)
{
    if (sinks == NULL || sinks->hidden == NULL)
        return 0;
    return sinks->hidden(sinks->user, layer, s->act.x, first, n, e);
}

int fy_forward(fy_session *s, uint32_t n, uint32_t n_wanted, uint32_t first,
               const fy_eval_sinks *sinks, fy_err *e)
{
    const uint32_t n_layer = s->model->hp.n_layer;
    const bool shown = sinks != NULL && sinks->hidden != NULL;
    find_angles(s, n);
    embed(s, n);
    for (uint32_t layer = 0; layer < n_layer; layer++) {
        if (fy_check_interrupt(e) != 0 || show_hidden(s, layer, n, first, sinks, e) != 0)
            return -1;
        if (layer + 1 == n_layer && !shown)
            compute_last_layer(s, layer, n, n_wanted);
        else
            compute_layer(s, layer, WHOLE, n);
    }
    if (!shown)
        return 0;
    if (show_hidden(s, n_layer, n, first, sinks, e) != 0)
        return -1;
    keep_wanted(s, n_wanted);
    return 0;
}

void fy_forward_logits(fy_session *s, uint32_t first, uint32_t n, float *logits)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_weights *w = &s->model->once;
    float *h = s->act.h;
    const int64_t n_elems = (int64_t)n * hp->n_vocab;
    norm_rows(s, fy_vector(w, FY_T_OUTPUT_NORM), fy_vector(w, FY_T_OUTPUT_NORM_B), h,
              s->act.x + (size_t)first * hp->n_embd, n);
    fy_product out = {.w = s->model->output, .bias = fy_vector(w, FY_T_OUTPUT_B), .y = logits};
    fy_backend_matmul(s->backend, h, n, &out, 1); /* [n][n_vocab] */
    if (hp->logit_scale != 1)
        fy_backend_scale(s->backend, logits, 1 / hp->logit_scale, n_elems);
    if (hp->logit_softcap != 0)
        fy_backend_softcap(s->backend, logits, hp->logit_softcap, n_elems);
}
