/* Ranges of activations: what is accepted has ordered, finite numbers, and is the same after it was
 * written and read again. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/compile/ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const fy_q_ranges *r)
{
    for (size_t i = 0; i < fy_q_ranges_n(r); i++) {
        const fy_q_range *one = fy_q_ranges_at(r, i);
        if (!(one->min <= one->max) || !isfinite(one->min) || !isfinite(one->max) ||
            !isfinite(one->rest_min) || !isfinite(one->rest_max) ||
            fy_q_ranges_find(r, fy_q_ranges_name(r, i)) != one)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_q_ranges *r, *again;
    fy_str text = {0}, twice = {0};
    if (fy_q_ranges_parse(data, size, &r, &e) != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
        return 0;
    }
    check(r);
    fy_q_ranges_put(r, &text);
    if (fy_q_ranges_parse(text.ptr, text.len, &again, &e) != 0)
        abort();
    fy_q_ranges_put(again, &twice);
    if (text.len != twice.len || memcmp(text.ptr, twice.ptr, text.len) != 0)
        abort();
    fy_str_release(&text);
    fy_str_release(&twice);
    fy_q_ranges_free(r);
    fy_q_ranges_free(again);
    return 0;
}
