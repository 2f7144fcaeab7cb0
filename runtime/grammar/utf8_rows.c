/* Ranges of characters as ranges of the bytes that UTF-8 writes them with. */
#include "grammar/rules.h"

#include <stdlib.h>

#define LAST_CHAR       0x10FFFFu
#define FIRST_SURROGATE 0xD800u
#define LAST_SURROGATE  0xDFFFu

static int by_lo(const void *a, const void *b)
{
    uint32_t x = ((const fy_cp_range *)a)->lo, y = ((const fy_cp_range *)b)->lo;
    return x < y ? -1 : x > y;
}

/* Takes the surrogates out of sorted ranges; at most one of them goes on after the last. */
static size_t cut_surrogates(fy_cp_range *r, size_t n)
{
    size_t kept = 0;
    bool split = false;
    for (size_t i = 0; i < n; i++) {
        fy_cp_range x = r[i];
        if (x.lo >= FIRST_SURROGATE && x.lo <= LAST_SURROGATE)
            x.lo = LAST_SURROGATE + 1;
        if (x.hi >= FIRST_SURROGATE && x.hi <= LAST_SURROGATE)
            x.hi = FIRST_SURROGATE - 1;
        if (x.lo > x.hi)
            continue;
        split |= x.lo < FIRST_SURROGATE && x.hi > LAST_SURROGATE;
        r[kept++] = x;
    }
    if (!split)
        return kept;
    size_t at = 0;
    while (r[at].hi < FIRST_SURROGATE)
        at++;
    for (size_t i = kept; i > at; i--)
        r[i] = r[i - 1];
    r[at].hi = FIRST_SURROGATE - 1;
    r[at + 1].lo = LAST_SURROGATE + 1;
    return kept + 1;
}

size_t fy_cp_ranges_normalize(fy_cp_range *ranges, size_t n)
{
    size_t kept = 0;
    if (n > 0)
        qsort(ranges, n, sizeof *ranges, by_lo);
    for (size_t i = 0; i < n; i++) {
        fy_cp_range r = ranges[i];
        r.hi = r.hi < LAST_CHAR ? r.hi : LAST_CHAR;
        if (r.lo > r.hi)
            continue;
        if (kept > 0 && r.lo <= ranges[kept - 1].hi + 1)
            ranges[kept - 1].hi = r.hi > ranges[kept - 1].hi ? r.hi : ranges[kept - 1].hi;
        else
            ranges[kept++] = r;
    }
    return cut_surrogates(ranges, kept);
}

static uint32_t encode(uint32_t cp, uint8_t out[4])
{
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    const uint32_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (uint32_t i = n - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    out[0] = (uint8_t)(lead[n] | cp);
    return n;
}

/* The end of the first part of lo..hi whose bytes are one range in each place: all of it has the
 * same length, and where a byte varies all bytes after it take all values. */
static uint32_t end_of_row(uint32_t lo, uint32_t hi)
{
    static const uint32_t last_of_length[] = {0x7F, 0x7FF, 0xFFFF};
    for (int i = 0; i < 3; i++) {
        if (lo <= last_of_length[i] && hi > last_of_length[i])
            hi = last_of_length[i];
    }
    if (hi <= 0x7F)
        return hi;
    for (int i = 1; i < 4; i++) {
        const uint32_t low = (1u << (6 * i)) - 1;
        if ((lo & ~low) == (hi & ~low))
            break;
        if ((lo & low) != 0)
            return lo | low;
        if ((hi & low) != low)
            hi = (hi & ~low) - 1;
    }
    return hi;
}

size_t fy_utf8_rows(fy_cp_range range, fy_utf8_row out[24])
{
    size_t n = 0;
    for (uint32_t lo = range.lo; lo <= range.hi;) {
        const uint32_t hi = end_of_row(lo, range.hi);
        out[n].n = encode(lo, out[n].lo);
        encode(hi, out[n].hi);
        n++;
        lo = hi + 1;
    }
    return n;
}
