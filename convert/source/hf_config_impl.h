/* The parts of reading config.json, for hf_config.c. */
#ifndef FY_CONVERT_HF_CONFIG_IMPL_H
#define FY_CONVERT_HF_CONFIG_IMPL_H

#include "convert/source/config_value.h"
#include "convert/source/hf_config.h"

/* family->keys, then family->rules. */
int fy_hf_read_keys(fy_hf_config *c, const fy_cfg *s, fy_err *e);
/* What the feed-forward network does. */
int fy_hf_read_activation(fy_hf_config *c, const fy_cfg *s, fy_err *e);
/* The window, and which layers have it; which layers rotate. After the plain keys. */
int fy_hf_read_layers(fy_hf_config *c, const fy_cfg *s, fy_err *e);
/* theta, rotated part, scaling. After the layers. */
int fy_hf_read_rope(fy_hf_config *c, const fy_cfg *s, fy_err *e);
/* What read_rope can only check when everything is known. */
int fy_hf_check_ramp(const fy_hparams *hp, fy_err *e);

#endif
