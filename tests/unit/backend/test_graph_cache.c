#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"

enum { HEADS = 3, SLOTS = 150, ROWS = 160, DIM = 40, DIM_V = 24 };

static uint32_t value_of(int64_t head, int64_t slot, int64_t e, bool is_value)
{
    return (uint32_t)((head * 1000 + slot) * 100 + e) * 2 + is_value;
}

static void put(void *p, fy_type type, int64_t i, uint32_t v)
{
    if (type == FY_F16)
        ((uint16_t *)p)[i] = (uint16_t)v;
    else
        ((uint32_t *)p)[i] = v;
}

static uint32_t get(const void *p, fy_type type, int64_t i)
{
    return type == FY_F16 ? ((const uint16_t *)p)[i] : ((const uint32_t *)p)[i];
}

static uint32_t cut(fy_type type, uint32_t v)
{
    return type == FY_F16 ? (uint16_t)v : v;
}

/* Slots from `first` on, every one of them or every second. */
static void check(fy_type type, int64_t first, int64_t step, int n_threads)
{
    const size_t es = type == FY_F16 ? 2 : 4;
    const fy_backend_params p = {.n_threads = n_threads, .n_tokens = 1};
    fy_backend *b = fy_backend_new(&p, NULL);
    void *cache[2 * HEADS];
    int32_t slots[SLOTS];
    int64_t n = 0;
    for (int64_t i = 0; i < SLOTS; i += i < first ? 1 : step)
        slots[n++] = (int32_t)i;
    for (int h = 0; h < HEADS; h++) {
        cache[2 * h] = malloc((size_t)SLOTS * DIM * es);
        cache[2 * h + 1] = malloc((size_t)SLOTS * DIM_V * es);
        for (int64_t s = 0; s < SLOTS; s++) {
            for (int64_t e = 0; e < DIM; e++)
                put(cache[2 * h], type, e * SLOTS + s, value_of(h, s, e, false));
            for (int64_t e = 0; e < DIM_V; e++)
                put(cache[2 * h + 1], type, s * DIM_V + e, value_of(h, s, e, true));
        }
    }
    fy_kv_layer kv = {.k = calloc(HEADS * ROWS, DIM * es),
                      .v = calloc(HEADS * ROWS, DIM_V * es),
                      .type_k = type,
                      .type_v = type,
                      .n_rows = ROWS,
                      .n_head_kv = HEADS,
                      .head_dim = DIM,
                      .head_dim_v = DIM_V};
    const fy_graph_cache c = {
        .cache = cache, .n_slots = SLOTS, .slots = slots, .first = first, .end = n};
    fy_backend_load_cache(b, &kv, &c);
    for (int64_t h = 0; h < HEADS; h++) {
        for (int64_t r = 0; r < ROWS; r++) {
            const bool loaded = r >= first && r < n;
            for (int64_t e = 0; e < DIM; e++)
                assert_int_equal(get(kv.k, type, (h * ROWS + r) * DIM + e),
                                 loaded ? cut(type, value_of(h, slots[r], e, false)) : 0);
            for (int64_t e = 0; e < DIM_V; e++)
                assert_int_equal(get(kv.v, type, (h * ROWS + r) * DIM_V + e),
                                 loaded ? cut(type, value_of(h, slots[r], e, true)) : 0);
        }
    }
    for (int i = 0; i < 2 * HEADS; i++)
        free(cache[i]);
    free(kv.k);
    free(kv.v);
    fy_backend_free(b);
}

static void slots_become_rows(void **state)
{
    (void)state;
    static const int64_t firsts[] = {0, 1, 40, SLOTS};
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        for (int64_t step = 1; step < 3; step++) {
            check(FY_F16, firsts[i], step, 1);
            check(FY_F32, firsts[i], step, 3);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slots_become_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
