/* Pre-tokenizers: how byte-level BPE cuts text into words before it merges, as lists of regular
 * expressions. fy_pretok_rules is the only list of them: the engine runs its patterns, convert
 * compares the patterns of a tokenizer.json with it.
 *
 * Patterns are spelled as tokenizer.json spells them (Oniguruma) and translated for PCRE2. A list
 * is applied in sequence: each pattern cuts every piece of the one before into matches and gaps. A
 * compiled fy_pretok_code is immutable and shared; match data belongs to one call.
 * Source: src/llama-vocab.cpp of llama.cpp for the names, the tokenizer.json of each family. */
#ifndef FY_PRETOK_H
#define FY_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum { FY_PRETOK_PATTERNS = 6 };

typedef struct {
    const char *name, *aliases; /* values of tokenizer.ggml.pre; the aliases with spaces between */
    const char *pattern[FY_PRETOK_PATTERNS]; /* up to the first NULL */
    bool ignore_merges;                      /* a word that is a token is not merged */
    bool adds_bos;                           /* what a file without add_bos_token means */
    bool whole;                              /* the last pattern matches every character */
    int bytes_from; /* from this pattern on they match bytes, not characters; 0: none does */
} fy_pretok_rule;

extern const fy_pretok_rule fy_pretok_rules[]; /* pretok_table.c */
extern const size_t fy_pretok_n_rules;
/* Of the step ByteLevel: the expression of "gpt-2"; of Punctuation: one mark. */
extern const char fy_pretok_gpt2[], fy_pretok_mark[];

const fy_pretok_rule *fy_pretok_find_rule(fy_span pre); /* NULL: unknown */
void fy_pretok_list(fy_str *out);                       /* the known values, for a message */

typedef struct fy_pretok_code fy_pretok_code;

fy_pretok_code *fy_pretok_new(const fy_pretok_rule *rule, fy_err *e);
/* One pattern of a file: it may be anything, so its size and the work of a match are bounded.
 * FY_EUNSUPPORTED: it is not an expression, or PCRE2 would read it differently. */
fy_pretok_code *fy_pretok_of_file(fy_span pattern, fy_err *e);
void fy_pretok_free(fy_pretok_code *p); /* NULL is fine */

/* Calls emit for every word of `text` (valid UTF-8), in order. A word may be part of a character
 * where a rule matches bytes. */
typedef int fy_word_fn(void *ctx, fy_span word, fy_err *e);
int fy_pretok_split(const fy_pretok_code *p, fy_span text, fy_word_fn *emit, void *ctx, fy_err *e);

/* The first match of the first pattern at or after `pos`, which may be empty: 1; 0: none; -1. */
int fy_pretok_next(const fy_pretok_code *p, fy_span text, size_t pos, size_t *begin, size_t *end,
                   fy_err *e);

#endif
