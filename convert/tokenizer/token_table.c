#include "convert/tokenizer/token_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

fy_span fy_token_table_dup(fy_token_table *t, fy_span text)
{
    return (fy_span){fy_arena_strndup(&t->arena, text.ptr, text.len), text.len};
}

static int grow(fy_token_table *t, uint32_t n, fy_err *e)
{
    if (n > t->cap) {
        uint32_t cap = t->cap == 0 ? 1024 : t->cap * 2;
        if (cap < n)
            cap = n;
        fy_token_row *rows = realloc(t->rows, (size_t)cap * sizeof *rows);
        if (rows == NULL)
            return fy_nomem(e);
        t->rows = rows;
        t->cap = cap;
    }
    if (n > t->n) {
        memset(t->rows + t->n, 0, (size_t)(n - t->n) * sizeof *t->rows);
        t->n = n;
    }
    return 0;
}

static int index_add(fy_token_table *t, fy_span text, uint32_t id, fy_err *e)
{
    switch (fy_names_add(&t->index, text, id)) {
    case 0:
        return 0;
    case 1: {
        uint32_t other = 0;
        char q[FY_QUOTE_BYTES];
        fy_names_find(&t->index, text, &other);
        return fy_fail(e, FY_EFORMAT, "token %u: its text '%s' is the text of token %u, expected unique texts",
                       (unsigned)id, fy_quote(q, sizeof q, text), (unsigned)other);
    }
    default:
        return fy_nomem(e);
    }
}

int fy_token_table_put(fy_token_table *t, uint64_t id, fy_span text, bool copy, fy_err *e)
{
    char q[FY_QUOTE_BYTES], empty[32];
    if (id >= FY_TOKENS_MAX)
        return fy_fail(e, FY_EFORMAT, "token '%s': id %llu, expected less than %u", fy_quote(q, sizeof q, text),
                       (unsigned long long)id, FY_TOKENS_MAX);
    uint32_t i = (uint32_t)id;
    if (i < t->n && t->rows[i].type != FY_TOKEN_UNDEFINED) {
        char q2[FY_QUOTE_BYTES];
        return fy_fail(e, FY_EFORMAT, "id %u: taken by two tokens, '%s' and '%s'", (unsigned)i,
                       fy_quote(q, sizeof q, t->rows[i].text), fy_quote(q2, sizeof q2, text));
    }
    if (text.len == 0) {
        text = (fy_span){empty, (size_t)snprintf(empty, sizeof empty, "[EMPTY_%u]", (unsigned)i)};
        copy = true;
    }
    if (copy && (text = fy_token_table_dup(t, text)).ptr == NULL)
        return fy_nomem(e);
    if (grow(t, i + 1, e) != 0 || (!t->unindexed && index_add(t, text, i, e) != 0))
        return -1;
    t->stale = t->stale || t->unindexed;
    t->rows[i] = (fy_token_row){.text = text, .type = FY_TOKEN_NORMAL};
    return 0;
}

int fy_token_table_rename(fy_token_table *t, uint32_t id, fy_span text, fy_err *e)
{
    t->rows[id].text = text;
    t->stale = true;
    return fy_names_add(&t->index, text, id) < 0 ? fy_nomem(e) : 0;
}

bool fy_token_table_find(const fy_token_table *t, fy_span text, uint32_t *id)
{
    uint32_t i;
    if (!fy_names_find(&t->index, text, &i) || !fy_span_eq(t->rows[i].text, text))
        return false;
    *id = i;
    return true;
}

void fy_token_table_find_many(const fy_token_table *t, const fy_span *text, uint32_t *id, size_t n)
{
    fy_names_find_many(&t->index, text, id, n);
    for (size_t i = 0; t->stale && i < n; i++) {
        if (id[i] != FY_NAMES_ABSENT && !fy_span_eq(t->rows[id[i]].text, text[i]))
            id[i] = FY_NAMES_ABSENT;
    }
}

int fy_token_table_reindex(fy_token_table *t, fy_err *e)
{
    if (!t->stale)
        return 0;
    fy_names_release(&t->index);
    if (fy_names_reserve(&t->index, t->n) != 0)
        return fy_nomem(e);
    for (uint32_t i = 0; i < t->n; i++) {
        enum { AHEAD = 16 };
        if (t->n - i > AHEAD)
            fy_names_expect(&t->index, t->rows[i + AHEAD].text);
        if (t->rows[i].type != FY_TOKEN_UNDEFINED && index_add(t, t->rows[i].text, i, e) != 0)
            return -1;
    }
    t->stale = t->unindexed = false;
    return 0;
}

void fy_token_table_release(fy_token_table *t)
{
    free(t->rows);
    fy_names_release(&t->index);
    fy_arena_release(&t->arena);
    *t = (fy_token_table){0};
}
