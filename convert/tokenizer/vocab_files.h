/* SentencePiece models (tokenizer.model): the protobuf of sentencepiece_model.proto, read in place.
 * Only the fields a tokenizer needs are kept; unknown fields are skipped as protobuf demands. */
#ifndef FY_CONVERT_VOCAB_FILES_H
#define FY_CONVERT_VOCAB_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "convert/tokenizer/token_table.h"

typedef enum { FY_SPM_UNIGRAM = 1, FY_SPM_BPE, FY_SPM_WORD, FY_SPM_CHAR } fy_spm_type;

typedef struct {
    int64_t model_type; /* fy_spm_type, or the number in the file */
    bool byte_fallback;
    bool suffix_whitespace;                 /* treat_whitespace_as_suffix */
    int64_t unk_id, bos_id, eos_id, pad_id; /* -1: none */
    fy_span normalizer;                     /* view: "identity", "nmt_nfkc", ... */
    fy_span charsmap;                       /* view: precompiled_charsmap */
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
} fy_spm_info;

/* Fills `t` (empty before) with the pieces, their scores and types; the texts are views of p. Every
 * model type is read: the caller decides. */
int fy_spm_parse(const void *p, size_t n, fy_token_table *t, fy_spm_info *info, fy_err *e);

const char *fy_spm_type_name(int64_t model_type); /* "Unigram", ...; "unknown" */

/* Base64 (RFC 4648, section 4), as rank files and tokenizer.json hold bytes. */

/* Appends the bytes. Padding may be left out. False: a character that is not a digit of it. */
bool fy_base64_decode(fy_span s, fy_str *out);

/* Rank files of tiktoken, which some checkpoints ship as tokenizer.model: lines of "base64 rank",
 * the bytes of a token and its id. Two neighbours merge when their bytes together are a token, the
 * lowest rank first; written down, that is every way to cut a token in two tokens, in the order of
 * ranks. */

/* Does the first line look like one of a rank file? */
bool fy_rank_file_is(const void *p, size_t n);

/* Fills `t` (empty before) with the tokens in the byte alphabet, and *merges (released by the
 * caller, also after a failure) with lines of "left right". */
int fy_rank_file_parse(const void *p, size_t n, fy_token_table *t, fy_str *merges, fy_err *e);

/* The special tokens of Llama 3, which are in no file of Meta's own checkpoints: its code numbers
 * them after the ranks of tokenizer.model. Source: meta-llama/llama-models,
 * models/llama3/tokenizer.py. */

enum { FY_META_TOKENS = 256 };

/* Appends them to the ranks in `t`. n_rows: vocab_size of params.json, 0 when it is not stated. A
 * model with fewer rows than all of them need gets only those of conversations, in their order. */
int fy_meta_tokens_add(fy_token_table *t, uint64_t n_rows, fy_err *e);
/* The same of Llama 4, which has 2048. */
int fy_llama4_tokens_add(fy_token_table *t, fy_err *e);

/* The vocabulary of RWKV World: lines of "ID LITERAL BYTES", cut at the first and the last space.
 * LITERAL is a string or a bytes literal of Python, BYTES how many bytes it stands for; id 0 has no
 * line and ends a text. */

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
