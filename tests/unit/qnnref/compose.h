/* A client of the QNN interface for tests: loads a library, composes graphs, executes them. It
 * works on the reference and on the vendor's library alike, and keeps the first error of a graph.
 */
#ifndef FY_TEST_QNNREF_COMPOSE_H
#define FY_TEST_QNNREF_COMPOSE_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qnnref/ref_abi.h"

typedef struct {
    void *library;
    abi_provider *provider;
    abi_handle log, backend, device, context, graph;
    abi_tensor *tensors[256];
    uint32_t n_tensors;
    abi_param params[8];
    uint32_t n_params, n_nodes;
    abi_error tensor_error, validate_error, add_error;
    char message[512]; /* the first error line of the log since message[0] was cleared */
} client;

#define SLOT(c, i, type) ((type *)(c)->provider->slots[i])

typedef abi_error providers_fn(abi_provider ***list, uint32_t *n);
typedef abi_error backend_create_fn(abi_handle, const abi_config **, abi_handle *);
typedef abi_error validate_fn(abi_handle, abi_op);
typedef abi_error free_fn(abi_handle);
typedef abi_error context_create_fn(abi_handle, abi_handle, const abi_config **, abi_handle *);
typedef abi_error binary_size_fn(abi_handle, uint64_t *);
typedef abi_error binary_fn(abi_handle, void *, uint64_t, uint64_t *);
typedef abi_error from_binary_fn(abi_handle, abi_handle, const abi_config **, const void *,
                                 uint64_t, abi_handle *, abi_handle);
typedef abi_error context_free_fn(abi_handle, abi_handle);
typedef abi_error graph_create_fn(abi_handle, const char *, const abi_config **, abi_handle *);
typedef abi_error finalize_fn(abi_handle, abi_handle, abi_handle);
typedef abi_error retrieve_fn(abi_handle, const char *, abi_handle *);
typedef abi_error execute_fn(abi_handle, const abi_tensor *, uint32_t, abi_tensor *, uint32_t,
                             abi_handle, abi_handle);
typedef abi_error tensor_fn(abi_handle, abi_tensor *);
typedef abi_error log_create_fn(abi_log_callback *, uint32_t, abi_handle *);

/* The directory of the reference library: beside the test program's own build directory. */
static inline const char *reference_path(const char *name)
{
    static char path[1024];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    path[n > 0 ? n : 0] = '\0';
    char *tests = strstr(path, "/tests/");
    if (tests != NULL)
        snprintf(tests, 64, "/qnn/%s", name);
    return path;
}

static client *logging;

__attribute__((format(printf, 1, 0))) static inline void
keep_line(const char *format, uint32_t level, uint64_t time, va_list args)
{
    (void)time;
    if (level == 1 && logging != NULL && logging->message[0] == '\0')
        vsnprintf(logging->message, sizeof logging->message, format, args);
}

static inline int client_open(client *c, const char *path)
{
    memset(c, 0, sizeof *c);
    logging = c;
    c->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (c->library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    providers_fn *get;
    *(void **)&get = dlsym(c->library, "QnnInterface_getProviders");
    abi_provider **list = NULL;
    uint32_t n = 0;
    if (get == NULL || get(&list, &n) != 0 || n < 1)
        return -1;
    c->provider = list[0];
    if (SLOT(c, 25, log_create_fn)(keep_line, 1, &c->log) != 0)
        return -1;
    return SLOT(c, 1, backend_create_fn)(c->log, NULL, &c->backend) == 0 ? 0 : -1;
}

static inline abi_error client_device(client *c, uint32_t soc, uint32_t arch, uint32_t vtcm_mb)
{
    uint32_t custom[16] = {0, soc, soc};
    abi_device_extension x = {.vtcm_mb = vtcm_mb, .soc = soc, .dlbc = true, .arch = arch};
    abi_core_info core = {.version = 1};
    abi_hardware_info h = {.version = 1, .v1 = {.n_cores = 1, .cores = &core, .extension = &x}};
    abi_platform_info p = {.version = 1, .v1 = {.n = 1, .devices = &h}};
    abi_config a = {.option = 0, .u.custom = custom}, b = {.option = 1, .u.custom = &p};
    const abi_config *list[] = {&a, &b, NULL};
    return SLOT(c, 40, backend_create_fn)(c->log, list, &c->device);
}

static inline abi_error client_context(client *c, bool sharing)
{
    uint64_t raw[8] = {0};
    abi_context_custom *x = (abi_context_custom *)(void *)raw;
    x->option = 1;
    x->u.b = true;
    abi_config k = {.option = 0, .u.custom = raw};
    const abi_config *list[] = {&k, NULL};
    return SLOT(c, 9, context_create_fn)(c->backend, c->device, sharing ? list : NULL, &c->context);
}

static inline void client_forget(client *c)
{
    for (uint32_t i = 0; i < c->n_tensors; i++) {
        free((void *)(uintptr_t)c->tensors[i]->u.v1.name);
        free(c->tensors[i]->u.v1.dims);
        free(c->tensors[i]);
    }
    c->n_tensors = c->n_params = c->n_nodes = 0;
    c->tensor_error = c->validate_error = c->add_error = 0;
}

static inline abi_error client_graph(client *c, const char *name)
{
    client_forget(c);
    uint64_t raw[3][8] = {{0}};
    abi_graph_custom *x[3];
    abi_config k[3] = {{0}};
    const abi_config *list[4] = {NULL};
    for (int i = 0; i < 3; i++) {
        x[i] = (abi_graph_custom *)(void *)raw[i];
        k[i].u.custom = raw[i];
        list[i] = &k[i];
    }
    x[0]->option = 1;
    x[0]->u.optimization.type = 3;
    x[0]->u.optimization.value = 3;
    x[1]->option = 3;
    x[1]->u.u32 = 8;
    x[2]->option = 6;
    x[2]->u.u64 = 4;
    return SLOT(c, 15, graph_create_fn)(c->context, name, list, &c->graph);
}

static inline abi_quant no_quant(void)
{
    return (abi_quant){.definition = ABI_UNDEFINED, .encoding = ABI_UNDEFINED};
}

static inline abi_quant scale_offset(double scale, int32_t offset)
{
    return (abi_quant){.definition = 1, .u.scale_offset = {(float)scale, offset}};
}

static inline uint64_t elements(const abi_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->u.v1.rank; i++)
        n *= t->u.v1.dims[i];
    return n;
}

static inline uint32_t type_bytes(uint32_t type)
{
    switch (type & 0xff) {
    case 0x08:
        return 1;
    case 0x16:
        return 2;
    default:
        return 4;
    }
}

/* A tensor of the graph; dims ends with 0. Static values stay the caller's. */
static inline abi_tensor *tensor(client *c, const char *name, uint32_t type, uint32_t data_type,
                                 abi_quant q, void *values, const uint32_t *dims)
{
    abi_tensor *t = calloc(1, sizeof *t);
    t->version = 1;
    abi_tensor1 *v = &t->u.v1;
    v->name = strdup(name);
    v->type = type;
    v->data_type = data_type;
    v->quant = q;
    v->dims = calloc(8, sizeof *v->dims);
    while (dims[v->rank] != 0) {
        v->dims[v->rank] = dims[v->rank];
        v->rank++;
    }
    if (type == ABI_STATIC) {
        v->u.buffer.data = values;
        v->u.buffer.size = (uint32_t)(elements(t) * type_bytes(data_type));
    }
    abi_error e = SLOT(c, 24, tensor_fn)(c->graph, t);
    if (c->tensor_error == 0)
        c->tensor_error = e;
    c->tensors[c->n_tensors++] = t;
    return t;
}

#define DIMS(...) ((const uint32_t[]){__VA_ARGS__, 0})

static inline void param_scalar(client *c, const char *name, uint32_t type, uint32_t bits)
{
    abi_param *p = &c->params[c->n_params++];
    *p = (abi_param){.name = name};
    p->u.scalar.data_type = type;
    p->u.scalar.u.u32 = bits;
}

static inline void param_float(client *c, const char *name, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    param_scalar(c, name, ABI_F32, bits);
}

static inline void param_tensor(client *c, const char *name, uint32_t type, void *values,
                                const uint32_t *dims)
{
    char full[64];
    snprintf(full, sizeof full, "p%u_%s", c->n_tensors, name);
    abi_param *p = &c->params[c->n_params++];
    *p = (abi_param){.type = 1, .name = name};
    p->u.tensor = *tensor(c, full, ABI_STATIC, type, no_quant(), values, dims);
}

/* Validates and adds a node with the parameters that were collected. */
static inline abi_error node_of(client *c, const char *type, uint32_t n_out, abi_tensor **out,
                                uint32_t n_in, abi_tensor **in)
{
    abi_tensor i[16], o[8];
    char name[64];
    snprintf(name, sizeof name, "n%u_%s", c->n_nodes++, type);
    for (uint32_t k = 0; k < n_in; k++)
        i[k] = *in[k];
    for (uint32_t k = 0; k < n_out; k++)
        o[k] = *out[k];
    abi_op op = {.version = 1,
                 .v1 = {name, "qti.aisw", type, c->n_params, c->params, n_in, i, n_out, o}};
    c->n_params = 0;
    abi_error e = SLOT(c, 7, validate_fn)(c->backend, op);
    if (c->validate_error == 0)
        c->validate_error = e;
    e = SLOT(c, 18, validate_fn)(c->graph, op);
    if (c->add_error == 0)
        c->add_error = e;
    return e;
}

#define NODE(c, type, out, ...)                                           \
    node_of(c, type, 1, (abi_tensor *[]){out},                            \
            sizeof((abi_tensor *[]){__VA_ARGS__}) / sizeof(abi_tensor *), \
            (abi_tensor *[]){__VA_ARGS__})

static inline abi_error client_finalize(client *c)
{
    return SLOT(c, 19, finalize_fn)(c->graph, NULL, NULL);
}

static inline abi_error client_execute(client *c, uint32_t n_in, abi_tensor **in, void **from,
                                       uint32_t n_out, abi_tensor **out, void **to)
{
    abi_tensor i[16], o[8];
    for (uint32_t k = 0; k < n_in; k++) {
        i[k] = *in[k];
        i[k].u.v1.u.buffer =
            (abi_buffer){from[k], (uint32_t)(elements(in[k]) * type_bytes(in[k]->u.v1.data_type))};
    }
    for (uint32_t k = 0; k < n_out; k++) {
        o[k] = *out[k];
        o[k].u.v1.u.buffer =
            (abi_buffer){to[k], (uint32_t)(elements(out[k]) * type_bytes(out[k]->u.v1.data_type))};
    }
    return SLOT(c, 21, execute_fn)(c->graph, i, n_in, o, n_out, NULL, NULL);
}

static inline void client_drop_context(client *c)
{
    client_forget(c);
    if (c->context != NULL)
        SLOT(c, 14, context_free_fn)(c->context, NULL);
    c->context = NULL;
}

/* The vendor's library is left loaded: it does not survive dlclose in all releases. */
static inline void client_close(client *c, bool unload)
{
    client_drop_context(c);
    if (c->device != NULL)
        SLOT(c, 43, free_fn)(c->device);
    if (c->backend != NULL)
        SLOT(c, 8, free_fn)(c->backend);
    if (c->log != NULL)
        SLOT(c, 27, free_fn)(c->log);
    logging = NULL;
    if (unload)
        dlclose(c->library);
    c->library = NULL;
}

/* A 1x1 Conv2d, as every linear layer is one. */
static inline void conv(client *c, abi_tensor *y, abi_tensor *x, abi_tensor *w, abi_tensor *bias)
{
    static uint32_t ones[2] = {1, 1}, zeros[4];
    param_tensor(c, "stride", ABI_UI32, ones, DIMS(2));
    param_tensor(c, "pad_amount", ABI_UI32, zeros, DIMS(2, 2));
    param_tensor(c, "dilation", ABI_UI32, ones, DIMS(2));
    param_scalar(c, "group", ABI_UI32, 1);
    node_of(c, "Conv2d", 1, &y, bias != NULL ? 3 : 2, (abi_tensor *[]){x, w, bias});
}

#endif
