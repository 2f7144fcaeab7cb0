/* Split files and counts of neurons: whatever the bytes are, they are refused, or hot neurons are
 * ascending and inside their layer, and counts are finite and at least 0. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "format/neuron_counts.h"
#include "format/neuron_split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_split(const fy_neuron_split *s)
{
    require(s->n_layer > 0);
    for (uint32_t l = 0; l < s->n_layer; l++) {
        const fy_layer_split *x = &s->layers[l];
        require(x->n_hot <= x->n);
        for (uint64_t i = 0; i < x->n_hot; i++) {
            require(x->hot[i] >= 0 && (uint64_t)x->hot[i] < x->n);
            require(i == 0 || x->hot[i] > x->hot[i - 1]);
        }
    }
}

static void check_counts(const fy_neuron_counts *c)
{
    for (uint32_t l = 0; l < c->n_layer; l++) {
        for (uint64_t i = 0; i < c->layers[l].n; i++)
            require(isfinite(c->layers[l].of[i]) && c->layers[l].of[i] >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0}, e2 = {0};
    fy_neuron_split s;
    fy_neuron_counts c;
    if (fy_neuron_split_parse(&s, data, size, "f", &e) == 0)
        check_split(&s);
    require((s.layers == NULL) == (e.code != FY_OK));
    fy_neuron_split_release(&s);
    if (fy_neuron_counts_parse(&c, data, size, "f", &e2) == 0)
        check_counts(&c);
    require((c.layers == NULL) == (e2.code != FY_OK));
    fy_neuron_counts_release(&c);
    return 0;
}
