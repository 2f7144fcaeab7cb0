/* What calibration found: the range of every activation (fy_qgraph.ranges, by name), and how large
 * the inputs of every matrix are. One set for all batch sizes and recipes. It is a JSON file,
 * qnn/ranges.json, that a user may edit.
 *
 *     {"version": 1, "model": "<64 hex digits>", "tokens": 2048, "preset": 0,
 *      "ranges": {"L0.norm": [min, max, rest_min, rest_max], ...},
 *      "importance": {"blk.0.attn_q.weight": [mean of x^2 of each input], ...}} */
#ifndef FY_WORKSPACE_RANGES_H
#define FY_WORKSPACE_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    float min, max;           /* over all positions */
    float rest_min, rest_max; /* the same without position 0: what sets the range? */
} fy_q_range;

typedef struct fy_q_ranges fy_q_ranges;

fy_q_ranges *fy_q_ranges_new(const char *model, fy_err *e); /* model: fy_chunk_info.model */
void fy_q_ranges_free(fy_q_ranges *r);                      /* NULL is fine */
const char *fy_q_ranges_model(const fy_q_ranges *r);
uint64_t *fy_q_ranges_tokens(fy_q_ranges *r); /* how many were seen */
uint64_t *fy_q_ranges_preset(fy_q_ranges *r); /* how many before them were not (preset.h) */

/* The range of that name, an empty one (min > max) when it is new; NULL: out of memory. Valid until
 * another is added. */
fy_q_range *fy_q_ranges_add(fy_q_ranges *r, const char *name, fy_err *e);
const fy_q_range *fy_q_ranges_find(const fy_q_ranges *r, const char *name); /* NULL: none */

/* By number, in the order in which they came. */
size_t fy_q_ranges_n(const fy_q_ranges *r);
const char *fy_q_ranges_name(const fy_q_ranges *r, size_t i);
const fy_q_range *fy_q_ranges_at(const fy_q_ranges *r, size_t i);

/* Sums of squares of the n inputs of a matrix, by its GGUF name; cleared when new. NULL: out of
 * memory, or of another length. fy_q_ranges_mean divides them by the number of tokens. */
double *fy_q_ranges_squares(fy_q_ranges *r, const char *matrix, uint64_t n, fy_err *e);
const double *fy_q_ranges_importance(const fy_q_ranges *r, const char *matrix, uint64_t n);

void fy_q_ranges_mean(fy_q_ranges *r);

int fy_q_ranges_parse(const void *p, size_t n, fy_q_ranges **out, fy_err *e);
fy_q_ranges *fy_q_ranges_read(const char *path, fy_err *e); /* NULL on failure */
void fy_q_ranges_put(const fy_q_ranges *r, fy_str *s);      /* appends its text */
int fy_q_ranges_write(const fy_q_ranges *r, const char *path, fy_err *e);

#endif
