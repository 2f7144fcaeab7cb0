#include "model/vocab/charsmap.h"

#include <string.h>

#include "base/math.h"

/* Units come in blocks of 256. */
enum { BLOCK_BYTES = 1024 };

int fy_charsmap_parse(fy_charsmap *m, const void *p, size_t n, fy_err *e)
{
    *m = (fy_charsmap){0};
    if (n == 0)
        return 0;
    uint32_t trie = n > 4 ? fy_le32(p) : 0;
    if (n <= 4 || n > UINT32_MAX || trie >= n - 4 || trie == 0 || trie % BLOCK_BYTES != 0)
        return fy_fail(e, FY_EFORMAT,
                       "the normaliser map has %zu bytes and says that its trie takes %u, expected "
                       "a multiple of %d and texts behind it",
                       n, (unsigned)trie, BLOCK_BYTES);
    const uint8_t *b = p;
    if (b[n - 1] != '\0')
        return fy_fail(e, FY_EFORMAT, "the normaliser map: its last text does not end with a NUL");
    *m = (fy_charsmap){.unit = b + 4,
                       .n_units = trie / 4,
                       .text = (const char *)b + 4 + trie,
                       .n_text = (uint32_t)n - 4 - trie};
    return 0;
}

/* Of a unit: where its children are, relative to it; the byte that leads to it, with the top bit
 * set in a leaf; has a child been made a leaf? */
static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

static uint32_t label_of(uint32_t unit)
{
    return unit & (1u << 31 | 0xFF);
}

static bool has_leaf(uint32_t unit)
{
    return unit >> 8 & 1;
}

static size_t match(const fy_charsmap *m, fy_span s, bool shortest, fy_span *by)
{
    uint32_t value, to = 0;
    size_t found = 0, n = s.len < FY_CHARSMAP_KEY_MAX ? s.len : FY_CHARSMAP_KEY_MAX;
    if (m->n_units == 0)
        return 0;
    uint32_t at = offset_of(fy_le32(m->unit));
    for (size_t i = 0; i < n && !(shortest && found > 0); i++) {
        uint32_t c = (uint8_t)s.ptr[i];
        at ^= c;
        if (at >= m->n_units)
            break;
        uint32_t unit = fy_le32(m->unit + (size_t)4 * at);
        if (label_of(unit) != c)
            break;
        at ^= offset_of(unit);
        if (!has_leaf(unit))
            continue;
        if (at >= m->n_units)
            break;
        value = fy_le32(m->unit + (size_t)4 * at) & 0x7FFFFFFF;
        if (value >= m->n_text)
            break;
        found = i + 1;
        to = value;
    }
    if (found > 0)
        *by = fy_span_of(m->text + to);
    return found;
}

size_t fy_charsmap_match(const fy_charsmap *m, fy_span s, fy_span *by)
{
    return match(m, s, false, by);
}

size_t fy_charsmap_shortest(const fy_charsmap *m, fy_span s, fy_span *by)
{
    return match(m, s, true, by);
}
