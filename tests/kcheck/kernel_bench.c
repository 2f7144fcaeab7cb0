/* kcheck --bench: one thread, each rate over a fraction of a second. Products: bytes of weights per
 * second for one column of a 64 MB matrix (decode), multiply-adds per second for 128 columns
 * (prefill). The read bandwidth of the machine, over a 256 MB buffer, is what decode is to be held
 * against. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/measure/selftest.h"
#include "tests/kcheck/kcheck.h"

enum {
    K = 4096,
    COLS = 128,
    STEP_ROWS = 64,
    MATRIX_BYTES = 64 << 20,
    READ_MEGABYTES = 256,
    N = 1 << 14, /* elements of the elementwise operations: they stay in cache */
    KEYS = 4096,
    DIM = 128,
};

static const double least_seconds = 0.2;

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void *filled(size_t n_bytes)
{
    uint8_t *p = aligned_alloc(64, n_bytes);
    if (p == NULL) {
        fprintf(stderr, "kcheck: out of memory\n");
        exit(2);
    }
    for (size_t i = 0; i < n_bytes; i++)
        p[i] = (uint8_t)(i * 37 >> 3);
    return p;
}

typedef struct {
    uint8_t *weights;
    fy_act act;
    float *y;
    void *scratch;
} product;

/* Weights and activations of ordinary values: subnormals and NaN would be slower. */
static product make_product(fy_type type)
{
    product p = {.weights = filled(MATRIX_BYTES), .scratch = filled(FY_KERNEL_SCRATCH_BYTES)};
    const uint16_t one = type == FY_BF16 ? 0x3f80 : 0x3c00;
    const size_t block_bytes = fy_type_get((uint32_t)type)->bytes;
    const float f = 1.0f;
    for (size_t i = 0; i + block_bytes <= MATRIX_BYTES && fy_kernels_wants_q8(type);
         i += block_bytes)
        fy_kc_set_scales(type, p.weights + i, one, one);
    for (size_t i = 0; i < MATRIX_BYTES && !fy_kernels_wants_q8(type); i += type == FY_F32 ? 4 : 2)
        memcpy(p.weights + i, type == FY_F32 ? (const void *)&f : &one, type == FY_F32 ? 4 : 2);
    float *x = filled((size_t)COLS * K * sizeof *x);
    for (int i = 0; i < COLS * K; i++)
        x[i] = (float)(i % 255 - 127);
    p.act = (fy_act){.x = x,
                     .q = filled((size_t)COLS * K),
                     .d = filled((size_t)COLS * K / FY_QK * sizeof(float)),
                     .sum = filled((size_t)COLS * K / FY_QK * sizeof(int32_t)),
                     .k = K};
    fy_kernels_for(0).act_quantize(&p.act, 0, COLS);
    p.y = filled(COLS * (MATRIX_BYTES / (size_t)fy_type_row_bytes(type, K)) * sizeof(float));
    return p;
}

static void free_product(product *p)
{
    free(p->weights);
    free((void *)(uintptr_t)p->act.x);
    free(p->act.q);
    free(p->act.d);
    free(p->act.sum);
    free(p->y);
    free(p->scratch);
}

/* Rows per second, going round the matrix. */
static double rows_per_second(fy_matmul_fn *f, const product *p, size_t row_bytes, int64_t n_cols)
{
    const int64_t n_rows = (int64_t)(MATRIX_BYTES / row_bytes) / STEP_ROWS * STEP_ROWS;
    int64_t done = 0;
    const double begin = now();
    do {
        const int64_t r = done % n_rows;
        f(p->y, n_rows, p->weights, row_bytes, r, r + STEP_ROWS, &p->act, n_cols, p->scratch);
        done += STEP_ROWS;
    } while (now() - begin < least_seconds);
    return (double)done / (now() - begin);
}

static const struct {
    const char *op;
    fy_type type;
} products[] = {
    {"matmul_f32", FY_F32},       {"matmul_f16", FY_F16},       {"matmul_bf16", FY_BF16},
    {"matmul_q8_0", FY_Q8_0},     {"matmul_q4_0", FY_Q4_0},     {"matmul_q4_1", FY_Q4_1},
    {"matmul_q5_0", FY_Q5_0},     {"matmul_q5_1", FY_Q5_1},     {"matmul_q4_k", FY_Q4_K},
    {"matmul_q5_k", FY_Q5_K},     {"matmul_q6_k", FY_Q6_K},     {"matmul_q2_k", FY_Q2_K},
    {"matmul_q3_k", FY_Q3_K},     {"matmul_iq4_nl", FY_IQ4_NL}, {"matmul_iq4_xs", FY_IQ4_XS},
    {"matmul_mxfp4", FY_MXFP4},   {"matmul_nvfp4", FY_NVFP4},   {"matmul_q1_0", FY_Q1_0},
    {"matmul_q2_0", FY_Q2_0},     {"matmul_tq1_0", FY_TQ1_0},   {"matmul_tq2_0", FY_TQ2_0},
    {"matmul_iq1_s", FY_IQ1_S},   {"matmul_iq1_m", FY_IQ1_M},   {"matmul_iq2_xxs", FY_IQ2_XXS},
    {"matmul_iq2_xs", FY_IQ2_XS}, {"matmul_iq2_s", FY_IQ2_S},   {"matmul_iq3_xxs", FY_IQ3_XXS},
    {"matmul_iq3_s", FY_IQ3_S},
};

static void bench_product(const fy_kernel_row *row, fy_type type, double bandwidth)
{
    fy_kernels k = fy_kernels_for(0);
    fy_kernel_install(&k, row);
    product p = make_product(type);
    const size_t row_bytes = (size_t)fy_type_row_bytes(type, K);
    const double decode =
        rows_per_second(fy_kernels_matmul(&k, type), &p, row_bytes, 1) * (double)row_bytes;
    const double prefill =
        rows_per_second(fy_kernels_matmul(&k, type), &p, row_bytes, COLS) * K * COLS;
    printf("%-20s %-8s %8.2f GB/s %5.0f %% %10.2f GMAC/s\n", row->op, row->isa, decode * 1e-9,
           100 * decode / bandwidth, prefill * 1e-9);
    free_product(&p);
}

/* --- the other operations --- */

typedef struct {
    float *x, *y, *w;
    void *coded; /* rows of the 16-bit and block types */
    int8_t *q;
    float *d;
    int32_t *sum;
} vectors;

static void run_act_quantize(const fy_kernels *k, const vectors *v)
{
    const fy_act a = {.x = v->x, .q = v->q, .d = v->d, .sum = v->sum, .k = N};
    k->act_quantize(&a, 0, 1);
}

/* The queries of one KV head against chunk after chunk of a cache. */
enum { QUERIES = 4 };

static void run_dots(const vectors *v, fy_attend_dots_fn *f, const void *rows, size_t row_bytes)
{
    for (int j = 0; j < KEYS; j += FY_ATTEND_CHUNK)
        f(v->y, v->x, QUERIES, (const uint8_t *)rows + (size_t)j * row_bytes, FY_ATTEND_CHUNK, DIM);
}

static void run_add(const vectors *v, fy_attend_add_fn *f, const void *rows, size_t row_bytes)
{
    for (int j = 0; j < KEYS; j += FY_ATTEND_CHUNK)
        f(v->y, v->x, QUERIES, (const uint8_t *)rows + (size_t)j * row_bytes, FY_ATTEND_CHUNK, DIM);
}

static void run_attend_dots_f32(const fy_kernels *k, const vectors *v)
{
    run_dots(v, k->attend_dots_f32, v->w, 4 * DIM);
}

static void run_attend_dots_f16(const fy_kernels *k, const vectors *v)
{
    run_dots(v, k->attend_dots_f16, v->coded, 2 * DIM);
}

static void run_attend_add_f32(const fy_kernels *k, const vectors *v)
{
    run_add(v, k->attend_add_f32, v->w, 4 * DIM);
}

static void run_attend_add_f16(const fy_kernels *k, const vectors *v)
{
    run_add(v, k->attend_add_f16, v->coded, 2 * DIM);
}

static void run_attend_add_q8_0(const fy_kernels *k, const vectors *v)
{
    run_add(v, k->attend_add_q8_0, v->coded, DIM / FY_QK * sizeof(fy_block_q8_0));
}

static void run_attend_softmax(const fy_kernels *k, const vectors *v)
{
    enum { STEP = QUERIES * FY_ATTEND_CHUNK };
    fy_softmax state[QUERIES] = {{0}};
    for (int j = 0; j < N; j += STEP) {
        memcpy(v->y, v->x + j, STEP * sizeof *v->y);
        k->attend_softmax(v->y, QUERIES, 0, FY_ATTEND_CHUNK, 0.1f, 0.0f, state);
    }
}

/* A tile of as many rows as the engine takes, all listed, for token after token. */
enum { TILE_ROWS = 32, TOKENS = 64 };

static void run_add_tile(const fy_kernels *k, const vectors *v)
{
    int32_t list[TILE_ROWS];
    fy_add_token tokens[TOKENS];
    for (int32_t r = 0; r < TILE_ROWS; r++)
        list[r] = r;
    for (int c = 0; c < TOKENS; c++)
        tokens[c] = (fy_add_token){v->y + c * FY_ADD_COLS, v->x, list, TILE_ROWS};
    k->add_tile(tokens, TOKENS, v->w, 0, TILE_ROWS);
}

static void run_rms_norm(const fy_kernels *k, const vectors *v)
{
    k->rms_norm(v->y, v->x, v->w, N, 1e-5f);
}

static void run_silu_mul(const fy_kernels *k, const vectors *v)
{
    memcpy(v->y, v->x, N * sizeof *v->y);
    k->silu_mul(v->y, v->w, N);
}

static void run_layer_norm(const fy_kernels *k, const vectors *v)
{
    k->layer_norm(v->y, v->x, v->w, v->w, N, 1e-5f);
}

static void run_gelu_mul(const fy_kernels *k, const vectors *v)
{
    memcpy(v->y, v->x, N * sizeof *v->y);
    k->gelu_mul(v->y, v->w, N);
}

static void run_gelu_tanh_mul(const fy_kernels *k, const vectors *v)
{
    memcpy(v->y, v->x, N * sizeof *v->y);
    k->gelu_tanh_mul(v->y, v->w, N);
}

static void run_relu_mul(const fy_kernels *k, const vectors *v)
{
    memcpy(v->y, v->x, N * sizeof *v->y);
    k->relu_mul(v->y, v->w, N, 0.0f);
}

static void run_drelu_mul(const fy_kernels *k, const vectors *v)
{
    memcpy(v->y, v->x, N * sizeof *v->y);
    k->drelu_mul(v->y, v->w, N);
}

static void run_swiglu_oai_mul(const fy_kernels *k, const vectors *v)
{
    memcpy(v->y, v->x, N * sizeof *v->y);
    k->swiglu_oai_mul(v->y, v->w, N);
}

static void run_softcap(const fy_kernels *k, const vectors *v)
{
    memcpy(v->y, v->x, N * sizeof *v->y);
    k->softcap(v->y, N, 30.0f);
}

static void run_error_sums(const fy_kernels *k, const vectors *v)
{
    fy_error_sums s = {0};
    k->error_sums(&s, v->x, v->w, v->d, N);
}

static void run_f16_to_f32(const fy_kernels *k, const vectors *v)
{
    k->f16_to_f32(v->y, v->coded, N);
}

static void run_f32_to_f16(const fy_kernels *k, const vectors *v)
{
    k->f32_to_f16(v->coded, v->x, N);
}

static void run_bf16_to_f32(const fy_kernels *k, const vectors *v)
{
    k->bf16_to_f32(v->y, v->coded, N);
}

static void run_f32_to_bf16(const fy_kernels *k, const vectors *v)
{
    k->f32_to_bf16(v->coded, v->x, N);
}

#define DEFINE_RUN_ENCODE(type)                                          \
    static void run_encode_##type(const fy_kernels *k, const vectors *v) \
    {                                                                    \
        k->encode_##type(v->coded, v->x, N);                             \
    }

DEFINE_RUN_ENCODE(q8_0)
DEFINE_RUN_ENCODE(q4_0)
DEFINE_RUN_ENCODE(q4_1)
DEFINE_RUN_ENCODE(q5_0)
DEFINE_RUN_ENCODE(q5_1)
DEFINE_RUN_ENCODE(q4_k)
DEFINE_RUN_ENCODE(q5_k)
DEFINE_RUN_ENCODE(q6_k)

#define DEFINE_RUN_FIT(type)                                          \
    static void run_fit_##type(const fy_kernels *k, const vectors *v) \
    {                                                                 \
        k->fit_##type(v->coded, v->x, N, NULL);                       \
    }

DEFINE_RUN_FIT(q8_0)
DEFINE_RUN_FIT(q4_0)
DEFINE_RUN_FIT(q4_1)
DEFINE_RUN_FIT(q5_0)
DEFINE_RUN_FIT(q5_1)

#define DEFINE_RUN_WEIGHTED(type, ...)                                            \
    static void run_encode_weighted_##type(const fy_kernels *k, const vectors *v) \
    {                                                                             \
        k->encode_weighted_##type(v->coded, v->x, N, __VA_ARGS__);                \
    }

DEFINE_RUN_WEIGHTED(q4_0, v->d, 1.0f)
DEFINE_RUN_WEIGHTED(q4_1, v->d, 1.0f)
DEFINE_RUN_WEIGHTED(q5_0, v->d, 1.0f)
DEFINE_RUN_WEIGHTED(q5_1, v->d, 1.0f)
DEFINE_RUN_WEIGHTED(q4_k, v->d)
DEFINE_RUN_WEIGHTED(q5_k, v->d)
DEFINE_RUN_WEIGHTED(q6_k, v->d)

#define DEFINE_RUN_DECODE(type)                                          \
    static void run_decode_##type(const fy_kernels *k, const vectors *v) \
    {                                                                    \
        k->decode_##type(v->y, v->coded, N);                             \
    }

DEFINE_RUN_DECODE(q8_0)
DEFINE_RUN_DECODE(q4_0)
DEFINE_RUN_DECODE(q4_1)
DEFINE_RUN_DECODE(q5_0)
DEFINE_RUN_DECODE(q5_1)
DEFINE_RUN_DECODE(q4_k)
DEFINE_RUN_DECODE(q5_k)
DEFINE_RUN_DECODE(q6_k)

static const struct {
    const char *op;
    double elems; /* of a call; of K or V for attend */
    void (*run)(const fy_kernels *k, const vectors *v);
} vector_ops[] = {
    {"act_quantize", N, run_act_quantize},
    {"attend_dots_f32", (double)KEYS *DIM, run_attend_dots_f32},
    {"attend_dots_f16", (double)KEYS *DIM, run_attend_dots_f16},
    {"attend_softmax", N, run_attend_softmax},
    {"attend_add_f32", (double)KEYS *DIM, run_attend_add_f32},
    {"attend_add_f16", (double)KEYS *DIM, run_attend_add_f16},
    {"attend_add_q8_0", (double)KEYS *DIM, run_attend_add_q8_0},
    {"add_tile", (double)TOKENS *TILE_ROWS *FY_ADD_COLS, run_add_tile},
    {"rms_norm", N, run_rms_norm},
    {"silu_mul", N, run_silu_mul},
    {"layer_norm", N, run_layer_norm},
    {"gelu_mul", N, run_gelu_mul},
    {"gelu_tanh_mul", N, run_gelu_tanh_mul},
    {"relu_mul", N, run_relu_mul},
    {"drelu_mul", N, run_drelu_mul},
    {"swiglu_oai_mul", N, run_swiglu_oai_mul},
    {"softcap", N, run_softcap},
    {"error_sums", N, run_error_sums},
    {"f16_to_f32", N, run_f16_to_f32},
    {"f32_to_f16", N, run_f32_to_f16},
    {"bf16_to_f32", N, run_bf16_to_f32},
    {"f32_to_bf16", N, run_f32_to_bf16},
    {"encode_q8_0", N, run_encode_q8_0},
    {"encode_q4_0", N, run_encode_q4_0},
    {"encode_q4_1", N, run_encode_q4_1},
    {"encode_q5_0", N, run_encode_q5_0},
    {"encode_q5_1", N, run_encode_q5_1},
    {"encode_q4_k", N, run_encode_q4_k},
    {"encode_q5_k", N, run_encode_q5_k},
    {"encode_q6_k", N, run_encode_q6_k},
    {"encode_weighted_q4_0", N, run_encode_weighted_q4_0},
    {"encode_weighted_q4_1", N, run_encode_weighted_q4_1},
    {"encode_weighted_q5_0", N, run_encode_weighted_q5_0},
    {"encode_weighted_q5_1", N, run_encode_weighted_q5_1},
    {"encode_weighted_q4_k", N, run_encode_weighted_q4_k},
    {"encode_weighted_q5_k", N, run_encode_weighted_q5_k},
    {"encode_weighted_q6_k", N, run_encode_weighted_q6_k},
    {"fit_q8_0", N, run_fit_q8_0},
    {"fit_q4_0", N, run_fit_q4_0},
    {"fit_q4_1", N, run_fit_q4_1},
    {"fit_q5_0", N, run_fit_q5_0},
    {"fit_q5_1", N, run_fit_q5_1},
    {"decode_q8_0", N, run_decode_q8_0},
    {"decode_q4_0", N, run_decode_q4_0},
    {"decode_q4_1", N, run_decode_q4_1},
    {"decode_q5_0", N, run_decode_q5_0},
    {"decode_q5_1", N, run_decode_q5_1},
    {"decode_q4_k", N, run_decode_q4_k},
    {"decode_q5_k", N, run_decode_q5_k},
    {"decode_q6_k", N, run_decode_q6_k},
};

static void bench_vector(const fy_kernel_row *row, size_t op)
{
    const size_t bytes = (size_t)KEYS * DIM * sizeof(float);
    const vectors v = {.x = filled(bytes),
                       .y = filled(bytes),
                       .w = filled(bytes),
                       .coded = filled(bytes),
                       .q = filled(bytes),
                       .d = filled(bytes),
                       .sum = filled(bytes)};
    fy_kc_random random = {1};
    for (int i = 0; i < KEYS * DIM; i++) {
        v.x[i] = v.w[i] = fy_kc_normal(&random);
        v.d[i] = fabsf(v.x[i]);
        ((uint16_t *)v.coded)[i] = 0x3c00;
    }
    fy_kernels k = fy_kernels_for(0);
    fy_kernel_install(&k, row);
    int64_t calls = 0;
    const double begin = now();
    do {
        vector_ops[op].run(&k, &v);
        calls++;
    } while (now() - begin < least_seconds / 4);
    const double elems = (double)calls * vector_ops[op].elems / (now() - begin);
    printf("%-20s %-8s %8.3f G elements/s %8.2f GB/s of f32\n", row->op, row->isa, elems * 1e-9,
           elems * sizeof(float) * 1e-9);
    void *const all[] = {v.x, v.y, v.w, v.coded, v.q, v.d, v.sum};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

void kc_bench(uint32_t features, const char *filter)
{
    double bandwidth = 0;
    fy_err e = {0};
    if (fy_read_speed(1, READ_MEGABYTES, 0.5, &bandwidth, &e) != 0) {
        fprintf(stderr, "kcheck: %s\n", e.msg);
        exit(2);
    }
    printf("reading %d MB, one thread: %.2f GB/s\n\n", READ_MEGABYTES, bandwidth * 1e-9);
    printf("%-20s %-8s %13s %7s %17s\n", "kernel", "isa", "decode", "of read", "128 columns");
    for (int i = 0; i < fy_n_kernel_rows; i++) {
        const fy_kernel_row *row = &fy_kernel_rows[i];
        if ((features & row->needs) != row->needs ||
            (filter != NULL && strstr(row->op, filter) == NULL))
            continue;
        for (size_t j = 0; j < sizeof products / sizeof products[0]; j++) {
            if (strcmp(products[j].op, row->op) == 0)
                bench_product(row, products[j].type, bandwidth);
        }
        for (size_t j = 0; j < sizeof vector_ops / sizeof vector_ops[0]; j++) {
            if (strcmp(vector_ops[j].op, row->op) == 0)
                bench_vector(row, j);
        }
        fflush(stdout);
    }
}
