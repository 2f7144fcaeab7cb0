/* The table of tokens that every reader of a vocabulary fills, and the added tokens that are
 * applied to it afterwards. */
#include "convert/tokenizer/token_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

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
        return fy_fail(e, FY_EFORMAT,
                       "token %u: its text '%s' is the text of token %u, expected unique texts",
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
        return fy_fail(e, FY_EFORMAT, "token '%s': id %llu, expected less than %u",
                       fy_quote(q, sizeof q, text), (unsigned long long)id, FY_TOKENS_MAX);
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

/* === added_tokens === */

#define ADDED_SCORE (-1000.0f) /* what llama.cpp's converter gives to added tokens */

int fy_added_tokens_push(fy_added_tokens *a, uint64_t id, fy_span text, bool special, uint8_t flags,
                         fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    if (id >= FY_TOKENS_MAX)
        return fy_fail(e, FY_EFORMAT, "added token '%s': id %llu, expected less than %u",
                       fy_quote(q, sizeof q, text), (unsigned long long)id, FY_TOKENS_MAX);
    if (text.len == 0) /* the tokenizers library ignores these too */
        return 0;
    const fy_added_token added = {
        .id = (uint32_t)id, .special = special, .flags = flags, .text = text};
    return fy_append(&a->v, &a->n, &a->cap, &added, sizeof added, e);
}

void fy_added_tokens_release(fy_added_tokens *a)
{
    free(a->v);
    *a = (fy_added_tokens){0};
}

uint8_t fy_added_token_flag(fy_span name)
{
    static const struct {
        const char *name;
        uint8_t bit;
    } flags[] = {{"lstrip", FY_ADDED_LSTRIP},
                 {"rstrip", FY_ADDED_RSTRIP},
                 {"single_word", FY_ADDED_SINGLE_WORD},
                 {"normalized", FY_ADDED_NORMALIZED}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (fy_span_is(name, flags[i].name))
            return flags[i].bit;
    }
    return 0;
}

static bool is_framed(fy_span s, fy_span head, fy_span tail)
{
    return s.len >= head.len + tail.len && memcmp(s.ptr, head.ptr, head.len) == 0 &&
           memcmp(s.ptr + s.len - tail.len, tail.ptr, tail.len) == 0;
}

bool fy_added_token_looks_special(fy_span text)
{
    static const char *const names[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (fy_span_is(text, names[i]))
            return true;
    }
    /* U+FF5C: the full-width bar of DeepSeek's tokens */
    return is_framed(text, FY_SPAN("<|"), FY_SPAN("|>")) ||
           is_framed(text, FY_SPAN("<\xEF\xBD\x9C"), FY_SPAN("\xEF\xBD\x9C>")) ||
           is_framed(text, FY_SPAN("<unused"), FY_SPAN(">"));
}

/* FY_BLANK -> ' ', in the table's arena. */
static fy_span unescaped(fy_token_table *t, fy_span text)
{
    char *out = fy_arena_alloc(&t->arena, text.len);
    return (fy_span){out, out != NULL ? fy_unspell_blanks(out, text) : 0};
}

/* A text that another id has already: the tokenizers library knows the token by its text, so that
 * id stays. */
static bool taken_elsewhere(const fy_token_table *t, fy_span text, uint32_t id)
{
    uint32_t other;
    char q[FY_QUOTE_BYTES];
    if (!fy_token_table_find(t, text, &other) || other == id)
        return false;
    fy_log(FY_LOG_WARN,
           "added token '%s': listed as id %u, but it is token %u of the vocabulary, which is kept",
           fy_quote(q, sizeof q, text), (unsigned)id, (unsigned)other);
    return true;
}

static int apply_one(const fy_added_token *a, bool unescape, fy_token_table *t, fy_err *e)
{
    fy_span text = a->text;
    if (unescape && !a->special && (a->flags & FY_ADDED_NORMALIZED) &&
        (text = unescaped(t, text)).ptr == NULL)
        return fy_nomem(e);
    if (taken_elsewhere(t, text, a->id))
        return 0;
    bool hole = a->id >= t->n || t->rows[a->id].type == FY_TOKEN_UNDEFINED;
    if (hole && fy_token_table_put(t, a->id, text, false, e) != 0)
        return -1;
    fy_token_row *r = &t->rows[a->id];
    if (!fy_span_eq(r->text, text)) {
        char q[FY_QUOTE_BYTES], q2[FY_QUOTE_BYTES];
        fy_log(FY_LOG_INFO, "token %u: '%s' is replaced by the added token '%s'", (unsigned)a->id,
               fy_quote(q, sizeof q, r->text), fy_quote(q2, sizeof q2, text));
        if (fy_token_table_rename(t, a->id, text, e) != 0)
            return -1;
        r->merged = false;
    }
    if (r->type != FY_TOKEN_UNKNOWN)
        r->type = a->special ? FY_TOKEN_CONTROL : FY_TOKEN_USER;
    if (!r->merged)
        r->score = ADDED_SCORE;
    r->flags = (uint8_t)(a->flags | (r->merged ? FY_ADDED_MERGED : 0));
    r->added = true;
    return 0;
}

/* A run of U+2581 that merging makes from left to right, because all shorter ones are tokens. */
static bool is_blank_run(const fy_token_table *t, fy_span text)
{
    const size_t blank = strlen(FY_BLANK);
    uint32_t id;
    for (size_t n = 0; n < text.len; n += blank) {
        if (!fy_span_begins((fy_span){text.ptr + n, text.len - n}, FY_BLANK) ||
            (n > blank && !fy_token_table_find(t, (fy_span){text.ptr, n}, &id)))
            return false;
    }
    return text.len > blank;
}

int fy_added_tokens_unescape(fy_token_table *t, fy_err *e)
{
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t other;
        if (t->rows[i].type != FY_TOKEN_USER)
            continue;
        if (is_blank_run(t, t->rows[i].text)) {
            t->rows[i].type = FY_TOKEN_NORMAL;
            t->rows[i].merged = true;
            t->rows[i].score = (float)t->n;
            continue;
        }
        fy_span text = unescaped(t, t->rows[i].text);
        if (text.ptr == NULL)
            return fy_nomem(e);
        if (!fy_span_eq(text, t->rows[i].text) && !fy_token_table_find(t, text, &other) &&
            fy_token_table_rename(t, i, text, e) != 0)
            return -1;
    }
    return fy_token_table_reindex(t, e);
}

int fy_added_tokens_apply(const fy_added_tokens *a, bool unescape, fy_token_table *t, fy_err *e)
{
    for (size_t i = 0; i < a->n; i++) {
        if (apply_one(&a->v[i], unescape, t, e) != 0)
            return -1;
    }
    return fy_token_table_reindex(t, e);
}
