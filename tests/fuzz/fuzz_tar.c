/* Archives of unknown origin, through every check of unpack, without writing. */
#include <stddef.h>
#include <stdint.h>

#include "workspace/pack/workspace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_unpack_check(data, size, "fuzz.tar", &e);
    return 0;
}
