/* Rendering: scopes, statements, macros with their arguments, loops with their `loop`. */
#include "model/template/template_eval.h"

#include <string.h>

/* What a rendering may use: enough for any template with variables of ordinary size, and in
 * proportion for long conversations. A million and a half steps take less than a tenth of a second.
 */
enum {
    BASE_STEPS = 1500000,
    BASE_BYTES = 8 << 20,
    STEPS_PER_BYTE = 8, /* of variables */
    BYTES_PER_BYTE = 16,
};

/* After an error FLOW_NEXT: nothing follows, because no statement runs. */
typedef enum { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

static flow run_body(fy_eval *ev, fy_nodes body);

/* --- scopes --- */

static fy_frame *push_frame(fy_eval *ev, fy_frame *outer)
{
    fy_frame *f = ev->idle;
    if (!fy_tm_charge(&ev->m, sizeof *f))
        return &ev->none;
    if (f != NULL)
        ev->idle = f->outer;
    else if ((f = fy_tm_alloc(&ev->m, sizeof *f)) == NULL)
        return &ev->none;
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
    if (frame->kept || !fy_tm_ok(&ev->m))
        return;
    frame->outer = ev->idle;
    ev->idle = frame;
}

static void set_name(fy_eval *ev, uint32_t symbol, fy_tv value)
{
    fy_frame *f = ev->frame;
    if (f == NULL) {
        ev->top[symbol] = value;
        ev->is_known[symbol] = true;
        return;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->item[i].symbol == symbol) {
            f->item[i].value = value;
            return;
        }
    }
    fy_binding *item = fy_tm_grow(&ev->m, f->item, f->n, &f->cap, 1, sizeof *item);
    if (!fy_tm_charge(&ev->m, 16 * (uint64_t)(f->n + 1)))
        return;
    f->item = item;
    f->item[f->n++] = (fy_binding){symbol, value};
}

/* --- assignment --- */

static void assign(fy_eval *ev, const fy_node *target, const fy_tv *value)
{
    size_t n = target->kids.n;
    if (target->kind == FY_N_GETATTR) {
        const fy_tv *ns = fy_eval_peek(ev, target->a, NULL); /* a name */
        if (ns->kind == FY_TV_NAMESPACE)
            fy_tdict_set(&ev->m, ns->dict, fy_tv_view(target->str), *value);
        else
            fy_tm_fail(&ev->m, "cannot assign attribute on non-namespace object");
    } else if (target->kind == FY_N_NAME) {
        set_name(ev, target->symbol, *value);
    } else {
        if (value->kind >= FY_TV_NONE && value->kind <= FY_TV_FLOAT && value->kind != FY_TV_BIGINT)
            fy_tm_fail(&ev->m, "cannot unpack non-iterable %s object", fy_tv_type_name(value));
        fy_tlist items = fy_tv_items(&ev->m, value);
        if (items.n > n)
            fy_tm_fail(&ev->m, "too many values to unpack (expected %zu)", n);
        if (items.n < n)
            fy_tm_fail(&ev->m, "not enough values to unpack (expected %zu, got %zu)", n, items.n);
        for (size_t i = 0; i < n && fy_tm_ok(&ev->m); i++)
            assign(ev, target->kids.item[i], &items.item[i]);
    }
}

static bool begin_call(fy_eval *ev)
{
    if (++ev->calls > FY_TEMPLATE_MAX_CALLS)
        fy_fail(ev->m.e, FY_EFIT, "line %u: more than %d calls of macros and loops in each other",
                ev->m.line, FY_TEMPLATE_MAX_CALLS);
    return fy_tm_ok(&ev->m);
}

/* --- macros --- */

typedef struct {
    fy_tcall base;
    const fy_node *node;
    fy_frame *outer;
    fy_span name;
} macro;

static void bad_call(fy_eval *ev, const macro *f, const char *what, fy_span detail)
{
    fy_tm_fail(&ev->m, "macro '%.*s' %s%.*s", FY_TSHOWN(f->name), what, FY_TSHOWN(detail));
}

/* Parameters by position, the others by name, then the defaults of those that were not given: one
 * may name an earlier parameter. */
static void bind_params(fy_eval *ev, const macro *f, const fy_targs *a)
{
    const fy_node_params *p = f->node->params;
    uint32_t first_default = p->n - p->defaults.n;
    fy_tm_charge(&ev->m, 16 * (uint64_t)p->n * (a->n_named + 1));
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < p->n && fy_tm_ok(&ev->m); i++) {
            fy_span name = ev->t->symbols[p->symbols[i]];
            const fy_tv *given = i < a->n ? &a->arg[i] : fy_targs_named(a, name);
            bool has_default = i >= first_default;
            fy_tv v = fy_tv_undefined(name);
            if (pass == 1 && (given != NULL || !has_default))
                continue;
            if (pass == 1)
                v = fy_eval_expr(ev, p->defaults.item[i - first_default]);
            else if (given != NULL)
                v = *given;
            else if (!has_default)
                v.view = 'p';
            set_name(ev, p->symbols[i], v);
        }
    }
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

/* The names that a body has if it mentions them; a parameter of that name replaces one. */
static void bind_special(fy_eval *ev, const macro *f, const fy_targs *a)
{
    const fy_node_params *p = f->node->params;
    const uint32_t *special = ev->t->special;
    const fy_tv *caller = fy_targs_named(a, FY_SPAN("caller"));
    if (p->uses_caller)
        set_name(ev, special[FY_T_CALLER],
                 caller != NULL ? *caller : fy_tv_hint(FY_SPAN("No caller defined")));
    fy_tv kwargs = fy_tv_none();
    if (p->uses_kwargs) {
        kwargs = fy_tv_dict(&ev->m, FY_TV_DICT, a->n_named);
        set_name(ev, special[FY_T_KWARGS], kwargs);
    }
    for (size_t k = 0; k < a->n_named; k++) {
        if (is_used(ev, p, a, k))
            continue;
        if (p->uses_kwargs)
            fy_tdict_set(&ev->m, kwargs.dict, fy_tv_view(a->name[k]), a->named[k]);
        else
            bad_call(ev, f, "takes no keyword argument ", a->name[k]);
    }
    if (a->n > p->n && !p->uses_varargs)
        bad_call(ev, f, "takes fewer positional arguments", FY_SPAN(""));
    if (!p->uses_varargs)
        return;
    fy_tv varargs = fy_tv_list(&ev->m, FY_TV_TUPLE, a->n > p->n ? a->n - p->n : 0);
    for (size_t i = p->n; i < a->n; i++)
        fy_tlist_add(&ev->m, varargs.list, a->arg[i]);
    set_name(ev, special[FY_T_VARARGS], varargs);
}

static fy_tv call_macro(fy_tm *m, fy_tcall *self, const fy_targs *a)
{
    fy_eval *ev = (fy_eval *)m;
    const macro *f = (const macro *)self;
    size_t begin = ev->out->len;
    fy_frame *around = ev->frame, *own = push_frame(ev, f->outer);
    bind_special(ev, f, a);
    if (begin_call(ev)) {
        bind_params(ev, f, a);
        run_body(ev, f->node->body);
    }
    ev->calls--;
    pop_frame(ev, own, around);
    return fy_eval_take(ev, begin);
}

static bool macro_attribute(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out)
{
    (void)m;
    *out = fy_tv_view(((const macro *)self)->name);
    return fy_span_is(name, "name");
}

static fy_tv make_macro(fy_eval *ev, const fy_node *n)
{
    macro *f = fy_tm_alloc(&ev->m, sizeof *f);
    if (f == NULL)
        return fy_tv_none();
    *f = (macro){{"macro", call_macro, macro_attribute},
                 n,
                 ev->frame,
                 n->kind == FY_N_MACRO ? ev->t->symbols[n->symbol] : FY_SPAN("caller")};
    for (fy_frame *frame = ev->frame; frame != NULL && !frame->kept; frame = frame->outer)
        frame->kept = true;
    return (fy_tv){.kind = FY_TV_OBJECT, .call = &f->base};
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

static FY_BUILTIN(loop_cycle)
{
    const loop *l = (const loop *)v->call;
    if (a->n == 0 || a->n_named > 0)
        return fy_tm_fail(m, "no items for cycling given");
    return a->arg[(uint64_t)l->index0 % a->n];
}

static FY_BUILTIN(loop_changed)
{
    loop *l = (loop *)v->call;
    fy_tv now = fy_tv_list(m, FY_TV_TUPLE, a->n);
    for (size_t i = 0; i < a->n; i++)
        fy_tlist_add(m, now.list, a->arg[i]);
    bool same = l->has_changed && fy_tv_equal(m, &l->changed, &now);
    l->changed = now;
    l->has_changed = true;
    return fy_tv_bool(!same);
}

static bool loop_attribute(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out)
{
    static const fy_tbuiltin methods[] = {
        {"cycle", NULL, loop_cycle, 0}, {"changed", NULL, loop_changed, 0}, {NULL, NULL, NULL, 0}};
    loop *l = (loop *)self;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"index", l->index0 + 1},
        {"index0", l->index0},
        {"length", l->length},
        {"revindex", l->length - l->index0},
        {"revindex0", l->length - l->index0 - 1},
        {"depth", l->depth0 + 1},
        {"depth0", l->depth0},
    };
    fy_titer ahead = l->it;
    const fy_tbuiltin *method = fy_tbuiltin_find(methods, name);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (fy_span_is(name, numbers[i].name)) {
            *out = fy_tv_int(numbers[i].value);
            return true;
        }
    }
    if (fy_span_is(name, "first"))
        *out = fy_tv_bool(l->index0 == 0);
    else if (fy_span_is(name, "last"))
        *out = fy_tv_bool(l->index0 + 1 == l->length);
    else if (fy_span_is(name, "previtem"))
        *out = l->index0 == 0 ? fy_tv_hint(FY_SPAN("there is no previous item")) : l->before;
    else if (fy_span_is(name, "nextitem"))
        *out = fy_titer_next(&ahead, out) ? *out : fy_tv_hint(FY_SPAN("there is no next item"));
    else if (method != NULL)
        *out =
            fy_tbuiltin_bind(m, "method", method, (fy_tv){.kind = FY_TV_OBJECT, .call = &l->base});
    else
        return false;
    return true;
}

/* --- loops --- */

/* The items for which the condition holds, each seen in a scope of its own. */
static fy_tv select_items(fy_eval *ev, const fy_node *n, fy_titer it)
{
    fy_tv item, room, out = fy_tv_list(&ev->m, FY_TV_LIST, 8);
    fy_frame *around = ev->frame, *own = push_frame(ev, around);
    while (fy_titer_next(&it, &item) && fy_tm_charge(&ev->m, 16)) {
        own->n = 0;
        assign(ev, n->a, &item);
        if (fy_tv_truth(fy_eval_peek(ev, n->c, &room)))
            fy_tlist_add(&ev->m, out.list, item);
    }
    pop_frame(ev, own, around);
    return out;
}

/* All rounds in the scope `own`, and the else of a loop of which no round went through: that is how
 * jinja2 finds out that there was none. */
static flow run_rounds(fy_eval *ev, const fy_node *n, fy_frame *own, fy_titer *it, loop *l)
{
    fy_tv item;
    bool went_through = false;
    flow went = FLOW_NEXT;
    while (went != FLOW_BREAK && fy_titer_next(it, &item) && fy_tm_charge(&ev->m, 16)) {
        ev->m.line = n->line;
        own->n = 0;
        if (l != NULL) {
            l->index0++;
            l->before = l->current;
            l->current = item;
            set_name(ev, ev->t->special[FY_T_LOOP],
                     (fy_tv){.kind = FY_TV_OBJECT, .call = &l->base});
        }
        assign(ev, n->a, &item);
        went = run_body(ev, n->body);
        went_through = went_through || went == FLOW_NEXT;
    }
    own->n = 0;
    return n->orelse.n == 0 || went_through ? FLOW_NEXT : run_body(ev, n->orelse);
}

static fy_tv call_loop(fy_tm *m, fy_tcall *self, const fy_targs *a);

/* Runs the loop in the scope `outer`. */
static flow run_loop(fy_eval *ev, const fy_node *n, const fy_tv *v, fy_frame *outer, int64_t depth0)
{
    fy_frame *around = ev->frame;
    ev->frame = outer;
    fy_titer it = fy_titer_begin(&ev->m, v);
    loop *l = NULL;
    if (n->c != NULL) {
        it = (fy_titer){.of = select_items(ev, n, it)};
    } else if (it.of.kind == FY_TV_ITER) {
        fy_tlist items = fy_tv_items(&ev->m, v);
        it.of = fy_tv_list(&ev->m, FY_TV_LIST, 0);
        if (fy_tm_ok(&ev->m))
            *it.of.list = items;
    }
    fy_frame *own = push_frame(ev, outer);
    if (n->uses_loop && (l = fy_tm_alloc(&ev->m, sizeof *l)) != NULL)
        *l = (loop){.base = {"loop", call_loop, loop_attribute},
                    .it = it,
                    .index0 = -1,
                    .length = (int64_t)fy_tv_length(&ev->m, &it.of),
                    .depth0 = depth0,
                    .node = n,
                    .outer = outer};
    flow went = run_rounds(ev, n, own, l != NULL ? &l->it : &it, l);
    pop_frame(ev, own, around);
    return went;
}

/* loop(items): the same loop on other items, as a string. */
static fy_tv call_loop(fy_tm *m, fy_tcall *self, const fy_targs *a)
{
    fy_eval *ev = (fy_eval *)m;
    const loop *l = (const loop *)self;
    size_t begin = ev->out->len;
    if (a->n != 1 || a->n_named > 0)
        return fy_tm_fail(m, "loop() takes one argument: the items");
    if (!l->node->flag)
        return fy_tm_fail(m, "The loop must have the 'recursive' marker to be called recursively.");
    if (begin_call(ev))
        run_loop(ev, l->node, &a->arg[0], l->outer, l->depth0 + 1);
    ev->calls--;
    return fy_eval_take(ev, begin);
}

/* --- statements --- */

static flow exec_for(fy_eval *ev, const fy_node *n)
{
    fy_tv room;
    const fy_tv *v = fy_eval_peek(ev, n->b, &room);
    ev->m.line = n->line;
    return run_loop(ev, n, v, ev->frame, 0);
}

static flow exec_if(fy_eval *ev, const fy_node *n)
{
    for (;;) {
        fy_tv room;
        if (fy_tv_truth(fy_eval_peek(ev, n->a, &room)))
            return run_body(ev, n->body);
        if (n->orelse.n != 1 || n->orelse.item[0]->kind != FY_N_IF)
            return run_body(ev, n->orelse);
        n = n->orelse.item[0];
    }
}

/* A body with a scope of its own. */
static flow exec_scope(fy_eval *ev, fy_nodes body)
{
    fy_frame *around = ev->frame, *own = push_frame(ev, around);
    flow went = run_body(ev, body);
    pop_frame(ev, own, around);
    return went;
}

/* What a block writes is joined to the text as it is: jinja2 refuses what is not a string. */
static void emit_block(fy_eval *ev, const fy_tv *v)
{
    if (v->kind == FY_TV_STR)
        fy_eval_emit(ev, v->str);
    else
        fy_tm_fail(&ev->m, "sequence item 0: expected str instance, %s found", fy_tv_type_name(v));
}

/* A set or filter block: runs the body and takes its text through the filters, if any. A break
 * takes the text along. */
static flow exec_text_block(fy_eval *ev, const fy_node *n)
{
    bool set = n->kind == FY_N_SET_BLOCK;
    const fy_node *filters = set ? n->b : n->a;
    size_t begin = ev->out->len;
    flow went = exec_scope(ev, n->body);
    if (went != FLOW_NEXT) {
        fy_eval_drop(ev, begin);
        return went;
    }
    fy_tv v = fy_eval_take(ev, begin);
    ev->piped = v;
    if (filters != NULL)
        v = fy_eval_expr(ev, filters);
    if (set) {
        ev->m.line = n->line;
        assign(ev, n->a, &v);
    } else {
        emit_block(ev, &v);
    }
    return FLOW_NEXT;
}

/* The values see the scope around, not each other. */
static flow exec_with(fy_eval *ev, const fy_node *n)
{
    fy_frame *around = ev->frame, *own = push_frame(ev, around);
    for (uint32_t i = 0; i + 1 < n->kids.n; i += 2) {
        ev->frame = around;
        fy_tv v = fy_eval_expr(ev, n->kids.item[i + 1]);
        ev->frame = own;
        assign(ev, n->kids.item[i], &v);
    }
    flow went = run_body(ev, n->body);
    pop_frame(ev, own, around);
    return went;
}

static flow exec(fy_eval *ev, const fy_node *n)
{
    fy_tv v, caller;
    switch ((int)n->kind) { /* statements only */
    case FY_N_TEXT:
        fy_eval_emit(ev, n->value.str);
        break;
    case FY_N_PRINT:
        fy_eval_print(ev, n->a);
        break;
    case FY_N_IF:
        return exec_if(ev, n);
    case FY_N_FOR:
        return exec_for(ev, n);
    case FY_N_SET:
        v = fy_eval_expr(ev, n->b);
        ev->m.line = n->line;
        assign(ev, n->a, &v);
        break;
    case FY_N_SET_BLOCK:
    case FY_N_FILTER_BLOCK:
        return exec_text_block(ev, n);
    case FY_N_MACRO:
        set_name(ev, n->symbol, make_macro(ev, n));
        break;
    case FY_N_CALL_BLOCK:
        caller = make_macro(ev, n);
        v = fy_eval_call(ev, n->a, &caller);
        emit_block(ev, &v);
        break;
    case FY_N_WITH:
        return exec_with(ev, n);
    case FY_N_SCOPE:
        return exec_scope(ev, n->body);
    case FY_N_BREAK:
        return FLOW_BREAK;
    case FY_N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        fy_tm_fail(&ev->m, "not a statement");
    }
    return FLOW_NEXT;
}

static flow run_body(fy_eval *ev, fy_nodes body)
{
    flow went = FLOW_NEXT;
    if (fy_eval_enter(ev)) {
        for (uint32_t i = 0; went == FLOW_NEXT && i < body.n; i++) {
            ev->m.line = body.item[i]->line;
            if (!fy_tm_charge(&ev->m, 16))
                break;
            went = exec(ev, body.item[i]);
        }
    }
    ev->nesting--;
    return fy_tm_ok(&ev->m) ? went : FLOW_NEXT;
}

/* --- rendering --- */

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
    ev.top = fy_tm_alloc(&ev.m, t->n_symbols * sizeof *ev.top);
    ev.is_known = fy_tm_alloc(&ev.m, t->n_symbols * sizeof *ev.is_known);
    if (fy_tm_ok(&ev.m)) {
        memset(ev.is_known, 0, t->n_symbols * sizeof *ev.is_known);
        run_body(&ev, t->body);
    }
    b->steps_used = b->steps - ev.m.steps_left;
    b->bytes_used = b->bytes - ev.m.bytes_left;
    b->heap = ev.m.arena.total;
    fy_arena_release(&ev.m.arena);
    if (own.code == FY_OK)
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
