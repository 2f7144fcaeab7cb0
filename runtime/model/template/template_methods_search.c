/* Methods of str that look for a piece of it, or take it apart. Positions count code points. */
#include "model/template/template_builtin.h"

#include <string.h>

#define METHOD(name) static int name(fy_tm *m, const fy_tv *self, const fy_targs *a, fy_tv *out)

/* --- ranges -------------------------------------------------------------------------------------
 */

/* An index of a slice: none is `otherwise`, negative ones count from the end, all are clamped to
 * 0 .. n, but a start behind the end stays visible as n + 1. */
static int slice_index(fy_tm *m, const fy_tv *v, int64_t n, int64_t otherwise, int64_t *out)
{
    int64_t i = otherwise;
    if (fy_tv_is(v, FY_TV_BIGINT))
        i = v->str.ptr[0] == '-' ? INT64_MIN : INT64_MAX;
    else if (fy_tv_is_int(v))
        i = fy_tv_as_int(v);
    else if (!fy_tv_is(v, FY_TV_NONE))
        return fy_tm_fail(m, "slice indices must be integers or None or have an __index__ method");
    if (i < 0)
        i = i < -n ? 0 : i + n;
    *out = i > n ? n + 1 : i;
    return 0;
}

/* The part of s between the optional arguments 1 and 2; *ok is false when it begins behind its
 * end, where not even the empty string is found. */
static int range_of(fy_tm *m, fy_span s, const fy_targs *a, fy_span *out, int64_t *start, bool *ok)
{
    *start = 0;
    *ok = true;
    *out = s;
    if (fy_tm_charge(m, s.len))
        return -1;
    if (a->n < 2)
        return 0;
    fy_tv none = fy_tv_none();
    int64_t n = (int64_t)fy_tu_length(s), stop;
    if (slice_index(m, &a->arg[1], n, 0, start) ||
        slice_index(m, a->n > 2 ? &a->arg[2] : &none, n, n, &stop))
        return -1;
    stop = stop > n ? n : stop;
    *ok = *start <= stop;
    *out = *ok ? fy_tu_slice(s, (size_t)*start, (size_t)stop) : (fy_span){s.ptr, 0};
    return 0;
}

/* --- find ---------------------------------------------------------------------------------------
 */

static int find_last(fy_tm *m, fy_span s, fy_span needle, ptrdiff_t *at)
{
    *at = -1;
    if (s.len < needle.len)
        return 0;
    if (needle.len == 0) {
        *at = (ptrdiff_t)s.len;
        return 0;
    }
    for (size_t i = s.len - needle.len + 1; i-- > 0;) {
        if (s.ptr[i] != needle.ptr[0])
            continue;
        if (fy_tm_charge(m, needle.len))
            return -1;
        if (memcmp(s.ptr + i, needle.ptr, needle.len) == 0) {
            *at = (ptrdiff_t)i;
            break;
        }
    }
    return 0;
}

/* Position of the first or last occurrence; -1 for none. */
static int position(fy_tm *m, const fy_tv *self, const fy_targs *a, bool last, int64_t *out)
{
    fy_span needle, s;
    int64_t start;
    bool ok;
    ptrdiff_t at = -1;
    if (fy_tv_text(m, "find()", &a->arg[0], &needle) || range_of(m, self->str, a, &s, &start, &ok))
        return -1;
    if (ok && !last)
        at = fy_tu_find(s, needle);
    else if (ok && find_last(m, s, needle, &at))
        return -1;
    *out = at < 0 ? -1 : start + (int64_t)fy_tu_length((fy_span){s.ptr, (size_t)at});
    return 0;
}

static int find(fy_tm *m, const fy_tv *self, const fy_targs *a, bool last, bool required,
                fy_tv *out)
{
    int64_t i;
    if (position(m, self, a, last, &i))
        return -1;
    if (required && i < 0)
        return fy_tm_fail(m, "substring not found");
    *out = fy_tv_int(i);
    return 0;
}

METHOD(str_find)
{
    return find(m, self, a, false, false, out);
}

METHOD(str_rfind)
{
    return find(m, self, a, true, false, out);
}

METHOD(str_index)
{
    return find(m, self, a, false, true, out);
}

METHOD(str_rindex)
{
    return find(m, self, a, true, true, out);
}

METHOD(str_count)
{
    fy_span needle, s;
    int64_t start, n = 0;
    bool ok;
    if (fy_tv_text(m, "count()", &a->arg[0], &needle) || range_of(m, self->str, a, &s, &start, &ok))
        return -1;
    if (ok && needle.len == 0)
        n = (int64_t)fy_tu_length(s) + 1;
    for (ptrdiff_t at; ok && needle.len && (at = fy_tu_find(s, needle)) >= 0; n++)
        s = (fy_span){s.ptr + at + needle.len, s.len - (size_t)at - needle.len};
    *out = fy_tv_int(n);
    return 0;
}

/* Does s begin (or end) with the text, or with one of a tuple of texts? */
static int has_end(fy_tm *m, const fy_tv *self, const fy_targs *a, bool at_end, fy_tv *out)
{
    const char *what = at_end ? "endswith" : "startswith";
    fy_span s, text;
    int64_t start;
    bool ok, yes = false;
    if (range_of(m, self->str, a, &s, &start, &ok))
        return -1;
    bool tuple = fy_tv_is(&a->arg[0], FY_TV_TUPLE);
    const fy_tv *item = tuple ? a->arg[0].list->item : &a->arg[0];
    size_t n = tuple ? a->arg[0].list->n : 1;
    for (size_t i = 0; i < n && !yes; i++) {
        if (fy_tv_text(m, what, &item[i], &text) || fy_tm_charge(m, text.len + 16))
            return -1;
        yes = ok && text.len <= s.len &&
              fy_span_eq((fy_span){s.ptr + (at_end ? s.len - text.len : 0), text.len}, text);
    }
    *out = fy_tv_bool(yes);
    return 0;
}

METHOD(str_startswith)
{
    return has_end(m, self, a, false, out);
}

METHOD(str_endswith)
{
    return has_end(m, self, a, true, out);
}

/* --- split --------------------------------------------------------------------------------------
 */

/* Pieces of a text, in a list that grows. */
typedef struct {
    fy_tm *m;
    fy_tv *item;
    size_t n, cap;
    bool markup;
} pieces;

static int add_piece(pieces *p, const char *from, const char *to)
{
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 8;
        fy_tv *more =
            fy_tm_charge(p->m, cap * sizeof *more) ? NULL : fy_tm_alloc(p->m, cap * sizeof *more);
        if (!more)
            return -1;
        if (p->n)
            memcpy(more, p->item, p->n * sizeof *more);
        p->item = more;
        p->cap = cap;
    }
    fy_tv *v = &p->item[p->n++];
    *v = fy_tv_view((fy_span){from, (size_t)(to - from)});
    v->markup = p->markup;
    return 0;
}

static int finish(pieces *p, fy_tv_kind kind, bool reverse, fy_tv *out)
{
    if (fy_tv_list(p->m, kind, p->n, out))
        return -1;
    for (size_t i = 0; i < p->n; i++)
        out->list->item[i] = p->item[reverse ? p->n - 1 - i : i];
    return 0;
}

static int split_spaces(pieces *out, fy_span s, int64_t max)
{
    const char *p = s.ptr, *end = s.ptr + s.len;
    for (;;) {
        const char *next = p;
        while (p < end && fy_tu_is_space(fy_tu_next(&next, end)))
            p = next;
        if (p == end)
            return 0;
        if (max-- == 0)
            return add_piece(out, p, end);
        const char *word = p;
        for (next = p; p < end && !fy_tu_is_space(fy_tu_next(&next, end));)
            p = next;
        if (add_piece(out, word, p))
            return -1;
    }
}

static int rsplit_spaces(pieces *out, fy_span s, int64_t max)
{
    const char *begin = s.ptr, *p = s.ptr + s.len;
    for (;;) {
        const char *before = p;
        while (p > begin && fy_tu_is_space(fy_tu_prev(begin, &before)))
            p = before;
        if (p == begin)
            return 0;
        if (max-- == 0)
            return add_piece(out, begin, p);
        const char *word = p;
        for (before = p; p > begin && !fy_tu_is_space(fy_tu_prev(begin, &before));)
            p = before;
        if (add_piece(out, p, word))
            return -1;
    }
}

static int split_text(pieces *out, fy_span s, fy_span by, int64_t max)
{
    for (ptrdiff_t at; max != 0 && (at = fy_tu_find(s, by)) >= 0; max -= max > 0) {
        if (add_piece(out, s.ptr, s.ptr + at))
            return -1;
        s = (fy_span){s.ptr + at + by.len, s.len - (size_t)at - by.len};
    }
    return add_piece(out, s.ptr, s.ptr + s.len);
}

static int rsplit_text(pieces *out, fy_span s, fy_span by, int64_t max)
{
    for (ptrdiff_t at; max != 0; max -= max > 0) {
        if (find_last(out->m, s, by, &at))
            return -1;
        if (at < 0)
            break;
        if (add_piece(out, s.ptr + at + by.len, s.ptr + s.len))
            return -1;
        s.len = (size_t)at;
    }
    return add_piece(out, s.ptr, s.ptr + s.len);
}

static int split(fy_tm *m, const fy_tv *self, const fy_targs *a, bool from_end, fy_tv *out)
{
    static const char *const names[] = {"sep", "maxsplit"};
    fy_tv arg[2];
    bool given[2];
    int64_t max = -1;
    pieces p = {.m = m, .markup = self->markup};
    fy_span by;
    int failed;
    if (fy_targs_bind(m, from_end ? "rsplit" : "split", a, names, 2, 0, arg, given) ||
        (given[1] && fy_tv_index(m, &arg[1], &max)) || fy_tm_charge(m, self->str.len))
        return -1;
    if (!given[0] || fy_tv_is(&arg[0], FY_TV_NONE)) {
        failed = from_end ? rsplit_spaces(&p, self->str, max) : split_spaces(&p, self->str, max);
    } else {
        if (!fy_tv_is(&arg[0], FY_TV_STR))
            return fy_tm_fail(m, "must be str or None, not %s", fy_tv_type_name(&arg[0]));
        by = arg[0].str;
        if (by.len == 0)
            return fy_tm_fail(m, "empty separator");
        failed =
            from_end ? rsplit_text(&p, self->str, by, max) : split_text(&p, self->str, by, max);
    }
    return failed ? -1 : finish(&p, FY_TV_LIST, from_end, out);
}

METHOD(str_split)
{
    return split(m, self, a, false, out);
}

METHOD(str_rsplit)
{
    return split(m, self, a, true, out);
}

METHOD(str_splitlines)
{
    static const char *const names[] = {"keepends"};
    fy_tv keep;
    bool given;
    pieces p = {.m = m, .markup = self->markup};
    fy_span s = self->str;
    if (fy_targs_bind(m, "splitlines", a, names, 1, 0, &keep, &given) || fy_tm_charge(m, s.len))
        return -1;
    if (given && !fy_tv_is_int(&keep))
        return fy_tm_fail(m, "'%s' object cannot be interpreted as an integer",
                          fy_tv_type_name(&keep));
    for (size_t line = 0, at = 0; line < s.len; line = at) {
        size_t gap = 0;
        while (at < s.len && !(gap = fy_tu_line_end((fy_span){s.ptr + at, s.len - at})))
            at++;
        size_t end = fy_tv_truth(&keep) ? at + gap : at;
        if (add_piece(&p, s.ptr + line, s.ptr + end))
            return -1;
        at += gap;
    }
    return finish(&p, FY_TV_LIST, false, out);
}

static int partition(fy_tm *m, const fy_tv *self, const fy_targs *a, bool last, fy_tv *out)
{
    fy_span by, s = self->str;
    ptrdiff_t at;
    pieces p = {.m = m, .markup = self->markup};
    if (fy_tv_text(m, "partition()", &a->arg[0], &by) || fy_tm_charge(m, s.len))
        return -1;
    if (by.len == 0)
        return fy_tm_fail(m, "empty separator");
    at = fy_tu_find(s, by);
    if (last && find_last(m, s, by, &at))
        return -1;
    const char *end = s.ptr + s.len;
    const char *from = at >= 0 ? s.ptr + at : last ? s.ptr : end;
    const char *to = at >= 0 ? from + by.len : from;
    if (add_piece(&p, s.ptr, from) || add_piece(&p, from, to) || add_piece(&p, to, end))
        return -1;
    return finish(&p, FY_TV_TUPLE, false, out);
}

METHOD(str_partition)
{
    return partition(m, self, a, false, out);
}

METHOD(str_rpartition)
{
    return partition(m, self, a, true, out);
}

/* --- join ---------------------------------------------------------------------------------------
 */

METHOD(str_join)
{
    fy_tlist items;
    fy_tbuf b = {0};
    if (fy_tv_items(m, &a->arg[0], &items))
        return -1;
    for (size_t i = 0; i < items.n; i++) {
        fy_tv v = items.item[i];
        if (self->markup ? fy_tv_soft_str(m, &v, &v) : !fy_tv_is(&v, FY_TV_STR))
            return fy_tm_fail(m, "sequence item %zu: expected str instance, %s found", i,
                              fy_tv_type_name(&v));
        if ((i && fy_tbuf_span(m, &b, self->str)) ||
            (self->markup && !v.markup ? fy_tu_put_escaped(m, &b, v.str)
                                       : fy_tbuf_span(m, &b, v.str)))
            return -1;
    }
    *out = fy_tbuf_value(&b, self->markup);
    return 0;
}

const fy_tmethod fy_tmethods_search[] = {
    {"find", 1, 3, str_find},
    {"rfind", 1, 3, str_rfind},
    {"index", 1, 3, str_index},
    {"rindex", 1, 3, str_rindex},
    {"count", 1, 3, str_count},
    {"startswith", 1, 3, str_startswith},
    {"endswith", 1, 3, str_endswith},
    {"split", FY_TMETHOD_OWN, 0, str_split},
    {"rsplit", FY_TMETHOD_OWN, 0, str_rsplit},
    {"splitlines", FY_TMETHOD_OWN, 0, str_splitlines},
    {"partition", 1, 1, str_partition},
    {"rpartition", 1, 1, str_rpartition},
    {"join", 1, 1, str_join},
    {NULL, 0, 0, NULL},
};
