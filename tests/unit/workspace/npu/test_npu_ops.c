#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/workspace/npu_fixture.h"
#include "workspace/npu/npu_ops.h"

/* --- graphs made by hand ---------------------------------------------------------------------- */

static void a_graph_is_counted_node_by_node(void **state)
{
    (void)state;
    fy_q_tensor tensors[] = {
        {.kind = FY_Q_IN, .rank = 2, .dims = {33, 64}},
        {.kind = FY_Q_STATIC,
         .class = FY_QC_WEIGHT,
         .rank = 4,
         .dims = {1, 1, 64, 100},
         .from = {.type = FY_NPU_16A8W}},
        {.kind = FY_Q_STATIC, .class = FY_QC_BIAS, .rank = 1, .dims = {100}},
        {.kind = FY_Q_INNER, .rank = 4, .dims = {1, 1, 33, 100}},
        {.kind = FY_Q_OUT, .rank = 2, .dims = {33, 100}},
    };
    fy_q_node nodes[] = {{.op = FY_Q_CONV, .out = 3}, {.op = FY_Q_CAST, .out = 4}};
    const fy_qgraph g = {.tensors = tensors, .n_tensors = 5, .nodes = nodes, .n_nodes = 2};
    const fy_qgraph two[] = {g, g};
    const uint64_t node = 300 + 5 * 2 * 4; /* of 33 x 100: 2 x 4 tiles */
    uint64_t weights, ops;
    fy_npu_count_graphs(&g, 1, &weights, &ops);
    assert_int_equal(weights, 128 * (64 + 4) + 100 * 4);
    assert_int_equal(ops, 64000 + 128 * 12 + 2 * node);
    fy_npu_count_graphs(two, 2, &weights, &ops);
    assert_int_equal(weights, 128 * (64 + 4) + 100 * 4);
    assert_int_equal(ops, 2 * 64000 + 128 * 12 + 2 * 2 * node);
    fy_npu_count_graphs(NULL, 0, &weights, &ops);
    assert_int_equal(weights + ops, 0);
}

/* --- a plan counts what is composed ----------------------------------------------------------- */

static bool has(const void *user, fy_slot slot, uint32_t layer)
{
    const fy_npu_model *m = user;
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].slot == slot &&
            (!m->tensors[i].per_layer || m->tensors[i].layer == layer))
            return true;
    }
    return slot == FY_T_OUTPUT;
}

static void count_chunk(const fy_npu_model *m, const fy_npu_plan *plan, const fy_chunk_info *chunk,
                        uint64_t *weights, uint64_t *ops)
{
    fy_qgraph g[FY_NPU_BATCHES];
    const fy_npu_params *p = &plan->params;
    for (uint32_t i = 0; i < p->n_batches; i++) {
        fy_err e = {0};
        const fy_qgraph_of of = {.family = m->family,
                                 .hp = &m->hp,
                                 .chunk = chunk,
                                 .recipe = p->recipe,
                                 .has = has,
                                 .user = m,
                                 .n_batch = p->batch[i],
                                 .n_cache = plan->n_cache,
                                 .n_ctx = p->n_ctx,
                                 .kv_bits = p->kv_bits};
        if (fy_qgraph_compose(&g[i], &of, &e) != 0)
            fail_msg("%s", e.msg);
    }
    fy_npu_count_graphs(g, p->n_batches, weights, ops);
    for (uint32_t i = 0; i < p->n_batches; i++)
        fy_qgraph_release(&g[i]);
}

/* Norms have a gamma in the file, and a beta of zeros in the graph. */
static void check_chunk(const fy_npu_model *m, const fy_npu_plan *plan, const fy_npu_chunk *c)
{
    const bool head = c->first_layer == c->end_layer;
    const fy_chunk_info info = {.kind = head ? FY_CHUNK_HEAD : FY_CHUNK_LAYERS,
                                .first_layer = c->first_layer,
                                .end_layer = c->end_layer,
                                .first_token = c->first_token,
                                .end_token = c->end_token};
    uint64_t weights, ops;
    count_chunk(m, plan, &info, &weights, &ops);
    const uint64_t norms = head ? 1 : 2 * (c->end_layer - c->first_layer);
    assert_int_equal(weights, c->weights + norms * 4 * m->hp.n_embd);
    /* A layer is counted with the borders of a graph of its own. */
    if (head || c->end_layer == c->first_layer + 1)
        assert_int_equal(c->op_bytes, ops);
    else
        assert_true(c->op_bytes >= ops && (double)c->op_bytes < 1.06 * (double)ops);
}

static void a_plan_counts_what_is_composed(void **state)
{
    (void)state;
    static const struct {
        fy_npu_type type;
        uint32_t kv_bits, n_chunks, batch[3], n_batches;
        bool float_core, biases;
    } cases[] = {
        {FY_NPU_16A8W, 8, 4, {128, 1}, 2, false, false},
        {FY_NPU_16A4W, 16, 1, {128, 1}, 2, false, true},
        {FY_NPU_16A4W, 16, 4, {64, 8, 1}, 3, true, false}, /* casts around every matrix */
        {FY_NPU_FP16A8W, 16, 2, {1}, 1, true, false},
        {FY_NPU_LPBQ_32, 8, 4, {512, 1}, 2, false, false},
    };
    const fy_hparams hp = npu_hparams(4, 1024, 16, 4, 2816, 32000);
    const fy_soc soc = npu_soc();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_npu_model m = npu_model(&hp, (npu_shape){.tied = true, .biases = cases[i].biases});
        fy_npu_recipe r = npu_recipe(cases[i].type, cases[i].kv_bits);
        fy_npu_params p = {.soc = &soc,
                           .recipe = &r,
                           .n_chunks = cases[i].n_chunks,
                           .n_batches = cases[i].n_batches};
        fy_npu_plan plan;
        r.float_core = cases[i].float_core;
        memcpy(p.batch, cases[i].batch, sizeof cases[i].batch);
        assert_int_equal(fy_npu_plan_make(&m, &p, &plan, NULL), 0);
        assert_true(plan.fits && plan.n_chunks == cases[i].n_chunks);
        for (uint32_t k = 0; k < plan.n_chunks + plan.n_heads; k++)
            check_chunk(&m, &plan, fy_npu_chunk_at(&plan, k));
        fy_npu_plan_release(&plan);
        fy_npu_model_release(&m);
    }
}

/* --- measured --------------------------------------------------------------------------------- */

/* Binaries of the vendor's compiler (SDK 2.51, SM8650, O3) for layers of random weights, and the
 * peak memory of the process. */
static const struct {
    fy_npu_type type;
    uint32_t n_layer, n_embd, n_ff, n_head, n_head_kv, head_dim, n_ctx, batch[4], n_batches;
    uint64_t bytes;
    double peak_mb;
} measured[] = {
    {FY_NPU_16A8W, 1, 2048, 8192, 32, 8, 64, 2048, {128, 1}, 2, 61747200, 633},
    {FY_NPU_16A8W, 4, 2048, 8192, 32, 8, 64, 2048, {128, 1}, 2, 246644736, 2162},
    {FY_NPU_16A8W, 1, 2048, 8192, 32, 8, 64, 2048, {128}, 1, 61468672, 375},
    {FY_NPU_16A8W, 1, 2048, 8192, 32, 8, 64, 512, {128, 1}, 2, 61689856, 624},
    {FY_NPU_16A8W, 1, 2048, 8192, 32, 8, 64, 8192, {128, 1}, 2, 62197760, 702},
    {FY_NPU_16A8W, 1, 2560, 512, 32, 32, 80, 2048, {128, 1}, 2, 35057664, 415},
    {FY_NPU_16A4W, 2, 4096, 14336, 32, 8, 128, 2048, {128, 1}, 2, 220962816, 2159},
    {FY_NPU_16A4W, 4, 896, 4864, 14, 2, 64, 2048, {128, 1}, 2, 31559680, 438},
    {FY_NPU_16A4W, 2, 2048, 16384, 8, 1, 256, 2048, {128, 1}, 2, 112336896, 1174},
    {FY_NPU_16A4W, 1, 2048, 8192, 32, 8, 64, 2048, {128, 64, 32, 1}, 4, 31797248, 669},
    {FY_NPU_LPBQ_32, 1, 2048, 8192, 32, 8, 64, 2048, {128, 1}, 2, 33349632, 459},
    {FY_NPU_FP16A8W, 4, 2048, 8192, 32, 8, 64, 2048, {128, 1}, 2, 246325248, 2288},
    {FY_NPU_FP16, 1, 2048, 8192, 32, 8, 64, 2048, {128, 1}, 2, 122408960, 1096},
};

static void the_measured_binaries_come_out(void **state)
{
    (void)state;
    const fy_soc soc = npu_soc();
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        fy_hparams hp = npu_hparams(measured[i].n_layer, measured[i].n_embd, measured[i].n_head,
                                    measured[i].n_head_kv, measured[i].n_ff, 1000);
        hp.head_dim = hp.head_dim_v = hp.n_rot = measured[i].head_dim;
        fy_npu_model m = npu_model(&hp, (npu_shape){.tied = true});
        const fy_npu_recipe r =
            npu_recipe(measured[i].type, fy_npu_type_is_float(measured[i].type) ? 16 : 8);
        fy_npu_params p = {.soc = &soc,
                           .recipe = &r,
                           .n_ctx = measured[i].n_ctx,
                           .n_chunks = 1,
                           .n_batches = measured[i].n_batches};
        fy_npu_plan plan;
        memcpy(p.batch, measured[i].batch, sizeof measured[i].batch);
        assert_int_equal(fy_npu_plan_make(&m, &p, &plan, NULL), 0);
        const double off = (double)plan.chunks[0].file_bytes / (double)measured[i].bytes - 1;
        const double peak = (double)plan.chunks[0].compile_peak * 1e-6 / measured[i].peak_mb;
        if (off < -0.01 || off > 0.01 || peak < 0.95 || peak > 1.3)
            fail_msg("case %zu: %+.2f %% of the binary, %.2f of the peak", i, 100 * off, peak);
        fy_npu_plan_release(&plan);
        fy_npu_model_release(&m);
    }
}

/* The layers of Llama 3.2 1B took 88 s in 16a8w, 131 s in lpbq-32 and 193 s in fp16a8w. */
static void compiling_takes_about_two_minutes_for_a_billion_weights(void **state)
{
    (void)state;
    assert_int_equal(fy_npu_compile_seconds(973078528, 2, false), 108);
    assert_int_equal(fy_npu_compile_seconds(973078528, 2, true), 215);
    assert_int_equal(fy_npu_compile_seconds(262668288, 1, false), 11);
    assert_int_equal(fy_npu_compile_seconds(0, 2, false), 0);
    assert_int_equal(fy_npu_compile_peak(FY_NPU_TOO_MANY, 0, 2), FY_NPU_TOO_MANY);
}

/* --- what cannot be ----------------------------------------------------------------------------
 */

static void what_cannot_be_composed_does_not_fit(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_1b();
    const fy_soc soc = npu_soc();
    fy_npu_recipe r = npu_recipe(FY_NPU_LPBQ_64, 8);
    const fy_npu_params p = {
        .soc = &soc, .recipe = &r, .n_ctx = 2048, .batch = {1}, .n_batches = 1, .kv_bits = 8};
    const fy_npu_counter c = {.model = &m, .params = &p, .n_cache = 2047};
    uint64_t bytes;
    fy_err e = {0};
    m.hp.n_ff = 96;
    assert_int_equal(fy_npu_layer_ops(&c, 3, &bytes, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    m.hp.n_ff = 128;
    for (long n = 0;; n++) {
        e = (fy_err){0};
        alloc_fail_after(n);
        const int rc = fy_npu_layer_ops(&c, 3, &bytes, &e);
        const bool failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
        if (!failed)
            break;
    }
    fy_npu_model_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_is_counted_node_by_node),
        cmocka_unit_test(a_plan_counts_what_is_composed),
        cmocka_unit_test(the_measured_binaries_come_out),
        cmocka_unit_test(compiling_takes_about_two_minutes_for_a_billion_weights),
        cmocka_unit_test(what_cannot_be_composed_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
