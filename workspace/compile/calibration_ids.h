/* Which tokens calibrate a model: those of a text, of prompts, or of what the model itself writes.
 */
#ifndef FY_WORKSPACE_CALIBRATION_IDS_H
#define FY_WORKSPACE_CALIBRATION_IDS_H

#include "model/vocab/vocab.h"

typedef struct {
    const char *weights, *qnn; /* of the cut: ggml/weights.gguf, the directory of config.json */
    const char *from;          /* a text; NAME.jsonl, with a prompt in each line; "self" */
    const fy_ids *preset;      /* what every context begins with, besides these tokens */
    uint32_t max_tokens;
    int n_threads;
} fy_calibration_source;

/* Appends at most max_tokens ids, the same on every machine. A line of .jsonl is an object with
 * "text", "prompt" or "messages", which the model's chat template renders; FY_EFORMAT names the
 * line. "self" samples by the chunks on the CPU, at temperature 1 with seed 0, and starts over
 * where the model ends a text. */
int fy_calibration_ids(const fy_calibration_source *s, fy_ids *out, fy_err *e);

#endif
