/* Rendering: scopes, statements, macros with their arguments, loops with their `loop`. */
#include "model/template/template_eval.h"

#include <string.h>

#include "model/template/template_builtin.h"

/* What a rendering may use: enough for any template with variables of ordinary size, and in
 * proportion for long conversations. A million and a half steps take less than a tenth of a second.
 */
enum {
    BASE_STEPS = 1500000,
    BASE_BYTES = 8 << 20,
    STEPS_PER_BYTE = 8, /* of variables */
    BYTES_PER_BYTE = 16,
};

typedef enum { FLOW_ERROR = -1, FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

static flow run_body(fy_eval *ev, fy_nodes body);
static int assign(fy_eval *ev, const fy_node *target, const fy_tv *value);

/* --- scopes --- */

static fy_frame *push_frame(fy_eval *ev, fy_frame *outer)
{
    fy_frame *f = ev->idle;
    if (fy_tm_charge(&ev->m, sizeof *f) != 0)
        return NULL;
    if (f != NULL)
        ev->idle = f->outer;
    else if ((f = fy_tm_alloc(&ev->m, sizeof *f)) == NULL)
        return NULL;
    else
        *f = (fy_frame){0};
    f->outer = outer;
    f->n = 0;
    ev->frame = f;
    return f;
}

static void pop_frame(fy_eval *ev, fy_frame *frame, fy_frame *innermost)
{
    ev->frame = innermost;
    if (frame->kept)
        return;
    frame->outer = ev->idle;
    ev->idle = frame;
}

static int set_name(fy_eval *ev, uint32_t symbol, fy_tv value)
{
    fy_frame *f = ev->frame;
    if (f == NULL) {
        ev->top[symbol] = value;
        ev->is_known[symbol] = true;
        return 0;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->item[i].symbol == symbol) {
            f->item[i].value = value;
            return 0;
        }
    }
    if (fy_tm_charge(&ev->m, 16 * (uint64_t)(f->n + 1)) != 0)
        return -1;
    if (f->n == f->cap) {
        uint32_t cap = f->cap == 0 ? 8 : f->cap * 2;
        fy_binding *more = fy_tm_alloc(&ev->m, cap * sizeof *more);
        if (more == NULL)
            return -1;
        if (f->n > 0)
            memcpy(more, f->item, f->n * sizeof *more);
        f->item = more;
        f->cap = cap;
    }
    f->item[f->n++] = (fy_binding){symbol, value};
    return 0;
}

/* --- assignment --- */

static int assign_tuple(fy_eval *ev, const fy_node *target, const fy_tv *value)
{
    size_t n = target->kids.n;
    fy_tlist items;
    if (value->kind == FY_TV_NONE || value->kind == FY_TV_BOOL || value->kind == FY_TV_INT ||
        value->kind == FY_TV_FLOAT)
        return fy_tm_fail(&ev->m, "cannot unpack non-iterable %s object", fy_tv_type_name(value));
    if (fy_tv_items(&ev->m, value, &items) != 0)
        return -1;
    if (items.n > n)
        return fy_tm_fail(&ev->m, "too many values to unpack (expected %zu)", n);
    if (items.n < n)
        return fy_tm_fail(&ev->m, "not enough values to unpack (expected %zu, got %zu)", n,
                          items.n);
    for (size_t i = 0; i < n; i++) {
        if (assign(ev, target->kids.item[i], &items.item[i]) != 0)
            return -1;
    }
    return 0;
}

static int assign_attribute(fy_eval *ev, const fy_node *target, const fy_tv *value)
{
    const fy_tv *ns = fy_eval_peek(ev, target->a, NULL); /* a name */
    if (ns == NULL)
        return -1;
    if (ns->kind != FY_TV_NAMESPACE)
        return fy_tm_fail(&ev->m, "cannot assign attribute on non-namespace object");
    return fy_tdict_set(&ev->m, ns->dict, fy_tv_view(target->str), *value);
}

static int assign(fy_eval *ev, const fy_node *target, const fy_tv *value)
{
    if (target->kind == FY_N_TUPLE)
        return assign_tuple(ev, target, value);
    if (target->kind == FY_N_GETATTR)
        return assign_attribute(ev, target, value);
    return set_name(ev, target->symbol, *value);
}

static int begin_call(fy_eval *ev)
{
    if (ev->calls >= FY_TEMPLATE_MAX_CALLS)
        return fy_fail(ev->m.e, FY_EFIT,
                       "line %u: more than %d calls of macros and loops in each other", ev->m.line,
                       FY_TEMPLATE_MAX_CALLS);
    ev->calls++;
    return 0;
}

/* --- macros --- */

typedef struct {
    fy_tcall base;
    const fy_node *node;
    fy_frame *outer;
    fy_span name;
} macro;

static int bad_call(fy_eval *ev, const macro *f, const char *what, fy_span detail)
{
    return fy_tm_fail(&ev->m, "macro '%.*s' %s%.*s", (int)(f->name.len < 100 ? f->name.len : 100),
                      f->name.ptr, what, (int)(detail.len < 100 ? detail.len : 100), detail.ptr);
}

/* The keyword argument of that name; n_named when there is none. */
static size_t find_named(const fy_targs *a, fy_span name)
{
    size_t k = 0;
    while (k < a->n_named && !fy_span_eq(a->name[k], name))
        k++;
    return k;
}

/* Parameters by position, the others by name, then the defaults of those that were not given: one
 * may name an earlier parameter. */
static int bind_params(fy_eval *ev, const macro *f, const fy_targs *a)
{
    const fy_node_params *p = f->node->params;
    uint32_t first_default = p->n - p->defaults.n;
    fy_tv v;
    if (fy_tm_charge(&ev->m, 16 * (uint64_t)p->n * (a->n_named + 1)) != 0)
        return -1;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < p->n; i++) {
            fy_span name = ev->t->symbols[p->symbols[i]];
            size_t k = i < a->n ? a->n_named : find_named(a, name);
            bool given = i < a->n || k < a->n_named;
            if (pass == 0) {
                v = i < a->n ? a->arg[i] : given ? a->named[k] : fy_tv_undefined(name);
                if (!given && i < first_default)
                    v.view = 'p';
            } else if (given || i < first_default) {
                continue;
            } else if (fy_eval_expr(ev, p->defaults.item[i - first_default], &v) != 0) {
                return -1;
            }
            if (set_name(ev, p->symbols[i], v) != 0)
                return -1;
        }
    }
    return 0;
}

/* Is the keyword argument a parameter that has no value from its position? */
static bool is_used(const fy_eval *ev, const fy_node_params *p, const fy_targs *a, size_t k)
{
    for (size_t i = a->n; i < p->n; i++) {
        if (fy_span_eq(ev->t->symbols[p->symbols[i]], a->name[k]))
            return true;
    }
    return p->uses_caller && fy_span_is(a->name[k], "caller");
}

/* The names that a body has if it mentions them. */
static int bind_special(fy_eval *ev, const macro *f, const fy_targs *a)
{
    const fy_node_params *p = f->node->params;
    const uint32_t *special = ev->t->special;
    fy_tv kwargs, varargs;
    size_t extra = a->n > p->n ? a->n - p->n : 0, caller = find_named(a, FY_SPAN("caller"));
    bool is_param = false;
    for (uint32_t i = 0; i < p->n; i++)
        is_param = is_param || p->symbols[i] == special[FY_T_CALLER];
    if (p->uses_caller && !is_param &&
        set_name(ev, special[FY_T_CALLER],
                 caller < a->n_named ? a->named[caller] : fy_tv_hint("No caller defined")) != 0)
        return -1;
    if (p->uses_kwargs && fy_tv_dict(&ev->m, FY_TV_DICT, a->n_named, &kwargs) != 0)
        return -1;
    for (size_t k = 0; k < a->n_named; k++) {
        if (is_used(ev, p, a, k))
            continue;
        if (!p->uses_kwargs)
            return bad_call(ev, f, "takes no keyword argument ", a->name[k]);
        if (fy_tdict_set(&ev->m, kwargs.dict, fy_tv_view(a->name[k]), a->named[k]) != 0)
            return -1;
    }
    if (p->uses_kwargs && set_name(ev, special[FY_T_KWARGS], kwargs) != 0)
        return -1;
    if (!p->uses_varargs)
        return extra > 0 ? bad_call(ev, f, "takes fewer positional arguments", FY_SPAN("")) : 0;
    if (fy_tv_list(&ev->m, FY_TV_TUPLE, extra, &varargs) != 0)
        return -1;
    for (size_t i = 0; i < extra; i++)
        varargs.list->item[i] = a->arg[p->n + i];
    return set_name(ev, special[FY_T_VARARGS], varargs);
}

static int call_macro(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out)
{
    fy_eval *ev = (fy_eval *)m;
    const macro *f = (const macro *)self;
    size_t begin = ev->out->len;
    fy_frame *around = ev->frame, *own = push_frame(ev, f->outer);
    if (own == NULL || bind_special(ev, f, a) != 0 || begin_call(ev) != 0 ||
        bind_params(ev, f, a) != 0 || run_body(ev, f->node->body) == FLOW_ERROR)
        return -1;
    ev->calls--;
    pop_frame(ev, own, around);
    return fy_eval_take(ev, begin, out);
}

static int macro_attribute(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out)
{
    (void)m;
    if (!fy_span_is(name, "name"))
        return 0;
    *out = fy_tv_view(((const macro *)self)->name);
    return 1;
}

static int make_macro(fy_eval *ev, const fy_node *n, fy_tv *out)
{
    macro *f = fy_tm_alloc(&ev->m, sizeof *f);
    if (f == NULL)
        return -1;
    *f = (macro){{"macro", call_macro, macro_attribute},
                 n,
                 ev->frame,
                 n->kind == FY_N_MACRO ? ev->t->symbols[n->symbol] : FY_SPAN("caller")};
    for (fy_frame *frame = ev->frame; frame != NULL && !frame->kept; frame = frame->outer)
        frame->kept = true;
    *out = (fy_tv){.kind = FY_TV_OBJECT, .call = &f->base};
    return 0;
}

/* --- the loop object --- */

typedef struct {
    fy_tcall base;
    fy_titer it; /* what is left */
    fy_tv before, current, changed;
    bool has_changed;
    int64_t index0, length, depth0;
    const fy_node *node;
    fy_frame *outer; /* of the scope around the loop */
} loop;

typedef struct {
    fy_tcall base;
    loop *of;
} loop_method;

static int cycle(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out)
{
    const loop *l = ((const loop_method *)self)->of;
    if (a->n == 0 || a->n_named > 0)
        return fy_tm_fail(m, "no items for cycling given");
    *out = a->arg[(uint64_t)l->index0 % a->n];
    return 0;
}

static int changed(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out)
{
    loop *l = ((const loop_method *)self)->of;
    fy_tv now;
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

static int method(fy_tm *m, loop *l, int (*call)(fy_tm *, fy_tcall *, const fy_targs *, fy_tv *),
                  fy_tv *out)
{
    loop_method *f = fy_tm_alloc(m, sizeof *f);
    if (f == NULL)
        return -1;
    *f = (loop_method){{.type = "method", .call = call}, l};
    *out = (fy_tv){.kind = FY_TV_CALLABLE, .call = &f->base};
    return 1;
}

static int loop_attribute(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out)
{
    loop *l = (loop *)self;
    fy_titer ahead = l->it;
    if (fy_span_is(name, "index"))
        *out = fy_tv_int(l->index0 + 1);
    else if (fy_span_is(name, "index0"))
        *out = fy_tv_int(l->index0);
    else if (fy_span_is(name, "first"))
        *out = fy_tv_bool(l->index0 == 0);
    else if (fy_span_is(name, "last"))
        *out = fy_tv_bool(l->index0 + 1 == l->length);
    else if (fy_span_is(name, "length"))
        *out = fy_tv_int(l->length);
    else if (fy_span_is(name, "revindex"))
        *out = fy_tv_int(l->length - l->index0);
    else if (fy_span_is(name, "revindex0"))
        *out = fy_tv_int(l->length - l->index0 - 1);
    else if (fy_span_is(name, "depth"))
        *out = fy_tv_int(l->depth0 + 1);
    else if (fy_span_is(name, "depth0"))
        *out = fy_tv_int(l->depth0);
    else if (fy_span_is(name, "previtem"))
        *out = l->index0 == 0 ? fy_tv_hint("there is no previous item") : l->before;
    else if (fy_span_is(name, "nextitem"))
        *out = fy_titer_next(&ahead, &ahead.of) ? ahead.of : fy_tv_hint("there is no next item");
    else if (fy_span_is(name, "cycle"))
        return method(m, l, cycle, out);
    else if (fy_span_is(name, "changed"))
        return method(m, l, changed, out);
    else
        return 0;
    return 1;
}

/* --- loops --- */

/* The items for which the condition holds, each seen in a scope of its own. */
static int select_items(fy_eval *ev, const fy_node *n, fy_titer it, fy_tv *out)
{
    fy_tv item, room;
    size_t cap = 8, used = 0;
    fy_frame *around = ev->frame, *own = push_frame(ev, around);
    if (own == NULL || fy_tv_list(&ev->m, FY_TV_LIST, cap, out) != 0)
        return -1;
    while (fy_titer_next(&it, &item)) {
        own->n = 0;
        if (fy_tm_charge(&ev->m, 16) != 0 || assign(ev, n->a, &item) != 0)
            return -1;
        const fy_tv *yes = fy_eval_peek(ev, n->c, &room);
        if (yes == NULL)
            return -1;
        if (!fy_tv_truth(yes))
            continue;
        if (used == cap) {
            fy_tv few = *out;
            cap *= 2;
            if (fy_tv_list(&ev->m, FY_TV_LIST, cap, out) != 0)
                return -1;
            memcpy(out->list->item, few.list->item, used * sizeof(fy_tv));
        }
        out->list->item[used++] = item;
    }
    out->list->n = used;
    pop_frame(ev, own, around);
    return 0;
}

/* All rounds in the scope `own`, and the else of a loop of which no round went through: that is how
 * jinja2 finds out that there was none. */
static flow run_rounds(fy_eval *ev, const fy_node *n, fy_frame *own, fy_titer *it, loop *l)
{
    fy_tv item;
    bool went_through = false;
    flow went = FLOW_NEXT;
    while (went != FLOW_BREAK && fy_titer_next(it, &item)) {
        ev->m.line = n->line;
        own->n = 0;
        if (l != NULL) {
            l->index0++;
            l->before = l->current;
            l->current = item;
            if (set_name(ev, ev->t->special[FY_T_LOOP],
                         (fy_tv){.kind = FY_TV_OBJECT, .call = &l->base}) != 0)
                return FLOW_ERROR;
        }
        if (fy_tm_charge(&ev->m, 16) != 0 || assign(ev, n->a, &item) != 0)
            return FLOW_ERROR;
        went = run_body(ev, n->body);
        if (went == FLOW_ERROR)
            return went;
        went_through = went_through || went == FLOW_NEXT;
    }
    own->n = 0;
    return n->orelse.n == 0 || went_through ? FLOW_NEXT : run_body(ev, n->orelse);
}

static int call_loop(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out);

/* Runs the loop in the scope `outer`. */
static flow run_loop(fy_eval *ev, const fy_node *n, const fy_tv *v, fy_frame *outer, int64_t depth0)
{
    fy_tv items = *v;
    fy_titer it;
    size_t length;
    fy_frame *around = ev->frame;
    ev->frame = outer;
    if (fy_titer_begin(&ev->m, &it, v) != 0)
        return FLOW_ERROR;
    if (n->c != NULL) {
        if (select_items(ev, n, it, &items) != 0)
            return FLOW_ERROR;
    } else if (v->kind == FY_TV_ITER) {
        fy_tlist list;
        if (fy_tv_items(&ev->m, v, &list) != 0 || fy_tv_list(&ev->m, FY_TV_LIST, 0, &items) != 0)
            return FLOW_ERROR;
        *items.list = list;
    }
    loop *l = NULL;
    if (n->uses_loop) {
        l = fy_tm_alloc(&ev->m, sizeof *l);
        if (l == NULL || fy_tv_length(&ev->m, &items, &length) != 0)
            return FLOW_ERROR;
        *l = (loop){.base = {"loop", call_loop, loop_attribute},
                    .index0 = -1,
                    .length = (int64_t)length,
                    .depth0 = depth0,
                    .node = n,
                    .outer = outer};
    }
    it = (fy_titer){.of = items};
    if (l != NULL)
        l->it = it;
    fy_frame *own = push_frame(ev, outer);
    if (own == NULL)
        return FLOW_ERROR;
    flow went = run_rounds(ev, n, own, l != NULL ? &l->it : &it, l);
    pop_frame(ev, own, around);
    return went;
}

/* loop(items): the same loop on other items, as a string. */
static int call_loop(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out)
{
    fy_eval *ev = (fy_eval *)m;
    const loop *l = (const loop *)self;
    size_t begin = ev->out->len;
    if (a->n != 1 || a->n_named > 0)
        return fy_tm_fail(m, "loop() takes one argument: the items");
    if (!l->node->flag)
        return fy_tm_fail(m, "The loop must have the 'recursive' marker to be called recursively.");
    if (begin_call(ev) != 0 ||
        run_loop(ev, l->node, &a->arg[0], l->outer, l->depth0 + 1) == FLOW_ERROR)
        return -1;
    ev->calls--;
    return fy_eval_take(ev, begin, out);
}

static flow run_for(fy_eval *ev, const fy_node *n)
{
    fy_tv room;
    const fy_tv *v = fy_eval_peek(ev, n->b, &room);
    if (v == NULL)
        return FLOW_ERROR;
    ev->m.line = n->line;
    return run_loop(ev, n, v, ev->frame, 0);
}

/* --- statements --- */

static flow exec_if(fy_eval *ev, const fy_node *n)
{
    for (;;) {
        fy_tv room;
        const fy_tv *test = fy_eval_peek(ev, n->a, &room);
        if (test == NULL)
            return FLOW_ERROR;
        if (fy_tv_truth(test))
            return run_body(ev, n->body);
        if (n->orelse.n != 1 || n->orelse.item[0]->kind != FY_N_IF)
            return run_body(ev, n->orelse);
        n = n->orelse.item[0];
    }
}

static int exec_set(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    if (fy_eval_expr(ev, n->b, &v) != 0)
        return -1;
    ev->m.line = n->line;
    return assign(ev, n->a, &v);
}

/* A body with a scope of its own. */
static flow exec_scope(fy_eval *ev, fy_nodes body)
{
    fy_frame *around = ev->frame, *own = push_frame(ev, around);
    if (own == NULL)
        return FLOW_ERROR;
    flow went = run_body(ev, body);
    pop_frame(ev, own, around);
    return went;
}

/* Runs the body and takes its text through the filters, if any. A break takes the text along. */
static flow text_of_block(fy_eval *ev, const fy_node *n, const fy_node *filters, fy_tv *out)
{
    size_t begin = ev->out->len;
    flow went = exec_scope(ev, n->body);
    if (went == FLOW_BREAK || went == FLOW_CONTINUE)
        fy_eval_drop(ev, begin);
    if (went != FLOW_NEXT)
        return went;
    if (fy_eval_take(ev, begin, out) != 0)
        return FLOW_ERROR;
    ev->piped = *out;
    return filters != NULL && fy_eval_expr(ev, filters, out) != 0 ? FLOW_ERROR : FLOW_NEXT;
}

static flow exec_set_block(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    flow went = text_of_block(ev, n, n->b, &v);
    if (went != FLOW_NEXT)
        return went;
    ev->m.line = n->line;
    return assign(ev, n->a, &v) != 0 ? FLOW_ERROR : FLOW_NEXT;
}

/* What a block writes is joined to the text as it is: jinja2 refuses what is not a string. */
static flow emit_block(fy_eval *ev, const fy_tv *v)
{
    if (v->kind != FY_TV_STR) {
        fy_tm_fail(&ev->m, "sequence item 0: expected str instance, %s found", fy_tv_type_name(v));
        return FLOW_ERROR;
    }
    return fy_eval_emit(ev, v->str) != 0 ? FLOW_ERROR : FLOW_NEXT;
}

static flow exec_filter_block(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    flow went = text_of_block(ev, n, n->a, &v);
    return went == FLOW_NEXT ? emit_block(ev, &v) : went;
}

static int exec_macro(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    return make_macro(ev, n, &v) != 0 ? -1 : set_name(ev, n->symbol, v);
}

static flow exec_call_block(fy_eval *ev, const fy_node *n)
{
    fy_tv caller, v;
    if (make_macro(ev, n, &caller) != 0 || fy_eval_call(ev, n->a, &caller, &v) != 0)
        return FLOW_ERROR;
    return emit_block(ev, &v);
}

/* The values see the scope around, not each other. */
static flow exec_with(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    fy_frame *around = ev->frame, *own = push_frame(ev, around);
    if (own == NULL)
        return FLOW_ERROR;
    for (uint32_t i = 0; i + 1 < n->kids.n; i += 2) {
        ev->frame = around;
        if (fy_eval_expr(ev, n->kids.item[i + 1], &v) != 0)
            return FLOW_ERROR;
        ev->frame = own;
        if (assign(ev, n->kids.item[i], &v) != 0)
            return FLOW_ERROR;
    }
    flow went = run_body(ev, n->body);
    pop_frame(ev, own, around);
    return went;
}

static flow exec(fy_eval *ev, const fy_node *n)
{
    int rc = 0;
    switch ((int)n->kind) { /* statements only */
    case FY_N_TEXT:
        rc = fy_eval_emit(ev, n->value.str);
        break;
    case FY_N_PRINT:
        rc = fy_eval_print(ev, n->a);
        break;
    case FY_N_IF:
        return exec_if(ev, n);
    case FY_N_FOR:
        return run_for(ev, n);
    case FY_N_SET:
        rc = exec_set(ev, n);
        break;
    case FY_N_SET_BLOCK:
        return exec_set_block(ev, n);
    case FY_N_MACRO:
        rc = exec_macro(ev, n);
        break;
    case FY_N_CALL_BLOCK:
        return exec_call_block(ev, n);
    case FY_N_FILTER_BLOCK:
        return exec_filter_block(ev, n);
    case FY_N_WITH:
        return exec_with(ev, n);
    case FY_N_SCOPE:
        return exec_scope(ev, n->body);
    case FY_N_BREAK:
        return FLOW_BREAK;
    case FY_N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        rc = fy_tm_fail(&ev->m, "not a statement");
        break;
    }
    return rc != 0 ? FLOW_ERROR : FLOW_NEXT;
}

static flow run_body(fy_eval *ev, fy_nodes body)
{
    flow went = FLOW_NEXT;
    if (fy_eval_deeper(ev) != 0)
        return FLOW_ERROR;
    for (uint32_t i = 0; went == FLOW_NEXT && i < body.n; i++) {
        ev->m.line = body.item[i]->line;
        went = fy_tm_charge(&ev->m, 16) != 0 ? FLOW_ERROR : exec(ev, body.item[i]);
    }
    ev->nesting--;
    return went;
}

/* --- rendering --- */

static int render(fy_eval *ev)
{
    const fy_template *t = ev->t;
    ev->top = fy_tm_alloc(&ev->m, t->n_symbols * sizeof *ev->top);
    ev->is_known = fy_tm_alloc(&ev->m, t->n_symbols * sizeof *ev->is_known);
    if (ev->top == NULL || ev->is_known == NULL)
        return -1;
    memset(ev->is_known, 0, t->n_symbols * sizeof *ev->is_known);
    return run_body(ev, t->body) == FLOW_ERROR ? -1 : 0;
}

int fy_template_render_within(const fy_template *t, const fy_template_vars *v, fy_str *out,
                              fy_template_budget *b, fy_err *e)
{
    fy_err own = {0};
    size_t begin = out->len, vars = fy_template_vars_bytes(v);
    bool oom = out->oom;
    fy_template_budget usual = {
        .steps = BASE_STEPS + (uint64_t)vars * STEPS_PER_BYTE,
        .bytes = BASE_BYTES + vars * BYTES_PER_BYTE,
    };
    if (b == NULL)
        b = &usual;
    fy_eval ev = {
        .m = {.bytes_left = b->bytes, .steps_left = b->steps, .e = &own},
        .t = t,
        .vars = v,
        .out = out,
    };
    fy_template_vars_clock(v, &ev.m.clock_s, &ev.m.clock_utc);
    int rc = render(&ev);
    b->steps_used = b->steps - ev.m.steps_left;
    b->bytes_used = b->bytes - ev.m.bytes_left;
    b->heap = ev.m.arena.total;
    fy_arena_release(&ev.m.arena);
    if (rc == 0)
        return 0;
    out->len = begin;
    out->oom = oom;
    if (out->ptr != NULL)
        out->ptr[begin] = '\0';
    return fy_fail(e, own.code, "%s", own.msg);
}

int fy_template_render(const fy_template *t, const fy_template_vars *v, fy_str *out, fy_err *e)
{
    return fy_template_render_within(t, v, out, NULL, e);
}
