/* The signature of a workspace: Ed25519 (RFC 8032) over the bytes of manifest.json, which holds the
 * hash of every other file. Keys are PEM (PKCS#8, SubjectPublicKeyInfo), so the same signature is
 * made and checked by `openssl pkeyutl -sign/-verify -rawin`.
 *
 * manifest.sig holds its 64 raw bytes. manifest.pub.pem next to it is the signer's public key: it
 * names the claimed signer, and proves nothing else. Whom to trust is the user's list: the files
 * DIR/ferry/trusted/NAME.pem, DIR being $XDG_CONFIG_HOME, or ~/.config if that is not set. */
#ifndef FY_WORKSPACE_SIGN_H
#define FY_WORKSPACE_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "bundle/manifest_read.h"
#include "bundle/seal.h"

typedef enum {
    FY_SIG_NONE = 0, /* there is no manifest.sig */
    FY_SIG_TRUSTED,  /* by a key of the user's list, or by the given one */
    FY_SIG_UNKNOWN,  /* right by the key that came with it, which is not trusted */
    FY_SIG_WRONG,    /* changed, made for another manifest, or by an unknown key that is missing */
} fy_sig_state;
const char *fy_sig_state_name(fy_sig_state s); /* "none", "trusted", "unknown", "wrong" */

typedef struct {
    fy_sig_state state;
    char fingerprint[FY_FINGERPRINT_BYTES]; /* of the signer's key; "" when it is not known */
    char *name;                             /* owned; of the trusted key; NULL */
    char *why;                              /* owned; what is wrong; NULL */
} fy_signature;
void fy_signature_release(fy_signature *s);

/* Default (zeroed, or NULL): trust the user's list, and accept unsigned workspaces and unknown
 * keys; a wrong signature is never accepted. */
typedef struct {
    const char *key_path; /* of the one public key that counts; its signature is required */
    bool require;         /* a signature by a key of the list */
} fy_trust;
bool fy_trust_accepts(const fy_trust *t, const fy_signature *s);

/* Asks for the passphrase of `path`; writes at most size bytes to out and returns their number, or
 * -1 when it cannot ask. Refused when NULL. */
typedef int fy_ask_passphrase(void *user, const char *path, char *out, int size);

/* Writes NAME.pem (mode 0600) and NAME.pub.pem; neither may exist. */
int fy_keygen(const char *name, char fingerprint[FY_FINGERPRINT_BYTES], fy_err *e);

/* Signs dir/manifest.json: writes manifest.sig and manifest.pub.pem. */
int fy_sign(const char *dir, const char *key_path, fy_ask_passphrase *ask, void *user,
            char fingerprint[FY_FINGERPRINT_BYTES], fy_err *e);

/* key_path NULL: any key of the user's list; else only that public key counts. -1 only when the
 * check could not be made (memory, a key_path that is not a key). */
int fy_signature_check(const fy_seal *s, const char *key_path, fy_signature *out, fy_err *e);
/* The same; when `t` does not accept the signature the reason is appended to `refused`. dir is for
 * that text. */
int fy_trust_check(const fy_trust *t, const fy_seal *s, const char *dir, fy_signature *out,
                   fy_str *refused, fy_err *e);
/* As fy_signature_check, of a directory. */
int fy_signature_read(const char *dir, const char *key_path, fy_signature *out, fy_err *e);

/* One line for people: "signed by a trusted key, build-server (SHA256:...)". dir: for the remedy.
 */
void fy_signature_text(const fy_signature *s, const char *dir, fy_str *out);

/* --- keys (sign_keys.c) ----------------------------------------------------------------------- */

/* A public key file of the user's, in any PEM format that OpenSSL reads. */
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
    size_t n, cap;
    char *dir; /* owned; NULL: there is none */
} fy_trusted_keys;

/* Appends the directory of the list; false: neither XDG_CONFIG_HOME nor HOME is set. */
bool fy_trusted_dir(fy_str *out);
/* The user's list; files without a key are skipped with a warning. */
int fy_trusted_keys_read(fy_trusted_keys *out, fy_err *e);
void fy_trusted_keys_release(fy_trusted_keys *t);

/* --- options ---------------------------------------------------------------------------------- */

#define FY_ROWS_TRUST                                                                       \
    {.group = "Signature",                                                                  \
     .name = "require-signature",                                                           \
     .kind = FY_OPT_FLAG,                                                                   \
     .offset = offsetof(options, require),                                                  \
     .help = "Refuse what no trusted key has signed."},                                     \
    {                                                                                       \
        .group = "Signature", .name = "key", .kind = FY_OPT_STR, .arg = "KEY.pub.pem",      \
        .offset = offsetof(options, key), .line_only = true,                                \
        .help = "The one key to trust here, in place of the user's list; its signature is " \
                "required."                                                                 \
    }

#endif
