/* Sessions whose cache is q8_0, or of two types, over several chunks of attention. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"
#include "tests/unit/model/tiny_model.h"

enum { T = 150, V = 96 };

static char path[64];
static int32_t ids[T];

static int make_path(void **state)
{
    (void)state;
    for (int i = 0; i < T; i++)
        ids[i] = (i * 37 + 11) % V;
    snprintf(path, sizeof path, "/tmp/ferry-cache-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static fy_model *open_tiny(uint32_t head_dim)
{
    tiny_model t = tiny_default();
    fy_err e = {0};
    t.hp.n_ctx_train = T;
    t.hp.head_dim = t.hp.head_dim_v = t.hp.n_rot = head_dim;
    assert_int_equal(tiny_write(&t, path, &e), 0);
    fy_model *m = fy_model_open(path, &e);
    assert_non_null(m);
    return m;
}

static int keep_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)e;
    memcpy((float *)user + pos * V, logits, n * V * sizeof(float));
    return 0;
}

static void all_logits(const fy_model *m, fy_session_params p, float out[T * V])
{
    fy_err e = {0};
    fy_session *s = fy_session_new(m, &p, &e);
    assert_non_null(s);
    fy_eval_sinks sinks = {.logits = keep_logits, .user = out};
    assert_int_equal(fy_session_eval(s, ids, T, &sinks, NULL, &e), 0);
    fy_session_free(s);
}

/* Root of the mean square of a - b, relatively to that of a. */
static double distance(const float *a, const float *b)
{
    double d = 0, size = 0;
    for (int i = 0; i < T * V; i++) {
        d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)a[i] * (double)a[i];
    }
    return sqrt(d / size);
}

static void a_cache_of_q8_0_is_near_one_of_f32(void **state)
{
    (void)state;
    static float f32[T * V], q8[T * V], k[T * V], v[T * V];
    fy_model *m = open_tiny(32);
    all_logits(m, (fy_session_params){.type_k = FY_F32, .type_v = FY_F32}, f32);
    all_logits(m, (fy_session_params){.type_k = FY_Q8_0, .type_v = FY_Q8_0}, q8);
    all_logits(m, (fy_session_params){.type_k = FY_Q8_0, .type_v = FY_F16}, k);
    all_logits(m, (fy_session_params){.type_k = FY_F32, .type_v = FY_Q8_0}, v);
    assert_true(distance(f32, q8) > 0 && distance(f32, q8) < 0.03);
    assert_true(distance(f32, k) > 0 && distance(f32, k) < 0.03);
    assert_true(distance(f32, v) > 0 && distance(f32, v) < 0.03);
    fy_model_close(m);
}

static void a_cache_of_q8_0_gives_the_same_bits_for_any_threads_and_batches(void **state)
{
    (void)state;
    static float want[T * V], got[T * V];
    fy_model *m = open_tiny(64);
    fy_session_params p = {.n_batch = 1, .n_threads = 1, .type_k = FY_Q8_0, .type_v = FY_Q8_0};
    all_logits(m, p, want);
    const uint32_t batches[] = {7, 64, 65, 100, 512};
    for (int b = 0; b < 5; b++) {
        p.n_batch = batches[b];
        p.n_threads = 1 + b % 3;
        all_logits(m, p, got);
        assert_memory_equal(got, want, sizeof want);
    }
    fy_model_close(m);
}

static void a_cache_of_q8_0_is_smaller(void **state)
{
    (void)state;
    fy_model *m = open_tiny(32);
    fy_session_plan f16, q8, mixed;
    fy_err e = {0};
    assert_int_equal(
        fy_session_plan_of(m, &(fy_session_params){.type_k = FY_F16, .type_v = FY_F16}, &f16, &e),
        0);
    assert_int_equal(
        fy_session_plan_of(m, &(fy_session_params){.type_k = FY_Q8_0, .type_v = FY_Q8_0}, &q8, &e),
        0);
    assert_int_equal(fy_session_plan_of(
                         m, &(fy_session_params){.type_k = FY_Q8_0, .type_v = FY_F16}, &mixed, &e),
                     0);
    assert_true(q8.kv_bytes * 64 >= f16.kv_bytes * 34 && q8.kv_bytes < f16.kv_bytes * 36 / 64);
    assert_true(2 * mixed.kv_bytes == f16.kv_bytes + q8.kv_bytes);
    fy_model_close(m);
}

static void heads_that_are_no_whole_blocks_cannot_be_q8_0(void **state)
{
    (void)state;
    fy_model *m = open_tiny(16);
    const fy_session_params p[] = {{.type_k = FY_Q8_0, .type_v = FY_F16},
                                   {.type_k = FY_F16, .type_v = FY_Q8_0}};
    for (int i = 0; i < 2; i++) {
        fy_err e = {0};
        assert_null(fy_session_new(m, &p[i], &e));
        assert_int_equal(e.code, FY_EARG);
        assert_non_null(
            strstr(e.msg, "heads have 16 elements, expected a multiple of 32; use f16"));
    }
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_of_q8_0_is_near_one_of_f32),
        cmocka_unit_test(a_cache_of_q8_0_gives_the_same_bits_for_any_threads_and_batches),
        cmocka_unit_test(a_cache_of_q8_0_is_smaller),
        cmocka_unit_test(heads_that_are_no_whole_blocks_cannot_be_q8_0),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
