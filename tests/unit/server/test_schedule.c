/* The scheduler against an engine of which every result is known: the next id is a hash of the text
 * so far, as its sequence holds it. Whatever is shared, copied, paused, cancelled or waits, a task
 * gets what it would get alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/schedule.h"

enum { N_VOCAB = 50, SEQS = 4, CTX = 300, BATCH = 64 };

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
    bool fails, cancels;
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

static void rewind_seq(void *user, uint32_t seq, uint32_t n_past)
{
    (void)user;
    assert_true(n_past <= g.n_past[seq]);
    g.n_past[seq] = n_past;
}

static int copy_seq(void *user, uint32_t from, uint32_t to, uint32_t n, fy_err *e)
{
    (void)user;
    (void)e;
    assert_true(n <= g.n_past[from] && from != to);
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

static size_t saved_bytes(void *user, uint32_t n)
{
    (void)user;
    return n * sizeof(int32_t);
}

static int save(void *user, uint32_t seq, uint32_t n, void *out, fy_err *e)
{
    (void)user;
    (void)e;
    assert_true(n <= g.n_past[seq]);
    memcpy(out, g.held[seq], n * sizeof(int32_t));
    return 0;
}

static int load(void *user, uint32_t seq, uint32_t n, const void *in, fy_err *e)
{
    (void)user;
    (void)e;
    memcpy(g.held[seq], in, n * sizeof(int32_t));
    g.n_past[seq] = n;
    g.n_loaded += n;
    return 0;
}

static fy_schedule *new_schedule_with(uint32_t queue, size_t store_bytes)
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
                                 .saved_bytes = saved_bytes,
                                 .save = save,
                                 .load = load,
                                 .store_bytes = store_bytes};
    memset(&g, 0, sizeof g);
    g.id_s = 0.0001;
    fy_schedule *s = fy_schedule_new(&c, queue, NULL, NULL);
    assert_non_null(s);
    return s;
}

static fy_schedule *new_schedule(uint32_t queue)
{
    return new_schedule_with(queue, 0);
}

/* --- tasks ------------------------------------------------------------------------------------ */

typedef struct {
    fy_seq_task t;
    uint32_t n_wanted, n_got;
    uint32_t n_rows, n_hidden; /* logits and hidden rows that it saw */
    bool gone, paused, scores;
    int ended; /* 1 + fy_seq_end */
    double first_s, last_s, most_gap_s;
    uint32_t begun_as; /* the order in which tasks saw their first logits */
} task;

static uint32_t g_begun;

static int logits(fy_seq_task *t, uint32_t pos, const float *row, fy_err *e)
{
    task *k = (task *)t;
    k->n_rows++;
    assert_true(pos < t->ids.n);
    assert_int_equal((uint32_t)row[0], text_hash(t->ids.id, pos + 1));
    if (pos + 1 < t->n_prompt)
        return 0;
    if (k->n_got == 0) {
        k->first_s = g.now;
        k->begun_as = ++g_begun;
    } else if (g.now - k->last_s > k->most_gap_s) {
        k->most_gap_s = g.now - k->last_s;
    }
    k->last_s = g.now;
    if (++k->n_got >= k->n_wanted)
        return 0;
    return fy_ids_push(&t->ids, (int32_t)row[0], e);
}

static int hidden(fy_seq_task *t, uint32_t pos, const float *x, uint32_t n, fy_err *e)
{
    task *k = (task *)t;
    (void)e;
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal((uint32_t)x[i], text_hash(t->ids.id, pos + i + 1));
    k->n_hidden += n;
    return 0;
}

static bool gone(fy_seq_task *t)
{
    return ((task *)t)->gone;
}

static bool paused(fy_seq_task *t)
{
    return ((task *)t)->paused;
}

static void done(fy_seq_task *t, fy_seq_end end, const fy_err *e)
{
    task *k = (task *)t;
    assert_int_equal(k->ended, 0);
    assert_true((end == FY_SEQ_FAILED) == (e != NULL && e->code != FY_OK) ||
                end == FY_SEQ_CANCELLED);
    k->ended = 1 + (int)end;
}

static const fy_seq_calls calls = {.logits = logits, .gone = gone, .paused = paused, .done = done};
static const fy_seq_calls hidden_calls = {
    .logits = logits, .hidden = hidden, .gone = gone, .paused = paused, .done = done};

/* A prompt of n ids: `common` of one text, then of another. */
static void make(task *k, uint32_t common, uint32_t n, uint32_t salt, uint32_t n_wanted)
{
    *k = (task){.n_wanted = n_wanted,
                .t = {.calls = &calls, .n_prompt = n, .want_from = n - 1, .slot = -1}};
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(
            fy_ids_push(&k->t.ids, (int32_t)((i < common ? i * 7 : i * 11 + salt) % N_VOCAB), NULL),
            0);
}

static int submit(fy_schedule *s, task *k)
{
    fy_seq_task *t = &k->t;
    return fy_schedule_submit(s, &t, 1, NULL);
}

static void run_all(fy_schedule *s)
{
    for (int i = 0; i < 100000 && fy_schedule_step(s); i++)
        ;
}

/* Did it get what its prompt gives, alone? */
static void check_answer(const task *k)
{
    int32_t ids[CTX + 1];
    assert_int_equal(k->ended, 1 + FY_SEQ_DONE);
    assert_int_equal(k->n_got, k->n_wanted);
    memcpy(ids, k->t.ids.id, k->t.n_prompt * sizeof ids[0]);
    for (uint32_t i = k->t.n_prompt; i < k->t.ids.n; i++) {
        ids[i] = (int32_t)text_hash(ids, i);
        assert_int_equal(ids[i], k->t.ids.id[i]);
    }
}

static void end(fy_schedule *s, task *k, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fy_ids_release(&k[i].t.ids);
    fy_schedule_free(s);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void one_text_is_computed_in_whole_batches(void **state)
{
    fy_schedule *s = new_schedule(4);
    task k;
    (void)state;
    make(&k, 0, 150, 3, 10);
    assert_int_equal(submit(s, &k), 0);
    assert_true(fy_schedule_step(s));
    assert_int_equal(g.last_n, BATCH);
    run_all(s);
    check_answer(&k);
    assert_int_equal(g.n_steps, 3 + 9);
    assert_int_equal(g.n_ids, 150 + 9);
    end(s, &k, 1);
}

static void first_come_first_served(void **state)
{
    fy_schedule *s = new_schedule(32);
    task k[12];
    (void)state;
    g_begun = 0;
    for (uint32_t i = 0; i < 12; i++) {
        make(&k[i], 0, 20, i, 5);
        assert_int_equal(submit(s, &k[i]), 0);
    }
    run_all(s);
    for (uint32_t i = 0; i < 12; i++) {
        check_answer(&k[i]);
        if (i > 0)
            assert_true(k[i].begun_as > k[i - 1].begun_as);
    }
    end(s, k, 12);
}

static void a_full_queue_refuses(void **state)
{
    fy_schedule *s = new_schedule(2);
    fy_err e = {0};
    task k[8];
    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        make(&k[i], 0, 20, i, 5);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(submit(s, &k[i]), 0);
    fy_schedule_step(s); /* both have slots now */
    for (uint32_t i = 2; i < 4; i++)
        assert_int_equal(submit(s, &k[i]), 0);
    fy_seq_task *t = &k[4].t;
    assert_int_equal(fy_schedule_submit(s, &t, 1, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    run_all(s);
    for (uint32_t i = 0; i < 4; i++)
        check_answer(&k[i]);
    end(s, k, 8);
}

static void a_shared_beginning_is_computed_once(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[3];
    (void)state;
    make(&k[0], 60, 80, 1, 50);
    submit(s, &k[0]);
    for (int i = 0; i < 5; i++)
        fy_schedule_step(s);
    assert_true(k[0].n_got > 0 && k[0].ended == 0);
    const uint32_t before = g.n_ids;
    make(&k[1], 60, 80, 2, 1); /* from a slot that is in use */
    submit(s, &k[1]);
    run_all(s);
    check_answer(&k[0]);
    check_answer(&k[1]);
    assert_int_equal(k[1].t.n_cached, 60);
    assert_int_equal(g.n_copied, 60);
    assert_true(g.n_ids - before < 20 + 50);
    make(&k[2], 60, 81, 1, 1); /* goes on where the first one ended: its own slot */
    k[2].t.ids.id[80] = k[0].t.ids.id[80];
    submit(s, &k[2]);
    run_all(s);
    check_answer(&k[2]);
    assert_int_equal(k[2].t.n_cached, 80);
    assert_int_equal(k[2].t.seq, k[0].t.seq);
    assert_int_equal(g.n_copied, 60);
    end(s, k, 3);
}

static void caches_of_users_are_apart(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[3];
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        make(&k[i], 40, 60, 1, 4);
        k[i].t.user = i == 1;
        submit(s, &k[i]);
        run_all(s);
        check_answer(&k[i]);
        assert_int_equal(k[i].t.n_cached, i == 2 ? 59 : 0);
    }
    end(s, k, 3);
}

static void no_cache_computes_all(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[2];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        make(&k[i], 40, 60, 1, 4);
        k[i].t.no_cache = i == 1;
        submit(s, &k[i]);
        run_all(s);
        check_answer(&k[i]);
    }
    assert_int_equal(k[1].t.n_cached, 0);
    end(s, k, 2);
}

static void a_long_prompt_does_not_stop_the_others(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[3];
    (void)state;
    g.id_s = 0.004; /* a batch of 64 takes 0.26 s */
    make(&k[0], 0, 20, 1, 200);
    submit(s, &k[0]);
    make(&k[1], 0, 250, 2, 1); /* lets the rate be measured */
    submit(s, &k[1]);
    for (int i = 0; i < 30; i++)
        fy_schedule_step(s);
    k[0].most_gap_s = 0;
    make(&k[2], 0, 250, 3, 1);
    submit(s, &k[2]);
    run_all(s);
    for (int i = 0; i < 3; i++)
        check_answer(&k[i]);
    if (k[0].most_gap_s > FY_STEP_S * 1.2)
        fail_msg("a gap of %g s", k[0].most_gap_s);
    end(s, k, 3);
}

static void who_leaves_frees_the_slot(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[7];
    (void)state;
    for (uint32_t i = 0; i < 7; i++) {
        make(&k[i], 0, 20, i, 100);
        submit(s, &k[i]);
    }
    for (int i = 0; i < 5; i++)
        fy_schedule_step(s);
    k[1].gone = true; /* runs */
    k[5].gone = true; /* waits: never computed */
    fy_schedule_poke(s);
    fy_schedule_step(s);
    assert_int_equal(k[1].ended, 1 + FY_SEQ_CANCELLED);
    assert_int_equal(k[5].ended, 1 + FY_SEQ_CANCELLED);
    assert_int_equal(k[5].n_rows, 0);
    assert_true(k[4].t.runs);
    run_all(s);
    for (int i = 0; i < 7; i++) {
        if (i != 1 && i != 5)
            check_answer(&k[i]);
    }
    end(s, k, 7);
}

static void who_does_not_read_costs_nobody(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[2];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        make(&k[i], 0, 20, i, 50);
        submit(s, &k[i]);
    }
    fy_schedule_step(s);
    k[0].paused = true;
    run_all(s);
    check_answer(&k[1]);
    assert_true(k[0].ended == 0 && k[0].n_got < 3);
    k[0].paused = false;
    fy_schedule_poke(s);
    run_all(s);
    check_answer(&k[0]);
    end(s, k, 2);
}

static void a_text_that_lost_its_slot_comes_back(void **state)
{
    enum { TEXTS = 6 };
    (void)state;
    for (int with_store = 0; with_store < 2; with_store++) {
        /* room for four or five of the six texts */
        fy_schedule *s = new_schedule_with(8, with_store ? 5 * (100 * 8 + 64) : 0);
        task k[2 * TEXTS];
        for (uint32_t i = 0; i < 2 * TEXTS; i++) {
            make(&k[i], 0, 100, 1 + i % TEXTS, 2);
            if (i == TEXTS - 1)
                k[i].t.user = 1;
            submit(s, &k[i]);
            run_all(s);
            check_answer(&k[i]);
        }
        for (uint32_t i = TEXTS; i < TEXTS + 2; i++) /* they had to leave for the last two */
            assert_int_equal(k[i].t.n_cached, with_store ? 99 : 0);
        assert_int_equal(k[2 * TEXTS - 1].t.n_cached, 0); /* it was another user's */
        assert_true((g.n_loaded > 0) == with_store);
        end(s, k, 2 * TEXTS);
    }
}

static void choices_wait_for_their_prompt(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[3];
    fy_seq_task *tasks[3];
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        make(&k[i], 100, 150, 1, 5);
        tasks[i] = &k[i].t;
        k[i].t.leader = i > 0 ? &k[0].t : NULL;
    }
    assert_int_equal(fy_schedule_submit(s, tasks, 3, NULL), 0);
    run_all(s);
    for (int i = 0; i < 3; i++)
        check_answer(&k[i]);
    assert_int_equal(g.n_ids, 150 + 2 + 3 * 4); /* the prompt once, its last id for each */
    end(s, k, 3);
}

static void a_slot_is_waited_for(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[3];
    (void)state;
    make(&k[0], 0, 20, 1, 30);
    k[0].t.slot = 2;
    make(&k[1], 0, 20, 2, 3);
    k[1].t.slot = 2;
    make(&k[2], 0, 20, 3, 3);
    for (int i = 0; i < 3; i++)
        submit(s, &k[i]);
    fy_schedule_step(s);
    assert_true(k[0].t.runs && !k[1].t.runs && k[2].t.runs); /* nobody else waits for it */
    run_all(s);
    for (int i = 0; i < 3; i++)
        check_answer(&k[i]);
    assert_true(k[0].t.seq == 2 && k[1].t.seq == 2);
    assert_true(k[1].first_s > k[0].last_s);
    end(s, k, 3);
}

static void scores_and_hidden_rows_come_for_every_id(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[3];
    (void)state;
    for (int i = 0; i < 3; i++)
        make(&k[i], 100, 150, 1, 1);
    k[1].t.want_from = 0;
    k[2].t.want_from = FY_NO_LOGITS;
    k[2].t.calls = &hidden_calls;
    for (int i = 0; i < 3; i++) {
        submit(s, &k[i]);
        run_all(s);
        assert_int_equal(k[i].ended, 1 + FY_SEQ_DONE);
    }
    assert_int_equal(k[1].n_rows, 150);
    assert_int_equal(k[2].n_rows, 0);
    assert_int_equal(k[2].n_hidden, 150);
    end(s, k, 3);
}

static void a_failed_step_fails_its_tasks_alone(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[3];
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        make(&k[i], 0, 20, i, 5);
    submit(s, &k[0]);
    submit(s, &k[1]);
    g.fails = true;
    fy_schedule_step(s);
    g.fails = false;
    assert_int_equal(k[0].ended, 1 + FY_SEQ_FAILED);
    assert_int_equal(k[1].ended, 1 + FY_SEQ_FAILED);
    submit(s, &k[2]);
    run_all(s);
    check_answer(&k[2]);
    end(s, k, 3);
}

static void closing_finishes_what_runs(void **state)
{
    fy_schedule *s = new_schedule(8);
    task k[7];
    (void)state;
    for (uint32_t i = 0; i < 7; i++)
        make(&k[i], 0, 20, i, 20);
    for (uint32_t i = 0; i < 6; i++)
        submit(s, &k[i]);
    fy_schedule_step(s);
    fy_schedule_close(s, false);
    assert_int_equal(submit(s, &k[6]), -1);
    fy_schedule_run(s); /* returns */
    for (uint32_t i = 0; i < 4; i++)
        check_answer(&k[i]);
    for (uint32_t i = 4; i < 6; i++)
        assert_int_equal(k[i].ended, 1 + FY_SEQ_REFUSED);
    end(s, k, 7);
}

static void whatever_happens_answers_are_those_of_the_text(void **state)
{
    enum { TASKS = 60 };
    (void)state;
    for (uint32_t round = 0; round < 40; round++) {
        static task k[TASKS];
        fy_schedule *s = new_schedule_with(TASKS, round % 2 * 4096);
        g_seed = round + 1;
        g.id_s = 0.0001 * draw(40);
        uint32_t n = 0;
        for (int turn = 0; turn < 20000; turn++) {
            if (n < TASKS && draw(4) == 0) {
                const uint32_t len = 1 + draw(150), common = draw(2) ? draw(120) : 0;
                make(&k[n], common < len ? common : len, len, draw(5), 1 + draw(100));
                k[n].t.user = (int)draw(2);
                k[n].t.no_cache = draw(8) == 0;
                k[n].t.slot = draw(10) == 0 ? (int32_t)draw(SEQS) : -1;
                if (draw(10) == 0)
                    k[n].t.want_from = draw(len);
                assert_int_equal(submit(s, &k[n]), 0);
                n++;
            }
            if (n > 0 && draw(10) == 0)
                k[draw(n)].paused ^= 1;
            if (n > 0 && draw(60) == 0)
                k[draw(n)].gone = true;
            if (draw(3) == 0)
                fy_schedule_poke(s);
            fy_schedule_step(s);
        }
        for (uint32_t i = 0; i < n; i++)
            k[i].paused = false;
        run_all(s);
        for (uint32_t i = 0; i < n; i++) {
            if (k[i].ended == 1 + FY_SEQ_CANCELLED)
                assert_true(k[i].gone);
            else
                check_answer(&k[i]);
        }
        fy_slot_state states[SEQS];
        fy_schedule_slots(s, states);
        for (uint32_t i = 0; i < SEQS; i++) {
            assert_false(states[i].busy);
            assert_int_equal(states[i].n_cached_ids, g.n_past[i]);
        }
        end(s, k, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_text_is_computed_in_whole_batches),
        cmocka_unit_test(first_come_first_served),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(a_shared_beginning_is_computed_once),
        cmocka_unit_test(caches_of_users_are_apart),
        cmocka_unit_test(no_cache_computes_all),
        cmocka_unit_test(a_long_prompt_does_not_stop_the_others),
        cmocka_unit_test(who_leaves_frees_the_slot),
        cmocka_unit_test(who_does_not_read_costs_nobody),
        cmocka_unit_test(a_text_that_lost_its_slot_comes_back),
        cmocka_unit_test(choices_wait_for_their_prompt),
        cmocka_unit_test(a_slot_is_waited_for),
        cmocka_unit_test(scores_and_hidden_rows_come_for_every_id),
        cmocka_unit_test(a_failed_step_fails_its_tasks_alone),
        cmocka_unit_test(closing_finishes_what_runs),
        cmocka_unit_test(whatever_happens_answers_are_those_of_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
