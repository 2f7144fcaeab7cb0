/* The KV cache of a session: [layer][n_head_kv][n_ctx][head_dim] for keys, the same with head_dim_v
 * for values, so that the keys one query head reads lie in one run. f32 or f16; when keys and
 * values differ in type, both are held as f32 and the f16 ones are rounded, because attention reads
 * one type. */
#ifndef FY_MODEL_KV_H
#define FY_MODEL_KV_H

#include "arch/arch.h"
#include "backend/backend_cpu.h"

typedef struct {
    uint8_t *k, *v;    /* owned */
    fy_kv_layer shape; /* of every layer; its k and v are not set */
    size_t layer_k_bytes, layer_v_bytes;
} fy_kv;

/* Bytes of a cache. Types: FY_F32 or FY_F16. */
int fy_kv_bytes(const fy_hparams *hp, uint32_t n_ctx, fy_type type_k, fy_type type_v,
                uint64_t *bytes, fy_err *e);
int fy_kv_init(fy_kv *kv, const fy_hparams *hp, uint32_t n_ctx, fy_type type_k, fy_type type_v,
               fy_err *e);
void fy_kv_release(fy_kv *kv); /* zeroed is fine */
fy_kv_layer fy_kv_at(const fy_kv *kv, uint32_t layer);

#endif
