/* format.format(...): replacement fields, and the format specification of Python's format(). */
#include "model/template/template_builtin.h"

#include <string.h>

/* --- format(v, spec) ----------------------------------------------------------------------------
 */

typedef struct {
    const char *p, *end;
} reader;

static bool take(reader *r, const char *set, char *out)
{
    if (r->p == r->end || !*r->p || !strchr(set, *r->p))
        return false;
    *out = *r->p++;
    return true;
}

static int take_number(fy_tm *m, reader *r, int64_t *out)
{
    int64_t n = 0;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
        n = n * 10 + (*r->p - '0');
        if (n > INT32_MAX)
            return fy_tm_fail(m, "Too many decimal digits in format string");
    }
    *out = n;
    return 0;
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static int read_spec(fy_tm *m, fy_span text, bool number, fy_tspec *spec)
{
    reader r = {text.ptr, text.ptr + text.len};
    char c;
    *spec = (fy_tspec){.fill = FY_SPAN(" "), .precision = -1};
    const char *second = r.p;
    if (r.p < r.end)
        fy_tu_next(&second, r.end);
    bool filled = second < r.end && *second && strchr("<>=^", *second);
    if (filled) {
        spec->fill = (fy_span){r.p, (size_t)(second - r.p)};
        r.p = second;
    }
    bool aligned = take(&r, "<>=^", &spec->align);
    take(&r, "+- ", &spec->sign);
    spec->alternate = take(&r, "#", &c);
    if (!filled && take(&r, "0", &c)) {
        spec->fill = FY_SPAN("0");
        if (!aligned && number)
            spec->align = '=';
    }
    if (!spec->align)
        spec->align = number ? '>' : '<';
    if (take_number(m, &r, &spec->width))
        return -1;
    if (take(&r, ",_", &spec->grouping) && r.p < r.end && (*r.p == ',' || *r.p == '_'))
        return fy_tm_fail(m, "Cannot specify both ',' and '_'.");
    if (take(&r, ".", &c)) {
        if (r.p == r.end || *r.p < '0' || *r.p > '9')
            return fy_tm_fail(m, "Format specifier missing precision");
        if (take_number(m, &r, &spec->precision))
            return -1;
    }
    if (r.p < r.end)
        spec->type = *r.p++;
    return r.p < r.end ? fy_tm_fail(m, "Invalid format specifier") : 0;
}

static int unknown_code(fy_tm *m, const fy_tspec *spec, const fy_tv *v)
{
    return fy_tm_fail(m, "Unknown format code (0x%x) for object of type '%s'",
                      (unsigned char)spec->type, fy_tv_type_name(v));
}

static int format_text(fy_tm *m, fy_tbuf *b, const fy_tspec *spec, const fy_tv *v)
{
    if (spec->type && spec->type != 's')
        return unknown_code(m, spec, v);
    if (spec->sign || spec->alternate || spec->grouping || spec->align == '=')
        return fy_tm_fail(m, "the format specifier of a string has a sign, '#', ',' or '='");
    return fy_tspec_put_text(m, b, spec, v->str);
}

static int format_number(fy_tm *m, fy_tbuf *b, fy_tspec *spec, const fy_tv *v)
{
    double f;
    bool number = fy_tv_is(v, FY_TV_FLOAT);
    bool of_float = spec->type ? strchr("eEfFgG%", spec->type) != NULL : number;
    bool of_int = !number && (!spec->type || strchr("bcdoxX", spec->type));
    if (spec->type == 'n' && !spec->grouping) { /* as the C locale groups: not at all */
        spec->type = number ? 'g' : 'd';
        of_float = number;
        of_int = !number;
    }
    if (!of_float && !of_int)
        return unknown_code(m, spec, v);
    bool other_base = spec->type && strchr("boxX", spec->type);
    if (spec->grouping && (spec->type == 'c' || (spec->grouping == ',' && other_base)))
        return fy_tm_fail(m, "Cannot specify '%c' with '%c'.", spec->grouping, spec->type);
    if (of_float)
        return fy_tv_as_float(v, &f) ? fy_tspec_put_float(m, b, spec, f)
                                     : fy_tm_fail(m, "int too large to convert to float");
    if (spec->precision >= 0)
        return fy_tm_fail(m, "Precision not allowed in integer format specifier");
    if (spec->type == 'c' && (spec->sign || spec->alternate))
        return fy_tm_fail(m, "Sign not allowed with integer format specifier 'c'");
    return fy_tspec_put_int(m, b, spec, v);
}

static int put_format(fy_tm *m, fy_tbuf *b, const fy_tv *v, fy_span text)
{
    fy_tspec spec;
    bool number = fy_tv_is_int(v) || fy_tv_is(v, FY_TV_BIGINT) || fy_tv_is(v, FY_TV_FLOAT);
    if (text.len == 0)
        return fy_tv_put_str(m, b, v);
    if (!number && !fy_tv_is(v, FY_TV_STR))
        return fy_tm_fail(m, "unsupported format string passed to %s.__format__",
                          fy_tv_type_name(v));
    if (read_spec(m, text, number, &spec))
        return -1;
    return number ? format_number(m, b, &spec, v) : format_text(m, b, &spec, v);
}

/* --- replacement fields -------------------------------------------------------------------------
 */

typedef struct {
    fy_tm *m;
    const fy_targs *args;
    bool escape;  /* the format is markup */
    int64_t next; /* automatic number, -1 once numbers are written out */
} formatter;

static int expand(formatter *f, fy_tbuf *b, fy_span text, int depth);

/* args[i] of digits, else a keyword argument. */
static int first_value(formatter *f, fy_span name, fy_tv *out)
{
    int64_t i = 0;
    bool number = name.len > 0;
    for (size_t k = 0; k < name.len; k++) {
        number = number && name.ptr[k] >= '0' && name.ptr[k] <= '9';
        i = number && i < INT32_MAX ? i * 10 + (name.ptr[k] - '0') : i;
    }
    if (name.len == 0 || number) {
        if (number ? f->next > 0 : f->next < 0)
            return fy_tm_fail(f->m, "cannot switch between manual field specification and "
                                    "automatic field numbering");
        i = number ? i : f->next++;
        f->next = number ? -1 : f->next;
        if ((uint64_t)i >= f->args->n)
            return fy_tm_fail(f->m, "Replacement index %lld out of range for positional args tuple",
                              (long long)i);
        *out = f->args->arg[i];
        return 0;
    }
    for (size_t k = 0; k < f->args->n_named; k++)
        if (fy_span_eq(f->args->name[k], name)) {
            *out = f->args->named[k];
            return 0;
        }
    return fy_tm_fail(f->m, "format: there is no argument '%.*s'",
                      name.len < 100 ? (int)name.len : 100, name.ptr);
}

static int item_of(formatter *f, const fy_tv *v, fy_span key, fy_tv *out)
{
    fy_tv index = fy_tv_view(key);
    bool number = true;
    for (size_t i = 0; i < key.len; i++)
        number = number && key.ptr[i] >= '0' && key.ptr[i] <= '9';
    if (number && fy_tv_parse_int(f->m, key, 10, &index) < 0)
        return -1;
    return fy_tv_getitem(f->m, v, &index, out);
}

/* name.attribute[item]... */
static int field_value(formatter *f, fy_span field, fy_tv *out)
{
    const char *p = field.ptr, *end = p + field.len;
    while (p < end && *p != '.' && *p != '[')
        p++;
    fy_tv v;
    fy_span name = {field.ptr, (size_t)(p - field.ptr)};
    if (name.len == 0 && field.len)
        return fy_tm_fail(f->m, "format: a field begins with '.' or '['");
    if (first_value(f, name, &v))
        return -1;
    while (p < end) {
        bool item = *p == '[';
        const char *key = ++p;
        while (p < end && (item ? *p != ']' : *p != '.' && *p != '['))
            p++;
        if (item && p == end)
            return fy_tm_fail(f->m, "Missing ']' in format string");
        fy_span part = {key, (size_t)(p - key)};
        if (part.len == 0)
            return fy_tm_fail(f->m, "Empty attribute in format string");
        if (item ? item_of(f, &v, part, &v) : fy_tv_getattr(f->m, &v, part, &v))
            return -1;
        p += item;
        if (item && p < end && *p != '.' && *p != '[')
            return fy_tm_fail(f->m, "Only '.' or '[' may follow ']' in format field specifier");
    }
    *out = v;
    return 0;
}

static int convert(formatter *f, char how, fy_tv *v)
{
    fy_tbuf b = {0};
    int failed = how == 's'   ? fy_tv_put_str(f->m, &b, v)
                 : how == 'r' ? fy_tv_put_repr(f->m, &b, v)
                 : how == 'a' ? fy_tv_put_ascii(f->m, &b, v)
                              : fy_tm_fail(f->m, "Unknown conversion specifier");
    *v = fy_tbuf_value(&b, false);
    return failed;
}

static int put_field(formatter *f, fy_tbuf *b, const fy_tv *v, fy_span spec)
{
    fy_tbuf text = {0};
    if (!f->escape)
        return put_format(f->m, b, v, spec);
    if (v->markup && spec.len)
        return fy_tm_fail(f->m, "Unsupported format specification for Markup.");
    if (put_format(f->m, &text, v, spec))
        return -1;
    fy_span s = fy_tbuf_value(&text, false).str;
    return v->markup ? fy_tbuf_span(f->m, b, s) : fy_tu_put_escaped(f->m, b, s);
}

/* The end of the field name at p: the first of "!:}" outside of brackets. */
static const char *name_end(const char *p, const char *end)
{
    bool inside = false;
    for (; p < end && (inside || !memchr("!:}{", *p, 4)); p++)
        inside = *p == '[' || (inside && *p != ']');
    return p;
}

/* One field; *p stands behind its '{' and moves behind its '}'. */
static int replace_field(formatter *f, fy_tbuf *b, const char **p, const char *end, int depth)
{
    const char *name = *p, *q = name_end(name, end);
    fy_span field = {name, (size_t)(q - name)}, spec = {q, 0};
    fy_tbuf nested = {0};
    fy_tv v;
    char how = 0;
    if (depth == 0)
        return fy_tm_fail(f->m, "Max string recursion exceeded");
    if (q < end && *q == '!' && end - q >= 3) {
        how = q[1];
        q += 2;
        if (*q != ':' && *q != '}')
            return fy_tm_fail(f->m, "expected ':' after conversion specifier");
    }
    if (q < end && *q == ':') {
        spec.ptr = ++q;
        for (int open = 1; q < end; q++) {
            open += (*q == '{') - (*q == '}');
            if (open == 0)
                break;
        }
        spec.len = (size_t)(q - spec.ptr);
    }
    if (q >= end || *q != '}')
        return fy_tm_fail(f->m, "expected '}' before end of string");
    *p = q + 1;
    if (field_value(f, field, &v) || (how && convert(f, how, &v)) ||
        expand(f, &nested, spec, depth - 1))
        return -1;
    return put_field(f, b, &v, fy_tbuf_value(&nested, false).str);
}

static int expand(formatter *f, fy_tbuf *b, fy_span text, int depth)
{
    if (fy_tm_charge(f->m, text.len + 16))
        return -1;
    for (const char *p = text.ptr, *end = p + text.len; p < end;) {
        char c = *p++;
        bool brace = c == '{' || c == '}';
        bool doubled = brace && p < end && *p == c;
        if (c == '{' && !doubled) {
            if (p == end)
                return fy_tm_fail(f->m, "Single '{' encountered in format string");
            if (replace_field(f, b, &p, end, depth))
                return -1;
            continue;
        }
        if (c == '}' && !doubled)
            return fy_tm_fail(f->m, "Single '}' encountered in format string");
        p += doubled;
        if (fy_tbuf_add(f->m, b, &c, 1))
            return -1;
    }
    return 0;
}

int fy_tv_format(fy_tm *m, const fy_tv *format, const fy_targs *a, fy_tv *out)
{
    formatter f = {.m = m, .args = a, .escape = format->markup};
    fy_tbuf b = {0};
    if (expand(&f, &b, format->str, 2))
        return -1;
    *out = fy_tbuf_value(&b, format->markup);
    return 0;
}
