/* Tokens of a template's text, made one by one as jinja2's lexer makes them with trim_blocks and
 * lstrip_blocks: tags, the text between them after whitespace control, names, literals, operators.
 * Comments and raw blocks are dissolved here. The text is valid UTF-8 with \n as its only line end;
 * tokens are views of it, decoded literals live in the arena. Not for use outside
 * runtime/model/template. Follows jinja2 3.1.6, lexer.py. */
#ifndef FY_TEMPLATE_LEX_H
#define FY_TEMPLATE_LEX_H

#include "base/arena.h"
#include "model/template/template_ast.h"
#include "model/template/template_value.h"

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
    FY_TOK_ADD,
    FY_TOK_SUB,
    FY_TOK_MUL,
    FY_TOK_DIV,
    FY_TOK_FLOORDIV,
    FY_TOK_MOD,
    FY_TOK_POW,
    FY_TOK_TILDE,
    FY_TOK_EQ,
    FY_TOK_NE,
    FY_TOK_LT,
    FY_TOK_LE,
    FY_TOK_GT,
    FY_TOK_GE,
    FY_TOK_ASSIGN,
    FY_TOK_DOT,
    FY_TOK_COLON,
    FY_TOK_PIPE,
    FY_TOK_COMMA,
    FY_TOK_SEMICOLON,
    FY_TOK_LBRACKET,
    FY_TOK_RBRACKET,
    FY_TOK_LPAREN,
    FY_TOK_RPAREN,
    FY_TOK_LBRACE,
    FY_TOK_RBRACE,
} fy_tok_kind;

/* The names that mean something to the parser, in alphabetical order of their spelling in ASCII. */
typedef enum {
    FY_W_NONE, /* any other name */
    FY_W_FALSE_UPPER,
    FY_W_NONE_UPPER,
    FY_W_TRUE_UPPER,
    FY_W_AND,
    FY_W_AUTOESCAPE,
    FY_W_BLOCK,
    FY_W_BREAK,
    FY_W_CALL,
    FY_W_CONTINUE,
    FY_W_ELIF,
    FY_W_ELSE,
    FY_W_ENDCALL,
    FY_W_ENDFILTER,
    FY_W_ENDFOR,
    FY_W_ENDGENERATION,
    FY_W_ENDIF,
    FY_W_ENDMACRO,
    FY_W_ENDSET,
    FY_W_ENDWITH,
    FY_W_EXTENDS,
    FY_W_FALSE,
    FY_W_FILTER,
    FY_W_FOR,
    FY_W_FROM,
    FY_W_GENERATION,
    FY_W_IF,
    FY_W_IMPORT,
    FY_W_IN,
    FY_W_INCLUDE,
    FY_W_IS,
    FY_W_MACRO,
    FY_W_NONE_LOWER,
    FY_W_NOT,
    FY_W_OR,
    FY_W_PRINT,
    FY_W_RECURSIVE,
    FY_W_SET,
    FY_W_TRANS,
    FY_W_TRUE,
    FY_W_WITH,
    FY_W_COUNT,
} fy_tword;

typedef struct {
    fy_tok_kind kind;
    fy_tword word; /* of a NAME */
    uint32_t line, column;
    fy_span text; /* as written; of DATA, what is left of it */
    fy_tv value;  /* of STRING, INTEGER, FLOAT */
} fy_tok;

typedef enum { FY_TLEX_ROOT, FY_TLEX_BLOCK, FY_TLEX_VARIABLE } fy_tlex_state;

typedef struct {
    fy_arena *arena; /* view */
    fy_err *e;       /* view */
    fy_span text;    /* view */
    size_t pos;
    size_t mark; /* line and column are those of this place, which only moves on */
    uint32_t line, column;
    uint32_t last_line, last_column; /* of the token before */
    fy_tlex_state state;
    bool line_starting; /* what was read last ended with a line end */
    uint32_t n_open;
    char open[FY_TEMPLATE_MAX_DEPTH + 2]; /* brackets that must be closed inside this tag */
} fy_tlex;

void fy_tlex_init(fy_tlex *lex, fy_span text, fy_arena *arena, fy_err *e);

/* 0, or -1 and the error: FY_EFORMAT "line L, column C: ...". At the end: EOF, at the place of the
 * token before it, as often as asked. */
int fy_tlex_next(fy_tlex *lex, fy_tok *tok);

/* Records "line L, column C: <text>"; always returns -1. */
int fy_tlex_fail(fy_err *e, fy_code code, uint32_t line, uint32_t column, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* jinja2's name of a kind ("end of print statement", "+", "name"), and of a token: a name's is the
 * name itself. `out` has room for FY_TOK_TEXT bytes. */
enum { FY_TOK_TEXT = 80 };
const char *fy_tok_kind_text(fy_tok_kind kind);
const char *fy_tok_text(const fy_tok *tok, char out[FY_TOK_TEXT]);
const char *fy_tword_text(fy_tword word);

/* --- literals (template_literal.c): the value of tok->text into tok->value ---------------------
 */

int fy_tlex_string(fy_tlex *lex, fy_tok *tok); /* in its quotes */
int fy_tlex_integer(fy_tlex *lex, fy_tok *tok);
int fy_tlex_float(fy_tlex *lex, fy_tok *tok);

#endif
