/* SHA-256 through OpenSSL, for the host build. */
#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct fy_sha256 {
    EVP_MD_CTX *ctx; /* owned */
};

fy_sha256 *fy_sha256_new(fy_err *e)
{
    fy_sha256 *h = malloc(sizeof *h);
    if (h == NULL) {
        fy_nomem(e);
        return NULL;
    }
    h->ctx = EVP_MD_CTX_new();
    if (h->ctx == NULL || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        fy_fail(e, FY_ENOMEM, "OpenSSL cannot start a SHA-256");
        fy_sha256_end(h, NULL, NULL);
        return NULL;
    }
    return h;
}

int fy_sha256_add(fy_sha256 *h, const void *p, size_t n, fy_err *e)
{
    if (EVP_DigestUpdate(h->ctx, p, n) != 1)
        return fy_fail(e, FY_EIO, "OpenSSL failed to hash %zu bytes", n);
    return 0;
}

int fy_sha256_end(fy_sha256 *h, uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    int rc = 0;
    if (out != NULL && EVP_DigestFinal_ex(h->ctx, out, NULL) != 1)
        rc = fy_fail(e, FY_EIO, "OpenSSL failed to end a SHA-256");
    EVP_MD_CTX_free(h->ctx);
    free(h);
    return rc;
}

const char *fy_hash_library(void)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "openssl %s", OpenSSL_version(OPENSSL_VERSION_STRING));
    return text;
}
