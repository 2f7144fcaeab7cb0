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

/* Of a thread: FY_KERNEL_SCRATCH_BYTES for kernels, then what attention takes. */
static inline void *fy_backend_scratch(const fy_backend *b, int thread)
{
    return b->scratch + (size_t)thread * b->scratch_stride;
}

/* What follows a product: elements [begin, end) of y get the bias, and sum gets them; ldy apart. */
void fy_backend_finish(const fy_product *p, int64_t ldy, int64_t begin, int64_t end,
                       int64_t n_tokens);

/* The state of a sequence in one of its halves: half is s->from or s->to. fy_state_begin copies
 * from one to the other; where a state is big, a mixer does without: it reads the sequence's first
 * token of the step from `from` (zeros at position 0), and the following ones from `to`. */
static inline float *fy_state_of(const fy_state_view *s, const uint8_t *half, int32_t seq)
{
    return s->memory + half[seq] * s->half_len + (size_t)seq * s->len;
}

/* Which sequences a step has come to. */
typedef struct {
    uint64_t word[FY_STATE_SEQS / 64];
} fy_seqs;

/* Is it the sequence's first token? From now on it was there. */
static inline bool fy_seqs_first(fy_seqs *seen, int32_t seq)
{
    const uint64_t bit = (uint64_t)1 << seq % 64;
    const bool first = (seen->word[seq / 64] & bit) == 0;
    seen->word[seq / 64] |= bit;
    return first;
}

/* state_conv.c: silu(w[0] u(t - length + 1) + ... + w[length - 1] u(t) + bias), added in this
 * order, instead of u in rows that are `stride` apart; items [begin, end) of FY_CONV_CHANNELS
 * channels. The state begins with the last length - 1 columns u, the oldest first. */
enum { FY_CONV_CHANNELS = 64 };
typedef struct {
    const float *w;    /* [n_channels][length] */
    const float *bias; /* [n_channels]; NULL: none */
    int64_t n_channels, length;
    const fy_place *at; /* [n_tokens] */
    const fy_state_view *state;
} fy_state_conv;
void fy_state_convolve(const fy_kernels *k, const fy_state_conv *c, float *rows, int64_t stride,
                       int64_t n_tokens, int64_t begin, int64_t end);

/* What attention takes of a thread's scratch. False when that is more than 64 bits count. */
bool fy_attend_scratch(int64_t head_dim, uint64_t *bytes);

#endif
