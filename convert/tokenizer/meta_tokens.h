/* The special tokens of Llama 3, which are in no file of Meta's own checkpoints: its code numbers
 * them behind the ranks of tokenizer.model. Source: meta-llama/llama-models,
 * models/llama3/tokenizer.py. */
#ifndef FY_CONVERT_META_TOKENS_H
#define FY_CONVERT_META_TOKENS_H

#include <stdint.h>

#include "base/err.h"
#include "convert/tokenizer/token_table.h"

enum { FY_META_TOKENS = 256 };

/* Appends them to the ranks in `t`. n_rows: vocab_size of params.json, 0 when it is not stated. A
 * model with fewer rows than all of them need has just those of a conversation, in their order. */
int fy_meta_tokens_add(fy_token_table *t, uint64_t n_rows, fy_err *e);

#endif
