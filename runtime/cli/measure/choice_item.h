/* One question of a multiple choice file, a JSON object:
 *
 *   {"activity_label": .., "ctx_a": .., "ctx_b": .., "endings": [..], "label": ..}
 *       HellaSwag as published; its texts are cleaned as lm-evaluation-harness does: what WikiHow
 *       left in brackets goes, ctx_b begins with a capital
 *   {"query" or "ctx" or "context": .., "choices" or "endings": [..], "gold" or "label": ..}
 *       the texts as they are
 *
 * The right answer is a number from 0, or such a number as text. Other members are ignored. */
#ifndef FY_CLI_CHOICE_ITEM_H
#define FY_CLI_CHOICE_ITEM_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    fy_str query;
    fy_str *choices; /* owned, [n_choices]; none is empty */
    size_t n_choices, label;
} fy_choice_item;

/* FY_EFORMAT names the member. Release in every case; zero-initialise. */
int fy_choice_read(fy_span line, fy_choice_item *out, fy_err *e);
void fy_choice_release(fy_choice_item *item);

/* Code points of UTF-8. */
size_t fy_choice_length(fy_span text);

#endif
