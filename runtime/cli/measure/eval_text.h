/* `ferry eval --text`: the perplexity of a text, on stdout, with a running value on stderr. */
#ifndef FY_CLI_EVAL_TEXT_H
#define FY_CLI_EVAL_TEXT_H

#include <stdbool.h>

#include "model/text_scores.h"

typedef struct {
    const char *model, *text;      /* paths; text may be "-" */
    const char *imatrix_out;       /* NULL: collect no importance matrix */
    const char *kl_save, *kl_base; /* paths, see cli/measure/eval_kl.h; one of them or none: NULL */
    fy_ppl_params ppl;
    bool per_word, json;
} fy_eval_text;

/* p: the session's parameters but for the context, which is that of the pieces. */
int fy_eval_text_run(const fy_eval_text *o, fy_model *m, const fy_session_params *p, fy_err *e);

#endif
