#include "hub/hub_hash.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct fy_hub_hash {
    EVP_MD_CTX *ctx; /* owned */
};

fy_hub_hash *fy_hub_hash_new(size_t digits, uint64_t size, fy_err *e)
{
    fy_hub_hash *h = calloc(1, sizeof *h);
    if (h != NULL)
        h->ctx = EVP_MD_CTX_new();
    if (h == NULL || h->ctx == NULL ||
        EVP_DigestInit_ex(h->ctx, digits == 64 ? EVP_sha256() : EVP_sha1(), NULL) != 1) {
        fy_hub_hash_free(h);
        fy_nomem(e);
        return NULL;
    }
    if (digits != 64) {
        char head[32];
        int n = snprintf(head, sizeof head, "blob %" PRIu64, size);
        if (fy_hub_hash_add(h, head, (size_t)n + 1, e) != 0) {
            fy_hub_hash_free(h);
            return NULL;
        }
    }
    return h;
}

int fy_hub_hash_add(fy_hub_hash *h, const void *p, size_t n, fy_err *e)
{
    return EVP_DigestUpdate(h->ctx, p, n) == 1
               ? 0
               : fy_fail(e, FY_EIO, "OpenSSL failed to hash %zu bytes", n);
}

int fy_hub_hash_end(fy_hub_hash *h, char *hex, fy_err *e)
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    int rc = EVP_DigestFinal_ex(h->ctx, raw, &n) == 1
                 ? 0
                 : fy_fail(e, FY_EIO, "OpenSSL failed to end a hash");
    for (unsigned i = 0; rc == 0 && i < n; i++)
        snprintf(hex + 2 * (size_t)i, 3, "%02x", raw[i]);
    fy_hub_hash_free(h);
    return rc;
}

void fy_hub_hash_free(fy_hub_hash *h)
{
    if (h != NULL)
        EVP_MD_CTX_free(h->ctx);
    free(h);
}
