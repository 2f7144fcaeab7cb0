/* Which row of a checkpoint's tensor becomes which row of the GGUF tensor. */
#include "arch/arch.h"

bool fy_transform_is_computed(fy_transform x)
{
    return x >= FY_X_LLAMA3_FREQS && x <= FY_X_ZEROS;
}

bool fy_transform_is_transpose(fy_transform x)
{
    return x >= FY_X_TRANSPOSE && x <= FY_X_TRANSPOSE_SECOND_HALF;
}

/* Row r of neighbours (2j + half) was row half * head_dim/2 + j of halves. */
static uint64_t from_halves(uint64_t r, uint64_t head_dim)
{
    uint64_t in_head = r % head_dim;
    return r - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
}

/* Row r of halves was a row of neighbours, for the first n_rot rows of each head. */
static uint64_t from_neighbours(uint64_t r, uint64_t head_dim, uint64_t n_rot)
{
    uint64_t in_head = r % head_dim, half = n_rot / 2;
    if (in_head >= n_rot)
        return r;
    return r - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
}

/* Rows of one group: its q heads, then one of k, then one of v. `slot` counts heads of the group.
 */
static uint64_t in_group(const fy_hparams *hp, uint64_t group, uint64_t slot, uint64_t in_head)
{
    uint64_t per_group = hp->n_head / hp->n_head_kv;
    return (group * (per_group + 2) + slot) * hp->head_dim + in_head;
}

static uint64_t group_q(const fy_hparams *hp, uint64_t r)
{
    uint64_t per_group = hp->n_head / hp->n_head_kv, head = r / hp->head_dim;
    return in_group(hp, head / per_group, head % per_group, r % hp->head_dim);
}

/* which: 0 for k, 1 for v */
static uint64_t group_kv(const fy_hparams *hp, uint64_t r, uint64_t which)
{
    return in_group(hp, r / hp->head_dim, hp->n_head / hp->n_head_kv + which, r % hp->head_dim);
}

static uint64_t group_qkv(const fy_hparams *hp, uint64_t r)
{
    uint64_t q = fy_dim_of(hp, FY_D_Q), k = fy_dim_of(hp, FY_D_K);
    return r < q ? group_q(hp, r) : r < q + k ? group_kv(hp, r - q, 0) : group_kv(hp, r - q - k, 1);
}

/* part: place of the matrix within a group (q, v, k) */
static uint64_t codegen(const fy_hparams *hp, uint64_t r, uint64_t part)
{
    uint64_t rows = fy_dim_of(hp, FY_D_Q) / hp->n_qkv_groups; /* of one matrix in a group */
    return r / rows * 3 * rows + part * rows + r % rows;
}

/* Blocks of n rows out of blocks of 2 n. */
static uint64_t half_of(const fy_hparams *hp, const fy_tensor_row *row, uint64_t r, uint64_t half)
{
    bool three = row->dims[2] != FY_D_END; /* [expert, n, in] */
    uint64_t n = fy_dim_of(hp, row->dims[three ? 1 : 0]);
    return r / n * 2 * n + half * n + r % n;
}

uint64_t fy_transform_row(const fy_hparams *hp, const fy_tensor_row *row, uint64_t r)
{
    uint64_t q = fy_dim_of(hp, FY_D_Q), k = fy_dim_of(hp, FY_D_K), d = hp->head_dim;
    switch (row->transform) {
    case FY_X_PERMUTE_Q:
    case FY_X_PERMUTE_K:
    case FY_X_PACK_Q:
        return from_halves(r, d);
    case FY_X_PACK_K:
        return q + from_halves(r, d);
    case FY_X_PACK_V:
        return q + k + r;
    case FY_X_GROUP_Q:
        return group_q(hp, from_halves(r, d));
    case FY_X_GROUP_K:
        return group_kv(hp, from_halves(r, d), 0);
    case FY_X_GROUP_V:
        return group_kv(hp, r, 1);
    case FY_X_GROUP_QKV:
        return group_qkv(hp, r);
    case FY_X_CODEGEN_Q:
        return codegen(hp, from_neighbours(r, d, hp->n_rot), 0);
    case FY_X_CODEGEN_V:
        return codegen(hp, r, 1);
    case FY_X_CODEGEN_K:
        return codegen(hp, from_neighbours(r, d, hp->n_rot), 2);
    case FY_X_SKIP_2:
        return r + 2;
    case FY_X_FIRST_HALF:
        return half_of(hp, row, r, 0);
    case FY_X_SECOND_HALF:
        return half_of(hp, row, r, 1);
    case FY_X_COPY:
    case FY_X_ADD_ONE:
    case FY_X_LLAMA3_FREQS:
    case FY_X_LONG_FACTORS:
    case FY_X_SHORT_FACTORS:
    case FY_X_ZEROS:
    case FY_X_TRANSPOSE:
    case FY_X_TRANSPOSE_FIRST_HALF:
    case FY_X_TRANSPOSE_SECOND_HALF:
        break;
    }
    return r;
}
