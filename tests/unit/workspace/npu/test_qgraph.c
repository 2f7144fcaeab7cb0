/* Graphs as data: every dense family composes, in every type of core, and the graphs of two batch
 * sizes have the same static tensors and ranges. That they compute what the model computes is
 * tested by test_composition.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/alloc_fail.h"
#include "workspace/npu/qgraph.h"

enum { B = 32, C = 96, X = 128 };

static const fy_npu_recipe recipes[] = {
    {.name = (char[]){"16a8w"}, .type = FY_NPU_16A8W, .kv_bits = 8},
    {.name = (char[]){"s16"}, .type = FY_NPU_LPBQ_16, .kv_bits = 16, .rotate_keys = true},
    {.name = (char[]){"8a4w"}, .type = FY_NPU_8A4W, .kv_bits = 8},
    {.name = (char[]){"fp16a8w"}, .type = FY_NPU_FP16A8W, .kv_bits = 16},
    {.name = (char[]){"powerserve"}, .type = FY_NPU_16A4W, .kv_bits = 16, .float_core = true},
};
enum { N_RECIPES = sizeof recipes / sizeof recipes[0] };

/* A model has whatever its family lists, optional tensors too. */
static bool family_has(const void *family, fy_slot slot, uint32_t layer)
{
    (void)layer;
    if (fy_row_of_slot(family, slot) != NULL)
        return true;
    for (size_t i = 0; i < fy_n_fused_rows; i++) {
        for (size_t k = 0; k < FY_FUSED_PARTS; k++) {
            if (fy_fused_rows[i].parts[k].slot == slot &&
                fy_fused_rows[i].parts[k].rows != FY_D_END &&
                fy_row_of_slot(family, fy_fused_rows[i].slot) != NULL)
                return true;
        }
    }
    return slot == FY_T_OUTPUT;
}

static fy_hparams small(const fy_family *f)
{
    fy_hparams hp = f->defaults;
    const bool grouped = hp.n_head_kv != 0 && hp.n_head_kv < hp.n_head;
    hp.n_vocab = 100;
    hp.n_layer = 4;
    hp.n_embd = 64;
    hp.n_head = 4;
    hp.n_head_kv = hp.n_head_kv == 1 ? 1 : grouped ? 2 : 4;
    hp.n_ff = 96;
    if (hp.n_rot != 0 && hp.n_rot != hp.head_dim)
        hp.n_rot = 8;
    else
        hp.n_rot = 0;
    hp.head_dim = hp.head_dim_v = 16;
    hp.n_swa = hp.n_swa != 0 ? 24 : 0;
    fy_hparams_derive(&hp, f);
    return hp;
}

static fy_qgraph_of of_family(const fy_family *f, const fy_hparams *hp, const fy_chunk_info *chunk,
                              const fy_npu_recipe *r, uint32_t batch)
{
    return (fy_qgraph_of){.family = f,
                          .hp = hp,
                          .chunk = chunk,
                          .recipe = r,
                          .has = family_has,
                          .user = f,
                          .n_batch = batch,
                          .n_cache = C,
                          .n_ctx = X};
}

/* --- what every graph keeps ------------------------------------------------------------------- */

static void check_shapes(const fy_qgraph *g, const fy_q_node *n)
{
    const fy_q_tensor *y = &g->tensors[n->out], *a = &g->tensors[n->in[0]];
    const fy_q_tensor *b = n->n_in > 1 ? &g->tensors[n->in[1]] : a;
    uint32_t sum = 0;
    switch ((int)n->op) {
    case FY_Q_CONV:
        assert_int_equal(b->dims[2], fy_q_cols(a));
        assert_int_equal(b->dims[3], fy_q_cols(y));
        assert_int_equal(fy_q_rows(a), fy_q_rows(y));
        if (n->n_in > 2)
            assert_int_equal(g->tensors[n->in[2]].dims[0], fy_q_cols(y));
        assert_true(a->type == y->type);
        break;
    case FY_Q_MATMUL:
        assert_int_equal(fy_q_cols(a), fy_q_rows(b));
        assert_int_equal(fy_q_rows(a), fy_q_rows(y));
        assert_int_equal(fy_q_cols(b), fy_q_cols(y));
        break;
    case FY_Q_CONCAT:
        for (uint32_t i = 0; i < n->n_in; i++) {
            const fy_q_tensor *part = &g->tensors[n->in[i]];
            sum += part->dims[n->axis];
            assert_int_equal(part->dims[5 - n->axis], y->dims[5 - n->axis]);
            assert_true(part->range == y->range && part->type == y->type);
        }
        assert_int_equal(sum, y->dims[n->axis]);
        break;
    case FY_Q_SLICE:
        assert_int_equal(n->end - n->begin, fy_q_cols(y));
        assert_true(n->end <= fy_q_cols(a) && a->range == y->range);
        break;
    case FY_Q_TRANSPOSE:
        assert_true(fy_q_rows(a) == fy_q_cols(y) && fy_q_cols(a) == fy_q_rows(y));
        break;
    case FY_Q_ROPE:
        assert_int_equal(fy_q_cols(b), fy_q_cols(a) / 2);
        assert_int_equal(b->rank, 3);
        break;
    default:
        assert_true(fy_q_rows(a) == fy_q_rows(y) && fy_q_cols(a) == fy_q_cols(y));
    }
}

static void check_graph(const fy_qgraph *g, const fy_qgraph_of *of)
{
    bool *made = calloc(g->n_tensors, sizeof *made);
    const fy_graph_shape io = {of->hp, of->chunk, of->n_batch, C, X, g->kv == FY_Q_U8 ? 1 : 2};
    const uint32_t n_io = fy_graph_n_io(&io);
    for (size_t i = 0; i < g->n_tensors; i++) {
        const fy_q_tensor *t = &g->tensors[i];
        made[i] = t->kind == FY_Q_IN || t->kind == FY_Q_STATIC;
        assert_int_equal(t->kind == FY_Q_IN || t->kind == FY_Q_OUT, i < n_io);
        if (t->class == FY_QC_ACT || t->class == FY_QC_KV || t->class == FY_QC_SCORE)
            assert_true(t->range < g->n_ranges);
        if (t->class == FY_QC_SCORE)
            assert_true(g->tensors[t->mask].class == FY_QC_MASK);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(g->tensors[k].name, t->name);
    }
    for (size_t i = 0; i < g->n_nodes; i++) {
        const fy_q_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_in; k++)
            assert_true(made[n->in[k]]);
        assert_false(made[n->out]);
        made[n->out] = true;
        check_shapes(g, n);
    }
    for (size_t i = 0; i < g->n_tensors; i++)
        assert_true(made[i]);
    free(made);
}

/* What lets a context share weights, and all batch sizes share ranges. */
static void check_same_statics(const fy_qgraph *a, const fy_qgraph *b)
{
    assert_int_equal(a->n_ranges, b->n_ranges);
    for (size_t i = 0; i < a->n_ranges; i++)
        assert_string_equal(a->ranges[i].name, b->ranges[i].name);
    size_t k = 0, n = 0;
    for (size_t i = 0; i < a->n_tensors; i++) {
        const fy_q_tensor *t = &a->tensors[i];
        if (t->kind != FY_Q_STATIC)
            continue;
        while (k < b->n_tensors && b->tensors[k].kind != FY_Q_STATIC)
            k++;
        assert_true(k < b->n_tensors);
        assert_string_equal(t->name, b->tensors[k].name);
        assert_int_equal(t->range, b->tensors[k].range);
        assert_memory_equal(&t->from, &b->tensors[k].from, sizeof t->from);
        assert_memory_equal(t->dims, b->tensors[k].dims, sizeof t->dims);
        k++;
        n++;
    }
    assert_true(n > 0);
}

static void compose_both(const fy_family *f, const fy_hparams *hp, const fy_chunk_info *chunk,
                         const fy_npu_recipe *r, bool rope_nodes)
{
    fy_err e = {0};
    fy_qgraph g[2];
    for (int i = 0; i < 2; i++) {
        fy_qgraph_of of = of_family(f, hp, chunk, r, i == 0 ? B : 1);
        of.rope_nodes = rope_nodes;
        if (fy_qgraph_compose(&g[i], &of, &e) != 0)
            fail_msg("%s, %s: %s", f->name, r->name, e.msg);
        check_graph(&g[i], &of);
    }
    check_same_statics(&g[0], &g[1]);
    fy_qgraph_release(&g[0]);
    fy_qgraph_release(&g[1]);
}

static void test_every_dense_family_composes(void **state)
{
    (void)state;
    int n = 0;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        const fy_hparams hp = small(*f);
        const fy_chunk_info layers = {.kind = FY_CHUNK_LAYERS, .first_layer = 1, .end_layer = 4};
        const fy_chunk_info head = {.kind = FY_CHUNK_HEAD, .end_token = 100};
        if (fy_cut_refusal(&hp) != NULL)
            continue;
        for (size_t r = 0; r < N_RECIPES; r++) {
            compose_both(*f, &hp, &layers, &recipes[r], r % 2 != 0);
            compose_both(*f, &hp, &head, &recipes[r], false);
        }
        n++;
    }
    assert_true(n > 20);
}

/* --- numbers and refusals --------------------------------------------------------------------- */

static void test_a_llama_layer_has_the_nodes_of_the_design(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_qgraph g;
    const fy_family *f = fy_family_of_gguf(FY_SPAN("llama"), false);
    fy_hparams hp = small(f);
    hp.n_head = 4;
    hp.n_head_kv = 2;
    const fy_chunk_info one = {.kind = FY_CHUNK_LAYERS, .first_layer = 0, .end_layer = 1};
    const fy_chunk_info two = {.kind = FY_CHUNK_LAYERS, .first_layer = 0, .end_layer = 2};
    fy_qgraph_of of = of_family(f, &hp, &one, &recipes[0], 1);
    assert_int_equal(fy_qgraph_compose(&g, &of, &e), 0);
    const size_t n_one = g.n_nodes;
    fy_qgraph_release(&g);
    of.chunk = &two;
    assert_int_equal(fy_qgraph_compose(&g, &of, &e), 0);
    /* 6 a query head, 12 a KV head, 12 the rest */
    assert_int_equal(g.n_nodes - n_one, 6 * 4 + 12 * 2 + 12);
    fy_qgraph_release(&g);
}

static void test_refusals(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_qgraph g;
    const fy_family *f = fy_family_of_gguf(FY_SPAN("llama"), false);
    fy_hparams hp = small(f);
    const fy_chunk_info one = {.kind = FY_CHUNK_LAYERS, .first_layer = 0, .end_layer = 1};
    const fy_npu_recipe u8 = {.name = (char[]){"odd"}, .type = FY_NPU_FP16, .kv_bits = 8};
    const fy_npu_recipe lpbq = {.name = (char[]){"wide"}, .type = FY_NPU_LPBQ_64, .kv_bits = 8};
    fy_qgraph_of of = of_family(f, &hp, &one, &u8, 1);
    assert_int_equal(fy_qgraph_compose(&g, &of, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "cache of 16 bits"));
    e = (fy_err){0};
    of.recipe = &lpbq; /* ffn_down has rows of 96 */
    assert_int_equal(fy_qgraph_compose(&g, &of, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "ffn_down"));
    e = (fy_err){0};
    hp.n_expert = 4;
    of.recipe = &recipes[0];
    assert_int_equal(fy_qgraph_compose(&g, &of, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
}

static void test_no_memory(void **state)
{
    (void)state;
    const fy_family *f = fy_family_of_gguf(FY_SPAN("gemma2"), false);
    const fy_hparams hp = small(f);
    const fy_chunk_info one = {.kind = FY_CHUNK_LAYERS, .first_layer = 0, .end_layer = 1};
    const fy_qgraph_of of = of_family(f, &hp, &one, &recipes[1], 1);
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        fy_qgraph g;
        alloc_fail_after(n);
        const int rc = fy_qgraph_compose(&g, &of, &e);
        failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        if (failed)
            assert_int_equal(e.code, FY_ENOMEM);
        else
            fy_qgraph_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dense_family_composes),
        cmocka_unit_test(test_a_llama_layer_has_the_nodes_of_the_design),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
