/* Ed25519 keys through OpenSSL: files, the user's list of trusted ones, one signature. */
#ifndef FY_WORKSPACE_SIGN_KEYS_H
#define FY_WORKSPACE_SIGN_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "bundle/manifest_read.h"
#include "bundle/public_key.h"
#include "workspace/pack/sign.h"

/* A public key file of the user's, in any form of PEM that OpenSSL reads. */
int fy_keys_read_public(const char *path, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e);

/* Signs p[0..n) with the private key of a PEM file; key is its public half. */
int fy_keys_sign(const char *path, fy_ask_passphrase *ask, void *user, const void *p, size_t n,
                 uint8_t sig[FY_MANIFEST_SIG_BYTES], uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e);

typedef struct {
    char *name; /* owned; of the file, without ".pem" or ".pub.pem" */
    uint8_t key[FY_PUBLIC_KEY_BYTES];
} fy_trusted_key;

typedef struct {
    fy_trusted_key *key; /* owned, by name */
    size_t n;
    char *dir; /* owned; NULL: there is none */
} fy_trusted_keys;

/* Appends where the list is; false: neither XDG_CONFIG_HOME nor HOME says where. */
bool fy_trusted_dir(fy_str *out);
/* The user's list; files that hold no key are left out with a warning. */
int fy_trusted_keys_read(fy_trusted_keys *out, fy_err *e);
void fy_trusted_keys_release(fy_trusted_keys *t);

#endif
