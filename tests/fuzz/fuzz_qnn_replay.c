/* Records of QNN calls: what is passed to a library is whole. The library here touches every byte
 * that it is given and knows no operation. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_graph.h"
#include "workspace/npu/qnn_replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sum;
static int object;

static void touch(const void *p, uint64_t n)
{
    for (uint64_t i = 0; p != NULL && i < n; i++)
        sum += ((const uint8_t *)p)[i];
}

static void touch_tensor(const fy_qnn_tensor *t, bool data)
{
    const fy_qnn_tensor_v1 *v = &t->u.v1;
    const fy_qnn_quant *q = &v->quant;
    touch(v->name, strlen(v->name) + 1);
    touch(v->dims, v->rank * sizeof *v->dims);
    if (q->definition == 1 && q->encoding == FY_QNN_AXIS)
        touch(q->u.axis.channel, q->u.axis.n * sizeof *q->u.axis.channel);
    if (q->definition == 1 && q->encoding == FY_QNN_BW_AXIS) {
        touch(q->u.bw_axis.scales, q->u.bw_axis.n * sizeof(float));
        touch(q->u.bw_axis.offsets, q->u.bw_axis.n * sizeof(int32_t));
    }
    if (q->definition == 1 && q->encoding == FY_QNN_BLOCKWISE) {
        const fy_qnn_blockwise *b = q->u.blockwise;
        const uint64_t n = v->dims[b->axis];
        touch(b->channel, n * sizeof *b->channel);
        touch(b->block_scales, n * b->n_blocks);
    }
    if (data && v->u.buffer.data != NULL) {
        if (v->u.buffer.bytes != fy_qnn_n_elements(t) * fy_qnn_type_bytes(v->type))
            abort();
        touch(v->u.buffer.data, v->u.buffer.bytes);
    }
}

static fy_qnn_error touch_op(fy_qnn_op op)
{
    for (uint32_t i = 0; i < op.n_inputs; i++)
        touch_tensor(&op.inputs[i], false);
    for (uint32_t i = 0; i < op.n_outputs; i++)
        touch_tensor(&op.outputs[i], false);
    for (uint32_t i = 0; i < op.n_params; i++) {
        touch(op.params[i].name, strlen(op.params[i].name));
        if (op.params[i].kind == FY_QNN_PARAM_TENSOR)
            touch_tensor(&op.params[i].u.tensor, true);
    }
    return 0;
}

static fy_qnn_error device_create(fy_qnn_handle log, fy_qnn_options c, fy_qnn_handle *out)
{
    (void)log;
    for (size_t i = 0; c != NULL && c[i] != NULL; i++)
        sum += c[i]->option;
    *out = &object;
    return 0;
}

static fy_qnn_error context_create(fy_qnn_handle b, fy_qnn_handle d, fy_qnn_options c,
                                   fy_qnn_handle *out)
{
    (void)b;
    return device_create(d, c, out);
}

static fy_qnn_error from_binary(fy_qnn_handle b, fy_qnn_handle d, fy_qnn_options c, const void *p,
                                uint64_t n, fy_qnn_handle *out, fy_qnn_handle profile)
{
    (void)profile;
    touch(p, n);
    return context_create(b, d, c, out);
}

static fy_qnn_error binary_size(fy_qnn_handle c, uint64_t *n)
{
    (void)c;
    *n = 16;
    return 0;
}

static fy_qnn_error binary(fy_qnn_handle c, void *p, uint64_t n, uint64_t *written)
{
    (void)c;
    memset(p, 1, (size_t)n);
    *written = n;
    return 0;
}

static fy_qnn_error graph_create(fy_qnn_handle c, const char *name, fy_qnn_options configs,
                                 fy_qnn_handle *out)
{
    touch(name, strlen(name));
    return context_create(NULL, c, configs, out);
}

static fy_qnn_error retrieve(fy_qnn_handle c, const char *name, fy_qnn_handle *out)
{
    return graph_create(c, name, NULL, out);
}

static fy_qnn_error tensor_create(fy_qnn_handle g, fy_qnn_tensor *t)
{
    (void)g;
    touch_tensor(t, true);
    t->u.v1.id = 7;
    return 0;
}

static fy_qnn_error validate(fy_qnn_handle b, fy_qnn_op op)
{
    (void)b;
    return touch_op(op);
}

static fy_qnn_error finalize(fy_qnn_handle g, fy_qnn_handle profile, fy_qnn_handle signal)
{
    (void)g;
    (void)profile;
    (void)signal;
    return 0;
}

static fy_qnn_error execute(fy_qnn_handle g, const fy_qnn_tensor *in, uint32_t n_in,
                            fy_qnn_tensor *out, uint32_t n_out, fy_qnn_handle p, fy_qnn_handle s)
{
    for (uint32_t i = 0; i < n_in; i++)
        touch_tensor(&in[i], true);
    for (uint32_t i = 0; i < n_out; i++)
        memset(out[i].u.v1.u.buffer.data, 0, out[i].u.v1.u.buffer.bytes);
    return finalize(g, p, s);
}

static fy_qnn_error context_free(fy_qnn_handle c, fy_qnn_handle profile)
{
    return finalize(c, profile, NULL);
}

static fy_qnn_error device_free(fy_qnn_handle d)
{
    return finalize(d, NULL, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const fy_qnn_table table = {
        .device_create = device_create,
        .context_create = context_create,
        .context_create_from_binary = from_binary,
        .context_binary_size = binary_size,
        .context_binary = binary,
        .graph_create = graph_create,
        .graph_retrieve = retrieve,
        .tensor_create = tensor_create,
        .backend_validate = validate,
        .graph_add_node = validate,
        .graph_finalize = finalize,
        .graph_execute = execute,
        .context_free = context_free,
        .device_free = device_free,
    };
    const fy_qnn_lib lib = {.call = &table, .backend = &object};
    fy_qnn_replayed out;
    fy_err e = {0};
    const fy_span text = {(const char *)data, size};
    if (fy_qnn_replay(&lib, text, text, 1 << 20, &out, &e) != 0 &&
        (e.code == FY_OK || e.msg[0] == '\0'))
        abort();
    return 0;
}
