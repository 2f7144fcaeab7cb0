/* `ferry eval --text` with --kl-save or --kl-base: the model's distributions are saved, or compared
 * with those that another model saved. Rows go through fy_eval_kl_row as the text is scored. */
#ifndef FY_CLI_EVAL_KL_H
#define FY_CLI_EVAL_KL_H

#include <jansson.h>
#include <stdbool.h>

#include "model/text_scores.h"

typedef struct {
    const char *save, *base; /* paths; one of them */
    const fy_vocab *vocab;
    fy_span text;
    fy_ppl_params ppl;
    uint32_t n_vocab; /* logits of a row */
} fy_eval_kl_params;

typedef struct fy_eval_kl fy_eval_kl;
/* Of a base: FY_EFORMAT unless it is of the same vocabulary, text and cut. NULL on failure. */
fy_eval_kl *fy_eval_kl_open(const fy_eval_kl_params *p, fy_err *e);
void fy_eval_kl_close(fy_eval_kl *k); /* NULL is fine; a file that was not ended is removed */
/* A fy_ppl_row_sink. */
int fy_eval_kl_row(void *k, int32_t id, double surprise, const float *logits, fy_err *e);
/* Behind the last row: gives the file its name, or checks the base and makes the report. */
int fy_eval_kl_end(fy_eval_kl *k, fy_err *e);
/* Mean divergence so far and its standard error; false while there is none, and of NULL. */
bool fy_eval_kl_running(const fy_eval_kl *k, fy_estimate *out);
/* What was found, in words, or as members of a JSON object. */
void fy_eval_kl_words(const fy_eval_kl *k, fy_str *out);
int fy_eval_kl_json(const fy_eval_kl *k, json_t *into); /* -1: out of memory, or not UTF-8 */

#endif
