/* Any tiny model computed in double, token by token and head by head, without any of the engine's
 * parts: what the graph is held against. Which tensors there are, the family's rows say; what is
 * computed with them follows the families' papers. */
#ifndef FY_TESTS_BY_HAND_H
#define FY_TESTS_BY_HAND_H

#include "tests/unit/model/tiny_model.h"

enum { BY_HAND_T = 20, BY_HAND_DIM = 256, BY_HAND_LAYERS = 6 };

typedef struct {
    tiny_model *m;
    const fy_family *f;
    uint32_t n_ctx; /* of the session */
    double k[BY_HAND_LAYERS][BY_HAND_T][BY_HAND_DIM], v[BY_HAND_LAYERS][BY_HAND_T][BY_HAND_DIM];
    double hidden[BY_HAND_LAYERS + 1][BY_HAND_T][BY_HAND_DIM];
    double logits[BY_HAND_T][BY_HAND_DIM];
} by_hand;

static const fy_tensor_row *hand_row(const by_hand *h, fy_slot slot)
{
    for (size_t i = 0; i < h->f->n_rows; i++) {
        if (h->f->rows[i].slot == slot && tiny_has(h->m, &h->f->rows[i]))
            return &h->f->rows[i];
    }
    return NULL;
}

static bool hand_has(const by_hand *h, fy_slot slot)
{
    return hand_row(h, slot) != NULL;
}

/* Row `row` of a matrix, or a vector from element `row` on when it is fused; false: there is none.
 */
static bool hand_values(const by_hand *h, fy_slot slot, uint32_t layer, uint64_t row, uint32_t n,
                        float *out)
{
    static const struct {
        fy_slot part, whole;
        fy_dim before[2];
    } fused[] = {
        {FY_T_ATTN_Q, FY_T_ATTN_QKV, {0}},
        {FY_T_ATTN_K, FY_T_ATTN_QKV, {FY_D_Q}},
        {FY_T_ATTN_V, FY_T_ATTN_QKV, {FY_D_Q, FY_D_K}},
        {FY_T_ATTN_Q_B, FY_T_ATTN_QKV_B, {0}},
        {FY_T_ATTN_K_B, FY_T_ATTN_QKV_B, {FY_D_Q}},
        {FY_T_ATTN_V_B, FY_T_ATTN_QKV_B, {FY_D_Q, FY_D_K}},
        {FY_T_FFN_GATE, FY_T_FFN_GATE_UP, {0}},
        {FY_T_FFN_UP, FY_T_FFN_GATE_UP, {FY_D_FF}},
    };
    uint64_t first = 0;
    for (size_t i = 0; i < sizeof fused / sizeof fused[0] && !hand_has(h, slot); i++) {
        if (fused[i].part != slot || !hand_has(h, fused[i].whole))
            continue;
        slot = fused[i].whole;
        for (int d = 0; d < 2; d++)
            first += fy_dim_of(&h->m->hp, fused[i].before[d]);
    }
    const fy_tensor_row *r = hand_row(h, slot);
    if (r == NULL)
        return false;
    char name[FY_ROW_NAME_BYTES];
    float all[4 * BY_HAND_DIM];
    uint64_t ne[FY_GGUF_MAX_DIMS];
    const bool matrix = fy_row_shape(&h->m->hp, r, ne) > 1;
    fy_row_name(r->gguf, layer, name);
    if (matrix) {
        tiny_fill(name, true, first + row, n, out);
    } else { /* the size of the values depends on the length of the whole */
        tiny_fill(name, false, 0, ne[0], all);
        memcpy(out, all + first + row, n * sizeof *out);
    }
    return true;
}

/* The bias of a slot, or that of an expert: a row of those of all. */
static void hand_bias(const by_hand *h, fy_slot bias, uint32_t layer, uint64_t expert, uint32_t n,
                      double *y)
{
    float b[BY_HAND_DIM] = {0};
    if (bias != FY_T_COUNT)
        hand_values(h, bias, layer, expert, n, b);
    for (uint32_t i = 0; i < n; i++)
        y[i] += (double)b[i];
}

/* Rows [first, first + rows) of the slot times x, and the bias. */
static void hand_linear(const by_hand *h, double *y, const double *x, fy_slot slot, fy_slot bias,
                        uint32_t layer, uint64_t first, uint32_t rows, uint32_t cols)
{
    float row[BY_HAND_DIM], b[BY_HAND_DIM] = {0};
    if (bias != FY_T_COUNT)
        hand_values(h, bias, layer, 0, rows, b);
    for (uint32_t r = 0; r < rows; r++) {
        hand_values(h, slot, layer, first + r, cols, row);
        y[r] = (double)b[r];
        for (uint32_t c = 0; c < cols; c++)
            y[r] += (double)row[c] * x[c];
    }
}

/* y may be x; without weights y is x. */
static void hand_norm(const by_hand *h, double *y, const double *x, fy_slot slot, fy_slot bias,
                      uint32_t layer, uint32_t n, bool centred)
{
    float w[BY_HAND_DIM], b[BY_HAND_DIM] = {0};
    double mean = 0, sum = 0;
    const double eps = (double)(centred ? h->m->hp.norm_eps : h->m->hp.norm_rms_eps);
    const bool there = hand_values(h, slot, layer, 0, n, w);
    if (bias != FY_T_COUNT)
        hand_values(h, bias, layer, 0, n, b);
    for (uint32_t i = 0; i < n && centred; i++)
        mean += x[i] / n;
    for (uint32_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    for (uint32_t i = 0; i < n; i++)
        y[i] = there ? (x[i] - mean) / sqrt(sum / n + eps) * (double)w[i] + (double)b[i] : x[i];
}

static double hand_act(const by_hand *h, double x, double up, bool gated)
{
    const double pi = 3.14159265358979323846;
    double f = 0;
    switch (h->m->hp.act) {
    case FY_ACT_SILU:
        f = x / (1 + exp(-x));
        break;
    case FY_ACT_GELU:
        f = 0.5 * x * (1 + erf(x / sqrt(2)));
        break;
    case FY_ACT_GELU_TANH:
        f = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
        break;
    case FY_ACT_RELU:
        f = fmax(x, 0);
        break;
    case FY_ACT_FATRELU:
        f = x > (double)h->m->hp.act_threshold ? x : 0;
        break;
    case FY_ACT_DRELU:
        f = fmax(x, 0);
        up = fmax(up, 0);
        break;
    case FY_ACT_SWIGLU_OAI:
        x = fmin(x, 7);
        f = x / (1 + exp(-1.702 * x));
        up = 1 + fmax(fmin(up, 7), -7);
        break;
    case FY_ACT_RELU2:
        f = fmax(x, 0) * fmax(x, 0);
        break;
    case FY_ACT_COUNT:
        break;
    }
    return gated ? f * up : f;
}

static double hand_cap(double x, float cap)
{
    return cap != 0 ? (double)cap * tanh(x / (double)cap) : x;
}

/* --- attention ------------------------------------------------------------------------------ */

static bool hand_windowed(const by_hand *h, uint32_t layer)
{
    return h->m->hp.n_swa > 0 && !fy_layer_in(&h->m->hp.full_layers, layer);
}

static void hand_rotate(const by_hand *h, double *x, uint32_t layer, uint32_t pos)
{
    const fy_hparams *hp = &h->m->hp;
    const uint32_t n = hp->n_rot;
    const bool neox = h->f->rope == FY_ROPE_NEOX;
    const bool swa = hand_windowed(h, layer) && hp->rope_theta_swa != 0;
    float factors[BY_HAND_DIM];
    bool scaled = hand_values(h, h->n_ctx > hp->rope_orig_ctx ? FY_T_ROPE_LONG : FY_T_ROPE_SHORT, 0,
                              0, n / 2, factors);
    if (fy_layer_in(&hp->nope_layers, layer))
        return;
    for (uint32_t i = 0; i < n / 2; i++) {
        double rate = pow((double)(swa ? hp->rope_theta_swa : hp->rope_theta), -2.0 * i / n);
        double magnitude = swa ? 1 : (double)hp->rope_attn_factor;
        if (scaled && !swa)
            rate /= (double)factors[i];
        if (hp->rope_scaling == FY_ROPE_SCALING_LINEAR && !swa)
            rate /= (double)hp->rope_factor;
        double *p = neox ? &x[i] : &x[2 * i], *q = neox ? &x[i + n / 2] : &x[2 * i + 1];
        double c = *p * cos(pos * rate) - *q * sin(pos * rate),
               s = *p * sin(pos * rate) + *q * cos(pos * rate);
        *p = c * magnitude;
        *q = s * magnitude;
    }
}

static void hand_head(const by_hand *h, double *out, const double *q, uint32_t layer, uint32_t head,
                      uint32_t pos)
{
    const fy_hparams *hp = &h->m->hp;
    const uint32_t kv = head / (hp->n_head / hp->n_head_kv);
    const double scale = hp->attn_scale != 0 ? (double)hp->attn_scale : 1 / sqrt(hp->head_dim);
    double score[BY_HAND_T], largest = -1e300, total = 0;
    memset(out, 0, hp->head_dim_v * sizeof *out);
    for (uint32_t j = 0; j <= pos; j++) {
        score[j] = 0;
        for (uint32_t i = 0; i < hp->head_dim; i++)
            score[j] += q[i] * h->k[layer][j][kv * hp->head_dim + i] * scale;
        score[j] = hand_cap(score[j], hp->attn_softcap);
        if (hand_windowed(h, layer) && pos - j >= hp->n_swa)
            score[j] = -1e300;
        largest = fmax(largest, score[j]);
    }
    float sink[BY_HAND_DIM];
    if (hand_values(h, FY_T_ATTN_SINKS, layer, 0, hp->n_head, sink))
        total = exp((double)sink[head] - largest);
    for (uint32_t j = 0; j <= pos; j++)
        total += score[j] = exp(score[j] - largest);
    for (uint32_t j = 0; j <= pos; j++) {
        for (uint32_t i = 0; i < hp->head_dim_v; i++)
            out[i] += score[j] / total * h->v[layer][j][kv * hp->head_dim_v + i];
    }
}

/* RMS norm of the heads of q or k: of each, or of the whole vector. */
static void hand_head_norm(const by_hand *h, double *x, fy_slot slot, uint32_t layer, uint32_t n)
{
    const fy_tensor_row *r = hand_row(h, slot);
    const uint32_t len = r == NULL ? n : (uint32_t)fy_dim_of(&h->m->hp, r->dims[0]);
    for (uint32_t i = 0; i < n; i += len)
        hand_norm(h, x + i, x + i, slot, FY_T_COUNT, layer, len, false);
}

/* x / rms(x) * w, with the epsilon of latent attention. */
static void hand_latent_norm(const by_hand *h, double *x, fy_slot slot, uint32_t layer, uint32_t n)
{
    float w[BY_HAND_DIM];
    double sum = 0;
    hand_values(h, slot, layer, 0, n, w);
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < n; i++)
        x[i] *= (double)w[i] / sqrt(sum / n + 1e-6);
}

/* MiniCPM3Attention, before the rotation: one row of kv_b_proj after the other. */
static void hand_latent(const by_hand *h, double *q, double *k, double *v, const double *in,
                        uint32_t layer)
{
    const fy_hparams *hp = &h->m->hp;
    const uint32_t plain = hp->head_dim - hp->n_rot, each = plain + hp->head_dim_v;
    const fy_slot none = FY_T_COUNT;
    double c[BY_HAND_DIM], kv[4 * BY_HAND_DIM];
    hand_linear(h, c, in, FY_T_ATTN_Q_DOWN, none, layer, 0, hp->q_lora_rank, hp->n_embd);
    hand_latent_norm(h, c, FY_T_ATTN_Q_LATENT_NORM, layer, hp->q_lora_rank);
    hand_linear(h, q, c, FY_T_ATTN_Q_UP, none, layer, 0, hp->n_head * hp->head_dim,
                hp->q_lora_rank);
    hand_linear(h, c, in, FY_T_ATTN_KV_DOWN, none, layer, 0, hp->kv_lora_rank + hp->n_rot,
                hp->n_embd);
    hand_latent_norm(h, c, FY_T_ATTN_KV_LATENT_NORM, layer, hp->kv_lora_rank);
    hand_linear(h, kv, c, FY_T_ATTN_KV_UP, none, layer, 0, hp->n_head * each, hp->kv_lora_rank);
    for (uint32_t i = 0; i < hp->n_head; i++) {
        for (uint32_t j = 0; j < hp->head_dim; j++)
            k[i * hp->head_dim + j] =
                j < plain ? kv[i * each + j] : c[hp->kv_lora_rank + j - plain];
        for (uint32_t j = 0; j < hp->head_dim_v; j++)
            v[i * hp->head_dim_v + j] = kv[i * each + plain + j];
    }
}

static void hand_attention(by_hand *h, double *y, const double *in, uint32_t layer, uint32_t pos)
{
    const fy_hparams *hp = &h->m->hp;
    const uint32_t n_q = hp->n_head * hp->head_dim, n_k = hp->n_head_kv * hp->head_dim;
    double q[BY_HAND_DIM], att[BY_HAND_DIM], *k = h->k[layer][pos];
    const bool latent = hp->kv_lora_rank != 0;
    const uint32_t skipped = latent ? hp->head_dim - hp->n_rot : 0;
    if (latent) {
        hand_latent(h, q, k, h->v[layer][pos], in, layer);
    } else {
        hand_linear(h, q, in, FY_T_ATTN_Q, FY_T_ATTN_Q_B, layer, 0, n_q, hp->n_embd);
        hand_linear(h, k, in, FY_T_ATTN_K, FY_T_ATTN_K_B, layer, 0, n_k, hp->n_embd);
        hand_linear(h, h->v[layer][pos], in, FY_T_ATTN_V, FY_T_ATTN_V_B, layer, 0,
                    hp->n_head_kv * hp->head_dim_v, hp->n_embd);
    }
    hand_head_norm(h, q, FY_T_ATTN_Q_NORM, layer, n_q);
    hand_head_norm(h, k, FY_T_ATTN_K_NORM, layer, n_k);
    for (uint32_t i = 0; i < n_q; i += hp->head_dim)
        hand_rotate(h, q + i + skipped, layer, pos);
    for (uint32_t i = 0; i < n_k; i += hp->head_dim)
        hand_rotate(h, k + i + skipped, layer, pos);
    for (uint32_t i = 0; i < hp->n_head; i++)
        hand_head(h, att + i * hp->head_dim_v, q + i * hp->head_dim, layer, i, pos);
    hand_linear(h, y, att, FY_T_ATTN_OUT, FY_T_ATTN_OUT_B, layer, 0, hp->n_embd,
                hp->n_head * hp->head_dim_v);
    hand_norm(h, y, y, FY_T_ATTN_POST_NORM, FY_T_COUNT, layer, hp->n_embd, h->f->layer_norm);
}

/* --- feed-forward --------------------------------------------------------------------------- */

typedef struct {
    fy_slot gate, up, down;
    uint64_t expert;
    uint32_t n_ff;
} hand_net;

static void hand_ffn(const by_hand *h, double *y, const double *in, uint32_t layer, hand_net net)
{
    static const fy_slot none = FY_T_COUNT;
    const bool dense = net.up == FY_T_FFN_UP;
    const uint32_t d = h->m->hp.n_embd;
    const bool gated = hand_has(h, net.gate) || (dense && hand_has(h, FY_T_FFN_GATE_UP));
    double gate[BY_HAND_DIM], up[BY_HAND_DIM];
    const bool one_of_many = net.up == FY_T_FFN_UP_EXPS;
    if (gated)
        hand_linear(h, gate, in, net.gate, dense ? FY_T_FFN_GATE_B : none, layer,
                    net.expert * net.n_ff, net.n_ff, d);
    hand_linear(h, up, in, net.up, dense ? FY_T_FFN_UP_B : none, layer, net.expert * net.n_ff,
                net.n_ff, d);
    if (one_of_many) {
        hand_bias(h, FY_T_FFN_GATE_EXPS_B, layer, net.expert, net.n_ff, gate);
        hand_bias(h, FY_T_FFN_UP_EXPS_B, layer, net.expert, net.n_ff, up);
    }
    for (uint32_t i = 0; i < net.n_ff; i++)
        up[i] = hand_act(h, gated ? gate[i] : up[i], up[i], gated);
    hand_linear(h, y, up, net.down, dense ? FY_T_FFN_DOWN_B : none, layer, net.expert * d, d,
                net.n_ff);
    if (one_of_many)
        hand_bias(h, FY_T_FFN_DOWN_EXPS_B, layer, net.expert, d, y);
}

/* weight[e] is 0 for the experts that are not chosen. */
static void hand_route(const by_hand *h, double *weight, const double *in, uint32_t layer)
{
    const fy_hparams *hp = &h->m->hp;
    double logit[BY_HAND_DIM], all = 0, chosen = 0;
    hand_linear(h, logit, in, FY_T_FFN_ROUTER, FY_T_FFN_ROUTER_B, layer, 0, hp->n_expert,
                hp->n_embd);
    for (uint32_t e = 0; e < hp->n_expert; e++) {
        weight[e] = hp->gating == FY_GATING_SIGMOID ? 1 / (1 + exp(-logit[e])) : exp(logit[e]);
        all += weight[e];
    }
    for (uint32_t e = 0; e < hp->n_expert; e++) {
        uint32_t n_larger = 0;
        for (uint32_t other = 0; other < hp->n_expert; other++)
            n_larger += logit[other] > logit[e];
        if (n_larger >= hp->n_expert_used)
            weight[e] = 0;
        chosen += weight[e];
    }
    for (uint32_t e = 0; e < hp->n_expert; e++)
        weight[e] /= hp->expert_norm ? chosen : hp->gating == FY_GATING_SIGMOID ? 1 : all;
}

static void hand_experts(const by_hand *h, double *y, const double *in, const double *weight,
                         uint32_t layer)
{
    const fy_hparams *hp = &h->m->hp;
    double one[BY_HAND_DIM], share = 1;
    memset(y, 0, hp->n_embd * sizeof *y);
    for (uint32_t e = 0; e <= hp->n_expert; e++) {
        const bool shared = e == hp->n_expert;
        if (shared && hp->n_ff_shexp == 0)
            break;
        if (shared && hand_has(h, FY_T_FFN_SHEXP_ROUTER)) {
            float w[BY_HAND_DIM];
            double dot = 0;
            hand_values(h, FY_T_FFN_SHEXP_ROUTER, layer, 0, hp->n_embd, w);
            for (uint32_t i = 0; i < hp->n_embd; i++)
                dot += (double)w[i] * in[i];
            share = 1 / (1 + exp(-dot));
        }
        hand_ffn(h, one, in, layer,
                 shared ? (hand_net){FY_T_FFN_GATE_SHEXP, FY_T_FFN_UP_SHEXP, FY_T_FFN_DOWN_SHEXP, 0,
                                     hp->n_ff_shexp}
                        : (hand_net){FY_T_FFN_GATE_EXPS, FY_T_FFN_UP_EXPS, FY_T_FFN_DOWN_EXPS, e,
                                     hp->n_ff_exp});
        for (uint32_t i = 0; i < hp->n_embd; i++)
            y[i] += (shared ? share : weight[e]) * one[i];
    }
}

/* --- the whole ------------------------------------------------------------------------------ */

static void hand_layer(by_hand *h, double *x, uint32_t layer, uint32_t pos)
{
    const fy_hparams *hp = &h->m->hp;
    const uint32_t d = hp->n_embd;
    const bool ln = h->f->layer_norm;
    double entry[BY_HAND_DIM], in[BY_HAND_DIM], y[BY_HAND_DIM], weight[BY_HAND_DIM];
    memcpy(entry, x, d * sizeof *x);
    if (hand_has(h, FY_T_ATTN_NORM_2))
        hand_norm(h, in, x, FY_T_ATTN_NORM_2, FY_T_ATTN_NORM_2_B, layer, d, ln);
    else
        hand_norm(h, in, x, FY_T_ATTN_NORM, FY_T_ATTN_NORM_B, layer, d, ln);
    hand_attention(h, y, in, layer, pos);
    for (uint32_t i = 0; i < d; i++)
        x[i] += (double)hp->residual_scale * y[i];

    const bool own = hand_has(h, FY_T_FFN_NORM);
    hand_norm(h, in, hp->parallel ? entry : x,
              hp->parallel && !own ? FY_T_ATTN_NORM : FY_T_FFN_NORM,
              hp->parallel && !own ? FY_T_ATTN_NORM_B : FY_T_FFN_NORM_B, layer, d, ln);
    if (hp->n_expert > 0) {
        hand_route(h, weight, h->f->early_router ? entry : in, layer);
        hand_experts(h, y, in, weight, layer);
    } else {
        hand_ffn(h, y, in, layer,
                 (hand_net){FY_T_FFN_GATE, FY_T_FFN_UP, FY_T_FFN_DOWN, 0, hp->n_ff});
    }
    hand_norm(h, y, y, FY_T_FFN_POST_NORM, FY_T_COUNT, layer, d, ln);
    for (uint32_t i = 0; i < d; i++)
        x[i] += (double)hp->residual_scale * y[i];
}

static void hand_compute(by_hand *h, const int32_t *ids)
{
    const fy_hparams *hp = &h->m->hp;
    for (uint32_t pos = 0; pos < BY_HAND_T; pos++) {
        float row[BY_HAND_DIM], place[BY_HAND_DIM] = {0};
        double x[BY_HAND_DIM] = {0}, n[BY_HAND_DIM];
        hand_values(h, FY_T_TOKEN_EMBD, 0, (uint64_t)ids[pos], hp->n_embd, row);
        hand_values(h, FY_T_POSITION_EMBD, 0, pos, hp->n_embd, place);
        for (uint32_t i = 0; i < hp->n_embd; i++)
            x[i] = (double)row[i] * (double)hp->embedding_scale + (double)place[i];
        memcpy(h->hidden[0][pos], x, sizeof x);
        for (uint32_t layer = 0; layer < hp->n_layer; layer++) {
            hand_layer(h, x, layer, pos);
            memcpy(h->hidden[layer + 1][pos], x, sizeof x);
        }
        hand_norm(h, n, x, FY_T_OUTPUT_NORM, FY_T_OUTPUT_NORM_B, 0, hp->n_embd, h->f->layer_norm);
        hand_linear(h, h->logits[pos], n, h->m->tied ? FY_T_TOKEN_EMBD : FY_T_OUTPUT, FY_T_OUTPUT_B,
                    0, 0, hp->n_vocab, hp->n_embd);
        for (uint32_t id = 0; id < hp->n_vocab; id++)
            h->logits[pos][id] =
                hand_cap(h->logits[pos][id] / (double)hp->logit_scale, hp->logit_softcap);
    }
}

#endif
