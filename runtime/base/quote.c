#include "base/quote.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static bool is_harmful(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7F && cp < 0xA0) || cp == 0x061C || cp == 0x200E || cp == 0x200F ||
           (cp >= 0x2028 && cp <= 0x202E) || (cp >= 0x2066 && cp <= 0x2069) || cp == 0xFEFF;
}

/* Shows the character at p[0..n) in `piece`; returns the bytes it took, *len: those it became. */
static size_t show_one(const char *p, size_t n, char piece[16], size_t *len)
{
    static const char controls[] = "\n\t\r\\", letters[] = "ntr\\";
    uint32_t cp = 0;
    int took = fy_utf8_next(p, n, &cp);
    const char *named = took == 1 && cp != 0 ? strchr(controls, (int)cp) : NULL;
    int w;
    if (took == 0)
        w = snprintf(piece, 16, "\\x%02x", (unsigned)(unsigned char)p[0]);
    else if (named != NULL)
        w = snprintf(piece, 16, "\\%c", letters[named - controls]);
    else if (is_harmful(cp))
        w = cp < 0x80 ? snprintf(piece, 16, "\\x%02x", (unsigned)cp)
                      : snprintf(piece, 16, "\\u{%x}", (unsigned)cp);
    else {
        memcpy(piece, p, (size_t)took);
        w = took;
    }
    *len = (size_t)w;
    return took == 0 ? 1 : (size_t)took;
}

const char *fy_quote(char *out, size_t size, fy_span text)
{
    size_t len = 0, safe = 0; /* safe: where "..." still fits */
    for (size_t i = 0; i < text.len;) {
        char piece[16];
        size_t n;
        i += show_one(text.ptr + i, text.len - i, piece, &n);
        if (len + n >= size) {
            memcpy(out + safe, "...", 3);
            len = safe + 3;
            break;
        }
        memcpy(out + len, piece, n);
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
        char piece[16];
        size_t n;
        i += show_one(text.ptr + i, text.len - i, piece, &n);
        if (n > max_bytes - used) {
            fy_str_puts(s, "...");
            return;
        }
        fy_str_add(s, piece, n);
        used += n;
    }
}
