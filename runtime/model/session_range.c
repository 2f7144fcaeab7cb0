/* Positions of a sequence out of a session's cache and back into it. */
#include <string.h>

#include "arch/graph_io.h"
#include "base/math.h"
#include "model/session.h"

size_t fy_kv_run_bytes(const fy_kv_layer *l, bool values, uint32_t n)
{
    const int64_t dim = values ? l->head_dim_v : l->head_dim;
    return (size_t)fy_type_row_bytes(values ? l->type_v : l->type_k, (uint64_t)dim) * n;
}

uint8_t *fy_kv_run_at(const fy_kv_layer *l, bool values, uint32_t seq, uint32_t head, uint32_t pos)
{
    uint8_t *base = values ? l->v : l->k;
    const size_t row = fy_kv_run_bytes(l, values, 1);
    pos = pos < l->n_rows ? pos : pos % (uint32_t)l->n_rows;
    return base + (((size_t)seq * (size_t)l->n_head_kv + head) * (size_t)l->n_rows + pos) * row;
}

size_t fy_kv_move(const fy_kv_layer *l, bool values, uint32_t seq, uint32_t head, uint32_t begin,
                  uint32_t end, uint8_t *out, const uint8_t *in)
{
    size_t done = 0;
    for (uint32_t pos = begin, n; pos < end; pos += n) {
        const uint32_t room = (uint32_t)(l->n_rows - pos % l->n_rows);
        n = end - pos < room ? end - pos : room;
        const size_t bytes = fy_kv_run_bytes(l, values, n);
        uint8_t *at = fy_kv_run_at(l, values, seq, head, pos);
        if (out != NULL)
            memcpy(out + done, at, bytes);
        else
            memcpy(at, in + done, bytes);
        done += bytes;
    }
    return done;
}

int fy_session_check_saves(const fy_session *s, fy_err *e)
{
    if (s->d.sparse == FY_SPARSE_PREDICT)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the cache of a session that leaves out predicted neurons cannot be saved: "
                       "others would read it as the model's own");
    if (s->model->gpu != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the cache of a session that a GPU has a share in (--gpu-hot) cannot be "
                       "saved: its bits are those of that GPU");
    if (s->model->chain == NULL)
        return 0;
    return fy_fail(
        e, FY_EUNSUPPORTED,
        "the cache of a model in chunks cannot be saved: it lies in the graphs' tensors");
}

/* --- all that a session holds of a range: the first position that layers with a window have, rows
 * of the layers that keep every position, then the snapshots in the range and the tail at its end,
 * each after its position --- */

enum { POS_BYTES = sizeof(uint32_t) };

bool fy_session_keeps_rows(const fy_session *s, uint32_t layer)
{
    const fy_hparams *hp = &s->model->hp;
    return fy_kv_owns(hp, layer) && !(s->n_ring < s->n_ctx && fy_layer_has_window(hp, layer));
}

/* Every run of rows. Returns their bytes; neither out nor in: only that. */
static size_t move_rows(const fy_session *s, uint32_t seq, uint32_t begin, uint32_t end,
                        uint8_t *out, const uint8_t *in)
{
    size_t at = 0;
    for (uint32_t i = 0; i < 2 * s->model->hp.n_layer; i++) {
        if (!fy_session_keeps_rows(s, i / 2))
            continue;
        const fy_kv_layer l = fy_kv_at(&s->kv, i / 2);
        const size_t bytes = fy_kv_run_bytes(&l, i % 2, end - begin);
        for (uint32_t h = 0; h < (uint32_t)l.n_head_kv; h++, at += bytes) {
            if (out != NULL)
                fy_kv_move(&l, i % 2, seq, h, begin, end, out + at, NULL);
            else if (in != NULL)
                fy_kv_move(&l, i % 2, seq, h, begin, end, NULL, in + at);
        }
    }
    return at;
}

uint64_t fy_session_seq_bytes(const fy_session *s, uint32_t seq, uint32_t begin, uint32_t end)
{
    uint32_t n;
    const fy_snapshot *at = fy_snapshots_of(s, seq, &n);
    const size_t tail = fy_tail_bytes(s, end);
    uint64_t bytes = POS_BYTES + move_rows(s, seq, begin, end, NULL, NULL);
    for (uint32_t i = 0; i < n && at[i].pos < end; i++)
        bytes += at[i].pos > begin ? POS_BYTES + fy_tail_bytes(s, at[i].pos) : 0;
    return bytes + (tail > 0 ? POS_BYTES + tail : 0);
}

static uint8_t *put_pos(uint8_t *out, uint32_t pos)
{
    memcpy(out, &pos, POS_BYTES);
    return out + POS_BYTES;
}

int fy_session_seq_read(const fy_session *s, uint32_t seq, uint32_t begin, uint32_t end, void *out,
                        fy_err *e)
{
    if (fy_session_check_saves(s, e) != 0)
        return -1;
    const uint32_t n_past = fy_session_seq_n_past(s, seq);
    if (begin > end || end > n_past)
        return fy_fail(e, FY_EARG, "positions %u to %u of sequence %u, which holds %u", begin, end,
                       seq, n_past);
    if (begin == end)
        return 0;
    uint32_t n;
    const fy_snapshot *k = fy_snapshots_of(s, seq, &n);
    uint8_t *at = put_pos(out, s->low[seq]);
    at += move_rows(s, seq, begin, end, at, NULL);
    if (fy_tail_bytes(s, end) == 0)
        return 0;
    for (uint32_t i = 0; i < n && k[i].pos < end; i++) {
        if (k[i].pos <= begin)
            continue;
        at = put_pos(at, k[i].pos);
        memcpy(at, k[i].bytes, fy_tail_bytes(s, k[i].pos));
        at += fy_tail_bytes(s, k[i].pos);
    }
    if (fy_tail_read(s, seq, end, put_pos(at, end)))
        return 0;
    return fy_fail(e, FY_EUNSUPPORTED,
                   "%u positions of sequence %u, which holds %u: it can go back to %u", end, seq,
                   n_past, fy_session_seq_keeps(s, seq, end));
}

int fy_session_seq_write(fy_session *s, uint32_t seq, uint32_t begin, uint32_t end, const void *in,
                         fy_err *e)
{
    if (fy_session_check_saves(s, e) != 0)
        return -1;
    if (seq >= s->n_seq)
        return fy_fail(e, FY_EARG, "sequence %u, expected 0 to %u", seq, s->n_seq - 1);
    if (begin > end || begin > s->n_past[seq])
        return fy_fail(e, FY_EARG, "positions %u to %u after the %u of sequence %u", begin, end,
                       s->n_past[seq], seq);
    if (end > s->n_ctx)
        return fy_fail(e, FY_EFIT, "%u positions, the context has %u", end, s->n_ctx);
    fy_session_tree_drop(s);
    if (begin == end) {
        fy_session_seq_rewind(s, seq, end);
        return 0;
    }
    const uint8_t *at = (const uint8_t *)in + POS_BYTES;
    at += move_rows(s, seq, begin, end, NULL, at);
    fy_snapshots_drop(s, seq, begin);
    fy_states_forget(&s->states, seq);
    if (begin == 0 || fy_le32(in) > s->low[seq])
        s->low[seq] = fy_le32(in);
    s->n_past[seq] = end;
    for (uint32_t pos = 0; pos < end && fy_tail_bytes(s, end) > 0; at += fy_tail_bytes(s, pos)) {
        pos = fy_le32(at);
        at += POS_BYTES;
        uint8_t *bytes = pos < end ? fy_snapshots_add(s, seq, pos) : NULL;
        if (bytes != NULL)
            memcpy(bytes, at, fy_tail_bytes(s, pos));
        if (pos >= end)
            fy_tail_write(s, seq, end, at);
    }
    return 0;
}

uint32_t fy_session_saved_keeps(const fy_session *s, uint32_t end, const void *in, uint32_t n)
{
    const uint64_t low = fy_le32(in);
    const uint8_t *at = (const uint8_t *)in + POS_BYTES + move_rows(s, 0, 0, end, NULL, NULL);
    uint32_t best = 0;
    if (fy_tail_bytes(s, end) == 0)
        return low == 0 || low + s->model->hp.n_swa <= (uint64_t)n + 1 ? n : 0;
    for (uint32_t pos = 0; pos < n && pos < end; at += POS_BYTES + fy_tail_bytes(s, pos)) {
        pos = fy_le32(at);
        best = pos <= n ? pos : best;
    }
    return best;
}
