/* Counts for how many tokens of a session each neuron's gate (where there is none, its value) is
 * above the activation's threshold, 0 but for FATReLU: format/neuron_counts.h.
 *
 * The session has to compute all neurons (FY_SPARSE_OFF). Every token counts that a layer computes:
 * ask for the logits of all, or the last layer is computed for some only. Counts are whole numbers:
 * they depend neither on the threads nor on the batch, and those of parts of a text add up. */
#ifndef FY_MODEL_NEURON_COUNT_H
#define FY_MODEL_NEURON_COUNT_H

#include "format/neuron_counts.h"
#include "model/model.h"

/* Zeros for every layer. FY_EUNSUPPORTED for a model whose activations are hardly ever 0, and for
 * one of experts alone. Release in every case. */
int fy_neuron_counts_of_model(fy_neuron_counts *c, const fy_model *m, fy_err *e);
/* From now on the session's tokens are counted in c; NULL: no more. FY_EUNSUPPORTED for a model
 * that was cut, whose graphs do not show their neurons. */
int fy_session_count_neurons(fy_session *s, fy_neuron_counts *c, fy_err *e);

#endif
