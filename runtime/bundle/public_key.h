/* An Ed25519 public key as the PEM text that `openssl pkey -pubout` writes (RFC 8410
 * SubjectPublicKeyInfo, RFC 7468): always the same 113 bytes but for the key. Only this text is
 * accepted, so no byte of a key file in a workspace can change unseen. And the check of a signature
 * by such a key (RFC 8032). */
#ifndef FY_BUNDLE_PUBLIC_KEY_H
#define FY_BUNDLE_PUBLIC_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"

#define FY_PUBLIC_KEY_BYTES      32
#define FY_SIGNATURE_BYTES       64
#define FY_PUBLIC_KEY_TEXT_BYTES 113 /* without a NUL */
/* "SHA256:" and the SHA-256 of the key's DER form in hex, with the NUL: what
 * `openssl pkey -pubin -in KEY.pub.pem -outform DER | sha256sum` prints. */
#define FY_FINGERPRINT_BYTES (7 + FY_SHA256_HEX)

void fy_public_key_text(const uint8_t key[FY_PUBLIC_KEY_BYTES],
                        char out[FY_PUBLIC_KEY_TEXT_BYTES + 1]);
int fy_public_key_parse(fy_span text, uint8_t out[FY_PUBLIC_KEY_BYTES], fy_err *e);
int fy_public_key_fingerprint(const uint8_t key[FY_PUBLIC_KEY_BYTES],
                              char out[FY_FINGERPRINT_BYTES], fy_err *e);

/* Is `sig` the signature of the text by this key? Every build gives the same answer: without
 * cofactor, S below the order of the group, and neither the key nor R of small order or with a
 * second encoding. -1 only when that could not be found out. */
int fy_public_key_verify(const uint8_t key[FY_PUBLIC_KEY_BYTES], fy_span text,
                         const uint8_t sig[FY_SIGNATURE_BYTES], bool *fits, fy_err *e);

#endif
