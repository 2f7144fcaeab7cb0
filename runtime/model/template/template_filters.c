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

/* --- any value --- */

static FY_BUILTIN(filter_default)
{
    bool use = v->kind == FY_TV_UNDEFINED || (fy_tv_truth(&a->arg[1]) && !fy_tv_truth(v));
    return !use ? *v : fy_targ_absent(&a->arg[0]) ? fy_tv_view(FY_SPAN("")) : a->arg[0];
}

static FY_BUILTIN(filter_length)
{
    return fy_tv_int((int64_t)fy_tv_length(m, v));
}

static FY_BUILTIN(filter_string)
{
    return fy_tv_soft_str(m, v);
}

/* --- text --- */

static bool begins_word(uint32_t cp)
{
    return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || fy_tu_is_space(cp);
}

/* Unlike str.title(), jinja2 ends words at white space, '-' and opening brackets only. */
static FY_BUILTIN(filter_title)
{
    fy_span s = fy_tv_soft_str(m, v).str;
    fy_tbuf b = {.m = m};
    for (const char *p = s.ptr, *end = p + s.len; p < end && fy_tm_ok(m);) {
        const char *first = p;
        bool separator = begins_word(fy_tu_next(&p, end));
        const char *rest = p;
        for (const char *next = p; !separator && p < end; p = next) {
            if (begins_word(fy_tu_next(&next, end)))
                break;
        }
        fy_tu_put_case(&b, (fy_span){first, (size_t)(rest - first)}, FY_TU_UPPER);
        fy_tu_put_case(&b, (fy_span){rest, (size_t)(p - rest)}, FY_TU_LOWER);
    }
    return fy_tbuf_value(&b, false);
}

static FY_BUILTIN(filter_replace)
{
    fy_span s = fy_tv_str(m, v).str;
    fy_span from = fy_tv_str(m, &a->arg[0]).str, to = fy_tv_str(m, &a->arg[1]).str;
    fy_tbuf b = {.m = m};
    fy_tu_replace(&b, s, from, to, fy_targ_given(&a->arg[2]) ? fy_tv_index(m, &a->arg[2]) : -1);
    return fy_tbuf_value(&b, false);
}

static FY_BUILTIN(filter_format)
{
    if (a->n_named > 0)
        return fy_tm_fail(m, "format: keyword arguments are not supported");
    fy_tv s = fy_tv_soft_str(m, v), values = fy_tv_list(m, FY_TV_TUPLE, a->n);
    for (size_t i = 0; i < a->n; i++)
        fy_tlist_add(m, values.list, a->arg[i]);
    return fy_tv_percent(m, &s, &values);
}

static FY_BUILTIN(filter_indent)
{
    const fy_tv *width = &a->arg[0];
    fy_tbuf b = {.m = m}, text = {.m = m}, spaces = {.m = m};
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind != FY_TV_STR)
        return fy_tm_fail(m, "indent: a string is expected, found '%s'", fy_tv_type_name(v));
    bool own = width->kind == FY_TV_STR, first = fy_tv_truth(&a->arg[1]);
    int64_t n = own ? 0 : fy_targ_absent(width) ? 4 : fy_tv_index(m, width);
    fy_tu_repeat(&spaces, FY_SPAN(" "), n > 0 ? (uint64_t)n : 0);
    fy_span by = own ? width->str : fy_tbuf_value(&spaces, false).str;
    fy_tbuf_span(&text, v->str);
    fy_tbuf_z(&text, "\n");
    for (size_t at = 0, line = 0; at < text.len && fy_tm_charge(m, by.len + 16); line++) {
        size_t end = at, gap;
        while ((gap = fy_tu_line_end((fy_span){text.ptr + end, text.len - end})) == 0)
            end++;
        if (line > 0)
            fy_tbuf_z(&b, "\n");
        if (line == 0 ? first : end > at || fy_tv_truth(&a->arg[2]))
            fy_tbuf_span(&b, by);
        fy_tbuf_add(&b, text.ptr + at, end - at);
        at = end + gap;
    }
    return fy_tbuf_value(&b, v->markup);
}

enum { KEEP_MARKUP = 1 };

static FY_BUILTIN(filter_escape)
{
    fy_tbuf b = {.m = m};
    fy_tv s = fy_tv_soft_str(m, v);
    if (s.markup && f->variant == KEEP_MARKUP)
        return s;
    fy_tu_put_escaped(&b, s.str);
    return fy_tbuf_value(&b, true);
}

static FY_BUILTIN(filter_safe)
{
    fy_tv s = fy_tv_str(m, v);
    s.markup = true;
    return s;
}

/* --- numbers --- */

static FY_BUILTIN(filter_abs)
{
    if (v->kind == FY_TV_FLOAT)
        return fy_tv_float(fabs(v->f));
    if (!fy_tv_is_int(v) || fy_tv_as_int(v) == INT64_MIN)
        return fy_tm_fail(m, "bad operand type for abs(): '%s'", fy_tv_type_name(v));
    return fy_tv_int(llabs(fy_tv_as_int(v)));
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

static fy_tv too_large(fy_tm *m)
{
    return fy_tm_fail(m, "an integer of more than 64 bits is not supported");
}

static fy_tv int_of_float(fy_tm *m, double f)
{
    return fabs(f) < 0x1p63 ? fy_tv_int((int64_t)f) : too_large(m);
}

/* int(text, base). False: the text is not a number. */
static bool parse_int(fy_tm *m, fy_span s, int64_t base, fy_tv *out)
{
    char text[NUMBER], *p = text, *end;
    if (base < 2 || base > 36 || !number_text(s, text))
        return false;
    char letter = base == 2 ? 'b' : base == 8 ? 'o' : base == 16 ? 'x' : '\0';
    size_t sign = *p == '-' || *p == '+';
    if (letter != '\0' && p[sign] == '0' && (p[sign + 1] | 0x20) == letter) {
        p[sign + 1] = *p; /* "-0b1" -> "-1" */
        p += sign + (sign != 0 ? 1 : 2);
    }
    if (!isalnum((unsigned char)p[*p == '-' || *p == '+']))
        return false;
    errno = 0;
    long long i = strtoll(p, &end, (int)base);
    if (*end != '\0')
        return false;
    *out = errno == ERANGE ? too_large(m) : fy_tv_int(i);
    return true;
}

static FY_BUILTIN(filter_int)
{
    fy_tv out;
    double x;
    int64_t base = fy_targ_given(&a->arg[1]) ? fy_tv_index(m, &a->arg[1]) : 10;
    if (base == 0)
        return fy_tm_fail(m, "int: base 0 is not supported");
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind == FY_TV_STR && parse_int(m, v->str, base, &out))
        return out;
    if (v->kind == FY_TV_STR && parse_float(v->str, &x) && isfinite(x))
        return int_of_float(m, x);
    if (v->kind == FY_TV_FLOAT && !isnan(v->f))
        return int_of_float(m, v->f);
    return fy_tv_is_int(v)              ? fy_tv_int(fy_tv_as_int(v))
           : v->kind == FY_TV_BIGINT    ? *v
           : fy_targ_absent(&a->arg[0]) ? fy_tv_int(0)
                                        : a->arg[0];
}

static FY_BUILTIN(filter_float)
{
    double x;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind == FY_TV_BIGINT)
        return too_large(m);
    if (v->kind == FY_TV_STR ? parse_float(v->str, &x) : fy_tv_as_float(v, &x))
        return fy_tv_float(x);
    return fy_targ_absent(&a->arg[0]) ? fy_tv_float(0) : a->arg[0];
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
static FY_BUILTIN(filter_round)
{
    double x;
    int64_t digits = fy_targ_given(&a->arg[0]) ? fy_tv_index(m, &a->arg[0]) : 0;
    fy_span method = fy_targ_absent(&a->arg[1])    ? FY_SPAN("common")
                     : a->arg[1].kind == FY_TV_STR ? a->arg[1].str
                                                   : FY_SPAN("");
    bool common = fy_span_is(method, "common"), up = fy_span_is(method, "ceil");
    if (!common && !up && !fy_span_is(method, "floor"))
        return fy_tm_fail(m, "method must be common, ceil or floor");
    if (!fy_tv_as_float(v, &x))
        return fy_tm_fail(m, "type %s doesn't define __round__ method", fy_tv_type_name(v));
    if (common && fy_tv_is_int(v))
        return digits >= 0 ? fy_tv_int(fy_tv_as_int(v)) : int_of_float(m, round_digits(x, digits));
    if (common)
        return fy_tv_float(round_digits(x, digits));
    double scale = pow(10, (double)digits);
    return fy_tv_float(((up ? ceil(x * scale) : floor(x * scale)) + 0.0) / scale); /* no -0 */
}

/* --- the table --- */

static const fy_tbuiltin filters[] = {
    {"abs", "/", filter_abs, 0},
    {"capitalize", "/", fy_tstr_case, FY_TU_CAPITALIZE},
    {"count", "/", filter_length, 0},
    {"d", "?default_value ?boolean", filter_default, 0},
    {"default", "?default_value ?boolean", filter_default, 0},
    {"e", "/", filter_escape, KEEP_MARKUP},
    {"escape", "/", filter_escape, KEEP_MARKUP},
    {"float", "?default", filter_float, 0},
    {"forceescape", "/", filter_escape, 0},
    {"format", NULL, filter_format, 0},
    {"indent", "?width ?first ?blank", filter_indent, 0},
    {"int", "?default ?base", filter_int, 0},
    {"length", "/", filter_length, 0},
    {"lower", "/", fy_tstr_case, FY_TU_LOWER},
    {"replace", "old new ?count", filter_replace, 0},
    {"round", "?precision ?method", filter_round, 0},
    {"safe", "/", filter_safe, 0},
    {"string", "/", filter_string, 0},
    {"title", "/", filter_title, 0},
    {"tojson", "?ensure_ascii ?indent ?separators ?sort_keys", fy_tfilter_tojson, 0},
    {"trim", "?chars", fy_tstr_strip, FY_TU_STRIP_BOTH},
    {"upper", "/", fy_tstr_case, FY_TU_UPPER},
    {NULL, NULL, NULL, 0},
};

const fy_tbuiltin *fy_tfilter_find(fy_span name)
{
    const fy_tbuiltin *found = fy_tbuiltin_find(filters, name);
    return found != NULL ? found : fy_tbuiltin_find(fy_tfilters_list, name);
}

bool fy_tfilter_is_refused(fy_span name)
{
    return fy_tword_is_in(name, "attr center filesizeformat groupby pprint random striptags "
                                "truncate urlencode urlize wordcount wordwrap xmlattr");
}
