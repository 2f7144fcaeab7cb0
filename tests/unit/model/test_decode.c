/* Several sequences in one session: what each of them computes is compared, bit for bit, with what
 * it computes alone. SEED=N in the environment repeats a schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "model/model.h"
#include "tests/unit/model/tiny_model.h"

enum { S = 5, T = 40, V = 96, SHARED = 13, MOST = 70 };

static char path[64];
static int32_t text[S][T]; /* the first SHARED tokens are the same */
static float alone[S][T * V];
static uint64_t seed = 1;

static int make_path(void **state)
{
    (void)state;
    for (int s = 0; s < S; s++) {
        for (int i = 0; i < T; i++)
            text[s][i] = (i * 37 + 11 + (i < SHARED ? 0 : s * (i + 5))) % V;
    }
    if (getenv("SEED") != NULL)
        seed = strtoull(getenv("SEED"), NULL, 10);
    snprintf(path, sizeof path, "/tmp/ferry-decode-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* --- models and sessions -------------------------------------------------------------------- */

static fy_model *open_model(tiny_model t)
{
    fy_err e = {0};
    if (tiny_write(&t, path, &e) != 0)
        fail_msg("%s", e.msg);
    fy_model *m = fy_model_open(path, &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    return m;
}

static fy_session *new_session(const fy_model *m, fy_session_params p)
{
    fy_err e = {0};
    fy_session *s = fy_session_new(m, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

static int keep(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)e;
    memcpy((float *)user + first * V, logits, n * V * sizeof(float));
    return 0;
}

/* Token by token on one thread, in a session of its own. */
static void compute_alone(const fy_model *m, fy_type kv)
{
    for (int s = 0; s < S; s++) {
        fy_session *one = new_session(
            m, (fy_session_params){
                   .n_ctx = T, .n_batch = 1, .n_threads = 1, .type_k = kv, .type_v = kv});
        fy_err e = {0};
        fy_eval_sinks sinks = {.logits = keep, .user = alone[s]};
        assert_int_equal(fy_session_eval(one, text[s], T, &sinks, NULL, &e), 0);
        fy_session_free(one);
    }
}

/* --- schedules ------------------------------------------------------------------------------ */

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

typedef struct {
    int32_t ids[MOST];
    uint32_t seqs[MOST];
    uint8_t wants[MOST];
    uint32_t pos[MOST];
    uint32_t n, n_wanted;
} call;

/* Tokens of sequences that have room, in runs of any length; some of them ask for logits. */
static void make_call(const fy_session *s, call *c)
{
    uint32_t at[S], seq = below(S);
    const uint32_t most = 1 + below(below(3) == 0 ? MOST : 9);
    for (uint32_t i = 0; i < S; i++)
        at[i] = fy_session_seq_n_past(s, i);
    c->n = c->n_wanted = 0;
    for (int tries = 0; c->n < most && tries < 4 * MOST; tries++) {
        if (at[seq] < T) {
            c->pos[c->n] = at[seq];
            c->ids[c->n] = text[seq][at[seq]++];
            c->seqs[c->n] = seq;
            c->wants[c->n] = below(2) == 0;
            c->n_wanted += c->wants[c->n++];
        }
        if (below(3) != 0)
            seq = below(S);
    }
}

static void assert_row(const float *row, uint32_t seq, uint32_t pos)
{
    if (memcmp(row, alone[seq] + pos * V, V * sizeof(float)) != 0)
        fail_msg("sequence %u differs at position %u", seq, pos);
}

typedef struct {
    const call *c;
    uint32_t n_shown;
} watcher;

static int compare_rows(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)e;
    watcher *w = user;
    for (uint32_t i = first; i < first + n; i++) {
        assert_true(w->c->wants[i]);
        assert_row(logits + (i - first) * V, w->c->seqs[i], w->c->pos[i]);
    }
    w->n_shown += n;
    return 0;
}

/* The call with its logits to a sink, or held by the session. */
static void make_and_check(fy_session *s, const call *c)
{
    const fy_batch b = {.ids = c->ids, .seqs = c->seqs, .wants = c->wants, .n = c->n};
    watcher w = {.c = c};
    const fy_eval_sinks sinks = {.logits = compare_rows, .user = &w};
    const bool sink = c->n_wanted > FY_LOGIT_ROWS || below(2) == 0;
    const float *logits = &(float){0};
    fy_err e = {0};
    if (fy_session_decode(s, &b, sink ? &sinks : NULL, &logits, &e) != 0)
        fail_msg("%s", e.msg);
    if (sink || c->n_wanted == 0)
        assert_null(logits);
    for (uint32_t i = 0; !sink && i < c->n; i++) {
        if (!c->wants[i])
            continue;
        assert_row(logits, c->seqs[i], c->pos[i]);
        logits += V;
    }
    assert_int_equal(w.n_shown, sink ? c->n_wanted : 0);
    for (uint32_t i = 0; i < c->n; i++)
        assert_true(fy_session_seq_n_past(s, c->seqs[i]) > c->pos[i]);
}

/* Between calls: a sequence is rewound, or takes over the beginning of another. */
static void disturb(fy_session *s)
{
    const uint32_t from = below(S), to = below(S), n = fy_session_seq_n_past(s, from);
    if (below(2) == 0) {
        fy_session_seq_rewind(s, to, below(T));
    } else {
        fy_err e = {0};
        const uint32_t most = from == to || n < SHARED ? n : SHARED;
        const uint32_t kept = below(most + 1);
        assert_int_equal(fy_session_seq_copy(s, from, to, kept, &e), 0);
        assert_int_equal(fy_session_seq_n_past(s, to), kept);
    }
}

static void follow_schedule(const fy_model *m, fy_type kv)
{
    static const uint32_t batches[] = {1, 2, 5, 16, 23, 512};
    fy_session *s = new_session(m, (fy_session_params){.n_ctx = T,
                                                       .n_seq = S,
                                                       .n_batch = batches[below(6)],
                                                       .n_threads = 1 + (int)below(3),
                                                       .type_k = kv,
                                                       .type_v = kv});
    call c;
    for (int i = 0; i < 25; i++) {
        make_call(s, &c);
        if (c.n > 0)
            make_and_check(s, &c);
        if (c.n == 0 || below(4) == 0)
            disturb(s);
    }
    fy_session_free(s);
}

static void sequences_compute_the_same_bits_in_any_company(void **state)
{
    (void)state;
    const struct {
        const char *arch;
        bool experts;
        uint32_t n_swa;
        fy_type type;
    } kinds[] = {
        {"llama", false, 0, FY_F32},   {"llama", false, 0, FY_Q4_0},
        {"qwen3", false, 0, FY_Q8_0},  {"llama", true, 0, FY_Q8_0},
        {"qwen2moe", true, 0, FY_F32}, {"smallthinker", true, 5, FY_Q4_0},
        {"gemma2", false, 5, FY_F16},  {"gemma3", false, 7, FY_F32},
        {"gpt2", false, 0, FY_F32},    {"falcon", false, 0, FY_Q8_0},
    };
    print_message("SEED=%llu\n", (unsigned long long)seed);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        tiny_model t = tiny_of(kinds[k].arch, kinds[k].experts);
        t.type = kinds[k].type;
        t.hp.n_swa = kinds[k].n_swa;
        t.hp.n_ff_shexp = tiny_knows(&t, FY_T_FFN_UP_SHEXP) ? 64 : 0;
        fy_model *m = open_model(t);
        for (int i = 0; i < 2; i++) {
            const fy_type kv = i == 0 ? FY_F32 : FY_F16;
            compute_alone(m, kv);
            for (int schedule = 0; schedule < 3; schedule++)
                follow_schedule(m, kv);
        }
        fy_model_close(m);
    }
}

/* --- what a call asks for ------------------------------------------------------------------- */

static fy_model *open_default(fy_type kv)
{
    fy_model *m = open_model(tiny_of("llama", false));
    compute_alone(m, kv);
    return m;
}

static void without_a_list_the_last_token_of_each_sequence_is_asked_for(void **state)
{
    (void)state;
    fy_model *m = open_default(FY_F32);
    fy_session *s = new_session(m, (fy_session_params){.n_ctx = T, .n_seq = S, .n_batch = 3});
    const int32_t ids[] = {text[2][0], text[4][0], text[2][1], text[2][2], text[4][1], text[0][0]};
    const uint32_t seqs[] = {2, 4, 2, 2, 4, 0};
    const float *logits;
    fy_err e = {0};
    assert_int_equal(
        fy_session_decode(s, &(fy_batch){.ids = ids, .seqs = seqs, .n = 6}, NULL, &logits, &e), 0);
    assert_row(logits, 2, 2);
    assert_row(logits + V, 4, 1);
    assert_row(logits + 2 * V, 0, 0);
    assert_int_equal(fy_session_seq_n_past(s, 2), 3);
    assert_int_equal(fy_session_seq_n_past(s, 1), 0);
    assert_int_equal(
        fy_session_decode(s, &(fy_batch){.ids = text[0] + 1, .n = 7}, NULL, &logits, &e), 0);
    assert_row(logits, 0, 7);
    assert_int_equal(fy_session_n_past(s), 8);
    fy_session_free(s);
    fy_model_close(m);
}

static void a_session_holds_the_logits_of_each_of_its_sequences(void **state)
{
    (void)state;
    enum { N = 40 };
    fy_model *m = open_default(FY_F32);
    fy_session *s = new_session(m, (fy_session_params){.n_ctx = 4, .n_seq = N, .n_batch = 7});
    int32_t ids[N];
    uint32_t seqs[N];
    const float *logits;
    fy_err e = {0};
    for (uint32_t i = 0; i < N; i++) {
        seqs[i] = N - 1 - i;
        ids[i] = text[0][0];
    }
    const fy_batch b = {.ids = ids, .seqs = seqs, .n = N};
    assert_int_equal(fy_session_decode(s, &b, NULL, &logits, &e), 0);
    for (uint32_t i = 0; i < N; i++)
        assert_row(logits + i * V, 0, 0);
    assert_int_equal(fy_session_n_seq(s), N);
    fy_session_free(s);
    fy_model_close(m);
}

/* --- failures ------------------------------------------------------------------------------- */

static int refuse_later(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)user;
    (void)logits;
    return first + n > 5 ? fy_fail(e, FY_EIO, "no more") : 0;
}

typedef struct {
    uint32_t held[S]; /* positions before the call */
} fill;

static fill fill_of(const fy_session *s)
{
    fill f;
    for (uint32_t i = 0; i < S; i++)
        f.held[i] = fy_session_seq_n_past(s, i);
    return f;
}

/* Fails with this code and these words, and every sequence is where it was. */
static void assert_refused(fy_session *s, fy_batch b, const fy_eval_sinks *sinks, fy_code code,
                           const char *words)
{
    const fill before = fill_of(s);
    const float *logits = (const float *)&before;
    fy_err e = {0};
    assert_int_equal(fy_session_decode(s, &b, sinks, &logits, &e), -1);
    if (e.code != code || strstr(e.msg, words) == NULL)
        fail_msg("%d '%s', expected %d '%s'", e.code, e.msg, code, words);
    const fill after = fill_of(s);
    assert_memory_equal(&before, &after, sizeof before);
    assert_ptr_equal(logits, &before);
}

static void a_call_that_fails_leaves_every_sequence_as_it_was(void **state)
{
    (void)state;
    fy_model *m = open_default(FY_F32);
    fy_session *s = new_session(m, (fy_session_params){.n_ctx = T, .n_seq = S, .n_batch = 4});
    int32_t ids[2 * T];
    uint32_t seqs[2 * T], begun[] = {1, 1, 3};
    uint8_t wants[2 * T];
    fy_err e = {0};
    for (int i = 0; i < 2 * T; i++) { /* sequences 1 and 3 by turns */
        seqs[i] = i % 2 == 0 ? 1 : 3;
        ids[i] = text[seqs[i]][(i / 2 + (i % 2 == 0 ? 2 : 1)) % T];
        wants[i] = 1;
    }
    const int32_t first[] = {text[1][0], text[1][1], text[3][0]};
    const fy_batch begin = {.ids = first, .seqs = begun, .n = 3};
    assert_int_equal(fy_session_decode(s, &begin, NULL, NULL, &e), 0);

    fy_batch b = {.ids = ids, .seqs = seqs, .n = 20};
    assert_refused(s, (fy_batch){.ids = ids, .seqs = seqs}, NULL, FY_EARG, "empty");
    ids[19] += V;
    assert_refused(s, b, NULL, FY_EARG, "at place 19, expected 0 to 95");
    ids[19] -= 2 * V;
    assert_refused(s, b, NULL, FY_EARG, "expected 0 to 95");
    ids[19] += V;
    seqs[18] = S;
    assert_refused(s, b, NULL, FY_EARG, "token 18 of the batch is of sequence 5, expected 0 to 4");
    seqs[18] = UINT32_MAX;
    assert_refused(s, b, NULL, FY_EARG, "expected 0 to 4");
    seqs[18] = 1;
    b.n = 2 * T - 2;
    assert_refused(s, b, NULL, FY_EFIT,
                   "the context of sequence 1 is full: 40 positions, 2 in use, 39 more asked for");
    b.n = 20;
    b.wants = wants;
    assert_refused(s, b, NULL, FY_EARG, "20 tokens ask for logits, expected at most 16");
    assert_refused(s, b, &(fy_eval_sinks){.logits = refuse_later}, FY_EIO, "no more");
    b.wants = NULL;
    fy_interrupted = 1;
    assert_refused(s, b, NULL, FY_EINTR, "");
    fy_interrupted = 0;

    const float *logits;
    assert_int_equal(fy_session_decode(s, &b, NULL, &logits, &e), 0);
    assert_row(logits, 1, 11);
    assert_row(logits + V, 3, 10);
    fy_session_free(s);
    fy_model_close(m);
}

static void only_sequences_and_positions_that_there_are_can_be_copied(void **state)
{
    (void)state;
    fy_model *m = open_default(FY_F16);
    fy_session *s = new_session(
        m, (fy_session_params){.n_ctx = T, .n_seq = S, .type_k = FY_F16, .type_v = FY_F16});
    fy_err e = {0};
    assert_int_equal(fy_session_eval(s, text[0], SHARED, NULL, NULL, &e), 0);
    const struct {
        uint32_t from, to, n;
        const char *words;
    } cases[] = {{S, 0, 0, "sequence 5, expected 0 to 4"},
                 {0, S, 0, "sequence 5, expected 0 to 4"},
                 {0, UINT32_MAX, 1, "expected 0 to 4"},
                 {0, 1, SHARED + 1, "14 positions of sequence 0 asked for, it holds 13"},
                 {1, 0, 1, "1 positions of sequence 1 asked for, it holds 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        e = (fy_err){0};
        assert_int_equal(fy_session_seq_copy(s, cases[i].from, cases[i].to, cases[i].n, &e), -1);
        assert_int_equal(e.code, FY_EARG);
        if (strstr(e.msg, cases[i].words) == NULL)
            fail_msg("'%s' is not in: %s", cases[i].words, e.msg);
    }
    assert_int_equal(fy_session_n_past(s), SHARED);
    assert_int_equal(fy_session_seq_n_past(s, S), 0);
    fy_session_seq_rewind(s, S, 0);
    e = (fy_err){0};
    assert_int_equal(fy_session_seq_copy(s, 0, S - 1, SHARED, &e), 0);
    const fy_batch b = {.ids = text[S - 1] + SHARED, .seqs = &(uint32_t){S - 1}, .n = 1};
    const float *logits;
    assert_int_equal(fy_session_decode(s, &b, NULL, &logits, &e), 0);
    assert_row(logits, S - 1, SHARED);
    fy_session_free(s);
    fy_model_close(m);
}

/* --- memory --------------------------------------------------------------------------------- */

static void every_sequence_has_a_cache_of_its_own(void **state)
{
    (void)state;
    fy_model *m = open_model(tiny_of("llama", false));
    fy_session_plan one, many;
    fy_session_params p = {.n_ctx = 100, .n_batch = 10, .n_threads = 1};
    assert_int_equal(fy_session_plan_of(m, &p, &one, NULL), 0);
    p.n_seq = 12;
    assert_int_equal(fy_session_plan_of(m, &p, &many, NULL), 0);
    assert_int_equal(many.kv_bytes, 12 * one.kv_bytes);
    assert_true(many.scratch_bytes < one.scratch_bytes + 1024);
    p.n_seq = FY_SEQ_MAX;
    assert_int_equal(fy_session_plan_of(m, &p, &many, NULL), 0);
    p.n_seq = FY_SEQ_MAX + 1;
    fy_err e = {0};
    assert_int_equal(fy_session_plan_of(m, &p, &many, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "257 sequences, expected 1 to 256"));
    p = (fy_session_params){.n_ctx = INT32_MAX, .n_seq = FY_SEQ_MAX, .n_threads = 1};
    e = (fy_err){0};
    assert_true(fy_session_plan_of(m, &p, &many, &e) == 0 || e.code == FY_EFIT);
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_compute_the_same_bits_in_any_company),
        cmocka_unit_test(without_a_list_the_last_token_of_each_sequence_is_asked_for),
        cmocka_unit_test(a_session_holds_the_logits_of_each_of_its_sequences),
        cmocka_unit_test(a_call_that_fails_leaves_every_sequence_as_it_was),
        cmocka_unit_test(only_sequences_and_positions_that_there_are_can_be_copied),
        cmocka_unit_test(every_sequence_has_a_cache_of_its_own),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
