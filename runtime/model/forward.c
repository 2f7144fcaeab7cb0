/* x = E[ids]
 * for each layer:  x += Wo attention(rope(Wq h), rope(Wk h), Wv h)    h = rms(x) * attn_norm
 *                  x += Wdown (silu(Wgate h) * Wup h)                 h = rms(x) * ffn_norm
 * logits = Wout (rms(x) * output_norm) */
#include "model/forward.h"

#include <math.h>

#include "base/progress.h"

static fy_product product(const fy_weights *l, fy_slot w, fy_slot bias, float *y, float *sum)
{
    return (fy_product){.w = &l->w[w], .bias = fy_vector(l, bias), .y = y, .sum = sum};
}

/* Norms each head of q and k, where the family does, and turns them by their position. */
static void place_heads(fy_session *s, const fy_weights *l, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    fy_activations *a = &s->act;
    const float *q_norm = fy_vector(l, FY_T_ATTN_Q_NORM), *k_norm = fy_vector(l, FY_T_ATTN_K_NORM);
    if (q_norm != NULL)
        fy_backend_norm(s->backend, a->q, a->q, q_norm, (int64_t)n * hp->n_head, hp->head_dim,
                        hp->norm_rms_eps);
    if (k_norm != NULL)
        fy_backend_norm(s->backend, a->k, a->k, k_norm, (int64_t)n * hp->n_head_kv, hp->head_dim,
                        hp->norm_rms_eps);
    fy_rotation r = {.n_heads = hp->n_head,
                     .head_dim = hp->head_dim,
                     .n_rot = hp->n_rot,
                     .interleaved = s->model->family->rope == FY_ROPE_NORM,
                     .angles = a->angles};
    fy_backend_rotate(s->backend, a->q, n, &r);
    r.n_heads = hp->n_head_kv;
    fy_backend_rotate(s->backend, a->k, n, &r);
}

static void attention_block(fy_session *s, uint32_t layer, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_weights *l = &s->model->layers[layer];
    fy_activations *a = &s->act;
    fy_backend_norm(s->backend, a->h, a->x, fy_vector(l, FY_T_ATTN_NORM), n, hp->n_embd,
                    hp->norm_rms_eps);
    fy_product qkv[] = {
        product(l, FY_T_ATTN_Q, FY_T_ATTN_Q_B, a->q, NULL), /* [n][n_head][head_dim] */
        product(l, FY_T_ATTN_K, FY_T_ATTN_K_B, a->k, NULL), /* [n][n_head_kv][head_dim] */
        product(l, FY_T_ATTN_V, FY_T_ATTN_V_B, a->v, NULL), /* [n][n_head_kv][head_dim_v] */
    };
    fy_backend_matmul(s->backend, a->h, n, qkv, 3);
    place_heads(s, l, n);

    fy_kv_layer kv = fy_kv_at(&s->kv, layer);
    fy_backend_store(s->backend, &kv, a->k, a->v, s->n_past, n);
    fy_attention att = {.kv = &kv,
                        .n_head = hp->n_head,
                        .pos = s->n_past,
                        .n_swa = hp->n_swa,
                        .scale = 1.0f / sqrtf((float)hp->head_dim)};
    fy_backend_attend(s->backend, a->att, a->q, n, &att); /* [n][n_head][head_dim_v] */

    fy_product out = product(l, FY_T_ATTN_OUT, FY_T_ATTN_OUT_B, a->branch, a->x);
    fy_backend_matmul(s->backend, a->att, n, &out, 1);
}

static void ffn_block(fy_session *s, uint32_t layer, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_weights *l = &s->model->layers[layer];
    fy_activations *a = &s->act;
    fy_backend_norm(s->backend, a->h, a->x, fy_vector(l, FY_T_FFN_NORM), n, hp->n_embd,
                    hp->norm_rms_eps);
    fy_product gate_up[] = {
        product(l, FY_T_FFN_GATE, FY_T_FFN_GATE_B, a->gate, NULL), /* [n][n_ff] */
        product(l, FY_T_FFN_UP, FY_T_FFN_UP_B, a->up, NULL),
    };
    fy_backend_matmul(s->backend, a->h, n, gate_up, 2);
    fy_backend_gate(s->backend, a->gate, a->up, n, hp->n_ff);
    fy_product down = product(l, FY_T_FFN_DOWN, FY_T_FFN_DOWN_B, a->branch, a->x);
    fy_backend_matmul(s->backend, a->gate, n, &down, 1);
}

static int show_hidden(fy_session *s, uint32_t layer, uint32_t n, const fy_eval_sinks *sinks,
                       fy_err *e)
{
    if (sinks == NULL || sinks->hidden == NULL)
        return 0;
    return sinks->hidden(sinks->user, layer, s->act.x, s->n_past, n, e);
}

int fy_forward(fy_session *s, const int32_t *ids, uint32_t n, const fy_eval_sinks *sinks, fy_err *e)
{
    const fy_hparams *hp = &s->model->hp;
    for (uint32_t i = 0; i < n; i++)
        fy_rope_angles(&s->rope, s->n_past + i, s->act.angles + (size_t)i * hp->n_rot);
    fy_backend_embed(s->backend, s->act.x, &s->model->once.w[FY_T_TOKEN_EMBD], ids, n);
    for (uint32_t layer = 0; layer < hp->n_layer; layer++) {
        if (fy_check_interrupt(e) != 0 || show_hidden(s, layer, n, sinks, e) != 0)
            return -1;
        attention_block(s, layer, n);
        ffn_block(s, layer, n);
    }
    return show_hidden(s, hp->n_layer, n, sinks, e);
}

void fy_forward_logits(fy_session *s, uint32_t first, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    fy_activations *a = &s->act;
    const float *norm = fy_vector(&s->model->once, FY_T_OUTPUT_NORM);
    fy_backend_norm(s->backend, a->h, a->x + (size_t)first * hp->n_embd, norm, n, hp->n_embd,
                    hp->norm_rms_eps);
    fy_product out = {.w = s->model->output, .y = a->logits}; /* [n][n_vocab] */
    fy_backend_matmul(s->backend, a->h, n, &out, 1);
}
