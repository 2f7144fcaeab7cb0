#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"

enum { MAX_TOKENS = 40, MAX_LEN = 512, MAX_DIM = 128 };

static fy_backend *new_backend(int n_threads)
{
    fy_err e = {0};
    fy_backend_params p = {
        .n_threads = n_threads, .n_tokens = MAX_TOKENS, .q8_len = MAX_LEN, .head_dim = MAX_DIM};
    fy_backend *b = fy_backend_new(&p, &e);
    assert_non_null(b);
    return b;
}

static float value(uint64_t i)
{
    return (float)((double)((i * 2654435761u + 12345) % 10007) / 5003.5 - 1);
}

static void fill(float *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value(i + seed * 100003);
}

static fy_matrix f32_matrix(const float *w, int64_t rows, int64_t cols)
{
    return (fy_matrix){
        .data = w, .type = FY_F32, .row_bytes = (size_t)cols * 4, .n_rows = rows, .n_cols = cols};
}

static void products_have_bias_and_are_added_to_a_sum(void **state)
{
    (void)state;
    enum { K = 96, R1 = 100, R2 = 33, N = 5 };
    static float w1[R1 * K], w2[R2 * K], x[N * K], bias[R1], y1[N * R1], y2[N * R2], sum[N * R2];
    fill(w1, R1 * K, 1);
    fill(w2, R2 * K, 2);
    fill(x, N * K, 3);
    fill(bias, R1, 4);
    fill(sum, N * R2, 5);
    fy_matrix m1 = f32_matrix(w1, R1, K), m2 = f32_matrix(w2, R2, K);
    for (int threads = 1; threads <= 3; threads++) {
        fy_backend *b = new_backend(threads);
        fill(sum, N * R2, 5);
        fy_product p[] = {{.w = &m1, .bias = bias, .y = y1}, {.w = &m2, .y = y2, .sum = sum}};
        fy_backend_matmul(b, x, N, p, 2);
        for (int c = 0; c < N; c++) {
            for (int r = 0; r < R1 + R2; r++) {
                const float *row = r < R1 ? w1 + r * K : w2 + (r - R1) * K;
                double want = r < R1 ? (double)bias[r] : 0;
                for (int i = 0; i < K; i++)
                    want += (double)row[i] * (double)x[c * K + i];
                double got = (double)(r < R1 ? y1[c * R1 + r] : y2[c * R2 + r - R1]);
                assert_true(fabs(got - want) < 1e-4);
                int at = c * R2 + r - R1;
                assert_true(r < R1 || sum[at] == value((uint64_t)at + 5 * 100003) + y2[at]);
            }
        }
        fy_backend_free(b);
    }
}

static void large_products_are_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    enum { K = 512, R = 700, N = 40 };
    float *w = malloc(sizeof(float) * R * K), *x = malloc(sizeof(float) * N * K),
          *y = malloc(sizeof(float) * N * R * 2);
    assert_true(w != NULL && x != NULL && y != NULL);
    fill(w, R * K, 1);
    fill(x, N * K, 2);
    fy_matrix m = f32_matrix(w, R, K);
    for (int threads = 1; threads <= 4; threads++) {
        fy_backend *b = new_backend(threads);
        float *out = threads == 1 ? y : y + N * R;
        fy_backend_matmul(b, x, N, &(fy_product){.w = &m, .y = out}, 1);
        assert_memory_equal(out, y, sizeof(float) * N * R);
        for (int c = 0; c < N; c++) { /* a column alone is that column of the batch */
            fy_backend_matmul(b, x + c * K, 1, &(fy_product){.w = &m, .y = y + N * R}, 1);
            assert_memory_equal(y + N * R, y + c * R, sizeof(float) * R);
        }
        fy_backend_free(b);
    }
    free(w);
    free(x);
    free(y);
}

static void rotation_turns_neighbours_or_halves_and_leaves_the_rest(void **state)
{
    (void)state;
    enum { N = 3, H = 2, DIM = 32, ROT = 22, HALF = ROT / 2 };
    float angles[N * ROT];
    for (int t = 0; t < N; t++) {
        for (int i = 0; i < HALF; i++) {
            angles[t * ROT + 2 * i] = cosf((float)t + 0.5f * (float)i);
            angles[t * ROT + 2 * i + 1] = sinf((float)t + 0.5f * (float)i);
        }
    }
    fy_backend *b = new_backend(2);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        float x[N * H * DIM], old[N * H * DIM];
        fill(x, N * H * DIM, 8);
        memcpy(old, x, sizeof x);
        fy_rotation r = {.n_heads = H,
                         .head_dim = DIM,
                         .n_rot = ROT,
                         .interleaved = interleaved,
                         .angles = angles};
        fy_backend_rotate(b, x, N, &r);
        for (int i = 0; i < N * H * DIM; i++) {
            int t = i / (H * DIM), j = i % DIM;
            int pair = interleaved ? j / 2 : j % HALF, second = interleaved ? j % 2 : j / HALF;
            int other = (interleaved ? 1 : HALF) * (second ? -1 : 1);
            const float *angle = angles + t * ROT + 2 * (pair % HALF);
            float c = angle[0], s = angle[1];
            float want = j >= ROT ? old[i]
                         : second ? old[i + other] * s + old[i] * c
                                  : old[i] * c - old[i + other] * s;
            assert_true(fabsf(x[i] - want) < 1e-6f);
        }
    }
    fy_backend_free(b);
}

/* Attention over constant keys is a mean of values: what is visible can be counted. */
static void a_query_sees_its_own_position_and_before_within_the_window(void **state)
{
    (void)state;
    enum { H = 4, HKV = 2, DIM = 16, N = 30, CTX = 64 };
    static uint32_t k_cache[HKV * CTX * DIM], v_cache[HKV * CTX * DIM];
    static float k[N * HKV * DIM], v[N * HKV * DIM], q[N * H * DIM], out[N * H * DIM];
    for (int t = 0; t < N; t++) {
        for (int h = 0; h < HKV; h++) {
            for (int i = 0; i < DIM; i++)
                v[(t * HKV + h) * DIM + i] = (float)(t + 100 * h);
        }
    }
    fill(q, N * H * DIM, 3);
    const int64_t windows[] = {0, 1, 5, 64};
    const fy_type types[] = {FY_F32, FY_F16};
    for (int w = 0; w < 8; w++) {
        memset(k_cache, 0xFF, sizeof k_cache); /* NaN where nothing was stored */
        memset(v_cache, 0xFF, sizeof v_cache);
        fy_kv_layer kv = {.k = k_cache,
                          .v = v_cache,
                          .type_k = types[w / 4],
                          .type_v = types[w / 4],
                          .n_rows = CTX,
                          .n_head_kv = HKV,
                          .head_dim = DIM,
                          .head_dim_v = DIM};
        fy_place places[N];
        for (int t = 0; t < N; t++)
            places[t] = (fy_place){.pos = t};
        fy_backend *b = new_backend(2);
        for (int at = 0, n = 11; at < N; at += n, n = N - at) { /* two batches */
            fy_backend_store(b, &kv, k + at * HKV * DIM, v + at * HKV * DIM, places + at, n);
            fy_attention a = {
                .kv = &kv, .at = places + at, .n_head = H, .n_swa = windows[w % 4], .scale = 0.25f};
            fy_backend_attend(b, out + at * H * DIM, q + at * H * DIM, n, &a);
        }
        for (int t = 0; t < N; t++) {
            int64_t oldest = windows[w % 4] > 0 && t >= windows[w % 4] ? t - windows[w % 4] + 1 : 0;
            for (int h = 0; h < H; h++) {
                float want = (float)(t + oldest) / 2 + (float)(100 * (h / 2));
                for (int i = 0; i < DIM; i++)
                    assert_true(fabsf(out[(t * H + h) * DIM + i] - want) < 1e-3f);
            }
        }
        fy_backend_free(b);
    }
}

static void activations_and_norms_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    enum { N = 9, LEN = 2500 };
    static float gate[N * LEN], up[N * LEN], one[LEN], w[LEN], y[N * LEN];
    fill(up, N * LEN, 1);
    fill(w, LEN, 2);
    fy_backend *b = new_backend(3);
    for (int kind = 0; kind < FY_ACT_COUNT; kind++) {
        const fy_activation f = {(fy_act_kind)kind, 0.1f};
        const fy_norm norm = {
            .w = w, .bias = kind % 2 ? w : NULL, .eps = 1e-6f, .centred = kind > 1};
        const bool plain = kind == FY_ACT_RELU;
        fill(gate, N * LEN, 3);
        fy_backend_activate(b, &f, gate, plain ? NULL : up, N, LEN);
        fy_backend_norm(b, y, up, &norm, N, LEN);
        for (int t = 0; t < N; t++) {
            for (int i = 0; i < LEN; i++)
                one[i] = value((uint64_t)(t * LEN + i) + 3 * 100003);
            fy_backend_activate(b, &f, one, plain ? NULL : up + t * LEN, 1, LEN);
            assert_memory_equal(one, gate + t * LEN, sizeof one);
            fy_backend_norm(b, one, up + t * LEN, &norm, 1, LEN);
            assert_memory_equal(one, y + t * LEN, sizeof one);
        }
    }
    fy_backend_free(b);
}

static void a_layer_norm_takes_the_mean_away(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4}, w[] = {1, 1, 2, 1}, bias[] = {0, 10, 0, 0};
    const double s = 1 / sqrt(1.25 + 1e-5);
    const double expected[] = {-1.5 * s, -0.5 * s + 10, 0.5 * s * 2, 1.5 * s};
    float y[4];
    fy_backend *b = new_backend(1);
    fy_backend_norm(b, y, x, &(fy_norm){w, bias, 1e-5f, true}, 1, 4);
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)y[i] - expected[i]) < 1e-6);
    fy_backend_free(b);
}

static void numbers_are_scaled_added_and_capped_one_by_one(void **state)
{
    (void)state;
    enum { LEN = 40003 };
    static float x[LEN], y[LEN];
    for (int threads = 1; threads <= 3; threads++) {
        fy_backend *b = new_backend(threads);
        fill(x, LEN, 1);
        fill(y, LEN, 2);
        fy_backend_add(b, x, y, 0.5f, LEN);
        fy_backend_scale(b, x, 3, LEN);
        for (int i = 0; i < LEN; i++) {
            const float sum = value((uint64_t)i + 100003) + 0.5f * value((uint64_t)i + 2 * 100003);
            assert_true(x[i] == sum * 3);
        }
        fy_backend_softcap(b, x, 2, LEN);
        for (int i = 0; i < LEN; i++) {
            const float sum = value((uint64_t)i + 100003) + 0.5f * value((uint64_t)i + 2 * 100003);
            assert_true(fabsf(x[i] - 2 * tanhf(sum * 3 / 2)) < 1e-6f);
        }
        fy_backend_free(b);
    }
}

static void rows_are_gathered_and_scattered(void **state)
{
    (void)state;
    enum { LEN = 33, ROWS = 20, PICKED = 7 };
    static float x[ROWS * LEN], y[PICKED * LEN], before[ROWS * LEN];
    const int32_t rows[PICKED] = {0, 3, 4, 9, 10, 18, 19};
    const float weights[PICKED] = {1, 0.5f, -2, 0, 3, 4, 5};
    fill(x, ROWS * LEN, 1);
    memcpy(before, x, sizeof x);
    fy_backend *b = new_backend(2);
    fy_backend_gather(b, y, x, rows, PICKED, LEN);
    for (int i = 0; i < PICKED; i++)
        assert_memory_equal(y + i * LEN, x + rows[i] * LEN, LEN * sizeof(float));
    fy_backend_scatter_add(b, x, y, rows, weights, PICKED, LEN);
    for (int i = 0, next = 0; i < ROWS; i++) {
        const bool picked = next < PICKED && rows[next] == i;
        const float weight = picked ? weights[next++] : 0;
        for (int j = i * LEN; j < (i + 1) * LEN; j++)
            assert_true(x[j] == before[j] + weight * before[j]);
    }
    fill(x, ROWS * LEN, 1);
    fy_backend_scatter_add(b, x, y, NULL, weights, PICKED, LEN);
    for (int j = 0; j < ROWS * LEN; j++)
        assert_true(x[j] == before[j] + (j < PICKED * LEN ? weights[j / LEN] * y[j] : 0));
    fy_backend_free(b);
}

static void embeddings_are_rows_of_the_matrix(void **state)
{
    (void)state;
    static float w[50 * 32], y[3 * 32];
    fill(w, 50 * 32, 1);
    fy_matrix m = f32_matrix(w, 50, 32);
    fy_backend *b = new_backend(1);
    fy_backend_embed(b, y, &m, (int32_t[]){49, 0, 7}, 3);
    assert_memory_equal(y, w + 49 * 32, 32 * 4);
    assert_memory_equal(y + 32, w, 32 * 4);
    assert_memory_equal(y + 64, w + 7 * 32, 32 * 4);
    fy_backend_free(b);
}

static void sizes_that_fit_no_memory_are_refused(void **state)
{
    (void)state;
    const fy_backend_params cases[] = {
        {.n_threads = 1, .n_tokens = INT64_MAX / 2, .q8_len = 64, .head_dim = 1},
        {.n_threads = 256, .n_tokens = 1, .q8_len = 0, .head_dim = INT64_MAX / 2},
    };
    for (int i = 0; i < 2; i++) {
        fy_err e = {0};
        uint64_t bytes = 7;
        assert_int_equal(fy_backend_bytes(&cases[i], &bytes, &e), -1);
        assert_int_equal(e.code, FY_EFIT);
        assert_int_equal(bytes, 7);
        assert_null(fy_backend_new(&cases[i], NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_have_bias_and_are_added_to_a_sum),
        cmocka_unit_test(large_products_are_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(rotation_turns_neighbours_or_halves_and_leaves_the_rest),
        cmocka_unit_test(a_query_sees_its_own_position_and_before_within_the_window),
        cmocka_unit_test(activations_and_norms_do_not_depend_on_the_batch),
        cmocka_unit_test(a_layer_norm_takes_the_mean_away),
        cmocka_unit_test(numbers_are_scaled_added_and_capped_one_by_one),
        cmocka_unit_test(rows_are_gathered_and_scattered),
        cmocka_unit_test(embeddings_are_rows_of_the_matrix),
        cmocka_unit_test(sizes_that_fit_no_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
