/* What the normalizer and pre_tokenizer of a Unigram tokenizer.json mean: the steps that
 * transformers makes of a SentencePiece model, told apart by their structure. */
#ifndef FY_CONVERT_UNIGRAM_MATCH_H
#define FY_CONVERT_UNIGRAM_MATCH_H

#include "base/str.h"
#include "convert/tokenizer/pretok_match.h"

typedef struct {
    fy_pretok pretok;
    bool trims;        /* extra blanks are dropped */
    const char *rules; /* static: value of FY_KEY_UNIGRAM */
    fy_str charsmap;   /* owned; of the step Precompiled, empty: none */
} fy_unigram_steps;

/* A structure that is not known is FY_EUNSUPPORTED with its steps in the message. Released with
 * fy_str_release(&out->charsmap), also after a failure. */
int fy_unigram_match(const json_t *normalizer, const json_t *pre_tokenizer, fy_unigram_steps *out,
                     fy_err *e);

#endif
