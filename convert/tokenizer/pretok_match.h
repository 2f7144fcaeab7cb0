/* The steps of a normalizer, pre_tokenizer or decoder of a tokenizer.json, Sequences flattened.
 * Everything is a view of the jansson tree. */
#ifndef FY_CONVERT_PRETOK_MATCH_H
#define FY_CONVERT_PRETOK_MATCH_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"
#include "convert/tokenizer/token_table.h"

enum { FY_STEPS_MAX = 15 };

typedef struct {
    const json_t *v[FY_STEPS_MAX];
    size_t n;
} fy_steps;

bool fy_steps_have(const fy_steps *s, const char *type);

const char *fy_step_text(const json_t *step, const char *key); /* "" when it is not a text */
bool fy_step_flag(const json_t *step, const char *key, bool absent);

/* What the normalizer and pre_tokenizer of a tokenizer.json mean in GGUF's terms, recognised from
 * their structure: Sequences are flattened, spellings of the same regex are one, and the steps are
 * looked up in a table. */

typedef enum {
    FY_TOKENIZER_BPE,     /* byte-level BPE: tokenizer.ggml.model "gpt2" */
    FY_TOKENIZER_SPM,     /* SentencePiece-like BPE with byte fallback: "llama" */
    FY_TOKENIZER_UNIGRAM, /* SentencePiece Unigram: "t5" */
    FY_TOKENIZER_RWKV,    /* RWKV World: "rwkv" */
} fy_tokenizer_kind;

typedef struct {
    fy_tokenizer_kind kind;
    const char *pre;        /* tokenizer.ggml.pre; static, or the caller's `force` */
    bool by_rank;           /* SPM: merges have ranks, as "gemma4" writes them */
    bool nfc;               /* text is brought to NFC first */
    bool space_prefix;      /* SPM: a space goes before the text ... */
    const char *space_mode; /* ... when (value of FY_KEY_SPACE_PREFIX, static); NULL: before every
                               fragment */
    bool strips_space;      /* decoding strips a leading space that encoding never added */
    bool splits_words; /* SPM: words are merged one by one; the same as GGUF's "llama" only when no
                        * token has a space after its first character */
} fy_pretok;

typedef struct {
    const json_t *normalizer, *pre_tokenizer, *decoder; /* views; NULL or JSON null: none */
    bool byte_fallback, ignore_merges;                  /* of the model */
} fy_pretok_input;

/* force: the `pre` of a byte-level BPE whose structure is unknown (it wins over a known one too,
 * with a warning); NULL: unknown structures are FY_EUNSUPPORTED, printed in the message. */
int fy_pretok_match(const fy_pretok_input *in, const char *force, fy_pretok *out, fy_err *e);

/* The same of a byte-level BPE without a tokenizer.json: no file defines how it cuts words,
 * but the class of transformers does. tokenizer_class of tokenizer_config.json, else model_type
 * of config.json; NULL: not stated. */
int fy_pretok_of_class(const char *tokenizer_class, const char *model_type, const char *force,
                       const fy_token_table *tokens, fy_pretok *out, fy_err *e);

/* What the normalizer and pre_tokenizer of a Unigram tokenizer.json mean: the steps that
 * transformers makes of a SentencePiece model, distinguished by their structure. */

typedef struct {
    fy_pretok pretok;
    bool trims;        /* extra spaces are dropped */
    const char *rules; /* static: value of FY_KEY_UNIGRAM */
    fy_str charsmap;   /* owned; of the step Precompiled, empty: none */
} fy_unigram_steps;

/* A structure that is not known is FY_EUNSUPPORTED with its steps in the message. Released with
 * fy_str_release(&out->charsmap), also after a failure. */
int fy_unigram_match(const json_t *normalizer, const json_t *pre_tokenizer, fy_unigram_steps *out,
                     fy_err *e);

/* Appends one sentence about an unknown pre_tokenizer: the known types that cut a probe text most
 * alike and the first difference, or why the steps cannot be tried (pretok_probe.c). The nearest
 * type; NULL: not tried. */
const char *fy_pretok_probe(const fy_steps *pre, fy_str *out);
/* Appends the known types that cut the fewest tokens of a byte-level vocabulary. */
void fy_pretok_fit(const fy_token_table *t, fy_str *out);

#endif
