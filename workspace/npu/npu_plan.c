/* Where a model is cut for an NPU, and whether the chunks fit the chip. Cutting works on the bytes
 * of a counter (npu_count.c). */
#include "workspace/npu/npu_plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "workspace/npu/npu_count.h"
#include "workspace/npu/npu_ops.h"

/* --- cutting ---------------------------------------------------------------------------------- */

/* Buffers of one lm_head. Some phones do not map a region of 290 to 470 MB when their memory is
 * fragmented, and the logits of all tokens of a batch are one. */
#define HEAD_IO_BYTES ((uint64_t)256 << 20)

enum { TILE = 32 }; /* outputs: slices end at its multiples */

/* What one chunk may have. */
typedef struct {
    uint64_t file_bytes; /* its binary */
    uint64_t bytes;      /* its context */
} limits;

static limits limits_of(const fy_soc *soc)
{
    const uint64_t bytes =
        soc->context_bytes < soc->session_bytes ? soc->context_bytes : soc->session_bytes;
    return (limits){.file_bytes = soc->file_bytes, .bytes = bytes};
}

static bool keeps(const fy_npu_chunk *p, const limits *caps)
{
    return p->bytes != FY_NPU_TOO_MANY && p->bytes <= caps->bytes &&
           p->file_bytes <= caps->file_bytes;
}

/* --- layers ----------------------------------------------------------------------------------- */

/* What a range may have: the caps, and no more than `most` bytes. A range within another one never
 * has more bytes than that, so everything below may bisect. */
typedef struct {
    fy_npu_counter *c;
    const limits *caps; /* NULL: none */
    uint64_t most;
} rule;

static bool allowed(const rule *r, uint32_t first, uint32_t end)
{
    fy_npu_chunk p;
    fy_npu_count_layers(r->c, first, end, &p);
    return p.bytes <= r->most && (r->caps == NULL || keeps(&p, r->caps));
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

/* The fewest ranges that keep the caps; 0: a layer alone breaks them. */
static uint32_t fewest_chunks(fy_npu_counter *c, const limits *caps)
{
    const rule r = {.c = c, .caps = caps, .most = FY_NPU_TOO_MANY};
    const uint32_t n = fewest(&r, c->params->n_layers);
    return n <= c->params->n_layers ? n : 0;
}

/* The smallest `most` with which n ranges are enough. */
static uint64_t smallest_most(rule *r, uint32_t n)
{
    fy_npu_chunk whole;
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
static uint32_t even_end(const fy_npu_counter *c, uint32_t first, uint32_t infos)
{
    const uint32_t n = c->params->n_layers;
    const uint64_t share = (c->weights[n] - c->weights[first]) / infos;
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

/* n ranges (at least the fewest, at most one per layer) whose largest chunk is as small as that of
 * any n ranges that keep the caps; caps NULL: of any n ranges. end: [n]. */
static void cut_layers(fy_npu_counter *c, const limits *caps, uint32_t n, uint32_t *end)
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

static bool head_allowed(const fy_npu_counter *c, const limits *caps, uint32_t n_tokens)
{
    fy_npu_chunk p;
    fy_npu_count_head(c, 0, n_tokens, &p);
    return keeps(&p, caps) && p.io_bytes <= HEAD_IO_BYTES;
}

/* How many tokens each slice of the lm_head has, the last one perhaps fewer: as few slices as keep
 * the caps, of equal widths. 0: none does, or it would take more than FY_NPU_HEADS. */
static uint32_t head_width(const fy_npu_counter *c, const limits *caps)
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

/* --- the plan --------------------------------------------------------------------------------- */

enum {
    DEFAULT_CTX = 2048, /* of all published PowerServe packages, as are the batch sizes */
    DEFAULT_BATCH = 128,
    MORE_CHUNKS = 16, /* than the fewest, tried when they do not go into the sessions */
    ROW_BYTES = 128   /* of VTCM for each element of a row: see check_vtcm */
};

#define MIB ((uint64_t)1 << 20)
/* The process itself: ferry, QNN's libraries and what they allocate. An estimate. */
#define RUNTIME_BYTES (256 * MIB)
/* What Android and the apps in the background keep. An estimate. */
#define SYSTEM_BYTES (2048 * MIB)

/* --- parameters ------------------------------------------------------------------------------- */

static int sort_batches(fy_npu_params *p, fy_err *e)
{
    if (p->n_batches > FY_NPU_BATCHES)
        return fy_fail(e, FY_EARG, "%u batch sizes, expected at most %d", p->n_batches,
                       FY_NPU_BATCHES);
    for (uint32_t i = 0; i < p->n_batches; i++) {
        const uint32_t b = p->batch[i];
        uint32_t at = i;
        if (b < 1 || b > INT32_MAX)
            return fy_fail(e, FY_EARG, "a batch size of %u, expected 1 to %d", b, INT32_MAX);
        for (; at > 0 && p->batch[at - 1] <= b; at--) {
            if (p->batch[at - 1] == b)
                return fy_fail(e, FY_EARG, "batch size %u is given twice", b);
            p->batch[at] = p->batch[at - 1];
        }
        p->batch[at] = b;
    }
    return 0;
}

uint32_t fy_npu_default_ctx(const fy_hparams *hp)
{
    return hp->n_ctx_train < DEFAULT_CTX ? hp->n_ctx_train : DEFAULT_CTX;
}

static int complete(const fy_npu_model *m, const fy_npu_params *given, fy_npu_params *p, fy_err *e)
{
    *p = *given;
    if (p->n_batches == 0) {
        p->batch[p->n_batches++] = DEFAULT_BATCH;
        p->batch[p->n_batches++] = 1;
    }
    if (sort_batches(p, e) != 0)
        return -1;
    if (p->n_ctx == 0)
        p->n_ctx = fy_npu_default_ctx(&m->hp);
    if (p->n_ctx > INT32_MAX)
        return fy_fail(e, FY_EARG, "a context of %u, expected at most %d", p->n_ctx, INT32_MAX);
    if (p->kv_bits == 0)
        p->kv_bits = p->recipe->kv_bits;
    if (p->kv_bits != 8 && p->kv_bits != 16)
        return fy_fail(e, FY_EARG, "a KV cache of %u bits, expected 8 or 16", p->kv_bits);
    if (p->n_layers == 0)
        p->n_layers = m->hp.n_layer;
    if (p->n_layers > m->hp.n_layer || p->n_layers > FY_NPU_CHUNKS)
        return fy_fail(e, FY_EARG, "%u layers, but the model has %u", p->n_layers, m->hp.n_layer);
    if (p->n_chunks > p->n_layers)
        return fy_fail(e, FY_EARG, "%u chunks of %u layers, expected at most one of each layer",
                       p->n_chunks, p->n_layers);
    if (p->memory_bytes == 0)
        p->memory_bytes = p->soc->memory_bytes;
    return 0;
}

/* --- limits ----------------------------------------------------------------------------------- */

#define SIZE_TEXT_BYTES 32
static const char *size_text(uint64_t bytes, char out[SIZE_TEXT_BYTES])
{
    if (bytes == FY_NPU_TOO_MANY)
        snprintf(out, SIZE_TEXT_BYTES, "more than 64 bits count");
    else if (bytes >= 1000000000)
        snprintf(out, SIZE_TEXT_BYTES, "%.2f GB", (double)bytes * 1e-9);
    else
        snprintf(out, SIZE_TEXT_BYTES, "%.1f MB", (double)bytes * 1e-6);
    return out;
}

/* The first limit that is broken is the one that is reported: the checks run in the order in which
 * a user would want to hear of them. */
static bool broken(fy_npu_plan *p, fy_npu_limit limit)
{
    if (p->limit != FY_NPU_LIMIT_NONE)
        return false;
    p->limit = limit;
    p->fits = false;
    return true;
}

static void check_floor(const fy_npu_model *m, fy_npu_plan *p)
{
    const fy_npu_recipe *r = p->params.recipe;
    fy_err why = {0};
    if ((fy_graph_has_states(&m->hp) && fy_npu_recipe_check_states(r, p->params.soc, &why) != 0) ||
        fy_npu_recipe_check(r, p->params.soc, p->params.kv_bits, &why) != 0) {
        if (broken(p, FY_NPU_LIMIT_FLOOR))
            p->why = why;
        return;
    }
    for (size_t i = 0; i < m->n_tensors; i++) {
        const fy_npu_tensor *t = &m->tensors[i];
        const bool on_npu = t->matrix && (t->per_layer || t->slot == FY_T_OUTPUT);
        const fy_npu_type type = fy_npu_recipe_type(r, t->slot, t->layer);
        const char *refusal = on_npu ? fy_npu_type_refuses(type, t->n_in) : NULL;
        if (refusal == NULL || !broken(p, FY_NPU_LIMIT_FLOOR))
            continue;
        fy_fail(&p->why, FY_EFIT, "recipe '%s' has %s for rows of %llu: %s", r->name,
                fy_npu_type_name(type), (unsigned long long)t->n_in, refusal);
    }
}

/* Rows of a table that was learned position by position; no limit: UINT32_MAX. */
static uint64_t learned_positions(const fy_npu_model *m)
{
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].slot == FY_T_POSITION_EMBD)
            return m->tensors[i].n_out;
    }
    return UINT32_MAX;
}

static void check_context(const fy_npu_model *m, fy_npu_plan *p)
{
    const uint32_t n_ctx = p->params.n_ctx, batch = p->params.batch[0];
    const uint64_t learned = learned_positions(m);
    if (n_ctx <= batch && broken(p, FY_NPU_LIMIT_CONTEXT))
        fy_fail(&p->why, FY_EFIT,
                "a context of %u has no room for a cache beside a batch of %u; expected at least "
                "%llu",
                n_ctx, batch, (unsigned long long)batch + 1);
    else if (n_ctx > learned && broken(p, FY_NPU_LIMIT_CONTEXT))
        fy_fail(&p->why, FY_EFIT,
                "a context of %u, but the model knows %llu positions only: it has learned each of "
                "them (position_embd)",
                n_ctx, (unsigned long long)learned);
}

/* An operation is cut into slices of 8 x 4 positions at least (heights round up to 8, widths to 4),
 * and a slice of a softmax, norm or product has whole rows: 2 bytes an element, as input and as
 * output or as 32 columns of weights. */
static void check_vtcm(const fy_npu_model *m, fy_npu_plan *p)
{
    const uint64_t row = fy_npu_widest_row(m, p->params.n_ctx);
    const uint64_t has = p->params.soc->vtcm_mb * MIB, wants = fy_npu_mul(row, ROW_BYTES);
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];
    if (has != 0 && wants > has && broken(p, FY_NPU_LIMIT_VTCM))
        fy_fail(&p->why, FY_EFIT,
                "an operation on rows of %llu elements takes %s of VTCM, but %s "
                "has %s",
                (unsigned long long)row, size_text(wants, a), p->params.soc->name,
                size_text(has, b));
}

/* what: "layer 3 alone"; more: what would keep the limit. */
static void check_chunk(fy_npu_plan *p, const fy_npu_chunk *chunk, const char *what,
                        fy_npu_limit limit, const char *more)
{
    const limits caps = limits_of(p->params.soc);
    char bytes[SIZE_TEXT_BYTES], cap[SIZE_TEXT_BYTES], io[SIZE_TEXT_BYTES];
    if (keeps(chunk, &caps) || !broken(p, limit))
        return;
    if (chunk->file_bytes > caps.file_bytes)
        fy_fail(&p->why, FY_EFIT, "%s has a binary of %s, but one may have %s%s", what,
                size_text(chunk->file_bytes, bytes), size_text(caps.file_bytes, cap), more);
    else
        fy_fail(&p->why, FY_EFIT,
                "%s takes %s, %s of it buffers and KV cache, but a context of %s may take %s%s",
                what, size_text(chunk->bytes, bytes), size_text(chunk->io_bytes, io),
                p->params.soc->name, size_text(caps.bytes, cap), more);
}

static uint64_t bytes_of(const fy_npu_plan *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++)
        sum = fy_npu_add(sum, fy_npu_chunk_at(p, i)->bytes);
    return sum;
}

static void check_sessions(fy_npu_plan *p)
{
    const fy_soc *s = p->params.soc;
    char all[SIZE_TEXT_BYTES], one[SIZE_TEXT_BYTES];
    if (p->n_sessions > s->n_sessions && broken(p, FY_NPU_LIMIT_SESSIONS))
        fy_fail(&p->why, FY_EFIT,
                "all chunks take %s, in %u sessions of at most %s, but a process has %u on %s",
                size_text(bytes_of(p), all), p->n_sessions, size_text(s->session_bytes, one),
                s->n_sessions, s->name);
}

static void check_memory(fy_npu_plan *p)
{
    char wants[SIZE_TEXT_BYTES], has[SIZE_TEXT_BYTES], kept[SIZE_TEXT_BYTES];
    const uint64_t memory = p->params.memory_bytes;
    if (memory != 0 && fy_npu_add(p->npu_peak, SYSTEM_BYTES) > memory &&
        broken(p, FY_NPU_LIMIT_MEMORY))
        fy_fail(
            &p->why, FY_EFIT, "it takes %s of memory, but of the phone's %s the system keeps %s",
            size_text(p->npu_peak, wants), size_text(memory, has), size_text(SYSTEM_BYTES, kept));
}

/* --- chunks ----------------------------------------------------------------------------------- */

/* First fit, in order: the way the runtime opens them. How many sessions that takes; a chunk that
 * is larger than one has one to itself. */
static uint32_t pack(fy_npu_plan *p)
{
    uint64_t used[FY_NPU_CHUNKS + FY_NPU_HEADS] = {0};
    const uint64_t room = p->params.soc->session_bytes;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++) {
        fy_npu_chunk *chunk = fy_npu_chunk_at(p, i);
        uint32_t s = 0;
        while (s < n && fy_npu_add(used[s], chunk->bytes) > room)
            s++;
        n = s == n ? n + 1 : n;
        used[s] = fy_npu_add(used[s], chunk->bytes);
        chunk->session = s;
    }
    return n;
}

static int make_heads(fy_npu_plan *p, const fy_npu_counter *c, const limits *caps, fy_err *e)
{
    const uint32_t n_vocab = c->model->hp.n_vocab, width = head_width(c, caps);
    const uint32_t step = width > 0 ? width : n_vocab; /* what keeps no limit is shown whole */
    const uint32_t n = (n_vocab - 1) / step + 1;
    p->heads = calloc(n, sizeof *p->heads);
    if (p->heads == NULL)
        return fy_nomem(e);
    for (; p->n_heads < n; p->n_heads++) {
        const uint32_t first = p->n_heads * step;
        const uint32_t end = n_vocab - first > step ? first + step : n_vocab;
        fy_npu_count_head(c, first, end, &p->heads[p->n_heads]);
    }
    if (width == 0 && broken(p, FY_NPU_LIMIT_LAYER)) {
        char bytes[SIZE_TEXT_BYTES];
        fy_fail(&p->why, FY_EFIT,
                "the lm_head takes %s, and no slices of its %u tokens, up to %d of them, keep the "
                "limits of a context",
                size_text(p->heads[0].bytes, bytes), n_vocab, FY_NPU_HEADS);
    }
    return 0;
}

static void make_chunks(fy_npu_plan *p, fy_npu_counter *c, const limits *caps, uint32_t n)
{
    uint32_t end[FY_NPU_CHUNKS];
    cut_layers(c, caps, n, end);
    for (uint32_t i = 0; i < n; i++)
        fy_npu_count_layers(c, i > 0 ? end[i - 1] : 0, end[i], &p->chunks[i]);
    p->n_chunks = n;
}

/* As few as go into the sessions; when none do, as few as keep the limits of a context. */
static uint32_t make_fewest(fy_npu_plan *p, fy_npu_counter *c, const limits *caps, uint32_t fewest)
{
    const fy_soc *s = p->params.soc;
    const uint64_t all = fy_npu_mul(s->session_bytes, s->n_sessions);
    for (uint32_t n = fewest; n <= p->params.n_layers && n <= fewest + MORE_CHUNKS; n++) {
        make_chunks(p, c, caps, n);
        const uint32_t sessions = pack(p);
        if (sessions <= s->n_sessions)
            return sessions;
        if (bytes_of(p) > all)
            break;
    }
    make_chunks(p, c, caps, fewest);
    return pack(p);
}

static int cut(fy_npu_plan *p, fy_npu_counter *c, fy_err *e)
{
    const limits caps = limits_of(p->params.soc);
    const uint32_t fewest = fewest_chunks(c, &caps), asked = p->params.n_chunks;
    char what[64] = "", more[64] = "";
    p->chunks = calloc(p->params.n_layers, sizeof *p->chunks);
    if (p->chunks == NULL || make_heads(p, c, &caps, e) != 0)
        return fy_nomem(e);
    if (fewest == 0) {
        make_chunks(p, c, NULL, asked != 0 ? asked : p->params.n_layers);
        uint32_t l = 0;
        fy_npu_chunk one;
        do
            fy_npu_count_layers(c, l, l + 1, &one);
        while (keeps(&one, &caps) && ++l < p->params.n_layers);
        snprintf(what, sizeof what, "layer %u alone", l);
        check_chunk(p, &one, what, FY_NPU_LIMIT_LAYER, "");
    } else if (asked != 0) {
        make_chunks(p, c, asked >= fewest ? &caps : NULL, asked);
        snprintf(what, sizeof what, "the largest of %u chunks", asked);
        snprintf(more, sizeof more, "; %u chunks keep that", fewest);
        for (uint32_t i = 0; i < p->n_chunks; i++)
            check_chunk(p, &p->chunks[i], what, FY_NPU_LIMIT_CHUNKS, more);
    } else {
        p->n_sessions = make_fewest(p, c, &caps, fewest);
    }
    if (p->n_sessions == 0)
        p->n_sessions = pack(p);
    check_sessions(p);
    return 0;
}

static void total(fy_npu_plan *p, const fy_npu_model *m)
{
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++) {
        const fy_npu_chunk *one = fy_npu_chunk_at(p, i);
        p->weights = fy_npu_add(p->weights, one->weights);
        p->io = fy_npu_add(p->io, one->io_bytes);
        p->kv = fy_npu_add(p->kv, one->kv_bytes);
        if (one->compile_peak > p->compile_peak)
            p->compile_peak = one->compile_peak;
    }
    p->compile_seconds = fy_npu_compile_seconds(fy_npu_n_weights(m, p->params.n_layers),
                                                p->params.n_batches, p->params.recipe->float_core);
    p->embedding = fy_npu_embedding_bytes(m);
    p->npu_peak = fy_npu_add(fy_npu_add(p->embedding, bytes_of(p)), RUNTIME_BYTES);
    p->cpu_peak = fy_npu_cpu_peak(m, p->params.n_layers, p->params.n_ctx);
}

/* --- the plan --------------------------------------------------------------------------------- */

/* brief: no more than whether it fits. */
static int make(const fy_npu_model *m, const fy_npu_params *given, bool brief, fy_npu_plan *p,
                fy_err *e)
{
    fy_npu_counter c;
    *p = (fy_npu_plan){.fits = true};
    if (complete(m, given, &p->params, e) != 0)
        return -1;
    p->weights_shared = fy_soc_has(p->params.soc, FY_HTP_WEIGHT_SHARING);
    check_floor(m, p);
    check_context(m, p);
    check_vtcm(m, p);
    if (brief && !p->fits)
        return 0;
    if (fy_npu_counter_init(&c, m, &p->params, e) != 0)
        return -1;
    p->n_cache = c.n_cache;
    if (c.refused.code != FY_OK && broken(p, FY_NPU_LIMIT_FLOOR))
        p->why = c.refused;
    const int rc = cut(p, &c, e);
    fy_npu_counter_release(&c);
    if (rc != 0)
        return -1;
    total(p, m);
    check_memory(p);
    p->params.n_chunks = p->n_chunks;
    return 0;
}

int fy_npu_plan_make(const fy_npu_model *m, const fy_npu_params *given, fy_npu_plan *out, fy_err *e)
{
    fy_npu_plan p;
    const int rc = make(m, given, false, &p, e);
    if (rc == 0)
        *out = p;
    else
        fy_npu_plan_release(&p);
    return rc;
}

int fy_npu_plan_fits(const fy_npu_model *m, const fy_npu_params *given, bool *fits, fy_err *e)
{
    fy_npu_plan p;
    const int rc = make(m, given, true, &p, e);
    *fits = rc == 0 && p.fits;
    fy_npu_plan_release(&p);
    return rc;
}

void fy_npu_plan_release(fy_npu_plan *p)
{
    free(p->chunks);
    free(p->heads);
    *p = (fy_npu_plan){0};
}
