/* Filters of sequences and dicts. What jinja2 returns as a generator is computed at once, as an
 * ITER: an error in one that nobody reads is an error all the same. Those that compare ignore the
 * case of strings unless told otherwise, as in jinja2. */
#include <string.h>

#include "model/template/template_builtin.h"

/* --- attribute paths: 'a.0.b' as map, sort, sum ... take them --- */

/* A part of digits is an index. */
static fy_tv key_of_part(fy_span part)
{
    int64_t i = 0;
    for (size_t k = 0; k < part.len; k++) {
        if (part.ptr[k] < '0' || part.ptr[k] > '9' || k > 15)
            return fy_tv_view(part);
        i = i * 10 + (part.ptr[k] - '0');
    }
    return part.len > 0 ? fy_tv_int(i) : fy_tv_view(part);
}

/* The item itself if no attribute is given; `missing` (NULL: none) stands for undefined values. */
static int get_path(fy_tm *m, const fy_tv *attribute, const fy_tv *item, const fy_tv *missing,
                    fy_tv *out)
{
    fy_tv v = *item;
    bool text = attribute->kind == FY_TV_STR;
    fy_span path = text ? attribute->str : (fy_span){0};
    bool more = fy_targ_given(attribute);
    while (more) {
        ptrdiff_t dot = fy_tu_find(path, FY_SPAN("."));
        fy_span part = {path.ptr, dot >= 0 ? (size_t)dot : path.len};
        fy_tv key = text ? key_of_part(part) : *attribute, next;
        if (fy_tm_charge(m, 16) != 0 || fy_tv_getitem(m, &v, &key, &next) != 0)
            return -1;
        v = missing != NULL && next.kind == FY_TV_UNDEFINED ? *missing : next;
        more = text && dot >= 0;
        if (more)
            path = (fy_span){path.ptr + dot + 1, path.len - (size_t)dot - 1};
    }
    *out = v;
    return 0;
}

/* The values at `attribute`, strings in lower case unless case matters. */
static int keys_of(fy_tm *m, const fy_tlist *items, const fy_tv *attribute, bool case_sensitive,
                   fy_tlist *out)
{
    fy_tv keys;
    if (fy_tv_list(m, FY_TV_LIST, items->n, &keys) != 0)
        return -1;
    for (size_t i = 0; i < items->n; i++) {
        fy_tv *key = &keys.list->item[i];
        fy_tbuf b = {0};
        if (get_path(m, attribute, &items->item[i], NULL, key) != 0)
            return -1;
        if (case_sensitive || key->kind != FY_TV_STR)
            continue;
        if (fy_tu_put_case(m, &b, key->str, FY_TU_LOWER) != 0)
            return -1;
        *key = fy_tbuf_value(&b, key->markup);
    }
    *out = *keys.list;
    return 0;
}

/* --- whole sequences --- */

static FILTER(filter_list)
{
    fy_tlist items;
    if (fy_targs_none(m, "list", a) != 0 || fy_tv_items(m, v, &items) != 0 ||
        fy_tv_list(m, FY_TV_LIST, items.n, out) != 0)
        return -1;
    if (items.n > 0)
        memcpy(out->list->item, items.item, items.n * sizeof *items.item);
    return 0;
}

static FILTER(filter_items)
{
    if (fy_targs_none(m, "items", a) != 0)
        return -1;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_list(m, FY_TV_ITER, 0, out);
    if (v->kind != FY_TV_DICT)
        return fy_tm_fail(m, "Can only get item pairs from a mapping.");
    size_t n = fy_tdict_n(v->dict);
    if (fy_tv_list(m, FY_TV_ITER, n, out) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (fy_tv_pair(m, *fy_tdict_key(v->dict, i), *fy_tdict_at(v->dict, i),
                       &out->list->item[i]) != 0)
            return -1;
    }
    return 0;
}

static FILTER(filter_first)
{
    fy_titer it;
    if (fy_targs_none(m, "first", a) != 0 || fy_titer_begin(m, &it, v) != 0)
        return -1;
    if (!fy_titer_next(&it, out))
        *out = fy_tv_hint("No first item, sequence was empty.");
    return 0;
}

static FILTER(filter_last)
{
    fy_tlist items;
    if (fy_targs_none(m, "last", a) != 0)
        return -1;
    if (v->kind == FY_TV_ITER)
        return fy_tm_fail(m, "'%s' object is not reversible", fy_tv_type_name(v));
    if (fy_tv_items(m, v, &items) != 0)
        return -1;
    *out = items.n > 0 ? items.item[items.n - 1] : fy_tv_hint("No last item, sequence was empty.");
    return 0;
}

static FILTER(filter_reverse)
{
    fy_tlist items;
    fy_tbuf b = {0};
    if (fy_targs_none(m, "reverse", a) != 0 || fy_tv_items(m, v, &items) != 0 ||
        fy_tv_list(m, v->kind == FY_TV_ITER ? FY_TV_LIST : FY_TV_ITER, items.n, out) != 0)
        return -1;
    for (size_t i = 0; i < items.n; i++) {
        out->list->item[i] = items.item[items.n - 1 - i];
        if (v->kind == FY_TV_STR && fy_tbuf_span(m, &b, out->list->item[i].str) != 0)
            return -1;
    }
    if (v->kind == FY_TV_STR)
        *out = fy_tbuf_value(&b, v->markup);
    return 0;
}

/* A list of items[from..to) and `fill` more times `with`. */
static int part_of(fy_tm *m, const fy_tlist *items, size_t from, size_t to, size_t fill,
                   const fy_tv *with, fy_tv *out)
{
    if (fy_tv_list(m, FY_TV_LIST, to - from + fill, out) != 0)
        return -1;
    for (size_t i = from; i < to + fill; i++)
        out->list->item[i - from] = i < to ? items->item[i] : *with;
    return 0;
}

/* batch: lists of `size` items; slice: so many lists, the first ones longer by one. */
static FILTER(filter_split)
{
    bool batch = f->variant;
    fy_tv arg[2];
    fy_tlist items;
    int64_t count;
    if (fy_targs_bind(m, batch ? "batch linecount ?fill_with" : "slice slices ?fill_with", a,
                      arg) != 0 ||
        fy_tv_items(m, v, &items) != 0 || fy_tv_index(m, &arg[0], &count) != 0)
        return -1;
    if (count < 1)
        return fy_tm_fail(m, "%s: expected a count of 1 or more, found %lld", f->name,
                          (long long)count);
    uint64_t size = (uint64_t)count, lists = batch ? items.n / size + (items.n % size > 0) : size;
    if (fy_tv_list(m, FY_TV_ITER, lists, out) != 0)
        return -1;
    for (size_t k = 0, from = 0; k < lists; k++) {
        uint64_t left = items.n - from, full = batch ? size : items.n / size + (items.n % size > 0);
        uint64_t some = batch ? (left < size ? left : size) : items.n / size + (k < items.n % size);
        size_t fill = fy_targ_given(&arg[1]) ? full - some : 0;
        if (part_of(m, &items, from, from + some, fill, &arg[1], &out->list->item[k]) != 0)
            return -1;
        from += some;
    }
    return 0;
}

static FILTER(filter_join)
{
    fy_tv arg[2], separator, item;
    fy_tlist items;
    fy_tbuf b = {0};
    if (fy_targs_bind(m, "join ?d ?attribute", a, arg) != 0 ||
        fy_tv_str(m, &arg[0], &separator) != 0 || fy_tv_items(m, v, &items) != 0)
        return -1;
    for (size_t i = 0; i < items.n; i++) {
        if (get_path(m, &arg[1], &items.item[i], NULL, &item) != 0 ||
            (i > 0 && fy_tbuf_span(m, &b, separator.str) != 0) || fy_tv_put_str(m, &b, &item) != 0)
            return -1;
    }
    *out = fy_tbuf_value(&b, false);
    return 0;
}

static FILTER(filter_sum)
{
    fy_tv arg[2], item, total;
    fy_tlist items;
    if (fy_targs_bind(m, "sum ?attribute ?start", a, arg) != 0 || fy_tv_items(m, v, &items) != 0)
        return -1;
    *out = fy_targ_given(&arg[1]) ? arg[1] : fy_tv_int(0);
    if (out->kind == FY_TV_STR)
        return fy_tm_fail(m, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < items.n; i++) {
        total = *out;
        if (get_path(m, &arg[0], &items.item[i], NULL, &item) != 0 ||
            fy_tv_add(m, &total, &item, out) != 0)
            return -1;
    }
    return 0;
}

/* --- map, select, reject --- */

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
    if (name->kind != FY_TV_STR)
        return fy_tm_fail(m, "the name of a %s must be str, not %s", what, fy_tv_type_name(name));
    bool refused =
        what[0] == 'f' ? fy_tfilter_is_refused(name->str) : fy_ttest_is_refused(name->str);
    int n = name->str.len < 100 ? (int)name->str.len : 100;
    return refused ? fy_tm_fail(m, "%s '%.*s' is not supported", what, n, name->str.ptr)
                   : fy_tm_fail(m, "No %s named '%.*s'.", what, n, name->str.ptr);
}

static int map_attribute(fy_tm *m, const fy_tlist *items, const fy_targs *a, fy_tv *out)
{
    fy_tv arg[2];
    if (fy_targs_bind(m, "map attribute ?default", a, arg) != 0)
        return -1;
    const fy_tv *missing = fy_targ_given(&arg[1]) ? &arg[1] : NULL;
    for (size_t i = 0; i < items->n; i++) {
        if (get_path(m, &arg[0], &items->item[i], missing, &out->list->item[i]) != 0)
            return -1;
    }
    return 0;
}

static FILTER(filter_map)
{
    fy_tlist items;
    if (!fy_tv_truth(v))
        return fy_tv_list(m, FY_TV_ITER, 0, out);
    if (a->n == 0 && a->n_named == 0)
        return fy_tm_fail(m, "map requires a filter argument");
    if (fy_tv_items(m, v, &items) != 0 || fy_tv_list(m, FY_TV_ITER, items.n, out) != 0)
        return -1;
    if (a->n == 0)
        return map_attribute(m, &items, a, out);
    const fy_tv *name = &a->arg[0];
    const fy_tfilter *of = name->kind == FY_TV_STR ? fy_tfilter_find(name->str) : NULL;
    fy_targs rest = rest_of(a, 1);
    if (of == NULL)
        return unknown(m, "filter", name);
    for (size_t i = 0; i < items.n; i++) {
        if (fy_tm_charge(m, 16) != 0 ||
            of->run(m, of, &items.item[i], &rest, &out->list->item[i]) != 0)
            return -1;
    }
    return 0;
}

enum { SELECT = 1, BY_ATTRIBUTE = 2 };

/* Keeps the items for which a test of them (or of their attribute), or their truth, equals `keep`.
 */
static FILTER(filter_select)
{
    bool keep = f->variant & SELECT, by_attribute = f->variant & BY_ATTRIBUTE;
    fy_tlist items;
    fy_tv none = fy_tv_none(), tested;
    size_t off = by_attribute, n = 0;
    if (!fy_tv_truth(v))
        return fy_tv_list(m, FY_TV_ITER, 0, out);
    if (a->n < off)
        return fy_tm_fail(m, "Missing parameter for attribute name");
    if (fy_tv_items(m, v, &items) != 0 || fy_tv_list(m, FY_TV_ITER, items.n, out) != 0)
        return -1;
    const fy_ttest *test = NULL;
    fy_targs rest = {0};
    if (a->n > off) {
        const fy_tv *name = &a->arg[off];
        test = name->kind == FY_TV_STR ? fy_ttest_find(name->str) : NULL;
        rest = rest_of(a, off + 1);
        if (test == NULL)
            return unknown(m, "test", name);
    }
    for (size_t i = 0; i < items.n; i++) {
        bool yes = false;
        if (fy_tm_charge(m, 16) != 0 ||
            get_path(m, by_attribute ? &a->arg[0] : &none, &items.item[i], NULL, &tested) != 0 ||
            (test != NULL && test->run(m, &tested, &rest, &yes) != 0))
            return -1;
        if ((test != NULL ? yes : fy_tv_truth(&tested)) == keep)
            out->list->item[n++] = items.item[i];
    }
    out->list->n = n;
    return 0;
}

/* --- comparing --- */

/* Does key i go before the earlier key j? Asked with '<' only, as Python's sort does. */
static int comes_first(fy_tm *m, const fy_tlist *keys, size_t i, size_t j, bool reverse,
                       fy_tcompare *compare, bool *out)
{
    const fy_tv *x = &keys->item[reverse ? j : i], *y = &keys->item[reverse ? i : j];
    int order;
    if (fy_tm_charge(m, 16) != 0 || compare(m, x, y, &order) != 0)
        return -1;
    *out = order < 0;
    return 0;
}

/* Bottom-up merge sort; on equal keys the earlier one stays first, also in reverse. */
size_t *fy_tlist_order(fy_tm *m, const fy_tlist *keys, bool reverse, fy_tcompare *compare)
{
    size_t n = keys->n, *from = fy_tm_alloc(m, n * 2 * sizeof *from), *to = from + n;
    for (size_t i = 0; from != NULL && i < n; i++)
        from[i] = i;
    for (size_t width = 1; from != NULL && width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t mid = low + width < n ? low + width : n;
            size_t high = mid + width < n ? mid + width : n;
            for (size_t a = low, b = mid, k = low; k < high; k++) {
                bool second = a == mid;
                if (a < mid && b < high &&
                    comes_first(m, keys, from[b], from[a], reverse, compare, &second) != 0)
                    return NULL;
                to[k] = second ? from[b++] : from[a++];
            }
        }
        if (fy_tm_charge(m, n) != 0)
            return NULL;
        size_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static int sorted(fy_tm *m, const fy_tlist *items, const fy_tlist *keys, bool reverse,
                  fy_tcompare *compare, fy_tv *out)
{
    const size_t *order = fy_tlist_order(m, keys, reverse, compare);
    if (order == NULL || fy_tv_list(m, FY_TV_LIST, items->n, out) != 0)
        return -1;
    for (size_t i = 0; i < items->n; i++)
        out->list->item[i] = items->item[order[i]];
    return 0;
}

/* Equal values need not have an order: [none, none] can be sorted. */
static int compare_keys(fy_tm *m, const fy_tv *a, const fy_tv *b, int *order)
{
    *order = 0;
    if (fy_tv_equal(m, a, b))
        return 0;
    return m->e->code != FY_OK ? -1 : fy_tv_compare(m, a, b, order);
}

static FILTER(filter_sort)
{
    fy_tv arg[3];
    fy_tlist items, keys;
    if (fy_targs_bind(m, "sort ?reverse ?case_sensitive ?attribute", a, arg) != 0 ||
        fy_tv_items(m, v, &items) != 0)
        return -1;
    if (arg[2].kind == FY_TV_STR && fy_tu_find(arg[2].str, FY_SPAN(",")) >= 0)
        return fy_tm_fail(m, "sort: several attributes are not supported");
    if (keys_of(m, &items, &arg[2], fy_tv_truth(&arg[1]), &keys) != 0)
        return -1;
    return sorted(m, &items, &keys, fy_tv_truth(&arg[0]), compare_keys, out);
}

static FILTER(filter_dictsort)
{
    fy_tv arg[3], items, zero = fy_tv_int(0), one = fy_tv_int(1);
    fy_tlist keys;
    if (fy_targs_bind(m, "dictsort ?case_sensitive ?by ?reverse", a, arg) != 0)
        return -1;
    bool text = arg[1].kind == FY_TV_STR, by_value = text && fy_span_is(arg[1].str, "value");
    if (fy_targ_given(&arg[1]) && !by_value && !(text && fy_span_is(arg[1].str, "key")))
        return fy_tm_fail(m, "You can only sort by either \"key\" or \"value\"");
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind != FY_TV_DICT)
        return fy_tm_fail(m, "'%s' object has no attribute 'items'", fy_tv_type_name(v));
    if (filter_items(m, f, v, &(fy_targs){0}, &items) != 0 ||
        keys_of(m, items.list, by_value ? &one : &zero, fy_tv_truth(&arg[0]), &keys) != 0)
        return -1;
    return sorted(m, items.list, &keys, fy_tv_truth(&arg[2]), fy_tv_compare, out);
}

static FILTER(filter_unique)
{
    fy_tv arg[2], seen;
    fy_tlist items, keys;
    if (fy_targs_bind(m, "unique ?case_sensitive ?attribute", a, arg) != 0 ||
        fy_tv_items(m, v, &items) != 0 ||
        keys_of(m, &items, &arg[1], fy_tv_truth(&arg[0]), &keys) != 0 ||
        fy_tv_dict(m, FY_TV_DICT, items.n, &seen) != 0 ||
        fy_tv_list(m, FY_TV_ITER, items.n, out) != 0)
        return -1;
    for (size_t i = 0; i < items.n; i++) {
        size_t n = fy_tdict_n(seen.dict);
        if (fy_tdict_set(m, seen.dict, keys.item[i], fy_tv_none()) != 0)
            return -1;
        if (fy_tdict_n(seen.dict) > n)
            out->list->item[n] = items.item[i];
    }
    out->list->n = fy_tdict_n(seen.dict);
    return 0;
}

/* The first item whose key is least or greatest. */
static FILTER(filter_extreme)
{
    fy_tv arg[2];
    fy_tlist items, keys;
    size_t best = 0;
    bool better;
    if (fy_targs_bind(
            m, f->variant ? "max ?case_sensitive ?attribute" : "min ?case_sensitive ?attribute", a,
            arg) != 0 ||
        fy_tv_items(m, v, &items) != 0 ||
        keys_of(m, &items, &arg[1], fy_tv_truth(&arg[0]), &keys) != 0)
        return -1;
    for (size_t i = 1; i < items.n; i++) {
        if (comes_first(m, &keys, i, best, f->variant, fy_tv_compare, &better) != 0)
            return -1;
        best = better ? i : best;
    }
    *out = items.n > 0 ? items.item[best] : fy_tv_hint("No aggregated item, sequence was empty.");
    return 0;
}

const fy_tfilter fy_tfilters_list[] = {
    {"batch", filter_split, true},
    {"dictsort", filter_dictsort, 0},
    {"first", filter_first, 0},
    {"items", filter_items, 0},
    {"join", filter_join, 0},
    {"last", filter_last, 0},
    {"list", filter_list, 0},
    {"map", filter_map, 0},
    {"max", filter_extreme, true},
    {"min", filter_extreme, false},
    {"reject", filter_select, 0},
    {"rejectattr", filter_select, BY_ATTRIBUTE},
    {"reverse", filter_reverse, 0},
    {"select", filter_select, SELECT},
    {"selectattr", filter_select, SELECT | BY_ATTRIBUTE},
    {"slice", filter_split, false},
    {"sort", filter_sort, 0},
    {"sum", filter_sum, 0},
    {"unique", filter_unique, 0},
    {NULL, NULL, 0},
};
