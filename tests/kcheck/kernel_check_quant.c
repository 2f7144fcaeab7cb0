/* The activations' quantizer and the file encoders. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

enum { MAX_BLOCKS = 72, ROUNDS = 60 };

/* Blocks of values that rounding rules disagree on. */
typedef enum {
    NORMAL,   /* as weights and activations are */
    BF16,     /* the same, rounded to bf16 */
    TIES,     /* between two codes of a type around 0: exactly, or the next float above or below */
    STEPS,    /* the same of a type with a minimum, and on the codes */
    SPIKE,    /* one value, zeros of either sign around it */
    OPPOSITE, /* several values share the largest magnitude, of either sign */
    FLAT,     /* all values equal, or two neighbouring floats */
    FAINT,    /* the f16 scale is subnormal or zero */
    TINY,     /* the scale or its inverse leaves the range of f32 */
    VAST,     /* up to the largest f32: the f16 scale overflows */
    ZERO,
    N_UNMIXED,
    MIXED = N_UNMIXED, /* any of these in each block of 32: in a superblock side by side */
    N_KINDS,
    NOT_FINITE = N_KINDS,
} kind;

static float bf16_rounded(float f)
{
    return fy_bf16_to_f32(fy_f32_to_bf16(f));
}

/* v, or the next float above or below. */
static float near(fy_kc_random *r, float v)
{
    const int side = fy_kc_between(r, -1, 1);
    return side == 0 ? v : nextafterf(v, (float)side * INFINITY);
}

/* What the values of a block have in common. */
typedef struct {
    float unit, faint, tiny, sign, origin;
    int top, n_steps; /* of codes around 0; of codes between a smallest and a largest value */
    int at;           /* of the element that stands out */
} common;

static common pick_common(fy_kc_random *r)
{
    static const int tops[] = {8, 16, 32, 127}, n_steps[] = {15, 31};
    return (common){
        .unit = ldexpf(1.0f, fy_kc_between(r, -12, 4)),
        .faint = ldexpf(1.0f, fy_kc_between(r, -36, -14)),
        .tiny = ldexpf(1.0f, fy_kc_between(r, -149, -118)),
        .sign = fy_kc_next(r) & 1 ? 1.0f : -1.0f,
        .origin = (float)fy_kc_between(r, -40, 8),
        .top = tops[fy_kc_between(r, 0, 3)],
        .n_steps = n_steps[fy_kc_between(r, 0, 1)],
        .at = fy_kc_between(r, 0, FY_QK - 1),
    };
}

static float step_value(fy_kc_random *r, const common *c, int i)
{
    if (i == c->at)
        return c->unit * c->origin;
    if (i == (c->at + 1) % FY_QK)
        return c->unit * (c->origin + (float)c->n_steps);
    const float v = 0.5f * (float)fy_kc_between(r, 1, 2 * c->n_steps - 1);
    return c->unit * near(r, c->origin + v);
}

static float value_of(fy_kc_random *r, kind how, const common *c, int i)
{
    const float zero = fy_kc_next(r) & 1 ? 0.0f : -0.0f, n = fy_kc_normal(r);
    switch (how) {
    case NORMAL:
        return 0.02f * n;
    case BF16:
        return bf16_rounded(0.02f * n);
    case TIES:
        return c->unit * (i == c->at
                              ? c->sign * (float)c->top
                              : near(r, (float)fy_kc_between(r, -c->top, c->top - 1) + 0.5f));
    case STEPS:
        return step_value(r, c, i);
    case SPIKE:
        return i == c->at ? n * c->unit : zero;
    case OPPOSITE:
        return (float)fy_kc_between(r, -2, 2) * 0.5f * c->unit;
    case FLAT:
        return c->unit * c->sign * (c->at & 1 ? 3.0f : near(r, 3.0f));
    case FAINT:
        return n * c->faint;
    case TINY:
        return n * c->tiny;
    case VAST:
        return fy_kc_uniform(r) * (i == c->at ? 3.4e38f : ldexpf(1.0f, fy_kc_between(r, 10, 127)));
    case NOT_FINITE:
        return i != c->at ? n : fy_kc_next(r) & 1 ? c->sign * INFINITY : NAN;
    case ZERO:
    case MIXED: /* none of its own */
        break;
    }
    return zero;
}

static void fill_block(fy_kc_random *r, kind how, float *x)
{
    const common c = pick_common(r);
    if (how == MIXED)
        how = (kind)fy_kc_between(r, 0, N_UNMIXED - 1);
    for (int i = 0; i < FY_QK; i++)
        x[i] = value_of(r, how, &c, i);
}

static void fill_blocks(fy_kc_random *r, kind how, float *x, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++)
        fill_block(r, how, x + b * FY_QK);
}

/* --- activations --- */

typedef struct {
    int8_t q[MAX_BLOCKS * FY_QK];
    float d[MAX_BLOCKS];
    int32_t sum[MAX_BLOCKS];
} quantized;

/* What lies in fy_kc_case.work. */
typedef struct {
    float values[MAX_BLOCKS * FY_QK], importance[MAX_BLOCKS * FY_QK], plain[MAX_BLOCKS * FY_QK];
    quantized got, expected;
    uint8_t blocks[MAX_BLOCKS * sizeof(fy_block_q8_0)];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES, "work memory");

/* The columns [begin, end) of n_cols, on guarded buffers whose other columns are 0x55. */
static void quantize(fy_kc_case *t, const fy_kernels *k, int64_t row_blocks, int64_t n_cols,
                     int64_t begin, int64_t end, quantized *out)
{
    const size_t n = (size_t)(row_blocks * n_cols);
    const work *w = t->work;
    fy_act a = {.k = row_blocks * FY_QK};
    a.x = fy_kc_place_copy(t, FY_KC_X, w->values, n * FY_QK * sizeof *w->values);
    a.q = fy_kc_place(t, FY_KC_Q, n * FY_QK);
    a.d = fy_kc_place(t, FY_KC_D, n * sizeof *a.d);
    a.sum = fy_kc_place(t, FY_KC_SUM, n * sizeof *a.sum);
    memset(a.q, 0x55, n * FY_QK);
    memset(a.d, 0x55, n * sizeof *a.d);
    memset(a.sum, 0x55, n * sizeof *a.sum);
    k->act_quantize(&a, begin, end);
    memcpy(out->q, a.q, n * FY_QK);
    memcpy(out->d, a.d, n * sizeof *a.d);
    memcpy(out->sum, a.sum, n * sizeof *a.sum);
}

static bool same_quantized(fy_kc_case *t, const quantized *a, const quantized *b, int n_blocks)
{
    const work *w = t->work;
    if (!fy_kc_same_all(t, "d", a->d, b->d, n_blocks))
        return false;
    for (int i = 0; i < n_blocks * FY_QK; i++) {
        if (a->q[i] != b->q[i])
            return fy_kc_fail(t, "q of %.9g with scale %.9g is %d, expected %d",
                              (double)w->values[i], (double)b->d[i / FY_QK], a->q[i], b->q[i]);
    }
    for (int i = 0; i < n_blocks; i++) {
        if (a->sum[i] != b->sum[i])
            return fy_kc_fail(t, "sum is %d, expected %d", (int)a->sum[i], (int)b->sum[i]);
    }
    return true;
}

bool fy_kc_act_equals_spec(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < ROUNDS; i++) {
        for (kind how = 0; how <= NOT_FINITE; how++) {
            const int n_cols = fy_kc_between(&t->random, 0, 8),
                      row_blocks = fy_kc_between(&t->random, 0, 9);
            const int begin = fy_kc_between(&t->random, 0, n_cols),
                      end = fy_kc_between(&t->random, begin, n_cols);
            fill_blocks(&t->random, how, w->values, row_blocks * n_cols);
            quantize(t, &t->spec, row_blocks, n_cols, begin, end, &w->expected);
            quantize(t, &t->k, row_blocks, n_cols, begin, end, &w->got);
            if (!same_quantized(t, &w->got, &w->expected, row_blocks * n_cols))
                return false;
        }
    }
    return true;
}

bool fy_kc_act_half_step(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < ROUNDS; i++) {
        for (kind how = 0; how < N_KINDS; how++) {
            if (how == TINY || how == MIXED)
                continue; /* its scale has few bits or its codes are 0 by rule */
            fill_blocks(&t->random, how, w->values, MAX_BLOCKS);
            quantize(t, &t->k, MAX_BLOCKS, 1, 0, 1, &w->got);
            for (int b = 0; b < MAX_BLOCKS; b++) {
                const double d = (double)w->got.d[b];
                int32_t sum = 0;
                for (int e = b * FY_QK; e < (b + 1) * FY_QK; e++) {
                    sum += w->got.q[e];
                    if (!(fabs((double)w->values[e] - w->got.q[e] * d) <= 0.50002 * d))
                        return fy_kc_fail(t, "%.9g became %d * %.9g", (double)w->values[e],
                                          w->got.q[e], d);
                }
                if (sum != w->got.sum[b])
                    return fy_kc_fail(t, "sum is %d, expected %d", (int)w->got.sum[b], (int)sum);
            }
        }
    }
    return true;
}

bool fy_kc_act_not_finite(fy_kc_case *t)
{
    work *w = t->work;
    static const float culprits[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int i = 0; i < FY_QK; i++) {
        for (int c = 0; c < 4; c++) {
            fill_block(&t->random, NORMAL, w->values);
            w->values[i] = culprits[c];
            quantize(t, &t->k, 1, 1, 0, 1, &w->got);
            if (isfinite(w->got.d[0]))
                return fy_kc_fail(t, "%g at element %d is lost: the scale is %g",
                                  (double)culprits[c], i, (double)w->got.d[0]);
            for (int e = 0; e < FY_QK; e++) {
                if (w->got.q[e] != 0)
                    return fy_kc_fail(t, "q[%d] is %d, expected 0", e, w->got.q[e]);
            }
            if (w->got.sum[0] != 0)
                return fy_kc_fail(t, "sum is %d, expected 0", (int)w->got.sum[0]);
        }
    }
    return true;
}

/* --- files --- */

/* The rows of a file: whole blocks of its type, of which there are `n`. */
static size_t rows_bytes(const fy_kc_case *t, int64_t n)
{
    return (size_t)n * fy_type_get((uint32_t)t->type)->bytes;
}

static int64_t rows_elems(const fy_kc_case *t, int64_t n)
{
    return n * fy_type_get((uint32_t)t->type)->block;
}

static int max_rows_blocks(const fy_kc_case *t)
{
    return MAX_BLOCKS * FY_QK / fy_type_get((uint32_t)t->type)->block;
}

/* Of encoders that search, the K types' among them: up to forty times the work for an element. */
enum { SEARCH_ROUNDS = ROUNDS / 4 };

static int rounds(const fy_kc_case *t)
{
    return fy_type_get((uint32_t)t->type)->block > FY_QK ? SEARCH_ROUNDS : ROUNDS;
}

static void fill_rows(fy_kc_case *t, kind how, int64_t n)
{
    work *w = t->work;
    fill_blocks(&t->random, how, w->values, rows_elems(t, n) / FY_QK);
}

static void *encode(fy_kc_case *t, const fy_kernels *k, int64_t n)
{
    const work *w = t->work;
    const size_t n_elems = (size_t)rows_elems(t, n);
    const float *x = fy_kc_place_copy(t, FY_KC_X, w->values, n_elems * sizeof *w->values);
    void *y = fy_kc_place(t, FY_KC_Y, rows_bytes(t, n));
    fy_kc_encode(k, t->type, y, x, (int64_t)n_elems);
    return y;
}

static float *decode(fy_kc_case *t, const fy_kernels *k, const void *blocks, int64_t n)
{
    const void *x = fy_kc_place_copy(t, FY_KC_X, blocks, rows_bytes(t, n));
    float *y = fy_kc_place(t, FY_KC_V, (size_t)rows_elems(t, n) * sizeof *y);
    fy_kc_decode(k, t->type, y, x, rows_elems(t, n));
    return y;
}

bool fy_kc_encode_equals_spec(fy_kc_case *t)
{
    work *w = t->work;
    uint8_t *want = w->blocks;
    const size_t block = rows_bytes(t, 1);
    for (int i = 0; i < rounds(t); i++) {
        for (kind how = 0; how < N_KINDS; how++) {
            const int n = fy_kc_between(&t->random, 0, max_rows_blocks(t));
            fill_rows(t, how, n);
            memcpy(want, encode(t, &t->spec, n), rows_bytes(t, n));
            const uint8_t *y = encode(t, &t->k, n);
            for (size_t b = 0; b < rows_bytes(t, n); b++) {
                if (y[b] != want[b])
                    return fy_kc_fail(t,
                                      "data of kind %d: byte %d of block %d is %02x, expected %02x",
                                      (int)how, (int)(b % block), (int)(b / block), y[b], want[b]);
            }
        }
    }
    return true;
}

/* How near a value comes back in a block whose largest magnitude is `top`: top / levels is a step
 * between codes; `steps` of it are the code's rounding, an end that the type lacks and, in the K
 * types, the rounding of scales to six or eight bits and what the search gives up at the ends for
 * the sum; `halves` smallest f16 for the rounding of small scales, and 2^-11 for that of others. */
static double nearness(fy_type type, double top)
{
    static const struct {
        fy_type type;
        double levels, steps, halves;
    } types[] = {
        {FY_Q8_0, 127, 0.5, 127},    {FY_Q4_0, 8, 1, 8},           {FY_Q5_0, 16, 1, 16},
        {FY_Q4_1, 7.5, 0.5, 16},     {FY_Q5_1, 15.5, 0.5, 32},     {FY_Q4_K, 7.5, 1.5, 63 * 16},
        {FY_Q5_K, 15.5, 2, 63 * 32}, {FY_Q6_K, 32, 2.5, 128 * 32},
    };
    size_t i = 0;
    while (types[i].type != type)
        i++;
    return top / types[i].levels * types[i].steps + top * 3 * 0x1p-11 + types[i].halves * 0x1p-25;
}

bool fy_kc_encode_near(fy_kc_case *t)
{
    work *w = t->work;
    const int n = max_rows_blocks(t), block = (int)rows_elems(t, 1);
    for (int i = 0; i < rounds(t); i++) {
        for (kind how = 0; how < N_KINDS; how++) {
            if (how == TINY || how == VAST || how == MIXED)
                continue; /* scales that f16 does not have */
            fill_rows(t, how, n);
            const float *y = decode(t, &t->spec, encode(t, &t->k, n), n);
            for (int b = 0; b < n; b++) {
                double top = 0;
                for (int e = b * block; e < (b + 1) * block; e++)
                    top = fmax(top, fabs((double)w->values[e]));
                for (int e = b * block; e < (b + 1) * block; e++) {
                    if (!(fabs((double)w->values[e] - (double)y[e]) <= nearness(t->type, top)))
                        return fy_kc_fail(t,
                                          "%.9g came back as %.9g from a block of magnitude %.9g",
                                          (double)w->values[e], (double)y[e], top);
                }
            }
        }
    }
    return true;
}

/* Such rows are refused before they come here (kernels/row.h): they only must not do harm, which
 * the guards, and the sanitizers in their build, would notice. */
bool fy_kc_encode_not_finite(fy_kc_case *t)
{
    fill_rows(t, NOT_FINITE, max_rows_blocks(t));
    encode(t, &t->k, max_rows_blocks(t));
    return true;
}

/* --- files, with importance ------------------------------------------------------------------- */

static void encode_fitted(const fy_kernels *k, fy_type type, void *y, const float *x, int64_t n,
                          const float *importance)
{
    switch ((int)type) {
    case FY_Q8_0:
        k->fit_q8_0(y, x, n, importance);
        break;
    case FY_Q4_0:
        k->fit_q4_0(y, x, n, importance);
        break;
    case FY_Q4_1:
        k->fit_q4_1(y, x, n, importance);
        break;
    case FY_Q5_0:
        k->fit_q5_0(y, x, n, importance);
        break;
    default:
        k->fit_q5_1(y, x, n, importance);
        break;
    }
}

static void encode_weighted(const fy_kernels *k, fy_type type, void *y, const float *x, int64_t n,
                            const float *importance)
{
    const float mean_square = n > 0 ? x[0] * x[0] : 0.0f; /* any will do */
    switch ((int)type) {
    case FY_Q4_0:
        k->encode_weighted_q4_0(y, x, n, importance, mean_square);
        break;
    case FY_Q4_1:
        k->encode_weighted_q4_1(y, x, n, importance, mean_square);
        break;
    case FY_Q5_0:
        k->encode_weighted_q5_0(y, x, n, importance, mean_square);
        break;
    case FY_Q5_1:
        k->encode_weighted_q5_1(y, x, n, importance, mean_square);
        break;
    case FY_Q4_K:
        k->encode_weighted_q4_k(y, x, n, importance);
        break;
    case FY_Q5_K:
        k->encode_weighted_q5_k(y, x, n, importance);
        break;
    default:
        k->encode_weighted_q6_k(y, x, n, importance);
        break;
    }
}

typedef void important_encoder(const fy_kernels *k, fy_type type, void *y, const float *x,
                               int64_t n, const float *importance);

/* Of one size, of many sizes, half of it zeros, and nothing but zeros. */
static void fill_importance(fy_kc_random *r, float *importance, int64_t n)
{
    const int how = fy_kc_between(r, 0, 3);
    for (int64_t i = 0; i < n; i++) {
        const float u = 1.0f + fy_kc_uniform(r);
        const bool some = how < 2 || (how == 2 && (fy_kc_next(r) & 1) != 0);
        importance[i] = !some ? 0.0f : how == 1 ? ldexpf(u, fy_kc_between(r, -30, 30)) : u;
    }
}

static void *encode_important(fy_kc_case *t, important_encoder *f, const fy_kernels *k, int64_t n,
                              bool has_importance)
{
    const work *w = t->work;
    const size_t n_bytes = (size_t)rows_elems(t, n) * sizeof *w->values;
    const float *x = fy_kc_place_copy(t, FY_KC_X, w->values, n_bytes);
    const float *importance = fy_kc_place_copy(t, FY_KC_W, w->importance, n_bytes);
    void *y = fy_kc_place(t, FY_KC_Y, rows_bytes(t, n));
    f(k, t->type, y, x, rows_elems(t, n), has_importance ? importance : NULL);
    return y;
}

static bool important_equals_spec(fy_kc_case *t, important_encoder *f, bool may_have_none)
{
    work *w = t->work;
    for (int i = 0; i < SEARCH_ROUNDS; i++) {
        for (kind how = 0; how < N_KINDS; how++) {
            const int n = fy_kc_between(&t->random, 0, max_rows_blocks(t));
            const bool has_importance = !may_have_none || (fy_kc_next(&t->random) & 1) != 0;
            fill_rows(t, how, n);
            fill_importance(&t->random, w->importance, rows_elems(t, n));
            memcpy(w->blocks, encode_important(t, f, &t->spec, n, has_importance),
                   rows_bytes(t, n));
            const uint8_t *y = encode_important(t, f, &t->k, n, has_importance);
            if (memcmp(y, w->blocks, rows_bytes(t, n)) != 0)
                return fy_kc_fail(t, "data of kind %d, %d blocks %s importance: other bytes",
                                  (int)how, n, has_importance ? "with" : "without");
        }
    }
    return true;
}

bool fy_kc_fit_equals_spec(fy_kc_case *t)
{
    return important_equals_spec(t, encode_fitted, true);
}

bool fy_kc_weighted_equals_spec(fy_kc_case *t)
{
    return important_equals_spec(t, encode_weighted, false);
}

static double weighted_error(const float *x, const float *y, const float *weights, int n)
{
    double error = 0;
    for (int i = 0; i < n; i++) {
        const double off = (double)x[i] - (double)y[i];
        error += (weights != NULL ? (double)weights[i] : 1.0) * off * off;
    }
    return error;
}

/* Against the blocks of the encoder that does not search. */
bool fy_kc_fit_no_worse(fy_kc_case *t)
{
    work *w = t->work;
    const int n = MAX_BLOCKS / 4;
    for (int i = 0; i < SEARCH_ROUNDS; i++) {
        for (kind how = 0; how < N_KINDS; how++) {
            const float *weights = (fy_kc_next(&t->random) & 1) != 0 ? w->importance : NULL;
            fill_rows(t, how, n);
            fill_importance(&t->random, w->importance, rows_elems(t, n));
            memcpy(w->plain, decode(t, &t->spec, encode(t, &t->spec, n), n),
                   (size_t)rows_elems(t, n) * sizeof *w->plain);
            const float *y = decode(
                t, &t->spec, encode_important(t, encode_fitted, &t->k, n, weights != NULL), n);
            for (int b = 0; b < n * FY_QK; b += FY_QK) {
                const float *of = weights != NULL ? weights + b : NULL;
                const double before = weighted_error(w->values + b, w->plain + b, of, FY_QK),
                             after = weighted_error(w->values + b, y + b, of, FY_QK);
                /* else the reference's scale is none that f16 has */
                if (isfinite(before) && !(after <= before * 1.00001))
                    return fy_kc_fail(t, "data of kind %d: error %g, without fitting %g", (int)how,
                                      after, before);
            }
        }
    }
    return true;
}

static bool important_not_finite(fy_kc_case *t, important_encoder *f)
{
    work *w = t->work;
    const int n = max_rows_blocks(t);
    fill_rows(t, NOT_FINITE, n);
    fill_importance(&t->random, w->importance, rows_elems(t, n));
    encode_important(t, f, &t->k, n, true);
    return true;
}

bool fy_kc_fit_not_finite(fy_kc_case *t)
{
    return important_not_finite(t, encode_fitted);
}

bool fy_kc_weighted_not_finite(fy_kc_case *t)
{
    return important_not_finite(t, encode_weighted);
}
