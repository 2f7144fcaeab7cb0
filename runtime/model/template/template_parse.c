/* The parser: tokens and nodes, statements, and the whole template. Follows jinja2 3.1.6,
 * parser.py. */
#include "model/template/template_parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"

/* --- tokens --- */

void fy_tp_next(fy_tparser *p)
{
    if (p->has_ahead && fy_tp_ok(p))
        p->cur = p->ahead;
    else
        fy_tlex_next(&p->lex, &p->cur);
    p->has_ahead = false;
}

const fy_tok *fy_tp_look(fy_tparser *p)
{
    if (!p->has_ahead)
        fy_tlex_next(&p->lex, &p->ahead);
    p->has_ahead = true;
    return &p->ahead;
}

bool fy_tok_is(const fy_tok *tok, const char *text)
{
    return (tok->kind == FY_TOK_OPERATOR || tok->kind == FY_TOK_NAME) &&
           fy_span_is(tok->text, text);
}

static void fail_expected(fy_tparser *p, const char *wanted)
{
    char got[FY_TOK_TEXT];
    if (p->cur.kind == FY_TOK_EOF)
        fy_tp_fail(p, &p->cur, "unexpected end of template, expected '%s'.", wanted);
    else
        fy_tp_fail(p, &p->cur, "expected token '%s', got '%s'", wanted, fy_tok_text(&p->cur, got));
}

bool fy_tp_skip(fy_tparser *p, const char *text)
{
    bool is = fy_tp_is(p, text);
    if (is)
        fy_tp_next(p);
    return is;
}

void fy_tp_expect(fy_tparser *p, const char *text)
{
    if (!fy_tp_skip(p, text))
        fail_expected(p, text);
}

void fy_tp_expect_kind(fy_tparser *p, fy_tok_kind kind)
{
    char text[FY_TOK_TEXT];
    if (p->cur.kind == kind)
        fy_tp_next(p);
    else
        fail_expected(p, fy_tok_text(&(fy_tok){.kind = kind}, text));
}

/* --- nodes --- */

static void fail_depth(fy_tparser *p)
{
    fy_tp_fail(p, &p->cur, "nested deeper than %d levels", FY_TEMPLATE_MAX_DEPTH);
}

void fy_tp_enter(fy_tparser *p)
{
    if (++p->depth > FY_TEMPLATE_MAX_DEPTH)
        fail_depth(p);
}

void *fy_tp_alloc(fy_tparser *p, size_t bytes)
{
    void *new = fy_tp_ok(p) ? fy_arena_calloc(&p->t->arena, 1, bytes) : NULL;
    if (new == NULL)
        fy_nomem(&p->e);
    return new;
}

fy_node *fy_tp_node(fy_tparser *p, fy_node_kind kind, const fy_tok *at)
{
    if (p->n_parts++ >= FY_TEMPLATE_MAX_NODES)
        fy_tlex_fail(&p->e, FY_EUNSUPPORTED, at->line, at->column,
                     "the template has more than %d parts", FY_TEMPLATE_MAX_NODES);
    fy_node *n = fy_tp_alloc(p, sizeof *n);
    if (n == NULL) {
        p->none = (fy_node){0};
        return &p->none;
    }
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
        fail_depth(p);
    return n;
}

/* The room doubles whenever n is a power of two. */
void *fy_tp_grow(fy_tparser *p, void *items, uint32_t n, size_t item_bytes)
{
    if (!fy_tp_ok(p))
        return NULL;
    if ((n & (n - 1)) != 0)
        return items;
    void *more = fy_tp_alloc(p, (n == 0 ? 1 : 2 * (size_t)n) * item_bytes);
    if (more != NULL && n > 0)
        memcpy(more, items, n * item_bytes);
    return more;
}

void fy_tp_add(fy_tparser *p, fy_nodes *list, fy_node *n)
{
    fy_node **item = fy_tp_grow(p, list->item, list->n, sizeof n);
    if (item == NULL)
        return;
    list->item = item;
    list->item[list->n++] = n;
}

/* The symbol of a name; also notes that a special one is mentioned. */
uint32_t fy_tp_intern(fy_tparser *p, fy_span name)
{
    static const char *const special[] = {"loop", "caller", "kwargs", "varargs"};
    fy_template *t = p->t;
    uint32_t symbol = t->n_symbols;
    size_t n = t->n_symbols;
    if (!fy_names_find(&p->names, name, &symbol)) {
        if (fy_names_add(&p->names, name, symbol) != 0 ||
            fy_append(&t->symbols, &n, &p->symbols_cap, &name, sizeof name, &p->e) != 0)
            fy_nomem(&p->e);
        t->n_symbols = (uint32_t)n;
    }
    for (int i = 0; i < FY_T_SPECIALS; i++) {
        if (fy_span_is(name, special[i])) {
            t->special[i] = symbol;
            p->mentions |= 1u << i;
        }
    }
    return symbol;
}

/* --- messages about tags --- */

/* At a tag that nothing expects here, or (unknown NULL) at the end of the template. */
static void fail_tag(fy_tparser *p, const fy_tok *unknown, const char *const *ends)
{
    char tag[FY_QUOTE_BYTES];
    fy_str s = {0};
    if (unknown == NULL)
        fy_str_puts(&s, "Unexpected end of template.");
    else
        fy_str_printf(&s, "Encountered unknown tag '%s'.",
                      fy_quote(tag, sizeof tag, unknown->text));
    for (const char *const *end = ends; end != NULL && *end != NULL; end++)
        fy_str_printf(&s, "%s '%s'%s",
                      end == ends ? " Jinja was looking for the following tags:" : " or", *end,
                      end[1] == NULL ? "." : "");
    if (p->tags != NULL)
        fy_str_printf(&s, " The innermost block that needs to be closed is '%s'.",
                      fy_quote(tag, sizeof tag, p->tags->tag));
    fy_tp_fail(p, unknown != NULL ? unknown : &p->cur, "%s", fy_str_z(&s));
    fy_str_release(&s);
}

/* --- bodies --- */

static fy_nodes parse_nodes(fy_tparser *p, const char *const *ends);

/* The rest of a tag, then the statement's body up to one of `ends`, whose name is left as the
 * current token. */
static fy_nodes parse_body(fy_tparser *p, const char *const *ends)
{
    fy_tp_skip(p, ":");
    fy_tp_expect_kind(p, FY_TOK_BLOCK_END);
    fy_nodes body = parse_nodes(p, ends);
    if (p->cur.kind == FY_TOK_EOF)
        fail_tag(p, NULL, ends);
    return body;
}

/* The same for a body with one possible end, which is skipped. */
static fy_nodes parse_whole_body(fy_tparser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    fy_nodes body = parse_body(p, ends);
    fy_tp_next(p);
    return body;
}

/* The body of something that is called: no loop around it can be left from inside. Returns what it
 * mentions of the special names. */
static uint32_t parse_called_body(fy_tparser *p, const char *end, fy_node *node)
{
    uint32_t loops = p->loops, outside = p->mentions;
    p->loops = p->mentions = 0;
    node->body = parse_whole_body(p, end);
    uint32_t mentions = p->mentions;
    p->mentions |= outside;
    p->loops = loops;
    return mentions;
}

/* --- statements: each begins after its name --- */

static void parse_set(fy_tparser *p, fy_node *node)
{
    node->a = fy_tp_target(p, true);
    if (fy_tp_skip(p, "=")) {
        node->b = fy_tp_tuple(p, true);
        return;
    }
    node->kind = FY_N_SET_BLOCK;
    node->b = fy_tp_filters(p, NULL, false);
    node->body = parse_whole_body(p, "endset");
}

static void parse_for(fy_tparser *p, fy_node *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    uint32_t outside = p->mentions;
    fy_tok at = p->cur;
    p->mentions = 0;
    node->a = fy_tp_target(p, false);
    if (p->mentions >> FY_T_LOOP & 1)
        fy_tp_fail(p, &at, "Can't assign to special loop variable in for-loop target");
    p->mentions |= outside;
    fy_tp_expect(p, "in");
    node->b = fy_tp_tuple(p, false);
    if (fy_tp_skip(p, "if"))
        node->c = fy_tp_expression(p, true);
    node->flag = fy_tp_skip(p, "recursive");
    outside = p->mentions;
    p->mentions = 0;
    p->loops++;
    node->body = parse_body(p, ends);
    p->loops--;
    node->uses_loop = p->mentions >> FY_T_LOOP & 1;
    p->mentions |= outside;
    if (fy_tp_skip(p, "else"))
        node->orelse = parse_whole_body(p, "endfor");
    else
        fy_tp_next(p);
}

/* Each elif is one level deeper in the tree than the one before. */
static void parse_if(fy_tparser *p, fy_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    uint32_t depth = p->depth, level = p->level;
    for (;;) {
        node->a = fy_tp_tuple(p, false);
        node->body = parse_body(p, ends);
        if (!fy_tp_skip(p, "elif"))
            break;
        fy_node *next = fy_tp_node(p, FY_N_IF, &p->cur);
        fy_tp_enter(p);
        fy_tp_add(p, &node->orelse, next);
        p->level++;
        node = next;
    }
    if (fy_tp_skip(p, "else"))
        node->orelse = parse_whole_body(p, "endif");
    else
        fy_tp_next(p);
    p->depth = depth;
    p->level = level;
}

static void parse_with(fy_tparser *p, fy_node *node)
{
    while (p->cur.kind != FY_TOK_BLOCK_END && fy_tp_ok(p)) {
        if (node->kids.n > 0)
            fy_tp_expect(p, ",");
        fy_tp_add(p, &node->kids, fy_tp_target(p, false));
        fy_tp_expect(p, "=");
        fy_tp_add(p, &node->kids, fy_tp_expression(p, true));
    }
    node->body = parse_whole_body(p, "endwith");
}

/* (a, b, c=1), the parameters of a macro or caller; without parentheses: none. */
static void parse_signature(fy_tparser *p, fy_node_params *params)
{
    if (!fy_tp_skip(p, "("))
        return;
    while (fy_tp_before(p, ")")) {
        if (params->n > 0)
            fy_tp_expect(p, ",");
        fy_span name = fy_tp_target_name(p);
        if (fy_tp_skip(p, "="))
            fy_tp_add(p, &params->defaults, fy_tp_expression(p, true));
        else if (params->defaults.n > 0)
            fy_tp_fail(p, &p->cur, "non-default argument follows default argument");
        uint32_t *symbols = fy_tp_grow(p, params->symbols, params->n, sizeof *symbols);
        if (symbols == NULL)
            return;
        params->symbols = symbols;
        symbols[params->n++] = fy_tp_intern(p, name);
    }
    fy_tp_next(p);
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
static void parse_macro_body(fy_tparser *p, const char *end, fy_node *node)
{
    uint32_t m = parse_called_body(p, end, node);
    fy_node_params *params = node->params;
    const uint32_t *special = p->t->special;
    params->uses_caller = m >> FY_T_CALLER & 1;
    params->uses_kwargs = (m >> FY_T_KWARGS & 1) && !has_param(params, special[FY_T_KWARGS]);
    params->uses_varargs = (m >> FY_T_VARARGS & 1) && !has_param(params, special[FY_T_VARARGS]);
}

static void parse_macro(fy_tparser *p, fy_node *node)
{
    node->params = fy_tp_alloc(p, sizeof *node->params);
    node->symbol = fy_tp_intern(p, fy_tp_target_name(p));
    if (!fy_tp_is(p, "("))
        fy_tp_expect(p, "(");
    if (node->params == NULL)
        return;
    parse_signature(p, node->params);
    parse_macro_body(p, "endmacro", node);
}

static void parse_call_block(fy_tparser *p, fy_node *node)
{
    node->params = fy_tp_alloc(p, sizeof *node->params);
    if (node->params == NULL)
        return;
    parse_signature(p, node->params);
    node->a = fy_tp_expression(p, true);
    if (node->a->kind != FY_N_CALL)
        fy_tp_fail(p, node, "expected call");
    parse_macro_body(p, "endcall", node);
}

static void parse_filter_block(fy_tparser *p, fy_node *node)
{
    node->a = fy_tp_filters(p, NULL, true);
    node->body = parse_whole_body(p, "endfilter");
}

static void parse_generation(fy_tparser *p, fy_node *node)
{
    parse_called_body(p, "endgeneration", node);
}

static void parse_leaf(fy_tparser *p, fy_node *node)
{
    if (p->loops == 0)
        fy_tp_fail(p, node, "%s",
                   node->kind == FY_N_BREAK ? "'break' outside loop"
                                            : "'continue' not properly in loop");
}

static const struct {
    const char *tag;
    fy_node_kind kind;
    void (*parse)(fy_tparser *p, fy_node *node); /* NULL: jinja2 has it, ferry does not */
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

static void parse_statement(fy_tparser *p, fy_nodes *out)
{
    const fy_tok tag = p->cur;
    const fy_topen open = {p->tags, tag.text};
    size_t i = 0, n = sizeof statements / sizeof *statements;
    if (tag.kind != FY_TOK_NAME)
        fy_tp_fail(p, &tag, "tag name expected");
    while (i < n && !fy_tok_is(&tag, statements[i].tag))
        i++;
    if (i == n) {
        fail_tag(p, &tag, p->ends);
        return;
    }
    if (statements[i].parse == NULL)
        fy_tlex_fail(&p->e, FY_EUNSUPPORTED, tag.line, tag.column, "'%s' is not supported: %s",
                     statements[i].tag,
                     statements[i].kind == FY_N_PRINT ? "write {{ a }} instead of {% print a %}"
                                                      : "the template must stand for itself");
    fy_node *node = fy_tp_node(p, statements[i].kind, &tag);
    if (!fy_tp_ok(p))
        return;
    p->tags = &open;
    fy_tp_next(p);
    statements[i].parse(p, node);
    fy_tp_add(p, out, node);
    p->tags = open.outer;
    fy_tp_expect_kind(p, FY_TOK_BLOCK_END);
}

/* Adds one node. False: at the tag that ends the body. */
static bool parse_one(fy_tparser *p, const char *const *ends, fy_nodes *out)
{
    bool is_text = p->cur.kind == FY_TOK_DATA;
    if (is_text || p->cur.kind == FY_TOK_VAR_BEGIN) {
        fy_node *node = fy_tp_node(p, is_text ? FY_N_TEXT : FY_N_PRINT, &p->cur);
        fy_tp_add(p, out, node);
        node->value = fy_tv_view(p->cur.text);
        fy_tp_next(p);
        if (!is_text) {
            node->a = fy_tp_tuple(p, true);
            fy_tp_expect_kind(p, FY_TOK_VAR_END);
        }
        return true;
    }
    fy_tp_next(p);
    for (; ends != NULL && *ends != NULL; ends++) {
        if (fy_tp_is(p, *ends))
            return false;
    }
    parse_statement(p, out);
    return true;
}

/* Text, prints and statements up to the tag that ends them, which is left as the current token.
 * `ends` NULL: up to the end of the template. */
static fy_nodes parse_nodes(fy_tparser *p, const char *const *ends)
{
    const char *const *outside = p->ends;
    fy_nodes nodes = {0};
    fy_tp_enter(p);
    p->level++;
    p->ends = ends;
    while (fy_tp_ok(p) && p->cur.kind != FY_TOK_EOF && parse_one(p, ends, &nodes))
        ;
    p->ends = outside;
    p->level--;
    p->depth--;
    return nodes;
}

/* --- filters and tests by name --- */

static void find_builtin(fy_tparser *p, fy_node *n, bool in_branch)
{
    char name[FY_QUOTE_BYTES];
    bool is_filter = n->kind == FY_N_FILTER;
    const char *what = is_filter ? "filter" : "test";
    n->builtin = is_filter ? fy_tfilter_find(n->str) : fy_ttest_find(n->str);
    if (in_branch || n->builtin != NULL)
        return;
    fy_quote(name, sizeof name, n->str);
    if (is_filter ? fy_tfilter_is_refused(n->str) : fy_ttest_is_refused(n->str))
        fy_tlex_fail(&p->e, FY_EUNSUPPORTED, n->line, n->column, "%s '%s' is not supported", what,
                     name);
    fy_tp_fail(p, n, "No %s named '%s'.", what, name);
}

static void find_builtins(fy_tparser *p, const fy_nodes *nodes, bool in_branch);

/* As in jinja2, an unknown name inside `if` is an error only when it is reached. */
static void find_in_node(fy_tparser *p, fy_node *n, bool in_branch)
{
    static const fy_node_args no_args;
    static const fy_node_params no_params;
    const fy_node_args *args = n->args != NULL ? n->args : &no_args;
    const fy_node_params *params = n->params != NULL ? n->params : &no_params;
    if (n->kind == FY_N_FILTER || n->kind == FY_N_TEST)
        find_builtin(p, n, in_branch);
    in_branch = in_branch || n->kind == FY_N_IF || n->kind == FY_N_COND;
    fy_node *kids[] = {n->a, n->b, n->c, args->star, args->dstar};
    const fy_nodes *lists[] = {&n->kids,          &args->args, &args->values,
                               &params->defaults, &n->body,    &n->orelse};
    for (size_t i = 0; i < sizeof kids / sizeof *kids; i++) {
        if (kids[i] != NULL)
            find_in_node(p, kids[i], in_branch);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        find_builtins(p, lists[i], in_branch);
}

static void find_builtins(fy_tparser *p, const fy_nodes *nodes, bool in_branch)
{
    for (uint32_t i = 0; i < nodes->n && fy_tp_ok(p); i++)
        find_in_node(p, nodes->item[i], in_branch);
}

/* --- the template --- */

/* The text with \n as the only line end and without the last one, in the arena. */
static void normalize(fy_template *t, fy_span text, fy_err *e)
{
    char *copy = fy_arena_alloc(&t->arena, text.len);
    size_t n = 0;
    uint32_t line = 1, column = 1;
    if (copy == NULL)
        fy_nomem(e);
    for (size_t i = 0; i < text.len && e->code == FY_OK; column++) {
        uint32_t cp = (unsigned char)text.ptr[i];
        int len = cp < 0x80 ? 1 : fy_utf8_next(text.ptr + i, text.len - i, &cp);
        if (len == 0)
            fy_tlex_fail(e, FY_EFORMAT, line, column, "a byte that is not UTF-8: 0x%02x",
                         (unsigned)(unsigned char)text.ptr[i]);
        if (len == 1)
            copy[n] = cp == '\r' ? '\n' : (char)cp;
        else
            memcpy(copy + n, text.ptr + i, (size_t)len);
        n += (size_t)len;
        i += cp == '\r' && i + 1 < text.len && text.ptr[i + 1] == '\n' ? 2 : (size_t)len;
        if (cp == '\r' || cp == '\n') {
            line++;
            column = 0;
        }
    }
    if (n > 0 && copy[n - 1] == '\n')
        n--;
    t->text = (fy_span){copy, n};
}

static int parse_all(fy_template *t, fy_span text, fy_err *e)
{
    fy_tparser *p = calloc(1, sizeof *p);
    if (p == NULL)
        return fy_nomem(e);
    p->t = t;
    memset(t->special, 0xff, sizeof t->special);
    if (text.len > FY_TEMPLATE_MAX_BYTES)
        fy_tlex_fail(&p->e, FY_EUNSUPPORTED, 1, 1,
                     "the template has %zu bytes, at most %u are supported", text.len,
                     FY_TEMPLATE_MAX_BYTES);
    else
        normalize(t, text, &p->e);
    fy_tlex_init(&p->lex, t->text, &t->arena, &p->e);
    fy_tp_next(p);
    t->body = parse_nodes(p, NULL);
    find_builtins(p, &t->body, false);
    fy_names_release(&p->names);
    int rc = fy_tp_ok(p) ? 0 : fy_fail(e, p->e.code, "%s", p->e.msg);
    free(p);
    return rc;
}

fy_template *fy_template_parse(fy_span text, fy_err *e)
{
    fy_template *t = calloc(1, sizeof *t);
    if (t == NULL)
        fy_nomem(e);
    if (t == NULL || parse_all(t, text, e) == 0)
        return t;
    fy_template_free(t);
    return NULL;
}

void fy_template_free(fy_template *t)
{
    if (t == NULL)
        return;
    fy_arena_release(&t->arena);
    free(t->symbols);
    free(t);
}
