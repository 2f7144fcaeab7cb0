/* The last tokens of a text and what they cost: how often each occurs among the last N, kept up to
 * date with a constant effort per token. */
#ifndef FY_MODEL_SAMPLE_WINDOW_H
#define FY_MODEL_SAMPLE_WINDOW_H

#include <stdint.h>

#include "base/err.h"
#include "model/sample.h"

typedef struct {
    uint32_t n_vocab;
    uint32_t size;   /* tokens in the window; 0: no end */
    int32_t *ring;   /* owned, [size]; NULL without end: nothing leaves */
    uint32_t n, at;  /* tokens in the ring; the place of the next one */
    uint32_t *count; /* owned, [n_vocab] */
    int32_t *ids;    /* owned, [n_vocab]: those whose count is not 0, in no order */
    uint32_t *slot;  /* owned, [n_vocab]: where in ids */
    uint32_t n_ids;
} fy_window;

/* last_n as in fy_sampler_params, not 0. */
int fy_window_init(fy_window *w, uint32_t n_vocab, int32_t last_n, fy_err *e);
void fy_window_release(fy_window *w);
void fy_window_clear(fy_window *w);
void fy_window_push(fy_window *w, int32_t id); /* id below n_vocab */

/* The logit of a token that occurs count times, count not 0. */
float fy_penalized(const fy_sampler_params *p, float logit, uint32_t count);

#endif
