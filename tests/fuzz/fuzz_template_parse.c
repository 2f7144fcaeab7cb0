/* The parser of templates: a refusal says where; a tree is no deeper than it may be, its lists and
 * their counts agree, and it can be walked; the same text gives the same answer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template.h"
#include "tests/unit/template/template_dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void walk(const fy_template *t, const fy_node *n, int depth);

static void walk_all(const fy_template *t, const fy_nodes *nodes, int depth)
{
    for (uint32_t i = 0; i < nodes->n; i++)
        walk(t, nodes->item[i], depth);
}

static void walk(const fy_template *t, const fy_node *n, int depth)
{
    if (n == NULL)
        return;
    require(depth <= FY_TEMPLATE_MAX_DEPTH && n->line > 0 && n->column > 0);
    require(n->kind != FY_N_NAME || n->symbol < t->n_symbols);
    require((n->kind != FY_N_DICT && n->kind != FY_N_WITH) || n->kids.n % 2 == 0);
    walk(t, n->a, depth + 1);
    walk(t, n->b, depth + 1);
    walk(t, n->c, depth + 1);
    walk_all(t, &n->kids, depth + 1);
    walk_all(t, &n->body, depth + 1);
    walk_all(t, &n->orelse, depth + 1);
    if (n->args != NULL) {
        require(n->args->values.n == 0 || n->args->names != NULL);
        walk_all(t, &n->args->args, depth + 1);
        walk_all(t, &n->args->values, depth + 1);
        walk(t, n->args->star, depth + 1);
        walk(t, n->args->dstar, depth + 1);
    }
    if (n->params != NULL) {
        require(n->params->defaults.n <= n->params->n);
        for (uint32_t i = 0; i < n->params->n; i++)
            require(n->params->symbols[i] < t->n_symbols);
        walk_all(t, &n->params->defaults, depth + 1);
    }
}

static fy_str dump_of(const fy_template *t)
{
    dump d = {.t = t, .lines = true};
    dump_template(&d);
    return d.out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0}, again = {0};
    fy_span text = {(const char *)data, size};
    fy_template *t = fy_template_parse(text, &e), *u = fy_template_parse(text, &again);
    require((t == NULL) == (u == NULL) && strcmp(e.msg, again.msg) == 0);
    if (t == NULL) {
        require(e.code == FY_EFORMAT || e.code == FY_EUNSUPPORTED);
        require(strncmp(e.msg, "line ", 5) == 0 && strstr(e.msg, ", column ") != NULL);
        return 0;
    }
    for (uint32_t i = 0; i < t->body.n; i++)
        walk(t, t->body.item[i], 1);
    fy_str a = dump_of(t), b = dump_of(u);
    require(a.len == b.len && memcmp(fy_str_z(&a), fy_str_z(&b), a.len) == 0);
    fy_str_release(&a);
    fy_str_release(&b);
    fy_template_free(t);
    fy_template_free(u);
    return 0;
}
