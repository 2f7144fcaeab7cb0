/* Python's two ways to format text: format % values with flags, width and precision, and
 * format.format(...) with plain fields. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/template/template_builtin.h"

/* --- format % values --- */

typedef struct {
    fy_tm *m;
    fy_tbuf out;
    const char *p, *end; /* what is left of the format */
    const fy_tv *value;  /* the next positional one */
    size_t n_values;
    const fy_tv *mapping; /* a dict for %(name)s; NULL: none */
} conversion;

/* %[(name)][flags][width][.precision]letter */
typedef struct {
    bool left, zero;
    char sign;                /* '+', ' ' or 0 */
    int64_t width, precision; /* precision -1: none */
    char letter;
} directive;

static int next_value(conversion *c, const fy_tv **out)
{
    if (c->n_values == 0)
        return fy_tm_fail(c->m, "not enough arguments for format string");
    c->n_values--;
    *out = c->value++;
    return 0;
}

/* The value of "(name)"; c->p is at the bracket. */
static int keyed_value(conversion *c, const fy_tv **out)
{
    const char *key = c->p + 1, *close = memchr(key, ')', (size_t)(c->end - key));
    if (close == NULL)
        return fy_tm_fail(c->m, "incomplete format key");
    if (c->mapping == NULL)
        return fy_tm_fail(c->m, "format requires a mapping");
    fy_span name = {key, (size_t)(close - key)};
    *out = fy_tdict_find(c->mapping->dict, name);
    if (*out == NULL)
        return fy_tm_fail(c->m, "the values of the format have no '%.*s'",
                          name.len < 100 ? (int)name.len : 100, name.ptr);
    c->p = close + 1;
    c->n_values = 0; /* the mapping itself is no longer a value */
    return 0;
}

static int read_count(conversion *c, int64_t *out)
{
    *out = 0;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9' && *out <= INT32_MAX; c->p++)
        *out = *out * 10 + (*c->p - '0');
    return *out > INT32_MAX ? fy_tm_fail(c->m, "width too big") : 0;
}

static int read_directive(conversion *c, directive *d)
{
    *d = (directive){.precision = -1};
    for (; c->p < c->end && memchr("-+ 0", *c->p, 4) != NULL; c->p++) {
        d->left = d->left || *c->p == '-';
        d->zero = d->zero || *c->p == '0';
        if (*c->p == '+' || (*c->p == ' ' && d->sign == 0))
            d->sign = *c->p;
    }
    if (read_count(c, &d->width) != 0)
        return -1;
    if (c->p < c->end && *c->p == '.') {
        c->p++;
        if (read_count(c, &d->precision) != 0)
            return -1;
    }
    if (c->p == c->end)
        return fy_tm_fail(c->m, "incomplete format");
    d->letter = *c->p++;
    return 0;
}

/* sign and text at the directive's width; zeros go between the two. */
static int put_padded(conversion *c, const directive *d, fy_span sign, fy_span text, bool zeros)
{
    uint64_t n = sign.len + fy_tu_length(text), width = (uint64_t)d->width;
    uint64_t pad = width > n ? width - n : 0;
    bool inner = zeros && d->zero && !d->left;
    if ((!inner && !d->left && fy_tu_repeat(c->m, &c->out, FY_SPAN(" "), pad) != 0) ||
        fy_tbuf_span(c->m, &c->out, sign) != 0 ||
        (inner && fy_tu_repeat(c->m, &c->out, FY_SPAN("0"), pad) != 0) ||
        fy_tm_charge(c->m, text.len) != 0 || fy_tbuf_span(c->m, &c->out, text) != 0)
        return -1;
    return d->left ? fy_tu_repeat(c->m, &c->out, FY_SPAN(" "), pad) : 0;
}

static fy_span sign_of(const directive *d, bool negative)
{
    static const char signs[] = "-+ ";
    const char *sign = negative ? signs : d->sign == '+' ? signs + 1 : signs + 2;
    return (fy_span){sign, negative || d->sign != 0};
}

static int put_text(conversion *c, const directive *d, const fy_tv *v)
{
    fy_tbuf b = {0};
    if ((d->letter == 's' ? fy_tv_put_str(c->m, &b, v) : fy_tv_put_repr(c->m, &b, v)) != 0)
        return -1;
    fy_span s = fy_tbuf_value(&b, false).str;
    if (d->precision >= 0)
        s = fy_tu_slice(s, 0, (size_t)d->precision);
    return put_padded(c, d, (fy_span){0}, s, false);
}

/* An int in d, i, u or x, a float in e, f or g and upper case. */
static int put_number(conversion *c, const directive *d, const fy_tv *v)
{
    bool is_int = strchr("diux", d->letter) != NULL;
    int precision = (int)(d->precision >= 0 ? d->precision : is_int ? 1 : 6);
    size_t room = (size_t)precision + 340; /* digits of the largest double */
    double f = 0;
    if (is_int ? !fy_tv_is_int(v) &&
                     (d->letter == 'x' || v->kind != FY_TV_FLOAT || !(fabs(v->f) < 0x1p63))
               : !fy_tv_as_float(v, &f))
        return fy_tm_fail(c->m, "%%%c format: %s is required, not %s", d->letter,
                          d->letter == 'x' ? "an integer" : "a real number", fy_tv_type_name(v));
    char *text = fy_tm_charge(c->m, room) != 0 ? NULL : fy_tm_alloc(c->m, room);
    if (text == NULL)
        return -1;
    int64_t i = !is_int ? 0 : v->kind == FY_TV_FLOAT ? (int64_t)v->f : fy_tv_as_int(v);
    unsigned long long u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    bool negative = is_int ? i < 0 : signbit(f) && !isnan(f);
    char letter = (char)(d->letter | 0x20);
    if (is_int && letter == 'x')
        snprintf(text, room, "%.*llx", precision, u);
    else if (is_int)
        snprintf(text, room, "%.*llu", precision, u);
    else if (letter == 'e')
        snprintf(text, room, "%.*e", precision, fabs(f));
    else if (letter == 'f')
        snprintf(text, room, "%.*f", precision, fabs(f));
    else
        snprintf(text, room, "%.*g", precision, fabs(f));
    for (char *p = text; d->letter != letter && *p != '\0'; p++)
        *p = *p >= 'a' && *p <= 'z' ? (char)(*p - 32) : *p;
    return put_padded(c, d, sign_of(d, negative), fy_span_of(text), true);
}

/* One conversion; c->p is after its '%'. */
static int convert(conversion *c)
{
    directive d;
    const fy_tv *v = NULL;
    if ((c->p < c->end && *c->p == '(' && keyed_value(c, &v) != 0) || read_directive(c, &d) != 0)
        return -1;
    if (d.letter == '%')
        return fy_tbuf_add(c->m, &c->out, "%", 1);
    if (v == NULL && next_value(c, &v) != 0)
        return -1;
    if (d.letter != '\0' && strchr("sr", d.letter) != NULL)
        return put_text(c, &d, v);
    if (d.letter != '\0' && strchr("diuxeEfFgG", d.letter) != NULL)
        return put_number(c, &d, v);
    return fy_tm_fail(c->m, "unsupported format character (0x%x)", (unsigned char)d.letter);
}

int fy_tv_percent(fy_tm *m, const fy_tv *format, const fy_tv *args, fy_tv *out)
{
    conversion c = {.m = m, .value = args, .n_values = 1, .p = format->str.ptr};
    c.end = c.p + format->str.len;
    if (args->kind == FY_TV_TUPLE) {
        c.value = args->list->item;
        c.n_values = args->list->n;
    } else if (args->kind == FY_TV_DICT) {
        c.mapping = args;
    }
    if (fy_tm_charge(m, format->str.len) != 0)
        return -1;
    while (c.p < c.end) {
        const char *next = memchr(c.p, '%', (size_t)(c.end - c.p));
        const char *stop = next != NULL ? next : c.end;
        if (fy_tbuf_add(m, &c.out, c.p, (size_t)(stop - c.p)) != 0)
            return -1;
        c.p = stop + (next != NULL);
        if (next != NULL && convert(&c) != 0)
            return -1;
    }
    if (c.n_values > 0 && c.mapping == NULL)
        return fy_tm_fail(m, "not all arguments converted during string formatting");
    *out = fy_tbuf_value(&c.out, false);
    return 0;
}

/* --- format.format(...) --- */

/* "{:>5}", "{!r}", "{a.b}" or "{a[0]}". */
static bool is_spec(fy_span field)
{
    for (size_t i = 0; i < field.len; i++) {
        if (memchr(":!.[", field.ptr[i], 4) != NULL)
            return true;
    }
    return false;
}

/* The argument that a field names: the next one, one by its number, or a keyword argument. */
static const fy_tv *field_value(fy_tm *m, const fy_targs *a, fy_span name, size_t *next)
{
    size_t i = 0, digits = 0;
    for (; digits < name.len && name.ptr[digits] >= '0' && name.ptr[digits] <= '9'; digits++)
        i = i < UINT32_MAX ? i * 10 + (size_t)(name.ptr[digits] - '0') : i;
    if (name.len == 0)
        i = (*next)++;
    if (digits == name.len && i < a->n)
        return &a->arg[i];
    for (size_t k = 0; digits < name.len && k < a->n_named; k++) {
        if (fy_span_eq(a->name[k], name))
            return &a->named[k];
    }
    if (digits == name.len)
        fy_tm_fail(m, "Replacement index %zu out of range for positional args tuple", i);
    else if (is_spec(name))
        fy_tm_fail(m, "format: the field '{%.*s}' is not supported, only {}, {0} and {name} are",
                   name.len < 60 ? (int)name.len : 60, name.ptr);
    else
        fy_tm_fail(m, "format: there is no argument '%.*s'", name.len < 100 ? (int)name.len : 100,
                   name.ptr);
    return NULL;
}

int fy_tv_format(fy_tm *m, fy_span format, const fy_targs *a, fy_tv *out)
{
    fy_tbuf b = {0};
    size_t next = 0;
    for (const char *p = format.ptr, *end = p + format.len; p < end;) {
        char c = *p++;
        bool brace = c == '{' || c == '}', doubled = brace && p < end && *p == c;
        if (!brace || doubled) {
            p += doubled;
            if (fy_tbuf_add(m, &b, &c, 1) != 0)
                return -1;
            continue;
        }
        const char *close = c == '{' ? memchr(p, '}', (size_t)(end - p)) : NULL;
        if (close == NULL)
            return fy_tm_fail(m, "Single '%c' encountered in format string", c);
        const fy_tv *v = field_value(m, a, (fy_span){p, (size_t)(close - p)}, &next);
        if (v == NULL || fy_tm_charge(m, 16) != 0 || fy_tv_put_str(m, &b, v) != 0)
            return -1;
        p = close + 1;
    }
    *out = fy_tbuf_value(&b, false);
    return 0;
}
