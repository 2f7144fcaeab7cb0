/* Backends, their properties, versions and operations; error texts. */
#include "qnnref/ref_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Properties that the host library of SDK 2.51 answers with yes; it knows the others of the groups.
 */
static const uint16_t supported[] = {105, 106, 107, 202, 205, 206, 207, 208, 209, 210,
                                     211, 213, 214, 302, 306, 308, 311, 312, 313};

abi_error ref_property(uint32_t key)
{
    ref_call c;
    ref_begin(&c, "propertyHasCapability", NULL, REF_ANY);
    if (c.code != 0)
        return ref_end(&c, c.code);
    for (size_t i = 0; i < sizeof supported / sizeof *supported; i++) {
        if (supported[i] == key)
            return ref_end(&c, 0);
    }
    bool known = (key > 100 && key < 110) || (key > 200 && key < 215) || (key > 300 && key < 315);
    return ref_end(&c, known ? ABI_UNSUPPORTED : ABI_UNKNOWN_PROPERTY);
}

/* Every option of a backend that we know; ferry sends none. */
static abi_error check_config(const abi_config **config)
{
    for (size_t i = 0; config != NULL && config[i] != NULL; i++) {
        if (config[i]->option > 2)
            return ref_fail(ABI_UNSUPPORTED, "backendCreate: option %u is not known",
                            config[i]->option);
    }
    return 0;
}

static abi_error create(abi_handle log, const abi_config **config, abi_handle *out)
{
    ref_object *l = log == NULL ? NULL : ref_find(log, REF_LOG);
    if (out == NULL || (log != NULL && l == NULL))
        return ref_fail(ABI_ARGUMENT, "backendCreate: no place for the result, or not a log");
    abi_error code = check_config(config);
    if (code != 0)
        return code;
    ref_backend *b = calloc(1, sizeof *b);
    if (b == NULL || ref_publish(&b->object, REF_BACKEND, l) != 0) {
        free(b);
        return ABI_MEM_ALLOC;
    }
    *out = b->object.handle;
    return 0;
}

abi_error ref_backend_create(abi_handle log, const abi_config **config, abi_handle *out)
{
    ref_call c;
    ref_begin(&c, "backendCreate", NULL, REF_ANY);
    return ref_end(&c, c.code != 0 ? c.code : create(log, config, out));
}

abi_error ref_backend_version(abi_version out[2])
{
    ref_call c;
    ref_begin(&c, "backendGetApiVersion", NULL, REF_ANY);
    if (c.code == 0 && out == NULL)
        c.code = ABI_ARGUMENT;
    if (c.code == 0) {
        out[0] = ref_release_now()->core;
        out[1] = ref_release_now()->backend;
    }
    return ref_end(&c, c.code);
}

abi_error ref_backend_build(const char **out)
{
    ref_call c;
    ref_begin(&c, "backendGetBuildId", NULL, REF_ANY);
    if (c.code == 0 && out == NULL)
        c.code = ABI_ARGUMENT;
    if (c.code == 0)
        *out = ref_release_now()->build_id;
    return ref_end(&c, c.code);
}

static abi_operation_name operations[64];

abi_error ref_backend_operations(abi_handle h, uint32_t *n, const abi_operation_name **out)
{
    ref_call c;
    if (ref_begin(&c, "backendGetSupportedOperations", h, REF_BACKEND) == NULL)
        return ref_end(&c, c.code);
    if (n == NULL || out == NULL)
        return ref_end(&c, ABI_ARGUMENT);
    uint32_t count = 0;
    const char *fault = ref_fault("supported", NULL);
    for (uint32_t i = 0; i < ref_n_ops && count < 64 && fault == NULL; i++) {
        if (ref_ops[i].since_sdk <= ref_release_now()->sdk)
            operations[count++] = (abi_operation_name){"qti.aisw", ref_ops[i].name, ""};
    }
    *n = count;
    *out = operations;
    return ref_end(&c, 0);
}

abi_error ref_backend_free(abi_handle h)
{
    ref_call c;
    ref_backend *b = ref_begin(&c, "backendFree", h, REF_BACKEND);
    if (b == NULL)
        return ref_end(&c, c.code);
    if (b->object.n_children > 0)
        return ref_end(&c,
                       ref_fail(ABI_NOT_PERMITTED, "backendFree: %u contexts or profiles are left",
                                b->object.n_children));
    ref_end(&c, 0);
    ref_retire(&b->object);
    free(b);
    return 0;
}

static const struct {
    uint32_t code;
    const char *text;
} messages[] = {
    {0, "no error"},
    {ABI_UNSUPPORTED, "not supported"},
    {ABI_MEM_ALLOC, "out of memory"},
    {ABI_SYSTEM, "system error"},
    {ABI_ARGUMENT, "invalid argument"},
    {ABI_NOT_PERMITTED, "not permitted in this state"},
    {ABI_COMMUNICATION, "communication with the device failed"},
    {ABI_COMMUNICATION_FATAL, "communication with the device is lost"},
    {ABI_GENERAL, "general error"},
    {ABI_UNKNOWN_PROPERTY, "unknown property"},
    {ABI_OP_VALIDATION, "the operation is not supported as described"},
    {ABI_BACKEND_INIT, "the backend cannot be initialised"},
    {ABI_BACKEND_HANDLE, "not a backend"},
    {ABI_BACKEND_OPERATION, "unknown operation"},
    {ABI_CONTEXT_ARGUMENT, "invalid argument of a context"},
    {ABI_CONTEXT_HANDLE, "not a context"},
    {ABI_CONTEXT_NOT_FINALIZED, "a graph of the context is not finalized"},
    {ABI_CONTEXT_BINARY_VERSION, "version of the context binary"},
    {ABI_CONTEXT_CREATE, "the context binary cannot be loaded"},
    {ABI_CONTEXT_SIZE, "size of the context binary"},
    {ABI_CONTEXT_CONFIG, "invalid configuration of a context"},
    {ABI_GRAPH_ARGUMENT, "invalid argument of a graph"},
    {ABI_GRAPH_HANDLE, "not a graph"},
    {ABI_GRAPH_NAME, "invalid name of a graph"},
    {ABI_GRAPH_TENSOR, "invalid tensor"},
    {ABI_GRAPH_OP, "invalid operation"},
    {ABI_GRAPH_UNCONNECTED, "a node is not connected"},
    {ABI_GRAPH_CREATE, "the graph is not complete"},
    {ABI_GRAPH_FINALIZE, "the graph cannot be finalized"},
    {ABI_GRAPH_NOT_FINALIZED, "the graph is not finalized"},
    {ABI_GRAPH_FINALIZED, "the graph is finalized already"},
    {ABI_GRAPH_ABORTED, "the execution was aborted"},
    {ABI_GRAPH_CONTEXT, "the context of the graph is lost"},
    {ABI_TENSOR_HANDLE, "not a tensor"},
    {ABI_TENSOR_NAME, "another tensor has this name"},
    {ABI_TENSOR_PARAMETER, "invalid description of a tensor"},
    {ABI_TENSOR_UNSUPPORTED, "a tensor of this kind is not supported"},
    {ABI_MEM_ARGUMENT, "invalid argument of a memory"},
    {ABI_MEM_HANDLE, "not a memory"},
    {ABI_MEM_REGISTERED, "the memory is registered already"},
    {ABI_MEM_MAP, "the memory cannot be mapped"},
    {ABI_MEM_SHAPE, "shape of the memory"},
    {ABI_MEM_TYPE, "type of the memory"},
    {ABI_LOG_HANDLE, "not a log"},
    {ABI_LOG_ARGUMENT, "invalid argument of a log"},
    {ABI_PROFILE_HANDLE, "not a profile"},
    {ABI_PROFILE_ARGUMENT, "invalid argument of a profile"},
    {ABI_PERF_ARGUMENT, "invalid power configuration"},
    {ABI_DEVICE_HANDLE, "not a device"},
    {ABI_DEVICE_CONFIG, "invalid configuration of a device"},
    {ABI_SYSTEM_HANDLE, "not a binary of this library"},
    {ABI_SYSTEM_MALFORMED, "the binary is malformed"},
};

abi_error ref_error_message(abi_error code, const char **out)
{
    if (out == NULL)
        return ABI_ARGUMENT;
    *out = "unknown error";
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        if (messages[i].code == (code & 0xffff))
            *out = messages[i].text;
    }
    return 0;
}

abi_error ref_error_verbose(abi_error code, const char **out)
{
    const char *text;
    char *verbose = malloc(128);
    if (out == NULL || verbose == NULL) {
        free(verbose);
        return out == NULL ? ABI_ARGUMENT : ABI_MEM_ALLOC;
    }
    ref_error_message(code, &text);
    snprintf(verbose, 128, "reference library: %u: %s", (unsigned)(code & 0xffff), text);
    *out = verbose;
    return 0;
}

abi_error ref_error_free(const char *text)
{
    free((void *)(uintptr_t)text);
    return 0;
}
