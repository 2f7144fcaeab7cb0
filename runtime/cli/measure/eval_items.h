/* `ferry eval` over a file with an item a line: multiple choice and last words. Each measure gives
 * functions that score a line and show the sums; reading, the session and the running value are
 * written once. */
#ifndef FY_CLI_EVAL_ITEMS_H
#define FY_CLI_EVAL_ITEMS_H

#include <jansson.h>
#include <stdbool.h>

#include "model/text_scores.h"

typedef struct {
    const char *model, *path; /* path may be "-" */
    uint32_t n_ctx;
    bool json;
} fy_eval_items;

/* What scores a text. */
typedef struct {
    const fy_vocab *vocab;
    fy_scorer scorer;
    fy_pair pair;
} fy_eval_scorer;

typedef struct {
    /* Scores the item in a line that is not empty. *cut is set when one of its contexts was. */
    int (*score)(void *user, fy_eval_scorer *s, fy_span line, bool *cut, fy_err *e);
    void (*show)(const void *user, uint64_t n, fy_str *out); /* the sums of n items, one line */
    int (*show_json)(const void *user, uint64_t n, json_t *into); /* -1: out of memory */
    const char *name;                                             /* of the file, in JSON */
    void *user;
} fy_eval_measure;

/* p: the session's parameters but for the context, which is o->n_ctx. Results go to stdout. */
int fy_eval_items_run(const fy_eval_items *o, const fy_eval_measure *measure, fy_model *m,
                      const fy_session_params *p, fy_err *e);

int fy_eval_score(fy_eval_scorer *s, fy_span context, fy_span continuation, fy_likelihood *out,
                  fy_err *e);
json_t *fy_eval_line_json(fy_span line, fy_err *e); /* an object; NULL on failure */
/* A share of n items and its standard error. */
fy_estimate fy_eval_share(uint64_t hits, uint64_t n);
json_t *fy_eval_number(double v); /* null when it is not finite */

/* Multiple choice: acc and acc_norm, items as in cli/measure/choice_item.h. */
int fy_eval_choices_run(const fy_eval_items *o, fy_model *m, const fy_session_params *p, fy_err *e);
/* The last word of each text: accuracy and perplexity. A text is a line, or the "text" of a JSON
 * object if the first line begins with a brace. */
int fy_eval_last_word_run(const fy_eval_items *o, fy_model *m, const fy_session_params *p,
                          fy_err *e);

#endif
