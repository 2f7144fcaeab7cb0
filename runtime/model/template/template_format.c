/* Python's two ways to format text: format % values with flags, width and precision, and
 * format.format(...) with plain fields. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/template/template_value.h"

/* --- format % values --- */

typedef struct {
    fy_tm *m;
    fy_tbuf out;
    const char *p, *end; /* what is left of the format */
    const fy_tv *value;  /* the next positional one */
    size_t n_values;
} conversion;

/* %[flags][width][.precision]letter */
typedef struct {
    bool left, zero;
    char sign;                /* '+', ' ' or 0 */
    int64_t width, precision; /* precision -1: none */
    char letter;
} directive;

/* NULL: error. */
static const fy_tv *next_value(conversion *c)
{
    if (c->n_values == 0) {
        fy_tm_fail(c->m, "not enough arguments for format string");
        return NULL;
    }
    c->n_values--;
    return c->value++;
}

static int64_t read_count(conversion *c)
{
    int64_t n = 0;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9' && n <= INT32_MAX; c->p++)
        n = n * 10 + (*c->p - '0');
    if (n > INT32_MAX)
        fy_tm_fail(c->m, "width too big");
    return n;
}

static directive read_directive(conversion *c)
{
    directive d = {.precision = -1};
    for (; c->p < c->end && memchr("-+ 0", *c->p, 4) != NULL; c->p++) {
        d.left = d.left || *c->p == '-';
        d.zero = d.zero || *c->p == '0';
        if (*c->p == '+' || (*c->p == ' ' && d.sign == 0))
            d.sign = *c->p;
    }
    d.width = read_count(c);
    if (c->p < c->end && *c->p == '.') {
        c->p++;
        d.precision = read_count(c);
    }
    if (c->p < c->end)
        d.letter = *c->p++;
    else
        fy_tm_fail(c->m, "incomplete format");
    return d;
}

/* sign and text at the directive's width; zeros go between the two. */
static void put_padded(conversion *c, const directive *d, fy_span sign, fy_span text, bool zeros)
{
    uint64_t n = sign.len + fy_tu_length(text), width = (uint64_t)d->width;
    uint64_t pad = width > n ? width - n : 0;
    bool inner = zeros && d->zero && !d->left;
    fy_tu_repeat(&c->out, FY_SPAN(" "), inner || d->left ? 0 : pad);
    fy_tbuf_span(&c->out, sign);
    fy_tu_repeat(&c->out, FY_SPAN("0"), inner ? pad : 0);
    fy_tm_charge(c->m, text.len);
    fy_tbuf_span(&c->out, text);
    fy_tu_repeat(&c->out, FY_SPAN(" "), d->left ? pad : 0);
}

static fy_span sign_of(const directive *d, bool negative)
{
    static const char signs[] = "-+ ";
    const char *sign = negative ? signs : d->sign == '+' ? signs + 1 : signs + 2;
    return (fy_span){sign, negative || d->sign != 0};
}

static void put_text(conversion *c, const directive *d, const fy_tv *v)
{
    fy_tbuf b = {.m = c->m};
    if (d->letter == 's')
        fy_tbuf_str(&b, v);
    else
        fy_tbuf_repr(&b, v);
    fy_span s = fy_tbuf_value(&b, false).str;
    if (d->precision >= 0)
        s = fy_tu_slice(s, 0, (size_t)d->precision);
    put_padded(c, d, (fy_span){0}, s, false);
}

/* An int in d, a float in f. */
static void put_number(conversion *c, const directive *d, const fy_tv *v)
{
    bool is_int = d->letter == 'd';
    int precision = (int)(d->precision >= 0 ? d->precision : is_int ? 1 : 6);
    size_t room = (size_t)precision + 340; /* digits of the largest double */
    double f = 0;
    if (is_int ? !fy_tv_is_int(v) && (v->kind != FY_TV_FLOAT || !(fabs(v->f) < 0x1p63))
               : !fy_tv_as_float(v, &f))
        fy_tm_fail(c->m, "%%%c format: a real number is required, not %s", d->letter,
                   fy_tv_type_name(v));
    char *text = fy_tm_charge(c->m, room) ? fy_tm_alloc(c->m, room) : NULL;
    if (text == NULL)
        return;
    int64_t i = !is_int ? 0 : v->kind == FY_TV_FLOAT ? (int64_t)v->f : fy_tv_as_int(v);
    unsigned long long u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    bool negative = is_int ? i < 0 : signbit(f) && !isnan(f);
    if (is_int)
        snprintf(text, room, "%.*llu", precision, u);
    else
        snprintf(text, room, "%.*f", precision, fabs(f));
    put_padded(c, d, sign_of(d, negative), fy_span_of(text), true);
}

/* One conversion; c->p is after its '%'. */
static void convert(conversion *c)
{
    directive d = read_directive(c);
    if (d.letter == '%') {
        fy_tbuf_z(&c->out, "%");
        return;
    }
    if (strchr("srdf", d.letter) == NULL)
        fy_tm_fail(c->m, "%%%c is not supported: only %%s, %%r, %%d and %%f are",
                   d.letter >= ' ' && d.letter <= '~' ? d.letter : '?');
    const fy_tv *v = fy_tm_ok(c->m) ? next_value(c) : NULL;
    if (v == NULL)
        return;
    if (d.letter == 's' || d.letter == 'r')
        put_text(c, &d, v);
    else
        put_number(c, &d, v);
}

fy_tv fy_tv_percent(fy_tm *m, const fy_tv *format, const fy_tv *args)
{
    conversion c = {.m = m, .out = {.m = m}, .value = args, .n_values = 1, .p = format->str.ptr};
    c.end = c.p + format->str.len;
    if (args->kind == FY_TV_TUPLE) {
        c.value = args->list->item;
        c.n_values = args->list->n;
    }
    fy_tm_charge(m, format->str.len);
    while (c.p < c.end && fy_tm_ok(m)) {
        const char *next = memchr(c.p, '%', (size_t)(c.end - c.p));
        const char *stop = next != NULL ? next : c.end;
        fy_tbuf_add(&c.out, c.p, (size_t)(stop - c.p));
        c.p = stop + (next != NULL);
        if (next != NULL)
            convert(&c);
    }
    if (c.n_values > 0 && args->kind != FY_TV_DICT)
        fy_tm_fail(m, "not all arguments converted during string formatting");
    return fy_tbuf_value(&c.out, false);
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

/* The argument that a field names: the next one, one by its number, or a keyword argument. NULL:
 * error. */
static const fy_tv *field_value(fy_tm *m, const fy_targs *a, fy_span name, size_t *next)
{
    size_t i = 0, digits = 0;
    for (; digits < name.len && name.ptr[digits] >= '0' && name.ptr[digits] <= '9'; digits++)
        i = i < UINT32_MAX ? i * 10 + (size_t)(name.ptr[digits] - '0') : i;
    if (name.len == 0)
        i = (*next)++;
    const fy_tv *v = digits < name.len ? fy_targs_named(a, name) : i < a->n ? &a->arg[i] : NULL;
    if (v == NULL && digits == name.len)
        fy_tm_fail(m, "Replacement index %zu out of range for positional args tuple", i);
    else if (v == NULL && is_spec(name))
        fy_tm_fail(m, "format: the field '{%.*s}' is not supported, only {}, {0} and {name} are",
                   name.len < 60 ? (int)name.len : 60, name.ptr);
    else if (v == NULL)
        fy_tm_fail(m, "format: there is no argument '%.*s'", FY_TSHOWN(name));
    return v;
}

FY_BUILTIN(fy_tstr_format)
{
    fy_tbuf b = {.m = m};
    size_t next = 0;
    for (const char *p = v->str.ptr, *end = p + v->str.len; p < end && fy_tm_ok(m);) {
        char c = *p++;
        bool brace = c == '{' || c == '}', doubled = brace && p < end && *p == c;
        if (!brace || doubled) {
            p += doubled;
            fy_tbuf_add(&b, &c, 1);
            continue;
        }
        const char *close = c == '{' ? memchr(p, '}', (size_t)(end - p)) : NULL;
        if (close == NULL)
            return fy_tm_fail(m, "Single '%c' encountered in format string", c);
        const fy_tv *value = field_value(m, a, (fy_span){p, (size_t)(close - p)}, &next);
        if (value != NULL && fy_tm_charge(m, 16))
            fy_tbuf_str(&b, value);
        p = close + 1;
    }
    return fy_tbuf_value(&b, false);
}
