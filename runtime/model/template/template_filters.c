/* The filters. Those of text take a value that is not a string as str(value). What jinja2 returns
 * as a generator is computed at once, as an ITER: an error in one that nobody reads is an error all
 * the same. Those that compare ignore the case of strings unless told otherwise, as in jinja2. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template.h"
#include "model/template/template_eval.h"

/* --- any value --- */

static FY_BUILTIN(filter_default)
{
    bool use = v->kind == FY_TV_UNDEFINED || (fy_tv_truth(&a->arg[1]) && !fy_tv_truth(v));
    return !use ? *v : fy_targ_absent(&a->arg[0]) ? fy_tv_view(FY_SPAN("")) : a->arg[0];
}

static FY_BUILTIN(filter_length)
{
    return fy_tv_int((int64_t)fy_tv_length(m, v));
}

static FY_BUILTIN(filter_string)
{
    return fy_tv_soft_str(m, v);
}

/* --- text --- */

static bool begins_word(uint32_t cp)
{
    return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || fy_tu_is_space(cp);
}

/* Unlike str.title(), jinja2 ends words at white space, '-' and opening brackets only. */
static FY_BUILTIN(filter_title)
{
    fy_span s = fy_tv_soft_str(m, v).str;
    fy_tbuf b = {.m = m};
    for (const char *p = s.ptr, *end = p + s.len; p < end && fy_tm_ok(m);) {
        const char *first = p;
        bool separator = begins_word(fy_tu_next(&p, end));
        const char *rest = p;
        for (const char *next = p; !separator && p < end; p = next) {
            if (begins_word(fy_tu_next(&next, end)))
                break;
        }
        fy_tu_put_case(&b, (fy_span){first, (size_t)(rest - first)}, FY_TU_UPPER);
        fy_tu_put_case(&b, (fy_span){rest, (size_t)(p - rest)}, FY_TU_LOWER);
    }
    return fy_tbuf_value(&b, false);
}

static FY_BUILTIN(filter_replace)
{
    fy_span s = fy_tv_str(m, v).str;
    fy_span from = fy_tv_str(m, &a->arg[0]).str, to = fy_tv_str(m, &a->arg[1]).str;
    fy_tbuf b = {.m = m};
    fy_tu_replace(&b, s, from, to, fy_targ_given(&a->arg[2]) ? fy_tv_index(m, &a->arg[2]) : -1);
    return fy_tbuf_value(&b, false);
}

static FY_BUILTIN(filter_format)
{
    if (a->n_named > 0)
        return fy_tm_fail(m, "format: keyword arguments are not supported");
    fy_tv s = fy_tv_soft_str(m, v), values = fy_tv_list(m, FY_TV_TUPLE, a->n);
    for (size_t i = 0; i < a->n; i++)
        fy_tlist_add(m, values.list, a->arg[i]);
    return fy_tv_percent(m, &s, &values);
}

static FY_BUILTIN(filter_indent)
{
    const fy_tv *width = &a->arg[0];
    fy_tbuf b = {.m = m}, text = {.m = m}, spaces = {.m = m};
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind != FY_TV_STR)
        return fy_tm_fail(m, "indent: a string is expected, found '%s'", fy_tv_type_name(v));
    bool own = width->kind == FY_TV_STR, first = fy_tv_truth(&a->arg[1]);
    int64_t n = own ? 0 : fy_targ_absent(width) ? 4 : fy_tv_index(m, width);
    fy_tu_repeat(&spaces, FY_SPAN(" "), n > 0 ? (uint64_t)n : 0);
    fy_span by = own ? width->str : fy_tbuf_value(&spaces, false).str;
    fy_tbuf_span(&text, v->str);
    fy_tbuf_z(&text, "\n");
    for (size_t at = 0, line = 0; at < text.len && fy_tm_charge(m, by.len + 16); line++) {
        size_t end = at, gap;
        while ((gap = fy_tu_line_end((fy_span){text.ptr + end, text.len - end})) == 0)
            end++;
        if (line > 0)
            fy_tbuf_z(&b, "\n");
        if (line == 0 ? first : end > at || fy_tv_truth(&a->arg[2]))
            fy_tbuf_span(&b, by);
        fy_tbuf_add(&b, text.ptr + at, end - at);
        at = end + gap;
    }
    return fy_tbuf_value(&b, v->markup);
}

enum { KEEP_MARKUP = 1 };

static FY_BUILTIN(filter_escape)
{
    fy_tbuf b = {.m = m};
    fy_tv s = fy_tv_soft_str(m, v);
    if (s.markup && f->variant == KEEP_MARKUP)
        return s;
    fy_tu_put_escaped(&b, s.str);
    return fy_tbuf_value(&b, true);
}

static FY_BUILTIN(filter_safe)
{
    fy_tv s = fy_tv_str(m, v);
    s.markup = true;
    return s;
}

/* --- numbers --- */

static FY_BUILTIN(filter_abs)
{
    if (v->kind == FY_TV_FLOAT)
        return fy_tv_float(fabs(v->f));
    if (!fy_tv_is_int(v) || fy_tv_as_int(v) == INT64_MIN)
        return fy_tm_fail(m, "bad operand type for abs(): '%s'", fy_tv_type_name(v));
    return fy_tv_int(llabs(fy_tv_as_int(v)));
}

enum { NUMBER = 400 }; /* characters of a number as text */

/* The text of a number: without the white space around it and single underscores between digits.
 * False: too long, or cannot be one. */
static bool number_text(fy_span s, char out[NUMBER])
{
    size_t n = 0;
    s = fy_text_strip(s);
    for (size_t i = 0; i < s.len; i++) {
        bool inside = i > 0 && i + 1 < s.len && isalnum((unsigned char)s.ptr[i - 1]) &&
                      isalnum((unsigned char)s.ptr[i + 1]);
        if (s.ptr[i] == '_' && inside)
            continue;
        if (n == NUMBER - 1 || s.ptr[i] <= ' ' || s.ptr[i] == '_' || s.ptr[i] > '~')
            return false;
        out[n++] = s.ptr[i];
    }
    out[n] = '\0';
    return n > 0;
}

static bool parse_float(fy_span s, double *out)
{
    char text[NUMBER], *end;
    if (!number_text(s, text) || strpbrk(text, "xXpP(") != NULL) /* C reads more than Python */
        return false;
    *out = strtod(text, &end);
    return *end == '\0';
}

static fy_tv too_large(fy_tm *m)
{
    return fy_tm_fail(m, "an integer of more than 64 bits is not supported");
}

static fy_tv int_of_float(fy_tm *m, double f)
{
    return fabs(f) < 0x1p63 ? fy_tv_int((int64_t)f) : too_large(m);
}

/* int(text, base). False: the text is not a number. */
static bool parse_int(fy_tm *m, fy_span s, int64_t base, fy_tv *out)
{
    char text[NUMBER], *p = text, *end;
    if (base < 2 || base > 36 || !number_text(s, text))
        return false;
    char letter = base == 2 ? 'b' : base == 8 ? 'o' : base == 16 ? 'x' : '\0';
    size_t sign = *p == '-' || *p == '+';
    if (letter != '\0' && p[sign] == '0' && (p[sign + 1] | 0x20) == letter) {
        p[sign + 1] = *p; /* "-0b1" -> "-1" */
        p += sign + (sign != 0 ? 1 : 2);
    }
    if (!isalnum((unsigned char)p[*p == '-' || *p == '+']))
        return false;
    errno = 0;
    long long i = strtoll(p, &end, (int)base);
    if (*end != '\0')
        return false;
    *out = errno == ERANGE ? too_large(m) : fy_tv_int(i);
    return true;
}

static FY_BUILTIN(filter_int)
{
    fy_tv out;
    double x;
    int64_t base = fy_targ_given(&a->arg[1]) ? fy_tv_index(m, &a->arg[1]) : 10;
    if (base == 0)
        return fy_tm_fail(m, "int: base 0 is not supported");
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind == FY_TV_STR && parse_int(m, v->str, base, &out))
        return out;
    if (v->kind == FY_TV_STR && parse_float(v->str, &x) && isfinite(x))
        return int_of_float(m, x);
    if (v->kind == FY_TV_FLOAT && !isnan(v->f))
        return int_of_float(m, v->f);
    return fy_tv_is_int(v)              ? fy_tv_int(fy_tv_as_int(v))
           : v->kind == FY_TV_BIGINT    ? *v
           : fy_targ_absent(&a->arg[0]) ? fy_tv_int(0)
                                        : a->arg[0];
}

static FY_BUILTIN(filter_float)
{
    double x;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind == FY_TV_BIGINT)
        return too_large(m);
    if (v->kind == FY_TV_STR ? parse_float(v->str, &x) : fy_tv_as_float(v, &x))
        return fy_tv_float(x);
    return fy_targ_absent(&a->arg[0]) ? fy_tv_float(0) : a->arg[0];
}

/* To so many digits after the point; ties by the exact value to even, as C prints them. */
static double round_digits(double f, int64_t digits)
{
    char text[NUMBER + 320];
    if (!isfinite(f) || digits > 300)
        return f;
    if (digits < 0) {
        double unit = digits < -308 ? INFINITY : pow(10, (double)-digits);
        return isinf(unit) ? 0.0 * f : rint(f / unit) * unit;
    }
    snprintf(text, sizeof text, "%.*f", (int)digits, f);
    return strtod(text, NULL);
}

/* method: "common", "ceil" or "floor". */
static FY_BUILTIN(filter_round)
{
    double x;
    int64_t digits = fy_targ_given(&a->arg[0]) ? fy_tv_index(m, &a->arg[0]) : 0;
    fy_span method = fy_targ_absent(&a->arg[1])    ? FY_SPAN("common")
                     : a->arg[1].kind == FY_TV_STR ? a->arg[1].str
                                                   : FY_SPAN("");
    bool common = fy_span_is(method, "common"), up = fy_span_is(method, "ceil");
    if (!common && !up && !fy_span_is(method, "floor"))
        return fy_tm_fail(m, "method must be common, ceil or floor");
    if (!fy_tv_as_float(v, &x))
        return fy_tm_fail(m, "type %s doesn't define __round__ method", fy_tv_type_name(v));
    if (common && fy_tv_is_int(v))
        return digits >= 0 ? fy_tv_int(fy_tv_as_int(v)) : int_of_float(m, round_digits(x, digits));
    if (common)
        return fy_tv_float(round_digits(x, digits));
    double scale = pow(10, (double)digits);
    return fy_tv_float(((up ? ceil(x * scale) : floor(x * scale)) + 0.0) / scale); /* no -0 */
}

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
static fy_tv get_path(fy_tm *m, const fy_tv *attribute, const fy_tv *item, const fy_tv *missing)
{
    fy_tv v = *item;
    bool text = attribute->kind == FY_TV_STR;
    fy_span path = text ? attribute->str : (fy_span){0};
    bool more = fy_targ_given(attribute);
    while (more && fy_tm_charge(m, 16)) {
        ptrdiff_t dot = fy_tu_find(path, FY_SPAN("."));
        fy_span part = {path.ptr, dot >= 0 ? (size_t)dot : path.len};
        fy_tv key = text ? key_of_part(part) : *attribute;
        v = fy_tv_getitem(m, &v, &key);
        if (missing != NULL && v.kind == FY_TV_UNDEFINED)
            v = *missing;
        more = text && dot >= 0;
        if (more)
            path = (fy_span){path.ptr + dot + 1, path.len - (size_t)dot - 1};
    }
    return v;
}

/* The values at `attribute`, strings in lower case unless case matters. */
static fy_tlist *keys_of(fy_tm *m, const fy_tlist *items, const fy_tv *attribute,
                         const fy_tv *case_sensitive)
{
    fy_tv keys = fy_tv_list(m, FY_TV_LIST, items->n);
    for (size_t i = 0; i < items->n && fy_tm_ok(m); i++) {
        fy_tv key = get_path(m, attribute, &items->item[i], NULL);
        fy_tbuf b = {.m = m};
        if (key.kind == FY_TV_STR && !fy_tv_truth(case_sensitive)) {
            fy_tu_put_case(&b, key.str, FY_TU_LOWER);
            key = fy_tbuf_value(&b, key.markup);
        }
        fy_tlist_add(m, keys.list, key);
    }
    return keys.list;
}

/* --- whole sequences --- */

/* A list of items[from..to) and `fill` more times `with`. */
static fy_tv part_of(fy_tm *m, fy_tv_kind kind, const fy_tlist *items, size_t from, size_t to,
                     size_t fill, const fy_tv *with)
{
    fy_tv out = fy_tv_list(m, kind, to - from + fill);
    for (size_t i = from; i < to + fill && fy_tm_ok(m); i++)
        fy_tlist_add(m, out.list, i < to ? items->item[i] : *with);
    return out;
}

static FY_BUILTIN(filter_list)
{
    fy_tlist items = fy_tv_items(m, v);
    return part_of(m, FY_TV_LIST, &items, 0, items.n, 0, NULL);
}

static FY_BUILTIN(filter_items)
{
    fy_tv out = fy_tv_list(m, FY_TV_ITER, v->kind == FY_TV_DICT ? v->dict->n : 0);
    if (v->kind != FY_TV_DICT && v->kind != FY_TV_UNDEFINED)
        return fy_tm_fail(m, "Can only get item pairs from a mapping.");
    for (size_t i = 0; v->kind == FY_TV_DICT && i < v->dict->n && fy_tm_ok(m); i++)
        fy_tlist_add(m, out.list, fy_tv_pair(m, v->dict->items[i].key, v->dict->items[i].value));
    return out;
}

static FY_BUILTIN(filter_first)
{
    fy_titer it = fy_titer_begin(m, v);
    fy_tv first;
    return fy_titer_next(&it, &first) ? first
                                      : fy_tv_hint(FY_SPAN("No first item, sequence was empty."));
}

static FY_BUILTIN(filter_last)
{
    if (v->kind == FY_TV_ITER)
        return fy_tm_fail(m, "'%s' object is not reversible", fy_tv_type_name(v));
    fy_tlist items = fy_tv_items(m, v);
    return items.n > 0 ? items.item[items.n - 1]
                       : fy_tv_hint(FY_SPAN("No last item, sequence was empty."));
}

static FY_BUILTIN(filter_reverse)
{
    fy_tlist items = fy_tv_items(m, v);
    fy_tbuf b = {.m = m};
    fy_tv out = fy_tv_list(m, v->kind == FY_TV_ITER ? FY_TV_LIST : FY_TV_ITER, items.n);
    for (size_t i = items.n; i > 0 && fy_tm_ok(m); i--) {
        fy_tlist_add(m, out.list, items.item[i - 1]);
        if (v->kind == FY_TV_STR)
            fy_tbuf_span(&b, items.item[i - 1].str);
    }
    return v->kind == FY_TV_STR ? fy_tbuf_value(&b, v->markup) : out;
}

/* batch: lists of `size` items; slice: so many lists, the first ones longer by one. */
static FY_BUILTIN(filter_split)
{
    bool batch = f->variant;
    fy_tlist items = fy_tv_items(m, v);
    int64_t count = fy_tv_index(m, &a->arg[0]);
    if (count < 1)
        return fy_tm_fail(m, "%s: expected a count of 1 or more, found %lld", f->name,
                          (long long)count);
    uint64_t size = (uint64_t)count, per_list = items.n / size, rest = items.n % size;
    uint64_t lists = batch ? per_list + (rest > 0) : size;
    fy_tv out = fy_tv_list(m, FY_TV_ITER, lists);
    for (size_t k = 0, from = 0; k < lists && fy_tm_ok(m); k++) {
        uint64_t left = items.n - from, full = batch ? size : per_list + (rest > 0);
        uint64_t some = batch ? (left < size ? left : size) : per_list + (k < rest);
        size_t fill = fy_targ_given(&a->arg[1]) ? full - some : 0;
        fy_tlist_add(m, out.list,
                     part_of(m, FY_TV_LIST, &items, from, from + some, fill, &a->arg[1]));
        from += some;
    }
    return out;
}

static FY_BUILTIN(filter_join)
{
    fy_span separator = fy_tv_str(m, &a->arg[0]).str;
    fy_tlist items = fy_tv_items(m, v);
    fy_tbuf b = {.m = m};
    for (size_t i = 0; i < items.n && fy_tm_ok(m); i++) {
        fy_tv item = get_path(m, &a->arg[1], &items.item[i], NULL);
        if (i > 0)
            fy_tbuf_span(&b, separator);
        fy_tbuf_str(&b, &item);
    }
    return fy_tbuf_value(&b, false);
}

static FY_BUILTIN(filter_sum)
{
    fy_tlist items = fy_tv_items(m, v);
    fy_tv total = fy_targ_given(&a->arg[1]) ? a->arg[1] : fy_tv_int(0);
    if (total.kind == FY_TV_STR)
        return fy_tm_fail(m, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < items.n && fy_tm_ok(m); i++) {
        fy_tv item = get_path(m, &a->arg[0], &items.item[i], NULL);
        total = fy_tv_binary(m, FY_OP_ADD, &total, &item);
    }
    return total;
}

/* --- map, select, reject --- */

/* The filter or test that the first `n` arguments name last, and the arguments after it. NULL:
 * error. */
static const fy_tbuiltin *named_builtin(fy_tm *m, const char *what, const fy_targs *a, size_t n,
                                        fy_targs *rest)
{
    const fy_tv *name = &a->arg[n - 1];
    bool filter = what[0] == 'f';
    *rest = *a;
    rest->arg += n;
    rest->n -= n;
    if (name->kind != FY_TV_STR) {
        fy_tm_fail(m, "the name of a %s must be str, not %s", what, fy_tv_type_name(name));
        return NULL;
    }
    const fy_tbuiltin *f = filter ? fy_tfilter_find(name->str) : fy_ttest_find(name->str);
    if (f == NULL && (filter ? fy_tfilter_is_refused(name->str) : fy_ttest_is_refused(name->str)))
        fy_tm_fail(m, "%s '%.*s' is not supported", what, FY_TSHOWN(name->str));
    else if (f == NULL)
        fy_tm_fail(m, "No %s named '%.*s'.", what, FY_TSHOWN(name->str));
    return f;
}

static FY_BUILTIN(map_attribute)
{
    fy_tlist items = fy_tv_items(m, v);
    fy_tv out = fy_tv_list(m, FY_TV_ITER, items.n);
    const fy_tv *missing = fy_targ_given(&a->arg[1]) ? &a->arg[1] : NULL;
    for (size_t i = 0; i < items.n && fy_tm_ok(m); i++)
        fy_tlist_add(m, out.list, get_path(m, &a->arg[0], &items.item[i], missing));
    return out;
}

static FY_BUILTIN(filter_map)
{
    static const fy_tbuiltin by_attribute = {"map", "attribute ?default", map_attribute, 0};
    fy_targs rest;
    if (!fy_tv_truth(v))
        return fy_tv_list(m, FY_TV_ITER, 0);
    if (a->n == 0 && a->n_named == 0)
        return fy_tm_fail(m, "map requires a filter argument");
    if (a->n == 0)
        return fy_tbuiltin_run(m, &by_attribute, v, a);
    fy_tlist items = fy_tv_items(m, v);
    fy_tv out = fy_tv_list(m, FY_TV_ITER, items.n);
    const fy_tbuiltin *of = named_builtin(m, "filter", a, 1, &rest);
    for (size_t i = 0; i < items.n && fy_tm_charge(m, 16); i++)
        fy_tlist_add(m, out.list, fy_tbuiltin_run(m, of, &items.item[i], &rest));
    return out;
}

enum { SELECT = 1, BY_ATTRIBUTE = 2 };

/* Keeps the items for which a test of them (or of their attribute), or their truth, equals `keep`.
 */
static FY_BUILTIN(filter_select)
{
    bool keep = f->variant & SELECT, by_attribute = f->variant & BY_ATTRIBUTE;
    fy_tv none = fy_tv_none();
    fy_targs rest;
    if (!fy_tv_truth(v))
        return fy_tv_list(m, FY_TV_ITER, 0);
    if (a->n < by_attribute)
        return fy_tm_fail(m, "Missing parameter for attribute name");
    fy_tlist items = fy_tv_items(m, v);
    fy_tv out = fy_tv_list(m, FY_TV_ITER, items.n);
    const fy_tbuiltin *test =
        a->n > by_attribute ? named_builtin(m, "test", a, 1 + by_attribute, &rest) : NULL;
    for (size_t i = 0; i < items.n && fy_tm_charge(m, 16); i++) {
        fy_tv yes = get_path(m, by_attribute ? &a->arg[0] : &none, &items.item[i], NULL);
        if (test != NULL)
            yes = fy_tbuiltin_run(m, test, &yes, &rest);
        if (fy_tv_truth(&yes) == keep)
            fy_tlist_add(m, out.list, items.item[i]);
    }
    return out;
}

/* --- comparing --- */

/* Does key i go before the earlier key j? Asked with '<' only, as Python's sort does. */
static bool comes_first(fy_tm *m, const fy_tlist *keys, size_t i, size_t j, bool reverse,
                        fy_tcompare *compare)
{
    const fy_tv *x = &keys->item[reverse ? j : i], *y = &keys->item[reverse ? i : j];
    return fy_tm_charge(m, 16) && compare(m, x, y) < 0;
}

/* Bottom-up merge sort; on equal keys the earlier one stays first, also in reverse. */
size_t *fy_tlist_order(fy_tm *m, const fy_tlist *keys, bool reverse, fy_tcompare *compare)
{
    size_t n = keys->n, *from = fy_tm_alloc(m, n * 2 * sizeof *from);
    size_t *to = from != NULL ? from + n : NULL;
    for (size_t i = 0; from != NULL && i < n; i++)
        from[i] = i;
    for (size_t width = 1; from != NULL && width < n && fy_tm_charge(m, n); width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t mid = low + width < n ? low + width : n;
            size_t high = mid + width < n ? mid + width : n;
            for (size_t a = low, b = mid, k = low; k < high; k++) {
                bool second = a == mid || (b < high && comes_first(m, keys, from[b], from[a],
                                                                   reverse, compare));
                to[k] = second ? from[b++] : from[a++];
            }
        }
        size_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static fy_tv sorted(fy_tm *m, const fy_tlist *items, const fy_tlist *keys, const fy_tv *reverse,
                    fy_tcompare *compare)
{
    fy_tv out = fy_tv_list(m, FY_TV_LIST, items->n);
    const size_t *order = fy_tlist_order(m, keys, fy_tv_truth(reverse), compare);
    for (size_t i = 0; i < items->n && fy_tm_ok(m); i++)
        fy_tlist_add(m, out.list, items->item[order[i]]);
    return out;
}

/* Equal values need not have an order: [none, none] can be sorted. */
static int compare_keys(fy_tm *m, const fy_tv *a, const fy_tv *b)
{
    return fy_tv_equal(m, a, b) ? 0 : fy_tv_compare(m, a, b);
}

static FY_BUILTIN(filter_sort)
{
    const fy_tv *attribute = &a->arg[2];
    fy_tlist items = fy_tv_items(m, v);
    if (attribute->kind == FY_TV_STR && fy_tu_find(attribute->str, FY_SPAN(",")) >= 0)
        return fy_tm_fail(m, "sort: several attributes are not supported");
    const fy_tlist *keys = keys_of(m, &items, attribute, &a->arg[1]);
    return sorted(m, &items, keys, &a->arg[0], compare_keys);
}

static FY_BUILTIN(filter_dictsort)
{
    const fy_tv *by = &a->arg[1];
    fy_span column = by->kind == FY_TV_STR ? by->str : FY_SPAN("");
    bool by_value = fy_span_is(column, "value");
    if (fy_targ_given(by) && !by_value && !fy_span_is(column, "key"))
        return fy_tm_fail(m, "You can only sort by either \"key\" or \"value\"");
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind != FY_TV_DICT)
        return fy_tm_fail(m, "'%s' object has no attribute 'items'", fy_tv_type_name(v));
    fy_tv index = fy_tv_int(by_value), items = filter_items(m, f, v, a);
    const fy_tlist *keys = keys_of(m, items.list, &index, &a->arg[0]);
    return sorted(m, items.list, keys, &a->arg[2], fy_tv_compare);
}

static FY_BUILTIN(filter_unique)
{
    fy_tlist items = fy_tv_items(m, v);
    const fy_tlist *keys = keys_of(m, &items, &a->arg[1], &a->arg[0]);
    fy_tv seen = fy_tv_dict(m, FY_TV_DICT, items.n), out = fy_tv_list(m, FY_TV_ITER, items.n);
    for (size_t i = 0; i < items.n && fy_tm_ok(m); i++) {
        fy_tdict_set(m, seen.dict, keys->item[i], fy_tv_none());
        if (seen.dict->n > out.list->n)
            fy_tlist_add(m, out.list, items.item[i]);
    }
    return out;
}

/* The first item whose key is least or greatest. */
static FY_BUILTIN(filter_extreme)
{
    fy_tlist items = fy_tv_items(m, v);
    const fy_tlist *keys = keys_of(m, &items, &a->arg[1], &a->arg[0]);
    size_t best = 0;
    for (size_t i = 1; i < items.n && fy_tm_ok(m); i++) {
        if (comes_first(m, keys, i, best, f->variant, fy_tv_compare))
            best = i;
    }
    return items.n > 0 ? items.item[best]
                       : fy_tv_hint(FY_SPAN("No aggregated item, sequence was empty."));
}

/* --- the table --- */

const fy_tbuiltin *fy_tfilter_find(fy_span name)
{
    static const fy_tbuiltin filters[] = {
        {"abs", "/", filter_abs, 0},
        {"batch", "linecount ?fill_with", filter_split, true},
        {"capitalize", "/", fy_tstr_case, FY_TU_CAPITALIZE},
        {"count", "/", filter_length, 0},
        {"d", "?default_value ?boolean", filter_default, 0},
        {"default", "?default_value ?boolean", filter_default, 0},
        {"dictsort", "?case_sensitive ?by ?reverse", filter_dictsort, 0},
        {"e", "/", filter_escape, KEEP_MARKUP},
        {"escape", "/", filter_escape, KEEP_MARKUP},
        {"first", "/", filter_first, 0},
        {"float", "?default", filter_float, 0},
        {"forceescape", "/", filter_escape, 0},
        {"format", NULL, filter_format, 0},
        {"indent", "?width ?first ?blank", filter_indent, 0},
        {"int", "?default ?base", filter_int, 0},
        {"items", "/", filter_items, 0},
        {"join", "?d ?attribute", filter_join, 0},
        {"last", "/", filter_last, 0},
        {"length", "/", filter_length, 0},
        {"list", "/", filter_list, 0},
        {"lower", "/", fy_tstr_case, FY_TU_LOWER},
        {"map", NULL, filter_map, 0},
        {"max", "?case_sensitive ?attribute", filter_extreme, true},
        {"min", "?case_sensitive ?attribute", filter_extreme, false},
        {"reject", NULL, filter_select, 0},
        {"rejectattr", NULL, filter_select, BY_ATTRIBUTE},
        {"replace", "old new ?count", filter_replace, 0},
        {"reverse", "/", filter_reverse, 0},
        {"round", "?precision ?method", filter_round, 0},
        {"safe", "/", filter_safe, 0},
        {"select", NULL, filter_select, SELECT},
        {"selectattr", NULL, filter_select, SELECT | BY_ATTRIBUTE},
        {"slice", "slices ?fill_with", filter_split, false},
        {"sort", "?reverse ?case_sensitive ?attribute", filter_sort, 0},
        {"string", "/", filter_string, 0},
        {"sum", "?attribute ?start", filter_sum, 0},
        {"title", "/", filter_title, 0},
        {"tojson", "?ensure_ascii ?indent ?separators ?sort_keys", fy_tfilter_tojson, 0},
        {"trim", "?chars", fy_tstr_strip, FY_TU_STRIP_BOTH},
        {"unique", "?case_sensitive ?attribute", filter_unique, 0},
        {"upper", "/", fy_tstr_case, FY_TU_UPPER},
        {NULL, NULL, NULL, 0},
    };
    return fy_tbuiltin_find(filters, name);
}

bool fy_tfilter_is_refused(fy_span name)
{
    return fy_tword_is_in(name, "attr center filesizeformat groupby pprint random striptags "
                                "truncate urlencode urlize wordcount wordwrap xmlattr");
}
