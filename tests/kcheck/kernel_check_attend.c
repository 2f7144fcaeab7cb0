/* The steps of attention: bit for bit the specification, near the same in double within bounds that
 * follow from the lengths, and for each query as if it were alone. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

/* Unit roundoff of f32; what fy_exp may be off by, relatively. */
#define U         0x1p-24
#define EXP_ERROR 4e-7

enum { CHUNK = FY_ATTEND_CHUNK, MAX_QUERIES = 9, MAX_DIM = 256 };

/* What lies in fy_kc_case.work. Rows are those of K or V: as values, and as stored. */
typedef struct {
    float queries[MAX_QUERIES * MAX_DIM]; /* rows of `padded`, zeros after dim */
    float p[MAX_QUERIES * CHUNK], acc[MAX_QUERIES * MAX_DIM];
    float rows[CHUNK * MAX_DIM];
    uint8_t coded[CHUNK * MAX_DIM * sizeof(float)];
    float expected[MAX_QUERIES * MAX_DIM];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES && CHUNK <= MAX_DIM, "work memory");

typedef struct {
    int n_queries, n_keys, dim, padded;
    bool hostile;
} shape;

static const int long_dims[] = {72, 80, 96, 112, 127, 128, 129, 160, 192, 256};
enum { SHORT_DIMS = 70, N_DIMS = SHORT_DIMS + sizeof long_dims / sizeof long_dims[0] };

static size_t row_bytes(const fy_kc_case *t, int dim)
{
    return (size_t)fy_type_row_bytes(t->type, (uint64_t)dim);
}

/* Numbers of every kind that is hard for some step. */
static float hostile(fy_kc_random *r)
{
    static const float odd[] = {0.0f,   -0.0f, INFINITY, -INFINITY, NAN, 65504.0f,
                                -3e38f, 3e38f, 1e-45f,   -6e-8f,    1.0f};
    const int i = fy_kc_between(r, 0, 40);
    return i < (int)(sizeof odd / sizeof odd[0]) ? odd[i] : fy_kc_normal(r);
}

static void fill(fy_kc_case *t, float *x, int n, bool with_hostile)
{
    for (int i = 0; i < n; i++)
        x[i] = with_hostile ? hostile(&t->random) : fy_kc_normal(&t->random);
}

static void fill_rows(fy_kc_case *t, const shape *s)
{
    work *w = t->work;
    const int n = s->n_keys * s->dim;
    if (t->type == FY_Q8_0) {
        const fy_kc_fill how = s->hostile ? FY_KC_ODD : FY_KC_USUAL;
        for (int b = 0; b < n / FY_QK; b++)
            fy_kc_fill_block(&t->random, FY_Q8_0, how, w->coded + b * (int)sizeof(fy_block_q8_0));
        t->spec.decode_q8_0(w->rows, (const fy_block_q8_0 *)(const void *)w->coded, n);
        return;
    }
    fill(t, w->rows, n, s->hostile);
    if (t->type == FY_F16) {
        t->spec.f32_to_f16((uint16_t *)(void *)w->coded, w->rows, n);
        t->spec.f16_to_f32(w->rows, (const uint16_t *)(const void *)w->coded, n);
    } else {
        memcpy(w->coded, w->rows, (size_t)n * sizeof(float));
    }
}

/* The i-th shape: every dimension of the list that the type can have, with random numbers of
 * queries and keys, and now and then hostile values. */
static bool shape_of(fy_kc_case *t, int i, bool may_be_hostile, shape *s)
{
    const int dim = i < SHORT_DIMS ? i + 1 : long_dims[i - SHORT_DIMS];
    if (row_bytes(t, dim) == 0)
        return false;
    const int keys[] = {fy_kc_between(&t->random, 1, 9), fy_kc_between(&t->random, 1, CHUNK),
                        CHUNK};
    *s = (shape){.n_queries = fy_kc_between(&t->random, 1, MAX_QUERIES),
                 .n_keys = keys[fy_kc_between(&t->random, 0, 2)],
                 .dim = dim,
                 .padded = (dim + 7) / 8 * 8,
                 .hostile = may_be_hostile && fy_kc_between(&t->random, 0, 2) == 0};
    return true;
}

/* --- dot products ----------------------------------------------------------------------------- */

static void fill_dots(fy_kc_case *t, const shape *s)
{
    work *w = t->work;
    fill_rows(t, s);
    memset(w->queries, 0, sizeof w->queries);
    for (int q = 0; q < s->n_queries; q++)
        fill(t, w->queries + q * s->padded, s->dim, s->hostile);
}

/* The products of queries from `query` on with keys from `key` on; [n_queries][CHUNK]. */
static const float *dots(fy_kc_case *t, const fy_kernels *k, const shape *s, int query, int key)
{
    work *w = t->work;
    const size_t n_q = (size_t)(s->n_queries * s->padded);
    const float *q = fy_kc_place_copy(t, FY_KC_Q, w->queries + query * s->padded, n_q * sizeof *q);
    const void *K = fy_kc_place_copy(t, FY_KC_K, w->coded + (size_t)key * row_bytes(t, s->dim),
                                     (size_t)s->n_keys * row_bytes(t, s->dim));
    const size_t n_out = (size_t)(s->n_queries - 1) * CHUNK + (size_t)s->n_keys;
    float *out = fy_kc_place(t, FY_KC_Y, n_out * sizeof *out);
    memset(out, 0xff, n_out * sizeof *out);
    fy_attend_dots_fn *f = t->type == FY_F16 ? k->attend_dots_f16 : k->attend_dots_f32;
    f(out, q, s->n_queries, K, s->n_keys, s->dim);
    return out;
}

bool fy_kc_attend_dots_equal_spec(fy_kc_case *t)
{
    work *w = t->work;
    shape s;
    for (int i = 0; i < 3 * N_DIMS; i++) {
        if (!shape_of(t, i % N_DIMS, true, &s))
            continue;
        fill_dots(t, &s);
        const int n = (s.n_queries - 1) * CHUNK + s.n_keys; /* what lies between is not written */
        memcpy(w->expected, dots(t, &t->spec, &s, 0, 0), (size_t)n * sizeof(float));
        if (!fy_kc_same_all(t, "s", dots(t, &t->k, &s, 0, 0), w->expected, n))
            return false;
    }
    return true;
}

bool fy_kc_attend_dots_near(fy_kc_case *t)
{
    work *w = t->work;
    shape s;
    for (int i = 0; i < N_DIMS; i++) {
        if (!shape_of(t, i, false, &s))
            continue;
        fill_dots(t, &s);
        const float *out = dots(t, &t->k, &s, 0, 0);
        for (int c = 0; c < s.n_queries * s.n_keys; c++) {
            const int q = c / s.n_keys, key = c % s.n_keys;
            double value = 0, size = 0;
            for (int e = 0; e < s.dim; e++) {
                const double term =
                    (double)w->queries[q * s.padded + e] * (double)w->rows[key * s.dim + e];
                value += term;
                size += fabs(term);
            }
            const double got = (double)out[q * CHUNK + key];
            const double error = ((double)s.dim / 8 + 20) * U * size + 1e-40;
            if (!(fabs(got - value) <= error))
                return fy_kc_fail(t, "dimension %d: s[%d][%d] is %.9g, expected %.9g within %.2g",
                                  s.dim, q, key, got, value, error);
        }
    }
    return true;
}

bool fy_kc_attend_dots_alone(fy_kc_case *t)
{
    work *w = t->work;
    shape s;
    for (int i = 0; i < N_DIMS; i += 3) {
        if (!shape_of(t, i, true, &s))
            continue;
        fill_dots(t, &s);
        const int n = (s.n_queries - 1) * CHUNK + s.n_keys;
        memcpy(w->expected, dots(t, &t->k, &s, 0, 0), (size_t)n * sizeof(float));
        shape alone = s;
        alone.n_queries = alone.n_keys = 1;
        for (int c = 0; c < s.n_queries * s.n_keys; c += 5) {
            const int q = c / s.n_keys, key = c % s.n_keys;
            if (!fy_kc_same_all(t, "s", dots(t, &t->k, &alone, q, key),
                                w->expected + q * CHUNK + key, 1))
                return false;
        }
    }
    return true;
}

/* --- softmax ---------------------------------------------------------------------------------- */

typedef struct {
    float scale, cap;
    int begin, end;
} step;

static step pick_step(fy_kc_random *r)
{
    static const float caps[] = {0.0f, 0.0f, 5.0f, 50.0f};
    static const float scales[] = {0.0f, 0.125f, 1.0f, 8.0f, 100.0f};
    const int begin = fy_kc_between(r, 0, 2) == 0 ? fy_kc_between(r, 0, CHUNK - 1) : 0;
    const int end = fy_kc_between(r, 0, 2) == 0 ? fy_kc_between(r, begin + 1, CHUNK) : CHUNK;
    return (step){scales[fy_kc_between(r, 0, 4)], caps[fy_kc_between(r, 0, 3)], begin, end};
}

static const float *softmax(fy_kc_case *t, const fy_kernels *k, const step *f, int n_queries,
                            fy_softmax *state)
{
    work *w = t->work;
    float *s = fy_kc_place_copy(t, FY_KC_X, w->queries, (size_t)n_queries * CHUNK * sizeof *s);
    k->attend_softmax(s, n_queries, f->begin, f->end, f->scale, f->cap, state);
    return s;
}

/* Scores of a chunk; what the query does not see may be anything. */
static void fill_scores(fy_kc_case *t, const step *f, float *s, bool with_hostile)
{
    fill(t, s, CHUNK, with_hostile);
    for (int j = 0; j < CHUNK; j++) {
        if (j < f->begin || j >= f->end)
            s[j] = j % 3 == 0 ? NAN : j % 3 == 1 ? INFINITY : 1e30f;
    }
    if (with_hostile && fy_kc_between(&t->random, 0, 3) == 0) {
        for (int j = 0; j < CHUNK; j++)
            s[j] = -INFINITY;
    }
}

static bool same_state(const fy_softmax *a, const fy_softmax *b)
{
    const bool same_sum =
        memcmp(&a->sum, &b->sum, sizeof a->sum) == 0 || (isnan(a->sum) && isnan(b->sum));
    return a->max == b->max && fy_kc_same(a->factor, b->factor) && same_sum;
}

static bool same_states(fy_kc_case *t, const fy_softmax *got, const fy_softmax *expected, int n)
{
    for (int i = 0; i < n; i++) {
        if (!same_state(&expected[i], &got[i]))
            return fy_kc_fail(
                t, "query %d: maximum %.9g, factor %.9g, sum %.17g, expected %.9g, %.9g, %.17g", i,
                (double)got[i].max, (double)got[i].factor, got[i].sum, (double)expected[i].max,
                (double)expected[i].factor, expected[i].sum);
    }
    return true;
}

bool fy_kc_attend_softmax_equals_spec(fy_kc_case *t)
{
    enum { QUERIES = 3 };
    work *w = t->work;
    for (int i = 0; i < 400; i++) {
        const int n = 1 + i % QUERIES;
        fy_softmax expected[QUERIES], got[QUERIES];
        for (int c = 0; c < QUERIES; c++)
            expected[c] = got[c] = (fy_softmax){.max = -INFINITY};
        for (int chunk = 0; chunk < 4; chunk++) {
            const step f = pick_step(&t->random);
            for (int c = 0; c < n; c++)
                fill_scores(t, &f, w->queries + c * CHUNK, i % 2 == 0);
            memcpy(w->expected, softmax(t, &t->spec, &f, n, expected),
                   (size_t)n * CHUNK * sizeof(float));
            if (!fy_kc_same_all(t, "p", softmax(t, &t->k, &f, n, got), w->expected, n * CHUNK) ||
                !same_states(t, got, expected, n))
                return false;
        }
    }
    return true;
}

/* The score of a key in double, and its magnitude. */
static double score_of(const step *f, float s)
{
    const double scaled = (double)f->scale * (double)s;
    return f->cap != 0 ? (double)f->cap * tanh(scaled / (double)f->cap) : scaled;
}

/* Each p, divided by the sum so far, is near what one softmax over all keys gives when the chunk is
 * the last. */
bool fy_kc_attend_softmax_near(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < 200; i++) {
        fy_softmax state = {.max = -INFINITY};
        double top = -INFINITY, sum = 0, largest = 0;
        step f = pick_step(&t->random);
        for (int chunk = 0; chunk < 4; chunk++) {
            const step range = pick_step(&t->random);
            f.begin = range.begin;
            f.end = range.end;
            fill_scores(t, &f, w->queries, false);
            const float *p = softmax(t, &t->k, &f, 1, &state);
            const double before = top;
            for (int j = f.begin; j < f.end; j++) {
                top = fmax(top, score_of(&f, w->queries[j]));
                largest = fmax(largest, fabs(score_of(&f, w->queries[j])));
            }
            sum *= chunk > 0 ? exp(before - top) : 0;
            for (int j = f.begin; j < f.end; j++)
                sum += exp(score_of(&f, w->queries[j]) - top);
            const double error =
                (chunk + 1) * (6 * U * largest + 2 * (double)f.cap * EXP_ERROR + 3 * EXP_ERROR);
            for (int j = 0; j < CHUNK; j++) {
                const bool seen = j >= f.begin && j < f.end;
                const double want = seen ? exp(score_of(&f, w->queries[j]) - top) / sum : 0;
                const double got = (double)p[j] / state.sum;
                if (!(fabs(got - want) <= error * want + 1e-37))
                    return fy_kc_fail(t, "chunk %d: p[%d] of %d to %d is %.9g, expected %.9g",
                                      chunk, j, f.begin, f.end, got, want);
            }
        }
    }
    return true;
}

/* --- sums of values --------------------------------------------------------------------------- */

static void fill_add(fy_kc_case *t, const shape *s)
{
    work *w = t->work;
    fill_rows(t, s);
    fill(t, w->p, s->n_queries * CHUNK, s->hostile);
    fill(t, w->acc, s->n_queries * s->dim, false);
}

/* Sums of the queries from `query` on, over the keys from `begin` to end-1, from w->acc on. */
static const float *add(fy_kc_case *t, const fy_kernels *k, const shape *s, int query, int begin,
                        int end)
{
    work *w = t->work;
    const size_t n_p = (size_t)(s->n_queries - 1) * CHUNK + (size_t)(end - begin);
    const float *p = fy_kc_place_copy(t, FY_KC_X, w->p + query * CHUNK + begin, n_p * sizeof *p);
    const void *V = fy_kc_place_copy(t, FY_KC_V, w->coded + (size_t)begin * row_bytes(t, s->dim),
                                     (size_t)(end - begin) * row_bytes(t, s->dim));
    float *acc = fy_kc_place_copy(t, FY_KC_Y, w->acc + query * s->dim,
                                  (size_t)(s->n_queries * s->dim) * sizeof *acc);
    fy_attend_add_fn *f = t->type == FY_F32   ? k->attend_add_f32
                          : t->type == FY_F16 ? k->attend_add_f16
                                              : k->attend_add_q8_0;
    f(acc, p, s->n_queries, V, end - begin, s->dim);
    return acc;
}

bool fy_kc_attend_add_equals_spec(fy_kc_case *t)
{
    work *w = t->work;
    shape s;
    for (int i = 0; i < 3 * N_DIMS; i++) {
        if (!shape_of(t, i % N_DIMS, true, &s))
            continue;
        fill_add(t, &s);
        const int n = s.n_queries * s.dim;
        memcpy(w->expected, add(t, &t->spec, &s, 0, 0, s.n_keys), (size_t)n * sizeof(float));
        if (!fy_kc_same_all(t, "acc", add(t, &t->k, &s, 0, 0, s.n_keys), w->expected, n))
            return false;
    }
    return true;
}

bool fy_kc_attend_add_near(fy_kc_case *t)
{
    work *w = t->work;
    shape s;
    for (int i = 0; i < N_DIMS; i++) {
        if (!shape_of(t, i, false, &s))
            continue;
        fill_add(t, &s);
        const float *out = add(t, &t->k, &s, 0, 0, s.n_keys);
        for (int c = 0; c < s.n_queries * s.dim; c++) {
            const int q = c / s.dim;
            double value = (double)w->acc[c], size = fabs(value);
            for (int j = 0; j < s.n_keys; j++) {
                const double term =
                    (double)w->p[q * CHUNK + j] * (double)w->rows[j * s.dim + c % s.dim];
                value += term;
                size += fabs(term);
            }
            const double error = ((double)s.n_keys + 2) * U * size + 1e-40;
            if (!(fabs((double)out[c] - value) <= error))
                return fy_kc_fail(t, "dimension %d: acc[%d][%d] is %.9g, expected %.9g within %.2g",
                                  s.dim, q, c % s.dim, (double)out[c], value, error);
        }
    }
    return true;
}

bool fy_kc_attend_add_alone(fy_kc_case *t)
{
    work *w = t->work;
    shape s;
    for (int i = 0; i < N_DIMS; i++) {
        if (!shape_of(t, i, true, &s))
            continue;
        fill_add(t, &s);
        const int n = s.n_queries * s.dim;
        memcpy(w->expected, add(t, &t->k, &s, 0, 0, s.n_keys), (size_t)n * sizeof(float));
        shape alone = s;
        alone.n_queries = 1;
        for (int q = 0; q < s.n_queries; q++) {
            const int part = fy_kc_between(&t->random, 0, s.n_keys);
            const size_t bytes = (size_t)s.dim * sizeof(float);
            memcpy(w->acc + q * s.dim, add(t, &t->k, &alone, q, 0, part), bytes);
            const float *out = add(t, &t->k, &alone, q, part, s.n_keys);
            if (!fy_kc_same_all(t, "acc", out, w->expected + q * s.dim, s.dim))
                return false;
        }
    }
    return true;
}
