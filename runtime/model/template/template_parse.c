/* The parser: tokens and nodes, statements, and the whole template. Follows jinja2 3.1.6,
 * parser.py. */
#include "model/template/template_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "model/template/template_builtin.h"

/* --- tokens --- */

int fy_tp_fail(fy_tparser *p, const fy_tok *at, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fy_tlex_fail(p->e, FY_EFORMAT, at->line, at->column, "%s", text);
}

int fy_tp_next(fy_tparser *p)
{
    if (!p->has_ahead)
        return fy_tlex_next(&p->lex, &p->cur);
    p->cur = p->ahead;
    p->has_ahead = false;
    return 0;
}

int fy_tp_look(fy_tparser *p)
{
    if (p->has_ahead)
        return 0;
    p->has_ahead = true;
    return fy_tlex_next(&p->lex, &p->ahead);
}

bool fy_tok_is(const fy_tok *tok, const char *text)
{
    return (tok->kind == FY_TOK_OPERATOR || tok->kind == FY_TOK_NAME) &&
           fy_span_is(tok->text, text);
}

static int fail_expected(fy_tparser *p, const char *wanted)
{
    char got[FY_TOK_TEXT];
    if (p->cur.kind == FY_TOK_EOF)
        return fy_tp_fail(p, &p->cur, "unexpected end of template, expected '%s'.", wanted);
    return fy_tp_fail(p, &p->cur, "expected token '%s', got '%s'", wanted,
                      fy_tok_text(&p->cur, got));
}

int fy_tp_expect(fy_tparser *p, const char *text)
{
    return fy_tp_is(p, text) ? fy_tp_next(p) : fail_expected(p, text);
}

int fy_tp_expect_kind(fy_tparser *p, fy_tok_kind kind)
{
    char text[FY_TOK_TEXT];
    return p->cur.kind == kind ? fy_tp_next(p)
                               : fail_expected(p, fy_tok_text(&(fy_tok){.kind = kind}, text));
}

int fy_tp_skip(fy_tparser *p, const char *text)
{
    if (!fy_tp_is(p, text))
        return 0;
    return fy_tp_next(p) == 0 ? 1 : -1;
}

/* --- nodes --- */

static int fail_depth(fy_tparser *p)
{
    return fy_tp_fail(p, &p->cur, "nested deeper than %d levels", FY_TEMPLATE_MAX_DEPTH);
}

int fy_tp_enter(fy_tparser *p)
{
    if (p->depth >= FY_TEMPLATE_MAX_DEPTH)
        return fail_depth(p);
    p->depth++;
    return 0;
}

fy_node *fy_tp_node(fy_tparser *p, fy_node_kind kind, const fy_tok *at)
{
    if (p->n_parts++ >= FY_TEMPLATE_MAX_NODES) {
        fy_tlex_fail(p->e, FY_EUNSUPPORTED, at->line, at->column,
                     "the template has more than %d parts", FY_TEMPLATE_MAX_NODES);
        return NULL;
    }
    fy_node *n = fy_arena_calloc(&p->t->arena, 1, sizeof *n);
    if (n == NULL)
        return fy_nomem(p->e), NULL;
    n->kind = kind;
    n->line = at->line;
    n->column = at->column;
    return n;
}

static void grow_height(uint16_t *height, const fy_node *child)
{
    if (child != NULL && child->height > *height)
        *height = child->height;
}

static void grow_heights(uint16_t *height, const fy_nodes *children)
{
    for (uint32_t i = 0; i < children->n; i++)
        grow_height(height, children->item[i]);
}

fy_node *fy_tp_built(fy_tparser *p, fy_node *n)
{
    if (n == NULL)
        return NULL;
    uint16_t height = 0;
    grow_height(&height, n->a);
    grow_height(&height, n->b);
    grow_height(&height, n->c);
    grow_heights(&height, &n->kids);
    if (n->args != NULL) {
        grow_heights(&height, &n->args->args);
        grow_heights(&height, &n->args->values);
        grow_height(&height, n->args->star);
        grow_height(&height, n->args->dstar);
    }
    n->height = (uint16_t)(height + 1);
    if (n->height + p->level > FY_TEMPLATE_MAX_DEPTH)
        return fail_depth(p), NULL;
    return n;
}

/* The room doubles whenever n is a power of two. */
void *fy_tp_grow(fy_tparser *p, void *items, uint32_t n, size_t item_bytes)
{
    if ((n & (n - 1)) != 0)
        return items;
    void *more = fy_arena_calloc(&p->t->arena, n == 0 ? 1 : 2 * (size_t)n, item_bytes);
    if (more == NULL)
        fy_nomem(p->e);
    else if (n > 0)
        memcpy(more, items, n * item_bytes);
    return more;
}

int fy_tp_add(fy_tparser *p, fy_nodes *list, fy_node *n)
{
    fy_node **item = n == NULL ? NULL : fy_tp_grow(p, list->item, list->n, sizeof n);
    if (item == NULL)
        return -1;
    list->item = item;
    list->item[list->n++] = n;
    return 0;
}

/* The symbol of a name; also notes that a special one is mentioned. */
int fy_tp_intern(fy_tparser *p, fy_span name, uint32_t *symbol)
{
    static const char *const special[] = {"loop", "caller", "kwargs", "varargs"};
    fy_template *t = p->t;
    if (!fy_names_find(&p->names, name, symbol)) {
        fy_span *grown = fy_grow(t->symbols, t->n_symbols, &p->symbols_cap, sizeof *t->symbols);
        if (grown != NULL)
            t->symbols = grown;
        if (grown == NULL || fy_names_add(&p->names, name, t->n_symbols) != 0)
            return fy_nomem(p->e);
        *symbol = t->n_symbols;
        t->symbols[t->n_symbols++] = name;
    }
    for (int i = 0; i < FY_T_SPECIALS; i++) {
        if (fy_span_is(name, special[i])) {
            t->special[i] = *symbol;
            p->mentions |= 1u << i;
        }
    }
    return 0;
}

/* --- messages about tags --- */

/* At a tag that nothing expects here, or (unknown NULL) at the end of the template. */
static int fail_tag(fy_tparser *p, const fy_tok *unknown, const char *const *ends)
{
    char tag[FY_QUOTE_BYTES];
    fy_str s = {0};
    if (unknown == NULL)
        fy_str_puts(&s, "Unexpected end of template.");
    else
        fy_str_printf(&s, "Encountered unknown tag '%s'.",
                      fy_quote(tag, sizeof tag, unknown->text));
    if (ends != NULL) {
        fy_str_puts(&s, " Jinja was looking for the following tags:");
        for (const char *const *end = ends; *end != NULL; end++)
            fy_str_printf(&s, "%s '%s'", end == ends ? "" : " or", *end);
        fy_str_putc(&s, '.');
    }
    if (p->tags != NULL)
        fy_str_printf(&s, " The innermost block that needs to be closed is '%s'.",
                      fy_quote(tag, sizeof tag, p->tags->tag));
    fy_tp_fail(p, unknown != NULL ? unknown : &p->cur, "%s", fy_str_z(&s));
    fy_str_release(&s);
    return -1;
}

/* --- bodies --- */

static int parse_nodes(fy_tparser *p, const char *const *ends, fy_nodes *out);

/* The rest of a tag, then the statement's body up to one of `ends`, whose name is left as the
 * current token. */
static int parse_body(fy_tparser *p, const char *const *ends, fy_nodes *out)
{
    if (fy_tp_skip(p, ":") < 0 || fy_tp_expect_kind(p, FY_TOK_BLOCK_END) != 0 ||
        parse_nodes(p, ends, out) != 0)
        return -1;
    return p->cur.kind == FY_TOK_EOF ? fail_tag(p, NULL, ends) : 0;
}

/* The same for a body with one possible end, which is skipped. */
static int parse_whole_body(fy_tparser *p, const char *end, fy_nodes *out)
{
    const char *const ends[] = {end, NULL};
    return parse_body(p, ends, out) == 0 ? fy_tp_next(p) : -1;
}

/* The body of something that is called: no loop around it can be left from inside. Sets what it
 * mentions of the special names. */
static int parse_called_body(fy_tparser *p, const char *end, fy_node *node, uint32_t *mentions)
{
    uint32_t loops = p->loops, outside = p->mentions;
    p->loops = p->mentions = 0;
    int rc = parse_whole_body(p, end, &node->body);
    *mentions = p->mentions;
    p->mentions |= outside;
    p->loops = loops;
    return rc;
}

/* --- statements: each begins at its name --- */

static int parse_set(fy_tparser *p, fy_node *node)
{
    if (fy_tp_next(p) != 0 || (node->a = fy_tp_target(p, true)) == NULL)
        return -1;
    int rc = fy_tp_skip(p, "=");
    if (rc != 0)
        return rc > 0 && (node->b = fy_tp_tuple(p, true)) != NULL ? 0 : -1;
    node->kind = FY_N_SET_BLOCK;
    if (fy_tp_is(p, "|") && (node->b = fy_tp_filters(p, NULL, false)) == NULL)
        return -1;
    return parse_whole_body(p, "endset", &node->body);
}

static int parse_for(fy_tparser *p, fy_node *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    uint32_t outside = p->mentions;
    fy_tok at = p->cur;
    if (fy_tp_next(p) != 0)
        return -1;
    at = p->cur;
    p->mentions = 0;
    if ((node->a = fy_tp_target(p, false)) == NULL)
        return -1;
    if (p->mentions >> FY_T_LOOP & 1)
        return fy_tp_fail(p, &at, "Can't assign to special loop variable in for-loop target");
    p->mentions |= outside;
    if (fy_tp_expect(p, "in") != 0 || (node->b = fy_tp_tuple(p, false)) == NULL)
        return -1;
    int rc = fy_tp_skip(p, "if");
    if (rc < 0 || (rc == 1 && (node->c = fy_tp_expression(p, true)) == NULL))
        return -1;
    rc = fy_tp_skip(p, "recursive");
    node->flag = rc == 1;
    outside = p->mentions;
    p->mentions = 0;
    p->loops++;
    if (rc < 0 || parse_body(p, ends, &node->body) != 0)
        return -1;
    p->loops--;
    node->uses_loop = p->mentions >> FY_T_LOOP & 1;
    p->mentions |= outside;
    bool has_else = fy_tp_is(p, "else");
    if (fy_tp_next(p) != 0)
        return -1;
    return has_else ? parse_whole_body(p, "endfor", &node->orelse) : 0;
}

/* Condition and body; 1: an elif follows. */
static int parse_branch(fy_tparser *p, fy_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    if ((node->a = fy_tp_tuple(p, false)) == NULL || parse_body(p, ends, &node->body) != 0)
        return -1;
    bool is_else = fy_tp_is(p, "else"), is_elif = fy_tp_is(p, "elif");
    if (fy_tp_next(p) != 0)
        return -1;
    return is_else ? parse_whole_body(p, "endif", &node->orelse) : is_elif;
}

/* Each elif is one level deeper in the tree than the one before. */
static int parse_if(fy_tparser *p, fy_node *node)
{
    uint32_t depth = p->depth, level = p->level;
    int rc;
    if (fy_tp_next(p) != 0)
        return -1;
    while ((rc = parse_branch(p, node)) == 1) {
        fy_node *next = fy_tp_node(p, FY_N_IF, &p->cur);
        if (fy_tp_enter(p) != 0 || fy_tp_add(p, &node->orelse, next) != 0)
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
    if (fy_tp_next(p) != 0)
        return -1;
    while (p->cur.kind != FY_TOK_BLOCK_END) {
        if ((node->kids.n > 0 && fy_tp_expect(p, ",") != 0) ||
            fy_tp_add(p, &node->kids, fy_tp_target(p, false)) != 0 || fy_tp_expect(p, "=") != 0 ||
            fy_tp_add(p, &node->kids, fy_tp_expression(p, true)) != 0)
            return -1;
    }
    return parse_whole_body(p, "endwith", &node->body);
}

/* (a, b, c=1), the parameters of a macro or caller; without parentheses: none. */
static int parse_signature(fy_tparser *p, fy_node *node)
{
    fy_node_params *params = fy_arena_calloc(&p->t->arena, 1, sizeof *params);
    if (params == NULL)
        return fy_nomem(p->e);
    node->params = params;
    int rc = fy_tp_skip(p, "(");
    if (rc <= 0)
        return rc;
    while (!fy_tp_is(p, ")")) {
        fy_span name;
        uint32_t *symbols;
        if ((params->n > 0 && fy_tp_expect(p, ",") != 0) || fy_tp_target_name(p, &name) != 0)
            return -1;
        rc = fy_tp_skip(p, "=");
        if (rc < 0 || (rc == 1 && fy_tp_add(p, &params->defaults, fy_tp_expression(p, true)) != 0))
            return -1;
        if (rc == 0 && params->defaults.n > 0)
            return fy_tp_fail(p, &p->cur, "non-default argument follows default argument");
        symbols = fy_tp_grow(p, params->symbols, params->n, sizeof *symbols);
        if (symbols == NULL || fy_tp_intern(p, name, &symbols[params->n]) != 0)
            return -1;
        params->symbols = symbols;
        params->n++;
    }
    return fy_tp_next(p);
}

static bool has_param(const fy_node_params *params, uint32_t symbol)
{
    for (uint32_t i = 0; i < params->n; i++) {
        if (params->symbols[i] == symbol)
            return true;
    }
    return false;
}

/* The body of a macro or caller, and which special names it has to be given. */
static int parse_macro_body(fy_tparser *p, const char *end, fy_node *node)
{
    uint32_t m;
    if (parse_called_body(p, end, node, &m) != 0)
        return -1;
    fy_node_params *params = node->params;
    const uint32_t *special = p->t->special;
    params->uses_caller = m >> FY_T_CALLER & 1;
    params->uses_kwargs = (m >> FY_T_KWARGS & 1) && !has_param(params, special[FY_T_KWARGS]);
    params->uses_varargs = (m >> FY_T_VARARGS & 1) && !has_param(params, special[FY_T_VARARGS]);
    return 0;
}

static int parse_macro(fy_tparser *p, fy_node *node)
{
    fy_span name;
    if (fy_tp_next(p) != 0 || fy_tp_target_name(p, &name) != 0 ||
        fy_tp_intern(p, name, &node->symbol) != 0)
        return -1;
    if (!fy_tp_is(p, "("))
        return fy_tp_expect(p, "(");
    return parse_signature(p, node) != 0 ? -1 : parse_macro_body(p, "endmacro", node);
}

static int parse_call_block(fy_tparser *p, fy_node *node)
{
    fy_tok at = p->cur;
    if (fy_tp_next(p) != 0 || parse_signature(p, node) != 0 ||
        (node->a = fy_tp_expression(p, true)) == NULL)
        return -1;
    if (node->a->kind != FY_N_CALL)
        return fy_tp_fail(p, &at, "expected call");
    return parse_macro_body(p, "endcall", node);
}

static int parse_filter_block(fy_tparser *p, fy_node *node)
{
    if (fy_tp_next(p) != 0 || (node->a = fy_tp_filters(p, NULL, true)) == NULL)
        return -1;
    return parse_whole_body(p, "endfilter", &node->body);
}

static int parse_generation(fy_tparser *p, fy_node *node)
{
    uint32_t mentions;
    return fy_tp_next(p) != 0 ? -1 : parse_called_body(p, "endgeneration", node, &mentions);
}

static int parse_leaf(fy_tparser *p, fy_node *node)
{
    if (p->loops == 0)
        return fy_tp_fail(p, &p->cur,
                          node->kind == FY_N_BREAK ? "'break' outside loop"
                                                   : "'continue' not properly in loop");
    return fy_tp_next(p);
}

static const struct {
    const char *tag;
    fy_node_kind kind;
    int (*parse)(fy_tparser *p, fy_node *node); /* NULL: jinja2 has it, ferry does not */
} statements[] = {
    {"if", FY_N_IF, parse_if},
    {"for", FY_N_FOR, parse_for},
    {"set", FY_N_SET, parse_set},
    {"macro", FY_N_MACRO, parse_macro},
    {"call", FY_N_CALL_BLOCK, parse_call_block},
    {"filter", FY_N_FILTER_BLOCK, parse_filter_block},
    {"with", FY_N_WITH, parse_with},
    {"generation", FY_N_SCOPE, parse_generation},
    {"break", FY_N_BREAK, parse_leaf},
    {"continue", FY_N_CONTINUE, parse_leaf},
    {"autoescape", FY_N_TEXT, NULL},
    {"block", FY_N_TEXT, NULL},
    {"extends", FY_N_TEXT, NULL},
    {"from", FY_N_TEXT, NULL},
    {"import", FY_N_TEXT, NULL},
    {"include", FY_N_TEXT, NULL},
    {"print", FY_N_PRINT, NULL},
    {"trans", FY_N_TEXT, NULL},
};

static int parse_statement(fy_tparser *p, fy_nodes *out)
{
    const fy_tok tag = p->cur;
    if (tag.kind != FY_TOK_NAME)
        return fy_tp_fail(p, &tag, "tag name expected");
    const fy_topen open = {p->tags, tag.text};
    size_t i = 0, n = sizeof statements / sizeof *statements;
    while (i < n && !fy_tok_is(&tag, statements[i].tag))
        i++;
    if (i == n)
        return fail_tag(p, &tag, p->ends);
    if (statements[i].parse == NULL)
        return fy_tlex_fail(p->e, FY_EUNSUPPORTED, tag.line, tag.column,
                            "'%s' is not supported: %s", statements[i].tag,
                            statements[i].kind == FY_N_PRINT
                                ? "write {{ a }} instead of {% print a %}"
                                : "the template must stand for itself");
    p->tags = &open;
    fy_node *node = fy_tp_node(p, statements[i].kind, &tag);
    int rc = node == NULL || statements[i].parse(p, node) != 0 ? -1 : fy_tp_add(p, out, node);
    p->tags = open.outer;
    return rc != 0 ? -1 : fy_tp_expect_kind(p, FY_TOK_BLOCK_END);
}

/* Adds one node: 1; 0: at the tag that ends the body. */
static int parse_one(fy_tparser *p, const char *const *ends, fy_nodes *out)
{
    bool is_text = p->cur.kind == FY_TOK_DATA;
    if (is_text || p->cur.kind == FY_TOK_VAR_BEGIN) {
        fy_node *node = fy_tp_node(p, is_text ? FY_N_TEXT : FY_N_PRINT, &p->cur);
        if (fy_tp_add(p, out, node) != 0)
            return -1;
        node->value = fy_tv_view(p->cur.text);
        if (fy_tp_next(p) != 0 || (!is_text && ((node->a = fy_tp_tuple(p, true)) == NULL ||
                                                fy_tp_expect_kind(p, FY_TOK_VAR_END) != 0)))
            return -1;
        return 1;
    }
    if (fy_tp_next(p) != 0)
        return -1;
    for (; ends != NULL && *ends != NULL; ends++) {
        if (fy_tp_is(p, *ends))
            return 0;
    }
    return parse_statement(p, out) == 0 ? 1 : -1;
}

/* Text, prints and statements up to the tag that ends them, which is left as the current token.
 * `ends` NULL: up to the end of the template. */
static int parse_nodes(fy_tparser *p, const char *const *ends, fy_nodes *out)
{
    const char *const *outside = p->ends;
    int rc = 1;
    if (fy_tp_enter(p) != 0)
        return -1;
    p->level++;
    p->ends = ends;
    while (rc == 1 && p->cur.kind != FY_TOK_EOF)
        rc = parse_one(p, ends, out);
    p->ends = outside;
    p->level--;
    p->depth--;
    return rc < 0 ? -1 : 0;
}

/* --- filters and tests by name --- */

static int find_builtin(const fy_tparser *p, fy_node *n, bool in_branch)
{
    char name[FY_QUOTE_BYTES];
    bool is_filter = n->kind == FY_N_FILTER;
    const char *what = is_filter ? "filter" : "test";
    n->builtin = is_filter ? fy_tfilter_find(n->str) : fy_ttest_find(n->str);
    if (in_branch || n->builtin != NULL)
        return 0;
    fy_quote(name, sizeof name, n->str);
    if (is_filter ? fy_tfilter_is_refused(n->str) : fy_ttest_is_refused(n->str))
        return fy_tlex_fail(p->e, FY_EUNSUPPORTED, n->line, n->column, "%s '%s' is not supported",
                            what, name);
    return fy_tlex_fail(p->e, FY_EFORMAT, n->line, n->column, "No %s named '%s'.", what, name);
}

static int find_builtins(const fy_tparser *p, const fy_nodes *nodes, bool in_branch);

/* As in jinja2, an unknown name inside `if` is an error only when it is reached. */
static int find_in_node(const fy_tparser *p, fy_node *n, bool in_branch)
{
    if (n == NULL)
        return 0;
    if ((n->kind == FY_N_FILTER || n->kind == FY_N_TEST) && find_builtin(p, n, in_branch) != 0)
        return -1;
    in_branch = in_branch || n->kind == FY_N_IF || n->kind == FY_N_COND;
    fy_node *kids[] = {n->a, n->b, n->c, n->args != NULL ? n->args->star : NULL,
                       n->args != NULL ? n->args->dstar : NULL};
    const fy_nodes *lists[] = {&n->kids,
                               n->args != NULL ? &n->args->args : NULL,
                               n->args != NULL ? &n->args->values : NULL,
                               n->params != NULL ? &n->params->defaults : NULL,
                               &n->body,
                               &n->orelse};
    for (size_t i = 0; i < sizeof kids / sizeof *kids; i++) {
        if (find_in_node(p, kids[i], in_branch) != 0)
            return -1;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (lists[i] != NULL && find_builtins(p, lists[i], in_branch) != 0)
            return -1;
    }
    return 0;
}

static int find_builtins(const fy_tparser *p, const fy_nodes *nodes, bool in_branch)
{
    for (uint32_t i = 0; i < nodes->n; i++) {
        if (find_in_node(p, nodes->item[i], in_branch) != 0)
            return -1;
    }
    return 0;
}

/* --- the template --- */

/* The text with \n as the only line end and without the last one, in the arena. */
static int normalize(fy_template *t, fy_span text, fy_err *e)
{
    char *copy = fy_arena_alloc(&t->arena, text.len);
    if (copy == NULL)
        return fy_nomem(e);
    size_t n = 0;
    uint32_t line = 1, column = 1;
    for (size_t i = 0; i < text.len; column++) {
        uint32_t cp;
        int len = fy_utf8_next(text.ptr + i, text.len - i, &cp);
        if (len == 0)
            return fy_tlex_fail(e, FY_EFORMAT, line, column, "a byte that is not UTF-8: 0x%02x",
                                (unsigned)(unsigned char)text.ptr[i]);
        if (cp == '\r') {
            copy[n++] = '\n';
            len = i + 1 < text.len && text.ptr[i + 1] == '\n' ? 2 : 1;
        } else {
            memcpy(copy + n, text.ptr + i, (size_t)len);
            n += (size_t)len;
        }
        i += (size_t)len;
        if (copy[n - 1] == '\n') {
            line++;
            column = 0;
        }
    }
    if (n > 0 && copy[n - 1] == '\n')
        n--;
    t->text = (fy_span){copy, n};
    return 0;
}

static int parse_all(fy_template *t, fy_err *e)
{
    fy_tparser *p = calloc(1, sizeof *p);
    if (p == NULL)
        return fy_nomem(e);
    p->t = t;
    p->e = e;
    memset(t->special, 0xff, sizeof t->special);
    fy_tlex_init(&p->lex, t->text, &t->arena, e);
    int rc = fy_tp_next(p) != 0 || parse_nodes(p, NULL, &t->body) != 0
                 ? -1
                 : find_builtins(p, &t->body, false);
    fy_names_release(&p->names);
    free(p);
    return rc;
}

fy_template *fy_template_parse(fy_span text, fy_err *e)
{
    if (text.len > FY_TEMPLATE_MAX_BYTES) {
        fy_tlex_fail(e, FY_EUNSUPPORTED, 1, 1,
                     "the template has %zu bytes, at most %u are supported", text.len,
                     FY_TEMPLATE_MAX_BYTES);
        return NULL;
    }
    fy_template *t = calloc(1, sizeof *t);
    if (t == NULL)
        return fy_nomem(e), NULL;
    if (normalize(t, text, e) != 0 || parse_all(t, e) != 0) {
        fy_template_free(t);
        return NULL;
    }
    return t;
}

void fy_template_free(fy_template *t)
{
    if (t == NULL)
        return;
    fy_arena_release(&t->arena);
    free(t->symbols);
    free(t);
}
