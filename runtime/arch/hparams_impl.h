/* What hparams.c and hparams_gguf.c share: the rows of the table as numbers and bytes. */
#ifndef FERRY_ARCH_HPARAMS_IMPL_H
#define FERRY_ARCH_HPARAMS_IMPL_H

#include "arch/arch.h"

#define FIELD(name) offsetof(fy_hparams, name)

enum { N_SCALINGS = FY_ROPE_SCALING_LONGROPE + 1 };
extern const char *const fy_scaling_names[N_SCALINGS];

bool fy_hp_is_layers(const fy_hparam_row *row);
size_t fy_hp_bytes(const fy_hparam_row *row);
/* The field as a number; 0 for a set of layers. */
double fy_hp_number(const fy_hparam_row *row, const fy_hparams *hp);
bool fy_hp_is_number(const fy_hparam_row *row); /* a whole one */
/* The layers of a set when neither a file nor config.json names them. */
fy_layer_set fy_hp_usual_layers(const fy_family *f, fy_hparam_kind kind, const fy_hparams *hp);

#endif
