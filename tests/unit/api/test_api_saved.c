/* What a sequence holds as bytes, and back in another session. */
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

/* gemma3's: windows of 8, of which a session keeps 192 positions when it is asked to. */
enum { N = 400, N_VOCAB = 352, SAVED = 350, MARK = 100 };

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

static ferry_session *session_of(uint32_t flags, int32_t type)
{
    ferry_session_params p;
    ferry_session *s;
    ferry_error e;
    ferry_session_params_init(&p, sizeof p);
    p.n_ctx = N;
    p.n_batch = 5;
    p.n_threads = 1;
    p.flags = flags;
    p.type_k = p.type_v = type;
    if (ferry_session_new(model, &p, &s, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return s;
}

static const float *give(ferry_session *s, uint32_t from, uint32_t to)
{
    const float *logits;
    ferry_error e;
    if (ferry_session_eval(s, ids + from, to - from, &logits, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return logits;
}

typedef struct {
    uint8_t *p;
    size_t n, most;
} bytes;

static int put(void *user, const void *p, size_t n)
{
    bytes *b = user;
    if (n > b->most - b->n)
        return -1;
    b->p = realloc(b->p, b->n + n + 1);
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

/* Of SAVED tokens, with a snapshot after MARK. */
static bytes save(uint32_t flags)
{
    bytes b = {.most = 1 << 20};
    ferry_session *s = session_of(flags, FERRY_KV_F16);
    give(s, 0, MARK);
    ferry_session_snapshot(s, 0);
    give(s, MARK, SAVED);
    assert_ok(ferry_session_save(s, 0, ids, SAVED, put, &b, &error));
    ferry_session_free(s);
    return b;
}

static void another_session_goes_on_to_the_same_logits(void **state)
{
    (void)state;
    float want[N_VOCAB];
    ferry_session *s = session_of(0, FERRY_KV_F16);
    memcpy(want, give(s, 0, N), sizeof want);
    ferry_session_free(s);
    for (uint32_t from = 0; from < 2; from++) {
        bytes b = save(from);
        for (uint32_t to = 0; to < 2; to++) {
            s = session_of(to, FERRY_KV_F16);
            assert_ok(ferry_session_load(s, 0, b.p, b.n, ids, N - 1, &error));
            assert_int_equal(ferry_session_n_past(s), SAVED);
            assert_memory_equal(give(s, SAVED, N), want, sizeof want);
            /* a text that ends before, or goes on otherwise */
            assert_ok(ferry_session_load(s, 0, b.p, b.n, ids, 120, &error));
            assert_int_equal(ferry_session_n_past(s), from == FERRY_SESSION_WINDOWS ? MARK : 120);
            assert_memory_equal(give(s, ferry_session_n_past(s), N), want, sizeof want);
            assert_ok(ferry_session_load(s, 0, b.p, b.n, ids + 1, N - 1, &error));
            assert_int_equal(ferry_session_n_past(s), 0);
            ferry_session_free(s);
        }
        free(b.p);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    bytes b = save(0), small = {.most = b.n - 1};
    ferry_session *s = session_of(0, FERRY_KV_F16), *f32 = session_of(0, FERRY_KV_F32);
    give(s, 0, 30);
    assert_fails(FERRY_EUSAGE, "f16 and f16", ferry_session_load(f32, 0, b.p, b.n, ids, N, &error));
    assert_fails(FERRY_EFIT, "sequence 1", ferry_session_load(s, 1, b.p, b.n, ids, N, &error));
    assert_fails(FERRY_EFAILED, "cut short",
                 ferry_session_load(s, 0, b.p, b.n - 1, ids, N, &error));
    b.p[b.n / 2] ^= 1;
    assert_fails(FERRY_EFAILED, "damaged", ferry_session_load(s, 0, b.p, b.n, ids, N, &error));
    assert_fails(FERRY_EFAILED, "not a prompt cache",
                 ferry_session_load(s, 0, b.p, 0, ids, N, &error));
    assert_fails(FERRY_EUSAGE, "29 ids, and sequence 0 holds 30",
                 ferry_session_save(s, 0, ids, 29, put, &small, &error));
    assert_fails(FERRY_EUSAGE, "0 ids, and sequence 1 holds 0",
                 ferry_session_save(s, 1, ids, 0, put, &small, &error));
    assert_int_equal(small.n, 0);
    assert_int_equal(ferry_session_n_past(s), 30); /* as it was */
    give(s, 30, SAVED);
    assert_fails(FERRY_EFAILED, "put has refused",
                 ferry_session_save(s, 0, ids, SAVED, put, &small, &error));
    assert_fails(FERRY_EUSAGE, "put", ferry_session_save(s, 0, ids, SAVED, NULL, NULL, &error));
    assert_fails(FERRY_EUSAGE, "ids", ferry_session_save(s, 0, NULL, 30, put, &b, &error));
    assert_fails(FERRY_EUSAGE, "session", ferry_session_save(NULL, 0, ids, 30, put, &b, &error));
    assert_fails(FERRY_EUSAGE, "bytes", ferry_session_load(s, 0, NULL, b.n, ids, N, &error));
    assert_fails(FERRY_EUSAGE, "ids", ferry_session_load(s, 0, b.p, b.n, NULL, N, &error));
    assert_fails(FERRY_EUSAGE, "session", ferry_session_load(NULL, 0, b.p, b.n, ids, N, &error));
    ferry_session_free(s);
    ferry_session_free(f32);
    free(b.p);
    free(small.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_session_goes_on_to_the_same_logits),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
