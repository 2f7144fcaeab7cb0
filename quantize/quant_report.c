#include "quantize/quant_report.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

typedef struct {
    size_t tensor;
    uint64_t row;
    fy_error_sums sums;
} piece;

struct fy_quant_report {
    fy_quant_tensor *tensors; /* owned */
    size_t n_tensors;
    pthread_mutex_t lock; /* guards the pieces */
    piece *pieces;        /* owned */
    size_t n_pieces, cap_pieces;
    fy_error_sums total;
};

bool fy_quant_is_lossy(fy_type from, fy_type to)
{
    return from != to && to != FY_F32;
}

uint64_t fy_quant_elems(const fy_gguf_tensor *t)
{
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]; /* the reader has checked the product */
}

fy_quant_report *fy_quant_report_new(size_t n_tensors, fy_err *e)
{
    fy_quant_report *r = calloc(1, sizeof *r);
    if (r != NULL)
        r->tensors = calloc(n_tensors > 0 ? n_tensors : 1, sizeof *r->tensors);
    if (r == NULL || r->tensors == NULL) {
        free(r);
        fy_nomem(e);
        return NULL;
    }
    r->n_tensors = n_tensors;
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void fy_quant_report_free(fy_quant_report *r)
{
    if (r == NULL)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r->pieces);
    free(r->tensors);
    free(r);
}

void fy_quant_report_describe(fy_quant_report *r, size_t i, const fy_gguf_tensor *from,
                              const fy_gguf_tensor *to)
{
    r->tensors[i] = (fy_quant_tensor){.from = from, .to = to};
}

int fy_quant_report_add(fy_quant_report *r, size_t i, uint64_t row, const fy_error_sums *s,
                        fy_err *e)
{
    pthread_mutex_lock(&r->lock);
    piece *more = fy_grow(r->pieces, r->n_pieces, &r->cap_pieces, sizeof *more);
    if (more != NULL) {
        r->pieces = more;
        more[r->n_pieces++] = (piece){.tensor = i, .row = row, .sums = *s};
    }
    pthread_mutex_unlock(&r->lock);
    return more != NULL ? 0 : fy_nomem(e);
}

static int by_place(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

void fy_quant_report_end(fy_quant_report *r)
{
    if (r->n_pieces > 0)
        qsort(r->pieces, r->n_pieces, sizeof *r->pieces, by_place);
    for (size_t p = 0; p < r->n_pieces; p++)
        fy_error_sums_join(&r->tensors[r->pieces[p].tensor].sums, &r->pieces[p].sums);
    free(r->pieces);
    r->pieces = NULL;
    r->n_pieces = r->cap_pieces = 0;
    for (size_t i = 0; i < r->n_tensors; i++)
        fy_error_sums_join(&r->total, &r->tensors[i].sums);
}

size_t fy_quant_report_n(const fy_quant_report *r)
{
    return r->n_tensors;
}

const fy_quant_tensor *fy_quant_report_tensor(const fy_quant_report *r, size_t i)
{
    return &r->tensors[i];
}

const fy_error_sums *fy_quant_report_total(const fy_quant_report *r)
{
    return &r->total;
}

double fy_quant_report_covered(const fy_quant_report *r)
{
    double n = 0;
    for (size_t i = 0; i < r->n_tensors; i++) {
        const fy_quant_tensor *t = &r->tensors[i];
        if (fy_quant_is_lossy(t->from->type, t->to->type))
            n += (double)fy_quant_elems(t->from);
    }
    return n > 0 ? (double)r->total.n / n : 1;
}

fy_quant_numbers fy_quant_numbers_of(const fy_error_sums *s)
{
    fy_quant_numbers v = {NAN, NAN, NAN, NAN, NAN, NAN};
    if (s->n == 0)
        return v;
    const double norms = sqrt(s->xx) * sqrt(s->yy);
    v.rmse = sqrt(s->ee / (double)s->n);
    v.max_error = (double)s->max_e;
    v.saturated = (double)s->n_outside / (double)s->n;
    if (s->xx > 0)
        v.relative = sqrt(s->ee / s->xx);
    if (norms > 0)
        v.cosine = fmin(fmax(s->xy / norms, -1), 1);
    if (s->xx > 0 && s->ee > 0)
        v.sqnr_db = 10 * log10(s->xx / s->ee);
    return v;
}

/* Is the error of a larger than that of b? Of equals the first in the file comes first. */
static bool is_worse(const fy_quant_tensor *a, const fy_quant_tensor *b)
{
    const double x = fy_quant_numbers_of(&a->sums).relative,
                 y = fy_quant_numbers_of(&b->sums).relative;
    return x > y;
}

size_t fy_quant_report_worst(const fy_quant_report *r, const fy_quant_tensor *worst[], size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < r->n_tensors; i++) {
        const fy_quant_tensor *t = &r->tensors[i];
        if (!(fy_quant_numbers_of(&t->sums).relative > 0))
            continue;
        size_t at = found;
        while (at > 0 && is_worse(t, worst[at - 1]))
            at--;
        if (at == n)
            continue;
        found += found < n;
        memmove(&worst[at + 1], &worst[at], (found - 1 - at) * sizeof *worst);
        worst[at] = t;
    }
    return found;
}
