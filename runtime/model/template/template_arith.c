/* Python's arithmetic on values. Integers have 64 bits: what does not fit is an error, not a larger
 * number. */
#include "model/template/template_eval.h"

#include <math.h>
#include <string.h>

#include "model/template/template_builtin.h"

/* --- messages --------------------------------------------------------------------------------- */

static const char *sign_of(fy_op op)
{
    static const char *const signs[] = {
        [FY_OP_ADD] = "+",       [FY_OP_SUB] = "-", [FY_OP_MUL] = "*",          [FY_OP_DIV] = "/",
        [FY_OP_FLOORDIV] = "//", [FY_OP_MOD] = "%", [FY_OP_POW] = "** or pow()"};
    return signs[op];
}

static int no_such_operation(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b)
{
    if (a->kind == FY_TV_UNDEFINED || b->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, a->kind == FY_TV_UNDEFINED ? a : b);
    if (a->kind == FY_TV_BIGINT || b->kind == FY_TV_BIGINT)
        return fy_tm_fail(m, "%s: integers beyond 64 bits can only be printed", sign_of(op));
    if (op == FY_OP_ADD && a->kind == FY_TV_STR)
        return fy_tm_fail(m, "can only concatenate str (not \"%s\") to str", fy_tv_type_name(b));
    if (op == FY_OP_ADD && (a->kind == FY_TV_LIST || a->kind == FY_TV_TUPLE)) {
        const char *type = fy_tv_type_name(a);
        return fy_tm_fail(m, "can only concatenate %s (not \"%s\") to %s", type, fy_tv_type_name(b),
                          type);
    }
    return fy_tm_fail(m, "unsupported operand type(s) for %s: '%s' and '%s'", sign_of(op),
                      fy_tv_type_name(a), fy_tv_type_name(b));
}

static int too_large(fy_tm *m, fy_op op)
{
    return fy_tm_fail(m, "%s: the result does not fit an integer of 64 bits", sign_of(op));
}

/* --- integers --------------------------------------------------------------------------------- */

static int int_power(fy_tm *m, int64_t base, int64_t exponent, fy_tv *out)
{
    int64_t r = 1;
    if (exponent < 0) {
        if (base == 0)
            return fy_tm_fail(m, "0.0 cannot be raised to a negative power");
        *out = fy_tv_float(pow((double)base, (double)exponent));
        return 0;
    }
    if (base == 0 || base == 1 || base == -1) {
        r = exponent == 0 || base == 1 ? 1 : base == 0 ? 0 : exponent % 2 == 0 ? 1 : -1;
        exponent = 0;
    }
    for (; exponent > 0; exponent--) { /* at most 63 rounds before it overflows */
        if (__builtin_mul_overflow(r, base, &r))
            return too_large(m, FY_OP_POW);
    }
    *out = fy_tv_int(r);
    return 0;
}

/* a / b rounded once where a double holds both; beyond that a long double does, which may round a
 * second time. */
static double quotient(int64_t a, int64_t b)
{
    const int64_t exact = (int64_t)1 << 53;
    if (a >= -exact && a <= exact && b >= -exact && b <= exact)
        return (double)a / (double)b;
    return (double)((long double)a / (long double)b);
}

static int int_divide(fy_tm *m, fy_op op, int64_t a, int64_t b, fy_tv *out)
{
    if (b == 0)
        return fy_tm_fail(m, op == FY_OP_DIV ? "division by zero"
                                             : "integer division or modulo by zero");
    if (op == FY_OP_DIV) {
        *out = fy_tv_float(quotient(a, b));
        return 0;
    }
    if (b == -1) { /* INT64_MIN / -1 is the one quotient that does not fit */
        int64_t negated;
        if (op == FY_OP_FLOORDIV && __builtin_sub_overflow(0, a, &negated))
            return too_large(m, op);
        *out = fy_tv_int(op == FY_OP_MOD ? 0 : negated);
        return 0;
    }
    int64_t q = a / b, r = a % b;
    if (r != 0 && (r < 0) != (b < 0)) {
        q--;
        r += b;
    }
    *out = fy_tv_int(op == FY_OP_MOD ? r : q);
    return 0;
}

static int int_binary(fy_tm *m, fy_op op, int64_t a, int64_t b, fy_tv *out)
{
    int64_t r;
    bool over;
    if (op == FY_OP_POW)
        return int_power(m, a, b, out);
    if (op == FY_OP_DIV || op == FY_OP_FLOORDIV || op == FY_OP_MOD)
        return int_divide(m, op, a, b, out);
    over = op == FY_OP_ADD   ? __builtin_add_overflow(a, b, &r)
           : op == FY_OP_SUB ? __builtin_sub_overflow(a, b, &r)
                             : __builtin_mul_overflow(a, b, &r);
    if (over)
        return too_large(m, op);
    *out = fy_tv_int(r);
    return 0;
}

/* --- floats ----------------------------------------------------------------------------------- */

/* CPython's _float_div_mod. */
static void float_divmod(double a, double b, double *quotient, double *rest)
{
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    double whole = div != 0 ? floor(div) : copysign(0, a / b);
    if (div != 0 && div - whole > 0.5)
        whole += 1;
    *quotient = whole;
    *rest = mod;
}

static int float_power(fy_tm *m, double a, double b, fy_tv *out)
{
    if (a == 0 && b < 0)
        return fy_tm_fail(m, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return fy_tm_fail(m, "**: a negative number to a fractional power is not real");
    double r = pow(a, b);
    if (isinf(r) && isfinite(a) && isfinite(b))
        return fy_tm_fail(m, "(34, 'Numerical result out of range')");
    *out = fy_tv_float(r);
    return 0;
}

static int float_binary(fy_tm *m, fy_op op, double a, double b, fy_tv *out)
{
    double quotient, rest;
    if (op == FY_OP_POW)
        return float_power(m, a, b, out);
    if (op == FY_OP_DIV || op == FY_OP_FLOORDIV || op == FY_OP_MOD) {
        if (b == 0)
            return fy_tm_fail(m, op == FY_OP_DIV        ? "float division by zero"
                                 : op == FY_OP_FLOORDIV ? "float floor division by zero"
                                                        : "float modulo");
        if (op == FY_OP_DIV) {
            *out = fy_tv_float(a / b);
        } else {
            float_divmod(a, b, &quotient, &rest);
            *out = fy_tv_float(op == FY_OP_MOD ? rest : quotient);
        }
        return 0;
    }
    *out = fy_tv_float(op == FY_OP_ADD ? a + b : op == FY_OP_SUB ? a - b : a * b);
    return 0;
}

/* --- strings and lists ------------------------------------------------------------------------ */

/* Appends to the string that was made last, where it lies: `s = s + x` in a loop copies each piece
 * once. Nothing else can see the bytes behind it. */
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

static int escaped(fy_tm *m, const fy_tv *v, fy_span *out)
{
    fy_tbuf b = {0};
    *out = v->str;
    if (v->markup)
        return 0;
    if (fy_tu_put_escaped(m, &b, v->str) != 0)
        return -1;
    *out = (fy_span){b.ptr, b.len};
    return 0;
}

static int add_strings(fy_tm *m, const fy_tv *a, const fy_tv *b, fy_tv *out)
{
    fy_span x = a->str, y = b->str;
    bool markup = a->markup || b->markup;
    if (markup && (escaped(m, a, &x) != 0 || escaped(m, b, &y) != 0))
        return -1;
    if (join_text(m, x, y, out) != 0)
        return -1;
    out->markup = markup;
    return 0;
}

static int add_lists(fy_tm *m, const fy_tv *a, const fy_tv *b, fy_tv *out)
{
    size_t n;
    if (__builtin_add_overflow(a->list->n, b->list->n, &n))
        n = SIZE_MAX;
    if (fy_tv_list(m, (fy_tv_kind)a->kind, n, out) != 0)
        return -1;
    for (size_t i = 0; i < a->list->n; i++)
        out->list->item[i] = a->list->item[i];
    for (size_t i = 0; i < b->list->n; i++)
        out->list->item[a->list->n + i] = b->list->item[i];
    return 0;
}

static int repeat_list(fy_tm *m, const fy_tv *v, uint64_t times, fy_tv *out)
{
    size_t n = v->list->n, total;
    if (__builtin_mul_overflow(n, times, &total))
        total = SIZE_MAX;
    if (fy_tv_list(m, (fy_tv_kind)v->kind, total, out) != 0)
        return -1;
    for (size_t i = 0; i < total; i++)
        out->list->item[i] = v->list->item[i % n];
    return 0;
}

/* A string, list or tuple times a number, in either order. 0: they are not. */
static int repeat(fy_tm *m, const fy_tv *v, const fy_tv *count, fy_tv *out)
{
    fy_tbuf b = {0};
    if (!fy_tv_is_int(count) ||
        (v->kind != FY_TV_STR && v->kind != FY_TV_LIST && v->kind != FY_TV_TUPLE))
        return 0;
    int64_t i = fy_tv_as_int(count);
    uint64_t times = i > 0 ? (uint64_t)i : 0;
    if (v->kind != FY_TV_STR)
        return repeat_list(m, v, times, out) == 0 ? 1 : -1;
    if (fy_tu_repeat(m, &b, v->str, times) != 0)
        return -1;
    *out = fy_tbuf_value(&b, v->markup);
    return 1;
}

/* --- operators -------------------------------------------------------------------------------- */

static int binary_of_others(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b, fy_tv *out)
{
    if (op == FY_OP_ADD && a->kind == b->kind) {
        if (a->kind == FY_TV_STR)
            return add_strings(m, a, b, out);
        if (a->kind == FY_TV_LIST || a->kind == FY_TV_TUPLE)
            return add_lists(m, a, b, out);
    }
    if (op == FY_OP_MUL) {
        int rc = repeat(m, a, b, out);
        if (rc == 0)
            rc = repeat(m, b, a, out);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    }
    if (op == FY_OP_MOD && a->kind == FY_TV_STR)
        return fy_tv_percent(m, a, b, out);
    return no_such_operation(m, op, a, b);
}

int fy_tv_binary(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b, fy_tv *out)
{
    double x, y;
    if (fy_tv_is_int(a) && fy_tv_is_int(b))
        return int_binary(m, op, fy_tv_as_int(a), fy_tv_as_int(b), out);
    bool floats = a->kind == FY_TV_FLOAT || b->kind == FY_TV_FLOAT; /* big ints do not count */
    if (floats && fy_tv_as_float(a, &x) && fy_tv_as_float(b, &y))
        return float_binary(m, op, x, y, out);
    return binary_of_others(m, op, a, b, out);
}

int fy_tv_add(fy_tm *m, const fy_tv *a, const fy_tv *b, fy_tv *out)
{
    return fy_tv_binary(m, FY_OP_ADD, a, b, out);
}

int fy_tv_unary(fy_tm *m, fy_op op, const fy_tv *a, fy_tv *out)
{
    int64_t i;
    if (a->kind == FY_TV_FLOAT) {
        *out = fy_tv_float(op == FY_OP_NEG ? -a->f : a->f);
        return 0;
    }
    if (fy_tv_is_int(a)) {
        i = fy_tv_as_int(a);
        if (op == FY_OP_NEG && __builtin_sub_overflow(0, i, &i))
            return too_large(m, FY_OP_SUB);
        *out = fy_tv_int(i);
        return 0;
    }
    if (a->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, a);
    return fy_tm_fail(m, "bad operand type for unary %s: '%s'", op == FY_OP_NEG ? "-" : "+",
                      fy_tv_type_name(a));
}
