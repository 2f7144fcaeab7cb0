/* The Mamba-2 mixer against its definition in double, and the same bits in steps of any shape. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"
#include "base/cpu.h"

enum { SEQS = 3, T = 20, MOST_INNER = 180, MOST_STATE = 24, MOST_HEADS = 9, MOST_K = 5 };
enum {
    MOST_CHANNELS = MOST_INNER + 2 * 3 * MOST_STATE,
    MOST_ROW = MOST_INNER + MOST_CHANNELS + MOST_HEADS,
    MOST_LEN = (MOST_K - 1) * MOST_CHANNELS + MOST_INNER * MOST_STATE,
};

typedef struct {
    int inner, heads, groups, state, k;
    bool normed;
} shape;

/* Heads of 20, which are lanes and a rest; of 3, all rest; of one lane. */
static const shape shapes[] = {{180, 9, 3, 24, 4, true},
                               {18, 6, 2, 5, 2, true},
                               {64, 4, 1, 16, 5, false},
                               {16, 1, 1, 1, 3, true}};

static float conv[MOST_CHANNELS * MOST_K], conv_bias[MOST_CHANNELS], dt_bias[MOST_HEADS];
static float a[MOST_HEADS], d[MOST_HEADS], norm[MOST_INNER];
static float in[SEQS][T][MOST_ROW], once[SEQS][T][MOST_INNER];
static double expected[SEQS][T][MOST_INNER];

static float value(uint64_t i)
{
    return (float)((double)((i * 2654435761u + 12345) % 10007) / 5003.5 - 1);
}

static int n_channels(const shape *s)
{
    return s->inner + 2 * s->groups * s->state;
}

static int row_len(const shape *s)
{
    return s->inner + n_channels(s) + s->heads;
}

static void fill(const shape *s)
{
    for (int i = 0; i < n_channels(s) * s->k; i++)
        conv[i] = value((uint64_t)i + 7);
    for (int i = 0; i < n_channels(s); i++)
        conv_bias[i] = 0.3F * value((uint64_t)i + 99);
    for (int h = 0; h < s->heads; h++) {
        dt_bias[h] = value((uint64_t)h + 5);
        a[h] = -0.2F - (value((uint64_t)h + 11) + 1);
        d[h] = value((uint64_t)h + 17);
    }
    for (int i = 0; i < s->inner; i++)
        norm[i] = 1 + 0.2F * value((uint64_t)i + 23);
    for (int q = 0; q < SEQS; q++) {
        for (int t = 0; t < T; t++) {
            for (int i = 0; i < row_len(s); i++)
                in[q][t][i] = 2 * value((uint64_t)((q * T + t) * MOST_ROW + i));
        }
    }
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* x, B, C of a token after the convolution, from the whole text. */
static void convolved(const shape *s, int q, int t, double *out)
{
    for (int i = 0; i < n_channels(s); i++) {
        double sum = (double)conv_bias[i];
        for (int j = 0; j < s->k; j++) {
            const int at = t - s->k + 1 + j;
            sum += at >= 0 ? (double)conv[i * s->k + j] * (double)in[q][at][s->inner + i] : 0;
        }
        out[i] = silu(sum);
    }
}

static void define(const shape *s, int q)
{
    static double state[MOST_INNER][MOST_STATE], x[MOST_CHANNELS];
    const int width = s->inner / s->heads, in_group = s->inner / s->groups;
    memset(state, 0, sizeof state);
    for (int t = 0; t < T; t++) {
        const float *z = in[q][t], *dt = z + s->inner + n_channels(s);
        convolved(s, q, t, x);
        for (int p = 0; p < s->inner; p++) {
            const int head = p / width, group = head * s->groups / s->heads;
            const double step = log1p(exp((double)dt[head] + (double)dt_bias[head]));
            double y = (double)d[head] * x[p];
            for (int n = 0; n < s->state; n++) {
                const double b = x[s->inner + group * s->state + n];
                state[p][n] = exp(step * (double)a[head]) * state[p][n] + step * x[p] * b;
                y += state[p][n] * x[s->inner + (s->groups + group) * s->state + n];
            }
            expected[q][t][p] = y * silu((double)z[p]);
        }
        for (int g = 0; g < s->groups && s->normed; g++) {
            double squares = 0, *y = expected[q][t] + g * in_group;
            for (int i = 0; i < in_group; i++)
                squares += y[i] * y[i] / in_group;
            for (int i = 0; i < in_group; i++)
                y[i] *= (double)norm[g * in_group + i] / sqrt(squares + 0.01);
        }
    }
}

static fy_mamba2 mixer_of(const shape *s, float *memory, const uint8_t *from, const uint8_t *to)
{
    const size_t len = (size_t)((s->k - 1) * n_channels(s) + s->inner * s->state);
    return (fy_mamba2){.conv = conv,
                       .conv_bias = conv_bias,
                       .dt_bias = dt_bias,
                       .a = a,
                       .d = d,
                       .norm = s->normed ? norm : NULL,
                       .eps = 0.01F,
                       .n_inner = s->inner,
                       .n_heads = s->heads,
                       .n_groups = s->groups,
                       .n_state = s->state,
                       .length = s->k,
                       .state = {memory, SEQS * len, len, from, to}};
}

/* Computes n tokens, given as sequence and position; out: by sequence and position. */
static void step(fy_backend *b, const shape *s, fy_mamba2 m, const fy_place *at, int n,
                 float out[SEQS][T][MOST_INNER])
{
    static float x[SEQS * T * MOST_ROW], y[SEQS * T * MOST_INNER];
    m.at = at;
    for (int i = 0; i < n; i++)
        memcpy(x + i * row_len(s), in[at[i].seq][at[i].pos], (size_t)row_len(s) * sizeof *x);
    fy_backend_mamba2(b, y, x, n, &m);
    for (int i = 0; i < n; i++)
        memcpy(out[at[i].seq][at[i].pos], y + i * s->inner, (size_t)s->inner * sizeof *y);
}

static fy_backend *backend_of(int threads)
{
    fy_err e = {0};
    const fy_backend_params p = {.n_threads = threads, .n_tokens = SEQS * T};
    fy_backend *b = fy_backend_new(&p, &e);
    assert_non_null(b);
    return b;
}

static float memory[2 * SEQS * MOST_LEN];

/* All tokens of all sequences in one step. */
static void compute_once(const shape *s)
{
    uint8_t from[SEQS] = {0}, to[SEQS] = {1, 1, 1};
    fy_place at[SEQS * T];
    fy_backend *b = backend_of(1);
    memset(memory, 0x7f, sizeof memory); /* of a text before */
    for (int i = 0; i < SEQS * T; i++)
        at[i] = (fy_place){i / T, i % T};
    step(b, s, mixer_of(s, memory, from, to), at, SEQS * T, once);
    fy_backend_free(b);
}

static void it_computes_its_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        double largest = 0, worst = 0;
        fill(s);
        compute_once(s);
        for (int q = 0; q < SEQS; q++)
            define(s, q);
        for (int q = 0; q < SEQS; q++) {
            for (int t = 0; t < T; t++) {
                for (int p = 0; p < s->inner; p++) {
                    largest = fmax(largest, fabs(expected[q][t][p]));
                    worst = fmax(worst, fabs(expected[q][t][p] - (double)once[q][t][p]));
                }
            }
        }
        assert_true(worst < 3e-6 * largest);
    }
}

static void steps_of_any_shape_give_the_same_bits(void **state)
{
    (void)state;
    for (int run = 0; run < 4 * (int)(sizeof shapes / sizeof shapes[0]); run++) {
        static float out[SEQS][T][MOST_INNER];
        const shape *s = &shapes[run / 4];
        uint8_t from[SEQS] = {0, 1, 0}, to[SEQS] = {1, 0, 1};
        fy_backend *b = backend_of(run % 4 + 1);
        uint32_t draw = (uint32_t)run + 1;
        int next[SEQS] = {0};
        fill(s);
        compute_once(s);
        memset(memory, 0x7f, sizeof memory);
        for (int left = SEQS * T; left > 0;) {
            fy_place at[SEQS * T];
            int n = 0;
            for (int j = 0; j < 1 + run % 4 * 3; j++) {
                draw = draw * 1664525u + 1013904223u;
                const int seq = (int)(draw >> 16) % SEQS;
                if (next[seq] < T)
                    at[n++] = (fy_place){seq, next[seq]++};
            }
            step(b, s, mixer_of(s, memory, from, to), at, n, out);
            for (int j = 0; j < n && run % 2 == 0; j++)
                from[at[j].seq] = to[at[j].seq]; /* a later step of the call */
            for (int j = 0; j < n && run % 2 == 1; j++)
                from[at[j].seq] = to[at[j].seq]; /* a call of its own: the halves change places */
            for (int q = 0; q < SEQS && run % 2 == 1; q++)
                to[q] = from[q] ^ 1;
            left -= n;
        }
        assert_memory_equal(out, once, sizeof out);
        fy_backend_free(b);
    }
}

static void what_a_step_began_with_is_kept(void **state)
{
    static float was[MOST_LEN], out[SEQS][T][MOST_INNER];
    (void)state;
    const shape *s = &shapes[0];
    uint8_t from[SEQS] = {0}, to[SEQS] = {0};
    fy_backend *b = backend_of(2);
    const fy_place first[] = {{0, 0}, {0, 1}}, more[] = {{0, 2}, {0, 3}};
    fill(s);
    const fy_mamba2 m = mixer_of(s, memory, from, to);
    step(b, s, m, first, 2, out);
    memcpy(was, memory, m.state.len * sizeof *was);
    to[0] = 1;
    step(b, s, m, more, 2, out);
    assert_memory_equal(memory, was, m.state.len * sizeof *was);
    fy_backend_free(b);
}

static void softplus_is_near_it_everywhere(void **state)
{
    (void)state;
    for (int i = -1600; i <= 2000; i++) {
        const float x = (float)i / 20;
        const double right = (double)x > 30 ? (double)x : log1p(exp((double)x));
        assert_true(fabs((double)fy_softplus(x) - right) <= 3e-7 * right);
    }
    assert_true(fy_softplus(INFINITY) > 1e38F);
    assert_true(fy_softplus(-INFINITY) == 0);
    assert_true(isnan(fy_softplus(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_computes_its_definition),
        cmocka_unit_test(steps_of_any_shape_give_the_same_bits),
        cmocka_unit_test(what_a_step_began_with_is_kept),
        cmocka_unit_test(softplus_is_near_it_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
