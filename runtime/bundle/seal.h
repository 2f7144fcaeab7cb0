/* The signature over manifest.json and the public key that came with it: their bytes, and whether
 * they fit together. Whom to trust is another question, which only the host asks
 * (workspace/pack/sign.h).
 *
 * An Ed25519 public key is the PEM text that `openssl pkey -pubout` writes (RFC 8410
 * SubjectPublicKeyInfo, RFC 7468): always the same 113 bytes but for the key. Only this text is
 * accepted, so no byte of a key file in a workspace can change unseen. */
#ifndef FY_BUNDLE_SEAL_H
#define FY_BUNDLE_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "bundle/manifest_read.h"

/* --- public keys ------------------------------------------------------------------------------ */

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

/* --- the seal of a manifest ------------------------------------------------------------------- */

/* has_sig, has_key false: there is none. fy_seal_open reads each file once, into memory: every
 * check that is made of a seal is made of the same bytes. */
typedef struct {
    fy_span manifest, sig, key; /* views */
    bool has_sig, has_key;
    fy_map map; /* owned, as are the next two: of fy_seal_open, else zeroed */
    fy_str sig_text, key_text;
} fy_seal;

/* Of a directory. Of a signature or key that is too long one byte too many is kept. */
int fy_seal_open(const char *dir, fy_seal *out, fy_err *e);
void fy_seal_close(fy_seal *s);

/* FY_EVERIFY, naming the file, when one of the two is not what it has to be: a key without a
 * signature, the wrong number of bytes, not a key, a signature that does not fit. The key is set
 * when has_key. */
int fy_seal_check(const fy_seal *s, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e);

/* The checks of fy_seal_check that need no signature. */
int fy_seal_check_form(const fy_seal *s, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e);
int fy_seal_does_not_fit(fy_err *e);

#endif
