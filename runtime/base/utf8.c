#include "base/utf8.h"

#include <string.h>

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
