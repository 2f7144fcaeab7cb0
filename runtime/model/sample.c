/* Choosing the next token. What is left to choose from is kept in two ways: at first all logits, in
 * a scan that was copied once; from the first step that cuts on, a list of candidates. A step that
 * comes first takes what it keeps directly out of the scan, so that the usual chain never builds a
 * list of the whole vocabulary. Temperature only scales differences of logits: it is carried along
 * as a factor. */
#include "model/sample_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* --- the window --- */

/* The last tokens of a text: how often each occurs among the last N, kept up to date with a
 * constant effort per token. */
typedef struct {
    uint32_t n_vocab;
    uint32_t size;   /* tokens in the window; 0: no end */
    int32_t *ring;   /* owned, [size]; NULL without end: nothing leaves */
    uint32_t n, at;  /* tokens in the ring; the place of the next one */
    uint32_t *count; /* owned, [n_vocab] */
    int32_t *ids;    /* owned, [n_vocab]: those whose count is not 0, in no order */
    uint32_t *slot;  /* owned, [n_vocab]: where in ids */
    uint32_t n_ids;
} window;

static void window_release(window *w)
{
    free(w->ring);
    free(w->count);
    free(w->ids);
    free(w->slot);
    *w = (window){0};
}

static int window_init(window *w, uint32_t n_vocab, int32_t last_n, fy_err *e)
{
    *w = (window){.n_vocab = n_vocab, .size = last_n > 0 ? (uint32_t)last_n : 0};
    size_t n = n_vocab > 0 ? n_vocab : 1;
    if (w->size > 0)
        w->ring = calloc(w->size, sizeof *w->ring);
    w->count = calloc(n, sizeof *w->count);
    w->ids = calloc(n, sizeof *w->ids);
    w->slot = calloc(n, sizeof *w->slot);
    if ((w->size == 0 || w->ring != NULL) && w->count != NULL && w->ids != NULL && w->slot != NULL)
        return 0;
    window_release(w);
    return fy_nomem(e);
}

static void window_clear(window *w)
{
    for (uint32_t i = 0; i < w->n_ids; i++)
        w->count[w->ids[i]] = 0;
    w->n_ids = w->n = w->at = 0;
}

static void forget(window *w, int32_t id)
{
    if (--w->count[id] > 0)
        return;
    int32_t last = w->ids[--w->n_ids];
    w->ids[w->slot[id]] = last;
    w->slot[last] = w->slot[id];
}

static void window_push(window *w, int32_t id)
{
    if (w->ring != NULL) {
        if (w->n == w->size)
            forget(w, w->ring[w->at]);
        else
            w->n++;
        w->ring[w->at] = id;
        w->at = w->at + 1 < w->size ? w->at + 1 : 0;
    }
    if (w->count[id] == 0) {
        w->slot[id] = w->n_ids;
        w->ids[w->n_ids++] = id;
    }
    if (w->count[id] < UINT32_MAX)
        w->count[id]++;
}

/* As llama.cpp's llama_sampler_penalties, in float: dividing a negative logit would make its token
 * more likely. */
static float penalized(const fy_sampler_params *p, float logit, uint32_t count)
{
    float v = logit <= 0 ? logit * p->repeat_penalty : logit / p->repeat_penalty;
    return v - ((float)count * p->frequency_penalty + p->presence_penalty);
}

/* --- the sampler --- */

typedef struct {
    int32_t *id; /* owned */
    uint32_t n;
} id_list;

struct fy_sampler {
    fy_sampler_params p;
    uint32_t n_vocab;
    uint8_t steps[FY_SAMPLE_STEPS]; /* of p.order, those that do something */
    uint8_t n_steps;
    bool penalties_first; /* they come before every other step: applied in the scan */
    bool has_window;
    window window; /* of the penalties */
    fy_rng rng;
    id_list banned, eog;
    fy_scan scan;
    fy_candidate *list; /* owned, [n_vocab]; NULL when greedy */
    fy_candidate *key;  /* owned, [n_vocab]; NULL when greedy */
    double *weight;     /* owned, [n_vocab]: of list[i]; NULL when greedy */
    uint32_t n_drawn;   /* of list and weight: what the last token was drawn from */
    double drawn_sum;   /* of their weights */
    int32_t only;       /* the last token, when it was not drawn; else -1 */
};

/* What is left to choose from. */
typedef struct {
    bool in_scan; /* everything in s->scan; else s->list[0..n) */
    bool sorted;  /* the list, best first; else by id or in no order */
    uint32_t n;
    double temperature; /* of the steps so far */
} choice;

/* --- life ------------------------------------------------------------------------------------- */

/* Greedy needs the penalties only, wherever they stand. */
static void plan_steps(fy_sampler *s)
{
    bool greedy = s->p.temperature == 0;
    for (int i = 0; i < s->p.n_order; i++) {
        fy_sample_step step = (fy_sample_step)s->p.order[i];
        if (!fy_sample_step_acts(&s->p, step) || (greedy && step != FY_SAMPLE_PENALTIES))
            continue;
        s->steps[s->n_steps++] = (uint8_t)step;
        s->has_window |= step == FY_SAMPLE_PENALTIES;
    }
    s->penalties_first = s->n_steps > 0 && s->steps[0] == FY_SAMPLE_PENALTIES;
}

static int find_marked(fy_sampler *s, const fy_vocab *vocab, fy_err *e)
{
    uint32_t n_banned = 0, n_eog = 0;
    for (int32_t id = 0; id < (int32_t)s->n_vocab; id++) {
        n_banned += !fy_vocab_is_samplable(vocab, id);
        n_eog += fy_vocab_is_eog(vocab, id);
    }
    s->banned.id = calloc(n_banned + 1u, sizeof *s->banned.id);
    s->eog.id = calloc(n_eog + 1u, sizeof *s->eog.id);
    if (s->banned.id == NULL || s->eog.id == NULL)
        return fy_nomem(e);
    for (int32_t id = 0; id < (int32_t)s->n_vocab; id++) {
        if (!fy_vocab_is_samplable(vocab, id))
            s->banned.id[s->banned.n++] = id;
        if (fy_vocab_is_eog(vocab, id))
            s->eog.id[s->eog.n++] = id;
    }
    return 0;
}

static int take_scratch(fy_sampler *s, fy_err *e)
{
    if (fy_scan_init(&s->scan, s->n_vocab, e) != 0)
        return -1;
    if (s->has_window && window_init(&s->window, s->n_vocab, s->p.repeat_last_n, e) != 0)
        return -1;
    if (s->p.temperature == 0)
        return 0;
    size_t n = (size_t)s->n_vocab + 1; /* never 0 bytes */
    s->list = calloc(n, sizeof *s->list);
    s->weight = calloc(n, sizeof *s->weight);
    s->key = calloc(n, sizeof *s->key);
    if (s->list == NULL || s->weight == NULL || s->key == NULL)
        return fy_nomem(e);
    return 0;
}

fy_sampler *fy_sampler_new(const fy_sampler_params *p, uint32_t n_vocab, const fy_vocab *vocab,
                           fy_err *e)
{
    if (fy_sampler_check(p, n_vocab, e) != 0)
        return NULL;
    fy_sampler *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    s->p = *p;
    s->n_vocab = n_vocab;
    s->only = -1;
    fy_rng_seed(&s->rng, p->seed);
    plan_steps(s);
    if (take_scratch(s, e) == 0 && (vocab == NULL || find_marked(s, vocab, e) == 0))
        return s;
    fy_sampler_free(s);
    return NULL;
}

void fy_sampler_free(fy_sampler *s)
{
    if (s == NULL)
        return;
    fy_scan_release(&s->scan);
    window_release(&s->window);
    free(s->banned.id);
    free(s->eog.id);
    free(s->list);
    free(s->key);
    free(s->weight);
    free(s);
}

int fy_sampler_accept(fy_sampler *s, int32_t id, fy_err *e)
{
    if (id < 0 || (uint32_t)id >= s->n_vocab)
        return fy_fail(e, FY_EARG, "token %d, the vocabulary has %u", id, s->n_vocab);
    if (s->has_window)
        window_push(&s->window, id);
    return 0;
}

void fy_sampler_reset(fy_sampler *s)
{
    if (s->has_window)
        window_clear(&s->window);
}

void fy_sampler_reseed(fy_sampler *s, uint64_t seed)
{
    fy_rng_seed(&s->rng, seed);
}

/* --- the scan --------------------------------------------------------------------------------- */

static void fill_scan(fy_sampler *s, const float *logits, const fy_mask *mask, bool biased,
                      bool ban_eog)
{
    fy_scan *scan = &s->scan;
    if (mask != NULL)
        fy_scan_fill_masked(scan, logits, mask->bits, mask->n_words);
    else
        fy_scan_fill(scan, logits);
    for (size_t i = 0; biased && i < s->p.n_bias; i++) {
        uint32_t id = (uint32_t)s->p.bias[i].id;
        fy_scan_set(scan, id, scan->logit[id] + s->p.bias[i].bias);
    }
    for (uint32_t i = 0; s->penalties_first && i < s->window.n_ids; i++) {
        uint32_t id = (uint32_t)s->window.ids[i];
        fy_scan_set(scan, id, penalized(&s->p, scan->logit[id], s->window.count[id]));
    }
    for (uint32_t i = 0; i < s->banned.n; i++)
        fy_scan_set(scan, (uint32_t)s->banned.id[i], -INFINITY);
    for (uint32_t i = 0; ban_eog && i < s->eog.n; i++)
        fy_scan_set(scan, (uint32_t)s->eog.id[i], -INFINITY);
}

static bool nothing_left(const fy_sampler *s)
{
    fy_candidate best;
    return fy_scan_best(&s->scan, 1, &best) == 0;
}

static void take_all(fy_sampler *s, choice *c)
{
    if (!c->in_scan)
        return;
    c->n = fy_scan_from(&s->scan, -INFINITY, s->list);
    c->in_scan = c->sorted = false;
}

/* --- steps: each works on what is left -------------------------------------------------------- */

static float best_logit(const fy_sampler *s, const choice *c)
{
    float best = c->n > 0 ? s->list[0].logit : -INFINITY;
    for (uint32_t i = 1; !c->sorted && i < c->n; i++)
        best = s->list[i].logit > best ? s->list[i].logit : best;
    return best;
}

/* The logarithm of how much less likely than the best; its own difference may be inf - inf. */
static double below(float logit, float best, double temperature)
{
    return logit == best ? 0 : ((double)logit - (double)best) / temperature;
}

static double weight_of(float logit, float best, double temperature)
{
    return logit == best ? 1 : fy_exp_neg(below(logit, best, temperature));
}

/* Fills s->weight; returns its sum, in the order of the list. */
static double weigh(fy_sampler *s, const choice *c)
{
    float best = best_logit(s, c);
    double total = 0;
    for (uint32_t i = 0; i < c->n; i++)
        total += s->weight[i] = weight_of(s->list[i].logit, best, c->temperature);
    return total;
}

static void step_top_k(fy_sampler *s, choice *c)
{
    uint32_t k = (uint32_t)s->p.top_k;
    if (c->in_scan && k < s->n_vocab) {
        c->n = fy_scan_best(&s->scan, k, s->list);
        c->in_scan = false;
        c->sorted = true;
    } else if (!c->in_scan && k < c->n) {
        if (!c->sorted)
            fy_candidates_sort(s->list, c->n, k);
        c->n = k;
        c->sorted = true;
    }
}

#define NEGLIGIBLE 50.0 /* e^-50 of the best weight: no vocabulary's sum of those shows */

static uint32_t interval_of(float key, float best, double range, uint32_t n)
{
    double d = key == best ? 0 : ((double)best - (double)key) / range;
    return d < 1 ? (uint32_t)(d * (n - 1)) : n - 1;
}

/* Finds where to cut: the last of the fewest best keys whose weights reach `enough` (go beyond it).
 * The ids of keys are places in s->weight. Sorting a whole vocabulary would cost more than all the
 * rest, so keys are sorted only in the one of many equal intervals where the sum gets there; what
 * is more than `range` below the best shares the last. False: all together do not reach it. */
static bool find_cut(fy_candidate *key, uint32_t n, const double *weight, double enough,
                     bool beyond, double range, fy_candidate *cut)
{
    enum { N = 2048 };
    double mass[N] = {0}, sum = 0;
    float best = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        best = key[i].logit > best ? key[i].logit : best;
    for (uint32_t i = 0; i < n; i++)
        mass[interval_of(key[i].logit, best, range, N)] += weight[i];
    uint32_t at = 0, m = 0;
    while (at < N && !(beyond ? sum + mass[at] > enough : sum + mass[at] >= enough))
        sum += mass[at++];
    if (at == N)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (interval_of(key[i].logit, best, range, N) == at)
            key[m++] = key[i];
    }
    fy_candidates_sort(key, m, m);
    for (uint32_t i = 0; i < m; i++) {
        *cut = key[i];
        sum += weight[key[i].id];
        if (beyond ? sum > enough : sum >= enough)
            break;
    }
    return true;
}

static void step_top_p(fy_sampler *s, choice *c)
{
    take_all(s, c);
    if (c->n == 0)
        return;
    double enough = (double)s->p.top_p * weigh(s, c), sum = 0;
    if (c->sorted) {
        for (uint32_t i = 0; i < c->n; i++) {
            sum += s->weight[i];
            if (sum >= enough)
                c->n = i + 1;
        }
        return;
    }
    for (uint32_t i = 0; i < c->n; i++)
        s->key[i] = (fy_candidate){s->list[i].logit, (int32_t)i};
    fy_candidate cut;
    uint32_t n = 0;
    if (!find_cut(s->key, c->n, s->weight, enough, false, NEGLIGIBLE * c->temperature, &cut))
        return;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!fy_candidate_before(cut, (fy_candidate){s->list[i].logit, (int32_t)i}))
            s->list[n++] = s->list[i];
    }
    c->n = n;
}

static void step_min_p(fy_sampler *s, choice *c)
{
    double ln_p = fy_ln((double)s->p.min_p) * c->temperature;
    if (c->in_scan) {
        uint32_t found = fy_scan_best(&s->scan, 1, s->list);
        c->n = found > 0 ? fy_scan_from(&s->scan, (double)s->list[0].logit + ln_p, s->list) : 0;
        c->in_scan = c->sorted = false;
        return;
    }
    double least = (double)best_logit(s, c) + ln_p;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if ((double)s->list[i].logit >= least)
            s->list[n++] = s->list[i];
    }
    c->n = n;
}

static fy_candidate typical_key(const fy_sampler *s, const choice *c, uint32_t i, float best,
                                double mean)
{
    double x = below(s->list[i].logit, best, c->temperature);
    return (fy_candidate){-(float)fabs(mean - x), (int32_t)i};
}

/* Locally typical sampling (Meister et al.): the surprise of a token is -ln p, its expectation the
 * entropy; those nearest to it are kept, as few as go beyond typical_p. With w = e^x, -ln p is
 * ln(sum w) - x, so the distance to the entropy is the one between x and the mean of x. */
static void step_typical(fy_sampler *s, choice *c)
{
    take_all(s, c);
    if (c->n == 0)
        return;
    double total = weigh(s, c), mean = 0;
    float best = best_logit(s, c);
    for (uint32_t i = 0; i < c->n; i++) {
        if (s->weight[i] > 0)
            mean += s->weight[i] * below(s->list[i].logit, best, c->temperature);
    }
    mean /= total;
    for (uint32_t i = 0; i < c->n; i++)
        s->key[i] = typical_key(s, c, i, best, mean);
    fy_candidate cut;
    uint32_t n = 0;
    if (!find_cut(s->key, c->n, s->weight, (double)s->p.typical_p * total, true, NEGLIGIBLE, &cut))
        return;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!fy_candidate_before(cut, typical_key(s, c, i, best, mean)))
            s->list[n++] = s->list[i];
    }
    c->n = n;
}

/* What is finite stays so. */
static float scaled(float logit, double temperature)
{
    double v = (double)logit / temperature;
    if (!isfinite(logit))
        return logit;
    return v > (double)FLT_MAX ? FLT_MAX : v < -(double)FLT_MAX ? -FLT_MAX : (float)v;
}

/* After another step: on scaled logits when temperature came before. */
static void step_penalties(fy_sampler *s, choice *c)
{
    take_all(s, c);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        fy_candidate t = s->list[i];
        uint32_t count = s->window.count[t.id];
        t.logit = scaled(t.logit, c->temperature);
        if (count > 0)
            t.logit = penalized(&s->p, t.logit, count);
        if (t.logit > -INFINITY)
            s->list[n++] = t;
    }
    c->n = n;
    c->temperature = 1;
    c->sorted = false;
}

static void run_steps(fy_sampler *s, choice *c)
{
    for (int i = s->penalties_first ? 1 : 0; i < s->n_steps; i++) {
        switch ((fy_sample_step)s->steps[i]) {
        case FY_SAMPLE_PENALTIES:
            step_penalties(s, c);
            break;
        case FY_SAMPLE_TOP_K:
            step_top_k(s, c);
            break;
        case FY_SAMPLE_TYPICAL:
            step_typical(s, c);
            break;
        case FY_SAMPLE_TOP_P:
            step_top_p(s, c);
            break;
        case FY_SAMPLE_MIN_P:
            step_min_p(s, c);
            break;
        case FY_SAMPLE_TEMPERATURE:
            c->temperature *= (double)s->p.temperature;
            break;
        case FY_SAMPLE_STEPS:
            break;
        }
    }
}

/* One of the list, in proportion to the weights. */
static int32_t draw(fy_sampler *s, const choice *c)
{
    if (c->n == 0)
        return -1;
    s->drawn_sum = weigh(s, c);
    s->n_drawn = c->n;
    double at = s->drawn_sum * fy_rng_unit(&s->rng), sum = 0;
    int32_t id = -1;
    for (uint32_t i = 0; i < c->n && (id < 0 || sum <= at); i++) {
        sum += s->weight[i];
        if (s->weight[i] > 0)
            id = s->list[i].id;
    }
    return id;
}

static int32_t choose(fy_sampler *s, fy_err *e)
{
    int32_t id = -1;
    if (s->p.temperature == 0) {
        fy_candidate best;
        id = fy_scan_best(&s->scan, 1, &best) > 0 ? best.id : -1;
        s->only = id;
    } else {
        s->only = -1;
        choice c = {.in_scan = true, .temperature = 1};
        run_steps(s, &c);
        take_all(s, &c);
        id = draw(s, &c);
    }
    if (id < 0)
        fy_fail(
            e, FY_EFORMAT,
            "no token can be chosen: every logit is NaN or forbidden; the weights are damaged, or "
            "their values overflow (try ferry eval)");
    return id;
}

int32_t fy_sampler_next(fy_sampler *s, const float *logits, bool ban_eog, fy_err *e)
{
    fill_scan(s, logits, NULL, true, ban_eog);
    return choose(s, e);
}

int32_t fy_sampler_next_masked(fy_sampler *s, const float *logits, const fy_mask *mask,
                               bool ban_eog, fy_err *e)
{
    if (mask->n_allowed == 1 && (uint32_t)mask->only < s->n_vocab)
        return s->only = mask->only;
    fill_scan(s, logits, mask, true, ban_eog);
    if (nothing_left(s))
        fill_scan(s, logits, mask, false, false);
    return choose(s, e);
}

/* --- probabilities --- */

float fy_sampler_last(fy_sampler *s, int32_t id, fy_logprob *top, uint32_t n_top)
{
    double of_id = s->only == id ? 1 : 0;
    uint32_t n = 0;
    for (uint32_t i = 0; s->only < 0 && i < s->n_drawn; i++) {
        const double p = s->weight[i] / s->drawn_sum;
        if (s->list[i].id == id)
            of_id = p;
        if (p > 0)
            s->key[n++] = (fy_candidate){(float)p, s->list[i].id};
    }
    if (s->only < 0)
        fy_candidates_sort(s->key, n, n_top < n ? n_top : n);
    for (uint32_t i = 0; i < n_top; i++)
        top[i] = s->only >= 0 && i == 0 ? (fy_logprob){s->only, 1}
                 : i < n                ? (fy_logprob){s->key[i].id, s->key[i].logit}
                                        : (fy_logprob){-1, 0};
    return (float)of_id;
}

/* ln sum e^logit, the largest logit taken out of the sum; NaN counts as no token. */
typedef struct {
    float best;
    double ln_sum; /* of e^(logit - best) */
} normalizer;

static int normalize(const float *logits, uint32_t n, normalizer *z, fy_err *e)
{
    fy_candidate best;
    if (fy_logits_best(logits, n, 1, &best) == 0)
        return fy_fail(e, FY_EFORMAT, "no token has a probability: every logit is NaN or -inf");
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] == best.logit)
            sum += 1; /* inf - inf would be NaN */
        else if (logits[i] > -INFINITY)
            sum += fy_exp_neg((double)logits[i] - (double)best.logit);
    }
    *z = (normalizer){best.logit, fy_ln(sum)};
    return 0;
}

static float logprob_of(const normalizer *z, float logit)
{
    if (logit == z->best)
        return (float)-z->ln_sum;
    return logit > -INFINITY ? (float)((double)logit - (double)z->best - z->ln_sum) : -INFINITY;
}

int fy_logprobs(const float *logits, uint32_t n_vocab, int32_t id, float *logprob, fy_logprob *top,
                uint32_t n_top, fy_err *e)
{
    normalizer z = {0};
    if (id < 0 || (uint32_t)id >= n_vocab)
        return fy_fail(e, FY_EARG, "token %d, the vocabulary has %u", id, n_vocab);
    if (normalize(logits, n_vocab, &z, e) != 0)
        return -1;
    uint32_t n = n_top < n_vocab ? n_top : n_vocab;
    if (n > 0) {
        fy_candidate *best = calloc(n, sizeof *best);
        if (best == NULL)
            return fy_nomem(e);
        n = fy_logits_best(logits, n_vocab, n, best);
        for (uint32_t i = 0; i < n; i++)
            top[i] = (fy_logprob){best[i].id, logprob_of(&z, best[i].logit)};
        free(best);
    }
    for (uint32_t i = n; i < n_top; i++)
        top[i] = (fy_logprob){-1, -INFINITY};
    *logprob = logprob_of(&z, logits[id]);
    return 0;
}
