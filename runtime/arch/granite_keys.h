/* The four multipliers of IBM's Granite models. */
#ifndef FY_ARCH_GRANITE_KEYS_H
#define FY_ARCH_GRANITE_KEYS_H

#include "arch/arch.h"

#define GRANITE_KEYS                                                                       \
    {"embedding_multiplier", offsetof(fy_hparams, embedding_scale), FY_OP_SET, 1, NULL},   \
        {"residual_multiplier", offsetof(fy_hparams, residual_scale), FY_OP_SET, 1, NULL}, \
        {"attention_multiplier", offsetof(fy_hparams, attn_scale), FY_OP_SET, 1, NULL},    \
        {"logits_scaling", offsetof(fy_hparams, logit_scale), FY_OP_SET, 1, NULL},

#endif
