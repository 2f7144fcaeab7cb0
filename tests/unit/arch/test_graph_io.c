#include "arch/graph_io.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1024.0 * 1024.0)

static fy_graph_shape shape(const fy_hparams *hp, const fy_chunk_info *p)
{
    return (fy_graph_shape){
        .hp = hp, .chunk = p, .n_batch = 128, .n_cache = 1920, .n_ctx = 2048, .kv_bytes = 2};
}

static fy_hparams model(uint32_t n_embd, uint32_t n_layer, uint32_t n_head_kv, uint32_t head_dim,
                        uint32_t n_vocab)
{
    return (fy_hparams){.n_embd = n_embd,
                        .n_layer = n_layer,
                        .n_head_kv = n_head_kv,
                        .head_dim = head_dim,
                        .head_dim_v = head_dim,
                        .n_rot = head_dim,
                        .n_vocab = n_vocab};
}

/* What the published packages of PowerServe's converter take for their largest graph. */
static void published_packages_have_these_buffers(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_embd, n_layer, n_head_kv, head_dim, n_vocab, n_chunks;
        double chunk_mib, head_mib; /* head 0: not known */
    } published[] = {
        {2048, 16, 8, 64, 128256, 1, 66.5, 0},     /* Llama 3.2 1B */
        {4096, 32, 8, 128, 128256, 4, 68.6, 64.6}, /* Llama 3.1 8B */
        {2048, 36, 2, 128, 151936, 2, 38.6, 0},    /* SmallThinker 3B */
        {896, 24, 2, 64, 151936, 1, 25.4, 0},      /* SmallThinker 0.5B */
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        const fy_hparams hp =
            model(published[i].n_embd, published[i].n_layer, published[i].n_head_kv,
                  published[i].head_dim, published[i].n_vocab);
        const fy_chunk_info chunk = {.kind = FY_CHUNK_LAYERS,
                                     .end_layer = published[i].n_layer / published[i].n_chunks};
        const fy_chunk_info head = {.kind = FY_CHUNK_HEAD, .end_token = published[i].n_vocab};
        const fy_graph_shape c = shape(&hp, &chunk), h = shape(&hp, &head);
        uint64_t bytes;
        assert_true(fy_graph_io_bytes(&c, &bytes));
        assert_true(fabs((double)bytes / MIB - published[i].chunk_mib) < 0.06);
        assert_int_equal(fy_graph_n_io(&c), 5 + 4 * chunk.end_layer * hp.n_head_kv);
        assert_true(fy_graph_io_bytes(&h, &bytes));
        if (published[i].head_mib != 0)
            assert_true(fabs((double)bytes / MIB - published[i].head_mib) < 0.06);
    }
}

static void expect(const fy_graph_shape *g, uint32_t i, const char *name, uint64_t rows,
                   uint64_t cols, uint32_t element_bytes)
{
    fy_io_tensor t;
    assert_true(i < fy_graph_n_io(g));
    fy_graph_io(g, i, &t);
    assert_string_equal(t.name, name);
    assert_int_equal(t.rows, rows);
    assert_int_equal(t.cols, cols);
    assert_int_equal(t.element_bytes, element_bytes);
}

static void a_chunk_has_its_tensors_in_order(void **state)
{
    (void)state;
    fy_hparams hp = model(64, 4, 2, 16, 352);
    hp.head_dim_v = 8;
    const fy_chunk_info p = {.kind = FY_CHUNK_LAYERS, .first_layer = 2, .end_layer = 4};
    const fy_graph_shape g = shape(&hp, &p);
    assert_int_equal(fy_graph_n_io(&g), 5 + 4 * 4);
    expect(&g, 0, "x", 128, 64, 4);
    expect(&g, 1, "attn_bias", 128, 2048, 2);
    expect(&g, 2, "rope_embed_cos", 128, 8, 4);
    expect(&g, 3, "rope_embed_sin", 128, 8, 4);
    expect(&g, 4, "layer_2_key_t_cache_0", 16, 1920, 2);
    expect(&g, 5, "layer_2_value_cache_0", 1920, 8, 2);
    expect(&g, 7, "layer_2_value_cache_1", 1920, 8, 2);
    expect(&g, 8, "layer_3_key_t_cache_0", 16, 1920, 2);
    expect(&g, 12, "out", 128, 64, 4);
    expect(&g, 13, "layer_2_key_0", 128, 16, 2);
    expect(&g, 14, "layer_2_value_0", 128, 8, 2);
    expect(&g, 20, "layer_3_value_1", 128, 8, 2);
}

/* RWKV: no mask, table or cache. */
static void layers_with_states_have_three_parts_each(void **state)
{
    (void)state;
    fy_hparams hp = model(64, 4, 4, 16, 352);
    hp.wkv_head = 16;
    hp.n_rot = 0;
    hp.n_rank_iclr = hp.n_rank_decay = 8;
    fy_chunk_info p = {.kind = FY_CHUNK_LAYERS, .first_layer = 2, .end_layer = 4};
    fy_graph_shape g = shape(&hp, &p);
    g.n_batch = 16;
    assert_int_equal(fy_graph_n_io(&g), 4 + 6 + 1 + 6);
    expect(&g, 0, "x", 16, 64, 4);
    expect(&g, 1, "v_first_in", 16, 64, 4);
    expect(&g, 2, "token_mask", 16, 1, 4);
    expect(&g, 3, "token_last", 1, 16, 4);
    expect(&g, 4, "state6_in", 1, 64, 2);
    expect(&g, 5, "state7_in", 64, 16, 2);
    expect(&g, 6, "state8_in", 1, 64, 2);
    expect(&g, 9, "state11_in", 1, 64, 2);
    expect(&g, 10, "out", 16, 64, 4);
    expect(&g, 11, "state6_out", 1, 64, 2);
    expect(&g, 16, "state11_out", 1, 64, 2);
    p.first_layer = 0; /* the first chunk of several, for one token */
    p.end_layer = 2;
    g.n_batch = 1;
    expect(&g, 1, "state0_in", 1, 64, 2);
    expect(&g, 8, "v_first_out", 1, 64, 4);
    p.end_layer = 4; /* all layers: nobody else wants the values of the first one */
    expect(&g, 13, "out", 1, 64, 4);
    expect(&g, 14, "state0_out", 1, 64, 2);
    p.first_layer = 2;
    hp.n_rank_iclr = 0; /* version 6 */
    expect(&g, 1, "state6_in", 1, 64, 2);
    hp.n_rank_decay = 0; /* version 5 */
    expect(&g, 1, "token_mask", 1, 1, 4);
    expect(&g, 2, "state6_in", 1, 64, 2);
    const fy_chunk_info head = {.kind = FY_CHUNK_HEAD, .end_token = 352};
    g.chunk = &head;
    assert_int_equal(fy_graph_n_io(&g), 2);
}

static void windows_have_a_mask_and_a_rotation_of_their_own(void **state)
{
    (void)state;
    fy_hparams hp = model(64, 4, 1, 16, 352);
    hp.n_swa = 32;
    hp.rope_theta_swa = 10000;
    fy_layer_put(&hp.full_layers, 3, true);
    fy_chunk_info p = {.kind = FY_CHUNK_LAYERS, .first_layer = 2, .end_layer = 4};
    fy_graph_shape g = shape(&hp, &p);
    expect(&g, 1, "attn_bias", 128, 2048, 2);
    expect(&g, 2, "attn_bias_swa", 128, 2048, 2);
    expect(&g, 5, "rope_embed_cos_swa", 128, 8, 4);
    p.end_layer = 3; /* windows alone */
    expect(&g, 1, "attn_bias_swa", 128, 2048, 2);
    expect(&g, 2, "rope_embed_cos_swa", 128, 8, 4);
    hp.rope_theta_swa = 0;
    expect(&g, 2, "rope_embed_cos", 128, 8, 4);
    fy_layer_put(&hp.nope_layers, 2, true);
    expect(&g, 2, "layer_2_key_t_cache_0", 16, 1920, 2);
    assert_true(fy_layer_has_window(&hp, 2) && !fy_layer_has_window(&hp, 3));
    assert_true(!fy_layer_rotates(&hp, 2) && fy_layer_rotates(&hp, 3));
}

static void a_head_has_the_logits_of_its_slice(void **state)
{
    (void)state;
    const fy_hparams hp = model(64, 4, 2, 16, 352);
    const fy_chunk_info p = {.kind = FY_CHUNK_HEAD, .first_token = 100, .end_token = 352};
    const fy_graph_shape g = shape(&hp, &p);
    assert_int_equal(fy_graph_n_io(&g), 2);
    expect(&g, 0, "x", 128, 64, 4);
    expect(&g, 1, "logits", 128, 252, 4);
}

/* The sum is not taken tensor by tensor: there may be millions of heads. */
static void the_bytes_are_those_of_all_tensors(void **state)
{
    (void)state;
    fy_hparams hp = model(64, 5, 3, 16, 352);
    hp.head_dim_v = 8;
    hp.n_swa = 32;
    hp.rope_theta_swa = 10000;
    fy_layer_put(&hp.full_layers, 3, true);
    for (uint32_t end = 1; end <= 5; end++) {
        const fy_chunk_info p = {.kind = FY_CHUNK_LAYERS, .end_layer = end};
        const fy_graph_shape g = shape(&hp, &p);
        uint64_t bytes, sum = 0, cache = 0;
        fy_graph_bytes count;
        for (uint32_t i = 0; i < fy_graph_n_io(&g); i++) {
            fy_io_tensor t;
            fy_graph_io(&g, i, &t);
            sum += t.rows * t.cols * t.element_bytes;
            if (t.role == FY_IO_KEY_CACHE || t.role == FY_IO_VALUE_CACHE)
                cache += t.rows * t.cols * t.element_bytes;
        }
        assert_true(fy_graph_io_bytes(&g, &bytes) && fy_graph_count(&g, &count));
        assert_int_equal(bytes, sum);
        assert_int_equal(end * count.layer_cache, cache);
    }
    hp.n_head_kv = INT32_MAX;
    const fy_chunk_info whole = {.kind = FY_CHUNK_LAYERS, .end_layer = 1000};
    const fy_graph_shape g = shape(&hp, &whole);
    uint64_t bytes;
    assert_true(fy_graph_io_bytes(&g, &bytes));
    assert_true(bytes > (uint64_t)1000 * INT32_MAX * (16 + 8) * 2 * 2048);
}

static void more_bytes_than_there_are_numbers_for_are_said(void **state)
{
    (void)state;
    fy_hparams hp = model(UINT32_MAX, 1, 1, UINT32_MAX, 1);
    const fy_chunk_info p = {.kind = FY_CHUNK_LAYERS, .end_layer = 1};
    fy_graph_shape g = shape(&hp, &p);
    uint64_t bytes;
    g.n_cache = UINT32_MAX;
    g.kv_bytes = 4;
    assert_false(fy_graph_io_bytes(&g, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_packages_have_these_buffers),
        cmocka_unit_test(a_chunk_has_its_tensors_in_order),
        cmocka_unit_test(layers_with_states_have_three_parts_each),
        cmocka_unit_test(windows_have_a_mask_and_a_rotation_of_their_own),
        cmocka_unit_test(a_head_has_the_logits_of_its_slice),
        cmocka_unit_test(the_bytes_are_those_of_all_tensors),
        cmocka_unit_test(more_bytes_than_there_are_numbers_for_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
