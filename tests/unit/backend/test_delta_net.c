/* The gated delta net against its definition in double, and the same bits in steps of any shape. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"

enum { SEQS = 3, T = 20, MOST_INNER = 180, MOST_KEYS = 72, MOST_HEADS = 9, MOST_K = 5 };
enum {
    MOST_CHANNELS = MOST_INNER + 2 * MOST_KEYS,
    MOST_LEN = (MOST_K - 1) * MOST_CHANNELS + MOST_INNER * 24,
};

typedef struct {
    int heads, key_heads, state, width, k;
} shape;

/* Heads of 20, which are lanes and a rest; of 3, all rest; of one lane; keys of one number. */
static const shape shapes[] = {
    {9, 3, 24, 20, 4}, {6, 2, 5, 3, 2}, {4, 4, 16, 16, 5}, {2, 1, 1, 17, 3}};

typedef struct {
    float qkv[MOST_CHANNELS], z[MOST_INNER], alpha[MOST_HEADS], beta[MOST_HEADS];
} token;

static float conv[MOST_CHANNELS * MOST_K], dt_bias[MOST_HEADS], a[MOST_HEADS], norm[MOST_INNER];
static token in[SEQS][T];
static float once[SEQS][T][MOST_INNER];
static double expected[SEQS][T][MOST_INNER];

static float value(uint64_t i)
{
    return (float)((double)((i * 2654435761u + 12345) % 10007) / 5003.5 - 1);
}

static int inner_of(const shape *s)
{
    return s->heads * s->width;
}

static int n_channels(const shape *s)
{
    return inner_of(s) + 2 * s->key_heads * s->state;
}

static void fill(const shape *s)
{
    for (int i = 0; i < n_channels(s) * s->k; i++)
        conv[i] = value((uint64_t)i + 7);
    for (int h = 0; h < s->heads; h++) {
        dt_bias[h] = value((uint64_t)h + 5);
        a[h] = -0.2F - (value((uint64_t)h + 11) + 1);
    }
    for (int i = 0; i < s->width; i++)
        norm[i] = 1 + 0.2F * value((uint64_t)i + 23);
    for (int t = 0; t < SEQS * T; t++) {
        float *x = (float *)&in[t / T][t % T];
        for (size_t i = 0; i < sizeof(token) / sizeof(float); i++)
            x[i] = 2 * value((uint64_t)t * sizeof(token) + i);
    }
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* q, k, v of a token after the convolution, from the whole text. */
static void convolved(const shape *s, int q, int t, double *out)
{
    for (int i = 0; i < n_channels(s); i++) {
        double sum = 0;
        for (int j = 0; j < s->k; j++) {
            const int at = t - s->k + 1 + j;
            sum += at >= 0 ? (double)conv[i * s->k + j] * (double)in[q][at].qkv[i] : 0;
        }
        out[i] = silu(sum);
    }
}

static void to_unit(double *x, int n, double length)
{
    double sum = 1e-6;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        x[i] *= length / sqrt(sum);
}

static void define_head(const shape *s, const token *x, int h, const double *qkv,
                        double state[24][20], double *out)
{
    const int keys = s->key_heads * s->state, key = h % s->key_heads * s->state;
    const double *q = qkv + key, *k = qkv + keys + key, *v = qkv + 2 * keys + h * s->width;
    const double step = log1p(exp((double)x->alpha[h] + (double)dt_bias[h]));
    double squares = 0;
    for (int i = 0; i < s->width; i++) {
        double found = 0, y = 0;
        for (int r = 0; r < s->state; r++) {
            state[r][i] *= exp(step * (double)a[h]);
            found += k[r] * state[r][i];
        }
        for (int r = 0; r < s->state; r++) {
            state[r][i] += k[r] * (v[i] - found) / (1 + exp(-(double)x->beta[h]));
            y += q[r] * state[r][i];
        }
        out[i] = y;
        squares += y * y / s->width;
    }
    for (int i = 0; i < s->width; i++)
        out[i] *= (double)norm[i] / sqrt(squares + 0.01) * silu((double)x->z[h * s->width + i]);
}

static void define(const shape *s, int q)
{
    static double state[MOST_HEADS][24][20], x[MOST_CHANNELS];
    memset(state, 0, sizeof state);
    for (int t = 0; t < T; t++) {
        convolved(s, q, t, x);
        for (int h = 0; h < 2 * s->key_heads; h++)
            to_unit(x + h * s->state, s->state, h < s->key_heads ? 1 / sqrt(s->state) : 1);
        for (int h = 0; h < s->heads; h++)
            define_head(s, &in[q][t], h, x, state[h], expected[q][t] + h * s->width);
    }
}

static fy_delta_net net_of(const shape *s, float *memory, const uint8_t *from, const uint8_t *to)
{
    const size_t len = (size_t)((s->k - 1) * n_channels(s) + inner_of(s) * s->state);
    return (fy_delta_net){.conv = conv,
                          .dt_bias = dt_bias,
                          .a = a,
                          .norm = norm,
                          .eps = 0.01F,
                          .n_heads = s->heads,
                          .n_key_heads = s->key_heads,
                          .n_state = s->state,
                          .width = s->width,
                          .length = s->k,
                          .state = {memory, SEQS * len, len, from, to}};
}

/* Computes n tokens, given as sequence and position; out: by sequence and position. */
static void step(fy_backend *b, const shape *s, fy_delta_net m, const fy_place *at, int n,
                 float out[SEQS][T][MOST_INNER])
{
    static float qkv[SEQS * T * MOST_CHANNELS], z[SEQS * T * MOST_INNER], y[SEQS * T * MOST_INNER];
    static float alpha[SEQS * T * MOST_HEADS], beta[SEQS * T * MOST_HEADS];
    const size_t c = (size_t)n_channels(s), inner = (size_t)inner_of(s), heads = (size_t)s->heads;
    m.at = at;
    for (size_t i = 0; i < (size_t)n; i++) {
        const token *x = &in[at[i].seq][at[i].pos];
        memcpy(qkv + i * c, x->qkv, c * sizeof *qkv);
        memcpy(z + i * inner, x->z, inner * sizeof *z);
        memcpy(alpha + i * heads, x->alpha, heads * sizeof *alpha);
        memcpy(beta + i * heads, x->beta, heads * sizeof *beta);
    }
    const fy_delta_input input = {qkv, z, alpha, beta};
    fy_backend_delta_net(b, y, &input, n, &m);
    for (size_t i = 0; i < (size_t)n; i++)
        memcpy(out[at[i].seq][at[i].pos], y + i * inner, inner * sizeof *y);
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
    step(b, s, net_of(s, memory, from, to), at, SEQS * T, once);
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
                for (int p = 0; p < inner_of(s); p++) {
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
            step(b, s, net_of(s, memory, from, to), at, n, out);
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
    const fy_delta_net m = net_of(s, memory, from, to);
    step(b, s, m, first, 2, out);
    memcpy(was, memory, m.state.len * sizeof *was);
    to[0] = 1;
    step(b, s, m, more, 2, out);
    assert_memory_equal(memory, was, m.state.len * sizeof *was);
    fy_backend_free(b);
}

static void a_gate_is_of_each_element_or_of_a_head(void **state)
{
    enum { N = 3, HEADS = 4, DIM = 5 };
    (void)state;
    fy_backend *b = backend_of(2);
    float gate[N * HEADS * 2 * DIM], x[N * HEADS * DIM], was[N * HEADS * DIM];
    for (int i = 0; i < N * HEADS * 2 * DIM; i++)
        gate[i] = 3 * value((uint64_t)i);
    for (int each = 0; each < 2; each++) {
        for (int i = 0; i < N * HEADS * DIM; i++)
            x[i] = was[i] = value((uint64_t)i + 77);
        const fy_head_gate g = {.gate = gate + 2,
                                .token_stride = HEADS * 2 * DIM,
                                .head_stride = 2 * DIM,
                                .n_heads = HEADS,
                                .head_dim = DIM,
                                .each_element = each == 1};
        fy_backend_gate_heads(b, x, N, &g);
        for (int i = 0; i < N * HEADS * DIM; i++) {
            const double by = (double)gate[2 + i / DIM * 2 * DIM + each * (i % DIM)];
            assert_true(fabs((double)x[i] - (double)was[i] / (1 + exp(-by))) < 1e-6);
        }
    }
    fy_backend_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_computes_its_definition),
        cmocka_unit_test(steps_of_any_shape_give_the_same_bits),
        cmocka_unit_test(what_a_step_began_with_is_kept),
        cmocka_unit_test(a_gate_is_of_each_element_or_of_a_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
