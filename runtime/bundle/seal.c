/* The seal of a workspace: an Ed25519 public key as text, a signature by it, and the two files next
 * to manifest.json that hold them. The curve is a library's on every build: OpenSSL on the host,
 * libsodium in the device build, which carries no OpenSSL. */
#include "bundle/seal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef FERRY_DEVICE
#include <sodium/crypto_sign_ed25519.h>
#else
#include <openssl/err.h>
#include <openssl/evp.h>
#endif

/* --- text ------------------------------------------------------------------------------------- */

#define BEGIN "-----BEGIN PUBLIC KEY-----\n"
#define END   "\n-----END PUBLIC KEY-----\n"

enum { HEAD_BYTES = 12, DER_BYTES = HEAD_BYTES + FY_PUBLIC_KEY_BYTES, BASE64_BYTES = 60 };
_Static_assert(sizeof BEGIN - 1 + BASE64_BYTES + sizeof END - 1 == FY_PUBLIC_KEY_TEXT_BYTES,
               "length of the text");

/* SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING of 32 bytes } */
static const uint8_t der_head[HEAD_BYTES] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                             0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void to_der(const uint8_t key[FY_PUBLIC_KEY_BYTES], uint8_t out[DER_BYTES])
{
    memcpy(out, der_head, HEAD_BYTES);
    memcpy(out + HEAD_BYTES, key, FY_PUBLIC_KEY_BYTES);
}

void fy_public_key_text(const uint8_t key[FY_PUBLIC_KEY_BYTES],
                        char out[FY_PUBLIC_KEY_TEXT_BYTES + 1])
{
    uint8_t der[DER_BYTES + 1];
    char base64[BASE64_BYTES + 1];
    to_der(key, der);
    der[DER_BYTES] = 0; /* 44 bytes: the last group of three has two */
    for (size_t i = 0, k = 0; i < DER_BYTES; i += 3, k += 4) {
        uint32_t v = (uint32_t)der[i] << 16 | (uint32_t)der[i + 1] << 8 | der[i + 2];
        base64[k] = digits[v >> 18];
        base64[k + 1] = digits[v >> 12 & 63];
        base64[k + 2] = digits[v >> 6 & 63];
        base64[k + 3] = digits[v & 63];
    }
    base64[BASE64_BYTES - 1] = '=';
    base64[BASE64_BYTES] = '\0';
    snprintf(out, FY_PUBLIC_KEY_TEXT_BYTES + 1, BEGIN "%s" END, base64);
}

int fy_public_key_parse(fy_span text, uint8_t out[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    uint8_t der[BASE64_BYTES / 4 * 3] = {0}, key[FY_PUBLIC_KEY_BYTES];
    char again[FY_PUBLIC_KEY_TEXT_BYTES + 1];
    if (text.len == FY_PUBLIC_KEY_TEXT_BYTES) {
        const char *p = text.ptr + sizeof BEGIN - 1;
        for (size_t i = 0; i < BASE64_BYTES; i++) {
            const char *d = p[i] != '\0' ? strchr(digits, p[i]) : NULL;
            uint32_t v = d != NULL ? (uint32_t)(d - digits) : 0;
            size_t bit = i * 6, at = bit / 8, shift = bit % 8;
            der[at] |= (uint8_t)(v << 2 >> shift);
            if (shift > 2)
                der[at + 1] |= (uint8_t)(v << (10 - shift));
        }
        memcpy(key, der + HEAD_BYTES, sizeof key);
        fy_public_key_text(key, again);
        if (memcmp(again, text.ptr, FY_PUBLIC_KEY_TEXT_BYTES) == 0) {
            memcpy(out, key, sizeof key);
            return 0;
        }
    }
    return fy_fail(e, FY_EFORMAT,
                   "is not an Ed25519 public key as 'openssl pkey -pubout' writes it (%d bytes)",
                   FY_PUBLIC_KEY_TEXT_BYTES);
}

int fy_public_key_fingerprint(const uint8_t key[FY_PUBLIC_KEY_BYTES],
                              char out[FY_FINGERPRINT_BYTES], fy_err *e)
{
    uint8_t der[DER_BYTES], hash[FY_SHA256_BYTES];
    to_der(key, der);
    if (fy_sha256_of(der, sizeof der, hash, e) != 0)
        return -1;
    memcpy(out, "SHA256:", 7);
    fy_sha256_to_hex(hash, out + 7);
    return 0;
}

/* --- signatures ------------------------------------------------------------------------------- */

/* Is it a point that no honest key or signature has? The y coordinate must be below
 * p = 2^255 - 19 (one encoding per point), and the point must not be of small order, for which one
 * signature fits many texts. libsodium has the same rule; OpenSSL has none. */
static bool is_weak(const uint8_t point[32])
{
    static const uint8_t small_order[][32] = {
        {0},    /* order 4 */
        {0x01}, /* order 1 */
        {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, /* order 2 */
        {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4,
         0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6,
         0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05}, /* order 8, twice */
        {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b,
         0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39,
         0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
    };
    uint8_t y[32];
    memcpy(y, point, sizeof y);
    y[31] &= 0x7f; /* the other bit is the sign of x */
    for (size_t i = 0; i < sizeof small_order / sizeof small_order[0]; i++) {
        if (memcmp(y, small_order[i], sizeof y) == 0)
            return true;
    }
    bool all_ones = y[31] == 0x7f;
    for (int i = 1; i < 31; i++)
        all_ones &= y[i] == 0xff;
    return all_ones && y[0] >= 0xed;
}

#ifdef FERRY_DEVICE

static int verify(const uint8_t key[FY_PUBLIC_KEY_BYTES], fy_span text,
                  const uint8_t sig[FY_SIGNATURE_BYTES], bool *fits, fy_err *e)
{
    (void)e;
    *fits = crypto_sign_ed25519_verify_detached(sig, (const unsigned char *)text.ptr, text.len,
                                                key) == 0;
    return 0;
}

#else

static int verify(const uint8_t key[FY_PUBLIC_KEY_BYTES], fy_span text,
                  const uint8_t sig[FY_SIGNATURE_BYTES], bool *fits, fy_err *e)
{
    EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, FY_PUBLIC_KEY_BYTES);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int rc = 0;
    if (pkey == NULL || ctx == NULL || EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) != 1)
        rc = fy_fail(e, FY_ENOMEM, "OpenSSL cannot check a signature");
    else
        *fits = EVP_DigestVerify(ctx, sig, FY_SIGNATURE_BYTES, (const uint8_t *)text.ptr,
                                 text.len) == 1;
    ERR_clear_error(); /* a signature that does not fit leaves its reason there */
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pkey);
    return rc;
}

#endif

int fy_public_key_verify(const uint8_t key[FY_PUBLIC_KEY_BYTES], fy_span text,
                         const uint8_t sig[FY_SIGNATURE_BYTES], bool *fits, fy_err *e)
{
    *fits = false;
    return is_weak(key) || is_weak(sig) ? 0 : verify(key, text, sig, fits, e);
}

/* --- the seal of a manifest ------------------------------------------------------------------- */

void fy_seal_close(fy_seal *s)
{
    fy_str_release(&s->sig_text);
    fy_str_release(&s->key_text);
    fy_map_close(&s->map);
    *s = (fy_seal){0};
}

/* A small file of the workspace; *there false when it has none. */
static int read_small(const char *dir, const char *name, size_t max, fy_str *out, bool *there,
                      fy_err *e)
{
    fy_map map;
    char *path = fy_path_join(dir, name);
    if (path == NULL)
        return fy_nomem(e);
    int rc = 0;
    *there = access(path, F_OK) == 0 || errno != ENOENT;
    if (*there && (rc = fy_map_open(&map, path, e)) == 0) {
        /* one byte more than allowed shows that there is more */
        fy_str_add(out, map.data, map.size < max + 1 ? map.size : max + 1);
        rc = out->oom ? fy_nomem(e) : 0;
        fy_map_close(&map);
    }
    free(path);
    return rc;
}

int fy_seal_open(const char *dir, fy_seal *out, fy_err *e)
{
    fy_seal s = {0};
    if (fy_manifest_load(dir, &s.map, e) != 0 ||
        read_small(dir, FY_MANIFEST_SIG, FY_MANIFEST_SIG_BYTES, &s.sig_text, &s.has_sig, e) != 0 ||
        read_small(dir, FY_MANIFEST_KEY, FY_MANIFEST_KEY_MAX, &s.key_text, &s.has_key, e) != 0) {
        fy_seal_close(&s);
        return -1;
    }
    s.manifest = (fy_span){(const char *)s.map.data, s.map.size};
    s.sig = (fy_span){fy_str_z(&s.sig_text), s.sig_text.len};
    s.key = (fy_span){fy_str_z(&s.key_text), s.key_text.len};
    *out = s;
    return 0;
}

int fy_seal_check_form(const fy_seal *s, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    if (!s->has_sig && s->has_key)
        return fy_fail(e, FY_EVERIFY, FY_MANIFEST_KEY " is there without " FY_MANIFEST_SIG);
    if (s->has_sig && s->sig.len != FY_MANIFEST_SIG_BYTES)
        return fy_fail(e, FY_EVERIFY, FY_MANIFEST_SIG " does not have %d bytes",
                       FY_MANIFEST_SIG_BYTES);
    fy_err what = {0};
    if (s->has_key && fy_public_key_parse(s->key, key, &what) != 0)
        return fy_fail(e, FY_EVERIFY, FY_MANIFEST_KEY " %s", what.msg);
    return 0;
}

int fy_seal_does_not_fit(fy_err *e)
{
    return fy_fail(e, FY_EVERIFY,
                   FY_MANIFEST_SIG " is not the signature of this " FY_MANIFEST_NAME
                                   " by the key of " FY_MANIFEST_KEY);
}

int fy_seal_check(const fy_seal *s, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    bool fits = true;
    if (fy_seal_check_form(s, key, e) != 0 ||
        (s->has_key &&
         fy_public_key_verify(key, s->manifest, (const uint8_t *)s->sig.ptr, &fits, e) != 0))
        return -1;
    return fits ? 0 : fy_seal_does_not_fit(e);
}
