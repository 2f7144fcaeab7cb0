/* Trees of tokens on a model in chunks: the bits of the whole model, which computes each path as a
 * text of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/model/chain_fixture.h"
#include "tests/unit/model/tree_fixture.h"

static const uint32_t one_size[] = {16, 0}, sizes[] = {32, 8, 1, 0};

static void check_kind(chain_kind k, const chain_cut *cut, fy_type kv)
{
    const uint32_t n_pasts[] = {1, 5, 62, 63, 64, 66, 130};
    chain_write(&k);
    chain_write_chunks(cut);
    fy_model *whole = chain_open_whole(), *m = chain_open(cut, k.n_layer);
    const fy_session_params p = {.type_k = kv, .type_v = kv, .n_threads = 2};
    fy_session *s = chain_session(m, p);
    fy_session *alone = chain_session(
        whole, (fy_session_params){.n_ctx = cut->n_cache, .type_k = kv, .type_v = kv});
    for (size_t i = 0; i < sizeof n_pasts / sizeof n_pasts[0]; i++)
        check_tree(s, alone, n_pasts[i]);
    fy_session_free(s);
    fy_session_free(alone);
    fy_model_close(m);
    fy_model_close(whole);
}

static void a_node_has_the_logits_of_its_own_sequence(void **state)
{
    (void)state;
    const chain_cut cuts[] = {{one_size, 1, 1, 160}, {sizes, 2, 2, 160}};
    const fy_type types[] = {FY_F32, FY_F16, FY_Q8_0, FY_Q4_0};
    for (int t = 0; t < 4; t++) {
        for (int c = 0; c < 2; c++)
            check_kind((chain_kind){"llama", types[t], .n_layer = 2}, &cuts[c],
                       t % 2 == c ? FY_F16 : FY_F32);
    }
}

static void windows_are_no_exception(void **state)
{
    (void)state;
    const chain_cut cut = {sizes, 2, 1, 160};
    const char *const kinds[] = {"llama", "gemma2", "gemma3"};
    for (int k = 0; k < 3; k++) {
        check_kind((chain_kind){kinds[k], FY_F32, .n_layer = 4, .n_swa = 6, .two_norms = k > 0},
                   &cut, FY_F32);
        check_kind((chain_kind){kinds[k], FY_F32, .n_layer = 4, .n_swa = 20, .two_norms = k > 0},
                   &cut, FY_F16);
    }
}

/* What a tree leaves in masks and caches is nothing to the calls after it. */
static void a_tree_that_is_dropped_was_never_there(void **state)
{
    (void)state;
    const chain_cut cut = {sizes, 2, 1, 160};
    const chain_kind kind = {"llama", FY_F16, .n_layer = 2};
    fy_err e = {0};
    float want[CHAIN_V];
    const float *logits;
    chain_write(&kind);
    chain_write_chunks(&cut);
    fy_model *m = chain_open(&cut, 2);
    fy_session *s = chain_session(m, (fy_session_params){.type_k = FY_F16, .type_v = FY_F16});
    int32_t ids[40];
    for (int i = 0; i < 40; i++)
        ids[i] = text_id((uint32_t)i);
    assert_int_equal(fy_session_eval(s, ids, 40, NULL, &logits, &e), 0);
    memcpy(want, logits, sizeof want);
    for (uint32_t at = 10; at < 40; at += 7) {
        fy_session_rewind(s, at);
        decode_tree(s, 0, TREE_N);
        assert_int_equal(fy_session_eval(s, ids + at, 40 - at, NULL, &logits, &e), 0);
        assert_memory_equal(logits, want, sizeof want);
        decode_tree(s, 0, 3); /* the rows of a larger tree are still there */
        fy_session_rewind(s, 5);
        assert_int_equal(fy_session_eval(s, ids + 5, 35, NULL, &logits, &e), 0);
        assert_memory_equal(logits, want, sizeof want);
    }
    fy_session_free(s);
    fy_model_close(m);
}

/* The context ends in the middle of a tree, and the graphs are smaller than one. */
static void a_tree_needs_room(void **state)
{
    (void)state;
    const chain_cut cut = {one_size, 1, 1, 20};
    const chain_kind kind = {"llama", FY_F32, .n_layer = 2};
    static const int32_t root[20] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    fy_err e = {0};
    int32_t ids[20] = {0};
    chain_write(&kind);
    chain_write_chunks(&cut);
    fy_model *m = chain_open(&cut, 2);
    fy_session *s = chain_session(m, (fy_session_params){.type_k = FY_F32, .type_v = FY_F32});
    give_text(s, 3);
    assert_int_equal(
        fy_session_decode(s, &(fy_batch){.ids = ids, .n = 17, .parents = root}, NULL, NULL, &e),
        -1);
    assert_string_equal(e.msg, "17 nodes of a tree, expected at most 16");
    e = (fy_err){0};
    give_text(s, 10);
    decode_tree(s, 0, 7);
    assert_int_equal(
        fy_session_decode(s, &(fy_batch){.ids = ids, .n = 4, .parents = root}, NULL, NULL, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    e = (fy_err){0};
    decode_tree(s, 7, 3);
    assert_int_equal(fy_session_tree_n(s), 10);
    fy_session_free(s);
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_has_the_logits_of_its_own_sequence),
        cmocka_unit_test(windows_are_no_exception),
        cmocka_unit_test(a_tree_that_is_dropped_was_never_there),
        cmocka_unit_test(a_tree_needs_room),
    };
    return cmocka_run_group_tests_name("chain_tree", tests, chain_make_dir, chain_remove_dir);
}
