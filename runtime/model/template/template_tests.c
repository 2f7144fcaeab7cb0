/* The tests of `is`. */
#include <string.h>

#include "model/template/template_builtin.h"
#include "model/template/template_eval.h"

#define TEST(name) static int name(fy_tm *m, const fy_tv *v, const fy_targs *a, bool *out)

/* --- kinds --- */

#define BIT(kind) (1u << (kind))
#define INTS      (BIT(FY_TV_INT) | BIT(FY_TV_BIGINT))
#define INDEXED                                                                                 \
    (BIT(FY_TV_STR) | BIT(FY_TV_LIST) | BIT(FY_TV_TUPLE) | BIT(FY_TV_DICT) | BIT(FY_TV_RANGE) | \
     BIT(FY_TV_UNDEFINED))

#define KIND_TEST(name, kinds)             \
    TEST(test_##name)                      \
    {                                      \
        *out = (kinds) >> v->kind & 1;     \
        return fy_targs_none(m, #name, a); \
    }

KIND_TEST(undefined, BIT(FY_TV_UNDEFINED))
KIND_TEST(defined, ~BIT(FY_TV_UNDEFINED))
KIND_TEST(none, BIT(FY_TV_NONE))
KIND_TEST(boolean, BIT(FY_TV_BOOL))
KIND_TEST(integer, INTS)
KIND_TEST(float, BIT(FY_TV_FLOAT))
KIND_TEST(number, INTS | BIT(FY_TV_BOOL) | BIT(FY_TV_FLOAT))
KIND_TEST(string, BIT(FY_TV_STR))
KIND_TEST(mapping, BIT(FY_TV_DICT))
KIND_TEST(sequence, INDEXED)
KIND_TEST(iterable, INDEXED | BIT(FY_TV_ITER) | BIT(FY_TV_VIEW))

TEST(test_true)
{
    *out = v->kind == FY_TV_BOOL && v->b;
    return fy_targs_none(m, "true", a);
}

TEST(test_false)
{
    *out = v->kind == FY_TV_BOOL && !v->b;
    return fy_targs_none(m, "false", a);
}

/* Python calls an undefined value callable: it has a way to be called, which fails. */
TEST(test_callable)
{
    bool object = v->kind == FY_TV_CALLABLE || v->kind == FY_TV_OBJECT;
    *out = v->kind == FY_TV_UNDEFINED || (object && v->call->call != NULL);
    return fy_targs_none(m, "callable", a);
}

TEST(test_escaped)
{
    *out = v->kind == FY_TV_STR && v->markup;
    return fy_targs_none(m, "escaped", a);
}

/* --- numbers and text --- */

static int remainder_is(fy_tm *m, const fy_tv *v, const fy_tv *by, int64_t wanted, bool *out)
{
    fy_tv rest, want = fy_tv_int(wanted);
    if (fy_tv_binary(m, FY_OP_MOD, v, by, &rest) != 0)
        return -1;
    *out = fy_tv_equal(m, &rest, &want);
    return 0;
}

TEST(test_odd)
{
    fy_tv two = fy_tv_int(2);
    return fy_targs_none(m, "odd", a) != 0 ? -1 : remainder_is(m, v, &two, 1, out);
}

TEST(test_even)
{
    fy_tv two = fy_tv_int(2);
    return fy_targs_none(m, "even", a) != 0 ? -1 : remainder_is(m, v, &two, 0, out);
}

TEST(test_divisibleby)
{
    fy_tv by;
    return fy_targs_bind(m, "divisibleby num", a, &by) != 0 ? -1 : remainder_is(m, v, &by, 0, out);
}

static int is_cased(fy_tm *m, const char *what, const fy_tv *v, const fy_targs *a, bool upper,
                    bool *out)
{
    fy_tv s;
    if (fy_targs_none(m, what, a) != 0 || fy_tv_str(m, v, &s) != 0 ||
        fy_tm_charge(m, s.str.len) != 0)
        return -1;
    *out = fy_tu_all_cased(s.str, upper);
    return 0;
}

TEST(test_lower)
{
    return is_cased(m, "lower", v, a, false, out);
}

TEST(test_upper)
{
    return is_cased(m, "upper", v, a, true, out);
}

/* --- comparisons --- */

/* Identity: by value for what has no address of its own. */
TEST(test_sameas)
{
    fy_tv other;
    if (fy_targs_bind(m, "sameas other", a, &other) != 0)
        return -1;
    bool by_value = v->kind <= FY_TV_STR && v->kind != FY_TV_UNDEFINED;
    *out = v->kind == other.kind && v->markup == other.markup &&
           (by_value ? fy_tv_equal(m, v, &other)
                     : v->kind != FY_TV_UNDEFINED && v->call == other.call);
    return 0;
}

TEST(test_in)
{
    fy_tv seq;
    return fy_targs_bind(m, "in seq", a, &seq) != 0 ? -1 : fy_tv_contains(m, v, &seq, out);
}

#define COMPARE_TEST(name, op)                          \
    TEST(test_##name)                                   \
    {                                                   \
        if (fy_targs_count(m, #name, a, 1, 1) != 0)     \
            return -1;                                  \
        return fy_tv_relate(m, op, v, &a->arg[0], out); \
    }

COMPARE_TEST(eq, FY_OP_EQ)
COMPARE_TEST(ne, FY_OP_NE)
COMPARE_TEST(lt, FY_OP_LT)
COMPARE_TEST(le, FY_OP_LE)
COMPARE_TEST(gt, FY_OP_GT)
COMPARE_TEST(ge, FY_OP_GE)

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
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (fy_span_is(name, tests[i].name))
            return &tests[i];
    }
    return NULL;
}

bool fy_ttest_is_refused(fy_span name)
{
    return fy_span_is(name, "filter") || fy_span_is(name, "test");
}
