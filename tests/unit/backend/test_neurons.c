/* Feed-forward networks by neuron: which neurons count, listed rows against the whole product, and
 * the sum over neurons against its definition, for every type, batch and number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"
#include "kernels/row.h"

enum { N_FF = 300, N_EMBD = 512, TOKENS = FY_NEURON_TOKENS + 6 };

static const fy_type types[] = {FY_F32,  FY_F16,  FY_BF16, FY_Q8_0, FY_Q4_0,
                                FY_Q4_1, FY_Q5_0, FY_Q4_K, FY_Q6_K};
enum { N_TYPES = sizeof types / sizeof types[0] };

static float value(uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return (float)(int32_t)(x >> 32) * 0x1p-31f;
}

static uint8_t stored[N_FF * N_EMBD * sizeof(float)];
static float wide[N_FF][N_EMBD], bias[N_FF + N_EMBD];

/* A matrix of the type, and what its elements are. */
static fy_matrix make_matrix(fy_type t)
{
    const fy_kernels k = fy_kernels_for(0);
    const fy_matrix w = {.data = stored,
                         .type = t,
                         .row_bytes = (size_t)fy_type_row_bytes(t, N_EMBD),
                         .n_rows = N_FF,
                         .n_cols = N_EMBD};
    for (int r = 0; r < N_FF; r++) {
        fy_row_fault fault;
        for (int i = 0; i < N_EMBD; i++)
            wide[r][i] = 0.1f * value((uint64_t)(r * N_EMBD + i));
        assert_int_equal(
            fy_row_encode(&k, t, stored + (size_t)r * w.row_bytes, wide[r], N_EMBD, NULL, &fault),
            0);
        fy_row_decode(&k, t, wide[r], stored + (size_t)r * w.row_bytes, N_EMBD);
    }
    for (int i = 0; i < N_FF + N_EMBD; i++)
        bias[i] = value((uint64_t)i + 77);
    return w;
}

static fy_backend *open_backend(int threads)
{
    fy_err e = {0};
    const fy_backend_params p = {.n_threads = threads, .n_tokens = TOKENS, .q8_len = N_EMBD};
    fy_backend *b = fy_backend_new(&p, &e);
    assert_non_null(b);
    return b;
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* --- which count --- */

static void what_is_above_the_threshold_or_nan_counts(void **state)
{
    (void)state;
    float v[] = {0.5f, -1, 0.01f, NAN, 0, -0.0f, 2, INFINITY, -INFINITY};
    int32_t id[9];
    fy_neurons a = {v, id, 0};
    fy_neurons_all(&a, 9);
    fy_neurons_above(&a, 0.01f);
    static const int32_t expected[] = {0, 3, 6, 7};
    assert_int_equal(a.n, 4);
    assert_memory_equal(id, expected, sizeof expected);
    assert_true(v[0] == 0.5f && isnan(v[1]) && v[2] == 2 && isinf(v[3]));
}

static void zeros_of_either_sign_do_not(void **state)
{
    (void)state;
    float v[2][5] = {{0, -0.0f, -1, NAN, 1e-45f}, {0, 0, 0, 0, 0}};
    int32_t id[2][5];
    fy_neurons a[2] = {{v[0], id[0], 5}, {v[1], id[1], 5}};
    fy_backend *b = open_backend(2);
    fy_backend_list_neurons(b, a, 2);
    fy_backend_free(b);
    assert_int_equal(a[0].n, 3);
    assert_int_equal(a[1].n, 0);
    assert_int_equal(id[0][0], 2);
    assert_int_equal(id[0][2], 4);
    assert_true(v[0][0] == -1 && isnan(v[0][1]) && v[0][2] == 1e-45f);
}

/* --- which are predicted --- */

static void a_score_below_the_threshold_leaves_a_neuron_out_and_no_other(void **state)
{
    (void)state;
    static const float score[] = {0.25f, 0.2499f, NAN, INFINITY, -INFINITY, 0.26f};
    static const int32_t expected[] = {0, 2, 3, 5};
    int32_t id[6];
    fy_neurons a = {NULL, id, 0};
    fy_neurons_predicted(&a, score, 6, 0.25f);
    assert_int_equal(a.n, 4);
    assert_memory_equal(id, expected, sizeof expected);
    fy_neurons_predicted(&a, score, 6, -INFINITY);
    assert_int_equal(a.n, 6);
    fy_neurons_predicted(&a, score, 6, INFINITY);
    assert_int_equal(a.n, 2); /* infinity itself, and NaN */
}

static void a_masked_batch_keeps_what_the_list_of_each_token_has(void **state)
{
    (void)state;
    enum { N = 7, COLS = 5 };
    for (int threads = 1; threads <= 3; threads++) {
        float value_of[COLS][N], score[COLS][N];
        int64_t n_kept = 0;
        for (int i = 0; i < COLS * N; i++) {
            value_of[i / N][i % N] = i % 4 == 0 ? NAN : (float)i;
            score[i / N][i % N] = i % 6 == 0 ? NAN : value((uint64_t)i);
        }
        fy_backend *b = open_backend(threads);
        const int64_t n = fy_backend_mask(b, value_of[0], score[0], 0.1f, COLS, N);
        fy_backend_free(b);
        for (int c = 0; c < COLS; c++) {
            int32_t id[N];
            fy_neurons a = {NULL, id, 0};
            fy_neurons_predicted(&a, score[c], N, 0.1f);
            n_kept += a.n;
            for (int r = 0, i = 0; r < N; r++) {
                const bool kept = i < a.n && id[i] == r;
                const int at = c * N + r;
                assert_true(same_bits(value_of[c][r], !kept ? 0 : at % 4 == 0 ? NAN : (float)at));
                i += kept;
            }
        }
        assert_int_equal(n, n_kept);
        assert_in_range(n, 1, COLS * N - 1);
    }
}

/* --- rows that are listed --- */

static void check_listed(fy_backend *b, const fy_matrix *w, const float *x, int every)
{
    static float all[N_FF], some[N_FF];
    int32_t list[N_FF];
    int n = 0;
    for (int r = every / 2; r < N_FF; r += every)
        list[n++] = r;
    const fy_product whole = {.w = w, .bias = bias, .y = all},
                     listed = {.w = w, .bias = bias, .y = some};
    fy_backend_matmul(b, x, 1, &whole, 1);
    for (int r = 0; r < N_FF; r++)
        some[r] = 1234;
    fy_backend_dot_rows(b, x, &listed, list, n);
    for (int r = 0, i = 0; r < N_FF; r++) {
        const bool is_listed = i < n && list[i] == r;
        assert_true(same_bits(some[r], is_listed ? all[r] : 1234));
        i += is_listed;
    }
}

static void listed_rows_have_the_bits_of_the_whole_product(void **state)
{
    (void)state;
    static float x[N_EMBD];
    for (int i = 0; i < N_EMBD; i++)
        x[i] = value((uint64_t)i + 5);
    for (int t = 0; t < N_TYPES; t++) {
        const fy_matrix w = make_matrix(types[t]);
        for (int threads = 1; threads <= 3; threads += 2) {
            fy_backend *b = open_backend(threads);
            for (int every = 1; every <= N_FF; every += every < 4 ? 1 : 37)
                check_listed(b, &w, x, every);
            fy_backend_free(b);
        }
    }
}

/* --- sums over neurons --- */

static float values[TOKENS][N_FF];
static int32_t ids[TOKENS][N_FF];
static float y[TOKENS][N_EMBD], sum[TOKENS][N_EMBD];

/* Every token has other neurons; some have none, or all. */
static void make_tokens(fy_neurons tokens[TOKENS])
{
    for (int c = 0; c < TOKENS; c++) {
        int n = 0;
        for (int r = 0; r < N_FF; r++) {
            if (c % 7 != 3 && (c % 7 == 1 || value((uint64_t)(c * N_FF + r)) > 0.3f)) {
                ids[c][n] = r;
                values[c][n++] = value((uint64_t)(r * TOKENS + c));
            }
        }
        tokens[c] = (fy_neurons){values[c], ids[c], n};
    }
}

static float defined(const fy_neurons *a, int j)
{
    float acc = 0;
    for (int64_t i = 0; i < a->n; i++)
        acc = fmaf(a->value[i], wide[a->id[i]][j], acc);
    return acc + bias[j];
}

static void check_sums(fy_backend *b, const fy_matrix *w, const fy_neurons *tokens, int n)
{
    float *const out = y[0], *const sums = sum[0]; /* [n][n_cols] */
    const fy_product p = {.w = w, .bias = bias, .y = out, .sum = sums};
    const int n_cols = (int)w->n_cols;
    for (int i = 0; i < n * n_cols; i++)
        sums[i] = (float)i;
    memset(y, 0x7f, sizeof y);
    fy_backend_add_rows(b, tokens, n, &p);
    for (int i = 0; i < n * n_cols; i++) {
        const float expected = defined(&tokens[i / n_cols], i % n_cols);
        assert_true(same_bits(out[i], expected));
        assert_true(same_bits(sums[i], (float)i + expected));
    }
}

static void sums_are_chains_in_the_order_of_the_neurons(void **state)
{
    (void)state;
    static const int batches[] = {1, 2, 9, TOKENS};
    fy_neurons tokens[TOKENS];
    make_tokens(tokens);
    for (int t = 0; t < N_TYPES; t++) {
        const fy_matrix w = make_matrix(types[t]);
        fy_matrix less = w; /* the last columns fill a part of a tile */
        less.n_cols -= fy_type_get((uint32_t)types[t])->block;
        for (int threads = 1; threads <= 3; threads += 2) {
            fy_backend *b = open_backend(threads);
            for (int i = 0; i < 4; i++) {
                check_sums(b, &w, tokens, batches[i]);
                check_sums(b, &less, tokens, batches[i]);
            }
            fy_backend_free(b);
        }
    }
}

/* What is not listed is not looked at, in a batch either. */
static void weights_of_other_neurons_may_be_anything(void **state)
{
    (void)state;
    fy_neurons tokens[2];
    const fy_matrix w = make_matrix(FY_F32);
    for (int j = 0; j < N_EMBD; j++) {
        const float bad = j % 2 ? NAN : INFINITY;
        memcpy(stored + 7 * w.row_bytes + (size_t)j * sizeof bad, &bad, sizeof bad);
    }
    for (int c = 0; c < 2; c++) {
        ids[c][0] = 6;
        ids[c][1] = 8;
        values[c][0] = values[c][1] = 1;
        tokens[c] = (fy_neurons){values[c], ids[c], 2};
    }
    fy_backend *b = open_backend(1);
    check_sums(b, &w, tokens, 1);
    check_sums(b, &w, tokens, 2);
    ids[1][1] = 7;
    const fy_product p = {.w = &w, .y = y[0]};
    fy_backend_add_rows(b, tokens, 2, &p);
    assert_true(isfinite(y[0][0]) && !isfinite(y[1][0]) && isnan(y[1][1]));
    fy_backend_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_above_the_threshold_or_nan_counts),
        cmocka_unit_test(zeros_of_either_sign_do_not),
        cmocka_unit_test(a_score_below_the_threshold_leaves_a_neuron_out_and_no_other),
        cmocka_unit_test(a_masked_batch_keeps_what_the_list_of_each_token_has),
        cmocka_unit_test(listed_rows_have_the_bits_of_the_whole_product),
        cmocka_unit_test(sums_are_chains_in_the_order_of_the_neurons),
        cmocka_unit_test(weights_of_other_neurons_may_be_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
