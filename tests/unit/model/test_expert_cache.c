#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/expert_cache.h"
#include "model/weights.h"
#include "tests/unit/model/tiny_model.h"

enum { N_EXPERT = 6, USED = 2, T = 24 };

static char path[64];
static const fy_slot parts[] = {FY_T_FFN_GATE_EXPS, FY_T_FFN_UP_EXPS, FY_T_FFN_DOWN_EXPS};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-experts-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static fy_model *open_again(void)
{
    fy_err e = {0};
    fy_model *m = fy_model_open_as(path, &(fy_map_options){0}, &e);
    assert_non_null(m);
    return m;
}

static fy_model *open_tiny(const char *arch, bool experts)
{
    tiny_model t = tiny_of(arch, experts);
    fy_err e = {0};
    if (experts)
        t.hp.n_expert = N_EXPERT;
    if (strcmp(arch, "qwen2moe") == 0)
        t.hp.n_ff_shexp = 64;
    assert_int_equal(tiny_write(&t, path, &e), 0);
    return open_again();
}

/* --- what the model needs, counted here once more --- */

static uint64_t total_of(const fy_model *m)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < fy_gguf_n_tensors(m->gguf); i++)
        bytes += fy_gguf_tensor_at(m->gguf, i)->bytes;
    return bytes;
}

static uint64_t bytes_of(const fy_model *m, uint32_t layer, uint32_t expert)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t pages = 0;
    for (int i = 0; i < N_PARTS; i++) {
        const fy_matrix *w = &m->layers[layer].w[parts[i]];
        const size_t n = (size_t)(w->n_rows / N_EXPERT) * w->row_bytes;
        const uintptr_t begin = (uintptr_t)w->data + expert * n;
        pages += (begin + n - 1) / page - begin / page + 1;
    }
    return pages * page;
}

static uint64_t always_of(const fy_model *m)
{
    uint64_t bytes = total_of(m);
    for (uint32_t l = 0; l < m->hp.n_layer; l++) {
        for (int i = 0; i < N_PARTS; i++) {
            const fy_matrix *w = &m->layers[l].w[parts[i]];
            bytes -= (uint64_t)w->n_rows * w->row_bytes;
            bytes += 2 * (uint64_t)sysconf(_SC_PAGESIZE);
        }
    }
    return bytes;
}

static uint64_t largest_of(const fy_model *m)
{
    uint64_t most = 0;
    for (uint32_t id = 0; id < m->hp.n_layer * N_EXPERT; id++) {
        const uint64_t bytes = bytes_of(m, id / N_EXPERT, id % N_EXPERT);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static uint64_t least_of(const fy_model *m)
{
    return always_of(m) + 2 * USED * largest_of(m);
}

/* --- the list --- */

/* The same by a table of when each was used. */
typedef struct {
    uint64_t when[64], now, used, room;
} by_time;

static void use(by_time *b, const fy_model *m, uint32_t id)
{
    b->used += b->when[id] == 0 ? bytes_of(m, id / N_EXPERT, id % N_EXPERT) : 0;
    b->when[id] = ++b->now;
}

static void make_room(by_time *b, const fy_model *m)
{
    while (b->used > b->room) {
        uint32_t oldest = UINT32_MAX;
        for (uint32_t i = 0; i < m->hp.n_layer * N_EXPERT; i++) {
            if (b->when[i] != 0 && (oldest == UINT32_MAX || b->when[i] < b->when[oldest]))
                oldest = i;
        }
        b->when[oldest] = 0;
        b->used -= bytes_of(m, oldest / N_EXPERT, oldest % N_EXPERT);
    }
}

static void what_was_not_used_for_longest_makes_room(void **state)
{
    (void)state;
    fy_err e = {0};
    for (uint64_t more = 0; more < 4; more++) {
        fy_model *m = open_tiny("llama", true);
        const uint64_t memory = least_of(m) + more * largest_of(m);
        assert_int_equal(fy_model_limit_memory(m, memory, &e), 0);
        assert_non_null(m->experts);
        by_time b = {.room = memory - always_of(m) - USED * largest_of(m)};
        uint64_t held = 0, n = 0, read = 0, x = 7;
        for (int step = 0; step < 500; step++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            const uint32_t layer = (uint32_t)(x >> 33) % m->hp.n_layer;
            int32_t ids[USED] = {(int32_t)((x >> 40) % (N_EXPERT - 1)), 0};
            ids[1] = ids[0] + 1 + (int32_t)((x >> 50) % (uint64_t)(N_EXPERT - 1 - ids[0]));
            const uint32_t at = layer * N_EXPERT;
            bool was[USED];
            for (int i = 0; i < USED; i++)
                was[i] = b.when[at + (uint32_t)ids[i]] != 0;
            for (int pass = 1; pass >= 0; pass--) { /* those that are held come first */
                for (int i = 0; i < USED; i++) {
                    if (was[i] != pass)
                        continue;
                    held += (uint64_t)pass;
                    read += pass ? 0 : bytes_of(m, layer, (uint32_t)ids[i]);
                    use(&b, m, at + (uint32_t)ids[i]);
                }
            }
            make_room(&b, m);
            n += USED;
            fy_expert_cache_want(m->experts, layer, ids, USED);
            for (uint32_t id = 0; id < m->hp.n_layer * N_EXPERT; id++)
                assert_true(fy_expert_cache_holds(m->experts, id / N_EXPERT, id % N_EXPERT) ==
                            (b.when[id] != 0));
            assert_true(fy_expert_cache_holds(m->experts, layer, (uint32_t)ids[0]));
            assert_true(fy_expert_cache_holds(m->experts, layer, (uint32_t)ids[1]));
        }
        const fy_expert_counts c = fy_model_expert_counts(m);
        assert_int_equal(c.n_held, held);
        assert_int_equal(c.n_held + c.n_read, n);
        assert_int_equal(c.bytes_read, read);
        assert_true(held > 0 && c.n_read > 0);
        fy_model_close(m);
    }
}

/* --- computing --- */

/* A prompt in batches, then tokens one by one: logits of the last. */
static void compute(const fy_model *m, int n_threads, uint32_t n_batch, float *out)
{
    fy_err e = {0};
    int32_t ids[T];
    const float *logits = NULL;
    for (int i = 0; i < T; i++)
        ids[i] = i * 5 % 96;
    fy_session *s = fy_session_new(
        m, &(fy_session_params){.n_ctx = T, .n_threads = n_threads, .n_batch = n_batch}, &e);
    assert_non_null(s);
    assert_int_equal(fy_session_eval(s, ids, T / 2, NULL, &logits, &e), 0);
    for (int i = T / 2; i < T; i++)
        assert_int_equal(fy_session_eval(s, ids + i, 1, NULL, &logits, &e), 0);
    memcpy(out, logits, m->hp.n_vocab * sizeof *out);
    fy_session_free(s);
}

static const char *const archs[] = {"llama", "qwen2moe", "smallthinker"};
enum { N_ARCHS = sizeof archs / sizeof archs[0] };

static void the_bits_are_those_without_a_limit(void **state)
{
    (void)state;
    float want[96], got[96];
    for (size_t i = 0; i < N_ARCHS; i++) {
        fy_model *m = open_tiny(archs[i], true);
        fy_err e = {0};
        compute(m, 1, 5, want);
        assert_int_equal(fy_model_expert_counts(m).n_read, 0);
        fy_model_close(m);
        for (int threads = 1; threads <= 2; threads++) {
            m = open_again();
            assert_int_equal(fy_model_limit_memory(m, least_of(m), &e), 0);
            compute(m, threads, 1, got);
            assert_memory_equal(want, got, sizeof want);
            const fy_expert_counts c = fy_model_expert_counts(m);
            assert_int_equal(c.n_held + c.n_read, T * m->hp.n_layer * USED - /* of the last layer
                             only tokens whose logits are asked for */ (T / 2 - 1) * USED);
            assert_true(c.n_read > 0);
            compute(m, threads, 7, got);
            assert_memory_equal(want, got, sizeof want);
            fy_model_close(m);
        }
    }
}

typedef struct {
    const fy_model *m;
    float out[96];
} thread_job;

static void *compute_beside(void *arg)
{
    thread_job *j = arg;
    compute(j->m, 1, 3, j->out);
    return NULL;
}

static void sessions_share_it(void **state)
{
    (void)state;
    fy_model *m = open_tiny("llama", true);
    fy_err e = {0};
    float want[96];
    compute(m, 1, 3, want);
    assert_int_equal(fy_model_limit_memory(m, least_of(m), &e), 0);
    thread_job jobs[2] = {{.m = m}, {.m = m}};
    pthread_t ids[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, compute_beside, &jobs[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(ids[i], NULL);
        assert_memory_equal(want, jobs[i].out, sizeof want);
    }
    fy_model_close(m);
}

/* --- the limit --- */

static void a_limit_that_is_too_low_names_the_least(void **state)
{
    (void)state;
    fy_model *m = open_tiny("llama", true);
    const uint64_t least = least_of(m);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "use --memory %lluK or more",
             (unsigned long long)((least + 1023) / 1024));
    const uint64_t below[] = {1, always_of(m), least - 1};
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        fy_err e = {0};
        assert_int_equal(fy_model_limit_memory(m, below[i], &e), -1);
        assert_int_equal(e.code, FY_EFIT);
        assert_non_null(strstr(e.msg, wanted));
        assert_null(m->experts);
    }
    fy_err e = {0};
    assert_int_equal(fy_model_limit_memory(m, least, &e), 0);
    assert_non_null(m->experts);
    fy_model_close(m);
}

static void what_fits_whole_is_not_limited(void **state)
{
    (void)state;
    for (int experts = 0; experts < 2; experts++) {
        fy_model *m = open_tiny("llama", experts);
        fy_err e = {0};
        assert_int_equal(fy_model_limit_memory(m, total_of(m), &e), 0);
        assert_null(m->experts);
        if (!experts) {
            assert_int_equal(fy_model_limit_memory(m, total_of(m) - 1, &e), -1);
            assert_int_equal(e.code, FY_EFIT);
            assert_non_null(strstr(e.msg, "it has no experts"));
        }
        fy_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_used_for_longest_makes_room),
        cmocka_unit_test(the_bits_are_those_without_a_limit),
        cmocka_unit_test(sessions_share_it),
        cmocka_unit_test(a_limit_that_is_too_low_names_the_least),
        cmocka_unit_test(what_fits_whole_is_not_limited),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
