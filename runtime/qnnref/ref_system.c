/* libQnnRefSystem.so: what a binary holds, without a device. Which layout an answer has depends on
 * the release, as with the vendor's: BinaryInfo 1 with graph entries of 48 bytes, 2 with 64 (from
 * SDK 2.24), 3 with 88 (from 2.28). */
#include "qnnref/ref_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

typedef struct {
    void **list; /* owned */
    uint32_t n, cap;
} pool;

typedef struct {
    uint64_t magic; /* its own address while it lives */
    ref_context context;
    ref_blob_head head;
    pool memory; /* of the answer */
    abi_binary_info info;
} system_context;

static void *pool_alloc(pool *p, size_t n)
{
    if (p->n == p->cap) {
        uint32_t cap = p->cap == 0 ? 64 : 2 * p->cap;
        void **more = realloc(p->list, cap * sizeof(void *));
        if (more == NULL)
            return NULL;
        p->list = more;
        p->cap = cap;
    }
    void *m = calloc(1, n > 0 ? n : 1);
    if (m != NULL)
        p->list[p->n++] = m;
    return m;
}

static void pool_release(pool *p)
{
    while (p->n > 0)
        free(p->list[--p->n]);
    free(p->list);
    *p = (pool){0};
}

static uint64_t magic_of(const system_context *s)
{
    return (uintptr_t)s ^ UINT64_C(0x46595245465359);
}

static system_context *open_context(abi_handle h)
{
    system_context *s = h;
    return s != NULL && ((uintptr_t)h & 15) == 0 && s->magic == magic_of(s) ? s : NULL;
}

static void clear(system_context *s)
{
    ref_context_release(&s->context);
    pool_release(&s->memory);
    s->context = (ref_context){.file = -1};
    s->info = (abi_binary_info){0};
}

static abi_error create(abi_handle *out)
{
    system_context *s = out != NULL ? aligned_alloc(16, (sizeof *s + 15) / 16 * 16) : NULL;
    if (s == NULL)
        return ABI_SYSTEM_ARGUMENT;
    memset(s, 0, sizeof *s);
    s->magic = magic_of(s);
    s->context.file = -1;
    *out = s;
    return 0;
}

/* --- the answer --- */

static void describe_quant(const ref_tensor *t, abi_quant *q)
{
    *q = (abi_quant){.definition = t->quant.definition, .encoding = t->quant.encoding};
    if (t->quant.definition == ABI_DEFINED && t->quant.encoding == ABI_SCALE_OFFSET) {
        q->u.scale_offset = t->quant.one;
        if (ref_fault("encoding", t->name) != NULL)
            q->u.scale_offset.scale *= 2.0f;
    }
}

static bool describe_tensor(system_context *s, const ref_tensor *t, abi_tensor *to)
{
    uint32_t *dims = pool_alloc(&s->memory, t->rank * sizeof *dims);
    if (dims == NULL)
        return false;
    memcpy(dims, t->dims, t->rank * sizeof *dims);
    to->version = 1;
    to->u.v1 = (abi_tensor1){.id = t->id,
                             .name = t->name,
                             .type = t->type,
                             .data_type = t->data_type,
                             .rank = t->rank,
                             .dims = dims};
    describe_quant(t, &to->u.v1.quant);
    return true;
}

static abi_tensor *describe_list(system_context *s, const ref_graph *g, uint32_t type, uint32_t *n)
{
    abi_tensor *list = pool_alloc(&s->memory, g->n_tensors * sizeof *list);
    *n = 0;
    for (uint32_t i = 0; list != NULL && i < g->n_tensors; i++) {
        if (g->tensors[i]->type == type && !describe_tensor(s, g->tensors[i], &list[(*n)++]))
            return NULL;
    }
    return list;
}

/* One entry of any layout: they begin alike. */
static bool describe_graph(system_context *s, const ref_graph *g, uint32_t version, uint8_t *to)
{
    abi_graph_info3 x = {.v1 = {.version = version, .name = g->name}};
    x.v1.inputs = describe_list(s, g, ABI_APP_WRITE, &x.v1.n_inputs);
    x.v1.outputs = describe_list(s, g, ABI_APP_READ, &x.v1.n_outputs);
    abi_graph_blob *blob = version == 3 ? pool_alloc(&s->memory, sizeof *blob) : NULL;
    if (x.v1.inputs == NULL || x.v1.outputs == NULL || (version == 3 && blob == NULL))
        return false;
    if (version == 3) {
        *blob = (abi_graph_blob){.version = 1,
                                 .spill_bytes = g->spill_bytes,
                                 .vtcm_bytes = g->vtcm_bytes,
                                 .optimization = g->optimization,
                                 .dlbc = g->dlbc,
                                 .hvx_threads = g->hvx_threads};
        x.blob = blob;
        x.blob_size = sizeof *blob;
        x.end_op = g->n_nodes;
        memcpy(to, &x, sizeof x);
    } else {
        memcpy(to, &x, version == 2 ? sizeof(abi_graph_info2) : sizeof(abi_graph_info1));
    }
    return true;
}

static uint32_t layout_of(uint32_t sdk)
{
    return sdk >= 28 ? 3 : sdk >= 24 ? 2 : 1;
}

static bool describe(system_context *s, uint64_t bytes)
{
    static const size_t strides[] = {0, sizeof(abi_graph_info1), sizeof(abi_graph_info2),
                                     sizeof(abi_graph_info3)};
    const char *asked = ref_fault("layout", NULL);
    const uint32_t says = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10)
                                        : layout_of(ref_release_now()->sdk);
    uint32_t version = says >= 1 && says <= 3 ? says : 3, n = 0;
    for (const ref_graph *g = s->context.graphs; g != NULL; g = g->next)
        n++;
    uint8_t *graphs = pool_alloc(&s->memory, n * strides[version]);
    if (graphs == NULL)
        return false;
    uint32_t i = 0;
    for (const ref_graph *g = s->context.graphs; g != NULL; g = g->next) {
        if (!describe_graph(s, g, version, graphs + i++ * strides[version]))
            return false;
    }
    s->info.version = says;
    if (version == 3)
        s->info.u.v3 = (abi_binary_info3){.backend_id = 6,
                                          .build_id = s->head.build_id,
                                          .core = s->head.core,
                                          .backend = s->head.backend,
                                          .soc = "",
                                          .context_blob = s->head.blob,
                                          .context_size = bytes,
                                          .n_graphs = n,
                                          .graphs = graphs,
                                          .soc_model = s->head.soc};
    else
        s->info.u.v2 = (abi_binary_info2){.backend_id = 6,
                                          .build_id = s->head.build_id,
                                          .core = s->head.core,
                                          .backend = s->head.backend,
                                          .soc = "",
                                          .context_blob = s->head.blob,
                                          .context_size = bytes,
                                          .n_graphs = n,
                                          .graphs = graphs};
    return true;
}

static abi_error get_info(abi_handle h, const void *binary, uint64_t n, const abi_binary_info **out)
{
    system_context *s = open_context(h);
    if (s == NULL)
        return ABI_SYSTEM_HANDLE;
    if (binary == NULL || out == NULL)
        return ABI_SYSTEM_ARGUMENT;
    clear(s);
    abi_error code = ref_blob_read(&s->context, &s->head, binary, n);
    if (code == 0 && !describe(s, n))
        code = ABI_MEM_ALLOC;
    if (code != 0) {
        clear(s);
        return code == ABI_MEM_ALLOC ? code : ABI_SYSTEM_MALFORMED;
    }
    *out = &s->info;
    return 0;
}

static abi_error get_binary_info(abi_handle h, void *binary, uint64_t n,
                                 const abi_binary_info **out, uint64_t *bytes)
{
    abi_error code = bytes == NULL ? ABI_SYSTEM_ARGUMENT : get_info(h, binary, n, out);
    if (code == 0)
        *bytes = sizeof **out;
    return code;
}

static abi_error free_context(abi_handle h)
{
    system_context *s = open_context(h);
    if (s == NULL)
        return ABI_SYSTEM_HANDLE;
    clear(s);
    s->magic = 0;
    free(s);
    return 0;
}

typedef void function(void);

PUBLIC abi_error QnnSystemInterface_getProviders(const abi_system_provider ***out, uint32_t *n);
abi_error QnnSystemInterface_getProviders(const abi_system_provider ***out, uint32_t *n)
{
    static abi_system_provider provider;
    static const abi_system_provider *list[1] = {&provider};
    if (out == NULL || n == NULL)
        return ABI_SYSTEM_ARGUMENT;
    provider = (abi_system_provider){0,
                                     "FERRY_REFERENCE_SYSTEM",
                                     ref_release_now()->system,
                                     {(function *)create, (function *)get_binary_info,
                                      (function *)get_info, (function *)free_context}};
    *out = list;
    *n = ref_fault("system", "absent") != NULL ? 0 : 1;
    return 0;
}
