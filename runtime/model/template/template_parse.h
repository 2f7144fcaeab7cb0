/* What the lexer and the two files of the parser share. Tokens are made one by one, as jinja2's
 * lexer makes them with trim_blocks and lstrip_blocks; comments and raw blocks are dissolved there.
 * Functions return NULL or -1 after recording "line L, column C: ..."; parsing then ends. Not for
 * use outside runtime/model/template. Follows jinja2 3.1.6, lexer.py and parser.py. */
#ifndef FY_TEMPLATE_PARSE_H
#define FY_TEMPLATE_PARSE_H

#include "base/names.h"
#include "base/str.h"
#include "model/template/template_ast.h"

/* --- the lexer (template_lex.c) --- */

typedef enum {
    FY_TOK_EOF,
    FY_TOK_DATA,
    FY_TOK_VAR_BEGIN,
    FY_TOK_VAR_END,
    FY_TOK_BLOCK_BEGIN,
    FY_TOK_BLOCK_END,
    FY_TOK_NAME,
    FY_TOK_STRING,
    FY_TOK_INTEGER,
    FY_TOK_FLOAT,
    FY_TOK_OPERATOR,
} fy_tok_kind;

typedef struct {
    fy_tok_kind kind;
    uint32_t line, column;
    fy_span text; /* as written; of DATA, what whitespace control leaves of it */
    fy_tv value;  /* of STRING, INTEGER, FLOAT; decoded in the arena */
} fy_tok;

typedef struct {
    fy_arena *arena; /* view */
    fy_err *e;       /* view */
    fy_span text;    /* view; valid UTF-8 with \n as its only line end */
    size_t pos;
    size_t mark; /* line and column are those of this place, which only moves on */
    uint32_t line, column;
    uint32_t last_line, last_column; /* of the token before */
    char end;                        /* of the tag around pos: '}' of "{{", '%', 0: outside */
    bool line_starting;              /* what was read last ended with a line end */
    uint32_t n_open;
    char open[FY_TEMPLATE_MAX_DEPTH + 2]; /* brackets that must be closed inside this tag */
} fy_tlex;

void fy_tlex_init(fy_tlex *lex, fy_span text, fy_arena *arena, fy_err *e);
/* At the end of the text: EOF, at the place of the token before it, as often as asked. */
int fy_tlex_next(fy_tlex *lex, fy_tok *tok);
/* Records "line L, column C: <text>"; always returns -1. */
int fy_tlex_fail(fy_err *e, fy_code code, uint32_t line, uint32_t column, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* jinja2's name of a token: "end of print statement", "string"; the text of names and operators. */
enum { FY_TOK_TEXT = 80 };
const char *fy_tok_text(const fy_tok *tok, char out[FY_TOK_TEXT]);

/* --- the parser --- */

/* Statements that are open, for messages. On the C stack, innermost first. */
typedef struct fy_topen fy_topen;
struct fy_topen {
    const fy_topen *outer;
    fy_span tag;
};

typedef struct {
    fy_template *t; /* view */
    fy_err *e;      /* view */
    fy_tlex lex;
    fy_tok cur, ahead;
    bool has_ahead;

    fy_names names; /* symbols by name */
    size_t symbols_cap;
    uint32_t depth; /* of recursion: statements and expressions */
    uint32_t level; /* statements that enclose the place, itself included */
    uint32_t n_parts;
    uint32_t loops;    /* that `break` could leave */
    uint32_t mentions; /* of the special names: a bit each */
    const fy_topen *tags;
    const char *const *ends; /* tags that can end the body; NULL: the template itself */
} fy_tparser;

/* --- tokens and nodes (template_parse.c) */

int fy_tp_next(fy_tparser *p);
int fy_tp_look(fy_tparser *p);                       /* fills p->ahead */
bool fy_tok_is(const fy_tok *tok, const char *text); /* that operator or name */
static inline bool fy_tp_is(const fy_tparser *p, const char *text)
{
    return fy_tok_is(&p->cur, text);
}
int fy_tp_expect(fy_tparser *p, const char *text); /* skips it; an operator or a name */
int fy_tp_expect_kind(fy_tparser *p, fy_tok_kind kind);
int fy_tp_skip(fy_tparser *p, const char *text); /* 1: skipped, 0: something else, -1 */

int fy_tp_fail(fy_tparser *p, const fy_tok *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int fy_tp_enter(fy_tparser *p); /* one level deeper; p->depth-- undoes it */

fy_node *fy_tp_node(fy_tparser *p, fy_node_kind kind, const fy_tok *at);
/* Checks the height of an expression whose children are set. Takes and gives NULL. */
fy_node *fy_tp_built(fy_tparser *p, fy_node *n);
/* Room for one more item after the n of a list in the arena. NULL: error. */
void *fy_tp_grow(fy_tparser *p, void *items, uint32_t n, size_t item_bytes);
int fy_tp_add(fy_tparser *p, fy_nodes *list, fy_node *n); /* n NULL: -1 */
int fy_tp_intern(fy_tparser *p, fy_span name, uint32_t *symbol);

/* --- expressions (template_parse_expr.c) */

fy_node *fy_tp_expression(fy_tparser *p, bool with_condition); /* true: may be a if b else c */
/* One expression, or a tuple of several with commas. */
fy_node *fy_tp_tuple(fy_tparser *p, bool with_condition);
/* Something that can be assigned to; name.attribute too if `with_attributes`. */
fy_node *fy_tp_target(fy_tparser *p, bool with_attributes);
int fy_tp_target_name(fy_tparser *p, fy_span *name); /* a plain name */
/* Filters on `n`, each after a "|" (the first without one if `is_inline`). */
fy_node *fy_tp_filters(fy_tparser *p, fy_node *n, bool is_inline);

#endif
