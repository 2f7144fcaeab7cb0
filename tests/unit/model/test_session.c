#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "model/model.h"
#include "tests/unit/model/tiny_model.h"

enum { T = 40, V = 96 };

static char path[64];
static int32_t ids[T];

static int make_path(void **state)
{
    (void)state;
    for (int i = 0; i < T; i++)
        ids[i] = (i * 37 + 11) % V;
    snprintf(path, sizeof path, "/tmp/ferry-session-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static fy_model *open_tiny(fy_type type, uint32_t n_ctx_train)
{
    tiny_model t = tiny_default();
    fy_err e = {0};
    t.type = type;
    t.hp.n_ctx_train = n_ctx_train;
    assert_int_equal(tiny_write(&t, path, &e), 0);
    fy_model *m = fy_model_open(path, &e);
    assert_non_null(m);
    return m;
}

static fy_session *new_session(const fy_model *m, fy_session_params p)
{
    fy_err e = {0};
    fy_session *s = fy_session_new(m, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

static const float *eval(fy_session *s, const int32_t *what, uint32_t n)
{
    fy_err e = {0};
    const float *last = NULL;
    if (fy_session_eval(s, what, n, NULL, &last, &e) != 0)
        fail_msg("%s", e.msg);
    return last;
}

static int keep_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)e;
    memcpy((float *)user + pos * V, logits, n * V * sizeof(float));
    return 0;
}

static void all_logits(const fy_model *m, fy_session_params p, float out[T * V])
{
    fy_session *s = new_session(m, p);
    fy_err e = {0};
    fy_eval_sinks sinks = {.logits = keep_logits, .user = out};
    const float *last;
    assert_int_equal(fy_session_eval(s, ids, T, &sinks, &last, &e), 0);
    assert_memory_equal(last, out + (T - 1) * V, V * sizeof(float));
    fy_session_free(s);
}

static void results_are_the_same_bits_for_any_threads_and_batches(void **state)
{
    (void)state;
    const fy_type types[] = {FY_F32, FY_F16, FY_BF16, FY_Q8_0, FY_Q4_0};
    const uint32_t batches[] = {1, 2, 3, 7, 8, 16, 17, 39, 512};
    static float want[T * V], got[T * V];
    for (int t = 0; t < 5; t++) {
        fy_model *m = open_tiny(types[t], 128);
        for (int kv = 0; kv < 2; kv++) {
            fy_session_params p = {.n_batch = 1, .n_threads = 1, .type_k = kv ? FY_F16 : FY_F32};
            p.type_v = p.type_k;
            all_logits(m, p, want);
            for (int b = 0; b < 9; b++) {
                p.n_batch = batches[b];
                p.n_threads = 1 + b % 3;
                all_logits(m, p, got);
                assert_memory_equal(got, want, sizeof want);
            }
        }
        fy_model_close(m);
    }
}

static void a_prompt_given_in_pieces_is_the_same_prompt(void **state)
{
    (void)state;
    fy_model *m = open_tiny(FY_Q8_0, 128);
    fy_session *a = new_session(m, (fy_session_params){0}),
               *b = new_session(m, (fy_session_params){0});
    const float *whole = eval(a, ids, T);
    eval(b, ids, 11);
    eval(b, ids + 11, 1);
    assert_memory_equal(eval(b, ids + 12, T - 12), whole, V * sizeof(float));
    assert_int_equal(fy_session_n_past(b), T);
    fy_session_free(a);
    fy_session_free(b);
    fy_model_close(m);
}

static void rewinding_forgets_what_came_after(void **state)
{
    (void)state;
    fy_model *m = open_tiny(FY_F32, 128);
    fy_session *s = new_session(m, (fy_session_params){.type_k = FY_F16, .type_v = FY_F16});
    float want[V];
    memcpy(want, eval(s, ids, 20), sizeof want);
    eval(s, (int32_t[]){90, 91, 92}, 3);
    fy_session_rewind(s, 12);
    assert_int_equal(fy_session_n_past(s), 12);
    assert_memory_equal(eval(s, ids + 12, 8), want, sizeof want);
    fy_session_rewind(s, 1000);
    assert_int_equal(fy_session_n_past(s), 20);
    fy_session_free(s);
    fy_model_close(m);
}

static void a_full_context_is_refused_with_the_remedy_and_changes_nothing(void **state)
{
    (void)state;
    fy_model *m = open_tiny(FY_F32, 128);
    fy_session *s = new_session(m, (fy_session_params){.n_ctx = 24});
    assert_int_equal(fy_session_n_ctx(s), 24);
    eval(s, ids, 20);
    fy_err e = {0};
    assert_int_equal(fy_session_eval(s, ids, 5, NULL, NULL, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "-c"));
    assert_int_equal(fy_session_n_past(s), 20);
    eval(s, ids, 4);
    e = (fy_err){0};
    assert_int_equal(fy_session_eval(s, ids, 1, NULL, NULL, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    fy_session_free(s);
    fy_model_close(m);
}

static void ids_outside_the_vocabulary_and_empty_prompts_are_refused(void **state)
{
    (void)state;
    fy_model *m = open_tiny(FY_F32, 128);
    fy_session *s = new_session(m, (fy_session_params){0});
    const int32_t bad[] = {-1, V, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        fy_err e = {0};
        assert_int_equal(fy_session_eval(s, (int32_t[]){1, bad[i]}, 2, NULL, NULL, &e), -1);
        assert_int_equal(e.code, FY_EARG);
        assert_non_null(strstr(e.msg, "expected 0 to 95"));
    }
    fy_err e = {0};
    assert_int_equal(fy_session_eval(s, ids, 0, NULL, NULL, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_int_equal(fy_session_n_past(s), 0);
    fy_session_free(s);
    fy_model_close(m);
}

static void the_context_is_what_was_trained_but_at_most_4096_unless_asked(void **state)
{
    (void)state;
    const uint32_t trained[] = {100, 4096, 131072}, expected[] = {100, 4096, 4096};
    for (int i = 0; i < 3; i++) {
        fy_model *m = open_tiny(FY_F32, trained[i]);
        fy_session *s = new_session(m, (fy_session_params){0});
        assert_int_equal(fy_session_n_ctx(s), expected[i]);
        fy_session_free(s);
        fy_model_close(m);
    }
}

static void a_plan_counts_keys_values_and_scratch(void **state)
{
    (void)state;
    fy_model *m = open_tiny(FY_Q4_0, 128);
    fy_session_plan f32, f16, large;
    fy_session_params p = {.n_ctx = 100, .n_batch = 10, .n_threads = 1};
    assert_int_equal(fy_session_plan_of(m, &p, &f32, NULL), 0);
    assert_int_equal(f32.kv_bytes, 2 * 3 * 2 * 100 * 32 *
                                       4); /* k and v, layers, heads, positions, width, bytes */
    p.type_k = p.type_v = FY_F16;
    assert_int_equal(fy_session_plan_of(m, &p, &f16, NULL), 0);
    assert_int_equal(f16.kv_bytes * 2, f32.kv_bytes);
    assert_int_equal(f16.scratch_bytes, f32.scratch_bytes);
    p.n_batch = 100;
    assert_int_equal(fy_session_plan_of(m, &p, &large, NULL), 0);
    assert_true(large.scratch_bytes > f16.scratch_bytes);
    fy_model_close(m);
}

static fy_model *open_model(tiny_model t)
{
    fy_err e = {0};
    if (tiny_write(&t, path, &e) != 0)
        fail_msg("%s", e.msg);
    fy_model *m = fy_model_open(path, &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    return m;
}

static void families_of_every_kind_are_the_same_bits_for_any_threads_and_batches(void **state)
{
    (void)state;
    const struct {
        const char *arch;
        bool experts;
    } kinds[] = {{"qwen2moe", true}, {"smallthinker", true}, {"gemma2", false}, {"gemma3", false},
                 {"falcon", false},  {"gpt2", false},        {"olmo2", false},  {"phi3", false}};
    static float want[T * V], got[T * V];
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        tiny_model t = tiny_of(kinds[k].arch, kinds[k].experts);
        t.type = k % 2 ? FY_Q8_0 : FY_F32;
        t.hp.n_swa = tiny_knows(&t, FY_T_POSITION_EMBD) ? 0 : 5;
        t.hp.n_ff_shexp = tiny_knows(&t, FY_T_FFN_UP_SHEXP) ? 64 : 0;
        t.hp.residual_scale = k % 3 ? 0 : 0.5f;
        fy_model *m = open_model(t);
        all_logits(m, (fy_session_params){.n_batch = 1, .n_threads = 1}, want);
        const uint32_t batches[] = {2, 7, 39, 512};
        for (int b = 0; b < 4; b++) {
            all_logits(m, (fy_session_params){.n_batch = batches[b], .n_threads = 1 + b % 3}, got);
            assert_memory_equal(got, want, sizeof want);
        }
        fy_model_close(m);
    }
}

static void a_context_beyond_the_learned_positions_is_refused(void **state)
{
    (void)state;
    fy_model *m = open_model(tiny_of("gpt2", false));
    assert_int_equal(fy_model_max_ctx(m), 128);
    fy_err e = {0};
    assert_null(fy_session_new(m, &(fy_session_params){.n_ctx = 129}, &e));
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "use -c 128 or less"));
    fy_session *s = new_session(m, (fy_session_params){.n_ctx = 128});
    fy_session_free(s);
    s = new_session(m, (fy_session_params){0});
    assert_int_equal(fy_session_n_ctx(s), 128);
    fy_session_free(s);
    fy_model_close(m);
}

static void scratch_holds_only_what_the_family_needs(void **state)
{
    (void)state;
    const fy_session_params p = {.n_ctx = 100, .n_batch = 10, .n_threads = 1};
    fy_session_plan dense, experts;
    tiny_model t = tiny_of("llama", false);
    fy_model *m = open_model(t);
    assert_int_equal(fy_session_plan_of(m, &p, &dense, NULL), 0);
    fy_model_close(m);
    t = tiny_of("llama", true);
    t.hp.n_ff_exp = t.hp.n_ff;
    m = open_model(t);
    assert_int_equal(fy_session_plan_of(m, &p, &experts, NULL), 0);
    assert_true(experts.scratch_bytes > dense.scratch_bytes);
    assert_true(experts.scratch_bytes < dense.scratch_bytes + 10 * 64 * 4 + 2048);
    fy_model_close(m);
}

static double distance(const float *a, const float *b)
{
    double d = 0;
    for (int i = 0; i < T * V; i++)
        d = fmax(d, fabs((double)a[i] - (double)b[i]));
    return d;
}

static void keys_and_values_may_have_different_types(void **state)
{
    (void)state;
    static float f32[T * V], f16[T * V], k16[T * V], v16[T * V];
    fy_model *m = open_tiny(FY_F32, 128);
    all_logits(m, (fy_session_params){.type_k = FY_F32, .type_v = FY_F32}, f32);
    all_logits(m, (fy_session_params){.type_k = FY_F16, .type_v = FY_F16}, f16);
    all_logits(m, (fy_session_params){.type_k = FY_F16, .type_v = FY_F32}, k16);
    all_logits(m, (fy_session_params){.type_k = FY_F32, .type_v = FY_F16, .n_batch = 3}, v16);
    double both = distance(f32, f16), k = distance(f32, k16), v = distance(f32, v16);
    assert_true(both > 0 && k > 0 && v > 0);
    assert_true(k < 3 * both && v < 3 * both && both < 3 * (k + v));
    fy_model_close(m);
}

static void impossible_parameters_are_refused(void **state)
{
    (void)state;
    fy_model *m = open_tiny(FY_F32, 128);
    const struct {
        fy_session_params p;
        fy_code code;
        const char *word;
    } cases[] = {
        {{.type_k = FY_I32, .type_v = FY_F16}, FY_EARG, "expected f32, f16, q8_0 or q4_0"},
        {{.type_k = FY_F16, .type_v = FY_Q5_0}, FY_EARG, "expected f32, f16, q8_0 or q4_0"},
        {{.n_threads = 257}, FY_EARG, "threads"},
        {{.n_threads = -1}, FY_EARG, "threads"},
        {{.n_ctx = UINT32_MAX}, FY_EARG, "context"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_null(fy_session_new(m, &cases[i].p, &e));
        assert_int_equal(e.code, cases[i].code);
        assert_non_null(strstr(e.msg, cases[i].word));
    }
    fy_model_close(m);
}

static void an_interrupt_ends_the_work_and_keeps_the_session(void **state)
{
    (void)state;
    fy_model *m = open_tiny(FY_F32, 128);
    fy_session *s = new_session(m, (fy_session_params){0});
    float want[V];
    eval(s, ids, 5);
    memcpy(want, eval(s, ids + 5, 5), sizeof want);
    fy_session_rewind(s, 5);
    fy_interrupted = 1;
    fy_err e = {0};
    int rc = fy_session_eval(s, ids + 5, 5, NULL, NULL, &e);
    fy_interrupted = 0;
    assert_int_equal(rc, -1);
    assert_int_equal(e.code, FY_EINTR);
    assert_int_equal(fy_session_n_past(s), 5);
    assert_memory_equal(eval(s, ids + 5, 5), want, sizeof want);
    fy_session_free(s);
    fy_model_close(m);
}

static int refuse(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)user;
    (void)logits;
    return pos + n > 9 ? fy_fail(e, FY_EIO, "no more") : 0;
}

static void a_sink_can_stop_the_eval(void **state)
{
    (void)state;
    fy_model *m = open_tiny(FY_F32, 128);
    fy_session *s = new_session(m, (fy_session_params){.n_batch = 3});
    fy_err e = {0};
    fy_eval_sinks sinks = {.logits = refuse};
    assert_int_equal(fy_session_eval(s, ids, T, &sinks, NULL, &e), -1);
    assert_string_equal(e.msg, "no more");
    assert_int_equal(fy_session_n_past(s), 0);
    fy_session_free(s);
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_the_same_bits_for_any_threads_and_batches),
        cmocka_unit_test(a_prompt_given_in_pieces_is_the_same_prompt),
        cmocka_unit_test(rewinding_forgets_what_came_after),
        cmocka_unit_test(a_full_context_is_refused_with_the_remedy_and_changes_nothing),
        cmocka_unit_test(ids_outside_the_vocabulary_and_empty_prompts_are_refused),
        cmocka_unit_test(the_context_is_what_was_trained_but_at_most_4096_unless_asked),
        cmocka_unit_test(a_plan_counts_keys_values_and_scratch),
        cmocka_unit_test(families_of_every_kind_are_the_same_bits_for_any_threads_and_batches),
        cmocka_unit_test(a_context_beyond_the_learned_positions_is_refused),
        cmocka_unit_test(scratch_holds_only_what_the_family_needs),
        cmocka_unit_test(keys_and_values_may_have_different_types),
        cmocka_unit_test(impossible_parameters_are_refused),
        cmocka_unit_test(an_interrupt_ends_the_work_and_keeps_the_session),
        cmocka_unit_test(a_sink_can_stop_the_eval),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
