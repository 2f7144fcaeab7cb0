/* How many steps the scheduler takes, and how long they are: against a clock that moves as a model
 * of 1B parameters in q4_0 makes it move on two processors. Nothing here depends on the machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/schedule.h"

enum { SEQS = 16, CTX = 2560, BATCH = 512, PROMPT = 256, SAID = 128 };

/* Every step reads all weights; ids in a large step are cheaper. */
#define WEIGHTS_S 0.033
#define ID_S      0.0042
#define LARGE     64
#define LARGE_S   0.003

static struct {
    uint32_t n_past[SEQS];
    double now;
    uint32_t n_steps;
} g;

static int decode(void *user, const fy_batch *b, const fy_eval_sinks *sinks, fy_err *e)
{
    const float row = 1;
    (void)user;
    g.n_steps++;
    g.now += WEIGHTS_S + (b->n < LARGE ? ID_S * b->n : ID_S * LARGE + LARGE_S * (b->n - LARGE));
    for (uint32_t i = 0; i < b->n; i++)
        g.n_past[b->seqs[i]]++;
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->wants[i] && sinks->logits(sinks->user, &row, i, 1, e) != 0)
            return -1;
    }
    return 0;
}

static uint32_t rewind_seq(void *user, uint32_t seq, uint32_t n_past)
{
    (void)user;
    return g.n_past[seq] = n_past;
}

static int copy_seq(void *user, uint32_t from, uint32_t to, uint32_t n, fy_err *e)
{
    (void)user;
    (void)from;
    (void)e;
    g.n_past[to] = n;
    return 0;
}

static double now(void *user)
{
    (void)user;
    return g.now;
}

static fy_schedule *new_schedule(void)
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
                          .now = now};
    memset(&g, 0, sizeof g);
    fy_schedule *s = fy_schedule_new(&c, 64, NULL, NULL);
    assert_non_null(s);
    return s;
}

/* --- tasks ------------------------------------------------------------------------------------ */

typedef struct {
    fy_seq_task t;
    uint32_t n_wanted, n_got;
    double first_s, last_s, gap_s;
} task;

static int logits(fy_seq_task *t, uint32_t pos, const float *row, fy_err *e)
{
    task *k = (task *)t;
    (void)pos;
    (void)row;
    if (k->n_got == 0)
        k->first_s = g.now;
    else if (g.now - k->last_s > k->gap_s)
        k->gap_s = g.now - k->last_s;
    k->last_s = g.now;
    return ++k->n_got < k->n_wanted ? fy_ids_push(&t->ids, 5, e) : 0;
}

static bool never(fy_seq_task *t)
{
    (void)t;
    return false;
}

static void done(fy_seq_task *t, fy_seq_end end, const fy_err *e)
{
    (void)e;
    assert_int_equal(end, FY_SEQ_DONE);
    assert_int_equal(((task *)t)->n_got, ((task *)t)->n_wanted);
}

static const fy_seq_calls calls = {.logits = logits, .gone = never, .paused = never, .done = done};

static void ask(fy_schedule *s, task *k, int32_t salt, uint32_t n_prompt, uint32_t n_wanted)
{
    fy_seq_task *t = &k->t;
    *k =
        (task){.n_wanted = n_wanted,
               .t = {.calls = &calls, .n_prompt = n_prompt, .want_from = n_prompt - 1, .slot = -1}};
    for (uint32_t i = 0; i < n_prompt; i++)
        assert_int_equal(fy_ids_push(&k->t.ids, salt, NULL), 0);
    assert_int_equal(fy_schedule_submit(s, &t, 1, NULL), 0);
}

static void run(fy_schedule *s)
{
    while (fy_schedule_step(s))
        ;
}

/* Clients that come at once: the first one is being computed while the others are read. */
static void run_clients(fy_schedule *s, task *k, uint32_t n, int32_t salt)
{
    for (uint32_t i = 0; i < n; i++) {
        ask(s, &k[i], salt + (int32_t)i, PROMPT, SAID);
        if (i == 0)
            fy_schedule_step(s);
    }
    run(s);
    for (uint32_t i = 0; i < n; i++)
        fy_ids_release(&k[i].t.ids);
}

static double longest_gap(const task *k, uint32_t n)
{
    double gap_s = 0;
    for (uint32_t i = 0; i < n; i++)
        gap_s = k[i].gap_s > gap_s ? k[i].gap_s : gap_s;
    return gap_s;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* 4,096 ids of prompts at 16 beside the answers would be 240 steps before the last answer begins.
 */
static void sixteen_prompts_at_once_take_few_steps(void **state)
{
    (void)state;
    task k[SEQS];
    fy_schedule *s = new_schedule();
    run_clients(s, k, 1, 1);
    const double one_s = g.now;
    assert_int_equal(g.n_steps, SAID);
    for (int round = 0; round < 3; round++) {
        const double begin_s = g.now;
        g.n_steps = 0;
        run_clients(s, k, SEQS, 100 * (round + 1));
        const double ratio = SEQS * one_s / (g.now - begin_s);
        if (g.n_steps > 250 || ratio < 2.6 || longest_gap(k, SEQS) > 0.25)
            fail_msg("%u steps, %.2f x the tokens/s of one, longest gap %.0f ms", g.n_steps, ratio,
                     1e3 * longest_gap(k, SEQS));
    }
    fy_schedule_free(s);
}

static void one_prompt_beside_streams_keeps_steps_short(void **state)
{
    (void)state;
    task k[3], late, before;
    for (int known = 0; known < 2; known++) {
        fy_schedule *s = new_schedule();
        for (uint32_t i = 0; i < 3; i++)
            ask(s, &k[i], (int32_t)i + 1, 32, 300);
        for (int i = 0; i < 20; i++)
            fy_schedule_step(s);
        if (known) { /* the rate, from a prompt before it */
            ask(s, &before, 8, 100, 1);
            for (int i = 0; i < 20; i++)
                fy_schedule_step(s);
            fy_ids_release(&before.t.ids);
        }
        for (uint32_t i = 0; i < 3; i++)
            k[i].gap_s = 0;
        ask(s, &late, 9, 2048, 1);
        run(s);
        if (longest_gap(k, 3) > 0.125)
            fail_msg("a gap of %.0f ms", 1e3 * longest_gap(k, 3));
        for (uint32_t i = 0; i < 3; i++)
            fy_ids_release(&k[i].t.ids);
        fy_ids_release(&late.t.ids);
        fy_schedule_free(s);
    }
}

/* What a small step or a slow one took does not make the next ones long. */
static void a_crowd_that_leaves_leaves_no_long_step(void **state)
{
    (void)state;
    task k[SEQS], stream, late;
    fy_schedule *s = new_schedule();
    run_clients(s, k, SEQS, 1);
    ask(s, &stream, 50, 32, 250);
    for (int i = 0; i < 5; i++)
        fy_schedule_step(s);
    stream.gap_s = 0;
    ask(s, &late, 51, 2048, 1);
    run(s);
    if (stream.gap_s > 0.15)
        fail_msg("a gap of %.0f ms", 1e3 * stream.gap_s);
    fy_ids_release(&stream.t.ids);
    fy_ids_release(&late.t.ids);
    fy_schedule_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_prompts_at_once_take_few_steps),
        cmocka_unit_test(one_prompt_beside_streams_keeps_steps_short),
        cmocka_unit_test(a_crowd_that_leaves_leaves_no_long_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
