/* model.json: what is accepted is written and read again as the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/data/model_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_model_json m, back;
    fy_str text = {0};
    fy_err e = {0};
    if (fy_model_json_parse(data, size, &m, &e) != 0)
        return 0;
    if (fy_model_json_text(&m, &text, &e) != 0 ||
        fy_model_json_parse(text.ptr, text.len, &back, &e) != 0 ||
        fy_model_json_compare(&m, &m, &e) != fy_model_json_compare(&back, &back, NULL))
        abort();
    fy_str_release(&text);
    return 0;
}
