/* Counts active neurons where the gate's product is complete. */
#include "model/neuron_count.h"

#include "model/session.h"

int fy_neuron_counts_of_model(fy_neuron_counts *c, const fy_model *m, fy_err *e)
{
    uint64_t found = 0;
    const bool gated = fy_row_of_slot(m->family, FY_T_FFN_GATE) != NULL;
    if (!fy_act_makes_zeros(m->hp.act, gated))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the activation of this model is %s: its neurons are hardly ever exactly 0, "
                       "so there is nothing to count",
                       fy_act_name(m->hp.act));
    if (fy_neuron_counts_init(c, m->hp.n_layer, e) != 0)
        return -1;
    for (uint32_t l = m->chunk.first_layer; l < m->chunk.end_layer; l++) {
        const fy_weights *w = fy_layer_at(m, l);
        if (!fy_bound(w, FY_T_FFN_UP) || fy_bound(w, FY_T_FFN_ROUTER))
            continue;
        if (fy_neuron_counts_add_layer(c, l, (uint64_t)w->w[FY_T_FFN_UP].n_rows, e) != 0)
            return -1;
        found += c->layers[l].n;
    }
    return found > 0 ? 0
                     : fy_fail(e, FY_EUNSUPPORTED,
                               "neurons of experts are not counted, and the model has no others");
}

static void watch(void *user, const fy_hparams *hp, uint32_t layer, const float *gate, uint32_t n)
{
    fy_neuron_counts *c = user;
    const fy_layer_counts *l = &c->layers[layer];
    const float threshold = hp->act == FY_ACT_FATRELU ? hp->act_threshold : 0;
    for (uint32_t t = 0; t < n; t++) {
        for (uint64_t i = 0; i < l->n; i++)
            l->of[i] += gate[t * l->n + i] > threshold;
    }
    uint32_t first = 0; /* one layer counts the tokens */
    while (c->layers[first].n == 0)
        first++;
    c->n_tokens += layer == first ? n : 0;
}

int fy_session_count_neurons(fy_session *s, fy_neuron_counts *c, fy_err *e)
{
    if (s->chain != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the graphs of a cut model do not show their neurons: use the whole model "
                       "(--backend cpu)");
    s->d.gates = c != NULL ? watch : NULL;
    s->d.gates_user = c;
    return 0;
}
