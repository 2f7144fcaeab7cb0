/* Arguments of builtins, and the functions that every template has: range, dict, namespace, joiner,
 * and raise_exception and strftime_now of transformers. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "model/template/template_builtin.h"

#define CALL(name) \
    static int name(fy_tm *m, fy_tcall *self __attribute__((unused)), const fy_targs *a, fy_tv *out)

/* --- values as arguments --- */

bool fy_tv_is_int(const fy_tv *v)
{
    return v->kind == FY_TV_INT || v->kind == FY_TV_BOOL;
}

int64_t fy_tv_as_int(const fy_tv *v)
{
    return v->kind == FY_TV_BOOL ? v->b : v->i;
}

int fy_tv_index(fy_tm *m, const fy_tv *v, int64_t *out)
{
    if (!fy_tv_is_int(v))
        return fy_tm_fail(m, "'%s' object cannot be interpreted as an integer", fy_tv_type_name(v));
    *out = fy_tv_as_int(v);
    return 0;
}

bool fy_tv_as_float(const fy_tv *v, double *out)
{
    if (v->kind != FY_TV_FLOAT && !fy_tv_is_int(v))
        return false;
    *out = v->kind == FY_TV_FLOAT ? v->f : (double)fy_tv_as_int(v);
    return true;
}

int fy_tv_text(fy_tm *m, const char *what, const fy_tv *v, fy_span *out)
{
    if (v->kind != FY_TV_STR)
        return fy_tm_fail(m, "%s argument must be str, not %s", what, fy_tv_type_name(v));
    *out = v->str;
    return 0;
}

int fy_tv_soft_str(fy_tm *m, const fy_tv *v, fy_tv *out)
{
    if (v->kind != FY_TV_STR)
        return fy_tv_str(m, v, out);
    *out = *v;
    return 0;
}

fy_tv fy_tbuf_value(const fy_tbuf *b, bool markup)
{
    fy_tv v = fy_tv_view((fy_span){b->ptr, b->len});
    v.markup = markup;
    return v;
}

fy_tv fy_tv_hint(const char *text)
{
    fy_tv v = fy_tv_undefined(fy_span_of(text));
    v.view = 'h';
    return v;
}

int fy_tv_unsupported(fy_tm *m, const char *what, fy_span name, fy_tv *out)
{
    char text[160];
    int n = snprintf(text, sizeof text, "%s '%.*s' is not supported", what,
                     (int)(name.len < 80 ? name.len : 80), name.ptr);
    if (fy_tv_copy(m, (fy_span){text, (size_t)n}, out) != 0)
        return -1;
    out->kind = FY_TV_UNDEFINED;
    out->view = 'h';
    return 1;
}

int fy_tv_pair(fy_tm *m, fy_tv a, fy_tv b, fy_tv *out)
{
    if (fy_tv_list(m, FY_TV_TUPLE, 2, out) != 0)
        return -1;
    out->list->item[0] = a;
    out->list->item[1] = b;
    return 0;
}

/* --- binding --- */

int fy_targs_count(fy_tm *m, const char *what, const fy_targs *a, size_t min, size_t max)
{
    if (a->n_named > 0)
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

bool fy_targ_given(const fy_tv *v)
{
    return v->kind != FY_TV_NONE && !(v->kind == FY_TV_UNDEFINED && v->view == '-');
}

/* The next word of a signature; empty at its end. */
static fy_span next_word(const char **p)
{
    *p += strspn(*p, " ");
    fy_span word = {*p, strcspn(*p, " ")};
    *p += word.len;
    return word;
}

/* The keyword argument of that name; n_named when there is none. */
static size_t find_named(const fy_targs *a, fy_span name)
{
    size_t k = 0;
    while (k < a->n_named && !fy_span_eq(a->name[k], name))
        k++;
    return k;
}

int fy_targs_bind(fy_tm *m, const char *signature, const fy_targs *a, fy_tv *out)
{
    const char *p = signature;
    fy_span what = next_word(&p), name;
    size_t n = 0, n_used = 0;
    for (; (name = next_word(&p)).len > 0; n++) {
        bool optional = name.ptr[0] == '?';
        name = (fy_span){name.ptr + optional, name.len - optional};
        size_t k = find_named(a, name);
        if (n < a->n && k < a->n_named)
            return fy_tm_fail(m, "%.*s() got multiple values for argument '%.*s'", (int)what.len,
                              what.ptr, (int)name.len, name.ptr);
        if (n >= a->n && k == a->n_named && !optional)
            return fy_tm_fail(m, "%.*s() missing 1 required positional argument: '%.*s'",
                              (int)what.len, what.ptr, (int)name.len, name.ptr);
        n_used += k < a->n_named;
        out[n] = n < a->n         ? a->arg[n]
                 : k < a->n_named ? a->named[k]
                                  : (fy_tv){.kind = FY_TV_UNDEFINED, .view = '-'};
    }
    if (a->n > n)
        return fy_tm_fail(m, "%.*s() takes %zu positional argument%s but %zu were given",
                          (int)what.len, what.ptr, n, n == 1 ? "" : "s", a->n);
    for (size_t k = 0; k < a->n_named && n_used < a->n_named; k++) {
        p = signature + what.len;
        while ((name = next_word(&p)).len > 0) {
            bool optional = name.ptr[0] == '?';
            if (fy_span_eq(a->name[k], (fy_span){name.ptr + optional, name.len - optional}))
                break;
        }
        if (name.len == 0)
            return fy_tm_fail(m, "%.*s() got an unexpected keyword argument '%.*s'", (int)what.len,
                              what.ptr, (int)(a->name[k].len < 200 ? a->name[k].len : 200),
                              a->name[k].ptr);
    }
    return 0;
}

/* --- range --- */

enum { MAX_RANGE = 100000 }; /* as in jinja2's sandbox */

CALL(call_range)
{
    int64_t v[3] = {0, 0, 1};
    if (fy_targs_count(m, "range", a, 1, 3) != 0)
        return -1;
    for (size_t i = 0; i < a->n; i++) {
        if (fy_tv_index(m, &a->arg[i], &v[a->n == 1 ? 1 : i]) != 0)
            return -1;
    }
    int64_t start = v[0], stop = v[1], step = v[2];
    uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, span = 0;
    if (step == 0)
        return fy_tm_fail(m, "range() arg 3 must not be zero");
    if (step > 0 ? start < stop : start > stop)
        span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t n = span > 0 ? (span - 1) / size + 1 : 0;
    if (n > MAX_RANGE)
        return fy_tm_fail(m, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                          MAX_RANGE);
    fy_trange *r = fy_tm_alloc(m, sizeof *r);
    if (r == NULL)
        return -1;
    *r = (fy_trange){.start = start, .step = step, .n = (size_t)n, .stop = stop};
    *out = (fy_tv){.kind = FY_TV_RANGE, .range = r};
    return 0;
}

/* --- dict and namespace --- */

static int copy_dict(fy_tm *m, const fy_tdict *from, fy_tdict *to)
{
    for (size_t i = 0; i < fy_tdict_n(from); i++) {
        if (fy_tdict_set(m, to, *fy_tdict_key(from, i), *fy_tdict_at(from, i)) != 0)
            return -1;
    }
    return 0;
}

/* dict(mapping, **names) */
static int make_dict(fy_tm *m, fy_tv_kind kind, const fy_targs *a, fy_tv *out)
{
    if (a->n > 1)
        return fy_tm_fail(m, "dict expected at most 1 argument, got %zu", a->n);
    if (a->n == 1 && a->arg[0].kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, &a->arg[0]);
    if (fy_tv_dict(m, kind, a->n_named, out) != 0)
        return -1;
    if (a->n == 1 && a->arg[0].kind != FY_TV_DICT)
        return fy_tm_fail(m, "dict() of a '%s' is not supported", fy_tv_type_name(&a->arg[0]));
    if (a->n == 1 && copy_dict(m, a->arg[0].dict, out->dict) != 0)
        return -1;
    for (size_t i = 0; i < a->n_named; i++) {
        if (fy_tdict_set(m, out->dict, fy_tv_view(a->name[i]), a->named[i]) != 0)
            return -1;
    }
    return 0;
}

CALL(call_dict)
{
    return make_dict(m, FY_TV_DICT, a, out);
}

CALL(call_namespace)
{
    if (make_dict(m, FY_TV_NAMESPACE, a, out) != 0)
        return -1;
    for (size_t i = 0; i < fy_tdict_n(out->dict); i++) {
        const fy_tv *key = fy_tdict_key(out->dict, i);
        if (key->kind == FY_TV_STR && key->str.len > 0 && key->str.ptr[0] == '_')
            return fy_tm_fail(m, "Chat templates cannot store underscore-prefixed attributes on a "
                                 "namespace. Please rename the attribute.");
    }
    return 0;
}

/* --- joiner --- */

typedef struct {
    fy_tcall base;
    fy_tv separator;
    bool used;
} joiner;

CALL(call_joiner)
{
    joiner *j = (joiner *)self;
    if (fy_targs_none(m, "joiner", a) != 0)
        return -1;
    *out = j->used ? j->separator : fy_tv_view(FY_SPAN(""));
    j->used = true;
    return 0;
}

CALL(make_joiner)
{
    fy_tv separator;
    joiner *j =
        fy_targs_bind(m, "joiner ?sep", a, &separator) != 0 ? NULL : fy_tm_alloc(m, sizeof *j);
    if (j == NULL)
        return -1;
    if (!fy_targ_given(&separator))
        separator = fy_tv_view(FY_SPAN(", "));
    *j = (joiner){{"Joiner", call_joiner, NULL}, separator, false};
    *out = (fy_tv){.kind = FY_TV_OBJECT, .call = &j->base};
    return 0;
}

/* --- what transformers adds --- */

CALL(call_raise_exception)
{
    fy_tv message, text;
    (void)out;
    if (fy_targs_bind(m, "raise_exception message", a, &message) != 0 ||
        fy_tv_str(m, &message, &text) != 0)
        return -1;
    size_t n = text.str.len, room = sizeof m->e->msg - 1;
    n = fy_utf8_complete(text.str.ptr, n < room ? n : room);
    return fy_fail(m->e, FY_EARG, "%.*s", (int)n, text.str.ptr);
}

/* Appends one conversion of strftime in the C locale, whatever the program's locale is. */
static int put_time(fy_tm *m, fy_tbuf *b, const struct tm *t, char letter)
{
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    const struct {
        char letter, zero;
        int width, value;
    } numbers[] = {
        {'d', '0', 2, t->tm_mday},        {'e', ' ', 2, t->tm_mday},
        {'H', '0', 2, t->tm_hour},        {'j', '0', 3, t->tm_yday + 1},
        {'m', '0', 2, t->tm_mon + 1},     {'M', '0', 2, t->tm_min},
        {'S', '0', 2, t->tm_sec},         {'y', '0', 2, t->tm_year % 100},
        {'Y', '0', 4, t->tm_year + 1900}, {'I', '0', 2, (t->tm_hour + 11) % 12 + 1},
    };
    char text[16];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].letter == letter) {
            snprintf(text, sizeof text, numbers[i].zero == '0' ? "%0*d" : "%*d", numbers[i].width,
                     numbers[i].value);
            return fy_tbuf_add(m, b, text, strlen(text));
        }
    }
    const char *name = letter == 'a' || letter == 'A'   ? days[t->tm_wday]
                       : letter == 'b' || letter == 'B' ? months[t->tm_mon]
                       : letter == 'p'                  ? t->tm_hour < 12 ? "AM" : "PM"
                       : letter == '%'                  ? "%"
                                                        : NULL;
    if (name != NULL)
        return fy_tbuf_add(m, b, name, letter == 'a' || letter == 'b' ? 3 : strlen(name));
    return fy_tm_fail(m,
                      "strftime_now: a conversion other than %%a %%A %%b %%B %%d %%e %%H %%I %%j "
                      "%%m %%M %%p %%S %%y %%Y %%%% is not supported");
}

CALL(call_strftime_now)
{
    fy_tv format;
    fy_span s = {0};
    fy_tbuf b = {0};
    struct tm t;
    time_t now = (time_t)m->clock_s;
    if (fy_targs_bind(m, "strftime_now format", a, &format) != 0 ||
        fy_tv_text(m, "strftime() format", &format, &s) != 0)
        return -1;
    if ((m->clock_utc ? gmtime_r(&now, &t) : localtime_r(&now, &t)) == NULL)
        return fy_tm_fail(m, "strftime_now: the clock is outside the calendar");
    for (size_t i = 0; i < s.len; i++) {
        bool conversion = s.ptr[i] == '%' && i + 1 < s.len;
        if (conversion ? put_time(m, &b, &t, s.ptr[++i]) != 0
                       : fy_tbuf_add(m, &b, s.ptr + i, 1) != 0)
            return -1;
    }
    *out = fy_tbuf_value(&b, false);
    return 0;
}

int fy_tglobal_find(fy_tm *m, fy_span name, fy_tv *out)
{
    static struct {
        const char *name;
        fy_tcall call; /* no function: refused */
    } globals[] = {
        {"raise_exception", {"function", call_raise_exception, NULL}},
        {"namespace", {"function", call_namespace, NULL}},
        {"range", {"function", call_range, NULL}},
        {"strftime_now", {"function", call_strftime_now, NULL}},
        {"dict", {"function", call_dict, NULL}},
        {"joiner", {"function", make_joiner, NULL}},
        {"cycler", {"function", NULL, NULL}},
        {"lipsum", {"function", NULL, NULL}},
    };
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        if (!fy_span_is(name, globals[i].name))
            continue;
        if (globals[i].call.call == NULL)
            return fy_tv_unsupported(m, "the function", name, out);
        *out = (fy_tv){.kind = FY_TV_CALLABLE, .call = &globals[i].call};
        return 1;
    }
    return 0;
}
