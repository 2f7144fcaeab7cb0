/* The choice of hot neurons.
 *
 * All neurons cost the same, so of k groups of a layer the k most active ones are best, and a
 * layer is a list of values: that of its best k groups, for each k. Which k each layer gets is a
 * knapsack with one choice per layer, over whole units of capacity; dynamic programming over
 * (layer, units left) tries every k and is exact, with a least number, and with a last group that
 * is smaller, too. PowerInfer hands the same integer program to GLPK, for 30 seconds at most. */
#include "workspace/npu/hot_neurons.h"

#include <stdlib.h>

#include "base/math.h"

/* Cells of the table: 2 bytes each. */
#define MAX_CELLS (UINT64_C(1) << 31)

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t n_groups(uint64_t n)
{
    return n / FY_HOT_GROUP + (n % FY_HOT_GROUP != 0);
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* What the best k groups are worth: [n_groups + 1]. The caller frees; NULL: out of memory. */
static double *values_of(const fy_layer_counts *l)
{
    const uint64_t n = n_groups(l->n);
    double *value = calloc((size_t)n + 1, sizeof *value);
    double *sorted = malloc(((size_t)l->n + 1) * sizeof *sorted);
    if (value != NULL && sorted != NULL) {
        for (uint64_t i = 0; i < l->n; i++)
            sorted[i] = l->of[i];
        qsort(sorted, (size_t)l->n, sizeof *sorted, descending);
        for (uint64_t i = 0; i < l->n; i++)
            value[i / FY_HOT_GROUP + 1] += sorted[i];
        for (uint64_t k = 0; k < n; k++)
            value[k + 1] += value[k];
    } else {
        free(value);
        value = NULL;
    }
    free(sorted);
    return value;
}

typedef struct {
    const fy_neuron_counts *c;
    uint64_t unit;        /* neurons: divides every group */
    uint64_t room;        /* units that there are */
    uint64_t least;       /* groups */
    uint16_t *choice;     /* owned, [n_layer][room + 1]: groups of the layer when so much is left */
    double *now, *behind; /* owned, [room + 1]: what this layer and those after it are worth */
} solver;

/* From the last layer to the first. */
static int solve_layer(solver *s, uint32_t layer, fy_err *e)
{
    const fy_layer_counts *l = &s->c->layers[layer];
    double *value = values_of(l);
    if (value == NULL)
        return fy_nomem(e);
    for (uint64_t left = 0; left <= s->room; left++) {
        s->now[left] = s->behind[left];
        for (uint64_t k = s->least > 0 ? s->least : 1; k <= n_groups(l->n); k++) {
            const uint64_t cost = smaller(k * FY_HOT_GROUP, l->n) / s->unit;
            if (cost > left)
                break;
            const double sum = value[k] + s->behind[left - cost];
            if (sum < s->now[left])
                continue;
            s->now[left] = sum;
            s->choice[layer * (s->room + 1) + left] = (uint16_t)k;
        }
    }
    double *const swap = s->now;
    s->now = s->behind;
    s->behind = swap;
    free(value);
    return 0;
}

static int make_room(solver *s, uint64_t capacity, fy_err *e)
{
    uint64_t total = 0, cells;
    s->unit = FY_HOT_GROUP;
    for (uint32_t l = 0; l < s->c->n_layer; l++) {
        const uint64_t n = s->c->layers[l].n;
        s->unit = n > 0 ? divisor(s->unit, n) : s->unit;
        if (n_groups(n) > UINT16_MAX || !fy_add_u64(total, n, &total))
            return fy_fail(e, FY_EFIT, "layer %u: %llu neurons are too many to plan", l,
                           (unsigned long long)n);
    }
    s->room = smaller(capacity, total) / s->unit;
    if (!fy_mul_u64(s->room + 1, s->c->n_layer, &cells) || cells > MAX_CELLS)
        return fy_fail(e, FY_EFIT,
                       "%u layers and %llu neurons in units of %llu are too many to plan",
                       s->c->n_layer, (unsigned long long)total, (unsigned long long)s->unit);
    s->choice = calloc((size_t)cells + 1, sizeof *s->choice);
    s->now = calloc((size_t)s->room + 1, sizeof *s->now);
    s->behind = calloc((size_t)s->room + 1, sizeof *s->behind);
    return s->choice != NULL && s->now != NULL && s->behind != NULL ? 0 : fy_nomem(e);
}

int fy_hot_solve(const fy_neuron_counts *c, uint64_t capacity, uint64_t least, uint64_t *n_hot,
                 fy_err *e)
{
    solver s = {.c = c, .least = least / FY_HOT_GROUP};
    int rc = make_room(&s, capacity, e);
    for (uint32_t l = c->n_layer; rc == 0 && l-- > 0;)
        rc = solve_layer(&s, l, e);
    uint64_t left = s.room;
    for (uint32_t l = 0; rc == 0 && l < c->n_layer; l++) {
        const uint64_t k = s.choice[l * (s.room + 1) + left];
        n_hot[l] = smaller(k * FY_HOT_GROUP, c->layers[l].n);
        left -= n_hot[l] / s.unit;
    }
    free(s.choice);
    free(s.now);
    free(s.behind);
    return rc;
}

/* --- the neurons ------------------------------------------------------------------------------ */

typedef struct {
    double count;
    int32_t id;
} neuron;

static int hotter(const void *a, const void *b)
{
    const neuron *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int ascending(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

int fy_hot_split(const fy_neuron_counts *c, const uint64_t *n_hot, fy_neuron_split *out, fy_err *e)
{
    int rc = fy_neuron_split_init(out, c->n_layer, e);
    for (uint32_t l = 0; rc == 0 && l < c->n_layer; l++) {
        const fy_layer_counts *counts = &c->layers[l];
        neuron *all = malloc(((size_t)counts->n + 1) * sizeof *all);
        if (all == NULL || fy_neuron_split_add_layer(out, l, counts->n, n_hot[l], e) != 0) {
            rc = all == NULL ? fy_nomem(e) : -1;
            free(all);
            break;
        }
        for (uint64_t i = 0; i < counts->n; i++)
            all[i] = (neuron){counts->of[i], (int32_t)i};
        qsort(all, (size_t)counts->n, sizeof *all, hotter);
        for (uint64_t i = 0; i < n_hot[l]; i++)
            out->layers[l].hot[i] = all[i].id;
        qsort(out->layers[l].hot, (size_t)n_hot[l], sizeof(int32_t), ascending);
        free(all);
    }
    return rc;
}
