/* The vocabulary of RWKV World: lines of "ID LITERAL BYTES", cut at the first and the last blank.
 * LITERAL is a string or a bytes literal of Python, BYTES how many bytes it stands for; id 0 has no
 * line and ends a text. */
#ifndef FY_CONVERT_RWKV_VOCAB_H
#define FY_CONVERT_RWKV_VOCAB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "convert/tokenizer/token_table.h"

/* The name such a file has in a checkpoint. */
#define FY_RWKV_VOCAB_NAME "rwkv_vocab_v20230424.txt"
/* Rows that the embedding of every World model has. */
#define FY_RWKV_VOCAB_ROWS 65536

/* Does the first line look like one of such a file? */
bool fy_rwkv_vocab_is(const void *p, size_t n);

/* Fills `t` (empty before): id 0 is "<s>" (control), the others are written as Python's repr()
 * writes bytes, which is how a "rwkv" vocabulary of GGUF holds them. */
int fy_rwkv_vocab_parse(const void *p, size_t n, fy_token_table *t, fy_err *e);

#endif
