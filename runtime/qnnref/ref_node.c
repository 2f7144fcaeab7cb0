/* Nodes: an operation with its parameters and tensors, as addNode and validateOpConfig bring it. */
#include "qnnref/ref_impl.h"

#include <stdlib.h>
#include <string.h>

const ref_op *ref_op_find(const char *name)
{
    for (uint32_t i = 0; i < ref_n_ops; i++) {
        if (strcmp(ref_ops[i].name, name) == 0)
            return &ref_ops[i];
    }
    return NULL;
}

bool ref_may_be_absent(const ref_op *op, uint32_t input)
{
    return input >= op->min_inputs && op->max_inputs <= 3;
}

void ref_node_release(ref_node *n)
{
    for (uint32_t i = 0; i < REF_MAX_PARAMS; i++)
        free(n->params[i].words);
    free(n->name);
    free(n->in);
    free(n->out);
    *n = (ref_node){0};
}

const ref_param *ref_param_of(const ref_node *n, const char *name)
{
    for (uint32_t i = 0; i < REF_MAX_PARAMS && n->op->params[i].name != NULL; i++) {
        if (strcmp(n->op->params[i].name, name) == 0)
            return n->params[i].given ? &n->params[i] : NULL;
    }
    return NULL;
}

uint32_t ref_param_word(const ref_node *n, const char *name, uint32_t otherwise)
{
    const ref_param *p = ref_param_of(n, name);
    return p != NULL && p->n > 0 ? p->words[0] : otherwise;
}

static abi_error bad(const ref_node *n, const char *why, const char *param)
{
    return ref_fail(ABI_GRAPH_OP, "node '%s' (%s): parameter '%s' %s", n->name, n->op->name, param,
                    why);
}

static abi_error read_scalar(ref_node *n, ref_param *p, const ref_param_spec *spec,
                             const abi_scalar *v)
{
    if (spec->rank != 0 || v->data_type != spec->data_type)
        return bad(n, "has another type", spec->name);
    if (spec->data_type == ABI_BOOL && v->u.b8 > 1)
        return bad(n, "is neither 0 nor 1", spec->name);
    p->words = malloc(sizeof *p->words);
    if (p->words == NULL)
        return ABI_MEM_ALLOC;
    p->n = 1;
    p->words[0] = spec->data_type == ABI_BOOL ? v->u.b8 : v->u.u32;
    return 0;
}

/* The values are read when the node is added: validate may come when they are no longer there. */
static abi_error read_tensor(ref_node *n, ref_param *p, const ref_param_spec *spec,
                             const abi_tensor *from, bool values)
{
    const abi_tensor1 *v = ref_tensor1(from);
    if (spec->rank == 0 || v == NULL || v->type != ABI_STATIC || v->data_type != spec->data_type ||
        v->rank != spec->rank || v->dims == NULL)
        return bad(n, "has another type or rank", spec->name);
    if (v->id == 0)
        return bad(n, "was not created in the graph", spec->name);
    p->n = 1;
    for (uint32_t i = 0; i < v->rank; i++) {
        p->dims[i] = v->dims[i];
        if (v->dims[i] == 0 || v->dims[i] > 4096)
            return bad(n, "has another shape", spec->name);
        p->n *= v->dims[i];
    }
    if (!values)
        return 0;
    if (v->mem_type != ABI_RAW || v->u.buffer.data == NULL || v->u.buffer.size != p->n * 4)
        return bad(n, "has no values", spec->name);
    p->words = malloc(p->n * sizeof *p->words);
    if (p->words == NULL)
        return ABI_MEM_ALLOC;
    memcpy(p->words, v->u.buffer.data, p->n * sizeof *p->words);
    return 0;
}

static int spec_of(const ref_op *op, const char *name)
{
    for (int i = 0; i < REF_MAX_PARAMS && op->params[i].name != NULL; i++) {
        if (strcmp(op->params[i].name, name) == 0)
            return i;
    }
    return -1;
}

abi_error ref_node_params(ref_node *n, const abi_op *op, bool values)
{
    if (op->v1.n_params > 64 || (op->v1.n_params > 0 && op->v1.params == NULL))
        return ref_fail(ABI_GRAPH_OP, "node '%s': %u parameters", n->name, op->v1.n_params);
    for (uint32_t i = 0; i < op->v1.n_params; i++) {
        const abi_param *from = &op->v1.params[i];
        int k = from->name != NULL ? spec_of(n->op, from->name) : -1;
        if (k < 0 || from->type > 1)
            return bad(n, "is not known", from->name != NULL ? from->name : "(none)");
        if (n->params[k].given)
            return bad(n, "is given twice", from->name);
        abi_error code =
            from->type == 0
                ? read_scalar(n, &n->params[k], &n->op->params[k], &from->u.scalar)
                : read_tensor(n, &n->params[k], &n->op->params[k], &from->u.tensor, values);
        if (code != 0)
            return code;
        n->params[k].given = true;
    }
    for (int i = 0; i < REF_MAX_PARAMS && n->op->params[i].name != NULL; i++) {
        if (n->op->params[i].required && !n->params[i].given)
            return bad(n, "is missing", n->op->params[i].name);
    }
    return 0;
}
