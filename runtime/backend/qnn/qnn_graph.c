/* Composes graphs through the C interface of QNN: devices, contexts, tensors, nodes. */
#include "backend/qnn/qnn_graph.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "kernels/kernels.h"

#define MAX_BINARY (UINT64_C(64) << 30)

/* --- device and context ----------------------------------------------------------------------- */

int fy_qnn_device_new(const fy_qnn_lib *lib, const fy_qnn_chip *chip, fy_qnn_handle *out, fy_err *e)
{
    /* The number alone chooses the chip; only with the platform does the device report it. */
    fy_qnn_htp_soc soc = {.soc_at_4 = chip->soc, .soc_at_8 = chip->soc};
    fy_qnn_htp_chip ext = {
        .vtcm_mb = chip->vtcm_mb, .soc = chip->soc, .dlbc = true, .arch = chip->arch};
    fy_qnn_core core = {.version = 1};
    fy_qnn_hardware hw = {.version = 1, .n_cores = 1, .cores = &core, .chip = &ext};
    fy_qnn_platform platform = {.version = 1, .n_devices = 1, .devices = &hw};
    const fy_qnn_option by_soc = {.option = FY_QNN_CUSTOM, .u.custom = &soc};
    const fy_qnn_option by_platform = {.option = FY_QNN_DEVICE_PLATFORM, .u.custom = &platform};
    const fy_qnn_option *const both[] = {&by_soc, chip->arch != 0 ? &by_platform : NULL, NULL};
    fy_qnn_log_mark();
    const fy_qnn_error err = lib->call->device_create(lib->log, chip->soc != 0 ? both : NULL, out);
    return err == 0 ? 0 : fy_qnn_fail(lib, "deviceCreate", err, e);
}

void fy_qnn_device_free(const fy_qnn_lib *lib, fy_qnn_handle device)
{
    if (device != NULL)
        lib->call->device_free(device);
}

bool fy_qnn_own_chip(const fy_qnn_lib *lib, fy_qnn_chip *out)
{
    const fy_qnn_table *call = lib->call;
    const fy_qnn_platform *p = NULL;
    if (call->device_platform == NULL || call->device_free_platform == NULL ||
        call->device_platform(lib->log, &p) != 0 || p == NULL)
        return false;
    const fy_qnn_hardware *hw =
        p->version == 1 && p->n_devices > 0 && p->devices != NULL ? &p->devices[0] : NULL;
    const fy_qnn_htp_chip *chip = hw != NULL && hw->version == 1 ? hw->chip : NULL;
    const bool is_htp = chip != NULL && chip->type == 0 && chip->arch > 0;
    if (is_htp)
        *out = (fy_qnn_chip){chip->soc, chip->arch, (uint32_t)chip->vtcm_mb};
    call->device_free_platform(lib->log, p);
    return is_htp;
}

int fy_qnn_context_new(const fy_qnn_lib *lib, fy_qnn_handle device, bool share_weights,
                       fy_qnn_handle *out, fy_err *e)
{
    fy_qnn_htp_config share = {.option = FY_QNN_CONTEXT_SHARE_WEIGHTS, .u.flag = true};
    const fy_qnn_option config = {.option = FY_QNN_CUSTOM, .u.custom = &share};
    const fy_qnn_option *const list[] = {&config, NULL};
    fy_qnn_log_mark();
    const fy_qnn_error err =
        lib->call->context_create(lib->backend, device, share_weights ? list : NULL, out);
    return err == 0 ? 0 : fy_qnn_fail(lib, "contextCreate", err, e);
}

int fy_qnn_context_load(const fy_qnn_lib *lib, fy_qnn_handle device, const void *binary,
                        uint64_t bytes, fy_qnn_handle *out, fy_err *e)
{
    fy_qnn_htp_config estimate = {.option = FY_QNN_CONTEXT_IO_ESTIMATE, .u.flag = true};
    const fy_qnn_option config = {.option = FY_QNN_CUSTOM, .u.custom = &estimate};
    const fy_qnn_option *const list[] = {&config, NULL};
    fy_qnn_log_mark();
    fy_qnn_error err =
        lib->call->context_create_from_binary(lib->backend, device, list, binary, bytes, out, NULL);
    if (fy_qnn_code(err) == FY_QNN_ENOT_SUPPORTED || fy_qnn_code(err) == FY_QNN_ECONFIG)
        err = lib->call->context_create_from_binary(lib->backend, device, NULL, binary, bytes, out,
                                                    NULL);
    return err == 0 ? 0 : fy_qnn_fail(lib, "contextCreateFromBinary", err, e);
}

void fy_qnn_context_free(const fy_qnn_lib *lib, fy_qnn_handle context)
{
    if (context != NULL)
        lib->call->context_free(context, NULL);
}

int fy_qnn_context_binary(const fy_qnn_lib *lib, fy_qnn_handle context, uint8_t **out,
                          uint64_t *bytes, fy_err *e)
{
    uint64_t size = 0, written = 0;
    fy_qnn_log_mark();
    fy_qnn_error err = lib->call->context_binary_size(context, &size);
    if (err != 0)
        return fy_qnn_fail(lib, "contextGetBinarySize", err, e);
    if (size == 0 || size > MAX_BINARY)
        return fy_fail(e, FY_EDEVICE, "contextGetBinarySize: %llu bytes, expected 1 to %llu",
                       (unsigned long long)size, (unsigned long long)MAX_BINARY);
    uint8_t *p = malloc(size);
    if (p == NULL)
        return fy_nomem(e);
    err = lib->call->context_binary(context, p, size, &written);
    if (err == 0 && written <= size) {
        *out = p;
        *bytes = written;
        return 0;
    }
    free(p);
    return err != 0 ? fy_qnn_fail(lib, "contextGetBinary", err, e)
                    : fy_fail(e, FY_EDEVICE, "contextGetBinary: wrote %llu bytes of %llu",
                              (unsigned long long)written, (unsigned long long)size);
}

/* --- a graph ---------------------------------------------------------------------------------- */

int fy_qnn_graph_new(const fy_qnn_lib *lib, fy_qnn_handle context, const char *name,
                     const fy_qnn_chip *chip, fy_qnn_graph *out, fy_err *e)
{
    enum { N = 3 };
    fy_qnn_htp_config custom[N] = {
        {.option = FY_QNN_GRAPH_OPTIMIZATION,
         .u.optimization = {.type = FY_QNN_OPTIMIZE_FINALIZE, .value = 3}},
        {.option = FY_QNN_GRAPH_VTCM_MB, .u.u32 = chip->vtcm_mb},
        {.option = FY_QNN_GRAPH_HVX_THREADS, .u.u64 = 4},
    };
    fy_qnn_option config[N];
    const fy_qnn_option *list[N + 1] = {0};
    for (size_t i = 0; i < N; i++) {
        config[i] = (fy_qnn_option){.option = FY_QNN_CUSTOM, .u.custom = &custom[i]};
        list[i] = &config[i];
    }
    *out = (fy_qnn_graph){.lib = lib};
    fy_qnn_log_mark();
    const fy_qnn_error err = lib->call->graph_create(context, name, list, &out->handle);
    return err == 0 ? 0 : fy_qnn_fail(lib, "graphCreate", err, e);
}

int fy_qnn_graph_retrieve(const fy_qnn_lib *lib, fy_qnn_handle context, const char *name,
                          fy_qnn_graph *out, fy_err *e)
{
    *out = (fy_qnn_graph){.lib = lib};
    fy_qnn_log_mark();
    const fy_qnn_error err = lib->call->graph_retrieve(context, name, &out->handle);
    return err == 0 ? 0 : fy_qnn_fail(lib, "graphRetrieve", err, e);
}

void fy_qnn_graph_release(fy_qnn_graph *g)
{
    fy_arena_release(&g->arena);
    *g = (fy_qnn_graph){0};
}

fy_qnn_error fy_qnn_graph_finalize(fy_qnn_graph *g)
{
    fy_qnn_log_mark();
    return g->lib->call->graph_finalize(g->handle, NULL, NULL);
}

/* --- tensors ---------------------------------------------------------------------------------- */

fy_qnn_quant fy_qnn_no_quant(void)
{
    return (fy_qnn_quant){.definition = FY_QNN_UNDEFINED, .encoding = FY_QNN_UNDEFINED};
}

fy_qnn_quant fy_qnn_quant_scale(float scale, int32_t offset)
{
    return (fy_qnn_quant){.definition = 1,
                          .encoding = FY_QNN_SCALE_OFFSET,
                          .u.scale_offset = {.scale = scale, .offset = offset}};
}

int fy_qnn_quant_channels(fy_qnn_graph *g, uint32_t axis, uint32_t n, const float *scales,
                          uint32_t bits, uint32_t n_blocks, const uint8_t *block_scales,
                          fy_qnn_quant *out, fy_err *e)
{
    const size_t n_scales = (size_t)n * n_blocks;
    fy_qnn_scale_offset *so = fy_arena_calloc(&g->arena, n, sizeof *so);
    float *copy = fy_arena_calloc(&g->arena, n, sizeof *copy);
    int32_t *offsets = fy_arena_calloc(&g->arena, n, sizeof *offsets);
    uint8_t *blocks = fy_arena_calloc(&g->arena, n_scales, 1);
    fy_qnn_blockwise *b = fy_arena_calloc(&g->arena, 1, sizeof *b);
    if (so == NULL || copy == NULL || offsets == NULL || blocks == NULL || b == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < n; i++)
        copy[i] = so[i].scale = scales[i];
    *out = (fy_qnn_quant){.definition = 1, .encoding = FY_QNN_AXIS};
    if (n_blocks > 0) {
        memcpy(blocks, block_scales, n_scales);
        *b = (fy_qnn_blockwise){(int32_t)axis, so, n_blocks, bits, 0, blocks};
        out->encoding = FY_QNN_BLOCKWISE;
        out->u.blockwise = b;
    } else if (bits < 8) {
        out->encoding = FY_QNN_BW_AXIS;
        out->u.bw_axis = (fy_qnn_bw_axis){bits, (int32_t)axis, n, copy, offsets};
    } else {
        out->u.axis = (fy_qnn_axis){(int32_t)axis, n, so};
    }
    return 0;
}

static const struct {
    const char *name;
    uint32_t type;
} types[] = {
    {"u8", FY_QNN_UFIXED_8},   {"u16", FY_QNN_UFIXED_16}, {"s8", FY_QNN_SFIXED_8},
    {"s16", FY_QNN_SFIXED_16}, {"s32", FY_QNN_SFIXED_32}, {"f16", FY_QNN_FLOAT_16},
    {"f32", FY_QNN_FLOAT_32},  {"i32", FY_QNN_INT_32},    {"bool", FY_QNN_BOOL_8},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

const char *fy_qnn_type_name(uint32_t type)
{
    size_t i = 0;
    while (i < N_TYPES && types[i].type != type)
        i++;
    return i < N_TYPES ? types[i].name : NULL;
}

uint32_t fy_qnn_type_of(fy_span name)
{
    size_t i = 0;
    while (i < N_TYPES && !fy_span_is(name, types[i].name))
        i++;
    return i < N_TYPES ? types[i].type : FY_QNN_UNDEFINED;
}

float fy_qnn_element(const void *data, uint32_t type, uint64_t i)
{
    switch (type) {
    case FY_QNN_UFIXED_8:
    case FY_QNN_BOOL_8:
        return ((const uint8_t *)data)[i];
    case FY_QNN_SFIXED_8:
        return ((const int8_t *)data)[i];
    case FY_QNN_UFIXED_16:
        return ((const uint16_t *)data)[i];
    case FY_QNN_SFIXED_16:
        return ((const int16_t *)data)[i];
    case FY_QNN_FLOAT_16:
        return fy_f16_to_f32(((const uint16_t *)data)[i]);
    case FY_QNN_FLOAT_32:
        return ((const float *)data)[i];
    default:
        return (float)((const int32_t *)data)[i];
    }
}

uint32_t fy_qnn_type_bytes(uint32_t type)
{
    switch (type & 0xff) {
    case 0x08:
        return 1;
    case 0x16:
        return 2;
    case 0x32:
        return 4;
    default:
        return 0;
    }
}

uint64_t fy_qnn_n_elements(const fy_qnn_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->u.v1.rank; i++)
        n *= t->u.v1.dims[i];
    return n;
}

fy_qnn_error fy_qnn_tensor_new(fy_qnn_graph *g, const char *name, uint32_t kind, uint32_t type,
                               const fy_qnn_quant *quant, uint32_t rank, const uint32_t *dims,
                               const void *data, fy_qnn_tensor **out)
{
    uint64_t bytes = fy_qnn_type_bytes(type);
    bool ok = bytes > 0;
    for (uint32_t i = 0; i < rank; i++)
        ok = ok && fy_mul_u64(bytes, dims[i], &bytes);
    fy_qnn_tensor *t = fy_arena_calloc(&g->arena, 1, sizeof *t);
    uint32_t *shape = fy_arena_calloc(&g->arena, rank, sizeof *shape);
    char *copy = fy_arena_strndup(&g->arena, name, strlen(name));
    if (t == NULL || shape == NULL || copy == NULL || !ok || bytes > UINT32_MAX)
        return FY_QNN_EMEMORY;
    memcpy(shape, dims, rank * sizeof *shape);
    t->version = 1;
    t->u.v1 = (fy_qnn_tensor_v1){
        .name = copy, .kind = kind, .type = type, .quant = *quant, .rank = rank, .dims = shape};
    if (kind == FY_QNN_STATIC) {
        void *view;
        memcpy(&view, &data, sizeof view); /* the library only reads it */
        t->u.v1.u.buffer = (fy_qnn_buffer){view, (uint32_t)bytes};
    }
    fy_qnn_log_mark();
    const fy_qnn_error err = g->lib->call->tensor_create(g->handle, t);
    t->u.v1.u.buffer = (fy_qnn_buffer){0};
    *out = t;
    return err;
}

/* --- nodes ------------------------------------------------------------------------------------ */

void fy_qnn_node_begin(fy_qnn_node *n, const char *name, const char *op)
{
    n->op = (fy_qnn_op){.version = 1, .name = name, .package = FY_QNN_PACKAGE, .op = op};
}

static fy_qnn_param *next_param(fy_qnn_node *n, const char *name, uint32_t kind)
{
    assert(n->op.n_params < FY_QNN_NODE_PARAMS);
    fy_qnn_param *p = &n->params[n->op.n_params++];
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->name = name;
    return p;
}

void fy_qnn_node_u32(fy_qnn_node *n, const char *param, uint32_t value)
{
    fy_qnn_scalar *s = &next_param(n, param, FY_QNN_PARAM_SCALAR)->u.scalar;
    s->type = FY_QNN_UINT_32;
    s->u.u32 = value;
}

void fy_qnn_node_i32(fy_qnn_node *n, const char *param, int32_t value)
{
    fy_qnn_scalar *s = &next_param(n, param, FY_QNN_PARAM_SCALAR)->u.scalar;
    s->type = FY_QNN_INT_32;
    s->u.i32 = value;
}

void fy_qnn_node_f32(fy_qnn_node *n, const char *param, float value)
{
    fy_qnn_scalar *s = &next_param(n, param, FY_QNN_PARAM_SCALAR)->u.scalar;
    s->type = FY_QNN_FLOAT_32;
    s->u.f32 = value;
}

void fy_qnn_node_bool(fy_qnn_node *n, const char *param, bool value)
{
    fy_qnn_scalar *s = &next_param(n, param, FY_QNN_PARAM_SCALAR)->u.scalar;
    s->type = FY_QNN_BOOL_8;
    s->u.b8 = value;
}

fy_qnn_error fy_qnn_node_array(fy_qnn_graph *g, fy_qnn_node *n, const char *param, uint32_t type,
                               uint32_t rank, const uint32_t *dims, const void *values)
{
    char name[160];
    const fy_qnn_quant none = fy_qnn_no_quant();
    fy_qnn_tensor *t = NULL;
    uint64_t bytes = sizeof(uint32_t);
    bool ok = true;
    for (uint32_t i = 0; i < rank; i++)
        ok = ok && fy_mul_u64(bytes, dims[i], &bytes);
    void *copy = ok && bytes <= UINT32_MAX ? fy_arena_alloc(&g->arena, (size_t)bytes) : NULL;
    if (copy == NULL)
        return FY_QNN_EMEMORY;
    memcpy(copy, values, (size_t)bytes);
    snprintf(name, sizeof name, "%s.%s", n->op.name, param);
    const fy_qnn_error err =
        fy_qnn_tensor_new(g, name, FY_QNN_STATIC, type, &none, rank, dims, copy, &t);
    if (t == NULL)
        return err;
    fy_qnn_param *p = next_param(n, param, FY_QNN_PARAM_TENSOR);
    p->u.tensor = *t;
    p->u.tensor.u.v1.u.buffer = (fy_qnn_buffer){copy, (uint32_t)bytes}; /* validate reads it */
    return err;
}

fy_qnn_error fy_qnn_node_product(fy_qnn_graph *g, fy_qnn_node *n)
{
    const uint32_t two[] = {2}, square[] = {2, 2}, ones[] = {1, 1}, zeros[] = {0, 0, 0, 0};
    fy_qnn_error err = fy_qnn_node_array(g, n, "stride", FY_QNN_UINT_32, 1, two, ones);
    if (err == 0)
        err = fy_qnn_node_array(g, n, "pad_amount", FY_QNN_UINT_32, 2, square, zeros);
    if (err == 0)
        err = fy_qnn_node_array(g, n, "dilation", FY_QNN_UINT_32, 1, two, ones);
    fy_qnn_node_u32(n, "group", 1);
    return err;
}

void fy_qnn_node_input(fy_qnn_node *n, const fy_qnn_tensor *t)
{
    assert(n->op.n_inputs < FY_QNN_NODE_INPUTS);
    n->inputs[n->op.n_inputs++] = *t;
}

void fy_qnn_node_output(fy_qnn_node *n, const fy_qnn_tensor *t)
{
    assert(n->op.n_outputs < FY_QNN_NODE_OUTPUTS);
    n->outputs[n->op.n_outputs++] = *t;
}

/* The interface takes the struct by value; its lists are ours, and only read. */
static fy_qnn_op passed(const fy_qnn_node *n, fy_qnn_node *copy)
{
    *copy = *n;
    copy->op.params = copy->params;
    copy->op.inputs = copy->inputs;
    copy->op.outputs = copy->outputs;
    return copy->op;
}

fy_qnn_error fy_qnn_node_validate(const fy_qnn_graph *g, const fy_qnn_node *n)
{
    fy_qnn_node copy;
    fy_qnn_log_mark();
    return g->lib->call->backend_validate(g->lib->backend, passed(n, &copy));
}

fy_qnn_error fy_qnn_node_add(fy_qnn_graph *g, const fy_qnn_node *n)
{
    fy_qnn_node copy;
    fy_qnn_log_mark();
    return g->lib->call->graph_add_node(g->handle, passed(n, &copy));
}

/* --- running ---------------------------------------------------------------------------------- */

/* False: its bytes are more than the interface can tell. */
static bool attach(fy_qnn_tensor *to, const fy_qnn_tensor *t, void *data)
{
    uint64_t bytes = fy_qnn_type_bytes(t->u.v1.type);
    for (uint32_t i = 0; i < t->u.v1.rank; i++) {
        if (!fy_mul_u64(bytes, t->u.v1.dims[i], &bytes))
            return false;
    }
    *to = *t;
    to->u.v1.memory = FY_QNN_RAW;
    to->u.v1.u.buffer = (fy_qnn_buffer){data, (uint32_t)bytes};
    return bytes <= UINT32_MAX;
}

fy_qnn_error fy_qnn_graph_execute(const fy_qnn_graph *g, fy_qnn_tensor *in, uint32_t n_in,
                                  fy_qnn_tensor *out, uint32_t n_out)
{
    fy_qnn_log_mark();
    return g->lib->call->graph_execute(g->handle, in, n_in, out, n_out, NULL, NULL);
}

fy_qnn_error fy_qnn_graph_run(fy_qnn_graph *g, fy_qnn_tensor *const *in, void *const *in_data,
                              uint32_t n_in, fy_qnn_tensor *const *out, void *const *out_data,
                              uint32_t n_out)
{
    fy_qnn_tensor *t = calloc((size_t)n_in + n_out, sizeof *t);
    if (t == NULL)
        return FY_QNN_EMEMORY;
    bool ok = true;
    for (uint32_t i = 0; i < n_in; i++)
        ok = attach(&t[i], in[i], in_data[i]) && ok;
    for (uint32_t i = 0; i < n_out; i++)
        ok = attach(&t[n_in + i], out[i], out_data[i]) && ok;
    const fy_qnn_error err =
        ok ? fy_qnn_graph_execute(g, t, n_in, t + n_in, n_out) : FY_QNN_EMEMORY;
    free(t);
    return err;
}
