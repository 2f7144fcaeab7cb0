/* Calibration of a tiny model: ranges and sampled inputs describe the same values, whole batches
 * are seen, and nothing depends on the threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "tests/unit/model/chain_fixture.h"
#include "workspace/compile/calibrate.h"
#include "workspace/compile/qinputs.h"

enum { CACHE = 24, LARGE = 8, N_IDS = 45 }; /* contexts of 24 tokens; the last 5 are no batch */

static const fy_npu_recipe recipe = {.name = (char[]){"16a4w"}, .type = FY_NPU_16A4W, .kv_bits = 8};
static int32_t ids[N_IDS];
static const fy_ids no_preset;

static int calibrate(size_t n, const fy_ids *preset, int n_threads, fy_q_ranges **out, fy_err *e)
{
    char weights[128], qnn[128], inputs[128];
    snprintf(weights, sizeof weights, "%s", chain_at("cut/ggml/weights.gguf"));
    snprintf(qnn, sizeof qnn, "%s", chain_at("cut/qnn"));
    snprintf(inputs, sizeof inputs, "%s", chain_at("inputs.gguf"));
    const fy_calibration how = {.weights = weights,
                                .qnn = qnn,
                                .ids = ids,
                                .n_ids = n,
                                .recipe = &recipe,
                                .preset = preset,
                                .inputs = inputs,
                                .n_threads = n_threads};
    return fy_q_calibrate(&how, out, e);
}

static fy_q_ranges *calibrated(const fy_ids *preset, int n_threads)
{
    fy_q_ranges *r = NULL;
    fy_err e = {0};
    if (calibrate(N_IDS, preset, n_threads, &r, &e) != 0)
        fail_msg("%s", e.msg);
    return r;
}

static fy_gguf *inputs_of(const fy_q_ranges *r)
{
    fy_err e = {0};
    fy_gguf *g = fy_q_inputs_open(chain_at("inputs.gguf"), fy_q_ranges_model(r), &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    return g;
}

/* Fewer tokens than rows: all of them are kept. So what a matrix reads has the range of its rows.
 */
static void ranges_are_those_of_the_inputs(void **state)
{
    (void)state;
    fy_q_ranges *r = calibrated(&no_preset, 2);
    fy_gguf *g = inputs_of(r);
    assert_int_equal(*fy_q_ranges_tokens(r), 40);
    assert_int_equal(fy_gguf_n_tensors(g), 2 * 4 + 1); /* of a layer four, and the head's */
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        const float *v = (const float *)(const void *)t->data;
        char name[64];
        float min = INFINITY, max = -INFINITY;
        snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.ptr);
        const fy_q_range *range = fy_q_ranges_find(r, name);
        assert_non_null(range);
        assert_int_equal(t->ne[1], 40);
        for (uint64_t k = 0; k < t->ne[0] * t->ne[1]; k++) {
            min = v[k] < min ? v[k] : min;
            max = v[k] > max ? v[k] : max;
        }
        if (range->min != min || range->max != max)
            fail_msg("%s: %g to %g, its rows %g to %g", name, (double)range->min,
                     (double)range->max, (double)min, (double)max);
        assert_true(range->rest_min >= min && range->rest_max <= max);
    }
    fy_gguf_close(g);
    fy_q_ranges_free(r);
}

static void importance_is_the_mean_of_the_squares(void **state)
{
    (void)state;
    fy_q_ranges *r = calibrated(&no_preset, 2);
    fy_gguf *g = inputs_of(r);
    const fy_gguf_tensor *t = fy_gguf_tensor_at(g, 0); /* what the first layer's q, k and v read */
    const float *v = (const float *)(const void *)t->data;
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight",
                                        "blk.0.attn_v.weight"};
    for (size_t i = 0; i < 3; i++) {
        const double *w = fy_q_ranges_importance(r, names[i], t->ne[0]);
        assert_non_null(w);
        for (uint64_t k = 0; k < t->ne[0]; k++) {
            double sum = 0;
            for (uint64_t row = 0; row < 40; row++)
                sum += (double)v[row * t->ne[0] + k] * (double)v[row * t->ne[0] + k];
            assert_true(fabs(w[k] - sum / 40) <= 1e-9 * sum);
        }
    }
    fy_gguf_close(g);
    fy_q_ranges_free(r);
}

/* A preset is in every context, and in no range. */
static void a_preset_changes_what_comes_after_it(void **state)
{
    (void)state;
    int32_t first = 5;
    const fy_ids preset = {.id = &first, .n = 1};
    fy_q_ranges *a = calibrated(&no_preset, 1), *b = calibrated(&preset, 1);
    assert_int_equal(*fy_q_ranges_tokens(b), 40);
    const fy_q_range *x = fy_q_ranges_find(a, "L0.h0.score"),
                     *y = fy_q_ranges_find(b, "L0.h0.score");
    assert_true(x != NULL && y != NULL && memcmp(x, y, sizeof *x) != 0);
    fy_q_ranges_free(a);
    fy_q_ranges_free(b);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    fy_map maps[4];
    for (int i = 0; i < 2; i++) {
        const char *path = chain_at(i == 0 ? "one.json" : "three.json");
        fy_q_ranges *r = calibrated(&no_preset, i == 0 ? 1 : 3);
        assert_int_equal(fy_q_ranges_write(r, path, NULL), 0);
        fy_q_ranges_free(r);
        assert_int_equal(fy_map_open(&maps[i], path, NULL), 0);
        assert_int_equal(fy_map_open(&maps[2 + i], chain_at("inputs.gguf"), NULL), 0);
    }
    for (int i = 0; i < 4; i += 2) {
        assert_int_equal(maps[i].size, maps[i + 1].size);
        assert_memory_equal(maps[i].data, maps[i + 1].data, maps[i].size);
    }
    for (int i = 0; i < 4; i++)
        fy_map_close(&maps[i]);
}

static void what_cannot_be_calibrated(void **state)
{
    (void)state;
    fy_q_ranges *r = NULL;
    fy_err e = {0};
    assert_int_equal(calibrate(LARGE - 1, &no_preset, 1, &r, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "has 7 tokens, calibration wants 8 at least"));
    e = (fy_err){0};
    fy_interrupted = 1;
    const int rc = calibrate(N_IDS, &no_preset, 1, &r, &e);
    fy_interrupted = 0;
    assert_int_equal(rc, -1);
    assert_int_equal(e.code, FY_EINTR);
    ids[3] = CHAIN_V;
    e = (fy_err){0};
    assert_int_equal(calibrate(N_IDS, &no_preset, 1, &r, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    ids[3] = 3;
}

static int begin(void **state)
{
    static const uint32_t batch[] = {LARGE, 1, 0};
    if (chain_make_dir(state) != 0)
        return -1;
    for (int32_t i = 0; i < N_IDS; i++)
        ids[i] = i * 7 % CHAIN_V;
    chain_write(&(chain_kind){.arch = "llama", .type = FY_F16, .n_layer = 2});
    chain_write_chunks(&(chain_cut){.batch = batch, .n_chunks = 2, .n_heads = 1, .n_cache = CACHE});
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_those_of_the_inputs),
        cmocka_unit_test(importance_is_the_mean_of_the_squares),
        cmocka_unit_test(a_preset_changes_what_comes_after_it),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(what_cannot_be_calibrated),
    };
    return cmocka_run_group_tests_name("calibrate", tests, begin, chain_remove_dir);
}
