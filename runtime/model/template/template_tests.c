/* The tests of `is`. */
#include "model/template/template_eval.h"

#define BIT(kind) (1u << (kind))
#define INTS      (BIT(FY_TV_INT) | BIT(FY_TV_BIGINT))
#define INDEXED                                                                                 \
    (BIT(FY_TV_STR) | BIT(FY_TV_LIST) | BIT(FY_TV_TUPLE) | BIT(FY_TV_DICT) | BIT(FY_TV_RANGE) | \
     BIT(FY_TV_UNDEFINED))

/* Is it one of the kinds, which are a bit each? */
static FY_BUILTIN(test_kind)
{
    return fy_tv_bool(f->variant >> v->kind & 1);
}

static FY_BUILTIN(test_constant)
{
    return fy_tv_bool(v->kind == FY_TV_BOOL && v->b == f->variant);
}

/* Python calls an undefined value callable: it has a way to be called, which fails. */
static FY_BUILTIN(test_callable)
{
    bool object = v->kind == FY_TV_CALLABLE || v->kind == FY_TV_OBJECT;
    return fy_tv_bool(v->kind == FY_TV_UNDEFINED || (object && v->call->call != NULL));
}

static fy_tv remainder_is(fy_tm *m, const fy_tv *v, const fy_tv *by, int64_t wanted)
{
    fy_tv rest = fy_tv_binary(m, FY_OP_MOD, v, by), want = fy_tv_int(wanted);
    return fy_tv_bool(fy_tv_equal(m, &rest, &want));
}

/* odd: a rest of one; even: of zero */
static FY_BUILTIN(test_odd)
{
    fy_tv two = fy_tv_int(2);
    return remainder_is(m, v, &two, f->variant);
}

static FY_BUILTIN(test_divisibleby)
{
    return remainder_is(m, v, &a->arg[0], 0);
}

static FY_BUILTIN(test_case)
{
    fy_span s = fy_tv_str(m, v).str;
    return fy_tv_bool(fy_tm_charge(m, s.len) && fy_tu_all_cased(s, f->variant == FY_TU_UPPER));
}

/* Identity: by value for what has no address of its own. */
static FY_BUILTIN(test_sameas)
{
    const fy_tv *other = &a->arg[0];
    bool by_value = v->kind <= FY_TV_STR && v->kind != FY_TV_UNDEFINED;
    return fy_tv_bool(v->kind == other->kind && v->markup == other->markup &&
                      (by_value ? fy_tv_equal(m, v, other)
                                : v->kind != FY_TV_UNDEFINED && v->call == other->call));
}

static FY_BUILTIN(test_relation)
{
    return fy_tv_bool(fy_tv_relate(m, (fy_op)f->variant, v, &a->arg[0]));
}

const fy_tbuiltin *fy_ttest_find(fy_span name)
{
    static const fy_tbuiltin tests[] = {
        {"defined", "/", test_kind, ~BIT(FY_TV_UNDEFINED)},
        {"undefined", "/", test_kind, BIT(FY_TV_UNDEFINED)},
        {"none", "/", test_kind, BIT(FY_TV_NONE)},
        {"string", "/", test_kind, BIT(FY_TV_STR)},
        {"mapping", "/", test_kind, BIT(FY_TV_DICT)},
        {"iterable", "/", test_kind, INDEXED | BIT(FY_TV_ITER) | BIT(FY_TV_VIEW)},
        {"sequence", "/", test_kind, INDEXED},
        {"true", "/", test_constant, true},
        {"false", "/", test_constant, false},
        {"boolean", "/", test_kind, BIT(FY_TV_BOOL)},
        {"number", "/", test_kind, INTS | BIT(FY_TV_BOOL) | BIT(FY_TV_FLOAT)},
        {"integer", "/", test_kind, INTS},
        {"float", "/", test_kind, BIT(FY_TV_FLOAT)},
        {"odd", "/", test_odd, 1},
        {"even", "/", test_odd, 0},
        {"divisibleby", "num", test_divisibleby, 0},
        {"lower", "/", test_case, FY_TU_LOWER},
        {"upper", "/", test_case, FY_TU_UPPER},
        {"callable", "/", test_callable, 0},
        {"sameas", "other", test_sameas, 0},
        {"in", "seq", test_relation, FY_OP_IN},
        {"==", "/other", test_relation, FY_OP_EQ},
        {"eq", "/other", test_relation, FY_OP_EQ},
        {"equalto", "/other", test_relation, FY_OP_EQ},
        {"!=", "/other", test_relation, FY_OP_NE},
        {"ne", "/other", test_relation, FY_OP_NE},
        {"<", "/other", test_relation, FY_OP_LT},
        {"lt", "/other", test_relation, FY_OP_LT},
        {"lessthan", "/other", test_relation, FY_OP_LT},
        {"<=", "/other", test_relation, FY_OP_LE},
        {"le", "/other", test_relation, FY_OP_LE},
        {">", "/other", test_relation, FY_OP_GT},
        {"gt", "/other", test_relation, FY_OP_GT},
        {"greaterthan", "/other", test_relation, FY_OP_GT},
        {">=", "/other", test_relation, FY_OP_GE},
        {"ge", "/other", test_relation, FY_OP_GE},
        {NULL, NULL, NULL, 0},
    };
    return fy_tbuiltin_find(tests, name);
}

bool fy_ttest_is_refused(fy_span name)
{
    return fy_tword_is_in(name, "escaped filter test");
}
