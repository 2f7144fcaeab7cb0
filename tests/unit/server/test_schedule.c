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

#include "tests/unit/server/fake_compute.h"

/* --- tasks ------------------------------------------------------------------------------------ */

typedef struct {
    fy_seq_task t;
    uint32_t n_wanted, n_got;
    uint32_t n_rows, n_hidden; /* logits and hidden rows that it saw */
    uint32_t n_told, told[8];  /* ids of its prompt that were computed, each time it was told */
    bool gone, paused, scores;
    int ended; /* 1 + fy_seq_end */
    double first_s, last_s, most_gap_s, ended_s;
    uint32_t right_of_10, n_guessed, n_right; /* its guesses */
    uint32_t begun_as;                        /* the order in which tasks saw their first logits */
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
    k->ended_s = g.now;
}

static void prompt(fy_seq_task *t)
{
    task *k = (task *)t;
    if (k->n_told < 8)
        k->told[k->n_told++] = t->n_past;
}

static const fy_seq_calls calls = {.logits = logits, .gone = gone, .paused = paused, .done = done};
static const fy_seq_calls hidden_calls = {
    .logits = logits, .hidden = hidden, .gone = gone, .paused = paused, .done = done};
static const fy_seq_calls prompt_calls = {
    .logits = logits, .prompt = prompt, .gone = gone, .paused = paused, .done = done};

static uint32_t guess(fy_seq_task *t, bool alone, uint32_t most, int32_t *out)
{
    task *k = (task *)t;
    int32_t ids[CTX];
    uint32_t n = (uint32_t)t->ids.n;
    const uint32_t wanted = draw(8), begin = n;
    (void)alone;
    assert_true(most <= FY_GUESSES_MAX && n + most <= CTX && t->n_past + 1 == n);
    memcpy(ids, t->ids.id, n * sizeof ids[0]);
    for (; n - begin < most && n - begin < wanted; n++) {
        ids[n] = (int32_t)text_hash(ids, n);
        if (draw(10) >= k->right_of_10)
            ids[n] = (ids[n] + 1) % N_VOCAB;
        out[n - begin] = ids[n];
    }
    k->n_guessed += n - begin;
    return n - begin;
}

static void guessed(fy_seq_task *t, uint32_t n_right, uint32_t n_ids, double step_s)
{
    task *k = (task *)t;
    assert_true(n_right < n_ids && step_s > 0);
    k->n_right += n_right;
}

static const fy_seq_calls guess_calls = {.logits = logits,
                                         .guess = guess,
                                         .guessed = guessed,
                                         .gone = gone,
                                         .paused = paused,
                                         .done = done};

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

static void a_task_is_told_how_far_its_prompt_is(void **state)
{
    fy_schedule *s = new_schedule(4);
    const uint32_t first[] = {0, 64, 128, 150}, again[] = {149, 150};
    task k[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        make(&k[i], 0, 150, 3, 1);
        k[i].t.calls = &prompt_calls;
        assert_int_equal(submit(s, &k[i]), 0);
        run_all(s);
    }
    assert_int_equal(k[0].n_told, 4);
    assert_memory_equal(k[0].told, first, sizeof first);
    assert_int_equal(k[1].n_told, 2);
    assert_memory_equal(k[1].told, again, sizeof again);
    end(s, k, 2);
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

/* A step is given up when nobody waits for any of it. */
static void who_leaves_during_a_prompt_ends_the_step(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        fy_schedule *s = new_schedule(8);
        task k[2];
        make(&k[0], 0, 250, 1, 3);
        make(&k[1], 0, 20, 2, 30);
        if (!alone) {
            submit(s, &k[1]);
            fy_schedule_step(s);
        }
        submit(s, &k[0]);
        fy_schedule_step(s);
        assert_int_equal(k[0].ended, 0);
        const uint32_t before = g.n_past[k[0].t.seq];
        g.leaves = &k[0].gone;
        g.told = s;
        fy_schedule_step(s);
        assert_int_equal(g.n_past[k[0].t.seq] > before, !alone);
        fy_schedule_step(s);
        assert_int_equal(k[0].ended, 1 + FY_SEQ_CANCELLED);
        run_all(s);
        if (!alone)
            check_answer(&k[1]);
        end(s, k, alone ? 1 : 2);
        if (alone)
            fy_ids_release(&k[1].t.ids);
    }
}

/* On the scheduler's clock: with the end of the step during which it left, before another one
 * begins. Nothing of it is computed any more. */
static void a_slot_is_free_when_the_step_is_over_in_which_its_client_left(void **state)
{
    enum { IN_PROMPT, IN_ANSWER, UNREAD, PHASES };
    (void)state;
    for (int phase = 0; phase < PHASES; phase++) {
        fy_schedule *s = new_schedule(8);
        fy_slot_state slots[SEQS];
        task k[2];
        make(&k[0], 0, 250, 1, 40);
        make(&k[1], 0, 20, 2, 100);
        submit(s, &k[1]);
        fy_schedule_step(s);
        submit(s, &k[0]);
        do
            fy_schedule_step(s);
        while (phase != IN_PROMPT && k[0].n_got < 3);
        k[0].paused = phase == UNREAD;
        fy_schedule_slots(s, slots);
        assert_true(slots[k[0].t.seq].busy && slots[k[0].t.seq].in_prompt == (phase == IN_PROMPT));
        g.leaves = &k[0].gone;
        g.told = s;
        fy_schedule_step(s);
        const double left_s = g.now;
        const uint32_t held = g.n_past[k[0].t.seq], n_steps = g.n_steps;
        fy_schedule_step(s);
        assert_int_equal(k[0].ended, 1 + FY_SEQ_CANCELLED);
        assert_true(k[0].ended_s == left_s);
        assert_int_equal(g.n_steps, n_steps + 1); /* of the other one, meanwhile */
        assert_int_equal(g.n_past[k[0].t.seq], held);
        fy_schedule_slots(s, slots);
        assert_false(slots[k[0].t.seq].busy);
        run_all(s);
        check_answer(&k[1]);
        end(s, k, 2);
    }
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

/* Of a model with states: the end of a turn is remembered, and a place before the end of a prompt.
 */
static void a_state_is_taken_where_it_was_remembered(void **state)
{
    fy_schedule *s = new_schedule_of(8, 1 << 20, true);
    task k[6];
    (void)state;
    make(&k[0], 60, 100, 1, 10);
    submit(s, &k[0]);
    run_all(s);
    assert_int_equal(g.n_ids, 100 + 9);
    make(&k[1], 60, 100, 1, 1); /* the same prompt: but for its last ids */
    submit(s, &k[1]);
    run_all(s);
    assert_int_equal(k[1].t.n_cached, 100 - FY_SNAPSHOT_BEFORE_END);
    make(&k[2], 60, 103, 1, 4); /* goes on after an answer */
    for (uint32_t i = 100; i < 103; i++)
        k[2].t.ids.id[i] = (int32_t)text_hash(k[2].t.ids.id, i);
    submit(s, &k[2]);
    run_all(s);
    assert_int_equal(k[2].t.n_cached, 100); /* the end of the second turn */
    make(&k[3], 60, 150, 9, 1);             /* no mark is that near the beginning */
    submit(s, &k[3]);
    run_all(s);
    assert_int_equal(k[3].t.n_cached, 0);
    make(&k[5], 60, 150, 17, 1); /* but now there is one where the two part */
    submit(s, &k[5]);
    run_all(s);
    assert_int_equal(k[5].t.n_cached, 60);
    check_answer(&k[5]);
    fy_ids_release(&k[5].t.ids);
    for (uint32_t i = 0; i < SEQS; i++) { /* others take all slots; the store has marks, too */
        task other;
        make(&other, 0, 100, 20 + i, 1);
        submit(s, &other);
        run_all(s);
        check_answer(&other);
        fy_ids_release(&other.t.ids);
    }
    make(&k[4], 60, 100, 1, 1);
    submit(s, &k[4]);
    run_all(s);
    assert_int_equal(k[4].t.n_cached, 100 - FY_SNAPSHOT_BEFORE_END);
    assert_true(g.n_loaded > 0);
    make(&k[5], 0, 31, 5, 1); /* too short for one */
    submit(s, &k[5]);
    run_all(s);
    for (int i = 0; i < 6; i++)
        check_answer(&k[i]);
    end(s, k, 6);
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

static void guesses_change_only_how_many_steps_it_takes(void **state)
{
    (void)state;
    for (uint32_t right = 0; right <= 10; right += 5) {
        fy_schedule *s = new_schedule(32);
        task k[10];
        for (uint32_t i = 0; i < 10; i++) {
            make(&k[i], i % 3 * 10, 20 + i, i, i == 9 ? CTX - 29 : 40 + i);
            k[i].t.calls = i % 4 == 3 ? &calls : &guess_calls;
            k[i].right_of_10 = right;
            assert_int_equal(submit(s, &k[i]), 0);
        }
        run_all(s);
        for (uint32_t i = 0; i < 10; i++) {
            check_answer(&k[i]);
            if (right == 0)
                assert_int_equal(k[i].n_right, 0);
            if (right == 10 && i % 4 != 3)
                assert_true(k[i].n_right > k[i].n_wanted / 2);
            assert_true(k[i].n_right <= k[i].n_guessed);
        }
        end(s, k, 10);
    }
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
        fy_schedule *s = new_schedule_of(TASKS, round % 2 * 4096, round % 3 == 2);
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
        cmocka_unit_test(a_task_is_told_how_far_its_prompt_is),
        cmocka_unit_test(first_come_first_served),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(a_shared_beginning_is_computed_once),
        cmocka_unit_test(caches_of_users_are_apart),
        cmocka_unit_test(no_cache_computes_all),
        cmocka_unit_test(a_long_prompt_does_not_stop_the_others),
        cmocka_unit_test(who_leaves_frees_the_slot),
        cmocka_unit_test(who_leaves_during_a_prompt_ends_the_step),
        cmocka_unit_test(a_slot_is_free_when_the_step_is_over_in_which_its_client_left),
        cmocka_unit_test(who_does_not_read_costs_nobody),
        cmocka_unit_test(a_text_that_lost_its_slot_comes_back),
        cmocka_unit_test(a_state_is_taken_where_it_was_remembered),
        cmocka_unit_test(choices_wait_for_their_prompt),
        cmocka_unit_test(a_slot_is_waited_for),
        cmocka_unit_test(scores_and_hidden_rows_come_for_every_id),
        cmocka_unit_test(guesses_change_only_how_many_steps_it_takes),
        cmocka_unit_test(a_failed_step_fails_its_tasks_alone),
        cmocka_unit_test(closing_finishes_what_runs),
        cmocka_unit_test(whatever_happens_answers_are_those_of_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
