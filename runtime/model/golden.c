/* A golden file (docs/golden.md) against what a session computes. */
#include "model/golden.h"

#include <math.h>
#include <stdlib.h>

#include "base/math.h"
#include "format/safetensors.h"
#include "model/sample.h"

struct fy_golden {
    fy_st *file;          /* owned */
    const fy_hparams *hp; /* view */
    int32_t *ids;         /* owned, [n_ids] */
    uint32_t n_ids;
    int32_t *greedy; /* owned, [n_greedy]; NULL: none */
    uint32_t n_greedy;
    const fy_st_tensor *logits; /* view of file, of the last n_rows positions; NULL: none */
    uint32_t n_rows;
    const fy_st_tensor *places[FY_GOLDEN_PER_LAYER]; /* views of file; NULL: none */
};

/* --- reading -------------------------------------------------------------------------------- */

static void put_shape(fy_str *s, const uint64_t *shape, uint32_t rank)
{
    fy_str_putc(s, '[');
    for (uint32_t i = 0; i < rank; i++)
        fy_str_printf(s, "%s%llu", i > 0 ? ", " : "", (unsigned long long)shape[i]);
    fy_str_putc(s, ']');
}

/* A tensor that must be F32 of the given shape, where a 0 stands for any length from 1 to max. NULL
 * when absent. */
static int find_floats(const fy_golden *g, const char *name, const uint64_t *want, uint32_t rank,
                       uint64_t max, const fy_st_tensor **out, fy_err *e)
{
    const fy_st_tensor *t = fy_st_find(g->file, fy_span_of(name));
    *out = t;
    if (t == NULL)
        return 0;
    if (t->dtype != FY_DT_F32)
        return fy_fail(e, FY_EFORMAT, "tensor '%s' is %s, expected F32", name,
                       fy_dtype_name(t->dtype));
    bool fits = t->rank == rank;
    for (uint32_t i = 0; i < rank && fits; i++)
        fits = want[i] != 0 ? t->shape[i] == want[i] : t->shape[i] >= 1 && t->shape[i] <= max;
    if (fits)
        return 0;
    fy_str s = {0};
    put_shape(&s, t->shape, t->rank);
    fy_str_puts(&s, ", but the model and input_ids ask for ");
    put_shape(&s, want, rank);
    fy_fail(e, FY_EFORMAT, "tensor '%s' has shape %s%s", name, fy_str_z(&s),
            rank > 0 && want[0] == 0 ? " (0: at most as many as input_ids)" : "");
    fy_str_release(&s);
    return -1;
}

static int read_ids(const fy_golden *g, const char *name, int32_t **out, uint32_t *n, fy_err *e)
{
    const fy_st_tensor *t = fy_st_find(g->file, fy_span_of(name));
    if (t == NULL)
        return 0;
    bool wide = t->dtype == FY_DT_I64;
    if (!wide && t->dtype != FY_DT_I32)
        return fy_fail(e, FY_EFORMAT, "tensor '%s' is %s, expected I32 or I64", name,
                       fy_dtype_name(t->dtype));
    if (t->rank != 1 || t->shape[0] < 1 || t->shape[0] > INT32_MAX / 4)
        return fy_fail(e, FY_EFORMAT, "tensor '%s' has rank %u, expected a list of at least one id",
                       name, t->rank);
    int32_t *ids = malloc((size_t)t->shape[0] * sizeof *ids);
    if (ids == NULL)
        return fy_nomem(e);
    *out = ids;
    *n = (uint32_t)t->shape[0];
    for (uint32_t i = 0; i < *n; i++) {
        int64_t id = wide ? (int64_t)fy_le64(t->data + (size_t)i * 8)
                          : (int32_t)fy_le32(t->data + (size_t)i * 4);
        if (id < 0 || id >= g->hp->n_vocab)
            return fy_fail(e, FY_EFORMAT,
                           "tensor '%s' holds id %lld, but the model's ids are 0 to %u", name,
                           (long long)id, g->hp->n_vocab - 1);
        ids[i] = (int32_t)id;
    }
    return 0;
}

static int read_all(fy_golden *g, fy_err *e)
{
    if (read_ids(g, "input_ids", &g->ids, &g->n_ids, e) != 0 ||
        read_ids(g, "greedy_ids", &g->greedy, &g->n_greedy, e) != 0)
        return -1;
    if (g->ids == NULL)
        return fy_fail(e, FY_EFORMAT, "tensor 'input_ids' is missing: this is not a golden file");
    const fy_hparams *hp = g->hp;
    const uint64_t T = g->n_ids, all[] = {T, hp->n_vocab}, tail[] = {0, hp->n_vocab};
    const uint64_t hidden[] = {(uint64_t)hp->n_layer + 1, T, hp->n_embd};
    const uint64_t keys[] = {hp->n_layer, hp->n_head_kv, T, hp->head_dim};
    const uint64_t values[] = {hp->n_layer, hp->n_head_kv, T, hp->head_dim_v};
    const fy_st_tensor **place = g->places;
    if (find_floats(g, "logits", all, 2, 0, &g->logits, e) != 0 ||
        find_floats(g, "hidden", hidden, 3, 0, &place[FY_GOLDEN_HIDDEN], e) != 0 ||
        find_floats(g, "keys", keys, 4, 0, &place[FY_GOLDEN_KEYS], e) != 0 ||
        find_floats(g, "values", values, 4, 0, &place[FY_GOLDEN_VALUES], e) != 0 ||
        (g->logits == NULL && find_floats(g, "logits_tail", tail, 2, T, &g->logits, e) != 0))
        return -1;
    if (g->logits == NULL && g->greedy == NULL && place[FY_GOLDEN_HIDDEN] == NULL &&
        place[FY_GOLDEN_KEYS] == NULL && place[FY_GOLDEN_VALUES] == NULL)
        return fy_fail(e, FY_EFORMAT,
                       "nothing to compare: expected a tensor logits, logits_tail, hidden, keys, "
                       "values or greedy_ids");
    g->n_rows = g->logits != NULL ? (uint32_t)g->logits->shape[0] : 0;
    return 0;
}

fy_golden *fy_golden_open(const char *path, const fy_hparams *hp, fy_err *e)
{
    fy_golden *g = calloc(1, sizeof *g);
    if (g == NULL) {
        fy_nomem(e);
        return NULL;
    }
    g->hp = hp;
    g->file = fy_st_open(path, e);
    if (g->file != NULL && read_all(g, e) == 0)
        return g;
    if (g->file != NULL)
        fy_ctx(e, "%s", path);
    fy_golden_close(g);
    return NULL;
}

void fy_golden_close(fy_golden *g)
{
    if (g == NULL)
        return;
    fy_st_close(g->file);
    free(g->ids);
    free(g->greedy);
    free(g);
}

uint32_t fy_golden_n_tokens(const fy_golden *g)
{
    return g->n_ids;
}

uint32_t fy_golden_n_ctx(const fy_golden *g)
{
    return g->n_ids + g->n_greedy - (g->n_greedy > 0); /* the last id is only compared */
}

/* --- comparing ------------------------------------------------------------------------------ */

bool fy_difference_seen(const fy_difference *d)
{
    return d->largest > 0 || d->max_diff > 0;
}

double fy_difference_max(const fy_difference *d)
{
    return d->max_diff > 0 ? d->max_diff / d->largest : 0;
}

double fy_difference_rms(const fy_difference *d)
{
    return d->sum_diff2 > 0 ? sqrt(d->sum_diff2 / d->sum_golden2) : 0;
}

double fy_difference_rms_but_worst(const fy_difference *d)
{
    double rest = d->sum_diff2 - d->worst_diff2;
    return rest > 0 ? sqrt(rest / d->sum_golden2) : 0;
}

/* One position (or a batch, of hidden states). golden: n floats of the file, at any alignment. */
static void add_difference(fy_difference *d, const float *ours, const uint8_t *golden, size_t n)
{
    double before = d->sum_diff2;
    for (size_t i = 0; i < n; i++) {
        double want = (double)fy_lef32(golden + 4 * i), diff = fabs((double)ours[i] - want);
        if (!isfinite(diff))
            diff = INFINITY;
        d->max_diff = fmax(d->max_diff, diff);
        d->largest = fmax(d->largest, fabs(want));
        d->sum_diff2 += diff * diff;
        d->sum_golden2 += want * want;
    }
    d->worst_diff2 = fmax(d->worst_diff2, d->sum_diff2 - before);
}

static bool same_top(const float *ours, const uint8_t *golden, uint32_t n)
{
    uint32_t a = 0, b = 0;
    for (uint32_t i = 1; i < n; i++) {
        a = ours[i] > ours[a] ? i : a;
        b = fy_lef32(golden + 4 * (size_t)i) > fy_lef32(golden + 4 * (size_t)b) ? i : b;
    }
    return a == b;
}

typedef struct {
    const fy_golden *g;
    fy_golden_report *r;
} comparison;

static int see_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)e;
    const comparison *c = user;
    const fy_golden *g = c->g;
    const uint32_t first = g->n_ids - g->n_rows;
    for (uint32_t i = 0; i < n; i++) {
        if (pos + i < first)
            continue;
        const size_t n_vocab = g->hp->n_vocab;
        const float *ours = logits + i * n_vocab;
        const uint8_t *golden =
            g->logits->data + (size_t)(pos + i - first) * n_vocab * sizeof(float);
        add_difference(&c->r->logits, ours, golden, n_vocab);
        c->r->n_top1 += same_top(ours, golden, g->hp->n_vocab);
    }
    return 0;
}

static int see_hidden(void *user, uint32_t layer, const float *x, uint32_t pos, uint32_t n,
                      fy_err *e)
{
    (void)e;
    const comparison *c = user;
    const fy_golden *g = c->g;
    size_t at = ((size_t)layer * g->n_ids + pos) * g->hp->n_embd;
    add_difference(&c->r->places[layer * FY_GOLDEN_PER_LAYER + FY_GOLDEN_HIDDEN], x,
                   g->places[FY_GOLDEN_HIDDEN]->data + at * sizeof(float),
                   (size_t)n * g->hp->n_embd);
    return 0;
}

/* place: FY_GOLDEN_KEYS or FY_GOLDEN_VALUES. */
static int compare_cached(const fy_golden *g, const fy_session *s, int place, fy_golden_report *r,
                          fy_err *e)
{
    const bool values = place == FY_GOLDEN_VALUES;
    const size_t n = (size_t)g->n_ids * (values ? g->hp->head_dim_v : g->hp->head_dim);
    const uint32_t heads = g->hp->n_head_kv;
    if (g->places[place] == NULL)
        return 0;
    const uint8_t *golden = g->places[place]->data;
    float *ours = malloc(n * sizeof *ours);
    int rc = ours != NULL ? 0 : fy_nomem(e);
    for (uint32_t i = 0; rc == 0 && i < g->hp->n_layer * heads; i++, golden += n * sizeof *ours) {
        fy_difference *d = &r->places[i / heads * FY_GOLDEN_PER_LAYER + (uint32_t)place];
        rc = fy_session_cached(s, i / heads, i % heads, values, g->n_ids, ours, e);
        if (rc == 0)
            add_difference(d, ours, golden, n);
    }
    free(ours);
    return rc;
}

/* Follows the argmax for as long as it is the golden one. */
static int compare_greedy(const fy_golden *g, fy_session *s, const float *logits,
                          fy_golden_report *r, fy_err *e)
{
    fy_sampler *sampler = fy_sampler_new(&(fy_sampler_params){0}, g->hp->n_vocab, NULL, e);
    if (sampler == NULL)
        return -1;
    r->n_greedy = g->n_greedy;
    int rc = 0;
    for (uint32_t i = 0; i < g->n_greedy && rc == 0; i++) {
        r->expected = g->greedy[i];
        r->found = fy_sampler_next(sampler, logits, false, NULL); /* -1: every logit is NaN */
        if (r->found != r->expected)
            break;
        r->n_equal++;
        if (i + 1 < g->n_greedy)
            rc = fy_session_eval(s, &r->found, 1, NULL, &logits, e);
    }
    fy_sampler_free(sampler);
    return rc;
}

static bool is_within(const fy_difference *d, double tolerance)
{
    return fy_difference_max(d) <= tolerance;
}

static void judge(fy_golden_report *r, double tolerance)
{
    r->first_wrong = -1;
    for (uint32_t i = r->n_places; i-- > 0;) {
        if (!is_within(&r->places[i], tolerance))
            r->first_wrong = i;
    }
    r->within = is_within(&r->logits, tolerance) && r->first_wrong < 0 && r->n_equal == r->n_greedy;
}

int fy_golden_compare(const fy_golden *g, fy_session *s, double tolerance, fy_golden_report *out,
                      fy_err *e)
{
    fy_golden_report r = {.n_rows = g->n_rows,
                          .n_places = FY_GOLDEN_PER_LAYER * g->hp->n_layer + 1};
    r.places = calloc(r.n_places, sizeof *r.places);
    if (r.places == NULL)
        return fy_nomem(e);
    comparison c = {g, &r};
    fy_eval_sinks sinks = {.logits = g->logits != NULL ? see_logits : NULL,
                           .hidden = g->places[FY_GOLDEN_HIDDEN] != NULL ? see_hidden : NULL,
                           .user = &c};
    const float *last;
    fy_session_rewind(s, 0);
    if (fy_session_eval(s, g->ids, g->n_ids, &sinks, &last, e) != 0 ||
        compare_cached(g, s, FY_GOLDEN_KEYS, &r, e) != 0 ||
        compare_cached(g, s, FY_GOLDEN_VALUES, &r, e) != 0 ||
        (g->greedy != NULL && compare_greedy(g, s, last, &r, e) != 0)) {
        fy_golden_report_release(&r);
        return -1;
    }
    judge(&r, tolerance);
    *out = r;
    return 0;
}

void fy_golden_report_release(fy_golden_report *r)
{
    free(r->places);
    r->places = NULL;
}
