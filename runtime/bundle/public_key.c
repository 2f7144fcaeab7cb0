#include "bundle/public_key.h"

#include <stdio.h>
#include <string.h>

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
                   "is no Ed25519 public key in the form of 'openssl pkey -pubout' (%d bytes)",
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
