/* Finding the best of many logits without looking at each twice.
 *
 * A scan is a copy of the logits with an upper bound for every block of 64, so that a search that
 * knows what it has found already passes over nearly all blocks. NaN and -INFINITY are never
 * found. "Best" is one order everywhere: the larger logit, on ties the lower id; what is found
 * therefore does not depend on how it is searched. */
#ifndef FY_MODEL_SAMPLE_SCAN_H
#define FY_MODEL_SAMPLE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define FY_SCAN_BLOCK 64

typedef struct {
    float logit;
    int32_t id;
} fy_candidate;

typedef struct {
    uint32_t n, n_blocks;
    float *logit; /* owned, [n_blocks * FY_SCAN_BLOCK]; -INFINITY from n on */
    float *bound; /* owned, [n_blocks]; no logit of the block is larger */
} fy_scan;

int fy_scan_init(fy_scan *s, uint32_t n, fy_err *e);
void fy_scan_release(fy_scan *s);
void fy_scan_fill(fy_scan *s, const float *logits); /* [n] */
void fy_scan_set(fy_scan *s, uint32_t id, float logit);
/* The m best, best first; returns how many there are. */
uint32_t fy_scan_best(const fy_scan *s, uint32_t m, fy_candidate *out);
/* The same among logits that are looked at once. */
uint32_t fy_logits_best(const float *logits, uint32_t n, uint32_t m, fy_candidate *out);
/* All from `least` on, in the order of ids; out has room for n. */
uint32_t fy_scan_from(const fy_scan *s, double least, fy_candidate *out);

bool fy_candidate_before(fy_candidate a,
                         fy_candidate b); /* better: larger, or equal and lower id */
/* Brings the m <= n best of list to its front, best first. */
void fy_candidates_sort(fy_candidate *list, uint32_t n, uint32_t m);

#endif
