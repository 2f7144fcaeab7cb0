#include <string.h>

#include "model/template/template_parse.h"

/* Operators of one precedence, all grouping to the left, over operands of the next one. */
typedef struct {
    fy_tok_kind token;
    fy_tword word; /* of a NAME */
    fy_node_kind kind;
    fy_op op;
} infix;

static fy_node *parse_primary(fy_tparser *p, int flags);
static fy_node *parse_unary(fy_tparser *p, bool with_filter);

static const infix *find_infix(const fy_tok *tok, const infix *table, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tok->kind == table[i].token && (tok->kind != FY_TOK_NAME || tok->word == table[i].word))
            return &table[i];
    }
    return NULL;
}

static fy_node *parse_infix(fy_tparser *p, const infix *table, size_t n,
                            fy_node *(*operand)(fy_tparser *p))
{
    fy_tok at = p->cur;
    fy_node *left = operand(p);
    const infix *found;
    while (left != NULL && (found = find_infix(&p->cur, table, n)) != NULL) {
        fy_node *node = fy_tp_node(p, found->kind, &at);
        if (node == NULL || fy_tp_next(p) != 0)
            return NULL;
        node->op = found->op;
        node->a = left;
        node->b = operand(p);
        left = node->b != NULL ? fy_tp_built(p, node) : NULL;
        at = p->cur;
    }
    return left;
}

static fy_node *parse_signed(fy_tparser *p)
{
    return parse_unary(p, true);
}

static fy_node *parse_pow(fy_tparser *p)
{
    static const infix table[] = {{FY_TOK_POW, FY_W_NONE, FY_N_BINARY, FY_OP_POW}};
    return parse_infix(p, table, 1, parse_signed);
}

static fy_node *parse_product(fy_tparser *p)
{
    static const infix table[] = {
        {FY_TOK_MUL, FY_W_NONE, FY_N_BINARY, FY_OP_MUL},
        {FY_TOK_DIV, FY_W_NONE, FY_N_BINARY, FY_OP_DIV},
        {FY_TOK_FLOORDIV, FY_W_NONE, FY_N_BINARY, FY_OP_FLOORDIV},
        {FY_TOK_MOD, FY_W_NONE, FY_N_BINARY, FY_OP_MOD},
    };
    return parse_infix(p, table, sizeof table / sizeof *table, parse_pow);
}

static fy_node *parse_concat(fy_tparser *p)
{
    fy_tok at = p->cur;
    size_t mark = p->n_stack;
    fy_node *first = parse_product(p);
    if (first == NULL || !fy_tp_is(p, FY_TOK_TILDE))
        return first;
    fy_node *node = fy_tp_node(p, FY_N_CONCAT, &at);
    if (node == NULL || fy_tp_push(p, first) != 0)
        return NULL;
    while (fy_tp_is(p, FY_TOK_TILDE)) {
        if (fy_tp_next(p) != 0 || fy_tp_push(p, parse_product(p)) != 0)
            return NULL;
    }
    return fy_tp_take(p, mark, &node->kids) == 0 ? fy_tp_built(p, node) : NULL;
}

static fy_node *parse_sum(fy_tparser *p)
{
    static const infix table[] = {
        {FY_TOK_ADD, FY_W_NONE, FY_N_BINARY, FY_OP_ADD},
        {FY_TOK_SUB, FY_W_NONE, FY_N_BINARY, FY_OP_SUB},
    };
    return parse_infix(p, table, sizeof table / sizeof *table, parse_concat);
}

/* The comparison that begins at the current token, skipped; FY_OP_NONE: none. -1 on error. */
static int skip_comparison(fy_tparser *p, fy_op *op)
{
    static const infix table[] = {
        {FY_TOK_EQ, FY_W_NONE, FY_N_COMPARE, FY_OP_EQ},
        {FY_TOK_NE, FY_W_NONE, FY_N_COMPARE, FY_OP_NE},
        {FY_TOK_LT, FY_W_NONE, FY_N_COMPARE, FY_OP_LT},
        {FY_TOK_LE, FY_W_NONE, FY_N_COMPARE, FY_OP_LE},
        {FY_TOK_GT, FY_W_NONE, FY_N_COMPARE, FY_OP_GT},
        {FY_TOK_GE, FY_W_NONE, FY_N_COMPARE, FY_OP_GE},
        {FY_TOK_NAME, FY_W_IN, FY_N_COMPARE, FY_OP_IN},
    };
    const infix *found = find_infix(&p->cur, table, sizeof table / sizeof *table);
    *op = found != NULL ? found->op : FY_OP_NONE;
    if (found != NULL)
        return fy_tp_next(p);
    if (!fy_tp_is_word(p, FY_W_NOT))
        return 0;
    if (fy_tp_look(p) != 0)
        return -1;
    if (p->ahead.kind != FY_TOK_NAME || p->ahead.word != FY_W_IN)
        return 0;
    *op = FY_OP_NOT_IN;
    return fy_tp_next(p) != 0 ? -1 : fy_tp_next(p);
}

static fy_node *parse_compare(fy_tparser *p)
{
    fy_tok at = p->cur;
    size_t mark = p->n_stack, ops_mark = p->n_ops;
    fy_node *first = parse_sum(p);
    fy_op op;
    if (first == NULL || skip_comparison(p, &op) != 0)
        return NULL;
    if (op == FY_OP_NONE)
        return first;
    fy_node *node = fy_tp_node(p, FY_N_COMPARE, &at);
    if (node == NULL)
        return NULL;
    node->a = first;
    while (op != FY_OP_NONE) {
        if (fy_tp_push_op(p, op) != 0 || fy_tp_push(p, parse_sum(p)) != 0 ||
            skip_comparison(p, &op) != 0)
            return NULL;
    }
    if (fy_tp_take(p, mark, &node->kids) != 0)
        return NULL;
    node->ops = fy_arena_calloc(&p->t->arena, node->kids.n, sizeof *node->ops);
    if (node->ops == NULL)
        return fy_nomem(p->e), NULL;
    memcpy(node->ops, p->ops + ops_mark, node->kids.n * sizeof *node->ops);
    p->n_ops = ops_mark;
    return fy_tp_built(p, node);
}

static fy_node *parse_not(fy_tparser *p)
{
    if (!fy_tp_is_word(p, FY_W_NOT))
        return parse_compare(p);
    fy_node *node = fy_tp_node(p, FY_N_UNARY, &p->cur);
    if (node == NULL || fy_tp_enter(p) != 0 || fy_tp_next(p) != 0)
        return NULL;
    node->op = FY_OP_NOT;
    node->a = parse_not(p);
    p->depth--;
    return node->a != NULL ? fy_tp_built(p, node) : NULL;
}

static fy_node *parse_and(fy_tparser *p)
{
    static const infix table[] = {{FY_TOK_NAME, FY_W_AND, FY_N_AND, FY_OP_NONE}};
    return parse_infix(p, table, 1, parse_not);
}

static fy_node *parse_or(fy_tparser *p)
{
    static const infix table[] = {{FY_TOK_NAME, FY_W_OR, FY_N_OR, FY_OP_NONE}};
    return parse_infix(p, table, 1, parse_and);
}

static fy_node *parse_condition(fy_tparser *p)
{
    fy_tok at = p->cur;
    fy_node *left = parse_or(p);
    int rc = 0;
    while (left != NULL && (rc = fy_tp_skip_word(p, FY_W_IF)) == 1) {
        fy_node *node = fy_tp_node(p, FY_N_COND, &at);
        if (node == NULL)
            return NULL;
        node->a = left;
        node->b = parse_or(p);
        if (node->b == NULL || (rc = fy_tp_skip_word(p, FY_W_ELSE)) < 0)
            return NULL;
        if (rc == 1 && (node->c = fy_tp_expression(p)) == NULL)
            return NULL;
        left = fy_tp_built(p, node);
        at = p->cur;
    }
    return rc == 0 ? left : NULL;
}

static fy_node *parse_expression(fy_tparser *p, bool with_condition)
{
    if (fy_tp_enter(p) != 0)
        return NULL;
    fy_node *node = with_condition ? parse_condition(p) : parse_or(p);
    p->depth--;
    return node;
}

fy_node *fy_tp_expression(fy_tparser *p)
{
    return parse_expression(p, true);
}

/* --- calls, subscripts, filters, tests -------------------------------------------------------- */

typedef struct {
    size_t mark, keys_mark; /* of the parser's stacks */
    size_t n_args;
    fy_node *star, *dstar;
} call_args;

static int parse_star(fy_tparser *p, fy_node **out)
{
    if (fy_tp_next(p) != 0)
        return -1;
    *out = fy_tp_expression(p);
    return *out != NULL ? 0 : -1;
}

/* One argument. *allowed is false where Python would not have it. */
static int parse_arg(fy_tparser *p, call_args *c, bool *allowed)
{
    bool named = p->n_keys > c->keys_mark;
    if (fy_tp_is(p, FY_TOK_MUL)) {
        *allowed = c->star == NULL && c->dstar == NULL;
        return *allowed ? parse_star(p, &c->star) : 0;
    }
    if (fy_tp_is(p, FY_TOK_POW)) {
        *allowed = c->dstar == NULL;
        return *allowed ? parse_star(p, &c->dstar) : 0;
    }
    if (fy_tp_is(p, FY_TOK_NAME)) {
        if (fy_tp_look(p) != 0)
            return -1;
        if (p->ahead.kind == FY_TOK_ASSIGN) {
            *allowed = c->dstar == NULL;
            if (!*allowed)
                return 0;
            if (fy_tp_push_key(p, p->cur.text) != 0 || fy_tp_next(p) != 0 || fy_tp_next(p) != 0)
                return -1;
            return fy_tp_push(p, fy_tp_expression(p));
        }
    }
    *allowed = c->star == NULL && c->dstar == NULL && !named;
    c->n_args++;
    return *allowed ? fy_tp_push(p, fy_tp_expression(p)) : 0;
}

/* Moves the arguments from the stacks to the arena; NULL in *out when there is none. */
static int take_args(fy_tparser *p, const call_args *c, fy_node_args **out)
{
    fy_arena *arena = &p->t->arena;
    size_t n_keys = p->n_keys - c->keys_mark;
    *out = NULL;
    if (c->n_args == 0 && n_keys == 0 && c->star == NULL && c->dstar == NULL)
        return 0;
    fy_node_args *args = fy_arena_calloc(arena, 1, sizeof *args);
    if (args == NULL)
        return fy_nomem(p->e);
    args->star = c->star;
    args->dstar = c->dstar;
    if (fy_tp_take(p, c->mark + c->n_args, &args->values) != 0 ||
        fy_tp_take(p, c->mark, &args->args) != 0)
        return -1;
    if (n_keys > 0) {
        args->names = fy_arena_calloc(arena, n_keys, sizeof *args->names);
        if (args->names == NULL)
            return fy_nomem(p->e);
        memcpy(args->names, p->keys + c->keys_mark, n_keys * sizeof *args->names);
        p->n_keys = c->keys_mark;
    }
    *out = args;
    return 0;
}

static int parse_call_args(fy_tparser *p, fy_node_args **out)
{
    call_args c = {.mark = p->n_stack, .keys_mark = p->n_keys};
    fy_tok open = p->cur;
    if (fy_tp_expect(p, FY_TOK_LPAREN) != 0)
        return -1;
    for (bool first = true; !fy_tp_is(p, FY_TOK_RPAREN); first = false) {
        if (!first) {
            if (fy_tp_expect(p, FY_TOK_COMMA) != 0)
                return -1;
            if (fy_tp_is(p, FY_TOK_RPAREN))
                break;
        }
        bool allowed;
        if (parse_arg(p, &c, &allowed) != 0)
            return -1;
        if (!allowed)
            return fy_tp_fail(p, &open, "invalid syntax for function call expression");
    }
    return fy_tp_expect(p, FY_TOK_RPAREN) != 0 ? -1 : take_args(p, &c, out);
}

static fy_node *parse_call(fy_tparser *p, fy_node *callee)
{
    fy_node *node = fy_tp_node(p, FY_N_CALL, &p->cur);
    if (node == NULL || parse_call_args(p, &node->args) != 0)
        return NULL;
    node->a = callee;
    return fy_tp_built(p, node);
}

static bool ends_subscript(const fy_tparser *p)
{
    return fy_tp_is(p, FY_TOK_RBRACKET) || fy_tp_is(p, FY_TOK_COMMA);
}

/* One of the parts of a subscript: an expression or a slice. */
static fy_node *parse_subscribed(fy_tparser *p)
{
    fy_tok at = p->cur;
    fy_node *start = NULL;
    if (!fy_tp_is(p, FY_TOK_COLON)) {
        start = fy_tp_expression(p);
        if (start == NULL || !fy_tp_is(p, FY_TOK_COLON))
            return start;
    }
    fy_node *node = fy_tp_node(p, FY_N_SLICE, &at);
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    node->a = start;
    if (!fy_tp_is(p, FY_TOK_COLON) && !ends_subscript(p) && (node->b = fy_tp_expression(p)) == NULL)
        return NULL;
    int rc = fy_tp_skip_kind(p, FY_TOK_COLON);
    if (rc < 0 || (rc == 1 && !ends_subscript(p) && (node->c = fy_tp_expression(p)) == NULL))
        return NULL;
    return fy_tp_built(p, node);
}

static fy_node *parse_brackets(fy_tparser *p, fy_node *node, const fy_tok *at)
{
    size_t mark = p->n_stack;
    while (!fy_tp_is(p, FY_TOK_RBRACKET)) {
        if (p->n_stack > mark && fy_tp_expect(p, FY_TOK_COMMA) != 0)
            return NULL;
        if (fy_tp_push(p, parse_subscribed(p)) != 0)
            return NULL;
    }
    if (fy_tp_expect(p, FY_TOK_RBRACKET) != 0)
        return NULL;
    if (p->n_stack - mark == 1) {
        node->b = p->stack[--p->n_stack];
        return fy_tp_built(p, node);
    }
    fy_node *tuple = fy_tp_node(p, FY_N_TUPLE, at);
    if (tuple == NULL || fy_tp_take(p, mark, &tuple->kids) != 0)
        return NULL;
    node->b = fy_tp_built(p, tuple);
    return node->b != NULL ? fy_tp_built(p, node) : NULL;
}

static fy_node *parse_subscript(fy_tparser *p, fy_node *object)
{
    fy_tok at = p->cur;
    fy_node *node = fy_tp_node(p, FY_N_GETITEM, &at);
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    node->a = object;
    if (at.kind == FY_TOK_LBRACKET)
        return parse_brackets(p, node, &at);
    fy_tok name = p->cur;
    if (fy_tp_next(p) != 0)
        return NULL;
    if (name.kind == FY_TOK_NAME) {
        node->kind = FY_N_GETATTR;
        node->str = name.text;
    } else if (name.kind == FY_TOK_INTEGER) {
        node->b = fy_tp_node(p, FY_N_CONST, &name);
        if (node->b == NULL)
            return NULL;
        node->b->value = name.value;
    } else {
        fy_tp_fail(p, &name, "expected name or number");
        return NULL;
    }
    return fy_tp_built(p, node);
}

static fy_node *parse_postfix(fy_tparser *p, fy_node *node)
{
    for (; node != NULL;) {
        if (fy_tp_is(p, FY_TOK_DOT) || fy_tp_is(p, FY_TOK_LBRACKET))
            node = parse_subscript(p, node);
        else if (fy_tp_is(p, FY_TOK_LPAREN))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* The name of a filter or test, which may hold dots. */
static int parse_dotted(fy_tparser *p, fy_span *out)
{
    *out = p->cur.text;
    if (fy_tp_expect(p, FY_TOK_NAME) != 0)
        return -1;
    if (!fy_tp_is(p, FY_TOK_DOT))
        return 0;
    fy_str_clear(&p->scratch);
    fy_str_add(&p->scratch, out->ptr, out->len);
    while (fy_tp_is(p, FY_TOK_DOT)) {
        if (fy_tp_next(p) != 0)
            return -1;
        fy_str_putc(&p->scratch, '.');
        fy_str_add(&p->scratch, p->cur.text.ptr, p->cur.text.len);
        if (fy_tp_expect(p, FY_TOK_NAME) != 0)
            return -1;
    }
    char *copy =
        p->scratch.oom ? NULL : fy_arena_strndup(&p->t->arena, p->scratch.ptr, p->scratch.len);
    *out = (fy_span){copy, p->scratch.len};
    return copy != NULL ? 0 : fy_nomem(p->e);
}

fy_node *fy_tp_filters(fy_tparser *p, fy_node *n, bool is_inline)
{
    while (is_inline || fy_tp_is(p, FY_TOK_PIPE)) {
        if (!is_inline && fy_tp_next(p) != 0)
            return NULL;
        is_inline = false;
        fy_node *node = fy_tp_node(p, FY_N_FILTER, &p->cur);
        if (node == NULL || parse_dotted(p, &node->str) != 0)
            return NULL;
        if (fy_tp_is(p, FY_TOK_LPAREN) && parse_call_args(p, &node->args) != 0)
            return NULL;
        node->a = n;
        n = fy_tp_built(p, node);
        if (n == NULL)
            return NULL;
    }
    return n;
}

/* The argument of a test without parentheses: `is divisibleby 3`. */
static int parse_bare_arg(fy_tparser *p, fy_node *test)
{
    switch ((int)p->cur.kind) {
    case FY_TOK_NAME:
        if (p->cur.word == FY_W_ELSE || p->cur.word == FY_W_OR || p->cur.word == FY_W_AND)
            return 0;
        if (p->cur.word == FY_W_IS)
            return fy_tp_fail(p, &p->cur, "You cannot chain multiple tests with is");
        break;
    case FY_TOK_STRING:
    case FY_TOK_INTEGER:
    case FY_TOK_FLOAT:
    case FY_TOK_LBRACKET:
    case FY_TOK_LBRACE:
        break;
    default:
        return 0;
    }
    call_args c = {.mark = p->n_stack, .keys_mark = p->n_keys, .n_args = 1};
    fy_node *arg = parse_primary(p, 0);
    if (arg == NULL || fy_tp_push(p, parse_postfix(p, arg)) != 0)
        return -1;
    return take_args(p, &c, &test->args);
}

static fy_node *parse_test(fy_tparser *p, fy_node *object)
{
    fy_tok at = p->cur;
    fy_node *node = fy_tp_node(p, FY_N_TEST, &at), *negated = NULL;
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    if (fy_tp_is_word(p, FY_W_NOT)) {
        negated = fy_tp_node(p, FY_N_UNARY, &at);
        if (negated == NULL || fy_tp_next(p) != 0)
            return NULL;
        negated->op = FY_OP_NOT;
    }
    if (parse_dotted(p, &node->str) != 0)
        return NULL;
    if ((fy_tp_is(p, FY_TOK_LPAREN) ? parse_call_args(p, &node->args) : parse_bare_arg(p, node)) !=
        0)
        return NULL;
    node->a = object;
    node = fy_tp_built(p, node);
    if (negated == NULL || node == NULL)
        return node;
    negated->a = node;
    return fy_tp_built(p, negated);
}

static fy_node *parse_filters_and_tests(fy_tparser *p, fy_node *node)
{
    while (node != NULL) {
        if (fy_tp_is(p, FY_TOK_PIPE))
            node = fy_tp_filters(p, node, false);
        else if (fy_tp_is_word(p, FY_W_IS))
            node = parse_test(p, node);
        else if (fy_tp_is(p, FY_TOK_LPAREN))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

static fy_node *parse_unary(fy_tparser *p, bool with_filter)
{
    fy_node *node;
    if (fy_tp_is(p, FY_TOK_SUB) || fy_tp_is(p, FY_TOK_ADD)) {
        node = fy_tp_node(p, FY_N_UNARY, &p->cur);
        if (node == NULL || fy_tp_enter(p) != 0)
            return NULL;
        node->op = fy_tp_is(p, FY_TOK_SUB) ? FY_OP_NEG : FY_OP_POS;
        if (fy_tp_next(p) != 0)
            return NULL;
        node->a = parse_unary(p, false);
        p->depth--;
        node = node->a != NULL ? fy_tp_built(p, node) : NULL;
    } else {
        node = parse_primary(p, 0);
    }
    if (node != NULL)
        node = parse_postfix(p, node);
    return node != NULL && with_filter ? parse_filters_and_tests(p, node) : node;
}

/* --- literals, names, tuples ------------------------------------------------------------------ */

static fy_node *parse_name(fy_tparser *p, int flags)
{
    fy_tok name = p->cur;
    if (fy_tp_next(p) != 0)
        return NULL;
    bool is_true = name.word == FY_W_TRUE || name.word == FY_W_TRUE_UPPER;
    bool is_false = name.word == FY_W_FALSE || name.word == FY_W_FALSE_UPPER;
    bool is_none = name.word == FY_W_NONE_LOWER || name.word == FY_W_NONE_UPPER;
    fy_node *node = fy_tp_node(p, is_true || is_false || is_none ? FY_N_CONST : FY_N_NAME, &name);
    if (node == NULL)
        return NULL;
    if (node->kind == FY_N_CONST) {
        node->value = is_none ? fy_tv_none() : fy_tv_bool(is_true);
        return fy_tp_built(p, node);
    }
    if (fy_tp_intern(p, name.text, &node->symbol) != 0)
        return NULL;
    if ((flags & FY_TP_TUPLE_NAMESPACE) == 0 || !fy_tp_is(p, FY_TOK_DOT))
        return fy_tp_built(p, node);
    fy_node *attribute = fy_tp_node(p, FY_N_GETATTR, &name);
    if (attribute == NULL || fy_tp_next(p) != 0)
        return NULL;
    attribute->a = node;
    attribute->str = p->cur.text;
    attribute->flag = true; /* tells it from one in parentheses, which is no target */
    return fy_tp_expect(p, FY_TOK_NAME) == 0 ? fy_tp_built(p, attribute) : NULL;
}

/* Strings that follow each other are one. */
static fy_node *parse_string(fy_tparser *p)
{
    fy_node *node = fy_tp_node(p, FY_N_CONST, &p->cur);
    if (node == NULL)
        return NULL;
    node->value = p->cur.value;
    if (fy_tp_next(p) != 0)
        return NULL;
    if (!fy_tp_is(p, FY_TOK_STRING))
        return fy_tp_built(p, node);
    fy_str_clear(&p->scratch);
    fy_str_add(&p->scratch, node->value.str.ptr, node->value.str.len);
    while (fy_tp_is(p, FY_TOK_STRING)) {
        fy_str_add(&p->scratch, p->cur.value.str.ptr, p->cur.value.str.len);
        if (fy_tp_next(p) != 0)
            return NULL;
    }
    char *copy = p->scratch.oom
                     ? NULL
                     : fy_arena_strndup(&p->t->arena, fy_str_z(&p->scratch), p->scratch.len);
    if (copy == NULL)
        return fy_nomem(p->e), NULL;
    node->value = fy_tv_view((fy_span){copy, p->scratch.len});
    return fy_tp_built(p, node);
}

static fy_node *parse_list(fy_tparser *p)
{
    size_t mark = p->n_stack;
    fy_node *node = fy_tp_node(p, FY_N_LIST, &p->cur);
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    while (!fy_tp_is(p, FY_TOK_RBRACKET)) {
        if (p->n_stack > mark && fy_tp_expect(p, FY_TOK_COMMA) != 0)
            return NULL;
        if (fy_tp_is(p, FY_TOK_RBRACKET))
            break;
        if (fy_tp_push(p, fy_tp_expression(p)) != 0)
            return NULL;
    }
    if (fy_tp_expect(p, FY_TOK_RBRACKET) != 0 || fy_tp_take(p, mark, &node->kids) != 0)
        return NULL;
    return fy_tp_built(p, node);
}

static fy_node *parse_dict(fy_tparser *p)
{
    size_t mark = p->n_stack;
    fy_node *node = fy_tp_node(p, FY_N_DICT, &p->cur);
    if (node == NULL || fy_tp_next(p) != 0)
        return NULL;
    while (!fy_tp_is(p, FY_TOK_RBRACE)) {
        if (p->n_stack > mark && fy_tp_expect(p, FY_TOK_COMMA) != 0)
            return NULL;
        if (fy_tp_is(p, FY_TOK_RBRACE))
            break;
        if (fy_tp_push(p, fy_tp_expression(p)) != 0 || fy_tp_expect(p, FY_TOK_COLON) != 0 ||
            fy_tp_push(p, fy_tp_expression(p)) != 0)
            return NULL;
    }
    if (fy_tp_expect(p, FY_TOK_RBRACE) != 0 || fy_tp_take(p, mark, &node->kids) != 0)
        return NULL;
    return fy_tp_built(p, node);
}

static fy_node *parse_parentheses(fy_tparser *p)
{
    if (fy_tp_next(p) != 0)
        return NULL;
    fy_node *node = fy_tp_tuple_expr(p, FY_TP_TUPLE_EMPTY);
    return node != NULL && fy_tp_expect(p, FY_TOK_RPAREN) == 0 ? node : NULL;
}

static fy_node *parse_primary(fy_tparser *p, int flags)
{
    fy_node *node;
    char text[FY_TOK_TEXT];
    switch ((int)p->cur.kind) {
    case FY_TOK_NAME:
        return parse_name(p, flags);
    case FY_TOK_STRING:
        return parse_string(p);
    case FY_TOK_INTEGER:
    case FY_TOK_FLOAT:
        node = fy_tp_node(p, FY_N_CONST, &p->cur);
        if (node == NULL)
            return NULL;
        node->value = p->cur.value;
        return fy_tp_next(p) == 0 ? fy_tp_built(p, node) : NULL;
    case FY_TOK_LPAREN:
        return parse_parentheses(p);
    case FY_TOK_LBRACKET:
        return parse_list(p);
    case FY_TOK_LBRACE:
        return parse_dict(p);
    default:
        fy_tp_fail(p, &p->cur, "unexpected '%s'", fy_tok_text(&p->cur, text));
        return NULL;
    }
}

static bool ends_tuple(const fy_tparser *p)
{
    return fy_tp_is(p, FY_TOK_VAR_END) || fy_tp_is(p, FY_TOK_BLOCK_END) ||
           fy_tp_is(p, FY_TOK_RPAREN);
}

fy_node *fy_tp_tuple_expr(fy_tparser *p, int flags)
{
    size_t mark = p->n_stack;
    fy_tok at = p->cur;
    bool is_tuple = false;
    for (;;) {
        if (p->n_stack > mark && fy_tp_expect(p, FY_TOK_COMMA) != 0)
            return NULL;
        if (ends_tuple(p))
            break;
        if (fy_tp_push(p, (flags & FY_TP_TUPLE_TARGET) != 0
                              ? parse_primary(p, flags)
                              : parse_expression(p, (flags & FY_TP_TUPLE_NO_COND) == 0)) != 0)
            return NULL;
        if (!fy_tp_is(p, FY_TOK_COMMA))
            break;
        is_tuple = true;
        at = p->cur;
    }
    if (!is_tuple && p->n_stack > mark)
        return p->stack[--p->n_stack];
    if (!is_tuple && (flags & FY_TP_TUPLE_EMPTY) == 0) {
        char text[FY_TOK_TEXT];
        fy_tp_fail(p, &p->cur, "Expected an expression, got '%s'", fy_tok_text(&p->cur, text));
        return NULL;
    }
    fy_node *node = fy_tp_node(p, FY_N_TUPLE, &at);
    return node != NULL && fy_tp_take(p, mark, &node->kids) == 0 ? fy_tp_built(p, node) : NULL;
}

/* --- targets of assignments ------------------------------------------------------------------- */

static bool is_target(const fy_node *n)
{
    if (n->kind == FY_N_TUPLE) {
        for (uint32_t i = 0; i < n->kids.n; i++) {
            if (!is_target(n->kids.item[i]))
                return false;
        }
        return true;
    }
    return n->kind == FY_N_NAME || (n->kind == FY_N_GETATTR && n->flag);
}

/* jinja2's name of what stands where a target should. */
static const char *node_text(const fy_node *n)
{
    static const char *const kinds[] = {
        [FY_N_CONST] = "const",     [FY_N_NAME] = "name",       [FY_N_LIST] = "list",
        [FY_N_TUPLE] = "tuple",     [FY_N_DICT] = "dict",       [FY_N_GETATTR] = "getattr",
        [FY_N_GETITEM] = "getitem", [FY_N_CALL] = "call",       [FY_N_FILTER] = "filter",
        [FY_N_TEST] = "test",       [FY_N_CONCAT] = "concat",   [FY_N_AND] = "and",
        [FY_N_OR] = "or",           [FY_N_COMPARE] = "compare", [FY_N_COND] = "condexpr",
        [FY_N_TEXT] = NULL,
    };
    static const char *const ops[] = {
        [FY_OP_NEG] = "neg", [FY_OP_POS] = "pos",           [FY_OP_NOT] = "not",
        [FY_OP_ADD] = "add", [FY_OP_SUB] = "sub",           [FY_OP_MUL] = "mul",
        [FY_OP_DIV] = "div", [FY_OP_FLOORDIV] = "floordiv", [FY_OP_MOD] = "mod",
        [FY_OP_POW] = "pow",
    };
    return n->kind == FY_N_UNARY || n->kind == FY_N_BINARY ? ops[n->op] : kinds[n->kind];
}

fy_node *fy_tp_target(fy_tparser *p, int flags)
{
    fy_node *node = fy_tp_tuple_expr(p, flags | FY_TP_TUPLE_TARGET);
    if (node == NULL || is_target(node))
        return node;
    fy_tok at = {.line = node->line, .column = node->column};
    fy_tp_fail(p, &at, "can't assign to '%s'", node_text(node));
    return NULL;
}

int fy_tp_target_name(fy_tparser *p, fy_span *name)
{
    fy_tok at = p->cur;
    if (fy_tp_expect(p, FY_TOK_NAME) != 0)
        return -1;
    *name = at.text;
    switch ((int)at.word) {
    case FY_W_TRUE:
    case FY_W_TRUE_UPPER:
    case FY_W_FALSE:
    case FY_W_FALSE_UPPER:
    case FY_W_NONE_LOWER:
    case FY_W_NONE_UPPER:
        return fy_tp_fail(p, &at, "can't assign to 'name'");
    default:
        return 0;
    }
}
