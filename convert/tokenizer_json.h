/* tokenizer.json of the Hugging Face tokenizers library, as far as a BPE vocabulary needs it. The
 * large parts (vocabulary, merges) are streamed: texts are views of the mapped file, merges are
 * read again whenever they are needed and never stored. The small ones (normalizer, pre_tokenizer,
 * post_processor) are jansson values. */
#ifndef FY_CONVERT_TOKENIZER_JSON_H
#define FY_CONVERT_TOKENIZER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "convert/added_tokens.h"
#include "convert/token_table.h"

typedef struct {
    const char *data; /* view: the file, must outlive this */
    size_t size;
    fy_span unk_token; /* view; ptr NULL: none */
    bool byte_fallback, ignore_merges;
    size_t merges_at; /* offset of the array */
    uint64_t n_merges;
    json_t *normalizer, *pre_tokenizer, *post_processor; /* owned; NULL: absent */
} fy_tokenizer_json;

/* Reads the document. The model's own vocabulary goes to `t` (empty before), the added tokens to
 * `added`; both may hold views of p. Models other than BPE (Unigram, WordPiece, WordLevel) are
 * FY_EUNSUPPORTED by name. After a failure fy_tokenizer_json_release still has to be called. */
int fy_tokenizer_json_parse(const void *p, size_t n, fy_tokenizer_json *out, fy_token_table *t,
                            fy_added_tokens *added, fy_err *e);
void fy_tokenizer_json_release(fy_tokenizer_json *tj);

/* One pass over the merges, in order. */
typedef struct {
    fy_json *j; /* owned */
    fy_str pair;
    fy_span left, right; /* the current merge; valid until the next call */
    uint64_t n;          /* merges read, the current one included */
} fy_merges;

int fy_merges_open(fy_merges *m, const fy_tokenizer_json *tj, fy_err *e);
int fy_merges_next(fy_merges *m, fy_err *e); /* 1: left and right are set; 0: no more; -1 */
void fy_merges_close(fy_merges *m);

#endif
