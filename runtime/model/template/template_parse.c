#include "model/template/template_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"

/* --- tokens ----------------------------------------------------------------------------------- */

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

static int fail_expected(fy_tparser *p, const char *wanted)
{
    char got[FY_TOK_TEXT];
    if (fy_tp_is(p, FY_TOK_EOF))
        return fy_tp_fail(p, &p->cur, "unexpected end of template, expected '%s'.", wanted);
    return fy_tp_fail(p, &p->cur, "expected token '%s', got '%s'", wanted,
                      fy_tok_text(&p->cur, got));
}

int fy_tp_expect(fy_tparser *p, fy_tok_kind kind)
{
    return fy_tp_is(p, kind) ? fy_tp_next(p) : fail_expected(p, fy_tok_kind_text(kind));
}

int fy_tp_expect_word(fy_tparser *p, fy_tword word)
{
    return fy_tp_is_word(p, word) ? fy_tp_next(p) : fail_expected(p, fy_tword_text(word));
}

int fy_tp_skip_kind(fy_tparser *p, fy_tok_kind kind)
{
    if (!fy_tp_is(p, kind))
        return 0;
    return fy_tp_next(p) == 0 ? 1 : -1;
}

int fy_tp_skip_word(fy_tparser *p, fy_tword word)
{
    if (!fy_tp_is_word(p, word))
        return 0;
    return fy_tp_next(p) == 0 ? 1 : -1;
}

/* --- nodes ------------------------------------------------------------------------------------ */

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

static int count_part(fy_tparser *p, const fy_tok *at)
{
    if (p->n_parts++ < FY_TEMPLATE_MAX_NODES)
        return 0;
    return fy_tlex_fail(p->e, FY_EUNSUPPORTED, at->line, at->column,
                        "the template has more than %d parts", FY_TEMPLATE_MAX_NODES);
}

fy_node *fy_tp_node(fy_tparser *p, fy_node_kind kind, const fy_tok *at)
{
    if (count_part(p, at) != 0)
        return NULL;
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

int fy_tp_push(fy_tparser *p, fy_node *n)
{
    if (n == NULL)
        return -1;
    fy_node **grown = fy_grow(p->stack, p->n_stack, &p->stack_cap, sizeof *p->stack);
    if (grown == NULL)
        return fy_nomem(p->e);
    p->stack = grown;
    p->stack[p->n_stack++] = n;
    return 0;
}

int fy_tp_push_key(fy_tparser *p, fy_span name)
{
    if (count_part(p, &p->cur) != 0)
        return -1;
    fy_span *grown = fy_grow(p->keys, p->n_keys, &p->keys_cap, sizeof *p->keys);
    if (grown == NULL)
        return fy_nomem(p->e);
    p->keys = grown;
    p->keys[p->n_keys++] = name;
    return 0;
}

int fy_tp_push_op(fy_tparser *p, fy_op op)
{
    fy_op *grown = fy_grow(p->ops, p->n_ops, &p->ops_cap, sizeof *p->ops);
    if (grown == NULL)
        return fy_nomem(p->e);
    p->ops = grown;
    p->ops[p->n_ops++] = op;
    return 0;
}

int fy_tp_take(fy_tparser *p, size_t mark, fy_nodes *out)
{
    size_t n = p->n_stack - mark;
    *out = (fy_nodes){NULL, 0};
    if (n == 0)
        return 0;
    fy_node **item = fy_arena_calloc(&p->t->arena, n, sizeof *item);
    if (item == NULL)
        return fy_nomem(p->e);
    memcpy(item, p->stack + mark, n * sizeof *item);
    p->n_stack = mark;
    *out = (fy_nodes){item, (uint32_t)n};
    return 0;
}

int fy_tp_intern(fy_tparser *p, fy_span name, uint32_t *symbol)
{
    if (fy_names_find(&p->names, name, symbol))
        return 0;
    fy_template *t = p->t;
    fy_span *grown = fy_grow(t->symbols, t->n_symbols, &p->symbols_cap, sizeof *t->symbols);
    if (grown != NULL)
        t->symbols = grown;
    if (grown == NULL || fy_names_add(&p->names, name, t->n_symbols) != 0)
        return fy_nomem(p->e);
    *symbol = t->n_symbols;
    t->symbols[t->n_symbols++] = name;
    return 0;
}

/* --- the template ----------------------------------------------------------------------------- */

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
    fy_tlex_init(&p->lex, t->text, &t->arena, e);
    int rc = fy_tp_next(p) != 0 || fy_tp_body(p, NULL, &t->body) != 0 ||
             fy_template_bind(t, e) != 0 || fy_tp_check(p) != 0;
    fy_names_release(&p->names);
    free(p->stack);
    free(p->keys);
    free(p->ops);
    fy_str_release(&p->scratch);
    free(p);
    return rc == 0 ? 0 : -1;
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
