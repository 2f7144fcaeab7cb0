/* Tokens whose logits nobody asks for leave only keys and values in the last layer: logits are the
 * same bits whoever else is asked for, and the rest is not computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/session.h"
#include "tests/unit/model/tiny_model.h"

enum { T = 40, V = 96, D = 64, LAYERS = 3, MOST = 12 };

static char path[64];
static int32_t ids[T];

static int make_path(void **state)
{
    (void)state;
    for (int i = 0; i < T; i++)
        ids[i] = (i * 37 + 11) % V;
    snprintf(path, sizeof path, "/tmp/ferry-last-layer-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* --- models and sessions -------------------------------------------------------------------- */

typedef struct {
    const char *arch;
    bool experts, two_norms, k_is_v;
    uint32_t n_swa, n_rot, n_layer, n_shared, n_embd_pl;
    fy_type type;
} kind;

static const kind kinds[] = {
    {"llama", .n_layer = 1, .type = FY_F32},
    {"llama", .n_layer = LAYERS, .type = FY_Q8_0},
    {"llama", .n_layer = LAYERS, .type = FY_Q4_0, .n_swa = 5},
    {"qwen3", .n_layer = 2, .type = FY_F16},
    {"olmo2", .n_layer = 2, .type = FY_F32},
    {"gpt2", .n_layer = 2, .type = FY_F32},
    {"smollm3", .n_layer = LAYERS, .type = FY_Q8_0},
    {"gemma2", .n_layer = 1, .n_swa = 4, .type = FY_Q8_0},
    {"gemma3", .n_layer = LAYERS, .n_swa = 7, .type = FY_F32},
    {"gemma4", .n_layer = MOST, .n_swa = 7, .n_shared = 6, .n_embd_pl = 32, .type = FY_F32},
    {"gemma4", .n_layer = MOST, .n_swa = 7, .n_shared = 1, .n_embd_pl = 32, .type = FY_Q8_0},
    {"gemma4", .n_layer = 6, .n_swa = 7, .k_is_v = true, .type = FY_Q4_0},
    {"gemma3n", .n_layer = MOST, .n_swa = 7, .n_shared = 5, .n_embd_pl = 32, .type = FY_F32},
    {"gemma3n", .n_layer = 6, .n_swa = 7, .n_embd_pl = 32, .type = FY_Q8_0},
    {"phi2", .n_layer = 2, .n_rot = 8, .type = FY_F32},
    {"falcon", .n_layer = 2, .type = FY_Q8_0},
    {"falcon", .n_layer = 2, .two_norms = true, .type = FY_F32},
    {"gptneox", .n_layer = 2, .n_rot = 8, .type = FY_Q4_0},
    {"llama", .experts = true, .n_layer = 2, .type = FY_Q8_0},
    {"qwen2moe", .experts = true, .n_layer = 2, .type = FY_F32},
    {"granitemoe", .experts = true, .n_layer = 2, .type = FY_Q4_0},
    {"smallthinker", .experts = true, .n_layer = 2, .n_swa = 5, .type = FY_Q8_0},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* Layers with the window have half the head; the middle ones another feed-forward. */
static void put_layers(tiny_model *t, const kind *k)
{
    t->hp.rope_theta_swa = 20;
    t->hp.head_dim = t->hp.head_dim_v = 64;
    t->hp.head_dim_swa = 32;
    t->hp.n_head_kv_swa = 4;
    t->hp.n_kv_shared = k->n_shared;
    t->hp.n_embd_pl = k->n_embd_pl;
    t->hp.k_is_v = k->k_is_v;
    for (uint32_t i = 2; i < 4; i++)
        fy_put_width(&t->hp, i, 96);
}

static void put_streams(tiny_model *t, const kind *k)
{
    t->hp.rope_theta_swa = 20;
    t->hp.n_kv_shared = k->n_shared;
    t->hp.n_embd_pl = k->n_embd_pl;
    t->hp.n_altup = 3;
    t->hp.n_laurel = 32;
    t->hp.act_sparsity = 0.5F;
    fy_layer_put(&t->hp.sparse_layers, 1, true);
}

static fy_model *open_kind(const kind *k)
{
    tiny_model t = tiny_of(k->arch, k->experts);
    t.type = k->type;
    t.two_norms = k->two_norms;
    t.biases = tiny_knows(&t, FY_T_FFN_DOWN_B);
    t.hp.n_layer = k->n_layer;
    t.hp.n_rot = k->n_rot;
    t.hp.n_swa = k->n_swa;
    t.hp.n_ff_shexp = tiny_knows(&t, FY_T_FFN_UP_SHEXP) ? 64 : 0;
    if (strcmp(k->arch, "olmo2") == 0)
        t.hp.n_head_kv = t.hp.n_head;
    if (strcmp(k->arch, "gemma3") == 0)
        t.hp.rope_theta_swa = 20;
    if (strcmp(k->arch, "gemma4") == 0)
        put_layers(&t, k);
    if (strcmp(k->arch, "gemma3n") == 0)
        put_streams(&t, k);
    fy_err e = {0};
    if (tiny_write(&t, path, &e) != 0)
        fail_msg("%s: %s", k->arch, e.msg);
    fy_model *m = fy_model_open(path, &e);
    if (m == NULL)
        fail_msg("%s: %s", k->arch, e.msg);
    return m;
}

static fy_session *new_session(const fy_model *m, uint32_t n_batch, int n_threads, fy_type kv)
{
    fy_err e = {0};
    const fy_session_params p = {
        .n_ctx = T + 8, .n_batch = n_batch, .n_threads = n_threads, .type_k = kv, .type_v = kv};
    fy_session *s = fy_session_new(m, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

/* --- what the sinks see --------------------------------------------------------------------- */

typedef struct {
    float logits[T][V];
    float hidden[MOST + 1][T][D];
    uint32_t n_logits[T], n_hidden[MOST + 1];
} record;

static int keep_logits(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)e;
    record *r = user;
    memcpy(r->logits[first], logits, n * sizeof r->logits[0]);
    for (uint32_t i = 0; i < n; i++)
        r->n_logits[first + i]++;
    return 0;
}

static int keep_hidden(void *user, uint32_t layer, const float *x, uint32_t first, uint32_t n,
                       fy_err *e)
{
    (void)e;
    record *r = user;
    memcpy(r->hidden[layer][first], x, n * sizeof r->hidden[0][0]);
    r->n_hidden[layer] += n;
    return 0;
}

static record all, some;

/* Everything of every token, in one batch. */
static void compute_all(const fy_model *m, fy_type kv)
{
    fy_session *s = new_session(m, 512, 1, kv);
    const fy_eval_sinks sinks = {.logits = keep_logits, .hidden = keep_hidden, .user = &all};
    fy_err e = {0};
    memset(&all, 0, sizeof all);
    assert_int_equal(fy_session_eval(s, ids, T, &sinks, NULL, &e), 0);
    fy_session_free(s);
}

static void assert_row(const float *row, uint32_t at, const char *what, uint32_t n_batch)
{
    if (memcmp(row, all.logits[at], sizeof all.logits[0]) != 0)
        fail_msg("%s, batches of %u: token %u has other bits", what, n_batch, at);
}

/* --- the same bits -------------------------------------------------------------------------- */

static const uint32_t batches[] = {1, 2, 7, 16, 39, 512};
enum { N_BATCHES = sizeof batches / sizeof batches[0] };

/* A prompt of n tokens without a sink, then the rest one by one. */
static void check_last(const char *what, const fy_model *m, fy_type kv, uint32_t n_batch,
                       uint32_t n)
{
    fy_session *s = new_session(m, n_batch, 1 + (int)(n_batch % 3), kv);
    const float *last;
    fy_err e = {0};
    assert_int_equal(fy_session_eval(s, ids, n, NULL, &last, &e), 0);
    assert_row(last, n - 1, what, n_batch);
    assert_int_equal(fy_session_n_past(s), n);
    for (uint32_t i = n; i < T; i++) {
        assert_int_equal(fy_session_eval(s, ids + i, 1, NULL, &last, &e), 0);
        assert_row(last, i, what, n_batch);
    }
    fy_session_free(s);
}

static void the_last_token_is_the_same_with_and_without_a_sink(void **state)
{
    (void)state;
    for (int k = 0; k < N_KINDS; k++) {
        fy_model *m = open_kind(&kinds[k]);
        for (int f16 = 0; f16 < 2; f16++) {
            const fy_type kv = f16 ? FY_F16 : FY_F32;
            compute_all(m, kv);
            for (int b = 0; b < N_BATCHES; b++) {
                check_last(kinds[k].arch, m, kv, batches[b], T);
                check_last(kinds[k].arch, m, kv, batches[b], 33);
            }
        }
        fy_model_close(m);
    }
}

/* Which tokens ask: none, the first, every second, all but one, two that stand apart. */
static bool asks(int pattern, uint32_t i)
{
    const bool patterns[] = {false, i == 0, i % 2 == 1, i != 17, i == 3 || i == 29};
    return patterns[pattern];
}
enum { N_PATTERNS = 5 };

static void check_pattern(const char *what, const fy_model *m, int pattern, uint32_t n_batch,
                          bool shown)
{
    fy_session *s = new_session(m, n_batch, 2, FY_F16);
    const fy_eval_sinks sinks = {
        .logits = keep_logits, .hidden = shown ? keep_hidden : NULL, .user = &some};
    uint8_t wants[T];
    for (uint32_t i = 0; i < T; i++)
        wants[i] = asks(pattern, i);
    const fy_batch b = {.ids = ids, .wants = wants, .n = T};
    fy_err e = {0};
    memset(&some, 0, sizeof some);
    assert_int_equal(fy_session_decode(s, &b, &sinks, NULL, &e), 0);
    for (uint32_t i = 0; i < T; i++) {
        assert_int_equal(some.n_logits[i], wants[i]);
        if (wants[i])
            assert_row(some.logits[i], i, what, n_batch);
    }
    for (uint32_t layer = 0; layer <= fy_model_hparams(m)->n_layer; layer++)
        assert_int_equal(some.n_hidden[layer], shown ? T : 0);
    if (shown)
        assert_memory_equal(some.hidden, all.hidden, sizeof all.hidden);
    assert_int_equal(fy_session_n_past(s), T);
    fy_session_free(s);
}

static void any_tokens_may_ask_and_a_sink_for_the_stream_sees_all(void **state)
{
    (void)state;
    for (int k = 0; k < N_KINDS; k++) {
        fy_model *m = open_kind(&kinds[k]);
        compute_all(m, FY_F16);
        for (int i = 0; i < N_BATCHES * N_PATTERNS; i++) {
            check_pattern(kinds[k].arch, m, i % N_PATTERNS, batches[i / N_PATTERNS], false);
            check_pattern(kinds[k].arch, m, i % N_PATTERNS, batches[i / N_PATTERNS], true);
        }
        fy_model_close(m);
    }
}

/* --- the work ------------------------------------------------------------------------------- */

/* How many of n rows of len floats are not what spoil made them. */
static uint32_t count_written(const float *x, uint32_t n, uint64_t len)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool same = true;
        for (uint64_t c = 0; c < len; c++)
            same = same && x[i * len + c] == -12345.0f;
        count += !same;
    }
    return count;
}

static void spoil(float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = -12345.0f;
}

static void a_token_that_does_not_ask_goes_no_further_than_its_keys(void **state)
{
    (void)state;
    fy_model *m = open_kind(&kinds[0]); /* its first layer is its last */
    const fy_hparams *hp = fy_model_hparams(m);
    const uint64_t q = fy_dim_of(hp, FY_D_Q), qv = fy_dim_of(hp, FY_D_QV);
    fy_session *s = new_session(m, T, 1, FY_F32);
    fy_activations *a = &s->d.act;
    for (int pattern = 0; pattern < N_PATTERNS; pattern++) {
        uint8_t wants[T];
        uint32_t n_wanted = 0;
        for (uint32_t i = 0; i < T; i++)
            n_wanted += wants[i] = asks(pattern, i);
        spoil(a->q, T * q);
        spoil(a->att, T * qv);
        spoil(a->gate, (uint64_t)T * hp->n_ff);
        const fy_batch b = {.ids = ids, .wants = wants, .n = T};
        const fy_eval_sinks sinks = {.logits = keep_logits, .user = &some};
        fy_err e = {0};
        assert_int_equal(fy_session_decode(s, &b, &sinks, NULL, &e), 0);
        assert_int_equal(count_written(a->q, T, q), n_wanted);
        assert_int_equal(count_written(a->att, T, qv), n_wanted);
        assert_int_equal(count_written(a->gate, T, hp->n_ff), n_wanted);
        fy_session_rewind(s, 0);
    }
    fy_session_free(s);
    fy_model_close(m);
}

/* --- the final norm ------------------------------------------------------------------------- */

/* Norms what leaves the last layer, in one call and row by row. */
typedef struct {
    fy_session *s;
    uint32_t n_layer, n_rows;
    float rows[T][D], x[T][D];
} normed;

static int see_normed(void *user, uint32_t layer, const float *x, uint32_t first, uint32_t n,
                      fy_err *e)
{
    (void)e;
    normed *r = user;
    if (layer != r->n_layer)
        return 0;
    memcpy(r->x[first], x, n * sizeof r->x[0]);
    memcpy(r->rows[first], fy_session_norm(r->s, x, n), n * sizeof r->rows[0]);
    for (uint32_t i = 0; i < n; i++)
        assert_memory_equal(r->rows[first + i], fy_session_norm(r->s, x + (size_t)i * D, 1),
                            sizeof r->rows[0]);
    r->n_rows += n;
    return 0;
}

static double by_hand_norm(const fy_model *m, const float *x, uint32_t j)
{
    const bool centred = m->family->layer_norm;
    const float *w = fy_vector(&m->once, FY_T_OUTPUT_NORM);
    const float *bias = fy_vector(&m->once, FY_T_OUTPUT_NORM_B);
    double mean = 0, squares = 0;
    for (uint32_t i = 0; centred && i < D; i++)
        mean += (double)x[i] / D;
    for (uint32_t i = 0; i < D; i++)
        squares += (x[i] - mean) * (x[i] - mean) / D;
    const double eps = (double)(centred ? m->hp.norm_eps : m->hp.norm_rms_eps);
    return (x[j] - mean) / sqrt(squares + eps) * (w != NULL ? (double)w[j] : 1) +
           (bias != NULL ? (double)bias[j] : 0);
}

static void a_sink_gets_the_normed_stream_whatever_the_batch(void **state)
{
    (void)state;
    static normed r, whole;
    for (int k = 0; k < N_KINDS; k++) {
        fy_model *m = open_kind(&kinds[k]);
        const bool one_stream = m->hp.n_altup == 0; /* what the sink sees is all that there is */
        for (int b = 0; b < N_BATCHES && one_stream; b++) {
            fy_err e = {0};
            r = (normed){.s = new_session(m, batches[b], 1 + b % 3, FY_F32),
                         .n_layer = kinds[k].n_layer};
            assert_true(fy_session_has_norm(r.s));
            const fy_eval_sinks sinks = {.hidden = see_normed, .user = &r};
            const float *last;
            assert_int_equal(fy_session_eval(r.s, ids, T, &sinks, &last, &e), 0);
            assert_int_equal(r.n_rows, T);
            if (b == 0) {
                whole = r;
                compute_all(m, FY_F32);
                for (uint32_t i = 0; i < T * D; i++)
                    assert_float_equal(r.rows[i / D][i % D],
                                       (float)by_hand_norm(m, r.x[i / D], i % D), 2e-5);
            }
            assert_memory_equal(r.rows, whole.rows, sizeof r.rows);
            assert_row(last, T - 1, "after a sink that norms", batches[b]);
            fy_session_free(r.s);
        }
        fy_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sink_gets_the_normed_stream_whatever_the_batch),
        cmocka_unit_test(the_last_token_is_the_same_with_and_without_a_sink),
        cmocka_unit_test(any_tokens_may_ask_and_a_sink_for_the_stream_sees_all),
        cmocka_unit_test(a_token_that_does_not_ask_goes_no_further_than_its_keys),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
