/* A tree of tokens after a text, and what it must be: every node as if its path were the text. */
#ifndef FY_TESTS_TREE_FIXTURE_H
#define FY_TESTS_TREE_FIXTURE_H

#include "model/model.h"

enum { TREE_V = 96, TREE_CTX = 256, TREE_N = 14 };

static int32_t text_id(uint32_t i)
{
    return (int32_t)((i * 37 + 11) % TREE_V);
}

static void give_text(fy_session *s, uint32_t n)
{
    fy_err e = {0};
    int32_t ids[TREE_CTX];
    for (uint32_t i = 0; i < n; i++)
        ids[i] = text_id(i);
    fy_session_rewind(s, 0);
    assert_int_equal(fy_session_eval(s, ids, n, NULL, NULL, &e), 0);
}

/* A tree with branches of several depths, and equal tokens at different places. */
static const int32_t tree_parents[TREE_N] = {-1, 0, 0, 1, 3, -1, 2, 2, 6, 5, 9, 4, 11, 12};

static int32_t node_id(int i)
{
    return (i * 29 + 5) % (TREE_V / 2);
}

static int path_to(int node, int32_t out[TREE_N])
{
    int n = 0;
    for (int i = node; i >= 0; i = tree_parents[i])
        n++;
    for (int i = node, k = n; i >= 0; i = tree_parents[i])
        out[--k] = i;
    return n;
}

static const float *decode_tree(fy_session *s, int first, int n)
{
    fy_err e = {0};
    const float *logits = NULL;
    int32_t ids[TREE_N];
    uint8_t wants[TREE_N];
    for (int i = 0; i < n; i++) {
        ids[i] = node_id(first + i);
        wants[i] = 1;
    }
    const fy_batch b = {
        .ids = ids, .wants = wants, .n = (uint32_t)n, .parents = tree_parents + first};
    if (fy_session_decode(s, &b, NULL, &logits, &e) != 0)
        fail_msg("%s", e.msg);
    return logits;
}

static void check_node(fy_session *alone, uint32_t n_past, int node, const float *got)
{
    fy_err e = {0};
    int32_t way[TREE_N], ids[TREE_N];
    const float *want;
    const int n = path_to(node, way);
    for (int i = 0; i < n; i++)
        ids[i] = node_id(way[i]);
    fy_session_rewind(alone, n_past);
    assert_int_equal(fy_session_eval(alone, ids, (uint32_t)n, NULL, &want, &e), 0);
    if (memcmp(want, got, TREE_V * sizeof *got) != 0)
        fail_msg("node %d after %u positions: other logits than alone", node, n_past);
}

/* After n_past tokens: every node, and every fourth path that is kept. alone: a session that
 * computes the same bits, one token after the other. */
static void check_tree(fy_session *s, fy_session *alone, uint32_t n_past)
{
    fy_err e = {0};
    static float all[TREE_N * TREE_V];
    int32_t way[TREE_N];
    const float *want, *got;
    give_text(alone, n_past);
    for (int split = 1; split <= TREE_N; split += TREE_N / 2) {
        give_text(s, n_past);
        memcpy(all, decode_tree(s, 0, split), (size_t)split * TREE_V * sizeof *all);
        if (split < TREE_N)
            memcpy(all + split * TREE_V, decode_tree(s, split, TREE_N - split),
                   (size_t)(TREE_N - split) * TREE_V * sizeof *all);
        assert_int_equal(fy_session_tree_n(s), TREE_N);
        assert_int_equal(fy_session_n_past(s), n_past);
        for (int i = 0; i < TREE_N; i++)
            check_node(alone, n_past, i, all + i * TREE_V);
    }
    const int32_t next = 7;
    for (int node = TREE_N - 1; node > 0; node -= 4) {
        give_text(s, n_past);
        decode_tree(s, 0, TREE_N);
        const int n = path_to(node, way);
        assert_int_equal(fy_session_tree_keep(s, way, (uint32_t)n, &e), 0);
        assert_int_equal(fy_session_n_past(s), n_past + (uint32_t)n);
        assert_int_equal(fy_session_tree_n(s), 0);
        assert_int_equal(fy_session_eval(s, &next, 1, NULL, &got, &e), 0);
        check_node(alone, n_past, node, all + node * TREE_V);
        assert_int_equal(fy_session_eval(alone, &next, 1, NULL, &want, &e), 0);
        assert_memory_equal(want, got, TREE_V * sizeof *got);
    }
}

#endif
