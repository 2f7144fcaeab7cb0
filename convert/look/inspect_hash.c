#include <stdlib.h>

#include "convert/look/inspect_impl.h"

enum { CHUNK = 1 << 20, PIECE = 64 << 10 };

/* Bytes in a row, dropped from memory behind the reader. */
static int hash_bytes(fy_sha256 *h, const fy_map *m, const uint8_t *p, uint64_t n, fy_err *e)
{
    while (n > 0) {
        size_t now = n < CHUNK ? (size_t)n : CHUNK;
        if (fy_sha256_add(h, p, now, e) != 0)
            return -1;
        fy_map_drop(m, (uint64_t)(p - m->data), now);
        p += now;
        n -= now;
    }
    return 0;
}

static int hash_gguf(fy_sha256 *h, const fy_gguf *g, const fy_gguf_tensor *t, fy_err *e)
{
    for (uint64_t at = 0, now; at < t->bytes; at += now) {
        now = t->bytes - at < CHUNK ? t->bytes - at : CHUNK;
        if (fy_sha256_add(h, t->data + at, (size_t)now, e) != 0)
            return -1;
        fy_gguf_drop(g, t, at, now);
    }
    return 0;
}

static int hash_strided(fy_sha256 *h, const fy_torch_tensor *t, fy_err *e)
{
    uint8_t piece[PIECE];
    uint64_t unit = fy_dtype_bits(t->dtype) / 8, n = t->bytes / unit, most = PIECE / unit;
    for (uint64_t i = 0, now; i < n; i += now) {
        now = n - i < most ? n - i : most;
        fy_torch_gather(t, i, now, piece);
        if (fy_sha256_add(h, piece, (size_t)(now * unit), e) != 0)
            return -1;
    }
    return 0;
}

static int hash_tensor(fy_sha256 *h, const fy_listing *l, size_t i, fy_err *e)
{
    if (l->g != NULL)
        return hash_gguf(h, l->g, fy_gguf_tensor_at(l->g, i), e);
    if (l->st != NULL) {
        const fy_st_tensor *t = fy_st_tensor_at(l->st, i);
        return hash_bytes(h, &l->map, t->data, t->bytes, e);
    }
    const fy_torch_tensor *t = fy_torch_tensor_at(l->pt, i);
    return t->contiguous ? hash_bytes(h, &l->map, t->data, t->bytes, e) : hash_strided(h, t, e);
}

int fy_inspect_hash(fy_listing *l, fy_err *e)
{
    uint8_t sum[FY_SHA256_BYTES];
    l->hashes = calloc(l->n_tensors + 1, sizeof *l->hashes);
    if (l->hashes == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < l->n_tensors; i++) {
        fy_sha256 *h = fy_sha256_new(e);
        if (h == NULL)
            return -1;
        if (hash_tensor(h, l, i, e) != 0) {
            fy_sha256_end(h, NULL, NULL);
            return -1;
        }
        if (fy_sha256_end(h, sum, e) != 0)
            return -1;
        fy_sha256_to_hex(sum, l->hashes[i]);
    }
    return 0;
}
