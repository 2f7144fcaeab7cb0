/* config.json: whatever the text is, it is refused or gives hyperparameters that the runtime can
 * compute with. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "convert/hf_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shapes(const fy_hf_config *c)
{
    for (size_t i = 0; i < c->family->n_rows; i++) {
        uint64_t ne[FY_GGUF_MAX_DIMS];
        uint32_t n = fy_row_shape(&c->hp, &c->family->rows[i], ne);
        if (n == 0 || ne[0] == 0 || ne[0] > INT32_MAX || ne[1] == 0 || ne[1] > INT32_MAX)
            abort();
    }
}

static void check_frequencies(const fy_hf_config *c)
{
    for (uint32_t i = 0; c->llama3.used && i < c->hp.n_rot / 2 && i < 1024; i++) {
        float f = fy_llama3_freq(c, i);
        if (!isfinite(f) || f <= 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_hf_config c;
    fy_err e = {0};
    if (fy_hf_config_parse(&c, data, size, "config.json", &e) == 0) {
        if (fy_hparams_check(&c.hp, NULL) != 0)
            abort();
        check_shapes(&c);
        check_frequencies(&c);
    } else if (e.code == FY_OK || e.msg[0] == '\0') {
        abort();
    }
    fy_hf_config_release(&c);
    return 0;
}
