/* Arguments of builtins, and the functions that every template has: range, dict, namespace, joiner,
 * and raise_exception and strftime_now of transformers. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "model/template/template_value.h"

/* --- values as arguments --- */

bool fy_targ_absent(const fy_tv *v)
{
    return v->kind == FY_TV_UNDEFINED && v->view == '-';
}

bool fy_targ_given(const fy_tv *v)
{
    return v->kind != FY_TV_NONE && !fy_targ_absent(v);
}

int64_t fy_tv_index(fy_tm *m, const fy_tv *v)
{
    if (!fy_tv_is_int(v))
        fy_tm_fail(m, "'%s' object cannot be interpreted as an integer", fy_tv_type_name(v));
    return fy_tv_is_int(v) ? fy_tv_as_int(v) : 0;
}

fy_span fy_tv_text(fy_tm *m, const char *what, const fy_tv *v)
{
    if (v->kind != FY_TV_STR)
        fy_tm_fail(m, "%s argument must be str, not %s", what, fy_tv_type_name(v));
    return v->kind == FY_TV_STR ? v->str : FY_SPAN("");
}

const fy_tv *fy_targs_named(const fy_targs *a, fy_span name)
{
    for (size_t k = 0; k < a->n_named; k++) {
        if (fy_span_eq(a->name[k], name))
            return &a->named[k];
    }
    return NULL;
}

/* --- tables of builtins --- */

/* The next word of a text of words with one space between them; empty at its end. */
static fy_span next_word(const char **p)
{
    *p += **p == ' ';
    fy_span word = {*p, strcspn(*p, " ")};
    *p += word.len;
    return word;
}

bool fy_tword_is_in(fy_span name, const char *words)
{
    fy_span word;
    while ((word = next_word(&words)).len > 0) {
        if (fy_span_eq(word, name))
            return true;
    }
    return false;
}

const fy_tbuiltin *fy_tbuiltin_find(const fy_tbuiltin *table, fy_span name)
{
    while (table->name != NULL && !fy_span_is(name, table->name))
        table++;
    return table->name != NULL ? table : NULL;
}

fy_tv fy_tv_unsupported(fy_tm *m, const char *what, fy_span name)
{
    fy_tbuf b = {.m = m};
    fy_tbuf_printf(&b, "%s '%.*s' is not supported", what, FY_TSHOWN(name));
    return fy_tv_hint(fy_tbuf_value(&b, false).str);
}

typedef struct {
    fy_tcall base;
    const fy_tbuiltin *f;
    fy_tv self;
} bound;

static fy_tv call_bound(fy_tm *m, fy_tcall *call, const fy_targs *a)
{
    const bound *b = (const bound *)call;
    return fy_tbuiltin_run(m, b->f, &b->self, a);
}

fy_tv fy_tbuiltin_bind(fy_tm *m, const char *type, const fy_tbuiltin *f, fy_tv v)
{
    bound *b = fy_tm_alloc(m, sizeof *b);
    if (b == NULL)
        return fy_tv_none();
    *b = (bound){{type, call_bound, NULL}, f, v};
    return (fy_tv){.kind = FY_TV_CALLABLE, .call = &b->base};
}

/* --- binding arguments --- */

enum { MAX_PARAMS = 4 };

/* The parameters' names, without the marks of optional ones; how many are required. */
static size_t read_params(const char *params, fy_span name[MAX_PARAMS], size_t *n)
{
    size_t required = 0;
    for (*n = 0; *n < MAX_PARAMS && (name[*n] = next_word(&params)).len > 0; ++*n) {
        bool optional = name[*n].ptr[0] == '?';
        name[*n].ptr += optional;
        name[*n].len -= optional;
        required += !optional;
    }
    return required;
}

/* As Python binds arguments to names. */
static void bind_names(fy_tm *m, const fy_tbuiltin *f, const fy_targs *a, size_t required,
                       const fy_span *name, size_t n, fy_tv *out)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const fy_tv *named = fy_targs_named(a, name[i]);
        if (i < a->n && named != NULL)
            fy_tm_fail(m, "%s() got multiple values for argument '%.*s'", f->name,
                       FY_TSHOWN(name[i]));
        if (i >= a->n && named == NULL && i < required)
            fy_tm_fail(m, "%s() missing 1 required positional argument: '%.*s'", f->name,
                       FY_TSHOWN(name[i]));
        used += named != NULL;
        if (named != NULL)
            out[i] = *named;
    }
    if (a->n > n)
        fy_tm_fail(m, "%s() takes %zu positional argument%s but %zu were given", f->name, n,
                   n == 1 ? "" : "s", a->n);
    for (size_t k = 0; k < a->n_named && used < a->n_named; k++) {
        size_t i = 0;
        while (i < n && !fy_span_eq(a->name[k], name[i]))
            i++;
        if (i == n)
            fy_tm_fail(m, "%s() got an unexpected keyword argument '%.*s'", f->name,
                       (int)(a->name[k].len < 200 ? a->name[k].len : 200), a->name[k].ptr);
    }
}

fy_tv fy_tbuiltin_run(fy_tm *m, const fy_tbuiltin *f, const fy_tv *v, const fy_targs *a)
{
    fy_tv arg[MAX_PARAMS];
    fy_span name[MAX_PARAMS];
    size_t n;
    if (f->params == NULL)
        return f->run(m, f, v, a);
    bool by_position = f->params[0] == '/';
    size_t required = read_params(f->params + by_position, name, &n);
    for (size_t i = 0; i < n; i++)
        arg[i] = i < a->n ? a->arg[i] : (fy_tv){.kind = FY_TV_UNDEFINED, .view = '-'};
    if (by_position && a->n_named > 0)
        fy_tm_fail(m, "%s() takes no keyword arguments", f->name);
    bind_names(m, f, a, required, name, n, arg);
    return fy_tm_ok(m) ? f->run(m, f, v, &(fy_targs){.arg = arg, .n = n}) : fy_tv_none();
}

/* --- range --- */

enum { MAX_RANGE = 100000 }; /* as in jinja2's sandbox */

static FY_BUILTIN(call_range)
{
    const fy_tv *arg = a->arg;
    bool one = fy_targ_absent(&arg[1]);
    int64_t start = one ? 0 : fy_tv_index(m, &arg[0]), stop = fy_tv_index(m, &arg[!one]);
    int64_t step = fy_targ_absent(&arg[2]) ? 1 : fy_tv_index(m, &arg[2]);
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
        return fy_tv_none();
    *r = (fy_trange){.start = start, .step = step, .n = (size_t)n, .stop = stop};
    return (fy_tv){.kind = FY_TV_RANGE, .range = r};
}

/* --- dict and namespace --- */

/* dict(mapping, **names) */
static FY_BUILTIN(call_dict)
{
    const fy_tv *from = a->n > 0 ? &a->arg[0] : NULL;
    if (a->n > 1)
        return fy_tm_fail(m, "dict expected at most 1 argument, got %zu", a->n);
    if (from != NULL && from->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, from);
    if (from != NULL && from->kind != FY_TV_DICT)
        return fy_tm_fail(m, "dict() of a '%s' is not supported", fy_tv_type_name(from));
    fy_tv out = fy_tv_dict(m, (fy_tv_kind)f->variant, a->n_named);
    for (size_t i = 0; from != NULL && i < from->dict->n && fy_tm_ok(m); i++)
        fy_tdict_set(m, out.dict, from->dict->items[i].key, from->dict->items[i].value);
    for (size_t i = 0; i < a->n_named; i++)
        fy_tdict_set(m, out.dict, fy_tv_view(a->name[i]), a->named[i]);
    for (size_t i = 0; f->variant == FY_TV_NAMESPACE && i < out.dict->n; i++) {
        const fy_tv *key = &out.dict->items[i].key;
        if (key->kind == FY_TV_STR && fy_span_begins(key->str, "_"))
            return fy_tm_fail(m, "Chat templates cannot store underscore-prefixed attributes on a "
                                 "namespace. Please rename the attribute.");
    }
    return out;
}

/* --- joiner --- */

typedef struct {
    fy_tcall base;
    fy_tv separator;
    bool used;
} joiner;

static fy_tv call_joiner(fy_tm *m, fy_tcall *self, const fy_targs *a)
{
    joiner *j = (joiner *)self;
    if (a->n + a->n_named > 0)
        return fy_tm_fail(m, "joiner() takes exactly 0 arguments (%zu given)", a->n + a->n_named);
    fy_tv out = j->used ? j->separator : fy_tv_view(FY_SPAN(""));
    j->used = true;
    return out;
}

static FY_BUILTIN(make_joiner)
{
    joiner *j = fy_tm_alloc(m, sizeof *j);
    if (j == NULL)
        return fy_tv_none();
    fy_tv separator = fy_targ_given(&a->arg[0]) ? a->arg[0] : fy_tv_view(FY_SPAN(", "));
    *j = (joiner){{"Joiner", call_joiner, NULL}, separator, false};
    return (fy_tv){.kind = FY_TV_OBJECT, .call = &j->base};
}

/* --- what transformers adds --- */

static FY_BUILTIN(call_raise_exception)
{
    fy_span text = fy_tv_str(m, &a->arg[0]).str;
    size_t room = sizeof m->e->msg - 1;
    size_t n = fy_utf8_complete(text.ptr, text.len < room ? text.len : room);
    fy_fail(m->e, FY_EARG, "%.*s", (int)n, text.ptr);
    return fy_tv_none();
}

/* Appends one conversion of strftime in the C locale, whatever the program's locale is. */
static void put_time(fy_tbuf *b, const struct tm *t, char letter)
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
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].letter == letter) {
            fy_tbuf_printf(b, numbers[i].zero == '0' ? "%0*d" : "%*d", numbers[i].width,
                           numbers[i].value);
            return;
        }
    }
    bool is_short = letter == 'a' || letter == 'b';
    const char *name = letter == 'a' || letter == 'A'   ? days[t->tm_wday]
                       : letter == 'b' || letter == 'B' ? months[t->tm_mon]
                       : letter == 'p'                  ? t->tm_hour < 12 ? "AM" : "PM"
                       : letter == '%'                  ? "%"
                                                        : NULL;
    if (name != NULL)
        fy_tbuf_printf(b, "%.*s", is_short ? 3 : 9, name);
    else
        fy_tm_fail(b->m,
                   "strftime_now: a conversion other than %%a %%A %%b %%B %%d %%e %%H %%I %%j "
                   "%%m %%M %%p %%S %%y %%Y %%%% is not supported");
}

static FY_BUILTIN(call_strftime_now)
{
    fy_span s = fy_tv_text(m, "strftime() format", &a->arg[0]);
    fy_tbuf b = {.m = m};
    struct tm t;
    time_t now = (time_t)m->clock_s;
    if ((m->clock_utc ? gmtime_r(&now, &t) : localtime_r(&now, &t)) == NULL)
        return fy_tm_fail(m, "strftime_now: the clock is outside the calendar");
    for (size_t i = 0; i < s.len && fy_tm_ok(m); i++) {
        if (s.ptr[i] == '%' && i + 1 < s.len)
            put_time(&b, &t, s.ptr[++i]);
        else
            fy_tbuf_add(&b, s.ptr + i, 1);
    }
    return fy_tbuf_value(&b, false);
}

bool fy_tglobal_find(fy_tm *m, fy_span name, fy_tv *out)
{
    static const fy_tbuiltin globals[] = {
        {"raise_exception", "message", call_raise_exception, 0},
        {"namespace", NULL, call_dict, FY_TV_NAMESPACE},
        {"range", "/start ?stop ?step", call_range, 0},
        {"strftime_now", "format", call_strftime_now, 0},
        {"dict", NULL, call_dict, FY_TV_DICT},
        {"joiner", "?sep", make_joiner, 0},
        {NULL, NULL, NULL, 0},
    };
    const fy_tbuiltin *f = fy_tbuiltin_find(globals, name);
    if (f != NULL)
        *out = fy_tbuiltin_bind(m, "function", f, fy_tv_none());
    else if (fy_tword_is_in(name, "cycler lipsum"))
        *out = fy_tv_unsupported(m, "the function", name);
    else
        return false;
    return true;
}
