/* The parser's half for expressions and targets of assignments. Follows jinja2 3.1.6, parser.py. */
#include <string.h>

#include "base/arena.h"
#include "model/template/template_parse.h"

static fy_node *parse_primary(fy_tparser *p, bool with_attributes);
static fy_node *parse_unary(fy_tparser *p, bool with_filter);

/* --- operators --- */

/* Precedences, loosest first. */
enum { OR, AND, NOT, COMPARE, SUM, CONCAT, PRODUCT, POWER, UNARY };

/* Operators between two operands. All group to the left; ~ and comparisons form chains. */
typedef struct {
    const char *text;
    int level;
    fy_node_kind kind;
    fy_op op;
} infix;

/* The operator at the current token, if it binds as tightly as `level`; else NULL. */
static const infix *operator_here(fy_tparser *p, int level)
{
    static const infix all[] = {
        {"or", OR, FY_N_OR, FY_OP_NONE},         {"and", AND, FY_N_AND, FY_OP_NONE},
        {"==", COMPARE, FY_N_COMPARE, FY_OP_EQ}, {"!=", COMPARE, FY_N_COMPARE, FY_OP_NE},
        {"<", COMPARE, FY_N_COMPARE, FY_OP_LT},  {"<=", COMPARE, FY_N_COMPARE, FY_OP_LE},
        {">", COMPARE, FY_N_COMPARE, FY_OP_GT},  {">=", COMPARE, FY_N_COMPARE, FY_OP_GE},
        {"in", COMPARE, FY_N_COMPARE, FY_OP_IN}, {"not", COMPARE, FY_N_COMPARE, FY_OP_NOT_IN},
        {"+", SUM, FY_N_BINARY, FY_OP_ADD},      {"-", SUM, FY_N_BINARY, FY_OP_SUB},
        {"~", CONCAT, FY_N_CONCAT, FY_OP_NONE},  {"*", PRODUCT, FY_N_BINARY, FY_OP_MUL},
        {"/", PRODUCT, FY_N_BINARY, FY_OP_DIV},  {"//", PRODUCT, FY_N_BINARY, FY_OP_FLOORDIV},
        {"%", PRODUCT, FY_N_BINARY, FY_OP_MOD},  {"**", POWER, FY_N_BINARY, FY_OP_POW},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].level < level || !fy_tp_is(p, all[i].text))
            continue;
        return all[i].op != FY_OP_NOT_IN || fy_tok_is(fy_tp_look(p), "in") ? &all[i] : NULL;
    }
    return NULL;
}

static fy_node *parse_binary(fy_tparser *p, int level);

/* The comparisons after `first`, a chain. */
static void parse_compare(fy_tparser *p, fy_node *node, fy_node *first, const infix *op)
{
    node->a = first;
    for (; op != NULL; op = operator_here(p, COMPARE)) {
        fy_op *ops = fy_tp_grow(p, node->ops, node->kids.n, sizeof *ops);
        if (ops == NULL)
            return;
        node->ops = ops;
        ops[node->kids.n] = op->op;
        fy_tp_next(p);
        if (op->op == FY_OP_NOT_IN)
            fy_tp_next(p);
        fy_tp_add(p, &node->kids, parse_binary(p, SUM));
    }
}

/* `first` ~ b ~ c ...: one node. */
static void parse_concat(fy_tparser *p, fy_node *node, fy_node *first)
{
    fy_tp_add(p, &node->kids, first);
    while (fy_tp_skip(p, "~"))
        fy_tp_add(p, &node->kids, parse_binary(p, PRODUCT));
}

static fy_node *parse_not(fy_tparser *p)
{
    fy_node *node = fy_tp_node(p, FY_N_UNARY, &p->cur);
    fy_tp_enter(p);
    fy_tp_next(p);
    node->op = FY_OP_NOT;
    node->a = parse_binary(p, NOT);
    p->depth--;
    return fy_tp_built(p, node);
}

/* Operands with the operators between them that bind as tightly as `level`. */
static fy_node *parse_binary(fy_tparser *p, int level)
{
    const fy_tok start = p->cur;
    fy_tok at = start;
    const infix *op;
    fy_node *left = level <= NOT && fy_tp_is(p, "not") ? parse_not(p) : parse_unary(p, true);
    for (int before = UNARY; (op = operator_here(p, level)) != NULL; before = op->level) {
        if (op->level < before)
            at = start;
        fy_node *node = fy_tp_node(p, op->kind, &at);
        if (op->kind == FY_N_COMPARE) {
            parse_compare(p, node, left, op);
        } else if (op->kind == FY_N_CONCAT) {
            parse_concat(p, node, left);
        } else {
            fy_tp_next(p);
            node->op = op->op;
            node->a = left;
            node->b = parse_binary(p, op->level + 1);
        }
        left = fy_tp_built(p, node);
        at = p->cur;
    }
    return left;
}

fy_node *fy_tp_expression(fy_tparser *p, bool with_condition)
{
    fy_tok at = p->cur;
    fy_tp_enter(p);
    fy_node *left = parse_binary(p, OR);
    while (with_condition && fy_tp_skip(p, "if")) {
        fy_node *node = fy_tp_node(p, FY_N_COND, &at);
        node->a = left;
        node->b = parse_binary(p, OR);
        if (fy_tp_skip(p, "else"))
            node->c = fy_tp_expression(p, true);
        left = fy_tp_built(p, node);
        at = p->cur;
    }
    p->depth--;
    return left;
}

/* --- calls, subscripts, filters, tests --- */

static void parse_named_arg(fy_tparser *p, fy_node_args *a)
{
    fy_span *names = fy_tp_grow(p, a->names, a->values.n, sizeof *names);
    if (names == NULL)
        return;
    a->names = names;
    names[a->values.n] = p->cur.text;
    fy_tp_next(p);
    fy_tp_next(p);
    fy_tp_add(p, &a->values, fy_tp_expression(p, true));
}

/* One argument; `open` is the bracket before all of them. */
static void parse_arg(fy_tparser *p, fy_node_args *a, const fy_tok *open)
{
    bool star = fy_tp_is(p, "*"), dstar = fy_tp_is(p, "**");
    bool named = p->cur.kind == FY_TOK_NAME && fy_tok_is(fy_tp_look(p), "=");
    if (a->dstar != NULL || (!named && !dstar && (a->star != NULL || (!star && a->values.n > 0)))) {
        fy_tp_fail(p, open, "invalid syntax for function call expression");
    } else if (named) {
        parse_named_arg(p, a);
    } else if (star || dstar) {
        fy_tp_next(p);
        *(star ? &a->star : &a->dstar) = fy_tp_expression(p, true);
    } else {
        fy_tp_add(p, &a->args, fy_tp_expression(p, true));
    }
}

/* (a, b=c, *d, **e); NULL if there are none. */
static fy_node_args *parse_args(fy_tparser *p)
{
    const fy_tok open = p->cur;
    fy_tp_expect(p, "(");
    fy_node_args *args = fy_tp_is(p, ")") ? NULL : fy_tp_alloc(p, sizeof *args);
    for (bool first = true; args != NULL && fy_tp_before(p, ")"); first = false) {
        if (!first)
            fy_tp_expect(p, ",");
        if (first || fy_tp_before(p, ")"))
            parse_arg(p, args, &open);
    }
    fy_tp_expect(p, ")");
    return args;
}

static fy_node *parse_call(fy_tparser *p, fy_node *callee)
{
    fy_node *node = fy_tp_node(p, FY_N_CALL, &p->cur);
    node->args = parse_args(p);
    node->a = callee;
    return fy_tp_built(p, node);
}

/* What stands in brackets: an expression or a slice. */
static fy_node *parse_index(fy_tparser *p)
{
    fy_tok at = p->cur;
    fy_node *start = fy_tp_is(p, ":") ? NULL : fy_tp_expression(p, true);
    if (!fy_tp_is(p, ":"))
        return start;
    fy_node *node = fy_tp_node(p, FY_N_SLICE, &at);
    fy_tp_next(p);
    node->a = start;
    if (!fy_tp_is(p, ":") && !fy_tp_is(p, "]"))
        node->b = fy_tp_expression(p, true);
    if (fy_tp_skip(p, ":") && !fy_tp_is(p, "]"))
        node->c = fy_tp_expression(p, true);
    return fy_tp_built(p, node);
}

/* object.name, object.0 or object[...] */
static fy_node *parse_subscript(fy_tparser *p, fy_node *object)
{
    fy_node *node = fy_tp_node(p, FY_N_GETITEM, &p->cur);
    node->a = object;
    if (fy_tp_skip(p, "[")) {
        node->b = parse_index(p);
        fy_tp_expect(p, "]");
        return fy_tp_built(p, node);
    }
    fy_tp_next(p);
    if (p->cur.kind == FY_TOK_NAME) {
        node->kind = FY_N_GETATTR;
        node->str = p->cur.text;
    } else if (p->cur.kind == FY_TOK_INTEGER) {
        node->b = fy_tp_node(p, FY_N_CONST, &p->cur);
        node->b->value = p->cur.value;
    } else {
        fy_tp_fail(p, &p->cur, "expected name or number");
    }
    fy_tp_next(p);
    return fy_tp_built(p, node);
}

static fy_node *parse_postfix(fy_tparser *p, fy_node *node)
{
    for (;;) {
        if (fy_tp_is(p, ".") || fy_tp_is(p, "["))
            node = parse_subscript(p, node);
        else if (fy_tp_is(p, "("))
            node = parse_call(p, node);
        else
            return node;
    }
}

fy_node *fy_tp_filters(fy_tparser *p, fy_node *n, bool is_inline)
{
    while (is_inline || fy_tp_skip(p, "|")) {
        is_inline = false;
        fy_node *node = fy_tp_node(p, FY_N_FILTER, &p->cur);
        node->str = p->cur.text;
        fy_tp_expect_kind(p, FY_TOK_NAME);
        if (fy_tp_is(p, "("))
            node->args = parse_args(p);
        node->a = n;
        n = fy_tp_built(p, node);
    }
    return n;
}

/* The argument of a test without parentheses: `is divisibleby 3`. */
static fy_node_args *parse_bare_arg(fy_tparser *p)
{
    bool name = p->cur.kind == FY_TOK_NAME;
    if (name && fy_tp_is(p, "is"))
        fy_tp_fail(p, &p->cur, "You cannot chain multiple tests with is");
    if (name ? fy_tp_is(p, "else") || fy_tp_is(p, "or") || fy_tp_is(p, "and")
             : p->cur.kind != FY_TOK_STRING && p->cur.kind != FY_TOK_INTEGER &&
                   p->cur.kind != FY_TOK_FLOAT && !fy_tp_is(p, "[") && !fy_tp_is(p, "{"))
        return NULL;
    fy_node_args *args = fy_tp_alloc(p, sizeof *args);
    fy_node *arg = parse_postfix(p, parse_primary(p, false));
    if (args != NULL)
        fy_tp_add(p, &args->args, arg);
    return args;
}

static fy_node *parse_test(fy_tparser *p, fy_node *object)
{
    fy_tok at = p->cur;
    fy_node *node = fy_tp_node(p, FY_N_TEST, &at), *negated = NULL;
    fy_tp_next(p);
    if (fy_tp_skip(p, "not"))
        negated = fy_tp_node(p, FY_N_UNARY, &at);
    node->str = p->cur.text;
    fy_tp_expect_kind(p, FY_TOK_NAME);
    node->args = fy_tp_is(p, "(") ? parse_args(p) : parse_bare_arg(p);
    node->a = object;
    node = fy_tp_built(p, node);
    if (negated == NULL)
        return node;
    negated->op = FY_OP_NOT;
    negated->a = node;
    return fy_tp_built(p, negated);
}

static fy_node *parse_sign(fy_tparser *p)
{
    fy_node *node = fy_tp_node(p, FY_N_UNARY, &p->cur);
    node->op = fy_tp_is(p, "-") ? FY_OP_NEG : FY_OP_POS;
    fy_tp_enter(p);
    fy_tp_next(p);
    node->a = parse_unary(p, false);
    p->depth--;
    return fy_tp_built(p, node);
}

static fy_node *parse_unary(fy_tparser *p, bool with_filter)
{
    bool sign = fy_tp_is(p, "-") || fy_tp_is(p, "+");
    fy_node *node = parse_postfix(p, sign ? parse_sign(p) : parse_primary(p, false));
    while (with_filter) {
        if (fy_tp_is(p, "|"))
            node = fy_tp_filters(p, node, false);
        else if (fy_tp_is(p, "is"))
            node = parse_test(p, node);
        else if (fy_tp_is(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* --- literals, names, tuples --- */

/* Is the name that of a constant? */
static bool constant_of(const fy_tok *name, fy_tv *out)
{
    bool yes = fy_tok_is(name, "true") || fy_tok_is(name, "True");
    bool none = fy_tok_is(name, "none") || fy_tok_is(name, "None");
    *out = none ? fy_tv_none() : fy_tv_bool(yes);
    return yes || none || fy_tok_is(name, "false") || fy_tok_is(name, "False");
}

static fy_node *parse_name(fy_tparser *p, bool with_attributes)
{
    fy_tok name = p->cur;
    fy_node *node = fy_tp_node(p, FY_N_NAME, &name);
    fy_tp_next(p);
    if (constant_of(&name, &node->value)) {
        node->kind = FY_N_CONST;
        return fy_tp_built(p, node);
    }
    node->symbol = fy_tp_intern(p, name.text);
    fy_tp_built(p, node);
    if (!with_attributes || !fy_tp_skip(p, "."))
        return node;
    fy_node *attribute = fy_tp_node(p, FY_N_GETATTR, &name);
    attribute->a = node;
    attribute->str = p->cur.text;
    attribute->flag = true; /* one in parentheses cannot be a target */
    fy_tp_expect_kind(p, FY_TOK_NAME);
    return fy_tp_built(p, attribute);
}

/* A literal; strings that follow each other are one. */
static fy_node *parse_literal(fy_tparser *p)
{
    fy_node *node = fy_tp_node(p, FY_N_CONST, &p->cur);
    fy_str joined = {0};
    node->value = p->cur.value;
    fy_tp_next(p);
    while (node->value.kind == FY_TV_STR && p->cur.kind == FY_TOK_STRING) {
        if (joined.len == 0)
            fy_str_add(&joined, node->value.str.ptr, node->value.str.len);
        fy_str_add(&joined, p->cur.value.str.ptr, p->cur.value.str.len);
        fy_tp_next(p);
    }
    if (joined.len > 0) {
        char *copy = fy_arena_strndup(&p->t->arena, joined.ptr, joined.len);
        node->value.str = (fy_span){copy, joined.len};
        joined.oom = joined.oom || copy == NULL;
    }
    if (joined.oom)
        fy_nomem(&p->e);
    fy_str_release(&joined);
    return fy_tp_built(p, node);
}

/* [a, b] or {a: b, c: d}; a comma may end it. */
static fy_node *parse_display(fy_tparser *p, fy_node_kind kind, const char *close)
{
    fy_node *node = fy_tp_node(p, kind, &p->cur);
    fy_tp_next(p);
    while (fy_tp_before(p, close)) {
        if (node->kids.n > 0)
            fy_tp_expect(p, ",");
        if (node->kids.n > 0 && fy_tp_is(p, close))
            break;
        fy_tp_add(p, &node->kids, fy_tp_expression(p, true));
        if (kind == FY_N_DICT) {
            fy_tp_expect(p, ":");
            fy_tp_add(p, &node->kids, fy_tp_expression(p, true));
        }
    }
    fy_tp_next(p);
    return fy_tp_built(p, node);
}

enum { WITH_CONDITION = 1, TARGET = 2, WITH_ATTRIBUTES = 4, IN_PARENTHESES = 8 };

static fy_node *parse_tuple(fy_tparser *p, int how)
{
    fy_tok at = p->cur;
    fy_nodes kids = {0};
    char text[FY_TOK_TEXT];
    bool is_tuple = false, more = true;
    while (more && p->cur.kind != FY_TOK_VAR_END && p->cur.kind != FY_TOK_BLOCK_END &&
           fy_tp_before(p, ")")) {
        fy_tp_add(p, &kids,
                  how & TARGET ? parse_primary(p, how & WITH_ATTRIBUTES)
                               : fy_tp_expression(p, how & WITH_CONDITION));
        at = p->cur;
        more = fy_tp_skip(p, ",");
        is_tuple = is_tuple || more;
    }
    if (!is_tuple && kids.n > 0)
        return kids.item[0];
    if (!is_tuple && !(how & IN_PARENTHESES))
        fy_tp_fail(p, &p->cur, "Expected an expression, got '%s'", fy_tok_text(&p->cur, text));
    fy_node *node = fy_tp_node(p, FY_N_TUPLE, &at);
    node->kids = kids;
    return fy_tp_built(p, node);
}

fy_node *fy_tp_tuple(fy_tparser *p, bool with_condition)
{
    return parse_tuple(p, with_condition ? WITH_CONDITION : 0);
}

static fy_node *parse_primary(fy_tparser *p, bool with_attributes)
{
    char text[FY_TOK_TEXT];
    if (p->cur.kind == FY_TOK_NAME)
        return parse_name(p, with_attributes);
    if (p->cur.kind == FY_TOK_STRING || p->cur.kind == FY_TOK_INTEGER ||
        p->cur.kind == FY_TOK_FLOAT)
        return parse_literal(p);
    if (fy_tp_is(p, "["))
        return parse_display(p, FY_N_LIST, "]");
    if (fy_tp_is(p, "{"))
        return parse_display(p, FY_N_DICT, "}");
    if (fy_tp_skip(p, "(")) {
        fy_node *node = parse_tuple(p, WITH_CONDITION | IN_PARENTHESES);
        fy_tp_expect(p, ")");
        return node;
    }
    fy_tp_fail(p, &p->cur, "unexpected '%s'", fy_tok_text(&p->cur, text));
    return fy_tp_node(p, FY_N_CONST, &p->cur);
}

/* --- targets of assignments --- */

static bool is_target(const fy_node *n)
{
    for (uint32_t i = 0; n->kind == FY_N_TUPLE && i < n->kids.n; i++) {
        if (!is_target(n->kids.item[i]))
            return false;
    }
    return n->kind == FY_N_TUPLE || n->kind == FY_N_NAME || (n->kind == FY_N_GETATTR && n->flag);
}

fy_node *fy_tp_target(fy_tparser *p, bool with_attributes)
{
    fy_tok at = p->cur;
    fy_node *node = parse_tuple(p, TARGET | (with_attributes ? WITH_ATTRIBUTES : 0));
    if (!is_target(node))
        fy_tp_fail(p, &at, "can't assign to this: expected a name, or several with commas between");
    return node;
}

fy_span fy_tp_target_name(fy_tparser *p)
{
    fy_tok at = p->cur;
    fy_tv value;
    fy_tp_expect_kind(p, FY_TOK_NAME);
    if (constant_of(&at, &value))
        fy_tp_fail(p, &at, "can't assign to 'name'");
    return at.text;
}
