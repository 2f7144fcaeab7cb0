/* Expressions: names, calls, filters, tests, subscripts and operators. */
#include "model/template/template_eval.h"

#include <string.h>

enum {
    MAX_NESTING = 1200, /* of expressions and statements under way: bounds the C stack */
    FEW = 4,            /* arguments that need no memory of their own */
};

bool fy_eval_enter(fy_eval *ev)
{
    if (++ev->nesting > MAX_NESTING)
        fy_fail(ev->m.e, FY_EFIT, "line %u: the template's calls nest too deeply", ev->m.line);
    return fy_tm_ok(&ev->m);
}

/* --- text --- */

void fy_eval_emit(fy_eval *ev, fy_span s)
{
    if (!fy_tm_charge(&ev->m, s.len) || !fy_tm_take(&ev->m, s.len))
        return;
    fy_str_add(ev->out, s.ptr, s.len);
    if (ev->out->oom)
        fy_nomem(ev->m.e);
}

void fy_eval_drop(fy_eval *ev, size_t begin)
{
    ev->m.bytes_left += ev->out->len - begin;
    ev->out->len = begin;
    if (ev->out->ptr != NULL)
        ev->out->ptr[begin] = '\0';
}

fy_tv fy_eval_take(fy_eval *ev, size_t begin)
{
    fy_tv text = fy_tv_copy(&ev->m, (fy_span){fy_str_z(ev->out) + begin, ev->out->len - begin});
    if (fy_tm_ok(&ev->m))
        fy_eval_drop(ev, begin);
    return text;
}

static void print_kids(fy_eval *ev, const fy_node *n)
{
    for (uint32_t i = 0; i < n->kids.n; i++)
        fy_eval_print(ev, n->kids.item[i]);
}

void fy_eval_print(fy_eval *ev, const fy_node *n)
{
    fy_tv room;
    if (n->kind == FY_N_CONCAT) {
        print_kids(ev, n);
        return;
    }
    const fy_tv *v = fy_eval_peek(ev, n, &room);
    if (v->kind != FY_TV_UNDEFINED)
        fy_eval_emit(ev, v->kind == FY_TV_STR ? v->str : fy_tv_str(&ev->m, v).str);
}

/* --- names and literals --- */

/* A variable of the innermost scope that has it, of the template or the rendering, or a global. */
static const fy_tv *value_of(fy_eval *ev, uint32_t symbol)
{
    for (const fy_frame *f = ev->frame; f != NULL; f = f->outer) {
        for (uint32_t i = 0; i < f->n; i++) {
            if (f->item[i].symbol == symbol)
                return &f->item[i].value;
        }
    }
    fy_tv *v = &ev->top[symbol];
    fy_span name = ev->t->symbols[symbol];
    if (ev->is_known[symbol])
        return v;
    if (!fy_template_vars_get(ev->vars, name, v) && !fy_tglobal_find(&ev->m, name, v))
        *v = fy_tv_undefined(name);
    ev->is_known[symbol] = true;
    return v;
}

static fy_tv eval_list(fy_eval *ev, const fy_node *n)
{
    fy_tv list = fy_tv_list(&ev->m, n->kind == FY_N_LIST ? FY_TV_LIST : FY_TV_TUPLE, n->kids.n);
    for (uint32_t i = 0; i < n->kids.n; i++)
        fy_tlist_add(&ev->m, list.list, fy_eval_expr(ev, n->kids.item[i]));
    return list;
}

static fy_tv eval_dict(fy_eval *ev, const fy_node *n)
{
    fy_tv dict = fy_tv_dict(&ev->m, FY_TV_DICT, n->kids.n / 2);
    for (uint32_t i = 0; i + 1 < n->kids.n; i += 2) {
        fy_tv key = fy_eval_expr(ev, n->kids.item[i]);
        fy_tdict_set(&ev->m, dict.dict, key, fy_eval_expr(ev, n->kids.item[i + 1]));
    }
    return dict;
}

/* --- arguments --- */

/* The keyword arguments of **d, after those that are there. */
static void add_dict(fy_eval *ev, const fy_tdict *d, fy_span *name, fy_tv *named, size_t *n)
{
    for (size_t i = 0; i < d->n && fy_tm_charge(&ev->m, 16 * (uint64_t)(*n + 1)); i++) {
        const fy_tv *key = &d->items[i].key;
        fy_targs before = {.name = name, .named = named, .n_named = *n};
        if (key->kind != FY_TV_STR)
            fy_tm_fail(&ev->m, "keywords must be strings");
        else if (fy_targs_named(&before, key->str) != NULL)
            fy_tm_fail(&ev->m, "got multiple values for keyword argument '%.*s'",
                       FY_TSHOWN(key->str));
        name[*n] = key->str;
        named[(*n)++] = d->items[i].value;
    }
}

/* `few` has room for FEW values and holds the arguments if there are no more. `caller` (or NULL) is
 * one more keyword argument. */
static fy_targs eval_args(fy_eval *ev, const fy_node_args *a, const fy_tv *caller, fy_tv *few)
{
    static const fy_node_args none;
    static const fy_tdict no_dict;
    fy_tlist star = {0};
    const fy_tdict *d = &no_dict;
    if (a == NULL)
        a = &none;
    if (a->star != NULL) {
        fy_tv v = fy_eval_expr(ev, a->star);
        star = fy_tv_items(&ev->m, &v);
    }
    if (a->dstar != NULL) {
        fy_tv v = fy_eval_expr(ev, a->dstar);
        if (v.kind == FY_TV_DICT)
            d = v.dict;
        else
            fy_tm_fail(&ev->m, "argument after ** must be a mapping, not %s", fy_tv_type_name(&v));
    }
    size_t n = a->args.n + star.n, n_named = a->values.n;
    size_t room = n_named + (caller != NULL) + d->n;
    fy_tv *arg = n + room <= FEW ? few : fy_tm_alloc(&ev->m, (n + room) * sizeof *arg);
    if (arg == NULL)
        return (fy_targs){0};
    for (uint32_t i = 0; i < a->args.n; i++)
        arg[i] = fy_eval_expr(ev, a->args.item[i]);
    for (uint32_t i = 0; i < a->values.n; i++)
        arg[n + i] = fy_eval_expr(ev, a->values.item[i]);
    for (size_t i = 0; i < star.n; i++)
        arg[a->args.n + i] = star.item[i];
    if (room == n_named)
        return (fy_targs){arg, n, a->names, arg + n, n_named};
    fy_span *name = fy_tm_alloc(&ev->m, room * sizeof *name);
    if (name == NULL)
        return (fy_targs){0};
    for (size_t i = 0; i < n_named; i++)
        name[i] = a->names[i];
    if (caller != NULL) {
        name[n_named] = FY_SPAN("caller");
        arg[n + n_named++] = *caller;
    }
    add_dict(ev, d, name, arg + n, &n_named);
    return (fy_targs){arg, n, name, arg + n, n_named};
}

/* --- calls, filters, tests --- */

fy_tv fy_eval_call(fy_eval *ev, const fy_node *n, const fy_tv *caller)
{
    fy_tv few[FEW], f = fy_eval_expr(ev, n->a);
    fy_targs args = eval_args(ev, n->args, caller, few);
    ev->m.line = n->line;
    return fy_tv_call(&ev->m, &f, &args);
}

/* A filter or a test. */
static fy_tv run_builtin(fy_eval *ev, const fy_node *n, const fy_tv *v)
{
    fy_tv few[FEW];
    bool filter = n->kind == FY_N_FILTER;
    const char *what = filter ? "filter" : "test";
    fy_targs args = eval_args(ev, n->args, NULL, few);
    ev->m.line = n->line;
    if (n->builtin != NULL)
        return fy_tbuiltin_run(&ev->m, n->builtin, v, &args);
    if (filter ? fy_tfilter_is_refused(n->str) : fy_ttest_is_refused(n->str))
        return fy_tm_fail(&ev->m, "%s '%.*s' is not supported", what, FY_TSHOWN(n->str));
    return fy_tm_fail(&ev->m, "no %s named '%.*s'", what, FY_TSHOWN(n->str));
}

/* --- items and operators --- */

static fy_tv get_slice(fy_eval *ev, const fy_node *n, const fy_tv *v)
{
    const fy_node *part[3] = {n->b->a, n->b->b, n->b->c};
    fy_tv bound[3];
    for (int i = 0; i < 3; i++)
        bound[i] = part[i] != NULL ? fy_eval_expr(ev, part[i]) : fy_tv_none();
    ev->m.line = n->line;
    return fy_tv_slice(&ev->m, v, bound);
}

/* a[b] or a + b */
static fy_tv run_pair(fy_eval *ev, const fy_node *n, const fy_tv *a)
{
    fy_tv room;
    if (n->b->kind == FY_N_SLICE)
        return get_slice(ev, n, a);
    const fy_tv *b = fy_eval_peek(ev, n->b, &room);
    ev->m.line = n->line;
    return n->kind == FY_N_GETITEM ? fy_tv_getitem(&ev->m, a, b)
                                   : fy_tv_binary(&ev->m, n->op, a, b);
}

/* Each operand of the chain is evaluated once, and none after the first comparison that fails. */
static fy_tv run_compare(fy_eval *ev, const fy_node *n, const fy_tv *a)
{
    fy_tv room[2];
    bool yes = true;
    for (uint32_t i = 0; yes && i < n->kids.n; i++) {
        const fy_tv *b = fy_eval_peek(ev, n->kids.item[i], &room[i % 2]);
        ev->m.line = n->line;
        yes = fy_tv_relate(&ev->m, n->ops[i], a, b);
        a = b;
    }
    return fy_tv_bool(yes);
}

static fy_tv eval_and_or(fy_eval *ev, const fy_node *n)
{
    fy_tv v = fy_eval_expr(ev, n->a);
    return fy_tv_truth(&v) == (n->kind == FY_N_AND) ? fy_eval_expr(ev, n->b) : v;
}

static fy_tv eval_cond(fy_eval *ev, const fy_node *n)
{
    fy_tv room;
    if (fy_tv_truth(fy_eval_peek(ev, n->b, &room)))
        return fy_eval_expr(ev, n->a);
    if (n->c != NULL)
        return fy_eval_expr(ev, n->c);
    return fy_tv_hint(
        FY_SPAN("the inline if-expression evaluated to false and no else section was defined."));
}

static fy_tv eval_concat(fy_eval *ev, const fy_node *n)
{
    size_t begin = ev->out->len;
    print_kids(ev, n);
    return fy_eval_take(ev, begin);
}

/* --- all of them --- */

/* What has one operand that is always evaluated first. */
static fy_tv eval_operator(fy_eval *ev, const fy_node *n)
{
    fy_tv room = ev->piped; /* of a filter without operand */
    const fy_tv *a = n->a == NULL ? &room : fy_eval_peek(ev, n->a, &room);
    ev->m.line = n->line;
    switch ((int)n->kind) {
    case FY_N_FILTER:
    case FY_N_TEST:
        return run_builtin(ev, n, a);
    case FY_N_GETATTR:
        return fy_tv_getattr(&ev->m, a, n->str);
    case FY_N_COMPARE:
        return run_compare(ev, n, a);
    case FY_N_UNARY:
        return n->op == FY_OP_NOT ? fy_tv_bool(!fy_tv_truth(a)) : fy_tv_unary(&ev->m, n->op, a);
    default: /* FY_N_GETITEM, FY_N_BINARY */
        return run_pair(ev, n, a);
    }
}

static fy_tv eval_inner(fy_eval *ev, const fy_node *n)
{
    switch ((int)n->kind) {
    case FY_N_LIST:
    case FY_N_TUPLE:
        return eval_list(ev, n);
    case FY_N_DICT:
        return eval_dict(ev, n);
    case FY_N_CALL:
        return fy_eval_call(ev, n, NULL);
    case FY_N_CONCAT:
        return eval_concat(ev, n);
    case FY_N_AND:
    case FY_N_OR:
        return eval_and_or(ev, n);
    case FY_N_COND:
        return eval_cond(ev, n);
    default:
        return eval_operator(ev, n);
    }
}

const fy_tv *fy_eval_peek(fy_eval *ev, const fy_node *n, fy_tv *room)
{
    if (n->kind == FY_N_CONST)
        return &n->value;
    if (n->kind == FY_N_NAME)
        return value_of(ev, n->symbol);
    *room = fy_eval_expr(ev, n);
    return room;
}

fy_tv fy_eval_expr(fy_eval *ev, const fy_node *n)
{
    if (n->kind == FY_N_CONST)
        return n->value;
    if (n->kind == FY_N_NAME)
        return *value_of(ev, n->symbol);
    ev->m.line = n->line;
    if (!fy_tm_charge(&ev->m, 16))
        return fy_tv_none();
    fy_tv v = fy_eval_enter(ev) ? eval_inner(ev, n) : fy_tv_none();
    ev->nesting--;
    return v;
}
