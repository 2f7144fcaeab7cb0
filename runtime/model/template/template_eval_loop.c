/* The for statement and its `loop`, as jinja2's LoopContext: items are taken one by one, so that a
 * condition sees what the body has done, and one is taken early only for who asks for it. */
#include "model/template/template_eval.h"

#include <stdio.h>
#include <string.h>

/* Where the items of a loop come from. */
typedef struct {
    fy_titer it;
    const fy_node *n; /* the loop, when it has a condition */
    fy_act *where;    /* of the condition's function */
} source;

typedef struct {
    fy_tcall base;
    source src;
    fy_tv iterable, before, current, after, changed;
    bool has_after, has_changed, has_length;
    int64_t index0, length, depth0;
    const fy_node *node; /* of a recursive loop, else NULL */
    fy_act *outer;       /* the function around it */
} loop;

typedef struct {
    fy_tcall base;
    loop *of;
} loop_method;

/* --- items ------------------------------------------------------------------------------------ */

static int begin_source(fy_eval *ev, source *s, const fy_node *n, const fy_tv *v)
{
    *s = (source){0};
    if (fy_titer_begin(&ev->m, &s->it, v) != 0)
        return -1;
    if (n->c == NULL)
        return 0;
    fy_act *around = ev->act;
    s->n = n;
    s->where = fy_eval_new_act(ev, n->where, around);
    if (s->where == NULL)
        return -1;
    ev->act = s->where;
    int rc = fy_eval_enter(ev, n->where);
    ev->act = around;
    return rc;
}

/* Gives the names of the target, in their order, the parts of the value. */
static int set_names(fy_eval *ev, const fy_node *target, const fy_tv *v, const source *s,
                     uint32_t *at)
{
    fy_tlist items;
    if (target->kind == FY_N_NAME) {
        s->where->slot[s->n->where->params[(*at)++]] = *v;
        return 0;
    }
    if (fy_eval_unpack(ev, v, target->kids.n, &items) != 0)
        return -1;
    for (uint32_t i = 0; i < target->kids.n; i++) {
        if (set_names(ev, target->kids.item[i], &items.item[i], s, at) != 0)
            return -1;
    }
    return 0;
}

/* What the condition lets through: of several names a new tuple. */
static int value_of_names(fy_eval *ev, const fy_node *target, const source *s, uint32_t *at,
                          fy_tv *out)
{
    if (target->kind == FY_N_NAME) {
        *out = s->where->slot[s->n->where->params[(*at)++]];
        return 0;
    }
    if (fy_tv_list(&ev->m, FY_TV_TUPLE, target->kids.n, out) != 0)
        return -1;
    fy_tlist *parts = out->list;
    for (uint32_t i = 0; i < target->kids.n; i++) {
        if (value_of_names(ev, target->kids.item[i], s, at, &parts->item[i]) != 0)
            return -1;
    }
    return 0;
}

/* The next item: 1, 0 at the end, -1. */
static int next_item(fy_eval *ev, source *s, fy_tv *out)
{
    fy_tv room;
    while (fy_titer_next(&s->it, out)) {
        uint32_t at = 0;
        if (fy_tm_charge(&ev->m, 16) != 0)
            return -1;
        if (s->n == NULL)
            return 1;
        if (set_names(ev, s->n->a, out, s, &at) != 0)
            return -1;
        fy_act *around = ev->act;
        ev->act = s->where;
        const fy_tv *yes = fy_eval_peek(ev, s->n->c, &room);
        ev->act = around;
        if (yes == NULL)
            return -1;
        at = 0;
        if (fy_tv_truth(yes))
            return value_of_names(ev, s->n->a, s, &at, out) != 0 ? -1 : 1;
    }
    return 0;
}

/* --- the loop object -------------------------------------------------------------------------- */

static int next_of_loop(fy_eval *ev, loop *l, fy_tv *out)
{
    if (l->has_after) {
        *out = l->after;
        l->has_after = false;
    } else {
        int rc = next_item(ev, &l->src, out);
        if (rc != 1)
            return rc;
    }
    l->index0++;
    l->before = l->current;
    l->current = *out;
    return 1;
}

/* 1: l->after is the next item; 0: there is none; -1. */
static int peek_next(fy_eval *ev, loop *l)
{
    if (l->has_after)
        return 1;
    int rc = next_item(ev, &l->src, &l->after);
    l->has_after = rc == 1;
    return rc;
}

/* Takes all that is left into a list, to be counted. */
static int take_rest(fy_eval *ev, loop *l, size_t *n)
{
    fy_tv list, bigger;
    size_t cap = 8, used = 0;
    int rc;
    if (fy_tv_list(&ev->m, FY_TV_LIST, cap, &list) != 0)
        return -1;
    fy_tv item;
    while ((rc = next_item(ev, &l->src, &item)) == 1) {
        if (used == cap) {
            if (fy_tv_list(&ev->m, FY_TV_LIST, cap * 2, &bigger) != 0)
                return -1;
            memcpy(bigger.list->item, list.list->item, used * sizeof(fy_tv));
            list = bigger;
            cap *= 2;
        }
        list.list->item[used++] = item;
    }
    list.list->n = used;
    l->src = (source){.it = {.of = list}};
    *n = used;
    return rc;
}

static int length_of(fy_eval *ev, loop *l, int64_t *out)
{
    size_t n;
    if (!l->has_length) {
        if (l->src.n == NULL && l->iterable.kind != FY_TV_ITER) {
            if (fy_tv_length(&ev->m, &l->iterable, &n) != 0)
                return -1;
            l->length = (int64_t)n;
        } else {
            if (take_rest(ev, l, &n) != 0)
                return -1;
            l->length = (int64_t)n + l->index0 + 1 + l->has_after;
        }
        l->has_length = true;
    }
    *out = l->length;
    return 0;
}

static fy_tv nothing(const char *message)
{
    fy_tv v = fy_tv_undefined(fy_span_of(message));
    v.view = 'h';
    return v;
}

static int cycle(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out)
{
    const loop *l = ((const loop_method *)self)->of;
    if (a->n_named > 0)
        return fy_tm_fail(m, "cycle() takes no keyword arguments");
    if (a->n == 0)
        return fy_tm_fail(m, "no items for cycling given");
    *out = a->arg[(uint64_t)l->index0 % a->n];
    return 0;
}

static int changed(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out)
{
    loop *l = ((const loop_method *)self)->of;
    fy_tv now;
    if (a->n_named > 0)
        return fy_tm_fail(m, "changed() takes no keyword arguments");
    if (fy_tv_list(m, FY_TV_TUPLE, a->n, &now) != 0)
        return -1;
    if (a->n > 0)
        memcpy(now.list->item, a->arg, a->n * sizeof(fy_tv));
    bool same = l->has_changed && fy_tv_equal(m, &l->changed, &now);
    if (m->e->code != FY_OK)
        return -1;
    l->changed = now;
    l->has_changed = true;
    *out = fy_tv_bool(!same);
    return 0;
}

static int method(fy_eval *ev, loop *l, int (*call)(fy_tm *, fy_tcall *, const fy_targs *, fy_tv *),
                  fy_tv *out)
{
    loop_method *f = fy_tm_alloc(&ev->m, sizeof *f);
    if (f == NULL)
        return -1;
    *f = (loop_method){{.type = "method", .call = call}, l};
    *out = (fy_tv){.kind = FY_TV_CALLABLE, .call = &f->base};
    return 1;
}

typedef enum {
    A_INDEX,
    A_INDEX0,
    A_REVINDEX,
    A_REVINDEX0,
    A_FIRST,
    A_LAST,
    A_LENGTH,
    A_DEPTH,
    A_DEPTH0,
    A_PREVITEM,
    A_NEXTITEM,
    A_CYCLE,
    A_CHANGED,
    A_LEN,
    A_REPR,
    A_NONE,
} attribute;

static attribute find_attribute(fy_span name)
{
    static const char *const names[] = {
        [A_INDEX] = "index",         [A_INDEX0] = "index0",     [A_REVINDEX] = "revindex",
        [A_REVINDEX0] = "revindex0", [A_FIRST] = "first",       [A_LAST] = "last",
        [A_LENGTH] = "length",       [A_DEPTH] = "depth",       [A_DEPTH0] = "depth0",
        [A_PREVITEM] = "previtem",   [A_NEXTITEM] = "nextitem", [A_CYCLE] = "cycle",
        [A_CHANGED] = "changed",     [A_LEN] = "__len__",       [A_REPR] = "__repr__",
    };
    int i = 0;
    while (i < A_NONE && !fy_span_is(name, names[i]))
        i++;
    return (attribute)i;
}

static int from_the_end(fy_eval *ev, loop *l, int64_t behind, fy_tv *out)
{
    int64_t length;
    if (length_of(ev, l, &length) != 0)
        return -1;
    *out = fy_tv_int(length - behind);
    return 1;
}

static int text_of_loop(fy_eval *ev, loop *l, fy_tv *out)
{
    char text[80];
    int64_t length;
    if (length_of(ev, l, &length) != 0)
        return -1;
    int n = snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)l->index0 + 1,
                     (long long)length);
    return fy_tv_copy(&ev->m, (fy_span){text, (size_t)n}, out) != 0 ? -1 : 1;
}

static int loop_attribute(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out)
{
    fy_eval *ev = (fy_eval *)m;
    loop *l = (loop *)self;
    int rc = 1;
    switch (find_attribute(name)) {
    case A_INDEX:
        *out = fy_tv_int(l->index0 + 1);
        break;
    case A_INDEX0:
        *out = fy_tv_int(l->index0);
        break;
    case A_REVINDEX:
        return from_the_end(ev, l, l->index0, out);
    case A_REVINDEX0:
        return from_the_end(ev, l, l->index0 + 1, out);
    case A_LENGTH:
    case A_LEN:
        return from_the_end(ev, l, 0, out);
    case A_FIRST:
        *out = fy_tv_bool(l->index0 == 0);
        break;
    case A_LAST:
        rc = peek_next(ev, l);
        *out = fy_tv_bool(rc == 0);
        break;
    case A_DEPTH:
        *out = fy_tv_int(l->depth0 + 1);
        break;
    case A_DEPTH0:
        *out = fy_tv_int(l->depth0);
        break;
    case A_PREVITEM:
        *out = l->index0 == 0 ? nothing("there is no previous item") : l->before;
        break;
    case A_NEXTITEM:
        rc = peek_next(ev, l);
        *out = rc == 1 ? l->after : nothing("there is no next item");
        break;
    case A_CYCLE:
        return method(ev, l, cycle, out);
    case A_CHANGED:
        return method(ev, l, changed, out);
    case A_REPR:
        return text_of_loop(ev, l, out);
    case A_NONE:
        return 0;
    }
    return rc < 0 ? -1 : 1;
}

/* --- running ---------------------------------------------------------------------------------- */

static fy_flow run_recursive(fy_eval *ev, const fy_node *n, fy_act *outer, const fy_tv *v,
                             int64_t depth0);

/* loop(items): the same loop on other items, as a string. */
static int call_loop(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out)
{
    fy_eval *ev = (fy_eval *)m;
    const loop *l = (const loop *)self;
    size_t begin = ev->out->len;
    const fy_tv *items = a->n == 1 && a->n_named == 0 ? &a->arg[0]
                         : a->n == 0 && a->n_named == 1 && fy_span_is(a->name[0], "iterable")
                             ? &a->named[0]
                             : NULL;
    if (items == NULL)
        return fy_tm_fail(m, "loop() takes one argument: the items");
    if (l->node == NULL)
        return fy_tm_fail(m, "The loop must have the 'recursive' marker to be called recursively.");
    if (run_recursive(ev, l->node, l->outer, items, l->depth0 + 1) == FY_FLOW_ERROR)
        return -1;
    return fy_eval_take(ev, begin, out);
}

/* One round. *went_through: it did not end with break or continue. */
static fy_flow run_round(fy_eval *ev, const fy_node *n, const fy_tv *item, loop *l,
                         bool *went_through)
{
    const fy_scope *s = n->scope;
    if (fy_eval_assign(ev, n->a, item) != 0 || fy_eval_enter(ev, s) != 0)
        return FY_FLOW_ERROR;
    if (l != NULL)
        ev->act->slot[s->loop] = (fy_tv){.kind = FY_TV_OBJECT, .call = &l->base};
    fy_flow flow = fy_eval_body(ev, n->body);
    *went_through = *went_through || flow == FY_FLOW_NEXT;
    return flow;
}

/* All rounds, and the else of a loop of which none went through: that is how jinja2 finds out that
 * there was none. */
static fy_flow run_rounds(fy_eval *ev, const fy_node *n, source *src, loop *l)
{
    fy_tv item;
    bool went_through = false;
    for (;;) {
        ev->m.line = n->line;
        int rc = l != NULL ? next_of_loop(ev, l, &item) : next_item(ev, src, &item);
        if (rc < 0)
            return FY_FLOW_ERROR;
        if (rc == 0)
            break;
        fy_flow flow = run_round(ev, n, &item, l, &went_through);
        if (flow == FY_FLOW_ERROR)
            return flow;
        if (flow == FY_FLOW_BREAK)
            break;
    }
    if (n->orelse.n == 0 || went_through)
        return FY_FLOW_NEXT;
    return fy_eval_enter(ev, n->other) != 0 ? FY_FLOW_ERROR : fy_eval_body(ev, n->orelse);
}

/* outer: of a recursive loop the function around it, else NULL. */
static fy_flow run_loop(fy_eval *ev, const fy_node *n, const fy_tv *v, fy_act *outer,
                        int64_t depth0)
{
    source src;
    if (begin_source(ev, &src, n, v) != 0)
        return FY_FLOW_ERROR;
    if (n->scope->loop == FY_NO_SLOT) {
        fy_flow flow = run_rounds(ev, n, &src, NULL);
        if (src.where != NULL)
            fy_eval_end_act(ev, n->where, src.where);
        return flow;
    }
    loop *l = fy_tm_alloc(&ev->m, sizeof *l);
    if (l == NULL)
        return FY_FLOW_ERROR;
    *l = (loop){
        .base = {"loop", call_loop, loop_attribute},
        .src = src,
        .iterable = *v,
        .index0 = -1,
        .depth0 = depth0,
        .node = outer != NULL ? n : NULL,
        .outer = outer,
    };
    return run_rounds(ev, n, &src, l);
}

static fy_flow run_recursive(fy_eval *ev, const fy_node *n, fy_act *outer, const fy_tv *v,
                             int64_t depth0)
{
    fy_act *around = ev->act, *act = fy_eval_new_act(ev, n->scope, outer);
    if (act == NULL || fy_eval_begin_call(ev) != 0)
        return FY_FLOW_ERROR;
    ev->act = act;
    fy_flow flow = run_loop(ev, n, v, outer, depth0);
    ev->act = around;
    ev->calls--;
    fy_eval_end_act(ev, n->scope, act);
    return flow;
}

fy_flow fy_eval_for(fy_eval *ev, const fy_node *n)
{
    fy_tv room;
    const fy_tv *v = fy_eval_peek(ev, n->b, &room);
    if (v == NULL)
        return FY_FLOW_ERROR;
    ev->m.line = n->line;
    return n->flag ? run_recursive(ev, n, ev->act, v, 0) : run_loop(ev, n, v, NULL, 0);
}
