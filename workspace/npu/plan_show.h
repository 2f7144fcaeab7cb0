/* What `ferry plan` shows of the plan of one model for one chip, as a drawing or as JSON, which is
 * in bytes; docs/plan.md has its schema. */
#ifndef FY_WORKSPACE_PLAN_SHOW_H
#define FY_WORKSPACE_PLAN_SHOW_H

#include <stdbool.h>

#include "base/err.h"
#include "base/json_tree.h"
#include "base/str.h"
#include "workspace/npu/npu_plan.h"
#include "workspace/npu/plan_options.h"

/* --- one plan --------------------------------------------------------------------------------- */

typedef struct {
    const fy_plan_model *model;
    const fy_npu_plan *plan;
    const fy_npu_suggestion *suggestion; /* of a plan that does not fit; else NULL */
} fy_plan_view;

/* columns: of the terminal. details: what each tensor of a layer takes. */
void fy_plan_put_text(fy_str *out, const fy_plan_view *v, int columns, bool details);
int fy_plan_put_json(fy_str *out, const fy_plan_view *v, fy_err *e);

/* The matrices of a layer in a recipe: i from 0, false when there are no more. In the order of the
 * model's file. */
typedef struct {
    char name[FY_ROW_NAME_BYTES]; /* "attn_q" */
    fy_npu_type type;
    uint64_t n_out, n_in, bytes;
} fy_plan_matrix;
bool fy_plan_matrix_at(const fy_npu_model *m, const fy_npu_recipe *r, uint32_t layer, size_t i,
                       fy_plan_matrix *out);
/* Of all of them; false when that is more than 64 bits count. */
bool fy_plan_layer_bytes(const fy_npu_model *m, const fy_npu_recipe *r, uint32_t layer,
                         uint64_t *bytes);

/* --- what JSON objects share ------------------------------------------------------------------ */

/* text NULL: null. */
void fy_plan_json_text(fy_json_maker *m, json_t *object, const char *key, const char *text);
json_t *fy_plan_json_model(fy_json_maker *m, const fy_plan_model *model);
json_t *fy_plan_json_soc(fy_json_maker *m, const fy_soc *s);
const char *fy_plan_limit_name(fy_npu_limit limit); /* "sessions"; NULL of none */

#endif
