/* Calls of any length in steps of n_batch tokens. The sequences move on (n_past) when all of it is
 * done: what a call that failed left in the cache lies after them and is never read.
 *
 * A step: x = scale_embd E[ids] (+ P[pos]), the layers (decoder.c, or the graphs of a cut model),
 * logits = cap((Wout norm(x) + b) / scale_logit). In the last layer, a token whose logits nobody
 * asks for leaves only its keys and values. */
#include "model/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* --- one step --- */

static void embed(fy_session *s, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const fy_weights *w = &s->model->once;
    fy_activations *a = &s->d.act;
    const int64_t n_elems = (int64_t)n * hp->n_embd;
    fy_backend_embed(s->d.backend, a->x, &w->w[FY_T_TOKEN_EMBD], s->ids, n);
    if (hp->embedding_scale != 1)
        fy_backend_scale(s->d.backend, a->x, hp->embedding_scale, n_elems);
    if (fy_bound(w, FY_T_EMBD_NORM)) {
        const fy_norm norm = {.w = fy_vector(w, FY_T_EMBD_NORM),
                              .bias = fy_vector(w, FY_T_EMBD_NORM_B),
                              .eps = hp->norm_eps,
                              .centred = true};
        fy_backend_norm(s->d.backend, a->x, a->x, &norm, n, hp->n_embd);
    }
    if (hp->n_embd_pl != 0)
        fy_per_layer_begin(&s->d, s->ids, n);
    if (hp->n_altup != 0)
        fy_altup_begin(&s->d, n);
    if (!fy_bound(w, FY_T_POSITION_EMBD))
        return;
    fy_backend_embed(s->d.backend, a->branch, &w->w[FY_T_POSITION_EMBD], s->pos, n);
    fy_backend_add(s->d.backend, a->x, a->branch, 1, n_elems);
}

/* What a query is multiplied by, from what cos and sin of its position are. */
static void scale_angles(const fy_hparams *hp, uint32_t pos, const float *angles, float *out)
{
    const double scale = 1 + (double)hp->temp_scale * log1p(pos / hp->rope_orig_ctx);
    for (uint32_t i = 0; i < hp->n_rot; i++)
        out[i] = (float)((double)angles[i] * scale);
}

/* The RoPE angles of the tokens' positions. */
static void find_angles(fy_session *s, uint32_t n)
{
    fy_activations *a = &s->d.act;
    const fy_hparams *hp = &s->model->hp;
    const uint32_t n_rot = hp->n_rot;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t pos = (uint32_t)s->pos[i];
        fy_rope_angles(&s->rope, pos, a->angles + (size_t)i * n_rot);
        if (a->angles_q != NULL)
            scale_angles(hp, pos, a->angles + (size_t)i * n_rot, a->angles_q + (size_t)i * n_rot);
        if (a->angles_swa != NULL)
            fy_rope_angles(&s->rope_swa, pos, a->angles_swa + (size_t)i * fy_n_rot_swa(hp));
    }
}

/* The batch becomes its wanted tokens. They are in ascending order: a row never moves over one that
 * is still to move. */
static void keep_wanted(fy_session *s, uint32_t n_wanted)
{
    fy_activations *a = &s->d.act;
    const size_t len = s->model->hp.n_embd;
    const size_t pl_len = (size_t)fy_dim_of(&s->model->hp, FY_D_PL_ALL);
    for (uint32_t i = 0; i < n_wanted; i++) {
        const size_t row = (size_t)s->wanted[i];
        a->at[i] = a->at[row];
        s->pos[i] = s->pos[row];
        memmove(a->x + i * len, a->x + row * len, len * sizeof *a->x);
        if (a->mix != NULL)
            memmove(a->mix + i * a->mix_len, a->mix + row * a->mix_len,
                    a->mix_len * sizeof *a->mix);
        for (uint32_t j = 0; j + 1 < s->model->hp.n_altup; j++)
            memmove(a->streams[j] + i * len, a->streams[j] + row * len, len * sizeof *a->x);
        if (a->pl != NULL)
            memmove(a->pl + i * pl_len, a->pl + row * pl_len, pl_len * sizeof *a->pl);
    }
}

static void compute_layer(fy_session *s, uint32_t layer, fy_layer_part part, uint32_t n)
{
    const fy_kv_layer kv = fy_kv_at(&s->kv, layer);
    const fy_state_view state = fy_states_at(&s->states, layer);
    fy_decoder_layer(&s->d, layer, &kv, &state, part, n);
}

/* The last layer whose keys or state later tokens read: after it only wanted tokens matter. */
static uint32_t last_remembering(const fy_hparams *hp)
{
    return hp->n_layer - hp->n_kv_shared - 1;
}

/* Later tokens see every token, but only a wanted one is computed further. Returns how many those
 * are. */
static uint32_t compute_last_layer(fy_session *s, uint32_t layer, uint32_t n, uint32_t n_wanted)
{
    if (n_wanted == n) {
        compute_layer(s, layer, FY_WHOLE, n);
        return n;
    }
    compute_layer(s, layer, FY_KEYS, n);
    if (n_wanted == 0)
        return 0;
    keep_wanted(s, n_wanted);
    find_angles(s, n_wanted);
    compute_layer(s, layer, FY_QUERIES, n_wanted);
    return n_wanted;
}

static int show_hidden(fy_session *s, uint32_t layer, uint32_t n, uint32_t first,
                       const fy_eval_sinks *sinks, fy_err *e)
{
    if (sinks == NULL || sinks->hidden == NULL)
        return 0;
    return sinks->hidden(sinks->user, layer, s->d.act.x, first, n, e);
}

static int check_cancel(const fy_eval_sinks *sinks, fy_err *e)
{
    if (sinks != NULL && sinks->cancel != NULL &&
        atomic_load_explicit(sinks->cancel, memory_order_relaxed))
        return fy_fail(e, FY_EINTR, "cancelled");
    return fy_check_interrupt(e);
}

static int compute_layers(fy_session *s, uint32_t n, uint32_t n_wanted, uint32_t first,
                          const fy_eval_sinks *sinks, fy_err *e)
{
    const uint32_t n_layer = s->model->hp.n_layer, last = last_remembering(&s->model->hp);
    const bool shown = sinks != NULL && sinks->hidden != NULL;
    const bool all = shown || s->d.act.tree != NULL; /* every token goes through every layer */
    uint32_t left = n;
    find_angles(s, n);
    embed(s, n);
    for (uint32_t layer = 0; layer < n_layer && left > 0; layer++) {
        if (check_cancel(sinks, e) != 0 || show_hidden(s, layer, n, first, sinks, e) != 0)
            return -1;
        if (layer == last && !all)
            left = compute_last_layer(s, layer, n, n_wanted);
        else
            compute_layer(s, layer, FY_WHOLE, left);
        if (s->d.gpu_failed.code != FY_OK)
            return fy_fail(e, s->d.gpu_failed.code, "%s", s->d.gpu_failed.msg);
    }
    if (all && show_hidden(s, n_layer, n, first, sinks, e) != 0)
        return -1;
    if (all && n_wanted != n)
        keep_wanted(s, n_wanted);
    if (s->model->hp.n_altup != 0 && n_wanted > 0)
        fy_altup_end(&s->d, n_wanted);
    return 0;
}

static int compute_head(fy_session *s, const float *x, uint32_t n, float *logits, fy_err *e)
{
    (void)e;
    fy_decoder_head(&s->d, x, n, logits);
    return 0;
}

const fy_pass fy_pass_whole = {compute_layers, compute_head};

static int run_graphs(fy_session *s, uint32_t n, uint32_t n_wanted, uint32_t first,
                      const fy_eval_sinks *sinks, fy_err *e)
{
    fy_activations *a = &s->d.act;
    const uint32_t before_tree = fy_chain_first_position(s->model->chain) + s->n_past[0];
    const fy_chain_call call = {.n = n,
                                .n_past = a->tree != NULL ? before_tree : (uint32_t)s->pos[0],
                                .tree = a->tree,
                                .angles = a->angles,
                                .angles_swa = a->angles_swa,
                                .angles_q = a->angles_q,
                                .show = sinks != NULL ? sinks->hidden : NULL,
                                .user = sinks != NULL ? sinks->user : NULL,
                                .first = first,
                                .state_from = s->states.memory != NULL ? s->states.from[0] : 0,
                                .state_to = s->states.memory != NULL ? s->states.to[0] : 1};
    if (check_cancel(sinks, e) != 0)
        return -1;
    a->x = fy_chain_run_x(s->chain);
    find_angles(s, n);
    embed(s, n);
    a->x = fy_chain_run_layers(s->chain, &call, e);
    if (a->x == NULL)
        return -1;
    keep_wanted(s, n_wanted);
    return 0;
}

static int run_head_graphs(fy_session *s, const float *x, uint32_t n, float *logits, fy_err *e)
{
    return fy_chain_lacks_head(s->model->chain) ? compute_head(s, x, n, logits, e)
                                                : fy_chain_run_head(s->chain, x, n, logits, e);
}

const fy_pass fy_pass_graphs = {run_graphs, run_head_graphs};

/* logits [n][n_vocab] of the wanted tokens [first, first + n). */
static int wanted_logits(fy_session *s, uint32_t first, uint32_t n, float *logits, fy_err *e)
{
    const fy_hparams *hp = &s->model->hp;
    const int64_t n_elems = (int64_t)n * hp->n_vocab;
    if (s->pass->head(s, s->d.act.x + (size_t)first * hp->n_embd, n, logits, e) != 0)
        return -1;
    if (hp->logit_scale != 1)
        fy_backend_scale(s->d.backend, logits, 1 / hp->logit_scale, n_elems);
    if (hp->logit_softcap != 0)
        fy_backend_softcap(s->d.backend, logits, hp->logit_softcap, n_elems);
    return 0;
}

bool fy_session_has_norm(const fy_session *s)
{
    if (s->model->hp.n_altup != 0) /* the lm_head reads all streams */
        return false;
    return s->model->chain == NULL || fy_chain_lacks_head(s->model->chain);
}

const float *fy_session_norm(fy_session *s, const float *x, uint32_t n)
{
    return fy_decoder_norm(&s->d, x, n);
}

/* --- calls --- */

/* What a call asks for. */
typedef struct {
    const fy_batch *batch;
    bool all;       /* the logits of every token, whatever the batch says */
    uint32_t first; /* what the sinks call the first token */
    const fy_eval_sinks *sinks;
} request;

/* Logits that were computed: the rows that the session holds, and the one that came last. */
typedef struct {
    uint32_t n;
    const float *last; /* NULL: none yet */
} held_logits;

static bool has_sink(const request *r)
{
    return r->sinks != NULL && r->sinks->logits != NULL;
}

static uint32_t seq_of(const request *r, uint32_t i)
{
    return r->batch->seqs != NULL ? r->batch->seqs[i] : 0;
}

/* --- checks --------------------------------------------------------------------------------- */

static int fail_full(const fy_session *s, const request *r, uint32_t seq, fy_err *e)
{
    const fy_batch *b = r->batch;
    uint32_t more = b->seqs == NULL ? b->n : 0;
    for (uint32_t i = 0; b->seqs != NULL && i < b->n; i++)
        more += b->seqs[i] == seq;
    char which[32] = "";
    if (s->n_seq > 1)
        snprintf(which, sizeof which, " of sequence %u", seq);
    char remedy[160];
    const fy_chain *c = s->model->chain;
    if (c != NULL && s->n_ctx == fy_model_max_ctx(s->model))
        snprintf(remedy, sizeof remedy,
                 "the graphs have no more (cache_size %u, context_size %u): chunk the model again "
                 "with a larger -c",
                 c->n_cache, c->n_ctx);
    else
        snprintf(remedy, sizeof remedy, "use a larger -c (the model was trained with %u)",
                 s->model->hp.n_ctx_train);
    return fy_fail(e, FY_EFIT,
                   "the context%s is full: %u positions, %u in use, %u more asked for; %s", which,
                   s->n_ctx, s->n_past[seq], more, remedy);
}

/* Finds where every sequence will end. */
static int check_room(fy_session *s, const request *r, fy_err *e)
{
    memcpy(s->end, s->n_past, s->n_seq * sizeof *s->end);
    if (r->batch->parents != NULL)
        return fy_session_tree_check(s, r->batch, e);
    for (uint32_t i = 0; i < r->batch->n; i++) {
        const uint32_t seq = seq_of(r, i);
        if (seq >= s->n_seq)
            return fy_fail(e, FY_EARG, "token %u of the batch is of sequence %u, expected 0 to %u",
                           i, seq, s->n_seq - 1);
        if (s->end[seq]++ == s->n_ctx)
            return fail_full(s, r, seq, e);
    }
    return 0;
}

static int check_tokens(const fy_session *s, const request *r, fy_err *e)
{
    const fy_batch *b = r->batch;
    uint32_t n_wanted = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->ids[i] < 0 || (uint32_t)b->ids[i] >= s->model->hp.n_vocab)
            return fy_fail(e, FY_EARG, "token id %d at %s %u, expected 0 to %u", b->ids[i],
                           b->seqs != NULL ? "place" : "position", r->first + i,
                           s->model->hp.n_vocab - 1);
        n_wanted += b->wants != NULL && b->wants[i] != 0;
    }
    if (n_wanted > s->logit_rows && !has_sink(r))
        return fy_fail(e, FY_EARG,
                       "%u tokens ask for logits, expected at most %u in one call: ask in several",
                       n_wanted, s->logit_rows);
    return 0;
}

/* --- steps ---------------------------------------------------------------------------------- */

/* Puts the tokens [first, first + n) of the request into the batch; returns how many of them ask
 * for logits. */
static uint32_t fill_batch(fy_session *s, const request *r, uint32_t first, uint32_t n)
{
    const fy_batch *b = r->batch;
    const fy_chain *c = s->model->chain;
    const uint32_t first_position = c != NULL ? fy_chain_first_position(c) : 0;
    uint32_t n_wanted = 0;
    if (b->parents != NULL)
        fy_session_tree_fill(s, b);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t seq = seq_of(r, first + i),
                       pos = b->parents != NULL ? (uint32_t)s->d.act.at[i].pos : s->next[seq]++;
        const bool asks = b->wants != NULL ? b->wants[first + i] != 0
                                           : b->parents == NULL && pos + 1 == s->end[seq];
        s->ids[i] = b->ids[first + i];
        s->pos[i] = (int32_t)(first_position + pos);
        s->d.act.at[i] = (fy_place){(int32_t)seq, (int32_t)pos};
        if (asks || r->all)
            s->wanted[n_wanted++] = (int32_t)i;
    }
    for (uint32_t i = 0; i < n && s->n_ring < s->n_ctx; i++) /* graphs have no rings, nor `row` */
        fy_session_seq_reaches(s, seq_of(r, first + i),
                               b->parents != NULL ? (uint32_t)s->d.act.row[i].pos + 1
                                                  : (uint32_t)s->d.act.at[i].pos + 1);
    return n_wanted;
}

/* Shows n rows of logits, those of tokens that stand together at once. first: what the sink calls
 * token 0 of the batch. */
static int show_rows(const request *r, const float *logits, uint32_t n_vocab, const int32_t *rows,
                     uint32_t n, uint32_t first, fy_err *e)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t run = 1;
        while (i + run < n && rows[i + run] == rows[i] + (int32_t)run)
            run++;
        if (r->sinks->logits(r->sinks->user, logits + (size_t)i * n_vocab,
                             first + (uint32_t)rows[i], run, e) != 0)
            return -1;
        i += run;
    }
    return 0;
}

/* The logits of the batch's tokens that ask: kept after those of earlier steps, or shown. */
static int compute_logits(fy_session *s, const request *r, uint32_t n_wanted, uint32_t first,
                          held_logits *held, fy_err *e)
{
    const uint32_t n_vocab = s->model->hp.n_vocab;
    for (uint32_t done = 0; done < n_wanted;) {
        if (has_sink(r))
            held->n = 0;
        const uint32_t room = s->logit_rows - held->n, left = n_wanted - done;
        const uint32_t n = left < room ? left : room;
        const int32_t *rows = s->wanted + done;
        float *logits = s->logits + (size_t)held->n * n_vocab;
        if (wanted_logits(s, done, n, logits, e) != 0)
            return -1;
        if (has_sink(r) && show_rows(r, logits, n_vocab, rows, n, first, e) != 0)
            return -1;
        held->n += n;
        held->last = logits + (size_t)(n - 1) * n_vocab;
        done += n;
    }
    return 0;
}

/* How many of the tokens are the graphs' preset, which is known already; only where their logits
 * are asked for it is computed. FY_EARG where a text has to begin with it and does not. */
static int count_preset(const fy_session *s, const request *r, uint32_t *n, fy_err *e)
{
    const fy_chain *c = s->model->chain;
    *n = 0;
    if (c == NULL || c->preset.ids == NULL || s->n_past[0] > 0)
        return 0;
    const fy_chain_preset *p = &c->preset;
    if (r->batch->parents == NULL && r->batch->n >= p->n &&
        memcmp(r->batch->ids, p->ids, p->n * sizeof *p->ids) == 0)
        *n = p->n;
    return *n > 0 || !c->coded
               ? 0
               : fy_fail(e, FY_EARG,
                         "the graphs were compiled for texts that begin with a preset of %u tokens "
                         "(the first is %d) and go on after it; this one does not",
                         p->n, p->ids[0]);
}

static int run_steps(fy_session *s, const request *r, held_logits *held, fy_err *e)
{
    const uint32_t n_tokens = r->batch->n;
    uint32_t preset;
    *held = (held_logits){0};
    if (n_tokens == 0)
        return fy_fail(e, FY_EARG, "no tokens to compute: the prompt is empty");
    if (check_room(s, r, e) != 0 || check_tokens(s, r, e) != 0 ||
        count_preset(s, r, &preset, e) != 0)
        return -1;
    if (r->batch->parents == NULL)
        fy_session_tree_drop(s);
    s->d.act.tree = NULL;
    memcpy(s->next, s->n_past, s->n_seq * sizeof *s->next);
    for (uint32_t done = 0; done < n_tokens;) {
        const uint32_t left = done < preset ? preset - done : n_tokens - done;
        const uint32_t n = left < s->n_batch ? left : s->n_batch;
        const uint32_t n_wanted = fill_batch(s, r, done, n);
        const bool known = done < preset && n_wanted == 0;
        if (!known && (s->pass->layers(s, n, n_wanted, r->first + done, r->sinks, e) != 0 ||
                       compute_logits(s, r, n_wanted, r->first + done, held, e) != 0))
            return -1;
        for (uint32_t i = 0; i < n; i++)
            fy_states_step(&s->states, seq_of(r, done + i));
        done += n;
        if (done == preset)
            fy_chain_run_preset(s->chain);
    }
    if (r->batch->parents != NULL)
        s->n_nodes += n_tokens;
    return 0;
}

static int run(fy_session *s, const request *r, held_logits *held, fy_err *e)
{
    const int rc = run_steps(s, r, held, e);
    for (uint32_t i = 0; i < r->batch->n; i++) { /* of no other: a worker may be filling one */
        const uint32_t seq = seq_of(r, i);
        if (seq >= s->n_seq)
            break;
        fy_states_end(&s->states, seq, rc == 0, s->n_past[seq]);
        if (rc == 0)
            s->n_past[seq] = s->end[seq];
        else if (!fy_session_seq_sees(s, seq, s->n_past[seq])) /* its steps took rows it needs */
            fy_session_go_back(s, seq, s->n_past[seq]);
    }
    return rc;
}

int fy_session_decode(fy_session *s, const fy_batch *b, const fy_eval_sinks *sinks,
                      const float **logits, fy_err *e)
{
    const request r = {.batch = b, .sinks = sinks};
    held_logits held;
    if (run(s, &r, &held, e) != 0)
        return -1;
    if (logits != NULL)
        *logits = held.n > 0 && !has_sink(&r) ? s->logits : NULL;
    return 0;
}

int fy_session_eval(fy_session *s, const int32_t *ids, uint32_t n, const fy_eval_sinks *sinks,
                    const float **last, fy_err *e)
{
    const fy_batch b = {.ids = ids, .n = n};
    request r = {.batch = &b, .first = s->n_past[0], .sinks = sinks};
    r.all = has_sink(&r);
    held_logits held;
    if (run(s, &r, &held, e) != 0)
        return -1;
    if (last != NULL)
        *last = held.last;
    return 0;
}
