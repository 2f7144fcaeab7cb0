/* The vocabulary of a tokenizer while it is read: one row per id, and texts found by hash.
 *
 * Rows are filled by id in any order; ids nobody filled stay holes (type FY_TOKEN_UNDEFINED). Texts are ptr + len
 * (they may hold NULs), views of the mapped file or of the table's arena, and unique: readers of GGUF refuse a
 * vocabulary with two equal texts. Zero-initialise with fy_token_table t = {0}. */
#ifndef FY_CONVERT_TOKEN_TABLE_H
#define FY_CONVERT_TOKEN_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/names.h"
#include "base/str.h"
#include "model/vocab/vocab.h"

/* Above any vocabulary in use (the largest known has 901629); keeps a hostile id from becoming gigabytes of holes. */
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
    bool unindexed;     /* set by who fills many rows and calls fy_token_table_reindex */
    bool stale;         /* `index` lacks a row, or holds a text that was replaced */
    fy_names index;
    fy_arena arena;
} fy_token_table;

/* Fills the hole `id`; a filled id or a text that another id has is FY_EFORMAT. copy: the text does not outlive
 * the call. An empty text becomes "[EMPTY_<id>]". */
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

#endif
