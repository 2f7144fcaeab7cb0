/* Parts of what `ferry plan` says in JSON that its objects share. */
#ifndef FY_WORKSPACE_PLAN_JSON_H
#define FY_WORKSPACE_PLAN_JSON_H

#include "base/json_tree.h"
#include "workspace/npu/npu_plan.h"
#include "workspace/npu/plan_model.h"

/* text NULL: null. */
void fy_plan_json_text(fy_json_maker *m, json_t *object, const char *key, const char *text);
json_t *fy_plan_json_model(fy_json_maker *m, const fy_plan_model *model);
json_t *fy_plan_json_soc(fy_json_maker *m, const fy_soc *s);
const char *fy_plan_limit_name(fy_npu_limit limit); /* "sessions"; NULL of none */

#endif
