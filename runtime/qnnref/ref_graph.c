/* Graphs while they are composed: tensors, nodes, validation, finalizing. */
#include "qnnref/ref_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- configuration --- */

enum { OPTIMIZATION = 1, PRECISION, VTCM_MB, NUM_HVX_THREADS = 6, MAX_CUSTOM = 17 };
static const uint8_t custom_since[MAX_CUSTOM + 1] = {0,  25, 25, 25, 25, 25, 25, 36, 36,
                                                     36, 36, 36, 36, 36, 36, 43, 43, 43};

static bool zero_from(const uint8_t *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

static abi_error read_optimization(ref_graph *g, const abi_graph_custom *x)
{
    float value = x->u.optimization.value;
    if (x->u.optimization.type == 3 && (value == 1.0f || value == 2.0f || value == 3.0f)) {
        g->optimization = (uint32_t)value;
        return 0;
    }
    if (x->u.optimization.type == 4 && (value == 0.0f || value == 1.0f)) {
        g->dlbc = value == 1.0f;
        return 0;
    }
    return ref_fail(ABI_GRAPH_ARGUMENT, "graph '%s': optimization %u with value %g", g->name,
                    x->u.optimization.type, (double)value);
}

static abi_error read_vtcm(ref_graph *g, uint32_t mb)
{
    uint32_t most = g->context->soc.vtcm_mb;
    if (mb > most)
        return ref_fail(ABI_GRAPH_ARGUMENT, "graph '%s': %u MB of VTCM, the chip has %u", g->name,
                        mb, most);
    g->vtcm_bytes = (mb == 0 ? most : mb) << 20;
    return 0;
}

static abi_error read_custom(ref_graph *g, const abi_graph_custom *x)
{
    char number[16];
    if (x == NULL)
        return ref_fail(ABI_GRAPH_ARGUMENT, "graph '%s': custom option without data", g->name);
    snprintf(number, sizeof number, "%u", x->option);
    if (x->option == 0 || x->option > MAX_CUSTOM ||
        custom_since[x->option] > ref_release_now()->sdk || ref_fault("config", number) != NULL)
        return ref_fail(ABI_UNSUPPORTED, "custom option %u of graphs is not known", x->option);
    if (!zero_from((const uint8_t *)x, 16, 56))
        return ref_fail(ABI_GRAPH_ARGUMENT, "custom option %u: reserved bytes are not 0",
                        x->option);
    switch (x->option) {
    case OPTIMIZATION:
        return read_optimization(g, x);
    case PRECISION:
        if (x->u.u32 > 1)
            return ref_fail(ABI_GRAPH_ARGUMENT, "graph '%s': precision %u", g->name, x->u.u32);
        g->precision = x->u.u32;
        return 0;
    case VTCM_MB:
        return read_vtcm(g, x->u.u32);
    case NUM_HVX_THREADS:
        if (x->u.u64 < 1 || x->u.u64 > 16)
            return ref_fail(ABI_GRAPH_ARGUMENT, "graph '%s': HVX threads", g->name);
        g->hvx_threads = x->u.u64;
        return 0;
    default:
        return 0;
    }
}

static abi_error read_config(ref_graph *g, const abi_config **config)
{
    abi_error code = 0;
    for (size_t i = 0; config != NULL && config[i] != NULL && code == 0; i++) {
        uint32_t option = config[i]->option;
        if (option == 0)
            code = read_custom(g, config[i]->u.custom);
        else if (option < 3 || option > 6)
            code = ref_fail(ABI_UNSUPPORTED, "option %u of graphs is not known", option);
    }
    return code;
}

abi_error ref_graph_config(abi_handle h, const abi_config **config)
{
    ref_call c;
    ref_graph *g = ref_begin(&c, "graphSetConfig", h, REF_GRAPH);
    return ref_end(&c, g == NULL ? c.code : read_config(g, config));
}

/* --- life --- */

ref_graph *ref_graph_new(ref_context *c, const char *name)
{
    ref_graph *g = calloc(1, sizeof *g);
    if (g == NULL || (g->name = strdup(name)) == NULL) {
        free(g);
        return NULL;
    }
    g->context = c;
    g->vtcm_bytes = (c->soc.vtcm_mb < 4 ? c->soc.vtcm_mb : 4) << 20;
    g->optimization = 2;
    g->hvx_threads = 4;
    ref_graph **at = &c->graphs;
    while (*at != NULL)
        at = &(*at)->next;
    *at = g;
    return g;
}

void ref_graph_free(ref_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        ref_node_release(&g->nodes[i]);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        ref_tensor_release(g->tensors[i]);
        free(g->tensors[i]);
    }
    free(g->nodes);
    free(g->tensors);
    free(g->name);
    free(g);
}

static void unlink_graph(ref_graph *g)
{
    ref_graph **at = &g->context->graphs;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    ref_graph_free(g);
}

static ref_graph *graph_named(const ref_context *c, const char *name)
{
    ref_graph *g = c->graphs;
    while (g != NULL && strcmp(g->name, name) != 0)
        g = g->next;
    return g;
}

static abi_error create(ref_context *c, const char *name, const abi_config **config,
                        abi_handle *out)
{
    if (out == NULL)
        return ABI_GRAPH_ARGUMENT;
    if (c->from_binary)
        return ref_fail(ABI_NOT_PERMITTED, "graphCreate: the context was loaded");
    if (name == NULL || name[0] == '\0' || graph_named(c, name) != NULL)
        return ref_fail(ABI_GRAPH_NAME, "graphCreate: no name, or one that another graph has");
    ref_graph *g = ref_graph_new(c, name);
    if (g == NULL)
        return ABI_MEM_ALLOC;
    abi_error code = read_config(g, config);
    if (code == 0)
        code = ref_publish(&g->object, REF_GRAPH, &c->object);
    if (code != 0) {
        unlink_graph(g);
        return code;
    }
    g->published = true;
    *out = g->object.handle;
    return 0;
}

abi_error ref_graph_create(abi_handle context, const char *name, const abi_config **config,
                           abi_handle *out)
{
    ref_call call;
    ref_context *c = ref_begin(&call, "graphCreate", context, REF_CONTEXT);
    return ref_end(&call, c == NULL ? call.code : create(c, name, config, out));
}

static bool is_enabled(const ref_context *c, const char *name)
{
    if (c->enabled == NULL)
        return true;
    for (size_t i = 0; c->enabled[i] != NULL; i++) {
        if (strcmp(c->enabled[i], name) == 0)
            return true;
    }
    return false;
}

abi_error ref_graph_retrieve(abi_handle context, const char *name, abi_handle *out)
{
    ref_call call;
    ref_context *c = ref_begin(&call, "graphRetrieve", context, REF_CONTEXT);
    if (c == NULL)
        return ref_end(&call, call.code);
    if (name == NULL || out == NULL)
        return ref_end(&call, ABI_GRAPH_ARGUMENT);
    ref_graph *g = graph_named(c, name);
    if (g == NULL)
        return ref_end(&call, ref_fail(ABI_GRAPH_NAME, "graphRetrieve: no graph '%s'", name));
    if (!is_enabled(c, name))
        return ref_end(&call, ref_fail(6035, "graphRetrieve: graph '%s' is not enabled", name));
    abi_error code = g->published ? 0 : ref_publish(&g->object, REF_GRAPH, &c->object);
    g->published = g->published || code == 0;
    *out = g->object.handle;
    return ref_end(&call, code);
}

/* --- tensors --- */

ref_tensor *ref_graph_find(const ref_graph *g, uint32_t id)
{
    for (uint32_t lo = 0, hi = g->n_tensors; lo < hi;) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (g->tensors[mid]->id == id)
            return g->tensors[mid];
        if (g->tensors[mid]->id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

abi_error ref_graph_tensor(ref_graph *g, ref_tensor *t)
{
    if (g->n_tensors == g->cap_tensors) {
        uint32_t cap = g->cap_tensors == 0 ? 64 : g->cap_tensors * 2;
        ref_tensor **more = realloc(g->tensors, cap * sizeof(ref_tensor *));
        if (more == NULL)
            return ABI_MEM_ALLOC;
        g->tensors = more;
        g->cap_tensors = cap;
    }
    g->tensors[g->n_tensors++] = t;
    return 0;
}

static abi_error check_data(const ref_tensor *t, const abi_tensor1 *v)
{
    if (t->mem_type == ABI_MEMHANDLE)
        return v->u.mem == NULL
                   ? 0
                   : ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': a memory handle before execution",
                              t->name);
    if (t->type == ABI_STATIC && (v->u.buffer.data == NULL || v->u.buffer.size != t->bytes))
        return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': %u bytes of values, expected %llu",
                        t->name, v->u.buffer.size, (unsigned long long)t->bytes);
    if (t->type != ABI_STATIC && (v->u.buffer.data != NULL || v->u.buffer.size != 0))
        return ref_fail(ABI_TENSOR_PARAMETER, "tensor '%s': only static tensors have values",
                        t->name);
    return 0;
}

static abi_error add_tensor(ref_graph *g, abi_tensor *from)
{
    if (from == NULL)
        return ABI_TENSOR_PARAMETER;
    if (g->finalized || g->from_binary)
        return ref_fail(ABI_GRAPH_FINALIZED, "graph '%s' is finalized", g->name);
    ref_tensor *t = calloc(1, sizeof *t);
    if (t == NULL)
        return ABI_MEM_ALLOC;
    abi_error code = ref_tensor_read(t, from);
    if (code == 0)
        code = check_data(t, &from->u.v1);
    for (uint32_t i = 0; code == 0 && i < g->n_tensors; i++) {
        if (g->tensors[i]->name_hash == t->name_hash && strcmp(g->tensors[i]->name, t->name) == 0)
            code =
                ref_fail(ABI_TENSOR_NAME, "graph '%s' has a tensor '%s' already", g->name, t->name);
    }
    if (code == 0)
        code = ref_graph_tensor(g, t);
    if (code != 0) {
        ref_tensor_release(t);
        free(t);
        return code;
    }
    t->id = g->context->next_id++;
    if (t->type == ABI_STATIC)
        code = ref_context_data(g->context, t, from->u.v1.u.buffer.data);
    from->u.v1.id = t->id;
    return code;
}

abi_error ref_tensor_create(abi_handle graph, abi_tensor *t)
{
    ref_call c;
    ref_graph *g = ref_begin(&c, "tensorCreateGraphTensor", graph, REF_GRAPH);
    return ref_end(&c, g == NULL ? c.code : add_tensor(g, t));
}

/* --- nodes --- */

static abi_error read_header(ref_node *n, const abi_op *op)
{
    *n = (ref_node){0};
    if (op->version != 1 || op->v1.name == NULL || op->v1.package == NULL || op->v1.type == NULL)
        return ref_fail(ABI_GRAPH_OP, "a node of version %u, without a name, package or type",
                        op->version);
    if (strcmp(op->v1.package, "qti.aisw") != 0)
        return ref_fail(ABI_GRAPH_OP, "node '%s': package '%s' is not known", op->v1.name,
                        op->v1.package);
    n->op = ref_op_find(op->v1.type);
    n->sdk = ref_release_now()->sdk;
    n->arch = ref_soc_now()->arch;
    if (n->op == NULL || n->op->since_sdk > n->sdk)
        return ref_fail(ABI_BACKEND_OPERATION, "node '%s': operation '%s' is not known",
                        op->v1.name, op->v1.type);
    n->n_in = op->v1.n_inputs;
    n->n_out = op->v1.n_outputs;
    if (n->n_in < n->op->min_inputs || n->n_in > n->op->max_inputs || n->n_in > REF_MAX_INPUTS ||
        n->n_out < 1 || n->n_out > n->op->max_outputs || op->v1.inputs == NULL ||
        op->v1.outputs == NULL)
        return ref_fail(ABI_GRAPH_OP, "node '%s' (%s): %u inputs and %u outputs", op->v1.name,
                        op->v1.type, n->n_in, n->n_out);
    n->name = strdup(op->v1.name);
    n->in = calloc(n->n_in + 1, sizeof(ref_tensor *));
    n->out = calloc(n->n_out, sizeof(ref_tensor *));
    return n->name == NULL || n->in == NULL || n->out == NULL ? ABI_MEM_ALLOC : 0;
}

static abi_error check_node(const ref_node *n)
{
    abi_error code = n->op->check(n);
    return code != 0 ? code : ref_rules_check(n);
}

/* Validation sees descriptions only: tensors of the node's own, freed with it. */
static abi_error validate(const abi_op *op)
{
    ref_node n;
    ref_tensor *made = NULL;
    abi_error code = read_header(&n, op);
    uint32_t count = code == 0 ? n.n_in + n.n_out : 0;
    if (code == 0 && (made = calloc(count, sizeof *made)) == NULL)
        code = ABI_MEM_ALLOC;
    for (uint32_t i = 0; i < count && code == 0; i++) {
        bool is_in = i < n.n_in;
        const abi_tensor *from = is_in ? &op->v1.inputs[i] : &op->v1.outputs[i - n.n_in];
        const abi_tensor1 *v = ref_tensor1(from);
        if (is_in && v != NULL && v->type == ABI_NULL && ref_may_be_absent(n.op, i))
            continue;
        code = ref_tensor_read(&made[i], from);
        if (is_in)
            n.in[i] = &made[i];
        else
            n.out[i - n.n_in] = &made[i];
    }
    if (code == 0)
        code = ref_node_params(&n, op, false);
    if (code == 0)
        code = check_node(&n);
    const char *fault = n.op != NULL ? ref_fault("validate", n.op->name) : NULL;
    if (fault != NULL)
        code = strcmp(fault, "accept") == 0 ? 0 : ABI_OP_VALIDATION;
    for (uint32_t i = 0; i < count && made != NULL; i++)
        ref_tensor_release(&made[i]);
    free(made);
    ref_node_release(&n);
    bool own = code == 0 || code == ABI_MEM_ALLOC || code == ABI_BACKEND_OPERATION;
    return own ? code : ABI_OP_VALIDATION;
}

abi_error ref_backend_validate(abi_handle h, abi_op op)
{
    ref_call c;
    void *b = ref_begin(&c, "backendValidateOpConfig", h, REF_BACKEND);
    return ref_end(&c, b == NULL ? c.code : validate(&op));
}

static abi_error find_tensors(ref_graph *g, ref_node *n, const abi_op *op)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        const abi_tensor1 *v = ref_tensor1(&op->v1.inputs[i]);
        if (v != NULL && v->type == ABI_NULL && ref_may_be_absent(n->op, i))
            continue;
        ref_tensor *t = v != NULL ? ref_graph_find(g, v->id) : NULL;
        if (t == NULL)
            return ref_fail(ABI_GRAPH_OP, "node '%s': input %u is not of the graph", n->name, i);
        if (v->data_type != t->data_type || v->rank != t->rank || v->type != t->type)
            return ref_fail(ABI_GRAPH_OP, "node '%s': input '%s' is described otherwise", n->name,
                            t->name);
        if (t->type == ABI_APP_READ && !t->written)
            return ref_fail(ABI_GRAPH_UNCONNECTED, "node '%s': input '%s' is not written yet",
                            n->name, t->name);
        if (t->type == ABI_NATIVE && !t->written)
            return ref_fail(ABI_GRAPH_UNCONNECTED, "node '%s': input '%s' is not written yet",
                            n->name, t->name);
        n->in[i] = t;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        const abi_tensor1 *v = ref_tensor1(&op->v1.outputs[i]);
        ref_tensor *t = v != NULL ? ref_graph_find(g, v->id) : NULL;
        if (t == NULL || (t->type != ABI_NATIVE && t->type != ABI_APP_READ) || t->written)
            return ref_fail(ABI_GRAPH_OP,
                            "node '%s': output %u is not a tensor to write, or written already",
                            n->name, i);
        if (v->data_type != t->data_type || v->rank != t->rank || v->type != t->type)
            return ref_fail(ABI_GRAPH_OP, "node '%s': output '%s' is described otherwise", n->name,
                            t->name);
        n->out[i] = t;
    }
    return 0;
}

static abi_error add_node(ref_graph *g, const abi_op *op)
{
    if (g->finalized || g->from_binary)
        return ref_fail(ABI_GENERAL, "graph '%s' is finalized", g->name);
    if (g->n_nodes == g->cap_nodes) {
        uint32_t cap = g->cap_nodes == 0 ? 64 : g->cap_nodes * 2;
        ref_node *more = realloc(g->nodes, cap * sizeof *more);
        if (more == NULL)
            return ABI_MEM_ALLOC;
        g->nodes = more;
        g->cap_nodes = cap;
    }
    ref_node n;
    abi_error code = read_header(&n, op);
    if (code == 0)
        code = find_tensors(g, &n, op);
    if (code == 0)
        code = ref_node_params(&n, op, true);
    const char *fault = code == 0 ? ref_fault("validate", n.op->name) : NULL;
    bool forced = fault != NULL && strcmp(fault, "accept") == 0;
    if (code == 0 && !forced)
        code = check_node(&n);
    if (code != 0) {
        ref_node_release(&n);
        return code == ABI_OP_VALIDATION || code == ABI_BACKEND_OPERATION ? ABI_GRAPH_OP : code;
    }
    g->poisoned = g->poisoned || forced;
    for (uint32_t i = 0; i < n.n_in; i++) {
        if (n.in[i] != NULL)
            n.in[i]->used = true;
    }
    for (uint32_t i = 0; i < n.n_out; i++)
        n.out[i]->written = true;
    g->nodes[g->n_nodes++] = n;
    return 0;
}

abi_error ref_graph_add(abi_handle h, abi_op op)
{
    ref_call c;
    ref_graph *g = ref_begin(&c, "graphAddNode", h, REF_GRAPH);
    return ref_end(&c, g == NULL ? c.code : add_node(g, &op));
}

/* --- finalize --- */

abi_error ref_graph_ready(ref_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        for (uint32_t k = 0; k < g->nodes[i].n_in; k++) {
            if (g->nodes[i].in[k] != NULL)
                g->nodes[i].in[k]->last_use = i;
        }
    }
    g->finalized = true;
    return 0;
}

/* A tile of rows, four of 16 bits and eight of 8, padded to 32 elements, of each tensor that is not
 * static must fit the chip's fast memory (fact sheet 5.1). */
static abi_error check_vtcm(const ref_graph *g, const ref_node *n)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n->n_in + n->n_out; i++) {
        const ref_tensor *t = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (t == NULL || t->type == ABI_STATIC)
            continue;
        uint64_t row = (t->dims[t->rank - 1] + 31) / 32 * 32;
        uint32_t each = ref_type_bytes(t->data_type);
        uint64_t rows = each == 1 ? 8 : 4, all = t->n / t->dims[t->rank - 1];
        bytes += row * each * (all < rows ? all : rows);
    }
    if (bytes > g->vtcm_bytes)
        return ref_fail(ABI_MEM_ALLOC,
                        "node '%s' (%s): a tile of rows takes 0x%llx bytes, VTCM has 0x%x", n->name,
                        n->op->name, (unsigned long long)bytes, g->vtcm_bytes);
    return 0;
}

static abi_error check_connected(const ref_graph *g)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const ref_tensor *t = g->tensors[i];
        if (t->type == ABI_APP_WRITE && !t->used)
            return ref_fail(ABI_GRAPH_UNCONNECTED, "graph '%s': input '%s' is not used", g->name,
                            t->name);
        if (t->type == ABI_APP_READ && !t->written)
            return ref_fail(ABI_GRAPH_CREATE, "graph '%s': output '%s' is not written", g->name,
                            t->name);
        if (t->type == ABI_NATIVE && t->written && !t->used)
            return ref_fail(ABI_GRAPH_UNCONNECTED, "graph '%s': '%s' is not connected", g->name,
                            t->name);
    }
    return 0;
}

/* Each static value counts once, tensors that nodes pass on twice: an estimate that grows as the
 * vendor's does. */
static abi_error check_memory(ref_context *c)
{
    ref_limits limits = ref_fault_limits();
    if (limits.session_bytes == UINT64_MAX)
        return 0;
    uint64_t sessions = limits.sessions == UINT64_MAX ? 1 : limits.sessions;
    if (c->heap_bytes > limits.session_bytes * sessions)
        return ref_fail(ABI_MEM_ALLOC, "no session has room for %llu bytes",
                        (unsigned long long)c->heap_bytes);
    return 0;
}

static abi_error finalize(ref_graph *g)
{
    if (g->from_binary || g->finalized)
        return ref_fail(ABI_UNSUPPORTED, "graph '%s' is finalized", g->name);
    if (g->n_nodes == 0)
        return ref_fail(ABI_GRAPH_FINALIZE, "graph '%s' has no nodes", g->name);
    abi_error code = check_connected(g);
    if (code == 0 && g->poisoned)
        code = ref_fail(ABI_MEM_ALLOC, "graph '%s': a node cannot be prepared", g->name);
    for (uint32_t i = 0; code == 0 && i < g->n_nodes; i++) {
        code = check_vtcm(g, &g->nodes[i]);
        if (ref_fault("finalize", g->nodes[i].op->name) != NULL)
            code = ref_fail(ABI_MEM_ALLOC, "node '%s' cannot be prepared", g->nodes[i].name);
    }
    if (code == 0)
        code = check_memory(g->context);
    return code != 0 ? code : ref_graph_ready(g);
}

abi_error ref_graph_finalize(abi_handle h, abi_handle profile, abi_handle signal)
{
    ref_call c;
    uint64_t start = ref_microseconds();
    ref_graph *g = ref_begin(&c, "graphFinalize", h, REF_GRAPH);
    if (g == NULL)
        return ref_end(&c, c.code);
    abi_error code = ref_profile_check(profile, 6006);
    if (code == 0 && signal != NULL)
        code = ref_fail(ABI_GRAPH_ARGUMENT, "graphFinalize: signals are not supported");
    if (code == 0)
        code = finalize(g);
    ref_profile_note(profile, 300, ref_microseconds() - start);
    return ref_end(&c, code);
}
