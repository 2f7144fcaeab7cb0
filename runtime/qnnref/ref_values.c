/* Values of tensors as real numbers and back. */
#include "qnnref/ref_ops.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

double ref_round(double v, ref_rounding how)
{
    static int forced = -1;
    if (forced < 0) {
        const char *text = getenv("FERRY_REF_ROUND");
        forced = text == NULL                 ? REF_TRUNC + 1
                 : strcmp(text, "away") == 0  ? REF_AWAY
                 : strcmp(text, "up") == 0    ? REF_UP
                 : strcmp(text, "trunc") == 0 ? REF_TRUNC
                                              : REF_TRUNC + 1;
    }
    if (forced <= REF_TRUNC)
        how = (ref_rounding)forced;
    switch (how) {
    case REF_AWAY:
        return v < 0 ? -ref_floor(0.5 - v) : ref_floor(v + 0.5);
    case REF_UP:
        return ref_floor(v + 0.5);
    case REF_DOWN:
        return -ref_floor(0.5 - v);
    case REF_TRUNC:
        return ref_floor(v);
    case REF_EVEN:
    default:
        return ref_rint(v);
    }
}

bool ref_is_float(uint32_t type)
{
    return type == ABI_F16 || type == ABI_F32;
}

bool ref_same_shape(const ref_tensor *a, const ref_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

abi_error ref_bad_node(const ref_node *n, const char *why)
{
    return ref_fail(ABI_GRAPH_OP, "node '%s' (%s): %s", n->name, n->op->name, why);
}

void ref_load_codes(int32_t *to, const ref_tensor *t, const void *p, uint64_t first, uint64_t n)
{
    int32_t o = t->quant.definition == ABI_DEFINED && t->quant.encoding == ABI_SCALE_OFFSET
                    ? t->quant.one.offset
                    : 0;
    switch (t->data_type) {
    case ABI_U8:
    case ABI_UI8:
    case ABI_BOOL:
        for (uint64_t i = 0; i < n; i++)
            to[i] = ((const uint8_t *)p)[first + i] + o;
        break;
    case ABI_S8:
    case ABI_I8:
        for (uint64_t i = 0; i < n; i++)
            to[i] = ((const int8_t *)p)[first + i] + o;
        break;
    case ABI_U16:
    case ABI_UI16:
        for (uint64_t i = 0; i < n; i++)
            to[i] = ((const uint16_t *)p)[first + i] + o;
        break;
    case ABI_S16:
    case ABI_I16:
        for (uint64_t i = 0; i < n; i++)
            to[i] = ((const int16_t *)p)[first + i] + o;
        break;
    default:
        memcpy(to, (const int32_t *)p + first, n * sizeof *to);
    }
}

void ref_load(double *to, const ref_tensor *t, const void *p, uint64_t first, uint64_t n, bool half)
{
    int32_t codes[256];
    if (t->data_type == ABI_F16) {
        for (uint64_t i = 0; i < n; i++)
            to[i] = (double)fy_f16_to_f32(((const uint16_t *)p)[first + i]);
        return;
    }
    if (t->data_type == ABI_F32) {
        for (uint64_t i = 0; i < n; i++) {
            float v = ((const float *)p)[first + i];
            to[i] = (double)(half ? fy_f16_to_f32(fy_f32_to_f16(v)) : v);
        }
        return;
    }
    double scale = ref_is_fixed(t->data_type) ? (double)t->quant.one.scale : 1.0;
    for (uint64_t at = 0; at < n; at += 256) {
        uint64_t now = n - at < 256 ? n - at : 256;
        ref_load_codes(codes, t, p, first + at, now);
        for (uint64_t i = 0; i < now; i++)
            to[at + i] = (double)codes[i] * scale;
    }
}

static double clamp(double v, double low, double high)
{
    return v > low ? (v < high ? v : high) : low; /* NaN becomes low */
}

int32_t ref_quantize(const ref_tensor *t, double real, ref_rounding how)
{
    double low, high;
    ref_type_limits(t->data_type, &low, &high);
    double v = real / (double)t->quant.one.scale;
    v = real != real ? -(double)t->quant.one.offset : ref_round(v, how) - t->quant.one.offset;
    return (int32_t)clamp(v, low, high);
}

void ref_store(void *p, const ref_tensor *t, uint64_t first, const double *from, uint64_t n,
               ref_rounding how, bool half)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = first + i;
        switch (t->data_type) {
        case ABI_F16:
            ((uint16_t *)p)[at] = fy_f32_to_f16((float)from[i]);
            break;
        case ABI_F32: {
            float v = (float)from[i];
            ((float *)p)[at] = half ? fy_f16_to_f32(fy_f32_to_f16(v)) : v;
            break;
        }
        case ABI_BOOL:
        case ABI_UI8:
        case ABI_I8:
            ((uint8_t *)p)[at] = (uint8_t)(int32_t)from[i];
            break;
        case ABI_UI32:
        case ABI_I32:
            ((int32_t *)p)[at] = (int32_t)clamp(from[i], -2147483648.0, 2147483647.0);
            break;
        case ABI_U8:
        case ABI_S8:
            ((uint8_t *)p)[at] = (uint8_t)ref_quantize(t, from[i], how);
            break;
        case ABI_U16:
        case ABI_S16:
            ((uint16_t *)p)[at] = (uint16_t)ref_quantize(t, from[i], how);
            break;
        default:
            ((int32_t *)p)[at] = ref_quantize(t, from[i], how);
        }
    }
}

int ref_multiplier_bits(double most)
{
    int bits = 15;
    while (bits > -30 && ref_rint(most * ref_power_of_two(bits)) > 32767.0)
        bits--;
    return bits;
}
