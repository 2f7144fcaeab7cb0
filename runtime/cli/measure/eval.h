/* `ferry eval` without a golden file: the perplexity of a text (eval_text.c), and files with one
 * item per line, multiple choice and last words (eval_items.c). Results go to stdout, a running
 * value to stderr. Session parameters are the caller's except for the context, which is n_ctx. */
#ifndef FY_CLI_EVAL_H
#define FY_CLI_EVAL_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/part_options.h"
#include "model/text_scores.h"

typedef struct {
    const char *model, *text;      /* paths; text may be "-" */
    const char *imatrix_out;       /* NULL: collect none */
    const char *activations_out;   /* NULL: count none */
    const char *kl_save, *kl_base; /* at most one of them */
    fy_ppl_params ppl;
    bool per_word, json;
    const fy_part_options *parts;
    const char *gpu; /* fy_model_gpu */
} fy_eval_text;
int fy_eval_text_run(const fy_eval_text *o, fy_model *m, const fy_session_params *p, fy_err *e);

typedef struct {
    const char *model, *path; /* path may be "-" */
    uint32_t n_ctx;
    bool json;
    const fy_part_options *parts;
    const char *gpu; /* fy_model_gpu */
} fy_eval_items;
/* Multiple choice: acc and acc_norm. */
int fy_eval_choices_run(const fy_eval_items *o, fy_model *m, const fy_session_params *p, fy_err *e);
/* The last word of each text: accuracy and perplexity. A text is a line, or the "text" of a JSON
 * object if the first line begins with a brace. */
int fy_eval_last_word_run(const fy_eval_items *o, fy_model *m, const fy_session_params *p,
                          fy_err *e);

/* One question of a multiple choice file, a JSON object:
 *
 *   {"activity_label": .., "ctx_a": .., "ctx_b": .., "endings": [..], "label": ..}
 *       HellaSwag as published; its texts are cleaned as lm-evaluation-harness does: what WikiHow
 *       left in brackets goes, ctx_b begins with a capital
 *   {"query" or "ctx" or "context": .., "choices" or "endings": [..], "gold" or "label": ..}
 *       the texts as they are
 *
 * The right answer is a number from 0, or such a number as text. Other members are ignored. */
typedef struct {
    fy_str query;
    fy_str *choices; /* owned, [n_choices]; none is empty */
    size_t n_choices, label;
} fy_choice_item;

/* FY_EFORMAT names the member. Release in every case; zero-initialise. */
int fy_choice_read(fy_span line, fy_choice_item *out, fy_err *e);
void fy_choice_release(fy_choice_item *item);
size_t fy_choice_length(fy_span text); /* code points of UTF-8 */

json_t *fy_eval_line_json(fy_span line, fy_err *e); /* an object; NULL on failure */
json_t *fy_eval_number(double v);                   /* JSON has no NaN or infinity: null */
/* Says that a GPU had a share in the numbers; NULL: it had none. -1: out of memory. */
int fy_eval_gpu_json(const char *gpu, json_t *into);

#endif
