/* The file encoders against bytes that ggml's reference wrote (golden_blocks_table.h), with every
 * set of kernels that this CPU can run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kernels/kernels.h"
#include "tests/unit/kernels/golden_blocks.h"

enum {
    N_BLOCKS = sizeof golden_blocks / sizeof golden_blocks[0],
    N_SUPERS = sizeof golden_supers / sizeof golden_supers[0]
};

/* All blocks as one row, so that kernels meet each of them behind others. */
static void fill_row(float x[N_BLOCKS * FY_QK])
{
    for (int b = 0; b < N_BLOCKS; b++)
        memcpy(x + b * FY_QK, golden_blocks[b].x, sizeof golden_blocks[b].x);
}

static void fill_supers(float x[N_SUPERS * FY_QK_K])
{
    for (int i = 0; i < N_SUPERS * PARTS; i++)
        memcpy(x + i * FY_QK, golden_blocks[golden_supers[i / PARTS].parts[i % PARTS]].x,
               FY_QK * sizeof *x);
}

#define DEFINE_CHECK(type, golden, n_blocks, n_elems, fill)                                 \
    static void check_##type(uint32_t features)                                             \
    {                                                                                       \
        float x[(n_blocks) * (n_elems)];                                                    \
        fy_block_##type y[n_blocks];                                                        \
        fill(x);                                                                            \
        fy_kernels_for(features).encode_##type(y, x, (n_blocks) * (n_elems));               \
        for (int b = 0; b < (n_blocks); b++) {                                              \
            if (memcmp(&y[b], (golden)[b].type, sizeof y[b]) != 0)                          \
                fail_msg(#type ", features %#x: %s", (unsigned)features, (golden)[b].name); \
        }                                                                                   \
    }                                                                                       \
    static void type##_bytes_are_those_of_ggml(void **state)                                \
    {                                                                                       \
        (void)state;                                                                        \
        check_##type(0);                                                                    \
        check_##type(fy_cpu_features());                                                    \
    }

DEFINE_CHECK(q8_0, golden_blocks, N_BLOCKS, FY_QK, fill_row)
DEFINE_CHECK(q4_0, golden_blocks, N_BLOCKS, FY_QK, fill_row)
DEFINE_CHECK(q4_1, golden_blocks, N_BLOCKS, FY_QK, fill_row)
DEFINE_CHECK(q5_0, golden_blocks, N_BLOCKS, FY_QK, fill_row)
DEFINE_CHECK(q5_1, golden_blocks, N_BLOCKS, FY_QK, fill_row)
DEFINE_CHECK(q4_k, golden_supers, N_SUPERS, FY_QK_K, fill_supers)
DEFINE_CHECK(q5_k, golden_supers, N_SUPERS, FY_QK_K, fill_supers)
DEFINE_CHECK(q6_k, golden_supers, N_SUPERS, FY_QK_K, fill_supers)

static void decoding_q8_0_stays_within_half_a_step(void **state)
{
    (void)state;
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    for (int b = 0; b < N_BLOCKS; b++) {
        float x[FY_QK], y[FY_QK];
        fy_block_q8_0 q;
        memcpy(x, golden_blocks[b].x, sizeof x);
        memcpy(&q, golden_blocks[b].q8_0, sizeof q);
        const float d = fy_f16_to_f32(q.d);
        if (!(d >= 0x1p-14f && d < 65504.0f))
            continue; /* a subnormal scale has few bits, an infinite one none */
        k.decode_q8_0(y, &q, FY_QK);
        for (int i = 0; i < FY_QK; i++) {
            const float error = x[i] > y[i] ? x[i] - y[i] : y[i] - x[i];
            /* half a step, and the scale's own rounding to 11 bits times at most 127 */
            if (error > d * (0.5f + 127.0f * 0x1p-11f))
                fail_msg("%s, element %d", golden_blocks[b].name, i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q8_0_bytes_are_those_of_ggml),
        cmocka_unit_test(q4_0_bytes_are_those_of_ggml),
        cmocka_unit_test(q4_1_bytes_are_those_of_ggml),
        cmocka_unit_test(q5_0_bytes_are_those_of_ggml),
        cmocka_unit_test(q5_1_bytes_are_those_of_ggml),
        cmocka_unit_test(q4_k_bytes_are_those_of_ggml),
        cmocka_unit_test(q5_k_bytes_are_those_of_ggml),
        cmocka_unit_test(q6_k_bytes_are_those_of_ggml),
        cmocka_unit_test(decoding_q8_0_stays_within_half_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
