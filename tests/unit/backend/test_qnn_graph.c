/* Composing graphs, on a table of functions that notes what it is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/qnn/qnn_graph.h"

static struct {
    fy_qnn_tensor tensor; /* the last one */
    uint32_t n_tensors;
    fy_qnn_op op;
    fy_qnn_param params[FY_QNN_NODE_PARAMS];
    fy_qnn_tensor inputs[2], outputs[2];
    uint64_t size, written;
    fy_qnn_error answer;
} got;

static fy_qnn_error take_tensor(fy_qnn_handle g, fy_qnn_tensor *t)
{
    (void)g;
    got.tensor = *t;
    t->u.v1.id = ++got.n_tensors;
    return got.answer;
}

static fy_qnn_error take_node(fy_qnn_handle g, fy_qnn_op op)
{
    assert_ptr_equal(g, (void *)&got);
    got.op = op;
    memcpy(got.params, op.params, op.n_params * sizeof *op.params);
    memcpy(got.inputs, op.inputs, op.n_inputs * sizeof *op.inputs);
    memcpy(got.outputs, op.outputs, op.n_outputs * sizeof *op.outputs);
    return got.answer;
}

static fy_qnn_error tell_size(fy_qnn_handle c, uint64_t *bytes)
{
    (void)c;
    *bytes = got.size;
    return got.answer;
}

static fy_qnn_error write_binary(fy_qnn_handle c, void *p, uint64_t bytes, uint64_t *written)
{
    (void)c;
    memset(p, 7, bytes);
    *written = got.written;
    return 0;
}

static fy_qnn_error add_one(fy_qnn_handle g, const fy_qnn_tensor *in, uint32_t n_in,
                            fy_qnn_tensor *out, uint32_t n_out, fy_qnn_handle profile,
                            fy_qnn_handle signal)
{
    (void)g, (void)profile, (void)signal;
    assert_int_equal(n_in, 1);
    assert_int_equal(n_out, 1);
    assert_int_equal(in->u.v1.memory, FY_QNN_RAW);
    assert_int_equal(in->u.v1.u.buffer.bytes, 6 * sizeof(uint16_t));
    assert_int_equal(out->u.v1.u.buffer.bytes, 6 * sizeof(uint16_t));
    for (size_t i = 0; i < 6; i++)
        ((uint16_t *)out->u.v1.u.buffer.data)[i] =
            (uint16_t)(((const uint16_t *)in->u.v1.u.buffer.data)[i] + 1);
    return got.answer;
}

static const fy_qnn_table table = {.tensor_create = take_tensor,
                                   .graph_add_node = take_node,
                                   .backend_validate = take_node,
                                   .context_binary_size = tell_size,
                                   .context_binary = write_binary,
                                   .graph_execute = add_one};
static fy_qnn_lib lib = {.call = &table, .backend = &got};
static fy_qnn_graph graph;

static int begin(void **state)
{
    (void)state;
    memset(&got, 0, sizeof got);
    graph = (fy_qnn_graph){.lib = &lib, .handle = &got};
    return 0;
}

static int end(void **state)
{
    (void)state;
    fy_qnn_graph_release(&graph);
    return 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static void only_constants_bring_data(void **state)
{
    (void)state;
    const uint32_t dims[] = {2, 3};
    const uint16_t data[6] = {1, 2, 3, 4, 5, 6};
    const fy_qnn_quant quant = fy_qnn_quant_scale(0.5f, -7);
    fy_qnn_tensor *t = NULL;
    char name[] = "weights";
    assert_int_equal(
        fy_qnn_tensor_new(&graph, name, FY_QNN_STATIC, FY_QNN_UFIXED_16, &quant, 2, dims, data, &t),
        0);
    assert_int_equal(got.tensor.u.v1.u.buffer.bytes, sizeof data);
    assert_ptr_equal(got.tensor.u.v1.u.buffer.data, data);
    assert_null(t->u.v1.u.buffer.data); /* the library has its copy */
    name[0] = '?';
    assert_string_equal(t->u.v1.name, "weights");
    assert_ptr_not_equal(t->u.v1.dims, dims);
    assert_int_equal(t->u.v1.id, 1);
    assert_int_equal(t->u.v1.quant.u.scale_offset.offset, -7);
    assert_int_equal(fy_qnn_tensor_new(&graph, "x", FY_QNN_APP_WRITE, FY_QNN_UFIXED_16, &quant, 2,
                                       dims, data, &t),
                     0);
    assert_null(got.tensor.u.v1.u.buffer.data);
    assert_int_equal(got.tensor.u.v1.u.buffer.bytes, 0);
    assert_int_equal(fy_qnn_n_elements(t), 6);
}

static void sizes_that_do_not_fit_never_reach_the_library(void **state)
{
    (void)state;
    static const uint32_t dims[][4] = {{1u << 31, 1u << 31, 1u << 31, 4}, {1u << 30, 4, 1, 1}};
    const fy_qnn_quant none = fy_qnn_no_quant();
    fy_qnn_tensor *t = NULL;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(fy_qnn_tensor_new(&graph, "x", FY_QNN_NATIVE, FY_QNN_FLOAT_32, &none, 4,
                                           dims[i], NULL, &t),
                         FY_QNN_EMEMORY);
    assert_int_equal(
        fy_qnn_tensor_new(&graph, "x", FY_QNN_NATIVE, 0x7777, &none, 4, dims[1], NULL, &t),
        FY_QNN_EMEMORY);
    assert_null(t);
    assert_int_equal(got.n_tensors, 0);
    const uint32_t many[] = {1u << 31, 1u << 31, 1u << 31};
    fy_qnn_node node;
    fy_qnn_node_begin(&node, "n", "Op");
    assert_int_equal(fy_qnn_node_array(&graph, &node, "p", FY_QNN_UINT_32, 3, many, many),
                     FY_QNN_EMEMORY);
    assert_int_equal(node.op.n_params, 0);
    assert_int_equal(got.n_tensors, 0);
}

static void types_have_their_bytes(void **state)
{
    (void)state;
    assert_int_equal(fy_qnn_type_bytes(FY_QNN_UFIXED_8), 1);
    assert_int_equal(fy_qnn_type_bytes(FY_QNN_BOOL_8), 1);
    assert_int_equal(fy_qnn_type_bytes(FY_QNN_FLOAT_16), 2);
    assert_int_equal(fy_qnn_type_bytes(FY_QNN_SFIXED_32), 4);
    assert_int_equal(fy_qnn_type_bytes(0x77), 0);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void a_node_arrives_whole(void **state)
{
    (void)state;
    const uint32_t dims[] = {2, 3}, values[] = {11, 22}, two = 2;
    const fy_qnn_quant quant = fy_qnn_quant_scale(0.25f, -3);
    fy_qnn_tensor *x = NULL, *y = NULL;
    fy_qnn_node node;
    fy_qnn_tensor_new(&graph, "x", FY_QNN_APP_WRITE, FY_QNN_UFIXED_8, &quant, 2, dims, NULL, &x);
    fy_qnn_tensor_new(&graph, "y", FY_QNN_APP_READ, FY_QNN_UFIXED_8, &quant, 2, dims, NULL, &y);
    fy_qnn_node_begin(&node, "node", "Op");
    fy_qnn_node_u32(&node, "u", 0xdeadbeef);
    fy_qnn_node_i32(&node, "i", -5);
    fy_qnn_node_f32(&node, "f", 1.5f);
    fy_qnn_node_bool(&node, "b", true);
    assert_int_equal(fy_qnn_node_array(&graph, &node, "list", FY_QNN_UINT_32, 1, &two, values), 0);
    fy_qnn_node_input(&node, x);
    fy_qnn_node_output(&node, y);
    assert_int_equal(fy_qnn_node_add(&graph, &node), 0);
    assert_int_equal(got.op.version, 1);
    assert_string_equal(got.op.name, "node");
    assert_string_equal(got.op.package, FY_QNN_PACKAGE);
    assert_string_equal(got.op.op, "Op");
    assert_int_equal(got.op.n_params, 5);
    assert_int_equal(got.op.n_inputs, 1);
    assert_int_equal(got.op.n_outputs, 1);
    assert_string_equal(got.params[0].name, "u");
    assert_int_equal(got.params[0].u.scalar.u.u32, 0xdeadbeef);
    assert_int_equal(got.params[1].u.scalar.type, FY_QNN_INT_32);
    assert_int_equal(got.params[1].u.scalar.u.i32, -5);
    assert_true(got.params[2].u.scalar.u.f32 == 1.5f);
    assert_int_equal(got.params[3].u.scalar.type, FY_QNN_BOOL_8);
    assert_int_equal(got.params[3].u.scalar.u.u64, 1); /* nothing besides the byte */
    assert_int_equal(got.params[4].kind, FY_QNN_PARAM_TENSOR);
    const fy_qnn_tensor_v1 *list = &got.params[4].u.tensor.u.v1;
    assert_string_equal(list->name, "node.list");
    assert_int_equal(list->u.buffer.bytes, sizeof values);
    assert_memory_equal(list->u.buffer.data, values, sizeof values);
    assert_int_equal(got.inputs[0].u.v1.id, x->u.v1.id);
    assert_int_equal(got.outputs[0].u.v1.id, y->u.v1.id);
    memset(&got.op, 0, sizeof got.op);
    got.answer = FY_QNN_EVALIDATE;
    assert_int_equal(fy_qnn_node_validate(&graph, &node), FY_QNN_EVALIDATE);
    assert_int_equal(got.op.n_params, 5);
}

/* --- binaries --------------------------------------------------------------------------------- */

static void a_binary_is_as_long_as_the_library_wrote(void **state)
{
    (void)state;
    uint8_t *p = NULL;
    uint64_t n = 0;
    fy_err e = {0};
    got.size = 100;
    got.written = 60;
    assert_int_equal(fy_qnn_context_binary(&lib, &got, &p, &n, &e), 0);
    assert_int_equal(n, 60);
    assert_int_equal(p[59], 7);
    free(p);
}

static void sizes_of_binaries_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t size, written;
        const char *message;
    } rows[] = {{0, 0, "contextGetBinarySize: 0 bytes, expected 1 to"},
                {UINT64_MAX, 0, "contextGetBinarySize: 18446744073709551615 bytes, expected 1 to"},
                {100, 101, "contextGetBinary: wrote 101 bytes of 100"},
                {100, UINT64_MAX, "contextGetBinary: wrote 18446744073709551615 bytes of 100"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t *p = NULL;
        uint64_t n = 0;
        fy_err e = {0};
        got.size = rows[i].size;
        got.written = rows[i].written;
        assert_int_equal(fy_qnn_context_binary(&lib, &got, &p, &n, &e), -1);
        assert_null(p);
        assert_int_equal(e.code, FY_EDEVICE);
        assert_non_null(strstr(e.msg, rows[i].message));
    }
}

/* --- running ---------------------------------------------------------------------------------- */

static void a_graph_runs_on_the_memory_of_the_caller(void **state)
{
    (void)state;
    const uint32_t dims[] = {2, 3};
    const fy_qnn_quant none = fy_qnn_no_quant();
    uint16_t in[6] = {1, 2, 3, 4, 5, 6}, out[6] = {0};
    fy_qnn_tensor *x = NULL, *y = NULL;
    fy_qnn_tensor_new(&graph, "x", FY_QNN_APP_WRITE, FY_QNN_FLOAT_16, &none, 2, dims, NULL, &x);
    fy_qnn_tensor_new(&graph, "y", FY_QNN_APP_READ, FY_QNN_FLOAT_16, &none, 2, dims, NULL, &y);
    void *const in_data[] = {in}, *const out_data[] = {out};
    assert_int_equal(fy_qnn_graph_run(&graph, &x, in_data, 1, &y, out_data, 1), 0);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(out[i], in[i] + 1);
    assert_null(x->u.v1.u.buffer.data); /* the tensors themselves stay as they were */
    got.answer = 6031;
    assert_int_equal(fy_qnn_graph_run(&graph, &x, in_data, 1, &y, out_data, 1), 6031);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_constants_bring_data, begin, end),
        cmocka_unit_test_setup_teardown(sizes_that_do_not_fit_never_reach_the_library, begin, end),
        cmocka_unit_test(types_have_their_bytes),
        cmocka_unit_test_setup_teardown(a_node_arrives_whole, begin, end),
        cmocka_unit_test_setup_teardown(a_binary_is_as_long_as_the_library_wrote, begin, end),
        cmocka_unit_test_setup_teardown(sizes_of_binaries_that_lie_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_graph_runs_on_the_memory_of_the_caller, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
