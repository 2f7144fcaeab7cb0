/* Which tokens begin, end, pad, ... a text, collected from all the files that name them. */
#ifndef FY_CONVERT_SPECIAL_IDS_H
#define FY_CONVERT_SPECIAL_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    FY_SPECIAL_BOS,
    FY_SPECIAL_EOS,
    FY_SPECIAL_UNK,
    FY_SPECIAL_SEP,
    FY_SPECIAL_PAD,
    FY_SPECIAL_CLS,
    FY_SPECIAL_MASK,
    FY_SPECIAL_EOT,
    FY_SPECIAL_EOM,
    FY_SPECIAL_COUNT,
} fy_special;

#define FY_EOS_IDS_MAX 64

typedef struct {
    int64_t id[FY_SPECIAL_COUNT]; /* -1: none */
    int32_t eos[FY_EOS_IDS_MAX];  /* every end of the checkpoint, the main one first */
    size_t n_eos;
    bool add_bos, add_eos;
} fy_special_ids;

struct fy_hf_tokenizer;

/* Of a tokenizer whose vocabulary is complete, from all its files. */
void fy_special_ids_find(const struct fy_hf_tokenizer *t, fy_special_ids *out);

const char *fy_special_key(fy_special which); /* "tokenizer.ggml.bos_token_id", ... */

#endif
