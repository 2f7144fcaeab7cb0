/* Macros and what else is a function of the template. */
#include "model/template/template_eval.h"

#include <string.h>

enum { FEW = 16 }; /* parameters and keywords that need no memory of their own to be ticked off */

typedef struct {
    fy_tcall base;
    const fy_node *node;
    fy_act *outer;
    fy_span name; /* ptr NULL: a caller */
} macro;

/* --- calls ------------------------------------------------------------------------------------ */

int fy_eval_begin_call(fy_eval *ev)
{
    if (ev->calls >= FY_TEMPLATE_MAX_CALLS)
        return fy_fail(ev->m.e, FY_EFIT,
                       "line %u: more than %d calls of macros and loops in each other", ev->m.line,
                       FY_TEMPLATE_MAX_CALLS);
    ev->calls++;
    return 0;
}

fy_act *fy_eval_new_act(fy_eval *ev, const fy_scope *function, fy_act *outer)
{
    size_t bytes = sizeof(fy_act) + function->n_slots * sizeof(fy_tv);
    fy_act *act = ev->idle[function->id];
    if (fy_tm_charge(&ev->m, bytes) != 0)
        return NULL;
    if (act != NULL)
        ev->idle[function->id] = act->idle;
    else if ((act = fy_tm_alloc(&ev->m, bytes)) == NULL)
        return NULL;
    memset(act, 0, bytes); /* all undefined */
    act->outer = outer;
    return act;
}

void fy_eval_end_act(fy_eval *ev, const fy_scope *function, fy_act *act)
{
    if (function->keeps)
        return;
    act->idle = ev->idle[function->id];
    ev->idle[function->id] = act;
}

/* --- arguments of a macro --------------------------------------------------------------------- */

static bool *ticks(fy_eval *ev, size_t n, bool *few)
{
    bool *t = n <= FEW ? few : fy_tm_alloc(&ev->m, n);
    return t == NULL ? NULL : memset(t, 0, n);
}

/* The keyword of that name, marked as used; n_named when there is none. */
static size_t take_named(const fy_targs *a, fy_span name, bool *used)
{
    size_t k = 0;
    while (k < a->n_named && (used[k] || !fy_span_eq(a->name[k], name)))
        k++;
    if (k < a->n_named)
        used[k] = true;
    return k;
}

/* Parameters by position, the others by name. */
static int bind_params(fy_eval *ev, const macro *f, fy_act *act, const fy_targs *a, bool *given,
                       bool *used)
{
    const fy_scope *s = f->node->scope;
    const fy_node_params *p = f->node->params;
    size_t n = p->n;
    if (fy_tm_charge(&ev->m, 16 * (uint64_t)n * (a->n_named + 1)) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        fy_tv *slot = &act->slot[s->params[i]];
        size_t k = i < a->n ? 0 : take_named(a, ev->t->symbols[p->symbols[i]], used);
        given[i] = i < a->n || k < a->n_named;
        *slot = i < a->n   ? a->arg[i]
                : given[i] ? a->named[k]
                           : fy_tv_undefined(ev->t->symbols[p->symbols[i]]);
    }
    return 0;
}

static int bind_kwargs(fy_eval *ev, const fy_targs *a, const bool *used, fy_tv *out)
{
    if (fy_tv_dict(&ev->m, FY_TV_DICT, a->n_named, out) != 0)
        return -1;
    for (size_t k = 0; k < a->n_named; k++) {
        if (!used[k] && fy_tdict_set(&ev->m, out->dict, fy_tv_view(a->name[k]), a->named[k]) != 0)
            return -1;
    }
    return 0;
}

static int bind_varargs(fy_eval *ev, const fy_targs *a, size_t n, fy_tv *out)
{
    size_t rest = a->n > n ? a->n - n : 0;
    if (fy_tv_list(&ev->m, FY_TV_TUPLE, rest, out) != 0)
        return -1;
    for (size_t i = 0; i < rest; i++)
        out->list->item[i] = a->arg[n + i];
    return 0;
}

static int bad_call(fy_eval *ev, const macro *f, const char *what, fy_span detail)
{
    fy_span name = f->name.ptr == NULL ? FY_SPAN("None") : f->name;
    return fy_tm_fail(&ev->m, "macro '%.*s' %s%.*s", (int)(name.len < 100 ? name.len : 100),
                      name.ptr, what, (int)(detail.len < 100 ? detail.len : 100), detail.ptr);
}

/* A parameter named caller that is given by position, when not all are: jinja2 then passes the
 * caller once more, and Python refuses. */
static bool has_caller_twice(const fy_eval *ev, const macro *f, const fy_targs *a)
{
    const fy_node_params *p = f->node->params;
    bool twice = false;
    for (uint32_t i = 0; p->uses_caller && a->n < p->n && i < a->n; i++)
        twice = twice || fy_span_is(ev->t->symbols[p->symbols[i]], "caller");
    return twice;
}

/* The names that a body has when it reads them, in the order of jinja2's Macro.__call__. */
static int bind_special(fy_eval *ev, const macro *f, fy_act *act, const fy_targs *a, bool *used)
{
    const fy_scope *s = f->node->scope;
    size_t n = f->node->params->n;
    if (has_caller_twice(ev, f, a))
        return bad_call(ev, f, "is given a caller twice", FY_SPAN(""));
    if (s->caller != FY_NO_SLOT) {
        size_t k = take_named(a, FY_SPAN("caller"), used);
        fy_tv v = fy_tv_undefined(FY_SPAN("No caller defined"));
        v.view = 'h';
        act->slot[s->caller] = k < a->n_named && a->named[k].kind != FY_TV_NONE ? a->named[k] : v;
    }
    if (s->kwargs != FY_NO_SLOT) {
        if (bind_kwargs(ev, a, used, &act->slot[s->kwargs]) != 0)
            return -1;
    } else {
        for (size_t k = 0; k < a->n_named; k++) {
            if (!used[k])
                return bad_call(ev, f, "takes no keyword argument ", a->name[k]);
        }
    }
    if (s->varargs != FY_NO_SLOT)
        return bind_varargs(ev, a, n, &act->slot[s->varargs]);
    return a->n > n ? bad_call(ev, f, "takes fewer positional arguments", FY_SPAN("")) : 0;
}

/* In the macro's own scope, one after the other: a default may name an earlier parameter. */
static int fill_defaults(fy_eval *ev, const fy_node *n, const bool *given)
{
    const fy_node_params *p = n->params;
    for (uint32_t i = 0; i < p->n; i++) {
        fy_tv *slot = &ev->act->slot[n->scope->params[i]], v;
        if (given[i])
            continue;
        uint32_t first = p->n - p->defaults.n;
        if (i < first)
            slot->view = 'p';
        else if (fy_eval_expr(ev, p->defaults.item[i - first], &v) != 0)
            return -1;
        else
            *slot = v;
    }
    return 0;
}

/* --- running ---------------------------------------------------------------------------------- */

/* Writes the text of the macro's body behind what is there. */
static int run_macro(fy_eval *ev, const macro *f, const fy_targs *a)
{
    bool few_given[FEW], few_used[FEW];
    const fy_node *n = f->node;
    fy_act *caller = ev->act;
    bool *given = ticks(ev, n->params->n, few_given);
    bool *used = ticks(ev, a->n_named, few_used);
    fy_act *act = fy_eval_new_act(ev, n->scope, f->outer);
    if (given == NULL || used == NULL || act == NULL ||
        bind_params(ev, f, act, a, given, used) != 0 || bind_special(ev, f, act, a, used) != 0 ||
        fy_eval_begin_call(ev) != 0)
        return -1;
    ev->act = act;
    if (fy_eval_enter(ev, n->scope) != 0 || fill_defaults(ev, n, given) != 0 ||
        fy_eval_body(ev, n->body) == FY_FLOW_ERROR)
        return -1;
    ev->act = caller;
    fy_eval_end_act(ev, n->scope, act);
    ev->calls--;
    return 0;
}

static int call_macro(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out)
{
    fy_eval *ev = (fy_eval *)m;
    size_t begin = ev->out->len;
    return run_macro(ev, (const macro *)self, a) != 0 ? -1 : fy_eval_take(ev, begin, out);
}

static int arguments_of(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    size_t count = n->params->n;
    if (fy_tv_list(&ev->m, FY_TV_TUPLE, count, out) != 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        out->list->item[i] = fy_tv_view(ev->t->symbols[n->params->symbols[i]]);
    return 1;
}

static int text_of_macro(fy_tm *m, const macro *f, fy_tv *out)
{
    fy_tbuf b = {0};
    fy_tv name = fy_tv_view(f->name);
    if (fy_tbuf_span(m, &b, FY_SPAN("<Macro ")) != 0 ||
        (f->name.ptr == NULL ? fy_tbuf_span(m, &b, FY_SPAN("anonymous"))
                             : fy_tv_put_repr(m, &b, &name)) != 0 ||
        fy_tbuf_span(m, &b, FY_SPAN(">")) != 0)
        return -1;
    *out = fy_tv_view((fy_span){b.ptr, b.len});
    return 1;
}

static int macro_attribute(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out)
{
    const macro *f = (const macro *)self;
    const fy_node_params *p = f->node->params;
    if (fy_span_is(name, "arguments"))
        return arguments_of((fy_eval *)m, f->node, out);
    if (fy_span_is(name, "__repr__"))
        return text_of_macro(m, f, out);
    if (fy_span_is(name, "name"))
        *out = f->name.ptr == NULL ? fy_tv_none() : fy_tv_view(f->name);
    else if (fy_span_is(name, "catch_kwargs"))
        *out = fy_tv_bool(p->uses_kwargs);
    else if (fy_span_is(name, "catch_varargs"))
        *out = fy_tv_bool(p->uses_varargs);
    else if (fy_span_is(name, "caller"))
        *out = fy_tv_bool(p->uses_caller);
    else
        return 0;
    return 1;
}

int fy_eval_macro(fy_eval *ev, const fy_node *n, fy_span name, fy_tv *out)
{
    macro *f = fy_tm_alloc(&ev->m, sizeof *f);
    if (f == NULL)
        return -1;
    *f = (macro){{"macro", call_macro, macro_attribute}, n, ev->act, name};
    *out = (fy_tv){.kind = FY_TV_OBJECT, .call = &f->base};
    return 0;
}

/* transformers makes the block a caller without parameters and calls it on the spot. */
int fy_eval_generation(fy_eval *ev, const fy_node *n)
{
    macro f = {.node = n, .outer = ev->act};
    return run_macro(ev, &f, &(fy_targs){0});
}
