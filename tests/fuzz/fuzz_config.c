/* config.json: whatever the text is, it is refused or gives hyperparameters that the runtime can
 * compute with. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "convert/source/hf_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A shared expert that is not there has no rows. */
static bool may_be_empty(const fy_tensor_row *row)
{
    return (row->flags & FY_ROW_OPTIONAL) != 0 || row->slot == FY_T_FFN_GATE_SHEXP ||
           row->slot == FY_T_FFN_UP_SHEXP || row->slot == FY_T_FFN_DOWN_SHEXP;
}

static void check_shapes(const fy_hf_config *c)
{
    const uint64_t max = 4 * (uint64_t)INT32_MAX; /* q, k and v one below the other */
    for (size_t i = 0; i < c->family->n_rows; i++) {
        uint64_t ne[FY_GGUF_MAX_DIMS];
        const fy_tensor_row *row = &c->family->rows[i];
        uint32_t n = fy_row_shape(&c->hp, row, ne);
        for (uint32_t d = 0; d < n; d++) {
            if (ne[d] > max || (ne[d] == 0 && !may_be_empty(row)))
                abort();
        }
        if (n == 0)
            abort();
    }
}

static void check_factor(float f)
{
    if (!isfinite(f) || f <= 0)
        abort();
}

static void check_frequencies(const fy_hf_config *c)
{
    for (uint32_t i = 0; i < c->hp.n_rot / 2 && i < 1024; i++) {
        if (c->llama3.used)
            check_factor(fy_llama3_freq(c, i));
        if (c->hp.rope_scaling == FY_ROPE_SCALING_LONGROPE) {
            check_factor(c->long_factors[i]);
            check_factor(c->short_factors[i]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_hf_config c;
    fy_err e = {0};
    if (fy_hf_config_parse(&c, data, size, "config.json", &e) == 0) {
        if (fy_hparams_check(&c.hp, c.family, NULL) != 0)
            abort();
        check_shapes(&c);
        check_frequencies(&c);
    } else if (e.code == FY_OK || e.msg[0] == '\0') {
        abort();
    }
    fy_hf_config_release(&c);
    return 0;
}
