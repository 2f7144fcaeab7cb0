/* The parts of `ferry tokenize` that stand for themselves: JSON lines, and the comparison with a
 * reference's answers. */
#ifndef FY_CLI_TOKENIZE_JOBS_H
#define FY_CLI_TOKENIZE_JOBS_H

#include "base/err.h"
#include "base/str.h"
#include "model/vocab/vocab.h"

/* Answers standard input line by line, on standard output. An error names the line. */
int fy_tokenize_jsonl(const fy_vocab *v, fy_err *e);

/* Compares with the cases of a parity.json or golden.json, or of llama.cpp's FILE.inp with FILE.out
 * beside it, and prints a report; FY_EVERIFY when any differs. */
int fy_tokenize_verify(const fy_vocab *v, const char *path, fy_err *e);

/* Stops where the user interrupts: the caller checks that before it shows them. */
void fy_put_ids(const fy_ids *ids, char separator, fy_str *out);
/* Appends the text of ids, special tokens as their text, as valid UTF-8. */
int fy_decode_lossy(const fy_vocab *v, const fy_ids *ids, fy_str *out, fy_err *e);

#endif
