#include "model/template/template_builtin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fy_tv fy_tbuf_value(const fy_tbuf *b, bool markup)
{
    fy_tv v = fy_tv_view(b->ptr ? (fy_span){b->ptr, b->len} : FY_SPAN(""));
    v.markup = markup;
    return v;
}

bool fy_tv_is(const fy_tv *v, fy_tv_kind kind)
{
    return v->kind == (uint8_t)kind;
}

bool fy_tv_is_int(const fy_tv *v)
{
    return fy_tv_is(v, FY_TV_INT) || fy_tv_is(v, FY_TV_BOOL);
}

int64_t fy_tv_as_int(const fy_tv *v)
{
    return fy_tv_is(v, FY_TV_BOOL) ? v->b : v->i;
}

int fy_tv_index(fy_tm *m, const fy_tv *v, int64_t *out)
{
    if (fy_tv_is(v, FY_TV_BIGINT))
        return fy_tm_fail(m, "cannot fit 'int' into an index-sized integer");
    if (!fy_tv_is_int(v))
        return fy_tm_fail(m, "'%s' object cannot be interpreted as an integer", fy_tv_type_name(v));
    *out = fy_tv_as_int(v);
    return 0;
}

bool fy_tv_as_float(const fy_tv *v, double *out)
{
    if (fy_tv_is(v, FY_TV_FLOAT))
        *out = v->f;
    else if (fy_tv_is_int(v))
        *out = (double)fy_tv_as_int(v);
    else if (fy_tv_is(v, FY_TV_BIGINT)) {
        char digits[400]; /* more than a double's range */
        if (v->str.len >= sizeof digits)
            return false;
        memcpy(digits, v->str.ptr, v->str.len);
        digits[v->str.len] = '\0';
        *out = strtod(digits, NULL);
        return isfinite(*out);
    } else
        return false;
    return true;
}

int fy_tv_text(fy_tm *m, const char *what, const fy_tv *v, fy_span *out)
{
    if (!fy_tv_is(v, FY_TV_STR))
        return fy_tm_fail(m, "%s argument must be str, not %s", what, fy_tv_type_name(v));
    *out = v->str;
    return 0;
}

int fy_tv_soft_str(fy_tm *m, const fy_tv *v, fy_tv *out)
{
    if (!fy_tv_is(v, FY_TV_STR))
        return fy_tv_str(m, v, out);
    *out = *v;
    return 0;
}

fy_tv fy_tv_hint(const char *text)
{
    fy_tv v = fy_tv_undefined(fy_span_of(text));
    v.view = 'h';
    return v;
}

/* --- arguments ----------------------------------------------------------------------------------
 */

int fy_targs_count(fy_tm *m, const char *what, const fy_targs *a, size_t min, size_t max)
{
    if (a->n_named)
        return fy_tm_fail(m, "%s() takes no keyword arguments", what);
    if (a->n >= min && a->n <= max)
        return 0;
    const char *bound = min == max ? "exactly" : a->n < min ? "at least" : "at most";
    size_t expected = a->n < min ? min : max;
    return fy_tm_fail(m, "%s() takes %s %zu argument%s (%zu given)", what, bound, expected,
                      expected == 1 ? "" : "s", a->n);
}

int fy_targs_none(fy_tm *m, const char *what, const fy_targs *a)
{
    return fy_targs_count(m, what, a, 0, 0);
}

static size_t find_name(const char *const *names, size_t n, fy_span name)
{
    size_t i = 0;
    while (i < n && !fy_span_is(name, names[i]))
        i++;
    return i;
}

int fy_targs_bind(fy_tm *m, const char *what, const fy_targs *a, const char *const *names, size_t n,
                  size_t n_required, fy_tv *out, bool *given)
{
    if (a->n > n)
        return fy_tm_fail(m, "%s() takes %zu positional argument%s but %zu were given", what, n,
                          n == 1 ? "" : "s", a->n);
    for (size_t i = 0; i < n; i++) {
        given[i] = i < a->n;
        out[i] = given[i] ? a->arg[i] : fy_tv_undefined(FY_SPAN(""));
    }
    for (size_t k = 0; k < a->n_named; k++) {
        size_t i = find_name(names, n, a->name[k]);
        int len = a->name[k].len < 200 ? (int)a->name[k].len : 200;
        if (i == n)
            return fy_tm_fail(m, "%s() got an unexpected keyword argument '%.*s'", what, len,
                              a->name[k].ptr);
        if (given[i])
            return fy_tm_fail(m, "%s() got multiple values for argument '%s'", what, names[i]);
        given[i] = true;
        out[i] = a->named[k];
    }
    for (size_t i = 0; i < n_required; i++)
        if (!given[i])
            return fy_tm_fail(m, "%s() missing 1 required positional argument: '%s'", what,
                              names[i]);
    return 0;
}

/* --- numbers from text --------------------------------------------------------------------------
 */

enum {
    MAX_INT_DIGITS = 4300, /* Python's limit for int(text) of a base that is no power of two */
    MAX_NUMBER_CHARS = 8192,
};

/* Text of a number with Python's liberties undone: white space around it stripped, digits of any
 * script made ASCII, single underscores between digits dropped. 1, or 0 when it cannot be a number,
 * -1 on error. The grammar is left to the caller. */
static int normalize(fy_tm *m, fy_span s, fy_tbuf *b)
{
    if (fy_tu_strip(m, s, NULL, FY_TU_STRIP_LEFT | FY_TU_STRIP_RIGHT, &s))
        return -1;
    bool after_digit = false;
    for (const char *p = s.ptr, *end = s.ptr + s.len; p < end;) {
        uint32_t cp = fy_tu_next(&p, end);
        int digit = fy_tu_decimal_value(cp);
        char c = digit >= 0 ? (char)('0' + digit) : (char)cp;
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (digit < 0 && !letter && (cp >= 0x80 || !strchr("_.+-", c) || !c))
            return 0;
        if (b->len == MAX_NUMBER_CHARS)
            return fy_tm_fail(m, "a number of more than %d characters", MAX_NUMBER_CHARS);
        if (c == '_') {
            if (!after_digit || p == end)
                return 0;
            after_digit = false; /* a second one is refused */
            if (*p == '_' || *p == '.' || *p == '+' || *p == '-')
                return 0;
            continue;
        }
        after_digit = digit >= 0 || letter;
        if (fy_tbuf_add(m, b, &c, 1))
            return -1;
    }
    return fy_tbuf_add(m, b, "", 1) ? -1 : 1;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    return 99;
}

/* The base a prefix names (0x, 0o, 0b), 0 for none. */
static int prefix_base(const char *p)
{
    if (p[0] != '0')
        return 0;
    switch (p[1]) {
    case 'x':
    case 'X':
        return 16;
    case 'o':
    case 'O':
        return 8;
    case 'b':
    case 'B':
        return 2;
    default:
        return 0;
    }
}

/* Decimal digits of a number that fits no int64. */
static int big_decimal(fy_tm *m, const char *digits, bool negative, fy_tv *out)
{
    fy_tbuf b = {0};
    if ((negative && fy_tbuf_add(m, &b, "-", 1)) || fy_tbuf_add(m, &b, digits, strlen(digits)))
        return -1;
    *out = fy_tbuf_value(&b, false);
    out->kind = FY_TV_BIGINT;
    return 1;
}

int fy_tv_parse_int(fy_tm *m, fy_span s, int64_t base, fy_tv *out)
{
    fy_tbuf b = {0};
    int ok = normalize(m, s, &b);
    if (ok <= 0)
        return ok;
    const char *p = b.ptr;
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    int prefix = prefix_base(p);
    bool any_base = base == 0;
    if (any_base)
        base = prefix ? prefix : 10;
    if (prefix && prefix == base)
        p += 2;
    size_t n = strlen(p);
    if (n == 0)
        return 0;
    while (*p == '0' && p[1])
        p++;
    if (any_base && !prefix && n > strlen(p) && *p != '0')
        return 0; /* 012 */
    uint64_t value = 0;
    bool fits = true;
    for (const char *q = p; *q; q++) {
        int d = digit_value(*q);
        if (d >= base)
            return 0;
        fits = fits && !__builtin_mul_overflow(value, (uint64_t)base, &value) &&
               !__builtin_add_overflow(value, (uint64_t)d, &value);
    }
    if (base == 10 && n > MAX_INT_DIGITS)
        return 0;
    if (fits && value <= (uint64_t)INT64_MAX + negative) {
        *out = fy_tv_int(negative ? (int64_t)(0 - value) : (int64_t)value);
        return 1;
    }
    if (base != 10)
        return fy_tm_fail(m, "int(): a number of base %d beyond 64 bits", (int)base);
    return big_decimal(m, p, negative, out);
}

static bool same_word(const char *p, const char *word)
{
    for (; *p && *word; p++, word++)
        if ((*p | 0x20) != *word)
            return false;
    return !*p && !*word;
}

/* digits [. digits] [e [sign] digits] with at least one digit before the exponent. */
static bool is_float_text(const char *p)
{
    size_t digits = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        digits++;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++)
            digits++;
    if (digits == 0)
        return false;
    if (*p != 'e' && *p != 'E')
        return !*p;
    p++;
    p += *p == '+' || *p == '-';
    if (!*p)
        return false;
    while (*p >= '0' && *p <= '9')
        p++;
    return !*p;
}

int fy_tv_parse_float(fy_tm *m, fy_span s, double *out)
{
    fy_tbuf b = {0};
    int ok = normalize(m, s, &b);
    if (ok <= 0)
        return ok;
    const char *p = b.ptr;
    double sign = *p == '-' ? -1.0 : 1.0;
    p += *p == '-' || *p == '+';
    if (same_word(p, "inf") || same_word(p, "infinity"))
        *out = sign * (double)INFINITY;
    else if (same_word(p, "nan"))
        *out = (double)NAN;
    else if (is_float_text(p))
        *out = sign * strtod(p, NULL);
    else
        return 0;
    return 1;
}

int fy_tv_int_of_float(fy_tm *m, double f, fy_tv *out)
{
    if (f >= -9223372036854775808.0 && f < 9223372036854775808.0) {
        *out = fy_tv_int((int64_t)f);
        return 0;
    }
    char digits[400];
    snprintf(digits, sizeof digits, "%.0f", fabs(f));
    return big_decimal(m, digits, f < 0, out) < 0 ? -1 : 0;
}
