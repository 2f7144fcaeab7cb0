/* RWKV's recurrences against their definition in doubles, and the same bits in steps of any shape
 * over several sequences and threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"

enum { H = 3, N = 12, C = H * N, SEQS = 3, T = 20, LEN = 2 * C + H * N * N };

static float value(uint64_t i)
{
    return (float)((double)((i * 2654435761u + 12345) % 10007) / 5003.5 - 1);
}

/* [input][sequence][token][channel] */
enum { R, K, V, DECAY, A, SHARE, FIRST_V, GATE, INPUTS };
static float in[INPUTS][SEQS][T][C], weights[6][C];
static float expected[SEQS][T][C]; /* from one call for each sequence */

static void fill(void *p, size_t bytes, uint64_t from, float scale)
{
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        ((float *)p)[i] = scale * value(from + i);
}

static void draw(void)
{
    fill(in, sizeof in, 0, 2);
    fill(weights, sizeof weights, 1000000, 1);
}

/* A step's rows, gathered. */
typedef struct {
    float rows[INPUTS][SEQS * T][C];
} gathered;

static void gather(gathered *g, const fy_place *at, int n)
{
    for (int i = 0; i < INPUTS; i++) {
        for (int t = 0; t < n; t++)
            memcpy(g->rows[i][t], in[i][at[t].seq][at[t].pos], sizeof g->rows[i][t]);
    }
}

static fy_wkv mix_of(const gathered *g, const fy_place *at, fy_state_view state, int version)
{
    fy_wkv w = {.n_heads = H,
                .head_dim = N,
                .at = at,
                .state = state,
                .state_first = 2 * C,
                .r = g->rows[R][0],
                .k = g->rows[K][0],
                .v = g->rows[V][0],
                .decay = version == 5 ? weights[0] : g->rows[DECAY][0],
                .decay_is_fixed = version == 5,
                .first = weights[1],
                .gate = version == 5 ? NULL : g->rows[GATE][0],
                .norm = weights[2],
                .norm_bias = weights[3],
                .eps = 64e-5F};
    if (version == 7) {
        w.a = g->rows[A][0];
        w.v_share = g->rows[SHARE][0];
        w.v_first = g->rows[FIRST_V][0];
        w.k_k = weights[1];
        w.k_a = weights[4];
        w.r_k = weights[5];
    }
    return w;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* One token of one head, as the papers have it. S: [key][value]. */
static void define(double S[N][N], int version, int seq, int t, int h, double out[N])
{
    double y[N] = {0}, k[N], v[N], kk[N], a[N], decay[N], mean = 0, var = 0, bonus = 0, length = 0;
    const int o = h * N;
    for (int i = 0; i < N; i++) {
        k[i] = (double)in[K][seq][t][o + i];
        v[i] = (double)in[V][seq][t][o + i];
        const double d = (double)(version == 5 ? weights[0][o + i] : in[DECAY][seq][t][o + i]);
        decay[i] = version == 7 ? exp(-exp(-0.5) * sigmoid(d)) : exp(-exp(d));
    }
    if (version == 7) {
        for (int i = 0; i < N; i++) {
            a[i] = sigmoid((double)in[A][seq][t][o + i]);
            kk[i] = k[i] * (double)weights[1][o + i];
            length += kk[i] * kk[i];
        }
        for (int i = 0; i < N; i++) {
            kk[i] /= sqrt(length);
            k[i] *= 1 + (a[i] - 1) * (double)weights[4][o + i];
            v[i] += ((double)in[FIRST_V][seq][t][o + i] - v[i]) *
                    sigmoid((double)in[SHARE][seq][t][o + i]);
            bonus += (double)in[R][seq][t][o + i] * k[i] * (double)weights[5][o + i];
        }
    }
    for (int j = 0; j < N; j++) {
        double sa = 0;
        for (int i = 0; i < N && version == 7; i++)
            sa -= S[i][j] * kk[i];
        for (int i = 0; i < N; i++) {
            const double r = (double)in[R][seq][t][o + i];
            if (version == 7) {
                S[i][j] = S[i][j] * decay[i] + sa * kk[i] * a[i] + v[j] * k[i];
                y[j] += S[i][j] * r;
            } else {
                y[j] += r * ((double)weights[1][o + i] * k[i] * v[j] + S[i][j]);
                S[i][j] = S[i][j] * decay[i] + k[i] * v[j];
            }
        }
        mean += y[j] / N;
    }
    for (int j = 0; j < N; j++)
        var += (y[j] - mean) * (y[j] - mean) / N;
    for (int j = 0; j < N; j++) {
        out[j] = (y[j] - mean) / sqrt(var + 64e-5) * (double)weights[2][o + j] +
                 (double)weights[3][o + j] + bonus * v[j];
        out[j] *= version == 5 ? 1 : (double)in[GATE][seq][t][o + j];
    }
}

static fy_backend *new_backend(int n_threads)
{
    fy_err e = {0};
    const fy_backend_params p = {.n_threads = n_threads, .n_tokens = SEQS * T};
    fy_backend *b = fy_backend_new(&p, &e);
    assert_non_null(b);
    return b;
}

/* Each sequence in one call; compares with the definition and keeps the bits. */
static void compute_whole(int version)
{
    static float memory[2 * SEQS * LEN];
    static gathered g;
    uint8_t from[SEQS] = {0}, to[SEQS] = {1, 1, 1};
    fy_backend *b = new_backend(1);
    for (int s = 0; s < SEQS; s++) {
        fy_place at[T];
        for (int t = 0; t < T; t++)
            at[t] = (fy_place){s, t};
        gather(&g, at, T);
        const fy_wkv w =
            mix_of(&g, at, (fy_state_view){memory, SEQS * LEN, LEN, from, to}, version);
        fy_backend_wkv(b, expected[s][0], &w, T);
        for (int h = 0; h < H; h++) {
            double S[N][N] = {{0}}, out[N];
            for (int t = 0; t < T; t++) {
                define(S, version, s, t, h, out);
                for (int j = 0; j < N; j++)
                    assert_true(fabs(out[j] - (double)expected[s][t][h * N + j]) < 2e-4);
            }
        }
    }
    fy_backend_free(b);
}

static void steps_of_any_shape_give_the_same(void **state)
{
    (void)state;
    draw();
    for (int version = 5; version <= 7; version++) {
        compute_whole(version);
        for (int threads = 1; threads <= 3; threads++) {
            static float memory[2 * SEQS * LEN], out[SEQS * T][C];
            static gathered g;
            uint8_t from[SEQS] = {0, 1, 0}, to[SEQS] = {1, 0, 1};
            fy_backend *b = new_backend(threads);
            int next[SEQS] = {0};
            uint32_t draws = 1;
            memset(memory, 0x7f, sizeof memory); /* of a text before */
            for (int left = SEQS * T; left > 0;) {
                fy_place at[SEQS * T];
                int n = 0;
                for (int j = 0; j < 5; j++) {
                    draws = draws * 1664525u + 1013904223u;
                    const int seq = (int)(draws >> 16) % SEQS;
                    if (next[seq] < T)
                        at[n++] = (fy_place){seq, next[seq]++};
                }
                if (n == 0)
                    continue;
                gather(&g, at, n);
                const fy_wkv w =
                    mix_of(&g, at, (fy_state_view){memory, SEQS * LEN, LEN, from, to}, version);
                fy_backend_wkv(b, out[0], &w, n);
                for (int j = 0; j < n; j++) {
                    assert_memory_equal(out[j], expected[at[j].seq][at[j].pos], sizeof out[j]);
                    /* the halves change places, as from call to call */
                    from[at[j].seq] = to[at[j].seq];
                }
                for (int s = 0; s < SEQS; s++)
                    to[s] = from[s] ^ 1;
                left -= n;
            }
            fy_backend_free(b);
        }
    }
}

static void a_token_is_moved_towards_the_one_before(void **state)
{
    static float memory[2 * SEQS * LEN], x[SEQS * T][C], dx[SEQS * T][C], y[SEQS * T][C];
    const uint8_t from[SEQS] = {0}, to[SEQS] = {1, 1, 1};
    const fy_state_view view = {memory, SEQS * LEN, LEN, from, to};
    static const fy_place at[] = {{0, 0}, {1, 3}, {0, 1}, {1, 4}, {2, 0}};
    (void)state;
    fy_backend *b = new_backend(2);
    draw();
    fill(x, sizeof x, 0, 1);
    for (int i = 0; i < LEN * SEQS; i++)
        memory[i] = 7;
    fy_backend_token_shift(b, dx[0], x[0], at, &view, C, 5, C);
    for (int i = 0; i < C; i++) {
        assert_true(dx[0][i] == 0 - x[0][i] && dx[4][i] == 0 - x[4][i]);
        assert_true(dx[1][i] == 7 - x[1][i]);
        assert_true(dx[2][i] == x[0][i] - x[2][i] && dx[3][i] == x[1][i] - x[3][i]);
        assert_true(memory[SEQS * LEN + C + i] == x[2][i]);
        assert_true(memory[C + i] == 7); /* what the step began with */
    }
    fy_backend_lerp(b, y[0], x[0], dx[0], weights[0], NULL, 5, C);
    assert_true(y[2][5] == x[2][5] + dx[2][5] * weights[0][5]);
    fy_backend_lerp(b, y[0], x[0], dx[0], weights[0], in[A][0][0], 5, C);
    assert_true(y[2][5] == x[2][5] + dx[2][5] * (weights[0][5] + in[A][0][2][5]));
    fy_backend_free(b);
}

static void a_sigmoid_is_one_everywhere(void **state)
{
    static const float x[] = {-INFINITY, -200, -87.5F, -20, -1, -0.0F, 0.5F, 3, 90, INFINITY, NAN};
    enum { COUNT = sizeof x / sizeof x[0] };
    float y[COUNT];
    (void)state;
    fy_backend *b = new_backend(1);
    fy_backend_sigmoid(b, y, x, NULL, COUNT);
    for (int i = 0; i + 1 < COUNT; i++)
        assert_true(fabs((double)y[i] - sigmoid((double)x[i])) <= 1.2e-7);
    assert_true(isnan(y[COUNT - 1]));
    fy_backend_sigmoid(b, y, x + 4, x + 4, 3);
    assert_true(fabs((double)y[0] + sigmoid(-1)) < 1e-7);
    fy_backend_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_any_shape_give_the_same),
        cmocka_unit_test(a_token_is_moved_towards_the_one_before),
        cmocka_unit_test(a_sigmoid_is_one_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
