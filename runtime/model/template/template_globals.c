/* The functions every template has: range, namespace, dict, cycler, joiner and Hugging Face's
 * raise_exception and strftime_now. */
#include "model/template/template_builtin.h"

#include "base/utf8.h"

#define CALL(name) static int name(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out)

static fy_tv callable(fy_tcall *call, fy_tv_kind kind)
{
    return (fy_tv){.kind = (uint8_t)kind, .call = call};
}

/* --- range --------------------------------------------------------------------------------------
 */

enum { MAX_RANGE = 100000 }; /* the sandbox's */

static int make_range(fy_tm *m, int64_t start, int64_t stop, int64_t step, fy_tv *out)
{
    uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, span = 0;
    if (step == 0)
        return fy_tm_fail(m, "range() arg 3 must not be zero");
    if (step > 0 && start < stop)
        span = (uint64_t)stop - (uint64_t)start;
    if (step < 0 && start > stop)
        span = (uint64_t)start - (uint64_t)stop;
    uint64_t n = span ? (span - 1) / size + 1 : 0;
    if (n > MAX_RANGE)
        return fy_tm_fail(m, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                          MAX_RANGE);
    fy_trange *r = fy_tm_alloc(m, sizeof *r);
    if (!r)
        return -1;
    *r = (fy_trange){.start = start, .step = step, .n = (size_t)n, .stop = stop};
    *out = (fy_tv){.kind = FY_TV_RANGE, .range = r};
    return 0;
}

CALL(call_range)
{
    (void)self;
    int64_t v[3] = {0, 0, 1};
    if (fy_targs_count(m, "range", a, 1, 3))
        return -1;
    for (size_t i = 0; i < a->n; i++)
        if (fy_tv_index(m, &a->arg[i], &v[i]))
            return -1;
    return a->n == 1 ? make_range(m, 0, v[0], 1, out) : make_range(m, v[0], v[1], v[2], out);
}

/* --- dict and namespace -------------------------------------------------------------------------
 */

static int add_pair(fy_tm *m, fy_tdict *d, const fy_tv *item, size_t i)
{
    fy_tlist pair;
    if (fy_tv_items(m, item, &pair))
        return -1;
    if (pair.n != 2)
        return fy_tm_fail(
            m, "dictionary update sequence element #%zu has length %zu; 2 is required", i, pair.n);
    return fy_tdict_set(m, d, pair.item[0], pair.item[1]);
}

/* dict(mapping or pairs, **names) */
static int fill(fy_tm *m, const char *what, const fy_targs *a, fy_tdict *d)
{
    fy_tlist items;
    if (a->n > 1)
        return fy_tm_fail(m, "%s expected at most 1 argument, got %zu", what, a->n);
    if (a->n == 1 && fy_tv_is(&a->arg[0], FY_TV_UNDEFINED))
        return fy_tv_undefined_fail(m, &a->arg[0]);
    if (a->n == 1 && fy_tv_is(&a->arg[0], FY_TV_DICT)) {
        const fy_tdict *from = a->arg[0].dict;
        for (size_t i = 0; i < fy_tdict_n(from); i++)
            if (fy_tdict_set(m, d, *fy_tdict_key(from, i), *fy_tdict_at(from, i)))
                return -1;
    } else if (a->n == 1) {
        if (fy_tv_items(m, &a->arg[0], &items))
            return -1;
        for (size_t i = 0; i < items.n; i++)
            if (add_pair(m, d, &items.item[i], i))
                return -1;
    }
    for (size_t i = 0; i < a->n_named; i++)
        if (fy_tdict_set(m, d, fy_tv_view(a->name[i]), a->named[i]))
            return -1;
    return 0;
}

CALL(call_dict)
{
    (void)self;
    return fy_tv_dict(m, FY_TV_DICT, a->n_named, out) || fill(m, "dict", a, out->dict) ? -1 : 0;
}

CALL(call_namespace)
{
    (void)self;
    if (fy_tv_dict(m, FY_TV_NAMESPACE, a->n_named, out) || fill(m, "namespace", a, out->dict))
        return -1;
    for (size_t i = 0; i < fy_tdict_n(out->dict); i++) {
        const fy_tv *key = fy_tdict_key(out->dict, i);
        if (fy_tv_is(key, FY_TV_STR) && key->str.len && key->str.ptr[0] == '_')
            return fy_tm_fail(m, "Chat templates cannot store underscore-prefixed attributes on a "
                                 "namespace. Please rename the attribute.");
    }
    return 0;
}

/* --- cycler -------------------------------------------------------------------------------------
 */

typedef struct {
    fy_tcall base;
    fy_tv items; /* a tuple */
    size_t at;
} cycler;

typedef struct {
    fy_tcall base;
    cycler *of;
    bool reset;
} cycler_method;

CALL(call_cycler_method)
{
    cycler_method *method = (cycler_method *)self;
    cycler *c = method->of;
    if (fy_targs_none(m, method->reset ? "reset" : "next", a))
        return -1;
    *out = method->reset ? fy_tv_none() : c->items.list->item[c->at];
    c->at = method->reset ? 0 : (c->at + 1) % c->items.list->n;
    return 0;
}

static int cycler_attr(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out)
{
    cycler *c = (cycler *)self;
    bool reset = fy_span_is(name, "reset");
    if (fy_span_is(name, "current")) {
        *out = c->items.list->item[c->at];
        return 1;
    }
    if (fy_span_is(name, "items")) {
        *out = c->items;
        return 1;
    }
    if (fy_span_is(name, "pos")) {
        *out = fy_tv_int((int64_t)c->at);
        return 1;
    }
    if (!reset && !fy_span_is(name, "next"))
        return 0;
    cycler_method *method = fy_tm_alloc(m, sizeof *method);
    if (!method)
        return -1;
    *method = (cycler_method){{"method", call_cycler_method, NULL}, c, reset};
    *out = callable(&method->base, FY_TV_CALLABLE);
    return 1;
}

CALL(call_cycler)
{
    (void)self;
    if (a->n_named)
        return fy_tm_fail(m, "cycler() takes no keyword arguments");
    if (a->n == 0)
        return fy_tm_fail(m, "at least one item has to be provided");
    cycler *c = fy_tm_alloc(m, sizeof *c);
    if (!c)
        return -1;
    *c = (cycler){.base = {"Cycler", NULL, cycler_attr}};
    if (fy_tv_list(m, FY_TV_TUPLE, a->n, &c->items))
        return -1;
    for (size_t i = 0; i < a->n; i++)
        c->items.list->item[i] = a->arg[i];
    *out = callable(&c->base, FY_TV_OBJECT);
    return 0;
}

/* --- joiner -------------------------------------------------------------------------------------
 */

typedef struct {
    fy_tcall base;
    fy_tv separator;
    bool used;
} joiner;

CALL(call_joiner)
{
    joiner *j = (joiner *)self;
    if (fy_targs_none(m, "joiner", a))
        return -1;
    *out = j->used ? j->separator : fy_tv_view(FY_SPAN(""));
    j->used = true;
    return 0;
}

static int joiner_attr(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out)
{
    (void)m;
    const joiner *j = (const joiner *)self;
    bool used = fy_span_is(name, "used");
    if (!used && !fy_span_is(name, "sep"))
        return 0;
    *out = used ? fy_tv_bool(j->used) : j->separator;
    return 1;
}

CALL(make_joiner)
{
    static const char *const names[] = {"sep"};
    (void)self;
    fy_tv separator;
    bool given;
    if (fy_targs_bind(m, "joiner", a, names, 1, 0, &separator, &given))
        return -1;
    joiner *j = fy_tm_alloc(m, sizeof *j);
    if (!j)
        return -1;
    *j = (joiner){
        {"Joiner", call_joiner, joiner_attr}, given ? separator : fy_tv_view(FY_SPAN(", ")), false};
    *out = callable(&j->base, FY_TV_OBJECT);
    return 0;
}

/* --- what Hugging Face adds ---------------------------------------------------------------------
 */

CALL(call_raise_exception)
{
    static const char *const names[] = {"message"};
    (void)self;
    (void)out;
    fy_tv message, text;
    bool given;
    if (fy_targs_bind(m, "raise_exception", a, names, 1, 1, &message, &given) ||
        fy_tv_str(m, &message, &text))
        return -1;
    size_t n = text.str.len, room = sizeof m->e->msg - 1;
    n = fy_utf8_complete(text.str.ptr, n < room ? n : room);
    return fy_fail(m->e, FY_EARG, "%.*s", (int)n, text.str.ptr);
}

CALL(call_strftime_now)
{
    static const char *const names[] = {"format"};
    (void)self;
    fy_tv format;
    bool given;
    fy_span s;
    fy_tbuf b = {0};
    if (fy_targs_bind(m, "strftime_now", a, names, 1, 1, &format, &given) ||
        fy_tv_text(m, "strftime() format", &format, &s) || fy_tv_put_time(m, &b, s))
        return -1;
    *out = fy_tbuf_value(&b, false);
    return 0;
}

int fy_tglobal_find(fy_tm *m, fy_span name, fy_tv *out)
{
    static struct {
        const char *name;
        fy_tcall call;
    } globals[] = {
        {"raise_exception", {"function", call_raise_exception, NULL}},
        {"namespace", {"function", call_namespace, NULL}},
        {"range", {"function", call_range, NULL}},
        {"strftime_now", {"function", call_strftime_now, NULL}},
        {"dict", {"function", call_dict, NULL}},
        {"cycler", {"function", call_cycler, NULL}},
        {"joiner", {"function", make_joiner, NULL}},
    };
    (void)m;
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (fy_span_is(name, globals[i].name)) {
            *out = callable(&globals[i].call, FY_TV_CALLABLE);
            return 1;
        }
    return 0;
}
