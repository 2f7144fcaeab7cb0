/* The merge rules of a BPE tokenizer, in order: the array of a tokenizer.json, of "left right" or
 * ["left", "right"], or the lines of a merges.txt. They are read again whenever they are needed and
 * never stored. */
#ifndef FY_CONVERT_MERGES_H
#define FY_CONVERT_MERGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

typedef struct {
    const char *data; /* view: begins with the array, or with the first line */
    size_t size;
    bool lines; /* a merges.txt */
} fy_merge_source;

/* One pass. */
typedef struct {
    fy_json *j;    /* owned; NULL: lines */
    fy_span rest;  /* of the lines */
    uint64_t line; /* the current one, from 1 */
    fy_str pair;
    fy_span left, right; /* the current merge; valid until the next call */
    uint64_t n;          /* merges read, the current one included */
} fy_merges;

int fy_merges_open(fy_merges *m, const fy_merge_source *source, fy_err *e);
int fy_merges_next(fy_merges *m, fy_err *e); /* 1: left and right are set; 0: no more; -1 */
void fy_merges_close(fy_merges *m);

#endif
