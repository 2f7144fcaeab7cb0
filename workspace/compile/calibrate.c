/* Calibration: a session on the float device, watched node by node. */
#include "workspace/compile/calibrate.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "cli/cut_model.h"
#include "workspace/compile/graph_float.h"
#include "workspace/compile/qinputs.h"

typedef struct {
    fy_q_ranges *ranges; /* owned */
    uint32_t position;   /* of the batch's first token in its context */
    bool is_preset;      /* nothing of it is recorded */
    bool samples;        /* keeps inputs */
    fy_q_sampler sampler;
} recorder;

typedef struct {
    float min, max; /* min > max: nothing is seen */
    bool finite;
} extent;

enum { LANES = 8 };

typedef struct {
    float min[LANES], max[LANES], zero[LANES]; /* zero: a NaN after a value that is not finite */
} lanes;

/* Of n <= LANES values, where the mask shows; mask NULL: of all. */
static inline void look(lanes *x, const float *v, const float *mask, uint32_t n)
{
    for (uint32_t l = 0; l < n; l++) {
        const bool shows = mask == NULL || mask[l] == 0;
        x->min[l] = shows && v[l] < x->min[l] ? v[l] : x->min[l];
        x->max[l] = shows && v[l] > x->max[l] ? v[l] : x->max[l];
        x->zero[l] += shows ? v[l] * 0 : 0;
    }
}

/* Of a row's values. Lanes, since a compiler makes vectors of them. */
static extent extent_of(const float *v, const float *mask, uint32_t n)
{
    extent all = {INFINITY, -INFINITY, true};
    lanes x = {.zero = {0}};
    for (int l = 0; l < LANES; l++) {
        x.min[l] = INFINITY;
        x.max[l] = -INFINITY;
    }
    const uint32_t whole = n / LANES * LANES;
    for (uint32_t i = 0; mask == NULL && i < whole; i += LANES)
        look(&x, v + i, NULL, LANES);
    for (uint32_t i = 0; mask != NULL && i < whole; i += LANES)
        look(&x, v + i, mask + i, LANES);
    look(&x, v + whole, mask != NULL ? mask + whole : NULL, n - whole);
    for (int l = 0; l < LANES; l++) {
        all.min = x.min[l] < all.min ? x.min[l] : all.min;
        all.max = x.max[l] > all.max ? x.max[l] : all.max;
        all.finite &= x.zero[l] == 0;
    }
    return all;
}

typedef struct {
    const float *v, *mask; /* [rows][cols]; mask may be NULL */
    uint32_t rows, cols;
    extent *row;     /* [rows] */
    double *squares; /* [cols] */
} look_job;

static void look_at_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const look_job *j = ctx;
    (void)thread;
    for (size_t i = (size_t)begin; i < (size_t)end; i++)
        j->row[i] =
            extent_of(j->v + i * j->cols, j->mask != NULL ? j->mask + i * j->cols : NULL, j->cols);
}

static void add_squares(void *ctx, int64_t begin, int64_t end, int thread)
{
    const look_job *j = ctx;
    (void)thread;
    for (uint32_t i = 0; i < j->rows; i++) {
        const float *v = j->v + (size_t)i * j->cols;
        for (int64_t k = begin; k < end; k++)
            j->squares[k] += (double)v[k] * (double)v[k];
    }
}

static void widen(float *min, float *max, extent by)
{
    *min = by.min < *min ? by.min : *min;
    *max = by.max > *max ? by.max : *max;
}

/* Does the node make values of its own? The others have the range of what they move. */
static bool makes_values(const fy_qgraph *g, const fy_q_node *n)
{
    const fy_q_tensor *y = &g->tensors[n->out];
    return y->range != FY_Q_NONE && y->class != FY_QC_MASKED && n->op != FY_Q_RESHAPE &&
           n->op != FY_Q_CONCAT && n->op != FY_Q_SLICE && n->op != FY_Q_TRANSPOSE;
}

static int record_range(recorder *to, const fy_qfloat *f, uint32_t tensor, fy_err *e)
{
    const fy_qgraph *g = fy_qfloat_graph(f);
    const fy_q_tensor *t = &g->tensors[tensor];
    look_job j = {.v = fy_qfloat_values(f, tensor),
                  .mask = t->class == FY_QC_SCORE ? fy_qfloat_values(f, t->mask) : NULL,
                  .rows = fy_q_rows(t),
                  .cols = fy_q_cols(t)};
    fy_q_range *r = fy_q_ranges_add(to->ranges, g->ranges[t->range].name, e);
    if (r == NULL)
        return -1;
    j.row = malloc(j.rows * sizeof *j.row);
    if (j.row == NULL)
        return fy_nomem(e);
    fy_pool_run(fy_qfloat_pool(f), j.rows, 8, look_at_rows, &j);
    bool finite = true;
    for (uint32_t i = 0; i < j.rows; i++) {
        finite &= j.row[i].finite;
        widen(&r->min, &r->max, j.row[i]);
        if (to->position + i > 0)
            widen(&r->rest_min, &r->rest_max, j.row[i]);
    }
    free(j.row);
    return finite ? 0
                  : fy_fail(e, FY_EFORMAT, "calibration: a value of %s is not finite",
                            g->ranges[t->range].name);
}

/* All heads of a matrix read the same. */
static int record_inputs(recorder *to, const fy_qfloat *f, const fy_q_node *n, fy_err *e)
{
    const fy_qgraph *g = fy_qfloat_graph(f);
    const fy_q_tensor *x = &g->tensors[n->in[0]];
    const fy_q_static *from = &g->tensors[n->in[1]].from;
    look_job j = {.v = fy_qfloat_values(f, n->in[0]), .rows = fy_q_rows(x), .cols = fy_q_cols(x)};
    char name[FY_Q_MATRIX_NAME];
    if (from->hadamard || from->first != 0)
        return 0;
    j.squares = fy_q_ranges_squares(to->ranges, fy_qgraph_matrix_name(from, name), j.cols, e);
    if (j.squares == NULL ||
        (to->samples &&
         fy_q_sampler_add(&to->sampler, g->ranges[x->range].name, *fy_q_ranges_tokens(to->ranges),
                          j.v, j.rows, j.cols, e) != 0))
        return -1;
    fy_pool_run(fy_qfloat_pool(f), j.cols, 256, add_squares, &j);
    return 0;
}

static int record(void *user, const fy_qfloat *f, const fy_q_node *n, fy_err *e)
{
    recorder *to = user;
    const fy_qgraph *g = fy_qfloat_graph(f);
    if (to->is_preset)
        return 0;
    if (n->op == FY_Q_CONV && record_inputs(to, f, n, e) != 0)
        return -1;
    return makes_values(g, n) ? record_range(to, f, n->out, e) : 0;
}

/* The logits of all tokens are computed, since the lm_head has ranges too. */
static int ignore(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)user, (void)logits, (void)first, (void)n, (void)e;
    return 0;
}

static int run_ids(fy_session *s, recorder *to, const fy_ids *preset, const int32_t *ids, size_t n,
                   uint32_t batch, fy_err *e)
{
    to->is_preset = true;
    if (preset->n > 0 && fy_session_eval(s, preset->id, (uint32_t)preset->n, NULL, NULL, e) != 0)
        return -1;
    to->is_preset = false;
    *fy_q_ranges_preset(to->ranges) = preset->n;
    const fy_eval_sinks sinks = {.logits = ignore};
    for (size_t i = 0; i + batch <= n; i += batch) {
        if (fy_session_n_past(s) + batch > fy_session_n_ctx(s))
            fy_session_rewind(s, (uint32_t)preset->n);
        to->position = fy_session_n_past(s);
        if (fy_session_eval(s, ids + i, batch, &sinks, NULL, e) != 0)
            return -1;
        *fy_q_ranges_tokens(to->ranges) += batch;
    }
    return 0;
}

static int calibrate(const fy_calibration *c, fy_model *m, uint32_t batch, recorder *to, fy_err *e)
{
    const fy_session_params p = {.n_ctx = fy_model_max_ctx(m),
                                 .n_logits = batch,
                                 .n_threads = c->n_threads,
                                 .type_k = FY_F32,
                                 .type_v = FY_F32};
    if (c->n_ids < batch)
        return fy_fail(e, FY_EARG, "has %zu tokens, calibration wants %u at least", c->n_ids,
                       batch);
    fy_session *s = fy_session_new(m, &p, e);
    fy_q_sampler_init(&to->sampler, c->n_ids / batch * batch);
    int rc = s != NULL ? run_ids(s, to, c->preset, c->ids, c->n_ids, batch, e) : -1;
    if (rc == 0 && c->inputs != NULL)
        rc = fy_q_sampler_write(&to->sampler, fy_q_ranges_model(to->ranges), c->inputs, e);
    fy_q_sampler_release(&to->sampler);
    fy_session_free(s);
    return rc;
}

int fy_q_calibrate(const fy_calibration *c, fy_q_ranges **out, fy_err *e)
{
    const fy_map_options map = {0};
    recorder to = {.samples = c->inputs != NULL};
    const fy_graph_float_options o = {
        .recipe = c->recipe, .rope_nodes = true, .watch = record, .user = &to};
    fy_qnn_config config;
    if (fy_cut_config_read(c->qnn, &config, e) != 0)
        return -1;
    to.ranges = fy_q_ranges_new(config.own.model, e);
    fy_model *m = to.ranges != NULL ? fy_model_open_chunk(c->weights, &map, e) : NULL;
    fy_graph_device *device = m != NULL ? fy_graph_float_open(&map, &o, e) : NULL;
    int rc = device != NULL ? fy_model_add_graphs(m, c->qnn, device, FY_PRESET_AUTO, e) : -1;
    if (rc == 0)
        rc = calibrate(c, m, config.max_batch, &to, e);
    fy_model_close(m);
    fy_qnn_config_release(&config);
    if (rc == 0) {
        fy_q_ranges_mean(to.ranges);
        *out = to.ranges;
    } else {
        fy_q_ranges_free(to.ranges);
    }
    return rc;
}

size_t fy_q_massive(const fy_q_ranges *r, const char **name)
{
    size_t n = 0;
    double widest = 0;
    for (size_t i = 0; i < fy_q_ranges_n(r); i++) {
        const fy_q_range *one = fy_q_ranges_at(r, i);
        const double all = fmax(fabs((double)one->min), fabs((double)one->max));
        const double rest = fmax(fabs((double)one->rest_min), fabs((double)one->rest_max));
        if (!isfinite(rest) || rest == 0 || all < 16 * rest)
            continue;
        n++;
        if (all / rest > widest) {
            widest = all / rest;
            *name = fy_q_ranges_name(r, i);
        }
    }
    return n;
}
