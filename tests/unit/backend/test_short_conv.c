/* The short convolution against its definition, in steps of several sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"

enum { N = 130, SEQS = 3, T = 24, MOST_K = 7 };

static float value(uint64_t i)
{
    return (float)((double)((i * 2654435761u + 12345) % 10007) / 5003.5 - 1);
}

static float w[N * MOST_K], in[SEQS][T][3 * N], expected[SEQS][T][N];

/* y(t) = sum of w[j] u(t - k + 1 + j), from the whole text of a sequence. */
static void define(int k)
{
    for (int i = 0; i < N * k; i++)
        w[i] = value((uint64_t)i + 7);
    for (int s = 0; s < SEQS; s++) {
        for (int t = 0; t < T; t++) {
            for (int i = 0; i < 3 * N; i++)
                in[s][t][i] = value((uint64_t)((s * T + t) * 3 * N + i));
        }
        for (int t = 0; t < T; t++) {
            for (int i = 0; i < N; i++) {
                float sum = 0;
                for (int j = 0; j < k; j++) {
                    const int at = t - k + 1 + j;
                    const float u = at >= 0 ? in[s][at][i] * in[s][at][2 * N + i] : 0;
                    sum = j == 0 ? w[i * k] * u : sum + w[i * k + j] * u;
                }
                expected[s][t][i] = in[s][t][N + i] * sum;
            }
        }
    }
}

/* Computes n tokens, given as sequence and position, and compares. */
static void step(fy_backend *b, const fy_short_conv *c, const fy_place *at, int n)
{
    static float x[SEQS * T][3 * N], y[SEQS * T][N];
    fy_short_conv here = *c;
    here.at = at;
    for (int i = 0; i < n; i++)
        memcpy(x[i], in[at[i].seq][at[i].pos], sizeof x[i]);
    fy_backend_short_conv(b, y[0], x[0], n, &here);
    for (int i = 0; i < n; i++)
        assert_memory_equal(y[i], expected[at[i].seq][at[i].pos], sizeof y[i]);
}

static void steps_of_any_shape_give_the_same(void **state)
{
    static const int lengths[] = {2, 3, MOST_K};
    (void)state;
    for (int i = 0; i < 3; i++) {
        for (int threads = 1; threads <= 3; threads++) {
            static float memory[2 * SEQS * (MOST_K - 1) * N];
            uint8_t from[SEQS] = {0, 1, 0}, to[SEQS] = {1, 0, 1};
            fy_err e = {0};
            const fy_backend_params p = {.n_threads = threads, .n_tokens = SEQS * T};
            fy_backend *b = fy_backend_new(&p, &e);
            assert_non_null(b);
            const size_t len = (size_t)(lengths[i] - 1) * N;
            const fy_short_conv c = {.w = w,
                                     .n_channels = N,
                                     .length = lengths[i],
                                     .state = {memory, SEQS * len, len, from, to}};
            define(lengths[i]);
            memset(memory, 0x7f, sizeof memory); /* of a text before */
            int next[SEQS] = {0};
            uint32_t draw = 1;
            for (int left = SEQS * T; left > 0;) {
                fy_place at[SEQS * T];
                int n = 0;
                for (int j = 0; j < 5; j++) {
                    draw = draw * 1664525u + 1013904223u;
                    const int seq = (int)(draw >> 16) % SEQS;
                    if (next[seq] < T)
                        at[n++] = (fy_place){seq, next[seq]++};
                }
                if (n == 0)
                    continue;
                step(b, &c, at, n);
                for (int j = 0; j < n; j++)
                    from[at[j].seq] = to[at[j].seq];
                left -= n;
            }
            fy_backend_free(b);
        }
    }
}

static void what_a_step_began_with_is_kept(void **state)
{
    static float memory[2 * 2 * N], was[2 * N];
    static const uint8_t from[] = {0}, to[] = {1};
    (void)state;
    fy_err e = {0};
    const fy_backend_params p = {.n_threads = 1, .n_tokens = T};
    fy_backend *b = fy_backend_new(&p, &e);
    assert_non_null(b);
    define(3);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < N; i++)
            memory[t * N + i] = in[0][3 + t][i] * in[0][3 + t][2 * N + i];
    }
    memcpy(was, memory, sizeof was);
    const fy_short_conv c = {
        .w = w, .n_channels = N, .length = 3, .state = {memory, 2 * N, 2 * N, from, to}};
    static const fy_place at[] = {{0, 5}, {0, 6}, {0, 7}};
    step(b, &c, at, 3);
    assert_memory_equal(memory, was, sizeof was);
    step(b, &c, at, 3); /* once more, from the same */
    fy_backend_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_any_shape_give_the_same),
        cmocka_unit_test(what_a_step_began_with_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
