/* Checked arithmetic on sizes that come from files, and little-endian loads and stores on unaligned
 * bytes. The checked functions return false and leave *out alone when the result does not fit. */
#ifndef FY_BASE_MATH_H
#define FY_BASE_MATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "ferry reads and writes little-endian formats in place: big-endian hosts are not supported"
#endif

static inline bool fy_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool fy_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Rounds up to a multiple of `align` (a power of two). */
static inline bool fy_align_u64(uint64_t a, uint64_t align, uint64_t *out)
{
    uint64_t r;
    if (!fy_add_u64(a, align - 1, &r))
        return false;
    *out = r & ~(align - 1);
    return true;
}

static inline uint16_t fy_le16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t fy_le32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t fy_le64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline float fy_lef32(const void *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
