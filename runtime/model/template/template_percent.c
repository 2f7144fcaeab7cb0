/* format % values, as Python's str does it. */
#include "model/template/template_builtin.h"

#include <math.h>
#include <string.h>

typedef struct {
    fy_tm *m;
    fy_tbuf out;
    const char *p, *end; /* what is left of the format */
    const fy_tv *value;  /* next positional one */
    size_t n_values;
    const fy_tv *mapping; /* NULL: the values are no mapping */
    bool escape;          /* the format is markup: text is escaped */
} conversion;

static int next_value(conversion *c, const fy_tv **out)
{
    if (c->n_values == 0)
        return fy_tm_fail(c->m, "not enough arguments for format string");
    c->n_values--;
    *out = c->value++;
    return 0;
}

/* The value of %(key), which may hold balanced parentheses. */
static int keyed_value(conversion *c, fy_tv *out)
{
    const char *key = ++c->p;
    for (int depth = 1; c->p < c->end; c->p++) {
        depth += (*c->p == '(') - (*c->p == ')');
        if (depth == 0)
            break;
    }
    if (c->p == c->end)
        return fy_tm_fail(c->m, "incomplete format key");
    fy_span name = {key, (size_t)(c->p++ - key)};
    if (!c->mapping || !fy_tv_is(c->mapping, FY_TV_DICT))
        return fy_tm_fail(c->m, "format requires a mapping");
    const fy_tv *found = fy_tdict_find(c->mapping->dict, name);
    if (!found)
        return fy_tm_fail(c->m, "the values of the format have no '%.*s'",
                          name.len < 100 ? (int)name.len : 100, name.ptr);
    *out = *found;
    c->n_values = 0; /* the mapping is no value any more */
    return 0;
}

/* A number, or '*' for the next value. */
static int read_count(conversion *c, int64_t *out)
{
    const fy_tv *v = NULL;
    if (c->p < c->end && *c->p == '*') {
        c->p++;
        if (next_value(c, &v))
            return -1;
        if (!fy_tv_is_int(v))
            return fy_tm_fail(c->m, "* wants int");
        *out = fy_tv_as_int(v);
        return *out < INT32_MIN || *out > INT32_MAX ? fy_tm_fail(c->m, "width too big") : 0;
    }
    *out = 0;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
        *out = *out * 10 + (*c->p - '0');
        if (*out > INT32_MAX)
            return fy_tm_fail(c->m, "width too big");
    }
    return 0;
}

static int read_spec(conversion *c, fy_tspec *spec)
{
    bool left = false, zero = false;
    for (; c->p < c->end && strchr("-+ #0", *c->p) && *c->p; c->p++) {
        left = left || *c->p == '-';
        zero = zero || *c->p == '0';
        spec->alternate = spec->alternate || *c->p == '#';
        if (*c->p == '+' || (*c->p == ' ' && spec->sign != '+'))
            spec->sign = *c->p;
    }
    if (read_count(c, &spec->width))
        return -1;
    if (spec->width < 0) {
        left = true;
        spec->width = -spec->width;
    }
    if (c->p < c->end && *c->p == '.') {
        c->p++;
        if (read_count(c, &spec->precision))
            return -1;
        spec->precision = spec->precision < 0 ? 0 : spec->precision;
    }
    if (c->p < c->end && strchr("hlL", *c->p) && *c->p)
        c->p++;
    if (c->p == c->end)
        return fy_tm_fail(c->m, "incomplete format");
    spec->type = *c->p++;
    spec->align = left ? '<' : zero ? '=' : '>';
    return 0;
}

static int put_text(conversion *c, fy_tspec *spec, const fy_tv *v)
{
    fy_tbuf text = {0}, escaped = {0};
    bool repr = spec->type != 's';
    if (spec->type == 'a' ? fy_tv_put_ascii(c->m, &text, v)
        : repr            ? fy_tv_put_repr(c->m, &text, v)
                          : fy_tv_put_str(c->m, &text, v))
        return -1;
    fy_span s = fy_tbuf_value(&text, false).str;
    if (c->escape && !(v->markup && !repr)) {
        if (fy_tu_put_escaped(c->m, &escaped, s))
            return -1;
        s = fy_tbuf_value(&escaped, false).str;
    }
    if (spec->align == '=')
        spec->align = '>';
    return fy_tspec_put_text(c->m, &c->out, spec, s);
}

static int put_char(conversion *c, fy_tspec *spec, const fy_tv *v)
{
    if (spec->align == '=')
        spec->align = '>';
    if (fy_tv_is_int(v))
        return fy_tspec_put_int(c->m, &c->out, spec, v);
    if (!fy_tv_is(v, FY_TV_STR) || fy_tu_length(v->str) != 1)
        return fy_tm_fail(c->m, "%%c requires int or char");
    spec->precision = -1;
    return fy_tspec_put_text(c->m, &c->out, spec, v->str);
}

static int put_int(conversion *c, fy_tspec *spec, const fy_tv *v)
{
    fy_tv whole = *v;
    char type = spec->type;
    bool decimal = strchr("diu", type) != NULL;
    if (decimal && fy_tv_is(v, FY_TV_FLOAT)) {
        if (!isfinite(v->f))
            return fy_tm_fail(c->m, "cannot convert float %s to integer",
                              isnan(v->f) ? "NaN" : "infinity");
        if (fy_tv_int_of_float(c->m, v->f, &whole))
            return -1;
    } else if (!fy_tv_is_int(v) && !fy_tv_is(v, FY_TV_BIGINT)) {
        return fy_tm_fail(c->m, "%%%c format: %s is required, not %s", type,
                          decimal ? "a real number" : "an integer", fy_tv_type_name(v));
    }
    spec->type = decimal ? 'd' : type;
    return fy_tspec_put_int(c->m, &c->out, spec, &whole);
}

static int put_float(conversion *c, fy_tspec *spec, const fy_tv *v)
{
    double f;
    if (!fy_tv_as_float(v, &f))
        return fy_tm_fail(c->m, "must be real number, not %s", fy_tv_type_name(v));
    return fy_tspec_put_float(c->m, &c->out, spec, f);
}

/* One conversion; p stands behind its '%'. */
static int convert(conversion *c)
{
    fy_tspec spec = {.fill = FY_SPAN(" "), .precision = -1};
    fy_tv keyed;
    const fy_tv *v = NULL;
    if (c->p < c->end && *c->p == '(') {
        if (keyed_value(c, &keyed))
            return -1;
        v = &keyed;
    }
    if (read_spec(c, &spec))
        return -1;
    if (spec.type == '%')
        return fy_tbuf_add(c->m, &c->out, "%", 1);
    if (!v && next_value(c, &v))
        return -1;
    if (spec.align == '=' && !strchr("sra", spec.type))
        spec.fill = FY_SPAN("0");
    switch (spec.type) {
    case 's':
    case 'r':
    case 'a':
        return put_text(c, &spec, v);
    case 'c':
        return put_char(c, &spec, v);
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        return put_int(c, &spec, v);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        return put_float(c, &spec, v);
    default:
        break;
    }
    return fy_tm_fail(c->m, "unsupported format character (0x%x)", (unsigned char)spec.type);
}

/* What takes [key], as far as Python can tell from the type. */
static bool is_mapping(const fy_tv *v)
{
    return fy_tv_is(v, FY_TV_DICT) || fy_tv_is(v, FY_TV_LIST) || fy_tv_is(v, FY_TV_RANGE) ||
           fy_tv_is(v, FY_TV_UNDEFINED);
}

int fy_tv_percent(fy_tm *m, const fy_tv *format, const fy_tv *args, fy_tv *out)
{
    conversion c = {.m = m, .value = args, .n_values = 1, .escape = format->markup};
    c.p = format->str.ptr;
    c.end = c.p + format->str.len;
    if (fy_tv_is(args, FY_TV_TUPLE)) {
        c.value = args->list->item;
        c.n_values = args->list->n;
    } else if (is_mapping(args)) {
        c.mapping = args;
    }
    if (fy_tm_charge(m, format->str.len))
        return -1;
    while (c.p < c.end) {
        const char *next = memchr(c.p, '%', (size_t)(c.end - c.p));
        const char *stop = next ? next : c.end;
        if (fy_tbuf_add(m, &c.out, c.p, (size_t)(stop - c.p)))
            return -1;
        c.p = stop + (next != NULL);
        if (next && convert(&c))
            return -1;
    }
    if (c.n_values > 0 && !c.mapping)
        return fy_tm_fail(m, "not all arguments converted during string formatting");
    *out = fy_tbuf_value(&c.out, format->markup);
    return 0;
}
