/* Residual streams and sparse gates against a computation by hand, whatever the threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"

enum { T = 5, N = 67, K = 3 };

static float value(uint32_t i)
{
    return (float)((i * 2654435761U >> 8) % 20001) / 10000 - 1;
}

static void fill(float *x, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = value(i + seed);
}

static fy_backend *new_backend(int n_threads)
{
    fy_err e = {0};
    const fy_backend_params p = {.n_threads = n_threads, .n_tokens = T};
    fy_backend *b = fy_backend_new(&p, &e);
    assert_non_null(b);
    return b;
}

static void near(float found, double expected)
{
    if (!(fabs((double)found - expected) <= 1e-6 * (1 + fabs(expected))))
        fail_msg("%.9g, not %.9g", (double)found, expected);
}

static void every_stream_gets_what_its_row_of_weights_says(void **state)
{
    (void)state;
    static float x[K][T * N], was[K][T * N], c[T * K * K];
    for (int threads = 1; threads <= 3; threads += 2) {
        fy_backend *b = new_backend(threads);
        for (uint32_t j = 0; j < K; j++)
            fill(x[j], T * N, 1000 * j);
        fill(c, T * K * K, 77);
        memcpy(was, x, sizeof was);
        const fy_streams s = {.x = {x[0], x[1], x[2]}, .n_streams = K};
        fy_backend_mix_streams(b, &s, c, T, N);
        for (int e = 0; e < T * N; e++) {
            for (int to = 0; to < K; to++) {
                double sum = (double)was[to][e];
                for (int i = 0; i < K; i++)
                    sum += (double)c[e / N * K * K + to * K + i] * (double)was[i][e];
                near(x[to][e], sum);
            }
        }
        fy_backend_free(b);
    }
}

static void what_the_layer_found_corrects_all(void **state)
{
    (void)state;
    static float x[K][T * N], was[K][T * N], first[T * N], c[T * K];
    fy_backend *b = new_backend(2);
    for (uint32_t j = 0; j < K; j++)
        fill(x[j], T * N, 1000 * j);
    fill(first, T * N, 5);
    fill(c, T * K, 9);
    memcpy(was, x, sizeof was);
    const fy_streams s = {.x = {x[0], x[1], x[2]}, .n_streams = K};
    fy_backend_correct_streams(b, &s, first, c, T, N);
    for (int e = 0; e < T * N; e++) {
        for (int j = 0; j < K; j++)
            near(x[j][e],
                 (double)(j == 0 ? first[e] : was[j][e]) +
                     (1 + (double)c[e / N * K + j]) * ((double)was[0][e] - (double)first[e]));
    }
    fy_backend_free(b);
}

static double mean_square(const float *x)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += (double)x[i] * (double)x[i] / N;
    return sum;
}

static void rows_become_as_large_as_others(void **state)
{
    (void)state;
    static float x[T * N], like[T * N];
    fy_backend *b = new_backend(2);
    fill(x, T * N, 3);
    fill(like, T * N, 4);
    for (int i = 0; i < N; i++)
        x[i] *= 1e-4F; /* of a mean square below 1e-5 */
    const double small = mean_square(x);
    fy_backend_match_size(b, x, like, T, N);
    near((float)mean_square(x), mean_square(like) * small / 1e-5);
    for (int t = 1; t < T; t++)
        near((float)mean_square(x + t * N), mean_square(like + t * N));
    fy_backend_free(b);
}

static void only_gates_above_the_cut_remain(void **state)
{
    (void)state;
    static float x[T * N], was[T * N];
    fy_backend *b = new_backend(2);
    fill(x, T * N, 3);
    memcpy(was, x, sizeof was);
    fy_backend_sparsify(b, x, 0.5F, T, N);
    for (int t = 0; t < T; t++) {
        double mean = 0, square = 0;
        int n = 0;
        for (int i = 0; i < N; i++)
            mean += (double)was[t * N + i] / N;
        for (int i = 0; i < N; i++)
            square += pow((double)was[t * N + i] - mean, 2) / N;
        for (int i = 0; i < N; i++) {
            near(x[t * N + i], fmax(0, (double)was[t * N + i] - mean - 0.5 * sqrt(square)));
            n += x[t * N + i] > 0;
        }
        assert_in_range(n, 5, N / 2);
    }
    fy_backend_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stream_gets_what_its_row_of_weights_says),
        cmocka_unit_test(what_the_layer_found_corrects_all),
        cmocka_unit_test(rows_become_as_large_as_others),
        cmocka_unit_test(only_gates_above_the_cut_remain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
