/* Execution: the caller's tensors are checked against the graph's, then the nodes run in the order
 * in which they were added. Intermediate values live from the node that writes them to the last one
 * that reads them. */
#include "qnnref/ref_impl.h"

#include <stdlib.h>
#include <string.h>

static uint32_t index_of(const ref_graph *g, const ref_tensor *t)
{
    uint32_t lo = 0, hi = g->n_tensors;
    while (g->tensors[lo + (hi - lo) / 2] != t) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (g->tensors[mid]->id < t->id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo + (hi - lo) / 2;
}

const void *ref_input(const ref_run *r, const ref_tensor *t)
{
    return t->type == ABI_STATIC ? t->data->p : r->values[index_of(r->graph, t)];
}

void *ref_output(const ref_run *r, const ref_tensor *t)
{
    return r->values[index_of(r->graph, t)];
}

/* The bytes of an input or output that the caller brings. */
static abi_error bind(const ref_graph *g, const ref_tensor *t, const abi_tensor1 *v, uint8_t **p)
{
    if (v->data_type != t->data_type || v->rank != t->rank || v->dims == NULL || v->type != t->type)
        return ref_fail(ABI_GRAPH_TENSOR, "execute: tensor '%s' is described otherwise", t->name);
    for (uint32_t i = 0; i < t->rank; i++) {
        if (v->dims[i] != t->dims[i])
            return ref_fail(ABI_GRAPH_TENSOR, "execute: tensor '%s': dimension %u is %u", t->name,
                            i, v->dims[i]);
    }
    if (v->mem_type == ABI_RAW) {
        if (v->u.buffer.data == NULL || v->u.buffer.size != t->bytes)
            return ref_fail(ABI_GRAPH_TENSOR, "execute: tensor '%s': %u bytes, expected %llu",
                            t->name, v->u.buffer.size, (unsigned long long)t->bytes);
        *p = v->u.buffer.data;
        return 0;
    }
    ref_mem *m = v->mem_type == ABI_MEMHANDLE ? ref_find(v->u.mem, REF_MEM) : NULL;
    if (m == NULL)
        return ref_fail(ABI_MEM_HANDLE, "execute: tensor '%s' without a registered memory",
                        t->name);
    if (m->context != g->context) {
        ref_lose_contexts();
        return ref_fail(ABI_SYSTEM,
                        "execute: the memory of tensor '%s' is of another context: "
                        "the subsystem restarted",
                        t->name);
    }
    if (m->bytes < t->bytes)
        return ref_fail(ABI_MEM_HANDLE, "execute: the memory of tensor '%s' is too small", t->name);
    *p = m->p;
    return 0;
}

static abi_error bind_all(ref_run *r, const abi_tensor *list, uint32_t n, bool outputs)
{
    const ref_graph *g = r->graph;
    uint32_t want = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        want += g->tensors[i]->type == (outputs ? ABI_APP_READ : ABI_APP_WRITE);
    if (n != want || (n > 0 && list == NULL))
        return ref_fail(outputs ? ABI_GRAPH_ARGUMENT : ABI_GRAPH_TENSOR,
                        "execute: %u %s, graph '%s' has %u", n, outputs ? "outputs" : "inputs",
                        g->name, want);
    for (uint32_t i = 0; i < n; i++) {
        const abi_tensor1 *v = ref_tensor1(&list[i]);
        ref_tensor *t = v != NULL ? ref_graph_find(g, v->id) : NULL;
        if (t == NULL || t->type != (outputs ? ABI_APP_READ : ABI_APP_WRITE))
            return ref_fail(ABI_GRAPH_TENSOR, "execute: %s %u is not of graph '%s'",
                            outputs ? "output" : "input", i, g->name);
        uint8_t **p = &r->values[index_of(g, t)];
        if (*p != NULL)
            return ref_fail(ABI_GRAPH_TENSOR, "execute: tensor '%s' is there twice", t->name);
        abi_error code = bind(g, t, v, p);
        if (code != 0)
            return code;
    }
    return 0;
}

/* FERRY_REF_JITTER=n: outputs of nodes are off by up to n steps, always by the same ones. */
static void jitter(ref_run *r, const ref_tensor *t)
{
    const char *text = getenv("FERRY_REF_JITTER");
    long steps = text != NULL ? strtol(text, NULL, 10) : 0;
    if (steps <= 0 || (t->data_type != ABI_U16 && t->data_type != ABI_U8))
        return;
    uint8_t *p = ref_output(r, t);
    long most = t->data_type == ABI_U16 ? 65535 : 255;
    for (uint64_t i = 0; i < t->n; i++) {
        uint64_t x = r->scratch_seed =
            r->scratch_seed * 6364136223846793005u + 1442695040888963407u;
        uint16_t *p16 = (uint16_t *)(void *)p;
        long v = most == 255 ? p[i] : p16[i];
        v += (long)((x >> 33) % (uint64_t)(2 * steps + 1)) - steps;
        v = v < 0 ? 0 : v > most ? most : v;
        if (most == 255)
            p[i] = (uint8_t)v;
        else
            p16[i] = (uint16_t)v;
    }
}

/* A fault: a bit of the first element. */
static void damage(const ref_run *r, const ref_tensor *t)
{
    const char *bit = ref_fault("output", t->name);
    if (bit == NULL)
        return;
    unsigned long b = strtoul(bit, NULL, 10) % (8ul * ref_type_bytes(t->data_type));
    uint8_t *p = ref_output(r, t);
    p[b / 8] ^= (uint8_t)(1u << b % 8);
}

static abi_error run_nodes(ref_run *r, bool *owned)
{
    const ref_graph *g = r->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const ref_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_out; k++) {
            uint32_t at = index_of(g, n->out[k]);
            if (r->values[at] == NULL) {
                r->values[at] = malloc(n->out[k]->bytes);
                owned[at] = true;
            }
            if (r->values[at] == NULL)
                return ref_fail(ABI_MEM_ALLOC, "execute: out of memory");
        }
        abi_error code = n->op->run(r, n);
        if (code != 0)
            return code;
        for (uint32_t k = 0; k < n->n_out; k++)
            jitter(r, n->out[k]);
        for (uint32_t k = 0; k < n->n_in; k++) {
            uint32_t at = n->in[k] != NULL ? index_of(g, n->in[k]) : 0;
            if (n->in[k] != NULL && n->in[k]->last_use == i && owned[at]) {
                free(r->values[at]);
                r->values[at] = NULL;
                owned[at] = false;
            }
        }
    }
    return 0;
}

static abi_error execute(ref_graph *g, const abi_tensor *in, uint32_t n_in, const abi_tensor *out,
                         uint32_t n_out)
{
    if (g->context->lost)
        return ref_fail(ABI_GRAPH_CONTEXT, "execute: the context of graph '%s' is lost", g->name);
    if (!g->finalized)
        return ref_fail(ABI_GRAPH_NOT_FINALIZED, "execute: graph '%s' is not finalized", g->name);
    uint8_t **values = calloc(g->n_tensors, sizeof *values);
    bool *owned = calloc(g->n_tensors, sizeof *owned);
    ref_run r = {
        .values = values, .graph = g, .coarse = g->context->soc.arch < 73, .scratch_seed = 1};
    abi_error code = values == NULL || owned == NULL ? ABI_MEM_ALLOC : 0;
    if (code == 0)
        code = bind_all(&r, in, n_in, false);
    if (code == 0)
        code = bind_all(&r, out, n_out, true);
    if (code == 0)
        code = run_nodes(&r, owned);
    for (uint32_t i = 0; i < g->n_tensors && values != NULL && owned != NULL; i++) {
        if (code == 0 && g->tensors[i]->type == ABI_APP_READ)
            damage(&r, g->tensors[i]);
        if (owned[i])
            free(values[i]);
    }
    free(values);
    free(owned);
    return code;
}

abi_error ref_graph_execute(abi_handle h, const abi_tensor *in, uint32_t n_in, abi_tensor *out,
                            uint32_t n_out, abi_handle profile, abi_handle signal)
{
    ref_call c;
    uint64_t start = ref_microseconds();
    ref_graph *g = ref_begin(&c, "graphExecute", h, REF_GRAPH);
    if (g == NULL)
        return ref_end(&c, c.code);
    abi_error code = ref_profile_check(profile, 6006);
    if (code == 0 && signal != NULL)
        code = ref_fail(ABI_GRAPH_ARGUMENT, "execute: signals are not supported");
    if (code == 0)
        code = execute(g, in, n_in, out, n_out);
    ref_profile_note(profile, 400, ref_microseconds() - start);
    return ref_end(&c, code);
}
