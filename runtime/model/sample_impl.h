/* What the files of sampling share, and their tests: the parameters' checks, the search for the
 * best of many logits, and arithmetic with the same bits everywhere. */
#ifndef FY_MODEL_SAMPLE_IMPL_H
#define FY_MODEL_SAMPLE_IMPL_H

#include "model/sample.h"

/* --- sample_params.c --- */

/* The parameters of the steps in p->order; those of steps left out are not looked at. */
int fy_sampler_check(const fy_sampler_params *p, uint32_t n_vocab, fy_err *e);
/* False when its parameters switch the step off. */
bool fy_sample_step_acts(const fy_sampler_params *p, fy_sample_step step);

/* --- sample_scan.c: finding the best of many logits without looking at each twice. A scan is a
 * copy of the logits with an upper bound for every block of 64, so that a search that knows what it
 * has found already passes over nearly all blocks. NaN and -INFINITY are never found. "Best" is one
 * order everywhere: the larger logit, on ties the lower id; so the result does not depend on how
 * the search goes --- */

#define FY_SCAN_BLOCK 64

typedef struct {
    uint32_t n, n_blocks;
    float *logit; /* owned, [n_blocks * FY_SCAN_BLOCK]; -INFINITY from n on */
    float *bound; /* owned, [n_blocks]; no logit of the block is larger */
} fy_scan;

int fy_scan_init(fy_scan *s, uint32_t n, fy_err *e);
void fy_scan_release(fy_scan *s);
void fy_scan_fill(fy_scan *s, const float *logits); /* [n] */
/* Those whose bit is not set become -INFINITY; bits end where the words do. */
void fy_scan_fill_masked(fy_scan *s, const float *logits, const uint64_t *bits, uint32_t n_words);
void fy_scan_set(fy_scan *s, uint32_t id, float logit);
/* The m best, best first; returns how many there are. */
uint32_t fy_scan_best(const fy_scan *s, uint32_t m, fy_candidate *out);
/* All from `least` on, in the order of ids; out has room for n. */
uint32_t fy_scan_from(const fy_scan *s, double least, fy_candidate *out);

bool fy_candidate_before(fy_candidate a,
                         fy_candidate b); /* better: larger, or equal and lower id */
/* Brings the m <= n best of list to its front, best first. */
void fy_candidates_sort(fy_candidate *list, uint32_t n, uint32_t m);

/* --- sample_scan.c: a seeded generator, e^x and ln x. The last bit of a C library's exp differs
 * from one library to the next, and with it a choice; these give the same bits wherever doubles are
 * IEEE 754 --- */

typedef struct {
    uint64_t s[4];
} fy_rng;

/* xoshiro256** 1.0 (Blackman, Vigna), its state filled by splitmix64. */
void fy_rng_seed(fy_rng *r, uint64_t seed);
double fy_rng_unit(fy_rng *r); /* [0, 1), 53 bits */

/* e^x for x <= 0, within 2 units of the last place; 0 below -700 (and for NaN). */
double fy_exp_neg(double x);
/* ln x for a normal x > 0, within 1e-15 of max(|ln x|, 1e-1); 0 exactly at 1. */
double fy_ln(double x);

#endif
