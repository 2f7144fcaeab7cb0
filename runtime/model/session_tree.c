/* Trees of tokens after a sequence: the places of their nodes, and how a path becomes part of the
 * sequence. Node i is stored at row n_past + i, whatever its position. */
#include <string.h>

#include "model/session.h"

uint32_t fy_session_tree_n(const fy_session *s)
{
    return s->n_nodes;
}

void fy_session_tree_drop(fy_session *s)
{
    s->n_nodes = 0;
}

int fy_session_check_trees(const fy_session *s, fy_err *e)
{
    if (s->states.memory != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "a tree of tokens: the model has a state, which follows one path");
    return 0;
}

int fy_session_tree_check(const fy_session *s, const fy_batch *b, fy_err *e)
{
    const uint32_t seq = b->seqs != NULL ? b->seqs[0] : 0, old = s->n_nodes;
    if (fy_session_check_trees(s, e) != 0)
        return -1;
    if (seq >= s->n_seq)
        return fy_fail(e, FY_EARG, "a tree of sequence %u, expected 0 to %u", seq, s->n_seq - 1);
    if (old > 0 && s->tree_seq != seq)
        return fy_fail(e, FY_EARG, "a tree of sequence %u, that of %u is not finished", seq,
                       s->tree_seq);
    const uint32_t most = s->n_batch < FY_TREE_MAX - old ? s->n_batch : FY_TREE_MAX - old;
    if (b->n > most)
        return fy_fail(e, FY_EARG, "%u nodes of a tree, expected at most %u", b->n, most);
    if (b->n > s->n_ctx - s->n_past[seq] - old)
        return fy_fail(e, FY_EFIT,
                       "the context is full: %u positions, %u in use, %u nodes of a tree", s->n_ctx,
                       s->n_past[seq], old + b->n);
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->seqs != NULL && b->seqs[i] != seq)
            return fy_fail(e, FY_EARG, "node %u of a tree of sequence %u is of sequence %u",
                           old + i, seq, b->seqs[i]);
        if (b->parents[i] < -1 || b->parents[i] >= (int64_t)old + i)
            return fy_fail(e, FY_EARG, "node %u of a tree follows node %d, expected an earlier one",
                           old + i, b->parents[i]);
    }
    return 0;
}

static int32_t depth_of(const fy_session *s, int32_t node)
{
    int32_t depth = 0;
    while ((node = s->parents[node]) >= 0)
        depth++;
    return depth;
}

void fy_session_tree_fill(fy_session *s, const fy_batch *b)
{
    fy_activations *a = &s->d.act;
    const uint32_t old = s->n_nodes;
    s->tree_seq = b->seqs != NULL ? b->seqs[0] : 0;
    const int32_t n_past = (int32_t)s->n_past[s->tree_seq], seq = (int32_t)s->tree_seq;
    memcpy(s->parents + old, b->parents, b->n * sizeof *s->parents);
    for (uint32_t i = 0; i < b->n; i++) {
        a->at[i] = (fy_place){seq, n_past + depth_of(s, (int32_t)(old + i))};
        if (a->row != NULL) /* of graphs the slots say it */
            a->row[i] = (fy_place){seq, n_past + (int32_t)(old + i)};
    }
    s->tree = (fy_token_tree){.n_past = n_past, .first = (int32_t)old, .parent = s->parents};
    a->tree = &s->tree;
}

/* Rows n_past + path[i] of every head become n_past + i; none is written before it is read, as a
 * path ascends. */
static void move_rows(const fy_session *s, const int32_t *path, uint32_t n)
{
    const uint32_t n_past = s->n_past[s->tree_seq];
    for (uint32_t layer = 0; layer < s->model->hp.n_layer; layer++) {
        const fy_kv_layer l = fy_kv_at(&s->kv, layer);
        if (fy_kv_owner(&s->model->hp, layer) != layer)
            continue;
        for (int values = 0; values < 2; values++) {
            const size_t bytes = fy_kv_run_bytes(&l, values, 1);
            for (uint32_t h = 0; h < (uint32_t)l.n_head_kv; h++) {
                for (uint32_t i = 0; i < n; i++) {
                    if (path[i] != (int32_t)i)
                        memcpy(fy_kv_run_at(&l, values, s->tree_seq, h, n_past + i),
                               fy_kv_run_at(&l, values, s->tree_seq, h, n_past + path[i]), bytes);
                }
            }
        }
    }
}

int fy_session_tree_keep(fy_session *s, const int32_t *path, uint32_t n, fy_err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        if (path[i] < 0 || (uint32_t)path[i] >= s->n_nodes ||
            s->parents[path[i]] != (i > 0 ? path[i - 1] : -1))
            return fy_fail(e, FY_EARG, "a path of a tree of %u nodes: node %d does not follow %d",
                           s->n_nodes, path[i], i > 0 ? path[i - 1] : -1);
    }
    const fy_chain *c = s->model->chain;
    if (c != NULL)
        fy_chain_run_keep(s->chain, fy_chain_first_position(c) + s->n_past[0], path, n);
    else
        move_rows(s, path, n);
    s->n_past[s->tree_seq] += n;
    s->n_nodes = 0;
    return 0;
}
