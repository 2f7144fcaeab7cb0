/* Methods of values: how they are found and bound, and those of list, tuple, dict, range, numbers.
 * Methods that would change a value are there, but undefined, as in jinja2's immutable sandbox. */
#include "model/template/template_builtin.h"

#include <math.h>
#include <string.h>

#define METHOD(name) static int name(fy_tm *m, const fy_tv *self, const fy_targs *a, fy_tv *out)

/* --- list, tuple, range -------------------------------------------------------------------------
 */

METHOD(list_count)
{
    fy_tlist items;
    int64_t n = 0;
    if (fy_tv_items(m, self, &items))
        return -1;
    for (size_t i = 0; i < items.n; i++)
        n += fy_tv_equal(m, &items.item[i], &a->arg[0]);
    *out = fy_tv_int(n);
    return m->e->code || fy_tm_charge(m, items.n * 16) ? -1 : 0;
}

/* A bound of index(): negative ones count from the end. */
static int bound(fy_tm *m, const fy_tv *v, size_t n, size_t *out)
{
    int64_t i;
    if (!fy_tv_is_int(v) && !fy_tv_is(v, FY_TV_BIGINT))
        return fy_tm_fail(m, "slice indices must be integers or have an __index__ method");
    if (fy_tv_is(v, FY_TV_BIGINT))
        i = v->str.ptr[0] == '-' ? INT64_MIN : INT64_MAX;
    else
        i = fy_tv_as_int(v);
    if (i < 0)
        i = i < -(int64_t)n ? 0 : i + (int64_t)n;
    *out = (uint64_t)i > n ? n : (size_t)i;
    return 0;
}

METHOD(list_index)
{
    fy_tlist items;
    if (fy_tv_items(m, self, &items))
        return -1;
    size_t from = 0, to = items.n;
    if ((a->n > 1 && bound(m, &a->arg[1], items.n, &from)) ||
        (a->n > 2 && bound(m, &a->arg[2], items.n, &to)) || fy_tm_charge(m, items.n * 16))
        return -1;
    for (size_t i = from; i < to && !m->e->code; i++)
        if (fy_tv_equal(m, &items.item[i], &a->arg[0])) {
            *out = fy_tv_int((int64_t)i);
            return 0;
        }
    return fy_tm_fail(m, "%s.index(x): x not in %s", fy_tv_type_name(self), fy_tv_type_name(self));
}

METHOD(list_copy)
{
    (void)a;
    size_t n = self->list->n;
    if (fy_tv_list(m, FY_TV_LIST, n, out))
        return -1;
    if (n)
        memcpy(out->list->item, self->list->item, n * sizeof *out->list->item);
    return 0;
}

static const fy_tmethod list_methods[] = {
    {"count", 1, 1, list_count},
    {"index", 1, 3, list_index},
    {"copy", 0, 0, list_copy},
    {NULL, 0, 0, NULL},
};
static const fy_tmethod tuple_methods[] = {
    {"count", 1, 1, list_count},
    {"index", 1, 3, list_index},
    {NULL, 0, 0, NULL},
};
static const fy_tmethod range_methods[] = {
    {"count", 1, 1, list_count},
    {"index", 1, 1, list_index},
    {NULL, 0, 0, NULL},
};

/* --- dict ---------------------------------------------------------------------------------------
 */

METHOD(dict_get)
{
    int found = fy_tdict_lookup(m, self->dict, &a->arg[0], out);
    if (found == 0)
        *out = a->n > 1 ? a->arg[1] : fy_tv_none();
    return found < 0 ? -1 : 0;
}

static int view_of(fy_tm *m, const fy_tdict *d, char what, fy_tv *out)
{
    size_t n = fy_tdict_n(d);
    if (fy_tv_list(m, FY_TV_VIEW, n, out))
        return -1;
    out->view = (uint8_t)what;
    for (size_t i = 0; i < n; i++) {
        fy_tv *v = &out->list->item[i];
        if (what != 'i') {
            *v = what == 'k' ? *fy_tdict_key(d, i) : *fy_tdict_at(d, i);
            continue;
        }
        if (fy_tv_list(m, FY_TV_TUPLE, 2, v))
            return -1;
        v->list->item[0] = *fy_tdict_key(d, i);
        v->list->item[1] = *fy_tdict_at(d, i);
    }
    return 0;
}

METHOD(dict_keys)
{
    (void)a;
    return view_of(m, self->dict, 'k', out);
}

METHOD(dict_values)
{
    (void)a;
    return view_of(m, self->dict, 'v', out);
}

METHOD(dict_items)
{
    (void)a;
    return view_of(m, self->dict, 'i', out);
}

METHOD(dict_copy)
{
    (void)a;
    size_t n = fy_tdict_n(self->dict);
    if (fy_tv_dict(m, FY_TV_DICT, n, out))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (fy_tdict_set(m, out->dict, *fy_tdict_key(self->dict, i), *fy_tdict_at(self->dict, i)))
            return -1;
    return 0;
}

static const fy_tmethod dict_methods[] = {
    {"get", 1, 2, dict_get},       {"items", 0, 0, dict_items}, {"keys", 0, 0, dict_keys},
    {"values", 0, 0, dict_values}, {"copy", 0, 0, dict_copy},   {NULL, 0, 0, NULL},
};

/* --- numbers ------------------------------------------------------------------------------------
 */

METHOD(int_bit_length)
{
    (void)m;
    (void)a;
    int64_t i = fy_tv_as_int(self), n = 0;
    for (uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i; u; u >>= 1)
        n++;
    *out = fy_tv_int(n);
    return 0;
}

METHOD(float_is_integer)
{
    (void)m;
    (void)a;
    *out = fy_tv_bool(isfinite(self->f) && self->f == floor(self->f));
    return 0;
}

static const fy_tmethod int_methods[] = {
    {"bit_length", 0, 0, int_bit_length},
    {NULL, 0, 0, NULL},
};
static const fy_tmethod float_methods[] = {
    {"is_integer", 0, 0, float_is_integer},
    {NULL, 0, 0, NULL},
};

/* --- attributes that are no methods -------------------------------------------------------------
 */

static bool number_attribute(const fy_tv *v, fy_span name, fy_tv *out)
{
    bool is_float = fy_tv_is(v, FY_TV_FLOAT);
    fy_tv zero = is_float ? fy_tv_float(0) : fy_tv_int(0);
    bool is_bool = fy_tv_is(v, FY_TV_BOOL);
    if (fy_span_is(name, "real") || (!is_float && fy_span_is(name, "numerator")))
        *out = is_bool ? fy_tv_int(v->b) : *v;
    else if (fy_span_is(name, "imag"))
        *out = zero;
    else if (!is_float && fy_span_is(name, "denominator"))
        *out = fy_tv_int(1);
    else
        return false;
    return true;
}

static bool range_attribute(const fy_trange *r, fy_span name, fy_tv *out)
{
    if (fy_span_is(name, "start"))
        *out = fy_tv_int(r->start);
    else if (fy_span_is(name, "stop"))
        *out = fy_tv_int(r->stop);
    else if (fy_span_is(name, "step"))
        *out = fy_tv_int(r->step);
    else
        return false;
    return true;
}

static bool plain_attribute(const fy_tv *v, fy_span name, fy_tv *out)
{
    if (fy_tv_is_int(v) || fy_tv_is(v, FY_TV_BIGINT) || fy_tv_is(v, FY_TV_FLOAT))
        return number_attribute(v, name, out);
    if (fy_tv_is(v, FY_TV_RANGE))
        return range_attribute(v->range, name, out);
    if (!fy_tv_is(v, FY_TV_TUPLE) || v->view != FY_TV_GROUP)
        return false;
    bool grouper = fy_span_is(name, "grouper");
    if (grouper || fy_span_is(name, "list"))
        *out = v->list->item[grouper ? 0 : 1];
    return grouper || fy_span_is(name, "list");
}

/* --- the sandbox --------------------------------------------------------------------------------
 */

static bool is_mutator(const fy_tv *v, fy_span name)
{
    static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    const char *const *names = fy_tv_is(v, FY_TV_LIST)   ? of_list
                               : fy_tv_is(v, FY_TV_DICT) ? of_dict
                                                         : of_list + 8;
    while (*names && !fy_span_is(name, *names))
        names++;
    return *names != NULL;
}

/* Undefined, so that `x.append is defined` is false, with the sandbox's text once it is called. */
static int refuse(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    fy_tbuf b = {0};
    fy_span piece[] = {FY_SPAN("access to attribute '"), name, FY_SPAN("' of '"),
                       fy_span_of(fy_tv_type_name(v)), FY_SPAN("' object is unsafe.")};
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++)
        if (fy_tbuf_span(m, &b, piece[i]))
            return -1;
    *out = fy_tv_undefined(fy_tbuf_value(&b, false).str);
    out->view = 'h';
    return 1;
}

/* --- binding ------------------------------------------------------------------------------------
 */

typedef struct {
    fy_tcall base;
    const fy_tmethod *method;
    fy_tv self;
} bound_method;

static int call_bound(fy_tm *m, fy_tcall *call, const fy_targs *a, fy_tv *out)
{
    bound_method *b = (bound_method *)call;
    const fy_tmethod *method = b->method;
    if (method->min != FY_TMETHOD_OWN &&
        fy_targs_count(m, method->name, a, method->min, method->max))
        return -1;
    return method->run(m, &b->self, a, out);
}

static const fy_tmethod *find(const fy_tmethod *table, fy_span name)
{
    for (; table && table->name; table++)
        if (fy_span_is(name, table->name))
            return table;
    return NULL;
}

static const fy_tmethod *method_of(const fy_tv *v, fy_span name)
{
    const fy_tmethod *found;
    switch ((fy_tv_kind)v->kind) {
    case FY_TV_STR:
        found = find(fy_tmethods_search, name);
        found = found ? found : find(fy_tmethods_form, name);
        return found && !v->markup && strcmp(found->name, "striptags") == 0 ? NULL : found;
    case FY_TV_LIST:
        return find(list_methods, name);
    case FY_TV_TUPLE:
        return find(tuple_methods, name);
    case FY_TV_DICT:
        return find(dict_methods, name);
    case FY_TV_RANGE:
        return find(range_methods, name);
    case FY_TV_BOOL:
    case FY_TV_INT:
        return find(int_methods, name);
    case FY_TV_FLOAT:
        return find(float_methods, name);
    case FY_TV_UNDEFINED:
    case FY_TV_NONE:
    case FY_TV_BIGINT:
    case FY_TV_ITER:
    case FY_TV_VIEW:
    case FY_TV_NAMESPACE:
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        break;
    }
    return NULL;
}

int fy_tmethod_find(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    const fy_tmethod *method = method_of(v, name);
    if (!method) {
        if (is_mutator(v, name))
            return refuse(m, v, name, out);
        return plain_attribute(v, name, out);
    }
    bound_method *b = fy_tm_alloc(m, sizeof *b);
    if (!b)
        return -1;
    *b = (bound_method){{"builtin_function_or_method", call_bound, NULL}, method, *v};
    *out = (fy_tv){.kind = FY_TV_CALLABLE, .call = &b->base};
    return 1;
}
