/* SentencePiece models (tokenizer.model): the protobuf of sentencepiece_model.proto, read in place.
 * Only the fields a tokenizer needs are kept; unknown fields are skipped as protobuf demands. */
#ifndef FY_CONVERT_SPM_PROTO_H
#define FY_CONVERT_SPM_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "convert/tokenizer/token_table.h"

typedef enum { FY_SPM_UNIGRAM = 1, FY_SPM_BPE, FY_SPM_WORD, FY_SPM_CHAR } fy_spm_type;

typedef struct {
    int64_t model_type; /* fy_spm_type, or what the file says */
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

#endif
