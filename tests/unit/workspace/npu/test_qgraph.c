/* Graphs as data: every dense family composes, in every type of core, and the graphs of two batch
 * sizes have the same static tensors and ranges. That they compute what the model computes is
 * tested by tests/e2e/composition.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/alloc_fail.h"
#include "model/weights.h"
#include "workspace/npu/qgraph.h"

enum { B = 32, C = 96, X = 128 };

static const fy_npu_recipe recipes[] = {
    {.name = (char[]){"16a8w"}, .type = FY_NPU_16A8W, .kv_bits = 8},
    {.name = (char[]){"s16"}, .type = FY_NPU_LPBQ_16, .kv_bits = 16, .rotate_keys = true},
    {.name = (char[]){"8a4w"}, .type = FY_NPU_8A4W, .kv_bits = 8},
    {.name = (char[]){"fp16a8w"}, .type = FY_NPU_FP16A8W, .kv_bits = 16, .float_core = true},
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

static uint32_t largest(const fy_hparams *hp)
{
    return fy_graph_has_states(hp) ? FY_STATE_BATCH_MAX : B;
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
            for (uint32_t d = 0; d < 4; d++)
                assert_true(d == n->axis || part->dims[d] == y->dims[d]);
            assert_true(part->type == y->type && (part->range == y->range || y->type == FY_Q_F16));
        }
        assert_int_equal(sum, y->dims[n->axis]);
        break;
    case FY_Q_SLICE:
        assert_int_equal(n->end - n->begin, y->dims[n->axis]);
        assert_true(n->end <= a->dims[n->axis] && a->range == y->range);
        break;
    case FY_Q_TRANSPOSE:
        assert_true(fy_q_rows(a) == fy_q_cols(y) && fy_q_cols(a) == fy_q_rows(y));
        break;
    case FY_Q_CAST:
        assert_true(a->type != y->type);
        assert_true(fy_q_rows(a) == fy_q_rows(y) && fy_q_cols(a) == fy_q_cols(y));
        break;
    case FY_Q_ADD:
    case FY_Q_SUBTRACT:
    case FY_Q_MULTIPLY: /* of two, dimensions of 1 are repeated */
        for (uint32_t d = 0; d < 4; d++) {
            const uint32_t in_a = d + a->rank < 4 ? 1 : a->dims[d + a->rank - 4];
            const uint32_t in_b = d + b->rank < 4 ? 1 : b->dims[d + b->rank - 4];
            assert_int_equal(y->dims[d], in_a > in_b ? in_a : in_b);
            assert_true((in_a == 1 || in_a == y->dims[d]) && (in_b == 1 || in_b == y->dims[d]));
        }
        break;
    case FY_Q_RESHAPE:
        assert_int_equal(fy_q_elements(a), fy_q_elements(y));
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

static void check_same_source(const fy_q_static *a, const fy_q_static *b)
{
    assert_true(a->slot == b->slot && a->layer == b->layer && a->type == b->type);
    assert_true(a->first == b->first && a->n == b->n && a->halves == b->halves);
    assert_true(a->scale == b->scale && a->value == b->value && a->hadamard == b->hadamard);
    assert_true(a->matrix == b->matrix && a->beta == b->beta);
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
        check_same_source(&t->from, &b->tensors[k].from);
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
        fy_qgraph_of of = of_family(f, hp, chunk, r, i == 0 ? largest(hp) : 1);
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

/* --- names ------------------------------------------------------------------------------------ */

static bool has_range(const fy_qgraph *g, const char *name)
{
    for (size_t i = 0; i < g->n_ranges; i++) {
        if (strcmp(g->ranges[i].name, name) == 0)
            return true;
    }
    return false;
}

/* One set of ranges serves all recipes that do not rotate keys. */
static void test_ranges_have_the_same_names_in_every_recipe(void **state)
{
    (void)state;
    const fy_chunk_info layers = {.kind = FY_CHUNK_LAYERS, .first_layer = 1, .end_layer = 4};
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        const fy_hparams hp = small(*f);
        fy_qgraph first = {0};
        for (size_t r = 0; r < N_RECIPES && fy_cut_refusal(&hp) == NULL; r++) {
            const fy_qgraph_of of = of_family(*f, &hp, &layers, &recipes[r], largest(&hp));
            fy_err e = {0};
            fy_qgraph g;
            if (recipes[r].rotate_keys)
                continue;
            assert_int_equal(fy_qgraph_compose(&g, &of, &e), 0);
            for (size_t i = 0; i < first.n_ranges; i++) {
                if (!has_range(&g, first.ranges[i].name))
                    fail_msg("%s, %s: no range '%s'", (*f)->name, recipes[r].name,
                             first.ranges[i].name);
            }
            assert_true(first.n_ranges == 0 || first.n_ranges == g.n_ranges);
            if (first.n_ranges == 0)
                first = g;
            else
                fy_qgraph_release(&g);
        }
        fy_qgraph_release(&first);
    }
}

static const fy_q_tensor *find(const fy_qgraph *g, const char *name)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (strcmp(g->tensors[i].name, name) == 0)
            return &g->tensors[i];
    }
    fail_msg("no tensor '%s'", name);
    return NULL;
}

/* There is one file of ranges for all chunks: what goes from one into the next has one name, what
 * differs has another. */
static void test_ranges_at_the_seams(void **state)
{
    (void)state;
    static const struct {
        fy_chunk_info chunk;
        const char *tensor, *range;
    } cases[] = {
        {{.kind = FY_CHUNK_LAYERS, .end_layer = 2}, "x.rows", "embedding"},
        {{.kind = FY_CHUNK_LAYERS, .end_layer = 2}, "out.rows", "L1.out"},
        {{.kind = FY_CHUNK_LAYERS, .first_layer = 2, .end_layer = 4}, "x.rows", "L1.out"},
        {{.kind = FY_CHUNK_HEAD, .end_token = 60}, "x.rows", "L3.out"},
        {{.kind = FY_CHUNK_HEAD, .end_token = 60}, "logits.rows", "logits.0"},
        {{.kind = FY_CHUNK_HEAD, .first_token = 60, .end_token = 100}, "logits.rows", "logits.60"},
    };
    const fy_family *f = fy_family_of_gguf(FY_SPAN("llama"), false);
    const fy_hparams hp = small(f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_qgraph_of of = of_family(f, &hp, &cases[i].chunk, &recipes[0], B);
        fy_err e = {0};
        fy_qgraph g;
        assert_int_equal(fy_qgraph_compose(&g, &of, &e), 0);
        assert_string_equal(g.ranges[find(&g, cases[i].tensor)->range].name, cases[i].range);
        fy_qgraph_release(&g);
    }
}

/* A parallel block whose input is read in three types, by k, v and, after attention, by up: each
 * conversion is made once. */
static void test_an_input_is_converted_once(void **state)
{
    (void)state;
    fy_slot k[] = {FY_T_ATTN_K, FY_T_FFN_UP, FY_T_ATTN_OUT}, v[] = {FY_T_ATTN_V};
    fy_npu_rule rules[] = {{0, UINT32_MAX, k, 3, FY_NPU_8A4W}, {0, UINT32_MAX, v, 1, FY_NPU_FP16}};
    const fy_npu_recipe r = {.name = (char[]){"mixed"},
                             .type = FY_NPU_16A8W,
                             .kv_bits = 8,
                             .rules = rules,
                             .n_rules = 2};
    const fy_chunk_info layers = {.kind = FY_CHUNK_LAYERS, .first_layer = 1, .end_layer = 4};
    const fy_family *f = fy_family_of_gguf(FY_SPAN("phi2"), false);
    const fy_hparams hp = small(f);
    assert_true(hp.parallel);
    compose_both(f, &hp, &layers, &r, false);
}

/* --- folds ------------------------------------------------------------------------------------ */

/* Where what a graph does not compute has gone. Heads have 16 elements, the scale of attention is
 * 1/4 unless the family has another. */
static void test_what_static_tensors_carry(void **state)
{
    (void)state;
    static const struct {
        const char *family, *tensor;
        float scale;
        bool halves;
        fy_slot slot, matrix, beta;
        uint32_t first, n;
    } cases[] = {
        {"llama", "blk.1.attn_k.1.weight", 0.25f, true, FY_T_ATTN_K, FY_T_COUNT, FY_T_COUNT, 16,
         16},
        {"llama", "blk.1.attn_k.1.bias", 0.25f, true, FY_T_ATTN_K_B, FY_T_COUNT, FY_T_COUNT, 16,
         16},
        {"llama", "blk.1.attn_q.3.weight", 1, true, FY_T_ATTN_Q, FY_T_COUNT, FY_T_COUNT, 48, 16},
        {"llama", "blk.1.attn_v.1.weight", 1, false, FY_T_ATTN_V, FY_T_COUNT, FY_T_COUNT, 16, 16},
        {"llama", "blk.1.attn_output.weight", 0.5f, false, FY_T_ATTN_OUT, FY_T_COUNT, FY_T_COUNT, 0,
         64},
        {"llama", "blk.1.ffn_down.bias", 0.5f, false, FY_T_FFN_DOWN_B, FY_T_COUNT, FY_T_COUNT, 0,
         64},
        {"qwen2", "blk.1.attn_k.1.weight", 0.25f, false, FY_T_ATTN_K, FY_T_COUNT, FY_T_COUNT, 16,
         16},
        {"qwen3", "blk.1.attn_k.0.weight", 1, false, FY_T_ATTN_K, FY_T_COUNT, FY_T_COUNT, 0, 16},
        {"qwen3", "blk.1.attn_k_norm.weight", 0.25f, false, FY_T_ATTN_K_NORM, FY_T_COUNT,
         FY_T_COUNT, 0, 16},
        {"qwen3", "blk.1.attn_q_norm.weight", 1, false, FY_T_ATTN_Q_NORM, FY_T_COUNT, FY_T_COUNT, 0,
         16},
        {"olmo2", "blk.1.attn_q_norm.weight", 1, false, FY_T_ATTN_Q_NORM, FY_T_COUNT, FY_T_COUNT, 0,
         64},
        {"olmo2", "blk.1.attn_q.weight", 1, false, FY_T_ATTN_Q, FY_T_COUNT, FY_T_COUNT, 0, 64},
        {"gemma2", "blk.1.attn_k.0.weight", 0.005f, false, FY_T_ATTN_K, FY_T_COUNT, FY_T_COUNT, 0,
         16},
        {"gemma2", "blk.1.attn_output.weight", 1, false, FY_T_ATTN_OUT, FY_T_COUNT, FY_T_COUNT, 0,
         64},
        {"gemma2", "blk.1.post_attention_norm.weight", 0.5f, false, FY_T_ATTN_POST_NORM, FY_T_COUNT,
         FY_T_COUNT, 0, 64},
        {"phi", "blk.1.attn_q.2.bias", 1, false, FY_T_ATTN_Q_B, FY_T_ATTN_Q, FY_T_ATTN_NORM_B, 32,
         16},
        {"phi", "blk.1.ffn_up.bias", 1, false, FY_T_FFN_UP_B, FY_T_FFN_UP, FY_T_ATTN_NORM_B, 0, 96},
        {"falcon", "blk.1.attn_v.0.bias", 1, false, FY_T_COUNT, FY_T_ATTN_V, FY_T_ATTN_NORM_2_B, 0,
         16},
        {"falcon", "blk.1.ffn_up.bias", 1, false, FY_T_COUNT, FY_T_FFN_UP, FY_T_ATTN_NORM_B, 0, 96},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_family *const *f = fy_families;
        while (*f != NULL && strcmp((*f)->name, cases[i].family) != 0)
            f++;
        assert_non_null(*f);
        const fy_chunk_info layers = {.kind = FY_CHUNK_LAYERS, .first_layer = 1, .end_layer = 2};
        fy_hparams hp = small(*f);
        fy_err e = {0};
        fy_qgraph g;
        hp.residual_scale = 0.5f;
        const fy_qgraph_of of = of_family(*f, &hp, &layers, &recipes[0], B);
        assert_int_equal(fy_qgraph_compose(&g, &of, &e), 0);
        const fy_q_static *s = &find(&g, cases[i].tensor)->from;
        if (s->slot != cases[i].slot || s->first != cases[i].first || s->n != cases[i].n ||
            s->halves != cases[i].halves || fabsf(s->scale - cases[i].scale) > 1e-6f ||
            s->matrix != cases[i].matrix || s->beta != cases[i].beta)
            fail_msg("%s, %s: slot %d, rows %u, %u, halves %d, scale %g, beta %d times %d",
                     cases[i].family, cases[i].tensor, (int)s->slot, s->first, s->n, s->halves,
                     (double)s->scale, (int)s->beta, (int)s->matrix);
        fy_qgraph_release(&g);
    }
}

/* --- values ----------------------------------------------------------------------------------- */

/* A layer whose heads have 6 elements, of which the first 4 rotate: row r of q is {r, 10 r}. */
enum { N_ROWS = 12, N_COLS = 2 };
static float rows_of_q[N_ROWS][N_COLS], bias_of_q[N_ROWS], norm_bias[N_COLS] = {1, 0.5f};

static fy_model by_hand(fy_weights *layer)
{
    for (int r = 0; r < N_ROWS; r++) {
        rows_of_q[r][0] = (float)r;
        rows_of_q[r][1] = (float)(10 * r);
        bias_of_q[r] = (float)(100 * r);
    }
    layer->w[FY_T_ATTN_Q] = (fy_matrix){rows_of_q, FY_F32, sizeof rows_of_q[0], N_ROWS, N_COLS, 0};
    layer->w[FY_T_ATTN_Q_B] = (fy_matrix){bias_of_q, FY_F32, sizeof bias_of_q, 1, N_ROWS, 0};
    layer->w[FY_T_ATTN_NORM_B] = (fy_matrix){norm_bias, FY_F32, sizeof norm_bias, 1, N_COLS, 0};
    return (fy_model){.hp = {.head_dim = 6, .n_rot = 4},
                      .chunk = {.first_layer = 3, .end_layer = 4},
                      .layers = layer};
}

static void test_values(void **state)
{
    (void)state;
    static const float order[] = {6, 8, 7, 9, 10, 11}; /* the second head by halves */
    fy_weights layer = {0};
    fy_err e = {0};
    float out[6 * N_COLS];
    const fy_model m = by_hand(&layer);
    fy_q_tensor t = {.class = FY_QC_WEIGHT,
                     .rank = 4,
                     .dims = {1, 1, N_COLS, 6},
                     .from = {.slot = FY_T_ATTN_Q,
                              .layer = 3,
                              .first = 6,
                              .n = 6,
                              .halves = true,
                              .scale = 0.5f,
                              .matrix = FY_T_COUNT,
                              .beta = FY_T_COUNT}};
    fy_qgraph_matrix(&m, &t, 1, 5, out); /* from the middle of the head on */
    for (size_t i = 1; i < 6; i++) {
        assert_float_equal(out[(i - 1) * N_COLS], order[i] / 2, 0);
        assert_float_equal(out[(i - 1) * N_COLS + 1], order[i] * 5, 0);
    }
    t = (fy_q_tensor){.class = FY_QC_BIAS, .rank = 1, .dims = {6}, .from = t.from};
    t.from.slot = FY_T_ATTN_Q_B;
    assert_int_equal(fy_qgraph_vector(&m, &t, out, &e), 0);
    for (size_t i = 0; i < 6; i++)
        assert_float_equal(out[i], order[i] * 50, 0);
    t.from.matrix = FY_T_ATTN_Q;
    t.from.beta = FY_T_ATTN_NORM_B;
    assert_int_equal(fy_qgraph_vector(&m, &t, out, &e), 0);
    for (size_t i = 0; i < 6; i++)
        assert_float_equal(out[i], order[i] * (100 + 1 + 5) / 2, 0);
    t.from.slot = FY_T_COUNT; /* the model has no bias */
    assert_int_equal(fy_qgraph_vector(&m, &t, out, &e), 0);
    for (size_t i = 0; i < 6; i++)
        assert_float_equal(out[i], order[i] * 3, 0);
    t = (fy_q_tensor){
        .class = FY_QC_CONST,
        .rank = 1,
        .dims = {1},
        .from = {.slot = FY_T_COUNT, .n = 1, .scale = 1, .value = 7, .beta = FY_T_COUNT}};
    assert_int_equal(fy_qgraph_vector(&m, &t, out, &e), 0);
    assert_float_equal(out[0], 7, 0);
}

static void test_a_hadamard_matrix_is_its_own_inverse(void **state)
{
    (void)state;
    enum { N = 8 };
    const fy_q_tensor t = {.class = FY_QC_WEIGHT,
                           .rank = 4,
                           .dims = {1, 1, N, N},
                           .from = {.slot = FY_T_COUNT, .n = N, .scale = 1, .hadamard = true}};
    const fy_model m = {0};
    float h[N][N];
    fy_qgraph_matrix(&m, &t, 0, N, &h[0][0]);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < N; k++) {
            float sum = 0;
            for (size_t j = 0; j < N; j++)
                sum += h[i][j] * h[j][k];
            assert_float_equal(h[i][k], h[k][i], 0);
            assert_float_equal(sum, i == k ? 1.0F : 0.0F, 1e-6);
        }
    }
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

/* Matrices in floats do not make a core of floats: the recipe says what the core is. */
static void test_the_recipe_says_the_core(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_qgraph g;
    const fy_family *f = fy_family_of_gguf(FY_SPAN("llama"), false);
    fy_hparams hp = small(f);
    const fy_chunk_info one = {.kind = FY_CHUNK_LAYERS, .first_layer = 0, .end_layer = 1};
    const fy_npu_recipe r = {.name = (char[]){"odd"}, .type = FY_NPU_FP16, .kv_bits = 8};
    const fy_qgraph_of of = of_family(f, &hp, &one, &r, 1);
    if (fy_qgraph_compose(&g, &of, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(g.core, FY_Q_U16);
    assert_int_equal(g.kv, FY_Q_U8);
    assert_int_equal(find(&g, "L0.attn_output")->type, FY_Q_F16);
    assert_int_equal(find(&g, "L0.mid")->type, FY_Q_U16);
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
    const fy_npu_recipe u8 = {
        .name = (char[]){"odd"}, .type = FY_NPU_FP16, .kv_bits = 8, .float_core = true};
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
    of.recipe = &recipes[0];
    of.n_cache = X;
    assert_int_equal(fy_qgraph_compose(&g, &of, &e), -1);
    assert_int_equal(e.code, FY_EARG);
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
        cmocka_unit_test(test_ranges_have_the_same_names_in_every_recipe),
        cmocka_unit_test(test_ranges_at_the_seams),
        cmocka_unit_test(test_an_input_is_converted_once),
        cmocka_unit_test(test_what_static_tensors_carry),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_a_hadamard_matrix_is_its_own_inverse),
        cmocka_unit_test(test_a_llama_layer_has_the_nodes_of_the_design),
        cmocka_unit_test(test_the_recipe_says_the_core),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
