#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/api/api_model.h"

/* An object and no error, or the error and no object. */
static void assert_consistent(ferry_status status, const void *object, const ferry_error *e)
{
    const bool bad = status != FERRY_OK;
    if (bad != (object == NULL) || e->status != status)
        fail_msg("status %d, error %d '%s', object %p", status, e->status, e->message, object);
    if (bad && strstr(e->message, "memory") == NULL)
        fail_msg("status %d, '%s'", status, e->message);
}

static void assert_outcome(bool failed, ferry_status status, const void *object,
                           const ferry_error *e)
{
    if (failed != (status != FERRY_OK))
        fail_msg("allocation %s: status %d, '%s'", failed ? "failed" : "made", status, e->message);
    assert_consistent(status, object, e);
}

static void a_model_that_finds_no_memory_is_an_error(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        ferry_model *m;
        ferry_error e;
        alloc_fail_after(n);
        ferry_status status = ferry_model_open(api_path, NULL, &m, &e);
        failed = alloc_fail_end();
        assert_outcome(failed, status, m, &e);
        ferry_model_free(m);
    }
}

static void a_session_that_finds_no_memory_is_an_error(void **state)
{
    (void)state;
    ferry_model *m = api_open();
    ferry_session_params p;
    ferry_session_params_init(&p, sizeof p);
    p.n_threads = 1;
    p.n_ctx = 16;
    bool failed = true;
    for (long n = 0; failed; n++) {
        ferry_session *s;
        ferry_error e;
        alloc_fail_after(n);
        ferry_status status = ferry_session_new(m, &p, &s, &e);
        failed = alloc_fail_end();
        assert_outcome(failed, status, s, &e);
        ferry_session_free(s);
    }
    ferry_model_free(m);
}

/* Regular expressions do without their compiled form: not every failure is one of the call. */
static void a_vocabulary_that_found_no_memory_loads_later(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        ferry_model *m = api_open();
        const ferry_vocab *v;
        ferry_error e;
        alloc_fail_after(n);
        ferry_status status = ferry_model_vocab(m, &v, &e);
        failed = alloc_fail_end();
        assert_true(failed || status == FERRY_OK);
        assert_consistent(status, v, &e);
        assert_true(ferry_vocab_size(api_vocab(m)) > 0);
        ferry_model_free(m);
    }
}

static void a_sampler_that_finds_no_memory_is_an_error(void **state)
{
    (void)state;
    ferry_sampler_params p;
    ferry_sampler_params_init(&p, sizeof p);
    p.temperature = 1;
    p.repeat_penalty = 2;
    bool failed = true;
    for (long n = 0; failed; n++) {
        ferry_model *m = api_open(); /* its vocabulary is not loaded yet */
        ferry_sampler *s;
        ferry_error e;
        alloc_fail_after(n);
        ferry_status status = ferry_sampler_new(m, &p, &s, &e);
        failed = alloc_fail_end();
        assert_true(failed || status == FERRY_OK);
        assert_consistent(status, s, &e);
        ferry_sampler_free(s);
        ferry_model_free(m);
    }
}

static void texts_that_find_no_memory_are_errors(void **state)
{
    (void)state;
    ferry_model *m = api_open();
    const ferry_vocab *v = api_vocab(m);
    int32_t ids[32];
    char text[64];
    size_t n_ids = 0, n_bytes = 0;
    bool failed = true;
    for (long n = 0; failed; n++) {
        ferry_error e;
        alloc_fail_after(n);
        ferry_status status = ferry_tokenize(v, "One day", 7, 0, ids, 32, &n_ids, &e);
        failed = alloc_fail_end();
        assert_outcome(failed, status, status == FERRY_OK ? ids : NULL, &e);
    }
    failed = true;
    for (long n = 0; failed; n++) {
        ferry_error e;
        alloc_fail_after(n);
        ferry_status status = ferry_detokenize(v, ids, n_ids, 0, text, sizeof text, &n_bytes, &e);
        failed = alloc_fail_end();
        assert_outcome(failed, status, status == FERRY_OK ? text : NULL, &e);
    }
    assert_string_equal(text, "One day");
    ferry_model_free(m);
}

static void an_evaluation_takes_no_memory(void **state)
{
    (void)state;
    ferry_model *m = api_open();
    ferry_session *s = api_session(m, 16);
    ferry_sampler *sampler = api_sampler(m, NULL);
    const int32_t ids[] = {3, 4, 5};
    const float *logits;
    int32_t id;
    alloc_fail_after(0);
    ferry_status status = ferry_session_eval(s, ids, 3, &logits, NULL);
    if (status == FERRY_OK)
        status = ferry_sampler_sample(sampler, logits, &id, NULL);
    assert_false(alloc_fail_end());
    assert_int_equal(status, FERRY_OK);
    ferry_sampler_free(sampler);
    ferry_session_free(s);
    ferry_model_free(m);
}

static void decoding_takes_no_memory(void **state)
{
    (void)state;
    ferry_model *m = api_open();
    ferry_session *s;
    ferry_session_params p;
    ferry_session_params_init(&p, sizeof p);
    p.n_ctx = 16;
    p.n_seq = 3;
    p.n_threads = 1;
    assert_int_equal(ferry_session_new(m, &p, &s, NULL), FERRY_OK);
    const int32_t ids[] = {3, 4, 5, 6, 7};
    const float *logits;
    alloc_fail_after(0);
    ferry_status status =
        ferry_session_decode(s, ids, (uint32_t[]){0, 1, 2, 0, 1}, NULL, 5, &logits, NULL);
    if (status == FERRY_OK)
        status = ferry_session_seq_copy(s, 0, 1, 2, NULL);
    assert_false(alloc_fail_end());
    assert_int_equal(status, FERRY_OK);
    ferry_session_free(s);
    ferry_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_that_finds_no_memory_is_an_error),
        cmocka_unit_test(a_session_that_finds_no_memory_is_an_error),
        cmocka_unit_test(a_vocabulary_that_found_no_memory_loads_later),
        cmocka_unit_test(a_sampler_that_finds_no_memory_is_an_error),
        cmocka_unit_test(texts_that_find_no_memory_are_errors),
        cmocka_unit_test(an_evaluation_takes_no_memory),
        cmocka_unit_test(decoding_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, api_make_model, api_remove_model);
}
