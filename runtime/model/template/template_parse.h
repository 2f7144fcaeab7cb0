/* The parser's own: what its files share. Functions return NULL or -1 after recording an error;
 * parsing then ends. Follows jinja2 3.1.6: parser.py, and the checks of compiler.py
 * (template_check.c). Not for use outside runtime/model/template. */
#ifndef FY_TEMPLATE_PARSE_H
#define FY_TEMPLATE_PARSE_H

#include "base/names.h"
#include "base/str.h"
#include "model/template/template_ast.h"
#include "model/template/template_lex.h"

/* Statements that are open, for messages. On the C stack, innermost first. */
typedef struct fy_topen fy_topen;
struct fy_topen {
    const fy_topen *outer;
    fy_span tag;          /* of a statement */
    const fy_tword *ends; /* of a body: the tags that can end it, up to FY_W_NONE */
};

typedef struct {
    fy_template *t; /* view */
    fy_err *e;      /* view */
    fy_tlex lex;
    fy_tok cur, ahead;
    bool has_ahead;

    fy_names names; /* symbols by name */
    size_t symbols_cap;
    fy_node **stack; /* owned; nodes of lists under construction */
    size_t n_stack, stack_cap;
    fy_span *keys; /* owned; names of arguments and parameters, likewise */
    size_t n_keys, keys_cap;
    fy_op *ops; /* owned; of comparisons, likewise */
    size_t n_ops, ops_cap;
    fy_str scratch;

    uint32_t depth; /* of recursion: statements and expressions */
    uint32_t level; /* statements that enclose the place, itself included */
    uint32_t n_parts;
    const fy_topen *tags, *bodies;
} fy_tparser;

/* --- tokens and nodes (template_parse.c) ------------------------------------------------------ */

int fy_tp_next(fy_tparser *p);
int fy_tp_look(fy_tparser *p); /* fills p->ahead */
int fy_tp_expect(fy_tparser *p, fy_tok_kind kind);
int fy_tp_expect_word(fy_tparser *p, fy_tword word);
int fy_tp_skip_kind(fy_tparser *p, fy_tok_kind kind); /* 1: skipped, 0: something else, -1 */
int fy_tp_skip_word(fy_tparser *p, fy_tword word);
static inline bool fy_tp_is(const fy_tparser *p, fy_tok_kind kind)
{
    return p->cur.kind == kind;
}
static inline bool fy_tp_is_word(const fy_tparser *p, fy_tword word)
{
    return p->cur.kind == FY_TOK_NAME && p->cur.word == word;
}

/* Always -1. */
int fy_tp_fail(fy_tparser *p, const fy_tok *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int fy_tp_enter(fy_tparser *p); /* one level deeper; p->depth-- undoes it */

fy_node *fy_tp_node(fy_tparser *p, fy_node_kind kind, const fy_tok *at);
/* Checks the height of an expression whose children are set. Takes and gives NULL. */
fy_node *fy_tp_built(fy_tparser *p, fy_node *n);
int fy_tp_push(fy_tparser *p, fy_node *n); /* n NULL: -1 */
int fy_tp_push_key(fy_tparser *p, fy_span name);
int fy_tp_push_op(fy_tparser *p, fy_op op);
/* Takes what was pushed since the stack had `mark` items. */
int fy_tp_take(fy_tparser *p, size_t mark, fy_nodes *out);
int fy_tp_intern(fy_tparser *p, fy_span name, uint32_t *symbol);

/* --- expressions (template_parse_expr.c) ------------------------------------------------------ */

typedef enum {
    FY_TP_TUPLE_TARGET = 1,    /* only names and literals */
    FY_TP_TUPLE_NAMESPACE = 2, /* also name.attribute */
    FY_TP_TUPLE_NO_COND = 4,   /* no a if b else c */
    FY_TP_TUPLE_EMPTY = 8,     /* may be empty: in parentheses */
} fy_tp_tuple;

fy_node *fy_tp_expression(fy_tparser *p);
/* One expression, or a tuple of several with commas; fy_tp_tuple flags. */
fy_node *fy_tp_tuple_expr(fy_tparser *p, int flags);
fy_node *fy_tp_target(fy_tparser *p, int flags);
int fy_tp_target_name(fy_tparser *p, fy_span *name); /* a plain name */
/* Filters on `n`, each after a "|" (the first without one when `is_inline`). */
fy_node *fy_tp_filters(fy_tparser *p, fy_node *n, bool is_inline);

/* --- statements (template_parse_stmt.c) ------------------------------------------------------- */

/* Text, prints and statements up to the tag that ends them, which is left as the current token;
 * `ends` (up to FY_W_NONE) lists those tags. NULL: up to the end of the template. */
int fy_tp_body(fy_tparser *p, const fy_tword *ends, fy_nodes *out);

/* --- the whole tree (template_check.c) -------------------------------------------------------- */

/* Finds the filters and tests, and makes the checks that jinja2 leaves to its compiler. The names
 * of the tree are bound. */
int fy_tp_check(fy_tparser *p);

#endif
