/* Filters for HTML and URLs. */
#include "model/template/template_builtin.h"

#include <string.h>

static int escape(fy_tm *m, fy_span s, fy_tv *out)
{
    fy_tbuf b = {0};
    if (fy_tu_put_escaped(m, &b, s))
        return -1;
    *out = fy_tbuf_value(&b, true);
    return 0;
}

int fy_tfilter_escape(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tv s;
    if (fy_targs_none(m, "escape", a) || fy_tv_soft_str(m, v, &s))
        return -1;
    *out = s;
    return s.markup ? 0 : escape(m, s.str, out);
}

int fy_tfilter_forceescape(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tv s;
    return fy_targs_none(m, "forceescape", a) || fy_tv_str(m, v, &s) ? -1 : escape(m, s.str, out);
}

int fy_tfilter_safe(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    if (fy_targs_none(m, "safe", a) || fy_tv_str(m, v, out))
        return -1;
    out->markup = true;
    return 0;
}

/* --- striptags ----------------------------------------------------------------------------------
 */

typedef struct {
    const char *name; /* with its semicolon when it must have one */
    const char *text;
} entity;

/* The entities that text meets in practice; the thousands of others stay as they are. */
static const entity entities[] = {
    {"amp", "&"},
    {"lt", "<"},
    {"gt", ">"},
    {"quot", "\""},
    {"nbsp", "\xc2\xa0"},
    {"copy", "\xc2\xa9"},
    {"reg", "\xc2\xae"},
    {"raquo", "\xc2\xbb"},
    {"laquo", "\xc2\xab"},
    {"apos;", "'"},
    {"hellip;", "\xe2\x80\xa6"},
    {"mdash;", "\xe2\x80\x94"},
    {"ndash;", "\xe2\x80\x93"},
    {"lsquo;", "\xe2\x80\x98"},
    {"rsquo;", "\xe2\x80\x99"},
    {"ldquo;", "\xe2\x80\x9c"},
    {"rdquo;", "\xe2\x80\x9d"},
    {"bull;", "\xe2\x80\xa2"},
    {"euro;", "\xe2\x82\xac"},
    {"trade;", "\xe2\x84\xa2"},
};

/* What HTML reads in the numbers of C1 controls: windows-1252, 0 where that has nothing. */
static const uint16_t c1[32] = {0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021,
                                0x2c6,  0x2030, 0x160,  0x2039, 0x152,  0x8d,   0x17d,  0x8f,
                                0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};

/* The code point of a numeric reference as html.unescape has it: UINT32_MAX for none. */
static uint32_t valid_reference(uint64_t n)
{
    if (n == 0 || (n >= 0xd800 && n <= 0xdfff) || n > 0x10ffff)
        return 0xfffd;
    if (n >= 0x80 && n <= 0x9f)
        return c1[n - 0x80];
    bool control = n <= 8 || n == 0xb || (n >= 0xe && n <= 0x1f) || n == 0x7f;
    bool no_character = (n >= 0xfdd0 && n <= 0xfdef) || (n & 0xfffe) == 0xfffe;
    return control || no_character ? UINT32_MAX : (uint32_t)n;
}

/* The reference &#... at s: bytes it takes, 0 when it is none. */
static size_t numeric_reference(fy_span s, fy_tm *m, fy_tbuf *b)
{
    bool hex = s.len > 2 && (s.ptr[2] | 0x20) == 'x';
    size_t i = hex ? 3 : 2, first = i;
    uint64_t n = 0;
    for (; i < s.len; i++) {
        int d = fy_hex_digit(s.ptr[i]);
        if (d < 0 || (!hex && d > 9))
            break;
        n = n > 0x110000 ? n : n * (hex ? 16 : 10) + (uint64_t)d;
    }
    if (i == first)
        return 0;
    uint32_t cp = valid_reference(n);
    char text[4];
    if (cp != UINT32_MAX && fy_tbuf_add(m, b, text, fy_tu_put(text, cp)))
        return SIZE_MAX;
    return i + (i < s.len && s.ptr[i] == ';');
}

static size_t named_reference(fy_span s, fy_tm *m, fy_tbuf *b)
{
    for (size_t k = 0; k < sizeof entities / sizeof *entities; k++) {
        size_t n = strlen(entities[k].name);
        if (s.len - 1 < n || memcmp(s.ptr + 1, entities[k].name, n) != 0)
            continue;
        if (fy_tbuf_add(m, b, entities[k].text, strlen(entities[k].text)))
            return SIZE_MAX;
        bool more = s.len > n + 1 && s.ptr[n + 1] == ';' && entities[k].name[n - 1] != ';';
        return n + 1 + more;
    }
    return 0;
}

static int unescape(fy_tm *m, fy_span s, fy_tbuf *b)
{
    if (fy_tm_charge(m, s.len))
        return -1;
    while (s.len) {
        ptrdiff_t plain = fy_tu_find(s, FY_SPAN("&"));
        size_t n = plain < 0 ? s.len : (size_t)plain, used = 0;
        if (fy_tbuf_add(m, b, s.ptr, n))
            return -1;
        s = (fy_span){s.ptr + n, s.len - n};
        if (s.len > 1 && s.ptr[1] == '#')
            used = numeric_reference(s, m, b);
        else if (s.len > 1 && s.ptr[1] >= 'a' && s.ptr[1] <= 'z')
            used = fy_tm_charge(m, 64) ? SIZE_MAX : named_reference(s, m, b);
        if (used == SIZE_MAX || (used == 0 && s.len && fy_tbuf_add(m, b, "&", 1)))
            return -1;
        used = used ? used : s.len > 0;
        s = (fy_span){s.ptr + used, s.len - used};
    }
    return 0;
}

/* Appends s without comments and tags; an unclosed one ends the search. */
static int drop_tags(fy_tm *m, fy_span s, fy_tbuf *b)
{
    for (;;) {
        ptrdiff_t start = fy_tu_find(s, FY_SPAN("<"));
        if (start < 0)
            break;
        fy_span tag = {s.ptr + start, s.len - (size_t)start};
        bool comment = tag.len >= 4 && memcmp(tag.ptr, "<!--", 4) == 0;
        size_t skip = comment ? 4 : 0;
        ptrdiff_t end = fy_tu_find((fy_span){tag.ptr + skip, tag.len - skip},
                                   comment ? FY_SPAN("-->") : FY_SPAN(">"));
        if (end < 0)
            break;
        size_t used = skip + (size_t)end + (comment ? 3 : 1);
        if (fy_tbuf_add(m, b, s.ptr, (size_t)start))
            return -1;
        s = (fy_span){tag.ptr + used, tag.len - used};
    }
    return fy_tbuf_span(m, b, s);
}

/* Appends the words of s with one blank between them. */
static int join_words(fy_tm *m, fy_span s, fy_tbuf *b)
{
    bool first = true;
    for (const char *p = s.ptr, *end = p + s.len; p < end;) {
        const char *word = p, *next = p;
        while (p < end && !fy_tu_is_space(fy_tu_next(&next, end)))
            p = next;
        if (p == word) {
            p = next;
            continue;
        }
        if ((!first && fy_tbuf_add(m, b, " ", 1)) || fy_tbuf_add(m, b, word, (size_t)(p - word)))
            return -1;
        first = false;
    }
    return 0;
}

int fy_tv_striptags(fy_tm *m, fy_span s, fy_tv *out)
{
    fy_tbuf plain = {0}, words = {0}, b = {0};
    if (fy_tm_charge(m, s.len) || drop_tags(m, s, &plain) ||
        join_words(m, fy_tbuf_value(&plain, false).str, &words) ||
        unescape(m, fy_tbuf_value(&words, false).str, &b))
        return -1;
    *out = fy_tbuf_value(&b, false);
    return 0;
}

int fy_tfilter_striptags(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tv s;
    return fy_targs_none(m, "striptags", a) || fy_tv_str(m, v, &s) ? -1
                                                                   : fy_tv_striptags(m, s.str, out);
}

/* --- urlencode ----------------------------------------------------------------------------------
 */

/* In a query '/' is quoted and a blank is '+'. */
static int put_quoted(fy_tm *m, fy_tbuf *b, const fy_tv *v, bool query)
{
    static const char hex[] = "0123456789ABCDEF";
    fy_tv s;
    if (fy_tv_str(m, v, &s) || fy_tm_charge(m, s.str.len))
        return -1;
    for (size_t i = 0; i < s.str.len; i++) {
        unsigned char c = (unsigned char)s.str.ptr[i];
        char text[3] = {'%', hex[c >> 4], hex[c & 15]};
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                     (c && strchr("_.-~", c)) || (c == '/' && !query);
        if (query && c == ' ' ? fy_tbuf_add(m, b, "+", 1)
            : plain           ? fy_tbuf_add(m, b, s.str.ptr + i, 1)
                              : fy_tbuf_add(m, b, text, 3))
            return -1;
    }
    return 0;
}

static int put_pair(fy_tm *m, fy_tbuf *b, const fy_tv *key, const fy_tv *value)
{
    return put_quoted(m, b, key, true) || fy_tbuf_add(m, b, "=", 1) || put_quoted(m, b, value, true)
               ? -1
               : 0;
}

int fy_tfilter_urlencode(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tbuf b = {0};
    fy_tlist items, pair;
    if (fy_targs_none(m, "urlencode", a))
        return -1;
    bool dict = fy_tv_is(v, FY_TV_DICT);
    bool list = fy_tv_is(v, FY_TV_LIST) || fy_tv_is(v, FY_TV_TUPLE) || fy_tv_is(v, FY_TV_ITER) ||
                fy_tv_is(v, FY_TV_VIEW) || fy_tv_is(v, FY_TV_RANGE) || fy_tv_is(v, FY_TV_UNDEFINED);
    if (!dict && !list && put_quoted(m, &b, v, false))
        return -1;
    for (size_t i = 0; dict && i < fy_tdict_n(v->dict); i++)
        if ((i && fy_tbuf_add(m, &b, "&", 1)) ||
            put_pair(m, &b, fy_tdict_key(v->dict, i), fy_tdict_at(v->dict, i)))
            return -1;
    if (list && fy_tv_items(m, v, &items))
        return -1;
    for (size_t i = 0; list && i < items.n; i++) {
        if (fy_tv_items(m, &items.item[i], &pair))
            return -1;
        if (pair.n != 2)
            return fy_tm_fail(m, "urlencode: pairs are expected, found %zu values", pair.n);
        if ((i && fy_tbuf_add(m, &b, "&", 1)) || put_pair(m, &b, &pair.item[0], &pair.item[1]))
            return -1;
    }
    *out = fy_tbuf_value(&b, false);
    return 0;
}

/* --- xmlattr ------------------------------------------------------------------------------------
 */

static int put_attribute(fy_tm *m, fy_tbuf *b, const fy_tv *key, const fy_tv *value)
{
    fy_tv text;
    if (!fy_tv_is(key, FY_TV_STR))
        return fy_tm_fail(m, "expected string or bytes-like object, got '%s'",
                          fy_tv_type_name(key));
    for (size_t i = 0; i < key->str.len; i++)
        if (key->str.ptr[i] && strchr(" \t\n\r\f\v/>=", key->str.ptr[i]))
            return fy_tm_fail(m, "Invalid character in attribute name");
    if (fy_tv_soft_str(m, value, &text))
        return -1;
    return (key->markup ? fy_tbuf_span(m, b, key->str) : fy_tu_put_escaped(m, b, key->str)) ||
                   fy_tbuf_add(m, b, "=\"", 2) ||
                   (text.markup ? fy_tbuf_span(m, b, text.str)
                                : fy_tu_put_escaped(m, b, text.str)) ||
                   fy_tbuf_add(m, b, "\"", 1)
               ? -1
               : 0;
}

int fy_tfilter_xmlattr(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"autospace"};
    fy_tv autospace;
    bool given;
    fy_tbuf b = {0};
    if (fy_targs_bind(m, "xmlattr", a, names, 1, 0, &autospace, &given))
        return -1;
    if (fy_tv_is(v, FY_TV_UNDEFINED))
        return fy_tv_undefined_fail(m, v);
    if (!fy_tv_is(v, FY_TV_DICT))
        return fy_tm_fail(m, "'%s' object has no attribute 'items'", fy_tv_type_name(v));
    bool space = !given || fy_tv_truth(&autospace);
    for (size_t i = 0; i < fy_tdict_n(v->dict); i++) {
        const fy_tv *value = fy_tdict_at(v->dict, i);
        if (fy_tv_is(value, FY_TV_NONE) || fy_tv_is(value, FY_TV_UNDEFINED))
            continue;
        if (((space || b.len) && fy_tbuf_add(m, &b, " ", 1)) ||
            put_attribute(m, &b, fy_tdict_key(v->dict, i), value))
            return -1;
    }
    *out = fy_tbuf_value(&b, false);
    return 0;
}
