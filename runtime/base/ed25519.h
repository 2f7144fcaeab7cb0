/* Checking Ed25519 signatures (RFC 8032, section 5.1.7, without cofactor as OpenSSL does), for
 * builds without OpenSSL. Nothing secret passes through: it need not run in constant time. */
#ifndef FY_BASE_ED25519_H
#define FY_BASE_ED25519_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FY_ED25519_KEY_BYTES 32
#define FY_ED25519_SIG_BYTES 64

/* Does the signature fit key and text? A key that is no point of the curve fits none. */
bool fy_ed25519_fits(const uint8_t key[FY_ED25519_KEY_BYTES], const void *text, size_t n,
                     const uint8_t sig[FY_ED25519_SIG_BYTES]);

#endif
