/* What a rewind finds: the cache has the rows of every position, but a state, and the window of a
 * layer that keeps no more, belong to one position alone. They are its tail. A few tails of each
 * sequence are kept as snapshots; a sequence goes back to one of them and computes the rest. */
#include <stdlib.h>
#include <string.h>

#include "model/session.h"

/* --- tails ------------------------------------------------------------------------------------ */

uint32_t fy_window_begin(const fy_hparams *hp, uint32_t pos)
{
    return pos >= hp->n_swa ? pos - hp->n_swa + 1 : 0;
}

bool fy_tail_next(const fy_session *s, uint32_t pos, fy_tail_piece *p)
{
    const fy_hparams *hp = &s->model->hp;
    p->at += p->bytes;
    p->bytes = 0;
    p->begin = fy_window_begin(hp, pos);
    while (p->bytes == 0 && p->next < FY_TAIL_KINDS * hp->n_layer) {
        p->layer = p->next / FY_TAIL_KINDS;
        p->kind = (fy_tail_kind)(p->next++ % FY_TAIL_KINDS);
        if (p->kind == FY_TAIL_STATE && fy_layer_in(&s->states.layers, p->layer)) {
            p->bytes = s->states.len * sizeof(float);
        } else if (p->kind != FY_TAIL_STATE && fy_kv_owns(hp, p->layer) &&
                   !fy_session_keeps_rows(s, p->layer)) {
            const fy_kv_layer l = fy_kv_at(&s->kv, p->layer);
            p->bytes = fy_kv_run_bytes(&l, p->kind == FY_TAIL_VALUES, pos - p->begin) *
                       (size_t)l.n_head_kv;
        }
    }
    return p->bytes > 0;
}

size_t fy_tail_bytes(const fy_session *s, uint32_t pos)
{
    fy_tail_piece p = {0};
    while (fy_tail_next(s, pos, &p))
        ;
    return p.at;
}

static void move_rows(const fy_session *s, uint32_t seq, uint32_t pos, const fy_tail_piece *p,
                      uint8_t *out, const uint8_t *in)
{
    const fy_kv_layer l = fy_kv_at(&s->kv, p->layer);
    for (uint32_t h = 0; h < (uint32_t)l.n_head_kv; h++) {
        const size_t n = fy_kv_move(&l, p->kind == FY_TAIL_VALUES, seq, h, p->begin, pos, out, in);
        out = out != NULL ? out + n : NULL;
        in = in != NULL ? in + n : NULL;
    }
}

/* back: of the states before the last call. */
static void tail_read(const fy_session *s, uint32_t seq, uint32_t pos, bool back, uint8_t *out)
{
    for (fy_tail_piece p = {0}; fy_tail_next(s, pos, &p);) {
        if (p.kind == FY_TAIL_STATE)
            memcpy(out + p.at, fy_states_of(&s->states, p.layer, seq, back), p.bytes);
        else
            move_rows(s, seq, pos, &p, out + p.at, NULL);
    }
}

void fy_tail_write(fy_session *s, uint32_t seq, uint32_t pos, const uint8_t *in)
{
    for (fy_tail_piece p = {0}; fy_tail_next(s, pos, &p);) {
        if (p.kind == FY_TAIL_STATE)
            memcpy(fy_states_of(&s->states, p.layer, seq, false), in + p.at, p.bytes);
        else
            move_rows(s, seq, pos, &p, NULL, in + p.at);
    }
    if (s->n_ring < s->n_ctx)
        s->low[seq] = fy_window_begin(&s->model->hp, pos);
    fy_states_forget(&s->states, seq);
}

/* --- snapshots -------------------------------------------------------------------------------- */

enum { BUDGET = 128 << 20, LEAST = 2, MOST = 32 };

int fy_snapshots_init(fy_session *s, fy_err *e)
{
    const size_t bytes = fy_tail_bytes(s, s->n_ctx);
    if (bytes == 0)
        return 0;
    size_t most = BUDGET / bytes / s->n_seq;
    most = most < MOST ? most : MOST;
    if (most < LEAST)
        most = s->states.memory != NULL ? LEAST : 0;
    s->snapshots.n = calloc(s->n_seq, sizeof *s->snapshots.n);
    s->snapshots.at = calloc((size_t)s->n_seq * MOST, sizeof *s->snapshots.at);
    if (s->snapshots.n == NULL || s->snapshots.at == NULL)
        return fy_nomem(e);
    s->snapshots.most = (uint32_t)most;
    return 0;
}

const fy_snapshot *fy_snapshots_of(const fy_session *s, uint32_t seq, uint32_t *n)
{
    *n = s->snapshots.most > 0 ? s->snapshots.n[seq] : 0;
    return s->snapshots.most > 0 ? s->snapshots.at + (size_t)seq * MOST : NULL;
}

/* The last one at no more than n positions; NULL: there is none. */
static const fy_snapshot *last_of(const fy_session *s, uint32_t seq, uint32_t n)
{
    uint32_t k;
    const fy_snapshot *at = fy_snapshots_of(s, seq, &k);
    while (k > 0 && at[k - 1].pos > n)
        k--;
    return k > 0 ? &at[k - 1] : NULL;
}

static void drop(fy_session *s, uint32_t seq, uint32_t i)
{
    fy_snapshot *at = s->snapshots.at + (size_t)seq * MOST;
    const uint32_t n = --s->snapshots.n[seq];
    free(at[i].bytes);
    memmove(at + i, at + i + 1, (n - i) * sizeof *at);
}

void fy_snapshots_drop(fy_session *s, uint32_t seq, uint32_t above)
{
    uint32_t n;
    const fy_snapshot *at = fy_snapshots_of(s, seq, &n);
    while (n > 0 && at[n - 1].pos > above)
        drop(s, seq, --n);
}

void fy_snapshots_release(fy_session *s)
{
    for (uint32_t i = 0; i < s->n_seq; i++)
        fy_snapshots_drop(s, i, 0);
    free(s->snapshots.at);
    free(s->snapshots.n);
}

/* The one without which least is computed again: its neighbours are nearest to each other. The last
 * one stays, which is the end of the last turn. */
static uint32_t least_missed(const fy_snapshot *at, uint32_t n)
{
    uint32_t best = 0, best_gap = UINT32_MAX;
    for (uint32_t i = 0; i + 1 < n; i++) {
        const uint32_t gap = at[i + 1].pos - (i > 0 ? at[i - 1].pos : 0);
        if (gap < best_gap) {
            best_gap = gap;
            best = i;
        }
    }
    return best;
}

uint8_t *fy_snapshots_add(fy_session *s, uint32_t seq, uint32_t pos)
{
    fy_snapshots *k = &s->snapshots;
    const fy_snapshot *last = last_of(s, seq, pos);
    if (k->most == 0 || pos == 0 || (last != NULL && last->pos == pos))
        return NULL;
    fy_snapshot *at = k->at + (size_t)seq * MOST;
    if (k->n[seq] == k->most)
        drop(s, seq, least_missed(at, k->n[seq]));
    uint8_t *bytes = malloc(fy_tail_bytes(s, pos));
    if (bytes != NULL)
        at[k->n[seq]++] = (fy_snapshot){bytes, pos};
    return bytes;
}

bool fy_session_has_snapshots(const fy_session *s)
{
    return s->snapshots.most > 0;
}

void fy_session_seq_snapshot(fy_session *s, uint32_t seq)
{
    const uint32_t pos = fy_session_seq_n_past(s, seq);
    uint8_t *bytes = pos > 0 && s->n_nodes == 0 ? fy_snapshots_add(s, seq, pos) : NULL;
    if (bytes != NULL)
        tail_read(s, seq, pos, false, bytes);
}

uint32_t fy_snapshot_stop(uint32_t n_cached, uint32_t n_shared, uint32_t n_prompt, uint32_t n_past)
{
    const uint32_t end = n_prompt > FY_SNAPSHOT_BEFORE_END ? n_prompt - FY_SNAPSHOT_BEFORE_END : 0;
    const bool shares = n_shared >= n_cached + FY_SNAPSHOT_APART;
    if (shares && n_past < n_shared)
        return n_shared;
    const bool ends = end >= (shares ? n_shared : n_cached) + FY_SNAPSHOT_APART;
    return ends && n_past < end ? end : n_prompt;
}

/* --- going back ------------------------------------------------------------------------------- */

void fy_session_seq_reaches(fy_session *s, uint32_t seq, uint32_t end)
{
    if (end > s->n_ring && end - s->n_ring > s->low[seq])
        s->low[seq] = end - s->n_ring;
}

bool fy_session_seq_sees(const fy_session *s, uint32_t seq, uint32_t n)
{
    return s->low[seq] == 0 || (uint64_t)s->low[seq] + s->model->hp.n_swa <= (uint64_t)n + 1;
}

/* Where the tail of a position is. */
typedef enum { NOWHERE, NOW, BEFORE, SNAPSHOT } place;

static place where(const fy_session *s, uint32_t seq, uint32_t pos)
{
    const bool sees = fy_session_seq_sees(s, seq, pos), state = s->states.memory != NULL;
    if (pos == s->n_past[seq] || (sees && !state))
        return NOW;
    if (sees && s->states.before[seq] == pos)
        return BEFORE;
    const fy_snapshot *k = last_of(s, seq, pos);
    return k != NULL && k->pos == pos ? SNAPSHOT : NOWHERE;
}

bool fy_tail_read(const fy_session *s, uint32_t seq, uint32_t pos, uint8_t *out)
{
    const place p = where(s, seq, pos);
    if (p == SNAPSHOT)
        memcpy(out, last_of(s, seq, pos)->bytes, fy_tail_bytes(s, pos));
    else if (p != NOWHERE)
        tail_read(s, seq, pos, p == BEFORE, out);
    return p != NOWHERE;
}

uint32_t fy_session_seq_keeps(const fy_session *s, uint32_t seq, uint32_t n)
{
    const uint32_t has = fy_session_seq_n_past(s, seq);
    if (n >= has || where(s, seq, n) != NOWHERE)
        return n < has ? n : has;
    const fy_snapshot *k = last_of(s, seq, n);
    uint32_t best = k != NULL ? k->pos : 0;
    if (fy_states_can_undo(&s->states, seq, n) && s->states.before[seq] > best &&
        fy_session_seq_sees(s, seq, s->states.before[seq]))
        best = s->states.before[seq];
    return best;
}

void fy_session_go_back(fy_session *s, uint32_t seq, uint32_t n)
{
    const fy_snapshot *k = last_of(s, seq, n);
    s->n_past[seq] = k != NULL ? k->pos : 0;
    fy_states_forget(&s->states, seq);
    if (k != NULL)
        fy_tail_write(s, seq, k->pos, k->bytes);
    else
        s->low[seq] = 0;
    fy_snapshots_drop(s, seq, s->n_past[seq]);
}

void fy_session_seq_rewind(fy_session *s, uint32_t seq, uint32_t n_past)
{
    fy_session_tree_drop(s);
    if (seq >= s->n_seq || n_past >= s->n_past[seq])
        return;
    const uint32_t keeps = fy_session_seq_keeps(s, seq, n_past);
    const place p = keeps > 0 ? where(s, seq, keeps) : NOWHERE;
    if (p == NOWHERE || p == SNAPSHOT) {
        fy_session_go_back(s, seq, keeps);
        return;
    }
    if (p == BEFORE)
        fy_states_undo(&s->states, seq);
    fy_snapshots_drop(s, seq, keeps);
    s->n_past[seq] = keeps;
}

int fy_session_seq_copy(fy_session *s, uint32_t from, uint32_t to, uint32_t n_past, fy_err *e)
{
    if (from >= s->n_seq || to >= s->n_seq)
        return fy_fail(e, FY_EARG, "sequence %u, expected 0 to %u", from >= s->n_seq ? from : to,
                       s->n_seq - 1);
    if (n_past > s->n_past[from])
        return fy_fail(e, FY_EARG, "%u positions of sequence %u asked for, it holds %u", n_past,
                       from, s->n_past[from]);
    fy_session_tree_drop(s);
    const place p = where(s, from, n_past);
    if (n_past > 0 && p == NOWHERE)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%u positions of sequence %u, which holds %u: the states of the model, or "
                       "the window that its layers keep (%u rows), can go back to %u",
                       n_past, from, s->n_past[from], s->n_ring,
                       fy_session_seq_keeps(s, from, n_past));
    if (from != to)
        fy_kv_copy(&s->kv, &s->model->hp, from, to, n_past);
    s->low[to] = n_past > 0 ? s->low[from] : 0;
    if (n_past > 0 && p == SNAPSHOT)
        fy_tail_write(s, to, n_past, last_of(s, from, n_past)->bytes);
    else if (n_past > 0 && from == to && p == BEFORE)
        fy_states_undo(&s->states, to); /* wherever they are: graphs have them in their tensors */
    else if (n_past > 0)
        fy_states_copy(&s->states, from, to, p == BEFORE);
    if (from != to || n_past < s->n_past[from])
        fy_states_forget(&s->states, to);
    fy_snapshots_drop(s, to, from == to ? n_past : 0);
    s->n_past[to] = n_past;
    return 0;
}
