/* Spans and growable strings, UTF-8, and escaping for terminals and messages. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fy_hex_digit(char c)
{
    char lower = (char)(c | 0x20);
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

fy_span fy_span_of(const char *s)
{
    return (fy_span){s, strlen(s)};
}

bool fy_span_eq(fy_span a, fy_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

int fy_span_order(fy_span a, fy_span b)
{
    const size_t n = a.len < b.len ? a.len : b.len;
    const int order = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

bool fy_span_is(fy_span a, const char *s)
{
    return fy_span_eq(a, fy_span_of(s));
}

bool fy_span_begins(fy_span a, const char *with)
{
    size_t n = strlen(with);
    return a.len >= n && (n == 0 || memcmp(a.ptr, with, n) == 0);
}

bool fy_span_ends(fy_span a, const char *with)
{
    size_t n = strlen(with);
    return a.len >= n && (n == 0 || memcmp(a.ptr + a.len - n, with, n) == 0);
}

bool fy_list_has(const char *list, char separator, const char *word)
{
    const char ends[] = {separator, '\0'};
    size_t n = strlen(word);
    for (const char *p = list; *p != '\0'; p += *p == separator) {
        size_t len = strcspn(p, ends);
        if (len == n && memcmp(p, word, n) == 0)
            return true;
        p += len;
    }
    return false;
}

fy_span fy_span_cut_word(fy_span *rest)
{
    const char *p = rest->ptr, *end = p + rest->len;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    const char *begin = p;
    while (p < end && *p != ' ' && *p != '\t')
        p++;
    *rest = (fy_span){p, (size_t)(end - p)};
    return (fy_span){begin, (size_t)(p - begin)};
}

fy_span fy_span_cut_line(fy_span *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->ptr, '\n', rest->len) : NULL;
    fy_span line = {rest->ptr, end != NULL ? (size_t)(end - rest->ptr) : rest->len};
    size_t n = line.len + (end != NULL);
    *rest = (fy_span){rest->ptr + n, rest->len - n};
    if (line.len > 0 && line.ptr[line.len - 1] == '\r')
        line.len--;
    return line;
}

static bool reserve(fy_str *s, size_t more)
{
    if (s->oom || more > SIZE_MAX / 4 || s->len > SIZE_MAX / 4) {
        s->oom = true;
        return false;
    }
    size_t need = s->len + more + 1;
    if (need <= s->cap)
        return true;
    size_t cap = s->cap < 32 ? 64 : s->cap * 2;
    if (cap < need)
        cap = need;
    char *p = realloc(s->ptr, cap);
    if (p == NULL) {
        s->oom = true;
        return false;
    }
    s->ptr = p;
    s->cap = cap;
    return true;
}

void fy_str_add(fy_str *s, const void *p, size_t n)
{
    if (n == 0 || !reserve(s, n))
        return;
    memcpy(s->ptr + s->len, p, n);
    s->len += n;
    s->ptr[s->len] = '\0';
}

void fy_str_puts(fy_str *s, const char *z)
{
    fy_str_add(s, z, strlen(z));
}

void fy_str_putc(fy_str *s, char c)
{
    fy_str_add(s, &c, 1);
}

void fy_str_printf(fy_str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list ap2;
    va_copy(ap2, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0 && reserve(s, (size_t)n)) {
        vsnprintf(s->ptr + s->len, (size_t)n + 1, fmt, ap2);
        s->len += (size_t)n;
    }
    va_end(ap2);
}

void fy_str_put_utf8(fy_str *s, uint32_t cp)
{
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    const size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    char b[4];
    for (size_t i = n - 1; i > 0; i--, cp >>= 6)
        b[i] = (char)(0x80 | (cp & 63));
    b[0] = (char)(lead[n - 1] | cp);
    fy_str_add(s, b, n);
}

void fy_str_wrap(fy_str *s, const char *text, size_t indent, size_t width)
{
    size_t col = indent;
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        if (col + n + 1 > width && col > indent) {
            fy_str_printf(s, "\n%*s", (int)indent, "");
            col = indent;
        } else if (col > indent) {
            fy_str_putc(s, ' ');
            col++;
        }
        fy_str_add(s, text, n);
        col += n;
        text += n + (text[n] == ' ');
    }
    fy_str_putc(s, '\n');
}

void fy_str_clear(fy_str *s)
{
    s->len = 0;
    if (s->ptr != NULL)
        s->ptr[0] = '\0';
}

void fy_str_release(fy_str *s)
{
    free(s->ptr);
    *s = (fy_str){0};
}

const char *fy_str_z(const fy_str *s)
{
    return s->len > 0 ? s->ptr : "";
}

/* --- UTF-8 ------------------------------------------------------------------------------------ */

int fy_utf8_next(const char *p, size_t n, uint32_t *cp)
{
    const unsigned char *s = (const unsigned char *)p;
    if (s[0] < 0x80) {
        *cp = s[0];
        return 1;
    }
    int len = s[0] >= 0xC2 && s[0] < 0xE0   ? 2
              : (s[0] & 0xF0) == 0xE0       ? 3
              : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                            : 0;
    if (len == 0 || n < (size_t)len)
        return 0;
    uint32_t c = s[0] & (0x7Fu >> len);
    for (int i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 63u);
    }
    if ((len == 3 && (c < 0x800 || (c >= 0xD800 && c < 0xE000))) ||
        (len == 4 && (c < 0x10000 || c > 0x10FFFF)))
        return 0;
    *cp = c;
    return len;
}

bool fy_utf8_valid(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = (unsigned char)p[i] < 0x80 ? 1 : fy_utf8_next(p + i, n - i, &cp);
        if (len == 0)
            return false;
        i += (size_t)len;
    }
    return true;
}

/* Whether some bytes after p[0..n) make it one character of `len` bytes. */
static bool can_be_completed(const char *p, size_t n, size_t len)
{
    static const unsigned char fill[] = {
        0x80, 0xBF}; /* E0 and F0 need the high one, ED and F4 the low one */
    for (size_t f = 0; f < sizeof fill; f++) {
        char c[4];
        uint32_t cp;
        memset(c, fill[f], sizeof c);
        memcpy(c, p, n);
        if (fy_utf8_next(c, len, &cp) == (int)len)
            return true;
    }
    return false;
}

size_t fy_utf8_complete(const char *p, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)p[n - back];
        if (c < 0x80)
            return n;
        if (c >= 0xC0) {
            size_t need = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
            return need > back && can_be_completed(p + n - back, back, need) ? n - back : n;
        }
    }
    return n;
}

void fy_put_lossy(fy_str *out, fy_span s)
{
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        int n = fy_utf8_next(s.ptr + i, s.len - i, &cp);
        if (n > 0) {
            fy_str_add(out, s.ptr + i, (size_t)n);
            i += (size_t)n;
            continue;
        }
        size_t n_bytes = 1; /* of a character that is cut short */
        while (n_bytes < 3 && i + n_bytes < s.len && fy_utf8_complete(s.ptr + i, n_bytes + 1) == 0)
            n_bytes++;
        fy_str_put_utf8(out, 0xFFFD);
        i += n_bytes;
    }
}

/* --- escaping --------------------------------------------------------------------------------- */

static bool is_harmful(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00, 0x1F},       {0x7F, 0x9F},     /* C0, DEL, C1 */
        {0x061C, 0x061C},   {0x180E, 0x180E}, /* Arabic letter mark, Mongolian vowel separator */
        {0x200B, 0x200B},                     /* zero-width space */
        {0x200E, 0x200F},                     /* marks of direction */
        {0x2028, 0x202E},                     /* line, paragraph; embeddings and overrides */
        {0x2060, 0x206F},                     /* invisible operators; isolates; deprecated ones */
        {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB}, /* byte order mark; annotations */
        {0xE0000, 0xE007F},                   /* tags: ASCII that nobody sees */
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && cp >= ranges[i].first; i++) {
        if (cp <= ranges[i].last)
            return true;
    }
    return false;
}

/* Shows the character at p[0..n) in `shown`; returns the bytes it took, *len: those it became. */
static size_t show_one(const char *p, size_t n, bool is_name, char shown[16], size_t *len)
{
    static const char named[] = "\n\t\r\\", letters[] = "ntr\\";
    uint32_t cp = 0;
    const int took = fy_utf8_next(p, n, &cp);
    const char *found = took == 1 && cp != 0 ? strchr(named, (int)cp) : NULL;
    int w;
    if (took == 0)
        w = snprintf(shown, 16, "\\x%02x", (unsigned)(unsigned char)p[0]);
    else if (found != NULL && (is_name || cp == '\r'))
        w = snprintf(shown, 16, "\\%c", letters[found - named]);
    else if (found == NULL && is_harmful(cp))
        w = snprintf(shown, 16, cp < 0x80 ? "\\x%02x" : "\\u{%x}", (unsigned)cp);
    else {
        memcpy(shown, p, (size_t)took);
        w = took;
    }
    *len = (size_t)w;
    return took == 0 ? 1 : (size_t)took;
}

const char *fy_quote(char *out, size_t size, fy_span text)
{
    size_t len = 0, safe = 0; /* safe: where "..." still fits */
    for (size_t i = 0; i < text.len;) {
        char shown[16];
        size_t n;
        i += show_one(text.ptr + i, text.len - i, true, shown, &n);
        if (len + n >= size) {
            memcpy(out + safe, "...", 3);
            len = safe + 3;
            break;
        }
        memcpy(out + len, shown, n);
        len += n;
        if (len + 4 <= size)
            safe = len;
    }
    out[len] = '\0';
    return out;
}

void fy_str_put_quoted(fy_str *s, fy_span text, size_t max_bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < text.len;) {
        char shown[16];
        size_t n;
        i += show_one(text.ptr + i, text.len - i, true, shown, &n);
        if (n > max_bytes - used) {
            fy_str_puts(s, "...");
            return;
        }
        fy_str_add(s, shown, n);
        used += n;
    }
}

void fy_str_put_shown(fy_str *s, fy_span text)
{
    for (size_t i = 0; i < text.len;) {
        char shown[16];
        size_t n;
        i += show_one(text.ptr + i, text.len - i, false, shown, &n);
        fy_str_add(s, shown, n);
    }
}

enum { LIST_BYTES = 300 }; /* a message has 512 */

void fy_name_list_add(fy_name_list *l, fy_span name)
{
    l->n++;
    if (l->text.len > LIST_BYTES) {
        l->n_left++;
        return;
    }
    fy_str_puts(&l->text, l->n > 1 ? ", " : "");
    fy_str_put_quoted(&l->text, name, 80);
}

const char *fy_name_list_end(fy_name_list *l)
{
    if (l->n_left > 0)
        fy_str_printf(&l->text, " and %zu more", l->n_left);
    return fy_str_z(&l->text);
}

void fy_str_put_word(fy_str *s, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:@%+,-";
    if (*word != '\0' && strspn(word, plain) == strlen(word)) {
        fy_str_puts(s, word);
        return;
    }
    fy_str_putc(s, '\'');
    for (const char *c = word; *c != '\0'; c++) {
        if (*c == '\'')
            fy_str_puts(s, "'\\''");
        else
            fy_str_putc(s, *c);
    }
    fy_str_putc(s, '\'');
}
