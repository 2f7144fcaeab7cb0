/* The vocabulary of a tokenizer while it is read: one row per id, and texts found by hash.
 *
 * Rows are filled by id in any order; ids that are never filled stay holes (type
 * FY_TOKEN_UNDEFINED). Texts are ptr + len (they may hold NULs), views of the mapped file or of the
 * table's arena, and unique: readers of GGUF refuse a vocabulary with two equal texts.
 * Zero-initialise with fy_token_table t = {0}. */
#ifndef FY_CONVERT_TOKEN_TABLE_H
#define FY_CONVERT_TOKEN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/names.h"
#include "base/str.h"
#include "model/vocab/vocab.h"

/* Above any vocabulary in use (the largest known has 901629); keeps a hostile id from becoming
 * gigabytes of holes. */
#define FY_TOKENS_MAX (1u << 20)

typedef struct {
    fy_span text; /* view */
    float score;
    uint8_t type;  /* fy_token_type */
    uint8_t flags; /* FY_ADDED_* */
    bool merged;   /* SentencePiece: a merge makes it */
    bool added;    /* an added token, not an entry of the model's own vocabulary */
} fy_token_row;

typedef struct {
    fy_token_row *rows; /* owned */
    uint32_t n, cap;    /* n: highest id + 1 */
    bool unindexed; /* set by callers that fill many rows and then call fy_token_table_reindex */
    bool stale;     /* `index` lacks a row, or holds a text that was replaced */
    fy_names index;
    fy_arena arena;
} fy_token_table;

/* Fills the hole `id`; a filled id or a text that another id has is FY_EFORMAT. copy: the text does
 * not outlive the call. An empty text becomes "[EMPTY_<id>]". */
int fy_token_table_put(fy_token_table *t, uint64_t id, fy_span text, bool copy, fy_err *e);

/* Gives a filled id another text (a view that lives as long as the table). */
int fy_token_table_rename(fy_token_table *t, uint32_t id, fy_span text, fy_err *e);

bool fy_token_table_find(const fy_token_table *t, fy_span text, uint32_t *id);

/* n lookups at once (fy_names_find_many); FY_NAMES_ABSENT: no token has that text. */
void fy_token_table_find_many(const fy_token_table *t, const fy_span *text, uint32_t *id, size_t n);

/* Brings the index up to date: after renames, and after rows were put into an unindexed table, of
 * which two with one text are found here. */
int fy_token_table_reindex(fy_token_table *t, fy_err *e);

/* A copy in the table's arena; ptr NULL when out of memory. */
fy_span fy_token_table_dup(fy_token_table *t, fy_span text);

void fy_token_table_release(fy_token_table *t);

/* Added tokens: the entries a checkpoint puts on top of the model's own vocabulary, or over entries
 * of it. Several files list them (added_tokens.json, tokenizer.json, tokenizer_config.json); a
 * later list wins for the same id. */

typedef struct {
    uint32_t id;
    bool special;
    uint8_t flags; /* FY_ADDED_* */
    fy_span text;  /* view */
} fy_added_token;

typedef struct {
    fy_added_token *v; /* owned */
    size_t n, cap;
} fy_added_tokens;

/* Ids must be below FY_TOKENS_MAX. */
int fy_added_tokens_push(fy_added_tokens *a, uint64_t id, fy_span text, bool special, uint8_t flags,
                         fy_err *e);
void fy_added_tokens_release(fy_added_tokens *a);

/* "lstrip" -> FY_ADDED_LSTRIP, ...; 0 for any other name. */
uint8_t fy_added_token_flag(fy_span name);

/* Looks special: <|...|>, <pad>, ... Only for lists without the flag: a token that looks
 * special but is marked as not special (<|fim_prefix|> of Qwen) is found in any text by the
 * reference.
 */
bool fy_added_token_looks_special(fy_span text);

/* Puts the list into the table, in order: new ids are filled, texts and types of old ones replaced.
 * unescape: U+2581 in ordinary added tokens that are matched in normalised text stands for a space
 * (SentencePiece); in others it is itself. */
int fy_added_tokens_apply(const fy_added_tokens *a, bool unescape, fy_token_table *t, fy_err *e);

/* The same for every user-defined entry of a SentencePiece model: such tokens are found in the text
 * before its spaces become U+2581. Runs of U+2581 become ordinary tokens that merge before all
 * others, which finds the longest one first, as SentencePiece does. */
int fy_added_tokens_unescape(fy_token_table *t, fy_err *e);

#endif
