/* What sampling computes with: the search for the best logits, a seeded generator, e^x and ln x. */
#include "model/sample_impl.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- scans --- */

#define LANES 16

int fy_scan_init(fy_scan *s, uint32_t n, fy_err *e)
{
    uint32_t n_blocks = n / FY_SCAN_BLOCK + 1;
    *s = (fy_scan){.n = n, .n_blocks = n_blocks};
    s->logit = calloc(n_blocks, FY_SCAN_BLOCK * sizeof *s->logit);
    s->bound = calloc(n_blocks, sizeof *s->bound);
    if (s->logit == NULL || s->bound == NULL) {
        fy_scan_release(s);
        return fy_nomem(e);
    }
    for (uint32_t i = n % FY_SCAN_BLOCK; i < FY_SCAN_BLOCK; i++)
        s->logit[(size_t)(n_blocks - 1) * FY_SCAN_BLOCK + i] = -INFINITY;
    return 0;
}

void fy_scan_release(fy_scan *s)
{
    free(s->logit);
    free(s->bound);
    *s = (fy_scan){0};
}

/* Never NaN when a is not: NaN is larger than nothing. */
static inline float larger(float a, float b)
{
    return b > a ? b : a;
}

/* The largest of a block. In lanes, because a compiler may not reorder the comparisons of a single
 * maximum. */
static float block_max(const float *v)
{
    float lane[LANES], four[4];
    for (int i = 0; i < LANES; i++)
        lane[i] = larger(larger(larger(larger(-INFINITY, v[i]), v[i + LANES]), v[i + 2 * LANES]),
                         v[i + 3 * LANES]);
    for (int i = 0; i < 4; i++)
        four[i] = larger(larger(lane[i], lane[i + 4]), larger(lane[i + 8], lane[i + 12]));
    return larger(larger(four[0], four[1]), larger(four[2], four[3]));
}
static_assert(FY_SCAN_BLOCK == 4 * LANES && LANES == 16, "the shape that block_max is written for");

void fy_scan_fill(fy_scan *s, const float *logits)
{
    if (s->n > 0)
        memcpy(s->logit, logits, s->n * sizeof *s->logit);
    for (uint32_t b = 0; b < s->n_blocks; b++)
        s->bound[b] = block_max(s->logit + (size_t)b * FY_SCAN_BLOCK);
}

static_assert(FY_SCAN_BLOCK == 64, "a block has one word of a mask");

void fy_scan_fill_masked(fy_scan *s, const float *logits, const uint64_t *bits, uint32_t n_words)
{
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        const uint32_t first = b * FY_SCAN_BLOCK;
        const uint32_t n = s->n - first < FY_SCAN_BLOCK ? s->n - first : FY_SCAN_BLOCK;
        uint64_t allowed = b < n_words ? bits[b] : 0;
        float *out = s->logit + first, best = -INFINITY;
        for (uint32_t i = 0; i < n; i++)
            out[i] = -INFINITY;
        for (; allowed != 0; allowed &= allowed - 1) {
            const uint32_t i = (uint32_t)__builtin_ctzll(allowed);
            if (i >= n)
                break;
            out[i] = logits[first + i];
            best = larger(best, out[i]);
        }
        s->bound[b] = best;
    }
}

void fy_scan_set(fy_scan *s, uint32_t id, float logit)
{
    float *bound = &s->bound[id / FY_SCAN_BLOCK];
    s->logit[id] = logit;
    *bound = larger(*bound, logit);
}

/* --- candidates ------------------------------------------------------------------------------- */

bool fy_candidate_before(fy_candidate a, fy_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* A heap with the worst on top: what a better one replaces. */
static void sift_down(fy_candidate *heap, uint32_t n, uint32_t i)
{
    fy_candidate moved = heap[i];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && fy_candidate_before(heap[child], heap[child + 1]))
            child++;
        if (!fy_candidate_before(moved, heap[child]))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

static void make_heap(fy_candidate *heap, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i);
}

/* Best first: the worst goes to the end, again and again. */
static void sort_heap(fy_candidate *heap, uint32_t n)
{
    for (uint32_t left = n; left > 1; left--) {
        fy_candidate worst = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = worst;
        sift_down(heap, left - 1, 0);
    }
}

void fy_candidates_sort(fy_candidate *list, uint32_t n, uint32_t m)
{
    if (m == 0)
        return;
    make_heap(list, m);
    for (uint32_t i = m; i < n; i++) {
        if (fy_candidate_before(list[i], list[0])) {
            fy_candidate worst = list[0];
            list[0] = list[i];
            list[i] = worst;
            sift_down(list, m, 0);
        }
    }
    sort_heap(list, m);
}

/* --- searching -------------------------------------------------------------------------------- */

/* The m best so far: a heap once it is full. */
typedef struct {
    fy_candidate *out;
    uint32_t n, m;
    float worst; /* what a logit must exceed */
} search;

/* Ids come in order, so one that equals the worst of m found ones is no better. */
static void search_in(search *f, const float *logit, uint32_t n, uint32_t first_id)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!(logit[i] > f->worst))
            continue;
        fy_candidate c = {logit[i], (int32_t)(first_id + i)};
        if (f->n < f->m) {
            f->out[f->n++] = c;
            if (f->n == f->m)
                make_heap(f->out, f->m);
        } else {
            f->out[0] = c;
            sift_down(f->out, f->m, 0);
        }
        if (f->n == f->m)
            f->worst = f->out[0].logit;
    }
}

static uint32_t search_end(search *f)
{
    if (f->n < f->m)
        make_heap(f->out, f->n);
    sort_heap(f->out, f->n);
    return f->n;
}

uint32_t fy_scan_best(const fy_scan *s, uint32_t m, fy_candidate *out)
{
    search f = {.out = out, .m = m, .worst = m > 0 ? -INFINITY : INFINITY};
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        if (s->bound[b] > f.worst)
            search_in(&f, s->logit + (size_t)b * FY_SCAN_BLOCK, FY_SCAN_BLOCK, b * FY_SCAN_BLOCK);
    }
    return search_end(&f);
}

uint32_t fy_logits_best(const float *logits, uint32_t n, uint32_t m, fy_candidate *out)
{
    search f = {.out = out, .m = m, .worst = m > 0 ? -INFINITY : INFINITY};
    search_in(&f, logits, n, 0);
    return search_end(&f);
}

uint32_t fy_scan_from(const fy_scan *s, double least, fy_candidate *out)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        if (!((double)s->bound[b] >= least))
            continue;
        const float *logit = s->logit + (size_t)b * FY_SCAN_BLOCK;
        for (uint32_t i = 0; i < FY_SCAN_BLOCK; i++) {
            if ((double)logit[i] >= least && logit[i] > -INFINITY)
                out[n++] = (fy_candidate){logit[i], (int32_t)(b * FY_SCAN_BLOCK + i)};
        }
    }
    return n;
}

/* --- arithmetic --- */

/* ln 2 in two parts: an exponent times the first is exact. */
#define LN2_HI 0.6931471803691238
#define LN2_LO 1.9082149292705877e-10

static uint64_t splitmix64(uint64_t *x)
{
    uint64_t z = *x += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int n)
{
    return (x << n) | (x >> (64 - n));
}

void fy_rng_seed(fy_rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix64(&seed);
}

double fy_rng_unit(fy_rng *r)
{
    uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return (double)(result >> 11) * 0x1p-53;
}

/* 2^n times the Taylor series of the rest, |rest| <= ln 2 / 2: its even and its odd terms. */
double fy_exp_neg(double x)
{
    static const double even[] = {1.0 / 479001600, 1.0 / 3628800, 1.0 / 40320, 1.0 / 720,
                                  1.0 / 24,        1.0 / 2,       1.0};
    static const double odd[] = {1.0 / 6227020800, 1.0 / 39916800, 1.0 / 362880, 1.0 / 5040,
                                 1.0 / 120,        1.0 / 6,        1.0};
    if (!(x > -700))
        return 0;
    /* Adding 1.5 * 2^52 rounds to a whole number, which is then in the low bits. */
    double shifted = x * 1.4426950408889634 + 0x1.8p52, n = shifted - 0x1.8p52;
    double r = x - n * LN2_HI - n * LN2_LO, r2 = r * r, sum0 = even[0], sum1 = odd[0];
    for (int i = 1; i < 7; i++) {
        sum0 = sum0 * r2 + even[i];
        sum1 = sum1 * r2 + odd[i];
    }
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* all above the exponent is shifted out */
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return (sum0 + r * sum1) * scale;
}

/* x = 2^n m with m in [0.71, 1.42); ln m = 2 artanh((m - 1) / (m + 1)). */
double fy_ln(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* 0x3FE6A09E...: the bits of the square root of one half */
    uint64_t off = bits - 0x3FE6A09E00000000u;
    int64_t n = (int64_t)off >> 52;
    bits -= (uint64_t)n << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    double f = (m - 1) / (m + 1), f2 = f * f, sum = 0;
    for (int i = 23; i >= 3; i -= 2)
        sum = (sum + 1.0 / i) * f2;
    return (double)n * LN2_HI + (2 * f + (2 * f * sum + (double)n * LN2_LO));
}
