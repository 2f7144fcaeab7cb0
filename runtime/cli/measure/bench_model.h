/* A model as a row of a benchmark describes it, and how many bytes the decoding of a token reads.
 */
#ifndef FY_CLI_BENCH_MODEL_H
#define FY_CLI_BENCH_MODEL_H

#include <stdint.h>

#include "cli/measure/bench_list.h"
#include "model/model.h"

enum { FY_BENCH_TYPE_BYTES = 96 };

typedef struct {
    char type[FY_BENCH_TYPE_BYTES]; /* "llama 1.2B Q8_0": of the weights the commonest type */
    uint64_t bytes, n_params;       /* of all tensors */
    uint64_t weight_bytes;          /* of what every token reads */
} fy_bench_model;

/* Of a model in pieces, of all of them. */
int fy_bench_model_of(const fy_model *m, fy_bench_model *out, fy_err *e);

/* Weights and the rows of the KV cache, per token on average, when n_gen tokens are decoded behind
 * n_depth: every tensor once, of the matrices of experts those that are used, token_embd only when
 * it is the output too. */
int fy_bench_bytes_per_token(const fy_model *m, const fy_bench_model *b, const fy_bench_test *t,
                             uint64_t *out, fy_err *e);

#endif
