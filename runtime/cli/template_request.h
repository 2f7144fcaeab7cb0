/* A request to render a chat template, given as JSON: a line of `ferry template --jsonl`, an object of
 * --messages, a case of a reference's answers. Values for the template stay JSON text, so that no
 * number changes its type. */
#ifndef FY_CLI_TEMPLATE_REQUEST_H
#define FY_CLI_TEMPLATE_REQUEST_H

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "model/template/chat_template.h"

/* A string member; absent and null are different. */
typedef struct {
    bool there, null;
    fy_str s; /* owned */
} fy_request_text;

/* Zero-initialise; may be read into repeatedly. */
typedef struct {
    fy_span messages, tools, extra, context; /* views of the JSON text; ptr NULL: absent or null */
    bool has_add_generation_prompt, add_generation_prompt;
    fy_request_text template_text, bos_token, eos_token;
    fy_request_text name, expected, error, kind; /* of a case */
} fy_template_request;

/* Reads the next object in j, a reader over `text`. Unknown members are skipped. */
int fy_template_request_read(fy_template_request *r, fy_json *j, fy_span text, fy_err *e);
void fy_template_request_release(fy_template_request *r);

/* What a request without a member of its own uses. */
typedef struct {
    fy_chat_template *loaded;             /* owned; NULL: a request brings its own template */
    fy_request_text bos_token, eos_token; /* when the request has none */
    const char *const *args;              /* view: [n_args] "KEY=VALUE" */
    size_t n_args;
    bool add_generation_prompt;
} fy_template_defaults;
void fy_template_defaults_release(fy_template_defaults *d);

/* Appends the text; errors are fy_chat_template_render's. A request with "context" and no
 * "messages" sets the context's variables and no other. */
int fy_template_request_render(const fy_template_request *r, const fy_template_defaults *d,
                               fy_str *out, fy_err *e);

/* Renders the cases of a parity.json (one template, many conversations) or a cases.json (every case
 * has its own template and variables). Appends the first twenty differences and a line of counts to
 * *report. 0: all agree; FY_EVERIFY: some differ; other errors: the file cannot be read as cases. The
 * file's "bos_token" and "eos_token" replace those of d. */
int fy_template_verify(const char *path, fy_template_defaults *d, fy_str *report, fy_err *e);

#endif
