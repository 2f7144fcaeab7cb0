/* What the files of the CPU backend share. */
#ifndef FY_BACKEND_BACKEND_IMPL_H
#define FY_BACKEND_BACKEND_IMPL_H

#include "backend/backend_cpu.h"
#include "base/thread.h"

struct fy_backend {
    fy_kernels kernels;
    fy_pool *pool;    /* owned */
    uint8_t *memory;  /* owned: everything below lies in it */
    uint8_t *scratch; /* per thread, scratch_stride apart: kernel scratch, then attention's */
    size_t scratch_stride;
    int64_t head_dim; /* that the scratch is for */
    int8_t *q;        /* quantized activations: [n_tokens][q8_len], [n_tokens][q8_len / 32] twice */
    float *d;
    int32_t *sum;
    fy_matmul_watch *watch; /* NULL: none */
    void *watch_user;
};

/* Runs items that cost about cost_each multiply-adds, in chunks that are worth handing out. */
void fy_backend_run(fy_backend *b, int64_t n_items, int64_t cost_each, fy_pool_fn *fn, void *ctx);

/* What attention takes of a thread's scratch. False when that is more than 64 bits count. */
bool fy_attend_scratch(int64_t head_dim, uint64_t *bytes);

#endif
