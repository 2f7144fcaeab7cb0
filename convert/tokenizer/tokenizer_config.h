/* The small files next to a tokenizer: tokenizer_config.json, special_tokens_map.json,
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
#include "convert/tokenizer/token_table.h"
#include "format/gguf_write.h"

typedef struct {
    /* Objects; owned; NULL: no such file. Numbers are reals, as transformers writes one that fits
     * no integer. */
    json_t *tokenizer, *special_map, *added, *generation, *model;
    json_t *params; /* likewise: params.json of Meta's own checkpoints */
} fy_tokenizer_config;

/* Reads what is there. NaN and Infinity in generation_config.json, which Python writes and JSON does
 * not know, are read as null. After a failure fy_tokenizer_config_release still has to be called. */
int fy_tokenizer_config_read(const char *dir, fy_tokenizer_config *c, fy_err *e);
void fy_tokenizer_config_release(fy_tokenizer_config *c);

/* Maps dir/name. 1: there is no such file; -1 also for a Git LFS pointer, an HTML page and an empty
 * file. */
int fy_tokenizer_config_map(const char *dir, const char *name, fy_map *m, fy_err *e);

/* The same of a file that has to be there. */
int fy_tokenizer_config_map_path(const char *path, fy_map *m, fy_err *e);

/* The added tokens of added_tokens.json (before tokenizer.json's, old style) and of
 * tokenizer_config.json's added_tokens_decoder (after them). The texts are views of `c`. */
int fy_tokenizer_config_added_old(const fy_tokenizer_config *c, fy_added_tokens *a, fy_err *e);
int fy_tokenizer_config_added(const fy_tokenizer_config *c, fy_added_tokens *a, fy_err *e);

/* The tokens that tokenizer_config.json or special_tokens_map.json name as bos_token, ... and
 * additional_special_tokens: special wherever the vocabulary `t` has them. For directories whose
 * vocabulary does not mark them. */
int fy_tokenizer_config_added_named(const fy_tokenizer_config *c, const fy_token_table *t,
                                    fy_added_tokens *a, fy_err *e);

/* An id, or the first number of a list. False: absent, or not an id. */
bool fy_tokenizer_config_id(const json_t *v, uint32_t *id);

/* vocab_size of config.json (or of its text_config); 0: not stated. */
uint64_t fy_tokenizer_config_vocab_size(const fy_tokenizer_config *c);

/* A member of config.json, or of its text_config; NULL. */
const json_t *fy_tokenizer_config_model(const fy_tokenizer_config *c, const char *key);

/* generation_config.json: how the checkpoint's authors sample, as keys that a runtime finds in the
 * file (general.sampling.*, docs/gguf.md). A wrong recommendation must not stop a conversion: a
 * value of the wrong kind or range is left out with a warning. */

/* Adds a key for each value that is there; config may be NULL. */
int fy_generation_config_write(const json_t *config, fy_gguf_writer *w, fy_err *e);

/* The chat templates of a Hugging Face directory: chat_template.jinja with
 * additional_chat_templates/ NAME.jinja, else chat_template.json, else tokenizer_config.json (a
 * text, or a list of named ones); the first place that has any is used. */

/* An object of them by name (lower case letters, digits and '_': part of a key; "default" is the main
 * one), each with its "text" and "from", the file, for messages. tokenizer_config: the file of that
 * name as a tree; NULL: there is none. NULL on failure. */
json_t *fy_hf_templates_read(const char *dir, const json_t *tokenizer_config, fy_err *e);
/* Another one instead: "none", the name of a built-in template, or a file. NULL on failure. */
json_t *fy_hf_templates_of(const char *which, fy_err *e);

/* Adds the keys. A template that ferry could not render is refused with file, line and column. */
int fy_hf_templates_write(json_t *templates, fy_gguf_writer *w, fy_err *e);

#endif
