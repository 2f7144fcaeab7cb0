/* What the collector adds up is what the matrices are multiplied with: compared with activations
 * that other parts of the engine show, and whole files for any batch and number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/math.h"
#include "format/gguf.h"
#include "format/imatrix.h"
#include "model/session.h"
#include "model/imatrix_collect.h"
#include "tests/unit/model/tiny_model.h"

enum { T = 40, V = 96, D = 64 };

static char path[64], out[80];
static int32_t ids[T];

static int make_path(void **state)
{
    (void)state;
    for (int i = 0; i < T; i++)
        ids[i] = (i * 37 + 11) % V;
    snprintf(path, sizeof path, "/tmp/ferry-collect-XXXXXX");
    int fd = mkstemp(path);
    snprintf(out, sizeof out, "%s.imatrix", path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    unlink(out);
    return unlink(path);
}

static fy_model *open_tiny(tiny_model *t)
{
    fy_err e = {0};
    if (tiny_write(t, path, &e) != 0)
        fail_msg("%s", e.msg);
    fy_model *m = fy_model_open(path, &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    return m;
}

static fy_session *new_session(const fy_model *m, uint32_t n_batch, int n_threads)
{
    fy_err e = {0};
    const fy_session_params p = {
        .n_ctx = T, .n_batch = n_batch, .n_threads = n_threads, .type_k = FY_F32, .type_v = FY_F32};
    fy_session *s = fy_session_new(m, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

/* Sums of squares of what goes into the first layer, before its norm. */
static int add_hidden(void *user, uint32_t layer, const float *x, uint32_t first, uint32_t n,
                      fy_err *e)
{
    (void)first;
    (void)e;
    double *sums = user;
    for (uint32_t i = 0; layer == 0 && i < n * D; i++)
        sums[i % D] += (double)x[i] * (double)x[i];
    return 0;
}

static int no_logits(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)user;
    (void)logits;
    (void)first;
    (void)n;
    (void)e;
    return 0;
}

/* Writes what T tokens leave; hidden NULL or [D]. */
static fy_collected collect(const fy_model *m, uint32_t n_batch, int n_threads, double *hidden)
{
    fy_err e = {0};
    fy_collected found;
    fy_session *s = new_session(m, n_batch, n_threads);
    fy_collector *c = fy_collector_new(s, &e);
    assert_non_null(c);
    const fy_eval_sinks sinks = {
        .logits = no_logits, .hidden = hidden != NULL ? add_hidden : NULL, .user = hidden};
    assert_int_equal(fy_session_eval(s, ids, T, &sinks, NULL, &e), 0);
    if (fy_collector_write(c, out, FY_SPAN("some tokens"), 16, &found, &e) != 0)
        fail_msg("%s", e.msg);
    fy_collector_free(c);
    fy_session_free(s);
    return found;
}

static float value(const fy_gguf *g, const char *name, uint64_t i)
{
    const fy_gguf_tensor *t = fy_gguf_tensor_find(g, name);
    if (t == NULL || t->bytes / sizeof(float) <= i)
        fail_msg("'%s' is absent or too short", name);
    return fy_lef32(t->data + i * sizeof(float));
}

static fy_gguf *open_out(void)
{
    fy_err e = {0};
    fy_gguf *g = fy_gguf_open(out, &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    return g;
}

static void sums_are_of_what_goes_in(void **state)
{
    (void)state;
    tiny_model t = tiny_of("smallthinker", true); /* its router reads the residual stream itself */
    fy_model *m = open_tiny(&t);
    double hidden[D] = {0};
    fy_collected found = collect(m, 512, 2, hidden);
    assert_int_equal(found.n_tokens, T);
    fy_gguf *g = open_out();
    assert_true(value(g, "blk.0.ffn_gate_inp.weight.counts", 0) == T);
    for (int j = 0; j < D; j++)
        assert_true(value(g, "blk.0.ffn_gate_inp.weight.in_sum2", j) == (float)hidden[j]);
    fy_gguf_close(g);
    fy_model_close(m);
}

static void matrices_of_one_input_are_alike_and_the_rest_is_not_there(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    fy_model *m = open_tiny(&t);
    fy_collected found = collect(m, 512, 2, NULL);
    assert_int_equal(found.n_tensors, 3 * 7);
    assert_int_equal(found.n_never, 0);
    fy_gguf *g = open_out();
    assert_int_equal(fy_gguf_n_tensors(g), 2 * 3 * 7);
    for (int j = 0; j < D; j++) {
        float k = value(g, "blk.2.attn_k.weight.in_sum2", j);
        assert_true(k > 0 && k == value(g, "blk.2.attn_q.weight.in_sum2", j) &&
                    k == value(g, "blk.2.attn_v.weight.in_sum2", j));
        assert_true(value(g, "blk.2.ffn_up.weight.in_sum2", j) ==
                    value(g, "blk.2.ffn_gate.weight.in_sum2", j));
    }
    assert_true(value(g, "blk.2.ffn_down.weight.counts", 0) == T); /* of the last layer, too */
    assert_int_equal(fy_gguf_tensor_find(g, "blk.2.ffn_down.weight.in_sum2")->ne[0], 160);
    uint32_t chunks;
    assert_int_equal(fy_gguf_get_u32(g, "imatrix.chunk_count", &chunks, NULL), 0);
    assert_int_equal(chunks, 3); /* 40 tokens in chunks of 16 */
    fy_gguf_close(g);
    fy_model_close(m);
}

static void a_tensor_of_several_matrices_counts_once(void **state)
{
    (void)state;
    tiny_model t = tiny_of("phi3", false);
    fy_model *m = open_tiny(&t);
    collect(m, 512, 1, NULL);
    fy_gguf *g = open_out();
    assert_true(value(g, "blk.0.attn_qkv.weight.counts", 0) == T);
    assert_true(value(g, "blk.0.ffn_up.weight.counts", 0) == T);
    fy_gguf_close(g);
    fy_model_close(m);
}

static void experts_are_counted_one_by_one(void **state)
{
    (void)state;
    tiny_model t = tiny_of("qwen2moe", true);
    t.hp.n_ff_shexp = 64;
    fy_model *m = open_tiny(&t);
    collect(m, 512, 2, NULL);
    fy_err e = {0};
    fy_gguf *g = open_out();
    float up = 0, down = 0;
    for (uint64_t i = 0; i < t.hp.n_expert; i++) {
        up += value(g, "blk.0.ffn_up_exps.weight.counts", i);
        down += value(g, "blk.0.ffn_down_exps.weight.counts", i);
    }
    assert_true(up == T * 2 && down == T * 2);
    for (int j = 0; j < D; j++) { /* each expert's share: together, twice what the shared one saw */
        double sum = 0, whole = (double)value(g, "blk.0.ffn_up_shexp.weight.in_sum2", j);
        for (uint64_t i = 0; i < t.hp.n_expert; i++)
            sum += (double)value(g, "blk.0.ffn_up_exps.weight.in_sum2", i * D + (uint64_t)j);
        assert_true(fabs(sum - 2 * whole) < 1e-5 * whole);
    }
    fy_gguf_close(g);
    fy_imatrix *im = fy_imatrix_open(out, &e);
    assert_non_null(im);
    assert_non_null(fy_imatrix_find(im, FY_SPAN("blk.0.ffn_down_exps.weight"), 96, 4, &e));
    assert_true(fy_span_is(fy_imatrix_dataset(im), "some tokens"));
    fy_imatrix_close(im);
    fy_model_close(m);
}

static size_t read_out(uint8_t *to, size_t size)
{
    FILE *f = fopen(out, "rb");
    assert_non_null(f);
    size_t n = fread(to, 1, size, f);
    fclose(f);
    assert_true(n > 0 && n < size);
    return n;
}

static void bytes_depend_on_neither_batch_nor_threads(void **state)
{
    (void)state;
    static uint8_t first[1 << 16], other[1 << 16];
    static const struct {
        uint32_t n_batch;
        int n_threads;
    } ways[] = {{512, 3}, {1, 1}, {7, 2}, {39, 4}};
    tiny_model t = tiny_of("granitemoe", true);
    t.type = FY_Q8_0;
    t.hp.n_ff_shexp = 64;
    fy_model *m = open_tiny(&t);
    collect(m, 512, 1, NULL);
    const size_t n = read_out(first, sizeof first);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        collect(m, ways[i].n_batch, ways[i].n_threads, NULL);
        assert_int_equal(read_out(other, sizeof other), n);
        assert_memory_equal(first, other, n);
    }
    fy_model_close(m);
}

static void experts_that_nobody_chose_are_told(void **state)
{
    (void)state;
    tiny_model t = tiny_of("qwen2moe", true);
    t.hp.n_ff_shexp = 64;
    fy_model *m = open_tiny(&t);
    fy_err e = {0};
    fy_collected found;
    fy_session *s = new_session(m, 512, 1);
    fy_collector *c = fy_collector_new(s, &e);
    const fy_eval_sinks sinks = {.logits = no_logits};
    assert_int_equal(fy_session_eval(s, ids, 1, &sinks, NULL, &e), 0);
    assert_int_equal(fy_collector_write(c, out, FY_SPAN("x"), 16, &found, &e), 0);
    assert_int_equal(found.n_never, 3 * 3 * 2); /* of 3 layers' 3 matrices of 4 experts, 2 each */
    assert_true(fy_span_is(found.never, "blk.0.ffn_down_exps.weight"));
    fy_collector_free(c);
    const float *last; /* nobody watches any more */
    assert_int_equal(fy_session_eval(s, ids, 1, NULL, &last, &e), 0);
    fy_session_free(s);
    fy_model_close(m);
}

typedef struct {
    fy_collector *to;
    float sums[2]; /* of one column, window by window */
    int n_windows;
} handed;

static int hand_over(void *user, const fy_collected_matrix *m, fy_err *e)
{
    handed *h = user;
    if (m->n_cols == D && m->matrix == 0 && h->sums[h->n_windows] == 0)
        h->sums[h->n_windows] = m->sums[7];
    return fy_collector_add(h->to, m, e);
}

static void compute_window(fy_session *s, int first)
{
    fy_err e = {0};
    const fy_eval_sinks sinks = {.logits = no_logits};
    fy_session_rewind(s, 0);
    assert_int_equal(fy_session_eval(s, ids + first, T / 2, &sinks, NULL, &e), 0);
}

/* Each alone, then both in order: the same whoever computed them. */
static void windows_are_summed_one_by_one(void **state)
{
    (void)state;
    static uint8_t whole[1 << 16], handed_over[1 << 16];
    tiny_model t = tiny_of("qwen2moe", true);
    t.hp.n_ff_shexp = 64;
    fy_model *m = open_tiny(&t);
    fy_err e = {0};
    fy_collected found;
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        fy_session *s = new_session(m, 512, 2);
        fy_collector *c = fy_collector_new(s, &e), *all = by_hand ? fy_collector_of(m, &e) : c;
        handed h = {.to = all};
        for (; h.n_windows < 2; h.n_windows++) {
            compute_window(s, h.n_windows * T / 2);
            assert_int_equal(fy_collector_end_window(c, by_hand ? hand_over : NULL, &h, &e), 0);
        }
        assert_int_equal(fy_collector_write(all, out, FY_SPAN("x"), 16, &found, &e), 0);
        assert_int_equal(found.n_tokens, T);
        const size_t n = read_out(by_hand ? handed_over : whole, sizeof whole);
        assert_true(!by_hand || memcmp(whole, handed_over, n) == 0);
        if (by_hand) { /* the first tensor of D columns that has sums is the first by name, too */
            fy_gguf *g = open_out();
            assert_true(value(g, "blk.0.attn_k.weight.in_sum2", 7) ==
                        (float)((double)h.sums[0] + (double)h.sums[1]));
            fy_gguf_close(g);
            fy_collector_free(all);
        }
        fy_collector_free(c);
        fy_session_free(s);
    }
    fy_model_close(m);
}

static void sums_that_no_window_has_are_refused(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    fy_model *m = open_tiny(&t);
    static const float good[D] = {1}, bad[][D] = {{-1}, {NAN}, {INFINITY}};
    fy_err e = {0};
    fy_collector *c = fy_collector_of(m, &e);
    uint32_t q = 0;
    const fy_gguf *g = fy_model_gguf(m);
    while (!fy_span_is(fy_gguf_tensor_at(g, q)->name, "blk.1.attn_q.weight"))
        q++;
    assert_int_equal(fy_collector_add(c, &(fy_collected_matrix){q, 0, 1, good, D}, &e), 0);
    const fy_collected_matrix none[] = {{UINT32_MAX, 0, 1, good, D}, {q, 1, 1, good, D},
                                        {q, 0, 1, good, D - 1},      {q, 0, 1, bad[0], D},
                                        {q, 0, 1, bad[1], D},        {q, 0, 1, bad[2], D}};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        e = (fy_err){0};
        assert_int_equal(fy_collector_add(c, &none[i], &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
    }
    fy_collector_free(c);
    fy_model_close(m);
}

static void nothing_computed_is_nothing_to_write(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    fy_model *m = open_tiny(&t);
    fy_err e = {0};
    fy_collected found;
    fy_session *s = new_session(m, 512, 1);
    fy_collector *c = fy_collector_new(s, &e);
    assert_int_equal(fy_collector_write(c, out, FY_SPAN("x"), 16, &found, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    fy_collector_free(c);
    fy_collector_free(NULL);
    fy_session_free(s);
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_of_what_goes_in),
        cmocka_unit_test(matrices_of_one_input_are_alike_and_the_rest_is_not_there),
        cmocka_unit_test(a_tensor_of_several_matrices_counts_once),
        cmocka_unit_test(experts_are_counted_one_by_one),
        cmocka_unit_test(bytes_depend_on_neither_batch_nor_threads),
        cmocka_unit_test(experts_that_nobody_chose_are_told),
        cmocka_unit_test(windows_are_summed_one_by_one),
        cmocka_unit_test(sums_that_no_window_has_are_refused),
        cmocka_unit_test(nothing_computed_is_nothing_to_write),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
