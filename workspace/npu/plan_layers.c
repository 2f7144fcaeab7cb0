/* What the matrices of a layer take in a recipe. */
#include <stdio.h>
#include <string.h>

#include "base/math.h"
#include "workspace/npu/plan_show.h"

/* Of what a family keeps in one tensor the parts are counted, under the names that other families
 * give them. */
static fy_span name_of(fy_slot slot)
{
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        for (size_t i = 0; i < (*f)->n_rows; i++) {
            if ((*f)->rows[i].slot != slot)
                continue;
            const char *dot = strrchr((*f)->rows[i].gguf, '.');
            const char *begin = strstr((*f)->rows[i].gguf, "%u.");
            begin = begin != NULL ? begin + 3 : (*f)->rows[i].gguf;
            return (fy_span){begin, (size_t)(dot - begin)};
        }
    }
    return (fy_span){0};
}

bool fy_plan_matrix_at(const fy_npu_model *m, const fy_npu_recipe *r, uint32_t layer, size_t i,
                       fy_plan_matrix *out)
{
    for (size_t k = 0; k < m->n_tensors; k++) {
        const fy_npu_tensor *t = &m->tensors[k];
        if (!t->matrix || !t->per_layer || t->layer != layer || i-- > 0)
            continue;
        const fy_span name = name_of(t->slot);
        snprintf(out->name, sizeof out->name, "%.*s", (int)name.len, name.ptr);
        out->type = fy_npu_recipe_type(r, t->slot, layer);
        out->n_out = t->n_out;
        out->n_in = t->n_in;
        if (!fy_npu_matrix_bytes(out->type, t->n_out, t->n_in, &out->bytes))
            out->bytes = UINT64_MAX;
        return true;
    }
    return false;
}

bool fy_plan_layer_bytes(const fy_npu_model *m, const fy_npu_recipe *r, uint32_t layer,
                         uint64_t *bytes)
{
    fy_plan_matrix t;
    *bytes = 0;
    for (size_t i = 0; fy_plan_matrix_at(m, r, layer, i, &t); i++) {
        if (!fy_add_u64(*bytes, t.bytes, bytes))
            return false;
    }
    return true;
}
