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

static const int32_t once[] = {763, 408, 409, 258, 410};
enum { N_ONCE = 5, N_TALE = 80, METHODS = 5 };

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

static ferry_session *new_session(void)
{
    ferry_session *session;
    ferry_session_params p;
    ferry_error e;
    ferry_session_params_init(&p, sizeof p);
    p.n_ctx = 256;
    p.n_threads = 1;
    p.n_logits = 64;
    if (ferry_session_new(model, &p, &session, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return session;
}

/* spec NULL: without. */
static void tell(ferry_session *session, ferry_speculator *spec, float temperature, int32_t *out)
{
    ferry_sampler *sampler;
    ferry_sampler_params p;
    ferry_error e;
    const float *logits;
    ferry_sampler_params_init(&p, sizeof p);
    p.temperature = temperature;
    p.flags = FERRY_IGNORE_END;
    p.seed = 3;
    assert_int_equal(ferry_sampler_new(model, &p, &sampler, &e), FERRY_OK);
    ferry_session_rewind(session, 0);
    assert_int_equal(ferry_session_eval(session, once, N_ONCE, &logits, &e), FERRY_OK);
    if (spec != NULL)
        assert_int_equal(ferry_speculator_begin(spec, once, N_ONCE, &e), FERRY_OK);
    for (int i = 0; i < N_TALE; i++) {
        assert_int_equal(ferry_sampler_sample(sampler, logits, &out[i], &e), FERRY_OK);
        assert_int_equal(ferry_sampler_accept(sampler, out[i], &e), FERRY_OK);
        if (spec != NULL)
            assert_int_equal(
                ferry_speculator_next(spec, session, out[i], N_TALE - 1 - i, &logits, &e),
                FERRY_OK);
        else
            assert_int_equal(ferry_session_eval(session, &out[i], 1, &logits, &e), FERRY_OK);
    }
    if (spec != NULL)
        assert_int_equal(ferry_speculator_begin(spec, once, N_ONCE, &e), FERRY_EUSAGE);
    ferry_speculator_settle(spec, session);
    assert_int_equal(ferry_session_n_past(session), N_ONCE + N_TALE);
    ferry_sampler_free(sampler);
}

static ferry_status make(ferry_session *session, ferry_speculator_params p, ferry_speculator **out,
                         ferry_error *e)
{
    p.struct_size = sizeof p;
    return ferry_speculator_new(session, &p, out, e);
}

static void every_method_tells_the_same(void **state)
{
    (void)state;
    ferry_session *session = new_session();
    for (int t = 0; t < 2; t++) {
        int32_t want[N_TALE], got[N_TALE];
        tell(session, NULL, (float)t, want);
        for (int method = 0; method < METHODS; method++) {
            ferry_speculator *spec;
            ferry_error e;
            uint64_t n_steps, n_draft, n_right;
            const bool drafts = method == FERRY_SPEC_DRAFT || method == FERRY_SPEC_TREE;
            if (make(session,
                     (ferry_speculator_params){
                         .method = method, .n_threads = 1, .draft = drafts ? model : NULL},
                     &spec, &e) != FERRY_OK)
                fail_msg("%s", e.message);
            tell(session, spec, (float)t, got);
            assert_memory_equal(want, got, sizeof want);
            ferry_speculator_stats(spec, &n_steps, &n_draft, &n_right);
            assert_true(n_right <= n_draft && n_steps + n_right >= N_TALE);
            if (drafts && t == 0)
                assert_true(n_steps < N_TALE / 3);
            ferry_speculator_free(spec);
        }
    }
    ferry_session_free(session);
}

static void expect(ferry_session *session, ferry_speculator_params p, const char *text)
{
    ferry_speculator *spec = (ferry_speculator *)1;
    ferry_error e;
    assert_int_equal(make(session, p, &spec, &e), FERRY_EUSAGE);
    assert_null(spec);
    if (strstr(e.message, text) == NULL)
        fail_msg("'%s', expected '%s'", e.message, text);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    ferry_session *session = new_session();
    ferry_speculator *spec;
    ferry_error e;
    const float *logits;
    expect(session, (ferry_speculator_params){.method = 9}, "method 9");
    expect(session, (ferry_speculator_params){.method = FERRY_SPEC_DRAFT}, "a draft model");
    expect(session, (ferry_speculator_params){.method = FERRY_SPEC_LOOKUP, .draft = model},
           "a draft model");
    expect(session, (ferry_speculator_params){.n_draft = 64}, "the logits of 64 tokens");
    expect(session, (ferry_speculator_params){.method = FERRY_SPEC_LOOKAHEAD, .ngram = 9},
           "larger n_logits");
    expect(NULL, (ferry_speculator_params){.method = 1}, "session is NULL");
    assert_int_equal(make(session, (ferry_speculator_params){.method = 1}, &spec, &e), FERRY_OK);
    assert_int_equal(ferry_speculator_next(spec, NULL, 1, -1, &logits, &e), FERRY_EUSAGE);
    assert_int_equal(ferry_speculator_next(spec, session, 1, -1, NULL, &e), FERRY_EUSAGE);
    assert_int_equal(ferry_speculator_begin(spec, NULL, 1, &e), FERRY_EUSAGE);
    assert_int_equal(ferry_session_eval(session, once, N_ONCE, NULL, &e), FERRY_OK);
    assert_int_equal(ferry_speculator_begin(spec, once, N_ONCE, &e), FERRY_OK);
    ferry_session_cancel(session);
    assert_int_equal(ferry_speculator_next(spec, session, 11, -1, &logits, &e), FERRY_EINTR);
    assert_int_equal(ferry_speculator_next(spec, session, 11, -1, &logits, &e), FERRY_OK);
    ferry_session_free(session);
    ferry_speculator_free(spec);
    ferry_speculator_free(NULL);
    ferry_speculator_settle(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_tells_the_same),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests_name("api_speculate", tests, open_model, close_model);
}
