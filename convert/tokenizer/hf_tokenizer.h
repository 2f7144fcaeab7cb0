/* The tokenizer of a checkpoint directory, read into one form whatever the container:
 * tokenizer.json (byte-level BPE, SentencePiece-like BPE with byte fallback, Unigram),
 * tokenizer.model (SentencePiece protobuf, BPE or Unigram; or the ranks of tiktoken), vocab.json
 * with merges.txt, or the vocabulary of RWKV World, completed by tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json, generation_config.json and the chat template files.
 * The pre-tokenizer is recognised from the structure of tokenizer.json, never by a hash of its
 * output. */
#ifndef FY_CONVERT_HF_TOKENIZER_H
#define FY_CONVERT_HF_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/gguf_write.h"

typedef struct fy_hf_tokenizer fy_hf_tokenizer;

/* Reads the tokenizer files of `path`, a directory, or that one file alone (its
 * content tells what it is, not its name). A file that is not a tokenizer (an LFS pointer, HTML) is
 * reported as what it is. force_pre: value of tokenizer.ggml.pre to use when the structure is unknown; NULL: an
 * unknown structure is FY_EUNSUPPORTED with the structure printed in the message. NULL on failure.
 */
fy_hf_tokenizer *fy_hf_tokenizer_open(const char *path, const char *force_pre, fy_err *e);
void fy_hf_tokenizer_free(fy_hf_tokenizer *t); /* NULL is fine */

/* Replaces the chat template of the directory by another one: "none", a built-in one's name, or a file. */
int fy_hf_tokenizer_use_template(fy_hf_tokenizer *t, const char *which, fy_err *e);

/* Entries the tokenizer itself has (highest id + 1). */
uint32_t fy_hf_tokenizer_n_tokens(const fy_hf_tokenizer *t);

/* Adds the general.sampling.* keys that generation_config.json gives. */
int fy_hf_tokenizer_write_sampling(const fy_hf_tokenizer *t, fy_gguf_writer *w, fy_err *e);

/* Adds every tokenizer.* key and ferry's own ones (model/vocab/vocab.h). n_rows: rows of
 * token_embd; the token array gets exactly n_rows entries (padding "[PAD<i>]", unused; trailing
 * added tokens beyond n_rows dropped with a warning; more ordinary tokens than rows is an error).
 * n_rows 0 (vocab only): config.json's vocab_size when it is there and not smaller, else n_tokens.
 */
int fy_hf_tokenizer_write(const fy_hf_tokenizer *t, uint32_t n_rows, fy_gguf_writer *w, fy_err *e);

#endif
