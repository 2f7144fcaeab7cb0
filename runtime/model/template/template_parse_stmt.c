#include <string.h>

#include "base/str.h"
#include "model/template/template_parse.h"

/* --- messages about tags ---------------------------------------------------------------------- */

static bool is_expected(const fy_tparser *p, fy_tword word)
{
    for (const fy_topen *o = p->bodies; o != NULL && word != FY_W_NONE; o = o->outer) {
        for (const fy_tword *w = o->ends; *w != FY_W_NONE; w++) {
            if (*w == word)
                return true;
        }
    }
    return false;
}

/* At a tag that nothing knows here, or (unknown NULL) at the end of the template. */
static int fail_tag(fy_tparser *p, const fy_tok *unknown, const fy_tword *ends)
{
    char tag[FY_QUOTE_BYTES];
    fy_str s = {0};
    if (unknown == NULL)
        fy_str_puts(&s, "Unexpected end of template.");
    else
        fy_str_printf(&s, "Encountered unknown tag '%s'.",
                      fy_quote(tag, sizeof tag, unknown->text));
    if (ends != NULL) {
        fy_str_puts(&s, unknown != NULL && is_expected(p, unknown->word)
                            ? " You probably made a nesting mistake. Jinja is expecting this tag, "
                              "but currently looking for"
                            : " Jinja was looking for the following tags:");
        for (const fy_tword *w = ends; *w != FY_W_NONE; w++)
            fy_str_printf(&s, "%s '%s'", w == ends ? "" : " or", fy_tword_text(*w));
        fy_str_putc(&s, '.');
    }
    if (p->tags != NULL)
        fy_str_printf(&s, " The innermost block that needs to be closed is '%s'.",
                      fy_quote(tag, sizeof tag, p->tags->tag));
    fy_tp_fail(p, unknown != NULL ? unknown : &p->cur, "%s", fy_str_z(&s));
    fy_str_release(&s);
    return -1;
}

/* --- bodies ----------------------------------------------------------------------------------- */

/* The rest of a tag, then the statement's body up to one of `ends`, whose name is left as the
 * current token. */
static int parse_body(fy_tparser *p, const fy_tword *ends, fy_nodes *out)
{
    if (fy_tp_skip_kind(p, FY_TOK_COLON) < 0 || fy_tp_expect(p, FY_TOK_BLOCK_END) != 0 ||
        fy_tp_body(p, ends, out) != 0)
        return -1;
    return fy_tp_is(p, FY_TOK_EOF) ? fail_tag(p, NULL, ends) : 0;
}

/* The same for a body with one possible end, which is skipped. */
static int parse_whole_body(fy_tparser *p, fy_tword end, fy_nodes *out)
{
    const fy_tword ends[] = {end, FY_W_NONE};
    return parse_body(p, ends, out) == 0 ? fy_tp_next(p) : -1;
}

/* --- statements: each begins at its name and pushes what it makes ------------------------------
 */

static int parse_set(fy_tparser *p, fy_node *node)
{
    if (fy_tp_next(p) != 0)
        return -1;
    node->a = fy_tp_target(p, FY_TP_TUPLE_NAMESPACE);
    int rc = node->a == NULL ? -1 : fy_tp_skip_kind(p, FY_TOK_ASSIGN);
    if (rc < 0)
        return -1;
    if (rc == 1) {
        node->b = fy_tp_tuple_expr(p, 0);
        return node->b != NULL ? 0 : -1;
    }
    node->kind = FY_N_SET_BLOCK;
    if (fy_tp_is(p, FY_TOK_PIPE) && (node->b = fy_tp_filters(p, NULL, false)) == NULL)
        return -1;
    return parse_whole_body(p, FY_W_ENDSET, &node->body);
}

static int parse_for(fy_tparser *p, fy_node *node)
{
    static const fy_tword ends[] = {FY_W_ENDFOR, FY_W_ELSE, FY_W_NONE};
    if (fy_tp_next(p) != 0 || (node->a = fy_tp_target(p, 0)) == NULL ||
        fy_tp_expect_word(p, FY_W_IN) != 0)
        return -1;
    node->b = fy_tp_tuple_expr(p, FY_TP_TUPLE_NO_COND);
    int rc = node->b == NULL ? -1 : fy_tp_skip_word(p, FY_W_IF);
    if (rc < 0 || (rc == 1 && (node->c = fy_tp_expression(p)) == NULL))
        return -1;
    rc = fy_tp_skip_word(p, FY_W_RECURSIVE);
    node->flag = rc == 1;
    if (rc < 0 || parse_body(p, ends, &node->body) != 0)
        return -1;
    bool has_else = fy_tp_is_word(p, FY_W_ELSE);
    if (fy_tp_next(p) != 0)
        return -1;
    return has_else ? parse_whole_body(p, FY_W_ENDFOR, &node->orelse) : 0;
}

/* Condition and body; 1: an elif follows. */
static int parse_branch(fy_tparser *p, fy_node *node)
{
    static const fy_tword ends[] = {FY_W_ELIF, FY_W_ELSE, FY_W_ENDIF, FY_W_NONE};
    node->a = fy_tp_tuple_expr(p, FY_TP_TUPLE_NO_COND);
    if (node->a == NULL || parse_body(p, ends, &node->body) != 0)
        return -1;
    fy_tword end = p->cur.word;
    if (fy_tp_next(p) != 0)
        return -1;
    if (end == FY_W_ELSE)
        return parse_whole_body(p, FY_W_ENDIF, &node->orelse);
    return end == FY_W_ELIF;
}

/* Each elif is one level deeper in the tree than the one before. */
static int parse_if(fy_tparser *p, fy_node *node)
{
    uint32_t depth = p->depth, level = p->level;
    if (fy_tp_next(p) != 0)
        return -1;
    int rc;
    while ((rc = parse_branch(p, node)) == 1) {
        size_t mark = p->n_stack;
        fy_node *next = fy_tp_node(p, FY_N_IF, &p->cur);
        if (fy_tp_enter(p) != 0 || fy_tp_push(p, next) != 0 ||
            fy_tp_take(p, mark, &node->orelse) != 0)
            return -1;
        p->level++;
        node = next;
    }
    p->depth = depth;
    p->level = level;
    return rc;
}

static int parse_with(fy_tparser *p, fy_node *node)
{
    size_t mark = p->n_stack;
    if (fy_tp_next(p) != 0)
        return -1;
    while (!fy_tp_is(p, FY_TOK_BLOCK_END)) {
        if (p->n_stack > mark && fy_tp_expect(p, FY_TOK_COMMA) != 0)
            return -1;
        if (fy_tp_push(p, fy_tp_target(p, 0)) != 0 || fy_tp_expect(p, FY_TOK_ASSIGN) != 0 ||
            fy_tp_push(p, fy_tp_expression(p)) != 0)
            return -1;
    }
    if (fy_tp_take(p, mark, &node->kids) != 0)
        return -1;
    return parse_whole_body(p, FY_W_ENDWITH, &node->body);
}

/* (a, b, c=1): the names behind keys_mark, the defaults on the stack. */
static int parse_parameters(fy_tparser *p, size_t keys_mark)
{
    size_t mark = p->n_stack;
    if (fy_tp_expect(p, FY_TOK_LPAREN) != 0)
        return -1;
    while (!fy_tp_is(p, FY_TOK_RPAREN)) {
        fy_span name;
        if (p->n_keys > keys_mark && fy_tp_expect(p, FY_TOK_COMMA) != 0)
            return -1;
        if (fy_tp_target_name(p, &name) != 0)
            return -1;
        int rc = fy_tp_skip_kind(p, FY_TOK_ASSIGN);
        if (rc < 0 || (rc == 1 && fy_tp_push(p, fy_tp_expression(p)) != 0))
            return -1;
        if (rc == 0 && p->n_stack > mark)
            return fy_tp_fail(p, &p->cur, "non-default argument follows default argument");
        if (fy_tp_push_key(p, name) != 0)
            return -1;
    }
    return fy_tp_expect(p, FY_TOK_RPAREN);
}

/* Parameters of a macro or caller; without parentheses: none. */
static int parse_signature(fy_tparser *p, bool has_parentheses, fy_node *node)
{
    size_t mark = p->n_stack, keys_mark = p->n_keys;
    if (has_parentheses && parse_parameters(p, keys_mark) != 0)
        return -1;
    size_t n = p->n_keys - keys_mark;
    fy_node_params *params = fy_arena_calloc(&p->t->arena, 1, sizeof *params);
    if (params != NULL)
        params->symbols = fy_arena_calloc(&p->t->arena, n, sizeof *params->symbols);
    if (params == NULL || params->symbols == NULL)
        return fy_nomem(p->e);
    for (size_t i = 0; i < n; i++) {
        if (fy_tp_intern(p, p->keys[keys_mark + i], &params->symbols[i]) != 0)
            return -1;
    }
    params->n = (uint32_t)n;
    p->n_keys = keys_mark;
    node->params = params;
    return fy_tp_take(p, mark, &params->defaults);
}

static int parse_macro(fy_tparser *p, fy_node *node)
{
    fy_span name;
    if (fy_tp_next(p) != 0 || fy_tp_target_name(p, &name) != 0 ||
        fy_tp_intern(p, name, &node->symbol) != 0 || parse_signature(p, true, node) != 0)
        return -1;
    return parse_whole_body(p, FY_W_ENDMACRO, &node->body);
}

static int parse_call_block(fy_tparser *p, fy_node *node)
{
    fy_tok at = p->cur;
    if (fy_tp_next(p) != 0 || parse_signature(p, fy_tp_is(p, FY_TOK_LPAREN), node) != 0 ||
        (node->a = fy_tp_expression(p)) == NULL)
        return -1;
    if (node->a->kind != FY_N_CALL)
        return fy_tp_fail(p, &at, "expected call");
    return parse_whole_body(p, FY_W_ENDCALL, &node->body);
}

static int parse_filter_block(fy_tparser *p, fy_node *node)
{
    if (fy_tp_next(p) != 0 || (node->a = fy_tp_filters(p, NULL, true)) == NULL)
        return -1;
    return parse_whole_body(p, FY_W_ENDFILTER, &node->body);
}

static int parse_generation(fy_tparser *p, fy_node *node)
{
    if (fy_tp_next(p) != 0 || parse_signature(p, false, node) != 0)
        return -1;
    return parse_whole_body(p, FY_W_ENDGENERATION, &node->body);
}

static int parse_leaf(fy_tparser *p, fy_node *node)
{
    (void)node;
    return fy_tp_next(p);
}

/* {% print a, b %}: any number of prints. */
static int parse_print(fy_tparser *p)
{
    if (fy_tp_next(p) != 0)
        return -1;
    for (bool first = true; !fy_tp_is(p, FY_TOK_BLOCK_END); first = false) {
        if (!first && fy_tp_expect(p, FY_TOK_COMMA) != 0)
            return -1;
        fy_node *node = fy_tp_node(p, FY_N_PRINT, &p->cur);
        if (node == NULL || (node->a = fy_tp_expression(p)) == NULL || fy_tp_push(p, node) != 0)
            return -1;
    }
    return 0;
}

static const struct {
    fy_tword word;
    fy_node_kind kind;
    int (*parse)(fy_tparser *p, fy_node *node); /* NULL: jinja2 has it, ferry does not */
} statements[] = {
    {FY_W_IF, FY_N_IF, parse_if},
    {FY_W_FOR, FY_N_FOR, parse_for},
    {FY_W_SET, FY_N_SET, parse_set},
    {FY_W_MACRO, FY_N_MACRO, parse_macro},
    {FY_W_CALL, FY_N_CALL_BLOCK, parse_call_block},
    {FY_W_FILTER, FY_N_FILTER_BLOCK, parse_filter_block},
    {FY_W_WITH, FY_N_WITH, parse_with},
    {FY_W_GENERATION, FY_N_SCOPE, parse_generation},
    {FY_W_BREAK, FY_N_BREAK, parse_leaf},
    {FY_W_CONTINUE, FY_N_CONTINUE, parse_leaf},
    {FY_W_AUTOESCAPE, FY_N_TEXT, NULL},
    {FY_W_BLOCK, FY_N_TEXT, NULL},
    {FY_W_EXTENDS, FY_N_TEXT, NULL},
    {FY_W_FROM, FY_N_TEXT, NULL},
    {FY_W_IMPORT, FY_N_TEXT, NULL},
    {FY_W_INCLUDE, FY_N_TEXT, NULL},
    {FY_W_TRANS, FY_N_TEXT, NULL},
};

static int parse_statement(fy_tparser *p)
{
    const fy_tok tag = p->cur;
    if (tag.kind != FY_TOK_NAME)
        return fy_tp_fail(p, &tag, "tag name expected");
    const fy_topen open = {p->tags, tag.text, NULL};
    size_t i = 0, n = sizeof statements / sizeof *statements;
    while (i < n && statements[i].word != tag.word)
        i++;
    if (i == n && tag.word != FY_W_PRINT)
        return fail_tag(p, &tag, p->bodies != NULL ? p->bodies->ends : NULL);
    if (i < n && statements[i].parse == NULL)
        return fy_tlex_fail(p->e, FY_EUNSUPPORTED, tag.line, tag.column,
                            "'%s' is not supported: the template must stand for itself",
                            fy_tword_text(tag.word));
    p->tags = &open;
    int rc;
    if (i < n) {
        fy_node *node = fy_tp_node(p, statements[i].kind, &tag);
        rc = node == NULL ? -1 : statements[i].parse(p, node);
        rc = rc == 0 ? fy_tp_push(p, node) : -1;
    } else {
        rc = parse_print(p);
    }
    p->tags = open.outer;
    return rc;
}

static int parse_output(fy_tparser *p)
{
    fy_node *node = fy_tp_node(p, FY_N_PRINT, &p->cur);
    if (node == NULL || fy_tp_next(p) != 0 || (node->a = fy_tp_tuple_expr(p, 0)) == NULL ||
        fy_tp_push(p, node) != 0)
        return -1;
    return fy_tp_expect(p, FY_TOK_VAR_END);
}

static int parse_text(fy_tparser *p)
{
    fy_node *node = fy_tp_node(p, FY_N_TEXT, &p->cur);
    if (node == NULL || fy_tp_push(p, node) != 0)
        return -1;
    node->value = fy_tv_view(p->cur.text);
    return fy_tp_next(p);
}

static bool is_end(const fy_tparser *p, const fy_tword *ends)
{
    for (; ends != NULL && *ends != FY_W_NONE; ends++) {
        if (fy_tp_is_word(p, *ends))
            return true;
    }
    return false;
}

/* Pushes nodes until the tag that ends them or the end of the template. */
static int parse_nodes(fy_tparser *p, const fy_tword *ends)
{
    while (!fy_tp_is(p, FY_TOK_EOF)) {
        if (fy_tp_is(p, FY_TOK_DATA)) {
            if (parse_text(p) != 0)
                return -1;
        } else if (fy_tp_is(p, FY_TOK_VAR_BEGIN)) {
            if (parse_output(p) != 0)
                return -1;
        } else {
            if (fy_tp_next(p) != 0)
                return -1;
            if (is_end(p, ends))
                return 0;
            if (parse_statement(p) != 0 || fy_tp_expect(p, FY_TOK_BLOCK_END) != 0)
                return -1;
        }
    }
    return 0;
}

int fy_tp_body(fy_tparser *p, const fy_tword *ends, fy_nodes *out)
{
    const fy_topen open = {p->bodies, {NULL, 0}, ends};
    size_t mark = p->n_stack;
    if (fy_tp_enter(p) != 0)
        return -1;
    p->level++;
    if (ends != NULL)
        p->bodies = &open;
    int rc = parse_nodes(p, ends);
    p->bodies = open.outer;
    p->level--;
    p->depth--;
    return rc == 0 ? fy_tp_take(p, mark, out) : -1;
}
