/* jinja2's idtracking.py and the parts of compiler.py that say what a name means, on our tree.
 *
 * Every scope (a frame here) first collects the names of its own level: what it sets and what it
 * only reads. A name it sets is its own; entering the scope gives it the value of the same name
 * outside (an alias), or of the rendering's variables when it is set in a branch only, or none. A
 * name that is read and known to no scope is a free one. Only then the scopes within are looked at,
 * so that a macro sees what is set behind it. */
#include "model/template/template_ast.h"

#include "base/str.h"

typedef struct frame frame;
typedef struct entry entry;

/* One name in one scope. */
struct entry {
    entry *below;         /* its meaning in the scopes around */
    entry *next;          /* of the frame */
    entry *stored_before; /* of the frame: names in the order they are set first */
    frame *frame;
    uint32_t symbol, slot;
    bool param, stored;
    enum { START_UNDEFINED, START_ALIAS, START_FREE } start;
};

typedef struct function function;
struct function {
    fy_scope *scope;
    uint16_t depth;
};

struct frame {
    function *in;
    entry *first, **end, *last_stored;
};

typedef struct {
    fy_template *t;
    fy_arena temp;
    entry **meaning;     /* [n_symbols]: the innermost entry of each name */
    uint32_t special[4]; /* symbols or FY_NO_SLOT */
    const fy_node *lost; /* a name that jinja2 does not find */
    bool oom;            /* sticky; the spares stand in for what could not be had */
    entry spare;
    fy_scope spare_scope;
} binder;

/* Names that are given to a body when it mentions them; two bits each in `mentions`. */
enum { LOOP, CALLER, KWARGS, VARARGS };
enum { FIRST_READ = 1, FIRST_SET = 2 };

/* --- mentions --------------------------------------------------------------------------------- */

/* What happens first to each of the special names: jinja2's find_undeclared follows the fields of
 * its nodes in their order, into everything, and gives up on a name that is set before it is read.
 */
static uint8_t then(uint8_t first, uint8_t second)
{
    for (int i = 0; i < 8; i += 2) {
        if ((first >> i & 3) == 0)
            first |= (uint8_t)(second & 3 << i);
    }
    return first;
}

static uint8_t mention_expr(binder *b, fy_node *n);
static uint8_t mention_stmts(binder *b, fy_nodes list);

static uint8_t mention_exprs(binder *b, fy_nodes list)
{
    uint8_t m = 0;
    for (uint32_t i = 0; i < list.n; i++)
        m = then(m, mention_expr(b, list.item[i]));
    return m;
}

static uint8_t mention_symbol(const binder *b, uint32_t symbol, uint8_t event)
{
    for (int i = 0; i < 4; i++) {
        if (b->special[i] == symbol)
            return (uint8_t)(event << 2 * i);
    }
    return 0;
}

static uint8_t mention_target(binder *b, fy_node *n)
{
    uint8_t m = 0;
    if (n->kind == FY_N_NAME)
        return mention_symbol(b, n->symbol, FIRST_SET);
    for (uint32_t i = 0; n->kind == FY_N_TUPLE && i < n->kids.n; i++)
        m = then(m, mention_target(b, n->kids.item[i]));
    return m;
}

static uint8_t mention_args(binder *b, fy_node_args *a)
{
    uint8_t m = then(mention_exprs(b, a->args), mention_exprs(b, a->values));
    return then(then(m, mention_expr(b, a->star)), mention_expr(b, a->dstar));
}

static uint8_t mention_params(binder *b, fy_node_params *p)
{
    uint8_t m = 0;
    for (uint32_t i = 0; i < p->n; i++)
        m = then(m, mention_symbol(b, p->symbols[i], FIRST_SET));
    return then(m, mention_exprs(b, p->defaults));
}

static uint8_t mention_with(binder *b, fy_node *n)
{
    uint8_t targets = 0, values = 0;
    for (uint32_t i = 0; i + 1 < n->kids.n; i += 2) {
        targets = then(targets, mention_target(b, n->kids.item[i]));
        values = then(values, mention_expr(b, n->kids.item[i + 1]));
    }
    return then(then(targets, values), mention_stmts(b, n->body));
}

/* Of an expression: only reads, so the order does not matter. */
static uint8_t mention_expr(binder *b, fy_node *n)
{
    if (n == NULL)
        return 0;
    if (n->kind == FY_N_NAME)
        return mention_symbol(b, n->symbol, FIRST_READ);
    uint8_t m = then(mention_expr(b, n->a), mention_expr(b, n->b));
    m = then(m, mention_expr(b, n->c));
    m = then(m, mention_exprs(b, n->kids));
    return n->args == NULL ? m : then(m, mention_args(b, n->args));
}

static uint8_t mention_body(binder *b, fy_node *n)
{
    return n->mentions = mention_stmts(b, n->body);
}

static uint8_t mention_stmt(binder *b, fy_node *n)
{
    uint8_t m = 0;
    switch ((int)n->kind) {
    case FY_N_PRINT:
        return mention_expr(b, n->a);
    case FY_N_IF:
        m = then(mention_expr(b, n->a), mention_stmts(b, n->body));
        return then(m, mention_stmts(b, n->orelse));
    case FY_N_FOR:
        m = then(mention_target(b, n->a), mention_expr(b, n->b));
        m = then(then(m, mention_body(b, n)), mention_stmts(b, n->orelse));
        return then(m, mention_expr(b, n->c));
    case FY_N_SET:
        return then(mention_target(b, n->a), mention_expr(b, n->b));
    case FY_N_SET_BLOCK:
        m = then(mention_target(b, n->a), mention_expr(b, n->b));
        return then(m, mention_stmts(b, n->body));
    case FY_N_CALL_BLOCK:
        m = mention_expr(b, n->a);
        return then(then(m, mention_params(b, n->params)), mention_body(b, n));
    case FY_N_MACRO:
        return then(mention_params(b, n->params), mention_body(b, n));
    case FY_N_FILTER_BLOCK:
        return then(mention_stmts(b, n->body), mention_expr(b, n->a));
    case FY_N_WITH:
        return mention_with(b, n);
    case FY_N_SCOPE:
        return mention_body(b, n);
    default: /* text, break, continue */
        return m;
    }
}

static uint8_t mention_stmts(binder *b, fy_nodes list)
{
    uint8_t m = 0;
    for (uint32_t i = 0; i < list.n; i++)
        m = then(m, mention_stmt(b, list.item[i]));
    return m;
}

/* --- names of a frame ------------------------------------------------------------------------- */

static entry *define(binder *b, frame *f, uint32_t symbol, int start)
{
    entry *e = fy_arena_calloc(&b->temp, 1, sizeof *e);
    if (e == NULL) {
        b->oom = true;
        return &b->spare;
    }
    *e = (entry){.below = b->meaning[symbol], .frame = f, .symbol = symbol, .start = start};
    b->meaning[symbol] = e;
    *f->end = e;
    f->end = &e->next;
    return e;
}

static void name_read(binder *b, frame *f, uint32_t symbol)
{
    if (b->meaning[symbol] == NULL)
        define(b, f, symbol, START_FREE);
}

static void name_set(binder *b, frame *f, uint32_t symbol)
{
    entry *e = b->meaning[symbol];
    if (e == NULL || e->frame != f)
        e = define(b, f, symbol, e != NULL ? START_ALIAS : START_UNDEFINED);
    if (!e->stored) {
        e->stored = true;
        e->stored_before = f->last_stored;
        f->last_stored = e;
    }
}

/* A parameter has its value from the caller. */
static void name_given(binder *b, frame *f, uint32_t symbol)
{
    entry *e = b->meaning[symbol];
    if (e == NULL || e->frame != f)
        e = define(b, f, symbol, START_UNDEFINED);
    e->param = e->stored = true;
}

static void target_names(binder *b, frame *f, const fy_node *n,
                         void (*use)(binder *, frame *, uint32_t))
{
    if (n->kind == FY_N_NAME)
        use(b, f, n->symbol);
    else if (n->kind == FY_N_GETATTR) /* of a namespace */
        name_read(b, f, n->a->symbol);
    for (uint32_t i = 0; n->kind == FY_N_TUPLE && i < n->kids.n; i++)
        target_names(b, f, n->kids.item[i], use);
}

static void names_of_exprs(binder *b, frame *f, fy_nodes list);
static void names_of_stmts(binder *b, frame *f, fy_nodes list);

static void names_of_expr(binder *b, frame *f, const fy_node *n)
{
    if (n == NULL)
        return;
    if (n->kind == FY_N_NAME)
        name_read(b, f, n->symbol);
    names_of_expr(b, f, n->a);
    names_of_expr(b, f, n->b);
    names_of_expr(b, f, n->c);
    names_of_exprs(b, f, n->kids);
    if (n->args != NULL) {
        names_of_exprs(b, f, n->args->args);
        names_of_exprs(b, f, n->args->values);
        names_of_expr(b, f, n->args->star);
        names_of_expr(b, f, n->args->dstar);
    }
}

static void names_of_exprs(binder *b, frame *f, fy_nodes list)
{
    for (uint32_t i = 0; i < list.n; i++)
        names_of_expr(b, f, list.item[i]);
}

/* What only branches set begins as if the branch were not there. */
static void names_of_if(binder *b, frame *f, const fy_node *n)
{
    names_of_expr(b, f, n->a);
    entry *mark = f->last_stored;
    names_of_stmts(b, f, n->body);
    names_of_stmts(b, f, n->orelse);
    for (entry *e = f->last_stored; e != mark; e = e->stored_before)
        e->start = e->below != NULL ? START_ALIAS : START_FREE;
}

static void names_of_stmt(binder *b, frame *f, const fy_node *n)
{
    switch ((int)n->kind) {
    case FY_N_PRINT:
    case FY_N_CALL_BLOCK:
    case FY_N_FILTER_BLOCK:
        names_of_expr(b, f, n->a);
        break;
    case FY_N_IF:
        names_of_if(b, f, n);
        break;
    case FY_N_FOR:
        names_of_expr(b, f, n->b);
        break;
    case FY_N_SET:
        names_of_expr(b, f, n->b);
        target_names(b, f, n->a, name_set);
        break;
    case FY_N_SET_BLOCK:
        target_names(b, f, n->a, name_set);
        break;
    case FY_N_MACRO:
        name_set(b, f, n->symbol);
        break;
    case FY_N_WITH:
        for (uint32_t i = 1; i < n->kids.n; i += 2)
            names_of_expr(b, f, n->kids.item[i]);
        break;
    default: /* no names of this level */
        break;
    }
}

static void names_of_stmts(binder *b, frame *f, fy_nodes list)
{
    for (uint32_t i = 0; i < list.n; i++)
        names_of_stmt(b, f, list.item[i]);
}

/* --- frames ----------------------------------------------------------------------------------- */

static bool is_free(const entry *e)
{
    return e->start == START_FREE && !e->stored;
}

static fy_place place_of(const function *from, const entry *e)
{
    if (is_free(e))
        return (fy_place){e->symbol, FY_UP_FREE};
    return (fy_place){e->slot, (uint16_t)(from->depth - e->frame->in->depth)};
}

static fy_place lookup(binder *b, const frame *f, const fy_node *n)
{
    const entry *e = b->meaning[n->symbol];
    if (e != NULL)
        return place_of(f->in, e);
    if (b->lost == NULL)
        b->lost = n;
    return (fy_place){n->symbol, FY_UP_FREE};
}

static void open_frame(frame *f, function *in)
{
    *f = (frame){.in = in, .end = &f->first};
}

/* Its names are collected: gives them slots and says how they start. */
static void settle(binder *b, frame *f, fy_scope *s)
{
    uint32_t n = 0;
    for (entry *e = f->first; e != NULL; e = e->next) {
        if (!is_free(e))
            e->slot = f->in->scope->n_slots++;
        n += !is_free(e) && !e->param;
    }
    s->loads = fy_arena_calloc(&b->t->arena, n, sizeof *s->loads);
    if (s->loads == NULL) {
        b->oom = true;
        return;
    }
    for (entry *e = f->first; e != NULL; e = e->next) {
        if (is_free(e) || e->param)
            continue;
        fy_load *load = &s->loads[s->n_loads++];
        *load = (fy_load){.slot = e->slot, .symbol = e->symbol};
        load->undefined = e->start == START_UNDEFINED;
        load->from =
            e->start == START_ALIAS ? place_of(f->in, e->below) : (fy_place){e->symbol, FY_UP_FREE};
    }
}

static void close_frame(binder *b, frame *f)
{
    for (entry *e = f->first; e != NULL; e = e->next)
        b->meaning[e->symbol] = e->below;
}

static fy_scope *new_scope(binder *b)
{
    fy_scope *s = fy_arena_calloc(&b->t->arena, 1, sizeof *s);
    if (s == NULL) {
        b->oom = true;
        return &b->spare_scope;
    }
    s->loop = s->caller = s->kwargs = s->varargs = FY_NO_SLOT;
    return s;
}

static fy_scope *new_function(binder *b, function *f, function *outer)
{
    *f = (function){.scope = new_scope(b), .depth = outer == NULL ? 0 : outer->depth + 1};
    f->scope->id = b->t->n_functions++;
    if (outer != NULL)
        outer->scope->keeps = true;
    return f->scope;
}

/* --- places of names -------------------------------------------------------------------------- */

static void bind_exprs(binder *b, frame *f, fy_nodes list);
static void bind_stmts(binder *b, frame *f, fy_nodes list);

static void bind_expr(binder *b, frame *f, fy_node *n)
{
    if (n == NULL)
        return;
    if (n->kind == FY_N_NAME)
        n->place = lookup(b, f, n);
    bind_expr(b, f, n->a);
    bind_expr(b, f, n->b);
    bind_expr(b, f, n->c);
    bind_exprs(b, f, n->kids);
    if (n->args != NULL) {
        bind_exprs(b, f, n->args->args);
        bind_exprs(b, f, n->args->values);
        bind_expr(b, f, n->args->star);
        bind_expr(b, f, n->args->dstar);
    }
}

static void bind_exprs(binder *b, frame *f, fy_nodes list)
{
    for (uint32_t i = 0; i < list.n; i++)
        bind_expr(b, f, list.item[i]);
}

static bool reads(const fy_node *n, int which)
{
    return (n->mentions >> 2 * which & 3) == FIRST_READ;
}

static uint32_t slot_of(const binder *b, int which)
{
    return b->meaning[b->special[which]]->slot;
}

static void bind_loop_body(binder *b, function *in, fy_node *n, fy_scope *s)
{
    frame f;
    bool uses_loop = b->special[LOOP] != FY_NO_SLOT && (n->flag || reads(n, LOOP));
    open_frame(&f, in);
    if (uses_loop)
        name_given(b, &f, b->special[LOOP]);
    target_names(b, &f, n->a, name_given);
    names_of_stmts(b, &f, n->body);
    settle(b, &f, s);
    if (uses_loop)
        s->loop = slot_of(b, LOOP);
    bind_expr(b, &f, n->a);
    bind_stmts(b, &f, n->body);
    close_frame(b, &f);
}

static fy_scope *bind_loop_else(binder *b, function *in, fy_node *n)
{
    frame f;
    fy_scope *s = new_scope(b);
    open_frame(&f, in);
    names_of_stmts(b, &f, n->orelse);
    settle(b, &f, s);
    bind_stmts(b, &f, n->orelse);
    close_frame(b, &f);
    return s;
}

static uint32_t count_names(const fy_node *target)
{
    uint32_t n = target->kind == FY_N_NAME;
    for (uint32_t i = 0; target->kind == FY_N_TUPLE && i < target->kids.n; i++)
        n += count_names(target->kids.item[i]);
    return n;
}

static void slots_of_names(const binder *b, const fy_node *target, uint32_t **next)
{
    if (target->kind == FY_N_NAME)
        *(*next)++ = b->meaning[target->symbol]->slot;
    for (uint32_t i = 0; target->kind == FY_N_TUPLE && i < target->kids.n; i++)
        slots_of_names(b, target->kids.item[i], next);
}

static uint32_t *new_params(binder *b, fy_scope *s, uint32_t n)
{
    s->params = fy_arena_calloc(&b->t->arena, n, sizeof *s->params);
    b->oom = b->oom || s->params == NULL;
    return s->params;
}

/* The condition is a generator of its own, with variables of the target's names. */
static fy_scope *bind_loop_condition(binder *b, function *outer, fy_node *n)
{
    frame f;
    function in;
    fy_scope *s = new_function(b, &in, outer);
    open_frame(&f, &in);
    target_names(b, &f, n->a, name_given);
    names_of_expr(b, &f, n->c);
    settle(b, &f, s);
    uint32_t *slot = new_params(b, s, count_names(n->a));
    if (slot != NULL)
        slots_of_names(b, n->a, &slot);
    bind_expr(b, &f, n->c);
    close_frame(b, &f);
    return s;
}

static void bind_for(binder *b, frame *f, fy_node *n)
{
    function own, *in = f->in;
    fy_scope *s;
    bind_expr(b, f, n->b);
    if (n->flag) {
        s = new_function(b, &own, f->in);
        in = &own;
    } else {
        s = new_scope(b);
    }
    n->scope = s;
    if (n->c != NULL) /* called with the loop's iterable, from inside a recursive one */
        n->where = bind_loop_condition(b, in, n);
    bind_loop_body(b, in, n, s);
    if (n->orelse.n > 0)
        n->other = bind_loop_else(b, in, n);
}

/* What a macro is given only when its body reads it; kwargs and varargs not when they are
 * parameters anyway. */
static void bind_special(binder *b, frame *f, fy_node *n, bool used[4])
{
    for (int i = CALLER; i <= VARARGS; i++) {
        bool is_param = false;
        for (uint32_t k = 0; k < n->params->n; k++)
            is_param = is_param || n->params->symbols[k] == b->special[i];
        used[i] = b->special[i] != FY_NO_SLOT && reads(n, i) && !is_param;
        if (used[i])
            name_given(b, f, b->special[i]);
    }
    if (n->params != NULL) {
        n->params->uses_caller = reads(n, CALLER);
        n->params->uses_kwargs = used[KWARGS];
        n->params->uses_varargs = used[VARARGS];
    }
}

/* A macro, the caller of a call block or a generation block. */
static void bind_macro(binder *b, frame *outer, fy_node *n)
{
    frame f;
    function in;
    bool used[4] = {false};
    fy_scope *s = new_function(b, &in, outer->in);
    fy_node_params *p = n->params;
    n->scope = s;
    open_frame(&f, &in);
    for (uint32_t i = 0; i < p->n; i++)
        name_given(b, &f, p->symbols[i]);
    names_of_exprs(b, &f, p->defaults);
    names_of_stmts(b, &f, n->body);
    bind_special(b, &f, n, used);
    settle(b, &f, s);
    if (new_params(b, s, p->n) != NULL) {
        for (uint32_t i = 0; i < p->n; i++)
            s->params[i] = b->meaning[p->symbols[i]]->slot;
    }
    s->caller = used[CALLER] ? slot_of(b, CALLER) : FY_NO_SLOT;
    s->kwargs = used[KWARGS] ? slot_of(b, KWARGS) : FY_NO_SLOT;
    s->varargs = used[VARARGS] ? slot_of(b, VARARGS) : FY_NO_SLOT;
    p->uses_caller = b->special[CALLER] != FY_NO_SLOT && reads(n, CALLER);
    p->uses_kwargs = used[KWARGS];
    p->uses_varargs = used[VARARGS];
    bind_exprs(b, &f, p->defaults);
    bind_stmts(b, &f, n->body);
    close_frame(b, &f);
}

static void bind_with(binder *b, frame *outer, fy_node *n)
{
    frame f;
    fy_scope *s = new_scope(b);
    n->scope = s;
    for (uint32_t i = 1; i < n->kids.n; i += 2)
        bind_expr(b, outer, n->kids.item[i]);
    open_frame(&f, outer->in);
    for (uint32_t i = 0; i < n->kids.n; i += 2)
        target_names(b, &f, n->kids.item[i], name_given);
    names_of_stmts(b, &f, n->body);
    settle(b, &f, s);
    for (uint32_t i = 0; i < n->kids.n; i += 2)
        bind_expr(b, &f, n->kids.item[i]);
    bind_stmts(b, &f, n->body);
    close_frame(b, &f);
}

/* The body of a filter block or of `set`, and the filters that its text goes through. jinja2
 * forgets the names in the filters of `set`: they have to be known from elsewhere. */
static void bind_text_block(binder *b, frame *outer, fy_node *n, fy_node *filters)
{
    frame f;
    fy_scope *s = new_scope(b);
    n->scope = s;
    open_frame(&f, outer->in);
    names_of_stmts(b, &f, n->body);
    if (n->kind == FY_N_FILTER_BLOCK)
        names_of_expr(b, &f, filters);
    settle(b, &f, s);
    bind_stmts(b, &f, n->body);
    bind_expr(b, &f, filters);
    close_frame(b, &f);
}

static void bind_stmt(binder *b, frame *f, fy_node *n)
{
    switch ((int)n->kind) {
    case FY_N_PRINT:
        bind_expr(b, f, n->a);
        break;
    case FY_N_IF:
        bind_expr(b, f, n->a);
        bind_stmts(b, f, n->body);
        bind_stmts(b, f, n->orelse);
        break;
    case FY_N_FOR:
        bind_for(b, f, n);
        break;
    case FY_N_SET:
        bind_expr(b, f, n->a);
        bind_expr(b, f, n->b);
        break;
    case FY_N_SET_BLOCK:
        bind_text_block(b, f, n, n->b);
        bind_expr(b, f, n->a);
        break;
    case FY_N_MACRO:
        n->place = lookup(b, f, n);
        bind_macro(b, f, n);
        break;
    case FY_N_CALL_BLOCK:
        bind_expr(b, f, n->a);
        bind_macro(b, f, n);
        break;
    case FY_N_SCOPE:
        bind_macro(b, f, n);
        break;
    case FY_N_FILTER_BLOCK:
        bind_text_block(b, f, n, n->a);
        break;
    case FY_N_WITH:
        bind_with(b, f, n);
        break;
    default: /* no names */
        break;
    }
}

static void bind_stmts(binder *b, frame *f, fy_nodes list)
{
    for (uint32_t i = 0; i < list.n; i++)
        bind_stmt(b, f, list.item[i]);
}

/* --- the template ----------------------------------------------------------------------------- */

static void find_special(binder *b)
{
    static const char *const names[] = {"loop", "caller", "kwargs", "varargs"};
    for (int i = 0; i < 4; i++) {
        b->special[i] = FY_NO_SLOT;
        for (uint32_t k = 0; k < b->t->n_symbols; k++) {
            if (fy_span_is(b->t->symbols[k], names[i]))
                b->special[i] = k;
        }
    }
}

static int refuse(const fy_template *t, const fy_node *n, fy_err *e)
{
    char name[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EFORMAT,
                   "line %u, column %u: jinja2 does not find '%s' in the filters of a set block: "
                   "name it in the block or before",
                   n->line, n->column, fy_quote(name, sizeof name, t->symbols[n->symbol]));
}

int fy_template_bind(fy_template *t, fy_err *e)
{
    binder b = {.t = t};
    frame f;
    function root;
    b.meaning = fy_arena_calloc(&b.temp, t->n_symbols, sizeof *b.meaning);
    if (b.meaning == NULL)
        return fy_nomem(e);
    find_special(&b);
    mention_stmts(&b, t->body);
    fy_scope *s = new_function(&b, &root, NULL);
    open_frame(&f, &root);
    names_of_stmts(&b, &f, t->body);
    settle(&b, &f, s);
    bind_stmts(&b, &f, t->body);
    t->root = s;
    fy_arena_release(&b.temp);
    if (b.oom)
        return fy_nomem(e);
    return b.lost != NULL ? refuse(t, b.lost, e) : 0;
}
