/* The float interpreter: graphs made by hand, each operation against its formula, and the places
 * that tensors share. Composed graphs are compared with the engine by tests/e2e/composition.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/weights.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/workspace/compile/qfloat_drawing.h"

/* --- running ---------------------------------------------------------------------------------- */

typedef struct {
    fy_backend *backend;
    fy_pool *pool;
} machine;

static machine start(uint32_t n_batch, int n_threads)
{
    fy_err e = {0};
    const fy_backend_params p = {.n_threads = n_threads, .n_tokens = n_batch};
    const machine m = {fy_backend_new(&p, &e), fy_pool_new(n_threads, &e)};
    assert_true(m.backend != NULL && m.pool != NULL);
    return m;
}

static void stop(machine m)
{
    fy_backend_free(m.backend);
    fy_pool_free(m.pool);
}

static int run_on(drawing *d, int n_threads, fy_qfloat_watch *watch, void *user)
{
    fy_err e = {0};
    const machine m = start(d->g.n_batch, n_threads);
    fy_qfloat *f = fy_qfloat_new(&d->g, &d->model, m.backend, m.pool, d->buffers, &e);
    if (f == NULL)
        fail_msg("%s", e.msg);
    const int rc = fy_qfloat_run(f, NULL, watch, user, &e);
    fy_qfloat_free(f);
    stop(m);
    return rc;
}

static void run(drawing *d)
{
    assert_int_equal(run_on(d, 1, NULL, NULL), 0);
}

static void check_near(float found, double expected, const char *what, size_t i)
{
    if (!(fabs((double)found - expected) <= 2e-6 * (1 + fabs(expected))))
        fail_msg("%s, element %zu: %.9g, expected %.9g", what, i, (double)found, expected);
}

/* --- elements --------------------------------------------------------------------------------- */

static double neg(double a, double b)
{
    (void)b;
    return -a;
}
static double add(double a, double b)
{
    return a + b;
}
static double multiply(double a, double b)
{
    return a * b;
}
static double sigmoid(double a, double b)
{
    (void)b;
    return 1 / (1 + exp(-a));
}
static double tangent(double a, double b)
{
    (void)b;
    return tanh(a);
}
static double relu(double a, double b)
{
    (void)b;
    return a > 0 ? a : 0;
}
static double greater(double a, double b)
{
    return a > b;
}
static double gelu(double a, double b)
{
    (void)b;
    return a / 2 * (1 + erf(a / sqrt(2)));
}
static double gelu_tanh(double a, double b)
{
    (void)b;
    return a / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (a + 0.044715 * a * a * a)));
}

typedef struct {
    const char *name;
    fy_q_op op;
    int n_in;
    double (*formula)(double, double);
    fy_act_kind act;
} element_case;

static const element_case element_cases[] = {
    {"add", FY_Q_ADD, 2, add, 0},
    {"multiply", FY_Q_MULTIPLY, 2, multiply, 0},
    {"neg", FY_Q_NEG, 1, neg, 0},
    {"greater", FY_Q_GREATER, 2, greater, 0},
    {"sigmoid", FY_Q_SIGMOID, 1, sigmoid, 0},
    {"tanh", FY_Q_TANH, 1, tangent, 0},
    {"relu", FY_Q_RELU, 1, relu, 0},
    {"gelu", FY_Q_GELU, 1, gelu, FY_ACT_GELU},
    {"gelu_tanh", FY_Q_GELU, 1, gelu_tanh, FY_ACT_GELU_TANH},
};

/* step 0: the second operand is one number, 0.75. */
static void check_elements(const element_case *c, size_t step)
{
    enum { ROWS = 5, COLS = 13 };
    drawing *d = new_drawing(ROWS, 0);
    const uint32_t a = border(d, FY_Q_IN, FY_QC_ACT, ROWS, COLS);
    const uint32_t b = border(d, FY_Q_IN, FY_QC_ACT, ROWS, COLS);
    const uint32_t y = border(d, FY_Q_OUT, FY_QC_ACT, ROWS, COLS);
    const uint32_t one = constant(d, 1, 0.75f);
    node(d, c->op, y, a, c->n_in == 1 ? FY_Q_NONE : step == 0 ? one : b, FY_Q_NONE)->act = c->act;
    fill_input(d, a);
    fill_input(d, b);
    run(d);
    for (size_t i = 0; i < ROWS * COLS; i++) {
        const double second = step == 0 ? 0.75 : (double)values(d, b)[i];
        check_near(values(d, y)[i], c->formula((double)values(d, a)[i], second), c->name, i);
    }
    free_drawing(d);
}

static void test_elements(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof element_cases / sizeof element_cases[0]; i++) {
        check_elements(&element_cases[i], 1);
        if (element_cases[i].n_in == 2)
            check_elements(&element_cases[i], 0);
    }
}

static void test_select_takes_the_first_where_the_condition_holds(void **state)
{
    (void)state;
    enum { N = 6 };
    for (int scalar = 0; scalar < 2; scalar++) {
        drawing *d = new_drawing(1, 0);
        const uint32_t is = border(d, FY_Q_IN, FY_QC_BOOL, 1, N);
        const uint32_t a = border(d, FY_Q_IN, FY_QC_ACT, 1, N);
        const uint32_t b = border(d, FY_Q_IN, FY_QC_ACT, 1, N);
        const uint32_t y = border(d, FY_Q_OUT, FY_QC_ACT, 1, N);
        const uint32_t one = constant(d, 1, 9);
        node(d, FY_Q_SELECT, y, is, a, scalar ? one : b);
        for (size_t i = 0; i < N; i++) {
            values(d, is)[i] = (float)(i % 2);
            values(d, a)[i] = (float)i;
            values(d, b)[i] = (float)(10 * i);
        }
        run(d);
        for (size_t i = 0; i < N; i++) {
            const float other = scalar ? 9 : (float)(10 * i);
            assert_true(values(d, y)[i] == (i % 2 != 0 ? (float)i : other));
        }
        free_drawing(d);
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

static void check_norm(fy_q_op op)
{
    enum { ROWS = 4, COLS = 40 };
    static const double eps = 1e-2;
    drawing *d = new_drawing(ROWS, 0);
    const uint32_t x = border(d, FY_Q_IN, FY_QC_ACT, ROWS, COLS);
    const uint32_t y = border(d, FY_Q_OUT, FY_QC_ACT, ROWS, COLS);
    const uint32_t gamma = constant(d, COLS, 1.5f), beta = constant(d, COLS, 0);
    node(d, op, y, x, gamma, beta)->eps = (float)eps;
    fill_input(d, x);
    run(d);
    for (size_t r = 0; r < ROWS; r++) {
        const float *row = values(d, x) + r * COLS;
        double mean = 0, power = 0;
        for (size_t i = 0; i < COLS && op == FY_Q_LAYER_NORM; i++)
            mean += (double)row[i] / COLS;
        for (size_t i = 0; i < COLS; i++)
            power += ((double)row[i] - mean) * ((double)row[i] - mean) / COLS;
        for (size_t i = 0; i < COLS; i++)
            check_near(values(d, y)[r * COLS + i],
                       1.5 * ((double)row[i] - mean) / sqrt(power + eps), "norm", r * COLS + i);
    }
    free_drawing(d);
}

static void test_norms(void **state)
{
    (void)state;
    check_norm(FY_Q_RMS_NORM);
    check_norm(FY_Q_LAYER_NORM);
}

static void test_rotation_is_by_halves(void **state)
{
    (void)state;
    enum { ROWS = 3, HALF = 5 };
    drawing *d = new_drawing(ROWS, 0);
    const uint32_t x = border(d, FY_Q_IN, FY_QC_ACT, ROWS, 2 * HALF);
    const uint32_t c = border(d, FY_Q_IN, FY_QC_TABLE, ROWS, HALF);
    const uint32_t s = border(d, FY_Q_IN, FY_QC_TABLE, ROWS, HALF);
    const uint32_t y = border(d, FY_Q_OUT, FY_QC_ACT, ROWS, 2 * HALF);
    node(d, FY_Q_ROPE, y, x, c, s);
    fill_input(d, x);
    fill_input(d, c);
    fill_input(d, s);
    run(d);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t i = 0; i < HALF; i++) {
            const double a = (double)values(d, x)[r * 2 * HALF + i];
            const double b = (double)values(d, x)[r * 2 * HALF + HALF + i];
            const double co = (double)values(d, c)[r * HALF + i];
            const double si = (double)values(d, s)[r * HALF + i];
            check_near(values(d, y)[r * 2 * HALF + i], a * co - b * si, "first half", i);
            check_near(values(d, y)[r * 2 * HALF + HALF + i], b * co + a * si, "second half", i);
        }
    }
    free_drawing(d);
}

/* --- layout ----------------------------------------------------------------------------------- */

static void test_layout(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 7, FROM = 2, END = 5 };
    drawing *d = new_drawing(ROWS, 0);
    const uint32_t x = border(d, FY_Q_IN, FY_QC_ACT, ROWS, COLS);
    const uint32_t part = border(d, FY_Q_OUT, FY_QC_ACT, ROWS, END - FROM);
    const uint32_t wide = border(d, FY_Q_OUT, FY_QC_ACT, ROWS, COLS + END - FROM);
    const uint32_t tall = border(d, FY_Q_OUT, FY_QC_ACT, 2 * ROWS, COLS);
    const uint32_t turned = border(d, FY_Q_OUT, FY_QC_ACT, COLS, ROWS);
    const uint32_t copy = border(d, FY_Q_OUT, FY_QC_ACT, ROWS, COLS);
    const uint32_t same = inner(d, ROWS, COLS);
    fy_q_node *n = node(d, FY_Q_SLICE, part, x, FY_Q_NONE, FY_Q_NONE);
    n->axis = d->g.tensors[x].rank - 1;
    n->begin = FROM;
    n->end = END;
    node(d, FY_Q_CONCAT, wide, x, part, FY_Q_NONE)->axis = 3;
    node(d, FY_Q_CONCAT, tall, x, x, FY_Q_NONE)->axis = 2;
    node(d, FY_Q_TRANSPOSE, turned, x, FY_Q_NONE, FY_Q_NONE);
    node(d, FY_Q_RESHAPE, same, x, FY_Q_NONE, FY_Q_NONE);
    node(d, FY_Q_CAST, copy, same, FY_Q_NONE, FY_Q_NONE);
    fill_input(d, x);
    run(d);
    const float *from = values(d, x);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t i = 0; i < COLS; i++) {
            const float v = from[r * COLS + i];
            assert_true(i < FROM || i >= END ||
                        (values(d, part)[r * (END - FROM) + i - FROM] == v &&
                         values(d, wide)[r * (COLS + END - FROM) + COLS + i - FROM] == v));
            assert_true(values(d, wide)[r * (COLS + END - FROM) + i] == v);
            assert_true(values(d, tall)[r * COLS + i] == v);
            assert_true(values(d, tall)[(ROWS + r) * COLS + i] == v);
            assert_true(values(d, turned)[i * ROWS + r] == v);
            assert_true(values(d, copy)[r * COLS + i] == v);
        }
    }
    free_drawing(d);
}

/* Tensors of [tokens, heads, rows, columns], as the recurrence of RWKV has them. */
static uint32_t of_heads(drawing *d, fy_q_kind kind, const uint32_t dims[4])
{
    const uint32_t t = border(d, kind, FY_QC_PLAIN, dims[0] * dims[1] * dims[2], dims[3]);
    memcpy(d->tensors[t].dims, dims, sizeof d->tensors[t].dims);
    fill(values(d, t), fy_q_elements(&d->tensors[t]), t + 1);
    return t;
}

static void test_tokens_and_heads(void **state)
{
    (void)state;
    enum { T = 2, H = 3, N = 5 };
    const uint32_t row[] = {T, H, 1, N}, column[] = {T, H, N, 1}, matrix[] = {T, H, N, N},
                   one[] = {1, H, 1, N};
    drawing *d = new_drawing(T, 0);
    const uint32_t s = of_heads(d, FY_Q_IN, matrix), r = of_heads(d, FY_Q_IN, row),
                   c = of_heads(d, FY_Q_IN, column), y = of_heads(d, FY_Q_OUT, row),
                   kept = of_heads(d, FY_Q_OUT, matrix), e = of_heads(d, FY_Q_OUT, row),
                   second = of_heads(d, FY_Q_OUT, one), less = of_heads(d, FY_Q_OUT, matrix);
    node(d, FY_Q_MATMUL, y, r, s, FY_Q_NONE);
    node(d, FY_Q_MULTIPLY, kept, s, c, FY_Q_NONE);
    node(d, FY_Q_EXP, e, r, FY_Q_NONE, FY_Q_NONE);
    node(d, FY_Q_SUBTRACT, less, r, c, FY_Q_NONE); /* both are repeated */
    fy_q_node *n = node(d, FY_Q_SLICE, second, r, FY_Q_NONE, FY_Q_NONE);
    n->begin = 1;
    n->end = 2;
    run(d);
    for (size_t h = 0; h < T * H; h++) {
        const float *of_r = values(d, r) + h * N, *of_c = values(d, c) + h * N,
                    *of_s = values(d, s) + h * N * N;
        for (size_t j = 0; j < N; j++) {
            double sum = 0;
            for (size_t i = 0; i < N; i++) {
                sum += (double)of_r[i] * (double)of_s[i * N + j];
                assert_true(values(d, kept)[(h * N + i) * N + j] == of_s[i * N + j] * of_c[i]);
                assert_true(values(d, less)[(h * N + i) * N + j] == of_r[j] - of_c[i]);
            }
            check_near(values(d, y)[h * N + j], sum, "product of a head", h);
            check_near(values(d, e)[h * N + j], exp((double)of_r[j]), "exponential", h);
            assert_true(h < H || values(d, second)[(h - H) * N + j] == of_r[j]);
        }
    }
    free_drawing(d);
}

/* --- products with matrices ------------------------------------------------------------------- */

/* Heads of 6 rows, of which the first 4 rotate; two of them, and what is not of heads. */
enum { N_OUT = 12, N_IN = 10 };

typedef struct {
    const char *name;
    uint32_t first, n;
    float scale;
    bool halves, bias;
    uint32_t order[N_OUT]; /* rows of the model */
} conv_case;

static const conv_case conv_cases[] = {
    {"as it is", 0, 12, 1, false, false, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
    {"a head with a bias", 6, 6, 1, false, true, {6, 7, 8, 9, 10, 11}},
    {"by halves", 6, 6, 1, true, false, {6, 8, 7, 9, 10, 11}},
    {"two heads by halves, scaled",
     0,
     12,
     0.25f,
     true,
     true,
     {0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11}},
    {"scaled", 0, 12, 0.5f, false, true, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
};

static float rows_of_q[N_OUT][N_IN], bias_of_q[N_OUT];

/* Layer 3 of a model: all there is of it. */
static void give_layer(drawing *d, fy_weights *layer)
{
    fill(&rows_of_q[0][0], (size_t)N_OUT * N_IN, 77);
    fill(bias_of_q, N_OUT, 78);
    layer->w[FY_T_ATTN_Q] = (fy_matrix){rows_of_q, FY_F32, sizeof rows_of_q[0], N_OUT, N_IN, 0};
    layer->w[FY_T_ATTN_Q_B] = (fy_matrix){bias_of_q, FY_F32, sizeof bias_of_q, 1, N_OUT, 0};
    d->model = (fy_model){.hp = {.head_dim = 6, .n_rot = 4},
                          .chunk = {.first_layer = 3, .end_layer = 4},
                          .layers = layer};
}

static uint32_t weight(drawing *d, uint32_t n_in, fy_q_static from)
{
    const uint32_t t = tensor(d, FY_Q_STATIC, FY_QC_WEIGHT, n_in, from.n);
    from.matrix = from.beta = FY_T_COUNT;
    d->tensors[t].from = from;
    return t;
}

static void check_conv(const conv_case *c)
{
    enum { ROWS = 5 };
    fy_weights layer = {0};
    drawing *d = new_drawing(ROWS, 0);
    give_layer(d, &layer);
    const uint32_t x = border(d, FY_Q_IN, FY_QC_ACT, ROWS, N_IN);
    const uint32_t y = border(d, FY_Q_OUT, FY_QC_ACT, ROWS, c->n);
    const fy_q_static from = {.slot = FY_T_ATTN_Q,
                              .layer = 3,
                              .first = c->first,
                              .n = c->n,
                              .halves = c->halves,
                              .scale = c->scale};
    const uint32_t w = weight(d, N_IN, from), b = constant(d, c->n, 0);
    const fy_q_static vector = d->tensors[b].from;
    d->tensors[b].from = from;
    d->tensors[b].from.slot = FY_T_ATTN_Q_B;
    d->tensors[b].from.matrix = d->tensors[b].from.beta = vector.beta;
    node(d, FY_Q_CONV, y, x, w, c->bias ? b : FY_Q_NONE);
    fill_input(d, x);
    run(d);
    for (size_t i = 0; i < (size_t)ROWS * c->n; i++) {
        const uint32_t from_row = c->order[i % c->n];
        double sum = c->bias ? (double)bias_of_q[from_row] : 0;
        for (size_t k = 0; k < N_IN; k++)
            sum += (double)rows_of_q[from_row][k] * (double)values(d, x)[i / c->n * N_IN + k];
        check_near(values(d, y)[i], (double)c->scale * sum, c->name, i);
    }
    free_drawing(d);
}

static void test_matrices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof conv_cases / sizeof conv_cases[0]; i++)
        check_conv(&conv_cases[i]);
}

/* It is its own inverse. */
static void test_hadamard_twice_gives_the_input(void **state)
{
    (void)state;
    enum { ROWS = 3, N = 16 };
    drawing *d = new_drawing(ROWS, 0);
    const uint32_t x = border(d, FY_Q_IN, FY_QC_ACT, ROWS, N);
    const uint32_t y = border(d, FY_Q_OUT, FY_QC_ACT, ROWS, N);
    const fy_q_static from = {.slot = FY_T_COUNT, .n = N, .scale = 1, .hadamard = true};
    const uint32_t w = weight(d, N, from), once = inner(d, ROWS, N);
    node(d, FY_Q_CONV, once, x, w, FY_Q_NONE);
    node(d, FY_Q_CONV, y, once, w, FY_Q_NONE);
    fill_input(d, x);
    run(d);
    for (size_t i = 0; i < (size_t)ROWS * N; i++)
        check_near(values(d, y)[i], (double)values(d, x)[i], "hadamard", i);
    free_drawing(d);
}

/* --- attention -------------------------------------------------------------------------------- */

/* k of the first product is more than a chunk of attention, that of the second too. */
enum {
    BATCH = 3,
    CACHE = 70,
    KEYS = CACHE + BATCH,
    DIM = 67,
    HIDDEN_F16 = 0xfc00,
    MINUS_0 = 0x8000
};

typedef struct {
    drawing *d;
    uint32_t q, k, v, mask, y, score;
} attention;

/* softmax(q k + mask) v. Row r sees columns 5 and 9 + r of the cache, and those of the batch up to
 * its own; the last row is padding and sees nothing. */
static attention draw_attention(void)
{
    attention a = {.d = new_drawing(BATCH, CACHE)};
    a.q = border(a.d, FY_Q_IN, FY_QC_ACT, BATCH, DIM);
    a.k = border(a.d, FY_Q_IN, FY_QC_KV, DIM, KEYS);
    a.v = border(a.d, FY_Q_IN, FY_QC_KV, KEYS, DIM);
    a.mask = border(a.d, FY_Q_IN, FY_QC_MASK, BATCH, KEYS);
    a.y = border(a.d, FY_Q_OUT, FY_QC_ACT, BATCH, DIM);
    a.score = tensor(a.d, FY_Q_INNER, FY_QC_SCORE, BATCH, KEYS);
    a.d->tensors[a.score].mask = a.mask;
    const uint32_t masked = tensor(a.d, FY_Q_INNER, FY_QC_MASKED, BATCH, KEYS);
    const uint32_t p = tensor(a.d, FY_Q_INNER, FY_QC_UNIT, BATCH, KEYS);
    node(a.d, FY_Q_MATMUL, a.score, a.q, a.k, FY_Q_NONE);
    node(a.d, FY_Q_ADD, masked, a.score, a.mask, FY_Q_NONE);
    node(a.d, FY_Q_SOFTMAX, p, masked, FY_Q_NONE, FY_Q_NONE);
    node(a.d, FY_Q_MATMUL, a.y, p, a.v, FY_Q_NONE);
    fill_input(a.d, a.q);
    fill_input(a.d, a.k);
    fill_input(a.d, a.v);
    uint16_t *mask = a.d->buffers[a.mask];
    for (uint32_t i = 0; i < BATCH * KEYS; i++)
        mask[i] = HIDDEN_F16;
    for (uint32_t r = 0; r + 1 < BATCH; r++) {
        mask[r * KEYS + 5] = MINUS_0;
        mask[r * KEYS + 9 + r] = 0;
        for (uint32_t i = 0; i <= r; i++)
            mask[r * KEYS + CACHE + i] = 0;
    }
    return a;
}

static bool is_seen(const attention *a, size_t r, size_t c)
{
    const uint16_t *mask = a->d->buffers[a->mask];
    return (mask[r * KEYS + c] & 0x7fff) == 0;
}

static double score_of(const attention *a, size_t r, size_t c)
{
    double sum = 0;
    for (size_t i = 0; i < DIM; i++)
        sum += (double)values(a->d, a->q)[r * DIM + i] * (double)values(a->d, a->k)[i * KEYS + c];
    return sum;
}

static void check_attention(const attention *a, size_t r)
{
    double weight[KEYS] = {0}, most = -INFINITY, sum = 0;
    for (size_t c = 0; c < KEYS; c++)
        most = is_seen(a, r, c) ? fmax(most, score_of(a, r, c)) : most;
    for (size_t c = 0; c < KEYS; c++) {
        weight[c] = is_seen(a, r, c) ? exp(score_of(a, r, c) - most) : 0;
        sum += weight[c];
    }
    for (size_t i = 0; i < DIM; i++) {
        double y = 0;
        for (size_t c = 0; c < KEYS; c++)
            y += weight[c] / sum * (double)values(a->d, a->v)[c * DIM + i];
        const double found = (double)values(a->d, a->y)[r * DIM + i];
        if (!(fabs(found - y) <= 5e-5))
            fail_msg("row %zu, element %zu: %.9g, expected %.9g", r, i, found, y);
    }
}

/* What calibration counts on: scores that a row sees are there when the node has run. */
static int see_scores(void *user, const fy_qfloat *f, const fy_q_node *n, fy_err *e)
{
    const attention *a = user;
    (void)e;
    for (size_t i = 0; n->out == a->score && i < (size_t)BATCH * KEYS; i++) {
        const double found = (double)fy_qfloat_values(f, a->score)[i];
        const double score = score_of(a, i / KEYS, i % KEYS);
        assert_true(fy_qfloat_values(f, a->mask)[i] ==
                    (is_seen(a, i / KEYS, i % KEYS) ? 0 : FY_QFLOAT_HIDDEN));
        if (is_seen(a, i / KEYS, i % KEYS) && !(fabs(found - score) <= 5e-5))
            fail_msg("score %zu: %.9g, expected %.9g", i, found, score);
        assert_true(isfinite(found));
    }
    return 0;
}

static void test_attention(void **state)
{
    (void)state;
    attention a = draw_attention();
    assert_int_equal(run_on(a.d, 1, see_scores, &a), 0);
    for (size_t r = 0; r + 1 < BATCH; r++)
        check_attention(&a, r);
    for (size_t i = 0; i < DIM; i++)
        assert_true(isfinite(values(a.d, a.y)[(BATCH - 1) * DIM + i]));
    free_drawing(a.d);
}

/* What nobody sees is not read: caches hold anything where nothing was written yet. */
static void test_hidden_columns_do_not_count(void **state)
{
    (void)state;
    attention a = draw_attention(), b = draw_attention();
    for (size_t i = 0; i < DIM; i++)
        values(b.d, b.k)[i * KEYS + 20] = 1e20f;
    run(a.d);
    run(b.d);
    assert_memory_equal(values(a.d, a.y), values(b.d, b.y), (BATCH - 1) * DIM * sizeof(float));
    free_drawing(a.d);
    free_drawing(b.d);
}

static void test_threads_do_not_change_a_bit(void **state)
{
    (void)state;
    attention a = draw_attention(), b = draw_attention();
    assert_int_equal(run_on(a.d, 1, NULL, NULL), 0);
    assert_int_equal(run_on(b.d, THREADS, NULL, NULL), 0);
    assert_memory_equal(values(a.d, a.y), values(b.d, b.y), sizeof(float) * BATCH * DIM);
    free_drawing(a.d);
    free_drawing(b.d);
}

/* --- places ----------------------------------------------------------------------------------- */

enum { WEB_NODES = 120, WEB_ROWS = 2, WEB_COLS = 9, WEB = WEB_ROWS * WEB_COLS };

typedef struct {
    drawing *d;
    double expected[MOST][WEB];
    size_t n_seen;
} web;

/* Sums of what was made up to seven nodes before, with casts between. */
static web *draw_web(void)
{
    web *w = calloc(1, sizeof *w);
    uint32_t seed = 5;
    assert_non_null(w);
    w->d = new_drawing(WEB_ROWS, 0);
    uint32_t made = border(w->d, FY_Q_IN, FY_QC_ACT, WEB_ROWS, WEB_COLS);
    const uint32_t y = border(w->d, FY_Q_OUT, FY_QC_ACT, WEB_ROWS, WEB_COLS);
    const uint32_t half = constant(w->d, 1, 0.5f);
    uint32_t last[8] = {0};
    fill_input(w->d, made);
    for (size_t i = 0; i < WEB_NODES; i++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t a = last[seed >> 29], b = last[seed >> 26 & 7], how = seed >> 20 & 7;
        const fy_q_op op = how == 0 ? FY_Q_CAST : how < 4 ? FY_Q_MULTIPLY : FY_Q_ADD;
        made = i + 1 == WEB_NODES ? y : inner(w->d, WEB_ROWS, WEB_COLS);
        node(w->d, op, made, a,
             op == FY_Q_CAST       ? FY_Q_NONE
             : op == FY_Q_MULTIPLY ? half
                                   : b,
             FY_Q_NONE);
        last[i % 8] = made;
    }
    return w;
}

/* Each node, from what its inputs should be: a place that was given away too early shows. */
static int see_web(void *user, const fy_qfloat *f, const fy_q_node *n, fy_err *e)
{
    web *w = user;
    (void)e;
    assert_ptr_equal(n, &w->d->nodes[w->n_seen++]);
    for (size_t i = 0; i < WEB; i++) {
        const double a = w->expected[n->in[0]][i];
        const double b = n->op == FY_Q_MULTIPLY ? 0.5 : n->n_in > 1 ? w->expected[n->in[1]][i] : 0;
        w->expected[n->out][i] = n->op == FY_Q_MULTIPLY ? a * b : a + b;
        for (uint32_t k = 0; k < n->n_in && (n->op != FY_Q_MULTIPLY || k == 0); k++)
            check_near(fy_qfloat_values(f, n->in[k])[i], w->expected[n->in[k]][i], "input", i);
        check_near(fy_qfloat_values(f, n->out)[i], w->expected[n->out][i], "output", i);
    }
    return 0;
}

static void test_a_place_is_used_again_only_after_its_last_reader(void **state)
{
    (void)state;
    web *w = draw_web();
    for (size_t i = 0; i < WEB; i++)
        w->expected[0][i] = (double)values(w->d, 0)[i];
    assert_int_equal(run_on(w->d, 1, see_web, w), 0);
    assert_int_equal(w->n_seen, WEB_NODES);
    free_drawing(w->d);
    free(w);
}

/* A chain of a hundred nodes needs two places, however long it is. */
static int count_places(void *user, const fy_qfloat *f, const fy_q_node *n, fy_err *e)
{
    const float **place = user;
    const float *at = fy_qfloat_values(f, n->out);
    (void)e;
    for (size_t i = 0; i < 2; i++) {
        if (place[i] == NULL)
            place[i] = at;
        if (place[i] == at)
            return 0;
    }
    fail_msg("a third place");
    return -1;
}

static void test_a_chain_takes_two_places(void **state)
{
    (void)state;
    const float *place[2] = {0};
    drawing *d = new_drawing(1, 0);
    uint32_t x = border(d, FY_Q_IN, FY_QC_ACT, 1, 100);
    for (size_t i = 0; i < 100; i++) {
        const uint32_t y = inner(d, 1, 100);
        node(d, FY_Q_NEG, y, x, FY_Q_NONE, FY_Q_NONE);
        x = y;
    }
    assert_int_equal(run_on(d, 1, count_places, place), 0);
    free_drawing(d);
}

/* --- failures --------------------------------------------------------------------------------- */

static int refuse(void *user, const fy_qfloat *f, const fy_q_node *n, fy_err *e)
{
    size_t *seen = user;
    (void)f, (void)n;
    return ++*seen == 3 ? fy_fail(e, FY_EARG, "enough") : 0;
}

static void test_a_watch_can_stop_a_run(void **state)
{
    (void)state;
    size_t seen = 0;
    attention a = draw_attention();
    assert_int_equal(run_on(a.d, 1, refuse, &seen), -1);
    assert_int_equal(seen, 3);
    free_drawing(a.d);
}

static void test_allocations_that_fail(void **state)
{
    (void)state;
    attention a = draw_attention();
    const machine m = start(BATCH, 1);
    fy_qfloat *f = NULL;
    for (long n = 0; f == NULL; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        f = fy_qfloat_new(&a.d->g, &a.d->model, m.backend, m.pool, a.d->buffers, &e);
        const bool failed = alloc_fail_end();
        assert_int_equal(f == NULL, failed);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
    }
    fy_qfloat_free(f);
    fy_qfloat_free(NULL);
    stop(m);
    free_drawing(a.d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_select_takes_the_first_where_the_condition_holds),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_rotation_is_by_halves),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_tokens_and_heads),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_hadamard_twice_gives_the_input),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_hidden_columns_do_not_count),
        cmocka_unit_test(test_threads_do_not_change_a_bit),
        cmocka_unit_test(test_a_place_is_used_again_only_after_its_last_reader),
        cmocka_unit_test(test_a_chain_takes_two_places),
        cmocka_unit_test(test_a_watch_can_stop_a_run),
        cmocka_unit_test(test_allocations_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
