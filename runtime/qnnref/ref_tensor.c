/* Tensors: what the interface describes is checked and copied; nothing of the caller is kept. */
#include "qnnref/ref_impl.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    uint32_t type, bytes;
    const char *name;
    double low, high; /* of a quantized type */
} types[] = {
    {ABI_I8, 1, "i8", 0, 0},
    {ABI_I16, 2, "i16", 0, 0},
    {ABI_I32, 4, "i32", 0, 0},
    {ABI_I64, 8, "i64", 0, 0},
    {ABI_UI8, 1, "ui8", 0, 0},
    {ABI_UI16, 2, "ui16", 0, 0},
    {ABI_UI32, 4, "ui32", 0, 0},
    {ABI_F16, 2, "f16", 0, 0},
    {ABI_F32, 4, "f32", 0, 0},
    {ABI_S8, 1, "s8", -128, 127},
    {ABI_S16, 2, "s16", -32768, 32767},
    {ABI_S32, 4, "s32", -2147483648.0, 2147483647.0},
    {ABI_U8, 1, "u8", 0, 255},
    {ABI_U16, 2, "u16", 0, 65535},
    {ABI_BOOL, 1, "bool", 0, 0},
};
enum { N_TYPES = sizeof types / sizeof *types };

static size_t type_at(uint32_t type)
{
    size_t i = 0;
    while (i < N_TYPES && types[i].type != type)
        i++;
    return i;
}

uint32_t ref_type_bytes(uint32_t type)
{
    size_t i = type_at(type);
    return i < N_TYPES ? types[i].bytes : 0;
}

const char *ref_type_name(uint32_t type)
{
    size_t i = type_at(type);
    return i < N_TYPES ? types[i].name : "?";
}

bool ref_is_fixed(uint32_t type)
{
    size_t i = type_at(type);
    return i < N_TYPES && types[i].high != 0;
}

void ref_type_limits(uint32_t type, double *low, double *high)
{
    size_t i = type_at(type);
    *low = i < N_TYPES ? types[i].low : 0;
    *high = i < N_TYPES ? types[i].high : 0;
}

const abi_tensor1 *ref_tensor1(const abi_tensor *t)
{
    return t == NULL || t->version < 1 || t->version > 2 ? NULL : &t->u.v1;
}

void ref_quant_release(ref_quant *q)
{
    free(q->scales);
    free(q->offsets);
    free(q->block_scales);
    *q = (ref_quant){0};
}

static bool same_bytes(const void *a, const void *b, size_t n)
{
    return (a == NULL) == (b == NULL) && (a == NULL || memcmp(a, b, n) == 0);
}

bool ref_quant_equal(const ref_quant *a, const ref_quant *b)
{
    return a->definition == b->definition && a->encoding == b->encoding &&
           memcmp(&a->one, &b->one, sizeof a->one) == 0 && a->axis == b->axis && a->n == b->n &&
           a->bits == b->bits && a->n_blocks == b->n_blocks &&
           memcmp(a->block, b->block, sizeof a->block) == 0 &&
           same_bytes(a->scales, b->scales, a->n * sizeof *a->scales) &&
           same_bytes(a->offsets, b->offsets, a->n * sizeof *a->offsets) &&
           same_bytes(a->block_scales, b->block_scales,
                      (size_t)a->n * a->n_blocks * sizeof *a->block_scales);
}

/* n pairs of the interface, as two lists. */
static abi_error copy_scales(ref_quant *q, const abi_scale_offset *from, uint32_t n)
{
    q->n = n;
    q->scales = malloc(n * sizeof *q->scales);
    q->offsets = malloc(n * sizeof *q->offsets);
    if (q->scales == NULL || q->offsets == NULL)
        return ABI_MEM_ALLOC;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        q->scales[i] = from[i].scale;
        q->offsets[i] = from[i].offset;
        any = any || from[i].offset != 0;
    }
    if (!any) {
        free(q->offsets);
        q->offsets = NULL;
    }
    return 0;
}

static bool good_axis(const ref_tensor *t, int32_t axis, uint32_t n)
{
    return axis >= 0 && (uint32_t)axis < t->rank && t->dims[axis] == n;
}

static abi_error read_bw_axis(ref_tensor *t, const abi_quant *from)
{
    ref_quant *q = &t->quant;
    q->bits = from->u.bw_axis.bits;
    q->axis = from->u.bw_axis.axis;
    if (!good_axis(t, q->axis, from->u.bw_axis.n) || from->u.bw_axis.scales == NULL)
        return ABI_TENSOR_PARAMETER;
    q->n = from->u.bw_axis.n;
    q->scales = malloc(q->n * sizeof *q->scales);
    if (q->scales == NULL)
        return ABI_MEM_ALLOC;
    memcpy(q->scales, from->u.bw_axis.scales, q->n * sizeof *q->scales);
    for (uint32_t i = 0; from->u.bw_axis.offsets != NULL && i < q->n; i++) {
        if (from->u.bw_axis.offsets[i] != 0 && q->offsets == NULL) {
            q->offsets = malloc(q->n * sizeof *q->offsets);
            if (q->offsets == NULL)
                return ABI_MEM_ALLOC;
            memcpy(q->offsets, from->u.bw_axis.offsets, q->n * sizeof *q->offsets);
        }
    }
    return 0;
}

/* The axis that a linear operation sums over, whose length the blocks divide: the one before the
 * channels, or after them where those come first. */
static uint32_t summed_dim(const ref_tensor *t, int32_t axis)
{
    return axis == 0 ? t->dims[t->rank - 1] : t->dims[axis - 1];
}

static abi_error read_blockwise(ref_tensor *t, const abi_quant *from)
{
    const abi_blockwise *b = from->u.blockwise;
    ref_quant *q = &t->quant;
    if (b == NULL || b->scales == NULL || b->u.block_scales8 == NULL || b->storage > 1 ||
        b->axis < 0 || (uint32_t)b->axis >= t->rank || t->rank < 2 || b->n_blocks == 0)
        return ABI_TENSOR_PARAMETER;
    uint32_t depth = summed_dim(t, b->axis);
    if (b->n_blocks > depth || depth % b->n_blocks != 0)
        return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': %u blocks do not divide %u", t->name,
                        b->n_blocks, depth);
    q->axis = b->axis;
    q->bits = b->bits;
    q->n_blocks = b->n_blocks;
    abi_error code = copy_scales(q, b->scales, t->dims[b->axis]);
    size_t n = (size_t)q->n * q->n_blocks;
    q->block_scales = code == 0 ? malloc(n * sizeof *q->block_scales) : NULL;
    if (q->block_scales == NULL)
        return ABI_MEM_ALLOC;
    for (size_t i = 0; i < n; i++)
        q->block_scales[i] = b->storage == 0 ? b->u.block_scales8[i] : b->u.block_scales16[i];
    return 0;
}

static abi_error read_block(ref_tensor *t, const abi_quant *from)
{
    ref_quant *q = &t->quant;
    if (from->u.block.size == NULL || from->u.block.scales == NULL)
        return ABI_TENSOR_PARAMETER;
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        q->block[i] = from->u.block.size[i];
        if (q->block[i] == 0 || q->block[i] > t->dims[i] || t->dims[i] % q->block[i] != 0)
            return ABI_TENSOR_PARAMETER;
        n *= t->dims[i] / q->block[i];
    }
    return copy_scales(q, from->u.block.scales, (uint32_t)n);
}

static abi_error read_quant(ref_tensor *t, const abi_quant *from)
{
    ref_quant *q = &t->quant;
    *q = (ref_quant){.definition = from->definition, .encoding = from->encoding};
    if (from->definition == ABI_UNDEFINED) {
        if (ref_is_fixed(t->data_type) || from->encoding != ABI_UNDEFINED)
            return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': %s without an encoding", t->name,
                            ref_type_name(t->data_type));
        return 0;
    }
    if (from->definition != ABI_DEFINED)
        return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': definition %u of the encoding", t->name,
                        from->definition);
    switch (from->encoding) {
    case ABI_SCALE_OFFSET:
        q->one = from->u.scale_offset;
        return 0;
    case ABI_AXIS:
        q->axis = from->u.axis.axis;
        if (!good_axis(t, q->axis, from->u.axis.n) || from->u.axis.scales == NULL)
            return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': axis %d with %u scales", t->name,
                            q->axis, from->u.axis.n);
        return copy_scales(q, from->u.axis.scales, from->u.axis.n);
    case ABI_BW:
        q->bits = from->u.bw.bits;
        q->one = (abi_scale_offset){from->u.bw.scale, from->u.bw.offset};
        return 0;
    case ABI_BW_AXIS:
        return read_bw_axis(t, from);
    case ABI_BLOCK:
        return read_block(t, from);
    case ABI_BLOCKWISE:
        return read_blockwise(t, from);
    default:
        return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': encoding %u is not known", t->name,
                        from->encoding);
    }
}

static abi_error check_place(const ref_tensor *t, const abi_tensor1 *v, const abi_tensor *from)
{
    if (v->type > ABI_STATIC || v->type == ABI_APP_READWRITE)
        return ref_fail(ABI_TENSOR_UNSUPPORTED, "tensor '%s': type %u", t->name, v->type);
    if (v->data_format != 0)
        return ref_fail(ABI_TENSOR_UNSUPPORTED, "tensor '%s': data format %u", t->name,
                        v->data_format);
    if (v->mem_type > ABI_MEMHANDLE || (v->type == ABI_STATIC && v->mem_type != ABI_RAW))
        return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': memory type %u", t->name, v->mem_type);
    if (from->version == 2 && (from->u.v2.is_dynamic != NULL || from->u.v2.is_produced > 1))
        return ref_fail(ABI_TENSOR_UNSUPPORTED, "tensor '%s': dynamic dimensions", t->name);
    return 0;
}

static abi_error read_shape(ref_tensor *t, const abi_tensor1 *v)
{
    if (v->rank < 1 || v->rank > REF_MAX_RANK || v->dims == NULL)
        return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': rank %u, expected 1 to 5", t->name,
                        v->rank);
    t->rank = v->rank;
    t->n = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        t->dims[i] = v->dims[i];
        if (t->dims[i] == 0 || t->n > (UINT64_C(1) << 34) / t->dims[i])
            return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': dimension %u is %u", t->name, i,
                            t->dims[i]);
        t->n *= t->dims[i];
    }
    uint32_t bytes = ref_type_bytes(v->data_type);
    if (bytes == 0)
        return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': data type 0x%x", t->name, v->data_type);
    t->bytes = t->n * bytes;
    return t->bytes > UINT32_MAX
               ? ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': 4 GiB or more", t->name)
               : 0;
}

uint32_t ref_name_hash(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

abi_error ref_tensor_read(ref_tensor *t, const abi_tensor *from)
{
    const abi_tensor1 *v = ref_tensor1(from);
    *t = (ref_tensor){0};
    if (v == NULL)
        return ref_fail(ABI_TENSOR_PARAMETER, "a tensor of version %u, expected 1 or 2",
                        from != NULL ? from->version : 0);
    if (v->name == NULL || v->name[0] == '\0')
        return ref_fail(ABI_TENSOR_PARAMETER, "a tensor without a name");
    t->name = strdup(v->name);
    if (t->name == NULL)
        return ABI_MEM_ALLOC;
    t->name_hash = ref_name_hash(t->name);
    t->id = v->id;
    t->type = v->type;
    t->data_type = v->data_type;
    t->mem_type = v->mem_type;
    abi_error code = check_place(t, v, from);
    if (code == 0)
        code = read_shape(t, v);
    if (code == 0)
        code = read_quant(t, &v->quant);
    if (code == ABI_TENSOR_PARAMETER)
        ref_log(REF_ERROR, "tensor '%s': invalid encoding or shape", t->name);
    if (code != 0)
        ref_tensor_release(t);
    return code;
}

void ref_tensor_release(ref_tensor *t)
{
    ref_quant_release(&t->quant);
    free(t->name);
    *t = (ref_tensor){0};
}
