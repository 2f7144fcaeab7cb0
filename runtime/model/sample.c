/* All cuts (top-k, top-p, min-p) keep a prefix of the candidates ordered by logit, so candidates
 * come from a heap one by one and only as many as are kept get sorted. Arithmetic is in double with
 * an exponential of our own: the choice may not depend on the C library. */
#include "model/sample.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    float logit;
    int32_t id;
} candidate;

struct fy_sampler {
    fy_sampler_params p;
    uint32_t n_vocab;
    const fy_vocab *vocab; /* view; NULL: every id may be chosen */
    uint64_t state[4];
    candidate *list; /* owned, [n_vocab] */
    double *weight;  /* owned, [n_vocab]: of list[i] */
};

/* --- the generator: xoshiro256** 1.0 (Blackman, Vigna), seeded by splitmix64 ---------------- */

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

static uint64_t next_random(uint64_t s[4])
{
    uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* [0, 1) */
static double next_unit(fy_sampler *s)
{
    return (double)(next_random(s->state) >> 11) * 0x1p-53;
}

/* e^x for x <= 0: 2^n times the Taylor series of the rest, |rest| <= ln 2 / 2. */
static double exp_nonpositive(double x)
{
    if (!(x > -700))
        return 0;
    double n = floor(x * 1.4426950408889634 + 0.5);
    double r = x - n * 0.6931471803691238 -
               n * 1.9082149292705877e-10; /* ln 2 in two parts: n * first is exact */
    double term = 1, sum = 1;
    for (int i = 1; i <= 14; i++) {
        term *= r / i;
        sum += term;
    }
    return ldexp(sum, (int)n);
}

/* --- life ----------------------------------------------------------------------------------- */

static int check_params(const fy_sampler_params *p, fy_err *e)
{
    if (!(p->temperature >= 0 && p->temperature <= 1e6f))
        return fy_fail(e, FY_EARG, "temperature %g, expected 0 (greedy) or more",
                       (double)p->temperature);
    if (p->top_k < 0)
        return fy_fail(e, FY_EARG, "top-k %d, expected 0 (off) or more", p->top_k);
    if (!(p->top_p > 0 && p->top_p <= 1))
        return fy_fail(e, FY_EARG, "top-p %g, expected above 0 and at most 1 (off)",
                       (double)p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return fy_fail(e, FY_EARG, "min-p %g, expected 0 (off) to 1", (double)p->min_p);
    return 0;
}

fy_sampler *fy_sampler_new(const fy_sampler_params *p, uint32_t n_vocab, const fy_vocab *vocab,
                           fy_err *e)
{
    bool greedy = p->temperature == 0;
    if (!greedy && check_params(p, e) != 0)
        return NULL;
    fy_sampler *s = calloc(1, sizeof *s);
    if (s == NULL)
        goto nomem;
    *s = (fy_sampler){.p = *p, .n_vocab = n_vocab, .vocab = vocab};
    uint64_t seed = p->seed;
    for (int i = 0; i < 4; i++)
        s->state[i] = splitmix64(&seed);
    if (greedy)
        return s;
    s->list = calloc(n_vocab, sizeof *s->list);
    s->weight = calloc(n_vocab, sizeof *s->weight);
    if (s->list != NULL && s->weight != NULL)
        return s;
nomem:
    fy_sampler_free(s);
    fy_nomem(e);
    return NULL;
}

void fy_sampler_free(fy_sampler *s)
{
    if (s == NULL)
        return;
    free(s->list);
    free(s->weight);
    free(s);
}

/* --- candidates ----------------------------------------------------------------------------- */

static bool may_choose(const fy_sampler *s, int32_t id, float logit, bool ban_eog)
{
    if (isnan(logit) || logit == -INFINITY)
        return false;
    if (s->vocab == NULL)
        return true;
    return fy_vocab_is_samplable(s->vocab, id) && !(ban_eog && fy_vocab_is_eog(s->vocab, id));
}

static bool before(candidate a, candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(candidate *heap, uint32_t n, uint32_t i)
{
    candidate moved = heap[i];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && before(heap[child + 1], heap[child]))
            child++;
        if (!before(heap[child], moved))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

static void make_heap(candidate *heap, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i);
}

/* Moves the best of heap[0..n) to its end: after m calls with n, n - 1, ... the last m are sorted,
 * best last. */
static candidate pop_best(candidate *heap, uint32_t n)
{
    candidate best = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = best;
    sift_down(heap, n - 1, 0);
    return best;
}

static double weight_of(float logit, float best, double temperature)
{
    return logit == best ? 1 : exp_nonpositive(((double)logit - (double)best) / temperature);
}

/* --- the chain ------------------------------------------------------------------------------ */

/* The last n_kept of list[0..n) are sorted, best last: what top-k leaves. Returns how many of them
 * top-p keeps. */
static uint32_t cut_top_p(fy_sampler *s, uint32_t n, uint32_t n_kept)
{
    float best = s->list[n - 1].logit;
    double total = 0, sum = 0;
    for (uint32_t i = 0; i < n_kept; i++)
        total += s->weight[i] = weight_of(s->list[n - 1 - i].logit, best, 1);
    for (uint32_t i = 0; i < n_kept; i++) {
        sum += s->weight[i];
        if (sum >= (double)s->p.top_p * total)
            return i + 1;
    }
    return n_kept;
}

/* Top-p without top-k: the total is over all candidates, and only those that are kept get sorted.
 */
static uint32_t pop_top_p(fy_sampler *s, uint32_t n)
{
    float best = s->list[0].logit;
    double total = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        total += weight_of(s->list[i].logit, best, 1);
    for (uint32_t i = 0; i < n; i++) {
        sum += weight_of(pop_best(s->list, n - i).logit, best, 1);
        if (sum >= (double)s->p.top_p * total)
            return i + 1;
    }
    return n;
}

/* Sorts what top-k and top-p keep to the end of list[0..n), best last; returns how many. */
static uint32_t keep_best(fy_sampler *s, uint32_t n)
{
    bool top_k = s->p.top_k > 0 && (uint32_t)s->p.top_k < n, top_p = s->p.top_p < 1;
    if (!top_k && !top_p)
        return n;
    make_heap(s->list, n);
    if (!top_k)
        return pop_top_p(s, n);
    for (uint32_t i = 0; i < (uint32_t)s->p.top_k; i++)
        pop_best(s->list, n - i);
    return top_p ? cut_top_p(s, n, (uint32_t)s->p.top_k) : (uint32_t)s->p.top_k;
}

/* Draws one of c[0..n) in proportion to e^(logit / temperature), without those that min-p forbids.
 */
static int32_t draw(fy_sampler *s, const candidate *c, uint32_t n)
{
    float best = c[0].logit;
    for (uint32_t i = 1; i < n; i++)
        best = c[i].logit > best ? c[i].logit : best;
    double total = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool kept = weight_of(c[i].logit, best, 1) >= (double)s->p.min_p;
        total += s->weight[i] = kept ? weight_of(c[i].logit, best, (double)s->p.temperature) : 0;
    }
    double at = next_unit(s) * total, sum = 0;
    int32_t id = -1;
    for (uint32_t i = 0; i < n && (id < 0 || sum <= at); i++) {
        sum += s->weight[i];
        if (s->weight[i] > 0)
            id = c[i].id;
    }
    return id;
}

static int32_t greedy(const fy_sampler *s, const float *logits, bool ban_eog)
{
    int32_t best = -1;
    for (int32_t id = 0; id < (int32_t)s->n_vocab; id++) {
        if ((best < 0 || logits[id] > logits[best]) && may_choose(s, id, logits[id], ban_eog))
            best = id;
    }
    return best;
}

int32_t fy_sampler_next(fy_sampler *s, const float *logits, bool ban_eog, fy_err *e)
{
    int32_t id = -1;
    if (s->p.temperature == 0) {
        id = greedy(s, logits, ban_eog);
    } else {
        uint32_t n = 0;
        for (int32_t i = 0; i < (int32_t)s->n_vocab; i++) {
            if (may_choose(s, i, logits[i], ban_eog))
                s->list[n++] = (candidate){logits[i], i};
        }
        uint32_t n_kept = n > 0 ? keep_best(s, n) : 0;
        id = n_kept > 0 ? draw(s, s->list + (n - n_kept), n_kept) : -1;
    }
    if (id < 0)
        fy_fail(
            e, FY_EFORMAT,
            "no token can be chosen: every logit is NaN or forbidden; the weights are damaged, or "
            "their values overflow (try ferry eval)");
    return id;
}
