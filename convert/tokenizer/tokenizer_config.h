/* The small files beside a tokenizer: tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json, generation_config.json, config.json and Meta's params.json. All are optional.
 */
#ifndef FY_CONVERT_TOKENIZER_CONFIG_H
#define FY_CONVERT_TOKENIZER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "convert/tokenizer/added_tokens.h"

typedef struct {
    /* Objects; owned; NULL: no such file. Numbers are reals, as transformers writes one that fits
     * no integer. */
    json_t *tokenizer, *special_map, *added, *generation, *model;
    json_t *params; /* likewise: params.json of Meta's own checkpoints */
} fy_tokenizer_config;

/* Reads what is there. After a failure fy_tokenizer_config_release still has to be called. */
int fy_tokenizer_config_read(const char *dir, fy_tokenizer_config *c, fy_err *e);
void fy_tokenizer_config_release(fy_tokenizer_config *c);

/* Maps dir/name. 1: there is no such file; -1 also for a Git LFS pointer, an HTML page and an empty
 * file. */
int fy_tokenizer_config_map(const char *dir, const char *name, fy_map *m, fy_err *e);

/* The same of a file that has to be there. */
int fy_tokenizer_config_map_path(const char *path, fy_map *m, fy_err *e);

/* Reads dir/name as a JSON object. No such file: *out is left as it is, 0. */
int fy_tokenizer_config_object(const char *dir, const char *name, json_t **out, fy_err *e);

/* The added tokens of added_tokens.json (before tokenizer.json's, old style) and of
 * tokenizer_config.json's added_tokens_decoder (after them). The texts are views of `c`. */
int fy_tokenizer_config_added_old(const fy_tokenizer_config *c, fy_added_tokens *a, fy_err *e);
int fy_tokenizer_config_added(const fy_tokenizer_config *c, fy_added_tokens *a, fy_err *e);

/* The tokens that tokenizer_config.json or special_tokens_map.json name as bos_token, ... and
 * additional_special_tokens: special wherever the vocabulary `t` has them. For directories whose
 * vocabulary does not tell. */
int fy_tokenizer_config_added_named(const fy_tokenizer_config *c, const fy_token_table *t,
                                    fy_added_tokens *a, fy_err *e);

/* An id, or the first number of a list. False: no such member, or no id. */
bool fy_tokenizer_config_id(const json_t *v, uint32_t *id);

/* vocab_size of config.json (or of its text_config); 0: not stated. */
uint64_t fy_tokenizer_config_vocab_size(const fy_tokenizer_config *c);

/* A member of config.json, or of its text_config; NULL. */
const json_t *fy_tokenizer_config_model(const fy_tokenizer_config *c, const char *key);

#endif
