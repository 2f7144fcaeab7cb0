/* A line of a multiple choice file: it is refused with a message, or it is a question with two or
 * more answers, none of them empty, one of them right. */
#include <stdint.h>
#include <stdlib.h>

#include "cli/measure/eval.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_choice_item item = {0};
    fy_err e = {0};
    if (fy_choice_read((fy_span){(const char *)data, size}, &item, &e) != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
    } else {
        if (item.n_choices < 2 || item.label >= item.n_choices)
            abort();
        for (size_t i = 0; i < item.n_choices; i++) {
            if (fy_choice_length((fy_span){item.choices[i].ptr, item.choices[i].len}) == 0)
                abort();
        }
    }
    fy_choice_release(&item);
    return 0;
}
