/* The file of a sweep: what is accepted has at least one model and type and no empty text; messages
 * have nothing of it that acts on a terminal. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/farm/sweep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_list(const fy_opt_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->items[i][0] == '\0')
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_sweep s;
    fy_err e = {0};
    if (fy_sweep_parse((fy_span){(const char *)data, size}, &s, &e) != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0' || strpbrk(e.msg, "\033\r\n\a\b") != NULL)
            abort();
    } else {
        if (s.models.n == 0 || s.types.n == 0 || s.out == NULL || s.out[0] == '\0')
            abort();
        check_list(&s.models);
        check_list(&s.types);
        check_list(&s.chips);
        check_list(&s.recipes);
        for (int v = 0; v < FY_SWEEP_VERBS; v++)
            check_list(&s.options[v]);
    }
    fy_sweep_release(&s);
    return 0;
}
