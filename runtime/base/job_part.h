/* One of several parts of a piece of work, which processes on any machines do, in any order. */
#ifndef FY_BASE_JOB_PART_H
#define FY_BASE_JOB_PART_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FY_PARTS_MAX 65535

typedef struct {
    uint32_t i, n; /* part i of n, from 1; n is 0: the work is whole */
} fy_job_part;

/* "3/64"; or "auto/64": which one says the environment of an array job: SLURM_ARRAY_TASK_ID (ids 1
 * to N), JOB_COMPLETION_INDEX + 1 (an indexed job of Kubernetes), or PMI_RANK + 1. NULL: whole. */
int fy_job_part_parse(const char *text, fy_job_part *out, fy_err *e);

/* Where part i of n begins when work of so much is cut into equal parts: part n + 1 begins at its
 * end. work: below 2^47. */
uint64_t fy_job_part_begin(uint64_t work, uint32_t i, uint32_t n);

/* Deals pieces of work that stay whole to n parts, so that these do about the same: the largest
 * first, each to the part that has the least. of[n_pieces]: which part, from 1. */
int fy_job_part_deal(const uint64_t *work, size_t n_pieces, uint32_t n, uint32_t *of, fy_err *e);

#endif
