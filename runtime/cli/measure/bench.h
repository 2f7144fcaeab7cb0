/* `ferry bench`, in four files: the tests that are asked for (bench_list.c), measuring them
 * (bench_run.c), printing them (bench_out.c), and the verb (cmd_bench.c).
 *
 * A list is numbers and ranges between commas, as llama-bench writes them, and an option may be
 * repeated: "1,2,4", "1-4", "1-9+2" (1 3 5 7 9), "1-8*2" (1 2 4 8). Every combination is a test. */
#ifndef FY_CLI_BENCH_H
#define FY_CLI_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/str.h"
#include "base/types.h"
#include "model/chain.h"
#include "model/model.h"

/* --- what is measured ------------------------------------------------------------------------- */

enum {
    FY_BENCH_LIST_MAX = 1024,  /* values of one option */
    FY_BENCH_TESTS_MAX = 4096, /* combinations */
};

/* Zero-initialise. */
typedef struct {
    uint32_t *v; /* owned, [n] */
    size_t n, cap;
} fy_bench_list;
void fy_bench_list_release(fy_bench_list *l);

/* The values that one option accepts. */
typedef struct {
    const char *name; /* "n-prompt" */
    uint32_t def, min, max;
} fy_bench_range;

/* All values given, in order; the default if there are none. */
int fy_bench_numbers(const fy_bench_range *r, const fy_opt_list *given, fy_bench_list *out,
                     fy_err *e);
/* The same for names of tensor types. */
int fy_bench_types(const char *name, fy_type def, const fy_opt_list *given, fy_bench_list *out,
                   fy_err *e);
/* Each is "PROMPT,GEN": two values in the list. */
int fy_bench_pairs(const fy_bench_range *r, const fy_opt_list *given, fy_bench_list *out,
                   fy_err *e);
/* "90", "90s", "10m", "1h": 1 s to 7 days. */
int fy_bench_seconds(const char *name, const char *text, double *out, fy_err *e);

typedef struct {
    uint32_t n_prompt, n_gen;       /* 0: the test has none; not both */
    uint32_t n_depth;               /* positions filled before the test */
    uint32_t n_draft, draft_accept; /* guesses of a step, and how many of 100 are right; 0: none */
    uint32_t n_batch, n_threads;
    fy_type type_k, type_v;
    fy_sparse sparse;
    float sparse_threshold;
} fy_bench_test;

typedef struct {
    fy_bench_list prompt, gen, pairs, depth, draft, accept, batch, threads, type_k, type_v;
} fy_bench_lists;
void fy_bench_lists_release(fy_bench_lists *l);

/* Every combination, in llama-bench's order; the caller frees *tests. FY_EARG if there are none or
 * too many. */
int fy_bench_combine(const fy_bench_lists *l, fy_bench_test **tests, size_t *n, fy_err *e);

enum { FY_BENCH_NAME_BYTES = 64 };
/* "pp512", "tg128", "pp512+tg128", "tg128 @ d4096", "tg128 +7 (70 %)". */
const char *fy_bench_name(const fy_bench_test *t, char out[FY_BENCH_NAME_BYTES]);

/* --- measuring -------------------------------------------------------------------------------- */

/* Does every test fit the trained context? FY_EFIT names the first that does not. */
int fy_bench_check(const fy_model *m, const fy_bench_test *tests, size_t n, fy_err *e);

/* Runs the test `n` times in a session of its own, whose first n_depth positions are filled once.
 * With warmup, the prompt or one token is computed first and not counted. ns: [n]. chunks:
 * [fy_model_n_chunks], of all repetitions. */
int fy_bench_measure(const fy_model *m, const fy_bench_test *t, uint32_t n, bool warmup,
                     uint64_t *ns, fy_chain_time *chunks, fy_err *e);

/* What a step of n_draft + 1 tokens takes, with the logits of all, on average over the positions of
 * n runs of the test. */
int fy_bench_step(const fy_model *m, const fy_bench_test *t, uint32_t n, double *step_s, fy_err *e);
/* The tokens that such a step makes: 1 + a + ... + a^n_draft. */
double fy_bench_step_tokens(const fy_bench_test *t);

typedef struct {
    double avg_ns, stddev_ns; /* of a sample (n - 1 in the denominator); 0 if n is 1 */
    double avg_ts, stddev_ts; /* tokens per second: the mean of the samples' rates */
} fy_bench_stats;
/* ts: [n], set to the rate of each sample. */
fy_bench_stats fy_bench_stats_of(const uint64_t *ns, size_t n, uint64_t n_tokens, double *ts);

typedef struct {
    double begin_s, end_s; /* since the start */
    uint64_t n_tokens;
    double avg_ts;
} fy_bench_interval;

/* Cuts a time into at most 20 intervals of at least a second. Call fy_bench_meter_token for each
 * token, with the time since the start; true: the token ends an interval, which is *out. The first
 * token after the time is over always ends one. */
typedef struct {
    double seconds, interval_s, begin_s, end_s;
    uint64_t n_tokens;
} fy_bench_meter;
fy_bench_meter fy_bench_meter_of(double seconds);
bool fy_bench_meter_token(fy_bench_meter *m, double now_s, fy_bench_interval *out);

typedef int fy_bench_interval_sink(void *user, const fy_bench_interval *i, fy_err *e);
/* Decodes t->n_gen tokens after t->n_depth positions, again and again, for this long. */
int fy_bench_sustain(const fy_model *m, const fy_bench_test *t, double seconds, bool warmup,
                     fy_bench_interval_sink *sink, void *user, fy_err *e);

enum { FY_BENCH_TYPE_BYTES = 96 };
typedef struct {
    char type[FY_BENCH_TYPE_BYTES]; /* "llama 1.2B Q8_0": the commonest type of the weights */
    uint64_t bytes, n_params;       /* of all tensors; n_params 0: compiled, not known */
    uint64_t weight_bytes;          /* read for every token */
} fy_bench_model;

/* Describes the model; for a cut model, all of its chunks. */
int fy_bench_model_of(const fy_model *m, fy_bench_model *out, fy_err *e);

/* Weights and rows of the KV cache read per token, on average, when n_gen tokens are decoded after
 * n_depth: every tensor once, only the experts that are used, and token_embd only if it is the
 * output too. */
int fy_bench_bytes_per_token(const fy_model *m, const fy_bench_model *b, const fy_bench_test *t,
                             uint64_t *out, fy_err *e);

/* Why a machine slows down: clock and temperature, from /proc and /sys. Phones and virtual machines
 * show some of it or nothing: 0 if not readable. `root` is put before the paths: "" for this
 * machine. */
double fy_bench_clock_mhz(const char *root);     /* of the fastest core, now */
double fy_bench_temperature_c(const char *root); /* of the hottest zone of the processor */

/* --- printing --------------------------------------------------------------------------------- */

/* Markdown for people; CSV, JSON and JSON lines with the names of llama-bench's columns, so that
 * programs that read its output read ours. */
typedef enum { FY_BENCH_MD, FY_BENCH_CSV, FY_BENCH_JSON, FY_BENCH_JSONL } fy_bench_format;

/* The machine, the model and the test. All pointers are views. */
typedef struct {
    const char *build_commit; /* ferry's version */
    uint64_t build_number;
    const char *cpu_info, *gpu_info, *backends;
    const char *model_filename, *model_type;
    uint64_t model_size, model_n_params;
    uint64_t n_batch, n_ubatch, n_threads;
    const char *type_k, *type_v;
    bool use_mmap;
    uint64_t n_prompt, n_gen, n_depth, n_draft, draft_accept;
    const char *test_time; /* its start: "2026-11-21T18:46:59Z" */
} fy_bench_about;

typedef struct {
    uint64_t avg_ns, stddev_ns;
    double avg_ts, stddev_ts;
    uint64_t bytes_per_token; /* of decoding; 0: the test also computes a prompt */
    double bandwidth_share;   /* of the memory's, 0 to 1; NAN likewise */
    /* With guesses, else NAN: a step of so many tokens, and the rate if nothing else took time. */
    double draft_step_ns, draft_bound_ts;
    const uint64_t *samples_ns;
    const double *samples_ts;
    size_t n_samples;
    const fy_model *cut;         /* NULL: not a cut model, else its graphs, in all repetitions: */
    const fy_chain_time *chunks; /* [fy_model_n_chunks] */
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
    bool show_batch, show_type_k, show_type_v, show_bytes, show_guesses; /* columns of Markdown */
    size_t n_rows;
} fy_bench_out;

void fy_bench_out_begin(fy_bench_out *o, fy_str *out);
void fy_bench_out_test(fy_bench_out *o, const fy_bench_about *about, const fy_bench_result *r,
                       fy_str *out);
void fy_bench_out_end(fy_bench_out *o, fy_str *out);
/* What a repetition spent in the graphs of each chunk, and outside, as a line for people. */
void fy_bench_chunks_text(const fy_bench_result *r, fy_str *out);

/* The same for a sustained run: rows of one test, then the first rate divided by the last, which
 * CSV has no place for. */
void fy_bench_out_begin_sustained(fy_bench_out *o, const fy_bench_about *about, fy_str *out);
void fy_bench_out_moment(fy_bench_out *o, const fy_bench_about *about, const fy_bench_moment *m,
                         fy_str *out);
void fy_bench_out_end_sustained(fy_bench_out *o, double first_ts, double last_ts, fy_str *out);

#endif
