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

static const struct {
    fy_type type;
    double near;          /* distance from a cache of f32 */
    uint64_t block_bytes; /* of 32 elements, 64 in f16 */
} kinds[] = {{FY_Q8_0, 0.03, 34}, {FY_Q4_0, 0.3, 18}};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static void caches_of_blocks_are_near_one_of_f32(void **state)
{
    (void)state;
    static float f32[T * V], both[T * V], k[T * V], v[T * V];
    fy_model *m = open_tiny(32);
    all_logits(m, (fy_session_params){.type_k = FY_F32, .type_v = FY_F32}, f32);
    for (int i = 0; i < N_KINDS; i++) {
        const fy_type t = kinds[i].type;
        all_logits(m, (fy_session_params){.type_k = t, .type_v = t}, both);
        all_logits(m, (fy_session_params){.type_k = t, .type_v = FY_F16}, k);
        all_logits(m, (fy_session_params){.type_k = FY_F32, .type_v = t}, v);
        assert_true(distance(f32, both) > 0 && distance(f32, both) < kinds[i].near);
        assert_true(distance(f32, k) > 0 && distance(f32, k) < kinds[i].near);
        assert_true(distance(f32, v) > 0 && distance(f32, v) < kinds[i].near);
    }
    fy_model_close(m);
}

static void caches_of_blocks_give_the_same_bits_for_any_threads_and_batches(void **state)
{
    (void)state;
    static float want[T * V], got[T * V];
    fy_model *m = open_tiny(64);
    for (int i = 0; i < N_KINDS; i++) {
        fy_session_params p = {
            .n_batch = 1, .n_threads = 1, .type_k = kinds[i].type, .type_v = kinds[i].type};
        all_logits(m, p, want);
        const uint32_t batches[] = {7, 64, 65, 100, 512};
        for (int b = 0; b < 5; b++) {
            p.n_batch = batches[b];
            p.n_threads = 1 + b % 3;
            all_logits(m, p, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
    fy_model_close(m);
}

static void caches_of_blocks_are_smaller(void **state)
{
    (void)state;
    fy_model *m = open_tiny(32);
    fy_session_plan f16, both, mixed;
    fy_err e = {0};
    fy_session_params p = {.type_k = FY_F16, .type_v = FY_F16};
    assert_int_equal(fy_session_plan_of(m, &p, &f16, &e), 0);
    for (int i = 0; i < N_KINDS; i++) {
        p = (fy_session_params){.type_k = kinds[i].type, .type_v = kinds[i].type};
        assert_int_equal(fy_session_plan_of(m, &p, &both, &e), 0);
        p.type_v = FY_F16;
        assert_int_equal(fy_session_plan_of(m, &p, &mixed, &e), 0);
        assert_true(both.kv_bytes * 64 >= f16.kv_bytes * kinds[i].block_bytes &&
                    both.kv_bytes * 64 < f16.kv_bytes * (kinds[i].block_bytes + 2));
        assert_true(2 * mixed.kv_bytes == f16.kv_bytes + both.kv_bytes);
    }
    fy_model_close(m);
}

static void heads_that_are_no_whole_blocks_have_no_such_cache(void **state)
{
    (void)state;
    fy_model *m = open_tiny(16);
    for (int i = 0; i < 2 * N_KINDS; i++) {
        const fy_type t = kinds[i / 2].type;
        const fy_session_params p = {.type_k = i % 2 == 0 ? t : FY_F16,
                                     .type_v = i % 2 == 0 ? FY_F16 : t};
        fy_err e = {0};
        assert_null(fy_session_new(m, &p, &e));
        assert_int_equal(e.code, FY_EARG);
        assert_non_null(
            strstr(e.msg, "heads have 16 elements, expected a multiple of 32; use f16"));
    }
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_of_blocks_are_near_one_of_f32),
        cmocka_unit_test(caches_of_blocks_give_the_same_bits_for_any_threads_and_batches),
        cmocka_unit_test(caches_of_blocks_are_smaller),
        cmocka_unit_test(heads_that_are_no_whole_blocks_have_no_such_cache),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
