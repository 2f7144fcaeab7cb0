/* GGUF reader: whatever the bytes are, it refuses them or every view it hands out lies inside them.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void inside(const uint8_t *p, uint64_t n, const uint8_t *data, size_t size)
{
    if (p < data || n > size || (size_t)(p - data) > size - n)
        abort();
}

static void read_key(const fy_gguf *g, const fy_gguf_kv *kv, const uint8_t *data, size_t size)
{
    inside((const uint8_t *)kv->key.ptr, kv->key.len, data, size);
    inside(kv->data, kv->bytes, data, size);
    uint64_t pos = 0;
    for (uint64_t i = 0; i < kv->count; i++) {
        if (kv->elem == FY_KV_STRING) {
            fy_span s = fy_gguf_next_string(kv, &pos);
            inside((const uint8_t *)s.ptr, s.len, data, size);
        } else if (kv->elem == FY_KV_F32 || kv->elem == FY_KV_F64) {
            sink += fy_gguf_float_at(kv, i) > 0;
        } else {
            sink += (uint64_t)fy_gguf_int_at(kv, i);
        }
    }
    if (kv->elem == FY_KV_STRING && pos != kv->bytes)
        abort();
    if (kv->key.len < 256 && memchr(kv->key.ptr, '\0', kv->key.len) == NULL) {
        char key[256];
        memcpy(key, kv->key.ptr, kv->key.len);
        key[kv->key.len] = '\0';
        if (fy_gguf_find(g, key) != kv)
            abort();
        uint32_t u;
        float f;
        bool b;
        fy_span s;
        sink += (uint64_t)fy_gguf_get_u32(g, key, &u, NULL);
        sink += (uint64_t)fy_gguf_get_f32(g, key, &f, NULL);
        sink += (uint64_t)fy_gguf_get_bool(g, key, &b, NULL);
        sink += (uint64_t)fy_gguf_get_str(g, key, &s, NULL);
    }
}

static void read_all(const uint8_t *data, size_t size, bool header_only)
{
    fy_err e = {0};
    fy_gguf *g = fy_gguf_parse(data, size, "fuzz", header_only, &e);
    if (g == NULL) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
        return;
    }
    for (size_t i = 0; i < fy_gguf_n_kv(g); i++)
        read_key(g, fy_gguf_kv_at(g, i), data, size);
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        inside((const uint8_t *)t->name.ptr, t->name.len, data, size);
        if (fy_type_row_bytes(t->type, t->ne[0]) * t->ne[1] * t->ne[2] * t->ne[3] != t->bytes)
            abort();
        if (!header_only)
            inside(t->data, t->bytes, data, size);
    }
    fy_gguf_close(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_all(data, size, false);
    read_all(data, size, true);
    return 0;
}
