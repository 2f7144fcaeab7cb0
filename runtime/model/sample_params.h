/* What a sampler asks of its parameters. */
#ifndef FY_MODEL_SAMPLE_PARAMS_H
#define FY_MODEL_SAMPLE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/sample.h"

/* The parameters of the steps in p->order; those of steps left out are not looked at. */
int fy_sampler_check(const fy_sampler_params *p, uint32_t n_vocab, fy_err *e);
/* False when its parameters switch the step off. */
bool fy_sample_step_acts(const fy_sampler_params *p, fy_sample_step step);

#endif
