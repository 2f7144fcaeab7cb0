/* x = scale_embd E[ids] (+ P[pos]), the layers (decoder.c), logits = cap((Wout norm(x) + b) /
 * scale_logit). Of the last layer, a token whose logits nobody asks for leaves only its keys and
 * values. */
#include "model/forward.h"

#include <string.h>

#include "base/log.h"

static void embed(fy_session *s, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_weights *w = &s->model->once;
    fy_activations *a = &s->d.act;
    const int64_t n_elems = (int64_t)n * hp->n_embd;
    fy_backend_embed(s->d.backend, a->x, &w->w[FY_T_TOKEN_EMBD], s->ids, n);
    if (hp->embedding_scale != 1)
        fy_backend_scale(s->d.backend, a->x, hp->embedding_scale, n_elems);
    if (!fy_bound(w, FY_T_POSITION_EMBD))
        return;
    fy_backend_embed(s->d.backend, a->branch, &w->w[FY_T_POSITION_EMBD], s->pos, n);
    fy_backend_add(s->d.backend, a->x, a->branch, 1, n_elems);
}

/* How the heads of the tokens are turned where they stand. */
static void find_angles(fy_session *s, uint32_t n)
{
    fy_activations *a = &s->d.act;
    const uint32_t n_rot = s->model->hp.n_rot;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t pos = (uint32_t)s->pos[i];
        fy_rope_angles(&s->rope, pos, a->angles + (size_t)i * n_rot);
        if (a->angles_swa != NULL)
            fy_rope_angles(&s->rope_swa, pos, a->angles_swa + (size_t)i * n_rot);
    }
}

/* The batch becomes its wanted tokens. They are in ascending order: a row never moves over one that
 * is still to move. */
static void keep_wanted(fy_session *s, uint32_t n_wanted)
{
    fy_activations *a = &s->d.act;
    const size_t len = s->model->hp.n_embd;
    for (uint32_t i = 0; i < n_wanted; i++) {
        const size_t row = (size_t)s->wanted[i];
        a->at[i] = a->at[row];
        s->pos[i] = s->pos[row];
        memmove(a->x + i * len, a->x + row * len, len * sizeof *a->x);
    }
}

static void compute_layer(fy_session *s, uint32_t layer, fy_layer_part part, uint32_t n)
{
    const fy_kv_layer kv = fy_kv_at(&s->kv, layer);
    fy_decoder_layer(&s->d, layer, &kv, part, n);
}

/* Every token is seen by those behind it, but goes on only when it is wanted. */
static void compute_last_layer(fy_session *s, uint32_t layer, uint32_t n, uint32_t n_wanted)
{
    if (n_wanted == n) {
        compute_layer(s, layer, FY_WHOLE, n);
        return;
    }
    compute_layer(s, layer, FY_KEYS, n);
    if (n_wanted == 0)
        return;
    keep_wanted(s, n_wanted);
    find_angles(s, n_wanted);
    compute_layer(s, layer, FY_QUERIES, n_wanted);
}

static int show_hidden(fy_session *s, uint32_t layer, uint32_t n, uint32_t first,
                       const fy_eval_sinks *sinks, fy_err *e)
{
    if (sinks == NULL || sinks->hidden == NULL)
        return 0;
    return sinks->hidden(sinks->user, layer, s->d.act.x, first, n, e);
}

/* The pieces show nothing of what is between their layers. */
static int forward_chain(fy_session *s, uint32_t n, uint32_t n_wanted, fy_err *e)
{
    fy_activations *a = &s->d.act;
    const fy_chain_call call = {
        .n = n, .n_past = (uint32_t)s->pos[0], .angles = a->angles, .angles_swa = a->angles_swa};
    a->x = fy_chain_run_x(s->chain);
    find_angles(s, n);
    embed(s, n);
    a->x = fy_chain_run_layers(s->chain, &call, e);
    if (a->x == NULL)
        return -1;
    keep_wanted(s, n_wanted);
    return 0;
}

int fy_forward(fy_session *s, uint32_t n, uint32_t n_wanted, uint32_t first,
               const fy_eval_sinks *sinks, fy_err *e)
{
    const uint32_t n_layer = s->model->hp.n_layer;
    const bool shown = sinks != NULL && sinks->hidden != NULL;
    if (s->chain != NULL)
        return forward_chain(s, n, n_wanted, e);
    find_angles(s, n);
    embed(s, n);
    for (uint32_t layer = 0; layer < n_layer; layer++) {
        if (fy_check_interrupt(e) != 0 || show_hidden(s, layer, n, first, sinks, e) != 0)
            return -1;
        if (layer + 1 == n_layer && !shown)
            compute_last_layer(s, layer, n, n_wanted);
        else
            compute_layer(s, layer, FY_WHOLE, n);
    }
    if (!shown)
        return 0;
    if (show_hidden(s, n_layer, n, first, sinks, e) != 0)
        return -1;
    keep_wanted(s, n_wanted);
    return 0;
}

int fy_forward_logits(fy_session *s, uint32_t first, uint32_t n, float *logits, fy_err *e)
{
    const fy_hparams *hp = &s->model->hp;
    const float *x = s->d.act.x + (size_t)first * hp->n_embd;
    const int64_t n_elems = (int64_t)n * hp->n_vocab;
    if (s->chain == NULL)
        fy_decoder_head(&s->d, x, n, logits); /* [n][n_vocab] */
    else if (fy_chain_run_head(s->chain, x, n, logits, e) != 0)
        return -1;
    if (hp->logit_scale != 1)
        fy_backend_scale(s->d.backend, logits, 1 / hp->logit_scale, n_elems);
    if (hp->logit_softcap != 0)
        fy_backend_softcap(s->d.backend, logits, hp->logit_softcap, n_elems);
    return 0;
}
