#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/model/tiny_model.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/measure/bench.h"
#include "cli/measure/selftest.h"

static char dir[64], path[96];

static int make_directory(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-bench-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static int lower_flag(void **state)
{
    (void)state;
    fy_interrupted = 0;
    return 0;
}

static fy_model *open_tiny(tiny_model t)
{
    fy_err e = {0};
    snprintf(path, sizeof path, "%s/tiny.gguf", dir);
    if (tiny_write(&t, path, &e) != 0)
        fail_msg("%s", e.msg);
    fy_model *m = fy_model_open(path, &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    return m;
}

/* --- statistics --- */

static void deviations_are_those_of_a_sample(void **state)
{
    (void)state;
    const uint64_t ns[] = {2000000000, 4000000000, 4000000000, 4000000000,
                           5000000000, 5000000000, 7000000000, 9000000000};
    double ts[8];
    fy_bench_stats s = fy_bench_stats_of(ns, 8, 180, ts);
    assert_true(fabs(s.avg_ns - 5e9) < 1);
    assert_true(fabs(s.stddev_ns - 1e9 * sqrt(32.0 / 7)) < 1);
    assert_true(fabs(ts[0] - 90) < 1e-9 && fabs(ts[7] - 20) < 1e-9);
    /* the mean of the rates is not the rate of the mean */
    const double rates[] = {90, 45, 45, 45, 36, 36, 180.0 / 7, 20};
    double mean = 0, squares = 0;
    for (size_t i = 0; i < 8; i++)
        mean += rates[i] / 8;
    for (size_t i = 0; i < 8; i++)
        squares += (rates[i] - mean) * (rates[i] - mean);
    assert_true(fabs(s.avg_ts - mean) < 1e-9);
    assert_true(fabs(s.stddev_ts - sqrt(squares / 7)) < 1e-9);
}

static void a_single_sample_does_not_deviate(void **state)
{
    (void)state;
    double ts[1];
    fy_bench_stats s = fy_bench_stats_of((const uint64_t[]){250000000}, 1, 128, ts);
    assert_true(s.avg_ns == 250000000 && s.stddev_ns == 0 && s.stddev_ts == 0);
    assert_true(fabs(s.avg_ts - 512) < 1e-9 && ts[0] == s.avg_ts);
}

/* --- intervals --- */

/* Tokens that take `each` seconds, until the time is over; returns how many intervals that are. */
static size_t run_meter(double seconds, double each, fy_bench_interval *out, uint64_t *n_tokens)
{
    fy_bench_meter m = fy_bench_meter_of(seconds);
    size_t n = 0;
    *n_tokens = 0;
    for (double now = 0; now < seconds;) {
        now = each * (double)++*n_tokens;
        n += fy_bench_meter_token(&m, now, &out[n]);
        assert_true(n <= 20);
    }
    return n;
}

static void a_time_is_cut_into_twenty_intervals_of_at_least_a_second(void **state)
{
    (void)state;
    static const struct {
        double seconds, each;
        size_t n;
    } cases[] = {{600, 0.02, 20}, {20, 0.01, 20}, {7, 0.03, 7},
                 {1, 0.001, 1},   {90, 0.7, 20},  {1, 5, 1}, /* slower than the whole */
                 {4, 1.5, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_bench_interval v[21];
        uint64_t all, sum = 0;
        size_t n = run_meter(cases[i].seconds, cases[i].each, v, &all);
        assert_int_equal(n, cases[i].n);
        assert_true(v[0].begin_s == 0 && v[n - 1].end_s >= cases[i].seconds);
        for (size_t k = 0; k < n; k++) {
            assert_true(k == 0 || v[k].begin_s == v[k - 1].end_s);
            assert_true(fabs(v[k].avg_ts * cases[i].each - 1) < 1e-6);
            sum += v[k].n_tokens;
        }
        assert_int_equal(sum, all);
    }
}

/* --- models --- */

static uint64_t bytes_per_token(const fy_model *m, fy_bench_test t)
{
    fy_bench_model b;
    uint64_t bytes = 0;
    assert_int_equal(fy_bench_model_of(m, &b, NULL), 0);
    assert_int_equal(fy_bench_bytes_per_token(m, &b, &t, &bytes, NULL), 0);
    return bytes;
}

static void a_token_reads_every_weight_once_and_the_cache(void **state)
{
    (void)state;
    /* three layers: two norms, q, k, v, output, gate, up and down; then norm and output */
    const uint64_t layer = 2 * 64 + 2 * 128 * 64 + 2 * 64 * 64 + 3 * 160 * 64, embedding = 96 * 64;
    const uint64_t read = 3 * layer + 64 + embedding;
    fy_bench_model b;
    for (int tied = 0; tied < 2; tied++) {
        tiny_model t = tiny_default();
        t.tied = tied != 0;
        fy_model *m = open_tiny(t);
        assert_int_equal(fy_bench_model_of(m, &b, NULL), 0);
        assert_int_equal(b.n_params, read + (tied ? 0 : embedding));
        assert_int_equal(b.bytes, b.n_params * 4);
        assert_int_equal(b.weight_bytes, read * 4);
        assert_string_equal(b.type, tied ? "llama 172K F32" : "llama 179K F32");
        /* tokens 11 to 14 of f16 keys and values: two heads of 32 each, three layers */
        fy_bench_test tg = {.n_gen = 4, .n_depth = 10, .type_k = FY_F16, .type_v = FY_F16};
        assert_int_equal(bytes_per_token(m, tg), read * 4 + 25 * (3 * 2 * 2 * 32 * 2) / 2);
        tg.type_k = tg.type_v = FY_F32;
        assert_int_equal(bytes_per_token(m, tg), read * 4 + 25 * (3 * 2 * 2 * 32 * 4) / 2);
        fy_model_close(m);
    }
}

static void of_experts_those_that_are_used_are_read(void **state)
{
    (void)state;
    fy_model *m = open_tiny(tiny_of("llama", true));
    fy_bench_model b;
    assert_int_equal(fy_bench_model_of(m, &b, NULL), 0);
    const uint64_t embedding = 96 * 64 * 4, experts = 3 * 3 * 4 * 96 * 64 * 4;
    assert_int_equal(b.weight_bytes, b.bytes - embedding - experts / 2);
    fy_model_close(m);
}

static void a_window_bounds_what_is_read_of_the_cache(void **state)
{
    (void)state;
    tiny_model t = tiny_of("gemma2", false);
    t.hp.n_swa = 8;
    fy_model *m = open_tiny(t);
    const fy_hparams *hp = fy_model_hparams(m);
    const uint32_t full = fy_layers_count(&hp->full_layers);
    assert_true(full > 0 && full < hp->n_layer);
    fy_bench_model b;
    assert_int_equal(fy_bench_model_of(m, &b, NULL), 0);
    const uint64_t row = 2 * hp->n_head_kv * hp->head_dim * 2;
    const fy_bench_test tg = {.n_gen = 1, .n_depth = 20, .type_k = FY_F16, .type_v = FY_F16};
    assert_int_equal(bytes_per_token(m, tg),
                     b.weight_bytes + row * (full * 21 + (hp->n_layer - full) * 8));
    fy_model_close(m);
}

/* --- running --- */

static const fy_bench_test small = {.n_prompt = 20,
                                    .n_gen = 4,
                                    .n_depth = 30,
                                    .n_batch = 8,
                                    .n_threads = 2,
                                    .type_k = FY_F16,
                                    .type_v = FY_F32};

static void every_repetition_is_timed(void **state)
{
    (void)state;
    fy_model *m = open_tiny(tiny_default());
    for (int warm = 0; warm < 2; warm++) {
        uint64_t ns[3] = {0};
        assert_int_equal(fy_bench_measure(m, &small, 3, warm != 0, ns, NULL, NULL), 0);
        assert_true(ns[0] > 0 && ns[1] > 0 && ns[2] > 0);
    }
    fy_model_close(m);
}

static void what_does_not_fit_the_context_is_named(void **state)
{
    (void)state;
    fy_model *m = open_tiny(tiny_default());
    fy_bench_test t[] = {small, small};
    t[1].n_depth = 128 - 24;
    assert_int_equal(fy_bench_check(m, t, 2, NULL), 0);
    t[1].n_depth++;
    fy_err e = {0};
    assert_int_equal(fy_bench_check(m, t, 2, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_string_equal(e.msg, "pp20+tg4 @ d105 takes 129 positions, but the model was trained "
                               "with 128; use a smaller -p, -n or -d");
    t[1].n_prompt = t[1].n_gen = t[1].n_depth = INT32_MAX;
    assert_int_equal(fy_bench_check(m, t, 2, NULL), -1);
    fy_model_close(m);
}

static void an_interrupt_ends_a_test(void **state)
{
    (void)state;
    fy_model *m = open_tiny(tiny_default());
    uint64_t ns[3];
    fy_err e = {0};
    fy_interrupted = 1;
    assert_int_equal(fy_bench_measure(m, &small, 3, true, ns, NULL, &e), -1);
    assert_int_equal(e.code, FY_EINTR);
    fy_model_close(m);
}

typedef struct {
    size_t n;
    uint64_t n_tokens;
} counted;

/* Raises the flag with the first interval: a run of a week ends there. */
static int count_and_stop(void *user, const fy_bench_interval *i, fy_err *e)
{
    counted *c = user;
    (void)e;
    c->n++;
    c->n_tokens += i->n_tokens;
    fy_interrupted = 1;
    return 0;
}

static void a_sustained_run_starts_over_when_its_tokens_are_decoded(void **state)
{
    (void)state;
    fy_model *m = open_tiny(tiny_default());
    fy_bench_test t = small;
    counted c = {0};
    fy_err e = {0};
    t.n_prompt = 0;
    t.n_gen = 2;
    assert_int_equal(fy_bench_sustain(m, &t, 2, true, count_and_stop, &c, &e), -1);
    assert_int_equal(e.code, FY_EINTR);
    assert_int_equal(c.n, 1);
    assert_true(c.n_tokens > 2);
    fy_model_close(m);
}

static void reading_has_a_rate(void **state)
{
    (void)state;
    double rate = 0;
    assert_int_equal(fy_read_speed(2, 1, 0, &rate, NULL), 0);
    assert_true(rate > 0);
    fy_interrupted = 1;
    fy_err e = {0};
    assert_int_equal(fy_read_speed(1, 1, 0, &rate, &e), -1);
    assert_int_equal(e.code, FY_EINTR);
}

/* --- sensors --- */

static void put(const char *name, const char *text)
{
    char file[256];
    snprintf(file, sizeof file, "%s/%s", dir, name);
    *strrchr(file, '/') = '\0';
    assert_int_equal(fy_mkdirs(file, NULL), 0);
    file[strlen(file)] = '/';
    assert_int_equal(fy_file_write(file, text, strlen(text), NULL), 0);
}

static void clocks_are_found_where_systems_have_them(void **state)
{
    (void)state;
    assert_true(fy_bench_clock_mhz("/nowhere") == 0);
    put("proc/cpuinfo",
        "processor\t: 0\ncpu MHz\t\t: 2596.132\n\nprocessor\t: 1\ncpu MHz\t\t: 3100.5\n");
    assert_true(fabs(fy_bench_clock_mhz(dir) - 3100.5) < 1e-9);
    put("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1804800\n");
    put("sys/devices/system/cpu/cpu7/cpufreq/scaling_cur_freq", "3302400\n");
    put("sys/devices/system/cpu/cpufreq/scaling_cur_freq", "9999999\n");
    assert_true(fabs(fy_bench_clock_mhz(dir) - 3302.4) < 1e-9);
}

static void the_hottest_zone_of_the_processor_counts(void **state)
{
    (void)state;
    static const struct {
        const char *type, *temp;
    } zones[] = {{"battery\n", "99000\n"},  {"socd\n", "98\n"},
                 {"gpuss-0\n", "97000\n"},  {"cpu-0-0-usr\n", "-273000\n"},
                 {"cpuss-1\n", "255000\n"}, {"cpu-1-3\n", "nonsense\n"},
                 {"BIG\n", "61500\n"},      {"mtktscpu\n", "58\n"}};
    assert_true(fy_bench_temperature_c("/nowhere") == 0);
    for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
        char name[80];
        snprintf(name, sizeof name, "sys/class/thermal/thermal_zone%zu/type", i * 3);
        put(name, zones[i].type);
        snprintf(name, sizeof name, "sys/class/thermal/thermal_zone%zu/temp", i * 3);
        put(name, zones[i].temp);
        double want = i < 6 ? 0 : 61.5;
        assert_true(fabs(fy_bench_temperature_c(dir) - want) < 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deviations_are_those_of_a_sample),
        cmocka_unit_test(a_single_sample_does_not_deviate),
        cmocka_unit_test(a_time_is_cut_into_twenty_intervals_of_at_least_a_second),
        cmocka_unit_test(a_token_reads_every_weight_once_and_the_cache),
        cmocka_unit_test(of_experts_those_that_are_used_are_read),
        cmocka_unit_test(a_window_bounds_what_is_read_of_the_cache),
        cmocka_unit_test(every_repetition_is_timed),
        cmocka_unit_test(what_does_not_fit_the_context_is_named),
        cmocka_unit_test_teardown(an_interrupt_ends_a_test, lower_flag),
        cmocka_unit_test_teardown(a_sustained_run_starts_over_when_its_tokens_are_decoded,
                                  lower_flag),
        cmocka_unit_test_teardown(reading_has_a_rate, lower_flag),
        cmocka_unit_test(clocks_are_found_where_systems_have_them),
        cmocka_unit_test(the_hottest_zone_of_the_processor_counts),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
