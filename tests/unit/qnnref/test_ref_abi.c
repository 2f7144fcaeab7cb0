/* The two declarations of QNN's interface, the program's and the reference's, are written apart
 * from each other: here they are held against each other, member by member, and by a call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/qnn/qnn_abi.h"
#include "qnnref/ref_abi.h"

#define SAME_SIZE(a, b) _Static_assert(sizeof(a) == sizeof(b), #a)
#define SAME(a, x, b, y)                                         \
    _Static_assert(offsetof(a, x) == offsetof(b, y), #a "." #x); \
    _Static_assert(sizeof(((a *)NULL)->x) == sizeof(((b *)NULL)->y), #a "." #x)

SAME_SIZE(fy_qnn_version, abi_version);
SAME_SIZE(fy_qnn_scale_offset, abi_scale_offset);
SAME(fy_qnn_scale_offset, offset, abi_scale_offset, offset);
SAME_SIZE(fy_qnn_blockwise, abi_blockwise);
SAME(fy_qnn_blockwise, channel, abi_blockwise, scales);
SAME(fy_qnn_blockwise, n_blocks, abi_blockwise, n_blocks);
SAME(fy_qnn_blockwise, scale_bits, abi_blockwise, bits);
SAME(fy_qnn_blockwise, storage, abi_blockwise, storage);
SAME(fy_qnn_blockwise, block_scales, abi_blockwise, u.block_scales8);
SAME_SIZE(fy_qnn_quant, abi_quant);
SAME(fy_qnn_quant, definition, abi_quant, definition);
SAME(fy_qnn_quant, encoding, abi_quant, encoding);
SAME(fy_qnn_quant, u.scale_offset, abi_quant, u.scale_offset);
SAME(fy_qnn_quant, u.axis.axis, abi_quant, u.axis.axis);
SAME(fy_qnn_quant, u.axis.n, abi_quant, u.axis.n);
SAME(fy_qnn_quant, u.axis.channel, abi_quant, u.axis.scales);
SAME(fy_qnn_quant, u.bw_axis.bits, abi_quant, u.bw_axis.bits);
SAME(fy_qnn_quant, u.bw_axis.axis, abi_quant, u.bw_axis.axis);
SAME(fy_qnn_quant, u.bw_axis.n, abi_quant, u.bw_axis.n);
SAME(fy_qnn_quant, u.bw_axis.scales, abi_quant, u.bw_axis.scales);
SAME(fy_qnn_quant, u.bw_axis.offsets, abi_quant, u.bw_axis.offsets);
SAME(fy_qnn_quant, u.blockwise, abi_quant, u.blockwise);
SAME_SIZE(fy_qnn_buffer, abi_buffer);
SAME(fy_qnn_buffer, bytes, abi_buffer, size);
SAME_SIZE(fy_qnn_tensor_v1, abi_tensor1);
SAME(fy_qnn_tensor_v1, id, abi_tensor1, id);
SAME(fy_qnn_tensor_v1, name, abi_tensor1, name);
SAME(fy_qnn_tensor_v1, kind, abi_tensor1, type);
SAME(fy_qnn_tensor_v1, format, abi_tensor1, data_format);
SAME(fy_qnn_tensor_v1, type, abi_tensor1, data_type);
SAME(fy_qnn_tensor_v1, quant, abi_tensor1, quant);
SAME(fy_qnn_tensor_v1, rank, abi_tensor1, rank);
SAME(fy_qnn_tensor_v1, dims, abi_tensor1, dims);
SAME(fy_qnn_tensor_v1, memory, abi_tensor1, mem_type);
SAME(fy_qnn_tensor_v1, u.buffer, abi_tensor1, u.buffer);
SAME(fy_qnn_tensor_v1, u.handle, abi_tensor1, u.mem);
SAME_SIZE(fy_qnn_tensor, abi_tensor);
SAME(fy_qnn_tensor, u.v1, abi_tensor, u.v1);
SAME_SIZE(fy_qnn_scalar, abi_scalar);
SAME(fy_qnn_scalar, u.f32, abi_scalar, u.f32);
SAME_SIZE(fy_qnn_param, abi_param);
SAME(fy_qnn_param, kind, abi_param, type);
SAME(fy_qnn_param, name, abi_param, name);
SAME(fy_qnn_param, u.scalar, abi_param, u.scalar);
SAME(fy_qnn_param, u.tensor, abi_param, u.tensor);
SAME_SIZE(fy_qnn_op, abi_op);
SAME(fy_qnn_op, name, abi_op, v1.name);
SAME(fy_qnn_op, package, abi_op, v1.package);
SAME(fy_qnn_op, op, abi_op, v1.type);
SAME(fy_qnn_op, n_params, abi_op, v1.n_params);
SAME(fy_qnn_op, params, abi_op, v1.params);
SAME(fy_qnn_op, n_inputs, abi_op, v1.n_inputs);
SAME(fy_qnn_op, inputs, abi_op, v1.inputs);
SAME(fy_qnn_op, n_outputs, abi_op, v1.n_outputs);
SAME(fy_qnn_op, outputs, abi_op, v1.outputs);
SAME_SIZE(fy_qnn_op_name, abi_operation_name);
SAME(fy_qnn_op_name, name, abi_operation_name, name);
SAME_SIZE(fy_qnn_option, abi_config);
SAME(fy_qnn_option, u.custom, abi_config, u.custom);
SAME(fy_qnn_htp_config, u.flag, abi_context_custom, u.b);
SAME(fy_qnn_htp_config, u.group.first, abi_context_custom, u.group.first);
SAME(fy_qnn_htp_config, u.group.spill_bytes, abi_context_custom, u.group.spill_bytes);
SAME(fy_qnn_htp_config, u.optimization.type, abi_graph_custom, u.optimization.type);
SAME(fy_qnn_htp_config, u.optimization.value, abi_graph_custom, u.optimization.value);
SAME(fy_qnn_htp_config, u.u64, abi_graph_custom, u.u64);
SAME_SIZE(fy_qnn_htp_chip, abi_device_extension);
SAME(fy_qnn_htp_chip, vtcm_mb, abi_device_extension, vtcm_mb);
SAME(fy_qnn_htp_chip, soc, abi_device_extension, soc);
SAME(fy_qnn_htp_chip, signed_pd, abi_device_extension, signed_pd);
SAME(fy_qnn_htp_chip, dlbc, abi_device_extension, dlbc);
SAME(fy_qnn_htp_chip, arch, abi_device_extension, arch);
SAME_SIZE(fy_qnn_core, abi_core_info);
SAME(fy_qnn_core, id, abi_core_info, v1.id);
SAME(fy_qnn_core, extension, abi_core_info, v1.extension);
SAME_SIZE(fy_qnn_hardware, abi_hardware_info);
SAME(fy_qnn_hardware, id, abi_hardware_info, v1.id);
SAME(fy_qnn_hardware, n_cores, abi_hardware_info, v1.n_cores);
SAME(fy_qnn_hardware, cores, abi_hardware_info, v1.cores);
SAME(fy_qnn_hardware, chip, abi_hardware_info, v1.extension);
SAME_SIZE(fy_qnn_platform, abi_platform_info);
SAME(fy_qnn_platform, n_devices, abi_platform_info, v1.n);
SAME(fy_qnn_platform, devices, abi_platform_info, v1.devices);
SAME_SIZE(fy_qnn_htp_memory, abi_shared_buffer);
SAME(fy_qnn_htp_memory, bytes, abi_shared_buffer, size);
SAME(fy_qnn_htp_memory, fd, abi_shared_buffer, u.shared.fd);
SAME(fy_qnn_htp_memory, offset, abi_shared_buffer, u.shared.offset);
SAME_SIZE(fy_qnn_memory, abi_mem_descriptor);
SAME(fy_qnn_memory, rank, abi_mem_descriptor, shape.rank);
SAME(fy_qnn_memory, dims, abi_mem_descriptor, shape.dims);
SAME(fy_qnn_memory, type, abi_mem_descriptor, data_type);
SAME(fy_qnn_memory, kind, abi_mem_descriptor, mem_type);
SAME(fy_qnn_memory, u.custom, abi_mem_descriptor, u.custom);
SAME_SIZE(fy_qnn_power_config, abi_power_config);
SAME(fy_qnn_power_config, u.words, abi_power_config, u.words);
SAME_SIZE(fy_qnn_infrastructure, abi_infrastructure);
SAME(fy_qnn_infrastructure, create, abi_infrastructure, perf.create);
SAME(fy_qnn_infrastructure, destroy, abi_infrastructure, perf.destroy);
SAME(fy_qnn_infrastructure, set, abi_infrastructure, perf.set_power);
SAME_SIZE(fy_qnn_graph_info, abi_graph_info1);
SAME(fy_qnn_graph_info, name, abi_graph_info1, name);
SAME(fy_qnn_graph_info, n_inputs, abi_graph_info1, n_inputs);
SAME(fy_qnn_graph_info, inputs, abi_graph_info1, inputs);
SAME(fy_qnn_graph_info, n_outputs, abi_graph_info1, n_outputs);
SAME(fy_qnn_graph_info, outputs, abi_graph_info1, outputs);
SAME_SIZE(fy_qnn_binary_info, abi_binary_info);
SAME(fy_qnn_binary_info, u.v1.build_id, abi_binary_info, u.v2.build_id);
SAME(fy_qnn_binary_info, u.v1.core, abi_binary_info, u.v2.core);
SAME(fy_qnn_binary_info, u.v1.context_blob, abi_binary_info, u.v2.context_blob);
SAME(fy_qnn_binary_info, u.v1.n_graphs, abi_binary_info, u.v2.n_graphs);
SAME(fy_qnn_binary_info, u.v1.graphs, abi_binary_info, u.v2.graphs);
SAME(fy_qnn_binary_info, u.v3.backend_api, abi_binary_info, u.v3.backend);
SAME(fy_qnn_binary_info, u.v3.context_blob, abi_binary_info, u.v3.context_blob);
SAME(fy_qnn_binary_info, u.v3.context_blob_bytes, abi_binary_info, u.v3.context_size);
SAME(fy_qnn_binary_info, u.v3.n_graphs, abi_binary_info, u.v3.n_graphs);
SAME(fy_qnn_binary_info, u.v3.graphs, abi_binary_info, u.v3.graphs);
SAME(fy_qnn_binary_info, u.v3.platform, abi_binary_info, u.v3.platform);
SAME(fy_qnn_binary_info, u.v3.soc_model, abi_binary_info, u.v3.soc_model);
SAME_SIZE(fy_qnn_system_provider, abi_system_provider);
SAME(fy_qnn_system_provider, version, abi_system_provider, version);
SAME(fy_qnn_system_provider, table, abi_system_provider, slots);

static abi_op seen;

/* As the library declares it. */
static abi_error take_op(abi_handle h, abi_op op)
{
    seen = op;
    return (uintptr_t)h;
}

typedef fy_qnn_error add_node(fy_qnn_handle g, fy_qnn_op op);

static void a_node_passes_by_value_between_both_declarations(void **state)
{
    (void)state;
    union {
        abi_error (*theirs)(abi_handle, abi_op);
        add_node *ours;
    } call = {take_op};
    fy_qnn_op op;
    uint8_t bytes[sizeof op];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    memcpy(&op, bytes, sizeof op);
    op.version = 1;
    op.n_outputs = 0x12345678;
    assert_int_equal(call.ours((void *)(uintptr_t)77, op), 77);
    assert_int_equal(seen.version, 1);
    assert_int_equal(seen.v1.n_outputs, 0x12345678);
    assert_ptr_equal(seen.v1.name, op.name);
    assert_ptr_equal(seen.v1.type, op.op);
    assert_ptr_equal(seen.v1.params, op.params);
    assert_ptr_equal(seen.v1.outputs, op.outputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_passes_by_value_between_both_declarations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
