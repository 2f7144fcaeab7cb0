/* Latent attention: a token's queries come from one narrow vector and its keys and values from
 * another, each normed between two matrices. The rotated elements stand at the end of a head;
 * those of the keys are the same in all heads. What is cached are the keys and values themselves.
 */
#include "model/decoder.h"

#include <string.h>

static void norm(fy_backend *b, const fy_hparams *hp, const float *w, float *x, uint32_t n,
                 uint32_t len)
{
    const fy_norm rms = {.w = w, .eps = hp->latent_eps};
    fy_backend_norm(b, x, x, &rms, n, len);
}

/* rows [n][rank] of wider ones [n][rank + n_rot], whose rest are the rotated elements. */
static void take_latents(const fy_hparams *hp, const fy_latents *a, uint32_t n)
{
    const size_t rank = hp->kv_lora_rank, width = rank + hp->n_rot;
    for (uint32_t t = 0; t < n; t++)
        memcpy(a->kv_latent + t * rank, a->kv_a + t * width, rank * sizeof *a->kv_latent);
}

/* k [n][n_head][head_dim] and v [n][n_head][head_dim_v] of rows in which each head has its plain
 * elements of the key, then its value. */
static void take_heads(const fy_hparams *hp, const fy_latents *a, float *k, float *v, uint32_t n)
{
    const size_t rot = hp->n_rot, plain = hp->head_dim - rot, dim_v = hp->head_dim_v;
    const float *from = a->kv;
    for (uint32_t t = 0; t < n; t++) {
        const float *shared = a->kv_a + t * (hp->kv_lora_rank + rot) + hp->kv_lora_rank;
        for (uint32_t h = 0; h < hp->n_head; h++) {
            memcpy(k, from, plain * sizeof *k);
            memcpy(k + plain, shared, rot * sizeof *k);
            memcpy(v, from + plain, dim_v * sizeof *v);
            from += plain + dim_v;
            k += plain + rot;
            v += dim_v;
        }
    }
}

void fy_latent_project(fy_backend *b, const fy_hparams *hp, const fy_weights *layer,
                       const fy_latents *a, fy_layer_part part, const float *h, float *q, float *k,
                       float *v, uint32_t n)
{
    const fy_product into[] = {{.w = &layer->w[FY_T_ATTN_Q_DOWN], .y = a->q_latent},
                               {.w = &layer->w[FY_T_ATTN_KV_DOWN], .y = a->kv_a}};
    const int queries = part & FY_QUERIES ? 1 : 0, keys = part & FY_KEYS ? 1 : 0;
    fy_backend_matmul(b, h, n, into + 1 - queries, queries + keys);
    if (queries) {
        const fy_product out = {.w = &layer->w[FY_T_ATTN_Q_UP], .y = q};
        norm(b, hp, fy_vector(layer, FY_T_ATTN_Q_LATENT_NORM), a->q_latent, n, hp->q_lora_rank);
        fy_backend_matmul(b, a->q_latent, n, &out, 1);
    }
    if (keys) {
        const fy_product out = {.w = &layer->w[FY_T_ATTN_KV_UP], .y = a->kv};
        take_latents(hp, a, n);
        norm(b, hp, fy_vector(layer, FY_T_ATTN_KV_LATENT_NORM), a->kv_latent, n, hp->kv_lora_rank);
        fy_backend_matmul(b, a->kv_latent, n, &out, 1);
        take_heads(hp, a, k, v, n);
    }
}

void fy_latents_lay_out(fy_latents *a, const fy_hparams *hp, uint64_t n, fy_layout *c)
{
    *a = (fy_latents){0};
    if (hp->kv_lora_rank == 0)
        return;
    a->q_latent = fy_lay_out(c, n, hp->q_lora_rank, sizeof *a->q_latent);
    a->kv_a = fy_lay_out(c, n, fy_dim_of(hp, FY_D_KV_A), sizeof *a->kv_a);
    a->kv_latent = fy_lay_out(c, n, hp->kv_lora_rank, sizeof *a->kv_latent);
    a->kv = fy_lay_out(c, n, fy_dim_of(hp, FY_D_KV_B), sizeof *a->kv);
}
