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

/* The beginnings of two tales for the tales model, and how its golden.json continues the first.
 */
static const int32_t once[] = {763, 408, 409, 258, 410}, owls[] = {763, 52, 50, 411};
static const int32_t tale[] = {11, 331, 278, 258, 739, 500, 499, 293, 64, 84};
enum { N_VOCAB = 768, N_ONCE = 5, N_OWLS = 4, N_TALE = 10, N_SEQ = 3 };

static ferry_model *model;

static int open_model(void **state)
{
    if (api_make_model(state) != 0)
        return -1;
    model = api_open();
    return 0;
}

static int close_model(void **state)
{
    ferry_model_free(model);
    return api_remove_model(state);
}

static ferry_session *session_of(uint32_t n_seq, uint32_t n_ctx)
{
    ferry_session *session;
    ferry_session_params p;
    ferry_error e;
    ferry_session_params_init(&p, sizeof p);
    p.n_ctx = n_ctx;
    p.n_seq = n_seq;
    p.n_threads = 1;
    p.type_k = p.type_v = FERRY_KV_F32;
    if (ferry_session_new(model, &p, &session, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return session;
}

static int32_t likeliest(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < N_VOCAB; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* What follows a prompt when it is alone. */
static void tell_alone(const int32_t *prompt, size_t n, int32_t *out, size_t n_out)
{
    ferry_session *s = session_of(1, 64);
    const float *logits;
    assert_ok(ferry_session_eval(s, prompt, n, &logits, &error));
    for (size_t i = 0; i < n_out; i++) {
        out[i] = likeliest(logits);
        assert_ok(ferry_session_eval(s, &out[i], 1, &logits, &error));
    }
    ferry_session_free(s);
}

static void tales_that_are_told_together_are_those_told_alone(void **state)
{
    (void)state;
    int32_t other[N_TALE], ids[2 * N_ONCE];
    uint32_t seqs[2 * N_ONCE];
    size_t n = 0;
    const float *logits;
    tell_alone(owls, N_OWLS, other, N_TALE);
    ferry_session *s = session_of(N_SEQ, 64);
    for (size_t i = 0; i < N_ONCE; i++) { /* both prompts in one call, token by token */
        ids[n] = once[i];
        seqs[n++] = 2;
        if (i < N_OWLS) {
            ids[n] = owls[i];
            seqs[n++] = 1;
        }
    }
    /* owls ends before once */
    assert_ok(ferry_session_decode(s, ids, seqs, NULL, n, &logits, &error));
    int32_t next[] = {likeliest(logits), likeliest(logits + N_VOCAB)};
    for (size_t i = 0; i < N_TALE; i++) {
        assert_int_equal(next[0], other[i]);
        assert_int_equal(next[1], tale[i]);
        assert_ok(ferry_session_decode(s, next, (uint32_t[]){1, 2}, (uint8_t[]){1, 1}, 2, &logits,
                                       &error));
        next[0] = likeliest(logits);
        next[1] = likeliest(logits + N_VOCAB);
    }
    assert_int_equal(ferry_session_n_seq(s), N_SEQ);
    assert_int_equal(ferry_session_n_past(s), 0);
    assert_int_equal(ferry_session_seq_n_past(s, 1), N_OWLS + N_TALE);
    assert_int_equal(ferry_session_seq_n_past(s, 2), N_ONCE + N_TALE);
    assert_int_equal(ferry_session_seq_n_past(s, 3), 0);
    ferry_session_free(s);
}

static void a_shared_beginning_is_computed_once(void **state)
{
    (void)state;
    const size_t bytes = N_VOCAB * sizeof(float);
    float *want = malloc(bytes);
    const float *logits;
    ferry_session *s = session_of(N_SEQ, 16);
    assert_ok(ferry_session_eval(s, once, N_ONCE, &logits, &error));
    memcpy(want, logits, bytes);
    assert_ok(ferry_session_seq_copy(s, 0, 2, N_ONCE - 1, &error));
    assert_int_equal(ferry_session_seq_n_past(s, 2), N_ONCE - 1);
    assert_ok(ferry_session_decode(s, once + 4, (uint32_t[]){2}, NULL, 1, &logits, &error));
    assert_memory_equal(logits, want, bytes);
    ferry_session_seq_rewind(s, 2, 2);
    assert_ok(ferry_session_decode(s, once + 2, (uint32_t[]){2, 2, 2}, (uint8_t[]){0, 0, 1}, 3,
                                   &logits, &error));
    assert_memory_equal(logits, want, bytes);
    assert_ok(ferry_session_decode(s, once, (uint32_t[]){1}, (uint8_t[]){0}, 1, &logits, &error));
    assert_null(logits);
    free(want);
    ferry_session_free(s);
}

static void what_cannot_be_decoded_changes_nothing(void **state)
{
    (void)state;
    ferry_session *s = session_of(2, 4);
    const int32_t ids[] = {1, 2, 3, N_VOCAB}, many[20] = {0};
    const uint32_t seqs[] = {0, 1, 1, 1}, far[] = {0, 2}, same[20] = {0};
    uint8_t wants[20];
    memset(wants, 1, sizeof wants);
    assert_ok(ferry_session_decode(s, ids, seqs, NULL, 3, NULL, &error));
    assert_fails(FERRY_EUSAGE, "session",
                 ferry_session_decode(NULL, ids, seqs, NULL, 1, NULL, &error));
    assert_fails(FERRY_EUSAGE, "ids", ferry_session_decode(s, NULL, seqs, NULL, 1, NULL, &error));
    assert_fails(FERRY_EUSAGE, "seqs", ferry_session_decode(s, ids, NULL, NULL, 1, NULL, &error));
    assert_fails(FERRY_EUSAGE, "no tokens",
                 ferry_session_decode(s, ids, seqs, NULL, 0, NULL, &error));
    assert_fails(FERRY_EUSAGE, "expected 0 to 767",
                 ferry_session_decode(s, ids + 3, seqs, NULL, 1, NULL, &error));
    assert_fails(FERRY_EUSAGE, "sequence 2, expected 0 to 1",
                 ferry_session_decode(s, ids, far, NULL, 2, NULL, &error));
    assert_fails(FERRY_EFIT, "context of sequence 1 is full: 4 positions, 2 in use, 3 more",
                 ferry_session_decode(s, many, (uint32_t[]){1, 1, 1}, NULL, 3, NULL, &error));
    assert_fails(FERRY_EFIT, "positions",
                 ferry_session_decode(s, ids, seqs, NULL, (size_t)UINT32_MAX + 1, NULL, &error));
    ferry_session *long_one = session_of(1, 32);
    assert_fails(FERRY_EUSAGE, "17 tokens ask for logits, expected at most 16",
                 ferry_session_decode(long_one, many, same, wants, 17, NULL, &error));
    ferry_session_free(long_one);
    ferry_session_cancel(s);
    assert_fails(FERRY_EINTR, "cancelled",
                 ferry_session_decode(s, ids, seqs, NULL, 2, NULL, &error));
    assert_fails(FERRY_EUSAGE, "session", ferry_session_seq_copy(NULL, 0, 1, 0, &error));
    assert_fails(FERRY_EUSAGE, "it holds 1", ferry_session_seq_copy(s, 0, 1, 2, &error));
    assert_fails(FERRY_EUSAGE, "expected 0 to 1", ferry_session_seq_copy(s, 0, 2, 1, &error));
    assert_int_equal(ferry_session_seq_n_past(s, 0), 1);
    assert_int_equal(ferry_session_seq_n_past(s, 1), 2);
    ferry_session_seq_rewind(s, 7, 0);
    ferry_session_seq_rewind(NULL, 0, 0);
    assert_int_equal(ferry_session_seq_n_past(NULL, 0), 0);
    assert_int_equal(ferry_session_n_seq(NULL), 0);
    ferry_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tales_that_are_told_together_are_those_told_alone),
        cmocka_unit_test(a_shared_beginning_is_computed_once),
        cmocka_unit_test(what_cannot_be_decoded_changes_nothing),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
