/* Strings as Python's str sees them: code points and their classes, upper and lower case, and
 * searching, stripping, repeating and escaping. Strings are UTF-8; a byte that is not part of valid
 * UTF-8 counts as one code point of no class and is copied unchanged. Categories and simple case
 * mappings come from utf8proc. */
#include "model/template/template_value.h"

#include <string.h>
#include <utf8proc.h>

#include "base/math.h"
#include "base/str.h"
#include "model/template/template.h"

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

/* A continuation byte belongs to the nearest lead byte before it if that decodes to reach it. */
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

fy_span fy_tu_slice(fy_span s, size_t start, size_t stop)
{
    const char *p = s.ptr, *end = s.ptr + s.len;
    for (size_t i = 0; i < start && p < end; i++)
        fy_tu_next(&p, end);
    const char *from = p;
    for (size_t i = start; i < stop && p < end; i++)
        fy_tu_next(&p, end);
    return (fy_span){from, (size_t)(p - from)};
}

/* --- classes --- */

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool fy_tu_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x1f);
    return cp == 0x85 || cp == 0x2028 || cp == 0x2029 || category(cp) == UTF8PROC_CATEGORY_ZS;
}

bool fy_tu_is_digit(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

bool fy_tu_is_printable(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= ' ' && cp < 0x7f;
    utf8proc_category_t c = category(cp);
    return c != UTF8PROC_CATEGORY_CN && !(c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_CO);
}

static bool is_cased(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LT;
}

bool fy_tu_all_cased(fy_span s, bool upper)
{
    bool cased = false;
    for (const char *p = s.ptr, *end = s.ptr + s.len; p < end;) {
        uint32_t cp = fy_tu_next(&p, end);
        if (is_cased(cp) && category(cp) != (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL))
            return false;
        cased = cased || is_cased(cp);
    }
    return cased;
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

/* --- case --- */

/* Letters that become several in upper case: Unicode's SpecialCasing without polytonic Greek. */
static const struct {
    uint16_t cp;
    const char *upper, *title;
} specials[] = {
    /* clang-format off */
    {0x00DF, "SS", "Ss"}, {0x0149, "ʼN", "ʼN"}, {0x01F0, "J̌", "J̌"}, {0x0390, "Ϊ́", "Ϊ́"},
    {0x03B0, "Ϋ́", "Ϋ́"}, {0x0587, "ԵՒ", "Եւ"}, {0x1E96, "H̱", "H̱"}, {0x1E97, "T̈", "T̈"},
    {0x1E98, "W̊", "W̊"}, {0x1E99, "Y̊", "Y̊"}, {0x1E9A, "Aʾ", "Aʾ"}, {0xFB00, "FF", "Ff"},
    {0xFB01, "FI", "Fi"}, {0xFB02, "FL", "Fl"}, {0xFB03, "FFI", "Ffi"}, {0xFB04, "FFL", "Ffl"},
    {0xFB05, "ST", "St"}, {0xFB06, "ST", "St"}, {0xFB13, "ՄՆ", "Մն"}, {0xFB14, "ՄԵ", "Մե"},
    {0xFB15, "ՄԻ", "Մի"}, {0xFB16, "ՎՆ", "Վն"}, {0xFB17, "ՄԽ", "Մխ"},
    /* clang-format on */
};

/* A walk over a string that changes its case. */
typedef struct {
    const char *begin, *p, *end;
    fy_tu_case to;
    bool after_cased;
} caser;

static size_t put_z(char *out, const char *z)
{
    size_t n = strlen(z);
    memcpy(out, z, n);
    return n;
}

static size_t put_upper(uint32_t cp, bool title, char *out)
{
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (specials[i].cp == cp)
            return put_z(out, title ? specials[i].title : specials[i].upper);
    }
    return fy_tu_put(out, (uint32_t)(title ? utf8proc_totitle((utf8proc_int32_t)cp)
                                           : utf8proc_toupper((utf8proc_int32_t)cp)));
}

/* c->p is after the code point. Sigma at the end of a word has a form of its own. */
static size_t put_lower(const caser *c, const char *at, uint32_t cp, char *out)
{
    const char *before = at, *after = c->p;
    if (cp == 0x130) /* I with a dot keeps its dot */
        return put_z(out, "i\xcc\x87");
    if (cp != 0x3a3)
        return fy_tu_put(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
    bool ends = before > c->begin && is_cased(fy_tu_prev(c->begin, &before)) &&
                !(after < c->end && is_cased(fy_tu_next(&after, c->end)));
    return fy_tu_put(out, ends ? 0x3c2 : 0x3c3);
}

enum { MAX_CASED = 8 }; /* bytes that one code point becomes */

/* Writes the next code point in its new case; its bytes. */
static size_t next_in_case(caser *c, char *out)
{
    const char *at = c->p;
    uint32_t cp = fy_tu_next(&c->p, c->end);
    bool title =
        c->to == FY_TU_TITLE ? !c->after_cased : c->to == FY_TU_CAPITALIZE && at == c->begin;
    if (c->to == FY_TU_TITLE)
        c->after_cased = is_cased(cp);
    if (cp < 0x80) {
        bool upper = title || c->to == FY_TU_UPPER;
        if (upper ? cp >= 'a' && cp <= 'z' : cp >= 'A' && cp <= 'Z')
            cp ^= 0x20;
        *out = (char)cp;
        return 1;
    }
    if (cp >= RAW)
        return fy_tu_put(out, cp);
    return title || c->to == FY_TU_UPPER ? put_upper(cp, title, out) : put_lower(c, at, cp, out);
}

void fy_tu_put_case(fy_tbuf *b, fy_span s, fy_tu_case to)
{
    caser c = {s.ptr, s.ptr, s.ptr + s.len, to, false};
    char run[64]; /* output is added in runs */
    size_t n = 0;
    fy_tm_charge(b->m, 4 * (uint64_t)s.len);
    while (c.p < c.end && fy_tm_ok(b->m)) {
        n += next_in_case(&c, run + n);
        if (n > sizeof run - MAX_CASED) {
            fy_tbuf_add(b, run, n);
            n = 0;
        }
    }
    fy_tbuf_add(b, run, n);
}

void fy_text_capitalize(fy_span s, fy_str *out)
{
    caser c = {s.ptr, s.ptr, s.ptr + s.len, FY_TU_CAPITALIZE, false};
    char one[MAX_CASED];
    while (c.p < c.end)
        fy_str_add(out, one, next_in_case(&c, one));
}

/* --- searching and replacing --- */

static bool has_char(const fy_span *chars, uint32_t cp)
{
    if (chars == NULL)
        return fy_tu_is_space(cp);
    for (const char *p = chars->ptr, *end = p + chars->len; p < end;) {
        if (fy_tu_next(&p, end) == cp)
            return true;
    }
    return false;
}

static fy_span strip(fy_span s, const fy_span *chars, uint32_t ends)
{
    const char *begin = s.ptr, *end = s.ptr + s.len;
    for (const char *next = begin; (ends & FY_TU_STRIP_LEFT) && begin < end; begin = next) {
        if (!has_char(chars, fy_tu_next(&next, end)))
            break;
    }
    for (const char *before = end; (ends & FY_TU_STRIP_RIGHT) && end > begin; end = before) {
        if (!has_char(chars, fy_tu_prev(begin, &before)))
            break;
    }
    return (fy_span){begin, (size_t)(end - begin)};
}

fy_span fy_tu_strip(fy_tm *m, fy_span s, const fy_span *chars, uint32_t ends)
{
    uint64_t work;
    if (!fy_mul_u64(s.len, chars != NULL ? chars->len : 1, &work))
        work = UINT64_MAX;
    return fy_tm_charge(m, work) ? strip(s, chars, ends) : s;
}

fy_span fy_text_strip(fy_span s)
{
    return strip(s, NULL, FY_TU_STRIP_LEFT | FY_TU_STRIP_RIGHT);
}

ptrdiff_t fy_tu_find(fy_span s, fy_span needle)
{
    if (needle.len == 0)
        return 0;
    if (s.len < needle.len)
        return -1;
    const char *found = memmem(s.ptr, s.len, needle.ptr, needle.len);
    return found != NULL ? found - s.ptr : -1;
}

void fy_tu_replace(fy_tbuf *b, fy_span s, fy_span old, fy_span with, int64_t max)
{
    ptrdiff_t at;
    if (fy_tm_charge(b->m, s.len) && old.len == 0)
        fy_tm_fail(b->m, "replacing an empty text is not supported");
    for (; max != 0 && fy_tm_ok(b->m) && (at = fy_tu_find(s, old)) >= 0; max -= max > 0) {
        fy_tbuf_add(b, s.ptr, (size_t)at);
        fy_tbuf_span(b, with);
        s.ptr += (size_t)at + old.len;
        s.len -= (size_t)at + old.len;
    }
    fy_tbuf_span(b, s);
}

void fy_tu_repeat(fy_tbuf *b, fy_span pattern, uint64_t n)
{
    uint64_t bytes;
    if (!fy_mul_u64(pattern.len, n, &bytes) || bytes > b->m->bytes_left)
        bytes = UINT64_MAX / 2; /* what no budget covers: charging it records the error */
    fy_tm_charge(b->m, bytes);
    for (uint64_t i = 0; i < n && pattern.len > 0 && fy_tm_ok(b->m); i++)
        fy_tbuf_span(b, pattern);
}

void fy_tu_put_escaped(fy_tbuf *b, fy_span s)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    size_t done = 0;
    fy_tm_charge(b->m, s.len);
    for (size_t i = 0; i < s.len && fy_tm_ok(b->m); i++) {
        const char *found = memchr(from, s.ptr[i], sizeof from - 1);
        if (found == NULL)
            continue;
        fy_tbuf_add(b, s.ptr + done, i - done);
        fy_tbuf_z(b, to[found - from]);
        done = i + 1;
    }
    fy_tbuf_add(b, s.ptr + done, s.len - done);
}
