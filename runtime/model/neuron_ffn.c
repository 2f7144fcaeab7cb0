/* Feed-forward networks of which a neuron is a row: of gate, of up, and of ffn_down_t, which is
 * down transposed.
 *
 *   gate first:   g = Wgate h;  the neurons with f(g) != 0;  u = those rows of Wup h
 *                 a = f(g) u;   y = the sum of a times those rows of down
 *   all of them:  a = f(Wgate h) * Wup h (or f(Wup h)); y = the sum over the neurons with a != 0
 *
 * Both give the same bits: a row of Wup has one product, activations are computed element by
 * element, and a neuron that is 0 is not in the chain of any output (kernels.h). With down as it
 * usually is, gate first spares the rows of up alone: zeros take the others' places. */
#include <string.h>

#include "model/decoder.h"

/* Rows here and there cost more than rows one after the other; from so many of 100 on, all are
 * taken: where there is a kernel for lists, and where rows go one by one. */
enum { MOST_LISTED = 65, MOST_ONE_BY_ONE = 35 };

static bool is_gate_first(const fy_decoder *d, const fy_weights *l, uint32_t n)
{
    return n == 1 && d->sparse != FY_SPARSE_OFF && fy_bound(l, FY_T_FFN_GATE) &&
           fy_act_makes_zeros(d->model->hp.act, true);
}

bool fy_ffn_is_by_neuron(const fy_decoder *d, uint32_t layer, uint32_t n)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    return fy_bound(l, FY_T_FFN_DOWN_T) || (fy_bound(l, FY_T_FFN_DOWN) && is_gate_first(d, l, n));
}

static bool pays(const fy_decoder *d, const fy_matrix *up, int64_t n_listed)
{
    const int64_t most = fy_backend_lists_rows(d->backend, up) ? MOST_LISTED : MOST_ONE_BY_ONE;
    return d->sparse == FY_SPARSE_EXACT || 100 * n_listed < most * up->n_rows;
}

/* Of one token. */
static void gate_first(fy_decoder *d, const fy_weights *l, const float *h, fy_neurons *a)
{
    const fy_hparams *hp = &d->model->hp;
    const fy_activation f = {hp->act, hp->act_threshold};
    const fy_matrix *w = &l->w[FY_T_FFN_UP];
    float *const u = d->act.up;
    const fy_product gate = {.w = &l->w[FY_T_FFN_GATE],
                             .bias = fy_vector(l, FY_T_FFN_GATE_B),
                             .y = d->act.gate},
                     up = {.w = w, .bias = fy_vector(l, FY_T_FFN_UP_B), .y = u};
    fy_backend_matmul(d->backend, h, 1, &gate, 1);
    fy_neurons_above(a, w->n_rows, hp->act == FY_ACT_FATRELU ? hp->act_threshold : 0);
    if (pays(d, w, a->n))
        fy_backend_dot_rows(d->backend, h, &up, a->id, a->n);
    else
        fy_backend_matmul(d->backend, h, 1, &up, 1);
    for (int64_t i = 0; i < a->n; i++)
        u[i] = u[a->id[i]];
    fy_backend_activate(d->backend, &f, a->value, u, 1, a->n);
}

/* Lists of n tokens. Once gate and up have been multiplied, the lists may have the place of up;
 * that of one token has its own. */
static void all_neurons(fy_decoder *d, uint32_t layer, const fy_weights *l, const float *h,
                        uint32_t n)
{
    const int64_t n_ff = l->w[FY_T_FFN_UP].n_rows;
    fy_activations *a = &d->act;
    fy_gated_product(d, layer, l, h, n);
    for (uint32_t i = 0; i < n; i++)
        a->neurons[i] = (fy_neurons){
            a->gate + i * n_ff, n == 1 ? a->neuron : (int32_t *)(void *)a->up + i * n_ff, n_ff};
    fy_backend_list_neurons(d->backend, a->neurons, n);
}

void fy_neuron_ffn(fy_decoder *d, uint32_t layer, const float *h, uint32_t n, float *sum)
{
    const fy_weights *l = fy_layer_at(d->model, layer);
    fy_activations *a = &d->act;
    fy_neurons *one = &a->neurons[0];
    fy_product down = {.w = &l->w[FY_T_FFN_DOWN_T],
                       .bias = fy_vector(l, FY_T_FFN_DOWN_B),
                       .y = a->branch,
                       .sum = sum};
    const bool first = is_gate_first(d, l, n);
    if (first) {
        *one = (fy_neurons){a->gate, a->neuron, 0};
        gate_first(d, l, h, one);
    } else {
        all_neurons(d, layer, l, h, n);
    }
    if (fy_bound(l, FY_T_FFN_DOWN_T)) {
        if (first)
            fy_neurons_drop_zeros(one);
        fy_backend_add_rows(d->backend, a->neurons, n, &down);
        return;
    }
    memset(a->up, 0, (size_t)l->w[FY_T_FFN_UP].n_rows * sizeof *a->up);
    for (int64_t i = 0; i < one->n; i++)
        a->up[one->id[i]] = one->value[i];
    down.w = &l->w[FY_T_FFN_DOWN];
    fy_backend_matmul(d->backend, a->up, 1, &down, 1);
}
