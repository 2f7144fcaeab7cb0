/* Methods of str and dict. Those that would change a value are undefined, as in
 * jinja2's immutable sandbox; those of Python that are left out are refused by name. Positions in a
 * string count code points. */
#include <string.h>

#include "model/template/template_builtin.h"

typedef struct method method;
struct method {
    const char *name;
    int (*run)(fy_tm *m, const method *f, const fy_tv *self, const fy_targs *a, fy_tv *out);
    int variant; /* what distinguishes methods of one function */
};

#define METHOD(name)                                                                      \
    static int name(fy_tm *m, const method *f __attribute__((unused)), const fy_tv *self, \
                    const fy_targs *a, fy_tv *out)

/* --- str: case and classes --- */

METHOD(str_case)
{
    fy_tbuf b = {0};
    if (fy_targs_none(m, f->name, a) != 0 ||
        fy_tu_put_case(m, &b, self->str, (fy_tu_case)f->variant) != 0)
        return -1;
    *out = fy_tbuf_value(&b, self->markup);
    return 0;
}

METHOD(str_is)
{
    static bool (*const classes[])(uint32_t) = {['n'] = fy_tu_is_alnum,
                                                ['a'] = fy_tu_is_alpha,
                                                ['d'] = fy_tu_is_digit,
                                                ['s'] = fy_tu_is_space};
    bool yes = self->str.len > 0;
    for (const char *p = self->str.ptr, *end = p + self->str.len; yes && p < end;)
        yes = classes[f->variant](fy_tu_next(&p, end));
    *out = fy_tv_bool(yes);
    return fy_targs_none(m, f->name, a) != 0 ? -1 : fy_tm_charge(m, self->str.len);
}

METHOD(str_is_cased)
{
    *out = fy_tv_bool(fy_tu_all_cased(self->str, f->variant));
    return fy_targs_none(m, f->name, a) != 0 ? -1 : fy_tm_charge(m, self->str.len);
}

/* --- str: ends --- */

METHOD(str_strip)
{
    fy_span chars, inner;
    bool given = a->n > 0 && fy_targ_given(&a->arg[0]);
    if (fy_targs_count(m, f->name, a, 0, 1) != 0 ||
        (given && fy_tv_text(m, "strip", &a->arg[0], &chars) != 0) ||
        fy_tu_strip(m, self->str, given ? &chars : NULL, f->variant, &inner) != 0)
        return -1;
    *out = fy_tv_view(inner);
    out->markup = self->markup;
    return 0;
}

static bool has_end(fy_span s, fy_span text, bool at_end)
{
    size_t at = at_end ? s.len - text.len : 0;
    return text.len <= s.len && fy_span_eq((fy_span){s.ptr + at, text.len}, text);
}

METHOD(str_remove)
{
    fy_span text;
    if (fy_targs_count(m, f->name, a, 1, 1) != 0 || fy_tv_text(m, f->name, &a->arg[0], &text) != 0)
        return -1;
    *out = *self;
    if (has_end(self->str, text, f->variant)) {
        out->str.ptr += f->variant ? 0 : text.len;
        out->str.len -= text.len;
    }
    return fy_tm_charge(m, text.len);
}

/* --- str: searching --- */

/* The part of s between the optional arguments 1 and 2. *ok: it does not begin after its end. */
static int search_range(fy_tm *m, const char *what, fy_span s, const fy_targs *a, fy_span *out,
                        int64_t *start, bool *ok)
{
    int64_t bound[2] = {0, INT64_MAX}, n = 0;
    *start = 0;
    *ok = true;
    *out = s;
    if (fy_targs_count(m, what, a, 1, 3) != 0 || fy_tm_charge(m, s.len) != 0)
        return -1;
    if (a->n == 1)
        return 0;
    n = (int64_t)fy_tu_length(s);
    for (size_t i = 1; i < a->n; i++) {
        if (a->arg[i].kind != FY_TV_NONE && fy_tv_index(m, &a->arg[i], &bound[i - 1]) != 0)
            return -1;
    }
    for (int i = 0; i < 2; i++)
        bound[i] = bound[i] >= 0 ? bound[i] : bound[i] < -n ? 0 : bound[i] + n;
    bound[1] = bound[1] < n ? bound[1] : n;
    *start = bound[0];
    *ok = bound[0] <= bound[1];
    *out = *ok ? fy_tu_slice(s, (size_t)bound[0], (size_t)bound[1]) : (fy_span){s.ptr, 0};
    return 0;
}

/* The last occurrence, -1: none. */
static int find_last(fy_tm *m, fy_span s, fy_span needle, ptrdiff_t *at)
{
    *at = needle.len == 0 ? (ptrdiff_t)s.len : -1;
    for (size_t i = s.len; *at < 0 && i >= needle.len; i--) {
        const char *p = s.ptr + (i - needle.len);
        if (*p == needle.ptr[0]) {
            if (fy_tm_charge(m, needle.len) != 0)
                return -1;
            if (memcmp(p, needle.ptr, needle.len) == 0)
                *at = p - s.ptr;
        }
    }
    return 0;
}

METHOD(str_find)
{
    fy_span needle, s;
    int64_t start;
    bool ok;
    ptrdiff_t at = -1;
    if (search_range(m, f->name, self->str, a, &s, &start, &ok) != 0 ||
        fy_tv_text(m, f->name, &a->arg[0], &needle) != 0)
        return -1;
    if (ok && f->variant == 0)
        at = fy_tu_find(s, needle);
    else if (ok && find_last(m, s, needle, &at) != 0)
        return -1;
    if (at < 0 && strcmp(f->name, "index") == 0)
        return fy_tm_fail(m, "substring not found");
    *out = fy_tv_int(at < 0 ? -1 : start + (int64_t)fy_tu_length((fy_span){s.ptr, (size_t)at}));
    return 0;
}

METHOD(str_count)
{
    fy_span needle, s;
    int64_t start, n = 0;
    bool ok;
    if (search_range(m, f->name, self->str, a, &s, &start, &ok) != 0 ||
        fy_tv_text(m, "count", &a->arg[0], &needle) != 0)
        return -1;
    if (ok && needle.len == 0)
        n = (int64_t)fy_tu_length(s) + 1;
    for (ptrdiff_t at; ok && needle.len > 0 && (at = fy_tu_find(s, needle)) >= 0; n++)
        s = (fy_span){s.ptr + at + needle.len, s.len - (size_t)at - needle.len};
    *out = fy_tv_int(n);
    return 0;
}

/* Does the string begin (or end) with the text, or with one of a tuple of texts? */
METHOD(str_test_end)
{
    fy_span s, text;
    int64_t start;
    bool ok, yes = false;
    if (search_range(m, f->name, self->str, a, &s, &start, &ok) != 0)
        return -1;
    bool tuple = a->arg[0].kind == FY_TV_TUPLE;
    const fy_tv *item = tuple ? a->arg[0].list->item : &a->arg[0];
    size_t n = tuple ? a->arg[0].list->n : 1;
    for (size_t i = 0; i < n && !yes; i++) {
        if (fy_tv_text(m, f->name, &item[i], &text) != 0 || fy_tm_charge(m, text.len + 16) != 0)
            return -1;
        yes = ok && has_end(s, text, f->variant);
    }
    *out = fy_tv_bool(yes);
    return 0;
}

METHOD(str_replace)
{
    fy_span old, with;
    int64_t max = -1;
    fy_tbuf b = {0};
    if (fy_targs_count(m, f->name, a, 2, 3) != 0 ||
        fy_tv_text(m, "replace", &a->arg[0], &old) != 0 ||
        fy_tv_text(m, "replace", &a->arg[1], &with) != 0 ||
        (a->n == 3 && fy_tv_index(m, &a->arg[2], &max) != 0) ||
        fy_tu_replace(m, &b, self->str, old, with, max) != 0)
        return -1;
    *out = fy_tbuf_value(&b, false);
    return 0;
}

METHOD(str_format)
{
    return fy_tv_format(m, self->str, a, out);
}

/* --- str: taking apart and joining --- */

/* The pieces of a text, in a list that grows. */
typedef struct {
    fy_tm *m;
    fy_tv *item;
    size_t n, cap;
} pieces;

static int add_piece(pieces *p, const char *from, const char *to)
{
    if (p->n == p->cap) {
        size_t cap = p->cap > 0 ? p->cap * 2 : 8, bytes = cap * sizeof *p->item;
        fy_tv *more = fy_tm_charge(p->m, bytes) != 0 ? NULL : fy_tm_alloc(p->m, bytes);
        if (more == NULL)
            return -1;
        if (p->n > 0)
            memcpy(more, p->item, p->n * sizeof *more);
        p->item = more;
        p->cap = cap;
    }
    p->item[p->n++] = fy_tv_view((fy_span){from, (size_t)(to - from)});
    return 0;
}

static int finish(const pieces *p, fy_tv_kind kind, bool reverse, fy_tv *out)
{
    if (fy_tv_list(p->m, kind, p->n, out) != 0)
        return -1;
    for (size_t i = 0; i < p->n; i++)
        out->list->item[i] = p->item[reverse ? p->n - 1 - i : i];
    return 0;
}

/* At white space: words from the left, or from the right. */
static int split_spaces(pieces *out, fy_span s, bool last, int64_t max)
{
    for (;; max--) {
        fy_span word = s;
        if (fy_tu_strip(out->m, s, NULL, last ? FY_TU_STRIP_RIGHT : FY_TU_STRIP_LEFT, &s) != 0)
            return -1;
        if (s.len == 0)
            return 0;
        if (max == 0)
            return add_piece(out, s.ptr, s.ptr + s.len);
        const char *begin = s.ptr, *end = s.ptr + s.len, *p = last ? end : begin;
        for (const char *next = p; last ? p > begin : p < end; p = next) {
            if (fy_tu_is_space(last ? fy_tu_prev(begin, &next) : fy_tu_next(&next, end)))
                break;
        }
        word = last ? (fy_span){p, (size_t)(end - p)} : (fy_span){begin, (size_t)(p - begin)};
        if (add_piece(out, word.ptr, word.ptr + word.len) != 0)
            return -1;
        s = last ? (fy_span){begin, (size_t)(p - begin)} : (fy_span){p, (size_t)(end - p)};
    }
}

static int split_text(pieces *out, fy_span s, fy_span by, bool last, int64_t max)
{
    for (ptrdiff_t at; max != 0; max -= max > 0) {
        at = last ? -1 : fy_tu_find(s, by);
        if (last && find_last(out->m, s, by, &at) != 0)
            return -1;
        if (at < 0)
            break;
        const char *from = s.ptr + at, *to = from + by.len, *end = s.ptr + s.len;
        if (add_piece(out, last ? to : s.ptr, last ? end : from) != 0)
            return -1;
        s = last ? (fy_span){s.ptr, (size_t)at} : (fy_span){to, (size_t)(end - to)};
    }
    return add_piece(out, s.ptr, s.ptr + s.len);
}

METHOD(str_split)
{
    fy_tv arg[2];
    fy_span by;
    int64_t max = -1;
    bool last = f->variant;
    pieces p = {.m = m};
    if (fy_targs_bind(m, f->variant ? "rsplit ?sep ?maxsplit" : "split ?sep ?maxsplit", a, arg) !=
            0 ||
        (fy_targ_given(&arg[1]) && fy_tv_index(m, &arg[1], &max) != 0) ||
        fy_tm_charge(m, self->str.len) != 0)
        return -1;
    if (!fy_targ_given(&arg[0]))
        return split_spaces(&p, self->str, last, max) != 0 ? -1 : finish(&p, FY_TV_LIST, last, out);
    if (fy_tv_text(m, "split", &arg[0], &by) != 0)
        return -1;
    if (by.len == 0)
        return fy_tm_fail(m, "empty separator");
    return split_text(&p, self->str, by, last, max) != 0 ? -1 : finish(&p, FY_TV_LIST, last, out);
}

METHOD(str_splitlines)
{
    fy_tv keep;
    pieces p = {.m = m};
    fy_span s = self->str;
    if (fy_targs_bind(m, "splitlines ?keepends", a, &keep) != 0 || fy_tm_charge(m, s.len) != 0)
        return -1;
    for (size_t line = 0, at = 0; line < s.len; line = at) {
        size_t gap = 0;
        while (at < s.len && (gap = fy_tu_line_end((fy_span){s.ptr + at, s.len - at})) == 0)
            at++;
        if (add_piece(&p, s.ptr + line, s.ptr + at + (fy_tv_truth(&keep) ? gap : 0)) != 0)
            return -1;
        at += gap;
    }
    return finish(&p, FY_TV_LIST, false, out);
}

METHOD(str_partition)
{
    fy_span by, s = self->str;
    bool last = f->variant;
    pieces p = {.m = m};
    if (fy_targs_count(m, f->name, a, 1, 1) != 0 || fy_tv_text(m, f->name, &a->arg[0], &by) != 0 ||
        fy_tm_charge(m, s.len) != 0)
        return -1;
    if (by.len == 0)
        return fy_tm_fail(m, "empty separator");
    ptrdiff_t at = fy_tu_find(s, by);
    if (last && find_last(m, s, by, &at) != 0)
        return -1;
    const char *end = s.ptr + s.len;
    const char *from = at >= 0 ? s.ptr + at : last ? s.ptr : end;
    const char *to = at >= 0 ? from + by.len : from;
    if (add_piece(&p, s.ptr, from) != 0 || add_piece(&p, from, to) != 0 ||
        add_piece(&p, to, end) != 0)
        return -1;
    return finish(&p, FY_TV_TUPLE, false, out);
}

METHOD(str_join)
{
    fy_tlist items;
    fy_tbuf b = {0};
    if (fy_targs_count(m, f->name, a, 1, 1) != 0 || fy_tv_items(m, &a->arg[0], &items) != 0)
        return -1;
    for (size_t i = 0; i < items.n; i++) {
        if (items.item[i].kind != FY_TV_STR)
            return fy_tm_fail(m, "sequence item %zu: expected str instance, %s found", i,
                              fy_tv_type_name(&items.item[i]));
        if ((i > 0 && fy_tbuf_span(m, &b, self->str) != 0) ||
            fy_tbuf_span(m, &b, items.item[i].str) != 0)
            return -1;
    }
    *out = fy_tbuf_value(&b, false);
    return 0;
}

/* --- dict --- */

METHOD(dict_get)
{
    if (fy_targs_count(m, f->name, a, 1, 2) != 0)
        return -1;
    int found = fy_tdict_lookup(m, self->dict, &a->arg[0], out);
    if (found == 0)
        *out = a->n > 1 ? a->arg[1] : fy_tv_none();
    return found < 0 ? -1 : 0;
}

METHOD(dict_view)
{
    const fy_tdict *d = self->dict;
    size_t n = fy_tdict_n(d);
    if (fy_targs_none(m, f->name, a) != 0 || fy_tv_list(m, FY_TV_VIEW, n, out) != 0)
        return -1;
    out->view = (uint8_t)f->variant;
    for (size_t i = 0; i < n; i++) {
        fy_tv *v = &out->list->item[i];
        *v = f->variant == 'k' ? *fy_tdict_key(d, i) : *fy_tdict_at(d, i);
        if (f->variant == 'i' && fy_tv_pair(m, *fy_tdict_key(d, i), *fy_tdict_at(d, i), v) != 0)
            return -1;
    }
    return 0;
}

/* --- finding and binding --- */

typedef struct {
    const method *methods;
    size_t n;
    const char *const *mutators, *const *refused; /* names, up to NULL */
} type_methods;

static const method of_str[] = {
    {"capitalize", str_case, FY_TU_CAPITALIZE},
    {"count", str_count, 0},
    {"endswith", str_test_end, true},
    {"find", str_find, false},
    {"format", str_format, 0},
    {"index", str_find, false},
    {"isalnum", str_is, 'n'},
    {"isalpha", str_is, 'a'},
    {"isdigit", str_is, 'd'},
    {"islower", str_is_cased, false},
    {"isspace", str_is, 's'},
    {"isupper", str_is_cased, true},
    {"join", str_join, 0},
    {"lower", str_case, FY_TU_LOWER},
    {"lstrip", str_strip, FY_TU_STRIP_LEFT},
    {"partition", str_partition, false},
    {"removeprefix", str_remove, false},
    {"removesuffix", str_remove, true},
    {"replace", str_replace, 0},
    {"rfind", str_find, true},
    {"rpartition", str_partition, true},
    {"rsplit", str_split, true},
    {"rstrip", str_strip, FY_TU_STRIP_RIGHT},
    {"split", str_split, false},
    {"splitlines", str_splitlines, 0},
    {"startswith", str_test_end, false},
    {"strip", str_strip, FY_TU_STRIP_BOTH},
    {"title", str_case, FY_TU_TITLE},
    {"upper", str_case, FY_TU_UPPER},
};
static const method of_dict[] = {{"get", dict_get, 0},
                                 {"items", dict_view, 'i'},
                                 {"keys", dict_view, 'k'},
                                 {"values", dict_view, 'v'}};

#define METHODS(table) table, sizeof(table) / sizeof *(table)

static const char *const none[] = {NULL};
static const char *const str_refused[] = {"casefold",   "center",      "encode",    "expandtabs",
                                          "format_map", "isascii",     "isdecimal", "isidentifier",
                                          "isnumeric",  "isprintable", "istitle",   "ljust",
                                          "maketrans",  "rindex",      "rjust",     "swapcase",
                                          "translate",  "zfill",       NULL};
static const char *const list_mutators[] = {"append", "clear",   "extend", "insert", "pop",
                                            "remove", "reverse", "sort",   NULL};
static const char *const list_refused[] = {"copy", "count", "index", NULL};
static const char *const dict_mutators[] = {"clear",      "pop",    "popitem",
                                            "setdefault", "update", NULL};
static const char *const dict_refused[] = {"copy", "fromkeys", NULL};

static const type_methods str_type = {METHODS(of_str), none, str_refused};
static const type_methods list_type = {NULL, 0, list_mutators, list_refused};
static const type_methods tuple_type = {NULL, 0, none, list_refused + 1};
static const type_methods dict_type = {METHODS(of_dict), dict_mutators, dict_refused};

static const type_methods *methods_of(const fy_tv *v)
{
    return v->kind == FY_TV_STR     ? &str_type
           : v->kind == FY_TV_LIST  ? &list_type
           : v->kind == FY_TV_TUPLE ? &tuple_type
           : v->kind == FY_TV_DICT  ? &dict_type
                                    : NULL;
}

static bool is_listed(const char *const *list, fy_span name)
{
    while (*list != NULL && !fy_span_is(name, *list))
        list++;
    return *list != NULL;
}

/* Undefined, so that `x.append is defined` is false, with the sandbox's text once it is called. */
static int refuse_mutation(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    fy_tbuf b = {0};
    fy_span piece[] = {FY_SPAN("access to attribute '"), name, FY_SPAN("' of '"),
                       fy_span_of(fy_tv_type_name(v)), FY_SPAN("' object is unsafe.")};
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        if (fy_tbuf_span(m, &b, piece[i]) != 0)
            return -1;
    }
    *out = fy_tv_undefined(fy_tbuf_value(&b, false).str);
    out->view = 'h';
    return 1;
}

typedef struct {
    fy_tcall base;
    const method *method;
    fy_tv self;
} bound_method;

static int call_bound(fy_tm *m, fy_tcall *call, const fy_targs *a, fy_tv *out)
{
    const bound_method *b = (const bound_method *)call;
    return b->method->run(m, b->method, &b->self, a, out);
}

int fy_tmethod_find(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    const type_methods *t = methods_of(v);
    size_t i = 0;
    if (t == NULL)
        return 0;
    while (i < t->n && !fy_span_is(name, t->methods[i].name))
        i++;
    if (i == t->n)
        return is_listed(t->mutators, name)  ? refuse_mutation(m, v, name, out)
               : is_listed(t->refused, name) ? fy_tv_unsupported(m, "the method", name, out)
                                             : 0;
    bound_method *b = fy_tm_alloc(m, sizeof *b);
    if (b == NULL)
        return -1;
    *b = (bound_method){{"builtin_function_or_method", call_bound, NULL}, &t->methods[i], *v};
    *out = (fy_tv){.kind = FY_TV_CALLABLE, .call = &b->base};
    return 1;
}
