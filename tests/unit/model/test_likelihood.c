#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/text_scores.h"
#include "tests/unit/model/tiny_model.h"

enum { V = 96, CTX = 16 };

static char model_path[64];
static fy_model *model;

static int set_up(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    snprintf(model_path, sizeof model_path, "/tmp/ferry-likelihood-XXXXXX");
    int fd = mkstemp(model_path);
    if (fd < 0 || close(fd) != 0 || tiny_write(&t, model_path, NULL) != 0)
        return -1;
    model = fy_model_open(model_path, NULL);
    return model != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    fy_model_close(model);
    unlink(model_path);
    return 0;
}

typedef struct {
    fy_session *session;
    fy_scorer scorer;
} bench;

static bench bench_open(uint32_t n_batch, int n_threads)
{
    bench b;
    const fy_session_params p = {.n_ctx = CTX, .n_batch = n_batch, .n_threads = n_threads};
    b.session = fy_session_new(model, &p, NULL);
    assert_non_null(b.session);
    assert_int_equal(fy_scorer_init(&b.scorer, b.session, V, NULL), 0);
    return b;
}

static void bench_close(bench *b)
{
    fy_scorer_release(&b->scorer);
    fy_session_free(b->session);
}

static fy_pair pair_of(int32_t *ids, size_t n, size_t n_context)
{
    return (fy_pair){{ids, n, n}, n_context};
}

static int32_t *some_ids(int32_t ids[64], int seed, size_t common)
{
    for (size_t i = 0; i < 64; i++)
        ids[i] = (int32_t)((i * 31 + (i < common ? 0 : (size_t)seed * 17)) % V);
    return ids;
}

/* ln p of each token by a pass over all, token after token. */
static double plain(const int32_t *ids, size_t n, size_t n_context, bool *greedy)
{
    fy_session *s = fy_session_new(model, &(fy_session_params){.n_ctx = CTX, .n_threads = 1}, NULL);
    double sum = 0;
    *greedy = true;
    for (size_t i = 0; i + 1 < n; i++) {
        const float *x;
        double z = 0;
        assert_int_equal(fy_session_eval(s, ids + i, 1, NULL, &x, NULL), 0);
        if (i + 1 < n_context)
            continue;
        for (int k = 0; k < V; k++) {
            z += exp((double)x[k]);
            *greedy &= x[k] <= x[ids[i + 1]];
        }
        sum += (double)x[ids[i + 1]] - log(z);
    }
    fy_session_free(s);
    return sum;
}

static void it_is_the_sum_over_the_continuation(void **state)
{
    (void)state;
    int32_t ids[64];
    for (int seed = 0; seed < 4; seed++) {
        bench b = bench_open(seed % 2 ? 3 : 0, seed / 2 + 1);
        bool greedy;
        fy_likelihood found;
        const fy_pair p = pair_of(some_ids(ids, seed, 0), 12, 7);
        const double want = plain(ids, 12, 7, &greedy);
        assert_int_equal(fy_scorer_score(&b.scorer, &p, &found, NULL), 0);
        assert_true(fabs(found.logprob - want) < 1e-6 * fabs(want));
        assert_true(found.greedy == greedy && !found.cut && found.n_computed == 11);
        bench_close(&b);
    }
}

static void greedy_means_every_token_is_the_likeliest(void **state)
{
    (void)state;
    fy_session *s = fy_session_new(model, &(fy_session_params){.n_ctx = CTX}, NULL);
    int32_t ids[64];
    some_ids(ids, 1, 0);
    const float *x;
    assert_int_equal(fy_session_eval(s, ids, 5, NULL, &x, NULL), 0);
    for (size_t i = 5; i < 9; i++) {
        ids[i] = 0;
        for (int k = 1; k < V; k++)
            ids[i] = x[k] > x[ids[i]] ? k : ids[i];
        assert_int_equal(fy_session_eval(s, ids + i, 1, NULL, &x, NULL), 0);
    }
    fy_session_free(s);
    bench b = bench_open(0, 1);
    fy_likelihood found;
    fy_pair p = pair_of(ids, 9, 5);
    assert_int_equal(fy_scorer_score(&b.scorer, &p, &found, NULL), 0);
    assert_true(found.greedy);
    ids[6] = (ids[6] + 1) % V;
    assert_int_equal(fy_scorer_score(&b.scorer, &p, &found, NULL), 0);
    assert_false(found.greedy);
    bench_close(&b);
}

static void what_pairs_have_in_common_is_computed_once(void **state)
{
    (void)state;
    bench shared = bench_open(0, 1);
    int32_t ids[64];
    for (int seed = 0; seed < 5; seed++) {
        bench fresh = bench_open(4, 2);
        fy_likelihood a, b;
        const fy_pair p = pair_of(some_ids(ids, seed, 8), 10 + (size_t)seed, 8);
        assert_int_equal(fy_scorer_score(&shared.scorer, &p, &a, NULL), 0);
        assert_int_equal(fy_scorer_score(&fresh.scorer, &p, &b, NULL), 0);
        assert_true(a.logprob == b.logprob && a.greedy == b.greedy); /* the same bits */
        /* the context but for its last token, whose logits are needed */
        assert_int_equal(a.n_computed, seed == 0 ? 9 : 2 + (unsigned)seed);
        assert_int_equal(b.n_computed, 9 + (unsigned)seed);
        bench_close(&fresh);
    }
    bench_close(&shared);
}

static void what_is_too_long_loses_its_beginning(void **state)
{
    (void)state;
    bench b = bench_open(0, 1);
    int32_t ids[64];
    fy_likelihood whole, cut;
    fy_pair p = pair_of(some_ids(ids, 3, 0), CTX + 1, 10); /* the last one is only predicted */
    assert_int_equal(fy_scorer_score(&b.scorer, &p, &whole, NULL), 0);
    assert_false(whole.cut);
    int32_t longer[64] = {9, 8, 7};
    memcpy(longer + 3, ids, (CTX + 1) * sizeof *ids);
    p = pair_of(longer, CTX + 4, 13);
    assert_int_equal(fy_scorer_score(&b.scorer, &p, &cut, NULL), 0);
    assert_true(cut.cut && cut.logprob == whole.logprob);
    p = pair_of(some_ids(ids, 3, 0), 40, 40 - CTX); /* a token of context is left */
    assert_int_equal(fy_scorer_score(&b.scorer, &p, &cut, NULL), 0);
    fy_err e = {0};
    p = pair_of(ids, 40, 40 - CTX - 1);
    assert_int_equal(fy_scorer_score(&b.scorer, &p, &cut, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "17 tokens, the context has room for 16"));
    bench_close(&b);
}

static void a_failure_does_not_spoil_what_follows(void **state)
{
    (void)state;
    bench b = bench_open(0, 1);
    int32_t ids[64];
    fy_likelihood before, after;
    const fy_pair good = pair_of(some_ids(ids, 1, 0), 12, 6);
    assert_int_equal(fy_scorer_score(&b.scorer, &good, &before, NULL), 0);
    int32_t other[64];
    some_ids(other, 1, 0);
    other[9] = V;
    const fy_pair bad = pair_of(other, 12, 6);
    assert_int_equal(fy_scorer_score(&b.scorer, &bad, &after, NULL), -1);
    assert_int_equal(fy_scorer_score(&b.scorer, &good, &after, NULL), 0);
    assert_true(after.logprob == before.logprob);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_sum_over_the_continuation),
        cmocka_unit_test(greedy_means_every_token_is_the_likeliest),
        cmocka_unit_test(what_pairs_have_in_common_is_computed_once),
        cmocka_unit_test(what_is_too_long_loses_its_beginning),
        cmocka_unit_test(a_failure_does_not_spoil_what_follows),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
