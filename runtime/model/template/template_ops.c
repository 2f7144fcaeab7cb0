/* Python's operators on values: equality and order, membership, attributes and items, slices,
 * arithmetic. Integers have 64 bits: what does not fit is an error, not a larger number. */
#include <math.h>
#include <string.h>

#include "model/template/template_builtin.h"
#include "model/template/template_eval.h"

static bool is_number(const fy_tv *v)
{
    return v->kind == FY_TV_INT || v->kind == FY_TV_BOOL || v->kind == FY_TV_FLOAT;
}

static int too_deep(fy_tm *m)
{
    return fy_tm_fail(m, "values nested deeper than %d levels", FY_TV_MAX_DEPTH);
}

/* --- equality --- */

/* A long double holds every int and every double exactly. */
static long double number_of(const fy_tv *v)
{
    return v->kind == FY_TV_FLOAT ? (long double)v->f : (long double)fy_tv_as_int(v);
}

static bool equal_lists(fy_tm *m, const fy_tlist *a, const fy_tlist *b)
{
    size_t i = 0;
    while (a->n == b->n && i < a->n && fy_tv_equal(m, &a->item[i], &b->item[i]))
        i++;
    return a->n == b->n && i == a->n;
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

static bool equal_same_kind(fy_tm *m, const fy_tv *a, const fy_tv *b)
{
    switch ((int)a->kind) {
    case FY_TV_UNDEFINED:
    case FY_TV_NONE:
        return true;
    case FY_TV_STR:
    case FY_TV_BIGINT:
        return fy_span_eq(a->str, b->str);
    case FY_TV_LIST:
    case FY_TV_TUPLE:
        return equal_lists(m, a->list, b->list);
    case FY_TV_DICT:
        return equal_dicts(m, a->dict, b->dict);
    default:
        return a->call == b->call;
    }
}

bool fy_tv_equal(fy_tm *m, const fy_tv *a, const fy_tv *b)
{
    if (is_number(a) && is_number(b))
        return number_of(a) == number_of(b);
    if (a->kind != b->kind || fy_tm_charge(m, a->kind == FY_TV_STR ? 16 + a->str.len : 16) != 0)
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

/* --- order --- */

static int order_of_spans(fy_span a, fy_span b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;
    return c != 0 ? c : a.len < b.len ? -1 : a.len > b.len;
}

static int compare_as(fy_tm *m, const fy_tv *a, const fy_tv *b, const char *op, int *order);

/* The first items that differ decide; then the length. */
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
        long double x = number_of(a), y = number_of(b);
        *order = x < y ? -1 : x == y ? 0 : 1; /* NaN comes out as greater */
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

/* --- membership --- */

int fy_tv_contains(fy_tm *m, const fy_tv *item, const fy_tv *container, bool *out)
{
    fy_titer it;
    fy_tv v;
    if (container->kind == FY_TV_STR) {
        if (item->kind != FY_TV_STR)
            return fy_tm_fail(m, "'in <string>' requires string as left operand, not %s",
                              fy_tv_type_name(item));
        *out = fy_tu_find(container->str, item->str) >= 0;
        return fy_tm_charge(m, 16 + 4 * (uint64_t)container->str.len); /* a search is slow */
    }
    if (container->kind == FY_TV_DICT) {
        int rc = fy_tdict_lookup(m, container->dict, item, &v);
        *out = rc == 1;
        return rc < 0 ? -1 : 0;
    }
    if (!fy_tv_is_iterable(container))
        return fy_tm_fail(m, "argument of type '%s' is not iterable", fy_tv_type_name(container));
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

/* --- attributes and items --- */

static fy_tv lacks(const fy_tv *v, fy_span name)
{
    return (fy_tv){.kind = FY_TV_UNDEFINED, .view = 'a', .of = v->kind, .str = name};
}

/* A true attribute: of an object, a namespace, or a method. 1, 0 or -1. */
static int attribute(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    fy_tv key = fy_tv_view(name);
    if (name.len > 0 && name.ptr[0] == '_')
        return 0;
    if (v->kind == FY_TV_NAMESPACE)
        return fy_tdict_lookup(m, v->dict, &key, out);
    if (v->kind == FY_TV_OBJECT && v->call->attr != NULL)
        return v->call->attr(m, v->call, name, out);
    return fy_tmethod_find(m, v, name, out);
}

int fy_tv_getattr(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    fy_tv key = fy_tv_view(name);
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    int rc = attribute(m, v, name, out);
    if (rc == 0 && v->kind == FY_TV_DICT)
        rc = fy_tdict_lookup(m, v->dict, &key, out);
    if (rc == 0)
        *out = lacks(v, name);
    return rc < 0 ? -1 : 0;
}

/* v[key] as Python subscribes: 1, 0 if there is no such item, -1. */
static int item_at(fy_tm *m, const fy_tv *v, const fy_tv *key, fy_tv *out)
{
    size_t n;
    if (v->kind == FY_TV_DICT) /* an unhashable key is not an error here */
        return key->kind > FY_TV_STR ? 0 : fy_tdict_lookup(m, v->dict, key, out);
    if (!fy_tv_is_int(key) || (v->kind != FY_TV_STR && v->kind != FY_TV_LIST &&
                               v->kind != FY_TV_TUPLE && v->kind != FY_TV_RANGE))
        return 0;
    if (fy_tv_length(m, v, &n) != 0)
        return -1;
    int64_t index = fy_tv_as_int(key);
    index += index < 0 ? (int64_t)n : 0;
    if (index < 0 || (uint64_t)index >= n)
        return 0;
    size_t i = (size_t)index;
    if (v->kind == FY_TV_RANGE) {
        *out = fy_tv_int(fy_trange_at(v->range, i));
    } else if (v->kind != FY_TV_STR) {
        *out = v->list->item[i];
    } else {
        *out = fy_tv_view(n == v->str.len ? (fy_span){v->str.ptr + i, 1}
                                          : fy_tu_slice(v->str, i, i + 1));
        out->markup = v->markup;
        return fy_tm_charge(m, i) != 0 ? -1 : 1;
    }
    return 1;
}

int fy_tv_getitem(fy_tm *m, const fy_tv *v, const fy_tv *key, fy_tv *out)
{
    fy_tbuf b = {0};
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    int rc = item_at(m, v, key, out);
    if (rc == 0 && key->kind == FY_TV_STR)
        rc = attribute(m, v, key->str, out);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (key->kind == FY_TV_STR) {
        *out = lacks(v, key->str);
        return 0;
    }
    if (key->kind == FY_TV_INT && fy_tv_put_repr(m, &b, key) != 0)
        return -1;
    *out = lacks(v, b.len > 0 ? (fy_span){b.ptr, b.len} : fy_span_of(fy_tv_type_name(key)));
    out->view = 'e';
    return 0;
}

/* --- slices --- */

static int slice_index(fy_tm *m, const fy_tv *v, int64_t absent, int64_t *out)
{
    *out = absent;
    if (v->kind == FY_TV_NONE)
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

/* Which of n items a slice takes (PySlice_AdjustIndices): `count` of them from `first` on. */
static int slice_range(fy_tm *m, const fy_tv *start, const fy_tv *stop, const fy_tv *step,
                       int64_t n, int64_t *first, int64_t *by, size_t *count)
{
    int64_t last;
    if (slice_index(m, step, 1, by) != 0)
        return -1;
    if (*by == 0)
        return fy_tm_fail(m, "slice step cannot be zero");
    if (*by < -INT64_MAX)
        *by = -INT64_MAX;
    bool back = *by < 0;
    if (slice_index(m, start, back ? INT64_MAX : 0, first) != 0 ||
        slice_index(m, stop, back ? INT64_MIN : INT64_MAX, &last) != 0)
        return -1;
    *first = clamp(*first, n, back ? -1 : 0, back ? n - 1 : n);
    last = last == INT64_MIN ? -1 : clamp(last, n, back ? -1 : 0, back ? n - 1 : n);
    int64_t span = back ? *first - last : last - *first;
    *count = span > 0 ? (size_t)((span - 1) / (back ? -*by : *by) + 1) : 0;
    return 0;
}

int fy_tv_slice(fy_tm *m, const fy_tv *v, const fy_tv *start, const fy_tv *stop, const fy_tv *step,
                fy_tv *out)
{
    fy_tlist items;
    fy_tbuf b = {0};
    int64_t first = 0, by = 1;
    size_t n, count = 0;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind == FY_TV_DICT)
        return fy_tm_fail(m, "unhashable type: 'slice'");
    if (v->kind != FY_TV_STR && v->kind != FY_TV_LIST && v->kind != FY_TV_TUPLE &&
        v->kind != FY_TV_RANGE)
        return fy_tm_fail(m, "'%s' object is not subscriptable", fy_tv_type_name(v));
    if (fy_tv_length(m, v, &n) != 0 ||
        slice_range(m, start, stop, step, (int64_t)n, &first, &by, &count) != 0)
        return -1;
    if (v->kind == FY_TV_STR && (by == 1 || count == 0)) {
        size_t from = (size_t)(count > 0 ? first : 0);
        *out = fy_tv_view(n == v->str.len ? (fy_span){v->str.ptr + from, count}
                                          : fy_tu_slice(v->str, from, from + count));
        out->markup = v->markup;
        return fy_tm_charge(m, v->str.len);
    }
    if (fy_tv_items(m, v, &items) != 0)
        return -1;
    if (v->kind == FY_TV_STR) {
        for (size_t k = 0; k < count; k++) {
            if (fy_tbuf_span(m, &b, items.item[first + (int64_t)k * by].str) != 0)
                return -1;
        }
        *out = fy_tbuf_value(&b, v->markup);
        return 0;
    }
    fy_tv_kind kind = v->kind == FY_TV_TUPLE ? FY_TV_TUPLE : FY_TV_LIST; /* of a range, too */
    if (fy_tv_list(m, kind, by == 1 ? 0 : count, out) != 0)
        return -1;
    if (by == 1) /* lists do not change: a part can share the items */
        *out->list = (fy_tlist){items.item + (count > 0 ? first : 0), count};
    for (size_t k = 0; by != 1 && k < count; k++)
        out->list->item[k] = items.item[first + (int64_t)k * by];
    return 0;
}

/* --- arithmetic of numbers --- */

static const char *sign_of(fy_op op)
{
    static const char *const signs[] = {
        [FY_OP_ADD] = "+",       [FY_OP_SUB] = "-", [FY_OP_MUL] = "*",          [FY_OP_DIV] = "/",
        [FY_OP_FLOORDIV] = "//", [FY_OP_MOD] = "%", [FY_OP_POW] = "** or pow()"};
    return signs[op];
}

static int too_large(fy_tm *m, fy_op op)
{
    return fy_tm_fail(m, "%s: the result does not fit an integer of 64 bits", sign_of(op));
}

static int int_power(fy_tm *m, int64_t base, int64_t exponent, fy_tv *out)
{
    int64_t r = 1;
    if (exponent > 63 && (base == 0 || base == 1 || base == -1))
        exponent = 62 + exponent % 2;  /* the same result in few rounds */
    for (; exponent > 0; exponent--) { /* at most 63 rounds before it overflows */
        if (__builtin_mul_overflow(r, base, &r))
            return too_large(m, FY_OP_POW);
    }
    *out = fy_tv_int(r);
    return 0;
}

static int int_binary(fy_tm *m, fy_op op, int64_t a, int64_t b, fy_tv *out)
{
    int64_t r = 0;
    bool divides = op == FY_OP_FLOORDIV || op == FY_OP_MOD;
    if (divides && b == 0)
        return fy_tm_fail(m, "integer division or modulo by zero");
    if (op == FY_OP_POW)
        return int_power(m, a, b, out);
    bool over = op == FY_OP_ADD                   ? __builtin_add_overflow(a, b, &r)
                : op == FY_OP_SUB                 ? __builtin_sub_overflow(a, b, &r)
                : op == FY_OP_MUL                 ? __builtin_mul_overflow(a, b, &r)
                : op == FY_OP_FLOORDIV && b == -1 ? __builtin_sub_overflow(0, a, &r)
                                                  : false;
    if (over)
        return too_large(m, op);
    if (divides && b == -1) {
        r = op == FY_OP_MOD ? 0 : r;
    } else if (divides) { /* rounded down, and the rest has the sign of b */
        int64_t rest = a % b;
        bool down = rest != 0 && (rest < 0) != (b < 0);
        r = op == FY_OP_MOD ? rest + (down ? b : 0) : a / b - down;
    }
    *out = fy_tv_int(r);
    return 0;
}

static int float_power(fy_tm *m, double a, double b, fy_tv *out)
{
    if (a == 0 && b < 0)
        return fy_tm_fail(m, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(b) && b != floor(b))
        return fy_tm_fail(m, "**: a negative number to a fractional power is not real");
    double r = pow(a, b);
    if (isinf(r) && isfinite(a) && isfinite(b))
        return fy_tm_fail(m, "(34, 'Numerical result out of range')");
    *out = fy_tv_float(r);
    return 0;
}

static int float_binary(fy_tm *m, fy_op op, double a, double b, fy_tv *out)
{
    if (op == FY_OP_POW)
        return float_power(m, a, b, out);
    bool divides = op == FY_OP_FLOORDIV || op == FY_OP_MOD;
    if ((divides || op == FY_OP_DIV) && b == 0)
        return fy_tm_fail(m, op == FY_OP_DIV        ? "division by zero"
                             : op == FY_OP_FLOORDIV ? "float floor division by zero"
                                                    : "float modulo");
    double rest = divides ? fmod(a, b) : 0;
    if (rest != 0 && (b < 0) != (rest < 0))
        rest += b;
    *out = fy_tv_float(op == FY_OP_ADD        ? a + b
                       : op == FY_OP_SUB      ? a - b
                       : op == FY_OP_MUL      ? a * b
                       : op == FY_OP_DIV      ? a / b
                       : op == FY_OP_FLOORDIV ? rint((a - rest) / b)
                                              : copysign(rest, rest == 0 ? b : rest));
    return 0;
}

/* --- strings and lists --- */

/* Appends to the string that was made last, where it lies: `s = s + x` in a loop copies each piece
 * once. Nothing else can see the bytes after it. */
static int join_text(fy_tm *m, fy_span a, fy_span b, fy_tv *out)
{
    size_t n;
    if (__builtin_add_overflow(a.len, b.len, &n))
        n = SIZE_MAX; /* refused by the budget */
    bool last = a.len > 0 && a.ptr == m->sum.ptr && a.len == m->sum.len;
    if (fy_tm_charge(m, b.len) != 0)
        return -1;
    if (!last || b.len > m->sum.cap - m->sum.len) {
        size_t cap = last && n < SIZE_MAX / 2 ? n * 2 : n;
        char *p = fy_tm_charge(m, a.len) == 0 ? fy_tm_alloc(m, cap) : NULL;
        if (p == NULL)
            return -1;
        if (a.len > 0)
            memcpy(p, a.ptr, a.len);
        m->sum.ptr = p;
        m->sum.cap = cap;
    }
    if (b.len > 0)
        memcpy(m->sum.ptr + a.len, b.ptr, b.len);
    m->sum.len = n;
    *out = fy_tv_view((fy_span){m->sum.ptr, n});
    return 0;
}

/* Markup escapes what is joined to it. */
static int add_strings(fy_tm *m, const fy_tv *a, const fy_tv *b, fy_tv *out)
{
    fy_tbuf left = {0}, right = {0};
    fy_span x = a->str, y = b->str;
    if (b->markup && !a->markup) {
        if (fy_tu_put_escaped(m, &left, x) != 0)
            return -1;
        x = (fy_span){left.ptr, left.len};
    }
    if (a->markup && !b->markup) {
        if (fy_tu_put_escaped(m, &right, y) != 0)
            return -1;
        y = (fy_span){right.ptr, right.len};
    }
    if (join_text(m, x, y, out) != 0)
        return -1;
    out->markup = a->markup || b->markup;
    return 0;
}

static int add_lists(fy_tm *m, const fy_tv *a, const fy_tv *b, fy_tv *out)
{
    size_t n = a->list->n;
    if (fy_tv_list(m, (fy_tv_kind)a->kind, n + b->list->n, out) != 0)
        return -1;
    for (size_t i = 0; i < out->list->n; i++)
        out->list->item[i] = i < n ? a->list->item[i] : b->list->item[i - n];
    return 0;
}

/* A string, list or tuple times a number. 1; 0: they are something else; -1. */
static int repeat(fy_tm *m, const fy_tv *v, const fy_tv *count, fy_tv *out)
{
    fy_tbuf b = {0};
    bool is_list = v->kind == FY_TV_LIST || v->kind == FY_TV_TUPLE;
    if (!fy_tv_is_int(count) || (v->kind != FY_TV_STR && !is_list))
        return 0;
    uint64_t times = fy_tv_as_int(count) > 0 ? (uint64_t)fy_tv_as_int(count) : 0;
    if (!is_list) {
        if (fy_tu_repeat(m, &b, v->str, times) != 0)
            return -1;
        *out = fy_tbuf_value(&b, v->markup);
        return 1;
    }
    size_t n = v->list->n, total;
    if (__builtin_mul_overflow(n, times, &total))
        total = SIZE_MAX; /* refused by the budget */
    if (fy_tv_list(m, (fy_tv_kind)v->kind, total, out) != 0)
        return -1;
    for (size_t i = 0; i < total; i++)
        out->list->item[i] = v->list->item[i % n];
    return 1;
}

/* --- operators --- */

static int no_such_operation(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b)
{
    const char *type = fy_tv_type_name(a), *other = fy_tv_type_name(b);
    if (a->kind == FY_TV_UNDEFINED || b->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, a->kind == FY_TV_UNDEFINED ? a : b);
    if (a->kind == FY_TV_BIGINT || b->kind == FY_TV_BIGINT)
        return fy_tm_fail(m, "%s: integers beyond 64 bits can only be printed", sign_of(op));
    if (op == FY_OP_ADD &&
        (a->kind == FY_TV_STR || a->kind == FY_TV_LIST || a->kind == FY_TV_TUPLE))
        return fy_tm_fail(m, "can only concatenate %s (not \"%s\") to %s", type, other, type);
    return fy_tm_fail(m, "unsupported operand type(s) for %s: '%s' and '%s'", sign_of(op), type,
                      other);
}

int fy_tv_binary(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b, fy_tv *out)
{
    double x, y;
    if (fy_tv_is_int(a) && fy_tv_is_int(b) && op != FY_OP_DIV &&
        (op != FY_OP_POW || fy_tv_as_int(b) >= 0))
        return int_binary(m, op, fy_tv_as_int(a), fy_tv_as_int(b), out);
    if (fy_tv_as_float(a, &x) && fy_tv_as_float(b, &y))
        return float_binary(m, op, x, y, out);
    if (op == FY_OP_ADD && a->kind == b->kind) {
        if (a->kind == FY_TV_STR)
            return add_strings(m, a, b, out);
        if (a->kind == FY_TV_LIST || a->kind == FY_TV_TUPLE)
            return add_lists(m, a, b, out);
    }
    if (op == FY_OP_MUL) {
        int rc = repeat(m, a, b, out);
        rc = rc != 0 ? rc : repeat(m, b, a, out);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    }
    if (op == FY_OP_MOD && a->kind == FY_TV_STR)
        return fy_tv_percent(m, a, b, out);
    return no_such_operation(m, op, a, b);
}

int fy_tv_add(fy_tm *m, const fy_tv *a, const fy_tv *b, fy_tv *out)
{
    return fy_tv_binary(m, FY_OP_ADD, a, b, out);
}

int fy_tv_unary(fy_tm *m, fy_op op, const fy_tv *a, fy_tv *out)
{
    fy_tv zero = fy_tv_int(0);
    if (a->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, a);
    if (!is_number(a))
        return fy_tm_fail(m, "bad operand type for unary %s: '%s'", op == FY_OP_NEG ? "-" : "+",
                          fy_tv_type_name(a));
    if (op == FY_OP_NEG && a->kind != FY_TV_FLOAT)
        return fy_tv_binary(m, FY_OP_SUB, &zero, a, out);
    *out = a->kind != FY_TV_FLOAT ? fy_tv_int(fy_tv_as_int(a))
                                  : fy_tv_float(op == FY_OP_NEG ? -a->f : a->f);
    return 0;
}
