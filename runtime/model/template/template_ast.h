/* The tree of a parsed template: what the parser builds and the evaluator walks. All nodes live in
 * the template's arena. Names of variables are interned: a symbol is an index of
 * fy_template.symbols. */
#ifndef FY_TEMPLATE_AST_H
#define FY_TEMPLATE_AST_H

#include "base/arena.h"
#include "model/template/template.h"
#include "model/template/template_value.h"

enum {
    FY_TEMPLATE_MAX_DEPTH = 128,     /* no path from the top of the tree to a leaf has more nodes */
    FY_TEMPLATE_MAX_NODES = 1 << 15, /* nodes of the tree */
    FY_TEMPLATE_MAX_CALLS = 128,     /* macros, callers and recursive loops under way at once */
};

typedef enum {
    /* expressions */
    FY_N_CONST,   /* value */
    FY_N_NAME,    /* symbol */
    FY_N_LIST,    /* kids */
    FY_N_TUPLE,   /* kids */
    FY_N_DICT,    /* kids: key, value, key, value ... */
    FY_N_GETATTR, /* a.str */
    FY_N_GETITEM, /* a[b]; b may be FY_N_SLICE */
    FY_N_SLICE,   /* a:b:c, each may be NULL; only as b of FY_N_GETITEM */
    FY_N_CALL,    /* a(args) */
    FY_N_FILTER,  /* a | str(args); a is NULL in a filter block or `set x | f`: the block's text */
    FY_N_TEST,    /* a is str(args) */
    FY_N_UNARY,   /* op a: FY_OP_NEG, FY_OP_POS, FY_OP_NOT */
    FY_N_BINARY,  /* a op b: FY_OP_ADD ... FY_OP_POW */
    FY_N_CONCAT,  /* kids joined as text: ~ */
    FY_N_AND,     /* a and b */
    FY_N_OR,      /* a or b */
    FY_N_COMPARE, /* a ops[0] kids[0] ops[1] kids[1] ...: a chain; `not in` is FY_OP_NOT_IN */
    FY_N_COND,    /* a if b else c; c NULL: undefined */
    /* statements */
    FY_N_TEXT,       /* value (a string): literal text */
    FY_N_PRINT,      /* {{ a }} */
    FY_N_IF,         /* a: condition; body; orelse (an elif is a lone FY_N_IF there) */
    FY_N_FOR,        /* for target a in b if c [recursive]: body, orelse; flag: recursive */
    FY_N_SET,        /* target a = b; a target is a FY_N_NAME, a FY_N_TUPLE of targets, or, here and
                        in FY_N_SET_BLOCK, a namespace's attribute: FY_N_GETATTR of a FY_N_NAME */
    FY_N_SET_BLOCK,  /* target a; b: filter chain over the text, or NULL; body */
    FY_N_MACRO,      /* symbol, params, body */
    FY_N_CALL_BLOCK, /* a: the FY_N_CALL; params and body of the caller */
    FY_N_FILTER_BLOCK, /* a: filter chain over the text; body */
    FY_N_WITH,  /* kids: target, value, target, value ...; body. Values see the outer scope. */
    FY_N_SCOPE, /* generation block: body */
    FY_N_BREAK,
    FY_N_CONTINUE,
} fy_node_kind;

typedef enum {
    FY_OP_NONE = 0,
    FY_OP_NEG,
    FY_OP_POS,
    FY_OP_NOT,
    FY_OP_ADD,
    FY_OP_SUB,
    FY_OP_MUL,
    FY_OP_DIV,
    FY_OP_FLOORDIV,
    FY_OP_MOD,
    FY_OP_POW,
    FY_OP_EQ,
    FY_OP_NE,
    FY_OP_LT,
    FY_OP_LE,
    FY_OP_GT,
    FY_OP_GE,
    FY_OP_IN,
    FY_OP_NOT_IN,
} fy_op;

typedef struct fy_node fy_node;

typedef struct {
    fy_node **item; /* in the arena */
    uint32_t n;
} fy_nodes;

/* Arguments of a call, filter or test: f(args, names=values, *star, **dstar). */
typedef struct {
    fy_nodes args;
    fy_span *names; /* [values.n], of keyword arguments */
    fy_nodes values;
    fy_node *star, *dstar; /* NULL: none */
} fy_node_args;

/* Parameters of a macro or call block; the last defaults.n of them have defaults. */
typedef struct {
    uint32_t *symbols; /* [n] */
    uint32_t n;
    fy_nodes defaults;
    bool uses_varargs, uses_kwargs, uses_caller; /* the body names them */
} fy_node_params;

struct fy_node {
    fy_node_kind kind;
    fy_op op;
    bool flag, uses_loop;  /* uses_loop: the body of a FY_N_FOR names `loop` */
    uint16_t height;       /* of the expression below; the parser's */
    uint32_t line, column; /* from 1 */
    uint32_t symbol;
    fy_span str; /* attribute, filter or test name */
    fy_tv value; /* constants */
    fy_node *a, *b, *c;
    fy_nodes kids;
    fy_op *ops; /* [kids.n] of FY_N_COMPARE */
    fy_nodes body, orelse;
    fy_node_args *args; /* NULL: none */
    fy_node_params *params;
    const fy_tbuiltin *builtin; /* filter or test; NULL: an unknown one in a branch, which is an
                                   error only when it is reached */
};

/* Names with a meaning of their own in a body. */
enum { FY_T_LOOP, FY_T_CALLER, FY_T_KWARGS, FY_T_VARARGS, FY_T_SPECIALS };

struct fy_template {
    fy_arena arena;
    fy_span text; /* line ends made \n, in the arena */
    fy_nodes body;
    fy_span *symbols; /* owned; names, each once */
    uint32_t n_symbols;
    uint32_t special[FY_T_SPECIALS]; /* symbols; UINT32_MAX: not in the template */
};

#endif
