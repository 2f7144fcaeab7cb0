/* The values of two tensors: first their bytes, when both are stored alike, else all values as f32
 * by several threads. Sums are of doubles and are added in the order of the blocks, so that the
 * numbers do not depend on the threads. */
#include "convert/look/compare.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/math.h"

enum { BLOCK = 1024 };

static bool is_same(float x, float y)
{
    return x == y || (isnan(x) && isnan(y));
}

static void note_first(fy_tensor_diff *d, const float *a, const float *b, uint64_t at)
{
    uint64_t i = 0;
    while (is_same(a[i], b[i]))
        i++;
    d->first = at + i;
    d->first_a = a[i];
    d->first_b = b[i];
}

/* One value at a time: where some are not finite. */
static void add_slowly(fy_tensor_diff *d, const float *a, const float *b, uint64_t n, uint64_t at)
{
    uint64_t differ = 0;
    for (uint64_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i], diff = fabs(x - y);
        differ += !is_same(a[i], b[i]);
        if (isfinite(a[i]))
            d->largest = fmax(d->largest, fabs(x));
        if (isfinite(a[i]) && isfinite(b[i])) {
            d->max_diff = fmax(d->max_diff, diff);
            d->sum_diff2 += diff * diff;
            d->sum_a2 += x * x;
            d->sum_b2 += y * y;
            d->sum_ab += x * y;
        } else if (!is_same(a[i], b[i])) {
            d->n_wild++;
            d->max_diff = INFINITY;
        }
    }
    if (differ > 0 && d->n_different == 0)
        note_first(d, a, b, at);
    d->n_different += differ;
}

/* All values of the block are finite. */
static void count_different(fy_tensor_diff *d, const float *a, const float *b, uint64_t n,
                            uint64_t at)
{
    enum { LANES = 16 }; /* a constant, which compilers make vectors of */
    uint32_t lanes[LANES] = {0}, differ = 0;
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++)
            lanes[k] += a[i + k] != b[i + k];
    }
    for (; i < n; i++)
        differ += a[i] != b[i];
    for (int k = 0; k < LANES; k++)
        differ += lanes[k];
    if (differ > 0 && d->n_different == 0)
        note_first(d, a, b, at);
    d->n_different += differ;
}

static void add_block(fy_tensor_diff *d, const fy_kernels *k, const float *a, const float *b,
                      uint64_t n, uint64_t at)
{
    fy_error_sums s = {0};
    k->error_sums(&s, a, b, NULL, (int64_t)n);
    /* Squares of finite f32 are finite; a difference of two may be too large for one. */
    if (!isfinite(s.xx) || !isfinite(s.yy) || isinf(s.max_e)) {
        add_slowly(d, a, b, n, at);
        return;
    }
    d->sum_diff2 += s.ee;
    d->sum_a2 += s.xx;
    d->sum_b2 += s.yy;
    d->sum_ab += s.xy;
    d->max_diff = fmax(d->max_diff, (double)s.max_e);
    d->largest = fmax(d->largest, (double)s.max_x);
    if (s.ee > 0)
        count_different(d, a, b, n, at);
}

void fy_tensor_diff_of(fy_tensor_diff *d, const fy_kernels *k, const float *a, const float *b,
                       uint64_t n, uint64_t at)
{
    *d = (fy_tensor_diff){.n = n};
    for (uint64_t i = 0; i < n; i += BLOCK)
        add_block(d, k, a + i, b + i, n - i < BLOCK ? n - i : BLOCK, at + i);
}

void fy_tensor_diff_join(fy_tensor_diff *d, const fy_tensor_diff *next)
{
    if (d->n_different == 0) {
        d->first = next->first;
        d->first_a = next->first_a;
        d->first_b = next->first_b;
    }
    d->n += next->n;
    d->n_different += next->n_different;
    d->n_wild += next->n_wild;
    d->max_diff = fmax(d->max_diff, next->max_diff);
    d->largest = fmax(d->largest, next->largest);
    d->sum_diff2 += next->sum_diff2;
    d->sum_a2 += next->sum_a2;
    d->sum_b2 += next->sum_b2;
    d->sum_ab += next->sum_ab;
}

double fy_tensor_diff_relative(const fy_tensor_diff *d)
{
    return d->max_diff > 0 ? d->max_diff / d->largest : 0;
}

double fy_tensor_diff_rmse(const fy_tensor_diff *d)
{
    return d->n_wild > 0 ? INFINITY : d->n > 0 ? sqrt(d->sum_diff2 / (double)d->n) : 0;
}

double fy_tensor_diff_cosine(const fy_tensor_diff *d)
{
    if (d->n_different == 0)
        return 1;
    double norms = sqrt(d->sum_a2) * sqrt(d->sum_b2);
    return norms > 0 ? d->sum_ab / norms : 0;
}

enum {
    CHUNK = 1 << 15, /* elements decoded at a time */
    SHARE = 1 << 20, /* elements of a unit of work */
    UNITS = 1 << 18, /* blocks, or elements, of which bytes are compared at a time */
};

/* --- bytes ------------------------------------------------------------------------------------ */

typedef struct {
    fy_source *a, *b;
    const fy_tensor_pair *pair;
    uint64_t share;         /* elements */
    _Atomic uint64_t first; /* byte that differs; UINT64_MAX: none */
} byte_job;

static void compare_bytes(void *ctx, int64_t begin, int64_t end, int thread)
{
    byte_job *j = ctx;
    const fy_source_tensor *a = j->pair->a, *b = j->pair->b;
    (void)thread;
    for (int64_t i = begin; i < end && !fy_interrupted; i++) {
        uint64_t at = (uint64_t)i * j->share, left = a->n_elems - at,
                 n = left < j->share ? left : j->share, found = fy_source_bytes_of(a, at);
        if (found > atomic_load(&j->first))
            return;
        if (memcmp(a->raw + found, b->raw + found, (size_t)fy_source_bytes_of(a, n)) != 0) {
            uint64_t before = atomic_load(&j->first);
            while (a->raw[found] == b->raw[found])
                found++;
            while (found < before && !atomic_compare_exchange_weak(&j->first, &before, found))
                continue;
        }
        fy_source_drop(j->a, a, at, n);
        fy_source_drop(j->b, b, at, n);
    }
}

/* The first byte that differs, UINT64_MAX: none. Both are stored alike. */
static uint64_t first_byte(fy_source *a, fy_source *b, const fy_tensor_pair *pair, fy_pool *pool)
{
    byte_job j = {.a = a, .b = b, .pair = pair, .share = UNITS * pair->a->unit};
    atomic_init(&j.first, UINT64_MAX);
    fy_pool_run(pool, (int64_t)((pair->a->n_elems + j.share - 1) / j.share), 1, compare_bytes, &j);
    return atomic_load(&j.first);
}

static bool stored_alike(const fy_tensor_pair *pair)
{
    const fy_source_tensor *a = pair->a, *b = pair->b;
    return a->raw != NULL && b->raw != NULL && a->bytes == b->bytes &&
           strcmp(a->type, b->type) == 0;
}

/* --- values ----------------------------------------------------------------------------------- */

typedef struct {
    fy_source *a, *b;
    const fy_tensor_pair *pair;
    fy_kernels kernels;
    uint64_t chunk, share;   /* elements */
    fy_tensor_diff *results; /* owned; per share */
    float *buffers;          /* owned; two chunks per thread */
    pthread_mutex_t lock;    /* guards what follows */
    uint64_t failed;         /* the first share that failed; UINT64_MAX: none */
    fy_err err;
} value_job;

static int compare_share(value_job *j, uint64_t share, int thread, fy_err *e)
{
    float *x = j->buffers + (size_t)thread * 2 * j->chunk, *y = x + j->chunk;
    uint64_t at = share * j->share, left = j->pair->a->n_elems - at,
             n = left < j->share ? left : j->share;
    fy_tensor_diff *sum = &j->results[share], d;
    *sum = (fy_tensor_diff){0};
    for (uint64_t i = 0; i < n; i += j->chunk) {
        uint64_t m = n - i < j->chunk ? n - i : j->chunk;
        if (fy_source_read(j->a, j->pair->a, at + i, m, x, thread, e) != 0)
            return fy_ctx(e, "A");
        if (fy_source_read(j->b, j->pair->b, at + i, m, y, thread, e) != 0)
            return fy_ctx(e, "B");
        fy_tensor_diff_of(&d, &j->kernels, x, y, m, at + i);
        fy_tensor_diff_join(sum, &d);
    }
    fy_source_drop(j->a, j->pair->a, at, n);
    fy_source_drop(j->b, j->pair->b, at, n);
    return 0;
}

static void compare_shares(void *ctx, int64_t begin, int64_t end, int thread)
{
    value_job *j = ctx;
    for (int64_t i = begin; i < end && !fy_interrupted; i++) {
        fy_err e = {0};
        if (compare_share(j, (uint64_t)i, thread, &e) == 0)
            continue;
        pthread_mutex_lock(&j->lock);
        if ((uint64_t)i < j->failed) {
            j->failed = (uint64_t)i;
            j->err = e;
        }
        pthread_mutex_unlock(&j->lock);
    }
}

static uint64_t larger(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

/* Units are 1, the size of a block, or the length of a row, of which blocks are divisors: the
 * largest is a multiple of the other. */
static int begin_job(value_job *j, fy_pool *pool, uint64_t *n_shares, fy_err *e)
{
    uint64_t unit = larger(j->pair->a->unit, j->pair->b->unit), n = j->pair->a->n_elems;
    j->chunk = larger(CHUNK / unit, 1) * unit;
    j->share = larger(SHARE / j->chunk, 1) * j->chunk;
    *n_shares = n / j->share + (n % j->share != 0);
    j->results = calloc((size_t)*n_shares, sizeof *j->results);
    uint64_t bytes;
    if (fy_mul_u64(j->chunk, 2 * sizeof *j->buffers * (uint64_t)fy_pool_threads(pool), &bytes))
        j->buffers = malloc((size_t)bytes); /* touched as far as the tensor goes */
    return j->results != NULL && j->buffers != NULL ? 0 : fy_nomem(e);
}

static int set_unread(fy_tensor_pair *pair, const char *why, fy_err *e)
{
    pair->state = FY_PAIR_UNREAD;
    pair->why = strdup(why);
    return pair->why != NULL ? 0 : fy_nomem(e);
}

static int compare_decoded(fy_source *a, fy_source *b, fy_tensor_pair *pair,
                           const fy_compare_params *p, fy_err *e)
{
    value_job j = {.a = a,
                   .b = b,
                   .pair = pair,
                   .kernels = fy_kernels_for(fy_cpu_features()),
                   .failed = UINT64_MAX};
    uint64_t n = 0;
    int rc = begin_job(&j, p->pool, &n, e);
    pthread_mutex_init(&j.lock, NULL);
    if (rc == 0) {
        fy_pool_run(p->pool, (int64_t)n, 1, compare_shares, &j);
        rc = fy_check_interrupt(e);
    }
    if (rc == 0 && j.failed != UINT64_MAX)
        rc = set_unread(pair, j.err.msg, e);
    for (uint64_t i = 0; rc == 0 && i < n && pair->state != FY_PAIR_UNREAD; i++)
        fy_tensor_diff_join(&pair->diff, &j.results[i]);
    /* The pages that two shares have in common, and tensors that can only be dropped whole. */
    fy_source_drop(a, pair->a, 0, pair->a->n_elems);
    fy_source_drop(b, pair->b, 0, pair->b->n_elems);
    pthread_mutex_destroy(&j.lock);
    free(j.buffers);
    free(j.results);
    return rc;
}

/* --- a pair ----------------------------------------------------------------------------------- */

/* Bytes of the same type that ferry cannot decode. */
static int compare_unreadable(fy_tensor_pair *pair, uint64_t first, fy_err *e)
{
    const fy_source_tensor *t = pair->a->readable ? pair->b : pair->a;
    char why[160];
    if (first != UINT64_MAX)
        snprintf(why, sizeof why,
                 "stored bytes differ, first in element %" PRIu64
                 "; values of type %s are not decoded",
                 first / (t->bytes / t->n_elems > 0 ? t->bytes / t->n_elems : 1), t->type);
    else
        snprintf(why, sizeof why, "values of type %s are not decoded", t->type);
    return set_unread(pair, why, e);
}

void fy_compare_judge(fy_tensor_pair *pair, double tolerance)
{
    const fy_tensor_diff *d = &pair->diff;
    pair->state = d->n_different == 0                       ? FY_PAIR_EQUAL
                  : fy_tensor_diff_relative(d) <= tolerance ? FY_PAIR_WITHIN
                                                            : FY_PAIR_BEYOND;
}

int fy_compare_values(fy_source *a, fy_source *b, fy_tensor_pair *pair, const fy_compare_params *p,
                      fy_err *e)
{
    uint64_t first = UINT64_MAX, n = pair->a->n_elems;
    bool alike = stored_alike(pair), readable = pair->a->readable && pair->b->readable;
    pair->diff = (fy_tensor_diff){.n = n};
    pair->state = FY_PAIR_EQUAL;
    if (n == 0)
        return 0;
    if (alike) { /* most often enough, and as fast as memory */
        first = first_byte(a, b, pair, p->pool);
        if (fy_check_interrupt(e) != 0)
            return -1;
        if (first == UINT64_MAX) {
            fy_source_drop(a, pair->a, 0, n);
            fy_source_drop(b, pair->b, 0, n);
            return 0;
        }
    }
    if (!readable)
        return compare_unreadable(pair, first, e);
    pair->diff = (fy_tensor_diff){0};
    if (compare_decoded(a, b, pair, p, e) != 0)
        return -1;
    if (pair->state != FY_PAIR_UNREAD)
        fy_compare_judge(pair, p->tolerance);
    return 0;
}
