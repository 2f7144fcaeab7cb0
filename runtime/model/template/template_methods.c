/* Methods of str and dict. Those that would change a value are undefined, as in
 * jinja2's immutable sandbox; those of Python that are left out are refused by name. Positions in a
 * string count code points. */
#include <string.h>

#include "model/template/template_value.h"

/* --- str: case and classes --- */

FY_BUILTIN(fy_tstr_case)
{
    fy_tv s = fy_tv_soft_str(m, v);
    fy_tbuf b = {.m = m};
    fy_tu_put_case(&b, s.str, (fy_tu_case)f->variant);
    return fy_tbuf_value(&b, s.markup);
}

static FY_BUILTIN(str_isdigit)
{
    bool yes = v->str.len > 0 && fy_tm_charge(m, v->str.len);
    for (const char *p = v->str.ptr, *end = p + v->str.len; yes && p < end;)
        yes = fy_tu_is_digit(fy_tu_next(&p, end));
    return fy_tv_bool(yes);
}

/* --- str: ends --- */

FY_BUILTIN(fy_tstr_strip)
{
    fy_tv s = fy_tv_soft_str(m, v);
    bool given = fy_targ_given(&a->arg[0]);
    fy_span chars = given ? fy_tv_text(m, "strip", &a->arg[0]) : (fy_span){0};
    return fy_tv_part(&s, fy_tu_strip(m, s.str, given ? &chars : NULL, f->variant));
}

static bool has_end(fy_span s, fy_span text, bool at_end)
{
    size_t at = at_end ? s.len - text.len : 0;
    return text.len <= s.len && fy_span_eq((fy_span){s.ptr + at, text.len}, text);
}

static FY_BUILTIN(str_remove)
{
    fy_span text = fy_tv_text(m, f->name, &a->arg[0]), s = v->str;
    if (fy_tm_charge(m, text.len) && has_end(s, text, f->variant))
        s = (fy_span){s.ptr + (f->variant ? 0 : text.len), s.len - text.len};
    return fy_tv_part(v, s);
}

/* --- str: searching --- */

/* The last occurrence, -1: none. */
static ptrdiff_t find_last(fy_tm *m, fy_span s, fy_span needle)
{
    if (needle.len == 0)
        return (ptrdiff_t)s.len;
    for (size_t i = s.len; i >= needle.len; i--) {
        const char *p = s.ptr + (i - needle.len);
        if (*p == needle.ptr[0] && fy_tm_charge(m, needle.len) &&
            memcmp(p, needle.ptr, needle.len) == 0)
            return p - s.ptr;
    }
    return -1;
}

static ptrdiff_t find(fy_tm *m, fy_span s, fy_span needle, bool last)
{
    return last ? find_last(m, s, needle) : fy_tu_find(s, needle);
}

static FY_BUILTIN(str_find)
{
    fy_span s = v->str, needle = fy_tv_text(m, f->name, &a->arg[0]);
    ptrdiff_t at = fy_tm_charge(m, s.len) ? find(m, s, needle, f->variant) : -1;
    return fy_tv_int(at < 0 ? -1 : (int64_t)fy_tu_length((fy_span){s.ptr, (size_t)at}));
}

static FY_BUILTIN(str_count)
{
    fy_span s = v->str, needle = fy_tv_text(m, "count", &a->arg[0]);
    int64_t n = needle.len == 0 ? (int64_t)fy_tu_length(s) + 1 : 0;
    fy_tm_charge(m, s.len);
    for (ptrdiff_t at; needle.len > 0 && (at = fy_tu_find(s, needle)) >= 0; n++)
        s = (fy_span){s.ptr + at + needle.len, s.len - (size_t)at - needle.len};
    return fy_tv_int(n);
}

/* Does the string begin (or end) with the text, or with one of a tuple of texts? */
static FY_BUILTIN(str_test_end)
{
    bool tuple = a->arg[0].kind == FY_TV_TUPLE, yes = false;
    const fy_tv *item = tuple ? a->arg[0].list->item : &a->arg[0];
    size_t n = tuple ? a->arg[0].list->n : 1;
    for (size_t i = 0; i < n && !yes; i++) {
        fy_span text = fy_tv_text(m, f->name, &item[i]);
        yes = fy_tm_charge(m, text.len + 16) && has_end(v->str, text, f->variant);
    }
    return fy_tv_bool(yes);
}

static FY_BUILTIN(str_replace)
{
    fy_tbuf b = {.m = m};
    fy_span old = fy_tv_text(m, "replace", &a->arg[0]), with = fy_tv_text(m, "replace", &a->arg[1]);
    fy_tu_replace(&b, v->str, old, with,
                  fy_targ_absent(&a->arg[2]) ? -1 : fy_tv_index(m, &a->arg[2]));
    return fy_tbuf_value(&b, false);
}

/* --- str: taking apart and joining --- */

static void add_piece(fy_tm *m, fy_tlist *list, const char *from, const char *to)
{
    fy_tlist_add(m, list, fy_tv_view((fy_span){from, (size_t)(to - from)}));
}

/* At white space: words from the left, or from the right. */
static void split_spaces(fy_tm *m, fy_tlist *out, fy_span s, bool last, int64_t max)
{
    for (; fy_tm_ok(m); max--) {
        s = fy_tu_strip(m, s, NULL, last ? FY_TU_STRIP_RIGHT : FY_TU_STRIP_LEFT);
        const char *begin = s.ptr, *end = s.ptr + s.len, *p = last ? end : begin;
        if (s.len > 0 && max == 0)
            add_piece(m, out, begin, end);
        if (s.len == 0 || max == 0)
            return;
        for (const char *next = p; last ? p > begin : p < end; p = next) {
            if (fy_tu_is_space(last ? fy_tu_prev(begin, &next) : fy_tu_next(&next, end)))
                break;
        }
        add_piece(m, out, last ? p : begin, last ? end : p);
        s = last ? (fy_span){begin, (size_t)(p - begin)} : (fy_span){p, (size_t)(end - p)};
    }
}

static void split_text(fy_tm *m, fy_tlist *out, fy_span s, fy_span by, bool last, int64_t max)
{
    ptrdiff_t at;
    for (; max != 0 && fy_tm_ok(m) && (at = find(m, s, by, last)) >= 0; max -= max > 0) {
        const char *from = s.ptr + at, *to = from + by.len, *end = s.ptr + s.len;
        add_piece(m, out, last ? to : s.ptr, last ? end : from);
        s = last ? (fy_span){s.ptr, (size_t)at} : (fy_span){to, (size_t)(end - to)};
    }
    add_piece(m, out, s.ptr, s.ptr + s.len);
}

static void reverse(fy_tlist *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        fy_tv v = l->item[i];
        l->item[i] = l->item[l->n - 1 - i];
        l->item[l->n - 1 - i] = v;
    }
}

static FY_BUILTIN(str_split)
{
    bool last = f->variant, given = fy_targ_given(&a->arg[0]);
    int64_t max = fy_targ_given(&a->arg[1]) ? fy_tv_index(m, &a->arg[1]) : -1;
    fy_tv list = fy_tv_list(m, FY_TV_LIST, 8);
    fy_span by = given ? fy_tv_text(m, "split", &a->arg[0]) : (fy_span){0};
    if (given && by.len == 0)
        fy_tm_fail(m, "empty separator");
    if (!fy_tm_charge(m, v->str.len))
        return list;
    if (given)
        split_text(m, list.list, v->str, by, last, max);
    else
        split_spaces(m, list.list, v->str, last, max);
    if (last)
        reverse(list.list);
    return list;
}

static FY_BUILTIN(str_splitlines)
{
    fy_span s = v->str;
    fy_tv list = fy_tv_list(m, FY_TV_LIST, 8);
    fy_tm_charge(m, s.len);
    for (size_t line = 0, at = 0; line < s.len && fy_tm_ok(m); line = at) {
        size_t gap = 0;
        while (at < s.len && (gap = fy_tu_line_end((fy_span){s.ptr + at, s.len - at})) == 0)
            at++;
        add_piece(m, list.list, s.ptr + line, s.ptr + at + (fy_tv_truth(&a->arg[0]) ? gap : 0));
        at += gap;
    }
    return list;
}

static FY_BUILTIN(str_partition)
{
    fy_span by = fy_tv_text(m, f->name, &a->arg[0]), s = v->str;
    if (fy_tm_charge(m, s.len) && by.len == 0)
        return fy_tm_fail(m, "empty separator");
    ptrdiff_t at = fy_tu_find(s, by);
    const char *end = s.ptr + s.len, *from = at >= 0 ? s.ptr + at : end;
    const char *to = at >= 0 ? from + by.len : end;
    fy_tv parts = fy_tv_list(m, FY_TV_TUPLE, 3);
    add_piece(m, parts.list, s.ptr, from);
    add_piece(m, parts.list, from, to);
    add_piece(m, parts.list, to, end);
    return parts;
}

static FY_BUILTIN(str_join)
{
    fy_tlist items = fy_tv_items(m, &a->arg[0]);
    fy_tbuf b = {.m = m};
    for (size_t i = 0; i < items.n && fy_tm_ok(m); i++) {
        if (items.item[i].kind != FY_TV_STR)
            return fy_tm_fail(m, "sequence item %zu: expected str instance, %s found", i,
                              fy_tv_type_name(&items.item[i]));
        if (i > 0)
            fy_tbuf_span(&b, v->str);
        fy_tbuf_span(&b, items.item[i].str);
    }
    return fy_tbuf_value(&b, false);
}

/* --- dict --- */

static FY_BUILTIN(dict_get)
{
    const fy_tv *found = fy_tdict_get(m, v->dict, &a->arg[0]);
    return found != NULL ? *found : fy_targ_absent(&a->arg[1]) ? fy_tv_none() : a->arg[1];
}

static FY_BUILTIN(dict_view)
{
    fy_tv view = fy_tv_list(m, FY_TV_VIEW, v->dict->n);
    view.view = (uint8_t)f->variant;
    for (size_t i = 0; i < v->dict->n && fy_tm_ok(m); i++) {
        const fy_tpair *p = &v->dict->items[i];
        fy_tlist_add(m, view.list,
                     f->variant == 'k'   ? p->key
                     : f->variant == 'v' ? p->value
                                         : fy_tv_pair(m, p->key, p->value));
    }
    return view;
}

/* --- finding --- */

static const fy_tbuiltin of_str[] = {
    {"capitalize", "/", fy_tstr_case, FY_TU_CAPITALIZE},
    {"count", "/sub", str_count, 0},
    {"endswith", "/suffix", str_test_end, true},
    {"find", "/sub", str_find, false},
    {"format", NULL, fy_tstr_format, 0},
    {"isdigit", "/", str_isdigit, 0},
    {"join", "/iterable", str_join, 0},
    {"lower", "/", fy_tstr_case, FY_TU_LOWER},
    {"lstrip", "/?chars", fy_tstr_strip, FY_TU_STRIP_LEFT},
    {"partition", "/sep", str_partition, 0},
    {"removeprefix", "/prefix", str_remove, false},
    {"removesuffix", "/suffix", str_remove, true},
    {"replace", "/old new ?count", str_replace, 0},
    {"rfind", "/sub", str_find, true},
    {"rsplit", "?sep ?maxsplit", str_split, true},
    {"rstrip", "/?chars", fy_tstr_strip, FY_TU_STRIP_RIGHT},
    {"split", "?sep ?maxsplit", str_split, false},
    {"splitlines", "?keepends", str_splitlines, 0},
    {"startswith", "/prefix", str_test_end, false},
    {"strip", "/?chars", fy_tstr_strip, FY_TU_STRIP_BOTH},
    {"title", "/", fy_tstr_case, FY_TU_TITLE},
    {"upper", "/", fy_tstr_case, FY_TU_UPPER},
    {NULL, NULL, NULL, 0},
};
static const fy_tbuiltin of_dict[] = {
    {"get", "/key ?default", dict_get, 0},
    {"items", "/", dict_view, 'i'},
    {"keys", "/", dict_view, 'k'},
    {"values", "/", dict_view, 'v'},
    {NULL, NULL, NULL, 0},
};
static const fy_tbuiltin no_methods[] = {{NULL, NULL, NULL, 0}};

static const struct {
    fy_tv_kind kind;
    const fy_tbuiltin *methods;
    const char *mutators, *refused; /* names */
} types[] = {
    {FY_TV_STR, of_str, "",
     "casefold center encode expandtabs format_map index isalnum isalpha isascii isdecimal "
     "isidentifier islower isnumeric isprintable isspace istitle isupper ljust maketrans rindex "
     "rjust rpartition swapcase translate zfill"},
    {FY_TV_LIST, no_methods, "append clear extend insert pop remove reverse sort",
     "copy count index"},
    {FY_TV_TUPLE, no_methods, "", "count index"},
    {FY_TV_DICT, of_dict, "clear pop popitem setdefault update", "copy fromkeys"},
};

bool fy_tmethod_find(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    fy_tbuf b = {.m = m};
    size_t i = 0, n = sizeof types / sizeof *types;
    while (i < n && types[i].kind != v->kind)
        i++;
    if (i == n)
        return false;
    const fy_tbuiltin *f = fy_tbuiltin_find(types[i].methods, name);
    if (f != NULL) {
        *out = fy_tbuiltin_bind(m, "builtin_function_or_method", f, *v);
    } else if (fy_tword_is_in(name, types[i].mutators)) {
        /* Undefined, so that `x.append is defined` is false, with the sandbox's text. */
        fy_tbuf_printf(&b, "access to attribute '%.*s' of '%s' object is unsafe.", FY_TSHOWN(name),
                       fy_tv_type_name(v));
        *out = fy_tv_hint(fy_tbuf_value(&b, false).str);
    } else if (fy_tword_is_in(name, types[i].refused)) {
        *out = fy_tv_unsupported(m, "the method", name);
    } else {
        return false;
    }
    return true;
}
