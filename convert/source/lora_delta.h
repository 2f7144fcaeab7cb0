/* What adapters add to a tensor: for each of them scale * L R, two factors that stay in the
 * adapter's file. Rows are computed as they are read, in f32: the products of a row in the order of
 * the rank, from 0, each by one fmaf; then fmaf(scale, sum, weight). No result depends on the piece
 * in which it is read or on the threads.
 *
 * R is needed for every row of the tensor. The cache keeps the R of the tensors in work as f32, in
 * FY_LORA_CACHE_BYTES; what does not fit is decoded again for each row. */
#ifndef FY_CONVERT_LORA_DELTA_H
#define FY_CONVERT_LORA_DELTA_H

#include <stdbool.h>
#include <stdint.h>

#include "convert/source/checkpoint.h"
#include "kernels/kernels.h"

#define FY_LORA_MAX_RANK 2048 /* a multiple of FY_ATTEND_CHUNK */

enum { FY_LORA_CACHE_BYTES = 16 << 20, FY_LORA_ROWS = 8 };

typedef struct fy_lora_cache fy_lora_cache;

fy_lora_cache *fy_lora_cache_new(fy_err *e); /* NULL on failure */
void fy_lora_cache_free(fy_lora_cache *c);   /* NULL is fine */

typedef struct fy_lora_delta {
    const struct fy_lora_delta *next; /* view; added after this one */
    const fy_ckpt_tensor *left;       /* view; [rows, rank], turned: [rank, rows]; NULL: ones */
    const fy_ckpt_tensor *right;      /* view; [rank, width], turned: [width, rank] */
    bool left_turned, right_turned;
    uint32_t rank;
    uint64_t width;
    float scale;
    fy_lora_cache *cache; /* view */
} fy_lora_delta;

/* out[n_rows][n] += what the deltas add to elements [col, col + n) of the rows, at most
 * FY_LORA_ROWS. R is read once for all of them. Thread-safe. */
void fy_lora_add(const fy_kernels *k, const fy_lora_delta *d, const uint64_t *rows, int n_rows,
                 uint64_t col, uint64_t n, float *out);

#endif
