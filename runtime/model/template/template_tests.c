/* The tests of `is`. */
#include "model/template/template_builtin.h"

#include <math.h>
#include <string.h>

#define TEST(name) static int name(fy_tm *m, const fy_tv *v, const fy_targs *a, bool *out)

/* The one argument of a test. */
static int argument(fy_tm *m, const char *what, const char *name, const fy_targs *a, fy_tv *out)
{
    bool given;
    return fy_targs_bind(m, what, a, &name, 1, 1, out, &given);
}

/* --- kinds --------------------------------------------------------------------------------------
 */

static uint32_t bit(fy_tv_kind kind)
{
    return 1u << kind;
}

static int is_one_of(fy_tm *m, const char *what, const fy_tv *v, const fy_targs *a, uint32_t kinds,
                     bool *out)
{
    *out = kinds >> v->kind & 1;
    return fy_targs_none(m, what, a);
}

#define KIND_TEST(name, kinds)                        \
    TEST(name)                                        \
    {                                                 \
        return is_one_of(m, #name, v, a, kinds, out); \
    }

#define INTS (bit(FY_TV_INT) | bit(FY_TV_BIGINT))
#define INDEXED                                                                                 \
    (bit(FY_TV_STR) | bit(FY_TV_LIST) | bit(FY_TV_TUPLE) | bit(FY_TV_DICT) | bit(FY_TV_RANGE) | \
     bit(FY_TV_UNDEFINED))

KIND_TEST(test_undefined, bit(FY_TV_UNDEFINED))
KIND_TEST(test_defined, ~bit(FY_TV_UNDEFINED))
KIND_TEST(test_none, bit(FY_TV_NONE))
KIND_TEST(test_boolean, bit(FY_TV_BOOL))
KIND_TEST(test_integer, INTS)
KIND_TEST(test_float, bit(FY_TV_FLOAT))
KIND_TEST(test_number, INTS | bit(FY_TV_BOOL) | bit(FY_TV_FLOAT))
KIND_TEST(test_string, bit(FY_TV_STR))
KIND_TEST(test_mapping, bit(FY_TV_DICT))
KIND_TEST(test_sequence, INDEXED)

TEST(test_true)
{
    *out = fy_tv_is(v, FY_TV_BOOL) && v->b;
    return fy_targs_none(m, "true", a);
}

TEST(test_false)
{
    *out = fy_tv_is(v, FY_TV_BOOL) && !v->b;
    return fy_targs_none(m, "false", a);
}

TEST(test_iterable)
{
    bool loop = fy_tv_is(v, FY_TV_OBJECT) && strcmp(v->call->type, "loop") == 0;
    *out = loop || ((INDEXED | bit(FY_TV_ITER) | bit(FY_TV_VIEW)) >> v->kind & 1);
    return fy_targs_none(m, "iterable", a);
}

/* Python calls an undefined callable: it has a way to be called, which fails. */
TEST(test_callable)
{
    bool object = fy_tv_is(v, FY_TV_CALLABLE) || fy_tv_is(v, FY_TV_OBJECT);
    *out = fy_tv_is(v, FY_TV_UNDEFINED) || (object && v->call->call);
    return fy_targs_count(m, "callable", a, 0, 0);
}

TEST(test_escaped)
{
    *out = fy_tv_is(v, FY_TV_STR) && v->markup;
    return fy_targs_none(m, "escaped", a);
}

/* --- numbers ------------------------------------------------------------------------------------
 */

/* The remainder of a big int by a small one, digit by digit. */
static int64_t big_remainder(fy_span digits, int64_t by)
{
    int64_t r = 0, size = by < 0 ? -by : by;
    bool negative = digits.ptr[0] == '-';
    for (size_t i = negative; i < digits.len; i++)
        r = (r * 10 + (digits.ptr[i] - '0')) % size;
    r = negative ? -r : r;
    return r != 0 && (r < 0) != (by < 0) ? r + by : r;
}

/* v % by == wanted, with Python's sign of the remainder. */
static int remainder_is(fy_tm *m, const fy_tv *v, const fy_tv *by, int64_t wanted, bool *out)
{
    double x, y;
    if (fy_tv_is(v, FY_TV_UNDEFINED))
        return fy_tv_undefined_fail(m, v);
    if (fy_tv_is(v, FY_TV_STR)) { /* % of a string formats, and text equals no number */
        fy_tv text;
        *out = false;
        return fy_tv_percent(m, v, by, &text);
    }
    if (fy_tv_is_int(v) && fy_tv_is_int(by)) {
        int64_t i = fy_tv_as_int(v), n = fy_tv_as_int(by);
        if (n == 0)
            return fy_tm_fail(m, "integer division or modulo by zero");
        int64_t r = n == -1 ? 0 : i % n;
        *out = (r != 0 && (r < 0) != (n < 0) ? r + n : r) == wanted;
        return 0;
    }
    const int64_t limit = (int64_t)1 << 59;
    if (fy_tv_is(v, FY_TV_BIGINT) && fy_tv_is_int(by) && fy_tv_as_int(by) != 0 &&
        fy_tv_as_int(by) < limit && fy_tv_as_int(by) > -limit) {
        *out = big_remainder(v->str, fy_tv_as_int(by)) == wanted;
        return fy_tm_charge(m, v->str.len);
    }
    bool floats = fy_tv_is(v, FY_TV_FLOAT) || fy_tv_is(by, FY_TV_FLOAT);
    if (!floats || !fy_tv_as_float(v, &x) || !fy_tv_as_float(by, &y))
        return fy_tm_fail(m, "unsupported operand type(s) for %%: '%s' and '%s'",
                          fy_tv_type_name(v), fy_tv_type_name(by));
    if (y == 0)
        return fy_tm_fail(m, "float modulo");
    double r = fmod(x, y);
    *out = (r != 0 && (r < 0) != (y < 0) ? r + y : r) == (double)wanted;
    return 0;
}

TEST(test_odd)
{
    fy_tv two = fy_tv_int(2);
    return fy_targs_none(m, "odd", a) ? -1 : remainder_is(m, v, &two, 1, out);
}

TEST(test_even)
{
    fy_tv two = fy_tv_int(2);
    return fy_targs_none(m, "even", a) ? -1 : remainder_is(m, v, &two, 0, out);
}

TEST(test_divisibleby)
{
    fy_tv by;
    return argument(m, "divisibleby", "num", a, &by) ? -1 : remainder_is(m, v, &by, 0, out);
}

/* --- text ---------------------------------------------------------------------------------------
 */

bool fy_tu_all_cased(fy_span s, bool upper)
{
    bool cased = false;
    for (const char *p = s.ptr, *end = p + s.len; p < end;) {
        uint32_t cp = fy_tu_next(&p, end);
        bool is_upper = fy_tu_is_upper(cp), is_lower = fy_tu_is_lower(cp);
        if (fy_tu_is_title(cp) || (upper ? is_lower : is_upper))
            return false;
        cased = cased || is_upper || is_lower;
    }
    return cased;
}

static int is_cased(fy_tm *m, const fy_tv *v, bool upper, bool *out)
{
    fy_tv s;
    if (fy_tv_str(m, v, &s) || fy_tm_charge(m, s.str.len))
        return -1;
    *out = fy_tu_all_cased(s.str, upper);
    return 0;
}

TEST(test_lower)
{
    return fy_targs_none(m, "lower", a) ? -1 : is_cased(m, v, false, out);
}

TEST(test_upper)
{
    return fy_targs_none(m, "upper", a) ? -1 : is_cased(m, v, true, out);
}

/* Looking up what is no name finds nothing, but fails for what cannot be a key. */
static int is_key(fy_tm *m, const fy_tv *v)
{
    fy_tv names, found;
    if (fy_tv_is(v, FY_TV_STR))
        return 0;
    return fy_tv_dict(m, FY_TV_DICT, 0, &names) || fy_tdict_lookup(m, names.dict, v, &found) < 0
               ? -1
               : 0;
}

TEST(test_filter)
{
    *out = fy_tv_is(v, FY_TV_STR) && fy_tfilter_find(v->str);
    return fy_targs_none(m, "filter", a) || is_key(m, v) ? -1 : 0;
}

TEST(test_test)
{
    *out = fy_tv_is(v, FY_TV_STR) && fy_ttest_find(v->str);
    return fy_targs_none(m, "test", a) || is_key(m, v) ? -1 : 0;
}

/* --- comparisons --------------------------------------------------------------------------------
 */

/* Identity: by value for what has no address of its own. */
TEST(test_sameas)
{
    fy_tv other;
    if (argument(m, "sameas", "other", a, &other))
        return -1;
    *out = false;
    if (v->kind != other.kind)
        return 0;
    switch ((fy_tv_kind)v->kind) {
    case FY_TV_NONE:
        *out = true;
        break;
    case FY_TV_BOOL:
        *out = v->b == other.b;
        break;
    case FY_TV_INT:
        *out = v->i == other.i;
        break;
    case FY_TV_FLOAT:
        *out = v->f == other.f;
        break;
    case FY_TV_UNDEFINED: /* every look-up makes a new one */
        break;
    case FY_TV_BIGINT:
    case FY_TV_STR:
        *out = v->markup == other.markup && fy_span_eq(v->str, other.str);
        break;
    case FY_TV_LIST:
    case FY_TV_TUPLE:
    case FY_TV_ITER:
    case FY_TV_DICT:
    case FY_TV_VIEW:
    case FY_TV_RANGE:
    case FY_TV_NAMESPACE:
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        *out = v->list == other.list;
        break;
    }
    return 0;
}

TEST(test_in)
{
    fy_tv seq;
    return argument(m, "in", "seq", a, &seq) ? -1 : fy_tv_contains(m, v, &seq, out);
}

enum { LESS = 1, EQUAL = 2, GREATER = 4 };

static int compare(fy_tm *m, const char *what, const fy_tv *v, const fy_targs *a, int wanted,
                   bool *out)
{
    int order;
    if (fy_targs_count(m, what, a, 1, 1))
        return -1;
    const fy_tv *w = &a->arg[0];
    bool nan =
        (fy_tv_is(v, FY_TV_FLOAT) && isnan(v->f)) || (fy_tv_is(w, FY_TV_FLOAT) && isnan(w->f));
    if (fy_tv_compare(m, v, w, &order))
        return -1;
    *out = !nan && (wanted & (order < 0 ? LESS : order == 0 ? EQUAL : GREATER));
    return 0;
}

TEST(test_eq)
{
    if (fy_targs_count(m, "eq", a, 1, 1))
        return -1;
    *out = fy_tv_equal(m, v, &a->arg[0]);
    return m->e->code ? -1 : 0;
}

TEST(test_ne)
{
    if (test_eq(m, v, a, out))
        return -1;
    *out = !*out;
    return 0;
}

TEST(test_lt)
{
    return compare(m, "lt", v, a, LESS, out);
}

TEST(test_le)
{
    return compare(m, "le", v, a, LESS | EQUAL, out);
}

TEST(test_gt)
{
    return compare(m, "gt", v, a, GREATER, out);
}

TEST(test_ge)
{
    return compare(m, "ge", v, a, GREATER | EQUAL, out);
}

static const fy_ttest tests[] = {
    {"defined", test_defined},
    {"undefined", test_undefined},
    {"none", test_none},
    {"string", test_string},
    {"mapping", test_mapping},
    {"iterable", test_iterable},
    {"sequence", test_sequence},
    {"true", test_true},
    {"false", test_false},
    {"boolean", test_boolean},
    {"number", test_number},
    {"integer", test_integer},
    {"float", test_float},
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisibleby},
    {"lower", test_lower},
    {"upper", test_upper},
    {"callable", test_callable},
    {"escaped", test_escaped},
    {"filter", test_filter},
    {"test", test_test},
    {"sameas", test_sameas},
    {"in", test_in},
    {"==", test_eq},
    {"eq", test_eq},
    {"equalto", test_eq},
    {"!=", test_ne},
    {"ne", test_ne},
    {"<", test_lt},
    {"lt", test_lt},
    {"lessthan", test_lt},
    {"<=", test_le},
    {"le", test_le},
    {">", test_gt},
    {"gt", test_gt},
    {"greaterthan", test_gt},
    {">=", test_ge},
    {"ge", test_ge},
};

const fy_ttest *fy_ttest_find(fy_span name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (fy_span_is(name, tests[i].name))
            return &tests[i];
    return NULL;
}
