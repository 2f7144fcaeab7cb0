#include "model/graph_mask.h"

#include <string.h>

void fy_graph_mask_lay_out(fy_graph_mask *m, uint32_t n_batch, uint32_t n_cache, fy_layout *c)
{
    *m = (fy_graph_mask){0};
    m->slots = fy_lay_out(c, n_cache, 1, sizeof *m->slots);
    m->shown = fy_lay_out(c, n_cache, 1, sizeof *m->shown);
    m->at = fy_lay_out(c, n_batch, 1, sizeof *m->at);
    m->first = fy_lay_out(c, n_batch, 1, sizeof *m->first);
}

static bool is_shown(uint16_t bits)
{
    return (bits & 0x7fff) == 0;
}

static bool only_shows_or_hides(const uint16_t *row, uint32_t n, uint16_t hidden)
{
    bool odd = false;
    for (uint32_t c = 0; c < n; c++)
        odd |= row[c] != hidden && (row[c] & 0x7fff) != 0;
    return !odd;
}

static void find_slots(fy_graph_mask *m, const fy_graph_mask_in *in)
{
    memset(m->shown, 0, in->n_cache);
    for (uint32_t r = 0; r < in->n_batch; r++) {
        const uint16_t *row = in->bits + (size_t)r * in->n_ctx;
        for (uint32_t c = 0; c < in->n_cache; c++)
            m->shown[c] |= is_shown(row[c]);
    }
    const uint8_t *first = memchr(m->shown, 1, in->n_cache);
    m->first_shown = first != NULL ? first - m->shown : 0;
    m->n_slots = 0;
    for (uint32_t c = 0; first != NULL && c < in->n_cache; c++) {
        if (c < m->first_shown || m->shown[c])
            m->slots[m->n_slots++] = (int32_t)c;
    }
}

static int read_row(fy_graph_mask *m, const fy_graph_mask_in *in, uint32_t r, fy_err *e)
{
    const uint16_t *row = in->bits + (size_t)r * in->n_ctx, *call = row + in->n_cache;
    const int64_t self = m->n_slots + r;
    int64_t rank = m->first_shown;
    if (!only_shows_or_hides(row, in->n_ctx, in->hidden))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s, row %u: expected 0 or the value that hides (attention_mask_value) in "
                       "every column",
                       in->name, r);
    while (rank < m->n_slots && !is_shown(row[m->slots[rank]]))
        rank++;
    while (rank >= m->n_slots && rank < self && !is_shown(call[rank - m->n_slots]))
        rank++;
    m->at[r] = (fy_place){0, (int32_t)self};
    m->first[r] = (int32_t)rank;
    while (rank < m->n_slots && is_shown(row[m->slots[rank]]))
        rank++;
    while (rank >= m->n_slots && rank <= self && is_shown(call[rank - m->n_slots]))
        rank++;
    bool behind = rank <= self; /* a hole */
    for (uint32_t c = r + 1; c < in->n_ctx - in->n_cache; c++)
        behind |= is_shown(call[c]);
    return !behind ? 0
                   : fy_fail(e, FY_EUNSUPPORTED,
                             "%s, row %u: the columns that it shows are not one run that ends with "
                             "its own token (column %u); the CPU computes no other mask",
                             in->name, r, in->n_cache + r);
}

int fy_graph_mask_read(fy_graph_mask *m, const fy_graph_mask_in *in, fy_err *e)
{
    find_slots(m, in);
    for (uint32_t r = 0; r < in->n_batch; r++) {
        if (read_row(m, in, r, e) != 0)
            return -1;
    }
    return 0;
}
