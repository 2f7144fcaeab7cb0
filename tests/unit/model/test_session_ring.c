/* Layers with a sliding window that keep the window and one step: the bits of the full cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/prompt_cache.h"
#include "model/session.h"
#include "tests/unit/model/tiny_model.h"

enum { T = 1500, V = 96, WINDOW = 70, STEP = 32 };
enum { RING = 256 }; /* 70 + 128 nodes of a tree, in chunks of 64 */

static char path[64], cache_path[80];
static int32_t ids[T];

static int make_path(void **state)
{
    (void)state;
    for (int i = 0; i < T; i++)
        ids[i] = (i * 37 + i / 50 + 11) % V;
    snprintf(path, sizeof path, "/tmp/ferry-ring-XXXXXX");
    int fd = mkstemp(path);
    snprintf(cache_path, sizeof cache_path, "%s.cache", path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    unlink(cache_path);
    return unlink(path);
}

/* Six layers: of gemma3 the last one without the window; of phi3 all have it. */
static fy_model *open_model(const char *arch)
{
    tiny_model t = tiny_of(arch, false);
    fy_err e = {0};
    t.hp.n_layer = 6;
    t.hp.n_ctx_train = T;
    t.hp.n_swa = WINDOW;
    if (tiny_write(&t, path, &e) != 0)
        fail_msg("%s", e.msg);
    fy_model *m = fy_model_open(path, &e);
    assert_non_null(m);
    return m;
}

static fy_session *open_session(const fy_model *m, bool ring, uint32_t n_batch, fy_type type)
{
    fy_err e = {0};
    const fy_session_params p = {.n_ctx = T,
                                 .n_batch = n_batch,
                                 .n_threads = 2,
                                 .n_seq = 2,
                                 .ring = ring,
                                 .snapshots = true,
                                 .type_k = type,
                                 .type_v = type};
    fy_session *s = fy_session_new(m, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

/* Tokens [from, to) of the text, into sequence seq. out: the last logits. */
static void give(fy_session *s, uint32_t seq, uint32_t from, uint32_t to, float out[V])
{
    fy_err e = {0};
    static uint32_t seqs[T];
    const float *logits;
    for (uint32_t i = from; i < to; i++)
        seqs[i] = seq;
    const fy_batch b = {.ids = ids + from, .seqs = seqs + from, .n = to - from};
    if (fy_session_decode(s, &b, NULL, &logits, &e) != 0)
        fail_msg("%s", e.msg);
    memcpy(out, logits, V * sizeof *out);
}

static void the_bits_are_those_of_the_full_cache(void **state)
{
    (void)state;
    static const fy_type types[] = {FY_F32, FY_F16, FY_Q8_0, FY_Q4_0};
    static const char *const archs[] = {"gemma3", "phi3"};
    for (int a = 0; a < 2; a++) {
        fy_model *m = open_model(archs[a]);
        for (int t = 0; t < 4; t++) {
            fy_session *full = open_session(m, false, STEP, types[t]);
            fy_session *ring = open_session(m, true, STEP, types[t]);
            assert_int_equal(ring->n_ring, RING);
            assert_int_equal(full->n_ring, T);
            /* in one call, in pieces of any size, then one by one, and two sequences at once */
            static const uint32_t ends[] = {400, 401, 433, 434, 900, 1290, 1291, 1292, 1500};
            uint32_t from = 0;
            for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
                float want[V], got[V];
                give(full, 0, from, ends[i], want);
                give(ring, 0, from, ends[i], got);
                assert_memory_equal(got, want, sizeof got);
                if (i % 3 == 0) {
                    give(ring, 1, 0, from / 2 + 1, got);
                    fy_session_seq_rewind(ring, 1, 0);
                }
                from = ends[i];
            }
            fy_session_free(full);
            fy_session_free(ring);
        }
        fy_model_close(m);
    }
}

static void it_is_as_small_as_it_says(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_model *m = open_model("gemma3");
    const fy_hparams *hp = fy_model_hparams(m);
    assert_true(fy_layer_has_window(hp, 4) && !fy_layer_has_window(hp, 5));
    const uint64_t row = (uint64_t)hp->n_head_kv * (hp->head_dim + hp->head_dim_v) * sizeof(float);
    fy_session_plan plan;
    fy_session_params p = {.n_ctx = T, .n_batch = STEP, .ring = true};
    assert_int_equal(fy_session_plan_of(m, &p, &plan, &e), 0);
    assert_int_equal(plan.kv_bytes, row * (T + 5 * RING));
    p.ring = false;
    assert_int_equal(fy_session_plan_of(m, &p, &plan, &e), 0);
    assert_int_equal(plan.kv_bytes, row * T * 6);
    p = (fy_session_params){.n_ctx = 200, .n_batch = STEP, .ring = true}; /* no smaller */
    assert_int_equal(fy_session_plan_of(m, &p, &plan, &e), 0);
    assert_int_equal(plan.kv_bytes, row * 200 * 6);
    fy_model_close(m);
}

static void what_it_cannot_keep_is_computed_again(void **state)
{
    (void)state;
    fy_err e = {0};
    float want[V], got[V];
    fy_model *m = open_model("gemma3");
    fy_session *s = open_session(m, true, STEP, FY_F32);
    give(s, 0, 0, 250, got); /* all of it is there */
    for (uint32_t n = 0; n <= 250; n++)
        assert_int_equal(fy_session_seq_keeps(s, 0, n), n);
    give(s, 0, 250, 600, got);
    assert_int_equal(fy_session_seq_keeps(s, 0, 600), 600);
    const uint32_t least = 600 - RING + WINDOW - 1; /* it sees WINDOW - 1 positions before it */
    assert_int_equal(fy_session_seq_keeps(s, 0, least), least);
    assert_int_equal(fy_session_seq_keeps(s, 0, least - 1), 0);
    /* a rewind as far as it goes gives the bits of a sequence that ended there */
    fy_session_seq_rewind(s, 0, least);
    assert_int_equal(fy_session_seq_n_past(s, 0), least);
    give(s, 0, least, 620, got);
    give(s, 1, 0, 620, want);
    assert_memory_equal(got, want, sizeof got);
    /* a copy has what its source has */
    assert_int_equal(fy_session_seq_copy(s, 0, 1, 100, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_int_equal(fy_session_seq_copy(s, 0, 1, 610, &e), 0);
    assert_int_equal(fy_session_seq_keeps(s, 1, 300), 0);
    give(s, 1, 610, 700, got);
    give(s, 0, 620, 700, want);
    assert_memory_equal(got, want, sizeof got);
    /* further back: from the beginning */
    fy_session_seq_rewind(s, 0, 300);
    assert_int_equal(fy_session_seq_n_past(s, 0), 0);
    give(s, 0, 0, 100, got);
    assert_int_equal(fy_session_seq_keeps(s, 0, 40), 40);
    fy_session_free(s);
    fy_model_close(m);
}

/* A call that fails after its steps have taken rows that the sequence needs leaves nothing of it,
 * and one that has not, all. */
static int stop_at(void *user, uint32_t layer, const float *x, uint32_t first, uint32_t n,
                   fy_err *e)
{
    (void)x, (void)n;
    return layer == 2 && first >= *(uint32_t *)user ? fy_fail(e, FY_EIO, "stopped") : 0;
}

static void a_failed_call_never_leaves_half_a_window(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_model *m = open_model("gemma3");
    fy_session *s = open_session(m, true, STEP, FY_F32);
    float want[V], got[V];
    give(s, 0, 0, 300, got);
    uint32_t at = 332;
    const fy_eval_sinks sinks = {.hidden = stop_at, .user = &at};
    assert_int_equal(fy_session_eval(s, ids + 300, 500, &sinks, NULL, &e), -1);
    assert_int_equal(fy_session_n_past(s), 300);
    give(s, 0, 300, 350, got);
    give(s, 1, 0, 350, want);
    assert_memory_equal(got, want, sizeof got);
    at = 700;
    e = (fy_err){0};
    assert_int_equal(fy_session_eval(s, ids + 350, 500, &sinks, NULL, &e), -1);
    assert_int_equal(fy_session_n_past(s), 0);
    give(s, 0, 0, 350, got);
    assert_memory_equal(got, want, sizeof got);
    fy_session_free(s);
    fy_model_close(m);
}

static void a_snapshot_has_the_window(void **state)
{
    (void)state;
    fy_err e = {0};
    float want[V], got[V];
    fy_model *m = open_model("gemma3");
    fy_session *s = open_session(m, true, STEP, FY_Q8_0), *full = open_session(m, false, STEP, FY_Q8_0);
    assert_false(fy_session_has_snapshots(full)); /* it can go back anywhere */
    give(full, 0, 0, 900, want);
    give(s, 0, 0, 40, got); /* less than a window */
    fy_session_seq_snapshot(s, 0);
    give(s, 0, 40, 300, got);
    fy_session_seq_snapshot(s, 0);
    give(s, 0, 300, 900, got);
    assert_memory_equal(got, want, sizeof got);
    assert_int_equal(fy_session_seq_keeps(s, 0, 600), 300);
    assert_int_equal(fy_session_seq_keeps(s, 0, 299), 40);
    assert_int_equal(fy_session_seq_copy(s, 0, 1, 300, &e), 0);
    give(s, 1, 300, 900, got);
    assert_memory_equal(got, want, sizeof got);
    fy_session_seq_rewind(s, 0, 600);
    give(s, 0, 300, 900, got);
    assert_memory_equal(got, want, sizeof got);
    fy_session_seq_rewind(s, 0, 299);
    assert_int_equal(fy_session_seq_n_past(s, 0), 40);
    give(s, 0, 40, 900, got);
    assert_memory_equal(got, want, sizeof got);
    uint32_t at = 1200; /* a call that fails and has taken rows: back to one */
    const fy_eval_sinks sinks = {.hidden = stop_at, .user = &at};
    assert_int_equal(fy_session_eval(s, ids + 900, 400, &sinks, NULL, &e), -1);
    assert_int_equal(fy_session_n_past(s), 40);
    give(s, 0, 40, 900, got);
    assert_memory_equal(got, want, sizeof got);
    fy_session_free(s);
    fy_session_free(full);
    fy_model_close(m);
}

/* Of a ring, of one of another length, of all positions: each from each. */
static void a_file_goes_on_in_any_session(void **state)
{
    (void)state;
    fy_err e = {0};
    static const struct {
        bool ring;
        uint32_t n_batch;
    } kinds[] = {{true, STEP}, {true, 200}, {false, STEP}};
    fy_model *m = open_model("gemma3");
    for (int from = 0; from < 3; from++) {
        float want[V], got[V];
        fy_session *s = open_session(m, kinds[from].ring, kinds[from].n_batch, FY_F16);
        give(s, 0, 0, 300, want);
        fy_session_seq_snapshot(s, 0);
        give(s, 0, 300, 900, want);
        if (fy_prompt_cache_write(cache_path, s, 0, ids, 900, &e) != 0)
            fail_msg("%s", e.msg);
        give(s, 0, 900, 1000, want);
        for (int to = 0; to < 3; to++) {
            fy_session *b = open_session(m, kinds[to].ring, kinds[to].n_batch, FY_F16);
            fy_prompt_cache *c = fy_prompt_cache_open(cache_path, b, &e);
            if (c == NULL)
                fail_msg("%s", e.msg);
            static const uint32_t asked[] = {900, 899, 600, 40};
            for (int i = 0; i < 4; i++) {
                assert_int_equal(fy_prompt_cache_load(c, b, 1, asked[i], &e), 0);
                const uint32_t n = fy_session_seq_n_past(b, 1);
                assert_int_equal(n, kinds[from].ring && i >= 2 ? i == 2 ? 300 : 0 : asked[i]);
                if (i == 0) { /* and it can be saved again, and taken back */
                    const uint64_t bytes = fy_session_seq_bytes(b, 1, 0, 900);
                    uint8_t *p = malloc(bytes);
                    assert_int_equal(fy_session_seq_read(b, 1, 0, 900, p, &e), 0);
                    assert_int_equal(fy_session_seq_write(b, 0, 0, 900, p, &e), 0);
                    free(p);
                    give(b, 0, 900, 1000, got);
                    assert_memory_equal(got, want, sizeof got);
                    fy_session_seq_rewind(b, 0, 500);
                    give(b, 0, fy_session_seq_n_past(b, 0), 1000, got);
                    assert_memory_equal(got, want, sizeof got);
                }
                give(b, 1, n, 1000, got);
                assert_memory_equal(got, want, sizeof got);
            }
            fy_prompt_cache_close(c);
            fy_session_free(b);
        }
        fy_session_free(s);
    }
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_the_full_cache),
        cmocka_unit_test(it_is_as_small_as_it_says),
        cmocka_unit_test(what_it_cannot_keep_is_computed_again),
        cmocka_unit_test(a_failed_call_never_leaves_half_a_window),
        cmocka_unit_test(a_snapshot_has_the_window),
        cmocka_unit_test(a_file_goes_on_in_any_session),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
