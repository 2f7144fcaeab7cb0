/* One thread only: starting a thread allocates behind our back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "model/model.h"
#include "tests/unit/model/tiny_model.h"

enum { T = 40 };

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-memory-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static fy_model *open_tiny(tiny_model t)
{
    fy_err e = {0};
    assert_int_equal(tiny_write(&t, path, &e), 0);
    fy_model *m = fy_model_open(path, &e);
    assert_non_null(m);
    return m;
}

static void eval_allocates_nothing(void **state)
{
    (void)state;
    for (int experts = 0; experts < 2; experts++) {
        tiny_model t = tiny_of("llama", experts);
        t.type = FY_Q4_0;
        fy_model *m = open_tiny(t);
        fy_err e = {0};
        fy_session *s = fy_session_new(m, &(fy_session_params){.n_threads = 1, .n_batch = 8}, &e);
        assert_non_null(s);
        int32_t ids[T];
        for (int i = 0; i < T; i++)
            ids[i] = i;
        alloc_fail_after(0);
        const float *last;
        int rc = fy_session_eval(s, ids, T, NULL, &last, &e);
        bool allocated = alloc_fail_end();
        assert_int_equal(rc, 0);
        assert_false(allocated);
        fy_session_free(s);
        fy_model_close(m);
    }
}

static void decode_and_copy_allocate_nothing(void **state)
{
    (void)state;
    enum { N_SEQ = 20 };
    fy_model *m = open_tiny(tiny_of("llama", true));
    fy_err e = {0};
    fy_session *s = fy_session_new(
        m, &(fy_session_params){.n_ctx = T, .n_seq = N_SEQ, .n_threads = 1, .n_batch = 8}, &e);
    assert_non_null(s);
    int32_t ids[2 * T];
    uint32_t seqs[2 * T];
    for (uint32_t i = 0; i < 2 * T; i++) {
        ids[i] = (int32_t)i;
        seqs[i] = i % N_SEQ;
    }
    alloc_fail_after(0);
    const float *logits;
    int rc =
        fy_session_decode(s, &(fy_batch){.ids = ids, .seqs = seqs, .n = 2 * T}, NULL, &logits, &e);
    if (rc == 0)
        rc = fy_session_seq_copy(s, 1, 2, 3, &e);
    fy_session_seq_rewind(s, 3, 0);
    bool allocated = alloc_fail_end();
    assert_int_equal(rc, 0);
    assert_false(allocated);
    fy_session_free(s);
    fy_model_close(m);
}

static void any_failed_allocation_of_opening_is_an_error_without_a_leak(void **state)
{
    (void)state;
    tiny_model t = tiny_of("qwen2moe", true);
    t.hp.n_ff_shexp = 64;
    fy_model_close(open_tiny(t));
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_model *m = fy_model_open(path, &e);
        fy_session *s =
            m != NULL ? fy_session_new(m, &(fy_session_params){.n_threads = 1, .n_seq = 3}, &e)
                      : NULL;
        failed = alloc_fail_end();
        assert_true((s != NULL) == !failed);
        assert_true(!failed || e.code == FY_ENOMEM || e.code == FY_EFIT);
        fy_session_free(s);
        fy_model_close(m);
        assert_true(n < 1000);
    }
}

static void a_limit_of_memory_allocates_once(void **state)
{
    (void)state;
    tiny_model t = tiny_of("llama", true);
    t.hp.n_expert = 40;
    fy_model *m = open_tiny(t);
    uint64_t bytes = 0;
    for (size_t i = 0; i < fy_gguf_n_tensors(fy_model_gguf(m)); i++)
        bytes += fy_gguf_tensor_at(fy_model_gguf(m), i)->bytes;
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        const int rc = fy_model_limit_memory(m, bytes / 2, &e);
        failed = alloc_fail_end();
        assert_true((rc == 0) == !failed);
        assert_true(!failed || e.code == FY_ENOMEM);
        assert_true(n < 10);
    }
    fy_err e = {0};
    int32_t ids[T];
    for (int i = 0; i < T; i++)
        ids[i] = i;
    fy_session *s = fy_session_new(m, &(fy_session_params){.n_threads = 1, .n_batch = 8}, &e);
    assert_non_null(s);
    alloc_fail_after(0);
    const int rc = fy_session_eval(s, ids, T, NULL, NULL, &e);
    const bool allocated = alloc_fail_end();
    assert_int_equal(rc, 0);
    assert_false(allocated);
    assert_true(fy_model_expert_counts(m).n_read > 0);
    fy_session_free(s);
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eval_allocates_nothing),
        cmocka_unit_test(decode_and_copy_allocate_nothing),
        cmocka_unit_test(a_limit_of_memory_allocates_once),
        cmocka_unit_test(any_failed_allocation_of_opening_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
