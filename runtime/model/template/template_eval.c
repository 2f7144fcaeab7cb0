/* Rendering and statements. */
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

/* --- assignment ------------------------------------------------------------------------------- */

int fy_eval_unpack(fy_eval *ev, const fy_tv *v, size_t n, fy_tlist *out)
{
    if (v->kind == FY_TV_NONE || v->kind == FY_TV_BOOL || v->kind == FY_TV_INT ||
        v->kind == FY_TV_FLOAT)
        return fy_tm_fail(&ev->m, "cannot unpack non-iterable %s object", fy_tv_type_name(v));
    if (fy_tv_items(&ev->m, v, out) != 0)
        return -1;
    if (out->n > n)
        return fy_tm_fail(&ev->m, "too many values to unpack (expected %zu)", n);
    if (out->n < n)
        return fy_tm_fail(&ev->m, "not enough values to unpack (expected %zu, got %zu)", n, out->n);
    return 0;
}

static int assign_tuple(fy_eval *ev, const fy_node *target, const fy_tv *value)
{
    fy_tlist items;
    if (fy_eval_unpack(ev, value, target->kids.n, &items) != 0)
        return -1;
    for (uint32_t i = 0; i < target->kids.n; i++) {
        if (fy_eval_assign(ev, target->kids.item[i], &items.item[i]) != 0)
            return -1;
    }
    return 0;
}

/* NULL: it is none. */
static const fy_tv *namespace_of(fy_eval *ev, const fy_node *target)
{
    const fy_tv *ns = fy_eval_peek(ev, target->a, NULL); /* a name */
    if (ns != NULL && ns->kind != FY_TV_NAMESPACE) {
        fy_tm_fail(&ev->m, "cannot assign attribute on non-namespace object");
        return NULL;
    }
    return ns;
}

static int assign_attribute(fy_eval *ev, const fy_node *target, const fy_tv *value)
{
    const fy_tv *ns = namespace_of(ev, target);
    return ns == NULL ? -1 : fy_tdict_set(&ev->m, ns->dict, fy_tv_view(target->str), *value);
}

/* jinja2 looks before it computes the value. */
static int check_namespaces(fy_eval *ev, const fy_node *target)
{
    if (target->kind == FY_N_GETATTR)
        return namespace_of(ev, target) == NULL ? -1 : 0;
    for (uint32_t i = 0; target->kind == FY_N_TUPLE && i < target->kids.n; i++) {
        if (check_namespaces(ev, target->kids.item[i]) != 0)
            return -1;
    }
    return 0;
}

int fy_eval_assign(fy_eval *ev, const fy_node *target, const fy_tv *value)
{
    if (target->kind == FY_N_TUPLE)
        return assign_tuple(ev, target, value);
    if (target->kind == FY_N_GETATTR)
        return assign_attribute(ev, target, value);
    ev->act->slot[target->place.slot] = *value; /* a name is set in its own function */
    return 0;
}

/* --- statements ------------------------------------------------------------------------------- */

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
    if (check_namespaces(ev, n->a) != 0 || fy_eval_expr(ev, n->b, &v) != 0)
        return -1;
    ev->m.line = n->line;
    return fy_eval_assign(ev, n->a, &v);
}

/* Runs the body and takes its text through the filters, if any. A break takes the text along. */
static fy_flow text_of_block(fy_eval *ev, const fy_node *n, const fy_node *filters, fy_tv *out)
{
    size_t begin = ev->out->len;
    if (fy_eval_enter(ev, n->scope) != 0)
        return FY_FLOW_ERROR;
    fy_flow flow = fy_eval_body(ev, n->body);
    if (flow == FY_FLOW_BREAK || flow == FY_FLOW_CONTINUE)
        fy_eval_drop(ev, begin);
    if (flow != FY_FLOW_NEXT)
        return flow;
    if (fy_eval_take(ev, begin, out) != 0)
        return FY_FLOW_ERROR;
    if (filters == NULL)
        return FY_FLOW_NEXT;
    ev->piped = *out;
    return fy_eval_expr(ev, filters, out) != 0 ? FY_FLOW_ERROR : FY_FLOW_NEXT;
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

/* What a block writes is joined to the text as it is: jinja2 refuses what is no string. */
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
    if (fy_eval_macro(ev, n, ev->t->symbols[n->symbol], &v) != 0)
        return -1;
    ev->act->slot[n->place.slot] = v;
    return 0;
}

static fy_flow exec_call_block(fy_eval *ev, const fy_node *n)
{
    fy_tv caller, v;
    if (fy_eval_macro(ev, n, (fy_span){0}, &caller) != 0 ||
        fy_eval_call(ev, n->a, &caller, &v) != 0)
        return FY_FLOW_ERROR;
    return emit_block(ev, &v);
}

static fy_flow exec_with(fy_eval *ev, const fy_node *n)
{
    fy_tv v;
    if (fy_eval_enter(ev, n->scope) != 0)
        return FY_FLOW_ERROR;
    for (uint32_t i = 0; i + 1 < n->kids.n; i += 2) {
        if (fy_eval_expr(ev, n->kids.item[i + 1], &v) != 0 ||
            fy_eval_assign(ev, n->kids.item[i], &v) != 0)
            return FY_FLOW_ERROR;
    }
    return fy_eval_body(ev, n->body);
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
        rc = fy_eval_generation(ev, n);
        break;
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

/* --- rendering -------------------------------------------------------------------------------- */

static void *cleared(fy_eval *ev, size_t n, size_t size)
{
    void *p = fy_tm_alloc(&ev->m, n * size); /* n is a count of things in the template */
    return p == NULL ? NULL : memset(p, 0, n * size);
}

static int render(fy_eval *ev)
{
    const fy_template *t = ev->t;
    ev->idle = cleared(ev, t->n_functions, sizeof *ev->idle);
    ev->free = cleared(ev, t->n_symbols, sizeof *ev->free);
    ev->is_known = cleared(ev, t->n_symbols, sizeof *ev->is_known);
    if (ev->idle == NULL || ev->free == NULL || ev->is_known == NULL)
        return -1;
    ev->act = fy_eval_new_act(ev, t->root, NULL);
    if (ev->act == NULL || fy_eval_enter(ev, t->root) != 0)
        return -1;
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
