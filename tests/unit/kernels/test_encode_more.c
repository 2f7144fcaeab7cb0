/* The encoders of encode_more.h against the bytes of ggml_quantize_chunk, as hashes
 * (golden_encode_more_table.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/row.h"

enum { BLOCKS = 256 };

typedef struct {
    fy_type type;
    bool weighted;
    uint32_t hash[BLOCKS];
} golden_encode_more;

#include "tests/unit/kernels/golden_encode_more_table.h"

static uint32_t next_word(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

/* In turn ordinary numbers, ones rounded to bf16, ties, and single ones among zeros. */
static float number(uint64_t *state, int kind)
{
    const uint32_t w = next_word(state);
    const float v = (float)((int32_t)(w >> 8) - (1 << 23)) * 0x1p-26f;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (kind == 1)
        return fy_bf16_to_f32((uint16_t)(bits >> 16));
    if (kind == 2)
        return (float)((int)(w % 31) - 15) * 0.5f;
    return kind == 3 && w % 16 != 0 ? 0.0f : v;
}

static uint32_t hash_of(const uint8_t *p, size_t n) /* FNV-1a */
{
    uint32_t h = 0x811c9dc5;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x01000193;
    return h;
}

static void their_bytes_are_those_of_ggml(void **state)
{
    (void)state;
    const fy_kernels k = fy_kernels_for(0);
    uint64_t random = 0;
    for (size_t t = 0; t < sizeof golden_encodes / sizeof golden_encodes[0]; t++) {
        const golden_encode_more *g = &golden_encodes[t];
        const fy_type_info *info = fy_type_get((uint32_t)g->type);
        for (int b = 0; b < BLOCKS; b++) {
            float x[FY_QK_K], w[FY_QK_K];
            uint8_t block[sizeof(fy_block_q6_k)];
            fy_row_fault fault;
            for (int i = 0; i < info->block; i++)
                x[i] = number(&random, b % 4);
            for (int i = 0; i < info->block; i++) {
                const uint32_t r = next_word(&random);
                w[i] = b % 3 != 0 ? (float)(r >> 8) * 0x1p-24f : (float)(r % 2);
            }
            const fy_encode_options how = {.importance = g->weighted ? w : NULL};
            assert_int_equal(fy_row_encode(&k, g->type, block, x, info->block, &how, &fault), 0);
            if (hash_of(block, info->bytes) != g->hash[b])
                fail_msg("%s%s: block %d is not what ggml makes of it", info->name,
                         g->weighted ? " with importance" : "", b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(their_bytes_are_those_of_ggml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
