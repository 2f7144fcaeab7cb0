#include "convert/tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"

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
    fy_added_token *v = fy_grow(a->v, a->n, &a->cap, sizeof *v);
    if (v == NULL)
        return fy_nomem(e);
    a->v = v;
    a->v[a->n++] =
        (fy_added_token){.id = (uint32_t)id, .special = special, .flags = flags, .text = text};
    return 0;
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
           "added token '%s': listed as id %u, but it is token %u of the vocabulary, which stays",
           fy_quote(q, sizeof q, text), (unsigned)id, (unsigned)other);
    return true;
}

static int apply_one(const fy_added_token *a, bool unescape, fy_token_table *t, fy_err *e)
{
    fy_span text = a->text;
    if (unescape && !a->special && (text = unescaped(t, text)).ptr == NULL)
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

int fy_added_tokens_unescape(fy_token_table *t, fy_err *e)
{
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t other;
        if (t->rows[i].type != FY_TOKEN_USER)
            continue;
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
