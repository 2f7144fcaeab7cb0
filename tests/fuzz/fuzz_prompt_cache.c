/* Prompt caches: whatever the bytes are, they are refused with a message, or hold tokens. The hash
 * over all of them is made right first: no change of a byte would come further. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/prompt_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    uint32_t n = 0;
    uint8_t *p = malloc(size + 1);
    if (p == NULL)
        return 0;
    memcpy(p, data, size);
    if (size >= FY_SHA256_BYTES &&
        fy_sha256_of(p, size - FY_SHA256_BYTES, p + size - FY_SHA256_BYTES, NULL) != 0)
        abort();
    fy_prompt_cache *c = fy_prompt_cache_parse(p, size, NULL, &e);
    if (c == NULL ? e.code == FY_OK || e.msg[0] == '\0' : e.code != FY_OK)
        abort();
    if (c != NULL) {
        const int32_t *ids = fy_prompt_cache_ids(c, &n);
        for (uint32_t i = 0; i < n; i++) {
            if (ids[i] < 0)
                abort();
        }
        if (n == 0 || n > size / 4)
            abort();
    }
    fy_prompt_cache_close(c);
    free(p);
    return 0;
}
