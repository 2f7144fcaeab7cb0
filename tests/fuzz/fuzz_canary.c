/* A canary: what is accepted has as many tokens as logits, finite, compares without a number that
 * is none, and is the same after it was written and read again. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/npu_canary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 1000 };

static void compare(const fy_canary *c)
{
    fy_err e = {0};
    float logits[N_VOCAB];
    for (int i = 0; i < N_VOCAB; i++)
        logits[i] = (float)i;
    for (size_t i = 0; i < c->n_positions; i++) {
        double kl = -1;
        if (fy_canary_kl(c, i, logits, N_VOCAB, &kl, &e) == 0 && !(kl >= 0))
            abort();
    }
    if (!(fy_canary_bound(c) > 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_canary c, again;
    fy_str text = {0}, twice = {0};
    if (fy_canary_parse(data, size, &c, &e) != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
        return 0;
    }
    if (c.n_positions == 0 || c.n_positions > c.n_ids || c.n_top == 0)
        abort();
    compare(&c);
    fy_canary_put(&c, &text);
    if (fy_canary_parse(text.ptr, text.len, &again, &e) != 0)
        abort();
    fy_canary_put(&again, &twice);
    if (text.len != twice.len || memcmp(text.ptr, twice.ptr, text.len) != 0)
        abort();
    fy_str_release(&text);
    fy_str_release(&twice);
    fy_canary_release(&c);
    fy_canary_release(&again);
    return 0;
}
