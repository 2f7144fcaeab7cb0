/* A QNN library that accepts everything, keeps nothing and computes nothing: what is left of a
 * `ferry compile` or of a call of `--backend qnn` with it is ferry's own time and memory.
 * Built as libQnnHtp.so in a directory of its own: --sdk, --qnn-lib. */
#include <stdint.h>
#include <string.h>

#include "backend/qnn/qnn_abi.h"

static int thing; /* what every handle points to */

static fy_qnn_error hand_out(fy_qnn_handle *out)
{
    *out = &thing;
    return 0;
}

static fy_qnn_error has_property(uint32_t key)
{
    (void)key;
    return 0;
}

static fy_qnn_error new_backend(fy_qnn_handle log, fy_qnn_options c, fy_qnn_handle *out)
{
    (void)log, (void)c;
    return hand_out(out);
}

static fy_qnn_error build_id(const char **out)
{
    *out = "v2.51.0.0_noop";
    return 0;
}

static fy_qnn_error validate(fy_qnn_handle b, fy_qnn_op op)
{
    (void)b, (void)op;
    return 0;
}

static fy_qnn_error free_one(fy_qnn_handle h)
{
    (void)h;
    return 0;
}

static fy_qnn_error new_context(fy_qnn_handle b, fy_qnn_handle device, fy_qnn_options c,
                                fy_qnn_handle *out)
{
    (void)b, (void)device, (void)c;
    return hand_out(out);
}

static fy_qnn_error binary_size(fy_qnn_handle c, uint64_t *bytes)
{
    (void)c;
    *bytes = 64;
    return 0;
}

static fy_qnn_error binary(fy_qnn_handle c, void *p, uint64_t bytes, uint64_t *written)
{
    (void)c;
    memset(p, 0, (size_t)bytes);
    *written = bytes;
    return 0;
}

static fy_qnn_error context_from_binary(fy_qnn_handle b, fy_qnn_handle device, fy_qnn_options c,
                                        const void *p, uint64_t bytes, fy_qnn_handle *out,
                                        fy_qnn_handle profile)
{
    (void)b, (void)device, (void)c, (void)p, (void)bytes, (void)profile;
    return hand_out(out);
}

static fy_qnn_error free_two(fy_qnn_handle h, fy_qnn_handle profile)
{
    (void)h, (void)profile;
    return 0;
}

static fy_qnn_error new_graph(fy_qnn_handle c, const char *name, fy_qnn_options configs,
                              fy_qnn_handle *out)
{
    (void)c, (void)name, (void)configs;
    return hand_out(out);
}

static fy_qnn_error configure(fy_qnn_handle g, fy_qnn_options c)
{
    (void)g, (void)c;
    return 0;
}

static fy_qnn_error add_node(fy_qnn_handle g, fy_qnn_op op)
{
    (void)g, (void)op;
    return 0;
}

static fy_qnn_error finalize(fy_qnn_handle g, fy_qnn_handle profile, fy_qnn_handle signal)
{
    (void)g, (void)profile, (void)signal;
    return 0;
}

static fy_qnn_error retrieve(fy_qnn_handle c, const char *name, fy_qnn_handle *out)
{
    (void)c, (void)name;
    return hand_out(out);
}

static fy_qnn_error execute(fy_qnn_handle g, const fy_qnn_tensor *in, uint32_t n_in,
                            fy_qnn_tensor *out, uint32_t n_out, fy_qnn_handle profile,
                            fy_qnn_handle signal)
{
    (void)g, (void)in, (void)n_in, (void)out, (void)n_out, (void)profile, (void)signal;
    return 0;
}

static fy_qnn_error new_tensor(fy_qnn_handle g, fy_qnn_tensor *t)
{
    static uint32_t n;
    (void)g;
    t->u.v1.id = ++n;
    return 0;
}

static fy_qnn_error new_log(fy_qnn_log f, uint32_t level, fy_qnn_handle *out)
{
    (void)f, (void)level;
    return hand_out(out);
}

static fy_qnn_error new_device(fy_qnn_handle log, fy_qnn_options c, fy_qnn_handle *out)
{
    (void)log, (void)c;
    return hand_out(out);
}

static fy_qnn_error message(fy_qnn_error code, const char **out)
{
    (void)code;
    *out = "no error";
    return 0;
}

__attribute__((visibility("default"))) fy_qnn_error
QnnInterface_getProviders(const fy_qnn_provider ***list, uint32_t *n);
fy_qnn_error QnnInterface_getProviders(const fy_qnn_provider ***list, uint32_t *n)
{
    static const fy_qnn_provider provider = {
        .backend = 6,
        .name = "NOOP",
        .core = {2, 39, 0},
        .backend_api = {5, 51, 0},
        .table = {.has_property = has_property,
                  .backend_create = new_backend,
                  .backend_build_id = build_id,
                  .backend_validate = validate,
                  .backend_free = free_one,
                  .context_create = new_context,
                  .context_binary_size = binary_size,
                  .context_binary = binary,
                  .context_create_from_binary = context_from_binary,
                  .context_free = free_two,
                  .graph_create = new_graph,
                  .graph_set_config = configure,
                  .graph_add_node = add_node,
                  .graph_finalize = finalize,
                  .graph_retrieve = retrieve,
                  .graph_execute = execute,
                  .tensor_create = new_tensor,
                  .log_create = new_log,
                  .log_free = free_one,
                  .device_create = new_device,
                  .device_free = free_one,
                  .error_message = message}};
    static const fy_qnn_provider *providers[] = {&provider};
    *list = providers;
    *n = 1;
    return 0;
}
