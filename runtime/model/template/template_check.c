/* What jinja2 finds out while it compiles a tree: filters and tests that do not exist, assignments
 * to `loop`, a caller that cannot be given; then what Python refuses in the program that jinja2
 * writes. The order is theirs, so that of several errors the same one is reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/template/template_builtin.h"
#include "model/template/template_parse.h"

/* Where a node stands. Passed by value: what is inside changes it for itself. */
typedef struct {
    bool soft;       /* an unknown filter is an error only when it is reached */
    bool in_for;     /* some loop is around */
    bool in_loop;    /* `break` would find its loop */
    bool loop_frame; /* directly in a loop's body: calls carry a hidden argument */
} place;

typedef struct {
    fy_tparser *p;
    uint32_t loop, caller; /* symbols; UINT32_MAX: not in the template */
    fy_names seen;         /* names of one list of arguments or parameters */
    /* The first thing Python refuses; only an error when jinja2 itself finds none. */
    uint32_t line, column;
    char python[160];
} checker;

static int fail_at(checker *c, const fy_node *n, const char *text)
{
    return fy_tlex_fail(c->p->e, FY_EFORMAT, n->line, n->column, "%s", text);
}

/* Python refuses the node: the text is before, name, after. */
static void python_fails(checker *c, const fy_node *n, const char *before, const char *name,
                         const char *after)
{
    if (c->python[0] != '\0')
        return;
    c->line = n->line;
    c->column = n->column;
    snprintf(c->python, sizeof c->python, "%s%s%s", before, name, after);
}

/* --- expressions ------------------------------------------------------------------------------ */

static int check_node(checker *c, fy_node *n, place at);

static int check_nodes(checker *c, const fy_nodes *nodes, place at)
{
    for (uint32_t i = 0; i < nodes->n; i++) {
        if (check_node(c, nodes->item[i], at) != 0)
            return -1;
    }
    return 0;
}

static bool is_python_keyword(fy_span name)
{
    static const char *const keywords[] = {
        "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
        "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
        "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
        "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",
    };
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (fy_span_is(name, keywords[i]))
            return true;
    }
    return false;
}

/* Named arguments, and `hidden` (NULL: none), the one that jinja2 adds to the call: Python takes
 * each once. With a keyword of Python among them jinja2 writes a dict, which takes all. */
static int check_names(checker *c, const fy_node *n, const char *hidden)
{
    const fy_node_args *args = n->args;
    char name[FY_QUOTE_BYTES];
    if (args == NULL || args->values.n == 0)
        return 0;
    for (uint32_t i = 0; i < args->values.n; i++) {
        if (is_python_keyword(args->names[i]))
            return 0;
    }
    fy_names_clear(&c->seen);
    if (hidden != NULL && fy_names_add(&c->seen, fy_span_of(hidden), 0) < 0)
        return fy_nomem(c->p->e);
    for (uint32_t i = 0; i < args->values.n; i++) {
        int rc = fy_names_add(&c->seen, args->names[i], 0);
        if (rc < 0)
            return fy_nomem(c->p->e);
        if (rc == 1)
            python_fails(c, n,
                         "keyword argument repeated: ", fy_quote(name, sizeof name, args->names[i]),
                         "");
        if (fy_span_is(args->names[i], "__debug__"))
            python_fails(c, n, "cannot assign to __debug__", "", "");
    }
    return 0;
}

static int find_builtin(checker *c, fy_node *n, bool soft)
{
    char name[FY_QUOTE_BYTES], text[FY_QUOTE_BYTES + 32];
    bool is_filter = n->kind == FY_N_FILTER;
    if (is_filter)
        n->filter = fy_tfilter_find(n->str);
    else
        n->test = fy_ttest_find(n->str);
    if (soft || n->filter != NULL || n->test != NULL)
        return 0;
    fy_quote(name, sizeof name, n->str);
    if (is_filter ? fy_tfilter_is_refused(n->str) : fy_ttest_is_refused(n->str))
        return fy_tlex_fail(c->p->e, FY_EUNSUPPORTED, n->line, n->column,
                            "%s '%s' is not supported", is_filter ? "filter" : "test", name);
    snprintf(text, sizeof text, "No %s named '%s'.", is_filter ? "filter" : "test", name);
    return fail_at(c, n, text);
}

static void check_subscript(checker *c, const fy_node *n)
{
    for (uint32_t i = 0; n->b != NULL && n->b->kind == FY_N_TUPLE && i < n->b->kids.n; i++) {
        if (n->b->kids.item[i]->kind == FY_N_SLICE)
            python_fails(c, n->b->kids.item[i], "a slice must be the only subscript", "", "");
    }
}

static bool is_constant(const fy_node *n);

static bool are_constant(const fy_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->n; i++) {
        if (!is_constant(nodes->item[i]))
            return false;
    }
    return true;
}

/* Whether jinja2 tries to compute the expression beforehand. */
static bool is_constant(const fy_node *n)
{
    if (n == NULL)
        return true;
    const fy_node_args *args = n->args;
    return n->kind != FY_N_NAME && n->kind != FY_N_CALL && is_constant(n->a) && is_constant(n->b) &&
           is_constant(n->c) && are_constant(&n->kids) &&
           (args == NULL || (are_constant(&args->args) && are_constant(&args->values) &&
                             is_constant(args->star) && is_constant(args->dstar)));
}

/* 1 or 0 when the truth of the expression is known here, -1 when it is not. */
static int constant_truth(const fy_node *n)
{
    int a, b;
    switch ((int)n->kind) {
    case FY_N_CONST:
        return fy_tv_truth(&n->value);
    case FY_N_AND:
        a = constant_truth(n->a);
        return a == 1 ? constant_truth(n->b) : a;
    case FY_N_OR:
        a = constant_truth(n->a);
        return a == 0 ? constant_truth(n->b) : a;
    case FY_N_UNARY:
        b = n->op == FY_OP_NOT ? constant_truth(n->a) : -1;
        return b < 0 ? b : !b;
    case FY_N_LIST:
    case FY_N_TUPLE:
    case FY_N_DICT:
        return are_constant(&n->kids) ? n->kids.n > 0 : -1;
    default:
        return -1;
    }
}

/* jinja2 computes what is constant at once, and never looks at what that skips. Where the constant
 * is not as simple as to be known here, what follows gets the benefit of the doubt. */
static int check_logic(checker *c, fy_node *n, place at)
{
    int skips = n->kind == FY_N_OR, truth = constant_truth(n->a);
    if (check_node(c, n->a, at) != 0)
        return -1;
    at.soft = at.soft || truth == skips || (truth < 0 && is_constant(n->a));
    return check_node(c, n->b, at);
}

static int check_expression(checker *c, fy_node *n, place at)
{
    if (n->kind == FY_N_AND || n->kind == FY_N_OR)
        return check_logic(c, n, at);
    if ((n->kind == FY_N_FILTER || n->kind == FY_N_TEST) && find_builtin(c, n, at.soft) != 0)
        return -1;
    at.soft = at.soft || n->kind == FY_N_COND;
    if (check_node(c, n->a, at) != 0 || check_node(c, n->b, at) != 0 ||
        check_node(c, n->c, at) != 0 || check_nodes(c, &n->kids, at) != 0)
        return -1;
    check_subscript(c, n);
    if (n->args == NULL)
        return 0;
    bool hidden = n->kind == FY_N_CALL && at.loop_frame;
    if (check_names(c, n, hidden ? "_loop_vars" : NULL) != 0 ||
        check_nodes(c, &n->args->args, at) != 0 || check_nodes(c, &n->args->values, at) != 0 ||
        check_node(c, n->args->star, at) != 0)
        return -1;
    return check_node(c, n->args->dstar, at);
}

/* --- statements ------------------------------------------------------------------------------- */

/* The first assignment to `loop` in the statement or target, NULL when there is none. */
static const fy_node *find_loop_store(const checker *c, const fy_node *n);

static const fy_node *find_loop_store_in(const checker *c, const fy_nodes *nodes)
{
    const fy_node *found = NULL;
    for (uint32_t i = 0; i < nodes->n && found == NULL; i++)
        found = find_loop_store(c, nodes->item[i]);
    return found;
}

static const fy_node *find_loop_store(const checker *c, const fy_node *n)
{
    const fy_node *found = NULL;
    if (n->kind == FY_N_NAME)
        return n->symbol == c->loop ? n : NULL;
    if (n->kind == FY_N_TUPLE)
        return find_loop_store_in(c, &n->kids);
    if (n->kind == FY_N_FOR || n->kind == FY_N_SET || n->kind == FY_N_SET_BLOCK)
        found = find_loop_store(c, n->a);
    if (found == NULL)
        found = find_loop_store_in(c, &n->body);
    return found != NULL ? found : find_loop_store_in(c, &n->orelse);
}

static int check_for(checker *c, fy_node *n, place at)
{
    place test = {.in_for = true}, body = test, other = at;
    if (check_node(c, n->c, test) != 0)
        return -1;
    const fy_node *store = at.in_for || c->loop == UINT32_MAX ? NULL : find_loop_store(c, n);
    if (store != NULL)
        return fail_at(c, store, "Can't assign to special loop variable in for-loop target");
    if (check_node(c, n->b, at) != 0)
        return -1;
    body.in_loop = true;
    body.loop_frame = true;
    other.soft = false;
    other.in_for = true;
    other.loop_frame = false;
    /* the else of a recursive loop is in a function of its own */
    other.in_loop = at.in_loop && !n->flag;
    return check_nodes(c, &n->body, body) != 0 ? -1 : check_nodes(c, &n->orelse, other);
}

static int check_parameters(checker *c, const fy_node *n)
{
    const fy_node_params *params = n->params;
    const fy_span *symbols = c->p->t->symbols;
    char name[FY_QUOTE_BYTES];
    fy_names_clear(&c->seen);
    for (uint32_t i = 0; i < params->n; i++) {
        int rc = fy_names_add(&c->seen, symbols[params->symbols[i]], 0);
        if (rc < 0)
            return fy_nomem(c->p->e);
        if (rc == 1)
            python_fails(c, n, "duplicate argument '",
                         fy_quote(name, sizeof name, symbols[params->symbols[i]]),
                         "' in function definition");
        if (params->symbols[i] == c->caller && params->uses_caller &&
            i + params->defaults.n < params->n)
            return fail_at(c, n,
                           "When defining macros or call blocks the special \"caller\" argument "
                           "must be omitted or be given a default.");
    }
    return 0;
}

/* A macro, a caller or a generation block: its body is a function. */
static int check_callable(checker *c, fy_node *n, place at)
{
    place inside = {.in_for = at.in_for};
    if (check_parameters(c, n) != 0 || check_nodes(c, &n->params->defaults, inside) != 0 ||
        check_nodes(c, &n->body, inside) != 0)
        return -1;
    if (n->kind != FY_N_CALL_BLOCK)
        return 0;
    if (check_node(c, n->a, at) != 0)
        return -1;
    return check_names(c, n->a, "caller");
}

/* The blocks that are a scope: with, filter and set blocks. */
static int check_scope(checker *c, fy_node *n, place at)
{
    place inside = at;
    inside.soft = inside.loop_frame = false;
    if (n->kind == FY_N_WITH && check_nodes(c, &n->kids, at) != 0)
        return -1;
    if (check_nodes(c, &n->body, inside) != 0)
        return -1;
    if (n->kind == FY_N_FILTER_BLOCK)
        return check_node(c, n->a, inside);
    return check_node(c, n->b, inside);
}

static int check_node(checker *c, fy_node *n, place at)
{
    if (n == NULL)
        return 0;
    switch ((int)n->kind) {
    case FY_N_TEXT:
        return 0;
    case FY_N_PRINT:
        return check_node(c, n->a, at);
    case FY_N_IF:
        at.soft = true;
        return check_node(c, n->a, at) != 0 || check_nodes(c, &n->body, at) != 0
                   ? -1
                   : check_nodes(c, &n->orelse, at);
    case FY_N_FOR:
        return check_for(c, n, at);
    case FY_N_SET:
        return check_node(c, n->b, at);
    case FY_N_SET_BLOCK:
    case FY_N_FILTER_BLOCK:
    case FY_N_WITH:
        return check_scope(c, n, at);
    case FY_N_MACRO:
    case FY_N_CALL_BLOCK:
    case FY_N_SCOPE:
        return check_callable(c, n, at);
    case FY_N_BREAK:
        if (!at.in_loop)
            python_fails(c, n, "'break' outside loop", "", "");
        return 0;
    case FY_N_CONTINUE:
        if (!at.in_loop)
            python_fails(c, n, "'continue' not properly in loop", "", "");
        return 0;
    default:
        return check_expression(c, n, at);
    }
}

static uint32_t symbol_of(const fy_tparser *p, const char *name)
{
    uint32_t symbol = UINT32_MAX;
    fy_names_find(&p->names, fy_span_of(name), &symbol);
    return symbol;
}

int fy_tp_check(fy_tparser *p)
{
    checker *c = calloc(1, sizeof *c);
    if (c == NULL)
        return fy_nomem(p->e);
    c->p = p;
    c->loop = symbol_of(p, "loop");
    c->caller = symbol_of(p, "caller");
    int rc = check_nodes(c, &p->t->body, (place){0});
    if (rc == 0 && c->python[0] != '\0')
        rc = fy_tlex_fail(p->e, FY_EFORMAT, c->line, c->column, "%s", c->python);
    fy_names_release(&c->seen);
    free(c);
    return rc;
}
