/* A mixture of experts: routing, and the feed-forward networks of the chosen experts. */
#include "model/decoder.h"

#include <string.h>

/* --- choosing ------------------------------------------------------------------------------- */

/* The n_expert_used largest scores, heaviest first. */
static void pick_largest(const fy_hparams *hp, const float *score, int32_t *choice)
{
    uint32_t n = 0;
    for (uint32_t e = 0; e < hp->n_expert; e++) {
        if (n == hp->n_expert_used && !(score[e] > score[choice[n - 1]]))
            continue;
        uint32_t at = n < hp->n_expert_used ? n++ : n - 1;
        for (; at > 0 && score[e] > score[choice[at - 1]]; at--)
            choice[at] = choice[at - 1];
        choice[at] = (int32_t)e;
    }
}

static void sort_ascending(int32_t *v, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        int32_t moved = v[i];
        uint32_t at = i;
        for (; at > 0 && v[at - 1] > moved; at--)
            v[at] = v[at - 1];
        v[at] = moved;
    }
}

/* The softmax is taken over all experts, whoever is chosen. */
static void softmax_weights(const fy_hparams *hp, const float *logits, const int32_t *choice,
                            float *weight)
{
    float max = logits[0], sum = 0;
    for (uint32_t e = 1; e < hp->n_expert; e++)
        max = logits[e] > max ? logits[e] : max;
    for (uint32_t e = 0; e < hp->n_expert; e++)
        sum += fy_exp(logits[e] - max);
    for (uint32_t i = 0; i < hp->n_expert_used; i++)
        weight[i] = fy_exp(logits[choice[i]] - max) / sum;
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + fy_exp(-x));
}

void fy_moe_choose(const fy_hparams *hp, const float *logits, const float *score, int32_t *choice,
                   float *weight)
{
    pick_largest(hp, score, choice);
    sort_ascending(choice, hp->n_expert_used);
    if (hp->gating == FY_GATING_SIGMOID) {
        for (uint32_t i = 0; i < hp->n_expert_used; i++)
            weight[i] = sigmoid(logits[choice[i]]);
    } else {
        softmax_weights(hp, logits, choice, weight);
    }
    if (!hp->expert_norm)
        return;
    const float least = 0x1p-14f; /* as others do: a smaller sum is as good as none */
    float sum = 0;
    for (uint32_t i = 0; i < hp->n_expert_used; i++)
        sum += weight[i];
    for (uint32_t i = 0; i < hp->n_expert_used; i++)
        weight[i] /= sum > least ? sum : least;
}

/* token, token_weight and first from the choices of n tokens: a counting sort. */
static void group_by_expert(const fy_hparams *hp, fy_experts *m, uint32_t n)
{
    const uint32_t n_pairs = n * hp->n_expert_used;
    memset(m->first, 0, (hp->n_expert + 1) * sizeof *m->first);
    for (uint32_t i = 0; i < n_pairs; i++)
        m->first[m->choice[i] + 1]++;
    for (uint32_t e = 0; e < hp->n_expert; e++)
        m->first[e + 1] += m->first[e];
    /* first[e] runs from the beginning of e to its end, which is the beginning of e + 1. */
    for (uint32_t i = 0; i < n_pairs; i++) {
        int32_t at = m->first[m->choice[i]]++;
        m->token[at] = (int32_t)(i / hp->n_expert_used);
        m->token_weight[at] = m->choice_weight[i];
    }
    memmove(m->first + 1, m->first, hp->n_expert * sizeof *m->first);
    m->first[0] = 0;
}

/* At most n more of the experts that the batch uses will be computed soon. */
static void want_more(const fy_hparams *hp, fy_experts *m, uint32_t n)
{
    uint32_t n_found = 0;
    if (m->cache == NULL)
        return;
    for (; m->next < hp->n_expert && n_found < n; m->next++) {
        if (m->first[m->next + 1] > m->first[m->next])
            m->wanted[n_found++] = (int32_t)m->next;
    }
    fy_expert_cache_want(m->cache, m->layer, m->wanted, n_found);
}

void fy_moe_route(fy_backend *b, const fy_hparams *hp, const fy_weights *layer, fy_experts *m,
                  const float *x, uint32_t n)
{
    fy_product router = {.w = &layer->w[FY_T_FFN_ROUTER],
                         .bias = fy_vector(layer, FY_T_FFN_ROUTER_B),
                         .y = m->logits}; /* [n][n_expert] */
    fy_backend_matmul(b, x, n, &router, 1);
    const float *bias = fy_vector(layer, FY_T_FFN_CHOICE_B);
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = (size_t)i * hp->n_expert_used;
        const float *logits = m->logits + (size_t)i * hp->n_expert;
        for (uint32_t e = 0; e < hp->n_expert && bias != NULL; e++)
            m->score[e] = sigmoid(logits[e]) + bias[e];
        fy_moe_choose(hp, logits, bias != NULL ? m->score : logits, m->choice + at,
                      m->choice_weight + at);
    }
    group_by_expert(hp, m, n);
    m->next = 0;
    want_more(hp, m, hp->n_expert_used);
}

/* --- computing ------------------------------------------------------------------------------ */

/* One expert's part of a vector that holds those of all; NULL: there is none. */
static const float *bias_of(const fy_weights *layer, fy_slot slot, uint32_t expert)
{
    const float *all = fy_vector(layer, slot);
    return all != NULL ? all + (size_t)expert * (size_t)layer->w[slot].n_cols : NULL;
}

/* gate, up, down; bias NULL: none. */
typedef struct {
    fy_matrix w[3];
    const float *bias[3];
} expert;

/* rows [n][n_embd] = Wdown (f(Wgate x) * Wup x); x may be rows. */
static void run_expert(fy_backend *b, const fy_hparams *hp, const expert *of, const float *x,
                       float *gate, float *up, float *rows, uint32_t n)
{
    const fy_activation f = {hp->act, hp->act_threshold};
    const fy_matrix *w = of->w;
    fy_product gate_up[] = {{.w = &w[0], .bias = of->bias[0], .y = gate},
                            {.w = &w[1], .bias = of->bias[1], .y = up}}; /* [n][n_ff_exp] */
    fy_backend_matmul(b, x, n, gate_up, 2);
    fy_backend_activate(b, &f, gate, up, n, w[0].n_rows);
    fy_product down = {.w = &w[2], .bias = of->bias[2], .y = rows};
    fy_backend_matmul(b, gate, n, &down, 1);
}

/* Counts once, or sigmoid(w h) times where the family has such a router. */
static void add_shared_expert(fy_backend *b, const fy_hparams *hp, const fy_weights *layer,
                              fy_experts *m, const float *h, float *gate, float *up, float *sum,
                              uint32_t n)
{
    const expert shared = {.w = {layer->w[FY_T_FFN_GATE_SHEXP], layer->w[FY_T_FFN_UP_SHEXP],
                                 layer->w[FY_T_FFN_DOWN_SHEXP]}};
    const fy_matrix *router = &layer->w[FY_T_FFN_SHEXP_ROUTER];
    for (uint32_t i = 0; i < n; i++)
        m->shared_weight[i] = 1;
    if (router->data != NULL) {
        fy_backend_matmul(b, h, n, &(fy_product){.w = router, .y = m->shared_weight}, 1);
        for (uint32_t i = 0; i < n; i++)
            m->shared_weight[i] = sigmoid(m->shared_weight[i]);
    }
    run_expert(b, hp, &shared, h, gate, up, m->rows, n);
    fy_backend_scatter_add(b, sum, m->rows, NULL, m->shared_weight, n, hp->n_embd);
}

void fy_moe_ffn(fy_backend *b, const fy_hparams *hp, const fy_weights *layer, fy_experts *m,
                const float *h, float *gate, float *up, float *sum, uint32_t n)
{
    memset(sum, 0, (size_t)n * hp->n_embd * sizeof *sum);
    for (uint32_t e = 0; e < hp->n_expert; e++) {
        const uint32_t first = (uint32_t)m->first[e], count = (uint32_t)m->first[e + 1] - first;
        if (count == 0)
            continue;
        const expert one = {.w = {fy_expert_of(&layer->w[FY_T_FFN_GATE_EXPS], e, hp->n_expert),
                                  fy_expert_of(&layer->w[FY_T_FFN_UP_EXPS], e, hp->n_expert),
                                  fy_expert_of(&layer->w[FY_T_FFN_DOWN_EXPS], e, hp->n_expert)},
                            .bias = {bias_of(layer, FY_T_FFN_GATE_EXPS_B, e),
                                     bias_of(layer, FY_T_FFN_UP_EXPS_B, e),
                                     bias_of(layer, FY_T_FFN_DOWN_EXPS_B, e)}};
        fy_backend_gather(b, m->rows, h, m->token + first, count, hp->n_embd);
        run_expert(b, hp, &one, m->rows, gate, up, m->rows, count);
        fy_backend_scatter_add(b, sum, m->rows, m->token + first, m->token_weight + first, count,
                               hp->n_embd);
        want_more(hp, m, 1);
    }
    if (layer->w[FY_T_FFN_UP_SHEXP].data != NULL)
        add_shared_expert(b, hp, layer, m, h, gate, up, sum, n);
}
