/* Special and added tokens in a text: leftmost match, longest first, found by narrowing a range of
 * the sorted texts byte by byte. Attributes as in huggingface/tokenizers
 * AddedVocabulary::find_matches. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "model/vocab/vocab_impl.h"

static int by_text(const void *pa, const void *pb)
{
    const fy_special *a = pa, *b = pb;
    size_t n = a->text.len < b->text.len ? a->text.len : b->text.len;
    int c = memcmp(a->text.ptr, b->text.ptr, n);
    if (c != 0)
        return c;
    if (a->text.len != b->text.len)
        return a->text.len < b->text.len ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

void fy_specials_sort(fy_specials *s)
{
    if (s->n > 0)
        qsort(s->item, s->n, sizeof *s->item, by_text);
    uint32_t i = 0;
    for (uint32_t b = 0; b < 256; b++) {
        s->first[b] = i;
        while (i < s->n && (uint8_t)s->item[i].text.ptr[0] == b)
            i++;
    }
    s->first[256] = i;
}

bool fy_is_white_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

/* \w of the reference's regular expressions. */
static bool is_word(uint32_t c)
{
    const uint32_t word =
        1u << UTF8PROC_CATEGORY_LU | 1u << UTF8PROC_CATEGORY_LL | 1u << UTF8PROC_CATEGORY_LT |
        1u << UTF8PROC_CATEGORY_LM | 1u << UTF8PROC_CATEGORY_LO | 1u << UTF8PROC_CATEGORY_MN |
        1u << UTF8PROC_CATEGORY_MC | 1u << UTF8PROC_CATEGORY_ME | 1u << UTF8PROC_CATEGORY_ND |
        1u << UTF8PROC_CATEGORY_NL | 1u << UTF8PROC_CATEGORY_PC;
    return (word >> utf8proc_category((utf8proc_int32_t)c) & 1) || c == 0x200C || c == 0x200D;
}

/* The character that ends at text[end]; 0 when there is none that is valid. Sets its length. */
static uint32_t char_before(fy_span text, size_t end, size_t *len)
{
    for (size_t n = 1; n <= 4 && n <= end; n++) {
        uint32_t cp;
        if (fy_utf8_next(text.ptr + end - n, n, &cp) == (int)n) {
            *len = n;
            return cp;
        }
    }
    *len = 0;
    return 0;
}

static uint32_t char_at(fy_span text, size_t pos, size_t *len)
{
    uint32_t cp = 0;
    *len = pos < text.len ? (size_t)fy_utf8_next(text.ptr + pos, text.len - pos, &cp) : 0;
    return *len > 0 ? cp : 0;
}

static bool stands_alone(fy_span text, size_t begin, size_t end)
{
    size_t before, after;
    uint32_t b = char_before(text, begin, &before), a = char_at(text, end, &after);
    return !(before > 0 && is_word(b)) && !(after > 0 && is_word(a));
}

/* The byte at `depth`, -1 for a text that ends there (such texts sort first). */
static int byte_at(const fy_special *s, size_t depth)
{
    return depth < s->text.len ? (uint8_t)s->text.ptr[depth] : -1;
}

/* First item of [lo, hi) whose byte at `depth` is at least b; they share the bytes before it. */
static uint32_t lower_bound(const fy_specials *s, uint32_t lo, uint32_t hi, size_t depth, int b)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (byte_at(&s->item[mid], depth) < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static const fy_special *longest_at(const fy_specials *s, fy_span text, size_t pos,
                                    bool parse_special)
{
    const fy_special *best = NULL;
    uint32_t b = (uint8_t)text.ptr[pos], lo = s->first[b], hi = s->first[b + 1];
    for (size_t depth = 1; lo < hi; depth++) {
        for (; lo < hi && s->item[lo].text.len == depth; lo++) {
            const fy_special *it = &s->item[lo];
            if ((it->always || parse_special) && (best == NULL || best->text.len < depth) &&
                (!(it->flags & FY_ADDED_SINGLE_WORD) || stands_alone(text, pos, pos + depth)))
                best = it;
        }
        if (pos + depth >= text.len)
            break;
        int next = (uint8_t)text.ptr[pos + depth];
        lo = lower_bound(s, lo, hi, depth, next);
        hi = lower_bound(s, lo, hi, depth, next + 1);
    }
    return best;
}

bool fy_specials_next(const fy_specials *s, fy_span text, size_t pos, bool parse_special,
                      fy_special_match *m)
{
    if (s->n == 0)
        return false;
    for (size_t i = pos; i < text.len; i++) {
        const fy_special *it = longest_at(s, text, i, parse_special);
        if (it == NULL)
            continue;
        *m = (fy_special_match){i, i + it->text.len, it->id};
        size_t len;
        if (it->flags & FY_ADDED_LSTRIP) {
            while (m->begin > pos && fy_is_white_space(char_before(text, m->begin, &len)) &&
                   len <= m->begin - pos)
                m->begin -= len;
        }
        if (it->flags & FY_ADDED_RSTRIP) {
            while (fy_is_white_space(char_at(text, m->end, &len)))
                m->end += len;
        }
        return true;
    }
    return false;
}
