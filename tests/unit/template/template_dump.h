/* A template's tree as text, for tests: (kind child child ...), statements between [ ]. `lines`
 * adds
 * @line to what has one. */
#ifndef FY_TESTS_TEMPLATE_DUMP_H
#define FY_TESTS_TEMPLATE_DUMP_H

#include "base/str.h"
#include "model/template/template_ast.h"

typedef struct {
    fy_str out;
    const fy_template *t;
    bool lines;
} dump;

static void dump_node(dump *d, const fy_node *n);

static void dump_text(dump *d, fy_span s)
{
    fy_str_putc(&d->out, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c == '\n')
            fy_str_puts(&d->out, "\\n");
        else if (c < 0x20 || c > 0x7E || c == '"' || c == '\\')
            fy_str_printf(&d->out, "\\x%02x", (unsigned)c);
        else
            fy_str_putc(&d->out, (char)c);
    }
    fy_str_putc(&d->out, '"');
}

static void dump_span(dump *d, fy_span s)
{
    fy_str_add(&d->out, s.ptr, s.len);
}

static void dump_value(dump *d, const fy_tv *v)
{
    switch ((int)v->kind) {
    case FY_TV_NONE:
        fy_str_puts(&d->out, "none");
        break;
    case FY_TV_BOOL:
        fy_str_puts(&d->out, v->b ? "true" : "false");
        break;
    case FY_TV_INT:
        fy_str_printf(&d->out, "%lld", (long long)v->i);
        break;
    case FY_TV_BIGINT:
        fy_str_puts(&d->out, "big:");
        dump_span(d, v->str);
        break;
    case FY_TV_FLOAT:
        fy_str_printf(&d->out, "%.17gf", v->f);
        break;
    case FY_TV_STR:
        dump_text(d, v->str);
        break;
    default:
        fy_str_puts(&d->out, "?");
    }
}

/* " node", or " _" for none. */
static void dump_child(dump *d, const fy_node *n)
{
    fy_str_putc(&d->out, ' ');
    if (n == NULL)
        fy_str_putc(&d->out, '_');
    else
        dump_node(d, n);
}

static void dump_children(dump *d, const fy_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->n; i++)
        dump_child(d, nodes->item[i]);
}

static void dump_args(dump *d, const fy_node_args *args)
{
    if (args == NULL)
        return;
    dump_children(d, &args->args);
    for (uint32_t i = 0; i < args->values.n; i++) {
        fy_str_putc(&d->out, ' ');
        dump_span(d, args->names[i]);
        fy_str_putc(&d->out, '=');
        dump_node(d, args->values.item[i]);
    }
    if (args->star != NULL) {
        fy_str_puts(&d->out, " *");
        dump_node(d, args->star);
    }
    if (args->dstar != NULL) {
        fy_str_puts(&d->out, " **");
        dump_node(d, args->dstar);
    }
}

static void dump_params(dump *d, const fy_node_params *params)
{
    fy_str_puts(&d->out, " (");
    for (uint32_t i = 0; i < params->n; i++) {
        if (i > 0)
            fy_str_putc(&d->out, ' ');
        dump_span(d, d->t->symbols[params->symbols[i]]);
        uint32_t first = params->n - params->defaults.n;
        if (i >= first) {
            fy_str_putc(&d->out, '=');
            dump_node(d, params->defaults.item[i - first]);
        }
    }
    fy_str_printf(&d->out, ")%s%s%s", params->uses_caller ? " caller" : "",
                  params->uses_kwargs ? " kwargs" : "", params->uses_varargs ? " varargs" : "");
}

static void dump_body(dump *d, const fy_nodes *nodes)
{
    fy_str_puts(&d->out, " [");
    for (uint32_t i = 0; i < nodes->n; i++) {
        if (i > 0)
            fy_str_putc(&d->out, ' ');
        dump_node(d, nodes->item[i]);
    }
    fy_str_putc(&d->out, ']');
}

static void dump_head(dump *d, const fy_node *n)
{
    static const char *const ops[] = {"",   "neg", "pos", "not", "+",  "-", "*",  "/",  "//",   "%",
                                      "**", "==",  "!=",  "<",   "<=", ">", ">=", "in", "notin"};
    static const char *const kinds[] = {
        "",        "",          "list",        "tuple", "dict",  ".",
        "[]",      "slice",     "call",        "|",     "is ",   "",
        "",        "~",         "and",         "or",    "cmp",   "cond",
        "",        "print",     "if",          "for",   "set",   "setblock",
        "macro",   "callblock", "filterblock", "with",  "scope", "break",
        "continue"};
    fy_str_putc(&d->out, '(');
    fy_str_puts(&d->out,
                n->kind == FY_N_UNARY || n->kind == FY_N_BINARY ? ops[n->op] : kinds[n->kind]);
    if (n->kind == FY_N_FILTER || n->kind == FY_N_TEST)
        dump_span(d, n->str);
    if (d->lines && n->kind != FY_N_PRINT)
        fy_str_printf(&d->out, "@%u", n->line);
    if (n->kind != FY_N_COMPARE)
        return;
    dump_child(d, n->a);
    for (uint32_t i = 0; i < n->kids.n; i++) {
        fy_str_printf(&d->out, " %s", ops[n->ops[i]]);
        dump_child(d, n->kids.item[i]);
    }
}

static void dump_node(dump *d, const fy_node *n)
{
    if (n->kind == FY_N_CONST || n->kind == FY_N_TEXT) {
        dump_value(d, &n->value);
        return;
    }
    if (n->kind == FY_N_NAME) {
        dump_span(d, d->t->symbols[n->symbol]);
        if (d->lines)
            fy_str_printf(&d->out, "@%u", n->line);
        return;
    }
    dump_head(d, n);
    switch ((int)n->kind) {
    case FY_N_COMPARE:
    case FY_N_BREAK:
    case FY_N_CONTINUE:
        break;
    case FY_N_SLICE:
    case FY_N_COND:
        dump_child(d, n->a);
        dump_child(d, n->b);
        dump_child(d, n->c);
        break;
    case FY_N_GETATTR:
        dump_child(d, n->a);
        fy_str_putc(&d->out, ' ');
        dump_span(d, n->str);
        break;
    case FY_N_GETITEM:
    case FY_N_BINARY:
    case FY_N_AND:
    case FY_N_OR:
    case FY_N_SET:
        dump_child(d, n->a);
        dump_child(d, n->b);
        break;
    case FY_N_CALL:
    case FY_N_FILTER:
    case FY_N_TEST:
        dump_child(d, n->a);
        dump_args(d, n->args);
        break;
    case FY_N_UNARY:
    case FY_N_PRINT:
        dump_child(d, n->a);
        break;
    case FY_N_IF:
        dump_child(d, n->a);
        dump_body(d, &n->body);
        dump_body(d, &n->orelse);
        break;
    case FY_N_FOR:
        dump_child(d, n->a);
        dump_child(d, n->b);
        dump_child(d, n->c);
        fy_str_puts(&d->out, n->flag ? " recursive" : "");
        dump_body(d, &n->body);
        dump_body(d, &n->orelse);
        break;
    case FY_N_SET_BLOCK:
        dump_child(d, n->a);
        dump_child(d, n->b);
        dump_body(d, &n->body);
        break;
    case FY_N_MACRO:
        fy_str_putc(&d->out, ' ');
        dump_span(d, d->t->symbols[n->symbol]);
        dump_params(d, n->params);
        dump_body(d, &n->body);
        break;
    case FY_N_CALL_BLOCK:
        dump_child(d, n->a);
        dump_params(d, n->params);
        dump_body(d, &n->body);
        break;
    case FY_N_SCOPE:
        dump_body(d, &n->body);
        break;
    case FY_N_FILTER_BLOCK:
        dump_child(d, n->a);
        dump_body(d, &n->body);
        break;
    case FY_N_WITH:
        dump_children(d, &n->kids);
        dump_body(d, &n->body);
        break;
    default:
        dump_children(d, &n->kids);
    }
    fy_str_putc(&d->out, ')');
}

/* The statements of the template, blanks between them. */
static void dump_template(dump *d)
{
    for (uint32_t i = 0; i < d->t->body.n; i++) {
        if (i > 0)
            fy_str_putc(&d->out, ' ');
        dump_node(d, d->t->body.item[i]);
    }
}

#endif
