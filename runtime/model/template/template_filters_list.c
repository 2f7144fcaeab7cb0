/* Filters of sequences. What jinja2 returns as a generator is computed at once, as an ITER: the
 * only difference is that an error in one nobody reads is still an error here. */
#include "model/template/template_builtin.h"

int fy_tfilter_list(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tlist items;
    if (fy_targs_none(m, "list", a) || fy_tv_items(m, v, &items) ||
        fy_tv_list(m, FY_TV_LIST, items.n, out))
        return -1;
    for (size_t i = 0; i < items.n; i++)
        out->list->item[i] = items.item[i];
    return 0;
}

int fy_tfilter_items(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    if (fy_targs_none(m, "items", a))
        return -1;
    if (fy_tv_is(v, FY_TV_UNDEFINED))
        return fy_tv_list(m, FY_TV_ITER, 0, out);
    if (!fy_tv_is(v, FY_TV_DICT))
        return fy_tm_fail(m, "Can only get item pairs from a mapping.");
    size_t n = fy_tdict_n(v->dict);
    if (fy_tv_list(m, FY_TV_ITER, n, out))
        return -1;
    for (size_t i = 0; i < n; i++) {
        fy_tv *pair = &out->list->item[i];
        if (fy_tv_list(m, FY_TV_TUPLE, 2, pair))
            return -1;
        pair->list->item[0] = *fy_tdict_key(v->dict, i);
        pair->list->item[1] = *fy_tdict_at(v->dict, i);
    }
    return 0;
}

int fy_tfilter_first(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_titer it;
    if (fy_targs_none(m, "first", a) || fy_titer_begin(m, &it, v))
        return -1;
    if (!fy_titer_next(&it, out))
        *out = fy_tv_hint("No first item, sequence was empty.");
    return 0;
}

/* The items backwards; only kinds that Python's reversed() takes. */
static bool is_reversible(const fy_tv *v)
{
    return fy_tv_is(v, FY_TV_LIST) || fy_tv_is(v, FY_TV_TUPLE) || fy_tv_is(v, FY_TV_STR) ||
           fy_tv_is(v, FY_TV_DICT) || fy_tv_is(v, FY_TV_VIEW) || fy_tv_is(v, FY_TV_RANGE) ||
           fy_tv_is(v, FY_TV_UNDEFINED);
}

int fy_tfilter_last(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tlist items;
    if (fy_targs_none(m, "last", a))
        return -1;
    if (!is_reversible(v))
        return fy_tm_fail(m, "'%s' object is not reversible", fy_tv_type_name(v));
    if (fy_tv_is(v, FY_TV_STR) && v->str.len) {
        const char *end = v->str.ptr + v->str.len, *p = end;
        fy_tu_prev(v->str.ptr, &p);
        *out = fy_tv_view((fy_span){p, (size_t)(end - p)});
        out->markup = v->markup;
        return 0;
    }
    if (fy_tv_items(m, v, &items))
        return -1;
    *out = items.n ? items.item[items.n - 1] : fy_tv_hint("No last item, sequence was empty.");
    return 0;
}

static int reverse_text(fy_tm *m, const fy_tv *v, fy_tv *out)
{
    fy_tbuf b = {0};
    const char *begin = v->str.ptr, *p = begin + v->str.len;
    if (fy_tm_charge(m, v->str.len))
        return -1;
    while (p > begin) {
        const char *end = p;
        fy_tu_prev(begin, &p);
        if (fy_tbuf_add(m, &b, p, (size_t)(end - p)))
            return -1;
    }
    *out = fy_tbuf_value(&b, v->markup);
    return 0;
}

int fy_tfilter_reverse(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tlist items;
    if (fy_targs_none(m, "reverse", a))
        return -1;
    if (fy_tv_is(v, FY_TV_STR))
        return reverse_text(m, v, out);
    fy_tv_kind kind = is_reversible(v) ? FY_TV_ITER : FY_TV_LIST;
    if (fy_tv_items(m, v, &items) || fy_tv_list(m, kind, items.n, out))
        return -1;
    for (size_t i = 0; i < items.n; i++)
        out->list->item[i] = items.item[items.n - 1 - i];
    return 0;
}

/* A list of items[from..to) and `fill` more times `with`. */
static int part(fy_tm *m, const fy_tlist *items, size_t from, size_t to, size_t fill,
                const fy_tv *with, fy_tv *out)
{
    if (fy_tv_list(m, FY_TV_LIST, to - from + fill, out))
        return -1;
    for (size_t i = from; i < to; i++)
        out->list->item[i - from] = items->item[i];
    for (size_t i = 0; i < fill; i++)
        out->list->item[to - from + i] = *with;
    return 0;
}

int fy_tfilter_batch(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"linecount", "fill_with"};
    fy_tv arg[2];
    bool given[2];
    fy_tlist items;
    double size = -1;
    if (fy_targs_bind(m, "batch", a, names, 2, 1, arg, given) || fy_tv_items(m, v, &items) ||
        fy_tv_list(m, FY_TV_ITER, items.n + 1, out))
        return -1;
    bool number = fy_tv_as_float(&arg[0], &size);
    size_t n = 0, from = 0;
    for (size_t i = 0; i < items.n; i++) {
        if (!number || (double)(i - from) != size)
            continue;
        if (part(m, &items, from, i, 0, NULL, &out->list->item[n++]))
            return -1;
        from = i;
    }
    size_t left = items.n - from, fill = 0;
    if (left && given[1] && !fy_tv_is(&arg[1], FY_TV_NONE)) {
        if (fy_tv_is(&arg[0], FY_TV_UNDEFINED))
            return fy_tv_undefined_fail(m, &arg[0]);
        if (!number)
            return fy_tm_fail(m, "'<' not supported between instances of 'int' and '%s'",
                              fy_tv_type_name(&arg[0]));
        int64_t count = 0;
        if ((double)left < size && fy_tv_index(m, &arg[0], &count))
            return -1;
        fill = count > (int64_t)left ? (size_t)count - left : 0;
    }
    if (left && part(m, &items, from, items.n, fill, &arg[1], &out->list->item[n++]))
        return -1;
    out->list->n = n;
    return 0;
}

int fy_tfilter_slice(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"slices", "fill_with"};
    fy_tv arg[2];
    bool given[2];
    fy_tlist items;
    int64_t slices;
    if (fy_targs_bind(m, "slice", a, names, 2, 1, arg, given) || fy_tv_items(m, v, &items) ||
        fy_tv_index(m, &arg[0], &slices))
        return -1;
    if (slices == 0)
        return fy_tm_fail(m, "integer division or modulo by zero");
    size_t n = slices > 0 ? (size_t)slices : 0;
    if (fy_tv_list(m, FY_TV_ITER, n, out))
        return -1;
    bool fill = given[1] && !fy_tv_is(&arg[1], FY_TV_NONE);
    for (size_t k = 0, from = 0; k < n; k++) {
        bool extra = k < items.n % n;
        size_t to = from + items.n / n + extra;
        if (part(m, &items, from, to, fill && !extra, &arg[1], &out->list->item[k]))
            return -1;
        from = to;
    }
    return 0;
}

int fy_tfilter_join(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"d", "attribute"};
    fy_tv arg[2], separator = fy_tv_view(FY_SPAN("")), item;
    bool given[2];
    fy_tlist items;
    fy_tpath path = {0};
    fy_tbuf b = {0};
    if (fy_targs_bind(m, "join", a, names, 2, 0, arg, given) ||
        (given[0] && fy_tv_str(m, &arg[0], &separator)) ||
        (given[1] && fy_tpath_parse(m, &arg[1], &path)) || fy_tv_items(m, v, &items))
        return -1;
    for (size_t i = 0; i < items.n; i++)
        if (fy_tpath_get(m, &path, &items.item[i], NULL, &item) ||
            (i && fy_tbuf_span(m, &b, separator.str)) || fy_tv_put_str(m, &b, &item))
            return -1;
    *out = fy_tbuf_value(&b, false);
    return 0;
}

int fy_tfilter_sum(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"attribute", "start"};
    fy_tv arg[2], item;
    bool given[2];
    fy_tlist items;
    fy_tpath path = {0};
    if (fy_targs_bind(m, "sum", a, names, 2, 0, arg, given) ||
        (given[0] && fy_tpath_parse(m, &arg[0], &path)) || fy_tv_items(m, v, &items))
        return -1;
    fy_tv total = given[1] ? arg[1] : fy_tv_int(0);
    if (fy_tv_is(&total, FY_TV_STR))
        return fy_tm_fail(m, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < items.n; i++) {
        fy_tv next;
        if (fy_tpath_get(m, &path, &items.item[i], NULL, &item) ||
            fy_tv_add(m, &total, &item, &next))
            return -1;
        total = next;
    }
    *out = total;
    return 0;
}

/* --- map, select, reject ------------------------------------------------------------------------
 */

/* The arguments without the first `n` positional ones. */
static fy_targs rest_of(const fy_targs *a, size_t n)
{
    fy_targs rest = *a;
    rest.arg += n;
    rest.n -= n;
    return rest;
}

static int unknown(fy_tm *m, const char *what, const fy_tv *name)
{
    if (!fy_tv_is(name, FY_TV_STR))
        return fy_tm_fail(m, "the name of a %s must be str, not %s", what, fy_tv_type_name(name));
    int n = name->str.len < 100 ? (int)name->str.len : 100;
    return fy_tm_fail(m, "No %s named '%.*s'.", what, n, name->str.ptr);
}

static int map_attribute(fy_tm *m, const fy_tlist *items, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"attribute", "default"};
    fy_tv arg[2];
    bool given[2];
    fy_tpath path;
    if (fy_targs_bind(m, "map", a, names, 2, 1, arg, given) || fy_tpath_parse(m, &arg[0], &path))
        return -1;
    const fy_tv *missing = given[1] && !fy_tv_is(&arg[1], FY_TV_NONE) ? &arg[1] : NULL;
    for (size_t i = 0; i < items->n; i++)
        if (fy_tpath_get(m, &path, &items->item[i], missing, &out->list->item[i]))
            return -1;
    return 0;
}

int fy_tfilter_map(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tlist items;
    bool attribute = false;
    if (!fy_tv_truth(v))
        return fy_tv_list(m, FY_TV_ITER, 0, out);
    for (size_t i = 0; a->n == 0 && i < a->n_named; i++)
        attribute = attribute || fy_span_is(a->name[i], "attribute");
    if (a->n == 0 && !attribute)
        return fy_tm_fail(m, "map requires a filter argument");
    if (fy_tv_items(m, v, &items) || fy_tv_list(m, FY_TV_ITER, items.n, out))
        return -1;
    if (attribute)
        return map_attribute(m, &items, a, out);
    if (items.n == 0)
        return 0;
    const fy_tfilter *f = fy_tv_is(&a->arg[0], FY_TV_STR) ? fy_tfilter_find(a->arg[0].str) : NULL;
    if (!f)
        return unknown(m, "filter", &a->arg[0]);
    fy_targs rest = rest_of(a, 1);
    for (size_t i = 0; i < items.n; i++)
        if (fy_tm_charge(m, 16) || f->run(m, &items.item[i], &rest, &out->list->item[i]))
            return -1;
    return 0;
}

/* Keeps the items (or those with an attribute) for which a test, or their truth, equals `keep`. */
static int select_items(fy_tm *m, const fy_tv *v, const fy_targs *a, bool keep, bool by_attribute,
                        fy_tv *out)
{
    fy_tlist items;
    fy_tpath path = {0};
    if (!fy_tv_truth(v))
        return fy_tv_list(m, FY_TV_ITER, 0, out);
    size_t off = by_attribute ? 1 : 0, n = 0;
    if (a->n < off)
        return fy_tm_fail(m, "Missing parameter for attribute name");
    if ((by_attribute && fy_tpath_parse(m, &a->arg[0], &path)) || fy_tv_items(m, v, &items) ||
        fy_tv_list(m, FY_TV_ITER, items.n, out))
        return -1;
    const fy_ttest *test = NULL;
    fy_targs rest = {0};
    if (a->n > off && items.n > 0) {
        const fy_tv *name = &a->arg[off];
        test = fy_tv_is(name, FY_TV_STR) ? fy_ttest_find(name->str) : NULL;
        if (!test)
            return unknown(m, "test", name);
        rest = rest_of(a, off + 1);
    }
    for (size_t i = 0; i < items.n; i++) {
        fy_tv tested;
        bool yes = false;
        if (fy_tm_charge(m, 16) || fy_tpath_get(m, &path, &items.item[i], NULL, &tested) ||
            (test && test->run(m, &tested, &rest, &yes)))
            return -1;
        if ((test ? yes : fy_tv_truth(&tested)) == keep)
            out->list->item[n++] = items.item[i];
    }
    out->list->n = n;
    return 0;
}

int fy_tfilter_select(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return select_items(m, v, a, true, false, out);
}

int fy_tfilter_reject(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return select_items(m, v, a, false, false, out);
}

int fy_tfilter_selectattr(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return select_items(m, v, a, true, true, out);
}

int fy_tfilter_rejectattr(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return select_items(m, v, a, false, true, out);
}
