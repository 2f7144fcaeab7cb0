/* What the rows of a call see. */
#include "model/chain_mask.h"

static void set(uint16_t *row, uint32_t begin, uint32_t end, uint16_t value)
{
    for (; begin < end; begin++)
        row[begin] = value;
}

static uint32_t min32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The first position that the token at `pos` sees; n_swa 0: there is no window. */
static uint32_t first_seen(uint32_t pos, uint32_t n_swa)
{
    return n_swa == 0 || pos < n_swa ? 0 : pos - n_swa + 1;
}

static uint16_t *row_of(const fy_chain_masks *m, int which, uint32_t i)
{
    return m->bits[which] + (size_t)i * m->n_ctx;
}

static uint32_t window_of(const fy_chain_masks *m, int which)
{
    return which > 0 ? m->n_swa : 0;
}

static int n_used(const fy_chain_masks *m)
{
    return m->n_swa > 0 ? 2 : 1;
}

/* Row i of a call whose tokens follow n_past slots: the call's part of it never changes. */
static void write_row(const fy_chain_masks *m, int which, uint32_t i, uint32_t n_past)
{
    const uint32_t n_swa = window_of(m, which);
    uint16_t *row = row_of(m, which, i);
    set(row, 0, m->n_ctx, m->hides);
    set(row, min32(first_seen(n_past + i, n_swa), n_past), n_past, m->shows);
    set(row, m->n_cache + first_seen(i, n_swa), m->n_cache + i + 1, m->shows);
}

void fy_chain_masks_init(fy_chain_masks *m)
{
    m->n_shown = m->n_tree = 0;
    for (int which = 0; which < 2; which++) {
        for (uint32_t i = 0; i < m->n_batch; i++)
            write_row(m, which, i, 0);
    }
}

/* From n_shown filled slots to n_past. */
static void move_row(const fy_chain_masks *m, int which, uint32_t i, uint32_t n_past)
{
    const uint32_t n_swa = window_of(m, which), was_end = m->n_shown, end = n_past;
    const uint32_t was = min32(first_seen(was_end + i, n_swa), was_end);
    const uint32_t is = min32(first_seen(end + i, n_swa), end);
    uint16_t *row = row_of(m, which, i);
    set(row, was, min32(was_end, is), m->hides);
    set(row, max32(was, end), was_end, m->hides);
    set(row, is, min32(end, was), m->shows);
    set(row, max32(is, was_end), end, m->shows);
}

void fy_chain_masks_follow(fy_chain_masks *m, uint32_t n_past)
{
    if (m->n_shown == n_past && m->n_tree == 0)
        return;
    for (int which = 0; which < n_used(m); which++) {
        for (uint32_t i = 0; i < m->n_tree; i++)
            write_row(m, which, i, n_past);
        for (uint32_t i = m->n_tree; i < m->n_batch && m->n_shown != n_past; i++)
            move_row(m, which, i, n_past);
    }
    m->n_shown = n_past;
    m->n_tree = 0;
}

static uint32_t depth_of(const fy_token_tree *t, int32_t node)
{
    uint32_t depth = 0;
    while ((node = t->parent[node]) >= 0)
        depth++;
    return depth;
}

/* Row i, which is this node or, -1, padding. */
static void write_node(const fy_chain_masks *m, int which, uint32_t i, uint32_t n_past,
                       const fy_token_tree *t, int32_t node)
{
    uint32_t pos = n_past + (node >= 0 ? depth_of(t, node) : 0);
    const uint32_t first = first_seen(pos, window_of(m, which));
    uint16_t *row = row_of(m, which, i);
    set(row, 0, m->n_ctx, m->hides);
    set(row, min32(first, n_past), n_past, m->shows);
    row[m->n_cache + i] = m->shows;
    for (; node >= 0 && pos >= first; node = t->parent[node], pos--)
        row[node < t->first ? n_past + (uint32_t)node : m->n_cache + (uint32_t)(node - t->first)] =
            m->shows;
}

void fy_chain_masks_tree(fy_chain_masks *m, uint32_t n_past, const fy_token_tree *tree, uint32_t n,
                         uint32_t n_rows)
{
    if (m->n_shown != n_past)
        fy_chain_masks_follow(m, n_past);
    for (int which = 0; which < n_used(m); which++) {
        for (uint32_t i = 0; i < n_rows; i++)
            write_node(m, which, i, n_past, tree, i < n ? tree->first + (int32_t)i : -1);
    }
    m->n_tree = max32(m->n_tree, n_rows);
}
