/* Choosing under a grammar's mask: the same as if what it forbids had no logit; and the mask wins. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/sample.h"

static uint64_t random_state = 3;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static fy_sampler *new_sampler(fy_sampler_params p, uint32_t n)
{
    fy_err e = {0};
    fy_sampler *s = fy_sampler_new(&p, n, NULL, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

static fy_mask mask_of(const uint64_t *bits, uint32_t n_words)
{
    fy_mask m = {.bits = bits, .n_words = n_words, .only = -1};
    for (uint32_t w = 0; w < n_words; w++) {
        m.n_allowed += (uint32_t)__builtin_popcountll(bits[w]);
        if (bits[w] != 0)
            m.only = (int32_t)(w * 64) + __builtin_ctzll(bits[w]);
    }
    m.only = m.n_allowed == 1 ? m.only : -1;
    return m;
}

/* What the mask forbids might as well have no logit, whatever the chain. */
static void a_mask_is_as_if_the_others_had_no_logit(void **state)
{
    (void)state;
    static const char *const orders[] = {"ekypmt", "t", "mt", "pt", "yt", "tpe"};
    enum { N = 200 };
    float all[N], left[N];
    for (int round = 0; round < 300; round++) {
        uint64_t bits[4] = {0};
        for (int i = 0; i < N; i++) {
            const bool in = random_below(4) == 0;
            all[i] = (float)random_below(1u << 20) * 0x1p-17f - 4;
            left[i] = in ? all[i] : -INFINITY;
            bits[i / 64] |= (uint64_t)in << i % 64;
        }
        bits[3] |= 1ull << 63; /* beyond the vocabulary */
        const fy_mask mask = mask_of(bits, 4);
        fy_sampler_params p = fy_sampler_defaults();
        assert_int_equal(fy_sampler_parse_order(orders[round % 6], &p, NULL), 0);
        p.temperature = round % 7 == 6 ? 0 : 0.8f;
        p.top_k = 20;
        p.top_p = p.typical_p = 0.9f;
        p.min_p = 0.01f;
        p.repeat_penalty = 1.2f;
        p.seed = (uint64_t)round;
        fy_sampler *masked = new_sampler(p, N), *plain = new_sampler(p, N);
        for (int i = 0; i < 20; i++) {
            const int32_t id = fy_sampler_next_masked(masked, all, &mask, false, NULL);
            assert_int_equal(id, fy_sampler_next(plain, left, false, NULL));
            assert_true(id >= 0 && (bits[id / 64] >> id % 64 & 1));
            assert_int_equal(fy_sampler_accept(masked, id, NULL), 0);
            assert_int_equal(fy_sampler_accept(plain, id, NULL), 0);
        }
        fy_sampler_free(masked);
        fy_sampler_free(plain);
    }
}

static void a_grammar_wins_against_a_bias(void **state)
{
    (void)state;
    const uint64_t two = 1u << 3 | 1u << 5, one = 1u << 6;
    const fy_mask mask = mask_of(&two, 1), single = mask_of(&one, 1);
    const fy_logit_bias bias[] = {{3, -INFINITY}, {5, -INFINITY}, {6, -INFINITY}, {0, 100}};
    float logits[8] = {9, 9, 9, 1, 9, 2, 0, 9}, broken[8];
    fy_sampler_params p = {.bias = bias, .n_bias = 4};
    fy_sampler *s = new_sampler(p, 8);
    assert_int_equal(fy_sampler_next_masked(s, logits, &mask, false, NULL), 5);
    p.n_bias = 0;
    assert_int_equal(fy_sampler_next_masked(s, logits, &single, false, NULL), 6);
    for (int i = 0; i < 8; i++)
        broken[i] = NAN;
    fy_err e = {0};
    assert_int_equal(fy_sampler_next_masked(s, broken, &mask, false, &e), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    fy_sampler_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_is_as_if_the_others_had_no_logit),
        cmocka_unit_test(a_grammar_wins_against_a_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
