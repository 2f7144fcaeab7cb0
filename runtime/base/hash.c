#include "base/hash.h"

int fy_sha256_of(const void *p, size_t n, uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    fy_sha256 *h = fy_sha256_new(e);
    if (h == NULL)
        return -1;
    if (fy_sha256_add(h, p, n, e) != 0) {
        fy_sha256_end(h, NULL, NULL);
        return -1;
    }
    return fy_sha256_end(h, out, e);
}

void fy_sha256_to_hex(const uint8_t in[FY_SHA256_BYTES], char out[FY_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < FY_SHA256_BYTES; i++) {
        out[2 * i] = digits[in[i] >> 4];
        out[2 * i + 1] = digits[in[i] & 15];
    }
    out[FY_SHA256_HEX - 1] = '\0';
}
