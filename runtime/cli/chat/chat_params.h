/* Sampling in flight: what the options, the workspace and the model say at the start, and what the
 * user changes afterwards, checked by the same table of options. */
#ifndef FY_CLI_CHAT_PARAMS_H
#define FY_CLI_CHAT_PARAMS_H

#include "base/err.h"
#include "base/opts.h"
#include "cli/engine.h"
#include "cli/gen_options.h"

typedef struct {
    const fy_opt *rows; /* view: the verb's table */
    size_t n_rows;
    void *options;           /* view: what the rows point into */
    fy_gen_options *gen;     /* view: in options */
    int64_t *n;              /* view: in options; most tokens of an answer */
    const fy_engine *engine; /* view */
    fy_gen_params now;       /* owned */
    fy_sampler *sampler;     /* owned: made from now */
    char **texts;            /* owned: values that options view */
    size_t n_texts, cap;
} fy_chat_params;

/* Fill the views first, the rest zeroed. */
int fy_chat_params_open(fy_chat_params *p, fy_err *e);
void fy_chat_params_close(fy_chat_params *p);
/* FY_EARG for a name that is none (the nearest is named) and for a value out of range; then nothing
 * changes. The generator begins anew with the seed. */
int fy_chat_params_set(fy_chat_params *p, fy_span name, fy_span value, fy_err *e);
/* "temp 0.7", one per line; name empty: all of them. */
int fy_chat_params_show(const fy_chat_params *p, fy_span name, fy_str *out, fy_err *e);
/* The names, NULL when there is no i-th. */
const char *fy_chat_params_name(const fy_chat_params *p, size_t i);

#endif
