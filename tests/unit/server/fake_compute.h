/* What computes, for tests of the scheduler: the next id is a hash of the text so far, as its
 * sequence holds it. It may be a model with states, whose sequences go back to their end, to a mark
 * or to nothing. */
#ifndef FY_TESTS_FAKE_COMPUTE_H
#define FY_TESTS_FAKE_COMPUTE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/schedule.h"

enum { N_VOCAB = 50, SEQS = 4, CTX = 300, BATCH = 64, MARKS = 3 };

static uint32_t g_seed;
static uint32_t draw(uint32_t below)
{
    g_seed = g_seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)g_seed * below) >> 32);
}

/* --- the engine ------------------------------------------------------------------------------- */

static struct {
    int32_t held[SEQS][CTX];
    uint32_t n_past[SEQS];
    double now, id_s;
    uint32_t n_steps, n_ids, n_copied, n_loaded, last_n;
    bool fails;
    bool *leaves; /* somebody does during the next step */
    fy_schedule *told;
    bool has_states;                /* a sequence goes back to its end, a mark or nothing */
    uint32_t marks[SEQS][MARKS + 1]; /* ascending, 0 after them */
} g;

static uint32_t text_hash(const int32_t *ids, uint32_t n)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ (uint32_t)ids[i]) * 16777619u;
    return (h >> 8) % N_VOCAB;
}

static int decode(void *user, const fy_batch *b, const fy_eval_sinks *sinks, fy_err *e)
{
    uint32_t before[SEQS];
    (void)user;
    memcpy(before, g.n_past, sizeof before);
    assert_true(b->n > 0);
    g.n_steps++;
    g.n_ids += b->n;
    g.last_n = b->n;
    g.now += 0.001 + g.id_s * b->n;
    if (g.leaves != NULL) {
        *g.leaves = true;
        g.leaves = NULL;
        fy_schedule_poke(g.told);
    }
    if (g.fails || (sinks->cancel != NULL && atomic_load(sinks->cancel)))
        return fy_fail(e, g.fails ? FY_EIO : FY_EINTR, "no");
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t s = b->seqs[i];
        assert_true(s < SEQS && g.n_past[s] < CTX);
        g.held[s][g.n_past[s]++] = b->ids[i];
    }
    for (uint32_t i = 0; i < b->n; i++) {
        const float next = (float)text_hash(g.held[b->seqs[i]], ++before[b->seqs[i]]);
        if (sinks->hidden != NULL &&
            sinks->hidden(sinks->user, 7, &next, i, 1, e) != 0)
            return -1;
        if (b->wants[i] && sinks->logits(sinks->user, &next, i, 1, e) != 0)
            return -1;
    }
    return 0;
}

static uint32_t last_mark(const uint32_t *marks, uint32_t n)
{
    uint32_t best = 0;
    for (; *marks != 0 && *marks <= n; marks++)
        best = *marks;
    return best;
}

static uint32_t keeps_seq(void *user, uint32_t seq, uint32_t n)
{
    (void)user;
    assert_true(n <= g.n_past[seq]);
    return g.has_states && n < g.n_past[seq] ? last_mark(g.marks[seq], n) : n;
}

static void snapshot(void *user, uint32_t seq)
{
    uint32_t *m = g.marks[seq], n = 0;
    (void)user;
    while (m[n] != 0)
        n++;
    if (g.n_past[seq] == 0 || (n > 0 && m[n - 1] == g.n_past[seq]))
        return;
    if (n == MARKS)
        memmove(m, m + 1, n-- * sizeof *m);
    m[n] = g.n_past[seq];
    m[n + 1] = 0;
}

static void drop_marks(uint32_t seq, uint32_t above)
{
    for (uint32_t i = 0; i < MARKS; i++) {
        if (g.marks[seq][i] > above)
            g.marks[seq][i] = 0;
    }
}

static uint32_t rewind_seq(void *user, uint32_t seq, uint32_t n_past)
{
    g.n_past[seq] = keeps_seq(user, seq, n_past);
    drop_marks(seq, g.n_past[seq]);
    return g.n_past[seq];
}

static int copy_seq(void *user, uint32_t from, uint32_t to, uint32_t n, fy_err *e)
{
    (void)user;
    assert_true(n <= g.n_past[from] && from != to);
    if (keeps_seq(user, from, n) != n)
        return fy_fail(e, FY_EUNSUPPORTED, "there is no mark");
    drop_marks(to, 0);
    memcpy(g.held[to], g.held[from], n * sizeof g.held[0][0]);
    g.n_past[to] = n;
    g.n_copied += n;
    return 0;
}

static double now(void *user)
{
    (void)user;
    return g.now;
}

static size_t saved_bytes(void *user, uint32_t seq, uint32_t n)
{
    (void)user;
    (void)seq;
    return n * sizeof(int32_t) + (g.has_states ? sizeof g.marks[0] : 0);
}

static int save(void *user, uint32_t seq, uint32_t n, void *out, fy_err *e)
{
    (void)user;
    (void)e;
    assert_true(n <= g.n_past[seq]);
    memcpy(out, g.held[seq], n * sizeof(int32_t));
    if (g.has_states)
        memcpy((int32_t *)out + n, g.marks[seq], sizeof g.marks[0]);
    return 0;
}

static int load(void *user, uint32_t seq, uint32_t n, const void *in, fy_err *e)
{
    (void)user;
    (void)e;
    memcpy(g.held[seq], in, n * sizeof(int32_t));
    if (g.has_states)
        memcpy(g.marks[seq], (const int32_t *)in + n, sizeof g.marks[0]);
    g.n_past[seq] = n;
    g.n_loaded += n;
    return 0;
}

static uint32_t saved_keeps(void *user, uint32_t n_saved, const void *in, uint32_t n)
{
    (void)user;
    return !g.has_states || n == n_saved ? n : last_mark((const uint32_t *)in + n_saved, n);
}

static fy_schedule *new_schedule_of(uint32_t queue, size_t store_bytes, bool has_states)
{
    const fy_compute c = {.n_seq = SEQS,
                                 .n_ctx = CTX,
                                 .n_batch = BATCH,
                                 .n_layer = 7,
                                 .n_vocab = 1,
                                 .n_embd = 1,
                                 .decode = decode,
                                 .rewind = rewind_seq,
                                 .copy = copy_seq,
                                 .now = now,
                                 .keeps = keeps_seq,
                                 .snapshot = has_states ? snapshot : NULL,
                                 .saved_keeps = saved_keeps,
                                 .saved_bytes = saved_bytes,
                                 .save = save,
                                 .load = load,
                                 .store_bytes = store_bytes};
    memset(&g, 0, sizeof g);
    g.id_s = 0.0001;
    g.has_states = has_states;
    fy_schedule *s = fy_schedule_new(&c, queue, NULL, NULL);
    assert_non_null(s);
    return s;
}

static fy_schedule *new_schedule_with(uint32_t queue, size_t store_bytes)
{
    return new_schedule_of(queue, store_bytes, false);
}

static fy_schedule *new_schedule(uint32_t queue)
{
    return new_schedule_with(queue, 0);
}

#endif
