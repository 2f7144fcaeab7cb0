/* manifest.json: what is accepted is safe to join to a directory, and survives being written and
 * read again. The bytes are tried as they are, and with their own hash put after them, so that
 * mutations get past it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "bundle/manifest_read.h"
#include "workspace/pack/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_paths(const fy_manifest *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const char *p = m->entry[i].path;
        if (p[0] == '/' || p[0] == '\0' || strstr(p, "//") != NULL || strchr(p, '\\') != NULL ||
            strncmp(p, "../", 3) == 0 || strstr(p, "/../") != NULL)
            abort();
        if (fy_manifest_find(m, p) != &m->entry[i])
            abort();
        if ((m->entry[i].blocks != NULL) != (fy_manifest_n_blocks(m->entry[i].bytes) > 0))
            abort();
    }
}

static void try_text(const void *p, size_t n)
{
    fy_manifest m, back;
    fy_str a = {0}, b = {0};
    fy_err e = {0};
    if (fy_manifest_parse(p, n, &m, &e) != 0)
        return;
    check_paths(&m);
    if (fy_manifest_text(&m, &a, &e) != 0 || fy_manifest_parse(a.ptr, a.len, &back, &e) != 0 ||
        fy_manifest_text(&back, &b, &e) != 0 || a.len != b.len || memcmp(a.ptr, b.ptr, a.len) != 0)
        abort();
    fy_str_release(&a);
    fy_str_release(&b);
    fy_manifest_release(&m);
    fy_manifest_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    fy_str sealed = {0};
    try_text(data, size);
    if (fy_sha256_of(data, size, hash, NULL) != 0)
        return 0;
    fy_sha256_to_hex(hash, hex);
    fy_str_add(&sealed, data, size);
    fy_str_printf(&sealed, ",\"sha256\":\"%s\"}", hex);
    if (!sealed.oom)
        try_text(sealed.ptr, sealed.len);
    fy_str_release(&sealed);
    return 0;
}
