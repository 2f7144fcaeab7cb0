/* Hyperparameters of one file against those of another. */
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"

static size_t field_bytes(fy_hparam_kind kind)
{
    switch (kind) {
    case FY_HP_SWA_LAYERS:
    case FY_HP_ROPE_LAYERS:
        return sizeof(fy_layer_set);
    case FY_HP_BOOL:
        return sizeof(bool);
    case FY_HP_SCALING:
        return sizeof(fy_rope_scaling);
    case FY_HP_ACT:
        return sizeof(fy_act_kind);
    case FY_HP_F32:
        return sizeof(float);
    case FY_HP_U32:
        break;
    }
    return sizeof(uint32_t);
}

/* " is 64, not 32": numbers only. */
static void say(const fy_hparam_row *row, const void *found, const void *expected, char out[64])
{
    uint32_t a, b;
    float x, y;
    strcpy(out, " is not the same");
    if (row->kind == FY_HP_U32) {
        memcpy(&a, found, sizeof a);
        memcpy(&b, expected, sizeof b);
        snprintf(out, 64, " is %u, not %u", a, b);
    } else if (row->kind == FY_HP_F32) {
        memcpy(&x, found, sizeof x);
        memcpy(&y, expected, sizeof y);
        snprintf(out, 64, " is %.9g, not %.9g", (double)x, (double)y);
    }
}

int fy_hparams_compare(const fy_hparams *found, const fy_hparams *expected, const char *says,
                       fy_err *e)
{
    char words[64];
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        const char *a = (const char *)found + row->offset,
                   *b = (const char *)expected + row->offset;
        if (memcmp(a, b, field_bytes(row->kind)) == 0)
            continue;
        say(row, a, b, words);
        return fy_fail(e, FY_EVERIFY, "%s%s as %s says", row->gguf, words, says);
    }
    return 0;
}
