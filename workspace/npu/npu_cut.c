#include "workspace/npu/npu_cut.h"

/* Buffers of one lm_head. Some phones do not map a region of 290 to 470 MB when their memory is
 * fragmented, and the logits of all tokens of a batch are one. */
#define HEAD_IO_BYTES ((uint64_t)256 << 20)

enum { TILE = 32 }; /* outputs: slices end at its multiples */

fy_npu_caps fy_npu_caps_of(const fy_soc *soc)
{
    const uint64_t bytes =
        soc->context_bytes < soc->session_bytes ? soc->context_bytes : soc->session_bytes;
    return (fy_npu_caps){.file_bytes = soc->file_bytes, .bytes = bytes};
}

bool fy_npu_piece_keeps(const fy_npu_piece *p, const fy_npu_caps *caps)
{
    return p->bytes != FY_NPU_TOO_MANY && p->bytes <= caps->bytes &&
           p->file_bytes <= caps->file_bytes;
}

/* --- layers ----------------------------------------------------------------------------------- */

/* What a range may have: the caps, and no more than `most` bytes. A range within another one never
 * has more bytes than that, so everything below may bisect. */
typedef struct {
    fy_npu_counter *c;
    const fy_npu_caps *caps; /* NULL: none */
    uint64_t most;
} rule;

static bool allowed(const rule *r, uint32_t first, uint32_t end)
{
    fy_npu_piece p;
    fy_npu_count_layers(r->c, first, end, &p);
    return p.bytes <= r->most && (r->caps == NULL || fy_npu_piece_keeps(&p, r->caps));
}

/* The largest end of a range that begins here; `first` itself when there is none. */
static uint32_t farthest_end(const rule *r, uint32_t first)
{
    uint32_t lo = first, hi = r->c->params->n_layers;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo + 1) / 2;
        if (allowed(r, first, mid))
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* The smallest beginning of a range that ends here. */
static uint32_t farthest_first(const rule *r, uint32_t end)
{
    uint32_t lo = 0, hi = end;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (allowed(r, mid, end))
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* As few ranges as the rule allows; more than n_most: n_most + 1. */
static uint32_t fewest(const rule *r, uint32_t n_most)
{
    uint32_t n = 0;
    for (uint32_t at = 0; at < r->c->params->n_layers && n <= n_most; n++) {
        const uint32_t end = farthest_end(r, at);
        if (end == at)
            return n_most + 1;
        at = end;
    }
    return n;
}

uint32_t fy_npu_fewest_chunks(fy_npu_counter *c, const fy_npu_caps *caps)
{
    const rule r = {.c = c, .caps = caps, .most = FY_NPU_TOO_MANY};
    const uint32_t n = fewest(&r, c->params->n_layers);
    return n <= c->params->n_layers ? n : 0;
}

/* The smallest `most` with which n ranges are enough. */
static uint64_t smallest_most(rule *r, uint32_t n)
{
    fy_npu_piece whole;
    fy_npu_count_layers(r->c, 0, r->c->params->n_layers, &whole);
    uint64_t lo = whole.bytes / n, hi = whole.bytes; /* what is cut does not get smaller */
    while (lo < hi) {
        r->most = lo + (hi - lo) / 2;
        if (fewest(r, n) <= n)
            hi = r->most;
        else
            lo = r->most + 1;
    }
    return hi;
}

/* Where the first of `parts` ranges of equal weight from `first` on would end. */
static uint32_t even_end(const fy_npu_counter *c, uint32_t first, uint32_t parts)
{
    const uint32_t n = c->params->n_layers;
    const uint64_t share = (c->weights[n] - c->weights[first]) / parts;
    uint32_t end = first + 1;
    while (end < n && c->weights[end] - c->weights[first] < share)
        end++;
    const uint64_t over = c->weights[end] - c->weights[first] - share;
    const bool nearer = end > first + 1 && share - (c->weights[end - 1] - c->weights[first]) < over;
    return nearer ? end - 1 : end;
}

/* latest[k]: the rest from there on is no more than k ranges, and no earlier beginning is. */
static void find_latest(const rule *r, uint32_t n, uint32_t *latest)
{
    latest[0] = r->c->params->n_layers;
    for (uint32_t k = 1; k <= n; k++)
        latest[k] = farthest_first(r, latest[k - 1]);
}

void fy_npu_cut_layers(fy_npu_counter *c, const fy_npu_caps *caps, uint32_t n, uint32_t *end)
{
    uint32_t latest[FY_NPU_CHUNKS + 1];
    rule r = {.c = c, .caps = caps};
    if (n == 1) {
        end[0] = c->params->n_layers;
        return;
    }
    r.most = smallest_most(&r, n);
    find_latest(&r, n, latest);
    /* Any end between the two borders leaves a rest that keeps the rule; the one nearest to an even
     * share keeps the last range from being a remnant. */
    for (uint32_t i = 0, first = 0; i < n; i++) {
        const uint32_t rest = n - i - 1;
        const uint32_t at_least = latest[rest] > first + 1 ? latest[rest] : first + 1;
        const uint32_t far = farthest_end(&r, first);
        const uint32_t last = c->params->n_layers - rest; /* a layer for each of the others */
        const uint32_t at_most = far < last ? far : last;
        const uint32_t even = even_end(c, first, n - i);
        end[i] = even < at_least ? at_least : even > at_most ? at_most : even;
        first = end[i];
    }
}

/* --- lm_head ---------------------------------------------------------------------------------- */

static bool head_allowed(const fy_npu_counter *c, const fy_npu_caps *caps, uint32_t n_tokens)
{
    fy_npu_piece p;
    fy_npu_count_head(c, 0, n_tokens, &p);
    return fy_npu_piece_keeps(&p, caps) && p.io_bytes <= HEAD_IO_BYTES;
}

uint32_t fy_npu_head_width(const fy_npu_counter *c, const fy_npu_caps *caps)
{
    const uint32_t n_vocab = c->model->hp.n_vocab;
    if (head_allowed(c, caps, n_vocab))
        return n_vocab;
    uint32_t lo = 0, hi = (n_vocab - 1) / TILE; /* in tiles; less than all of it */
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo + 1) / 2;
        if (head_allowed(c, caps, mid * TILE))
            lo = mid;
        else
            hi = mid - 1;
    }
    if (lo == 0 || ((uint64_t)n_vocab - 1) / ((uint64_t)lo * TILE) >= FY_NPU_HEADS)
        return 0;
    const uint32_t n = (n_vocab - 1) / (lo * TILE) + 1;
    const uint32_t even = (n_vocab - 1) / n + 1;
    return (even + TILE - 1) / TILE * TILE;
}
