/* Filters of text. A value that is no string is taken as str(value); markup stays markup where
 * jinja2 keeps it. */
#include "model/template/template_builtin.h"

static int change_case(fy_tm *m, const char *what, const fy_tv *v, const fy_targs *a,
                       fy_tu_case how, fy_tv *out)
{
    fy_tv s;
    fy_tbuf b = {0};
    if (fy_targs_none(m, what, a) || fy_tv_soft_str(m, v, &s) || fy_tu_put_case(m, &b, s.str, how))
        return -1;
    *out = fy_tbuf_value(&b, s.markup);
    return 0;
}

int fy_tfilter_upper(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return change_case(m, "upper", v, a, FY_TU_UPPER, out);
}

int fy_tfilter_lower(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return change_case(m, "lower", v, a, FY_TU_LOWER, out);
}

int fy_tfilter_capitalize(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return change_case(m, "capitalize", v, a, FY_TU_CAPITALIZE, out);
}

static bool begins_word(uint32_t cp)
{
    return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || fy_tu_is_space(cp);
}

/* Words as jinja2 sees them end at white space, '-' and opening brackets only; str.title() is
 * another thing. */
int fy_tfilter_title(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tv s;
    fy_tbuf b = {0};
    if (fy_targs_none(m, "title", a) || fy_tv_soft_str(m, v, &s))
        return -1;
    for (const char *p = s.str.ptr, *end = p + s.str.len; p < end;) {
        const char *word = p, *second;
        uint32_t cp = fy_tu_next(&p, end);
        second = p;
        if (begins_word(cp)) {
            if (fy_tbuf_add(m, &b, word, (size_t)(p - word)))
                return -1;
            continue;
        }
        for (const char *next = p; p < end; p = next)
            if (begins_word(fy_tu_next(&next, end)))
                break;
        if (fy_tu_put_case(m, &b, (fy_span){word, (size_t)(second - word)}, FY_TU_UPPER) ||
            fy_tu_put_case(m, &b, (fy_span){second, (size_t)(p - second)}, FY_TU_LOWER))
            return -1;
    }
    *out = fy_tbuf_value(&b, false);
    return 0;
}

int fy_tfilter_center(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"width"};
    fy_tv arg, s;
    bool given;
    int64_t width = 80;
    fy_tbuf b = {0};
    if (fy_targs_bind(m, "center", a, names, 1, 0, &arg, &given) || fy_tv_soft_str(m, v, &s) ||
        (given && fy_tv_index(m, &arg, &width)) || fy_tu_center(m, &b, s.str, width, FY_SPAN(" ")))
        return -1;
    *out = fy_tbuf_value(&b, s.markup);
    return 0;
}

int fy_tfilter_trim(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"chars"};
    fy_tv arg, s;
    bool given;
    fy_span chars, inner;
    if (fy_targs_bind(m, "trim", a, names, 1, 0, &arg, &given) || fy_tv_soft_str(m, v, &s))
        return -1;
    given = given && !fy_tv_is(&arg, FY_TV_NONE);
    if ((given && fy_tv_text(m, "strip", &arg, &chars)) ||
        fy_tu_strip(m, s.str, given ? &chars : NULL, FY_TU_STRIP_LEFT | FY_TU_STRIP_RIGHT, &inner))
        return -1;
    *out = fy_tv_view(inner);
    out->markup = s.markup;
    return 0;
}

int fy_tfilter_replace(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"old", "new", "count"};
    fy_tv arg[3], s, from, to;
    bool given[3];
    int64_t max = -1;
    fy_tbuf b = {0};
    if (fy_targs_bind(m, "replace", a, names, 3, 2, arg, given) || fy_tv_str(m, v, &s) ||
        fy_tv_str(m, &arg[0], &from) || fy_tv_str(m, &arg[1], &to) ||
        (given[2] && !fy_tv_is(&arg[2], FY_TV_NONE) && fy_tv_index(m, &arg[2], &max)) ||
        fy_tu_replace(m, &b, s.str, from.str, to.str, max))
        return -1;
    *out = fy_tbuf_value(&b, false);
    return 0;
}

int fy_tfilter_format(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tv s, values;
    if (a->n && a->n_named)
        return fy_tm_fail(m, "can't handle positional and keyword arguments at the same time");
    if (fy_tv_soft_str(m, v, &s))
        return -1;
    if (a->n_named) {
        if (fy_tv_dict(m, FY_TV_DICT, a->n_named, &values))
            return -1;
        for (size_t i = 0; i < a->n_named; i++)
            if (fy_tdict_set(m, values.dict, fy_tv_view(a->name[i]), a->named[i]))
                return -1;
    } else {
        if (fy_tv_list(m, FY_TV_TUPLE, a->n, &values))
            return -1;
        for (size_t i = 0; i < a->n; i++)
            values.list->item[i] = a->arg[i];
    }
    return fy_tv_percent(m, &s, &values, out);
}

int fy_tfilter_wordcount(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tv s;
    int64_t n = 0;
    bool inside = false;
    if (fy_targs_none(m, "wordcount", a) || fy_tv_soft_str(m, v, &s) || fy_tm_charge(m, s.str.len))
        return -1;
    for (const char *p = s.str.ptr, *end = p + s.str.len; p < end;) {
        bool word = fy_tu_is_word(fy_tu_next(&p, end));
        n += word && !inside;
        inside = word;
    }
    *out = fy_tv_int(n);
    return 0;
}

/* --- indent -------------------------------------------------------------------------------------
 */

static int indentation(fy_tm *m, const fy_tv *width, bool given, fy_span *out)
{
    int64_t blanks = 4;
    fy_tbuf b = {0};
    if (given && fy_tv_is(width, FY_TV_STR)) {
        *out = width->str;
        return 0;
    }
    if ((given && fy_tv_index(m, width, &blanks)) ||
        fy_tu_repeat(m, &b, FY_SPAN(" "), blanks > 0 ? (uint64_t)blanks : 0))
        return -1;
    *out = fy_tbuf_value(&b, false).str;
    return 0;
}

int fy_tfilter_indent(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"width", "first", "blank"};
    enum { WIDTH, FIRST, BLANK, N };
    fy_tv arg[N];
    bool given[N];
    fy_span by;
    fy_tbuf b = {0}, text = {0};
    if (fy_targs_bind(m, "indent", a, names, N, 0, arg, given))
        return -1;
    if (fy_tv_is(v, FY_TV_UNDEFINED))
        return fy_tv_undefined_fail(m, v);
    if (!fy_tv_is(v, FY_TV_STR))
        return fy_tm_fail(m, "indent: a string is expected, found '%s'", fy_tv_type_name(v));
    bool blank = fy_tv_truth(&arg[BLANK]);
    if (indentation(m, &arg[WIDTH], given[WIDTH], &by) || fy_tbuf_span(m, &text, v->str) ||
        fy_tbuf_add(m, &text, "\n", 1) || (fy_tv_truth(&arg[FIRST]) && fy_tbuf_span(m, &b, by)))
        return -1;
    for (size_t at = 0, line = 0; at < text.len; line++) {
        size_t end = at, gap;
        while (!(gap = fy_tu_line_end((fy_span){text.ptr + end, text.len - end})))
            end++;
        if (fy_tm_charge(m, by.len + 16) || (line && fy_tbuf_add(m, &b, "\n", 1)) ||
            (line && (blank || end > at) && fy_tbuf_span(m, &b, by)) ||
            fy_tbuf_add(m, &b, text.ptr + at, end - at))
            return -1;
        at = end + gap;
    }
    *out = fy_tbuf_value(&b, v->markup);
    return 0;
}

/* --- truncate -----------------------------------------------------------------------------------
 */

/* s without its last word: what stands before the last blank. */
static fy_span drop_word(fy_span s)
{
    for (size_t i = s.len; i > 0; i--)
        if (s.ptr[i - 1] == ' ')
            return (fy_span){s.ptr, i - 1};
    return s;
}

int fy_tfilter_truncate(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"length", "killwords", "end", "leeway"};
    enum { LENGTH, KILLWORDS, END, LEEWAY, N };
    fy_tv arg[N];
    bool given[N];
    double length = 255, leeway = 5;
    size_t n, n_end;
    if (fy_targs_bind(m, "truncate", a, names, N, 0, arg, given))
        return -1;
    if (!given[END])
        arg[END] = fy_tv_view(FY_SPAN("..."));
    if (!given[LENGTH])
        arg[LENGTH] = fy_tv_int(255);
    bool number = fy_tv_as_float(&arg[LENGTH], &length) &&
                  (!given[LEEWAY] || fy_tv_is(&arg[LEEWAY], FY_TV_NONE) ||
                   fy_tv_as_float(&arg[LEEWAY], &leeway));
    if (!number)
        return fy_tm_fail(m, "truncate: length and leeway are numbers");
    if (fy_tv_length(m, &arg[END], &n_end))
        return -1;
    if (!(length >= (double)n_end))
        return fy_tm_fail(m, "expected length >= %zu, got %g", n_end, length);
    if (!(leeway >= 0))
        return fy_tm_fail(m, "expected leeway >= 0, got %g", leeway);
    if (fy_tv_length(m, v, &n))
        return -1;
    *out = *v;
    if ((double)n <= length + leeway)
        return 0;
    if (!fy_tv_is(v, FY_TV_STR) || !fy_tv_is(&arg[END], FY_TV_STR) || !fy_tv_is_int(&arg[LENGTH]))
        return fy_tm_fail(m, "truncate: a string is expected, found '%s'", fy_tv_type_name(v));
    fy_span kept = fy_tu_slice(v->str, 0, (size_t)fy_tv_as_int(&arg[LENGTH]) - n_end);
    if (!fy_tv_truth(&arg[KILLWORDS]))
        kept = drop_word(kept);
    fy_tbuf b = {0};
    bool escape = v->markup && !arg[END].markup;
    if (fy_tm_charge(m, v->str.len) || fy_tbuf_span(m, &b, kept) ||
        (escape ? fy_tu_put_escaped(m, &b, arg[END].str) : fy_tbuf_span(m, &b, arg[END].str)))
        return -1;
    *out = fy_tbuf_value(&b, v->markup);
    return 0;
}
