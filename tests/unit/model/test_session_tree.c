#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"
#include "tests/unit/model/tiny_file.h"
#include "tests/unit/model/tree_fixture.h"

enum { V = TINY_V, CTX = TINY_CTX };

static void check_model(const fy_model *m, fy_session_params p, uint32_t n_past)
{
    fy_session *s = tiny_session(m, p), *alone = tiny_session(m, p);
    check_tree(s, alone, n_past);
    fy_session_free(alone);
    fy_session_free(s);
}

static void a_node_has_the_logits_of_its_own_sequence(void **state)
{
    (void)state;
    const fy_type types[] = {FY_F32, FY_F16, FY_Q8_0, FY_Q4_0};
    const uint32_t n_pasts[] = {1, 5, 50, 62, 63, 64, 65, 127, 130};
    for (int w = 0; w < 4; w++) {
        tiny_model t = tiny_default();
        t.type = types[w];
        fy_model *m = tiny_open(t);
        for (size_t i = 0; i < sizeof n_pasts / sizeof n_pasts[0]; i++)
            check_model(m,
                        (fy_session_params){.n_threads = 1 + (int)i % 3,
                                            .type_k = types[(w + i) % 4],
                                            .type_v = types[(w + i / 2) % 4]},
                        n_pasts[i]);
        fy_model_close(m);
    }
}

static void windows_and_other_heads_are_no_exception(void **state)
{
    (void)state;
    const uint32_t n_pasts[] = {2, 9, 61, 66, 140};
    for (int k = 0; k < 3; k++) {
        tiny_model t = k < 2 ? tiny_default() : tiny_of("gemma2", false);
        t.hp.n_head = k == 0 ? 8 : 4;
        t.hp.n_head_kv = k == 0 ? 1 : 4;
        t.hp.head_dim = t.hp.head_dim_v = t.hp.n_rot = 20;
        if (k == 2) {
            t.hp.n_swa = 6;
            t.hp.n_layer = 4;
        }
        fy_model *m = tiny_open(t);
        for (size_t i = 0; i < sizeof n_pasts / sizeof n_pasts[0]; i++)
            check_model(m, (fy_session_params){.n_threads = 2, .type_k = FY_F16, .type_v = FY_F32},
                        n_pasts[i]);
        fy_model_close(m);
    }
}

static void expect(fy_session *s, const fy_batch *b, fy_code code, const char *text)
{
    fy_err e = {0};
    assert_int_equal(fy_session_decode(s, b, NULL, NULL, &e), -1);
    assert_int_equal(e.code, code);
    if (strstr(e.msg, text) == NULL)
        fail_msg("'%s', expected '%s'", e.msg, text);
}

static void what_is_no_tree_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_model *m = tiny_open(tiny_default());
    fy_session *s = tiny_session(m, (fy_session_params){.n_seq = 2, .n_batch = 8});
    int32_t ids[CTX] = {1, 2, 3}, up[CTX] = {-1, 1, 0}, down[] = {-1, -2, 0},
            fine[CTX] = {-1, 0, 1};
    uint32_t seqs[] = {1, 0, 1};
    give_text(s, 4);
    expect(s, &(fy_batch){.ids = ids, .n = 3, .parents = up}, FY_EARG,
           "node 1 of a tree follows node 1");
    expect(s, &(fy_batch){.ids = ids, .n = 3, .parents = down}, FY_EARG, "follows node -2");
    expect(s, &(fy_batch){.ids = ids, .seqs = seqs, .n = 3, .parents = fine}, FY_EARG,
           "is of sequence 0");
    expect(s, &(fy_batch){.ids = ids, .n = 9, .parents = fine}, FY_EARG,
           "9 nodes of a tree, expected at most 8");
    seqs[0] = 2;
    expect(s, &(fy_batch){.ids = ids, .seqs = seqs, .n = 1, .parents = fine}, FY_EARG,
           "sequence 2");
    ids[0] = V;
    expect(s, &(fy_batch){.ids = ids, .n = 1, .parents = fine}, FY_EARG, "token id");
    ids[0] = 1;
    assert_int_equal(fy_session_n_past(s), 4);
    assert_int_equal(fy_session_tree_n(s), 0);

    const fy_batch b = {.ids = ids, .n = 3, .parents = fine};
    assert_int_equal(fy_session_decode(s, &b, NULL, NULL, &e), 0);
    seqs[0] = seqs[1] = seqs[2] = 1;
    expect(s, &(fy_batch){.ids = ids, .seqs = seqs, .n = 3, .parents = fine}, FY_EARG,
           "that of 0 is not finished");
    int32_t way[] = {0, 1, 2};
    assert_int_equal(fy_session_tree_keep(s, way + 1, 1, &e), -1); /* it follows node 0 */
    e = (fy_err){0};
    assert_int_equal(fy_session_tree_keep(s, (int32_t[]){3}, 1, &e), -1);
    assert_int_equal(fy_session_tree_n(s), 3);
    fy_session_rewind(s, 3);
    assert_int_equal(fy_session_tree_n(s), 0);

    give_text(s, CTX - 3);
    assert_int_equal(fy_session_decode(s, &b, NULL, NULL, &e), 0);
    expect(s, &(fy_batch){.ids = ids, .n = 1, .parents = fine}, FY_EFIT, "the context is full");
    fy_session_free(s);
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_has_the_logits_of_its_own_sequence),
        cmocka_unit_test(windows_and_other_heads_are_no_exception),
        cmocka_unit_test(what_is_no_tree_is_refused),
    };
    return cmocka_run_group_tests_name("session_tree", tests, tiny_make_path, tiny_remove_path);
}
