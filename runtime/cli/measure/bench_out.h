/* The rows of `ferry bench` as text: Markdown for people; CSV, JSON and lines of JSON with the
 * names of llama-bench's columns, so that what reads the one's output reads the other's. */
#ifndef FY_CLI_BENCH_OUT_H
#define FY_CLI_BENCH_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "cli/measure/bench_run.h"

typedef enum { FY_BENCH_MD, FY_BENCH_CSV, FY_BENCH_JSON, FY_BENCH_JSONL } fy_bench_format;

/* The machine, the model and the test. All pointers are views. */
typedef struct {
    const char *build_commit; /* of ferry the version */
    uint64_t build_number;
    const char *cpu_info, *gpu_info, *backends;
    const char *model_filename, *model_type;
    uint64_t model_size, model_n_params;
    uint64_t n_batch, n_ubatch, n_threads;
    const char *type_k, *type_v;
    bool use_mmap;
    uint64_t n_prompt, n_gen, n_depth;
    const char *test_time; /* when it began: "2026-11-21T18:46:59Z" */
} fy_bench_about;

typedef struct {
    uint64_t avg_ns, stddev_ns;
    double avg_ts, stddev_ts;
    uint64_t bytes_per_token; /* that decoding reads; 0: the test does not only decode */
    double bandwidth_share;   /* of what memory gives, 0 to 1; NAN likewise */
    const uint64_t *samples_ns;
    const double *samples_ts;
    size_t n_samples;
} fy_bench_result;

typedef struct {
    double begin_s, end_s;
    uint64_t n_tokens;
    double avg_ts;
    double clock_mhz, temperature_c; /* NAN: not readable */
} fy_bench_moment;

/* Begin, rows, end; each call appends. */
typedef struct {
    fy_bench_format format;
    bool show_batch, show_type_k, show_type_v, show_bytes; /* columns of Markdown */
    size_t n_rows;
} fy_bench_out;

void fy_bench_out_begin(fy_bench_out *o, fy_str *out);
void fy_bench_out_test(fy_bench_out *o, const fy_bench_about *about, const fy_bench_result *r,
                       fy_str *out);
void fy_bench_out_end(fy_bench_out *o, fy_str *out);

/* The same for a sustained run: rows of one test, and at the end how the first compares with the
 * last. CSV has no place for that. */
void fy_bench_out_begin_sustained(fy_bench_out *o, const fy_bench_about *about, fy_str *out);
void fy_bench_out_moment(fy_bench_out *o, const fy_bench_about *about, const fy_bench_moment *m,
                         fy_str *out);
void fy_bench_out_end_sustained(fy_bench_out *o, double first_ts, double last_ts, fy_str *out);

#endif
