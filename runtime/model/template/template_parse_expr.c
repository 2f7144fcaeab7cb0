/* The parser's half for expressions and targets of assignments. Follows jinja2 3.1.6, parser.py. */
#include <string.h>

#include "base/arena.h"
#include "model/template/template_parse.h"

static fy_node *parse_primary(fy_tparser *p, bool with_attributes);
static fy_node *parse_unary(fy_tparser *p, bool with_filter);

/* --- operators --- */

/* Precedences, loosest first. `not` stands between AND and COMPARE. */
enum { OR, AND, COMPARE, SUM, CONCAT, PRODUCT, POWER, UNARY };

/* Operators that group to the left. */
static const struct {
    const char *text;
    int level;
    fy_node_kind kind;
    fy_op op;
} infix[] = {
    {"or", OR, FY_N_OR, FY_OP_NONE},
    {"and", AND, FY_N_AND, FY_OP_NONE},
    {"+", SUM, FY_N_BINARY, FY_OP_ADD},
    {"-", SUM, FY_N_BINARY, FY_OP_SUB},
    {"*", PRODUCT, FY_N_BINARY, FY_OP_MUL},
    {"/", PRODUCT, FY_N_BINARY, FY_OP_DIV},
    {"//", PRODUCT, FY_N_BINARY, FY_OP_FLOORDIV},
    {"%", PRODUCT, FY_N_BINARY, FY_OP_MOD},
    {"**", POWER, FY_N_BINARY, FY_OP_POW},
};
enum { N_INFIX = sizeof infix / sizeof *infix };

/* The comparison that begins at the current token, skipped; FY_OP_NONE: none. -1 on error. */
static int skip_comparison(fy_tparser *p, fy_op *op)
{
    static const char *const texts[] = {"==", "!=", "<", "<=", ">", ">=", "in"};
    *op = FY_OP_NONE;
    for (int i = 0; i < 7; i++) {
        if (fy_tp_is(p, texts[i])) {
            *op = (fy_op)(FY_OP_EQ + i);
            return fy_tp_next(p);
        }
    }
    if (!fy_tp_is(p, "not"))
        return 0;
    if (fy_tp_look(p) != 0)
        return -1;
    if (!fy_tok_is(&p->ahead, "in"))
        return 0;
    *op = FY_OP_NOT_IN;
    return fy_tp_next(p) != 0 ? -1 : fy_tp_next(p);
}

static fy_node *parse_level(fy_tparser *p, int level);

/* `first` and the comparisons after it, a chain. */
static fy_node *parse_compare(fy_tparser *p, fy_node *first, const fy_tok *at)
{
    fy_op op;
    if (skip_comparison(p, &op) != 0)
        return NULL;
    if (op == FY_OP_NONE)
        return first;
    fy_node *node = fy_tp_node(p, FY_N_COMPARE, at);
    if (node == NULL)
        return NULL;
    node->a = first;
    while (op != FY_OP_NONE) {
        node->ops = fy_tp_grow(p, node->ops, node->kids.n, sizeof *node->ops);
        if (node->ops == NULL)
            return NULL;
        node->ops[node->kids.n] = op;
        if (fy_tp_add(p, &node->kids, parse_level(p, SUM)) != 0 || skip_comparison(p, &op) != 0)
            return NULL;
    }
    return fy_tp_built(p, node);
}

/* `first` ~ b ~ c ...: one node. */
static fy_node *parse_concat(fy_tparser *p, fy_node *first, const fy_tok *at)
{
    int rc = 0;
    if (!fy_tp_is(p, "~"))
        return first;
    fy_node *node = fy_tp_node(p, FY_N_CONCAT, at);
    if (node == NULL || fy_tp_add(p, &node->kids, first) != 0)
        return NULL;
    while ((rc = fy_tp_skip(p, "~")) == 1) {
        if (fy_tp_add(p, &node->kids, parse_level(p, PRODUCT)) != 0)
            return NULL;
    }
    return rc == 0 ? fy_tp_built(p, node) : NULL;
}

static fy_node *parse_not(fy_tparser *p)
{
    if (!fy_tp_is(p, "not"))
        return parse_level(p, COMPARE);
    fy_node *node = fy_tp_node(p, FY_N_UNARY, &p->cur);
    if (node == NULL || fy_tp_enter(p) != 0 || fy_tp_next(p) != 0)
        return NULL;
    node->op = FY_OP_NOT;
    node->a = parse_not(p);
    p->depth--;
    return node->a != NULL ? fy_tp_built(p, node) : NULL;
}

static fy_node *parse_operand(fy_tparser *p, int level)
{
    return level == AND     ? parse_not(p)
           : level == POWER ? parse_unary(p, true)
                            : parse_level(p, level + 1);
}

static fy_node *parse_level(fy_tparser *p, int level)
{
    fy_tok at = p->cur;
    fy_node *left = parse_operand(p, level);
    if (left != NULL && level == COMPARE)
        return parse_compare(p, left, &at);
    if (left != NULL && level == CONCAT)
        return parse_concat(p, left, &at);
    while (left != NULL) {
        int i = 0;
        while (i < N_INFIX && (infix[i].level != level || !fy_tp_is(p, infix[i].text)))
            i++;
        if (i == N_INFIX)
            break;
        fy_node *node = fy_tp_node(p, infix[i].kind, &at);
        if (node == NULL || fy_tp_next(p) != 0)
            return NULL;
        node->op = infix[i].op;
        node->a = left;
        node->b = parse_operand(p, level);
        left = node->b != NULL ? fy_tp_built(p, node) : NULL;
        at = p->cur;
    }
    return left;
}

static fy_node *parse_condition(fy_tparser *p)
{
    fy_tok at = p->cur;
    fy_node *left = parse_level(p, OR);
    int rc = 0;
    while (left != NULL && (rc = fy_tp_skip(p, "if")) == 1) {
        fy_node *node = fy_tp_node(p, FY_N_COND, &at);
        if (node == NULL)
            return NULL;
        node->a = left;
        node->b = parse_level(p, OR);
        if (node->b == NULL || (rc = fy_tp_skip(p, "else")) < 0 ||
            (rc == 1 && (node->c = fy_tp_expression(p, true)) == NULL))
            return NULL;
        left = fy_tp_built(p, node);
        at = p->cur;
    }
    return rc == 0 ? left : NULL;
}

fy_node *fy_tp_expression(fy_tparser *p, bool with_condition)
{
    if (fy_tp_enter(p) != 0)
        return NULL;
    fy_node *node = with_condition ? parse_condition(p) : parse_level(p, OR);
    p->depth--;
    return node;
}

/* --- calls, subscripts, filters, tests --- */

static int add_named(fy_tparser *p, fy_node_args *a)
{
    fy_span *names = fy_tp_grow(p, a->names, a->values.n, sizeof *names);
    if (names == NULL)
        return -1;
    a->names = names;
    names[a->values.n] = p->cur.text;
    if (fy_tp_next(p) != 0 || fy_tp_next(p) != 0)
        return -1;
    return fy_tp_add(p, &a->values, fy_tp_expression(p, true));
}

/* One argument. *allowed is false where Python would not have it. */
static int parse_arg(fy_tparser *p, fy_node_args *a, bool *allowed)
{
    bool star = fy_tp_is(p, "*"), dstar = fy_tp_is(p, "**");
    if (p->cur.kind == FY_TOK_NAME && fy_tp_look(p) != 0)
        return -1;
    bool named = p->cur.kind == FY_TOK_NAME && fy_tok_is(&p->ahead, "=");
    *allowed =
        a->dstar == NULL && (named || dstar || (a->star == NULL && (star || a->values.n == 0)));
    if (!*allowed)
        return 0;
    if (named)
        return add_named(p, a);
    if (!star && !dstar)
        return fy_tp_add(p, &a->args, fy_tp_expression(p, true));
    fy_node **value = star ? &a->star : &a->dstar;
    return fy_tp_next(p) != 0 || (*value = fy_tp_expression(p, true)) == NULL ? -1 : 0;
}

/* (a, b=c, *d, **e); NULL in *out if there are none. */
static int parse_args(fy_tparser *p, fy_node_args **out)
{
    fy_tok open = p->cur;
    if (fy_tp_expect(p, "(") != 0)
        return -1;
    if (!fy_tp_is(p, ")") && (*out = fy_arena_calloc(&p->t->arena, 1, sizeof **out)) == NULL)
        return fy_nomem(p->e);
    for (bool first = true; !fy_tp_is(p, ")"); first = false) {
        bool allowed;
        if (!first && fy_tp_expect(p, ",") != 0)
            return -1;
        if (!first && fy_tp_is(p, ")"))
            break;
        if (parse_arg(p, *out, &allowed) != 0)
            return -1;
        if (!allowed)
            return fy_tp_fail(p, &open, "invalid syntax for function call expression");
    }
    return fy_tp_expect(p, ")");
}

static fy_node *parse_call(fy_tparser *p, fy_node *callee)
{
    fy_node *node = fy_tp_node(p, FY_N_CALL, &p->cur);
    if (node == NULL || parse_args(p, &node->args) != 0)
        return NULL;
    node->a = callee;
    return fy_tp_built(p, node);
}

/* What stands in brackets: an expression or a slice. */
static fy_node *parse_index(fy_tparser *p)
{
    fy_tok at = p->cur;
    fy_node *start = NULL;
    if (!fy_tp_is(p, ":")) {
        start = fy_tp_expression(p, true);
        if (start == NULL || !fy_tp_is(p, ":"))
            return start;
    }
    fy_node *node = fy_tp_node(p, FY_N_SLICE, &at);
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    node->a = start;
    if (!fy_tp_is(p, ":") && !fy_tp_is(p, "]") && (node->b = fy_tp_expression(p, true)) == NULL)
        return NULL;
    int rc = fy_tp_skip(p, ":");
    if (rc < 0 || (rc == 1 && !fy_tp_is(p, "]") && (node->c = fy_tp_expression(p, true)) == NULL))
        return NULL;
    return fy_tp_built(p, node);
}

/* object.name, object.0 or object[...] */
static fy_node *parse_subscript(fy_tparser *p, fy_node *object)
{
    fy_tok at = p->cur;
    fy_node *node = fy_tp_node(p, FY_N_GETITEM, &at);
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    node->a = object;
    if (fy_tok_is(&at, "[")) {
        if ((node->b = parse_index(p)) == NULL || fy_tp_expect(p, "]") != 0)
            return NULL;
        return fy_tp_built(p, node);
    }
    fy_tok name = p->cur;
    if (name.kind == FY_TOK_NAME) {
        node->kind = FY_N_GETATTR;
        node->str = name.text;
    } else if (name.kind == FY_TOK_INTEGER) {
        if ((node->b = fy_tp_node(p, FY_N_CONST, &name)) == NULL)
            return NULL;
        node->b->value = name.value;
    } else {
        fy_tp_fail(p, &name, "expected name or number");
        return NULL;
    }
    return fy_tp_next(p) == 0 ? fy_tp_built(p, node) : NULL;
}

static fy_node *parse_postfix(fy_tparser *p, fy_node *node)
{
    while (node != NULL) {
        if (fy_tp_is(p, ".") || fy_tp_is(p, "["))
            node = parse_subscript(p, node);
        else if (fy_tp_is(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

fy_node *fy_tp_filters(fy_tparser *p, fy_node *n, bool is_inline)
{
    while (is_inline || fy_tp_is(p, "|")) {
        if (!is_inline && fy_tp_next(p) != 0)
            return NULL;
        is_inline = false;
        fy_node *node = fy_tp_node(p, FY_N_FILTER, &p->cur);
        if (node == NULL)
            return NULL;
        node->str = p->cur.text;
        if (fy_tp_expect_kind(p, FY_TOK_NAME) != 0 ||
            (fy_tp_is(p, "(") && parse_args(p, &node->args) != 0))
            return NULL;
        node->a = n;
        if ((n = fy_tp_built(p, node)) == NULL)
            return NULL;
    }
    return n;
}

/* The argument of a test without parentheses: `is divisibleby 3`. */
static int parse_bare_arg(fy_tparser *p, fy_node *test)
{
    bool name = p->cur.kind == FY_TOK_NAME;
    if (name && fy_tp_is(p, "is"))
        return fy_tp_fail(p, &p->cur, "You cannot chain multiple tests with is");
    if (name ? fy_tp_is(p, "else") || fy_tp_is(p, "or") || fy_tp_is(p, "and")
             : p->cur.kind != FY_TOK_STRING && p->cur.kind != FY_TOK_INTEGER &&
                   p->cur.kind != FY_TOK_FLOAT && !fy_tp_is(p, "[") && !fy_tp_is(p, "{"))
        return 0;
    fy_node *arg = parse_primary(p, false);
    if ((test->args = fy_arena_calloc(&p->t->arena, 1, sizeof *test->args)) == NULL)
        return fy_nomem(p->e);
    return arg == NULL ? -1 : fy_tp_add(p, &test->args->args, parse_postfix(p, arg));
}

static fy_node *parse_test(fy_tparser *p, fy_node *object)
{
    fy_tok at = p->cur;
    fy_node *node = fy_tp_node(p, FY_N_TEST, &at), *negated = NULL;
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    if (fy_tp_is(p, "not")) {
        negated = fy_tp_node(p, FY_N_UNARY, &at);
        if (negated == NULL || fy_tp_next(p) != 0)
            return NULL;
        negated->op = FY_OP_NOT;
    }
    node->str = p->cur.text;
    if (fy_tp_expect_kind(p, FY_TOK_NAME) != 0 ||
        (fy_tp_is(p, "(") ? parse_args(p, &node->args) : parse_bare_arg(p, node)) != 0)
        return NULL;
    node->a = object;
    node = fy_tp_built(p, node);
    if (negated == NULL || node == NULL)
        return node;
    negated->a = node;
    return fy_tp_built(p, negated);
}

static fy_node *parse_unary(fy_tparser *p, bool with_filter)
{
    fy_node *node;
    bool minus = fy_tp_is(p, "-");
    if (minus || fy_tp_is(p, "+")) {
        node = fy_tp_node(p, FY_N_UNARY, &p->cur);
        if (node == NULL || fy_tp_enter(p) != 0 || fy_tp_next(p) != 0)
            return NULL;
        node->op = minus ? FY_OP_NEG : FY_OP_POS;
        node->a = parse_unary(p, false);
        p->depth--;
        node = node->a != NULL ? fy_tp_built(p, node) : NULL;
    } else {
        node = parse_primary(p, false);
    }
    node = parse_postfix(p, node);
    while (node != NULL && with_filter) {
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

/* 1: the name is that of a constant. */
static int constant_of(const fy_tok *name, fy_tv *out)
{
    bool yes = fy_tok_is(name, "true") || fy_tok_is(name, "True");
    if (fy_tok_is(name, "none") || fy_tok_is(name, "None"))
        *out = fy_tv_none();
    else if (yes || fy_tok_is(name, "false") || fy_tok_is(name, "False"))
        *out = fy_tv_bool(yes);
    else
        return 0;
    return 1;
}

static fy_node *parse_name(fy_tparser *p, bool with_attributes)
{
    fy_tok name = p->cur;
    fy_node *node = fy_tp_node(p, FY_N_NAME, &name);
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    if (constant_of(&name, &node->value)) {
        node->kind = FY_N_CONST;
        return fy_tp_built(p, node);
    }
    if (fy_tp_intern(p, name.text, &node->symbol) != 0 || fy_tp_built(p, node) == NULL)
        return NULL;
    if (!with_attributes || !fy_tp_is(p, "."))
        return node;
    fy_node *attribute = fy_tp_node(p, FY_N_GETATTR, &name);
    if (attribute == NULL || fy_tp_next(p) != 0)
        return NULL;
    attribute->a = node;
    attribute->str = p->cur.text;
    attribute->flag = true; /* one in parentheses cannot be a target */
    return fy_tp_expect_kind(p, FY_TOK_NAME) == 0 ? fy_tp_built(p, attribute) : NULL;
}

/* A literal; strings that follow each other are one. */
static fy_node *parse_literal(fy_tparser *p)
{
    fy_node *node = fy_tp_node(p, FY_N_CONST, &p->cur);
    bool string = p->cur.kind == FY_TOK_STRING;
    if (node == NULL)
        return NULL;
    node->value = p->cur.value;
    if (fy_tp_next(p) != 0)
        return NULL;
    fy_str joined = {0};
    int rc = 0;
    while (rc == 0 && string && p->cur.kind == FY_TOK_STRING) {
        if (joined.len == 0)
            fy_str_add(&joined, node->value.str.ptr, node->value.str.len);
        fy_str_add(&joined, p->cur.value.str.ptr, p->cur.value.str.len);
        rc = fy_tp_next(p);
    }
    if (rc == 0 && joined.len > 0) {
        char *copy = fy_arena_strndup(&p->t->arena, joined.ptr, joined.len);
        node->value.str = (fy_span){copy, joined.len};
        rc = copy != NULL ? 0 : fy_nomem(p->e);
    }
    if (joined.oom)
        rc = fy_nomem(p->e);
    fy_str_release(&joined);
    return rc == 0 ? fy_tp_built(p, node) : NULL;
}

/* [a, b] or {a: b, c: d}; a comma may end it. */
static fy_node *parse_display(fy_tparser *p, fy_node_kind kind, const char *close)
{
    fy_node *node = fy_tp_node(p, kind, &p->cur);
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    while (!fy_tp_is(p, close)) {
        if (node->kids.n > 0 && fy_tp_expect(p, ",") != 0)
            return NULL;
        if (node->kids.n > 0 && fy_tp_is(p, close))
            break;
        if (fy_tp_add(p, &node->kids, fy_tp_expression(p, true)) != 0)
            return NULL;
        if (kind == FY_N_DICT && (fy_tp_expect(p, ":") != 0 ||
                                  fy_tp_add(p, &node->kids, fy_tp_expression(p, true)) != 0))
            return NULL;
    }
    return fy_tp_next(p) == 0 ? fy_tp_built(p, node) : NULL;
}

static fy_node *parse_tuple(fy_tparser *p, bool with_condition, bool target, bool with_attributes,
                            bool in_parentheses)
{
    fy_tok at = p->cur;
    fy_nodes kids = {0};
    bool is_tuple = false;
    int rc = 0;
    for (;;) {
        if (p->cur.kind == FY_TOK_VAR_END || p->cur.kind == FY_TOK_BLOCK_END || fy_tp_is(p, ")"))
            break;
        if (fy_tp_add(p, &kids,
                      target ? parse_primary(p, with_attributes)
                             : fy_tp_expression(p, with_condition)) != 0)
            return NULL;
        at = p->cur;
        if ((rc = fy_tp_skip(p, ",")) != 1)
            break;
        is_tuple = true;
    }
    if (rc < 0)
        return NULL;
    if (!is_tuple && kids.n > 0)
        return kids.item[0];
    if (!is_tuple && !in_parentheses) {
        char text[FY_TOK_TEXT];
        fy_tp_fail(p, &p->cur, "Expected an expression, got '%s'", fy_tok_text(&p->cur, text));
        return NULL;
    }
    fy_node *node = fy_tp_node(p, FY_N_TUPLE, &at);
    if (node != NULL)
        node->kids = kids;
    return fy_tp_built(p, node);
}

fy_node *fy_tp_tuple(fy_tparser *p, bool with_condition)
{
    return parse_tuple(p, with_condition, false, false, false);
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
    if (fy_tp_is(p, "(")) {
        fy_node *node = fy_tp_next(p) != 0 ? NULL : parse_tuple(p, true, false, false, true);
        return node != NULL && fy_tp_expect(p, ")") == 0 ? node : NULL;
    }
    fy_tp_fail(p, &p->cur, "unexpected '%s'", fy_tok_text(&p->cur, text));
    return NULL;
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
    fy_node *node = parse_tuple(p, true, true, with_attributes, false);
    if (node == NULL || is_target(node))
        return node;
    fy_tp_fail(p, &at, "can't assign to this: expected a name, or several with commas between");
    return NULL;
}

int fy_tp_target_name(fy_tparser *p, fy_span *name)
{
    fy_tok at = p->cur;
    fy_tv value;
    *name = at.text;
    if (fy_tp_expect_kind(p, FY_TOK_NAME) != 0)
        return -1;
    return constant_of(&at, &value) ? fy_tp_fail(p, &at, "can't assign to 'name'") : 0;
}
