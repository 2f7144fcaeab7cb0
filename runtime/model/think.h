/* Models that think before they answer. A thinking section stands at the very beginning of an
 * answer, after white space at most, or was opened by the end of the prompt; it ends at its own end
 * marker and does not come back. */
#ifndef FY_MODEL_THINK_H
#define FY_MODEL_THINK_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    const char *begin, *end; /* "<think>", "</think>"; no end: an answer without thinking begins */
} fy_think_marks;

typedef enum { FY_THINK_START, FY_THINK_INSIDE, FY_THINK_ANSWER } fy_think_state;

typedef struct {
    fy_think_state state;
    const fy_think_marks *marks; /* of the section; NULL: none so far */
    fy_str held;                 /* bytes that may turn out to be a marker */
} fy_think;

/* The end of `prompt` from a start marker that it leaves open, "<think>\n", or an empty span.
 * *marks (may be NULL) are its markers. View. */
fy_span fy_think_opened_by(fy_span prompt, const fy_think_marks **marks);

/* Is this the text of a marker? Models write some of them as control tokens, which otherwise have
 * no text. */
bool fy_think_is_marker(fy_span text);

void fy_think_begin(fy_think *t, fy_span prompt);
/* Appends to thinking and answer what text adds to each, as far as it is clear. Markers appear in
 * neither. */
int fy_think_add(fy_think *t, fy_span text, fy_str *thinking, fy_str *answer, fy_err *e);
/* The text has ended: appends what was held. */
int fy_think_end(fy_think *t, fy_str *thinking, fy_str *answer, fy_err *e);
void fy_think_release(fy_think *t);

#endif
