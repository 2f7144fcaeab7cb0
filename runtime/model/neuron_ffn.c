/* Feed-forward networks of which a neuron is a row: of gate, of up, and of ffn_down_t, which is
 * down transposed. Some of them a GPU may compute.
 *
 *   gate first:   g = Wgate h;  the neurons with f(g) != 0;  u = those rows of Wup h
 *                 a = f(g) u;   y = the sum of a times those rows of down
 *   all of them:  a = f(Wgate h) * Wup h (or f(Wup h)); y = the sum over the neurons with a != 0
 *   predicted:    s = fc2 relu(fc1 x); either of both, of the neurons with s >= a threshold
 *
 * One token and many give the same bits: a row has one product, activations are computed element
 * by element, and a neuron that is 0, or not predicted, is not in the chain of any output
 * (kernels.h). With down as it usually is, only rows of gate and up are spared: zeros take the
 * others' places. */
#include <string.h>

#include "model/decoder.h"

/* Rows here and there cost more than rows one after the other; from so many of 100 on, all are
 * taken: where there is a kernel for lists, and where rows go one by one. */
enum { MOST_LISTED = 65, MOST_ONE_BY_ONE = 35 };

static bool is_predicted(const fy_decoder *d, const fy_weights *l)
{
    return d->sparse == FY_SPARSE_PREDICT && fy_bound(l, FY_T_FFN_PRED_1) &&
           fy_bound(l, FY_T_FFN_UP);
}

/* Does a token alone begin with the list of its neurons? */
static bool is_listed(const fy_decoder *d, const fy_weights *l, uint32_t n)
{
    return n == 1 &&
           (is_predicted(d, l) || (d->sparse != FY_SPARSE_OFF && fy_bound(l, FY_T_FFN_GATE) &&
                                   fy_act_makes_zeros(d->model->hp.act, true)));
}

bool fy_ffn_is_by_neuron(const fy_decoder *d, uint32_t layer, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    return fy_bound(l, FY_T_FFN_DOWN_T) ||
           (fy_bound(l, FY_T_FFN_DOWN) && (is_listed(d, l, n) || is_predicted(d, l)));
}

void fy_ffn_predict(fy_decoder *d, uint32_t layer, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    const fy_activation relu = {FY_ACT_RELU, 0};
    const fy_product p = {.w = &l->w[FY_T_FFN_PRED_1], .y = d->act.predictor};
    if (!is_predicted(d, l))
        return;
    fy_backend_matmul(d->backend, d->act.x, n, &p, 1);
    fy_backend_activate(d->backend, &relu, p.y, NULL, n, p.w->n_rows);
}

/* act.up [n][n_ff] = the scores of n tokens. */
static void score(fy_decoder *d, const fy_weights *l, uint32_t n)
{
    const fy_product p = {.w = &l->w[FY_T_FFN_PRED_2], .y = d->act.up};
    fy_backend_matmul(d->backend, d->act.predictor, n, &p, 1);
}

/* A GPU computes all of its neurons. */
static void count(fy_decoder *d, const fy_weights *l, uint32_t n_tokens, int64_t n_kept)
{
    const int64_t gpu = (int64_t)n_tokens * l->n_gpu;
    d->n_neurons += (uint64_t)(n_tokens * l->w[FY_T_FFN_UP].n_rows + gpu);
    d->n_kept += (uint64_t)(n_kept + gpu);
}

static bool pays(const fy_decoder *d, const fy_matrix *w, int64_t n_listed)
{
    const int64_t most = fy_backend_lists_rows(d->backend, w) ? MOST_LISTED : MOST_ONE_BY_ONE;
    return d->sparse == FY_SPARSE_EXACT || 100 * n_listed < most * w->n_rows;
}

/* p->y = the products of the rows that are listed, side by side. */
static void multiply_listed(fy_decoder *d, const float *h, const fy_product *p, const fy_neurons *a)
{
    if (pays(d, p->w, a->n))
        fy_backend_dot_rows(d->backend, h, p, a->id, a->n);
    else
        fy_backend_matmul(d->backend, h, 1, p, 1);
    for (int64_t i = 0; i < a->n; i++)
        p->y[i] = p->y[a->id[i]];
}

/* The activations of one token, and whose they are. */
static void list_neurons(fy_decoder *d, const fy_weights *l, const float *h, fy_neurons *a)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_activation f = {hp->act, hp->act_threshold};
    const bool gated = fy_bound(l, FY_T_FFN_GATE);
    float *const u = gated ? d->act.up : a->value;
    const fy_product gate = {.w = &l->w[FY_T_FFN_GATE],
                             .bias = fy_vector(l, FY_T_FFN_GATE_B),
                             .y = a->value},
                     up = {.w = &l->w[FY_T_FFN_UP], .bias = fy_vector(l, FY_T_FFN_UP_B), .y = u};
    if (is_predicted(d, l)) {
        score(d, l, 1);
        fy_neurons_predicted(a, d->act.up, up.w->n_rows, d->sparse_threshold);
        count(d, l, 1, a->n);
        if (gated)
            multiply_listed(d, h, &gate, a);
    } else {
        fy_backend_matmul(d->backend, h, 1, &gate, 1);
        fy_neurons_all(a, up.w->n_rows);
    }
    if (gated)
        fy_neurons_above(a, hp->act == FY_ACT_FATRELU ? hp->act_threshold : 0);
    multiply_listed(d, h, &up, a);
    fy_backend_activate(d->backend, &f, a->value, gated ? u : NULL, 1, a->n);
}

/* act.gate [n][n_ff] = the activations of n tokens. */
static void all_neurons(fy_decoder *d, uint32_t layer, const fy_weights *l, const float *h,
                        uint32_t n)
{
    const int64_t n_ff = l->w[FY_T_FFN_UP].n_rows;
    fy_gated_product(d, layer, l, h, n);
    if (!is_predicted(d, l))
        return;
    score(d, l, n);
    count(d, l, n,
          fy_backend_mask(d->backend, d->act.gate, d->act.up, d->sparse_threshold, n, n_ff));
}

/* Once act.gate has the activations, the lists may have the place of up; that of one token has its
 * own. */
static void list_all(fy_decoder *d, int64_t n_ff, uint32_t n)
{
    fy_activations *a = &d->act;
    for (uint32_t i = 0; i < n; i++)
        a->neurons[i] = (fy_neurons){
            a->gate + i * n_ff, n == 1 ? a->neuron : (int32_t *)(void *)a->up + i * n_ff, n_ff};
    fy_backend_list_neurons(d->backend, a->neurons, n);
}

static void cpu_ffn(fy_decoder *d, uint32_t layer, const float *h, uint32_t n, float *sum)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    const bool listed = is_listed(d, l, n), by_row = fy_bound(l, FY_T_FFN_DOWN_T);
    const int64_t n_ff = l->w[FY_T_FFN_UP].n_rows;
    fy_activations *a = &d->act;
    fy_neurons *one = &a->neurons[0];
    const fy_product down = {.w = &l->w[by_row ? FY_T_FFN_DOWN_T : FY_T_FFN_DOWN],
                             .bias = fy_vector(l, FY_T_FFN_DOWN_B),
                             .y = a->branch,
                             .sum = sum};
    if (listed) {
        *one = (fy_neurons){a->gate, a->neuron, 0};
        list_neurons(d, l, h, one);
    } else {
        all_neurons(d, layer, l, h, n);
    }
    if (by_row) {
        if (listed)
            fy_neurons_drop_zeros(one);
        else
            list_all(d, n_ff, n);
        fy_backend_add_rows(d->backend, a->neurons, n, &down);
        return;
    }
    if (listed) {
        memset(a->up, 0, (size_t)n_ff * sizeof *a->up);
        for (int64_t i = 0; i < one->n; i++)
            a->up[one->id[i]] = one->value[i];
    }
    fy_backend_matmul(d->backend, listed ? a->up : a->gate, n, &down, 1);
}

/* --- beside a GPU ----------------------------------------------------------------------------- */

/* Products with block weights take codes in place of h: the GPU gets what they stand for. */
static const float *gpu_input(fy_decoder *d, const fy_weights *l, const float *h, uint32_t n)
{
    const fy_matrix *up = &l->w[FY_T_FFN_UP];
    if (!fy_kernels_wants_q8(up->type))
        return h;
    fy_backend_round_q8(d->backend, d->act.gpu_x, h, n, up->n_cols);
    return d->act.gpu_x;
}

void fy_neuron_ffn(fy_decoder *d, uint32_t layer, const float *h, uint32_t n, float *sum)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_gpu *gpu = d->model->gpu;
    fy_activations *a = &d->act;
    const int64_t n_elems = (int64_t)n * d->model->hp.n_embd;
    if (l->n_gpu == 0) {
        cpu_ffn(d, layer, h, n, sum);
        return;
    }
    if (gpu->api->begin(gpu, layer, gpu_input(d, l, h, n), n, a->gpu_y, &d->gpu_failed) != 0)
        return;
    cpu_ffn(d, layer, h, n, NULL);
    if (gpu->api->end(gpu, &d->gpu_failed) != 0)
        return;
    fy_backend_add(d->backend, a->branch, a->gpu_y, 1, n_elems);
    if (sum != NULL)
        fy_backend_add(d->backend, sum, a->branch, 1, n_elems);
}
