/* Texts looked for in another text. Sorted, those with a common beginning are one range, which a
 * walk along the text narrows byte by byte. Special and added tokens are found with it: the
 * leftmost match, the longest there, with attributes as in huggingface/tokenizers
 * AddedVocabulary::find_matches. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/str.h"
#include "model/vocab/vocab_impl.h"

/* --- sorted texts --- */

static int by_text(const void *pa, const void *pb)
{
    const fy_prefix_item *a = pa, *b = pb;
    size_t n = a->text.len < b->text.len ? a->text.len : b->text.len;
    int c = n > 0 ? memcmp(a->text.ptr, b->text.ptr, n) : 0;
    if (c != 0)
        return c;
    if (a->text.len != b->text.len)
        return a->text.len < b->text.len ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Both runs are sorted: [0, mid) and [mid, n) of `from` become one in `to`. */
static int merge(const fy_prefix_item *from, uint32_t mid, uint32_t n, fy_prefix_item *to,
                 fy_err *e)
{
    for (uint32_t i = 0, j = mid, k = 0; k < n; k++) {
        if (fy_vocab_poll(k, e) != 0)
            return -1;
        const bool left = j == n || (i < mid && by_text(&from[i], &from[j]) <= 0);
        to[k] = left ? from[i++] : from[j++];
    }
    return 0;
}

/* Runs that qsort takes little time for, then merged: a file may have millions of items, and the
 * user may interrupt. */
static int sort(fy_prefix_item *item, uint32_t n, fy_err *e)
{
    enum { RUN = 65536 };
    for (uint32_t i = 0; i < n; i += n - i < RUN ? n - i : RUN) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        qsort(item + i, n - i < RUN ? n - i : RUN, sizeof *item, by_text);
    }
    if (n <= RUN)
        return 0;
    fy_prefix_item *const other = malloc(n * sizeof *other);
    if (other == NULL)
        return fy_nomem(e);
    fy_prefix_item *from = item, *to = other;
    int rc = 0;
    for (uint64_t run = RUN; rc == 0 && run < n; run *= 2) {
        for (uint64_t i = 0; rc == 0 && i < n; i += 2 * run) {
            const uint32_t left = n - (uint32_t)i;
            const uint32_t mid = run < left ? (uint32_t)run : left;
            rc = merge(from + i, mid, 2 * run < left ? (uint32_t)(2 * run) : left, to + i, e);
        }
        fy_prefix_item *swap = from;
        from = to;
        to = swap;
    }
    if (rc == 0 && from != item)
        memcpy(item, from, n * sizeof *item);
    free(other);
    return rc;
}

int fy_prefixes_sort(fy_prefixes *p, fy_err *e)
{
    if (sort(p->item, p->n, e) != 0)
        return -1;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        if (n == 0 || !fy_span_eq(p->item[n - 1].text, p->item[i].text))
            p->item[n++] = p->item[i];
    }
    p->n = n;
    for (uint32_t b = 0, i = 0; b <= 256; b++) {
        p->first[b] = i;
        while (b < 256 && i < n && (uint8_t)p->item[i].text.ptr[0] == b)
            i++;
    }
    return 0;
}

static int byte_at(const fy_prefixes *p, uint32_t i, size_t depth)
{
    return (uint8_t)p->item[i].text.ptr[depth];
}

/* First item of [lo, hi) whose byte at `depth`, which all of them have, is at least b. */
static uint32_t lower_bound(const fy_prefixes *p, uint32_t lo, uint32_t hi, size_t depth, int b)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (byte_at(p, mid, depth) < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool fy_prefixes_step(const fy_prefixes *p, fy_prefix_walk *w, uint8_t byte, int32_t *id)
{
    if (w->depth == 0) {
        w->lo = p->first[byte];
        w->hi = p->first[byte + 1];
    } else {
        /* The text that ends here was reported by the step before. */
        w->lo += p->item[w->lo].text.len == w->depth;
        const bool one_byte =
            w->lo < w->hi && byte_at(p, w->lo, w->depth) == byte_at(p, w->hi - 1, w->depth);
        if (!one_byte || byte_at(p, w->lo, w->depth) != byte) {
            w->lo = one_byte ? w->hi : lower_bound(p, w->lo, w->hi, w->depth, byte);
            w->hi = one_byte ? w->hi : lower_bound(p, w->lo, w->hi, w->depth, byte + 1);
        }
    }
    w->depth++;
    bool ends = w->lo < w->hi && p->item[w->lo].text.len == w->depth;
    *id = ends ? p->item[w->lo].id : -1;
    return w->lo < w->hi;
}

size_t fy_prefixes_longest(const fy_prefixes *p, fy_span s, int32_t *id, size_t *work)
{
    fy_prefix_walk w = {0};
    size_t found = 0;
    int32_t here;
    while (w.depth < s.len && fy_prefixes_step(p, &w, (uint8_t)s.ptr[w.depth], &here)) {
        if (here >= 0) {
            found = w.depth;
            *id = here;
        }
    }
    *work += w.depth;
    return found;
}

/* --- special tokens --- */

/* Would `item` never be taken, because one before it is whenever it could be? */
static bool is_shadowed(const fy_special *before, const fy_special *item)
{
    return (before->always || !item->always) &&
           (!(before->flags & FY_ADDED_SINGLE_WORD) || (item->flags & FY_ADDED_SINGLE_WORD));
}

/* Puts the item, unless it is shadowed, at the end of the chain of those with its text, which
 * begins at `first`. Such a chain has at most four. */
static void chain(fy_specials *s, int32_t first, int32_t item)
{
    fy_special *at = &s->item[first];
    while (!is_shadowed(at, &s->item[item])) {
        if (at->next < 0) {
            at->next = item;
            return;
        }
        at = &s->item[at->next];
    }
}

int fy_specials_prepare(fy_specials *s, fy_arena *a, fy_err *e)
{
    fy_prefixes *p = &s->by_text;
    p->item = fy_arena_calloc(a, s->n, sizeof *p->item);
    if (p->item == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < s->n; i++)
        p->item[p->n++] = (fy_prefix_item){s->item[i].text, (int32_t)i};
    if (fy_prefixes_sort(p, e) != 0)
        return -1;
    for (uint32_t i = 0; i < s->n; i++) {
        int32_t first;
        size_t work = 0;
        s->item[i].next = -1;
        fy_prefixes_longest(p, s->item[i].text, &first, &work);
        if (fy_vocab_poll(i, e) != 0)
            return -1;
        if ((uint32_t)first != i)
            chain(s, first, (int32_t)i);
    }
    return 0;
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

/* The item with the longest text at `pos` that is to be taken there, NULL: none. */
static const fy_special *longest_at(fy_encoder *enc, const fy_specials *s, fy_span text, size_t pos)
{
    const fy_special *best = NULL;
    fy_prefix_walk w = {0};
    int32_t here;
    while (pos + w.depth < text.len &&
           fy_prefixes_step(&s->by_text, &w, (uint8_t)text.ptr[pos + w.depth], &here)) {
        for (; here >= 0; here = s->item[here].next) {
            const fy_special *it = &s->item[here];
            if ((it->always || enc->parse_special) &&
                (!(it->flags & FY_ADDED_SINGLE_WORD) || stands_alone(text, pos, pos + w.depth))) {
                best = it;
                break;
            }
        }
    }
    enc->work += w.depth;
    return best;
}

int fy_specials_next(fy_encoder *enc, const fy_specials *s, fy_span text, size_t pos,
                     fy_special_match *m, fy_err *e)
{
    for (size_t i = pos; s->n > 0 && i < text.len; i++) {
        const uint8_t b = (uint8_t)text.ptr[i];
        if (s->by_text.first[b] == s->by_text.first[b + 1]) /* nearly always */
            continue;
        const fy_special *it = longest_at(enc, s, text, i);
        if (fy_encoder_poll(enc, 0, e) != 0)
            return -1;
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
        return 1;
    }
    return 0;
}
