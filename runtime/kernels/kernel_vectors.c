/* Fixed vectors for every kernel.
 *
 * An operation has a runner here. It makes the inputs of vector i from an integer generator, runs
 * the kernel and records every output as 32-bit words. Lengths go through all that are short and
 * through those around the unrollings and tiles of the kernels; values are ordinary ones, ends of
 * ranges, ties, and numbers that are hard for the type. kernels.h promises the same bits on every
 * machine, so the hash of all words is a constant: the one of the scalar kernels. Only where it
 * differs the scalar kernels run, to find the vector. */
#include "kernels/kernel_vectors.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernels/row.h"

enum {
    CHUNK = FY_ATTEND_CHUNK,
    SPARE = 8, /* elements after the output, which must stay as they are */
    ROWS = 36,
    MAX_ROW_BYTES = 2080 * 4 + 3,
    N_VALUES = 20 * 2080 + 32, /* columns of a product */
};

typedef struct {
    _Alignas(64) uint8_t scratch[FY_KERNEL_SCRATCH_BYTES];
    _Alignas(64) float x[N_VALUES], w[N_VALUES], y[N_VALUES];
    uint8_t weights[ROWS * MAX_ROW_BYTES + 3]; /* of matmul, at any address; or K, or V */
    uint16_t row[N_VALUES];                    /* stored elements */
    int8_t q[N_VALUES];
    float d[N_VALUES / FY_QK];
    int32_t sum[N_VALUES / FY_QK];
    uint32_t words[N_VALUES]; /* what came out */
    size_t n_words;
    fy_kernels spec; /* the scalar kernels */
    /* of the vector that runs: */
    const fy_kernels *k;
    fy_type type; /* of the operation, where it has one */
    int arg, i;
    uint64_t random;
} job;

/* --- inputs ---------------------------------------------------------------------------------- */

static uint32_t next(job *j) /* splitmix64 */
{
    uint64_t z = j->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t)(z ^ z >> 31);
}

static int below(job *j, int n)
{
    return (int)(next(j) % (uint32_t)n);
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* [-2, 2); the same magnitude, any sign; multiples of half a unit; zeros but for one in 32; any
 * bits below 2; any finite bits; any bits; halfway between numbers of f16 or bf16. */
typedef enum { USUAL, FLAT, TIES, SPARSE, SMALL, FINITE, ANY, HALVES, N_FILLINGS } filling;

static void fill(job *j, float *x, int n, filling how)
{
    const float unit = float_of((uint32_t)(112 + below(j, 30)) << 23); /* 2^-15 .. 2^14 */
    const uint32_t signs = next(j);
    const int at = below(j, 32);
    for (int i = 0; i < n; i++) {
        const uint32_t bits = next(j);
        if (how == USUAL)
            x[i] = (float)((int32_t)bits >> 8) * 0x1p-22f;
        else if (how == FLAT)
            x[i] = bits & signs & 1 ? -unit : unit;
        else if (how == TIES)
            x[i] = unit * 0.5f * (float)((int)(bits % 511) - 255);
        else if (how == SPARSE)
            x[i] = i % 32 == at ? unit : float_of(bits & 0x80000000);
        else if (how == SMALL || (how == FINITE && (bits & 0x7f800000) == 0x7f800000))
            x[i] = float_of(bits & 0xbfffffff);
        else if (how == HALVES)
            x[i] = float_of(bits & 1 ? (bits & 0xffff0000) | 0x8000 : (bits & 0xffffe000) | 0x1000);
        else
            x[i] = float_of(bits);
    }
}

/* Blocks of any bytes or (FLAT) of ends of ranges. Their scales are of everyday size or (FINITE,
 * ANY) hard for f16, not finite ones among them. */
static void fill_blocks(job *j, uint8_t *p, int n_blocks, filling how)
{
    static const uint8_t ends[] = {0x00, 0xff, 0x80, 0x7f};
    static const uint16_t hard[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400,
                                    0x7bff, 0xfbff, 0x3c00, 0x7c00, 0x7e00};
    const int bytes = fy_type_get((uint32_t)j->type)->bytes;
    const fy_block_form form = fy_block_form_of(j->type);
    for (int b = 0; b < n_blocks; b++, p += bytes) {
        const uint32_t mask = next(j) & 3, first = next(j) & 3;
        for (int i = 0; i < bytes; i++)
            p[i] = how == FLAT ? ends[(next(j) & mask) ^ first] : (uint8_t)next(j);
        if (j->type == FY_MXFP4 && how != FINITE && how != ANY)
            p[0] = (uint8_t)(120 + p[0] % 16);
        if (j->type == FY_IQ1_M && how != ANY) /* the upper bits of its scale */
            p[bytes - 1] = (uint8_t)(0x20 | (p[bytes - 1] & 0x8f));
        for (int s = 0; s < (form.min_at > 0 ? 2 : 1) && form.scale_at != FY_NO_HALF; s++) {
            uint16_t half = (uint16_t)(0x2000 | (next(j) & 0x83ff)); /* 2^-7 .. 2^-6 */
            if (how == FINITE || how == ANY)
                half = hard[below(j, below(j, 20) == 0 ? 10 : 8)];
            memcpy(p + (s > 0 ? form.min_at : form.scale_at), &half, sizeof half);
        }
    }
}

/* n elements of the type, stored at any address. */
static void fill_row(job *j, uint8_t *row, int n, filling how)
{
    if (fy_kernels_wants_q8(j->type)) {
        fill_blocks(j, row, n / fy_type_get((uint32_t)j->type)->block, how);
        return;
    }
    fill(j, j->y, n, how);
    fy_row_encode_any(&j->spec, j->type, j->row, j->y, n);
    memcpy(row, j->row, (size_t)fy_type_row_bytes(j->type, (uint64_t)n));
}

/* The lengths of float rows. */
static const int long_lengths[] = {96, 127, 128, 129, 159, 255, 257, 1027};
enum { N_LENGTHS = 71 + sizeof long_lengths / sizeof long_lengths[0] };

static int length_at(int n)
{
    return n <= 70 ? n : long_lengths[n - 71];
}

/* --- outputs --------------------------------------------------------------------------------- */

/* j->y, n elements of which will be written. */
static float *output(job *j, int n)
{
    memset(j->y, 0xa5, (size_t)(n + SPARE) * sizeof *j->y);
    return j->y;
}

/* n and SPARE more; a NaN is any NaN, its bits are not part of the contract. */
static void put_floats(job *j, const float *p, int n)
{
    for (int i = 0; i < n + SPARE; i++) {
        uint32_t bits = 0x7fc00000;
        if (!isnan(p[i]))
            memcpy(&bits, &p[i], sizeof bits);
        j->words[j->n_words++] = bits;
    }
}

static void put_double(job *j, double v)
{
    uint64_t bits = 0x7ff8000000000000;
    if (!isnan(v))
        memcpy(&bits, &v, sizeof bits);
    j->words[j->n_words++] = (uint32_t)bits;
    j->words[j->n_words++] = (uint32_t)(bits >> 32);
}

static void put_bytes(job *j, const void *p, size_t n)
{
    for (size_t i = 0; i < n + SPARE; i++)
        j->words[j->n_words++] = ((const uint8_t *)p)[i];
}

/* --- runners: false when there is no vector i ------------------------------------------------ */

/* Some of the columns. */
static bool run_act_quantize(job *j)
{
    const int n_cols = j->i % 9, n_blocks = j->i / 9 % 10, n = n_cols * n_blocks;
    if (j->i >= N_FILLINGS * 90)
        return false;
    const fy_act a = {.x = j->x, .q = j->q, .d = j->d, .sum = j->sum, .k = n_blocks * FY_QK};
    fill(j, j->x, n * FY_QK, (filling)(j->i / 90));
    memset(j->q, 0xa5, sizeof j->q);
    memset(j->d, 0xa5, sizeof j->d);
    memset(j->sum, 0xa5, sizeof j->sum);
    const int begin = below(j, n_cols + 1);
    j->k->act_quantize(&a, begin, begin + below(j, n_cols - begin + 1));
    put_bytes(j, j->q, (size_t)n * FY_QK);
    put_floats(j, j->d, n);
    put_bytes(j, j->sum, (size_t)n * sizeof *j->sum);
    return true;
}

/* Some shapes for every row length, then every small shape for one length. */
static bool run_matmul(job *j)
{
    static const struct {
        int rows, cols;
    } some[] = {{1, 1}, {8, 1}, {17, 1}, {ROWS, 1}, {7, 2}, {20, 3}, {ROWS, 5}, {9, 9}, {17, 20}};
    static const int block_lengths[] = {0,   32,  64,  96,  128,  160,  256,
                                        480, 512, 544, 768, 1056, 1280, 2080};
    static const filling fillings[] = {USUAL, FLAT, FINITE, TIES};
    enum {
        SOME = sizeof some / sizeof some[0],
        N_BLOCK_LENGTHS = sizeof block_lengths / sizeof(int)
    };
    const bool blocks = fy_kernels_wants_q8(j->type);
    const int block = fy_type_get((uint32_t)j->type)->block, at = j->i / SOME,
              n_lengths = blocks ? (int)N_BLOCK_LENGTHS : (int)N_LENGTHS,
              rest = j->i - n_lengths * SOME;
    int k = 64, rows = rest % 21, cols = rest / 21;
    if (at < n_lengths) {
        k = blocks ? block_lengths[at] : length_at(at);
        rows = some[j->i % SOME].rows;
        cols = some[j->i % SOME].cols;
    } else if (cols >= 10) {
        return false;
    }
    k = (k + block - 1) / block * block;
    const filling how = fillings[j->i % 4];
    const size_t row_bytes = (size_t)fy_type_row_bytes(j->type, (uint64_t)k) + (size_t)(j->i % 3);
    const int first = rows > 0 ? j->i % 2 : 0, ldy = rows + 3;
    uint8_t *W = j->weights + j->i % 4;
    for (int r = first; r < rows; r++)
        fill_row(j, W + (size_t)r * row_bytes, k, how);
    fill(j, j->x, cols * k, how);
    const fy_act a = {.x = j->x, .q = j->q, .d = j->d, .sum = j->sum, .k = k};
    if (blocks)
        j->spec.act_quantize(&a, 0, cols);
    float *y = output(j, ldy * cols);
    memset(j->scratch, 0xff, 1024); /* NaN: what an earlier call left must not count */
    fy_kernels_matmul(j->k, j->type)(y, ldy, W, row_bytes, first, rows, &a, cols, j->scratch);
    put_floats(j, y, ldy * cols);
    return true;
}

/* arg: attend_add rather than attend_dots. Dimension after dimension, K or V in j->weights. */
static bool run_attend(job *j)
{
    static const int long_dims[] = {72, 80, 96, 112, 127, 128, 129, 160, 192, 256};
    enum { N_DIMS = 70 + sizeof long_dims / sizeof long_dims[0] };
    const int at = j->i % N_DIMS, round = j->i / N_DIMS;
    const int block = fy_type_get((uint32_t)j->type)->block, n_queries = 1 + below(j, 9),
              n_keys = round == 0 ? CHUNK : 1 + below(j, round == 1 ? 9 : CHUNK);
    if (round >= 3)
        return false;
    const int dim = ((at < 70 ? at + 1 : long_dims[at - 70]) + block - 1) / block * block,
              padded = (dim + 7) / 8 * 8, n = n_queries * (j->arg ? dim : CHUNK);
    fill_row(j, j->weights, n_keys * dim, round == 2 ? ANY : USUAL);
    memset(j->x, 0, (size_t)(n_queries * padded) * sizeof *j->x);
    for (int q = 0; q < n_queries && !j->arg; q++)
        fill(j, j->x + q * padded, dim, USUAL);
    output(j, n);
    if (!j->arg) {
        fy_attend_dots_fn *dots = j->type == FY_F16 ? j->k->attend_dots_f16 : j->k->attend_dots_f32;
        dots(j->y, j->x, n_queries, j->weights, n_keys, dim);
    } else {
        fy_attend_add_fn *add = j->type == FY_F16    ? j->k->attend_add_f16
                                : j->type == FY_Q8_0 ? j->k->attend_add_q8_0
                                                     : j->k->attend_add_f32;
        fill(j, j->y, n, USUAL);
        fill(j, j->x, n_queries * CHUNK, USUAL);
        add(j->y, j->x, n_queries, j->weights, n_keys, dim);
    }
    put_floats(j, j->y, n);
    return true;
}

/* arg: add_rows rather than dot_rows. Any rows of the matrix, ascending; those of dot_rows have the
 * length of one of its blocks or more. */
static bool run_listed(job *j)
{
    static const int lengths[] = {32, 64, 96, 256, 544, 1056, 2080};
    enum { N_LISTED_LENGTHS = sizeof lengths / sizeof lengths[0] };
    const bool blocks = fy_kernels_wants_q8(j->type);
    const int n_lengths = blocks ? N_LISTED_LENGTHS : (int)N_LENGTHS;
    const int k = blocks ? lengths[j->i % n_lengths] : length_at(j->i % n_lengths);
    const int round = j->i / n_lengths, rows = 1 + below(j, ROWS);
    if (round >= 6)
        return false;
    const size_t row_bytes = (size_t)fy_type_row_bytes(j->type, (uint64_t)k) + (size_t)(j->i % 3);
    int32_t list[ROWS];
    int n = 0;
    for (int r = 0; r < rows; r++)
        fill_row(j, j->weights + (size_t)r * row_bytes, k, round % 3 == 2 ? FINITE : USUAL);
    for (int32_t r = 0; r < rows; r++) {
        list[n] = r;
        n += round < 2 || below(j, 3) > 0;
    }
    fill(j, j->x, k, USUAL);
    const fy_act a = {.x = j->x, .q = j->q, .d = j->d, .sum = j->sum, .k = k};
    float *y = output(j, j->arg ? k : ROWS);
    if (j->arg) {
        fill(j, y, k, USUAL);
        fy_kernels_add_rows(j->k, j->type)(y, j->x, j->weights, row_bytes, list, n, k);
    } else {
        j->spec.act_quantize(&a, 0, 1);
        fy_kernels_dot_rows(j->k, j->type)(y, j->weights, row_bytes, list, n, &a);
    }
    put_floats(j, y, j->arg ? k : ROWS);
    return true;
}

/* A tile, and tokens that count all of its rows or some of them; in j->words also how many. */
static bool run_tile(job *j)
{
    enum { TILE = 16, TOKENS = 6 };
    fy_add_token tokens[TOKENS];
    int32_t rows[TOKENS][TILE];
    float *tile = j->w, *y = output(j, TOKENS * FY_ADD_COLS);
    if (j->i >= 60)
        return false;
    const int32_t first = below(j, 1 << 24), n_rows = 1 + below(j, TILE),
                  end = first + n_rows - (j->i % 3 == 1);
    fill(j, tile, n_rows * FY_ADD_COLS, j->i % 3 == 2 ? FINITE : USUAL);
    fill(j, j->x, TOKENS * TILE, USUAL);
    fill(j, y, TOKENS * FY_ADD_COLS, USUAL);
    for (int c = 0; c < TOKENS; c++) {
        tokens[c] = (fy_add_token){y + c * FY_ADD_COLS, j->x + c * TILE, rows[c], 0};
        for (int32_t r = 0; r < n_rows; r++) {
            rows[c][tokens[c].n] = first + r;
            tokens[c].n += c != j->i % 8 || below(j, 3) > 0;
        }
    }
    j->k->add_tile(tokens, TOKENS, tile, first, end);
    for (int c = 0; c < TOKENS; c++)
        j->words[j->n_words++] = (uint32_t)tokens[c].n;
    put_floats(j, y, TOKENS * FY_ADD_COLS);
    return true;
}

/* Four chunks of a few queries; of the first many begins and ends. */
static bool run_attend_softmax(job *j)
{
    static const float caps[] = {0.0f, 5.0f, 50.0f}, scales[] = {0.125f, 1.0f, 8.0f, 100.0f};
    fy_softmax state[3] = {{.max = -INFINITY}, {.max = -INFINITY}, {.max = -INFINITY}};
    const int n = 1 + j->i % 3, begin = j->i % CHUNK, end = begin + 1 + j->i / CHUNK * 7;
    if (j->i >= 9 * CHUNK)
        return false;
    for (int chunk = 0; chunk < 4; chunk++) {
        fill(j, output(j, n * CHUNK), n * CHUNK, chunk == 3 && j->i % 2 ? ANY : USUAL);
        j->k->attend_softmax(j->y, n, chunk == 0 ? begin : 0,
                             chunk == 0 && end < CHUNK ? end : CHUNK, scales[j->i % 4],
                             caps[(j->i + chunk) % 3], state);
        put_floats(j, j->y, n * CHUNK);
        for (int i = 0; i < n; i++) {
            put_double(j, (double)state[i].max);
            put_double(j, (double)state[i].factor);
            put_double(j, state[i].sum);
        }
    }
    return true;
}

/* Operations on a vector of each length: */
enum { NORM = FY_ACT_COUNT, LAYER_NORM, SOFTCAP, ERROR_SUMS };

/* Two calls, of which one has limits. */
static void run_error_sums(job *j, int n, filling how)
{
    fy_error_sums s = {0};
    for (int call = 0; call < 2; call++) {
        fill(j, j->x, n, how);
        fill(j, j->y, n, how == FINITE ? USUAL : how);
        for (int i = 1; i < 2 * n; i += 2)
            j->w[i] = fabsf(j->w[i]);
        j->k->error_sums(&s, j->x, j->y, call > 0 ? j->w : NULL, n);
    }
    const double sums[] = {s.xx,    s.yy,    s.xy,        s.ee,
                           s.max_x, s.max_e, (double)s.n, (double)s.n_outside};
    for (int i = 0; i < 8; i++)
        put_double(j, sums[i]);
}

/* arg: one of those, or a kind of activation. Norms are computed in place every other time. */
static bool run_vector(job *j)
{
    const int n = length_at(j->i % N_LENGTHS), round = j->i / N_LENGTHS;
    float *y = output(j, n), *x = j->x;
    if (round >= N_FILLINGS)
        return false;
    fill(j, x, n, (filling)round);
    for (int i = 0; i < n && round == SPARSE; i += 3) /* where exponentials matter */
        x[i] = (float)(below(j, 4096) - 2048) * 0.05f;
    fill(j, j->w, 2 * n, USUAL);
    if (j->arg < NORM || j->arg == SOFTCAP || (round % 2 && j->arg != ERROR_SUMS))
        x = memcpy(y, x, (size_t)n * sizeof *y);
    if (j->arg == ERROR_SUMS)
        run_error_sums(j, n, (filling)round);
    else if (j->arg == NORM)
        j->k->rms_norm(y, x, j->w, n, 1e-6f);
    else if (j->arg == LAYER_NORM)
        j->k->layer_norm(y, x, j->w, round < 3 ? j->w + n : NULL, n, 1e-5f);
    else if (j->arg == SOFTCAP)
        j->k->softcap(y, n, round % 2 ? 50.0f : 30.0f);
    else
        fy_kernels_activate(j->k, (fy_act_kind)j->arg, 0.01f, y, round % 3 ? j->w : NULL, n);
    put_floats(j, y, n);
    return true;
}

enum { PLAIN, WEIGHTED, FITTED };

/* Elements of the stored row of a vector: of 16-bit types each length, else 0 to 17 blocks of 32 or
 * 0 to 4 of 256. *round: how often they have come before. */
static int row_length(const job *j, int *round)
{
    const int block = fy_type_get((uint32_t)j->type)->block,
              most = block == 1       ? (int)N_LENGTHS
                     : block == FY_QK ? 18
                                      : 5,
              at = j->i % most;
    *round = j->i / most;
    return block == 1 ? length_at(at) : at * block;
}

/* Every other round has any filling for each 32 elements. */
static bool run_encode(job *j)
{
    const bool blocks = fy_kernels_wants_q8(j->type);
    int round;
    const int n = row_length(j, &round), most = blocks ? FINITE : N_FILLINGS;
    fy_encode_options how = {.mean_square = 1.25f, .fit = j->arg == FITTED};
    fy_row_fault fault = {.index = -1};
    if (round >= 2 * most)
        return false;
    for (int i = 0; i < n; i += FY_QK)
        fill(j, j->x + i, FY_QK, (filling)(round % 2 ? below(j, most) : round / 2));
    fill(j, j->w, n, round % 3 == 2 ? SPARSE : USUAL);
    for (int i = 0; i < n; i++)
        j->w[i] = fabsf(j->w[i]);
    if (j->arg == WEIGHTED || (j->arg == FITTED && round % 4 < 2))
        how.importance = j->w;
    memset(j->row, 0xa5, sizeof j->row);
    if (blocks)
        fy_row_encode(j->k, j->type, j->row, j->x, n, &how, &fault);
    else
        fy_row_encode_any(j->k, j->type, j->row, j->x, n);
    put_bytes(j, j->row, (size_t)fy_type_row_bytes(j->type, (uint64_t)n));
    put_double(j, (double)fault.index);
    return true;
}

static bool run_decode(job *j)
{
    int round;
    const int n = row_length(j, &round);
    if (round >= 8)
        return false;
    for (int i = 0; i < n; i++)
        j->row[i] = (uint16_t)next(j);
    if (fy_kernels_wants_q8(j->type))
        fill_row(j, (uint8_t *)j->row, n, round % 3 == 0 ? USUAL : round % 3 == 1 ? FLAT : ANY);
    fy_row_decode(j->k, j->type, output(j, n), j->row, n);
    put_floats(j, j->y, n);
    return true;
}

/* --- the list -------------------------------------------------------------------------------- */

static const struct {
    const char *op;
    bool (*run)(job *j);
    fy_type type;
    int arg;
    uint64_t hash; /* of the scalar kernel: tests/unit/kernels/test_kernel_vectors.c prints it */
} vectors[] = {
    {"act_quantize", run_act_quantize, FY_F32, 0, 0x1584c97bbadf910e},
    {"matmul_f32", run_matmul, FY_F32, 0, 0x4b5f35e00b5b7723},
    {"matmul_f16", run_matmul, FY_F16, 0, 0xdf3614daf7cdc411},
    {"matmul_bf16", run_matmul, FY_BF16, 0, 0xc63ec00fdac8110b},
    {"matmul_q8_0", run_matmul, FY_Q8_0, 0, 0x99ae5f696acbc31c},
    {"matmul_q4_0", run_matmul, FY_Q4_0, 0, 0x05d51f1f4ff1ed3b},
    {"matmul_q4_1", run_matmul, FY_Q4_1, 0, 0x4d2b3494f1ebc321},
    {"matmul_q5_0", run_matmul, FY_Q5_0, 0, 0x458cbc620417e3c7},
    {"matmul_q5_1", run_matmul, FY_Q5_1, 0, 0x17e4ce4612d1ade6},
    {"matmul_q4_k", run_matmul, FY_Q4_K, 0, 0xb4beabf691df80ea},
    {"matmul_q5_k", run_matmul, FY_Q5_K, 0, 0x6d26412a386cd545},
    {"matmul_q6_k", run_matmul, FY_Q6_K, 0, 0xae8971458253c3de},
    {"matmul_q2_k", run_matmul, FY_Q2_K, 0, 0x29df695df0b7cc7b},
    {"matmul_q3_k", run_matmul, FY_Q3_K, 0, 0x59cb3a3f4e3ccfeb},
    {"matmul_iq4_nl", run_matmul, FY_IQ4_NL, 0, 0x82fd20e01283017c},
    {"matmul_iq4_xs", run_matmul, FY_IQ4_XS, 0, 0x029667ea50c70bc6},
    {"matmul_mxfp4", run_matmul, FY_MXFP4, 0, 0x6a2311af51f0c1de},
    {"matmul_nvfp4", run_matmul, FY_NVFP4, 0, 0xb2b304290bd04c6a},
    {"matmul_q1_0", run_matmul, FY_Q1_0, 0, 0xfbd7c7450f461f84},
    {"matmul_q2_0", run_matmul, FY_Q2_0, 0, 0xd552f33a2ace1d19},
    {"matmul_tq1_0", run_matmul, FY_TQ1_0, 0, 0x477c4f085e662814},
    {"matmul_tq2_0", run_matmul, FY_TQ2_0, 0, 0x54364b48f0861e9c},
    {"matmul_iq1_s", run_matmul, FY_IQ1_S, 0, 0xadd42934d90abb7f},
    {"matmul_iq1_m", run_matmul, FY_IQ1_M, 0, 0x3a186cb1f50d2ca2},
    {"matmul_iq2_xxs", run_matmul, FY_IQ2_XXS, 0, 0x0485c072bd05a8a7},
    {"matmul_iq2_xs", run_matmul, FY_IQ2_XS, 0, 0x32137ebef22c77e9},
    {"matmul_iq2_s", run_matmul, FY_IQ2_S, 0, 0x94659dc1db504ff1},
    {"matmul_iq3_xxs", run_matmul, FY_IQ3_XXS, 0, 0xad532b4e6257e668},
    {"matmul_iq3_s", run_matmul, FY_IQ3_S, 0, 0x30d8ec76728850d7},
    {"dot_rows_q8_0", run_listed, FY_Q8_0, 0, 0x0746388ee18c3107},
    {"dot_rows_q4_0", run_listed, FY_Q4_0, 0, 0x7f82f9d65ba71d4c},
    {"add_rows_f16", run_listed, FY_F16, 1, 0x50854b9f0fed580e},
    {"add_rows_q8_0", run_listed, FY_Q8_0, 1, 0x88a2260edf204cd2},
    {"add_rows_q4_0", run_listed, FY_Q4_0, 1, 0x053c0c95293e497f},
    {"add_tile", run_tile, FY_F32, 0, 0x40362abdd063e85e},
    {"attend_dots_f32", run_attend, FY_F32, 0, 0x75676622f55b700f},
    {"attend_dots_f16", run_attend, FY_F16, 0, 0xfc400f453edb3111},
    {"attend_softmax", run_attend_softmax, FY_F32, 0, 0x4cd7d685d02efe9d},
    {"attend_add_f32", run_attend, FY_F32, 1, 0x5cb4f35205f41881},
    {"attend_add_f16", run_attend, FY_F16, 1, 0x2c5926cd281c6d49},
    {"attend_add_q8_0", run_attend, FY_Q8_0, 1, 0x8b57730af9627715},
    {"rms_norm", run_vector, FY_F32, NORM, 0xb2a7b357cd1741c1},
    {"layer_norm", run_vector, FY_F32, LAYER_NORM, 0x001e30931f582a3b},
    {"silu_mul", run_vector, FY_F32, FY_ACT_SILU, 0xa48b5f3744a13433},
    {"gelu_mul", run_vector, FY_F32, FY_ACT_GELU, 0xd7b1c1810f328c5f},
    {"gelu_tanh_mul", run_vector, FY_F32, FY_ACT_GELU_TANH, 0xb7fa777f13860841},
    {"relu_mul", run_vector, FY_F32, FY_ACT_FATRELU, 0x71acda1f5f44ec3d},
    {"drelu_mul", run_vector, FY_F32, FY_ACT_DRELU, 0x11725aa2ea04553f},
    {"swiglu_oai_mul", run_vector, FY_F32, FY_ACT_SWIGLU_OAI, 0x03446fa0c6b88e49},
    {"softcap", run_vector, FY_F32, SOFTCAP, 0xca05c686989fb85f},
    {"error_sums", run_vector, FY_F32, ERROR_SUMS, 0xa961d9d0f6e17b74},
    {"f16_to_f32", run_decode, FY_F16, 0, 0x220b4b67e5cd5605},
    {"f32_to_f16", run_encode, FY_F16, 0, 0x4a412d7ccbaccfb0},
    {"bf16_to_f32", run_decode, FY_BF16, 0, 0xc292a1114bbe1605},
    {"f32_to_bf16", run_encode, FY_BF16, 0, 0x7c6e87d79f60ccf8},
    {"encode_q8_0", run_encode, FY_Q8_0, PLAIN, 0xae3cce593594b961},
    {"encode_q4_0", run_encode, FY_Q4_0, PLAIN, 0xe401a033a581b276},
    {"encode_q4_1", run_encode, FY_Q4_1, PLAIN, 0xfd61189be401be71},
    {"encode_q5_0", run_encode, FY_Q5_0, PLAIN, 0xfb69e7829bc2c8a8},
    {"encode_q5_1", run_encode, FY_Q5_1, PLAIN, 0x507414d420719eab},
    {"encode_q4_k", run_encode, FY_Q4_K, PLAIN, 0xd927a260671985d7},
    {"encode_q5_k", run_encode, FY_Q5_K, PLAIN, 0x29157dc533d54b6f},
    {"encode_q6_k", run_encode, FY_Q6_K, PLAIN, 0x2788879dc7ecbfd6},
    {"encode_weighted_q4_0", run_encode, FY_Q4_0, WEIGHTED, 0x6d555854d4935103},
    {"encode_weighted_q4_1", run_encode, FY_Q4_1, WEIGHTED, 0xf227487a689520f9},
    {"encode_weighted_q5_0", run_encode, FY_Q5_0, WEIGHTED, 0x80295b53e87f02d4},
    {"encode_weighted_q5_1", run_encode, FY_Q5_1, WEIGHTED, 0x86723d9d81fa3612},
    {"encode_weighted_q4_k", run_encode, FY_Q4_K, WEIGHTED, 0x4ab009306f6b0155},
    {"encode_weighted_q5_k", run_encode, FY_Q5_K, WEIGHTED, 0xa3fd3e3565bf50be},
    {"encode_weighted_q6_k", run_encode, FY_Q6_K, WEIGHTED, 0xd83c338452dcc7fd},
    {"fit_q8_0", run_encode, FY_Q8_0, FITTED, 0xfbc39681a04ff32a},
    {"fit_q4_0", run_encode, FY_Q4_0, FITTED, 0xd1bf88437fbe768f},
    {"fit_q4_1", run_encode, FY_Q4_1, FITTED, 0x6a3a07dd8f42c3dd},
    {"fit_q5_0", run_encode, FY_Q5_0, FITTED, 0x4533e177ad636727},
    {"fit_q5_1", run_encode, FY_Q5_1, FITTED, 0x3d20385177fc1a86},
    {"decode_q8_0", run_decode, FY_Q8_0, 0, 0xc045984484f543e5},
    {"decode_q4_0", run_decode, FY_Q4_0, 0, 0x8990d3a33d7eb0a5},
    {"decode_q4_1", run_decode, FY_Q4_1, 0, 0xd60fd8daaf5e03f4},
    {"decode_q5_0", run_decode, FY_Q5_0, 0, 0xa892dc4eaaf9c4a5},
    {"decode_q5_1", run_decode, FY_Q5_1, 0, 0xccfd38e90868f6cb},
    {"decode_q4_k", run_decode, FY_Q4_K, 0, 0x59527710eb40c529},
    {"decode_q5_k", run_decode, FY_Q5_K, 0, 0x35eb2afdd331843c},
    {"decode_q6_k", run_decode, FY_Q6_K, 0, 0x86f188344aef4a87},
    {"decode_q2_k", run_decode, FY_Q2_K, 0, 0x855d3a7df684e722},
    {"decode_q3_k", run_decode, FY_Q3_K, 0, 0x6385bfc3d3855525},
    {"decode_iq4_nl", run_decode, FY_IQ4_NL, 0, 0xd262d7f7bc42c8a5},
    {"decode_iq4_xs", run_decode, FY_IQ4_XS, 0, 0x0bbd31f204591b49},
    {"decode_mxfp4", run_decode, FY_MXFP4, 0, 0x2295ba3184a9d4a5},
    {"decode_nvfp4", run_decode, FY_NVFP4, 0, 0x86afb8f96e3a3865},
    {"decode_q1_0", run_decode, FY_Q1_0, 0, 0x44e843c62257a065},
    {"decode_q2_0", run_decode, FY_Q2_0, 0, 0x96c3834a6f7e1865},
    {"decode_tq1_0", run_decode, FY_TQ1_0, 0, 0x5f6d568d64796865},
    {"decode_tq2_0", run_decode, FY_TQ2_0, 0, 0x4160e538fce88865},
    {"decode_iq1_s", run_decode, FY_IQ1_S, 0, 0xb1a33a6084bf08c5},
    {"decode_iq1_m", run_decode, FY_IQ1_M, 0, 0xdc90f5afe9cf27a5},
    {"decode_iq2_xxs", run_decode, FY_IQ2_XXS, 0, 0x8a9c0d0f7426f255},
    {"decode_iq2_xs", run_decode, FY_IQ2_XS, 0, 0xe19d96da49c99461},
    {"decode_iq2_s", run_decode, FY_IQ2_S, 0, 0x7bfb7802786f338d},
    {"decode_iq3_xxs", run_decode, FY_IQ3_XXS, 0, 0xc7c9b916acf6a47d},
    {"decode_iq3_s", run_decode, FY_IQ3_S, 0, 0x2cc3a6706bcbda15},
};
enum { N_OPS = sizeof vectors / sizeof vectors[0] };

/* Runs vector i; its words are in *j. */
static bool run(job *j, int row, const fy_kernels *k, int i)
{
    j->k = k;
    j->type = vectors[row].type;
    j->arg = vectors[row].arg;
    j->i = i;
    j->random = (uint64_t)i;
    j->n_words = 0;
    return vectors[row].run(j);
}

static uint64_t hash_words(uint64_t h, const uint32_t *p, size_t n) /* FNV-1a, by words */
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3;
    return h;
}

/* Why the hash is another one. */
static int explain(job *j, int row, const fy_kernels *k, uint64_t hash, fy_err *e)
{
    uint32_t *words = malloc(sizeof j->words);
    if (words == NULL)
        return fy_nomem(e);
    int rc = 0;
    for (int i = 0; rc == 0 && run(j, row, k, i); i++) {
        const size_t n = j->n_words;
        memcpy(words, j->words, n * sizeof *words);
        run(j, row, &j->spec, i);
        for (size_t w = 0; rc == 0 && w < n; w++) {
            if (words[w] != j->words[w])
                rc = fy_fail(e, FY_EVERIFY,
                             "vector %d: word %zu of %zu is %08x, the scalar kernel's is %08x", i,
                             w, n, words[w], j->words[w]);
        }
    }
    free(words);
    if (rc != 0)
        return rc;
    return fy_fail(e, FY_EVERIFY,
                   "the results hash to %016llx, expected %016llx; the scalar kernel gives the "
                   "same: this build or CPU does not round as IEEE 754 requires",
                   (unsigned long long)hash, (unsigned long long)vectors[row].hash);
}

int fy_kernel_vectors(const char *op, const fy_kernels *k, int *n_vectors, fy_err *e)
{
    int row = 0, rc = 0;
    while (row < N_OPS && strcmp(vectors[row].op, op) != 0)
        row++;
    if (row == N_OPS)
        return fy_fail(e, FY_EVERIFY, "no vectors for %s", op);
    job *j = aligned_alloc(64, (sizeof *j + 63) / 64 * 64);
    if (j == NULL)
        return fy_nomem(e);
    memset(j, 0, sizeof *j);
    j->spec = fy_kernels_for(0);
    uint64_t hash = 0xcbf29ce484222325;
    int n = 0;
    for (; rc == 0 && run(j, row, k, n); n++) {
        hash = hash_words(hash, j->words, j->n_words);
        rc = n % 64 == 0 ? fy_check_interrupt(e) : 0;
    }
    if (rc == 0 && hash != vectors[row].hash)
        rc = explain(j, row, k, hash, e);
    free(j);
    *n_vectors = n;
    return rc;
}
