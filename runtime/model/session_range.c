/* Positions of a sequence out of a session's cache and back into it. */
#include <string.h>

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
    return base + (((size_t)seq * (size_t)l->n_head_kv + head) * (size_t)l->n_ctx + pos) * row;
}

int fy_session_check_saves(const fy_session *s, fy_err *e)
{
    if (s->model->chain == NULL)
        return 0;
    return fy_fail(
        e, FY_EUNSUPPORTED,
        "the cache of a model in chunks cannot be saved: it lies in the graphs' tensors");
}

uint64_t fy_session_seq_bytes(const fy_session *s, uint32_t n)
{
    const fy_kv_layer *l = &s->kv.shape;
    return ((uint64_t)fy_kv_run_bytes(l, false, n) + fy_kv_run_bytes(l, true, n)) *
           (uint64_t)l->n_head_kv * s->model->hp.n_layer;
}

/* Every run of rows in the order of fy_session_seq_read. */
static void copy(const fy_session *s, uint32_t seq, uint32_t begin, uint32_t end, uint8_t *out,
                 const uint8_t *in)
{
    for (uint32_t i = 0; i < s->model->hp.n_layer; i++) {
        const fy_kv_layer l = fy_kv_at(&s->kv, i);
        for (int values = 0; values < 2; values++) {
            const size_t bytes = fy_kv_run_bytes(&l, values, end - begin);
            for (uint32_t h = 0; h < (uint32_t)l.n_head_kv; h++) {
                uint8_t *at = fy_kv_run_at(&l, values, seq, h, begin);
                if (out != NULL) {
                    memcpy(out, at, bytes);
                    out += bytes;
                } else {
                    memcpy(at, in, bytes);
                    in += bytes;
                }
            }
        }
    }
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
    if (begin < end)
        copy(s, seq, begin, end, out, NULL);
    return 0;
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
    if (begin < end)
        copy(s, seq, begin, end, NULL, in);
    s->n_past[seq] = end;
    return 0;
}
