/* Filters that compare: sort, dictsort, unique, min, max, groupby. Without case_sensitive strings
 * compare in lower case, as in jinja2. */
#include "model/template/template_builtin.h"

/* Does item i go before the earlier item j? By '<' only, as NaN is neither less nor greater. */
static int comes_first(fy_tm *m, const fy_tlist *keys, size_t i, size_t j, bool reverse,
                       fy_tcompare *compare, bool *out)
{
    const fy_tv *x = &keys->item[i], *y = &keys->item[j];
    int order;
    if (reverse ? compare(m, y, x, &order) : compare(m, x, y, &order))
        return -1;
    *out = order < 0;
    return 0;
}

/* Bottom-up merge sort of positions; on equal keys the earlier item stays first, also in reverse.
 */
int fy_tlist_sort(fy_tm *m, const fy_tlist *items, const fy_tlist *keys, bool reverse,
                  fy_tcompare *compare, fy_tv *out)
{
    size_t n = items->n;
    size_t *from = fy_tm_alloc(m, n * 2 * sizeof *from);
    if (!from || fy_tv_list(m, FY_TV_LIST, n, out))
        return -1;
    size_t *to = from + n;
    for (size_t i = 0; i < n; i++)
        from[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t mid = low + width < n ? low + width : n;
            size_t high = mid + width < n ? mid + width : n;
            for (size_t a = low, b = mid, k = low; k < high; k++) {
                bool second = a == mid;
                if (fy_tm_charge(m, 16) ||
                    (a < mid && b < high &&
                     comes_first(m, keys, from[b], from[a], reverse, compare, &second)))
                    return -1;
                to[k] = second ? from[b++] : from[a++];
            }
        }
        size_t *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < n; i++)
        out->list->item[i] = items->item[from[i]];
    return 0;
}

/* Keys are lists: the first elements that differ decide, and equal ones need have no order. */
static int compare_keys(fy_tm *m, const fy_tv *a, const fy_tv *b, int *order)
{
    *order = 0;
    for (size_t i = 0; i < a->list->n; i++) {
        const fy_tv *x = &a->list->item[i], *y = &b->list->item[i];
        if (!fy_tv_equal(m, x, y))
            return m->e->code ? -1 : fy_tv_compare(m, x, y, order);
    }
    return 0;
}

/* The value at `path` of each item, in lower case unless case matters. */
static int keys_of(fy_tm *m, const fy_tlist *items, const fy_tv *attribute, const fy_tv *missing,
                   bool case_sensitive, fy_tlist *out)
{
    fy_tpath path;
    fy_tv keys;
    if (fy_tpath_parse(m, attribute, &path) || fy_tv_list(m, FY_TV_LIST, items->n, &keys))
        return -1;
    for (size_t i = 0; i < items->n; i++) {
        fy_tv *key = &keys.list->item[i];
        if (fy_tpath_get(m, &path, &items->item[i], missing, key) ||
            (!case_sensitive && fy_tv_fold_case(m, key, key)))
            return -1;
    }
    *out = *keys.list;
    return 0;
}

/* The paths of 'a.b,c' one by one; any other value is one path. */
static int split_attributes(fy_tm *m, const fy_tv *attribute, fy_tv *out)
{
    size_t n = 1;
    if (!fy_tv_is(attribute, FY_TV_STR)) {
        if (fy_tv_list(m, FY_TV_LIST, 1, out))
            return -1;
        out->list->item[0] = *attribute;
        return 0;
    }
    fy_span s = attribute->str;
    for (size_t i = 0; i < s.len; i++)
        n += s.ptr[i] == ',';
    if (fy_tm_charge(m, s.len) || fy_tv_list(m, FY_TV_LIST, n, out))
        return -1;
    for (size_t i = 0; i < n; i++) {
        ptrdiff_t comma = fy_tu_find(s, FY_SPAN(","));
        size_t len = comma < 0 ? s.len : (size_t)comma;
        out->list->item[i] = fy_tv_view((fy_span){s.ptr, len});
        if (comma >= 0)
            s = (fy_span){s.ptr + len + 1, s.len - len - 1};
    }
    return 0;
}

int fy_tfilter_sort(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"reverse", "case_sensitive", "attribute"};
    enum { REVERSE, CASE_SENSITIVE, ATTRIBUTE, N };
    fy_tv arg[N], paths, keys;
    bool given[N];
    int64_t reverse = 0;
    fy_tlist items, column;
    if (fy_targs_bind(m, "sort", a, names, N, 0, arg, given) ||
        (given[REVERSE] && fy_tv_index(m, &arg[REVERSE], &reverse)))
        return -1;
    if (!given[ATTRIBUTE])
        arg[ATTRIBUTE] = fy_tv_none();
    if (split_attributes(m, &arg[ATTRIBUTE], &paths) || fy_tv_items(m, v, &items) ||
        fy_tv_list(m, FY_TV_LIST, items.n, &keys))
        return -1;
    size_t n = paths.list->n;
    for (size_t i = 0; i < items.n; i++)
        if (fy_tv_list(m, FY_TV_LIST, n, &keys.list->item[i]))
            return -1;
    for (size_t k = 0; k < n; k++) {
        if (keys_of(m, &items, &paths.list->item[k], NULL, fy_tv_truth(&arg[CASE_SENSITIVE]),
                    &column))
            return -1;
        for (size_t i = 0; i < items.n; i++)
            keys.list->item[i].list->item[k] = column.item[i];
    }
    return fy_tlist_sort(m, &items, keys.list, reverse != 0, compare_keys, out);
}

static int pair(fy_tm *m, const fy_tv *key, const fy_tv *value, fy_tv *out)
{
    if (fy_tv_list(m, FY_TV_TUPLE, 2, out))
        return -1;
    out->list->item[0] = *key;
    out->list->item[1] = *value;
    return 0;
}

int fy_tfilter_dictsort(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"case_sensitive", "by", "reverse"};
    enum { CASE_SENSITIVE, BY, REVERSE, N };
    fy_tv arg[N], items, keys;
    bool given[N];
    int64_t reverse = 0;
    if (fy_targs_bind(m, "dictsort", a, names, N, 0, arg, given) ||
        (given[REVERSE] && fy_tv_index(m, &arg[REVERSE], &reverse)))
        return -1;
    if (!given[BY])
        arg[BY] = fy_tv_view(FY_SPAN("key"));
    bool text = fy_tv_is(&arg[BY], FY_TV_STR);
    bool by_value = text && fy_span_is(arg[BY].str, "value");
    if (!by_value && !(text && fy_span_is(arg[BY].str, "key")))
        return fy_tm_fail(m, "You can only sort by either \"key\" or \"value\"");
    if (fy_tv_is(v, FY_TV_UNDEFINED))
        return fy_tv_undefined_fail(m, v);
    if (!fy_tv_is(v, FY_TV_DICT))
        return fy_tm_fail(m, "'%s' object has no attribute 'items'", fy_tv_type_name(v));
    size_t n = fy_tdict_n(v->dict);
    if (fy_tv_list(m, FY_TV_LIST, n, &items) || fy_tv_list(m, FY_TV_LIST, n, &keys))
        return -1;
    for (size_t i = 0; i < n; i++) {
        const fy_tv *key = fy_tdict_key(v->dict, i), *value = fy_tdict_at(v->dict, i);
        fy_tv *sort_key = &keys.list->item[i];
        *sort_key = by_value ? *value : *key;
        if (pair(m, key, value, &items.list->item[i]) ||
            (!fy_tv_truth(&arg[CASE_SENSITIVE]) && fy_tv_fold_case(m, sort_key, sort_key)))
            return -1;
    }
    return fy_tlist_sort(m, items.list, keys.list, reverse != 0, fy_tv_compare, out);
}

int fy_tfilter_unique(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"case_sensitive", "attribute"};
    fy_tv arg[2], seen;
    bool given[2];
    fy_tlist items, keys;
    if (fy_targs_bind(m, "unique", a, names, 2, 0, arg, given))
        return -1;
    if (!given[1])
        arg[1] = fy_tv_none();
    if (fy_tv_items(m, v, &items) ||
        keys_of(m, &items, &arg[1], NULL, fy_tv_truth(&arg[0]), &keys) ||
        fy_tv_dict(m, FY_TV_DICT, items.n, &seen) || fy_tv_list(m, FY_TV_ITER, items.n, out))
        return -1;
    size_t n = 0;
    for (size_t i = 0; i < items.n; i++) {
        const fy_tv *key = &keys.item[i];
        size_t before = fy_tdict_n(seen.dict);
        if (fy_tdict_set(m, seen.dict, *key, fy_tv_none()))
            return -1;
        if (fy_tdict_n(seen.dict) > before)
            out->list->item[n++] = items.item[i];
    }
    out->list->n = n;
    return 0;
}

/* The first item whose key is least or greatest. */
static int extreme(fy_tm *m, const char *what, bool greatest, const fy_tv *v, const fy_targs *a,
                   fy_tv *out)
{
    static const char *const names[] = {"case_sensitive", "attribute"};
    fy_tv arg[2];
    bool given[2];
    fy_tlist items, keys;
    if (fy_targs_bind(m, what, a, names, 2, 0, arg, given))
        return -1;
    if (!given[1])
        arg[1] = fy_tv_none();
    if (fy_tv_items(m, v, &items))
        return -1;
    if (items.n == 0) {
        *out = fy_tv_hint("No aggregated item, sequence was empty.");
        return 0;
    }
    if (keys_of(m, &items, &arg[1], NULL, fy_tv_truth(&arg[0]), &keys))
        return -1;
    size_t best = 0;
    for (size_t i = 1; i < items.n; i++) {
        bool better;
        if (fy_tm_charge(m, 16) || comes_first(m, &keys, i, best, greatest, fy_tv_compare, &better))
            return -1;
        if (better)
            best = i;
    }
    *out = items.item[best];
    return 0;
}

int fy_tfilter_min(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return extreme(m, "min", false, v, a, out);
}

int fy_tfilter_max(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return extreme(m, "max", true, v, a, out);
}

/* A tuple (grouper, list) of items[from..to); its view lets both be read by name. */
static int group(fy_tm *m, const fy_tv *key, const fy_tlist *items, size_t from, size_t to,
                 fy_tv *out)
{
    fy_tv members;
    if (fy_tv_list(m, FY_TV_LIST, to - from, &members))
        return -1;
    for (size_t i = from; i < to; i++)
        members.list->item[i - from] = items->item[i];
    if (pair(m, key, &members, out))
        return -1;
    out->view = FY_TV_GROUP;
    return 0;
}

int fy_tfilter_groupby(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"attribute", "default", "case_sensitive"};
    enum { ATTRIBUTE, DEFAULT, CASE_SENSITIVE, N };
    fy_tv arg[N], sorted;
    bool given[N];
    fy_tlist items, keys, shown;
    if (fy_targs_bind(m, "groupby", a, names, N, 1, arg, given))
        return -1;
    bool with_case = fy_tv_truth(&arg[CASE_SENSITIVE]);
    const fy_tv *missing =
        given[DEFAULT] && !fy_tv_is(&arg[DEFAULT], FY_TV_NONE) ? &arg[DEFAULT] : NULL;
    if (fy_tv_items(m, v, &items) ||
        keys_of(m, &items, &arg[ATTRIBUTE], missing, with_case, &keys) ||
        fy_tlist_sort(m, &items, &keys, false, fy_tv_compare, &sorted) ||
        keys_of(m, sorted.list, &arg[ATTRIBUTE], missing, with_case, &keys) ||
        keys_of(m, sorted.list, &arg[ATTRIBUTE], missing, true, &shown) ||
        fy_tv_list(m, FY_TV_LIST, items.n, out))
        return -1;
    size_t n = 0;
    for (size_t from = 0, to; from < items.n; from = to) {
        for (to = from + 1; to < items.n; to++)
            if (!fy_tv_equal(m, &keys.item[from], &keys.item[to]))
                break;
        if (m->e->code || group(m, &shown.item[from], sorted.list, from, to, &out->list->item[n++]))
            return -1;
    }
    out->list->n = n;
    return 0;
}
