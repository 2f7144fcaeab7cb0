/* SHA-256 (FIPS 180-4). The host build links OpenSSL's (hash_openssl.c), the device build ours
 * (hash_own.c); the same test vectors run against each. */
#ifndef FY_BASE_HASH_H
#define FY_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FY_SHA256_BYTES 32
#define FY_SHA256_HEX   65 /* with the NUL */

typedef struct fy_sha256 fy_sha256;

fy_sha256 *fy_sha256_new(fy_err *e); /* NULL on failure */
int fy_sha256_add(fy_sha256 *h, const void *p, size_t n, fy_err *e);
/* Ends the hash and frees `h`. out may be NULL. */
int fy_sha256_end(fy_sha256 *h, uint8_t out[FY_SHA256_BYTES], fy_err *e);

/* Of one text in memory. */
static inline int fy_sha256_of(const void *p, size_t n, uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    fy_sha256 *h = fy_sha256_new(e);
    bool ok = h != NULL && fy_sha256_add(h, p, n, e) == 0;
    int rc = h != NULL ? fy_sha256_end(h, ok ? out : NULL, e) : -1;
    return ok ? rc : -1;
}

static inline void fy_sha256_to_hex(const uint8_t in[FY_SHA256_BYTES], char out[FY_SHA256_HEX])
{
    for (int i = 0; i < FY_SHA256_BYTES; i++) {
        out[2 * i] = "0123456789abcdef"[in[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[in[i] & 15];
    }
    out[FY_SHA256_HEX - 1] = '\0';
}

/* "openssl 3.0.15"; NULL: the code is ours. */
const char *fy_hash_library(void);

#endif
