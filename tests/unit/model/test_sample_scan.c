#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/sample_impl.h"

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static int by_rank(const void *a, const void *b)
{
    const fy_candidate *x = a, *y = b;
    return fy_candidate_before(*x, *y) ? -1 : fy_candidate_before(*y, *x) ? 1 : 0;
}

enum { MAX = 700 };

/* Few different values, so that ties abound, with NaN and infinities; rising, falling or mixed. */
static uint32_t random_logits(int round, float *out)
{
    uint32_t n = random_below(MAX + 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t kind = random_below(40);
        float v = round % 4 == 0   ? (float)i
                  : round % 4 == 1 ? -(float)i
                                   : (float)random_below(round % 4 == 2 ? 10 : 100000) - 5;
        out[i] = kind == 0 ? NAN : kind == 1 ? -INFINITY : kind == 2 ? INFINITY : v;
    }
    return n;
}

static uint32_t sorted(const float *logits, uint32_t n, fy_candidate *out)
{
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] > -INFINITY)
            out[m++] = (fy_candidate){logits[i], (int32_t)i};
    }
    qsort(out, m, sizeof *out, by_rank);
    return m;
}

static void same(const fy_candidate *a, const fy_candidate *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(a[i].id, b[i].id);
        assert_true(a[i].logit == b[i].logit);
    }
}

static void the_best_are_those_of_a_full_sort(void **state)
{
    (void)state;
    random_state = 5;
    for (int round = 0; round < 2000; round++) {
        float logits[MAX];
        fy_candidate all[MAX], got[MAX + 100];
        uint32_t n = random_logits(round, logits), m = random_below(n + 100);
        fy_scan s;
        assert_int_equal(fy_scan_init(&s, n, NULL), 0);
        fy_scan_fill(&s, logits);
        for (int k = 0; n > 0 && k < round % 20; k++) { /* some are changed after the scan */
            uint32_t id = random_below(n);
            logits[id] = k % 3 == 0 ? -INFINITY : (float)random_below(20);
            fy_scan_set(&s, id, logits[id]);
        }
        uint32_t n_all = sorted(logits, n, all), want = m < n_all ? m : n_all;
        assert_int_equal(fy_scan_best(&s, m, got), want);
        same(got, all, want);
        assert_int_equal(fy_logits_best(logits, n, m, got), want);
        same(got, all, want);
        assert_int_equal(fy_scan_from(&s, -INFINITY, got), n_all);
        m = n_all > 0 ? random_below(n_all + 1) : 0;
        for (uint32_t i = 0; i + 1 < n_all; i++)
            assert_true(got[i].id < got[i + 1].id);
        fy_candidates_sort(got, n_all, m);
        same(got, all, m);
        fy_scan_release(&s);
    }
}

static void from_a_bound_on_all_are_found_in_order(void **state)
{
    (void)state;
    random_state = 6;
    for (int round = 0; round < 500; round++) {
        float logits[MAX];
        fy_candidate got[MAX];
        uint32_t n = random_logits(round, logits), at = 0;
        double least = (double)random_below(20) - 8;
        fy_scan s;
        assert_int_equal(fy_scan_init(&s, n, NULL), 0);
        fy_scan_fill(&s, logits);
        uint32_t m = fy_scan_from(&s, least, got);
        for (uint32_t i = 0; i < n; i++) {
            if (!((double)logits[i] >= least))
                continue;
            assert_true(at < m && got[at].id == (int32_t)i && got[at].logit == logits[i]);
            at++;
        }
        assert_int_equal(at, m);
        fy_scan_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_are_those_of_a_full_sort),
        cmocka_unit_test(from_a_bound_on_all_are_found_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
