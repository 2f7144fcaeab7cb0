#include "model/template/template_builtin.h"

#include <string.h>
#include <utf8proc.h>

#include "base/math.h"
#include "base/utf8.h"
#include "model/template/template_case_table.h"

enum { RAW = 0x7fffff00 }; /* RAW + byte: a byte that is not UTF-8 */

uint32_t fy_tu_next(const char **p, const char *end)
{
    unsigned char c = (unsigned char)**p;
    if (c < 0x80) {
        ++*p;
        return c;
    }
    uint32_t cp;
    int n = fy_utf8_next(*p, (size_t)(end - *p), &cp);
    if (n == 0) {
        ++*p;
        return RAW + c;
    }
    *p += n;
    return cp;
}

/* A continuation byte belongs to the nearest lead byte before it when that decodes to reach it. */
uint32_t fy_tu_prev(const char *begin, const char **p)
{
    const char *end = *p, *q = end - 1;
    for (int back = 0; back < 3 && q > begin && ((unsigned char)*q & 0xc0) == 0x80; back++)
        q--;
    const char *after = q;
    uint32_t cp = fy_tu_next(&after, end);
    if (after != end) {
        q = end - 1;
        cp = RAW + (unsigned char)*q;
    }
    *p = q;
    return cp;
}

size_t fy_tu_put(char out[4], uint32_t cp)
{
    if (cp < 0x80 || cp >= RAW) {
        out[0] = (char)(unsigned char)(cp & 0xff);
        return 1;
    }
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)cp, (utf8proc_uint8_t *)out);
}

size_t fy_tu_length(fy_span s)
{
    size_t n = 0;
    for (const char *p = s.ptr, *end = s.ptr + s.len; p < end; n++)
        fy_tu_next(&p, end);
    return n;
}

const char *fy_tu_at(fy_span s, size_t i)
{
    const char *p = s.ptr, *end = s.ptr + s.len;
    while (i > 0 && p < end) {
        fy_tu_next(&p, end);
        i--;
    }
    return p;
}

fy_span fy_tu_slice(fy_span s, size_t start, size_t stop)
{
    const char *from = fy_tu_at(s, start);
    fy_span rest = {from, (size_t)(s.ptr + s.len - from)};
    const char *to = stop > start ? fy_tu_at(rest, stop - start) : from;
    return (fy_span){from, (size_t)(to - from)};
}

/* --- properties --------------------------------------------------------------------------------
 */

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

static bool in_ranges(const fy_tu_range *r, size_t n, uint32_t cp)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (cp > r[mid].last)
            low = mid + 1;
        else if (cp < r[mid].first)
            high = mid;
        else
            return true;
    }
    return false;
}

bool fy_tu_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x1f);
    return cp == 0x85 || cp == 0x2028 || cp == 0x2029 || category(cp) == UTF8PROC_CATEGORY_ZS;
}

bool fy_tu_is_alpha(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool fy_tu_is_decimal(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

bool fy_tu_is_digit(uint32_t cp)
{
    return fy_tu_is_decimal(cp) || in_ranges(fy_tu_other_digit, fy_tu_other_digit_n, cp);
}

bool fy_tu_is_numeric(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) ||
           in_ranges(fy_tu_other_numeric, fy_tu_other_numeric_n, cp);
}

bool fy_tu_is_word(uint32_t cp)
{
    return fy_tu_is_alpha(cp) || fy_tu_is_numeric(cp) || cp == '_';
}

bool fy_tu_is_lower(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LL ||
           in_ranges(fy_tu_other_lower, fy_tu_other_lower_n, cp);
}

bool fy_tu_is_upper(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LU ||
           in_ranges(fy_tu_other_upper, fy_tu_other_upper_n, cp);
}

bool fy_tu_is_title(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LT;
}

bool fy_tu_is_printable(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= ' ' && cp < 0x7f;
    utf8proc_category_t c = category(cp);
    return c != UTF8PROC_CATEGORY_CN && !(c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_CO);
}

/* Decimal digits of a script are ten code points in a row, several such rows may touch. */
int fy_tu_decimal_value(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= '0' && cp <= '9' ? (int)(cp - '0') : -1;
    if (!fy_tu_is_decimal(cp))
        return -1;
    uint32_t first = cp;
    while (fy_tu_is_decimal(first - 1))
        first--;
    return (int)((cp - first) % 10);
}

size_t fy_tu_line_end(fy_span s)
{
    if (s.len == 0)
        return 0;
    unsigned char c = (unsigned char)s.ptr[0];
    if (c == '\r')
        return s.len > 1 && s.ptr[1] == '\n' ? 2 : 1;
    if ((c >= '\n' && c <= '\f') || (c >= 0x1c && c <= 0x1e))
        return 1;
    if (s.len >= 2 && memcmp(s.ptr, "\xc2\x85", 2) == 0)
        return 2;
    if (s.len >= 3 &&
        (memcmp(s.ptr, "\xe2\x80\xa8", 3) == 0 || memcmp(s.ptr, "\xe2\x80\xa9", 3) == 0))
        return 3;
    return 0;
}

/* --- case ---------------------------------------------------------------------------------------
 */

static const fy_tu_special *special(uint32_t cp)
{
    size_t low = 0, high = fy_tu_specials_n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (fy_tu_specials[mid].cp == cp)
            return &fy_tu_specials[mid];
        if (fy_tu_specials[mid].cp < cp)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static bool is_cased(uint32_t cp)
{
    return fy_tu_is_lower(cp) || fy_tu_is_upper(cp) || fy_tu_is_title(cp);
}

/* Unicode's Case_Ignorable: some categories, and the punctuation that joins words. */
static bool is_case_ignorable(uint32_t cp)
{
    static const uint16_t joining[] = {0x27,   0x2e,   0x3a,   0xb7,   0x387,  0x55f,
                                       0x5f4,  0x2018, 0x2019, 0x2024, 0x2027, 0xfe13,
                                       0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    for (size_t i = 0; i < sizeof joining / sizeof *joining; i++)
        if (joining[i] == cp)
            return true;
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK;
}

/* Sigma at `at` of s ends its word: a cased letter before it, none behind it. */
static bool is_final_sigma(fy_span s, const char *at)
{
    uint32_t cp = 0;
    const char *p = at;
    bool found = false;
    while (p > s.ptr && !found) {
        cp = fy_tu_prev(s.ptr, &p);
        found = !is_case_ignorable(cp);
    }
    if (!found || !is_cased(cp))
        return false;
    const char *end = s.ptr + s.len;
    p = at + 2; /* its own bytes */
    for (found = false; p < end && !found;) {
        cp = fy_tu_next(&p, end);
        found = !is_case_ignorable(cp);
    }
    return !found || !is_cased(cp);
}

/* Full mapping of the code point at `at` of s; returns how many code points it became. */
static int map_char(fy_span s, const char *at, uint32_t cp, fy_tu_case how, uint32_t out[4])
{
    out[0] = cp;
    if (cp >= RAW)
        return 1;
    if (how == FY_TU_FOLD) {
        utf8proc_int32_t folded[4];
        utf8proc_ssize_t n =
            utf8proc_decompose_char((utf8proc_int32_t)cp, folded, 4, UTF8PROC_CASEFOLD, NULL);
        for (utf8proc_ssize_t i = 0; i < n && i < 4; i++)
            out[i] = (uint32_t)folded[i];
        return n > 0 && n <= 4 ? (int)n : 1;
    }
    if (how == FY_TU_LOWER) {
        if (cp == 0x130) { /* I with a dot keeps the dot */
            out[0] = 'i';
            out[1] = 0x307;
            return 2;
        }
        if (cp == 0x3a3)
            out[0] = is_final_sigma(s, at) ? 0x3c2 : 0x3c3;
        else
            out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
        return 1;
    }
    const fy_tu_special *full = special(cp);
    if (full) {
        const uint16_t *to = how == FY_TU_UPPER ? full->upper : full->title;
        int n = 0;
        while (n < 3 && to[n]) {
            out[n] = to[n];
            n++;
        }
        return n;
    }
    out[0] = (uint32_t)(how == FY_TU_UPPER ? utf8proc_toupper((utf8proc_int32_t)cp)
                                           : utf8proc_totitle((utf8proc_int32_t)cp));
    return 1;
}

static char ascii_case(char c, fy_tu_case how)
{
    bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    bool to_upper = how == FY_TU_UPPER || how == FY_TU_TITLE;
    if (to_upper)
        return lower ? (char)(c - 32) : c;
    return upper ? (char)(c + 32) : c;
}

int fy_tu_put_case(fy_tm *m, fy_tbuf *b, fy_span s, fy_tu_case how)
{
    if (fy_tm_charge(m, s.len))
        return -1;
    bool after_cased = false, first = true;
    char run[64]; /* output is added in runs */
    size_t n_run = 0, slow = 0;
    for (const char *p = s.ptr, *end = s.ptr + s.len; p < end; first = false) {
        const char *at = p;
        uint32_t cp = fy_tu_next(&p, end);
        fy_tu_case one = how;
        if (how == FY_TU_SWAP)
            one = fy_tu_is_upper(cp) ? FY_TU_LOWER : FY_TU_UPPER;
        else if (how == FY_TU_CAPITALIZE)
            one = first ? FY_TU_TITLE : FY_TU_LOWER;
        else if (how == FY_TU_TITLE)
            one = after_cased ? FY_TU_LOWER : FY_TU_TITLE;
        if (how == FY_TU_TITLE)
            after_cased = is_cased(cp);
        if (how == FY_TU_SWAP && !fy_tu_is_upper(cp) && !fy_tu_is_lower(cp)) {
            n_run += fy_tu_put(run + n_run, cp);
        } else if (cp < 0x80) {
            run[n_run++] = ascii_case((char)cp, one);
        } else {
            uint32_t mapped[4];
            int n = map_char(s, at, cp, one, mapped);
            slow++;
            for (int i = 0; i < n; i++)
                n_run += fy_tu_put(run + n_run, mapped[i]);
        }
        if (n_run > sizeof run - 16) {
            if (fy_tm_charge(m, slow * 64) || fy_tbuf_add(m, b, run, n_run))
                return -1;
            n_run = slow = 0;
        }
    }
    return fy_tbuf_add(m, b, run, n_run);
}

/* --- searching and replacing --------------------------------------------------------------------
 */

static bool has_char(const fy_span *chars, uint32_t cp)
{
    if (!chars)
        return fy_tu_is_space(cp);
    for (const char *p = chars->ptr, *end = p + chars->len; p < end;)
        if (fy_tu_next(&p, end) == cp)
            return true;
    return false;
}

int fy_tu_strip(fy_tm *m, fy_span s, const fy_span *chars, int ends, fy_span *out)
{
    const char *begin = s.ptr, *end = s.ptr + s.len;
    uint64_t each = chars ? chars->len : 1;
    while ((ends & FY_TU_STRIP_LEFT) && begin < end) {
        const char *next = begin;
        if (!has_char(chars, fy_tu_next(&next, end)))
            break;
        begin = next;
        if (fy_tm_charge(m, each))
            return -1;
    }
    while ((ends & FY_TU_STRIP_RIGHT) && end > begin) {
        const char *before = end;
        if (!has_char(chars, fy_tu_prev(begin, &before)))
            break;
        end = before;
        if (fy_tm_charge(m, each))
            return -1;
    }
    *out = (fy_span){begin, (size_t)(end - begin)};
    return 0;
}

ptrdiff_t fy_tu_find(fy_span s, fy_span needle)
{
    if (needle.len == 0)
        return 0;
    if (s.len < needle.len)
        return -1;
    const char *found = memmem(s.ptr, s.len, needle.ptr, needle.len);
    return found ? found - s.ptr : -1;
}

/* An empty `old` stands before every code point and at the end. */
static int put_between(fy_tm *m, fy_tbuf *b, fy_span s, fy_span with, int64_t max)
{
    const char *p = s.ptr, *end = s.ptr + s.len;
    while (p < end && max != 0) {
        const char *at = p;
        fy_tu_next(&p, end);
        if (fy_tm_charge(m, with.len + 1) || fy_tbuf_span(m, b, with) ||
            fy_tbuf_add(m, b, at, (size_t)(p - at)))
            return -1;
        max -= max > 0;
    }
    if (p < end)
        return fy_tbuf_add(m, b, p, (size_t)(end - p));
    return max != 0 ? fy_tbuf_span(m, b, with) : 0;
}

int fy_tu_replace(fy_tm *m, fy_tbuf *b, fy_span s, fy_span old, fy_span with, int64_t max)
{
    if (fy_tm_charge(m, s.len))
        return -1;
    if (old.len == 0)
        return put_between(m, b, s, with, max);
    while (max != 0) {
        ptrdiff_t at = fy_tu_find(s, old);
        if (at < 0)
            break;
        if (fy_tm_charge(m, with.len) || fy_tbuf_add(m, b, s.ptr, (size_t)at) ||
            fy_tbuf_span(m, b, with))
            return -1;
        s.ptr += (size_t)at + old.len;
        s.len -= (size_t)at + old.len;
        max -= max > 0;
    }
    return fy_tbuf_span(m, b, s);
}

int fy_tu_repeat(fy_tm *m, fy_tbuf *b, fy_span pattern, uint64_t n)
{
    uint64_t bytes;
    if (!fy_mul_u64(pattern.len, n, &bytes) || bytes > m->bytes_left)
        bytes = UINT64_MAX / 2; /* what no budget covers: charging it records the error */
    if (fy_tm_charge(m, bytes))
        return -1;
    for (uint64_t i = 0; i < n && pattern.len; i++)
        if (fy_tbuf_span(m, b, pattern))
            return -1;
    return 0;
}

int fy_tu_pad(fy_tm *m, fy_tbuf *b, fy_span s, uint64_t left, uint64_t right, fy_span fill)
{
    return fy_tu_repeat(m, b, fill, left) || fy_tbuf_span(m, b, s) ||
                   fy_tu_repeat(m, b, fill, right)
               ? -1
               : 0;
}

int fy_tu_center(fy_tm *m, fy_tbuf *b, fy_span s, int64_t width, fy_span fill)
{
    int64_t n = (int64_t)fy_tu_length(s);
    if (fy_tm_charge(m, s.len))
        return -1;
    if (width <= n)
        return fy_tbuf_span(m, b, s);
    uint64_t pad = (uint64_t)width - (uint64_t)n;
    uint64_t left = pad / 2 + (pad & (uint64_t)width & 1); /* CPython's way to split an odd one */
    return fy_tu_pad(m, b, s, left, pad - left, fill);
}

int fy_tu_put_escaped(fy_tm *m, fy_tbuf *b, fy_span s)
{
    if (fy_tm_charge(m, s.len))
        return -1;
    size_t done = 0;
    for (size_t i = 0; i < s.len; i++) {
        const char *entity = NULL;
        switch (s.ptr[i]) {
        case '&':
            entity = "&amp;";
            break;
        case '<':
            entity = "&lt;";
            break;
        case '>':
            entity = "&gt;";
            break;
        case '\'':
            entity = "&#39;";
            break;
        case '"':
            entity = "&#34;";
            break;
        default:
            continue;
        }
        if (fy_tbuf_add(m, b, s.ptr + done, i - done) || fy_tbuf_add(m, b, entity, strlen(entity)))
            return -1;
        done = i + 1;
    }
    return fy_tbuf_add(m, b, s.ptr + done, s.len - done);
}
