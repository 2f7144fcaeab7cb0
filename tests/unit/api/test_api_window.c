/* Sessions whose layers with a sliding window keep the window and a step, and snapshots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/api/api_model.h"

/* gemma3's: a window of 8 in six of seven layers, which keep 192 positions. */
enum { N = 600, N_VOCAB = 352, N_LAYER = 7, RING = 192 };

static ferry_model *model;
static int32_t ids[N];

static int open_model(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N; i++)
        ids[i] = 3 + (i * 37 + i / 50) % (N_VOCAB - 3);
    if (api_make_model_of("tests/data/families/gemma3") != 0)
        return -1;
    model = api_open();
    return 0;
}

static int close_model(void **state)
{
    ferry_model_free(model);
    return api_remove_model(state);
}

static ferry_session_params params_of(uint32_t flags)
{
    ferry_session_params p;
    ferry_session_params_init(&p, sizeof p);
    p.n_ctx = N;
    p.n_batch = 5;
    p.n_seq = 2;
    p.n_threads = 1;
    p.flags = flags;
    return p;
}

static ferry_session *session_of(uint32_t flags)
{
    const ferry_session_params p = params_of(flags);
    ferry_session *s;
    ferry_error e;
    if (ferry_session_new(model, &p, &s, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return s;
}

/* Ids [from, to) into a sequence; out: the last logits. */
static void give(ferry_session *s, uint32_t seq, uint32_t from, uint32_t to, float out[N_VOCAB])
{
    static uint32_t seqs[N];
    const float *logits;
    ferry_error e;
    for (uint32_t i = from; i < to; i++)
        seqs[i] = seq;
    if (ferry_session_decode(s, ids + from, seqs + from, NULL, to - from, &logits, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    memcpy(out, logits, N_VOCAB * sizeof *out);
}

static void it_takes_less(void **state)
{
    (void)state;
    uint64_t full, windows, scratch;
    ferry_session_params p = params_of(0);
    assert_ok(ferry_session_bytes(model, &p, &full, &scratch, &error));
    p.flags = FERRY_SESSION_WINDOWS;
    assert_ok(ferry_session_bytes(model, &p, &windows, &scratch, &error));
    assert_true(windows * N_LAYER * N == full * (N + 6 * RING));
    p.flags = 6;
    assert_fails(FERRY_EUSAGE, "flags 0x6, expected none but 0x1",
                 ferry_session_bytes(model, &p, &windows, &scratch, &error));
}

static void the_logits_are_those_of_all_positions(void **state)
{
    (void)state;
    float want[N_VOCAB], has[N_VOCAB];
    ferry_session *full = session_of(0), *s = session_of(FERRY_SESSION_WINDOWS);
    assert_int_equal(ferry_model_n_vocab(model), N_VOCAB);
    give(full, 0, 0, N, want);
    give(s, 0, 0, 300, has);
    ferry_session_snapshot(s, 0);
    give(s, 0, 300, N, has);
    assert_memory_equal(has, want, sizeof has);
    ferry_session_seq_rewind(s, 0, N - 100); /* the window is there still */
    assert_int_equal(ferry_session_seq_n_past(s, 0), N - 100);
    give(s, 0, N - 100, N, has);
    assert_memory_equal(has, want, sizeof has);
    assert_ok(ferry_session_seq_copy(s, 0, 1, 300, &error)); /* the snapshot's */
    give(s, 1, 300, N, has);
    assert_memory_equal(has, want, sizeof has);
    assert_fails(FERRY_EFAILED, "can go back to 300", ferry_session_seq_copy(s, 0, 1, 350, &error));
    ferry_session_seq_rewind(s, 0, 350);
    assert_int_equal(ferry_session_seq_n_past(s, 0), 300);
    give(s, 0, 300, N, has);
    assert_memory_equal(has, want, sizeof has);
    ferry_session_seq_rewind(s, 0, 299); /* before it: from the beginning */
    assert_int_equal(ferry_session_seq_n_past(s, 0), 0);
    give(s, 0, 0, N, has);
    assert_memory_equal(has, want, sizeof has);
    ferry_session_free(full);
    ferry_session_free(s);
}

static void all_positions_need_no_snapshot(void **state)
{
    (void)state;
    float want[N_VOCAB], has[N_VOCAB];
    ferry_session *s = session_of(0);
    give(s, 0, 0, N, want);
    ferry_session_snapshot(s, 0);
    ferry_session_snapshot(s, 2); /* which it does not have */
    ferry_session_snapshot(NULL, 0);
    ferry_session_seq_rewind(s, 0, 7);
    assert_int_equal(ferry_session_seq_n_past(s, 0), 7);
    give(s, 0, 7, N, has);
    assert_memory_equal(has, want, sizeof has);
    ferry_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_takes_less),
        cmocka_unit_test(the_logits_are_those_of_all_positions),
        cmocka_unit_test(all_positions_need_no_snapshot),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
