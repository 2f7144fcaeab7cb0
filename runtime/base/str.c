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
    char b[4];
    size_t n;
    if (cp < 0x80) {
        b[0] = (char)cp;
        n = 1;
    } else if (cp < 0x800) {
        b[0] = (char)(0xC0 | cp >> 6);
        b[1] = (char)(0x80 | (cp & 63));
        n = 2;
    } else if (cp < 0x10000) {
        b[0] = (char)(0xE0 | cp >> 12);
        b[1] = (char)(0x80 | (cp >> 6 & 63));
        b[2] = (char)(0x80 | (cp & 63));
        n = 3;
    } else {
        b[0] = (char)(0xF0 | cp >> 18);
        b[1] = (char)(0x80 | (cp >> 12 & 63));
        b[2] = (char)(0x80 | (cp >> 6 & 63));
        b[3] = (char)(0x80 | (cp & 63));
        n = 4;
    }
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
