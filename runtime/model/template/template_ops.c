#include "model/template/template_builtin.h"
#include "model/template/template_eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- numbers ---------------------------------------------------------------------------------- */

static bool is_number(const fy_tv *v)
{
    return v->kind == FY_TV_INT || v->kind == FY_TV_BOOL || v->kind == FY_TV_FLOAT;
}

static int order_of_ints(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* Exact, as Python compares: the double is never rounded to, nor the int. NaN comes out as greater.
 */
static int order_int_float(int64_t i, double f)
{
    if (f >= 0x1p63)
        return -1;
    if (!(f >= -0x1p63))
        return 1;
    int64_t whole = (int64_t)f;
    if (i != whole)
        return i < whole ? -1 : 1;
    double rest = f - (double)whole;
    return rest > 0 ? -1 : rest < 0;
}

static int order_of_numbers(const fy_tv *a, const fy_tv *b)
{
    int64_t i = a->kind == FY_TV_BOOL ? a->b : a->i, j = b->kind == FY_TV_BOOL ? b->b : b->i;
    if (a->kind == FY_TV_FLOAT && b->kind == FY_TV_FLOAT)
        return a->f < b->f ? -1 : !(a->f == b->f);
    if (a->kind == FY_TV_FLOAT)
        return isnan(a->f) ? 1 : -order_int_float(j, a->f);
    if (b->kind == FY_TV_FLOAT)
        return order_int_float(i, b->f);
    return order_of_ints(i, j);
}

/* A float that is a whole number beyond 64 bits, against the digits of one. */
static bool bigint_equals(fy_span digits, double f)
{
    char text[400];
    return isfinite(f) && f == trunc(f) && snprintf(text, sizeof text, "%.0f", f) > 0 &&
           fy_span_is(digits, text);
}

/* --- equality --------------------------------------------------------------------------------- */

static bool equal_items(fy_tm *m, const fy_tv *a, const fy_tv *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!fy_tv_equal(m, &a[i], &b[i]))
            return false;
    }
    return true;
}

static bool equal_dicts(fy_tm *m, const fy_tdict *a, const fy_tdict *b)
{
    if (fy_tdict_n(a) != fy_tdict_n(b))
        return false;
    for (size_t i = 0; i < fy_tdict_n(a); i++) {
        fy_tv other;
        if (fy_tdict_lookup(m, b, fy_tdict_key(a, i), &other) != 1 ||
            !fy_tv_equal(m, fy_tdict_at(a, i), &other))
            return false;
    }
    return true;
}

/* Keys and items are sets. */
static bool equal_views(fy_tm *m, const fy_tv *a, const fy_tv *b)
{
    if (a->view == 'v' || b->view == 'v')
        return a->list == b->list;
    if (a->list->n != b->list->n)
        return false;
    for (size_t i = 0; i < a->list->n; i++) {
        bool found;
        if (fy_tv_contains(m, &a->list->item[i], b, &found) != 0 || !found)
            return false;
    }
    return true;
}

static bool equal_ranges(const fy_trange *a, const fy_trange *b)
{
    return a->n == b->n && (a->n == 0 || a->start == b->start) && (a->n <= 1 || a->step == b->step);
}

static bool equal_same_kind(fy_tm *m, const fy_tv *a, const fy_tv *b)
{
    switch ((fy_tv_kind)a->kind) {
    case FY_TV_UNDEFINED:
    case FY_TV_NONE:
        return true;
    case FY_TV_STR:
    case FY_TV_BIGINT:
        return fy_span_eq(a->str, b->str);
    case FY_TV_LIST:
    case FY_TV_TUPLE:
        return a->list->n == b->list->n && equal_items(m, a->list->item, b->list->item, a->list->n);
    case FY_TV_DICT:
        return equal_dicts(m, a->dict, b->dict);
    case FY_TV_VIEW:
        return equal_views(m, a, b);
    case FY_TV_RANGE:
        return equal_ranges(a->range, b->range);
    case FY_TV_BOOL:
    case FY_TV_INT:
    case FY_TV_FLOAT:
    case FY_TV_ITER:
    case FY_TV_NAMESPACE:
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        break;
    }
    return a->call == b->call;
}

static int too_deep(fy_tm *m)
{
    return fy_tm_fail(m, "values nested deeper than %d levels", FY_TV_MAX_DEPTH);
}

bool fy_tv_equal(fy_tm *m, const fy_tv *a, const fy_tv *b)
{
    if (is_number(a) && is_number(b))
        return order_of_numbers(a, b) == 0;
    if (a->kind == FY_TV_BIGINT && b->kind == FY_TV_FLOAT)
        return bigint_equals(a->str, b->f);
    if (b->kind == FY_TV_BIGINT && a->kind == FY_TV_FLOAT)
        return bigint_equals(b->str, a->f);
    if (a->kind != b->kind)
        return false;
    if (fy_tm_charge(m, a->kind == FY_TV_STR ? 16 + a->str.len : 16) != 0)
        return false;
    if (m->depth >= FY_TV_MAX_DEPTH) {
        too_deep(m);
        return false;
    }
    m->depth++;
    bool equal = equal_same_kind(m, a, b);
    m->depth--;
    return equal && m->e->code == FY_OK;
}

/* --- order ------------------------------------------------------------------------------------ */

static int order_of_spans(fy_span a, fy_span b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;
    return c != 0 ? c : a.len < b.len ? -1 : a.len > b.len;
}

static int compare_as(fy_tm *m, const fy_tv *a, const fy_tv *b, const char *op, int *order);

static int compare_lists(fy_tm *m, const fy_tlist *a, const fy_tlist *b, const char *op, int *order)
{
    size_t n = a->n < b->n ? a->n : b->n, i = 0;
    while (i < n && fy_tv_equal(m, &a->item[i], &b->item[i]))
        i++;
    if (m->e->code != FY_OK)
        return -1;
    if (i < n)
        return compare_as(m, &a->item[i], &b->item[i], op, order);
    *order = a->n < b->n ? -1 : a->n > b->n;
    return 0;
}

static int compare_as(fy_tm *m, const fy_tv *a, const fy_tv *b, const char *op, int *order)
{
    if (is_number(a) && is_number(b)) {
        *order = order_of_numbers(a, b);
        return 0;
    }
    if (a->kind == FY_TV_STR && b->kind == FY_TV_STR) {
        *order = order_of_spans(a->str, b->str);
        return fy_tm_charge(m, 16 + (a->str.len < b->str.len ? a->str.len : b->str.len));
    }
    if (a->kind == b->kind && (a->kind == FY_TV_LIST || a->kind == FY_TV_TUPLE)) {
        if (m->depth >= FY_TV_MAX_DEPTH)
            return too_deep(m);
        m->depth++;
        int rc = compare_lists(m, a->list, b->list, op, order);
        m->depth--;
        return rc;
    }
    if (a->kind == FY_TV_UNDEFINED || b->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, a->kind == FY_TV_UNDEFINED ? a : b);
    if (a->kind == FY_TV_BIGINT || b->kind == FY_TV_BIGINT)
        return fy_tm_fail(m, "'%s': integers beyond 64 bits have no order here", op);
    return fy_tm_fail(m, "'%s' not supported between instances of '%s' and '%s'", op,
                      fy_tv_type_name(a), fy_tv_type_name(b));
}

int fy_tv_compare(fy_tm *m, const fy_tv *a, const fy_tv *b, int *order)
{
    return compare_as(m, a, b, "<", order);
}

static bool is_nan(const fy_tv *v)
{
    return v->kind == FY_TV_FLOAT && isnan(v->f);
}

int fy_tv_relate(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b, bool *out)
{
    static const char *const signs[] = {
        [FY_OP_LT] = "<", [FY_OP_LE] = "<=", [FY_OP_GT] = ">", [FY_OP_GE] = ">="};
    int order = 0;
    if (op == FY_OP_IN || op == FY_OP_NOT_IN) {
        if (fy_tv_contains(m, a, b, out) != 0)
            return -1;
        *out = *out == (op == FY_OP_IN);
        return 0;
    }
    if (op == FY_OP_EQ || op == FY_OP_NE) {
        *out = fy_tv_equal(m, a, b) == (op == FY_OP_EQ);
        return m->e->code == FY_OK ? 0 : -1;
    }
    if (compare_as(m, a, b, signs[op], &order) != 0)
        return -1;
    *out = !is_nan(a) && !is_nan(b) &&
           (op == FY_OP_LT   ? order < 0
            : op == FY_OP_LE ? order <= 0
            : op == FY_OP_GT ? order > 0
                             : order >= 0);
    return 0;
}

/* --- membership ------------------------------------------------------------------------------- */

static int contains_item(fy_tm *m, const fy_tv *item, const fy_tv *container, bool *out)
{
    fy_titer it;
    fy_tv v;
    if (fy_titer_begin(m, &it, container) != 0)
        return -1;
    *out = false;
    while (!*out && fy_titer_next(&it, &v)) {
        if (fy_tm_charge(m, 16) != 0)
            return -1;
        *out = fy_tv_equal(m, &v, item);
    }
    return m->e->code == FY_OK ? 0 : -1;
}

static bool range_contains(const fy_trange *r, int64_t i)
{
    if (r->n == 0)
        return false;
    int64_t last = fy_trange_at(r, r->n - 1);
    int64_t low = r->step > 0 ? r->start : last, high = r->step > 0 ? last : r->start;
    uint64_t step = r->step > 0 ? (uint64_t)r->step : 0 - (uint64_t)r->step;
    return i >= low && i <= high && ((uint64_t)i - (uint64_t)low) % step == 0;
}

int fy_tv_contains(fy_tm *m, const fy_tv *item, const fy_tv *container, bool *out)
{
    fy_tv ignored;
    int rc;
    switch ((fy_tv_kind)container->kind) {
    case FY_TV_STR:
        if (item->kind != FY_TV_STR)
            return fy_tm_fail(m, "'in <string>' requires string as left operand, not %s",
                              fy_tv_type_name(item));
        *out = fy_tu_find(container->str, item->str) >= 0;
        return fy_tm_charge(m, 16 + 4 * (uint64_t)container->str.len); /* a search is slow */
    case FY_TV_DICT:
        rc = fy_tdict_lookup(m, container->dict, item, &ignored);
        *out = rc == 1;
        return rc < 0 ? -1 : 0;
    case FY_TV_RANGE:
        if (item->kind == FY_TV_INT || item->kind == FY_TV_BOOL) {
            *out = range_contains(container->range, fy_tv_as_int(item));
            return 0;
        }
        break;
    case FY_TV_NONE:
    case FY_TV_BOOL:
    case FY_TV_INT:
    case FY_TV_BIGINT:
    case FY_TV_FLOAT:
    case FY_TV_NAMESPACE:
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        return fy_tm_fail(m, "argument of type '%s' is not iterable", fy_tv_type_name(container));
    case FY_TV_UNDEFINED:
    case FY_TV_LIST:
    case FY_TV_TUPLE:
    case FY_TV_ITER:
    case FY_TV_VIEW:
        break;
    }
    return contains_item(m, item, container, out);
}

/* --- attributes and items --------------------------------------------------------------------- */

static fy_tv lacks(const fy_tv *v, fy_span name)
{
    return (fy_tv){.kind = FY_TV_UNDEFINED, .view = 'a', .of = v->kind, .str = name};
}

/* An element by a key that is no string: the error shows it. */
static int lacks_element(fy_tm *m, const fy_tv *v, const fy_tv *key, fy_tv *out)
{
    fy_tbuf b = {0};
    if (key->kind == FY_TV_STR) {
        *out = lacks(v, key->str);
        return 0;
    }
    if (key->kind == FY_TV_INT && fy_tv_put_repr(m, &b, key) != 0)
        return -1;
    *out = (fy_tv){
        .kind = FY_TV_UNDEFINED,
        .view = 'e',
        .of = v->kind,
        .str = b.len > 0 ? (fy_span){b.ptr, b.len} : fy_span_of(fy_tv_type_name(key)),
    };
    return 0;
}

static bool is_private(fy_span name)
{
    return name.len > 0 && name.ptr[0] == '_';
}

/* A true attribute: of an object, a namespace, or a method. 1, 0 or -1. */
static int attribute(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    if (is_private(name))
        return 0;
    if (v->kind == FY_TV_NAMESPACE) {
        fy_tv key = fy_tv_view(name);
        return fy_tdict_lookup(m, v->dict, &key, out);
    }
    if (v->kind == FY_TV_OBJECT && v->call->attr != NULL)
        return v->call->attr(m, v->call, name, out);
    return fy_tmethod_find(m, v, name, out);
}

int fy_tv_getattr(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    int rc = attribute(m, v, name, out);
    if (rc == 0 && v->kind == FY_TV_DICT) {
        fy_tv key = fy_tv_view(name);
        rc = fy_tdict_lookup(m, v->dict, &key, out);
    }
    if (rc == 0)
        *out = lacks(v, name);
    return rc < 0 ? -1 : 0;
}

/* Python's index: negative ones count from the end. False: out of range. */
static bool index_in(int64_t i, size_t n, size_t *out)
{
    if (i < 0)
        i += (int64_t)n;
    if (i < 0 || (uint64_t)i >= n)
        return false;
    *out = (size_t)i;
    return true;
}

static int str_item(fy_tm *m, const fy_tv *v, int64_t index, fy_tv *out)
{
    size_t n, i;
    if (fy_tv_length(m, v, &n) != 0)
        return -1;
    if (!index_in(index, n, &i))
        return 0;
    if (fy_tm_charge(m, i) != 0)
        return -1;
    *out =
        fy_tv_view(n == v->str.len ? (fy_span){v->str.ptr + i, 1} : fy_tu_slice(v->str, i, i + 1));
    out->markup = v->markup;
    return 1;
}

/* v[key] as Python subscribes: 1, 0 when there is no such item, -1. */
static int item(fy_tm *m, const fy_tv *v, const fy_tv *key, fy_tv *out)
{
    size_t i;
    if (v->kind == FY_TV_DICT) /* an unhashable key is no error here */
        return key->kind == FY_TV_LIST || key->kind == FY_TV_DICT
                   ? 0
                   : fy_tdict_lookup(m, v->dict, key, out);
    if (!fy_tv_is_int(key))
        return 0;
    int64_t index = fy_tv_as_int(key);
    if (v->kind == FY_TV_STR)
        return str_item(m, v, index, out);
    if (v->kind == FY_TV_LIST || v->kind == FY_TV_TUPLE) {
        if (!index_in(index, v->list->n, &i))
            return 0;
        *out = v->list->item[i];
        return 1;
    }
    if (v->kind == FY_TV_RANGE && index_in(index, v->range->n, &i)) {
        *out = fy_tv_int(fy_trange_at(v->range, i));
        return 1;
    }
    return 0;
}

int fy_tv_getitem(fy_tm *m, const fy_tv *v, const fy_tv *key, fy_tv *out)
{
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    int rc = item(m, v, key, out);
    if (rc == 0 && key->kind == FY_TV_STR)
        rc = attribute(m, v, key->str, out);
    return rc == 0 ? lacks_element(m, v, key, out) : rc < 0 ? -1 : 0;
}

/* --- slices ----------------------------------------------------------------------------------- */

typedef struct {
    int64_t start, stop, step;
    size_t n;
} range_of;

static int slice_index(fy_tm *m, const fy_tv *v, int64_t absent, int64_t *out)
{
    *out = absent;
    if (v == NULL || v->kind == FY_TV_NONE)
        return 0;
    if (!fy_tv_is_int(v))
        return fy_tm_fail(m, "slice indices must be integers or None or have an __index__ method");
    *out = fy_tv_as_int(v);
    return 0;
}

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0)
        i += n;
    return i < low ? low : i > high ? high : i;
}

/* Which of n items a slice takes (PySlice_AdjustIndices). */
static int slice_range(fy_tm *m, const fy_tv *start, const fy_tv *stop, const fy_tv *step,
                       size_t items, range_of *out)
{
    int64_t n = (int64_t)items, first, last, by;
    if (slice_index(m, step, 1, &by) != 0)
        return -1;
    if (by == 0)
        return fy_tm_fail(m, "slice step cannot be zero");
    if (by < -INT64_MAX)
        by = -INT64_MAX;
    bool back = by < 0;
    if (slice_index(m, start, back ? INT64_MAX : 0, &first) != 0 ||
        slice_index(m, stop, back ? INT64_MIN : INT64_MAX, &last) != 0)
        return -1;
    first = clamp(first, n, back ? -1 : 0, back ? n - 1 : n);
    last = last == INT64_MIN ? -1 : clamp(last, n, back ? -1 : 0, back ? n - 1 : n);
    out->start = first;
    out->stop = last;
    out->step = by;
    if (back)
        out->n = first > last ? (size_t)((first - last - 1) / -by + 1) : 0;
    else
        out->n = first < last ? (size_t)((last - first - 1) / by + 1) : 0;
    return 0;
}

/* Characters of s by where they begin: off[i] for i in 0..n. */
static int offsets_of(fy_tm *m, fy_span s, size_t n, uint32_t **out)
{
    if (s.len > UINT32_MAX / 8)
        return fy_tm_fail(m, "a string of %zu bytes is too long to slice", s.len);
    uint32_t *off = fy_tm_alloc(m, (n + 1) * sizeof *off);
    if (off == NULL)
        return -1;
    const char *p = s.ptr, *end = s.ptr + s.len;
    for (size_t i = 0; i < n; i++) {
        off[i] = (uint32_t)(p - s.ptr);
        fy_tu_next(&p, end);
    }
    off[n] = (uint32_t)s.len;
    *out = off;
    return 0;
}

static int slice_str(fy_tm *m, const fy_tv *v, range_of r, size_t length, fy_tv *out)
{
    fy_span s = v->str;
    uint32_t *off = NULL;
    if (r.n == 0) {
        *out = fy_tv_view(FY_SPAN(""));
    } else if (r.step == 1) {
        size_t from = (size_t)r.start;
        *out = fy_tv_view(length == s.len ? (fy_span){s.ptr + from, r.n}
                                          : fy_tu_slice(s, from, from + r.n));
    } else {
        if (length != s.len && offsets_of(m, s, length, &off) != 0)
            return -1;
        fy_tbuf b = {0};
        for (size_t k = 0; k < r.n; k++) {
            size_t i = (size_t)(r.start + (int64_t)k * r.step);
            size_t at = off == NULL ? i : off[i], end = off == NULL ? i + 1 : off[i + 1];
            if (fy_tbuf_add(m, &b, s.ptr + at, end - at) != 0)
                return -1;
        }
        *out = fy_tv_view((fy_span){b.ptr, b.len});
    }
    out->markup = v->markup;
    return fy_tm_charge(m, s.len);
}

static int slice_list(fy_tm *m, const fy_tv *v, range_of r, fy_tv *out)
{
    if (r.step == 1 || r.n <= 1) { /* lists do not change: a part can share the items */
        fy_tlist *l = fy_tm_alloc(m, sizeof *l);
        if (l == NULL)
            return -1;
        *l = (fy_tlist){v->list->item + (r.n > 0 ? r.start : 0), r.n};
        *out = (fy_tv){.kind = v->kind, .list = l};
        return 0;
    }
    if (fy_tv_list(m, (fy_tv_kind)v->kind, r.n, out) != 0)
        return -1;
    for (size_t k = 0; k < r.n; k++)
        out->list->item[k] = v->list->item[r.start + (int64_t)k * r.step];
    return 0;
}

static int slice_of_range(fy_tm *m, const fy_tv *v, range_of r, fy_tv *out)
{
    fy_trange *range = fy_tm_alloc(m, sizeof *range);
    if (range == NULL)
        return -1;
    int64_t step;
    if (__builtin_mul_overflow(v->range->step, r.step, &step))
        return fy_tm_fail(m, "a slice's step does not fit 64 bits");
    *range = (fy_trange){.start = fy_trange_at(v->range, (size_t)r.start), .step = step, .n = r.n};
    range->stop = fy_trange_at(v->range, (size_t)r.stop);
    *out = (fy_tv){.kind = FY_TV_RANGE, .range = range};
    return 0;
}

int fy_tv_slice(fy_tm *m, const fy_tv *v, const fy_tv *start, const fy_tv *stop, const fy_tv *step,
                fy_tv *out)
{
    range_of r = {0};
    size_t n;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind == FY_TV_DICT)
        return fy_tm_fail(m, "unhashable type: 'slice'");
    if (v->kind != FY_TV_STR && v->kind != FY_TV_LIST && v->kind != FY_TV_TUPLE &&
        v->kind != FY_TV_RANGE)
        return fy_tm_fail(m, "'%s' object is not subscriptable", fy_tv_type_name(v));
    if (fy_tv_length(m, v, &n) != 0 || slice_range(m, start, stop, step, n, &r) != 0)
        return -1;
    if (v->kind == FY_TV_STR)
        return slice_str(m, v, r, n, out);
    return v->kind == FY_TV_RANGE ? slice_of_range(m, v, r, out) : slice_list(m, v, r, out);
}
