#include "workspace/pack/manifest.h"

#include <stdlib.h>
#include <string.h>

int fy_manifest_begin(fy_manifest *m, const char *tool, const char *target, fy_err *e)
{
    *m = (fy_manifest){.tool = strdup(tool), .target = strdup(target)};
    return m->tool != NULL && m->target != NULL ? 0 : fy_nomem(e);
}

int fy_manifest_add(fy_manifest *m, const char *path, uint32_t mode, fy_digest *d, fy_err *e)
{
    fy_manifest_entry en = {.bytes = d->bytes, .mode = mode, .blocks = d->blocks};
    memcpy(en.sha256, d->sha256, sizeof en.sha256);
    d->blocks = NULL;
    int rc = 0;
    if (!fy_manifest_path_ok(path))
        rc = fy_fail(e, FY_EARG, "'%s' cannot be the path of a file in a workspace", path);
    else if ((en.path = strdup(path)) == NULL)
        rc = fy_nomem(e);
    fy_manifest_entry *grown = rc == 0 ? realloc(m->entry, (m->n + 1) * sizeof *grown) : NULL;
    if (grown == NULL) {
        free(en.path);
        free(en.blocks);
        return rc == 0 ? fy_nomem(e) : rc;
    }
    m->entry = grown;
    m->entry[m->n++] = en;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const fy_manifest_entry *)a)->path, ((const fy_manifest_entry *)b)->path);
}

static void put_entry(const fy_manifest_entry *m, fy_str *out)
{
    char hex[FY_SHA256_HEX];
    fy_sha256_to_hex(m->sha256, hex);
    fy_str_printf(out,
                  "  {\"path\": \"%s\", \"size\": %llu, \"mode\": \"%04o\",\n   \"sha256\": \"%s\"",
                  m->path, (unsigned long long)m->bytes, (unsigned)m->mode, hex);
    uint64_t n_blocks = fy_manifest_n_blocks(m->bytes);
    for (uint64_t i = 0; i < n_blocks; i++) {
        fy_sha256_to_hex(m->blocks + i * FY_SHA256_BYTES, hex);
        fy_str_printf(out, "%s    \"%s\"", i == 0 ? ",\n   \"blocks\": [\n" : ",\n", hex);
    }
    fy_str_puts(out, n_blocks > 0 ? "]}" : "}");
}

int fy_manifest_text(fy_manifest *m, fy_str *out, fy_err *e)
{
    if (m->n > 0)
        qsort(m->entry, m->n, sizeof *m->entry, by_path);
    size_t begin = out->len;
    fy_str_printf(
        out, "{\n \"format_version\": %d,\n \"tool\": \"%s\",\n \"target\": \"%s\",\n \"files\": [",
        FY_MANIFEST_VERSION, m->tool, m->target);
    for (size_t i = 0; i < m->n; i++) {
        fy_str_puts(out, i == 0 ? "\n" : ",\n");
        put_entry(&m->entry[i], out);
    }
    fy_str_puts(out, "\n ]");
    if (out->oom)
        return fy_nomem(e);
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    if (fy_sha256_of(out->ptr + begin, out->len - begin, hash, e) != 0)
        return -1;
    fy_sha256_to_hex(hash, hex);
    fy_str_printf(out, ",\n \"sha256\": \"%s\"\n}\n", hex);
    return out->oom ? fy_nomem(e) : 0;
}
