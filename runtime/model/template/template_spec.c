/* One value written as a format asks for: sign, prefix, digits in groups, width. */
#include "model/template/template_builtin.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fy_tspec_put_text(fy_tm *m, fy_tbuf *b, const fy_tspec *spec, fy_span s)
{
    if (spec->precision >= 0 && (uint64_t)spec->precision < s.len)
        s = fy_tu_slice(s, 0, (size_t)spec->precision);
    uint64_t n = fy_tu_length(s), width = spec->width > 0 ? (uint64_t)spec->width : 0;
    uint64_t pad = width > n ? width - n : 0;
    uint64_t left = spec->align == '>' ? pad : spec->align == '^' ? pad / 2 : 0;
    return fy_tm_charge(m, s.len) || fy_tu_pad(m, b, s, left, pad - left, spec->fill) ? -1 : 0;
}

/* A number in pieces. */
typedef struct {
    const char *sign;   /* "", "-", "+", " " */
    const char *prefix; /* "0x" ... */
    fy_span digits;     /* before the point */
    fy_span rest;       /* point, decimals, exponent, '%' */
} pieces;

/* Characters that n digits take with their separators. */
static uint64_t grouped(uint64_t n, unsigned group)
{
    return group && n ? n + (n - 1) / group : n;
}

static int put_digits(fy_tm *m, fy_tbuf *b, fy_span digits, uint64_t zeros, unsigned group,
                      char separator)
{
    uint64_t n = zeros + digits.len;
    for (uint64_t i = 0; i < n; i++) {
        char c = i < zeros ? '0' : digits.ptr[i - zeros];
        if ((group && i && (n - i) % group == 0 && fy_tbuf_add(m, b, &separator, 1)) ||
            fy_tbuf_add(m, b, &c, 1))
            return -1;
    }
    return 0;
}

static int put_number(fy_tm *m, fy_tbuf *b, const fy_tspec *spec, const pieces *p)
{
    unsigned group = !spec->grouping ? 0 : strchr("boxX", spec->type ? spec->type : 'd') ? 4 : 3;
    uint64_t width = spec->width > 0 ? (uint64_t)spec->width : 0, zeros = 0;
    uint64_t around = strlen(p->sign) + strlen(p->prefix) + p->rest.len;
    if (width > m->bytes_left) /* the loops below are bounded by the heap */
        return fy_tu_repeat(m, b, FY_SPAN(" "), UINT64_MAX);
    if (spec->align == '=' && fy_span_is(spec->fill, "0"))
        while (grouped(p->digits.len + zeros, group) + around < width)
            zeros++;
    uint64_t n = grouped(p->digits.len + zeros, group) + around;
    uint64_t pad = width > n ? width - n : 0;
    uint64_t left = spec->align == '>' ? pad : spec->align == '^' ? pad / 2 : 0;
    uint64_t inner = spec->align == '=' ? pad : 0;
    if (fy_tu_repeat(m, b, spec->fill, left) || fy_tbuf_span(m, b, fy_span_of(p->sign)) ||
        fy_tbuf_span(m, b, fy_span_of(p->prefix)) || fy_tu_repeat(m, b, spec->fill, inner) ||
        put_digits(m, b, p->digits, zeros, group, spec->grouping) || fy_tbuf_span(m, b, p->rest))
        return -1;
    return fy_tu_repeat(m, b, spec->fill, pad - left - inner);
}

static const char *sign_of(const fy_tspec *spec, bool negative)
{
    return negative ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "";
}

/* --- ints ---------------------------------------------------------------------------------------
 */

static fy_span digits_of(uint64_t u, unsigned base, bool upper, char text[65])
{
    const char *set = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char *p = text + 64;
    do {
        *--p = set[u % base];
        u /= base;
    } while (u);
    return (fy_span){p, (size_t)(text + 64 - p)};
}

static int put_char(fy_tm *m, fy_tbuf *b, const fy_tspec *spec, const fy_tv *v)
{
    char text[4];
    if (!fy_tv_is_int(v) || fy_tv_as_int(v) < 0 || fy_tv_as_int(v) > 0x10ffff)
        return fy_tm_fail(m, "%%c arg not in range(0x110000)");
    fy_tspec one = *spec;
    one.precision = -1;
    if (one.align == '=')
        one.align = '>';
    return fy_tspec_put_text(m, b, &one,
                             (fy_span){text, fy_tu_put(text, (uint32_t)fy_tv_as_int(v))});
}

int fy_tspec_put_int(fy_tm *m, fy_tbuf *b, const fy_tspec *spec, const fy_tv *v)
{
    char text[65];
    pieces p = {.prefix = "", .rest = FY_SPAN("")};
    bool negative;
    if (spec->type == 'c')
        return put_char(m, b, spec, v);
    if (fy_tv_is(v, FY_TV_BIGINT)) {
        if (spec->type != 'd' && spec->type != 0)
            return fy_tm_fail(m, "an int of more than 64 bits can only be written in decimal");
        negative = v->str.ptr[0] == '-';
        p.digits = (fy_span){v->str.ptr + negative, v->str.len - negative};
    } else {
        int64_t i = fy_tv_as_int(v);
        bool upper = spec->type == 'X';
        unsigned base = spec->type == 'b'            ? 2
                        : spec->type == 'o'          ? 8
                        : (spec->type | 0x20) == 'x' ? 16
                                                     : 10;
        negative = i < 0;
        p.digits = digits_of(negative ? 0 - (uint64_t)i : (uint64_t)i, base, upper, text);
        if (spec->alternate)
            p.prefix = base == 2 ? "0b" : base == 8 ? "0o" : base == 10 ? "" : upper ? "0X" : "0x";
    }
    p.sign = sign_of(spec, negative);
    fy_tbuf padded = {0};
    if (spec->precision > (int64_t)p.digits.len) {
        if (fy_tu_repeat(m, &padded, FY_SPAN("0"), (uint64_t)spec->precision - p.digits.len) ||
            fy_tbuf_span(m, &padded, p.digits))
            return -1;
        p.digits = (fy_span){padded.ptr, padded.len};
    }
    return put_number(m, b, spec, &p);
}

/* --- floats -------------------------------------------------------------------------------------
 */

enum { FLOAT_ROOM = 340 }; /* digits before the point of the largest double, and signs */

/* str(f), or with a precision that many digits, but never without a point or an exponent. */
static void print_plain(double f, int64_t precision, bool alternate, char *text)
{
    char digits[FLOAT_ROOM];
    if (precision < 0) {
        fy_float_shortest(f, alternate, text);
        return;
    }
    int want = precision > 300 ? 300 : precision == 0 ? 1 : (int)precision, n = 0;
    snprintf(text, FLOAT_ROOM, "%.*e", want - 1, f);
    const char *p = text;
    for (; *p != 'e'; p++)
        if (*p != '.')
            digits[n++] = *p;
    fy_float_layout(digits, n, atoi(p + 1), want - 1, alternate, text);
}

static void print_c(double f, char type, bool alternate, int precision, char *text, size_t room)
{
    switch (type | 0x20) {
    case 'e':
        snprintf(text, room, alternate ? "%#.*e" : "%.*e", precision, f);
        break;
    case 'g':
        snprintf(text, room, alternate ? "%#.*g" : "%.*g", precision, f);
        break;
    default:
        snprintf(text, room, alternate ? "%#.*f" : "%.*f", precision, f);
        break;
    }
    for (char *p = text; type >= 'A' && type <= 'Z' && *p; p++)
        *p = (char)toupper((unsigned char)*p);
}

/* |f| as text on the machine's heap; NULL on failure. */
static char *print_float(fy_tm *m, const fy_tspec *spec, double f)
{
    int64_t precision = spec->precision < 0 ? 6 : spec->precision;
    if (precision > INT32_MAX / 2) {
        fy_tm_fail(m, "precision too big");
        return NULL;
    }
    size_t room = (size_t)precision + FLOAT_ROOM;
    char *text = fy_tm_charge(m, room) ? NULL : fy_tm_alloc(m, room);
    if (!text)
        return NULL;
    if (spec->type == 0 && isfinite(f))
        print_plain(f, spec->precision, spec->alternate, text);
    else if (isnan(f))
        print_c((double)NAN, spec->type, false, 0, text, room); /* C prints its sign, too */
    else
        print_c(f, spec->type, spec->alternate, (int)precision, text, room);
    return text;
}

int fy_tspec_put_float(fy_tm *m, fy_tbuf *b, const fy_tspec *spec, double f)
{
    bool negative = signbit(f) && !isnan(f);
    double size = negative ? -f : f;
    char *text = print_float(m, spec, spec->type == '%' ? size * 100 : size);
    if (!text)
        return -1;
    size_t n = strspn(text, "0123456789"), len = strlen(text);
    if (spec->type == '%')
        text[len++] = '%';
    fy_tspec plain = *spec;
    plain.grouping = n ? spec->grouping : 0;
    pieces p = {sign_of(spec, negative), "", {text, n}, {text + n, len - n}};
    return put_number(m, b, &plain, &p);
}
