/* Added tokens: the entries a checkpoint puts on top of the model's own vocabulary, or over entries
 * of it. Several files list them (added_tokens.json, tokenizer.json, tokenizer_config.json); a
 * later list wins for the same id. */
#ifndef FY_CONVERT_ADDED_TOKENS_H
#define FY_CONVERT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "convert/tokenizer/token_table.h"

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

/* Special by its look: <|...|>, <pad>, ... Only for lists without the flag: a token that looks
 * special but says that it is not (<|fim_prefix|> of Qwen) is found in any text by the reference.
 */
bool fy_added_token_looks_special(fy_span text);

/* Puts the list into the table, in order: new ids are filled, texts and types of old ones replaced.
 * unescape: U+2581 in ordinary added tokens stands for a blank (SentencePiece). */
int fy_added_tokens_apply(const fy_added_tokens *a, bool unescape, fy_token_table *t, fy_err *e);

/* The same blank in every user-defined entry of the table: such tokens are found in the text before
 * its blanks become U+2581. */
int fy_added_tokens_unescape(fy_token_table *t, fy_err *e);

#endif
