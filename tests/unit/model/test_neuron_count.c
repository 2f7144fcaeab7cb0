#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/neuron_count.h"
#include "model/session.h"

#define FALCON "tests/data/sparse/falcon/model.powerinfer.gguf"

static const int32_t ids[] = {5, 6, 7, 8, 9, 10, 11};
enum { N_IDS = sizeof ids / sizeof ids[0] };

static int no_logits(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)user, (void)logits, (void)first, (void)n, (void)e;
    return 0;
}

/* Counts of the tokens in batches of so many. */
static void count(const fy_model *m, fy_neuron_counts *c, uint32_t batch, int threads)
{
    fy_err e = {0};
    const fy_session_params p = {
        .n_ctx = 64, .n_batch = batch, .n_threads = threads, .sparse = FY_SPARSE_OFF};
    const fy_eval_sinks sinks = {.logits = no_logits};
    fy_session *s = fy_session_new(m, &p, &e);
    assert_non_null(s);
    assert_int_equal(fy_neuron_counts_of_model(c, m, &e), 0);
    assert_int_equal(fy_session_count_neurons(s, c, &e), 0);
    assert_int_equal(fy_session_eval(s, ids, N_IDS, &sinks, NULL, &e), 0);
    assert_int_equal(fy_session_count_neurons(s, NULL, &e), 0);
    fy_session_rewind(s, 0);
    assert_int_equal(fy_session_eval(s, ids, N_IDS, &sinks, NULL, &e), 0); /* is not counted */
    fy_session_free(s);
}

static void counts_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_neuron_counts a, b;
    fy_model *m = fy_model_open(FALCON, &e);
    assert_non_null(m);
    count(m, &a, 7, 2);
    count(m, &b, 2, 1); /* the last one alone */
    assert_int_equal(a.n_layer, 2);
    assert_true(a.n_tokens == N_IDS && b.n_tokens == N_IDS);
    for (uint32_t l = 0; l < a.n_layer; l++) {
        double sum = 0;
        assert_true(a.layers[l].n == 256 && b.layers[l].n == 256);
        assert_memory_equal(a.layers[l].of, b.layers[l].of, 256 * sizeof(double));
        for (int i = 0; i < 256; i++) {
            assert_true(a.layers[l].of[i] <= N_IDS);
            sum += a.layers[l].of[i];
        }
        assert_in_range((uint64_t)sum, 256 * N_IDS / 4, 256 * N_IDS * 3 / 4);
    }
    fy_neuron_counts_release(&a);
    fy_neuron_counts_release(&b);
    fy_model_close(m);
}

static void a_model_without_zeros_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_neuron_counts c = {0};
    fy_model *m = fy_model_open(FALCON, &e);
    m->hp.act = FY_ACT_SILU;
    assert_int_equal(fy_neuron_counts_of_model(&c, m, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "silu"));
    fy_neuron_counts_release(&c);
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_do_not_depend_on_the_batch),
        cmocka_unit_test(a_model_without_zeros_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
