/* What the files of the evaluator share: the state of one rendering. Expressions and statements
 * recurse in C as deep as the template nests and its macros call each other; `nesting` bounds that.
 * An error ends the whole rendering, so nothing is undone on the way out. Not for use outside
 * runtime/model/template. */
#ifndef FY_TEMPLATE_EVAL_H
#define FY_TEMPLATE_EVAL_H

#include "model/template/template_ast.h"

/* The variables of a function under way. Those of a function that holds another one stay on the
 * heap for whatever still refers to them; the others are used again by the next call. */
typedef struct fy_act fy_act;
struct fy_act {
    fy_act *outer; /* of the function around it */
    fy_act *idle;  /* the next one that waits for a call */
    fy_tv slot[];
};

typedef struct {
    fy_tm m; /* first: a callee gets it and finds the rest */
    const fy_template *t;
    const fy_template_vars *vars;
    fy_str *out;    /* the text so far; macros and blocks put theirs behind it and take it away */
    fy_act *act;    /* of the function under way */
    fy_act **idle;  /* [n_functions] */
    fy_tv *free;    /* [n_symbols]: values of free names, once they are looked up */
    bool *is_known; /* [n_symbols]: they are */
    fy_tv piped;    /* the text of a block on its way into filters */
    uint32_t nesting, calls;
} fy_eval;

/* Limits of a rendering, and what it used. */
typedef struct {
    uint64_t steps;
    size_t bytes; /* heap and output together */
    uint64_t steps_used;
    size_t bytes_used;
    size_t heap; /* taken from the system */
} fy_template_budget;

/* fy_template_render within other limits than the usual ones; `b` may be NULL. */
int fy_template_render_within(const fy_template *t, const fy_template_vars *v, fy_str *out,
                              fy_template_budget *b, fy_err *e);

/* --- variables (template_vars.c) -------------------------------------------------------------- */

bool fy_template_vars_get(const fy_template_vars *v, fy_span name, fy_tv *out);
size_t fy_template_vars_bytes(const fy_template_vars *v);
void fy_template_vars_clock(const fy_template_vars *v, int64_t *seconds, bool *utc);

/* --- operators (template_arith.c, template_ops.c) --------------------------------------------- */

int fy_tv_binary(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b, fy_tv *out);
int fy_tv_unary(fy_tm *m, fy_op op, const fy_tv *a, fy_tv *out); /* FY_OP_NEG, FY_OP_POS */
int fy_tv_relate(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b, bool *out);

/* --- expressions (template_eval_expr.c) ------------------------------------------------------- */

int fy_eval_deeper(fy_eval *ev); /* one level of C recursion more: ev->nesting-- undoes it */
int fy_eval_expr(fy_eval *ev, const fy_node *n, fy_tv *out);
/* The value where it lies when it lies somewhere, else in *room. NULL: error. */
const fy_tv *fy_eval_peek(fy_eval *ev, const fy_node *n, fy_tv *room);
int fy_eval_print(fy_eval *ev, const fy_node *n); /* appends str(n) to the text */
/* a(args), with `caller` (or NULL) as one more keyword. */
int fy_eval_call(fy_eval *ev, const fy_node *n, const fy_tv *caller, fy_tv *out);

int fy_eval_emit(fy_eval *ev, fy_span s);
/* Takes the text behind `begin` away, as a string. */
int fy_eval_take(fy_eval *ev, size_t begin, fy_tv *out);
void fy_eval_drop(fy_eval *ev, size_t begin); /* takes it away */

/* --- statements (template_eval.c) ------------------------------------------------------------- */

typedef enum { FY_FLOW_ERROR = -1, FY_FLOW_NEXT, FY_FLOW_BREAK, FY_FLOW_CONTINUE } fy_flow;

fy_flow fy_eval_body(fy_eval *ev, fy_nodes body);
int fy_eval_assign(fy_eval *ev, const fy_node *target, const fy_tv *value);
/* The n items that a value unpacks into. */
int fy_eval_unpack(fy_eval *ev, const fy_tv *v, size_t n, fy_tlist *out);

/* --- functions, macros and loops (template_eval_call.c, template_eval_loop.c) ------------------
 */

int fy_eval_enter(fy_eval *ev, const fy_scope *s); /* gives the scope's names their first values */
fy_act *fy_eval_new_act(fy_eval *ev, const fy_scope *function, fy_act *outer);
void fy_eval_end_act(fy_eval *ev, const fy_scope *function, fy_act *act);
int fy_eval_begin_call(fy_eval *ev); /* one more call under way: ev->calls-- ends it */

/* A macro of the node (or the caller of a call block: no name) that sees the variables of now. */
int fy_eval_macro(fy_eval *ev, const fy_node *n, fy_span name, fy_tv *out);
int fy_eval_generation(fy_eval *ev, const fy_node *n);
fy_flow fy_eval_for(fy_eval *ev, const fy_node *n);

#endif
