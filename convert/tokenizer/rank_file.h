/* Rank files of tiktoken, which some checkpoints ship as tokenizer.model: lines of "base64 rank",
 * the bytes of a token and its id. Two neighbours merge when their bytes together are a token, the
 * lowest rank first; written down, that is every way to cut a token in two tokens, in the order of
 * ranks. */
#ifndef FY_CONVERT_RANK_FILE_H
#define FY_CONVERT_RANK_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "convert/tokenizer/token_table.h"

/* Does the first line look like one of a rank file? */
bool fy_rank_file_is(const void *p, size_t n);

/* Fills `t` (empty before) with the tokens in the byte alphabet, and *merges (released by the
 * caller, also after a failure) with lines of "left right". */
int fy_rank_file_parse(const void *p, size_t n, fy_token_table *t, fy_str *merges, fy_err *e);

#endif
