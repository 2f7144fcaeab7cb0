#include "base/json_out.h"

#include "base/utf8.h"

static void put_escaped(fy_str *out, unsigned char c)
{
    switch (c) {
    case '"':
        fy_str_puts(out, "\\\"");
        break;
    case '\\':
        fy_str_puts(out, "\\\\");
        break;
    case '\n':
        fy_str_puts(out, "\\n");
        break;
    case '\r':
        fy_str_puts(out, "\\r");
        break;
    case '\t':
        fy_str_puts(out, "\\t");
        break;
    default:
        fy_str_printf(out, "\\u%04x", c);
    }
}

/* Bytes from p that stand for themselves. */
static size_t plain_run(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        unsigned char c = (unsigned char)p[i];
        uint32_t cp;
        int len = c < 0x80 ? 1 : fy_utf8_next(p + i, n - i, &cp);
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F || len == 0)
            break;
        i += (size_t)len;
    }
    return i;
}

void fy_json_put_string(fy_str *out, fy_span text)
{
    fy_str_putc(out, '"');
    for (size_t i = 0; i < text.len;) {
        size_t n = plain_run(text.ptr + i, text.len - i);
        fy_str_add(out, text.ptr + i, n);
        i += n;
        if (i == text.len)
            break;
        unsigned char c = (unsigned char)text.ptr[i++];
        if (c < 0x80)
            put_escaped(out, c);
        else
            fy_str_put_utf8(out, 0xFFFD);
    }
    fy_str_putc(out, '"');
}
