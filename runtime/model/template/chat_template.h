/* The chat format of a model: a Jinja template and the texts of the special tokens it may name.
 * What transformers' apply_chat_template does, on a GGUF's keys, a file or a built-in template.
 *
 *     fy_chat_template *t = fy_chat_template_open(gguf, NULL, e);      the model's own
 *     fy_chat_input in = {.messages = json, .add_generation_prompt = true};
 *     fy_chat_template_render(t, &in, &text, e);                       the prompt as text
 *     fy_chat_encode_text(vocab, text, &ids, e);                       its ids
 *
 * JSON goes in as text and reaches the template with Python's types: 1.0 stays a float, large
 * integers stay whole. Immutable after its setters; any number of threads may share it. */
#ifndef FY_CHAT_TEMPLATE_H
#define FY_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "format/gguf.h"
#include "model/vocab/vocab.h"

#define FY_KEY_CHAT_TEMPLATE  "tokenizer.chat_template"  /* string; named ones: + ".NAME" */
#define FY_KEY_CHAT_TEMPLATES "tokenizer.chat_templates" /* string[]: the names */

typedef struct fy_chat_template fy_chat_template;

/* which: NULL: the model's own (g must not be NULL); else, first match wins: a name of one of the
 * model's templates, of a built-in one, or a file. BOS and EOS and the other special tokens' texts
 * are the model's; none when g is NULL. The file is not needed afterwards. NULL on failure:
 * FY_EUNSUPPORTED when the model has no template (the message names --chat-template); errors of the
 * language begin with the template's name. */
fy_chat_template *fy_chat_template_open(const fy_gguf *g, const char *which, fy_err *e);
/* Of a file, whatever its name. */
fy_chat_template *fy_chat_template_open_file(const fy_gguf *g, const char *path, fy_err *e);
/* Of a text; `name` is for messages. No special tokens. */
fy_chat_template *fy_chat_template_new(fy_span text, const char *name, fy_err *e);
void fy_chat_template_free(fy_chat_template *t); /* NULL is fine */

/* The variable `name` ("bos_token", "eos_token", ...); a NULL text makes it undefined. */
int fy_chat_template_set_token(fy_chat_template *t, const char *name, fy_span text, fy_err *e);
fy_span fy_chat_template_token(const fy_chat_template *t, const char *name); /* ptr NULL: none */

const char *fy_chat_template_name(const fy_chat_template *t); /* "tokenizer.chat_template",
                                                                 "llama3", a path: for messages */
fy_span fy_chat_template_text(const fy_chat_template *t, bool with_tools); /* the Jinja text */

/* What one rendering sees. Later ones win over earlier ones. */
typedef struct {
    fy_span messages;           /* JSON list of {"role", "content", ...}; NULL: nothing is set but
                                   args and extra */
    fy_span tools;              /* JSON list; empty: none. "tool_use" is then the template, where
                                   the model has one */
    bool add_generation_prompt; /* end with the text that begins an answer */
    const char *const *args;    /* [n_args] "KEY=VALUE": the value is JSON when it parses as JSON,
                                   else a string */
    size_t n_args;
    fy_span extra; /* JSON object: further variables by name; empty: none */
    bool has_clock;
    int64_t clock; /* what strftime_now shows, seconds since 1970 in UTC; else the current time */
} fy_chat_input;

/* Appends the prompt. Errors are fy_template_render's (FY_EARG: raise_exception's text alone) and
 * those of input that is not JSON (FY_EFORMAT, names the part). On failure out is as before. */
int fy_chat_template_render(const fy_chat_template *t, const fy_chat_input *in, fy_str *out,
                            fy_err *e);

/* Checks "KEY=VALUE" as a user writes it: FY_EARG unless KEY is a name that a template can read. */
int fy_chat_template_check_arg(const char *arg, fy_err *e);

/* Appends the ids of a rendered prompt: control tokens parsed; the model's BOS in front when it
 * asks for one and the prompt does not begin with it already; no EOS is added. */
int fy_chat_encode_text(const fy_vocab *v, fy_span text, fy_ids *out, fy_err *e);

/* Built-in templates, of chat_builtin.jinja. */
typedef struct {
    const char *name;
    const char *summary; /* "Llama 3, 3.1 and 3.2 without tools" */
    const char *text;
} fy_chat_builtin;
extern const fy_chat_builtin fy_chat_builtins[]; /* a NULL name ends them */

/* Appends a message as JSON, {"role": role, "content": content}, for callers that build a
 * conversation. Bytes that are not UTF-8 become U+FFFD. */
void fy_chat_put_message(fy_str *json, fy_span role, fy_span content);

#endif
