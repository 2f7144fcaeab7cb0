/* The table of filters, attribute paths, and the filters of single values. */
#include "model/template/template_builtin.h"

#include <string.h>

static const fy_tfilter filters[] = {
    /* sorted by name */
    {"abs", fy_tfilter_abs},
    {"attr", fy_tfilter_attr},
    {"batch", fy_tfilter_batch},
    {"capitalize", fy_tfilter_capitalize},
    {"center", fy_tfilter_center},
    {"count", fy_tfilter_length},
    {"d", fy_tfilter_default},
    {"default", fy_tfilter_default},
    {"dictsort", fy_tfilter_dictsort},
    {"e", fy_tfilter_escape},
    {"escape", fy_tfilter_escape},
    {"filesizeformat", fy_tfilter_filesizeformat},
    {"first", fy_tfilter_first},
    {"float", fy_tfilter_float},
    {"forceescape", fy_tfilter_forceescape},
    {"format", fy_tfilter_format},
    {"groupby", fy_tfilter_groupby},
    {"indent", fy_tfilter_indent},
    {"int", fy_tfilter_int},
    {"items", fy_tfilter_items},
    {"join", fy_tfilter_join},
    {"last", fy_tfilter_last},
    {"length", fy_tfilter_length},
    {"list", fy_tfilter_list},
    {"lower", fy_tfilter_lower},
    {"map", fy_tfilter_map},
    {"max", fy_tfilter_max},
    {"min", fy_tfilter_min},
    {"pprint", fy_tfilter_pprint},
    {"random", fy_tfilter_random},
    {"reject", fy_tfilter_reject},
    {"rejectattr", fy_tfilter_rejectattr},
    {"replace", fy_tfilter_replace},
    {"reverse", fy_tfilter_reverse},
    {"round", fy_tfilter_round},
    {"safe", fy_tfilter_safe},
    {"select", fy_tfilter_select},
    {"selectattr", fy_tfilter_selectattr},
    {"slice", fy_tfilter_slice},
    {"sort", fy_tfilter_sort},
    {"string", fy_tfilter_string},
    {"striptags", fy_tfilter_striptags},
    {"sum", fy_tfilter_sum},
    {"title", fy_tfilter_title},
    {"tojson", fy_tfilter_tojson},
    {"trim", fy_tfilter_trim},
    {"truncate", fy_tfilter_truncate},
    {"unique", fy_tfilter_unique},
    {"upper", fy_tfilter_upper},
    {"urlencode", fy_tfilter_urlencode},
    {"wordcount", fy_tfilter_wordcount},
    {"wordwrap", fy_tfilter_wordwrap},
    {"xmlattr", fy_tfilter_xmlattr},
};

const fy_tfilter *fy_tfilter_find(fy_span name)
{
    size_t low = 0, high = sizeof filters / sizeof *filters;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        fy_span entry = fy_span_of(filters[mid].name);
        size_t n = entry.len < name.len ? entry.len : name.len;
        int order = n ? memcmp(entry.ptr, name.ptr, n) : 0;
        if (order == 0 && entry.len == name.len)
            return &filters[mid];
        if (order < 0 || (order == 0 && entry.len < name.len))
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* --- attribute paths ----------------------------------------------------------------------------
 */

static bool all_digits(fy_span s)
{
    for (const char *p = s.ptr, *end = p + s.len; p < end;)
        if (!fy_tu_is_digit(fy_tu_next(&p, end)))
            return false;
    return s.len > 0;
}

/* A part of digits is a number; int() refuses digits that are not decimal, such as a raised 2. */
static int parse_part(fy_tm *m, fy_span s, fy_tv *out)
{
    *out = fy_tv_view(s);
    if (!all_digits(s))
        return 0;
    int ok = fy_tv_parse_int(m, s, 10, out);
    if (ok == 0)
        return fy_tm_fail(m, "invalid literal for int() with base 10");
    return ok < 0 ? -1 : 0;
}

int fy_tpath_parse(fy_tm *m, const fy_tv *attribute, fy_tpath *out)
{
    fy_tv parts;
    size_t n = fy_tv_is(attribute, FY_TV_NONE) ? 0 : 1;
    bool text = fy_tv_is(attribute, FY_TV_STR);
    fy_span s = text ? attribute->str : FY_SPAN("");
    for (size_t i = 0; i < s.len; i++)
        n += s.ptr[i] == '.';
    if (fy_tm_charge(m, s.len) || fy_tv_list(m, FY_TV_LIST, n, &parts))
        return -1;
    if (!text && n)
        parts.list->item[0] = *attribute;
    for (size_t i = 0; text && i < n; i++) {
        ptrdiff_t dot = fy_tu_find(s, FY_SPAN("."));
        size_t len = dot < 0 ? s.len : (size_t)dot;
        if (parse_part(m, (fy_span){s.ptr, len}, &parts.list->item[i]))
            return -1;
        if (dot >= 0)
            s = (fy_span){s.ptr + len + 1, s.len - len - 1};
    }
    *out = (fy_tpath){parts.list->item, n};
    return 0;
}

int fy_tpath_get(fy_tm *m, const fy_tpath *path, const fy_tv *item, const fy_tv *missing,
                 fy_tv *out)
{
    fy_tv v = *item, next;
    for (size_t i = 0; i < path->n; i++) {
        if (fy_tm_charge(m, 16) || fy_tv_getitem(m, &v, &path->part[i], &next))
            return -1;
        v = missing && fy_tv_is(&next, FY_TV_UNDEFINED) ? *missing : next;
    }
    *out = v;
    return 0;
}

int fy_tv_fold_case(fy_tm *m, const fy_tv *v, fy_tv *out)
{
    fy_tbuf b = {0};
    if (!fy_tv_is(v, FY_TV_STR)) {
        *out = *v;
        return 0;
    }
    if (fy_tu_put_case(m, &b, v->str, FY_TU_LOWER))
        return -1;
    *out = fy_tbuf_value(&b, v->markup);
    return 0;
}

/* --- filters of any value -----------------------------------------------------------------------
 */

int fy_tfilter_default(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"default_value", "boolean"};
    fy_tv arg[2];
    bool given[2];
    if (fy_targs_bind(m, "default", a, names, 2, 0, arg, given))
        return -1;
    bool use = fy_tv_is(v, FY_TV_UNDEFINED) || (fy_tv_truth(&arg[1]) && !fy_tv_truth(v));
    *out = !use ? *v : given[0] ? arg[0] : fy_tv_view(FY_SPAN(""));
    return 0;
}

int fy_tfilter_length(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    size_t n;
    if (fy_targs_count(m, "len", a, 0, 0) || fy_tv_length(m, v, &n))
        return -1;
    *out = fy_tv_int((int64_t)n);
    return 0;
}

int fy_tfilter_string(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    return fy_targs_none(m, "string", a) ? -1 : fy_tv_soft_str(m, v, out);
}

/* Attributes only: unlike v.name it never looks at the items of a dict. */
int fy_tfilter_attr(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"name"};
    fy_tv name;
    bool given;
    fy_span s;
    if (fy_targs_bind(m, "attr", a, names, 1, 1, &name, &given) || fy_tv_text(m, "name", &name, &s))
        return -1;
    int found = 0;
    bool internal = s.len && s.ptr[0] == '_';
    bool special = s.len > 3 && internal && s.ptr[1] == '_'; /* undefined has some, but unsafe */
    if (fy_tv_is(v, FY_TV_UNDEFINED) && !special)
        return fy_tv_undefined_fail(m, v);
    if (fy_tv_is(v, FY_TV_NAMESPACE)) {
        const fy_tv *value = internal ? NULL : fy_tdict_find(v->dict, s);
        found = value != NULL;
        if (found)
            *out = *value;
    } else if ((fy_tv_is(v, FY_TV_OBJECT) || fy_tv_is(v, FY_TV_CALLABLE)) && v->call->attr) {
        found = internal ? 0 : v->call->attr(m, v->call, s, out);
    } else {
        found = fy_tmethod_find(m, v, s, out);
    }
    if (found == 0) {
        *out = fy_tv_undefined(s);
        out->view = 'a';
        out->of = v->kind;
    }
    return found < 0 ? -1 : 0;
}

int fy_tfilter_random(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    (void)v;
    (void)a;
    (void)out;
    return fy_tm_fail(m,
                      "the filter random is refused: a template must render the same every time");
}

/* --- pprint -------------------------------------------------------------------------------------
 */

/* By value where there is an order, else by the name of the type. */
static int compare_any(fy_tm *m, const fy_tv *a, const fy_tv *b, int *order)
{
    double x, y;
    bool numbers = fy_tv_as_float(a, &x) && fy_tv_as_float(b, &y);
    if (numbers || (a->kind == b->kind && fy_tv_is(a, FY_TV_STR)))
        return fy_tv_compare(m, a, b, order);
    *order = strcmp(fy_tv_type_name(a), fy_tv_type_name(b));
    return 0;
}

static int sort_dicts(fy_tm *m, const fy_tv *v, fy_tv *out);

static int sort_dict(fy_tm *m, const fy_tdict *d, fy_tv *out)
{
    fy_tv keys, sorted, value;
    size_t n = fy_tdict_n(d);
    if (fy_tv_list(m, FY_TV_LIST, n, &keys) || fy_tv_dict(m, FY_TV_DICT, n, out))
        return -1;
    for (size_t i = 0; i < n; i++)
        keys.list->item[i] = *fy_tdict_key(d, i);
    if (fy_tlist_sort(m, keys.list, keys.list, false, compare_any, &sorted))
        return -1;
    for (size_t i = 0; i < n; i++) {
        const fy_tv *key = &sorted.list->item[i];
        int found = fy_tdict_lookup(m, d, key, &value);
        if (found < 0 ||
            (found && (sort_dicts(m, &value, &value) || fy_tdict_set(m, out->dict, *key, value))))
            return -1;
    }
    return 0;
}

static int sort_items(fy_tm *m, const fy_tv *v, fy_tv *out)
{
    fy_tv copy;
    if (fy_tv_list(m, (fy_tv_kind)v->kind, v->list->n, &copy))
        return -1;
    for (size_t i = 0; i < v->list->n; i++)
        if (sort_dicts(m, &v->list->item[i], &copy.list->item[i]))
            return -1;
    *out = copy;
    return 0;
}

/* A copy of v whose dicts are in the order of their keys. */
static int sort_dicts(fy_tm *m, const fy_tv *v, fy_tv *out)
{
    bool list = fy_tv_is(v, FY_TV_LIST) || fy_tv_is(v, FY_TV_TUPLE);
    if (!list && !fy_tv_is(v, FY_TV_DICT)) {
        *out = *v;
        return 0;
    }
    if (m->depth >= FY_TV_MAX_DEPTH)
        return fy_tm_fail(m, "pprint: a value is nested deeper than %d", FY_TV_MAX_DEPTH);
    m->depth++;
    int failed = list ? sort_items(m, v, out) : sort_dict(m, v->dict, out);
    m->depth--;
    return failed;
}

enum { PPRINT_WIDTH = 80 };

int fy_tfilter_pprint(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    fy_tv sorted;
    fy_tbuf b = {0};
    if (fy_targs_none(m, "pprint", a) || sort_dicts(m, v, &sorted) ||
        fy_tv_put_repr(m, &b, &sorted))
        return -1;
    *out = fy_tbuf_value(&b, false);
    if (fy_tu_length(out->str) > PPRINT_WIDTH && !fy_tv_is(v, FY_TV_BIGINT))
        return fy_tm_fail(m, "pprint: a value of more than %d characters is not supported",
                          PPRINT_WIDTH);
    return 0;
}
