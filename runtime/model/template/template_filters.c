/* The table of filters, and those of text, numbers and single values. A value that is not a string
 * is taken as str(value) by the filters of text. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template.h"
#include "model/template/template_builtin.h"

static bool is_missing(const fy_tv *arg)
{
    return arg->kind != FY_TV_NONE && !fy_targ_given(arg);
}

/* --- any value --- */

static FILTER(filter_default)
{
    fy_tv arg[2];
    if (fy_targs_bind(m, "default ?default_value ?boolean", a, arg) != 0)
        return -1;
    bool use = v->kind == FY_TV_UNDEFINED || (fy_tv_truth(&arg[1]) && !fy_tv_truth(v));
    *out = !use ? *v : is_missing(&arg[0]) ? fy_tv_view(FY_SPAN("")) : arg[0];
    return 0;
}

static FILTER(filter_length)
{
    size_t n;
    if (fy_targs_none(m, "length", a) != 0 || fy_tv_length(m, v, &n) != 0)
        return -1;
    *out = fy_tv_int((int64_t)n);
    return 0;
}

static FILTER(filter_string)
{
    return fy_targs_none(m, "string", a) != 0 ? -1 : fy_tv_soft_str(m, v, out);
}

/* --- text --- */

static FILTER(filter_case)
{
    fy_tv s;
    fy_tbuf b = {0};
    if (fy_targs_none(m, f->name, a) != 0 || fy_tv_soft_str(m, v, &s) != 0 ||
        fy_tu_put_case(m, &b, s.str, (fy_tu_case)f->variant) != 0)
        return -1;
    *out = fy_tbuf_value(&b, s.markup);
    return 0;
}

static bool begins_word(uint32_t cp)
{
    return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || fy_tu_is_space(cp);
}

/* Unlike str.title(), jinja2 ends words at white space, '-' and opening brackets only. */
static FILTER(filter_title)
{
    fy_tv s;
    fy_tbuf b = {0};
    if (fy_targs_none(m, "title", a) != 0 || fy_tv_soft_str(m, v, &s) != 0)
        return -1;
    for (const char *p = s.str.ptr, *end = p + s.str.len; p < end;) {
        const char *first = p;
        bool separator = begins_word(fy_tu_next(&p, end));
        const char *rest = p;
        for (const char *next = p; !separator && p < end; p = next) {
            if (begins_word(fy_tu_next(&next, end)))
                break;
        }
        fy_span head = {first, (size_t)(rest - first)}, tail = {rest, (size_t)(p - rest)};
        if (fy_tu_put_case(m, &b, head, FY_TU_UPPER) != 0 ||
            fy_tu_put_case(m, &b, tail, FY_TU_LOWER) != 0)
            return -1;
    }
    *out = fy_tbuf_value(&b, false);
    return 0;
}

static FILTER(filter_trim)
{
    fy_tv chars, s;
    fy_span set, inner;
    if (fy_targs_bind(m, "trim ?chars", a, &chars) != 0 || fy_tv_soft_str(m, v, &s) != 0)
        return -1;
    bool given = fy_targ_given(&chars);
    if ((given && fy_tv_text(m, "strip", &chars, &set) != 0) ||
        fy_tu_strip(m, s.str, given ? &set : NULL, FY_TU_STRIP_BOTH, &inner) != 0)
        return -1;
    *out = fy_tv_view(inner);
    out->markup = s.markup;
    return 0;
}

static FILTER(filter_replace)
{
    fy_tv arg[3], s, from, to;
    int64_t max = -1;
    fy_tbuf b = {0};
    if (fy_targs_bind(m, "replace old new ?count", a, arg) != 0 || fy_tv_str(m, v, &s) != 0 ||
        fy_tv_str(m, &arg[0], &from) != 0 || fy_tv_str(m, &arg[1], &to) != 0 ||
        (fy_targ_given(&arg[2]) && fy_tv_index(m, &arg[2], &max) != 0) ||
        fy_tu_replace(m, &b, s.str, from.str, to.str, max) != 0)
        return -1;
    *out = fy_tbuf_value(&b, false);
    return 0;
}

static FILTER(filter_format)
{
    fy_tv s, values;
    fy_targs named = *a;
    if (a->n > 0 && a->n_named > 0)
        return fy_tm_fail(m, "can't handle positional and keyword arguments at the same time");
    if (fy_tv_soft_str(m, v, &s) != 0 ||
        (a->n_named > 0 ? fy_tv_dict(m, FY_TV_DICT, a->n_named, &values)
                        : fy_tv_list(m, FY_TV_TUPLE, a->n, &values)) != 0)
        return -1;
    for (size_t i = 0; i < named.n_named; i++) {
        if (fy_tdict_set(m, values.dict, fy_tv_view(a->name[i]), a->named[i]) != 0)
            return -1;
    }
    for (size_t i = 0; i < a->n; i++)
        values.list->item[i] = a->arg[i];
    return fy_tv_percent(m, &s, &values, out);
}

static FILTER(filter_indent)
{
    fy_tv arg[3];
    int64_t width = 4;
    fy_tbuf b = {0}, text = {0}, spaces = {0};
    if (fy_targs_bind(m, "indent ?width ?first ?blank", a, arg) != 0)
        return -1;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind != FY_TV_STR)
        return fy_tm_fail(m, "indent: a string is expected, found '%s'", fy_tv_type_name(v));
    bool own = arg[0].kind == FY_TV_STR, first = fy_tv_truth(&arg[1]), blank = fy_tv_truth(&arg[2]);
    if ((!own && !is_missing(&arg[0]) && fy_tv_index(m, &arg[0], &width) != 0) ||
        fy_tu_repeat(m, &spaces, FY_SPAN(" "), width > 0 ? (uint64_t)width : 0) != 0)
        return -1;
    fy_span by = own ? arg[0].str : fy_tbuf_value(&spaces, false).str;
    if (fy_tbuf_span(m, &text, v->str) != 0 || fy_tbuf_add(m, &text, "\n", 1) != 0)
        return -1;
    for (size_t at = 0, line = 0; at < text.len; line++) {
        size_t end = at, gap;
        while ((gap = fy_tu_line_end((fy_span){text.ptr + end, text.len - end})) == 0)
            end++;
        bool indented = line == 0 ? first : blank || end > at;
        if (fy_tm_charge(m, by.len + 16) != 0 || (line > 0 && fy_tbuf_add(m, &b, "\n", 1) != 0) ||
            (indented && fy_tbuf_span(m, &b, by) != 0) ||
            fy_tbuf_add(m, &b, text.ptr + at, end - at) != 0)
            return -1;
        at = end + gap;
    }
    *out = fy_tbuf_value(&b, v->markup);
    return 0;
}

static int escaped(fy_tm *m, fy_span s, fy_tv *out)
{
    fy_tbuf b = {0};
    if (fy_tu_put_escaped(m, &b, s) != 0)
        return -1;
    *out = fy_tbuf_value(&b, true);
    return 0;
}

static FILTER(filter_escape)
{
    if (fy_targs_none(m, "escape", a) != 0 || fy_tv_soft_str(m, v, out) != 0)
        return -1;
    return out->markup ? 0 : escaped(m, out->str, out);
}

static FILTER(filter_forceescape)
{
    if (fy_targs_none(m, "forceescape", a) != 0 || fy_tv_str(m, v, out) != 0)
        return -1;
    return escaped(m, out->str, out);
}

static FILTER(filter_safe)
{
    if (fy_targs_none(m, "safe", a) != 0 || fy_tv_str(m, v, out) != 0)
        return -1;
    out->markup = true;
    return 0;
}

/* --- numbers --- */

static FILTER(filter_abs)
{
    if (fy_targs_none(m, "abs", a) != 0)
        return -1;
    if (v->kind == FY_TV_FLOAT) {
        *out = fy_tv_float(fabs(v->f));
        return 0;
    }
    if (!fy_tv_is_int(v) || fy_tv_as_int(v) == INT64_MIN)
        return fy_tm_fail(m, "bad operand type for abs(): '%s'", fy_tv_type_name(v));
    *out = fy_tv_int(llabs(fy_tv_as_int(v)));
    return 0;
}

enum { NUMBER = 400 }; /* characters of a number as text */

/* The text of a number: without the white space around it and single underscores between digits.
 * False: too long, or cannot be one. */
static bool number_text(fy_span s, char out[NUMBER])
{
    size_t n = 0;
    s = fy_text_strip(s);
    for (size_t i = 0; i < s.len; i++) {
        bool inside = i > 0 && i + 1 < s.len && isalnum((unsigned char)s.ptr[i - 1]) &&
                      isalnum((unsigned char)s.ptr[i + 1]);
        if (s.ptr[i] == '_' && inside)
            continue;
        if (n == NUMBER - 1 || s.ptr[i] <= ' ' || s.ptr[i] == '_' || s.ptr[i] > '~')
            return false;
        out[n++] = s.ptr[i];
    }
    out[n] = '\0';
    return n > 0;
}

static bool parse_float(fy_span s, double *out)
{
    char text[NUMBER], *end;
    if (!number_text(s, text) || strpbrk(text, "xXpP(") != NULL) /* C reads more than Python */
        return false;
    *out = strtod(text, &end);
    return *end == '\0';
}

static int int_of_float(fy_tm *m, double f, fy_tv *out)
{
    if (!(fabs(f) < 0x1p63))
        return fy_tm_fail(m, "an integer of more than 64 bits is not supported");
    *out = fy_tv_int((int64_t)f);
    return 0;
}

/* int(text, base): 1, 0 when the text is not a number, -1. */
static int parse_int(fy_tm *m, fy_span s, int64_t base, fy_tv *out)
{
    char text[NUMBER], *p = text, *end;
    if (base < 2 || base > 36 || !number_text(s, text))
        return 0;
    char letter = base == 2 ? 'b' : base == 8 ? 'o' : base == 16 ? 'x' : '\0';
    size_t sign = *p == '-' || *p == '+';
    if (letter != '\0' && p[sign] == '0' && (p[sign + 1] | 0x20) == letter) {
        p[sign + 1] = *p; /* "-0b1" -> "-1" */
        p += sign + (sign != 0 ? 1 : 2);
    }
    if (!isalnum((unsigned char)p[*p == '-' || *p == '+']))
        return 0;
    errno = 0;
    long long i = strtoll(p, &end, (int)base);
    if (*end != '\0')
        return 0;
    if (errno == ERANGE)
        return fy_tm_fail(m, "an integer of more than 64 bits is not supported");
    *out = fy_tv_int(i);
    return 1;
}

static FILTER(filter_int)
{
    fy_tv arg[2];
    double x;
    int64_t base = 10;
    if (fy_targs_bind(m, "int ?default ?base", a, arg) != 0 ||
        (fy_targ_given(&arg[1]) && fy_tv_index(m, &arg[1], &base) != 0))
        return -1;
    if (base == 0)
        return fy_tm_fail(m, "int: base 0 is not supported");
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    int rc = v->kind == FY_TV_STR ? parse_int(m, v->str, base, out) : 0;
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (v->kind == FY_TV_STR && parse_float(v->str, &x) && isfinite(x))
        return int_of_float(m, x, out);
    if (v->kind == FY_TV_FLOAT && !isnan(v->f))
        return int_of_float(m, v->f, out);
    *out = fy_tv_is_int(v)           ? fy_tv_int(fy_tv_as_int(v))
           : v->kind == FY_TV_BIGINT ? *v
           : is_missing(&arg[0])     ? fy_tv_int(0)
                                     : arg[0];
    return 0;
}

static FILTER(filter_float)
{
    fy_tv otherwise;
    double x;
    if (fy_targs_bind(m, "float ?default", a, &otherwise) != 0)
        return -1;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind == FY_TV_BIGINT)
        return fy_tm_fail(m, "an integer of more than 64 bits is not supported");
    bool ok = v->kind == FY_TV_STR ? parse_float(v->str, &x) : fy_tv_as_float(v, &x);
    *out = ok ? fy_tv_float(x) : is_missing(&otherwise) ? fy_tv_float(0) : otherwise;
    return 0;
}

/* To so many digits after the point; ties by the exact value to even, as C prints them. */
static double round_digits(double f, int64_t digits)
{
    char text[NUMBER + 320];
    if (!isfinite(f) || digits > 300)
        return f;
    if (digits < 0) {
        double unit = digits < -308 ? INFINITY : pow(10, (double)-digits);
        return isinf(unit) ? 0.0 * f : rint(f / unit) * unit;
    }
    snprintf(text, sizeof text, "%.*f", (int)digits, f);
    return strtod(text, NULL);
}

/* method: "common", "ceil" or "floor". */
static FILTER(filter_round)
{
    fy_tv arg[2];
    double x;
    int64_t digits = 0;
    if (fy_targs_bind(m, "round ?precision ?method", a, arg) != 0 ||
        (fy_targ_given(&arg[0]) && fy_tv_index(m, &arg[0], &digits) != 0))
        return -1;
    fy_span method = is_missing(&arg[1])        ? FY_SPAN("common")
                     : arg[1].kind == FY_TV_STR ? arg[1].str
                                                : FY_SPAN("");
    bool common = fy_span_is(method, "common"), up = fy_span_is(method, "ceil");
    if (!common && !up && !fy_span_is(method, "floor"))
        return fy_tm_fail(m, "method must be common, ceil or floor");
    if (!fy_tv_as_float(v, &x))
        return fy_tm_fail(m, "type %s doesn't define __round__ method", fy_tv_type_name(v));
    if (common && fy_tv_is_int(v) && digits >= 0) {
        *out = fy_tv_int(fy_tv_as_int(v));
        return 0;
    }
    if (common) {
        *out = fy_tv_float(round_digits(x, digits));
        return fy_tv_is_int(v) ? int_of_float(m, out->f, out) : 0;
    }
    double scale = pow(10, (double)digits);
    *out = fy_tv_float(((up ? ceil(x * scale) : floor(x * scale)) + 0.0) / scale); /* no -0 */
    return 0;
}

/* --- the table --- */

static const fy_tfilter filters[] = {
    {"abs", filter_abs, 0},
    {"capitalize", filter_case, FY_TU_CAPITALIZE},
    {"count", filter_length, 0},
    {"d", filter_default, 0},
    {"default", filter_default, 0},
    {"e", filter_escape, 0},
    {"escape", filter_escape, 0},
    {"float", filter_float, 0},
    {"forceescape", filter_forceescape, 0},
    {"format", filter_format, 0},
    {"indent", filter_indent, 0},
    {"int", filter_int, 0},
    {"length", filter_length, 0},
    {"lower", filter_case, FY_TU_LOWER},
    {"replace", filter_replace, 0},
    {"round", filter_round, 0},
    {"safe", filter_safe, 0},
    {"string", filter_string, 0},
    {"title", filter_title, 0},
    {"tojson", fy_tfilter_tojson, 0},
    {"trim", filter_trim, 0},
    {"upper", filter_case, FY_TU_UPPER},
    {NULL, NULL, 0},
};

static const fy_tfilter *find(const fy_tfilter *table, fy_span name)
{
    while (table->name != NULL && !fy_span_is(name, table->name))
        table++;
    return table->name != NULL ? table : NULL;
}

const fy_tfilter *fy_tfilter_find(fy_span name)
{
    const fy_tfilter *found = find(filters, name);
    return found != NULL ? found : find(fy_tfilters_list, name);
}

bool fy_tfilter_is_refused(fy_span name)
{
    static const char *const refused[] = {
        "attr",     "center",    "filesizeformat", "groupby",   "pprint",   "random", "striptags",
        "truncate", "urlencode", "urlize",         "wordcount", "wordwrap", "xmlattr"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (fy_span_is(name, refused[i]))
            return true;
    }
    return false;
}
