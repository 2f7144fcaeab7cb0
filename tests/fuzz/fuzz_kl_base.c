/* Saved distributions: whatever the bytes are, they are refused, or every row has a token of the
 * vocabulary, a probability and a likeliest token; and only what a writer's hash stands under is
 * taken to the end. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "format/kl_base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_rows(fy_kl_reader *r)
{
    const fy_kl_head *h = fy_kl_head_of(r);
    float *below = malloc((size_t)h->n_vocab * sizeof *below);
    fy_err e = {0};
    fy_kl_token t;
    int rc = 0;
    if (below == NULL)
        abort();
    for (uint64_t i = 0; rc == 0 && i < h->n_rows; i++) {
        rc = fy_kl_next(r, &t, below, &e);
        if (rc != 0)
            break;
        float least = INFINITY;
        for (uint32_t k = 0; k < h->n_vocab; k++) {
            if (!(below[k] >= 0) || isinf(below[k]))
                abort();
            least = fminf(least, below[k]);
        }
        if (least != 0 || t.id < 0 || (uint32_t)t.id >= h->n_vocab || !(t.logprob <= 0))
            abort();
    }
    if (rc == 0)
        rc = fy_kl_end(r, &e);
    if (rc != 0 && (e.code == FY_OK || e.msg[0] == '\0'))
        abort();
    free(below);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_kl_reader *r = fy_kl_parse(data, size, &e);
    if (r == NULL) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
        return 0;
    }
    /* without rows the bytes do not bound the vocabulary */
    if (fy_kl_head_of(r)->n_rows > 0)
        read_rows(r);
    fy_kl_close(r);
    return 0;
}
