/* Stop strings: an answer ends before the first one that appears in its text.
 *
 * They are searched in bytes, so it does not matter how a text falls on tokens. The first one that
 * is complete wins; of those that are complete at the same byte, the longest. All are searched at
 * once (Aho and Corasick, "Efficient string matching", 1975): the time per byte does not grow with
 * their number. fy_text_out (text_out.h) is what a verb or a server uses. */
#ifndef FY_MODEL_STOP_H
#define FY_MODEL_STOP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { FY_STOPS_MAX = 16, FY_STOP_MAX_BYTES = 1024 };

/* Immutable; any number of searches and threads may share one. */
typedef struct fy_stops fy_stops;

/* The texts are copied. FY_EARG for an empty one, one beyond FY_STOP_MAX_BYTES, or more than
 * FY_STOPS_MAX; the caller's context names the option or member. NULL on failure. */
fy_stops *fy_stops_new(const fy_span *texts, size_t n, fy_err *e);
void fy_stops_free(fy_stops *s);

/* One search. Zero-initialise. */
typedef struct {
    uint16_t node;
    uint16_t n_held; /* last bytes of the text so far that may begin a stop string */
} fy_stop_search;

/* Takes bytes of the text up to the end of a stop string at most. -1: none was found, all n bytes
 * are taken. Else its index, and *n_taken; the last bytes of the text, as many as
 * fy_stops_text says, are it. */
int fy_stop_next(const fy_stops *s, fy_stop_search *at, const char *bytes, size_t n,
                 size_t *n_taken);

/* The stop string with that index. View. */
fy_span fy_stops_text(const fy_stops *s, int index);

#endif
