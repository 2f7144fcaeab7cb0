/* Slots that are held: who waits for whom, what is read, filled and erased, and whose it is. The
 * engine is a fake that keeps ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/schedule.h"

enum { SEQS = 4, CTX = 300, BATCH = 64, STEPS = 100 };

static struct {
    int32_t held[SEQS][CTX];
    uint32_t n_past[SEQS];
} g;

static int decode(void *user, const fy_batch *b, const fy_eval_sinks *sinks, fy_err *e)
{
    const float row = 1;
    (void)user;
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t s = b->seqs[i];
        assert_true(s < SEQS && g.n_past[s] < CTX);
        g.held[s][g.n_past[s]++] = b->ids[i];
    }
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->wants[i] && sinks->logits(sinks->user, &row, i, 1, e) != 0)
            return -1;
    }
    return 0;
}

static uint32_t rewind_seq(void *user, uint32_t seq, uint32_t n_past)
{
    (void)user;
    assert_true(n_past <= g.n_past[seq]);
    g.n_past[seq] = n_past;
    return n_past;
}

static int copy_seq(void *user, uint32_t from, uint32_t to, uint32_t n, fy_err *e)
{
    (void)user;
    (void)e;
    assert_true(n <= g.n_past[from] && from != to);
    memcpy(g.held[to], g.held[from], n * sizeof g.held[0][0]);
    g.n_past[to] = n;
    return 0;
}

static double now(void *user)
{
    (void)user;
    return 1;
}

static size_t saved_bytes(void *user, uint32_t seq, uint32_t n)
{
    (void)user;
    (void)seq;
    return n;
}

static int save(void *user, uint32_t seq, uint32_t n, void *out, fy_err *e)
{
    (void)user;
    (void)e;
    assert_true(n <= g.n_past[seq]);
    memset(out, 0, n);
    return 0;
}

static int load(void *user, uint32_t seq, uint32_t n, const void *in, fy_err *e)
{
    (void)user;
    (void)in;
    (void)e;
    g.n_past[seq] = n;
    return 0;
}

static fy_schedule *new_schedule_with(size_t store_bytes)
{
    const fy_compute c = {.n_seq = SEQS,
                          .n_ctx = CTX,
                          .n_batch = BATCH,
                          .n_layer = 1,
                          .n_vocab = 1,
                          .n_embd = 1,
                          .decode = decode,
                          .rewind = rewind_seq,
                          .copy = copy_seq,
                          .now = now,
                          .saved_bytes = saved_bytes,
                          .save = save,
                          .load = load,
                          .store_bytes = store_bytes};
    memset(&g, 0, sizeof g);
    fy_schedule *s = fy_schedule_new(&c, 8, NULL, NULL);
    assert_non_null(s);
    return s;
}

static fy_schedule *new_schedule(void)
{
    return new_schedule_with(0);
}

/* --- tasks ------------------------------------------------------------------------------------ */

typedef struct {
    fy_seq_task t;
    uint32_t n_wanted;
    int ended; /* 1 + fy_seq_end */
} task;

static int logits(fy_seq_task *t, uint32_t pos, const float *row, fy_err *e)
{
    (void)row;
    return pos + 2 - t->n_prompt < ((task *)t)->n_wanted ? fy_ids_push(&t->ids, 5, e) : 0;
}

static bool never(fy_seq_task *t)
{
    (void)t;
    return false;
}

static void done(fy_seq_task *t, fy_seq_end end, const fy_err *e)
{
    (void)e;
    ((task *)t)->ended = 1 + (int)end;
}

static const fy_seq_calls calls = {.logits = logits, .gone = never, .paused = never, .done = done};

static void make(task *k, uint32_t n, int32_t salt, uint32_t n_wanted)
{
    *k = (task){.n_wanted = n_wanted,
                .t = {.calls = &calls, .n_prompt = n, .want_from = n - 1, .slot = -1}};
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(fy_ids_push(&k->t.ids, (int32_t)i * 7 + salt, NULL), 0);
}

static int submit(fy_schedule *s, task *k)
{
    fy_seq_task *t = &k->t;
    return fy_schedule_submit(s, &t, 1, NULL);
}

static void run(fy_schedule *s)
{
    for (int i = 0; i < STEPS; i++)
        fy_schedule_step(s);
}

/* --- holds ------------------------------------------------------------------------------------ */

typedef struct {
    fy_slot_hold h;
    uint32_t n_held, n_refused;
} hold;

static void on_held(fy_slot_hold *h, bool refused)
{
    hold *k = (hold *)h;
    *(refused ? &k->n_refused : &k->n_held) += 1;
}

static hold new_hold(fy_hold_kind kind, uint32_t slot, int user)
{
    return (hold){.h = {.kind = kind, .slot = slot, .user = user, .held = on_held}};
}

static void a_held_slot_waits_and_is_waited_for(void **state)
{
    (void)state;
    fy_schedule *s = new_schedule();
    task a, b, c;
    hold h = new_hold(FY_HOLD_READ, 1, 0), other = new_hold(FY_HOLD_READ, 2, 0);
    make(&a, 40, 1, 5);
    make(&b, 40, 2, 5);
    make(&c, 40, 3, 5);
    a.t.slot = b.t.slot = c.t.slot = 1;
    assert_int_equal(submit(s, &a), 0);
    assert_int_equal(submit(s, &b), 0);
    fy_schedule_step(s);
    assert_int_equal(fy_schedule_hold(s, &h.h, NULL), 0);
    assert_int_equal(submit(s, &c), 0);
    run(s);
    assert_true(a.ended == 1 + FY_SEQ_DONE && b.ended == 1 + FY_SEQ_DONE && c.ended == 0);
    assert_int_equal(h.n_held, 1);
    assert_int_equal(h.h.n_ids, b.t.ids.n);
    assert_memory_equal(h.h.ids, b.t.ids.id, b.t.ids.n * sizeof *h.h.ids);
    assert_int_equal(fy_schedule_hold(s, &other.h, NULL), 0); /* one at a time */
    fy_schedule_step(s);
    assert_int_equal(other.n_held, 0);
    fy_schedule_unhold(s, NULL);
    run(s);
    assert_true(c.ended == 1 + FY_SEQ_DONE && other.n_held == 1 && other.h.n_ids == 0);
    fy_ids_release(&a.t.ids);
    fy_ids_release(&b.t.ids);
    fy_ids_release(&c.t.ids);
    fy_schedule_free(s);
}

static void a_slot_that_was_filled_serves_its_user(void **state)
{
    (void)state;
    fy_schedule *s = new_schedule();
    task a, b;
    fy_ids ids = {0};
    hold h = new_hold(FY_HOLD_FILL, 3, 7);
    make(&a, 60, 5, 3);
    make(&b, 60, 5, 3);
    a.t.user = 7;
    b.t.user = 8;
    assert_int_equal(fy_schedule_hold(s, &h.h, NULL), 0);
    fy_schedule_step(s);
    assert_int_equal(h.n_held, 1);
    assert_int_equal(fy_ids_append(&ids, a.t.ids.id, 50, NULL), 0);
    memcpy(g.held[3], ids.id, 50 * sizeof(int32_t)); /* what the worker does */
    g.n_past[3] = 50;
    fy_schedule_unhold(s, &ids);
    assert_null(ids.id);
    assert_int_equal(submit(s, &b), 0);
    assert_int_equal(submit(s, &a), 0);
    run(s);
    assert_true(a.ended == 1 + FY_SEQ_DONE && b.ended == 1 + FY_SEQ_DONE);
    assert_int_equal(a.t.n_cached, 50);
    assert_int_equal(b.t.n_cached, 0);
    fy_ids_release(&a.t.ids);
    fy_ids_release(&b.t.ids);
    fy_schedule_free(s);
}

static void what_is_erased_is_the_users_own(void **state)
{
    (void)state;
    fy_schedule *s = new_schedule();
    task a;
    fy_slot_state slots[SEQS];
    hold stranger = new_hold(FY_HOLD_ERASE, 0, 2), owner = new_hold(FY_HOLD_ERASE, 0, 1);
    make(&a, 60, 5, 3);
    a.t.user = 1;
    a.t.slot = 0;
    assert_int_equal(submit(s, &a), 0);
    run(s);
    assert_int_equal(fy_schedule_hold(s, &stranger.h, NULL), 0);
    fy_schedule_step(s);
    assert_true(stranger.n_held == 1 && stranger.h.n_ids == 0);
    fy_schedule_slots(s, slots);
    assert_true(slots[0].n_cached_ids > 0);
    assert_int_equal(fy_schedule_hold(s, &owner.h, NULL), 0);
    fy_schedule_step(s);
    assert_true(owner.n_held == 1 && owner.h.n_ids > 0);
    fy_schedule_slots(s, slots);
    assert_true(slots[0].n_cached_ids == 0 && g.n_past[0] == 0);
    fy_ids_release(&a.t.ids);
    fy_schedule_free(s);
}

/* A text that came back from the store is still there; with its slot it goes from there, too. */
static void erasing_reaches_the_store(void **state)
{
    (void)state;
    for (int erases = 0; erases < 2; erases++) {
        fy_schedule *s = new_schedule_with(1 << 20);
        task k[4];
        hold h = new_hold(FY_HOLD_ERASE, 0, 0);
        for (int i = 0; i < 4;
             i++) { /* a text, another one in its slot, and twice the first again */
            if (i == 3 && erases) {
                assert_int_equal(fy_schedule_hold(s, &h.h, NULL), 0);
                fy_schedule_step(s);
                assert_true(h.n_held == 1 && h.h.n_ids > 0);
            }
            make(&k[i], 100, i == 1 ? 9 : 3, 2);
            k[i].t.slot = 0;
            assert_int_equal(submit(s, &k[i]), 0);
            run(s);
            assert_int_equal(k[i].ended, 1 + FY_SEQ_DONE);
        }
        assert_int_equal(k[1].t.n_cached, 0);
        assert_true(k[2].t.n_cached > 90);
        assert_int_equal(k[3].t.n_cached > 0, !erases);
        for (int i = 0; i < 4; i++)
            fy_ids_release(&k[i].t.ids);
        fy_schedule_free(s);
    }
}

static void closing_refuses_holds(void **state)
{
    (void)state;
    fy_schedule *s = new_schedule();
    task a;
    hold waits = new_hold(FY_HOLD_READ, 0, 0), late = new_hold(FY_HOLD_READ, 1, 0);
    make(&a, 60, 5, 3);
    a.t.slot = 0;
    assert_int_equal(submit(s, &a), 0);
    fy_schedule_step(s);
    assert_int_equal(fy_schedule_hold(s, &waits.h, NULL), 0);
    fy_schedule_close(s, false);
    run(s);
    assert_true(waits.n_refused == 1 && waits.n_held == 0 && a.ended == 1 + FY_SEQ_DONE);
    assert_int_equal(fy_schedule_hold(s, &late.h, NULL), -1);
    fy_ids_release(&a.t.ids);
    fy_schedule_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_slot_waits_and_is_waited_for),
        cmocka_unit_test(a_slot_that_was_filled_serves_its_user),
        cmocka_unit_test(what_is_erased_is_the_users_own),
        cmocka_unit_test(closing_refuses_holds),
        cmocka_unit_test(erasing_reaches_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
