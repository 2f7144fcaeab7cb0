/* The sampling chain a second time, as its definitions read: every candidate with its probability,
 * sorted in full, libm, no shortcut. Tests hold the sampler to the distribution it gives. */
#ifndef FY_TESTS_SAMPLE_REFERENCE_H
#define FY_TESTS_SAMPLE_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "model/sample.h"

#define REF_MAX 512

typedef struct {
    double logit, p, key;
    int32_t id;
} ref_token;

typedef struct {
    ref_token t[REF_MAX];
    int n;
} ref_list;

static inline int ref_order(const void *a, const void *b)
{
    const ref_token *x = a, *y = b;
    return x->key > y->key ? -1 : x->key < y->key ? 1 : x->id - y->id;
}

/* Best first by key; probabilities from the logits. */
static inline void ref_softmax(ref_list *l)
{
    double best = -INFINITY, total = 0;
    for (int i = 0; i < l->n; i++)
        best = fmax(best, l->t[i].logit);
    for (int i = 0; i < l->n; i++)
        total += l->t[i].p = l->t[i].logit == best ? 1 : exp(l->t[i].logit - best);
    for (int i = 0; i < l->n; i++)
        l->t[i].p /= total;
}

static inline void ref_sort(ref_list *l)
{
    qsort(l->t, (size_t)l->n, sizeof l->t[0], ref_order);
}

static inline void ref_sort_by_logit(ref_list *l)
{
    for (int i = 0; i < l->n; i++)
        l->t[i].key = l->t[i].logit;
    ref_sort(l);
}

/* llama.cpp, llama_sampler_penalties_apply: count among the last n of text. */
static inline void ref_penalties(ref_list *l, const fy_sampler_params *p, const int32_t *text,
                                 int n_text)
{
    int first = p->repeat_last_n < 0 || p->repeat_last_n > n_text ? 0 : n_text - p->repeat_last_n;
    for (int i = 0; i < l->n; i++) {
        int count = 0;
        for (int k = first; k < n_text; k++)
            count += text[k] == l->t[i].id;
        if (count == 0)
            continue;
        float v = (float)l->t[i].logit;
        if (v <= 0)
            v *= p->repeat_penalty;
        else
            v /= p->repeat_penalty;
        v -= (float)count * p->frequency_penalty + (float)(count > 0) * p->presence_penalty;
        l->t[i].logit = (double)v;
    }
}

static inline void ref_top_p(ref_list *l, double p)
{
    double sum = 0;
    ref_sort_by_logit(l);
    ref_softmax(l);
    for (int i = 0; i < l->n; i++) {
        sum += l->t[i].p;
        if (sum >= p)
            l->n = i + 1;
    }
}

static inline void ref_min_p(ref_list *l, double p)
{
    ref_sort_by_logit(l);
    ref_softmax(l);
    int n = 0;
    while (n < l->n && l->t[n].p >= p * l->t[0].p)
        n++;
    l->n = n;
}

static inline void ref_typical(ref_list *l, double p)
{
    double entropy = 0, sum = 0;
    ref_softmax(l);
    for (int i = 0; i < l->n; i++)
        entropy -= l->t[i].p > 0 ? l->t[i].p * log(l->t[i].p) : 0;
    for (int i = 0; i < l->n; i++)
        l->t[i].key = -fabs(-log(l->t[i].p) - entropy);
    ref_sort(l);
    for (int i = 0; i < l->n; i++) {
        sum += l->t[i].p;
        if (sum > p)
            l->n = i + 1;
    }
}

/* The probability of every id. */
static inline void ref_distribution(const fy_sampler_params *p, const float *logits, int n_vocab,
                                    const int32_t *text, int n_text, double *out)
{
    ref_list l = {.n = 0};
    for (int i = 0; i < n_vocab; i++) {
        float v = logits[i];
        for (size_t k = 0; k < p->n_bias; k++)
            v += p->bias[k].id == i ? p->bias[k].bias : 0;
        out[i] = 0;
        if (v > -INFINITY)
            l.t[l.n++] = (ref_token){.logit = (double)v, .id = i};
    }
    for (int i = 0; i < p->n_order; i++) {
        switch ((fy_sample_step)p->order[i]) {
        case FY_SAMPLE_PENALTIES:
            ref_penalties(&l, p, text, n_text);
            break;
        case FY_SAMPLE_TOP_K:
            ref_sort_by_logit(&l);
            if (p->top_k > 0 && p->top_k < l.n)
                l.n = p->top_k;
            break;
        case FY_SAMPLE_TYPICAL:
            if (p->typical_p < 1)
                ref_typical(&l, (double)p->typical_p);
            break;
        case FY_SAMPLE_TOP_P:
            if (p->top_p < 1)
                ref_top_p(&l, (double)p->top_p);
            break;
        case FY_SAMPLE_MIN_P:
            ref_min_p(&l, (double)p->min_p);
            break;
        case FY_SAMPLE_TEMPERATURE:
            for (int k = 0; k < l.n; k++)
                l.t[k].logit /= (double)p->temperature;
            break;
        case FY_SAMPLE_STEPS:
            break;
        }
    }
    ref_softmax(&l);
    for (int i = 0; i < l.n; i++)
        out[l.t[i].id] = l.t[i].p;
}

#endif
