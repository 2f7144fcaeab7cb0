/* Python's operators on values: equality and order, membership, attributes and items, slices,
 * arithmetic. Integers have 64 bits: what does not fit is an error, not a larger number. */
#include <math.h>
#include <string.h>

#include "model/template/template_eval.h"

static bool is_number(const fy_tv *v)
{
    return v->kind == FY_TV_INT || v->kind == FY_TV_BOOL || v->kind == FY_TV_FLOAT;
}

/* One level deeper into nested values; m->depth-- undoes it. */
static bool enter(fy_tm *m)
{
    if (m->depth < FY_TV_MAX_DEPTH)
        return ++m->depth > 0;
    fy_tm_fail(m, "values nested deeper than %d levels", FY_TV_MAX_DEPTH);
    return false;
}

/* --- equality --- */

/* A long double holds every int and every double exactly. */
static long double number_of(const fy_tv *v)
{
    return v->kind == FY_TV_FLOAT ? (long double)v->f : (long double)fy_tv_as_int(v);
}

/* How many of the first items are equal. */
static size_t equal_items(fy_tm *m, const fy_tlist *a, const fy_tlist *b)
{
    size_t n = a->n < b->n ? a->n : b->n, i = 0;
    while (i < n && fy_tv_equal(m, &a->item[i], &b->item[i]))
        i++;
    return i;
}

static bool equal_dicts(fy_tm *m, const fy_tdict *a, const fy_tdict *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; equal && i < a->n; i++) {
        const fy_tv *other = fy_tdict_get(m, b, &a->items[i].key);
        equal = other != NULL && fy_tv_equal(m, &a->items[i].value, other);
    }
    return equal;
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
        return a->list->n == b->list->n && equal_items(m, a->list, b->list) == a->list->n;
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
    if (a->kind != b->kind || !fy_tm_charge(m, a->kind == FY_TV_STR ? 16 + a->str.len : 16) ||
        !enter(m))
        return false;
    bool equal = equal_same_kind(m, a, b);
    m->depth--;
    return equal && fy_tm_ok(m);
}

/* --- order --- */

static int order_of_spans(fy_span a, fy_span b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;
    return c != 0 ? c : a.len < b.len ? -1 : a.len > b.len;
}

static int compare_as(fy_tm *m, const fy_tv *a, const fy_tv *b, const char *op);

/* The first items that differ decide; then the length. */
static int compare_lists(fy_tm *m, const fy_tlist *a, const fy_tlist *b, const char *op)
{
    size_t i = equal_items(m, a, b);
    if (i < a->n && i < b->n)
        return fy_tm_ok(m) ? compare_as(m, &a->item[i], &b->item[i], op) : 0;
    return a->n < b->n ? -1 : a->n > b->n;
}

static int compare_as(fy_tm *m, const fy_tv *a, const fy_tv *b, const char *op)
{
    if (is_number(a) && is_number(b)) {
        long double x = number_of(a), y = number_of(b);
        return x < y ? -1 : x == y ? 0 : 1; /* NaN comes out as greater */
    }
    if (a->kind == FY_TV_STR && b->kind == FY_TV_STR) {
        fy_tm_charge(m, 16 + (a->str.len < b->str.len ? a->str.len : b->str.len));
        return order_of_spans(a->str, b->str);
    }
    if (a->kind == b->kind && fy_tv_is_list(a) && enter(m)) {
        int order = compare_lists(m, a->list, b->list, op);
        m->depth--;
        return order;
    }
    if (a->kind == FY_TV_UNDEFINED || b->kind == FY_TV_UNDEFINED)
        fy_tv_undefined_fail(m, a->kind == FY_TV_UNDEFINED ? a : b);
    fy_tm_fail(m, "'%s' not supported between instances of '%s' and '%s'", op, fy_tv_type_name(a),
               fy_tv_type_name(b));
    return 0;
}

int fy_tv_compare(fy_tm *m, const fy_tv *a, const fy_tv *b)
{
    return compare_as(m, a, b, "<");
}

static bool is_nan(const fy_tv *v)
{
    return v->kind == FY_TV_FLOAT && isnan(v->f);
}

bool fy_tv_relate(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b)
{
    static const char *const signs[] = {
        [FY_OP_LT] = "<", [FY_OP_LE] = "<=", [FY_OP_GT] = ">", [FY_OP_GE] = ">="};
    if (op == FY_OP_IN || op == FY_OP_NOT_IN)
        return fy_tv_contains(m, a, b) == (op == FY_OP_IN);
    if (op == FY_OP_EQ || op == FY_OP_NE)
        return fy_tv_equal(m, a, b) == (op == FY_OP_EQ);
    int order = compare_as(m, a, b, signs[op]);
    return !is_nan(a) && !is_nan(b) &&
           (op == FY_OP_LT   ? order < 0
            : op == FY_OP_LE ? order <= 0
            : op == FY_OP_GT ? order > 0
                             : order >= 0);
}

/* --- membership --- */

bool fy_tv_contains(fy_tm *m, const fy_tv *item, const fy_tv *container)
{
    fy_tv v;
    if (container->kind == FY_TV_STR) {
        if (item->kind != FY_TV_STR)
            fy_tm_fail(m, "'in <string>' requires string as left operand, not %s",
                       fy_tv_type_name(item));
        return fy_tm_charge(m, 16 + 4 * (uint64_t)container->str.len) && /* a search is slow */
               fy_tu_find(container->str, item->str) >= 0;
    }
    if (container->kind == FY_TV_DICT)
        return fy_tdict_get(m, container->dict, item) != NULL;
    if (!fy_tv_is_iterable(container))
        fy_tm_fail(m, "argument of type '%s' is not iterable", fy_tv_type_name(container));
    fy_titer it = fy_titer_begin(m, container);
    while (fy_titer_next(&it, &v) && fy_tm_charge(m, 16)) {
        if (fy_tv_equal(m, &v, item))
            return true;
    }
    return false;
}

/* --- attributes and items --- */

static fy_tv lacks(const fy_tv *v, fy_span name, uint8_t what)
{
    return (fy_tv){.kind = FY_TV_UNDEFINED, .view = what, .of = v->kind, .str = name};
}

static bool lookup(fy_tm *m, const fy_tv *v, const fy_tv *key, fy_tv *out)
{
    const fy_tv *found = fy_tdict_get(m, v->dict, key);
    if (found != NULL)
        *out = *found;
    return found != NULL;
}

/* A true attribute: of an object, a namespace, or a method. */
static bool attribute(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out)
{
    fy_tv key = fy_tv_view(name);
    if (name.len > 0 && name.ptr[0] == '_')
        return false;
    if (v->kind == FY_TV_NAMESPACE)
        return lookup(m, v, &key, out);
    if (v->kind == FY_TV_OBJECT && v->call->attr != NULL)
        return v->call->attr(m, v->call, name, out);
    return fy_tmethod_find(m, v, name, out);
}

fy_tv fy_tv_getattr(fy_tm *m, const fy_tv *v, fy_span name)
{
    fy_tv key = fy_tv_view(name), out;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (attribute(m, v, name, &out) || (v->kind == FY_TV_DICT && lookup(m, v, &key, &out)))
        return out;
    return lacks(v, name, 'a');
}

/* What has positions: an index is one, and slices are taken of them. */
static bool is_sequence(const fy_tv *v)
{
    return v->kind == FY_TV_STR || fy_tv_is_list(v) || v->kind == FY_TV_RANGE;
}

/* The characters of a string from one position up to another. */
static fy_tv characters(const fy_tv *v, size_t n, size_t from, size_t to)
{
    return fy_tv_part(v, n == v->str.len ? (fy_span){v->str.ptr + from, to - from}
                                         : fy_tu_slice(v->str, from, to));
}

/* v[key] as Python subscribes. */
static bool item_at(fy_tm *m, const fy_tv *v, const fy_tv *key, fy_tv *out)
{
    if (v->kind == FY_TV_DICT) /* an unhashable key is not an error here */
        return key->kind <= FY_TV_STR && lookup(m, v, key, out);
    if (!fy_tv_is_int(key) || !is_sequence(v))
        return false;
    size_t n = fy_tv_length(m, v);
    int64_t index = fy_tv_as_int(key);
    index += index < 0 ? (int64_t)n : 0;
    if (index < 0 || (uint64_t)index >= n)
        return false;
    size_t i = (size_t)index;
    if (v->kind == FY_TV_STR)
        *out = characters(v, n, i, i + 1);
    else
        *out = v->kind == FY_TV_RANGE ? fy_trange_at(v->range, i) : v->list->item[i];
    return v->kind != FY_TV_STR || fy_tm_charge(m, i);
}

fy_tv fy_tv_getitem(fy_tm *m, const fy_tv *v, const fy_tv *key)
{
    fy_tbuf b = {.m = m};
    fy_tv out;
    bool text = key->kind == FY_TV_STR;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (item_at(m, v, key, &out) || (text && attribute(m, v, key->str, &out)))
        return out;
    if (text)
        return lacks(v, key->str, 'a');
    if (key->kind == FY_TV_INT)
        fy_tbuf_repr(&b, key);
    return lacks(v, b.len > 0 ? (fy_span){b.ptr, b.len} : fy_span_of(fy_tv_type_name(key)), 'e');
}

/* --- slices --- */

static int64_t slice_index(fy_tm *m, const fy_tv *v, int64_t absent)
{
    if (v->kind != FY_TV_NONE && !fy_tv_is_int(v))
        fy_tm_fail(m, "slice indices must be integers or None or have an __index__ method");
    return fy_tv_is_int(v) ? fy_tv_as_int(v) : absent;
}

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0)
        i += n;
    return i < low ? low : i > high ? high : i;
}

/* Which of n items a slice takes (PySlice_AdjustIndices): `count` of them from `first` on. */
static size_t slice_range(fy_tm *m, const fy_tv bound[3], int64_t n, int64_t *first, int64_t *by)
{
    *by = slice_index(m, &bound[2], 1);
    if (*by == 0)
        fy_tm_fail(m, "slice step cannot be zero");
    if (*by < -INT64_MAX)
        *by = -INT64_MAX;
    bool back = *by < 0;
    *first = slice_index(m, &bound[0], back ? INT64_MAX : 0);
    int64_t last = slice_index(m, &bound[1], back ? INT64_MIN : INT64_MAX);
    *first = clamp(*first, n, back ? -1 : 0, back ? n - 1 : n);
    last = last == INT64_MIN ? -1 : clamp(last, n, back ? -1 : 0, back ? n - 1 : n);
    int64_t span = back ? *first - last : last - *first;
    return span > 0 && fy_tm_ok(m) ? (size_t)((span - 1) / (back ? -*by : *by) + 1) : 0;
}

fy_tv fy_tv_slice(fy_tm *m, const fy_tv *v, const fy_tv bound[3])
{
    fy_tbuf b = {.m = m};
    int64_t first, by;
    bool text = v->kind == FY_TV_STR;
    if (v->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, v);
    if (v->kind == FY_TV_DICT)
        return fy_tm_fail(m, "unhashable type: 'slice'");
    if (!is_sequence(v))
        return fy_tm_fail(m, "'%s' object is not subscriptable", fy_tv_type_name(v));
    size_t n = fy_tv_length(m, v), count = slice_range(m, bound, (int64_t)n, &first, &by);
    size_t from = count > 0 ? (size_t)first : 0;
    if (text && (by == 1 || count == 0)) {
        fy_tm_charge(m, v->str.len);
        return characters(v, n, from, from + count);
    }
    fy_tlist items = fy_tv_items(m, v);
    fy_tv list = fy_tv_list(m, v->kind == FY_TV_TUPLE ? FY_TV_TUPLE : FY_TV_LIST,
                            text || by == 1 ? 0 : count);
    if (!fy_tm_ok(m))
        return list;
    if (by == 1) /* lists do not change: a part can share the items */
        *list.list = (fy_tlist){items.item + from, count, count};
    for (size_t k = 0; by != 1 && k < count; k++) {
        fy_tv item = items.item[first + (int64_t)k * by];
        if (text)
            fy_tbuf_span(&b, item.str);
        else
            fy_tlist_add(m, list.list, item);
    }
    return text ? fy_tbuf_value(&b, v->markup) : list;
}

/* --- arithmetic of numbers --- */

static const char *sign_of(fy_op op)
{
    static const char *const signs[] = {
        [FY_OP_ADD] = "+",       [FY_OP_SUB] = "-", [FY_OP_MUL] = "*",          [FY_OP_DIV] = "/",
        [FY_OP_FLOORDIV] = "//", [FY_OP_MOD] = "%", [FY_OP_POW] = "** or pow()"};
    return signs[op];
}

static fy_tv too_large(fy_tm *m, fy_op op)
{
    return fy_tm_fail(m, "%s: the result does not fit an integer of 64 bits", sign_of(op));
}

static fy_tv int_power(fy_tm *m, int64_t base, int64_t exponent)
{
    int64_t r = 1;
    if (exponent > 63 && (base == 0 || base == 1 || base == -1))
        exponent = 62 + exponent % 2; /* the same result in few rounds */
    bool over = false;
    for (; exponent > 0 && !over; exponent--) /* at most 63 rounds before it overflows */
        over = __builtin_mul_overflow(r, base, &r);
    return over ? too_large(m, FY_OP_POW) : fy_tv_int(r);
}

static fy_tv int_binary(fy_tm *m, fy_op op, int64_t a, int64_t b)
{
    int64_t r = 0;
    bool over = false;
    if (op == FY_OP_POW)
        return int_power(m, a, b);
    if (op == FY_OP_FLOORDIV || op == FY_OP_MOD) {
        if (b == 0)
            return fy_tm_fail(m, "integer division or modulo by zero");
        int64_t rest = b == -1 ? 0 : a % b; /* rounded down, and the rest has the sign of b */
        bool down = rest != 0 && (rest < 0) != (b < 0);
        over = op == FY_OP_FLOORDIV && b == -1 && a == INT64_MIN;
        r = op == FY_OP_MOD ? rest + (down ? b : 0) : over ? 0 : a / b - down;
    } else {
        over = op == FY_OP_ADD   ? __builtin_add_overflow(a, b, &r)
               : op == FY_OP_SUB ? __builtin_sub_overflow(a, b, &r)
                                 : __builtin_mul_overflow(a, b, &r);
    }
    return over ? too_large(m, op) : fy_tv_int(r);
}

static fy_tv float_power(fy_tm *m, double a, double b)
{
    if (a == 0 && b < 0)
        return fy_tm_fail(m, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(b) && b != floor(b))
        return fy_tm_fail(m, "**: a negative number to a fractional power is not real");
    double r = pow(a, b);
    if (isinf(r) && isfinite(a) && isfinite(b))
        return fy_tm_fail(m, "(34, 'Numerical result out of range')");
    return fy_tv_float(r);
}

static fy_tv float_binary(fy_tm *m, fy_op op, double a, double b)
{
    if (op == FY_OP_POW)
        return float_power(m, a, b);
    bool divides = op == FY_OP_FLOORDIV || op == FY_OP_MOD;
    if ((divides || op == FY_OP_DIV) && b == 0)
        return fy_tm_fail(m, op == FY_OP_DIV        ? "division by zero"
                             : op == FY_OP_FLOORDIV ? "float floor division by zero"
                                                    : "float modulo");
    double rest = divides ? fmod(a, b) : 0;
    if (rest != 0 && (b < 0) != (rest < 0))
        rest += b;
    return fy_tv_float(op == FY_OP_ADD        ? a + b
                       : op == FY_OP_SUB      ? a - b
                       : op == FY_OP_MUL      ? a * b
                       : op == FY_OP_DIV      ? a / b
                       : op == FY_OP_FLOORDIV ? rint((a - rest) / b)
                                              : copysign(rest, rest == 0 ? b : rest));
}

/* --- strings and lists --- */

/* Appends to the string that was made last, where it lies: `s = s + x` in a loop copies each piece
 * once. Nothing else can see the bytes after it. */
static fy_tv join_text(fy_tm *m, fy_span a, fy_span b)
{
    size_t n;
    if (__builtin_add_overflow(a.len, b.len, &n))
        n = SIZE_MAX; /* refused by the budget */
    bool last = a.len > 0 && a.ptr == m->sum.ptr && a.len == m->sum.len;
    fy_tm_charge(m, b.len);
    if (!last || b.len > m->sum.cap - m->sum.len) {
        size_t cap = last && n < SIZE_MAX / 2 ? n * 2 : n;
        char *p = fy_tm_charge(m, a.len) ? fy_tm_alloc(m, cap) : NULL;
        if (p == NULL)
            return fy_tv_none();
        if (a.len > 0)
            memcpy(p, a.ptr, a.len);
        m->sum.ptr = p;
        m->sum.cap = cap;
    }
    if (b.len > 0)
        memcpy(m->sum.ptr + a.len, b.ptr, b.len);
    m->sum.len = n;
    return fy_tv_view((fy_span){m->sum.ptr, n});
}

/* The text of a string that is joined to another: markup escapes what is not. */
static fy_span joined_part(fy_tm *m, const fy_tv *v, bool markup)
{
    fy_tbuf b = {.m = m};
    if (v->markup || !markup)
        return v->str;
    fy_tu_put_escaped(&b, v->str);
    return (fy_span){b.ptr, b.len};
}

static fy_tv add_strings(fy_tm *m, const fy_tv *a, const fy_tv *b)
{
    bool markup = a->markup || b->markup;
    fy_tv sum = join_text(m, joined_part(m, a, markup), joined_part(m, b, markup));
    sum.markup = markup;
    return sum;
}

static fy_tv add_lists(fy_tm *m, const fy_tv *a, const fy_tv *b)
{
    fy_tv sum = fy_tv_list(m, (fy_tv_kind)a->kind, a->list->n + b->list->n);
    for (size_t i = 0; i < a->list->n && fy_tm_ok(m); i++)
        fy_tlist_add(m, sum.list, a->list->item[i]);
    for (size_t i = 0; i < b->list->n && fy_tm_ok(m); i++)
        fy_tlist_add(m, sum.list, b->list->item[i]);
    return sum;
}

/* A string, list or tuple times a number. */
static fy_tv repeat(fy_tm *m, const fy_tv *v, const fy_tv *count)
{
    fy_tbuf b = {.m = m};
    uint64_t times = fy_tv_as_int(count) > 0 ? (uint64_t)fy_tv_as_int(count) : 0;
    if (v->kind == FY_TV_STR) {
        fy_tu_repeat(&b, v->str, times);
        return fy_tbuf_value(&b, v->markup);
    }
    size_t n = v->list->n, total;
    if (__builtin_mul_overflow(n, times, &total))
        total = SIZE_MAX; /* refused by the budget */
    fy_tv list = fy_tv_list(m, (fy_tv_kind)v->kind, total);
    for (size_t i = 0; i < total && fy_tm_ok(m); i++)
        fy_tlist_add(m, list.list, v->list->item[i % n]);
    return list;
}

static bool can_repeat(const fy_tv *v, const fy_tv *count)
{
    return fy_tv_is_int(count) && (v->kind == FY_TV_STR || fy_tv_is_list(v));
}

/* --- operators --- */

static fy_tv no_such_operation(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b)
{
    const char *type = fy_tv_type_name(a), *other = fy_tv_type_name(b);
    if (a->kind == FY_TV_UNDEFINED || b->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, a->kind == FY_TV_UNDEFINED ? a : b);
    if (a->kind == FY_TV_BIGINT || b->kind == FY_TV_BIGINT)
        return fy_tm_fail(m, "%s: integers beyond 64 bits can only be printed", sign_of(op));
    if (op == FY_OP_ADD && (a->kind == FY_TV_STR || fy_tv_is_list(a)))
        return fy_tm_fail(m, "can only concatenate %s (not \"%s\") to %s", type, other, type);
    return fy_tm_fail(m, "unsupported operand type(s) for %s: '%s' and '%s'", sign_of(op), type,
                      other);
}

fy_tv fy_tv_binary(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b)
{
    double x, y;
    if (fy_tv_is_int(a) && fy_tv_is_int(b) && op != FY_OP_DIV &&
        (op != FY_OP_POW || fy_tv_as_int(b) >= 0))
        return int_binary(m, op, fy_tv_as_int(a), fy_tv_as_int(b));
    if (fy_tv_as_float(a, &x) && fy_tv_as_float(b, &y))
        return float_binary(m, op, x, y);
    if (op == FY_OP_ADD && a->kind == b->kind && a->kind == FY_TV_STR)
        return add_strings(m, a, b);
    if (op == FY_OP_ADD && a->kind == b->kind && fy_tv_is_list(a))
        return add_lists(m, a, b);
    if (op == FY_OP_MUL && can_repeat(a, b))
        return repeat(m, a, b);
    if (op == FY_OP_MUL && can_repeat(b, a))
        return repeat(m, b, a);
    if (op == FY_OP_MOD && a->kind == FY_TV_STR)
        return fy_tv_percent(m, a, b);
    return no_such_operation(m, op, a, b);
}

fy_tv fy_tv_unary(fy_tm *m, fy_op op, const fy_tv *a)
{
    fy_tv zero = fy_tv_int(0);
    if (a->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, a);
    if (!is_number(a))
        return fy_tm_fail(m, "bad operand type for unary %s: '%s'", op == FY_OP_NEG ? "-" : "+",
                          fy_tv_type_name(a));
    if (a->kind == FY_TV_FLOAT)
        return fy_tv_float(op == FY_OP_NEG ? -a->f : a->f);
    return op == FY_OP_NEG ? fy_tv_binary(m, FY_OP_SUB, &zero, a) : fy_tv_int(fy_tv_as_int(a));
}
