/* Predictors of which neurons of a layer are not 0, as PowerInfer's models have them beside their
 * weights: model_0.pt, model_1.pt and so on, one file for each layer, each with
 *
 *   fc1.weight [rank, n_embd]  fc2.weight [n_ff, rank]   a neuron's score is fc2 relu(fc1 x)
 *
 * of which the rank may differ from layer to layer; and perhaps a config.json with
 * "sparse_threshold", the score below which a neuron is left out. TurboSparse-Mistral has them
 * among the weights, as model.layers.0.mlp.predictor.fc1.weight.
 * Source: PowerInfer, convert.py and convert-hf-to-powerinfer-gguf.py, and the former on its branch
 * convert-sparsemistral. */
#ifndef FY_CONVERT_PREDICTORS_H
#define FY_CONVERT_PREDICTORS_H

#include "convert/source/checkpoint.h"

/* Adds them to the tensors of the checkpoint, under the names that they have in a GGUF file,
 * blk.0.fc1.weight. hp: of the model, whose layers and shapes they must have. */
int fy_ckpt_add_predictors(fy_ckpt *c, const char *dir, const fy_hparams *hp, fy_err *e);
/* The same of those that are among its tensors: they change their names. */
int fy_ckpt_own_predictors(fy_ckpt *c, const fy_hparams *hp, fy_err *e);

/* 0: *out is what config.json says; 1: it says nothing, or there is none. */
int fy_predictor_threshold(const char *dir, float *out, fy_err *e);

#endif
