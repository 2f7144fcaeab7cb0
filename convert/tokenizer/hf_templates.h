/* The chat templates of a Hugging Face directory: chat_template.jinja with
 * additional_chat_templates/ NAME.jinja, else chat_template.json, else tokenizer_config.json (a
 * text, or a list of named ones); the first place that has any is the one that counts. */
#ifndef FY_CONVERT_HF_TEMPLATES_H
#define FY_CONVERT_HF_TEMPLATES_H

#include <stddef.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"
#include "format/gguf_write.h"

typedef struct {
    fy_str name; /* owned; lower case letters, digits and '_': part of a key. "default" is the main
                    one */
    fy_str text; /* owned */
    fy_str from; /* owned; the file, for messages */
} fy_hf_template;

typedef struct {
    fy_hf_template *items; /* owned; names are unique */
    size_t n;
} fy_hf_templates;

/* tokenizer_config: the file of that name as a tree; NULL: there is none. After a failure
 * fy_hf_templates_release still has to be called. */
int fy_hf_templates_read(const char *dir, const json_t *tokenizer_config, fy_hf_templates *t,
                         fy_err *e);
/* Replaces what was read: "none", the name of a built-in template, or a file. */
int fy_hf_templates_replace(fy_hf_templates *t, const char *which, fy_err *e);
void fy_hf_templates_release(fy_hf_templates *t);

/* Adds the keys. A template that ferry could not render is refused with file, line and column. */
int fy_hf_templates_write(const fy_hf_templates *t, fy_gguf_writer *w, fy_err *e);

#endif
