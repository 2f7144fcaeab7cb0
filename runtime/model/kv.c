#include "model/kv.h"

#include <stdlib.h>

#include "base/math.h"

enum { ALIGN = 64 };

static int part_bytes(const fy_hparams *hp, uint32_t n_ctx, uint32_t dim, fy_type type,
                      uint64_t *layer_bytes, uint64_t *bytes, fy_err *e)
{
    uint64_t rows, n = fy_type_row_bytes(type, 1);
    if (!fy_mul_u64(hp->n_head_kv, n_ctx, &rows) || !fy_mul_u64(n, dim, &n) ||
        !fy_mul_u64(n, rows, &n) || !fy_align_u64(n, ALIGN, layer_bytes) ||
        !fy_mul_u64(*layer_bytes, hp->n_layer, bytes) || *bytes > SIZE_MAX / 4)
        return fy_fail(
            e, FY_EFIT,
            "a KV cache of %u positions does not fit the address space; use a smaller -c", n_ctx);
    return 0;
}

int fy_kv_bytes(const fy_hparams *hp, uint32_t n_ctx, fy_type type_k, fy_type type_v,
                uint64_t *bytes, fy_err *e)
{
    const fy_type type = type_k == type_v ? type_k : FY_F32;
    uint64_t layer, k, v;
    if (part_bytes(hp, n_ctx, hp->head_dim, type, &layer, &k, e) != 0 ||
        part_bytes(hp, n_ctx, hp->head_dim_v, type, &layer, &v, e) != 0)
        return -1;
    *bytes = k + v;
    return 0;
}

/* Not cleared: a position is read only after it was written, and pages not yet written cost
 * nothing. */
int fy_kv_init(fy_kv *kv, const fy_hparams *hp, uint32_t n_ctx, fy_type type_k, fy_type type_v,
               fy_err *e)
{
    const fy_type type = type_k == type_v ? type_k : FY_F32;
    uint64_t layer_k, layer_v, k, v;
    *kv = (fy_kv){.shape = {.type = type,
                            .round_k = type_k != type,
                            .round_v = type_v != type,
                            .n_ctx = n_ctx,
                            .n_head_kv = hp->n_head_kv,
                            .head_dim = hp->head_dim,
                            .head_dim_v = hp->head_dim_v}};
    if (part_bytes(hp, n_ctx, hp->head_dim, type, &layer_k, &k, e) != 0 ||
        part_bytes(hp, n_ctx, hp->head_dim_v, type, &layer_v, &v, e) != 0)
        return -1;
    kv->layer_k_bytes = (size_t)layer_k;
    kv->layer_v_bytes = (size_t)layer_v;
    kv->k = aligned_alloc(ALIGN, (size_t)k);
    kv->v = aligned_alloc(ALIGN, (size_t)v);
    if (kv->k == NULL || kv->v == NULL) {
        fy_kv_release(kv);
        return fy_fail(e, FY_EFIT,
                       "out of memory: a KV cache of %u positions takes %llu MB; use a smaller -c",
                       n_ctx, (unsigned long long)((k + v) >> 20));
    }
    return 0;
}

void fy_kv_release(fy_kv *kv)
{
    free(kv->k);
    free(kv->v);
    *kv = (fy_kv){0};
}

fy_kv_layer fy_kv_at(const fy_kv *kv, uint32_t layer)
{
    fy_kv_layer l = kv->shape;
    l.k = kv->k + layer * kv->layer_k_bytes;
    l.v = kv->v + layer * kv->layer_v_bytes;
    return l;
}
