#include "convert/write/type_choice.h"

#include <stdlib.h>

#include "policy/type_policy.h"

static bool is_matrix(const fy_plan_tensor *t)
{
    return (t->row->flags & FY_ROW_MATRIX) != 0 && t->n_dims > 1;
}

/* The type of a matrix when all are `outtype`. */
static fy_type pure(const fy_plan_tensor *t, fy_type outtype)
{
    if (outtype != FY_OUTTYPE_AUTO)
        return outtype;
    fy_dtype d = t->src != NULL ? t->src->dtype : FY_DT_F16;
    return d == FY_DT_BF16 || d == FY_DT_F8_E4M3 ? FY_BF16 : FY_F16;
}

static void items_of(const fy_convert_plan *p, const fy_plan_options *o, fy_type_item *items,
                     char (*names)[FY_ROW_NAME_BYTES])
{
    for (size_t i = 0; i < p->n_tensors; i++) {
        const fy_plan_tensor *t = &p->tensors[i];
        const bool matrix = is_matrix(t);
        fy_plan_name(t, names[i]);
        items[i] = (fy_type_item){.name = fy_span_of(names[i]),
                                  .ne0 = t->ne[0],
                                  .matrix = matrix,
                                  .type = matrix ? pure(t, o->outtype) : FY_F32};
    }
}

int fy_choose_types(fy_convert_plan *p, const fy_plan_options *o, fy_err *e)
{
    const fy_hparams *hp = &p->config->hp;
    const fy_type_request r = {.llama = o->llama_recipe && o->outtype != FY_OUTTYPE_AUTO,
                               .target = o->outtype,
                               .output = o->output_type,
                               .embedding = o->embedding_type,
                               .rules = o->rules,
                               .model = {.arch = fy_span_of(p->config->family->gguf_arch),
                                         .n_layer = hp->n_layer,
                                         .n_head = hp->n_head,
                                         .n_head_kv = hp->n_head_kv,
                                         .n_expert = hp->n_expert}};
    fy_type_item *items = calloc(p->n_tensors + 1, sizeof *items);
    char(*names)[FY_ROW_NAME_BYTES] = calloc(p->n_tensors + 1, sizeof *names);
    int rc = items == NULL || names == NULL ? fy_nomem(e) : 0;
    if (rc == 0) {
        items_of(p, o, items, names);
        rc = fy_choose_matrix_types(&r, items, p->n_tensors, e);
    }
    for (size_t i = 0; rc == 0 && i < p->n_tensors; i++) {
        p->tensors[i].type = items[i].type;
        p->tensors[i].fallback = items[i].fallback;
    }
    free(items);
    free(names);
    return rc;
}
