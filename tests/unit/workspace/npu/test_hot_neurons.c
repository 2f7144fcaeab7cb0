#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "workspace/npu/hot_neurons.h"

enum { MOST_LAYERS = 4, GROUPS = 5 /* of the widest layer, and none */ };

static uint64_t state_of = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
    state_of ^= state_of << 13;
    state_of ^= state_of >> 7;
    state_of ^= state_of << 17;
    return state_of % n;
}

static void make_counts(fy_neuron_counts *c, uint32_t n_layer, const uint64_t *n)
{
    fy_err e = {0};
    assert_int_equal(fy_neuron_counts_init(c, n_layer, &e), 0);
    for (uint32_t l = 0; l < n_layer; l++) {
        assert_int_equal(fy_neuron_counts_add_layer(c, l, n[l], &e), 0);
        for (uint64_t i = 0; i < n[l]; i++)
            c->layers[l].of[i] = (double)random_below(random_below(8) == 0 ? 500 : 20);
    }
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static double best_of(const fy_layer_counts *l, uint64_t n)
{
    double sum = 0, *sorted = malloc((l->n + 1) * sizeof *sorted);
    for (uint64_t i = 0; i < l->n; i++)
        sorted[i] = l->of[i];
    qsort(sorted, l->n, sizeof *sorted, descending);
    for (uint64_t i = 0; i < n; i++)
        sum += sorted[i];
    free(sorted);
    return sum;
}

static double worth(const fy_neuron_counts *c, const uint64_t *n_hot)
{
    double sum = 0;
    for (uint32_t l = 0; l < c->n_layer; l++)
        sum += best_of(&c->layers[l], n_hot[l]);
    return sum;
}

/* Every choice of groups that is allowed. */
static double brute_force(const fy_neuron_counts *c, uint64_t capacity, uint64_t least)
{
    uint64_t choices = 1;
    double best = 0;
    for (uint32_t l = 0; l < c->n_layer; l++)
        choices *= GROUPS;
    for (uint64_t choice = 0; choice < choices; choice++) {
        uint64_t n_hot[MOST_LAYERS] = {0}, sum = 0, rest = choice;
        int allowed = 1;
        for (uint32_t l = 0; l < c->n_layer; l++, rest /= GROUPS) {
            const uint64_t k = rest % GROUPS, n = c->layers[l].n;
            allowed &= k == 0 || ((k - 1) * FY_HOT_GROUP < n && k >= least / FY_HOT_GROUP);
            n_hot[l] = k * FY_HOT_GROUP < n ? k * FY_HOT_GROUP : n;
            sum += n_hot[l];
        }
        if (!allowed || sum > capacity)
            continue;
        const double found = worth(c, n_hot);
        best = found > best ? found : best;
    }
    return best;
}

static void the_choice_is_the_best_there_is(void **state)
{
    (void)state;
    fy_err e = {0};
    for (int round = 0; round < 40; round++) {
        uint64_t n[MOST_LAYERS], n_hot[MOST_LAYERS];
        const uint32_t n_layer = 1 + (uint32_t)random_below(MOST_LAYERS - 1);
        for (uint32_t l = 0; l < n_layer; l++)
            n[l] = round % 2 == 0 ? 256 * random_below(GROUPS) : 32 * random_below(32);
        const uint64_t capacity = random_below(3000), least = 256 * random_below(4);
        fy_neuron_counts c;
        make_counts(&c, n_layer, n);
        assert_int_equal(fy_hot_solve(&c, capacity, least, n_hot, &e), 0);
        uint64_t sum = 0;
        for (uint32_t l = 0; l < n_layer; l++) {
            assert_true(n_hot[l] <= n[l] && (n_hot[l] % FY_HOT_GROUP == 0 || n_hot[l] == n[l]));
            assert_true(n_hot[l] == 0 || n_hot[l] + FY_HOT_GROUP > least);
            sum += n_hot[l];
        }
        assert_true(sum <= capacity);
        assert_true(worth(&c, n_hot) == brute_force(&c, capacity, least));
        fy_neuron_counts_release(&c);
    }
}

/* Found by the reference for its counts (golden.json of the fixtures: splits_by_capacity). */
static void powerinfers_solver_chooses_the_same(void **state)
{
    (void)state;
    static const struct {
        uint64_t capacity, n_hot[4];
    } cases[] = {{0, {0, 0, 0, 0}},
                 {255, {0, 0, 0, 0}},
                 {256, {256, 0, 0, 0}},
                 {511, {256, 0, 0, 0}},
                 {1280, {512, 256, 0, 512}},
                 {2048, {768, 256, 256, 768}},
                 {3840, {1024, 1024, 768, 1024}},
                 {4096, {1024, 1024, 1024, 1024}},
                 {UINT64_MAX, {1024, 1024, 1024, 1024}}};
    fy_err e = {0};
    fy_neuron_counts c;
    assert_int_equal(fy_neuron_counts_open(&c, "tests/data/sparse/relu/activation", &e), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t n_hot[4];
        assert_int_equal(fy_hot_solve(&c, cases[i].capacity, 0, n_hot, &e), 0);
        for (int l = 0; l < 4; l++)
            assert_int_equal(n_hot[l], cases[i].n_hot[l]);
    }
    fy_neuron_counts_release(&c);
}

static void the_most_active_neurons_are_hot(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_neuron_counts c;
    fy_neuron_split s;
    const uint64_t n_hot[] = {3, 0};
    make_counts(&c, 2, (uint64_t[]){6, 2});
    for (int i = 0; i < 6; i++)
        c.layers[0].of[i] = (double[]){4, 9, 4, 1, 4, 7}[i];
    assert_int_equal(fy_hot_split(&c, n_hot, &s, &e), 0);
    assert_int_equal(s.layers[0].n, 6);
    assert_int_equal(s.layers[0].n_hot, 3);
    for (int i = 0; i < 3; i++) /* of three with 4 the first */
        assert_int_equal(s.layers[0].hot[i], ((int[]){0, 1, 5}[i]));
    assert_int_equal(s.layers[1].n_hot, 0);
    fy_neuron_split_release(&s);
    fy_neuron_counts_release(&c);
}

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_layer_counts layers[1] = {{UINT64_C(1) << 40, NULL}};
    const fy_neuron_counts c = {.n_layer = 1, .layers = layers};
    uint64_t n_hot[1];
    assert_int_equal(fy_hot_solve(&c, 1, 0, n_hot, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_the_best_there_is),
        cmocka_unit_test(powerinfers_solver_chooses_the_same),
        cmocka_unit_test(the_most_active_neurons_are_hot),
        cmocka_unit_test(what_is_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
