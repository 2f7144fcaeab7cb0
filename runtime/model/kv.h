/* The KV cache of a session: [layer][n_seq][n_head_kv][n_ctx][head_dim] for keys, the same with
 * head_dim_v for values, so that the keys one query head reads lie in one run. f32, f16, or q8_0
 * where rows are whole blocks. */
#ifndef FY_MODEL_KV_H
#define FY_MODEL_KV_H

#include "arch/arch.h"
#include "backend/backend_cpu.h"

typedef struct {
    uint8_t *k, *v;    /* owned */
    fy_kv_layer shape; /* of every layer; its k and v are not set */
    size_t layer_k_bytes, layer_v_bytes;
} fy_kv;

/* Bytes of a cache. Types: FY_F32, FY_F16 or FY_Q8_0; FY_EARG when rows are not whole
 * blocks. */
int fy_kv_bytes(const fy_hparams *hp, uint32_t n_seq, uint32_t n_ctx, fy_type type_k,
                fy_type type_v, uint64_t *bytes, fy_err *e);
int fy_kv_init(fy_kv *kv, const fy_hparams *hp, uint32_t n_seq, uint32_t n_ctx, fy_type type_k,
               fy_type type_v, fy_err *e);
void fy_kv_release(fy_kv *kv); /* zeroed is fine */
fy_kv_layer fy_kv_at(const fy_kv *kv, uint32_t layer);
/* Positions [0, n) of one sequence become those of another. */
void fy_kv_copy(fy_kv *kv, uint32_t n_layer, uint32_t from, uint32_t to, uint32_t n);

#endif
