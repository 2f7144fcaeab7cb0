/* The measuring of `ferry bench`: a test several times, or decoding for a long while. */
#ifndef FY_CLI_BENCH_RUN_H
#define FY_CLI_BENCH_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/measure/bench_list.h"
#include "model/model.h"

/* Every test fits the context that the model was trained with; FY_EFIT names the first that does
 * not. */
int fy_bench_check(const fy_model *m, const fy_bench_test *tests, size_t n, fy_err *e);

/* The test `n` times, on a session of its own whose first n_depth positions are filled once. With
 * warmup the prompt, or one token, is computed before and does not count. ns: [n]. */
int fy_bench_measure(const fy_model *m, const fy_bench_test *t, uint32_t n, bool warmup,
                     uint64_t *ns, fy_err *e);

typedef struct {
    double avg_ns, stddev_ns; /* of a sample (n - 1 in the denominator); 0 of a single one */
    double avg_ts, stddev_ts; /* tokens per second: the mean of the samples' rates */
} fy_bench_stats;
/* ts: [n], becomes the rate of each sample. */
fy_bench_stats fy_bench_stats_of(const uint64_t *ns, size_t n, uint64_t n_tokens, double *ts);

/* --- sustained -------------------------------------------------------------------------------- */

typedef struct {
    double begin_s, end_s; /* since the start */
    uint64_t n_tokens;
    double avg_ts;
} fy_bench_interval;

/* Cuts a time into at most 20 intervals of at least a second. Each call says that a token is there
 * at now_s since the start; true: it ends an interval, which is *out. The first token that is there
 * when the time is over always does. */
typedef struct {
    double seconds, interval_s, begin_s, end_s;
    uint64_t n_tokens;
} fy_bench_meter;
fy_bench_meter fy_bench_meter_of(double seconds);
bool fy_bench_meter_token(fy_bench_meter *m, double now_s, fy_bench_interval *out);

typedef int fy_bench_interval_sink(void *user, const fy_bench_interval *i, fy_err *e);
/* Decodes t->n_gen tokens behind t->n_depth positions, again and again, for so long. */
int fy_bench_sustain(const fy_model *m, const fy_bench_test *t, double seconds, bool warmup,
                     fy_bench_interval_sink *sink, void *user, fy_err *e);

#endif
