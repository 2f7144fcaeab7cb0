/* Rendering: scopes and statements. */
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

/* --- scopes --- */

fy_frame *fy_eval_push(fy_eval *ev, fy_frame *outer)
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

void fy_eval_pop(fy_eval *ev, fy_frame *frame, fy_frame *innermost)
{
    ev->frame = innermost;
    if (frame->kept)
        return;
    frame->outer = ev->idle;
    ev->idle = frame;
}

int fy_eval_set(fy_eval *ev, uint32_t symbol, fy_tv value)
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
        if (fy_eval_assign(ev, target->kids.item[i], &items.item[i]) != 0)
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

int fy_eval_assign(fy_eval *ev, const fy_node *target, const fy_tv *value)
{
    if (target->kind == FY_N_TUPLE)
        return assign_tuple(ev, target, value);
    if (target->kind == FY_N_GETATTR)
        return assign_attribute(ev, target, value);
    return fy_eval_set(ev, target->symbol, *value);
}

/* --- statements --- */

static fy_flow exec_if(fy_eval *ev, const fy_node *n)
{
    for (;;) {
        fy_tv room;
        const fy_tv *test = fy_eval_peek(ev, n->a, &room);
        if (test == NULL)
            return FY_FLOW_ERROR;
        if (fy_tv_truth(test))
            return fy_eval_body(ev, n->body);
        if (n->orelse.n != 1 || n->orelse.item[0]->kind != FY_N_IF)
            return fy_eval_body(ev, n->orelse);
        n = n->orelse.item[0];
    }
}

static int exec_set(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    if (fy_eval_expr(ev, n->b, &v) != 0)
        return -1;
    ev->m.line = n->line;
    return fy_eval_assign(ev, n->a, &v);
}

/* A body with a scope of its own. */
static fy_flow exec_scope(fy_eval *ev, fy_nodes body)
{
    fy_frame *around = ev->frame, *own = fy_eval_push(ev, around);
    if (own == NULL)
        return FY_FLOW_ERROR;
    fy_flow flow = fy_eval_body(ev, body);
    fy_eval_pop(ev, own, around);
    return flow;
}

/* Runs the body and takes its text through the filters, if any. A break takes the text along. */
static fy_flow text_of_block(fy_eval *ev, const fy_node *n, const fy_node *filters, fy_tv *out)
{
    size_t begin = ev->out->len;
    fy_flow flow = exec_scope(ev, n->body);
    if (flow == FY_FLOW_BREAK || flow == FY_FLOW_CONTINUE)
        fy_eval_drop(ev, begin);
    if (flow != FY_FLOW_NEXT)
        return flow;
    if (fy_eval_take(ev, begin, out) != 0)
        return FY_FLOW_ERROR;
    ev->piped = *out;
    return filters != NULL && fy_eval_expr(ev, filters, out) != 0 ? FY_FLOW_ERROR : FY_FLOW_NEXT;
}

static fy_flow exec_set_block(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    fy_flow flow = text_of_block(ev, n, n->b, &v);
    if (flow != FY_FLOW_NEXT)
        return flow;
    ev->m.line = n->line;
    return fy_eval_assign(ev, n->a, &v) != 0 ? FY_FLOW_ERROR : FY_FLOW_NEXT;
}

/* What a block writes is joined to the text as it is: jinja2 refuses what is not a string. */
static fy_flow emit_block(fy_eval *ev, const fy_tv *v)
{
    if (v->kind != FY_TV_STR) {
        fy_tm_fail(&ev->m, "sequence item 0: expected str instance, %s found", fy_tv_type_name(v));
        return FY_FLOW_ERROR;
    }
    return fy_eval_emit(ev, v->str) != 0 ? FY_FLOW_ERROR : FY_FLOW_NEXT;
}

static fy_flow exec_filter_block(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    fy_flow flow = text_of_block(ev, n, n->a, &v);
    return flow == FY_FLOW_NEXT ? emit_block(ev, &v) : flow;
}

static int exec_macro(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    return fy_eval_macro(ev, n, &v) != 0 ? -1 : fy_eval_set(ev, n->symbol, v);
}

static fy_flow exec_call_block(fy_eval *ev, const fy_node *n)
{
    fy_tv caller, v;
    if (fy_eval_macro(ev, n, &caller) != 0 || fy_eval_call(ev, n->a, &caller, &v) != 0)
        return FY_FLOW_ERROR;
    return emit_block(ev, &v);
}

/* The values see the scope around, not each other. */
static fy_flow exec_with(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    fy_frame *around = ev->frame, *own = fy_eval_push(ev, around);
    if (own == NULL)
        return FY_FLOW_ERROR;
    for (uint32_t i = 0; i + 1 < n->kids.n; i += 2) {
        ev->frame = around;
        if (fy_eval_expr(ev, n->kids.item[i + 1], &v) != 0)
            return FY_FLOW_ERROR;
        ev->frame = own;
        if (fy_eval_assign(ev, n->kids.item[i], &v) != 0)
            return FY_FLOW_ERROR;
    }
    fy_flow flow = fy_eval_body(ev, n->body);
    fy_eval_pop(ev, own, around);
    return flow;
}

static fy_flow exec(fy_eval *ev, const fy_node *n)
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
        return fy_eval_for(ev, n);
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
        return FY_FLOW_BREAK;
    case FY_N_CONTINUE:
        return FY_FLOW_CONTINUE;
    default:
        rc = fy_tm_fail(&ev->m, "not a statement");
        break;
    }
    return rc != 0 ? FY_FLOW_ERROR : FY_FLOW_NEXT;
}

fy_flow fy_eval_body(fy_eval *ev, fy_nodes body)
{
    fy_flow flow = FY_FLOW_NEXT;
    if (fy_eval_deeper(ev) != 0)
        return FY_FLOW_ERROR;
    for (uint32_t i = 0; flow == FY_FLOW_NEXT && i < body.n; i++) {
        ev->m.line = body.item[i]->line;
        flow = fy_tm_charge(&ev->m, 16) != 0 ? FY_FLOW_ERROR : exec(ev, body.item[i]);
    }
    ev->nesting--;
    return flow;
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
    return fy_eval_body(ev, t->body) == FY_FLOW_ERROR ? -1 : 0;
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
