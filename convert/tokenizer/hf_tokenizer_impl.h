/* The inside of fy_hf_tokenizer, shared by its reader (hf_tokenizer.c) and its writer
 * (hf_tokenizer_write.c). */
#ifndef FY_CONVERT_HF_TOKENIZER_IMPL_H
#define FY_CONVERT_HF_TOKENIZER_IMPL_H

#include "base/file.h"
#include "convert/tokenizer/token_table.h"
#include "convert/tokenizer/tokenizer_config.h"
#include "convert/tokenizer/hf_tokenizer.h"
#include "convert/tokenizer/pretok_match.h"
#include "convert/tokenizer/vocab_files.h"
#include "convert/tokenizer/special_ids.h"
#include "convert/tokenizer/tokenizer_json.h"

struct fy_hf_tokenizer {
    char *dir;       /* owned: the directory, or the one file */
    const char *one; /* static; of one file: which of a directory's files it stands for */
    char *force_pre; /* owned; NULL: none */
    fy_map json_map, model_map, merges_map;
    fy_str merge_lines; /* made of the ranks of a rank file */
    /* What the vocabulary comes from; neither: vocab.json and merges.txt, or a rank file. */
    bool has_json, has_model;
    bool is_meta;           /* a rank file of Llama 3, with the tokens that Meta's code adds */
    fy_tokenizer_json json; /* views of json_map */
    fy_merge_source merges; /* of BPE kinds; a view of json_map, merges_map or merge_lines */
    uint64_t n_merges;
    fy_spm_info spm; /* views of model_map */
    /* Of a Unigram: */
    fy_str json_charsmap; /* the map that tokenizer.json holds */
    fy_span charsmap;     /* the one that counts: a view of that, or of model_map */
    bool trims;           /* extra spaces are dropped */
    const char *rules;    /* static: value of FY_KEY_UNIGRAM; NULL: SentencePiece's */
    fy_tokenizer_config config;
    json_t *templates; /* owned; NULL: none; fy_hf_templates_read */
    fy_added_tokens added; /* views of json_map, config, `tokens` or json_texts */
    fy_token_table tokens;
    fy_arena json_texts; /* texts of `added` when `tokens` comes from tokenizer.model */
    fy_pretok pretok;
    fy_special_ids special;
};

#endif
