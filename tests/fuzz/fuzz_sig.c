/* Signatures and public keys of a workspace: 64 bytes of signature, then the key's text, over a
 * fixed manifest; and the bytes as a key alone. The check of a directory's seal and the one of whom
 * to trust must agree. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/seal.h"
#include "workspace/pack/sign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char manifest[] = "{\"format_version\": 1}\n";

static void try_key(const uint8_t *data, size_t size)
{
    uint8_t key[FY_PUBLIC_KEY_BYTES];
    char text[FY_PUBLIC_KEY_TEXT_BYTES + 1];
    if (fy_public_key_parse((fy_span){(const char *)data, size}, key, NULL) != 0)
        return;
    fy_public_key_text(key, text);
    if (size != FY_PUBLIC_KEY_TEXT_BYTES || memcmp(text, data, size) != 0)
        abort();
}

static void try_seal(const uint8_t *data, size_t size)
{
    size_t n = size < FY_MANIFEST_SIG_BYTES ? size : FY_MANIFEST_SIG_BYTES;
    fy_seal s = {.manifest = {manifest, sizeof manifest - 1},
                 .sig = {(const char *)data, n},
                 .key = {(const char *)data + n, size - n},
                 .has_sig = true,
                 .has_key = size > n};
    fy_signature found;
    uint8_t key[FY_PUBLIC_KEY_BYTES];
    fy_err e = {0};
    bool ours = fy_seal_check(&s, key, NULL) == 0 && s.has_key;
    if (fy_signature_check(&s, NULL, &found, &e) != 0)
        abort();
    if (ours != (found.state == FY_SIG_UNKNOWN))
        abort();
    fy_signature_release(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    try_key(data, size);
    try_seal(data, size);
    return 0;
}
