/* A model whose layers keep a state: the same logits however a text is cut, nothing lost when a
 * call fails, what cannot be kept is not, and snapshots and files bring back what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/math.h"
#include "cli/verb.h"
#include "model/prompt_cache.h"
#include "model/session.h"
#include "program/program.h"

enum { T = 37 };

static char path[64], cache_path[80];
static int32_t ids[T];
static uint32_t n_vocab;
static float *whole; /* logits after all of them, in one call */
static size_t whole_bytes;

static fy_model *model;

static fy_session *make_session(uint32_t n_seq, uint32_t n_batch, bool snapshots)
{
    fy_err e = {0};
    const fy_session_params p = {.n_ctx = 64,
                                 .n_seq = n_seq,
                                 .n_batch = n_batch,
                                 .n_threads = 2,
                                 .snapshots = snapshots,
                                 .type_k = FY_F32,
                                 .type_v = FY_F32};
    fy_session *s = fy_session_new(model, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

static fy_session *new_session(uint32_t n_seq, uint32_t n_batch)
{
    return make_session(n_seq, n_batch, false);
}

/* As eval, of another sequence. */
static const float *give(fy_session *s, uint32_t seq, uint32_t from, uint32_t n)
{
    fy_err e = {0};
    const float *last = NULL;
    uint32_t seqs[T];
    for (uint32_t i = 0; i < n; i++)
        seqs[i] = seq;
    const fy_batch b = {.ids = ids + from, .seqs = seqs, .n = n};
    if (fy_session_decode(s, &b, NULL, &last, &e) != 0)
        fail_msg("%s", e.msg);
    return last;
}

static const float *eval(fy_session *s, uint32_t from, uint32_t n)
{
    fy_err e = {0};
    const float *last = NULL;
    if (fy_session_eval(s, ids + from, n, NULL, &last, &e) != 0)
        fail_msg("%s", e.msg);
    return last;
}

static const char *family;

static int set_up(void **state)
{
    (void)state;
    const fy_verb *convert = fy_verb_find("convert");
    char source[64], type[] = "--outtype=f32", quiet[] = "-q", out[] = "-o";
    char *args[] = {source, type, quiet, out, path};
    int n_args;
    bool help;
    fy_err e = {0};
    snprintf(source, sizeof source, "tests/data/%s", family);
    snprintf(path, sizeof path, "/tmp/ferry-states-XXXXXX");
    const int fd = mkstemp(path);
    void *o = calloc(1, convert->opts_bytes);
    if (fd < 0 || close(fd) != 0 || o == NULL ||
        fy_opts_parse(convert->opts, convert->n_opts, o, 5, args, &n_args, &help, &e) != 0 ||
        convert->run(o, n_args, args, &e) != 0)
        return -1;
    free(o);
    snprintf(cache_path, sizeof cache_path, "%s.cache", path);
    model = fy_model_open(path, &e);
    if (model == NULL)
        return -1;
    n_vocab = fy_model_hparams(model)->n_vocab;
    for (int i = 0; i < T; i++)
        ids[i] = (int32_t)((uint32_t)(i * 37 + 11) % n_vocab);
    whole_bytes = n_vocab * sizeof *whole;
    whole = malloc(whole_bytes);
    if (whole == NULL)
        return -1;
    fy_session *s = new_session(1, 64);
    memcpy(whole, eval(s, 0, T), whole_bytes);
    fy_session_free(s);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fy_model_close(model);
    free(whole);
    unlink(cache_path);
    return unlink(path);
}

static void a_text_may_be_cut_anywhere(void **state)
{
    static const uint32_t pieces[] = {1, 2, 7, 36}, batches[] = {1, 2, 5, 64};
    (void)state;
    for (int i = 0; i < 4; i++) {
        for (int b = 0; b < 4; b++) {
            fy_session *s = new_session(1, batches[b]);
            const float *last = NULL;
            for (uint32_t at = 0; at < T; at += pieces[i])
                last = eval(s, at, at + pieces[i] < T ? pieces[i] : T - at);
            assert_memory_equal(last, whole, whole_bytes);
            fy_session_free(s);
        }
    }
}

/* Stops the n-th time that it is called. */
static int stop_at(void *user, uint32_t layer, const float *x, uint32_t first, uint32_t n,
                   fy_err *e)
{
    (void)layer;
    (void)x;
    (void)first;
    (void)n;
    return --*(int *)user > 0 ? 0 : fy_fail(e, FY_EINTR, "stopped");
}

static void a_call_that_fails_changes_nothing(void **state)
{
    (void)state;
    const int places = (int)fy_model_hparams(model)->n_layer + 1; /* of each of three steps */
    for (int when = 1; when <= 3 * places; when++) {
        fy_session *s = new_session(1, 4);
        fy_err e = {0};
        int left = when;
        const fy_eval_sinks sinks = {.hidden = stop_at, .user = &left};
        eval(s, 0, 9);
        assert_int_equal(fy_session_eval(s, ids + 9, 11, &sinks, NULL, &e), -1);
        assert_int_equal(fy_session_n_past(s), 9);
        assert_memory_equal(eval(s, 9, T - 9), whole, whole_bytes);
        fy_session_free(s);
    }
}

static void a_step_back_keeps_all_or_nothing(void **state)
{
    (void)state;
    fy_session *s = new_session(1, 64);
    eval(s, 0, 20);
    assert_int_equal(fy_session_seq_keeps(s, 0, 30), 20);
    assert_int_equal(fy_session_seq_keeps(s, 0, 19), 0);
    fy_session_rewind(s, 20);
    assert_int_equal(fy_session_n_past(s), 20);
    fy_session_rewind(s, 19);
    assert_int_equal(fy_session_n_past(s), 0);
    assert_memory_equal(eval(s, 0, T), whole, whole_bytes);
    fy_session_free(s);
}

static void the_last_call_can_be_taken_back(void **state)
{
    (void)state;
    for (uint32_t batch = 2; batch <= 64; batch *= 4) { /* steps of a call */
        fy_session *s = new_session(1, batch);
        eval(s, 0, 12);
        eval(s, 30, 7); /* a wrong way */
        assert_int_equal(fy_session_seq_keeps(s, 0, 15), 12);
        assert_int_equal(fy_session_seq_keeps(s, 0, 11), 0);
        fy_session_rewind(s, 15);
        assert_int_equal(fy_session_n_past(s), 12);
        assert_int_equal(fy_session_seq_keeps(s, 0, 11), 0); /* once */
        eval(s, 12, 3);
        fy_session_rewind(s, 12);
        assert_memory_equal(eval(s, 12, T - 12), whole, whole_bytes);
        fy_session_free(s);
    }
}

static void a_call_that_failed_leaves_nothing_to_take_back(void **state)
{
    (void)state;
    fy_session *s = new_session(1, 64);
    fy_err e = {0};
    int left = 3;
    const fy_eval_sinks sinks = {.hidden = stop_at, .user = &left};
    eval(s, 0, 12);
    eval(s, 12, 4);
    assert_int_equal(fy_session_eval(s, ids + 16, 4, &sinks, NULL, &e), -1);
    assert_int_equal(fy_session_seq_keeps(s, 0, 13), 0);
    assert_memory_equal(eval(s, 16, T - 16), whole, whole_bytes);
    fy_session_free(s);
}

static void a_sequence_is_copied_whole(void **state)
{
    (void)state;
    fy_session *s = new_session(3, 64);
    fy_err e = {0};
    const float *logits;
    eval(s, 0, 20);
    assert_int_equal(fy_session_seq_copy(s, 0, 2, 19, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_int_equal(fy_session_seq_n_past(s, 2), 0);
    assert_int_equal(fy_session_seq_copy(s, 0, 2, 20, &e), 0);
    eval(s, 20, 3); /* the first goes on alone */
    uint32_t seqs[T - 20];
    for (int i = 0; i < T - 20; i++)
        seqs[i] = 2;
    const fy_batch b = {.ids = ids + 20, .seqs = seqs, .n = T - 20};
    assert_int_equal(fy_session_decode(s, &b, NULL, &logits, &e), 0);
    assert_memory_equal(logits, whole, whole_bytes);
    assert_memory_equal(eval(s, 23, T - 23), whole, whole_bytes);
    assert_int_equal(fy_session_seq_copy(s, 0, 1, 0, &e), 0); /* nothing is always there */
    fy_session_free(s);
}

/* --- snapshots --- */

static void a_sequence_goes_back_to_a_snapshot(void **state)
{
    (void)state;
    fy_session *s = make_session(2, 5, true);
    assert_true(fy_session_has_snapshots(s));
    fy_session_seq_snapshot(s, 1); /* of nothing: none */
    assert_int_equal(fy_session_seq_keeps(s, 1, 0), 0);
    give(s, 1, 0, 9);
    fy_session_seq_snapshot(s, 1);
    give(s, 1, 9, 11);
    fy_session_seq_snapshot(s, 1);
    fy_session_seq_snapshot(s, 1); /* again: the same */
    give(s, 1, 20, 4);
    give(s, 1, 3, 4); /* a wrong way */
    assert_int_equal(fy_session_seq_keeps(s, 1, 25), 24); /* the last call */
    assert_int_equal(fy_session_seq_keeps(s, 1, 23), 20);
    assert_int_equal(fy_session_seq_keeps(s, 1, 19), 9);
    assert_int_equal(fy_session_seq_keeps(s, 1, 8), 0);
    assert_int_equal(fy_session_seq_keeps(s, 0, 8), 0);
    fy_session_seq_rewind(s, 1, 22);
    assert_int_equal(fy_session_seq_n_past(s, 1), 20);
    assert_memory_equal(give(s, 1, 20, T - 20), whole, whole_bytes);
    fy_session_seq_rewind(s, 1, 20); /* as often as wanted */
    assert_memory_equal(give(s, 1, 20, T - 20), whole, whole_bytes);
    fy_session_seq_rewind(s, 1, 10);
    assert_int_equal(fy_session_seq_n_past(s, 1), 9);
    give(s, 1, 0, 15); /* another text: the later snapshot is not of it */
    assert_int_equal(fy_session_seq_keeps(s, 1, 23), 9);
    fy_session_seq_rewind(s, 1, 9);
    assert_memory_equal(give(s, 1, 9, T - 9), whole, whole_bytes);
    fy_session_seq_rewind(s, 1, 0);
    assert_memory_equal(give(s, 1, 0, T), whole, whole_bytes);
    assert_int_equal(fy_session_seq_keeps(s, 1, 30), 0); /* nothing is left of it */
    fy_session_free(s);
}

static void a_copy_may_end_at_a_snapshot(void **state)
{
    (void)state;
    fy_session *s = make_session(3, 64, true);
    fy_err e = {0};
    eval(s, 0, 12);
    fy_session_seq_snapshot(s, 0);
    eval(s, 12, 8);
    eval(s, 1, 3);
    assert_int_equal(fy_session_seq_copy(s, 0, 1, 11, &e), -1);
    assert_non_null(strstr(e.msg, "can go back to 0"));
    assert_int_equal(fy_session_seq_copy(s, 0, 1, 12, &e), 0);
    assert_int_equal(fy_session_seq_copy(s, 0, 2, 20, &e), 0); /* before the last call */
    assert_memory_equal(give(s, 1, 12, T - 12), whole, whole_bytes);
    assert_memory_equal(give(s, 2, 20, T - 20), whole, whole_bytes);
    fy_session_rewind(s, 20);
    assert_memory_equal(eval(s, 20, T - 20), whole, whole_bytes);
    fy_session_free(s);
}

/* However many are asked for: the last one stays, and the others lie apart. */
static void their_number_is_bounded(void **state)
{
    (void)state;
    fy_session *s = make_session(1, 64, true);
    const uint32_t most = s->snapshots.most;
    uint32_t n = 0, last = 0, kept[64];
    assert_in_range(most, 2, 32);
    s->snapshots.most = 4;
    for (uint32_t i = 0; i < 30; i++) {
        eval(s, i, 1);
        fy_session_seq_snapshot(s, 0);
    }
    for (uint32_t i = 29; i > 0; i = last > 0 ? last - 1 : 0) {
        last = fy_session_seq_keeps(s, 0, i);
        kept[n++] = last;
    }
    assert_in_range(n, 4, 5); /* one is at the end, and nothing is always there */
    assert_true(kept[0] == 29 && kept[n - 1] == 0);
    for (uint32_t i = 0; i + 1 < n; i++) /* and what they say is there */
        assert_true(kept[i] > kept[i + 1]);
    fy_session_rewind(s, kept[2]);
    assert_memory_equal(eval(s, kept[2], T - kept[2]), whole, whole_bytes);
    fy_session_free(s);
}

static void a_call_that_fails_leaves_snapshots(void **state)
{
    (void)state;
    fy_session *s = make_session(1, 64, true);
    fy_err e = {0};
    int left = 3;
    const fy_eval_sinks sinks = {.hidden = stop_at, .user = &left};
    eval(s, 0, 12);
    fy_session_seq_snapshot(s, 0);
    eval(s, 12, 4);
    assert_int_equal(fy_session_eval(s, ids + 16, 4, &sinks, NULL, &e), -1);
    assert_int_equal(fy_session_n_past(s), 16);
    fy_session_rewind(s, 15);
    assert_int_equal(fy_session_n_past(s), 12);
    assert_memory_equal(eval(s, 12, T - 12), whole, whole_bytes);
    fy_session_free(s);
}

/* --- what is saved --- */

static void bytes_of_a_sequence_make_another(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_session *a = make_session(2, 64, true), *b = make_session(3, 5, true);
    give(a, 1, 0, 12);
    fy_session_seq_snapshot(a, 1);
    give(a, 1, 12, 8);
    const uint64_t n = fy_session_seq_bytes(a, 1, 0, 20);
    uint8_t *bytes = malloc(n), *part = malloc(fy_session_seq_bytes(a, 1, 0, 12)),
            *rest = malloc(fy_session_seq_bytes(a, 1, 12, 20));
    assert_int_equal(fy_session_seq_read(a, 1, 0, 20, bytes, &e), 0);
    assert_int_equal(fy_session_seq_read(a, 1, 0, 12, part, &e), 0);
    assert_int_equal(fy_session_seq_read(a, 1, 12, 20, rest, &e), 0);
    assert_int_equal(fy_session_seq_read(a, 1, 0, 13, bytes, &e), -1);
    assert_non_null(strstr(e.msg, "can go back to 12"));
    assert_int_equal(fy_session_seq_read(a, 1, 0, 20, bytes, &e), 0);
    assert_int_equal(fy_session_saved_keeps(b, 20, bytes, 20), 20);
    assert_int_equal(fy_session_saved_keeps(b, 20, bytes, 19), 12);
    assert_int_equal(fy_session_saved_keeps(b, 20, bytes, 11), 0);
    give(b, 2, 5, 7);
    assert_int_equal(fy_session_seq_write(b, 2, 0, 20, bytes, &e), 0);
    assert_int_equal(fy_session_seq_keeps(b, 2, 19), 12);
    assert_memory_equal(give(b, 2, 20, T - 20), whole, whole_bytes);
    fy_session_seq_rewind(b, 2, 12);
    assert_memory_equal(give(b, 2, 12, T - 12), whole, whole_bytes);
    assert_int_equal(fy_session_seq_write(b, 0, 0, 12, part, &e), 0);
    assert_int_equal(fy_session_seq_write(b, 0, 12, 20, rest, &e), 0);
    assert_memory_equal(give(b, 0, 20, T - 20), whole, whole_bytes);
    free(bytes);
    free(part);
    free(rest);
    fy_session_free(a);
    fy_session_free(b);
}

static void save(fy_session *s, uint32_t n)
{
    fy_err e = {0};
    if (fy_prompt_cache_write(cache_path, s, 0, ids, n, &e) != 0)
        fail_msg("%s", e.msg);
}

static void a_file_goes_on_to_the_same_bits(void **state)
{
    static const uint32_t asked[] = {20, 19, 12, 11}, got[] = {20, 12, 12, 0};
    (void)state;
    fy_err e = {0};
    fy_session *a = make_session(1, 64, true);
    eval(a, 0, 12);
    fy_session_seq_snapshot(a, 0);
    eval(a, 12, 8);
    assert_int_equal(fy_prompt_cache_write(cache_path, a, 0, ids, 19, &e), -1); /* a state of 20 */
    save(a, 20);
    fy_session_free(a);
    for (int with = 0; with < 2; with++) {
        for (int i = 0; i < 4; i++) {
            fy_session *s = make_session(3, 5, with);
            fy_prompt_cache *c = fy_prompt_cache_open(cache_path, s, &e);
            if (c == NULL)
                fail_msg("%s", e.msg);
            give(s, 1, 7, 9);
            assert_int_equal(fy_prompt_cache_load(c, s, 1, asked[i], &e), 0);
            fy_prompt_cache_close(c);
            assert_int_equal(fy_session_seq_n_past(s, 1), got[i]);
            if (i == 0)
                assert_int_equal(fy_session_seq_keeps(s, 1, 19), with ? 12 : 0);
            assert_memory_equal(give(s, 1, got[i], T - got[i]), whole, whole_bytes);
            fy_session_free(s);
        }
    }
}

static uint8_t *read_cache(size_t *n)
{
    fy_map map;
    assert_int_equal(fy_map_open(&map, cache_path, NULL), 0);
    uint8_t *p = malloc(map.size);
    memcpy(p, map.data, *n = map.size);
    fy_map_close(&map);
    return p;
}

/* Is the file refused, with a hash that is right, and these words? */
static void refused(uint8_t *p, size_t n, const fy_session *s, const char *words)
{
    fy_err e = {0};
    assert_int_equal(fy_sha256_of(p, n - FY_SHA256_BYTES, p + n - FY_SHA256_BYTES, NULL), 0);
    fy_prompt_cache *c = fy_prompt_cache_parse(p, n, NULL, &e);
    if (c != NULL && fy_prompt_cache_check(c, s, &e) == 0)
        fail_msg("taken: %s", words);
    assert_int_equal(e.code, FY_EFORMAT);
    if (strstr(e.msg, words) == NULL)
        fail_msg("%s: %s", words, e.msg);
    fy_prompt_cache_close(c);
}

static void what_a_model_cannot_have_is_refused(void **state)
{
    enum { HEAD = 96, BLOCK = 32, TOKENS = 20 };
    (void)state;
    size_t n, at = HEAD + 4 * TOKENS, last = 0;
    uint32_t n_states = 0;
    fy_session *s = new_session(1, 64);
    eval(s, 0, TOKENS);
    save(s, TOKENS);
    uint8_t *p = read_cache(&n), *q = malloc(n);
    for (uint32_t i = 0; i < fy_le32(p + 84); i++) { /* the last state */
        if (fy_le32(p + at) == 3) {
            last = at;
            n_states++;
        }
        at += BLOCK + ((fy_le64(p + at + 16) + 7) & ~(uint64_t)7);
    }
    assert_int_equal(n_states, fy_layers_count(&s->states.layers));
    assert_int_equal(at, n - FY_SHA256_BYTES);
    memcpy(q, p, n);
    q[last + 16] ^= 8; /* another length */
    refused(q, n, s, "");
    memcpy(q, p, n);
    q[last + 8] = 1; /* a state has no first position */
    refused(q, n, s, "positions 1 to 20");
    memcpy(q, p, n);
    q[last + 12] = 19; /* of another position */
    refused(q, n, s, "");
    memcpy(q, p, n);
    q[last + 4] ^= 64; /* of no layer */
    refused(q, n, s, "of layer");
    /* without the last block, which the head does not count either */
    const size_t less = BLOCK + ((fy_le64(p + last + 16) + 7) & ~(uint64_t)7), m = n - less;
    memcpy(q, p, last);
    memcpy(q + last, p + last + less, n - last - less);
    q[84]--;
    memcpy(q + 88, &m, sizeof m);
    refused(q, m, s, "do not hold what the");
    fy_session_free(s);
    free(p);
    free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_may_be_cut_anywhere),
        cmocka_unit_test(a_call_that_fails_changes_nothing),
        cmocka_unit_test(a_step_back_keeps_all_or_nothing),
        cmocka_unit_test(the_last_call_can_be_taken_back),
        cmocka_unit_test(a_call_that_failed_leaves_nothing_to_take_back),
        cmocka_unit_test(a_sequence_is_copied_whole),
        cmocka_unit_test(a_sequence_goes_back_to_a_snapshot),
        cmocka_unit_test(a_copy_may_end_at_a_snapshot),
        cmocka_unit_test(their_number_is_bounded),
        cmocka_unit_test(a_call_that_fails_leaves_snapshots),
        cmocka_unit_test(bytes_of_a_sequence_make_another),
        cmocka_unit_test(a_file_goes_on_to_the_same_bits),
        cmocka_unit_test(what_a_model_cannot_have_is_refused),
    };
    fy_program_set(&fy_ferry);
    static const char *const families[] = {
        "families/lfm2",   "families/granite4", "families/falcon-h1", "families/nemotron-h",
        "families/qwen35", "families/lfm3",     "rwkv/v6",            "rwkv/v7"};
    int failed = 0;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        family = families[i];
        failed += cmocka_run_group_tests_name(family, tests, set_up, tear_down);
    }
    return failed;
}
