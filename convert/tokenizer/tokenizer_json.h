/* The merge rules of a BPE tokenizer, in order: the array of a tokenizer.json, of "left right" or
 * ["left", "right"], or the lines of a merges.txt. They are read again whenever they are needed and
 * never stored. */
#ifndef FY_CONVERT_TOKENIZER_JSON_H
#define FY_CONVERT_TOKENIZER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "convert/tokenizer/token_table.h"

typedef struct {
    const char *data; /* view: begins with the array, or with the first line */
    size_t size;
    bool lines; /* a merges.txt */
} fy_merge_source;

/* One pass. */
typedef struct {
    fy_json *j;    /* owned; NULL: lines */
    fy_span rest;  /* of the lines */
    uint64_t line; /* the current one, from 1 */
    fy_str pair;
    fy_span left, right; /* the current merge; valid until the next call */
    uint64_t n;          /* merges read, the current one included */
} fy_merges;

int fy_merges_open(fy_merges *m, const fy_merge_source *source, fy_err *e);
int fy_merges_next(fy_merges *m, fy_err *e); /* 1: left and right are set; 0: no more; -1 */
void fy_merges_close(fy_merges *m);

/* tokenizer.json of the Hugging Face tokenizers library, as far as a BPE or Unigram vocabulary
 * needs it. The large parts (vocabulary, merges) are streamed: texts are views of the mapped file,
 * merges are only found (convert/tokenizer/merges.h). The small ones (normalizer, pre_tokenizer,
 * post_processor, decoder) are jansson values. */

typedef struct {
    const char *data; /* view: the file, must outlive this */
    size_t size;
    fy_span unk_token; /* view; ptr NULL: none */
    bool byte_fallback, ignore_merges;
    bool unigram;    /* the model is a Unigram, with scores in the table; else a BPE */
    uint64_t unk_id; /* of a Unigram; UINT64_MAX: none */
    fy_merge_source merges;
    json_t *normalizer, *pre_tokenizer, *post_processor, *decoder; /* owned; NULL: absent */
} fy_tokenizer_json;

/* Reads the document. The model's own vocabulary goes to `t` (empty before), the added tokens to
 * `added`; both may hold views of p. Models other than BPE and Unigram (WordPiece, WordLevel) are
 * FY_EUNSUPPORTED by name. After a failure fy_tokenizer_json_release still has to be called. */
int fy_tokenizer_json_parse(const void *p, size_t n, fy_tokenizer_json *out, fy_token_table *t,
                            fy_added_tokens *added, fy_err *e);
void fy_tokenizer_json_release(fy_tokenizer_json *tj);

/* vocab.json: {"text": id, ...} into `t` (empty before), which may hold views of p. */
int fy_vocab_json_parse(const void *p, size_t n, fy_token_table *t, fy_err *e);

#endif
