/* Escaping of text that comes from elsewhere; quote.h has the rule. */
#include "base/quote.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

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
