/* adapter_config.json and the names of an adapter's tensors. Input: the configuration, and after a
 * NUL a name. Whatever they are: refused, or ranks and scales that can be computed with, and parts
 * that lie in the name. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "convert/source/lora.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void lies_in(fy_span part, fy_span whole)
{
    if (part.len > 0 &&
        (part.ptr < whole.ptr || part.ptr + part.len > whole.ptr + whole.len))
        abort();
}

static fy_span check_name(fy_span name)
{
    fy_lora_name n = fy_lora_name_of(name);
    lies_in(n.module, name);
    lies_in(n.rest, name);
    lies_in(fy_lora_tail(name), name);
    if (fy_lora_tail(fy_lora_tail(name)).len != fy_lora_tail(name).len)
        abort();
    return n.module;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t n = nul != NULL ? (size_t)(nul - data) : size;
    fy_span name = {(const char *)data + n, 0};
    fy_lora_config c;
    fy_err e = {0};
    if (nul != NULL)
        name = (fy_span){(const char *)nul + 1, size - n - 1};
    fy_span module = check_name(name);
    if (fy_lora_config_parse(&c, data, n, &e) == 0) {
        uint32_t rank = 0;
        double scale = 0;
        if (fy_lora_config_rank(&c, module, &rank, &e) == 0) {
            if (rank < 1 || rank > FY_LORA_MAX_RANK)
                abort();
            if (fy_lora_config_scale(&c, module, rank, &scale, &e) == 0 && !isfinite(scale))
                abort();
        }
    } else if (e.code == FY_OK || e.msg[0] == '\0') {
        abort();
    }
    fy_lora_config_release(&c);
    return 0;
}
