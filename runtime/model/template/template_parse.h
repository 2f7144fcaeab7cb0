/* What the lexer and the two files of the parser share. Tokens are made one by one, as jinja2's
 * lexer makes them with trim_blocks and lstrip_blocks; comments and raw blocks are dissolved there.
 * The first error, "line L, column C: ...", stays in the parser: after it all tokens are the end of
 * the template, and nodes are one that is not used. Who loops up to a token asks fy_tp_ok, too. Not
 * for use outside runtime/model/template. Follows jinja2 3.1.6, lexer.py and parser.py. */
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
/* At the end of the text and after an error: EOF, at the place of the token before it, as often as
 * asked. */
void fy_tlex_next(fy_tlex *lex, fy_tok *tok);
/* Records "line L, column C: <text>". */
void fy_tlex_fail(fy_err *e, fy_code code, uint32_t line, uint32_t column, const char *fmt, ...)
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
    fy_err e;       /* the first error */
    fy_tlex lex;
    fy_tok cur, ahead;
    bool has_ahead;
    fy_node none; /* stands for nodes that an error kept from being made */

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

static inline bool fy_tp_ok(const fy_tparser *p)
{
    return p->e.code == FY_OK;
}

/* --- tokens and nodes (template_parse.c) */

void fy_tp_next(fy_tparser *p);
const fy_tok *fy_tp_look(fy_tparser *p);             /* the token after the current one */
bool fy_tok_is(const fy_tok *tok, const char *text); /* that operator or name */
static inline bool fy_tp_is(const fy_tparser *p, const char *text) /* after an error: nothing is */
{
    return fy_tp_ok(p) && fy_tok_is(&p->cur, text);
}
static inline bool fy_tp_before(const fy_tparser *p, const char *text) /* not there, no error */
{
    return fy_tp_ok(p) && !fy_tp_is(p, text);
}
bool fy_tp_skip(fy_tparser *p, const char *text);   /* false: something else is there */
void fy_tp_expect(fy_tparser *p, const char *text); /* skips it; an operator or a name */
void fy_tp_expect_kind(fy_tparser *p, fy_tok_kind kind);
/* An error at a token or a node. */
#define fy_tp_fail(p, at, ...) \
    fy_tlex_fail(&(p)->e, FY_EFORMAT, (at)->line, (at)->column, __VA_ARGS__)
void fy_tp_enter(fy_tparser *p); /* one level deeper; p->depth-- undoes it */

void *fy_tp_alloc(fy_tparser *p, size_t bytes); /* cleared, in the template's arena; NULL: error */
fy_node *fy_tp_node(fy_tparser *p, fy_node_kind kind, const fy_tok *at); /* never NULL */
/* Checks the height of an expression whose children are set. Returns it. */
fy_node *fy_tp_built(fy_tparser *p, fy_node *n);
/* Room for one more item after the n of a list in the arena. NULL: error. */
void *fy_tp_grow(fy_tparser *p, void *items, uint32_t n, size_t item_bytes);
void fy_tp_add(fy_tparser *p, fy_nodes *list, fy_node *n);
uint32_t fy_tp_intern(fy_tparser *p, fy_span name); /* the symbol */

/* --- expressions (template_parse_expr.c) */

fy_node *fy_tp_expression(fy_tparser *p, bool with_condition); /* true: may be a if b else c */
/* One expression, or a tuple of several with commas. */
fy_node *fy_tp_tuple(fy_tparser *p, bool with_condition);
/* Something that can be assigned to; name.attribute too if `with_attributes`. */
fy_node *fy_tp_target(fy_tparser *p, bool with_attributes);
fy_span fy_tp_target_name(fy_tparser *p); /* a plain name */
/* Filters on `n`, each after a "|" (the first without one if `is_inline`). */
fy_node *fy_tp_filters(fy_tparser *p, fy_node *n, bool is_inline);

#endif
