/* Rows encoded with importance: against bytes that ggml wrote (golden_weighted_table.h), with every
 * set of kernels that this CPU can run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kernels/row.h"
#include "tests/unit/kernels/golden_blocks.h"

/* Of golden_blocks[block], weighed by elements block % 8 * 32 and so on of golden_importance. */
typedef struct {
    int block;
    uint8_t q4_0[sizeof(fy_block_q4_0)];
    uint8_t q4_1[sizeof(fy_block_q4_1)];
    uint8_t q5_0[sizeof(fy_block_q5_0)];
    uint8_t q5_1[sizeof(fy_block_q5_1)];
} golden_weighted;

typedef struct {
    int super;
    uint8_t q4_k[sizeof(fy_block_q4_k)];
    uint8_t q5_k[sizeof(fy_block_q5_k)];
    uint8_t q6_k[sizeof(fy_block_q6_k)];
} golden_weighted_super;

#include "tests/unit/kernels/golden_weighted_table.h"

enum {
    N_BLOCKS = sizeof golden_weighted_blocks / sizeof golden_weighted_blocks[0],
    N_SUPERS = sizeof golden_weighted_supers / sizeof golden_weighted_supers[0]
};

static void check(fy_type t, const char *name, const float *x, int64_t n, const float *importance,
                  const uint8_t *want)
{
    const size_t n_bytes = (size_t)fy_type_row_bytes(t, (uint64_t)n);
    const fy_encode_options how = {
        .importance = importance,
        .mean_square = fy_row_squares(fy_row_squares(0.0f, x, n / 2), x + n / 2, n / 2) / (float)n,
    };
    const uint32_t features[] = {0, fy_cpu_features()};
    for (int i = 0; i < 2; i++) {
        const fy_kernels k = fy_kernels_for(features[i]);
        uint8_t row[sizeof(fy_block_q6_k)];
        fy_row_fault fault;
        if (fy_row_encode(&k, t, row, x, n, &how, &fault) != 0)
            fail_msg("%s of '%s' was refused", fy_type_name(t), name);
        if (memcmp(row, want, n_bytes) != 0)
            fail_msg("%s, features %#x: %s", fy_type_name(t), (unsigned)features[i], name);
    }
}

static void blocks_have_the_bytes_of_ggml(void **state)
{
    (void)state;
    float importance[FY_QK_K], x[FY_QK];
    memcpy(importance, golden_importance, sizeof importance);
    for (int i = 0; i < N_BLOCKS; i++) {
        const golden_weighted *g = &golden_weighted_blocks[i];
        const golden_block *b = &golden_blocks[g->block];
        const float *w = importance + g->block % PARTS * FY_QK;
        memcpy(x, b->x, sizeof x);
        check(FY_Q4_0, b->name, x, FY_QK, w, g->q4_0);
        check(FY_Q4_1, b->name, x, FY_QK, w, g->q4_1);
        check(FY_Q5_0, b->name, x, FY_QK, w, g->q5_0);
        check(FY_Q5_1, b->name, x, FY_QK, w, g->q5_1);
    }
}

static void super_blocks_have_the_bytes_of_ggml(void **state)
{
    (void)state;
    float importance[FY_QK_K], x[FY_QK_K];
    memcpy(importance, golden_importance, sizeof importance);
    for (int i = 0; i < N_SUPERS; i++) {
        const golden_weighted_super *g = &golden_weighted_supers[i];
        const golden_super *s = &golden_supers[g->super];
        for (int p = 0; p < PARTS; p++)
            memcpy(x + p * FY_QK, golden_blocks[s->parts[p]].x, FY_QK * sizeof *x);
        check(FY_Q4_K, s->name, x, FY_QK_K, importance, g->q4_k);
        check(FY_Q5_K, s->name, x, FY_QK_K, importance, g->q5_k);
        check(FY_Q6_K, s->name, x, FY_QK_K, importance, g->q6_k);
    }
}

static void types_without_a_choice_do_not_ask(void **state)
{
    (void)state;
    static const fy_type types[] = {FY_F32, FY_F16, FY_BF16, FY_Q8_0};
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    float importance[FY_QK_K], x[FY_QK];
    memcpy(importance, golden_importance, sizeof importance);
    memcpy(x, golden_blocks[0].x, sizeof x);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const fy_encode_options how = {.importance = importance, .mean_square = 1.0f};
        uint8_t a[sizeof x], b[sizeof x];
        fy_row_fault fault;
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        assert_int_equal(fy_row_encode(&k, types[i], a, x, FY_QK, NULL, &fault), 0);
        assert_int_equal(fy_row_encode(&k, types[i], b, x, FY_QK, &how, &fault), 0);
        assert_memory_equal(a, b, sizeof a);
    }
}

/* The search can take a scale that f16 does not have, and one that it just has. */
static void a_scale_beyond_f16_is_refused(void **state)
{
    (void)state;
    static const fy_type types[] = {FY_Q4_0, FY_Q5_0, FY_Q4_1, FY_Q5_1, FY_Q4_K, FY_Q5_K, FY_Q6_K};
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    float ones[FY_QK_K], x[FY_QK_K];
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        fy_row_fault fault = {-1, 0.0f, false};
        uint8_t row[FY_QK_K];
        const int64_t n = fy_type_get(types[t])->block;
        for (int i = 0; i < n; i++) {
            ones[i] = 1.0f;
            x[i] = ldexpf((float)(i % 17 - 8), i == 5 ? 40 : 4);
        }
        const fy_encode_options how = {.importance = ones,
                                   .mean_square = fy_row_squares(0.0f, x, n) / (float)n};
        assert_int_equal(fy_row_encode(&k, types[t], row, x, n, &how, &fault), -1);
        assert_int_equal(fault.index, 5);
        assert_true(fault.overflow && fault.value == x[5]);
        x[5] = 8.0f;
        assert_int_equal(fy_row_encode(&k, types[t], row, x, n, &how, &fault), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_the_bytes_of_ggml),
        cmocka_unit_test(super_blocks_have_the_bytes_of_ggml),
        cmocka_unit_test(types_without_a_choice_do_not_ask),
        cmocka_unit_test(a_scale_beyond_f16_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
