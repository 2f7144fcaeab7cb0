/* The parts of making a plan, for convert_plan.c. */
#ifndef FY_CONVERT_CONVERT_PLAN_IMPL_H
#define FY_CONVERT_CONVERT_PLAN_IMPL_H

#include "base/str.h"
#include "convert/write/convert_plan.h"
#include "convert/source/hf_names.h"

/* Collected, then told together. */
typedef struct {
    fy_str text;
    size_t n, n_told, n_unknown;
} fy_plan_problems;

enum { FY_PLAN_LOGGED = 100 };

typedef struct {
    fy_convert_plan *plan;
    const fy_ckpt *dir;
    fy_name_form form;
    const fy_plan_options *o; /* view */
    bool *used;   /* owned; per tensor of the directory: it has its place, or its problem */
    bool *faulty; /* owned; the same: a problem with it was told */
    bool oom;
    fy_plan_problems ps;
} fy_plan_builder;

/* What does not fit into the error message is still logged, line by line. */
void fy_plan_problem(fy_plan_builder *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
size_t fy_plan_index(const fy_plan_builder *b, const fy_ckpt_tensor *src);
void fy_plan_drop_source(fy_plan_builder *b, const fy_ckpt_tensor *src, const char *reason);

/* plan_source.c: finds the source of the first of rows[0..n) (one row and its other forms) that is
 * there in the right shape. True: *t has row, source and source type. False: there is none, and a
 * problem was told if there has to be one. */
bool fy_plan_find_source(fy_plan_builder *b, const fy_tensor_row *rows, size_t n, uint32_t layer,
                         fy_plan_tensor *t);

/* Is there anything to compute for this row? */
bool fy_plan_row_is_computed(const fy_hf_config *c, const fy_tensor_row *row);
/* Must the checkpoint have this row? */
bool fy_plan_row_is_required(const fy_hf_config *c, const fy_tensor_row *row);

/* plan_rest.c: drops what is no weight and tells what is unknown. */
void fy_plan_account_for_rest(fy_plan_builder *b);

#endif
