/* Expressions: names, calls, filters, tests, subscripts and operators. */
#include "model/template/template_builtin.h"
#include "model/template/template_eval.h"

#include <string.h>

enum {
    MAX_NESTING = 1200, /* of expressions and statements under way: bounds the C stack */
    FEW = 4,            /* arguments that need no memory of their own */
};

int fy_eval_deeper(fy_eval *ev)
{
    if (++ev->nesting > MAX_NESTING)
        return fy_fail(ev->m.e, FY_EFIT, "line %u: the template's calls nest too deeply",
                       ev->m.line);
    return 0;
}

/* --- text --- */

int fy_eval_emit(fy_eval *ev, fy_span s)
{
    if (fy_tm_charge(&ev->m, s.len) != 0)
        return -1;
    if (fy_tm_take(&ev->m, s.len) != 0)
        return -1;
    fy_str_add(ev->out, s.ptr, s.len);
    return ev->out->oom ? fy_nomem(ev->m.e) : 0;
}

void fy_eval_drop(fy_eval *ev, size_t begin)
{
    ev->m.bytes_left += ev->out->len - begin;
    ev->out->len = begin;
    if (ev->out->ptr != NULL)
        ev->out->ptr[begin] = '\0';
}

int fy_eval_take(fy_eval *ev, size_t begin, fy_tv *out)
{
    if (fy_tv_copy(&ev->m, (fy_span){fy_str_z(ev->out) + begin, ev->out->len - begin}, out) != 0)
        return -1;
    fy_eval_drop(ev, begin);
    return 0;
}

static int emit_value(fy_eval *ev, const fy_tv *v)
{
    fy_tv text;
    if (v->kind == FY_TV_STR)
        return fy_eval_emit(ev, v->str);
    if (v->kind == FY_TV_UNDEFINED)
        return 0;
    return fy_tv_str(&ev->m, v, &text) != 0 ? -1 : fy_eval_emit(ev, text.str);
}

static int print_kids(fy_eval *ev, const fy_node *n)
{
    for (uint32_t i = 0; i < n->kids.n; i++) {
        if (fy_eval_print(ev, n->kids.item[i]) != 0)
            return -1;
    }
    return 0;
}

int fy_eval_print(fy_eval *ev, const fy_node *n)
{
    fy_tv room;
    if (n->kind == FY_N_CONCAT)
        return print_kids(ev, n);
    const fy_tv *v = fy_eval_peek(ev, n, &room);
    return v == NULL ? -1 : emit_value(ev, v);
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
    int rc = fy_template_vars_get(ev->vars, name, v) ? 1 : fy_tglobal_find(&ev->m, name, v);
    if (rc < 0)
        return NULL;
    if (rc == 0)
        *v = fy_tv_undefined(name);
    ev->is_known[symbol] = true;
    return v;
}

static int eval_list(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    fy_tv list;
    if (fy_tv_list(&ev->m, n->kind == FY_N_LIST ? FY_TV_LIST : FY_TV_TUPLE, n->kids.n, &list) != 0)
        return -1;
    for (uint32_t i = 0; i < n->kids.n; i++) {
        if (fy_eval_expr(ev, n->kids.item[i], &list.list->item[i]) != 0)
            return -1;
    }
    *out = list;
    return 0;
}

static int eval_dict(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    fy_tv dict, key, value;
    if (fy_tv_dict(&ev->m, FY_TV_DICT, n->kids.n / 2, &dict) != 0)
        return -1;
    for (uint32_t i = 0; i + 1 < n->kids.n; i += 2) {
        if (fy_eval_expr(ev, n->kids.item[i], &key) != 0 ||
            fy_eval_expr(ev, n->kids.item[i + 1], &value) != 0 ||
            fy_tdict_set(&ev->m, dict.dict, key, value) != 0)
            return -1;
    }
    *out = dict;
    return 0;
}

/* --- arguments --- */

static int eval_all(fy_eval *ev, fy_nodes list, fy_tv *out)
{
    for (uint32_t i = 0; i < list.n; i++) {
        if (fy_eval_expr(ev, list.item[i], &out[i]) != 0)
            return -1;
    }
    return 0;
}

/* The keyword arguments of **d, after the n that are there. */
static int add_dict(fy_eval *ev, const fy_tdict *d, fy_span *name, fy_tv *named, size_t *n)
{
    for (size_t i = 0; i < fy_tdict_n(d); i++) {
        const fy_tv *key = fy_tdict_key(d, i);
        if (key->kind != FY_TV_STR)
            return fy_tm_fail(&ev->m, "keywords must be strings");
        for (size_t k = 0; k < *n; k++) {
            if (fy_span_eq(name[k], key->str))
                return fy_tm_fail(&ev->m, "got multiple values for keyword argument '%.*s'",
                                  (int)(key->str.len < 100 ? key->str.len : 100), key->str.ptr);
        }
        if (fy_tm_charge(&ev->m, 16 * (uint64_t)(*n + 1)) != 0)
            return -1;
        name[*n] = key->str;
        named[(*n)++] = *fy_tdict_at(d, i);
    }
    return 0;
}

/* `few` has room for FEW values and holds the arguments if there are no more. `caller` (or NULL) is
 * one more keyword argument. */
static int eval_args(fy_eval *ev, const fy_node_args *a, const fy_tv *caller, fy_tv *few,
                     fy_targs *out)
{
    static const fy_node_args none;
    fy_tlist star = {0};
    fy_tv v, d = {0};
    *out = (fy_targs){0};
    if (a == NULL && caller == NULL)
        return 0;
    if (a == NULL)
        a = &none;
    if (a->star != NULL &&
        (fy_eval_expr(ev, a->star, &v) != 0 || fy_tv_items(&ev->m, &v, &star) != 0))
        return -1;
    if (a->dstar != NULL && fy_eval_expr(ev, a->dstar, &d) != 0)
        return -1;
    if (a->dstar != NULL && d.kind != FY_TV_DICT)
        return fy_tm_fail(&ev->m, "argument after ** must be a mapping, not %s",
                          fy_tv_type_name(&d));
    size_t n = a->args.n + star.n, n_named = a->values.n;
    size_t room = n_named + (caller != NULL) + (a->dstar != NULL ? fy_tdict_n(d.dict) : 0);
    fy_tv *arg = n + room <= FEW ? few : fy_tm_alloc(&ev->m, (n + room) * sizeof *arg);
    if (arg == NULL || eval_all(ev, a->args, arg) != 0 || eval_all(ev, a->values, arg + n) != 0)
        return -1;
    for (size_t i = 0; i < star.n; i++)
        arg[a->args.n + i] = star.item[i];
    *out = (fy_targs){arg, n, a->names, arg + n, n_named};
    if (room == n_named)
        return 0;
    fy_span *name = fy_tm_alloc(&ev->m, room * sizeof *name);
    if (name == NULL)
        return -1;
    for (size_t i = 0; i < n_named; i++)
        name[i] = a->names[i];
    if (caller != NULL) {
        name[n_named] = FY_SPAN("caller");
        arg[n + n_named++] = *caller;
    }
    if (a->dstar != NULL && add_dict(ev, d.dict, name, arg + n, &n_named) != 0)
        return -1;
    out->name = name;
    out->n_named = n_named;
    return 0;
}

/* --- calls, filters, tests --- */

int fy_eval_call(fy_eval *ev, const fy_node *n, const fy_tv *caller, fy_tv *out)
{
    fy_tv f, few[FEW];
    fy_targs args;
    if (fy_eval_expr(ev, n->a, &f) != 0 || eval_args(ev, n->args, caller, few, &args) != 0)
        return -1;
    ev->m.line = n->line;
    return fy_tv_call(&ev->m, &f, &args, out);
}

static int unknown(fy_eval *ev, const fy_node *n, const char *what)
{
    bool refused = what[0] == 'f' ? fy_tfilter_is_refused(n->str) : fy_ttest_is_refused(n->str);
    int len = (int)(n->str.len < 100 ? n->str.len : 100);
    return refused ? fy_tm_fail(&ev->m, "%s '%.*s' is not supported", what, len, n->str.ptr)
                   : fy_tm_fail(&ev->m, "no %s named '%.*s'", what, len, n->str.ptr);
}

static int run_filter(fy_eval *ev, const fy_node *n, const fy_tv *v, fy_tv *out)
{
    fy_tv few[FEW];
    fy_targs args;
    if (eval_args(ev, n->args, NULL, few, &args) != 0)
        return -1;
    ev->m.line = n->line;
    return n->filter == NULL ? unknown(ev, n, "filter")
                             : n->filter->run(&ev->m, n->filter, v, &args, out);
}

static int run_test(fy_eval *ev, const fy_node *n, const fy_tv *v, fy_tv *out)
{
    fy_tv few[FEW];
    fy_targs args;
    bool yes = false;
    if (eval_args(ev, n->args, NULL, few, &args) != 0)
        return -1;
    ev->m.line = n->line;
    if (n->test == NULL)
        return unknown(ev, n, "test");
    if (n->test->run(&ev->m, v, &args, &yes) != 0)
        return -1;
    *out = fy_tv_bool(yes);
    return 0;
}

/* --- items and operators --- */

static int get_slice(fy_eval *ev, const fy_node *n, const fy_tv *v, fy_tv *out)
{
    const fy_node *part[3] = {n->b->a, n->b->b, n->b->c};
    fy_tv bound[3];
    for (int i = 0; i < 3; i++) {
        bound[i] = fy_tv_none();
        if (part[i] != NULL && fy_eval_expr(ev, part[i], &bound[i]) != 0)
            return -1;
    }
    ev->m.line = n->line;
    return fy_tv_slice(&ev->m, v, &bound[0], &bound[1], &bound[2], out);
}

/* a[b] or a + b */
static int run_pair(fy_eval *ev, const fy_node *n, const fy_tv *a, fy_tv *out)
{
    fy_tv room;
    if (n->b->kind == FY_N_SLICE)
        return get_slice(ev, n, a, out);
    const fy_tv *b = fy_eval_peek(ev, n->b, &room);
    if (b == NULL)
        return -1;
    ev->m.line = n->line;
    return n->kind == FY_N_GETITEM ? fy_tv_getitem(&ev->m, a, b, out)
                                   : fy_tv_binary(&ev->m, n->op, a, b, out);
}

/* Each operand of the chain is evaluated once, and none after the first comparison that fails. */
static int run_compare(fy_eval *ev, const fy_node *n, const fy_tv *a, fy_tv *out)
{
    fy_tv room[2];
    bool yes = true;
    for (uint32_t i = 0; yes && i < n->kids.n; i++) {
        const fy_tv *b = fy_eval_peek(ev, n->kids.item[i], &room[i % 2]);
        if (b == NULL)
            return -1;
        ev->m.line = n->line;
        if (fy_tv_relate(&ev->m, n->ops[i], a, b, &yes) != 0)
            return -1;
        a = b;
    }
    *out = fy_tv_bool(yes);
    return 0;
}

static int eval_and_or(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    if (fy_eval_expr(ev, n->a, out) != 0)
        return -1;
    return fy_tv_truth(out) == (n->kind == FY_N_AND) ? fy_eval_expr(ev, n->b, out) : 0;
}

static int eval_cond(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    fy_tv room;
    const fy_tv *test = fy_eval_peek(ev, n->b, &room);
    if (test == NULL)
        return -1;
    if (fy_tv_truth(test))
        return fy_eval_expr(ev, n->a, out);
    if (n->c != NULL)
        return fy_eval_expr(ev, n->c, out);
    *out = fy_tv_hint("the inline if-expression evaluated to false and no else section was "
                      "defined.");
    return 0;
}

static int eval_concat(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    size_t begin = ev->out->len;
    return print_kids(ev, n) != 0 ? -1 : fy_eval_take(ev, begin, out);
}

/* --- all of them --- */

/* What has one operand that is always evaluated first. */
static int eval_operator(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    fy_tv room = ev->piped; /* of a filter without operand */
    const fy_tv *a = n->a == NULL ? &room : fy_eval_peek(ev, n->a, &room);
    if (a == NULL)
        return -1;
    ev->m.line = n->line;
    switch ((int)n->kind) {
    case FY_N_FILTER:
        return run_filter(ev, n, a, out);
    case FY_N_TEST:
        return run_test(ev, n, a, out);
    case FY_N_GETATTR:
        return fy_tv_getattr(&ev->m, a, n->str, out);
    case FY_N_COMPARE:
        return run_compare(ev, n, a, out);
    case FY_N_UNARY:
        if (n->op != FY_OP_NOT)
            return fy_tv_unary(&ev->m, n->op, a, out);
        *out = fy_tv_bool(!fy_tv_truth(a));
        return 0;
    default: /* FY_N_GETITEM, FY_N_BINARY */
        return run_pair(ev, n, a, out);
    }
}

static int eval_inner(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    switch ((int)n->kind) {
    case FY_N_LIST:
    case FY_N_TUPLE:
        return eval_list(ev, n, out);
    case FY_N_DICT:
        return eval_dict(ev, n, out);
    case FY_N_CALL:
        return fy_eval_call(ev, n, NULL, out);
    case FY_N_CONCAT:
        return eval_concat(ev, n, out);
    case FY_N_AND:
    case FY_N_OR:
        return eval_and_or(ev, n, out);
    case FY_N_COND:
        return eval_cond(ev, n, out);
    default:
        return eval_operator(ev, n, out);
    }
}

const fy_tv *fy_eval_peek(fy_eval *ev, const fy_node *n, fy_tv *room)
{
    if (n->kind == FY_N_CONST)
        return &n->value;
    if (n->kind == FY_N_NAME)
        return value_of(ev, n->symbol);
    return fy_eval_expr(ev, n, room) != 0 ? NULL : room;
}

int fy_eval_expr(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    if (n->kind == FY_N_CONST || n->kind == FY_N_NAME) {
        const fy_tv *v = fy_eval_peek(ev, n, out);
        if (v == NULL)
            return -1;
        *out = *v;
        return 0;
    }
    ev->m.line = n->line;
    if (fy_tm_charge(&ev->m, 16) != 0 || fy_eval_deeper(ev) != 0)
        return -1;
    int rc = eval_inner(ev, n, out);
    ev->nesting--;
    return rc;
}
