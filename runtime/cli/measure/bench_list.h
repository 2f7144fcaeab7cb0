/* What `ferry bench` is asked to measure: lists of numbers as llama-bench writes them, and every
 * combination of them as a test. A list is numbers and ranges between commas, and an option may be
 * repeated: "1,2,4", "1-4", "1-9+2" (1 3 5 7 9), "1-8*2" (1 2 4 8). */
#ifndef FY_CLI_BENCH_LIST_H
#define FY_CLI_BENCH_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/types.h"

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

/* What one option may be. */
typedef struct {
    const char *name; /* "n-prompt" */
    uint32_t def, min, max;
} fy_bench_range;

/* The values of all that was given, in order; the default when nothing was. */
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
    uint32_t n_prompt, n_gen; /* 0: the test has none; not both */
    uint32_t n_depth;         /* positions that are filled before */
    uint32_t n_batch, n_threads;
    fy_type type_k, type_v;
} fy_bench_test;

typedef struct {
    fy_bench_list prompt, gen, pairs, depth, batch, threads, type_k, type_v;
} fy_bench_lists;
void fy_bench_lists_release(fy_bench_lists *l);

/* Every combination, in llama-bench's order; *n of them, for the caller to free. FY_EARG when there
 * is none, or too many. */
int fy_bench_combine(const fy_bench_lists *l, fy_bench_test **tests, size_t *n, fy_err *e);

enum { FY_BENCH_NAME_BYTES = 64 };
/* "pp512", "tg128", "pp512+tg128", "tg128 @ d4096". */
const char *fy_bench_name(const fy_bench_test *t, char out[FY_BENCH_NAME_BYTES]);

#endif
