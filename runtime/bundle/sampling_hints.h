/* Values for sampling that a model's authors or a workspace recommend, and their names: the key in
 * a GGUF (the standard's general.sampling.*, docs/gguf.md), the member of `sampler` in a
 * workspace's hparams.json, and the member of a checkpoint's generation_config.json. */
#ifndef FY_BUNDLE_SAMPLING_HINTS_H
#define FY_BUNDLE_SAMPLING_HINTS_H

#include <stdbool.h>

#include "format/gguf.h"

typedef enum {
    FY_HINT_TEMP = 0,
    FY_HINT_TOP_K, /* 0: all */
    FY_HINT_TOP_P,
    FY_HINT_MIN_P,
    FY_HINT_TYPICAL,
    FY_HINT_REPEAT,
    FY_HINT_LAST_N, /* -1: all */
    FY_HINT_PRESENCE,
    FY_HINT_FREQUENCY,
    FY_HINTS
} fy_hint;

typedef struct {
    const char *gguf, *hparams, *config; /* NULL: has none there */
    double min, max;
    bool whole;
    bool draws; /* says how to draw; the others change greedy choices, too */
} fy_hint_row;

extern const fy_hint_row fy_hints[FY_HINTS];

/* What the file recommends; NAN: nothing. *bad (may be NULL) is set when there is a value of
 * another kind or out of range, which counts as none. */
double fy_hint_of(const fy_gguf *g, fy_hint h, bool *bad);

#endif
