/* What the files of the evaluator share: the state of one rendering. Expressions and statements
 * recurse in C as deep as the template nests and its macros call each other; `nesting` bounds that.
 * An error ends the whole rendering: it stays in the machine, and nothing is evaluated after it.
 * Not for use outside runtime/model/template. */
#ifndef FY_TEMPLATE_EVAL_H
#define FY_TEMPLATE_EVAL_H

#include "model/template/template_ast.h"

typedef struct {
    uint32_t symbol;
    fy_tv value;
} fy_binding;

/* The variables of a scope: the body of a loop (each round begins without any), a macro, a `with`,
 * filter, set or generation block. A macro keeps the frames that it was made in; others are used
 * again. */
typedef struct fy_frame fy_frame;
struct fy_frame {
    fy_frame *outer; /* of the scope around it; NULL: the template itself */
    fy_binding *item;
    size_t n, cap;
    bool kept; /* a macro may need it later */
};

typedef struct {
    fy_tm m; /* first: a callee gets it and finds the rest */
    const fy_template *t;
    const fy_template_vars *vars;
    fy_str *out;     /* the text so far; macros and blocks append theirs and take it away again */
    fy_frame *frame; /* of the innermost scope; NULL: the template itself */
    fy_frame *idle;  /* frames to be used again, linked by `outer` */
    fy_frame none;   /* stands for a frame that an error kept from being made */
    fy_tv *top;      /* [n_symbols]: variables of the template, of the rendering, and globals */
    bool *is_known;  /* [n_symbols]: top has its value */
    fy_tv piped;     /* the text of a block on its way into filters */
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

/* --- variables of a rendering (template_vars.c) */

bool fy_template_vars_get(const fy_template_vars *v, fy_span name, fy_tv *out);
size_t fy_template_vars_bytes(const fy_template_vars *v);
void fy_template_vars_clock(const fy_template_vars *v, int64_t *seconds, bool *utc);

/* --- operators (template_ops.c) */

fy_tv fy_tv_binary(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b);
fy_tv fy_tv_unary(fy_tm *m, fy_op op, const fy_tv *a); /* FY_OP_NEG, FY_OP_POS */
bool fy_tv_relate(fy_tm *m, fy_op op, const fy_tv *a, const fy_tv *b);

/* --- expressions (template_eval_expr.c) */

bool fy_eval_enter(fy_eval *ev); /* one level of C recursion more: ev->nesting-- undoes it */
fy_tv fy_eval_expr(fy_eval *ev, const fy_node *n);
/* The value where it lies if it lies somewhere, else in *room. */
const fy_tv *fy_eval_peek(fy_eval *ev, const fy_node *n, fy_tv *room);
void fy_eval_print(fy_eval *ev, const fy_node *n); /* appends str(n) to the text */
/* a(args), with `caller` (or NULL) as one more keyword. */
fy_tv fy_eval_call(fy_eval *ev, const fy_node *n, const fy_tv *caller);

void fy_eval_emit(fy_eval *ev, fy_span s);
/* Takes the text after `begin` away, as a string. */
fy_tv fy_eval_take(fy_eval *ev, size_t begin);
void fy_eval_drop(fy_eval *ev, size_t begin); /* takes it away */

#endif
